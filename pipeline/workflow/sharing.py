# SPDX-License-Identifier: Apache-2.0
"""Sharing: which run of a case computes a stage for its other scenarios.

The stages up to the lattice know the flow only as far as it chooses the spacing. Scenarios whose settings of a stage
and of all before it are the same have the same outputs of it: the first of them computes it, the others link to these.
So it is with runs beside that of a case, members of bands and other flows, whose scenarios have the same flow, too.
"""

import json
from collections.abc import Mapping

from pipeline.case.beside import SECTIONS
from pipeline.case.case_file import Case
from pipeline.case.stages import ENTERED


def owners(runs: Mapping[str, Case]) -> dict[tuple[str, str], str]:
    """Which run computes each stage up to the lattice, and the runs beside that of the case.

    Parameters
    ----------
    runs : cases by name of the run, ``<case>`` or ``<case>@<scenario>``.

    Returns
    -------
    Name of a run by stage, or kind of runs beside, and name of the run whose stage it is: its own, or that of an
    earlier scenario of the case.
    """
    found: dict[tuple[str, str], str] = {}
    first: dict[tuple[str, str, str], str] = {}
    for run, case in runs.items():
        name, before = run.partition("@")[0], json.dumps(case.input.model_dump(mode="json"))
        of_lattice = before
        for stage in ENTERED[case.input.entry]:
            levels = case.convergence.model_dump(include={"spacings", "ratio"}) if stage == "voxelize" else {}
            before += _needs(case, stage) + json.dumps(levels)
            of_lattice += _needs(case, stage)
            found[stage, run] = first.setdefault((name, stage, before), run)
        if case.input.entry == "network":
            continue
        for kind in SECTIONS:
            needs = of_lattice + _needs(case, "solve") + case.settings(kind)
            found[kind, run] = first.setdefault((name, kind, needs), run)
    return found


def _needs(case: Case, stage: str) -> str:
    """Settings of a stage beside the outputs of those before it."""
    return json.dumps([case.settings(stage), case.point_files(stage), case.waveform_files(stage)])
