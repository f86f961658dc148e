# SPDX-License-Identifier: Apache-2.0
"""Flow and pressure over time: steady, or a waveform that repeats.

A waveform is a table of samples over one period and a curve between them (:mod:`solver.boundary.curves`), of which
mean, extremes and harmonics are taken, not of the samples.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from solver.boundary.curves import INTERPOLATIONS, Curve, Periodic, Reals, Series, constant
from solver.boundary.opening_settings import InletSettings, OutletSettings
from solver.boundary.waveform_table import Table, read_table
from solver.domain.nodes import Opening
from solver.runtime.errors import StageError

T = TypeVar("T")

WOMERSLEY_HARMONICS = 10
"""Harmonics of a waveform that the profile womersley keeps where the settings do not say."""

SAME = 0.002
"""Of the largest value, by which the last may differ from the first: three digits. At the end of diastole a flow hardly
changes, so that a table whose last step is missing differs little there, and its period would be a step too short.
"""
NO_MEAN = 1e-9
"""Of the largest value, a mean that is round-off."""
UNEVEN = 0.25
"""Of a step, by which even steps may differ: times in files are rounded, to a millisecond in steps of 10 or 20."""

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
    _require_mean(path.name, curve, entry.flow_ml_s)
    if entry.flow_ml_s is not None:
        factor = entry.flow_ml_s / curve.mean
    lowest = entry.pulsatility * float(flow_ml_s.min()) + (1 - entry.pulsatility) * curve.mean
    return Inflow(curve.scaled(factor).pulsating(entry.pulsatility), factor * lowest)


def _require_mean(name: str, curve: Curve, scaled_to_ml_s: float | None) -> None:
    """Check that fluid comes in on average, and that a mean that is scaled is no rounding.

    Raises
    ------
    StageError
        If not.
    """
    largest = max(map(abs, curve.extremes))
    if curve.mean < -NO_MEAN * largest:
        raise StageError(
            f"waveform {name}: its mean flow is {curve.mean:.3g} mL/s; an inlet takes fluid in on average: turn"
            " its sign, or take this opening as an outlet"
        )
    if curve.mean <= NO_MEAN * largest:
        raise StageError(
            f"waveform {name}: its mean flow is 0; an inlet takes fluid in on average: add a little to all of its"
            f" flows, {SAME * largest:.2g} mL/s are enough"
        )
    if scaled_to_ml_s is not None and curve.mean < SAME / 2 * largest:
        raise StageError(
            f"waveform {name}: its mean flow, {curve.mean:.3g} mL/s, is no more than the rounding of its largest,"
            f" {largest:.3g} mL/s, so that it cannot be scaled to flow_ml_s {scaled_to_ml_s:g}; leave flow_ml_s out,"
            " and give the waveform in its own units"
        )


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

    Parameters
    ----------
    time_s : (S + 1,) times of the samples, rising from 0 to the period.
    value : (S + 1,) samples, the last equal to the first.
    interpolation : one of :data:`solver.boundary.curves.INTERPOLATIONS`.
    harmonics : number of harmonics that are kept; none: the curve as it is.

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
    """One period from a CSV file with the columns ``time_s`` and `column`, or others that tell their units.

    The first and the last row are the same instant of the cycle, so that the period is the time between them.

    Returns
    -------
    Times from 0 to the period and values, (S + 1,) each; the last value is the first.

    Raises
    ------
    StageError
        If the file is not such a table (:mod:`solver.boundary.waveform_table`), or the cycle does not close.
    """
    table = read_table(path, column)
    time, value = table.time_s, table.value
    if len(time) < 3 or not (np.diff(time) > 0).all():
        raise StageError(f"waveform {path.name}: {len(time)} rows with rising time_s wanted, at least 3")
    if abs(value[-1] - value[0]) > SAME * np.abs(value).max():
        raise StageError(
            f"waveform {path.name}: {column} ends at {value[-1]:g} but begins at {value[0]:g}; the last row must "
            f"repeat the first, one period later{_closing(table)}"
        )
    value[-1] = value[0]
    return time - time[0], value


def _closing(table: Table) -> str:
    """How a cycle is closed: by a row, where its steps are even and the last one may be missing, or in its last row."""
    time, first = table.time_s, float(table.value[0])
    steps = np.diff(time)
    last = f"in its last row put {table.entries(None, first)}"
    if np.ptp(steps) > UNEVEN * steps.mean():
        return f": {last}"
    row = table.entries(float(time[-1] + steps.mean()), first)
    return f": if the cycle ends one step after the last row, add a row of {row}; if it ends with it, {last}"


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
                "period_s": curve.period_s,
                "mean": curve.mean,
                "least": curve.extremes[0],
                "largest": curve.extremes[1],
                "harmonics": amplitudes.tolist(),
                "time_s": times.tolist(),
                unit: curve.at(times).tolist(),
            }
    return figures


def by_opening(openings: tuple[Opening, ...], role: str, entries: Mapping[str, T]) -> dict[str, T]:
    """The settings of each opening of a role: its own, or those of ``*``.

    Parameters
    ----------
    openings : of the vessel.
    role : ``inlet`` or ``outlet``.
    entries : settings by name of the opening, or ``*``.

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
