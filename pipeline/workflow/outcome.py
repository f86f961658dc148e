# SPDX-License-Identifier: Apache-2.0
"""Outcome: why a run was not finished, from the logs that its stages left."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ERROR = " error: "
"""What precedes the message of a stage that refused or failed (:func:`solver.runtime.command_line.run_stage`)."""


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
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line.partition(ERROR)[2] for line in lines if ERROR in line), None)
