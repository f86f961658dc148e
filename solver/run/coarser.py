# SPDX-License-Identifier: Apache-2.0
"""What coarser lattices would cost in time and in accuracy, said before a long run.

At the same lattice speed the steps of a run are proportional to 1/dx and its nodes to 1/dx^3, so that node updates, and
the time of a lattice that is not small, are proportional to 1/dx^4. A number of node updates follows from the case
alone; hours follow from the machine, too.
"""

from dataclasses import dataclass
from math import ceil

from solver.backends.cost import Device
from solver.run.forecast import MIN_NODES_ACROSS, Forecast, rounded_down
from solver.run.models import choose_velocity_set
from solver.run.plan import Plan, drop_error
from solver.run.resolution import STABLE_GRID_REYNOLDS, WALL_ACROSS, Resolution
from solver.run.settings import SolveSettings
from solver.runtime.progress import in_time_units

LONG_S = 900.0
"""Expected time of a run, s, above which coarser lattices are shown."""
MOST_SHOWN, LEAST_TIMES = 3, 1.2
"""So many of them at most, each at least so many times as coarse as the run's: half of the time."""
ACROSS = ("nodes_across_inlet", "nodes_across_smallest_opening", "nodes_across_narrowest_section")
"""Numbers of a plan that count nodes."""


@dataclass(frozen=True)
class Choice:
    """A lattice on which the case could run.

    Attributes
    ----------
    spacing_mm : of it.
    seconds : expected, on this device.
    node_updates : expected, of fluid nodes.
    resolution : of the flow.
    """

    spacing_mm: float
    seconds: float
    node_updates: float
    resolution: Resolution

    @property
    def words(self) -> str:
        """For the log."""
        return f"{in_time_units(self.seconds)}, {self.node_updates:.2g} node updates; {self.resolution.words}"


def choices(plan: Plan, settings: SolveSettings, expected: Forecast, device: Device) -> list[Choice]:
    """The lattice of a run, and coarser ones in equal ratios up to the coarsest on which wall shear stress can be used;
    where that is no coarser, one that still carries the flow, with 6 nodes across and a grid Reynolds number of 300.

    Parameters
    ----------
    plan, settings, expected, device : of the run.
    """
    across = _counted(plan).values()
    if not across:
        return []
    own_mm, stable = plan.numbers["spacing_mm"], STABLE_GRID_REYNOLDS / plan.numbers["grid_reynolds"]
    most, usable = (min(min(across) / least, stable) for least in (MIN_NODES_ACROSS, WALL_ACROSS[1]))
    times = [usable ** (k / MOST_SHOWN) for k in range(1, MOST_SHOWN + 1)] if usable >= LEAST_TIMES else [LEAST_TIMES]
    coarser = [rounded_down(each * own_mm) for each in times if LEAST_TIMES <= each <= most]
    return [_choice(plan, settings, expected, device, spacing_mm) for spacing_mm in (own_mm, *coarser)]


def _choice(plan: Plan, settings: SolveSettings, expected: Forecast, device: Device, spacing_mm: float) -> Choice:
    times = spacing_mm / plan.numbers["spacing_mm"]
    across = {name: number / times for name, number in _counted(plan).items()}
    grid_reynolds, fluid_nodes = times * plan.numbers["grid_reynolds"], plan.numbers["fluid_nodes"] / times**3
    steps = ceil(expected.steps / times)
    q = choose_velocity_set(settings.velocity_set, settings.collision, grid_reynolds, settings.equilibrium, plan.slip)
    return Choice(
        spacing_mm=spacing_mm,
        seconds=device.seconds(steps, fluid_nodes, q),
        node_updates=steps * fluid_nodes,
        resolution=Resolution(min(across.values()), drop_error(grid_reynolds, across)),
    )


def _counted(plan: Plan) -> dict[str, float]:
    """Numbers of a plan that count nodes."""
    return {name: plan.numbers[name] for name in ACROSS if name in plan.numbers}


def said(found: list[Choice]) -> list[str]:
    """Lines for the log about a run that takes long and what coarser lattices would make of it; none of a short one.

    Parameters
    ----------
    found : of :func:`choices`, the run's own first.
    """
    if not found or found[0].seconds < LONG_S:
        return []
    own, *coarser = found
    none = (
        f"no coarser one carries this flow: at {LEAST_TIMES:g} times the spacing fewer than {MIN_NODES_ACROSS:g} nodes"
        f" are across, or the grid Reynolds number is above {STABLE_GRID_REYNOLDS}"
    )
    advised = [
        f"voxelize: {{spacing_mm: {each.spacing_mm:.4g}, nodes_across: null}} takes {each.words}" for each in coarser
    ]
    return [f"this lattice, {own.spacing_mm:.4g} mm, takes {own.words}", *(advised or [none])]
