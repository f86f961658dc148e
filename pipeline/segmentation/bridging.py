# SPDX-License-Identifier: Apache-2.0
"""Gaps of the lumen joined, and threads widened: what is one voxel wide between wider parts is lost by the surface."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage.graph import route_through_array

from pipeline.segmentation.gap import gaps, summary_of
from pipeline.segmentation.levels import Levels, levels
from pipeline.segmentation.methods import find_lumen
from pipeline.segmentation.pieces_beyond import LEAST_SHARE, REACH_RADII, REACH_VOXELS, Gap, searched
from pipeline.segmentation.problem import Problem
from pipeline.segmentation.region_growing import Mask, bounding_box, fill_holes
from pipeline.segmentation.seeds import Seed

MOST_GAPS = 4
"""So many gaps, and threads, are joined at most."""

_ALL = np.ones((3, 3, 3), bool)


def bridged(problem: Problem) -> tuple[Problem, dict[str, Any]]:
    """The problem with gaps and threads made as bright as the lumen, three voxels wide, and a seed beyond each.

    As it is unless ``segment.gaps`` says so. Every method then goes through, at each level. What was joined comes with
    it, for ``segmentation.json``.
    """
    if problem.settings.gaps == "keep":
        return problem, {}
    joined: list[dict[str, Any]] = []
    for _ in range(MOST_GAPS):
        lumen = find_lumen(problem)
        if not lumen.mask.any():
            break
        mask, voxels = fill_holes(lumen.mask)[0], problem.filtered.voxels
        found = levels(voxels, mask, problem.places, lumen.wall, problem.dark)
        if not (open_gaps := gaps(searched(problem, lumen, mask, found)) or threads(problem, mask, found)):
            break
        bright, seeds = voxels.copy(), list(problem.seeds)
        for gap in open_gaps:
            bright[_tube(gap.way, voxels.shape)] = min(found.lumen, problem.upper)
            x, y, z = problem.filtered.to_mm(gap.beyond).tolist()
            seeds.append(Seed("beyond a gap (segment.gaps)", (x, y, z), gap.beyond))
            joined.append(summary_of(gap, problem))
        problem = replace(problem, filtered=problem.filtered.with_voxels(bright), seeds=tuple(seeds))
    return problem, {"gaps_joined": joined}


def _tube(way: NDArray[np.int64], shape: tuple[int, ...]) -> Mask:
    """A way with what touches it by a face: one voxel alone is lost by the surface."""
    tube = np.zeros(shape, bool)
    tube[tuple(way.T)] = True
    return ndimage.binary_dilation(tube)


def threads(problem: Problem, mask: Mask, found: Levels) -> list[Gap]:
    """Places at which large parts of a mask are joined by less than a voxel and its neighbours, as gaps.

    Voxels whose neighbours by a face are all lumen form the core. Where it falls into large parts, the way from one to
    another that stays in the middle of the lumen has a piece that is not of the core: the thread.

    Parameters
    ----------
    problem : with the image.
    mask : (Z, Y, X) bool, one part joined over faces, with its cavities filled.
    found : levels in and around the mask.
    """
    box = bounding_box(mask, margin=1)
    part, start = mask[box], np.array([side.start for side in box])
    label, count = ndimage.label(ndimage.binary_erosion(part, border_value=1), _ALL)
    sizes = np.bincount(label.ravel(), minlength=count + 1)
    sizes[0] = 0
    first, *others = np.argsort(-sizes)[: MOST_GAPS + 1]
    others = [number for number in others if sizes[number] >= LEAST_SHARE * sizes.sum()]
    if not others:
        return []
    depth = np.asarray(ndimage.distance_transform_edt(part))
    dark = np.where(part, 1 / np.maximum(depth, 1) ** 2, -1)
    longest = REACH_RADII * float(depth[label > 0].mean()) + REACH_VOXELS
    joined = []
    for number in others:
        ends = [np.array(ndimage.maximum_position(depth, label, each)) for each in (first, number)]
        way = np.array(route_through_array(dark, *ends, fully_connected=False)[0])
        thin = way[label[tuple(way.T)] == 0]
        if 0 < len(thin) <= longest:
            joined.append(_as_gap(problem, found, thin + start, ends[1] + start, int(sizes[number])))
    return joined


def _as_gap(problem: Problem, found: Levels, way: NDArray[np.int64], beyond: NDArray[np.int64], size: int) -> Gap:
    def index(place: NDArray[np.int64]) -> tuple[int, int, int]:
        z, y, x = (int(n) for n in place)
        return x, y, z

    share = (problem.filtered.voxels[tuple(way.T)] - found.surroundings) / found.contrast
    return Gap(
        end=index(way[0]),
        place=index(way[len(way) // 2]),
        length=float(len(way)),
        least=float(share.min()),
        way=way,
        beyond=index(beyond),
        size=size,
    )
