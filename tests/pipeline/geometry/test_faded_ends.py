# SPDX-License-Identifier: Apache-2.0
"""An end at which contrast fades keeps its volume in a tube that lies in the vessel; one that tapers does not; what the
image does not resolve of a tail is told apart; what nobody wants is no loss."""

import json
import logging
import re

import numpy as np
import pytest
from scipy import ndimage

from pipeline.case.settings.geometry import SurfaceSettings
from pipeline.files.volume import Volume
from pipeline.geometry.branches.faded_ends import LumenImage
from pipeline.geometry.branches.openings import Cut
from pipeline.geometry.closed_surface import Surface
from pipeline.geometry.surface.clip import check_closed
from pipeline.geometry.surface.volumes import MOST_LOST, asked_for, loss_in_words, share_lost
from pipeline.segmentation.region_growing import occupancy
from pipeline.stages import surface
from pipeline.stages.surface import extract_surface
from solver.runtime.provenance import Job
from tests.support.tubes import grid_around, line, near_curve, rotation, voxel_places
from tests.support.variants import some

LOG = logging.getLogger("faded")
TISSUE, BLOOD, LOWER = 50.0, 450.0, 250.0
LENGTH_MM = 100.0


def imaged(points: np.ndarray, radius_mm: float | np.ndarray, gradient: np.ndarray, seed: int) -> Volume:
    """A vessel whose contrast falls along the gradient, a part of it a mm, from its middle to the end; with noise."""
    grid = grid_around(points, 12.0, seed=seed)
    places = voxel_places(grid) - points.mean(axis=0)
    bright = 1.05 - np.maximum(places @ gradient, 0)
    blood = near_curve(grid, points, radius_mm) * (BLOOD - TISSUE) * bright
    noise = np.random.default_rng(seed).normal(0, 12, blood.shape)
    return grid.with_voxels((TISSUE + ndimage.gaussian_filter(blood, 0.7) + noise).astype(np.float32))


def lumen_of(image: Volume) -> tuple[Volume, float]:
    """What is brighter than a threshold, and its volume."""
    label, _ = ndimage.label(ndimage.gaussian_filter(image.voxels, 0.5) > LOWER)
    mask = ndimage.binary_fill_holes(label == np.bincount(label[label > 0]).argmax())
    return image.with_voxels(occupancy(image.voxels, mask, LOWER, BLOOD - TISSUE)), float(mask.sum())


def surface_of(image: Volume, seen: bool, spacing_mm: float = 1.0, **keys: object) -> Surface:
    """The surface of what is brighter than a threshold; with the image itself, or without."""
    lumen, volume_mm3 = lumen_of(image)
    by = LumenImage(lambda: image, TISSUE, (spacing_mm,) * 3) if seen else None
    return extract_surface(lumen, SurfaceSettings(**keys), LOG, volume_mm3, by)


def loss(surface: Surface) -> float:
    return share_lost(surface.quality)


@pytest.mark.parametrize("seed", some(range(6), 3))
def test_an_end_at_which_contrast_fades_keeps_its_volume_within_the_vessel(seed):
    """A wedge was cut off there, up to a twentieth of the vessel: brightness falls along it, and across."""
    rng = np.random.default_rng(seed)
    axis, sideways, radius = rotation(seed)[:, 0], rotation(seed)[:, 1], rng.uniform(5.0, 8.0)
    points = line(LENGTH_MM, seed)
    image = imaged(points, radius, axis / rng.uniform(55, 75) + sideways / rng.uniform(40, 60), seed)
    without, kept = (surface_of(image, seen) for seen in (False, True))
    assert loss(without) > MOST_LOST
    assert loss(kept) < 0.3 * loss(without)
    check_closed(kept.mesh)
    (end,) = (each for each in kept.quality["cut_ends"] if each["place_mm"] @ axis > 60)
    assert end["tube_mm"] > 0.3 * radius
    opening = max(kept.openings, key=lambda each: np.array(each.centre_mm) @ axis)
    assert opening.normal @ axis > np.cos(np.radians(12))
    along = kept.mesh.points_mm @ axis
    aside = np.linalg.norm(kept.mesh.points_mm - along[:, None] * axis, axis=1)
    assert aside.max() < radius + 0.7  # of a voxel
    assert along.max() < LENGTH_MM


@pytest.mark.parametrize(("fades_by", "narrows_to", "reach_mm"), [(0.4, 1.0, 18.0), (0.8, 1.0, 11.25), (0.4, 0.7, 0.0)])
def test_a_vessel_goes_on_as_far_as_it_is_as_wide_by_the_levels_of_each_place(fades_by, narrows_to, reach_mm):
    """Over three radii; once that counted as rim which was dimmer than half of the blood before it."""
    z, y, x = np.indices((60, 24, 24))
    beyond = np.clip((z - 30) / 18, 0, 1)
    inside = np.clip(6 * np.where(beyond > 0, narrows_to, 1) - np.hypot(x - 12, y - 12) + 0.5, 0, 1)
    blood = (BLOOD - TISSUE) * (1 - fades_by * beyond) * inside
    image = Volume((TISSUE + blood).astype(np.float32), (1.0, 1.0, 1.0), (0.0, 0.0, 0.0), np.eye(3))
    cut = Cut(np.array([12.0, 12.0, 30.0]), np.array([0.0, 0.0, 1.0]))
    seen = LumenImage(lambda: image, TISSUE, (1.0, 1.0, 1.0))
    assert seen.goes_on_mm(cut, 6.0, 18.0) == pytest.approx(reach_mm, abs=1.3)  # a section


@pytest.mark.parametrize("seed", some(range(4), 1))
def test_an_end_that_tapers_is_cut_with_its_image_as_without(seed):
    axis = rotation(seed)[:, 0]
    radii = 7.0 * np.clip((LENGTH_MM - np.linspace(0, LENGTH_MM, 50)) / 28, 0.12, 1.0)
    image = imaged(line(LENGTH_MM, seed), radii, 0 * axis, seed)
    without, seen = (surface_of(image, seen) for seen in (False, True))
    assert loss(seen) > MOST_LOST
    np.testing.assert_array_equal(without.mesh.points_mm, seen.mesh.points_mm)


@pytest.mark.parametrize("seed", some(range(4), 2))
def test_a_thin_tail_is_apart_and_a_finer_image_makes_it_a_loss(seed):
    points, radii = line(LENGTH_MM, seed), np.interp(np.arange(50), [0, 30, 31, 49], [5, 5, 1.7, 1.7])
    image = imaged(points, radii, 0 * points[0], seed)
    coarse, fine = (surface_of(image, True, spacing_mm) for spacing_mm in (2.5, 0.5))
    (tail,) = (end for end in coarse.quality["cut_ends"] if "thin_mm3" in end)
    whole_mm3 = coarse.quality["mask_volume_mm3"]
    assert loss(fine) - loss(coarse) == pytest.approx(tail["thin_mm3"] / whole_mm3, rel=0.05)
    assert loss(coarse) > MOST_LOST  # what narrows before it is a loss in both
    length_mm = LENGTH_MM * 18 / 49
    assert tail["thin_mm3"] == pytest.approx(np.pi * 1.7**2 * length_mm, rel=0.3)
    assert tail["thin_radius_mm"] == pytest.approx(1.7, abs=0.4)
    assert tail["thin_mm"] == pytest.approx(length_mm, rel=0.2)
    assert tail["thin_mm3"] < tail["volume_mm3"]
    np.testing.assert_array_equal(coarse.mesh.points_mm, fine.mesh.points_mm)


def test_pixels_across_a_vessel_hang_on_its_direction():
    """Across slices of 3 mm a section is shown by the pixels of one of them; along a slice by strips of 3 mm."""
    turn = rotation(4)
    image = LumenImage(lambda: Volume(np.zeros((2, 2, 2)), (0.5, 0.5, 0.5), (0, 0, 0), turn), 0.0, (0.5, 0.5, 3.0))
    half = np.sqrt(0.5)
    across, along, between = image.pixels_mm(np.array([[0, 0, 1], [1, 0, 0], [half, 0, half]]) @ turn.T)
    assert across == pytest.approx(0.5)
    assert along == pytest.approx(np.sqrt(0.5 * 3.0))
    assert across < between < along


def test_the_ends_that_the_advice_names_are_no_loss_and_the_surface_stays():
    axis = rotation(5)[:, 0]
    radii = 7.0 * np.clip((LENGTH_MM - np.linspace(0, LENGTH_MM, 50)) / 28, 0.12, 1.0)
    image = imaged(line(LENGTH_MM, 5), radii, 0 * axis, 5)
    lost = surface_of(image, True)
    said = loss_in_words(lost.quality, loss(lost))
    assert re.search(r"at most 2 %\): [\d.]+ mL at \(", said)
    places = json.loads(said.split("surface.cut_off_mm: ")[1])
    asked = surface_of(image, True, cut_off_mm=places)
    assert loss(asked) < MOST_LOST
    np.testing.assert_array_equal(asked.mesh.points_mm, lost.mesh.points_mm)


def test_a_place_asks_for_all_that_its_nearest_end_lost_alone():
    ends = [{"place_mm": [x, 0.0, 0.0], "volume_mm3": 10.0 + x, "asked_mm3": 2.0} for x in (0.0, 50.0)]
    assert [end["asked_mm3"] for end in asked_for(ends, [(45.0, 3.0, 0.0)])] == [2.0, 60.0]
    assert asked_for(ends, []) == ends
    assert asked_for([], [(0.0, 0.0, 0.0)]) == []


def test_the_stage_looks_into_the_image_that_it_is_given(tmp_path):
    axis, sideways = rotation(3)[:, 0], rotation(3)[:, 1]
    image = imaged(line(LENGTH_MM, 3), 6.0, axis / 65 + sideways / 50, 3)
    lumen, volume_mm3 = lumen_of(image)
    files = {name: tmp_path / f"{name}.nrrd" for name in ("occupancy", "filtered")}
    lumen.write(files["occupancy"])
    image.write(files["filtered"])
    files["segmentation"] = tmp_path / "segmentation.json"
    record = {"volume_ml": volume_mm3 / 1000, "surroundings_level": TISSUE, "image_spacing_mm": [1.0, 1.0, 1.0]}
    files["segmentation"].write_text(json.dumps(record))
    lost = []
    for names in (("occupancy", "segmentation"), ("occupancy", "segmentation", "filtered")):
        outputs = {"surface": tmp_path / "surface.vtp", "openings": tmp_path / "openings.json"}
        surface._compute(Job("surface", {name: files[name] for name in names}, outputs, {}, LOG))
        lost.append(share_lost(json.loads(outputs["openings"].read_text())["quality"]))
    assert lost[1] < MOST_LOST < lost[0]
