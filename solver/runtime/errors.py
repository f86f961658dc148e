# SPDX-License-Identifier: Apache-2.0
"""Mistakes of a user, and errors of the system, as one message."""

import errno
from collections.abc import Callable


class StageError(Exception):
    """A user's mistake or a result that must not be trusted: one message that names the quantity, its value, where it
    came from and the remedy. The command line prints it without a traceback and exits with status 1.

    Attributes
    ----------
    picture : draws what the message means, as PNG, where that can be drawn; the command line puts it beside the log and
        names it after the message. It takes a second, and nobody but that asks for it.
    """

    picture: Callable[[], bytes] | None = None


REMEDIES = {
    errno.ENOSPC: "make room, or let results/ lie on a larger disk, and run the workflow again",
    errno.EDQUOT: "make room, or let results/ lie on a larger disk, and run the workflow again",
    errno.EROFS: "make it writable, or let results/ lie on a disk that is, and run the workflow again",
}
"""What helps where a disk does not take what is written."""


def remedy_of(error: OSError) -> str:
    """What helps against an error of writing; empty where it is none."""
    return REMEDIES.get(error.errno or 0, "")
