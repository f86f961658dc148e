# SPDX-License-Identifier: Apache-2.0
"""A run of a straight round pipe with openings, beside the flow of Hagen and Poiseuille.

With the mean speed U, the radius R and the distance r from the axis

    u = 2 U (1 - r^2/R^2),   -dp/ds = 8 mu U/R^2,   tau_w = 4 mu U/R.

Velocity, pressure gradient and wall shear stress are compared in the middle of the pipe, `MIDDLE` of its length, far
from the inlet and not at the outlet; the flow all along it. The stress is carried from the nodes to the wall of the
surface that the lattice was cut from, as `postprocess` does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pipeline.case.settings.flow import PostprocessSettings
from pipeline.case.shapes import Pipe
from pipeline.geometry.surface.clip import axes_of_plane
from pipeline.haemodynamics.wall_shear_stress import Wall, fit_nodes_to_wall, wall_shear_stress
from solver.domain.nodes import Nodes
from solver.runtime.errors import StageError
from validation.studies.run import Run

Array = NDArray[np.float64]

MIDDLE = (0.4, 0.9)
SECTIONS = 9
"""Through which the flow is counted, from half a radius behind the inlet to as far before the outlet."""


@dataclass(frozen=True)
class Poiseuille:
    """The exact flow.

    Attributes
    ----------
    start_mm, axis : centre of the inlet, and the unit vector from there to the outlet, (3,).
    radius_mm, length_mm : of the pipe.
    flow_ml_s, viscosity_pa_s : of the blood.
    """

    start_mm: Array
    axis: Array
    radius_mm: float
    length_mm: float
    flow_ml_s: float
    viscosity_pa_s: float

    @staticmethod
    def between(nodes: Nodes, flow_ml_s: float, viscosity_pa_s: float) -> "Poiseuille":
        """From the inlet to the outlet of nodes that have one of each.

        Parameters
        ----------
        nodes : the node arrays.
        flow_ml_s, viscosity_pa_s : of the blood.
        """
        ends = {opening.role: opening for opening in nodes.openings}
        start, end = (np.array(ends[role].centre_mm) for role in ("inlet", "outlet"))
        length = float(np.linalg.norm(end - start))
        return Poiseuille(start, (end - start) / length, ends["inlet"].radius_mm, length, flow_ml_s, viscosity_pa_s)

    @property
    def mean_m_s(self) -> float:
        """Mean speed U: a mL is 1000 mm^3, a m/s is 1000 mm/s."""
        return self.flow_ml_s / (np.pi * self.radius_mm**2)

    @property
    def gradient_pa_mm(self) -> float:
        """Pressure lost a length, 8 mu U/R^2."""
        return 1e3 * 8 * self.viscosity_pa_s * self.mean_m_s / self.radius_mm**2

    @property
    def shear_pa(self) -> float:
        """Wall shear stress, 4 mu U/R."""
        return 1e3 * 4 * self.viscosity_pa_s * self.mean_m_s / self.radius_mm

    def speed_m_s(self, away_mm: Array) -> Array:
        """Along the axis, at distances from it, of their shape."""
        return 2 * self.mean_m_s * (1 - (away_mm / self.radius_mm) ** 2)

    def place(self, points_mm: Array) -> tuple[Array, Array]:
        """Where points, (N, 3), lie: distance along the axis from the inlet, and from the axis, (N,) each; mm."""
        offset = points_mm - self.start_mm
        along = offset @ self.axis
        return along, np.linalg.norm(offset - along[:, None] * self.axis, axis=1)

    def middle(self, along_mm: Array) -> NDArray[np.bool_]:
        """Which places along the axis are compared, of their shape."""
        return (along_mm > MIDDLE[0] * self.length_mm) & (along_mm < MIDDLE[1] * self.length_mm)


@dataclass(frozen=True)
class PipeFigures:
    """What a pipe deviates by from Hagen and Poiseuille, relative.

    Attributes
    ----------
    flow : through nine sections, the largest deviation from what is wanted.
    gradient : of the pressure in the middle.
    outlet : by how many spacings of the pipe's length the pressure on the outlet's cap is off.
    velocity : L2 of the velocity in the middle.
    shear_mean, shear_rms, shear_95 : wall shear stress in the middle, carried to the wall: mean deviation, root mean
        square of the deviation, 95th percentile of its size.
    """

    flow: float
    gradient: float
    outlet: float
    velocity: float
    shear_mean: float
    shear_rms: float
    shear_95: float


@dataclass(frozen=True)
class WallShear:
    """Wall shear stress at the vertices of the wall's middle.

    Attributes
    ----------
    angle : around the axis, (V,), from -pi to pi.
    off : relative deviation of its size from the exact one, (V,).
    """

    angle: Array
    off: Array

    def around(self, parts: int) -> tuple[Array, Array]:
        """Middles of so many equal parts of the circumference and the mean deviation in each, (parts,)."""
        part = np.minimum(((self.angle + np.pi) / (2 * np.pi) * parts).astype(int), parts - 1)
        middles = 2 * np.pi * (np.arange(parts) + 0.5) / parts - np.pi
        return middles, np.bincount(part, self.off, parts) / np.bincount(part, minlength=parts)


def wall_shear(run: Run, exact: Poiseuille, wall: Wall) -> WallShear:
    """What the fit of `postprocess` carries to the wall.

    Parameters
    ----------
    run : of the pipe.
    exact : the flow as it should be.
    wall : of the surface that the lattice was cut from.
    """
    stress = wall_shear_stress(
        fit_nodes_to_wall(run.nodes, wall, PostprocessSettings().fit_nodes), wall.normals, run.viscous_stress_pa
    )
    points = wall.mesh.points_mm
    inner = exact.middle(exact.place(points)[0])
    x, y = ((points[inner] - exact.start_mm) @ axes_of_plane(exact.axis)).T
    return WallShear(np.arctan2(y, x), np.linalg.norm(stress[inner], axis=1) / exact.shear_pa - 1)


def pipe_figures(run: Run, exact: Poiseuille, shear: WallShear) -> PipeFigures:
    """Deviations of a run whose outlet has the pressure 0.

    Parameters
    ----------
    run : of the pipe.
    exact : the flow as it should be.
    shear : wall shear stress of the run.
    """
    along, away = exact.place(run.nodes.points_mm())
    inner = exact.middle(along)
    slope, at_start = np.polyfit(along[inner], run.pressure_pa[inner], 1)
    wanted = exact.speed_m_s(away[inner])[:, None] * exact.axis
    return PipeFigures(
        flow=float(np.abs(flows_ml_s(run, exact) / exact.flow_ml_s - 1).max()),
        gradient=float(-slope / exact.gradient_pa_mm - 1),
        outlet=float((slope * exact.length_mm + at_start) / exact.gradient_pa_mm / run.nodes.spacing_mm),
        velocity=float(np.linalg.norm(run.velocity_m_s[inner] - wanted) / np.linalg.norm(wanted)),
        shear_mean=float(shear.off.mean()),
        shear_rms=float(np.sqrt((shear.off**2).mean())),
        shear_95=float(np.percentile(np.abs(shear.off), 95)),
    )


def flows_ml_s(run: Run, exact: Poiseuille) -> Array:
    """Flow through sections all along the pipe, (SECTIONS,)."""
    places = np.linspace(exact.radius_mm / 2, exact.length_mm - exact.radius_mm / 2, SECTIONS)
    centres = exact.start_mm + places[:, None] * exact.axis
    return np.array([run.through_ml_s(centre, exact.axis, exact.radius_mm) for centre in centres])


def label(direction: Sequence[float]) -> str:
    """A direction as tables show it, (1,2,3)."""
    return "(" + ",".join(f"{component:g}" for component in direction) + ")"


@dataclass(frozen=True)
class PipeRun:
    """A run of a pipe with openings."""

    run: Run

    @property
    def shape(self) -> Pipe:
        """Its geometry.

        Raises
        ------
        StageError
            If it is no pipe with inlet and outlet.
        """
        shape = self.run.case.input.geometry
        if not isinstance(shape, Pipe) or not shape.roles:
            raise StageError(f"run {self.run.name}: input.geometry is no pipe with openings; let it be one")
        return shape

    @cached_property
    def exact(self) -> Poiseuille:
        """The flow as it should be.

        Raises
        ------
        StageError
            If the inflow is not steady.
        """
        solve = self.run.case.solve
        name, inlet = next(iter(solve.inlets.items()))
        if inlet.waveform or inlet.flow_ml_s is None:
            raise StageError(f"run {self.run.name}: solve.inlets.{name} is a waveform; give a steady flow_ml_s alone")
        return Poiseuille.between(self.run.nodes, inlet.flow_ml_s, solve.viscosity_pa_s)

    @property
    def direction(self) -> str:
        """Of the flow."""
        return label(self.shape.direction)

    @property
    def across(self) -> float:
        """Nodes across, a tenth at most."""
        return round(self.shape.diameter_mm / self.run.nodes.spacing_mm, 1)

    @property
    def reynolds(self) -> int:
        """Number of diameter and mean speed."""
        solve = self.run.case.solve
        diameter_m = 1e-3 * self.shape.diameter_mm
        return round(solve.density_kg_m3 * self.exact.mean_m_s * diameter_m / solve.viscosity_pa_s)

    @cached_property
    def shear(self) -> WallShear:
        """On the wall of the surface that the lattice was cut from."""
        return wall_shear(self.run, self.exact, Wall.of(self.run.surface))

    @cached_property
    def figures(self) -> PipeFigures:
        """Deviations."""
        return pipe_figures(self.run, self.exact, self.shear)
