# SPDX-License-Identifier: Apache-2.0
"""Surfaces of tubes and of a sphere."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pipeline.case.block_shapes import Shape
from pipeline.case.shapes import Bend, Nozzle, Pipe, Sphere, Stenosis
from pipeline.files.mesh import Mesh
from pipeline.geometry.lattice.frame import OFFSET
from pipeline.geometry.surface.clip import axes_of_plane
from pipeline.geometry.surface.flat_walls import (
    BEYOND,
    CELLS,
    SPACINGS_BEYOND,
    blocks,
    cuts,
    openings_at_ends,
    untagged,
)
from pipeline.geometry.surface.tessellated import Point, Tessellated, opening_of
from solver.domain.nodes import Opening

TOLERANCE = 1e-5
"""Largest distance of a curved wall's triangles from it, in reference lengths and for each direction of curvature."""

AROUND = 408
"""Corners of a circle: pi / sqrt(6 TOLERANCE), a multiple of 8. The polygon of the same area leaves the circle by at
most 2/3 of the sagitta (1 - cos(pi/n)) R."""

FACES = 96
"""Triangles along an edge of the icosahedron that a sphere is made from: about 0.36 / sqrt(TOLERANCE), less a sixth for
the volume, which is that of the sphere."""


def sphere_surface(shape: Sphere, spacing_mm: float) -> Tessellated:
    """A box without a sphere in its middle."""
    half = np.array(shape.box_mm) / 2
    breaks = [-half[0], half[0]], [-half[1], half[1]], [-half[2], half[2]]
    patch = len(shape.patches) if shape.sides == "walls" else 0

    def label(places: Point, normals: Point) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        opening = openings_at_ends(places, -half[0], half[0]) if shape.roles else untagged(places)
        return opening, np.where(opening > 0, 0, patch).astype(np.int8)

    box = blocks(shape, spacing_mm, breaks, lambda places: np.full(places.shape[:-1], True), label)
    points, triangles = geodesic(shape.diameter_mm / 2)
    inner = Mesh(points, triangles[:, ::-1], untagged(triangles), np.ones(len(triangles), np.int8))
    return replace(box, mesh=_together(box.mesh, inner))


def _together(first: Mesh, second: Mesh) -> Mesh:
    patches = [mesh.patch if mesh.patch is not None else untagged(mesh.triangles) for mesh in (first, second)]
    return Mesh(
        np.concatenate((first.points_mm, second.points_mm)),
        np.concatenate((first.triangles, second.triangles + len(first.points_mm))),
        np.concatenate((first.opening, second.opening)),
        np.concatenate(patches),
    )


def geodesic(radius_mm: float, faces: int = FACES) -> tuple[Point, NDArray[np.int64]]:
    """Points and outward triangles of a sphere about the origin: an icosahedron's faces divided, with its volume."""
    golden = (1 + 5**0.5) / 2
    signs = [(i, j) for i in (-1, 1) for j in (-1, 1)]
    corners = np.array([np.roll((0, i, j * golden), k) for k in range(3) for i, j in signs])
    near = np.isclose(np.linalg.norm(corners[:, None] - corners[None], axis=-1), 2)
    icosahedron = [
        (a, b, c) for a in range(12) for b in range(a) for c in range(b) if near[a, b] & near[b, c] & near[a, c]
    ]
    i, j = (index.ravel() for index in np.indices((faces + 1, faces + 1)))
    i, j = i[i + j <= faces], j[i + j <= faces]
    number = np.full((faces + 2, faces + 2), -1)
    number[i, j] = np.arange(len(i))
    up = np.stack([number[i, j], number[i + 1, j], number[i, j + 1]], axis=1)
    down = np.stack([number[i + 1, j], number[i + 1, j + 1], number[i, j + 1]], axis=1)
    local = np.concatenate([up[(up >= 0).all(axis=1)], down[(down >= 0).all(axis=1)]])
    weights = np.stack([faces - i - j, i, j], axis=1) / faces
    points = np.concatenate([weights @ corners[list(face)] for face in icosahedron])
    triangles = np.concatenate([local + k * len(weights) for k in range(20)])
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    _, first, rows = np.unique(np.rint(points * 1e8), axis=0, return_index=True, return_inverse=True)
    points, triangles = points[first], rows.reshape(-1)[triangles]
    a, b, c = (points[triangles[:, k]] for k in range(3))
    inward = np.einsum("ij,ij->i", np.cross(b - a, c - a), a) < 0
    triangles[inward] = triangles[inward][:, ::-1]
    volume = Mesh(points, triangles, untagged(triangles)).volume_mm3()
    return points * radius_mm * np.cbrt(4 / 3 * np.pi / volume), triangles.astype(np.int64)


def circle(corners: int = AROUND) -> NDArray[np.float64]:
    """Corners of the polygon that has the area of the unit circle, (corners, 2)."""
    angle = 2 * np.pi * np.arange(corners) / corners
    corner = np.sqrt(2 * np.pi / corners / np.sin(2 * np.pi / corners))
    return corner * np.stack((np.cos(angle), np.sin(angle)), axis=1)


def _tube(shape: Shape, rings: NDArray[np.float64], openings: tuple[Opening, ...]) -> Mesh:
    """Tube through rings, (K, corners, 3), that turn right-handed about its direction, with a flat fan at both ends."""
    count, around = rings.shape[:2]
    points = np.concatenate((rings.reshape(-1, 3), rings[[0, -1]].mean(axis=1)))
    k, j = (index.ravel() for index in np.indices((count - 1, around)))
    here, beside = k * around + j, k * around + (j + 1) % around
    ahead, across = here + around, beside + around
    side = np.concatenate((np.stack((here, beside, ahead), 1), np.stack((beside, across, ahead), 1)))
    j = np.arange(around)
    start = np.stack((np.full(around, count * around), (j + 1) % around, j), axis=1)
    end = np.stack((np.full(around, count * around + 1), j, (j + 1) % around), axis=1) + [0, 1, 1] * np.array(
        (count - 1) * around
    )
    tags = np.repeat([0, 1, 2], [len(side), around, around]).astype(np.int8)
    opening = tags if openings else np.zeros_like(tags)
    return Mesh(points, np.concatenate((side, start, end)), opening, np.where(opening > 0, 0, 1).astype(np.int8))


def _straight(
    shape: Pipe | Stenosis,
    spacing_mm: float,
    stations: Point,
    ring_at: Callable[[Point], tuple[Point, Point]],
) -> Tessellated:
    """Straight tube from the origin along the flow, with radii (K,) and centres (K, 3) at its stations, (K,)."""
    unit = shape.unit
    beyond = max(BEYOND * shape.reference_mm, SPACINGS_BEYOND * spacing_mm)
    if not shape.roles:
        stations = np.concatenate((stations[:1] - beyond, stations, stations[-1:] + beyond))
    radii, centres = ring_at(np.clip(stations, 0, shape.length_mm))
    centres = centres + stations[:, None] * unit
    rings = centres[:, None] + radii[:, None, None] * (circle() @ axes_of_plane(unit).T)[None]
    area = np.pi * shape.radius_mm**2
    ends = ((1, np.zeros(3), -unit), (2, unit * shape.length_mm, unit)) if shape.roles else ()
    openings = tuple(opening_of(shape, number, centre, normal, area) for number, centre, normal in ends)
    far = unit * shape.length_mm
    low, high = np.minimum(far, 0.0), np.maximum(far, 0.0)
    return Tessellated(_tube(shape, rings, openings), openings, OFFSET * spacing_mm * shape.oblique, low, high)


def pipe_surface(shape: Pipe, spacing_mm: float) -> Tessellated:
    """A tube of one radius."""
    stations = cuts([0.0, shape.length_mm], 2 * shape.diameter_mm / CELLS)
    return _straight(shape, spacing_mm, stations, lambda s: (np.full(len(s), shape.radius_mm), np.zeros((len(s), 3))))


def stenosis_surface(shape: Stenosis, spacing_mm: float) -> Tessellated:
    """A tube with a smooth narrowing in its middle."""
    middle, half = shape.length_mm / 2, shape.throat_mm / 2
    deep = shape.radius_mm - shape.radius_at(np.zeros(1))[0]
    bend = (1 + shape.eccentricity) * deep * 2 * (np.pi / shape.throat_mm) ** 2
    fine = np.sqrt(8 * TOLERANCE * shape.diameter_mm / bend)
    coarse = 2 * shape.diameter_mm / CELLS
    stations = np.concatenate(
        (
            cuts([0.0, middle - half], coarse)[:-1],
            cuts([middle - half, middle + half], min(fine, coarse)),
            cuts([middle + half, shape.length_mm], coarse)[1:],
        )
    )

    def ring_at(x: Point) -> tuple[Point, Point]:
        radius = shape.radius_at(x - middle)
        return radius, (shape.eccentricity * (shape.radius_mm - radius))[:, None] * shape.turn[:, 2]

    return _straight(shape, spacing_mm, stations, ring_at)


def nozzle_surface(shape: Nozzle, spacing_mm: float) -> Tessellated:
    """A tube whose radius goes along straight lines from corner to corner of its profile."""
    unit, corners = shape.unit, shape.profile
    parts = [_between(a, b, shape.diameter_mm) for a, b in pairwise(corners)]
    along, radius = np.concatenate([corners[:1], *parts]).T
    widest = radius.max() / shape.radius_mm
    around = 8 * int(np.ceil(AROUND * np.sqrt(widest) / 8))  # chords of a wider tube are to be as near to its wall
    rings = along[:, None, None] * unit + radius[:, None, None] * (circle(around) @ axes_of_plane(unit).T)
    ends = np.outer(along[[0, -1]], unit)
    openings = tuple(
        opening_of(shape, number, ends[k], side * unit, np.pi * radius[k] ** 2)
        for number, k, side in ((1, 0, -1), (2, -1, 1))
    )
    anchor = OFFSET * spacing_mm * shape.oblique
    return Tessellated(_tube(shape, rings, openings), openings, anchor, ends.min(axis=0), ends.max(axis=0))


def _between(a: Point, b: Point, reference_mm: float) -> Point:
    """Places and radii from one corner of a nozzle's wall to the next, (K, 2), without the first; none of no length.

    As far apart as the rings of a pipe as wide as the narrower end are, but the narrowest.
    """
    length, narrow = float(np.linalg.norm(b - a)), max(2 * min(a[1], b[1]), reference_mm)
    parts = int(np.ceil(length / (2 * narrow / CELLS) - 1e-9))
    return np.asarray(a + (b - a) * (np.arange(1, parts + 1) / max(parts, 1))[:, None])


def bend_surface(shape: Bend, spacing_mm: float) -> Tessellated:
    """A tube with a bend between two straight parts."""
    radius, angle = shape.bend_radius_mm, np.radians(shape.angle_deg)
    fine = np.sqrt(8 * TOLERANCE * shape.diameter_mm / (radius + shape.radius_mm))
    turn = cuts([0.0, angle], fine)
    coarse = 2 * shape.diameter_mm / CELLS
    before = cuts([-shape.inlet_mm, 0.0], coarse)[:-1] if shape.inlet_mm else np.empty(0)
    behind = cuts([0.0, shape.outlet_mm], coarse)[1:] if shape.outlet_mm else np.empty(0)
    turned = np.concatenate((np.zeros(len(before)), turn, np.full(len(behind), angle)))
    along = np.concatenate((before, np.zeros(len(turn)), behind))
    tangent = np.stack((np.cos(turned), np.zeros(len(turned)), np.sin(turned)), axis=1)
    inward = np.stack((-np.sin(turned), np.zeros(len(turned)), np.cos(turned)), axis=1)
    centres = radius * np.array((0.0, 0.0, 1.0)) - radius * inward + along[:, None] * tangent
    x, y = circle().T * shape.radius_mm
    rings = centres[:, None] + x[:, None] * np.array((0.0, 1.0, 0.0)) + y[:, None] * inward[:, None]
    rings, centres, tangent = (places @ shape.turn.T for places in (rings, centres, tangent))
    area = np.pi * shape.radius_mm**2
    openings = (
        opening_of(shape, 1, centres[0], -tangent[0], area),
        opening_of(shape, 2, centres[-1], tangent[-1], area),
    )
    mesh = _tube(shape, rings, openings)
    first = np.abs(shape.unit) * (shape.angle_deg % 90 != 0)  # along the first axis alone, to keep the symmetry
    anchor = OFFSET * spacing_mm * (1 if shape.oblique else first)
    return Tessellated(mesh, openings, anchor, mesh.points_mm.min(axis=0), mesh.points_mm.max(axis=0))
