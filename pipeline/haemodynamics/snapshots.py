# SPDX-License-Identifier: Apache-2.0
"""A velocity over time, as the snapshots of a flow have it: periodic, or steady."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Field:
    """A velocity over time.

    Attributes
    ----------
    times_s : (T,) ascending times of the snapshots, within one period.
    period_s : after which the flow repeats; none of a steady flow, which has one snapshot.
    velocity_m_s : snapshot by number at the fluid nodes, (N, 3).
    """

    times_s: NDArray[np.float64]
    period_s: float | None
    velocity_m_s: Callable[[int], NDArray[np.floating]]

    @property
    def spacing_s(self) -> float | None:
        """Mean time between snapshots; none of a steady flow."""
        return self.period_s / len(self.times_s) if self.period_s else None

    def moment(self, number: int) -> float:
        """Time of a snapshot, whose numbers go on over all periods."""
        period, step = divmod(number, len(self.times_s))
        return float(self.times_s[step]) + period * (self.period_s or 0.0)

    def intervals(self, since_s: float, until_s: float) -> Iterator[tuple[int, float]]:
        """Intervals between snapshots on the way from one time to another, at least one, in the order of the way.

        Returns
        -------
        The number of each one's first snapshot, and the time up to which the way is in it.
        """
        forwards, now = until_s >= since_s, since_s
        cycle = int(np.floor((now - self.times_s[0]) / (self.period_s or 1.0)))
        phase = now - cycle * (self.period_s or 0.0)
        within = int(np.searchsorted(self.times_s, phase, "right" if forwards else "left")) - 1
        number = cycle * len(self.times_s) + within
        while True:
            if forwards:
                now = max(now, min(self.moment(number + 1), until_s))
            else:
                now = min(now, max(self.moment(number), until_s))
            yield number, now
            if now == until_s:
                return
            number += 1 if forwards else -1
