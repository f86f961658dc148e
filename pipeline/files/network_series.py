# SPDX-License-Identifier: Apache-2.0
"""A network over time for ParaView: polylines with radius, pressure, flow and velocity, as VTKHDF."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from solver.run.vtkhdf import SURFACE_CELLS, Steps, add_points, begin, extend, pack
from solver.runtime.checksum_trailer import write_checksum_trailer
from solver.runtime.outputs import require_room

Reals = NDArray[np.float64]
ITEM_BYTES = 4


def write_network_series(
    path: Path, lines_mm: Sequence[Reals], times_s: Reals, arrays: Mapping[str, Reals], fixed: Mapping[str, Reals]
) -> None:
    """Write lines whose points stay and whose values change, with a checksum trailer.

    ParaView's filter Tube draws them as vessels, "by absolute scalar" of the radius in mm.

    Parameters
    ----------
    path : of the file (.vtkhdf).
    lines_mm : (P, 3) points of each line.
    times_s : (T,) of the frames.
    arrays : (T, points of all lines) by name with the unit.
    fixed : (points of all lines,) by name; the same at all times.
    """
    points = np.concatenate(lines_mm)
    require_room(path, len(times_s) * len(points) * len(arrays) * ITEM_BYTES)
    with h5py.File(path, "w") as file:
        root = begin(file, "PolyData")
        root.create_dataset("NumberOfPoints", data=[len(points)])
        pack(root, "Points", points.astype(np.float32))
        for kind in SURFACE_CELLS:
            _write_lines(root.create_group(kind), [len(line) for line in lines_mm] if kind == "Lines" else [])
        data, steps = root.create_group("PointData"), Steps(root, (*arrays, *fixed), len(SURFACE_CELLS))
        for name in (*arrays, *fixed):
            add_points(data, name, len(points), 1)
        for name, values in fixed.items():
            extend(data[name], values)
        for frame, time_s in enumerate(times_s):
            steps.append(float(time_s), dict.fromkeys(arrays, frame * len(points)))
            for name, values in arrays.items():
                extend(data[name], values[frame])
    write_checksum_trailer(path)


def _write_lines(group: h5py.Group, counts: Sequence[int]) -> None:
    """Lines, each through as many points, one after another."""
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    group.create_dataset("NumberOfCells", data=[len(counts)])
    group.create_dataset("NumberOfConnectivityIds", data=[int(offsets[-1])])
    pack(group, "Connectivity", np.arange(offsets[-1], dtype=np.int64))
    pack(group, "Offsets", offsets)
