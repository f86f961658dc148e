# SPDX-License-Identifier: Apache-2.0
"""How long a run is expected to take, in steps: when it is observed, and until it is steady or has repeated."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from solver.domain.nodes import Nodes
from solver.domain.sections import Sections
from solver.domain.widths import half_chords_mm, widest_radius_mm
from solver.run.expected import speed_at_openings_m_s
from solver.run.expected_flow import ExpectedFlow, wall_radius_mm
from solver.run.schedule import SHORT, Schedule, make_schedule, rows_per_cycle
from solver.run.settings import SolveSettings
from solver.run.settling_time import (
    CALM,
    CORRECTED_BESIDE,
    LIVELY,
    TURNED,
    Settling,
    profile,
    pulse_in_sac_s,
    standing_wave,
)
from solver.run.units import Units

SETTLING, TURNING, MOST_TURNING = (9.0, 5.8, 9.9), 0.036, 5.5
"""Rate, in nu/R^2 with R of `wall_radius_mm`, at which a flow without openings settles, by the number of axes along
which it repeats: in a cube, in a tube, between plates; and what moving walls of speed U add, in U/R, by turning the
fluid over, and in nu/R^2 at most: however fast it turns, friction has to reach its core."""
SEPARATED, WIDER = 14.0, 1.5
"""Rate at which flow behind a widening settles, in nu/R^2 with R of `wall_radius_mm`; and the largest opening over the
narrowest section, in area, that counts as one."""
SAC, SLOW = 1.3, 100.0
"""Radius where a vessel is widest over that of its largest opening, from which on fluid lies beside the stream; and
Reynolds number of the fastest section up to which friction rules what does: flows up to 170 settled as forecast."""
LID = 7.0
"""Times the speed of the fluid under a lid, what the lid's is: by them a flow-through time is longer than what the lid
takes to cross the domain. In a cube on 24^3 nodes that fluctuates, at a Reynolds number of 3,800, it is 7.1."""
TURN = 0.01
"""Part of the viscous time that a flow-through time of a closed domain is at least."""
MOST_TIMES, MOST_MEANS, LEAST_LIMIT = 10, 2, 1_000_000
"""Times the steps that are expected, times the flow-through times in which the mean of a flow that fluctuates ends, and
steps: the most of these is where a steady run ends that no setting does."""


@dataclass(frozen=True)
class Duration:
    """Times of a run in steps.

    Attributes
    ----------
    viscous_steps : R^2/nu, R the radius of the largest opening, or that of the walls without openings; of a steady flow
        where the vessel is widest, if fluid lies beside the stream there, as in a sac: it settles last.
    through_steps : a flow-through time: volume over inflow, or the time in which driven fluid crosses the domain.
    schedule : when the run is observed, averaged and written, and may stop.
    expected_steps : where it is expected to end: after all cycles, or when it is steady.
    from_coarse_steps : the same of a steady run that begins with the flow at twice the spacing.
    corrected_steps : the same of one that a lattice of that spacing corrects on the way.
    spread : parts of these steps between which they lie.
    slowed : times as many as if no stream drove what settles last, as in a sac.
    few : warnings of too few cycles or steps.
    """

    viscous_steps: float
    through_steps: float
    schedule: Schedule
    expected_steps: int
    from_coarse_steps: int
    corrected_steps: int
    spread: tuple[float, float]
    slowed: float
    few: tuple[str, ...]


def expect_duration(
    nodes: Nodes, settings: SolveSettings, flow: ExpectedFlow, units: Units, ramp_s: float, across: float
) -> Duration:
    """Schedule of a run, and when it is expected to end.

    Parameters
    ----------
    nodes : the geometry.
    settings : of the stage.
    flow : what is expected of it.
    units : scales to SI.
    ramp_s : time over which inflow and moving walls are raised.
    across : nodes across the narrowest section.

    Raises
    ------
    StageError
        If the cycles are more steps than the run may have, or fewer than averages need.
    """
    widest_mm = 0.0 if flow.period_s or not flow.sections else _widest_mm(nodes, flow)
    viscous_s = (1e-3 * widest_mm if _in_sac(nodes, widest_mm) else flow.radius_m) ** 2 / units.viscosity_m2_s
    viscous_steps = viscous_s / units.dt_s
    rows = rows_per_cycle(settings, flow.period_s)
    inflow_at_rows = flow.waveforms.flow_ml_s(np.arange(1, rows + 1) / rows * (flow.period_s or 0.0))
    through_steps = _through_steps(nodes, flow, units, viscous_steps)
    crossing_steps = flow.length * units.speed_m_s / flow.peak_speed_m_s
    tolerance = settings.periodic_tolerance if flow.period_s else settings.steady_tolerance
    if flow.waveforms.inflow and flow.sections:
        settling = _settling_with_openings(nodes, flow, units, viscous_s, widest_mm)
    else:
        settling = _settling_closed(nodes, settings, flow, units)
    settled_s = ramp_s + settling.raised_s(ramp_s, tolerance)
    if flow.period_s and flow.sections:
        settled_s = max(settled_s, _pulse_in_sac_s(nodes, flow, units, tolerance))
    steps = settled_s / units.dt_s
    means = ramp_s / units.dt_s + MOST_MEANS * settings.unsteady_throughs * through_steps
    most = max(MOST_TIMES * steps, means, LEAST_LIMIT)
    schedule = make_schedule(settings, units.dt_s, viscous_steps, flow.period_s, inflow_at_rows, crossing_steps, most)
    expected_steps = _whole_steps(steps, schedule)
    from_coarse = settling.from_coarse_s(across / 2, tolerance) / units.dt_s
    if schedule.cycle:
        schedule = replace(schedule, expected_cycles=ceil(steps / schedule.cycle) + 1)
    return Duration(
        viscous_steps=viscous_steps,
        through_steps=through_steps,
        schedule=schedule,
        expected_steps=expected_steps,
        from_coarse_steps=_whole_steps(from_coarse, schedule),
        corrected_steps=_whole_steps(settling.corrected * from_coarse, schedule),
        spread=settling.spread,
        slowed=settling.slowed,
        few=tuple(_too_few(settings, schedule, flow.period_s, expected_steps, ramp_s)),
    )


def _through_steps(nodes: Nodes, flow: ExpectedFlow, units: Units, viscous_steps: float) -> float:
    """Steps of a flow-through time."""
    if inflow := flow.waveforms.inflow:
        return nodes.total * units.flow_m3_s / (1e-6 * sum(each.peak_ml_s for each in inflow.values()))
    slower = LID if flow.moving_m_s else 1.0
    return max(slower * flow.length * units.speed_m_s / flow.peak_speed_m_s, TURN * viscous_steps)


def _too_few(
    settings: SolveSettings, schedule: Schedule, period_s: float | None, expected_steps: int, ramp_s: float
) -> Iterator[str]:
    """Warnings of fewer steps or cycles than a flow is expected to need."""
    if period_s and (settings.cycles < 3 or ramp_s > (settings.cycles - 2) * period_s):
        yield (
            f"at most {settings.cycles} cycles with a ramp of {ramp_s:.3g} s leave little time to become periodic;"
            " three cycles or more are usual: raise solve.cycles"
        )
    if period_s and schedule.short:
        yield (
            f"about {ceil(schedule.expected_cycles / SHORT)} cycles of {period_s:.3g} s are expected until the flow"
            f" repeats, or half to twice as many, above solve.cycles {settings.cycles}; raise it"
        )
    if period_s is None and expected_steps > schedule.last:
        yield (
            f"about {expected_steps} steps are expected until the flow is steady, above solve.max_steps"
            f" {settings.max_steps}; raise it, or choose a coarser spacing"
        )


def _whole_steps(steps: float, schedule: Schedule) -> int:
    """Steps until such a run may end: of whole cycles, one more than it takes to settle, or of whole rows."""
    if schedule.cycle:
        cycles = min(max(ceil(steps / schedule.cycle) + 1, schedule.least_cycles), schedule.cycles)
        return cycles * schedule.cycle
    return (ceil(steps / schedule.interval) + 1) * schedule.interval  # a row more, whose change is small


def _widest_mm(nodes: Nodes, flow: ExpectedFlow) -> float:
    """Radius where a vessel with openings is widest: in a section that is wide for its height nothing else varies."""
    widest_mm = widest_radius_mm(nodes)
    return widest_mm if any(nodes.periodic) or flow.slip else max(widest_mm, wall_radius_mm(nodes))


def _in_sac(nodes: Nodes, widest_mm: float) -> bool:
    """Whether fluid lies beside the stream where a vessel is so wide."""
    return widest_mm > SAC * max((o.radius_mm for o in nodes.openings), default=np.inf)


def wide_places(nodes: Nodes) -> NDArray[np.bool_]:
    """Nodes at which a vessel is so wide that fluid may lie beside the stream, as in a sac, (N,)."""
    halves = half_chords_mm(nodes)
    return np.isfinite(halves) & (halves > SAC * max((o.radius_mm for o in nodes.openings), default=np.inf))


def _pulse_in_sac_s(nodes: Nodes, flow: ExpectedFlow, units: Units, tolerance: float) -> float:
    """Time in which a pulse comes to repeat in a sac; 0 where there is none."""
    if not flow.waveforms.inflow or not _in_sac(nodes, widest_mm := widest_radius_mm(nodes)):
        return 0.0
    return pulse_in_sac_s(
        1e-3 * widest_mm,
        1e-3 * max(opening.radius_mm for opening in nodes.openings),
        units.viscosity_m2_s,
        _fastest_inflow_m_s(nodes, flow) / (flow.length * units.dx_m),
        tolerance,
    )


def _fastest_inflow_m_s(nodes: Nodes, flow: ExpectedFlow) -> float:
    """Largest mean speed at an inlet at any time."""
    inflow = flow.waveforms.inflow
    return max(inflow[o.name].peak_ml_s / o.area_mm2 for o in nodes.openings if o.role == "inlet")


def _settling_with_openings(
    nodes: Nodes, flow: ExpectedFlow, units: Units, viscous_s: float, widest_mm: float
) -> Settling:
    """Settling of a flow through openings.

    Waves stay in the vessel where the flow pulsates.
    """
    assert flow.sections is not None
    length_m = flow.length * units.dx_m
    if flow.period_s:
        return standing_wave(
            length_m,
            1e-3 * wall_radius_mm(nodes, flow.slip),
            units.viscosity_m2_s,
            units.speed_m_s / 3**0.5,
            _fastest_inflow_m_s(nodes, flow),
            viscous_s,
            SEPARATED if _widens(nodes, flow.sections) else np.inf,
        )
    entering_m3_s = sum(max(-each, 0.0) for each in flow.out_m3_s.values())
    at_openings = speed_at_openings_m_s(nodes.openings, flow.out_m3_s)
    fastest_m_s = flow.sections.speed_m_s(flow.out_m3_s)
    narrowing, reynolds = fastest_m_s / at_openings, sqrt(4 * entering_m3_s * fastest_m_s / pi) / units.viscosity_m2_s
    narrow_inlet, leaving_m_s = _leaves_wider(nodes, flow.out_m3_s), _mean_speed_m_s(nodes, flow.out_m3_s, 1)
    in_sac = _in_sac(nodes, widest_mm)
    beside = at_openings > WIDER * leaving_m_s or narrowing > WIDER or in_sac
    tube = len(nodes.openings) == 2 and not beside
    faster = leaving_m_s / _mean_speed_m_s(nodes, flow.out_m3_s, -1) if tube else 1.0
    round_part = min(1.0, (1e-3 * widest_mm / flow.radius_m) ** 2)
    settling = profile(
        length_m,
        1e-3 * widest_mm,
        units.viscosity_m2_s,
        round_part * entering_m3_s,
        viscous_s,
        narrowing,
        narrow_inlet,
        faster,
    )
    if not beside:
        return settling
    settling = settling.in_sac(reynolds) if in_sac else replace(settling, corrected=CORRECTED_BESIDE)
    return replace(settling, spread=LIVELY if reynolds > SLOW else CALM)


def _widens(nodes: Nodes, sections: Sections) -> bool:
    """Whether the largest opening is wider than the narrowest section or opening by `WIDER`."""
    widest = 1e-6 * max(opening.area_mm2 for opening in nodes.openings)
    narrowest = min(sections.narrowest_m2, 1e-6 * min(opening.area_mm2 for opening in nodes.openings))
    return widest > WIDER * narrowest


def _mean_speed_m_s(nodes: Nodes, out_m3_s: Mapping[int, float], sign: int) -> float:
    """Mean speed at all openings together through which fluid leaves, or, with the other sign, enters."""
    passed = [k for k in range(len(nodes.openings)) if sign * out_m3_s[k] > 0]
    return sum(sign * out_m3_s[k] for k in passed) / (1e-6 * sum(nodes.openings[k].area_mm2 for k in passed))


def _leaves_wider(nodes: Nodes, out_m3_s: Mapping[int, float]) -> bool:
    """Whether one of the openings through which fluid leaves is wider by `WIDER` than all together through which it
    enters: where it divides, each branch slows its own part down, and less of it parts from the wall.
    """
    area = np.array([opening.area_mm2 for opening in nodes.openings])
    leaves = np.array([out_m3_s[k] > 0 for k in range(len(area))])
    return bool(area[leaves].max() > WIDER * area[~leaves].sum())


def _settling_closed(nodes: Nodes, settings: SolveSettings, flow: ExpectedFlow, units: Units) -> Settling:
    """Settling of a flow without openings.

    Past bodies a force per volume F balances a drag that is proportional to the speed, at 2/3 of the peak: F/(rho U).
    """
    viscous_s = flow.radius_m**2 / units.viscosity_m2_s
    if all(nodes.periodic):
        drag_1_s = 1.5 * float(np.linalg.norm(settings.force_n_m3)) / (settings.density_kg_m3 * flow.peak_speed_m_s)
        return replace(Settling.creeping(drag_1_s, viscous_s), spread=LIVELY)
    worn = SETTLING[sum(nodes.periodic)] / viscous_s
    # a wall that slides on for ever turns nothing over
    ends = ~np.array(nodes.periodic)
    walls_m_s = max((float(np.linalg.norm(ends * velocity)) for velocity in flow.moving_m_s.values()), default=0.0)
    turned = TURNING * walls_m_s / flow.radius_m
    settling = Settling.creeping(worn + min(turned, MOST_TURNING / viscous_s), viscous_s)
    return replace(settling, spread=TURNED, corrected=CORRECTED_BESIDE) if turned > worn else settling
