# SPDX-License-Identifier: Apache-2.0
"""Turns of the processes of one machine: of those that need the same thing made at once, one makes it.

Ranks that begin together need the same loops at the same moment. Each would compile them, on cores that another could
use. A turn is a lock of the operating system, which no process outlives and no fork inherits.
"""

import fcntl
import os
import tempfile
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from time import monotonic, sleep

LIMIT_S = 60.0
"""The longest wait, several times what a loop takes: whoever makes it may have been stopped. The process then makes it
itself, as it does where there are no locks.
"""
PAUSE_S = 0.02
PLACES = 2**62
"""Of a file of locks, each a byte of it that is never written; two things share one by a rare chance, and wait."""


@cache
def _locks(process: int) -> int:
    """The file of locks of this user, open as long as the process lives: to close it would end all its turns."""
    path = Path(tempfile.gettempdir()) / f"hemolattice-turns-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)


class Turn:
    """The turn of this process to make a thing.

    Parameters
    ----------
    thing : what it is known by in all processes.
    """

    def __init__(self, thing: str) -> None:
        self._place = int(sha256(thing.encode()).hexdigest(), 16) % PLACES
        self._held = False

    def begin(self) -> None:
        """Wait for another process that makes it, at most for a while: it may be there then.

        A process of low priority waits for none and lets none wait: it may be given no core for as long as others
        work.
        """
        if os.nice(0) > 0:
            return
        with suppress(OSError):  # there are no locks here
            locks, until = _locks(os.getpid()), monotonic() + LIMIT_S
            while not self._taken(locks) and monotonic() < until:
                sleep(PAUSE_S)

    def _taken(self, locks: int) -> bool:
        """Whether it could be taken now."""
        try:
            fcntl.lockf(locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._place)
        except (BlockingIOError, PermissionError):  # either is what systems say of a lock that another holds
            return False
        self._held = True
        return True

    def end(self) -> None:
        """Let others have it."""
        if self._held:
            fcntl.lockf(_locks(os.getpid()), fcntl.LOCK_UN, 1, self._place)
            self._held = False
