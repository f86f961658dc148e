# SPDX-License-Identifier: Apache-2.0
"""What walls beside an opening take of its flow.

Between the last nodes and a wall at the distance q of a link fluid flows along, too. Interpolated walls know that: half
a link away, where streaming turns a population back, fluid moves with u_half = (1/2 - q) u', and the link adds the mass

    -6 w_i c_i.u_half,

c_i towards the wall. Along a vessel what one link adds another one takes. At an opening half of them lead through the
cap, and what is left is up to some percent of the flow: at an inlet 0.75 % of it left the nodes beside the cap, in a
duct 10 nodes across, came back all along the vessel, as all mass does that walls add, and took up to a tenth of the
pressure drop on its way. But it belongs to the opening. So links of an opening carry 1 + e times its flow, e the sum of
the above over all wall links near the cap, per flow out of the vessel, in developed flow; of what they let in only the
part 1/(1 + e) counts as flow, and what walls add is less by the rest.

The sum is over whole layers with a weight that falls smoothly over `REACH` spacings from the cap, by which links far
from it cancel. Where flow is not developed, what is left comes back all along the vessel as before.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.boundary.cap_profile import CapProfile
from solver.domain.addresses import slip_links
from solver.domain.nodes import Nodes, Opening
from solver.domain.whole import row_blocks
from solver.kernels.node_physics import node_function
from solver.kernels.sums import LIMBS, limbs_by_group, split, total
from solver.kernels.velocity_sets import velocity_set

REACH = 8.0
"""Depth below a cap, in spacings, at which links to walls no longer count. With 5 to 16 e is the same within a fifth of
it in pipes of six directions."""
MOST = 0.1
"""Largest e: more is no estimate but a cap of a few nodes."""


def flow_parts(nodes: Nodes, slip: tuple[str, ...] = ()) -> NDArray[np.float64]:
    """Part 1/(1 + e) of what comes in through the links of each opening that counts as its flow, (openings,). All ranks
    ask together.

    Parameters
    ----------
    nodes : the geometry, whose walls are interpolated.
    slip : names of the patches along which fluid slips.
    """
    stick = nodes.is_own[nodes.wall_link_node] & ~slip_links(nodes, slip)
    added = np.array([_added(nodes, opening, stick) for opening in nodes.openings])
    return 1 / (1 + np.clip(added, -MOST, MOST))


def _added(nodes: Nodes, opening: Opening, stick: NDArray[np.bool_]) -> float:
    """Mass that wall links near an opening add, over the flow out of the vessel.

    Parameters
    ----------
    nodes, opening : the geometry and one of its openings.
    stick : (L,) which of its wall links count.
    """
    profile, stencil, normal = CapProfile.of(nodes, opening), velocity_set(nodes.q), np.asarray(opening.normal)
    reach_mm, near = REACH * nodes.spacing_mm, []
    for some in row_blocks(len(stick)):
        from_centre = nodes.points_mm(nodes.wall_link_node[some]) - opening.centre_mm
        close = (from_centre**2).sum(axis=1) < (2 * opening.radius_mm + reach_mm) ** 2
        near.append(some.start + np.flatnonzero(stick[some] & close & (from_centre @ normal > -reach_mm)))
    mine = np.concatenate([np.zeros(0, np.int64), *near])
    place, direction = nodes.points_mm(nodes.wall_link_node[mine]), nodes.wall_link_direction[mine]
    q, links = nodes.wall_link_q[mine].astype(np.float64), stencil.velocities[direction]
    at_node, _, _ = profile.along(place, links)
    _, slope, _ = profile.along(place, links, (q + 0.5) / 2)
    mass = 6 * stencil.weights[direction] * (links @ normal) * (q - 0.5) * slope
    depth = np.clip((opening.centre_mm - place) @ normal / reach_mm, 0, 1)
    weight = np.cos(np.pi / 2 * depth) ** 2 * (at_node > 0)
    limbs = limbs_by_group(mass * weight / max(profile.flow, 1e-9), np.zeros(len(mine), np.int64), 1)
    return float(total(nodes.ranks.join(limbs.ravel()).reshape(-1, LIMBS).sum(axis=0)))


@node_function
def taken_by_walls(entered: Any, part: Any) -> Any:
    """Limbs of what came in through a link but does not count as flow.

    Parameters
    ----------
    entered : flow that came in.
    part : of what came in that counts, of :func:`flow_parts`.
    """
    return split(np.float64(entered) * (1.0 / np.float64(part) - 1.0))
