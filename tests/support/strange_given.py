# SPDX-License-Identifier: Apache-2.0
"""Masks and surfaces as strangers bring them, drawn at random: as files, with what a user knows of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import SimpleITK as sitk
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.files.mesh import Mesh
from pipeline.files.volume import Volume
from tests.pipeline.stages.test_import_surface import write
from tests.support.advice import Values
from tests.support.closed_vessels import closed, fan
from tests.support.shapes import joined, sphere
from tests.support.strange_images import Scene, scene
from tests.support.swept import arc, moved, swept
from tests.support.tubes import rotation

Drawn = tuple[Values, dict[str, Any]]
Random = np.random.Generator


# ---- masks as NIfTI --------------------------------------------------------------------------------------------------


def _masked(made: Scene, labels: NDArray[Any], folder: Path, flip: bool = False, **given: Any) -> Drawn:
    """A label map, flipped along x and y or not, and its case."""
    signs = np.array([-1, -1, 1] if flip else [1, 1, 1])
    image = Volume(labels, made.spacing_mm, tuple(made.rng.uniform(-90, 90, 3)), np.diag(signs).astype(float))
    sitk.WriteImage(image.to_sitk(), str(folder / "mask.nii.gz"))
    truth = {"true_ml": float(made.lumen.sum() * np.prod(made.spacing_mm) / 1000), "true_openings": made.cuts()}
    flow = {"inlets": {"*": {"flow_ml_s": round(0.15 * np.pi * made.radius_mm**2, 3)}}}
    case = {"input": {"mask": str(folder / "mask.nii.gz"), **given}, "solve": flow}
    return case, truth | {"words": {"radius_mm": made.radius_mm, "spacing_mm": made.spacing_mm}}


def _hard(made: Scene) -> NDArray[np.bool_]:
    """The lumen in whole voxels. What was drawn is what is meant: a mask of a thin fork has up to 4 % less than the
    vessel that it was drawn from.
    """
    mask = made.lumen >= 0.5
    made.lumen = mask.astype(float)
    return mask


def mask_label(rng: Random, folder: Path) -> Drawn:
    """A label of 2 to 255, flipped axes."""
    made = scene(rng)
    return _masked(made, _hard(made).astype(np.uint8) * int(rng.integers(2, 256)), folder, flip=True)


def mask_two(rng: Random, folder: Path) -> Drawn:
    """The lumen as label 1 and the wall around it as 2; the user chooses 1."""
    made = scene(rng)
    lumen = _hard(made)
    labels = lumen + 2 * (ndimage.binary_dilation(lumen, iterations=2) & ~lumen)
    return _masked(made, labels.astype(np.int16), folder, mask_segment=1)


def mask_float(rng: Random, folder: Path) -> Drawn:
    """Probabilities or parts from 0 to 1."""
    made = scene(rng)
    return _masked(made, made.lumen.astype(np.float32), folder)


def mask_float_label(rng: Random, folder: Path) -> Drawn:
    """0 and 1 as floating point."""
    made = scene(rng)
    return _masked(made, _hard(made).astype(np.float64), folder, flip=True)


def mask_holes(rng: Random, folder: Path) -> Drawn:
    """Cavities of one to some voxels, and specks."""
    made = scene(rng)
    mask = _hard(made)
    mask &= ~((rng.random(mask.shape) < 0.004) & ndimage.binary_erosion(mask, iterations=2))
    mask |= rng.random(mask.shape) < 0.00003
    return _masked(made, mask.astype(np.uint8), folder)


def mask_thick(rng: Random, folder: Path) -> Drawn:
    """Slices four times as thick as pixels, aslant."""
    radius = rng.uniform(3, 8)
    step = radius / rng.uniform(5, 8)
    made = scene(rng, radius=(radius, radius), spacing=(step, step, 4 * step), tilt=30)
    return _masked(made, _hard(made).astype(np.uint8), folder)


def mask_rough(rng: Random, folder: Path) -> Drawn:
    """Drawn by hand, slice by slice: the outline shakes by a voxel."""
    made = scene(rng)
    shake = ndimage.gaussian_filter(rng.normal(size=made.lumen.shape), (0, 1.5, 1.5))
    soft = ndimage.gaussian_filter(made.lumen, 0.5) + 0.35 * shake / shake.std() * (made.lumen < 0.97)
    mask = soft >= 0.5
    label, _ = ndimage.label(mask)
    mask = label == 1 + np.bincount(label.ravel())[1:].argmax()
    made.lumen = mask.astype(float)
    return _masked(made, mask.astype(np.uint8), folder)


def mask_cropped(rng: Random, folder: Path) -> Drawn:
    """Cropped to the vessel in all directions, as some programs save it."""
    made = scene(rng, forked=False)
    mask = _hard(made)
    return _masked(made, mask[ndimage.find_objects(mask.astype(int))[0]].astype(np.uint8), folder)


# ---- surfaces --------------------------------------------------------------------------------------------------------


def _tube(rng: Random) -> tuple[Mesh, float, int]:
    """A bent tube with caps, its mean radius, and corners around."""
    radius, around = rng.uniform(1, 10), int(rng.choice([16, 24, 32, 48]))
    length, bend = radius * rng.uniform(10, 18), rng.uniform(0.3, 1.8)
    rings = max(6, int(length * around / (2 * np.pi * radius)))
    width = radius * np.linspace(1, rng.uniform(0.7, 1), rings)
    mesh, _ = swept(arc(length / bend, bend, rings), width, around)
    return mesh, radius, around


def _wall(mesh: Mesh) -> Mesh:
    """Without its caps, whose middles are the last two points."""
    walls = mesh.triangles[mesh.opening == 0]
    return Mesh(mesh.points_mm[:-2], walls, np.zeros(len(walls), np.int8))


def _given(
    rng: Random, mesh: Mesh, folder: Path, volume_mm3: float, radius: float, kind: str = "stl", unit: str = "mm"
) -> Drawn:
    placed = moved(mesh, rotation(int(rng.integers(1 << 30))), rng.uniform(-60, 60, 3))
    path = write(placed, folder / "given", kind, unit, "LPS", said=False)
    flow = {"inlets": {"*": {"flow_ml_s": round(0.15 * np.pi * radius**2, 3)}}}
    case = {"input": {"surface": str(path), "surface_unit": unit}, "solve": flow}
    return case, {"true_ml": volume_mm3 / 1000, "true_openings": 2, "words": {"radius_mm": radius}}


def surface_unit(rng: Random, folder: Path) -> Drawn:
    """Open, in metres or cm, as any of the formats."""
    mesh, radius, _ = _tube(rng)
    kind, unit = str(rng.choice(["stl", "stl text", "vtp", "obj", "ply"])), str(rng.choice(["m", "cm"]))
    return _given(rng, _wall(mesh), folder, mesh.volume_mm3(), radius, kind, unit)


def surface_flipped(rng: Random, folder: Path) -> Drawn:
    """Open or closed, with all or some triangles turned."""
    mesh, radius, _ = _tube(rng)
    part = mesh if rng.random() < 0.5 else _wall(mesh)
    turned = rng.random(len(part.triangles)) < rng.choice([1.0, 0.3])
    triangles = np.where(turned[:, None], part.triangles[:, ::-1], part.triangles)
    flat = Mesh(part.points_mm, triangles, np.zeros(len(triangles), np.int8))
    return _given(rng, flat, folder, mesh.volume_mm3(), radius)


def surface_capped(rng: Random, folder: Path) -> Drawn:
    """Closed, without numbers of its faces."""
    mesh, radius, _ = _tube(rng)
    return _given(rng, mesh, folder, mesh.volume_mm3(), radius, str(rng.choice(["stl", "obj", "ply"])))


def surface_aslant(rng: Random, folder: Path) -> Drawn:
    """Open; the rims are not flat: points lie up to 0.02 to 0.5 radii off."""
    mesh, radius, around = _tube(rng)
    points, uneven = mesh.points_mm.copy(), rng.uniform(0.02, 0.5) * radius
    axis = points[around : 2 * around].mean(axis=0) - points[:around].mean(axis=0)
    phase = np.arange(around) * 2 * np.pi * int(rng.integers(2, 4)) / around
    points[:around] -= uneven * (1 + np.sin(phase))[:, None] / 2 * axis / np.linalg.norm(axis)
    wall = _wall(mesh)
    drawn = _given(rng, Mesh(points[:-2], wall.triangles, wall.opening), folder, mesh.volume_mm3(), radius)
    drawn[1]["words"]["uneven"] = uneven / radius
    return drawn


def surface_crossing(rng: Random, folder: Path) -> Drawn:
    """Open, with a dent that goes through the other wall, or some corners pushed through their neighbours."""
    mesh, radius, around = _tube(rng)
    points, wall = mesh.points_mm.copy(), _wall(mesh)
    row = int(rng.integers(3, len(points) // around - 3)) * around + int(rng.integers(around))
    middle = points[row // around * around : row // around * around + around].mean(axis=0)
    deep = rng.choice([rng.uniform(1.0, 1.8), rng.uniform(2.1, 2.6)])
    points[row] += deep * (middle - points[row])
    drawn = _given(rng, Mesh(points[:-2], wall.triangles, wall.opening), folder, mesh.volume_mm3(), radius)
    drawn[1]["words"]["deep"] = deep
    return drawn


def surface_shells(rng: Random, folder: Path) -> Drawn:
    """Closed, with a second shell: a ball outside of 1 to 20 % of the volume, or one within."""
    mesh, radius, around = _tube(rng)
    size = radius * rng.uniform(0.3, 0.7)
    ring = len(mesh.points_mm) // around // 2
    middle = mesh.points_mm[ring * around : (ring + 1) * around].mean(axis=0)
    inside = rng.random() < 0.5
    away = np.zeros(3) if inside else np.array([0, 0, 5 * radius])
    ball = sphere(size, tuple(middle + away), segments=24)
    whole = joined(mesh, ball)
    flat = Mesh(whole.points_mm, whole.triangles, np.zeros(len(whole.triangles), np.int8))
    drawn = _given(rng, flat, folder, mesh.volume_mm3(), radius)
    drawn[1]["words"] |= {"inside": bool(inside), "share": size**3 * 4.19 / mesh.volume_mm3()}
    return drawn


def surface_mixed(rng: Random, folder: Path) -> Drawn:
    """Closed, one end flat and one round: half an ellipsoid that is no vessel; both are meant to be open."""
    mesh, radius, around = _tube(rng)
    wall, points = _wall(mesh), mesh.points_mm[:-2]
    rims = [np.arange(around)[::-1], len(points) - around + np.arange(around)]
    middle = points[rims[1]].mean(axis=0)
    out = middle - points[rims[1] - around].mean(axis=0)
    out /= np.linalg.norm(out)
    high, steps = radius * rng.uniform(0.4, 1.0), max(3, around // 6)
    added, low, triangles = [], rims[1], []
    for k, t in enumerate(np.linspace(0, np.pi / 2, steps + 1)[1:-1]):
        added.append(middle + np.cos(t) * (points[rims[1]] - middle) + high * np.sin(t) * out)
        top = -1 - (k * around + np.arange(around))
        triangles += [
            np.stack([low, np.roll(low, -1), np.roll(top, -1)], 1),
            np.stack([low, np.roll(top, -1), top], 1),
        ]
        low = top
    corners = np.concatenate([*added, (middle + high * out)[None]])
    triangles.append(np.stack([low, np.roll(low, -1), np.full(around, -len(corners))], axis=1))
    whole = closed(
        points,
        wall.triangles,
        [fan(points, rims[0], points[rims[0]].mean(axis=0)), (corners, np.concatenate(triangles))],
    )
    return _given(rng, whole, folder, mesh.volume_mm3(), radius)


def surface_broken(rng: Random, folder: Path) -> Drawn:
    """Open, with holes of single triangles, triangles without area, doubled triangles and noise on the corners."""
    mesh, radius, _ = _tube(rng)
    wall = _wall(mesh)
    triangles = wall.triangles[rng.random(len(wall.triangles)) > 0.002]
    flat = triangles[rng.integers(len(triangles), size=5)].copy()
    flat[:, 2] = flat[:, 1]
    doubled = triangles[rng.integers(len(triangles), size=5)]
    triangles = np.concatenate([triangles, flat, doubled])
    points = wall.points_mm + rng.normal(0, 0.003 * radius, wall.points_mm.shape)
    return _given(rng, Mesh(points, triangles, np.zeros(len(triangles), np.int8)), folder, mesh.volume_mm3(), radius)


KINDS: dict[str, Callable[[Random, Path], Drawn]] = {
    "mask-cropped": mask_cropped,
    "mask-float": mask_float,
    "mask-float-label": mask_float_label,
    "mask-holes": mask_holes,
    "mask-label": mask_label,
    "mask-rough": mask_rough,
    "mask-thick": mask_thick,
    "mask-two": mask_two,
    "surface-aslant": surface_aslant,
    "surface-broken": surface_broken,
    "surface-capped": surface_capped,
    "surface-crossing": surface_crossing,
    "surface-flipped": surface_flipped,
    "surface-mixed": surface_mixed,
    "surface-shells": surface_shells,
    "surface-unit": surface_unit,
}
