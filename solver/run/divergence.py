# SPDX-License-Identifier: Apache-2.0
"""A flow that diverges: how it is detected, and the message: when, where, why, and what avoids it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from solver.backends.observation import Observation
from solver.domain.nodes import Nodes
from solver.run.boundary_schedule import raised
from solver.run.monitor import Row
from solver.run.plan import Plan
from solver.run.schedule import CHECK_STEPS
from solver.run.settings import SolveSettings
from solver.run.units import MAX_DRHO
from solver.runtime.errors import StageError

SPEED_LIMIT = 0.3
DRHO_LIMIT = 0.3
"""Beyond these, in lattice units, the result is worthless whatever comes."""
FASTER, MARGIN = 1.2, 1.25
"""Of the expected speed, what counts as faster; of a speed that was reached, what is to be expected instead."""
LEAST_RAISED = 0.1
"""Part of the inflow below which the speed that it brings about says little of the whole."""
GOOD_SPEED, FINER = 0.08, 1.5
"""Expected speed in lattice units, and how much finer a spacing, that are advised where nothing tells them."""


class DivergenceError(StageError):
    """A flow that diverged.

    Attributes
    ----------
    step : of the observation.
    node : row of the node at which it was seen.
    happened : what was observed, as a sentence.
    reached_m_s : largest speed before, as it would be with the whole inflow; 0 if nothing was seen before.
    drho : deviation of the density where that alone went too far; else none.
    changes : the :func:`advice`.
    """

    def __init__(
        self,
        nodes: Nodes,
        settings: SolveSettings,
        plan: Plan,
        rows: Sequence[Row],
        step: int,
        observation: Observation,
    ) -> None:
        self.step = step
        self.node = observation.dense_node if observation.max_speed <= SPEED_LIMIT else observation.node
        self.happened = _happened(nodes, plan, step, observation, self.node)
        self.reached_m_s = _reached_m_s(plan, rows)
        self.drho = observation.max_drho if observation.max_speed <= SPEED_LIMIT else None
        self.changes = advice(nodes, settings, plan, self.reached_m_s, self.drho)
        super().__init__(f"{self.happened}. {advice_message(self.changes, settings, nodes)}")


def has_diverged(observation: Observation) -> bool:
    """Whether a flow is beyond what a result may be: not finite, too fast for the sound of the lattice, too dense."""
    return not (observation.max_speed <= SPEED_LIMIT and observation.max_drho <= DRHO_LIMIT)


def _happened(nodes: Nodes, plan: Plan, step: int, observation: Observation, node: int) -> str:
    fast = not observation.max_speed <= SPEED_LIMIT
    place = nodes.place_mm(node)
    away = {o.name: float(np.linalg.norm(place - o.centre_mm)) for o in nodes.openings}
    near = min(away, key=lambda name: away[name]) if away else None
    if not np.isfinite(observation.max_speed):
        spread_mm = CHECK_STEPS * nodes.spacing_mm  # a node a step along each axis, since the observation before
        what = f"a population is no longer finite, which began there or {spread_mm:.3g} mm away along each axis at most"
    elif fast:
        what = (
            f"the speed of {observation.max_speed * plan.units.speed_m_s:.3g} m/s is {observation.max_speed:.2g}"
            " in lattice units"
            f" (Mach {observation.max_speed * 3**0.5:.2f}, at most {SPEED_LIMIT * 3**0.5:.2f})"
        )
    else:
        what = (
            f"the density is {observation.max_drho:.0%} off that at rest (at most {DRHO_LIMIT:.0%}), on average"
            f" {observation.mean_drho:+.0%}"
        )
    x, y, z = place
    return (
        f"the flow diverged at step {step}, time {step * plan.units.dt_s:.4g} s, at ({x:.2f}, {y:.2f}, {z:.2f}) mm LPS"
        f"{f', {away[near]:.1f} mm from opening {near}' if near else ''}: {what}; grid Reynolds number"
        f" {plan.numbers['grid_reynolds']:.0f}, tau {plan.units.tau:.4f}, {plan.models}"
    )


def _reached_m_s(plan: Plan, rows: Sequence[Row]) -> float:
    """Largest speed of the rows, each as it would be with the whole inflow."""
    times = np.array([row.time_s for row in rows])
    speeds = np.array([row.max_speed_m_s for row in rows])
    return float((speeds / np.maximum(raised(times, plan.ramp_s), LEAST_RAISED)).max(initial=0.0))


def faster(plan: Plan, reached_m_s: float) -> float | None:
    """The peak speed that is to be expected instead, m/s, where the flow was faster than expected; else none."""
    expected = plan.numbers["expected_peak_speed_m_s"]
    return float(f"{MARGIN * reached_m_s:.3g}") if reached_m_s > FASTER * expected else None


def slower(plan: Plan, drho: float | None) -> float | None:
    """The lattice speed with which a density that went too far stays in its bounds; none where it did not."""
    if drho is None:
        return None
    return float(f"{plan.numbers['expected_peak_speed_lattice'] * (MAX_DRHO / drho) ** 0.5:.2g}")


def advice(
    nodes: Nodes, settings: SolveSettings, plan: Plan, reached_m_s: float = 0.0, drho: float | None = None
) -> dict[str, Any]:
    """Changes of settings, all together, with which a flow that diverged is expected to settle.

    What the user set against the usual is taken back first: collision, walls, a short ramp, a high lattice speed.
    Where there is none of it, the spacing is made finer.

    Parameters
    ----------
    nodes, settings, plan : of the run.
    reached_m_s, drho : of :class:`DivergenceError`.

    Returns
    -------
    Keys of `solve` and their values, none for a key that is left out; ``spacing_mm`` stands for that of voxelize.
    """
    usual: dict[str, Any] = {"collision": "auto", "lambda_trt": None, "walls": "bouzidi"}
    changes = {key: value for key, value in usual.items() if getattr(settings, key) != value}
    if settings.ramp_s is not None and settings.ramp_s < plan.usual_ramp_s:
        changes["ramp_s"] = None
    speed = min(plan.numbers["expected_peak_speed_lattice"], slower(plan, drho) or GOOD_SPEED)
    if settings.lattice_speed > GOOD_SPEED or drho is not None:
        changes["lattice_speed"] = min(speed, GOOD_SPEED)
    if (whole := faster(plan, reached_m_s)) is not None and drho is None:
        changes["peak_speed_m_s"] = whole
    if not changes:
        changes["spacing_mm"] = float(f"{nodes.spacing_mm / FINER:.3g}")
    return changes


def advice_message(changes: dict[str, Any], settings: SolveSettings, nodes: Nodes) -> str:
    """Advice as a sentence.

    Parameters
    ----------
    changes : of the settings, by key; ``spacing_mm`` is that of voxelize, none: to leave a key out.
    settings : as they are.
    nodes : the geometry, whose spacing is named.
    """
    sentences = []
    for key, value in changes.items():
        if key == "spacing_mm":
            sentences.append(f"choose voxelize.spacing_mm {value:g} (now {nodes.spacing_mm:.3g})")
        elif value is None:
            sentences.append(f"leave solve.{key} out (now {getattr(settings, key):g})")
        else:
            now = getattr(settings, key)
            shown = "" if now is None else f" (now {now:g})" if isinstance(now, float) else f" (now {now})"
            sentences.append(f"set solve.{key} to {value if isinstance(value, str) else f'{value:g}'}{shown}")
    sentence = ", and ".join(sentences)
    return sentence[0].upper() + sentence[1:]
