# SPDX-License-Identifier: Apache-2.0
"""Sharing: which run of a case computes a stage for its other scenarios.

The stages up to the lattice know the flow only as far as it chooses the spacing. Scenarios whose settings of a stage
and of all before it are the same have the same outputs of it: the first of them computes it, the others link to these.
"""

import json
from collections.abc import Mapping

from pipeline.case.case_file import Case
from pipeline.case.stages import ENTERED


def owners(runs: Mapping[str, Case]) -> dict[tuple[str, str], str]:
    """Which run computes each stage up to the lattice.

    Parameters
    ----------
    runs : cases by name of the run, ``<case>`` or ``<case>@<scenario>``.

    Returns
    -------
    Name of a run by stage and name of the run whose stage it is: its own, or that of an earlier scenario of the case.
    """
    found: dict[tuple[str, str], str] = {}
    first: dict[tuple[str, str, str], str] = {}
    for run, case in runs.items():
        before = json.dumps(case.input.model_dump(mode="json"))
        for stage in ENTERED[case.input.entry]:
            before += _needs(case, stage)
            found[stage, run] = first.setdefault((run.partition("@")[0], stage, before), run)
    return found


def _needs(case: Case, stage: str) -> str:
    """Settings of a stage beside the outputs of those before it."""
    levels = case.convergence.model_dump(include={"spacings", "ratio"}) if stage == "voxelize" else {}
    return json.dumps([case.settings(stage), case.point_files(stage), case.waveform_files(stage), levels])
