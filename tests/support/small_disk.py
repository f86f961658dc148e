# SPDX-License-Identifier: Apache-2.0
"""A file system of its own for a test: one that is small, or that becomes read-only."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[Path]:
    """A file system in memory at a folder, which is made; the test is skipped where its user may mount none."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
    made = subprocess.run(command, capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"this user may not mount a disk: {made.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def made_read_only(folder: Path, yes: bool = True) -> bool:
    """Let such a file system take no more writes, or take them again; false while a file on it is being written."""
    command = ["mount", "-o", f"remount,{'ro' if yes else 'rw'}", folder]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
