# SPDX-License-Identifier: Apache-2.0
"""Runs of Snakemake without its imports, which are more than half of the second and a half that a plan takes."""

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

SERVER = Path(__file__).with_name("workflow_server.py")


def run_workflow(
    folder: Path, *options: str, timeout: float = 600, **environment: str
) -> subprocess.CompletedProcess[str]:
    """What ``python -m snakemake <options>`` in a folder prints and ends with.

    In a process of its own, which is a fork of one that has imported Snakemake. That a start from nothing does the same
    is shown where tests kill what they started, in test_recovery.py and test_cohort_workflow.py.
    """
    server = _server()
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
        asked = {"folder": str(folder), "options": options, "environment": os.environ | environment}
        print(json.dumps(asked | {"out": out.name, "err": err.name}), file=server.stdin, flush=True)
        if not select.select([server.stdout], [], [], timeout)[0]:
            os.killpg(server.pid, signal.SIGKILL)
            _server.cache_clear()
            raise subprocess.TimeoutExpired(["snakemake", *options], timeout, out.read(), err.read())
        status = int(server.stdout.readline())
        return subprocess.CompletedProcess(["snakemake", *options], status, out.read(), err.read())


@cache
def _server() -> subprocess.Popen[str]:
    """One for all tests of this process, until it ends."""
    pipe = subprocess.PIPE
    server = subprocess.Popen([sys.executable, SERVER], stdin=pipe, stdout=pipe, text=True, start_new_session=True)
    atexit.register(server.communicate)  # ends what it reads, and so the program
    return server
