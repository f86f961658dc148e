# SPDX-License-Identifier: Apache-2.0
"""Extrapolation of a steady flow that takes longer to settle than was expected.

What is left of such a flow's way are few slow modes, such as an eddy that swings and dies away. With states x_0, ...,
x_m of the flow, the same time apart, and d_i = x_(i+1) - x_i, reduced rank extrapolation takes

    x* = sum g_i x_(i+1),    g the weights of sum 1 for which |sum g_i d_i| is least,

which is the end itself where the change is linear in the distance from it and has m - 1 modes or fewer (Eddy 1979;
Smith, Ford and Sidi 1987, doi:10.1137/1029042). The states are of velocity and density.
The flow goes on from x*, and ends by its residual as any other: nothing is taken for settled that is not.

The changes also tell what each mode is multiplied by from state to state (dynamic mode decomposition, Schmid 2010,
doi:10.1017/S0022112010001217). Where one does not die away the flow fluctuates, and x* may be a flow that does not
last: then the run goes on as it is.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.driver import Driver
from solver.backends.fields import Fields
from solver.domain.nodes import Nodes

STATES = 6
"""That are combined: enough for two modes that swing."""
OF_EXPECTED = 12
"""Times between two states at first in the steps expected, in which the residual falls by e some seven to ten times."""
EARLY = 0.5
"""Part of the steps expected after which states are gathered, to be at hand when these are over."""
WORTH = 0.2
"""Part of the last change that may be left of the combined ones. Noise, which the weights enlarge, is part of it."""
LASTING = 0.95
"""Modes that are multiplied by more from state to state are not taken to die away: states have to be farther apart."""
TRIES = 3
"""With states so far apart; then they are taken twice as far apart: fewer modes last from the first to the last one."""
FARTHEST = 4.0
"""How far x* may be, in what the flow went between the states: as far as one mode goes on that nearly lasts."""
ROUND_OFF = 1e-12
"""Of products: where the changes are of fewer modes than there are changes, many weights would do."""
SEEN = 1e-4
"""Part of the sum of squares of the changes below which a mode is taken for noise."""

Reals = NDArray[np.float64]


class Extrapolation:
    """Gathers states of a run and lets its flow go on from where they lead.

    Parameters
    ----------
    nodes, driver, interval : of the run, and steps between two rows of its monitor.

    Attributes
    ----------
    steps : after which the flow was extrapolated.
    """

    def __init__(self, nodes: Nodes, driver: Driver, interval: int) -> None:
        self._nodes, self._driver, self._interval = nodes, driver, interval
        self.steps: list[int] = []
        self._gap, self._last, self._tried = 0, 0, 0
        self._states: list[NDArray[np.float32]] = []
        self._outlets: list[Reals] = []

    def forget(self) -> None:
        """Begin with new states, since the flow went another way in between."""
        self._states, self._outlets, self._last, self._tried = [], [], 0, 0

    def update(self, step: int, expected: float) -> int:
        """Take the state in where that is due, and extrapolate where that leads closer to the end.

        Parameters
        ----------
        step : that the run has come to, one of a row of its monitor.
        expected : steps that it was expected to take.

        Returns
        -------
        Steps between the states where the flow was extrapolated; else 0.
        """
        if step < EARLY * expected or (self._states and step < self._last + self._gap):
            return 0
        now, self._last = self._driver.fields(), step
        self._gap = self._gap or self._interval * max(1, round(expected / OF_EXPECTED / self._interval))
        self._states.append(np.concatenate((now.drho[None], now.velocity)).astype(np.float32))
        self._outlets.append(self._driver.pressures())
        self._states, self._outlets = self._states[-STATES:], self._outlets[-STATES:]
        if step <= expected or len(self._states) < STATES:
            return 0
        products = self._products()
        if not np.diag(products).all():
            return 0
        self._tried += 1
        lasts = slowest(products) >= LASTING
        weights = None if lasts else combined(products)
        if weights is not None:
            self._shift(now, weights)
            self.steps.append(step)
            self.forget()
            return self._gap
        if lasts or self._tried == TRIES:
            self._states, self._outlets = self._states[1::2], self._outlets[1::2]
            self._gap, self._tried = 2 * self._gap, 0
        return 0

    def _products(self) -> Reals:
        """Of the changes of the velocity from state to state with one another, (m, m)."""
        changes = [after[1:] - before[1:] for before, after in pairwise(self._states)]
        products = np.zeros((len(changes), len(changes)))
        for i, first in enumerate(changes):
            for j, second in enumerate(changes[: i + 1]):
                each = np.einsum("cn,cn->n", first, second, dtype=np.float64)
                products[i, j] = products[j, i] = self._nodes.sum_of_own(each)
        return products

    def _shift(self, now: Fields, weights: Reals) -> None:
        """Let the flow go on from the combined states. What is kept of a state is rounded: the change is added."""
        change = np.zeros_like(self._states[-1])
        for weight, state in zip(weights[:-1], self._states[1:-1], strict=True):
            change += np.float32(weight) * (state - self._states[-1])
        outlets = np.tensordot(weights, np.array(self._outlets[1:]), 1)
        after = Fields(now.drho + change[0], now.velocity + change[1:], now.stress, now.viscosity)
        self._driver.shift(now, after, outlets)

    def state(self) -> dict[str, Any]:
        """What the next extrapolation depends on, for a checkpoint."""
        kept = {f"state-{k}": self._driver.share.kept(state) for k, state in enumerate(self._states)}
        return kept | {
            "outlets": np.array(self._outlets),
            "steps": np.array([self._gap, self._last, self._tried, *self.steps]),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        self._gap, self._last, self._tried, *self.steps[:] = np.asarray(state["steps"]).tolist()
        self._outlets = list(np.asarray(state["outlets"]))
        self._states = [self._driver.share.taken(state[f"state-{k}"]) for k in range(len(self._outlets))]


def combined(products: Reals) -> Reals | None:
    """Weights of the least combined change, (m,); none where it is not worth it.

    Parameters
    ----------
    products : of the changes from state to state with one another, (m, m).
    """
    scale = np.sqrt(np.diag(products))
    even = products / np.outer(scale, scale) + ROUND_OFF * np.eye(len(scale))
    solved = np.linalg.solve(even, 1 / scale) / scale
    weights = np.asarray(solved / solved.sum())
    back = np.cumsum(weights)[:-1]  # x* lies behind the last state by sum back_i d_(i+1)
    left, away = weights @ products @ weights, back @ products[1:, 1:] @ back
    return weights if left < (WORTH * scale[-1]) ** 2 and away < (FARTHEST * scale.sum()) ** 2 else None


def slowest(products: Reals) -> float:
    """What the slowest mode is multiplied by from state to state.

    Parameters
    ----------
    products : of the changes from state to state with one another, (m, m).
    """
    squares, vectors = np.linalg.eigh(products[:-1, :-1])
    seen = squares > SEEN * squares[-1]
    basis = vectors[:, seen] / np.sqrt(squares[seen])
    return float(np.abs(np.linalg.eigvals(basis.T @ products[:-1, 1:] @ basis)).max())
