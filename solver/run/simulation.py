# SPDX-License-Identifier: Apache-2.0
"""The time loop: boundary values over time, monitoring, when to stop, what to write."""

import time
from functools import partial

import numpy as np

from solver.run import divergence
from solver.run.checkpoint import Arrays, Checkpoints, under
from solver.run.convergence import is_periodic, is_steady
from solver.run.cycle_variation import as_kept, averaged_state, averaging, only_varies, variation, varies
from solver.run.divergence import DivergenceError
from solver.run.exchange import Given
from solver.run.extrapolation import STATES
from solver.run.flow_file import FlowWriter
from solver.run.fluctuation import QUIET, balanced, fluctuation, velocity_rms
from solver.run.handover import Carried, CoarseLattice, OutgrownError, StaleError
from solver.run.run_state import Run
from solver.run.start import Start
from solver.runtime.errors import StageError
from solver.runtime.interruption import Interruption
from solver.runtime.progress import in_time_units


class Simulation(Run):
    """The time loop of a run: it goes on step by step, judges when to stop, and keeps what is written."""

    def go_on_from(self, carried: Carried) -> None:
        """Go on from where a run with other models came to; what is kept of each node for the viscosity begins
        again.
        """
        own = self.driver.state()
        alike = {
            name: array
            for name, array in carried.state.items()
            if name in own and own[name].shape == array.shape and own[name].dtype == array.dtype
        }
        self.driver.restore(own | alike)
        self.exchange.restore(carried.exchange)
        self.monitor.rows[:], self.monitor.kept = carried.monitor.rows, carried.monitor.kept
        self.step, self.seconds = carried.step, carried.seconds
        self._began(carried.start)

    def run(self, writer: FlowWriter) -> None:
        """Run to a steady flow, to the mean of one that fluctuates, or over all cycles, and write the flow; go on from
        a checkpoint where there is one.

        Raises
        ------
        StageError
            If the flow diverges, or has not settled where that is refused, or a signal stops the run; in the last two
            the state is kept.
        OutgrownError
            If the flow is faster than the models are for, and there are others.
        """
        if self.checkpoints and not self.step:
            self._go_on(self.checkpoints, writer)
        if not self.step and (found := self.coarse_help.begin(self)):
            coarse, start = found
            self._coarse = coarse if self.driver.on_host and not start.unsteady else None
            self._began(start)
        with Interruption() as interruption:
            self._advance(writer, interruption)
            if self.plan.schedule.cycle is None and not self.converged:
                self._judge_mean()
            if not self.converged and self.settings.unsettled == "refuse":
                self._refuse(writer)
        self._results.finish(self.step, self.plan, self.state, writer)
        self.bytes = self.driver.memory_bytes()

    def _began(self, start: Start) -> None:
        """Take in what the run began with: where that is a flow, nothing is raised."""
        self.start = start
        if start.kind != "rest":
            self.plan = self.monitor.plan = self.plan.at_full_flow()
            self.exchange = Given(self.plan.boundary_schedule)
            self.forecast = self.expected_from(start)

    @property
    def _due(self) -> float:
        """Steps from which on a flow is extrapolated, and corrections that have not led it to its end will not: those
        expected, but in a sac that a fast stream drives, where the slow motion shows as soon as in another one.
        """
        return self.forecast.steps / self.plan.slowed

    def _hasten(self) -> None:
        """Lead a steady flow to its end sooner."""
        if self._coarse and self.watch.begun is None and self.step <= self._due:
            self._correct(self._coarse)
        if not self.ends_unsteady:
            self._extrapolate()

    def _correct(self, coarse: CoarseLattice) -> None:
        """Let the coarse lattice correct the flow where that is due."""
        if steps := coarse.correct(self.step, self.monitor.rows[-1].residual):
            self.start = self.start.corrected(steps, coarse.nodes.total)
            self._extrapolation.forget()
            self._count_from_here()

    def _extrapolate(self) -> None:
        """Let a steady flow that takes longer than expected go on from where its states lead, if they do."""
        if self.watch.begun is not None or self.watch.outcome != "settles":
            self._extrapolation.forget()
        elif apart := self._extrapolation.update(self.step, self._due):
            self._count_from_here()
            self.log.info("step %d: extrapolated from %d states, %d steps apart", self.step, STATES, apart)

    def _count_from_here(self) -> None:
        """Count changes of the velocity from the present state on."""
        self.driver.observe(True)
        self.driver.observation()
        self.monitor.keep(self.step)

    def _refuse(self, writer: FlowWriter) -> None:
        kept = ""
        if self.checkpoints:
            self._keep_state(self.checkpoints, writer)
            kept = ", which goes on from here"
        raise StageError(
            f"{self.unsettled()}. Then run the workflow again{kept}; or set solve.unsettled to report, to have the"
            " results as they are, marked as not settled"
        )

    def _advance(self, writer: FlowWriter, interruption: Interruption) -> None:
        start = time.monotonic() - self.seconds
        while self.step < (schedule := self.plan.schedule).last and not self._ended:
            stop = schedule.next_stop(self.step)
            self.exchange.advance(self.driver, self.step, stop)
            self._see()  # what was observed before this stretch, with which a device is busy meanwhile
            self.step, self.seconds = stop, time.monotonic() - start
            if self._outgrown:
                self._hand_over(self._outgrown[1])
            if schedule.observed_at(stop):
                self.driver.observe(self.monitor.compares(stop))
                self._unseen = stop
            self._results.keep(self.step, self.plan, self.watch.begun, writer)
            self.seconds = time.monotonic() - start
            self.time_left.mark(stop, self.seconds)
            if schedule.may_end(stop):
                self._see()
                self._ended = self._may_end()
                self._report(self.monitor.rows[-1])
                if self.plan.schedule.cycle is None and not self._ended:
                    self._hasten()
            due, signal = self.driver.agreed(bool(self.checkpoints and self.checkpoints.due), interruption.number)
            if self.checkpoints and (due or signal) and not self._ended:
                self._keep_state(self.checkpoints, writer)
            if signal and not self._ended:
                kept = "the state is kept, run the workflow again to go on" if self.checkpoints else "nothing is kept"
                raise StageError(f"stopped by signal {signal} after step {self.step}; {kept}")

    def _hand_over(self, grid_reynolds: float) -> None:
        state = {name: array for name, array in self.driver.state().items() if "mean-" not in name}
        exchange = self.exchange.state(self.driver)
        raise OutgrownError(Carried(self.step, self.seconds, state, exchange, self.monitor, self.start), grid_reynolds)

    def _may_end(self) -> bool:
        """Whether the run ends here: the flow is periodic, steady, or fluctuates about a mean that is good enough."""
        if self.plan.schedule.cycle:
            self._judge_cycle()
        elif is_steady(self.monitor.rows, self.plan.schedule.quiet, self._raised_s, self.settings.steady_tolerance):
            self.state = "steady"
        else:
            return self._watched()
        return self.converged

    def _judge_cycle(self) -> None:
        """Tell a periodic flow at the end of a cycle; let cycles that only vary be averaged from there on."""
        monitor, schedule = self.monitor, self.plan.schedule
        if schedule.varies:
            if self.step == schedule.last:
                self.fluctuation = variation(monitor, self.settings.unsteady_tolerance)
                self.state = "unsteady"
        elif is_periodic(monitor, schedule, self.step, self._raised_s, self.settings.periodic_tolerance):
            self.state = "periodic"
        elif only_varies(monitor, self.settings, self.step, self._raised_s):
            self.plan = monitor.plan = averaging(self.plan, self.settings, schedule.place(self.step)[0])
            self.log.info("%s", varies(monitor))

    def _watched(self) -> bool:
        """Let the watch take in the newest row, and say what it finds."""
        before, ended = self.watch.begun, self.watch.update(self.monitor.rows)
        if self.watch.begun is not None and before is None:
            row = self.monitor.rows[-1]
            self.log.info(
                "step %d, %.4g s: the flow does not come to rest, it fluctuates (residual %.2g); %s",
                row.step,
                row.time_s,
                row.residual,
                "it is taken as it is"
                if self.ends_unsteady
                else "it goes on as an unsteady flow, whose mean is taken from here on",
            )
        elif self.watch.begun != before:
            self.log.info("step %d: the flow %s after all; a mean will begin again", self.step, self.watch.outcome)
        return ended or (self.ends_unsteady and self.watch.begun is not None)

    def _judge_mean(self) -> None:
        """Tell a flow that fluctuates about a mean that was taken: unsteady, or steady but for what does not matter.

        Where the steps were over before that mean was as good as is wanted, it is told with the error that it has.
        """
        rows = self._results.of_mean(self.monitor)
        found = self.watch.outcome if self._ended else self.watch.tells(rows)
        if not rows or found not in ("fluctuates", "drifts"):
            return
        rms = velocity_rms(self.driver)
        self.fluctuation = fluctuation(rows, self.plan.through_steps * self.plan.units.dt_s, rms, found == "drifts")
        if balanced(rows):
            self.state = "steady" if rms < QUIET else "unsteady"

    def _keep_state(self, checkpoints: Checkpoints, writer: FlowWriter) -> None:
        """Write a checkpoint. A flow that has diverged is refused first, and leaves those from before."""
        self._see()
        arrays = {f"driver/{name}": array for name, array in self.driver.state().items()}
        arrays |= {f"exchange/{name}": array for name, array in self.exchange.state(self.driver).items()}
        arrays |= {f"monitor/{name}": array for name, array in self.monitor.state().items()}
        arrays |= {
            "seconds": np.array(self.seconds),
            "averaged": np.array(-1 if self._results.averaged is None else self._results.averaged),
            "end": self.plan.schedule.end,
        }
        arrays |= {"attempt": self.attempt.packed(), "outgrown": np.array(self._outgrown or ())}
        arrays |= {"start": self.start.array()}
        arrays |= averaged_state(self.plan.schedule)
        if self._coarse:
            arrays |= {f"coarse/{name}": array for name, array in self._coarse.state().items()}
        arrays |= {f"extrapolation/{name}": array for name, array in self._extrapolation.state().items()}
        taken = {step: partial(writer.taken, k) for k, step in enumerate(self._results.snapshots)}
        begin = time.monotonic()
        checkpoints.write(self.step, arrays, taken)
        size = sum(array.nbytes for array in arrays.values()) / 1e6
        self.log.info("checkpoint of step %d: %.3g MB in %.2g s", self.step, size, time.monotonic() - begin)

    def _go_on(self, checkpoints: Checkpoints, writer: FlowWriter) -> None:
        """Take the newest checkpoint of this run in, or remove those that are of no use."""
        state = checkpoints.newest(
            lambda: {f"driver/{name}": each for name, each in self.driver.state().items()},
            self._on_the_way,
            late=("driver/", "coarse/", "extrapolation/"),
        )
        if state is None:
            checkpoints.remove()
            if self.attempt.restored:
                raise StaleError
            return
        self.plan = self.monitor.plan = as_kept(self.plan, self.settings, state.arrays)
        driver, averaged = under("driver/", state.arrays), int(state.arrays["averaged"])
        self.monitor.restore(under("monitor/", state.arrays))
        self._extrapolation.restore(under("extrapolation/", state.arrays))
        if self.plan.schedule.cycle is None:
            self._ended = self.watch.replay(self.monitor.rows)
        if not np.array_equal(state.arrays["end"], self.plan.schedule.end) and self.watch.begun is None:
            # the mean of this run begins elsewhere
            driver, averaged = {name: array for name, array in driver.items() if "mean-" not in name}, -1
        self.driver.restore(driver)
        self.exchange.restore(under("exchange/", state.arrays))
        for snapshot in state.snapshots.values():
            writer.restore(snapshot)
        self.step, self._results.snapshots = state.step, [*state.snapshots]
        self.seconds, self._results.averaged = float(state.arrays["seconds"]), averaged if averaged >= 0 else None
        self._outgrown = tuple(state.arrays["outgrown"].tolist()) or None
        if held := under("coarse/", state.arrays):
            self._coarse = self.coarse_help.lattice(self)
            self._coarse.restore(held)
        self._began(Start.of_array(state.arrays["start"]))
        self.log.info("going on from the checkpoint of step %d, after %s", self.step, in_time_units(self.seconds))

    def _on_the_way(self, step: int, arrays: Arrays) -> bool:
        """Whether this run comes by a state of one that is alike up to where it ends.

        A steady one does with the same rows, before the mean of its last tenth begins.
        """
        schedule, end = as_kept(self.plan, self.settings, arrays).schedule, self.plan.schedule.end
        if step > schedule.last:
            return False
        if np.array_equal(arrays["end"], end):
            return True
        return step <= schedule.last - schedule.last // 10 and bool(arrays["end"][0] == schedule.interval)

    def _see(self) -> None:
        """Take in the last observation: a row of the monitor where one is due."""
        if self._unseen is None:
            return
        step, self._unseen = self._unseen, None
        observation = self.driver.observation()
        if divergence.has_diverged(observation):
            raise DivergenceError(self.nodes, self.settings, self.plan, self.monitor.rows, step, observation)
        grid_reynolds = observation.max_speed / ((self.plan.units.tau - 0.5) / 3)
        if self.plan.safer and self.plan.models.beyond(grid_reynolds):
            self._outgrown = self._outgrown or (step, grid_reynolds)
        if self.plan.schedule.row_due(step):
            row = self.monitor.record(step, observation)
            if not self.plan.schedule.may_end(step):
                self._report(row)
