"""Pulsatile flow through a straight round pipe into a Windkessel, beside the solutions of both.

To the mean of a flow Q + Re(q exp(i w t)) belongs the steady solution of Hagen and Poiseuille, to its oscillatory
component that of Womersley (1955, doi:10.1113/jphysiol.1955.sp005276): with U = q/(pi R^2), alpha = R sqrt(w/nu), l =
i^(3/2) alpha and k = 1 - 2 J1(l)/(l J0(l)),

    -dp/dx = i w rho U/k,   u = U (1 - J0(l r/R)/J0(l))/k,   tau = R/2 (-dp/dx - i w rho U),

tau the stress on the wall, from the balance of forces on the fluid. At the outlet p = Z q, with the impedance
Z = Rp + Rd/(1 + i w Rd C) of a proximal and a distal resistance and a compliance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, Protocol

import numpy as np
from matplotlib import colormaps
from numpy.typing import ArrayLike, NDArray
from pydantic import Field
from scipy.special import jv

from pipeline.case.settings.base import Positive, Section
from pipeline.case.settings.flow import PostprocessSettings
from pipeline.case.shapes import Pipe
from pipeline.haemodynamics.wall_shear_stress import Wall, fit_nodes_to_wall, wall_shear_stress
from solver.boundary.windkessel import PASCAL_PER_MMHG
from solver.domain.nodes import Nodes
from solver.run.flow_file import Flow
from solver.runtime.errors import StageError
from validation.evidence import Evidence, number, order
from validation.studies.run import Run

FILES = ("surface.vtp",)
MIDDLE = (0.4, 0.8)
"""Parts of the pipe's length between which the flow is compared: behind what the inlet, before what the outlet does."""
RINGS, PHASES = 12, 8
"""Of the profiles that are drawn: rings over whose nodes the velocity is averaged, and times of the cycle."""

Reals = NDArray[np.float64]


class Options(Section):
    """What is to be reached on a lattice so fine; on a coarser one, what the orders of convergence leave of it."""

    nodes: Positive = Field(description="across, for which the following are asked")
    velocity: Positive = Field(description="relative L2 of the velocity over the cycle, at most")
    gradient: Positive = Field(description="relative error of the pressure gradient's amplitude, at most")
    gradient_deg: Positive = Field(description="of its phase, degrees")
    impedance: Positive = Field(description="relative error of the outlet's impedance, at most")
    impedance_deg: Positive = Field(description="of its phase, degrees")
    lost: Positive = Field(description="part of the oscillatory flow that neither leaves nor is stored, at most")
    layer: Positive = Field(description="spacings in Stokes' layer sqrt(2 nu/w), for which the following are asked")
    tawss: Positive = Field(description="mean size of the relative error of TAWSS over the wall, at most")
    osi: Positive = Field(description="mean size of the error of OSI over the wall, at most")
    order: Positive = Field(description="of the velocity with three sizes or more, at least")


# ---- solutions -------------------------------------------------------------------------------------------------------


def inertial_part(alpha: ArrayLike) -> NDArray[np.complex128]:
    """The mean velocity over that of a fluid without friction, k = 1 - 2 J1(l)/(l J0(l)), at Womersley numbers."""
    scaled = 1j**1.5 * np.asarray(alpha)
    part: NDArray[np.complex128] = 1 - 2 * jv(1, scaled) / (scaled * jv(0, scaled))
    return part


def harmonic_shear(alpha: ArrayLike) -> NDArray[np.complex128]:
    """Wall shear stress of a flow that oscillates over that of the same flow when steady, 4 mu U/R, at Womersley
    numbers.

    tau/(4 mu U/R) = i alpha^2/8 (1/k - 1).
    """
    return 1j * np.square(alpha) / 8 * (1 / inertial_part(alpha) - 1)


def shear_indices(shear: Reals) -> dict[str, Reals]:
    """TAWSS, OSI, RRT and peak of a stress along one direction; times lie along the last axis."""
    mean, size = np.abs(shear.mean(axis=-1)), np.abs(shear).mean(axis=-1)
    return {"TAWSS": size, "OSI": (1 - mean / size) / 2, "RRT": 1 / mean, "peak": np.abs(shear).max(axis=-1)}


@dataclass(frozen=True)
class Windkessel:
    """Three elements behind an outlet, in mmHg, mL and s, as the key ``windkessel`` of a case has them."""

    proximal_mmhg_s_ml: float
    distal_mmhg_s_ml: float
    compliance_ml_mmhg: float

    def impedance_pa_s_ml(self, omega: float) -> complex:
        """Rp + Rd/(1 + i w Rd C)."""
        behind = self.distal_mmhg_s_ml / (1 + 1j * omega * self.distal_mmhg_s_ml * self.compliance_ml_mmhg)
        return PASCAL_PER_MMHG * (self.proximal_mmhg_s_ml + behind)


@dataclass(frozen=True)
class PulsatilePipe:
    """Solutions in a pipe for a flow Q + Re(q exp(i w t)), Q and q in mL/s; the rest in SI.

    Attributes
    ----------
    radius_m, period_s, viscosity_m2_s, density_kg_m3 : R, 2 pi/w, nu, rho.
    flow_ml_s : Q.
    """

    radius_m: float
    period_s: float
    viscosity_m2_s: float
    density_kg_m3: float
    flow_ml_s: float

    @property
    def omega(self) -> float:
        """Angular frequency, w."""
        return 2 * np.pi / self.period_s

    @property
    def alpha(self) -> float:
        """Womersley number."""
        return float(self.radius_m * np.sqrt(self.omega / self.viscosity_m2_s))

    @property
    def reynolds(self) -> float:
        """2 R U/nu of the mean flow."""
        return float(2 * self.radius_m * self.speed(self.flow_ml_s).real / self.viscosity_m2_s)

    def speed(self, flow_ml_s: complex) -> complex:
        """Mean over the section of a flow, m/s."""
        return 1e-6 * flow_ml_s / (np.pi * self.radius_m**2)

    def steady_velocity(self, r: Reals) -> Reals:
        """Of the mean flow, at distances from the axis in radii."""
        return 2 * self.speed(self.flow_ml_s).real * (1 - r**2)

    def steady_gradient(self) -> float:
        """-dp/dx of the mean flow, Pa/m."""
        return 8 * self._viscosity_pa_s * self.speed(self.flow_ml_s).real / self.radius_m**2

    def velocity(self, flow_ml_s: complex, r: Reals) -> NDArray[np.complex128]:
        """Of a flow that oscillates, U (1 - J0(l r/R)/J0(l))/k."""
        scaled = 1j**1.5 * self.alpha
        profile = (1 - jv(0, scaled * r) / jv(0, scaled)) / inertial_part(self.alpha)
        return np.asarray(self.speed(flow_ml_s) * profile)

    def gradient(self, flow_ml_s: complex) -> complex:
        """-dp/dx of a flow that oscillates, i w rho U/k, Pa/m."""
        return complex(1j * self.omega * self.density_kg_m3 * self.speed(flow_ml_s) / inertial_part(self.alpha))

    def shear_pa(self, flow_ml_s: complex) -> complex:
        """Wall shear stress of a flow that oscillates."""
        return complex(self.steady_shear_pa(flow_ml_s) * harmonic_shear(self.alpha))

    def steady_shear_pa(self, flow_ml_s: complex) -> complex:
        """The same of a flow that is steady, 4 mu U/R."""
        return 4 * self._viscosity_pa_s * self.speed(flow_ml_s) / self.radius_m

    def turning(self, times_s: ArrayLike) -> NDArray[np.complex128]:
        """exp(i w t)."""
        return np.asarray(np.exp(1j * self.omega * np.asarray(times_s)))

    @property
    def _viscosity_pa_s(self) -> float:
        return self.viscosity_m2_s * self.density_kg_m3


def first_harmonic(times_s: Reals, values: Reals, period_s: float) -> complex:
    """The amplitude a of Re(a exp(i w t)) in samples spread evenly over whole periods."""
    return complex(2 * np.mean(values * np.exp(-2j * np.pi * times_s / period_s)))


def phase_deg(ratio: complex) -> float:
    """Phase of a complex number in degrees, -180 to 180."""
    return float(np.degrees(np.angle(ratio)))


# ---- what a run shows ------------------------------------------------------------------------------------------------


class Pulsed(Protocol):
    """What is read of a run."""

    @property
    def nodes(self) -> Nodes:
        """The node arrays."""

    @property
    def flow(self) -> Flow:
        """The flow file, with times spread evenly over the last cycle."""

    @property
    def monitor(self) -> Mapping[str, Reals]:
        """Columns of the monitor by name."""

    @property
    def summary(self) -> Mapping[str, Any]:
        """What the solver tells."""


@dataclass(frozen=True)
class PulseFigures:
    """What a pulsatile pipe deviates by from the linear solution for the flow in its middle; amplitudes relative.

    Attributes
    ----------
    velocity : L2 of the velocity in the middle of the pipe over the cycle.
    gradient, gradient_deg : amplitude and phase of the pressure gradient there.
    impedance, impedance_deg : of pressure over flow at the outlet, against its Windkessel.
    outflow, outflow_deg : of the flow that leaves, against that which enters.
    lost : of the flow that enters, what neither leaves nor is stored by the compressible fluid, i w p V/(rho c^2).
    """

    velocity: float
    gradient: float
    gradient_deg: float
    impedance: float
    impedance_deg: float
    outflow: float
    outflow_deg: float
    lost: float


@dataclass(frozen=True)
class ShearFigures:
    """What the stress on the wall in the middle of the pipe deviates by from the same solution; relative but for OSI.

    Attributes
    ----------
    shear, shear_deg : amplitude and phase of its mean over the wall.
    tawss, osi : mean size over the wall of the deviation of TAWSS and OSI, of the exact stress at the same times.
    exact_osi : what OSI should be.
    """

    shear: float
    shear_deg: float
    tawss: float
    osi: float
    exact_osi: float


@dataclass(frozen=True)
class Cycle:
    """The last cycle of a run through a pipe from an inlet to an outlet with a Windkessel, beside the solutions."""

    run: Pulsed
    pipe: PulsatilePipe
    behind: Windkessel

    @classmethod
    def of(cls, run: Run) -> "Cycle":
        """Of a run of a study.

        Raises
        ------
        StageError
            If it is no pulsatile flow through a pipe into a Windkessel.
        """
        shape, numbers = run.case.input.geometry, run.summary["numbers"]
        if not isinstance(shape, Pipe) or "period_s" not in numbers:
            raise StageError(
                f"run {run.name}: no pulsatile flow through a pipe; give input.geometry, and its inlet a waveform"
            )
        inlet, outlet = (run.summary["openings"][one.name] for one in ends(run.nodes))
        names = Windkessel.__dataclass_fields__
        if not names.keys() <= outlet["imposed"].keys():
            raise StageError(f"run {run.name}: its outlet has no windkessel to be compared with; give it one")
        pipe = PulsatilePipe(
            1e-3 * shape.radius_mm,
            numbers["period_s"],
            numbers["viscosity_m2_s"],
            numbers["density_kg_m3"],
            inlet["imposed_flow_ml_s"],
        )
        return cls(run, pipe, Windkessel(*(outlet["imposed"][name] for name in names)))

    @property
    def nodes_across(self) -> int:
        """On the diameter."""
        return round(2e3 * self.pipe.radius_m / self.run.nodes.spacing_mm)

    @property
    def layer_nodes(self) -> float:
        """Spacings in Stokes' layer, sqrt(2 nu/w), in which the friction of the wall is felt."""
        return 1e3 * (2 * self.pipe.viscosity_m2_s / self.pipe.omega) ** 0.5 / self.run.nodes.spacing_mm

    @cached_property
    def monitored(self) -> dict[str, Reals]:
        """In the last cycle: ``time``, flow ``into`` and ``out`` of the pipe, mL/s, ``pressure`` at its outlet, Pa."""
        inlet, outlet = (opening.name for opening in ends(self.run.nodes))
        time = self.run.monitor["time_s"]
        last = time > time[-1] - self.pipe.period_s * (1 - 1e-6)
        columns = {
            "time": "time_s",
            "into": f"flow_ml_s:{inlet}",
            "out": f"flow_ml_s:{outlet}",
            "pressure": f"pressure_pa:{outlet}",
        }
        return {name: self.run.monitor[column][last] for name, column in columns.items()}

    def oscillatory(self, name: str) -> complex:
        """First harmonic of what is monitored."""
        return first_harmonic(self.monitored["time"], self.monitored[name], self.pipe.period_s)

    @cached_property
    def times_s(self) -> Reals:
        """Of the snapshots."""
        return np.array(self.run.flow.times_s, np.float64)

    @cached_property
    def axis(self) -> Reals:
        """Unit vector along the pipe."""
        return np.array(ends(self.run.nodes)[1].normal)

    def place(self, points_mm: NDArray[np.floating]) -> tuple[Reals, Reals]:
        """Of points: how far along the pipe from its inlet, of its length, and from its axis, in radii; (N,) each."""
        inlet, outlet = (np.array(opening.centre_mm) for opening in ends(self.run.nodes))
        offset = points_mm - inlet
        along = offset @ self.axis
        across = np.linalg.norm(offset - along[:, None] * self.axis, axis=1)
        return along / ((outlet - inlet) @ self.axis), across / (1e3 * self.pipe.radius_m)

    @cached_property
    def middle(self) -> NDArray[np.bool_]:
        """Nodes that are compared, (N,)."""
        return within_middle(self.place(self.run.nodes.points_mm())[0])

    @cached_property
    def r(self) -> Reals:
        """Their distance from the axis, in radii."""
        return self.place(self.run.nodes.points_mm())[1][self.middle]

    @property
    def local_ml_s(self) -> complex:
        """Oscillatory component of the flow in the middle: the fluid is compressible, and its flow changes along the
        pipe.
        """
        into, out = self.oscillatory("into"), self.oscillatory("out")
        return into + (out - into) * sum(MIDDLE) / 2

    @cached_property
    def velocity_m_s(self) -> list[NDArray[np.float32]]:
        """Of the nodes that are compared, (K, 3), at each time."""
        return [self.run.flow.velocity_m_s(k)[self.middle] for k in range(len(self.times_s))]

    def exact_velocity_m_s(self, r: Reals, time_s: float) -> Reals:
        """Along the pipe, at distances from its axis in radii."""
        oscillatory = self.pipe.velocity(self.local_ml_s, r)
        return self.pipe.steady_velocity(r) + (oscillatory * self.pipe.turning(time_s)).real

    @cached_property
    def pressures(self) -> tuple[Reals, Reals]:
        """At each time -dp/dx in the middle, Pa/m, and the mean over all nodes, Pa; (T,) each."""
        along_m = 1e-3 * (self.run.nodes.points_mm() @ self.axis)[self.middle]
        fields = (self.run.flow.pressure_pa(k).astype(np.float64) for k in range(len(self.times_s)))
        found = [(-np.polyfit(along_m, field[self.middle], 1)[0], field.mean()) for field in fields]
        gradients, means = np.array(found).T
        return gradients, means

    @property
    def stored_ml_s(self) -> complex:
        """Oscillatory component of the flow that the compressible fluid of all nodes takes up, i w p V/(rho c^2)."""
        spacing_m, numbers = 1e-3 * self.run.nodes.spacing_mm, self.run.summary["numbers"]
        bulk_pa = self.pipe.density_kg_m3 * (spacing_m / numbers["time_step_s"]) ** 2 / 3
        volume_ml = 1e6 * self.run.nodes.count * spacing_m**3
        pressure = first_harmonic(self.times_s, self.pressures[1], self.pipe.period_s)
        return 1j * self.pipe.omega * pressure * volume_ml / bulk_pa

    def profiles(self) -> tuple[Reals, Reals]:
        """Mean radius of each ring of nodes, (RINGS,), and mean velocity along the pipe there, (T, RINGS)."""
        ring = np.minimum((self.r * RINGS).astype(int), RINGS - 1)
        nodes = np.bincount(ring, minlength=RINGS)
        along = (velocity @ self.axis for velocity in self.velocity_m_s)
        r, *velocities = (np.bincount(ring, values, RINGS) / nodes for values in (self.r, *along))
        return r, np.array(velocities)


def ends(nodes: Nodes) -> tuple[Any, Any]:
    """The inlet and the outlet."""
    inlet, outlet = sorted(nodes.openings, key=lambda opening: opening.role != "inlet")
    return inlet, outlet


def within_middle(along: Reals) -> NDArray[np.bool_]:
    """Which parts of the length are compared."""
    return (along > MIDDLE[0]) & (along < MIDDLE[1])


def pulse_figures(cycle: Cycle) -> PulseFigures:
    """Flow and pressure of a run beside the solutions."""
    pipe, into, out = cycle.pipe, cycle.oscillatory("into"), cycle.oscillatory("out")
    off = whole = 0.0
    for time, velocity in zip(cycle.times_s, cycle.velocity_m_s, strict=True):
        wanted = np.outer(cycle.exact_velocity_m_s(cycle.r, time), cycle.axis)
        off += float(((velocity - wanted) ** 2).sum())
        whole += float((wanted**2).sum())
    gradient = first_harmonic(cycle.times_s, cycle.pressures[0], pipe.period_s) / pipe.gradient(cycle.local_ml_s)
    impedance = cycle.oscillatory("pressure") / out / cycle.behind.impedance_pa_s_ml(pipe.omega)
    return PulseFigures(
        velocity=(off / whole) ** 0.5,
        gradient=abs(gradient) - 1,
        gradient_deg=phase_deg(gradient),
        impedance=abs(impedance) - 1,
        impedance_deg=phase_deg(impedance),
        outflow=abs(out / into) - 1,
        outflow_deg=phase_deg(out / into),
        lost=abs(into - out - cycle.stored_ml_s) / abs(into),
    )


def shear_figures(cycle: Cycle, wall: Wall) -> ShearFigures:
    """Stress on the wall of a run beside the solution."""
    pipe, flow = cycle.pipe, cycle.run.flow
    fit = fit_nodes_to_wall(cycle.run.nodes, wall, PostprocessSettings().fit_nodes)
    there = within_middle(cycle.place(wall.mesh.points_mm)[0])
    stresses = (wall_shear_stress(fit, wall.normals, flow.viscous_stress_pa(k)) for k in range(len(cycle.times_s)))
    along = np.stack([stress[there] @ cycle.axis for stress in stresses], axis=-1)
    oscillatory = pipe.shear_pa(cycle.local_ml_s)
    exact = pipe.steady_shear_pa(pipe.flow_ml_s).real + (oscillatory * pipe.turning(cycle.times_s)).real
    harmonic = first_harmonic(cycle.times_s, along.mean(axis=0), pipe.period_s) / oscillatory
    found, wanted = shear_indices(along), shear_indices(exact)
    return ShearFigures(
        shear=abs(harmonic) - 1,
        shear_deg=phase_deg(harmonic),
        tawss=float(np.abs(found["TAWSS"] / wanted["TAWSS"] - 1).mean()),
        osi=float(np.abs(found["OSI"] - wanted["OSI"]).mean()),
        exact_osi=float(wanted["OSI"]),
    )


# ---- the record ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shown:
    """A run with what was measured on it."""

    cycle: Cycle
    pulse: PulseFigures
    shear: ShearFigures

    @property
    def number(self) -> str:
        """Its Womersley number."""
        return f"{self.cycle.pipe.alpha:.3g}"

    @property
    def nodes(self) -> int:
        """Across."""
        return self.cycle.nodes_across


def measure(evidence: Evidence, runs: Mapping[str, Run], options: Options) -> None:
    """Errors by Womersley number and spacing, their order, what the finest lattice of each has to reach; profiles."""
    cycles = {name: Cycle.of(run) for name, run in runs.items()}
    shown = [
        Shown(cycle, pulse_figures(cycle), shear_figures(cycle, Wall.of(runs[name].surface)))
        for name, cycle in cycles.items()
    ]
    shown.sort(key=lambda each: (each.cycle.pipe.alpha, each.nodes))
    by_number = {key: list(group) for key, group in groupby(shown, key=lambda each: each.number)}
    _flow(evidence, shown)
    _wall(evidence, shown)
    for group in by_number.values():
        _reach(evidence, group, options)
    finest = [group[-1] for group in by_number.values()]
    caption = (
        f"Velocity at {PHASES} times of the cycle, from that of most flow (dark) on: Womersley's solution, and means"
        " over rings of nodes (dots)"
    )
    evidence.draw(lambda figure: _profiles(figure, finest), caption)
    caption = (
        "Flow, pressure at the outlet and its gradient in the middle over the cycle; dashed: what both solutions give"
        " for the flow at the inlet"
    )
    evidence.draw(lambda figure: _cycles(figure, finest), caption)


def _flow(evidence: Evidence, shown: Sequence[Shown]) -> None:
    columns = (
        "Womersley number",
        "nodes across",
        "velocity, L2",
        "gradient",
        "degrees",
        "impedance",
        "degrees",
        "outflow",
        "degrees",
        "lost",
    )
    reynolds = ", ".join(dict.fromkeys(number(each.cycle.pipe.reynolds) for each in shown))
    note = (
        f"Mean Reynolds number {reynolds}. Deviations of the first harmonic, amplitude and phase: velocity and pressure"
        " gradient in the middle of the pipe, for the flow there; impedance of the outlet from its Windkessel's;"
        " outflow from inflow, of which the fluid, compressible, stores a part; lost: what it does not store either."
    )
    rows = [(each.number, each.nodes, *vars(each.pulse).values()) for each in shown]
    evidence.table(columns, rows, note)


def _wall(evidence: Evidence, shown: Sequence[Shown]) -> None:
    columns = (
        "Womersley number",
        "nodes across",
        "spacings in Stokes' layer",
        "stress",
        "degrees",
        "TAWSS",
        "OSI",
        "exact OSI",
    )
    note = (
        "Stress on the wall in the middle of the pipe: deviations of amplitude and phase of its mean; mean size of the"
        " deviation of TAWSS, relative, and of OSI, absolute."
    )
    rows = [(each.number, each.nodes, each.cycle.layer_nodes, *vars(each.shear).values()) for each in shown]
    evidence.table(columns, rows, note)


def _reach(evidence: Evidence, group: Sequence[Shown], options: Options) -> None:
    """What the finest run of a Womersley number has to reach, and the order of its runs.

    Flow and pressure converge at second order, the stress that is carried to the wall at first.
    """
    finest = group[-1]
    flow, wall, name = finest.pulse, finest.shear, f"Womersley number {finest.number}, {finest.nodes} nodes"
    second = max(1.0, options.nodes / finest.nodes) ** 2
    first = max(1.0, options.layer / finest.cycle.layer_nodes)
    for what, reached, wanted in (
        ("velocity, L2", flow.velocity, second * options.velocity),
        ("amplitude of the pressure gradient, deviation", flow.gradient, second * options.gradient),
        ("phase of the pressure gradient, degrees", flow.gradient_deg, second * options.gradient_deg),
        ("amplitude of the impedance, deviation", flow.impedance, second * options.impedance),
        ("phase of the impedance, degrees", flow.impedance_deg, second * options.impedance_deg),
        ("flow that is neither stored nor leaves", flow.lost, options.lost),
        ("TAWSS, mean size of the deviation", wall.tawss, first * options.tawss),
        ("OSI, mean size of the deviation", wall.osi, first * options.osi),
    ):
        evidence.reach(f"{name}: {what}", abs(reached), at_most=wanted)
    if len(group) > 2:
        slope = order([each.nodes for each in group], [each.pulse.velocity for each in group])
        evidence.reach(f"Womersley number {finest.number}: order of the velocity", slope, at_least=options.order)


def _profiles(figure: Any, shown: Sequence[Shown]) -> None:
    fine, phases = np.linspace(0, 1, 101), np.arange(PHASES) / PHASES
    for axes, each in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        cycle, (r, velocity) = each.cycle, each.cycle.profiles()
        mean = cycle.pipe.speed(cycle.pipe.flow_ml_s).real
        away = np.abs(cycle.pipe.turning(cycle.times_s) - np.exp(2j * np.pi * phases[:, None]))
        for phase, k in zip(phases, away.argmin(axis=1), strict=True):
            colour = colormaps["viridis"](phase)
            axes.plot(cycle.exact_velocity_m_s(fine, cycle.times_s[k]) / mean, fine, color=colour, lw=0.9)
            axes.plot(velocity[k] / mean, r, ".", color=colour, markersize=5)
        axes.set(xlabel="velocity, of the mean", ylabel="distance from the axis, radii", title=_title(each))


def _cycles(figure: Any, shown: Sequence[Shown]) -> None:
    figure.set_size_inches(7, 2.4 * len(shown))
    for (left, right), each in zip(figure.subplots(len(shown), 2, sharex=True, squeeze=False), shown, strict=True):
        cycle, pipe, monitored = each.cycle, each.cycle.pipe, each.cycle.monitored
        phase, into = np.linspace(0, 1, 101), cycle.oscillatory("into") * np.exp(2j * np.pi * np.linspace(0, 1, 101))
        pressure = cycle.behind.impedance_pa_s_ml(0).real * pipe.flow_ml_s
        oscillatory = cycle.behind.impedance_pa_s_ml(pipe.omega) * into
        for label, values, colour in (
            ("flow in", monitored["into"] / pipe.flow_ml_s, "C0"),
            ("flow out", monitored["out"] / pipe.flow_ml_s, "C2"),
            ("pressure", monitored["pressure"] / pressure, "C4"),
        ):
            left.plot(*_by_phase(monitored["time"] / pipe.period_s, values), color=colour, label=label)
        left.plot(phase, 1 + oscillatory.real / pressure, "k--", lw=0.8)
        steady = pipe.steady_gradient()
        right.plot(*_by_phase(cycle.times_s / pipe.period_s, cycle.pressures[0] / steady), ".", color="C2")
        right.plot(phase, 1 + (pipe.gradient(1) * into).real / steady, "k--", lw=0.8)
        left.set(ylabel="of the mean", title=_title(each))
        right.set(ylabel="gradient, of the steady")
    left.set(xlabel="time, periods")
    right.set(xlabel="time, periods")
    figure.axes[0].legend(loc="lower right", fontsize="small")


def _by_phase(time: Reals, values: Reals) -> tuple[Reals, Reals]:
    """Values over the part of the cycle, by times in periods."""
    phase = np.mod(time + 1e-9, 1)  # a whole number of periods is 0, whatever its round-off
    turn = np.argsort(phase)
    return phase[turn], values[turn]


def _title(each: Shown) -> str:
    return f"Womersley number {each.number}, {each.nodes} nodes"
