# SPDX-License-Identifier: Apache-2.0
"""Outcome: why a run was not finished, from the logs that its stages left."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ERROR = " error: "
"""What precedes the message of a stage that refused or failed (:func:`solver.runtime.command_line.run_stage`)."""

CHOICE = " choice: "
"""What precedes a line by which solve says, before a long run, how long it and a coarser lattice take
(:func:`solver.run.coarser.said`)."""


@dataclass(frozen=True)
class Outcome:
    """Why a run was not finished.

    Attributes
    ----------
    stage : that failed; empty if none of this run was begun.
    message : its first line.
    """

    stage: str
    message: str


def outcome(logs: Iterable[tuple[str, Path]], since_s: float) -> Outcome:
    """Why a run was not finished.

    Parameters
    ----------
    logs : stages that are not finished, in their order, each with its log.
    since_s : when the workflow began; what was logged before is of an earlier one.
    """
    for stage, log in logs:
        if log.is_file() and log.stat().st_mtime >= since_s:
            return Outcome(
                stage, reason(log) or f"ended without a message; the terminal's last lines and {log} tell more"
            )
    return Outcome("", "not begun or stopped with the workflow; run the workflow again")


def reason(log: Path) -> str | None:
    """First line of the message with which a stage refused or failed, by its log; none where it has not."""
    return next(iter(_behind(ERROR, log)), None)


def choices(log: Path) -> list[str]:
    """How long a long run takes, and what coarser lattices would make of it, by the log of its stage."""
    return _behind(CHOICE, log) if log.is_file() else []


def _behind(word: str, log: Path) -> list[str]:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line.partition(word)[2] for line in lines if word in line]
