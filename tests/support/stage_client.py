# SPDX-License-Identifier: Apache-2.0
"""Program that stands for Python where a workflow starts a stage: ``stage_client.py SOCKET PYTHON OPTION...``.

It hands its files, environment and signals on to a process that :mod:`tests.support.stage_server` forks, and ends as
that does. What is no stage, and what the server refuses, it becomes itself, as Python from nothing.
"""

import array
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

ROOMS = ("pipeline", "solver", "validation")
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def ask(place: str, module: str, options: list[str], safe: bool) -> None:
    """Let the server run a module, and end as it does; return if it does not run it."""
    server = socket.socket(socket.AF_UNIX)
    server.connect(place)
    asked = {"module": module, "options": options, "safe": safe, "folder": str(Path.cwd()), "group": os.getpgrp()}
    server.sendmsg([b"!"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
    server.sendall(json.dumps(asked | {"environment": dict(os.environ)}).encode() + b"\n")
    answers = server.makefile()
    if not (child := int(answers.readline())):
        return
    for number in SIGNALS:
        signal.signal(number, lambda number, frame: os.kill(child, number))
    status = int(answers.readline())
    if status < 0:
        with suppress(OSError):  # of one that cannot be caught
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    place, python, *options = sys.argv[1:]
    words = options[1:] if options[:1] == ["-P"] else options
    if words[:1] == ["-m"] and words[1].split(".")[0] in ROOMS:
        ask(place, words[1], words[2:], len(words) < len(options))
    os.execv(python, [python, *options])
