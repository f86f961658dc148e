# SPDX-License-Identifier: Apache-2.0
"""Blunt ends keep their volume and their openings; ends that taper stay cut off; a tube goes along its bend."""

import json
import logging
import re

import numpy as np
import pytest

from pipeline.case.settings.geometry import SurfaceSettings
from pipeline.case.vessel import Branch, BranchShape, coverage
from pipeline.files.volume import Volume
from pipeline.geometry.branches.openings import _cut_at, _Limits, _Section
from pipeline.geometry.branches.tips import Tip, with_whole_tips
from pipeline.geometry.closed_surface import Surface
from pipeline.geometry.surface.clip import check_closed
from pipeline.geometry.surface.extension import extend
from pipeline.geometry.surface.volumes import loss_in_words, share_lost
from pipeline.stages.surface import extract_surface
from tests.support.shapes import capped_cylinder
from tests.support.tubes import arc, rotation
from tests.support.variants import some

LOG = logging.getLogger("tips")


def tube(points: np.ndarray, radii: np.ndarray, spacing: float = 1.0) -> tuple[Volume, float]:
    """Part of each voxel that lies in a tube with flat ends, in the frame of the tube, and its volume."""
    shape = BranchShape(name="tube", points_mm=points.tolist(), radii_mm=radii.tolist(), start="first", end="last")
    half = np.abs(points).max(axis=0) + radii.max() + 6 * spacing
    size = tuple(int(n) for n in 2 * np.ceil(half / spacing) + 1)
    part = coverage(Branch(shape).distance_mm, size, (spacing,) * 3)
    first = -(np.array(size) - 1) / 2 * spacing
    return Volume(part, (spacing,) * 3, tuple(first), np.eye(3)), float(part.sum(dtype=float)) * spacing**3


def extract(lumen: Volume, volume_mm3: float, **keys: object) -> Surface:
    return extract_surface(lumen, SurfaceSettings(**keys), LOG, volume_mm3)


@pytest.mark.parametrize("seed", some(range(8), 3, 5))
def test_a_tube_with_blunt_ends_is_whole_to_its_ends(seed):
    """Its openings stood 0.6 to 1.6 radii before its ends, and each cost 0.9 pi r3."""
    rng = np.random.default_rng(seed)
    radius = rng.uniform(2.5, 8.0)
    axis = rotation(seed)[:, 0]
    points = np.linspace(-6, 6, 12)[:, None] * radius * axis
    lumen, volume_mm3 = tube(points, np.full(12, radius))
    surface = extract(lumen, volume_mm3)
    check_closed(surface.mesh)
    assert surface.mesh.volume_mm3() == pytest.approx(volume_mm3, rel=1e-3)
    assert [end["tube_mm"] < radius for end in surface.quality["cut_ends"]] == [True, True]
    for opening in surface.openings:
        centre = np.array(opening.centre_mm)
        assert abs(abs(centre @ axis) - 6 * radius) < 0.5  # voxels are 1 mm
        assert np.linalg.norm(centre - centre @ axis * axis) < 0.35
        assert abs(np.array(opening.normal) @ axis) > np.cos(np.radians(7))
        assert opening.area_mm2 == pytest.approx(np.pi * radius**2, rel=0.08)
    settings = {"cut_radii": 0.5}  # as far from the tip as is asked for
    assert extract(lumen, volume_mm3, **settings).mesh.volume_mm3() < volume_mm3 - 0.9 * np.pi * radius**3


@pytest.mark.parametrize("seed", some(range(4), 2))
def test_an_end_that_tapers_stays_cut_off_where_it_is_wide(seed):
    radius = np.random.default_rng(seed).uniform(3.0, 7.0)
    axis = rotation(seed)[:, 0]
    along = np.linspace(-7, 7, 29) * radius
    radii = radius * np.clip((7 * radius - along) / (4 * radius), 0.12, 1.0)  # from 3 to 7 radii
    lumen, volume_mm3 = tube(along[:, None] * axis, radii)
    surface = extract(lumen, volume_mm3)
    tapered = max(surface.openings, key=lambda opening: np.array(opening.centre_mm) @ axis)
    assert np.array(tapered.centre_mm) @ axis < 3.6 * radius
    assert tapered.area_mm2 == pytest.approx(np.pi * radius**2, rel=0.1)
    (end,) = (end for end in surface.quality["cut_ends"] if end["volume_mm3"] > 1)
    assert "tube_mm" not in end
    cone_mm3 = np.pi * radius**3 * 4 * (1 + 0.12 + 0.12**2) / 3
    assert end["volume_mm3"] == pytest.approx(cone_mm3, rel=0.2)
    share = share_lost(surface.quality)
    assert share == pytest.approx(cone_mm3 / volume_mm3, rel=0.2)
    advice = re.search(r"say so: surface\.cut_off_mm: (\[.+\])$", loss_in_words(surface.quality, share))
    assert share_lost(extract(lumen, volume_mm3, cut_off_mm=json.loads(advice.group(1))).quality) < 1e-3


@pytest.mark.parametrize("seed", some(range(6), 1, 3))
def test_an_opening_at_the_end_of_a_bend_lies_across_it(seed):
    """A straight tube on the cut would turn aside by the bend, 10 degrees and more."""
    rng = np.random.default_rng(seed)
    radius, bend = rng.uniform(3.0, 6.0), rng.uniform(3.5, 5.0)
    points = arc(bend * radius, 2.2, seed)
    lumen, volume_mm3 = tube(points - points.mean(axis=0), np.full(len(points), radius))
    surface = extract(lumen, volume_mm3)
    assert surface.mesh.volume_mm3() == pytest.approx(volume_mm3, rel=2e-3)
    for row, sign in ((0, -1), (-1, 1)):
        place, along = points[row] - points.mean(axis=0), sign * np.gradient(points, axis=0)[row]
        opening = min(surface.openings, key=lambda each: np.linalg.norm(np.array(each.centre_mm) - place))
        assert np.linalg.norm(np.array(opening.centre_mm) - place) < 0.15 * radius
        assert np.array(opening.normal) @ along / np.linalg.norm(along) > np.cos(np.radians(8))


def test_a_tube_that_goes_along_an_arc_has_the_volume_of_its_middle_line():
    mesh = capped_cylinder((1, 2, 3), 2.0, 12.0, segments=64)[0]
    cap = mesh.opening == 1
    normal = mesh.area_vectors_mm2()[cap].sum(axis=0)
    area, normal = np.linalg.norm(normal), normal / np.linalg.norm(normal)
    sideways = np.cross(normal, [1.0, 0, 0])
    bend = sideways / np.linalg.norm(sideways) / 8.0  # a radius of 8 mm
    longer = extend(mesh, 1, 4.0, bend)
    check_closed(longer)
    grown = longer.volume_mm3() - mesh.volume_mm3()
    assert grown == pytest.approx(4.0 * area, rel=2e-3)  # Pappus; facets along the arc are chords
    turned = longer.area_vectors_mm2()[longer.opening == 1].sum(axis=0)
    assert np.linalg.norm(turned) == pytest.approx(area)
    np.testing.assert_allclose(turned / area, np.cos(0.5) * normal + np.sin(0.5) * 8 * bend, atol=1e-9)


def test_a_tube_that_would_meet_the_wall_is_left_out():
    mesh = capped_cylinder((1, 2, 3), 2.0, 12.0, segments=64)[0]
    normal = mesh.area_vectors_mm2()[mesh.opening == 1].sum(axis=0)
    bend = np.cross(normal, [1.0, 0, 0])
    record = {"place_mm": [0.0, 0.0, 0.0], "volume_mm3": 600.0}
    tip = Tip(1, 600.0, bend / np.linalg.norm(bend) / 4.0, record)  # 48 mm along a circle of 25 mm meets itself
    assert with_whole_tips(mesh, [tip], LOG) is mesh
    assert record == {"place_mm": [0.0, 0.0, 0.0], "volume_mm3": 600.0}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("alone", "placed"), [(1, False), (2, True), (6, True)])
def test_a_cut_needs_two_sections_before_the_vessel_merges(alone, placed):
    """Of one section the line behind was divided by its length of 0, and of two a parabola was fitted."""
    axis, radius = rotation(3)[:, 0], 4.0
    lumen, _ = tube(np.linspace(-6, 6, 12)[:, None] * radius * axis, np.full(12, radius))
    field = lumen.with_voxels(lumen.voxels - 0.5)
    area = np.pi * radius**2
    sections = [_Section(area, 0.25 * n * radius * axis, 1.0, n < alone) for n in range(8)]
    cut = _cut_at(field, sections, 0, radius, _Limits(0.0, 0.7, 1.0))
    assert (cut is not None) == placed
    if cut is not None:
        assert cut.normal @ axis == pytest.approx(-1)
