# SPDX-License-Identifier: Apache-2.0
"""How well a domain is divided: figures counted again one by one."""

from itertools import product

import numpy as np
import pytest

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.lattice import build_lattice
from solver.backends.subdomains import SubdomainsDriver
from solver.domain.division import Division, divide
from solver.domain.link_graph import LinkGraph, link_table
from solver.domain.node_costs import NODE, OPENING_LINK, WALL_LINK, node_costs
from solver.domain.nodes import Neighbours, Nodes
from solver.domain.partition import partition
from solver.kernels.collision import relaxation_rates
from solver.kernels.d3q19 import OPPOSITE
from solver.runtime.errors import StageError
from tests.support.geometries import closed_box, periodic_box, pipe, random_cavern


def counted(nodes: Nodes, part: np.ndarray) -> Division:
    """The same, from the ends of all links."""
    count, neighbours = int(part.max()) + 1, Neighbours(nodes)
    ends = np.array([neighbours.along(i) for i in range(1, 19)])
    across = np.zeros((count, count), np.int64)
    for n, m in zip(np.tile(np.arange(nodes.count), 18), ends.ravel(), strict=True):
        if m >= 0 and part[n] != part[m]:
            across[part[n], part[m]] += 1
    costs = [
        NODE * (part == k).sum()
        + WALL_LINK * ((part[nodes.wall_link_node] == k) & (nodes.wall_link_q != 0.5)).sum()
        + OPENING_LINK * (part[nodes.opening_link_node] == k).sum()
        for k in range(count)
    ]
    return Division(np.bincount(part), np.array(costs), across.sum(axis=1), (across > 0).sum(axis=1))


@pytest.mark.parametrize(
    ("nodes", "parts"),
    list(product([random_cavern((9, 8, 7), 3), pipe((1, 2, 3), 5.2, 20), periodic_box((5, 4, 3))], [2, 5])),
)
def test_figures_are_those_of_the_links(nodes, parts):
    by_chance = np.random.default_rng(1).integers(0, parts, nodes.count).astype(np.int16)
    for part, found in ((by_chance, Division.of_graph(LinkGraph.of_nodes(nodes), by_chance)), divide(nodes, parts)):
        for one, other in zip(vars(found).values(), vars(counted(nodes, part)).values(), strict=True):
            np.testing.assert_array_equal(one, other)


def test_what_is_divided_is_the_partition():
    nodes = pipe((1, 2, 3), 5.2, 20)
    np.testing.assert_array_equal(divide(nodes, 3)[0], partition(nodes, 3))
    with pytest.raises(StageError, match=f"parts {nodes.count + 1}: there are {nodes.count} nodes"):
        divide(nodes, nodes.count + 1)


@pytest.mark.parametrize("nodes", [pipe((1, 2, 3), 5.2, 20), closed_box((6, 5, 4))], ids=["pipe", "box"])
def test_drivers_tell_the_division_that_they_run(nodes):
    """Cost is that of the links that they treat: not of a wall half-way between nodes, as all are that have no node
    behind their own.
    """
    part, division = divide(nodes, 3)
    lattice = build_lattice(nodes, "trt", relaxation_rates(0.7, 0.1), "bouzidi", "fp64")
    driver = SubdomainsDriver(lattice, part, CpuDriver)
    found = driver.division
    assert found is not None
    for name in ("nodes", "cut_links", "neighbours"):
        np.testing.assert_array_equal(getattr(found, name), getattr(division, name))
    behind = link_table(nodes)[nodes.wall_link_node, OPPOSITE[nodes.wall_link_direction] - 1]
    alone = nodes.wall_link_node[(behind < 0) & (nodes.wall_link_q != 0.5)]
    np.testing.assert_array_equal(found.costs, division.costs - WALL_LINK * np.bincount(part[alone], minlength=3))
    assert found.words() in driver.layout
    assert CpuDriver(lattice).division is None


def test_record_tells_the_most_over_the_mean():
    division = Division(np.array([10, 30, 20]), np.array([500, 400, 600]), np.array([4, 7, 3]), np.array([1, 2, 1]))
    assert division.record() == {
        "parts": 3,
        "cost_imbalance": 0.2,
        "nodes_imbalance": 0.5,
        "cut_links": 14,
        "most_cut_links": 7,
        "messages": 4,
        "most_messages": 2,
    }
    assert division.words("rank") == (
        "10 to 30 nodes a rank, its cost at most 1.200 of the mean; 14 links between them, at most 7 of one, with 2"
        " neighbours at most"
    )


def test_an_undivided_domain_exchanges_nothing():
    nodes = pipe((1, 2, 3), 5.2, 20)
    division = divide(nodes, 1)[1]
    assert division.record() == {
        "parts": 1,
        "cost_imbalance": 0,
        "nodes_imbalance": 0,
        "cut_links": 0,
        "most_cut_links": 0,
        "messages": 0,
        "most_messages": 0,
    }
    assert division.costs.tolist() == [node_costs(nodes).sum()]
