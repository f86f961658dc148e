# SPDX-License-Identifier: Apache-2.0
"""Paths that particles take from the inlets, and how long the blood stays in the vessel.

A path (pathline) is the curve of one particle, x(t) with dx/dt = u(x, t); in a steady flow it is a streamline.
Particles are released evenly over the area of the inlets, and in a periodic flow evenly over the period; one stands for
a flow in proportion to the velocity through the inlet where and when it is released, `flux`.

Time since entry (the age of the blood) is how long ago the blood at a place came in, time to leave how long it will
stay from now on, and residence time their sum: the time from entry to exit of the blood that is at the place now.

With V the volume, Q the flow and blood that is neither stored nor stuck, the mean time from entry to exit of the blood
that passes is V/Q. Particles spread evenly over the volume, with residence times t_i, are each V/n of it, and in steady
flow that is a part (V/n)/t_i of the flow: weighted by flow, their mean is their harmonic mean n / sum(1/t_i).

Sources: Danckwerts (1953), doi:10.1016/0009-2509(53)80001-1 (ages, residence times and their mean);
Esmaily-Moghadam, Hsia and Marsden (2013), doi:10.1063/1.4819142 (residence time in blood flow).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.haemodynamics.particles import MOVING, Particles, Tracer
from solver.domain.nodes import Opening

SPREAD = np.sqrt(2) % 1
"""Step from release to release as a part of the period: irrational, and with no whole-number relation to the golden
angle by which seeds go round, so that every part of an inlet is released from at all times."""


@dataclass(frozen=True)
class Paths:
    """Curves of particles.

    Attributes
    ----------
    place : (M, 3) lattice indices, path after path in the order of time.
    time_s, speed_m_s : (M,).
    offsets : (L + 1,), first point of each path, and M.
    released_s : (L,).
    left : (L,) int8, the opening through which each left; 0: still inside when the limit was reached; LOST.
    flux : (L,), velocity through the inlet where and when it was released, m/s; 1 of particles that start elsewhere.
    """

    place: NDArray[np.float64]
    time_s: NDArray[np.float64]
    speed_m_s: NDArray[np.float64]
    offsets: NDArray[np.int64]
    released_s: NDArray[np.float64]
    left: NDArray[np.int8]
    flux: NDArray[np.float64]

    def lasted_s(self) -> NDArray[np.float64]:
        """Time from release to the end of each path, (L,)."""
        return self.time_s[self.offsets[1:] - 1] - self.released_s

    def age_s(self) -> NDArray[np.float64]:
        """Time since release at each point, (M,)."""
        return self.time_s - np.repeat(self.released_s, np.diff(self.offsets))


def releases_s(count: int, moments_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Times of release, (count,), spread evenly over moments of a period in an order without a pattern."""
    return moments_s[np.floor(np.arange(count) * SPREAD % 1 * len(moments_s)).astype(np.int64)]


class Recorder:
    """Follows particles and keeps points of their paths.

    Parameters
    ----------
    tracer : moves them.
    particles : released at times at which they are looked at.
    apart : a point is kept when the particle is this far, in spacings, from the last one that was kept,
    every_s : or so much later.
    """

    def __init__(self, tracer: Tracer, particles: Particles, apart: float, every_s: float) -> None:
        self._tracer, self._particles, self._apart, self._every_s = tracer, particles, apart, every_s
        self._released_s = particles.clock_s.copy()
        self._last = np.column_stack((np.full((len(particles.place), 3), np.inf), particles.clock_s))
        self._first_velocity = np.zeros((len(particles.place), 3))
        self._kept: list[tuple[NDArray, NDArray]] = []

    def advance(self, stops_s: NDArray[np.float64]) -> int:
        """Go on to the last of several times; the number of particles on their way is returned."""
        particles = self._particles
        rows = np.flatnonzero((self._released_s <= stops_s[-1]) & particles.on_way())
        samples = self._tracer.follow(particles, rows, stops_s)
        for sample in samples.transpose(1, 0, 2):
            self._keep(rows, sample)
        return len(rows)

    def _keep(self, rows: NDArray[np.int64], sample: NDArray[np.float64]) -> None:
        particles, last, clock = self._particles, self._last[rows], sample[:, 3]
        first = clock == self._released_s[rows]
        self._first_velocity[rows[first]] = sample[first, 4:]
        ends = clock == particles.clock_s[rows]
        ends &= (particles.state[rows] != MOVING) | (clock == particles.end_s[rows])
        far = np.linalg.norm(sample[:, :3] - last[:, :3], axis=1) >= self._apart
        keep = np.isfinite(clock) & (ends | far | (clock - last[:, 3] >= self._every_s))
        self._last[rows[keep]] = sample[keep, :4]
        self._kept.append((rows[keep], sample[keep]))

    def paths(self, inward: NDArray[np.float64] | None) -> Paths:
        """What was followed, without particles that an inlet did not let in.

        Parameters
        ----------
        inward : (P, 3), unit vectors into the vessel at the inlets of the particles; none: all have the flux 1.
        """
        flux = np.ones(len(self._released_s))
        if inward is not None:
            flux = np.einsum("ij,ij->i", self._first_velocity, inward)
        taken = flux > 0
        row, sample = (np.concatenate(parts) for parts in zip(*self._kept, strict=True))
        order = np.lexsort((sample[:, 3], row))
        order = order[taken[row[order]]]
        counts = np.bincount(row[order], minlength=len(flux))[taken]
        sample = sample[order]
        return Paths(
            sample[:, :3],
            sample[:, 3],
            np.linalg.norm(sample[:, 4:], axis=1),
            np.concatenate(([0], np.cumsum(counts))),
            self._released_s[taken],
            self._particles.state[taken],
            flux[taken],
        )


def inward_at(openings: Sequence[Opening], points_mm: NDArray[np.float64]) -> NDArray[np.float64]:
    """Unit vectors into the vessel, (P, 3), of the inlets that are nearest to points."""
    inlets = [opening for opening in openings if opening.role == "inlet"]
    away = [np.linalg.norm(points_mm - opening.centre_mm, axis=1) for opening in inlets]
    return -np.array([opening.normal for opening in inlets])[np.argmin(away, axis=0)]


@dataclass(frozen=True)
class Arrivals:
    """How particles that are spread over the volume came to an opening, backwards or forwards in time.

    Attributes
    ----------
    time_s : (P,), how long it took; the limit for those that have not arrived.
    through : (P,) int8, the opening; 0 for none.
    lost : (P,) bool, where the interpolation ended.
    stuck : (P,) bool, of those that have not arrived: held at the wall and nowhere further than a spacing from where
        they started.
    """

    time_s: NDArray[np.float64]
    through: NDArray[np.int8]
    lost: NDArray[np.bool_]
    stuck: NDArray[np.bool_]

    @staticmethod
    def of(particles: Particles, start: NDArray[np.float64], since_s: float, limit_s: float) -> "Arrivals":
        """From particles that were traced to the limit, and where and when they started.

        Parameters
        ----------
        particles : as they ended.
        start : (P, 3) lattice indices x, y, z, from which they went.
        since_s : when they started.
        limit_s : how long they were traced at most.
        """
        arrived = particles.state > MOVING
        time = np.where(arrived, np.minimum(np.abs(particles.clock_s - since_s), limit_s), limit_s)
        near = np.linalg.norm(particles.place - start, axis=1) < 1
        stuck = (particles.state == MOVING) & particles.held & near
        return Arrivals(time, np.maximum(particles.state, 0), particles.state < MOVING, stuck)


def arrivals(
    tracer: Tracer, start: NDArray[np.float64], since_s: float, until_s: float, report: Callable[[float], None]
) -> Arrivals:
    """Trace particles backwards from places, (P, 3), and one time to another.

    Parameters
    ----------
    tracer, start, since_s, until_s : what moves the particles, lattice indices, and the two times.
    report : called with the time that has been passed.
    """
    particles = Particles.at(start, np.full(len(start), since_s), until_s - since_s)
    for moment in np.linspace(since_s, until_s, 101)[1:]:
        tracer.advance(particles, float(moment))
        report(abs(float(moment) - since_s))
    return Arrivals.of(particles, start, since_s, abs(until_s - since_s))


def spread_evenly(count: int, wanted: int) -> NDArray[np.int64]:
    """Rows of at most so many of `count` nodes, spread evenly over their order."""
    wanted = min(count, wanted)
    return ((np.arange(wanted) + 0.5) * (count / wanted)).astype(np.int64)
