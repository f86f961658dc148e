# SPDX-License-Identifier: Apache-2.0
"""The surface is closed, true to the mask, and open exactly where the vessel is."""

import ast
import json
import logging
import re
import subprocess
import sys

import numpy as np
import pytest
import SimpleITK as sitk
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import special

from pipeline.case.settings.geometry import OpeningSettings, SurfaceSettings
from pipeline.files.enclosed import enclosed_voxels
from pipeline.files.mesh import Mesh, read_openings
from pipeline.files.volume import Volume
from pipeline.geometry.surface.clip import check_closed
from pipeline.geometry.surface.quality import triangle_quality
from pipeline.stages.surface import extract_surface, volume_of
from solver.runtime.errors import StageError
from tests.support.advice import advised
from tests.support.tubes import (
    FORK,
    SAC_MM,
    SAC_RADIUS_MM,
    arc,
    crossing,
    crossing_axis,
    fork,
    line,
    tube,
    voxel_places,
)
from tests.support.variants import some

LOG = logging.getLogger("test")


def extract(lumen, **keys):
    return extract_surface(lumen, SurfaceSettings(**keys), LOG)


@pytest.fixture(scope="module")
def forked():
    """The surface of a fork, which several tests look at."""
    return extract(fork(seed=1))


@pytest.fixture(scope="module")
def straight():
    """A straight tube of 4 voxels' radius along a line, and its surface."""
    lumen = tube(line(40, seed=6), 4.0, seed=3)
    return lumen, extract(lumen)


def angle_deg(a, b):
    return np.degrees(np.arccos(np.clip(np.abs(np.dot(a, b)), 0, 1)))


def true_place(points, opening):
    """Distance of an opening's centre from a curve, and angle of its normal to the curve there, mm and degrees."""
    points = np.asarray(points)
    tangents = np.gradient(points, axis=0)
    place = np.linspace(0, len(points) - 1, 50 * len(points))
    fine = np.stack([np.interp(place, np.arange(len(points)), points[:, k]) for k in range(3)], axis=1)
    distance = np.linalg.norm(fine - opening.centre_mm, axis=1)
    tangent = tangents[round(place[distance.argmin()])]
    return distance.min(), angle_deg(tangent / np.linalg.norm(tangent), opening.normal)


def longer(points, by_mm):
    """A curve that goes on straight at its ends: the openings lie where the round tips of a mask end, about."""
    ends = [points[0] - points[1], points[-1] - points[-2]]
    first, last = (by_mm * end / np.linalg.norm(end) for end in ends)
    return np.concatenate([[points[0] + first], points, [points[-1] + last]])


# Radii from 2.5 voxels: steps of the voxels turn a thin vessel's tangent by up to 7 degrees and change a single
# section's area by up to 8 %; from 4 voxels on they are half of that. Curvature adds a degree.
SHAPES = {
    "thin line": (line(40, seed=5), longer(line(40, seed=5), 4), 2.5, 7.0, 0.04),
    "line": (line(40, seed=6), longer(line(40, seed=6), 4), 4.0, 4.0, 0.03),
    "thick line": (line(50, seed=7), longer(line(50, seed=7), 6), 6.0, 4.0, 0.03),
    "arc": (arc(16, 2.8, seed=8), arc(16, 2.8, seed=8, beyond=0.4), 4.0, 5.0, 0.03),
    "wide arc": (arc(24, 2.5, seed=9), arc(24, 2.5, seed=9, beyond=0.4), 6.0, 5.0, 0.03),
}


@pytest.mark.parametrize("shape", some(SHAPES, "thin line", "wide arc"))
def test_a_tube_has_two_openings_where_it_ends(shape):
    points, axis, radius, degrees, fraction = SHAPES[shape]
    lumen = tube(points, radius, seed=2)
    surface = extract(lumen)
    assert [opening.role for opening in surface.openings].count("inlet") == 1
    assert len(surface.openings) == 2
    for opening in surface.openings:
        off_mm, off_deg = true_place(axis, opening)
        assert off_mm < 0.35  # voxels are 1 mm
        assert off_deg < degrees
        assert opening.radius_mm == pytest.approx(radius, rel=fraction)
    tips = [
        min(np.linalg.norm(np.array(o.centre_mm) - tip) for tip in (points[0], points[-1])) for o in surface.openings
    ]
    assert max(tips) < 1.5 * radius  # the cut takes little of the vessel
    assert {
        int(np.argmin([np.linalg.norm(np.array(o.centre_mm) - p) for p in (points[0], points[-1])]))
        for o in surface.openings
    } == {0, 1}


@pytest.mark.parametrize("spacing", some([0.4, 1.0], 0.4))
def test_volume_is_that_of_the_mask_and_of_the_true_vessel(spacing):
    points, radius = line(40 * spacing, seed=6), 4.0 * spacing
    lumen = tube(points, radius, spacing, seed=3)
    surface = extract(lumen)
    assert abs(surface.quality["volume_change"]) < 1e-5  # the level of the field is solved for
    assert surface.mesh.volume_mm3() == pytest.approx(volume_of(lumen), rel=1e-3)  # its round tips became tubes
    a, b = (np.array(opening.centre_mm) for opening in surface.openings)
    assert surface.mesh.volume_mm3() == pytest.approx(np.pi * radius**2 * np.linalg.norm(a - b), rel=0.02)


def test_wall_lies_on_the_true_wall(straight):
    points, radius = line(40, seed=6), 4.0
    _, surface = straight
    wall = surface.mesh.points_mm[np.unique(surface.mesh.triangles[surface.mesh.opening == 0])]
    axis = points[-1] / np.linalg.norm(points[-1])
    distance = np.linalg.norm(wall - (wall @ axis)[:, None] * axis, axis=1)
    assert distance.mean() == pytest.approx(radius, rel=0.01)
    assert np.abs(distance - radius).max() < 0.35  # half a voxel is what the mask itself is off


def test_thin_and_thick_vessels_keep_their_radii_side_by_side():
    """One Gaussian would take 3 % of the radius of the thin end and 0.5 % of the thick one's."""
    points = line(90, seed=4)
    radii = np.linspace(3.0, 8.0, len(points))
    surface = extract(tube(points, radii, seed=4))
    axis = points[-1] / np.linalg.norm(points[-1])
    wall = surface.mesh.points_mm
    along = wall @ axis
    error = np.linalg.norm(wall - along[:, None] * axis, axis=1) / np.interp(along, points @ axis, radii) - 1
    for low, high in ((10, 30), (60, 80)):
        assert abs(error[(along > low) & (along < high)].mean()) < 0.015


def test_a_fork_has_three_openings_named_by_size(forked):
    by_name = {opening.name: opening for opening in forked.openings}
    assert sorted(by_name) == ["inlet", "outlet_1", "outlet_2"]
    for name, branch in (("inlet", "parent"), ("outlet_1", "large"), ("outlet_2", "small")):
        points, radius = FORK[branch]
        off_mm, off_deg = true_place(longer(points, 5), by_name[name])
        assert by_name[name].radius_mm == pytest.approx(radius, rel=0.05)
        assert off_mm < 0.7  # voxels are 1 mm
        assert off_deg < 8  # the polygon's corner is 4 to 6 degrees away from a smooth curve
        assert by_name[name].role == ("inlet" if branch == "parent" else "outlet")


@pytest.mark.parametrize("seed", some([1, 2, 3], 2))
def test_a_sac_is_no_opening_and_stays_whole(seed):
    surface = extract(fork(seed, sac=True))
    assert len(surface.openings) == 3
    for opening in surface.openings:
        assert np.linalg.norm(np.array(opening.centre_mm) - SAC_MM) > SAC_RADIUS_MM + 4
    dome = surface.mesh.points_mm[(surface.mesh.points_mm - SAC_MM)[:, 2] > 0]
    assert np.linalg.norm(dome - SAC_MM, axis=1).mean() == pytest.approx(SAC_RADIUS_MM, rel=0.02)
    (sac,) = surface.quality["closed_ends"]
    assert "bulges" in sac["why"]
    assert np.linalg.norm(np.array(sac["place_mm"]) - SAC_MM) < SAC_RADIUS_MM


@pytest.mark.parametrize("tilt_deg", some([0, 20, 50], 50))
def test_the_border_of_the_image_is_the_opening(tilt_deg):
    lumen = crossing(tilt_deg)
    surface = extract(lumen)
    assert len(surface.openings) == 2
    size = np.array(lumen.voxels.shape[::-1])
    for opening in surface.openings:
        index = lumen.to_index(opening.centre_mm)
        assert np.minimum(np.abs(index + 0.5), np.abs(size - 0.5 - index)).min() < 1e-6
        cosine = np.cos(np.deg2rad(angle_deg(crossing_axis(tilt_deg), opening.normal)))
        assert opening.radius_mm == pytest.approx(4 / np.sqrt(cosine), rel=0.03)  # of the ellipse; half a voxel is 0.12
    (mask, within) = surface.quality["mask_volume_mm3"], surface.mesh.volume_mm3()
    assert within == pytest.approx(mask, rel=0.005)


def test_a_vessel_along_the_border_is_open_at_its_ends_only():
    lumen = Volume(np.zeros((60, 40, 40), np.uint8), (1.0, 1.0, 1.0), (0.0, 0.0, 0.0), np.eye(3))
    x, y, z = np.moveaxis(voxel_places(lumen), -1, 0)
    lumen.voxels[(np.hypot(x - 2.2, y - 20) < 5) & (np.abs(z - 30) < 22)] = 1  # a fifth of the section is cut off
    surface = extract(lumen)
    assert len(surface.openings) == 2
    for opening in surface.openings:
        assert angle_deg(opening.normal, (0, 0, 1)) < 3


def test_a_thin_tail_is_cut_off_where_the_vessel_is_thick():
    points = line(60, seed=2)
    radii = np.interp(np.arange(50), [0, 18, 26, 49], [1.3, 1.3, 4, 4])  # the tail is 2.6 voxels across
    surface = extract(tube(points, radii, seed=2))
    assert len(surface.openings) == 2
    for opening in surface.openings:
        assert opening.radius_mm == pytest.approx(4, rel=0.1)


def test_side_stubs_are_no_openings():
    points = line(60, seed=2)
    lumen = tube(points, 4.0, seed=2)
    places = voxel_places(lumen)
    away = np.cross(points[-1], [0.3, 0.5, 0.8])
    away /= np.linalg.norm(away)
    for middle, stub_radius in ((points[20], 1.5), (points[30], 2.5)):
        along = np.clip((places - middle) @ away, 0, 5)  # out of the wall by 2.5 and 3.5 mm
        lumen.voxels[np.linalg.norm(places - middle - along[..., None] * away, axis=-1) < stub_radius] = 1
    assert len(extract(lumen).openings) == 2


def test_caps_are_flat_and_measured_as_they_are(forked):
    mesh = forked.mesh
    vectors = mesh.area_vectors_mm2()
    for opening in forked.openings:
        cap = mesh.opening == opening.id
        height = (mesh.points_mm[mesh.triangles[cap]] - opening.centre_mm) @ opening.normal
        np.testing.assert_allclose(height, 0, atol=1e-12)  # rounding of coordinates of 20 mm
        normals = vectors[cap] / np.linalg.norm(vectors[cap], axis=1, keepdims=True)
        np.testing.assert_allclose(normals, np.broadcast_to(opening.normal, normals.shape), atol=1e-9)
        assert np.linalg.norm(vectors[cap], axis=1).sum() == pytest.approx(opening.area_mm2, rel=1e-12)
        assert opening.area_mm2 == pytest.approx(np.pi * opening.radius_mm**2)
        away = np.array(opening.centre_mm) - mesh.points_mm.mean(axis=0)
        assert away @ opening.normal > 0  # outwards
    np.testing.assert_allclose(vectors.sum(axis=0), 0, atol=1e-9)  # closed


def test_triangles_become_well_shaped(forked):
    quality = forked.quality
    assert quality["before"]["needles"] > 0.03 * quality["before"]["triangles"]
    assert quality["after"]["needles"] == quality["after"]["tiny"] == 0
    assert quality["after"]["smallest_angle_deg"] >= 20
    assert quality["after"]["p5_angle_deg"] >= 40
    for stage in ("before", "uncut", "after"):
        assert sum(quality[stage]["angle_histogram"]) == quality[stage]["triangles"]
        assert sum(quality[stage]["angle_histogram"][:2]) == quality[stage]["needles"]


def test_quality_of_known_triangles():
    """Equilateral, right with equal legs, and a needle of 5.7 degrees; the fourth is tiny beside its neighbours."""
    points = np.array(
        [
            [0, 0, 0],
            [1, 0, 0],
            [0.5, np.sqrt(3) / 2, 0],
            [0, 5, 0],
            [1, 5, 0],
            [0, 6, 0],
            [0, 9, 0],
            [1, 9, 0],
            [0, 9.1, 0],
            [0.02, 9.1, 0],
        ]
    )
    triangles = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [8, 7, 9], [8, 9, 7]])[:4]
    quality = triangle_quality(Mesh(points, triangles, np.zeros(4, np.int8)))
    assert quality["triangles"] == 4
    assert quality["needles"] == 2
    assert quality["angle_histogram"][11] == 1  # 60
    assert quality["angle_histogram"][9] + quality["angle_histogram"][8] == 1  # 45
    assert quality["smallest_mean_ratio"] < 0.2
    only = triangle_quality(Mesh(points, triangles[:1], np.zeros(1, np.int8)))
    assert only["median_mean_ratio"] == pytest.approx(1)
    assert only["smallest_angle_deg"] == pytest.approx(60)
    right = triangle_quality(Mesh(points, triangles[1:2], np.zeros(1, np.int8)))
    assert right["median_mean_ratio"] == pytest.approx(np.sqrt(3) / 2)  # 4 sqrt(3) / 2 over 1 + 1 + 2
    fan = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [1.0, 0.5, 0.001]])
    crowd = Mesh(fan, np.array([[0, 1, 2], [1, 3, 2], [1, 4, 3]]), np.zeros(3, np.int8))
    assert triangle_quality(crowd)["tiny"] == 1


def test_a_large_vessel_gets_no_more_triangles_than_it_needs():
    surface = extract(tube(line(70, seed=3), 16.0, seed=3))
    assert surface.quality["after"]["triangles"] < 0.5 * surface.quality["before"]["triangles"]
    assert surface.quality["after"]["needles"] < 0.001 * surface.quality["after"]["triangles"]
    assert abs(surface.quality["volume_change"]) < 1e-4
    for opening in surface.openings:
        assert opening.radius_mm == pytest.approx(16, rel=0.02)


@pytest.mark.slow
def test_same_mask_gives_the_same_bits():
    first, second = (extract(fork(seed=2)) for _ in range(2))
    assert first.openings == second.openings
    np.testing.assert_array_equal(first.mesh.points_mm, second.mesh.points_mm)
    np.testing.assert_array_equal(first.mesh.triangles, second.mesh.triangles)


def test_a_mirrored_grid_gives_outward_normals_too(straight):
    lumen, one = straight
    mirrored = Volume(
        np.ascontiguousarray(lumen.voxels[:, :, ::-1]),
        lumen.spacing_mm,
        tuple(lumen.to_mm([lumen.voxels.shape[2] - 1, 0, 0])),
        lumen.direction * [-1, 1, 1],
    )
    other = extract(mirrored)
    assert other.mesh.volume_mm3() == pytest.approx(one.mesh.volume_mm3(), rel=0.01)  # cuts may move by one section


def free_end(branch):
    points, _ = FORK[branch]
    return tuple(points[0 if branch == "parent" else -1])


def test_case_names_openings_by_the_nearest_point():
    named = (
        OpeningSettings(name="vein", role="inlet", near_mm=free_end("small")),
        OpeningSettings(name="outlet_1", role="outlet", near_mm=free_end("parent")),
    )
    openings = extract(fork(seed=1), openings=named).openings
    assert {(o.name, o.role) for o in openings} == {("vein", "inlet"), ("outlet_1", "outlet"), ("outlet_2", "outlet")}
    radius = {o.name: o.radius_mm for o in openings}
    assert radius["vein"] < radius["outlet_2"] < radius["outlet_1"]
    assert [o.id for o in openings] == [1, 2, 3]


def test_largest_unnamed_opening_is_the_inlet_if_none_is_named():
    named = (OpeningSettings(name="brain", role="outlet", near_mm=free_end("parent")),)
    openings = extract(fork(seed=1), openings=named).openings
    radius = {o.name: o.radius_mm for o in openings}
    assert radius["outlet_1"] < radius["inlet"] < radius["brain"]


def test_two_names_for_one_opening_are_refused():
    named = tuple(OpeningSettings(name=n, role="outlet", near_mm=free_end("large")) for n in ("left", "right"))
    with pytest.raises(StageError, match=r"left and right both mean the opening at .*near_mm"):
        extract(fork(seed=1), openings=named)


def test_an_end_stays_closed_on_request():
    surface = extract(fork(seed=1), closed_mm=(free_end("small"),))
    assert len(surface.openings) == 2
    assert min(o.radius_mm for o in surface.openings) > 3
    with pytest.raises(StageError, match=r"1 open ends found at .*closed_mm"):
        extract(tube(line(40), 4.0), closed_mm=((0.0, 0.0, 0.0),))


def test_thin_branches_stay_closed():
    surface = extract(fork(seed=1), min_radius_mm=3.0)
    assert len(surface.openings) == 2
    assert any("does not stay above 3.00 mm" in end["why"] for end in surface.quality["closed_ends"])


def ball(radius_mm):
    return tube(np.zeros((2, 3)), radius_mm)


def hollow():
    lumen = tube(line(40), 6.0)
    places = voxel_places(lumen)
    lumen.voxels[np.linalg.norm(places - line(40)[25], axis=-1) < 4] = 0
    return lumen


def stretched():
    lumen = tube(line(40), 4.0)
    return Volume(lumen.voxels, (1.0, 1.0, 2.5), lumen.origin_mm, lumen.direction)


@pytest.mark.parametrize(
    ("lumen", "message"),
    [
        (lambda: ball(6.0), r"0 open ends found.*surface.opened_mm: \[\["),
        (lambda: tube(line(40), 1.4), "0 open ends found.*does not stay above 2.00 mm.*filter.spacing_mm"),
        (lambda: tube(line(40, seed=2), [7.0] * 12 + [3.0] * 38), "1 open ends found.*it bulges"),
        (hollow, "a cavity of the lumen.*segment.fill_holes"),
        (stretched, "1 x 1 x 2.5 mm.*filter.spacing_mm"),
        (lambda: ball(6.0).with_voxels(np.zeros_like(ball(6.0).voxels)), "mask is empty.*segment"),
    ],
    ids=["ball", "thin", "one end", "cavity", "stretched", "empty"],
)
def test_what_cannot_be_opened_is_refused_with_advice(lumen, message):
    with pytest.raises(StageError, match=f"(?s){message}"):
        extract(lumen())


CLOSED = {
    "bulges": lambda: tube(line(40, seed=2), [7.0] * 12 + [3.0] * 38),
    "short": lambda: tube(line(9, seed=112), 4.6),
    "widens": lambda: tube(line(13, seed=118), np.linspace(4.2, 5.7, 50)),
}


@pytest.mark.parametrize("kind", some(CLOSED, "widens"))
def test_what_a_refusal_of_closed_ends_names_opens_them(kind):
    """A cut lies half a radius and more before the tip of a round end, the place up to half a radius; within a radius
    and a half of it there is no other end.
    """
    lumen = CLOSED[kind]()
    with pytest.raises(StageError, match="open ends found") as refused:
        extract(lumen)
    places = named_by(refused.value)
    surface = extract(lumen, opened_mm=places)
    assert len(surface.openings) == 2
    for place in places:
        away = min(float(np.linalg.norm(np.array(opening.centre_mm) - place)) for opening in surface.openings)
        assert away < 1.5 * max(opening.radius_mm for opening in surface.openings)


def test_an_end_without_a_section_is_refused_by_another_reason(monkeypatch):
    """The same advice twice would be a circle."""
    lumen = tube(line(9, seed=112), 4.6)
    with pytest.raises(StageError, match="open ends found") as refused:
        extract(lumen)
    monkeypatch.setattr("pipeline.geometry.branches.ends.place_cut", lambda *_: None)
    with pytest.raises(StageError, match=r"surface: no section can be cut at an end that surface\.opened_mm") as again:
        extract(lumen, opened_mm=named_by(refused.value))
    (way,) = [each for each in advised(str(again.value), {}) if "filter" in each.settings]
    assert way.settings["surface"] == {"opened_mm": []}
    assert 0 < way.settings["filter"]["spacing_mm"] < lumen.spacing_mm[0]


def named_by(refusal: StageError) -> list[list[float]]:
    """The places that a refusal sets for `surface.opened_mm`."""
    return ast.literal_eval(re.search(r"surface\.opened_mm: (\[\[.*?\]\])", str(refusal))[1])


def test_a_changed_volume_is_refused():
    with pytest.raises(StageError, match=r"changed the volume by .*volume_tolerance = 1e-14.*smoothing_mm"):
        extract(tube(line(40), 4.0), volume_tolerance=1e-14)


def test_smoothing_that_breaks_the_vessel_is_refused():
    radii = np.interp(np.arange(50), [0, 22, 25, 28, 49], [4, 4, 1.2, 4, 4])
    with pytest.raises(StageError, match=r"smoothing_mm = 4 mm: a thin place of the vessel breaks.*cut the thin part"):
        extract(tube(line(60, seed=2), radii), smoothing_mm=4.0)


@settings(max_examples=3, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    corners=st.lists(st.tuples(*[st.floats(-25, 25)] * 3), min_size=4, max_size=5),
    radii=st.tuples(st.floats(2.2, 6), st.floats(2.2, 6)),
    seed=st.integers(0, 1000),
)
def test_any_tube_gives_a_closed_surface_with_two_openings_or_is_refused(corners, radii, seed):
    corners = np.array(corners)
    t = np.linspace(0, 1, 60)[:, None]
    degree = len(corners) - 1
    weights = [float(np.prod([(degree - j) / (j + 1) for j in range(k)])) for k in range(degree + 1)]
    points = sum(w * t**k * (1 - t) ** (degree - k) * c for k, (w, c) in enumerate(zip(weights, corners, strict=True)))
    lumen = tube(points, np.linspace(*radii, 60), seed=seed)
    try:
        surface = extract(lumen)
    except StageError as error:
        assert str(error).startswith(("surface", "lumen"))
        return
    check_closed(surface.mesh)
    assert len(surface.openings) == 2
    assert 0 < surface.mesh.volume_mm3() < np.count_nonzero(lumen.voxels)


def test_command_line_writes_surface_and_openings(tmp_path):
    tube(line(40), 4.0).write(tmp_path / "lumen.nrrd")
    named = {"openings": [{"name": "neck", "role": "inlet", "near_mm": [0, 0, 0]}]}
    command = [sys.executable, "-m", "pipeline.stages.surface", "--settings", json.dumps(named)]
    for role, name in (
        ("occupancy", "lumen.nrrd"),
        ("surface", "surface.vtp"),
        ("openings", "openings.json"),
        ("provenance", "p.json"),
    ):
        command += [f"--{role}", str(tmp_path / name)]
    subprocess.run(command, check=True, capture_output=True)
    mesh, openings = Mesh.read(tmp_path / "surface.vtp"), read_openings(tmp_path / "openings.json")
    check_closed(mesh)
    assert {o.name for o in openings} == {"neck", "outlet_1"}
    assert set(np.unique(mesh.opening)) == {0, 1, 2}
    assert json.loads((tmp_path / "openings.json").read_text())["quality"]["after"]["triangles"] == len(mesh.triangles)


def vessel_at(image, seed, lower):
    """Voxels connected to a seed above a threshold, on an isotropic grid around them."""
    found = sitk.ConnectedThreshold(image, [seed], lower, 1e9)
    shape = sitk.LabelShapeStatisticsImageFilter()
    shape.Execute(found)
    box = shape.GetBoundingBox(1)
    low = [max(0, box[k] - 8) for k in range(3)]
    high = [min(image.GetSize()[k], box[k] + box[k + 3] + 8) for k in range(3)]
    part = image[low[0] : high[0], low[1] : high[1], low[2] : high[2]]
    step = min(part.GetSpacing())
    size = [round((n - 1) * s / step) + 1 for n, s in zip(part.GetSize(), part.GetSpacing(), strict=True)]
    fine = sitk.Resample(
        part, size, sitk.Transform(), sitk.sitkLinear, part.GetOrigin(), [step] * 3, part.GetDirection()
    )
    inside = fine.TransformPhysicalPointToIndex(image.TransformIndexToPhysicalPoint(seed))
    lumen = sitk.BinaryFillhole(sitk.ConnectedThreshold(fine, [inside], lower, 1e9))
    return Volume.from_sitk(sitk.Cast(lumen, sitk.sitkUInt8))


@pytest.fixture(scope="module")
def head(real_cases):
    names = sitk.ImageSeriesReader.GetGDCMSeriesFileNames(
        str(next((real_cases / "head-arteries-mr").rglob("*.dcm")).parent)
    )
    return sitk.Cast(sitk.ReadImage(names), sitk.sitkFloat32)


@pytest.mark.parametrize(
    ("seed", "lower", "ends"),
    [
        # Places where the tube ends by eye, mm, on rendered surfaces.
        pytest.param((192, 244, 25), 950, [(-28.5, -26.6, -67.6), (-9.8, -54, -26)], marks=pytest.mark.slow),
        ((258, 241, 30), 850, [(9.2, -7.3, -69.5), (-4.5, -29.7, -18.8), (4.0, -26.5, -19.9)]),
    ],
    ids=["right internal carotid", "basilar"],
)
def test_real_arteries_are_open_where_a_human_would_cut(head, seed, lower, ends):
    openings = extract(vessel_at(head, seed, lower)).openings
    assert len(openings) == len(ends)
    for end in ends:
        assert min(np.linalg.norm(np.array(o.centre_mm) - end) for o in openings) < 4  # about a diameter


@pytest.mark.slow
def test_a_real_fistula_opens_at_the_borders(real_cases):
    image = sitk.ReadImage(str(next((real_cases / "av-fistula-mra").glob("*.nii*"))), sitk.sitkFloat32)
    lumen = vessel_at(image, (18, 46, 11), 800)
    openings = extract(lumen).openings
    index = np.array([lumen.to_index(o.centre_mm) for o in openings])
    border = np.minimum(index, np.array(lumen.voxels.shape[::-1]) - 1 - index).min(axis=1)
    assert len(openings) >= 4
    assert (border < 8).sum() >= 2  # artery and vein are cut by the border; they are 5 to 8 voxels wide


def test_the_surface_keeps_the_volume_that_was_found_between_voxels():
    """A tube of 5.5 voxels along an axis of the grid, through the whole image: counted, it is 7 % too small."""
    y, x = np.indices((24, 24)) - 11.5
    section = special.erfc((np.hypot(y, x) - 5.5) / 0.8 / np.sqrt(2)) / 2
    lumen = Volume(np.repeat(section[None], 40, axis=0).astype(np.float32), (0.5,) * 3, (0.0,) * 3, np.eye(3))
    true_mm3 = np.pi * 5.5**2 * 40 * 0.5**3
    found_mm3 = enclosed_voxels(lumen.voxels) * 0.5**3
    assert extract(lumen).mesh.volume_mm3() < 0.95 * true_mm3
    mesh = extract_surface(lumen, SurfaceSettings(), LOG, found_mm3).mesh
    assert mesh.volume_mm3() == pytest.approx(true_mm3, rel=0.01)
