# SPDX-License-Identifier: Apache-2.0
"""The node arrays: what the solver knows of the geometry.

A fluid node is named by its row in the fluid array, a wall node (solid, next to fluid) by its row in the wall array.
Positions are lattice indices ``(x, y, z)``; the place of index ``(0, 0, 0)`` in the patient is ``origin_mm`` (LPS).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from solver.domain.node_search import find_rows, flat_index
from solver.domain.whole import ALONE, Ranks, Whole, sum_in_order
from solver.kernels.d3q19 import Q
from solver.kernels.velocity_sets import D3Q27
from solver.runtime.errors import StageError

EXTERNAL, WALL, FLUID, INLET, OUTLET = -1, 0, 1, 2, 3
"""Tags of lattice nodes (int8). INLET and OUTLET are fluid nodes with a link through an opening."""

STEPS: Final = D3Q27.velocities.astype(np.int8)
"""Steps to the end of a link along each direction, (27, 3), (x, y, z): those of D3Q19, then 19..26 along corners."""


@dataclass(frozen=True)
class Opening:
    """A cut end of the vessel and the flat cap that closes it.

    Attributes
    ----------
    id : 1, 2, ... as in the ``opening`` arrays; 0 there means wall or none.
    name : how the case calls it.
    role : ``inlet`` or ``outlet``.
    centre_mm : centroid of the cap, (x, y, z), LPS, mm.
    normal : unit vector out of the vessel, (x, y, z), LPS.
    area_mm2 : area of the cap.
    radius_mm : equivalent radius, sqrt(area / pi).
    """

    id: int
    name: str
    role: Literal["inlet", "outlet"]
    centre_mm: tuple[float, float, float]
    normal: tuple[float, float, float]
    area_mm2: float
    radius_mm: float

    @property
    def across(self) -> NDArray[np.float64]:
        """Two directions on the cap, (3, 2): unit vectors at right angles to each other and to the normal."""
        return np.asarray(np.linalg.svd(np.asarray(self.normal)[None])[2][1:].T)


@dataclass(frozen=True)
class Nodes:
    """Fluid nodes, wall nodes and the links that cross the surface.

    Fluid nodes stand in three ranges, those tagged FLUID, INLET and OUTLET, each in the order of the lattice with the
    first of `axes` running fastest; so do wall nodes in one range.

    Attributes
    ----------
    spacing_mm : distance of neighbouring nodes along an axis, mm.
    origin_mm : place of lattice index (0, 0, 0), (x, y, z), LPS, mm.
    shape : nodes of the bounding lattice along (z, y, x).
    openings : one entry an opening, in the order of their ids 1..n.
    position : (N, 3) int32, lattice index (x, y, z) of each fluid node.
    tag : (N,) int8, FLUID, INLET or OUTLET, ascending.
    opening : (N,) int8, opening that a link of the node crosses (the nearest one), 0 for none.
    distance_mm : (N,) float32, distance of each fluid node to the wall's surface, mm; infinite where it is farther
        away than the band in which distances are kept.
    part : (N,) int16, part of the domain (0, 1, ...) that each fluid node belongs to.
    wall_position : (W, 3) int32, lattice index (x, y, z) of each wall node.
    wall_distance_mm : (W,) float32, signed distance of each wall node to the wall's surface, mm, negative outside the
        vessel; infinite where it is not known.
    wall_link_node : (L,) int32, row of the fluid node.
    wall_link_direction : (L,) uint8, direction from the fluid node into the wall.
    wall_link_wall : (L,) int32, row of the wall node at the link's far end.
    wall_link_q : (L,) float32, distance to the surface over the length of the link, in (0, 1].
    wall_link_patch : (L,) int8, the patch of the wall that the link crosses: 1, 2, ... in the order of `patches`, 0 for
        none of them.
    opening_link_node, opening_link_direction : as for walls, (K,).
    opening_link_opening : (K,) int8, id of the opening that the link crosses first.
    opening_link_q : (K,) float32, distance to the cap over the length of the link, in (0, 1].
    opening_link_profile : (K,) float32, fully developed velocity at the middle of the link over its largest, in [0, 1]:
        phi of Laplace(phi) = -1 on the cap with 0 on its rim, the same all along the cap's normal, 0 outside.
    corner_link_node : (C,) int32, row of the fluid node of links along corners, (1, 1, 1): those that end on no fluid
        node, and those between two fluid nodes, listed from both, that leave the vessel on their way where nothing
        joins the two inside. C is 0 where they are not known.
    corner_link_direction : (C,) uint8, 19..26, from the fluid node into the wall or opening.
    corner_link_q : (C,) float32, distance to the surface over the length of the link, in (0, 1].
    corner_link_patch : (C,) int8, the patch of the wall that the link crosses first, 0 for none.
    corner_link_opening : (C,) int8, id of the opening that the link crosses first, 0 for a wall.
    corner_link_profile : (C,) float32, as of opening links; 0 for a wall.
    periodic : whether the lattice repeats along (x, y, z); links across such a border join fluid nodes.
    patches : names of parts of the wall that can be told from the rest, to move or to slip.
    axes : axes (0: x, 1: y, 2: z) from the one that runs fastest in the order of the nodes to the slowest.
    q : directions that wall and opening links are listed for: 19, or 27 behind :meth:`with_corners`.
    whole : all nodes, where these are those of a part of them and around it; none where these are all.
    """

    spacing_mm: float
    origin_mm: tuple[float, float, float]
    shape: tuple[int, int, int]
    openings: tuple[Opening, ...]
    position: NDArray[np.int32]
    tag: NDArray[np.int8]
    opening: NDArray[np.int8]
    distance_mm: NDArray[np.float32]
    part: NDArray[np.int16]
    wall_position: NDArray[np.int32]
    wall_distance_mm: NDArray[np.float32]
    wall_link_node: NDArray[np.int32]
    wall_link_direction: NDArray[np.uint8]
    wall_link_wall: NDArray[np.int32]
    wall_link_q: NDArray[np.float32]
    wall_link_patch: NDArray[np.int8]
    opening_link_node: NDArray[np.int32]
    opening_link_direction: NDArray[np.uint8]
    opening_link_opening: NDArray[np.int8]
    opening_link_q: NDArray[np.float32]
    opening_link_profile: NDArray[np.float32]
    periodic: tuple[bool, bool, bool] = (False, False, False)
    patches: tuple[str, ...] = ()
    axes: tuple[int, int, int] = (0, 1, 2)
    corner_link_node: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    corner_link_direction: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))
    corner_link_q: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, np.float32))
    corner_link_patch: NDArray[np.int8] = field(default_factory=lambda: np.empty(0, np.int8))
    corner_link_opening: NDArray[np.int8] = field(default_factory=lambda: np.empty(0, np.int8))
    corner_link_profile: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, np.float32))
    q: int = Q
    whole: Whole | None = None

    @property
    def extent(self) -> tuple[int, int, int]:
        """Nodes from the first to the last of all fluid nodes along (x, y, z)."""
        if self.whole:
            return self.whole.extent
        x, y, z = (np.ptp(self.position, axis=0) + 1).tolist()
        return x, y, z

    @property
    def one_layer(self) -> bool:
        """Whether the fluid nodes are one layer along an axis, so that an area is a height."""
        return 1 in self.extent

    @property
    def count(self) -> int:
        """Number of fluid nodes that are here."""
        return len(self.position)

    @property
    def total(self) -> int:
        """Number of all fluid nodes."""
        return self.whole.count if self.whole else self.count

    @property
    def links(self) -> Mapping[str, int]:
        """How many links all fluid nodes have of each kind, see :class:`solver.domain.whole.Whole`."""
        if self.whole:
            return self.whole.links
        found = {kind: len(getattr(self, f"{kind}_link_node")) for kind in ("wall", "opening", "corner")}
        return found | {"corner through": int(np.count_nonzero(self.corner_link_opening))}

    @property
    def ranks(self) -> Ranks:
        """Processes that have all fluid nodes together."""
        return self.whole.ranks if self.whole else ALONE

    @property
    def rows(self) -> NDArray[np.signedinteger]:
        """Rows of the nodes that are here among all, (N,), ascending."""
        return self.whole.rows if self.whole else np.arange(self.count)

    def among_here(self, rows: NDArray[np.integer]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Nodes that are here of some rows among all, (K,), and which of the rows these are."""
        place = np.minimum(np.searchsorted(self.rows, rows), self.count - 1)
        there = np.flatnonzero(self.rows[place] == rows)
        return place[there], there

    @property
    def is_own(self) -> NDArray[np.bool_]:
        """Which of the nodes that are here belong to this process alone, (N,)."""
        return self.part == self.whole.ranks.rank if self.whole else np.ones(self.count, np.bool_)

    @property
    def ranges(self) -> dict[int, slice]:
        """Rows of the nodes of each tag."""
        tags = (FLUID, INLET, OUTLET)
        bounds = np.searchsorted(self.tag, [*tags, OUTLET + 1]).tolist()
        return {tag: slice(*ends) for tag, ends in zip(tags, pairwise(bounds), strict=True)}

    @property
    def parts(self) -> int:
        """Number of parts of the domain."""
        return int(self.part.max(initial=0)) + 1

    def points_mm(self, rows: slice | NDArray[np.integer] = slice(None)) -> NDArray[np.float64]:
        """Places of the fluid nodes, or of some of them, (N, 3), (x, y, z), LPS, mm."""
        return self.place_of(self.position[rows])

    def place_of(self, position: NDArray[np.integer]) -> NDArray[np.float64]:
        """Places of lattice indices, (..., 3), (x, y, z), LPS, mm."""
        return position * self.spacing_mm + np.asarray(self.origin_mm)

    def place_mm(self, row: int) -> NDArray[np.float64]:
        """Place of the fluid node of a row among all, (3,), (x, y, z), LPS, mm; all ranks ask together."""
        here, _ = self.among_here(np.array([row]))
        position = self.position[here[self.is_own[here]]].sum(axis=0, dtype=np.int64)
        return self.place_of(self.ranks.begin_sum(position)())

    def sum_of_own(self, values: NDArray[np.float64]) -> float:
        """Sum over all fluid nodes of what each rank has of its own, (n,); no bit of it depends on the ranks."""
        return sum_in_order(self.ranks, self.rows[self.is_own], self.total, values)

    def with_corners(self) -> "Nodes":
        """The same for a solver with 27 populations: links along corners stand among those of wall and openings.

        They follow the others, sorted by direction and node. Ends that are no wall node so far, behind the rim of a cap
        or in the fluid on the other side of a thin wall, become one, behind the others; their distance is infinite.

        Raises
        ------
        StageError
            If the links along corners are not known.
        """
        if self.q == len(STEPS):
            return self
        if not self.links["corner"] and not _corners_are_joined(self):
            raise StageError("node arrays were made without links along corners; run decompose again")
        order = np.lexsort((self.corner_link_node, self.corner_link_direction))
        wall, through = (order[(self.corner_link_opening[order] > 0) == kind] for kind in (False, True))
        rows, position = _wall_rows(self, wall)
        return replace(
            self,
            wall_position=np.concatenate((self.wall_position, position)),
            wall_distance_mm=np.pad(self.wall_distance_mm, (0, len(position)), constant_values=np.inf),
            wall_link_wall=np.concatenate((self.wall_link_wall, rows)),
            **_appended(self, "wall", ("node", "direction", "q", "patch"), wall),
            **_appended(self, "opening", ("node", "direction", "q", "opening", "profile"), through),
            **{name: getattr(self, name)[:0] for name in ARRAYS if name.startswith("corner_link")},
            q=len(STEPS),
        )


ARRAYS: dict[str, type] = {
    "position": np.int32,
    "tag": np.int8,
    "opening": np.int8,
    "distance_mm": np.float32,
    "part": np.int16,
    "wall_position": np.int32,
    "wall_distance_mm": np.float32,
    "wall_link_node": np.int32,
    "wall_link_direction": np.uint8,
    "wall_link_wall": np.int32,
    "wall_link_q": np.float32,
    "wall_link_patch": np.int8,
    "opening_link_node": np.int32,
    "opening_link_direction": np.uint8,
    "opening_link_opening": np.int8,
    "opening_link_q": np.float32,
    "opening_link_profile": np.float32,
    "corner_link_node": np.int32,
    "corner_link_direction": np.uint8,
    "corner_link_q": np.float32,
    "corner_link_patch": np.int8,
    "corner_link_opening": np.int8,
    "corner_link_profile": np.float32,
}
"""The arrays of :class:`Nodes` and their types, as they stand in the file."""


def _appended(nodes: Nodes, kind: str, names: tuple[str, ...], rows: NDArray[np.integer]) -> dict[str, Any]:
    """Arrays of the links of a kind, and behind them those of some links along corners."""
    return {
        f"{kind}_link_{name}": np.concatenate(
            (getattr(nodes, f"{kind}_link_{name}"), getattr(nodes, f"corner_link_{name}")[rows])
        )
        for name in names
    }


def _wall_rows(nodes: Nodes, links: NDArray[np.integer]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Rows of the wall nodes at the ends of links along corners, (C,), and positions of those to append, (A, 3)."""
    ends = ends_of_links(nodes, nodes.corner_link_node[links], nodes.corner_link_direction[links])
    position = np.concatenate((nodes.wall_position, ends))
    _, first, number = np.unique(keys_of(nodes, position), return_index=True, return_inverse=True)
    known = len(nodes.wall_position)
    new = np.sort(first[first >= known])
    rows = first[number.ravel()[known:]]
    return np.where(rows < known, rows, known + np.searchsorted(new, rows)).astype(np.int32), position[new]


def ends_of_links(nodes: Nodes, node: NDArray[np.integer], direction: NDArray[np.integer]) -> NDArray[np.int32]:
    """Lattice index (x, y, z) of the nodes at the ends of links, (L, 3).

    Parameters
    ----------
    nodes : the node arrays.
    node : (L,) row of the fluid node at which each link begins.
    direction : (L,) direction of each link.
    """
    ends = nodes.position[node] + STEPS[direction]
    return np.where(nodes.periodic, ends % np.array(nodes.shape[::-1], np.int32), ends)


def _corners_are_joined(nodes: Nodes) -> bool:
    """Whether there is a fluid node at the end of every link along corners."""
    neighbours, own = Neighbours(nodes), nodes.is_own
    return all((neighbours.along(forward)[own] >= 0).all() for forward in range(Q, len(STEPS), 2))


def _strides(nodes: Nodes) -> NDArray[np.int64]:
    """Steps of the keys along (x, y, z): those of a lattice with a margin of one node, so that no link wraps around."""
    strides, step = np.empty(3, np.int64), 1
    for axis in nodes.axes:
        strides[axis] = step
        step *= nodes.shape[2 - axis] + 2
    return strides


def keys_of(nodes: Nodes, position: NDArray[np.int32]) -> NDArray[np.int64]:
    """Place of each position in the order of the lattice."""
    return flat_index(position, _strides(nodes))


def only_at(nodes: Nodes, position: NDArray[np.int32]) -> Nodes:
    """The same lattice with fluid nodes at these places alone, (N, 3), of which only their neighbours can be asked."""
    return replace(nodes, position=position, whole=None)


class Neighbours:
    """Finds the fluid nodes at the ends of links, for one direction after the other."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        keys = keys_of(nodes, nodes.position)
        self._rows = np.argsort(keys, kind="stable").astype(np.int32)  # three sorted ranges, which it merges
        self._keys = keys[self._rows]

    def along(self, direction: int) -> NDArray[np.int32]:
        """Row of the fluid node at the end of each node's link, (N,); -1 where that is no fluid node.

        Among nodes :meth:`Nodes.with_corners` it is -1 also where a thin wall cuts a link along a corner.
        """
        ends = self.table((direction,))[:, 0]
        nodes = self._nodes
        if direction >= Q:  # along the others no link between two fluid nodes leaves the vessel
            ends[nodes.wall_link_node[nodes.wall_link_direction == direction]] = -1
            ends[nodes.opening_link_node[nodes.opening_link_direction == direction]] = -1
        return ends

    def table(self, directions: Sequence[int]) -> NDArray[np.int32]:
        """The same for several directions at once, (N, directions); a link that a thin wall cuts is kept.

        Parameters
        ----------
        directions : numbers of those in `STEPS`.
        """
        nodes, steps = self._nodes, STEPS[list(directions)]
        moves = steps * _strides(nodes)
        wraps = steps * np.array(nodes.periodic)
        ends = np.empty((nodes.count, len(moves)), np.int32)
        find_rows(self._keys, self._rows, nodes.position, moves, wraps, np.array(nodes.shape[::-1]), ends)
        return ends
