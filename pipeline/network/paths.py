# SPDX-License-Identifier: Apache-2.0
"""Ways through a network: how far from the heart a node lies, and the segments by which it is reached."""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.network.network_file import Network


@dataclass(frozen=True)
class Ways:
    """Shortest ways from a node.

    Attributes
    ----------
    distance_mm : to each node that can be reached.
    by : segment that leads to it; the first node has none.
    """

    distance_mm: Mapping[str, float]
    by: Mapping[str, str]


def ways_from(network: Network, start: str) -> Ways:
    """Shortest ways from a node to all others (Dijkstra 1959, doi:10.1007/BF01386390).

    Parameters
    ----------
    network : checked.
    start : name of the node.
    """
    ends = network.ends()
    distance, by = dict[str, float](), dict[str, str]()
    front = [(0.0, start, "")]
    while front:
        far, node, way = heapq.heappop(front)
        if node in distance:
            continue
        distance[node] = far
        if way:
            by[node] = way
        for name in ends[node]:
            first, second = network.segments[name].nodes
            beyond = second if node == first else first
            if beyond not in distance:
                heapq.heappush(front, (far + network.segments[name].length_mm, beyond, name))
    return Ways(distance, by)


def first_inlet(network: Network) -> str:
    """The node of the inlet that the file names first."""
    return next(iter(network.inlets))


def distance_mm(network: Network, ways: Ways, segment: str, part: float) -> float:
    """Way to a place of a segment, from whichever of its ends it is nearer."""
    first, second = network.segments[segment].nodes
    length = network.segments[segment].length_mm
    return min(ways.distance_mm[first] + part * length, ways.distance_mm[second] + (1 - part) * length)
