# SPDX-License-Identifier: Apache-2.0
"""Pressures that are expected at outlets over a cycle, and what is to be repaired of the vessels behind them."""

import numpy as np

from solver.boundary.windkessel import PASCAL_PER_MMHG
from solver.run.boundary_schedule import BoundarySchedule, excess_ml_s, followed

LEAST_PROXIMAL, MOST_PROXIMAL = 0.1, 10.0
"""Proximal resistance r over the impedance of the lattice's fluid, outside of which more than four fifths of a pressure
wave, (r - 1)/(r + 1), return from the outlet."""
MOST_MMHG = 500.0
"""Largest pressure above or below that of the air, above which what is behind an outlet is no vessel."""
CYCLES_PER_CONSTANT = 3.0
"""Time constants that a run should last."""


def expected_mmhg(boundary_schedule: BoundarySchedule, name: str) -> tuple[float, float]:
    """Least and largest pressure that is expected at an outlet over a cycle."""
    outlet = boundary_schedule.outlets[name]
    if waveform := boundary_schedule.waveforms.pressure_mmhg.get(name):
        low, high = np.array(waveform.extremes) - waveform.mean + outlet.pressure_mmhg
        return float(low), float(high)
    if not (outlet.windkessel and boundary_schedule.period_s):
        return outlet.pressure_mmhg, outlet.pressure_mmhg
    count, step_s = followed(boundary_schedule)
    times = np.arange(1, count + 1, dtype=np.float64) * step_s
    flow, each = excess_ml_s(boundary_schedule, outlet, times), outlet.windkessel
    oscillatory_mmhg = each.periodic_mmhg(flow, step_s) + each.proximal_mmhg_s_ml * flow
    return outlet.pressure_mmhg + float(oscillatory_mmhg.min()), outlet.pressure_mmhg + float(oscillatory_mmhg.max())


def deviation_pa(boundary_schedule: BoundarySchedule) -> float:
    """Largest deviation of an outlet's pressure, as expected over a cycle, from that which is zero on the lattice."""
    expected = [each for name in boundary_schedule.outlets for each in expected_mmhg(boundary_schedule, name)]
    return max((abs(each * PASCAL_PER_MMHG - boundary_schedule.reference_pa) for each in expected), default=0.0)


def cycles_to_come(boundary_schedule: BoundarySchedule) -> dict[int, float]:
    """Changes of the mean pressure from the last cycle to this one, of which so many are still to come, by the index of
    an outlet with a Windkessel: d/(1 - d), where it keeps the part d over a cycle.
    """
    feedback, openings = boundary_schedule.outlet_feedback, boundary_schedule.openings
    steps = (boundary_schedule.period_s or np.inf) / boundary_schedule.units.dt_s
    kept = {k: decay**steps for k, decay in zip(feedback.opening.tolist(), feedback.rule[:, 1].tolist(), strict=True)}
    behind = {name for name, outlet in boundary_schedule.outlets.items() if outlet.windkessel}
    behind -= boundary_schedule.coupled_mmhg_s_ml.keys()
    return {k: part / (1 - part) for k, part in kept.items() if openings[k].name in behind}


def warnings_of(boundary_schedule: BoundarySchedule, cycles: int) -> list[str]:
    """What to repair at outlets, in a run of at most so many cycles."""
    warnings = []
    behind = {name: outlet.windkessel for name, outlet in boundary_schedule.outlets.items() if outlet.windkessel}
    for name, each in behind.items():
        ratio = each.proximal_mmhg_s_ml / (impedance := boundary_schedule.impedance_mmhg_s_ml(name))
        if ratio and not LEAST_PROXIMAL <= ratio <= MOST_PROXIMAL:
            warnings.append(
                f"solve.outlets.{name}: the proximal resistance {each.proximal_mmhg_s_ml:.3g} mmHg s/mL is {ratio:.2g} "
                f"times the impedance of the lattice's fluid ({impedance:.3g}), which sends most of a wave back; "
                f"{LEAST_PROXIMAL:g} to {MOST_PROXIMAL:g} times is good: change proximal_mmhg_s_ml, or"
                " solve.lattice_speed, to which the impedance is inversely proportional"
            )
        low, high = expected_mmhg(boundary_schedule, name)
        if max(-low, high) > MOST_MMHG:
            warnings.append(
                f"solve.outlets.{name}: its Windkessel ({each.resistance_mmhg_s_ml:.3g} mmHg s/mL,"
                f" {each.compliance_ml_mmhg:.3g} mL/mmHg) is expected to make {low:.3g} to {high:.3g} mmHg, which no"
                " vessel has, and which asks for short time steps; give distal_mmhg_s_ml (else it follows from"
                " pressure_mmhg and the mean flow), or another compliance_ml_mmhg"
            )
    return warnings + too_slow(boundary_schedule, cycles)


def too_slow(boundary_schedule: BoundarySchedule, cycles: int) -> list[str]:
    """What to repair of Windkessels that may take longer to repeat than a run of at most so many cycles."""
    period_s = boundary_schedule.period_s or np.inf
    slow = {name: o.windkessel.time_constant_s for name, o in boundary_schedule.outlets.items() if o.windkessel}
    return [
        f"solve.outlets.{name}: the time constant {constant_s:.3g} s of its Windkessel is long for {cycles} cycles of"
        f" {period_s:.3g} s; raise solve.cycles to {np.ceil(CYCLES_PER_CONSTANT * constant_s / period_s):.0f}, or lower"
        " compliance_ml_mmhg"
        for name, constant_s in slow.items()
        if constant_s * CYCLES_PER_CONSTANT > cycles * period_s
    ]
