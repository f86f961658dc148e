# SPDX-License-Identifier: Apache-2.0
"""Steps that split, collapse and turn the edges of a surface of half-edges, compiled.

Every step leaves the surface a closed 2-manifold of the same topology and turns no triangle over; creases stay creases.
"""

import numpy as np
from numba import njit

from pipeline.geometry.surface.connections import (
    CORNER,
    CREASE,
    Flags,
    Floats,
    Ints,
    Kinds,
    joined,
    next_of,
    previous_of,
    valence_of,
)
from pipeline.geometry.surface.triangle_measures import cross, dot, smallest_sine, square_distance
from solver.kernels.compilation import inner_function


@inner_function()
def _wanted(edge: Floats, a: int, b: int) -> float:
    return 0.5 * (edge[a] + edge[b])


# many parameters because compiled code takes the arrays of a surface one by one
@njit(cache=True)
def split_long(
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

    Parameters
    ----------
    points, edge, kind, start, twin, sharp, tag, out : as in :class:`half_edges.HalfEdges`.
    long : half-edges that are split, one of each edge, in this order.
    vertices, triangles : how many are in use before.

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


@inner_function()
def _kind_of_crease(here: int, there: int) -> int:
    if here == 0 or there == 0:
        return -(here + there) if here != there else CREASE
    return CREASE


@inner_function()
def _halve(h: int, v: int, t: int, start: Ints, twin: Ints, sharp: Flags, tag: Kinds, out: Ints) -> None:
    """Cut triangle (a, b, c), whose half-edge h is a to b, into (a, v, c) and (v, b, c), which becomes triangle t."""
    ahead, back = next_of(h), previous_of(h)
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


# many parameters because compiled code takes the arrays of a surface one by one
@njit(cache=True)
def collapse_short(
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
    """Collapse edges that are shorter than `shortest` of their wanted length, where the surface allows it and no edge
    gets longer than `longest` of it.

    Parameters
    ----------
    points, edge, kind, start, twin, sharp, tag, out : as in :class:`half_edges.HalfEdges`; -1 in `start` and `out`
        marks what is taken out.
    shortest, longest : parts of the wanted length.
    """
    place = np.empty(3)
    for h in range(len(start)):
        if start[h] < 0 or h > twin[h]:
            continue
        a, b = start[h], start[twin[h]]
        if square_distance(points[a], points[b]) >= (shortest * _wanted(edge, a, b)) ** 2:
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
        for i in range(3):  # a row that is set as a whole takes longer to compile than all else here
            points[a, i] = place[i]
        _collapse(h, start, twin, sharp, out)


@inner_function()
def _rank(kind: int) -> int:
    """How much a vertex is bound: 0 on a face, 1 on a crease, 2 at a corner."""
    return 0 if kind >= 0 else (2 if kind == CORNER else 1)


@inner_function()
def _collapses(h: int, start: Ints, twin: Ints, sharp: Flags, out: Ints) -> bool:
    """Whether the surface stays a manifold without edge h: its ends have the two neighbours in common that face it, and
    no more; and creases stay apart.
    """
    g = twin[h]
    a, b, c, d = start[h], start[g], start[previous_of(h)], start[previous_of(g)]
    if (sharp[next_of(h)] and sharp[previous_of(h)]) or (sharp[next_of(g)] and sharp[previous_of(g)]):
        return False
    if valence_of(c, start, twin, out) <= 4 or valence_of(d, start, twin, out) <= 4:
        return False
    if valence_of(a, start, twin, out) + valence_of(b, start, twin, out) > 13:  # of what is left: 9 and less
        return False
    e = out[b]
    while True:
        v = start[twin[e]]
        if v != a and v != c and v != d and joined(a, v, start, twin, out):
            return False
        e = twin[previous_of(e)]
        if e == out[b]:
            return True


@inner_function()
def _bears(v: int, other: int, place: Floats, points: Floats, start: Ints, twin: Ints, out: Ints, limit: float) -> bool:
    """Whether the triangles around v, but for those that also have `other`, stay good with v at another place."""
    h = out[v]
    while True:
        b, c = start[next_of(h)], start[previous_of(h)]
        if b != other and c != other:
            before, after = cross(points[v], points[b], points[c]), cross(place, points[b], points[c])
            if square_distance(place, points[b]) > limit * limit:
                return False
            old = smallest_sine(points[v], points[b], points[c])
            new = smallest_sine(place, points[b], points[c])
            if new < min(0.7 * old, 0.2):
                return False
            if old > 0.1 and dot(before, after) < 0.7 * np.sqrt(dot(before, before) * dot(after, after)):
                return False
        h = twin[previous_of(h)]
        if h == out[v]:
            return True


@inner_function()
def _collapse(h: int, start: Ints, twin: Ints, sharp: Flags, out: Ints) -> None:
    """Join the end of half-edge h with its start, and take the two triangles beside it out."""
    g = twin[h]
    a, b = start[h], start[g]
    e = out[b]
    while True:
        start[e] = a
        e = twin[previous_of(e)]
        if e == out[b]:
            break
    for side in (h, g):
        ahead, back = next_of(side), previous_of(side)
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
def compact(
    points: Floats, edge: Floats, kind: Kinds, start: Ints, twin: Ints, sharp: Flags, tag: Kinds, out: Ints
) -> tuple[int, ...]:
    """Close the gaps of what was taken out, in place; how many entries of each array are in use then.

    Parameters
    ----------
    points, edge, kind, start, twin, sharp, tag, out : as in :class:`half_edges.HalfEdges`; -1 in `start` and `out`
        marks what was taken out.
    """
    vertex, half = np.full(len(out), -1), np.full(len(start), -1)
    vertices, halves = 0, 0
    for v in range(len(out)):
        if out[v] >= 0:
            for k in range(3):
                points[vertices, k] = points[v, k]
            edge[vertices], kind[vertices], out[vertices] = edge[v], kind[v], out[v]
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


# many parameters because compiled code takes the arrays of a surface one by one
@njit(cache=True)
def flip_edges(
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

    Parameters
    ----------
    points, edge, kind, start, twin, sharp, tag, out : as in :class:`half_edges.HalfEdges`.
    by_angle : what decides.
    """
    valence = np.zeros(len(points), np.int64)
    for h in range(len(start)):
        valence[start[h]] += 1
    for h in range(len(start)):
        if sharp[h] or h > twin[h]:
            continue
        g = twin[h]
        a, b, c, d = start[h], start[g], start[previous_of(h)], start[previous_of(g)]
        if valence[a] <= 4 or valence[b] <= 4 or joined(c, d, start, twin, out):
            continue
        pa, pb, pc, pd = points[a], points[b], points[c], points[d]
        old = min(smallest_sine(pa, pb, pc), smallest_sine(pb, pa, pd))
        new = min(smallest_sine(pc, pd, pb), smallest_sine(pd, pc, pa))
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
        n1, n2 = cross(pa, pb, pc), cross(pb, pa, pd)
        m1, m2 = cross(pc, pd, pb), cross(pd, pc, pa)
        mean = n1[0] + n2[0], n1[1] + n2[1], n1[2] + n2[2]
        size = np.sqrt(dot(mean, mean))
        if dot(m1, mean) < 0.7 * size * np.sqrt(dot(m1, m1)) or dot(m2, mean) < 0.7 * size * np.sqrt(dot(m2, m2)):
            continue
        _flip(h, start, twin, sharp, out)
        valence[a] -= 1
        valence[b] -= 1
        valence[c] += 1
        valence[d] += 1


@inner_function()
def _flip(h: int, start: Ints, twin: Ints, sharp: Flags, out: Ints) -> None:
    """Triangles (a, b, c) and (b, a, d) become (d, c, a) and (c, d, b), half-edge h being a to b and then d to c."""
    g = twin[h]
    h1, h2, g1, g2 = next_of(h), previous_of(h), next_of(g), previous_of(g)
    a, b, c, d = start[h], start[g], start[h2], start[g2]
    bc, ca, ad, db = twin[h1], twin[h2], twin[g1], twin[g2]
    s_bc, s_ca, s_ad, s_db = sharp[h1], sharp[h2], sharp[g1], sharp[g2]
    start[h], start[h1], start[h2] = d, c, a  # d to c, c to a, a to d
    start[g], start[g1], start[g2] = c, d, b  # c to d, d to b, b to c
    for one, other, s in ((h1, ca, s_ca), (h2, ad, s_ad), (g1, db, s_db), (g2, bc, s_bc)):
        twin[one], twin[other], sharp[one] = other, one, s
    out[a], out[b], out[c], out[d] = h2, g2, g, h
