# SPDX-License-Identifier: Apache-2.0
"""Canonical geometries on a grid: flat walls half-way, patches, and lattices that repeat."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pipeline.case.settings.geometry import VoxelizeSettings
from pipeline.files.mesh import Mesh
from pipeline.geometry.lattice.grid import Grid, read_grid, read_patches
from pipeline.geometry.lattice.node_arrays import decompose
from pipeline.geometry.lattice.tagged_lattice import Lattice
from pipeline.stages.voxelize import voxelize
from solver.domain.nodes import Neighbours
from solver.kernels.d3q19 import VELOCITIES
from solver.runtime.errors import StageError
from tests.support.shapes import capped_cylinder, frame_of

LOW, HIGH = (-1.0, 2.0, 3.0), (2.0, 4.0, 7.0)


def box(low, high) -> Mesh:
    """Box whose wall at high z is patch 1, at low y patch 2."""
    corners = np.array([(x, y, z) for z in (0, 1) for y in (0, 1) for x in (0, 1)]) * np.subtract(high, low) + low
    faces = [(0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (2, 6, 7, 3), (0, 4, 6, 2), (1, 3, 7, 5)]
    triangles = np.array([[(a, b, c), (a, c, d)] for a, b, c, d in faces]).reshape(-1, 3)
    return Mesh(
        corners.astype(float), triangles, np.zeros(12, np.int8), np.repeat([0, 1, 2, 0, 0, 0], 2).astype(np.int8)
    )


def grid_of(periodic=(False, False, False), **changes) -> Grid:
    return replace(Grid(2.0, LOW, periodic, LOW, HIGH), **changes)


def nodes_of(mesh, grid, across=8):
    lattice, _ = voxelize(mesh, (), VoxelizeSettings(nodes_across=across), grid=grid)
    return decompose(lattice, mesh, (), patches=("lid", "floor"))[0]


def test_walls_on_the_grid_are_exactly_half_way():
    nodes = nodes_of(box(LOW, HIGH), grid_of())
    assert nodes.count == 12 * 8 * 16
    assert len(nodes.wall_position) == 14 * 10 * 18 - 12 * 8 * 16
    np.testing.assert_array_equal(nodes.wall_link_q, np.float32(0.5))
    place = nodes.points_mm()[nodes.wall_link_node] + VELOCITIES[nodes.wall_link_direction] * nodes.spacing_mm / 2
    at_lid, at_floor = abs(place[:, 2] - 7.0) < 1e-9, abs(place[:, 1] - 2.0) < 1e-9
    edge = (np.abs(place[:, None] - np.array((LOW, HIGH))).min(axis=1) < 1e-9).sum(axis=1) > 1
    np.testing.assert_array_equal(nodes.wall_link_patch[~edge] == 1, at_lid[~edge])
    np.testing.assert_array_equal(nodes.wall_link_patch[~edge] == 2, at_floor[~edge])
    assert nodes.patches == ("lid", "floor")
    near = np.minimum(nodes.points_mm() - LOW, HIGH - nodes.points_mm()).min(axis=1)
    band = near < 2 * nodes.spacing_mm
    np.testing.assert_allclose(nodes.distance_mm[band], near[band], atol=1e-6)


@pytest.mark.parametrize("periodic", [(True, False, False), (False, True, True), (True, True, True)], ids=str)
def test_box_that_repeats_joins_its_sides(periodic):
    """Its surface reaches beyond the period; what is left are the walls along the other axes, half-way."""
    reach = np.array(periodic) * 1.3
    mesh = box(np.subtract(LOW, reach), np.add(HIGH, reach))
    nodes = nodes_of(mesh, grid_of(periodic))
    assert nodes.count == 12 * 8 * 16
    assert nodes.shape == tuple(n if repeats else n + 4 for n, repeats in zip((16, 8, 12), periodic[::-1], strict=True))
    assert nodes.periodic == periodic
    np.testing.assert_array_equal(nodes.wall_link_q, np.float32(0.5))
    axial = [int((nodes.wall_link_direction == d).sum()) for d in range(1, 7)]
    faces = [0 if repeats else n for n, repeats in zip((8 * 16, 12 * 16, 12 * 8), periodic, strict=True)]
    assert axial == np.repeat(faces, 2).tolist()
    missing = sum(int((Neighbours(nodes).along(direction) < 0).sum()) for direction in range(1, 19))
    assert missing == len(nodes.wall_link_q)
    assert np.isinf(nodes.distance_mm).all() == all(periodic)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_pipe_that_repeats_is_a_piece_of_an_endless_one(axis):
    """Nodes, links and distances are the same on every section, and those of the middle of a long pipe."""
    along = np.eye(3)[axis]
    pipe, _ = capped_cylinder(along, 1.0, 6.0, segments=100)
    mesh = Mesh(pipe.points_mm, pipe.triangles, np.zeros(len(pipe.triangles), np.int8))
    periodic = tuple(bool(k == axis) for k in range(3))
    grid = Grid(2.0, (0.0, 0.0, 0.0), periodic, tuple(-along), tuple(along))
    nodes = nodes_of(mesh, grid, across=16)
    whole = nodes_of(mesh, replace(grid, periodic=(False, False, False)), across=16)
    assert nodes.count == 16 * np.bincount(whole.position[:, axis])[whole.shape[2 - axis] // 2]
    middle = abs(whole.points_mm() @ along) < 1
    np.testing.assert_allclose(
        nodes.points_mm()[np.lexsort(nodes.points_mm().round(6).T)],
        whole.points_mm()[middle][np.lexsort(whole.points_mm()[middle].round(6).T)],
        atol=1e-9,
    )
    np.testing.assert_array_equal(np.sort(nodes.distance_mm), np.sort(whole.distance_mm[middle]))
    linked = middle[whole.wall_link_node]
    for direction in range(1, 19):
        np.testing.assert_allclose(
            np.sort(nodes.wall_link_q[nodes.wall_link_direction == direction]),
            np.sort(whole.wall_link_q[linked & (whole.wall_link_direction == direction)]),
            atol=1e-5,
        )
    assert frame_of(along)[2] @ along == 1


def test_file_of_the_lattice_keeps_what_repeats(tmp_path):
    mesh = box((-3.0, 2.0, 3.0), (4.0, 4.0, 7.0))
    lattice, _ = voxelize(mesh, (), VoxelizeSettings(nodes_across=8), grid=grid_of((True, False, False)))
    lattice.write(tmp_path / "lattice.vti")
    again = Lattice.read(tmp_path / "lattice.vti")
    assert again.frame == lattice.frame
    assert again.periodic == (True, False, False)


def test_period_that_is_no_whole_number_of_spacings_is_refused():
    mesh = box((-3.0, 2.0, 3.0), (4.0, 4.0, 7.0))
    with pytest.raises(StageError, match=r"repeats along x after 3 mm, that is 10\.5 spacings"):
        nodes_of(mesh, grid_of((True, False, False)), across=7)


def test_surface_that_ends_near_the_period_is_refused():
    mesh = box((-1.2, 2.0, 3.0), (2.2, 4.0, 7.0))
    with pytest.raises(StageError, match=r"reaches only 0\.2 mm beyond"):
        nodes_of(mesh, grid_of((True, False, False)))


def test_surface_that_does_not_repeat_is_refused():
    cone = box((-3.0, 2.0, 3.0), (4.0, 4.0, 7.0))
    points = cone.points_mm.copy()
    points[points[:, 0] > 0, 2] += 1.0
    with pytest.raises(StageError, match="does not repeat where the lattice does"):
        nodes_of(replace(cone, points_mm=points), grid_of((True, False, False)))


ENTRY = {
    "reference_mm": 2.0,
    "anchor_mm": [0, 0, 0],
    "periodic": [True, False, False],
    "low_mm": [0, 0, 0],
    "high_mm": [4, 0, 0],
}


def test_entry_of_the_file_is_read(tmp_path):
    path = tmp_path / "openings.json"
    path.write_text(json.dumps({"openings": [], "frame": ENTRY, "patches": ["lid"]}))
    assert read_grid(path) == Grid(2.0, (0, 0, 0), (True, False, False), (0, 0, 0), (4, 0, 0))
    assert read_patches(path) == ("lid",)
    path.write_text(json.dumps({"openings": []}))
    assert read_grid(path) is None
    assert read_patches(path) == ()


@pytest.mark.parametrize(
    "spoilt",
    [
        {"frame": {}},
        {"frame": 3},
        {"frame": ENTRY | {"anchor_mm": [0, 0]}},
        {"frame": ENTRY | {"reference_mm": 0}},
        {"frame": ENTRY | {"low_mm": [0, 0, None]}},
        {"patches": "lid"},
        {"patches": ["lid", "lid"]},
        {"patches": [1]},
    ],
)
def test_spoilt_entry_is_refused(tmp_path, spoilt):
    path = tmp_path / "openings.json"
    path.write_text(json.dumps({"openings": []} | spoilt))
    with pytest.raises(StageError, match="make the surface again"):
        (read_grid(path), read_patches(path))


@pytest.mark.parametrize(("across", "coarser", "count"), [(18, 1.5, 12), (18, 2.25, 8), (20, 1.5, 13), (20, 2.25, 9)])
def test_a_coarser_grid_keeps_whole_spacings_on_the_reference_length(across, coarser, count):
    """The nearest whole number to the nodes divided by the factor, so that walls remain half-way."""
    chosen = grid_of().spacing(VoxelizeSettings(nodes_across=across), coarser)
    assert chosen.spacing_mm == pytest.approx(2.0 / count, rel=1e-12)
    given = grid_of().spacing(VoxelizeSettings(spacing_mm=2.0 / across), coarser)
    assert given.spacing_mm == pytest.approx(chosen.spacing_mm, rel=1e-9)


def test_a_coarser_grid_of_no_whole_spacings_is_so_much_coarser():
    chosen = grid_of().spacing(VoxelizeSettings(nodes_across=15.5), 1.5)
    assert chosen.spacing_mm == pytest.approx(1.5 * 2.0 / 15.5, rel=1e-12)


def test_a_coarser_grid_with_too_few_nodes_is_refused():
    with pytest.raises(
        StageError, match="5 nodes on the geometry's 2 mm, where the case has 12; at least 6 are wanted"
    ):
        grid_of().spacing(VoxelizeSettings(nodes_across=12), 2.25)
