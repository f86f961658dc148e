"""Inflow over time: steady, or a waveform that repeats; and the speed that it leads to be expected."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from solver.nodes import Opening
from solver.stage import StageError

T = TypeVar("T")


class InflowSettings(Protocol):
    """What the settings of an inlet say of its flow: a steady one, a waveform's file, or its file and its mean."""

    @property
    def flow_ml_s(self) -> float | None:
        """Steady flow, or the mean to which the waveform is scaled."""

    @property
    def waveform(self) -> str | None:
        """File of the waveform."""


@dataclass(frozen=True)
class Inflow:
    """Flow rate through an inlet, linear between samples and periodic; one sample is a steady flow.

    Attributes
    ----------
    time_s : (S,) from 0 to the period.
    flow_ml_s : (S,) flow into the vessel; the last equals the first.
    """

    time_s: NDArray[np.float64]
    flow_ml_s: NDArray[np.float64]

    @property
    def period_s(self) -> float | None:
        """Length of a cycle; none if the flow is steady."""
        return float(self.time_s[-1]) if len(self.time_s) > 1 else None

    @property
    def mean_ml_s(self) -> float:
        """Mean over a cycle."""
        if len(self.time_s) == 1:
            return float(self.flow_ml_s[0])
        return float(np.trapezoid(self.flow_ml_s, self.time_s) / self.time_s[-1])

    @property
    def peak_ml_s(self) -> float:
        """Largest flow."""
        return float(self.flow_ml_s.max())

    def at(self, time_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Flow rate at times, mL/s."""
        phase = np.mod(time_s, self.period_s) if self.period_s else time_s
        return np.interp(phase, self.time_s, self.flow_ml_s)


def steady(flow_ml_s: float) -> Inflow:
    """A flow that does not change."""
    return Inflow(np.zeros(1), np.array([flow_ml_s]))


def read_inflow(entry: InflowSettings) -> Inflow:
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
    return read_waveform(Path(entry.waveform), entry.flow_ml_s)


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


def common_period_s(inflow: dict[str, Inflow]) -> float | None:
    """Period of all inflows by name of the inlet; none if they are steady.

    Raises
    ------
    StageError
        If they differ.
    """
    periods = {name: flow.period_s for name, flow in inflow.items() if flow.period_s}
    if not periods:
        return None
    first = next(iter(periods.values()))
    if any(abs(period - first) > 1e-6 * first for period in periods.values()):
        text = ", ".join(f"{name} {period:g} s" for name, period in periods.items())
        raise StageError(f"solve.inlets: waveforms have different periods ({text}); give them the same")
    return first


def expected_peak_speed_m_s(openings: tuple[Opening, ...], inflow: dict[str, Inflow]) -> float:
    """Twice the largest mean speed over the openings at peak flow, outflow shared by area.

    Raises
    ------
    StageError
        If no fluid enters.
    """
    means = [inflow[o.name].peak_ml_s / o.area_mm2 for o in openings if o.role == "inlet"]
    if out_area := sum(o.area_mm2 for o in openings if o.role == "outlet"):
        means.append(sum(flow.peak_ml_s for flow in inflow.values()) / out_area)
    speed = 2 * max(means)
    if not speed > 0:
        raise StageError("solve.inlets: no flow enters the vessel; give a flow_ml_s above 0")
    return speed


def read_waveform(path: Path, mean_ml_s: float | None) -> Inflow:
    """Read one period from a CSV file with the columns ``time_s`` and ``flow_ml_s``; # begins a line of comment.

    The first and the last row are the same instant of the cycle, so that the period is the time between them.

    Parameters
    ----------
    path : the file.
    mean_ml_s : mean to which the flow is scaled; none: it is taken as it is.

    Raises
    ------
    StageError
        If the file is not such a table, the cycle does not close, or the flow is ever negative.
    """
    time, flow = _columns(path)
    if len(time) < 3 or not (np.diff(time) > 0).all():
        raise StageError(f"waveform {path.name}: {len(time)} rows with rising time_s wanted, at least 3")
    inflow = Inflow(time - time[0], flow)
    if abs(flow[-1] - flow[0]) > 0.01 * np.abs(flow).max():
        raise StageError(
            f"waveform {path.name}: the flow ends at {flow[-1]:g} mL/s but begins at {flow[0]:g}; the last row must "
            "repeat the first, one period later"
        )
    if (flow < 0).any():
        k = int(np.argmin(flow))
        raise StageError(
            f"waveform {path.name}: flow {flow[k]:g} mL/s at {time[k]:g} s; an inlet that takes fluid out of the "
            "vessel is not stable and not supported: raise the waveform to 0 there, or take this opening as an outlet"
        )
    if mean_ml_s is None:
        return inflow
    if not inflow.mean_ml_s > 0:
        raise StageError(f"waveform {path.name}: its mean is 0, which cannot be scaled to {mean_ml_s:g} mL/s")
    return Inflow(inflow.time_s, flow * (mean_ml_s / inflow.mean_ml_s))


def _columns(path: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            rows = list(csv.DictReader(line for line in stream if not line.startswith("#")))
        table = np.array([[float(row["time_s"]), float(row["flow_ml_s"])] for row in rows]).reshape(-1, 2)
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise StageError(
            f"waveform {path.name}: not a CSV table with the columns time_s and flow_ml_s ({error})"
        ) from None
    if not np.isfinite(table).all():
        raise StageError(f"waveform {path.name}: holds a value that is not a finite number")
    return table[:, 0], table[:, 1]
