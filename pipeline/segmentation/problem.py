# SPDX-License-Identifier: Apache-2.0
"""What a method of segmentation is given, and what it hands back."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.case.settings.images import SegmentSettings
from pipeline.files.volume import Volume
from pipeline.segmentation.region_growing import Box, Index, Mask
from pipeline.segmentation.seeds import Seed
from solver.runtime.errors import StageError


class NoVesselError(StageError):
    """No contrast-filled vessel is where it should be, or none at all: another image may be meant."""


@dataclass(frozen=True)
class Problem:
    """A lumen to find.

    Attributes
    ----------
    filtered : isotropic volume, voxels (Z, Y, X) float32.
    seeds, background : points in the lumen, at least one, and outside it.
    barrier : (Z, Y, X) bool, voxels of the cut planes, which no lumen holds; None without any.
    settings : the user's.
    lower : smallest intensity of the lumen, given or found.
    dark : intensity below which there is no soft tissue; -inf where the image has no unit.
    log : where progress goes.
    start : box of the volume outside of which `lower` is not looked at, but what a vessel goes on with is followed;
        None: the whole volume.
    """

    filtered: Volume
    seeds: tuple[Seed, ...]
    background: tuple[Seed, ...]
    barrier: Mask | None
    settings: SegmentSettings
    lower: float
    dark: float
    log: logging.Logger
    start: Box | None = None

    @property
    def places(self) -> list[Index]:
        """Voxels x, y, z of the seeds."""
        return [seed.index for seed in self.seeds]

    @property
    def upper(self) -> float:
        """Largest intensity of the lumen; infinite where none is set."""
        return np.inf if self.settings.upper is None else self.settings.upper

    @property
    def open_voxels(self) -> NDArray[np.floating]:
        """The intensities, (Z, Y, X), with -inf on the cut planes, so that nothing grows over them."""
        voxels = self.filtered.voxels
        return voxels if self.barrier is None else np.where(self.barrier, -np.inf, voxels)


Family = Callable[[Sequence[float]], Iterator[tuple[Box, Mask]]]
"""Masks for ascending controlling levels, each with the box of the volume that it fills; empty ones included."""


@dataclass(frozen=True)
class Lumen:
    """A mask, and how it depends on the level that controls it.

    Attributes
    ----------
    mask : (Z, Y, X) bool; what is six-connected to the first seed.
    wall : intensity at the wall.
    control : name of the controlling level, for messages and the record.
    level : its value.
    family : the masks of other levels.
    record : what the method wants kept in ``segmentation.json``.
    edge_based : the wall is where the image has an edge; else where its intensity passes the controlling level.
    steps : where each level is a segmentation of its own, the leak guard's steps to the levels that it tests, from
        -1, 0, 1 on; None: every step up to the lumen's intensity.
    occupancy : (Z, Y, X) float32, the part of each voxel that the lumen fills; None: from the intensity at the wall.
    warnings : what the method doubts.
    even : (Z, Y, X) float32, intensities that levels near each place have made even along the vessel, of which `level`
        is the threshold, and `family` the masks; None: those of the image are.
    """

    mask: Mask
    wall: float
    control: str
    level: float
    family: Family
    record: dict[str, Any]
    edge_based: bool = False
    steps: tuple[int, ...] | None = None
    occupancy: NDArray[np.float32] | None = None
    warnings: tuple[str, ...] = ()
    even: NDArray[np.float32] | None = None

    def __str__(self) -> str:
        return f"{self.control} = {self.level:g}"


def made_even(lumen: Lumen, problem: Problem) -> tuple[Lumen, Problem]:
    """A lumen and its problem in the image that is even along the vessel, as guards that know one level look at it.

    Parameters
    ----------
    lumen : as found.
    problem : as posed.
    """
    if lumen.even is None:
        return lumen, problem
    even = problem.filtered.with_voxels(lumen.even)
    return replace(lumen, wall=lumen.level), replace(problem, filtered=even, lower=lumen.level)


def reaches(lumen: Lumen, problem: Problem) -> Mask:
    """What is as bright as a lumen, (Z, Y, X) bool: between the level at its wall and ``segment.upper``.

    Parameters
    ----------
    lumen : as found.
    problem : as posed.
    """
    return np.asarray((problem.filtered.voxels >= lumen.wall) & (problem.filtered.voxels <= problem.upper))
