# SPDX-License-Identifier: Apache-2.0
"""Curves over time that repeat, through samples of one period: straight lines, a periodic cubic spline, or a Fourier
series.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]

NEARLY_EVEN = 1e-3
"""Deviation, in their mean distance, of samples that count as evenly spaced: times are rounded in files."""

SAMPLES_PER_HARMONIC = 32
"""Samples over the shortest wave of a Fourier series among which its extremes are looked for."""


class Periodic(Protocol):
    """What may repeat."""

    @property
    def period_s(self) -> float | None:
        """Length of a cycle; none: it does not change."""


class Curve(Periodic, Protocol):
    """A value over time."""

    @property
    def mean(self) -> float:
        """Over a cycle."""

    @property
    def extremes(self) -> tuple[float, float]:
        """Least and largest value."""

    def at(self, time_s: Reals) -> Reals:
        """Value at times, of their shape."""

    def scaled(self, factor: float) -> Self:
        """The curve times a factor."""

    def pulsating(self, factor: float) -> Self:
        """The curve with its deviations from the mean times a factor."""

    def series(self, count: int) -> "Series":
        """Its mean and first harmonics, at most so many."""


@dataclass(frozen=True)
class Series:
    """A Fourier series, Re(sum of c_n exp(2 pi i n t / T)), or a constant.

    Attributes
    ----------
    period_s : T; none for a constant.
    coefficients : (H + 1,) complex, c_0 real.
    """

    period_s: float | None
    coefficients: NDArray[np.complex128]

    @property
    def harmonics(self) -> int:
        """Number of harmonics, H."""
        return len(self.coefficients) - 1

    @property
    def mean(self) -> float:
        """c_0."""
        return float(self.coefficients[0].real)

    @property
    def extremes(self) -> tuple[float, float]:
        """Least and largest value: every top of many samples is moved up by Newton's method, since of two that are
        nearly as high the lower sample may belong to the higher one.
        """
        if not self.harmonics:
            return self.mean, self.mean
        angle = 2 * np.pi * np.arange(count := SAMPLES_PER_HARMONIC * self.harmonics) / count
        found = []
        for sign in (-1.0, 1.0):
            height = sign * self._of_angle(angle, 0)
            tops = angle[(height >= np.roll(height, 1)) & (height >= np.roll(height, -1))]
            for _ in range(4):
                slope, bend = self._of_angle(tops, 1), self._of_angle(tops, 2)
                tops = tops - np.divide(slope, bend, out=np.zeros_like(slope), where=bend != 0)
            found.append(sign * float(max(height.max(), (sign * self._of_angle(tops, 0)).max())))
        return found[0], found[1]

    def at(self, time_s: Reals) -> Reals:
        """Value at times, of their shape."""
        return self._of_angle(self._angle(time_s), 0)

    def modes(self, time_s: Reals) -> NDArray[np.complex128]:
        """c_n exp(2 pi i n t / T) at times, (T, H + 1)."""
        return self.coefficients * np.exp(1j * np.multiply.outer(self._angle(time_s), np.arange(self.harmonics + 1)))

    def scaled(self, factor: float) -> "Series":
        """The series times a factor."""
        return replace(self, coefficients=self.coefficients * factor)

    def pulsating(self, factor: float) -> "Series":
        """The series with its deviations from the mean times a factor."""
        return replace(self, coefficients=np.append(self.coefficients[:1], factor * self.coefficients[1:]))

    def series(self, count: int) -> "Series":
        """Its mean and first harmonics, at most so many."""
        return replace(self, coefficients=self.coefficients[: count + 1])

    def _angle(self, time_s: Reals) -> Reals:
        return 2 * np.pi * np.mod(time_s / self.period_s, 1.0) if self.period_s else np.zeros_like(time_s)

    def _of_angle(self, angle: Reals, derivative: int) -> Reals:
        n = np.arange(self.harmonics + 1)
        values: Reals = (np.exp(1j * np.multiply.outer(angle, n)) @ (self.coefficients * (1j * n) ** derivative)).real
        return values


@dataclass(frozen=True)
class Pieces:
    """Cubic pieces between knots, periodic.

    Attributes
    ----------
    knots_s : (S + 1,) rising from 0 to the period.
    coefficients : (4, S), of the powers 0 to 3 of the time since the knot before.
    """

    knots_s: Reals
    coefficients: Reals

    @property
    def period_s(self) -> float:
        """Length of a cycle."""
        return float(self.knots_s[-1])

    @property
    def mean(self) -> float:
        """Over a cycle, by the exact integral of each piece."""
        length = np.diff(self.knots_s)
        powers = length ** np.arange(1, 5)[:, None] / np.arange(1, 5)[:, None]
        return float((self.coefficients * powers).sum() / self.period_s)

    @property
    def extremes(self) -> tuple[float, float]:
        """Least and largest value: at knots, and where the derivative of a piece is zero."""
        first, second, third = self.coefficients[1], 2 * self.coefficients[2], 3 * self.coefficients[3]
        with np.errstate(all="ignore"):  # no root, or one at infinity: not within the piece
            q = -(second + np.copysign(np.sqrt(second**2 - 4 * third * first), second)) / 2
            roots = np.stack((q / third, first / q))
        inside = (roots > 0) & (roots < np.diff(self.knots_s))
        values = np.concatenate((self.coefficients[0], self.at((self.knots_s[:-1] + roots)[inside])))
        return float(values.min()), float(values.max())

    def at(self, time_s: Reals) -> Reals:
        """Value at times, of their shape."""
        phase = np.mod(time_s, self.period_s)
        piece = np.clip(np.searchsorted(self.knots_s, phase, side="right") - 1, 0, len(self.knots_s) - 2)
        since = phase - self.knots_s[piece]
        a, b, c, d = self.coefficients[:, piece]
        values: Reals = a + since * (b + since * (c + since * d))
        return values

    def scaled(self, factor: float) -> "Pieces":
        """The curve times a factor."""
        return replace(self, coefficients=self.coefficients * factor)

    def pulsating(self, factor: float) -> "Pieces":
        """The curve with its deviations from the mean times a factor."""
        changed = self.coefficients * factor
        changed[0] += (1 - factor) * self.mean
        return replace(self, coefficients=changed)

    def series(self, count: int) -> Series:
        """Its mean and first harmonics, exact.

        By parts, the integral of f exp(-i w t) over a period is the sum over derivatives d and knots of the jump of
        f^(d) there, times exp(-i w t) / (i w)^(d + 1).
        """
        length = np.diff(self.knots_s)
        omega = 2 * np.pi * np.arange(1, count + 1) / self.period_s
        phasor = np.exp(-1j * np.multiply.outer(omega, self.knots_s[:-1]))
        harmonics, piece = np.zeros(count, np.complex128), self.coefficients
        for order in range(4):
            end = (piece * length ** np.arange(len(piece))[:, None]).sum(axis=0)
            harmonics += phasor @ (piece[0] - np.roll(end, 1)) / (1j * omega) ** (order + 1)
            piece = piece[1:] * np.arange(1, len(piece))[:, None]
        return Series(self.period_s, np.concatenate(([self.mean], 2 * harmonics / self.period_s)))


def linear(time_s: Reals, value: Reals) -> Pieces:
    """Straight lines between samples; `time_s` (S + 1,) from 0 to the period, the last value is the first."""
    slope = np.diff(value) / np.diff(time_s)
    return Pieces(time_s, np.stack((value[:-1], slope, *np.zeros((2, len(slope))))))


def spline(time_s: Reals, value: Reals) -> Pieces:
    """Cubic spline with continuous second derivatives through samples; arguments as those of :func:`linear`.

    The second derivatives solve a cyclic tridiagonal system, which is one of rank one more than a tridiagonal one.
    """
    length, slope = np.diff(time_s), np.diff(value) / np.diff(time_s)
    before = np.roll(length, 1)
    bend = _solve_cyclic(before, 2 * (before + length), length, 6 * (slope - np.roll(slope, 1)))
    ahead = np.roll(bend, -1)
    coefficients = value[:-1], slope - length * (2 * bend + ahead) / 6, bend / 2, (ahead - bend) / (6 * length)
    return Pieces(time_s, np.stack(coefficients))


def _solve_cyclic(lower: Reals, diagonal: Reals, upper: Reals, right: Reals) -> Reals:
    """Solve a tridiagonal system whose first and last rows also meet, all (S,), by Sherman and Morrison's formula."""
    pivot, corner = -diagonal[0], np.zeros(len(diagonal))
    diagonal, corner[0], corner[-1] = diagonal.copy(), pivot, upper[-1]
    diagonal[0] -= pivot
    diagonal[-1] -= upper[-1] * lower[0] / pivot
    sides = np.stack((right, corner), axis=1)
    for k in range(1, len(diagonal)):
        factor = lower[k] / diagonal[k - 1]
        diagonal[k] -= factor * upper[k - 1]
        sides[k] -= factor * sides[k - 1]
    sides[-1] /= diagonal[-1]
    for k in range(len(diagonal) - 2, -1, -1):
        sides[k] = (sides[k] - upper[k] * sides[k + 1]) / diagonal[k]
    plain, answer = sides.T
    share = lower[0] / pivot
    solution: Reals = plain - answer * (plain[0] + share * plain[-1]) / (1 + answer[0] + share * answer[-1])
    return solution


def fourier(time_s: Reals, value: Reals) -> Series:
    """The series of all harmonics that samples tell; arguments as those of :func:`linear`.

    It runs through evenly spaced samples; of others it is that of their spline.
    """
    count = len(time_s) - 1
    if np.abs(np.diff(time_s) * count / time_s[-1] - 1).max() > NEARLY_EVEN:
        return spline(time_s, value).series(count // 2)
    coefficients = np.fft.rfft(value[:-1]) / count
    coefficients[1 : (count + 1) // 2] *= 2  # but the harmonic of which there are just two samples a wave
    return Series(float(time_s[-1]), coefficients)


def constant(value: float) -> Series:
    """A value that does not change."""
    return Series(None, np.array([value], np.complex128))


INTERPOLATIONS: dict[str, Callable[[Reals, Reals], Curve]] = {"spline": spline, "fourier": fourier, "linear": linear}
"""Curves through samples, by name."""
