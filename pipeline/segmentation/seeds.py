# SPDX-License-Identifier: Apache-2.0
"""Seeds: points in the lumen or outside it, given in mm, as voxels of the loaded volume or as 3D Slicer markups."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.case.settings.base import Point
from pipeline.case.settings.images import Seeds, SegmentSettings
from pipeline.files.volume import Volume
from pipeline.segmentation.point_text import text_mm
from pipeline.segmentation.region_growing import Index
from solver.runtime.errors import StageError

POINT_TYPES = ("Fiducial", "Line", "Curve", "ClosedCurve")
"""Markups of 3D Slicer whose control points are points of the patient; those of planes and boxes are not."""

TO_LPS = {"LPS": (1.0, 1.0, 1.0), "RAS": (-1.0, -1.0, 1.0), "1": (1.0, 1.0, 1.0), "0": (-1.0, -1.0, 1.0)}
"""Coordinate systems of markups, by name and by the numbers of older files, and the signs that lead to LPS."""

AUTOMATIC = "automatic"
"""What a seed is called that was found."""

WITHOUT_SEEDS = "segment: {seeds_mm: [], seeds_voxel: [], seeds_file: null}"
WITHOUT_REGION = "filter: {region_mm: null, region_voxels: null, region_grown: null}"
"""Settings that leave out what is given elsewhere in a case, for messages."""

OUT_OF_REGION = (
    "move the seed, or widen filter.region_mm or filter.region_voxels, or leave the region out: " + WITHOUT_REGION
)


@dataclass(frozen=True)
class Place:
    """A point as it was given.

    Attributes
    ----------
    name : the setting it came from, for messages.
    given : its numbers there.
    point_mm : LPS, mm.
    """

    name: str
    given: list[float]
    point_mm: Point


@dataclass(frozen=True)
class Seed:
    """A point on the grid of the filtered volume.

    Attributes
    ----------
    name : the setting it came from, for messages; ``automatic`` for one that was found.
    point_mm : LPS, mm.
    index : nearest voxel x, y, z of the filtered volume.
    """

    name: str
    point_mm: Point
    index: Index


def seed_places(settings: Seeds, loaded: Volume, section: str = "segment") -> list[Place]:
    """The points in the lumen that a section of the settings gives.

    Parameters
    ----------
    settings : seeds in mm (LPS), as voxels of `loaded`, and in a markups file.
    loaded : the volume before the filter; only its geometry is used.
    section : its name, for messages.

    Raises
    ------
    StageError
        If the markups file is not usable.
    """
    return _places(f"{section}.seeds", settings.seeds_mm, settings.seeds_voxel, settings.seeds_file, loaded)


def background_places(settings: SegmentSettings, loaded: Volume) -> list[Place]:
    """The points outside the lumen; as :func:`seed_places`."""
    return _places(
        "segment.background", settings.background_mm, settings.background_voxel, settings.background_file, loaded
    )


def _places(
    name: str, points_mm: Iterable[Point], voxels: Iterable[tuple[int, int, int]], file: str | None, loaded: Volume
) -> list[Place]:
    places = [Place(f"{name}_mm[{n}]", list(point), point) for n, point in enumerate(points_mm)]
    for n, voxel in enumerate(voxels):
        places.append(Place(f"{name}_voxel[{n}]", list(voxel), tuple(loaded.to_mm(voxel).tolist())))
    for n, point in enumerate(read_markups(Path(file), f"{name}_file") if file else ()):
        places.append(Place(f"{name}_file[{n}]", list(point), point))
    return places


def place_seeds(places: Iterable[Place], filtered: Volume, loaded: Volume) -> tuple[Seed, ...]:
    """Points on the grid of the filtered volume.

    Parameters
    ----------
    places : from settings or files.
    filtered : the volume on whose grid they are wanted.
    loaded : the volume before the filter.

    Raises
    ------
    StageError
        If one lies outside the loaded volume or the region of interest.
    """
    every = tuple(places)
    return tuple(_seed(place, filtered, loaded, every) for place in every)


def _seed(place: Place, filtered: Volume, loaded: Volume, every: tuple[Place, ...]) -> Seed:
    for volume, what, remedy in (
        (loaded, "the loaded volume", _correction(place, loaded, every)),
        (filtered, "the region of interest", OUT_OF_REGION),
    ):
        last = np.array(volume.voxels.shape[::-1]) - 1
        index = np.rint(volume.to_index(place.point_mm)).astype(int)
        if np.any(index < 0) or np.any(index > last):
            box = volume.to_mm(np.stack(np.meshgrid(*zip([0, 0, 0], last, strict=True)), axis=-1).reshape(-1, 3))
            raise StageError(
                f"{place.name} = {place.given}: at {text_mm(place.point_mm)} mm (LPS) it lies outside {what}, which"
                f" reaches from {text_mm(box.min(axis=0))} to {text_mm(box.max(axis=0))} mm"
                + (f" ({last[0] + 1} x {last[1] + 1} x {last[2] + 1} voxels)" if volume is loaded else "")
                + f": {remedy}"
            )
    x, y, z = index.tolist()
    return Seed(place.name, place.point_mm, (x, y, z))


def _correction(place: Place, loaded: Volume, every: tuple[Place, ...]) -> str:
    """How a point comes into the volume: by the other signs, where points were given in RAS."""
    key = place.name.partition("[")[0]
    turned = [(-x, -y, z) for x, y, z in (each.point_mm for each in every if each.name.startswith(f"{key}["))]
    if key.endswith("_mm") and all(_holds(loaded, loaded.to_index(point)) for point in turned):
        listed = ", ".join(f"[{x:.6g}, {y:.6g}, {z:.6g}]" for x, y, z in turned)
        return f"in RAS it would lie inside, so turn the signs of x and y, {key}: [{listed}]"
    if not key.startswith("segment.seeds"):
        return "correct the point"
    return f"correct the seed, or let the largest vessel be looked for: {WITHOUT_SEEDS}"


def _holds(volume: Volume, index: NDArray[np.floating]) -> bool:
    """Whether a place, in voxels x, y, z, is nearest to a voxel of the volume."""
    nearest, size = np.rint(index), volume.voxels.shape[::-1]
    return bool(np.all(nearest >= 0) and np.all(nearest < size))


def moved(seeds: Iterable[Seed], seed: Seed, point_mm: Iterable[float], settings: Seeds) -> str:
    """The setting in which one of the seeds lies elsewhere, all of them given in mm.

    Parameters
    ----------
    seeds : all of them.
    seed : the one that moves.
    point_mm : where it would lie, (x, y, z), LPS.
    settings : by which seeds are given.
    """
    return with_points([point_mm if each is seed else each.point_mm for each in seeds], settings)


def with_points(points_mm: Iterable[Iterable[float]], settings: Seeds) -> str:
    """The setting that gives these seeds and no others."""
    listed = ", ".join("[" + ", ".join(f"{round(x, 2):.6g}" for x in point) + "]" for point in points_mm)
    if not settings.seeds_voxel and not settings.seeds_file:
        return f"segment.seeds_mm: [{listed}]"
    return f"segment: {{seeds_mm: [{listed}], seeds_voxel: [], seeds_file: null}}"


def read_markups(path: Path, name: str = "segment.seeds_file") -> list[Point]:
    """Points of a 3D Slicer markups file (``.mrk.json``).

    Point lists, lines and curves are read, all of the file's; points that were never placed are passed over. Labels
    and descriptions are free text and stay unread.

    Parameters
    ----------
    path : the file.
    name : the setting that names it: messages name no file, whose name may be a patient's.

    Returns
    -------
    Points (x, y, z), LPS, mm, in the file's order.

    Raises
    ------
    StageError
        If it is no markups file, its coordinates are not in mm or in an unknown system, or no point is in it.
    """
    try:
        markups = json.loads(path.read_text(encoding="utf-8"))["markups"]
        nodes = [(dict(node), list(node.get("controlPoints", ()))) for node in markups]
    except OSError as error:
        raise StageError(f"{name}: cannot be read ({error.strerror}); correct the path") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise StageError(
            f"{name}: is no markups file of 3D Slicer (JSON with the list 'markups'); save the points as .mrk.json"
        ) from None
    points = [_point(each, signs, name) for node, every in nodes if (signs := _signs(node, name)) for each in every]
    placed = [point for point in points if point]
    if not placed:
        raise StageError(f"{name}: holds no placed point; place at least one in 3D Slicer and save again")
    return placed


def _signs(node: dict[str, Any], name: str) -> tuple[float, ...]:
    """Signs that lead the coordinates of a markups node to LPS; what is not points in mm is refused."""
    kind, system, units = node.get("type"), node.get("coordinateSystem", "LPS"), node.get("coordinateUnits", "mm")
    if kind not in POINT_TYPES:
        shown = kind if kind in ("Angle", "Plane", "ROI") else "an unknown type"
        raise StageError(f"{name}: holds markups of type {shown}; save {', '.join(POINT_TYPES)} alone")
    if str(system) not in TO_LPS:
        raise StageError(f"{name}: the coordinate system of its markups is neither LPS nor RAS; save them in LPS")
    if (units[0] if isinstance(units, list) and units else units) != "mm":
        raise StageError(f"{name}: the coordinates of its markups are not in mm; save them in mm")
    return TO_LPS[str(system)]


def _point(point: Any, signs: tuple[float, ...], name: str) -> Point | None:
    """LPS mm; None for a point that was not placed."""
    if not isinstance(point, dict):
        raise StageError(f"{name}: a control point is no object; save the markups again")
    if point.get("positionStatus", "defined") != "defined":
        return None
    position = point.get("position")
    if (
        not isinstance(position, list)
        or [type(value) in (int, float) for value in position] != [True] * 3
        or not np.all(np.isfinite(position))
    ):
        raise StageError(f"{name}: the position of a control point is not three numbers; save the markups again")
    x, y, z = (sign * float(value) for sign, value in zip(signs, position, strict=True))
    return x, y, z
