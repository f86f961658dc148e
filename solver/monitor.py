"""Monitor: what is known of the flow every so many steps, its file, and its summary."""

import csv
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from solver.driver import Driver, Observation
from solver.nodes import Nodes
from solver.plan import Plan
from solver.units import ROWS_PER_CYCLE


@dataclass(frozen=True)
class Row:
    """State of the run after a step, in SI.

    Attributes
    ----------
    step, time_s : when.
    max_speed_m_s, mach, max_drho : extremes over all nodes.
    density_drift : mean density deviation.
    change : root mean square change of the velocity since the last row over the mean speed.
    residual : the change over a viscous time at its present rate.
    balance : (inflow - outflow) / inflow; 0 where there are no openings.
    flow_ml_s : (openings,) into the vessel at inlets, out of it at outlets: the exact flux over the links.
    pressure_pa : (openings,) mean over the nodes at the opening.
    """

    step: int
    time_s: float
    max_speed_m_s: float
    mach: float
    max_drho: float
    density_drift: float
    change: float
    residual: float
    balance: float
    flow_ml_s: NDArray[np.float64]
    pressure_pa: NDArray[np.float64]


@dataclass
class Monitor:
    """Rows of a run."""

    nodes: Nodes
    plan: Plan
    rows: list[Row] = field(default_factory=list)

    def record(self, step: int, observation: Observation, driver: Driver) -> Row:
        """Add a row."""
        units, plan = self.plan.units, self.plan
        inflow = driver.inflow()
        entering = np.array([opening.role == "inlet" for opening in self.nodes.openings], np.bool_)
        into, out = inflow[entering].sum(), -inflow[~entering].sum()
        since = step - (self.rows[-1].step if self.rows else 0)
        row = Row(
            step=step,
            time_s=step * units.dt_s,
            max_speed_m_s=observation.max_speed * units.speed_m_s,
            mach=observation.max_speed * 3**0.5,
            max_drho=observation.max_drho,
            density_drift=observation.mean_drho,
            change=observation.change,
            residual=observation.change / since * plan.viscous_steps,
            balance=float((into - out) / into) if into else np.inf if len(entering) else 0.0,
            flow_ml_s=np.where(entering, inflow, -inflow) * units.flow_m3_s * 1e6,
            pressure_pa=driver.opening_drho() * units.pressure_pa + plan.conditions.reference_pa,
        )
        self.rows.append(row)
        return row

    def write(self, path: Path) -> None:
        """Write all rows as CSV; two columns an opening."""
        names = [opening.name for opening in self.nodes.openings]
        single = list(Row.__dataclass_fields__)[:-2]
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(
                single + [f"flow_ml_s:{name}" for name in names] + [f"pressure_pa:{name}" for name in names]
            )
            for row in self.rows:
                values = [getattr(row, name) for name in single]
                writer.writerow([f"{value:.9g}" for value in (*values, *row.flow_ml_s, *row.pressure_pa)])

    def last_part(self) -> list[Row]:
        """Rows of the last period, or the last tenth of a steady run's."""
        if self.plan.period_s:
            return self.rows[-ROWS_PER_CYCLE:]
        return self.rows[-max(1, len(self.rows) // 10) :]

    def periodicity(self) -> float | None:
        """Largest difference of a flow or pressure to one period before, over the widest range among the openings.

        None if less than two periods were run, or the flow is steady.
        """
        if self.plan.period_s is None or len(self.rows) < 2 * ROWS_PER_CYCLE:
            return None
        worst = 0.0
        for name in ("flow_ml_s", "pressure_pa"):
            values = np.array([getattr(row, name) for row in self.rows[-2 * ROWS_PER_CYCLE :]])
            before, last = values[:ROWS_PER_CYCLE], values[ROWS_PER_CYCLE:]
            span = np.ptp(last, axis=0).max()
            worst = max(worst, float(np.abs(last - before).max() / max(span, 1e-12)))
        return worst
