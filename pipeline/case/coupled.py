# SPDX-License-Identifier: Apache-2.0
"""A vessel that sits in a network: what its openings have before the run, and what its case may not say of them."""

from collections.abc import Mapping
from typing import Any

from pipeline.case.settings.coupling import CouplingSettings
from pipeline.case.settings.flow import InletSettings, OutletSettings, SolveSettings

CAPS = "caps"
"""Folder, among the results of a case, with flow and pressure of the network at each opening of the vessel."""


def mistake_in(solve: SolveSettings, coupling: CouplingSettings, roles: Mapping[str, str]) -> str | None:
    """What is wrong: openings have nothing of their own, and are those that there are; none: nothing.

    Parameters
    ----------
    solve, coupling : sections of the case.
    roles : ``inlet`` or ``outlet`` of each opening, by its name; none: not known before the run.
    """
    if solve.inlets or solve.outlets != SolveSettings().outlets:
        given = "inlets" if solve.inlets else "outlets"
        return (
            f"solve.{given}: given, and the vessel sits in a network (coupling), which says what its openings have;"
            " leave it out"
        )
    return coupling.mistaken_openings(roles) if roles else None


def with_waveforms(solve: SolveSettings, coupling: CouplingSettings, folder: str) -> SolveSettings:
    """Section solve with openings that have the flow and the pressure of the network without the vessel.

    Parameters
    ----------
    solve, coupling : sections of the case.
    folder : of the results of the case, where the stage couple writes them.
    """
    inlets, outlets = (
        {name: kind.model_construct(waveform=f"{folder}/{CAPS}/{name}.csv") for name in names}
        for kind, names in ((InletSettings, coupling.inlets), (OutletSettings, coupling.outlets))
    )
    return solve.model_copy(update={"inlets": inlets, "outlets": outlets})


def with_blood(coupling: CouplingSettings, solve: SolveSettings) -> dict[str, Any]:
    """Section coupling as JSON, with the blood of the vessel, which the network has, too."""
    blood = {"density_kg_m3": solve.density_kg_m3, "viscosity_pa_s": solve.thinnest_pa_s()}
    return coupling.model_dump(mode="json") | {"blood": blood}
