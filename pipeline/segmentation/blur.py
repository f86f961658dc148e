# SPDX-License-Identifier: Apache-2.0
"""The lumen's wall in the image: its slope, its blur, and the threshold at which a blurred tube has its true volume."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, special

from pipeline.files.enclosed import enclosed_voxels
from pipeline.segmentation.levels import Levels
from pipeline.segmentation.region_growing import Mask, bounding_box

RISE_LIMIT = 1 - 1e-9
"""A sharp wall rises by the whole contrast within two voxels; its blur is then not measurable but small."""

BLURS, FIRST_BLURS = (0.1, 4.0), (0.7, 1.0)
"""Deviations of a Gaussian, voxels, between which that of a wall is sought, and from which."""

LEVELS, STEP = (0.2, 0.6), 0.05
"""Shares of the contrast between which a blurred lumen keeps its volume, and the step down from half way by which it is
sought."""

STEPS, ALIKE, SAME = 8, 0.01, 0.001
"""Steps of such a search, and where it ends: a change of the blur by a part, or of a level."""

NORMALS = 1.0
"""Deviation, voxels, of the Gaussian over which a lumen tells the normals of its wall."""

FLATTEST = 1e-3
"""Share of the contrast over a voxel, below which there is no wall."""

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


def unbiased_share(
    share: NDArray[np.floating], lumen: NDArray[np.floating], depth: NDArray[np.floating]
) -> tuple[float, float]:
    """Share of the measured contrast at which a blurred vessel has its true volume, and what blur leaves of the true.

    The lumen is blurred once more, by the Gaussian that makes its wall as steep as the image's, both by differences
    over two voxels at the same places. At which level it keeps its volume, and how much of the contrast is left in the
    mean that its level is measured by, is the same for the vessel. Both follow from the shape, to which
    :func:`unbiased_lower` is a first order where the vessel is a tube: the wall of a vessel of two voxels in radius is
    no plane, and its blur can be told from its dimness in this way alone.

    Parameters
    ----------
    share : (Z, Y, X), intensity above the tissue over the measured contrast.
    lumen : (Z, Y, X), what of each voxel it fills, from 0 to 1, about as the vessel does.
    depth : (Z, Y, X), distance from the wall within it, voxels; the contrast is that of a mean weighted by its cube.
    """
    weight, wall, volume = depth**3, _Wall(lumen), float(lumen.sum(dtype=np.float64))
    steep = max(wall.slope(share), FLATTEST)

    def blurred(deviation: float) -> tuple[NDArray[np.floating], float]:
        field = ndimage.gaussian_filter(lumen, np.exp(deviation), mode="nearest")
        return field, float((weight * field).sum() / weight.sum())

    def steeper(deviation: float) -> float:
        field, seen = blurred(deviation)
        return float(np.log(max(wall.slope(field), FLATTEST) / seen / steep))

    first, second, low, high = np.log([*FIRST_BLURS, *BLURS])
    field, seen = blurred(_zero(steeper, (first, second), (low, high), ALIKE))

    def larger(level: float) -> float:
        return enclosed_voxels(np.clip(field - level + 0.5, 0, 1)) / volume - 1

    return _zero(larger, (0.5, 0.5 - STEP), LEVELS, SAME) / seen, seen


class _Wall:
    """Voxels on both sides of a lumen's wall, and how steep a field is across it."""

    def __init__(self, lumen: NDArray[np.floating]) -> None:
        inside = lumen >= 0.5
        self.at = ndimage.binary_dilation(inside) & ~ndimage.binary_erosion(inside, border_value=1)
        inwards = self._differences(ndimage.gaussian_filter(lumen, NORMALS))
        self.normals = inwards / np.maximum(np.linalg.norm(inwards, axis=0), np.finfo(float).tiny)

    def _differences(self, field: NDArray[np.floating]) -> NDArray[np.floating]:
        return np.array([each[self.at] for each in np.gradient(field)], dtype=float)

    def slope(self, field: NDArray[np.floating]) -> float:
        """Median along the inward normals, 1/voxel."""
        return float(np.median((self.normals * self._differences(field)).sum(axis=0)))


def _zero(
    falling: Callable[[float], float], places: tuple[float, float], within: tuple[float, float], settled: float
) -> float:
    """Where a falling function is 0, by secants from two places; an end of the range, if it lies beyond."""
    last, place = places
    before = falling(last)
    for _ in range(STEPS):
        now = falling(place)
        if (now - before) * (place - last) >= 0:
            break
        step = now * (place - last) / (before - now)
        last, before, place = place, now, float(np.clip(place + step, *within))
        if abs(place - last) < settled:
            break
    return place
