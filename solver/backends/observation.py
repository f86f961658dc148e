# SPDX-License-Identifier: Apache-2.0
"""Observations of a whole flow at one step, and their partial results, which parts of a domain add up."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solver.kernels.sums import LIMBS, Limbs, total


@dataclass(frozen=True)
class Observation:
    """One observation of a flow, lattice units; infinite extremes where a population is not finite.

    Attributes
    ----------
    change : root mean square change of the velocity since the last kept observation, over the mean speed.
    mean_speed, max_speed : of the velocity.
    mean_square : of the speed, mean.
    node, dense_node : rows of the nodes with the largest speed and the largest deviation of the density, each the first
        of several.
    max_drho : that deviation.
    mean_drho : mean deviation of the density.
    inflow : (openings,) fluid that entered through each opening in the last step: the exact flux over its links.
    backflow : (openings,) fluid that entered through each outlet in the last step at nodes where more came in than went
        out.
    opening_drho : (openings,) mean density deviation over the nodes at each opening.
    wide_change : the change of the velocity over the own speed of each node, at most 1, root mean square over the nodes
        of :attr:`solver.backends.lattice.Lattice.wide`; 0 where there are none.
    """

    change: float
    mean_speed: float
    max_speed: float
    mean_square: float
    node: int
    dense_node: int
    max_drho: float
    mean_drho: float
    inflow: NDArray[np.float64]
    backflow: NDArray[np.float64]
    opening_drho: NDArray[np.float64]
    wide_change: float = 0.0


@dataclass(frozen=True)
class ObservationAccumulator:
    """An observation before it is divided by numbers of nodes, as partial results that add up in any order.

    Attributes
    ----------
    sums : (P, 6, 3) limbs of the sums of squared changes of the velocity, speeds, their squares and drho,
        and, where a vessel is wide, of squared changes over the own speed and of ones, see :mod:`solver.kernels.sums`.
    extremes : (P, 4) largest squared speed and the first row where it stands, largest size of drho and the same.
    openings : (3, openings, 3) limbs of inflow, backflow and the sum of drho over the nodes at each opening.
    """

    sums: Limbs
    extremes: NDArray[np.float64]
    openings: Limbs

    def condensed(self) -> "ObservationAccumulator":
        """The same as one partial result, P = 1."""
        extremes = [number for k in (0, 2) for number in _largest(self.extremes[:, k : k + 2])]
        return ObservationAccumulator(self.sums.sum(axis=0, keepdims=True), np.array([extremes]), self.openings)

    def observation(self, count: int, probes: NDArray[np.int64]) -> Observation:
        """The observation of `count` nodes, of which so many lie at each opening."""
        change, speed, squares, drho, relative, wide = total(self.sums.sum(axis=0))
        (square, node), (max_drho, dense_node) = (_largest(self.extremes[:, k : k + 2]) for k in (0, 2))
        mean_speed = float(speed) / count
        inflow, backflow, opening_drho = total(self.openings)
        return Observation(
            change=float(np.sqrt(change / count) / mean_speed) if mean_speed > 0 else np.inf,
            mean_speed=mean_speed,
            max_speed=float(np.sqrt(square)),
            mean_square=float(squares) / count,
            node=node,
            dense_node=dense_node,
            max_drho=max_drho,
            mean_drho=float(drho) / count,
            inflow=inflow,
            backflow=backflow,
            opening_drho=opening_drho / np.maximum(probes, 1),
            wide_change=float(np.sqrt(relative / max(wide, 1.0))),
        )


def _largest(found: NDArray[np.float64]) -> tuple[float, int]:
    """The largest of (P, 2) values and rows, and the first row that has it."""
    value = found[:, 0].max()
    return float(value), int(found[found[:, 0] == value, 1].min())


TERMS, EVERYWHERE = 6, 4
"""Sums of a :class:`ObservationAccumulator`, and how many of them, the first ones, are over all nodes."""
SUMS, EXTREMES = (TERMS, LIMBS), 4
"""Shapes of a partial result of a :class:`ObservationAccumulator`."""


class Found(NamedTuple):
    """What a driver reads of its lattice for an observation; arrays are the driver's own, and change with the next one.

    Attributes
    ----------
    sums, extremes : of :class:`ObservationAccumulator`.
    inlet_flux, outlet_flux : fluid that entered through each link in the last step.
    probe_drho : (P,) density deviation of each node at an opening.
    """

    sums: Limbs
    extremes: NDArray[np.float64]
    inlet_flux: NDArray[np.floating]
    outlet_flux: NDArray[np.floating]
    probe_drho: NDArray[np.float64]
