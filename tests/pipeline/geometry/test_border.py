# SPDX-License-Identifier: Apache-2.0
"""Vessels that the border of the image cuts: there the border is the opening, and no volume is lost on the way."""

import logging

import numpy as np
import pytest

from pipeline.case.settings.geometry import SurfaceSettings
from pipeline.case.settings.images import FilterSettings, SegmentSettings
from pipeline.files.volume import Volume
from pipeline.geometry.branches.border import beyond_border, border_sections, thin_sections
from pipeline.geometry.branches.ends import cut_and_cap
from pipeline.geometry.branches.openings import Cut
from pipeline.geometry.branches.picture import Scene
from pipeline.geometry.closed_surface import Surface
from pipeline.geometry.surface.volumes import share_lost
from pipeline.haemodynamics.shape_checks import of_shape
from pipeline.stages.filter import filter_volume
from pipeline.stages.segment import segment
from pipeline.stages.surface import extract_surface
from solver.runtime.errors import StageError
from tests.support.neighbours import aortic_slab
from tests.support.shapes import capped_cylinder
from tests.support.variants import some

LOG = logging.getLogger("test_border")


def extract(lumen: Volume, **keys) -> Surface:
    return extract_surface(lumen, SurfaceSettings(**keys), LOG)


def slab(seed: int) -> Volume:
    """A piece of an aorta between two borders of an image: radius 6 to 20 mm, 10 to 24 voxels across, 0.8 to 3 radii
    long, up to 45 degrees askew, with an aneurysm of up to a third more; between any two faces, in any orientation.
    """
    random = np.random.default_rng(seed)
    radius_mm, length = random.uniform(6, 20), random.uniform(0.8, 3)
    voxel_mm = radius_mm / random.uniform(5, 12)
    wide, thick = int(4.5 * radius_mm / voxel_mm), int(length * radius_mm / voxel_mm)
    tilt, turn = np.deg2rad(random.uniform(0, 45)), random.uniform(0, 2 * np.pi)
    axis = np.array([np.sin(tilt) * np.cos(turn), np.sin(tilt) * np.sin(turn), np.cos(tilt)])
    places = np.moveaxis(np.indices((thick, wide, wide))[::-1], 0, -1) * voxel_mm
    places = places - np.array([wide, wide, thick]) * voxel_mm / 2
    along = places @ axis
    wall = radius_mm * (1 + random.uniform(0, 0.35) * np.exp(-((along / (0.6 * radius_mm)) ** 2)))
    away = np.linalg.norm(places - along[..., None] * axis, axis=-1)
    part = np.clip((wall - away) / voxel_mm + 0.5, 0, 1).astype(np.float32)
    direction, _ = np.linalg.qr(random.normal(size=(3, 3)))
    direction[:, 2] *= np.linalg.det(direction)
    part = np.ascontiguousarray(np.moveaxis(part, 0, int(random.integers(3))))
    return Volume(part, (voxel_mm,) * 3, (3.0, -40.0, 120.0), direction)


def off_border(lumen: Volume, place_mm) -> float:
    """Distance of a place from the nearest face of the image, in voxels."""
    index, size = lumen.to_index(place_mm), np.array(lumen.voxels.shape[::-1])
    return float(np.minimum(np.abs(index + 0.5), np.abs(size - 0.5 - index)).min())


@pytest.mark.parametrize("seed", some(range(300, 306), 300, 302))
def test_a_slab_is_open_at_the_borders_and_keeps_its_volume(seed):
    lumen = slab(seed)
    surface = extract(lumen)
    assert len(surface.openings) == 2
    assert max(off_border(lumen, opening.centre_mm) for opening in surface.openings) < 1e-6
    true_mm3 = float(lumen.voxels.sum() * np.prod(lumen.spacing_mm))
    assert surface.mesh.volume_mm3() == pytest.approx(
        true_mm3, rel=0.015
    )  # 10 voxels across: 1 % is a twentieth of one
    assert share_lost(surface.quality) == 0


@pytest.mark.slow
def test_an_aorta_in_29_slices_is_open_at_both_borders_and_whole():
    """Of 254 HU, with thrombus, plaques and lung beside it; found from one seed. The cap lies in the plane of the first
    and last slice; voxels of the mask are in or out as a whole."""
    phantom = aortic_slab(1003)
    filtered = filter_volume(phantom.image, FilterSettings(spacing_mm=1.2))  # saves time
    lumen = segment(filtered, SegmentSettings(seeds_voxel=(phantom.seed,)), phantom.image, "CT")
    surface = extract(lumen.occupancy)
    assert len(surface.openings) == 2
    assert max(off_border(filtered, opening.centre_mm) for opening in surface.openings) < 1e-6
    assert surface.mesh.volume_mm3() == pytest.approx(surface.quality["mask_volume_mm3"], rel=0.01)


def test_an_end_at_the_border_that_is_closed_ends_there_as_wall():
    lumen = slab(300)
    first, last = extract(lumen).openings
    with pytest.raises(Exception, match=r"1 open ends found.*surface\.closed_mm asks for it"):
        extract(lumen, closed_mm=(first.centre_mm,))
    assert off_border(lumen, last.centre_mm) < 1e-6


def shaved(seed: int) -> Volume:
    """A straight vessel along a face of the image, which shaves off its side by 0.2 to 0.8 of its radius; its ends lie
    in the image.
    """
    random = np.random.default_rng(seed)
    radius = random.uniform(5, 9)
    z, y, x = np.indices((90, 40, 40))
    inside = np.hypot(x + 0.5 - random.uniform(0.2, 0.8) * radius, y - 20) < radius
    return Volume((inside & (np.abs(z - 45) < 36)).astype(np.uint8), (1.0, 1.0, 1.0), (0.0, 0.0, 0.0), np.eye(3))


@pytest.mark.parametrize("seed", some(range(3), 1))
def test_a_side_that_the_border_shaves_off_is_wall_and_is_reported(seed):
    lumen = shaved(seed)
    surface = extract(lumen)
    assert [abs(round(opening.normal[2])) for opening in surface.openings] == [1, 1]
    (contact,) = surface.quality["border"]
    assert not contact["opening"]
    assert contact["area_mm2"] == pytest.approx(np.count_nonzero(lumen.voxels[:, :, 0]))
    *others, side = of_shape(surface.quality, surface.openings)
    assert [(each["state"], each["value"]) for each in others] == [("good", pytest.approx(0, abs=1e-6))] * 3
    assert side["state"] != "good"
    assert side["value"] == pytest.approx(contact["area_mm2"] / surface.quality["wall_mm2"])


@pytest.mark.parametrize("beside_an_opening", [False, True])
def test_a_branch_that_the_border_cuts_and_that_is_too_thin_to_open_is_named(beside_an_opening):
    """Of 1.4 voxels in radius beside an outlet of 4: by Murray's law some 4 % of the flow. It may be cut by the face
    that the outlet leaves through, too.
    """
    z, y, x = np.indices((50, 24, 32 if beside_an_opening else 24))
    bend = np.where(z > 25, 9 + 0.6 * (z - 25), 9) if beside_an_opening else 9
    thin = np.hypot(x - 9, y - 12) if beside_an_opening else np.hypot(z - 25, y - 12)
    inside = (np.hypot(x - bend, y - 12) < 4) | ((thin < 1.5) & ((z > 25) if beside_an_opening else (x > 9)))
    surface = extract(Volume(inside.astype(np.uint8), (1.0, 1.0, 1.0), (0.0, 0.0, 0.0), np.eye(3)))
    assert len(surface.openings) == 2
    check = next(each for each in of_shape(surface.quality, surface.openings) if each["name"].startswith("flow of"))
    assert check["state"] == "reservation"
    assert 0.02 < check["value"] < 0.1
    assert "radius 1." in check["advice"]


def test_a_volume_that_is_cut_off_beyond_an_end_is_a_failed_check_that_says_where():
    """A vessel of 4 voxels that goes on for 55 as a tail of 1.8, which is too thin to be cut."""
    z, y, x = np.indices((140, 32, 32))
    inside = np.hypot(x - 16, y - 16) < np.interp(z, [72, 78], [4, 1.8])
    lumen = Volume((inside & (z > 8) & (z < 132)).astype(np.uint8), (1.0, 1.0, 1.0), (0.0, 0.0, 0.0), np.eye(3))
    surface = extract(lumen)
    quality = surface.quality
    (ends, *_) = of_shape(quality, surface.openings)
    assert ends["state"] != "good"
    assert ends["value"] > 0.05
    assert ends["value"] == pytest.approx(share_lost(quality))
    assert "cuts took off" in ends["advice"]


def test_a_strip_in_an_image_thinner_than_the_vessel_is_reported_without_a_fault():
    """Between its border and the vessel's end lie fewer layers than its half width."""
    z, y, x = np.indices((60, 40, 9))
    inside = (np.hypot(x + 4, y - 20) < 12) & (np.abs(z - 30) < 25)
    lumen = Volume(inside.astype(np.uint8), (1.0, 1.0, 1.0), (0.0, 0.0, 0.0), np.eye(3))
    ends, sides = border_sections(lumen, 1.0)
    assert (ends, len(sides)) == ([], 1)


def test_of_a_vessel_that_leaves_through_an_edge_one_face_is_the_opening():
    z, y, x = np.indices((60, 40, 40))
    inside = np.hypot(x - 20, (y - z + 10) / np.sqrt(2)) < 6  # leaves where z = 0 and y = 0 meet, and at y = 40
    lumen = Volume(inside.astype(np.uint8), (1.0, 1.0, 1.0), (0.0, 0.0, 0.0), np.eye(3))
    surface = extract(lumen)
    assert len(surface.openings) == 2
    assert max(off_border(lumen, opening.centre_mm) for opening in surface.openings) < 1e-6


def test_the_lumen_goes_on_beyond_the_border_as_it_is_there():
    lumen = slab(303)
    ends, sides = border_sections(lumen, 1.0)
    assert (len(ends), sides) == (2, [])
    longer = beyond_border(lumen, ends)
    low = np.rint(longer.to_index(lumen.to_mm((0, 0, 0)))).astype(int)[::-1]
    same = longer.voxels[tuple(slice(a, a + n) for a, n in zip(low, lumen.voxels.shape, strict=True))]
    np.testing.assert_array_equal(same, lumen.voxels)
    axis = ends[0].axis
    face, beyond = (np.take(longer.voxels, low[axis] + k, axis=axis) for k in (0, -1))
    np.testing.assert_array_equal(beyond, face)


def test_a_border_that_cuts_no_single_vessel_is_refused_without_advice_on_cuts_elsewhere():
    mesh, _ = capped_cylinder((0, 0, 1), 2.0, 12.0, segments=32)
    missing = Cut(np.array([0.0, 0.0, 50.0]), np.array([0.0, 0.0, 1.0]))
    with pytest.raises(StageError, match=r"border of the image at \(0\.0, .*cut_planes.*filter\.region_mm") as said:
        cut_and_cap(mesh, missing, 0, [missing], Scene(), at_border=True)
    assert not {"cut_radii", "closed_mm"} & set(str(said.value).replace(".", " ").split())


def touching(seed: int) -> Volume:
    """Two vessels side by side that touch, between two borders of an image, where they come apart or stay together."""
    random = np.random.default_rng(seed)
    radius, thick = random.uniform(5, 8), int(random.uniform(30, 50))
    wide, turn = int(7 * radius), random.uniform(0, 2 * np.pi)
    z, y, x = np.indices((thick, wide, wide)) - (np.array([thick, wide, wide]) / 2)[:, None, None, None]
    across, out = np.cos(turn) * x + np.sin(turn) * y, np.cos(turn) * y - np.sin(turn) * x
    apart = radius * (random.uniform(0.8, 0.9) + random.uniform(-0.1, 0.15) * (2 * z / thick) ** 2)
    out = out + random.uniform(-0.4, 0.4) * z
    away = np.minimum(np.hypot(across - apart, out), np.hypot(across + apart, out))
    return Volume(np.clip(radius - away + 0.5, 0, 1).astype(np.float32), (0.4,) * 3, (0.0, 0.0, 0.0), np.eye(3))


@pytest.mark.parametrize("seed", some(range(4), 3))
def test_vessels_that_leave_through_one_section_have_one_opening_there(seed):
    lumen = touching(seed)
    surface = extract(lumen)
    faces = [round(float(lumen.to_index(opening.centre_mm)[2]) / lumen.voxels.shape[0]) for opening in surface.openings]
    assert set(faces) == {0, 1}
    assert sorted(np.unique(surface.mesh.opening)) == list(range(len(faces) + 1))
    assert surface.mesh.volume_mm3() == pytest.approx(lumen.voxels.sum() * 0.4**3, rel=0.02)


def narrowed(seed: int, least: float = 1.3, most: float = 1.9) -> tuple[Volume, float]:
    """A vessel of 4 to 7 voxels in radius that narrows to some a good way before a face of the image cuts it, up to 40
    degrees askew; and its area there.
    """
    random = np.random.default_rng(seed)
    wide, narrow, tilt = random.uniform(4, 7), random.uniform(least, most), np.deg2rad(random.uniform(0, 40))
    turn, axis = random.uniform(0, 2 * np.pi), int(random.integers(3))
    along = np.array([np.sin(tilt) * np.cos(turn), np.sin(tilt) * np.sin(turn), np.cos(tilt)])
    size, length = 90, 10 + 8 * wide
    places = np.moveaxis(np.indices((int(length + 14), size, size))[::-1], 0, -1) - np.array([size / 2, size / 2, -0.5])
    way = places @ along
    radius = np.interp(way, [10, 10 + wide], [narrow, wide])
    away = np.linalg.norm(places - way[..., None] * along, axis=-1)
    part = np.clip(radius - away + 0.5, 0, 1) * (way < length)
    part = np.ascontiguousarray(np.moveaxis(part, 0, axis).astype(np.float32))
    return Volume(part, (1.0, 1.0, 1.0), (0.0, 0.0, 0.0), np.eye(3)), np.pi * narrow**2 / np.cos(tilt)


@pytest.mark.parametrize("seed", some(range(8), 5))
def test_a_vessel_that_narrows_is_open_at_the_border_that_cuts_it(seed):
    """Its opening stood where two voxels in radius were left, and what it went on for was lost."""
    lumen, area_mm2 = narrowed(seed)
    surface = extract(lumen)
    assert len(surface.openings) == 2
    opening = min(surface.openings, key=lambda each: off_border(lumen, each.centre_mm))
    assert off_border(lumen, opening.centre_mm) < 1e-6
    assert opening.area_mm2 == pytest.approx(area_mm2, rel=0.25)  # a tenth of its radius is a seventh of a voxel
    assert share_lost(surface.quality) < 1e-3
    without = extract(lumen, min_radius_mm=2.0)  # as thin vessels stay closed, it is open where it is wide
    assert share_lost(without.quality) > 0.01


def test_a_section_that_smoothing_took_away_is_none_of_the_surface():
    """The plane of the border cut nothing there, and the vessel was refused for an opening of two pixels."""
    lumen, _ = narrowed(0)
    (section,) = thin_sections(lumen, 1.0, [])
    radius = np.sqrt(section.area_mm2 / np.pi)
    for part, aside, cut in ((1.0, 0.0, True), (0.6, 0.0, False), (1.0, 3 * radius, False)):
        place = section.cut.centre_mm + np.array([aside, 0.0, 0.0])
        pipe, _ = capped_cylinder(section.cut.normal, part * radius, 20.0, tuple(place))
        assert section.cuts(pipe) is cut
    assert thin_sections(lumen, 1.0, [section]) == []
