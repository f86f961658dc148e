# SPDX-License-Identifier: Apache-2.0
"""Heartbeats: how the launching process knows that each rank still runs, wherever it is.

A rank beats on its standard output from a thread of machine code, which never waits for Python: neither a long loop nor
a long read stops it, only a process that is stopped or a machine that hangs does.
"""

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np
from numba import config, types
from numpy.typing import NDArray

from solver.kernels.compilation import cached_njit

TICK_S, TICKS = 0.1, 5
"""How often the thread asks whether it is to end, and after how many times it beats."""
SILENT_S = 6.0
"""After which a rank that does not beat is given up."""
STALL_S = 2.0
"""The launching process that did not run for so long itself, stopped or starved, judges nobody for that time."""

MARK = b"\x06"
"""Stands around a beat. In JSON, which is all that ranks say else, it never stands as it is."""
BEAT = re.compile(MARK + rb"(\d+)(\.?)" + MARK + rb"\r?\n")
"""Number of a rank; with a dot it is the last of it. It ends a line, up to which mpirun may keep things back."""

_write = types.ExternalFunction("write", types.intp(types.int32, types.voidptr, types.uintp))
_usleep = types.ExternalFunction("usleep", types.int32(types.uint32))


@cached_njit(nogil=True)
def _beat(stream: int, text: NDArray[np.uint8], going: NDArray[np.int64], tick_us: int, ticks: int) -> None:
    """Write a text again and again while it goes on."""
    tick = 0
    while going[0]:
        if tick == 0:
            _write(np.int32(stream), text.ctypes, np.uint64(text.size))
        tick = (tick + 1) % ticks
        _usleep(np.uint32(tick_us))


def text_of(rank: int, end: bytes = b"") -> bytes:
    """A beat of a rank."""
    return MARK + b"%d%s" % (rank, end) + MARK + b"\n"


@contextmanager
def beating(rank: int, stream: int) -> Iterator[None]:
    """Beat meanwhile, and say at the end that it was the last time. Interpreted loops do not beat.

    Parameters
    ----------
    rank : who beats.
    stream : where, the number of an open file.
    """
    if config.DISABLE_JIT:
        yield
        return
    going = np.ones(1, np.int64)
    text = np.frombuffer(text_of(rank), np.uint8).copy()
    arguments = (stream, text, going, int(1e6 * TICK_S), TICKS)
    thread = threading.Thread(target=_beat, args=arguments, daemon=True)
    thread.start()
    try:
        yield
    finally:
        going[0] = 0
        thread.join()
        with suppress(OSError):  # nobody listens any more
            os.write(stream, text_of(rank, b"."))


class Heartbeats:
    """What the launching process hears of so many ranks.

    Parameters
    ----------
    ranks : number of them.
    """

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._heard: dict[int, float] = {}
        self._asked = 0.0

    def take_out(self, said: bytes, now_s: float) -> bytes:
        """Take beats out of what ranks said; the rest. All ranks are waited for as soon as one beats, since none does
        before all have found each other.
        """
        for number, last in BEAT.findall(said):
            if not self._heard:
                self._heard, self._asked = dict.fromkeys(range(self._ranks), now_s), now_s
            self._heard[int(number)] = np.inf if last else now_s
        return BEAT.sub(b"", said)

    def silent(self, now_s: float) -> list[int]:
        """Ranks that have not been heard for too long."""
        stalled = now_s - self._asked if now_s - self._asked > STALL_S else 0.0
        self._asked = now_s
        self._heard = {rank: heard + stalled for rank, heard in self._heard.items()}
        return [rank for rank, heard in self._heard.items() if now_s - heard > SILENT_S]
