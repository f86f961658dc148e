# SPDX-License-Identifier: Apache-2.0
"""Settings of runs of a scalar, as the solver takes them."""

from dataclasses import dataclass

GRID_PECLET = 10.0
"""Largest flow through a face times the spacing over the diffusivity, unless another is stated: below, what a bolus
over- and undershoots stays small (docs/transport.md)."""


@dataclass(frozen=True)
class Bolus:
    """Contrast that comes in through inlets: c sin^2(pi (t - start)/duration).

    Attributes
    ----------
    start_s : when it begins.
    duration_s : how long it lasts; none: half of the mean transit time.
    concentration : c, in any unit.
    """

    start_s: float = 0.0
    duration_s: float | None = None
    concentration: float = 1.0


@dataclass(frozen=True)
class TransportSettings:
    """What is carried, and how.

    Attributes
    ----------
    age : whether the age of blood is found.
    bolus : contrast that comes in; none: no contrast.
    wall_flux_m_s : what comes in through the wall, in a unit of concentration times m/s.
    diffusivity_m2_s : D of blood; raised to what the lattice resolves.
    grid_peclet : u dx/D that is allowed.
    settled : part of what the vessel holds that may be missing still when age or drug count as settled.
    washed_out : part of the bolus at which it counts as washed out.
    max_transits : mean transit times after which a run ends anyway.
    precision : ``fp32`` or ``fp64``.
    backend : ``auto``, ``cpu`` or ``cuda``.
    """

    age: bool = True
    bolus: Bolus | None = None
    wall_flux_m_s: float = 0.0
    diffusivity_m2_s: float = 1e-9
    grid_peclet: float = GRID_PECLET
    settled: float = 0.01
    washed_out: float = 0.02
    max_transits: float = 40.0
    precision: str = "fp32"
    backend: str = "auto"
