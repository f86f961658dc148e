# SPDX-License-Identifier: Apache-2.0
"""A study: the runs of a published work -> what was measured on them, beside what was to be reached.

Goals that are not reached are no failure here: the record says so, and the page that is made of it
(`validation.summary`).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.case.settings.base import parse
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job
from validation.evidence import Evidence, made
from validation.record_pages import SOLVING, result_of
from validation.studies.run import Run
from validation.studies.study_file import StudyInput


def study(settings: StudyInput, runs: Mapping[str, Run]) -> Evidence:
    """What the study's measure finds on its runs, by name.

    Raises
    ------
    StageError
        If the options are none of the measure's, or it asks for nothing to be reached.
    """
    evidence = Evidence(settings.name, settings.title, settings.work)
    module, options = settings.measured(f"study {settings.name}")
    module.measure(evidence, runs, options)
    if not evidence.goals:
        raise StageError(f"study {settings.name}: {settings.measure} asked for nothing to be reached on its runs")
    return evidence


def _made(runs: Mapping[str, Run]) -> dict[str, Any]:
    """How the runs were made, with the time that the solver took for all of them."""
    devices = sorted({run.summary["device"] for run in runs.values()})
    seconds = sum(float(run.summary["seconds"]) for run in runs.values())
    return made() | {"seconds": round(seconds, 1), "clock": SOLVING + ", ".join(devices)}


def _runs(settings: StudyInput, flows: list[Path]) -> dict[str, Run]:
    """The runs by name, from their flow files in the order of their set."""
    names, cases = settings.sets[settings.runs_of], settings.cases(f"study {settings.name}")
    if [f"{settings.name}.{run}" for run in names] != [flow.parent.name for flow in flows]:
        raise StageError(f"--flow: folders {', '.join(f.parent.name for f in flows)}; the runs are {', '.join(names)}")
    return {name: Run(name, cases[name], flow.parent) for name, flow in zip(names, flows, strict=True)}


def _compute(job: Job) -> None:
    settings = parse(StudyInput, job.settings, "--settings")
    if settings.runs_of not in settings.sets:
        raise StageError(f"study {settings.name}: no set {settings.runs_of}; known: {', '.join(settings.sets)}")
    runs = _runs(settings, job.lists["flow"])
    evidence = study(settings, runs)
    job.outputs["figures"].mkdir()
    evidence.keep(
        job.outputs["record"],
        job.outputs["figures"] / settings.name,
        "studies",
        question=settings.question,
        runs_of=settings.runs_of,
        warnings=[f"{name}: {text}" for name, run in runs.items() for text in run.summary["warnings"]],
        made=_made(runs),
    )
    for goal in evidence.goals:
        job.log.info("%s: %s", goal.what, goal.fault or result_of(goal).replace("*", ""))


if __name__ == "__main__":
    run_stage(
        "study",
        __doc__,
        inputs={
            "nodes": "node arrays of each run (nodes.h5), in the order of the set",
            "flow": "flow of each run (flow.vtkhdf), in the same order",
            "monitor": "monitor of each run (monitor.csv)",
            "summary": "summary of each run (solve.json)",
        },
        outputs={"record": "what was measured (JSON)", "figures": "folder of the pictures"},
        compute=_compute,
        several=("nodes", "flow", "monitor", "summary"),
    )
