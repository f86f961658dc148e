"""Entry with a surface: a given surface of the lumen, checked, mended, and capped where the vessel is open.

It takes the place of all stages up to surface. A surface that is open at its ends is closed there with flat caps. A
closed one with flat caps at sharp edges keeps these as openings. The ends of any other closed one are found and cut as
those of a segmented vessel are. The given triangles stay; only their longest edges are split where an end is cut.
"""

import logging
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from vtkmodules.vtkFiltersModeling import vtkAdaptiveSubdivisionFilter

from pipeline.case import SurfaceSettings, parse
from pipeline.geometry.centreline import Ends, find_ends, trace_centreline
from pipeline.geometry.clip import ClipError, cap_of, check_closed, directed_edges
from pipeline.geometry.crossings import winding
from pipeline.geometry.isosurface import smooth_field, zero_surface
from pipeline.geometry.mend import LEAST_RIM, flat_caps, mend, rims
from pipeline.geometry.quality import triangle_quality
from pipeline.geometry.surface_file import SurfaceFile, read_surface_file
from pipeline.mesh import Mesh, words_mm
from pipeline.surface import (
    MIN_RADIUS_VOXELS,
    Surface,
    close_on_request,
    closed_ends,
    cut_ends,
    name_openings,
)
from pipeline.volume import Volume
from pipeline.voxelize import choose_frame
from solver.stage import Job, StageError, run_stage

MM = {"um": 1e-3, "mm": 1.0, "cm": 10.0, "inch": 25.4, "m": 1000.0}

EXTENT_MM = (1.0, 3000.0)
"""Diagonal of the box of a vessel that is plausible: from an arteriole to all arteries of a body."""

USUAL_MM = (20.0, 600.0)
"""Diagonals by which a likelier unit is guessed."""

RADIUS_MM = (0.02, 40.0)
"""Mean radius, twice the volume over the area, that is plausible."""

PLANE, HOLE_PLANE = 0.1, 0.5
"""The rim of an end, and of a hole in the wall, may leave its plane by this part of its radius."""

HOLE = 0.1
"""A rim of less than this part of the largest rim's radius is a hole of the mesh, not an end of the vessel."""

MAX_NODES = 16_000_000
"""Voxels in which the surface is looked at, at most."""

FIRST_ACROSS, WANTED_RADII = 8.0, 4.0
"""Voxels across the mean diameter at first, and then as small as makes the thinnest end so many in radius."""

MAX_ROUNDS, NEARLY = 4, 1.1
"""How often the voxels are made finer, and how much coarser than wanted will do."""

MAX_OVERLAP = 1e-4
"""Part of the volume that may lie in the surface twice, or inside out."""

EDGES_PER_RADIUS = 2.5
"""At least so many edges on the radius of an end that is cut."""

REMEDY = "or open or cap the ends flat in the program that made the surface"
ADVICE = "remesh the surface in the program that made it"


class GivenSurface(SurfaceSettings):
    """What the command line takes: the case's section ``surface``, and what the file does not tell."""

    unit: Literal["mm", "cm", "m", "um", "inch"] = Field(description="unit of the coordinates")
    frame: Literal["LPS", "RAS"] | None = Field(None, description="axes; none: what the file says, or else LPS")


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
    frame, named_by = _frame(given, settings)
    points = _demand_plausible(given.points, settings.unit)
    if named_by == "assumed":
        log.info("the file does not name its axes, LPS is taken; else give input.surface_frame")
    mended = mend(points * [-1, -1, 1] if frame == "RAS" else points, given.triangles)
    if any(mended.record[key] for key in ("triangles_removed", "triangles_turned")) or mended.record["pieces"] > 1:
        log.info("mended: %s", ", ".join(f"{key.replace('_', ' ')} {count}" for key, count in mended.record.items()))
    loops = rims(mended.points, mended.triangles)
    whole = _outward(_without_holes(mended.points, mended.triangles, loops, log))
    closed: list[dict[str, Any]] = []
    if whole.opening.any():
        found_by, mesh = "rims", _closed_on_request(whole, settings, log)
    elif len(caps := flat_caps(whole.points_mm, whole.triangles)) >= 2:
        found_by, mesh = "flat caps", _closed_on_request(_tagged(whole, caps), settings, log)
    else:
        found_by, mesh = "cuts", whole
    check_closed(mesh, ADVICE)
    overlap = _demand_simple(mesh, settings.unit)
    if found_by == "cuts":
        mesh, closed = _cut(mesh, settings, log)
    log.info("%d openings by %s", int(mesh.opening.max()), found_by)
    openings = name_openings(mesh, settings, log)
    quality = {
        "source": "given surface",
        "unit": settings.unit,
        "frame": frame,
        "frame_named_by": named_by,
        "given_triangles": len(given.triangles),
        **mended.record,
        "openings_by": found_by,
        "size_mm": [round(float(side), 3) for side in np.ptp(whole.points_mm, axis=0)],
        "overlap_fraction": overlap,
        "volume_mm3": mesh.volume_mm3(),
        "area_mm2": float(np.linalg.norm(mesh.area_vectors_mm2(), axis=1).sum()),
        "closed_ends": closed,
        "before": triangle_quality(whole),
        "after": triangle_quality(mesh),
    }
    return Surface(mesh, openings, quality)


def _frame(given: SurfaceFile, settings: GivenSurface) -> tuple[str, str]:
    """Axes of the coordinates, and who says so."""
    if given.frame and settings.frame and given.frame != settings.frame:
        raise StageError(
            f"input.surface_frame = {settings.frame}: the file says of itself SPACE={given.frame}; leave surface_frame"
            " out, or export the surface again"
        )
    if settings.frame:
        return settings.frame, "settings"
    return (given.frame, "file") if given.frame else ("LPS", "assumed")


def _demand_plausible(points: NDArray[np.float64], unit: str) -> NDArray[np.float64]:
    """Points in mm.

    Raises
    ------
    StageError
        If they are not finite, or of a size that no vessel has.
    """
    if wrong := int((~np.isfinite(points)).any(axis=1).sum()):
        raise StageError(f"input.surface: {wrong} points are not finite; export the surface again")
    size = float(np.linalg.norm(np.ptp(points, axis=0)))
    if not EXTENT_MM[0] <= size * MM[unit] <= EXTENT_MM[1]:
        raise StageError(
            _wrong_unit(f"the surface would be {size * MM[unit]:.3g} mm from corner to corner", size, unit)
        )
    return points * MM[unit]


def _wrong_unit(what: str, size: float, unit: str) -> str:
    likely = [f"in {name} {size * mm:.3g} mm" for name, mm in MM.items() if USUAL_MM[0] <= size * mm <= USUAL_MM[1]]
    advice = (
        f"{' or '.join(likely)} from corner to corner: correct the unit"
        if likely
        else "correct the unit or the surface"
    )
    return f"input.surface_unit = {unit}: {what}, which no vessel is; {advice}"


def _outward(mesh: Mesh) -> Mesh:
    if mesh.volume_mm3() > 0:
        return mesh
    return Mesh(mesh.points_mm, mesh.triangles[:, ::-1].copy(), mesh.opening)


def _without_holes(
    points: NDArray[np.float64], triangles: NDArray[np.int64], loops: list[NDArray[np.int64]], log: logging.Logger
) -> Mesh:
    """Close all rims with flat caps: the holes of the mesh as wall, the ends of the vessel as openings 1, 2, ..."""
    radii = [_radius(points[loop]) for loop in loops]
    tags, number = np.zeros(len(triangles), np.int8), 0
    for loop, radius in zip(loops, radii, strict=True):
        hole = radius < HOLE * max(radii) or len(loop) < LEAST_RIM
        if hole:
            log.warning("warning: hole of radius %.2g mm at %s closed", radius, words_mm(points[loop].mean(axis=0)))
        number += not hole
        inside, cap = _cap(points[loop], radius, HOLE_PLANE if hole else PLANE)
        rows = np.concatenate([loop, len(points) + np.arange(len(inside))])
        points, triangles = np.concatenate([points, inside]), np.concatenate([triangles, rows[cap]])
        tags = np.concatenate([tags, np.full(len(cap), 0 if hole else number, np.int8)])
    return Mesh(points, triangles, tags)


def _radius(rim: NDArray[np.float64]) -> float:
    """Of the circle as long as the rim."""
    return float(np.linalg.norm(np.roll(rim, -1, axis=0) - rim, axis=1).sum() / (2 * np.pi))


def _cap(rim: NDArray[np.float64], radius: float, plane: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Flat cap of a rim, (m, 3): points inside it, and triangles over the rows of the rim and then those points."""
    middle = rim.mean(axis=0)
    vector = np.cross(rim - middle, np.roll(rim, -1, axis=0) - middle).sum(axis=0)
    normal = vector / max(float(np.linalg.norm(vector)), 1e-30)
    away = float(np.abs((rim - middle) @ normal).max())
    if away > plane * radius:
        raise StageError(
            f"input.surface: the rim at {words_mm(middle)}, of radius {radius:.2f} mm, leaves its plane by"
            f" {away:.2f} mm (limit {plane * radius:.2f} mm); cut that end flat in the program that made the surface"
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


def _closed_on_request(mesh: Mesh, settings: GivenSurface, log: logging.Logger) -> Mesh:
    """Make wall of the caps that the settings close; two openings at least must be left."""
    tags = mesh.opening.copy()
    centroids = mesh.points_mm[mesh.triangles].mean(axis=1)
    for place in settings.closed_mm:
        numbers = np.unique(tags[tags > 0])
        if not len(numbers):
            break
        middles = np.stack([centroids[tags == number].mean(axis=0) for number in numbers])
        nearest = int(np.argmin(np.linalg.norm(middles - np.array(place), axis=1)))
        log.info("end at %s stays closed: surface.closed_mm asks for it", words_mm(middles[nearest]))
        tags[tags == numbers[nearest]] = 0
    numbers, renumbered = np.unique(np.append(tags, 0), return_inverse=True)
    if len(numbers) < 3:
        raise StageError(
            f"input.surface: {len(numbers) - 1} open ends, at least 2 are wanted; open or cap every inlet and outlet of"
            " the vessel flat in the program that made the surface, or shorten surface.closed_mm"
        )
    return Mesh(mesh.points_mm, mesh.triangles, renumbered[:-1].astype(np.int8))


def _demand_simple(mesh: Mesh, unit: str) -> float:
    """Refuse a surface of a thickness that no vessel has, or that overlaps itself; the part of it that does.

    Where a surface overlaps itself it winds twice around what lies in it, where it is inside out not at all.
    """
    radius = mean_radius_mm(mesh)
    if not RADIUS_MM[0] <= radius <= RADIUS_MM[1]:
        size = float(np.linalg.norm(np.ptp(mesh.points_mm, axis=0)))
        raise StageError(_wrong_unit(f"the mean radius would be {radius:.3g} mm", size / MM[unit], unit))
    times = winding(mesh, choose_frame(mesh, max(2 * radius / FIRST_ACROSS, _finest_mm(mesh))))
    wrong = (times < 0) | (times > 1)
    share = float(np.count_nonzero(wrong)) / max(int(np.count_nonzero(times)), 1)
    if share > MAX_OVERLAP:
        raise StageError(
            f"input.surface: it overlaps itself or is inside out in {share:.2%} of its volume (limit"
            f" {MAX_OVERLAP:.2%}); join the parts into one surface (boolean union), or {ADVICE}"
        )
    return share


def mean_radius_mm(mesh: Mesh) -> float:
    """Of a tube with that volume and area: 2 V / A."""
    return 2 * mesh.volume_mm3() / float(np.linalg.norm(mesh.area_vectors_mm2(), axis=1).sum())


def _finest_mm(mesh: Mesh) -> float:
    """Spacing at which the box of the surface holds as many voxels as the memory may."""
    return float((np.prod(np.ptp(mesh.points_mm, axis=0)) / MAX_NODES) ** (1 / 3))


def _cut(mesh: Mesh, settings: GivenSurface, log: logging.Logger) -> tuple[Mesh, list[dict[str, Any]]]:
    """Find the ends of the vessel in voxels that resolve the thinnest of them, and cut them off the given surface."""
    finest, spacing = _finest_mm(mesh), 2 * mean_radius_mm(mesh) / FIRST_ACROSS
    for _ in range(MAX_ROUNDS):
        spacing = max(spacing, finest)
        field, found = _ends(mesh, spacing, settings)
        thin = min((end.end_radius_mm for end in found.open), default=np.inf)
        log.info("voxels of %.3g mm: %d open ends, the thinnest of radius %.3g mm", spacing, len(found.open), thin)
        if spacing <= max(NEARLY * thin / WANTED_RADII, finest):
            break
        spacing = thin / WANTED_RADII
    close_on_request(found, settings, REMEDY)
    least = max(settings.min_radius_mm, MIN_RADIUS_VOXELS * spacing)
    fine = _split(mesh, min(end.end_radius_mm for end in found.open) / EDGES_PER_RADIUS)
    return cut_ends(fine, field, found, settings, least, REMEDY, log), closed_ends(found)


def _ends(mesh: Mesh, spacing_mm: float, settings: GivenSurface) -> tuple[Volume, Ends]:
    """Smooth field of the surface, positive inside, and the ends of its centreline."""
    frame = choose_frame(mesh, spacing_mm)
    mask = Volume((winding(mesh, frame) > 0).view(np.uint8), (spacing_mm,) * 3, frame.origin_mm, np.eye(3))
    field = smooth_field(mask, None)
    centreline = trace_centreline(field.with_voxels(field.voxels > 0), zero_surface(field).points_mm)
    border = np.zeros(len(centreline.points_mm), bool)  # the surface is all there is
    return field, find_ends(centreline, settings.min_branch_radii, settings.min_radius_mm, border)


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


def _compute(job: Job) -> None:
    settings = parse(GivenSurface, job.settings, "--settings")
    import_surface(read_surface_file(job.inputs["given"]), settings, job.log).write(job)


if __name__ == "__main__":
    run_stage(
        "import_surface",
        __doc__,
        {"given": "surface of the lumen: STL, VTP, OBJ or PLY"},
        {"surface": "closed triangle surface (VTP)", "openings": "openings and mesh quality (JSON)"},
        _compute,
    )
