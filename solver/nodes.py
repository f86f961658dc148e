"""The node arrays: what the solver knows of the geometry, the file that holds them, and their invariants.

A fluid node is named by its row in the fluid array, a wall node (solid, next to fluid) by its row in the wall array.
Positions are lattice indices ``(x, y, z)``; the place of index ``(0, 0, 0)`` in the patient is ``origin_mm`` (LPS).
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

import h5py
import numpy as np
from numba import njit
from numpy.typing import NDArray

from solver.d3q19 import VELOCITIES, Q
from solver.stage import StageError

EXTERNAL, WALL, FLUID, INLET, OUTLET = -1, 0, 1, 2, 3
"""Tags of lattice nodes (int8). INLET and OUTLET are fluid nodes with a link through an opening."""

FORMAT = "hemolattice-nodes-1"

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

    Attributes
    ----------
    spacing_mm : distance of neighbouring nodes along an axis, mm.
    origin_mm : place of lattice index (0, 0, 0), (x, y, z), LPS, mm.
    shape : nodes of the bounding lattice along (z, y, x).
    openings : one entry an opening, in the order of their ids 1..n.
    position : (N, 3) int32, lattice index (x, y, z) of each fluid node, sorted with x running fastest.
    tag : (N,) int8, FLUID, INLET or OUTLET.
    opening : (N,) int8, opening that a link of the node crosses (the nearest one), 0 for none.
    wall_position : (W, 3) int32, lattice index (x, y, z) of each wall node, x fastest.
    wall_link_node : (L,) int32, row of the fluid node.
    wall_link_direction : (L,) uint8, direction from the fluid node into the wall.
    wall_link_wall : (L,) int32, row of the wall node at the link's far end.
    wall_link_q : (L,) float32, distance to the surface over the length of the link, in (0, 1].
    opening_link_node, opening_link_direction : as for walls, (K,).
    opening_link_opening : (K,) int8, id of the opening that the link crosses first.
    opening_link_q : (K,) float32, distance to the cap over the length of the link, in (0, 1].
    periodic : whether the lattice repeats along (x, y, z); links across such a border join fluid nodes.
    """

    spacing_mm: float
    origin_mm: tuple[float, float, float]
    shape: tuple[int, int, int]
    openings: tuple[Opening, ...]
    position: NDArray[np.int32]
    tag: NDArray[np.int8]
    opening: NDArray[np.int8]
    wall_position: NDArray[np.int32]
    wall_link_node: NDArray[np.int32]
    wall_link_direction: NDArray[np.uint8]
    wall_link_wall: NDArray[np.int32]
    wall_link_q: NDArray[np.float32]
    opening_link_node: NDArray[np.int32]
    opening_link_direction: NDArray[np.uint8]
    opening_link_opening: NDArray[np.int8]
    opening_link_q: NDArray[np.float32]
    periodic: tuple[bool, bool, bool] = (False, False, False)

    @property
    def count(self) -> int:
        """Number of fluid nodes."""
        return len(self.position)

    def points_mm(self) -> NDArray[np.float64]:
        """Places of the fluid nodes, (N, 3), (x, y, z), LPS, mm."""
        return self.position * self.spacing_mm + np.asarray(self.origin_mm)


ARRAYS: dict[str, type] = {
    "position": np.int32,
    "tag": np.int8,
    "opening": np.int8,
    "wall_position": np.int32,
    "wall_link_node": np.int32,
    "wall_link_direction": np.uint8,
    "wall_link_wall": np.int32,
    "wall_link_q": np.float32,
    "opening_link_node": np.int32,
    "opening_link_direction": np.uint8,
    "opening_link_opening": np.int8,
    "opening_link_q": np.float32,
}
"""The arrays of :class:`Nodes` and their types, as they stand in the file."""


def save(nodes: Nodes, path: Path) -> None:
    """Write the node arrays as HDF5: one data set an array, the rest as attributes."""
    with h5py.File(path, "w") as file:
        file.attrs["format"] = FORMAT
        file.attrs["spacing_mm"] = nodes.spacing_mm
        file.attrs["origin_mm"] = nodes.origin_mm
        file.attrs["shape"] = nodes.shape
        file.attrs["periodic"] = nodes.periodic
        file.attrs["openings"] = json.dumps([asdict(opening) for opening in nodes.openings])
        for name in ARRAYS:
            file.create_dataset(name, data=getattr(nodes, name), compression="gzip", compression_opts=1, shuffle=True)


def load(path: Path) -> Nodes:
    """Read node arrays and check their invariants.

    Raises
    ------
    StageError
        If the file is not one of ours, is damaged, or breaks an invariant.
    """
    try:
        with h5py.File(path, "r") as file:
            if file.attrs.get("format") != FORMAT:
                raise StageError(f"format {file.attrs.get('format')!r}, {FORMAT!r} is wanted; run decompose again")
            nodes = Nodes(
                spacing_mm=float(file.attrs["spacing_mm"]),
                origin_mm=_triple(file.attrs["origin_mm"], float),
                shape=_triple(file.attrs["shape"], int),
                openings=parse_openings(json.loads(file.attrs["openings"])),
                periodic=_triple(file.attrs["periodic"], bool),
                **{name: np.asarray(file[name][()]) for name in ARRAYS},
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
    _demand(
        {
            "arrays have their types": all(getattr(nodes, name).dtype == kind for name, kind in ARRAYS.items()),
            "arrays have their dimensions": all(
                getattr(nodes, name).shape[1:] == ((3,) if name.endswith("position") else ()) for name in ARRAYS
            ),
        }
    )
    ids = [opening.id for opening in nodes.openings]
    links = len(nodes.wall_link_node), len(nodes.opening_link_node)
    _demand(
        {
            "there is at least one fluid node": nodes.count > 0,
            "spacing is positive": 0 < nodes.spacing_mm < np.inf,
            "the origin is a place": bool(np.isfinite(nodes.origin_mm).all()),
            "positions lie in the lattice": _in_lattice(nodes, nodes.position)
            and _in_lattice(nodes, nodes.wall_position),
            "positions are sorted with x fastest and differ": _sorted(nodes, nodes.position)
            and _sorted(nodes, nodes.wall_position),
            "openings are numbered 1..n": ids == list(range(1, len(ids) + 1)),
            "node arrays are equally long": len(nodes.tag) == len(nodes.opening) == nodes.count,
            "wall link arrays are equally long": links[0]
            == len(nodes.wall_link_direction) == len(nodes.wall_link_wall) == len(nodes.wall_link_q),
            "opening link arrays are equally long": links[1]
            == len(nodes.opening_link_direction) == len(nodes.opening_link_opening) == len(nodes.opening_link_q),
        }
    )  # fmt: skip
    _demand(
        {
            "links name existing nodes": _within(nodes.wall_link_node, 0, nodes.count)
            and _within(nodes.opening_link_node, 0, nodes.count)
            and _within(nodes.wall_link_wall, 0, len(nodes.wall_position)),
            "link directions are 1..18": _within(nodes.wall_link_direction, 1, Q)
            and _within(nodes.opening_link_direction, 1, Q),
            "link distances are in (0, 1]": all(
                bool(((q > 0) & (q <= 1)).all()) for q in (nodes.wall_link_q, nodes.opening_link_q)
            ),
            "nodes and links name existing openings": _within(nodes.opening, 0, len(ids) + 1)
            and _within(nodes.opening_link_opening, 1, len(ids) + 1),
            "tags are fluid, inlet or outlet": bool(np.isin(nodes.tag, (FLUID, INLET, OUTLET)).all()),
        }
    )
    _demand(
        {
            "wall links end on their wall nodes": _walls_are_at_the_ends(nodes),
            "every missing neighbour is behind exactly one link": _links_are_complete(nodes),
        }
    )


def _demand(rules: dict[str, bool]) -> None:
    for rule, holds in rules.items():
        if not holds:
            raise StageError(f"node arrays break the rule that {rule}; run decompose again")


def _within(values: NDArray[np.integer], low: int, high: int) -> bool:
    return bool(((values >= low) & (values < high)).all())


def _in_lattice(nodes: Nodes, position: NDArray[np.integer]) -> bool:
    return bool((position >= 0).all() and (position < nodes.shape[::-1]).all())


def _sorted(nodes: Nodes, position: NDArray[np.integer]) -> bool:
    return bool((np.diff(_keys(nodes, position)) > 0).all())


def _strides(nodes: Nodes) -> NDArray[np.int64]:
    """Steps of the keys along (x, y, z): those of a lattice with a margin of one node, so that no link wraps around."""
    _, height, width = (n + 2 for n in nodes.shape)
    return np.array((1, width, width * height))


def _keys(nodes: Nodes, position: NDArray[np.integer]) -> NDArray[np.int64]:
    """Place of each position in the x-fastest order."""
    return position @ _strides(nodes)


def neighbours(nodes: Nodes, direction: int) -> NDArray[np.int32]:
    """Row of the fluid node at the end of each node's link, (N,); -1 where that is no fluid node."""
    keys = _keys(nodes, nodes.position)
    return _find(keys, _end_keys(nodes, keys, direction))


def _end_keys(nodes: Nodes, keys: NDArray[np.int64], direction: int) -> NDArray[np.int64]:
    moves = VELOCITIES[direction] * _strides(nodes)
    ends = keys + moves.sum()
    for axis in np.flatnonzero(moves * nodes.periodic):
        size = nodes.shape[2 - axis]
        leaving = nodes.position[:, axis] == (size - 1 if moves[axis] > 0 else 0)
        ends[leaving] -= size * moves[axis]
    return ends


@njit(cache=True)
def _find(keys: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int32]:
    """Row of each wanted key among the sorted keys, -1 where it is missing; linear where the wanted keys rise."""
    rows = np.full(len(wanted), -1, np.int32)
    row = 0
    for k in range(len(wanted)):
        if k > 0 and wanted[k] < wanted[k - 1]:  # across a periodic border
            row = np.searchsorted(keys, wanted[k])
        while row < len(keys) and keys[row] < wanted[k]:
            row += 1
        if row < len(keys) and keys[row] == wanted[k]:
            rows[k] = row
    return rows


def _walls_are_at_the_ends(nodes: Nodes) -> bool:
    ends = nodes.position[nodes.wall_link_node] + VELOCITIES[nodes.wall_link_direction]
    size = np.array(nodes.shape[::-1])
    return np.array_equal(np.where(nodes.periodic, ends % size, ends), nodes.wall_position[nodes.wall_link_wall])


def _links_are_complete(nodes: Nodes) -> bool:
    listed = np.zeros((Q, nodes.count), np.bool_)
    listed[nodes.wall_link_direction, nodes.wall_link_node] = True
    listed[nodes.opening_link_direction, nodes.opening_link_node] = True
    if listed.sum() != len(nodes.wall_link_node) + len(nodes.opening_link_node):
        return False  # a link is listed twice
    keys = _keys(nodes, nodes.position)
    for forward in range(1, Q, 2):
        ends = _find(keys, _end_keys(nodes, keys, forward))
        reached = np.zeros(nodes.count, np.bool_)
        reached[ends[ends >= 0]] = True
        if (listed[forward] != (ends < 0)).any() or (listed[forward + 1] == reached).any():
            return False
    return True
