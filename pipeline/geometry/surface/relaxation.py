# SPDX-License-Identifier: Apache-2.0
"""Sliding the vertices of a surface of half-edges along it, for triangles of better shape, compiled."""

import numpy as np
from numba import njit

from pipeline.geometry.surface.connections import (
    CORNER,
    Flags,
    Floats,
    Ints,
    Kinds,
    next_of,
    previous_of,
)
from pipeline.geometry.surface.triangle_measures import cross, dot, smallest_sine
from solver.kernels.compilation import inner_function


@njit(cache=True)
def relax_all(points: Floats, kind: Kinds, start: Ints, twin: Ints, sharp: Flags, out: Ints) -> None:
    """Slide each vertex along its face, or its crease, towards the middle of its neighbours, one after another; as far
    as no triangle around it is turned over and the worst of them does not become worse.

    Parameters
    ----------
    points, kind, start, twin, sharp, out : as in :class:`half_edges.HalfEdges`; the points are moved in place.
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


# many parameters because compiled code takes the arrays of a surface one by one
@inner_function()
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
        b, c = points[start[next_of(h)]], points[start[previous_of(h)]]
        worst = min(worst, smallest_sine(here, b, c))
        n = cross(here, b, c)
        nx, ny, nz = nx + n[0], ny + n[1], nz + n[2]
        if kind[v] >= 0 or sharp[h]:
            first, last = last, b
            for i in range(3):
                step[i] += b[i] - here[i]
            count += 1
        h = twin[previous_of(h)]
        if h == out[v]:
            break
    if kind[v] < 0:  # along the crease
        nx, ny, nz = last[0] - first[0], last[1] - first[1], last[2] - first[2]
    along = (step[0] * nx + step[1] * ny + step[2] * nz) / max(nx * nx + ny * ny + nz * nz, 1e-300)
    for i, n_i in enumerate((nx, ny, nz)):
        step[i] = along * n_i / count if kind[v] < 0 else (step[i] - along * n_i) / count
    return worst


@inner_function()
def _improves(
    v: int, here: Floats, step: Floats, worst: float, points: Floats, start: Ints, twin: Ints, out: Ints
) -> bool:
    place = here[0] + step[0], here[1] + step[1], here[2] + step[2]
    h = out[v]
    while True:
        b, c = points[start[next_of(h)]], points[start[previous_of(h)]]
        if smallest_sine(place, b, c) < min(worst, 0.6):
            return False
        before, after = cross(here, b, c), cross(place, b, c)
        if dot(before, after) < 0.5 * np.sqrt(dot(before, before) * dot(after, after)):
            return False
        h = twin[previous_of(h)]
        if h == out[v]:
            return True
