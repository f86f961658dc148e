# SPDX-License-Identifier: Apache-2.0
"""A mask made whole: its cavities filled, and what cut planes take from it beside what they part."""

import numpy as np

from pipeline.segmentation.barrier import barrier, with_its_layers
from pipeline.segmentation.problem import Lumen, Problem, reaches
from pipeline.segmentation.region_growing import Mask, fill_holes


def without_cavities(mask: Mask, problem: Problem) -> tuple[Mask, int]:
    """The mask with its cavities filled, and their number; a cut plane is no cavity."""
    if not problem.settings.fill_holes:
        return mask, 0
    filled, holes = fill_holes(mask)
    return (filled if problem.barrier is None else filled & ~(problem.barrier & ~mask)), holes


def given_back_layers(mask: Mask, found: Lumen, problem: Problem) -> tuple[Mask, Mask]:
    """The mask with what cut planes take from it beside what they part, and these voxels.

    Parameters
    ----------
    mask : (Z, Y, X) bool, without cavities.
    found : the lumen that it is of.
    problem : as posed.
    """
    cut = barrier(problem.settings.cut_planes, problem.filtered)
    if cut is None:
        return mask, np.zeros_like(mask)
    whole = with_its_layers(mask, reaches(found, problem), cut)
    return whole, whole & ~mask
