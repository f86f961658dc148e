"""Methods of segmentation: one dict of named functions of the same shape."""

from collections.abc import Callable

import numpy as np

from pipeline.segmentation.problem import Lumen, Problem
from pipeline.segmentation.region_growing import grow, grow_family


def threshold(problem: Problem) -> Lumen:
    """What is six-connected to the first seed between ``lower`` and ``upper``."""
    upper = np.inf if problem.settings.upper is None else problem.settings.upper
    voxels = problem.open_voxels
    return Lumen(
        mask=grow(voxels, problem.places[:1], problem.lower, upper),
        wall=problem.lower,
        control="segment.lower",
        level=problem.lower,
        family=lambda levels: grow_family(voxels, problem.places, levels, upper),
        record={
            "method": "seeded region growing between thresholds, six-connected",
            "lower": problem.lower,
            "upper": problem.settings.upper,
        },
    )


Method = Callable[[Problem], Lumen]

METHODS: dict[str, Method] = {"threshold": threshold}
"""By the names of ``segment.method``."""
