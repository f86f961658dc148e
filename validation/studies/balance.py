# SPDX-License-Identifier: Apache-2.0
"""Balance of mass and momentum of a vessel with openings, from what a run leaves in its files.

Between sections inside the openings, with n out of the fluid,

    sum over sections of (p n + rho u u.n - sigma.n) A + integral over the wall of (p n + tau_w) dA = 0.

Pressure and stress on the wall are those that post-processing carries there.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pipeline.files.mesh import Mesh
from pipeline.haemodynamics.accumulator import SLAB_HALF_WIDTH, Slab
from pipeline.haemodynamics.wall_shear_stress import Wall, WallFit, fit_nodes_to_wall, place_at, wall_shear_stress
from solver.domain.nodes import Opening
from validation.evidence import Evidence
from validation.studies.run import Run, section

Array = NDArray[np.float64]

INSIDE_RADII = 1.5
"""How far inside the openings momentum is balanced, in their radii."""


MOMENTUM_NOTE = (
    "Momentum: between sections one and a half radii inside the openings, with the pressure and the stress that are"
    " carried to the wall; over the force on the wall."
)
SHEAR_ERROR, SHEAR_NODES = 0.022, 21
"""Relative error of the stress that is carried to the wall of a pipe where tau is near 1/2, and nodes across it."""


def shear_error(nodes_across: float) -> float:
    """That of other nodes across: the stress on the wall is of first order."""
    return SHEAR_ERROR * SHEAR_NODES / nodes_across


def smooth_step(depth: Array) -> Array:
    """From 0 to 1 over the window of a section, whose integral it is, against the depth in spacings."""
    t = np.clip(depth / SLAB_HALF_WIDTH, -1, 1)
    return np.asarray((1 + t + np.sin(np.pi * t) / np.pi) / 2)


def times_normal(stress: Array, normal: Array) -> Array:
    """sigma.n, (N, 3), of stresses (N, 6), components xx, yy, zz, xy, yz, xz."""
    xx, yy, zz, xy, yz, xz = stress.T
    tensor = np.array(((xx, xy, xz), (xy, yy, yz), (xz, yz, zz)))
    return np.asarray(np.einsum("abn,b->na", tensor, normal))


@dataclass(frozen=True)
class Vessel:
    """A run and what it does to its wall, SI but for places (mm) and flow (mL/s)."""

    run: Run

    @cached_property
    def wall(self) -> Wall:
        """The wall without caps, of about one point to a squared spacing."""
        return gathered(Wall.of(self.run.surface), self.run.nodes.spacing_mm)

    @cached_property
    def _fit(self) -> WallFit:
        return fit_nodes_to_wall(self.run.nodes, self.wall, self.run.case.postprocess.fit_nodes)

    @cached_property
    def shear_pa(self) -> Array:
        """Wall shear stress, (V, 3), along the flow beside it."""
        return wall_shear_stress(self._fit, self.wall.normals, self.run.viscous_stress_pa)

    @cached_property
    def wall_pressure_pa(self) -> Array:
        """Pressure at the points of the wall, (V,)."""
        return self._fit.carry(self.run.pressure_pa)

    @property
    def openings(self) -> tuple[Opening, ...]:
        """Of the run."""
        return self.run.nodes.openings

    @property
    def inlet(self) -> Opening:
        """The one inlet."""
        (inlet,) = (opening for opening in self.openings if opening.role == "inlet")
        return inlet

    @property
    def flow_ml_s(self) -> float:
        """What enters, as it is imposed."""
        return float(self.run.summary["openings"][self.inlet.name]["imposed_flow_ml_s"])

    @property
    def lost(self) -> float:
        """Part of what enters that does not leave, as the links count it."""
        out = sum(self.run.leaving_ml_s(opening.name) for opening in self.openings if opening.role == "outlet")
        return 1 - out / self.flow_ml_s

    @property
    def mean_speed_m_s(self) -> float:
        """Through the inlet."""
        return self.flow_ml_s / self.inlet.area_mm2

    @property
    def nodes_across(self) -> int:
        """Across the inlet."""
        return round(2 * self.inlet.radius_mm / self.run.nodes.spacing_mm)

    @property
    def reynolds(self) -> float:
        """Of the mean speed through the inlet and its diameter."""
        solve = self.run.case.solve
        diameter_m = 2e-3 * self.inlet.radius_mm
        return self.mean_speed_m_s * diameter_m * solve.density_kg_m3 / solve.viscosity_pa_s

    def mean_pressure_pa(self, centre_mm: Array, normal: Array, radius_mm: float) -> float:
        """Over a round section.

        Parameters
        ----------
        centre_mm, normal : of the section, (x, y, z), LPS, the normal a unit vector.
        radius_mm : of the section.
        """
        return _mean(section(self.run.nodes, centre_mm, normal, radius_mm), self.run.pressure_pa)

    @cached_property
    def momentum_missing(self) -> float:
        """What is missing in the balance of momentum, over the force on the wall.

        A smooth step over the window of the sections, whose slope that window is, ends the wall there. Pressures count
        from their mean at the outlets, on which the force on a wall with openings depends.
        """
        places, weight = self.wall.mesh.points_mm, np.ones(len(self.wall.normals))
        slabs = []
        for opening in self.openings:
            depth, beside = place_at(opening, places)
            depth = (depth - INSIDE_RADII * opening.radius_mm) / self.run.nodes.spacing_mm
            weight *= np.where(beside < 2 * opening.radius_mm, smooth_step(depth), 1)
            centre = np.asarray(opening.centre_mm) - INSIDE_RADII * opening.radius_mm * np.asarray(opening.normal)
            slabs.append(section(self.run.nodes, centre, np.asarray(opening.normal), opening.radius_mm))
        pressures = [_mean(slab, self.run.pressure_pa) for slab in slabs]
        outlets = [p for p, opening in zip(pressures, self.openings, strict=True) if opening.role == "outlet"]
        normal_part = (self.wall_pressure_pa - np.mean(outlets))[:, None] * self.wall.normals
        on_wall = (weight * self.wall.areas_mm2) @ (normal_part + self.shear_pa)
        through = np.zeros(3)
        for slab, pressure, opening in zip(slabs, pressures, self.openings, strict=True):
            through += (pressure - np.mean(outlets)) * opening.area_mm2 * np.asarray(opening.normal)
            through += self._carried(slab, np.asarray(opening.normal))
        return float(np.linalg.norm(through + on_wall) / np.linalg.norm(on_wall))

    def _carried(self, slab: Slab, normal: Array) -> Array:
        """Integral of rho u u.n - sigma.n over a section, (3,), 1e-6 N."""
        velocity = self.run.velocity_m_s[slab.rows]
        flux = self.run.case.solve.density_kg_m3 * (velocity @ normal)[:, None] * velocity
        return slab.areas_mm2 @ (flux - times_normal(self.run.viscous_stress_pa[slab.rows], normal))


def reach_momentum(evidence: Evidence, vessel: Vessel, narrowest: float, at_most: float) -> None:
    """Compare the momentum that is missing with its bound, or with the error of the stress at the narrowest place.

    Parameters
    ----------
    narrowest : nodes across it.
    at_most : the bound.
    """
    why = (
        f"the stress that is carried to the wall is itself off by {100 * SHEAR_ERROR:g} % at {SHEAR_NODES} nodes across"
        " where tau is near 1/2, by as much more as nodes are fewer; what the links of the wall take balances to 0.2 %"
        " at 12 nodes"
    )
    held = max(at_most, shear_error(narrowest))
    what = f"{vessel.run.name}: momentum missing, over the force on the wall"
    evidence.reach(what, vessel.momentum_missing, at_most=at_most, held=held, why=why)


def _mean(slab: Slab, values: Array) -> float:
    return float(slab.areas_mm2 @ values[slab.rows] / slab.areas_mm2.sum())


def gathered(wall: Wall, spacing_mm: float) -> Wall:
    """A wall of fewer points, one for all vertices in a cube of the spacing, with their mean place and their area."""
    cube = np.floor(wall.mesh.points_mm / spacing_mm).astype(np.int64)
    _, number = np.unique(cube, axis=0, return_inverse=True)
    areas = np.bincount(number.ravel(), wall.areas_mm2).astype(np.float64)

    def mean(values: Array) -> Array:
        sums = [np.bincount(number.ravel(), wall.areas_mm2 * values[:, k]) for k in range(3)]
        return np.stack(sums, axis=1) / areas[:, None]

    normals = mean(wall.normals)
    points = Mesh(mean(wall.mesh.points_mm), np.empty((0, 3), np.int64), np.empty(0, np.int8))
    return Wall(points, normals / np.linalg.norm(normals, axis=1, keepdims=True), areas)
