# SPDX-License-Identifier: Apache-2.0
"""Pressures that are expected at outlets over a cycle, and what is to be repaired of the vessels behind them."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, expm1, floor, log1p, log10

import numpy as np
from numpy.typing import NDArray

from solver.boundary.windkessel import PASCAL_PER_MMHG
from solver.run.boundary_schedule import BoundarySchedule, excess_ml_s, followed
from solver.run.outlet_rules import forgotten_in_step
from solver.run.sound import MOST_APART

LEAST_PROXIMAL, MOST_PROXIMAL = 0.1, 10.0
"""Proximal resistance r over the impedance of the lattice's fluid, outside of which more than four fifths of a pressure
wave, (r - 1)/(r + 1), return from the outlet."""
MOST_MMHG = 500.0
"""Largest pressure above or below that of the air, above which what is behind an outlet is no vessel."""
CYCLES_PER_CONSTANT, MOST_CYCLES = 3.0, 1000
"""Time constants that a run should last; and cycles, up to which it is advised to."""
UNEXPECTED = 1.5
"""Times what was expected of a pressure, above which what it differs by in the run is told, too."""

Reals = NDArray[np.float64]


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


def still_to_come_pa(
    boundary_schedule: BoundarySchedule, flow_ml_s: Reals, pressure_pa: Reals, change_pa: Reals
) -> dict[int, float]:
    """What the mean pressure over a cycle is still to change by, by the index of an outlet with a Windkessel.

    That is d/(1 - d) times its change since the cycle before, where the Windkessel keeps the part d over a cycle; but
    no more than it is off the pressure pd + (Rp + Rd) Q of the mean flow, since where it keeps nearly all of it that
    change is round-off.

    Parameters
    ----------
    boundary_schedule : of a flow that pulsates.
    flow_ml_s, pressure_pa : (openings,) means over the cycle, the flow out of the vessel.
    change_pa : (openings,) of the mean pressure.
    """
    dt_s = boundary_schedule.units.dt_s
    steps, found = (boundary_schedule.period_s or np.inf) / dt_s, {}
    for k, opening in enumerate(boundary_schedule.openings):
        outlet = boundary_schedule.outlets.get(opening.name)
        if outlet is None or not (each := outlet.windkessel) or opening.name in boundary_schedule.coupled_mmhg_s_ml:
            continue
        lost = forgotten_in_step(each, boundary_schedule.impedance_mmhg_s_ml(opening.name), dt_s)
        rate = -steps * log1p(-lost) if lost < 1 else np.inf
        steady_mmhg = each.distal_pressure_mmhg + each.resistance_mmhg_s_ml * flow_ml_s[k]
        off, left = abs(pressure_pa[k] - steady_mmhg * PASCAL_PER_MMHG), exp(-rate) * abs(change_pa[k])
        found[k] = float(left / -expm1(-rate) if left < off * -expm1(-rate) else off)
    return found


@dataclass(frozen=True)
class Off:
    """By how much the pressure of an outlet differs from what its Windkessel makes of the flow.

    Attributes
    ----------
    mean_pa, of_mean : of means, and as a part of that or of the largest difference between openings.
    moment_pa, of_widest : at a moment of a cycle that repeats, less the means, and as a part of the widest range of an
        opening's pressure; 0 of a steady flow.
    of_own : of the range that the Windkessel makes.
    """

    mean_pa: float
    of_mean: float
    moment_pa: float
    of_widest: float
    of_own: float


def off_windkessels(boundary_schedule: BoundarySchedule, flow_ml_s: Reals, pressure_pa: Reals) -> dict[str, Off]:
    """How far each outlet is off its Windkessel, by name.

    Parameters
    ----------
    boundary_schedule : of the run.
    flow_ml_s, pressure_pa : (rows, openings), evenly spaced over a cycle, the flow out of the vessel; or one row, their
        means.
    """
    found, rows = dict[str, Off](), len(flow_ml_s)
    omega = 2 * np.pi / (boundary_schedule.period_s or np.inf) * np.arange(rows // 2 + 1.0)
    if not boundary_schedule.outlets:
        return found
    widest_pa, between_pa = np.ptp(pressure_pa, axis=0).max(), np.ptp(pressure_pa.mean(axis=0))
    for k, opening in enumerate(boundary_schedule.openings):
        outlet = boundary_schedule.outlets.get(opening.name)
        if outlet is None or not (each := outlet.windkessel) or opening.name in boundary_schedule.coupled_mmhg_s_ml:
            continue
        waves = each.impedance_mmhg_s_ml(omega) * np.fft.rfft(flow_ml_s[:, k])
        made = (each.distal_pressure_mmhg + np.fft.irfft(waves, rows)) * PASCAL_PER_MMHG
        off = pressure_pa[:, k] - made
        mean_pa, moment_pa = abs(off.mean()), np.abs(off - off.mean()).max()
        scales = np.maximum((abs(made.mean()), widest_pa, np.ptp(made)), (between_pa, 0.0, 0.0))
        parts = np.array((mean_pa, moment_pa, moment_pa)) / np.maximum(scales, 1e-12)
        found[opening.name] = Off(float(mean_pa), float(parts[0]), float(moment_pa), float(parts[1]), float(parts[2]))
    return found


def not_of_windkessels(found: Mapping[str, Off], expected: Mapping[str, float]) -> list[str]:
    """Warnings of outlets whose pressure is not that of their Windkessel, by more than is known.

    Parameters
    ----------
    found : of :func:`off_windkessels`.
    expected : of :meth:`solver.run.sound.Pulse.apart`; 0 where it is not known.
    """
    warnings = []
    for name, off in found.items():
        differs = []
        if off.of_mean > MOST_APART:
            differs.append(f"its mean pressure differs by {off.mean_pa:.2g} Pa, {off.of_mean:.0%} of it,")
        if off.of_widest > MOST_APART and off.of_own > UNEXPECTED * expected.get(name, 0.0):
            differs.append(
                f"its pressure differs at a moment by {off.moment_pa:.2g} Pa, {off.of_widest:.0%} of the widest range"
                " of an opening's pressure,"
            )
        warnings += [
            f"outlet {name}: {each} from what its Windkessel makes of the flow (at most {MOST_APART:.0%} is wanted):"
            " what blood takes to speed up over half a spacing at the cap, or at a high grid Reynolds number in the"
            " layers there, counts beside so low pressures; a finer voxelize.spacing_mm lessens it"
            for each in differs
        ]
    return warnings


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
    slow = {name: o.windkessel for name, o in boundary_schedule.outlets.items() if o.windkessel}
    warnings = []
    for name, each in slow.items():
        wanted = CYCLES_PER_CONSTANT * each.time_constant_s / period_s
        if wanted > cycles:
            enough = _rounded_down(each.compliance_ml_mmhg * cycles / wanted)
            more = f"raise solve.cycles to {np.ceil(wanted):.0f}, or " if wanted < MOST_CYCLES else ""
            warnings.append(
                f"solve.outlets.{name}: the time constant {each.time_constant_s:.3g} s of its Windkessel is long for"
                f" {cycles} cycles of {period_s:.3g} s; {more}lower compliance_ml_mmhg to {enough:g}"
            )
    return warnings


def _rounded_down(value: float) -> float:
    """To two digits."""
    unit = 10.0 ** (floor(log10(value)) - 1)
    return floor(value / unit) * unit
