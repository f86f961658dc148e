# SPDX-License-Identifier: Apache-2.0
"""Unfinished: which runs of the cohort a failed workflow left, and the page of all cases that says so."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pipeline.case.beside import SECTIONS
from pipeline.case.stages import SHARED
from pipeline.workflow.outcome import outcome
from pipeline.workflow.programs import search_path
from pipeline.workflow.rules import Cases


class Unfinished:
    """Runs of the cohort that are not finished.

    Parameters
    ----------
    workflow : Snakemake's own, once its jobs are known.
    cases : of the workflow.
    since_s : when the workflow began; what was logged before is of an earlier one.

    Attributes
    ----------
    messages : stage and message of each run, of its own or of one whose stage it links to.
    """

    def __init__(self, workflow: Any, cases: Cases, since_s: float) -> None:
        self._cases = cases
        self.messages: dict[str, list[str]] = {}
        left = _jobs_left(workflow, cases)
        for run in left:
            found = outcome(self._logs(run, left), since_s)
            self.messages[run] = [found.stage, found.message]

    def _logs(self, run: str, left: Mapping[str, list[tuple[int, str, Path]]]) -> list[tuple[str, Path]]:
        """Stages that a run waits for, in their order, each with its log."""
        owners = dict.fromkeys(self._cases.owner(stage, run) for _, stage, _ in sorted(left[run]))
        return [
            (stage, log)
            for owner in owners
            for _, stage, log in sorted(left.get(owner, []))
            if owner == run or stage in ("phantom", *SHARED, *SECTIONS)
        ]

    def make_page(self, given: Mapping[str, Callable[[str], str]], made: Mapping[str, str], provenance: str) -> None:
        """The page of all cases without those that are not finished; the rule makes it again when they are.

        Parameters
        ----------
        given : by role, what gives the file of a run that the rule reads; empty where it has none.
        made : what it makes, by role.
        provenance : of the rule, which is taken away.
        """
        done = [run for run in self._cases.cohort if run not in self.messages]
        files = {role: [file for run in done if (file := path(run))] for role, path in given.items()}
        options = [each for role, paths in files.items() for each in (f"--{role}", *paths) if paths]
        outputs = [each for role, path in made.items() for each in (f"--{role}", path)]
        record = ["--provenance", "results/cohort.partial.provenance.json", "--log", "results/cohort.log"]
        settings = ["--settings", json.dumps({"unfinished": self.messages})]
        command = [sys.executable, "-P", "-m", "pipeline.stages.cohort", *options, *outputs, *settings, *record]
        subprocess.run(command, env=os.environ | {"PYTHONPATH": search_path()}, check=False)
        Path(provenance).unlink(missing_ok=True)


def _jobs_left(workflow: Any, cases: Cases) -> dict[str, list[tuple[int, str, Path]]]:
    """Jobs of each run of the cohort that were not done: the place of its stage, its name, and its log."""
    order = [rule.name for rule in workflow.rules]
    left: dict[str, list[tuple[int, str, Path]]] = {}
    for job in workflow.dag.needrun_jobs():
        run, stage = job.wildcards.get("case"), job.rule.name.removeprefix("link_")
        if run in cases.cohort and job.log and stage != "crate":  # without it the results are there all the same
            left.setdefault(run, []).append((order.index(stage), stage, Path(job.log[0])))
    return left
