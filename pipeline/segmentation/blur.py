# SPDX-License-Identifier: Apache-2.0
"""The lumen's wall in the image: its slope, its blur, and the threshold at which a blurred tube has its true volume."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, special

from pipeline.files.enclosed import enclosed_voxels
from pipeline.segmentation.following import NearMean, average_near
from pipeline.segmentation.levels import Levels
from pipeline.segmentation.region_growing import Mask, bounding_box

RISE_LIMIT = 1 - 1e-9
"""A sharp wall rises by the whole contrast within two voxels; its blur is then not measurable but small."""

BLURS, FIRST_BLURS = (0.1, 4.0), (0.7, 1.0)
"""Deviations of a Gaussian, voxels, between which that of a wall is sought, and from which."""

OFF, STEP = 0.15, 0.05
"""How far from its mean at the wall, in the contrast, the level at which a blurred lumen keeps its volume may lie, and
the step by which it is sought."""

LEAST_PART = 0.01
"""Weight of a voxel beside the wall that the lumen fills as a whole, or not at all; that of others is 1/4 at most. In a
sharp image noise alone seems to fill voxels in part, by about as much: with less, those of one side would decide."""

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


@dataclass(frozen=True)
class Unbiased:
    """Where a blurred vessel has its true volume.

    Attributes
    ----------
    level : (Z, Y, X), share of the contrast as measured near each place at which its wall stands.
    seen : (Z, Y, X), what blur leaves of the true contrast there.
    blur : standard deviation of the Gaussian that it is blurred by, voxels.
    """

    level: NDArray[np.floating]
    seen: NDArray[np.floating]
    blur: float


def unbiased_share(share: NDArray[np.floating], lumen: NDArray[np.floating], near: NearMean) -> Unbiased:
    """Share of the measured contrast at which a blurred vessel has its true volume, and what blur leaves of the true.

    The lumen is blurred once more, by the Gaussian that makes its wall as steep as the image's, both by differences
    over two voxels at the same places. At which level it keeps its volume, and how much of the contrast is left in the
    mean that its level is measured by, is the same for the vessel. Both follow from the shape, to which
    :func:`unbiased_lower` is a first order where the vessel is a tube: the wall of a vessel of two voxels in radius is
    no plane, and its blur can be told from its dimness in this way alone. Both are those of each place: a branch half
    as thick as its trunk is dimmer and its wall stands lower, and by one level of both it would be too thick.

    Parameters
    ----------
    share : (Z, Y, X), intensity above the tissue over the measured contrast.
    lumen : (Z, Y, X), what of each voxel it fills, from 0 to 1, about as the vessel does.
    near : mean by the cube of the depth within it, of which the contrast is.
    """
    wall = _Wall(lumen)
    steep = max(wall.slope(share), FLATTEST)

    def steeper(deviation: float) -> float:
        field = ndimage.gaussian_filter(lumen, np.exp(deviation), mode="nearest")
        return float(np.log(max(wall.slope(field / near(field)), FLATTEST) / steep))

    first, second, low, high = np.log([*FIRST_BLURS, *BLURS])
    return _of_blur(lumen, wall, near, np.exp(_zero(steeper, (first, second), (low, high), ALIKE)))


def of_blur(lumen: NDArray[np.floating], near: NearMean, blur_voxels: float) -> Unbiased:
    """The same of a vessel that is blurred by a given Gaussian.

    Parameters
    ----------
    lumen, near : as for :func:`unbiased_share`.
    blur_voxels : standard deviation of the Gaussian.
    """
    return _of_blur(lumen, _Wall(lumen), near, blur_voxels)


def _of_blur(lumen: NDArray[np.floating], wall: "_Wall", near: NearMean, blur_voxels: float) -> Unbiased:
    field, volume = ndimage.gaussian_filter(lumen, blur_voxels, mode="nearest"), float(lumen.sum(dtype=np.float64))
    at_wall = average_near(field, wall.at * (lumen * (1 - lumen) + LEAST_PART), near.length)

    def larger(off: float) -> float:
        return enclosed_voxels(np.clip(field - at_wall - off + 0.5, 0, 1)) / volume - 1

    off = _zero(larger, (0.0, -STEP), (-OFF, OFF), SAME)
    seen = near(field)
    return Unbiased((at_wall + off) / seen, seen, float(blur_voxels))


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
