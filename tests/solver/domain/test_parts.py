# SPDX-License-Identifier: Apache-2.0
"""What ranks find of all nodes, each from its part, has the bits of one process that has them all."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.boundary.layers import outlet_layers
from solver.domain import excerpt as excerpts
from solver.domain import whole
from solver.domain.excerpt import excerpt
from solver.domain.node_rules import check
from solver.domain.nodes import ARRAYS, Nodes, save
from solver.domain.part_file import load_part
from solver.domain.partition import partition
from solver.domain.sections import find_sections
from solver.domain.whole import ALONE, Ranks, sum_in_order
from solver.domain.widths import wall_area, widest_radius_mm
from solver.run.vtkhdf import Voxels
from solver.runtime.errors import StageError
from tests.solver.domain.test_excerpt import differing, random_planes
from tests.support.geometries import periodic_box, pipe, random_cavern
from tests.support.in_memory import InMemory
from tests.support.thread_ranks import ThreadRank, on_ranks
from tests.support.variants import some

CASES: dict[str, Callable[[], Nodes]] = {
    "pipe": lambda: pipe((1, 2, 3), 4.2, 60),
    "long cavern": lambda: random_cavern((40, 9, 8), 3),
    "cavern": lambda: random_cavern((20, 12, 11), 5),
    "two pieces": lambda: apart(pipe((0, 0, 1), 3.2, 40)),
}


def apart(nodes: Nodes) -> Nodes:
    """A vessel without some slices in its middle: what is beyond is joined to no inlet. Its links are not complete."""
    position, rows = nodes.position, np.flatnonzero(np.abs(nodes.position[:, 2] - nodes.shape[0] // 2) > 1)
    number = np.full(nodes.count, -1, np.int32)
    number[rows] = np.arange(len(rows))
    found: dict[str, Any] = {name: getattr(nodes, name)[rows] for name in excerpts.OF_NODES}
    for kind in excerpts.KINDS:
        kept = number[getattr(nodes, f"{kind}_link_node")] >= 0
        found |= {name: getattr(nodes, name)[kept] for name in ARRAYS if name.startswith(f"{kind}_link_")}
        found[f"{kind}_link_node"] = number[found[f"{kind}_link_node"]]
    assert len(rows) < len(position)
    return replace(nodes, **found)


def parted(nodes: Nodes, count: int, seed: int) -> Nodes:
    """Divided by planes askew, or each node at random."""
    random = np.random.default_rng(seed).integers(0, count, nodes.count).astype(np.int16)
    return replace(nodes, part=random if seed % 3 == 0 else random_planes(nodes, count, seed))


def found_of(nodes: Nodes) -> dict[str, Any]:
    holds = nodes.wall_link_q > 0.3
    blend, layers = outlet_layers(nodes, 0.55, 0.9, 3, coupled=("in", "inlet"))
    row = nodes.total // 2
    return {
        "sections": find_sections(nodes),
        "widest": widest_radius_mm(nodes),
        "area": wall_area(nodes, holds),
        "blend": blend[nodes.is_own],
        "layers": {str(each.opening): replace(each, rows=each.rows.astype(np.int64)) for each in layers},
        "place": nodes.place_mm(row),
        "extent": nodes.extent,
        "links": dict(nodes.links),
    }


@pytest.mark.parametrize("name", some(CASES, "cavern", "two pieces"))
@settings(max_examples=5, deadline=None)
@given(count=st.integers(2, 5), seed=st.integers(0, 10**6))
def test_ranks_find_what_one_process_does(name, count, seed):
    """In blocks of few rows, so that there are several."""
    nodes = parted(CASES[name](), count, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole, "BLOCK_ROWS", 500)
        wanted = found_of(nodes)
        for rank, found in enumerate(on_ranks(count, lambda ranks: found_of(excerpt(InMemory(nodes), ranks)))):
            assert differing(found, wanted | {"blend": wanted["blend"][nodes.part == rank]}) == []
    assert len(wanted["sections"].area_m2) > 5
    assert wanted["layers"]
    assert wanted["blend"].any()


@pytest.mark.parametrize("name", [*CASES, "periodic"])
def test_ranks_give_the_cells_of_one_process(name, monkeypatch):
    monkeypatch.setattr("solver.run.vtkhdf.CHUNK_ROWS", 300)
    nodes = parted(periodic_box((13, 5, 7)) if name == "periodic" else CASES[name](), 3, 1)
    wanted = [*Voxels(nodes).blocks()]

    def cells(ranks: Ranks) -> tuple[int, list[np.ndarray]]:
        voxels = Voxels(excerpt(InMemory(nodes), ranks))
        return voxels.count, [*voxels.blocks()]

    (count, first), *others = on_ranks(3, cells)
    np.testing.assert_array_equal(np.concatenate(first), np.concatenate(wanted))
    assert count == sum(map(len, wanted)) > 0
    assert all(each == (count, []) for each in others)


@given(count=st.integers(1, 5000), block=st.integers(128, 900), seed=st.integers(0, 10**6))
def test_a_sum_in_order_is_that_of_an_array_of_all(count, block, seed):
    values = np.random.default_rng(seed).standard_normal(count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole, "BLOCK_ROWS", block)
        assert sum_in_order(ALONE, np.arange(count), count, values) == values.sum()


@pytest.mark.parametrize("divided", [True, False])
def test_a_part_of_a_file_is_that_of_its_nodes(divided, tmp_path, monkeypatch):
    """Also where the file is divided for another number of ranks."""
    monkeypatch.setattr(whole, "BLOCK_ROWS", 300)
    nodes = random_cavern((30, 9, 8), 3)
    nodes = replace(nodes, part=partition(nodes, 3))
    save(nodes if divided else replace(nodes, part=partition(nodes, 2)), tmp_path / "nodes.h5")

    def both(ranks: Ranks) -> tuple[Nodes, Nodes]:
        return load_part(tmp_path / "nodes.h5", ranks), excerpt(InMemory(nodes), ranks)

    for found, wanted in on_ranks(3, both):
        assert found.whole is not None
        assert wanted.whole is not None
        assert differing(replace(found, whole=None), replace(wanted, whole=None)) == []
        assert differing(found.whole.rows, wanted.whole.rows) == []


BROKEN: dict[str, Callable[[Nodes], dict[str, Any]]] = {
    "every missing neighbour": lambda n: {
        name: getattr(n, name)[1:] for name in ARRAYS if name.startswith("wall_link_")
    },
    "every missing corner neighbour": lambda n: {
        name: getattr(n, name)[:-1] for name in ARRAYS if name.startswith("corner_link_")
    },
    "links name existing nodes": lambda n: {"wall_link_node": n.wall_link_node + np.int32(n.count)},
    "node arrays are equally long": lambda n: {"tag": n.tag[1:]},
    "wall link arrays are equally long": lambda n: {"wall_link_q": n.wall_link_q[1:]},
    "wall links end on their wall nodes": lambda n: {"wall_link_wall": np.roll(n.wall_link_wall, 1)},
    "positions are sorted": lambda n: {"position": n.position[::-1].copy()},
    "parts are numbered": lambda n: {"part": np.where(n.part == 1, n.part.dtype.type(0), n.part)},
    "link distances": lambda n: {"wall_link_q": np.zeros_like(n.wall_link_q)},
}


@pytest.mark.parametrize("rule", BROKEN)
def test_a_file_that_breaks_a_rule_is_refused_by_a_rank(rule, tmp_path):
    """By that one, or those, whose part does."""
    nodes = random_cavern((12, 9, 8), 3)
    nodes = replace(nodes, part=partition(nodes, 3))
    save(replace(nodes, **BROKEN[rule](nodes)), tmp_path / "nodes.h5")

    def refused(ranks: Ranks) -> str:
        try:
            load_part(tmp_path / "nodes.h5", ranks)
        except StageError as error:
            return str(error)
        return ""

    messages = [said for said in on_ranks(3, refused) if said]
    assert messages
    assert all(rule in said and str(Path(tmp_path / "nodes.h5")) in said for said in messages)


def test_a_part_keeps_the_rules():
    nodes = parted(pipe((1, 2, 3), 4.2, 60), 2, 1)
    for number in range(2):
        part = excerpt(InMemory(nodes), ThreadRank(number, 2))
        check(part)
        assert part.count < nodes.count
