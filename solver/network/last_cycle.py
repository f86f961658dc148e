# SPDX-License-Identifier: Apache-2.0
"""What a network's last cycle was: pressure, flow, area and velocity at any place and sample, and its balances."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solver.network.grid import Grid
from solver.network.loop import Record, State
from solver.network.momentum import profile_work_j
from solver.network.network import Network

Reals = NDArray[np.float64]

SITES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Places along a segment, as parts of its length, that are looked at."""


@dataclass(frozen=True)
class Course:
    """A segment, or places of one, over a cycle.

    Attributes
    ----------
    part : places along the segment, as parts of its length, (K,).
    pressure_pa, flow_m3_s, area_m2, velocity_m_s : (samples, K); flow and velocity from start to end.
    """

    part: Reals
    pressure_pa: Reals
    flow_m3_s: Reals
    area_m2: Reals
    velocity_m_s: Reals


@dataclass(frozen=True)
class Balance:
    """What goes through a network in a cycle.

    Attributes
    ----------
    mass : what the volume changed by beyond what came in and left, by what came in.
    volume_out_m3 : through each opening, by its node; below 0 what came in.
    work_out_j : of the total pressure there.
    friction_j : lost to the viscosity of blood and in stenoses.
    walls_j : lost to the viscosity of walls.
    profile_j : taken by the momentum of a profile whose alpha is not 1.
    """

    mass: float
    volume_out_m3: Mapping[str, float]
    work_out_j: Mapping[str, float]
    friction_j: float
    walls_j: float
    profile_j: float

    @property
    def work_left(self) -> float:
        """Work that is neither lost nor has left, by the work that came in: what is stored, and error of the scheme."""
        entered = -sum(work for work in self.work_out_j.values() if work < 0.0)
        left = -sum(self.work_out_j.values()) - self.friction_j - self.walls_j - self.profile_j
        return left / max(entered, 1e-300)


@dataclass(frozen=True)
class TreeResult:
    """The last cycle of a network.

    Attributes
    ----------
    network : that was computed.
    time_s : (samples,) times since the cycle began.
    grid, record : cells and their samples.
    cycles : how many were computed.
    changes : largest change of pressure (by the segment's pulse pressure) and of flow (by its largest flow) from each
        cycle to the next, (cycles - 1, 2).
    converged : whether the last change is as small as was asked for.
    balance : of mass and work.
    state : at the end of the cycle.
    rate : largest (|u| + c)/dx in the cycle, 1/s.
    """

    network: Network
    time_s: Reals
    grid: Grid
    record: Record
    cycles: int
    changes: Reals
    converged: bool
    balance: Balance
    state: State
    rate: float

    def along(self, name: str) -> Course:
        """A whole segment: its start, the middles of its cells, its end.

        Raises
        ------
        StageError
            If there is no such segment.
        """
        s = _index(self.network, name)
        a, b = int(self.grid.first[s]), int(self.grid.last[s]) + 1
        cells = b - a
        part = np.concatenate(([0.0], (np.arange(cells) + 0.5) / cells, [1.0]))
        record = self.record

        def joined(inner: Reals, ends: Reals) -> Reals:
            return np.concatenate((ends[:, 2 * s, None], inner, ends[:, 2 * s + 1, None]), axis=1)

        area, velocity = record.area[:, a:b], record.velocity[:, a:b]
        return Course(
            part,
            joined(record.pressure[:, a:b], record.end_pressure),
            joined(area * velocity, record.end_flow),
            joined(area, record.end_area),
            joined(velocity, record.end_flow / record.end_area),
        )

    def at(self, name: str, parts: tuple[float, ...] = SITES) -> Course:
        """Places of a segment, by straight lines between cells; fails as :meth:`along` does.

        Parameters
        ----------
        name : of the segment.
        parts : places, as parts of its length.
        """
        whole, places = self.along(name), np.asarray(parts, np.float64)
        after = np.clip(np.searchsorted(whole.part, places), 1, len(whole.part) - 1)
        weight = (places - whole.part[after - 1]) / (whole.part[after] - whole.part[after - 1])

        def between(values: Reals) -> Reals:
            found: Reals = (1.0 - weight) * values[:, after - 1] + weight * values[:, after]
            return found

        quantities = (whole.pressure_pa, whole.flow_m3_s, whole.area_m2, whole.velocity_m_s)
        return Course(places, *map(between, quantities))

    def frames(self, count: int) -> NDArray[np.int64]:
        """Numbers of samples that make so many frames of the cycle, evenly spaced nearly."""
        samples = len(self.time_s)
        return np.unique(np.arange(count) * samples // count)


def _index(network: Network, name: str) -> int:
    return network.segments.index(network.segment(name))


def looked_at(grid: Grid, record: Record) -> tuple[Reals, Reals]:
    """Pressure and flow of all segments at their ends and at cells near the places between, (samples, S, 5) each."""
    inner = np.stack([grid.first + np.rint((grid.last - grid.first) * part).astype(np.int64) for part in SITES[1:-1]])
    pressure = [
        record.end_pressure[:, 0::2],
        *np.moveaxis(record.pressure[:, inner], 1, 0),
        record.end_pressure[:, 1::2],
    ]
    flows = np.moveaxis((record.area * record.velocity)[:, inner], 1, 0)
    return np.stack(pressure, axis=2), np.stack([record.end_flow[:, 0::2], *flows, record.end_flow[:, 1::2]], axis=2)


def change_of(before: tuple[Reals, Reals], now: tuple[Reals, Reals]) -> tuple[float, float]:
    """Largest change of pressure and of flow from one cycle to the next, in the worst segment.

    Pressure counts by the segment's pulse pressure, flow by its largest flow, and both not below a thousandth of the
    network's own, so that a segment in which nothing moves does not count by itself.
    """
    pressure, flow = (np.abs(b - a).max(axis=(0, 2)) for a, b in zip(before, now, strict=True))
    pulse = now[0].max(axis=(0, 2)) - now[0].min(axis=(0, 2))
    largest = np.abs(now[1]).max(axis=(0, 2))
    return _worst(pressure, pulse), _worst(flow, largest)


def _worst(change: Reals, size: Reals) -> float:
    least = max(1e-3 * float(size.max()), 1e-300)
    return float((change / np.maximum(size, least)).max())


def losses_j(grid: Grid, record: Record, period_s: float) -> tuple[float, float, float]:
    """Work lost to the viscosity of blood and of walls, and taken by the momentum of profiles, J, in a cycle, by the
    mean of its samples.

    Parameters
    ----------
    grid : cells of all segments.
    record : samples of the cycle.
    period_s : its length.
    """
    inside = grid.per_length > 0.0
    length = np.where(inside, 1.0 / np.where(inside, grid.per_length, 1.0), 0.0)
    flow = record.area * record.velocity
    rate = grid.friction / record.area + grid.linear_loss * record.area + grid.square_loss * record.area * np.abs(flow)
    blood = grid.density * np.sum(rate * record.velocity * flow * length, axis=1).mean()
    slope = 0.5 * (flow[:, 2:] - flow[:, :-2]) * grid.per_length[1:-1]
    viscous = 0.5 * (grid.viscous[:-2] + grid.viscous[1:-1]) / np.sqrt(record.area[:, 1:-1])
    walls = np.sum(viscous * slope**2 * length[1:-1], axis=1).mean()
    cells, ends = (record.area, record.velocity), (record.end_area, record.end_flow)
    return float(blood * period_s), float(walls * period_s), profile_work_j(grid, cells, ends, period_s)


def balance_of(nodes: tuple[str, ...], state: State, change_m3: float, lost: tuple[float, float, float]) -> Balance:
    """Balance of a cycle.

    Parameters
    ----------
    nodes : of openings, in their order.
    state : at the end of the cycle.
    change_m3 : of the volume over the cycle.
    lost : work, see :func:`losses_j`.
    """
    volume = dict(zip(nodes, map(float, state.volume_out), strict=True))
    work = dict(zip(nodes, map(float, state.work_out), strict=True))
    entered = -sum(each for each in volume.values() if each < 0.0)
    mass = (change_m3 + sum(volume.values())) / max(entered, 1e-300)
    return Balance(mass, volume, work, *lost)
