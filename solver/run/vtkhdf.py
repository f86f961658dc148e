# SPDX-License-Identifier: Apache-2.0
"""VTKHDF 2, the format in which ParaView opens a time series without a script: meshes, point arrays, time steps.

Every file has one mesh for all times. An array with one set of values holds for all times, too.

Source: the VTK File Formats chapter of the VTK documentation, section "VTKHDF File Format".
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from solver.domain.nodes import Neighbours, Nodes
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
    """Write the fluid nodes as points, x, y, z, LPS, mm, and what lies between them as cells."""
    cells = voxels(nodes)
    require_room(Path(root.file.filename), PACKED_BYTES * nodes.count)
    root.create_dataset("NumberOfPoints", data=[nodes.count])
    pack(root, "Points", nodes.points_mm().astype(np.float32))
    _write_cells(root, cells, nodes.count)
    pack(root, "Types", np.full(len(cells), CELL_TYPES[cells.shape[1]], np.uint8))


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
        _write_cells(root.create_group(kind), cells, len(points_mm))


def voxels(nodes: Nodes) -> NDArray[np.int64]:
    """Rows of the eight corners of every voxel whose corners are all fluid, (C, 8), in VTK's order.

    Along an axis on which the lattice repeats after one node cells have no extent: pixels (C, 4), lines (C, 2).
    """
    neighbours = Neighbours(replace(nodes, periodic=(False, False, False)))
    corners = [np.arange(nodes.count)]
    for axis in np.eye(3)[np.array(nodes.shape[::-1]) > 1]:
        ends = neighbours.along(int(np.flatnonzero((axis == VELOCITIES).all(axis=1))[0]))
        corners += [np.where(corner >= 0, ends[corner], -1) for corner in corners]
    cells = np.stack(corners, axis=1)
    return cells[(cells >= 0).all(axis=1)]


def _write_cells(group: h5py.Group, cells: NDArray[np.integer], points: int) -> None:
    """Write cells with equally many corners, rows of points, (C, corners)."""
    ids = np.int32 if max(cells.size, points) < 2**31 else np.int64  # half to read, and as VTK holds them
    group.create_dataset("NumberOfCells", data=[len(cells)])
    group.create_dataset("NumberOfConnectivityIds", data=[cells.size])
    pack(group, "Connectivity", cells.ravel().astype(ids))
    pack(group, "Offsets", cells.shape[1] * np.arange(len(cells) + 1, dtype=ids))


def pack(group: h5py.Group, name: str, values: NDArray[Any]) -> None:
    """Write an array once and for all, compressed column by column.

    Parameters
    ----------
    group : of the file.
    name : of the data set.
    values : the array.
    """
    if not values.size:
        group.create_dataset(name, data=values)
        return
    chunk = (min(len(values), CHUNK_IDS), *(1 for _ in values.shape[1:]))
    group.create_dataset(name, data=values, chunks=chunk, compression="gzip", compression_opts=1, shuffle=True)


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
