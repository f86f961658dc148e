"""Tessellation: closed triangle surfaces of the canonical shapes.

Flat walls are exact. Circles are polygons of the same area, and curved walls have so many triangles that no point of
them lies farther than `TOLERANCE` reference lengths from the true wall for each direction of curvature: a thousandth of
a spacing with 100 nodes across. A bifurcation, which has no formula, has its vertices on the wall and its triangles
within `FORK_TOLERANCE`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.case.shapes import (
    LAYERS,
    Bend,
    Bifurcation,
    BlockShape,
    Cavity,
    Channel,
    Duct,
    Geometry,
    Nozzle,
    Pipe,
    Shape,
    Sphere,
    Stenosis,
    Step,
)
from pipeline.case.vessel import smooth_union
from pipeline.files.mesh import Mesh
from pipeline.files.volume import Volume
from pipeline.geometry.lattice.frame import OFFSET
from pipeline.geometry.surface.clip import ClipError, axes_of_plane, cut_end
from pipeline.geometry.surface.isosurface import zero_surface
from solver.domain.nodes import Opening
from solver.runtime.errors import StageError

TOLERANCE = 1e-5
"""Largest distance of a curved wall's triangles from it, in reference lengths and for each direction of curvature."""

AROUND = 408
"""Corners of a circle: pi / sqrt(6 TOLERANCE), a multiple of 8. The polygon of the same area leaves the circle by at
most 2/3 of the sagitta (1 - cos(pi/n)) R."""

FACES = 96
"""Triangles along an edge of the icosahedron that a sphere is made from: about 0.36 / sqrt(TOLERANCE), less a sixth for
the volume, which is that of the sphere."""

CELLS = 32
"""Edges of triangles on a reference length where nothing curves, to have stresses there."""

BEYOND = 0.5
"""How far a surface reaches beyond a period, in reference lengths; and `SPACINGS_BEYOND` at least."""

SPACINGS_BEYOND = 3

FORK_CELLS, FORK_TOLERANCE = 40, 2.5e-4
"""Cells across the thinnest branch of the grid on which a fork is found, and how far its triangles leave the wall, in
diameters of the parent."""

RIM = 0.01
"""Width of the rim of a cavity's lid that stands still with the walls, in spacings. Diagonal links into the edges meet
it: as the lid's they would push fluid into one edge and draw it out of the other."""

BLOCK = 8
"""Points on a side of the blocks of that grid which are looked at closely or not."""

CAP_TOLERANCE = 0.01
"""Largest relative deviation of a daughter's end from its circle: more, and it lies in the rounding of the fork."""

Point = NDArray[np.float64]


@dataclass(frozen=True)
class Tessellated:
    """A shape's surface.

    Attributes
    ----------
    mesh : closed, outward.
    openings : in the order of their ids.
    anchor_mm : corner of the grid between whose planes nodes lie half-way, (x, y, z).
    low_mm, high_mm : ends of the period along the axes on which the shape repeats, of the box on others.
    """

    mesh: Mesh
    openings: tuple[Opening, ...]
    anchor_mm: Point
    low_mm: Point
    high_mm: Point


def tessellate(shape: Geometry, spacing_mm: float) -> Tessellated:
    """Surface of a shape.

    Parameters
    ----------
    shape : what is wanted.
    spacing_mm : of the lattice that is to come, on which depends how far a period is exceeded.

    Raises
    ------
    StageError
        If the branches of a fork are too short.
    """
    return MAKERS[type(shape)](shape, spacing_mm)


def _opening(shape: Shape, number: int, centre: Point, normal: Point, area_mm2: float) -> Opening:
    name, role = list(shape.roles.items())[number - 1]
    x, y, z = centre.tolist()
    along_x, along_y, along_z = normal.tolist()
    radius = float(np.sqrt(area_mm2 / np.pi))
    return Opening(number, name, role, (x, y, z), (along_x, along_y, along_z), area_mm2, radius)  # type: ignore[arg-type]


# shapes with flat walls: the boundary of some cells of a rectilinear grid


def _blocks(
    shape: Shape,
    spacing_mm: float,
    breaks: tuple[list[float], list[float], list[float]],
    filled: Callable[[Point], NDArray[np.bool_]],
    label: Callable[[Point, Point], tuple[NDArray[np.int8], NDArray[np.int8]]],
) -> Tessellated:
    """The cells between the breaks along x, y, z whose centres are filled, continued beyond the shape's periods.

    `label` tells opening and patch of faces from their centres and outward normals, both (F, 3).
    """
    low, high = np.array([axis[0] for axis in breaks]), np.array([axis[-1] for axis in breaks])
    beyond = max(BEYOND * shape.reference_mm, SPACINGS_BEYOND * spacing_mm)
    edges = [
        _cuts([axis[0] - beyond, *axis, axis[-1] + beyond] if repeats else axis, shape.reference_mm / CELLS)
        for axis, repeats in zip(breaks, shape.periodic, strict=True)
    ]
    centres = np.stack(np.meshgrid(*((e[1:] + e[:-1]) / 2 for e in edges), indexing="ij"), axis=-1)
    into = np.where(shape.periodic, np.clip(centres, low, high), centres)
    points, triangles, middles, normals = _boundary(filled(into), edges)
    opening, patch = label(middles, normals)
    mesh = Mesh(points, triangles, np.repeat(opening, 2), np.repeat(patch, 2))
    openings = []
    for number in range(1, len(shape.roles) + 1):
        inside = (mesh.opening == number) & _within(points[mesh.triangles].mean(axis=1), shape, low, high)
        vectors = mesh.area_vectors_mm2()[inside]
        area = float(np.linalg.norm(vectors.sum(axis=0)))
        weights = np.linalg.norm(vectors, axis=1) / area
        centre = weights @ points[mesh.triangles[inside]].mean(axis=1)
        openings.append(_opening(shape, number, centre, vectors.sum(axis=0) / area, area))
    return Tessellated(mesh, tuple(openings), low, low, high)


def _within(places: Point, shape: Shape, low: Point, high: Point) -> NDArray[np.bool_]:
    return np.asarray((~np.array(shape.periodic) | ((places > low) & (places < high))).all(axis=-1))


def _cuts(breaks: list[float], step: float) -> Point:
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


def _none(faces: NDArray[Any]) -> NDArray[np.int8]:
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


def _cavity(shape: Cavity, spacing_mm: float) -> Tessellated:
    rim = RIM * spacing_mm
    high = shape.length_mm, _width(shape, spacing_mm), shape.height
    along_x, along_y = ([0.0, rim, end - rim, end] for end in high[:2])
    breaks = along_x, [0.0, high[1]] if shape.periodic[1] else along_y, [0.0, high[2]]

    def label(places: Point, normals: Point) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        patch = _walls(shape, normals, "walls", "lid", "walls")
        walled = ~np.array(shape.periodic)[:2]
        outer = (np.minimum(places, np.array(high) - places)[:, :2] < rim)[:, walled].any(axis=1)
        patch[outer & (normals[:, 2] > 0)] = shape.patches.index("walls") + 1
        return _none(places), patch

    return _blocks(shape, spacing_mm, breaks, lambda places: np.full(places.shape[:-1], True), label)


def _ends(places: Point, low: float, high: float) -> NDArray[np.int8]:
    """Opening of faces by their place along x: 1 at the low end, 2 at the high one."""
    return np.where(places[:, 0] <= low, 1, np.where(places[:, 0] >= high, 2, 0)).astype(np.int8)


def _channel(shape: Channel, spacing_mm: float) -> Tessellated:
    length = shape.length_mm or LAYERS * spacing_mm
    breaks = [0.0, length], [0.0, _width(shape, spacing_mm)], [0.0, shape.height_mm]

    def label(places: Point, normals: Point) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        opening = _ends(places, 0, length) if shape.roles else _none(places)
        return opening, np.where(opening > 0, 0, _walls(shape, normals, "bottom", "top", "")).astype(np.int8)

    return _blocks(shape, spacing_mm, breaks, lambda places: np.full(places.shape[:-1], True), label)


def _step(shape: Step, spacing_mm: float) -> Tessellated:
    top = shape.step_mm * shape.expansion_ratio / (shape.expansion_ratio - 1)
    breaks = [-shape.inlet_mm, 0.0, shape.outlet_mm], [0.0, _width(shape, spacing_mm)], [0.0, shape.step_mm, top]

    def label(places: Point, normals: Point) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        opening = _ends(places, -shape.inlet_mm, shape.outlet_mm)
        return opening, np.where(opening > 0, 0, _walls(shape, normals, "floor", "top", "floor")).astype(np.int8)

    return _blocks(
        shape, spacing_mm, breaks, lambda places: (places[..., 0] > 0) | (places[..., 2] > shape.step_mm), label
    )


def _sphere(shape: Sphere, spacing_mm: float) -> Tessellated:
    half = np.array(shape.box_mm) / 2
    breaks = [-half[0], half[0]], [-half[1], half[1]], [-half[2], half[2]]
    patch = len(shape.patches) if shape.sides == "walls" else 0

    def label(places: Point, normals: Point) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        opening = _ends(places, -half[0], half[0]) if shape.roles else _none(places)
        return opening, np.where(opening > 0, 0, patch).astype(np.int8)

    box = _blocks(shape, spacing_mm, breaks, lambda places: np.full(places.shape[:-1], True), label)
    points, triangles = geodesic(shape.diameter_mm / 2)
    inner = Mesh(points, triangles[:, ::-1], _none(triangles), np.ones(len(triangles), np.int8))
    return replace(box, mesh=_together(box.mesh, inner))


def _together(first: Mesh, second: Mesh) -> Mesh:
    patches = [mesh.patch if mesh.patch is not None else _none(mesh.triangles) for mesh in (first, second)]
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
    volume = Mesh(points, triangles, _none(triangles)).volume_mm3()
    return points * radius_mm * np.cbrt(4 / 3 * np.pi / volume), triangles.astype(np.int64)


# round shapes: rings along a centreline


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
    openings = tuple(_opening(shape, number, centre, normal, area) for number, centre, normal in ends)
    far = unit * shape.length_mm
    low, high = np.minimum(far, 0.0), np.maximum(far, 0.0)
    return Tessellated(_tube(shape, rings, openings), openings, OFFSET * spacing_mm * shape.oblique, low, high)


def _pipe(shape: Pipe, spacing_mm: float) -> Tessellated:
    stations = _cuts([0.0, shape.length_mm], 2 * shape.diameter_mm / CELLS)
    return _straight(shape, spacing_mm, stations, lambda s: (np.full(len(s), shape.radius_mm), np.zeros((len(s), 3))))


def _stenosis(shape: Stenosis, spacing_mm: float) -> Tessellated:
    middle, half = shape.length_mm / 2, shape.throat_mm / 2
    deep = shape.radius_mm - shape.radius_at(np.zeros(1))[0]
    bend = (1 + shape.eccentricity) * deep * 2 * (np.pi / shape.throat_mm) ** 2
    fine = np.sqrt(8 * TOLERANCE * shape.diameter_mm / bend)
    coarse = 2 * shape.diameter_mm / CELLS
    stations = np.concatenate(
        (
            _cuts([0.0, middle - half], coarse)[:-1],
            _cuts([middle - half, middle + half], min(fine, coarse)),
            _cuts([middle + half, shape.length_mm], coarse)[1:],
        )
    )

    def ring_at(x: Point) -> tuple[Point, Point]:
        radius = shape.radius_at(x - middle)
        return radius, (shape.eccentricity * (shape.radius_mm - radius))[:, None] * shape.turn[:, 2]

    return _straight(shape, spacing_mm, stations, ring_at)


def _nozzle(shape: Nozzle, spacing_mm: float) -> Tessellated:
    unit, corners = shape.unit, shape.profile
    parts = [_between(a, b, shape.diameter_mm) for a, b in pairwise(corners)]
    along, radius = np.concatenate([corners[:1], *parts]).T
    widest = radius.max() / shape.radius_mm
    around = 8 * int(np.ceil(AROUND * np.sqrt(widest) / 8))  # chords of a wider tube are to be as near to its wall
    rings = along[:, None, None] * unit + radius[:, None, None] * (circle(around) @ axes_of_plane(unit).T)
    ends = np.outer(along[[0, -1]], unit)
    openings = tuple(
        _opening(shape, number, ends[k], side * unit, np.pi * radius[k] ** 2)
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


def _bend(shape: Bend, spacing_mm: float) -> Tessellated:
    radius, angle = shape.bend_radius_mm, np.radians(shape.angle_deg)
    fine = np.sqrt(8 * TOLERANCE * shape.diameter_mm / (radius + shape.radius_mm))
    turn = _cuts([0.0, angle], fine)
    coarse = 2 * shape.diameter_mm / CELLS
    before = _cuts([-shape.inlet_mm, 0.0], coarse)[:-1] if shape.inlet_mm else np.empty(0)
    behind = _cuts([0.0, shape.outlet_mm], coarse)[1:] if shape.outlet_mm else np.empty(0)
    turned = np.concatenate((np.zeros(len(before)), turn, np.full(len(behind), angle)))
    along = np.concatenate((before, np.zeros(len(turn)), behind))
    tangent = np.stack((np.cos(turned), np.zeros(len(turned)), np.sin(turned)), axis=1)
    inward = np.stack((-np.sin(turned), np.zeros(len(turned)), np.cos(turned)), axis=1)
    centres = radius * np.array((0.0, 0.0, 1.0)) - radius * inward + along[:, None] * tangent
    x, y = circle().T * shape.radius_mm
    rings = centres[:, None] + x[:, None] * np.array((0.0, 1.0, 0.0)) + y[:, None] * inward[:, None]
    rings, centres, tangent = (places @ shape.turn.T for places in (rings, centres, tangent))
    area = np.pi * shape.radius_mm**2
    openings = (_opening(shape, 1, centres[0], -tangent[0], area), _opening(shape, 2, centres[-1], tangent[-1], area))
    mesh = _tube(shape, rings, openings)
    first = np.abs(shape.unit) * (shape.angle_deg % 90 != 0)  # along the first axis alone, to keep the symmetry
    anchor = OFFSET * spacing_mm * (1 if shape.oblique else first)
    return Tessellated(mesh, openings, anchor, mesh.points_mm.min(axis=0), mesh.points_mm.max(axis=0))


# a fork: the surface on which a smooth function is zero


def fork_distance(shape: Bifurcation) -> Callable[[Point], NDArray[np.float64]]:
    """Distance to the wall of the endless branches, rounded where they meet, of points (N, 3): negative inside."""
    blend = shape.diameter_mm / 4 if shape.blend_mm is None else shape.blend_mm

    def distance(places: Point) -> NDArray[np.float64]:
        parts = []
        for direction, radius in zip(_directions(shape), _radii(shape), strict=True):
            along = np.maximum(places @ direction, 0.0)
            parts.append(np.linalg.norm(places - along[:, None] * direction, axis=1) - radius)
        return reduce(lambda a, b: smooth_union(a, b, blend), parts)

    return distance


def _directions(shape: Bifurcation) -> Point:
    """Of the parent and the daughters, away from the fork, (3, 3)."""
    first, second = (np.radians(daughter.angle_deg) for daughter in shape.daughters)
    return np.array(((-1, 0, 0), (np.cos(first), 0, np.sin(first)), (np.cos(second), 0, -np.sin(second))))


def _radii(shape: Bifurcation) -> Point:
    return np.array((shape.diameter_mm, *shape.daughter_diameters_mm)) / 2


def _bifurcation(shape: Bifurcation, spacing_mm: float) -> Tessellated:
    radii, directions, distance = _radii(shape), _directions(shape), fork_distance(shape)
    lengths = np.array((shape.length_mm, *(daughter.length_mm for daughter in shape.daughters)))
    step = 2 * radii.min() / FORK_CELLS
    reach = directions * (lengths + 2 * radii)[:, None]
    low, high = (np.concatenate((reach, np.zeros((1, 3)))) for _ in range(2))
    low, high = low.min(axis=0) - 2 * radii.max(), high.max(axis=0) + 2 * radii.max()
    axes = [np.arange(a, b, step) for a, b in zip(low, high, strict=True)]

    def inside(places: Point) -> NDArray[np.float64]:
        ends = lengths + radii - places @ directions.T  # cut off below
        return np.minimum(-distance(places), ends.min(axis=1))

    volume = Volume(_near_zero(inside, axes, step), (step,) * 3, tuple(low.tolist()), np.eye(3))
    found = zero_surface(volume)
    mesh = Mesh(_on_wall(found.points_mm, distance, lengths + radii / 2, directions), found.triangles, found.opening)
    openings = []
    for number, (direction, length, radius) in enumerate(zip(directions, lengths, radii, strict=True), 1):
        try:
            mesh = cut_end(mesh, direction * length, direction, number)
        except ClipError as error:
            raise StageError(f"input.geometry: {_too_short(shape, number)}: {error}") from None
        area = float(np.linalg.norm(mesh.area_vectors_mm2()[mesh.opening == number], axis=1).sum())
        if abs(area / (np.pi * radius**2) - 1) > CAP_TOLERANCE:
            raise StageError(f"input.geometry: {_too_short(shape, number)}: its end lies in the rounding of the fork")
        turned = shape.turn @ direction
        openings.append(_opening(shape, number, turned * length, turned, area))
    patch = np.where(mesh.opening > 0, 0, 1).astype(np.int8)
    mesh = replace(mesh, points_mm=mesh.points_mm @ shape.turn.T, patch=patch)
    anchor = OFFSET * spacing_mm * (1 if shape.oblique else np.abs(shape.unit))  # keeps the symmetry there is
    return Tessellated(mesh, tuple(openings), anchor, mesh.points_mm.min(axis=0), mesh.points_mm.max(axis=0))


def _near_zero(function: Callable[[Point], NDArray[np.float64]], axes: list[Point], step: float) -> NDArray[np.float32]:
    """A function on a grid along x, y, z, [z, y, x], exact where its zero may pass, and elsewhere by its sign.

    The function must change by no more than the distance, as distances do: only blocks of the grid are looked at
    closely in whose middle it is smaller than half their diagonal, and a cell more.

    Parameters
    ----------
    function : of places (N, 3).
    axes : places along x, y, z, `step` apart.
    """
    middles = [axis[::BLOCK] + (BLOCK - 1) / 2 * step for axis in axes]
    coarse = function(_places(middles)).reshape([len(axis) for axis in middles[::-1]])
    z, y, x = (np.arange(len(axis)) // BLOCK for axis in axes[::-1])
    values = coarse[np.ix_(z, y, x)].astype(np.float32)
    rows = np.nonzero(np.abs(values) < 3**0.5 * ((BLOCK - 1) / 2 + 1) * step)
    values[rows] = function(np.stack([axis[row] for axis, row in zip(axes, rows[::-1], strict=True)], axis=1))
    return values


def _places(axes: list[Point]) -> Point:
    """Points of a grid along x, y, z, (N, 3), x fastest."""
    z, y, x = np.meshgrid(*axes[::-1], indexing="ij")
    return np.stack((x, y, z), axis=-1).reshape(-1, 3)


def _too_short(shape: Bifurcation, number: int) -> str:
    name, length = list(zip(shape.roles, (shape.length_mm, *(d.length_mm for d in shape.daughters)), strict=True))[
        number - 1
    ]
    return f"the branch at {name} of length_mm {length:g} is too short; make it longer, or blend_mm smaller"


def _on_wall(
    points: Point, distance: Callable[[Point], NDArray[np.float64]], limits: Point, directions: Point
) -> Point:
    """The points moved onto the zero of the distance along its gradient, but for those at the rough ends."""
    moved = points.copy()
    rows = np.flatnonzero((points @ directions.T < limits).all(axis=1))
    step = 1e-5 * float(np.ptp(points[:, 0]))
    for _ in range(3):
        here = moved[rows]
        slope = np.stack(
            [(distance(here + step * axis) - distance(here - step * axis)) / (2 * step) for axis in np.eye(3)], 1
        )
        square = np.maximum((slope**2).sum(axis=1, keepdims=True), 0.1)
        moved[rows] -= distance(here)[:, None] * slope / square
    return moved


MAKERS: dict[type, Callable[..., Tessellated]] = {
    Cavity: _cavity,
    Channel: _channel,
    Duct: _channel,
    Step: _step,
    Pipe: _pipe,
    Stenosis: _stenosis,
    Nozzle: _nozzle,
    Bend: _bend,
    Bifurcation: _bifurcation,
    Sphere: _sphere,
}
"""Maker of each shape's surface."""
