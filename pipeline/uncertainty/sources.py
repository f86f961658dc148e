# SPDX-License-Identifier: Apache-2.0
"""What is uncertain of a case, and the solver's settings of a member in which it is drawn.

Inflow and viscosity are multiplied by exp(s z), z drawn from a standard normal distribution and s^2 = ln(1 + cv^2), cv
being the coefficient of variation: both stay positive. Measured inflow: phase-contrast MRI errs by up to a tenth (Lotz
et al. 2002, doi:10.1148/radiographics.22.3.g02ma11651); between persons the flow through an internal carotid artery
varies by 19 % (Ford et al. 2005, doi:10.1088/0967-3334/26/4/013). Viscosity: 13 % between healthy persons at 100 1/s
(Rosenson et al. 1996, doi:10.1093/clinchem/42.8.1189).

What a waveform differs from its mean by is multiplied likewise, with one factor for all inlets, since one heart makes
all of their pulses; the mean stays. So the pulsatility index, (largest - least)/mean, takes the factor. That of the
flow to the brain is 0.92 (standard deviation 0.20) and 1.28 (0.33) outside of the skull in 28 young and 20 elderly
healthy persons, 0.79 (0.15) and 1.14 (0.18) within: it varies by 16 to 26 % between persons of an age (Owashi, Capel
and Baledent 2023, doi:10.1186/s12987-023-00467-8).
"""

from dataclasses import dataclass
from math import exp, log, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.case.settings.flow import InletSettings, OutletSettings, SolveSettings
from pipeline.case.settings.uncertainty import UncertaintySettings
from pipeline.uncertainty.wall_precision import WallPrecision
from solver.boundary.waveform import by_opening, read_waveforms
from solver.boundary.windkessel import flow_fractions
from solver.domain.nodes import Opening

Group = Literal["wall", "inflow", "waveform", "viscosity", "outlets", "spacing"]

WORDS: dict[Group, str] = {
    "wall": "place of the wall",
    "inflow": "inflow",
    "waveform": "waveform of the inflow",
    "viscosity": "viscosity",
    "outlets": "outlets",
    "spacing": "spacing of the lattice",
}
"""Sources as a reader is told of them."""

BETTER: dict[Group, str] = {
    "wall": "an image with smaller voxels or less noise, or a threshold that is checked, would narrow the bands most",
    "inflow": "a measured inflow, by phase-contrast MRI or Doppler, would narrow the bands most",
    "waveform": "the patient's own waveform, by phase-contrast MRI or Doppler, would narrow the bands most",
    "viscosity": "the patient's haematocrit or a measured viscosity would narrow the bands most",
    "outlets": "measured flows through the outlets would narrow the bands most",
    "spacing": "a finer lattice (a smaller voxelize.spacing_mm) would narrow the bands most",
}
"""What to do about each."""


@dataclass(frozen=True)
class Variable:
    """One standard normal variable of the design.

    Attributes
    ----------
    group : the source that it is a part of.
    name : what it varies: an inlet, or a contrast of outlets by its number; empty where there is one of its group.
    """

    group: Group
    name: str = ""


def variables_of(
    settings: UncertaintySettings, wall: WallPrecision, openings: tuple[Opening, ...], solve: SolveSettings
) -> tuple[Variable, ...]:
    """The variables that a case has, in the order of the design's columns.

    Parameters
    ----------
    settings : how much varies.
    wall : how well its place is known; what varies along it is drawn for each member, and no variable.
    openings : of the vessel.
    solve : blood, and what holds at openings.
    """
    found = [Variable("wall")] if wall.whole_mm else []
    if settings.inflow_cv:
        found += [Variable("inflow", each.name) for each in openings if each.role == "inlet"]
    if settings.waveform_cv and any(each.waveform for each in by_opening(openings, "inlet", solve.inlets).values()):
        found.append(Variable("waveform"))
    if settings.viscosity_cv:
        found.append(Variable("viscosity"))
    if settings.outlets_cv:
        found += [Variable("outlets", str(k + 1)) for k in range(max(len(_shared(openings, solve)) - 1, 0))]
    return tuple(found)


def _shared(openings: tuple[Opening, ...], solve: SolveSettings) -> dict[str, OutletSettings]:
    """Outlets by name that share the flow: by parts of it, or by resistances. Where one has a pressure alone, the flow
    divides as it comes, and nothing of the outlets varies.
    """
    outlets = by_opening(openings, "outlet", solve.outlets)
    return outlets if all(each.flow_fraction or each.windkessel for each in outlets.values()) else {}


def with_variation(
    solve: SolveSettings,
    settings: UncertaintySettings,
    openings: tuple[Opening, ...],
    variables: tuple[Variable, ...],
    drawn: NDArray[np.float64],
) -> SolveSettings:
    """The section solve of a member.

    Parameters
    ----------
    solve : of the case.
    settings : how much varies.
    openings : of the case, whose radii share the flow by Murray's law.
    variables : of the design.
    drawn : (variables,), their values.
    """
    value = dict(zip(variables, drawn.tolist(), strict=True))
    inflow = read_waveforms(openings, solve).inflow
    inlets, largest = {}, 1.0
    pulsating = exp(_sigma(settings.waveform_cv) * value.get(Variable("waveform"), 0.0))
    for name, entry in by_opening(openings, "inlet", solve.inlets).items():
        factor = exp(_sigma(settings.inflow_cv) * value.get(Variable("inflow", name), 0.0))
        mean, peak = inflow[name].mean_ml_s, inflow[name].peak_ml_s
        change = {"flow_ml_s": factor * mean}
        if entry.waveform:
            change["pulsatility"] = pulsating * entry.pulsatility
        largest = max(largest, factor * (mean + pulsating * (peak - mean)) / peak)
        inlets[name] = InletSettings(**entry.model_dump() | change)
    thicker = exp(_sigma(settings.viscosity_cv) * value.get(Variable("viscosity"), 0.0))
    changes = {
        "inlets": inlets,
        "outlets": _outlets(solve, settings, openings, value),
        "viscosity_pa_s": solve.viscosity_pa_s * thicker,
        "peak_speed_m_s": solve.peak_speed_m_s and solve.peak_speed_m_s * largest,
        "ranks": 1,
    }
    return solve.model_copy(update=changes)


def _outlets(
    solve: SolveSettings, settings: UncertaintySettings, openings: tuple[Opening, ...], value: dict[Variable, float]
) -> dict[str, OutletSettings]:
    """Outlets whose parts of the flow f and resistances R become f exp(d), to the sum of 1, and R exp(-d).

    The d of n outlets have the standard deviation s sqrt(1 - 1/n) and the sum 0: s times contrasts, orthonormal and
    orthogonal to what all have in common, times n - 1 variables.
    """
    from scipy.linalg import helmert  # only now: the page of all cases reads names here

    outlets, shared = by_opening(openings, "outlet", solve.outlets), _shared(openings, solve)
    drawn = np.array([value.get(Variable("outlets", str(k + 1)), 0.0) for k in range(len(shared) - 1)])
    if len(shared) < 2 or not drawn.any():
        return outlets
    change = dict(zip(shared, _sigma(settings.outlets_cv) * (helmert(len(shared)).T @ drawn), strict=True))
    given = flow_fractions(openings, outlets, solve.murray_exponent)
    parts = {name: part * exp(change[name]) for name, part in given.items()}
    total = sum(parts.values())
    return {name: _outlet(entry, parts[name] / total, exp(-change[name])) for name, entry in outlets.items()}


def _outlet(entry: OutletSettings, part: float, resistance: float) -> OutletSettings:
    vessels = entry.windkessel
    if vessels and vessels.distal_mmhg_s_ml is not None:
        raised = {"distal_mmhg_s_ml": vessels.distal_mmhg_s_ml * resistance}
        return entry.model_copy(update={"windkessel": vessels.model_copy(update=raised)})
    return entry.model_copy(update={"flow_fraction": part})


def _sigma(cv: float) -> float:
    return sqrt(log(1 + cv**2))
