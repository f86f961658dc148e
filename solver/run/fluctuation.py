# SPDX-License-Identifier: Apache-2.0
"""An unsteady flow: its mean, how far it fluctuates about it, and how sure the mean is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.driver import Driver
from solver.backends.fields import MEAN
from solver.kernels.sums import Limbs, limbs_by_group, total
from solver.run.convergence import BATCHES, CERTAIN, Reals, signals, standard_error
from solver.run.monitor import Row

PEAK = 0.3
"""Part of a signal's variance that must lie around one frequency for a period to be reported."""
QUIET = 1e-3
"""Root mean square fluctuation of the velocity, over its mean, below which a flow counts as steady: that of single
precision and of sound that stays in a closed domain."""
MEAN_BALANCE = 1e-2
"""Part of the inflow by which outflow may differ on average."""


@dataclass(frozen=True)
class Fluctuation:
    """Of an unsteady flow, over the time of its mean; relative to the means, pressures to their largest difference.

    That of a pulsing flow is the mean of each phase over cycles, from which they vary.

    Attributes
    ----------
    span_s, throughs : that time, and the same in flow-through times.
    velocity_rms : root mean square fluctuation of the velocity over all nodes and times, over that of its mean.
    rms : the same of each signal, by name; of several openings the largest.
    standard_error : of its mean.
    drifts : whether the means of both halves of the time differ by more than fluctuations explain.
    period_s : of the signal that fluctuates the most, where one frequency rules it; none else.
    cycles : of a pulsing flow.
    """

    span_s: float
    throughs: float
    velocity_rms: float
    rms: dict[str, float]
    standard_error: dict[str, float]
    drifts: bool
    period_s: float | None
    cycles: int | None = None

    def record(self) -> str:
        """The fluctuation in one sentence."""
        drifts, error = ", and they still drift" if self.drifts else "", max(self.standard_error.values())
        if self.cycles:
            return (
                f"unsteady: no cycle is like the one before; phases are means over {self.cycles} cycles, from which the"
                f" velocity of a cycle differs by {self.velocity_rms:.2%} (root mean square), so that the field of a"
                f" phase is known to about {self.velocity_rms / self.cycles**0.5:.2%}; standard errors of means over"
                f" a cycle are up to {error:.2%}{drifts}"
            )
        period = f", with a period of {self.period_s:.3g} s" if self.period_s else ""
        return (
            f"unsteady: mean over {self.span_s:.3g} s ({self.throughs:.0f} flow-through times); the velocity fluctuates"
            f" by {self.velocity_rms:.2%} (root mean square){period}, standard errors of the means are up to"
            f" {error:.2%}{drifts}"
        )

    def warnings(self, bound: float, limit: str) -> list[str]:
        """What to say of means that are less sure than was asked for, and which setting ended them."""
        large = [f"{name} {error:.2%}" for name, error in self.standard_error.items() if error > bound]
        if not large:
            return []
        return [
            f"the means of the unsteady flow have standard errors above solve.unsteady_tolerance {bound:.2%}:"
            f" {', '.join(large)}; raise {limit}"
        ]

    def summary(self) -> dict[str, Any]:
        """All of it, for ``solve.json``."""
        return {
            "mean_over_s": self.span_s,
            "flow_throughs": self.throughs,
            "velocity_rms": self.velocity_rms,
            "rms": self.rms,
            "standard_error": self.standard_error,
            "drifts": self.drifts,
            "period_s": self.period_s,
            "cycles": self.cycles,
        }


def dominant_period_s(times_s: Reals, values: Reals) -> float | None:
    """Period around which at least a part `PEAK` of the variance of evenly spaced values lies; none if none does.

    The largest peak of the periodogram under a Hann window, three frequencies wide; its place is their mean, weighted.
    """
    count = len(values)
    if count < 2 * BATCHES or not np.ptp(values):
        return None
    trend = np.polyval(np.polyfit(times_s - times_s[0], values, 1), times_s - times_s[0])
    power = np.abs(np.fft.rfft((values - trend) * np.hanning(count))) ** 2
    top = int(np.argmax(power[2:])) + 2  # slower ones are not seen twice
    near = slice(top - 1, top + 2)
    if power[near].sum() < PEAK * power[1:].sum():
        return None
    frequency = power[near] @ np.arange(top - 1, top - 1 + len(power[near])) / power[near].sum()
    return float(count * (times_s[1] - times_s[0]) / frequency)


def fluctuation(rows: Sequence[Row], through_s: float, velocity_rms: float, drifts: bool = False) -> Fluctuation:
    """Of evenly spaced rows of a flow, whose flow-through time and fluctuation of the velocity are given.

    Parameters
    ----------
    rows : of the monitor.
    through_s : flow-through time.
    velocity_rms : root mean square of the velocity's deviation from its mean, over that of the mean.
    drifts : whether its mean does.
    """
    found, times = signals(rows), np.array([row.time_s for row in rows])
    columns = np.concatenate([*found.values()], axis=1)
    liveliest = columns[:, int(np.argmax(columns.std(axis=0)))]
    span_s = float(len(times) * (times[1] - times[0]))
    return Fluctuation(
        span_s=span_s,
        throughs=span_s / through_s,
        velocity_rms=velocity_rms,
        rms={name: float(values.std(axis=0).max()) for name, values in found.items()},
        standard_error={name: standard_error(values) for name, values in found.items()},
        drifts=drifts,
        period_s=dominant_period_s(times, liveliest),
    )


def velocity_rms(driver: Driver) -> float:
    """Root mean square of the velocity's deviation from its mean, over that of the mean, of what a driver averaged."""
    velocity = np.square(driver.mean(MEAN).velocity, dtype=np.float64)
    own = np.concatenate([_limbs(driver.statistics().square), *map(_limbs, velocity)])
    square, *of_mean = total(driver.share.total(own)).tolist()
    return float(np.sqrt(max(square / max(sum(of_mean), 1e-300) - 1, 0.0)))


def _limbs(values: NDArray[np.floating]) -> Limbs:
    """Limbs of the sum of values, (1, 3)."""
    return limbs_by_group(values, np.zeros(len(values), np.int8), 1)


def balanced(rows: Sequence[Row]) -> bool:
    """Whether as much flows out as in on average, as far as the rows tell."""
    balance = np.array([row.balance for row in rows])
    return bool(abs(balance.mean()) < MEAN_BALANCE + CERTAIN * standard_error(balance[:, None]))
