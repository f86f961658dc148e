# SPDX-License-Identifier: Apache-2.0
"""Run: the workflow of cases, or a page of one."""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from pipeline.case.case_file import read_cohort
from pipeline.case.settings.base import shipped
from pipeline.case.settings.yaml_file import read_yaml
from pipeline.case.stages import ENTERED
from pipeline.command.cases import CONFIG, FOLDER, configuration, name_of
from pipeline.command.events import Events, why
from pipeline.command.launch import launch, launch_quietly, snakemake
from pipeline.workflow.recovery import RESULTS, STATE
from solver.runtime.errors import StageError

VERBOSE = "--verbose"
"""Of the command: what Snakemake and its stages print."""
SHOWING = (
    *("-n", "--dry-run", "--dryrun", "--dag", "--rulegraph", "--filegraph", "--d3dag", "--summary", "-S", "-D"),
    *("--detailed-summary", "--lint", "-l", "--list", "--list-rules", "--list-target-rules", "--lt", "--list-changes"),
    *("--lc", "--list-input-changes", "--li", "--list-params-changes", "--lp", "--list-untracked", "--lu", "--archive"),
    *("--unlock", "--report", "--touch", "-t", "--logger", "-q", "--quiet", "--version", "-v", "--debug-dag", "-p"),
    *("--printshellcmds", "--containerize", "--export-cwl", "--delete-all-output", "--delete-temp-output"),
    *("--print-compilation", "--cleanup-metadata", "--cm", "--cleanup-shadow", "--generate-unit-tests", "-d"),
    "--directory",
)
"""Options by which Snakemake shows something in place of running it, shows it in another way, or runs elsewhere."""
MISTAKE = ": error: "
"""Stands before what Snakemake says of wrong options, behind the list of all."""
LOCKED = "LockException"
"""Begins what Snakemake says where another one holds the folder."""
LAST_LINES = 20
"""Of what was printed by a run that failed before any of its stages began."""


def run(cases: list[str], options: list[str]) -> int:
    """Run cases with options of Snakemake; its exit status.

    Raises
    ------
    StageError
        If a case is given that does not exist, or stands behind the options.
    """
    behind = [word for word in options if not word.startswith("-") and (FOLDER / f"{word}.yaml").exists()]
    if not cases and behind:
        raise StageError(f"{behind[0]}: a case stands before the options: hemolattice run {behind[0]} {options[0]} ...")
    given = [option for option in options if option != VERBOSE]
    command = snakemake(given, configuration(cases))
    if VERBOSE in options or any(option.partition("=")[0] in SHOWING for option in given):
        return launch(command)
    status, done = _watched(command)
    if status == 0:
        named = [path for word in cases for path in RESULTS.glob(f"{name_of(word)}@*")]
        runs = dict.fromkeys([*done, *map(name_of, cases), *(path.name for path in named)])
        for case in runs:
            print("\n".join(closing(RESULTS / case)), end="")
        if (page := RESULTS / "cohort.html").exists():
            print(f"All cases: {page}")
    return status


def pick(case: str) -> int:
    """Make the page to complete a case file on; the exit status.

    Raises
    ------
    StageError
        If there is no such case, or it has no images.
    """
    page, chosen = RESULTS / name_of(case) / "pick.html", configuration([case])
    entry = read_cohort(read_yaml(shipped(CONFIG)) | chosen | {"scenarios": {}})[name_of(case)].input.entry
    if "load" not in ENTERED[entry]:
        raise StageError(f"{case}: enters with a {entry}, and the page is for images; hemolattice run {case}")
    status, _ = _watched(snakemake([], chosen, [str(page)]))
    if status == 0:
        print(
            f"Open {page.absolute().as_uri()} in a browser; then put the case file that it gives you in place of yours."
        )
    return status


def report_of(case: str) -> Path:
    """Where the report of a case lies."""
    return RESULTS / name_of(case) / "report.html"


def _watched(command: list[str]) -> tuple[int, list[str]]:
    """Exit status of a run, which says in a line each what it does, and the cases that it worked on; where it fails,
    its reason and what to do next are its last lines.
    """
    terminal = STATE / "log" / f"{time.strftime('%Y-%m-%dT%H%M%S')}.terminal.log"
    events = Events(sys.stdout, sys.stdout.isatty() and os.environ.get("TERM") != "dumb")
    status = launch_quietly(command, events, terminal)
    if status == 0:
        return status, events.cases
    if events.failed:
        last = why(events.failed, terminal)
    else:
        printed = terminal.read_text(encoding="utf-8", errors="replace").splitlines()
        last = before_any_stage([*printed, *events.errors], status)
    print("\n".join(last), file=sys.stderr)
    return status, []


def before_any_stage(printed: list[str], status: int) -> list[str]:
    """What is said of a run that failed before any of its stages began.

    Parameters
    ----------
    printed : lines of Snakemake.
    status : its exit status.
    """
    said = [line for line in printed if line.strip()]
    if any(line.startswith(LOCKED) for line in said):
        return [
            "another run is at work in this folder, and both would write there. Wait until it has ended, or give all"
            " cases to one command, as `hemolattice run CASE OTHER`. If none is at work, as after a power cut, give"
            " this command once with --unlock behind it, and then again without"
        ]
    mistake = [line.partition(MISTAKE)[2] for line in said if MISTAKE in line] if status == 2 else []
    return mistake or said[-LAST_LINES:] or ["stopped; the same command goes on"]


def closing(folder: Path) -> Iterator[str]:
    """Lines about a case whose run has ended well, each with its end.

    Parameters
    ----------
    folder : of its results.
    """
    if not (folder / "report.html").exists():
        return
    yield f"{folder.name}: report {folder / 'report.html'}"
    fields = [name for name in ("flow.vtkhdf", "wall.vtp", "tree.vtkhdf") if (folder / name).exists()]
    yield f"  fields {', '.join(str(folder / name) for name in fields)}"
    numbers = next((folder / name for name in ("indices.json", "tree.json") if (folder / name).exists()), None)
    if numbers:
        yield f"  checks {said_of_checks(json.loads(numbers.read_text(encoding='utf-8'))['checks'])}"
    yield ""


def said_of_checks(checks: list[dict[str, object]]) -> str:
    """How many checks passed, and which did not.

    Parameters
    ----------
    checks : as they stand in ``indices.json``.
    """
    failed = [check for check in checks if not check["passed"]]
    said = f"{len(checks) - len(failed)} of {len(checks)} passed"
    unusable = [str(check["name"]) for check in failed if check.get("state") == "unusable"]
    others = [str(check["name"]) for check in failed if check.get("state") != "unusable"]
    parts = [said, *([f"not usable: {', '.join(unusable)}"] if unusable else [])]
    return "; ".join([*parts, *([f"with reservations: {', '.join(others)}"] if others else [])])
