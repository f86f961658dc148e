# SPDX-License-Identifier: Apache-2.0
"""Memory of a rank's device that the devices of other ranks write into, where they are of one machine and reach it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
from numba import config
from numpy.typing import DTypeLike, NDArray

from solver.backends.buffers import Places, count
from solver.backends.communicator import Communicator
from solver.backends.cuda.device import cuda
from solver.kernels.numba_internals import memory_handle, opened_memory, simulated_memory

PIECE = 2 << 20
"""Memory comes in pieces of so many bytes: of smaller ones the driver would open others for the peers, too."""
COUNT_BYTES = 8
_GIVEN: list[Any] = []
"""Own memory that other processes have open: it may not be freed before they have closed it, as they do at their end.
"""


@dataclass(frozen=True)
class Inbox:
    """Memory of one rank's device that others write into.

    Attributes
    ----------
    places : (2, K) numbers, where messages land in turn.
    sent : (R,) how many messages each rank has sent here.
    starts : (R,) where those of each rank begin among the K numbers, here on the host.
    """

    places: Any
    sent: Any
    starts: NDArray[np.int64]


def inboxes(ranks: Communicator, incoming: Mapping[int, Places], kind: DTypeLike) -> list[Inbox]:
    """Those of all ranks, of which the own one is memory of this device; all ranks ask for them together.

    Parameters
    ----------
    ranks : all of them, whose devices reach each other.
    incoming : what comes to this rank, by the number of each other one, in the order in which it lies.
    kind : type of the numbers.
    """
    dtype, ends = np.dtype(kind), np.cumsum([0, *map(count, incoming.values())])
    starts = np.zeros(ranks.size, np.int64)
    for peer, (first, _) in zip(incoming, pairwise(ends.tolist()), strict=True):
        starts[peer] = first
    sizes, begin = ranks.join(ends[-1:]), COUNT_BYTES * ranks.size
    all_starts = ranks.join(starts).reshape(ranks.size, -1)
    memory = shared_memory(ranks, begin + 2 * int(ends[-1]) * dtype.itemsize)
    return [
        Inbox(
            places=whole[begin : begin + 2 * size * dtype.itemsize].view(dtype).reshape(2, size),
            sent=whole[:begin].view(np.int64),
            starts=own_starts,
        )
        for whole, size, own_starts in zip(memory, sizes.tolist(), all_starts, strict=True)
    ]


def shared_memory(ranks: Communicator, size: int) -> list[Any]:
    """So many bytes at least, zeros, of the own device and as many as the others ask for of theirs.

    Raises
    ------
    Exception
        Whatever the CUDA driver says if memory of another device cannot be reached.
    """
    if config.ENABLE_CUDASIM:
        return _simulated(ranks, size)
    own = cuda.to_device(np.zeros(-(-size // PIECE) * PIECE, np.uint8))
    _GIVEN.append(own)
    handles = _of_all(ranks, memory_handle(own))
    return [own if rank == ranks.rank else opened_memory(handle) for rank, handle in enumerate(handles)]


def _simulated(ranks: Communicator, size: int) -> list[Any]:
    """The same of simulators: a file of each rank, which all see as memory, and which has no name any more then."""
    with NamedTemporaryFile() as file:
        file.truncate(size)
        arrays = [np.memmap(name.decode(), np.uint8, "r+") for name in _of_all(ranks, file.name.encode())]
        ranks.largest(np.zeros(1, np.int64))  # all have it
    return [simulated_memory(np.asarray(array)) for array in arrays]


def _of_all(ranks: Communicator, own: bytes) -> list[bytes]:
    """The bytes that each rank has for all."""
    ends = np.cumsum([0, *ranks.join(np.array([len(own)])).tolist()])
    joined = ranks.join(np.frombuffer(own, np.uint8)).tobytes()
    return [joined[first:last] for first, last in pairwise(ends.tolist())]


@cache
def why_not_connected(ranks: Communicator) -> str:
    """Why devices of these ranks cannot write into each other's memory, in words; empty if they can.

    Parameters
    ----------
    ranks : all of them, each of which asks with a device.
    """
    if int(ranks.largest(np.array([-ranks.neighbours]))[0]) != -ranks.size:
        return "ranks run on several machines"
    if config.ENABLE_CUDASIM:
        return ""
    own = cuda.get_current_device().uuid
    if int(ranks.largest(np.array([ranks.beside(str(own)).size]))[0]) > 1:
        return "ranks share a device"
    try:
        reached = len(shared_memory(ranks, 1)) == ranks.size
    except Exception:  # of the driver, which names what is missing in many ways
        reached = False
    if int(ranks.largest(np.array([not reached], np.int64))[0]):
        return "a device does not reach the memory of another"
    return ""
