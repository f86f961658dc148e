# SPDX-License-Identifier: Apache-2.0
"""A steady run that begins with a flow much like its own, such as that of the same vessel on another lattice.

Nothing is raised, and what both flows differ in is all that has to die away. Outlets whose pressure follows from their
flow begin as if that were the wanted one already; an outlet of which a flow is demanded begins with the pressure that
the given flow has there. The viscous stress begins at none: it follows from the flow within a few steps.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solver.backends.fields import Fields
from solver.run.coarse_start import Coarse
from solver.run.run_state import CoarseHelp, Run
from solver.run.start import Start

Reals = NDArray[np.floating]


@dataclass(frozen=True)
class GivenFlow:
    """A flow to begin with, at the nodes of the run.

    Attributes
    ----------
    velocity_m_s : (N, 3).
    pressure_pa : (N,).
    """

    velocity_m_s: Reals
    pressure_pa: Reals

    @property
    def help(self) -> CoarseHelp:
        """For :class:`solver.run.simulation.Simulation`."""
        return CoarseHelp(self._begin, Coarse)

    def _begin(self, simulation: Run) -> tuple[None, Start] | None:
        """Let a steady run begin with the flow; none, and from rest, where that is wanted, the flow pulsates, or an
        attempt has failed.
        """
        plan = simulation.plan
        if plan.period_s is not None or simulation.settings.start == "rest" or simulation.attempt.past:
            return None
        schedule, units = plan.at_full_flow().boundary_schedule, plan.units
        drho = (self.pressure_pa - schedule.reference_pa) / units.pressure_pa
        velocity = self.velocity_m_s.T / units.speed_m_s
        fields = Fields(drho, velocity, np.zeros((6, len(drho))))
        simulation.driver.begin_with(fields, self._at_outlets(simulation, drho))
        simulation.log.info("start from a flow that is given")
        return None, Start("given")

    def _at_outlets(self, simulation: Run, drho: Reals) -> NDArray[np.float64]:
        """Filtered excess of the flow and stored pressure of each outlet with feedback, (M, 2)."""
        schedule, nodes = simulation.plan.at_full_flow().boundary_schedule, simulation.nodes
        feedback, held = schedule.outlet_feedback, schedule.at(0, 1)[0]
        state = feedback.start.copy()
        for k, (opening, column) in enumerate(zip(feedback.opening, feedback.column, strict=True)):
            outlet = schedule.outlets[schedule.openings[opening].name]
            if outlet.demanded:
                there = nodes.opening_link_node[nodes.opening_link_opening == opening + 1]
                state[k, 1] = drho[there].mean() - held[column]
        return state
