# SPDX-License-Identifier: Apache-2.0
"""Signals to stop."""

import signal
import sys
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

CALLBACK_S = 0.05
"""How long a callback of Python's own may take until a signal that was lost in it is heard again."""


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


class Stopped(BaseException):
    """What a signal raises: no `StageError`, and no `Exception`, which code on its way may take for a failure of its
    own and go on, as that which tries seeds does, or Numba's search for a function of given types.

    Parameters
    ----------
    number : of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by signal {number}; nothing was written, run the workflow again to continue")
        self.number = number


def raise_stopped(number: int, frame: FrameType | None) -> None:
    """End the stage because of a signal: no output appears.

    Raises
    ------
    Stopped
        Always.
    """
    raise Stopped(number)


def heed_signals() -> None:
    """Let signals to stop end the stage, wherever they find it.

    Python runs their handlers within callbacks of its own, too (of weak references and of the garbage collector, of
    which compilation has thousands), which lose what is raised there: a run went on for hours. Such a loss is reported
    to `sys.unraisablehook`, and the signal's handler is called again once the callback has ended.
    """
    for number in STOP_SIGNALS:
        signal.signal(number, raise_stopped)
    sys.unraisablehook = _repeat_lost_stop


def _repeat_lost_stop(lost: "sys.UnraisableHookArgs") -> None:
    if isinstance(lost.exc_value, Stopped):
        number = lost.exc_value.number
        signal.signal(signal.SIGALRM, lambda _, frame: _call_handler(number, frame))
        signal.setitimer(signal.ITIMER_REAL, CALLBACK_S)
    else:
        sys.__unraisablehook__(lost)


def _call_handler(number: int, frame: FrameType | None) -> None:
    if callable(handler := signal.getsignal(number)):
        handler(number, frame)
