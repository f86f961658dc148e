# SPDX-License-Identifier: Apache-2.0
"""Lattice: all that a driver needs to run, in lattice units."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.boundary.cap_profile import cap_profiles
from solver.boundary.opening_walls import flow_parts
from solver.boundary.openings import (
    InletFeedback,
    InletLinks,
    OutletFeedback,
    OutletLinks,
    inlet_links,
    opening_nodes,
    outlet_links,
)
from solver.boundary.parabolic_walls import WALL_PAIRS, ParabolicWalls
from solver.boundary.profiles import Profile
from solver.boundary.walls import Vector, WallLinks, wall_links
from solver.domain.addresses import link_addresses, row_stride
from solver.domain.nodes import Nodes
from solver.domain.stencils import Stencils
from solver.kernels.d3q19 import Q
from solver.kernels.isotropy import PAIRS
from solver.kernels.rheology import GIVEN, Rheology, omega_before

PRECISIONS: dict[str, Any] = {"fp32": np.float32, "fp64": np.float64, "fp16": np.float32}
"""Types that are computed with; with fp16 populations are stored as fp16, see :mod:`solver.kernels.storage`."""


@dataclass(frozen=True)
class Lattice:
    """A geometry with its models, in lattice units.

    Attributes
    ----------
    count : number of fluid nodes N.
    stride : length of a row of populations.
    addresses : ((q - 1) * stride,) address of each link, see :mod:`solver.kernels.streaming`.
    walls, inlets, outlets : links that are treated after each step.
    probe_node, probe_opening : (P,) nodes at openings and their opening's index.
    openings : number of openings.
    columns : number of columns of the boundary values.
    outlet_feedback : outlets whose pressure follows from their flow.
    inlet_feedback : inlets whose flow follows from their pressure.
    collision : name of the collision model.
    rates : (omega+, omega-); where the viscosity varies, at that which units are chosen by.
    force : body force per volume, (x, y, z).
    real : NumPy type that is computed with.
    fp16 : whether populations are stored as fp16.
    equilibrium : name of the equilibrium.
    rheology : how the viscosity varies; none if it is the same everywhere.
    border : the first so many nodes are collided first, for their populations are needed in other parts, or their
        densities, of inlets with feedback, are to be added up over these.
    last : the last so many nodes touch nothing that openings and walls do, and may be collided after these.
    halo : number of slots of other parts' nodes that links of this one reach, which stand after its own.
    q : number of populations of a node.
    stencils : of the force of :mod:`solver.kernels.isotropy`; of no node without it. Rows from `count` on are nodes of
        other parts.
    ghosts : number of such nodes.
    parabolic : of the walls' velocity by :mod:`solver.boundary.parabolic_walls`; of no link without it. Rows likewise.
    wide : (count,) nodes whose flow is observed apart, as in a sac; none of no such place.
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
    columns: int
    outlet_feedback: OutletFeedback
    inlet_feedback: InletFeedback
    collision: str
    rates: tuple[Any, Any]
    force: tuple[Any, Any, Any]
    real: Any
    equilibrium: str = "incompressible"
    rheology: Rheology | None = None
    fp16: bool = False
    border: int = 0
    last: int = 0
    halo: int = 0
    q: int = Q
    stencils: Stencils = field(default_factory=Stencils.none)
    ghosts: int = 0
    parabolic: ParabolicWalls = field(default_factory=ParabolicWalls.none)
    wide: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))

    @property
    def isotropic(self) -> bool:
        """Whether the force of :mod:`solver.kernels.isotropy` acts."""
        return self.stencils.count > 0

    @property
    def corrected(self) -> bool:
        """Whether something is found again after so many pairs of steps: that force, or the velocity of the walls."""
        return self.isotropic or self.walls.varies

    @property
    def corrected_pairs(self) -> int:
        """Pairs of steps after which that is found again: without the force, which the flow needs sooner, more seldom,
        since the velocities are read for the walls alone.
        """
        return PAIRS if self.isotropic else WALL_PAIRS

    @property
    def corrected_rows(self) -> int:
        """Rows of the velocities that this is found from: own nodes and ghosts, or none."""
        return self.count + self.ghosts if self.corrected else 0

    @property
    def flux_rows(self) -> int:
        """Rows of the fluxes that the force is found from: likewise."""
        return self.count + self.ghosts if self.isotropic else 0

    @property
    def slots(self) -> int:
        """Length of the array of populations."""
        return self.q * self.stride + self.halo

    @property
    def width(self) -> int:
        """Numbers that a step takes as its boundary values: the columns, and the part of their velocity that walls
        have.
        """
        return self.columns + 1

    def script(self, boundary_values: NDArray[np.float64]) -> NDArray[np.floating]:
        """Conditions of steps, (steps, width), of given ones; without the last column walls move at full speed."""
        script = np.ones((len(boundary_values), self.width), self.real)
        script[:, : boundary_values.shape[1]] = boundary_values
        return script

    @property
    def has_feedback(self) -> bool:
        """Whether pressures or flows at openings follow from the flow."""
        return len(self.outlet_feedback.opening) + len(self.inlet_feedback.opening) > 0

    @property
    def nodes_of_inlet_feedback(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Nodes at inlets with feedback, and the index of the inlet, both (P,)."""
        mine = np.isin(self.probe_opening, self.inlet_feedback.opening)
        return self.probe_node[mine], self.probe_opening[mine]

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Rows of the nodes at the border, of the others and of the last, where there are any; in each they ascend in
        the domain.
        """
        limits = (0, self.border, self.count - self.last, self.count)
        return tuple(ends for ends in pairwise(limits) if ends[0] < ends[1])

    @property
    def models(self) -> tuple[str, str | None, bool, int]:
        """What drivers are compiled for: equilibrium, model of viscosity that varies, whether steps blend it, q."""
        if self.rheology is None:
            return self.equilibrium, None, False, self.q
        blended = self.rheology.model != GIVEN and self.rheology.blend is not None
        return self.equilibrium, self.rheology.model, blended, self.q

    def relaxation(self) -> tuple[tuple[Any, ...], NDArray[np.floating], NDArray[np.floating]]:
        """`rates`, `omega` and `blend` of :func:`solver.kernels.rheology.make_relaxation` before the first step."""
        none = np.zeros(0, self.real)
        if self.rheology is None:
            return self.rates, none, none
        blend = none
        if self.rheology.blend is not None:
            blend = np.zeros(self.stride, self.real)
            blend[: self.count] = self.rheology.blend
        numbers = tuple(self.real(number) for number in self.rheology.numbers)
        omega = np.full(self.stride, self.rates[0], self.real)
        omega[: self.count] = omega_before(self.rheology, self.rates[0], self.count, self.real)
        return numbers, omega, blend

    def probes(self) -> NDArray[np.int64]:
        """Number of nodes at each opening, (openings,)."""
        return np.bincount(self.probe_opening, minlength=self.openings)


# long and many parameters because every model and every boundary condition is chosen by itself, each with a default
def build_lattice(
    nodes: Nodes,
    collision: str,
    rates: tuple[float, float],
    walls: str = "bouzidi",
    precision: str = "fp32",
    profiles: Mapping[str, Profile] | None = None,
    force: Vector = (0.0, 0.0, 0.0),
    moving: Mapping[str, Vector] | None = None,
    slip: tuple[str, ...] = (),
    columns: NDArray[np.int32] | None = None,
    outlet_feedback: OutletFeedback | None = None,
    inlet_feedback: InletFeedback | None = None,
    equilibrium: str = "incompressible",
    rheology: Rheology | None = None,
    isotropic: bool = False,
    parabolic: bool = False,
) -> Lattice:
    """Lay out a geometry for the drivers.

    Parameters
    ----------
    nodes : the geometry, whose links are those of the velocity set.
    collision, walls : names of models.
    rates : (omega+, omega-).
    precision : one of `PRECISIONS`.
    profiles : velocity over each inlet by its name; all parabolic if not given.
    force : body force per volume, lattice units.
    moving : velocity of the patches of the wall that move, lattice units, by name.
    slip : names of the patches along which fluid slips.
    columns : (openings + 1,) where the columns of each opening begin in the boundary values; one each if not given.
    outlet_feedback : outlets whose pressure follows from their flow; none if not given.
    inlet_feedback : inlets whose flow follows from their pressure; none if not given.
    equilibrium : its name.
    rheology : how the viscosity varies; constant if not given.
    isotropic : whether the force of :mod:`solver.kernels.isotropy` acts.
    parabolic : whether walls meet a parabola, see :mod:`solver.boundary.parabolic_walls`.

    Raises
    ------
    StageError
        If a model is unknown, or an inlet has no links.
    """
    real = PRECISIONS[precision]
    stride, addresses = row_stride(nodes.count), link_addresses(nodes, slip)
    profiles = profiles or {opening.name: Profile("parabolic") for opening in nodes.openings}
    columns = np.arange(len(nodes.openings) + 1, dtype=np.int32) if columns is None else columns
    probe_node, probe_opening = opening_nodes(nodes)
    links = wall_links(nodes, addresses, stride, walls, real, moving, slip, parabolic)
    parts, tau = np.ones(len(nodes.openings)), None
    caps = cap_profiles(nodes) if parabolic else ()
    if parabolic:
        parts, tau = flow_parts(nodes, caps, slip), np.full(nodes.count, 1 / rates[0])
        if rheology is not None and rheology.blend is not None:
            tau[rheology.blend > 0] = 0.5  # the friction of layers is known as a whole
    return Lattice(
        count=nodes.count,
        stride=stride,
        addresses=addresses,
        walls=links,
        inlets=inlet_links(nodes, addresses, stride, profiles, columns, real, parts),
        outlets=outlet_links(nodes, addresses, stride, columns, real, parts, caps, tau),
        probe_node=probe_node,
        probe_opening=probe_opening,
        openings=len(nodes.openings),
        columns=int(columns[-1]),
        outlet_feedback=outlet_feedback or OutletFeedback.none(),
        inlet_feedback=(inlet_feedback or InletFeedback.none()).among(probe_opening),
        collision=collision,
        rates=(real(rates[0]), real(rates[1])),
        force=(real(force[0]), real(force[1]), real(force[2])),
        real=real,
        equilibrium=equilibrium,
        rheology=rheology,
        fp16=precision == "fp16",
        q=nodes.q,
        stencils=Stencils.of_nodes(nodes) if isotropic else Stencils.none(),
        parabolic=ParabolicWalls.of_links(nodes, links, stride, rates, real, caps)
        if parabolic
        else ParabolicWalls.none(),
    )
