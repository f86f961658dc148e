# SPDX-License-Identifier: Apache-2.0
"""Numbers of nodes of other ranks that links of own nodes lead to."""

import numpy as np
from numpy.typing import NDArray

from solver.domain.link_graph import Links
from solver.domain.nodes import Nodes


class Border:
    """Which nodes these are, and whose.

    Attributes
    ----------
    own : (N,) which of the nodes that are here are own ones; nobody has others of a process that is alone.

    Parameters
    ----------
    nodes : the own nodes and those around them.
    links : (N, 18) rows of the nodes at the ends of their links; right for own nodes.
    """

    def __init__(self, nodes: Nodes, links: Links) -> None:
        self.own, self._ranks = nodes.is_own, nodes.ranks
        self._sent: dict[int, NDArray[np.int64]] = {}
        self._received: dict[int, NDArray[np.int64]] = {}
        if nodes.whole:
            self._find(nodes, links)

    def _find(self, nodes: Nodes, links: Links) -> None:
        """Links lead both ways: what a rank gets of another one, in the order of rows, that one knows to send."""
        leads, reached = (np.zeros(0, np.int64) for _ in range(2))
        for ends in links.T:
            here = np.flatnonzero(self.own & (ends >= 0) & ~self.own[ends])
            there = ends[here]
            of_peer = nodes.part[there].astype(np.int64) * nodes.count
            leads, reached = np.union1d(leads, of_peer + here), np.union1d(reached, of_peer + there)
        for rows, of_peers in ((self._sent, leads), (self._received, reached)):
            for peer in np.unique(of_peers // nodes.count).tolist():
                ends_of = np.searchsorted(of_peers, (peer * nodes.count, (peer + 1) * nodes.count))
                rows[peer] = of_peers[slice(*ends_of.tolist())] - peer * nodes.count

    def swap(self, values: NDArray[np.generic]) -> NDArray[np.int64]:
        """Take the numbers of such nodes in from who has them, all ranks together; the rows where they have changed.

        Parameters
        ----------
        values : (N,) of own nodes, and of those of others as they were told last.
        """
        sent = {peer: np.ascontiguousarray(values[rows]) for peer, rows in self._sent.items()}
        received = {peer: np.empty(len(rows), values.dtype) for peer, rows in self._received.items()}
        self._ranks.swap(sent, received)()
        changed = [np.zeros(0, np.int64)]
        for peer, rows in self._received.items():
            changed.append(rows[values[rows] != received[peer]])
            values[rows] = received[peer]
        return np.concatenate(changed)

    def any(self, count: int) -> bool:
        """Whether the count of any rank is more than 0."""
        return bool(self._ranks.largest(np.array([count], np.int64))[0])


class Surroundings(Border):
    """All nodes of other ranks that are here.

    Parameters
    ----------
    nodes : the own nodes and those around them; all ranks call this together.
    """

    def __init__(self, nodes: Nodes) -> None:
        super().__init__(nodes, np.empty((0, 0), np.int32))

    def _find(self, nodes: Nodes, links: Links) -> None:
        """Ranks tell each other the rows that they have of their nodes."""
        peers = [peer for peer in range(self._ranks.size) if peer != self._ranks.rank]
        self._received = {peer: np.flatnonzero(nodes.part == peer) for peer in peers}
        lengths = np.bincount(nodes.part, minlength=self._ranks.size)
        wanted = self._ranks.join(lengths).reshape(-1, self._ranks.size)[:, self._ranks.rank]
        rows = nodes.rows.astype(np.int64)
        asked = {peer: np.empty(wanted[peer], np.int64) for peer in peers}
        self._ranks.swap({peer: rows[self._received[peer]] for peer in peers}, asked)()
        self._sent = {peer: np.searchsorted(rows, asked[peer]) for peer in peers}
