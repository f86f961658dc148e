# SPDX-License-Identifier: Apache-2.0
"""Exact distances of nodes in a band along the wall."""

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from pipeline.files.mesh import Mesh
from pipeline.geometry.lattice.frame import Frame
from pipeline.geometry.surface.distance import to_triangle

BAND = 2.0
"""Width of the band in spacings."""

SLAB = 8
"""Layers of nodes along z that one thread takes at a time."""


def distances_mm(mesh: Mesh, frame: Frame, number: NDArray[np.int32], count: int) -> NDArray[np.float32]:
    """Distance of nodes to the wall, (count,), mm: to the nearest triangle that is no cap; infinite beyond the band.

    Every triangle is measured from all nodes within the band around its box. Threads share out layers of nodes, and of
    several distances the smallest stays, so that neither their number nor the order of triangles matters.

    Parameters
    ----------
    mesh : the surface.
    frame : where the lattice lies.
    number : [z, y, x], the place of each node in the result, -1 for nodes that are not wanted.
    count : number of nodes that are.
    """
    corners = (mesh.points_mm[mesh.triangles[mesh.opening == 0]] - frame.origin_mm) / frame.spacing_mm
    low = np.maximum(np.ceil(corners.min(axis=1) - BAND), 0).astype(np.int32)
    high = np.minimum(np.floor(corners.max(axis=1) + BAND), np.array(frame.shape[::-1]) - 1).astype(np.int32)
    near = np.flatnonzero((low <= high).all(axis=1))
    slabs = high[near, 2] // SLAB - low[near, 2] // SLAB + 1
    triangle = np.repeat(near, slabs)
    slab = np.repeat(low[near, 2] // SLAB - np.cumsum(slabs) + slabs, slabs) + np.arange(len(triangle))
    triangle = triangle[np.argsort(slab, kind="stable")]
    starts = np.concatenate(([0], np.cumsum(np.bincount(slab, minlength=-(-frame.shape[0] // SLAB)))))
    square = np.full(count, np.inf, np.float32)
    _measure(corners, low, high, triangle, starts, number, square)
    square[square > BAND**2] = np.inf
    return np.sqrt(square) * np.float32(frame.spacing_mm)


@njit(parallel=True, cache=True)
def _measure(
    corners: NDArray[np.float64],
    low: NDArray[np.int32],
    high: NDArray[np.int32],
    triangle: NDArray[np.int64],
    starts: NDArray[np.int64],
    number: NDArray[np.int32],
    square: NDArray[np.float32],
) -> None:
    """Squares of the distances, in spacings; triangles of slab s stand from ``starts[s]`` on."""
    for slab in prange(len(starts) - 1):
        for k in range(starts[slab], starts[slab + 1]):
            t = triangle[k]
            for z in range(max(low[t, 2], slab * SLAB), min(high[t, 2], slab * SLAB + SLAB - 1) + 1):
                for y in range(low[t, 1], high[t, 1] + 1):
                    for x in range(low[t, 0], high[t, 0] + 1):
                        n = number[z, y, x]
                        if n >= 0:
                            found = to_triangle(float(x), float(y), float(z), corners, t)[0]
                            square[n] = min(square[n], np.float32(found))
