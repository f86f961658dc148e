# SPDX-License-Identifier: Apache-2.0
"""What programs of this folder do that :mod:`tests.support.fork_server` starts: fork for each who asks.

Its number is that of a socket's file, at which others ask; who started the program ends it by closing its input.
"""

import atexit
import json
import os
import select
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

LISTEN_S = 1.0
"""After which forks that have ended are looked for."""


def serve(prepare: Callable[[], None], run: Callable[[dict[str, Any]], None]) -> None:
    """Answer until the input ends.

    Parameters
    ----------
    prepare : imports what forks share, before the first.
    run : in a fork, what is asked for; what ends it goes up from here, as in a program that has just been started.
    """
    listener, prepared = socket.socket(fileno=int(sys.argv[1])), False
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [], LISTEN_S)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if sys.stdin in ready:
            return
        if listener in ready:
            asker, _ = listener.accept()
            if not prepared:
                prepare()
                prepared = True
            if not os.fork():
                listener.close()
                _answer(asker, run)
            asker.close()


def _answer(asker: socket.socket, run: Callable[[dict[str, Any]], None]) -> None:
    """Say which group of processes runs what is asked for, and how it ended; neither process returns."""
    asked = json.loads(asker.makefile("rb").readline())
    os.setpgid(0, 0)
    if not (child := os.fork()):
        asker.close()
        _become(asked)
        _run_to_its_end(run, asked)
    with suppress(BrokenPipeError):  # who asked may have ended
        asker.sendall(f"{os.getpid()}\n".encode())
        asker.sendall(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n".encode())
    os._exit(0)


def _run_to_its_end(run: Callable[[dict[str, Any]], None], asked: dict[str, Any]) -> None:
    """Run what is asked for and end as Python does, but for its objects, which stay: to take those of all libraries
    apart copies each page of memory that a fork shares, a third of what a plan of Snakemake takes. An error goes up.
    """
    status: object = None
    try:
        run(asked)
    except SystemExit as end:
        status = end.code
    if not isinstance(status, int | None):
        print(status, file=sys.stderr)
        status = 1
    try:
        threading._shutdown()  # waits for threads, which atexit does not
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # nobody reads it any more, or it is closed
                stream.flush()
    finally:
        os._exit(status or 0)


def _become(asked: dict[str, Any]) -> None:
    """Make of a forked process one that was started with the environment and files."""
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
