# SPDX-License-Identifier: Apache-2.0
"""Settling: whether a steady run comes to rest, and what it does where it does not, from the rows of its monitor alone.

A flow-through time T is the volume over the inflow; of a closed domain it is the time in which its fluid crosses it.
The rows of the last `RECENT` flow-through times are cut into `BATCHES` of the same length, so long that their means are
nearly independent (batch means, Schmeiser 1982, doi:10.1287/opre.30.3.556). With m_j the means of a signal and s their
standard deviation, s/sqrt(n) is the standard error of its mean over n batches. Then the flow

    settles      if the log of the residual falls from batch to batch, by its slope more than `CERTAIN` standard errors
                 of it, and so fast that the tolerance is reached within `FAR` batches,
    grows        if it rises in the same way,
    drifts       if the means of a signal over the two halves of the time differ by more than `CERTAIN` standard errors
                 and more than a part `SMALL` of its root mean square fluctuation; unless that is less than what
                 means are wanted to, and than the same part of the largest fluctuation of a signal,
    fluctuates   if it does none of these: it is statistically stationary, as a limit cycle is.

Signals are the kinetic energy, mean and largest speed, and pressures and flows at the openings. A flow that fluctuates
is run on, while its mean is taken, until the standard errors of the means of all signals are below a bound, or up to a
stated time. What was judged is judged again over that time: a flow that settles after all, or drifts by more than the
bound, begins again, the latter over twice the time as long as there is so much. Where there is not, the mean is taken
with its drift: half of the difference of its halves is the standard error by two batches, and counts as one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, inf, log

import numpy as np
from numpy.typing import NDArray

from solver.run.monitor import Monitor, Row
from solver.run.schedule import Schedule

Reals = NDArray[np.float64]

BATCHES = 8
"""Batches in which rows are compared: few, so that each is long, and enough for a standard error within a quarter."""
RECENT = 4.0
"""Flow-through times that are looked back on."""
LEAST_ROWS = 4
"""Rows of a batch, at least."""
CERTAIN = 3.0
"""Standard errors beyond which a difference counts: with 6 degrees of freedom 1 of 40 is by chance."""
SMALL = 0.25
"""Part of its fluctuation by which a mean may differ from one half of the time to the other."""
LARGE = 2.3
"""Change of the log of the residual since a mean was begun, a factor of 10, at which it is given up at once."""
FAR = 1000
"""Batches in which a flow that settles must come to rest."""
LEAST_THROUGHS = 10.0
"""Flow-through times over which the mean of a flow that fluctuates is taken at least. Over 4 a flow that grows slowly
would end before it has grown, and standard errors are too small where it remembers more than one."""
BALANCE = 1e-3
"""Part of the inflow by which the outflow of a steady flow may differ."""
MARGIN = 1.5
"""Of the steps after which a flow is expected to have settled, those that are advised: that is how far the forecast may
be off, and a limit that is too high costs nothing, since a run ends once it has settled. Of 19 flows of the stability
matrix that want more than 20,000 steps 17 have settled by then; by 1.2 times as many 13 had."""

NAMES = {"kinetic_energy_j": "kinetic energy", "mean_speed_m_s": "mean speed", "max_speed_m_s": "largest speed"}
"""Signals that have a mean of their own, by their name in a row."""


def signals(rows: Sequence[Row]) -> dict[str, Reals]:
    """What is watched, by name, (rows, columns), each in parts of its own scale.

    Energy and speeds over their means; pressures at openings over the largest difference of their means; flows over
    the largest of them.
    """
    pressure = np.array([row.pressure_pa for row in rows])
    flow = np.array([row.flow_ml_s for row in rows])
    drop = float(np.ptp(pressure.mean(axis=0))) if pressure.size else 0.0
    largest = float(np.abs(flow.mean(axis=0)).max()) if flow.size else 0.0
    each = {name: np.array([getattr(row, name) for row in rows])[:, None] for name in NAMES}
    found = {NAMES[name]: values / max(float(values.mean()), 1e-300) for name, values in each.items()}
    if drop:
        found["pressures"] = (pressure - pressure.mean(axis=1, keepdims=True)) / drop
    if largest:
        found["flows"] = flow / largest
    return found


def batch_means(values: Reals, batches: int = BATCHES) -> Reals:
    """Means of the last rows in batches of the same length, (batches, ...)."""
    length = len(values) // batches
    kept = values[len(values) - length * batches :]
    return np.asarray(kept.reshape(batches, length, *values.shape[1:]).mean(axis=1))


def batch_error(values: Reals, batches: int) -> Reals:
    """Standard error of the means over the rows, by so many batch means, (columns,)."""
    return np.asarray(batch_means(values, batches).std(axis=0, ddof=1) / np.sqrt(batches))


def standard_error(values: Reals) -> float:
    """Of the mean over the rows; of several columns the largest. It is the largest of several numbers of batches: where
    one has about the length of a period, its means differ by less than they may be wrong. Two are the halves, which
    differ where the mean drifts.
    """
    return float(max(batch_error(values, batches).max() for batches in (2, *range(BATCHES // 2 + 1, BATCHES + 1))))


def slope(values: Reals) -> tuple[float, float]:
    """Slope of numbers over their index, and its standard error."""
    index = np.arange(len(values)) - (len(values) - 1) / 2
    spread = float(index @ index)
    rise = float(index @ values) / spread
    left = values - values.mean() - rise * index
    return rise, float(np.sqrt(left @ left / (len(values) - 2) / spread))


def drifting(rows: Sequence[Row], bound: float) -> bool:
    """Whether the mean of a signal differs from one half of the rows to the other: see the module."""
    found = signals(rows)
    little = min(bound, SMALL * max(float(values.std(axis=0).max()) for values in found.values()))
    for values in found.values():
        means = batch_means(values)
        first, second = means[: BATCHES // 2], means[BATCHES // 2 :]
        apart = np.abs(second.mean(axis=0) - first.mean(axis=0))
        error = np.sqrt((first.var(axis=0, ddof=1) + second.var(axis=0, ddof=1)) / (BATCHES // 2))
        if ((apart > CERTAIN * error) & (apart > SMALL * values.std(axis=0)) & (apart > little)).any():
            return True
    return False


def trend(rows: Sequence[Row]) -> tuple[Reals, float, float]:
    """Log of the residual in batches, its slope from batch to batch, and the standard error of this."""
    residual = batch_means(np.log([max(row.residual, 1e-30) for row in rows]))
    return residual, *slope(residual)


def judged(rows: Sequence[Row], tolerance: float, bound: float, far: float = FAR) -> str:
    """``settles``, ``grows``, ``drifts`` or ``fluctuates``: see the module.

    Parameters
    ----------
    rows : of the monitor, evenly spaced, at least one for each batch.
    tolerance : of the residual.
    bound : part to which means are wanted.
    far : batches in which a flow that settles must come to rest.
    """
    residual, rise, error = trend(rows)
    if rise < -CERTAIN * error and residual[-1] > log(tolerance) and (residual[-1] - log(tolerance)) / -rise < far:
        return "settles"
    if rise > CERTAIN * error and rise > 1 / far:
        return "grows"
    return "drifts" if drifting(rows, bound) else "fluctuates"


def steps_of_mean(ramp: float, through: float) -> float:
    """Steps until a flow is seen to fluctuate and its mean may be good enough, from those of the ramp and of T."""
    return ramp + (RECENT + LEAST_THROUGHS) * through


def is_steady(rows: Sequence[Row], quiet: int, raised_s: float, tolerance: float) -> bool:
    """Little change, little change over a viscous time, and as much flowing out as in, once the ramp is over.

    Parameters
    ----------
    rows : of the monitor.
    quiet : number of rows, the last ones, that must be so.
    raised_s : time from which on the flow is what it was asked for.
    tolerance : of the change and of the residual.
    """
    last = rows[-quiet:]
    raised = last[0].time_s >= raised_s and len(rows) > max(1, quiet - 1)
    return raised and all(
        row.change < tolerance and row.residual < tolerance and abs(row.balance) < BALANCE for row in last
    )


def is_periodic(monitor: Monitor, schedule: Schedule, step: int, raised_s: float, tolerance: float) -> bool:
    """Whether a cycle is over, as many as asked for, that differs little from the one before and from those to come.

    Parameters
    ----------
    monitor : of the run.
    schedule : of the run.
    step : that it has come to.
    raised_s : time from which on the flow is what it was asked for; the last cycle begins no sooner.
    tolerance : of the difference, relative.
    """
    cycle, within = schedule.place(step)
    period_s = monitor.plan.period_s or 0.0
    if within != schedule.cycle or cycle < schedule.least_cycles or raised_s > (cycle - 1) * period_s:
        return False
    found = monitor.from_repeating()
    return found is not None and max(found.values()) <= tolerance


@dataclass
class Watch:
    """Watches a steady run, a row at a time: what it decides depends on the rows alone, so that a run that goes on from
    a checkpoint decides the same.

    Attributes
    ----------
    interval : steps between two rows.
    through : steps of a flow-through time.
    ramp : steps over which the flow is raised.
    tolerance : of the residual.
    bound : standard error of the means of the signals below which they are good enough.
    most : flow-through times after which a flow that fluctuates ends with the mean that it has.
    outcome : the last judgement.
    begun : step after which the mean of a flow that fluctuates begins; none of one that may settle.
    changed : steps after which the flow was changed: what was before tells nothing of what it does since.
    """

    interval: int
    through: float
    ramp: float
    tolerance: float
    bound: float
    most: float
    outcome: str = "settles"
    begun: int | None = None
    changed: list[int] = field(default_factory=list)
    _first: int | None = field(default=None, repr=False)
    """Step after which the flow was first seen to fluctuate."""
    _restarts: int = field(default=0, repr=False)
    """How often a mean was given up, since the flow did not stay as it was: the next one is twice as long."""

    @property
    def batch(self) -> int:
        """Rows of a batch while nothing is averaged, after each of which the flow is judged."""
        return max(LEAST_ROWS, ceil(RECENT * self.through / BATCHES / self.interval))

    @property
    def unsteady_steps(self) -> float:
        """Steps of a whole run until a flow is seen to fluctuate and its mean may be good enough."""
        return steps_of_mean(self.ramp, max(self.through, BATCHES * self.batch * self.interval / RECENT))

    def update(self, rows: Sequence[Row]) -> bool:
        """Take in the newest of all rows so far; whether the mean of a flow that fluctuates is good enough to end."""
        since_ramp = rows[-1].step - self._free(rows[-1].step)
        if since_ramp < 0 or len(rows) % self.batch:
            return False
        if self.begun is None:
            count = BATCHES * self.batch
            if since_ramp < count * self.interval:
                return False
            self.outcome = judged(rows[-count:], self.tolerance, self.bound)
            if self.outcome == "fluctuates":
                self.begun = rows[-1].step
                self._first = self._first or self.begun
            return False
        return self._averaged(rows)

    def _averaged(self, rows: Sequence[Row]) -> bool:
        """Judge a mean that was begun: whether it may end; one that drifts begins again while there is time for it."""
        assert self.begun is not None
        assert self._first is not None
        wanted, own = self._wanted, self.averaged(rows)
        if len(own) >= BATCHES * self.batch:
            residual, rise, error = trend(own)
            if abs(rise) > CERTAIN * error and abs(residual[-1] - residual[0]) > LARGE:
                self.outcome, self.begun, self._first = "settles" if rise < 0 else "grows", None, None
                return False
        span = len(own) * self.interval / self.through
        if span < wanted or len(own) < BATCHES * self.batch:
            return False
        self.outcome, since = self._judged(own), (rows[-1].step - self._first) / self.through
        if self.outcome in ("settles", "grows"):
            self.begun, self._restarts = None, self._restarts + 1
        elif since >= self.most or self.error(own) < self.bound:
            return True
        elif self.outcome == "drifts" and since + 2 * wanted <= self.most:
            self.begun, self._restarts = rows[-1].step, self._restarts + 1
        return False

    def last_change(self, step: int) -> int:
        """Step after which the flow was changed last, up to this one; 0 if it was not."""
        return max((each for each in self.changed if each <= step), default=0)

    def _free(self, step: int) -> float:
        """Step from which on the flow is left to itself, up to this one."""
        return max(self.ramp, self.last_change(step))

    @property
    def _wanted(self) -> float:
        """Flow-through times of a mean, at least: twice as many each time, as far as there is time."""
        late = ((self.begun or 0) - self._first) / self.through if self._first is not None else 0.0
        return min(LEAST_THROUGHS * 2**self._restarts, max(LEAST_THROUGHS, self.most - late))

    def _judged(self, own: Sequence[Row]) -> str:
        """What a flow does over the rows of its mean; how far it may settle is counted in batches as before it."""
        return judged(own, self.tolerance, self.bound, FAR * BATCHES * self.batch / len(own))

    def averaged(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Those of all rows so far over which the mean is taken."""
        return rows[len(rows) - (rows[-1].step - self.begun) // self.interval :] if self.begun is not None else []

    def tells(self, rows: Sequence[Row]) -> str:
        """What the flow does over rows that are long enough for a mean that can be told; else that it ``settles``."""
        if len(rows) * self.interval < RECENT * self.through or len(rows) < BATCHES * LEAST_ROWS:
            return "settles"
        return self._judged(rows)

    def replay(self, rows: Sequence[Row]) -> bool:
        """Take in all rows of a run that goes on, as if one after another."""
        ended = False
        for count in range(1, len(rows) + 1):
            ended = self.update(rows[:count])
        return ended

    def error(self, rows: Sequence[Row]) -> float:
        """Largest standard error of a mean over rows."""
        return max(map(standard_error, signals(rows).values()))

    def least_steps_left(self, rows: Sequence[Row]) -> float:
        """Steps until a mean is as long as is wanted at least, if the flow fluctuates from now on."""
        count = self._wanted * self.through - len(self.averaged(rows)) * self.interval
        if self.begun is not None:
            return count
        seen = self._free(rows[-1].step) + BATCHES * self.batch * self.interval
        return count + max(seen - rows[-1].step, self.batch * self.interval)

    def steps_left(self, rows: Sequence[Row]) -> float:
        """Steps until the mean is good enough, if its error falls with the root of the time; infinite before it is
        begun. Half of its least time tells that error.
        """
        if self.begun is None:
            return inf
        own = self.averaged(rows)
        done, least = len(own) * self.interval, self._wanted * self.through
        wanted = max(least, done * (self.error(own) / self.bound) ** 2) if done > least / 2 else least
        begun, first = rows[-1].step - done, self._first or 0
        return max(0.0, min(wanted, max(least, self.most * self.through - (begun - first))) - done)
