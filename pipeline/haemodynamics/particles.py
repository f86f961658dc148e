"""Particles without mass that go with the flow: dx/dt = u(x, t), forwards or backwards in time.

Fourth-order Runge-Kutta in time; the velocity is trilinear in space (:mod:`interpolation`) and linear in time between
the snapshots of the flow, of which two are in memory. A periodic flow goes on from its last snapshot to its first; a
flow with one snapshot is steady. A step is as long as the particle takes for a fraction of a spacing, so that slow
particles make few of them, and no longer than to the next snapshot.

The interpolated velocity is 0 on the wall up to errors of the second order, and of such errors particles would cross it
or come to rest on it. A particle that ends a step nearer to the wall than `KEPT_OFF` is therefore moved straight away
from it to that distance, where the flow along the wall carries it on.

A particle leaves where its step crosses the plane of an opening outwards within `REACH` radii of the centre. Along the
rim, between wall and cap, there are cells without a fluid node, in which the interpolation ends: a particle that goes
there within `RIM` spacings of the plane has left, too.

Sources: Darmofal and Haimes (1996), doi:10.1006/jcph.1996.0020, for the order of the methods in time and space.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from pipeline.haemodynamics.interpolation import Interpolation, corners, weight_of
from solver.nodes import Opening

KEPT_OFF = 0.02
"""Least distance of a particle to the wall, in spacings."""

REACH = 1.5
"""How far from an opening's centre, in radii, its plane is an opening."""

RIM = 1.0
"""How far from the plane of an opening, in spacings, its rim reaches."""

MOVING, LOST = 0, -1
"""States of particles; another state is the id of the opening through which one has left."""


@dataclass(frozen=True)
class Field:
    """A velocity over time.

    Attributes
    ----------
    times_s : (T,) ascending times of the snapshots, within one period.
    period_s : after which the flow repeats; none of a steady flow, which has one snapshot.
    velocity_m_s : snapshot by number at the fluid nodes, (N, 3).
    """

    times_s: NDArray[np.float64]
    period_s: float | None
    velocity_m_s: Callable[[int], NDArray[np.floating]]

    def moment(self, number: int) -> float:
        """Time of a snapshot, whose numbers go on over all periods."""
        period, step = divmod(number, len(self.times_s))
        return float(self.times_s[step]) + period * (self.period_s or 0.0)

    def intervals(self, since_s: float, until_s: float) -> Iterator[tuple[int, float]]:
        """Intervals between snapshots on the way from one time to another, at least one, in the order of the way.

        Returns
        -------
        The number of each one's first snapshot, and the time up to which the way is in it.
        """
        forwards, now = until_s >= since_s, since_s
        cycle = int(np.floor((now - self.times_s[0]) / (self.period_s or 1.0)))
        phase = now - cycle * (self.period_s or 0.0)
        within = int(np.searchsorted(self.times_s, phase, "right" if forwards else "left")) - 1
        number = cycle * len(self.times_s) + within
        while True:
            if forwards:
                now = max(now, min(self.moment(number + 1), until_s))
            else:
                now = min(now, max(self.moment(number), until_s))
            yield number, now
            if now == until_s:
                return
            number += 1 if forwards else -1


@dataclass
class Particles:
    """Where particles are, and since when or until when.

    Attributes
    ----------
    place : (P, 3) float64, lattice indices (x, y, z).
    clock_s : (P,) float64, time up to which each has been traced; it starts with that of its release.
    state : (P,) int8, MOVING, LOST where the interpolation ended, or the opening through which it left.
    velocity_m_s : (P, 3) float32, where it is.
    held : (P,) bool, whether its last step ended at the wall.
    """

    place: NDArray[np.float64]
    clock_s: NDArray[np.float64]
    state: NDArray[np.int8]
    velocity_m_s: NDArray[np.float32]
    held: NDArray[np.bool_]

    @staticmethod
    def at(place: NDArray[np.float64], released_s: NDArray[np.float64]) -> "Particles":
        """Particles that are released at places, (P, 3), at times, (P,)."""
        count = len(place)
        return Particles(
            np.array(place, np.float64), np.array(released_s, np.float64), np.zeros(count, np.int8),
            np.zeros((count, 3), np.float32), np.zeros(count, np.bool_),
        )  # fmt: skip


class Tracer:
    """Moves particles through a flow.

    Parameters
    ----------
    lattice : where values are between the nodes.
    field : the velocity.
    openings : through which particles leave.
    step : longest way of a step, in spacings.
    """

    def __init__(self, lattice: Interpolation, field: Field, openings: tuple[Opening, ...], step: float) -> None:
        self._lattice, self._field, self._step = lattice, field, step
        self._kept: dict[int, NDArray[np.float32]] = {}
        spacing = lattice.nodes.spacing_mm
        self._openings = np.array(
            [(*lattice.place(np.array(o.centre_mm)), *o.normal, REACH * o.radius_mm / spacing) for o in openings]
        ).reshape(-1, 7)
        self._ids = np.array([opening.id for opening in openings], np.int8)

    def advance(self, particles: Particles, until_s: float, rows: NDArray[np.int64] | None = None) -> None:
        """Trace particles from their own clocks up to a time, before or after; those that have left stay where they
        are, and so do those that are released only later.

        Parameters
        ----------
        particles : to be moved.
        until_s : the time; a particle whose clock stands there is only told its velocity.
        rows : which of them; none: all.
        """
        rows = np.arange(len(particles.place)) if rows is None else rows
        rows = rows[particles.state[rows] == MOVING]
        if not len(rows):
            return
        clocks = particles.clock_s[rows]
        since_s = float(clocks.min() if clocks.min() < until_s else max(clocks.max(), until_s))
        forwards = since_s <= until_s
        if self._field.period_s is None:
            self._move(particles, rows, 0, (0.0, 1.0), until_s, forwards)
            return
        for number, end in self._field.intervals(since_s, until_s):
            span = self._field.moment(number), self._field.moment(number + 1)
            self._move(particles, rows, number, span, end, forwards)

    def _snapshots(self, number: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """A snapshot and the next, the only two that are kept."""
        count = len(self._field.times_s)
        wanted = number % count, (number + 1) % count
        self._kept = {step: values for step, values in self._kept.items() if step in wanted}
        for step in wanted:
            if step not in self._kept:
                velocity = self._field.velocity_m_s(step)
                self._kept[step] = self._lattice.extended(velocity, zero_at_wall=True)
        return self._kept[wanted[0]], self._kept[wanted[1]]

    def _move(
        self,
        particles: Particles,
        rows: NDArray[np.int64],
        number: int,
        span_s: tuple[float, float],
        until_s: float,
        forwards: bool,
    ) -> None:
        lattice = self._lattice
        before, after = self._snapshots(number)
        _advance(
            rows, particles.place, particles.clock_s, particles.state, particles.velocity_m_s, particles.held,
            before, after, *span_s, until_s, forwards, 1e3 / lattice.nodes.spacing_mm, self._step, lattice.distance,
            self._openings, self._ids, lattice.low, lattice.top, lattice.blocks, lattice.wrap,
        )  # fmt: skip


@njit(cache=True)
def _velocity(
    x: float,
    y: float,
    z: float,
    later: float,
    before: NDArray[np.float32],
    after: NDArray[np.float32],
    low: NDArray[np.int64],
    top: NDArray[np.int32],
    blocks: NDArray[np.int32],
    wrap: NDArray[np.int64],
    row: NDArray[np.int64],
) -> tuple[float, float, float]:
    """Velocity at a place at the part `later` of the interval between two snapshots; corners without value count 0."""
    a, b, c, _ = corners(x, y, z, low, top, blocks, wrap, row)
    u = v = w = 0.0
    for corner in range(8):
        n = row[corner]
        if n >= 0:
            old = weight_of(corner, a, b, c) * (1 - later)
            new = weight_of(corner, a, b, c) * later
            u += old * before[n, 0] + new * after[n, 0]
            v += old * before[n, 1] + new * after[n, 1]
            w += old * before[n, 2] + new * after[n, 2]
    return u, v, w


@njit(cache=True)
def _keep_off_wall(
    place: NDArray[np.float64],
    distance: NDArray[np.float32],
    low: NDArray[np.int64],
    top: NDArray[np.int32],
    blocks: NDArray[np.int32],
    wrap: NDArray[np.int64],
    row: NDArray[np.int64],
) -> tuple[bool, bool]:
    """Move a particle that is too near to the wall, along the gradient of the distance.

    Returns
    -------
    Whether it was, and whether it is where all corners have values.
    """
    a, b, c, whole = corners(place[0], place[1], place[2], low, top, blocks, wrap, row)
    if not whole:
        return False, False
    found = along = across = up = 0.0
    for corner in range(8):
        value = distance[row[corner]]
        wx, wy, wz = (a if corner & 1 else 1 - a), (b if corner >> 1 & 1 else 1 - b), (c if corner >> 2 else 1 - c)
        found += wx * wy * wz * value
        along += (value if corner & 1 else -value) * wy * wz
        across += (value if corner >> 1 & 1 else -value) * wx * wz
        up += (value if corner >> 2 else -value) * wx * wy
    if found >= KEPT_OFF:
        return False, True
    square = along * along + across * across + up * up
    if square > 0:
        way = (KEPT_OFF - found) / max(square, 0.25)  # a distance rises by 1 a spacing, less where walls are close
        place[0] += way * along
        place[1] += way * across
        place[2] += way * up
    return True, True


@njit(cache=True)
def _crossing(old: NDArray[np.float64], new: NDArray[np.float64], openings: NDArray[np.float64]) -> tuple[int, float]:
    """The opening, by number, through which a step leads outwards, and after which part of it; -1 for none."""
    first, part = -1, 1.0
    for k in range(len(openings)):
        inside = beyond = 0.0
        for axis in range(3):
            inside += (old[axis] - openings[k, axis]) * openings[k, 3 + axis]
            beyond += (new[axis] - openings[k, axis]) * openings[k, 3 + axis]
        if inside <= 0 < beyond:
            here = inside / (inside - beyond)
            square = 0.0
            for axis in range(3):
                square += (old[axis] + here * (new[axis] - old[axis]) - openings[k, axis]) ** 2
            if square <= openings[k, 6] ** 2 and here <= part:
                first, part = k, here
    return first, part


@njit(cache=True)
def _at_rim(old: NDArray[np.float64], new: NDArray[np.float64], openings: NDArray[np.float64]) -> int:
    """The opening, by number, towards which a step leads that ends beside its rim; -1 for none."""
    for k in range(len(openings)):
        height = towards = square = 0.0
        for axis in range(3):
            height += (new[axis] - openings[k, axis]) * openings[k, 3 + axis]
            towards += (new[axis] - old[axis]) * openings[k, 3 + axis]
            square += (new[axis] - openings[k, axis]) ** 2
        if towards > 0 and abs(height) <= RIM and square <= openings[k, 6] ** 2:
            return k
    return -1


@njit(parallel=True, cache=True)
def _advance(
    rows: NDArray[np.int64],
    places: NDArray[np.float64],
    clocks: NDArray[np.float64],
    states: NDArray[np.int8],
    velocities: NDArray[np.float32],
    held: NDArray[np.bool_],
    before: NDArray[np.float32],
    after: NDArray[np.float32],
    begin: float,
    finish: float,
    until: float,
    forwards: bool,
    scale: float,
    longest: float,
    distance: NDArray[np.float32],
    openings: NDArray[np.float64],
    ids: NDArray[np.int8],
    low: NDArray[np.int64],
    top: NDArray[np.int32],
    blocks: NDArray[np.int32],
    wrap: NDArray[np.int64],
) -> None:
    """Classical Runge-Kutta steps of each particle by itself, so that the order and number of threads do not matter.

    `scale` turns m/s into spacings a second; `begin` and `finish` are the times of the two snapshots.
    """
    sign = 1.0 if forwards else -1.0
    for k in prange(len(rows)):
        n = rows[k]
        if states[n] != MOVING or sign * (until - clocks[n]) < 0:
            continue
        row, old, new = np.empty(8, np.int64), np.empty(3), np.empty(3)
        slope = np.empty((4, 3))
        while True:
            for axis in range(3):
                old[axis] = places[n, axis]
            clock = clocks[n]
            x, y, z = old[0], old[1], old[2]
            later = (clock - begin) / (finish - begin)
            u, v, w = _velocity(x, y, z, later, before, after, low, top, blocks, wrap, row)
            velocities[n, 0], velocities[n, 1], velocities[n, 2] = u, v, w
            left = until - clock
            if left == 0:
                break
            u0, v0, w0 = _velocity(x, y, z, 0.0, before, after, low, top, blocks, wrap, row)
            u1, v1, w1 = _velocity(x, y, z, 1.0, before, after, low, top, blocks, wrap, row)
            fastest = scale * np.sqrt(max(u0 * u0 + v0 * v0 + w0 * w0, u1 * u1 + v1 * v1 + w1 * w1))
            whole = fastest * abs(left) <= longest
            step = left if whole else sign * longest / fastest
            slope[0, 0], slope[0, 1], slope[0, 2] = u, v, w
            for stage in range(1, 4):
                part = 1.0 if stage == 3 else 0.5
                ahead = scale * step * part
                later = (clock + part * step - begin) / (finish - begin)
                slope[stage, 0], slope[stage, 1], slope[stage, 2] = _velocity(
                    x + ahead * slope[stage - 1, 0], y + ahead * slope[stage - 1, 1], z + ahead * slope[stage - 1, 2],
                    later, before, after, low, top, blocks, wrap, row,
                )  # fmt: skip
            for axis in range(3):
                sum_of = slope[0, axis] + 2 * slope[1, axis] + 2 * slope[2, axis] + slope[3, axis]
                new[axis] = old[axis] + scale * step * sum_of / 6
            opening, part = _crossing(old, new, openings)
            if opening >= 0:
                for axis in range(3):
                    places[n, axis] = old[axis] + part * (new[axis] - old[axis])
                clocks[n] = clock + part * step
                states[n] = ids[opening]
                break
            held[n], inside = _keep_off_wall(new, distance, low, top, blocks, wrap, row)
            for axis in range(3):
                places[n, axis] = new[axis]
            clocks[n] = until if whole else clock + step
            if not inside:
                opening = _at_rim(old, new, openings)
                states[n] = ids[opening] if opening >= 0 else LOST
                break
