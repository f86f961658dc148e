# SPDX-License-Identifier: Apache-2.0
"""Momentum of a velocity that is not the same all over the lumen: what the profile adds to the equation for u.

The flow of momentum is alpha rho A u^2. In du/dt + dH/dx = ... with H = p/rho + u^2/2 that leaves

    -(alpha - 1)/A d(Q^2/A)/dx

on the right, which is taken by differences over a cell of the flows that cross its faces: it vanishes at rest, and a
steady flow without friction keeps p/rho + alpha u^2/2. Small waves then run at alpha u +- sqrt(c^2 + alpha (alpha - 1)
u^2). Nodes keep the total pressure p + rho u^2/2. Source: Formaggia, Lamponi and Quarteroni (2003),
doi:10.1023/B:ENGI.0000007980.01347.29; alpha is the coefficient of Coriolis or Boussinesq.
"""

import numpy as np
from numpy.typing import NDArray

from solver.kernels.compilation import inner_loop
from solver.network.grid import Grid

Reals = NDArray[np.float64]


@inner_loop
def add_profile(
    grid: Grid,
    states: tuple[Reals, Reals],
    flow: Reals,
    end_area: Reals,
    share: float,
    step_s: float,
    to: Reals,
) -> None:
    """Add to the velocities of a stage, in segments whose alpha is not 1.

    Parameters
    ----------
    grid : of the network.
    states : areas and velocities that the flows belong to, (M,) each.
    flow : at faces, (M,).
    end_area : at ends of segments, (2 S,).
    share : of the stage.
    step_s : dt.
    to : velocities, changed; where friction is stiff by as much less as :func:`solver.network.cells.accelerate` does.
    """
    area, velocity = states
    for v in range(len(grid.profiled)):
        s = grid.profiled[v]
        first, last = grid.first[s], grid.last[s]
        before = flow[first - 1] ** 2 / end_area[2 * s]
        for i in range(first, last + 1):
            lumen = end_area[2 * s + 1] if i == last else 0.5 * (area[i] + area[i + 1])
            after = flow[i] ** 2 / lumen
            loss = grid.friction[i] / area[i] + grid.linear_loss[i] * area[i]
            stiff = 0.5 * step_s * (loss + 2.0 * grid.square_loss[i] * area[i] ** 2 * abs(velocity[i]))
            change = grid.excess[s] * grid.per_length[i] * (after - before) / area[i]
            to[i] -= share * step_s * change / (1.0 + stiff * stiff)
            before = after


def profile_work_j(grid: Grid, cells: tuple[Reals, Reals], ends: tuple[Reals, Reals], period_s: float) -> float:
    """Work that this term takes from the flow in a cycle, rho (alpha - 1) u d(Q^2/A) over cells, J.

    Parameters
    ----------
    grid : of the network.
    cells : areas and velocities, (samples, M).
    ends : areas and flows at ends of segments, (samples, 2 S).
    period_s : of the cycle.
    """
    (area, velocity), (end_area, end_flow), power = cells, ends, 0.0
    for s in grid.profiled:
        rows = slice(int(grid.first[s]), int(grid.last[s]) + 1)
        a, u = area[:, rows], velocity[:, rows]
        lumen, flow = 0.5 * (a[:, 1:] + a[:, :-1]), 0.5 * ((a * u)[:, 1:] + (a * u)[:, :-1])
        at_ends = end_flow[:, 2 * s : 2 * s + 2] ** 2 / end_area[:, 2 * s : 2 * s + 2]
        momentum = np.hstack((at_ends[:, :1], flow**2 / lumen, at_ends[:, 1:]))
        power += grid.density * grid.excess[s] * np.sum(u * np.diff(momentum, axis=1), axis=1).mean()
    return float(power * period_s)
