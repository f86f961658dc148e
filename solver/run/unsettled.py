# SPDX-License-Identifier: Apache-2.0
"""What is said of a flow that has not settled: on its way, and when the time of its run was up."""

from collections.abc import Sequence
from itertools import takewhile
from math import ceil

import numpy as np

from solver.run import time_left
from solver.run.convergence import BALANCE, MARGIN, Watch
from solver.run.cycle_variation import LEAST_CYCLES, cycles_to_repeat
from solver.run.fluctuation import MEAN_BALANCE
from solver.run.monitor import COMPARED, TO_COME, Monitor, Row, in_and_out, last_cycles_differ
from solver.run.outlet_pressures import MOST_CYCLES
from solver.run.plan import Plan
from solver.run.schedule import Schedule
from solver.run.settings import SolveSettings

TIMES_TO_TELL = 2
"""Times the cycles that a flow had whose differences do not fall evenly, by which it is looked at again: 26 of
32 such that settle (benchmarks/slow_cycles.py) took half to twice as many, six more."""


# many parameters because each is another fact of the run
def shortfall(
    settings: SolveSettings,
    schedule: Schedule,
    monitor: Monitor,
    watch: Watch,
    step: int,
    raised: float,
    mean_rows: Sequence[Row] | None,
) -> str:
    """By how much a flow had not settled, and what to raise.

    Parameters
    ----------
    settings : of the stage.
    schedule : of the run.
    monitor : its rows.
    watch : what a steady run's rows say of whether it settles.
    step : at which it ended.
    raised : steps over which the flow was raised, whose rows do not tell how it settles; 0 of one that began with
        another flow.
    mean_rows : rows of the mean of a flow that only fluctuates by now; none of another.
    """
    if schedule.cycle:
        more = MARGIN * cycles_to_repeat(monitor.later_differences(), settings.periodic_tolerance)
        why, advised = "", settings.cycles + max(1, ceil(more)) if np.isfinite(more) else 0
        if not advised:  # or they only vary, and are averaged then
            why = "differences do not fall evenly, so that nobody can foretell how many it takes; with more it shows: "
            advised = max(TIMES_TO_TELL * settings.cycles, COMPARED + 1 + LEAST_CYCLES)
        advice = f"{why}raise solve.cycles to {advised} (now {settings.cycles})"
        if MOST_CYCLES < more < np.inf or _hardly_empties(monitor, settings.periodic_tolerance):
            advice = f"that would take more than {MOST_CYCLES} cycles"
        differ = last_cycles_differ(monitor)
        return f"not periodic: {differ} (at most {settings.periodic_tolerance:.2%} wanted); {advice}"
    if mean_rows is not None:
        balance = float(np.mean([row.balance for row in mean_rows]))
        return (
            f"out of balance: the flow only fluctuates by now, but on average outflow and inflow differ by"
            f" {balance:+.2%} of the inflow (at most {MEAN_BALANCE:.0%}); choose a finer spacing"
        )
    row = monitor.rows[-1]
    found = (
        f"not converged: after {step} steps ({row.time_s:.3g} s) the residual is {row.residual:.2g} (wanted"
        f" {settings.steady_tolerance:g}) and the balance {row.balance:+.2%} (at most {BALANCE:.1%})"
    )
    if watch.begun is not None or watch.outcome != "settles":
        left = watch.least_steps_left(monitor.rows)
        why = f"; the flow {watch.outcome}, and its mean is reported:"
    else:
        left = time_left.by_residual(monitor.rows, raised, settings.steady_tolerance)
        why = ";"
    enough = f" to {float(f'{MARGIN * (step + left):.1e}'):.0f}" if np.isfinite(left) else ""
    return f"{found}{why} raise solve.max_steps{enough} (now {settings.max_steps or schedule.last})"


def _hardly_empties(monitor: Monitor, tolerance: float) -> bool:
    """Whether all that is left of a pulse is a mean pressure of a Windkessel, which does not come nearer."""
    before, now = monitor.periodicity(1), monitor.periodicity()
    if not before or not now or max(value for name, value in now.items() if name != TO_COME) > tolerance:
        return False
    return now.get(TO_COME, 0.0) >= before.get(TO_COME, np.inf)


def so_far(settings: SolveSettings, plan: Plan, monitor: Monitor) -> str:
    """How near a flow has come to what it is run for, by the newest row of the monitor.

    Parameters
    ----------
    settings : of the stage.
    plan : of the run.
    monitor : its rows.
    """
    row, schedule = monitor.rows[-1], plan.schedule
    if not plan.period_s:
        return f"residual {row.residual:.2g} (wanted {settings.steady_tolerance:g}), balance {row.balance:+.2%}"
    found = monitor.periodicity()
    differ = f", cycles differ by {max(found.values()):.2%}" if found else ""
    most = f"{'' if schedule.varies else 'at most '}{schedule.cycles}"
    raised = row.time_s >= plan.boundary_schedule.ramp_s
    balance = f", balance {balance_of_pulse(monitor, plan.period_s):+.2%}" if raised else ""
    return f"cycle {row.time_s / plan.period_s:.2f} of {most}{differ}{balance}"


def balance_of_pulse(monitor: Monitor, period_s: float) -> float:
    """(inflow - outflow) of the newest row over the largest inflow of a period, as the inflow of a moment may be 0."""
    begun_s = monitor.rows[-1].time_s - period_s
    rows = takewhile(lambda row: row.time_s > begun_s, reversed(monitor.rows))
    flows = [in_and_out(monitor.nodes, row.flow_ml_s) for row in rows]
    into, out = flows[0]
    largest = max(abs(each) for each, _ in flows)
    return (into - out) / largest if largest else 0.0
