# SPDX-License-Identifier: Apache-2.0
"""Progress of long work."""

import logging
import time
from collections.abc import Mapping

NOTICED_S, NOTICED = 2.0, 0.05
"""Seconds, and part of the time left that was said last, by which more may be left without a reason."""


class Progress:
    """Progress, rate and time left as plain lines, the same in a terminal and in a log file.

    Parameters
    ----------
    log : where the lines go.
    total : how much there is to do.
    unit : of what, in the plural.
    every_s : least time between two lines.
    """

    def __init__(self, log: logging.Logger, total: int, unit: str, every_s: float = 5.0) -> None:
        self._log, self._total, self._unit, self._every_s = log, total, unit, every_s
        self._start = self._last = time.monotonic()
        self._before_s: float | None = None

    def update(self, done: int, note: str = "", left_s: float | None = None) -> None:
        """Say how far the work is, unless the last line is younger than `every_s` and work is left.

        Parameters
        ----------
        done : of the total.
        note : behind the line.
        left_s : where the work is not even, and time tells more of it than the count.
        """
        now = time.monotonic()
        if now - self._last < self._every_s and done < self._total:
            return
        self._last = now
        elapsed = max(now - self._start, 1e-9)
        by_count = (self._total - done) * elapsed / max(done, 1)
        share = f" ({100 * done / max(self._total, 1):.0f} %)" if left_s is None else ""
        parts = [
            f"{done} of {self._total} {self._unit}{share}",
            f"{done / elapsed:.3g} {self._unit}/s",
            self._left(by_count if left_s is None else left_s),
            note,
        ]
        self._log.info("%s", ", ".join(filter(None, parts)))

    def _left(self, left_s: float) -> str:
        why = ", more than before, since they take longer" if is_more(self._before_s, left_s) else ""
        self._before_s = left_s
        return f"{in_time_units(left_s)} left{why}"


class Parts:
    """Progress of work that nothing counts, in parts whose times compare as they were measured to.

    Parameters
    ----------
    log : where the lines go.
    shares : of the whole, by the name of each part, in the order in which they are done; of any sum.
    every_s : least time between two lines.
    """

    def __init__(self, log: logging.Logger, shares: Mapping[str, float], every_s: float = 2.0) -> None:
        self._shares, self._progress = shares, Progress(log, 100, "percent", every_s)
        self._begun: set[str] = set()

    def begin(self, part: str) -> None:
        """Say how far the work is as a part begins, but the first one, before which nothing is known of its speed, and
        one that is done again.
        """
        if part in self._begun:
            return
        self._begun.add(part)
        names = [*self._shares]
        before = sum(self._shares[name] for name in names[: names.index(part)])
        if done := round(100 * before / sum(self._shares.values())):
            self._progress.update(min(done, 99), part)


def is_more(before_s: float | None, left_s: float) -> bool:
    """Whether more time is left than was said before, by what one notices."""
    return before_s is not None and left_s > before_s + max(NOTICED_S, NOTICED * before_s)


def in_time_units(seconds: float) -> str:
    """A time for messages: hours and minutes, minutes and seconds, or seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
