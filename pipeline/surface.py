"""Stage 4, surface: the lumen's smooth surface, with the open ends cut and capped.

The mask is smoothed into a field whose zero level is the wall, triangulated, and given the mask's volume. The open
ends are those of the vessel's centreline that are ends of tubes; each is cut perpendicular to the vessel and closed
with a flat cap. The surface leaves this stage closed, and every triangle knows whether it is wall or which cap.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pipeline.geometry.branches.centreline import Centreline, Ends, find_ends, trace_centreline
from pipeline.geometry.branches.closing import LatticeNeeds, close_too_thin
from pipeline.geometry.branches.openings import Cut, describe, place_cut, without_frayed_ends
from pipeline.geometry.branches.picture import Mark, Scene
from pipeline.geometry.branches.side_branches import SideBranch, choose_side_branches, without_side_branches
from pipeline.geometry.surface.clip import ClipError, check_closed, cut_end
from pipeline.geometry.surface.extension import extend_openings
from pipeline.geometry.surface.facets import Facets
from pipeline.geometry.surface.isosurface import (
    DEFAULT_SMOOTHING_VOXELS,
    LevelSet,
    fit,
    occupancy_surface,
    smooth_field,
    zero_surface,
)
from pipeline.geometry.surface.quality import triangle_quality
from pipeline.geometry.surface.remesh import Shape, remesh_vessel
from pipeline.geometry.surface.smooth_mesh import smooth_mesh
from pipeline.mesh import Mesh, words_mm, write_openings
from pipeline.settings.base import parse
from pipeline.settings.geometry import SurfaceSettings
from pipeline.volume import Volume
from solver.nodes import Opening
from solver.stage import Job, StageError, run_stage

MIN_RADIUS_VOXELS = 2.0
"""The image does not resolve thinner vessels."""
MAX_ANISOTROPY = 1.5
"""Largest ratio of the voxel's edges: with more, the surface has the steps of the slices."""
MASK_REMEDY = "resample finer with filter.spacing_mm, or let the mask reach further along the vessel"
"""Where fewer than two ends are open."""


@dataclass(frozen=True)
class Surface:
    """The closed surface and its openings.

    Attributes
    ----------
    mesh : closed, outward normals, caps tagged with the openings' ids.
    openings : in the order of their ids 1..n.
    quality : counts and figures of the triangles of the iso-surface, uncut and cut; what smoothing did to the volume;
        which ends of the vessel stay closed, and why.
    """

    mesh: Mesh
    openings: tuple[Opening, ...]
    quality: dict[str, Any]

    def write(self, job: Job) -> None:
        """Write the outputs ``surface`` and ``openings`` of a stage."""
        self.mesh.write(job.outputs["surface"])
        write_openings(self.openings, job.outputs["openings"], quality=self.quality)
        job.facts["openings"] = len(self.openings)


def extract_surface(lumen: Volume, settings: SurfaceSettings, log: logging.Logger) -> Surface:
    """Smooth surface of a lumen, with its ends cut and capped.

    Parameters
    ----------
    lumen : (Z, Y, X), part of each voxel that the lumen fills, 0 to 1, or a mask of 0 and 1; one component; (nearly)
        isotropic voxels in any orientation.
    settings : the case's section ``surface``.
    log : for progress and for what was decided about each end.

    Raises
    ------
    StageError
        If the mask is unfit, if fewer than two open ends are found, if they overlap or are not resolved, if settings
        contradict what is found, or if the surface is not closed in the end.
    """
    scene = Scene()
    with scene.on_refusal():
        return _extract(lumen, settings, log, scene)


def _extract(lumen: Volume, settings: SurfaceSettings, log: logging.Logger, scene: Scene) -> Surface:
    _demand_isotropic(lumen)
    least_mm = max(settings.min_radius_mm, MIN_RADIUS_VOXELS * max(lumen.spacing_mm))
    lumen, sides = _without_side_branches(lumen, settings, least_mm, log, scene)
    volume_mm3 = float(np.count_nonzero(lumen.voxels >= 0.5) * np.prod(lumen.spacing_mm))
    field = smooth_field(lumen, settings.smoothing_mm)
    raw = scene.mesh = zero_surface(field)
    check_closed(raw)
    log.info("iso-surface: %d triangles, %.1f mm3", len(raw.triangles), raw.volume_mm3())
    centreline, frayed = _trace(field, raw)
    found = find_ends(centreline, settings.min_branch_radii, least_mm, _at_border(lumen, centreline), frayed)
    scene.mark_ends(found)
    close_on_request(found, settings, MASK_REMEDY)
    mesh, field = fit(raw, field, volume_mm3)
    mesh, shape_of = smooth_wall(mesh, field, lumen, settings, volume_mm3)
    change = mesh.volume_mm3() / volume_mm3 - 1
    if abs(change) > settings.volume_tolerance:
        raise StageError(
            f"surface: smoothing changed the volume by {100 * change:+.2f} % of {volume_mm3:.1f} mm3, more than"
            f" surface.volume_tolerance = {settings.volume_tolerance:g}; lower surface.smoothing_mm,"
            " or resample finer with filter.spacing_mm"
        )
    whole, mesh = mesh, cut_ends(mesh, field, found, settings, least_mm, MASK_REMEDY, log, scene)
    mesh = remesh_vessel(mesh, shape_of(mesh), settings.edges_per_radius, max(lumen.spacing_mm))
    check_closed(mesh)
    openings = name_openings(mesh, settings, log)
    mesh, openings = extend_openings(mesh, openings, settings, log)
    quality = {
        "mask_volume_mm3": volume_mm3,
        "raw_volume_change": raw.volume_mm3() / volume_mm3 - 1,
        "volume_change": change,
        "volume_mm3": mesh.volume_mm3(),
        "closed_ends": closed_ends(found),
        "side_branches": [side.record(settings.side_branches.action) for side in sides],
        "before": triangle_quality(raw),
        "uncut": triangle_quality(whole),
        "after": triangle_quality(mesh),
    }
    return Surface(mesh, openings, quality)


def smooth_wall(
    fitted: Mesh, field: Volume, lumen: Volume, settings: SurfaceSettings, volume_mm3: float
) -> tuple[Mesh, Callable[[Mesh], Shape]]:
    """The whole surface as the smoother of the settings makes it, and its shape for what a cut leaves of it."""
    if settings.smoother is None or settings.smoother == "field":
        return fitted, lambda cut: LevelSet(field, cut)
    voxel_mm = max(lumen.spacing_mm)
    length_mm = settings.smoothing_mm or DEFAULT_SMOOTHING_VOXELS * voxel_mm
    wall = smooth_mesh(occupancy_surface(lumen), settings.smoother, length_mm, volume_mm3)
    check_closed(wall)
    mesh = remesh_vessel(wall, Facets(wall, wall), settings.edges_per_radius, voxel_mm)
    return mesh, lambda cut: Facets(wall, cut)


def _trace(field: Volume, surface: Mesh) -> tuple[Centreline, frozenset[int]]:
    """Centreline of what is positive in a field, and the rows at which it frays."""
    return without_frayed_ends(trace_centreline(field.with_voxels(field.voxels > 0), surface.points_mm))


def _without_side_branches(
    lumen: Volume, settings: SurfaceSettings, least_mm: float, log: logging.Logger, scene: Scene
) -> tuple[Volume, list[SideBranch]]:
    """The lumen without the side branches that the settings take out of it, and these."""
    if not settings.side_branches.limited:
        return lumen, []
    field = smooth_field(lumen, settings.smoothing_mm)
    raw = scene.mesh = zero_surface(field)
    centreline, frayed = _trace(field, raw)
    border = _at_border(lumen, centreline)

    def open_ends(rest: Centreline) -> int:
        return len(find_ends(rest, settings.min_branch_radii, least_mm, border, frayed).open)

    sides, rest = choose_side_branches(centreline, settings, open_ends, log)
    flat = settings.side_branches.action == "close"
    return (without_side_branches(lumen, raw.points_mm, sides, rest, flat) if sides else lumen), sides


def _demand_isotropic(lumen: Volume) -> None:
    if max(lumen.spacing_mm) > MAX_ANISOTROPY * min(lumen.spacing_mm):
        x, y, z = lumen.spacing_mm
        raise StageError(
            f"lumen: voxels of {x:g} x {y:g} x {z:g} mm, edges within a factor of {MAX_ANISOTROPY} are wanted;"
            " resample with filter.spacing_mm"
        )


def close_on_request(found: Ends, settings: SurfaceSettings, remedy: str) -> None:
    """Close the ends that the settings name; at least two must stay open."""
    for place in settings.closed_mm:
        if found.open:
            tips = found.centreline.points_mm[[end.rows[0] for end in found.open]]
            end = found.open.pop(int(np.argmin(np.linalg.norm(tips - np.array(place), axis=1))))
            found.closed[end.rows[0]] = "surface.closed_mm asks for it"
    _demand_two([found.centreline.points_mm[end.rows[0]] for end in found.open], found, settings, remedy)


def cut_ends(
    mesh: Mesh,
    field: Volume,
    found: Ends,
    settings: SurfaceSettings,
    least_mm: float,
    remedy: str,
    log: logging.Logger,
    scene: Scene,
) -> Mesh:
    """Cut and cap the open ends of a closed surface.

    Parameters
    ----------
    mesh : closed surface.
    field : positive in the lumen.
    found : its ends; those that cannot be cut are moved to the closed ones.
    settings : the case's section ``surface``.
    least_mm : least radius of a cut.
    remedy : what helps where fewer than two ends can be cut, for the message.
    log : for why ends stay closed.
    scene : gets the cuts and what is cut, for the picture of a refusal.

    Raises
    ------
    StageError
        If fewer than two ends can be cut, cuts overlap, or the surface is not closed in the end.
    """
    cuts = _place_cuts(field, found, settings, least_mm, remedy, scene)
    for row, why in found.closed.items():
        log.info("end at %s stays closed: %s", words_mm(found.centreline.points_mm[row]), why)
    for number, cut in enumerate(cuts, 1):
        mesh = scene.mesh = _cut(mesh, cut, number, cuts, scene)
    check_closed(mesh)
    return mesh


def name_openings(mesh: Mesh, settings: SurfaceSettings, log: logging.Logger) -> tuple[Opening, ...]:
    """Measure the caps of a mesh, give them the names and roles of the settings, and log them."""
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
    """Place of each end that stays closed, and why."""
    points = found.centreline.points_mm
    return [{"place_mm": points[row].tolist(), "why": why} for row, why in found.closed.items()]


def _place_cuts(
    field: Volume, found: Ends, settings: SurfaceSettings, least_mm: float, remedy: str, scene: Scene
) -> list[Cut]:
    """Cuts of the open ends, and what cannot be cut is closed."""
    cuts = []
    for end in list(found.open):
        cut = place_cut(field, found.centreline, end, settings.cut_radii, least_mm, settings.cut_roundness)
        if cut:
            cuts.append(cut)
        else:
            found.open.remove(end)
            why = f"no section is as large and round as those behind it, radius {end.end_radius_mm:.2f} mm"
            found.closed[end.rows[0]] = why
    scene.mark_ends(found)
    _demand_two([cut.centre_mm for cut in cuts], found, settings, remedy)
    return cuts


def _demand_two(places_mm: list[NDArray[np.float64]], found: Ends, settings: SurfaceSettings, remedy: str) -> None:
    if len(places_mm) < 2:
        open_at = "".join(f" at {words_mm(place)}" for place in places_mm)
        points = found.centreline.points_mm
        reasons = "".join(f"; at {words_mm(points[row])}: {why}" for row, why in found.closed.items())
        raise StageError(
            f"surface: {len(places_mm)} open ends found{open_at}, at least 2 are wanted{reasons}."
            f" Lower surface.min_branch_radii = {settings.min_branch_radii:g} if an end is missing because it is short,"
            f" surface.cut_radii = {settings.cut_radii:g} or surface.cut_roundness = {settings.cut_roundness:g} if no"
            f" section was round enough, {remedy}"
        )


def _at_border(lumen: Volume, centreline: Centreline) -> NDArray[np.bool_]:
    """Points whose ball reaches the border of the image, to a voxel and half a radius."""
    index = lumen.to_index(centreline.points_mm)
    size = np.array(lumen.voxels.shape[::-1])
    distance = np.minimum(index + 0.5, size - 0.5 - index) * lumen.spacing_mm
    return np.asarray(distance.min(axis=1) < 1.5 * centreline.radius_mm + max(lumen.spacing_mm))


def _cut(mesh: Mesh, cut: Cut, number: int, cuts: list[Cut], scene: Scene) -> Mesh:
    try:
        return cut_end(mesh, cut.centre_mm, cut.normal, number)
    except ClipError as error:
        scene.marks.append(Mark("fault", cut.centre_mm, f"cannot be cut: {error}"))
        others = [other for other in cuts if other is not cut]
        nearest = min(others, key=lambda other: float(np.linalg.norm(other.centre_mm - cut.centre_mm)))
        away = float(np.linalg.norm(nearest.centre_mm - cut.centre_mm))
        raise StageError(
            f"surface: the end at {words_mm(cut.centre_mm)} cannot be cut: {error}. The nearest other opening is"
            f" {away:.1f} mm away, at {words_mm(nearest.centre_mm)}: where two overlap, or a branch leaves within the"
            " cut, raise or lower surface.cut_radii so that the cut lies elsewhere; or keep the end closed with"
            f" surface.closed_mm: [[{', '.join(f'{x:.1f}' for x in cut.centre_mm)}]]"
        ) from None


class SurfaceStage(SurfaceSettings):
    """What the command line takes: the section ``surface``, and what voxelize will choose the spacing by."""

    lattice: LatticeNeeds | None = Field(None, description="none: the spacing is given, or side branches stay")


def without_too_thin(surface: Surface, settings: SurfaceSettings, needs: LatticeNeeds | None, job: Job) -> Surface:
    """The surface without branches that carry next to nothing and are too thin for the lattice."""
    if not needs:
        return surface
    mesh, records = close_too_thin(surface.mesh, surface.openings, settings, needs, job.log)
    if not records:
        return surface
    check_closed(mesh)
    quality = surface.quality | {"volume_mm3": mesh.volume_mm3(), "after": triangle_quality(mesh)}
    quality["side_branches"] = surface.quality["side_branches"] + records
    return Surface(mesh, name_openings(mesh, settings, job.log), quality)


def _compute(job: Job) -> None:
    settings = parse(SurfaceStage, job.settings, "--settings")
    surface = extract_surface(Volume.read(job.inputs["occupancy"]), settings, job.log)
    without_too_thin(surface, settings, settings.lattice, job).write(job)


if __name__ == "__main__":
    run_stage(
        "surface",
        __doc__,
        {"occupancy": "part of each voxel that the lumen fills, or a mask 0/1 (NRRD)"},
        {"surface": "closed triangle surface (VTP)", "openings": "openings and mesh quality (JSON)"},
        _compute,
    )
