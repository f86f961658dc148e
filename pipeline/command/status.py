# SPDX-License-Identifier: Apache-2.0
"""Status: how far cases have come, by the records and logs of their stages, and where their reports are."""

import webbrowser
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.case.case_file import Case, read_cohort
from pipeline.case.settings.base import shipped
from pipeline.case.settings.yaml_file import read_yaml
from pipeline.case.stages import LEVELS, ON_EVERY_LATTICE, stages_of
from pipeline.command.cases import CONFIG, FOLDER, configuration, name_of
from pipeline.command.run import report_of
from pipeline.workflow.outcome import choices, reason
from pipeline.workflow.recovery import RESULTS, at_work
from pipeline.workflow.sharing import owners
from solver.runtime.errors import StageError


@dataclass(frozen=True)
class Stage:
    """How far a stage of a run has come.

    Attributes
    ----------
    name : with the folder of its lattice where this is not the case's own.
    state : ``done``, ``failed``, ``running``, ``stopped`` or ``waiting``.
    note : of one that failed its reason, of one that runs the last line of its log.
    log : where more is told.
    """

    name: str
    state: str
    note: str
    log: Path


def status(cases: list[str]) -> int:
    """Print how far cases have come; the exit status.

    Raises
    ------
    StageError
        If there is no such case, or one is not valid.
    """
    runs = read_cohort(read_yaml(shipped(CONFIG)) | configuration(cases or _begun()))
    owned, busy = owners(runs), at_work()
    for run, case in runs.items():
        print("\n".join(lines_of(run, list(stages(run, case, owned, busy)))))
    if (page := RESULTS / "cohort.html").exists():
        print(f"all cases: {page}")
    return 0


def _begun() -> list[str]:
    """Where no configuration chooses cases: those that have a file here, and those that have run here."""
    if CONFIG.exists():
        return []
    ran = {path.parent.name.partition("@")[0] for path in RESULTS.glob("*/logs")}
    have = {path.stem for path in FOLDER.glob("*.yaml")}
    return sorted(have | {name for name in ran if shipped(FOLDER / f"{name}.yaml").exists()})


def stages(run: str, case: Case, owned: dict[tuple[str, str], str], busy: bool) -> Iterator[Stage]:
    """How far the stages of a run have come, in their order.

    Parameters
    ----------
    run, case : its name, and what runs.
    owned : which run computes a stage for this one, of :func:`pipeline.workflow.sharing.owners`.
    busy : whether a workflow is at work.
    """
    made = stages_of(case, owned.get(("load", run)) == run)
    for stage in [*made, "crate"]:
        for level in LEVELS[: case.convergence.spacings if stage in ON_EVERY_LATTICE else 1]:
            name = f"{stage} ({level.rstrip('/')})" if level else stage
            record = RESULTS / run / level / f"{stage}.provenance.json"
            log = RESULTS / owned.get((stage, run), run) / level / "logs" / f"{stage}.log"
            yield Stage(name, *_state(record, log, busy), log)


def _state(record: Path, log: Path, busy: bool) -> tuple[str, str]:
    """State and note of a stage by its record, which appears with its outputs, and its log."""
    if record.exists():
        return "done", ""
    if not log.exists():
        return "waiting", ""
    if said := reason(log):
        return "failed", said
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return ("running", lines[-1] if lines else "") if busy else ("stopped", "")


def lines_of(run: str, found: list[Stage]) -> Iterator[str]:
    """Lines about a run."""
    done = [stage.name for stage in found if stage.state == "done"]
    which = f": {', '.join(done)}" if 0 < len(done) < len(found) else ""
    yield f"{run}: {len(done)} of {len(found)} stages done{which}"
    for stage in found:
        if stage.state == "failed":
            yield f"  {stage.name} failed: {stage.note}"
            yield f"    log: {stage.log}; when it is corrected: hemolattice run {run.partition('@')[0]}"
        elif stage.state == "running":
            yield f"  {stage.name} is running: {stage.note}"
        elif stage.state == "stopped":
            yield f"  {stage.name} was stopped; it goes on by: hemolattice run {run.partition('@')[0]}"
        if stage.state in ("running", "stopped"):
            yield from (f"    {line}" for line in choices(stage.log))
    if waiting := [stage.name for stage in found if stage.state == "waiting"]:
        yield f"  waiting: {', '.join(waiting)}"
    if (report := report_of(run)).exists():
        yield f"  report: {report}"


def open_page(case: str | None) -> int:
    """Show the report of a case, or the page of all cases, in a browser, and print where it is; the exit status.

    Raises
    ------
    StageError
        If there is none; the message names the cases that have one.
    """
    page = report_of(case) if case else RESULTS / "cohort.html"
    if not page.exists():
        known = sorted(path.parent.name for path in RESULTS.glob("*/report.html"))
        have = f"; these cases have one: {', '.join(known)}" if known else ""
        raise StageError(f"{page}: no such page yet{have}; `hemolattice run {name_of(case) if case else ''}` makes it")
    print(page.absolute())
    webbrowser.open(page.absolute().as_uri())
    return 0
