# SPDX-License-Identifier: Apache-2.0
"""A model as the file of a network of arteries, which a case with ``input.network`` takes, and edits can change.

Branches are segments with stated losses. Their walls are as stiff as a network's may be, since walls of a run are
rigid; their length is that of the branch. At openings the section is that in which the same flow, all at one speed, has
the difference of total and static pressure; in the middle it is such that the inertance is the branch's, radii between
being on straight lines.
"""

from math import pi, sqrt

from pipeline.case.settings.base import parse
from pipeline.network.network_ends import Inlet, Pressure, Rcr, Resistance, Terminal
from pipeline.network.network_file import LossKeys, Network, Segment
from pipeline.network.writing import commented, network_text, rounded
from pipeline.reduced.model import Behind, Opening, ReducedBranch, ReducedModel, Share
from solver.boundary.windkessel import PASCAL_PER_MMHG

STIFF_M_S = 40.0
"""Speed of waves in the walls, the fastest of which a network takes without being told to."""

STEEP = 10.0
"""Of an outlet that is to have a part of the flow, the drop in its resistance over all that the branches lose."""

ML = 1e-6

WORDS = (
    "The reduced model of a vessel, found from steady runs in three dimensions. It holds from {low:g} to {high:g} times"
    " the flow of its inlets here, and for about the same division of the flow. Walls are stiff."
)


def network_of(model: ReducedModel) -> str:
    """The text of the network's file.

    Parameters
    ----------
    model : the reduced model.
    """
    openings = {each.name: each for each in model.openings}
    low, high = model.factors
    values = {
        "description": "Reduced model of a vessel",
        "blood": {"density_kg_m3": rounded(model.density_kg_m3), "viscosity_pa_s": rounded(model.viscosity_pa_s)},
        "accept": ("density", "viscosity", "length", "radius", "resistance", "compliance"),
        "defaults": {"wave_speed_m_s": STIFF_M_S},
        "segments": {f"branch{n + 1}": _segment(branch, model, openings) for n, branch in enumerate(model.branches)},
        "inlets": {
            each.name: Inlet(flow_ml_s=rounded(each.flow_ml_s)).model_dump(exclude_unset=True)
            for each in model.with_role("inlet")
        },
        "terminals": {
            each.name: _terminal(each, model).model_dump(exclude_unset=True) for each in model.with_role("outlet")
        },
    }
    words = [WORDS.format(low=low, high=high), *(f"Does not hold: {each}." for each in model.reservations)]
    return network_text(parse(Network, values, "reduced model"), commented("\n".join(words)))


def _segment(branch: ReducedBranch, model: ReducedModel, openings: dict[str, Opening]) -> dict[str, object]:
    """A branch."""
    length_m = 1e-3 * max(branch.length_mm, 1e-3)
    inertance = branch.inertance_mmhg_s2_ml * PASCAL_PER_MMHG / ML
    area_m2 = model.density_kg_m3 * length_m / inertance if inertance else 1e-6 * branch.least_area_mm2
    ends_m = [_end_m(model, openings.get(joint)) or sqrt(area_m2 / pi) for joint in (branch.start, branch.stop)]
    middle_m = area_m2 / (2 * pi) * sum(1 / radius for radius in ends_m)  # so that the integral of ds/A is l/area_m2
    radii = (ends_m[0], middle_m, ends_m[1])
    return Segment(
        nodes=(node(branch.start), node(branch.stop)),
        length_mm=rounded(1e3 * length_m),
        radius_mm=tuple(rounded(1e3 * radius) for radius in radii),
        loss=LossKeys(
            resistance_mmhg_s_ml=rounded(branch.resistance_mmhg_s_ml),
            square_mmhg_s2_ml2=rounded(branch.square_mmhg_s2_ml2),
        ),
    ).model_dump(exclude_unset=True)


def _end_m(model: ReducedModel, opening: Opening | None) -> float | None:
    """Radius at an opening; none elsewhere, and where total and static pressure do not differ as they should."""
    if opening is None or not opening.flow_ml_s or (head := opening.head.at(abs(opening.flow_ml_s))) <= 0:
        return None
    speed_m_s = sqrt(2 * head * PASCAL_PER_MMHG / model.density_kg_m3)
    return sqrt(abs(opening.flow_ml_s) * ML / speed_m_s / pi)


def node(joint: str) -> str:
    """A joint's name as that of a network's node."""
    return joint.replace(" ", "-")


def _terminal(outlet: Opening, model: ReducedModel) -> Terminal:
    """What lies behind an outlet."""
    law = outlet.law
    if isinstance(law, Behind):
        if not law.compliance_ml_mmhg or not law.distal_mmhg_s_ml:
            return Resistance(
                type="resistance",
                resistance_mmhg_s_ml=rounded(law.total_mmhg_s_ml),
                distal_pressure_mmhg=rounded(law.distal_pressure_mmhg),
            )
        return Rcr(
            type="rcr",
            proximal_mmhg_s_ml=rounded(law.proximal_mmhg_s_ml),
            distal_mmhg_s_ml=rounded(law.distal_mmhg_s_ml),
            compliance_ml_mmhg=rounded(law.compliance_ml_mmhg),
            distal_pressure_mmhg=rounded(law.distal_pressure_mmhg),
        )
    if isinstance(law, Share):
        lost = sum(abs(branch.at(branch.flow_ml_s)) for branch in model.branches)
        resistance = STEEP * lost / outlet.flow_ml_s
        return Resistance(
            type="resistance",
            resistance_mmhg_s_ml=rounded(resistance),
            distal_pressure_mmhg=rounded(outlet.pressure_mmhg - resistance * outlet.flow_ml_s),
        )
    return Pressure(type="pressure", pressure_mmhg=rounded(outlet.pressure_mmhg))
