# SPDX-License-Identifier: Apache-2.0
"""The part of a rank, read from a file of node arrays: what lies far from it is read some rows after others, and let
go.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from solver.domain.excerpt import excerpt
from solver.domain.node_rules import check
from solver.domain.nodes import Nodes, load, opened, without_nodes
from solver.domain.partition import partition
from solver.domain.whole import Ranks, first_finds, row_blocks


def load_part(path: Path, ranks: Ranks) -> Nodes:
    """Read the part of a rank and what lies around it, and check what these tell of the invariants.

    The division is that of the file where it has a part for each rank. Else the first rank reads all and divides it.

    Parameters
    ----------
    path : of the node arrays.
    ranks : all of them, which call this together.

    Raises
    ------
    StageError
        As :func:`solver.domain.nodes.load` does.
    """
    with opened(path) as file:
        highest = max(int(block.max()) for block in _blocks(file["part"]))
    part = None
    if highest + 1 != ranks.size and ranks.rank == 0:
        part = partition(load(path), ranks.size)
    with opened(path) as file:
        nodes = excerpt(_File(path, file, ranks, highest + 1 == ranks.size, part), ranks)
        check(nodes)
    return nodes


def _blocks(data: Any) -> Any:
    return (data[rows] for rows in row_blocks(len(data)))


@dataclass
class _File:
    """Node arrays of an open file, whose division may be another one.

    Attributes
    ----------
    path, file : the file.
    ranks : all of them, which read the same rows together.
    divided : whether the division is that of the file.
    part : (N,) another one, on the first rank.
    """

    path: Path
    file: h5py.File
    ranks: Ranks
    divided: bool
    part: NDArray[np.int16] | None
    together: bool = False

    @property
    def bare(self) -> Nodes:
        """The geometry alone."""
        return without_nodes(self.file)

    def length(self, name: str) -> int:
        """Rows of an array."""
        return len(self.file[name])

    def read(self, name: str, rows: slice) -> NDArray[Any]:
        """Rows of an array."""
        if name == "part" and not self.divided:
            return first_finds(self.ranks, lambda: self._part(rows))[name]
        return np.asarray(self.file[name][rows])

    def _part(self, rows: slice) -> dict[str, NDArray[Any]]:
        assert self.part is not None
        return {"part": self.part[rows]}
