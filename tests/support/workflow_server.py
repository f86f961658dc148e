# SPDX-License-Identifier: Apache-2.0
"""Program that imports Snakemake once and runs it as often as it is asked to, each time in a process of its own; its
stages are forks, too, as :mod:`tests.support.stage_server` has them.

A line of its input is what to run, in JSON; a line of its output is the exit status. It imports nothing of the project,
whose copies differ from test to test: a run finds what it needs in its own folder, as with ``python -m snakemake``.
"""

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import garbage
import snakemake.cli
import stage_server  # like garbage, from the folder of this program
from snakemake.workflow import Workflow

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


def become(asked: dict[str, Any], python: str) -> None:
    """Make of a forked process one that was started in the folder, with the environment, files and options, and whose
    stages are started by what stands for Python.
    """
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    for number, name, mode in (
        (0, os.devnull, os.O_RDONLY),
        (1, asked["out"], os.O_RDWR),
        (2, asked["err"], os.O_RDWR),
    ):
        file = os.open(name, mode)
        os.dup2(file, number)
        os.close(file)
    sys.path[0] = Workflow._rundir = asked["folder"]  # which it asks for on import
    sys.executable = python
    sys.argv = [str(Path(snakemake.__file__).with_name("__main__.py")), *asked["options"]]


if __name__ == "__main__":
    for library in LATER:
        importlib.import_module(library)
    garbage.freeze()  # what a run would look through and so copy
    python = stage_server.begin()
    for line in sys.stdin:
        if not (child := os.fork()):
            become(json.loads(line), python)
            snakemake.cli.main()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
