# SPDX-License-Identifier: Apache-2.0
"""Costs of nodes: one each, and what their links to wall and openings add."""

from dataclasses import replace

import numpy as np

from solver.domain.node_costs import NODE, OPENING_LINK, WALL_LINK, node_costs, weighed
from tests.support.geometries import closed_box, pipe


def test_a_node_costs_what_its_links_add():
    nodes = pipe((1, 2, 3), 5.2, 20)
    cost = node_costs(nodes)
    inside = np.setdiff1d(np.arange(nodes.count), np.concatenate((nodes.wall_link_node, nodes.opening_link_node)))
    assert len(inside)
    assert (cost[inside] == NODE).all()
    for n in (nodes.wall_link_node[0], nodes.wall_link_node[-1], nodes.opening_link_node[0], nodes.count - 1):
        walls, openings = (nodes.wall_link_node == n).sum(), (nodes.opening_link_node == n).sum()
        assert cost[n] == NODE + WALL_LINK * walls + OPENING_LINK * openings
    assert cost.sum() == weighed(nodes.count, len(nodes.wall_link_node), len(nodes.opening_link_node))


def test_walls_half_way_between_nodes_cost_nothing():
    """They are a part of streaming, and a closed box is one of equal nodes."""
    box = closed_box((4, 3, 5))
    assert (node_costs(box) == NODE).all()
    q = np.full(len(box.wall_link_q), 0.3, np.float32)
    q[0] = 0.5
    cost = node_costs(replace(box, wall_link_q=q))
    assert cost.sum() == weighed(box.count, len(q) - 1, 0)
