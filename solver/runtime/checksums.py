# SPDX-License-Identifier: Apache-2.0
"""SHA-256 of files and folders, and of settings that name files."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

FILE_KEYS = ("phantom", "mask", "surface", "waveform", "seeds_file", "background_file", "network")
"""Keys of settings that name a file which the user gives."""

BY_CHECKSUM = "sha256:"
"""Begins what stands in place of the path of such a file: its checksum."""

STAMP = ".snakemake_timestamp"
"""What Snakemake leaves in a folder that a stage made."""

LARGE = 1 << 26
"""Bytes of a file from which on its checksum is kept while the process lives: 10 GB take 5 s each time."""

_KEPT: dict[tuple[int, ...], str] = {}
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
    with paths[0].open("rb") as stream:
        state = os.fstat(stream.fileno())
        key = state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns
        if key in _KEPT:
            return _KEPT[key]
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if state.st_size >= LARGE:
        _KEPT[key] = found
    return found


def combined(checksums: Iterable[str]) -> str:
    """Checksum of several files by those of each, whatever their order."""
    return hashlib.sha256("".join(sorted(checksums)).encode()).hexdigest()
