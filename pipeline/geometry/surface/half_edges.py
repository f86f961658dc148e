"""Half-edges: a closed triangle surface whose connections can change, and the steps that change them.

A half-edge ``h = 3 t + k`` runs from corner k of triangle t to the next one; ``twin[h]`` is the same edge seen from
the other triangle, ``out[v]`` any half-edge that begins at vertex v. Every step leaves the surface a closed 2-manifold
of the same topology and turns no triangle over; creases stay creases.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pipeline.files.mesh import Mesh

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Kinds: TypeAlias = NDArray[np.int8]
Flags: TypeAlias = NDArray[np.bool_]
Vector: TypeAlias = tuple[float, float, float]

LONGEST, SHORTEST = 4 / 3, 4 / 5
"""Edges beyond these multiples of the wanted length are split or collapsed: neither step calls for the other."""

WALL = 0
"""Kind of a vertex of the wall; k > 0: inside cap k; -k: on its rim."""
CREASE = -127
"""Kind of a vertex on another crease."""
CORNER = -128
"""Kind of a vertex where creases meet or end."""


@dataclass
class HalfEdges:
    """A closed surface whose connections can change; the module says what `twin` and `out` are.

    Attributes
    ----------
    points : (P, 3) mm.
    edge : (P,) wanted length of the edges, mm.
    kind : (P,) int8.
    start : (3 T,) vertex at which each half-edge begins.
    twin : (3 T,).
    sharp : (3 T,) whether the edge is a crease.
    tag : (T,) int8, opening.
    out : (P,).
    """

    points: NDArray[np.float64]
    edge: NDArray[np.float64]
    kind: NDArray[np.int8]
    start: NDArray[np.int64]
    twin: NDArray[np.int64]
    sharp: NDArray[np.bool_]
    tag: NDArray[np.int8]
    out: NDArray[np.int64]

    @staticmethod
    def of(mesh: Mesh, edge_mm: NDArray[np.float64], crease_deg: float) -> "HalfEdges":
        """Of a closed mesh; its rims of caps, and edges at which it turns by more than an angle, are creases."""
        start = mesh.triangles.astype(np.int64).ravel()
        end = np.roll(mesh.triangles, -1, axis=1).astype(np.int64).ravel()
        count = len(mesh.points_mm)
        forward, backward = np.argsort(start * count + end), np.argsort(end * count + start)
        twin = np.empty(len(start), np.int64)
        twin[forward] = backward
        out = np.empty(count, np.int64)
        out[start] = np.arange(len(start))
        tag, owner = mesh.opening.astype(np.int8), np.arange(len(start)) // 3
        vectors = mesh.area_vectors_mm2()
        normals = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)
        cosine = np.einsum("ij,ij->i", normals[owner], normals[owner[twin]])
        sharp = (tag[owner] != tag[owner[twin]]) | (np.clip(cosine, -1, 1) < np.cos(np.radians(crease_deg)))
        kind = _kinds(start, twin, sharp, tag, count)
        return HalfEdges(mesh.points_mm.copy(), edge_mm.copy(), kind, start, twin, sharp, tag, out)

    def mesh(self) -> Mesh:
        """As a mesh."""
        return Mesh(self.points.copy(), self.start.reshape(-1, 3).copy(), self.tag.copy())

    def split(self) -> int:
        """Split too long edges, the longest first; how many."""
        ends = np.stack([self.start, self.start[self.twin]])
        length = np.linalg.norm(self.points[ends[0]] - self.points[ends[1]], axis=1) / self.edge[ends].mean(axis=0)
        long = np.flatnonzero((length > LONGEST) & (np.arange(len(length)) < self.twin))
        if len(long):
            long = long[np.argsort(-length[long], kind="stable")]
            steps = 1, 1, 1, 6, 6, 6, 2, 1
            grown = [_grown(a, len(long) * step) for a, step in zip(self._arrays(), steps, strict=True)]
            self._cut(grown, _split_long(*grown, long, len(self.points), len(self.tag)))
        return len(long)

    def collapse(self) -> None:
        """Collapse too short edges where the surface allows it."""
        _collapse_short(*self._arrays(), SHORTEST, LONGEST)
        self._cut(self._arrays(), _compact(*self._arrays()))

    def flip(self, by_angle: bool) -> None:
        """Turn edges inside their two triangles, for six neighbours a vertex or for larger angles."""
        _flip_edges(*self._arrays(), by_angle)

    def relax(self, steps: int) -> None:
        """Slide the vertices towards the middle of their neighbours."""
        for _ in range(steps):
            _relax(self.points, self.kind, self.start, self.twin, self.sharp, self.out)

    def _arrays(self) -> tuple[NDArray[Any], ...]:
        return self.points, self.edge, self.kind, self.start, self.twin, self.sharp, self.tag, self.out

    def _cut(self, arrays: Sequence[NDArray[Any]], ends: Sequence[int]) -> None:
        """Take the arrays, each up to its end."""
        cut = [array[:end] for array, end in zip(arrays, ends, strict=True)]
        self.points, self.edge, self.kind, self.start, self.twin, self.sharp, self.tag, self.out = cut


def _grown(array: NDArray[Any], by: int) -> NDArray[Any]:
    return np.concatenate([array, np.zeros((by, *array.shape[1:]), array.dtype)])


def _kinds(
    start: NDArray[np.int64], twin: NDArray[np.int64], sharp: NDArray[np.bool_], tag: NDArray[np.int8], count: int
) -> NDArray[np.int8]:
    """Kind of each vertex; see :data:`WALL`."""
    creases = np.bincount(start[sharp], minlength=count)
    kind = np.zeros(count, np.int16)
    kind[start] = np.repeat(tag, 3)  # inside the wall and the caps all triangles agree
    here, there = np.repeat(tag, 3)[sharp].astype(np.int16), tag[twin[sharp] // 3].astype(np.int16)
    of_rim = np.where((here != there) & (np.minimum(here, there) == 0), -np.maximum(here, there), CREASE)
    first, last = np.full(count, 127, np.int16), np.full(count, -128, np.int16)
    np.minimum.at(first, start[sharp], of_rim)
    np.maximum.at(last, start[sharp], of_rim)
    kind = np.where(creases > 0, np.where((creases == 2) & (first == last), first, CORNER), kind)
    return kind.astype(np.int8)


@njit(cache=True)
def vertex_normals(points: Floats, corners: Ints) -> Floats:
    """Unit normals at the points, (P, 3): area vectors of the triangles around each, summed."""
    normals = np.zeros_like(points)
    for t in range(len(corners) // 3):
        a, b, c = corners[3 * t], corners[3 * t + 1], corners[3 * t + 2]
        n = _cross(points[a], points[b], points[c])
        for v in (a, b, c):
            for i in range(3):
                normals[v, i] += n[i]
    for v in range(len(points)):
        length = np.sqrt(normals[v, 0] ** 2 + normals[v, 1] ** 2 + normals[v, 2] ** 2)
        for i in range(3):
            normals[v, i] /= max(length, 1e-300)
    return normals


@njit(cache=True)
def _cross(a: Floats, b: Floats, c: Floats) -> Vector:
    """Twice the area vector of a triangle."""
    ux, uy, uz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
    vx, vy, vz = c[0] - a[0], c[1] - a[1], c[2] - a[2]
    return uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx


@njit(cache=True)
def _dot(a: Vector, b: Vector) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@njit(cache=True)
def _square(a: Floats, b: Floats) -> float:
    """Square of the distance of two points."""
    return (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 + (a[2] - b[2]) ** 2


@njit(cache=True)
def _next(h: int) -> int:
    return h - 2 if h % 3 == 2 else h + 1


@njit(cache=True)
def _previous(h: int) -> int:
    return h + 2 if h % 3 == 0 else h - 1


@njit(cache=True)
def _worst(a: Floats, b: Floats, c: Floats) -> float:
    """Sine of the smallest angle of a triangle, which is opposite its shortest side."""
    n = _cross(a, b, c)
    twice = np.sqrt(_dot(n, n))
    ab, bc, ca = _square(a, b), _square(b, c), _square(c, a)
    shortest = min(ab, bc, ca)
    return twice * np.sqrt(shortest / max(ab * bc * ca, 1e-300))


@njit(cache=True)
def _wanted(edge: Floats, a: int, b: int) -> float:
    return 0.5 * (edge[a] + edge[b])


@njit(cache=True)
def _split_long(
    points: Floats,
    edge: Floats,
    kind: Kinds,
    start: Ints,
    twin: Ints,
    sharp: Flags,
    tag: Kinds,
    out: Ints,
    long: Ints,
    vertices: int,
    triangles: int,
) -> tuple[int, ...]:
    """Split edges, and the triangles beside them; the arrays have room for the new ones at their end.

    Returns how many entries of each array are in use then.
    """
    v, t = vertices, triangles
    for h in long:
        g = twin[h]
        a, b = start[h], start[g]
        for i in range(3):
            points[v, i] = 0.5 * (points[a, i] + points[b, i])
        edge[v] = _wanted(edge, a, b)
        kind[v] = _kind_of_crease(tag[h // 3], tag[g // 3]) if sharp[h] else tag[h // 3]
        _halve(h, v, t, start, twin, sharp, tag, out)
        _halve(g, v, t + 1, start, twin, sharp, tag, out)
        # h: a to v, its outer half 3 t: v to b; g: b to v, its outer half 3 (t + 1): v to a
        twin[h], twin[3 * (t + 1)] = 3 * (t + 1), h
        twin[g], twin[3 * t] = 3 * t, g
        out[v] = 3 * t
        v += 1
        t += 2
    return v, v, v, 3 * t, 3 * t, 3 * t, t, v


@njit(cache=True)
def _kind_of_crease(here: int, there: int) -> int:
    if here == 0 or there == 0:
        return -(here + there) if here != there else CREASE
    return CREASE


@njit(cache=True)
def _halve(h: int, v: int, t: int, start: Ints, twin: Ints, sharp: Flags, tag: Kinds, out: Ints) -> None:
    """Cut triangle (a, b, c), whose half-edge h is a to b, into (a, v, c) and (v, b, c), which becomes triangle t."""
    ahead, back = _next(h), _previous(h)
    b, c = start[ahead], start[back]
    start[3 * t], start[3 * t + 1], start[3 * t + 2] = v, b, c
    tag[t] = tag[h // 3]
    sharp[3 * t], sharp[3 * t + 1], sharp[3 * t + 2] = sharp[h], sharp[ahead], False
    beyond = twin[ahead]
    twin[3 * t + 1], twin[beyond] = beyond, 3 * t + 1
    start[ahead] = v
    sharp[ahead] = False
    twin[ahead], twin[3 * t + 2] = 3 * t + 2, ahead
    out[b], out[c] = 3 * t + 1, 3 * t + 2


@njit(cache=True)
def _valence(v: int, start: Ints, twin: Ints, out: Ints) -> int:
    count, h = 0, out[v]
    while True:
        count += 1
        h = twin[_previous(h)]
        if h == out[v]:
            return count


@njit(cache=True)
def _joined(a: int, b: int, start: Ints, twin: Ints, out: Ints) -> bool:
    """Whether an edge joins two vertices."""
    h = out[a]
    while True:
        if start[twin[h]] == b:
            return True
        h = twin[_previous(h)]
        if h == out[a]:
            return False


@njit(cache=True)
def _collapse_short(
    points: Floats,
    edge: Floats,
    kind: Kinds,
    start: Ints,
    twin: Ints,
    sharp: Flags,
    tag: Kinds,
    out: Ints,
    shortest: float,
    longest: float,
) -> None:
    place = np.empty(3)
    for h in range(len(start)):
        if start[h] < 0 or h > twin[h]:
            continue
        a, b = start[h], start[twin[h]]
        if _square(points[a], points[b]) >= (shortest * _wanted(edge, a, b)) ** 2:
            continue
        rank_a, rank_b = _rank(kind[a]), _rank(kind[b])
        if min(rank_a, rank_b) > 0 and (not sharp[h] or rank_a + rank_b == 4):
            continue  # would join two creases, or two corners
        for i in range(3):
            if rank_a == rank_b:
                place[i] = 0.5 * (points[a, i] + points[b, i])
            else:
                place[i] = points[a, i] if rank_a > rank_b else points[b, i]
        if not _collapses(h, start, twin, sharp, out):
            continue
        limit = longest * _wanted(edge, a, b)
        if not (
            _bears(a, b, place, points, start, twin, out, limit)
            and _bears(b, a, place, points, start, twin, out, limit)
        ):
            continue
        if rank_b > rank_a:
            kind[a] = kind[b]
        edge[a] = _wanted(edge, a, b)
        points[a] = place
        _collapse(h, start, twin, sharp, out)


@njit(cache=True)
def _rank(kind: int) -> int:
    """How much a vertex is bound: 0 on a face, 1 on a crease, 2 at a corner."""
    return 0 if kind >= 0 else (2 if kind == CORNER else 1)


@njit(cache=True)
def _collapses(h: int, start: Ints, twin: Ints, sharp: Flags, out: Ints) -> bool:
    """Whether the surface stays a manifold without edge h: its ends have the two neighbours in common that face it, and
    no more; and creases stay apart.
    """
    g = twin[h]
    a, b, c, d = start[h], start[g], start[_previous(h)], start[_previous(g)]
    if (sharp[_next(h)] and sharp[_previous(h)]) or (sharp[_next(g)] and sharp[_previous(g)]):
        return False
    if _valence(c, start, twin, out) <= 4 or _valence(d, start, twin, out) <= 4:
        return False
    if _valence(a, start, twin, out) + _valence(b, start, twin, out) > 13:  # of what is left: 9 and less
        return False
    e = out[b]
    while True:
        v = start[twin[e]]
        if v != a and v != c and v != d and _joined(a, v, start, twin, out):
            return False
        e = twin[_previous(e)]
        if e == out[b]:
            return True


@njit(cache=True)
def _bears(v: int, other: int, place: Floats, points: Floats, start: Ints, twin: Ints, out: Ints, limit: float) -> bool:
    """Whether the triangles around v, but for those that also have `other`, stay good with v at another place."""
    h = out[v]
    while True:
        b, c = start[_next(h)], start[_previous(h)]
        if b != other and c != other:
            before, after = _cross(points[v], points[b], points[c]), _cross(place, points[b], points[c])
            if _square(place, points[b]) > limit * limit:
                return False
            old = _worst(points[v], points[b], points[c])
            new = _worst(place, points[b], points[c])
            if new < min(0.7 * old, 0.2):
                return False
            if old > 0.1 and _dot(before, after) < 0.7 * np.sqrt(_dot(before, before) * _dot(after, after)):
                return False
        h = twin[_previous(h)]
        if h == out[v]:
            return True


@njit(cache=True)
def _collapse(h: int, start: Ints, twin: Ints, sharp: Flags, out: Ints) -> None:
    """Join the end of half-edge h with its start, and take the two triangles beside it out."""
    g = twin[h]
    a, b = start[h], start[g]
    e = out[b]
    while True:
        start[e] = a
        e = twin[_previous(e)]
        if e == out[b]:
            break
    for side in (h, g):
        ahead, back = _next(side), _previous(side)
        one, other = twin[ahead], twin[back]
        twin[one], twin[other] = other, one
        sharp[one] = sharp[other] = sharp[ahead] or sharp[back]
        out[start[back]] = one  # begins at the corner that faces the edge
        out[a] = other
    for side in (h, g):
        for k in range(3):
            start[3 * (side // 3) + k] = -1
    out[b] = -1


@njit(cache=True)
def _compact(
    points: Floats, edge: Floats, kind: Kinds, start: Ints, twin: Ints, sharp: Flags, tag: Kinds, out: Ints
) -> tuple[int, ...]:
    """Close the gaps of what was taken out, in place; how many entries of each array are in use then."""
    vertex, half = np.full(len(out), -1), np.full(len(start), -1)
    vertices, halves = 0, 0
    for v in range(len(out)):
        if out[v] >= 0:
            points[vertices], edge[vertices], kind[vertices], out[vertices] = points[v], edge[v], kind[v], out[v]
            vertex[v] = vertices
            vertices += 1
    for h in range(len(start)):
        if start[h] >= 0:
            half[h] = halves
            halves += 1
    for h in range(len(start)):
        if half[h] >= 0:
            new = half[h]
            start[new], twin[new], sharp[new], tag[new // 3] = vertex[start[h]], half[twin[h]], sharp[h], tag[h // 3]
    for v in range(vertices):
        out[v] = half[out[v]]
    return vertices, vertices, vertices, halves, halves, halves, halves // 3, vertices


@njit(cache=True)
def _flip_edges(
    points: Floats,
    edge: Floats,
    kind: Kinds,
    start: Ints,
    twin: Ints,
    sharp: Flags,
    tag: Kinds,
    out: Ints,
    by_angle: bool,
) -> None:
    """Turn edges inside their two triangles where that brings their four corners nearer to six neighbours each, or
    (`by_angle`) makes the smallest angle of the two larger.
    """
    valence = np.zeros(len(points), np.int64)
    for h in range(len(start)):
        valence[start[h]] += 1
    for h in range(len(start)):
        if sharp[h] or h > twin[h]:
            continue
        g = twin[h]
        a, b, c, d = start[h], start[g], start[_previous(h)], start[_previous(g)]
        if valence[a] <= 4 or valence[b] <= 4 or _joined(c, d, start, twin, out):
            continue
        pa, pb, pc, pd = points[a], points[b], points[c], points[d]
        old = min(_worst(pa, pb, pc), _worst(pb, pa, pd))
        new = min(_worst(pc, pd, pb), _worst(pd, pc, pa))
        gain = (
            abs(valence[a] - 6)
            + abs(valence[b] - 6)
            + abs(valence[c] - 6)
            + abs(valence[d] - 6)
            - abs(valence[a] - 7)
            - abs(valence[b] - 7)
            - abs(valence[c] - 5)
            - abs(valence[d] - 5)
        )
        if by_angle:
            wanted = new > 1.02 * old
        else:
            wanted = (gain > 0 and new > min(0.4 * old, 0.2)) or (gain == 0 and new > 1.1 * old)
        if not wanted:
            continue
        n1, n2 = _cross(pa, pb, pc), _cross(pb, pa, pd)
        m1, m2 = _cross(pc, pd, pb), _cross(pd, pc, pa)
        mean = n1[0] + n2[0], n1[1] + n2[1], n1[2] + n2[2]
        size = np.sqrt(_dot(mean, mean))
        if _dot(m1, mean) < 0.7 * size * np.sqrt(_dot(m1, m1)) or _dot(m2, mean) < 0.7 * size * np.sqrt(_dot(m2, m2)):
            continue
        _flip(h, start, twin, sharp, out)
        valence[a] -= 1
        valence[b] -= 1
        valence[c] += 1
        valence[d] += 1


@njit(cache=True)
def _flip(h: int, start: Ints, twin: Ints, sharp: Flags, out: Ints) -> None:
    """Triangles (a, b, c) and (b, a, d) become (d, c, a) and (c, d, b), half-edge h being a to b and then d to c."""
    g = twin[h]
    h1, h2, g1, g2 = _next(h), _previous(h), _next(g), _previous(g)
    a, b, c, d = start[h], start[g], start[h2], start[g2]
    bc, ca, ad, db = twin[h1], twin[h2], twin[g1], twin[g2]
    s_bc, s_ca, s_ad, s_db = sharp[h1], sharp[h2], sharp[g1], sharp[g2]
    start[h], start[h1], start[h2] = d, c, a  # d to c, c to a, a to d
    start[g], start[g1], start[g2] = c, d, b  # c to d, d to b, b to c
    for one, other, s in ((h1, ca, s_ca), (h2, ad, s_ad), (g1, db, s_db), (g2, bc, s_bc)):
        twin[one], twin[other], sharp[one] = other, one, s
    out[a], out[b], out[c], out[d] = h2, g2, g, h


@njit(cache=True)
def _relax(points: Floats, kind: Kinds, start: Ints, twin: Ints, sharp: Flags, out: Ints) -> None:
    """Slide each vertex along its face, or its crease, towards the middle of its neighbours, one after another; as far
    as no triangle around it is turned over and the worst of them does not become worse.
    """
    place = np.empty(3)
    for v in range(len(points)):
        if kind[v] == CORNER:
            continue
        here = points[v]
        worst = _ring_step(v, here, points, kind, start, twin, sharp, out, place)
        for share in (1.0, 0.5, 0.25):
            for i in range(3):
                place[i] = share * place[i] if share < 1 else place[i]
            if _improves(v, here, place, worst, points, start, twin, out):
                for i in range(3):
                    points[v, i] += place[i]
                break


@njit(cache=True)
def _ring_step(
    v: int, here: Floats, points: Floats, kind: Kinds, start: Ints, twin: Ints, sharp: Flags, out: Ints, step: Floats
) -> float:
    """Wanted step of a vertex, into `step`; and the sine of the smallest angle around it."""
    worst, count = 1.0, 0
    nx, ny, nz = 0.0, 0.0, 0.0
    step[:] = 0.0
    first, last = here, here
    h = out[v]
    while True:
        b, c = points[start[_next(h)]], points[start[_previous(h)]]
        worst = min(worst, _worst(here, b, c))
        n = _cross(here, b, c)
        nx, ny, nz = nx + n[0], ny + n[1], nz + n[2]
        if kind[v] >= 0 or sharp[h]:
            first, last = last, b
            for i in range(3):
                step[i] += b[i] - here[i]
            count += 1
        h = twin[_previous(h)]
        if h == out[v]:
            break
    if kind[v] < 0:  # along the crease
        nx, ny, nz = last[0] - first[0], last[1] - first[1], last[2] - first[2]
    along = (step[0] * nx + step[1] * ny + step[2] * nz) / max(nx * nx + ny * ny + nz * nz, 1e-300)
    for i, n_i in enumerate((nx, ny, nz)):
        step[i] = along * n_i / count if kind[v] < 0 else (step[i] - along * n_i) / count
    return worst


@njit(cache=True)
def _improves(
    v: int, here: Floats, step: Floats, worst: float, points: Floats, start: Ints, twin: Ints, out: Ints
) -> bool:
    place = here[0] + step[0], here[1] + step[1], here[2] + step[2]
    h = out[v]
    while True:
        b, c = points[start[_next(h)]], points[start[_previous(h)]]
        if _worst(place, b, c) < min(worst, 0.6):
            return False
        before, after = _cross(here, b, c), _cross(place, b, c)
        if _dot(before, after) < 0.5 * np.sqrt(_dot(before, before) * _dot(after, after)):
            return False
        h = twin[_previous(h)]
        if h == out[v]:
            return True
