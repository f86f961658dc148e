# SPDX-License-Identifier: Apache-2.0
"""Gradient of the velocity at the fluid nodes, and what follows from it: vorticity, Q, lambda2, helicity.

Derivatives are those of a parabola through three values along each axis. Towards the wall one of them is the wall
itself, where blood is at rest, as far away as the node's link says: so vorticity keeps its order up to the wall.
"""

from collections.abc import Iterator

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from solver.domain.nodes import Neighbours, Nodes
from solver.kernels.compilation import inner_function

AXES = ((1, 2), (3, 4), (5, 6))
"""Directions of the velocity set along +x and -x, +y and -y, +z and -z."""

NONE = -1
"""In a table of ends: neither fluid nor a wall at rest lies there."""

NEAR = 0.5
"""A node nearer to the wall than this, in spacings, leaves its part to the two places beyond it: divided by so short a
way, its own error would be what is seen."""

CHUNK = 1 << 20
"""Nodes that are worked on at a time, so that memory does not grow with the lattice."""


class Gradient:
    """Finds the velocity's gradient on a lattice, for one field after the other.

    Parameters
    ----------
    nodes : the lattice. Walls of named patches may slide or slip: nothing is taken for granted there.
    """

    def __init__(self, nodes: Nodes) -> None:
        neighbours = Neighbours(nodes)
        self._ends = np.empty((3, 2, nodes.count), np.int32)
        self._q = nodes.wall_link_q
        for axis, directions in enumerate(AXES):
            for side, direction in enumerate(directions):
                ends = self._ends[axis, side]
                ends[:] = neighbours.along(direction)
                links = np.flatnonzero((nodes.wall_link_direction == direction) & (nodes.wall_link_patch == 0))
                ends[nodes.wall_link_node[links]] = NONE - 1 - links
        self._spacing_m = nodes.spacing_mm * 1e-3

    def of(self, velocity_m_s: NDArray[np.floating]) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Rows and gradient of their nodes, (K, 3, 3), [i, j] = d u_i / d x_j, 1/s, part by part.

        Parameters
        ----------
        velocity_m_s : (N, 3), (x, y, z), LPS.
        """
        velocity = np.ascontiguousarray(velocity_m_s, np.float32)
        for first in range(0, len(velocity), CHUNK):
            rows = slice(first, min(first + CHUNK, len(velocity)))
            found = np.empty((rows.stop - rows.start, 3, 3))
            _gradient(self._ends, self._q, velocity, rows.start, self._spacing_m, found)
            yield rows, found

    def curl(self, velocity_m_s: NDArray[np.floating]) -> NDArray[np.float32]:
        """Vorticity curl u of all nodes, (N, 3), 1/s, without keeping the gradient."""
        found = np.empty((len(velocity_m_s), 3), np.float32)
        _curl(self._ends, self._q, np.ascontiguousarray(velocity_m_s, np.float32), self._spacing_m, found)
        return found


@njit(parallel=True, cache=True)
def _gradient(
    ends: NDArray[np.int32],
    q: NDArray[np.float32],
    velocity: NDArray[np.float32],
    first: int,
    spacing_m: float,
    found: NDArray[np.float64],
) -> None:
    for k in prange(len(found)):
        for axis in range(3):
            for i in range(3):
                found[k, i, axis] = _derivative(ends, q, velocity, first + k, i, axis) / spacing_m


@njit(parallel=True, cache=True)
def _curl(
    ends: NDArray[np.int32],
    q: NDArray[np.float32],
    velocity: NDArray[np.float32],
    spacing_m: float,
    found: NDArray[np.float32],
) -> None:
    for n in prange(len(found)):
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            up, down, left, right = ends[j, 0, n], ends[j, 1, n], ends[k, 0, n], ends[k, 1, n]
            if min(min(up, down), min(left, right)) >= 0:  # as in most places, and then without a call
                turning = (velocity[up, k] - velocity[down, k] - velocity[left, j] + velocity[right, j]) / 2
            else:
                turning = _derivative(ends, q, velocity, n, k, j) - _derivative(ends, q, velocity, n, j, k)
            found[n, i] = turning / spacing_m


@inner_function()
def _derivative(
    ends: NDArray[np.int32], q: NDArray[np.float32], velocity: NDArray[np.float32], node: int, i: int, axis: int
) -> float:
    """Derivative of component i along an axis, per spacing."""
    forward, backward = ends[axis, 0, node], ends[axis, 1, node]
    if forward >= 0 and backward >= 0:
        return float(velocity[forward, i] - velocity[backward, i]) / 2
    ahead = _reach(ends[axis, 0], q, velocity, node, i)
    behind = _reach(ends[axis, 1], q, velocity, node, i)
    return _slope(float(velocity[node, i]), ahead, behind)


@inner_function()
def _reach(
    ends: NDArray[np.int32], q: NDArray[np.float32], velocity: NDArray[np.float32], node: int, i: int
) -> tuple[int, float, float, float, float]:
    """Places along one way from a node where a value is known: how many, distance and component i of two."""
    end = ends[node]
    if end < NONE:
        return 1, q[NONE - 1 - end], 0.0, 0.0, 0.0
    if end == NONE:
        return 0, 0.0, 0.0, 0.0, 0.0
    far, value = ends[end], float(velocity[end, i])
    if far < NONE:
        return 2, 1.0, value, 1.0 + q[NONE - 1 - far], 0.0
    if far == NONE:
        return 1, 1.0, value, 0.0, 0.0
    return 2, 1.0, value, 2.0, float(velocity[far, i])


@inner_function()
def _slope(
    here: float, ahead: tuple[int, float, float, float, float], behind: tuple[int, float, float, float, float]
) -> float:
    """Derivative at a node, per spacing, of the parabola through three values; of a line where there are but two."""
    count_ahead, near, value, far, far_value = ahead
    count_behind, back, back_value, far_back, far_back_value = behind
    if count_ahead and count_behind:
        if back < NEAR and count_ahead == 2:
            return _parabola(-back, back_value, near, value, far, far_value)
        if near < NEAR and count_behind == 2:
            return _parabola(near, value, -back, back_value, -far_back, far_back_value)
        return _parabola(-back, back_value, 0.0, here, near, value)
    if count_ahead == 2:
        return _parabola(0.0, here, near, value, far, far_value)
    if count_behind == 2:
        return _parabola(0.0, here, -back, back_value, -far_back, far_back_value)
    if count_ahead:
        return (value - here) / near
    if count_behind:
        return (here - back_value) / back
    return 0.0


@inner_function()
def _parabola(a: float, at_a: float, b: float, at_b: float, c: float, at_c: float) -> float:
    """Slope at 0 of the parabola through (a, at_a), (b, at_b) and (c, at_c)."""
    first, second = (at_b - at_a) / (b - a), (at_c - at_b) / (c - b)
    return first - (second - first) / (c - a) * (a + b)


def q_criterion(gradient: NDArray[np.float64]) -> NDArray[np.float64]:
    """Q = (Omega:Omega - S:S)/2 = -tr(G G)/2 of an incompressible flow, (K,), 1/s2; positive where rotation prevails.

    S and Omega are the symmetric and the antisymmetric part of the gradient G, freed of its trace.

    Source: Hunt, Wray and Moin (1988), Eddies, streams and convergence zones in turbulent flows, CTR-S88.
    """
    free = _without_trace(gradient)
    return -np.einsum("kij,kji->k", free, free) / 2


def lambda2(gradient: NDArray[np.float64]) -> NDArray[np.float64]:
    """Middle eigenvalue of S S + Omega Omega, (K,), 1/s2; negative in the core of a vortex.

    Source: Jeong and Hussain (1995), doi:10.1017/S0022112095000462.
    """
    found = np.empty(len(gradient))
    _middle_eigenvalue(_without_trace(gradient), found)
    return found


def _without_trace(gradient: NDArray[np.float64]) -> NDArray[np.float64]:
    return gradient - np.trace(gradient, axis1=1, axis2=2)[:, None, None] / 3 * np.eye(3)


@njit(parallel=True, cache=True)
def _middle_eigenvalue(gradient: NDArray[np.float64], found: NDArray[np.float64]) -> None:
    """Of the symmetric part of G G, which is S S + Omega Omega, by its characteristic polynomial.

    Source: Smith (1961), doi:10.1145/355578.366316.
    """
    for k in prange(len(found)):
        square = gradient[k] @ gradient[k]
        m = (square + square.T) / 2
        mean = (m[0, 0] + m[1, 1] + m[2, 2]) / 3
        for i in range(3):
            m[i, i] -= mean
        size = np.sqrt((m * m).sum() / 6)
        if size == 0:
            found[k] = mean
            continue
        determinant = (
            m[0, 0] * (m[1, 1] * m[2, 2] - m[1, 2] * m[2, 1])
            - m[0, 1] * (m[1, 0] * m[2, 2] - m[1, 2] * m[2, 0])
            + m[0, 2] * (m[1, 0] * m[2, 1] - m[1, 1] * m[2, 0])
        )
        angle = np.arccos(min(1.0, max(-1.0, determinant / (2 * size**3)))) / 3
        found[k] = mean + 2 * size * np.cos(angle - 2 * np.pi / 3)
