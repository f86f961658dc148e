# SPDX-License-Identifier: Apache-2.0
"""Flow inside segments, by finite volumes of second order in space.

The equations are

    dA/dt + dQ/dx = 0,    du/dt + dH/dx = -(f/A + g A + h A^2 |u|) u,    Q = A u,    H = p/rho + u^2/2,

with friction f and, in a stenosis, g and h in its place (:mod:`solver.network.grid`). H is the total pressure over rho.

Pressure and velocity, not areas, are carried to faces, so that at rest H is the same on both sides of each face, and
all flows are zero, however the vessel tapers. Each side's value is that of the third-order parabola (kappa = 1/3), held
back where differences change abruptly (van Albada, van Leer and Roberts 1982; Anderson, Thomas and van Leer 1986). The
flux is the mean of both sides' less the part that waves bring, by the signs of their speeds u + c > 0 > u - c,

    Q = (Q_l + Q_r)/2 - Y/2 (H_r - H_l),    H = (H_l + H_r)/2 - (Q_r - Q_l)/(2 Y),    Y = A/c,

which is Roe's (1981) flux written with differences of fluxes in place of differences of states.
"""

from functools import cache
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solver.kernels.compilation import cached_njit, inner_loop
from solver.network.grid import Grid, Integers
from solver.network.laws import make_law

Reals = NDArray[np.float64]

SMALL_M_S = 0.01
"""Difference of velocity between two cells below which nothing is held back: it is no front."""


class Work(NamedTuple):
    """Arrays that a step fills, (M,) each.

    Attributes
    ----------
    stretch : sqrt(A/A0) of cells.
    pressure : of cells, Pa.
    pressure_left, pressure_right, velocity_left, velocity_right : in a cell, at its left and right face.
    flow, head : fluxes Q and H at faces, m^3/s and m^2/s^2.
    """

    stretch: Reals
    pressure: Reals
    pressure_left: Reals
    pressure_right: Reals
    velocity_left: Reals
    velocity_right: Reals
    flow: Reals
    head: Reals


def make_work(cells: int) -> Work:
    """Arrays for so many cells."""
    return Work(*(np.zeros(cells) for _ in Work._fields))


@inner_loop
def extend(value: Reals, first: Integers, last: Integers) -> None:
    """Fill the cells beyond the ends of segments, by straight lines: parabolas let waves grow in short segments.

    Parameters
    ----------
    value : of each cell; it is changed.
    first, last : first cell of each segment, and the one behind its last.
    """
    for s in range(len(first)):
        a, b = first[s], last[s]
        value[a - 1] = 2.0 * value[a] - value[a + 1]
        value[b + 1] = 2.0 * value[b] - value[b - 1]


@inner_loop
def carry(value: Reals, small: float, left: Reals, right: Reals) -> None:
    """Values at the left and right face of each cell.

    Parameters
    ----------
    value : of cells, (M,).
    small : difference below which nothing is held back.
    left, right : at faces, (M,), filled.
    """
    square = small * small
    for i in range(1, len(value) - 1):
        before, after = value[i] - value[i - 1], value[i + 1] - value[i]
        held = (2.0 * before * after + square) / (before * before + after * after + square)
        held = max(held, 0.0)
        third = held * (1.0 / 3.0)
        left[i] = value[i] - 0.25 * held * ((1.0 - third) * after + (1.0 + third) * before)
        right[i] = value[i] + 0.25 * held * ((1.0 - third) * before + (1.0 + third) * after)


@inner_loop
def advance(base: Reals, now: Reals, share: float, step_s: float, per_length: Reals, flux: Reals, to: Reals) -> None:
    """A stage for what is conserved: (1 - share) base + share (now - dt dflux/dx).

    Parameters
    ----------
    base : what is conserved, at the beginning of the step.
    now : the same, at the beginning of this stage.
    share : weight of this stage, 0 to 1.
    step_s : dt.
    per_length : 1/dx of each cell.
    flux : at the faces.
    to : gets the result.
    """
    kept = 1.0 - share
    for i in range(1, len(now)):
        to[i] = kept * base[i] + share * (now[i] - step_s * per_length[i] * (flux[i] - flux[i - 1]))


@inner_loop
def accelerate(
    velocities: tuple[Reals, Reals],
    area: Reals,
    share: float,
    step_s: float,
    per_length: Reals,
    losses: tuple[Reals, Reals, Reals],
    head: Reals,
    to: Reals,
) -> None:
    """A stage for the velocity, with friction: (1 - share) base + share (now - dt (dH/dx + k u)).

    What a step changes is divided by 1 + (k' dt)^2/4, k' = d(k u)/du, which neither moves the steady flow nor lowers
    the order, and keeps any friction stable.

    Parameters
    ----------
    velocities : base and now.
    area : that belongs to the velocity now.
    share : of the stage.
    step_s : dt.
    per_length : 1/dx, 0 beyond ends.
    losses : friction, linear and square loss of the grid.
    head : H at faces.
    to : filled.
    """
    base, now = velocities
    friction, linear, square = losses
    kept = 1.0 - share
    for i in range(1, len(now)):
        u, a = now[i], area[i]
        loss, more = friction[i] / a + linear[i] * a, square[i] * a * a * abs(u)
        stiff = 0.5 * step_s * (loss + 2.0 * more)
        change = step_s * (per_length[i] * (head[i] - head[i - 1]) + (loss + more) * u) / (1.0 + stiff * stiff)
        to[i] = kept * base[i] + share * (u - change)


@cache
def make_states(linear: bool) -> Any:
    """Loop that fills stretch and pressure of cells from their areas.

    Parameters
    ----------
    linear : whether all walls are.
    """
    pressure_of = make_law(linear).pressure

    @cached_njit()
    def states(area: Reals, area0: Reals, table: Reals, offset: Reals, stretch: Reals, pressure: Reals) -> None:
        for i in range(len(area)):
            stretch[i] = sqrt(area[i] / area0[i])
            pressure[i] = offset[i] + pressure_of(stretch[i], table, i)

    return states


@cache
def make_areas(linear: bool) -> Any:
    """Function (grid, pressure of cells, (M,)) -> their areas, (M,)."""
    stretch_of = make_law(linear).stretch

    @cached_njit()
    def areas(grid: Grid, pressure: Reals) -> Reals:
        area = np.empty_like(pressure)
        for i in range(len(pressure)):
            area[i] = grid.area[i] * stretch_of(pressure[i] - grid.offset[i], 1.0, grid.table, i) ** 2
        return area

    return areas


@cache
def make_fluxes(linear: bool) -> Any:
    """Loop that fills the fluxes at faces between cells; those at nodes by :mod:`solver.network.junctions`."""
    law = make_law(linear)
    stretch_of, slope_of = law.stretch, law.slope

    @inner_loop
    def fluxes(grid: Grid, work: Work) -> None:
        area0, table, offset, stretch = grid.face_area, grid.face_table, grid.offset, work.stretch
        p_left, p_right, u_left, u_right = (
            work.pressure_left,
            work.pressure_right,
            work.velocity_left,
            work.velocity_right,
        )
        flow, head, per_density = work.flow, work.head, 1.0 / grid.density
        for j in range(1, len(flow) - 2):
            p_l, p_r, u_l, u_r = p_right[j], p_left[j + 1], u_right[j], u_left[j + 1]
            p = 0.5 * (p_l + p_r)
            s = stretch_of(p - offset[j], stretch[j], table, j)
            slope = slope_of(s, table, j)
            s_l = s + (p_l - p) / slope  # of the small jump at a face the square is left out
            s_r = s + (p_r - p) / slope
            celerity = sqrt(0.5 * per_density * s * slope)
            admittance = area0[j] * s * s / celerity
            q_l, q_r = area0[j] * s_l * s_l * u_l, area0[j] * s_r * s_r * u_r
            h_l, h_r = p_l * per_density + 0.5 * u_l * u_l, p_r * per_density + 0.5 * u_r * u_r
            flow[j] = 0.5 * (q_l + q_r - admittance * (h_r - h_l))
            head[j] = 0.5 * (h_l + h_r - (q_r - q_l) / admittance)

    return fluxes


@cache
def make_fastest(linear: bool) -> Any:
    """Function that finds the largest (|u| + c)/dx of all cells, 1/s; not a number where a state is none."""
    slope_of = make_law(linear).slope

    @cached_njit()
    def fastest(grid: Grid, stretch: Reals, velocity: Reals) -> float:
        largest = 0.0
        for i in range(len(stretch)):
            celerity = sqrt(0.5 / grid.density * stretch[i] * slope_of(stretch[i], grid.table, i))
            rate = (abs(velocity[i]) + celerity) * grid.per_length[i]
            if not (rate <= largest):
                largest = rate
        return largest

    return fastest
