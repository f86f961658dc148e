# SPDX-License-Identifier: Apache-2.0
"""Where a file keeps its voxels, and why one cannot be trusted."""

import math
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

AGAIN = "copy the file again from where it came from, or export it again"

GZIP, ZLIB_OR_GZIP = zlib.MAX_WBITS + 16, zlib.MAX_WBITS + 32
"""Containers of compressed voxels, as zlib numbers them; both end with a checksum."""


class DamageError(Exception):
    """Why a file cannot be trusted, and the remedy; without the file's name, which may hold a patient's."""


@dataclass(frozen=True)
class Stored:
    """Where a file keeps its voxels, and how.

    Attributes
    ----------
    file : that holds them.
    start : its byte at which they, or what they are packed in, begin.
    skip : bytes of what is unpacked before the first voxel; the voxels are all that follows.
    sizes : voxels along the axes x, y, z and any others.
    components : values a voxel.
    dtype : of a value, with its byte order.
    encoding : raw, deflate or hex.
    window : container of ``deflate``, as zlib numbers it.
    members : whether several packed streams may follow each other.
    straight : whether a reader hands over the values as they are, in their order.
    """

    file: Path
    start: int
    skip: int
    sizes: tuple[int, ...]
    components: int
    dtype: np.dtype
    encoding: str = "raw"
    window: int = GZIP
    members: bool = True
    straight: bool = True

    @property
    def bytes(self) -> int:
        """Bytes of all voxels."""
        return math.prod(self.sizes) * self.components * self.dtype.itemsize

    def __str__(self) -> str:
        """Sizes and type, for a message."""
        values = f"{self.components} values of " if self.components > 1 else ""
        return f"{' x '.join(map(str, self.sizes))} voxels of {values}{self.dtype.name}"


def unreadable(why: str) -> DamageError:
    """The fault of a header that is not as its format says."""
    return DamageError(f"its header cannot be read: {why}; {AGAIN}")
