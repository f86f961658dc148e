# SPDX-License-Identifier: Apache-2.0
"""Ends of a vessel: which are cut, where, and how the openings are called."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.case.settings.geometry import SurfaceSettings
from pipeline.files.mesh import Mesh, words_mm
from pipeline.files.volume import Volume
from pipeline.geometry.branches.border import Section, section_beyond
from pipeline.geometry.branches.caps import describe
from pipeline.geometry.branches.centreline_graph import Branch
from pipeline.geometry.branches.faded_ends import LumenImage
from pipeline.geometry.branches.flat_faces import FLAT_SHARE, FlatFace, flat_face
from pipeline.geometry.branches.free_ends import Ends
from pipeline.geometry.branches.openings import Cut, cut_behind, place_cut, widest_mm
from pipeline.geometry.branches.picture import Mark, Scene
from pipeline.geometry.branches.round_ends import DOME_SHARE, may_be_sac
from pipeline.geometry.branches.side_branches import WALL
from pipeline.geometry.branches.thin_tails import thin_tail
from pipeline.geometry.branches.tips import Tip, lost_at, piece_beyond, tip_to_keep
from pipeline.geometry.surface.clip import ClipError, check_closed, cut_end
from solver.domain.nodes import Opening
from solver.runtime.errors import StageError

MIN_RADIUS_VOXELS = 2.0
"""The image does not resolve thinner vessels."""

TIP_RADII = 1.0
"""Within so many of its radii from its tip a vessel narrows; what is cut off there is asked for."""

CUT_RADII = 0.5
"""Of a lumen an end is cut at least so many radii from the tip, unless ``surface.cut_radii`` is set."""

DEEPER_RADII = 0.75
"""An end that a plane cuts off is cut up to so many radii deeper than asked for: its rim is rounded by a voxel or two,
which are a third to a half of a thin vessel's radius."""

IN_PLANE = 0.9
"""Cosine of the angle between a face and the border, at least, where they may be the same."""

ROUNDNESSES = (0.6, 0.4, 0.2)
"""Lower values of ``surface.cut_roundness`` that are tried where no section is round enough, for what is advised."""


ASKED = "surface.closed_mm asks for it"
"""Why an end stays closed that the settings name."""


class TooFewEndsError(StageError):
    """Fewer than two ends are open.

    Attributes
    ----------
    found : which are, and why others are not.
    """

    def __init__(self, found: str, advice: str) -> None:
        super().__init__(f"{found}. {advice}")
        self.found = found


@dataclass(frozen=True)
class Cutting:
    """How the ends of a vessel are cut.

    Attributes
    ----------
    settings : the case's section ``surface``.
    least_mm : least radius of a cut.
    remedy : what helps where fewer than two ends can be cut, for the message.
    cut_radii : least distance of a cut from the tip of the vessel, in radii.
    asked_radii : what lies so many radii of the opening before it is asked for.
    border : sections of the image's border, where the ends beyond it are cut off.
    capped : ends of the surface that are openings already, numbered from 1 in this order.
    moved : where a cut is made for one that was placed; none: there.
    voxel_mm : of the image, if cuts are moved as near to tips as sections stay as large and round, and blunt tips kept.
    image : of a lumen; none: it is not known.
    lumen : of a lumen's vessel, as the image holds it.
    shaved : sections in which the border shaves off a vessel's side. None: of a surface of no image, whose flat faces
        are other ends already.
    """

    settings: SurfaceSettings
    least_mm: float
    remedy: str
    cut_radii: float
    asked_radii: float
    border: Sequence[Section] = ()
    capped: Sequence[Cut] = ()
    moved: Callable[[Mesh, Cut], Cut] | None = None
    voxel_mm: float | None = None
    image: LumenImage | None = None
    lumen: Volume | None = None
    shaved: Sequence[Section] | None = None


def close_on_request(found: Ends, cutting: Cutting) -> None:
    """Close the ends that the settings name; of a given surface at least two must stay open.

    Parameters
    ----------
    found : the ends; for each place of the settings the nearest open one is moved to the closed ones.
    cutting : with the places, (x, y, z), LPS, in `settings.closed_mm`.

    Raises
    ------
    TooFewEndsError
        If fewer than two ends of a given surface stay open; of images flat faces may be ends, too.
    """
    for place in cutting.settings.closed_mm:
        if found.open:
            tips = found.centreline.points_mm[[end.rows[0] for end in found.open]]
            end = found.open.pop(int(np.argmin(np.linalg.norm(tips - np.array(place), axis=1))))
            found.closed[end.rows[0]] = ASKED
    if cutting.shaved is None:
        _require_two([found.centreline.points_mm[end.rows[0]] for end in found.open], found, cutting)


def cut_ends(
    mesh: Mesh, field: Volume, found: Ends, cutting: Cutting, scene: Scene, log: logging.Logger
) -> tuple[Mesh, float, list[dict[str, Any]], list[Tip]]:
    """Cut and cap the open ends of a closed surface.

    Parameters
    ----------
    mesh : closed surface.
    field : positive in the lumen.
    found : its ends; those that cannot be cut are moved to the closed ones.
    cutting : how they are cut.
    scene : gets the cuts and what is cut, for the picture of a refusal.
    log : for why ends stay closed.

    Returns
    -------
    The surface; its volume in the image, before any end was cut there, mm3; for each end that was cut there its place,
    the volume that was cut off and how much of that the settings asked for; and what tubes are to take the place of.

    Raises
    ------
    TooFewEndsError
        If fewer than two ends can be cut.
    StageError
        If cuts overlap, or the surface is not closed in the end.
    """
    cuts = _place_cuts(mesh, field, found, cutting)
    if len(cuts) < 2 and cutting.shaved is not None:
        cuts += _at_flat_faces(mesh, found, cutting, cuts, log)
    scene.mark_ends(found)
    _require_two([cut.centre_mm for cut in cuts], found, cutting)
    for row, why in found.closed.items():
        log.info("end at %s stays closed: %s", words_mm(found.centreline.points_mm[row]), why)
    numbers = {id(cut): number for number, cut in enumerate(cuts, 1)}
    for section in cutting.border:
        mesh = scene.mesh = cut_and_cap(
            mesh, section.cut, numbers.pop(id(section.cut), WALL), cuts, scene, at_border=True
        )
    inside_mm3, lost, tips = mesh.volume_mm3(), list[dict[str, Any]](), list[Tip]()
    for number in numbers.values():
        cut, before = cuts[number - 1], mesh
        if number <= len(cutting.capped):
            continue
        if cutting.moved:
            cut = cuts[number - 1] = cutting.moved(mesh, cut)
        mesh = scene.mesh = cut_and_cap(mesh, cut, number, cuts, scene)
        cap_mm2 = float(np.linalg.norm(mesh.area_vectors_mm2()[mesh.opening == number].sum(axis=0)))
        lost.append(lost_at(cut, before.volume_mm3() - mesh.volume_mm3(), cap_mm2, cutting.asked_radii))
        lost[-1] |= piece_beyond(before, mesh, cut, cutting.lumen)
        if cutting.voxel_mm:
            tip = tip_to_keep(before, mesh, cut, number, lost[-1], cutting.voxel_mm, cutting.image)
            tips += [tip] if tip else []
            if cutting.image and not tip:
                lost[-1] |= thin_tail(before, mesh, cut, found.centreline, cutting.image)
    check_closed(mesh)
    return mesh, inside_mm3, lost, tips


def name_openings(mesh: Mesh, settings: SurfaceSettings, log: logging.Logger) -> tuple[Opening, ...]:
    """Measure the caps of a mesh, give them the names and roles of the settings, and log them.

    Parameters
    ----------
    mesh : closed, with caps numbered from 1.
    settings : names and roles in `openings`.
    log : gets a line for each opening.
    """
    openings = describe(mesh, settings.openings)
    for opening in openings:
        place = words_mm(opening.centre_mm)
        log.info(
            "opening %d: %s (%s) at %s, radius %.2f mm",
            opening.id,
            opening.name,
            opening.role,
            place,
            opening.radius_mm,
        )
    return openings


def closed_ends(found: Ends) -> list[dict[str, Any]]:
    """Place of each end that stays closed, and why; with the radius of the vessel where no section could be cut."""
    points, uncut_mm, cut_by = found.centreline.points_mm, found.uncut_mm, found.cut_by
    return [
        {"place_mm": points[row].tolist(), "why": why}
        | ({"vessel_radius_mm": uncut_mm[row]} if row in uncut_mm else {})
        | ({"cut_roundness": cut_by[row]} if row in cut_by else {})
        | ({"border_radius_mm": found.thin_mm[row]} if row in found.thin_mm else {})
        for row, why in found.closed.items()
    ]


def doubts_of_ends(found: Ends) -> dict[str, list[dict[str, Any]]]:
    """Ends that stay closed, and openings that may be sacs, as in ``openings.json``."""
    return {"closed_ends": closed_ends(found), "round_ends": found.may_be_sacs}


def _place_cuts(mesh: Mesh, field: Volume, found: Ends, cutting: Cutting) -> list[Cut]:
    """Cuts of the open ends, and what cannot be cut is closed."""
    cuts, lower = list(cutting.capped), [each for each in ROUNDNESSES if each < cutting.settings.cut_roundness]
    points, radii = found.centreline.points_mm, found.centreline.radius_mm
    for end in list(found.open):
        if section := section_beyond(found.centreline, end, cutting.border):
            if all(cut is not section.cut for cut in cuts):  # vessels that touch leave through one section
                cuts.append(section.cut)
            continue
        row = end.rows[0]
        allowed = [cutting.settings.cut_roundness, *(lower if row in found.asked else ())]
        cut, _ = _roundest(field, found, end, cutting, allowed)
        face = flat_face(mesh, points[row], points, radii, DOME_SHARE)
        if cutting.shaved is not None:
            cut = _nearer_face(field, face, cut, cutting.cut_radii)
        if cut:
            cuts.append(cut)
            if why := may_be_sac(face, found.centreline, end, cut):
                found.may_be_sacs.append({"place_mm": cut.centre_mm.tolist(), "why": why})
            continue
        found.open.remove(end)
        why = f"no section is as large and round as those behind it, radius {end.end_radius_mm:.2f} mm"
        found.closed[row], found.uncut_mm[row] = why, widest_mm(end)
        if row not in found.asked and (roundness := _roundest(field, found, end, cutting, lower)[1]):
            found.cut_by[row] = roundness
    return cuts


def _roundest(
    field: Volume, found: Ends, end: Branch, cutting: Cutting, roundnesses: Sequence[float]
) -> tuple[Cut | None, float | None]:
    """The cut of an end by the first of some values of ``surface.cut_roundness`` that finds one, and that value."""
    asked = end.rows[0] in found.asked
    for roundness in roundnesses:
        limits = cutting.cut_radii, cutting.least_mm, roundness, cutting.voxel_mm is not None, asked
        if cut := place_cut(field, found.centreline, end, *limits):
            return cut, roundness
    return None, None


def _nearer_face(field: Volume, face: FlatFace | None, cut: Cut | None, cut_radii: float) -> Cut | None:
    """The cut of an end, or one close behind the flat face that ends the vessel, where the first lies much deeper.

    Beside a sac no section is as round and as large as those behind it; the face tells where the vessel ends.
    """
    if face is None or face.share < FLAT_SHARE:
        return cut
    if cut and (face.middle_mm - cut.centre_mm) @ face.normal < (cut_radii + DEEPER_RADII) * face.radius_mm:
        return cut
    return cut_behind(field, Cut(face.middle_mm, face.normal), face.radius_mm, cut_radii) or cut


def _at_flat_faces(mesh: Mesh, found: Ends, cutting: Cutting, others: list[Cut], log: logging.Logger) -> list[Cut]:
    """Cuts behind the flat faces of closed ends, which the image or a mask cut there: too short, or beside a sac.

    They are taken where the vessel would be refused else: a stump that is cut off flat beside open ends stays closed.
    """
    points, radii, cuts = found.centreline.points_mm, found.centreline.radius_mm, list[Cut]()
    for row, why in list(found.closed.items()):
        if why == ASKED:
            continue
        face = flat_face(mesh, points[row], points, radii)
        if face is None or face.radius_mm < cutting.least_mm or of_shaved_side(face, cutting.shaved or ()):
            continue
        cut = face.cut(cutting.cut_radii)
        if all(np.linalg.norm(cut.centre_mm - other.centre_mm) > face.radius_mm for other in others + cuts):
            cuts.append(cut)
            log.info("end at %s is cut flat there: an opening, though %s", words_mm(face.middle_mm), why)
            found.closed.pop(row)
    return cuts


def of_shaved_side(face: FlatFace, shaved: Sequence[Section]) -> bool:
    """Whether a face lies in a section in which the border shaves off a side.

    Parameters
    ----------
    face : an end's.
    shaved : those sections.
    """
    return any(
        abs(float(side.beyond_mm(face.middle_mm[None])[0])) < face.radius_mm / 2
        and face.normal @ side.cut.normal > IN_PLANE
        for side in shaved
    )


def _require_two(places_mm: list[NDArray[np.float64]], found: Ends, cutting: Cutting) -> None:
    if len(places_mm) < 2:
        open_at = "".join(f" at {words_mm(place)}" for place in places_mm)
        points = found.centreline.points_mm
        reasons = "".join(f"; at {words_mm(points[row])}: {why}" for row, why in found.closed.items())
        missed = "no section can be cut at an end that surface.opened_mm names; " if _uncut(found) else ""
        raise TooFewEndsError(
            f"surface: {missed}{len(places_mm)} open ends found{open_at}, at least 2 are wanted{reasons}",
            f"{_opening_them(found, cutting.settings)}{cutting.remedy}",
        )


def _opening_them(found: Ends, settings: SurfaceSettings) -> str:
    """What opens the ends that stay closed, for a refusal."""
    places = [
        [round(float(x), 1) for x in found.centreline.points_mm[row]]
        for row, why in found.closed.items()
        if why != ASKED and row not in found.too_thin | found.asked
    ]
    if places:
        places = [[round(x, 1) for x in place] for place in settings.opened_mm] + places
        return f"Where the vessel goes on at such an end, open it: surface.opened_mm: {places}; else "
    if ASKED in found.closed.values():
        return "To open the ends that the case closes: surface.closed_mm: []; else "
    if _uncut(found):
        return f"Leave that end out: surface.opened_mm: {_cut_there(found, settings)} and "
    if found.closed:
        return "Such branches are too thin for the voxels; "
    return (
        f"Lower surface.min_branch_radii = {settings.min_branch_radii:g} if ends are missing because they are short; "
    )


def _uncut(found: Ends) -> set[int]:
    """Rows of ends that the settings open and that cannot be cut."""
    return {row for row in found.closed if row in found.asked}


def _cut_there(found: Ends, settings: SurfaceSettings) -> list[list[float]]:
    """Places of `surface.opened_mm` whose ends can be cut."""
    rows = np.array([*found.closed, *(end.rows[0] for end in found.open)])
    points = found.centreline.points_mm[rows]
    nearest = [rows[np.linalg.norm(points - np.array(place), axis=1).argmin()] for place in settings.opened_mm]
    return [list(place) for place, row in zip(settings.opened_mm, nearest, strict=True) if row not in _uncut(found)]


def cut_and_cap(mesh: Mesh, cut: Cut, number: int, cuts: list[Cut], scene: Scene, at_border: bool = False) -> Mesh:
    """The mesh without what lies beyond a cut, closed by a cap of that number.

    Parameters
    ----------
    mesh : closed surface.
    cut : where; its normal points out of the vessel.
    number : of the cap; 0: it is wall.
    cuts : all of them, of which the nearest is named in the message.
    scene : gets a mark where it cannot be cut.
    at_border : whether the border of the image cuts there, which the settings do not move.

    Raises
    ------
    StageError
        If it cannot be cut there.
    """
    try:
        return cut_end(mesh, cut.centre_mm, cut.normal, number)
    except ClipError as error:
        scene.marks.append(Mark("fault", cut.centre_mm, f"cannot be cut: {error}"))
        if at_border:  # which lies where it lies, and is not asked for
            raise StageError(
                f"surface: the border of the image at {words_mm(cut.centre_mm)} cuts no single vessel: {error}. Islands"
                " of tissue lie in the section, or vessels touch there. If the lumen has leaked (segmentation.html),"
                " raise segment.lower or part it with segment.cut_planes; otherwise end the image where its border"
                " crosses vessels apart from each other, with filter.region_mm"
            ) from None
        others = [other for other in cuts if other is not cut]
        nearest = min(others, key=lambda other: float(np.linalg.norm(other.centre_mm - cut.centre_mm)))
        away = float(np.linalg.norm(nearest.centre_mm - cut.centre_mm))
        raise StageError(
            f"surface: the end at {words_mm(cut.centre_mm)} cannot be cut: {error}. The nearest other opening is"
            f" {away:.1f} mm away, at {words_mm(nearest.centre_mm)}: where two overlap, or a branch leaves within the"
            " cut, raise or lower surface.cut_radii so that the cut lies elsewhere; or keep the end closed with"
            f" surface.closed_mm: [[{', '.join(f'{x:.1f}' for x in cut.centre_mm)}]]"
        ) from None
