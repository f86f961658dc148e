# SPDX-License-Identifier: Apache-2.0
"""A network of arteries in one dimension, as a user states it: plain data in SI.

Segments run from node to node. At a node where one segment ends there is an inlet or a terminal; where several meet,
the flow is conserved and the total (or the static) pressure is the same in all.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite, pi
from typing import Any, Literal

from solver.network.arterial_walls import Along, Wall
from solver.network.network_ends import Coupled, Heart, Inlet, Reflection, Terminal
from solver.runtime.errors import StageError

POISEUILLE = 2.0
"""Exponent gamma of a parabolic profile."""
MOST_MOMENTUM = 1.5
"""Largest alpha: that of a profile which falls along straight lines from the axis, gamma = 1."""
TURBULENT = 1.52
"""K_t of a stenosis (Young and Tsai 1973)."""


@dataclass(frozen=True)
class Blood:
    """Blood as a Newtonian fluid.

    Attributes
    ----------
    density_kg_m3 : rho.
    viscosity_pa_s : mu.
    """

    density_kg_m3: float = 1060.0
    viscosity_pa_s: float = 4e-3


@dataclass(frozen=True)
class Stenosis:
    """Loss of a stenosis, in place of the friction of the segment that holds it and spread over its length.

        dp = rho [K_v/Re + K_t/2 (S0/S1 - 1)^2] (Q/S0)^2,    K_v = 32 (0.83 L + 1.64 D1)/D0 (S0/S1)^2,

    with the sections S, diameters D (0: normal, 1: narrow), the length L and Re = rho D0 Q/(S0 mu). Source: Young and
    Tsai (1973), doi:10.1016/0021-9290(73)90099-7; K_v is that of Seeley and Young (1976),
    doi:10.1016/0021-9290(76)90086-5.

    Attributes
    ----------
    normal_radius_m : of the vessel beside it, D0/2.
    narrow_radius_m : D1/2.
    length_m : L; none: that of the segment.
    turbulent : K_t.
    """

    normal_radius_m: float
    narrow_radius_m: float
    length_m: float | None = None
    turbulent: float = TURBULENT

    def linear_pa_s_m3(self, blood: Blood, length_m: float) -> float:
        """Part of the loss that is linear in the flow, by the flow."""
        length = length_m if self.length_m is None else self.length_m
        normal, narrow = pi * self.normal_radius_m**2, pi * self.narrow_radius_m**2
        diameter = 2.0 * self.normal_radius_m
        viscous = 32.0 * (0.83 * length + 3.28 * self.narrow_radius_m) / diameter * (normal / narrow) ** 2
        return viscous * blood.viscosity_pa_s / (diameter * normal)

    def square_pa_s2_m6(self, blood: Blood) -> float:
        """Part of the loss that goes with the flow's square, by that square."""
        normal, narrow = pi * self.normal_radius_m**2, pi * self.narrow_radius_m**2
        return 0.5 * self.turbulent * blood.density_kg_m3 * ((normal / narrow - 1.0) / normal) ** 2


@dataclass(frozen=True)
class Loss:
    """A stated loss R Q + K Q|Q| of total pressure, in place of the friction of a segment and spread over its length.

    Attributes
    ----------
    linear_pa_s_m3 : R.
    square_pa_s2_m6 : K.
    """

    linear_pa_s_m3: float
    square_pa_s2_m6: float


@dataclass(frozen=True)
class Segment:
    """A vessel without branches; flow and velocity count from its start to its end.

    Attributes
    ----------
    name : of the vessel.
    start, end : names of its nodes.
    length_m : of its centreline.
    radius_m : of the lumen at the reference pressure, at its start and at its end or at more evenly spaced places.
    wall : its law.
    profile_exponent : gamma of the velocity's profile u (gamma + 2)/gamma (1 - (r/R)^gamma); 2: a parabola.
    momentum : alpha of the flow of momentum, alpha rho A u^2; 1: as if the velocity were the same all over the lumen.
    external_pa : pressure outside of it.
    reference_pa : pressure across the wall at which the lumen has its radius: p = p_ext + p_ref + law(A/A0).
    stenosis : in place of its friction.
    loss : the same; not together with a stenosis.
    """

    name: str
    start: str
    end: str
    length_m: float
    radius_m: Along
    wall: Wall
    profile_exponent: float = POISEUILLE
    momentum: float = 1.0
    external_pa: float = 0.0
    reference_pa: float = 0.0
    stenosis: Stenosis | None = None
    loss: Loss | None = None

    @property
    def offset_pa(self) -> float:
        """Pressure at which the lumen has its radius."""
        return self.external_pa + self.reference_pa


@dataclass(frozen=True)
class Network:
    """Segments, and what holds where they end.

    Attributes
    ----------
    segments : in any order.
    inlets : by name of the node.
    terminals : by name of the node.
    blood : its density and viscosity.
    period_s : of a cycle.
    junctions : what is the same in all segments at a node.
    initial_pa : pressure everywhere to begin with; none: where each lumen has its radius.
    name : of the network.
    sources : where its figures come from.
    """

    segments: tuple[Segment, ...]
    inlets: Mapping[str, Inlet]
    terminals: Mapping[str, Terminal]
    period_s: float
    blood: Blood = Blood()
    junctions: Literal["total", "static"] = "total"
    initial_pa: float | None = None
    name: str = "network"
    sources: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if complaint := next(_complaints(self), None):
            raise StageError(f"network {self.name}: {complaint}")

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of all nodes, as segments name them."""
        return tuple(dict.fromkeys(node for segment in self.segments for node in (segment.start, segment.end)))

    def segment(self, name: str) -> Segment:
        """A segment by its name.

        Raises
        ------
        StageError
            If there is none.
        """
        for segment in self.segments:
            if segment.name == name:
                return segment
        known = ", ".join(segment.name for segment in self.segments)
        raise StageError(f"network {self.name}: no segment is called {name}; there are {known}")


def _complaints(network: Network) -> Iterator[str]:
    """What is wrong with a network, one after another."""
    if not network.segments:
        yield "has no segments; give at least one"
    if not _positive(network.period_s):
        yield f"period_s is {network.period_s:g}; it must be above 0"
    for name, value in vars(network.blood).items():
        if not _positive(value):
            yield f"blood.{name} is {value:g}; it must be above 0"
    if network.junctions not in ("total", "static"):
        yield f"junctions {network.junctions!r}: unknown; known are total, static"
    for name, count in Counter(segment.name for segment in network.segments).items():
        if count > 1:
            yield f"{count} segments are called {name}; give each a name of its own"
    for segment in network.segments:
        yield from _of_segment(segment)
    yield from _of_nodes(network)


def _of_segment(segment: Segment) -> Iterator[str]:
    if not _positive(segment.length_m):
        yield f"segment {segment.name}: length_m is {segment.length_m:g}; it must be above 0"
    if not _positive(segment.radius_m):
        yield f"segment {segment.name}: radius_m is {segment.radius_m}; all radii must be above 0"
    if not _positive(segment.profile_exponent):
        yield f"segment {segment.name}: profile_exponent is {segment.profile_exponent:g}; a parabola has 2"
    if not 1.0 <= segment.momentum <= MOST_MOMENTUM:
        yield f"segment {segment.name}: momentum is {segment.momentum:g}; profiles have 1 to {MOST_MOMENTUM:g}"
    if segment.start == segment.end:
        yield f"segment {segment.name}: starts and ends at node {segment.start}; give it two nodes"
    for name, value in vars(segment.wall).items():
        if value is not None and name.endswith("_pa") and not _positive(value) and name not in ("k1_pa", "k3_pa"):
            yield f"segment {segment.name}: {name} of the wall is {value}; it must be above 0"
    thickness = getattr(segment.wall, "thickness_m", None)
    if thickness is not None and not _positive(thickness):
        yield f"segment {segment.name}: thickness_m of the wall is {thickness}; it must be above 0"
    if not getattr(segment.wall, "recruited_over", 1.0) > 0.0:
        yield f"segment {segment.name}: recruited_over of the wall must be above 0; arteries have some hundredths"
    stenosis = segment.stenosis
    if stenosis and not 0.0 < stenosis.narrow_radius_m <= stenosis.normal_radius_m:
        yield (
            f"segment {segment.name}: the stenosis narrows the radius from {stenosis.normal_radius_m:g} to"
            f" {stenosis.narrow_radius_m:g} m; the second must be above 0 and not above the first"
        )
    if stenosis and segment.loss:
        yield f"segment {segment.name}: has a stated loss and that of a stenosis; leave one of them out"


def _of_nodes(network: Network) -> Iterator[str]:
    degree = Counter(node for segment in network.segments for node in (segment.start, segment.end))
    both = {**network.inlets, **network.terminals}
    for node in both:
        if node not in degree:
            yield f"an inlet or terminal is given at node {node}, where no segment ends; there are {', '.join(degree)}"
        elif degree[node] > 1:
            yield f"an inlet or terminal is given at node {node}, where {degree[node]} segments meet; give it where one"
    for node in network.inlets.keys() & network.terminals.keys():
        yield f"node {node} is given an inlet and a terminal; leave out one of them"
    for node, count in degree.items():
        if count == 1 and node not in both:
            name = next(s.name for s in network.segments if node in (s.start, s.end))
            yield f"node {node}, where {name} ends alone, has neither inlet nor terminal; give one"
    for node, inlet in network.inlets.items():
        if isinstance(inlet, Heart) and inlet.start_m3 <= inlet.unstressed_m3:
            yield f"heart at {node}: start_m3 is {inlet.start_m3:g}; it must be above unstressed_m3"
    for node, what in both.items():
        yield from _of_opening(node, what)
    if both and all(isinstance(each, Coupled) and each.gives == "flow" for each in both.values()):
        yield "all of its ends are given a flow, which leaves its pressure open; give one of them a pressure"


def _of_opening(node: str, what: Inlet | Terminal) -> Iterator[str]:
    if isinstance(what, Reflection) and not -1.0 < what.part < 1.0:
        yield f"reflection at {node}: part is {what.part:g}; it must be above -1 and below 1"
    for name, value in vars(what).items():
        measured = name.endswith(("_pa_s_m3", "_pa_s2_m6", "_m3_pa"))
        if measured and not (isfinite(value) and value >= 0.0):
            yield f"{type(what).__name__} at {node}: {name} is {value:g}; it must not be below 0"
    if isinstance(what, Heart) and not what.mitral_pa_s_m3 > 0.0:
        yield f"Heart at {node}: mitral_pa_s_m3 is 0; it must be above 0"


def _positive(value: Any) -> bool:
    """Whether a number, or each of several, is finite and above 0."""
    values = value if isinstance(value, tuple) else (value,)
    return bool(values) and all(isfinite(each) and each > 0.0 for each in values)
