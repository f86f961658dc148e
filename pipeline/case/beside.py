# SPDX-License-Identifier: Apache-2.0
"""Runs beside that of a case: members of its bands, and its reduced model's other flows."""

from pipeline.case.settings.entry import InputSettings
from pipeline.case.shapes import RoundShape

SECTIONS = {
    "member": ("uncertainty", "solve", "decompose", "postprocess"),
    "other_flow": ("reduced", "solve", "surface", "decompose", "postprocess"),
}
"""Sections of the case that each of them takes."""


def cannot_run(given: InputSettings, coupled: bool, bands: bool, flows: bool) -> str | None:
    """Why what is asked for cannot be had of such a case; none where it can.

    Parameters
    ----------
    given : section of the case.
    coupled : whether the vessel sits in a network.
    bands, flows : what is asked for.
    """
    geometry = given.geometry
    closed = geometry and (not geometry.roles or any(geometry.periodic))
    if bands and coupled:
        return (
            "uncertainty: members run the vessel alone, and what a network (coupling) lets in follows from both; set"
            " uncertainty: off"
        )
    if bands and geometry and (closed or not isinstance(geometry, RoundShape)):
        return (
            f"uncertainty: a canonical {geometry.shape}{' without openings' if closed else ''} has no bands, only round"
            " vessels with an inlet and an outlet do (pipe, stenosis, nozzle, bend, bifurcation); set uncertainty: off"
        )
    if flows and (coupled or closed):
        other = "coupling" if coupled else "a geometry without an inlet and an outlet"
        return f"reduced: not together with {other}; set reduced.flows: []"
    return None
