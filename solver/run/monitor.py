# SPDX-License-Identifier: Apache-2.0
"""Monitor: what is known of the flow every so many steps, its file, and its summary."""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.observation import Observation
from solver.domain.nodes import Nodes
from solver.run.outlet_pressures import still_to_come_pa
from solver.run.plan import Plan
from solver.run.schedule import LEAST_COUNTED

FALL = 0.25
"""Of the logarithm of the residual within a twentieth of the viscous time, below which it does not fall: what settles
last in a pipe falls by 1 in that time."""
EPSILON = {"fp64": 2.0**-52, "fp32": 2.0**-23, "fp16": 2.0**-10}
"""Spacing of the numbers in which populations are stored, relative."""
ROUND_OFF = 32
"""Of these, the change of a velocity that round-off alone may make. A steady flow in fp32 had 2 to 3 in pipes of some
thousand nodes, 7 in an aneurysm of 200,000, and 10 in an aortic arch of 2 million."""

LEAST_OF_CYCLE = 50
"""Rows of a period, from which on they tell how fast a flow changes."""
COMPARED = 3
"""Differences between successive cycles that are looked at."""
TO_COME = "mean pressure to come"
"""What a Windkessel's mean pressure is still to change by, among what cycles differ in."""
WIDE = "velocity in wide places"
"""What the velocity in a sac, and in other places wider than openings, changes by over its own size, likewise."""
LITTLE = 1e-4
"""What anything else is still to change by, up to which it is not told."""


@dataclass(frozen=True)
class Row:
    """State of the run after a step, in SI.

    Attributes
    ----------
    step, time_s : when.
    max_speed_m_s, mach, max_drho : extremes over all nodes.
    mean_speed_m_s : over all nodes.
    kinetic_energy_j : of all fluid.
    density_drift : mean density deviation.
    change : root mean square change of the velocity over the mean speed, of a steady flow between the last two rows
        that were compared, of a periodic one since the cycle before; not a number in phases that are not compared.
    residual : of a steady flow the change over a viscous time at its present rate.
    balance : (inflow - outflow) / inflow; 0 where there are no openings.
    flow_ml_s : (openings,) into the vessel at inlets, out of it at outlets: the exact flux over the links.
    pressure_pa : (openings,) on the cap: mean over the nodes there, which friction of developed flow and inertia of one
        that pulsates bring to the cap, without the friction of layers.
    backflow_ml_s : (openings,) into the vessel through nodes at outlets where more came in than went out.
    wide_change : as `change`, but of nodes that are observed apart since the vessel is wide there, and over the own
        speed of each, at most 1; 0 where there are none.
    """

    step: int
    time_s: float
    max_speed_m_s: float
    mach: float
    max_drho: float
    mean_speed_m_s: float
    kinetic_energy_j: float
    density_drift: float
    change: float
    residual: float
    balance: float
    flow_ml_s: NDArray[np.float64]
    pressure_pa: NDArray[np.float64]
    backflow_ml_s: NDArray[np.float64]
    wide_change: float = 0.0


OF_OPENINGS = ("flow_ml_s", "pressure_pa", "backflow_ml_s")
"""What a row holds of each opening."""
SINGLE = tuple(field.name for field in fields(Row) if field.name not in OF_OPENINGS)
"""What else it holds."""


@dataclass
class Monitor:
    """Rows of a run.

    Attributes
    ----------
    tolerance : of the residual.
    precision : of the populations.
    around : how far the last cycle of what lies around the vessel, or one so many cycles back, differs from the one
        before, by what differs.
    rows : so far.
    kept : step of the state from which changes of the velocity are counted.
    apart : steps from there to the next one, of a steady flow.
    """

    nodes: Nodes
    plan: Plan
    tolerance: float
    precision: str = "fp64"
    around: Callable[[int], Mapping[str, float]] = lambda _: {}
    rows: list[Row] = field(default_factory=list)
    kept: int = 0
    apart: int = 0

    def __post_init__(self) -> None:
        self.apart = self.plan.schedule.counted

    def compares(self, step: int) -> bool:
        """Whether the velocity is compared with the state that was kept, and kept: at rows, or once a cycle."""
        schedule = self.plan.schedule
        return schedule.compares(step) or (
            schedule.cycle is None and schedule.row_due(step) and step - self.kept >= self.apart
        )

    def keep(self, step: int) -> None:
        """Count changes from the state of a step on that is none of those compared."""
        self.kept, self.apart = step, self.plan.schedule.counted

    def record(self, step: int, observation: Observation) -> Row:
        """Add a row."""
        units, plan = self.plan.units, self.plan
        inflow = observation.inflow
        entering = np.array([opening.role == "inlet" for opening in self.nodes.openings], np.bool_)
        into, out = inflow[entering].sum(), -inflow[~entering].sum()
        drho = observation.opening_drho + plan.to_caps * inflow + plan.inertia_to_caps * self._rise(inflow, entering)
        for each in plan.layers:
            drho[each.opening] -= each.resistance * each.upstream_of_cap * inflow[each.opening]
        change, residual = self._change(step, observation.change)
        volume_m3 = self.nodes.total * units.dx_m**3
        row = Row(
            step=step,
            time_s=step * units.dt_s,
            max_speed_m_s=observation.max_speed * units.speed_m_s,
            mach=observation.max_speed * 3**0.5,
            max_drho=observation.max_drho,
            mean_speed_m_s=observation.mean_speed * units.speed_m_s,
            kinetic_energy_j=volume_m3 * units.stress_pa * observation.mean_square / 2,
            density_drift=observation.mean_drho,
            change=change,
            residual=residual,
            balance=float((into - out) / into) if into else np.inf if len(entering) else 0.0,
            flow_ml_s=np.where(entering, inflow, -inflow) * units.flow_ml_s,
            pressure_pa=drho * units.pressure_pa + plan.boundary_schedule.reference_pa,
            backflow_ml_s=observation.backflow * units.flow_ml_s,
            wide_change=observation.wide_change,
        )
        self.rows.append(row)
        return row

    def _rise(self, inflow: NDArray[np.float64], entering: NDArray[np.bool_]) -> NDArray[np.float64]:
        """By how much what enters through each opening rises in a step, by a parabola through the newest rows and the
        one that is to come, which is right to the square of their distance; 0 where they lie too far apart for that.
        """
        if self.per_cycle < LEAST_OF_CYCLE or len(self.rows) < 2:
            return np.zeros_like(inflow)
        before, earlier = (np.where(entering, row.flow_ml_s, -row.flow_ml_s) for row in self.rows[:-3:-1])
        past = (4 * before - earlier) / self.plan.units.flow_ml_s
        return (3 * inflow - past) / (2 * self.plan.schedule.interval)

    def _change(self, step: int, change: float) -> tuple[float, float]:
        """Change of the velocity and residual of a row, from the change since the last state that was kept.

        Rows of a steady flow that are not compared have those of the last one that was.
        """
        schedule, counted = self.plan.schedule, self.compares(step)
        if schedule.cycle:
            return change if counted and step > schedule.cycle else np.nan, np.nan
        if not counted and step > schedule.counted:
            return self.rows[-1].change, self.rows[-1].residual
        residual = change / (step - self.kept) * self.plan.viscous_steps
        if counted:
            self.kept = step
            if self._is_noise(change, residual):
                self.apart = min(2 * self.apart, schedule.most_counted)
        return change, residual

    def _is_noise(self, change: float, residual: float) -> bool:
        """Whether the change seems to be as large over any time, as round-off and slight fluctuations are.

        The velocity of a flow that settles goes on in one direction: its change is in proportion to the time in
        between, and falls. So such a change is small, makes a residual that is too large, and is no more than round-off
        may be, or does not fall over a tenth of the viscous time.
        """
        schedule, tolerance = self.plan.schedule, self.tolerance
        if residual < tolerance or change > tolerance / LEAST_COUNTED:
            return False
        if change < ROUND_OFF * EPSILON[self.precision]:
            return True
        half = schedule.most_counted // schedule.interval // 2
        if not 0 < 2 * half <= len(self.rows):
            return False
        before, after = np.split(np.log([max(row.residual, 1e-30) for row in self.rows[-2 * half :]]), 2)
        return bool(before.mean() - after.mean() < FALL)

    def write(self, path: Path) -> None:
        """Write all rows as CSV; three columns an opening."""
        names = [opening.name for opening in self.nodes.openings]
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow([*SINGLE, *(f"{key}:{name}" for key in OF_OPENINGS for name in names)])
            for row in self.rows:
                values = [getattr(row, name) for name in SINGLE]
                values += [value for name in OF_OPENINGS for value in getattr(row, name)]
                writer.writerow([f"{value:.9g}" for value in values])

    def state(self) -> dict[str, NDArray[np.float64]]:
        """All rows: what is single of each, (rows, values), and what is of each opening, (rows, names, openings)."""
        count, openings = len(self.rows), len(self.nodes.openings)
        single = [[getattr(row, name) for name in SINGLE] for row in self.rows]
        each = [[getattr(row, name) for name in OF_OPENINGS] for row in self.rows]
        return {
            "rows": np.array(single, np.float64).reshape(count, len(SINGLE)),
            "openings": np.array(each, np.float64).reshape(count, len(OF_OPENINGS), openings),
            "compared": np.array((self.kept, self.apart)),
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from the rows of another monitor of the same run."""
        self.kept, self.apart = state["compared"].tolist()
        for single, each in zip(state["rows"].tolist(), state["openings"], strict=True):
            values: dict[str, Any] = dict(zip(SINGLE, single, strict=True)) | dict(zip(OF_OPENINGS, each, strict=True))
            self.rows.append(Row(**values | {"step": int(values["step"])}))

    def last_part(self) -> list[Row]:
        """Rows of the last period, or the last tenth of a steady run's."""
        if self.per_cycle:
            return self.rows[-self.per_cycle :]
        return self.rows[-max(1, len(self.rows) // 10) :]

    @property
    def per_cycle(self) -> int:
        """Rows of a period; 0 of a steady flow."""
        schedule = self.plan.schedule
        return schedule.cycle // schedule.interval if schedule.cycle else 0

    def periodicity(self, back: int = 0) -> dict[str, float] | None:
        """How far the last whole cycle, or one so many cycles back, differs from the one before, by what differs.

        The velocity in one phase, as the root mean square over all nodes, relative to the mean speed over the cycle,
        and over those in wide places, relative to the own speed of each; flow and pressure of the openings in all
        phases, relative to the widest range among the openings; what the mean pressure of a Windkessel is still to
        change by (:func:`~solver.run.outlet_pressures.still_to_come_pa`), relative to that range or to itself; and what
        lies around the vessel. None if less than two cycles were run, or the flow is steady.
        """
        count = self.per_cycle
        whole = (len(self.rows) // count - back) * count if count else 0
        if whole < 2 * count or not count:
            return None
        before, last = self.rows[whole - 2 * count : whole - count], self.rows[whole - count : whole]
        mean_speed = np.mean([row.mean_speed_m_s for row in last])
        changed = sum(row.change * row.mean_speed_m_s for row in last if np.isfinite(row.change))
        found = {"velocity": float(changed / mean_speed) if mean_speed else np.inf}
        if wide := sum(row.wide_change for row in last if np.isfinite(row.change)):
            found[WIDE] = wide
        for name, key in (("flow", "flow_ml_s"), ("pressure", "pressure_pa")):
            values, others = (np.array([getattr(row, key) for row in rows]) for rows in (last, before))
            span = np.ptp(values, axis=0).max()
            found[name] = float(np.abs(values - others).max() / max(span, 1e-12))
        mean, flow = values.mean(axis=0), np.mean([row.flow_ml_s for row in last], axis=0)
        if left := still_to_come_pa(self.plan.boundary_schedule, flow, mean, mean - others.mean(axis=0)):
            found[TO_COME] = max(each / max(span, abs(mean[k])) for k, each in left.items())
        return found | {**self.around(back)}

    def differences(self, count: int = COMPARED) -> list[dict[str, float]]:
        """The last differences between successive cycles, by what differs: so many of them, if there are."""
        return [each for back in reversed(range(count)) if (each := self.periodicity(back))]

    def later_differences(self) -> list[dict[str, float]]:
        """Those of the later half of all cycles, at least `COMPARED`: what was raised has died away there."""
        cycles = len(self.rows) // self.per_cycle if self.per_cycle else 0
        return self.differences(max(COMPARED, cycles // 2))

    def from_repeating(self) -> dict[str, float] | None:
        """The last of them, and what is still to change in the cycles to come where that is more; none likewise."""
        if not (found := self.differences()):
            return None
        series = {name: [each.get(name, np.inf) for each in found] for name in found[-1] if name != TO_COME}
        left = {f"{name} to come": (still_to_change(each), each[-1]) for name, each in series.items()}
        return found[-1] | {name: more for name, (more, now) in left.items() if more > max(now, LITTLE)}


def still_to_change(differences: Sequence[float]) -> float:
    """What a flow that becomes periodic is still to change by, from differences between successive cycles.

    Where each is a part r of the one before, those to come add up to r/(1 - r) times the last, with the newest r; 0
    where they do not fall, as those of a flow that varies, whose changes do not add up.

    Parameters
    ----------
    differences : of the last cycles, the newest last.
    """
    parts = [now / before for before, now in pairwise(differences) if before > 0]
    if not parts or max(parts) >= 1 or not np.isfinite(differences).all():
        return 0.0
    return differences[-1] * parts[-1] / (1 - parts[-1])


def in_and_out(nodes: Nodes, flow_ml_s: NDArray[np.float64]) -> tuple[float, float]:
    """What comes in through all inlets and goes out through all outlets, of the flow through each opening."""
    inlet = np.array([opening.role == "inlet" for opening in nodes.openings], np.bool_)
    return float(flow_ml_s[inlet].sum()), float(flow_ml_s[~inlet].sum())


def last_cycles_differ(monitor: Monitor) -> str:
    """By how much flow and pressure at the openings differ between the last two cycles, in words."""
    found = monitor.from_repeating()
    if found is None:
        return "there are no two cycles to compare"
    return "the last two cycles differ by " + ", ".join(f"{value:.2%} in {name}" for name, value in found.items())
