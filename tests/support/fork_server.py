# SPDX-License-Identifier: Apache-2.0
"""Programs that import once what takes longest, and then run what they are asked to in forks of themselves."""

import atexit
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

SHARED = "HEMO_FORK_SERVERS"
"""Variable of the environment that has the places of programs which all workers of a run of tests share."""

Kind = tuple[str, tuple[tuple[str, str], ...]]
"""Of a program: its file in this folder, and variables of the environment that it has beside those of this process."""


class ForkServer:
    """A program of this folder, until this process ends. It imports what takes longest when it is first asked."""

    def __init__(self, kind: Kind) -> None:
        name, environment = kind
        self._owner, folder = os.getpid(), Path(tempfile.mkdtemp(prefix="forks-"))
        self.place = str(folder / "socket")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.place)
            listener.listen()
            file = listener.fileno()
            self._server = subprocess.Popen(
                [sys.executable, Path(__file__).with_name(name), str(file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                env=os.environ | dict(environment),
                pass_fds=[file],
            )
        atexit.register(self._close)

    def _close(self) -> None:
        if os.getpid() == self._owner:  # not of a fork of this process that comes to its end
            self._server.communicate()  # ends what it reads, and so the program
            shutil.rmtree(Path(self.place).parent)


def share(*kinds: Kind) -> None:
    """Start programs that the workers which this process starts will share: each would take the seconds of their
    imports by itself.
    """
    os.environ[SHARED] = json.dumps({json.dumps(kind): ForkServer(kind).place for kind in kinds})


@cache
def _place(kind: Kind) -> str:
    shared = json.loads(os.environ.get(SHARED, "{}"))
    return shared.get(json.dumps(kind)) or ForkServer(kind).place


def run_in_fork(
    kind: Kind, timeout: float, environment: dict[str, str], **asked: Any
) -> subprocess.CompletedProcess[str]:
    """What a fork of a program prints and ends with.

    Parameters
    ----------
    kind : of the program.
    timeout : seconds until the fork is killed, with what it started.
    environment : what it has beside that of this process and of the program.
    asked : what it shall run, as that program says.

    Raises
    ------
    subprocess.TimeoutExpired
        If it was killed.
    """
    asked |= {"environment": os.environ | dict(kind[1]) | environment}
    with (
        tempfile.NamedTemporaryFile("r") as out,
        tempfile.NamedTemporaryFile("r") as err,
        socket.socket(socket.AF_UNIX) as server,
    ):
        server.connect(_place(kind))
        server.sendall(json.dumps(asked | {"out": out.name, "err": err.name}).encode() + b"\n")
        answers = server.makefile()
        group = int(answers.readline())
        server.settimeout(timeout)
        try:
            status = int(answers.readline())
        except TimeoutError:
            os.killpg(group, signal.SIGKILL)
            raise subprocess.TimeoutExpired(kind[0], timeout, out.read(), err.read()) from None
        return subprocess.CompletedProcess(kind[0], status, out.read(), err.read())
