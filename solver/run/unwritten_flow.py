# SPDX-License-Identifier: Apache-2.0
"""What takes a flow and writes no file: of a run that is but a start, and on ranks other than the first."""

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.share import Share
from solver.domain.nodes import Nodes
from solver.run.flow_file import FlowWriter
from solver.run.vtkhdf import give_lattice


class UnwrittenFlow(FlowWriter):
    """A flow file that is not written: that of a run which is but a start."""

    def __init__(self) -> None:
        """Nothing to open."""

    def append(self, *_: Any) -> None:
        """No file."""

    def mix(self, *_: Any, part: float = 0.0) -> None:
        """No file."""

    def average(self, *_: Any, statistics: Any = None) -> None:
        """No file."""

    def restore(self, taken: Mapping[str, Any]) -> None:
        """No file."""

    def start_over(self) -> None:
        """No file."""

    def __exit__(self, *_: Any) -> None:
        """Nothing to close."""


class FlowOfRank(UnwrittenFlow):
    """What a rank does while the first one writes: it gives its own numbers.

    Parameters
    ----------
    nodes, share : its part of the geometry, and its own nodes.
    """

    def __init__(self, nodes: Nodes, share: Share) -> None:
        self._share = share
        give_lattice(nodes)

    def append(self, time_s: float, *fields: NDArray[np.floating]) -> None:
        """Give those of a time step."""
        for values in fields:
            deque(self._share.blocks(values), maxlen=0)

    def mix(self, *step_and_fields: Any, part: float = 0.0) -> None:
        """Give those that are mixed in."""
        self.append(*step_and_fields)

    def average(self, *fields: NDArray[np.floating], statistics: Any = ()) -> None:
        """Give means and statistics."""
        self.append(0.0, *fields, *statistics)
