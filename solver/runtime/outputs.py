# SPDX-License-Identifier: Apache-2.0
"""Outputs that appear whole or not at all."""

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from solver.runtime.errors import StageError

ROOM, LEAST_ROOM = 1.02, 1_000_000
"""Of what is written, and beside it: what a file's own tables take, at most."""

FULL = 2**16
"""A disk with less room than this does not take what a library still holds back."""


@contextmanager
def appearing_whole(targets: dict[str, Path]) -> Iterator[dict[str, Path]]:
    """Give a temporary path beside each target; rename all of them on success, remove all of them on failure."""
    partial = {role: path.with_name(f".{path.stem}.partial{path.suffix}") for role, path in targets.items()}
    for role, path in targets.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove(partial[role])  # left by a killed run
    try:
        with _explain_full_disk(targets.values()):
            yield partial
        for role, path in targets.items():
            if path.is_dir():
                shutil.rmtree(path)
            partial[role].replace(path)
    finally:
        for path in partial.values():
            with suppress(OSError):  # a disk that became read-only keeps them, until the next run
                _remove(path)


@contextmanager
def _explain_full_disk(targets: Iterable[Path]) -> Iterator[None]:
    """Report a full disk, which libraries report each in their own way, or not at all.

    Raises
    ------
    OSError
        If a disk that was written to is full.
    """
    try:
        yield
    except (StageError, OSError):
        raise
    except Exception:
        _require_free(targets)
        raise
    _require_free(targets)


def _require_free(targets: Iterable[Path]) -> None:
    for path in targets:
        if shutil.disk_usage(path.parent).free < FULL:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from None


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def require_room(path: Path, size: int) -> None:
    """Check that the disk has room for so many bytes more of a file, before HDF5 writes them.

    HDF5 tells of a full disk too late, when it gives its buffers back, and may crash then.

    Raises
    ------
    StageError
        With what is needed and what is free.
    """
    free = shutil.disk_usage(next(folder for folder in path.absolute().parents if folder.is_dir())).free
    if free < ROOM * size + LEAST_ROOM:
        raise StageError(
            f"{path}: {size / 1e6:.3g} MB more are to be written, and {free / 1e6:.3g} MB are free on its disk; make"
            " room, or let results/ lie on a larger disk, and run the workflow again"
        )
