# SPDX-License-Identifier: Apache-2.0
"""Flows and total pressures of a model: the drop along each branch, the balance at each joint, what holds at openings.

Unknown are the flows of E branches and the total pressures of J joints. Newton's method solves

    P_start - P_stop = R Q + K Q|Q| + D (Q - s Q_a)|Q_a| + L (Q - Q_before)/dt,
    sum of Q at a joint = 0, or what enters at an inlet,
    P - h |q| - k q^2 = a + b q at an outlet with the outflow q, or q = a given flow.

A steady flow has no L; over time each step is implicit.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.reduced.model import ReducedModel
from solver.runtime.errors import StageError

Floats = NDArray[np.float64]

MOST_STEPS = 100
CLOSE = 1e-10
"""Steps of Newton's method, and the remainder that ends it, as a part of what the equations weigh."""


ROUNDED = 1e-3
"""Part of the level of the pressures below which a drop is not told from its rounding, in what equations weigh."""


@dataclass(frozen=True)
class Line:
    """Static pressure at an outlet, a + b q, q being what leaves there."""

    a_mmhg: float
    b_mmhg_s_ml: float = 0.0


@dataclass(frozen=True)
class State:
    """Flows of the branches, (E,), mL/s, and total pressures of the joints, (J,), mmHg."""

    flow: Floats
    total: Floats


class Balance:
    """The equations of a model.

    Parameters
    ----------
    model : the model.

    Attributes
    ----------
    joints : names of the joints in the order of the pressures.
    arriving : (J, E), 1 where a branch stops at a joint, -1 where it starts there.
    """

    def __init__(self, model: ReducedModel) -> None:
        self._model = model
        branches = model.branches
        self.joints = list(dict.fromkeys(joint for branch in branches for joint in (branch.start, branch.stop)))
        self.arriving = np.zeros((len(self.joints), len(branches)))
        for k, branch in enumerate(branches):
            self.arriving[self.joints.index(branch.stop), k] += 1
            self.arriving[self.joints.index(branch.start), k] -= 1
        self._fed = np.array([[float(other.stop == branch.start) for other in branches] for branch in branches])
        self._division = np.array([branch.division_mmhg_s2_ml2 for branch in branches])
        self._part = np.array([branch.part for branch in branches])
        self._linear = np.array([branch.resistance_mmhg_s_ml for branch in branches])
        self._square = np.array([branch.square_mmhg_s2_ml2 for branch in branches])
        self._inertance = np.array([branch.inertance_mmhg_s2_ml for branch in branches])

    def start(self) -> State:
        """The state of the case's run, nearly: its flows and the level of its pressures."""
        level = float(np.mean([each.pressure_mmhg for each in self._model.openings]))
        return State(np.array([branch.flow_ml_s for branch in self._model.branches]), np.full(len(self.joints), level))

    def solved(
        self,
        inflow: Mapping[str, float],
        outlets: Mapping[str, Line | float],
        guess: State,
        before: tuple[State, float] | None = None,
    ) -> State:
        """Flows and pressures.

        Parameters
        ----------
        inflow : mL/s into each inlet.
        outlets : at each outlet its pressure's line, or the flow that leaves there.
        guess : where Newton's method begins.
        before : the state a step of so many seconds ago; none of a steady flow.

        Raises
        ------
        StageError
            If no state is found.
        """
        edges, joints = len(self._linear), len(self.joints)
        inertia = self._inertance / before[1] if before else np.zeros(edges)
        old = before[0].flow if before else np.zeros(edges)
        x = np.concatenate((guess.flow, guess.total))
        flow_scale = max(sum(abs(flow) for flow in inflow.values()), 1e-6)
        drop_scale = float((np.abs(self._linear) + inertia + np.abs(self._square) * flow_scale).sum() * flow_scale)
        drop_scale += ROUNDED * float(np.abs(guess.total).max())
        weight = np.concatenate((np.full(edges, drop_scale), np.full(joints, flow_scale)))
        for name, holds in outlets.items():
            if isinstance(holds, Line):
                weight[edges + self.joints.index(name)] = max(drop_scale, abs(holds.a_mmhg))
        for _ in range(MOST_STEPS):
            remainder, slope = self._equations(x, inflow, outlets, inertia, old)
            if np.abs(remainder / weight).max() < CLOSE:
                return State(x[:edges], x[edges:])
            try:
                x = x - np.linalg.solve(slope, remainder)
            except np.linalg.LinAlgError:
                break
        raise StageError(
            "no flow fits these pressures and resistances: the reduced model does not hold there; state outlets nearer"
            " to those of the case"
        )

    def _equations(
        self,
        x: Floats,
        inflow: Mapping[str, float],
        outlets: Mapping[str, Line | float],
        inertia: Floats,
        old: Floats,
    ) -> tuple[Floats, Floats]:
        """What is left of each equation, and its derivatives by all unknowns."""
        edges = len(old)
        flow, total = x[:edges], x[edges:]
        remainder, slope = np.zeros(len(x)), np.zeros((len(x), len(x)))
        fed = self._fed @ flow
        other = self._division * (flow - self._part * fed)
        loss = (self._linear + self._square * np.abs(flow)) * flow + other * np.abs(fed) + inertia * (flow - old)
        remainder[:edges] = -self.arriving.T @ total - loss
        slope[:edges, edges:] = -self.arriving.T
        along = self._linear + 2 * self._square * np.abs(flow) + self._division * np.abs(fed) + inertia
        across = other * np.sign(fed) - self._division * self._part * np.abs(fed)
        slope[:edges, :edges] = -np.diag(along) - across[:, None] * self._fed
        remainder[edges:] = self.arriving @ flow
        slope[edges:, :edges] = self.arriving
        for name, enters in inflow.items():
            remainder[edges + self.joints.index(name)] += enters
        head = {each.name: each.head for each in self._model.openings}
        for name, holds in outlets.items():
            j = self.joints.index(name)
            if not isinstance(holds, Line):
                remainder[edges + j] -= holds
                continue
            out = float(self.arriving[j] @ flow)
            remainder[edges + j] = total[j] - head[name].at(abs(out)) - holds.a_mmhg - holds.b_mmhg_s_ml * out
            slope[edges + j] = 0.0
            slope[edges + j, edges + j] = 1.0
            slope[edges + j, :edges] = -(np.sign(out) * head[name].slope(out) + holds.b_mmhg_s_ml) * self.arriving[j]
        return remainder, slope
