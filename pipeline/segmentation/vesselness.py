# SPDX-License-Identifier: Apache-2.0
"""Vesselness: how much the surroundings of a voxel look like a bright tube, over a range of radii."""

import logging
from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import ndimage

from solver.runtime.progress import Progress

ALPHA = 0.5
"""Frangi's: plates, with a ratio of curvatures below this, are suppressed."""

BETA = 1.0
"""Frangi's for balls, twice the usual 0.5: a sac or a fork keeps 0.6 of a tube's response, where 0.5 leaves 0.14."""

EVEN = 0.25
"""Curvature, as a fraction of the largest, at which 0.4 of the full response is reached: vessels of half the contrast
of the brightest respond with 0.86, noise of a fiftieth of it with 0.003."""


def vesselness(
    voxels: NDArray[np.float32], spacing_mm: float, radii_mm: Sequence[float], log: logging.Logger
) -> NDArray[np.float32]:
    """Response of every voxel to bright tubes of the given radii.

    With the eigenvalues l1 <= l2 <= l3 of -s^2 H, H the Hessian of the intensity smoothed by a Gaussian s, V = 0 where
    l2 <= 0, else

        V = (1 - exp(-(l2/l3)^2 / (2 alpha^2))) exp(-(l1^2/(l2 l3)) / (2 beta^2)) (1 - exp(-l2^2 / (2 c^2)))

    at the scale with the largest l2 (Frangi et al. 1998, doi:10.1007/BFb0056195; scale selection by the normalised
    derivative after Lindeberg 1998, doi:10.1023/A:1008045108935). A tube of radius r has its largest l2, 0.37 of its
    contrast whatever the radius, at s = r/sqrt(2). Unlike Frangi's, the last factor takes l2, which a plate lacks, for
    the norm of H, and c is `EVEN` times the largest l2 of all voxels and scales: so walls of bone do not set it, and
    thin, wide, pale and bright vessels answer alike.

    Parameters
    ----------
    voxels : (Z, Y, X) intensities, isotropic. What is brighter than any lumen (metal, bone) is best clipped before.
    spacing_mm : of the voxels.
    radii_mm : radii to look for; steps of a factor 1.5 leave no gaps (l2 keeps 0.91 of its peak between two).
    log : where progress goes.

    Returns
    -------
    (Z, Y, X) float32 from 0 to 1. Memory: three arrays of this size beside the voxels. Same voxels, same bits.

    Raises
    ------
    ValueError
        If no radius is given, or one is not positive.
    """
    if not radii_mm or min(radii_mm) <= 0:
        raise ValueError(f"radii_mm {list(radii_mm)}: at least one is needed, all above 0")
    strength = np.zeros(voxels.shape, np.float32)
    shape = np.zeros(voxels.shape, np.float32)
    smoothed = np.empty(voxels.shape, np.float32)
    progress = Progress(log, len(radii_mm), "radii")
    for n, radius_mm in enumerate(radii_mm, start=1):
        scale = radius_mm / np.sqrt(2) / spacing_mm
        ndimage.gaussian_filter(voxels, scale, output=smoothed, mode="reflect")  # so are the differences at the edge
        _keep_strongest(smoothed, np.float32(scale**2), strength, shape)
        progress.update(n, f"tubes of {radius_mm:.3g} mm radius")
    largest = float(strength.max())
    if largest > 0:
        strength /= np.float32(EVEN * largest)
        np.square(strength, out=strength)
        strength *= -0.5
        np.expm1(strength, out=strength)
        shape *= strength
        np.negative(shape, out=shape)
    return shape


@njit(cache=True)
def _keep_strongest(
    smoothed: NDArray[np.float32], factor: float, strength: NDArray[np.float32], shape: NDArray[np.float32]
) -> None:
    """Where the second curvature of this scale is the largest so far, keep it and Frangi's two factors of shape.

    Parameters
    ----------
    smoothed : (Z, Y, X).
    factor : the scale squared, voxels squared.
    strength, shape : (Z, Y, X), changed in place.
    """
    depth, height, width = smoothed.shape
    for z in range(depth):
        below, above = max(z - 1, 0), min(z + 1, depth - 1)
        for y in range(height):
            front, back = max(y - 1, 0), min(y + 1, height - 1)
            for x in range(width):
                left, right = max(x - 1, 0), min(x + 1, width - 1)
                twice = 2 * smoothed[z, y, x]
                xx = twice - smoothed[z, y, left] - smoothed[z, y, right]
                yy = twice - smoothed[z, front, x] - smoothed[z, back, x]
                zz = twice - smoothed[below, y, x] - smoothed[above, y, x]
                if xx + yy + zz <= 0:  # two positive ones and a negative sum: a saddle, no tube
                    continue
                xy = smoothed[z, front, right] + smoothed[z, back, left]
                xy = (xy - smoothed[z, front, left] - smoothed[z, back, right]) / 4
                xz = smoothed[below, y, right] + smoothed[above, y, left]
                xz = (xz - smoothed[below, y, left] - smoothed[above, y, right]) / 4
                yz = smoothed[below, back, x] + smoothed[above, front, x]
                yz = (yz - smoothed[below, front, x] - smoothed[above, back, x]) / 4
                first, second, third = eigenvalues(xx, yy, zz, xy, xz, yz)
                second *= factor
                if second > strength[z, y, x]:
                    strength[z, y, x] = second
                    third *= factor
                    first *= factor
                    plate = 1 - np.exp(-((second / third) ** 2) / (2 * ALPHA**2))
                    shape[z, y, x] = plate * np.exp(-(first**2) / (second * third) / (2 * BETA**2))


@njit(cache=True)
def eigenvalues(xx: float, yy: float, zz: float, xy: float, xz: float, yz: float) -> tuple[float, float, float]:
    """Eigenvalues of a symmetric matrix in rising order, by the cosines of Smith (1961, doi:10.1145/355578.366316).

    Parameters
    ----------
    xx, yy, zz, xy, xz, yz : entries of the matrix.
    """
    mean = (xx + yy + zz) / 3.0
    a, b, c = xx - mean, yy - mean, zz - mean
    radius = np.sqrt((a * a + b * b + c * c + 2 * (xy * xy + xz * xz + yz * yz)) / 6.0)
    cube = 2 * radius**3
    if cube == 0:
        return mean, mean, mean
    determinant = a * (b * c - yz * yz) - xy * (xy * c - yz * xz) + xz * (xy * yz - b * xz)
    angle = np.arccos(min(max(determinant / cube, -1.0), 1.0)) / 3.0
    largest = mean + 2 * radius * np.cos(angle)
    smallest = mean + 2 * radius * np.cos(angle + 2 * np.pi / 3)
    return smallest, 3 * mean - largest - smallest, largest
