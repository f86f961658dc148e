# SPDX-License-Identifier: Apache-2.0
"""Command lines of the stages, run within the process of the tests: one of their own takes a second of imports."""

import contextlib
import io
import logging
import runpy
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import NoReturn
from unittest.mock import patch

from solver.runtime.interruption import STOP_SIGNALS


def run_here(module: str, *options: object) -> subprocess.CompletedProcess[str]:
    """What ``python -m <module> <options>`` writes, prints and ends with.

    The module is run again as the main program. What a library in C or C++ prints by itself is not caught, and an error
    that would end in a traceback comes out as itself.
    """
    command = [module, *map(str, options)]
    out, errors = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
        _as_before(),
        _quiet_again(),
        patch.object(sys, "argv", command),
        patch("solver.runtime.command_line.end_process", _exit),
    ):
        status = _status(module)
    return subprocess.CompletedProcess(command, status, out.getvalue(), errors.getvalue())


def _exit(refusal: str | None) -> NoReturn:
    """End a stage, but not this process."""
    sys.exit(0 if refusal is None else refusal or 1)


def _status(module: str) -> int:
    """Run a module as the main program; its exit status, as Python makes it of what is given to `sys.exit`."""
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return int(end.code or 0)
    return 0


@contextlib.contextmanager
def _as_before() -> Iterator[None]:
    """Take away the loggers' new handlers, which hold a stream and a file of this run, those of signals and the hook
    for those that are lost.
    """
    logs = [each for each in logging.root.manager.loggerDict.values() if isinstance(each, logging.Logger)]
    kept = {log: (log.handlers[:], log.level, log.propagate) for log in logs}
    signals = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    hook = sys.unraisablehook
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, handler in signals.items():
            signal.signal(number, handler)
        for log in logging.root.manager.loggerDict.values():
            if isinstance(log, logging.Logger):
                _restore(log, *kept.get(log, ([], logging.NOTSET, True)))


def _restore(log: logging.Logger, handlers: list[logging.Handler], level: int, propagate: bool) -> None:
    for handler in [each for each in log.handlers if each not in handlers]:
        log.removeHandler(handler)
        handler.close()
    log.setLevel(level)
    log.propagate = propagate


@contextlib.contextmanager
def _quiet_again() -> Iterator[None]:
    """Without the warning that the module, which is run again, has been imported."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*found in sys\.modules", RuntimeWarning)
        yield
