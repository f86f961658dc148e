# SPDX-License-Identifier: Apache-2.0
"""A run: what it is made of, how far it has come, and what it says of that."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from solver.backends.driver import Driver
from solver.domain.nodes import Nodes
from solver.run import time_left
from solver.run.checkpoint import Checkpoints
from solver.run.convergence import Watch
from solver.run.exchange import Exchange
from solver.run.extrapolation import Extrapolation
from solver.run.fallback import FIRST, Attempt
from solver.run.fluctuation import Fluctuation
from solver.run.forecast import Forecast
from solver.run.handover import CoarseLattice
from solver.run.monitor import Monitor, Row
from solver.run.plan import Plan
from solver.run.results import Results
from solver.run.settings import SolveSettings
from solver.run.start import Start
from solver.run.unsettled import shortfall, so_far

LOG_EVERY_S = 5.0


@dataclass
class Run:
    """One run of a geometry under a plan, which :class:`solver.run.simulation.Simulation` advances.

    Attributes
    ----------
    nodes, settings, plan, forecast : what is run, and what that is expected to take.
    driver : who runs it.
    exchange : what holds at the openings meanwhile.
    coarse_help : how the lattice of twice the spacing helps.
    log : where progress goes.
    checkpoints : where the state is kept on the way; none: nowhere.
    attempt : how it is tried, and why not otherwise.
    start : what it began with.
    ends_unsteady : whether it ends as soon as its flow is seen to fluctuate, as one that is but a start does.
    later : what follows a run that is but a start.
    planned : the plan that it began with.
    monitor : rows of the run.
    watch : what a steady run's rows say of whether it settles.
    step, seconds, bytes : how far it has come, what that took, and memory.
    state : ``steady``, ``periodic``, ``unsteady`` (a flow that fluctuates, or varies from cycle to cycle, whose mean
        was taken), or ``unsettled``.
    fluctuation : of an unsteady flow.
    """

    nodes: Nodes
    settings: SolveSettings
    plan: Plan
    forecast: Forecast
    driver: Driver
    exchange: Exchange
    coarse_help: "CoarseHelp"
    log: logging.Logger
    checkpoints: Checkpoints | None = None
    attempt: Attempt = FIRST
    start: Start = field(default_factory=Start)
    ends_unsteady: bool = False
    later: time_left.Later = time_left.NOTHING_LATER

    def __post_init__(self) -> None:
        self.monitor = Monitor(
            self.nodes, self.plan, self.settings.steady_tolerance, self.settings.precision, self.exchange.differences
        )
        self.step = 0
        self.seconds = 0.0
        self.bytes = 0
        self.planned = self.plan
        schedule, dt_s = self.plan.schedule, self.plan.units.dt_s
        self.state = "unsettled"
        self.fluctuation: Fluctuation | None = None
        self._extrapolation = Extrapolation(self.nodes, self.driver, schedule.interval)
        self.watch = Watch(
            schedule.interval,
            self.plan.through_steps,
            self._raised_s / dt_s,
            self.settings.steady_tolerance,
            self.settings.unsteady_tolerance,
            self.settings.unsteady_throughs,
            changed=self._extrapolation.steps,
        )
        self._ended = False
        self._results = Results(self.driver)
        self._unseen: int | None = None
        self._logged = time.monotonic()
        self.time_left = time_left.TimeLeft(self.later)
        self._outgrown: tuple[int, float] | None = None
        self._coarse: CoarseLattice | None = None

    @property
    def extrapolations(self) -> int:
        """How often a steady flow was extrapolated."""
        return len(self._extrapolation.steps)

    @property
    def _raised_s(self) -> float:
        """Time from which on the flow is what it was asked for, under the present models."""
        return max(self.plan.ramp_s, self.attempt.since * self.plan.units.dt_s)

    def expected_from(self, start: Start) -> Forecast:
        """What the run is expected to take from a flow at twice the spacing."""
        plan = self.plan
        steps: float = plan.corrected_steps if self.driver.on_host else plan.from_coarse_steps
        return self.forecast.scaled((self.watch.unsteady_steps if start.unsteady else steps) / self.forecast.steps)

    @property
    def converged(self) -> bool:
        """Whether the flow is what it was run for: steady, periodic, or the mean of one that fluctuates."""
        return self.state != "unsettled"

    def unsettled(self) -> str | None:
        """By how much the flow had not settled when its time was up, and what to raise; none of one that had."""
        if self.converged:
            return None
        mean_rows = self.counted_rows if self.fluctuation else None
        raised = self._raised_s / self.plan.units.dt_s
        return shortfall(self.settings, self.plan.schedule, self.monitor, self.watch, self.step, raised, mean_rows)

    @property
    def counted_rows(self) -> Sequence[Row]:
        """Rows that the result is taken from: of the mean, of the last period, or of the last tenth of a run."""
        return self._results.of_mean(self.monitor) if self.fluctuation else self.monitor.last_part()

    def _report(self, row: Row) -> None:
        now = time.monotonic()
        if now - self._logged < LOG_EVERY_S and not self._ended and self.step < self.plan.schedule.last:
            return
        self._logged = now
        self.log.info(
            "step %d, %.4g s, %s, max speed %.3g m/s, %.3g MLUPS, %s",
            row.step,
            row.time_s,
            so_far(self.settings, self.plan, self.monitor),
            row.max_speed_m_s,
            self.mlups,
            self._time_left(),
        )

    @property
    def limited(self) -> float | None:
        """Mean part of the nodes at which the limiter acted, over the states that were read; none without one."""
        return self._results.limited

    @property
    def mlups(self) -> float:
        """Million updates of fluid nodes a second, monitoring and writing included."""
        return self.step * self.nodes.total / max(self.seconds, 1e-9) / 1e6

    def _time_left(self) -> str:
        words, steps = "about", 0.0
        if not self._ended:
            plan, tolerance = self.plan, self.settings.steady_tolerance
            of_run = plan.schedule, self.watch, self.forecast.steps, tolerance, self._raised_s / plan.units.dt_s
            words, steps = time_left.steps_left(self.step, self.monitor.rows, *of_run)
        return self.time_left.said(words, steps, self.forecast)


class CoarseHelp(NamedTuple):
    """How a run gets a flow to begin with, and the lattice of twice the spacing.

    Attributes
    ----------
    begin : lets a run begin with a flow, and with the lattice that helps it on the way, if one does; none where it
        begins at rest.
    lattice : that of a run which goes on.
    """

    begin: Callable[[Run], tuple[CoarseLattice | None, Start] | None]
    lattice: Callable[[Run], CoarseLattice]
