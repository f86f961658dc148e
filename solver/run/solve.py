# SPDX-License-Identifier: Apache-2.0
"""Solve: node arrays and settings to the flow, going on from the last state after a stop or a divergence."""

import logging
import os
from pathlib import Path
from typing import Any

from solver.domain.nodes import Nodes
from solver.run.background_writer import flow_writer
from solver.run.checkpoint import Checkpoints
from solver.run.coarse_start import HELP
from solver.run.coarser import choices, said
from solver.run.divergence import DivergenceError
from solver.run.exchange import Exchange, Given, Surroundings
from solver.run.fallback import FIRST, Attempt
from solver.run.forecast import Forecast
from solver.run.given_start import GivenFlow
from solver.run.handover import Carried, OutgrownError, StaleError
from solver.run.plan import Plan
from solver.run.plan_numbers import table
from solver.run.settings import SolveSettings
from solver.run.setup import (
    drive,
    find_device,
    forecast_summary,
    foresee,
    no_device,
)
from solver.run.simulation import Simulation
from solver.run.summary import backflow, late_warnings, measured_notes, summary_of, that_hold
from solver.runtime.errors import StageError
from solver.runtime.memory import gigabytes


def solve(
    nodes: Nodes,
    settings: SolveSettings,
    flow_path: Path | None,
    monitor_path: Path | None,
    log: logging.Logger,
    checkpoints: Checkpoints | None = None,
    surroundings: Surroundings | None = None,
    begin: GivenFlow | None = None,
) -> dict[str, Any]:
    """Solve the flow through a vessel.

    Parameters
    ----------
    nodes : the geometry; of a rank its part.
    settings : fluid, boundary conditions, numerics. Where several ranks run it, each calls this function.
    flow_path : where the flow file goes, see :mod:`solver.run.flow_file`; none: another rank writes it.
    monitor_path : where the monitor's CSV goes; none: likewise.
    log : where progress goes.
    checkpoints : where the state is kept on the way; none: nowhere.
    surroundings : a network that the vessel sits in; none: openings have what the settings say.
    begin : a flow that a steady run begins with; none: it begins at rest, or with that at twice the spacing.

    Returns
    -------
    Summary of the run, as it is written to ``solve.json``.

    Raises
    ------
    StageError
        If settings do not fit the geometry, the flow diverges, or has not settled where that is refused, a signal stops
        the run, or its device fails.
    """
    from solver.backends.cuda.device import explain_failures

    attempt = Attempt.unpacked(checkpoints.peek("attempt") if checkpoints else None)
    plan = _plan(attempt, nodes, settings, surroundings)
    device = find_device(settings.backend, settings.precision, settings.ranks)
    if settings.backend == "auto" and (missing := no_device()):
        require_no_promise(missing)
        log.info("on the CPU: %s", missing)
    models = f"collision {plan.models}, walls {settings.walls}"
    log.info("%s on %s, %s\n%s", settings.precision, device.name, models, table(plan.numbers))
    expected = foresee(nodes, settings, plan, device)
    log.info("forecast: %s", forecast_summary(expected, plan, device, settings))
    _log_plan(plan, said(choices(plan, settings, expected, device)), log)
    wanted = f"{gigabytes(expected.bytes)} in {settings.precision}"
    with explain_failures(wanted, with_checkpoints=checkpoints is not None):
        simulation = _run(nodes, settings, attempt, plan, expected, flow_path, log, checkpoints, surroundings, begin)
        plan = simulation.plan
        if monitor_path:
            simulation.monitor.write(monitor_path)
        late = late_warnings(simulation)
        for warning in late:
            log.warning("warning: %s", warning)
        came_back = backflow(simulation)
        for note in came_back:
            log.info("note: %s", note)
        notes = [*that_hold(plan.notes, plan), *simulation.attempt.past, *measured_notes(simulation), *came_back]
        return summary_of(simulation, that_hold(plan.warnings, plan) + late, notes)


def _plan(attempt: Attempt, nodes: Nodes, settings: SolveSettings, surroundings: Surroundings | None) -> Plan:
    return attempt.plan(nodes, settings, surroundings)


def _log_plan(plan: Plan, choice: list[str], log: logging.Logger) -> None:
    """Say what other lattices there are to choose from, what holds at the openings, what was chosen, and what to
    repair.
    """
    for line in choice:
        log.info("choice: %s", line)
    for name, values in plan.boundary_schedule.record().items():
        shown = (
            f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in values.items()
        )
        log.info("%s: %s", name, ", ".join(shown))
    for note in plan.notes:
        log.info("note: %s", note)
    for warning in plan.warnings:
        log.warning("warning: %s", warning)


# many parameters because it is the rest of `solve`
def _run(
    nodes: Nodes,
    settings: SolveSettings,
    attempt: Attempt,
    plan: Plan,
    expected: Forecast,
    flow_path: Path | None,
    log: logging.Logger,
    checkpoints: Checkpoints | None,
    surroundings: Surroundings | None,
    begin: GivenFlow | None,
) -> Simulation:
    """Run an attempt, and those that follow it where its models do not hold the flow; the one that came to its end."""
    carried: Carried | None = None
    own = begin.help if begin else HELP
    while True:
        driver = drive(nodes, settings, plan)
        log.info("%s: %s", driver.device, driver.layout)
        exchange = _exchange(plan, surroundings)
        simulation = Simulation(nodes, settings, plan, expected, driver, exchange, own, log, checkpoints, attempt)
        if carried:
            simulation.go_on_from(carried)
        try:
            with flow_writer(flow_path, nodes, plan.rheology is not None, driver) as writer:
                simulation.run(writer)
            return simulation
        except StaleError:
            attempt = FIRST
            plan = _plan(attempt, nodes, settings, surroundings)
            expected = foresee(nodes, settings, plan, find_device(settings.backend, settings.precision, settings.ranks))
            continue
        except OutgrownError as outgrown:
            carried = outgrown.carried
            attempt = attempt.climbed(plan, carried.step, outgrown.grid_reynolds)
        except DivergenceError as diverged:
            following = attempt.after(settings, plan, diverged)
            if following is None:
                raise
            attempt, carried = following, None
            if checkpoints:
                checkpoints.remove()
        log.warning("fall-back: %s", attempt.past[-1])
        plan = _plan(attempt, nodes, settings, surroundings)


def _exchange(plan: Plan, surroundings: Surroundings | None) -> Exchange:
    """What holds at the openings of a plan."""
    if surroundings is None:
        return Given(plan.boundary_schedule)
    assert plan.schedule.cycle is not None
    return surroundings.couple(plan.boundary_schedule, plan.schedule.cycle)


def require_no_promise(missing: str) -> None:
    """Check that a job without a device was given none: its time would end long before a run on the CPU does."""
    for name in ("SLURM_GPUS", "SLURM_GPUS_ON_NODE"):
        if (given := os.environ.get(name, "0")) != "0":
            raise StageError(
                f"solve.backend auto: SLURM gave this job GPUs ({name} is {given}), and none can be used: {missing};"
                " or set solve.backend to cpu, and ask for none"
            )
