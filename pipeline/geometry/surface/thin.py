# SPDX-License-Identifier: Apache-2.0
"""Thin places of a mask: where the lumen, or the tissue between two parts of it, is thinner than smoothing keeps."""

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.geometry.surface.remedies import THIN
from solver.runtime.errors import StageError

SLACK = 1.0
"""Corners of voxels that stand out of a thick part by so many voxels are part of it."""
NEAR, FAR = 1.5, 4.0
"""Up to the first distance from a thin place, in voxels, all is as in it; from the second on nothing is."""
BLUR = 0.8
"""Standard deviation, in voxels, of the Gaussian of a mask's faithful field: less leaves the steps of the voxels."""
REACH = 1.0
"""Standard deviation, in voxels, of the weights of the walls nearby."""
STEEPNESS = 0.5
"""Of the faithful field, for a voxel of way across the wall; about that of the difference of two Gaussians."""
FLAT_SLOPE = 0.45
"""What a Gaussian of :data:`BLUR` falls by from the voxel before a flat wall to the one behind."""
DRAWN_IN = 2
"""Where smoothing draws the wall of a mask in by so many voxels at most, as at tips, nothing is gone."""
NEIGHBOURS = np.ones((3, 3, 3), bool)
"""Voxels that touch, by a face, an edge or a corner."""
FARAWAY = 1e-4
"""Weight of a flat wall, which counts where there is no other near."""


class ThinPlaceError(StageError):
    """Smoothing loses thin places of a vessel; with less of it there they may stay.

    Parameters
    ----------
    found : what was lost, and where.
    """

    def __init__(self, found: str) -> None:
        super().__init__(f"{found}; leave surface.smoothing_mm out, and thin places are smoothed less, {THIN}")
        self.found = found


def thinness(mask: NDArray[np.bool_], radius: float) -> NDArray[np.float32]:
    """How much each voxel belongs to a thin place: 1 there and beside it, 0 from some voxels away on.

    Parameters
    ----------
    mask : (Z, Y, X), with a margin of at least `radius` that is empty.
    radius : a place is thin where no ball of so many voxels fits, in the lumen or between two parts of it.

    Returns
    -------
    (Z, Y, X), 0 to 1.
    """
    thin = (mask & ~_filled_by_balls(mask, radius)) | ~(mask | _filled_by_balls(~mask, radius))
    if not thin.any():
        return np.zeros(mask.shape, np.float32)
    away = ndimage.distance_transform_edt(~thin)
    return np.clip((FAR - away) / (FAR - NEAR), 0, 1).astype(np.float32)


def _filled_by_balls(part: NDArray[np.bool_], radius: float) -> NDArray[np.bool_]:
    """Voxels within reach of a ball that fits into a part; beyond the border it goes on as at the border."""
    deep = ndimage.distance_transform_edt(part) > radius + 0.5
    if not deep.any():
        return np.zeros_like(part)
    return np.asarray(ndimage.distance_transform_edt(~deep) <= radius + SLACK)


def faithful_field(mask: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Field of a mask, zero on its wall and about as steep there however thin the vessel is.

    A Gaussian of the mask, less what it has on the wall nearby, over its slope there. On a flat wall it has 1/2; in a
    tube of a voxel in radius less, so that a fixed value would lose the tube.

    Parameters
    ----------
    mask : (Z, Y, X), with an empty margin.

    Returns
    -------
    (Z, Y, X), -1/2 to 1/2.
    """
    blurred = ndimage.gaussian_filter(mask.astype(np.float32), BLUR, mode="constant", truncate=3.0)
    value, slope, count = (np.zeros(mask.shape, np.float32) for _ in range(3))
    for axis in range(3):
        ahead, behind = (np.moveaxis(blurred, axis, 0)[part] for part in (slice(1, None), slice(None, -1)))
        crossed = np.diff(np.moveaxis(mask, axis, 0), axis=0).astype(np.float32)
        for total, found in ((value, (ahead + behind) / 2), (slope, np.abs(ahead - behind)), (count, 1)):
            for side in (slice(1, None), slice(None, -1)):
                np.moveaxis(total, axis, 0)[side] += crossed * found
    near = _around(count) + FARAWAY
    level, steep = (_around(value) + 0.5 * FARAWAY) / near, (_around(slope) + FLAT_SLOPE * FARAWAY) / near
    return np.clip(STEEPNESS * (blurred - level) / steep, -0.5, 0.5)


def _around(total: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(ndimage.gaussian_filter(total, REACH, mode="constant"))


def lost_places(mask: NDArray[np.bool_], kept: NDArray[np.bool_]) -> list[tuple[NDArray[np.float64], int]]:
    """Parts of a mask that are gone, not only drawn in a little: middle (x, y, z) and voxels of each, largest first.

    Parameters
    ----------
    mask, kept : (Z, Y, X), before and after.
    """
    gone = mask & ~kept
    far = gone & ~ndimage.binary_dilation(kept, NEIGHBOURS, iterations=DRAWN_IN)
    if not far.any():
        return []
    gone &= ndimage.binary_dilation(far, NEIGHBOURS, iterations=DRAWN_IN)
    label, count = ndimage.label(gone, NEIGHBOURS)
    sizes = np.bincount(label.ravel())[1:]
    middles = np.array(ndimage.center_of_mass(gone, label, range(1, count + 1)))[:, ::-1]
    return [(middles[k], int(sizes[k])) for k in np.argsort(-sizes, kind="stable")]
