# SPDX-License-Identifier: Apache-2.0
"""Fall-back: what a run goes on with, on its own, when its models do not hold the flow.

A run climbs the ladder of :mod:`solver.run.models`. Where the flow turns out faster than its models are for, it goes on
from where it is with the next ones. Where it diverges, it begins again from rest: with a shorter time step if it was
faster, or denser, than expected, once each, and else with the next ones. Only when the last of them diverges, with half
the lattice speed, too, does the run end.
Models that the user named are kept. All that is decided depends on steps and rows alone, so that a run that was stopped
decides as one that was not.
"""

import json
from dataclasses import asdict, dataclass, field, replace
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.domain.nodes import Nodes
from solver.run.divergence import DivergenceError, faster, slower
from solver.run.exchange import Surroundings
from solver.run.plan import Plan, make_plan
from solver.run.settings import SolveSettings

LAST_SPEED = 0.5
"""Of the lattice speed, with which the last models are tried once more."""


@dataclass(frozen=True)
class Attempt:
    """How a run is tried.

    Attributes
    ----------
    rung : the least rung of the ladder.
    since : step at which its models took over.
    peak_speed_m_s, lattice_speed : in place of those that are expected and set; none: those.
    past : why earlier models were left, a sentence each.
    restored : whether a checkpoint recorded it, and no state was taken from there yet.
    """

    rung: int = 0
    since: int = 0
    peak_speed_m_s: float | None = None
    lattice_speed: float | None = None
    past: tuple[str, ...] = ()
    restored: bool = field(default=False, compare=False)

    def plan(
        self,
        nodes: Nodes,
        settings: SolveSettings,
        surroundings: Surroundings | None = None,
    ) -> Plan:
        """The plan of this attempt; periods that were over before its models took over do not count.

        Parameters
        ----------
        nodes : of the lattice.
        settings : of the run.
        surroundings : network around the vessel; none: it sits in none.
        """
        changed = replace(
            settings,
            peak_speed_m_s=self.peak_speed_m_s or settings.peak_speed_m_s,
            lattice_speed=self.lattice_speed or settings.lattice_speed,
        )
        plan = make_plan(nodes, changed, self.rung, surroundings)
        if plan.schedule.cycle:
            plan = replace(plan, schedule=plan.schedule.later(ceil(self.since / plan.schedule.cycle)))
        return plan

    def climbed(self, plan: Plan, step: int, grid_reynolds: float) -> "Attempt":
        """What goes on at a step, where the flow is faster than the plan's models are for.

        Parameters
        ----------
        plan : of this attempt, which has safer models left.
        step : from which on they are used.
        grid_reynolds : that the flow had reached.
        """
        why = (
            f"from step {step} on {plan.safer[0]}, after {plan.models}: the grid Reynolds number had reached"
            f" {grid_reynolds:.0f}, and these models are for about {plan.models.most:.0f}"
        )
        return replace(self, rung=plan.safer[0].rung, since=step, past=(*self.past, why), restored=False)

    def after(self, settings: SolveSettings, plan: Plan, diverged: DivergenceError) -> "Attempt | None":
        """What begins again from rest after a flow diverged; none where nothing is left to try.

        Parameters
        ----------
        settings : of the stage.
        plan : of this attempt.
        diverged : how it ended.
        """
        if settings.collision != "auto" or settings.lambda_trt is not None:
            return None
        peak = faster(plan, diverged.reached_m_s) if self.peak_speed_m_s is None else None
        lattice = slower(plan, diverged.drho) if self.lattice_speed is None else None
        models = plan.models
        if peak is None and lattice is None:  # the time step is right: the models are not
            if plan.safer:
                models = plan.safer[0]
            elif self.lattice_speed is None:
                lattice = LAST_SPEED * settings.lattice_speed
            else:
                return None
        changes = [
            str(models) if models != plan.models else "",
            f"an expected peak speed of {peak:.3g} m/s" if peak else "",
            f"a lattice speed of {lattice:.2g}" if lattice else "",
        ]
        why = f"begun again with {', '.join(filter(None, changes))}: {diverged.happened}"
        return Attempt(models.rung, 0, peak or self.peak_speed_m_s, lattice or self.lattice_speed, (*self.past, why))

    def packed(self) -> NDArray[np.uint8]:
        """As an array, for checkpoints."""
        return np.frombuffer(json.dumps(asdict(replace(self, restored=True))).encode(), np.uint8)

    @classmethod
    def unpacked(cls, array: NDArray[Any] | None) -> "Attempt":
        """From an array of :meth:`packed`; none: the first attempt."""
        if array is None:
            return cls()
        held = json.loads(array.tobytes())
        return cls(**held | {"past": tuple(held["past"])})


FIRST = Attempt()
"""As the settings say."""
