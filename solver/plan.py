"""Plan of a run: conditions matched to the openings, and everything chosen before the first step."""

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from solver.collision import COLLISIONS, choose_collision, relaxation_rates
from solver.forecast import settling_s
from solver.lattice import PRECISIONS
from solver.nodes import Nodes
from solver.settings import SolveSettings
from solver.stage import StageError
from solver.units import MAX_DRHO, PASCAL_PER_MMHG, ROWS_PER_CYCLE, Units, choose_units
from solver.waveform import Inflow, by_opening, common_period_s, expected_peak_speed_m_s, read_inflow

TRANSITS = 15
"""Acoustic transits of the domain over which the inflow is raised."""


@dataclass(frozen=True)
class Plan:
    """What is known before the first step.

    Attributes
    ----------
    units : scales to SI.
    inflow : flow through each inlet, by name.
    profiles : velocity profile of each inlet, by name.
    pressure_pa : pressure on each outlet, by name.
    reference_pa : pressure that is zero on the lattice, the mean of the outlets'.
    collision, magic, rates : the collision model, TRT's Lambda, (omega+, omega-).
    ramp_s : time over which the inflow is raised.
    period_s : period of the inflow; none if it is steady.
    viscous_steps : R^2/nu in steps, R the radius of the largest opening.
    interval : steps between two rows of the monitor; even.
    last_step : the run ends here at the latest; even.
    expected_steps : where it is expected to end: after all cycles, or when it is steady.
    numbers : dimensionless numbers and scales for the log and the summary.
    warnings : what the user should know.
    """

    units: Units
    inflow: dict[str, Inflow]
    profiles: dict[str, str]
    pressure_pa: dict[str, float]
    reference_pa: float
    collision: str
    magic: float
    rates: tuple[float, float]
    ramp_s: float
    period_s: float | None
    viscous_steps: float
    interval: int
    last_step: int
    expected_steps: int
    numbers: dict[str, float]
    warnings: list[str]


def make_plan(nodes: Nodes, settings: SolveSettings) -> Plan:
    """Choose units, models and times for a geometry.

    Raises
    ------
    StageError
        If conditions do not fit the openings, or the flow cannot be run as asked.
    """
    if settings.collision != "auto" and settings.collision not in COLLISIONS:
        raise StageError(f"solve.collision {settings.collision!r}: unknown; known are auto, {', '.join(COLLISIONS)}")
    if settings.precision not in PRECISIONS:
        raise StageError(f"solve.precision {settings.precision!r}: unknown; known are {', '.join(PRECISIONS)}")
    inlets = by_opening(nodes.openings, "inlet", settings.inlets)
    outlets = by_opening(nodes.openings, "outlet", settings.outlets)
    inflow = {name: read_inflow(entry) for name, entry in inlets.items()}
    period_s = common_period_s(inflow)
    peak_speed = settings.peak_speed_m_s or expected_peak_speed_m_s(nodes.openings, inflow)
    length = float(np.linalg.norm(np.ptp(nodes.position, axis=0) + 1))
    units, warnings = choose_units(
        nodes.spacing_mm * 1e-3, peak_speed, settings.density_kg_m3, settings.viscosity_pa_s, settings.lattice_speed,
        length, period_s,
    )  # fmt: skip
    grid_reynolds = peak_speed * units.dx_m / units.viscosity_m2_s
    collision, magic = choose_collision(settings.collision, grid_reynolds, units.tau)
    ramp_s = settings.ramp_s
    if ramp_s is None:
        ramp_s = max(TRANSITS * length * 3**0.5 * units.dt_s, (period_s or 0) / 4)
    pressure_pa = {name: entry.pressure_mmhg * PASCAL_PER_MMHG for name, entry in outlets.items()}
    reference_pa = float(np.mean(list(pressure_pa.values())))
    _check_pressures(pressure_pa, reference_pa, units)
    radius_m = max(opening.radius_mm for opening in nodes.openings) * 1e-3
    viscous_steps = radius_m**2 / units.viscosity_m2_s / units.dt_s
    last_step = _last_step(settings, units, period_s, ramp_s, warnings)
    interval = _even(period_s / units.dt_s / ROWS_PER_CYCLE if period_s else max(100, viscous_steps / 100))
    expected_steps = last_step
    if period_s is None:
        speed = max(inflow[o.name].peak_ml_s / o.area_mm2 for o in nodes.openings if o.role == "inlet")
        settled_s = ramp_s + settling_s(
            length * units.dx_m, radius_m, units.viscosity_m2_s, units.speed_m_s / 3**0.5, speed, ramp_s,
            settings.steady_tolerance,
        )  # fmt: skip
        expected_steps = ceil(settled_s / units.dt_s / interval) * interval
        if expected_steps > last_step:
            warnings.append(
                f"about {expected_steps} steps are expected until the flow is steady, above solve.max_steps "
                f"{settings.max_steps}; raise it, or choose a coarser spacing"
            )
    return Plan(
        units=units,
        inflow=inflow,
        profiles={name: entry.profile for name, entry in inlets.items()},
        pressure_pa=pressure_pa,
        reference_pa=reference_pa,
        collision=collision,
        magic=magic,
        rates=relaxation_rates(units.tau, magic),
        ramp_s=ramp_s,
        period_s=period_s,
        viscous_steps=viscous_steps,
        interval=interval,
        last_step=last_step,
        expected_steps=expected_steps,
        numbers=_numbers(nodes, units, inflow, peak_speed, ramp_s, settings),
        warnings=warnings,
    )


def _check_pressures(pressure_pa: dict[str, float], reference_pa: float, units: Units) -> None:
    name = max(pressure_pa, key=lambda key: abs(pressure_pa[key] - reference_pa))
    drho = abs(pressure_pa[name] - reference_pa) / units.pressure_pa
    if drho > MAX_DRHO:
        raise StageError(
            f"solve.outlets.{name}: pressure {pressure_pa[name] / PASCAL_PER_MMHG:g} mmHg is "
            f"{abs(pressure_pa[name] - reference_pa):.3g} Pa off the outlets' mean, {drho:.2g} of the lattice's "
            f"density (at most {MAX_DRHO}); lower solve.lattice_speed {(drho / MAX_DRHO) ** 0.5:.1f} times, or it"
        )


def _last_step(
    settings: SolveSettings, units: Units, period_s: float | None, ramp_s: float, warnings: list[str]
) -> int:
    if period_s is None:
        return max(2, settings.max_steps // 2 * 2)
    steps = _even(settings.cycles * period_s / units.dt_s)
    if steps > settings.max_steps:
        raise StageError(
            f"solve.cycles {settings.cycles} of {period_s:g} s need {steps} steps, above solve.max_steps "
            f"{settings.max_steps}; raise it, or choose a coarser spacing"
        )
    if settings.cycles < 3 or ramp_s > (settings.cycles - 2) * period_s:
        warnings.append(
            f"{settings.cycles} cycles with a ramp of {ramp_s:.3g} s leave little time to become periodic; "
            "three cycles or more are usual"
        )
    return steps


def _even(steps: float) -> int:
    return 2 * max(1, round(steps / 2))


def _numbers(
    nodes: Nodes,
    units: Units,
    inflow: dict[str, Inflow],
    peak_speed: float,
    ramp_s: float,
    settings: SolveSettings,
) -> dict[str, float]:
    inlets = [opening for opening in nodes.openings if opening.role == "inlet"]
    largest = max(inlets, key=lambda opening: opening.radius_mm)
    smallest = min(opening.radius_mm for opening in nodes.openings)
    mean_speed, diameter_m = inflow[largest.name].peak_ml_s / largest.area_mm2, 2e-3 * largest.radius_mm
    numbers = {
        "fluid_nodes": nodes.count,
        "spacing_mm": nodes.spacing_mm,
        "time_step_s": units.dt_s,
        "tau": units.tau,
        "density_kg_m3": settings.density_kg_m3,
        "viscosity_m2_s": units.viscosity_m2_s,
        "expected_peak_speed_m_s": peak_speed,
        "expected_peak_speed_lattice": peak_speed / units.speed_m_s,
        "expected_mach": peak_speed / units.speed_m_s * 3**0.5,
        "reynolds": mean_speed * diameter_m / units.viscosity_m2_s,
        "grid_reynolds": peak_speed * units.dx_m / units.viscosity_m2_s,
        "nodes_across_inlet": diameter_m / units.dx_m,
        "nodes_across_smallest_opening": 2e-3 * smallest / units.dx_m,
        "ramp_s": ramp_s,
    }
    if period := common_period_s(inflow):
        omega = 2 * np.pi / period
        numbers["period_s"] = period
        numbers["steps_per_cycle"] = period / units.dt_s
        numbers["womersley"] = diameter_m / 2 * float(np.sqrt(omega / units.viscosity_m2_s))
    return {name: float(value) for name, value in numbers.items()}


def table(numbers: dict[str, Any]) -> str:
    """The numbers as lines for the log."""
    width = max(len(name) for name in numbers)
    return "\n".join(f"  {name.ljust(width)}  {value:.5g}" for name, value in numbers.items())
