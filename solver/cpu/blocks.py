"""How loops over nodes and links are shared out to the cores of this machine."""

import os

from numba import njit

# threads that spin while they wait slow each other down tenfold where cores are shared with other programs
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

CHUNK = 4096
"""Nodes, or links, that one thread takes at a time."""

plain = njit(error_model="numpy")  # Python's check for division by zero would keep loops from being vectorised
threaded = njit(parallel=True, error_model="numpy")


def chunks(count: int) -> int:
    """Number of chunks of so many nodes or links."""
    return -(-count // CHUNK)
