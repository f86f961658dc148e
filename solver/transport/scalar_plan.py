# SPDX-License-Identifier: Apache-2.0
"""Plan of a run of a scalar: its diffusivity and step, and the stretches in which the flow stays as it is."""

from dataclasses import dataclass
from math import ceil
from typing import Any

from solver.transport.carried_flow import CarriedFlow
from solver.transport.scalar_settings import TransportSettings

COURANT = 0.1
"""Largest flow through a face, in spacings a step. Its error in time is of the order of its square."""
MOST_DIFFUSIVITY = 0.1
"""Of the lattice: spacings squared a step. That error grows with it, too."""
STRETCHES = 40
"""Of a mean transit time, in which a steady run is looked at."""
STRETCHES_OF_PERIOD = 100
"""Of a period, in which the flow stays as it is in the middle of each."""


@dataclass(frozen=True)
class TransportPlan:
    """Numbers of a run.

    Attributes
    ----------
    dx_m, dt_s : spacing and step.
    diffusivity_m2_s : that is computed with.
    stretch : steps of a stretch, an even number.
    stretches : of a unit: the mean transit time, or as many periods as it takes.
    transit_s : volume over flow.
    period_s : none of a steady flow.
    numbers : for the record.
    """

    dx_m: float
    dt_s: float
    diffusivity_m2_s: float
    stretch: int
    stretches: int
    transit_s: float
    period_s: float | None
    numbers: dict[str, Any]

    @property
    def lattice_diffusivity(self) -> float:
        """D in lattice units."""
        return self.diffusivity_m2_s * self.dt_s / self.dx_m**2

    @property
    def stretch_s(self) -> float:
        """Time of a stretch."""
        return self.stretch * self.dt_s

    @property
    def unit_s(self) -> float:
        """Time of a unit."""
        return self.stretches * self.stretch_s

    def middle_s(self, start_s: float) -> float:
        """The time whose flow stands for the stretch that begins at another."""
        return start_s + self.stretch_s / 2


def make_plan(flow: CarriedFlow, settings: TransportSettings, dx_m: float, radius_m: float) -> TransportPlan:
    """Plan of a run.

    Parameters
    ----------
    flow : that carries the scalar.
    settings : of the run.
    dx_m : spacing.
    radius_m : of the smallest opening, for the Peclet number of the vessel.
    """
    fastest, count = flow.fastest_m_s, int(flow.carrier.reached.sum())
    least = fastest * dx_m / settings.grid_peclet
    diffusivity = max(settings.diffusivity_m2_s, least)
    longest = min(COURANT * dx_m / fastest, MOST_DIFFUSIVITY * dx_m**2 / diffusivity)
    transit_s = count * dx_m / flow.inflow()
    if flow.period_s:
        stretch = 2 * ceil(flow.period_s / STRETCHES_OF_PERIOD / longest / 2)
        dt_s = flow.period_s / STRETCHES_OF_PERIOD / stretch
        stretches = STRETCHES_OF_PERIOD * max(1, ceil(transit_s / flow.period_s))
    else:
        stretch = 2 * ceil(transit_s / STRETCHES / longest / 2)
        dt_s = transit_s / STRETCHES / stretch
        stretches = STRETCHES
    numbers = {
        "step_s": dt_s,
        "largest_speed_m_s": fastest,
        "courant": fastest * dt_s / dx_m,
        "diffusivity_asked_m2_s": settings.diffusivity_m2_s,
        "diffusivity_m2_s": diffusivity,
        "diffusivity_raised": diffusivity > settings.diffusivity_m2_s,
        "grid_peclet_asked": fastest * dx_m / settings.diffusivity_m2_s if settings.diffusivity_m2_s else None,
        "grid_peclet": fastest * dx_m / diffusivity,
        "peclet_of_radius": fastest * radius_m / diffusivity,
        "transit_s": transit_s,
        **flow.facts(),
    }
    return TransportPlan(dx_m, dt_s, diffusivity, stretch, stretches, transit_s, flow.period_s, numbers)


def notes_of(plan: TransportPlan) -> list[str]:
    """What has to be said of the plan."""
    numbers, notes = plan.numbers, []
    if numbers["diffusivity_raised"]:
        notes.append(
            f"transport.diffusivity_m2_s {numbers['diffusivity_asked_m2_s']:.3g} is raised to"
            f" {numbers['diffusivity_m2_s']:.3g}, the least that this lattice resolves (grid Peclet number"
            f" {numbers['grid_peclet']:.3g}): fronts and layers at walls are wider than in blood, and the"
            " blood of sacs is younger; a finer voxelize.spacing_mm brings it closer"
        )
    if numbers["nodes_left_out"]:
        notes.append(
            f"{numbers['nodes_left_out']} nodes are reached along diagonals alone: the scalar does not get to them, and"
            " they are left out"
        )
    return notes
