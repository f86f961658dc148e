"""The node arrays: what the solver knows of the geometry, the file that holds them, and their invariants.

A fluid node is named by its row in the fluid array, a wall node (solid, next to fluid) by its row in the wall array.
Positions are lattice indices ``(x, y, z)``; the place of index ``(0, 0, 0)`` in the patient is ``origin_mm`` (LPS).
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import h5py
import numpy as np
from numpy.typing import NDArray

from solver.d3q19 import VELOCITIES, Q
from solver.stage import StageError

EXTERNAL, WALL, FLUID, INLET, OUTLET = -1, 0, 1, 2, 3
"""Tags of lattice nodes (int8). INLET and OUTLET are fluid nodes with a link through an opening."""

FORMAT = "hemolattice-nodes-1"


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
                raise StageError(
                    f"{path}: format {file.attrs.get('format')!r}, {FORMAT!r} is wanted; run decompose again"
                )
            arrays = {name: file[name][()] for name in ARRAYS}
            spacing, origin, shape, periodic = (
                file.attrs[name] for name in ("spacing_mm", "origin_mm", "shape", "periodic")
            )
            openings = json.loads(file.attrs["openings"])
    except (OSError, KeyError, ValueError) as error:
        raise StageError(f"{path}: cannot be read as node arrays ({error}); run decompose again") from None
    nodes = Nodes(
        spacing_mm=float(spacing),
        origin_mm=(float(origin[0]), float(origin[1]), float(origin[2])),
        shape=(int(shape[0]), int(shape[1]), int(shape[2])),
        openings=tuple(
            Opening(**entry | {key: tuple(entry[key]) for key in ("centre_mm", "normal")}) for entry in openings
        ),
        periodic=(bool(periodic[0]), bool(periodic[1]), bool(periodic[2])),
        **arrays,
    )
    try:
        check(nodes)
    except StageError as error:
        raise StageError(f"{path}: {error}") from None
    return nodes


def check(nodes: Nodes) -> None:
    """Check what every user of node arrays relies on.

    Raises
    ------
    StageError
        Naming the first invariant that does not hold.
    """
    keys = _keys(nodes, nodes.position)
    inside = (nodes.position >= 0).all() and (nodes.position < nodes.shape[::-1]).all()
    ids = [opening.id for opening in nodes.openings]
    links = len(nodes.wall_link_node), len(nodes.opening_link_node)
    rules = {
        "there is at least one fluid node": nodes.count > 0,
        "arrays have their types": all(getattr(nodes, name).dtype == kind for name, kind in ARRAYS.items()),
        "spacing is positive": nodes.spacing_mm > 0,
        "positions lie in the lattice": bool(inside),
        "positions are sorted with x fastest and differ": bool((np.diff(keys) > 0).all()),
        "openings are numbered 1..n": ids == list(range(1, len(ids) + 1)),
        "node arrays are equally long": len(nodes.tag) == len(nodes.opening) == nodes.count,
        "wall link arrays are equally long": links[0]
        == len(nodes.wall_link_direction) == len(nodes.wall_link_wall) == len(nodes.wall_link_q),
        "opening link arrays are equally long": links[1]
        == len(nodes.opening_link_direction) == len(nodes.opening_link_opening) == len(nodes.opening_link_q),
    }  # fmt: skip
    _demand(rules)
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
            "opening links name existing openings": _within(nodes.opening_link_opening, 1, len(ids) + 1),
            "tags are fluid, inlet or outlet": bool(np.isin(nodes.tag, (FLUID, INLET, OUTLET)).all()),
        }
    )
    _demand({"every missing neighbour is behind exactly one link": _links_are_complete(nodes)})


def _demand(rules: dict[str, bool]) -> None:
    for rule, holds in rules.items():
        if not holds:
            raise StageError(f"node arrays break the rule that {rule}; run decompose again")


def _within(values: NDArray[np.integer], low: int, high: int) -> bool:
    return bool(((values >= low) & (values < high)).all())


def _keys(nodes: Nodes, position: NDArray[np.integer]) -> NDArray[np.int64]:
    """Place of each position in the x-fastest order of a lattice with a margin of one node."""
    _, height, width = (n + 2 for n in nodes.shape)
    x, y, z = (position[:, k].astype(np.int64) + 1 for k in range(3))
    return (z * height + y) * width + x


def neighbours(nodes: Nodes, direction: int) -> NDArray[np.int32]:
    """Row of the fluid node at the end of each node's link, (N,); -1 where that is no fluid node."""
    ends = nodes.position + VELOCITIES[direction]
    size = np.array(nodes.shape[::-1])
    ends = np.where(nodes.periodic, ends % size, ends)
    return _find(_keys(nodes, nodes.position), _keys(nodes, ends))


def _find(keys: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int32]:
    rows = np.searchsorted(keys, wanted)
    rows[rows == len(keys)] = 0
    return np.where(keys[rows] == wanted, rows, -1).astype(np.int32)


def _links_are_complete(nodes: Nodes) -> bool:
    node = np.concatenate((nodes.wall_link_node, nodes.opening_link_node)).astype(np.int64)
    direction = np.concatenate((nodes.wall_link_direction, nodes.opening_link_direction))
    listed = np.sort(node * Q + direction)
    missing = [np.flatnonzero(neighbours(nodes, i) < 0) * Q + i for i in range(1, Q)]
    return np.array_equal(listed, np.sort(np.concatenate(missing)))
