# SPDX-License-Identifier: Apache-2.0
"""Devices of ranks: one for each rank of a machine, as far as there are so many; more ranks share them."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import numpy as np

from solver.backends.communicator import Communicator
from solver.backends.cost import Device
from solver.backends.cuda.device import cuda, cuda_device, device_answers, explain_failures
from solver.backends.cuda.device_lock import locked_devices
from solver.backends.cuda.peer_memory import why_not_connected

SIMULATOR = "simulator"


@contextmanager
def rank_device(ranks: Communicator, log: logging.Logger) -> Iterator[None]:
    """Work on a CUDA device that no other run of this machine has meanwhile; where none answers, on none.

    Ranks that see the same devices share those out, the first of them holds the locks. Where each sees but its own, as
    SLURM may have it, it takes that.

    Parameters
    ----------
    ranks : all of them, each of which calls this.
    log : gets a line where ranks wait or share a device.

    Raises
    ------
    StageError
        If a device has no memory left, or fails.
    """
    seen = [str(device.uuid) for device in cuda.gpus] if device_answers() else []
    alike = ranks.beside(" ".join(seen))
    if not seen:
        yield
        return
    with ExitStack() as held, explain_failures():
        locked = None
        if alike.rank == 0:
            numbers = held.enter_context(locked_devices(seen, min(alike.size, len(seen)), log))
            locked = {"numbers": np.array(numbers, np.int64)}
        taken = alike.broadcast(locked)
        assert taken is not None
        if alike.size > len(seen):
            log.warning(
                "warning: solve.ranks %d: of them %d share %d CUDA devices, and take turns there; as many as devices"
                " are faster",
                ranks.size,
                alike.size,
                len(seen),
            )
        cuda.select_device(int(taken["numbers"][alike.rank % len(taken["numbers"])]))
        yield


def devices_of_ranks(ranks: Communicator, precision: str) -> Device:
    """All devices of ranks together: their speed, and the memory that is free where each rank takes the same.

    Parameters
    ----------
    ranks : all of them, each of which calls this.
    precision : of the settings.

    Raises
    ------
    StageError
        If no device answers.
    """
    own = cuda_device(precision)
    sharing = ranks.beside(str(cuda.get_current_device().uuid) if device_answers() else SIMULATOR)
    least = -int(ranks.largest(np.array([-own.free_bytes // sharing.size], np.int64))[0])
    devices = int(ranks.begin_sum(np.array([sharing.rank == 0], np.int64))()[0])
    connected = not why_not_connected(ranks)
    return replace(own.of_ranks(ranks.size, devices, connected), free_bytes=float(ranks.size * least))
