# SPDX-License-Identifier: Apache-2.0
"""Node arrays at hand, from which a rank takes its part as from a file."""

from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from solver.domain.nodes import ARRAYS, Nodes


@dataclass(frozen=True)
class InMemory:
    """All of them, as :class:`solver.domain.excerpt.NodeArrays` gives them."""

    nodes: Nodes
    together: bool = False

    @property
    def bare(self) -> Nodes:
        return replace(self.nodes, **{name: getattr(self.nodes, name)[:0] for name in ARRAYS})

    def length(self, name: str) -> int:
        return len(getattr(self.nodes, name))

    def read(self, name: str, rows: slice) -> NDArray[Any]:
        found: NDArray[Any] = getattr(self.nodes, name)[rows]
        return found
