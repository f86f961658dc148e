# SPDX-License-Identifier: Apache-2.0
"""Bytes of a volume file's voxels, held against what its header says of them, before a library reads them.

Libraries fill up with zeros what is missing, do not look at checksums, and take what is not finite for zero.
"""

import zlib
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pipeline.files.stored_voxels import AGAIN, DamageError, Stored

BLOCK_BYTES = 2**20
"""Taken at a time, packed and unpacked: a file may claim to unpack to anything."""


def verify(stored: Stored) -> int:
    """Make sure that a file holds the voxels that its header claims, whole and finite.

    Packed voxels must keep their checksum; others have none, so that a changed value is not seen.

    Parameters
    ----------
    stored : what its header says.

    Returns
    -------
    CRC-32 of all values, low byte first.

    Raises
    ------
    DamageError
        If they are fewer or more, their checksum does not hold, or values are not finite.
    """
    total, checksum, odd = 0, 0, 0
    for values in _values(stored):
        total += values.size
        checksum = _crc32(values, checksum)
        odd += int(np.count_nonzero(~np.isfinite(values)))
    if odd:
        raise DamageError(
            f"{odd} of {total} values ({stored.dtype.name}) are NaN or infinite; replace them in the program that made"
            " the file, or export it again"
        )
    return checksum


def require_as_stored(stored: Stored, checksum: int, voxels: NDArray[Any]) -> None:
    """Make sure that a library has read the very values that were verified.

    Parameters
    ----------
    stored : what the header says.
    checksum : of the bytes that were verified (CRC-32).
    voxels : what the library has read.

    Raises
    ------
    DamageError
        If it has not.
    """
    if not stored.straight:
        return
    same = voxels.dtype == stored.dtype.newbyteorder("=")
    if not same or _crc32(voxels) != checksum:
        raise DamageError(f"its voxels are read as other than its header says ({stored}); save it again")


def _crc32(values: NDArray[Any], before: int = 0) -> int:
    """Of values with the low byte first, and of those before them."""
    return zlib.crc32(np.ascontiguousarray(values, values.dtype.newbyteorder("<")).data, before)


def _values(stored: Stored) -> Iterator[NDArray[Any]]:
    """All values, block by block."""
    size, rest = stored.dtype.itemsize, b""
    for block in _exactly(stored):
        rest += block
        whole = len(rest) // size * size
        yield np.frombuffer(rest[:whole], stored.dtype)
        rest = rest[whole:]


def _exactly(stored: Stored) -> Iterator[bytes]:
    """Bytes of the voxels, as many as the header says; all blocks are refused as soon as one is too much."""
    wanted = stored.skip + stored.bytes
    held = 0
    with stored.file.open("rb") as stream:
        stream.seek(stored.start)
        for block in _unpacked(stream, stored):
            before, held = held, held + len(block)
            if held > wanted:
                break
            yield block[max(0, stored.skip - before) :]
    if held != wanted:
        present = f"{'more' if held > wanted else max(0, held - stored.skip)}"
        raise DamageError(
            f"its header claims {stored.bytes} bytes ({stored}), and {present} are there:"
            f" {'its header is damaged' if held > wanted else 'it is cut off'}; {AGAIN}"
        )


def _unpacked(stream: BinaryIO, stored: Stored) -> Iterator[bytes]:
    blocks = iter(lambda: stream.read(BLOCK_BYTES), b"")
    if stored.encoding == "deflate":
        return _inflated(blocks, stored)
    if stored.encoding == "hex":
        return _from_hex(blocks)
    return blocks


def _inflated(blocks: Iterable[bytes], stored: Stored) -> Iterator[bytes]:
    """Inflated bytes; zlib compares checksum and length at the end of each packed stream."""
    inflate, count, begun = zlib.decompressobj(stored.window), 0, True
    for packed in blocks:
        data = packed
        while data:
            if inflate.eof and not stored.members:
                raise DamageError(f"bytes follow its packed voxels, which end after {count} bytes; {AGAIN}")
            if inflate.eof:
                inflate = zlib.decompressobj(stored.window)
            try:
                made = inflate.decompress(data, BLOCK_BYTES)
            except zlib.error:
                raise DamageError(
                    f"its packed voxels are damaged, their checksum does not hold or they cannot be unpacked after"
                    f" {count} bytes; {AGAIN}"
                ) from None
            data, count, begun = inflate.unused_data or inflate.unconsumed_tail, count + len(made), not inflate.eof
            yield made
    if begun:
        raise DamageError(f"its packed voxels end after {count} bytes, without their checksum: cut off; {AGAIN}")


def _from_hex(blocks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for block in blocks:
        digits = rest + b"".join(block.split())
        even = len(digits) // 2 * 2
        try:
            yield bytes.fromhex(digits[:even].decode("ascii"))
        except ValueError:
            raise DamageError(f"its voxels are not all hexadecimal digits; {AGAIN}") from None
        rest = digits[even:]
    if rest:
        raise DamageError(f"its voxels have an odd number of hexadecimal digits; {AGAIN}")


DEFLATE_RATIO = 1032
"""Most bytes that deflate makes of one."""
