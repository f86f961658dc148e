# SPDX-License-Identifier: Apache-2.0
"""Clip: cut a closed triangle surface with a plane, locally, and close the cut with a flat cap; check closedness."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import Delaunay, QhullError, cKDTree
from skimage.measure import points_in_poly

from pipeline.files.mesh import Mesh
from solver.runtime.errors import StageError

SNAP = 0.3
"""A vertex nearer to the plane than this fraction of an edge moves along that edge onto the plane: no slivers."""
ROUNDING = 0.1
"""A cap's triangles are found on a rim drawn towards a circle by this power: three rim points in line make none."""
CAP_GRID = 0.7
"""Points inside a cap keep this distance, in spacings, from its rim."""


class ClipError(Exception):
    """The plane does not cut one end off the surface; the message says why."""


def cut_end(mesh: Mesh, centre_mm: NDArray[np.float64], normal: NDArray[np.float64], opening: int) -> Mesh:
    """Remove what lies beyond a plane at one end of the vessel, and close the cut with a flat cap.

    Only the cut around `centre_mm` counts: where the plane meets other parts of the vessel nothing happens.

    Parameters
    ----------
    mesh : closed surface.
    centre_mm : (3,) point inside the vessel, in the plane.
    normal : (3,) unit vector, out of the vessel.
    opening : id that the cap's triangles get; 0 makes them wall, and then caps may be cut off.

    Raises
    ------
    ClipError
        If the plane cuts no closed loop around the centre, meets or cuts off another cap, or does not sever the end.
    """
    near = _loop(mesh, centre_mm, normal)
    if mesh.opening[near].any():
        raise ClipError(f"its plane meets opening {mesh.opening[near].max()}")
    points, triangles = mesh.points_mm.copy(), mesh.triangles
    height, on_plane = _snap(points, triangles[near], centre_mm, normal)
    crossed = near[np.ptp(np.sign(height[triangles[near]]), axis=1) == 2]
    points, split = _split(points, triangles[crossed], height)
    triangles = np.concatenate([np.delete(triangles, crossed, axis=0), split])
    tags = np.concatenate([np.delete(mesh.opening, crossed), np.zeros(len(split), np.int8)])
    on_plane = np.concatenate([on_plane, np.ones(len(points) - len(on_plane), bool)])
    kept = _kept(triangles, (points - centre_mm) @ normal, on_plane)
    if opening and tags[~kept].any():
        raise ClipError(f"its plane would cut off opening {tags[~kept].max()} too")
    triangles, tags = triangles[kept], tags[kept]
    rim = _rim(triangles, on_plane)
    inside, cap = cap_of(points[rim], normal)
    rows = np.concatenate([rim, len(points) + np.arange(len(inside))])
    points = np.concatenate([points, inside])
    triangles = np.concatenate([triangles, rows[cap]])
    tags = np.concatenate([tags, np.full(len(cap), opening, np.int8)])
    used, renumbered = np.unique(triangles, return_inverse=True)
    return Mesh(points[used], renumbered.reshape(-1, 3).astype(np.int64), tags)


def section_mm2(mesh: Mesh, centre_mm: NDArray[np.float64], normal: NDArray[np.float64]) -> float:
    """Area of the section in which a plane cuts the vessel around a point, by Green's theorem along its outline.

    Parameters
    ----------
    mesh : closed surface, or the part of one around the section.
    centre_mm : (3,) point inside the vessel, in the plane.
    normal : (3,) unit vector.

    Raises
    ------
    ClipError
        If the plane cuts no closed loop around the point.
    """
    near = mesh.triangles[_loop(mesh, centre_mm, normal)]
    places = mesh.points_mm[near] - centre_mm
    height = places @ normal
    above = height > 0

    def passed(upwards: bool) -> NDArray[np.float64]:
        rows, k = np.nonzero((above != upwards) & (np.roll(above, -1, axis=1) == upwards))
        a, b = places[rows, k], places[rows, (k + 1) % 3]
        part = height[rows, k] / (height[rows, k] - height[rows, (k + 1) % 3])
        return np.asarray(a + part[:, None] * (b - a))

    return float(abs(np.cross(passed(upwards=False), passed(upwards=True)).sum(axis=0) @ normal) / 2)


def _loop(mesh: Mesh, centre: NDArray[np.float64], normal: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rows of the triangles that the plane crosses in the smallest loop around the centre."""
    points, triangles = mesh.points_mm, mesh.triangles
    side = (points - centre) @ normal > 0
    a, b, c = (side[triangles[:, k]] for k in range(3))
    crossed = np.flatnonzero((a != b) | (b != c))
    if not len(crossed):
        raise ClipError("its plane misses the vessel")
    _, label = connected_components(neighbours(triangles[crossed]), directed=False)
    places = points[triangles[crossed]].mean(axis=1) - centre
    loops = [k for k in range(label.max() + 1) if _encloses(_flatten(places[label == k], normal))]
    if not loops:
        raise ClipError("its plane cuts no closed section of the vessel")
    return crossed[label == min(loops, key=lambda k: float(np.linalg.norm(places[label == k], axis=1).max()))]


def _encloses(places: NDArray[np.float64]) -> bool:
    """Whether places around a loop, (n, 2), leave no gap of half a turn, seen from the origin."""
    angle = np.sort(np.arctan2(places[:, 1], places[:, 0]))
    return bool(np.diff(angle, append=angle[:1] + 2 * np.pi).max() < np.pi)


def axes_of_plane(normal: NDArray[np.float64]) -> NDArray[np.float64]:
    """Two unit vectors that make a right-handed frame with the normal, as columns, (3, 2)."""
    first = np.cross(normal, np.eye(3)[np.argmin(np.abs(normal))])
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(normal, first)], axis=1)


def _flatten(vectors: NDArray[np.float64], normal: NDArray[np.float64]) -> NDArray[np.float64]:
    return vectors @ axes_of_plane(normal)


def directed_edges(triangles: NDArray[np.int64]) -> NDArray[np.int64]:
    """Directed edges of all triangles, (3 T, 2): all first edges, then all second, then all third ones."""
    return np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])


def edges_of(triangles: NDArray[np.int64]) -> NDArray[np.int64]:
    """Edges of all triangles, each once, in ascending order, the lower vertex first, (k, 2)."""
    numbers = np.unique(edge_numbers(directed_edges(triangles)))  # half of the time of unique rows
    return np.stack(np.divmod(numbers, triangles.max(initial=0) + 1), axis=1)


def edge_numbers(edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """A number for each edge, (n, 2), whatever its direction."""
    a, b = edges.T
    return np.minimum(a, b) * (edges.max(initial=0) + 1) + np.maximum(a, b)


def _opposite_edges(edges: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of directed edges in an order that puts the two sides of an edge together, and which rows of that order
    are followed by the same edge.
    """
    key = edge_numbers(edges)
    order = np.argsort(key, kind="stable")
    return order, np.flatnonzero(np.diff(key[order]) == 0)


def neighbours(triangles: NDArray[np.int64], barrier: NDArray[np.bool_] | None = None) -> coo_array:
    """Pairs of triangles that share an edge; an edge between two vertices of the barrier does not count."""
    edges, owner = directed_edges(triangles), np.tile(np.arange(len(triangles)), 3)
    if barrier is not None:
        free = ~barrier[edges].all(axis=1)
        edges, owner = edges[free], owner[free]
    order, first = _opposite_edges(edges)
    a, b = owner[order[first]], owner[order[first + 1]]
    return coo_array((np.ones(len(a), np.int8), (a, b)), shape=(len(triangles),) * 2)


def _snap(
    points: NDArray[np.float64],
    triangles: NDArray[np.int64],
    centre: NDArray[np.float64],
    normal: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Move vertices of crossed triangles that lie close to the plane along an edge onto it, in place.

    Returns the heights of all points above the plane, and which points lie on it.
    """
    height = (points - centre) @ normal
    edges = edges_of(triangles)
    near, far = np.concatenate([edges, edges[:, ::-1]]).T
    crossing = height[near] * height[far] < 0
    near, far = near[crossing], far[crossing]
    part = height[near] / (height[near] - height[far])
    order = np.lexsort((far, part, near))
    near, far, part = near[order], far[order], part[order]
    chosen = (np.diff(near, prepend=-1) > 0) & (part < SNAP)
    near, far, part = near[chosen], far[chosen], part[chosen, None]
    moved = (1 - part) * points[near] + part * points[far]
    points[near] = moved - ((moved - centre) @ normal)[:, None] * normal
    height[near] = 0.0
    on_plane = np.zeros(len(points), bool)
    corners = np.unique(triangles)
    on_plane[corners[height[corners] == 0]] = True
    return height, on_plane


def _split(
    points: NDArray[np.float64], triangles: NDArray[np.int64], height: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Split triangles along the plane: all points with the new ones last, and the triangles instead of the old."""
    middle: dict[tuple[int, int], int] = {}
    added: list[NDArray[np.float64]] = []
    split: list[tuple[int, int, int]] = []

    def between(a: int, b: int) -> int:
        low, high = min(a, b), max(a, b)
        if (low, high) not in middle:
            part = height[low] / (height[low] - height[high])
            middle[low, high] = len(points) + len(added)
            added.append((1 - part) * points[low] + part * points[high])
        return middle[low, high]

    for corners in triangles.tolist():
        sign = np.sign(height[corners])
        lone = int(np.flatnonzero(sign == (0 if sign.sum() == 0 else -sign.sum()))[0])
        a, b, c = corners[lone], corners[lone - 2], corners[lone - 1]
        if sign[lone] == 0:
            m = between(b, c)
            split += [(a, b, m), (a, m, c)]
        else:
            m, n = between(a, b), between(a, c)
            split += [(a, m, n), (m, b, n), (b, c, n)]
    return np.concatenate([points, np.reshape(added, (-1, 3))]), np.array(split, np.int64).reshape(-1, 3)


def _kept(triangles: NDArray[np.int64], height: NDArray[np.float64], on_plane: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which triangles stay: the part of the surface that meets the cut from below."""
    _, label = connected_components(neighbours(triangles, barrier=on_plane), directed=False)
    at_cut = on_plane[triangles].sum(axis=1) == 2
    rest = np.where(on_plane[triangles], 0.0, height[triangles]).sum(axis=1)
    below, above = np.unique(label[at_cut & (rest < 0)]), np.unique(label[at_cut & (rest > 0)])
    if len(below) != 1 or np.isin(below, above).any():
        raise ClipError("its plane does not sever the end from the vessel")
    return label == below[0]


def open_edges(triangles: NDArray[np.int64]) -> NDArray[np.int64]:
    """Directed edges without a triangle on their other side, (k, 2)."""
    edges = directed_edges(triangles)
    order, first = _opposite_edges(edges)
    alone = np.ones(len(edges), bool)
    alone[order[first]] = alone[order[first + 1]] = False
    return edges[alone]


def _rim(triangles: NDArray[np.int64], on_plane: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Vertices of the hole that the cut leaves, in order; counter-clockwise seen from outside the hole."""
    edges = open_edges(triangles[on_plane[triangles].any(axis=1)])
    edges = edges[on_plane[edges].all(axis=1)]
    after = {b: a for a, b in edges.tolist()}  # the cap runs against the wall
    start = min(after)
    rim, here = [start], after[start]
    while here != start and here in after and len(rim) < len(edges):
        rim.append(here)
        here = after[here]
    if len(rim) != len(edges):
        raise ClipError("its section is not one simple loop")
    return np.array(rim, dtype=np.int64)


def cap_of(
    rim: NDArray[np.float64], normal: NDArray[np.float64], step: float | None = None
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Triangulate the flat polygon inside a rim, (m, 3), with edges about one step long, or as the rim's are.

    Parameters
    ----------
    rim : (m, 3) mm, in order.
    normal : (3,) unit vector, seen from whose tip the rim goes around counterclockwise.
    step : mm; none: the mean edge of the rim.

    Returns the points inside, (k, 3), and triangles over the rows of the rim followed by those points.
    """
    origin = rim.mean(axis=0)
    polygon = _flatten(rim - origin, normal)
    nearer, farther = polygon, np.roll(polygon, -1, axis=0)
    step = step or float(np.linalg.norm(farther - nearer, axis=1).mean())
    grid = _hexagonal_grid(float(np.abs(polygon).max()), step)
    inside = grid[points_in_poly(grid, polygon)]
    inside = inside[cKDTree(polygon).query(inside)[0] > CAP_GRID * step]
    to_ends = [inside[:, None] - ends[None] for ends in (nearer, farther)]
    inside = inside[(np.einsum("pek,pek->pe", *to_ends) > 0).all(axis=1)]  # then Delaunay's triangles keep the rim
    flat = np.concatenate([polygon, inside])
    bent = flat * (np.linalg.norm(flat, axis=1, keepdims=True) + 1e-30) ** -ROUNDING
    try:
        triangles = Delaunay(bent).simplices.astype(np.int64)
    except QhullError:
        raise ClipError("its section has no width, so that no cap fits into it") from None
    triangles = triangles[points_in_poly(bent[triangles].mean(axis=1), bent[: len(rim)])]
    a, b, c = (flat[triangles[:, k]] for k in range(3))
    twice_area = (b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0]
    triangles[twice_area < 0] = triangles[twice_area < 0, ::-1]
    outline = {(i, j) for i, j in open_edges(triangles).tolist()}
    if outline != {(k, (k + 1) % len(rim)) for k in range(len(rim))}:
        raise ClipError("its section is folded, so that no cap fits into it")
    return origin + inside @ axes_of_plane(normal).T, triangles


def _hexagonal_grid(half_width: float, step: float) -> NDArray[np.float64]:
    count = int(half_width / (step * np.sqrt(3) / 2)) + 2
    row, column = np.mgrid[-count : count + 1, -count : count + 1]
    return np.stack([column + (row % 2) / 2, row * np.sqrt(3) / 2], axis=-1).reshape(-1, 2) * step


def check_closed(mesh: Mesh, advice: str = "change surface.smoothing_mm, or repair the mask") -> None:
    """Check that a surface is one closed, consistently oriented 2-manifold around a positive volume.

    Parameters
    ----------
    mesh : the surface.
    advice : what helps, for the message.

    Raises
    ------
    StageError
        With what is wrong and where.
    """
    edges = directed_edges(mesh.triangles)
    order, first = _opposite_edges(edges)
    opposite = (edges[order[first]] == edges[order[first + 1]][:, ::-1]).all(axis=1)
    if wrong := len(edges) - 2 * np.count_nonzero(opposite) + np.count_nonzero(np.diff(first) == 1):
        raise StageError(f"surface: {wrong} edges do not join exactly two triangles of one orientation; {advice}")
    parts, label = connected_components(neighbours(mesh.triangles), directed=False)
    if parts > 1:
        sizes = ", ".join(str(size) for size in sorted(np.bincount(label).tolist(), reverse=True)[:5])
        raise StageError(f"surface: {parts} separate pieces of {sizes} ... triangles, one is wanted; {advice}")
    if pinched := _fans(mesh.triangles) - len(mesh.points_mm):
        raise StageError(f"surface: {pinched} points where the surface touches itself; {advice}")
    areas = np.linalg.norm(mesh.area_vectors_mm2(), axis=1)
    if areas.min() <= 1e-9 * np.median(areas):
        x, y, z = mesh.points_mm[mesh.triangles[int(np.argmin(areas)), 0]]
        raise StageError(f"surface: degenerate triangle at ({x:.2f}, {y:.2f}, {z:.2f}) mm; {advice}")
    if mesh.volume_mm3() <= 0:
        raise StageError(f"surface: volume {mesh.volume_mm3():.3g} mm3 is not positive; {advice}")


def _fans(triangles: NDArray[np.int64]) -> int:
    """Number of fans of triangles around points: as many as points where no two sheets meet in one."""
    count = len(triangles)
    corner = np.tile(np.arange(count), 3) + count * np.repeat(np.arange(3), count)  # of each edge's first end
    following = np.concatenate([corner[count:], corner[:count]])  # of its second end
    edges = directed_edges(triangles)
    size = int(triangles.max()) + 1
    forward, backward = edges[:, 0] * size + edges[:, 1], edges[:, 1] * size + edges[:, 0]
    here, across = np.argsort(forward), np.argsort(backward)  # the same edge from its two sides
    links = np.concatenate([corner[here], following[here]]), np.concatenate([following[across], corner[across]])
    graph = coo_array((np.ones(len(links[0]), np.int8), links), shape=(3 * count,) * 2)
    return int(connected_components(graph, directed=False)[0])
