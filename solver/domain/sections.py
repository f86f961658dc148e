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
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from solver.domain.border import Border
from solver.domain.link_graph import AXIS_LENGTH, Links, link_table
from solver.domain.nodes import Nodes
from solver.domain.planes import plane_areas
from solver.domain.slices import distances, pieces_of
from solver.domain.whole import blocks_in_order, first_finds
from solver.domain.widths import wall_areas

SPACINGS = 2
"""Thickness of a slice, as ways are measured, in spacings."""
SMOOTHINGS = 2
"""Times that the direction of the way is averaged with those of the sections before and behind."""
FRACTIONS = 60
"""Terms of the continued fraction of J1/J0: right to 1e-9 up to alpha 40."""

Complex = NDArray[np.complex128]


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

    @property
    def level_pa(self) -> Complex:
        """(frequencies,) mean pressure behind the openings whose flow is not given; 0 where all are."""
        free = self.pressure_pa[~self.given]
        return free.mean(axis=0) if len(free) else np.zeros(free.shape[1:], np.complex128)

    def above(self, level_pa: Complex) -> "Ends":
        """The same with pressures above a level, (frequencies,)."""
        return replace(self, pressure_pa=self.pressure_pa - level_pa)

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
        # above a level that all have in common, which nearly frictionless sections would round off to any flow
        level = ends.level_pa
        ends = ends.above(level)
        y = np.zeros_like(impedance) + admittance
        j = y * level
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
    """Sections of a vessel with openings, along the ways from its largest inlet; of a part all ranks ask together."""
    links, ranks = link_table(nodes), nodes.ranks
    border = Border(nodes, links)
    inlet = max((o for o in nodes.openings if o.role == "inlet"), key=lambda opening: opening.area_mm2)
    way = distances(nodes, links, border, np.flatnonzero(border.own & (nodes.opening == inlet.id)))
    level = way // (SPACINGS * AXIS_LENGTH)
    section, level_of = pieces_of(nodes, links, border, level)
    count = len(level_of)
    order = np.argsort(level_of, kind="stable")  # by slice
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    section = place[np.minimum(section, count - 1)]
    first, second, links_of = _touching(nodes, links, border, level, section, count)
    sums = _sums(nodes, border, section, count)
    wall = _wall_of(nodes, border, section, count)
    ways = first_finds(ranks, lambda: _ways(sums, first, second))
    across, reaches_opening = plane_areas(nodes, links, border, section, ways["middle"], ways["direction"])
    found = first_finds(
        ranks,
        lambda: vars(_assembled(nodes, sums, wall, (first, second, links_of), (across, reaches_opening))),
    )
    return Sections(**found)


def _assembled(
    nodes: Nodes,
    sums: NDArray[np.int64],
    wall: NDArray[np.float64],
    touching: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    planes: tuple[NDArray[np.float64], NDArray[np.bool_]],
) -> Sections:
    """Sections from what was found of the nodes of each: their sums, the area of their wall, which touch, by how many
    links, and their planes.
    """
    (first, second, links_of), (across, reaches_opening) = touching, planes
    count, volume = len(sums), sums[:, 0].astype(np.float64)
    share = links_of / np.bincount(second, links_of, count)[second]
    caps = sums[:, 4:] / np.maximum(sums[:, 4:].sum(axis=0), 1)
    cut = caps.sum(axis=1) > 0
    whole = caps.sum(axis=1) == 0
    whole[first[cut[second]]] = whole[second[cut[first]]] = False
    around, wall = (_with_neighbours(each, first, second) for each in (volume, wall))
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


def _sums(nodes: Nodes, border: Border, section: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Number of the nodes of each section, sums of their places, and links through each opening, (S, 4 + openings)."""
    own, of_nodes = border.own, section[border.own]
    columns = [np.bincount(of_nodes, minlength=count)]
    for axis in range(3):  # whole numbers, which floating-point numbers hold up to 2^53
        columns.append(np.bincount(of_nodes, nodes.position[own, axis], count).astype(np.int64))
    for opening in nodes.openings:
        linked = nodes.opening_link_node[nodes.opening_link_opening == opening.id]
        columns.append(np.bincount(section[linked[own[linked]]], minlength=count))
    return nodes.ranks.begin_sum(np.stack(columns, axis=1))()


def _wall_of(nodes: Nodes, border: Border, section: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Area of the wall of each section, (S,), added up in the order of all nodes; on the first rank."""
    area, total = wall_areas(nodes), np.zeros(count)
    walled = np.flatnonzero(border.own & (area > 0))
    of_walled = section[walled], area[walled]
    for _, sections, areas in blocks_in_order(nodes.ranks, nodes.rows[walled], nodes.total, *of_walled):
        np.add.at(total, sections, areas)
    return total


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
    sums: NDArray[np.int64], first: NDArray[np.int64], second: NDArray[np.int64]
) -> dict[str, NDArray[np.float64]]:
    """Middle of each section, and unit vectors along the way there, (S, 3): from the middle of those before it to that
    of those behind.
    """
    middle = sums[:, 1:4] / sums[:, :1]
    steps = np.zeros((len(sums), 3))
    np.add.at(steps, first, middle[second] - middle[first])
    np.add.at(steps, second, middle[second] - middle[first])
    return {"middle": middle, "direction": _smoothed(steps, first, second)}


def _smoothed(steps: NDArray[np.float64], first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.float64]:
    """Unit vectors along steps, (S, 3), averaged with those of sections that touch; 0 where there are none."""
    for _ in range(SMOOTHINGS):
        before = steps
        steps = before.copy()
        np.add.at(steps, first, before[second])
        np.add.at(steps, second, before[first])
    return steps / np.maximum(np.linalg.norm(steps, axis=1), 1e-12)[:, None]


def _touching(
    nodes: Nodes, links: Links, border: Border, level: NDArray[np.int32], section: NDArray[np.int64], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Sections at both ends of links to the next slice, the second ascending, and how many links these are."""
    pairs, links_of = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for ends in links.T:
        rises = np.flatnonzero(border.own & (ends >= 0) & (level[ends] == level + 1))
        found, times = np.unique(section[rises] * count + section[ends[rises]], return_counts=True)
        pairs.append(found)
        links_of.append(times)
    own = _counted(np.concatenate(pairs), np.concatenate(links_of))
    edges, times = _counted(*(nodes.ranks.join(each) for each in own))
    order = np.argsort(edges % count, kind="stable")
    first, second = np.divmod(edges[order], count)
    return first, second, times[order]


def _counted(names: NDArray[np.int64], times: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each name once, ascending, and the sum of its times."""
    found, number = np.unique(names, return_inverse=True)
    return found, np.bincount(number.ravel(), times, len(found)).astype(np.int64)
