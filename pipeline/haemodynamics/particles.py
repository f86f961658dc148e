# SPDX-License-Identifier: Apache-2.0
"""Particles without mass that go with the flow: dx/dt = u(x, t), forwards or backwards in time.

Fourth-order Runge-Kutta in time; the velocity is trilinear in space (:mod:`interpolation`) and linear in time between
the snapshots of the flow, of which two are in memory at least. A periodic flow goes on from its last snapshot to its
first; a flow with one snapshot is steady. A step is as long as the particle takes for a fraction of a spacing, or as
the corners of its cell take to part by as much, and no longer than to the next snapshot.

The interpolated velocity is 0 on the wall up to errors of the second order, and of such errors particles would cross it
or come to rest on it. A particle that ends a step nearer to the wall than `KEPT_OFF` is therefore moved straight away
from it to that distance, where the flow along the wall carries it on.

A particle leaves where its step crosses the plane of an opening outwards within `REACH` radii of the centre. Along the
rim, between wall and cap, there are cells without a fluid node, in which the interpolation ends: a particle that goes
there within `RIM` spacings of the plane has left, too.
"""

import time
from typing import NamedTuple

import numpy as np
from numba import get_num_threads, njit, prange
from numpy.typing import NDArray

from pipeline.haemodynamics.cells import (
    FLOATS,
    NUMBERS,
    Between,
    Room,
    Stepping,
    blend,
    enter,
    liveliness,
    room_in,
)
from pipeline.haemodynamics.interpolation import Blocks, Interpolation
from pipeline.haemodynamics.snapshots import Field
from solver.domain.nodes import Opening
from solver.kernels.compilation import inner_function
from solver.runtime.memory import available_bytes

KEPT_OFF = 0.03
"""Least distance of a particle to the wall, in spacings. The surface on which the interpolated velocity is 0 undulates
by h/8R of a spacing h around a wall of radius R, 0.025 with 10 nodes across; behind it velocities point back."""

REACH = 1.5
"""How far from an opening's centre, in radii, its plane is an opening."""

RIM = 1.0
"""How far from the plane of an opening, in spacings, its rim reaches."""

PARTS = 4
"""Into how many parts of particles the work of each thread is divided: some particles go on much longer than others."""

MEMORY = 0.25
"""Part of the free memory that snapshots may take: particles pass them in each cycle, forwards and backwards."""

MOVING, LOST = 0, -1
"""States of particles; another state is the id of the opening through which one has left."""


class Particles(NamedTuple):
    """Where particles are, and since when or until when; arrays that change as they go.

    Attributes
    ----------
    place : (P, 3) float64, lattice indices (x, y, z).
    clock_s : (P,) float64, time up to which each has been traced; it starts with that of its release.
    state : (P,) int8, MOVING, LOST where the interpolation ended, or the opening through which it left.
    velocity_m_s : (P, 3) float32, where it is.
    held : (P,) bool, whether its last step ended at the wall.
    end_s : (P,) float64, time at which each stops.
    """

    place: NDArray[np.float64]
    clock_s: NDArray[np.float64]
    state: NDArray[np.int8]
    velocity_m_s: NDArray[np.float32]
    held: NDArray[np.bool_]
    end_s: NDArray[np.float64]

    def on_way(self) -> NDArray[np.bool_]:
        """Which have neither left nor come to their end, (P,)."""
        return (self.state == MOVING) & (self.clock_s != self.end_s)

    @staticmethod
    def at(place: NDArray[np.float64], released_s: NDArray[np.float64], lasts_s: float) -> "Particles":
        """Particles that are released at places, (P, 3), at times, (P,), and go on for a time, below 0 backwards.

        Parameters
        ----------
        place : (P, 3) lattice indices x, y, z.
        released_s : (P,).
        lasts_s : how long each is traced.
        """
        count = len(place)
        return Particles(
            np.array(place, np.float64),
            np.array(released_s, np.float64),
            np.zeros(count, np.int8),
            np.zeros((count, 3), np.float32),
            np.zeros(count, np.bool_),
            np.asarray(released_s) + lasts_s,
        )


class Tracer:
    """Moves particles through a flow.

    Parameters
    ----------
    lattice : where values are between the nodes.
    field : the velocity.
    openings : through which particles leave.
    step : longest way of a step, in spacings.

    Attributes
    ----------
    lattice : as given.
    reads, read_s : snapshots that were read, and the time that took.
    """

    def __init__(self, lattice: Interpolation, field: Field, openings: tuple[Opening, ...], step: float) -> None:
        self.lattice, self._field = lattice, field
        self._kept: dict[int, NDArray[np.float32]] = {}
        self._stay = int(MEMORY * available_bytes() / (3 * lattice.distance.nbytes))
        self.reads, self.read_s = 0, 0.0
        spacing = lattice.nodes.spacing_mm
        through = np.array(
            [(*lattice.place(np.array(o.centre_mm)), *o.normal, REACH * o.radius_mm / spacing) for o in openings]
        ).reshape(-1, 7)
        ids = np.array([opening.id for opening in openings], np.int8)
        self._stepping = Stepping(1e3 / spacing, step, lattice.distance, through, ids)

    def advance(self, particles: Particles, until_s: float) -> None:
        """Trace particles up to a time as :meth:`follow` does, without looking at them on the way."""
        self.follow(particles, np.flatnonzero(particles.on_way()), np.array([until_s]), sampled=False)

    def follow(
        self, particles: Particles, rows: NDArray[np.int64], stops_s: NDArray[np.float64], sampled: bool = True
    ) -> NDArray[np.float64]:
        """Trace particles from their own clocks up to the last of several times, and sample them at each.

        If any clock stands before that time, particles go forwards, and those with later clocks stay where they are;
        else they go backwards. Those that have left or come to their end stay, too.

        Parameters
        ----------
        particles : to be moved.
        rows : which of them.
        stops_s : (S,) times in the order in which they are passed.
        sampled : whether to look.

        Returns
        -------
        (R, S, 7): lattice indices x, y, z, clock, and velocity (m/s) of each particle at each time at which it moved,
        or where it left or ended since the time before; else NaN. Without looks (R, 0, 7).
        """
        samples = np.full((len(rows), len(stops_s) if sampled else 0, 7), np.nan)
        on_way = particles.on_way()[rows]
        if not on_way.any():
            return samples
        clocks, last = particles.clock_s[rows[on_way]], float(stops_s[-1])
        since_s = float(clocks.min() if clocks.min() < last else max(clocks.max(), last))
        if self._field.period_s is None:
            self._move(particles, rows, 0, (0.0, 1.0), stops_s, since_s <= last, samples)
            return samples
        sign, passed = (1 if since_s <= last else -1), 0
        for number, end in self._field.intervals(since_s, last):
            span = self._field.moment(number), self._field.moment(number + 1)
            reached = int(np.searchsorted(sign * stops_s, sign * end, "right"))
            stops, part = stops_s[passed:reached], samples[:, passed:reached] if sampled else samples
            if not len(stops) or stops[-1] != end:
                stops = np.append(stops, end)
            self._move(particles, rows, number, span, stops, sign > 0, part)
            passed = reached
        return samples

    def reads_among(self, passed: float) -> float:
        """About how many snapshots will be read while so many are passed: those that are not kept."""
        count = len(self._field.times_s)
        stay = min(self._stay, count)
        first = stay - sum(step < stay for step in self._kept)
        return min(passed, first + passed * (1 - stay / count))

    def _snapshots(self, number: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """A snapshot and the next; they are kept until they are passed, and the first ones as long as there is room."""
        count = len(self._field.times_s)
        wanted = number % count, (number + 1) % count
        self._kept = {step: values for step, values in self._kept.items() if step in wanted or step < self._stay}
        for step in wanted:
            if step not in self._kept:
                began = time.monotonic()
                velocity = self._field.velocity_m_s(step)
                self._kept[step] = self.lattice.extended(velocity, zero_at_wall=True)
                self.reads, self.read_s = self.reads + 1, self.read_s + time.monotonic() - began
        return self._kept[wanted[0]], self._kept[wanted[1]]

    def _move(
        self,
        particles: Particles,
        rows: NDArray[np.int64],
        number: int,
        span_s: tuple[float, float],
        stops_s: NDArray[np.float64],
        forwards: bool,
        samples: NDArray[np.float64],
    ) -> None:
        between = Between(*self._snapshots(number), *span_s, self._field.period_s is None)
        parts = min(PARTS * get_num_threads(), len(rows))
        memory = np.empty((parts, NUMBERS), np.int64), np.empty((parts, FLOATS))
        table = self.lattice.table
        _advance(rows, particles, between, stops_s, forwards, self._stepping, table, samples, memory)


@inner_function(forceinline=True)
def _keep_off_wall(
    place: NDArray[np.float64], flow: Between, stepping: Stepping, table: Blocks, room: Room
) -> tuple[bool, bool]:
    """Move a particle that is too near to the wall, along the gradient of the distance.

    Returns
    -------
    Whether it was, and whether it is where all corners have values.
    """
    enter(place, flow, stepping, table, room)
    if room.cell[3] < 8:
        return False, False
    a, b, c = place[0] - room.cell[0], place[1] - room.cell[1], place[2] - room.cell[2]
    found = along = across = up = 0.0
    for corner in range(8):
        value = room.distance[corner]
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


@inner_function(forceinline=True)
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


@inner_function(forceinline=True)
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


@inner_function(forceinline=True)
def _go(
    n: int, particles: Particles, flow: Between, stepping: Stepping, table: Blocks, until: float, room: Room
) -> None:
    """Classical Runge-Kutta steps of one particle up to a time."""
    places, clocks, states, velocities, held, _ = particles
    begin, finish, steady = flow[2:]
    scale, longest, _, openings, ids = stepping
    old, new, slope = room[6:]
    sign = 1.0 if until >= clocks[n] else -1.0
    while True:
        clock = clocks[n]
        for axis in range(3):
            old[axis] = places[n, axis]
        enter(old, flow, stepping, table, room)
        u, v, w = blend((clock - begin) / (finish - begin), steady, room)
        velocities[n, 0], velocities[n, 1], velocities[n, 2] = u, v, w
        left = until - clock
        if left == 0:
            return
        most = liveliness(room.before, room)
        fastest = scale * (most if steady else max(most, liveliness(room.after, room)))
        whole = fastest * abs(left) <= longest
        step = left if whole else sign * longest / fastest
        slope[0, 0], slope[0, 1], slope[0, 2] = u, v, w
        for stage in range(1, 4):
            part = 1.0 if stage == 3 else 0.5
            for axis in range(3):
                new[axis] = old[axis] + scale * step * part * slope[stage - 1, axis]
            enter(new, flow, stepping, table, room)
            later = (clock + part * step - begin) / (finish - begin)
            slope[stage, 0], slope[stage, 1], slope[stage, 2] = blend(later, steady, room)
        for axis in range(3):
            sum_of = slope[0, axis] + 2 * slope[1, axis] + 2 * slope[2, axis] + slope[3, axis]
            new[axis] = old[axis] + scale * step * sum_of / 6
        opening, part = _crossing(old, new, openings)
        if opening >= 0:
            for axis in range(3):
                places[n, axis] = old[axis] + part * (new[axis] - old[axis])
            clocks[n] = clock + part * step
            states[n] = ids[opening]
            return
        held[n], inside = _keep_off_wall(new, flow, stepping, table, room)
        for axis in range(3):
            places[n, axis] = new[axis]
        clocks[n] = until if whole else clock + step
        if not inside:
            opening = _at_rim(old, new, openings)
            states[n] = ids[opening] if opening >= 0 else LOST
            return


# many parameters because what a Numba loop works on is handed to it piece by piece
@njit(parallel=True, cache=True)
def _advance(
    rows: NDArray[np.int64],
    particles: Particles,
    flow: Between,
    stops: NDArray[np.float64],
    forwards: bool,
    stepping: Stepping,
    table: Blocks,
    samples: NDArray[np.float64],
    memory: tuple[NDArray[np.int64], NDArray[np.float64]],
) -> None:
    """Each particle by itself, so that the order and number of threads do not matter, from stop to stop.

    Threads take them in as many parts as there are rows of `memory`, and those beside each other in different parts.
    """
    places, clocks, states, velocities, _, ends = particles
    numbers, whole = memory
    sign = 1.0 if forwards else -1.0
    for part in prange(len(numbers)):
        room = room_in(numbers[part], whole[part])
        for k in range(part, len(rows), len(numbers)):
            n = rows[k]
            for stop in range(len(stops)):
                until = stops[stop] if sign * (ends[n] - stops[stop]) > 0 else ends[n]
                done = stop > 0 and sign * (ends[n] - stops[stop - 1]) <= 0
                if states[n] != MOVING or done or sign * (until - clocks[n]) < 0:
                    continue
                _go(n, particles, flow, stepping, table, until, room)
                if stop < samples.shape[1]:
                    for axis in range(3):
                        samples[k, stop, axis] = places[n, axis]
                        samples[k, stop, 4 + axis] = velocities[n, axis]
                    samples[k, stop, 3] = clocks[n]
