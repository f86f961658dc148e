# SPDX-License-Identifier: Apache-2.0
"""Sections across the way through a vessel: how wide it is there, what flows through, what pressure that takes.

Nodes are divided by the length of their shortest way from an inlet into slices of equal thickness, and each slice into
its connected pieces, the sections; blood flows from one to those that it touches further on. Slices lie askew behind
bends and sacs, so that the area A of the vessel is that of the plane across the way through the middle of a section, of
its nodes that are joined to it. Twice its volume over the area of its wall is the radius R that counts for friction, as
in a tube. What leaves through openings beyond a section flows through it, so that the flow in
each branch is known, and none is in a sac.

For waves of angular frequency omega the sections are a line of tubes. Each has the impedance of Womersley (1955,
doi:10.1113/jphysiol.1955.sp005276), with alpha = R sqrt(omega/nu) and its length l,

    z = i omega rho l / (A (1 - F)),   F = 2 J1(k)/(k J0(k)),   k = i^(3/2) alpha,   8 mu l / (A R^2) for omega = 0,

and takes up i omega V p / (rho c^2) where sound in its volume V has the speed c. What leaves from a section on is
Y p + J in terms of its pressure p, which is found from the ends of the vessel backwards; then p from its start on.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from solver.domain.link_graph import AXIS_LENGTH, Links, distances, link_table
from solver.domain.nodes import Neighbours, Nodes
from solver.kernels.d3q19 import VELOCITIES, WEIGHTS, Q

SPACINGS = 2
"""Thickness of a slice, as ways are measured, in spacings."""
HALF = 2.0
"""Half the thickness of a plane, in spacings; nodes count less towards its faces."""
SMOOTHINGS = 2
"""Times that the direction of the way is averaged with those of the sections before and behind."""
FRACTIONS = 60
"""Terms of the continued fraction of J1/J0: right to 1e-9 up to alpha 40."""

Complex = NDArray[np.complex128]


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
class Ends:
    """What holds at the openings of a vessel, by their index and frequency: a flow, or vessels behind them.

    Attributes
    ----------
    given : (openings,) whether the flow is given.
    flow_m3_s : (openings, frequencies) that leaves, where it is given.
    impedance : (openings, frequencies) of what is behind, Pa s/m3; 0 where the pressure is given.
    pressure_pa : (openings, frequencies) behind that.
    """

    given: NDArray[np.bool_]
    flow_m3_s: Complex
    impedance: Complex
    pressure_pa: Complex

    def beyond(self, opening: int, part: float, section: Complex) -> tuple[Complex, Complex]:
        """Y and J of a part of an opening, half of a section of this impedance before it.

        Parameters
        ----------
        opening : index of the opening.
        part : of the opening's area.
        section : (frequencies,) impedance of the section, Pa s/m3.

        Returns
        -------
        Admittance Y, m3/(s Pa), and source J, m3/s, (frequencies,) each: Y p + J leaves at a pressure p of the section.
        """
        if self.given[opening]:
            return np.zeros_like(section), part * self.flow_m3_s[opening]
        y = part / (section / 2 + self.impedance[opening])
        return y, -y * self.pressure_pa[opening]


@dataclass(frozen=True)
class Sections:
    """Sections of a vessel, S of them, in SI.

    Attributes
    ----------
    area_m2 : (S,) across the way; of those that are not whole that of the next one that is.
    radius_m : (S,) for friction, averaged likewise; very large where there is no wall.
    length_m : (S,) along the way, volume over area.
    volume_m3 : (S,) of its nodes.
    whole : (S,) whether no opening cuts a part off it, off one that it touches, or off the plane across the way.
    first, second : (E,) sections that touch, the second further on by one slice.
    share : (E,) part of the second's links backwards that lead to the first.
    through : (S, openings) part of what leaves through each opening that flows through the section.
    caps : (S, openings) part of each opening that lies in the section.
    """

    area_m2: NDArray[np.float64]
    radius_m: NDArray[np.float64]
    length_m: NDArray[np.float64]
    volume_m3: NDArray[np.float64]
    whole: NDArray[np.bool_]
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    share: NDArray[np.float64]
    through: NDArray[np.float64]
    caps: NDArray[np.float64]

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

    def impedance(self, omega_1_s: NDArray[np.float64], density_kg_m3: float, viscosity_m2_s: float) -> Complex:
        """Impedance z of each section at frequencies, (S, frequencies), Pa s/m3; its resistance where omega is 0.

        Parameters
        ----------
        omega_1_s : (frequencies,) angular frequencies.
        density_kg_m3, viscosity_m2_s : of blood, the viscosity kinematic.
        """
        steady = 8 * density_kg_m3 * viscosity_m2_s * self.length_m / (self.area_m2 * self.radius_m**2)
        square = np.multiply.outer(self.radius_m**2 / viscosity_m2_s, 1j * omega_1_s)  # i alpha^2, which is -k^2
        fraction = np.full_like(square, 2.0 * FRACTIONS)
        for n in range(FRACTIONS - 1, 1, -1):  # F = 2/(2 - k^2/(4 - k^2/(6 - ...))), so that 1/(1 - F) is:
            fraction = 2 * n + square / fraction
        return steady[:, None] * (square + 2 * fraction) / 8

    def leaving(self, ends: Ends, impedance: Complex, admittance: Complex | float = 0.0) -> Complex:
        """What leaves through each opening, m3/s, (openings, frequencies), less than 0 where it enters.

        Parameters
        ----------
        ends : what holds at the openings.
        impedance : (S, frequencies) z of each section.
        admittance : (S, frequencies) what each takes up for its pressure.
        """
        caps = [(s, k, self.caps[s, k]) for s, k in np.argwhere(self.caps)]
        y, j = np.zeros_like(impedance) + admittance, np.zeros_like(impedance)
        for s, k, part in caps:
            y_cap, j_cap = ends.beyond(k, part, impedance[s])
            y[s] += y_cap
            j[s] += j_cap
        edges = [(a, b, share, (impedance[a] + impedance[b]) / 2) for a, b, share in self._edges()]
        for a, b, share, z in reversed(edges):
            resisted = share / (1 + z * y[b])
            y[a] += resisted * y[b]
            j[a] += resisted * j[b]
        pressure = np.divide(-j, y, out=np.zeros_like(y), where=y != 0)
        pressure[self.second] = 0.0
        for a, b, share, z in edges:
            pressure[b] += share * (pressure[a] - z * j[b]) / (1 + z * y[b])
        answer = np.zeros((len(ends.given), y.shape[1]), np.complex128)
        for s, k, part in caps:
            y_cap, j_cap = ends.beyond(k, part, impedance[s])
            answer[k] += y_cap * pressure[s] + j_cap
        return answer

    def _edges(self) -> list[tuple[int, int, float]]:
        """First and second section and share of each pair that touches, ascending along the way."""
        return list(zip(self.first.tolist(), self.second.tolist(), self.share.tolist(), strict=True))

    def _flow(self, out: Mapping[int, float]) -> NDArray[np.float64]:
        return self.through @ np.array([out[k] for k in range(self.through.shape[1])])

    def _drop(self, each: NDArray[np.float64]) -> float:
        """Largest difference between sums of something along the way."""
        total = each.copy()
        for first, second, share in self._edges():
            total[second] += share * total[first]
        return float(total.max() - min(total.min(), 0.0))


def find_sections(nodes: Nodes) -> Sections:
    """Sections of a vessel with openings, along the ways from its largest inlet."""
    links = link_table(nodes)
    inlet = max((o for o in nodes.openings if o.role == "inlet"), key=lambda opening: opening.area_mm2)
    way = distances(links, np.flatnonzero(nodes.opening == inlet.id))
    level = way // (SPACINGS * AXIS_LENGTH)
    section = connected(links, level)
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
    middle, direction = _ways(nodes, section, volume, first, second)
    caps = _caps(nodes, section, count)
    cut = caps.sum(axis=1) > 0
    whole = caps.sum(axis=1) == 0
    whole[first[cut[second]]] = whole[second[cut[first]]] = False
    around, wall = (
        _with_neighbours(each, first, second)
        for each in (volume, np.bincount(section, wall_areas(nodes), count).astype(np.float64))
    )
    ways = _smoothed(direction, first, second)
    across, reaches_opening = _planes(links, nodes.position, nodes.opening > 0, section, middle, ways)
    whole &= ~reaches_opening
    across = _up_to_ends(np.where(whole, across, np.nan), first, second)
    area = np.where(np.isnan(across), volume / SPACINGS, across)
    through = caps.copy()
    for k in range(len(first) - 1, -1, -1):
        through[first[k]] += share[k] * through[second[k]]
    dx = nodes.spacing_mm * 1e-3
    return Sections(
        area_m2=area * dx**2,
        radius_m=2 * around / np.maximum(wall, 1e-9) * dx,
        length_m=volume / area * dx,
        volume_m3=volume * dx**3,
        whole=whole,
        first=first,
        second=second,
        share=share,
        through=through,
        caps=caps,
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


def _up_to_ends(
    values: NDArray[np.float64], first: NDArray[np.int64], second: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Values, (S,), of sections that have none taken from the next ones before or behind that do."""
    values = values.copy()
    for a, b in (*zip(first, second, strict=True), *zip(second[::-1], first[::-1], strict=True)):
        if np.isnan(values[b]):
            values[b] = values[a]
    return values


def _ways(
    nodes: Nodes,
    section: NDArray[np.int64],
    volume: NDArray[np.float64],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Middle of each section, and the way there, from the middle of those before it to that of those behind, (S, 3)."""
    count, middle = len(volume), np.empty((len(volume), 3))
    for axis in range(3):
        middle[:, axis] = np.bincount(section, nodes.position[:, axis], count) / volume
    steps = np.zeros((count, 3))
    np.add.at(steps, first, middle[second] - middle[first])
    np.add.at(steps, second, middle[second] - middle[first])
    return middle, steps


def _smoothed(steps: NDArray[np.float64], first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.float64]:
    """Unit vectors along steps, (S, 3), averaged with those of sections that touch; 0 where there are none."""
    for _ in range(SMOOTHINGS):
        before = steps
        steps = before.copy()
        np.add.at(steps, first, before[second])
        np.add.at(steps, second, before[first])
    return steps / np.maximum(np.linalg.norm(steps, axis=1), 1e-12)[:, None]


@njit(cache=True)
def _planes(
    links: Links,
    position: NDArray[np.int32],
    at_opening: NDArray[np.bool_],
    section: NDArray[np.int64],
    middle: NDArray[np.float64],
    direction: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Area, in squared spacings, of the plane across a direction through the node next to the middle of each section:
    of the nodes that are joined to it within the plane, which count 1 - d/`HALF` at the distance d from it. And whether
    one of them is at an opening, which may cut off a part of the plane.
    """
    count = len(middle)
    area, least, seed = np.zeros(count), np.full(count, np.inf), np.zeros(count, np.int64)
    reaches_opening = np.zeros(count, np.bool_)
    visited, stack = np.full(len(position), -1, np.int64), np.empty(len(position), np.int32)
    for n in range(len(position)):
        away = ((position[n] - middle[section[n]]) ** 2).sum()
        if away < least[section[n]]:
            least[section[n]], seed[section[n]] = away, n
    for s in range(count):
        stack[0], visited[seed[s]], high = seed[s], s, 1
        while high:
            high -= 1
            n = stack[high]
            far = 0.0
            for axis in range(3):
                far += (position[n, axis] - position[seed[s], axis]) * direction[s, axis]
            if abs(far) >= HALF:
                continue
            area[s] += (1 - abs(far) / HALF) / HALF
            reaches_opening[s] = reaches_opening[s] or at_opening[n]
            for i in range(links.shape[1]):
                m = links[n, i]
                if m >= 0 and visited[m] != s:
                    visited[m], stack[high] = s, m
                    high += 1
    return area, reaches_opening


@njit(cache=True)
def connected(links: Links, level: NDArray[np.int32]) -> NDArray[np.int64]:
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


def widest_radius_mm(nodes: Nodes) -> float:
    """Radius of about the largest sphere that has room in a vessel: half of the largest chord that is the shortest of
    those through its node, along the nine lines of the lattice.

    In a tube some line is across it to within 25 degrees, so that it is at most a tenth too large.
    """
    shortest = np.full(nodes.count, np.inf)
    neighbours = Neighbours(nodes)
    for forward in range(1, Q, 2):
        length = nodes.spacing_mm * float(np.linalg.norm(VELOCITIES[forward]))
        chord = np.full(nodes.count, np.inf)
        _chords(neighbours.along(forward), neighbours.along(forward + 1), chord)
        np.minimum(shortest, length * chord, out=shortest)
    return float(shortest.max()) / 2


@njit(parallel=True, cache=True)
def _chords(ahead: NDArray[np.int32], behind: NDArray[np.int32], chord: NDArray[np.float64]) -> None:
    """Nodes of the line through each node, from wall to wall; those of lines without an end are left as they are."""
    for start in prange(len(behind)):
        if behind[start] < 0:
            count, n = 0, np.int32(start)
            while n >= 0:
                count, n = count + 1, ahead[n]
            n = np.int32(start)
            while n >= 0:
                chord[n], n = count, ahead[n]
