"""Sections across the way through a vessel: how wide it is there, what flows through, what pressure that takes.

Nodes are divided by the length of their shortest way from an inlet into slices of equal thickness, and each slice into
its connected pieces, the sections; blood flows from one to those that it touches further on. The volume of a section
over its thickness is the area A of the vessel there, and twice its volume over the area of its wall the radius R that
counts for friction, as in a tube. What leaves through openings beyond a section flows through it, so that the flow in
each branch is known, and none is in a sac.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solver.d3q19 import VELOCITIES, WEIGHTS
from solver.nodes import Nodes
from solver.partition import AXIS_LENGTH, DIAGONAL_LENGTH, Links, distances, link_table

SPACINGS = 2
"""Thickness of a slice, as ways are measured."""


def wall_areas(nodes: Nodes, holds: NDArray[np.bool_] | slice = slice(None)) -> NDArray[np.float64]:
    """Area of the wall next to each fluid node, (N,), in squared spacings.

    The sum of 6 w_i |c_i . n| over its wall links, of those that `holds` picks, n from the mean of these links.
    """
    node, direction = nodes.wall_link_node[holds], nodes.wall_link_direction[holds]
    velocity, weight = VELOCITIES[direction].astype(np.float64), WEIGHTS[direction]
    normal = np.stack([np.bincount(node, weight * velocity[:, k], nodes.count) for k in range(3)], axis=1)
    normal = normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-12)
    through = 6 * weight * np.abs((velocity * normal[node]).sum(axis=1))
    return np.bincount(node, through, nodes.count).astype(np.float64)


@dataclass(frozen=True)
class Sections:
    """Sections of a vessel, S of them, in SI.

    Attributes
    ----------
    area_m2 : (S,) across the way, averaged with the sections that it touches.
    radius_m : (S,) for friction, likewise; very large where there is no wall.
    length_m : (S,) along the way.
    whole : (S,) whether no opening cuts a part of it off.
    first, second : (E,) sections that touch, the second further on by one slice.
    share : (E,) part of the second's links backwards that lead to the first.
    through : (S, openings) part of what leaves through each opening that flows through the section.
    """

    area_m2: NDArray[np.float64]
    radius_m: NDArray[np.float64]
    length_m: NDArray[np.float64]
    whole: NDArray[np.bool_]
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    share: NDArray[np.float64]
    through: NDArray[np.float64]

    def speed_m_s(self, out_m3_s: Mapping[int, float]) -> float:
        """Largest mean speed over a whole section for what leaves through each opening by its index, less than 0 where
        it enters.
        """
        return float(np.abs(self._flow(out_m3_s) / self.area_m2)[self.whole].max(initial=0.0))

    @property
    def narrowest_m2(self) -> float:
        """Smallest area of a whole section through which anything flows; infinite if there is none."""
        return float(self.area_m2[self.whole & (self.through.max(axis=1) > 0)].min(initial=np.inf))

    def friction_pa(self, out_m3_s: Mapping[int, float], viscosity_pa_s: float) -> float:
        """Largest difference of pressure by friction as in a tube, 8 mu Q/(A R^2) per length."""
        return self._drop(8 * viscosity_pa_s * self._flow(out_m3_s) * self.length_m / (self.area_m2 * self.radius_m**2))

    def inertia_pa(self, out_m3_s2: Mapping[int, float], density_kg_m3: float) -> float:
        """Largest difference of pressure that speeds the flow up, rho/A dQ/dt per length, for dQ/dt."""
        return self._drop(density_kg_m3 * self._flow(out_m3_s2) * self.length_m / self.area_m2)

    def _flow(self, out: Mapping[int, float]) -> NDArray[np.float64]:
        return self.through @ np.array([out[k] for k in range(self.through.shape[1])])

    def _drop(self, each: NDArray[np.float64]) -> float:
        """Largest difference between sums of something along the way."""
        total = each.copy()
        for first, second, share in zip(self.first, self.second, self.share, strict=True):  # ascend along the way
            total[second] += share * total[first]
        return float(total.max() - min(total.min(), 0.0))


def find_sections(nodes: Nodes) -> Sections:
    """Sections of a vessel with openings, along the ways from its largest inlet."""
    links = link_table(nodes)
    inlet = max((o for o in nodes.openings if o.role == "inlet"), key=lambda opening: opening.area_mm2)
    level = distances(links, np.flatnonzero(nodes.opening == inlet.id)) // (SPACINGS * AXIS_LENGTH)
    section = _pieces(links, level)
    count = int(section.max()) + 1
    order = np.argsort(_first_of(section, level, count), kind="stable")  # by slice
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    section = place[section]
    below, above = _steps_up(links, level, section)
    edges, links_of = np.unique(below * count + above, return_counts=True)
    edges, links_of = edges[order := np.argsort(edges % count, kind="stable")], links_of[order]
    first, second = np.divmod(edges, count)
    share = links_of / np.bincount(second, links_of, count)[second]
    volume = np.bincount(section, minlength=count).astype(np.float64)
    length = SPACINGS / _stretch(_directions(nodes, section, volume, first, second))
    through = _caps(nodes, section, count)
    whole = through.sum(axis=1) == 0
    inner = whole[first] == whole[second]  # a whole section is not averaged with one that is cut
    around = _with_neighbours(volume, first[inner], second[inner])
    wall = _with_neighbours(
        np.bincount(section, wall_areas(nodes), count).astype(np.float64), first[inner], second[inner]
    )
    dx = nodes.spacing_mm * 1e-3
    for k in range(len(first) - 1, -1, -1):
        through[first[k]] += share[k] * through[second[k]]
    return Sections(
        area_m2=around / _with_neighbours(length, first[inner], second[inner]) * dx**2,
        radius_m=2 * around / np.maximum(wall, 1e-9) * dx,
        length_m=length * dx,
        whole=whole,
        first=first,
        second=second,
        share=share,
        through=through,
    )


def _caps(nodes: Nodes, section: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Part of each opening that belongs to each section, (count, openings), by the links that cross it."""
    shares = np.zeros((count, len(nodes.openings)))
    np.add.at(shares, (section[nodes.opening_link_node], nodes.opening_link_opening.astype(np.int64) - 1), 1.0)
    return shares / np.maximum(shares.sum(axis=0), 1)


def _first_of(section: NDArray[np.int64], level: NDArray[np.int32], count: int) -> NDArray[np.int32]:
    """Slice of each section."""
    slices = np.empty(count, np.int32)
    slices[section] = level
    return slices


def _with_neighbours(
    values: NDArray[np.float64], first: NDArray[np.int64], second: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Sum over each section and those that it touches."""
    count = len(values)
    return values + np.bincount(second, values[first], count) + np.bincount(first, values[second], count)


def _directions(
    nodes: Nodes,
    section: NDArray[np.int64],
    volume: NDArray[np.float64],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Direction of the way in each section, (S, 3): from the middle of those before it to that of those behind."""
    count, middle = len(volume), np.empty((len(volume), 3))
    for axis in range(3):
        middle[:, axis] = np.bincount(section, nodes.position[:, axis], count) / volume
    steps = np.zeros((count, 3))
    np.add.at(steps, first, middle[second] - middle[first])
    np.add.at(steps, second, middle[second] - middle[first])
    return steps


def _stretch(direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shortest way along links in a direction over the straight one; 1 where there is no direction."""
    small, mid, large = np.sort(np.abs(direction), axis=1).T
    way = np.where(
        large >= small + mid,
        AXIS_LENGTH * large + (DIAGONAL_LENGTH - AXIS_LENGTH) * (small + mid),
        DIAGONAL_LENGTH * (small + mid + large) / 2,
    )
    straight = AXIS_LENGTH * np.linalg.norm(direction, axis=1)
    return np.divide(way, straight, out=np.ones_like(way), where=straight > 0)


@njit(cache=True)
def _pieces(links: Links, level: NDArray[np.int32]) -> NDArray[np.int64]:
    """Number of the connected piece of a slice that each node belongs to, from 0."""
    piece, stack, found = np.full(len(level), -1, np.int64), np.empty(len(level), np.int32), 0
    for seed in range(len(level)):
        if piece[seed] >= 0:
            continue
        piece[seed], stack[0], high = found, seed, 1
        while high:
            high -= 1
            n = stack[high]
            for i in range(links.shape[1]):
                m = links[n, i]
                if m >= 0 and piece[m] < 0 and level[m] == level[n]:
                    piece[m], stack[high] = found, m
                    high += 1
        found += 1
    return piece


def _steps_up(
    links: Links, level: NDArray[np.int32], section: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sections at both ends of all links to the next slice."""
    below, above = [], []
    for ends in links.T:
        rises = np.flatnonzero((ends >= 0) & (level[ends] == level + 1))
        below.append(section[rises])
        above.append(section[ends[rises]])
    return np.concatenate(below), np.concatenate(above)
