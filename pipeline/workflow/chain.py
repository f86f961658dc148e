# SPDX-License-Identifier: Apache-2.0
"""Chain: the stages that a run of a case has."""

from pipeline.case.case_file import Case
from pipeline.case.stages import ENTERED, OF_NETWORK, STAGES

LEVELS = ("", "coarser-1/", "coarser-2/")
"""Folders of the lattices of a case: its own, and the coarser ones of the section convergence."""
ON_EVERY_LATTICE = ("voxelize", "decompose", "solve", "postprocess")
"""Stages that run on each of them."""


def stages_of(case: Case, makes_images: bool) -> list[str]:
    """Stages that a run of a case has, in their order, but for the crate of these.

    Parameters
    ----------
    case : what runs.
    makes_images : whether images of a phantom are made for this run, not for an earlier scenario of the case.
    """
    entry = case.input.entry
    if entry == "network":
        return [*OF_NETWORK]
    chosen = {*ENTERED[entry], "solve", "trace", "postprocess", "paraview", "report"}
    chosen |= {"phantom"} if entry == "phantom" and makes_images else set()
    chosen |= set() if entry == "geometry" else {"plausibility"}
    chosen |= {"couple"} if case.coupling else set()
    chosen |= {"convergence"} if case.convergence.spacings > 1 else set()
    chosen |= {"transport"} if case.transport else set()
    chosen |= {"uncertainty"} if case.uncertainty.count else set()
    chosen |= {"reduced"} if case.reduced.flows else set()
    return [stage for stage in STAGES if stage in chosen]
