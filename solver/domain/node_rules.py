# SPDX-License-Identifier: Apache-2.0
"""The rules that node arrays keep, on which all their users rely."""

from itertools import product

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from solver.domain.node_types import (
    ARRAYS,
    FLUID,
    INLET,
    OUTLET,
    STEPS,
    Neighbours,
    Nodes,
    ends_of_links,
    keys_of,
)
from solver.kernels.d3q19 import Q
from solver.kernels.velocity_sets import velocity_set
from solver.runtime.errors import StageError


def check(nodes: Nodes) -> None:
    """Check what every user of node arrays relies on; of a part, what its own nodes tell of it.

    Raises
    ------
    StageError
        Naming the first invariant that does not hold.
    """
    for rules in (_types, _sizes, _values, _order, _links):
        _require(rules(nodes))


def _types(nodes: Nodes) -> dict[str, bool]:
    return {
        "arrays have their types": all(getattr(nodes, name).dtype == kind for name, kind in ARRAYS.items()),
        "arrays have their dimensions": all(
            getattr(nodes, name).shape[1:] == ((3,) if name.endswith("position") else ()) for name in ARRAYS
        ),
    }


def _sizes(nodes: Nodes) -> dict[str, bool]:
    ids = [opening.id for opening in nodes.openings]
    return {
        "there is at least one fluid node": nodes.count > 0,
        "axes are x, y and z": sorted(nodes.axes) == [0, 1, 2],
        "spacing is positive": 0 < nodes.spacing_mm < np.inf,
        "the origin is a place": bool(np.isfinite(nodes.origin_mm).all()),
        "positions lie in the lattice": _in_lattice(nodes, nodes.position) and _in_lattice(nodes, nodes.wall_position),
        "openings are numbered 1..n": ids == list(range(1, len(ids) + 1)),
        "node arrays are equally long": _equally_long(nodes, "position", "tag", "opening", "distance_mm", "part"),
        "wall node arrays are equally long": _equally_long(nodes, "wall_distance_mm", "wall_position"),
        "wall link arrays are equally long": _equally_long(nodes, *_named("wall_link_")),
        "opening link arrays are equally long": _equally_long(nodes, *_named("opening_link_")),
        "corner link arrays are equally long": _equally_long(nodes, *_named("corner_link_")),
    }


def _values(nodes: Nodes) -> dict[str, bool]:
    openings, patches = len(nodes.openings) + 1, len(nodes.patches) + 1
    distances = nodes.wall_link_q, nodes.opening_link_q, nodes.corner_link_q
    profiles = nodes.opening_link_profile, nodes.corner_link_profile
    return {
        "links name existing nodes": _within(nodes.wall_link_node, 0, nodes.count)
        and _within(nodes.opening_link_node, 0, nodes.count)
        and _within(nodes.corner_link_node, 0, nodes.count)
        and _within(nodes.wall_link_wall, 0, len(nodes.wall_position)),
        "link directions are 1..18": _within(nodes.wall_link_direction, 1, Q)
        and _within(nodes.opening_link_direction, 1, Q),
        "directions of links along corners are 19..26": _within(nodes.corner_link_direction, Q, len(STEPS)),
        "link distances are in (0, 1]": all(bool(((q > 0) & (q <= 1)).all()) for q in distances),
        "profiles are in [0, 1]": all(bool(((profile >= 0) & (profile <= 1)).all()) for profile in profiles),
        "nodes and links name existing openings": _within(nodes.opening, 0, openings)
        and _within(nodes.opening_link_opening, 1, openings)
        and _within(nodes.corner_link_opening, 0, openings),
        "links name existing patches": _within(nodes.wall_link_patch, 0, patches)
        and _within(nodes.corner_link_patch, 0, patches),
        "tags are fluid, inlet or outlet": _within(nodes.tag, FLUID, OUTLET + 1),
        "tags ascend": bool((nodes.tag[1:] >= nodes.tag[:-1]).all()),
        "distances of fluid nodes are not negative": bool((nodes.distance_mm >= 0).all()),
        "distances of wall nodes are numbers": not np.isnan(nodes.wall_distance_mm).any(),
        "parts are numbered 0, 1, ... and none is empty": bool((nodes.part >= 0).all() and _part_sizes(nodes).all()),
    }


def _part_sizes(nodes: Nodes) -> NDArray[np.int64]:
    return nodes.whole.sizes if nodes.whole else np.bincount(nodes.part)


def _order(nodes: Nodes) -> dict[str, bool]:
    fluid = all(_sorted(nodes, nodes.position[rows]) for rows in nodes.ranges.values())
    return {"positions are sorted along the axes and differ": fluid and _sorted(nodes, nodes.wall_position)}


def _links(nodes: Nodes) -> dict[str, bool]:
    return {
        "wall links end on their wall nodes": _walls_are_at_the_ends(nodes),
        "every wall node is at the end of a link, or in a corner of the wall": _walls_are_next_to_fluid(nodes),
        "every missing neighbour is behind exactly one link": _links_are_complete(nodes),
        "every missing corner neighbour is behind exactly one link": _corner_links_are_complete(nodes),
        "corner links through the wall end in the lattice": _corner_walls_are_in_the_lattice(nodes),
        "nodes at openings, and no others, have a link through theirs": _openings_are_linked(nodes),
        "tags follow from the roles of the openings": _tags_follow(nodes),
    }


def _require(rules: dict[str, bool]) -> None:
    for rule, holds in rules.items():
        if not holds:
            raise StageError(f"node arrays break the rule that {rule}; run decompose again")


def _named(prefix: str) -> list[str]:
    """Names of the arrays that begin so."""
    return [name for name in ARRAYS if name.startswith(prefix)]


def _equally_long(nodes: Nodes, *names: str) -> bool:
    return len({len(getattr(nodes, name)) for name in names}) == 1


def _within(values: NDArray[np.integer], low: int, high: int) -> bool:
    return bool(((values >= low) & (values < high)).all())


def _in_lattice(nodes: Nodes, position: NDArray[np.integer]) -> bool:
    return bool((position >= 0).all() and (position < nodes.shape[::-1]).all())


def _sorted(nodes: Nodes, position: NDArray[np.int32]) -> bool:
    keys = keys_of(nodes, position)
    return bool((keys[1:] > keys[:-1]).all())


def _walls_are_at_the_ends(nodes: Nodes) -> bool:
    ends = ends_of_links(nodes, nodes.wall_link_node, nodes.wall_link_direction)
    return np.array_equal(ends, nodes.wall_position[nodes.wall_link_wall])


def _corner_walls_are_in_the_lattice(nodes: Nodes) -> bool:
    wall = nodes.corner_link_opening == 0
    return _in_lattice(nodes, ends_of_links(nodes, nodes.corner_link_node[wall], nodes.corner_link_direction[wall]))


def _walls_are_next_to_fluid(nodes: Nodes) -> bool:
    """Whether a fluid node lies diagonally, (1, 1, 1), beside each wall node at which no link ends."""
    alone = nodes.wall_position[np.bincount(nodes.wall_link_wall, minlength=len(nodes.wall_position)) == 0]
    beside = np.concatenate([alone + np.array(diagonal, np.int32) for diagonal in product((-1, 1), repeat=3)])
    beside = np.where(nodes.periodic, beside % np.array(nodes.shape[::-1], np.int32), beside)
    wanted = keys_of(nodes, beside.astype(np.int32))
    fluid = np.zeros(len(wanted), np.bool_)
    for rows in nodes.ranges.values():
        keys = np.append(keys_of(nodes, nodes.position[rows]), np.iinfo(np.int64).max)
        fluid |= keys[np.searchsorted(keys, wanted)] == wanted
    return bool(fluid.reshape(8, -1).any(axis=0).all())


def _links_are_complete(nodes: Nodes) -> bool:
    listed = np.zeros(nodes.count, np.uint32)  # bit i stands for a link in direction i
    for kind in ("wall", "opening"):
        if not _list(listed, getattr(nodes, f"{kind}_link_node"), getattr(nodes, f"{kind}_link_direction")):
            return False  # a link is listed twice
    return _agree(nodes, listed, range(1, Q), False)


def _corner_links_are_complete(nodes: Nodes) -> bool:
    """Whether all links along corners are listed that end on no fluid node, or none at all, as where none are known."""
    if not nodes.links["corner"]:
        return True
    listed = np.zeros(nodes.count, np.uint32)
    known = _list(listed, nodes.corner_link_node, nodes.corner_link_direction)
    return known and _agree(nodes, listed, range(Q, len(STEPS)), True)


def _agree(nodes: Nodes, listed: NDArray[np.uint32], directions: range, cut: bool) -> bool:
    """Whether just those links are listed that end on no fluid node, with `cut` of :func:`_agrees`; of a part those of
    its own nodes, whose ends are all here.
    """
    neighbours = Neighbours(nodes)
    if nodes.whole:
        own, back = nodes.is_own, velocity_set(len(STEPS)).opposite
        return all(_own_agree(listed, neighbours.along(i), own, i, int(back[i]), cut) for i in directions)
    return all(_agrees(listed, neighbours.along(forward), forward, cut) for forward in directions[::2])


@njit(cache=True)
def _list(listed: NDArray[np.uint32], node: NDArray[np.int32], direction: NDArray[np.uint8]) -> bool:
    for k in range(len(node)):
        bit = np.uint32(1) << np.uint32(direction[k])
        if listed[node[k]] & bit:
            return False
        listed[node[k]] |= bit
    return True


@njit(parallel=True, cache=True)
def _agrees(listed: NDArray[np.uint32], ends: NDArray[np.int32], forward: int, cut: bool) -> bool:
    """Whether just those links are listed, in a direction and its opposite, that end on no fluid node.

    With `cut` one between two fluid nodes may be listed as well, from both. No two links in one direction end on the
    same node: as many nodes are reached as there are ends.
    """
    there, back = np.uint32(1) << np.uint32(forward), np.uint32(1) << np.uint32(forward + 1)
    wrong = joined = unlisted = 0
    for n in prange(len(ends)):
        if ends[n] >= 0:
            out, home = (listed[n] & there) != 0, (listed[ends[n]] & back) != 0
            joined += not (out and home and cut)
            wrong += out != home or (out and not cut)
        else:
            wrong += (listed[n] & there) == 0
        unlisted += (listed[n] & back) == 0
    return wrong == 0 and joined == unlisted


# many parameters because compiled loops take arrays, not objects
@njit(parallel=True, cache=True)
def _own_agree(
    listed: NDArray[np.uint32], ends: NDArray[np.int32], own: NDArray[np.bool_], i: int, back: int, cut: bool
) -> bool:
    """The same of a direction and some nodes."""
    there, home = np.uint32(1) << np.uint32(i), np.uint32(1) << np.uint32(back)
    wrong = 0
    for n in prange(len(ends)):
        if own[n]:
            out = (listed[n] & there) != 0
            if ends[n] < 0:
                wrong += not out
            else:
                wrong += out != ((listed[ends[n]] & home) != 0) or (out and not cut)
    return wrong == 0


def _openings_are_linked(nodes: Nodes) -> bool:
    linked = np.zeros(nodes.count, np.bool_)
    own = nodes.opening_link_opening == nodes.opening[nodes.opening_link_node]
    linked[nodes.opening_link_node[own]] = True
    any_link = np.zeros(nodes.count, np.bool_)
    any_link[nodes.opening_link_node] = True
    return bool((linked == (nodes.opening > 0)).all() and (any_link == linked).all())


def _tags_follow(nodes: Nodes) -> bool:
    tags = np.array([FLUID] + [INLET if opening.role == "inlet" else OUTLET for opening in nodes.openings], np.int8)
    return bool((nodes.tag == tags[nodes.opening]).all())
