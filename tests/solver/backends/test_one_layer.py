# SPDX-License-Identifier: Apache-2.0
"""Lattices that repeat after one node or two, and the flow in two dimensions that one layer of D3Q19 computes."""

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.haemodynamics.gradient import Gradient
from pipeline.haemodynamics.streamlines import Grid
from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.lattice import Lattice, build_lattice
from solver.backends.lattice_driver import LatticeDriver
from solver.domain.link_graph import link_table
from solver.domain.nodes import Neighbours, Nodes, check
from solver.domain.partition import partition
from solver.kernels.collision import relaxation_rates
from solver.kernels.d3q19 import VELOCITIES, WEIGHTS, Q
from tests.pipeline.geometry.test_grid import HIGH, LOW, box, grid_of, nodes_of
from tests.solver.boundary.test_moving_walls import patched
from tests.support.geometries import half_way_walls, nodes_from, observe, voxels
from tests.support.naive import equilibrium

LAYERS = (1, 2, 5)


# ---- a lattice of few layers is a part of one of many ----------------------------------------------------------------


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_box_that_repeats_is_as_many_slices_of_a_longer_one(axis, layers):
    """Through voxelize and decompose: the same links in each slice, and neighbours as a long one has, wrapped."""
    along = np.eye(3)[axis]
    periodic = tuple(bool(k == axis) for k in range(3))
    mesh = box(np.subtract(LOW, 1.3 * along), np.add(HIGH, 1.3 * along))
    few, many = (
        nodes_of(mesh, grid_of(periodic, high_mm=tuple(np.where(along, np.array(LOW) + 0.25 * count, HIGH))))
        for count in (layers, 7)
    )
    assert few.shape[2 - axis] == layers
    assert 7 * few.count == layers * many.count
    others = [k for k in range(3) if k != axis]
    for k in range(layers):
        one, other = (table_of_links(nodes, others, nodes.position[:, axis] == k) for nodes in (few, many))
        np.testing.assert_array_equal(one, other)
    period = np.where(along, layers, 10**6)
    inner = (many.position[:, axis] > 0) & (many.position[:, axis] < layers + 1)
    for direction in range(1, Q):
        ends = [nodes.position[Neighbours(nodes).along(direction)] % period for nodes in (few, many)]
        (one, other), starts = ends, (few.position, many.position % period)
        met = {tuple(start): tuple(end) for start, end in zip(starts[0].tolist(), one.tolist(), strict=True)}
        linked = inner & (Neighbours(many).along(direction) >= 0)
        assert [met[tuple(start)] for start in starts[1][linked].tolist()] == [tuple(e) for e in other[linked].tolist()]


def table_of_links(nodes: Nodes, across: list[int], rows: NDArray[np.bool_]) -> NDArray:
    """Place in the slice, direction, distance and patch of the wall links of some nodes, sorted."""
    mine = rows[nodes.wall_link_node]
    place = nodes.position[nodes.wall_link_node[mine]][:, across]
    table = np.column_stack(
        (place, nodes.wall_link_direction[mine], nodes.wall_link_q[mine], nodes.wall_link_patch[mine])
    )
    return table[np.lexsort(table.T)]


def cavern(layers: int) -> Nodes:
    """A random section, the same in each layer along y, under a lid; a part of the floor lets the fluid slip."""
    section = np.random.default_rng(5).random((9, 1, 12)) < 0.8
    section[0], section[-1] = True, True
    nodes = nodes_from(np.tile(section, (1, layers, 1)), half_way_walls, (), (False, True, False))
    return patched(nodes, lid=lambda place: place[:, 2] > 9, floor=lambda place: place[:, 2] < 1)


def cavern_lattice(nodes: Nodes) -> Lattice:
    """Walls that hold, move and slip, and a force across the layers, too."""
    return build_lattice(
        nodes,
        "trt",
        relaxation_rates(0.7, 0.1),
        "half-way",
        "fp64",
        force=(1e-5, 2e-5, -1e-5),
        moving={"lid": (0.02, 0.01, 0.0)},
        slip=("floor",),
    )


def start(driver: LatticeDriver, nodes: Nodes, populations: NDArray) -> None:
    """Begin with populations (19, N)."""
    for i, row in enumerate(populations):
        driver.write(slice(i * driver.lattice.stride, i * driver.lattice.stride + nodes.count), row)


def random_populations(nodes: Nodes) -> NDArray:
    """The same in each layer, (19, N)."""
    x, _, z = nodes.position.T
    return 1e-3 * np.random.default_rng(1).random((Q, 20, 20))[:, z, x]


@pytest.mark.parametrize("layers", LAYERS[1:])
def test_the_flow_in_one_layer_is_that_in_each_of_several(layers):
    """Bit for bit; populations are random, so that fluid crosses the border."""
    found = []
    for count in (1, layers):
        nodes = cavern(count)
        check(nodes)
        driver = CpuDriver(cavern_lattice(nodes))
        start(driver, nodes, random_populations(nodes))
        driver.advance(np.zeros((20, 0)))
        fields = driver.fields()
        found.append([nodes, np.concatenate((fields.drho[None], fields.velocity, fields.stress))])
    (one, flow), (several, others) = found
    assert np.abs(flow[2]).min() > 0  # along y, too
    for layer in range(layers):
        rows = np.flatnonzero(several.position[:, 1] == layer)
        np.testing.assert_array_equal(several.position[rows][:, ::2], one.position[:, ::2])
        np.testing.assert_array_equal(others[:, rows], flow)


def test_links_from_a_node_to_itself_cross_no_border_of_parts():
    nodes = cavern(1)
    links, rows = link_table(nodes), np.arange(nodes.count)
    assert not (links == rows[:, None]).any()
    assert ((links >= 0).sum(axis=1) <= 16).all()  # but for those along y
    part = partition(nodes, 3)
    assert np.ptp(np.bincount(part)) <= 1 + 0.02 * nodes.count / 3


@pytest.mark.parametrize("layers", LAYERS)
def test_gradients_across_layers_that_are_alike_are_zero(layers):
    nodes = cavern(layers)
    x, _, z = nodes.position.T
    velocity = np.column_stack((z, x, x * z)).astype(float)
    for _, gradient in Gradient(nodes).of(velocity):
        assert not gradient[:, :, 1].any()
        assert gradient.any()


@pytest.mark.parametrize(("size", "corners"), [((4, 1, 3), 4), ((1, 1, 5), 2), ((1, 1, 1), 1), ((4, 2, 3), 8)])
def test_cells_of_the_files_extend_where_the_lattice_does(size, corners):
    nodes = nodes_from(np.ones(size[::-1], bool), half_way_walls, (), (True, True, True))
    cells = voxels(nodes)
    assert cells.shape == (np.prod([max(n - 1, 1) for n in size]), corners)
    spans = np.ptp(nodes.position[cells], axis=1)
    assert (spans == (np.array(size) > 1)).all()


@pytest.mark.parametrize("layers", LAYERS)
def test_velocity_on_a_grid_goes_on_beyond_a_border_that_repeats(layers):
    """Up to one spacing beyond, where it is that of the other side; to the walls it falls to zero."""
    nodes = nodes_from(np.ones((4, layers, 6), bool), half_way_walls, (), (False, True, False))
    velocity = np.random.default_rng(0).random((nodes.count, 3)).astype(np.float32)
    grid = Grid.of(nodes, velocity)
    assert grid.fluid.shape == (6, layers + 2, 8)
    assert grid.fluid[1:-1, :, 1:-1].all()
    assert grid.fluid.sum() == 4 * (layers + 2) * 6
    for row in range(layers + 2):
        np.testing.assert_array_equal(grid.velocity_m_s[:, row], grid.velocity_m_s[:, 1 + (row - 1) % layers])
    np.testing.assert_array_equal(grid.velocity_m_s[1:-1, 1:-1, 1:-1].reshape(-1, 3), velocity)


# ---- one layer of D3Q19 is D2Q9 --------------------------------------------------------------------------------------

C9 = np.array([(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1), (1, -1), (-1, 1)])
"""Velocities (x, z) of D2Q9 (Qian, d'Humières and Lallemand 1992, doi:10.1209/0295-5075/17/6/001)."""
W9 = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)
O9 = np.array([0, 2, 1, 4, 3, 6, 5, 8, 7])
PROJECTION = (C9[:, None] == VELOCITIES[:, ::2]).all(axis=2).astype(float)
"""(9, 19): sums over the directions that are the same but for y."""


def equilibrium9(drho: NDArray, u: NDArray) -> NDArray:
    """w [drho + 3 c.u + 4.5 (c.u)^2 - 1.5 u.u], (9, ...)."""
    cu = np.einsum("ia,a...->i...", C9, u)
    return np.einsum("i,i...->i...", W9, drho + 3 * cu + 4.5 * cu**2 - 1.5 * (u**2).sum(axis=0))


def step9(g: NDArray, solid: NDArray, wall: NDArray, force: NDArray, rates: tuple[float, float]) -> NDArray:
    """Collision with two relaxation times, streaming on the torus, half-way bounce-back off moving solid nodes.

    `g` is (9, z, x), `solid` (z, x), `wall` (2, z, x) the velocity of the solid.
    """
    u = np.einsum("ia,i...->a...", C9, g) + force[:, None, None] / 2
    away = g - equilibrium9(g.sum(axis=0), u)
    cu, cf = np.einsum("ia,a...->i...", C9, u), (C9 @ force)[:, None, None]
    w, uf = W9[:, None, None], np.einsum("a,a...->...", force, u)
    even, odd = (away + away[O9]) / 2, (away - away[O9]) / 2
    after = g - rates[0] * even + (1 - rates[0] / 2) * w * (9 * cu * cf - 3 * uf)
    after = after - rates[1] * odd + (1 - rates[1] / 2) * 3 * w * cf
    found = np.empty_like(g)
    for i, (x, z) in enumerate(C9):
        upstream, speed = (np.roll(each, (z, x), (-2, -1)) for each in (solid, wall))
        back = after[O9[i]] + 6 * W9[i] * np.einsum("a,a...->...", C9[i], speed)
        found[i] = np.where(upstream, back, np.roll(after[i], (z, x), (0, 1)))
    return np.where(solid, 0, found)


def test_populations_summed_along_y_have_the_weights_of_d2q9():
    np.testing.assert_allclose(PROJECTION @ WEIGHTS, W9, rtol=1e-15)
    assert (PROJECTION.sum(axis=0) == 1).all()
    assert sorted(PROJECTION.sum(axis=1)) == [1, 1, 1, 1, 3, 3, 3, 3, 3]


def test_the_equilibrium_summed_along_y_is_that_of_d2q9():
    rng = np.random.default_rng(3)
    drho, u = 0.02 * rng.standard_normal(50), 0.1 * rng.standard_normal((3, 50)) * [[1], [0], [1]]
    np.testing.assert_allclose(PROJECTION @ equilibrium(drho, u), equilibrium9(drho, u[::2]), rtol=0, atol=1e-16)


SIZE, STEPS = 12, 200


def lid_driven(size: int) -> tuple[Nodes, NDArray, NDArray, dict]:
    """A cavity: its nodes, the reference's solid nodes and their velocity, and what drives the driver.

    Links into the edges of the lid belong to the walls at rest.
    """
    nodes = nodes_from(np.ones((size, 1, size), bool), half_way_walls, (), (False, True, False))
    middle = (size + 1) / 2
    nodes = patched(nodes, lid=lambda place: (place[:, 2] > size) & (abs(place[:, 0] - middle) < size / 2 - 0.1))
    solid = np.pad(np.zeros((size, size), bool), 1, constant_values=True)
    wall = np.zeros((2, *solid.shape))
    wall[0, -1, 1:-1] = 0.1
    return nodes, solid, wall, {"moving": {"lid": (0.1, 0.0, 0.0)}}


def force_driven(size: int) -> tuple[Nodes, NDArray, NDArray, dict]:
    """A channel between plates across z, that repeats along x."""
    nodes = nodes_from(np.ones((size, 1, size + 3), bool), half_way_walls, (), (True, True, False))
    solid = np.pad(np.zeros((size, size + 3), bool), ((1, 1), (0, 0)), constant_values=True)
    return nodes, solid, np.zeros((2, *solid.shape)), {"force": (1e-4, 0.0, 3e-5)}


@pytest.mark.parametrize("collision", ["trt", pytest.param("bgk", marks=pytest.mark.slow)])  # which is compiled
@pytest.mark.parametrize("flow", [lid_driven, force_driven])
def test_one_layer_is_a_plain_d2q9_lattice(flow, collision):
    """From random populations that are alike at both sides along y, population by population."""
    nodes, solid, wall, driven = flow(SIZE)
    rates = relaxation_rates(0.7, 0.1 if collision == "trt" else 0.2**2)
    lattice = build_lattice(nodes, collision, rates, "half-way", "fp64", **driven)
    driver, rng = CpuDriver(lattice), np.random.default_rng(2)
    x, _, z = nodes.position.T
    mirror = [int(np.flatnonzero((c * (1, -1, 1) == VELOCITIES).all(axis=1))[0]) for c in VELOCITIES]
    populations = 1e-3 * rng.standard_normal((Q, nodes.count))
    populations += populations[mirror]
    start(driver, nodes, populations)
    reference = np.zeros((9, *solid.shape))
    reference[:, z, x] = PROJECTION @ populations
    driver.advance(np.zeros((STEPS, 0)))
    for _ in range(STEPS):
        reference = step9(reference, solid, wall, np.array(driven.get("force", (0, 0, 0)))[::2], rates)
    ours = np.array(driver.read(slice(None, Q * lattice.stride))).reshape(Q, -1)[:, : nodes.count]
    # round-off of some hundred operations a step, of populations of a hundredth, for hundreds of steps
    np.testing.assert_allclose(PROJECTION @ ours, reference[:, z, x], rtol=0, atol=1e-14)
    speed = np.abs(driver.fields().velocity)
    assert speed[0].max() > 0.01
    assert speed[1].max() < 1e-15
    assert observe(driver, False).max_drho < 0.1
