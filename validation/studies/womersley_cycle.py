# SPDX-License-Identifier: Apache-2.0
"""The last cycle of a pulsatile run through a pipe, beside :mod:`validation.studies.womersley_solution`."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.case.settings.flow import PostprocessSettings
from pipeline.case.shapes import Pipe
from pipeline.haemodynamics.wall_shear_stress import Wall, fit_nodes_to_wall, wall_shear_stress
from solver.domain.nodes import Nodes
from solver.run.flow_file import Flow
from solver.runtime.errors import StageError
from validation.studies.run import Run
from validation.studies.womersley_solution import (
    PulsatilePipe,
    Reals,
    Windkessel,
    first_harmonic,
    phase_deg,
    shear_indices,
)

MIDDLE = (0.4, 0.8)
"""Parts of the pipe's length between which the flow is compared: behind what the inlet, before what the outlet does."""
RINGS = 12
"""Rings over whose nodes the velocity is averaged in profiles."""


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
