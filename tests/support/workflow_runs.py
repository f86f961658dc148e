# SPDX-License-Identifier: Apache-2.0
"""Runs of Snakemake without its imports, which are more than half of the second and a half that a plan takes."""

import subprocess
from pathlib import Path

from tests.support.fork_server import Kind, run_in_fork

WORKFLOWS: Kind = ("workflow_server.py", ())


def run_workflow(
    folder: Path, *options: str, timeout: float = 600, **environment: str
) -> subprocess.CompletedProcess[str]:
    """What ``python -m snakemake <options>`` in a folder prints and ends with.

    In a process of its own, which is a fork of one that has imported Snakemake. That a start from nothing does the same
    is shown where tests kill what they started, in test_recovery.py and test_cohort_workflow.py.
    """
    return run_in_fork(WORKFLOWS, timeout, environment, folder=str(folder), options=options)
