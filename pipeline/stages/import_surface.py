"""Entry with a surface: a given surface of the lumen, checked, repaired, and capped where the vessel is open.

It takes the place of all stages up to surface. A surface that is open at its ends is closed there with flat caps. A
closed one with flat caps at sharp edges keeps these as openings. The ends of any other closed one are found and cut as
those of a segmented vessel are. The given triangles stay; only their longest edges are split where an end is cut.
"""

import logging
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from vtkmodules.vtkFiltersModeling import vtkAdaptiveSubdivisionFilter

from pipeline.case.settings.base import parse
from pipeline.files.mesh import Mesh, words_mm
from pipeline.files.surface_file import SurfaceFile, read_surface_file
from pipeline.files.volume import Volume
from pipeline.geometry.branches.centreline import Centreline, Ends, find_ends, trace_centreline
from pipeline.geometry.branches.ends import (
    MIN_RADIUS_VOXELS,
    Cutting,
    close_on_request,
    closed_ends,
    cut_ends,
    name_openings,
)
from pipeline.geometry.branches.openings import MIRROR, without_frayed_ends
from pipeline.geometry.branches.picture import Mark, Scene
from pipeline.geometry.branches.side_branches import SideBranch, choose_side_branches, close_flush
from pipeline.geometry.closed_surface import Surface, SurfaceStage, without_too_thin
from pipeline.geometry.lattice.crossings import winding
from pipeline.geometry.lattice.grid import choose_frame
from pipeline.geometry.surface.clip import ClipError, cap_of, check_closed, directed_edges
from pipeline.geometry.surface.extension import extend_openings
from pipeline.geometry.surface.intersections import self_intersections
from pipeline.geometry.surface.isosurface import smooth_field, zero_surface
from pipeline.geometry.surface.quality import triangle_quality
from pipeline.geometry.surface.repair import LEAST_RIM, flat_caps, flat_faces, repair, rims
from pipeline.geometry.surface.smooth_mesh import smooth_mesh
from pipeline.geometry.surface.thin import ThinPlaceError
from solver.domain.nodes import Opening
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job

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

FACE_ARRAYS = ("ModelFaceID", "CapID", "opening")
"""Arrays of faces that programs write: SimVascular both first ones, this one the last."""

MOST_SPOTS = 8
"""So many places where a surface passes through itself are named."""

MAX_OVERLAP = 1e-4
"""Part of the volume that may lie in the surface twice, or inside out."""

EDGES_PER_RADIUS = 2.5
"""At least so many edges on the radius of an end that is cut."""

REMEDY = "or open or cap the ends flat in the program that made the surface"
ADVICE = "remesh the surface in the program that made it"


class GivenSurface(SurfaceStage):
    """What the command line takes: the case's section ``surface``, and what the file does not tell."""

    unit: Literal["mm", "cm", "m", "um", "inch"] = Field(description="unit of the coordinates")
    frame: Literal["LPS", "RAS"] | None = Field(None, description="axes; none: what the file says, or else LPS")
    face_array: str | None = Field(None, description="array of faces whose flat ones are openings; ignore: none")


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
    frame, named_by = _frame(given, settings)
    points = _require_plausible(given.points, settings.unit)
    if named_by == "assumed":
        log.info("the file does not name its axes, LPS is taken; else give input.surface_frame")
    repaired = repair(points * MIRROR if frame == "RAS" else points, given.triangles)
    if any(repaired.record[key] for key in ("triangles_removed", "triangles_turned")) or repaired.record["pieces"] > 1:
        log.info(
            "repaired: %s", ", ".join(f"{key.replace('_', ' ')} {count}" for key, count in repaired.record.items())
        )
    scene.mesh = Mesh(repaired.points, repaired.triangles, np.zeros(len(repaired.triangles), np.int8))
    loops = rims(repaired.points, repaired.triangles)
    whole = scene.mesh = _outward(_without_holes(repaired.points, repaired.triangles, loops, log, scene))
    found_by, mesh, faces = _openings_given(whole, given, repaired.rows, settings, log)
    check_closed(mesh, ADVICE)
    overlap = _require_simple(mesh, settings.unit, scene)
    mesh = scene.mesh = _smoothed(mesh, settings)
    mesh, sides = _without_side_branches(mesh, settings, log)
    closed: list[dict[str, Any]] = []
    if found_by == "cuts":
        mesh, closed = _cut(mesh, settings, log, scene)
    log.info("%d openings by %s", int(mesh.opening.max()), found_by)
    openings = name_openings(mesh, settings, log)
    quality = {
        "source": "given surface",
        "unit": settings.unit,
        "frame": frame,
        "frame_named_by": named_by,
        "given_triangles": len(given.triangles),
        **repaired.record,
        "openings_by": found_by,
        "faces": _faces_by_name(whole, faces, openings, log),
        "size_mm": [round(float(side), 3) for side in np.ptp(whole.points_mm, axis=0)],
        "overlap_fraction": overlap,
        "closed_ends": closed,
        "side_branches": [side.record(settings.side_branches.action) for side in sides],
    }
    mesh, openings = extend_openings(mesh, openings, settings, log)
    quality |= {
        "volume_mm3": mesh.volume_mm3(),
        "area_mm2": float(np.linalg.norm(mesh.area_vectors_mm2(), axis=1).sum()),
        "before": triangle_quality(whole),
        "after": triangle_quality(mesh),
    }
    return Surface(mesh, openings, quality)


def _openings_given(
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
        return "rims", _closed_on_request(whole, settings, log), {}
    if name:
        numbers = given.faces[name][rows]
        hole = np.full(len(whole.triangles) - len(numbers), numbers.min() - 1)
        caps, wall = flat_faces(whole.points_mm, whole.triangles, np.concatenate([numbers, hole]))
        reasons = ", ".join(f"{number} {why}" for number, why in wall.items() if number >= numbers.min())
        if len(caps) >= 2:
            log.info("faces of %s: openings %s; wall: %s", name, ", ".join(map(str, caps)), reasons)
            return f"faces of {name}", _closed_on_request(_tagged(whole, list(caps.values())), settings, log), caps
        if settings.face_array:
            raise StageError(
                f"input.surface_face_array = {name}: {len(caps)} of its faces are flat caps, at least 2 are wanted:"
                f" {reasons}; give a face of its own to every end, or surface_face_array: ignore"
            )
        log.info("faces of %s are not used, %d of them are flat caps: %s", name, len(caps), reasons)
    if len(flat := flat_caps(whole.points_mm, whole.triangles)) >= 2:
        return "flat caps", _closed_on_request(_tagged(whole, flat), settings, log), {}
    return "cuts", whole, {}


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


def _faces_by_name(
    whole: Mesh, faces: dict[int, NDArray[np.int64]], openings: tuple[Opening, ...], log: logging.Logger
) -> dict[str, int]:
    """Number of the face that each opening was, by its name."""
    named = {}
    centroids = whole.points_mm[whole.triangles].mean(axis=1)
    areas = np.linalg.norm(whole.area_vectors_mm2(), axis=1)
    for number, rows in faces.items():
        middle = np.average(centroids[rows], axis=0, weights=areas[rows])
        nearest = min(openings, key=lambda each: float(np.linalg.norm(np.array(each.centre_mm) - middle)))
        if np.linalg.norm(np.array(nearest.centre_mm) - middle) < nearest.radius_mm:
            named[nearest.name] = number
            log.info("face %d is opening %d, %s", number, nearest.id, nearest.name)
    return named


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


def _without_side_branches(mesh: Mesh, settings: GivenSurface, log: logging.Logger) -> tuple[Mesh, list[SideBranch]]:
    """The surface with the side branches that the settings name cut off flush, and these."""
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
    return _renumbered(mesh) if mesh.opening.any() else mesh, sides


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


def _require_plausible(points: NDArray[np.float64], unit: str) -> NDArray[np.float64]:
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
    fits = {name: size * mm for name, mm in MM.items() if USUAL_MM[0] <= size * mm <= USUAL_MM[1]}
    likely = [f"input.surface_unit: {name} (in {name} {size_mm:.3g} mm)" for name, size_mm in fits.items()]
    advice = (
        f"by its size from corner to corner correct the unit, {' or '.join(likely)}"
        if likely
        else "correct the unit or the surface"
    )
    return f"input.surface_unit = {unit}: {what}, which no vessel is; {advice}"


def _outward(mesh: Mesh) -> Mesh:
    if mesh.volume_mm3() > 0:
        return mesh
    return Mesh(mesh.points_mm, mesh.triangles[:, ::-1].copy(), mesh.opening)


def _without_holes(
    points: NDArray[np.float64],
    triangles: NDArray[np.int64],
    loops: list[NDArray[np.int64]],
    log: logging.Logger,
    scene: Scene,
) -> Mesh:
    """Close all rims with flat caps: the holes of the mesh as wall, the ends of the vessel as openings 1, 2, ..."""
    radii = [_radius(points[loop]) for loop in loops]
    tags, number = np.zeros(len(triangles), np.int8), 0
    for loop, radius in zip(loops, radii, strict=True):
        hole = radius < HOLE * max(radii) or len(loop) < LEAST_RIM
        what = f"{'hole' if hole else 'open'} rim, radius {radius:.2f} mm"
        scene.marks.append(Mark("closed" if hole else "open", points[loop].mean(axis=0), what))
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
    return _renumbered(Mesh(mesh.points_mm, mesh.triangles, tags))


def _renumbered(mesh: Mesh) -> Mesh:
    """The openings numbered without gaps; there must be two."""
    numbers, renumbered = np.unique(np.append(mesh.opening, 0), return_inverse=True)
    if len(numbers) < 3:
        raise StageError(
            f"input.surface: {len(numbers) - 1} open ends, at least 2 are wanted; open or cap every inlet and outlet of"
            " the vessel flat in the program that made the surface, or shorten surface.closed_mm"
        )
    return Mesh(mesh.points_mm, mesh.triangles, renumbered[:-1].astype(np.int8))


def _require_simple(mesh: Mesh, unit: str, scene: Scene) -> float:
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
    pairs = self_intersections(mesh.points_mm, mesh.triangles)
    if len(pairs):
        places = mesh.points_mm[mesh.triangles[pairs]].mean(axis=(1, 2))
        spots = _spots(places, radius)
        scene.marks += [Mark("fault", spot, "the surface passes through itself") for spot in spots[:MOST_SPOTS]]
        raise StageError(
            f"input.surface: {len(pairs)} pairs of its triangles pass through each other, at {len(spots)} places:"
            f" {', '.join(words_mm(spot) for spot in spots[:MOST_SPOTS])}{', ...' if len(spots) > MOST_SPOTS else ''};"
            f" smooth or repair the surface there, or {ADVICE}"
        )
    return share


def _spots(places: NDArray[np.float64], apart_mm: float) -> list[NDArray[np.float64]]:
    """One of all places, (n, 3), that lie within a distance of it, the first ones first."""
    spots = []
    while len(places):
        spots.append(places[0])
        places = places[np.linalg.norm(places - places[0], axis=1) > apart_mm]
    return spots


def mean_radius_mm(mesh: Mesh) -> float:
    """Of a tube with that volume and area: 2 V / A."""
    return 2 * mesh.volume_mm3() / float(np.linalg.norm(mesh.area_vectors_mm2(), axis=1).sum())


def _finest_mm(mesh: Mesh) -> float:
    """Spacing at which the box of the surface holds as many voxels as the memory may."""
    return float((np.prod(np.ptp(mesh.points_mm, axis=0)) / MAX_NODES) ** (1 / 3))


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


def _cut(mesh: Mesh, settings: GivenSurface, log: logging.Logger, scene: Scene) -> tuple[Mesh, list[dict[str, Any]]]:
    """Find the ends of the vessel, and cut them off the given surface."""
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
    finest, spacing = _finest_mm(mesh), 2 * mean_radius_mm(mesh) / FIRST_ACROSS
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
