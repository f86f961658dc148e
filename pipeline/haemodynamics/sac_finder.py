"""Finds the sac of an aneurysm beside the vessel that it sits on, and the plane of its neck.

The parent is what balls along the lines between openings fill. Their radius is that of the largest ball in the vessel,
but where the line or the ball leans into a sac, which it does over a few diameters at most, and where a branch that
ends blind draws the line aside: there line and radius are carried on from both sides. With g the distance of a place on
the wall from the parent's line over the parent's radius there, the parent has g near 1, and a sac is a piece of wall
with g > 1 + `MARGIN` that reaches the factor of the user.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicHermiteSpline
from scipy.ndimage import grey_opening, label
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from pipeline.geometry.branches.midline import arc_length
from pipeline.geometry.surface.clip import directed_edges
from pipeline.haemodynamics.neck import NeckError, Section, section_around
from pipeline.mesh import Mesh, words_mm
from solver.nodes import Opening

Floats = NDArray[np.float64]

STEP = 0.1
"""Distance of the points of the parent's line, in its radii."""
LEAN = 1.1
"""A line leans into a sac where its ball is wider than its surroundings by this factor."""
SURROUNDINGS = 8.0
"""A sac makes balls wider over less than this length, in the parent's radii."""
MARGIN = 0.1
"""Wall that is farther from the parent's line than 1 and this, in the parent's radii, is not the parent's."""
MIN_HEIGHT = 0.5
"""Of a sac above its neck, in the parent's radii."""
MAX_BEND = 0.35
"""A rim that leaves its plane by more than this part of its radius (root mean square) is no neck."""
NEAR_FORK = 1.0
"""A sac whose rim is nearer to a bifurcation than the radius there and this many of them is not told from the fork."""
STUB_LENGTH = 2.5
"""Of a blind vessel, in diameters of its mouth, above which it may be a branch and no sac, unless it widens."""
STUB_WIDTH = 1.3
"""Extent of a sac that widens, in diameters of its neck."""
SLIDE, SLIDE_STEP = 0.75, 0.02
"""A plane clear of the parent is looked for so far from the rim's, and the narrowest so far from that, and in such
steps, in the parent's radii."""


class Way(NamedTuple):
    """A line through which flow can pass, from opening or bifurcation to the next.

    Attributes
    ----------
    line : (n, 4): x, y, z and radius of the largest ball, mm.
    left_at : (m, 3), where branches that end blind leave it.
    """

    line: Floats
    left_at: Floats


def ways_through(lines: Sequence[Floats], openings: Sequence[Opening]) -> list[Way]:
    """The lines through which flow can pass: without those that end blind, and joined where only such leave them.

    Parameters
    ----------
    lines : one a branch, (n, 4): x, y, z and radius, mm; branches that meet share their last point.
    openings : of the vessel.
    """
    lines = [np.asarray(line, float) for line in lines]
    tips = np.array([line[k, :3] for line in lines for k in (0, -1)]).reshape(-1, 3)
    if not len(tips):
        return []
    pairs = cKDTree(tips).query_pairs(1e-4, output_type="ndarray")
    graph = coo_array((np.ones(len(pairs), np.int8), pairs.T), shape=(len(tips),) * 2)
    ends = connected_components(graph, directed=False)[1].reshape(-1, 2)
    open_ends = {
        int(end)
        for end, tip in zip(ends.ravel(), tips, strict=True)
        if any(np.linalg.norm(tip - np.asarray(o.centre_mm)) < o.radius_mm / 2 for o in openings)
    }
    kept = dict(enumerate(ends.tolist()))
    while blind := [
        k for k, pair in kept.items() if any(_meeting(kept, end) == 1 and end not in open_ends for end in pair)
    ]:
        for k in blind:
            del kept[k]
    ways = {k: Way(lines[k], np.empty((0, 3))) for k in kept}
    for joint in sorted({end for pair in kept.values() for end in pair} - open_ends):
        at = [k for k, pair in kept.items() if joint in pair]
        if len(at) == 2 and all(kept[k][0] != kept[k][1] for k in at):
            first, second = at
            one = ways[first].line[:: 1 if kept[first][1] == joint else -1]
            other = ways[second].line[:: 1 if kept[second][0] == joint else -1]
            left_at = np.concatenate([ways[first].left_at, ways[second].left_at, one[-1:, :3]])
            ways[first] = Way(np.concatenate([one, other[1:]]), left_at)
            kept[first] = [sum(kept[first]) - joint, sum(kept[second]) - joint]
            del kept[second], ways[second]
    return list(ways.values())


def _meeting(kept: dict[int, list[int]], end: int) -> int:
    return sum(pair.count(end) for pair in kept.values())


def parent_line(way: Way) -> Floats:
    """The line of the parent with its radius, (n, 4), points `STEP` radii apart.

    Its radius is opened, as in mathematical morphology: the largest function below it without a peak that is shorter
    than `SURROUNDINGS`. Where the ball is wider than that by `LEAN`, or a blind branch leaves within a radius, places
    lie on a cubic, and radii on a straight line, between both sides.
    """
    arc, typical = arc_length(way.line[:, :3]), float(np.median(way.line[:, 3]))
    fine = np.linspace(0, arc[-1], max(int(arc[-1] / (STEP * typical)), 8) + 1)
    line = np.column_stack([np.interp(fine, arc, way.line[:, k]) for k in range(4)])
    window = min(2 * int(SURROUNDINGS / STEP / 2) + 1, 2 * (len(fine) // 3) + 1)
    opened = grey_opening(line[:, 3], window, mode="nearest")
    leans = line[:, 3] > LEAN * opened
    for place in way.left_at:
        at = arc[int(np.linalg.norm(way.line[:, :3] - place, axis=1).argmin())]
        leans |= np.abs(fine - at) < typical
    bumps, count = label(leans)
    for k in range(1, count + 1):
        rows = np.flatnonzero(bumps == k)
        first, last = max(rows[0] - int(1 / STEP), 0), min(rows[-1] + int(1 / STEP), len(fine) - 1)
        line[first : last + 1] = _carried_on(fine, line, first, last)
    line[:, 3] = np.minimum(line[:, 3], LEAN * opened)
    return line


def _carried_on(fine: Floats, line: Floats, first: int, last: int) -> Floats:
    """Points and radii between two rows of a line, from the places and slopes beside them; straight from its end."""
    reach = int(1 / STEP)
    outer = [max(first - reach, 0), min(last + reach, len(line) - 1)]
    slopes = np.stack(
        [
            (line[row, :3] - line[far, :3]) / (fine[row] - fine[far]) if row != far else np.zeros(3)
            for row, far in zip((first, last), outer, strict=True)
        ]
    )
    chord = (line[last, :3] - line[first, :3]) / (fine[last] - fine[first])
    slopes = np.where(np.any(slopes, axis=1, keepdims=True), slopes, chord)
    ends = fine[[first, last]]
    place = CubicHermiteSpline(ends, line[[first, last], :3], slopes)(fine[first : last + 1])
    return np.column_stack([place, np.interp(fine[first : last + 1], ends, line[[first, last], 3])])


def _wideness(points_mm: Floats, lines: list[Floats]) -> Floats:
    """What the module calls g, (N,), of places: the least distance from a point of a parent's line over its radius."""
    least = np.full(len(points_mm), np.inf)
    for line in lines:
        distance, row = cKDTree(line[:, :3]).query(points_mm, k=min(len(line), int(2 / STEP)))
        least = np.minimum(least, (distance / line[row, 3]).min(axis=1))
    return least


def find_neck(
    surface: Mesh,
    openings: Sequence[Opening],
    lines: Sequence[Floats],
    factor: float,
    taken: NDArray[np.bool_],
) -> Section | None:
    """The neck of the only sac of a vessel.

    Its plane fits the rim of the wall beyond the parent best, and is then moved along its normal, out of the parent, to
    where its section is clear of the parent, and on or back to where the section is narrowest, if it is so nearby.

    Parameters
    ----------
    surface : closed surface.
    openings : of it.
    lines : of the centreline's branches, (n, 4): x, y, z and radius, mm.
    factor : a sac reaches farther from its parent's line than so many of the parent's radii.
    taken : (P,), vertices of sacs that are known.

    Returns
    -------
    The neck; none where nothing is wider than that.

    Raises
    ------
    NeckError
        If there is something wide that is no sac for certain: widened all round, at a bifurcation, without a neck, like
        a branch, or more than one.
    """
    ways = ways_through(lines, openings)
    if not ways:
        raise NeckError("there is no centreline between openings beside which a sac could be found")
    parents = [parent_line(way) for way in ways]
    wide = _wideness(surface.points_mm, parents)
    pieces = [piece for piece in _pieces(surface, wide) if wide[piece].max() > factor and not (piece & taken).any()]
    if not pieces:
        return None
    places = [surface.points_mm[piece & (wide >= wide[piece].max())][0] for piece in pieces]
    if len(pieces) > 1:
        raise NeckError(
            f"{len(pieces)} places are wider than {factor:g} radii of the parent: {', '.join(map(words_mm, places))}"
        )
    return _neck_of(surface, pieces[0], places[0], wide, parents, _forks(ways))


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


def _forks(ways: list[Way]) -> Floats:
    """Places and radii of bifurcations, (m, 4): ends that more than one way has."""
    ends = np.array([way.line[k] for way in ways for k in (0, -1)])
    near = cKDTree(ends[:, :3]).query_ball_point(ends[:, :3], 1e-4, return_length=True)
    return ends[near > 1]


def _neck_of(
    surface: Mesh, piece: NDArray[np.bool_], place: Floats, wide: Floats, parents: list[Floats], forks: Floats
) -> Section:
    """The neck of a piece of wall beyond the parent that is widest at a place."""
    rest, _ = _connected(surface, ~piece)
    with_caps = np.unique(rest[surface.triangles[surface.opening > 0]])
    if len(with_caps) > 1:
        raise NeckError(f"the vessel is wider all round at {words_mm(place)}, as a fusiform aneurysm")
    piece = piece | ~np.isin(rest, with_caps)
    rim = _rim(surface, piece, wide)
    middle, normal, bend = _plane(rim)
    rim_radius = float(np.linalg.norm(rim - middle, axis=1).mean())
    if any(np.linalg.norm(fork[:3] - rim, axis=1).min() < (1 + NEAR_FORK) * fork[3] for fork in forks):
        raise NeckError(f"the wide place at {words_mm(place)} lies at a bifurcation, whose shape hides its neck")
    if bend > MAX_BEND * rim_radius:
        raise NeckError(
            f"the rim of the wide place at {words_mm(place)} leaves its plane by {bend:.2f} mm, of a radius of"
            f" {rim_radius:.2f} mm, so that no neck can be told"
        )
    normal = normal * np.sign((surface.points_mm[piece].mean(axis=0) - middle) @ normal)
    radius = radius_near(middle, parents)
    neck = _slid(surface, middle, normal, piece, radius)
    _require_shape(surface.points_mm[piece], neck, radius, place)
    return neck


def _rim(surface: Mesh, piece: NDArray[np.bool_], wide: Floats) -> Floats:
    """Places on the edges out of a piece where it ends, (k, 3)."""
    edges = directed_edges(surface.triangles)
    edges = edges[piece[edges[:, 0]] & ~piece[edges[:, 1]]]
    part = ((wide[edges[:, 0]] - 1 - MARGIN) / (wide[edges[:, 0]] - wide[edges[:, 1]])).clip(0, 1)[:, None]
    return np.asarray((1 - part) * surface.points_mm[edges[:, 0]] + part * surface.points_mm[edges[:, 1]])


def _require_shape(points_mm: Floats, neck: Section, radius: float, place: Floats) -> None:
    """Refuse what is too flat for a sac, or as long and even as a branch; of the piece's vertices, (n, 3)."""
    away = points_mm - neck.at_mm
    height, diameter = float((away @ neck.normal).max()), float(2 * np.sqrt(neck.area_mm2 / np.pi))
    if height < MIN_HEIGHT * radius:
        raise NeckError(f"the wide place at {words_mm(place)} rises only {height:.2f} mm above its neck")
    across = 2 * float(np.linalg.norm(away - (away @ neck.normal)[:, None] * neck.normal, axis=1).max())
    if height > STUB_LENGTH * diameter and across < STUB_WIDTH * diameter:
        raise NeckError(
            f"the wide place at {words_mm(place)} is {height:.1f} mm long and {diameter:.1f} mm wide at its mouth, as a"
            " branch that ends blind"
        )


def _plane(points: Floats) -> tuple[Floats, Floats, float]:
    """Mean, unit normal and root mean square distance of the plane that fits points best."""
    middle = points.mean(axis=0)
    _, spread, axes = np.linalg.svd(points - middle, full_matrices=False)
    return middle, axes[2], float(spread[2] / np.sqrt(len(points)))


def radius_near(place: Floats, parents: Sequence[Floats]) -> float:
    """Radius of the parent, of its lines by :func:`parent_line`, at the point that is nearest to a place, mm."""
    line = min(parents, key=lambda line: float(np.linalg.norm(line[:, :3] - place, axis=1).min()))
    return float(line[np.linalg.norm(line[:, :3] - place, axis=1).argmin(), 3])


def _slid(surface: Mesh, middle: Floats, normal: Floats, piece: NDArray[np.bool_], radius: float) -> Section:
    """The narrowest section near the first that is clear of the parent, if sections widen again behind it; else the
    first.
    """
    along, first = _first_clear(surface, middle, normal, piece, radius)
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
    surface: Mesh, middle: Floats, normal: Floats, piece: NDArray[np.bool_], radius: float
) -> tuple[float, Section]:
    """The first section along the normal that lies in a piece of the wall only, and its distance from the middle."""
    for along in np.arange(0, SLIDE, SLIDE_STEP) * radius:
        try:
            section = section_around(surface, middle + along * normal, normal)
        except NeckError:
            continue
        if piece[section.edges[:, 0]].all():
            return float(along), section
    raise NeckError(f"no plane near {words_mm(middle)} parts the wide place from the parent")
