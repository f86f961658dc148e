# SPDX-License-Identifier: Apache-2.0
"""Checksum trailer: the checksum of a file at its end. Damage is found before a library reads what could hang or crash
it.

It is a line of text behind the last byte that HDF5 counts, so that h5py, VTK and ParaView read the file as any other.
"""

from pathlib import Path

from solver.runtime.checksums import MARK, TRAILER, append_checksum, checksums


def write_checksum_trailer(path: Path) -> None:
    """Append the SHA-256 of a complete file to it."""
    append_checksum(path)


def require_checksum_trailer(path: Path) -> None:
    """Check a file against its checksum trailer.

    Raises
    ------
    ValueError
        If it is not.
    """
    with path.open("rb") as stream:
        stream.seek(max(path.stat().st_size - TRAILER, 0))
        line = stream.read()
    if not line.startswith(MARK):
        raise ValueError("no checksum at its end: cut off, or made by an earlier version")
    if line != MARK + checksums(path).before_trailer.encode():
        raise ValueError("its checksum does not hold: it is damaged")
