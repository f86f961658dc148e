# SPDX-License-Identifier: Apache-2.0
"""Surfaces whose wall is moved, and how well its place is known."""

import numpy as np
import pytest

from pipeline.case.settings.uncertainty import UncertaintySettings
from pipeline.stages.canonical import CanonicalInput, canonical
from pipeline.stages.voxelize import require_closed
from pipeline.uncertainty.wall_field import moved, random_field
from pipeline.uncertainty.wall_precision import ROUGH, ROUGH_VOXELS, WHOLE, WallPrecision
from tests.support.swept import arc, swept

RADIUS = 2.0


def test_a_random_field_has_the_variance_and_the_correlation_that_it_is_asked_for():
    """Over 600 fields; a mean of so many products errs by 1/sqrt(600) = 4 %, so that 15 % are 3.7 times that."""
    length, away = 1.5, np.array([0.0, 0.7, 1.5, 3.0, 8.0])
    points = np.column_stack((away, 0 * away, 0 * away))
    fields = np.array([random_field(points, length, np.random.default_rng(seed)) for seed in range(600)])
    products = (fields * fields[:, :1]).mean(axis=0)
    assert products == pytest.approx(np.exp(-(away**2) / (2 * length**2)), abs=0.15)
    assert abs(fields.mean()) < 0.1


@pytest.mark.parametrize("shift", [-0.1, 0.05, 0.2])
def test_a_wall_moved_evenly_is_a_tube_of_another_radius(shift):
    surface, openings = swept(arc(12.0, 1.2, 60), RADIUS)
    mesh, now = moved(surface, openings, np.full(len(surface.points_mm), shift))
    require_closed(mesh, now)
    for before, after in zip(openings, now, strict=True):
        assert after.radius_mm == pytest.approx(before.radius_mm + shift, rel=2e-3)  # a polygon of 48 edges
        offset = np.subtract(after.centre_mm, before.centre_mm)
        assert np.linalg.norm(offset) < 1e-5 * RADIUS  # the rim is as even as its normals
        assert after.normal == before.normal
    grown = (1 + shift / RADIUS) ** 2
    assert mesh.volume_mm3() == pytest.approx(grown * surface.volume_mm3(), rel=3e-3)


@pytest.mark.parametrize(
    "shape",
    [
        {"shape": "pipe", "length_mm": 4},
        {"shape": "stenosis", "length_mm": 3, "throat_mm": 2.5, "area_reduction": 0.2, "eccentricity": 0.5},
        {"shape": "nozzle", "outlet_diameter_mm": 4, "inlet_mm": 1, "throat_mm": 1, "outlet_mm": 3},
        {"shape": "bend", "bend_radius_mm": 3, "angle_deg": 30},
    ],
    ids=lambda shape: shape["shape"],
)
def test_the_volume_of_a_canonical_vessel_grows_by_its_walls_area_times_the_shift(shape):
    """dV/ds = A. The rims of a sudden step move aslant, so that its face, 15 % of that wall, moves by less: by
    1/sqrt(2) at most.
    """
    made, _ = canonical(CanonicalInput.model_validate({"geometry": {"diameter_mm": 2} | shape, "nodes_across": 10}))
    shift, area = 0.02, np.linalg.norm(made.mesh.area_vectors_mm2()[made.mesh.opening == 0], axis=1).sum()
    wide, narrow = (
        moved(made.mesh, made.openings, np.full(len(made.mesh.points_mm), sign * shift)) for sign in (1, -1)
    )
    grown = (wide[0].volume_mm3() - narrow[0].volume_mm3()) / (2 * shift)
    assert grown == pytest.approx(area, rel=0.05 if shape["shape"] == "nozzle" else 1e-3)
    for before, after in zip(made.openings, wide[1], strict=True):
        assert after.radius_mm == pytest.approx(before.radius_mm + shift, rel=1e-3)


def test_caps_stay_in_their_planes_whatever_the_field():
    surface, openings = swept(arc(12.0, 1.2, 60), RADIUS)
    field = random_field(surface.points_mm, 1.0, np.random.default_rng(1))
    mesh, now = moved(surface, openings, 0.1 * field)
    require_closed(mesh, now)
    for opening in openings:
        cap = np.unique(mesh.triangles[mesh.opening == opening.id])
        assert np.abs((mesh.points_mm[cap] - opening.centre_mm) @ np.array(opening.normal)).max() < 1e-9


def test_the_walls_precision_follows_the_edge_of_the_image_unless_it_is_given():
    _, openings = swept(arc(12.0, 1.2, 60), RADIUS)
    record = {"contrast": 300.0, "wall_slope_per_mm": 250.0, "spacing_mm": 0.5, "controlled_by": "segment.lower"}
    record |= {"lower": 185.0, "lower_without_blur_bias": 185.0}
    found = WallPrecision.of(UncertaintySettings(), record, openings)
    assert (found.whole_mm, found.rough_mm, found.length_mm) == pytest.approx(
        (1.2 * WHOLE, 1.2 * ROUGH, 0.5 * ROUGH_VOXELS)
    )
    assert found.edge_mm == pytest.approx(1.2)
    off = WallPrecision.of(UncertaintySettings(), record | {"lower": 155.0}, openings)  # a tenth of the contrast off
    assert off.whole_mm == pytest.approx(1.2 * 0.1)
    missed = record | {"local_edge": {"change": -0.06}, "mean_radius_mm": 2.0}  # of the volume: 0.06 mm of the radius
    assert WallPrecision.of(UncertaintySettings(), missed, openings).whole_mm == pytest.approx(0.06)
    little = missed | {"local_edge": {"change": -0.006}}  # less than what the wall is known to anyway
    assert WallPrecision.of(UncertaintySettings(), little, openings).whole_mm == pytest.approx(1.2 * WHOLE)
    given = WallPrecision.of(UncertaintySettings(), missed | {"lower": 155.0}, openings)  # seen by both: counts once
    assert given.whole_mm == pytest.approx(1.2 * 0.1)
    stated = WallPrecision.of(UncertaintySettings(wall_sd_mm=0.3, roughness_mm=0), record, openings)
    assert (stated.whole_mm, stated.rough_mm, stated.edge_mm) == pytest.approx((0.3, 0, 1.2))
    known = WallPrecision.of(UncertaintySettings(wall_sd_mm=0, roughness_mm=0), record, openings)
    assert known.edge_mm == 0  # of a wall that is known, blur has done nothing
    nothing = WallPrecision.of(UncertaintySettings(), None, openings)
    assert (nothing.whole_mm, nothing.rough_mm, nothing.edge_mm) == (0, 0, 0)
    assert nothing.length_mm == pytest.approx(2 * min(each.radius_mm for each in openings))
