# SPDX-License-Identifier: Apache-2.0
"""Device lock: one run of this machine at a time uses a CUDA device, whoever starts it.

A run holds a lock of the operating system for its device, which no process outlives. It takes the first of the devices
that it may see (``CUDA_VISIBLE_DEVICES``) which is free, and waits while none is. Runs that see the same devices
stand in a queue, so that the first that waits is the first to get one. A run of several ranks takes as many as it needs
at once, or none, so that no two wait for each other.
"""

import fcntl
import hashlib
import logging
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

FOLDER = Path(tempfile.gettempdir()) / "hemolattice-devices"
WAIT_S = 1.0


@contextmanager
def locked_device(devices: Sequence[str], log: logging.Logger, folder: Path = FOLDER) -> Iterator[int]:
    """Hold one of several devices, as :func:`locked_devices` does; its number among them.

    Parameters
    ----------
    devices : identities of the devices.
    log : gets a line where all are held by others and this one waits.
    folder : where the locks lie.
    """
    with locked_devices(devices, 1, log, folder) as (number,):
        yield number


@contextmanager
def locked_devices(
    devices: Sequence[str], wanted: int, log: logging.Logger, folder: Path = FOLDER
) -> Iterator[list[int]]:
    """Hold some of several devices, and wait until so many are free and those that came before have theirs.

    Parameters
    ----------
    devices : what they are known by on this machine, whatever is visible of them: their UUIDs.
    wanted : how many.
    log : gets a line when too many are taken.
    folder : of the locks, the same for all runs.

    Yields
    ------
    Numbers of the devices among `devices`.
    """
    _make_folder(folder)
    locks = [_open_lock(folder / name) for name in devices]
    queue = _open_lock(folder / _queue_name(devices))
    few = f"all of {len(devices)}" if wanted == 1 else f"too many of {len(devices)}"
    waiting = f"{few} CUDA devices are taken by other runs; waiting for {'one' if wanted == 1 else wanted}"
    try:
        if queued := not _locked(queue):
            log.info(waiting)
            fcntl.flock(queue, fcntl.LOCK_EX)  # Linux grants it in the order of asking
        while len(mine := _taken(locks, wanted)) < wanted:
            if not queued:
                log.info(waiting)
                queued = True
            time.sleep(WAIT_S)
        fcntl.flock(queue, fcntl.LOCK_UN)
        yield mine
    finally:
        for lock in (*locks, queue):
            os.close(lock)


def _taken(locks: list[int], wanted: int) -> list[int]:
    """Numbers of so many locks that could be taken now; of none if there are fewer."""
    mine: list[int] = []
    for number, lock in enumerate(locks):
        if len(mine) < wanted and _locked(lock):
            mine.append(number)
    if len(mine) == wanted:
        return mine
    for number in mine:
        fcntl.flock(locks[number], fcntl.LOCK_UN)
    return []


def _make_folder(folder: Path) -> None:
    """A folder in which all users of the machine may make locks, and remove none of another."""
    try:
        folder.mkdir()
    except FileExistsError:
        return
    folder.chmod(0o1777)


def _queue_name(devices: Sequence[str]) -> str:
    """Name of the queue of the runs that see these devices: runs that see others must not wait for them."""
    return f"queue-{hashlib.sha256(' '.join(sorted(devices)).encode()).hexdigest()[:16]}"


def _open_lock(path: Path) -> int:
    """Open a lock, which another user may have made, who alone may write to it."""
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        lock = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        os.fchmod(lock, 0o644)  # whatever the user lets others read
        return lock


def _locked(lock: int) -> bool:
    """Whether the lock could be taken now."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
