# SPDX-License-Identifier: Apache-2.0
"""Plugin of Snakemake that hands on what happens in place of printing it: a line of JSON each, into the pipe whose
number the environment gives. :mod:`pipeline.command.launch` reads them. Snakemake finds it by its name.
"""

import json
import logging
import os

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

PIPE = "HEMOLATTICE_EVENTS"


class LogHandler(LogHandlerBase):
    """Handler of Snakemake's log."""

    def emit(self, record: logging.LogRecord) -> None:
        """Hand on beginnings, ends, failures and numbers of jobs, and errors of Snakemake itself."""
        found = _event(record)
        if found and PIPE in os.environ:
            os.write(int(os.environ[PIPE]), (json.dumps(found, default=str) + "\n").encode())

    @property
    def writes_to_stream(self) -> bool:
        """It takes the place of what Snakemake prints."""
        return True

    @property
    def writes_to_file(self) -> bool:
        """Snakemake's own file is written beside it."""
        return False

    @property
    def has_filter(self) -> bool:
        """What it hands on it chooses itself."""
        return True

    @property
    def has_formatter(self) -> bool:
        """It hands on no text but that of errors."""
        return True

    @property
    def needs_rulegraph(self) -> bool:
        """Which rule waits for which does not matter."""
        return False


def _event(record: logging.LogRecord) -> dict[str, object]:
    """What is handed on of a record; empty where nothing is."""
    given = vars(record)
    event = given.get("event")
    if event == LogEvent.JOB_INFO:
        return {
            "event": "begin",
            "job": given["jobid"],
            "rule": given["rule_name"],
            "case": dict(given["wildcards"]).get("case", ""),
            "level": dict(given["wildcards"]).get("level", dict(given["wildcards"]).get("number", "")),
            "log": next(iter(given["log"] or []), ""),
        }
    if event == LogEvent.JOB_FINISHED:
        return {"event": "end", "job": given["job_id"]}
    if event == LogEvent.PROGRESS:
        return {"event": "count", "done": given["done"], "total": given["total"]}
    if event == LogEvent.JOB_ERROR:
        return {"event": "fail", "job": given["jobid"]}
    if event in (None, LogEvent.ERROR) and record.levelno >= logging.ERROR:
        return {"event": "error", "text": str(record.msg)}
    return {}
