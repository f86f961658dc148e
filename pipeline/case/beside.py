# SPDX-License-Identifier: Apache-2.0
"""Runs beside that of a case: members of its bands, and its reduced model's other flows."""

from pipeline.case.settings.entry import InputSettings

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
    if bands and (geometry or coupled):
        other = "a canonical geometry" if geometry else "coupling"
        return f"uncertainty: not together with {other}; set uncertainty: off"
    closed = geometry and (not geometry.roles or any(geometry.periodic))
    if flows and (coupled or closed):
        other = "coupling" if coupled else "a geometry without an inlet and an outlet"
        return f"reduced: not together with {other}; set reduced.flows: []"
    return None
