# SPDX-License-Identifier: Apache-2.0
"""Scales of a run: its units, the time over which it is raised, and what holds at the openings in those units."""

from dataclasses import dataclass
from math import floor, lcm, log2

from solver.boundary.windkessel import PASCAL_S_M3_PER_MMHG_S_ML
from solver.domain.nodes import Nodes
from solver.kernels.storage import GOOD_FP16_MARGIN, LEAST_FP16_MARGIN, fp16_margin
from solver.run.boundary_schedule import BoundarySchedule, make_boundary_schedule
from solver.run.exchange import Surroundings
from solver.run.expected_flow import ExpectedFlow
from solver.run.outlet_pressures import deviation_pa, warnings_of
from solver.run.schedule import moments_per_cycle, rows_per_cycle
from solver.run.settings import SolveSettings
from solver.run.units import Units, choose_units
from solver.runtime.errors import StageError

TRANSITS = 15
"""Acoustic transits of the domain over which inflow and moving walls are raised."""
LONGER = 20
"""Part of a cycle by which it may be longer so that it has many factors."""
FASTER = 2
"""Speed of sound on the lattice over that of the pulse in the network around it, at least: the compliance of the fluid
is then a fourth of that of the artery that the vessel replaces."""
SLOW = 0.1
"""Part of the peak speed that flow in sacs and in diastole has, which fp16 must still carry."""


@dataclass(frozen=True)
class Scales:
    """Units of a run, and what follows from them at the openings.

    Attributes
    ----------
    units : scales to SI.
    ramp_s : time over which inflow and moving walls are raised.
    boundary_schedule : what holds at the openings.
    pressure_pa : largest expected difference to the pressure that is zero on the lattice.
    notes, warnings : on how the units were found.
    boundary_warnings : on what holds at the openings.
    """

    units: Units
    ramp_s: float
    boundary_schedule: BoundarySchedule
    pressure_pa: float
    notes: list[str]
    warnings: list[str]
    boundary_warnings: list[str]


def choose_scales(
    nodes: Nodes, settings: SolveSettings, flow: ExpectedFlow, surroundings: Surroundings | None = None
) -> Scales:
    """Scales of a run.

    Parameters
    ----------
    nodes : the geometry.
    settings : of the stage, with the viscosity that the units are to have.
    flow : what is expected.
    surroundings : a network that the vessel sits in; none: openings have what the settings say.

    Raises
    ------
    StageError
        If the flow cannot be run as asked, or populations as fp16 would stall where it is slow.
    """
    moments, pressure_pa = moments_per_cycle(rows_per_cycle(settings, flow.period_s)), flow.along_pa
    if surroundings:
        moments = lcm(moments, surroundings.samples)
    coupled = surroundings.impedance_mmhg_s_ml if surroundings else {}
    for _ in range(2):  # what outlets add to the pressure is known once there is a time step
        units, notes, warnings = choose_units(
            nodes.spacing_mm * 1e-3,
            flow.peak_speed_m_s,
            settings.density_kg_m3,
            settings.viscosity_pa_s,
            settings.lattice_speed,
            flow.period_s,
            moments,
            pressure_pa,
            flow.pulse.worst if flow.pulse and not surroundings else None,
            FASTER * max((_pulse_m_s(nodes, name, each, settings) for name, each in coupled.items()), default=0.0),
        )
        ramp_s = _ramp_s(settings, flow, units)
        schedule = make_boundary_schedule(nodes, settings, flow.waveforms, units, ramp_s, flow.period_s, coupled)
        pressure_pa = flow.along_pa + deviation_pa(schedule)
        if surroundings and flow.period_s:
            moments = _with_factors(moments, flow.period_s / units.dt_s)
    if settings.precision == "fp16":
        warnings += _check_fp16(units, flow)
    said = warnings_of(schedule, settings.cycles)
    return Scales(units, ramp_s, schedule, pressure_pa, notes, warnings, said)


def _pulse_m_s(nodes: Nodes, name: str, impedance_mmhg_s_ml: float, settings: SolveSettings) -> float:
    """Speed c of the pulse in the network at an opening of the area A, of its impedance rho c/A."""
    area_m2 = next(opening.area_mm2 for opening in nodes.openings if opening.name == name) * 1e-6
    return impedance_mmhg_s_ml * PASCAL_S_M3_PER_MMHG_S_ML * area_m2 / settings.density_kg_m3


def _with_factors(moments: int, steps: float) -> int:
    """Moments of a cycle of so many steps, times a power of two by which the cycle becomes a `LONGER`th longer at most:
    a cycle that has many factors can be divided into intervals that suit a network.
    """
    return moments * 2 ** max(0, floor(log2(steps / (2 * LONGER * moments))))


def _ramp_s(settings: SolveSettings, flow: ExpectedFlow, units: Units) -> float:
    """Time over which inflow and moving walls, if there are any, are raised, in terms of that in which a pressure wave
    crosses the domain; a force acts from the first step on.
    """
    if not flow.driven:
        return 0.0
    usual = max(TRANSITS * flow.crossing_s(units.dt_s), (flow.period_s or 0) / 4)
    return usual if settings.ramp_s is None else settings.ramp_s


def _check_fp16(units: Units, flow: ExpectedFlow) -> list[str]:
    """What to say of a flow whose populations are kept as fp16.

    Raises
    ------
    StageError
        If it would stall where it is slow.
    """
    speed, radius = SLOW * flow.peak_speed_m_s / units.speed_m_s, flow.radius_m / units.dx_m
    friction = 4 * (units.tau - 0.5) / 3 * speed / radius**2
    drho = flow.along_pa / units.pressure_pa
    kept = fp16_margin(friction, drho, speed)
    message = (
        f"solve.precision fp16: where the flow is slow, {SLOW * flow.peak_speed_m_s:.3g} m/s, friction changes a"
        f" population in a step by {kept:.2g} of half its last digit (beside a density deviation of {drho:.2g})"
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
