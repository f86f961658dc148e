# SPDX-License-Identifier: Apache-2.0
"""Forecast of a run: memory, steps and time, before anything is computed.

A run ends when what its ramp has left behind has died away. Outlets of a steady flow let waves leave
(:mod:`solver.run.boundary_schedule`), so that the profile is what is left. Where the vessel is widest, with the radius
R, friction wears it off at some 10 nu/R^2, and the flow Q carries it out of the length L. Last of all is what is slow,
at the wall: in a layer of thickness d the stream leaves within L R/(U d), and friction acts within d^2/nu. Both are the
same for d^3 = nu L R/U (Leveque 1928, Annales des Mines 13), so that the rate is

    s = nu/R^2 [10 + 12 (Q/(pi nu L))^(2/3)].

A stream that separates where the vessel widens passes by what turns there, which settles at some 16 nu/R^2. These
numbers are fitted to the flows of the matrix in tests/support/stability_matrix.py that settle, and were tried on others
drawn afterwards (docs/validation/stability.md).

Where waves stay, behind Windkessels and in flows that pulsate, the slowest motion of a vessel between an inlet of given
flow and an outlet of given pressure is a standing wave, a quarter of a wavelength long, of frequency
omega = pi c_s/(2 L). With Womersley's number alpha = R sqrt(omega/nu) friction damps it at the rate

    (1 + alpha/sqrt 2)/T    where it oscillates (the dispersion of Womersley 1955, doi:10.1113/jphysiol.1955.sp005276,
                            expanded for large alpha),
    alpha^4/(8 T)           where it creeps, alpha below about 2 (Poiseuille's friction),

whichever is smaller, and the mean flow carries it out at 4 U/(3 L), since waves run faster with the stream than against
it; the rate of the profile bounds that. A ramp (1 - cos(pi t/t_r))/2 leaves the part (pi/(omega t_r))^2/2 of what moves
at a rate omega, and the residual, the change over T, is T times that rate as much.
"""

from dataclasses import dataclass, replace
from math import ceil, floor, inf, log, log10, pi, sqrt

from solver.backends.cost import Device, Size
from solver.domain.nodes import Nodes
from solver.runtime.errors import StageError
from solver.runtime.memory import gigabytes

MIN_NODES_ACROSS = 6.0
"""Fewer nodes than this across a vessel carry no profile of velocity."""

DIFFUSION = 26.4
"""Rate, in nu/R^2, at which the profile of a given flow settles in a tube."""
SETTLING, CARRIED, PASSED = 10.0, 12.0, 16.0
"""Rates, in nu/R^2, at which a profile settles and is carried out where waves leave, and at which it settles where the
stream passes it by: see the module."""


@dataclass(frozen=True)
class Forecast:
    """What a run is expected to take.

    Attributes
    ----------
    steps, seconds : until it ends.
    bytes : most memory on the device.
    """

    steps: int
    seconds: float
    bytes: int

    def from_flow(self, corrected: bool) -> "Forecast":
        """The same for a run that begins with the flow at twice the spacing, which may correct it on the way."""
        return self.scaled(CORRECTED if corrected else FROM_FLOW)

    def scaled(self, part: float) -> "Forecast":
        """The same for so many times the steps."""
        return replace(self, steps=ceil(part * self.steps), seconds=part * self.seconds)


CORRECTED, FROM_FLOW = 1 / 3, 2 / 3
"""Of the steps from rest, what those from the flow at twice the spacing are: 0.27 on the demo and 0.42 on the carotid
with corrections, 0.67 and 0.6 without."""


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
            f"{nodes.count} fluid nodes need {gigabytes(need)} in {precision}, but {gigabytes(free)} are free on"
            f" {device.name}. Set voxelize.memory_gb: {known:.3g}; voxelize then takes the finest spacing that fits, or"
            f" names it with the branches that would be lost and the settings that accept this."
            f" {_at_spacing(nodes, fitting)}. Or free memory there"
            + _cheaper(device, nodes, precision, means, varying, q)
        )
    return Forecast(steps, device.seconds(steps, nodes.count, q), need)


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


# many parameters because each is a symbol of the formula
def settling_s(
    length_m: float,
    radius_m: float,
    viscosity_m2_s: float,
    sound_m_s: float,
    speed_m_s: float,
    ramp_s: float,
    tolerance: float,
    viscous_s: float | None = None,
    most: float = inf,
) -> float:
    """Time from the end of the ramp until the residual of a run in which waves stay is below the tolerance.

    Parameters
    ----------
    length_m, radius_m : of the vessel, R twice its volume over the area of its walls.
    viscosity_m2_s, sound_m_s, speed_m_s : nu, c_s, U.
    ramp_s : t_r.
    tolerance : of the residual.
    viscous_s : the residual's viscous time; R^2/nu if not given.
    most : rate, in nu/R^2, at which flow settles that friction moves alone, as behind a widening: most of the stream
        passes it by.
    """
    time_s = radius_m**2 / viscosity_m2_s
    omega = pi / 2 * sound_m_s / length_m
    alpha = sqrt(omega * time_s)
    friction = min(1 + alpha / sqrt(2), alpha**4 / 8, DIFFUSION) / time_s
    left = _left(omega * ramp_s)
    carried = 4 * speed_m_s / (3 * length_m)
    rate = min(friction + carried, most / time_s + carried / 3)
    return max(0.0, log(omega * (viscous_s or time_s) * left / tolerance)) / rate


def profile_rate(length_m: float, radius_m: float, viscosity_m2_s: float, flow_m3_s: float, separated: bool) -> float:
    """Rate, 1/s, at which a profile settles where waves leave: see the module.

    Parameters
    ----------
    length_m, radius_m : of the vessel, R where it is widest.
    viscosity_m2_s, flow_m3_s : nu, Q.
    separated : whether the stream separates.
    """
    carried = (flow_m3_s / (pi * viscosity_m2_s * length_m)) ** (2 / 3)
    return (PASSED if separated else SETTLING + CARRIED * carried) * viscosity_m2_s / radius_m**2


def raised_s(rate_1_s: float, viscous_s: float, ramp_s: float, tolerance: float) -> float:
    """Time from the end of the ramp until the residual of what settles at one rate is below the tolerance.

    What is raised as (1 - cos(pi t/t_r))/2, the inflow or a velocity of the walls, leaves the part (pi/(s t_r))^2/2, at
    most 1, of the motion that settles at the rate s; the residual is s times the viscous time as much.

    Parameters
    ----------
    rate_1_s : s.
    viscous_s : the residual's viscous time.
    ramp_s : t_r; 0 if it is not raised.
    tolerance : of the residual.
    """
    left = _left(rate_1_s * ramp_s)
    return max(0.0, log(rate_1_s * viscous_s * left / tolerance)) / rate_1_s


def _left(ramp: float) -> float:
    """Part (pi/(omega t_r))^2/2, at most 1, that a ramp leaves of a motion at the rate omega, for omega t_r."""
    radian_rate = pi / ramp if ramp else inf
    return 0.5 * min(2.0, radian_rate * radian_rate)
