# SPDX-License-Identifier: Apache-2.0
"""A passive scalar in the textbook's way: two lattices, formulas over arrays; nothing shared with the drivers.

D3Q7 with two relaxation times. Populations are (7, N), the flow out through the faces of links too, in lattice units.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DIRECTIONS = np.array([(0, 0, 0), (1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)])
BACK = np.array([0, 2, 1, 4, 3, 6, 5])
WEIGHT = np.array([1 / 4] + [1 / 8] * 6)[:, None]


@dataclass
class TextbookScalar:
    """Moves a concentration.

    Attributes
    ----------
    neighbour : (7, N) row of the node at the end of each link; -1 where a wall or an opening is crossed.
    faces : (7, N) flow out through the face that each link crosses; through walls and at rest 0.
    diffusivity, lambda_trt : D, and (1/omega+ - 1/2) (1/omega- - 1/2).
    source : per step.
    inflow : (7, N) concentration of what comes in there.
    """

    neighbour: NDArray[np.integer]
    faces: Array
    diffusivity: float
    lambda_trt: float = 1 / 4
    source: float = 0.0
    inflow: Array | float = 0.0
    left: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.through = self.neighbour < 0
        self.flux = np.where(self.through, self.faces, 0.0)

    def begin(self, concentration: Array) -> None:
        """Begin with a concentration (N,), each population as it arrives with the flow."""
        self.s = WEIGHT * concentration * (1 - 4 * self.faces[BACK])
        self.now = self.before = concentration
        self.carried = np.where(self.flux > 0, concentration, self.inflow) * self.flux

    def concentration(self) -> Array:
        """That of all nodes, (N,)."""
        return np.asarray(self.s.sum(axis=0))

    def step(self) -> None:
        """Collision, streaming, walls and openings.

        The velocity of a pair of links is the mean of their faces' flows, and what these differ by stands in both.
        """
        of_odd = 4 * self.diffusivity
        odd_rate, even_rate = 1 / (of_odd + 0.5), 1 / (self.lambda_trt / of_odd + 0.5)
        c = self.s.sum(axis=0) + self.source / 2
        along, differs = (self.faces - self.faces[BACK]) / 2, (self.faces + self.faces[BACK]) / 2
        even, odd = (self.s + self.s[BACK]) / 2, (self.s - self.s[BACK]) / 2
        after = self.s - even_rate * (even - WEIGHT * c) - odd_rate * (odd - 4 * WEIGHT * along * c)
        after += WEIGHT * ((1 - even_rate / 2) + (1 - odd_rate / 2) * 4 * along) * self.source
        after += 4 * WEIGHT * differs * (odd_rate * c + (1 - odd_rate / 2) * self.source)
        after[0] -= after.sum(axis=0) - self.s.sum(axis=0) - self.source  # what the flow through faces does not balance
        through = self.through
        arriving = np.empty_like(after)
        for i, back in enumerate(BACK):
            arriving[i] = np.where(through[back], after[back], after[i][self.neighbour[back]])
        self.s = self._passed(arriving)

    def _passed(self, arriving: Array) -> Array:
        """The populations that arrive, less a(t) = k a(t-1) + (1 - k) [F C_b + abs(F) (mean of C(t +- 1) - C(t))/2]."""
        now, before, k = self.now, self.before, 1 - 1 / (4 * self.diffusivity + 0.5)
        kept = k * self.carried + (1 - k) * np.where(self.flux > 0, now, self.inflow) * self.flux
        size = (1 - k) * np.abs(self.flux).sum(axis=0)
        then = (arriving.sum(axis=0) - kept.sum(axis=0) + size * (now / 2 - before / 4)) / (1 + size / 4)
        self.carried = kept + (1 - k) * np.abs(self.flux) * ((then + before) / 2 - now) / 2
        self.left += float(self.carried.sum())
        self.now, self.before = arriving.sum(axis=0) - self.carried.sum(axis=0), now
        return arriving - self.carried[BACK]
