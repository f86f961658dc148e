# SPDX-License-Identifier: Apache-2.0
"""Openings of a given surface: open rims, faces of an array, or flat caps; holes of the mesh become wall."""

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.files.mesh import Mesh, words_mm
from pipeline.files.surface_file import SurfaceFile
from pipeline.geometry.branches.openings import Cut
from pipeline.geometry.branches.picture import Mark, Scene
from pipeline.geometry.given_surface import ADVICE, GivenSurface
from pipeline.geometry.surface.clip import ClipError, cap_of, cut_end
from pipeline.geometry.surface.extension import extend
from pipeline.geometry.surface.repair import LEAST_RIM, flat_caps, flat_faces
from solver.domain.nodes import Opening
from solver.runtime.errors import StageError

PLANE, UNEVEN = 0.1, 0.5
"""An end whose rim leaves its plane by up to these parts of its radius is closed flat, or made even: cut off flat
behind the rim, as where triangles were deleted, with a straight tube in place of what was cut off. A hole in the
wall is closed by a cap up to the second."""

BEHIND = 0.05
"""The cut lies so many radii behind the place of the rim that lies farthest within."""

HOLE = 0.1
"""A rim of less than this part of the largest rim's radius is a hole of the mesh, not an end of the vessel."""

FACE_ARRAYS = ("ModelFaceID", "CapID", "opening")
"""Arrays of faces that programs write: SimVascular both first ones, this one the last."""


def openings_given(
    whole: Mesh, given: SurfaceFile, rows: NDArray[np.int64], settings: GivenSurface, log: logging.Logger
) -> tuple[str, Mesh, dict[int, NDArray[np.int64]]]:
    """By what the openings are given, the surface with its caps tagged so, and the caps that are faces by their number.

    Parameters
    ----------
    whole : closed; its first triangles are the given ones, the others close its rims, as openings or as wall.
    given : the file.
    rows : which of the given triangles the first ones are.
    """
    name = _face_array(given, settings)
    if whole.opening.any():
        if name and settings.face_array:
            raise StageError(
                f"input.surface_face_array = {name}: the surface has open rims too, {int(whole.opening.max())} of them;"
                " close the surface with a face at every end, or give surface_face_array: ignore"
            )
        if beside := _caps_beside_a_rim(whole, settings):
            return "a rim and flat caps", _tagged(whole, beside), {}
        return "rims", without_gaps(whole), {}
    if name:
        numbers = given.faces[name][rows]
        hole = np.full(len(whole.triangles) - len(numbers), numbers.min() - 1)
        caps, wall = flat_faces(whole.points_mm, whole.triangles, np.concatenate([numbers, hole]))
        reasons = ", ".join(f"{number} {why}" for number, why in wall.items() if number >= numbers.min())
        if len(caps) >= 2:
            log.info("faces of %s: openings %s; wall: %s", name, ", ".join(map(str, caps)), reasons)
            return f"faces of {name}", _tagged(whole, list(caps.values())), caps
        if settings.face_array:
            raise StageError(
                f"input.surface_face_array = {name}: {len(caps)} of its faces are flat caps, at least 2 are wanted:"
                f" {reasons}; give a face of its own to every end, or surface_face_array: ignore"
            )
        log.info("faces of %s are not used, %d of them are flat caps: %s", name, len(caps), reasons)
    if len(flat := flat_caps(whole.points_mm, whole.triangles)) >= 2:
        return "flat caps", _tagged(whole, flat), {}
    return "cuts", whole, {}


def _caps_beside_a_rim(whole: Mesh, settings: GivenSurface) -> list[NDArray[np.int64]]:
    """All openings of a surface with one open rim, whose other ends have flat caps; none where there are no such caps.

    A rim without a sharp edge to the wall may be a hole in it: then the user is to say so.
    """
    if int(whole.opening.max()) > 1:
        return []
    flat, rim = flat_caps(whole.points_mm, whole.triangles), np.flatnonzero(whole.opening == 1)
    if len(flat) < 2:
        return []
    if any(np.isin(rim, cap).any() for cap in flat):
        return flat
    if not settings.closed_mm:
        middle = whole.points_mm[whole.triangles[rim]].mean(axis=(0, 1))
        place = [[round(float(x), 1) for x in middle]]
        raise StageError(
            f"input.surface: beside {len(flat)} flat caps it has one open rim, at {words_mm(middle)}, with no edge to"
            f" the wall around: if that is a hole in the wall, set surface.closed_mm: {place}; if a branch leaves"
            " there, cap it flat, a little away from the wall, in the program that made the surface"
        )
    return [*flat, rim]


def _face_array(given: SurfaceFile, settings: GivenSurface) -> str | None:
    """Name of the array of faces that is used."""
    if settings.face_array == "ignore":
        return None
    if settings.face_array is None:
        return next((name for name in FACE_ARRAYS if name in given.faces), None)
    if settings.face_array not in given.faces:
        there = ", ".join(sorted(given.faces)) or "none"
        raise StageError(
            f"input.surface_face_array = {settings.face_array}: the file has no such array of whole numbers, one a"
            f" triangle (there are: {there}); correct the name, or leave it out"
        )
    return settings.face_array


def faces_by_name(
    whole: Mesh, faces: dict[int, NDArray[np.int64]], openings: tuple[Opening, ...], log: logging.Logger
) -> dict[str, int]:
    """Number of the face that each opening was, by its name.

    Parameters
    ----------
    whole : the surface in which the faces are counted.
    faces : rows of the triangles of each face, by its number.
    openings : that were made of the surface.
    log : gets a line for each face that is an opening.

    Returns
    -------
    Faces whose middle is nearer to an opening's centre than its radius.
    """
    named = {}
    centroids = whole.centroids_mm()
    areas = np.linalg.norm(whole.area_vectors_mm2(), axis=1)
    for number, rows in faces.items():
        middle = np.average(centroids[rows], axis=0, weights=areas[rows])
        nearest = min(openings, key=lambda each: float(np.linalg.norm(np.array(each.centre_mm) - middle)))
        if np.linalg.norm(np.array(nearest.centre_mm) - middle) < nearest.radius_mm:
            named[nearest.name] = number
            log.info("face %d is opening %d, %s", number, nearest.id, nearest.name)
    return named


def without_holes(
    points: NDArray[np.float64],
    triangles: NDArray[np.int64],
    loops: list[NDArray[np.int64]],
    log: logging.Logger,
    scene: Scene,
) -> tuple[Mesh, list[Cut]]:
    """Close all rims with flat caps: the holes of the mesh as wall, the ends of the vessel as openings 1, 2, ...

    An end whose rim is uneven gets a fan from its middle, and no opening yet.

    Parameters
    ----------
    points : (P, 3) mm.
    triangles : (T, 3) rows of points.
    loops : rows of the points along each open rim.
    log : gets a warning for each hole.
    scene : gets a mark at each rim, for the picture of a refusal.

    Returns
    -------
    The closed surface, and where it is to be cut behind uneven rims, for :func:`made_even`.
    """
    uneven = list[Cut]()
    radii = [_radius(points[loop]) for loop in loops]
    tags, number = np.zeros(len(triangles), np.int8), 0
    for loop, radius in zip(loops, radii, strict=True):
        hole = radius < HOLE * max(radii) or len(loop) < LEAST_RIM
        what = f"{'hole' if hole else 'open'} rim, radius {radius:.2f} mm"
        scene.marks.append(Mark("closed" if hole else "open", points[loop].mean(axis=0), what))
        if hole:
            log.warning("warning: hole of radius %.2g mm at %s closed", radius, words_mm(points[loop].mean(axis=0)))
        cut = None
        try:
            inside, cap = _cap(points[loop], radius, UNEVEN if hole else PLANE)
        except StageError:
            cut = None if hole else _behind_uneven(points, triangles, loop, radius)
            if cut is None:
                raise
            uneven.append(cut)
            step = np.arange(len(loop))
            inside, cap = points[loop].mean(axis=0)[None], np.stack([step, np.roll(step, -1), 0 * step + len(loop)], 1)
        number += not (hole or cut)
        rows = np.concatenate([loop, len(points) + np.arange(len(inside))])
        points, triangles = np.concatenate([points, inside]), np.concatenate([triangles, rows[cap]])
        tags = np.concatenate([tags, np.full(len(cap), 0 if hole or cut else number, np.int8)])
    return Mesh(points, triangles, tags), uneven


def made_even(
    mesh: Mesh, uneven: list[Cut], log: logging.Logger, what: str = "the rim at {} is not flat"
) -> tuple[Mesh, list[dict[str, Any]]]:
    """Cut ends off flat behind their uneven rims, and put a straight tube there that holds as much as was cut off.

    Parameters
    ----------
    mesh : closed, outward, with the openings at even rims.
    uneven : where to cut.
    log : gets a warning for each.
    what : is uneven, with a place for the place.

    Returns
    -------
    The surface with an opening at each, and place, radius and length of each tube.
    """
    made = []
    for cut in uneven:
        number, before_mm3, where = int(mesh.opening.max()) + 1, mesh.volume_mm3(), words_mm(cut.centre_mm)
        try:
            mesh = cut_end(mesh, cut.centre_mm, cut.normal, number)
        except ClipError as error:
            raise StageError(
                f"input.surface: {what.format(where)}, and cannot be cut off behind: {error}; cut that end flat in the"
                " program that made the surface"
            ) from None
        cap_mm2 = float(np.linalg.norm(mesh.area_vectors_mm2()[mesh.opening == number].sum(axis=0)))
        length_mm = max(0.0, (before_mm3 - mesh.volume_mm3()) / cap_mm2)
        if length_mm > 0:
            mesh = extend(mesh, number, length_mm)
        radius_mm = float(np.sqrt(cap_mm2 / np.pi))
        made.append({"place_mm": cut.centre_mm.tolist(), "radius_mm": radius_mm, "length_mm": length_mm})
        log.warning("warning: %s; the last %.2f mm of that end are made even", what.format(where), length_mm)
    return mesh, made


def _behind_uneven(
    points: NDArray[np.float64], triangles: NDArray[np.int64], loop: NDArray[np.int64], radius: float
) -> Cut | None:
    """Where an end is cut whose rim leaves its plane, or is folded in it; None where it leaves it too far.

    Points of the vessel near the rim tell the way in.
    """
    rim = points[loop]
    middle, normal = _plane(rim)
    if float(np.abs((rim - middle) @ normal).max()) > UNEVEN * radius:
        return None
    wall = points[np.unique(triangles)]
    within = wall[np.linalg.norm(wall - middle, axis=1) < 2 * radius].mean(axis=0) - middle
    normal = -normal if within @ normal > 0 else normal
    return Cut(middle + (float(((rim - middle) @ normal).min()) - BEHIND * radius) * normal, normal)


def _plane(rim: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Middle of a rim and the normal of its plane, by its area vector."""
    middle = rim.mean(axis=0)
    vector = np.cross(rim - middle, np.roll(rim, -1, axis=0) - middle).sum(axis=0)
    return middle, vector / max(float(np.linalg.norm(vector)), 1e-30)


def _radius(rim: NDArray[np.float64]) -> float:
    """Of the circle as long as the rim."""
    return float(np.linalg.norm(np.roll(rim, -1, axis=0) - rim, axis=1).sum() / (2 * np.pi))


def _cap(rim: NDArray[np.float64], radius: float, plane: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Flat cap of a rim, (m, 3): points inside it, and triangles over the rows of the rim and then those points."""
    middle, normal = _plane(rim)
    away = float(np.abs((rim - middle) @ normal).max())
    if away > plane * radius:
        raise StageError(
            f"input.surface: the rim at {words_mm(middle)}, of radius {radius:.2f} mm, leaves its plane by"
            f" {away:.2f} mm (limit {UNEVEN * radius:.2f} mm); cut that end flat in the program that made the surface"
        )
    try:
        return cap_of(rim, normal)
    except ClipError as error:
        raise StageError(f"input.surface: the rim at {words_mm(middle)} cannot be closed: {error}; {ADVICE}") from None


def _tagged(mesh: Mesh, caps: list[NDArray[np.int64]]) -> Mesh:
    tags = np.zeros(len(mesh.triangles), np.int8)
    for number, cap in enumerate(caps, 1):
        tags[cap] = number
    return Mesh(mesh.points_mm, mesh.triangles, tags)


def nearest_cap(mesh: Mesh, place: tuple[float, float, float]) -> tuple[int, float]:
    """Number of the opening whose middle is nearest to a place, and its distance, mm; 0 and infinity without any."""
    centroids = mesh.centroids_mm()
    numbers = np.unique(mesh.opening[mesh.opening > 0])
    away = [float(np.linalg.norm(centroids[mesh.opening == number].mean(axis=0) - place)) for number in numbers]
    return min(zip(numbers.tolist(), away, strict=True), key=lambda each: each[1], default=(0, np.inf))


def without_gaps(mesh: Mesh) -> Mesh:
    """The openings numbered without gaps; there must be two."""
    numbers, renumbered = np.unique(np.append(mesh.opening, 0), return_inverse=True)
    if len(numbers) < 3:
        raise StageError(
            f"input.surface: {len(numbers) - 1} open ends, at least 2 are wanted; open or cap every inlet and outlet of"
            " the vessel flat in the program that made the surface, or shorten surface.closed_mm"
        )
    return Mesh(mesh.points_mm, mesh.triangles, renumbered[:-1].astype(np.int8))
