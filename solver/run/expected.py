# SPDX-License-Identifier: Apache-2.0
"""What is expected of a flow before it runs: how the branches share it, and its peak speed."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from solver.boundary.walls import Vector
from solver.boundary.waveform import Inflow
from solver.boundary.windkessel import PASCAL_PER_MMHG, Outlet
from solver.domain.nodes import Opening
from solver.domain.sections import Complex, Ends, Sections
from solver.runtime.errors import StageError

PEAK_OVER_MEAN = 2.0
"""Peak over mean speed of a section: that of developed flow in a tube. Where one of area ratio a narrows so fast that
friction has no part in it, Bernoulli's law makes of the parabola of speed U before it, along each stream tube,
u^2 = (2 U)^2 (1 - psi/Q) + const., whose peak over its mean is 1 + a^2. Flow in a throat is between the two: it is at
most developed, and the factor at most 2/(1 + a^2) too large."""
NARROWER = 1.08
"""A section counts as narrower than the openings where its mean speed is larger by this factor: beyond the scatter of
areas counted in nodes, 6 % of those of a straight tube 6 nodes across, 3 % of one of 8 or more."""

MOST_HEADS, SAME_FLOW = 40, 1e-3
"""Repeats in which flows are sought that take the pressures of their own speeds, and by what part they may then differ
from one to the next."""


def leaving_m3_s(
    openings: tuple[Opening, ...],
    sections: Sections,
    inflow: Mapping[str, Inflow],
    outlets: Mapping[str, Outlet],
    density_kg_m3: float,
    viscosity_m2_s: float,
    force_n_m3: Vector = (0.0, 0.0, 0.0),
) -> dict[int, float]:
    """What leaves through each opening by its index at the largest flow, less than 0 where it enters.

    Outlets with a part of the flow, as set or by their Windkessels, have that; the others share the rest as friction,
    the pressure that their speed takes and their own pressures let them.

    Parameters
    ----------
    openings, sections : of the vessel.
    inflow, outlets : flow through each inlet, and what holds at each outlet, by name.
    density_kg_m3, viscosity_m2_s : of blood.
    force_n_m3 : on the fluid, whose work along the vessel counts as a pressure.
    """
    entering = {name: 1e-6 * max(flow.peak_ml_s, -flow.minimum_ml_s) for name, flow in inflow.items()}
    total = sum(entering.values())
    behind = [outlets.get(opening.name) for opening in openings]
    flow = [
        -entering[opening.name] if outlet is None else total * (outlet.fraction or 0.0)
        for opening, outlet in zip(openings, behind, strict=True)
    ]
    work_pa = 1e-3 * np.array([opening.centre_mm for opening in openings]) @ np.array(force_n_m3)
    held_pa = np.array([PASCAL_PER_MMHG * outlet.pressure_mmhg if outlet else 0.0 for outlet in behind])
    ends = Ends(
        given=np.array([outlet is None or outlet.fraction is not None for outlet in behind]),
        flow_m3_s=np.array(flow, np.complex128)[:, None],
        impedance=np.zeros((len(openings), 1), np.complex128),
        pressure_pa=(held_pa - work_pa).astype(np.complex128)[:, None],
    )
    steady = sections.impedance(np.zeros(1), density_kg_m3, viscosity_m2_s)
    areas_m2 = 1e-6 * np.array([opening.area_mm2 for opening in openings])
    return dict(enumerate(_with_heads(sections, ends, steady, density_kg_m3 / areas_m2**2).tolist()))


def _with_heads(sections: Sections, ends: Ends, steady: Complex, head: NDArray[np.float64]) -> NDArray[np.float64]:
    """What leaves through each opening, (openings,), with sections of these resistances, where a flow Q out takes the
    pressure `head` Q^2: the kinetic energy of a parabola, rho U^2 of its mean speed. None that enters takes any.
    """
    out = sections.leaving(ends, steady)[:, 0].real
    if (~ends.given).sum() < 2:
        return out
    for _ in range(MOST_HEADS):
        found = sections.leaving(replace(ends, impedance=_resistance(head, out)), steady)[:, 0].real
        # where the head alone resists, the product of both is what the pressures ask for
        nearer = np.where(out * found > 0, np.sign(found) * np.sqrt(np.abs(out * found)), (out + found) / 2)
        done = np.abs(nearer - out).max() < SAME_FLOW * np.abs(nearer).max()
        out = nearer
        if done:
            break
    return sections.leaving(replace(ends, impedance=_resistance(head, out)), steady)[:, 0].real


def _resistance(head: NDArray[np.float64], out: NDArray[np.float64]) -> Complex:
    """Resistance of the pressures that flows out take, (openings, 1)."""
    return (head * np.maximum(out, 0.0)).astype(np.complex128)[:, None]


def speed_at_openings_m_s(openings: tuple[Opening, ...], out_m3_s: Mapping[int, float]) -> float:
    """Largest mean speed over an opening, for what leaves through each by its index."""
    return max(abs(out_m3_s[k]) / (1e-6 * opening.area_mm2) for k, opening in enumerate(openings))


def peak_speed_m_s(openings: tuple[Opening, ...], sections: Sections, out_m3_s: Mapping[int, float]) -> float:
    """Largest speed in a vessel, `PEAK_OVER_MEAN` times the largest mean speed over its openings and sections.

    Parameters
    ----------
    openings, sections : of the vessel.
    out_m3_s : what leaves through each opening by its index.

    Raises
    ------
    StageError
        If no fluid enters.
    """
    at_openings = speed_at_openings_m_s(openings, out_m3_s)
    if not at_openings > 0:
        raise StageError("solve.inlets: no flow enters the vessel; give a flow_ml_s above 0")
    within = sections.speed_m_s(out_m3_s)
    return PEAK_OVER_MEAN * (within if within > NARROWER * at_openings else at_openings)
