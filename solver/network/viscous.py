# SPDX-License-Identifier: Apache-2.0
"""Viscous walls: Kelvin and Voigt's part of the pressure, p_v = Gamma/(A0 sqrt(A)) dA/dt = -Gamma/(A0 sqrt(A)) dQ/dx.

It diffuses flow along the segment, dQ/dt = A/rho d/dx (Gamma/(A0 sqrt(A)) dQ/dx), which is solved after each step by
the method of Crank and Nicolson with the areas and the flows at nodes that the step ended with (Alastruey et al. 2011,
doi:10.1016/j.jbiomech.2011.05.041, split off as there). Areas stay as they are, and so does mass.
"""

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from solver.kernels.compilation import inner_loop
from solver.kernels.node_physics import node_function
from solver.network.grid import Grid

Reals = NDArray[np.float64]


@node_function
def _conductance(grid: Grid, area: Reals, face: int, left: int, right: int) -> float:
    """Gamma/(A0 sqrt(A)) at a face between two cells, Pa s/m^2."""
    return grid.viscous[face] / sqrt(0.5 * (area[left] + area[right]))


@inner_loop
def diffuse(
    grid: Grid, area: Reals, velocity: Reals, node_outflow: Reals, step_s: float, scratch: tuple[Reals, Reals]
) -> None:
    """Change velocities by the walls' viscosity over a step.

    Parameters
    ----------
    grid : of the network.
    area, velocity : of cells, (M,); the second is changed.
    node_outflow : flow out of ends of segments, (2 S,), mean over the step.
    step_s : dt.
    scratch : two arrays, (M,).
    """
    upper, right = scratch
    for v in range(len(grid.viscoelastic)):
        s = grid.viscoelastic[v]
        a, b = grid.first[s], grid.last[s]
        start, end = -node_outflow[2 * s], node_outflow[2 * s + 1]
        scale = 0.5 * step_s * grid.per_length[a] ** 2 / grid.density
        for i in range(a, b + 1):
            flow = area[i] * velocity[i]
            before = (
                2.0 * _conductance(grid, area, i - 1, i, i) if i == a else _conductance(grid, area, i - 1, i - 1, i)
            )
            after = 2.0 * _conductance(grid, area, i, i, i) if i == b else _conductance(grid, area, i, i, i + 1)
            left_flow = start if i == a else area[i - 1] * velocity[i - 1]
            right_flow = end if i == b else area[i + 1] * velocity[i + 1]
            part = scale * area[i]
            known = flow + part * (after * (right_flow - flow) - before * (flow - left_flow))
            known += part * after * end if i == b else 0.0
            known += part * before * start if i == a else 0.0
            lower = 0.0 if i == a else -part * before
            diagonal = 1.0 + part * (before + after)
            pivot = diagonal - (0.0 if i == a else lower * upper[i - 1])
            upper[i] = 0.0 if i == b else -part * after / pivot
            right[i] = (known - (0.0 if i == a else lower * right[i - 1])) / pivot
        for i in range(b - 1, a - 1, -1):
            right[i] -= upper[i] * right[i + 1]
        for i in range(a, b + 1):
            velocity[i] = right[i] / area[i]


@node_function
def viscous_pressure(grid: Grid, area: Reals, flow: Reals, i: int) -> float:
    """Viscous part of the pressure of a cell, by the flows at its faces; 0 in the cells beyond ends.

    Parameters
    ----------
    grid : cells of all segments.
    area, flow : of the cells, and at their faces.
    i : number of the cell.
    """
    gamma = 0.5 * (grid.viscous[i - 1] + grid.viscous[i])
    return -gamma / sqrt(area[i]) * (flow[i] - flow[i - 1]) * grid.per_length[i]
