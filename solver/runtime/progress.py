# SPDX-License-Identifier: Apache-2.0
"""Progress of long work."""

import logging
import time


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

    def update(self, done: int, note: str = "") -> None:
        """Say how far the work is, unless the last line is younger than `every_s` and work is left."""
        now = time.monotonic()
        if now - self._last < self._every_s and done < self._total:
            return
        self._last = now
        elapsed = max(now - self._start, 1e-9)
        left_s = (self._total - done) * elapsed / max(done, 1)
        self._log.info(
            "%d of %d %s (%.0f %%), %.3g %s/s, %s left%s",
            done,
            self._total,
            self._unit,
            100 * done / max(self._total, 1),
            done / elapsed,
            self._unit,
            in_time_units(left_s),
            f", {note}" if note else "",
        )


def in_time_units(seconds: float) -> str:
    """A time for messages: hours and minutes, minutes and seconds, or seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
