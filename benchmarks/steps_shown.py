# SPDX-License-Identifier: Apache-2.0
"""What a run tells of the steps left, beside those that it then takes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

from solver.run import run_state, time_left

PARTS = (0.2, 0.5)
"""Of the steps, after which what was told is looked at."""
CLOSE = (0.7, 1.3)
"""Told over needed that counts as right."""
ON_THE_WAY = (0.1, 0.9)
"""Parts of the steps between which the least that was told counts."""


class Shown:
    """Steps left as told after each row of a run; of one that begins with another run, its own.

    Attributes
    ----------
    after : step, words, and steps left.
    """

    def __init__(self, steps_left: Callable[..., tuple[str, float]]) -> None:
        self.after: list[tuple[int, str, float]] = []
        self._rows: Any = None
        self._steps_left = steps_left

    def __call__(self, step: int, rows: Any, *of_run: Any) -> tuple[str, float]:
        words, left = self._steps_left(step, rows, *of_run)
        if rows is not self._rows:  # another run: that of the fine lattice comes last
            self._rows, self.after = rows, []
        self.after.append((step, words, left))
        return words, left

    def beside(self, end: int) -> dict[str, Any]:
        """Told and needed after each of `PARTS` of the steps, and the least of told over needed on the way."""
        found: dict[str, Any] = {}
        for part in PARTS:
            step, words, left = next(each for each in self.after if each[0] >= part * end)
            found[f"at {part:g}"] = {"words": words, "told": round(left), "needed": end - step}
        least, most = (part * end for part in ON_THE_WAY)
        found["least"] = min((left / (end - step) for step, _, left in self.after if least < step < most), default=1.0)
        return found


@contextmanager
def shown() -> Iterator[Shown]:
    """What a run tells after each row, in place of what it logs every some seconds."""
    recorder = Shown(time_left.steps_left)
    every_row = mock.patch.object(run_state, "LOG_EVERY_S", 0.0)
    with mock.patch.object(time_left, "steps_left", recorder), every_row:
        yield recorder


def close(found: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Flows of which what was told after each of `PARTS` of the steps was right."""
    ratios = {f"at {part:g}": [each[f"at {part:g}"] for each in found] for part in PARTS}
    return {
        name: sum(CLOSE[0] <= each["told"] / max(each["needed"], 1) <= CLOSE[1] for each in at_part)
        for name, at_part in ratios.items()
    }
