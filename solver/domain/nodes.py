"""The node arrays: what the solver knows of the geometry, the file that holds them, and their invariants.

A fluid node is named by its row in the fluid array, a wall node (solid, next to fluid) by its row in the wall array.
Positions are lattice indices ``(x, y, z)``; the place of index ``(0, 0, 0)`` in the patient is ``origin_mm`` (LPS).
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import h5py
import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from solver.kernels.d3q19 import Q
from solver.kernels.velocity_sets import D3Q27
from solver.runtime.checksum_trailer import require_checksum_trailer, write_checksum_trailer
from solver.runtime.errors import StageError
from solver.runtime.outputs import require_room

EXTERNAL, WALL, FLUID, INLET, OUTLET = -1, 0, 1, 2, 3
"""Tags of lattice nodes (int8). INLET and OUTLET are fluid nodes with a link through an opening."""

FORMAT = "hemolattice-nodes-5"

STEPS: Final = D3Q27.velocities.astype(np.int8)
"""Steps to the end of a link along each direction, (27, 3), (x, y, z): those of D3Q19, then 19..26 along corners."""

Number = TypeVar("Number", int, float, bool)


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

    @property
    def count(self) -> int:
        """Number of fluid nodes."""
        return len(self.position)

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
        return self.position[rows] * self.spacing_mm + np.asarray(self.origin_mm)

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
        if not len(self.corner_link_node) and not _corners_are_joined(self):
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
    ends = _ends(nodes, nodes.corner_link_node[links], nodes.corner_link_direction[links])
    position = np.concatenate((nodes.wall_position, ends))
    _, first, number = np.unique(_keys(nodes, position), return_index=True, return_inverse=True)
    known = len(nodes.wall_position)
    new = np.sort(first[first >= known])
    rows = first[number.ravel()[known:]]
    return np.where(rows < known, rows, known + np.searchsorted(new, rows)).astype(np.int32), position[new]


def _ends(nodes: Nodes, node: NDArray[np.integer], direction: NDArray[np.integer]) -> NDArray[np.int32]:
    """Lattice index (x, y, z) of the nodes at the ends of links, (L, 3)."""
    ends = nodes.position[node] + STEPS[direction]
    return np.where(nodes.periodic, ends % np.array(nodes.shape[::-1], np.int32), ends)


def _corners_are_joined(nodes: Nodes) -> bool:
    """Whether there is a fluid node at the end of every link along corners."""
    neighbours = Neighbours(nodes)
    return all((neighbours.along(forward) >= 0).all() for forward in range(Q, len(STEPS), 2))


def save(nodes: Nodes, path: Path) -> None:
    """Write the node arrays as HDF5: one data set an array, the rest as attributes; with a checksum trailer."""
    if nodes.q != Q:
        raise ValueError("node arrays whose links along corners are merged stay in the solver")
    require_room(path, sum(getattr(nodes, name).nbytes for name in ARRAYS))
    with h5py.File(path, "w") as file:
        file.attrs["format"] = FORMAT
        file.attrs["spacing_mm"] = nodes.spacing_mm
        file.attrs["origin_mm"] = nodes.origin_mm
        file.attrs["shape"] = nodes.shape
        file.attrs["periodic"] = nodes.periodic
        file.attrs["axes"] = nodes.axes
        file.attrs["patches"] = json.dumps(nodes.patches)
        file.attrs["openings"] = json.dumps([asdict(opening) for opening in nodes.openings])
        for name in ARRAYS:
            file.create_dataset(name, data=getattr(nodes, name), compression="gzip", compression_opts=1, shuffle=True)
    write_checksum_trailer(path)


def load(path: Path) -> Nodes:
    """Read node arrays and check their invariants.

    Raises
    ------
    StageError
        If the file is not one of ours, is damaged, or breaks an invariant.
    """
    try:
        require_checksum_trailer(path)
        with h5py.File(path, "r") as file:
            if file.attrs.get("format") != FORMAT:
                raise StageError(f"format {file.attrs.get('format')!r}, {FORMAT!r} is wanted; run decompose again")
            arrays: dict[str, Any] = {name: np.asarray(file[name][()]) for name in ARRAYS}
            nodes = Nodes(
                spacing_mm=float(file.attrs["spacing_mm"]),
                origin_mm=_triple(file.attrs["origin_mm"], float),
                shape=_triple(file.attrs["shape"], int),
                openings=parse_openings(json.loads(file.attrs["openings"])),
                periodic=_triple(file.attrs["periodic"], bool),
                axes=_triple(file.attrs["axes"], int),
                patches=tuple(str(name) for name in json.loads(file.attrs["patches"])),
                **arrays,
            )
        check(nodes)
    except StageError as error:
        raise StageError(f"{path}: {error}") from None
    except (OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise StageError(f"{path}: cannot be read as node arrays ({error}); run decompose again") from None
    return nodes


def _triple(values: Any, kind: Callable[[Any], Number]) -> tuple[Number, Number, Number]:
    first, second, third = values
    return kind(first), kind(second), kind(third)


def parse_openings(entries: Any) -> tuple[Opening, ...]:
    """Openings from their entries in a JSON file, as ``dataclasses.asdict`` writes them.

    Raises
    ------
    ValueError
        If a key is missing, unknown or of a wrong kind, or the ids are not 1..n in this order.
    """
    if not (isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)):
        raise ValueError("openings are not a list of objects")
    openings = []
    for number, entry in enumerate(entries, 1):
        if wrong := {field.name for field in fields(Opening)} ^ entry.keys():
            raise ValueError(f"opening {number}: missing or unknown {', '.join(sorted(wrong))}")
        opening = Opening(
            id=int(entry["id"]),
            name=str(entry["name"]),
            role=entry["role"],
            centre_mm=_triple(entry["centre_mm"], float),
            normal=_triple(entry["normal"], float),
            area_mm2=float(entry["area_mm2"]),
            radius_mm=float(entry["radius_mm"]),
        )
        if opening.id != number or opening.role not in ("inlet", "outlet"):
            raise ValueError(f"opening {number}: id {opening.id}, role {opening.role!r}")
        if not (opening.area_mm2 > 0 and opening.radius_mm > 0 and abs(np.linalg.norm(opening.normal) - 1) < 1e-3):
            raise ValueError(f"opening {number}: area and radius are positive, and the normal is a unit vector")
        openings.append(opening)
    return tuple(openings)


def check(nodes: Nodes) -> None:
    """Check what every user of node arrays relies on.

    Raises
    ------
    StageError
        Naming the first invariant that does not hold.
    """
    _require(
        {
            "arrays have their types": all(getattr(nodes, name).dtype == kind for name, kind in ARRAYS.items()),
            "arrays have their dimensions": all(
                getattr(nodes, name).shape[1:] == ((3,) if name.endswith("position") else ()) for name in ARRAYS
            ),
        }
    )
    ids = [opening.id for opening in nodes.openings]
    links = len(nodes.wall_link_node), len(nodes.opening_link_node)
    _require(
        {
            "there is at least one fluid node": nodes.count > 0,
            "axes are x, y and z": sorted(nodes.axes) == [0, 1, 2],
            "spacing is positive": 0 < nodes.spacing_mm < np.inf,
            "the origin is a place": bool(np.isfinite(nodes.origin_mm).all()),
            "positions lie in the lattice": _in_lattice(nodes, nodes.position)
            and _in_lattice(nodes, nodes.wall_position),
            "openings are numbered 1..n": ids == list(range(1, len(ids) + 1)),
            "node arrays are equally long": len(nodes.tag)
            == len(nodes.opening)
            == len(nodes.distance_mm)
            == len(nodes.part)
            == nodes.count,
            "wall node arrays are equally long": len(nodes.wall_distance_mm) == len(nodes.wall_position),
            "wall link arrays are equally long": links[0]
            == len(nodes.wall_link_direction)
            == len(nodes.wall_link_wall)
            == len(nodes.wall_link_q)
            == len(nodes.wall_link_patch),
            "opening link arrays are equally long": links[1]
            == len(nodes.opening_link_direction)
            == len(nodes.opening_link_opening)
            == len(nodes.opening_link_q)
            == len(nodes.opening_link_profile),
            "corner link arrays are equally long": len(nodes.corner_link_node)
            == len(nodes.corner_link_direction)
            == len(nodes.corner_link_q)
            == len(nodes.corner_link_patch)
            == len(nodes.corner_link_opening)
            == len(nodes.corner_link_profile),
        }
    )
    _require(
        {
            "links name existing nodes": _within(nodes.wall_link_node, 0, nodes.count)
            and _within(nodes.opening_link_node, 0, nodes.count)
            and _within(nodes.corner_link_node, 0, nodes.count)
            and _within(nodes.wall_link_wall, 0, len(nodes.wall_position)),
            "link directions are 1..18": _within(nodes.wall_link_direction, 1, Q)
            and _within(nodes.opening_link_direction, 1, Q),
            "directions of links along corners are 19..26": _within(nodes.corner_link_direction, Q, len(STEPS)),
            "link distances are in (0, 1]": all(
                bool(((q > 0) & (q <= 1)).all()) for q in (nodes.wall_link_q, nodes.opening_link_q, nodes.corner_link_q)
            ),
            "profiles are in [0, 1]": all(
                bool(((profile >= 0) & (profile <= 1)).all())
                for profile in (nodes.opening_link_profile, nodes.corner_link_profile)
            ),
            "nodes and links name existing openings": _within(nodes.opening, 0, len(ids) + 1)
            and _within(nodes.opening_link_opening, 1, len(ids) + 1)
            and _within(nodes.corner_link_opening, 0, len(ids) + 1),
            "links name existing patches": _within(nodes.wall_link_patch, 0, len(nodes.patches) + 1)
            and _within(nodes.corner_link_patch, 0, len(nodes.patches) + 1),
            "tags are fluid, inlet or outlet": _within(nodes.tag, FLUID, OUTLET + 1),
            "tags ascend": bool((nodes.tag[1:] >= nodes.tag[:-1]).all()),
            "distances of fluid nodes are not negative": bool((nodes.distance_mm >= 0).all()),
            "distances of wall nodes are numbers": not np.isnan(nodes.wall_distance_mm).any(),
            "parts are numbered 0, 1, ... and none is empty": bool(
                (nodes.part >= 0).all() and np.bincount(nodes.part).all()
            ),
        }
    )
    _require(
        {
            "positions are sorted along the axes and differ": all(
                _sorted(nodes, nodes.position[rows]) for rows in nodes.ranges.values()
            )
            and _sorted(nodes, nodes.wall_position),
        }
    )
    _require(
        {
            "wall links end on their wall nodes": _walls_are_at_the_ends(nodes),
            "every wall node is at the end of a link, or in a corner of the wall": _walls_are_next_to_fluid(nodes),
            "every missing neighbour is behind exactly one link": _links_are_complete(nodes),
            "every missing corner neighbour is behind exactly one link": _corner_links_are_complete(nodes),
            "corner links through the wall end in the lattice": _corner_walls_are_in_the_lattice(nodes),
            "nodes at openings, and no others, have a link through theirs": _openings_are_linked(nodes),
            "tags follow from the roles of the openings": _tags_follow(nodes),
        }
    )


def _require(rules: dict[str, bool]) -> None:
    for rule, holds in rules.items():
        if not holds:
            raise StageError(f"node arrays break the rule that {rule}; run decompose again")


def _within(values: NDArray[np.integer], low: int, high: int) -> bool:
    return bool(((values >= low) & (values < high)).all())


def _in_lattice(nodes: Nodes, position: NDArray[np.integer]) -> bool:
    return bool((position >= 0).all() and (position < nodes.shape[::-1]).all())


def _sorted(nodes: Nodes, position: NDArray[np.int32]) -> bool:
    keys = _keys(nodes, position)
    return bool((keys[1:] > keys[:-1]).all())


def _strides(nodes: Nodes) -> NDArray[np.int64]:
    """Steps of the keys along (x, y, z): those of a lattice with a margin of one node, so that no link wraps around."""
    strides, step = np.empty(3, np.int64), 1
    for axis in nodes.axes:
        strides[axis] = step
        step *= nodes.shape[2 - axis] + 2
    return strides


def _keys(nodes: Nodes, position: NDArray[np.int32]) -> NDArray[np.int64]:
    """Place of each position in the order of the lattice."""
    return flat_index(position, _strides(nodes))


@njit(parallel=True, cache=True)
def flat_index(position: NDArray[np.int32], strides: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places, (N,), in a flattened lattice of positions (N, 3), by its steps along (x, y, z)."""
    place = np.empty(len(position), np.int64)
    for n in prange(len(position)):
        place[n] = position[n, 0] * strides[0] + position[n, 1] * strides[1] + position[n, 2] * strides[2]
    return place


def mean_runs(fluid: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Mean number of fluid nodes, [z, y, x], that follow each other without a gap along (x, y, z)."""
    count = int(np.count_nonzero(fluid))
    begun = []
    for along in (2, 1, 0):
        line = np.moveaxis(fluid, along, 0)
        begun.append(int(np.count_nonzero(line[0])) + int(np.count_nonzero(line[1:] > line[:-1])))
    return count / begun[0], count / begun[1], count / begun[2]


class Neighbours:
    """Finds the fluid nodes at the ends of links, for one direction after the other."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        keys = _keys(nodes, nodes.position)
        self._rows = np.argsort(keys, kind="stable").astype(np.int32)  # three sorted ranges, which it merges
        self._keys = keys[self._rows]

    def along(self, direction: int) -> NDArray[np.int32]:
        """Row of the fluid node at the end of each node's link, (N,); -1 where that is no fluid node.

        Among nodes :meth:`Nodes.with_corners` it is -1 also where a thin wall cuts a link along a corner.
        """
        nodes = self._nodes
        moves = STEPS[direction] * _strides(nodes)
        wraps = STEPS[direction] * np.array(nodes.periodic)
        ends = np.empty(nodes.count, np.int32)
        _find(self._keys, self._rows, nodes.position, moves, wraps, np.array(nodes.shape[::-1]), ends)
        if direction >= Q:  # along the others no link between two fluid nodes leaves the vessel
            ends[nodes.wall_link_node[nodes.wall_link_direction == direction]] = -1
            ends[nodes.opening_link_node[nodes.opening_link_direction == direction]] = -1
        return ends


CHUNK = 1 << 16
"""Nodes that one thread looks up at a time."""


@njit(parallel=True, cache=True)
def _find(
    keys: NDArray[np.int64],
    rows: NDArray[np.int32],
    position: NDArray[np.int32],
    moves: NDArray[np.int64],
    wraps: NDArray[np.int64],
    size: NDArray[np.int64],
    ends: NDArray[np.int32],
) -> None:
    """Row at the end of each link: a search at the start of a chunk and where a link wraps around, else a walk."""
    step = moves.sum()
    for chunk in prange((len(keys) + CHUNK - 1) // CHUNK):
        first, last = chunk * CHUNK, min(len(keys), (chunk + 1) * CHUNK)
        there = np.searchsorted(keys, keys[first] + step)
        before = keys[first] + step
        for k in range(first, last):
            wanted = keys[k] + step
            for axis in range(3):
                if wraps[axis] != 0 and position[rows[k], axis] == (size[axis] - 1 if wraps[axis] > 0 else 0):
                    wanted -= size[axis] * moves[axis]
            if wanted < before:
                there = np.searchsorted(keys, wanted)
            before = wanted
            while there < len(keys) and keys[there] < wanted:
                there += 1
            found = there < len(keys) and keys[there] == wanted
            ends[rows[k]] = rows[there] if found else -1


def _walls_are_at_the_ends(nodes: Nodes) -> bool:
    ends = _ends(nodes, nodes.wall_link_node, nodes.wall_link_direction)
    return np.array_equal(ends, nodes.wall_position[nodes.wall_link_wall])


def _corner_walls_are_in_the_lattice(nodes: Nodes) -> bool:
    wall = nodes.corner_link_opening == 0
    return _in_lattice(nodes, _ends(nodes, nodes.corner_link_node[wall], nodes.corner_link_direction[wall]))


def _walls_are_next_to_fluid(nodes: Nodes) -> bool:
    """Whether a fluid node lies diagonally, (1, 1, 1), beside each wall node at which no link ends."""
    alone = nodes.wall_position[np.bincount(nodes.wall_link_wall, minlength=len(nodes.wall_position)) == 0]
    beside = np.concatenate([alone + np.array(diagonal, np.int32) for diagonal in product((-1, 1), repeat=3)])
    beside = np.where(nodes.periodic, beside % np.array(nodes.shape[::-1], np.int32), beside)
    wanted = _keys(nodes, beside.astype(np.int32))
    fluid = np.zeros(len(wanted), np.bool_)
    for rows in nodes.ranges.values():
        keys = np.append(_keys(nodes, nodes.position[rows]), np.iinfo(np.int64).max)
        fluid |= keys[np.searchsorted(keys, wanted)] == wanted
    return bool(fluid.reshape(8, -1).any(axis=0).all())


def _links_are_complete(nodes: Nodes) -> bool:
    listed = np.zeros(nodes.count, np.uint32)  # bit i stands for a link in direction i
    for kind in ("wall", "opening"):
        if not _list(listed, getattr(nodes, f"{kind}_link_node"), getattr(nodes, f"{kind}_link_direction")):
            return False  # a link is listed twice
    neighbours = Neighbours(nodes)
    return all(_agrees(listed, neighbours.along(forward), forward, False) for forward in range(1, Q, 2))


def _corner_links_are_complete(nodes: Nodes) -> bool:
    """Whether all links along corners are listed that end on no fluid node, or none at all, as where none are known."""
    if not len(nodes.corner_link_node):
        return True
    listed, neighbours = np.zeros(nodes.count, np.uint32), Neighbours(nodes)
    return _list(listed, nodes.corner_link_node, nodes.corner_link_direction) and all(
        _agrees(listed, neighbours.along(forward), forward, True) for forward in range(Q, len(STEPS), 2)
    )


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
