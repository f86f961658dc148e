# SPDX-License-Identifier: Apache-2.0
"""A steady run with the help of the same flow at twice the spacing, which costs about a sixteenth: an eighth of the
nodes, and half of the steps, since the time step is twice as long at the same lattice speed.

The run starts from the flow that settles there; that one starts in the same way from four times the spacing, and so on,
until a lattice would no longer stand for the vessel. A coarse flow that is seen to fluctuate is taken as it is at that
moment: more of its steps would lead no closer, and it gives no corrections.

What is left of one that settles is what the coarse lattice is off by, and has to be carried out of the vessel or be
worn off by friction. For that the coarse lattice goes ahead: with u the fields of the fine lattice at the coarse nodes,
F(u) those after a time T of its steps and C(v) those after T of the coarse one's, each step of

    v <- C(v) + t,    t = (F(u) - u) - (C(u) - u),    from v = F(u),

adds what the coarse lattice gets wrong, so that it settles to what the fine one would, and stays at u where that has
settled. The fine lattice gets the difference v - F(u), interpolated. This is a full approximation scheme of two grids
(Brandt 1977, doi:10.1090/S0025-5718-1977-0431719-X; for lattice Boltzmann Mavriplis 2006,
doi:10.1016/j.compfluid.2005.07.020) with time steps in place of relaxation. Steps of the fine lattice decide when the
flow has settled, as ever: a correction that is none costs time alone, and there are no more of them. Corrections are
computed on the host, so that a run on a device takes the start alone: the steps that they save are done sooner there.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.fields import Fields
from solver.domain.halving import NotHalved, halved
from solver.domain.nodes import Nodes
from solver.run.divergence import DivergenceError
from solver.run.exchange import Given
from solver.run.plan import Plan, make_plan
from solver.run.plan_numbers import least_across
from solver.run.prolongation import Prolongation
from solver.run.run_state import CoarseHelp, Run
from solver.run.setup import drive, find_device, foresee, likely_in_words
from solver.run.simulation import Simulation
from solver.run.start import Start
from solver.run.time_left import CORNER_LOOPS, Later
from solver.run.units import MAX_GRID_REYNOLDS
from solver.run.unwritten_flow import UnwrittenFlow
from solver.runtime.errors import StageError

LEAST_UPDATES = 3e8
"""Updates of nodes that a run from rest is expected to take, below which ``auto`` tries no coarser lattice."""
LEAST_ACROSS = 4.0
"""Coarse nodes across the narrowest section: with fewer the flow is a different one."""
ROUGH = 10.0
"""Times the squared spacing, over the width of the narrowest section, that the residual of a coarse flow may be: it is
off by about as much as the squared spacing anyhow, and what settles last does so at ten times nu/R^2."""
TOGETHER, APART = 0.25, 1.0
"""T, and the time from a correction until T begins, at first, over that of a pressure wave through the domain."""
SETTLED, MOST_REPEATS = 0.5, 60
"""Change of v, over its first one, at which it is taken, and repeats of T at most. Many short ways ahead gain more than
few long ones, which lead to what the coarse lattice tells badly."""
WORTH = 0.7
"""Part of the residual at the correction before up to which the next one follows in half the time; above, in twice."""
COARSE = Start("coarse")
"""A start before it is known how it went."""
VELOCITY = slice(1, 4)
"""Rows of the velocity in packed fields."""

Reals = NDArray[np.float64]


class Coarse:
    """The lattice at twice the spacing that helps a run.

    Attributes
    ----------
    nodes : its node arrays.
    run : of it, from which the fine one starts.

    Raises
    ------
    NotHalved
        If there is none that would stand for the flow.
    """

    def __init__(self, simulation: Run) -> None:
        self._driver, self._plan = simulation.driver, simulation.plan.at_full_flow()
        _require_use(simulation.nodes, self._plan)
        self._fine = simulation.nodes
        self.nodes, rows = halved(self._fine)
        self._prolonged = Prolongation(self._fine, rows)
        self._at_nodes = np.searchsorted(np.flatnonzero(self._fine.is_own), rows)
        self.run = _prepared(simulation, self.nodes)
        self._full_flow = self.run.plan.at_full_flow().boundary_schedule
        self._scales, self._of_outlets = _scales(self._plan, self.run.plan)
        self._times = self.run.plan.units.dt_s / self._plan.units.dt_s
        transit = self._plan.numbers["acoustic_transit_s"] / self._plan.units.dt_s
        interval = self._plan.schedule.interval
        self._together = interval * max(1, round(TOGETHER * transit / interval))
        self._apart, self._rest = interval * ceil(APART * transit / interval), 1
        self._steps = 2 * max(1, round(self._together / self._times / 2))
        self._before, self._last, self._residual = np.zeros((0, 0)), 0, np.inf

    def begin(self) -> Start:
        """Let the coarse flow settle, or be seen to fluctuate, and the fine one begin with it.

        Raises
        ------
        DivergenceError
            If the coarse flow does.
        """
        began, run = time.monotonic(), self.run
        run.run(UnwrittenFlow())
        fields = self._on_fine(_packed(run.driver.fields()), _at_walls(self._fine, self._plan))
        self._driver.begin_with(fields, run.driver.pressures() / self._of_outlets)
        updates = run.start.node_updates + run.step * self.nodes.total
        seconds, unsteady = time.monotonic() - began, run.watch.begun is not None
        return Start("coarse", 0, run.start.steps + run.step, updates, seconds, unsteady)

    def correct(self, step: int, residual: float) -> int:
        """Correct the fine flow where that is due after a row of the monitor.

        Parameters
        ----------
        step, residual : of the row.

        Returns
        -------
        Steps that the coarse lattice took; 0 where it did not go ahead.
        """
        due = self._last + self._rest * self._apart + self._together
        if step == due - self._together:
            self._before = self._from_fine(self._driver.fields())
        if step != due:
            return 0
        closer = residual < WORTH * self._residual
        self._rest = max(1, self._rest // 2) if closer else 2 * self._rest
        self._last, self._residual = step, residual
        return self._go_ahead()

    def _go_ahead(self) -> int:
        fields, state = self._driver.fields(), self._driver.pressures() * self._of_outlets
        now = self._from_fine(fields)
        moved = (now - self._before) * (self._steps * self._times / self._together)
        missed = moved - (self._later(self._before, state) - self._before)
        ahead, first, change, repeats = now, 0.0, np.inf, 0
        while (repeats < MOST_REPEATS and SETTLED * first < change < np.inf) or not repeats:
            then = self._later(ahead, state) + missed
            change, ahead, repeats = self._size(then - ahead), then, repeats + 1
            first = first or change
        if change < first:  # else it goes away, or is no number any more
            more = self._on_fine(ahead - now, np.zeros((3, len(self._fine.wall_link_node))))
            pairs = zip(fields.arrays(), more.arrays(), strict=False)  # but for the viscosity, which follows
            self._driver.shift(fields, Fields(*(old + new for old, new in pairs)))
        return (repeats + 1) * self._steps

    def _later(self, packed: Reals, state: Reals) -> Reals:
        """Fields of the coarse lattice after T."""
        self.run.driver.begin_with(_unpacked(packed), state)
        self.run.driver.advance(self._full_flow.at(0, self._steps))
        return _packed(self.run.driver.fields())

    def _size(self, packed: Reals) -> float:
        """Root of the sum of squares of the velocity over all coarse nodes."""
        return self.nodes.sum_of_own((packed[VELOCITY] ** 2).sum(axis=0)) ** 0.5

    def _from_fine(self, fields: Fields) -> Reals:
        """Fields of the fine lattice at the coarse nodes, in units of the coarse one, (10, M)."""
        return _packed(fields)[:, self._at_nodes] * self._scales

    def _on_fine(self, packed: Reals, at_walls: Reals) -> Fields:
        """Fields at all fine nodes, in units of the fine lattice, from those at the coarse ones.

        `at_walls` is the velocity where the fine wall links meet the wall, (3, L).
        """
        values = packed / self._scales
        velocity = self._prolonged(values[VELOCITY], at_walls)
        drho, *rest = self._prolonged(np.delete(values, VELOCITY, axis=0))
        if not self._fine.openings:
            drho -= self._fine.sum_of_own(drho) / self._fine.total  # nothing comes in
        return Fields(drho, velocity, np.stack(rest))

    def state(self) -> dict[str, Any]:
        """What the next corrections depend on, for a checkpoint."""
        before = self.run.driver.share.kept(self._before)
        return {"before": before, "last": np.array([self._last, self._residual, self._rest])}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        last, self._residual, rest = np.asarray(state["last"]).tolist()
        self._last, self._rest, self._before = int(last), int(rest), self.run.driver.share.taken(state["before"])


def from_coarser(simulation: Run) -> tuple[Coarse, Start] | None:
    """Let a run begin with the flow at twice the spacing; none where it begins at rest."""
    nodes, settings, plan = simulation.nodes, simulation.settings, simulation.plan
    small = plan.period_s is not None or plan.expected_steps * nodes.total < LEAST_UPDATES
    if settings.start == "rest" or (settings.start == "auto" and small) or simulation.attempt.past:
        return None
    try:
        coarse = Coarse(simulation)
        simulation.log.info(
            "first at twice the spacing, %.3g mm: %d fluid nodes", coarse.nodes.spacing_mm, coarse.nodes.total
        )
        start = coarse.begin()
    except (NotHalved, DivergenceError) as reason:
        simulation.log.info(
            "note: at %.3g mm the flow begins at rest, no start from twice the spacing: %s", nodes.spacing_mm, reason
        )
        return None
    simulation.time_left.compiled_s = coarse.run.time_left.compiled_s
    rows, expected = coarse.run.monitor.rows, simulation.expected_from(start).steps
    simulation.log.info(
        "start from twice the spacing: %d steps there, residual %.2g%s; about %d steps are expected here, %s",
        start.steps,
        rows[-1].residual,
        ", where the flow fluctuates" if start.unsteady else "",
        expected,
        likely_in_words(plan, expected, start.unsteady),
    )
    return coarse, start


def _require_use(nodes: Nodes, plan: Plan) -> None:
    """Check that a lattice of twice the spacing can stand for the flow.

    Raises
    ------
    NotHalved
        If not.
    """
    across = least_across(nodes, plan.slip, plan.numbers) / 2
    if across < LEAST_ACROSS:
        raise NotHalved(f"it would have {across:.1f} nodes across the narrowest section, {LEAST_ACROSS:g} are needed")
    grid_reynolds = 2 * plan.numbers["grid_reynolds"]
    if grid_reynolds > MAX_GRID_REYNOLDS:
        raise NotHalved(f"its grid Reynolds number would be {grid_reynolds:.0f}, above {MAX_GRID_REYNOLDS}")
    if plan.slip:
        raise NotHalved(f"fluid slips along {', '.join(plan.slip)}, which would not be half-way between nodes")


def _prepared(simulation: Run, coarse: Nodes) -> Simulation:
    """The coarse run.

    Raises
    ------
    NotHalved
        If it cannot be run, such as where the device has no memory left.
    """
    fine, nodes, plan = simulation.settings, simulation.nodes, simulation.plan
    thicker = coarse.openings[0].area_mm2 / nodes.openings[0].area_mm2 if nodes.openings else 1.0  # one layer of nodes
    settings = replace(
        fine,
        inlets={name: replace(each, flow_ml_s=(each.flow_ml_s or 0.0) * thicker) for name, each in fine.inlets.items()},
        peak_speed_m_s=plan.numbers["expected_peak_speed_m_s"],
        velocity_set="D3Q19",
        precision="fp32" if fine.precision == "fp16" else fine.precision,
        steady_tolerance=max(fine.steady_tolerance, ROUGH / (least_across(nodes, plan.slip, plan.numbers) / 2) ** 2),
        max_steps=plan.expected_steps,
        monitor_s=None,
        start="coarse",
        unsettled="report",
    )
    try:
        plan = make_plan(coarse, settings)
        expected = foresee(coarse, settings, plan, find_device(settings.backend, settings.precision, settings.ranks))
        driver = drive(coarse, settings, plan)
    except StageError as error:
        raise NotHalved(str(error)) from None
    return Simulation(
        coarse,
        settings,
        replace(plan, safer=()),
        expected,
        driver,
        Given(plan.boundary_schedule),
        simulation.coarse_help,
        simulation.log.getChild("coarser"),
        ends_unsteady=True,
        later=_what_follows(simulation),
    )


def _what_follows(fine: Run) -> Later:
    """After the coarse run: the fine one from its flow. All but the finest run have the same loops."""
    expected, later = fine.expected_from(COARSE), fine.later
    loops = later.loops if fine.ends_unsteady else CORNER_LOOPS if fine.plan.q == 27 else 1.0
    return Later(later.steps_s + expected.seconds - expected.compile_s, loops)


def _scales(fine: Plan, coarse: Plan) -> tuple[Reals, Reals]:
    """What numbers in units of the fine lattice are times those in units of the coarse one.

    Returns
    -------
    For packed fields, (C, 1), and for the state of an outlet with feedback, flow and pressure.
    """

    def ratio(name: str) -> float:
        return float(getattr(fine.units, name) / getattr(coarse.units, name))

    pressure, speed, viscous = ratio("pressure_pa"), ratio("speed_m_s"), ratio("stress_pa")
    viscous *= (1 - 1 / (2 * fine.units.tau)) / (1 - 1 / (2 * coarse.units.tau))
    fields = np.array([pressure, *[speed] * 3, *[viscous] * 6])
    return fields[:, None], np.array([ratio("flow_m3_s"), pressure])


def _at_walls(nodes: Nodes, plan: Plan) -> Reals:
    """Velocity where each wall link meets the wall, (3, L), lattice units."""
    velocity = np.zeros((3, len(nodes.wall_link_node)))
    for name, moving in plan.moving.items():
        velocity[:, nodes.wall_link_patch == nodes.patches.index(name) + 1] = np.array(moving)[:, None]
    return velocity


def _packed(fields: Fields) -> Reals:
    """Fields as rows of one array: drho, velocity and stress, (10, N)."""
    return np.concatenate((fields.drho[None], fields.velocity, fields.stress)).astype(np.float64)


def _unpacked(packed: Reals) -> Fields:
    """The fields that are packed so."""
    return Fields(packed[0], packed[VELOCITY], packed[4:])


HELP = CoarseHelp(from_coarser, Coarse)
"""For :class:`solver.run.simulation.Simulation`."""
