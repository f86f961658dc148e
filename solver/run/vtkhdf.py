# SPDX-License-Identifier: Apache-2.0
"""VTKHDF 2, the format in which ParaView opens a time series without a script: meshes, point arrays, time steps.

Every file has one mesh for all times. An array with one set of values holds for all times, too.

Source: the VTK File Formats chapter of the VTK documentation, section "VTKHDF File Format".
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import DTypeLike, NDArray

from solver.domain.nodes import Neighbours, Nodes
from solver.domain.whole import blocks_in_order, row_blocks
from solver.kernels.d3q19 import VELOCITIES
from solver.runtime.checksum_trailer import write_checksum_trailer
from solver.runtime.outputs import require_room

CHUNK_ROWS = 65536
"""Rows of a chunk of a point array, at most: as many chunks as a time step needs share its rows evenly."""
CHUNK_IDS = 262144
"""Numbers of a chunk of the mesh, at most: 1 MiB, what HDF5 keeps of an array while it is read."""
TIMES = 256
"""Times of a chunk of the tables of steps."""
PACKED_BYTES = 10
"""Of a node: its place and what lies beside it, packed, about."""

CELL_TYPES = {1: 1, 2: 3, 4: 8, 8: 11}
"""VTK's numbers of vertex, line, pixel and voxel by their corners, which follow x fastest, then y, then z."""

SURFACE_CELLS = ("Vertices", "Lines", "Polygons", "Strips")
"""Kinds of cells of a surface, all of which its file must tell of."""


def begin(file: h5py.File, kind: str) -> h5py.Group:
    """The root of a file for a mesh of a kind, ``UnstructuredGrid`` or ``PolyData``."""
    root = file.create_group("VTKHDF")
    root.attrs["Version"] = np.array((2, 0), dtype=np.int64)
    root.attrs.create("Type", kind.encode(), dtype=h5py.string_dtype("ascii", len(kind)))
    return root


def write_lattice(root: h5py.Group, nodes: Nodes) -> None:
    """Write the fluid nodes as points, x, y, z, LPS, mm, and what lies between them as cells, some after others.

    Other ranks give theirs meanwhile, by :func:`give_lattice`.
    """
    cells, count = Voxels(nodes), nodes.total
    require_room(Path(root.file.filename), PACKED_BYTES * count)
    root.create_dataset("NumberOfPoints", data=[count])
    _pack_blocks(root, "Points", (count, 3), np.float32, _points(nodes))
    _write_cells(root, cells.count, cells.corners, count, cells.blocks())
    kinds = (np.full(_length(some), CELL_TYPES[cells.corners], np.uint8) for some in row_blocks(cells.count, CHUNK_IDS))
    _pack_blocks(root, "Types", (cells.count,), np.uint8, kinds)


def give_lattice(nodes: Nodes) -> None:
    """Give the points and cells of a part to the first rank, which writes them."""
    cells = Voxels(nodes)
    for given in (_points(nodes), cells.blocks()):
        deque(given, maxlen=0)


def _points(nodes: Nodes) -> Iterator[NDArray[np.float32]]:
    """Places of all fluid nodes, some after others."""
    own = np.flatnonzero(nodes.is_own)
    in_order = blocks_in_order(nodes.ranks, nodes.rows[own], nodes.total, nodes.position[own], size=CHUNK_ROWS)
    return (nodes.place_of(position).astype(np.float32) for _, position in in_order)


def write_surface(root: h5py.Group, points_mm: NDArray[np.floating], triangles: NDArray[np.integer]) -> None:
    """Write a surface: points (P, 3), x, y, z, LPS, mm, and triangles (T, 3) of their rows.

    Parameters
    ----------
    root : group of the file to write into.
    points_mm : (P, 3), x, y, z, LPS, mm.
    triangles : (T, 3) rows of the points.
    """
    root.create_dataset("NumberOfPoints", data=[len(points_mm)])
    pack(root, "Points", points_mm.astype(np.float32))
    for kind in SURFACE_CELLS:
        cells = triangles if kind == "Polygons" else triangles[:0]
        _write_cells(root.create_group(kind), len(cells), cells.shape[1], len(points_mm), [cells])


class Voxels:
    """Voxels whose corners are all fluid, as rows of their corners in VTK's order, in that of their first corners.

    Along an axis on which the lattice repeats after one node cells have no extent: pixels, lines. A voxel belongs to
    the rank that has its first corner.

    Attributes
    ----------
    count, corners : how many there are of all nodes, and how many corners each has: 8, 4, 2 or 1.

    Parameters
    ----------
    nodes : the geometry.
    """

    def __init__(self, nodes: Nodes) -> None:
        neighbours = Neighbours(replace(nodes, periodic=(False, False, False)))
        axes = np.eye(3)[np.array(nodes.shape[::-1]) > 1]
        steps = [int(np.flatnonzero((axis == VELOCITIES).all(axis=1))[0]) for axis in axes]
        self._ends = [neighbours.along(step) for step in steps]
        self._nodes, self.corners = nodes, 2 ** len(axes)
        self._own = np.flatnonzero(nodes.is_own)
        self._rows, self._own_rows = nodes.rows, nodes.rows[self._own]
        own = sum(len(self._cells(first, first + CHUNK_ROWS)) for first in self._firsts())
        self.count = int(nodes.ranks.begin_sum(np.array([own]))()[0])

    def _firsts(self) -> range:
        return range(0, self._nodes.total, CHUNK_ROWS)

    def _cells(self, first: int, last: int) -> NDArray[np.int64]:
        """Own cells whose first corners are of these rows among all, (C, corners)."""
        corners = [self._own[slice(*np.searchsorted(self._own_rows, (first, last)).tolist())]]
        for ends in self._ends:
            corners += [np.where(corner >= 0, ends[corner], -1) for corner in corners]
        cells = np.stack(corners, axis=1)
        return self._rows[cells[(cells >= 0).all(axis=1)]]

    def blocks(self) -> Iterator[NDArray[np.int64]]:
        """Some cells after others, (C, corners); on the first rank."""
        for first in self._firsts():
            found = self._nodes.ranks.collect(self._cells(first, first + CHUNK_ROWS))
            if found is not None:
                yield found[np.argsort(found[:, 0])]


def _write_cells(
    group: h5py.Group, count: int, corners: int, points: int, blocks: Iterable[NDArray[np.integer]]
) -> None:
    """Write cells with equally many corners, rows of points, (C, corners) some after others."""
    size = count * corners
    ids = np.int32 if max(size, points) < 2**31 else np.int64  # half to read, and as VTK holds them
    group.create_dataset("NumberOfCells", data=[count])
    group.create_dataset("NumberOfConnectivityIds", data=[size])
    _pack_blocks(group, "Connectivity", (size,), ids, (block.ravel() for block in blocks))
    offsets = (corners * np.arange(some.start, some.stop, dtype=ids) for some in row_blocks(count + 1, CHUNK_IDS))
    _pack_blocks(group, "Offsets", (count + 1,), ids, offsets)


def _length(some: slice) -> int:
    return int(some.stop - some.start)


def pack(group: h5py.Group, name: str, values: NDArray[Any]) -> None:
    """Write an array once and for all, compressed column by column.

    Parameters
    ----------
    group : of the file.
    name : of the data set.
    values : the array.
    """
    _pack_blocks(group, name, values.shape, values.dtype, [values])


def _pack_blocks(
    group: h5py.Group, name: str, shape: tuple[int, ...], kind: DTypeLike, blocks: Iterable[NDArray[Any]]
) -> None:
    """The same of an array whose rows come some after others, in pieces of chunks: each is compressed once."""
    if not np.prod(shape):
        group.create_dataset(name, shape, kind)
        return
    rows = min(shape[0], CHUNK_IDS)
    chunk = (rows, *(1 for _ in shape[1:]))
    data = group.create_dataset(name, shape, kind, chunks=chunk, compression="gzip", compression_opts=1, shuffle=True)
    first, waiting = 0, np.empty((0, *shape[1:]), kind)
    for block in blocks:
        waiting = np.concatenate((waiting, block.astype(kind, copy=False)))
        if full := len(waiting) // rows * rows:
            data[first : first + full] = waiting[:full]
            first, waiting = first + full, waiting[full:]
    data[first:] = waiting


def add_points(data: h5py.Group, name: str, count: int, components: int) -> None:
    """Make room for an array of so many points, which grows by one set of values after the other.

    Parameters
    ----------
    data : group of the point arrays.
    name : of the array.
    count : points of a set of values.
    components : numbers of a point.
    """
    row = () if components == 1 else (components,)
    rows = -(-count // -(-count // CHUNK_ROWS))
    data.create_dataset(name, shape=(0, *row), maxshape=(None, *row), chunks=(rows, *row), dtype=np.float32)


def extend(dataset: h5py.Dataset, values: Any) -> None:
    """Add values at the end of an array that may grow."""
    length = len(dataset)
    dataset.resize(length + len(values), axis=0)
    dataset[length:] = values


class Steps:
    """Tables of the time steps of a file.

    Parameters
    ----------
    root : of the file.
    arrays : names of its point arrays.
    kinds : of cells, 1 or those of a surface.
    """

    def __init__(self, root: h5py.Group, arrays: tuple[str, ...], kinds: int = 1) -> None:
        self._group = root.create_group("Steps")
        self._group.attrs["NSteps"] = 0
        self._of_mesh: dict[str, Any] = {"PartOffsets": 0, "PointOffsets": 0, "NumberOfParts": 1}
        self._of_mesh |= {"CellOffsets": [0] * kinds, "ConnectivityIdOffsets": [0] * kinds}
        self._add(self._group, "Values", np.float64)
        for name, value in self._of_mesh.items():
            self._add(self._group, name, np.int64, np.shape(value))
        self._offsets = self._group.create_group("PointDataOffsets")
        for name in arrays:
            self._add(self._offsets, name, np.int64)

    @staticmethod
    def _add(group: h5py.Group, name: str, dtype: type, row: tuple[int, ...] = ()) -> None:
        group.create_dataset(name, shape=(0, *row), maxshape=(None, *row), chunks=(TIMES, *row), dtype=dtype)

    @property
    def count(self) -> int:
        """Number of steps."""
        return int(self._group.attrs["NSteps"])

    def time_s(self, step: int) -> float:
        """Time of a step."""
        return float(self._group["Values"][step])

    def append(self, time_s: float, first: Mapping[str, int]) -> None:
        """Add a step; `first` is the row of its first value in arrays that change, all others are the same as ever."""
        extend(self._group["Values"], [time_s])
        for name, value in self._of_mesh.items():
            extend(self._group[name], [value])
        for name, offsets in self._offsets.items():
            extend(offsets, [first.get(name, 0)])
        self._group.attrs["NSteps"] = self.count + 1

    def empty(self) -> None:
        """Take all steps out again."""
        self._group.attrs["NSteps"] = 0
        self._group.visititems(_empty)


def _empty(_: str, found: Any) -> None:
    if isinstance(found, h5py.Dataset):
        found.resize(0, axis=0)


def write_still(path: Path, nodes: Nodes, arrays: Mapping[str, NDArray[np.floating]]) -> None:
    """Write a file of arrays at the fluid nodes, (N,) or (N, components), that hold for all times; with a checksum
    trailer.

    Parameters
    ----------
    path : file to write.
    nodes : the geometry.
    arrays : (N,) or (N, components) by name.
    """
    require_room(path, sum(array.nbytes for array in arrays.values()))
    with h5py.File(path, "w") as file:
        root = begin(file, "UnstructuredGrid")
        write_lattice(root, nodes)
        data = root.create_group("PointData")
        for name, values in arrays.items():
            add_points(data, name, nodes.count, 1 if values.ndim == 1 else values.shape[1])
            extend(data[name], values)
    write_checksum_trailer(path)
