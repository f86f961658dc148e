# SPDX-License-Identifier: Apache-2.0
"""The lumen's wall in the image: its slope, its blur, and the threshold at which a blurred tube has its true volume."""

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, special

from pipeline.segmentation.levels import Levels
from pipeline.segmentation.region_growing import Mask, bounding_box

RISE_LIMIT = 1 - 1e-9
"""A sharp wall rises by the whole contrast within two voxels; its blur is then not measurable but small."""

CORRECTION_LIMIT = 0.1
"""Part of the contrast beyond which the correction for blur, of first order, says nothing."""


def wall_slope(voxels: NDArray[np.floating], spacing_mm: float, lumen: Mask, found: Levels) -> float:
    """Median gradient, intensity per mm, of the voxels at the mask's surface that are nearest to half the contrast.

    Parameters
    ----------
    voxels, lumen : (Z, Y, X).
    spacing_mm : of the isotropic voxels.
    found : intensities.
    """
    box = bounding_box(lumen, margin=2)
    near, mask = voxels[box], lumen[box]
    half_way = found.surroundings + found.contrast / 2
    wall = ndimage.binary_dilation(mask) & ~ndimage.binary_erosion(mask)
    wall &= np.abs(near - half_way) < 0.2 * found.contrast
    squares = [np.square(part[wall]) for part in np.gradient(near, spacing_mm)]
    return float(np.median(np.sqrt(np.sum(squares, axis=0)))) if wall.any() else 0.0


def blur(found: Levels, slope: float, spacing_mm: float) -> float:
    """Standard deviation, mm, of the Gaussian that blurs the wall; 0 where no voxel lies on a slope.

    Over two voxels h a sharp wall blurred by s has the slope contrast erf(h/(s sqrt 2))/(2 h).

    Parameters
    ----------
    found : levels in and around the mask; their contrast counts.
    slope : of the intensity across the wall, per mm.
    spacing_mm : of the voxels.
    """
    if not slope:
        return 0.0
    return float(spacing_mm / (np.sqrt(2) * special.erfinv(min(2 * spacing_mm * slope / found.contrast, RISE_LIMIT))))


def unbiased_lower(found: Levels, slope: float, relative_growth: float, spacing_mm: float) -> float:
    """The threshold at which a blurred tube has its true volume.

    Blur darkens a wall that is curved: at the wall of a tube of radius r, blurred by a Gaussian s, the intensity is not
    1/2 of the contrast but 1/2 - s/(r sqrt(8 pi)) (to first order in s/r), so that half way the tube is s^2/(2 r) too
    thin. Both follow from the image: the blur from the slope (:func:`blur`), and a tube grows with a falling threshold
    t by -dV/dt = (2/r) V/slope.

    Parameters
    ----------
    found : intensities.
    slope : of the wall, intensity per mm.
    relative_growth : -(dV/V)/dt, 1/intensity.
    spacing_mm : h.
    """
    darker = blur(found, slope, spacing_mm) * relative_growth * slope / 2 / np.sqrt(8 * np.pi)
    return float(found.surroundings + found.contrast * (0.5 - min(darker, CORRECTION_LIMIT)))
