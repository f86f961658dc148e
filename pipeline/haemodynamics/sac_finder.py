# SPDX-License-Identifier: Apache-2.0
"""Finds the sacs of aneurysms beside the vessel that they sit on, and the planes of their necks.

The parent is what balls along its lines fill (:mod:`parent`). With g the distance of a place on the wall from the
parent's line over the parent's radius there, the parent has g near 1, and a sac is a piece of wall with
g > 1 + `MARGIN` that reaches the factor of the user.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from pipeline.files.mesh import Mesh
from pipeline.geometry.surface.clip import axes_of_plane, directed_edges
from pipeline.haemodynamics.neck import NeckError, Section, Severed, section_around, sever
from pipeline.haemodynamics.parent import STEP, parent_lines, radius_near, ways_through
from solver.domain.nodes import Opening

Floats = NDArray[np.float64]

MARGIN = 0.1
"""Wall that is farther from the parent's line than 1 and this, in the parent's radii, is not the parent's."""
MIN_HEIGHT = 0.5
"""Of a sac above its neck, in the parent's radii."""
MAX_BEND = 0.35
"""A rim that leaves its plane by more than this part of its radius (root mean square) gives no plane to begin with."""
ONE_SIDED = 0.2
"""A piece of wall all round the vessel is a sac, and no fusiform widening, if the vessels enter it from one side: if
there is a direction against which each of their ways in runs by at least this cosine, seen from the piece's middle."""
STUB_LENGTH = 2.5
"""Of a blind vessel, in diameters of its mouth, above which it may be a branch and no sac, unless it widens."""
STUB_WIDTH = 1.3
"""Extent of a sac that widens, in diameters of its neck."""
SLENDER = 6.0
"""A/(pi w^2), w = 4 V/A the width, of a sac's volume V and wall A, above which it is a branch: a tube has its length
over its diameter, however it bends, a ball 2.25, two balls in touch 4.5, an ellipsoid of four to one 4.7."""
NEAR_RIM, SLIDE, SLIDE_STEP = 0.3, 0.75, 0.02
"""A plane clear of the parent is looked for so far from the rim's, and the narrowest section so far from that, and in
such steps, in the parent's radii."""
TILTS_DEG = (24.0, 12.0)
"""Where the rim gives no plane, planes are tilted so far, to eight sides, one after the other."""
SEARCH_STEP = 0.15
"""And moved in such steps, in the parent's radii."""


@dataclass(frozen=True)
class Refused:
    """A place wide enough for a sac that was taken for none.

    Attributes
    ----------
    place_mm : (3,), where it is widest.
    wideness : distance from the parent's line there, in the parent's radii.
    reason : why, in words.
    """

    place_mm: Floats
    wideness: float
    reason: str


@dataclass(frozen=True)
class Search:
    """What the search for sacs came to.

    Attributes
    ----------
    necks : of the sacs that were found, the largest wideness first.
    refused : places that are wide enough and no sacs, in the same order.
    widest : the largest wideness of any wall that is no part of a sac; none where no wall is left.
    """

    necks: list[Section]
    refused: list[Refused]
    widest: float | None


def _wideness(points_mm: Floats, lines: list[Floats]) -> Floats:
    """What the module calls g, (N,), of places: the least distance from a point of a parent's line over its radius."""
    least = np.full(len(points_mm), np.inf)
    for line in lines:
        distance, row = cKDTree(line[:, :3]).query(points_mm, k=min(len(line), int(2 / STEP)))
        least = np.minimum(least, (distance / line[row, 3]).min(axis=1))
    return least


def find_sacs(
    surface: Mesh,
    openings: Sequence[Opening],
    lines: Sequence[Floats],
    factor: float,
    taken: NDArray[np.bool_],
) -> Search:
    """The necks of the sacs of a vessel.

    A neck's plane fits the rim of the wall beyond the parent best, and is then moved along its normal, out of the
    parent, to where its section is clear of the parent. Where the rim gives no such plane, as at a bifurcation, it is
    the one clear of the parent beyond which lies most of the wall. From there it goes on or back to where the section
    is narrowest, if it is so nearby.

    Parameters
    ----------
    surface : closed surface.
    openings : of it.
    lines : of the centreline's branches, (n, 4): x, y, z and radius, mm.
    factor : a sac reaches farther from its parent's line than so many of the parent's radii.
    taken : (P,), vertices of sacs that are known.

    Raises
    ------
    NeckError
        If there is no centreline between openings.
    """
    ways = ways_through(lines, openings)
    if not ways:
        raise NeckError("there is no centreline between openings beside which a sac could be found")
    parents = parent_lines(ways)
    wide = _wideness(surface.points_mm, parents)
    pieces = sorted(_pieces(surface, wide), key=lambda piece: -float(wide[piece].max()))
    names = {opening.id: opening.name for opening in openings}
    necks: list[Section] = []
    refused: list[Refused] = []
    known = taken.copy()
    for piece in pieces:
        if wide[piece].max() <= factor or (piece & known).any():
            continue
        place = surface.points_mm[piece & (wide >= wide[piece].max())][0]
        try:
            neck = _neck_of(surface, piece, wide, parents)
            severed = sever(surface, neck, names)
            _require_not_slender(severed)
            known |= severed.vertices
            necks.append(neck)
            known |= piece
        except NeckError as doubt:
            refused.append(Refused(place, float(wide[piece].max()), str(doubt)))
    return Search(necks, refused, float(wide[~known].max()) if not known.all() else None)


def _pieces(surface: Mesh, wide: Floats) -> list[NDArray[np.bool_]]:
    """Connected pieces of wall beyond the parent, each (P,)."""
    beyond = wide > 1 + MARGIN
    beyond[surface.triangles[surface.opening > 0]] = False
    found, count = _connected(surface, beyond)
    return [found == k for k in range(count)]


def _connected(surface: Mesh, chosen: NDArray[np.bool_]) -> tuple[NDArray[np.int64], int]:
    """Number of the connected piece that each chosen vertex belongs to, (P,), -1 for the others; how many there are."""
    edges = directed_edges(surface.triangles)
    edges = edges[chosen[edges].all(axis=1)]
    graph = coo_array((np.ones(len(edges), np.int8), edges.T), shape=(len(chosen),) * 2)
    found = connected_components(graph, directed=False)[1]
    kept, numbers = np.unique(found[chosen], return_inverse=True)
    result = np.full(len(chosen), -1)
    result[chosen] = numbers
    return result, len(kept)


def _neck_of(surface: Mesh, piece: NDArray[np.bool_], wide: Floats, parents: list[Floats]) -> Section:
    """The neck of a piece of wall beyond the parent."""
    rest, _ = _connected(surface, ~piece)
    with_caps = np.unique(rest[surface.triangles[surface.opening > 0]])
    beyond = piece | ~np.isin(rest, with_caps)
    if len(with_caps) > 1:
        middle, normal = _one_sided(surface, beyond, rest, with_caps, parents)
        bend = radius = radius_near(middle, parents)
        clear = None
    else:
        rim = _rim(surface, beyond, wide)
        middle, normal, bend = _plane(rim)
        normal = normal * np.sign((surface.points_mm[beyond].mean(axis=0) - middle) @ normal)
        radius = radius_near(middle, parents)
        flat = bend < MAX_BEND * float(np.linalg.norm(rim - middle, axis=1).mean())
        ways_mm = np.arange(0, NEAR_RIM, SLIDE_STEP) * radius
        clear = _first_clear(surface, middle, normal, beyond, ways_mm) if flat else None
    if clear is None or not _severs(surface, clear[1]):
        starts = (normal, _away(surface.points_mm[beyond], parents))
        middle, normal, clear = _clear_plane(surface, beyond, middle, starts, radius, SLIDE * radius + bend)
    neck = _slid(surface, middle, normal, *clear, radius)
    neck = neck if _severs(surface, neck) else clear[1]
    _require_shape(surface.points_mm[beyond], neck, radius)
    return neck


def _away(points_mm: Floats, parents: list[Floats]) -> Floats:
    """Unit vector to the middle of points from the nearest of the parent's lines."""
    middle = points_mm.mean(axis=0)
    line = np.concatenate(parents)[:, :3]
    way = middle - line[np.linalg.norm(line - middle, axis=1).argmin()]
    return np.asarray(way / np.linalg.norm(way))


def _one_sided(
    surface: Mesh, piece: NDArray[np.bool_], rest: NDArray[np.int64], vessels: NDArray[np.int64], parents: list[Floats]
) -> tuple[Floats, Floats]:
    """Where the plane of a neck begins, and its normal, of a piece all round the vessel, which vessels enter.

    Raises
    ------
    NeckError
        If they do not enter it from one side.
    """
    points = surface.points_mm
    middle = (points[piece].min(axis=0) + points[piece].max(axis=0)) / 2
    edges = directed_edges(surface.triangles)
    edges = edges[piece[edges[:, 0]] & ~piece[edges[:, 1]]]
    ways = [points[edges[rest[edges[:, 1]] == vessel, 1]].mean(axis=0) - middle for vessel in vessels]
    ways = [way / np.linalg.norm(way) for way in ways]
    normal = -np.sum(ways, axis=0)
    size = float(np.linalg.norm(normal))
    if size < 1e-9 or max(float(way @ normal) / size for way in ways) > -ONE_SIDED:
        raise NeckError("the vessel is wider all round, as a fusiform aneurysm")
    line = np.concatenate(parents)[:, :3]
    return line[np.linalg.norm(line - middle, axis=1).argmin()], normal / size


def _rim(surface: Mesh, piece: NDArray[np.bool_], wide: Floats) -> Floats:
    """Places on the edges out of a piece where it ends, (k, 3)."""
    edges = directed_edges(surface.triangles)
    edges = edges[piece[edges[:, 0]] & ~piece[edges[:, 1]]]
    part = ((wide[edges[:, 0]] - 1 - MARGIN) / (wide[edges[:, 0]] - wide[edges[:, 1]])).clip(0, 1)[:, None]
    return np.asarray((1 - part) * surface.points_mm[edges[:, 0]] + part * surface.points_mm[edges[:, 1]])


def _require_shape(points_mm: Floats, neck: Section, radius: float) -> None:
    """Refuse what is too flat for a sac, or as long and even as a branch; of the piece's vertices, (n, 3)."""
    away = points_mm - neck.at_mm
    height, diameter = float((away @ neck.normal).max()), float(2 * np.sqrt(neck.area_mm2 / np.pi))
    if height < MIN_HEIGHT * radius:
        raise NeckError(f"it rises only {height:.2f} mm above its neck")
    across = 2 * float(np.linalg.norm(away - (away @ neck.normal)[:, None] * neck.normal, axis=1).max())
    if height > STUB_LENGTH * diameter and across < STUB_WIDTH * diameter:
        raise NeckError(
            f"it is {height:.1f} mm long and {diameter:.1f} mm wide at its mouth, as a branch that ends blind"
        )


def _require_not_slender(severed: Severed) -> None:
    """Refuse what is as slender as a branch that ends blind, wherever it bends to."""
    area = float(severed.shares_mm2.sum())
    width = 4 * severed.closed.volume_mm3() / area
    length = area / (np.pi * width)
    if length > SLENDER * width:
        raise NeckError(f"it is about {length:.1f} mm long and {width:.2g} mm wide, as a branch that ends blind")


def _plane(points: Floats) -> tuple[Floats, Floats, float]:
    """Mean, unit normal and root mean square distance of the plane that fits points best."""
    middle = points.mean(axis=0)
    _, spread, axes = np.linalg.svd(points - middle, full_matrices=False)
    return middle, axes[2], float(spread[2] / np.sqrt(len(points)))


def _clear_plane(
    surface: Mesh,
    piece: NDArray[np.bool_],
    middle: Floats,
    starts: Sequence[Floats],
    radius: float,
    reach_mm: float,
) -> tuple[Floats, Floats, tuple[float, Section]]:
    """Of the planes clear of the parent the one beyond which lies most of a piece's wall: found by tilting it, less and
    less, from some normals. A point of it, its normal, and the section with its distance from the point.

    Raises
    ------
    NeckError
        If no plane is clear of the parent.
    """
    triangles = np.linalg.norm(surface.area_vectors_mm2(), axis=1)
    wall = np.bincount(surface.triangles.ravel(), np.repeat(triangles / 3, 3), len(surface.points_mm)) * piece
    ways_mm = np.arange(-reach_mm, reach_mm, SEARCH_STEP * radius)
    best: tuple[float, Floats, tuple[float, Section]] | None = None
    for start in starts:
        here = start
        for angle in np.radians(TILTS_DEG):
            for normal in (here, *_tilted(here, angle)):
                if (clear := _first_clear(surface, middle, normal, piece, ways_mm)) is None:
                    continue
                taken = float(wall[(surface.points_mm - clear[1].at_mm) @ normal > 0].sum())
                if (best is None or taken > best[0]) and _severs(surface, clear[1]):
                    best = taken, normal, clear
            here = here if best is None else best[1]
    if best is None:
        raise NeckError("no plane parts it from the parent")
    return middle, best[1], best[2]


def _severs(surface: Mesh, section: Section) -> bool:
    try:
        sever(surface, section, {k: str(k) for k in np.unique(surface.opening).tolist()})
    except NeckError:
        return False
    return True


def _slid(surface: Mesh, middle: Floats, normal: Floats, along: float, first: Section, radius: float) -> Section:
    """The narrowest section near the first, if sections widen again behind it; else the first."""
    for way in (-1, 1):
        narrowest = first
        for k in range(1, int(SLIDE / SLIDE_STEP)):
            try:
                beside = section_around(surface, middle + (along + way * k * SLIDE_STEP * radius) * normal, normal)
            except NeckError:
                break
            if beside.area_mm2 < narrowest.area_mm2:
                narrowest = beside
            elif narrowest is not first:
                return narrowest
            else:
                break
    return first


def _first_clear(
    surface: Mesh, middle: Floats, normal: Floats, piece: NDArray[np.bool_], ways_mm: Floats
) -> tuple[float, Section] | None:
    """The first section at distances along the normal that lies in a piece of the wall only, and its distance."""
    for along in ways_mm:
        try:
            section = section_around(surface, middle + along * normal, normal)
        except NeckError:
            continue
        if piece[section.edges[:, 0]].all():
            return float(along), section
    return None


def _tilted(normal: Floats, angle: float) -> Floats:
    """Unit vectors at an angle to another one, to eight sides of it, (8, 3)."""
    axes = axes_of_plane(normal)
    turns = 2 * np.pi * np.arange(8) / 8
    around = np.outer(np.cos(turns), axes[:, 0]) + np.outer(np.sin(turns), axes[:, 1])
    return np.asarray(np.cos(angle) * normal + np.sin(angle) * around)
