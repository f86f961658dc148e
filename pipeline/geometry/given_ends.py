# SPDX-License-Identifier: Apache-2.0
"""Ends of a given surface that is closed: found in voxels as those of a segmented vessel are, and cut off."""

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
from vtkmodules.vtkFiltersModeling import vtkAdaptiveSubdivisionFilter

from pipeline.files.mesh import Mesh
from pipeline.files.volume import Volume
from pipeline.geometry.branches.centreline import Centreline, Ends, find_ends, trace_centreline
from pipeline.geometry.branches.ends import MIN_RADIUS_VOXELS, Cutting, close_on_request, closed_ends, cut_ends
from pipeline.geometry.branches.openings import without_frayed_ends
from pipeline.geometry.branches.picture import Scene
from pipeline.geometry.branches.side_branches import SideBranch, choose_side_branches, close_flush
from pipeline.geometry.given_openings import without_gaps
from pipeline.geometry.given_surface import ADVICE, FIRST_ACROSS, WANTED_RADII, GivenSurface, finest_mm, mean_radius_mm
from pipeline.geometry.lattice.crossings import winding
from pipeline.geometry.lattice.grid import choose_frame
from pipeline.geometry.surface.clip import ClipError, check_closed, directed_edges
from pipeline.geometry.surface.isosurface import smooth_field, zero_surface
from pipeline.geometry.surface.thin import ThinPlaceError
from solver.runtime.errors import StageError

MAX_ROUNDS, NEARLY = 4, 1.1
"""How often the voxels are made finer, and how much coarser than wanted will do."""

EDGES_PER_RADIUS = 2.5
"""At least so many edges on the radius of an end that is cut."""

REMEDY = "or open or cap the ends flat in the program that made the surface"


def without_side_branches(mesh: Mesh, settings: GivenSurface, log: logging.Logger) -> tuple[Mesh, list[SideBranch]]:
    """The surface with the side branches that the settings name cut off flush, and these.

    Parameters
    ----------
    mesh : closed, in mm.
    settings : limits in `side_branches`.
    log : gets what is found.

    Returns
    -------
    The surface, and what was cut off it.
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
    for side in sides:
        try:
            mesh = close_flush(_split(mesh, side.radius_mm / EDGES_PER_RADIUS), side, rest)
        except ClipError as error:
            raise StageError(
                f"surface.side_branches: the {side.words} cannot be cut off: {error}; cut it off in the program that"
                " made the surface, or change the limits so that it stays"
            ) from None
    check_closed(mesh, ADVICE)
    return without_gaps(mesh) if mesh.opening.any() else mesh, sides


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
        return find_ends(centreline, settings.min_branch_radii, settings.min_radius_mm, border, self.frayed)


def cut_found_ends(
    mesh: Mesh, settings: GivenSurface, log: logging.Logger, scene: Scene
) -> tuple[Mesh, list[dict[str, Any]]]:
    """Find the ends of the vessel, and cut them off the given surface.

    Parameters
    ----------
    mesh : closed, in mm, without openings.
    settings : by which ends are found and cut.
    log : gets what is found.
    scene : gets ends and cuts, for the picture of a refusal.

    Returns
    -------
    The surface with a cap at each end that was cut, and place and reason of each end that stays closed.
    """
    voxels = _resolved(mesh, settings, log)
    found = voxels.ends(voxels.centreline, settings)
    scene.mark_ends(found)
    close_on_request(found, settings, REMEDY)
    least = max(settings.min_radius_mm, MIN_RADIUS_VOXELS * voxels.spacing_mm)
    fine = _split(mesh, min(end.end_radius_mm for end in found.open) / EDGES_PER_RADIUS)
    cut, _, _ = cut_ends(fine, voxels.field, found, Cutting(settings, least, REMEDY), scene, log)
    return cut, closed_ends(found)


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


def _split(mesh: Mesh, edge_mm: float) -> Mesh:
    """The same surface with longer edges split."""
    edges = directed_edges(mesh.triangles)
    length = np.linalg.norm(mesh.points_mm[edges[:, 0]] - mesh.points_mm[edges[:, 1]], axis=1)
    if length.max() <= edge_mm:
        return mesh
    split = vtkAdaptiveSubdivisionFilter()
    split.SetInputData(mesh.to_vtk())
    split.SetMaximumEdgeLength(edge_mm)
    split.SetMaximumTriangleArea(float(np.linalg.norm(mesh.area_vectors_mm2(), axis=1).max()))
    split.Update()
    return Mesh.from_vtk(split.GetOutput())
