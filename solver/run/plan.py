# SPDX-License-Identifier: Apache-2.0
"""Plan of a run: a boundary schedule matched to the openings, and everything chosen before the first step."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from solver.backends.fields import Fields
from solver.backends.lattice import PRECISIONS
from solver.boundary.layers import (
    INLET_LAYERS,
    LayerFriction,
    inertances_to_caps,
    inlet_layers,
    outlet_layers,
    resistances_to_caps,
)
from solver.boundary.walls import Vector
from solver.boundary.waveform import overshoots
from solver.domain.nodes import Nodes
from solver.kernels.collision import relaxation_rates
from solver.kernels.node_physics import EQUILIBRIA
from solver.kernels.rheology import Rheology, make_rheology
from solver.run.blood import Blood, choose_blood
from solver.run.boundary_schedule import BoundarySchedule
from solver.run.duration import Duration, expect_duration
from solver.run.exchange import Surroundings
from solver.run.expected_flow import ExpectedFlow, expect_flow
from solver.run.models import OUTLET_REYNOLDS, Models, choose_models, choose_velocity_set
from solver.run.outlet_pressures import too_slow
from solver.run.plan_numbers import least_across, numbers_of
from solver.run.scales import TRANSITS, Scales, choose_scales
from solver.run.settings import SolveSettings
from solver.run.sound import Loss, Pulse, too_far_apart, too_lossy
from solver.run.units import DROP_ACROSS, Units, pressure_drop_error, under_resolved
from solver.runtime.errors import StageError

STARTS = ("auto", "rest", "coarse")
"""What a run begins with: fluid at rest, or the flow on a lattice of twice the spacing."""
UNSETTLED = ("refuse", "report")
"""What is done with a flow that has not settled when its steps or cycles are over."""
ACCURATE = 10.0
"""Grid Reynolds number above which a note says how far off its pressure drop may be."""


@dataclass(frozen=True)
class Plan(Duration):
    """What is known before the first step, and when the last one is expected.

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
    layers : what layers of raised viscosity add to the friction at outlets.
    to_caps : (openings,) drop of drho from the nodes at each opening to its cap, over the flow out.
    inertia_to_caps : (openings,) the same over its rise in a step.
    q : velocities of the lattice, 19 or 27.
    ramp_s : time over which inflow and moving walls are raised.
    period_s : period of the inflow; none if it is steady.
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
    layers: tuple[LayerFriction, ...]
    to_caps: NDArray[np.float64]
    inertia_to_caps: NDArray[np.float64]
    q: int
    ramp_s: float
    period_s: float | None
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


def make_plan(
    nodes: Nodes,
    settings: SolveSettings,
    least_rung: int = 0,
    surroundings: Surroundings | None = None,
) -> Plan:
    """Choose units, models and times for a geometry; models from a rung of the ladder on.

    Parameters
    ----------
    nodes : the geometry.
    settings : of the stage.
    least_rung : the first rung of the ladder of models that is used.
    surroundings : a network that the vessel sits in; none: openings have what the settings say.

    Raises
    ------
    StageError
        If boundary conditions do not fit the openings, or the flow cannot be run as asked.
    """
    _require_known(settings)
    blood = _blood_of(settings)
    flow, settings = expect_flow(nodes, settings, blood)
    scales = choose_scales(nodes, settings, flow, surroundings)
    units, inflow = scales.units, flow.waveforms.inflow
    grid_reynolds = flow.peak_speed_m_s * units.dx_m / units.viscosity_m2_s
    q, (models, *safer) = _velocities_and_models(settings, grid_reynolds, units.tau, flow.slip, least_rung)
    pulse = None if surroundings else flow.pulse  # what the lattice's compliance takes follows from both then
    of_pulse, lossy = _of_pulse(pulse, flow, units)
    numbers = numbers_of(nodes, flow, scales) | of_pulse
    duration = expect_duration(nodes, settings, flow, units, scales.ramp_s, least_across(nodes, flow.slip, numbers))
    too_large = drops_too_large(grid_reynolds, numbers) if flow.sections else []
    plan = Plan(
        **vars(duration),
        units=units,
        boundary_schedule=scales.boundary_schedule,
        force=_scaled(settings.force_n_m3, units.dx_m / units.stress_pa),
        moving={name: _scaled(velocity, 1 / units.speed_m_s) for name, velocity in flow.moving_m_s.items()},
        slip=flow.slip,
        blood=blood,
        rheology=None,
        models=models,
        safer=tuple(safer),
        layers=(),
        to_caps=resistances_to_caps(nodes, units.tau),
        inertia_to_caps=inertances_to_caps(nodes),
        q=q,
        ramp_s=scales.ramp_s,
        period_s=flow.period_s,
        numbers=numbers,
        out_m3_s=flow.out_m3_s,
        pulse=pulse,
        notes=[*scales.notes, *_of_blood(blood, settings, flow), *too_large, *_turns_back(scales)],
        warnings=[*scales.warnings, *overshoots(inflow), *scales.boundary_warnings, *lossy, *duration.few],
        foreseen=(*too_large, *duration.few, *_seen_in_the_run(scales, settings, grid_reynolds)),
    )
    return with_models(plan, nodes, models, tuple(safer))


def _seen_in_the_run(scales: Scales, settings: SolveSettings, grid_reynolds: float) -> list[str]:
    """Warnings of lattice and outlets that the run itself shows to hold, or not."""
    too_coarse = under_resolved(grid_reynolds, scales.units.dx_m)
    return [*too_coarse, *too_slow(scales.boundary_schedule, settings.cycles)]


def _of_pulse(pulse: Pulse | None, flow: ExpectedFlow, units: Units) -> tuple[dict[str, float], list[str]]:
    """What the lattice's compliance takes of a pulse: numbers of the plan, and what to warn of."""
    if not pulse:
        return {}, []
    losses = pulse.losses(units.dt_s)
    speed = flow.peak_speed_m_s / units.speed_m_s
    warnings = [*too_lossy(losses, speed), *too_far_apart(pulse, units.dt_s, speed)]
    return pulse.numbers(units.dt_s, losses), warnings


def _velocities_and_models(
    settings: SolveSettings, grid_reynolds: float, tau: float, slip: tuple[str, ...], least_rung: int
) -> tuple[int, tuple[Models, ...]]:
    """Velocities of the set, and the models, safer ones behind."""
    q = choose_velocity_set(settings.velocity_set, settings.collision, grid_reynolds, settings.equilibrium, slip)
    given = settings.lambda_trt, settings.smagorinsky
    return q, choose_models(settings.collision, grid_reynolds, tau, *given, least_rung, q)


def _blood_of(settings: SolveSettings) -> Blood:
    chosen = settings.blood
    return choose_blood(chosen.model, chosen.set, chosen.parameters, settings.viscosity_pa_s)


def _require_known(settings: SolveSettings) -> None:
    """Check words of settings that a plan chooses by."""
    known = {
        "precision": (settings.precision, PRECISIONS),
        "equilibrium": (settings.equilibrium, EQUILIBRIA),
        "unsettled": (settings.unsettled, UNSETTLED),
        "start": (settings.start, STARTS),
    }
    for key, (word, words) in known.items():
        if word not in words:
            raise StageError(f"solve.{key} {word!r}: unknown; known are {', '.join(words)}")


def _of_blood(blood: Blood, settings: SolveSettings, flow: ExpectedFlow) -> list[str]:
    """What to note of numbers whose viscosity depends on the shear rate."""
    if blood.model == "newtonian":
        return []
    return [
        f"{blood.model} blood ({blood.source}): tau, Reynolds and Womersley numbers are those of its viscosity,"
        f" {settings.viscosity_pa_s:.4g} Pa s, at the shear rate 2 U/R = {flow.shear_rate_1_s:.4g} 1/s"
    ]


def _turns_back(scales: Scales) -> list[str]:
    """What to note of inlets through which blood comes back."""
    schedule = scales.boundary_schedule
    least = {name: schedule.waveforms.inflow[name].minimum_ml_s for name in schedule.reversing}
    return [
        f"solve.inlets.{name}: the flow turns back ({flow_ml_s:.3g} mL/s); to keep it stable, tau is raised towards 1"
        f" over {INLET_LAYERS} layers of nodes there, which costs accuracy within them"
        for name, flow_ml_s in least.items()
    ]


def _third_order(nodes: Nodes, models: Models, tau: float, blend: NDArray[np.float64]) -> dict[str, float]:
    """2 (tau_3 - 1/2) at each inlet, by name; `blend` raises tau towards 1, (N,)."""
    found = {}
    for opening in (each for each in nodes.openings if each.role == "inlet"):
        linked = nodes.opening_link_node[nodes.opening_link_opening == opening.id]
        found[opening.name] = models.third_order(tau + (1 - tau) * float(blend[linked].mean()))
    return found


def with_models(plan: Plan, nodes: Nodes, models: Models, safer: tuple[Models, ...]) -> Plan:
    """The same plan with other models, and those that are left to climb to.

    Parameters
    ----------
    plan : that is changed.
    nodes : the geometry.
    models : to run with.
    safer : those that are left, in their order.
    """
    speed, tau = plan.numbers["expected_peak_speed_lattice"], plan.units.tau
    coupled = plan.boundary_schedule.coupled_mmhg_s_ml
    blend, layers = inlet_layers(nodes, tau, plan.boundary_schedule.reversing)
    if models.layers:
        damped, more = outlet_layers(nodes, tau, 0.5 + 3 * speed / OUTLET_REYNOLDS, models.layers, coupled)
        blend, layers = np.maximum(blend, damped), layers + more
    rheology = make_rheology(
        plan.blood.model,
        plan.blood.scaled(plan.units.stress_pa, plan.units.dt_s),
        tau,
        models.lambda_trt,
        models.eddies,
        blend if blend.any() else None,
        models.onset * (tau - 0.5) / 3,
    )
    third_order = _third_order(nodes, models, tau, blend)
    schedule = plan.boundary_schedule.with_friction(layers, plan.to_caps).with_third_order(third_order)
    return replace(plan, models=models, safer=safer, rheology=rheology, layers=layers, boundary_schedule=schedule)


def _scaled(vector: Vector, factor: float) -> Vector:
    x, y, z = vector
    return x * factor, y * factor, z * factor


def nodes_across(numbers: Mapping[str, float]) -> float:
    """Nodes across the narrowest section, or the inlet where that is narrower or none is known, of a plan's numbers."""
    names = ("nodes_across_narrowest_section", "nodes_across_inlet")
    return min((numbers[name] for name in names if name in numbers), default=float(DROP_ACROSS))


def drop_error(grid_reynolds: float, numbers: Mapping[str, float]) -> float | None:
    """By how much pressure drops may be too large at most, :func:`solver.run.units.pressure_drop_error`; none where
    that is little.

    Parameters
    ----------
    grid_reynolds : of the peak speed.
    numbers : of the plan.
    """
    return pressure_drop_error(grid_reynolds, nodes_across(numbers)) if grid_reynolds > ACCURATE else None


def drops_too_large(grid_reynolds: float, numbers: Mapping[str, float]) -> list[str]:
    """What to note of pressure drops; the parameters are those of :func:`drop_error`."""
    error = drop_error(grid_reynolds, numbers)
    if error is None:
        return []
    return [
        f"grid Reynolds number {grid_reynolds:.0f}, {nodes_across(numbers):.0f} nodes across: pressure drops by"
        f" friction may be up to about {error:.0%} too large; a finer voxelize.spacing_mm lessens that more than in"
        " proportion"
    ]
