# SPDX-License-Identifier: Apache-2.0
"""A part laid out from its surroundings is the part that is cut out of the whole."""

import tracemalloc
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.backends import distributed
from solver.backends.distributed import places_of_walls
from solver.backends.lattice import Lattice, build_lattice
from solver.backends.splitting import Subdomain, split
from solver.boundary import walls
from solver.domain import whole
from solver.domain.excerpt import excerpt
from solver.domain.nodes import Nodes
from solver.domain.partition import partition
from solver.kernels.collision import relaxation_rates
from tests.solver.boundary.test_moving_walls import patched
from tests.solver.kernels.test_isotropy import laid_out
from tests.support.geometries import closed_box, periodic_box, pipe, plates, random_cavern
from tests.support.in_memory import InMemory
from tests.support.thread_ranks import ThreadRank, on_ranks

RATES = relaxation_rates(0.7, 0.1)
OF_WHOLE = {"mass_correction_nodes"}
"""Numbers of the whole domain, which ranks add up."""


def parabolic(nodes: Nodes) -> Lattice:
    return build_lattice(nodes, "trt", RATES, "bouzidi", "fp64", parabolic=True)


def corrected(nodes: Nodes) -> Lattice:
    return laid_out(nodes, True, parabolic=True)


def moving_box() -> Nodes:
    return patched(closed_box((40, 5, 6)), low=lambda p: p[:, 2] < 1, lid=lambda p: p[:, 2] > 6)


def moving(nodes: Nodes) -> Lattice:
    return build_lattice(nodes, "trt", RATES, moving={"lid": (0.02, 0.01, 0.0)}, slip=("low",))


CASES: dict[str, tuple[Callable[[], Nodes], Callable[[Nodes], Lattice], Callable[[Nodes], Nodes]]] = {
    "cavern": (lambda: random_cavern((40, 9, 8), 3), parabolic, lambda nodes: nodes),
    "cavern, corrected": (lambda: random_cavern((40, 9, 8), 5), corrected, Nodes.with_corners),
    "pipe": (lambda: pipe((1, 2, 3), 4.2, 60), corrected, Nodes.with_corners),
    "cut through its caps": (lambda: pipe((1, 2, 3), 14.2, 8), corrected, Nodes.with_corners),
    "periodic box": (lambda: periodic_box((53, 5, 7)), parabolic, lambda nodes: nodes),
    "plates": (lambda: plates(61, 3), parabolic, lambda nodes: nodes),
    "long box": (lambda: closed_box((40, 5, 6)), corrected, Nodes.with_corners),
    "moves and slips": (moving_box, moving, lambda nodes: nodes),
}


def differing(one: Any, other: Any, where: str = "") -> list[str]:
    """Names of what differs."""
    if is_dataclass(one) and not isinstance(one, type):
        names = [each.name for each in fields(one) if each.name not in OF_WHOLE]
        return [
            name for each in names for name in differing(getattr(one, each), getattr(other, each), f"{where}.{each}")
        ]
    if isinstance(one, dict):
        inner = [
            name for key in one.keys() & other.keys() for name in differing(one[key], other[key], f"{where}[{key}]")
        ]
        return inner + [where] * (one.keys() != other.keys())
    if isinstance(one, np.ndarray):
        return [where] * (not np.array_equal(one, other) or one.dtype != other.dtype)
    return [where] * (one != other)


def random_planes(nodes: Nodes, count: int, seed: int) -> np.ndarray:
    """Parts between planes across the longest axis, askew: some of them so thin that several lie within an excerpt."""
    rng, size = np.random.default_rng(seed), np.array(nodes.shape[::-1])
    along = np.where(np.arange(3) == size.argmax(), 1.0, 0.1 * rng.standard_normal(3))
    height = nodes.position @ along + rng.random(nodes.count)
    ends = np.sort(rng.choice(np.arange(1, nodes.count), count - 1, replace=False))
    part = np.empty(nodes.count, np.int16)
    part[np.argsort(height)] = np.searchsorted(ends, np.arange(nodes.count), side="right")
    return part


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=6, deadline=None)
@given(count=st.integers(2, 5), seed=st.integers(0, 10**6))
def test_a_part_of_its_surroundings_is_that_of_the_whole(name, count, seed):
    make, lay_out, on = CASES[name]
    part = random_planes(nodes := make(), count, seed)
    nodes = replace(nodes, part=part)
    whole, sizes = split(lay_out(on(nodes)), part), []

    def of_rank(rank: ThreadRank) -> tuple[Nodes, Subdomain]:
        around = on(excerpt(InMemory(nodes), rank))
        (found,) = split(lay_out(around), around.part, {rank.rank}, in_place=True)
        return around, found

    for wanted, (around, found) in zip(whole, on_ranks(count, of_rank), strict=True):
        found = replace(found, rows=around.rows[found.rows].astype(np.int64), wall_links=wanted.wall_links)
        assert differing(found, wanted) == []
        sizes.append(around.count)
        assert len(around.opening_link_node) == len(on(nodes).opening_link_node)  # also those along corners alone
    assert min(sizes) < nodes.count


@pytest.mark.parametrize("seed", range(11, 15))
def test_cutting_a_part_with_27_velocities_takes_half_its_table_of_addresses(seed, monkeypatch):
    """At most, beside what is given: what the force takes differences of is looked for a row of nodes at a time."""
    monkeypatch.setattr(whole, "BLOCK_ROWS", 256)
    rng = np.random.default_rng(seed)
    nodes, count = pipe((0, 0, 1), float(rng.uniform(6, 10)), int(rng.integers(60, 120))), int(rng.integers(2, 5))
    lattice, part = laid_out(nodes, True, precision="fp32"), random_planes(nodes, count, seed)
    table = lattice.addresses.nbytes
    tracemalloc.start()
    cut = split(lattice, part, {1}, in_place=True)
    held, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert cut[0].lattice.isotropic
    assert most - held < 0.5 * table


def test_an_excerpt_is_small_beside_the_whole():
    """A part of a long vessel and 5 to 9 nodes at each of its ends."""
    nodes = pipe((0, 0, 1), 5.2, 200)
    part = partition(nodes, 4)
    across, along = nodes.count / 200, 1 + int(np.bincount(part).max())
    for number in range(4):
        around = excerpt(InMemory(replace(nodes, part=part)), ThreadRank(number, 4))
        caps = np.count_nonzero(nodes.tag > 1)
        assert around.count <= along + caps + 2 * 10 * across


@pytest.mark.parametrize("near", [16, 100])
def test_wall_links_have_their_places_in_the_whole(near, monkeypatch):
    """In groups of so many nodes, some of which lie on several ranks, two or more groups at a time."""
    for module in (walls, distributed):
        monkeypatch.setattr(module, "NEAR", near)
    monkeypatch.setattr(whole, "BLOCK_ROWS", 250)
    nodes, count = random_cavern((14, 12, 10), 3), 3
    part = random_planes(nodes, count, 1)
    nodes = replace(nodes, part=part)
    wanted = split(parabolic(nodes), part)
    slots = [parabolic(nodes).walls.slot[each.wall_links] for each in wanted]

    def work(ranks: ThreadRank) -> tuple[np.ndarray, np.ndarray]:
        around = excerpt(InMemory(nodes), ranks)
        lattice = parabolic(around)
        (own,) = split(lattice, around.part, {ranks.rank})
        return places_of_walls(own, lattice, around.whole), own.lattice.walls.slot

    found = on_ranks(count, work)
    assert sum(len(each) for each in slots) > 2 * near
    for each in wanted:
        places, slot = found[each.number]
        order = np.argsort(places)
        np.testing.assert_array_equal(places[order], each.wall_links)
        np.testing.assert_array_equal(slot[order], each.lattice.walls.slot)
