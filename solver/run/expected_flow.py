# SPDX-License-Identifier: Apache-2.0
"""The flow that is expected before there is a time step: what drives it, its speed, and the pressures that it takes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from solver.boundary.walls import Vector
from solver.boundary.waveform import Waveforms, common_period_s, read_waveforms
from solver.boundary.windkessel import outlets_of
from solver.domain.addresses import slip_links
from solver.domain.nodes import Nodes
from solver.domain.sections import Sections, find_sections
from solver.domain.widths import wall_area
from solver.run.blood import Blood
from solver.run.expected import leaving_m3_s, peak_speed_m_s, speed_at_openings_m_s
from solver.run.settings import SolveSettings
from solver.run.sound import Pulse
from solver.runtime.errors import StageError

WAVEFORM_SAMPLES = 1000
"""Of a period, at which flow and its change in time are evaluated."""


@dataclass(frozen=True)
class ExpectedFlow:
    """What drives a flow, and what is expected of it.

    Attributes
    ----------
    waveforms : flows and pressures at the openings.
    period_s : period of the inflow; none if it is steady.
    moving_m_s : velocity of the patches of the wall that move, (x, y, z) in m/s, by name.
    slip : names of the patches along which fluid slips.
    radius_m : of the largest opening, or of the walls without openings, see :func:`wall_radius_mm`.
    length : diagonal of the domain, in nodes.
    sections : of the vessel; none without inflow.
    out_m3_s : what leaves through each opening by its index at the largest flow; none without inflow.
    peak_speed_m_s : largest speed.
    along_pa : largest pressure along the vessel; 0 without inflow.
    pulse : the flow as it pulsates; none of a steady one.
    """

    waveforms: Waveforms
    period_s: float | None
    moving_m_s: dict[str, Vector]
    slip: tuple[str, ...]
    radius_m: float
    length: float
    sections: Sections | None
    out_m3_s: dict[int, float]
    peak_speed_m_s: float
    along_pa: float
    pulse: Pulse | None

    @property
    def driven(self) -> bool:
        """Whether inflow or moving walls drive it, which are raised; a force is not."""
        return bool(self.waveforms.inflow or self.moving_m_s)

    @property
    def shear_rate_1_s(self) -> float:
        """Shear rate 2 U/R that the viscosity of blood is chosen at, 1/s."""
        return 2 * self.peak_speed_m_s / self.radius_m

    def crossing_s(self, dt_s: float) -> float:
        """Time in which a pressure wave crosses the domain, at the speed dx/(sqrt(3) dt), s."""
        return self.length * 3**0.5 * dt_s


def expect_flow(nodes: Nodes, settings: SolveSettings, blood: Blood) -> tuple[ExpectedFlow, SolveSettings]:
    """What is expected of a flow, and the settings with the viscosity that it has at its shear rate 2 U/R.

    Parameters
    ----------
    nodes : the geometry.
    settings : of the stage.
    blood : how viscosity depends on the shear rate.

    Raises
    ------
    StageError
        If boundary conditions do not fit the openings, nothing drives the flow, or its speed is unknown.
    """
    waveforms = read_waveforms(nodes.openings, settings)
    inflow, period_s = waveforms.inflow, common_period_s({**waveforms.inflow, **waveforms.pressure_mmhg})
    if period_s and settings.start == "coarse":
        raise StageError("solve.start coarse: flows with a waveform start at rest; set it to auto, or leave it out")
    moving_m_s, slip = _patches(nodes, settings)
    radius_m = max((o.radius_mm for o in nodes.openings), default=0.0) * 1e-3 or wall_radius_mm(nodes, slip) * 1e-3
    sections = find_sections(nodes) if inflow else None
    settings = replace(settings, viscosity_pa_s=_viscosity_under_force(settings, blood, radius_m))
    mean_out = _leaving(nodes, settings, waveforms, sections) if sections else {}
    out = _fastest(nodes, settings, waveforms, sections, mean_out) if sections else {}
    flow = ExpectedFlow(
        waveforms=waveforms,
        period_s=period_s,
        moving_m_s=moving_m_s,
        slip=slip,
        radius_m=radius_m,
        length=float(np.linalg.norm(nodes.extent)),
        sections=sections,
        out_m3_s=out,
        peak_speed_m_s=settings.peak_speed_m_s or _expected_speed(nodes, settings, sections, out, moving_m_s, radius_m),
        along_pa=0.0,
        pulse=None,
    )
    settings = replace(settings, viscosity_pa_s=float(blood.viscosity_pa_s(flow.shear_rate_1_s)))
    if sections:
        along_pa = _expected_pressure_pa(settings, waveforms, sections, out, period_s) + _work_pa(nodes, settings)
        pulse = _pulse(nodes, settings, waveforms, sections, mean_out, period_s) if period_s else None
        flow = replace(flow, along_pa=along_pa, pulse=pulse)
    return flow, settings


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


def wall_radius_mm(nodes: Nodes, slip: tuple[str, ...] = ()) -> float:
    """Twice the volume over the area of the walls that hold the fluid: R of a tube, H between plates.

    Where the lattice repeats along all axes, or nothing holds the fluid, half its longest side at most.
    """
    area = wall_area(nodes, ~slip_links(nodes, slip))
    longest = max(nodes.shape) / 2
    radius = 2 * nodes.total / area if area else longest
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
    # between openings a force makes pressures, and drives fluid where the lattice repeats alone
    along = nodes.periodic if sections else (True, True, True)
    if force := float(np.linalg.norm(np.where(along, settings.force_n_m3, 0.0))):
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


def _fastest(
    nodes: Nodes, settings: SolveSettings, waveforms: Waveforms, sections: Sections, mean_out: dict[int, float]
) -> dict[int, float]:
    """The fastest of what leaves at the mean pressures and at the extremes of each pressure that changes, as if these
    lasted.
    """
    curves = waveforms.pressure_mmhg
    if len(curves) == 0 or sum(opening.role == "outlet" for opening in nodes.openings) == 1:
        return mean_out
    found = [mean_out]
    for curve in curves.values():
        times = np.arange(WAVEFORM_SAMPLES) / WAVEFORM_SAMPLES * (curve.period_s or 0.0)
        values = curve.at(times)
        for time_s in times[[values.argmin(), values.argmax()]]:
            off_mmhg = {name: float(each.at(np.array([time_s]))[0]) - each.mean for name, each in curves.items()}
            found.append(_leaving(nodes, settings, waveforms, sections, off_mmhg))
    return max(found, key=lambda out: speed_at_openings_m_s(nodes.openings, out))


def _leaving(
    nodes: Nodes,
    settings: SolveSettings,
    waveforms: Waveforms,
    sections: Sections,
    off_mmhg: Mapping[str, float] | None = None,
) -> dict[int, float]:
    """What leaves through each opening by its index, m3/s, at the largest flow and the mean pressures, of which those
    of named outlets are off by so much.
    """
    viscosity = settings.viscosity_pa_s / settings.density_kg_m3
    outlets = {
        name: replace(each, pressure_mmhg=each.pressure_mmhg + (off_mmhg or {}).get(name, 0.0))
        for name, each in outlets_of(nodes.openings, settings, waveforms).items()
    }
    force, density = settings.force_n_m3, settings.density_kg_m3
    return leaving_m3_s(nodes.openings, sections, waveforms.inflow, outlets, density, viscosity, force)


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


def _work_pa(nodes: Nodes, settings: SolveSettings) -> float:
    """Largest work per volume that the force does on the way from one opening to another."""
    return float(np.ptp(1e-3 * np.array([opening.centre_mm for opening in nodes.openings]) @ settings.force_n_m3))


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
