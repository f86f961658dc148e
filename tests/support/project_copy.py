# SPDX-License-Identifier: Apache-2.0
"""A copy of the project, in which the workflow may run without touching what is here."""

import shutil
from pathlib import Path

from solver.runtime.sources import ROOMS, ROOT

COMPILED = "__pycache__"


def copy_project(to: Path) -> Path:
    """Copy what the workflow needs, without results, into a folder, which is made where there is none.

    Compiled loops are kept in one place, here: a minute of each workflow would else be their compilation. They are
    found by the time and the size of their source, which a copy has in common with what it was copied from.
    """
    for folder in (*ROOMS, "config", "data"):
        shutil.copytree(ROOT / folder, to / folder, ignore=shutil.ignore_patterns("patients", COMPILED))
    for folder in ROOMS:
        for module in {path.parent for path in (ROOT / folder).rglob("*.py")}:
            (module / COMPILED).mkdir(exist_ok=True)
            (to / module.relative_to(ROOT) / COMPILED).symlink_to(module / COMPILED)
    shutil.copy(ROOT / "Snakefile", to)
    return to
