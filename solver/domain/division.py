# SPDX-License-Identifier: Apache-2.0
"""How well a domain is divided: what its parts have to do in a step, and what they exchange."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solver.domain.link_graph import LinkGraph, Links, Part
from solver.domain.nodes import Nodes
from solver.domain.partition import cut_links, partition_graph, require_nodes


@dataclass(frozen=True)
class Division:
    """What the parts of a domain have to do, and what they exchange.

    Attributes
    ----------
    nodes : (P,) nodes of each part.
    costs : (P,) of a step of each, see :mod:`solver.domain.node_costs`.
    cut_links : (P,) links of each to nodes of others: numbers that it gets in a step.
    neighbours : (P,) other parts that each gets a message from.
    """

    nodes: NDArray[np.int64]
    costs: NDArray[np.int64]
    cut_links: NDArray[np.int64]
    neighbours: NDArray[np.int64]

    @classmethod
    def of_graph(cls, graph: LinkGraph, part: Part) -> "Division":
        """Of the nodes as a graph of links, with the part of each."""
        count = int(part.max(initial=0)) + 1
        costs, meets = np.zeros(count, np.int64), np.zeros((count, count), np.bool_)
        np.add.at(costs, part, graph.cost)
        _mark_meeting(graph.links, part, meets)
        return cls(np.bincount(part), costs, cut_links(graph.links, part), meets.sum(axis=1))

    def record(self) -> dict[str, Any]:
        """Figures for the provenance and the summary; imbalance: the most over the mean, less 1."""
        return {
            "parts": len(self.nodes),
            "cost_imbalance": round(_most(self.costs) - 1, 4),
            "nodes_imbalance": round(_most(self.nodes) - 1, 4),
            "cut_links": int(self.cut_links.sum()),
            "most_cut_links": int(self.cut_links.max()),
            "messages": int(self.neighbours.sum()),
            "most_messages": int(self.neighbours.max()),
        }

    def words(self, part: str = "part") -> str:
        """The same for the log, of each such part."""
        return (
            f"{self.nodes.min()} to {self.nodes.max()} nodes a {part}, its cost at most {_most(self.costs):.3f} of the"
            f" mean; {self.cut_links.sum()} links between them, at most {self.cut_links.max()} of one, with"
            f" {self.neighbours.max()} neighbours at most"
        )


def divide(nodes: Nodes, count: int) -> tuple[Part, Division]:
    """Part of each node, (N,), from 0, as :func:`solver.domain.partition.partition` finds it, and how good that is.

    Parameters
    ----------
    nodes : the geometry.
    count : number of parts.

    Raises
    ------
    StageError
        If there are more parts than nodes.
    """
    require_nodes(nodes, count)
    graph = LinkGraph.of_nodes(nodes)
    part = partition_graph(graph, count)
    return part, Division.of_graph(graph, part)


def _most(values: NDArray[np.int64]) -> float:
    """The largest over the mean."""
    return float(values.max() / values.mean())


@njit(cache=True)
def _mark_meeting(links: Links, part: Part, meets: NDArray[np.bool_]) -> None:
    """Mark which parts have links to which."""
    for n in range(len(part)):
        for i in range(links.shape[1]):
            m = links[n, i]
            if m >= 0 and part[m] != part[n]:
                meets[part[n], part[m]] = True
