# SPDX-License-Identifier: Apache-2.0
"""Results of a run: states that are taken into means and snapshots on the way, and what is written at the end."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from solver.backends.driver import Driver
from solver.backends.fields import MEAN, Fields
from solver.run.cycle_variation import averaged_rows
from solver.run.flow_file import FlowWriter
from solver.run.monitor import Monitor, Row
from solver.run.plan import Plan
from solver.run.si_fields import in_si, settled_statistics, statistics_in_si


class Results:
    """What a run keeps of its flow.

    Attributes
    ----------
    averaged : first step of the mean over time; none before it has begun.
    snapshots : steps of the snapshots that the flow file has: of the cycle that may be the last, or the newest that a
        mean over cycles holds.

    Parameters
    ----------
    driver : who runs the lattice, and keeps the means.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.averaged: int | None = None
        self.snapshots: list[int] = []
        self._limited: list[float] = []

    def keep(self, step: int, plan: Plan, begun: int | None, writer: FlowWriter) -> None:
        """Take the state into means and snapshots where that is due. Each cycle that may be the last begins again.

        Parameters
        ----------
        step : of the state.
        plan : of the run.
        begun : step after which the mean of a steady run is taken; none: in its last tenth.
        writer : of the flow file.
        """
        schedule = plan.schedule
        if schedule.sampled(step, begun):
            begins = schedule.begins_mean(step, begun) or self.averaged is None
            self._driver.average(MEAN, begins)
            self.averaged = step if begins else self.averaged
        snapshot = schedule.snapshot(step)
        if snapshot is None:
            return
        if schedule.averaged:
            self._driver.average(MEAN + 1 + snapshot, schedule.place(step)[0] == schedule.first_kept)
            return
        writer.wait()  # for the memory in which the next fields come
        made = partial(self._in_si, self._driver.transient_fields(), plan)
        if schedule.varies and (count := schedule.place(step)[0] - schedule.first_kept + 1) > 1:
            writer.mix_deferred(snapshot, made, 1 / count)
            self.snapshots[snapshot] = step  # checkpoints keep each by its step
            return
        if snapshot == 0:
            writer.start_over()
            self.snapshots.clear()
        self.snapshots.append(step)
        writer.append_deferred(step * plan.units.dt_s, made)

    def _note_limited(self, fields: Fields, plan: Plan) -> None:
        """Note at which part of all nodes the limiter acts."""
        if (limit := plan.shear_limit) is not None:
            own = np.array([np.count_nonzero(plan.shear_rate(fields) > limit), len(fields.drho)])
            limited, nodes = self._driver.share.total(own).tolist()
            self._limited.append(limited / nodes)

    def _in_si(self, fields: Fields, plan: Plan) -> tuple[NDArray[np.floating], ...]:
        """Fields of a state; where the limiter acts in it is noted."""
        self._note_limited(fields, plan)
        return in_si(fields, plan, self._driver.share)

    def _mean_in_si(self, number: int, plan: Plan) -> tuple[NDArray[np.floating], ...]:
        return in_si(self._driver.mean(number), plan, self._driver.share)

    def _last(self, plan: Plan, mean: bool) -> tuple[NDArray[np.floating], ...]:
        """The flow at the end, or its mean; in lattice units it is let go before it is written."""
        if not mean:
            return self._in_si(self._driver.fields(), plan)
        self._note_limited(self._driver.fields(), plan)
        return self._mean_in_si(MEAN, plan)

    @property
    def limited(self) -> float | None:
        """Mean part of the nodes at which the limiter acted, over the states that were read; none without one."""
        return float(np.mean(self._limited)) if self._limited else None

    def of_mean(self, monitor: Monitor) -> Sequence[Row]:
        """Rows over which the mean over time was taken."""
        if monitor.plan.schedule.varies:
            return averaged_rows(monitor)
        return [row for row in monitor.rows if self.averaged is not None and row.step >= self.averaged]

    def finish(self, step: int, plan: Plan, state: str, writer: FlowWriter) -> None:
        """Write what only the end tells: the steady flow, means over phases, mean and statistics over time.

        Parameters
        ----------
        step : at which the run ended.
        plan : of the run.
        state : of :class:`solver.run.simulation.Simulation`.
        writer : of the flow file.
        """
        schedule, driver = plan.schedule, self._driver
        if schedule.cycle is None:
            last = self._last(plan, mean=state == "unsteady")
            writer.append(step * plan.units.dt_s, *last)
        elif schedule.averaged:
            for number, within in enumerate(schedule.snapshots):
                time_s = (step - schedule.cycle + within) * plan.units.dt_s
                writer.append(time_s, *self._mean_in_si(MEAN + 1 + number, plan))
        if state == "steady" or (schedule.cycle is None and self.averaged is None):
            writer.average(*last, statistics=settled_statistics(last, plan.units))
        else:
            statistics = statistics_in_si(driver.statistics(), plan.units)
            writer.average(*self._mean_in_si(MEAN, plan), statistics=statistics)
