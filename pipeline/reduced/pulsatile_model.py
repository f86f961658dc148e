# SPDX-License-Identifier: Apache-2.0
"""A pulse through a model: flows and pressures over a period, with the blood's inertia and Windkessels behind outlets.

Each step of the time is implicit (Euler), so that it is stable whatever its length; the error is of first order in it.
Periods are computed until one repeats the one before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.reduced.answer import What, laws_of, line_of
from pipeline.reduced.balance import Balance, Line, State
from pipeline.reduced.model import Behind, Law, ReducedModel
from solver.boundary.curves import Curve
from solver.runtime.errors import StageError

Floats = NDArray[np.float64]

STEPS, MOST_PERIODS, ALIKE = 500, 200, 1e-4
"""Steps of a period; periods at most; and the difference of two, as a part of the range, by which they repeat."""

LEAST_RANGE = 1e-9
"""Range, mL/s or mmHg, of a pulse that does not change at all."""

REPEATING = "after {count} periods the pressures still differ by {change:.1%}; the Windkessels are slower than that"


@dataclass(frozen=True)
class Pulse:
    """What the last period has.

    Attributes
    ----------
    time_s : (STEPS,).
    flow_ml_s, pressure_mmhg : of each opening, (STEPS,), into inlets and out of outlets; static.
    periods : that were computed.
    reservations : why it may not hold.
    """

    time_s: Floats
    flow_ml_s: Mapping[str, Floats]
    pressure_mmhg: Mapping[str, Floats]
    periods: int
    reservations: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """As plain values."""
        flow = {name: values.tolist() for name, values in self.flow_ml_s.items()}
        pressure = {name: values.tolist() for name, values in self.pressure_mmhg.items()}
        return {
            "time_s": self.time_s.tolist(),
            "flow_ml_s": flow,
            "pressure_mmhg": pressure,
            "periods": self.periods,
            "reservations": list(self.reservations),
        }


def pulsed(model: ReducedModel, inflow: Curve, laws: Mapping[str, Law]) -> Pulse:
    """The flow over a period.

    Parameters
    ----------
    model : the model, of one inlet.
    inflow : mL/s over time.
    laws : that hold in place of those of the case, by outlet.

    Raises
    ------
    StageError
        If the inflow has no period, or the vessel several inlets.
    """
    inlets = model.with_role("inlet")
    if len(inlets) != 1 or not inflow.period_s:
        raise StageError(f"a pulse needs one inlet and a period: there are {len(inlets)} inlets; ask for a steady flow")
    step_s = inflow.period_s / STEPS
    time = step_s * np.arange(1, STEPS + 1, dtype=np.float64)
    flows = inflow.at(time)
    march = _March(model, laws_of(model, What(1.0, laws)), inlets[0].name, float(flows.mean()), step_s)
    rows, change, periods = march.period(flows), np.inf, 1
    while change >= ALIKE and periods < MOST_PERIODS:
        before, rows, periods = rows, march.period(flows), periods + 1
        change = float(np.abs(rows - before).max() / max(np.ptp(rows, axis=0).max(), LEAST_RANGE))
    names, count = [each.name for each in model.openings], len(model.openings)
    through = dict(zip(names, rows[:, :count].T, strict=True))
    pressure = dict(zip(names, rows[:, count:].T, strict=True))
    doubts = [REPEATING.format(count=periods, change=change)] if change >= ALIKE else []
    return Pulse(time, through, pressure, periods, (*doubts, *_doubts(model, flows)))


class _March:
    """Steps in time.

    Parameters
    ----------
    model : the model.
    laws : what holds at each outlet.
    inlet : its name.
    mean_ml_s : inflow of the period, of which outlets may have a part.
    step_s : of the time.
    """

    def __init__(
        self, model: ReducedModel, laws: Mapping[str, Law], inlet: str, mean_ml_s: float, step_s: float
    ) -> None:
        self._model, self._laws, self._inlet, self._step_s = model, laws, inlet, step_s
        self._balance = Balance(model)
        lines = {name: line_of(law, mean_ml_s) for name, law in laws.items()}
        self._state = self._balance.solved({inlet: mean_ml_s}, lines, self._balance.start())
        self._stored = {
            name: law.distal_pressure_mmhg + law.distal_mmhg_s_ml * self._leaving(name)
            for name, law in laws.items()
            if isinstance(law, Behind) and law.compliance_ml_mmhg
        }

    def _leaving(self, name: str) -> float:
        return float(self._balance.arriving[self._balance.joints.index(name)] @ self._state.flow)

    def period(self, inflows_ml_s: Floats) -> Floats:
        """Steps through a period; a row of :meth:`step` for each."""
        return np.array([self.step(float(flow)) for flow in inflows_ml_s])

    def step(self, inflow_ml_s: float) -> list[float]:
        """One step; flows through all openings, then their static pressures."""
        lines = {name: self._line(name, law, inflow_ml_s) for name, law in self._laws.items()}
        before: State = self._state
        self._state = self._balance.solved({self._inlet: inflow_ml_s}, lines, before, (before, self._step_s))
        for name in self._stored:
            law, line = self._laws[name], lines[name]
            assert isinstance(law, Behind)
            assert isinstance(line, Line)
            out = self._leaving(name)
            self._stored[name] = line.a_mmhg + (line.b_mmhg_s_ml - law.proximal_mmhg_s_ml) * out
        flows, pressures = [], []
        for each in self._model.openings:
            through = self._leaving(each.name) * (1 if each.role == "outlet" else -1)
            total = float(self._state.total[self._balance.joints.index(each.name)])
            flows.append(through)
            pressures.append(total - each.head.at(abs(through)))
        return [*flows, *pressures]

    def _line(self, name: str, law: Law, inflow_ml_s: float) -> Line | float:
        """What holds at an outlet after the step: C dp_c/dt = q - (p_c - p_d)/R2, p = p_c + R1 q."""
        if name not in self._stored:
            return line_of(law, inflow_ml_s)
        assert isinstance(law, Behind)
        stored, outward = law.compliance_ml_mmhg / self._step_s, 1 / law.distal_mmhg_s_ml
        level = (stored * self._stored[name] + outward * law.distal_pressure_mmhg) / (stored + outward)
        return Line(level, law.proximal_mmhg_s_ml + 1 / (stored + outward))


def _doubts(model: ReducedModel, inflow_ml_s: Floats) -> list[str]:
    """Where a pulse is outside of what the runs had, and what a steady fit leaves out."""
    low, high = (factor * model.inflow_ml_s for factor in model.factors)
    found = list(model.reservations)
    if inflow_ml_s.max() > high * (1 + 1e-6) or inflow_ml_s.min() < -high * (1 + 1e-6):
        found.append(
            f"the inflow goes from {inflow_ml_s.min():.3g} to {inflow_ml_s.max():.3g} mL/s, and the runs had"
            f" {low:.3g} to {high:.3g} mL/s"
        )
    if inflow_ml_s.min() < 0:
        found.append("the inflow turns back within the period: losses were found of a flow that does not")
    return found
