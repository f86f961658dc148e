"""Flow and pressure over time: steady, or a waveform that repeats.

A waveform is a table of samples over one period and a curve between them: straight lines, a periodic cubic spline, or
a Fourier series. Mean, extremes and harmonics are those of the curve, not of the samples.
"""

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from solver.boundary.opening_settings import InletSettings, OutletSettings
from solver.domain.nodes import Opening
from solver.runtime.errors import StageError

T = TypeVar("T")
Reals = NDArray[np.float64]

WOMERSLEY_HARMONICS = 10
"""Harmonics of a waveform that the profile womersley keeps where the settings do not say."""

NEARLY_EVEN = 1e-3
"""Deviation, in their mean distance, of samples that count as evenly spaced: times are rounded in files."""

SAMPLES_PER_HARMONIC = 32
"""Samples over the shortest wave of a Fourier series among which its extremes are looked for."""


SHOWN_SAMPLES, SHOWN_HARMONICS = 201, 12
"""Of a waveform in the summary."""


class WaveformSettings(Protocol):
    """What the settings say of the openings, by name or ``*``."""

    @property
    def inlets(self) -> Mapping[str, InletSettings]:
        """Flow through each inlet."""

    @property
    def outlets(self) -> Mapping[str, OutletSettings]:
        """Pressure at each outlet."""


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
        """Least and largest value: of many samples, moved up to the top by Newton's method."""
        if not self.harmonics:
            return self.mean, self.mean
        angle = 2 * np.pi * np.arange(count := SAMPLES_PER_HARMONIC * self.harmonics) / count
        values = self._of_angle(angle, 0)
        found = []
        for k in (np.argmin(values), np.argmax(values)):
            top = angle[[k]]
            for _ in range(4):
                slope, bend = self._of_angle(top, 1), self._of_angle(top, 2)
                top = top - np.divide(slope, bend, out=np.zeros(1), where=bend != 0)
            found.append(float(self._of_angle(top, 0)[0]))
        return min(found[0], float(values.min())), max(found[1], float(values.max()))

    def at(self, time_s: Reals) -> Reals:
        """Value at times, of their shape."""
        return self._of_angle(self._angle(time_s), 0)

    def modes(self, time_s: Reals) -> NDArray[np.complex128]:
        """c_n exp(2 pi i n t / T) at times, (T, H + 1)."""
        return self.coefficients * np.exp(1j * np.multiply.outer(self._angle(time_s), np.arange(self.harmonics + 1)))

    def scaled(self, factor: float) -> "Series":
        """The series times a factor."""
        return replace(self, coefficients=self.coefficients * factor)

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


INTERPOLATIONS: dict[str, Callable[[Reals, Reals], Curve]] = {"spline": spline, "fourier": fourier, "linear": linear}
"""Curves through samples, by name."""


@dataclass(frozen=True)
class Inflow:
    """Flow rate through an inlet.

    Attributes
    ----------
    curve : mL/s over time, into the vessel.
    lowest_sample_ml_s : least flow among the samples that it was made from.
    """

    curve: Curve
    lowest_sample_ml_s: float

    @property
    def period_s(self) -> float | None:
        """Length of a cycle; none if the flow is steady."""
        return self.curve.period_s

    @property
    def mean_ml_s(self) -> float:
        """Mean over a cycle."""
        return self.curve.mean

    @property
    def peak_ml_s(self) -> float:
        """Largest flow."""
        return self.curve.extremes[1]

    @property
    def minimum_ml_s(self) -> float:
        """Least flow; below 0 where it reverses."""
        return self.curve.extremes[0]

    @property
    def reverses(self) -> bool:
        """Whether the flow turns back, beyond round-off."""
        return self.minimum_ml_s < -1e-9 * self.peak_ml_s

    @property
    def harmonics(self) -> int:
        """Harmonics of a flow that is a Fourier series; 0 for others."""
        return self.curve.harmonics if isinstance(self.curve, Series) else 0

    def at(self, time_s: Reals) -> Reals:
        """Flow rate at times, mL/s."""
        return self.curve.at(time_s)

    def amplitudes(self, time_s: Reals, harmonics: int = 0) -> Reals:
        """Flow rates at times that belong to the rows of :func:`solver.boundary.profiles.link_weights`, mL/s.

        Parameters
        ----------
        time_s : (T,) times.
        harmonics : H of the inlet's profile, 0 or that of this flow.

        Returns
        -------
        (T, 1 + 2 H) : the flow; with harmonics its mean, then Re q_n and -Im q_n of each q_n = c_n exp(2 pi i n t / T).
        """
        if not harmonics or not isinstance(self.curve, Series):
            return self.at(time_s)[:, None]
        modes = self.curve.modes(time_s)
        pairs = np.stack((modes[:, 1:].real, -modes[:, 1:].imag), axis=2).reshape(len(time_s), -1)
        return np.concatenate((modes[:, :1].real, pairs), axis=1)


def steady(flow_ml_s: float) -> Inflow:
    """A flow that does not change."""
    return Inflow(constant(flow_ml_s), flow_ml_s)


def constant(value: float) -> Series:
    """A value that does not change."""
    return Series(None, np.array([value], np.complex128))


def read_inflow(entry: InletSettings) -> Inflow:
    """The flow through an inlet.

    Raises
    ------
    StageError
        If nothing is given, or the waveform's file does not hold one.
    """
    if entry.waveform is None:
        if entry.flow_ml_s is None:
            raise StageError("solve.inlets: an inlet has neither flow_ml_s nor waveform; give one")
        return steady(entry.flow_ml_s)
    path = Path(entry.waveform)
    kept = entry.harmonics or (WOMERSLEY_HARMONICS if entry.profile == "womersley" else None)
    time_s, flow_ml_s = read_samples(path, "flow_ml_s")
    curve = interpolated(time_s, flow_ml_s, entry.interpolation, kept)
    factor = 1.0
    if not curve.mean > 0:
        raise StageError(
            f"waveform {path.name}: its mean flow is {curve.mean:.3g} mL/s; an inlet takes fluid in on average: turn"
            " its sign, or take this opening as an outlet"
        )
    if entry.flow_ml_s is not None:
        factor = entry.flow_ml_s / curve.mean
    return Inflow(curve.scaled(factor), factor * float(flow_ml_s.min()))


def read_pressure(path: Path, interpolation: str = "spline") -> Curve:
    """Pressure over one period, mmHg, from a CSV file with the columns ``time_s`` and ``pressure_mmhg``.

    Raises
    ------
    StageError
        If the file does not hold that.
    """
    return interpolated(*read_samples(path, "pressure_mmhg"), interpolation)


def interpolated(time_s: Reals, value: Reals, interpolation: str, harmonics: int | None = None) -> Curve:
    """Curve through samples, or its mean and first harmonics.

    Raises
    ------
    StageError
        If the interpolation is unknown.
    """
    if interpolation not in INTERPOLATIONS:
        raise StageError(f"interpolation {interpolation!r}: unknown; known are {', '.join(INTERPOLATIONS)}")
    curve = INTERPOLATIONS[interpolation](time_s, value)
    return curve.series(harmonics) if harmonics else curve


def read_samples(path: Path, column: str) -> tuple[Reals, Reals]:
    """One period from a CSV file with the columns ``time_s`` and `column`; # begins a line of comment.

    The first and the last row are the same instant of the cycle, so that the period is the time between them.

    Returns
    -------
    Times from 0 to the period and values, (S + 1,) each; the last value is the first.

    Raises
    ------
    StageError
        If the file is not such a table, or the cycle does not close.
    """
    time, value = _columns(path, column)
    if len(time) < 3 or not (np.diff(time) > 0).all():
        raise StageError(f"waveform {path.name}: {len(time)} rows with rising time_s wanted, at least 3")
    if abs(value[-1] - value[0]) > 0.01 * np.abs(value).max():
        raise StageError(
            f"waveform {path.name}: {column} ends at {value[-1]:g} but begins at {value[0]:g}; the last row must "
            "repeat the first, one period later"
        )
    value[-1] = value[0]
    return time - time[0], value


def _columns(path: Path, column: str) -> tuple[Reals, Reals]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            rows = list(csv.DictReader(line for line in stream if not line.startswith("#")))
        table = np.array([[float(row["time_s"]), float(row[column])] for row in rows]).reshape(-1, 2)
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise StageError(
            f"waveform {path.name}: not a CSV table with the columns time_s and {column} ({error})"
        ) from None
    if not np.isfinite(table).all():
        raise StageError(f"waveform {path.name}: holds a value that is not a finite number")
    return table[:, 0], table[:, 1]


def described(curves: Mapping[str, Curve], unit: str) -> dict[str, dict[str, Any]]:
    """What the summary tells of the curves that change, by name of the opening: figures, and one period of samples.

    Parameters
    ----------
    curves : by name of the opening.
    unit : key of the values, ``flow_ml_s`` or ``pressure_mmhg``.

    Returns
    -------
    By name: ``period_s``, ``mean``, ``least``, ``largest``, ``harmonics`` (amplitudes of the first `SHOWN_HARMONICS`),
    and as lists ``time_s`` and the unit.
    """
    figures = {}
    for name, curve in curves.items():
        if curve.period_s:
            times = np.linspace(0, curve.period_s, SHOWN_SAMPLES)
            amplitudes = np.abs(curve.series(SHOWN_HARMONICS).coefficients[1:])
            figures[name] = {
                "period_s": curve.period_s, "mean": curve.mean, "least": curve.extremes[0],
                "largest": curve.extremes[1], "harmonics": amplitudes.tolist(), "time_s": times.tolist(),
                unit: curve.at(times).tolist(),
            }  # fmt: skip
    return figures


def by_opening(openings: tuple[Opening, ...], role: str, entries: Mapping[str, T]) -> dict[str, T]:
    """The settings of each opening of a role: its own, or those of ``*``.

    Raises
    ------
    StageError
        If there is no such opening, a name is unknown, or an opening is left without settings.
    """
    names = [opening.name for opening in openings if opening.role == role]
    if not openings and not entries.keys() - ({"*"} if role == "outlet" else set()):
        return {}
    if not openings:
        raise StageError(
            f"solve.{role}s: {', '.join(entries)} given, but the geometry has no openings; leave {role}s out, and let"
            " solve.force_n_m3 or a moving patch of the wall drive the flow"
        )
    if not names:
        raise StageError(f"the vessel has no {role}; give one in surface.openings")
    if unknown := sorted(entries.keys() - {*names, "*"}):
        raise StageError(f"solve.{role}s: no {role} is called {', '.join(unknown)}; there are {', '.join(names)}")
    rest = [name for name in names if name not in entries]
    if rest and "*" not in entries:
        raise StageError(f"solve.{role}s: nothing given for {', '.join(rest)}; name them or give '*'")
    if role == "inlet" and len(rest) > 1:
        raise StageError(f"solve.inlets: '*' would give each of {', '.join(rest)} the same flow; name each of them")
    return {name: entries[name if name in entries else "*"] for name in names}


def common_period_s(waveforms: Mapping[str, Periodic]) -> float | None:
    """Period of all waveforms by name of the opening; none if they are steady.

    Raises
    ------
    StageError
        If they differ.
    """
    periods = {name: waveform.period_s for name, waveform in waveforms.items() if waveform.period_s}
    if not periods:
        return None
    first = next(iter(periods.values()))
    if any(abs(period - first) > 1e-6 * first for period in periods.values()):
        text = ", ".join(f"{name} {period:g} s" for name, period in periods.items())
        raise StageError(f"solve: waveforms have different periods ({text}); give them the same")
    return first


@dataclass(frozen=True)
class Waveforms:
    """What changes in time at the openings, by their names.

    Attributes
    ----------
    inflow : flow through each inlet.
    pressure_mmhg : pressure at the outlets that have a waveform.
    """

    inflow: dict[str, Inflow]
    pressure_mmhg: dict[str, Curve]

    @property
    def mean_ml_s(self) -> float:
        """Mean flow into the vessel."""
        return sum(flow.mean_ml_s for flow in self.inflow.values())

    def flow_ml_s(self, times_s: Reals) -> Reals:
        """Flow into the vessel at times."""
        return sum((flow.at(times_s) for flow in self.inflow.values()), np.zeros_like(times_s))


def read_waveforms(openings: tuple[Opening, ...], settings: WaveformSettings) -> Waveforms:
    """Flows and pressures over time, as the settings or their files say.

    Raises
    ------
    StageError
        If settings do not fit the openings, or a file does not hold a waveform.
    """
    inlets = by_opening(openings, "inlet", settings.inlets)
    outlets = by_opening(openings, "outlet", settings.outlets)
    return Waveforms(
        {name: read_inflow(entry) for name, entry in inlets.items()},
        {name: read_pressure(Path(entry.waveform)) for name, entry in outlets.items() if entry.waveform},
    )


def overshoots(inflow: Mapping[str, Inflow]) -> list[str]:
    """Warnings of flows by name of the inlet that reverse although none of their samples does."""
    return [
        f"solve.inlets.{name}: the curve through the waveform's samples falls to {flow.minimum_ml_s:.3g} mL/s, although"
        " none of them is below 0; interpolation linear does not, or give more samples where they change fast"
        for name, flow in inflow.items()
        if flow.reverses and flow.lowest_sample_ml_s >= 0
    ]
