# SPDX-License-Identifier: Apache-2.0
"""Laws of the seeds: the same place however it is given, and one clear message for what is not usable."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.case.settings.images import FilterSettings, SegmentSettings, VoxelBox
from pipeline.segmentation.seeds import background_places, place_seeds, read_markups, seed_places
from pipeline.stages.filter import filter_volume
from solver.runtime.errors import StageError
from tests.support.vessels import oblique, tube_volume

SECRET = "Doe^Jane"
coordinates = st.floats(-1e4, 1e4, allow_nan=False)
points = st.lists(st.tuples(coordinates, coordinates, coordinates), min_size=1, max_size=5)


def markup(*positions, **keys) -> dict:
    """A node as 3D Slicer writes it."""
    control = [{"id": str(n), "label": SECRET, "position": list(p)} for n, p in enumerate(positions)]
    return {"type": "Fiducial", "coordinateSystem": "LPS", "coordinateUnits": "mm", "controlPoints": control} | keys


def write(folder: Path, *nodes) -> Path:
    path = folder / f"{SECRET}.mrk.json"
    path.write_text(json.dumps({"@schema": "markups-schema-v1.0.3.json#", "markups": list(nodes)}))
    return path


@given(points=points, system=st.sampled_from(["LPS", "RAS", 0, 1]))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_markups_come_back_in_lps_whatever_system_they_were_saved_in(points, system, tmp_path_factory):
    turn = np.array([-1, -1, 1]) if system in ("RAS", 0) else np.ones(3)
    path = write(tmp_path_factory.mktemp("m"), markup(*(np.array(points) * turn).tolist(), coordinateSystem=system))
    np.testing.assert_array_equal(read_markups(path), points)


def test_all_point_lists_and_curves_are_read_and_points_not_placed_are_passed_over(tmp_path):
    half_placed = markup((1, 2, 3), (4, 5, 6), (7, 8, 9))
    half_placed["controlPoints"][1] |= {"positionStatus": "undefined"}
    half_placed["controlPoints"][2] = {"positionStatus": "preview"}
    curve = markup((10, 20, 30), type="Curve", coordinateSystem="RAS", coordinateUnits=["mm", "UCUM", "millimeter"])
    assert read_markups(write(tmp_path, half_placed, curve)) == [(1, 2, 3), (-10, -20, 30)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe\x00", "no markups file"),
        (b"{", "no markups file"),
        (b'{"points": []}', "no markups file"),
        (b"[1, 2]", "no markups file"),
        (b'{"markups": [3]}', "no markups file"),
        (b'{"markups": []}', "no placed point"),
        ({"type": "Plane"}, "type Plane"),
        ({"type": SECRET}, "an unknown type"),
        ({"coordinateSystem": "IJK"}, "neither LPS nor RAS"),
        ({"coordinateUnits": "cm"}, "not in mm"),
        ({"controlPoints": [{"position": [1, 2]}]}, "not three numbers"),
        ({"controlPoints": [{"position": [1, 2, float("nan")]}]}, "not three numbers"),
        ({"controlPoints": [{"position": [1, 2, True]}]}, "not three numbers"),
        ({"controlPoints": [{}]}, "not three numbers"),
        ({"controlPoints": [5]}, "no object"),
        ({"controlPoints": []}, "no placed point"),
    ],
)
def test_a_file_that_is_not_usable_is_refused_without_its_text(tmp_path, content, message):
    if isinstance(content, bytes):
        path = tmp_path / f"{SECRET}.json"
        path.write_bytes(content)
    else:
        path = write(tmp_path, markup((1, 2, 3), **content))
    with pytest.raises(StageError, match=message) as refusal:
        read_markups(path)
    assert SECRET not in str(refusal.value)


def test_seeds_in_mm_voxels_and_markups_are_the_same_places_of_an_oblique_image(tmp_path):
    """Voxels count on the loaded volume, whatever the filter cut and resampled."""
    loaded = tube_volume(direction=oblique((35.0, -20.0, 110.0)))
    region = VoxelBox(low=(3, 10, 2), high=(40, 50, 26))
    filtered = filter_volume(loaded, FilterSettings(region_voxels=region, spacing_mm=0.33))
    voxel = (22, 31, 10)
    point = tuple(loaded.to_mm(voxel).tolist())
    file = write(tmp_path, markup((-point[0], -point[1], point[2]), coordinateSystem="RAS"))
    given_ = SegmentSettings(
        seeds_mm=(point,), seeds_voxel=(voxel,), seeds_file=str(file), background_voxel=(voxel,), lower=0
    )
    seeds = place_seeds(seed_places(given_, loaded), filtered, loaded)
    (background,) = place_seeds(background_places(given_, loaded), filtered, loaded)
    assert [seed.name.split(".")[1] for seed in seeds] == ["seeds_mm[0]", "seeds_voxel[0]", "seeds_file[0]"]
    assert {seed.index for seed in seeds} == {background.index}
    # the nearest voxel is at most half a diagonal away
    assert np.linalg.norm(filtered.to_mm(background.index) - loaded.to_mm(voxel)) <= 0.33 * np.sqrt(3) / 2


@pytest.mark.parametrize(
    ("voxel", "message"),
    [
        ((30, 20, 40), r"seeds_voxel\[0\] = \[30, 20, 40\].*outside the loaded volume.*42 x 65 x 28"),
        ((30, 20, 27), r"outside the region of interest.*widen filter.region"),
    ],
)
def test_a_seed_outside_is_refused_with_the_reach(voxel, message):
    loaded = tube_volume()
    region = VoxelBox(low=(0, 0, 0), high=(42, 65, 20))
    filtered = filter_volume(loaded, FilterSettings(smoothing="none", region_voxels=region))
    with pytest.raises(StageError, match=message):
        place_seeds(seed_places(SegmentSettings(seeds_voxel=(voxel,)), loaded), filtered, loaded)
