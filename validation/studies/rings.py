# SPDX-License-Identifier: Apache-2.0
"""Speed on rings around the axis of a round section, and the part of it that depends on the angle.

In a round vessel only the lattice tells one angle from another. On a ring of radius r the speed along the axis is

    u(r, a) = u_0(r) + sum over m of (p_m(r) cos m a + q_m(r) sin m a),

whose m-fold part is sqrt(p_m^2 + q_m^2). Between nodes the flow is a quadratic, fitted by least squares to those
nearest: to the third order of the spacing, and as well at the wall.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from validation.studies.run import Run

Array = NDArray[np.float64]

NEAREST = 36
"""Nodes that a quadratic, which has 10 numbers, is fitted to; those within two spacings of a place are 33."""
ANGLES = 48
"""Places on a ring."""
RINGS_TO_SPACING = 4
"""Rings on a spacing."""


@dataclass(frozen=True)
class Section:
    """A round section of a vessel; mm.

    Attributes
    ----------
    centre, along : (3,) its middle, and the unit vector along the vessel.
    right : (3,) unit vector in it at which angles begin; they turn right-handed about `along`.
    radius : of the wall.
    """

    centre: Array
    along: Array
    right: Array
    radius: float

    def places(self, radii: Array) -> Array:
        """Of rings, (rings, ANGLES, 3)."""
        angle = 2 * np.pi * np.arange(ANGLES) / ANGLES
        up = np.cross(self.along, self.right)
        circle = np.cos(angle)[:, None] * self.right + np.sin(angle)[:, None] * up
        return np.asarray(self.centre + radii[:, None, None] * circle)


@dataclass(frozen=True)
class Rings:
    """Speed along the axis on rings of a section.

    Attributes
    ----------
    radii : (rings,) mm, from 0 on, evenly spaced.
    speed : (rings, ANGLES), m/s.
    """

    radii: Array
    speed: Array

    @property
    def mean(self) -> Array:
        """Over the angles, (rings,)."""
        return np.asarray(self.speed.mean(axis=1))

    @property
    def centre(self) -> float:
        """On the axis."""
        return float(self.speed[0].mean())

    @property
    def half_width(self) -> float:
        """Radius, mm, at which the mean first falls to half of the speed on the axis; NaN if it does not."""
        below = np.flatnonzero(self.mean < self.centre / 2)
        if not below.size:
            return float("nan")
        k = below[0]
        before, behind = self.mean[k - 1 : k + 1]
        part = (before - self.centre / 2) / (before - behind)
        return float(self.radii[k - 1] + part * (self.radii[k] - self.radii[k - 1]))

    def fold(self, m: int) -> float:
        """Largest m-fold part over the rings, m/s."""
        waves = np.exp(-2j * np.pi * m * np.arange(ANGLES) / ANGLES)
        return float(2 / ANGLES * np.abs(self.speed @ waves).max())

    @property
    def uneven(self) -> float:
        """Largest difference from the mean over the angles, m/s."""
        return float(np.abs(self.speed - self.mean[:, None]).max())

    @property
    def lopsided(self) -> float:
        """Largest half of the difference between places mirrored at the line at which angles begin, m/s."""
        mirrored = self.speed[:, -np.arange(ANGLES)]
        return float(np.abs(self.speed - mirrored).max()) / 2


def rings(run: Run, section: Section) -> Rings:
    """The flow of a run on rings through a section, up to half a spacing from the wall."""
    step = run.nodes.spacing_mm / RINGS_TO_SPACING
    count = int((section.radius - run.nodes.spacing_mm / 2) / step)
    radii = step * np.arange(count + 1, dtype=np.float64)
    speed = along(run, section.places(radii).reshape(-1, 3), section.along)
    return Rings(radii, speed.reshape(len(radii), ANGLES))


def along(run: Run, places_mm: Array, direction: Array) -> Array:
    """Component of the velocity at the end of a run along a direction, at places (P, 3): (P,), m/s.

    Parameters
    ----------
    run : whose flow is read.
    places_mm : (P, 3), x, y, z, LPS.
    direction : (3,) unit vector.
    """
    spacing, points = run.nodes.spacing_mm, run.nodes.points_mm()
    box = (places_mm.min(axis=0) - 4 * spacing, places_mm.max(axis=0) + 4 * spacing)
    near = np.flatnonzero(((points > box[0]) & (points < box[1])).all(axis=1))
    return fitted(points[near] / spacing, run.velocity_m_s[near] @ direction, places_mm / spacing)


def fitted(points: Array, values: Array, places: Array) -> Array:
    """Values at places (P, 3), of quadratics fitted to the nearest of some points (N, 3) with values (N,).

    Parameters
    ----------
    points : (N, 3).
    values : (N,) there.
    places : (P, 3).
    """
    _, rows = cKDTree(points).query(places, NEAREST)
    x, y, z = np.moveaxis(points[rows] - places[:, None], -1, 0)
    terms = np.stack((np.ones_like(x), x, y, z, x * x, y * y, z * z, x * y, y * z, z * x), axis=-1)
    at_place = np.linalg.solve(terms.swapaxes(1, 2) @ terms, np.eye(10)[:, :1])
    return np.asarray(np.einsum("pk,pk->p", (terms @ at_place)[..., 0], values[rows]))
