# SPDX-License-Identifier: Apache-2.0
"""What walls beside an opening carry of its flow.

Between the last nodes and a wall at the distance q of a link fluid flows along, too. Interpolated walls know that: half
a link away, where streaming turns a population back, fluid moves with u_half = (1/2 - q) u', and the link adds the mass

    m = -6 w_i c_i.u_half,

c_i towards the wall. Along a vessel what one link adds another one takes: the flow at nodes is that between them and
that along the wall, which carries the part

    k = -1/2 sum of (c_i.n) m

over the wall links of a layer, n along the vessel. At an opening links towards the wall may lead through the cap, and
what is left, e = the sum of m near the cap per flow out of the vessel, lets all, a part or nothing of k pass from nodes
to the wall. So the links of an opening carry 1 + e - k times its flow, walls carry the rest, and of what they add
e - k belongs to the opening. Before, it came back all along the vessel, as other mass that walls add: in a duct 10
nodes across 0.7 % of the flow, which took a tenth of the pressure drop.

Both sums are those of developed flow, with weights that change smoothly within `REACH` spacings of the cap, so that
links far from it cancel. Where flow is not developed, what is left comes back all along the vessel as before.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.boundary.cap_profile import CapProfile
from solver.domain.addresses import slip_links
from solver.domain.nodes import Nodes
from solver.domain.whole import row_blocks
from solver.kernels.node_physics import node_function
from solver.kernels.sums import LIMBS, limbs_by_group, split, total
from solver.kernels.velocity_sets import velocity_set

REACH = 8.0
"""Depth below a cap, in spacings, from which on links to walls do not count."""
MOST = 0.1
"""Largest part of the flow beside it: more is no estimate but a cap of a few nodes."""


def flow_parts(nodes: Nodes, caps: Sequence[CapProfile], slip: tuple[str, ...] = ()) -> NDArray[np.float64]:
    """Flow through each opening over what its links carry, 1/(1 + e - k), (openings,). All ranks ask together.

    Parameters
    ----------
    nodes : the geometry, whose walls are interpolated.
    caps : developed flow through each of its openings.
    slip : names of the patches along which fluid slips.
    """
    stick = nodes.is_own[nodes.wall_link_node] & ~slip_links(nodes, slip)
    beside = np.array([_beside(nodes, cap, stick) for cap in caps])
    return 1 / (1 + np.clip(beside, -MOST, MOST))


def _beside(nodes: Nodes, cap: CapProfile, stick: NDArray[np.bool_]) -> float:
    """Mass that wall links near an opening add, over the flow out of the vessel, less the part that walls carry.

    Parameters
    ----------
    nodes, cap : the geometry, and developed flow through one of its openings.
    stick : (L,) which of its wall links count.
    """
    opening, stencil, normal = cap.opening, velocity_set(nodes.q), np.asarray(cap.opening.normal)
    reach_mm, near = REACH * nodes.spacing_mm, []
    for some in row_blocks(len(stick)):
        from_centre = nodes.points_mm(nodes.wall_link_node[some]) - opening.centre_mm
        close = (from_centre**2).sum(axis=1) < (2 * opening.radius_mm + reach_mm) ** 2
        near.append(some.start + np.flatnonzero(stick[some] & close & (from_centre @ normal > -reach_mm)))
    mine = np.concatenate([np.zeros(0, np.int64), *near])
    place, direction = nodes.points_mm(nodes.wall_link_node[mine]), nodes.wall_link_direction[mine]
    q, links = nodes.wall_link_q[mine].astype(np.float64), stencil.velocities[direction]
    _, slope, _ = cap.along(place, links, (q + 0.5) / 2)
    outwards, depth = links @ normal, np.clip((opening.centre_mm - place) @ normal / reach_mm, 0, 1)
    mass = 6 * stencil.weights[direction] * outwards * (q - 0.5) * slope / max(cap.flow, 1e-9)
    near_cap, between = np.cos(np.pi / 2 * depth) ** 2, np.sin(np.pi * depth) ** 2 / (REACH / 2)
    mass *= (near_cap + outwards * between / 2) * (cap.at(place) > 0)
    limbs = limbs_by_group(mass, np.zeros(len(mine), np.int64), 1)
    return float(total(nodes.ranks.join(limbs.ravel()).reshape(-1, LIMBS).sum(axis=0)))


@node_function
def taken_by_walls(entered: Any, part: Any) -> Any:
    """Limbs of the mass that walls take where a flow comes in through a link of an opening.

    Parameters
    ----------
    entered : flow that came in.
    part : of :func:`flow_parts`.
    """
    return split(np.float64(entered) * (1.0 / np.float64(part) - 1.0))
