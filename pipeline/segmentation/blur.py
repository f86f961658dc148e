# SPDX-License-Identifier: Apache-2.0
"""The lumen's wall in the image: its slope, its blur, and the threshold at which a blurred tube has its true volume."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, special

from pipeline.files.enclosed import enclosed_voxels
from pipeline.segmentation.levels import Levels
from pipeline.segmentation.region_growing import Mask, bounding_box

RISE_LIMIT = 1 - 1e-9
"""A sharp wall rises by the whole contrast within two voxels; its blur is then not measurable but small."""

BLURS = (0.1, 4.0)
"""Deviations of a blur, voxels, between which it is looked for."""

HALVINGS, ROUNDS = 20, 4
"""Steps by which it is found, and of the search for a level which the blur by that level follows from."""

BOX = 1 / 12
"""Variance, voxels squared, of the blur of a voxel, which what fills it has already."""

STEP = 0.05
"""Share of the contrast over which the growth of a volume is measured."""

DIMMEST = 0.5
"""Share of its contrast that blur leaves a lumen at least: half way is no brighter than the lumen is seen. Of thinner
tatters no level is known at which they keep their volume."""

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


def blur_across(slope: float, normals: Sequence[NDArray[np.floating]]) -> float:
    """Standard deviation, voxels, of the Gaussian that blurs a wall, from its slope in many directions.

    A difference over two voxels along an axis at which the normal has the part n sees the wall over 2 n voxels, so that
    the slope along the normal is sum n erf(n/(s sqrt 2))/2 of the contrast: aslant it is steeper than along an axis.

    Parameters
    ----------
    slope : of the share of the contrast along the normal, by such differences, 1/voxel; median over places.
    normals : parts along each axis of the unit normals there.
    """
    low, high = BLURS
    for _ in range(HALVINGS):
        blurred = (low + high) / 2
        along = sum(part * special.erf(part / (blurred * np.sqrt(2))) / 2 for part in normals)
        low, high = (blurred, high) if np.median(along) > slope else (low, blurred)
    return (low + high) / 2


def unbiased_share(
    slope: float, normals: Sequence[NDArray[np.floating]], lumen: NDArray[np.floating], depth: NDArray[np.floating]
) -> float:
    """Share of the measured contrast at which a blurred vessel has its true volume.

    The lumen is blurred once more, as the image blurs it: at which level it keeps its volume, and how much of the
    contrast the mean is left with that its level is measured by, is the same for the vessel. It follows from the shape,
    to which :func:`unbiased_lower` is a first order where the vessel is a tube.

    Parameters
    ----------
    slope, normals : as of :func:`blur_across`, of the measured contrast.
    lumen : (Z, Y, X), what of each voxel it fills, from 0 to 1.
    depth : (Z, Y, X), distance from its wall within it, voxels; the level is a mean weighted by its cube.
    """
    seen, weight, volume = 1.0, depth**3, float(lumen.sum(dtype=np.float64))
    for _ in range(ROUNDS):
        deviation = np.sqrt(max(blur_across(slope * seen, normals) ** 2 - BOX, 0.0))
        blurred = ndimage.gaussian_filter(lumen, deviation, mode="nearest")
        seen = max(float((weight * blurred).sum() / weight.sum()), DIMMEST)
    half_way, lower = (enclosed_voxels(np.clip(blurred - share + 0.5, 0, 1)) for share in (0.5, 0.5 - STEP))
    darker = STEP * (volume - half_way) / max(lower - half_way, 1.0)
    return (0.5 - min(max(darker, 0.0), CORRECTION_LIMIT)) / seen
