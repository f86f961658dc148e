# SPDX-License-Identifier: Apache-2.0
"""Run: the workflow of cases, or a page of one."""

from pathlib import Path

from pipeline.command.cases import FOLDER, configuration, name_of
from pipeline.command.launch import launch, snakemake
from pipeline.workflow.recovery import RESULTS
from solver.runtime.errors import StageError


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
    return launch(snakemake(options, configuration(cases)))


def pick(case: str) -> int:
    """Make the page to complete a case file on; the exit status.

    Raises
    ------
    StageError
        If there is no such case.
    """
    page = RESULTS / name_of(case) / "pick.html"
    if status := launch(snakemake([], configuration([case]), [str(page)])):
        return status
    print(f"Open {page.absolute().as_uri()} in a browser; then put the case file that it gives you in place of yours.")
    return 0


def report_of(case: str) -> Path:
    """Where the report of a case lies."""
    return RESULTS / name_of(case) / "report.html"
