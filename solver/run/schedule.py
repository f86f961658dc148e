# SPDX-License-Identifier: Apache-2.0
"""Schedule of a run: the steps at which it is observed, averaged, written and may stop. All of them are even."""

from dataclasses import dataclass, replace
from math import ceil, inf

import numpy as np
from numpy.typing import NDArray

from solver.run.settings import SolveSettings
from solver.run.units import ROWS_PER_CYCLE
from solver.runtime.errors import StageError

CHECK_STEPS = 50
"""Steps between two checks for a flow that diverges, where no row of the monitor comes before. What a check observed
is taken in after the steps up to the next one, so that such a flow is stopped within twice as many."""
SAMPLES = 100
"""States that a mean over a cycle is made of, at least: evenly spaced, they give the mean of a periodic flow exactly up
to its harmonic SAMPLES - 1. Rows of the monitor while what drives a steady run crosses the domain, at most."""
VISCOUS_ROWS, MOST_COUNTED, LEAST_COUNTED, LEAST_INTERVAL = 100, 1000, 10, 100
"""In a viscous time of a steady run: rows of the monitor, at least; those at which the velocity is compared, at most,
and at least where its change is round-off or fluctuates; and steps between two rows, at least."""

SHORT = 3.0
"""Times the cycles that a run may have, of those after which the longest wave has died away, beyond which too few are
told of: flows repeat in about a third of them, 12 of 13 that were told of within a factor of 2. Of 19 flows that settle
(seeds 20269010 and 20269012 of benchmarks/slow_cycles.py) one is told so and repeats in six cycles, and two are not and
do not; with 1 it would be three and none, with 5 none and four."""
MOST_STEPS = 1e9
"""Steps of any run that no setting ends."""


@dataclass(frozen=True)
class Schedule:
    """Steps of a run.

    Attributes
    ----------
    interval : between two rows of the monitor.
    sample : between two states of the mean over time.
    counted, most_counted : between two states whose velocities are compared, of a steady flow, at least and at most.
    quiet : rows over which a steady flow must have settled for the run to end.
    last : at which the run ends at the latest.
    cycle : of a period; none if the flow is steady.
    cycles, least_cycles : periods that are run at most and at least.
    first_kept : the first cycle, from 1, that is kept in snapshots and means, unless another follows.
    averaged : whether the driver keeps means of the snapshots' phases over the cycles from the first that is kept on.
    varies : whether all cycles from that one on are averaged because the flow only varies from cycle to cycle.
    expected_cycles : until the longest wave is expected to have died away.
    snapshots : within a cycle, ascending, at which one is taken.
    compared : within a cycle, at which its velocity is compared with that of the cycle before.
    """

    interval: int
    sample: int
    last: int
    counted: int = 1
    most_counted: int = 1
    quiet: int = 1
    cycle: int | None = None
    cycles: int = 1
    least_cycles: int = 1
    first_kept: int = 1
    averaged: bool = False
    varies: bool = False
    expected_cycles: int = 0
    snapshots: tuple[int, ...] = ()
    compared: int = 0

    @property
    def short(self) -> bool:
        """Whether far fewer periods are run than are expected until the flow repeats."""
        return self.expected_cycles > SHORT * self.cycles

    def later(self, cycles: int) -> "Schedule":
        """The same with so many periods more before those that count."""
        assert self.cycle is not None
        return replace(
            self,
            last=self.last + cycles * self.cycle,
            cycles=self.cycles + cycles,
            least_cycles=self.least_cycles + cycles,
            first_kept=self.first_kept + cycles,
        )

    def averaging(self, after: int, cycles: int) -> "Schedule":
        """The same, which ends with so many cycles that are averaged, after one where a flow is known to vary only."""
        assert self.cycle is not None
        last = after + cycles
        return replace(self, last=last * self.cycle, cycles=last, least_cycles=last, first_kept=after + 1, varies=True)

    @property
    def end(self) -> NDArray[np.int64]:
        """What of a steady run's rows and mean hangs on where it ends at the latest; nothing of a periodic one's."""
        return np.array([] if self.cycle else [self.interval, self.sample, self.last], np.int64)

    def next_stop(self, step: int) -> int:
        """The next step at which something is due."""
        stops = [(step // every + 1) * every for every in (self.interval, self.sample)]
        since = step % self.interval
        stops.append(step - since + (since // CHECK_STEPS + 1) * CHECK_STEPS)
        if self.cycle:
            done = step // self.cycle * self.cycle
            stops += [done + each for each in (*self.snapshots, self.compared, self.cycle) if done + each > step]
        return min(*stops, self.last)

    def place(self, step: int) -> tuple[int, int]:
        """Number of the cycle that a step belongs to, from 1, and the step within it, from 1 to its length."""
        if self.cycle is None:
            return 1, step
        cycles, within = divmod(step - 1, self.cycle)
        return cycles + 1, within + 1

    def row_due(self, step: int) -> bool:
        """Whether the monitor gets a row."""
        return step % self.interval == 0 or step == self.last

    def observed_at(self, step: int) -> bool:
        """Whether the flow is observed: for a row, for a change, or because it was not for long."""
        return self.row_due(step) or self.compares(step) or step % self.interval % CHECK_STEPS == 0

    def may_end(self, step: int) -> bool:
        """Whether the run may end here, if the flow is steady or periodic: at each row, or at the end of a cycle."""
        return self.place(step)[1] == self.cycle if self.cycle and step != self.last else self.row_due(step)

    def compares(self, step: int) -> bool:
        """Whether the velocity is compared with that of the cycle before."""
        return self.cycle is not None and self.place(step)[1] == self.compared

    def sampled(self, step: int, begun: int | None = None) -> bool:
        """Whether the mean over time takes the state: that of a steady flow after a step, or in its last tenth."""
        kept = self.place(step)[0] >= self.first_kept if self.cycle else step > self._mean_from(begun)
        return kept and step % self.sample == 0

    def begins_mean(self, step: int, begun: int | None = None) -> bool:
        """Whether that state is the first one of a mean over time."""
        cycle, within = self.place(step)
        if self.cycle is None:
            return step - self.sample <= self._mean_from(begun)
        return within == self.sample and (cycle == self.first_kept or not (self.averaged or self.varies))

    def _mean_from(self, begun: int | None) -> int:
        return self.last - self.last // 10 if begun is None else begun

    def snapshot(self, step: int) -> int | None:
        """Which snapshot of a cycle is taken, from 0; none of a steady flow, nor in cycles that are not kept."""
        cycle, within = self.place(step)
        if self.cycle is None or cycle < self.first_kept or within not in self.snapshots:
            return None
        return self.snapshots.index(within)


def rows_per_cycle(settings: SolveSettings, period_s: float | None) -> int:
    """Rows of the monitor in a period: what is asked for, or as many as usual."""
    if settings.monitor_s is None or period_s is None:
        return ROWS_PER_CYCLE
    return max(1, round(period_s / settings.monitor_s))


def moments_per_cycle(rows: int) -> int:
    """Evenly spaced moments of a period among which are those of the rows and enough for a mean."""
    return rows * -(-SAMPLES // rows)


def make_schedule(
    settings: SolveSettings,
    dt_s: float,
    viscous_steps: float,
    period_s: float | None,
    inflow: NDArray[np.float64],
    crossing_steps: float = inf,
    most_steps: float = inf,
) -> Schedule:
    """Schedule of a run.

    Parameters
    ----------
    settings : of the stage.
    dt_s : time of a step, of which a period has a multiple of twice :func:`moments_per_cycle`.
    viscous_steps : steps of the viscous time.
    period_s : of the boundary conditions; none if they are steady.
    inflow : at the rows of a period, in any unit.
    crossing_steps : of a steady flow, steps in which the fastest fluid, or the driver, crosses the domain.
    most_steps : of a steady flow, after which the run ends where no setting says.

    Raises
    ------
    StageError
        If the cycles are more steps than the run may have, or fewer than averages need.
    """
    if period_s is None:
        most = settings.max_steps or min(most_steps, MOST_STEPS)
        return _of_steady(settings, dt_s, viscous_steps, crossing_steps, most)
    rows, cycle = rows_per_cycle(settings, period_s), even(period_s / dt_s)
    moments = moments_per_cycle(rows)
    stride = max(each for each in range(1, moments // SAMPLES + 1) if moments % each == 0)
    _require_steps_and_cycles(settings, period_s, cycle)
    phases = settings.phases or [k / settings.snapshots for k in range(1, settings.snapshots + 1)]
    return Schedule(
        interval=cycle // rows,
        sample=cycle // moments * stride,
        last=settings.cycles * cycle,
        cycle=cycle,
        cycles=settings.cycles,
        least_cycles=(least := min(settings.min_cycles, settings.cycles)),
        first_kept=2 if settings.phase_averages else least,
        averaged=settings.phase_averages,
        snapshots=tuple(sorted({min(even(phase * cycle), cycle) for phase in phases})),
        compared=cycle // rows * (int(np.argmax(inflow)) + 1),
    )


def _of_steady(
    settings: SolveSettings, dt_s: float, viscous_steps: float, crossing_steps: float, most_steps: float
) -> Schedule:
    """Schedule of a run under steady boundary conditions."""
    most = max(2, int(most_steps) // 2 * 2)
    usual = min(viscous_steps / VISCOUS_ROWS, crossing_steps / SAMPLES)
    interval = min(most, even(settings.monitor_s / dt_s if settings.monitor_s else max(LEAST_INTERVAL, usual)))
    last = most // interval * interval  # a row, which a run that ends later has, too
    quiet = max(1, round(viscous_steps / VISCOUS_ROWS / interval))
    sample = even(max(LEAST_INTERVAL, min(interval, crossing_steps / SAMPLES)))
    counted, most = (
        interval * max(1, ceil(viscous_steps / times / interval)) for times in (MOST_COUNTED, LEAST_COUNTED)
    )
    return Schedule(interval, sample, last, counted, most, quiet)


def _require_steps_and_cycles(settings: SolveSettings, period_s: float, cycle: int) -> None:
    """Check that the run may have the steps of its cycles, and has the cycles of its averages."""
    if settings.max_steps and settings.cycles * cycle > settings.max_steps:
        raise StageError(
            f"solve.cycles {settings.cycles} of {period_s:g} s need {settings.cycles * cycle} steps, above"
            f" solve.max_steps {settings.max_steps}; raise it, or choose a coarser spacing"
        )
    if settings.phase_averages and settings.cycles < 2:
        raise StageError(
            "solve.phase_averages: they are over all cycles but the first, and solve.cycles is 1; raise it, or leave"
            " phase_averages out"
        )


def even(steps: float) -> int:
    """The nearest even number above 0."""
    return 2 * max(1, round(steps / 2))
