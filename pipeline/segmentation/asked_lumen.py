# SPDX-License-Identifier: Apache-2.0
"""What is asked of the stage that segments, and the problem that this poses."""

import logging
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pipeline.case.settings.images import SegmentSettings
from pipeline.files.volume import Volume
from pipeline.segmentation import chosen_method
from pipeline.segmentation.automatic import find_lower, find_seed, find_start
from pipeline.segmentation.barrier import barrier
from pipeline.segmentation.bridging import bridged
from pipeline.segmentation.levels import dark_limit
from pipeline.segmentation.local_edge import LOCAL
from pipeline.segmentation.other_brightness import blooming
from pipeline.segmentation.problem import Problem
from pipeline.segmentation.refusals import check_filled
from pipeline.segmentation.seeds import background_places, place_seeds, seed_places
from solver.runtime.errors import StageError


@dataclass(frozen=True)
class Asked:
    """What is asked of the stage, see :func:`pipeline.stages.segment.segment`."""

    filtered: Volume
    settings: SegmentSettings
    loaded: Volume
    modality: str | None
    log: logging.Logger

    @property
    def chooses(self) -> bool:
        """Whether the method is to be chosen."""
        return self.settings.method == chosen_method.AUTO

    @cached_property
    def at_one_level(self) -> "Asked":
        """The same by one level, which is tried first."""
        return replace(self, settings=chosen_method.at_one_level(self.settings))

    @cached_property
    def posed(self) -> tuple[Problem, dict[str, Any]]:
        """The problem, and what was found instead of given; looked for once, whatever is tried of it."""
        return _pose(self)


def _pose(asked: Asked) -> tuple[Problem, dict[str, Any]]:
    """Seeds, cut planes and threshold on the grid of the filtered volume, and what was found instead of given."""
    filtered, settings, loaded, modality = asked.filtered, asked.settings, asked.loaded, asked.modality
    seeds = place_seeds(seed_places(settings, loaded), filtered, loaded)
    background = place_seeds(background_places(settings, loaded), filtered, loaded)
    cut = barrier(settings.cut_planes, filtered)
    dark = dark_limit(filtered.voxels, modality)
    problem = Problem(filtered, seeds, background, cut, settings, settings.lower or 0.0, dark, asked.log)
    summary: dict[str, Any] = {"seeds_are_automatic": not seeds, "lower_is_automatic": settings.lower is None}
    if not seeds:
        seed, summary["seeds_found_as"] = find_seed(problem, modality)
        problem = replace(problem, seeds=(seed,))
    check_filled(problem, modality)
    if cut is not None and (blocked := [seed.name for seed in seeds if cut[seed.index[::-1]]]):
        raise StageError(f"{blocked[0]} lies on a cut plane (segment.cut_planes): move one of the two")
    if settings.lower is None:
        found = find_start(problem) if settings.method == LOCAL else find_lower(problem)
        summary["lower_found_as"] = found.how
        asked.log.info("segment.lower: none is given; %.4g, %s", found.lower, found.how)
        problem = replace(problem, lower=found.lower, start=found.box)
    problem, joined = bridged(problem)
    if (bright := blooming(problem)) is not None:
        problem = replace(problem, barrier=bright if cut is None else cut | bright)
    return problem, summary | joined
