# SPDX-License-Identifier: Apache-2.0
"""A lumen without what hangs on it by narrow places."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from scipy import ndimage

from pipeline.segmentation.problem import Lumen, Problem
from pipeline.segmentation.region_growing import Box, Index, Mask, bounding_box, deepest, fill_holes, holds, shift
from solver.runtime.errors import StageError


def without_narrow_places(lumen: Lumen, problem: Problem) -> Lumen:
    """The lumen up to where it is narrower than ``segment.least_radius_mm``, at each level; as it is without the key.

    Raises
    ------
    StageError
        If it is as narrow at a seed.
    """
    least_mm = problem.settings.least_radius_mm
    if least_mm is None:
        return lumen
    least = least_mm / problem.filtered.spacing_mm[0]
    mask, there = parted(lumen.mask, problem.places, least)
    if there < least:
        raise StageError(
            f"segment.least_radius_mm: at {lumen} the lumen's radius at a seed is"
            f" {there * problem.filtered.spacing_mm[0]:.2g} mm, less than the {least_mm:g} mm that are asked for:"
            " move the seed to where the vessel is wider, or take the key out: segment.least_radius_mm: null"
        )

    def family(levels: Sequence[float]) -> Iterator[tuple[Box, Mask]]:
        for box, wide in lumen.family(levels):
            inside = [shift(place, box) for place in problem.places]
            seeds = [place for place in inside if holds(wide, place[::-1])]
            yield box, parted(wide, seeds, least)[0] if seeds else np.zeros_like(wide)

    off = int(lumen.mask.sum() - mask.sum())
    return replace(lumen, mask=mask, family=family, record=lumen.record | {"voxels_parted_off": off})


def parted(mask: Mask, places: Sequence[Index], least: float) -> tuple[Mask, float]:
    """What of a mask is joined to seeds by ways that are at least so wide, and the least radius at a seed.

    The core, as far from the wall as `least`, falls into parts at narrow places. Of the mask stays what is as near to
    the seeds' part of the core as the wall is, and a voxel further, and not nearer to another part.

    Parameters
    ----------
    mask : (Z, Y, X).
    places : voxels x, y, z of the seeds.
    least : radius, voxels.

    Returns
    -------
    (Z, Y, X) bool, one six-connected part, and a radius in voxels; at a seed that is left out that of its own place.
    """
    if not mask.any():
        return mask, 0.0
    box = bounding_box(mask, margin=1)
    part = mask[box]
    depth = np.where(part, np.asarray(ndimage.distance_transform_edt(fill_holes(part)[0])) - 0.5, 0)
    seeds = [(z, y, x) for x, y, z in (shift(place, box) for place in places)]
    middles = [deepest(depth, deepest(depth, seed)) for seed in seeds if holds(part, seed)]
    found = np.zeros_like(mask)
    there = min((float(depth[middle]) for middle in middles), default=0.0)
    label, _ = ndimage.label(depth >= least)
    own = np.isin(label, sorted({int(label[middle]) for middle in middles} - {0}))
    if not own.any():
        return found, there
    away = np.asarray(ndimage.distance_transform_edt(~own))
    near = part & (away <= least + 1)
    if (others := (label > 0) & ~own).any():
        near &= away <= ndimage.distance_transform_edt(~others)
    joined, _ = ndimage.label(near)
    near &= joined == joined[middles[0]]
    found[box] = near
    return found, min([there, *(float(depth[seed]) for seed in seeds if holds(part, seed) and not near[seed])])
