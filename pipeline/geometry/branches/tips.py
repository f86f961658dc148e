# SPDX-License-Identifier: Apache-2.0
"""Tips: in place of the rounded tip that a cut takes off a blunt end of a lumen, a tube of the same volume.

Blur, and the smoothing of the wall, round a blunt end off over one to two voxels, which are up to a radius of a thin
vessel. No section there is as large as the vessel, though the vessel was. A tube with the section of the cut takes the
place of the tip, bent as the vessel is, or straight where a flat tip leans against that; with the same volume it is
shorter than the tip. An end that tapers is no tube, and what is cut off there is lost.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.files.mesh import Mesh, words_mm
from pipeline.files.volume import Volume
from pipeline.geometry.branches.faded_ends import LumenImage
from pipeline.geometry.branches.openings import Cut
from pipeline.geometry.surface.clip import open_edges
from pipeline.geometry.surface.extension import STRAIGHT, extend, mean_edge_mm, place_of_collision

MOST_RADII = 0.9
"""The tube with the volume of a tip is no longer, in radii of the vessel: that of half a ball is 2/3, and the cut may
stand a fifth of a radius before it."""
MOST_FADED_RADII = 3.0
"""And no longer than that where the image shows that the vessel goes on."""
LEAST_KEPT = 0.5
"""Part of such a tip that a tube takes the place of, at least."""
NEAR_RADII = 4.0
"""What a cut took off is looked at so far around it: a tip that reaches farther is not blunt."""
MOST_BENT = 0.4
"""Radius of the vessel over that of its bend, at most."""
MOST_LEANING_VOXELS = 0.5
"""The edge of a tip is so much nearer on one side than the end of the tube that would take its place, at most: on that
side the tube stands outside of the vessel by as much."""
LEAST_EDGES = 0.25
"""A tube is that long at least, in edges of its rim: the triangles of a shorter one would be needles."""
BLUNT = 0.58
"""A tip is blunt that fills so much of the cylinder of its height on the cut: half a ball fills 2/3, a paraboloid 1/2,
a cone 1/3."""
AT_BORDER_VOXELS = 0.5
"""The wall lies half way between voxels of the lumen and others, to so much: at the border, in its plane."""
TINY = 1e-6
"""Part of the length of the tube, of which the height of a tip is at least: a tip without one is flat."""
FLAT = 0.8
"""A tip is flat that fills so much: its face tells how the vessel goes on, which that of a round one does not."""


@dataclass(frozen=True)
class Tip:
    """What a cut took off an end, and a tube takes the place of.

    Attributes
    ----------
    opening : id of the cap.
    volume_mm3 : of the tube.
    bend_per_mm : (3,) how the vessel is bent there, as of a :class:`Cut`.
    record : of the end that was cut, which :func:`with_whole_tips` completes.
    """

    opening: int
    volume_mm3: float
    bend_per_mm: NDArray[np.float64]
    record: dict[str, Any]


def lost_at(cut: Cut, volume_mm3: float, cap_mm2: float, asked_radii: float) -> dict[str, Any]:
    """What is recorded of an end that was cut.

    Parameters
    ----------
    cut : where.
    volume_mm3 : that was cut off.
    cap_mm2 : area of the opening.
    asked_radii : so many radii of the opening before it were asked for.
    """
    radius_mm = float(np.sqrt(cap_mm2 / np.pi))
    return {
        "place_mm": cut.centre_mm.tolist(),
        "radius_mm": radius_mm,
        "volume_mm3": volume_mm3,
        "asked_mm3": float(cap_mm2 * asked_radii * radius_mm),
    }


def piece_beyond(before: Mesh, after: Mesh, cut: Cut, lumen: Volume | None) -> dict[str, Any]:
    """What is recorded of the piece that a cut took off.

    Parameters
    ----------
    before, after : the closed surface with and without what lies beyond the cut.
    cut : where.
    lumen : in whose image the vessel lies; none: in no image.

    Returns
    -------
    ``reach_mm``, how far it reaches beyond the plane of the cut; ``at_border``, whether it reaches the image's border.
    """
    piece = before.points_mm[points_gone(before, after, cut.centre_mm, np.inf)]
    found: dict[str, Any] = {"reach_mm": float(((piece - cut.centre_mm) @ cut.normal).max(initial=0.0))}
    if lumen is None:
        return found
    index, size = lumen.to_index(piece), np.array(lumen.voxels.shape[::-1])
    to_border = np.minimum(index + 0.5, size - 0.5 - index)
    return found | {"at_border": bool(to_border.min(initial=np.inf) < AT_BORDER_VOXELS)}


def tip_to_keep(
    before: Mesh,
    after: Mesh,
    cut: Cut,
    opening: int,
    record: dict[str, Any],
    voxel_mm: float,
    image: LumenImage | None,
) -> Tip | None:
    """The tip that a cut took off, where a tube of its volume lies in the vessel.

    It does where the tip is blunt, or where the image shows that the vessel goes on though its contrast fades.

    Parameters
    ----------
    before, after : the closed surface with and without what lies beyond the cut.
    cut : where.
    opening : id of the cap.
    record : of the cut: ``radius_mm`` and ``volume_mm3``.
    voxel_mm : spacing of the image.
    image : of the lumen; none: it is not known.
    """
    radius_mm, volume_mm3 = record["radius_mm"], record["volume_mm3"]
    length_mm = volume_mm3 / (np.pi * radius_mm**2)
    if float(np.linalg.norm(cut.bend_per_mm)) * radius_mm > MOST_BENT or length_mm > MOST_FADED_RADII * radius_mm:
        return None
    aslant, filled = _face(before, after, cut, radius_mm, volume_mm3)
    if length_mm <= MOST_RADII * radius_mm and filled >= BLUNT:
        for bend in (cut.bend_per_mm, STRAIGHT) if filled >= FLAT else (cut.bend_per_mm,):
            if radius_mm * np.linalg.norm(aslant + length_mm * bend) <= MOST_LEANING_VOXELS * voxel_mm:
                return Tip(opening, volume_mm3, bend, record)
    kept = image.goes_on_mm(cut, radius_mm, length_mm) / length_mm if image else 0.0
    return Tip(opening, kept * volume_mm3, cut.bend_per_mm, record) if kept >= LEAST_KEPT else None


def _face(
    before: Mesh, after: Mesh, cut: Cut, radius_mm: float, volume_mm3: float
) -> tuple[NDArray[np.float64], float]:
    """How much the end of a tip leans against the cut, (3,), in the plane of the cut, and how much the tip fills of the
    cylinder of its height; nothing where it reaches too far.

    Where a plane ends the vessel aslant, as at a bend, the height of the tip is that above a plane as much aslant.
    """
    gone = points_gone(before, after, cut.centre_mm, NEAR_RADII * radius_mm)
    part = before.triangles[gone[before.triangles].all(axis=1)]
    if not len(part):
        return np.zeros(3), 0.0
    corners = before.points_mm[part] - cut.centre_mm
    facing = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]) @ cut.normal / 2
    places = corners.mean(axis=1)
    aside = places - np.outer(places @ cut.normal, cut.normal)
    aslant = np.asarray(4 * (facing * (places @ cut.normal)) @ aside / (np.pi * radius_mm**4))
    height_mm = ((before.points_mm[gone] - cut.centre_mm) @ (cut.normal - aslant)).max()
    length_mm = volume_mm3 / (np.pi * radius_mm**2)
    return aslant, float(length_mm / max(height_mm, length_mm * TINY))


def points_gone(before: Mesh, after: Mesh, centre_mm: NDArray[np.float64], reach_mm: float) -> NDArray[np.bool_]:
    """Which points of a surface another one lacks, of those that lie near a place, (n,).

    Parameters
    ----------
    before, after : the surface with n points, and the other one.
    centre_mm : (3,) the place.
    reach_mm : how far from it.
    """
    gone, kept = (np.linalg.norm(mesh.points_mm - centre_mm, axis=1) < reach_mm for mesh in (before, after))
    near = np.ascontiguousarray(before.points_mm[gone]).view("V24").ravel()
    others = np.ascontiguousarray(after.points_mm[kept]).view("V24").ravel()
    gone[gone] = ~np.isin(near, others)
    return gone


def with_whole_tips(mesh: Mesh, tips: Sequence[Tip], log: logging.Logger) -> Mesh:
    """The surface with tubes in place of the tips that were cut off, but where one would meet the wall
    or be too short to be meshed.

    Parameters
    ----------
    mesh : closed, with a cap at each opening.
    tips : whose records get the length of the tube, and no longer count its volume as cut off.
    log : gets a line for each tube.
    """
    for tip in tips:
        cap = mesh.opening == tip.opening
        length_mm = tip.volume_mm3 / float(np.linalg.norm(mesh.area_vectors_mm2()[cap].sum(axis=0)))
        if length_mm < LEAST_EDGES * mean_edge_mm(mesh, open_edges(mesh.triangles[cap])):
            continue
        longer = extend(mesh, tip.opening, length_mm, tip.bend_per_mm)
        if place_of_collision(mesh, longer) is not None:
            continue
        tip.record["tube_mm"] = length_mm
        tip.record["volume_mm3"] -= longer.volume_mm3() - mesh.volume_mm3()
        mesh, where = longer, words_mm(np.array(tip.record["place_mm"]))
        log.info("end at %s: in place of its tip a tube of %.2f mm", where, length_mm)
    return mesh
