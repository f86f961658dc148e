# SPDX-License-Identifier: Apache-2.0
"""Ways through a network: how far from the heart a node lies, and the segments by which it is reached."""

import heapq
from collections.abc import Iterable, Mapping
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
    """Shortest ways from a node to all others.

    Parameters
    ----------
    network : checked.
    start : name of the node.
    """
    links = [(*segment.nodes, segment.length_mm, name) for name, segment in network.segments.items()]
    return shortest_ways(links, start)


def shortest_ways(links: Iterable[tuple[str, str, float, str]], start: str) -> Ways:
    """Shortest ways from a place to all others (Dijkstra 1959, doi:10.1007/BF01386390).

    Parameters
    ----------
    links : both ends, length in mm, and name of each.
    start : one of these ends.
    """
    near: dict[str, list[tuple[str, float, str]]] = {}
    for one, other, length_mm, name in links:
        near.setdefault(one, []).append((other, length_mm, name))
        near.setdefault(other, []).append((one, length_mm, name))
    distance, by = dict[str, float](), dict[str, str]()
    front = [(0.0, start, "")]
    while front:
        far, node, way = heapq.heappop(front)
        if node in distance:
            continue
        distance[node] = far
        if way:
            by[node] = way
        for beyond, length_mm, name in near.get(node, ()):
            if beyond not in distance:
                heapq.heappush(front, (far + length_mm, beyond, name))
    return Ways(distance, by)


def first_inlet(network: Network) -> str:
    """The node of the inlet that the file names first."""
    return next(iter(network.inlets))


def distance_mm(network: Network, ways: Ways, segment: str, part: float) -> float:
    """Way to a place of a segment, from whichever of its ends it is nearer.

    Parameters
    ----------
    network : in which the way is.
    ways : lengths from the beginning to each node, mm.
    segment : its name.
    part : place in it, as a part of its length, 0 to 1.
    """
    first, second = network.segments[segment].nodes
    length = network.segments[segment].length_mm
    return min(ways.distance_mm[first] + part * length, ways.distance_mm[second] + (1 - part) * length)
