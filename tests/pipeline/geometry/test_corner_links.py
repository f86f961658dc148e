# SPDX-License-Identifier: Apache-2.0
"""Links along the eight corner directions, which only flow in 27 directions needs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.case.settings.geometry import VoxelizeSettings
from pipeline.files.mesh import Mesh
from pipeline.geometry.lattice.crossings import rasterise
from pipeline.geometry.lattice.frame import Frame
from pipeline.geometry.lattice.frame import around as frame_around
from pipeline.geometry.lattice.grid import Grid
from pipeline.geometry.lattice.links import corner_links, links, short_cuts
from pipeline.geometry.lattice.node_arrays import decompose
from pipeline.stages.voxelize import voxelize
from solver.domain.nodes import ARRAYS, STEPS, Neighbours, check, load, save
from solver.kernels.velocity_sets import D3Q27
from tests.solver.domain.test_nodes import naive_neighbours
from tests.support.geometries import pipe
from tests.support.shapes import capped_cylinder, frame_of, joined, sphere, torus

CORNERS = range(19, 27)

directions = st.tuples(*[st.integers(-3, 3)] * 3).filter(any)


def behind_one_link_or_fluid(nodes) -> None:
    """Each of the 26 neighbours of every node is fluid or behind exactly one link of the merged nodes."""
    merged, ends = nodes.with_corners(), naive_neighbours(nodes.position, nodes.shape, nodes.periodic)
    listed = np.zeros(ends.shape, int)
    for kind in ("wall", "opening"):
        np.add.at(listed, (getattr(merged, f"{kind}_link_node"), getattr(merged, f"{kind}_link_direction")), 1)
    neighbours = Neighbours(merged)
    for i in range(1, 27):
        np.testing.assert_array_equal(listed[:, i] + (neighbours.along(i) >= 0), 1)


@given(direction=directions, radius=st.floats(2.5, 5))
@settings(max_examples=15, deadline=None)
def test_every_neighbour_in_a_pipe_is_fluid_or_behind_one_link(direction, radius):
    nodes = pipe(direction, radius, 8.0)
    check(nodes)
    behind_one_link_or_fluid(nodes)


@given(direction=directions, radius_mm=st.floats(0.5, 1.0))
@settings(max_examples=5, deadline=None)
def test_every_neighbour_in_a_decomposed_pipe_is_fluid_or_behind_one_link(direction, radius_mm):
    mesh, openings = capped_cylinder(direction, radius_mm, 3.0, segments=40)
    lattice, _ = voxelize(mesh, openings, VoxelizeSettings(nodes_across=10))
    behind_one_link_or_fluid(decompose(lattice, mesh, openings)[0])


@pytest.fixture(
    scope="module",
    params=[(0, 0, 1), (2, 3, 6), *(pytest.param(each, marks=pytest.mark.slow) for each in ((1, 2, 3), (-3, 1, 0.2)))],
    ids=str,
)
def cylinder(request):
    mesh, openings = capped_cylinder(request.param, 2.0, 8.0, segments=400, rings=1)
    lattice, _ = voxelize(mesh, openings)
    return request.param, mesh, openings, lattice, decompose(lattice, mesh, openings)[0]


def test_other_arrays_are_those_without_corners(cylinder):
    _, mesh, openings, lattice, nodes = cylinder
    bare, figures = decompose(lattice, mesh, openings, corners=False)
    assert figures["corner_links"] == 0
    for name in ARRAYS:
        if not name.startswith("corner_link"):
            np.testing.assert_array_equal(getattr(nodes, name), getattr(bare, name))
    raster, whole = (rasterise(mesh, lattice.frame, q) for q in (19, 27))
    np.testing.assert_array_equal(raster.winding, whole.winding)
    fluid = raster.enclosed
    for name, values in vars(links(raster, fluid)).items():
        np.testing.assert_array_equal(getattr(links(whole, fluid), name), values)
    np.testing.assert_array_equal(short_cuts(whole, fluid), short_cuts(raster, fluid))


def test_file_keeps_links_along_corners(cylinder, tmp_path):
    nodes = cylinder[-1]
    assert len(nodes.corner_link_node) > 1000
    save(nodes, tmp_path / "nodes.h5")
    again = load(tmp_path / "nodes.h5")
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(again, name), getattr(nodes, name))
        assert getattr(again, name).dtype == getattr(nodes, name).dtype
    order = np.lexsort((nodes.corner_link_node, nodes.corner_link_direction))
    np.testing.assert_array_equal(order, np.arange(len(order)))


def test_links_in_26_directions_carry_the_area_of_the_openings(cylinder):
    """sum 6 w_i |c_i . n| = A / dx^2 with the weights of D3Q27, whose second moment is I/3 as well.

    Near the rim the wall hides the cap from oblique links: a link that moves by s across the axis starts outside the
    pipe over an area s R on average, so that A falls short by R sum over c_i . n > 0 of 6 w_i (c_i . n)^2 s_i.
    What is left is the scatter of counting the lattice lines that cross a circle, within 1 % at 20 nodes across.
    """
    axis, _, openings, _, nodes = cylinder
    merged, normal = nodes.with_corners(), frame_of(axis)[2]
    cosine = STEPS @ normal
    aside = np.linalg.norm(STEPS - np.outer(cosine, normal), axis=1)
    hidden = (6 * D3Q27.weights * cosine**2 * aside)[cosine > 0].sum() * nodes.spacing_mm / (np.pi * 2.0)
    assert hidden < 0.04
    for opening in openings:
        mine = merged.opening_link_direction[merged.opening_link_opening == opening.id]
        area = (6 * D3Q27.weights * abs(cosine))[mine].sum() * nodes.spacing_mm**2
        np.testing.assert_allclose(area / opening.area_mm2, 1 - hidden, atol=0.01)


def test_profile_of_corner_links_is_the_parabola_at_their_middle(cylinder):
    axis, _, _, _, nodes = cylinder
    place = nodes.points_mm()[nodes.corner_link_node]
    place = place + 0.5 * nodes.spacing_mm * STEPS[nodes.corner_link_direction]
    normal = frame_of(axis)[2]
    radius = np.linalg.norm(place - np.outer(place @ normal, normal), axis=1)
    wanted = np.where(nodes.corner_link_opening > 0, np.clip(1 - (radius / 2.0) ** 2, 0, 1), 0)
    # The polygon of 400 sides is off the circle by 3e-5 of R, its finite elements by 1e-3 near the rim's corners.
    np.testing.assert_allclose(nodes.corner_link_profile, wanted, atol=2e-3)


def two_pipes(axis, side, gap, length=5.0):
    """Two parallel pipes of radius 1.5 whose walls are a gap apart, the second beside the first."""
    first, _ = capped_cylinder(axis, 1.5, length, segments=200)
    second, _ = capped_cylinder(axis, 1.5, length, tuple((3.0 + gap) * side), segments=200)
    return joined(first, second)


def through_the_gap(frame, fluid, beyond):
    """Places and directions of the corner links between fluid nodes that join one pipe to the other."""
    position = np.argwhere(fluid)[:, ::-1].astype(np.int32)
    size, found = np.array(frame.shape[::-1]), set()
    for i in CORNERS:
        end = position + STEPS[i]
        end = np.where(frame.periodic, end % size, end)
        joined_by = fluid[tuple(end.T[::-1])] & (beyond(position) != beyond(end))
        found |= {(n, i) for n in frame.node(position[joined_by]).tolist()}
    return found


def cut_through(raster, beyond):
    """Corner links that lead through the gap, where ends of other links through it were taken out of the fluid."""
    frame, fluid = raster.frame, raster.enclosed
    fluid.reshape(-1)[short_cuts(raster, fluid)] = False
    found = corner_links(raster, fluid)
    cut = fluid.reshape(-1)[found.end]
    listed = list(zip(found.node[cut].tolist(), found.direction[cut].tolist(), strict=True))
    assert len(set(listed)) == len(listed)
    assert set(listed) == through_the_gap(frame, fluid, beyond)  # from both ends, and no link within one of the two
    assert ((found.q[cut] > 0) & (found.q[cut] < 1)).all()
    return found, cut


@pytest.mark.parametrize("gap", [0.02, 0.1, 0.18], ids="gap {}".format)
@pytest.mark.parametrize("axis", [(0, 0, 1), (1, 2, 3), (-3, 1, 0.2)], ids=str)
def test_thin_wall_between_vessels_is_not_crossed(axis, gap):
    """The gap is less than a spacing wide. Links end where they leave the first of the two pipes."""
    side = frame_of(axis)[0]
    mesh = two_pipes(axis, side, gap)
    frame = frame_around(mesh, 0.2)
    found, cut = cut_through(rasterise(mesh, frame, 27), lambda at: (at * 0.2 + frame.origin_mm) @ side > 1.5 + gap / 2)
    assert cut.any() or axis != (1, 2, 3) or gap > 0.02
    start, unit = frame.position(found.node[cut]) * 0.2 + frame.origin_mm, frame_of(axis)[2]
    met = start + found.q[cut, None] * STEPS[found.direction[cut]] * 0.2
    met -= np.where(start @ side > 1.5 + gap / 2, 3.0 + gap, 0.0)[:, None] * side
    away = np.linalg.norm(met - np.outer(met @ unit, unit), axis=1)
    np.testing.assert_allclose(away, 1.5, atol=3e-4)  # facets lie up to R (1 - cos(pi/200)) inside


@pytest.mark.parametrize("seed", range(4))
def test_thin_wall_across_a_border_where_the_lattice_repeats(seed):
    """Two balls that nearly touch at the border: each cut link is listed once from each end, also where it wraps
    around, and all links are those of the lattice whose border is elsewhere.
    """
    unit, period = frame_of((1, 2, 3))[2], 30
    balls = [sphere(1.0, sign * 1.01 * unit + (k * 6.0, 0, 0)) for sign in (-1, 1) for k in (-1, 0, 1)]
    mesh, (x, y, z) = joined(*balls), np.random.default_rng(seed).uniform(0, 0.2, 3)
    found = []
    for turned in (0, 15):
        frame = Frame(0.2, (-0.2 + x - 0.2 * turned, -2.6 + y, -2.8 + z), (28, 26, period), (True, False, False))

        def beyond(at, frame=frame):
            place = at * 0.2 + frame.origin_mm
            return (place - np.where(place[:, :1] > 3, 6.0, 0.0) * (1, 0, 0)) @ unit > 0

        links_of, cut = cut_through(rasterise(mesh, frame, 27), beyond)
        position = frame.position(links_of.node) - (turned, 0, 0)
        position[:, 0] %= period
        order = np.lexsort((*position.T, links_of.direction))
        found.append((position[order], links_of.direction[order], links_of.q[order], cut[order]))
    (position, direction, q, cut), other = found
    end = position[:, 0] + STEPS[direction, 0]
    assert (cut & ((end < 0) | (end == period))).any()
    for mine, its in zip((position, direction, cut), (other[0], other[1], other[3]), strict=True):
        np.testing.assert_array_equal(mine, its)
    np.testing.assert_allclose(
        q, other[2], atol=1e-3
    )  # corners are rounded to 1/65536, which grazing links see more of


def test_hole_of_a_ring_is_crossed_only_where_two_links_pass_beside_it():
    """Through the whole pipeline: walls face each other across a hole less than a spacing wide, and part beyond it."""
    axis, ring, tube = frame_of((2, 3, 6))[2], 1.58, 1.5
    facet = 3.1 * (1 - np.cos(np.pi / 100))  # facets lie up to this far inside
    mesh = torus(ring, tube, segments=100, axis=axis)
    lattice, _ = voxelize(mesh, (), VoxelizeSettings(spacing_mm=0.2))
    nodes, _ = decompose(lattice, mesh, ())
    points, ends = nodes.points_mm(), naive_neighbours(nodes.position, nodes.shape, nodes.periodic)

    def outside(node, i):
        """How far outside the torus a link gets, mm."""
        place = points[node] + np.linspace(0, 1, 101)[:, None, None] * STEPS[i] * nodes.spacing_mm
        height = place @ axis
        around = np.linalg.norm(place - height[..., None] * axis, axis=-1)
        return (np.hypot(around - ring, height) - tube).max(axis=0)

    behind_one_link_or_fluid(nodes)
    neighbours, cut, kept = Neighbours(nodes.with_corners()), 0, 0
    for i in CORNERS:
        there = np.flatnonzero(ends[:, i] >= 0)
        far, parted = outside(there, i), neighbours.along(i)[there] < 0
        assert (far[parted] > -2 * facet).all()
        cut += parted.sum()
        for node in there[~parted & (far > 2 * facet)]:
            first = [k for k in range(1, 27) if ends[node, k] >= 0 and outside(np.array([node]), k)[0] < 2 * facet]
            between = [(ends[node, k], STEPS[i] - STEPS[k]) for k in first if abs(STEPS[i] - STEPS[k]).max() == 1]
            last = [(m, int(np.flatnonzero((step == STEPS).all(axis=1))[0])) for m, step in between]
            assert any(ends[m, k] == ends[node, i] and outside(np.array([m]), k)[0] < 2 * facet for m, k in last)
            kept += 1
    assert cut > 0
    assert kept > 0


@pytest.mark.parametrize("periodic", [(True, True, False), (False, True, False), (False, False, False)], ids=str)
def test_walls_on_the_grid_are_half_way_along_corners(periodic):
    low, high = np.array((-1.0, 2.0, 3.0)), np.array((2.0, 4.0, 7.0))
    reach = np.array(periodic) * 1.3
    corners = np.array([(x, y, z) for z in (0, 1) for y in (0, 1) for x in (0, 1)])
    faces = [(0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (2, 6, 7, 3), (0, 4, 6, 2), (1, 3, 7, 5)]
    triangles = np.array([[(a, b, c), (a, c, d)] for a, b, c, d in faces]).reshape(-1, 3)
    points = corners * (high - low + 2 * reach) + low - reach
    mesh = Mesh(points, triangles, np.zeros(12, np.int8), np.repeat([0, 1, 0, 0, 0, 0], 2).astype(np.int8))
    grid = Grid(2.0, tuple(low), periodic, tuple(low), tuple(high))
    lattice, _ = voxelize(mesh, (), VoxelizeSettings(nodes_across=8), grid=grid)
    nodes, figures = decompose(lattice, mesh, (), patches=("lid",))
    np.testing.assert_array_equal(nodes.corner_link_q, np.float32(0.5))
    behind_one_link_or_fluid(nodes)
    joined_along_each = np.prod(np.where(periodic, (12, 8, 16), (11, 7, 15)))
    assert figures["corner_links"] == len(nodes.corner_link_node) == 8 * (12 * 8 * 16 - joined_along_each)
    place = nodes.points_mm()[nodes.corner_link_node] + STEPS[nodes.corner_link_direction] * nodes.spacing_mm / 2
    edge = ((abs(place - low) < 1e-9) | (abs(place - high) < 1e-9)).sum(axis=1) > 1
    np.testing.assert_array_equal(nodes.corner_link_patch[~edge] == 1, abs(place[~edge, 2] - 7.0) < 1e-9)
