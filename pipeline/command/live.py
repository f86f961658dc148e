# SPDX-License-Identifier: Apache-2.0
"""Live line: the last line of a terminal while stages run, with a bar, the rate and the time left.

All of it comes from the logs of the stages, which say how far they are (:mod:`solver.runtime.progress`) or, as solve
does, how long they still take.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from solver.runtime.progress import in_time_units

PERCENT = re.compile(r"\((\d+) %\)")
RATE = re.compile(r"\d[\d.]*(?:e[+-]?\d+)? (?:[a-z][a-z ]{2,}/s|[A-Z]?LUPS)")
"""Of what a stage counts; speeds, as m/s, are none."""
LEFT = re.compile(r"((?:\d+ (?:h|min|s) )+)left")
SECONDS = {"h": 3600, "min": 60, "s": 1}
WIDEST, NARROWEST = 30, 8
"""Of a bar, characters."""
SIGNS = {True: ("\N{BOX DRAWINGS HEAVY HORIZONTAL}", "\N{BOX DRAWINGS LIGHT HORIZONTAL}"), False: ("#", ".")}
"""Of what is done and what is left of a bar, whether or not the terminal has signs beyond ASCII."""


@dataclass(frozen=True)
class Running:
    """A stage that runs.

    Attributes
    ----------
    name : case and stage.
    for_s : since when.
    said : last line of its log; may be empty.
    """

    name: str
    for_s: float
    said: str

    @property
    def left(self) -> str:
        """Time left, as its log has it; empty where it says none."""
        found = LEFT.search(self.said)
        return found[1].strip() if found else ""

    @property
    def part(self) -> float | None:
        """How much is done, from 0 to 1: by count, or else by time; none where nothing says so."""
        if counted := PERCENT.search(self.said):
            return min(int(counted[1]) / 100, 1.0)
        if not self.left:
            return None
        left_s = in_seconds(self.left)
        return self.for_s / (self.for_s + left_s) if self.for_s + left_s else 1.0


def in_seconds(words: str) -> int:
    """Of a time as :func:`solver.runtime.progress.in_time_units` writes it."""
    parts = words.split()
    return sum(int(count) * SECONDS[unit] for count, unit in zip(parts[::2], parts[1::2], strict=True))


def live_line(running: Sequence[Running], counted: str, width: int, ascii_only: bool) -> str:
    """The line, no longer than that: a bar for one stage, figures alone for several.

    Parameters
    ----------
    running : stages.
    counted : how many stages are done; stands first, may be empty.
    width : of the terminal, characters.
    ascii_only : whether it has no other signs.
    """
    head = f"{counted} " if counted else ""
    if len(running) == 1:
        return (head + _one(running[0], width - len(head), ascii_only))[:width]
    return (head + "; ".join(_short(each) for each in running))[:width]


def _one(stage: Running, width: int, ascii_only: bool) -> str:
    part, rate = stage.part, RATE.search(stage.said)
    if part is None or part >= 1:  # what comes after the last of a count is not known
        return f"{stage.name} {': '.join(filter(None, (in_time_units(stage.for_s), stage.said)))}"
    figures = [f"{100 * part:.0f} %", rate[0] if rate else "", f"{stage.left} left" if stage.left else ""]
    behind = "  ".join(filter(None, figures))
    room = min(width - len(stage.name) - len(behind) - 2, WIDEST)
    if room < NARROWEST:
        return f"{stage.name} {behind}"
    done, left = SIGNS[not ascii_only]
    filled = round(part * room)
    return f"{stage.name} {done * filled}{left * (room - filled)} {behind}"


def _short(stage: Running) -> str:
    part = stage.part
    if part is None or part >= 1:
        return f"{stage.name} {in_time_units(stage.for_s)}"
    return f"{stage.name} {100 * part:.0f} %" + (f", {stage.left} left" if stage.left else "")
