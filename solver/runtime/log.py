# SPDX-License-Identifier: Apache-2.0
"""The log of a stage, in the terminal and in a file."""

import logging
import sys
from pathlib import Path


def open_log(stage: str) -> logging.Logger:
    """Logger of a stage, whose lines go to the terminal."""
    log = logging.getLogger(stage)
    log.setLevel(logging.INFO)
    log.propagate = False
    _add(log, logging.StreamHandler(sys.stderr))
    return log


def keep_log(log: logging.Logger, path: Path) -> None:
    """Let the lines go to a file, too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _add(log, _LogFile(path, mode="w"))


def _add(log: logging.Logger, handler: logging.Handler) -> None:
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
    log.addHandler(handler)


class _LogFile(logging.FileHandler):
    """A log file that may lack lines which a full disk does not take: the terminal has them."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Say nothing of it here."""
