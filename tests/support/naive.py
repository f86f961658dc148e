# SPDX-License-Identifier: Apache-2.0
"""The textbook solver on node arrays as drivers take them: with openings, and walls that move or let fluid slip."""

from collections.abc import Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from solver.boundary.openings import OutletFeedback
from solver.domain.nodes import Neighbours, Nodes
from solver.kernels.collision import ON_D3Q19
from solver.kernels.velocity_sets import D3Q19, velocity_set
from validation import textbook
from validation.textbook import TextbookSolver, Thickening, density
from validation.textbook_links import Links

COLLISIONS = {name: partial(textbook.COLLISIONS[name], D3Q19) for name in ON_D3Q19}
moments, equilibrium, stress = (partial(f, D3Q19) for f in (textbook.moments, textbook.equilibrium, textbook.stress))


def wall_pushes(nodes: Nodes, moving: Mapping[str, tuple[float, float, float]]) -> NDArray:
    """-6 w_i c_i.u_w of each wall link, for the velocity of patches of the wall by name."""
    velocity = np.array([(0.0, 0.0, 0.0), *(moving.get(name, (0.0, 0.0, 0.0)) for name in nodes.patches)])
    i, stencil = nodes.wall_link_direction, velocity_set(nodes.q)
    return -6 * stencil.weights[i] * (stencil.velocities[i] * velocity[nodes.wall_link_patch]).sum(axis=1)


class Naive(TextbookSolver):
    """The textbook solver with all that node arrays may hold.

    `moving` holds the velocity of patches of the wall by name, `slip` the names of those along which fluid slips.
    `inlet_weight` (R, K) holds the part of each of an inlet's columns of the conditions that enters through each link,
    `columns` where the columns of each opening begin; `outlet_feedback` are outlets whose pressure follows from their
    flow.
    """

    def __init__(
        self,
        nodes: Nodes,
        collision: str,
        rates: tuple[float, float],
        walls: str,
        inlet_weight: NDArray,
        force: NDArray | None = None,
        moving: Mapping[str, tuple[float, float, float]] | None = None,
        slip: tuple[str, ...] = (),
        columns: NDArray | None = None,
        outlet_feedback: OutletFeedback | None = None,
        form: str = "incompressible",
        rheology: Thickening | None = None,
    ) -> None:
        self.nodes, self.inlet_weight, self.outlet_feedback = nodes, inlet_weight, outlet_feedback
        self.columns = np.arange(len(nodes.openings) + 1) if columns is None else columns
        self.entered = np.zeros(len(nodes.openings))
        self.excess, self.stored = outlet_feedback.start.T.copy() if outlet_feedback else (None, None)
        neighbours = Neighbours(nodes)
        self.neighbour = np.array([neighbours.along(i) for i in range(nodes.q)])
        patch = np.array(("", *nodes.patches))[nodes.wall_link_patch]
        slips = np.isin(patch, slip)
        ends = nodes.wall_link_node.astype(int), nodes.wall_link_direction.astype(int)
        self.sliding = {*zip(ends[0][slips].tolist(), ends[1][slips].tolist(), strict=True)}
        held = Links(self.neighbour, *(end[~slips] for end in ends), nodes.wall_link_q[~slips].astype(float))
        super().__init__(
            velocity_set(nodes.q),
            held,
            collision,
            rates,
            walls,
            np.zeros(3) if force is None else force,
            form,
            rheology,
            wall_pushes(nodes, moving or {})[~slips],
        )
        self._reflect_sources()

    def step(self, boundary_values: NDArray) -> None:
        """One step; `boundary_values` holds the flows of an inlet, drho of an outlet and the flow that belongs to
        it.
        """
        boundary_values = self.with_feedback(boundary_values)
        drho, u = textbook.moments(self.stencil, self.g, self.force, self.form)
        out = self.collided()
        new = self.streamed(out)
        self._openings(out, u, density(drho, self.form), new, boundary_values)
        for n, i in self.sliding:
            end, r = self.reflected(n, i)
            new[r, end] = out[i, n]
        self.g = self.bounced(out, new)

    def reflected(self, n: int, i: int) -> tuple[int, int]:
        """Where what leaves `n` along `i` into a slipping wall arrives, and along which direction."""
        c = D3Q19.velocities[i]
        parts = [np.where(np.arange(3) == axis, c, 0) for axis in np.flatnonzero(c)]
        for into, along in (parts, parts[::-1]) if len(parts) == 2 else ():
            beside = self.neighbour[D3Q19.direction(along), n]
            crossing = (n, into), (beside, into), (beside, into - along)
            if beside >= 0 and all((row, D3Q19.direction(c)) in self.sliding for row, c in crossing):
                return beside, D3Q19.direction(along - into)
        return n, self.stencil.opposite[i]

    def _reflect_sources(self) -> None:
        """Where a slipping wall is behind a node at a wall: n is the image of the end that it would send to."""
        along, behind = (array.copy() for array in self.source)
        for k in np.flatnonzero(behind < 0):
            n, o = int(self.links.node[k]), int(self.back[k])
            if (n, o) in self.sliding:
                end, r = self.reflected(n, o)
                if end != n:
                    along[k], behind[k] = self.stencil.opposite[r], end
        self.source = along, behind

    def with_feedback(self, boundary_values: NDArray) -> NDArray:
        """The conditions with pressures that answer the flow of the last step."""
        if not self.outlet_feedback:
            return boundary_values
        boundary_values = boundary_values.copy()
        alpha, decay, gain, resistance, share, friction, part = self.outlet_feedback.rule.T
        at, own = self.outlet_feedback.column, -self.entered[self.outlet_feedback.opening]
        wanted = boundary_values[at + 1]
        missing = (1 - share) * own + share * own.sum() - wanted
        self.excess += alpha * (missing - self.excess)
        self.stored = decay * self.stored + gain * (missing - part * (own.sum() - wanted.sum()))
        boundary_values[at] += self.stored + resistance * self.excess - friction * own
        return boundary_values

    def _openings(self, out: NDArray, u: NDArray, rho: NDArray, new: NDArray, boundary_values: NDArray) -> None:
        nodes, k = self.nodes, 0
        self.entered[:] = 0
        for n, i, identity in zip(
            nodes.opening_link_node, nodes.opening_link_direction, nodes.opening_link_opening, strict=True
        ):
            o, opening = self.stencil.opposite[i], nodes.openings[identity - 1]
            values = boundary_values[self.columns[identity - 1] : self.columns[identity]]
            if opening.role == "inlet":
                new[o, n] = out[i, n] + values @ self.inlet_weight[: len(values), k]
                k += 1
            else:
                outward = 1.0 if u[:, n] @ np.array(opening.normal) >= 0 else 0.0
                square = textbook.quadratic(self.stencil, u[:, [n]], u[:, [n]], self.form)[i, 0]
                new[o, n] = -out[i, n] + 2 * self.stencil.weights[i] * (values[0] + outward * rho[n] * square)
            self.entered[identity - 1] += new[o, n] - out[i, n]
