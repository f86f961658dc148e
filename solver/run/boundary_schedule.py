# SPDX-License-Identifier: Apache-2.0
"""Boundary schedule: what holds at the openings over time, in lattice units, out of settings, units and the geometry.

They are a table with a row for each step. An inlet has a column for each row of its weights
(:mod:`solver.boundary.profiles`): its flow, or mean and harmonics, and last its squared flow. An outlet has two: drho
on its cap, and the flow that belongs to it where the pressure follows from the flow
(:class:`solver.boundary.openings.OutletFeedback`): with a Windkessel the mean flow, raised as the inflow is, so that
its state is held up meanwhile; else the flow that is demanded. The last column holds the part of their velocity with
which walls move, which is raised in the same way.

Of a steady flow the outlets whose pressure p0 is given let waves leave: a wave that comes to an opening of given
pressure, or of given flow, is sent back whole, and goes to and fro until friction has taken it. They all have

    p = p0 + Z (sum of Q - Q_in),    Z = c_s over the area of all outlets,

which is what a wave that travels out of the domain does, and p0 exactly once as much leaves as enters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.boundary.layers import LayerFriction
from solver.boundary.openings import InletFeedback, OutletFeedback
from solver.boundary.profiles import Profile, inlet_profile
from solver.boundary.waveform import Waveforms, by_opening
from solver.boundary.windkessel import PASCAL_PER_MMHG, Outlet, outlets_of
from solver.domain.nodes import Nodes, Opening
from solver.run.outlet_rules import FILTER, feedback_rule, steady_rules
from solver.run.settings import SolveSettings
from solver.run.units import Units
from solver.runtime.errors import StageError

Reals = NDArray[np.float64]

MOST_FOLLOWED = 50_000
"""Parts of a cycle, at most, in which a Windkessel's pressure is followed beforehand: of more steps some are taken
together, so that a cycle of tens of millions does not take minutes."""


@dataclass(frozen=True)
class BoundarySchedule:
    """What holds at the openings.

    Attributes
    ----------
    openings : of the geometry.
    units : scales to SI.
    waveforms : what changes in time.
    profiles : velocity over each inlet, by name.
    outlets : what holds at each outlet, by name.
    reference_pa : pressure that is zero on the lattice, the mean of the outlets'; 0 without outlets.
    ramp_s : time over which inflow and moving walls are raised.
    period_s : period of flows and pressures; none if they are steady.
    columns : (openings + 1,) where the columns of each opening begin.
    outlet_feedback : outlets whose pressure follows from their flow.
    coupled_mmhg_s_ml : impedance R of openings that are coupled to a network, by name. An inlet of them has a flow that
        the lattice finds by itself, and a third column for the pressure p0 that it is offered; an outlet has p0 in its
        first. Both are for :mod:`solver.coupling.coupling` to fill.
    inlet_feedback : inlets that are coupled.
    third_order : 2 (tau_3 - 1/2) at each inlet, by name, see :mod:`solver.boundary.inlet_momentum`; 1 if not given.
    """

    openings: tuple[Opening, ...]
    units: Units
    waveforms: Waveforms
    profiles: dict[str, Profile]
    outlets: dict[str, Outlet]
    reference_pa: float
    ramp_s: float
    period_s: float | None
    columns: NDArray[np.int32]
    outlet_feedback: OutletFeedback
    coupled_mmhg_s_ml: Mapping[str, float]
    inlet_feedback: InletFeedback
    third_order: Mapping[str, float] = field(default_factory=dict)

    def at(self, first: int, last: int) -> Reals:
        """Conditions of the steps after `first` up to `last`, (steps, columns + 1)."""
        times = np.arange(first + 1, last + 1, dtype=np.float64) * self.units.dt_s
        ramp = raised(times, self.ramp_s)
        values = np.empty((len(times), int(self.columns[-1]) + 1))
        values[:, -1] = ramp
        for k, opening in enumerate(self.openings):
            mine = values[:, self.columns[k] : self.columns[k + 1]]
            if opening.name in self.coupled_mmhg_s_ml:
                mine[:] = 0.0
            elif opening.role == "inlet":
                inflow, harmonics = self.waveforms.inflow[opening.name], self.profiles[opening.name].harmonics
                scale = ramp[:, None] * 1e-6 / self.units.flow_m3_s
                mine[:, :-1] = inflow.amplitudes(times, harmonics) * scale
                mine[:, -1:] = self.third_order.get(opening.name, 1.0) * (inflow.amplitudes(times) * scale) ** 2
            else:
                mine[:, 0] = self._drho(opening.name, times, ramp)
                mine[:, 1:] = self._flow(self.outlets[opening.name], times, ramp)[:, None]
        return values

    def _drho(self, name: str, times: Reals, ramp: Reals) -> Reals:
        outlet, waveform = self.outlets[name], self.waveforms.pressure_mmhg.get(name)
        pressure_mmhg = outlet.pressure_mmhg + (
            ramp * (waveform.at(times) - waveform.mean) if waveform else np.zeros_like(times)
        )
        return (pressure_mmhg * PASCAL_PER_MMHG - self.reference_pa) / self.units.pressure_pa

    def _flow(self, outlet: Outlet, times: Reals, ramp: Reals) -> Reals:
        """Flow that belongs to an outlet's pressure, lattice units."""
        flow_ml_s = (
            np.full_like(times, self.waveforms.mean_ml_s) if outlet.windkessel else self.waveforms.flow_ml_s(times)
        )
        part = outlet.fraction if outlet.windkessel or outlet.demanded else 1.0
        return ramp * flow_ml_s * (part or 0.0) / self.units.flow_ml_s

    @property
    def reversing(self) -> tuple[str, ...]:
        """Inlets whose flow is given and turns back."""
        return tuple(
            name for name, flow in self.waveforms.inflow.items() if flow.reverses and name not in self.coupled_mmhg_s_ml
        )

    def impedance_mmhg_s_ml(self, name: str) -> float:
        """Za = c_s/A of the lattice's fluid at an outlet: pressure of a wave over its flow."""
        area = next(o.area_mm2 for o in self.openings if o.name == name) * 1e-6 / self.units.dx_m**2
        return 3**0.5 / area * self.units.resistance_mmhg_s_ml

    def with_friction(self, layers: Sequence[LayerFriction], to_caps: Reals) -> "BoundarySchedule":
        """The same, with the friction of these layers taken from the pressures of their outlets, and of no others; the
        pressures that are found at coupled inlets are those on their caps, without it.

        Parameters
        ----------
        layers : at openings.
        to_caps : (openings,) of :func:`solver.boundary.layers.resistances_to_caps`.
        """
        resistance = {each.opening: each.resistance for each in layers}
        rule = self.outlet_feedback.rule.copy()
        rule[:, 5] = [resistance.get(k, 0.0) for k in self.outlet_feedback.opening.tolist()]
        inlets = self.inlet_feedback
        found = {each.opening: each.resistance * each.upstream_of_cap for each in layers}
        own = _inlet_rules(self)
        own[:, 1] += [to_caps[k] - found.get(k, 0.0) for k in inlets.opening.tolist()]
        return replace(
            self,
            outlet_feedback=replace(self.outlet_feedback, rule=rule),
            inlet_feedback=replace(inlets, rule=own),
        )

    def with_third_order(self, third_order: Mapping[str, float]) -> "BoundarySchedule":
        """The same, with these factors of the squared flow at inlets."""
        rule = self.inlet_feedback.rule.copy()
        rule[:, 3] = [third_order[self.openings[k].name] for k in self.inlet_feedback.opening.tolist()]
        return replace(self, third_order=third_order, inlet_feedback=replace(self.inlet_feedback, rule=rule))

    def record(self) -> dict[str, dict[str, Any]]:
        """What holds at each opening, in mL, mmHg and s, for the log and the summary."""
        answer: dict[str, dict[str, Any]] = {}
        for name, flow in self.waveforms.inflow.items():
            least = {"least_flow_ml_s": flow.minimum_ml_s, "peak_flow_ml_s": flow.peak_ml_s} if flow.period_s else {}
            answer[name] = {"flow_ml_s": flow.mean_ml_s, **least, "profile": self.profiles[name].name}
        for name, outlet in self.outlets.items():
            answer[name] = {"pressure_mmhg": outlet.pressure_mmhg}
            if waveform := self.waveforms.pressure_mmhg.get(name):
                oscillatory_mmhg = np.array(waveform.extremes) - waveform.mean
                answer[name] |= dict(
                    zip(("least_mmhg", "peak_mmhg"), outlet.pressure_mmhg + oscillatory_mmhg, strict=True)
                )
            if outlet.fraction is not None:
                answer[name] |= {"flow_fraction": outlet.fraction, "demanded": outlet.demanded}
            if each := outlet.windkessel:
                answer[name] |= {
                    **vars(each),
                    "time_constant_s": each.time_constant_s,
                    "proximal_over_impedance": each.proximal_mmhg_s_ml / self.impedance_mmhg_s_ml(name),
                }
        for name, coupled in self.coupled_mmhg_s_ml.items():
            expected = {f"expected_{key}": value for key, value in answer[name].items() if key != "profile"}
            ratio = coupled / self.impedance_mmhg_s_ml(name)
            answer[name] = expected | {"coupled_mmhg_s_ml": coupled, "coupled_over_impedance": ratio}
        return answer


def raised(times_s: Reals, ramp_s: float) -> Reals:
    """(1 - cos(pi t/t_r))/2 up to t_r, then 1."""
    return (1 - np.cos(np.pi * np.minimum(times_s / ramp_s, 1))) / 2 if ramp_s else np.ones_like(times_s)


def make_boundary_schedule(
    nodes: Nodes,
    settings: SolveSettings,
    waveforms: Waveforms,
    units: Units,
    ramp_s: float,
    period_s: float | None,
    coupled_mmhg_s_ml: Mapping[str, float] | None = None,
) -> BoundarySchedule:
    """Conditions in lattice units.

    Parameters
    ----------
    nodes : the geometry.
    settings : of the stage.
    waveforms : flows and pressures at the openings.
    units : scales to SI.
    ramp_s : time over which the inflow is raised.
    period_s : of the boundary conditions; none if they are steady.
    coupled_mmhg_s_ml : impedance of openings that are coupled to a network, by name.

    Raises
    ------
    StageError
        If settings contradict each other.
    """
    outlets = outlets_of(nodes.openings, settings, waveforms)
    inlets = by_opening(nodes.openings, "inlet", settings.inlets)
    radius = {o.name: o.radius_mm for o in nodes.openings}
    profiles = {
        name: inlet_profile(entry.profile, waveforms.inflow[name], radius[name], units.viscosity_m2_s)
        for name, entry in inlets.items()
    }
    pressures_pa = [outlet.pressure_mmhg * PASCAL_PER_MMHG for outlet in outlets.values()]
    coupled = coupled_mmhg_s_ml or {}
    _require_one_row(profiles, coupled)
    widths = [profiles[o.name].rows + (o.name in coupled) if o.role == "inlet" else 2 for o in nodes.openings]
    without_feedback = BoundarySchedule(
        openings=nodes.openings,
        units=units,
        waveforms=waveforms,
        profiles=profiles,
        outlets=outlets,
        reference_pa=float(np.mean(pressures_pa)) if pressures_pa else 0.0,
        ramp_s=ramp_s,
        period_s=period_s,
        columns=np.append(0, np.cumsum(widths)).astype(np.int32),
        outlet_feedback=OutletFeedback.none(),
        coupled_mmhg_s_ml=coupled,
        inlet_feedback=InletFeedback.none(),
    )
    boundary_schedule = replace(without_feedback, inlet_feedback=_inlet_feedback(without_feedback))
    if outlets:
        waves_leave = period_s is None and bool(inlets)
        boundary_schedule = replace(boundary_schedule, outlet_feedback=_outlet_feedback(without_feedback, waves_leave))
    return boundary_schedule


def _require_one_row(profiles: Mapping[str, Profile], coupled: Mapping[str, float]) -> None:
    """Check that the velocity over coupled inlets is the same at all times but for its size."""
    for name in coupled.keys() & profiles.keys():
        if profiles[name].harmonics:
            raise StageError(
                f"solve.inlets.{name}.profile {profiles[name].name}: needs to know the flow beforehand, which an inlet"
                " that is coupled to a network does not; let it be developed"
            )


def _outlet_feedback(boundary_schedule: BoundarySchedule, waves_leave: bool) -> OutletFeedback:
    """Rules of all outlets; where waves leave, pressures follow the flow of all outlets together."""
    index = np.array([k for k, o in enumerate(boundary_schedule.openings) if o.role == "outlet"], np.int32)
    rules, starts, dt_s = [], [], boundary_schedule.units.dt_s
    impedances = {name: boundary_schedule.impedance_mmhg_s_ml(name) for name in boundary_schedule.outlets}
    joint = 1 / sum(1 / each for each in impedances.values())
    of_steady = steady_rules(boundary_schedule.outlets, impedances) if waves_leave else {}
    for k in index:
        name = boundary_schedule.openings[k].name
        outlet, impedance, share, part = boundary_schedule.outlets[name], impedances[name], 0.0, 0.0
        alpha, decay, *resistances = feedback_rule(outlet, impedance, dt_s)
        if coupled := boundary_schedule.coupled_mmhg_s_ml.get(name):
            alpha, decay, resistances = FILTER / (1 + coupled / impedance), 0.0, [0.0, coupled]
        elif name in of_steady:
            alpha, decay, *resistances, part = of_steady[name]
        elif not (outlet.windkessel or outlet.demanded):
            alpha, decay, resistances, share = FILTER / 2, 0.0, [0.0, joint if waves_leave else 0.0], 1.0
        scaled = (each / boundary_schedule.units.resistance_mmhg_s_ml for each in resistances)
        rules.append((alpha, decay, *scaled, share, 0.0, part))
        start = _start_mmhg(boundary_schedule, outlet) if outlet.windkessel else 0.0
        starts.append((0.0, start * PASCAL_PER_MMHG / boundary_schedule.units.pressure_pa))
    return OutletFeedback(index, boundary_schedule.columns[index], np.array(rules), np.array(starts))


def _inlet_feedback(boundary_schedule: BoundarySchedule) -> InletFeedback:
    """Rules of the inlets that are coupled; their numbers of nodes are for the lattice to fill in."""
    index = np.array([k for k, _ in _coupled_inlets(boundary_schedule)], np.int32)
    rules = _inlet_rules(boundary_schedule)
    return InletFeedback(index, boundary_schedule.columns[index], rules, np.zeros(len(index)))


def _coupled_inlets(boundary_schedule: BoundarySchedule) -> list[tuple[int, str]]:
    """Index and name of each."""
    openings, coupled = enumerate(boundary_schedule.openings), boundary_schedule.coupled_mmhg_s_ml
    return [(k, opening.name) for k, opening in openings if opening.role == "inlet" and opening.name in coupled]


def _inlet_rules(boundary_schedule: BoundarySchedule) -> Reals:
    """Rules of coupled inlets without layers."""
    coupled, scale = boundary_schedule.coupled_mmhg_s_ml, boundary_schedule.units.resistance_mmhg_s_ml
    rules = [
        (
            FILTER * scale / (coupled[name] + boundary_schedule.impedance_mmhg_s_ml(name)),
            coupled[name] / scale,
            0.0,
            1.0,
        )
        for _, name in _coupled_inlets(boundary_schedule)
    ]
    return np.reshape(np.array(rules, np.float64), (-1, 4))


def excess_ml_s(boundary_schedule: BoundarySchedule, outlet: Outlet, times: Reals) -> Reals:
    """Expected flow through an outlet at times less its mean.

    Parameters
    ----------
    boundary_schedule : of the run.
    outlet : what holds there.
    times : (T,) in s.
    """
    return (boundary_schedule.waveforms.flow_ml_s(times) - boundary_schedule.waveforms.mean_ml_s) * (
        outlet.fraction or 0.0
    )


def followed(boundary_schedule: BoundarySchedule) -> tuple[int, float]:
    """Number and length, s, of the equal parts of a cycle in which a Windkessel's pressure is followed beforehand."""
    assert boundary_schedule.period_s is not None
    count = min(round(boundary_schedule.period_s / boundary_schedule.units.dt_s), MOST_FOLLOWED)
    return count, boundary_schedule.period_s / count


def _start_mmhg(boundary_schedule: BoundarySchedule, outlet: Outlet) -> float:
    """Pressure stored in a Windkessel before the first step, off that of its mean flow.

    It is such that the one at the end of the ramp is expected to be that of the cycles to come, so that these repeat
    soon; none where a long ramp forgets it, or the flow is steady.
    """
    each = outlet.windkessel
    if not each or not boundary_schedule.period_s or boundary_schedule.ramp_s > each.time_constant_s:
        return 0.0
    steps, dt_s = followed(boundary_schedule)
    raising = round(boundary_schedule.ramp_s / dt_s)
    cycle, ramp = (np.arange(1, count + 1, dtype=np.float64) * dt_s for count in (steps, raising))
    wanted = each.periodic_mmhg(excess_ml_s(boundary_schedule, outlet, cycle), dt_s)[(raising - 1) % steps]
    if not raising:
        return float(wanted)
    flow = excess_ml_s(boundary_schedule, outlet, ramp) * raised(ramp, boundary_schedule.ramp_s)
    return float((wanted - each.stored_mmhg(flow, dt_s, 0.0)[-1]) / each.decay(raising * dt_s))
