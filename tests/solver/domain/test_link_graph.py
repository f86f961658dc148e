# SPDX-License-Identifier: Apache-2.0
"""Graphs of links: neighbours in both directions, and blocks that stand for their nodes and all links between these."""

from collections import Counter

import numpy as np
import pytest

from solver.domain.link_graph import LinkGraph, link_table
from solver.domain.node_costs import node_costs
from solver.domain.nodes import Neighbours
from solver.kernels.d3q19 import OPPOSITE, Q
from tests.support.geometries import periodic_box, periodic_pipe, plates, random_cavern

GEOMETRIES = {
    "cavern": lambda: random_cavern((11, 8, 9), 5),
    "box that repeats after odd numbers of nodes": lambda: periodic_box((5, 7, 3)),
    "box that repeats after even numbers": lambda: periodic_box((4, 6, 2)),
    "pipe that repeats": lambda: periodic_pipe((1, 1, 1), 4.6),
    "plates that repeat after a node": lambda: plates(6),
}


@pytest.fixture(params=GEOMETRIES.values(), ids=GEOMETRIES.keys())
def nodes(request):
    return request.param()


def test_links_are_those_of_each_direction(nodes):
    table, neighbours = link_table(nodes), Neighbours(nodes)
    for i in range(1, Q):
        ends = neighbours.along(i)
        np.testing.assert_array_equal(table[:, i - 1], np.where(ends == np.arange(nodes.count), -1, ends))


def test_links_lead_back(nodes):
    fine = LinkGraph.of_nodes(nodes)
    coarse, _ = fine.coarser()
    for graph in (fine, coarse, coarse.coarser()[0]):
        for i in range(1, Q):
            here = np.flatnonzero(graph.links[:, i - 1] >= 0)
            there, back = graph.links[here, i - 1], OPPOSITE[i] - 1
            np.testing.assert_array_equal(graph.links[there, back], here)
            np.testing.assert_array_equal(graph.strength[there, back], graph.strength[here, i - 1])


def between(graph: LinkGraph, block: np.ndarray) -> Counter:
    """Links of nodes between each two blocks, from one to the other, counted one by one."""
    found: Counter = Counter()
    for n, ends in enumerate(graph.links):
        for i, m in enumerate(ends):
            if m >= 0 and block[m] != block[n]:
                found[int(block[n]), int(block[m])] += int(graph.strength[n, i])
    return found


def test_blocks_hold_costs_and_links_of_their_nodes(nodes):
    """Twice, so that blocks of blocks are seen, too; a block is eight places of the lattice before."""
    graph = LinkGraph.of_nodes(nodes)
    np.testing.assert_array_equal(graph.cost, node_costs(nodes))
    for _ in range(2):
        coarse, block = graph.coarser()
        assert coarse.count == len(np.unique(graph.position // 2, axis=0))
        np.testing.assert_array_equal(coarse.position[block], graph.position // 2)
        np.testing.assert_array_equal(coarse.cost, np.bincount(block, weights=graph.cost))
        assert between(coarse, np.arange(coarse.count)) == between(graph, block)
        graph = coarse
