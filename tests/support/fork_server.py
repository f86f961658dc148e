# SPDX-License-Identifier: Apache-2.0
"""Programs that import once what takes longest, and then run what they are asked to in forks of themselves."""

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


class ForkServer:
    """A program of this folder, for all tests of this process, until it ends.

    A line of its input is what to run, in JSON, with the environment and the files to write to; a line of its output is
    the exit status.
    """

    def __init__(self, name: str, **environment: str) -> None:
        command, pipe = [sys.executable, Path(__file__).with_name(name)], subprocess.PIPE
        self._environment = environment
        self._server = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, start_new_session=True, env=os.environ | environment
        )
        atexit.register(self._server.communicate)  # ends what it reads, and so the program

    def run(self, timeout: float, **asked: Any) -> subprocess.CompletedProcess[str]:
        """What a fork prints and ends with."""
        server = self._server
        with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
            asked = {"environment": os.environ | self._environment} | asked | {"out": out.name, "err": err.name}
            print(json.dumps(asked), file=server.stdin, flush=True)
            if not select.select([server.stdout], [], [], timeout)[0]:
                os.killpg(server.pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(server.args, timeout, out.read(), err.read())
            status = int(server.stdout.readline())
            return subprocess.CompletedProcess(server.args, status, out.read(), err.read())
