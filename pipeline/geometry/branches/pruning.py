# SPDX-License-Identifier: Apache-2.0
"""Pruning of a centreline: branches that end free are taken away one after another, the relatively shortest first.

A branch that goes can make others longer, and their parents thinner. Only those are measured again that it can have
changed, so that the time grows with the number of branches, of which a leaked lumen has hundreds.
"""

import heapq
from collections import defaultdict

from pipeline.geometry.branches.centreline_graph import Branch, Centreline


class Pruning:
    """A graph that loses branches.

    Attributes
    ----------
    branches : from each free end that is left to the next fork, or to another free end, by the row of that end.
    """

    def __init__(self, centreline: Centreline, min_branch_radii: float, kept: frozenset[int] = frozenset()) -> None:
        """Of a centreline of which nothing is gone yet.

        Parameters
        ----------
        centreline : the graph, which stays as it is.
        min_branch_radii : a shorter branch, in radii of its parent, is a spur.
        kept : rows of free ends whose branches are none, however short they are.
        """
        self._min_branch_radii, self._kept = min_branch_radii, kept
        self._links = list(centreline.links)
        self._graph = Centreline(centreline.points_mm, centreline.radius_mm, self._links)
        self.branches: dict[int, Branch] = {}
        self._resting = defaultdict[int, set[int]](set)
        self._spurs, self._changed = Shortest(self), set[int]()
        for branch in self._graph.terminal_branches():
            self._measured(branch)

    def _measured(self, branch: Branch) -> None:
        end = branch.rows[0]
        self.branches[end] = branch
        for row in (branch.rows[-1], branch.parent_row):
            self._resting[row].add(end)
        self._changed.add(end)
        if branch.forked and branch.relative_length < self._min_branch_radii and end not in self._kept:
            self._spurs.add(branch)

    def changed(self) -> list[Branch]:
        """Branches that are new, or not as they were, since this was asked before."""
        changed = [self.branches[end] for end in sorted(self._changed) if end in self.branches]
        self._changed.clear()
        return changed

    def remove(self, branch: Branch) -> None:
        """Take a forked branch away; its fork stays."""
        *gone, fork = branch.rows
        del self.branches[branch.rows[0]]
        for row in gone:
            self._links[row] = frozenset()
        self._links[fork] = self._links[fork] - set(gone)
        ends = set[int]().union(*(self._resting.pop(row, ()) for row in gone))
        if len(self._links[fork]) == 2:  # no fork any more: what ended there goes on
            ends |= self._resting.pop(fork, set())
        for end in sorted(ends & self.branches.keys()):
            self._measured(self._graph.branch_from(end))

    def prune(self) -> list[Branch]:
        """Take spurs away until there are none, and return them."""
        lost = []
        while spur := self._spurs.pop():
            lost.append(spur)
            self.remove(spur)
        return lost

    def rest(self) -> Centreline:
        """The graph as it is now."""
        return Centreline(self._graph.points_mm, self._graph.radius_mm, tuple(self._links))


class Shortest:
    """Branches of a graph that loses some, in the order of their length in radii of their parent."""

    def __init__(self, graph: Pruning) -> None:
        """None yet of a graph."""
        self._graph, self._waiting = graph, list[tuple[float, tuple[int, ...]]]()

    def add(self, branch: Branch) -> None:
        """A branch as it is now."""
        heapq.heappush(self._waiting, (branch.relative_length, branch.rows))

    def pop(self) -> Branch | None:
        """The relatively shortest of those that are still as they were added."""
        while self._waiting:
            length, rows = heapq.heappop(self._waiting)
            branch = self._graph.branches.get(rows[0])
            if branch and (branch.relative_length, branch.rows) == (length, rows):
                return branch
        return None


def without_spurs(centreline: Centreline, min_branch_radii: float, kept: frozenset[int] = frozenset()) -> Centreline:
    """The graph without branches that are shorter than some radii of their parent, the relatively shortest first.

    Parameters
    ----------
    centreline : the graph.
    min_branch_radii : the least length, in radii of the parent.
    kept : rows of free ends whose branches stay however short they are.
    """
    pruning = Pruning(centreline, min_branch_radii, kept)
    pruning.prune()
    return pruning.rest()
