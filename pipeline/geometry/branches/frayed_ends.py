# SPDX-License-Identifier: Apache-2.0
"""Frayed ends: the loops of a centreline in which a vessel ends where the image fades and the lumen frays."""

import numpy as np

from pipeline.geometry.branches.centreline_graph import Centreline

FRAYED_RADII = 4.0
"""Loops of the centreline within so many radii of an end are those of a frayed lumen, not of vessels."""


def without_frayed_ends(centreline: Centreline) -> tuple[Centreline, frozenset[int]]:
    """The centreline without the loops in which a vessel ends where the image fades and the lumen frays.

    A part that hangs on the rest by one link, holds loops and reaches no farther than some radii of the vessel before
    it is such an end; the vessel then ends where that part began.

    Returns
    -------
    The centreline, and the rows at which it ends so.
    """
    links, tips = list(centreline.links), set()
    for start, part in _hanging_loops(centreline):
        reach = np.linalg.norm(centreline.points_mm[part] - centreline.points_mm[start], axis=1).max()
        if reach <= FRAYED_RADII * _radius_behind(centreline, start, set(part)):
            gone = set(part)
            links = [frozenset() if row in gone else near - gone for row, near in enumerate(links)]
            tips.add(start)
    return Centreline(centreline.points_mm, centreline.radius_mm, tuple(links)), frozenset(tips)


def _hanging_loops(centreline: Centreline) -> list[tuple[int, list[int]]]:
    """Parts with loops that hang on the rest by one link, and no smaller ones do within: the row before and the rows.

    Links whose removal divides the graph are those that no way back leads around, from the order of a search in depth
    (Tarjan 1974, doi:10.1016/0020-0190(74)90003-9). The search begins where the vessel is thickest.
    """
    rows = centreline.rows()
    if not len(rows):
        return []
    root = int(rows[np.argmax(centreline.radius_mm[rows])])
    order, before, number = [root], {root: -1}, {root: 0}
    stack = [(root, iter(sorted(centreline.links[root])))]
    while stack:
        here, near = stack[-1]
        row = next((row for row in near if row not in number), None)
        if row is None:
            stack.pop()
            continue
        before[row], number[row] = here, len(order)
        order.append(row)
        stack.append((row, iter(sorted(centreline.links[row]))))
    lowest, size, extra, found = dict(number), dict.fromkeys(order, 1), dict.fromkeys(order, 0), []
    for here in reversed(order):
        back = [number[row] for row in centreline.links[here] if row != before[here] and number[row] < number[here]]
        lowest[here], extra[here] = min([lowest[here], *back]), extra[here] + len(back)
        up = before[here]
        if up < 0:
            break
        if lowest[here] == number[here] and extra[here] > 0:
            found.append((up, order[number[here] : number[here] + size[here]]))
            extra[here] = 0
            size[up], lowest[up] = size[up] + size[here], min(lowest[up], lowest[here])
            continue
        size[up], extra[up], lowest[up] = size[up] + size[here], extra[up] + extra[here], min(lowest[up], lowest[here])
    return found


def _radius_behind(centreline: Centreline, start: int, gone: set[int]) -> float:
    """Largest radius of the vessel that ends at a row, within some radii of it."""
    rows = np.array([row for row in centreline.rows().tolist() if row not in gone])
    way = np.linalg.norm(centreline.points_mm[rows] - centreline.points_mm[start], axis=1)
    return float(centreline.radius_mm[rows[way <= FRAYED_RADII * centreline.radius_mm[start]]].max())
