# SPDX-License-Identifier: Apache-2.0
"""Runs beside that of a case, of which it has many: members of its bands, and other flows for its reduced model."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from pipeline.case.case_file import Case
from pipeline.workflow.programs import Wildcards

InputFunction = Callable[[Wildcards], Any]


class Beside:
    """What the rules ask of these runs.

    Attributes
    ----------
    section : settings of a stage of a run, as JSON.
    """

    section: Callable[..., str]
    _all: Mapping[str, Case]

    def members(self, path: str) -> InputFunction:
        """The file of each member of a case, that without a change first."""
        return lambda wildcards: [
            path.format(case=wildcards.case, number=number)
            for number in range(self._all[wildcards.case].uncertainty.count + 1)
        ]

    def settings_of_member(self, wildcards: Wildcards) -> str:
        """What a member takes of the case, and its number, as JSON."""
        return json.dumps({"member": int(wildcards.number)} | json.loads(self.section(wildcards.case, "member")))

    def other_flows(self, path: str) -> InputFunction:
        """The file of each run at another flow."""
        return lambda wildcards: [
            path.format(case=wildcards.case, number=number)
            for number in range(len(self._all[wildcards.case].reduced.runs))
        ]

    def settings_of_other_flow(self, wildcards: Wildcards) -> str:
        """What a run at another flow takes of the case, and its flow, as JSON."""
        factor, division = self._all[wildcards.case].reduced.runs[int(wildcards.number)]
        return json.dumps(
            {"factor": factor, "division": division} | json.loads(self.section(wildcards.case, "other_flow"))
        )
