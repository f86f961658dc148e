# SPDX-License-Identifier: Apache-2.0
"""The flow file: velocity, pressure and viscous stress at the fluid nodes over time, which ParaView opens as it is.

VTKHDF 2, type UnstructuredGrid with a static mesh and a time series; means and statistics over time stand beside it
once, for all times. Points are the fluid nodes in the order of the node arrays (x, y, z, LPS, mm); cells are the voxels
whose eight corners are all fluid, or, of one layer of nodes, the squares. The viscous stress is
sigma = -(1 - 1/(2 tau)) Pi = 2 mu S, in the order XX, YY, ZZ, XY, YZ, XZ of VTK: with n the normal out of the fluid,
sigma.n is the traction of the wall on the fluid, against the flow; -sigma.n drags the wall along the flow.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from solver.backends.share import Index, Share
from solver.domain.nodes import Nodes
from solver.domain.whole import row_blocks
from solver.run.vtkhdf import Steps, add_points, begin, write_lattice
from solver.runtime.checksum_trailer import require_checksum_trailer, write_checksum_trailer
from solver.runtime.errors import StageError
from solver.runtime.outputs import require_room

MakeFields = Callable[[], tuple[NDArray[np.floating], ...]]
"""Gives the fields of a time step, as :meth:`FlowWriter.append` takes them."""

FIELDS = {"velocity_m_s": 3, "pressure_pa": 1, "viscous_stress_pa": 6}
"""Fields of a time step and their numbers of components."""

ITEM_BYTES = 4
"""Of a number in them."""

VARYING = {"viscosity_pa_s": 1}
"""The effective viscosity, beside them where it varies."""

MEANS = {
    "velocity_m_s": "velocity_mean_m_s",
    "pressure_pa": "pressure_mean_pa",
    "viscous_stress_pa": "viscous_stress_mean_pa",
    "viscosity_pa_s": "viscosity_mean_pa_s",
}
"""Their means over time."""

IN_FILE = {
    "velocity_m_s": "velocity (m s-1)",
    "pressure_pa": "pressure (Pa)",
    "viscous_stress_pa": "viscous stress (Pa)",
    "viscosity_pa_s": "viscosity (Pa s)",
    "velocity_mean_m_s": "mean velocity (m s-1)",
    "pressure_mean_pa": "mean pressure (Pa)",
    "viscous_stress_mean_pa": "mean viscous stress (Pa)",
    "viscosity_mean_pa_s": "mean viscosity (Pa s)",
    "speed_peak_m_s": "peak speed (m s-1)",
    "kinetic_energy_mean_j_m3": "mean kinetic energy (J m-3)",
    "shear_rate_mean_1_s": "mean shear rate (s-1)",
    "dissipation_mean_w_m3": "mean viscous dissipation (W m-3)",
}
"""Names of the point arrays in the file, with units as all files have them; HDF5 allows no slash."""


class FlowStatistics(NamedTuple):
    """Statistics over time at the fluid nodes, (N,) each.

    With sigma the viscous stress, mu the viscosity of the node and S = sigma/(2 mu):

    Attributes
    ----------
    speed_peak_m_s : largest |u|.
    kinetic_energy_mean_j_m3 : mean of rho |u|^2/2.
    shear_rate_mean_1_s : mean of sqrt(2 S:S).
    dissipation_mean_w_m3 : mean of sigma:S = 2 mu S:S.
    """

    speed_peak_m_s: NDArray[np.floating]
    kinetic_energy_mean_j_m3: NDArray[np.floating]
    shear_rate_mean_1_s: NDArray[np.floating]
    dissipation_mean_w_m3: NDArray[np.floating]


def static_arrays(fields: Iterable[str]) -> tuple[str, ...]:
    """What stands once for all times: means of these fields, and statistics."""
    return (*(MEANS[name] for name in fields), *FlowStatistics._fields)


def steady_statistics(
    velocity_m_s: NDArray[np.floating],
    viscous_stress_pa: NDArray[np.floating],
    viscosity_pa_s: NDArray[np.floating] | float,
    density_kg_m3: float,
) -> FlowStatistics:
    """Statistics of a flow that stays as it is: velocity (N, 3), viscous stress (N, 6) in VTK's order, viscosity (N,)
    or the same everywhere.

    Parameters
    ----------
    velocity_m_s : (N, 3), x, y, z.
    viscous_stress_pa : (N, 6), XX, YY, ZZ, XY, YZ, XZ.
    viscosity_pa_s : (N,), or one number.
    density_kg_m3 : of blood.
    """
    square = (velocity_m_s**2).sum(axis=1)
    contracted = (viscous_stress_pa[:, :3] ** 2).sum(axis=1) + 2 * (viscous_stress_pa[:, 3:] ** 2).sum(axis=1)
    shear_rate = np.sqrt(contracted / 2) / viscosity_pa_s
    return FlowStatistics(np.sqrt(square), density_kg_m3 / 2 * square, shear_rate, viscosity_pa_s * shear_rate**2)


@dataclass(frozen=True)
class StoredRows:
    """Rows of an array in an open file, which are read some at a time.

    Attributes
    ----------
    data : the array.
    rows : of it.
    """

    data: Any
    rows: slice
    fill = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of these rows."""
        return (self.rows.stop - self.rows.start, *self.data.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the numbers."""
        return np.dtype(self.data.dtype)

    @property
    def nbytes(self) -> int:
        """Memory that they would take."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def pieces(self) -> Iterator[tuple[Index, NDArray[Any]]]:
        """Some rows after others: where they stand, and their numbers."""
        for rows in row_blocks(self.shape[0]):
            yield (rows,), self.data[self.rows.start + rows.start : self.rows.start + rows.stop]


class FlowWriter:
    """Writes a flow file step by step; a context manager, at whose end the file gets its checksum trailer.

    Parameters
    ----------
    path : file to write.
    nodes : the geometry.
    varying : whether the viscosity varies, and is written, too.
    share : nodes that arrays are given of: all, but on a rank.
    """

    def __init__(self, path: Path, nodes: Nodes, varying: bool = False, share: Share | None = None) -> None:
        self._path, self._share = path, share or Share()
        self._file = h5py.File(path, "w")
        self._fields = FIELDS | VARYING if varying else FIELDS
        self._static = static_arrays(self._fields)
        self._count = nodes.total
        root = begin(self._file, "UnstructuredGrid")
        write_lattice(root, nodes)
        self._data = root.create_group("PointData")
        components = self._fields | {MEANS[name]: count for name, count in self._fields.items()}
        for name in (*self._fields, *self._static):
            add_points(self._data, IN_FILE[name], nodes.total, components.get(name, 1))
        self._steps = Steps(root, tuple(IN_FILE[name] for name in (*self._fields, *self._static)))

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

        Parameters
        ----------
        time_s : of the step.
        velocity_m_s : (N, 3), x, y, z.
        pressure_pa : (N,).
        viscous_stress_pa : (N, 6), XX, YY, ZZ, XY, YZ, XZ.
        viscosity_pa_s : (N,) effective viscosity, where it varies.
        """
        fields = (velocity_m_s, pressure_pa, viscous_stress_pa, *viscosity_pa_s)
        self._append(time_s, map(self._share.blocks, fields))

    def append_deferred(self, time_s: float, make: MakeFields) -> None:
        """Add the time step whose fields `make` gives, which may be asked for them later: see :meth:`wait`."""
        self.append(time_s, *make())

    def mix_deferred(self, step: int, make: MakeFields, part: float) -> None:
        """Mix the state whose fields `make` gives into a time step, likewise; the other parameters are those of
        :meth:`mix`.
        """
        self.mix(step, *make(), part=part)

    def wait(self) -> None:
        """Return when all fields were made that are still to be."""

    def _append(self, time_s: float, fields: Iterable[Iterable[NDArray[np.floating]]]) -> None:
        """Add a time step, some rows of each field after others."""
        self._require_room(self._fields)
        for name, blocks in zip(self._fields, fields, strict=True):
            self._write(name, blocks, self._steps.count * self._count)
        first = self._steps.count * self._count
        self._steps.append(time_s, {IN_FILE[name]: first for name in self._fields})

    def mix(self, step: int, *fields: NDArray[np.floating], part: float) -> None:
        """Put a mean in place of a time step that was added: of what it holds and a part of another state.

        Parameters
        ----------
        step : which, from 0.
        fields : of the state, as :meth:`append` takes them.
        part : of it in the mean.
        """
        for name, values in zip(self._fields, fields, strict=True):
            data, first = self._data[IN_FILE[name]], step * self._count
            for block in self._share.blocks(values):
                rows = slice(first, first + len(block))
                data[rows] += part * (block - data[rows])
                first += len(block)

    def average(
        self,
        velocity_m_s: NDArray[np.floating],
        pressure_pa: NDArray[np.floating],
        viscous_stress_pa: NDArray[np.floating],
        *viscosity_pa_s: NDArray[np.floating],
        statistics: FlowStatistics,
    ) -> None:
        """Put the means over time, shaped as the arrays of a time step, and statistics in place of those that there
        may be.

        Parameters
        ----------
        velocity_m_s, pressure_pa, viscous_stress_pa, viscosity_pa_s : means over time, as :meth:`append` takes a
            step's.
        statistics : over the same time.
        """
        arrays = (velocity_m_s, pressure_pa, viscous_stress_pa, *viscosity_pa_s, *statistics)
        self._require_room(self._static)
        for name, values in zip(self._static, arrays, strict=True):
            self._write(name, self._share.blocks(values), 0)

    def _write(self, name: str, blocks: Iterable[NDArray[np.floating]], first: int) -> None:
        """Write numbers of all nodes, some rows after others, from a row of an array on, where it ends then."""
        data = self._data[IN_FILE[name]]
        data.resize(first + self._count, axis=0)
        for block in blocks:
            data[first : first + len(block)] = block
            first += len(block)

    def taken(self, step: int) -> dict[str, NDArray[np.float64] | StoredRows]:
        """A time step that was added, as :meth:`restore` takes it."""
        rows = slice(step * self._count, (step + 1) * self._count)
        fields = {name: StoredRows(self._data[IN_FILE[name]], rows) for name in self._fields}
        return {"time_s": np.array(self._steps.time_s(step)), **fields}

    def restore(self, taken: Mapping[str, Any]) -> None:
        """Add a time step again that another writer had taken."""
        self._append(float(taken["time_s"]), (taken[name].blocks() for name in self._fields))

    def _require_room(self, names: Iterable[str]) -> None:
        numbers = sum(int(np.prod(self._data[IN_FILE[name]].shape[1:])) for name in names)
        require_room(self._path, self._count * numbers * ITEM_BYTES)

    def start_over(self) -> None:
        """Take all time steps out again."""
        self._steps.empty()
        for name in self._fields:
            self._data[IN_FILE[name]].resize(0, axis=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        if not error:
            write_checksum_trailer(self._path)


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
        return self._read("viscosity_pa_s", step) if self._varies() else None

    def velocity_mean_m_s(self) -> NDArray[np.float32]:
        """Mean velocity over time, (N, 3)."""
        return self._read(MEANS["velocity_m_s"], 0)

    def pressure_mean_pa(self) -> NDArray[np.float32]:
        """Mean pressure over time, (N,)."""
        return self._read(MEANS["pressure_pa"], 0)

    def viscous_stress_mean_pa(self) -> NDArray[np.float32]:
        """Mean viscous stress over time, (N, 6), XX, YY, ZZ, XY, YZ, XZ."""
        return self._read(MEANS["viscous_stress_pa"], 0)

    def viscosity_mean_pa_s(self) -> NDArray[np.float32] | None:
        """Mean effective viscosity over time, (N,); none where it is the same everywhere."""
        return self._read(MEANS["viscosity_pa_s"], 0) if self._varies() else None

    def speed_peak_m_s(self) -> NDArray[np.float32]:
        """Largest speed over time, (N,)."""
        return self._read("speed_peak_m_s", 0)

    def kinetic_energy_mean_j_m3(self) -> NDArray[np.float32]:
        """Mean of the kinetic energy rho |u|^2/2 over time, (N,)."""
        return self._read("kinetic_energy_mean_j_m3", 0)

    def shear_rate_mean_1_s(self) -> NDArray[np.float32]:
        """Mean of the shear rate sqrt(2 S:S) over time, (N,)."""
        return self._read("shear_rate_mean_1_s", 0)

    def dissipation_mean_w_m3(self) -> NDArray[np.float32]:
        """Mean of the viscous dissipation 2 mu S:S over time, (N,)."""
        return self._read("dissipation_mean_w_m3", 0)

    def _varies(self) -> bool:
        with h5py.File(self.path, "r") as file:
            return IN_FILE["viscosity_pa_s"] in file["VTKHDF/PointData"]

    def _read(self, name: str, step: int) -> NDArray[np.float32]:
        count, step = len(self.points_mm), range(len(self.times_s))[step]
        with h5py.File(self.path, "r") as file:
            return file["VTKHDF/PointData"][IN_FILE[name]][step * count : (step + 1) * count]


def read_flow(path: Path) -> Flow:
    """Open a flow file.

    Raises
    ------
    StageError
        If it is not one of ours, is damaged, or holds no time step.
    """
    try:
        require_checksum_trailer(path)
        with h5py.File(path, "r") as file:
            root = file["VTKHDF"]
            points, times = root["Points"][()], root["Steps/Values"][()]
            rows = {name: len(root["PointData"][IN_FILE[name]]) for name in (*FIELDS, *static_arrays(FIELDS))}
            whole = all(rows[name] == len(times) * len(points) for name in FIELDS)
            whole &= all(rows[name] == len(points) for name in static_arrays(FIELDS))
    except (OSError, KeyError, ValueError) as error:
        raise StageError(f"{path}: cannot be read as a flow file ({error}); run solve again") from None
    if not whole or not len(times):
        raise StageError(f"{path}: holds {len(times)} time steps that are not complete; run solve again")
    return Flow(path, points, times)
