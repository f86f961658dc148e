# SPDX-License-Identifier: Apache-2.0
"""How often Python looks for garbage in tests and in the programs that they fork, and what becomes of freed memory."""

import ctypes
import gc
import sys

OBJECTS = 20_000
"""Made and not yet freed before it does: at its own 700 that took a tenth of small tests and of interpreted loops."""

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3
"""Options of glibc's ``mallopt``: bytes that stay before any are given back, that are asked for at a time,
and from which on an array has pages of its own.
"""


def freeze() -> None:
    """Leave what is there, which stays till the end, out of the search for garbage, and search seldom."""
    gc.freeze()
    gc.set_threshold(OBJECTS)


def reuse_memory() -> None:
    """Keep what arrays of up to 32 MB leave for the next ones, where the C library is glibc: each page that the system
    gives is cleared first, 3 % of the time of the tests of images and surfaces.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if set_option:
        for number, size in ((TRIM_THRESHOLD, 1 << 30), (TOP_PAD, 1 << 26), (MMAP_THRESHOLD, 1 << 25)):
            set_option(number, size)
