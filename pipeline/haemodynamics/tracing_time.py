# SPDX-License-Identifier: Apache-2.0
"""How long tracing particles still takes, by what it has taken and how particles leave.

Work follows the number of particles on their way. Of those spread over a vessel a part ``1/t`` is left after a time
``t`` of some transits, where the profile is a parabola: the slow ones beside the wall. With a pulse, and where vessels
are curved, they leave sooner. So the work of a moment is taken to fall with t^-``FALL`` from half a transit after the
last release on, and to be even before.
"""

import time
from dataclasses import dataclass, field

from pipeline.haemodynamics.particles import Tracer
from pipeline.haemodynamics.residence import Clock

FALL = 1.5
"""Exponent of the fall."""
WINDOW = 0.6
"""Part of the age at which the work begins by which the rest is judged."""
PICTURE_S, FIRST_PICTURES = 0.12, 16
"""Time of a picture of the animation on a CPU, and how many more it takes until the first is kept."""


@dataclass
class Rest:
    """What is left of the work on particles that are released and then leave.

    Attributes
    ----------
    released_s : time of the flow from the first release to the last.
    transit_s : mean time from entry to exit.
    end_s : time from the first release to the end.
    """

    released_s: float
    transit_s: float
    end_s: float
    _marks: list[tuple[float, float]] = field(default_factory=list)
    _began_with: float | None = None

    def mark(self, passed_s: float, spent_s: float) -> None:
        """Take in the seconds spent up to a time of the flow; the first ones compile and are left out."""
        self._marks.append((passed_s, spent_s))
        if len(self._marks) == 2:
            self._began_with = self._even_rate()

    def left_s(self) -> float | None:
        """Seconds of work that are left; none before anything is known."""
        if (rate := self._even_rate()) is None:
            return None
        now = self._marks[-1][0]
        return rate * (max(self.released_s - now, 0.0) + self._weight(now) - self._weight(self.end_s))

    def whole_s(self) -> float | None:
        """Seconds of work from the first release to the end, compilation left out."""
        left_s = self.left_s()
        if left_s is None or self._began_with is None:
            return None
        (first, first_s), (_, now_s) = self._marks[0], self._marks[-1]
        return self._began_with * first + now_s - first_s + left_s

    def _even_rate(self) -> float | None:
        """Seconds of work for a second of the flow as long as that is even."""
        if len(self._marks) < 2:
            return None
        now, spent_s = self._marks[-1]
        since, before_s = next(
            (mark for mark in reversed(self._marks[:-1]) if self._age(mark[0]) <= WINDOW * self._age(now)),
            self._marks[0],
        )
        even = max(min(now, self.released_s) - since, 0.0)
        return (spent_s - before_s) / (even + self._weight(since) - self._weight(now))

    def _age(self, passed_s: float) -> float:
        return max(passed_s - self.released_s, 0.0) + self.transit_s / 2

    def _weight(self, passed_s: float) -> float:
        """Work from a time on, over that of a second while it is even: the integral of the fall to infinity."""
        half = self.transit_s / 2
        return half / (FALL - 1) * (self._age(passed_s) / half) ** (1 - FALL)


class TracingTime:
    """Time left of the stage: particles forwards, then those of the volume backwards, then pictures.

    Parameters
    ----------
    tracer : that moves them.
    clock : times of the tracing.
    snapshot_s : time of the flow between snapshots of a periodic one; none of a steady one.
    backwards : work backwards over that forwards, about.
    frames : pictures.
    """

    def __init__(self, tracer: Tracer, clock: Clock, snapshot_s: float | None, backwards: float, frames: int) -> None:
        self._tracer, self._snapshot_s, self._backwards = tracer, snapshot_s, backwards
        released_s = clock.unit_s if snapshot_s else 0.0
        self._forwards = Rest(released_s, clock.transit_s, released_s + clock.limit_s)
        self._back = Rest(0.0, clock.transit_s, clock.limit_s)
        self._pictures_s = PICTURE_S * (frames + FIRST_PICTURES)
        self._began = time.monotonic()

    def forwards(self, passed_s: float) -> float | None:
        """Seconds left once particles forwards have passed so much time of the flow; none before that is known."""
        self._forwards.mark(passed_s, self._spent_s())
        left_s, whole_s = self._forwards.left_s(), self._forwards.whole_s()
        if left_s is None or whole_s is None:
            return None
        to_read_s = self._forwards.end_s - passed_s + self._back.end_s
        return left_s + self._backwards * whole_s + self._reads_s(to_read_s) + self._pictures_s

    def backwards(self, passed_s: float) -> float | None:
        """The same once those backwards have."""
        self._back.mark(passed_s, self._spent_s())
        if (left_s := self._back.left_s()) is None:
            return None
        return left_s + self._reads_s(self._back.end_s - passed_s) + self._pictures_s

    def _spent_s(self) -> float:
        """Seconds since the beginning, but for what snapshots took."""
        return time.monotonic() - self._began - self._tracer.read_s

    def _reads_s(self, passing_s: float) -> float:
        """Time that snapshots take while so much time of the flow passes."""
        if not self._snapshot_s or not self._tracer.reads:
            return 0.0
        return self._tracer.reads_among(passing_s / self._snapshot_s) * self._tracer.read_s / self._tracer.reads
