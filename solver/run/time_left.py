# SPDX-License-Identifier: Apache-2.0
"""How long a run will still take, from what was expected of it and from what its rows show.

Of a steady flow that settles, the residual falls exponentially in the end. With d what its logarithm still has to fall
to the tolerance, f the steps that were forecast from the ramp on, and t those since then or since the flow was
extrapolated, after which the residual falls fast again, the steps left are

    (d/r)^w l^(1 - w)        w = t^2/(t^2 + (`HALF` f)^2)

and those over which it must have settled. r is the rate of the last third of the rows of t by a line through `BATCHES`
batches, or its error where that is more. l is what the forecast leaves, at least a part `LATE` of f and at most
f d/`FALLS`: fast at first, the residual falls by `FALLS` over what the forecast takes for the slow end, so that one
which does not come down is not told to be near it. The numbers were set by 135 flows, and tried on others drawn later
(docs/validation/stability.md).

A flow that fluctuates takes the steps that its mean needs (:class:`solver.run.convergence.Watch`). Where the residual
does not fall, no more than these are expected, as a least number; some flow-through times after the ramp, or once the
flow was judged not to settle, no fewer.
"""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise, takewhile
from math import inf, log
from typing import NamedTuple

import numpy as np

from solver.run.convergence import BATCHES, LEAST_THROUGHS, RECENT, Watch, batch_means, slope
from solver.run.forecast import Forecast
from solver.run.monitor import Row
from solver.run.schedule import Schedule
from solver.runtime.progress import in_time_units, is_more

LEAST_ROWS = 5
"""Rows after the ramp before which they tell nothing."""
HALF, LATE, FALLS = 0.6, 0.25, 6.0
"""Part of the steps forecast after which what is seen and what was forecast count alike; part of them that is left at
least; and what the logarithm of the residual falls by in the slow end of a run: see the module."""
CORNER_LOOPS = 2.3
"""Time to compile loops of 27 velocities with cumulants over that of 19: 28 s against 12 beside other programs."""


class Fall(NamedTuple):
    """How the residual falls.

    Attributes
    ----------
    above : its logarithm now, over that of the tolerance.
    rate, error : by which the logarithm falls a step, and the standard error of this.
    """

    above: float
    rate: float
    error: float

    @property
    def is_sure(self) -> bool:
        """Whether it falls by more than its scatter."""
        return self.rate > self.error


def falling(rows: Sequence[Row], raised: float, tolerance: float, part: int) -> Fall | None:
    """How the residual falls over the last of so many parts of the rows after the ramp; none if these are few.

    Parameters
    ----------
    rows : so far, evenly spaced.
    raised : steps over which the flow is raised; 0 of one that began with another flow.
    tolerance : of the residual.
    part : 2 for the later half.
    """
    after = [row for row in rows if row.step > raised and np.isfinite(row.residual)]
    recent = after[-max(len(after) // part, LEAST_ROWS) :]
    if len(recent) < LEAST_ROWS:
        return None
    batches = BATCHES if len(recent) >= 2 * BATCHES else len(recent)
    residual = batch_means(np.log([max(row.residual, 1e-30) for row in recent]), batches)
    length = (recent[1].step - recent[0].step) * (len(recent) // batches)
    rise, error = slope(residual)
    now = float(residual.mean()) + rise * batches / 2  # the middle of the last batch is half of one ago
    return Fall(now - log(tolerance), -rise / length, error / length)


def by_residual(rows: Sequence[Row], raised: float, tolerance: float) -> float:
    """Steps until the residual has fallen to the tolerance by a line through the later half of the rows; infinite where
    it does not fall by more than the scatter of its batches.

    Parameters
    ----------
    rows, raised, tolerance : as of :func:`falling`.
    """
    fall = falling(rows, raised, tolerance, 2)
    return max(0.0, fall.above / fall.rate) if fall and fall.is_sure else inf


def settling(
    rows: Sequence[Row], expected: float, raised: float, tolerance: float, changed: float = 0.0, quiet: int = 1
) -> float:
    """Steps until a steady flow will have settled: see the module.

    Parameters
    ----------
    rows, raised, tolerance : as of :func:`falling`.
    expected : steps of the whole run, as they were forecast.
    changed : step after which the flow was changed last; 0 of one that was not.
    quiet : rows over which it must have settled.
    """
    now, interval = rows[-1].step, rows[0].step
    settled = sum(1 for _ in takewhile(lambda row: row.residual < tolerance, reversed(rows[-quiet:])))
    ends = (quiet - settled - 0.5) * interval  # at a row, which may be any up to the next
    fall = falling(rows, max(raised, changed), tolerance, 3)
    if fall is None:
        return max(expected - now, ends, float(interval))
    if fall.above <= 0 or settled:
        return max(ends, interval / 2)
    whole = max(expected - raised, float(interval))
    weight = 1 / (1 + (HALF * whole / (now - max(raised, changed))) ** 2)
    by_forecast = min(max(expected - now, LATE * whole), whole * fall.above / FALLS)
    by_rows = fall.above / max(fall.rate, fall.error, 1e-30)
    return float(by_rows**weight * by_forecast ** (1 - weight)) + ends


# many parameters because each is another fact of the run
def steps_left(
    step: int,
    rows: Sequence[Row],
    schedule: Schedule,
    watch: Watch,
    expected: float,
    tolerance: float,
    raised: float,
) -> tuple[str, float]:
    """How sure the steps left are, ``about``, ``at least`` or ``at most``, and these steps.

    Parameters
    ----------
    step : that the run has come to.
    rows : of its monitor.
    schedule : of the run.
    watch : what a steady run's rows say of whether it settles.
    expected : steps of the whole run, as they were forecast.
    tolerance : of the residual of a steady flow.
    raised : steps over which it is raised; 0 of one that began with another flow.
    """
    most, of_forecast, words = float(schedule.last - step), expected - step, "about"
    if schedule.varies:
        left = most
    elif schedule.cycle:
        left = of_forecast if of_forecast > 0 else schedule.cycle - step % schedule.cycle
    elif watch.begun is not None:
        left = watch.steps_left(rows)
        words = (
            "about" if 2 * len(watch.averaged(rows)) * watch.interval > LEAST_THROUGHS * watch.through else "at least"
        )
    else:
        least, late = watch.least_steps_left(rows), step - watch.ramp > RECENT / 2 * watch.through
        changed = watch.last_change(step)
        left = settling(rows, expected, raised, tolerance, changed, schedule.quiet)
        fall = falling(rows, max(raised, changed), tolerance, 2)
        falls = fall is None or fall.is_sure
        if watch.outcome != "settles" or (late and not falls):
            left, words = max(of_forecast, least), "at least"
        elif not falls:
            left, words = min(left, max(of_forecast, least)), "at least"
    return (words, left) if left <= most else ("at most", most)


class Later(NamedTuple):
    """What a stage does after a run, expected.

    Attributes
    ----------
    steps_s : time of the steps of a lattice that begins with the run's flow.
    loops : time to compile what they need, over that of what this run needs.
    """

    steps_s: float
    loops: float


NOTHING_LATER = Later(0.0, 0.0)


class TimeLeft:
    """The time left as a run says it: by what its steps take here, and with what comes after it.

    The first steps compile, so that they tell nothing of the others, but of what is compiled later. Of those after the
    second mark the later half counts, without the longest of its stretches: what corrects a flow is compiled, too, and
    what is compiled ahead takes its share of the machine.

    Parameters
    ----------
    later : what the stage does after the run.

    Attributes
    ----------
    compiled_s : time of compilation, of this run or of one that it began with.
    """

    def __init__(self, later: Later = NOTHING_LATER) -> None:
        self.later, self.compiled_s = later, 0.0
        self._first: tuple[int, float] | None = None
        self._marks: deque[tuple[int, float]] = deque()
        self._second = 0
        self._before: Said | None = None

    def mark(self, step: int, seconds: float) -> None:
        """Take in the seconds at which a run came to a step."""
        if self._first is None:
            self._first = step, seconds
            return
        self._second = self._second or step
        self._marks.append((step, seconds))
        while len(self._marks) > 2 and self._marks[1][0] <= (self._second + step) / 2:
            self._marks.popleft()

    def step_s(self, forecast: Forecast) -> float:
        """Time of a step, s."""
        if len(self._marks) < 2:
            return forecast.step_s
        stretches = [(end - begin, last - first) for (first, begin), (last, end) in pairwise(self._marks)]
        if len(stretches) > 2:
            stretches.remove(max(stretches, key=lambda stretch: stretch[0] / stretch[1]))
        return sum(seconds for seconds, _ in stretches) / sum(steps for _, steps in stretches)

    def seconds(self, steps: float, forecast: Forecast) -> float:
        """Time of so many steps that are left and of what comes later, s. Its steps are those of the forecast: a small
        lattice tells nothing of them.
        """
        step_s = self.step_s(forecast)
        if self._first and self.later.loops:
            step, took_s = self._first
            self.compiled_s = max(self.compiled_s, took_s - step * step_s)
        return steps * step_s + self.later.steps_s + self.later.loops * self.compiled_s

    def said(self, words: str, steps: float, forecast: Forecast) -> str:
        """The time left in words, with the reason where it is more than was said last.

        Parameters
        ----------
        words, steps : of :func:`steps_left`.
        forecast : of the run.
        """
        now, before = Said(steps, self.step_s(forecast), self.seconds(steps, forecast)), self._before
        self._before = now
        return f"{words} {in_time_units(now.left_s)} left{_why_longer(before, now) if before else ''}"


class Said(NamedTuple):
    """What was said of the time left.

    Attributes
    ----------
    steps, step_s : left, and the time of one.
    left_s : of the stage.
    """

    steps: float
    step_s: float
    left_s: float


def _why_longer(before: Said, now: Said) -> str:
    """Why more is left than was said before; empty where it is not more by what one notices."""
    if not is_more(before.left_s, now.left_s):
        return ""
    by_steps, by_speed = (now.steps - before.steps) * now.step_s, before.steps * (now.step_s - before.step_s)
    if by_steps >= by_speed:
        return ", more than before, since the flow needs more steps than it seemed to"
    return f", more than before, since a step takes {now.step_s:.2g} s in place of {before.step_s:.2g} s"
