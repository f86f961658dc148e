# SPDX-License-Identifier: Apache-2.0
"""Waveforms of a network: pressure, flow, area and velocity at places of its segments over the last cycle, and their
file, ``tree.h5``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from solver.network.last_cycle import TreeResult
from solver.runtime.checksum_trailer import require_checksum_trailer, write_checksum_trailer
from solver.runtime.errors import StageError

Reals = NDArray[np.float64]

QUANTITIES = ("pressure_pa", "flow_m3_s", "area_m2", "velocity_m_s")
SEGMENTS, SITES = "segments", "sites"
"""Groups of the file: five places of each segment, and the sites of the case."""


@dataclass(frozen=True)
class Waveforms:
    """Places over one cycle.

    Attributes
    ----------
    segment, part : of each place: name of its segment, and where along it, 0 to 1, (K,).
    time_s : since the cycle began, (samples,).
    period_s : of the cycle.
    pressure_pa, flow_m3_s, area_m2, velocity_m_s : (samples, K); flow and velocity from the segment's start to its end.
    """

    segment: tuple[str, ...]
    part: Reals
    time_s: Reals
    period_s: float
    pressure_pa: Reals
    flow_m3_s: Reals
    area_m2: Reals
    velocity_m_s: Reals

    def of_segment(self, segment: str) -> list[int]:
        """Numbers of the places of a segment, from its start."""
        return [k for k, name in enumerate(self.segment) if name == segment]

    def number(self, segment: str, part: float) -> int:
        """Number of the place that is nearest to a part of a segment."""
        return min(self.of_segment(segment), key=lambda k: abs(self.part[k] - part))


def waveforms(result: TreeResult, places: Sequence[tuple[str, float]]) -> Waveforms:
    """Waveforms of a computed network.

    Parameters
    ----------
    result : the last cycle.
    places : segment and part of its length.

    Raises
    ------
    StageError
        If there is no such segment.
    """
    parts: dict[str, list[float]] = {}
    for segment, part in places:
        parts.setdefault(segment, []).append(part)
    courses = {segment: result.at(segment, tuple(of)) for segment, of in parts.items()}
    numbers = [(segment, parts[segment].index(part)) for segment, part in places]
    columns = {key: np.column_stack([getattr(courses[s], key)[:, k] for s, k in numbers]) for key in QUANTITIES}
    names, along = tuple(segment for segment, _ in places), np.array([part for _, part in places])
    return Waveforms(names, along, result.time_s, result.network.period_s, **columns)


def write_waveforms(path: Path, groups: dict[str, Waveforms]) -> None:
    """Write ``tree.h5``: SI, one group for each set of places, with a checksum trailer.

    Parameters
    ----------
    path : of the file.
    groups : by name of the group.
    """
    with h5py.File(path, "w") as file:
        for name, each in groups.items():
            group = file.create_group(name)
            group.attrs["period_s"] = each.period_s
            group.create_dataset("segment", data=list(each.segment), dtype=h5py.string_dtype())
            group.create_dataset("part", data=each.part)
            group.create_dataset("time_s", data=each.time_s)
            for key in QUANTITIES:
                group.create_dataset(key, data=getattr(each, key), compression="gzip", compression_opts=1, shuffle=True)
    write_checksum_trailer(path)


def read_waveforms(path: Path) -> dict[str, Waveforms]:
    """Read ``tree.h5``.

    Raises
    ------
    StageError
        If it is no such file, or damaged.
    """
    try:
        require_checksum_trailer(path)
        with h5py.File(path, "r") as file:
            return {name: _read(file[name]) for name in (SEGMENTS, SITES)}
    except (OSError, KeyError, ValueError) as error:
        raise StageError(f"{path}: no waveforms of a network ({error}); run tree again") from None


def _read(group: h5py.Group) -> Waveforms:
    names = tuple(name.decode() for name in group["segment"][:])
    columns = {key: group[key][:] for key in QUANTITIES}
    return Waveforms(names, group["part"][:], group["time_s"][:], float(group.attrs["period_s"]), **columns)
