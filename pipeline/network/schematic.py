# SPDX-License-Identifier: Apache-2.0
"""A schematic drawing of a network, which has no coordinates of its own: where its nodes lie in a plane.

Each segment is a straight line of its length. The trunk goes down, and branches leave what most ends lie behind; what
is of the right side (names with ``_R``) lies left, as when one faces the person, and arteries of the head, by their
names, go up. Of several angles that with fewest crossings of lines is taken. Where many cross, the angles are those of
the equal-angle layout (Felsenstein 2004, Inferring Phylogenies), in which each branch has a sector for itself by the
number of its ends and lines of a tree do not cross. Segments that close a loop are drawn from node to node, whatever
their length.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi, radians, sin

import numpy as np
from numpy.typing import NDArray

from pipeline.network.network_file import Network
from pipeline.network.ways import first_inlet, ways_from

Point = tuple[float, float]
Places = NDArray[np.float64]

SIDE = re.compile(r"_([RL])(?=[_.]|$)")
"""What tells the side of a segment in its name."""
HEAD = re.compile("carotid|vertebral|basilar|cerebral|cerebellar|ophthalmic|facial|temporal|thyroid")
"""Words in names of arteries that go to the head."""
DOWN, UP, LEAN = -pi / 2, pi / 2, radians(14)
"""Directions, and how far what goes to the head leans to its side."""
MAIN = 0.55
"""Part of the ends behind a node from which on a branch goes straight on."""
ANGLES = tuple(radians(each) for each in (58, 50, 42, 34))
"""At which branches leave the main one."""
MOST_CROSSINGS = 0.25
"""By the number of segments: with more the equal-angle layout is taken."""
MOST_COMPARED = 600
"""Segments of which all pairs are compared; larger networks get the equal-angle layout at once."""


def side_of(name: str) -> str:
    """``R`` or ``L`` by the name of a segment; empty where it does not tell."""
    found = SIDE.search(name)
    return found[1] if found else ""


@dataclass(frozen=True)
class _Tree:
    """Branches of a network as a tree of nodes.

    Attributes
    ----------
    start : the first node.
    order : all nodes, by their distance.
    below : nodes that follow on a node, from the right side to the left.
    tips : ends behind a node.
    length_mm : of the segment that leads to a node.
    side : 1 right, -1 left, 0 neither, of what lies behind a node.
    head : whether the segment that leads to a node goes to the head.
    """

    start: str
    order: list[str]
    below: Mapping[str, list[str]]
    tips: Mapping[str, int]
    length_mm: Mapping[str, float]
    side: Mapping[str, int]
    head: Mapping[str, bool]


def schematic(network: Network) -> dict[str, Point]:
    """Places of all nodes, (x, y) in mm, y upwards, with the first inlet at (0, 0). It depends on the network alone.

    Parameters
    ----------
    network : checked.
    """
    tree = _tree_of(network)
    pairs = [segment.nodes for segment in network.segments.values()]
    if len(pairs) > MOST_COMPARED:
        return _equal_angle(tree)
    found = [_branching(tree, angle) for angle in ANGLES]
    crossings = [crossing_lines(places, pairs) for places in found]
    least = min(crossings)
    return found[crossings.index(least)] if least <= MOST_CROSSINGS * len(pairs) else _equal_angle(tree)


def _tree_of(network: Network) -> _Tree:
    start = first_inlet(network)
    ways = ways_from(network, start)
    order = sorted(ways.distance_mm, key=lambda each: ways.distance_mm[each])
    below: dict[str, list[str]] = {node: [] for node in order}
    for node in order[1:]:
        first, second = network.segments[ways.by[node]].nodes
        below[second if node == first else first].append(node)
    tips, sides = dict[str, int](), dict[str, int]()
    for node in reversed(order):
        tips[node] = sum(tips[each] for each in below[node]) or 1
        own = {"R": 1, "L": -1}.get(side_of(ways.by.get(node, "")), 0)
        sides[node] = own * tips[node] if own else sum(sides[each] for each in below[node])
    side = {node: 1 if sides[node] > tips[node] / 2 else -1 if sides[node] < -tips[node] / 2 else 0 for node in order}
    length = {node: network.segments[name].length_mm for node, name in ways.by.items()}
    head = {node: bool(HEAD.search(ways.by.get(node, ""))) for node in order}
    return _Tree(start, order, {node: _sorted(below[node], tips, side) for node in order}, tips, length, side, head)


def _sorted(nodes: list[str], tips: Mapping[str, int], side: Mapping[str, int]) -> list[str]:
    """Branches of a node from the right side to the left one; of those of neither the one with most ends between."""
    rest = sorted((each for each in nodes if not side[each]), key=lambda each: tips[each])
    right, left = ([each for each in nodes if side[each] == of] for of in (1, -1))
    return [*right, *rest[0::2], *reversed(rest[1::2]), *left]


def _branching(tree: _Tree, angle: float) -> dict[str, Point]:
    """Places where the branch with most ends goes straight on and the others leave it at an angle."""
    places, heading = {tree.start: (0.0, 0.0)}, {tree.start: DOWN}
    for node in tree.order:
        nodes = tree.below[node]
        main = next((each for each in nodes if tree.tips[each] >= MAIN * tree.tips[node]), None)
        turns = _turns(tree, node, nodes, main, angle)
        for each in nodes:
            up = tree.head[each] and not tree.head[node]
            heading[each] = UP + LEAN * tree.side[each] if up and node != tree.start else heading[node] + turns[each]
            places[each] = _beyond(places[node], heading[each], tree.length_mm[each])
    return places


def _turns(tree: _Tree, node: str, nodes: list[str], main: str | None, angle: float) -> dict[str, float]:
    """By how much each branch of a node turns from the direction of what leads to it."""
    if main is None:
        count = max(len(nodes) - 1, 1)
        step = angle / count * (-1 if tree.side[node] < 0 else 1)
        return {each: (k - (len(nodes) - 1) / 2) * step for k, each in enumerate(nodes)}
    turns, sign = {main: 0.0}, -1 if tree.tips[node] % 2 else 1
    for each in (each for each in nodes if each != main):
        away = tree.side[each] if tree.side[each] != tree.side[main] else 0
        sign = -away or -sign
        turns[each] = sign * angle
    return turns


def _equal_angle(tree: _Tree) -> dict[str, Point]:
    places: dict[str, Point] = {tree.start: (0.0, 0.0)}
    sectors = {tree.start: (DOWN - pi, DOWN + pi)}
    for node in tree.order:
        low, high = sectors[node]
        for each in tree.below[node]:
            end = low + (high - low) * tree.tips[each] / tree.tips[node]
            sectors[each] = low, end
            places[each] = _beyond(places[node], (low + end) / 2, tree.length_mm[each])
            low = end
    return places


def _beyond(place: Point, heading: float, length_mm: float) -> Point:
    return place[0] + length_mm * cos(heading), place[1] + length_mm * sin(heading)


def crossing_lines(places: Mapping[str, Point], pairs: Sequence[tuple[str, str]]) -> int:
    """Number of pairs of lines that cross without meeting at a node.

    Parameters
    ----------
    places : of nodes.
    pairs : nodes between which the lines are.
    """
    starts, stops = (np.array([places[pair[end]] for pair in pairs]) for end in (0, 1))

    def turn(a: Places, b: Places, c: Places) -> Places:
        found: Places = (b[..., 0] - a[..., 0]) * (c[..., 1] - a[..., 1]) - (b[..., 1] - a[..., 1]) * (
            c[..., 0] - a[..., 0]
        )
        return found

    a, b, c, d = starts[:, None], stops[:, None], starts[None], stops[None]
    parted = (turn(a, b, c) * turn(a, b, d) < 0) & (turn(c, d, a) * turn(c, d, b) < 0)
    numbers = {node: k for k, node in enumerate(places)}
    ids = np.array([[numbers[node] for node in pair] for pair in pairs])
    shared = (ids[:, None, :, None] == ids[None, :, None, :]).any(axis=(2, 3))
    return int((parted & ~shared).sum()) // 2
