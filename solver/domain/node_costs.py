# SPDX-License-Identifier: Apache-2.0
"""What a step takes for each node, by which a domain is divided: more at walls and openings.

The weights are measured by `benchmarks/node_costs.py`; docs/records/performance.md, Cost of a node, has what it found.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from solver.domain.nodes import Nodes

NODE, WALL_LINK, OPENING_LINK = 16, 14, 20
"""Time of a step for a node, for a wall link that is interpolated and for a link through an opening, in sixteenths of
the first: whole numbers, so that sums of them do not depend on their order."""
HALF_WAY = np.float32(0.5)

Counts = TypeVar("Counts", int, NDArray[np.int64])


def weighed(nodes: Counts, wall_links: Counts, opening_links: Counts) -> Counts:
    """Cost of so many nodes with so many links that are treated.

    Parameters
    ----------
    nodes, wall_links, opening_links : how many; wall links that lie half-way are left out.
    """
    return NODE * nodes + WALL_LINK * wall_links + OPENING_LINK * opening_links


def node_costs(nodes: Nodes) -> NDArray[np.int64]:
    """Cost of each node with its links, (N,).

    A wall that is met half-way between two nodes is part of streaming.

    Parameters
    ----------
    nodes : the geometry.
    """
    treated = nodes.wall_link_node[nodes.wall_link_q != HALF_WAY]
    walls, openings = (np.bincount(rows, minlength=nodes.count) for rows in (treated, nodes.opening_link_node))
    return weighed(np.ones(nodes.count, np.int64), walls, openings)
