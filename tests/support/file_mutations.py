# SPDX-License-Identifier: Apache-2.0
"""Damaged files, made from sound ones by seeds, and what reading makes of them.

    python tests/support/file_mutations.py KINDS COUNT [FIRST]  # judges so many cases of each kind, a line of JSON each

Whatever is done to a file of the workflow, it is refused with one line, unless it is still the same byte for byte.
Files from elsewhere have no checksum of ours: they are refused, or what is read is sound in itself.
"""

import faulthandler
import json
import logging
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from pipeline.dicom.segmentation_object import read_segmentation  # noqa: E402
from pipeline.files import surface_file  # noqa: E402
from pipeline.files.mask_file import read_mask_file  # noqa: E402
from pipeline.files.mesh import read_mesh  # noqa: E402
from pipeline.files.volume import Volume  # noqa: E402
from pipeline.files.volume_file import read_volume_file  # noqa: E402
from pipeline.geometry.lattice.tagged_lattice import Lattice  # noqa: E402
from solver.domain import nodes as node_files  # noqa: E402
from solver.run.checkpoint import Checkpoints  # noqa: E402
from solver.run.flow_file import FlowStatistics, FlowWriter, read_flow  # noqa: E402
from solver.runtime.checksums import checksum  # noqa: E402
from solver.runtime.errors import StageError  # noqa: E402
from solver.runtime.memory import peak_memory_mb  # noqa: E402
from solver.runtime.provenance import require_as_written  # noqa: E402
from tests.pipeline.stages.test_import_mask import ball, write_segmentation  # noqa: E402
from tests.pipeline.stages.test_import_surface import write as write_given  # noqa: E402
from tests.support.geometries import pipe  # noqa: E402
from tests.support.shapes import capped_cylinder  # noqa: E402

Rng = np.random.Generator
SECONDS, MEMORY_BYTES = 90, 4 * 2**30
"""A case that takes longer hangs; one that takes more is refused memory, and dies of it."""

NODES = pipe((1, 2, 3), 4.2, 12, spacing_mm=0.3)
CYLINDER = capped_cylinder((1, -2, 3), 3.0, 30.0, (12.0, -34.0, 250.0), segments=24)[0]


# ---- damage ----------------------------------------------------------------------------------------------------------


def flipped(data: bytearray, rng: Rng, low: int = 0, high: int | None = None) -> bytearray:
    """One to eight bits."""
    for place in rng.integers(low, high or len(data), rng.integers(1, 9)):
        data[place] ^= 1 << int(rng.integers(8))
    return data


def flipped_head(data: bytearray, rng: Rng) -> bytearray:
    """The same near the beginning, where files tell of themselves."""
    return flipped(data, rng, 0, min(1500, len(data)))


def cut(data: bytearray, rng: Rng) -> bytearray:
    """The end missing."""
    return data[: rng.integers(len(data))]


def swapped(data: bytearray, rng: Rng) -> bytearray:
    """Two blocks in each other's place."""
    size = int(min(rng.choice([8, 64, 512, 4096]), len(data) // 3))
    one, other = (rng.integers(0, (len(data) - size) // 8 + 1, 2) * 8).tolist()
    data[one : one + size], data[other : other + size] = data[other : other + size], data[one : one + size]
    return data


def erased(data: bytearray, rng: Rng) -> bytearray:
    """A block of zeros, as a disk may leave it."""
    size = int(min(rng.choice([8, 64, 512, 4096]), len(data) // 3))
    place = int(rng.integers(0, len(data) - size))
    data[place : place + size] = bytes(size)
    return data


def other_digits(data: bytearray, rng: Rng) -> bytearray:
    """Other numbers in a head of text."""
    digits = [place for place in range(min(2000, len(data))) if chr(data[place]) in "0123456789"]
    for place in rng.choice(digits, 2) if digits else ():
        data[place] = ord("0") + int(rng.integers(10))
    return data


DAMAGES = (flipped, flipped_head, cut, swapped, erased, other_digits)


# ---- sound files, and readers that tell whether what is read is sound ------------------------------------------------


def _write_flow(path: Path) -> None:
    rng = np.random.default_rng(1)

    def field(*row: int) -> Any:
        return rng.random((NODES.count, *row)).astype(np.float32)

    with FlowWriter(path, NODES) as writer:
        for step in range(3):
            writer.append(0.5 * step, field(3), field(), field(6))
        writer.average(field(3), field(), field(6), statistics=FlowStatistics(field(), field(), field(), field()))


def _read_flow(path: Path) -> bool:
    flow = read_flow(path)
    return bool(np.isfinite(flow.velocity_m_s(-1)).all() and np.isfinite(flow.viscous_stress_mean_pa()).all())


def _checkpoints(path: Path) -> Checkpoints:
    return Checkpoints(path.parent, "run", 0.0, logging.getLogger("mutations"))


def _write_checkpoint(path: Path) -> None:
    populations = np.random.default_rng(2).random((19, NODES.count), np.float32)
    _checkpoints(path).write(7, {"driver/populations": populations}, {})


def _read_checkpoint(path: Path) -> bool:
    if _checkpoints(path).newest(lambda: {}) is None:
        raise StageError("not used")
    return True


def _write_lattice(path: Path) -> None:
    tag = np.random.default_rng(0).integers(-1, 4, (20, 21, 22)).astype(np.int8)
    Lattice(tag, tag.clip(0), 0.1, (1.0, -2.0, 3.0)).write(path)


def _write_ball(path: Path) -> None:
    inside = np.linalg.norm(np.indices((14, 15, 16)).T - [6.0, 7, 8], axis=-1).T < 5
    Volume(inside.astype(np.uint8), (0.5, 0.6, 0.7), (1.0, -2.0, 3.0), np.eye(3)).write(path)


def _recorded(write: Callable[[Path], Any]) -> Callable[[Path], None]:
    """Written by a stage, which leaves its provenance."""

    def written(path: Path) -> None:
        write(path)
        record = {"outputs_sha256": {path.name: checksum(path)}}
        path.with_suffix(".provenance.json").write_text(json.dumps(record))

    return written


def _as_input(read: Callable[[Path], Any]) -> Callable[[Path], bool]:
    """Read by a stage, which compares it with the provenance first."""

    def taken(path: Path) -> bool:
        require_as_written(path)
        read(path)
        return True

    return taken


def _write_surface(path: Path) -> None:
    kind = {".txt.stl": "stl text"}.get("".join(path.suffixes), path.suffix[1:])
    write_given(CYLINDER, path, kind, "mm", "LPS", said=True).rename(path)


def _read_surface(path: Path) -> bool:
    surface = surface_file.read_surface_file(path)
    within = surface.triangles.min() >= 0 and surface.triangles.max() < len(surface.points)
    return bool(within and np.isfinite(surface.points).all())


def _read_volume(path: Path) -> bool:
    volume, _ = read_volume_file(path)
    return bool(volume.voxels.size and np.isfinite(volume.voxels).all() and np.isfinite(volume.spacing_mm).all())


def _read_mask(path: Path) -> bool:
    return bool(read_mask_file(path, None).lumen.voxels.any())


def _write_segmentation(path: Path) -> None:
    mask = ball()
    write_segmentation(path.parent, mask, {"a": mask.voxels}).rename(path)


def _read_segmentation(path: Path) -> bool:
    return bool(read_segmentation(path, None).lumen.voxels.any())


File = tuple[str, Callable[[Path], Any], Callable[[Path], bool]]
WITH_TRAILER: dict[str, list[File]] = {
    "nodes": [("nodes.h5", lambda path: node_files.save(NODES, path), lambda path: node_files.load(path).count > 0)],
    "flow": [("flow.vtkhdf", _write_flow, _read_flow)],
    "checkpoint": [("step-000000000007.h5", _write_checkpoint, _read_checkpoint)],
    "results": [
        ("lattice.vti", _recorded(_write_lattice), _as_input(Lattice.read)),
        ("surface.vtp", _recorded(CYLINDER.write), _as_input(read_mesh)),
        ("volume.nrrd", _recorded(_write_ball), _as_input(Volume.read)),
    ],
}
"""By kind names of files of the workflow, how they are written and read."""

GIVEN: dict[str, list[File]] = {
    "surfaces": [
        (f"surface.{suffix}", _write_surface, _read_surface) for suffix in ("stl", "txt.stl", "vtp", "obj", "ply")
    ],
    "volumes": [
        (f"volume.{suffix}", _write_ball, read)
        for suffix in ("nrrd", "mha", "nii", "nii.gz", "nhdr", "mhd")
        for read in (_read_volume, _read_mask)
    ],
    "segmentation": [("mask.dcm", _write_segmentation, _read_segmentation)],
}
"""The same of files from elsewhere."""


def judge(path: Path, read: Callable[[Path], bool]) -> str:
    """What becomes of a file."""
    try:
        return "read" if read(path) else "unsound"
    except StageError as error:
        lines = str(error).splitlines()
        return "refused" if len(lines) == 1 else f"message of {len(lines)} lines"
    except Exception as error:  # the very thing that must not happen
        return f"{type(error).__name__}: {error}"[:300]


def case(kind: str, number: int, folder: Path) -> dict[str, Any]:
    """A damaged file, and what becomes of it."""
    files = (WITH_TRAILER | GIVEN)[kind]
    name, write, read = files[number % len(files)]
    place = folder / f"{number % len(files)}"
    sound, damaged = place / "sound" / name, place / "damaged" / name
    if not sound.exists():
        for path in (sound, damaged):  # with what lies beside it
            path.parent.mkdir(parents=True)
            write(path)
        assert judge(sound, read) == "read", name
    damage = DAMAGES[(number // len(files)) % len(DAMAGES)]
    before = sound.read_bytes()
    after = bytes(damage(bytearray(before), np.random.default_rng([number, *kind.encode()])))
    damaged.write_bytes(after)
    start = time.monotonic()
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    outcome = judge(damaged, read)
    faulthandler.cancel_dump_traceback_later()
    seconds = round(time.monotonic() - start, 3)
    reported = {"kind": kind, "file": name, "damage": damage.__name__, "number": number, "changed": after != before}
    return reported | {"outcome": outcome, "seconds": seconds}


def main() -> None:
    kinds, count, first = sys.argv[1].split(","), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0
    logging.disable()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, hard))
    with tempfile.TemporaryDirectory() as folder:
        for kind in kinds:
            for number in range(first, first + count):
                print(json.dumps(case(kind, number, Path(folder) / kind)), flush=True)
    print(json.dumps({"peak_memory_mb": max(peak_memory_mb().values())}))  # its own, or that of the reader of surfaces


if __name__ == "__main__":
    main()
