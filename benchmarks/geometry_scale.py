# SPDX-License-Identifier: Apache-2.0
"""Time and memory from a surface to node arrays, through the command lines of both stages, and of the solver's start.

    python benchmarks/geometry_scale.py --nodes 1 5 20 --json benchmarks/results/geometry-scale.json

One tube that winds through a cube nine times and fills 15 % of it; 20 million fluid nodes need a cube of 512^3. Its
sections are circles across the centreline, so that its volume is that of a straight tube (Pappus). Peak memory: the
largest resident set of the process. A small tube runs before, so that no compilation is counted; that of loops over
blocks of nodes, which only large lattices need, is counted where they first run.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from pipeline.files.mesh import Mesh, write_openings  # noqa: E402
from tests.support.shapes import opening_of  # noqa: E402

COLUMNS, MARGIN, SWAY, FILLED = 3, 0.13, 0.03, 0.15
"""Passes of the tube along a side of the cube; where the first and last lie and how far it sways, in sides; the part
of the cube that it fills."""
EDGE = 1.45
"""Edges of the triangles in spacings: a million triangles at 20 million nodes."""
WARM_NODES = 0.05
PARTS = 8
"""Into which decompose divides the nodes once more, to tell what that adds."""
SOLVER_START = (
    "import sys, pathlib; from solver.domain import addresses, nodes;"
    " addresses.link_addresses(nodes.load(pathlib.Path(sys.argv[1])))"
)


def centreline(points: int = 200_000) -> np.ndarray:
    """Points, (N, 3), along the tube's axis in a cube of side 1: up and down through columns, with half turns."""
    pitch = (1 - 2 * MARGIN) / (COLUMNS - 1)
    rows = [[(x, y) for x in range(COLUMNS)][:: 1 if y % 2 == 0 else -1] for y in range(COLUMNS)]
    columns = MARGIN + pitch * np.array([place for row in rows for place in row])
    low, high = 0.285, 0.715
    path = []
    for number, column in enumerate(columns):
        up = number % 2 == 0
        ends = (0.04 if number == 0 else low, high if number < len(columns) - 1 else 0.96)
        rise = np.linspace(*(ends if up else ends[::-1]), 2000)
        path.append(np.column_stack((np.tile(column, (len(rise), 1)), rise)))
        if number < len(columns) - 1:
            angle, half = np.linspace(0, np.pi, 1000), (columns[number + 1] - column) / 2
            across = column + half * (1 - np.cos(angle))[:, None]
            turned = np.sin(angle) * pitch / 2
            path.append(np.column_stack((across, high + turned if up else low - turned)))
    line = np.concatenate(path)
    line[:, 0] += SWAY * np.sin(4 * np.pi * line[:, 2])
    line[:, 1] += SWAY * np.sin(6 * np.pi * line[:, 2] + 1)
    length = np.concatenate(([0], np.cumsum(np.linalg.norm(np.diff(line, axis=0), axis=1))))
    at = np.linspace(0, length[-1], points)
    line = np.stack([np.interp(at, length, line[:, k]) for k in range(3)], axis=1)
    kernel = np.hanning(points // 500)  # round off where the curvature jumps
    padded = np.pad(line, ((len(kernel) // 2, len(kernel) // 2), (0, 0)), mode="reflect", reflect_type="odd")
    return np.stack([np.convolve(padded[:, k], kernel / kernel.sum(), "same") for k in range(3)], axis=1)[
        len(kernel) // 2 : len(kernel) // 2 + points
    ]


def winding_tube(nodes: float) -> tuple[Mesh, float]:
    """The tube's surface in a cube whose side is as many mm as nodes along it, and its volume by Pappus, mm3."""
    side = (nodes / FILLED) ** (1 / 3)
    line = centreline() * side
    step = np.linalg.norm(np.diff(line, axis=0), axis=1)
    length = step.sum()
    radius = np.sqrt(nodes / (np.pi * length))
    rings, segments = round(length / EDGE), round(2 * np.pi * radius / EDGE)
    along = np.linspace(0, len(line) - 1, rings + 1).round().astype(int)
    places, tangents = line[along], np.gradient(line, axis=0)[along]
    tangents /= np.linalg.norm(tangents, axis=1, keepdims=True)
    first = np.empty_like(tangents)
    normal = np.cross(tangents[0], (0.3, 0.5, 0.8))
    for ring, tangent in enumerate(tangents):  # carried along without twist
        normal = normal - (normal @ tangent) * tangent
        normal /= np.linalg.norm(normal)
        first[ring] = normal
    second = np.cross(tangents, first)
    angle = 2 * np.pi * np.arange(segments) / segments
    offset = np.cos(angle)[:, None] * first[:, None] + np.sin(angle)[:, None] * second[:, None]
    points = np.concatenate(((places[:, None] + radius * offset).reshape(-1, 3), places[[0, -1]]))
    ring = np.arange(rings)[:, None] * segments
    here, there = ring + np.arange(segments), ring + (np.arange(segments) + 1) % segments
    wall = np.stack((here, there, there + segments, here, there + segments, here + segments), axis=-1).reshape(-1, 3)
    rim = np.arange(segments)
    low = np.stack((np.roll(rim, -1), rim, np.full(segments, len(points) - 2)), axis=1)
    last = rim + rings * segments
    high = np.stack((last, np.roll(last, -1), np.full(segments, len(points) - 1)), axis=1)
    opening = np.repeat(np.array((0, 1, 2), np.int8), (len(wall), segments, segments))
    polygon = segments / 2 * np.sin(2 * np.pi / segments) * radius**2
    return Mesh(points, np.concatenate((wall, low, high)), opening), polygon * length


def measure(arguments: list[str]) -> dict[str, float]:
    """Wall-clock and processor seconds of a Python process, its peak memory, and the machine's load at its end."""
    start = time.monotonic()
    process = subprocess.Popen([sys.executable, *arguments], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.monotonic() - start
    if status:
        sys.exit(said)
    return {
        "seconds": round(seconds, 2),
        "load": round(os.getloadavg()[0], 2),
        "processor_seconds": round(used.ru_utime + used.ru_stime, 2),
        "peak_gb": round(used.ru_maxrss * 1024 / 1e9, 2),
    }


def run(nodes: float, folder: Path) -> dict[str, object]:
    """Both stages and the solver's start on a tube of so many nodes."""
    mesh, volume = winding_tube(nodes)
    surface, openings, lattice, arrays = (
        str(folder / name) for name in ("surface.vtp", "openings.json", "lattice.vti", "nodes.h5")
    )
    mesh.write(Path(surface))
    ends = (opening_of(mesh, 1, "in", "inlet"), opening_of(mesh, 2, "out", "outlet"))
    write_openings(ends, Path(openings))
    given = ["--surface", surface, "--openings", openings, "--lattice", lattice]
    voxelize = measure(
        [
            "-m",
            "pipeline.stages.voxelize",
            *given,
            "--provenance",
            str(folder / "v.json"),
            "--settings",
            '{"spacing_mm": 1}',
        ]
    )
    decompose = ["-m", "pipeline.stages.decompose", *given, "--provenance", str(folder / "d.json"), "--nodes"]
    divided = measure([*decompose, str(folder / "divided.h5"), "--settings", json.dumps({"parts": PARTS})])
    division = json.loads((folder / "d.json").read_text())["division"]
    whole = measure([*decompose, arrays])
    start = measure(["-c", SOLVER_START, arrays])
    facts = json.loads((folder / "v.json").read_text()) | json.loads((folder / "d.json").read_text())
    return {
        "fluid_nodes": facts["fluid_nodes"],
        "fluid_volume_over_volume": round(facts["fluid_nodes"] / volume, 6),
        "lattice_nodes": facts["lattice_nodes"],
        "triangles": len(mesh.triangles),
        "wall_links": facts["wall_links"],
        "lattice_mb": round(Path(lattice).stat().st_size / 1e6, 1),
        "nodes_mb": round(Path(arrays).stat().st_size / 1e6, 1),
        "voxelize": voxelize,
        "decompose": whole,
        "both_stages_s": round(voxelize["seconds"] + whole["seconds"], 2),
        "decompose_in_parts": divided,
        "division": division,
        "solver_start": start,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", nargs="+", type=float, default=[1, 5, 20], help="fluid nodes, millions")
    parser.add_argument("--json", type=Path, help="file for the results; default: by the date")
    arguments = parser.parse_args()
    path = arguments.json or ROOT / "benchmarks" / "results" / f"{datetime.now(UTC):%Y-%m-%d}-geometry-scale.json"
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    results: dict[str, object] = {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load_before": os.getloadavg()[0],
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in ("numpy", "numba", "h5py", "vtk")},
        "commit": commit.stdout.strip(),
    }
    runs = []
    for millions in [WARM_NODES, *arguments.nodes]:
        with tempfile.TemporaryDirectory() as folder:
            figures = run(millions * 1e6, Path(folder))
        print(json.dumps(figures, indent=2), flush=True)
        runs.append(figures)
    results["runs"] = runs[1:]
    path.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
