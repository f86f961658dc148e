# SPDX-License-Identifier: Apache-2.0
"""How loops over nodes and links are shared out to the cores of this machine."""

import os

from solver.kernels.compilation import cached_njit

# Threads that spin for long while they wait slow each other down tenfold where cores are shared with other programs;
# such that sleep at once take 0.2 ms to wake. They spin for some microseconds, which most waits between loops last.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ["OMP_WAIT_POLICY"] = "passive"
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

CHUNK = 1024
"""Nodes, or links, that one thread takes at a time."""

serial, threaded = cached_njit(), cached_njit(parallel=True)


def chunks(count: int) -> int:
    """Number of chunks of so many nodes or links."""
    return -(-count // CHUNK)
