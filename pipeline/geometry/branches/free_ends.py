# SPDX-License-Identifier: Apache-2.0
"""Free ends of a centreline: which are open ends of tubes, and which are closed, such as a sac, and why."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.geometry.branches.centreline_graph import Branch, Centreline
from pipeline.geometry.branches.pruning import Pruning, Shortest


@dataclass(frozen=True)
class Ends:
    """What became of the free ends of a centreline.

    Attributes
    ----------
    centreline : pruned.
    open : terminal branches that end as open tubes, without thin tails.
    closed : row of each other free end, unless it was a mere spur that ends no tube, and why it is no opening.
    uncut_mm : by its row, the radius of the vessel at an end that was to be open, and that no section can cut.
    cut_by : by its row, a lower ``surface.cut_roundness`` that was tried and by which such an end is cut.
    may_be_sacs : of open ends that are round and wide, the place and what speaks for a sac.
    thin_mm : by its row, the radius of a branch that the border cuts, and that is too thin to be open.
    too_thin : rows of closed ends whose branch nowhere stays thick enough.
    asked : rows of ends that are to be openings whatever they look like, with and without their thin tails.
    """

    centreline: Centreline
    open: list[Branch]
    closed: dict[int, str]
    uncut_mm: dict[int, float] = field(default_factory=dict)
    cut_by: dict[int, float] = field(default_factory=dict)
    may_be_sacs: list[dict[str, Any]] = field(default_factory=list)
    thin_mm: dict[int, float] = field(default_factory=dict)
    too_thin: set[int] = field(default_factory=set)
    asked: frozenset[int] = frozenset()


def nearest_ends(centreline: Centreline, places_mm: Sequence[tuple[float, float, float]]) -> frozenset[int]:
    """Row of the free end nearest to each place, (x, y, z), LPS, mm."""
    rows = centreline.free_ends() if places_mm else []
    tips = centreline.points_mm[rows]
    return frozenset(rows[int(np.linalg.norm(tips - place, axis=1).argmin())] for place in places_mm if rows)


def find_ends(
    centreline: Centreline,
    min_branch_radii: float,
    min_radius_mm: float,
    border: NDArray[np.bool_],
    frayed: frozenset[int] = frozenset(),
    flat: Callable[[int], bool] = lambda _: False,
    cut: NDArray[np.bool_] | None = None,
    asked: frozenset[int] = frozenset(),
) -> Ends:
    """Prune spurs and dead ends, the relatively shortest first, and tell open ends from closed ones.

    Parameters
    ----------
    centreline : from :func:`centreline_graph.trace_centreline`.
    min_branch_radii : a shorter branch, in radii of its parent, is a spur.
    min_radius_mm : a branch counts where it is at least so thick.
    border : (N,) whether the ball around a point reaches the border of the image.
    frayed : rows of free ends at which the image fades; they are open however short their branch is.
    flat : whether a plane cuts the vessel off at a free end, told by its row: it is open however little it stands out.
        Beside a sac it would be taken for a dead end, and the sac for the vessel that goes on.
    cut : (N,) whether the ball around a point reaches the border of the image that was given, which tubes may have been
        added to; none: `border`.
    asked : rows of free ends that are open whatever they look like, as frayed ones are.
    """
    cut, frayed = border if cut is None else cut, frayed | asked
    pruning = Pruning(centreline, min_branch_radii, frayed)
    dead = Shortest(pruning)
    judged: dict[int, tuple[Branch | None, str]] = {}
    dead_ends: dict[int, str] = {}
    thin: dict[int, float] = {}
    too_thin: set[int] = set()
    while True:
        spurs = [spur for spur in pruning.prune() if _is_tube(spur, min_radius_mm)]
        dead_ends |= {spur.rows[0]: _too_short(spur, min_branch_radii) for spur in spurs}
        for branch in pruning.changed():
            row = branch.rows[0]
            end, why = judged[row] = _judge(branch, min_radius_mm, bool(border[row]) or row in frayed, flat)
            too_thin |= set() if end else {row}
            if why and branch.forked:
                dead.add(branch)
        if not (gone := dead.pop()):
            break
        dead_ends[gone.rows[0]] = judged[gone.rows[0]][1]
        if cut[gone.rows[0]]:
            thin[gone.rows[0]] = float(gone.end_radius_mm)
        pruning.remove(gone)
    left = sorted(pruning.branches.values(), key=lambda branch: (branch.relative_length, branch.rows))
    ends = [(branch.rows[0], *judged[branch.rows[0]]) for branch in left]
    dead_ends |= {row: why for row, _, why in ends if why}
    asked |= {end.rows[0] for row, end, _ in ends if end and row in asked}
    tubes = sorted((end for _, end, why in ends if end and not why), key=lambda end: end.rows)
    return Ends(pruning.rest(), tubes, dead_ends, thin_mm=thin, too_thin=too_thin, asked=asked)


def _is_tube(spur: Branch, min_radius_mm: float) -> bool:
    """Whether a short branch is the end of a tube but for its length."""
    end, why = _judge(spur, min_radius_mm, at_border=False, flat=lambda _: False)
    return end is not None and not why


def _too_short(spur: Branch, min_branch_radii: float) -> str:
    return (
        f"it is {spur.relative_length:.1f} radii long of the vessel that it leaves, less than"
        f" surface.min_branch_radii = {min_branch_radii:g}"
    )


def _judge(
    branch: Branch, min_radius_mm: float, at_border: bool, flat: Callable[[int], bool]
) -> tuple[Branch | None, str]:
    """The branch without its thin tail, and why it is no open end; an empty reason where it is one.

    At the border of the image any end is open.
    """
    end = branch.resolved(min_radius_mm)
    if end is None:
        return None, f"its radius, {branch.end_radius_mm:.2f} mm, does not stay above {min_radius_mm:.2f} mm"
    return end, "" if at_border else end.why_closed(lambda: flat(branch.rows[0]))
