# SPDX-License-Identifier: Apache-2.0
"""Sums over the times of a flow: stresses on the wall, flow and pressure at the openings, energy and peak speed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.haemodynamics.wall_noise import Noise, WallFilter
from pipeline.haemodynamics.wall_shear_stress import Wall, WallFit, place_at, wall_shear_stress
from solver.domain.nodes import Nodes, Opening
from solver.runtime.errors import StageError

SLAB_CENTRE, SLAB_HALF_WIDTH = 3.5, 2.5
"""Slab inside an opening, in spacings from the cap: the layer of nodes that the conditions touch is left out."""


@dataclass(frozen=True)
class Fields:
    """The flow at one time.

    Attributes
    ----------
    velocity_m_s : (N, 3), (x, y, z), LPS.
    pressure_pa : (N,).
    stress_pa : (N, 6), viscous stress, components xx, yy, zz, xy, yz, xz.
    viscosity_pa_s : (N,), the effective viscosity where it varies; else none.
    """

    velocity_m_s: NDArray[np.floating]
    pressure_pa: NDArray[np.floating]
    stress_pa: NDArray[np.floating]
    viscosity_pa_s: NDArray[np.floating] | None = None


@dataclass(frozen=True)
class Slab:
    """Fluid nodes just inside an opening and what each stands for.

    Attributes
    ----------
    rows : (K,), rows of the fluid array.
    areas_mm2 : (K,), they sum to the cross-section of the vessel.
    depths_mm : (K,), distance from the plane of the cap into the vessel.
    """

    rows: NDArray[np.int64]
    areas_mm2: NDArray[np.float64]
    depths_mm: NDArray[np.float64]

    def at_cap(self, values: NDArray[np.floating]) -> float:
        """Mean of a field, (N,), over the section, carried to the cap by a straight line through the depths."""
        here, shares = values[self.rows].astype(np.float64), self.areas_mm2 / self.areas_mm2.sum()
        depth, value = shares @ self.depths_mm, shares @ here
        spread = shares @ (self.depths_mm - depth) ** 2
        slope = shares @ ((self.depths_mm - depth) * (here - value)) / spread if spread else 0.0
        return float(value - slope * depth)


def slab_inside(nodes: Nodes, opening: Opening) -> Slab:
    """The slab of nodes over which quantities of an opening are averaged.

    The flow through a section, averaged over the depth s of the slab, is the volume integral of u.n k(s) with the Hann
    window k(s) = (1 + cos(pi s/h)) / (2 h): sum over nodes of u.n k(s) dx^3. The window is smooth so that the planes of
    the lattice do not show in any direction.

    Raises
    ------
    StageError
        If no fluid node lies there.
    """
    dx, half = nodes.spacing_mm, SLAB_HALF_WIDTH * nodes.spacing_mm
    rows, depth = rows_behind(nodes, opening)
    distance = np.abs(depth - SLAB_CENTRE * dx)
    kept = distance < half
    rows, distance, depth = rows[kept], distance[kept], depth[kept]
    if not len(rows):
        raise StageError(
            f"opening {opening.name}: no fluid node within {SLAB_CENTRE + SLAB_HALF_WIDTH:g} spacings of {dx:g} mm"
            " inside its cap; openings and nodes do not belong together, run surface and decompose again"
        )
    return Slab(rows, hann(distance, half) * dx**3, depth)


def rows_behind(nodes: Nodes, opening: Opening) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Fluid nodes behind the cap of an opening, as deep as its slab, and within two radii of its axis.

    They are joined, through each other, to the nodes within one radius: fluid of a vessel that passes beside is none of
    the opening's.

    Returns
    -------
    Rows of the fluid array, (K,), and distances from the plane of the cap into the vessel, mm, (K,).
    """
    rows = _rows_in_box(nodes, opening)
    depth, beside = place_at(opening, nodes.points_mm(rows))
    dx = nodes.spacing_mm
    near = (depth > -dx) & (depth < (SLAB_CENTRE + SLAB_HALF_WIDTH) * dx) & (beside < 2 * opening.radius_mm + dx)
    rows, depth, beside = rows[near], depth[near], beside[near]
    if not len(rows):
        return rows, depth
    place = nodes.position[rows] - nodes.position[rows].min(axis=0)
    fluid = np.zeros(place.max(axis=0) + 1, bool)
    fluid[tuple(place.T)] = True
    number = ndimage.label(fluid, ndimage.generate_binary_structure(3, 2))[0][tuple(place.T)]
    joined = np.isin(number, number[beside < opening.radius_mm])
    return rows[joined], depth[joined]


def _rows_in_box(nodes: Nodes, opening: Opening) -> NDArray[np.int64]:
    """Rows of the nodes in a box around all that lies behind an opening: only these are looked at closely."""
    reach = 2 * opening.radius_mm + (SLAB_CENTRE + SLAB_HALF_WIDTH + 2) * nodes.spacing_mm
    centre = (np.asarray(opening.centre_mm) - nodes.origin_mm) / nodes.spacing_mm
    low, high = np.floor(centre - reach / nodes.spacing_mm), np.ceil(centre + reach / nodes.spacing_mm)
    inside = np.ones(nodes.count, bool)
    for axis in range(3):
        place = nodes.position[:, axis]
        inside &= (place >= int(low[axis])) & (place <= int(high[axis]))
    return np.flatnonzero(inside)


def hann(distance_mm: NDArray[np.float64], half_mm: float) -> NDArray[np.float64]:
    """Hann's window, of integral 1, at distances from its middle, none beyond its half width; 1/mm."""
    return (1 + np.cos(np.pi * distance_mm / half_mm)) / (2 * half_mm)


class WallAccumulator:
    """Sums over the times of a flow, fed one time after the other so that only one is held in memory.

    Parameters
    ----------
    nodes, wall, fit, density_kg_m3 : what the sums need.
    wall_filter : takes noise away from the stress on the wall; none: it stays as the fit carries it there.

    Attributes
    ----------
    slabs : inside each opening.
    noise : of the stress on the wall at each time; none without a filter.
    shear_over_time, pressure_over_time : (V, 3) and (V,) on the wall at each time, Pa.
    """

    def __init__(
        self, nodes: Nodes, wall: Wall, fit: WallFit, density_kg_m3: float, wall_filter: WallFilter | None = None
    ) -> None:
        self._nodes, self._wall, self._fit, self._density = nodes, wall, fit, density_kg_m3
        self._wall_filter = wall_filter
        self.noise: list[Noise] = []
        self.slabs = [slab_inside(nodes, opening) for opening in nodes.openings]
        vertices, openings = len(wall.normals), len(nodes.openings)
        self.times = 0
        self.shear_over_time: list[NDArray[np.float32]] = []
        self.pressure_over_time: list[NDArray[np.float32]] = []
        self.shear = np.zeros((vertices, 3))
        self.shear_magnitude = np.zeros(vertices)
        self.shear_peak = np.zeros(vertices)
        self.pressure = np.zeros(vertices)
        self.flow_ml_s = np.zeros(openings)
        self.opening_pressure_pa = np.zeros(openings)
        self.opening_peak_m_s = np.zeros(openings)
        self.kinetic_energy_j = 0.0
        self.peak_speed_m_s = -1.0
        self.peak_at_mm = np.zeros(3)

    def add(self, fields: Fields) -> None:
        """Take one time into the sums.

        Raises
        ------
        StageError
            If a value is not finite.
        """
        if not all(np.isfinite(values).all() for values in vars(fields).values() if values is not None):
            raise StageError("the flow is not finite; run solve again with a finer spacing or a lower lattice_speed")
        self.times += 1
        shear = wall_shear_stress(self._fit, self._wall.normals, fields.stress_pa)
        magnitude = np.linalg.norm(shear, axis=1)
        if self._wall_filter:
            fitted = magnitude
            magnitude, noise = self._wall_filter(fitted)
            shear *= np.divide(magnitude, fitted, out=np.ones_like(fitted), where=fitted > 0)[:, None]
            self.noise.append(noise)
        self.shear_over_time.append(shear.astype(np.float32))
        self.shear += shear
        self.shear_magnitude += magnitude
        self.shear_peak = np.maximum(self.shear_peak, magnitude)
        pressure = self._fit.carry(fields.pressure_pa)
        self.pressure_over_time.append(pressure.astype(np.float32))
        self.pressure += pressure
        velocity = fields.velocity_m_s
        square = np.einsum("ij,ij->i", velocity, velocity)
        for k, (opening, slab) in enumerate(zip(self._nodes.openings, self.slabs, strict=True)):
            here = velocity[slab.rows].astype(np.float64)
            through = here @ np.asarray(opening.normal) * (1 if opening.role == "outlet" else -1)
            self.flow_ml_s[k] += slab.areas_mm2 @ through  # mm2 m/s = mL/s
            self.opening_pressure_pa[k] += slab.at_cap(fields.pressure_pa)
            self.opening_peak_m_s[k] = max(self.opening_peak_m_s[k], np.linalg.norm(here, axis=1).max())
        squares = float(square.sum(dtype=np.float64))
        self.kinetic_energy_j += self._density / 2 * squares * (self._nodes.spacing_mm * 1e-3) ** 3
        fastest = int(square.argmax())
        speed = float(np.linalg.norm(velocity[fastest].astype(np.float64)))
        if speed > self.peak_speed_m_s:
            self.peak_speed_m_s = speed
            self.peak_at_mm = self._nodes.points_mm(np.array([fastest]))[0]
