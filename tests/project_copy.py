"""A copy of the project, in which the workflow may run without touching what is here."""

import shutil
from pathlib import Path

from solver.stage import ROOT


def copy_project(to: Path) -> Path:
    """Copy what the workflow needs, without results, into a folder, which is made where there is none."""
    for folder in ("pipeline", "solver", "config", "data"):
        shutil.copytree(ROOT / folder, to / folder, ignore=shutil.ignore_patterns("patients"))
    shutil.copy(ROOT / "Snakefile", to)
    return to
