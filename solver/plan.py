"""Plan of a run: conditions matched to the openings, and everything chosen before the first step."""

from dataclasses import dataclass
from math import ceil, log
from typing import Any

import numpy as np

from solver.collision import COLLISIONS, choose_collision, relaxation_rates
from solver.conditions import Conditions, make_conditions, read_waves
from solver.d3q19 import VELOCITIES, WEIGHTS
from solver.forecast import settling_s
from solver.lattice import PRECISIONS
from solver.nodes import Nodes
from solver.settings import SolveSettings
from solver.stage import StageError
from solver.streaming import slip_links
from solver.units import ROWS_PER_CYCLE, Units, choose_units
from solver.walls import Vector
from solver.waveform import Inflow, common_period_s, expected_peak_speed_m_s, overshoots

TRANSITS = 15
"""Acoustic transits of the domain over which the inflow is raised."""
SETTLING = (2.0, 5.8, 9.9, 2.0)
"""Rate, in nu/R^2 with R of `wall_radius_mm`, at which a flow without openings settles, by the number of axes along
which it repeats: about in a cube, in a tube, between plates, about past a body."""


@dataclass(frozen=True)
class Plan:
    """What is known before the first step.

    Attributes
    ----------
    units : scales to SI.
    conditions : what holds at the openings.
    force : body force per volume, lattice units.
    moving : velocity of the patches of the wall that move, lattice units, by name.
    slip : names of the patches along which fluid slips.
    collision, magic, rates : the collision model, TRT's Lambda, (omega+, omega-).
    ramp_s : time over which the inflow is raised.
    period_s : period of the inflow; none if it is steady.
    viscous_steps : R^2/nu in steps, R the radius of the largest opening, or that of the walls without openings.
    interval : steps between two rows of the monitor; even.
    last_step : the run ends here at the latest; even.
    expected_steps : where it is expected to end: after all cycles, or when it is steady.
    numbers : dimensionless numbers and scales for the log and the summary.
    warnings : what the user should know.
    """

    units: Units
    conditions: Conditions
    force: Vector
    moving: dict[str, Vector]
    slip: tuple[str, ...]
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
    waves = read_waves(nodes, settings)
    inflow, period_s = waves.inflow, common_period_s({**waves.inflow, **waves.pressure_mmhg})
    moving_m_s, slip = _patches(nodes, settings)
    radius_m = max((o.radius_mm for o in nodes.openings), default=0.0) * 1e-3 or wall_radius_mm(nodes, slip) * 1e-3
    peak_speed = settings.peak_speed_m_s or _expected_speed(nodes, settings, inflow, moving_m_s, radius_m)
    length = float(np.linalg.norm(np.ptp(nodes.position, axis=0) + 1))
    units, warnings = choose_units(
        nodes.spacing_mm * 1e-3, peak_speed, settings.density_kg_m3, settings.viscosity_pa_s, settings.lattice_speed,
        length, period_s,
    )  # fmt: skip
    grid_reynolds = peak_speed * units.dx_m / units.viscosity_m2_s
    collision, magic = choose_collision(settings.collision, grid_reynolds, units.tau)
    ramp_s = settings.ramp_s
    if not inflow:
        ramp_s = 0.0
    elif ramp_s is None:
        ramp_s = max(TRANSITS * length * 3**0.5 * units.dt_s, (period_s or 0) / 4)
    conditions, said = make_conditions(nodes, settings, waves, units, ramp_s, period_s)
    warnings += overshoots(inflow) + said
    viscous_steps = radius_m**2 / units.viscosity_m2_s / units.dt_s
    last_step = _last_step(settings, units, period_s, ramp_s, warnings)
    interval = _even(period_s / units.dt_s / ROWS_PER_CYCLE if period_s else max(100, viscous_steps / 100))
    expected_steps = last_step
    if period_s is None:
        rate = SETTLING[sum(nodes.periodic)]
        settled_s = max(0.0, log(rate / settings.steady_tolerance)) / rate * viscous_steps * units.dt_s
        if inflow:
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
        conditions=conditions,
        force=_scaled(settings.force_n_m3, units.dx_m / units.stress_pa),
        moving={name: _scaled(velocity, 1 / units.speed_m_s) for name, velocity in moving_m_s.items()},
        slip=slip,
        collision=collision,
        magic=magic,
        rates=relaxation_rates(units.tau, magic),
        ramp_s=ramp_s,
        period_s=period_s,
        viscous_steps=viscous_steps,
        interval=interval,
        last_step=last_step,
        expected_steps=expected_steps,
        numbers=_numbers(nodes, units, inflow, peak_speed, radius_m, ramp_s, settings),
        warnings=warnings,
    )


def _scaled(vector: Vector, factor: float) -> Vector:
    x, y, z = vector
    return x * factor, y * factor, z * factor


def _patches(nodes: Nodes, settings: SolveSettings) -> tuple[dict[str, Vector], tuple[str, ...]]:
    """Velocity of the patches that move, m/s, by name; and names of those along which fluid slips."""
    if unknown := sorted(settings.patches.keys() - {*nodes.patches}):
        there = f"there are {', '.join(nodes.patches)}" if nodes.patches else "this geometry has none"
        raise StageError(f"solve.patches: no patch of the wall is called {', '.join(unknown)}; {there}")
    moving = {name: patch.velocity_m_s for name, patch in settings.patches.items() if patch.velocity_m_s}
    return moving, tuple(name for name, patch in settings.patches.items() if patch.slip)


def wall_radius_mm(nodes: Nodes, slip: tuple[str, ...] = ()) -> float:
    """Twice the volume over the area of the walls that hold the fluid: R of a tube, H between plates.

    The area is the sum of 6 w_i |c_i . n| over the wall links, n from the mean of the links of each node. Where the
    lattice repeats along all axes, or nothing holds the fluid, half its longest side at most.
    """
    holds = ~slip_links(nodes, slip)
    node, direction = nodes.wall_link_node[holds], nodes.wall_link_direction[holds]
    velocity, weight = VELOCITIES[direction].astype(np.float64), WEIGHTS[direction]
    normal = np.stack([np.bincount(node, weight * velocity[:, k], nodes.count) for k in range(3)], axis=1)
    normal = normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-12)
    area = float((6 * weight * np.abs((velocity * normal[node]).sum(axis=1))).sum())
    longest = max(nodes.shape) / 2
    radius = 2 * nodes.count / area if area else longest
    return nodes.spacing_mm * (min(radius, longest) if all(nodes.periodic) else radius)


def _expected_speed(
    nodes: Nodes, settings: SolveSettings, inflow: dict[str, Inflow], moving_m_s: dict[str, Vector], radius_m: float
) -> float:
    """Peak speed, m/s: of inflow, fastest wall, and of the force, F R^2/(4 mu) in a tube, F H^2/(8 mu) between plates.

    Raises
    ------
    StageError
        If nothing drives the flow, or that speed cannot be told.
    """
    speed = max((float(np.linalg.norm(velocity)) for velocity in moving_m_s.values()), default=0.0)
    if inflow:
        speed += expected_peak_speed_m_s(nodes.openings, inflow)
    if force := float(np.linalg.norm(settings.force_n_m3)):
        if all(nodes.periodic):
            raise StageError(
                "solve.peak_speed_m_s: missing; how fast the force drives the fluid through a geometry that repeats"
                " along x, y and z is not known beforehand: give the largest speed that you expect"
            )
        speed += force * radius_m**2 / ((8 if sum(nodes.periodic) == 2 else 4) * settings.viscosity_pa_s)
    if not speed > 0:
        raise StageError(
            "solve: nothing drives the flow, which has no openings; give force_n_m3, or the velocity_m_s of one of"
            f" patches ({', '.join(nodes.patches) or 'this geometry has none'})"
        )
    return speed


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
    radius_m: float,
    ramp_s: float,
    settings: SolveSettings,
) -> dict[str, float]:
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
        "grid_reynolds": peak_speed * units.dx_m / units.viscosity_m2_s,
        **(_opening_numbers(nodes, units, inflow) if inflow else {"wall_radius_mm": 1e3 * radius_m}),
        "ramp_s": ramp_s,
    }
    if period := common_period_s(inflow):
        omega = 2 * np.pi / period
        numbers["period_s"] = period
        numbers["steps_per_cycle"] = period / units.dt_s
        largest = max((o for o in nodes.openings if o.role == "inlet"), key=lambda opening: opening.radius_mm)
        numbers["womersley"] = 1e-3 * largest.radius_mm * float(np.sqrt(omega / units.viscosity_m2_s))
    return {name: float(value) for name, value in numbers.items()}


def _opening_numbers(nodes: Nodes, units: Units, inflow: dict[str, Inflow]) -> dict[str, float]:
    largest = max((o for o in nodes.openings if o.role == "inlet"), key=lambda opening: opening.radius_mm)
    smallest = min(opening.radius_mm for opening in nodes.openings)
    mean_speed, diameter_m = inflow[largest.name].peak_ml_s / largest.area_mm2, 2e-3 * largest.radius_mm
    return {
        "reynolds": mean_speed * diameter_m / units.viscosity_m2_s,
        "nodes_across_inlet": diameter_m / units.dx_m,
        "nodes_across_smallest_opening": 2e-3 * smallest / units.dx_m,
    }


def table(numbers: dict[str, Any]) -> str:
    """The numbers as lines for the log."""
    width = max(len(name) for name in numbers)
    return "\n".join(f"  {name.ljust(width)}  {value:.5g}" for name, value in numbers.items())
