"""A flow that blows up: how that is seen, and what is told of it: when, where, why, and what would avoid it."""

from collections.abc import Sequence

import numpy as np

from solver.collision import choose_collision
from solver.conditions import raised
from solver.driver import Observation
from solver.monitor import Row
from solver.nodes import Nodes
from solver.plan import TRANSITS, Plan
from solver.schedule import CHECK_STEPS
from solver.settings import SolveSettings
from solver.units import MAX_DRHO, MAX_GRID_REYNOLDS, MAX_PULSATILE_GRID_REYNOLDS

SPEED_LIMIT = 0.3
DRHO_LIMIT = 0.3
"""Beyond these, in lattice units, the result is worthless whatever comes."""
FASTER, MARGIN = 1.2, 1.25
"""Of the expected speed, what counts as faster; of a speed that was reached, what is to be expected instead."""
LEAST_RAISED = 0.1
"""Part of the inflow below which the speed that it brings about says little of the whole."""
GOOD_SPEED, FINER = 0.08, 1.5
"""Expected speed in lattice units, and how much finer a spacing, that are advised where nothing tells them."""


def seen_in(seen: Observation) -> bool:
    """Whether a flow is beyond what a result may be: not finite, too fast for the sound of the lattice, too dense."""
    return not (seen.max_speed <= SPEED_LIMIT and seen.max_drho <= DRHO_LIMIT)


def message(
    nodes: Nodes, settings: SolveSettings, plan: Plan, rows: Sequence[Row], step: int, seen: Observation
) -> str:
    """What is said of a flow that blew up.

    Parameters
    ----------
    nodes, settings, plan : of the run.
    rows : of its monitor before.
    step, seen : when it was looked at, and what was seen.
    """
    fast = not seen.max_speed <= SPEED_LIMIT
    place = nodes.points_mm()[seen.node if fast else seen.dense_node]
    away = {o.name: float(np.linalg.norm(place - o.centre_mm)) for o in nodes.openings}
    near = min(away, key=lambda name: away[name]) if away else None
    if not np.isfinite(seen.max_speed):
        spread_mm = CHECK_STEPS * nodes.spacing_mm  # a node a step along each axis, since the look before
        what = f"a population is no longer finite, which began there or {spread_mm:.3g} mm away along each axis at most"
    elif fast:
        what = (
            f"the speed of {seen.max_speed * plan.units.speed_m_s:.3g} m/s is {seen.max_speed:.2g} in lattice units"
            f" (Mach {seen.max_speed * 3**0.5:.2f}, at most {SPEED_LIMIT * 3**0.5:.2f})"
        )
    else:
        what = (
            f"the density is {seen.max_drho:.0%} off that at rest (at most {DRHO_LIMIT:.0%}), on average"
            f" {seen.mean_drho:+.0%}"
        )
    x, y, z = place
    return (
        f"the flow blew up at step {step}, time {step * plan.units.dt_s:.4g} s, at ({x:.2f}, {y:.2f}, {z:.2f}) mm LPS"
        f"{f', {away[near]:.1f} mm from opening {near}' if near else ''}: {what}."
        f" {_cause(settings, plan, rows, None if fast else seen.max_drho)}"
    )


def _cause(settings: SolveSettings, plan: Plan, rows: Sequence[Row], drho: float | None) -> str:
    """The likely cause, and settings that would avoid it; `drho` where it is the density alone that went too far."""
    numbers = plan.numbers
    expected, in_lattice = numbers["expected_peak_speed_m_s"], numbers["expected_peak_speed_lattice"]
    usual_ramp_s = max(TRANSITS * numbers["acoustic_transit_s"], (plan.period_s or 0.0) / 4)
    if plan.conditions.waves.inflow and plan.ramp_s < 2 * numbers["acoustic_transit_s"]:
        return (
            f"Likely the inflow is raised too fast; lengthen solve.ramp_s to {usual_ramp_s:.3g} (now"
            f" {plan.ramp_s:.3g}), or leave it out"
        )
    if drho is not None:
        slower = in_lattice * (MAX_DRHO / drho) ** 0.5
        return (
            f"Likely the pressure along the vessel is more than the time step allows for; lower solve.lattice_speed to"
            f" {slower:.2g} (now {in_lattice:.2g})"
        )
    if choose_collision("auto", numbers["grid_reynolds"], plan.units.tau)[0] != plan.collision:
        return f"Likely the lattice is too coarse for this collision model {_remedy_of_coarse(settings, plan)}"
    reached = max((row.max_speed_m_s for row in rows), default=0.0)
    if reached > FASTER * expected:
        times = np.array([row.time_s for row in rows])
        speeds = np.array([row.max_speed_m_s for row in rows])
        whole = MARGIN * float((speeds / np.maximum(raised(times, plan.ramp_s), LEAST_RAISED)).max())
        return (
            f"Likely the flow is faster than expected (it had reached {reached:.3g} m/s, expected was {expected:.3g});"
            f" set solve.peak_speed_m_s to {whole:.3g}"
        )
    if in_lattice > 0.1:
        return (
            f"Likely the expected speed is too near that of sound in the lattice; lower solve.lattice_speed to"
            f" {GOOD_SPEED} (now {in_lattice:.2g})"
        )
    return f"Likely the lattice is too coarse {_remedy_of_coarse(settings, plan)}"


def _remedy_of_coarse(settings: SolveSettings, plan: Plan) -> str:
    reynolds, spacing_mm = plan.numbers["grid_reynolds"], plan.numbers["spacing_mm"]
    limit = MAX_PULSATILE_GRID_REYNOLDS if plan.period_s else MAX_GRID_REYNOLDS
    advice = [f"choose voxelize.spacing_mm {min(limit / reynolds, 1 / FINER) * spacing_mm:.3g} (now {spacing_mm:.3g})"]
    if settings.smagorinsky is None:
        advice.append("solve.smagorinsky 0.1")
    if (other := choose_collision("auto", reynolds, plan.units.tau)[0]) != plan.collision:
        advice.insert(0, f"set solve.collision to {other}")
    return (
        f"(grid Reynolds number {reynolds:.0f}, tau {plan.units.tau:.4f}, collision {plan.collision});"
        f" {', or '.join(advice)}"
    )
