# SPDX-License-Identifier: Apache-2.0
"""Program that imports Snakemake once and runs it as often as it is asked to, each time in a process of its own; its
stages are forks, too, as :mod:`tests.support.stage_server` has them.

It imports nothing of the project, whose copies differ from test to test: a run finds what it needs in its own folder,
as with ``python -m snakemake``.
"""

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import forking  # like garbage and stage_server, from the folder of this program
import garbage
import stage_server

LATER = (
    "docutils.core",
    "graphlib",
    "h5py",
    "jinja2",
    "numba",
    "PIL.Image",
    "platformdirs",
    "pydantic.main",
    "pygments.lexers",
    "requests",
    "scipy.interpolate",
    "smart_open",
    "yte",
)
"""Libraries that Snakemake and the rules import in each run, once it has read its options: a third of a plan's time."""


standing_for_python = ""
"""Path of what starts stages in place of Python, once it is there."""


def prepare() -> None:
    global standing_for_python
    for library in ("snakemake.cli", *LATER):
        importlib.import_module(library)
    sys.modules["snakemake.cli"].get_argument_parser()  # looks for plugins in all folders: a seventh of a plan
    garbage.freeze()  # what a run would look through and so copy
    standing_for_python = stage_server.begin()


def run(asked: dict[str, Any]) -> None:
    """As if it was started in the folder, with the options, and with what stands for Python to start stages by."""
    import snakemake.cli
    from snakemake.workflow import Workflow

    os.chdir(asked["folder"])
    sys.path[0] = Workflow._rundir = asked["folder"]  # which it asks for on import
    sys.executable = standing_for_python
    sys.argv = [str(Path(snakemake.__file__).with_name("__main__.py")), *asked["options"]]
    snakemake.cli.main()


if __name__ == "__main__":
    forking.serve(prepare, run)
