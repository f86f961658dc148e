# SPDX-License-Identifier: Apache-2.0
"""How long a run will still take, from what was expected of it and from what its rows show.

Of a steady flow that settles, the residual falls exponentially in the end. A line through the logarithm of the last
half of the residuals, in `BATCHES` batches, says when it will have fallen to the tolerance; the scatter of the batches,
and how far the line must go on, say how sure that is. The forecast made before the run is as sure as a part `DOUBT` of
it, and less once it is overrun. The steps left are the mean of both, each weighted by the inverse square of its error,
so that the forecast gives way to what is seen.

A flow that began with another one, such as that of a coarse lattice, is not raised, and its residual falls fast at
first, as what that lattice is off by near the walls dies away before what is left of the whole vessel. There the rate
is the mean of two in their logarithms: of the last third of the rows, and the one that the forecast stands for, from
the residual at the second row (the first one shows how the flow was interpolated) to the tolerance in the steps
forecast. What was seen weighs as the part of this fall that is done, the forecast as `STANDS`: with 0.3 to 0.8 it is
within 0.7 to 1.3 at a fifth of 28 to 31 of the 36 flows by which that was set, and with 0.6 of 38 of 45 drawn later
(benchmarks/steps_left.py). A forecast that is overrun weighs less, and by `MARGIN` times nothing.

A flow that fluctuates takes the steps that its mean needs (:class:`solver.run.convergence.Watch`). Where the residual
does not fall some flow-through times after the ramp, or the forecast is used up, or the flow was judged not to settle,
the steps of such a mean are the least that it will take.
"""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from math import inf, log, log1p
from typing import NamedTuple

import numpy as np

from solver.run.convergence import BATCHES, LEAST_THROUGHS, MARGIN, RECENT, Watch, batch_means, slope
from solver.run.forecast import Forecast
from solver.run.monitor import Row
from solver.run.schedule import Schedule
from solver.runtime.progress import in_time_units, is_more

DOUBT = 0.4
"""Error of the forecast as a part of it; of the line through the residual where it goes on as far as it was seen.
It grows with the log of how much farther it goes: what is left settles no faster than what was seen."""
LEAST_ROWS = 5
"""Rows after the ramp before which they tell nothing."""
STANDS, FEWEST = 0.6, 4
"""Part of the fall of the residual that, once it is seen, tells as much of its rate as the forecast does; and rows from
which a rate is taken."""
CORNER_LOOPS = 2.3
"""Time to compile loops of 27 velocities with cumulants over that of 19: 28 s against 12 beside other programs."""


def by_residual(rows: Sequence[Row], ramp: float, tolerance: float) -> tuple[float, float]:
    """Steps until the residual has fallen to the tolerance, and their error; both infinite where it does not fall by
    more than the scatter of its batches.

    Parameters
    ----------
    rows : so far, evenly spaced.
    ramp : steps over which the flow is raised.
    tolerance : of the residual.
    """
    recent = rows[-max(len(rows) // 2, 2 * LEAST_ROWS) :]
    after = [row for row in recent if row.step > ramp and np.isfinite(row.residual)]
    if len(after) < LEAST_ROWS:
        return inf, inf
    batches = BATCHES if len(after) >= 2 * BATCHES else len(after)
    residual = batch_means(np.log([max(row.residual, 1e-30) for row in after]), batches)
    length = (after[1].step - after[0].step) * (len(after) // batches)
    rise, error = slope(residual)
    if rise >= -error:
        return inf, inf
    now = float(residual.mean()) + rise * batches / 2  # the middle of the last batch is half of one ago
    left = max(0.0, (now - log(tolerance)) / -rise) * length
    beyond = left / (length * batches)  # what is still to fall over what was seen falling
    return left, left * (DOUBT * log1p(beyond) + error / -rise) + length


def settling(rows: Sequence[Row], expected: float, ramp: float, tolerance: float) -> float:
    """Steps until a steady flow will have settled; infinite where neither the forecast nor the residual says.

    Parameters
    ----------
    rows, ramp, tolerance : as of :func:`by_residual`.
    expected : steps of the whole run, as they were forecast.
    """
    now = rows[-1].step
    left, error = by_residual(rows, ramp, tolerance)
    of_forecast = expected - now
    if sum(row.step > ramp for row in rows[-LEAST_ROWS:]) < LEAST_ROWS:
        return max(of_forecast, float(rows[0].step))
    if not np.isfinite(left):
        return of_forecast if of_forecast > 0 else inf
    overrun = max(0.0, -of_forecast)
    weights = np.array((1 / (DOUBT * expected + overrun / DOUBT) ** 2, 1 / error**2))
    # A forecast that is overrun says nothing of the end but that it was too short: as much again, and never none.
    return float(max(weights @ (abs(of_forecast), left) / weights.sum(), ramp - now))


def settling_from_flow(rows: Sequence[Row], expected: float, tolerance: float) -> float:
    """Steps until a steady flow that began with another one will have settled; infinite where neither the forecast nor
    the residual says.

    Parameters
    ----------
    rows : so far, evenly spaced.
    expected, tolerance : as of :func:`settling`.
    """
    interval, of_forecast, end = rows[0].step, expected - rows[-1].step, log(tolerance)
    residual = np.log([max(row.residual, 1e-30) for row in rows])
    if len(rows) < FEWEST or residual[1] <= end:
        return max(of_forecast, float(interval))
    recent = residual[-max(len(rows) // 3, FEWEST) :]
    rise, error = slope(recent)
    if rise >= -error and of_forecast <= 0:
        return inf
    last, whole = float(recent.mean()) + rise * (len(recent) - 1) / 2, residual[1] - end
    done = min(max((residual[1] - last) / whole, 0.0), 1.0)
    overrun = rows[-1].step / expected
    stands = STANDS * min(max((MARGIN - overrun) / (MARGIN - 1), 0.0), 1.0)
    seen = done / (done + stands) if rise < -error else 0.0
    rate = np.exp(seen * log(max(-rise, 1e-30) / interval) + (1 - seen) * log(whole / expected))
    return float(max(0.0, (last - end) / rate) + interval / 2)  # it ends at a row


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
        left = settling(rows, expected, raised, tolerance) if raised else settling_from_flow(rows, expected, tolerance)
        if watch.outcome != "settles" or (late and not np.isfinite(by_residual(rows, raised, tolerance)[0])):
            left, words = max(of_forecast, least), "at least"
        elif not np.isfinite(left):
            left, words = least, "at least"
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
