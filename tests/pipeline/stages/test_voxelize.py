# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.case.settings.geometry import VoxelizeSettings
from pipeline.case.shapes import Nozzle
from pipeline.files.mesh import Mesh
from pipeline.geometry.lattice.crossings import MAX_NODES, SUBDIVISIONS, crossings, inside, rasterise
from pipeline.geometry.lattice.frame import Frame
from pipeline.geometry.lattice.grid import choose_frame
from pipeline.geometry.lattice.links import links, short_cuts
from pipeline.geometry.lattice.tagged_lattice import Lattice
from pipeline.geometry.lattice.thin_passages import largest_component, without_passages, without_thin_passages
from pipeline.geometry.surface.distance import Surface
from pipeline.geometry.surface.tessellation import tessellate
from pipeline.stages.voxelize import voxelize
from solver.domain.nodes import EXTERNAL, FLUID, INLET, OUTLET, WALL
from solver.kernels.d3q19 import VELOCITIES, WEIGHTS, Q
from solver.runtime.errors import StageError
from tests.support.shapes import capped_cylinder, frame_of, joined, sphere, stenosis, torus, vessel

AXES = [(0, 0, 1), (1, 1, 0), (1, 2, 3), (2, 3, 6), (-3, 1, 0.2)]


def points_mm(frame: Frame):
    """Places of all nodes, [z, y, x, 3]."""
    return np.moveaxis(np.indices(frame.shape), 0, -1)[..., ::-1] * frame.spacing_mm + frame.origin_mm


def frame_around(mesh: Mesh, spacing_mm, shift=(0.3, 0.6, 0.9)) -> Frame:
    """A lattice with two nodes of margin whose origin is shifted by fractions of a spacing."""
    low, high = mesh.points_mm.min(axis=0), mesh.points_mm.max(axis=0)
    origin = low - (2 + np.asarray(shift)) * spacing_mm
    shape = np.ceil((high - origin) / spacing_mm).astype(int) + 3
    return Frame(spacing_mm, tuple(origin.tolist()), tuple(shape[::-1].tolist()))


def depth_in_cylinder(points, axis, radius_mm, length_mm):
    """Distance below the surface of a cylinder around the origin, negative outside."""
    along = frame_of(axis)[2]
    height = points @ along
    across = np.linalg.norm(points - height[..., None] * along, axis=-1)
    return np.minimum(radius_mm - across, length_mm / 2 - abs(height))


@pytest.mark.parametrize("axis", AXES)
def test_nodes_inside_are_those_of_the_formula(axis):
    mesh, _ = capped_cylinder(axis, 2.0, 8.0, segments=600, rings=1)
    frame = frame_around(mesh, 0.2)
    depth = depth_in_cylinder(points_mm(frame), axis, 2.0, 8.0)
    # The polygon lies up to R (1 - cos(pi/n)) = 2.8e-5 mm inside the circle, corners are rounded by 1.5e-6 mm.
    clear = abs(depth) > 4e-5
    assert clear.mean() > 0.999
    np.testing.assert_array_equal(inside(mesh, frame)[clear], (depth > 0)[clear])


def test_nodes_inside_a_sphere_are_those_of_the_formula():
    mesh = sphere(3.0, (5.0, -3.0, 2.0), segments=600, axis=(1, 2, 3))
    frame = frame_around(mesh, 0.2)
    depth = 3.0 - np.linalg.norm(points_mm(frame) - (5.0, -3.0, 2.0), axis=-1)
    clear = (depth < -2e-6) | (depth > 1e-4)  # facets lie up to 2 R (1 - cos(pi/600)) inside the sphere
    np.testing.assert_array_equal(inside(mesh, frame)[clear], (depth > 0)[clear])


@pytest.mark.parametrize(
    "mesh",
    [
        sphere(1.0, segments=48, axis=(1, 2, 3)),
        torus(1.0, 0.4, segments=48, axis=(1, 2, 3)),
        capped_cylinder((1, 2**0.5, np.pi), 0.5, 3.0, segments=48)[0],
    ],
    ids=["sphere", "torus", "tilted pipe"],
)
def test_volume_of_nodes_converges_at_second_order(mesh):
    """The count of lattice points in a body scatters with the origin; its rms over random origins falls as dx^2 for
    smooth bodies (Kendall 1948), and for flat faces whose normal has no ratio of integers. 64 origins leave a standard
    error of 9 % of each rms, that is less than 0.1 of the order.
    """
    rng = np.random.default_rng(4)
    spacings = np.array([0.1, 0.05, 0.025])
    volume = mesh.volume_mm3()
    rms = []
    for spacing in spacings:
        counts = [inside(mesh, frame_around(mesh, spacing, rng.random(3))).sum() for _ in range(64)]
        errors = np.array(counts) * spacing**3 / volume - 1
        assert abs(errors.mean()) < 4 * errors.std() / 8  # no bias
        rms.append(np.sqrt((errors**2).mean()))
    order = np.polyfit(np.log(spacings), np.log(rms), 1)[0]
    assert order > 1.8


corner = st.tuples(*[st.integers(-8, 8)] * 3)


@given(corners=st.lists(corner, min_size=6, max_size=6), direction=st.integers(0, 8))
@settings(max_examples=300, deadline=None)
def test_no_line_passes_a_closed_surface_unseen(corners, direction):
    """Octahedra, folded and flat ones too, with corners on nodes, edges and faces along lattice lines: every line
    leaves as often as it enters, and in one order.
    """
    triangles = [(0, 2, 4), (2, 1, 4), (1, 3, 4), (3, 0, 4), (2, 0, 5), (1, 2, 5), (3, 1, 5), (0, 3, 5)]
    mesh = Mesh(np.array(corners) / 4, np.array(triangles), np.zeros(8, np.int8))
    frame = Frame(0.5, (-4.0, -4.0, -4.0), (17, 17, 17))
    found = crossings(mesh, frame, 2 * direction + 1)
    place, velocity = frame.position(found.node), VELOCITIES[2 * direction + 1].astype(int)
    along = np.flatnonzero(velocity)[0]
    line = place - place[:, [along]] * velocity
    _, names = np.unique(line, axis=0, return_inverse=True)
    np.testing.assert_array_equal(np.bincount(names.ravel(), found.leaving), 0)
    assert ((found.fraction > 0) & (found.fraction <= 1)).all()


def test_overlapping_parts_are_one_body():
    first, second = sphere(2.0, segments=60), sphere(2.0, (1.5, 0.3, 0.2), segments=60)
    both = joined(first, second)
    frame = frame_around(both, 0.15)
    np.testing.assert_array_equal(inside(both, frame), inside(first, frame) | inside(second, frame))


@pytest.fixture(scope="module", params=AXES, ids=str)
def pipe(request):
    mesh, openings = capped_cylinder(request.param, 2.0, 10.0, (5.0, -70.0, 30.0), segments=300, rings=1)
    return request.param, mesh, openings, *voxelize(mesh, openings)


def test_tags_say_what_the_links_of_a_node_meet(pipe):
    """By formula for a pipe: the cap is met first where the link reaches its plane within the circle."""
    axis, _, _, lattice, _ = pipe
    along = frame_of(axis)[2]
    points = points_mm(lattice.frame) - (5.0, -70.0, 30.0)
    fluid = depth_in_cylinder(points, axis, 2.0, 10.0) > 0
    tag, blocked = np.where(fluid, FLUID, EXTERNAL), {}
    for velocity in VELOCITIES[1:].astype(int):
        node = np.argwhere(fluid)
        end = node + velocity[::-1]
        node, end = (index[~fluid[tuple(end.T)]] for index in (node, end))
        step, start = velocity * lattice.spacing_mm, points[tuple(node.T)]
        with np.errstate(divide="ignore"):
            reach = (5.0 - start @ along * np.sign(step @ along)) / abs(step @ along)
        place = start + np.minimum(reach, 1)[:, None] * step
        through = (reach <= 1) & (np.linalg.norm(place - np.outer(place @ along, along), axis=1) < 2.0)
        tag[tuple(node[through].T)] = INLET if step @ along < 0 else OUTLET
        tag[tuple(end[~through].T)] = WALL
        blocked[tuple(velocity)] = np.zeros_like(fluid)
        blocked[tuple(velocity)][tuple(node[~through].T)] = True
    for diagonal in product((-1, 1), repeat=3):  # corners that no link reaches
        towards = [met for v, met in blocked.items() if all(c in (0, d) for c, d in zip(v, diagonal, strict=True))]
        tag[tuple((np.argwhere(np.logical_and.reduce(towards)) + diagonal[::-1]).T)] = WALL
    # The polygon of the mesh is off the circle by 1.1e-4 mm = 5e-4 spacings: about as many tags per link may differ.
    wrong = tag != lattice.tag
    assert wrong.sum() <= 1e-3 * (tag != EXTERNAL).sum()
    np.testing.assert_array_equal(lattice.opening == 0, ~np.isin(lattice.tag, (INLET, OUTLET)))
    np.testing.assert_array_equal(lattice.opening == 1, lattice.tag == INLET)


def test_links_carry_the_area_of_the_openings(pipe):
    """A flow-rate inlet relies on sum 6 w_i |c_i . n| = A / dx^2.

    Near the rim the wall hides the cap from oblique links: a link that moves by s across the axis starts outside the
    pipe over an area s R on average, so that A falls short by R sum over c_i . n > 0 of 6 w_i (c_i . n)^2 s_i.
    What is left is the scatter of counting, within 1 % at 20 nodes across.
    """
    axis, _, openings, lattice, figures = pipe
    normal = frame_of(axis)[2]
    cosine = VELOCITIES @ normal
    aside = np.linalg.norm(VELOCITIES - np.outer(cosine, normal), axis=1)
    hidden = (6 * WEIGHTS * cosine**2 * aside)[cosine > 0].sum() * lattice.spacing_mm / (np.pi * 2.0)
    assert hidden < 0.04
    for opening in openings:
        shown = figures["openings"][opening.name]["link_area_over_area"]
        np.testing.assert_allclose(shown, 1 - hidden, atol=0.01)


def test_rotated_pipes_have_the_same_volume(pipe):
    """The scatter of counting: 30,000 nodes, of which 5,000 touch the surface, give an rms of a few 1e-3."""
    *_, figures = pipe
    np.testing.assert_allclose(figures["fluid_volume_over_surface_volume"], 1, atol=0.006)
    assert sum(figures["removed_nodes"].values()) == figures["links_on_surface"] == 0


def test_lattice_has_a_margin_and_no_plane_on_the_surface():
    """A box of 20 x 20 x 20 spacings: its faces are at least a tenth of a spacing away from every plane of nodes."""
    diamond, _ = capped_cylinder((0, 0, 1), np.sqrt(2), 2.0, segments=4, rings=1)
    turn = np.array([[1, -1, 0], [1, 1, 0], [0, 0, np.sqrt(2)]]) / np.sqrt(2)
    mesh = Mesh(diamond.points_mm @ turn.T, diamond.triangles, diamond.opening)
    frame = choose_frame(mesh, 0.1)
    index = (mesh.points_mm[abs(mesh.points_mm).min(axis=1) > 0.5] - frame.origin_mm) / frame.spacing_mm
    assert len(index) == 8
    assert (index > 1).all()
    assert (index < np.array(frame.shape[::-1]) - 2).all()
    assert (abs(index - np.rint(index)) > 0.1).all()


def test_islands_are_taken_out_and_counted():
    pipe, openings = capped_cylinder((1, 2, 3), 2.0, 10.0, segments=60)
    ball = sphere(1.0, (4.0, 0.0, 0.0), segments=60)
    whole, figures = voxelize(joined(pipe, ball), openings)
    frame = whole.frame
    assert figures["removed_nodes"] == {"short_cuts": 0, "passages": 0, "islands": inside(ball, frame).sum()}
    assert figures["removed_nodes"]["islands"] > 100
    np.testing.assert_array_equal(whole.tag >= FLUID, inside(pipe, frame))


def pairs_of_fluid(fluid, periodic=(False, False, False)):
    """Nodes, (x, y, z), at both ends of all links between fluid nodes [z, y, x]."""
    node = np.argwhere(fluid)[:, ::-1]
    size, starts, ends = np.array(fluid.shape[::-1]), [], []
    for velocity in VELOCITIES[1::2].astype(int):
        end = node + velocity
        end = np.where(periodic, end % size, end)
        within = ((end >= 0) & (end < size)).all(axis=1)
        joined_by = fluid[tuple(np.where(within[:, None], end, 0).T[::-1])] & within
        starts.append(node[joined_by])
        ends.append(end[joined_by])
    return np.concatenate(starts), np.concatenate(ends)


@pytest.mark.parametrize("axis", [(0, 0, 1), (1, 2, 3), (-3, 1, 0.2)], ids=str)
@pytest.mark.parametrize("gap", [0.02, 0.1, 0.18], ids="gap {}".format)
def test_no_link_joins_vessels_that_nearly_touch(axis, gap):
    """Two parallel pipes, a gap of less than a spacing (0.2) apart: links between them cross it until ends are taken
    out, on one side of each.
    """
    side = frame_of(axis)[0]
    first, _ = capped_cylinder(axis, 1.5, 5.0, segments=200)
    second, _ = capped_cylinder(axis, 1.5, 5.0, tuple((3.0 + gap) * side), segments=200)
    frame = frame_around(joined(first, second), 0.2)
    raster = rasterise(joined(first, second), frame)

    def links_between(fluid):
        start, end = ((nodes * 0.2 + frame.origin_mm) @ side > 1.5 + gap / 2 for nodes in pairs_of_fluid(fluid))
        return int((start != end).sum())

    fluid = raster.enclosed
    nodes = short_cuts(raster, fluid)
    assert len(nodes) <= links_between(fluid)
    assert len(nodes) > 0 or (gap > 0.02 and links_between(fluid) == 0)  # a plane of nodes may lie in the gap
    fluid.reshape(-1)[nodes] = False
    assert links_between(fluid) == 0
    assert len(short_cuts(raster, fluid)) == 0


def test_an_edge_of_the_wall_keeps_its_nodes():
    """At the end of a nozzle links cut off the edge, but two others join their ends."""
    shape = Nozzle(shape="nozzle", diameter_mm=2, outlet_diameter_mm=4, throat_mm=1, outlet_mm=2, direction=(1, 2, 3))
    mesh = tessellate(shape, 0.1).mesh
    raster = rasterise(mesh, frame_around(mesh, 0.1))
    start, end = pairs_of_fluid(raster.enclosed)
    on_the_way = (
        np.stack([start + part * (end - start) for part in (0.2, 0.4, 0.6, 0.8)]) * 0.1 + raster.frame.origin_mm
    )
    along = on_the_way @ shape.unit
    away = np.linalg.norm(on_the_way - along[..., None] * shape.unit, axis=-1)
    assert ((along < 0) & (away > 1)).any(axis=0).sum() > 10
    assert len(short_cuts(raster, raster.enclosed)) == 0


def test_vessels_that_nearly_touch_are_parted():
    pipe, openings = capped_cylinder((0, 0, 1), 2.0, 10.0, segments=300)
    for gap, touching in ((0.02, True), (0.4, False)):  # at a spacing of 0.2
        ball = sphere(2.0, (4.0 + gap, 0.0, 0.0), segments=300)
        lattice, figures = voxelize(joined(pipe, ball), openings)
        removed = figures["removed_nodes"]
        assert (removed["short_cuts"] > 0) == touching
        fluid, whole = lattice.tag >= FLUID, inside(pipe, lattice.frame)
        assert not (fluid & ~whole).any()
        assert (whole & ~fluid).sum() <= removed["short_cuts"] <= 10
        assert removed["islands"] + removed["short_cuts"] >= inside(ball, lattice.frame).sum()


def test_overlap_is_no_short_cut():
    """Where a surface overlaps itself, links cross it and stay inside."""
    first, second = sphere(2.0, segments=60), sphere(2.0, (1.5, 0.3, 0.2), segments=60)
    both = joined(first, second)
    frame = frame_around(both, 0.15)
    raster = rasterise(both, frame)
    nodes = short_cuts(raster, raster.enclosed)
    place = frame.position(nodes) * 0.15 + frame.origin_mm
    away = [abs(np.linalg.norm(place - centre, axis=1) - 2.0) for centre in ((0, 0, 0), (1.5, 0.3, 0.2))]
    assert (np.maximum(*away) < 2 * 0.15).all()  # only at the sharp edge where both surfaces meet
    found = links(raster, raster.enclosed)
    step = VELOCITIES[found.direction] * 0.15
    met = frame.position(found.node) * 0.15 + frame.origin_mm + found.q[:, None] * step
    depth = 2.0 - np.minimum(np.linalg.norm(met, axis=1), np.linalg.norm(met - (1.5, 0.3, 0.2), axis=1))
    assert abs(depth).max() < 2 * 2.0 * (1 - np.cos(np.pi / 60)) + 1e-4  # facets; no link ends on an inner surface


def naive_passages(fluid, periodic):
    """The same node by node."""
    size = fluid.shape

    def at(state, z, y, x):
        place = [p % n if repeats else p for p, n, repeats in zip((z, y, x), size, periodic[::-1], strict=True)]
        return state[tuple(place)] if all(0 <= p < n for p, n in zip(place, size, strict=True)) else 0

    state = fluid.astype(int)
    cube = [(z, y, x) for z in (0, 1) for y in (0, 1) for x in (0, 1)]
    for place in np.argwhere(fluid):
        corners = [place - corner for corner in cube]
        if not any(all(at(fluid, *(low + corner)) for corner in cube) for low in corners):
            state[tuple(place)] = 2
    while True:
        bad, outer = [], []
        for place in np.argwhere(state == 2):
            sides = [(at(state, *(place - step)), at(state, *(place + step))) for step in np.eye(3, dtype=int)]
            if not any(side in ((1, 0), (0, 1)) for side in sides):
                bad.append(place)
                outer += [place] if all(1 not in side for side in sides) else []
        if not bad:
            return state > 0
        for place in outer or bad:
            state[tuple(place)] = 0


@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(*[st.integers(4, 8)] * 3),
    filled=st.sampled_from((0.6, 0.75, 0.9)),
    periodic=st.tuples(*[st.booleans()] * 3),
)
@settings(max_examples=60, deadline=None)
def test_passages_are_those_found_node_by_node(seed, shape, filled, periodic):
    rng = np.random.default_rng(seed)
    fluid = np.kron(rng.random([n // 2 for n in shape]) < filled / 2, np.ones((2, 2, 2), bool))
    fluid = np.pad(fluid, [(0, n - m) for n, m in zip(shape, fluid.shape, strict=True)]) | (rng.random(shape) > filled)
    for axis, repeats in enumerate(periodic[::-1]):
        if not repeats:
            np.moveaxis(fluid, axis, 0)[[0, -1]] = False
    frame = Frame(1.0, (0.0, 0.0, 0.0), shape, periodic)
    wide = without_passages(fluid, frame)
    np.testing.assert_array_equal(wide, naive_passages(fluid, periodic))
    np.testing.assert_array_equal(without_passages(wide, frame), wide)


@pytest.mark.parametrize("length", [1, 2, 3, 6])
def test_passage_between_blocks_is_closed_and_a_bump_stays(length):
    fluid = np.zeros((9, 9, 22), bool)
    fluid[2:7, 2:7, 2:6] = fluid[2:7, 2:7, 6 + length : 10 + length] = True
    fluid[4, 1, 3] = True  # a bump on the first block
    blocks = fluid.copy()
    fluid[4, 4, 6 : 6 + length] = True
    frame = Frame(1.0, (0.0, 0.0, 0.0), fluid.shape)
    wide = without_passages(fluid, frame)
    assert (wide & ~blocks).sum() == (0 if length <= 2 else 2)  # the ends of a long one stay as bumps
    assert not (blocks & ~wide).any()
    assert not wide[4, 4, 6 : 6 + length].all()


def naive_component(fluid, periodic):
    start, end = pairs_of_fluid(fluid, periodic)
    name = {tuple(place): n for n, place in enumerate(np.argwhere(fluid)[:, ::-1].tolist())}
    label = list(range(len(name)))

    def root(n):
        while label[n] != n:
            n = label[n]
        return n

    for a, b in zip(start.tolist(), end.tolist(), strict=True):
        low, high = sorted((root(name[tuple(a)]), root(name[tuple(b)])))
        label[high] = low
    roots = [root(n) for n in range(len(label))]
    return max(np.bincount(roots))


@given(
    seed=st.integers(0, 2**32 - 1),
    filled=st.sampled_from((0.05, 0.1, 0.15)),
    periodic=st.tuples(*[st.booleans()] * 3),
)
@settings(max_examples=60, deadline=None)
def test_largest_component_is_that_of_the_links(seed, filled, periodic):
    fluid = np.random.default_rng(seed).random((7, 6, 8)) < filled
    fluid[3, 3, 3] = True
    kept = largest_component(fluid, Frame(1.0, (0.0, 0.0, 0.0), fluid.shape, periodic))
    assert kept.sum() == naive_component(fluid, periodic) == naive_component(kept, periodic)
    assert not (kept & ~fluid).any()


def test_parts_joined_by_a_corner_only_are_apart():
    """D3Q19 has no link along a space diagonal."""
    fluid = np.zeros((8, 8, 8), bool)
    fluid[1:4, 1:4, 1:4] = True
    fluid[4:6, 4:6, 4:6] = True
    frame = Frame(1.0, (0.0, 0.0, 0.0), fluid.shape)
    kept = largest_component(fluid, frame)
    assert kept.sum() == 27
    fluid[4, 4, 3] = True  # joined to (3, 3, 3) along (0, 1, 1) and to (4, 4, 4) along x
    assert largest_component(fluid, frame).sum() == fluid.sum()


def test_links_to_a_node_taken_out_end_on_it():
    mesh, _ = capped_cylinder((1, 2, 3), 2.0, 10.0, segments=60)
    raster = rasterise(mesh, frame_around(mesh, 0.3))
    fluid = raster.enclosed
    before = links(raster, fluid)
    node = np.flatnonzero(fluid)[fluid.sum() // 2]
    fluid.reshape(-1)[node] = False
    after = links(raster, fluid)
    at = after.end == node
    assert at.sum() == Q - 1
    np.testing.assert_array_equal(after.removed, at)
    np.testing.assert_array_equal(after.q[at], 1)
    np.testing.assert_array_equal(after.opening[at], 0)
    np.testing.assert_array_equal(after.q[~at], before.q)


def winding_number(mesh, points):
    """Solid angle of the surface seen from points (N, 3), in units of 4 pi: 1 inside, 0 outside of a closed surface.

    Source: van Oosterom and Strackee (1983), doi:10.1109/TBME.1983.325207.
    """
    a, b, c = (mesh.points_mm[mesh.triangles[:, k]][None] - points[:, None] for k in range(3))
    la, lb, lc = (np.linalg.norm(vector, axis=-1) for vector in (a, b, c))
    triple = np.einsum("ijk,ijk->ij", a, np.cross(b, c))
    dots = [np.einsum("ijk,ijk->ij", *pair) for pair in ((a, b), (b, c), (c, a))]
    below = la * lb * lc + dots[0] * lc + dots[1] * la + dots[2] * lb
    return np.arctan2(triple, below).sum(axis=1) / (2 * np.pi)


def dented_bodies(rng, segments):
    """Two balls with random dents and spikes, which may overlap."""
    bodies = []
    for _ in range(2):
        ball = sphere(1.0, segments=segments, axis=rng.normal(size=3))
        dented = ball.points_mm * rng.uniform(0.5, 1.5, (len(ball.points_mm), 1)) + rng.normal(0, 0.7, 3)
        bodies.append(replace(ball, points_mm=dented))
    return joined(*bodies)


@pytest.mark.parametrize("seed", range(8))
def test_no_link_leaves_the_vessel_when_all_is_taken_out(seed):
    """Passages and islands that are taken out joined the ends of others within the vessel."""
    rng = np.random.default_rng(seed)
    for spacing_mm in (0.15, 0.25):
        mesh = dented_bodies(rng, 12)
        raster = rasterise(mesh, frame_around(mesh, spacing_mm, rng.random(3)))
        whole = raster.enclosed.sum()
        fluid, removed = without_thin_passages(raster)
        assert len(short_cuts(raster, fluid)) == 0
        assert whole - fluid.sum() == sum(removed.values())


@given(seed=st.integers(0, 2**32 - 1), segments=st.sampled_from((6, 12, 20)))
@settings(max_examples=6, deadline=None)
def test_nodes_inside_random_shapes_are_those_of_the_winding_number(seed, segments):
    """Dented, spiky and overlapping bodies: every node, by an exact method that shares nothing with the raster."""
    rng = np.random.default_rng(seed)
    mesh = dented_bodies(rng, segments)
    frame = frame_around(mesh, 0.31, rng.random(3))
    places = points_mm(frame).reshape(-1, 3)
    times = winding_number(mesh, places)
    np.testing.assert_allclose(times, np.rint(times), atol=1e-6)
    wrong = places[inside(mesh, frame).reshape(-1) != (times > 0.5)]
    # corners are rounded to 1/65536 of a spacing: nodes nearer to the surface may lie on either side of it
    assert (Surface(mesh).distance_mm(wrong) < 0.31 / SUBDIVISIONS).all()


def test_order_of_triangles_does_not_matter():
    mesh, openings = capped_cylinder((1, 2, 3), 2.0, 10.0, segments=60)
    order = np.random.default_rng(0).permutation(len(mesh.triangles))
    first, _ = voxelize(mesh, openings)
    second, _ = voxelize(Mesh(mesh.points_mm, mesh.triangles[order], mesh.opening[order]), openings)
    np.testing.assert_array_equal(first.tag, second.tag)
    np.testing.assert_array_equal(first.opening, second.opening)


def test_file_gives_back_the_same_lattice(tmp_path, pipe):
    lattice = pipe[3]
    lattice.write(tmp_path / "lattice.vti")
    again = Lattice.read(tmp_path / "lattice.vti")
    np.testing.assert_array_equal(again.tag, lattice.tag)
    np.testing.assert_array_equal(again.opening, lattice.opening)
    assert (again.spacing_mm, again.origin_mm, again.frame) == (lattice.spacing_mm, lattice.origin_mm, lattice.frame)


@pytest.mark.parametrize("text", ["", "not XML", "<VTKFile type='ImageData'/>"])
def test_file_without_a_lattice_is_refused(tmp_path, text):
    (tmp_path / "lattice.vti").write_text(text)
    with pytest.raises(StageError, match="run voxelize again"):
        Lattice.read(tmp_path / "lattice.vti")


PIPE = capped_cylinder((1, 2, 3), 2.0, 10.0, segments=60)


def refused(mesh, openings, **spacing):
    with pytest.raises(StageError) as caught:
        voxelize(mesh, openings, VoxelizeSettings(**spacing))
    return str(caught.value)


def test_surface_with_a_hole_is_refused():
    mesh, openings = PIPE
    holed = Mesh(mesh.points_mm, mesh.triangles[1:], mesh.opening[1:])
    assert "3 edges do not lie between two triangles" in refused(holed, openings)


def test_surface_that_is_inside_out_is_refused():
    mesh, openings = PIPE
    assert "normals point inward" in refused(Mesh(mesh.points_mm, mesh.triangles[:, ::-1], mesh.opening), openings)


def test_caps_without_openings_are_refused():
    mesh, openings = PIPE
    assert "caps [1, 2], but the openings are [1]" in refused(mesh, openings[:1])


def test_spacing_too_coarse_for_an_opening_is_refused_with_the_remedy():
    mesh, openings = vessel([3.0, 1.0], [0.0, 10.0], (0, 0, 1), (0, 0, 0), 400)
    message = refused(mesh, openings, nodes_across=12)
    for part in (
        "opening outlet (radius 1 mm)",
        "4.0 nodes across",
        "spacing of 0.5 mm",
        "voxelize: {spacing_mm: 0.333, nodes_across: null}",
    ):
        assert part in message
    voxelize(mesh, openings, VoxelizeSettings(spacing_mm=0.33))


def test_opening_that_is_cut_off_is_refused():
    mesh, openings = stenosis((1, 2, 3), 2.0, 20.0, throat_mm=0.02)
    assert "is cut off from the largest part of the vessel at a spacing of 0.2 mm" in refused(mesh, openings)


def test_lattice_that_does_not_fit_is_refused(monkeypatch):
    mesh, openings = PIPE
    assert f"along an axis, at most {MAX_NODES} are possible" in refused(mesh, openings, spacing_mm=1e-3)
    monkeypatch.setattr("os.sysconf", lambda name: 1000)  # a machine with 1 MB
    message = refused(mesh, openings)
    assert "of this machine, which has 0.001 GB" in message
    fitting = float(message.split("Set voxelize.spacing_mm: ")[1])
    monkeypatch.setattr("pipeline.stages.voxelize.rasterise", lambda *_: pytest.fail("taken"))
    with pytest.raises(pytest.fail.Exception, match="taken"):
        voxelize(mesh, openings, VoxelizeSettings(spacing_mm=fitting))


def test_lattice_apart_from_the_surface_is_refused():
    mesh, _ = PIPE
    with pytest.raises(StageError, match="reaches beyond the lattice"):
        inside(mesh, Frame(0.2, (0.0, 0.0, 0.0), (50, 50, 50)))
