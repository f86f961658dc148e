# SPDX-License-Identifier: Apache-2.0
"""SHA-256 of files and folders, and of settings that name files."""

import hashlib
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

FILE_KEYS = ("phantom", "mask", "surface", "waveform", "seeds_file", "background_file", "network")
"""Keys of settings that name a file which the user gives."""

BY_CHECKSUM = "sha256:"
"""Begins what stands in place of the path of such a file: its checksum."""

STAMP = ".snakemake_timestamp"
"""What Snakemake leaves in a folder that a stage made."""

LARGE = 1 << 26
"""Bytes of a file from which on its checksums are kept: to read 10 GB takes 5 to 10 s."""

ATTRIBUTE = "user.hemolattice.sha256"
"""Extended attribute of such a file that tells the stages after the one that read it its checksums."""

KEPT_S = 24 * 3600
"""For how long: what a disk has changed by itself since is found by a later workflow."""

BLOCK = 1 << 20
"""Bytes that are read at a time."""

MARK = b"\nsha256 "
"""Begins a checksum trailer (:mod:`solver.runtime.checksum_trailer`)."""

TRAILER = len(MARK) + 2 * hashlib.sha256().digest_size
"""Bytes of a checksum trailer."""


class Checksums(NamedTuple):
    """SHA-256 of a file, and of all but its last :data:`TRAILER` bytes."""

    whole: str
    before_trailer: str


_KEPT: dict[tuple[int, ...], Checksums] = {}
"""Checksums of large files by what changes with every writing to them."""


def by_checksum(settings: Any) -> Any:
    """Settings with the checksum of each file that the user gives in place of its path (:data:`BY_CHECKSUM`)."""
    if isinstance(settings, Mapping):
        return {
            key: f"{BY_CHECKSUM}{checksum(Path(os.path.expandvars(value)).expanduser())}"
            if key in FILE_KEYS and isinstance(value, str) and not value.startswith(BY_CHECKSUM)
            else by_checksum(value)
            for key, value in settings.items()
        }
    return [by_checksum(value) for value in settings] if isinstance(settings, list | tuple) else settings


def checksum(*paths: Path) -> str:
    """SHA-256 of a file, or of the contents of several files or of all files of a folder, whatever their names, but for
    :data:`STAMP`.
    """
    if len(paths) > 1 or paths[0].is_dir():
        files = (
            paths if len(paths) > 1 else [file for file in paths[0].rglob("*") if file.is_file() and file.name != STAMP]
        )
        return combined(checksum(file) for file in files)
    return checksums(paths[0]).whole


def checksums(path: Path) -> Checksums:
    """Both checksums of a file, which is read once for them."""
    with path.open("rb") as stream:
        if found := _kept(stream.fileno()):
            return found
        start = _digest(stream, max(os.fstat(stream.fileno()).st_size - TRAILER, 0))
        whole = start.copy()
        whole.update(stream.read())
        found = Checksums(whole.hexdigest(), start.hexdigest())
        _keep(stream.fileno(), found)
    return found


def append_checksum(path: Path) -> None:
    """Append :data:`MARK` and the SHA-256 of a file to it."""
    with path.open("r+b") as stream:
        digest = _digest(stream, os.fstat(stream.fileno()).st_size)
        before = digest.hexdigest()
        line = MARK + before.encode()
        stream.write(line)
        stream.flush()
        digest.update(line)
        _keep(stream.fileno(), Checksums(digest.hexdigest(), before))


def _digest(stream: BinaryIO, count: int) -> "hashlib._Hash":
    """Of so many bytes from where the stream is."""
    digest = hashlib.sha256()
    while count and (block := stream.read(min(count, BLOCK))):
        digest.update(block)
        count -= len(block)
    return digest


def _keep(file: int, found: Checksums) -> None:
    """Keep the checksums of an open file, where it is large; on disk, too, where the file system has attributes."""
    state = _state(file)
    if os.fstat(file).st_size < LARGE:
        return
    _KEPT[state] = found
    if hasattr(os, "setxattr"):
        with suppress(OSError):
            os.setxattr(file, ATTRIBUTE, " ".join(map(str, (*state, int(time.time()), *found))).encode())


def _kept(file: int) -> Checksums | None:
    """Checksums of an open file as they were kept, unless it has been written to since."""
    state = _state(file)
    if state not in _KEPT and hasattr(os, "getxattr"):
        with suppress(OSError, ValueError):
            *of_then, read_s, whole, before = os.getxattr(file, ATTRIBUTE).decode().split()
            if tuple(map(int, of_then)) == state and abs(time.time() - int(read_s)) < KEPT_S:
                _KEPT[state] = Checksums(whole, before)
    return _KEPT.get(state)


def _state(file: int) -> tuple[int, ...]:
    """What changes with every writing to an open file, and with every copy of it."""
    state = os.fstat(file)
    return state.st_ino, state.st_size, state.st_mtime_ns


def combined(checksums: Iterable[str]) -> str:
    """Checksum of several files by those of each, whatever their order."""
    return hashlib.sha256("".join(sorted(checksums)).encode()).hexdigest()
