# SPDX-License-Identifier: Apache-2.0
"""Noise of the wall shear stress along the wall, and what takes some of it away.

An image's noise makes the wall bumpy: dents of a hundredth of the radius, over which the stress rises and falls by some
percent, since it goes with the inverse cube of the radius. The lattice adds some, triangles next to nothing. Along a
smooth tube the map is blotchy.

What is local is told from what is not by diffusion along the wall: S f solves (M + t K) g = M f, with M the areas of
the points, K the stiffness of linear functions on the triangles and t half the square of a length; b = 2 S f - S S f
keeps what is linear or quadratic along the wall. The rest r = f - b is noise and true detail together. Its size at a
place is s, s^2 = S r^2, and the noise is c times b, with c such that s/b is less on a tenth of the wall's area: where
it is smoothest, next to all of the rest is noise. Then

    f' = b + max(0, 1 - (1.5 c b / s)^2) r

takes the rest away where it is hardly larger than the noise, and next to nothing where it stands out: a peak that rises
by a fifth above what is around it loses (1.5 c / 0.2)^2 of that fifth. No value changes by more than 3 %, and the
direction of the stress stays.

Sources: Lee (1980), doi:10.1109/TPAMI.1980.4766994 (the filter by local statistics); Meyer, Desbrun, Schroeder and Barr
(2003), doi:10.1007/978-3-662-05105-4_2 (the stiffness, by cotangents).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.sparse.linalg import cg

from pipeline.haemodynamics.wall_shear_stress import Wall

LENGTH_SPACINGS = 3.5
"""Length of the diffusion in spacings of the lattice: the finer the lattice, the less is taken for noise. Shorter ones
leave more than two thirds of the error of tubes in noisy images, longer ones blur the flow of a lattice of 12 nodes
across more than they mend."""

SMOOTHEST = 0.1
"""Part of the area that is taken to be smooth. By the median, a fork of short branches, which is nowhere smooth, lost
6 % of its peak."""

ABOVE_NOISE = 1.5
"""So many times the noise is taken away: its size differs from place to place, and most of them have more."""

LARGEST_CHANGE = 0.03
"""Part of a value by which it changes at most."""

LARGEST_COTANGENT = 20.0
"""Cotangents of angles lie between 0 and this, of 3 degrees: needles must not outweigh all else, nor a mean leave the
values that it is the mean of."""

TOLERANCE = 1e-6
"""Of a solution, relative to what was given."""


@dataclass(frozen=True)
class Noise:
    """What was found in a field along the wall, as parts of its local mean.

    Attributes
    ----------
    found : noise as it was, c above.
    left : the same of the field that is handed back.
    """

    found: float
    left: float


class WallFilter:
    """Takes noise away from fields that are nowhere negative, on one wall.

    Parameters
    ----------
    wall : the wall without caps.
    spacing_mm : of the lattice.
    """

    def __init__(self, wall: Wall, spacing_mm: float) -> None:
        self._areas = np.maximum(wall.areas_mm2, 1e-12 * wall.areas_mm2.mean())
        length_mm = LENGTH_SPACINGS * spacing_mm
        self._matrix = csr_array(diags_array(self._areas) + length_mm**2 / 2 * _stiffness(wall))
        self._scale = diags_array(1 / self._matrix.diagonal())

    def __call__(self, values: NDArray[np.float64]) -> tuple[NDArray[np.float64], Noise]:
        """A field, (V,), with less noise, and how much it had and has.

        Raises
        ------
        ValueError
            If a value is negative.
        """
        if (values < 0).any():
            raise ValueError("the field has negative values")
        around, rest, size = self._parts(values)
        noise = self._noise(around, size)
        kept = np.maximum(
            0, 1 - np.divide(ABOVE_NOISE * noise * around, size, out=np.ones_like(size), where=size > 0) ** 2
        )
        found = np.clip(around + kept * rest, (1 - LARGEST_CHANGE) * values, (1 + LARGEST_CHANGE) * values)
        around, _, size = self._parts(found)
        return found, Noise(noise, self._noise(around, size))

    def _parts(self, values: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """What is around each point, the rest, and the size of the rest around there."""
        once = self._mean(values)
        around = np.maximum(2 * once - self._mean(once), 0)
        rest = values - around
        return around, rest, np.sqrt(np.maximum(self._mean(rest**2), 0))

    def _noise(self, around: NDArray[np.float64], size: NDArray[np.float64]) -> float:
        part = np.divide(size, around, out=np.zeros_like(size), where=around > 0)
        order = np.argsort(part)
        share = np.cumsum(self._areas[order]) / self._areas.sum()
        return float(part[order][np.searchsorted(share, SMOOTHEST)])

    def _mean(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        found, _ = cg(self._matrix, self._areas * values, x0=values, rtol=TOLERANCE, maxiter=1000, M=self._scale)
        return found


def _stiffness(wall: Wall) -> csr_array:
    """Integrals of the products of the gradients of the points' linear functions, (V, V)."""
    points, triangles = wall.mesh.points_mm, wall.mesh.triangles
    rows, columns, entries = [], [], []
    for k in range(3):
        apex, a, b = triangles[:, k], triangles[:, (k + 1) % 3], triangles[:, (k + 2) % 3]
        to_a, to_b = points[a] - points[apex], points[b] - points[apex]
        across = np.linalg.norm(np.cross(to_a, to_b), axis=1)
        along = np.einsum("ij,ij->i", to_a, to_b)
        cotangent = np.divide(along, across, out=np.full_like(along, LARGEST_COTANGENT), where=across > 0)
        half = np.clip(cotangent, 0, LARGEST_COTANGENT) / 2
        rows += [a, b, a, b]
        columns += [b, a, a, b]
        entries += [-half, -half, half, half]
    shape = (len(points), len(points))
    return csr_array(coo_array((np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))), shape=shape))
