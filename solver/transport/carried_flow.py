# SPDX-License-Identifier: Apache-2.0
"""The flow that carries a scalar, over time: of the one velocity of a steady flow, or of the snapshots of a period."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.transport.carrier import Carrier

Reals = NDArray[np.float64]


@dataclass
class CarriedFlow:
    """Flow out through the faces of nodes at any time, m/s. Between two snapshots it changes linearly.

    Attributes
    ----------
    carrier : finds it on the geometry.
    velocity_m_s : gives the velocity of a snapshot, (N, 3), by its number.
    times_s : (T,) of the snapshots.
    flows : (T, openings) out through each opening, m/s times squares of the spacing.
    period_s : none of a steady flow, which has one snapshot.
    """

    carrier: Carrier
    velocity_m_s: Callable[[int], NDArray[np.floating]]
    times_s: Reals
    flows: Reals
    period_s: float | None
    _found: dict[int, NDArray[np.float32]] = field(default_factory=dict)

    def snapshot(self, number: int) -> NDArray[np.float32]:
        """Flow of a snapshot, (6, N). The last two are kept."""
        if number not in self._found:
            velocity = self.velocity_m_s(number).T.astype(np.float64)
            faces = self.carrier.faces(velocity, self.flows[number]).astype(np.float32)
            while len(self._found) > 1:
                del self._found[next(iter(self._found))]
            self._found[number] = faces
        return self._found[number]

    def at(self, time_s: float) -> NDArray[np.float32]:
        """Flow at a time, (6, N)."""
        if self.period_s is None:
            return self.snapshot(0)
        before, after, part = self.between(time_s)
        first = self.snapshot(before)
        return first + np.float32(part) * (self.snapshot(after) - first)

    def between(self, time_s: float) -> tuple[int, int, float]:
        """Numbers of the snapshots before and after a time, and which part of the way from one to the other is gone."""
        assert self.period_s is not None
        since = (time_s - self.times_s[0]) % self.period_s
        starts = self.times_s - self.times_s[0]
        before = int(np.searchsorted(starts, since, "right")) - 1
        ends = [*starts[1:], self.period_s]
        return before, (before + 1) % len(starts), float((since - starts[before]) / (ends[before] - starts[before]))

    @property
    def fastest_m_s(self) -> float:
        """Largest flow through a face in any snapshot."""
        return max(float(np.abs(self.snapshot(number)).max()) for number in range(len(self.times_s)))

    def inflow(self) -> float:
        """Mean of what comes in, m/s times squares of the spacing."""
        return float(-np.minimum(self.flows, 0).sum(axis=1).mean())

    def facts(self) -> dict[str, Any]:
        """What there is, for the record."""
        return {"snapshots": len(self.times_s), "nodes_left_out": int(np.count_nonzero(~self.carrier.reached))}
