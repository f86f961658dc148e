# SPDX-License-Identifier: Apache-2.0
"""Recovery: after a crash, the next run of the workflow finds its folder as if the one before had been stopped orderly.

A Snakemake that is killed leaves locks, for which the next one refuses to start, and marks of the jobs that it was at,
for whose outputs it asks for an option. Here they are cleared away, but never while another Snakemake is alive in the
same folder: each holds a lock of the operating system, which no process outlives.
"""

import errno
import fcntl
import json
import os
import shutil
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from solver.runtime.errors import StageError, remedy_of

STATE = Path(".snakemake")
"""Where Snakemake keeps its own files, in the folder in which it runs."""
LOCK = "hemolattice.lock"
"""File there that the operating system locks while one is at work."""
RESULTS = Path("results")
"""Where it lets everything be made."""


def recover(state: Path = STATE, results: Path = RESULTS) -> IO[str] | None:
    """Clear away what a killed Snakemake left, unless another is at work.

    Parameters
    ----------
    state : folder of Snakemake's own files; what a run makes lies below the folder that holds it.
    results : where that is, which must take it, too.

    Returns
    -------
    A lock that tells others that this one is at work while it is open; none where the file system has no locks.

    Raises
    ------
    StageError
        If one of the folders cannot be written to, or a file stands in its place.
    """
    require_folders([state, results])
    try:
        if results.is_dir() and not os.access(results, os.W_OK):
            code = errno.EROFS if os.statvfs(results).f_flag & os.ST_RDONLY else errno.EACCES
            raise OSError(code, os.strerror(code), str(results / "any"))
        return _recovered(state)
    except OSError as error:
        remedy = remedy_of(error) or "make it writable, and run the workflow again"
        raise StageError(f"{Path(error.filename or state).absolute().parent}: {error.strerror}; {remedy}") from None


def at_work(state: Path = STATE) -> bool:
    """Whether a Snakemake is at work in the folder; not known, and so not, where the file system has no locks."""
    try:
        with (state / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def require_folders(paths: Iterable[Path]) -> None:
    """Refuse anything else where the workflow keeps folders, before Snakemake fails over it.

    Raises
    ------
    StageError
        Naming the first such path.
    """
    for path in paths:
        if (path.exists() or path.is_symlink()) and not path.is_dir():
            raise StageError(
                f"{path}: a file, or a link that leads to no folder, where the workflow keeps a folder; rename or move"
                " it, and run the workflow again"
            )


def _recovered(state: Path) -> IO[str] | None:
    state.mkdir(parents=True, exist_ok=True)
    lock = (state / LOCK).open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # others are at work
        fcntl.flock(lock, fcntl.LOCK_SH)
        return lock
    except OSError:
        lock.close()
        return None
    shutil.rmtree(state / "locks", ignore_errors=True)
    for mark, output in _unfinished(state / "incomplete"):
        path = state.parent / output
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        mark.unlink()
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def _unfinished(marks: Path) -> Iterator[tuple[Path, str]]:
    """Marks of jobs that were not brought to their end, each with the output that it is of.

    A mark's name is that output in Base64, cut into folders with a leading @ where it is long. Jobs that a cluster was
    given may be at work still: they are left alone.
    """
    for mark in sorted(path for path in marks.rglob("*") if path.is_file()):
        try:
            given_away = json.loads(mark.read_text()).get("external_jobid")
        except ValueError:  # killed while it was written
            given_away = None
        if not given_away:
            *folders, last = mark.relative_to(marks).parts
            yield mark, urlsafe_b64decode("".join([*(part.removeprefix("@") for part in folders), last])).decode()
