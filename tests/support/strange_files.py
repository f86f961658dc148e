# SPDX-License-Identifier: Apache-2.0
"""More masks and surfaces as strangers bring them: as other programs write them, drawn at random."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from skimage.measure import marching_cubes
from vtkmodules.vtkFiltersCore import vtkQuadricDecimation

from pipeline.files.mesh import Mesh
from pipeline.geometry.surface.clip import open_edges
from tests.support.strange_given import Drawn, Random, _given, _hard, _masked, _tube
from tests.support.strange_images import scene


def mask_16(rng: Random, folder: Path) -> Drawn:
    """16 bits without a sign, 255 or 65535 in the lumen."""
    made = scene(rng)
    return _masked(made, _hard(made).astype(np.uint16) * int(rng.choice([255, 65535])), folder)


def mask_coarse(rng: Random, folder: Path) -> Drawn:
    """Slices of 3 to 5 mm with pixels of 0.5 to 0.8 mm, a vessel of 3 to 8 mm up to 35 degrees aslant: steps."""
    step = rng.uniform(0.5, 0.8)
    made = scene(rng, radius=(3, 8), spacing=(step, step, rng.uniform(3, 5)), tilt=35)
    return _masked(made, _hard(made).astype(np.uint8), folder, flip=bool(rng.random() < 0.5))


def mask_segments(rng: Random, folder: Path) -> Drawn:
    """A label for each of two or three parts of the vessel along it, as an atlas of arteries has."""
    made = scene(rng)
    mask, along = _hard(made), made.along()
    labels = mask * (1 + np.minimum((along * rng.integers(2, 4)).astype(int), 2))
    return _masked(made, labels.astype(np.uint8), folder)


def mask_speckled(rng: Random, folder: Path) -> Drawn:
    """Of a network or a noisy threshold: 3 to 10 % of the wall's voxels flipped, 2 % holes, islands of some voxels."""
    made = scene(rng)
    mask = _hard(made)
    flipped = rng.random(mask.shape) < rng.uniform(0.03, 0.1)
    skin = ndimage.binary_dilation(mask) & ~ndimage.binary_erosion(mask)
    mask = np.where(skin & flipped, ~mask, mask)
    mask &= ~((rng.random(mask.shape) < 0.02) & ndimage.binary_erosion(mask))
    islands = ndimage.binary_dilation(rng.random(mask.shape) < 0.00002, iterations=2)
    mask |= islands & ~ndimage.binary_dilation(mask, iterations=3)
    return _masked(made, mask.astype(np.uint8), folder)


def mask_within(rng: Random, folder: Path) -> Drawn:
    """A vessel that a user ended by planes within the image, aslant by up to 35 degrees."""
    made = scene(rng, forked=False)
    mask = _hard(made)
    for sign in (-1, 1):
        normal = np.array([*rng.uniform(-0.7, 0.7, 2), 1.0])
        place, _, _ = made.middle(float(rng.uniform(0.05, 0.15)) if sign < 0 else float(rng.uniform(0.85, 0.95)))
        mask &= sign * ((made.places - place) @ normal) < 0
    made.lumen = mask.astype(float)
    case, truth = _masked(made, mask.astype(np.uint8), folder)
    return case, truth | {"true_openings": 2}


def _surface(rng: Random, step: float) -> tuple[Mesh, float, float, int]:
    """The closed surface of a vessel or a fork as marching cubes give it, its true volume in mm3, radius, openings."""
    radius = float(rng.uniform(2, 8))
    made = scene(rng, radius=(radius, radius), spacing=(radius / step,) * 3)
    points, triangles, _, _ = marching_cubes(np.pad(made.lumen, 1), 0.5, spacing=made.spacing_mm[::-1])
    mesh = Mesh(points[:, ::-1].astype(float), triangles[:, ::-1].astype(np.int64), np.zeros(len(triangles), np.int8))
    if mesh.volume_mm3() < 0:
        mesh = Mesh(mesh.points_mm, mesh.triangles[:, ::-1].copy(), mesh.opening)
    return mesh, float(made.lumen.sum() * np.prod(made.spacing_mm)), radius, made.cuts()


def surface_dense(rng: Random, folder: Path) -> Drawn:
    """A million triangles or so, closed by flat caps."""
    mesh, volume, radius, openings = _surface(rng, rng.uniform(40, 50))
    case, truth = _given(rng, mesh, folder, volume, radius)
    return case, truth | {"true_openings": openings}


def surface_decimated(rng: Random, folder: Path) -> Drawn:
    """Closed by flat caps, some hundred triangles."""
    mesh, _, radius, openings = _surface(rng, rng.uniform(8, 12))
    filtered = vtkQuadricDecimation()
    filtered.SetInputData(mesh.to_vtk())
    filtered.SetTargetReduction(1 - rng.uniform(300, 900) / len(mesh.triangles))
    filtered.Update()
    few = Mesh.from_vtk(filtered.GetOutput())
    case, truth = _given(rng, few, folder, few.volume_mm3(), radius)
    truth["words"]["triangles"] = len(few.triangles)
    return case, truth | {"true_openings": openings}


def surface_jagged(rng: Random, folder: Path) -> Drawn:
    """Open where triangles were deleted: a zigzag rim, of one triangle's height, straight or aslant."""
    mesh, radius, _ = _tube(rng)
    centres = mesh.centroids_mm()
    keep = mesh.opening == 0
    for number in (1, 2):
        cap = mesh.triangles[mesh.opening == number]
        middle = mesh.points_mm[cap].mean(axis=(0, 1))
        normal = mesh.area_vectors_mm2()[mesh.opening == number].sum(axis=0)
        normal = normal / np.linalg.norm(normal) + rng.uniform(-0.3, 0.3, 3)
        normal /= np.linalg.norm(normal)
        near = np.linalg.norm(centres - middle, axis=1) < 3 * radius
        keep &= ~(near & ((centres - middle) @ normal > -rng.uniform(0.5, 1.0) * radius))
    wall = Mesh(mesh.points_mm, mesh.triangles[keep], np.zeros(int(keep.sum()), np.int8))
    volume = _closed_mm3(wall)
    return _given(rng, wall, folder, volume, radius)


def _closed_mm3(wall: Mesh) -> float:
    """Volume with each rim closed by a fan from its middle."""
    rim = open_edges(wall.triangles)[:, ::-1]
    parts: list[NDArray[np.int64]] = []
    points = wall.points_mm
    graph = coo_matrix((np.ones(len(rim)), (rim[:, 0], rim[:, 1])), shape=(len(points),) * 2)
    _, label = connected_components(graph, directed=False)
    for each in np.unique(label[rim[:, 0]]):
        mine = rim[label[rim[:, 0]] == each]
        points = np.concatenate([points, points[np.unique(mine)].mean(axis=0)[None]])
        parts.append(np.column_stack([mine, np.full(len(mine), len(points) - 1)]))
    whole = np.concatenate([wall.triangles, *parts])
    return Mesh(points, whole, np.zeros(len(whole), np.int8)).volume_mm3()


KINDS: dict[str, Callable[[Random, Path], Drawn]] = {
    "mask-16": mask_16,
    "mask-coarse": mask_coarse,
    "mask-segments": mask_segments,
    "mask-speckled": mask_speckled,
    "mask-within": mask_within,
    "surface-dense": surface_dense,
    "surface-decimated": surface_decimated,
    "surface-jagged": surface_jagged,
}
