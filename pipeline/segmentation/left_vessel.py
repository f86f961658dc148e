# SPDX-License-Identifier: Apache-2.0
"""A lumen that has left the vessel, as a refusal with a way out that was tried, or as a doubt."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from pipeline.case.settings.images import CutPlane, SegmentSettings
from pipeline.files.volume import Volume
from pipeline.segmentation.barrier import planes_text
from pipeline.segmentation.beyond import Departure, departures
from pipeline.segmentation.faces import Grown, small_fault
from pipeline.segmentation.leak import covered, side_of
from pipeline.segmentation.point_text import text_mm
from pipeline.segmentation.problem import Lumen, Problem
from pipeline.segmentation.region_growing import seeds_within
from pipeline.segmentation.seeds import AUTOMATIC
from pipeline.segmentation.throat_cut import least_cut
from solver.runtime.errors import StageError

ABOVE_THROAT = 0.3
"""By how much, in voxels, a radius that closes a throat lies above that of the throat."""

ACCEPT = "to take it as it is, with a failed check in the report, segment.beyond: accept"


@dataclass(frozen=True)
class Doubt:
    """Where a mask may have left the vessel.

    Attributes
    ----------
    what : in words.
    point_mm : LPS.
    departure : none at the border.
    """

    what: str
    point_mm: tuple[float, float, float]
    departure: Departure | None

    @property
    def words(self) -> str:
        """What and where."""
        return f"at {text_mm(self.point_mm)} mm: {self.what}"

    @property
    def record(self) -> dict[str, Any]:
        """What ``segmentation.json`` holds of it."""
        return {"what": self.what, "mm": [round(x, 1) for x in self.point_mm]}


class LeftVesselError(StageError):
    """A lumen that has left the vessel, surely or from a seed that nobody gave, and where."""

    def __init__(self, lumen: Lumen, departure: Departure, words: str) -> None:
        if departure.clear:
            super().__init__(f"{lumen}: the mask has left the vessel {words}")
        else:
            super().__init__(
                f"{lumen}: the mask may have left the vessel {words}; as the seed is automatic, it is refused"
            )
        self.lumen, self.departure = lumen, departure


def left_vessel(lumen: Lumen, problem: Problem) -> list[Doubt]:
    """Where a lumen may have left the vessel, or has and the user accepts it.

    A seed that a person gave is in the vessel that is meant; of one that was found nobody knows, so that doubts count.

    Raises
    ------
    LeftVesselError
        Where it surely has, or may have from an automatic seed, and the user does not accept it.
    """
    found = [*_inside(lumen, problem), *_at_the_border(lumen, problem)]
    automatic = any(seed.name == AUTOMATIC for seed in problem.seeds)
    for doubt in found:
        departure = doubt.departure
        if departure is not None and (departure.clear or automatic) and problem.settings.beyond == "refuse":
            raise LeftVesselError(lumen, departure, doubt.words)
    return found


def _inside(lumen: Lumen, problem: Problem) -> Iterator[Doubt]:
    filtered, seeds = problem.filtered, seeds_within(lumen.mask, problem.places)
    for found in departures(lumen.mask, seeds, filtered.spacing_mm[0]):
        yield Doubt(found.what, _point(filtered, found.place[::-1]), found)


def _at_the_border(lumen: Lumen, problem: Problem) -> Iterator[Doubt]:
    """Sections of faces of which so little is covered that the guard of the border does not look at their shape."""
    filtered = problem.filtered
    grown = Grown(lumen.mask, filtered.voxels, seeds_within(lumen.mask, problem.places), lumen.wall)
    for axis, last in product(range(3), (False, True)):
        if not 0 < covered(lumen.mask, axis, last) <= problem.settings.border_fraction:
            continue
        if (fault := small_fault(grown, axis, last, fades=bool(np.isinf(problem.dark)))) is not None:
            words, index = fault
            face = side_of(axis, last, filtered.direction)
            what = f"what it covers of the {face} face of the region is no vessel that the border cuts: its {words}"
            yield Doubt(what, _point(filtered, index), None)


def _point(volume: Volume, index: Any) -> tuple[float, float, float]:
    x, y, z = volume.to_mm(index).tolist()
    return x, y, z


def remedies(error: LeftVesselError, problem: Problem, passes: Callable[[SegmentSettings], bool]) -> str:
    """What parts the lumen from what it has left to, tried, and how it is accepted.

    Parameters
    ----------
    error : of :func:`left_vessel`.
    problem : as posed.
    passes : whether the stage takes the lumen with other settings.
    """
    remedies = []
    planes = _with_cut(error, problem)
    if passes(problem.settings.model_copy(update={"cut_planes": planes})):
        remedies.append(f"tried, parts it by a disc there: segment.cut_planes: {planes_text(planes)}")
    least_mm = _closing_mm(error.departure, problem)
    if passes(problem.settings.model_copy(update={"least_radius_mm": least_mm})):
        remedies.append(
            f"tried, closes all places as narrow, and thinner branches: segment.least_radius_mm: {least_mm:g}"
        )
    if not remedies:
        remedies.append(
            "part it from what it touches (segment.cut_planes, marked on pick.html), narrow the region (filter)"
        )
    if not error.departure.clear:
        place = [[round(x, 1) for x in problem.seeds[0].point_mm]]
        remedies.append(
            f"if all of it is the vessel that is meant, give the seed that was found: segment.seeds_mm: {place}"
        )
    else:
        remedies.append("if it is the vessel, give a seed in it")
    return ", or ".join([*remedies, ACCEPT])


def _with_cut(error: LeftVesselError, problem: Problem) -> tuple[CutPlane, ...]:
    plane = least_cut(error.lumen.mask, error.departure.place, error.departure.radius, problem.filtered)
    return (*problem.settings.cut_planes, plane)


def _closing_mm(departure: Departure, problem: Problem) -> float:
    radius_mm = (departure.radius + ABOVE_THROAT) * problem.filtered.spacing_mm[0]
    digits = max(1, 1 - int(np.floor(np.log10(radius_mm))))
    return float(np.ceil(radius_mm * 10**digits) / 10**digits)
