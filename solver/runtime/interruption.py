# SPDX-License-Identifier: Apache-2.0
"""Signals to stop."""

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

from solver.runtime.errors import StageError

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Interruption:
    """Remembers a signal to stop until the work is where it can; a second one stops it where it is. A context manager.

    Parameters
    ----------
    tell : called with the number of the first signal.

    Attributes
    ----------
    number : of the signal; 0 while there is none.
    """

    number = 0

    def __init__(self, tell: Callable[[int], None] = lambda number: None) -> None:
        self._tell = tell

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._note) for number in STOP_SIGNALS}
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.number:
            raise_stopped(number, frame)
        self.number = number
        self._tell(number)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def raise_stopped(number: int, frame: FrameType | None) -> None:
    """End the stage because of a signal: no output appears."""
    raise StageError(f"stopped by signal {number}; nothing was written, run the workflow again to continue")
