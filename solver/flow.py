"""The flow file: velocity, pressure and viscous stress at the fluid nodes over time, which ParaView opens as it is.

VTKHDF 2, type UnstructuredGrid with a static mesh and a time series; means over time stand beside it once, for all
times. Points are the fluid nodes in the order of the
node arrays (x, y, z, LPS, mm); cells are the voxels whose eight corners are all fluid. The viscous stress is
sigma = -(1 - 1/(2 tau)) Pi = 2 mu S, in the order XX, YY, ZZ, XY, YZ, XZ of VTK: with n the normal out of the fluid,
sigma.n is the traction of the wall on the fluid, against the flow; -sigma.n drags the wall along the flow.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from solver.d3q19 import VELOCITIES
from solver.nodes import Neighbours, Nodes
from solver.stage import StageError

FIELDS = {"velocity_m_s": 3, "pressure_pa": 1, "viscous_stress_pa": 6}
"""Point arrays and their numbers of components."""

VARYING = {"viscosity_pa_s": 1}
"""The effective viscosity, beside them where it varies."""

MEANS = {"velocity_m_s": "velocity_mean_m_s", "pressure_pa": "pressure_mean_pa",
         "viscous_stress_pa": "viscous_stress_mean_pa", "viscosity_pa_s": "viscosity_mean_pa_s"}  # fmt: skip
"""Their means over time."""

VOXEL = 11
"""VTK's number for a cell whose corners follow x fastest, then y, then z."""


def voxels(nodes: Nodes) -> NDArray[np.int64]:
    """Rows of the eight corners of every voxel whose corners are all fluid, (C, 8), in VTK's order."""
    neighbours = Neighbours(replace(nodes, periodic=(False, False, False)))
    corners = [np.arange(nodes.count)]
    for axis in np.eye(3):
        ends = neighbours.along(int(np.flatnonzero((axis == VELOCITIES).all(axis=1))[0]))
        corners += [np.where(corner >= 0, ends[corner], -1) for corner in corners]
    cells = np.stack(corners, axis=1)
    return cells[(cells >= 0).all(axis=1)]


class FlowWriter:
    """Writes a flow file step by step; a context manager.

    Parameters
    ----------
    path : file to write.
    nodes : the geometry.
    varying : whether the viscosity varies, and is written, too.
    """

    def __init__(self, path: Path, nodes: Nodes, varying: bool = False) -> None:
        self._file = h5py.File(path, "w")
        self._fields = FIELDS | VARYING if varying else FIELDS
        self._count = nodes.count
        root = self._file.create_group("VTKHDF")
        root.attrs["Version"] = np.array((2, 0), dtype=np.int64)
        root.attrs.create("Type", b"UnstructuredGrid", dtype=h5py.string_dtype("ascii", len("UnstructuredGrid")))
        cells = voxels(nodes)
        packing: dict[str, Any] = {"compression": "gzip", "compression_opts": 1, "shuffle": True}
        root.create_dataset("NumberOfPoints", data=[nodes.count])
        root.create_dataset("NumberOfCells", data=[len(cells)])
        root.create_dataset("NumberOfConnectivityIds", data=[cells.size])
        root.create_dataset("Points", data=nodes.points_mm().astype(np.float32))
        if len(cells):
            root.create_dataset("Connectivity", data=cells.ravel(), **packing)
            root.create_dataset("Types", data=np.full(len(cells), VOXEL, np.uint8), **packing)
        else:
            root.create_dataset("Connectivity", shape=0, dtype=np.int64)
            root.create_dataset("Types", shape=0, dtype=np.uint8)
        root.create_dataset("Offsets", data=8 * np.arange(len(cells) + 1), **packing)
        self._steps = root.create_group("Steps")
        self._steps.attrs["NSteps"] = 0
        self._data = root.create_group("PointData")
        offsets = self._steps.create_group("PointDataOffsets")
        for name, components in self._fields.items():
            row = () if components == 1 else (components,)
            chunk = (min(nodes.count, 65536), *row)
            for array in (name, MEANS[name]):
                self._data.create_dataset(array, shape=(0, *row), maxshape=(None, *row), chunks=chunk, dtype=np.float32)
                offsets.create_dataset(array, shape=(0,), maxshape=(None,), dtype=np.int64, chunks=(256,))
        self._steps.create_dataset("Values", shape=(0,), maxshape=(None,), dtype=np.float64, chunks=(256,))
        for name in ("PartOffsets", "NumberOfParts", "PointOffsets"):
            self._steps.create_dataset(name, shape=(0,), maxshape=(None,), dtype=np.int64, chunks=(256,))
        for name in ("CellOffsets", "ConnectivityIdOffsets"):
            self._steps.create_dataset(name, shape=(0, 1), maxshape=(None, 1), dtype=np.int64, chunks=(256, 1))

    def append(
        self,
        time_s: float,
        velocity_m_s: NDArray[np.floating],
        pressure_pa: NDArray[np.floating],
        viscous_stress_pa: NDArray[np.floating],
        *viscosity_pa_s: NDArray[np.floating],
    ) -> None:
        """Add one time step: velocity (N, 3), pressure (N,), viscous stress (N, 6) in VTK's order, and the effective
        viscosity (N,) where it varies, all SI.
        """
        step = int(self._steps.attrs["NSteps"])
        fields = (velocity_m_s, pressure_pa, viscous_stress_pa, *viscosity_pa_s)
        for name, values in zip(self._fields, fields, strict=True):
            _extend(self._data[name], values)
            _extend(self._steps["PointDataOffsets"][name], [step * self._count])
            _extend(self._steps["PointDataOffsets"][MEANS[name]], [0])  # static: every step points at the same one
        _extend(self._steps["Values"], [time_s])
        _extend(self._steps["NumberOfParts"], [1])
        for name in ("PartOffsets", "PointOffsets"):  # so is the mesh
            _extend(self._steps[name], [0])
        for name in ("CellOffsets", "ConnectivityIdOffsets"):
            _extend(self._steps[name], [[0]])
        self._steps.attrs["NSteps"] = step + 1

    def average(
        self,
        velocity_m_s: NDArray[np.floating],
        pressure_pa: NDArray[np.floating],
        viscous_stress_pa: NDArray[np.floating],
        *viscosity_pa_s: NDArray[np.floating],
    ) -> None:
        """Put the means over time, shaped as the arrays of a time step, in place of those that there may be."""
        fields = (velocity_m_s, pressure_pa, viscous_stress_pa, *viscosity_pa_s)
        for name, values in zip(self._fields, fields, strict=True):
            self._data[MEANS[name]].resize(len(values), axis=0)
            self._data[MEANS[name]][:] = values

    def start_over(self) -> None:
        """Take all time steps out again."""
        self._steps.attrs["NSteps"] = 0
        self._steps.visititems(_empty)
        for name in self._fields:
            self._data[name].resize(0, axis=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def _empty(_: str, found: Any) -> None:
    if isinstance(found, h5py.Dataset):
        found.resize(0, axis=0)


def _extend(dataset: Any, values: Any) -> None:
    length = len(dataset)
    dataset.resize(length + len(values), axis=0)
    dataset[length:] = values


@dataclass(frozen=True)
class Flow:
    """A flow file, read one time step at a time. Rows are those of the node arrays.

    Attributes
    ----------
    path : the file.
    points_mm : (N, 3) float32, x, y, z, LPS, mm.
    times_s : (T,) time of each step.
    """

    path: Path
    points_mm: NDArray[np.float32]
    times_s: NDArray[np.float64]

    def velocity_m_s(self, step: int) -> NDArray[np.float32]:
        """Velocity, (N, 3)."""
        return self._read("velocity_m_s", step)

    def pressure_pa(self, step: int) -> NDArray[np.float32]:
        """Pressure, (N,)."""
        return self._read("pressure_pa", step)

    def viscous_stress_pa(self, step: int) -> NDArray[np.float32]:
        """Viscous stress, (N, 6), XX, YY, ZZ, XY, YZ, XZ."""
        return self._read("viscous_stress_pa", step)

    def viscosity_pa_s(self, step: int) -> NDArray[np.float32] | None:
        """Effective viscosity, (N,); none where it is the same everywhere."""
        with h5py.File(self.path, "r") as file:
            varies = "viscosity_pa_s" in file["VTKHDF/PointData"]
        return self._read("viscosity_pa_s", step) if varies else None

    def velocity_mean_m_s(self) -> NDArray[np.float32]:
        """Mean velocity over time, (N, 3)."""
        return self._read(MEANS["velocity_m_s"], 0)

    def pressure_mean_pa(self) -> NDArray[np.float32]:
        """Mean pressure over time, (N,)."""
        return self._read(MEANS["pressure_pa"], 0)

    def viscous_stress_mean_pa(self) -> NDArray[np.float32]:
        """Mean viscous stress over time, (N, 6), XX, YY, ZZ, XY, YZ, XZ."""
        return self._read(MEANS["viscous_stress_pa"], 0)

    def _read(self, name: str, step: int) -> NDArray[np.float32]:
        count, step = len(self.points_mm), range(len(self.times_s))[step]
        with h5py.File(self.path, "r") as file:
            return file["VTKHDF/PointData"][name][step * count : (step + 1) * count]


def read_flow(path: Path) -> Flow:
    """Open a flow file.

    Raises
    ------
    StageError
        If it is not one of ours, or holds no time step.
    """
    try:
        with h5py.File(path, "r") as file:
            root = file["VTKHDF"]
            points, times = root["Points"][()], root["Steps/Values"][()]
            whole = all(len(root["PointData"][name]) == len(times) * len(points) for name in FIELDS)
            whole &= all(len(root["PointData"][MEANS[name]]) == len(points) for name in FIELDS)
    except (OSError, KeyError) as error:
        raise StageError(f"{path}: cannot be read as a flow file ({error}); run solve again") from None
    if not whole or not len(times):
        raise StageError(f"{path}: holds {len(times)} time steps that are not complete; run solve again")
    return Flow(path, points, times)
