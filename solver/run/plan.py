"""Plan of a run: a boundary schedule matched to the openings, and everything chosen before the first step."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.driver import Fields
from solver.backends.lattice import PRECISIONS
from solver.boundary.openings import BLEND_LAYERS, inlet_blend, outlet_blend
from solver.boundary.walls import Vector
from solver.boundary.waveform import Inflow, Waveforms, common_period_s, overshoots, read_waveforms
from solver.boundary.windkessel import outlets_of
from solver.domain.addresses import slip_links
from solver.domain.nodes import Nodes
from solver.domain.sections import Sections, find_sections, wall_areas, widest_radius_mm
from solver.kernels.collision import relaxation_rates
from solver.kernels.node_physics import EQUILIBRIA
from solver.kernels.rheology import Rheology, make_rheology
from solver.kernels.storage import GOOD_FP16_MARGIN, LEAST_FP16_MARGIN, fp16_margin
from solver.run.blood import Blood, choose_blood
from solver.run.boundary_schedule import BoundarySchedule, deviation_pa, make_boundary_schedule
from solver.run.expected import leaving_m3_s, peak_speed_m_s, speed_at_openings_m_s
from solver.run.forecast import profile_rate, raised_s, settling_s
from solver.run.models import OUTLET_REYNOLDS, Models, choose_models, choose_velocity_set
from solver.run.schedule import Schedule, make_schedule, moments_per_cycle, rows_per_cycle
from solver.run.settings import SolveSettings
from solver.run.sound import Loss, Pulse, too_lossy
from solver.run.units import Units, choose_units, under_resolved, words
from solver.runtime.errors import StageError

TRANSITS = 15
"""Acoustic transits of the domain over which inflow and moving walls are raised."""
STARTS = ("auto", "rest", "coarse")
"""What a run begins with: fluid at rest, or the flow on a lattice of twice the spacing."""
UNSETTLED = ("refuse", "report")
"""What is done with a flow that has not settled when its steps or cycles are over."""
SETTLING, TURNING = (9.0, 5.8, 9.9), 0.036
"""Rate, in nu/R^2 with R of `wall_radius_mm`, at which a flow without openings settles, by the number of axes along
which it repeats: in a cube, in a tube, between plates; and what moving walls of speed U add, in U/R, by turning the
fluid over."""
SEPARATED, WIDER = 14.0, 1.5
"""Rate at which flow behind a widening settles, in nu/R^2 with R of `wall_radius_mm`; and the largest opening over the
narrowest section, in area, that counts as one."""
SLOW = 0.1
"""Part of the peak speed that flow in sacs and in diastole has, which fp16 must still carry."""
TURN = 0.01
"""Part of the viscous time that a flow-through time of a closed domain is at least."""
ACCURATE, DROP_ERROR = 10.0, 0.005
"""Grid Reynolds number above which a warning says how far off its pressure drop may be, and that error over the grid
Reynolds number: the largest of pipe, bend, fork and stenosis against half the spacing, see
docs/validation/stability.md."""
WAVEFORM_SAMPLES = 1000
"""Of a period, at which flow and its change in time are evaluated."""


@dataclass(frozen=True)
class Plan:
    """What is known before the first step.

    Attributes
    ----------
    units : scales to SI.
    boundary_schedule : what holds at the openings.
    force : body force per volume, lattice units.
    moving : velocity of the patches of the wall that move, lattice units, by name.
    slip : names of the patches along which fluid slips.
    blood : how viscosity depends on the shear rate.
    rheology : the same in lattice units, and eddies; none if the viscosity is the same everywhere.
    models, safer : collision and what damps the flow, and the safer ones that are left, in their order.
    ramp_s : time over which inflow and moving walls are raised.
    period_s : period of the inflow; none if it is steady.
    viscous_steps : R^2/nu in steps, R the radius of the largest opening, or that of the walls without openings.
    through_steps : a flow-through time: volume over inflow, or the time in which the driver crosses the domain.
    schedule : when the run is observed, averaged and written, and may stop.
    expected_steps : where it is expected to end: after all cycles, or when it is steady.
    numbers : dimensionless numbers and scales for the log and the summary.
    out_m3_s : what is expected to leave through each opening by its index at the largest flow; none without inflow.
    pulse : the flow as it pulsates, of which the lattice's compressibility takes a part; none of a steady one.
    notes : what was chosen for the user.
    warnings : what the user should repair, or know before the result is used.
    foreseen : those of both that only hold before the run: what it measures takes their place.
    """

    units: Units
    boundary_schedule: BoundarySchedule
    force: Vector
    moving: dict[str, Vector]
    slip: tuple[str, ...]
    blood: Blood
    rheology: Rheology | None
    models: Models
    safer: tuple[Models, ...]
    q: int
    ramp_s: float
    period_s: float | None
    viscous_steps: float
    through_steps: float
    schedule: Schedule
    expected_steps: int
    numbers: dict[str, float]
    out_m3_s: dict[int, float]
    pulse: Pulse | None
    notes: list[str]
    warnings: list[str]
    foreseen: tuple[str, ...] = ()

    @property
    def has_openings(self) -> bool:
        """Whether the flow is driven through openings, so that there are pressure drops."""
        return bool(self.boundary_schedule.waveforms.inflow)

    @property
    def shear_limit(self) -> float | None:
        """Shear rate above which an eddy viscosity acts, lattice units; none if there is none."""
        return self.models.onset * (self.units.tau - 0.5) / 3 if self.models.eddies else None

    def shear_rate(self, fields: Fields) -> NDArray[np.floating]:
        """Shear rate sqrt(2 S:S) at each node, (N,), lattice units, where the viscosity varies."""
        assert fields.viscosity is not None
        xx, yy, zz, xy, xz, yz = (1 - 0.5 / self.units.tau) * fields.stress
        size = np.sqrt((xx**2 + yy**2 + zz**2) / 2 + xy**2 + xz**2 + yz**2)
        return np.asarray(size / fields.viscosity)

    @property
    def usual_ramp_s(self) -> float:
        """Time over which the inflow is raised where nothing else is asked for."""
        return max(TRANSITS * self.numbers["acoustic_transit_s"], (self.period_s or 0.0) / 4)

    @property
    def rates(self) -> tuple[float, float]:
        """(omega+, omega-) at the viscosity that units are chosen by."""
        return relaxation_rates(self.units.tau, self.models.lambda_trt)

    @property
    def losses(self) -> dict[str, Loss]:
        """What outlets are expected to lack for the lattice's compressibility, by name."""
        return self.pulse.losses(self.units.dt_s) if self.pulse else {}

    @property
    def full_flow(self) -> NDArray[np.float64]:
        """Conditions of a step once the inflow is raised, (columns,)."""
        last = ceil(self.ramp_s / self.units.dt_s) + 1
        return self.boundary_schedule.at(last, last + 1)[0]

    def at_full_flow(self) -> "Plan":
        """The same plan with nothing raised, for a run that begins with a flow."""
        boundary_schedule = replace(self.boundary_schedule, ramp_s=0.0)
        return replace(self, ramp_s=0.0, boundary_schedule=boundary_schedule, numbers=self.numbers | {"ramp_s": 0.0})


def make_plan(nodes: Nodes, settings: SolveSettings, least_rung: int = 0) -> Plan:
    """Choose units, models and times for a geometry; models from a rung of the ladder on.

    Raises
    ------
    StageError
        If boundary conditions do not fit the openings, or the flow cannot be run as asked.
    """
    if settings.precision not in PRECISIONS:
        raise StageError(f"solve.precision {settings.precision!r}: unknown; known are {', '.join(PRECISIONS)}")
    if settings.equilibrium not in EQUILIBRIA:
        raise StageError(f"solve.equilibrium {settings.equilibrium!r}: unknown; known are {', '.join(EQUILIBRIA)}")
    if settings.unsettled not in UNSETTLED:
        raise StageError(f"solve.unsettled {settings.unsettled!r}: unknown; known are {', '.join(UNSETTLED)}")
    if settings.start not in STARTS:
        raise StageError(f"solve.start {settings.start!r}: unknown; known are {', '.join(STARTS)}")
    chosen = settings.blood
    blood = choose_blood(chosen.model, chosen.set, chosen.parameters, settings.viscosity_pa_s)
    waveforms = read_waveforms(nodes.openings, settings)
    inflow, period_s = waveforms.inflow, common_period_s({**waveforms.inflow, **waveforms.pressure_mmhg})
    if period_s and settings.start == "coarse":
        raise StageError("solve.start coarse: flows with a waveform start at rest; set it to auto, or leave it out")
    moving_m_s, slip = _patches(nodes, settings)
    radius_m = max((o.radius_mm for o in nodes.openings), default=0.0) * 1e-3 or wall_radius_mm(nodes, slip) * 1e-3
    sections = find_sections(nodes) if inflow else None
    settings = replace(settings, viscosity_pa_s=_viscosity_under_force(settings, blood, radius_m))
    out = _leaving(nodes, settings, waveforms, sections) if sections else {}
    peak_speed = settings.peak_speed_m_s or _expected_speed(nodes, settings, sections, out, moving_m_s, radius_m)
    shear_rate = 2 * peak_speed / radius_m
    settings = replace(settings, viscosity_pa_s=float(blood.viscosity_pa_s(shear_rate)))
    along_pa = _expected_pressure_pa(settings, waveforms, sections, out, period_s) if sections else 0.0
    pressure_pa = along_pa
    pulse = _pulse(nodes, settings, waveforms, sections, out, period_s) if sections and period_s else None
    length = float(np.linalg.norm(np.ptp(nodes.position, axis=0) + 1))
    rows = rows_per_cycle(settings, period_s)
    for _ in range(2):  # what outlets add to the pressure is known once there is a time step
        units, notes, warnings = choose_units(
            nodes.spacing_mm * 1e-3,
            peak_speed,
            settings.density_kg_m3,
            settings.viscosity_pa_s,
            settings.lattice_speed,
            period_s,
            moments_per_cycle(rows),
            pressure_pa,
            pulse.worst if pulse else None,
        )
        ramp_s = _ramp_s(settings, bool(inflow or moving_m_s), length * 3**0.5 * units.dt_s, period_s)
        boundary_schedule, said = make_boundary_schedule(nodes, settings, waveforms, units, ramp_s, period_s)
        pressure_pa = along_pa + deviation_pa(boundary_schedule)
    if settings.precision == "fp16":
        warnings += _check_fp16(units, peak_speed, radius_m, along_pa)
    if blood.model != "newtonian":
        notes.append(
            f"{blood.model} blood ({blood.source}): tau, Reynolds and Womersley numbers are those of its viscosity,"
            f" {settings.viscosity_pa_s:.4g} Pa s, at the shear rate 2 U/R = {shear_rate:.4g} 1/s"
        )
    grid_reynolds = peak_speed * units.dx_m / units.viscosity_m2_s
    q = choose_velocity_set(settings.velocity_set, settings.collision, grid_reynolds, settings.equilibrium, slip)
    models, *safer = choose_models(
        settings.collision, grid_reynolds, units.tau, settings.lambda_trt, settings.smagorinsky, least_rung, q
    )
    too_large = drops_too_large(grid_reynolds) if sections else []
    notes += too_large
    losses = pulse.losses(units.dt_s) if pulse else {}
    warnings += overshoots(inflow) + said + too_lossy(losses, peak_speed / units.speed_m_s)
    notes += [
        f"solve.inlets.{name}: the flow turns back ({inflow[name].minimum_ml_s:.3g} mL/s); to keep it stable, tau is"
        f" raised towards 1 over {BLEND_LAYERS} layers of nodes there, which costs accuracy within them"
        for name in boundary_schedule.reversing
    ]
    viscous_steps = radius_m**2 / units.viscosity_m2_s / units.dt_s
    inflow_at_rows = waveforms.flow_ml_s(np.arange(1, rows + 1) / rows * (period_s or 0.0))
    through_steps = _through_steps(nodes, units, waveforms, peak_speed, length, viscous_steps)
    crossing_steps = length * units.speed_m_s / peak_speed
    schedule = make_schedule(settings, units.dt_s, viscous_steps, period_s, inflow_at_rows, crossing_steps)
    few = _few_cycles(settings, period_s, ramp_s)
    expected_steps = _expected_steps(
        nodes, settings, units, waveforms, schedule, length, radius_m, ramp_s, peak_speed, sections, slip, out
    )
    if period_s is None and expected_steps > schedule.last:
        few.append(
            f"about {expected_steps} steps are expected until the flow is steady, above solve.max_steps "
            f"{settings.max_steps}; raise it, or choose a coarser spacing"
        )
    warnings += few
    plan = Plan(
        units=units,
        boundary_schedule=boundary_schedule,
        force=_scaled(settings.force_n_m3, units.dx_m / units.stress_pa),
        moving={name: _scaled(velocity, 1 / units.speed_m_s) for name, velocity in moving_m_s.items()},
        slip=slip,
        blood=blood,
        rheology=None,
        models=models,
        safer=tuple(safer),
        q=q,
        ramp_s=ramp_s,
        period_s=period_s,
        viscous_steps=viscous_steps,
        through_steps=through_steps,
        schedule=schedule,
        expected_steps=expected_steps,
        numbers=_numbers(
            nodes,
            units,
            waveforms,
            period_s,
            peak_speed,
            pressure_pa,
            radius_m,
            length,
            ramp_s,
            sections,
            settings,
        )
        | (pulse.numbers(units.dt_s, losses) if pulse else {}),
        out_m3_s=out,
        pulse=pulse,
        notes=notes,
        warnings=warnings,
        foreseen=(*too_large, *few, *under_resolved(grid_reynolds, units.dx_m)),
    )
    return with_models(plan, nodes, models, tuple(safer))


def with_models(plan: Plan, nodes: Nodes, models: Models, safer: tuple[Models, ...]) -> Plan:
    """The same plan with other models, and those that are left to climb to."""
    speed, tau = plan.numbers["expected_peak_speed_lattice"], plan.units.tau
    blend = inlet_blend(nodes, plan.boundary_schedule.reversing)
    if models.layers:
        damped = outlet_blend(nodes, tau, 0.5 + 3 * speed / OUTLET_REYNOLDS, models.layers)
        blend = damped if blend is None else np.maximum(blend, damped)
    rheology = make_rheology(
        plan.blood.model,
        plan.blood.scaled(plan.units.stress_pa, plan.units.dt_s),
        tau,
        models.lambda_trt,
        models.eddies,
        None if blend is None or not blend.any() else blend,
        models.onset * (tau - 0.5) / 3,
    )
    return replace(plan, models=models, safer=safer, rheology=rheology)


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


def _check_fp16(units: Units, peak_speed: float, radius_m: float, along_pa: float) -> list[str]:
    """What to say of a flow whose populations are kept as fp16.

    Raises
    ------
    StageError
        If it would stall where it is slow.
    """
    speed, radius = SLOW * peak_speed / units.speed_m_s, radius_m / units.dx_m
    friction = 4 * (units.tau - 0.5) / 3 * speed / radius**2
    drho = along_pa / units.pressure_pa
    kept = fp16_margin(friction, drho, speed)
    message = (
        f"solve.precision fp16: where the flow is slow, {SLOW * peak_speed:.3g} m/s, friction changes a population in a"
        f" step by {kept:.2g} of half its last digit (beside a density deviation of {drho:.2g})"
    )
    if kept < LEAST_FP16_MARGIN:
        raise StageError(
            f"{message}, less than {LEAST_FP16_MARGIN}, so that it would stall; set solve.precision to fp32"
        )
    if kept < GOOD_FP16_MARGIN:
        return [
            f"{message}, less than {GOOD_FP16_MARGIN:g}: pressures, and speeds of what a force drives, may be 10 % off"
        ]
    return []


def wall_radius_mm(nodes: Nodes, slip: tuple[str, ...] = ()) -> float:
    """Twice the volume over the area of the walls that hold the fluid: R of a tube, H between plates.

    Where the lattice repeats along all axes, or nothing holds the fluid, half its longest side at most.
    """
    area = float(wall_areas(nodes, ~slip_links(nodes, slip)).sum())
    longest = max(nodes.shape) / 2
    radius = 2 * nodes.count / area if area else longest
    return nodes.spacing_mm * (min(radius, longest) if all(nodes.periodic) else radius)


def _expected_speed(
    nodes: Nodes,
    settings: SolveSettings,
    sections: Sections | None,
    out_m3_s: dict[int, float],
    moving_m_s: dict[str, Vector],
    radius_m: float,
) -> float:
    """Peak speed, m/s: of inflow, fastest wall, and of the force, F R^2/(4 mu) in a tube, F H^2/(8 mu) between plates.

    That of the inflow is that of :func:`peak_speed_m_s`.

    Raises
    ------
    StageError
        If nothing drives the flow, or that speed is unknown.
    """
    speed = max((float(np.linalg.norm(velocity)) for velocity in moving_m_s.values()), default=0.0)
    if sections:
        speed += peak_speed_m_s(nodes.openings, sections, out_m3_s)
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


def _leaving(nodes: Nodes, settings: SolveSettings, waveforms: Waveforms, sections: Sections) -> dict[int, float]:
    """What leaves through each opening by its index, m3/s, at the largest flow."""
    viscosity = settings.viscosity_pa_s / settings.density_kg_m3
    outlets = outlets_of(nodes.openings, settings, waveforms)
    return leaving_m3_s(nodes.openings, sections, waveforms.inflow, outlets, settings.density_kg_m3, viscosity)


def _pulse(
    nodes: Nodes,
    settings: SolveSettings,
    waveforms: Waveforms,
    sections: Sections,
    out_m3_s: dict[int, float],
    period_s: float,
) -> Pulse:
    """The flow as it pulsates, of which the lattice's compressibility takes a part."""
    entering = -sum(out_m3_s[k] for k, opening in enumerate(nodes.openings) if opening.role == "inlet")
    return Pulse(
        openings=nodes.openings,
        sections=sections,
        waveforms=waveforms,
        outlets=outlets_of(nodes.openings, settings, waveforms),
        mean_m3_s=np.array(list(out_m3_s.values())) * 1e-6 * waveforms.mean_ml_s / entering,
        period_s=period_s,
        dx_m=nodes.spacing_mm * 1e-3,
        density_kg_m3=settings.density_kg_m3,
        viscosity_m2_s=settings.viscosity_pa_s / settings.density_kg_m3,
    )


def _expected_pressure_pa(
    settings: SolveSettings,
    waveforms: Waveforms,
    sections: Sections,
    out_m3_s: dict[int, float],
    period_s: float | None,
) -> float:
    """Largest pressure along the vessel: by friction at peak flow and the pressure that its largest speed takes, or by
    what changes the flow the fastest.
    """
    dynamic = settings.density_kg_m3 * sections.speed_m_s(out_m3_s) ** 2 / 2
    friction = sections.friction_pa(out_m3_s, settings.viscosity_pa_s) + dynamic
    if period_s is None:
        return friction
    times = np.arange(WAVEFORM_SAMPLES + 1) / WAVEFORM_SAMPLES * period_s
    flow = waveforms.flow_ml_s(times)
    rate_1_s = float(np.abs(np.diff(flow)).max() / np.abs(flow).max() / times[1])
    faster = {k: rate_1_s * each for k, each in out_m3_s.items()}
    return max(friction, sections.inertia_pa(faster, settings.density_kg_m3))


def _ramp_s(settings: SolveSettings, driven: bool, crossing_s: float, period_s: float | None) -> float:
    """Time over which inflow and moving walls, if there are any, are raised, in terms of that in which a pressure wave
    crosses the domain; a force acts from the first step on.
    """
    if not driven:
        return 0.0
    usual = max(TRANSITS * crossing_s, (period_s or 0) / 4)
    return usual if settings.ramp_s is None else settings.ramp_s


def _through_steps(
    nodes: Nodes, units: Units, waveforms: Waveforms, peak_speed: float, length: float, viscous_steps: float
) -> float:
    """Steps of a flow-through time; `length` is that of the domain in nodes."""
    if waveforms.inflow:
        return nodes.count * units.flow_m3_s / (1e-6 * sum(flow.peak_ml_s for flow in waveforms.inflow.values()))
    return max(length * units.speed_m_s / peak_speed, TURN * viscous_steps)


def drops_too_large(grid_reynolds: float) -> list[str]:
    """What to note of pressure drops at a grid Reynolds number."""
    if grid_reynolds <= ACCURATE:
        return []
    return [
        f"grid Reynolds number {grid_reynolds:.0f}: pressure drops by friction may be up to about"
        f" {grid_reynolds * DROP_ERROR:.0%} too large at this spacing, as measured with 12 to 14 nodes across; a"
        " finer voxelize.spacing_mm lessens it more than in proportion"
    ]


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
    waveforms: Waveforms,
    schedule: Schedule,
    length: float,
    radius_m: float,
    ramp_s: float,
    peak_speed: float,
    sections: Sections | None,
    slip: tuple[str, ...],
    out: Mapping[int, float],
) -> int:
    """Steps until the flow is steady, or has repeated: one cycle more than it takes to settle."""
    viscous_s = radius_m**2 / units.viscosity_m2_s
    tolerance = settings.periodic_tolerance if schedule.cycle else settings.steady_tolerance
    if waveforms.inflow and sections:
        outlets = outlets_of(nodes.openings, settings, waveforms).values()
        if schedule.cycle or any(outlet.windkessel or outlet.demanded for outlet in outlets):
            speed = max(waveforms.inflow[o.name].peak_ml_s / o.area_mm2 for o in nodes.openings if o.role == "inlet")
            widest = 1e-6 * max(o.area_mm2 for o in nodes.openings)
            narrowest = min(sections.narrowest_m2, 1e-6 * min(o.area_mm2 for o in nodes.openings))
            settled_s = settling_s(
                length * units.dx_m,
                1e-3 * wall_radius_mm(nodes, slip),
                units.viscosity_m2_s,
                units.speed_m_s / 3**0.5,
                speed,
                ramp_s,
                tolerance,
                viscous_s,
                SEPARATED if widest > WIDER * narrowest else np.inf,
            )
        else:
            radius_wide_m, entering_m3_s = 1e-3 * widest_radius_mm(nodes), sum(max(-each, 0.0) for each in out.values())
            rate_1_s = profile_rate(
                length * units.dx_m,
                radius_wide_m,
                units.viscosity_m2_s,
                entering_m3_s,
                _separates(nodes, sections, out),
            )
            settled_s = raised_s(rate_1_s, viscous_s, ramp_s, tolerance)
    else:
        settled_s = raised_s(_closed_rate(nodes, settings, units, radius_m, peak_speed), viscous_s, ramp_s, tolerance)
    steps = (ramp_s + settled_s) / units.dt_s
    if schedule.cycle:
        cycles = min(max(ceil(steps / schedule.cycle) + 1, schedule.least_cycles), schedule.cycles)
        return cycles * schedule.cycle
    return (ceil(steps / schedule.interval) + 1) * schedule.interval  # a row more, whose change is small


def _separates(nodes: Nodes, sections: Sections, out_m3_s: Mapping[int, float]) -> bool:
    """Whether the stream is faster somewhere, by `WIDER`, than where it leaves."""
    outlets = [k for k, opening in enumerate(nodes.openings) if opening.role == "outlet"]
    area_m2 = 1e-6 * sum(nodes.openings[k].area_mm2 for k in outlets)
    leaving = sum(out_m3_s[k] for k in outlets) / area_m2
    return max(sections.speed_m_s(out_m3_s), speed_at_openings_m_s(nodes.openings, out_m3_s)) > WIDER * leaving


def _closed_rate(nodes: Nodes, settings: SolveSettings, units: Units, radius_m: float, peak_speed: float) -> float:
    """Rate, 1/s, at which a flow without openings settles.

    Past bodies a force per volume F balances a drag that is proportional to the speed, at 2/3 of the peak: F/(rho U).
    """
    if all(nodes.periodic):
        return 1.5 * float(np.linalg.norm(settings.force_n_m3)) / (settings.density_kg_m3 * peak_speed)
    viscous = SETTLING[sum(nodes.periodic)] * units.viscosity_m2_s / radius_m**2
    return viscous + (TURNING * peak_speed / radius_m if settings.patches else 0.0)


def _numbers(
    nodes: Nodes,
    units: Units,
    waveforms: Waveforms,
    period_s: float | None,
    peak_speed: float,
    pressure_pa: float,
    radius_m: float,
    length: float,
    ramp_s: float,
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
        **(
            _opening_numbers(nodes, units, waveforms.inflow) if waveforms.inflow else {"wall_radius_mm": 1e3 * radius_m}
        ),
    }
    if sections and np.isfinite(sections.narrowest_m2):
        numbers["nodes_across_narrowest_section"] = _nodes_across(nodes, sections.narrowest_m2 / units.dx_m**2)
    if sections:
        numbers |= {
            "expected_pressure_difference_pa": pressure_pa,
            "expected_drho": pressure_pa / units.pressure_pa,
        }
    numbers |= {"acoustic_transit_s": crossing_s, "ramp_s": ramp_s}
    if period_s and waveforms.inflow:
        omega = 2 * np.pi / period_s
        numbers["period_s"] = period_s
        numbers["steps_per_cycle"] = period_s / units.dt_s
        numbers["acoustic_transits_per_cycle"] = period_s / crossing_s
        largest = max((o for o in nodes.openings if o.role == "inlet"), key=lambda opening: opening.radius_mm)
        numbers["womersley"] = 1e-3 * largest.radius_mm * float(np.sqrt(omega / units.viscosity_m2_s))
    return {name: float(value) for name, value in numbers.items()}


def _nodes_across(nodes: Nodes, area: float) -> float:
    """Diameter of a round section of so many nodes; in one layer of nodes they are its height."""
    one_layer = not np.ptp(nodes.position, axis=0).all()
    return float(area if one_layer else 2 * np.sqrt(area / np.pi))


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
