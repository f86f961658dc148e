# SPDX-License-Identifier: Apache-2.0
"""Surfaces of shapes with flat walls: the boundary of some cells of a rectilinear grid."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.case.block_shapes import LAYERS, BlockShape, Cavity, Channel, Shape, Step
from pipeline.files.mesh import Mesh
from pipeline.geometry.surface.tessellated import Point, Tessellated, opening_of

CELLS = 32
"""Edges of triangles on a reference length where nothing curves, to have stresses there."""

BEYOND = 0.5
"""How far a surface reaches beyond a period, in reference lengths; and `SPACINGS_BEYOND` at least."""

SPACINGS_BEYOND = 3

RIM = 0.01
"""Width of the rim of a cavity's lid that stands still with the walls, in spacings. Diagonal links into the edges meet
it: as the lid's they would push fluid into one edge and draw it out of the other."""


def blocks(
    shape: Shape,
    spacing_mm: float,
    breaks: tuple[list[float], list[float], list[float]],
    filled: Callable[[Point], NDArray[np.bool_]],
    label: Callable[[Point, Point], tuple[NDArray[np.int8], NDArray[np.int8]]],
) -> Tessellated:
    """The cells between the breaks along x, y, z whose centres are filled, continued beyond the shape's periods.

    `label` tells opening and patch of faces from their centres and outward normals, both (F, 3).

    Parameters
    ----------
    shape : whose openings and periods it has.
    spacing_mm : of the lattice that is to come.
    breaks : ascending coordinates along x, y, z, mm, between which a cell is filled or not as a whole.
    filled : tells which cells are, by their centres, (..., 3).
    label : tells opening and patch of faces from their centres and outward normals, both (F, 3).
    """
    low, high = np.array([axis[0] for axis in breaks]), np.array([axis[-1] for axis in breaks])
    beyond = max(BEYOND * shape.reference_mm, SPACINGS_BEYOND * spacing_mm)
    edges = [
        cuts([axis[0] - beyond, *axis, axis[-1] + beyond] if repeats else axis, shape.reference_mm / CELLS)
        for axis, repeats in zip(breaks, shape.periodic, strict=True)
    ]
    centres = np.stack(np.meshgrid(*((e[1:] + e[:-1]) / 2 for e in edges), indexing="ij"), axis=-1)
    into = np.where(shape.periodic, np.clip(centres, low, high), centres)
    points, triangles, middles, normals = _boundary(filled(into), edges)
    opening, patch = label(middles, normals)
    mesh = Mesh(points, triangles, np.repeat(opening, 2), np.repeat(patch, 2))
    openings, centroids = [], mesh.centroids_mm()
    for number in range(1, len(shape.roles) + 1):
        inside = (mesh.opening == number) & _within(centroids, shape, low, high)
        vectors = mesh.area_vectors_mm2()[inside]
        area = float(np.linalg.norm(vectors.sum(axis=0)))
        weights = np.linalg.norm(vectors, axis=1) / area
        centre = weights @ centroids[inside]
        openings.append(opening_of(shape, number, centre, vectors.sum(axis=0) / area, area))
    return Tessellated(mesh, tuple(openings), low, low, high)


def _within(places: Point, shape: Shape, low: Point, high: Point) -> NDArray[np.bool_]:
    return np.asarray((~np.array(shape.periodic) | ((places > low) & (places < high))).all(axis=-1))


def cuts(breaks: list[float], step: float) -> Point:
    """Coordinates from the first to the last of the breaks, all of them among these, at most a step apart."""
    parts = [np.linspace(a, b, int(np.ceil((b - a) / step - 1e-9)) + 1)[:-1] for a, b in pairwise(breaks)]
    return np.concatenate([*parts, breaks[-1:]])


def _boundary(filled: NDArray[np.bool_], edges: list[Point]) -> tuple[Point, NDArray[np.int64], Point, Point]:
    """Faces between filled cells and others: points, two triangles a face, and each face's centre and normal."""
    padded = np.pad(filled, 1).astype(np.int8)
    shape = np.array([len(axis) for axis in edges])
    corners, middles, normals = [], [], []
    for a in range(3):
        b, c = (a + 1) % 3, (a + 2) % 3
        step = np.diff(padded, axis=a)[tuple(slice(None) if axis == a else slice(1, -1) for axis in range(3))]
        for sign in (1, -1):
            face = np.argwhere(step == -sign)  # outward where the filled cell lies before
            quad = np.repeat(face[:, None], 4, axis=1)
            order = [(0, 0), (1, 0), (1, 1), (0, 1)][::sign]
            quad[..., b] += [i for i, _ in order]
            quad[..., c] += [j for _, j in order]
            corners.append(quad)
            normals.append(np.tile(np.eye(3)[a] * sign, (len(face), 1)))
    quads = np.concatenate(corners)
    places = np.stack([edges[axis][quads[..., axis]] for axis in range(3)], axis=-1)
    middles = places.mean(axis=1)
    used, rows = np.unique(np.ravel_multi_index(tuple(np.moveaxis(quads, -1, 0)), tuple(shape)), return_inverse=True)
    index = np.stack(np.unravel_index(used, tuple(shape)), axis=1)
    points = np.stack([edges[axis][index[:, axis]] for axis in range(3)], axis=1)
    triangles = rows.reshape(-1, 4)[:, [0, 1, 2, 0, 2, 3]].reshape(-1, 3)
    return points, triangles.astype(np.int64), middles, np.concatenate(normals)


def untagged(faces: NDArray[Any]) -> NDArray[np.int8]:
    """The tag 0 for each face."""
    return np.zeros(len(faces), np.int8)


def _width(shape: BlockShape, spacing_mm: float) -> float:
    return shape.width_mm or LAYERS * spacing_mm


def _walls(shape: BlockShape, normals: Point, below: str, above: str, others: str) -> NDArray[np.int8]:
    """Patch of each face by its normal: below and above, along y, and others."""
    names = np.full(len(normals), others, object)
    names[normals[:, 2] < 0], names[normals[:, 2] > 0] = below, above
    names[normals[:, 1] != 0] = "sides"
    numbers = {name: number for number, name in enumerate(shape.patches, 1)}
    return np.array([numbers.get(name, 0) for name in names], np.int8)


def cavity_surface(shape: Cavity, spacing_mm: float) -> Tessellated:
    """A box, whose lid slides; a rim of the lid stands still with the walls."""
    rim = RIM * spacing_mm
    high = shape.length_mm, _width(shape, spacing_mm), shape.height
    along_x, along_y = ([0.0, rim, end - rim, end] for end in high[:2])
    breaks = along_x, [0.0, high[1]] if shape.periodic[1] else along_y, [0.0, high[2]]

    def label(places: Point, normals: Point) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        patch = _walls(shape, normals, "walls", "lid", "walls")
        walled = ~np.array(shape.periodic)[:2]
        outer = (np.minimum(places, np.array(high) - places)[:, :2] < rim)[:, walled].any(axis=1)
        patch[outer & (normals[:, 2] > 0)] = shape.patches.index("walls") + 1
        return untagged(places), patch

    return blocks(shape, spacing_mm, breaks, lambda places: np.full(places.shape[:-1], True), label)


def openings_at_ends(places: Point, low: float, high: float) -> NDArray[np.int8]:
    """Opening of faces by their place along x: 1 at the low end, 2 at the high one.

    Parameters
    ----------
    places : (F, 3) centres of the faces, mm.
    low, high : ends along x, mm.
    """
    return np.where(places[:, 0] <= low, 1, np.where(places[:, 0] >= high, 2, 0)).astype(np.int8)


def channel_surface(shape: Channel, spacing_mm: float) -> Tessellated:
    """A channel between two walls, or a duct between four."""
    length = shape.length_mm or LAYERS * spacing_mm
    breaks = [0.0, length], [0.0, _width(shape, spacing_mm)], [0.0, shape.height_mm]

    def label(places: Point, normals: Point) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        opening = openings_at_ends(places, 0, length) if shape.roles else untagged(places)
        return opening, np.where(opening > 0, 0, _walls(shape, normals, "bottom", "top", "")).astype(np.int8)

    return blocks(shape, spacing_mm, breaks, lambda places: np.full(places.shape[:-1], True), label)


def step_surface(shape: Step, spacing_mm: float) -> Tessellated:
    """A channel that widens at a step."""
    top = shape.step_mm * shape.expansion_ratio / (shape.expansion_ratio - 1)
    breaks = [-shape.inlet_mm, 0.0, shape.outlet_mm], [0.0, _width(shape, spacing_mm)], [0.0, shape.step_mm, top]

    def label(places: Point, normals: Point) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        opening = openings_at_ends(places, -shape.inlet_mm, shape.outlet_mm)
        return opening, np.where(opening > 0, 0, _walls(shape, normals, "floor", "top", "floor")).astype(np.int8)

    return blocks(
        shape, spacing_mm, breaks, lambda places: (places[..., 0] > 0) | (places[..., 2] > shape.step_mm), label
    )
