# SPDX-License-Identifier: Apache-2.0
"""A given surface of the lumen: its unit and axes, and whether it can be a vessel's."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import ndimage

from pipeline.files.mesh import Mesh, words_mm
from pipeline.files.surface_file import SurfaceFile
from pipeline.geometry.branches.picture import Mark, Scene
from pipeline.geometry.closed_surface import SurfaceStage
from pipeline.geometry.lattice.crossings import winding
from pipeline.geometry.lattice.grid import choose_frame
from pipeline.geometry.surface.repair import UNITE
from solver.runtime.errors import StageError

MM = {"um": 1e-3, "mm": 1.0, "cm": 10.0, "inch": 25.4, "m": 1000.0}

EXTENT_MM = (1.0, 3000.0)
"""Diagonal of the box of a vessel that is plausible: from an arteriole to all arteries of a body."""

USUAL_MM = (20.0, 600.0)
"""Diagonals by which a likelier unit is guessed."""

RADIUS_MM = (0.02, 40.0)
"""Mean radius, twice the volume over the area, that is plausible."""

MAX_NODES = 16_000_000
"""Voxels in which the surface is looked at, at most."""

FIRST_ACROSS, WANTED_RADII = 8.0, 4.0
"""Voxels across the mean diameter at first, and then as small as makes the thinnest end so many in radius."""

MOST_SPOTS = 8
"""So many places where a surface passes through itself are named."""

MAX_OVERLAP = 1e-4
"""Part of the volume that may lie in the surface twice, or inside out."""

ADVICE = "remesh the surface in the program that made it"


class GivenSurface(SurfaceStage):
    """What the command line takes: the case's section ``surface``, and what the file does not tell."""

    unit: Literal["mm", "cm", "m", "um", "inch"] = Field(description="unit of the coordinates")
    frame: Literal["LPS", "RAS"] | None = Field(None, description="axes; none: what the file says, or else LPS")
    face_array: str | None = Field(None, description="array of faces whose flat ones are openings; ignore: none")
    union: bool = Field(False, description="take all that the surface's pieces enclose together")


def frame_of(given: SurfaceFile, settings: GivenSurface) -> tuple[str, str]:
    """Axes of the coordinates, and who says so."""
    if given.frame and settings.frame and given.frame != settings.frame:
        raise StageError(
            f"input.surface_frame = {settings.frame}: the file says of itself SPACE={given.frame}; leave surface_frame"
            " out, or export the surface again"
        )
    if settings.frame:
        return settings.frame, "settings"
    return (given.frame, "file") if given.frame else ("LPS", "assumed")


def require_plausible(points: NDArray[np.float64], unit: str) -> NDArray[np.float64]:
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


def outward(mesh: Mesh) -> Mesh:
    """The surface with all triangles turned over where it is inside out."""
    if mesh.volume_mm3() > 0:
        return mesh
    return Mesh(mesh.points_mm, mesh.triangles[:, ::-1].copy(), mesh.opening)


def require_simple(mesh: Mesh, pairs: NDArray[np.int64], unit: str, scene: Scene) -> float:
    """Refuse a surface of a thickness that no vessel has, or that overlaps itself; the part of it that does.

    Where a surface overlaps itself it winds twice around what lies in it, where it is inside out not at all.

    Parameters
    ----------
    mesh : closed, in mm.
    pairs : of its triangles that pass through each other, (n, 2).
    unit : of the given coordinates, for the message.
    scene : gets a mark where the surface passes through itself.
    """
    radius = mean_radius_mm(mesh)
    if not RADIUS_MM[0] <= radius <= RADIUS_MM[1]:
        size = float(np.linalg.norm(np.ptp(mesh.points_mm, axis=0)))
        raise StageError(_wrong_unit(f"the mean radius would be {radius:.3g} mm", size / MM[unit], unit))
    frame = choose_frame(mesh, max(2 * radius / FIRST_ACROSS, finest_mm(mesh)))
    times = winding(mesh, frame)
    wrong = (times < 0) | (times > 1)
    share = float(np.count_nonzero(wrong)) / max(int(np.count_nonzero(times)), 1)
    if share > MAX_OVERLAP:
        depth = ndimage.distance_transform_edt(np.pad(wrong, 1))[1:-1, 1:-1, 1:-1]
        deepest = np.array(np.unravel_index(int(depth.argmax()), depth.shape))[::-1]
        spot = np.asarray(frame.origin_mm) + frame.spacing_mm * deepest
        scene.marks.append(Mark("fault", spot, "the surface overlaps itself"))
        raise StageError(
            f"input.surface: it overlaps itself or is inside out in {share:.2%} of its volume (limit"
            f" {MAX_OVERLAP:.2%}), most around {words_mm(spot)}. {UNITE}; otherwise {ADVICE}"
        )
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


def finest_mm(mesh: Mesh) -> float:
    """Spacing at which the box of the surface holds as many voxels as the memory may."""
    return float((np.prod(np.ptp(mesh.points_mm, axis=0)) / MAX_NODES) ** (1 / 3))
