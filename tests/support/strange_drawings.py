# SPDX-License-Identifier: Apache-2.0
"""Masks as annotators and programs save them, and surfaces with what else a file may hold, drawn at random: contours on
some slices alone, smoothed masks of 0 to 255, signed distances, walls, missing slices; quads, units, walls, holes.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import ndimage
from vtkmodules.util.numpy_support import numpy_to_vtk
from vtkmodules.vtkCommonCore import vtkPoints
from vtkmodules.vtkCommonDataModel import vtkCellArray, vtkPolyData
from vtkmodules.vtkIOPLY import vtkPLYWriter
from vtkmodules.vtkIOXML import vtkXMLPolyDataWriter

from pipeline.files.mesh import Mesh
from tests.support.strange_given import Drawn, Random, _given, _hard, _masked, _tube, _wall
from tests.support.strange_images import scene
from tests.support.swept import moved
from tests.support.tubes import rotation

# ---- masks -----------------------------------------------------------------------------------------------------------


def mask_every_other(rng: Random, folder: Path) -> Drawn:
    """Contours on every second to fifth slice alone, the slices between are empty."""
    made, every = scene(rng), int(rng.integers(2, 6))
    mask = _hard(made)
    openings, first = made.cuts(), int(rng.integers(every))
    drawn = np.zeros_like(mask)
    drawn[first::every] = mask[first::every]
    made.lumen[:first] = 0  # the vessel goes from the first contour to the last
    made.lumen[len(mask) - (len(mask) - 1 - first) % every :] = 0
    case, truth = _masked(made, drawn.astype(np.uint8), folder)
    truth["words"]["every"] = every
    return case, truth | {"true_openings": openings}


def mask_255(rng: Random, folder: Path) -> Drawn:
    """A smoothed mask, 8 bits of 0 to 255: how much of each voxel the lumen fills."""
    made = scene(rng)
    return _masked(made, np.rint(255 * made.lumen).astype(np.uint8), folder)


def mask_percent(rng: Random, folder: Path) -> Drawn:
    """Resampled by cubic splines, which overshoot, in floating point: 0 to 1, 100 or 255."""
    made = scene(rng)
    over = ndimage.shift(_hard(made).astype(float), rng.uniform(-0.5, 0.5, 3), order=3, mode="nearest")
    return _masked(made, (float(rng.choice([1, 100, 255])) * over).astype(np.float32), folder)


def mask_distance(rng: Random, folder: Path) -> Drawn:
    """Signed distances to the wall, mm, below 0 within: what a level set ends with."""
    made = scene(rng)
    mask = _hard(made)
    spacing = made.spacing_mm[::-1]
    away = ndimage.distance_transform_edt(~mask, sampling=spacing) - ndimage.distance_transform_edt(
        mask, sampling=spacing
    )
    return _masked(made, away.astype(np.float32), folder)


def mask_wall(rng: Random, folder: Path) -> Drawn:
    """The wall around the lumen, 1.5 to 3 voxels thick, is all that was segmented. The lumen is meant."""
    made = scene(rng)
    lumen = _hard(made)
    wall = ndimage.binary_dilation(lumen, iterations=int(rng.integers(2, 4))) & ~lumen
    return _masked(made, wall.astype(np.uint8), folder)


def mask_inverted(rng: Random, folder: Path) -> Drawn:
    """1 outside, 0 in the lumen."""
    made = scene(rng)
    return _masked(made, (~_hard(made)).astype(np.uint8), folder)


def mask_gap(rng: Random, folder: Path) -> Drawn:
    """One to three slices of the vessel are missing, where an annotator skipped them."""
    made = scene(rng, forked=False)
    mask = _hard(made)
    at, gone = int(rng.uniform(0.3, 0.7) * len(mask)), int(rng.integers(1, 4))
    drawn = mask.copy()
    drawn[at : at + gone] = False
    case, truth = _masked(made, drawn.astype(np.uint8), folder)
    truth["words"]["gone"] = gone
    return case, truth


# ---- surfaces --------------------------------------------------------------------------------------------------------


def _polydata(points: np.ndarray, faces: list[np.ndarray]) -> vtkPolyData:
    data, corners, cells = vtkPolyData(), vtkPoints(), vtkCellArray()
    corners.SetDataTypeToDouble()
    for point in points:
        corners.InsertNextPoint(*map(float, point))
    for face in faces:
        cells.InsertNextCell(len(face))
        for corner in face:
            cells.InsertCellPoint(int(corner))
    data.SetPoints(corners)
    data.SetPolys(cells)
    return data


def _quads(mesh: Mesh, around: int) -> list[np.ndarray]:
    """The wall of a swept tube as quads, ring by ring."""
    rings = (len(mesh.points_mm) - 2) // around
    low = np.arange(around)
    return [
        np.array(
            [k * around + i, k * around + (i + 1) % around, (k + 1) * around + (i + 1) % around, (k + 1) * around + i]
        )
        for k in range(rings - 1)
        for i in low
    ]


def surface_quads(rng: Random, folder: Path) -> Drawn:
    """Quads in place of triangles, as OBJ (with textures and normals, or counted from the end), VTP or PLY."""
    mesh, radius, around = _tube(rng)
    kind = str(rng.choice(["obj", "obj-back", "vtp", "ply"]))
    placed = moved(mesh, rotation(int(rng.integers(1 << 30))), rng.uniform(-60, 60, 3))
    case, truth = _given(rng, _wall(mesh), folder, mesh.volume_mm3(), radius)
    faces, points = _quads(mesh, around), placed.points_mm[:-2]
    path = folder / f"quads.{kind[:3]}"
    if kind.startswith("obj"):
        shift = -len(points) if kind == "obj-back" else 1
        tail = "" if kind == "obj-back" else "/1/1"
        lines = ["mtllib vessel.mtl", "o vessel", *("v {:.9g} {:.9g} {:.9g}".format(*p) for p in points)]
        lines += ["vt 0 0", "vn 0 0 1", "usemtl red", "s 1"]
        lines += ["f " + " ".join(f"{corner + shift}{tail}" for corner in face) for face in faces]
        path.write_text("\n".join(lines) + "\n")
    else:
        writer = vtkXMLPolyDataWriter() if kind == "vtp" else vtkPLYWriter()
        data = _polydata(points, faces)
        values = numpy_to_vtk(rng.normal(size=len(points)), deep=True)
        values.SetName("pressure")
        data.GetPointData().SetScalars(values)
        writer.SetFileName(str(path))
        writer.SetInputData(data)
        writer.Write()
    truth["words"]["kind"] = kind
    case["input"]["surface"] = str(path)
    return case, truth


def surface_no_unit(rng: Random, folder: Path) -> Drawn:
    """In metres or cm; the user takes it for mm, as most programs write that."""
    mesh, radius, _ = _tube(rng)
    case, truth = _given(rng, _wall(mesh), folder, mesh.volume_mm3(), radius, "stl", str(rng.choice(["m", "cm"])))
    case["input"]["surface_unit"] = "mm"
    return case, truth


def surface_printed(rng: Random, folder: Path) -> Drawn:
    """A model for printing: the inner and the outer wall, joined by rings at the ends, of 0.1 to 0.4 radii."""
    mesh, radius, around = _tube(rng)
    thick = rng.uniform(0.1, 0.4) * radius
    points = mesh.points_mm[:-2]
    rings = points.reshape(-1, around, 3)
    middles = rings.mean(axis=1, keepdims=True)
    away = rings - middles
    outer = (middles + away * (1 + thick / np.linalg.norm(away, axis=2, keepdims=True))).reshape(-1, 3)
    wall, count = _wall(mesh).triangles, len(points)
    low, high = np.arange(around), count - around + np.arange(around)

    def ring(rim: np.ndarray) -> np.ndarray:
        after = np.roll(rim, -1)
        return np.concatenate(
            [np.stack([rim, after, after + count], 1), np.stack([rim, after + count, rim + count], 1)]
        )

    triangles = np.concatenate([wall[:, ::-1], wall + count, ring(low), ring(high)[:, ::-1]])
    whole = Mesh(np.concatenate([points, outer]), triangles, np.zeros(len(triangles), np.int8))
    case, truth = _given(rng, whole, folder, mesh.volume_mm3(), radius)
    truth["words"]["thick"] = thick / radius
    return case, truth


def surface_one_end(rng: Random, folder: Path) -> Drawn:
    """One end open, the other closed by a flat cap."""
    mesh, radius, _ = _tube(rng)
    keep = mesh.opening != 2
    half = Mesh(mesh.points_mm, mesh.triangles[keep], np.zeros(int(keep.sum()), np.int8))
    return _given(rng, half, folder, mesh.volume_mm3(), radius, str(rng.choice(["stl", "obj", "ply"])))


def surface_hole(rng: Random, folder: Path) -> Drawn:
    """Closed by flat caps, with a hole in the wall, 0.2 to 0.6 radii wide, where triangles were lost."""
    mesh, radius, around = _tube(rng)
    row = int(rng.integers(2, len(mesh.points_mm) // around - 2)) * around + int(rng.integers(around))
    centres = mesh.centroids_mm()
    wide = rng.uniform(0.2, 0.6) * radius
    keep = np.linalg.norm(centres - mesh.points_mm[row], axis=1) > wide
    rest = Mesh(mesh.points_mm, mesh.triangles[keep], np.zeros(int(keep.sum()), np.int8))
    case, truth = _given(rng, rest, folder, mesh.volume_mm3(), radius)
    truth["words"]["wide"] = wide / radius
    return case, truth


KINDS: dict[str, Callable[[Random, Path], Drawn]] = {
    "mask-every-other": mask_every_other,
    "mask-255": mask_255,
    "mask-percent": mask_percent,
    "mask-distance": mask_distance,
    "mask-wall": mask_wall,
    "mask-inverted": mask_inverted,
    "mask-gap": mask_gap,
    "surface-quads": surface_quads,
    "surface-no-unit": surface_no_unit,
    "surface-printed": surface_printed,
    "surface-one-end": surface_one_end,
    "surface-hole": surface_hole,
}
