# SPDX-License-Identifier: Apache-2.0
"""The cell of the lattice in which a particle is: its corners, and the velocity in it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.haemodynamics.interpolation import Blocks, corners, weight_of
from solver.kernels.compilation import inner_function

NUMBERS, FLOATS = 16, 96
"""Memory of a room: whole lines of the cache, so that no two threads write to one; some of it is not used."""


class Between(NamedTuple):
    """Two snapshots that follow each other, between which the velocity is linear in time.

    Attributes
    ----------
    before, after : (M, 3) float32, m/s, by the rows of the interpolation.
    begin_s, end_s : their times.
    steady : whether both are the same snapshot.
    """

    before: NDArray[np.float32]
    after: NDArray[np.float32]
    begin_s: float
    end_s: float
    steady: bool


class Stepping(NamedTuple):
    """What holds for all steps of all particles.

    Attributes
    ----------
    scale : spacings in a metre.
    longest : longest way of a step, in spacings.
    distance : (M,) float32, distance to the wall, in spacings, by the rows of the interpolation.
    openings : (O, 7), centre in lattice indices x, y, z, outward unit normal, and reach in spacings.
    ids : (O,) int8, of the openings.
    """

    scale: float
    longest: float
    distance: NDArray[np.float32]
    openings: NDArray[np.float64]
    ids: NDArray[np.int8]


class Room(NamedTuple):
    """What a thread works in: the cell in which its particle was last, and vectors of a step.

    Steps are shorter than a cell, so most places are in the cell of the place before: its corners are looked up once.
    The memory comes from outside the loop: Numba counts references to arrays that are made within one each time that
    they are handed on, which took more than half of the time.

    Attributes
    ----------
    cell : (4,) int64, lattice index of the cell, x, y, z, and how many of its corners have values.
    row : (8,) int64, rows of its corners, -1 where there is no value.
    before, after : (8, 3), velocities at its corners, 0 where there is no value.
    distance : (8,), distances to the wall at its corners.
    weight : (8,), of the corners at a place.
    old, new : (3,), places before and after a step.
    slope : (4, 3), velocities of its stages.
    """

    cell: NDArray[np.int64]
    row: NDArray[np.int64]
    before: NDArray[np.float64]
    after: NDArray[np.float64]
    distance: NDArray[np.float64]
    weight: NDArray[np.float64]
    old: NDArray[np.float64]
    new: NDArray[np.float64]
    slope: NDArray[np.float64]


@inner_function(forceinline=True)
def room_in(numbers: NDArray[np.int64], whole: NDArray[np.float64]) -> Room:
    """Views of pieces of memory, in no cell yet.

    Parameters
    ----------
    numbers, whole : (NUMBERS,) and (FLOATS,).
    """
    numbers[3] = -1
    return Room(
        numbers[:4],
        numbers[4:12],
        whole[:24].reshape(8, 3),
        whole[24:48].reshape(8, 3),
        whole[48:56],
        whole[56:64],
        whole[64:67],
        whole[67:70],
        whole[70:82].reshape(4, 3),
    )


@inner_function(forceinline=True)
def enter(place: NDArray[np.float64], flow: Between, stepping: Stepping, table: Blocks, room: Room) -> None:
    """Look up the corners of the cell around a place, if that is another cell, and their weights at the place.

    Parameters
    ----------
    place : (3,), lattice indices x, y, z.
    flow, stepping, table : velocities, distances to the wall, and where their rows are looked up.
    room : is filled.
    """
    cell, row, before, after, distance, weight = room[:6]
    i, j, k = int(np.floor(place[0])), int(np.floor(place[1])), int(np.floor(place[2]))
    if i != cell[0] or j != cell[1] or k != cell[2] or cell[3] < 0:
        cell[0], cell[1], cell[2], cell[3] = i, j, k, 0
        corners(place[0], place[1], place[2], table, row)
        for corner in range(8):
            n = row[corner]
            known = n >= 0
            cell[3] += known
            for axis in range(3):
                before[corner, axis] = flow.before[n, axis] if known else 0.0
                after[corner, axis] = flow.after[n, axis] if known else 0.0
            distance[corner] = stepping.distance[n] if known else 0.0
    a, b, c = place[0] - i, place[1] - j, place[2] - k
    for corner in range(8):
        weight[corner] = weight_of(corner, a, b, c)


@inner_function(forceinline=True)
def _at_snapshot(values: NDArray[np.float64], weight: NDArray[np.float64]) -> tuple[float, float, float]:
    """Velocity of one snapshot, by its values at the corners of a cell, (8, 3); those without value are 0."""
    u = v = w = 0.0
    for corner in range(8):
        u += weight[corner] * values[corner, 0]
        v += weight[corner] * values[corner, 1]
        w += weight[corner] * values[corner, 2]
    return u, v, w


@inner_function(forceinline=True)
def blend(later: float, steady: bool, room: Room) -> tuple[float, float, float]:
    """Velocity at the place that was entered.

    Parameters
    ----------
    later : part of the interval between two snapshots.
    steady : whether they are the same.
    room : with the cell around the place.
    """
    before, after, weight = room.before, room.after, room.weight
    if steady:
        return _at_snapshot(before, weight)
    u = v = w = 0.0
    for corner in range(8):
        old, new = weight[corner] * (1 - later), weight[corner] * later
        u += old * before[corner, 0] + new * after[corner, 0]
        v += old * before[corner, 1] + new * after[corner, 1]
        w += old * before[corner, 2] + new * after[corner, 2]
    return u, v, w


@inner_function(forceinline=True)
def liveliness(values: NDArray[np.float64], room: Room) -> float:
    """The speed in a cell, or how far a corner's velocity is from the velocity there if that is more: where slow
    particles are in the middle of a whirl or beside the wall, their steps are as short as its turn asks.
    """
    u, v, w = _at_snapshot(values, room.weight)
    square = u * u + v * v + w * w
    for corner in range(8):
        if room.row[corner] >= 0:
            square = max(
                square, (values[corner, 0] - u) ** 2 + (values[corner, 1] - v) ** 2 + (values[corner, 2] - w) ** 2
            )
    return np.sqrt(square)
