# SPDX-License-Identifier: Apache-2.0
"""Runs of a study, or of any cases, on a machine that has a device, but only NumPy, Numba and h5py.

    python benchmarks/study_runs.py pack fda-nozzle full runs/           here: node arrays and settings of each run
    python benchmarks/study_runs.py solve runs/ out/                     there
    for part in out/*.tar; do tar -xf $part -C runs/; done               here
    python benchmarks/study_runs.py measure fda-nozzle full runs/ out/   record and pictures of the study

What comes back is small: of the flow the velocity at the end, in single precision rounded to `BITS` bits; all
other arrays of the flow file are NaN. It serves studies that look at nothing else. A run that fails leaves its log, the
others go on, and the status is 1. Reports need all of a steady flow: `solve --fields` keeps pressure and viscous
stress as well, with `FIELD_BITS` bits, and `restore runs/` makes whole flow files of what came back.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from solver.domain.nodes import Nodes, load, save  # noqa: E402
from solver.run.flow_file import FIELDS, IN_FILE, FlowWriter, static_arrays, steady_statistics  # noqa: E402
from solver.runtime.checksum_trailer import write_checksum_trailer  # noqa: E402

BITS = 13
"""Of a velocity's mantissa, 23 in single precision: a part in 16,000 of each component is lost at most."""
PART_BYTES = 15 * 2**20
"""Of the files that come back, at most."""
FIELD_BITS = 10
"""Of all fields where they are wanted: a part in 2,000."""
KEPT = "velocity_m_s"


def pack(study: str, runs_of: Any, folder: Path) -> None:
    """Write ``nodes.h5`` and ``settings.json`` of each run of a set into ``<folder>/<study>.<run>/``."""
    from validation.studies.study_file import read_study

    chosen = read_study(study)
    cases = chosen.cases(study)
    for run in chosen.sets[runs_of]:
        to, case = folder / f"{study}.{run}", cases[run]
        to.mkdir(parents=True, exist_ok=True)
        sections = case.voxelize.model_dump_json(), case.decompose.model_dump_json()
        save(_nodes(case.settings("canonical"), *sections), to / "nodes.h5")
        (to / "settings.json").write_text(case.settings("solve"))
        print(f"{to}: {(to / 'nodes.h5').stat().st_size / 2**20:.1f} MiB", flush=True)


@cache
def _nodes(geometry: str, voxels: str, order: str) -> Nodes:
    """Node arrays of a canonical geometry, by the settings of its stages."""
    from pipeline.case.settings.geometry import DecomposeSettings, VoxelizeSettings
    from pipeline.geometry.lattice.grid import Grid
    from pipeline.geometry.lattice.node_arrays import decompose
    from pipeline.stages.canonical import CanonicalInput, canonical
    from pipeline.stages.voxelize import voxelize

    made, more = canonical(CanonicalInput.model_validate_json(geometry))
    settings = VoxelizeSettings.model_validate_json(voxels)
    lattice, _ = voxelize(made.mesh, made.openings, settings, grid=Grid(**more["frame"]))
    ordered = DecomposeSettings.model_validate_json(order)
    return decompose(lattice, made.mesh, made.openings, ordered, patches=tuple(more["patches"]))[0]


def solve(folder: Path, out: Path, fields: bool = False) -> list[str]:
    """Run the solver on all runs of a folder and leave what is kept of them in ``<out>/runs-<k>.tar``; names of those
    that failed. All fields at the end, or the velocity alone.
    """
    failed: list[str] = []
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        for run in sorted(file.parent for file in folder.glob("*/settings.json")):
            to = Path(made) / run.name
            to.mkdir()
            if not _solved(run, to, fields):
                failed.append(run.name)
            _gather(Path(made), out)
    return failed


def _solved(run: Path, to: Path, fields: bool) -> bool:
    """Whether the solver got through; its files, the flow thinned."""
    names = {
        "flow": "flow.vtkhdf",
        "monitor": "monitor.csv",
        "summary": "solve.json",
        "provenance": "provenance.json",
        "log": "solve.log",
    }
    options = [part for role, name in names.items() for part in (f"--{role}", str(to / name))]
    command = [sys.executable, "-m", "solver", "--nodes", str(run / "nodes.h5"), *options]
    command += ["--settings", (run / "settings.json").read_text()]
    print(run.name, flush=True)
    ended = subprocess.run(command, cwd=ROOT, check=False)
    flow = to / names["flow"]
    if flow.exists():
        kept, bits = (tuple(FIELDS), FIELD_BITS) if fields else ((KEPT,), BITS)
        thin(flow, to / "thin", kept, bits)
        (to / "thin").replace(flow)
    return ended.returncode == 0


def thin(flow: Path, to: Path, kept: tuple[str, ...], bits: int) -> None:
    """Copy a flow file with nothing but some fields at its end, with so many bits of their mantissas."""
    with h5py.File(flow) as whole, h5py.File(to, "w") as file:
        root, points = whole["VTKHDF"], whole["VTKHDF/Points"].shape
        _missing(file, "VTKHDF/Points", points)
        file["VTKHDF/Steps/Values"] = root["Steps/Values"][-1:]
        data = root["PointData"]
        for field in (*FIELDS, *static_arrays(FIELDS)):
            name = IN_FILE[field]
            if field in kept:
                packed = {"chunks": True, "compression": "gzip", "compression_opts": 9, "shuffle": True}
                file.create_dataset(f"VTKHDF/PointData/{name}", data=rounded(data[name][-points[0] :], bits), **packed)
            else:
                _missing(file, f"VTKHDF/PointData/{name}", (points[0], *data[name].shape[1:]))
    write_checksum_trailer(to)


def _missing(file: h5py.File, name: str, shape: tuple[int, ...]) -> None:
    """An array of NaN that takes no room."""
    file.create_dataset(name, shape=shape, dtype=np.float32, chunks=True, fillvalue=np.nan)


def restore(run: Path) -> None:
    """Make the flow file of a steady run whole again from the fields at its end; means and statistics are theirs.

    Parameters
    ----------
    run : folder with ``nodes.h5``, ``settings.json`` and the ``flow.vtkhdf`` that came back, which is replaced.

    Raises
    ------
    ValueError : the blood is not Newtonian: its viscosity did not come back.
    """
    wanted = json.loads((run / "settings.json").read_text())
    if (model := wanted["blood"]["model"]) != "newtonian":
        raise ValueError(f"{run}: blood.model {model}, where only newtonian can be restored")
    flow, whole = run / "flow.vtkhdf", run / "whole"
    with h5py.File(flow) as thinned, FlowWriter(whole, load(run / "nodes.h5")) as writer:
        root = thinned["VTKHDF"]
        fields = [root["PointData"][IN_FILE[name]][:] for name in FIELDS]
        writer.append(float(root["Steps/Values"][-1]), *fields)
        velocity, _, stress = fields
        statistics = steady_statistics(velocity, stress, wanted["viscosity_pa_s"], wanted["density_kg_m3"])
        writer.average(*fields, statistics=statistics)
    whole.replace(flow)


def rounded(values: NDArray[np.float32], bits: int) -> NDArray[np.float32]:
    """Numbers with so few bits that they can be packed."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.rint(mantissa * 2**bits) / 2**bits, exponent).astype(np.float32)


def _gather(made: Path, out: Path) -> None:
    """Move the folders of finished runs into the last part, or a new one where that would grow too large."""
    for folder in sorted(made.iterdir()):
        size = sum(file.stat().st_size for file in folder.iterdir())
        parts = sorted(out.glob("runs-*.tar"))
        if not parts or parts[-1].stat().st_size + size > PART_BYTES:
            parts.append(out / f"runs-{len(parts):02}.tar")
        with tarfile.open(parts[-1], "a") as part:
            part.add(folder, folder.name)
        shutil.rmtree(folder)


def measure(study: str, runs_of: Any, folder: Path, out: Path) -> None:
    """Record and pictures of a study from the runs of a folder, ``<out>/<study>.json`` and ``<out>/<study>/``."""
    from validation.studies.study_file import read_study

    chosen = read_study(study)
    files = {"nodes": "nodes.h5", "flow": "flow.vtkhdf", "monitor": "monitor.csv", "summary": "solve.json"}
    command = [sys.executable, "-m", "validation.study", "--settings", chosen.input(study, runs_of)]
    for role, name in files.items():
        command += [f"--{role}", *(str(folder / f"{study}.{run}" / name) for run in chosen.sets[runs_of])]
    command += ["--record", str(out / f"{study}.json"), "--figures", str(out / study)]
    subprocess.run([*command, "--provenance", str(out / f"{study}.provenance.json")], cwd=ROOT, check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, arguments in {
        "pack": ("study", "set", "folder"),
        "solve": ("folder", "out"),
        "restore": ("folder",),
        "measure": ("study", "set", "folder", "out"),
    }.items():
        command = commands.add_parser(name)
        for argument in arguments:
            command.add_argument(
                argument, type=str if argument in ("study", "set") else lambda path: Path(path).resolve()
            )
    commands.choices["solve"].add_argument("--fields", action="store_true", help="keep all fields at the end")
    chosen = parser.parse_args()
    if chosen.command == "pack":
        pack(chosen.study, chosen.set, chosen.folder)
    elif chosen.command == "restore":
        for flow in sorted(chosen.folder.glob("*/flow.vtkhdf")):
            restore(flow.parent)
    elif chosen.command == "measure":
        measure(chosen.study, chosen.set, chosen.folder, chosen.out)
    elif failed := solve(chosen.folder, chosen.out, chosen.fields):
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
