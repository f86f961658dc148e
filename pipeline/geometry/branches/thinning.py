# SPDX-License-Identifier: Apache-2.0
"""Thinning: the curve skeleton of a solid, with the solid's topology.

Voxels are removed from the outside inwards, in the order of their distance to the background, as long as neither the
solid nor the background changes its connections (distance-ordered homotopic thinning, Pudney 1998,
doi:10.1006/cviu.1998.0680; simple points after Bertrand and Malandain 1994, doi:10.1016/0167-8655(94)90046-9). The
tips of the solid, from which there is no way further away within it, stay. The parallel thinning in scikit-image 0.26
loses whole vessels that lie symmetrically on the grid.
"""

import numpy as np
import SimpleITK as sitk
from numba import njit
from numpy.typing import NDArray
from scipy import ndimage

from solver.kernels.compilation import inner_function

TIP_REACH = 2
"""A tip is at least as far away as everything within so many voxels along each axis."""

_CELLS = np.stack(np.meshgrid(*[np.arange(-1, 2)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
_ORDER = np.abs(_CELLS).sum(axis=1)
_LENGTH = np.array([0, 3, 4, 5])[_ORDER]
"""Chamfer lengths of the steps to the 26 cells (Borgefors 1986), in thirds of a voxel."""
_APART = np.abs(_CELLS[:, None] - _CELLS[None])
_FACES = np.flatnonzero(_ORDER == 1)
_TOUCHING = (_APART.max(axis=-1) == 1) & (_ORDER > 0)[:, None] & (_ORDER > 0)
"""Which of the 26 cells around a voxel, of 27, are 26-neighbours of each other."""
_BESIDE = (_APART.sum(axis=-1) == 1) & (_ORDER % 3 > 0)[:, None] & (_ORDER % 3 > 0)
"""Which of the 18 cells that share a face or an edge with a voxel are 6-neighbours of each other."""


def thin(solid: NDArray[np.bool_], ends: NDArray[np.integer] | None = None) -> NDArray[np.bool_]:
    """Curve skeleton of a solid.

    Parameters
    ----------
    solid : (Z, Y, X) bool; one 26-connected piece, the background 6-connected.
    ends : (n, 3), voxels (z, y, x) of the solid to which the curves run; by default its :func:`tips`.

    Returns
    -------
    (Z, Y, X) bool: curves of one voxel's width from end to end, one piece with as many loops as the solid.
    """
    padded = np.pad(solid, 1).astype(np.uint8)
    places = np.argwhere(padded).astype(np.int32)
    kept = np.zeros_like(padded)
    kept[tuple((tips(solid) if ends is None else ends).T + 1)] = 1
    depth = _squared_depth(padded)[tuple(places.T)]
    order = np.argsort(depth, kind="stable")
    _peel(padded, kept, places[order], depth[order], _CELLS, _FACES, _TOUCHING, _BESIDE)
    return padded[1:-1, 1:-1, 1:-1].astype(bool)


def _squared_depth(solid: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Square of the distance to the background, voxels."""
    background = sitk.GetImageFromArray(1 - solid)
    distance = sitk.SignedMaurerDistanceMap(background, insideIsPositive=False, squaredDistance=True)
    return np.asarray(sitk.GetArrayFromImage(distance))


def tips(solid: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Voxels from which every way within the solid leads back, seen from the voxel furthest from any other.

    Parameters
    ----------
    solid : (Z, Y, X) bool, one 26-connected piece.

    Returns
    -------
    (n, 3) int32, voxels (z, y, x); the one that is furthest from any other stands first.
    """
    padded = np.pad(solid, TIP_REACH).astype(np.uint8)
    places = np.argwhere(padded).astype(np.int32)
    start = places[0]
    for _ in range(2):
        far = np.full(padded.shape, -1, np.int32)
        _walk(padded, far, start, _CELLS, _LENGTH, np.empty((6, len(places), 3), np.int32))
        first, start = start, places[np.argmax(far[tuple(places.T)])]
    peak = np.zeros_like(padded)
    _mark_peaks(far, peak, places, TIP_REACH)
    plateau, _ = ndimage.label(peak, np.ones((3, 3, 3)))
    number, row = np.unique(plateau[tuple(places.T)], return_index=True)
    return np.concatenate([first[None], places[row[number > 0]]]) - TIP_REACH


# number by number: rows that are copied as a whole take five times as long to compile as all else here
@njit(cache=True)
def _walk(solid, far, start, cells, length, ring):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Fill `far` with the lengths of the shortest ways from a voxel (Dial 1969); `ring`, (6, n, 3), is for its use."""
    waiting = np.zeros(6, np.int64)
    ring[0, 0, 0], ring[0, 0, 1], ring[0, 0, 2] = start
    far[start[0], start[1], start[2]] = 0
    waiting[0] = 1
    now = 0
    while waiting.any():
        slot = now % 6
        for n in range(waiting[slot]):
            z, y, x = ring[slot, n]
            if far[z, y, x] < now:
                continue
            for k in range(27):
                there = z + cells[k, 0], y + cells[k, 1], x + cells[k, 2]
                known = far[there]
                if solid[there] and (known < 0 or known > now + length[k]):
                    far[there] = now + length[k]
                    later = far[there] % 6
                    last = waiting[later]
                    ring[later, last, 0], ring[later, last, 1], ring[later, last, 2] = there
                    waiting[later] += 1
        waiting[slot] = 0
        now += 1


@njit(cache=True)
def _mark_peaks(far, peak, places, reach):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Mark the places where `far` is largest within a reach."""
    for n in range(len(places)):
        z, y, x = places[n]
        most = far[z, y, x]
        for k in range(z - reach, z + reach + 1):
            for j in range(y - reach, y + reach + 1):
                for i in range(x - reach, x + reach + 1):
                    most = max(most, far[k, j, i])
        peak[z, y, x] = far[z, y, x] == most


@njit(cache=True)
def _peel(solid, kept, places, depth, cells, faces, touching, beside):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Peel a padded solid, (Z, Y, X) uint8, in place; `places` are its voxels, (n, 3), by their depth."""
    inside, stack = np.empty(27, np.bool_), np.empty(27, np.int64)
    left, reached = 0, 0
    while reached < len(places):
        layer = depth[reached]
        while reached < len(places) and depth[reached] == layer:
            _move(places, reached, left)
            left += 1
            reached += 1
        before = left + 1
        while left < before:
            before, left = left, 0
            for n in range(before):
                z, y, x = places[n]
                if not kept[z, y, x] and _is_simple(solid, z, y, x, cells, faces, touching, beside, inside, stack):
                    solid[z, y, x] = 0
                else:
                    _move(places, n, left)
                    left += 1


@inner_function()
def _move(places, here, there):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Copy a row to another."""
    for axis in range(3):
        places[there, axis] = places[here, axis]


# many parameters because compiled code takes the tables of a neighbourhood and the room to work in one by one
@inner_function()
def _is_simple(solid, z, y, x, cells, faces, touching, beside, inside, stack):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Whether a voxel's removal joins or parts nothing."""
    first, neighbours = -1, 0
    for k in range(27):
        inside[k] = k != 13 and solid[z + cells[k, 0], y + cells[k, 1], x + cells[k, 2]] > 0
        if inside[k]:
            first = k
            neighbours += 1
    if neighbours == 0 or _flood(inside, first, touching, stack) < neighbours:
        return False
    for k in range(27):
        inside[k] = solid[z + cells[k, 0], y + cells[k, 1], x + cells[k, 2]] == 0
    first = -1
    for face in faces:
        if inside[face]:
            first = face
    if first < 0:
        return False
    _flood(inside, first, beside, stack)
    return not inside[faces].any()


@inner_function()
def _flood(inside, start, near, stack):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Empty the connected part of a neighbourhood that holds a cell, and count its cells."""
    inside[start] = False
    stack[0] = start
    depth, count = 1, 1
    while depth:
        depth -= 1
        here = stack[depth]
        for k in range(27):
            if inside[k] and near[here, k]:
                inside[k] = False
                stack[depth] = k
                depth += 1
                count += 1
    return count
