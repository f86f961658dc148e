"""Plan of a run: conditions matched to the openings, and everything chosen before the first step."""

from dataclasses import dataclass, replace
from math import ceil, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.blood import Blood, choose_blood
from solver.collision import COLLISIONS, choose_collision, relaxation_rates
from solver.conditions import Conditions, Waves, deviation_pa, make_conditions, read_waves
from solver.forecast import settling_s
from solver.lattice import PRECISIONS
from solver.node_physics import EQUILIBRIA
from solver.nodes import Nodes
from solver.openings import BLEND_LAYERS, inlet_blend
from solver.rheology import Rheology, make_rheology
from solver.schedule import Schedule, make_schedule, moments_per_cycle, rows_per_cycle
from solver.sections import Sections, find_sections, wall_areas
from solver.settings import SolveSettings
from solver.stage import StageError
from solver.storage import GOOD_KEPT, LEAST_KEPT, kept_by_halves
from solver.streaming import slip_links
from solver.units import Units, choose_units, words
from solver.walls import Vector
from solver.waveform import Inflow, common_period_s, expected_peak_speed_m_s, overshoots

TRANSITS = 15
"""Acoustic transits of the domain over which the inflow is raised."""
UNSETTLED = ("refuse", "report")
"""What is done with a flow that has not settled when its steps or cycles are over."""
SETTLING = (2.0, 5.8, 9.9, 2.0)
"""Rate, in nu/R^2 with R of `wall_radius_mm`, at which a flow without openings settles, by the number of axes along
which it repeats: about in a cube, in a tube, between plates, about past a body."""
SLOW = 0.1
"""Part of the peak speed that flow in sacs and in diastole has, which halves must still carry."""
NARROWER = 1.25
"""A section counts as narrower than the openings where its mean speed is larger by this factor."""
WAVE_SAMPLES = 1000
"""Of a period, at which flow and its change in time are looked at."""


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
    blood : how viscosity depends on the shear rate.
    rheology : the same in lattice units, and eddies; none if the viscosity is the same everywhere.
    collision, magic, rates : the collision model, TRT's Lambda, (omega+, omega-).
    ramp_s : time over which the inflow is raised.
    period_s : period of the inflow; none if it is steady.
    viscous_steps : R^2/nu in steps, R the radius of the largest opening, or that of the walls without openings.
    schedule : when the run is looked at, averaged and written, and may stop.
    expected_steps : where it is expected to end: after all cycles, or when it is steady.
    numbers : dimensionless numbers and scales for the log and the summary.
    notes : what was chosen for the user.
    warnings : what the user should mend, or know before the result is used.
    """

    units: Units
    conditions: Conditions
    force: Vector
    moving: dict[str, Vector]
    slip: tuple[str, ...]
    blood: Blood
    rheology: Rheology | None
    collision: str
    magic: float
    rates: tuple[float, float]
    ramp_s: float
    period_s: float | None
    viscous_steps: float
    schedule: Schedule
    expected_steps: int
    numbers: dict[str, float]
    notes: list[str]
    warnings: list[str]

    @property
    def full_flow(self) -> NDArray[np.float64]:
        """Conditions of a step once the inflow is raised, (columns,)."""
        last = ceil(self.ramp_s / self.units.dt_s) + 1
        return self.conditions.at(last, last + 1)[0]


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
    if settings.equilibrium not in EQUILIBRIA:
        raise StageError(f"solve.equilibrium {settings.equilibrium!r}: unknown; known are {', '.join(EQUILIBRIA)}")
    if settings.unsettled not in UNSETTLED:
        raise StageError(f"solve.unsettled {settings.unsettled!r}: unknown; known are {', '.join(UNSETTLED)}")
    chosen = settings.blood
    blood = choose_blood(chosen.model, chosen.set, chosen.parameters, settings.viscosity_pa_s)
    waves = read_waves(nodes, settings)
    inflow, period_s = waves.inflow, common_period_s({**waves.inflow, **waves.pressure_mmhg})
    moving_m_s, slip = _patches(nodes, settings)
    radius_m = max((o.radius_mm for o in nodes.openings), default=0.0) * 1e-3 or wall_radius_mm(nodes, slip) * 1e-3
    sections = find_sections(nodes) if inflow else None
    settings = replace(settings, viscosity_pa_s=_viscosity_under_force(settings, blood, radius_m))
    peak_speed = settings.peak_speed_m_s or _expected_speed(nodes, settings, inflow, sections, moving_m_s, radius_m)
    shear_rate = 2 * peak_speed / radius_m
    settings = replace(settings, viscosity_pa_s=float(blood.viscosity_pa_s(shear_rate)))
    along_pa = _expected_pressure_pa(nodes, settings, waves, sections, period_s) if sections else 0.0
    pressure_pa = along_pa
    length = float(np.linalg.norm(np.ptp(nodes.position, axis=0) + 1))
    rows = rows_per_cycle(settings, period_s)
    for _ in range(2):  # what outlets add to the pressure is known once there is a time step
        units, notes, warnings = choose_units(
            nodes.spacing_mm * 1e-3, peak_speed, settings.density_kg_m3, settings.viscosity_pa_s,
            settings.lattice_speed, length, period_s, moments_per_cycle(rows), pressure_pa,
        )  # fmt: skip
        ramp_s = _ramp_s(settings, inflow, length * 3**0.5 * units.dt_s, period_s)
        conditions, said = make_conditions(nodes, settings, waves, units, ramp_s, period_s)
        pressure_pa = along_pa + deviation_pa(conditions)
    if settings.precision == "fp16":
        warnings += _check_halves(units, peak_speed, radius_m, along_pa)
    if blood.model != "newtonian":
        notes.append(
            f"{blood.model} blood ({blood.source}): tau, Reynolds and Womersley numbers are those of its viscosity,"
            f" {settings.viscosity_pa_s:.4g} Pa s, at the shear rate 2 U/R = {shear_rate:.4g} 1/s"
        )
    grid_reynolds = peak_speed * units.dx_m / units.viscosity_m2_s
    collision, magic = choose_collision(settings.collision, grid_reynolds, units.tau, settings.magic)
    warnings += overshoots(inflow) + said
    notes += [
        f"solve.inlets.{name}: the flow turns back ({inflow[name].minimum_ml_s:.3g} mL/s); to keep it stable, tau is"
        f" raised towards 1 over {BLEND_LAYERS} layers of nodes there, which costs accuracy within them"
        for name in conditions.reversing
    ]
    viscous_steps = radius_m**2 / units.viscosity_m2_s / units.dt_s
    inflow_at_rows = waves.flow_ml_s(np.arange(1, rows + 1) / rows * (period_s or 0.0))
    schedule = make_schedule(settings, units.dt_s, viscous_steps, period_s, inflow_at_rows)
    warnings += _few_cycles(settings, period_s, ramp_s)
    expected_steps = _expected_steps(nodes, settings, units, waves, schedule, length, radius_m, ramp_s)
    if period_s is None and expected_steps > schedule.last:
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
        blood=blood,
        rheology=make_rheology(
            blood.model,
            blood.scaled(units.stress_pa, units.dt_s),
            units.tau,
            magic,
            settings.smagorinsky or 0.0,
            inlet_blend(nodes, conditions.reversing),
        ),
        collision=collision,
        magic=magic,
        rates=relaxation_rates(units.tau, magic),
        ramp_s=ramp_s,
        period_s=period_s,
        viscous_steps=viscous_steps,
        schedule=schedule,
        expected_steps=expected_steps,
        numbers=_numbers(
            nodes,
            units,
            waves,
            period_s,
            peak_speed,
            pressure_pa,
            radius_m,
            length,
            ramp_s,
            magic if collision in ("trt", "bgk") else None,
            sections,
            settings,
        ),
        notes=notes,
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


def _viscosity_under_force(settings: SolveSettings, blood: Blood, radius_m: float) -> float:
    """Viscosity, Pa s, at the shear stress F R/2 at the walls between which a force drives the fluid.

    Raises
    ------
    StageError
        If this stress does not make it flow.
    """
    force = float(np.linalg.norm(settings.force_n_m3))
    if blood.model == "newtonian" or not force:
        return settings.viscosity_pa_s
    stress = force * radius_m / 2
    if not (rate := blood.shear_rate_1_s(stress)):
        raise StageError(
            f"solve.force_n_m3: {force:.3g} N/m3 make a stress of {stress:.3g} Pa at the walls, {2e3 * radius_m:.3g} mm"
            f" apart, at which {blood.model} blood does not flow (yield stress"
            f" {blood.parameters.get('yield_stress_pa', 0):.3g} Pa); raise it"
        )
    return stress / rate


def _check_halves(units: Units, peak_speed: float, radius_m: float, along_pa: float) -> list[str]:
    """What to say of a flow whose populations are kept as halves.

    Raises
    ------
    StageError
        If it would stall where it is slow.
    """
    speed, radius = SLOW * peak_speed / units.speed_m_s, radius_m / units.dx_m
    friction = 4 * (units.tau - 0.5) / 3 * speed / radius**2
    drho = along_pa / units.pressure_pa
    kept = kept_by_halves(friction, drho, speed)
    told = (
        f"solve.precision fp16: where the flow is slow, {SLOW * peak_speed:.3g} m/s, friction changes a population in a"
        f" step by {kept:.2g} of half its last digit (beside a density deviation of {drho:.2g})"
    )
    if kept < LEAST_KEPT:
        raise StageError(f"{told}, less than {LEAST_KEPT}, so that it would stall; set solve.precision to fp32")
    if kept < GOOD_KEPT:
        return [f"{told}, less than {GOOD_KEPT:g}: pressures, and speeds of what a force drives, may be 10 % off"]
    return []


def wall_radius_mm(nodes: Nodes, slip: tuple[str, ...] = ()) -> float:
    """Twice the volume over the area of the walls that hold the fluid: R of a tube, H between plates.

    Where the lattice repeats along all axes, or nothing holds the fluid, half its longest side at most.
    """
    area = float(wall_areas(nodes, ~slip_links(nodes, slip)).sum())
    longest = max(nodes.shape) / 2
    radius = 2 * nodes.count / area if area else longest
    return nodes.spacing_mm * (min(radius, longest) if all(nodes.periodic) else radius)


def _out(nodes: Nodes, inflow: dict[str, Inflow], total: float) -> dict[int, float]:
    """What leaves through each opening by its index where so much enters in total: by area, or as inlets peak."""
    peak = sum(flow.peak_ml_s for flow in inflow.values())
    area = sum(o.area_mm2 for o in nodes.openings if o.role == "outlet")
    return {
        k: -total * inflow[o.name].peak_ml_s / peak if o.role == "inlet" else total * o.area_mm2 / area
        for k, o in enumerate(nodes.openings)
    }


def _expected_speed(
    nodes: Nodes,
    settings: SolveSettings,
    inflow: dict[str, Inflow],
    sections: Sections | None,
    moving_m_s: dict[str, Vector],
    radius_m: float,
) -> float:
    """Peak speed, m/s: of inflow, fastest wall, and of the force, F R^2/(4 mu) in a tube, F H^2/(8 mu) between plates.

    That of the inflow is twice the largest mean speed over the openings, or over the narrowest section.

    Raises
    ------
    StageError
        If nothing drives the flow, or that speed cannot be told.
    """
    speed = max((float(np.linalg.norm(velocity)) for velocity in moving_m_s.values()), default=0.0)
    if inflow and sections:
        openings = expected_peak_speed_m_s(nodes.openings, inflow)
        narrowest = 2 * sections.speed_m_s(_out(nodes, inflow, _peak_m3_s(inflow)))
        speed += narrowest if narrowest > NARROWER * openings else openings
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


def _peak_m3_s(inflow: dict[str, Inflow]) -> float:
    return 1e-6 * sum(flow.peak_ml_s for flow in inflow.values())


def _expected_pressure_pa(
    nodes: Nodes, settings: SolveSettings, waves: Waves, sections: Sections, period_s: float | None
) -> float:
    """Largest pressure along the vessel: by friction at peak flow and the pressure that its largest speed takes, or by
    what changes the flow the fastest.
    """
    out = _out(nodes, waves.inflow, _peak_m3_s(waves.inflow))
    dynamic = settings.density_kg_m3 * sections.speed_m_s(out) ** 2 / 2
    friction = sections.friction_pa(out, settings.viscosity_pa_s) + dynamic
    if period_s is None:
        return friction
    times = np.arange(WAVE_SAMPLES + 1) / WAVE_SAMPLES * period_s
    fastest = 1e-6 * float(np.abs(np.diff(waves.flow_ml_s(times))).max() / times[1])
    return max(friction, sections.inertia_pa(_out(nodes, waves.inflow, fastest), settings.density_kg_m3))


def _ramp_s(settings: SolveSettings, inflow: dict[str, Inflow], crossing_s: float, period_s: float | None) -> float:
    """Time over which the inflow is raised, in terms of that in which a pressure wave crosses the domain."""
    if not inflow:
        return 0.0
    usual = max(TRANSITS * crossing_s, (period_s or 0) / 4)
    return usual if settings.ramp_s is None else settings.ramp_s


def _few_cycles(settings: SolveSettings, period_s: float | None, ramp_s: float) -> list[str]:
    if period_s is None or (settings.cycles >= 3 and ramp_s <= (settings.cycles - 2) * period_s):
        return []
    return [
        f"at most {settings.cycles} cycles with a ramp of {ramp_s:.3g} s leave little time to become periodic; three"
        " cycles or more are usual: raise solve.cycles"
    ]


def _expected_steps(
    nodes: Nodes,
    settings: SolveSettings,
    units: Units,
    waves: Waves,
    schedule: Schedule,
    length: float,
    radius_m: float,
    ramp_s: float,
) -> int:
    """Steps until the flow is steady, or has repeated: one cycle more than it takes to settle."""
    viscous_s = radius_m**2 / units.viscosity_m2_s
    rate = SETTLING[sum(nodes.periodic)]
    tolerance = settings.periodic_tolerance if schedule.cycle else settings.steady_tolerance
    settled_s = max(0.0, log(rate / tolerance)) / rate * viscous_s
    if waves.inflow:
        speed = max(waves.inflow[o.name].peak_ml_s / o.area_mm2 for o in nodes.openings if o.role == "inlet")
        settled_s = ramp_s + settling_s(
            length * units.dx_m, radius_m, units.viscosity_m2_s, units.speed_m_s / 3**0.5, speed, ramp_s, tolerance
        )
    steps = settled_s / units.dt_s
    if schedule.cycle:
        cycles = min(max(ceil(steps / schedule.cycle) + 1, schedule.least_cycles), schedule.cycles)
        return cycles * schedule.cycle
    return ceil(steps / schedule.interval) * schedule.interval


def _numbers(
    nodes: Nodes,
    units: Units,
    waves: Waves,
    period_s: float | None,
    peak_speed: float,
    pressure_pa: float,
    radius_m: float,
    length: float,
    ramp_s: float,
    magic: float | None,
    sections: Sections | None,
    settings: SolveSettings,
) -> dict[str, float]:
    crossing_s = length * 3**0.5 * units.dt_s
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
        **({"magic": magic} if magic else {}),
        **(_opening_numbers(nodes, units, waves.inflow) if waves.inflow else {"wall_radius_mm": 1e3 * radius_m}),
    }
    if sections and np.isfinite(sections.narrowest_m2):
        numbers["nodes_across_narrowest_section"] = 2 * float(np.sqrt(sections.narrowest_m2 / np.pi)) / units.dx_m
    if sections:
        numbers |= {
            "expected_pressure_difference_pa": pressure_pa,
            "expected_drho": pressure_pa / units.pressure_pa,
        }
    numbers |= {"acoustic_transit_s": crossing_s, "ramp_s": ramp_s}
    if period_s and waves.inflow:
        omega = 2 * np.pi / period_s
        numbers["period_s"] = period_s
        numbers["steps_per_cycle"] = period_s / units.dt_s
        numbers["acoustic_transits_per_cycle"] = period_s / crossing_s
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
    """The numbers as lines for the log, in words with their units."""
    width = max(len(words(name)) for name in numbers)
    return "\n".join(f"  {words(name).ljust(width)}  {value:.5g}" for name, value in numbers.items())
