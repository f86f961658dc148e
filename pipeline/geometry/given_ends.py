# SPDX-License-Identifier: Apache-2.0
"""Ends of a given surface that is closed: found in voxels as those of a segmented vessel are, and opened.

Flat caps become openings as they are, round ends are cut off where the vessel behind them begins to narrow.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from pipeline.files.mesh import Mesh, words_mm
from pipeline.files.volume import Volume
from pipeline.geometry.branches.centreline_graph import Branch, Centreline, trace_centreline
from pipeline.geometry.branches.ends import MIN_RADIUS_VOXELS, Cutting, close_on_request, closed_ends, cut_ends
from pipeline.geometry.branches.frayed_ends import without_frayed_ends
from pipeline.geometry.branches.free_ends import Ends, find_ends, nearest_ends
from pipeline.geometry.branches.openings import Cut
from pipeline.geometry.branches.picture import Scene
from pipeline.geometry.branches.side_branches import choose_side_branches, close_flush
from pipeline.geometry.branches.tips import lost_at
from pipeline.geometry.end_faces import end_face, moved_outwards, opened
from pipeline.geometry.given_openings import nearest_cap, without_gaps
from pipeline.geometry.given_surface import ADVICE, FIRST_ACROSS, WANTED_RADII, GivenSurface, finest_mm, mean_radius_mm
from pipeline.geometry.lattice.crossings import winding
from pipeline.geometry.lattice.grid import choose_frame
from pipeline.geometry.surface.clip import ClipError, check_closed
from pipeline.geometry.surface.isosurface import smooth_field, zero_surface
from pipeline.geometry.surface.short_edges import with_short_edges
from pipeline.geometry.surface.thin import ThinPlaceError
from solver.runtime.errors import StageError

MAX_ROUNDS, NEARLY = 4, 1.1
"""How often the voxels are made finer, and how much coarser than wanted will do."""

EDGES_PER_RADIUS = 2.5
"""At least so many edges on the radius of an end that is cut."""

LOOK_RADII = (1.5, 1.0, 2.0, 0.75)
"""So many radii before an end its face is looked for, one after the other."""

AT_CAP_RADII = 2.0
"""An end of the centreline that lies so near to a cap ends there."""

GIVEN_CLOSED = "the given surface is closed there, and has openings elsewhere"

REMEDY = "open or cap the ends flat in the program that made the surface"


def without_side_branches(mesh: Mesh, settings: GivenSurface, log: logging.Logger) -> tuple[Mesh, list[dict[str, Any]]]:
    """The surface with the side branches that the settings name cut off flush, and these.

    Parameters
    ----------
    mesh : closed, in mm.
    settings : limits in `side_branches`.
    log : gets what is found.

    Returns
    -------
    The surface, and records of what was cut off it.
    """
    if not settings.side_branches.limited:
        return mesh, []
    if settings.side_branches.action == "remove":
        raise StageError(
            "surface.side_branches.action = remove: a given surface has no lumen from which a branch could be taken;"
            " give close, which cuts it off along the vessel's wall, or enter with a mask"
        )
    voxels = _resolved(mesh, settings, log)
    sides, rest = choose_side_branches(
        voxels.centreline, settings, lambda rest: len(voxels.ends(rest, settings).open), log
    )
    records = []
    for side in sides:
        before_mm3 = mesh.volume_mm3()
        try:
            mesh = close_flush(with_short_edges(mesh, side.radius_mm / EDGES_PER_RADIUS), side, rest)
        except ClipError as error:
            raise StageError(
                f"surface.side_branches: the {side.words} cannot be cut off: {error}; cut it off in the program that"
                " made the surface, or change the limits so that it stays"
            ) from None
        record = side.record(settings.side_branches.action)
        records.append(record | {"volume_mm3": before_mm3 - mesh.volume_mm3()})
    check_closed(mesh, ADVICE)
    return without_gaps(mesh) if mesh.opening.any() else mesh, records


@dataclass(frozen=True)
class _Voxels:
    """A surface in voxels.

    Attributes
    ----------
    spacing_mm : of the voxels.
    field : positive inside.
    centreline : not pruned, but for frayed ends.
    frayed : rows of these.
    """

    spacing_mm: float
    field: Volume
    centreline: Centreline
    frayed: frozenset[int]

    def ends(self, centreline: Centreline, settings: GivenSurface) -> Ends:
        """Ends of the vessel along its centreline, or a part of it."""
        border = np.zeros(len(centreline.points_mm), bool)  # the surface is all there is
        asked = nearest_ends(self.centreline, settings.opened_mm)
        least_radii, least_mm = settings.min_branch_radii, settings.min_radius_mm
        return find_ends(centreline, least_radii, least_mm, border, self.frayed, asked=asked)


@dataclass(frozen=True)
class Opened:
    """A surface whose ends were found and opened.

    Attributes
    ----------
    mesh : with a cap at each open end.
    by : ``flat caps``, ``cuts``, or both.
    lost : of each end at which volume was lost, its place, that volume and how much of it the settings asked for.
    closed : place and reason of each end that stays closed.
    may_be_sacs : place of each opening at a round end that may be a sac, and what speaks for it.
    """

    mesh: Mesh
    by: str
    lost: list[dict[str, Any]]
    closed: list[dict[str, Any]]
    may_be_sacs: list[dict[str, Any]] = field(default_factory=list)


def open_found_ends(mesh: Mesh, settings: GivenSurface, log: logging.Logger, scene: Scene) -> Opened:
    """Find the ends of the vessel; take their flat caps as openings, and cut the round ones off the given surface.

    Where the settings say how far from the tip an end is cut, round ones are cut there.

    Parameters
    ----------
    mesh : closed, in mm, without openings.
    settings : by which ends are found and cut.
    log : gets what is found.
    scene : gets ends and cuts, for the picture of a refusal.
    """
    voxels = _resolved(mesh, settings, log)
    found = voxels.ends(voxels.centreline, settings)
    scene.mark_ends(found)
    least = max(settings.min_radius_mm, MIN_RADIUS_VOXELS * voxels.spacing_mm)
    asked = settings.cut_radii or 0.0
    cutting = Cutting(
        settings, least, _remedy(mesh), asked, asked, moved=lambda mesh, cut: moved_outwards(mesh, cut, asked)
    )
    close_on_request(found, cutting)
    mesh, capped, lost = _with_end_faces(mesh, found, asked, log)
    cutting = replace(cutting, capped=capped)
    if not found.open:
        return Opened(mesh, "flat caps", lost, closed_ends(found))
    fine = with_short_edges(mesh, min(end.end_radius_mm for end in found.open) / EDGES_PER_RADIUS)
    cut, _, cut_off, _ = cut_ends(fine, voxels.field, found, cutting, scene, log)
    by = "flat caps and cuts" if cutting.capped else "cuts"
    return Opened(cut, by, lost + cut_off, closed_ends(found), found.may_be_sacs)


def open_other_caps(mesh: Mesh, by: str, settings: GivenSurface, log: logging.Logger) -> Opened:
    """Close the ends that the settings name, and tell of each end that a surface with openings leaves closed.

    Where its openings are flat caps, caps that bulge are openings, too.

    Parameters
    ----------
    mesh : closed, in mm, with its openings.
    by : how these were found.
    settings : by which ends are found; of openings and other ends the nearest to each of `closed_mm` stays closed.
    log : gets a warning for each end that nobody asked to close.
    """
    try:
        voxels = _resolved(mesh, settings, log)
        found = voxels.ends(voxels.centreline, settings)
    except ThinPlaceError as error:  # the lattice may do what voxels cannot
        log.warning("warning: ends without an opening are not looked for: %s", error.found)
        found = Ends(Centreline(np.empty((0, 3)), np.empty(0), ()), [], {})
    caps = cKDTree(mesh.centroids_mm()[mesh.opening > 0])
    tip = {end.rows[0]: found.centreline.points_mm[end.rows[0]] for end in found.open}
    found.open[:] = [end for end in found.open if caps.query(tip[end.rows[0]])[0] > AT_CAP_RADII * end.end_radius_mm]
    tags = mesh.opening.copy()
    for place in settings.closed_mm:
        number, away = nearest_cap(Mesh(mesh.points_mm, mesh.triangles, tags), place)
        other = min(found.open, key=lambda end: float(np.linalg.norm(tip[end.rows[0]] - place)), default=None)
        if other and np.linalg.norm(tip[other.rows[0]] - place) < away:
            found.open.remove(other)
        elif number:
            tags[tags == number] = 0
        log.info("end nearest to %s stays closed: surface.closed_mm asks for it", words_mm(place))
    mesh = without_gaps(Mesh(mesh.points_mm, mesh.triangles, tags))
    lost: list[dict[str, Any]] = []
    if by == "flat caps":
        first = int(mesh.opening.max()) + 1
        mesh, _, lost = _with_end_faces(mesh, found, settings.cut_radii or 0.0, log, first)
    left = []
    for end in found.open:
        here, radius_mm = tip[end.rows[0]], end.end_radius_mm
        log.warning("warning: end at %s, radius %.2f mm, stays closed as it is given", words_mm(here), radius_mm)
        left.append({"place_mm": here.tolist(), "why": GIVEN_CLOSED, "radius_mm": radius_mm})
    return Opened(mesh, by, lost, left)


def _remedy(mesh: Mesh) -> str:
    """What helps where fewer than two ends are found; a wall whose rims are round has a way through it, and no ends."""
    ways = 1 - (len(np.unique(mesh.triangles)) - len(mesh.triangles) // 2) // 2
    if not ways:
        return REMEDY
    return (
        f"{REMEDY}; {ways} {'ways lead' if ways > 1 else 'way leads'} through the surface: if it is the wall of a"
        f" vessel, about {mean_radius_mm(mesh):.2g} mm thick, give its inner surface alone"
    )


def _with_end_faces(
    mesh: Mesh, found: Ends, asked_radii: float, log: logging.Logger, first: int = 1
) -> tuple[Mesh, list[Cut], list[dict[str, Any]]]:
    """The surface with the end faces of open ends as openings, these, and what bulging ones lost; no longer `found`."""
    capped: list[Cut] = []
    lost: list[dict[str, Any]] = []
    for end in list(found.open):
        looks = (end_face(mesh, inside, radius_mm) for inside, radius_mm in _looking_out(found, end))
        face = next((each for each in looks if each), None)
        if face is None or mesh.opening[face.rows].any():
            continue
        try:
            after = opened(mesh, face, first + len(capped))
        except ClipError:
            continue
        mesh_mm3, mesh = mesh.volume_mm3(), after
        capped.append(face.cut)
        found.open.remove(end)
        if not face.flat:
            cap_mm2 = float(
                np.linalg.norm(mesh.area_vectors_mm2()[mesh.opening == first + len(capped) - 1].sum(axis=0))
            )
            lost.append(lost_at(face.cut, mesh_mm3 - mesh.volume_mm3(), cap_mm2, asked_radii))
        log.info("end at %s: %s", words_mm(face.cut.centre_mm), "flat cap" if face.flat else "cap, made flat")
    return mesh, capped, lost


def _looking_out(found: Ends, end: Branch) -> Iterator[tuple[Cut, float]]:
    """Places on the centreline before an end with the directions to it, and the radius of the vessel there.

    Behind a short vessel that leaves a sac the radius is that of the sac: the end is looked at from nearer, too.
    """
    points = found.centreline.points_mm[list(end.rows)]
    for radius_mm, radii in product(sorted({end.end_radius_mm, end.tip_radius_mm}, reverse=True), LOOK_RADII):
        way = np.array([radii, radii + 1.0]) * radius_mm
        here, before = (np.array([np.interp(w, end.way_mm, points[:, k]) for k in range(3)]) for w in way)
        length = np.linalg.norm(here - before)
        if length > 0:
            yield Cut(here, (here - before) / length), radius_mm


def _resolved(mesh: Mesh, settings: GivenSurface, log: logging.Logger) -> _Voxels:
    """The surface in voxels that resolve the thinnest of its ends."""
    finest, spacing = finest_mm(mesh), 2 * mean_radius_mm(mesh) / FIRST_ACROSS
    for _ in range(MAX_ROUNDS):
        spacing = max(spacing, finest)
        voxels = _in_voxels(mesh, spacing)
        found = voxels.ends(voxels.centreline, settings)
        thin = min((end.end_radius_mm for end in found.open), default=np.inf)
        log.info("voxels of %.3g mm: %d open ends, the thinnest of radius %.3g mm", spacing, len(found.open), thin)
        if spacing <= max(NEARLY * thin / WANTED_RADII, finest):
            break
        spacing = thin / WANTED_RADII
    return voxels


def _in_voxels(mesh: Mesh, spacing_mm: float) -> _Voxels:
    frame = choose_frame(mesh, spacing_mm)
    mask = Volume((winding(mesh, frame) > 0).view(np.uint8), (spacing_mm,) * 3, frame.origin_mm, np.eye(3))
    try:
        field = smooth_field(mask, None)
    except ThinPlaceError:
        field = smooth_field(mask, None, less_where_thin=True)
    traced = trace_centreline(field.with_voxels(field.voxels > 0), zero_surface(field).points_mm)
    return _Voxels(spacing_mm, field, *without_frayed_ends(traced))
