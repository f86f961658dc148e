"""How loops over nodes and links are shared out to the cores of this machine."""

import os

from solver.compilation import kept

# threads that spin while they wait slow each other down tenfold where cores are shared with other programs
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

CHUNK = 4096
"""Nodes, or links, that one thread takes at a time."""

plain, threaded = kept(), kept(parallel=True)


def chunks(count: int) -> int:
    """Number of chunks of so many nodes or links."""
    return -(-count // CHUNK)
