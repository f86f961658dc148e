# SPDX-License-Identifier: Apache-2.0
"""Developed flow over caps against closed forms and series."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.case.block_shapes import Channel, Duct
from pipeline.case.shapes import Sphere
from pipeline.files.mesh import Mesh
from pipeline.geometry.lattice.developed import developed
from pipeline.geometry.lattice.node_arrays import decompose
from pipeline.geometry.surface.clip import axes_of_plane
from pipeline.geometry.surface.round_walls import circle
from pipeline.geometry.surface.tessellation import tessellate
from pipeline.stages.voxelize import voxelize
from solver.domain.nodes import Opening
from solver.kernels.d3q19 import VELOCITIES
from solver.runtime.errors import StageError
from tests.support.shapes import capped_cylinder

NORMAL = np.array((2.0, -3.0, 6.0)) / 7
PLACE = np.array((4.0, -7.0, 100.0))
CLOSED = (False, False, False)


def cap(polygon):
    """A fan over a polygon (M, 2) somewhere in space, its opening, and the map of the plane into space."""
    corners = np.concatenate((polygon, polygon.mean(axis=0)[None]))
    count = len(polygon)
    fan = np.stack((np.full(count, count), np.arange(count), (np.arange(count) + 1) % count), axis=1)
    x, y = polygon.T
    area = float(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2

    def into_space(points):
        return PLACE + points @ axes_of_plane(NORMAL).T

    centre = tuple(into_space(polygon.mean(axis=0)))
    opening = Opening(1, "in", "inlet", centre, tuple(NORMAL), area, float(np.sqrt(area / np.pi)))
    return Mesh(into_space(corners), fan, np.ones(count, np.int8)), opening, into_space


def error(polygon, points, wanted, across=32):
    """Largest difference of phi from what is wanted at points (N, 2)."""
    mesh, opening, into_space = cap(polygon)
    return np.abs(developed(mesh, opening, CLOSED, across)(into_space(points)) - wanted).max()


def rectangle(x, y, a, b):
    """phi over its largest in -a < x < a, -b < y < b: a series in y (White, Viscous Fluid Flow, 3-48), a >= b."""
    total, top = 0.0, 0.0
    for n in range(1, 400, 2):
        k, sign = n * np.pi / (2 * b), np.sin(n * np.pi / 2) / n**3
        rise = np.exp(k * (np.abs(x) - a)) * (1 + np.exp(-2 * k * np.abs(x))) / (1 + np.exp(-2 * k * a))
        total = total + sign * (1 - rise) * np.cos(k * y)
        top = top + sign * (1 - 1 / np.cosh(np.minimum(k * a, 700)))
    return total / top


def in_box(a, b, count=3000):
    return np.random.default_rng(3).uniform(-1, 1, (count, 2)) * (a, b)


@pytest.mark.parametrize("flat", [1.0, 0.4])
def test_ellipse_has_a_paraboloid(flat):
    radius, angle = np.random.default_rng(1).random((2, 3000)) * [[1], [2 * np.pi]]
    points = 1.7 * radius[:, None] * np.stack((np.cos(angle), flat * np.sin(angle)), axis=1)
    # the polygon with 408 corners leaves the circle by 2/3 of its sagitta: 4e-5 of phi
    assert error(1.7 * circle() * (1, flat), points, 1 - radius**2) < 1e-4


@pytest.mark.parametrize("aspect", [1.0, 2.0, 7.0])
def test_rectangle_has_its_series(aspect):
    box = np.array([(-aspect, -1), (aspect, -1), (aspect, 1), (-aspect, 1)])
    points = in_box(aspect, 1)
    # second derivatives jump in the corners, where the largest errors are
    assert error(box, points, rectangle(*points.T, aspect, 1)) < 8e-4


TRIANGLE = np.array([(0, 0), (1, 0), (0.5, 3**0.5 / 2)])


def test_equilateral_triangle_has_the_product_of_its_coordinates():
    places = np.random.default_rng(2).dirichlet((1, 1, 1), 3000)
    assert error(TRIANGLE, places @ TRIANGLE, 27 * places.prod(axis=1)) < 5e-5


def test_error_falls_with_the_third_order_where_the_solution_is_smooth():
    # quadratic elements, largest error; a cubic is not in their space
    places = np.random.default_rng(2).dirichlet((1, 1, 1), 3000)
    errors = [error(TRIANGLE, places @ TRIANGLE, 27 * places.prod(axis=1), across) for across in (8, 16, 32)]
    assert np.log2(errors[0] / errors[2]) / 2 > 2.7


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=8, deadline=None)
def test_profile_of_any_outline_is_zero_at_the_rim_and_at_most_one(seed):
    rng = np.random.default_rng(seed)
    corners = int(rng.integers(5, 60))
    angle = np.sort(rng.uniform(0, 2 * np.pi, corners) + np.linspace(0, 20, corners)) * 2 * np.pi / (20 + 2 * np.pi)
    angle = np.linspace(0, 2 * np.pi, corners, endpoint=False) + 0.3 * np.sin(angle) / corners
    radius = 1 + 0.4 * np.sin(rng.integers(1, 4) * angle + rng.uniform(0, 6))
    polygon = radius[:, None] * np.stack((np.cos(angle), np.sin(angle)), axis=1)
    mesh, opening, into_space = cap(polygon)
    along = rng.random((corners, 1))
    rim = along * polygon + (1 - along) * np.roll(polygon, -1, axis=0)
    flow = developed(mesh, opening, CLOSED)
    assert flow(into_space(rim)).max() < 1e-5  # a round-off of places, times the slope
    beyond = flow(into_space(rim * rng.uniform(1, 1.1, (len(rim), 1))))
    assert beyond.max() < 1e-5  # the nearest place on the rim, or one on the edges beside it
    inner = flow(into_space(rng.uniform(0, 0.999, (500, 1)) * rim[rng.integers(corners, size=500)]))
    assert (inner >= 0).all()
    assert (inner <= 1).all()
    assert inner.max() > 0.9


def link_middles(nodes):
    """Middles of the links through openings, (K, 3), mm."""
    half = 0.5 * VELOCITIES[nodes.opening_link_direction] * nodes.spacing_mm
    return nodes.points_mm()[nodes.opening_link_node] + half


def test_links_of_a_pipe_carry_the_parabola():
    mesh, openings = capped_cylinder((1, 2, 3), 2.0, 6.0)
    lattice, _ = voxelize(mesh, openings)
    nodes, _ = decompose(lattice, mesh, openings)
    middles = link_middles(nodes)
    for opening in openings:
        mine = nodes.opening_link_opening == opening.id
        offset = middles[mine] - opening.centre_mm
        square = (offset**2).sum(axis=1) - (offset @ opening.normal) ** 2
        wanted = 1 - square / opening.radius_mm**2
        assert wanted.min() < -0.01  # links that slant outwards beside the wall, half of them beyond the rim
        # a polygon instead of the circle
        np.testing.assert_allclose(nodes.opening_link_profile[mine], np.maximum(wanted, 0), atol=6e-3)


@pytest.mark.parametrize(
    "shape",
    [
        Channel(shape="channel", height_mm=2, length_mm=4),
        Duct(shape="duct", height_mm=2, length_mm=4, width_mm=4),
    ],
)
def test_channel_has_no_rim_where_it_repeats(shape):
    made = tessellate(shape, 0.2)
    width = shape.width_mm or 0.6
    y, z = np.random.default_rng(4).random((2, 1000)) * [[width], [2]]
    for opening in made.openings:
        places = np.stack((np.full(1000, opening.centre_mm[0]), y, z), axis=1)
        phi = developed(made.mesh, opening, shape.periodic)(places)
        if any(shape.periodic):
            np.testing.assert_allclose(phi, z * (2 - z), atol=1e-6)  # quadratic elements are exact
        else:
            np.testing.assert_allclose(phi, rectangle(y - 2, z - 1, 2, 1), atol=8e-4)


def test_flow_past_a_sphere_is_uniform_where_the_box_repeats():
    shape = Sphere(shape="sphere", diameter_mm=1, box_mm=(4, 3, 3), ends="openings")
    made = tessellate(shape, 0.1)
    assert (developed(made.mesh, made.openings[0], shape.periodic)(np.zeros((5, 3))) == 1).all()


def test_cap_with_a_hole_is_refused():
    mesh, opening, _ = cap(circle())
    kept = np.arange(408) % 100 > 10
    holed = Mesh(mesh.points_mm, mesh.triangles[kept], mesh.opening[kept])
    with pytest.raises(StageError, match="opening in: its cap is not one polygon without holes"):
        developed(holed, opening, CLOSED)
