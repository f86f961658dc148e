# SPDX-License-Identifier: Apache-2.0
"""Events: what happens in a run, as lines for a terminal or a file.

A stage has a line when it ends, and where there is no live line, one while it runs if that takes long. The live line of
a terminal shows what runs with a bar, the rate and the time left (:mod:`live`). What a long run says of its time and of
coarser lattices has lines of its own.
"""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from pipeline.command.live import SIGNS, Running, live_line
from pipeline.workflow.outcome import choices, reason
from solver.runtime.progress import in_time_units

LONG_S = 60.0
"""A stage that takes longer says once that it runs, where there is no live line."""
PLANNED_S = 1200.0
"""By then a stage has said in its log how long it takes, if it does."""
SILENT = ("all", "validation")
"""Rules that only gather what others make."""
MANY = ("member ", "link_")
"""How jobs are called of which a case has many, or that only take what another scenario has made; each has a line only
where it fails."""
CLEAR = "\r\x1b[K"
"""Clears the line of a terminal."""


@dataclass
class Job:
    """A job that runs or ran.

    Attributes
    ----------
    name : stage, with the folder of its lattice where that is not the case's own, or its number of many.
    case : that it is of; empty for what is made of all.
    log : that its stage writes.
    began_s : when it began, by the clock of :class:`Events`.
    """

    name: str
    case: str
    log: str
    began_s: float
    said: bool = False
    chose: bool = False


@dataclass
class Events:
    """Lines of a run.

    Parameters
    ----------
    out : where the lines go.
    is_live : whether that is a terminal that shows a live line.
    clock : seconds.

    Attributes
    ----------
    cases : whose jobs ended well, in order.
    failed : jobs that failed and were not repeated, in order.
    errors : what Snakemake itself says of errors.
    """

    out: TextIO
    is_live: bool
    clock: Callable[[], float] = time.monotonic
    cases: list[str] = field(default_factory=list)
    failed: list[Job] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    _running: dict[int, Job] = field(default_factory=dict)
    _counted: str = ""

    def take(self, event: dict[str, Any]) -> None:
        """Take in one event of the plugin."""
        kind = event["event"]
        if kind == "begin":
            level = event["level"].rstrip("/")
            name = event["rule"] + (f" ({level})" if level else "")
            self._running[event["job"]] = Job(name, event["case"], event["log"], self.clock())
            self.failed = [job for job in self.failed if (job.name, job.case) != (name, event["case"])]
        elif kind == "error":
            self.errors.append(event["text"])
        elif kind == "count":
            self._counted = f"{event['done']}/{event['total']}"
        elif job := self._running.pop(event["job"], None):
            self._ended(job, failed=kind == "fail")
        self.tick()

    def _ended(self, job: Job, failed: bool) -> None:
        if failed:
            self.failed.append(job)
        if job.name not in SILENT and (failed or not job.name.startswith(MANY)):
            took = in_time_units(self.clock() - job.began_s)
            self._print(_columns(job, f"failed after {took}" if failed else took))
            if job.case and not failed and job.case not in self.cases:
                self.cases.append(job.case)

    def tick(self) -> None:
        """Say what runs, where that is due."""
        now = self.clock()
        for job in self._running.values():
            if not (self.is_live or job.said or job.name.startswith(MANY)) and now - job.began_s > LONG_S:
                job.said = True
                self._print(self._line(job, now))
            if not job.chose and LONG_S < now - job.began_s < PLANNED_S and (found := choices(Path(job.log))):
                job.chose = True
                for line in found:
                    self._print(_columns(job, line))
        if self.is_live:
            running = [
                Running(f"{job.case or 'all cases'} {job.name}", now - job.began_s, last_line(Path(job.log)))
                for job in self._running.values()
                if job.name not in SILENT
            ]
            width = shutil.get_terminal_size().columns - 1
            line = live_line(running, self._counted, width, not _shows(self.out, "".join(SIGNS[True])))
            self.out.write(CLEAR + (line if running else ""))
            self.out.flush()

    def _line(self, job: Job, now: float) -> str:
        parts = [f"running for {in_time_units(now - job.began_s)}", last_line(Path(job.log))]
        return _columns(job, ": ".join(part for part in parts if part))

    def finish(self) -> None:
        """Clear the live line."""
        if self.is_live:
            self.out.write(CLEAR)
            self.out.flush()

    def _print(self, line: str) -> None:
        self.finish()
        print(line, file=self.out, flush=True)


def _shows(out: TextIO, signs: str) -> bool:
    """Whether a terminal has signs."""
    try:
        signs.encode(out.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _columns(job: Job, text: str) -> str:
    return f"{job.case or 'all cases':<16} {job.name:<14} {text}"


def last_line(log: Path) -> str:
    """The last line of a stage's log without time and name; empty where there is none."""
    if not log.is_file():
        return ""
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if ": " in line]
    return lines[-1].partition(": ")[2] if lines else ""


def why(failed: list[Job], terminal: Path) -> list[str]:
    """Reasons of failed jobs and what to do next, the last lines of a run that failed.

    Parameters
    ----------
    failed : jobs.
    terminal : file with what the stages would have printed.
    """
    found = []
    for job in failed:
        said = reason(Path(job.log)) if job.log and Path(job.log).is_file() else None
        found.append(
            f"{job.case or 'all cases'}: {job.name}: {said or f'ended without a message; {terminal} tells more'}"
        )
    again = " ".join(dict.fromkeys(job.case.partition("@")[0] for job in failed if job.case))
    logs = " ".join(dict.fromkeys(job.log for job in failed if job.log))
    next_step = f"Next: do what it says, then hemolattice run {again}".rstrip()
    return [*found, f"{next_step}; what is done is kept (more in {logs})"]
