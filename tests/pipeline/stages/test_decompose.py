# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from pipeline.case.settings.geometry import DecomposeSettings, VoxelizeSettings
from pipeline.files.mesh import Mesh, write_openings
from pipeline.geometry.lattice import links as link_module
from pipeline.geometry.lattice.crossings import inside, rasterise
from pipeline.geometry.lattice.frame import Frame
from pipeline.geometry.lattice.links import SMALLEST_Q, corner_links, links
from pipeline.geometry.lattice.node_arrays import decompose, order_of_axes
from pipeline.geometry.lattice.tagged_lattice import Lattice
from pipeline.stages.voxelize import voxelize
from solver.domain.division import divide
from solver.domain.nodes import ARRAYS, FLUID, STEPS, WALL, load
from solver.domain.partition import partition
from solver.kernels.d3q19 import VELOCITIES
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.support.command_lines import run_here
from tests.support.shapes import capped_cylinder, frame_of, joined, sphere, stenosis
from tests.support.variants import some

CENTRE = np.array((5.0, -70.0, 30.0))


def starts_and_steps(nodes, kind):
    """Fluid node's place and the link, (L, 3) each, mm, of the wall or opening links."""
    row, direction = getattr(nodes, f"{kind}_link_node"), getattr(nodes, f"{kind}_link_direction")
    return nodes.points_mm()[row], STEPS[direction] * nodes.spacing_mm


def distance_along(start, step, radius_mm, axis=None):
    """Distance, in lengths of the step, from inside to a sphere or, with an axis, a cylinder around the origin."""
    if axis is not None:
        start, step = (vector - np.outer(vector @ axis, axis) for vector in (start, step))
    a, b, c = (step**2).sum(axis=1), (start * step).sum(axis=1), (start**2).sum(axis=1) - radius_mm**2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(a > 1e-12, (np.sqrt(b * b - a * c) - b) / a, np.inf)


def depth_at(start, step, q, radius_mm, axis=None):
    """How far, in mm, the place at distance q of the link is inside the sphere or cylinder."""
    place = start + q[:, None] * step
    if axis is not None:
        place = place - np.outer(place @ axis, axis)
    return radius_mm - np.linalg.norm(place, axis=1)


@pytest.mark.parametrize(
    ("axis", "corners"),
    [
        ((0, 0, 1), False),
        ((1, 2, 3), True),
        *(
            pytest.param(axis, corners, marks=pytest.mark.slow)
            for axis in ((2, 3, 6), (-3, 1, 0.2))
            for corners in (False, True)
        ),
    ],
)
def test_q_in_a_tilted_cylinder_is_that_of_the_formula(axis, corners):
    mesh, openings = capped_cylinder(axis, 2.0, 8.0, CENTRE, segments=2000, rings=1)
    nodes, _ = decompose(voxelize(mesh, openings)[0], mesh, openings, corners=corners)
    nodes = nodes.with_corners() if corners else nodes
    assert nodes.wall_link_direction.max() == nodes.opening_link_direction.max() == (26 if corners else 18)
    along, spacing = frame_of(axis)[2], nodes.spacing_mm
    start, step = starts_and_steps(nodes, "wall")
    depth = depth_at(start - CENTRE, step, nodes.wall_link_q, 2.0, along)[nodes.wall_link_q > SMALLEST_Q]
    # Facets lie up to R (1 - cos(pi/n)) = 2.5e-6 mm inside; corners are rounded by half of 1/65536 spacing in x, y, z;
    # q in fp32 adds 1e-7 of a link.
    assert depth.max() < 2.5e-6 + 1.4e-5 * spacing
    assert depth.min() > -1.4e-5 * spacing
    exact = distance_along(start - CENTRE, step, 2.0, along)
    assert np.abs(nodes.wall_link_q - exact).max() < 1e-3
    start, step = starts_and_steps(nodes, "opening")
    left = 4.0 - abs((start - CENTRE) @ along) - nodes.opening_link_q * abs(step @ along)
    np.testing.assert_allclose(left[nodes.opening_link_q > SMALLEST_Q], 0, atol=1.4e-5 * spacing)
    np.testing.assert_array_equal(nodes.opening_link_opening, np.where(step @ along < 0, 1, 2))


@pytest.mark.parametrize(
    "corners", [pytest.param(False, marks=pytest.mark.slow), True], ids=["18 directions", "with corners"]
)
def test_q_in_a_sphere_is_that_of_the_formula(corners):
    mesh = sphere(2.0, CENTRE, segments=600, axis=(1, 2, 3))
    lattice, figures = voxelize_closed(mesh, 0.2)
    nodes, _ = decompose(lattice, mesh, (), corners=corners)
    nodes = nodes.with_corners() if corners else nodes
    start, step = starts_and_steps(nodes, "wall")
    depth = depth_at(start - CENTRE, step, nodes.wall_link_q, 2.0)[nodes.wall_link_q > SMALLEST_Q]
    # The middle of a facet lies up to 2 R (1 - cos(pi/600)) = 5.5e-5 mm = 2.7e-4 spacings inside the sphere.
    assert depth.min() > -1.4e-5 * 0.2
    assert depth.max() < 5.5e-5 + 1.4e-5 * 0.2
    place = start - CENTRE + nodes.wall_link_q[:, None] * step
    cosine = np.einsum("ij,ij->i", place, step) / np.linalg.norm(place, axis=1) / 0.2
    error = np.abs(nodes.wall_link_q - distance_along(start - CENTRE, step, 2.0))
    assert (error * cosine).max() < 3.5e-4
    assert error[cosine > 0.3].max() < 1e-3
    assert figures["links_on_surface"] == 0


def voxelize_closed(mesh, spacing_mm):
    return voxelize(mesh, (), VoxelizeSettings(spacing_mm=spacing_mm))


def naive_first_crossing(mesh, start, step):
    """Distance to the first of all triangles that a link meets, and its opening (Möller and Trumbore 1997)."""
    a, b, c = (mesh.points_mm[mesh.triangles[:, k]] for k in range(3))
    edge_b, edge_c = b - a, c - a
    normal = np.cross(step, edge_c)
    determinant = np.einsum("ij,ij->i", edge_b, normal)
    with np.errstate(divide="ignore", invalid="ignore"):
        v = np.einsum("ij,ij->i", start - a, normal) / determinant
        turned = np.cross(start - a, edge_b)
        w = turned @ step / determinant
        t = np.einsum("ij,ij->i", turned, edge_c) / determinant
    met = (v >= -1e-12) & (w >= -1e-12) & (v + w <= 1 + 1e-12) & (t > 0) & (t <= 1)
    t = np.where(met, t, np.inf)
    return t.min(), mesh.opening[t.argmin()]


@pytest.mark.parametrize("segments", some([5, 40], 5), ids=["long triangles", "short triangles"])
def test_first_crossings_are_those_over_all_triangles(segments):
    mesh, openings = stenosis((1, 2, 3), 1.0, 4.0, 0.6, CENTRE, segments=segments)
    lattice, _ = voxelize(mesh, openings)
    nodes, figures = decompose(lattice, mesh, openings)
    pick, taken_out = np.random.default_rng(5), 0
    for kind in ("wall", "opening"):
        start, step = starts_and_steps(nodes, kind)
        q = getattr(nodes, f"{kind}_link_q")
        opening = nodes.opening_link_opening if kind == "opening" else np.zeros(len(q))
        for n in pick.choice(len(q), 1000, replace=False):
            distance, number = naive_first_crossing(mesh, start[n], step[n])
            # Corners are rounded by up to 1.4e-5 spacings, which grazing links see enlarged.
            assert abs(min(distance, 1) - q[n]) < 2e-3, (kind, n)
            assert number == opening[n] or np.isinf(distance)
            taken_out += int(np.isinf(distance))
    assert (taken_out > 0) <= (figures["links_removed_end"] > 0)  # ends of short cuts at an edge: the wall is put there


@pytest.fixture(scope="module")
def pipe():
    mesh, openings = capped_cylinder((1, 2, 3), 2.0, 8.0, CENTRE, segments=100)
    lattice, _ = voxelize(mesh, openings)
    return mesh, openings, lattice, *decompose(lattice, mesh, openings)


def test_arrays_stand_for_the_lattice(pipe):
    _, openings, lattice, nodes, figures = pipe
    tag, opening = np.full_like(lattice.tag, -1), np.zeros_like(lattice.opening)
    x, y, z = nodes.wall_position.T
    tag[z, y, x] = WALL
    x, y, z = nodes.position.T
    tag[z, y, x], opening[z, y, x] = nodes.tag, nodes.opening
    np.testing.assert_array_equal(tag, lattice.tag)
    np.testing.assert_array_equal(opening, lattice.opening)
    assert nodes.openings == openings
    assert figures["wall_links"] == len(nodes.wall_link_q)


def test_opening_of_a_node_is_the_nearest_along_its_links(pipe):
    nodes = pipe[3]
    length = nodes.opening_link_q * np.linalg.norm(VELOCITIES[nodes.opening_link_direction], axis=1)
    nearest = np.full(nodes.count, np.inf)
    np.minimum.at(nearest, nodes.opening_link_node, length)
    met = length == nearest[nodes.opening_link_node]
    np.testing.assert_array_equal(nodes.opening[nodes.opening_link_node[met]], nodes.opening_link_opening[met])
    assert ((nodes.opening > 0) == np.isfinite(nearest)).all()


def test_lattice_of_another_surface_is_refused(pipe):
    _, openings, lattice, *_ = pipe
    other, _ = capped_cylinder((1, 2, 3), 1.9, 8.0, CENTRE, segments=100)
    with pytest.raises(StageError, match="of different runs"):
        decompose(lattice, other, openings)


def test_lattice_with_a_changed_tag_is_refused(pipe):
    mesh, openings, lattice, *_ = pipe
    tag = lattice.tag.copy()
    tag.reshape(-1)[np.flatnonzero(tag == WALL)[0]] = -1
    with pytest.raises(StageError, match="of different runs"):
        decompose(replace(lattice, tag=tag), mesh, openings)


def diamond_on_nodes():
    """A square prism with sides along (1, 1, 0) and (1, -1, 0), all of which pass through nodes at a spacing of 1."""
    mesh, openings = capped_cylinder((0, 0, 1), 8.0, 9.0, segments=4, rings=1)
    return mesh, openings, Frame(1.0, (-12.0, -12.0, -10.0), (21, 25, 25))


def test_nodes_on_the_surface_are_refused_where_they_are_many():
    mesh, _, frame = diamond_on_nodes()
    with pytest.raises(StageError, match="nodes lie on the surface"):
        links(rasterise(mesh, frame), inside(mesh, frame))


def test_links_at_nodes_on_the_surface_end_on_it(monkeypatch):
    monkeypatch.setattr(link_module, "MAX_ON_SURFACE", 1.0)
    mesh, _, frame = diamond_on_nodes()
    found = links(rasterise(mesh, frame), inside(mesh, frame))
    assert found.on_surface > 0
    assert not found.removed.any()
    start = frame.position(found.node) + np.array(frame.origin_mm)
    place = start + found.q[:, None] * VELOCITIES[found.direction]
    side, wall = abs(place[:, :2]).sum(axis=1), found.opening == 0
    edge = abs(start[:, :2]).max(axis=1) == 8  # a line may touch an edge of the prism and not cross it
    np.testing.assert_allclose(side[wall & ~edge], 8, atol=2.1 * SMALLEST_Q)
    np.testing.assert_allclose(abs(place[~wall, 2]), 4.5, atol=1e-5)


def test_removed_island_leaves_no_trace(pipe):
    mesh, openings, lattice, nodes, _ = pipe
    ball = sphere(0.4, CENTRE + np.array((2.0, 3.0, -3.5)), segments=40)
    again, figures = decompose(lattice, joined(mesh, ball), openings)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(again, name), getattr(nodes, name))
    assert figures["links_removed_end"] == 0


def test_command_lines_give_what_the_functions_give_on_any_number_of_threads(pipe, tmp_path):
    mesh, openings, lattice, nodes, figures = pipe
    mesh.write(tmp_path / "surface.vtp")
    write_openings(openings, tmp_path / "openings.json")

    def options(stage, *more):
        given = ["--surface", tmp_path / "surface.vtp", "--openings", tmp_path / "openings.json"]
        return [*given, *more, "--provenance", tmp_path / f"{stage}.json"]

    command = [
        sys.executable,
        "-m",
        "pipeline.stages.voxelize",
        *options("voxelize", "--lattice", tmp_path / "lattice.vti"),
    ]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"NUMBA_NUM_THREADS": "2"}, check=True)
    written = Lattice.read(tmp_path / "lattice.vti")
    np.testing.assert_array_equal(written.tag, lattice.tag)
    given = ("--lattice", tmp_path / "lattice.vti")
    answer = run_here("pipeline.stages.decompose", *options("decompose", *given, "--nodes", tmp_path / "nodes.h5"))
    assert f"{figures['fluid_nodes']} fluid nodes" in answer.stderr
    again = load(tmp_path / "nodes.h5")
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(again, name), getattr(nodes, name))
    assert (again.tag >= FLUID).all()
    (tmp_path / "openings.json").write_text("{}")
    answer = run_here("pipeline.stages.decompose", *options("decompose", *given, "--nodes", tmp_path / "other.h5"))
    assert answer.returncode == 1
    assert "run surface again" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not (tmp_path / "other.h5").exists()


def spherical_error_mm(nodes, depth_mm):
    """Kept distances less the depth below the exact surface, of the nodes that have one."""
    kept = np.isfinite(nodes.distance_mm)
    depth = depth_mm(nodes.points_mm())
    band = 2 * nodes.spacing_mm
    assert kept[depth < band - 1e-3].all()
    assert not kept[depth > band + 1e-3].any()
    assert kept.sum() > 1000
    wall = depth_mm(nodes.wall_position * nodes.spacing_mm + nodes.origin_mm)
    assert (nodes.wall_distance_mm < 0).all()
    return nodes.distance_mm[kept] - depth[kept], nodes.wall_distance_mm - wall


def test_distances_in_a_sphere_are_those_of_the_formula():
    mesh = sphere(2.0, CENTRE, segments=400, axis=(1, 2, 3))
    nodes, _ = decompose(voxelize_closed(mesh, 0.2)[0], mesh, ())
    sagitta = 2 * 2.0 * (1 - np.cos(np.pi / 400))  # the surface lies up to this far inside the sphere, 1.2e-4 mm
    for error in spherical_error_mm(nodes, lambda points: 2.0 - np.linalg.norm(points - CENTRE, axis=1)):
        assert error.max() < 1e-6
        assert error.min() > -sagitta - 1e-6
    consistent(nodes)


@pytest.mark.parametrize("axis", [pytest.param((1, 0, 0), marks=pytest.mark.slow), (1, 2, 3)])
def test_distances_in_a_tilted_cylinder_are_those_of_the_formula(axis):
    """From nodes whose foot on the wall lies between the caps; the caps themselves do not count."""
    mesh, openings = capped_cylinder(axis, 2.0, 8.0, CENTRE, segments=1000, rings=20)
    nodes, _ = decompose(voxelize(mesh, openings)[0], mesh, openings)
    along = frame_of(axis)[2]
    sagitta = 2.0 * (1 - np.cos(np.pi / 1000))
    for points, found in (
        (nodes.points_mm(), nodes.distance_mm),
        (nodes.wall_position * nodes.spacing_mm + nodes.origin_mm, nodes.wall_distance_mm),
    ):
        height = (points - CENTRE) @ along
        depth = 2.0 - np.linalg.norm(points - CENTRE - np.outer(height, along), axis=1)
        kept = (abs(depth) < 2 * nodes.spacing_mm) & (abs(height) < 4.0)
        assert kept.sum() > 1000
        error = found[kept] - depth[kept]
        assert error.max() < 1e-6
        assert error.min() > -sagitta - 1e-6
    assert np.isinf(nodes.distance_mm[nodes.opening > 0]).any()  # at a cap and far from the wall
    consistent(nodes)


def consistent(nodes):
    """No wall is nearer along a link than in any direction, nor farther than the node at the link's end says."""
    length = nodes.wall_link_q * np.linalg.norm(VELOCITIES[nodes.wall_link_direction], axis=1) * nodes.spacing_mm
    # corners are rounded by half of 1/65536 spacing along each axis; q is clipped at 1e-4
    slack = 2e-4 * nodes.spacing_mm
    assert (nodes.distance_mm[nodes.wall_link_node] <= length + slack).all()
    beyond = (1 / nodes.wall_link_q.astype(float) - 1) * length
    assert (-nodes.wall_distance_mm[nodes.wall_link_wall] <= beyond + slack).all()


@pytest.mark.parametrize("axis", [(1, 0, 0), (0, 1, 0), (1, 1, 0), (0, -1, 1), (3, -2, 1)], ids=str)
def test_q_is_exact_in_every_direction_after_nodes_were_taken_out(axis):
    """q against the cylinder to 1e-3 of a spacing for each of 26 directions; links to nodes taken out end on them."""
    mesh, openings = capped_cylinder(axis, 2.0, 8.0, CENTRE, segments=1500, rings=1)
    lattice, _ = voxelize(mesh, openings)
    raster = rasterise(mesh, lattice.frame, 27)
    fluid = raster.enclosed
    taken = np.random.default_rng(8).choice(np.flatnonzero(fluid), 300, replace=False)
    fluid.reshape(-1)[taken] = False
    for found, directions in ((links(raster, fluid), range(1, 19)), (corner_links(raster, fluid), range(19, 27))):
        np.testing.assert_array_equal(np.unique(found.direction), directions)
        compare_with_cylinder(found, lattice, axis, taken)


def compare_with_cylinder(found, lattice, axis, taken):
    wall = (found.opening == 0) & ~found.removed
    start = lattice.frame.position(found.node[wall]) * lattice.spacing_mm + lattice.origin_mm - CENTRE
    step = STEPS[found.direction[wall]] * lattice.spacing_mm
    exact = distance_along(start, step, 2.0, frame_of(axis)[2])
    length = np.linalg.norm(step, axis=1) / lattice.spacing_mm
    for direction in np.unique(found.direction[wall]):
        along = found.direction[wall] == direction
        assert (np.abs(found.q[wall] - exact) * length)[along].max() < 1e-3, direction
    assert (found.q[found.removed] == 1).all()
    assert np.isin(found.end[found.removed], taken).all()


def test_order_puts_the_longest_runs_first_and_the_settings_before_them():
    runs = (3.0, 9.0, 5.0)
    assert order_of_axes(runs, DecomposeSettings()) == (1, 2, 0)
    assert order_of_axes(runs, DecomposeSettings(order="x")) == (0, 1, 2)
    assert order_of_axes(runs, DecomposeSettings(order="z")) == (2, 1, 0)


@pytest.mark.parametrize("order", ["auto", "x", "y", "z"])
def test_order_changes_nothing_but_rows(pipe, order):
    mesh, openings, lattice, nodes, _ = pipe
    again, figures = decompose(lattice, mesh, openings, DecomposeSettings(order=order))
    assert order in ("auto", figures["order"][0])
    runs = figures["mean_run_along_axes"]
    assert order != "auto" or runs["xyz".index(figures["order"][0])] == max(runs)

    def by_place(of):
        rows = np.lexsort(of.position.T)
        links = np.concatenate((of.position[of.wall_link_node], of.wall_link_direction[:, None]), axis=1)
        listed = np.lexsort(links.T)
        ends = of.wall_position[of.wall_link_wall]
        return (
            of.position[rows],
            of.tag[rows],
            of.opening[rows],
            of.distance_mm[rows],
            links[listed],
            of.wall_link_q[listed],
            ends[listed],
            of.wall_distance_mm[of.wall_link_wall][listed],
        )

    for one, other in zip(by_place(nodes), by_place(again), strict=True):
        np.testing.assert_array_equal(one, other)


def test_parts_are_those_of_the_partition(pipe):
    mesh, openings, lattice, nodes, _ = pipe
    again, figures = decompose(lattice, mesh, openings, DecomposeSettings(parts=3))
    np.testing.assert_array_equal(again.part, partition(nodes, 3))
    assert figures["nodes_of_parts"] == np.bincount(again.part).tolist()
    assert figures["division"] == divide(nodes, 3)[1].record()
    assert again.parts == 3


def test_order_of_triangles_does_not_matter(pipe):
    mesh, openings, lattice, nodes, _ = pipe
    order = np.random.default_rng(0).permutation(len(mesh.triangles))
    shuffled = Mesh(mesh.points_mm, mesh.triangles[order], mesh.opening[order])
    again, _ = decompose(lattice, shuffled, openings)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(again, name), getattr(nodes, name))
