# SPDX-License-Identifier: Apache-2.0
"""Fields and statistics of all fluid nodes in lattice units, their running means, and the memory of what is held."""

from dataclasses import dataclass, is_dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

MEAN = 0
"""Number of the mean over time, which has statistics beside it."""


@dataclass(frozen=True)
class Fields:
    """Fields of all fluid nodes in lattice units, in the order of the node arrays.

    Attributes
    ----------
    drho : (N,) deviation of the density, three times the pressure.
    velocity : (3, N).
    stress : (6, N) viscous stress over -(1 - omega+/2) of the lattice's `rates`, as (xx, yy, zz, xy, xz, yz): the
        non-equilibrium momentum flux Pi where the viscosity is the same everywhere.
    viscosity : (N,) kinematic viscosity where it varies; else none.
    """

    drho: NDArray[np.floating]
    velocity: NDArray[np.floating]
    stress: NDArray[np.floating]
    viscosity: NDArray[np.floating] | None = None

    def arrays(self) -> list[Any]:
        """Its arrays, (N,) or (components, N), wherever they lie."""
        return [array for array in vars(self).values() if array is not None]


@dataclass(frozen=True)
class Statistics:
    """What several states leave at each fluid node besides the mean of their fields, (N,) each, in lattice units.

    With sigma the viscous stress, nu the viscosity of the node and S = sigma/(2 nu), at rest density:

    Attributes
    ----------
    peak_speed : largest |u|.
    square : mean of |u|^2, twice the kinetic energy.
    shear_rate : mean of sqrt(2 S:S).
    dissipation : mean of sigma:S = 2 nu S:S.
    """

    peak_speed: NDArray[np.floating]
    square: NDArray[np.floating]
    shear_rate: NDArray[np.floating]
    dissipation: NDArray[np.floating]

    def arrays(self) -> list[Any]:
        """Its arrays, wherever they lie."""
        return list(vars(self).values())


Held = TypeVar("Held", Fields, Statistics)


@dataclass
class Mean:
    """Running mean of the fields, where a driver runs.

    Attributes
    ----------
    fields : the mean.
    statistics : of the same states; none of a phase.
    count : states that it is made of.
    """

    fields: Fields
    statistics: Statistics | None = None
    count: int = 0

    def held(self) -> tuple[Fields | Statistics, ...]:
        """The fields, and the statistics where there are some."""
        return (self.fields,) if self.statistics is None else (self.fields, self.statistics)


def held_bytes(held: Any) -> int:
    """Memory of the arrays in something made of arrays, lists, mappings and data classes."""
    if isinstance(held, type):
        return 0
    if hasattr(held, "nbytes"):
        return int(held.nbytes)
    if is_dataclass(held):
        held = vars(held)
    parts = held.values() if isinstance(held, dict) else held if isinstance(held, list | tuple) else ()
    return sum(held_bytes(part) for part in parts)
