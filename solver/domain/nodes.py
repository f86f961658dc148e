# SPDX-License-Identifier: Apache-2.0
"""The node arrays, their rules and the file that holds them: what others use of them stands here.

Their types are in :mod:`solver.domain.node_types`, their rules in :mod:`solver.domain.node_rules`.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import h5py
import numpy as np

from solver.domain.node_rules import check
from solver.domain.node_types import (
    ARRAYS,
    EXTERNAL,
    FLUID,
    INLET,
    OUTLET,
    STEPS,
    WALL,
    Neighbours,
    Nodes,
    Opening,
    flat_index,
    only_at,
)
from solver.kernels.d3q19 import Q
from solver.runtime.checksum_trailer import require_checksum_trailer, write_checksum_trailer
from solver.runtime.errors import StageError
from solver.runtime.outputs import require_room

__all__ = [
    "ARRAYS",
    "EXTERNAL",
    "FLUID",
    "INLET",
    "OUTLET",
    "STEPS",
    "WALL",
    "Neighbours",
    "Nodes",
    "Opening",
    "check",
    "flat_index",
    "load",
    "only_at",
    "opened",
    "parse_openings",
    "save",
    "stored_checksum",
    "stored_count",
    "without_nodes",
]

FORMAT = "hemolattice-nodes-6"
UNDIVIDED = "undivided"
"""Attribute with the checksum of all but the division into parts, on which no bit of a flow depends."""

Number = TypeVar("Number", int, float, bool)


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
        file.attrs[UNDIVIDED] = _undivided(nodes, file.attrs)
        for name in ARRAYS:
            file.create_dataset(name, data=getattr(nodes, name), compression="gzip", compression_opts=1, shuffle=True)
    write_checksum_trailer(path)


def _undivided(nodes: Nodes, attributes: Mapping[str, Any]) -> str:
    """Checksum of the attributes and of all arrays but the part of each node."""
    made_of = hashlib.sha256()
    for name in sorted(attributes):
        made_of.update(f"{name} {np.asarray(attributes[name]).tolist()}\n".encode())
    for name in ARRAYS:
        if name != "part":
            array = np.ascontiguousarray(getattr(nodes, name))
            made_of.update(f"{name} {array.shape}\n".encode())
            made_of.update(array.reshape(-1).view(np.uint8).data)
    return made_of.hexdigest()


def load(path: Path) -> Nodes:
    """Read node arrays and check their invariants.

    Raises
    ------
    StageError
        If the file is not one of ours, is damaged, or breaks an invariant.
    """
    with opened(path) as file:
        arrays: dict[str, Any] = {name: np.asarray(file[name][()]) for name in ARRAYS}
        nodes = replace(without_nodes(file), **arrays)
        check(nodes)
    return nodes


def without_nodes(file: h5py.File) -> Nodes:
    """The geometry of an open file without its nodes and links."""
    none: dict[str, Any] = {name: np.asarray(file[name][:0]) for name in ARRAYS}
    return Nodes(
        spacing_mm=float(file.attrs["spacing_mm"]),
        origin_mm=_triple(file.attrs["origin_mm"], float),
        shape=_triple(file.attrs["shape"], int),
        openings=parse_openings(json.loads(file.attrs["openings"])),
        periodic=_triple(file.attrs["periodic"], bool),
        axes=_triple(file.attrs["axes"], int),
        patches=tuple(str(name) for name in json.loads(file.attrs["patches"])),
        **none,
    )


def stored_count(path: Path) -> int:
    """Number of fluid nodes in a file, of which nothing else is read.

    Raises
    ------
    StageError
        If the file is not one of ours, or is damaged.
    """
    with opened(path) as file:
        return len(file["position"])


def stored_checksum(path: Path) -> str:
    """Checksum of a geometry in a file, however it is divided into parts; fails as :func:`stored_count` does."""
    with opened(path) as file:
        return str(file.attrs[UNDIVIDED])


@contextmanager
def opened(path: Path) -> Iterator[h5py.File]:
    """A file of node arrays; what fails while it is read is said with its name.

    Raises
    ------
    StageError
        If it is not one of ours, is damaged, or breaks an invariant.
    """
    try:
        require_checksum_trailer(path)
        with h5py.File(path, "r") as file:
            if file.attrs.get("format") != FORMAT:
                raise StageError(f"format {file.attrs.get('format')!r}, {FORMAT!r} is wanted; run decompose again")
            yield file
    except StageError as error:
        raise StageError(f"{path}: {error}") from None
    except (OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise StageError(f"{path}: cannot be read as node arrays ({error}); run decompose again") from None


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
