# SPDX-License-Identifier: Apache-2.0
"""Checksum trailer: the checksum of a file at its end. Damage is found before a library reads what could hang or crash
it.

It is a line of text behind the last byte that HDF5 counts, so that h5py, VTK and ParaView read the file as any other.
"""

import hashlib
import os
from pathlib import Path

from solver.runtime.checksums import checksum

MARK = b"\nsha256 "
LENGTH = len(MARK) + 2 * hashlib.sha256().digest_size
BLOCK = 2**20


def write_checksum_trailer(path: Path) -> None:
    """Append the SHA-256 of a complete file to it."""
    line = MARK + checksum(path).encode()
    with path.open("ab") as stream:
        stream.write(line)


def require_checksum_trailer(path: Path) -> None:
    """Check a file against its checksum trailer.

    Raises
    ------
    ValueError
        If it is not.
    """
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        left = max(stream.seek(0, os.SEEK_END) - LENGTH, 0)
        stream.seek(left)
        line = stream.read()
        if not line.startswith(MARK):
            raise ValueError("no checksum at its end: cut off, or made by an earlier version")
        stream.seek(0)
        while left:
            block = stream.read(min(left, BLOCK))
            digest.update(block)
            left -= len(block)
    if line != MARK + digest.hexdigest().encode():
        raise ValueError("its checksum does not hold: it is damaged")
