# SPDX-License-Identifier: Apache-2.0
"""Parts of a domain: run one after another with their exchange, they give the bits of the undivided run."""

import logging
from dataclasses import replace
from functools import partial
from itertools import product
from math import fsum

import numba
import numpy as np
import pytest

from solver.backends import subdomains
from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.lattice import build_lattice
from solver.backends.splitting import LAST, split
from solver.backends.subdomains import SubdomainsDriver
from solver.boundary.walls import WALLS
from solver.domain import nodes as node_arrays
from solver.domain import partition as partition_module
from solver.domain.link_graph import link_table, pieces
from solver.domain.node_costs import node_costs
from solver.domain.nodes import Neighbours, Nodes
from solver.domain.partition import BALANCE, cut_links, partition
from solver.kernels.collision import ON_D3Q19, relaxation_rates
from solver.kernels.d3q19 import VELOCITIES, Q
from solver.kernels.sums import limbs_by_group, total
from solver.kernels.sums import split as split_number
from solver.run.flow_file import FlowStatistics, read_flow
from solver.run.solve import solve
from solver.runtime.errors import StageError
from tests.solver.boundary.test_moving_walls import box_that_moves_and_slips
from tests.solver.run.test_simulation import settings
from tests.support.geometries import (
    closed_box,
    half_way_walls,
    nodes_from,
    numbers,
    observe,
    periodic_pipe,
    pipe,
    random_cavern,
)
from tests.support.simulator import simulated

FORCE, RATES = (1e-5, 2e-5, -1e-5), relaxation_rates(0.7, 0.1)


def of_whole(driver: CpuDriver) -> np.ndarray:
    return driver.populations.reshape(Q, -1)[:, : driver.lattice.count]


def of_parts(driver: SubdomainsDriver) -> np.ndarray:
    """Populations of all nodes in the order of the whole domain, (19, N)."""
    whole = np.empty((Q, sum(len(part.rows) for part in driver.subdomains)), driver.drivers[0].lattice.real)
    for part, one in zip(driver.subdomains, driver.drivers, strict=True):
        stride = one.lattice.stride
        whole[:, part.rows] = one.populations[: Q * stride].reshape(Q, stride)[:, : len(part.rows)]
    return whole


def stir(whole: CpuDriver, parts: SubdomainsDriver) -> None:
    """The same random populations for both."""
    of_whole(whole)[:] = 1e-3 * np.random.default_rng(0).standard_normal((Q, whole.lattice.count))
    for part, one in zip(parts.subdomains, parts.drivers, strict=True):
        one.populations[: Q * one.lattice.stride].reshape(Q, -1)[:, : len(part.rows)] = of_whole(whole)[:, part.rows]


def assert_equal_bits(lattice, part, boundary_values):
    whole, parts = CpuDriver(lattice), SubdomainsDriver(lattice, part, CpuDriver)
    stir(whole, parts)
    for rows in np.split(boundary_values, 2):
        for driver in (whole, parts):
            driver.advance(rows)
        assert np.array_equal(*(numbers(observe(driver, True)) for driver in (whole, parts)))  # changes since the last
    assert np.array_equal(of_whole(whole), of_parts(parts))
    one, other = whole.fields(), parts.fields()
    for name in ("drho", "velocity", "stress"):
        assert np.array_equal(getattr(one, name), getattr(other, name))


QUICK = "trt", "fp64"
"""Of the models, each of which is compiled for itself."""


@pytest.mark.parametrize("walls", WALLS)
@pytest.mark.parametrize(
    ("collision", "precision"),
    [
        pytest.param(*model, marks=[] if model == QUICK else [pytest.mark.slow])
        for model in product(ON_D3Q19, ("fp64", "fp32"))
    ],
)
def test_parts_of_any_shape_are_the_whole(collision, precision, walls):
    nodes, rng = random_cavern((9, 8, 7), 3), np.random.default_rng(1)
    lattice = build_lattice(nodes, collision, RATES, walls, precision, force=FORCE)
    boundary_values = 1e-3 * rng.random((40, 3)) * (10, 1, -1)
    for parts in (2, 7):
        assert_equal_bits(lattice, rng.integers(0, parts, nodes.count), boundary_values)  # each node by itself


@pytest.mark.parametrize("precision", [pytest.param("fp32", marks=pytest.mark.slow), "fp64"])
def test_parts_of_a_pipe_are_the_whole(precision):
    nodes = pipe((1, 2, 3), 8.2, 60)
    lattice = build_lattice(nodes, "trt", RATES, "bouzidi", precision)
    assert_equal_bits(lattice, partition(nodes, 3), np.tile((0.5, 0.0), (40, 1)))


def test_parts_that_meet_across_a_periodic_border_are_the_whole():
    nodes = periodic_pipe((1, 1, 1), 4.6)
    lattice = build_lattice(nodes, "trt", RATES, "bouzidi", "fp64", force=FORCE)
    part = (nodes.position[:, 0] * 5) // (nodes.position[:, 0].max() + 1)
    assert_equal_bits(lattice, part, np.zeros((40, 0)))


def cavern_that_moves_and_slips() -> tuple[Nodes, dict[str, tuple[float, float, float]], tuple[str, ...]]:
    """The same as the box with openings and walls that slip or move at random."""
    nodes = random_cavern((7, 6, 5), 3)
    some = np.random.default_rng(2).random(len(nodes.wall_link_q)) < 0.7
    q = np.where(some, 0.5, nodes.wall_link_q).astype(np.float32)
    nodes = replace(nodes, wall_link_q=q, wall_link_patch=(2 - some).astype(np.int8), patches=("some", "lid"))
    return nodes, {"lid": (0.02, 0.01, -0.01)}, ("some",)


@pytest.mark.parametrize("walls", WALLS)
@pytest.mark.parametrize("geometry", [box_that_moves_and_slips, cavern_that_moves_and_slips], ids=["box", "cavern"])
def test_parts_whose_walls_move_and_slip_are_the_whole(geometry, walls):
    """Each node goes by itself to a part, so that walls mirror populations into other parts."""
    nodes, moving, slip = geometry()
    rng = np.random.default_rng(1)
    part = rng.integers(0, 4, nodes.count)
    held, lattice = (
        build_lattice(nodes, "trt", RATES, walls, "fp64", force=FORCE, moving=moving, slip=slips)
        for slips in ((), slip)
    )
    borders = [sum(one.lattice.halo for one in split(each, part)) for each in (held, lattice)]
    assert borders[0] < borders[1]
    assert all((one.lattice.walls.s != 0).any() for one in split(lattice, part))
    assert_equal_bits(lattice, part, 1e-3 * rng.random((40, lattice.openings)) * (10, 1, -1)[: lattice.openings])


def test_halos_hold_one_slot_a_link_and_border_nodes_come_first():
    nodes, rng = random_cavern((12, 11, 10), 7), np.random.default_rng(2)
    part = (nodes.position[:, 0] + rng.integers(0, 3, nodes.count)) // 5
    neighbours = Neighbours(nodes)
    ends = np.array([neighbours.along(i) for i in range(1, Q)])
    across = (ends >= 0) & (part[ends] != part)
    parts = split(build_lattice(nodes, "trt", RATES), part)
    assert sum(one.lattice.halo for one in parts) == across.sum()
    assert np.array_equal(np.sort(np.concatenate([one.rows for one in parts])), np.arange(nodes.count))
    for one in parts:
        assert one.lattice.halo == across[:, part == one.number].sum()
        assert not across[:, one.rows[one.lattice.border :]].any()
        assert one.lattice.border % 64 == 0 or one.lattice.border == one.lattice.count
        for peer, halo in one.halo.items():
            wanted = (across & (part[ends] == peer))[:, one.rows].sum()
            assert halo.stop - halo.start == len(parts[peer].send_slots[one.number]) == wanted
        sent = np.concatenate(list(one.send_slots.values()))
        assert len(np.unique(sent)) == len(sent)


def slabs(seed: int) -> tuple[Nodes, np.ndarray]:
    """A pipe along a random direction, in three slabs, and the part of each node."""
    direction = np.random.default_rng(seed).integers(1, 5, 3)
    nodes = pipe(tuple(direction.tolist()), 9.3, 40)
    order = np.argsort(nodes.position @ direction, kind="stable")
    part = np.empty(nodes.count, np.int64)
    part[order] = np.arange(nodes.count) * 3 // nodes.count
    return nodes, part


@pytest.mark.parametrize(("walls", "seed"), list(product(WALLS, [1, 2])))
def test_what_collides_last_touches_nothing_that_links_do(walls, seed, monkeypatch):
    """In no step a population of them: so they may collide after openings and walls, and parts are the whole."""
    nodes, part = slabs(seed)
    lattice = build_lattice(nodes, "trt", RATES, walls, "fp32", force=FORCE)
    parts = split(lattice, part, last=True)
    for one in (each.lattice for each in parts):
        assert 0 < one.last <= one.count / LAST
        assert (one.count - one.last) % 64 == 0
        last = np.arange(one.count - one.last, one.count)
        even = np.arange(Q)[:, None] * one.stride + last
        odd = np.concatenate((last[None], one.addresses.reshape(Q - 1, -1)[:, last].astype(np.int64)))
        links = (one.walls.slot, one.walls.inside, one.walls.upstream, one.walls.nodes, one.inlets.slot)
        outlets = np.arange(Q)[:, None] * one.stride + one.outlets.node
        touched = np.concatenate([*links, one.outlets.slot, outlets.ravel()])
        assert not np.isin(even, touched).any()
        assert not np.isin(odd, touched).any()
        assert max(even.max(), odd.max()) < Q * one.stride  # nothing of other parts
    monkeypatch.setattr(subdomains, "split", partial(split, last=True))
    values = 1e-3 * np.random.default_rng(seed).random((8, lattice.columns))
    assert_equal_bits(lattice, part, values)


def plane_links(size: int) -> int:
    """Links through a plane between nodes across a cube, in both directions."""
    return 2 * (size**2 + 4 * size * (size - 1))


def test_cube_is_cut_by_planes():
    size = 24
    nodes = closed_box((size, size, size))
    links = link_table(nodes)
    assert cut_links(links, partition(nodes, 2)).sum() == plane_links(size)
    part = partition(nodes, 8)
    assert (np.bincount(part) == size**3 // 8).all()
    # a diagonal link through the line in which two of the three planes meet passes both at once
    assert cut_links(links, part).sum() == 3 * plane_links(size) - 3 * 4 * size


def test_pipe_is_cut_across():
    direction, radius, count = np.array((2, 3, 6)) / 7, 8.2, 5
    nodes = pipe((2, 3, 6), radius, 120)
    links = link_table(nodes)
    part = partition(nodes, count)
    per_area = np.maximum(VELOCITIES @ direction, 0).sum()  # links through a plane across the pipe, one way
    flat = 2 * (count - 1) * per_area * np.pi * radius**2
    # links near the wall that would pass the plane outside of the fluid are missing: about a tenth at this radius
    assert 0.85 * flat < cut_links(links, part).sum() < flat
    assert (pieces(links, part) == 1).all()


def costs_of(nodes: Nodes, part: np.ndarray) -> np.ndarray:
    return np.bincount(part, weights=node_costs(nodes))


@pytest.mark.parametrize("count", [2, 3, 5, 8, 13])
@pytest.mark.parametrize("nodes", [random_cavern((13, 12, 11), 4), pipe((1, 2, 3), 4.2, 30)], ids=["cavern", "pipe"])
def test_parts_cost_the_same(nodes, count):
    """To `BALANCE`, or the cost of one node where that is more: each halving comes that near to its half."""
    costs = costs_of(nodes, partition(nodes, count))
    assert len(costs) == count
    assert np.abs(costs - costs.mean()).max() <= max(node_costs(nodes).max(), BALANCE * costs.mean())


def flask() -> Nodes:
    """A wide vessel and a thin one behind it, in which most nodes have links to the wall."""
    mask = np.zeros((20, 20, 150), np.bool_)
    mask[:, :, :20] = mask[8:12, 8:12] = True
    return nodes_from(mask, lambda position, velocity: (np.full(len(position), 0.3), np.zeros(len(position), int)))


def test_thin_vessels_get_fewer_nodes():
    """Halves of equal cost: the half that is the thin vessel has fewer nodes, by what its links to the wall cost."""
    nodes = flask()
    part, cost = partition(nodes, 2), node_costs(nodes)
    sizes, costs = np.bincount(part), costs_of(nodes, part)
    assert costs.max() / costs.mean() <= 1 + BALANCE
    assert sizes.max() / sizes.min() == pytest.approx(
        np.divide(*[cost[part == k].mean() for k in np.argsort(sizes)]), rel=2 * BALANCE
    )
    assert sizes.max() > 1.2 * sizes.min()


def divide_blocks(patch: pytest.MonkeyPatch) -> None:
    """Let blocks of nodes be divided where there are some 10,000 nodes, 500 blocks a part."""
    patch.setattr(partition_module, "MOST_VERTICES", 8000)
    patch.setattr(partition_module, "LEAST_OF_PART", 500)


def test_blocks_of_a_cube_are_cut_nearly_by_planes(monkeypatch):
    """Blocks begin one node outside of the cube, so that its middle lies within blocks: what is left is a
    step in a border, two nodes of 48.
    """
    size = 48
    nodes = closed_box((size, size, size))
    divide_blocks(monkeypatch)
    part = partition(nodes, 8)
    sizes = np.bincount(part)
    assert np.abs(sizes - sizes.mean()).max() <= BALANCE * sizes.mean()
    assert cut_links(link_table(nodes), part).sum() <= 1.05 * (3 * plane_links(size) - 3 * 4 * size)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_parts_of_blocks_are_balanced_and_cut_little_more(count, seed, monkeypatch):
    """Pipes in random directions: borders between blocks, refined between nodes, may keep a step of two nodes across
    the pipe, of 17 nodes here, whose faces have some 15 % of the links that a border has.
    """
    rng = np.random.default_rng(seed)
    nodes = pipe(tuple(rng.integers(1, 5, 3).tolist()), 8.2, 90)
    direct = cut_links(link_table(nodes), partition(nodes, count)).sum()
    divide_blocks(monkeypatch)
    part = partition(nodes, count)
    costs = costs_of(nodes, part)
    assert np.abs(costs - costs.mean()).max() <= BALANCE * costs.mean()
    assert cut_links(link_table(nodes), part).sum() <= 1.25 * direct


def test_parts_are_many_and_small():
    nodes = closed_box((3, 3, 3))
    assert np.array_equal(np.bincount(partition(nodes, 27)), np.ones(27))
    with pytest.raises(StageError, match="parts 28: there are 27 nodes, each part needs one; choose fewer"):
        partition(nodes, 28)


def test_bend_is_cut_along_the_vessel():
    # two legs side by side: a plane across both would leave parts in two pieces and cut twice as much
    mask = np.zeros((4, 40, 12), bool)
    mask[:, :, :4] = mask[:, :, 8:] = mask[:, :4] = True
    nodes = nodes_from(mask, half_way_walls)
    links = link_table(nodes)
    for count in (2, 4):
        part = partition(nodes, count)
        assert (pieces(links, part) == 1).all()
        assert cut_links(links, part).sum() <= (count - 1) * plane_links(4)


@pytest.mark.parametrize(("size", "count"), [(12, 7), (24, 2)], ids=["nodes", "blocks"])
def test_partition_does_not_depend_on_threads(size, count, monkeypatch):
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("one core")
    divide_blocks(monkeypatch)
    nodes, found = random_cavern((size, size, size), 6), []
    for threads in (1, 2):
        numba.set_num_threads(threads)
        found.append(partition(nodes, count))
    assert np.array_equal(*found)


def test_sums_do_not_depend_on_order_and_are_rounded_once():
    rng = np.random.default_rng(3)
    values = rng.standard_normal(20_000) * 10.0 ** rng.integers(-9, -1, 20_000)
    group = rng.integers(0, 3, len(values))
    words, order = limbs_by_group(values, group, 3), rng.permutation(len(values))
    assert np.array_equal(words, limbs_by_group(values[order], group[order], 3))
    assert np.array_equal(words, sum(limbs_by_group(values[k::7], group[k::7], 3) for k in range(7)))
    wanted = [fsum(values[group == k]) for k in range(3)]
    # three roundings of double precision when words become a number, and 2^-90 a term that is below 2^-38
    np.testing.assert_allclose(total(words), wanted, rtol=4e-16, atol=len(values) * 2.0**-90)


@pytest.mark.parametrize("value", [1.0, -1.0, 0.1, -3e-9, 2.0**-60, 0.0])
def test_number_is_the_sum_of_its_limbs(value):
    assert total(np.array(split_number(value))) == value


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1.5])
def test_what_has_diverged_is_left_out_of_sums(value):
    assert not any(split_number(value))


def test_no_sum_overflows():
    # 2^32 terms of the largest size, the most that the sums are said to hold
    assert all(abs(word) * 2**32 < 2**63 for number in (1.0, -1.0, 1 - 2.0**-53) for word in split_number(number))


def test_flow_file_of_parts_is_that_of_the_whole(tmp_path, caplog):
    nodes = pipe((1, 2, 3), 5.2, 20, spacing_mm=0.3)
    part = (np.arange(nodes.count) % 3).astype(np.int16)
    node_arrays.save(replace(nodes, part=part), tmp_path / "nodes.h5")
    parted = node_arrays.load(tmp_path / "nodes.h5")
    assert parted.parts == 3
    assert np.array_equal(parted.part, part)
    wanted, summaries = settings(max_steps=200, collision="trt"), []
    with caplog.at_level(logging.INFO):
        for name, domain in (("whole", nodes), ("parts", parted)):
            paths = tmp_path / f"{name}.vtkhdf", tmp_path / f"{name}.csv"
            summaries.append(solve(domain, wanted, *paths, logging.getLogger("test")))
    assert "CPU, 3 parts one after another: " in caplog.text
    assert summaries[1]["device"] == "CPU, 3 parts one after another"
    assert [summary["division"] and summary["division"]["parts"] for summary in summaries] == [None, 3]
    assert (tmp_path / "whole.csv").read_text() == (tmp_path / "parts.csv").read_text()
    one, other = (read_flow(tmp_path / f"{name}.vtkhdf") for name in ("whole", "parts"))
    for name in ("velocity_m_s", "pressure_pa", "viscous_stress_pa"):
        assert np.array_equal(getattr(one, name)(-1), getattr(other, name)(-1))
    for name in ("viscous_stress_mean_pa", *FlowStatistics._fields):
        assert np.array_equal(getattr(one, name)(), getattr(other, name)())


SIMULATED = """
import numpy as np
from tests.support.geometries import numbers, observe, random_cavern
from solver.backends.cuda.cuda_driver import CudaDriver
from solver.backends.lattice import build_lattice
from solver.backends.subdomains import SubdomainsDriver

nodes, rng = random_cavern((4, 3, 3), 3), np.random.default_rng(0)
lattice = build_lattice(nodes, "trt", (1 / 0.7, 1.2), "bouzidi", "fp32", force=(1e-5, 2e-5, -1e-5))
drivers = CudaDriver(lattice), SubdomainsDriver(lattice, rng.integers(0, 2, nodes.count), CudaDriver)
boundary_values = 1e-3 * rng.random((2, 3)) * (10, 1, -1)
for driver in drivers:
    driver.advance(boundary_values)
one, other = (driver.fields() for driver in drivers)
assert np.array_equal(one.drho, other.drho) and np.array_equal(one.velocity, other.velocity)
assert one.velocity.any()
whole, parts = drivers
assert np.array_equal(numbers(observe(whole, True)), numbers(observe(parts, True)))
"""


@pytest.mark.slow
def test_parts_on_simulated_cuda_are_the_whole():
    simulated(SIMULATED)
