# SPDX-License-Identifier: Apache-2.0
"""A pulsing flow that never repeats: disturbed flow behind a valve, a narrowing or in a sac differs from cycle to cycle
though what drives it does not. It is recognised, and its phases are averaged over cycles.

The difference between successive cycles of a flow that becomes periodic falls by about the same factor in each. Where
it falls so slowly that it would not be small enough by the end of an average over cycles, they are averaged; but not
where far more cycles were expected to be wanted, and it falls evenly, or a fifth of those expected are not over: such a
flow settles. So does one that falls evenly in a wide place, where friction wears off what is slow, or whose mean speed
or energy goes on in one direction from cycle to cycle, as where a sac is filled with vortices. Nor where Windkessels
are far from the pressures that they come to, whose means would be those on the way. Where what is averaged then changes
in one direction, half of that change counts as its error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil, expm1, inf, log

import numpy as np

from solver.run.checkpoint import Arrays
from solver.run.convergence import Reals, signals, slope
from solver.run.fluctuation import Fluctuation
from solver.run.monitor import COMPARED, TO_COME, WIDE, Monitor, Row, last_cycles_differ
from solver.run.outlet_pressures import warnings_of
from solver.run.plan import Plan
from solver.run.schedule import Schedule
from solver.run.settings import SolveSettings

EVENLY = 2.0
"""Times the least of the logarithmic falls from one of these to the next, below which the largest is where they fall
evenly. With up to 2 all eight jets that vary for ever were averaged, with 3 and more seven (benchmarks/slow_cycles.py);
none of 19 flows that settle was ended otherwise by any."""

TOO_EARLY = 5.0
"""Times the cycles so far, beyond which so many are expected until a flow repeats that it is not known to vary: few
repeat sooner than after a fifth of them, and waves that die away slowly beat as if it varied. With 3 to 8 none of the
waves that were drawn there was averaged and all eight jets were, with 2 three of the jets."""

FAR_TO_COME = 0.05
"""Part that the mean pressure of a Windkessel is still to change by after each of these cycles, above which it is
on its way: what only varies has less, since it changes to and fro."""

MOVES = ("velocity", WIDE)
"""Differences by which a flow varies: those of openings follow."""

FORETOLD, LATELY = 2.0, 0.7
"""Standard errors beyond which differences fall, so that it can be foretold when they are small enough; and part of
their fall per cycle that they have lately at least, since they beat. By these 144 of 176 numbers of cycles, told after
each cycle of 20 flows that settle (seeds 20269010, 20269012 and 20269301 of benchmarks/slow_cycles.py), are foretold,
93 of 100 within a factor of 2."""

LEAST_CYCLES = 4
"""That an average is taken over, at least: its standard error is half of what cycles vary by."""

DISTURBED = 250.0
"""Peak Reynolds number over the Womersley number above which flow in aortas of dogs was highly disturbed (Nerem and
Seed 1972, doi:10.1093/cvr/6.1.1). In narrowed vessels and sacs it is so at lower ones."""

CERTAIN = 4.0
"""Standard errors by which the slope of a signal's means over the cycles must differ from none to be taken for a drift.
Of five means without one it does in one of 40 draws."""


def only_varies(monitor: Monitor, settings: SolveSettings, step: int, raised_s: float) -> bool:
    """Whether a cycle is over after which a flow only varies from cycle to cycle, and cycles are left to average.

    Parameters
    ----------
    monitor : of the run.
    settings : of the stage.
    step : that it has come to.
    raised_s : time from which on the flow is what it was asked for; cycles that are compared begin no sooner.
    """
    cycle, within = monitor.plan.schedule.place(step)
    first_s = (cycle - COMPARED - 1) * (monitor.plan.period_s or 0.0)
    if within != monitor.plan.schedule.cycle or first_s < raised_s:
        return False
    more = cycles_of_mean(monitor.plan.schedule, settings, cycle)
    found = monitor.differences()
    tolerance = settings.periodic_tolerance
    if more < LEAST_CYCLES or len(found) < COMPARED or max(found[-1].get(name, 0.0) for name in MOVES) <= tolerance:
        return False
    if min(each.get(TO_COME, 0.0) for each in found) > max(FAR_TO_COME, tolerance):
        return False
    if monitor.plan.schedule.expected_cycles > TOO_EARLY * cycle or _moves_on(monitor, tolerance):
        return False
    if monitor.plan.schedule.short and _falls_evenly([each["velocity"] for each in found]):
        return False
    series = {name: [each.get(name, 0.0) for each in found] for name in found[-1]}
    if series.get(WIDE, [0.0])[-1] > tolerance and _falls_evenly(series[WIDE]):
        return False
    return all(
        each[-1] <= tolerance or (each[0] > 0 and (_to_and_fro(name, each) or _stays_above(tolerance, more, each)))
        for name, each in series.items()
    )


def _moves_on(monitor: Monitor, least: float) -> bool:
    """Whether mean speed or energy of the cycles that are compared change in one direction, and in the last one by more
    than a part of them: of cycles that only vary, four means come in order by chance once in twelve times.
    """
    rows = monitor.rows[-(COMPARED + 1) * monitor.per_cycle :]
    values = np.array([[row.mean_speed_m_s, row.kinetic_energy_j] for row in rows])
    means = values.reshape(COMPARED + 1, -1, 2).mean(axis=1)
    changes = np.diff(means, axis=0) / means[-1]
    one_way = (changes > 0).all(axis=0) | (changes < 0).all(axis=0)
    return bool((one_way & (np.abs(changes[-1]) > least)).any())


def _falls_evenly(differences: list[float]) -> bool:
    """Whether each difference is less than the one before by about the same part, as those of a flow that settles."""
    falls = -np.diff(np.log(np.maximum(differences, 1e-300)))
    return bool(falls.min() > 0 and falls.max() < EVENLY * falls.min())


def cycles_to_repeat(found: Sequence[Mapping[str, float]], tolerance: float) -> float:
    """Cycles until differences between successive cycles, and what is still to change then, have all fallen to a
    tolerance, if they fall on as a line through their logarithms does, or as they did last where that is less, down to
    `LATELY` of it: what settles last settles slowest. Infinite where that cannot be foretold: where one that is larger
    does not fall by more than `FORETOLD` standard errors of that line, or there are too few.

    Parameters
    ----------
    found : differences by what differs, the newest last.
    tolerance : of all of them.
    """
    if len(found) < COMPARED:
        return inf
    wanted = 0.0
    for name, now in found[-1].items():
        series = np.array([each.get(name, now) for each in found])
        if now <= 0:
            continue
        if series.min() <= 0:
            return inf
        logs = np.log(series)
        rise, error = slope(logs)
        if -rise <= FORETOLD * error:
            if now > tolerance:
                return inf
            continue
        fall = min(-rise, max(logs[-2] - logs[-1], -LATELY * rise)) if logs[-1] < logs[-2] else -rise
        level = max(now, float(np.exp(logs.mean() + rise * (len(logs) - 1) / 2)))
        goal = tolerance if name == TO_COME else tolerance * min(1.0, expm1(fall))
        wanted = max(wanted, log(level / goal) / fall)
    return wanted


def _to_and_fro(name: str, differences: list[float]) -> bool:
    """Whether differences of flow or pressure do not fall each time, as they do on the way to a Windkessel's pressure:
    those of a flow that varies are small, and often less in the end by chance.
    """
    return name not in MOVES and differences != sorted(differences, reverse=True)


def _stays_above(tolerance: float, cycles: int, differences: list[float]) -> bool:
    """Whether a difference will not have fallen to a tolerance in so many cycles, by how it fell over those given."""
    first, last = differences[0], differences[-1]
    return last * (last / first) ** (cycles / (COMPARED - 1)) > tolerance


def cycles_of_mean(schedule: Schedule, settings: SolveSettings, after: int) -> int:
    """Over how many cycles after one phases are averaged: as many as a flow is given to become periodic, or as the
    steps that are left allow.

    Parameters
    ----------
    schedule : steps of the run.
    settings : of the run.
    after : cycles that are over by then.
    """
    if settings.max_steps and schedule.cycle:
        return min(settings.cycles, settings.max_steps // schedule.cycle - after)
    return settings.cycles


def cycles_if_it_varies(plan: Plan, settings: SolveSettings) -> tuple[int, int] | None:
    """Cycles after which a run ends whose flow only varies from cycle to cycle, at least and at most; none where that
    cannot be recognised in the cycles that it has.

    Parameters
    ----------
    plan : of the run, before its first step.
    settings : of the stage.
    """
    schedule = plan.schedule
    if not schedule.cycle or not plan.period_s:
        return None
    first = max(COMPARED + 1 + ceil(plan.ramp_s / plan.period_s), ceil(schedule.expected_cycles / TOO_EARLY))
    ends = [
        after + more
        for after in range(first, schedule.cycles + 1)
        if (more := cycles_of_mean(schedule, settings, after)) >= LEAST_CYCLES
    ]
    return (min(ends), max(ends)) if ends else None


def how_likely(numbers: Mapping[str, float]) -> str:
    """How likely it is that a pulsing flow varies from cycle to cycle, by its peak Reynolds number and the Womersley
    number alpha at the inlet: see `DISTURBED`.

    Parameters
    ----------
    numbers : of a plan.
    """
    reynolds, bound = numbers["reynolds"], DISTURBED * numbers["womersley"]
    if reynolds > bound:
        return (
            f"which is likely, since the peak Reynolds number {reynolds:.0f} is above {DISTURBED:g} alpha = {bound:.0f}"
        )
    return (
        f"which only the run tells: the peak Reynolds number {reynolds:.0f} is below {DISTURBED:g} alpha = {bound:.0f},"
        " but behind narrow places and in sacs slower flow varies, too"
    )


def averaging(plan: Plan, settings: SolveSettings, after: int) -> Plan:
    """A plan whose run ends with an average over cycles, and what is to be said of its outlets with so many.

    Parameters
    ----------
    plan : of the run.
    settings : of the stage.
    after : the cycle after which they begin.
    """
    more = cycles_of_mean(plan.schedule, settings, after)
    before, now = (warnings_of(plan.boundary_schedule, cycles) for cycles in (settings.cycles, after + more))
    warnings = [*(each for each in plan.warnings if each not in before), *now]
    return replace(plan, schedule=plan.schedule.averaging(after, more), warnings=warnings)


def varies(monitor: Monitor) -> str:
    """What the log says of such a flow, whose next cycles are averaged."""
    schedule = monitor.plan.schedule
    return (
        f"cycle {schedule.first_kept - 1}: {last_cycles_differ(monitor)}, about as much as before: the flow varies from"
        f" cycle to cycle; phases are averaged over {schedule.cycles - schedule.first_kept + 1} cycles from here on"
    )


def averaged_state(schedule: Schedule) -> Arrays:
    """What a checkpoint keeps of it: the cycle after which cycles are averaged, or -1."""
    return {"averaged_after": np.array(schedule.first_kept - 1 if schedule.varies else -1)}


def as_kept(plan: Plan, settings: SolveSettings, arrays: Arrays) -> Plan:
    """A plan as it was when a checkpoint was written, whose arrays are given.

    Parameters
    ----------
    plan : of the run as it begins.
    settings : of the run.
    arrays : of the checkpoint, by name.
    """
    after = int(arrays["averaged_after"]) if "averaged_after" in arrays else -1
    return averaging(plan, settings, after) if after >= 0 else plan


def averaged_rows(monitor: Monitor) -> Sequence[Row]:
    """Rows of the cycles that are averaged, of a run at its end."""
    schedule = monitor.plan.schedule
    return monitor.rows[-(schedule.cycles - schedule.first_kept + 1) * monitor.per_cycle :]


def variation(monitor: Monitor, bound: float) -> Fluctuation:
    """How far the cycles of an average vary about it, and how sure it is.

    With x the difference of two cycles' velocities, root mean square over all nodes, independent cycles vary by
    x/sqrt(2). A signal's standard error is that of its means over the n cycles, s/sqrt(n), or where these drift by b
    from one to the next, |b| n/2 if that is more.

    Parameters
    ----------
    monitor : of the run, at its end.
    bound : part of a signal above which a change of its mean over all cycles is a drift.
    """
    plan, rows, per_cycle = monitor.plan, averaged_rows(monitor), monitor.per_cycle
    cycles = len(rows) // per_cycle
    apart = [found["velocity"] for back in range(cycles - 1) if (found := monitor.periodicity(back))]
    whole = {name: values.reshape(cycles, per_cycle, -1) for name, values in signals(rows).items()}
    means = {name: each.mean(axis=1) for name, each in whole.items()}
    span_s = cycles * (plan.period_s or 0.0)
    return Fluctuation(
        span_s=span_s,
        throughs=span_s / (plan.through_steps * plan.units.dt_s),
        velocity_rms=float(np.sqrt(np.mean(np.square(apart)) / 2)),
        rms={name: float(np.sqrt(each.var(axis=0, ddof=1).mean(axis=0)).max()) for name, each in whole.items()},
        standard_error={name: max(map(error_of_means, each.T)) for name, each in means.items()},
        drifts=any(_drift(column) > bound for each in means.values() for column in each.T),
        period_s=None,
        cycles=cycles,
    )


def _drift(means: Reals) -> float:
    """By how much means over cycles change in one direction, from the first to the last; 0 where they only scatter."""
    rise, error = slope(means)
    return abs(rise) * len(means) if abs(rise) > CERTAIN * error else 0.0


def error_of_means(means: Reals) -> float:
    """Of the mean of means over cycles, (cycles,): see :func:`variation`."""
    return max(float(means.std(ddof=1)) / float(np.sqrt(len(means))), _drift(means) / 2)
