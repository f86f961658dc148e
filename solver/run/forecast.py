# SPDX-License-Identifier: Apache-2.0
"""Forecast of a run: memory and time, before anything is computed. How many steps it takes is said by
:mod:`solver.run.settling_time`.
"""

from dataclasses import dataclass, replace
from math import ceil, floor, log10

from solver.backends.cost import Device, Size
from solver.domain.nodes import Nodes
from solver.runtime.errors import StageError
from solver.runtime.memory import gigabytes

MIN_NODES_ACROSS = 6.0
"""Fewer nodes than this across a vessel carry no profile of velocity."""


@dataclass(frozen=True)
class Forecast:
    """What a run is expected to take.

    Attributes
    ----------
    steps, seconds : until it ends.
    bytes : most memory on the device.
    compile_s : of the seconds, before the first step.
    """

    steps: int
    seconds: float
    bytes: int
    compile_s: float = 0.0

    @property
    def step_s(self) -> float:
        """Time of a step."""
        return (self.seconds - self.compile_s) / self.steps

    def scaled(self, part: float) -> "Forecast":
        """The same for so many times the steps."""
        steps = ceil(part * self.steps)
        return replace(self, steps=steps, seconds=self.compile_s + steps * self.step_s)


def forecast(
    nodes: Nodes, precision: str, steps: int, device: Device, means: int = 1, varying: bool = False, q: int = 19
) -> Forecast:
    """Expect memory and time of so many steps.

    Parameters
    ----------
    nodes, precision, steps, device : what is run, how long, where.
    means : running means of the fields that are kept: over time, and over each phase.
    varying : whether the viscosity varies.
    q : populations of a node.

    Raises
    ------
    StageError
        If the device has too little free memory.
    """
    size = Size.of_nodes(nodes, q)
    need, free = device.bytes(size, precision, means, varying), device.free_bytes
    if need > free:
        fitting = size.fitting_mm(
            nodes.spacing_mm, lambda coarser: device.bytes(coarser, precision, means, varying), free
        )
        # voxelize knows of one mean and 19 populations
        known = rounded_down(1e-9 * Size.of_nodes(nodes).coarser(fitting / nodes.spacing_mm).device_bytes(precision))
        raise StageError(
            f"{nodes.total} fluid nodes need {gigabytes(need)} in {precision}, but {gigabytes(free)} are free on"
            f" {device.name}. Set voxelize.memory_gb: {known:.3g}; voxelize then takes the finest spacing that fits, or"
            f" names it with the branches that would be lost and the settings that accept this."
            f" {_at_spacing(nodes, fitting)}. Or free memory there"
            + _cheaper(device, nodes, precision, means, varying, q)
        )
    return Forecast(steps, device.seconds(steps, nodes.total, q), need, device.compile_s)


def _at_spacing(nodes: Nodes, spacing_mm: float) -> str:
    """What a coarser spacing leaves of the openings, in words."""
    across = {opening.name: 2 * opening.radius_mm / spacing_mm for opening in nodes.openings}
    lost = [f"{name} {count:.1f}" for name, count in across.items() if count < MIN_NODES_ACROSS]
    message = f"At about {spacing_mm:.3g} mm (now {nodes.spacing_mm:.3g}), the finest that fits,"
    if lost:
        return f"{message} these openings have too few nodes across, {MIN_NODES_ACROSS:g} are wanted: {', '.join(lost)}"
    return f"{message} {f'each opening has {min(across.values()):.1f} nodes across or more' if across else 'it runs'}"


def _cheaper(device: Device, nodes: Nodes, precision: str, means: int, varying: bool, q: int) -> str:
    """What takes less memory at the same spacing."""
    message = ", or set solve.precision: fp32" if precision == "fp64" else ""
    if means > 1:
        alone = gigabytes(device.bytes(Size.of_nodes(nodes, q), precision, 1, varying))
        message += f", or leave solve.phase_averages out ({alone}), or ask for fewer than {means - 1} snapshots"
    if q == 27:
        fewer = gigabytes(device.bytes(Size.of_nodes(nodes), precision, means, varying))
        message += f", or set solve.velocity_set: D3Q19 ({fewer})"
    return message


def rounded_down(value: float) -> float:
    """To three digits, and never more than the value but for round-off."""
    digit = 10.0 ** (floor(log10(value)) - 2)
    return floor(value / digit + 1e-9) * digit
