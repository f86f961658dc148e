"""Lattice: all that a driver needs to run, in lattice units, and what drivers give back."""

from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from solver.nodes import Nodes
from solver.openings import InletLinks, OutletLinks, inlet_links, opening_nodes, outlet_links
from solver.streaming import link_addresses, row_stride
from solver.walls import Vector, WallLinks, wall_links

PRECISIONS: dict[str, Any] = {"fp32": np.float32, "fp64": np.float64}


@dataclass(frozen=True)
class Lattice:
    """A geometry with its models, in lattice units.

    Attributes
    ----------
    count : number of fluid nodes N.
    stride : length of a row of populations.
    addresses : (18 * stride,) address of each link, see :mod:`solver.streaming`.
    walls, inlets, outlets : links that are treated after each step.
    probe_node, probe_opening : (P,) nodes at openings and their opening's index.
    openings : number of openings.
    collision : name of the collision model.
    rates : (omega+, omega-).
    force : body force per volume, (x, y, z).
    real : NumPy type of the populations.
    """

    count: int
    stride: int
    addresses: NDArray[np.unsignedinteger]
    walls: WallLinks
    inlets: InletLinks
    outlets: OutletLinks
    probe_node: NDArray[np.int32]
    probe_opening: NDArray[np.int32]
    openings: int
    collision: str
    rates: tuple[Any, Any]
    force: tuple[Any, Any, Any]
    real: Any


def build_lattice(
    nodes: Nodes,
    collision: str,
    rates: tuple[float, float],
    walls: str = "bouzidi",
    precision: str = "fp32",
    profiles: dict[str, str] | None = None,
    force: Vector = (0.0, 0.0, 0.0),
    moving: Mapping[str, Vector] | None = None,
    slip: tuple[str, ...] = (),
) -> Lattice:
    """Lay out a geometry for the drivers.

    Parameters
    ----------
    nodes : the geometry.
    collision, walls : names of models.
    rates : (omega+, omega-).
    precision : ``fp32`` or ``fp64``.
    profiles : profile of each inlet by its name; all parabolic if not given.
    force : body force per volume, lattice units.
    moving : velocity of the patches of the wall that move, lattice units, by name.
    slip : names of the patches along which fluid slips.

    Raises
    ------
    StageError
        If a model is unknown, or an inlet has no links.
    """
    real = PRECISIONS[precision]
    stride, addresses = row_stride(nodes.count), link_addresses(nodes, slip)
    profiles = profiles or {opening.name: "parabolic" for opening in nodes.openings}
    probe_node, probe_opening = opening_nodes(nodes)
    return Lattice(
        count=nodes.count,
        stride=stride,
        addresses=addresses,
        walls=wall_links(nodes, addresses, stride, walls, real, moving, slip),
        inlets=inlet_links(nodes, addresses, stride, profiles, real),
        outlets=outlet_links(nodes, addresses, stride, real),
        probe_node=probe_node,
        probe_opening=probe_opening,
        openings=len(nodes.openings),
        collision=collision,
        rates=(real(rates[0]), real(rates[1])),
        force=(real(force[0]), real(force[1]), real(force[2])),
        real=real,
    )


@dataclass(frozen=True)
class Fields:
    """Fields of all fluid nodes in lattice units, in the order of the node arrays.

    Attributes
    ----------
    drho : (N,) deviation of the density, three times the pressure.
    velocity : (3, N).
    stress : (6, N) non-equilibrium momentum flux Pi as (xx, yy, zz, xy, xz, yz).
    """

    drho: NDArray[np.floating]
    velocity: NDArray[np.floating]
    stress: NDArray[np.floating]


@dataclass(frozen=True)
class Observation:
    """Sums and extremes over all fluid nodes, lattice units; infinite extremes where a population is not finite.

    Attributes
    ----------
    change : root mean square change of the velocity since the last kept observation, over the mean speed.
    mean_speed, max_speed : of the velocity.
    node : row of the node with the largest speed.
    max_drho : largest deviation of the density.
    mean_drho : mean deviation of the density.
    """

    change: float
    mean_speed: float
    max_speed: float
    node: int
    max_drho: float
    mean_drho: float


PARTIAL_COLUMNS = 6
"""Of a part of the nodes: sum of |u - u_before|^2, sum of |u|, largest |u|^2, its node, largest |drho|, sum of drho."""


def combine(partials: NDArray[np.float64], count: int) -> Observation:
    """Reduce the parts of an observation, (parts, 6), in their order: the result does not depend on threads."""
    sums = np.add.accumulate(partials, axis=0)[-1]
    worst = int(np.argmax(partials[:, 2]))
    mean_speed = float(sums[1]) / count
    with np.errstate(invalid="ignore", divide="ignore"):
        change = np.sqrt(sums[0] / count) / mean_speed if mean_speed > 0 else np.inf
    return Observation(
        change=float(change),
        mean_speed=mean_speed,
        max_speed=float(np.sqrt(partials[worst, 2])),
        node=int(partials[worst, 3]),
        max_drho=float(partials[:, 4].max()),
        mean_drho=float(sums[5]) / count,
    )


class Driver(Protocol):
    """What the time loop asks of a backend. Steps come in pairs; all reading is between pairs."""

    device: str

    def memory_bytes(self) -> int:
        """Memory that the run takes where it runs, a snapshot's fields not counted."""

    def advance(self, conditions: NDArray[np.float64]) -> None:
        """Run an even number of steps under `conditions`, (steps, openings): flow of an inlet, drho of an outlet."""

    def observe(self, keep: bool) -> Observation:
        """Sums and extremes; `keep`: changes are counted from this state on."""

    def fields(self) -> Fields:
        """Fields of all nodes."""

    def inflow(self) -> NDArray[np.float64]:
        """Fluid that entered through each opening in the last step, (openings,): the exact flux over its links."""

    def opening_drho(self) -> NDArray[np.float64]:
        """Mean density deviation over the nodes at each opening, (openings,)."""


def sum_by_opening(values: NDArray[np.floating], opening: NDArray[np.int32], openings: int) -> NDArray[np.float64]:
    """Sum in double precision and in the order of the array, (openings,)."""
    return np.bincount(opening, weights=values.astype(np.float64), minlength=openings).astype(np.float64)


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
