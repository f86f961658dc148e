# SPDX-License-Identifier: Apache-2.0
"""Entry with a surface: a given surface of the lumen, checked, repaired, and capped where the vessel is open.

It takes the place of all stages up to surface. A surface that is open at its ends is closed there with flat caps. A
closed one with flat caps at sharp edges keeps these as openings. The ends of any other closed one are found and cut as
those of a segmented vessel are. The given triangles stay; only their longest edges are split where an end is cut.
What that takes off is told, and checked against the volume of the given surface.
"""

import logging
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.case.settings.base import parse
from pipeline.files.mesh import Mesh
from pipeline.files.surface_file import SurfaceFile, read_surface_file
from pipeline.geometry.branches.caps import MIRROR
from pipeline.geometry.branches.ends import name_openings
from pipeline.geometry.branches.openings import Cut
from pipeline.geometry.branches.picture import Scene
from pipeline.geometry.closed_surface import Surface, without_too_thin
from pipeline.geometry.given_ends import open_found_ends, open_other_caps, without_side_branches
from pipeline.geometry.given_openings import faces_by_name, made_even, openings_given, without_holes
from pipeline.geometry.given_surface import (
    ADVICE,
    MAX_NODES,
    GivenSurface,
    frame_of,
    outward,
    require_plausible,
    require_simple,
)
from pipeline.geometry.surface.clip import check_closed
from pipeline.geometry.surface.extension import extend_openings
from pipeline.geometry.surface.quality import triangle_quality
from pipeline.geometry.surface.repair import Repaired, repair, rims
from pipeline.geometry.surface.smooth_mesh import smooth_mesh
from pipeline.geometry.surface.union import united
from pipeline.geometry.surface.untangling import untangled
from pipeline.geometry.surface.volumes import asked_for, tell_volumes
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job


def import_surface(given: SurfaceFile, settings: GivenSurface, log: logging.Logger) -> Surface:
    """Make a closed surface with openings from a given one.

    Parameters
    ----------
    given : as read, in its own unit and axes.
    settings : unit, axes, and how ends are found and named.
    log : for what was done.

    Raises
    ------
    StageError
        If unit, axes, or the surface itself is doubtful, or it has fewer than two openings.
    """
    scene = Scene()
    with scene.on_refusal():
        return _import(given, settings, log, scene)


def _import(given: SurfaceFile, settings: GivenSurface, log: logging.Logger, scene: Scene) -> Surface:
    frame, named_by = frame_of(given, settings)
    points = require_plausible(given.points, settings.unit)
    if named_by == "assumed":
        log.info("the file does not name its axes, LPS is taken; else give input.surface_frame")
    points, triangles = points * MIRROR if frame == "RAS" else points, len(given.triangles)
    given, flat, pieces = _as_one(points, given, settings, log)
    repaired = repair(given.points, given.triangles)
    _tell_repairs(repaired, log)
    scene.mesh = Mesh(repaired.points, repaired.triangles, np.zeros(len(repaired.triangles), np.int8))
    loops = rims(repaired.points, repaired.triangles)
    closed, uneven = without_holes(repaired.points, repaired.triangles, loops, log, scene)
    whole = scene.mesh = outward(closed)
    even, made = made_even(whole, uneven, log)
    even, _ = made_even(even, flat, log, "the edges of the flat end at {} are round after the union")
    found_by, mesh, faces = openings_given(even, given, repaired.rows, settings, log)
    check_closed(mesh, ADVICE)
    mesh, crossings = _simple(mesh, settings.unit, scene, log)
    smoothed = scene.mesh = _smoothed(mesh, settings)
    mesh, sides = without_side_branches(smoothed, settings, log)
    if found_by == "cuts":
        ends = open_found_ends(mesh, settings, log, scene)
    else:
        ends = open_other_caps(mesh, found_by, settings, log)
    mesh, found_by = ends.mesh, ends.by
    log.info("%d openings by %s", int(mesh.opening.max()), found_by)
    openings = name_openings(mesh, settings, log)
    quality = {
        "source": "given surface",
        "unit": settings.unit,
        "frame": frame,
        "frame_named_by": named_by,
        "given_triangles": triangles,
        "united_mm3": pieces,
        **repaired.record,
        "wall_mm": repaired.wall_mm,
        "openings_by": found_by,
        "faces": faces_by_name(whole, faces, openings, log),
        "size_mm": [round(float(side), 3) for side in np.ptp(whole.points_mm, axis=0)],
        **crossings,
        "closed_ends": ends.closed,
        "round_ends": ends.may_be_sacs,
        "side_branches": sides,
        "given_volume_mm3": whole.volume_mm3(),
        "smoothing_mm3": smoothed.volume_mm3() - whole.volume_mm3(),
        "cut_ends": asked_for(ends.lost, settings.cut_off_mm),
        "rims_made_even": made,
    }
    cut_mm3 = mesh.volume_mm3()
    mesh, openings = extend_openings(mesh, openings, settings, log)
    quality |= {
        "extensions_mm3": mesh.volume_mm3() - cut_mm3,
        "volume_mm3": mesh.volume_mm3(),
        "area_mm2": float(np.linalg.norm(mesh.area_vectors_mm2(), axis=1).sum()),
        "before": triangle_quality(whole),
        "after": triangle_quality(mesh),
    }
    tell_volumes(quality, log)
    return Surface(mesh, openings, quality)


def _as_one(
    points: NDArray[np.float64], given: SurfaceFile, settings: GivenSurface, log: logging.Logger
) -> tuple[SurfaceFile, list[Cut], list[float]]:
    """The surface in mm and LPS, where it is to be cut behind flat ends, and the volume of each piece, mm3: where the
    settings ask for it, the surface of all that its pieces enclose, which has no faces.

    Parameters
    ----------
    points : of the given surface, mm, LPS.
    """
    if not settings.union:
        return replace(given, points=points), [], []
    if settings.face_array not in (None, "ignore"):
        raise StageError(
            f"input.surface_face_array = {settings.face_array}: with input.surface_union the surface is another one and"
            " has no faces; leave one of both out"
        )
    whole = united(points, given.triangles, MAX_NODES, log)
    ends = whole.ends if len(whole.ends) > 1 else []  # else all ends are found by the centreline
    return SurfaceFile(whole.mesh.points_mm, whole.mesh.triangles, "LPS"), ends, whole.pieces_mm3


def _tell_repairs(repaired: Repaired, log: logging.Logger) -> None:
    """Log what was repaired, and that a wall is taken for its lumen."""
    if any(count for key, count in repaired.record.items() if key.startswith("triangles_")) or (
        repaired.record["pieces"] > 1
    ):
        log.info(
            "repaired: %s", ", ".join(f"{key.replace('_', ' ')} {count}" for key, count in repaired.record.items())
        )
    if repaired.wall_mm:
        log.warning(
            "warning: the given surface is the wall of a vessel, about %.2g mm thick: its inner surface is taken",
            repaired.wall_mm,
        )


def _simple(mesh: Mesh, unit: str, scene: Scene, log: logging.Logger) -> tuple[Mesh, dict[str, Any]]:
    """A surface that does not pass through itself, and what its quality says of that."""
    mesh, pairs, moved = untangled(mesh)
    if moved:
        log.info(
            "repaired: %d pairs of triangles passed through each other; the %d vertices there moved towards the middle"
            " of their neighbours, at most %.2g mm",
            *moved.values(),
        )
    return mesh, {"overlap_fraction": require_simple(mesh, pairs, unit, scene), "untangled": moved}


def _smoothed(mesh: Mesh, settings: GivenSurface) -> Mesh:
    """The surface smoothed as the settings ask; by itself it stays as it is."""
    if settings.smoother in (None, "none"):
        return mesh
    if settings.smoother == "field":
        raise StageError(
            "surface.smoother = field: it smooths voxels, which a given surface has not; give windowed-sinc or taubin"
        )
    smooth = smooth_mesh(mesh, settings.smoother, settings.smoothing_mm)
    check_closed(smooth, "raise or lower surface.smoothing_mm, or give surface.smoother: none")
    return smooth


def _compute(job: Job) -> None:
    settings = parse(GivenSurface, job.settings, "--settings")
    surface = import_surface(read_surface_file(job.inputs["given"]), settings, job.log)
    without_too_thin(surface, settings, settings.lattice, job).write(job)


if __name__ == "__main__":
    run_stage(
        "import_surface",
        __doc__,
        {"given": "surface of the lumen: STL, VTP, OBJ or PLY"},
        {"surface": "closed triangle surface (VTP)", "openings": "openings and mesh quality (JSON)"},
        _compute,
    )
