# SPDX-License-Identifier: Apache-2.0
"""Ranks: processes of MPI that run one lattice together, and what they say to each other. Nothing else uses mpi4py.

Numbers travel as bytes, so that each population, number and limb arrives with the bits with which it left.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]

BUSY_S, BUSY_BESIDE_DEVICE_S, PAUSE_S = 2e-4, 1e-2, 5e-5
"""How long a rank asks without a pause whether what it waits for has come, and the pauses between from then on: where
there are more processes than cores, others, one of which may be the rank that it waits for, get the core meanwhile. One
whose nodes are computed by a device asks for longer: MPI goes on with a long message only when it is asked, and with
such pauses four ranks with a device each waited for two thirds of a step."""


class Communicator:
    """What a rank says to the others.

    Attributes
    ----------
    rank, size : its number, from 0, and how many there are.
    neighbours : how many of them share the memory of its machine, itself among them.

    Parameters
    ----------
    mpi : the module of mpi4py.
    world : its communicator of all ranks.
    """

    def __init__(self, mpi: Any, world: Any) -> None:
        self._mpi, self._world = mpi, world
        self.rank, self.size = int(world.Get_rank()), int(world.Get_size())
        here = world.Split_type(mpi.COMM_TYPE_SHARED)
        self.neighbours = int(here.Get_size())
        self._own_core = len(set().union(*here.allgather(usable_cores()))) >= self.neighbours
        self._busy_s = BUSY_S

    def beside(self, key: str) -> "Communicator":
        """The ranks of this machine that give the same key, this one among them; all ranks must ask.

        Parameters
        ----------
        key : any text.
        """
        colour = int.from_bytes(hashlib.sha256(key.encode()).digest()[:3])
        return Communicator(self._mpi, self._world.Split_type(self._mpi.COMM_TYPE_SHARED).Split(colour))

    def beside_device(self) -> None:
        """From now on wait as a rank does whose nodes a device computes, if each of this machine has a core."""
        self._busy_s = BUSY_BESIDE_DEVICE_S if self._own_core else BUSY_S

    def swap(self, sent: Mapping[int, NDArray[Any]], received: Mapping[int, NDArray[Any]]) -> Callable[[], None]:
        """Begin to send an array to each of some ranks and to receive one from each; what waits for all of them.

        Parameters
        ----------
        sent, received : arrays by rank, which are not to be touched before.
        """
        coming = [self._world.Irecv(_bytes(array), source=peer) for peer, array in received.items()]
        going = [self._world.Isend(_bytes(array), dest=peer) for peer, array in sent.items()]
        return lambda: self._wait(*coming, *going)

    def begin_sum(self, numbers: NDArray[np.int64]) -> Callable[[], NDArray[np.int64]]:
        """Begin to add whole numbers up over all ranks; what waits for the sum."""
        own, added = np.ascontiguousarray(numbers), np.empty(numbers.shape, np.int64)
        request = self._world.Iallreduce(own, added)

        def wait() -> NDArray[np.int64]:
            self._wait(request, kept=(own,))
            return added

        return wait

    def largest(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The largest of each number over all ranks."""
        own, found = np.ascontiguousarray(numbers), np.empty(numbers.shape, np.int64)
        self._wait(self._world.Iallreduce(own, found, op=self._mpi.MAX), kept=(own,))
        return found

    def join(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """The numbers (K,) of all ranks one after another, of each as many as it has."""
        length, counts = np.array([len(numbers)], np.int64), np.empty(self.size, np.int64)
        self._wait(self._world.Iallgather(length, counts), kept=(length,))
        joined, own = np.empty(counts.sum(), numbers.dtype), np.ascontiguousarray(numbers)
        kind = self._mpi.BYTE.Create_contiguous(numbers.dtype.itemsize).Commit()
        self._wait(self._world.Iallgatherv([own, len(own), kind], [joined, counts.tolist(), None, kind]))
        kind.Free()
        return joined

    def collect(self, numbers: NDArray[Any]) -> NDArray[Any] | None:
        """The numbers (K, ...) of all ranks one after another, of each as many as it has; on the first rank alone."""
        length, counts = np.array([len(numbers)], np.int64), np.empty(self.size, np.int64) if self.rank == 0 else None
        self._wait(self._world.Igather(length, counts), kept=(length,))
        own = np.ascontiguousarray(numbers)
        kind = self._mpi.BYTE.Create_contiguous(own.itemsize * int(np.prod(own.shape[1:]))).Commit()
        found = np.empty((counts.sum(), *own.shape[1:]), own.dtype) if counts is not None else None
        into = [found, counts.tolist(), None, kind] if counts is not None else None
        self._wait(self._world.Igatherv([own, len(own), kind], into))
        kind.Free()
        return found

    def broadcast(self, arrays: Arrays | None) -> dict[str, NDArray[Any]] | None:
        """What the first rank has, arrays by name or none; what others give is not looked at."""
        announced = (
            {name: (array.dtype.str, array.shape) for name, array in arrays.items()} if arrays is not None else None
        )
        text = np.frombuffer(json.dumps(announced).encode(), np.uint8) if self.rank == 0 else np.empty(0, np.uint8)
        length = self.largest(np.array([len(text)]))
        text = text.copy() if self.rank == 0 else np.empty(int(length[0]), np.uint8)
        self._wait(self._world.Ibcast(text))
        kinds = json.loads(text.tobytes())
        if kinds is None:
            return None
        found = {}
        for name, (kind, shape) in kinds.items():
            own = arrays[name] if self.rank == 0 and arrays is not None else np.empty(shape, kind)
            found[name] = np.array(own, order="C")
            self._wait(self._world.Ibcast(_bytes(found[name])))
        return found

    def _wait(self, *requests: Any, kept: tuple[NDArray[Any], ...] = ()) -> None:
        """Wait for messages; `kept` are arrays that they are read from, held until then: mpi4py lets go of them."""
        until = time.perf_counter() + self._busy_s
        while not self._mpi.Request.Testall(requests):
            if time.perf_counter() > until:
                time.sleep(PAUSE_S)

    def abort(self) -> None:
        """End all ranks, wherever they are."""
        self._world.Abort(1)


def _bytes(array: NDArray[Any]) -> list[Any]:
    """An array as a message."""
    return [array.reshape(-1).view(np.uint8), "B"]


def usable_cores() -> set[int]:
    """Numbers of the cores that this process may use, all of the machine where the system does not tell."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


@cache
def world() -> Communicator:
    """All ranks that were started together.

    Raises
    ------
    ImportError, RuntimeError
        If mpi4py, or the library of MPI that it finds, is missing.
    """
    from mpi4py import MPI

    return Communicator(MPI, MPI.COMM_WORLD)
