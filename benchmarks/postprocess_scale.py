# SPDX-License-Identifier: Apache-2.0
"""Time, memory and disk of post-processing a large flow.

    PYTHONPATH=.:benchmarks python benchmarks/postprocess_scale.py --folder big [--nodes 2e7] [--snapshots 40]

A vessel tree (`vessel_tree.py`) gets a smooth, made-up flow that swings over a period, written as the solver writes it;
then the stage postprocess runs on it by its command line, on as many threads as asked for. Its time does not depend on
whether the flow is one. The surface has a vertex for about four faces of boxes; the tree
has no centreline here.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter
from skimage.measure import marching_cubes
from vessel_tree import vessel_tree

from pipeline.files.mesh import Mesh, write_openings
from solver.domain import nodes as node_files
from solver.domain.nodes import Nodes
from solver.run.flow_file import FlowWriter, steady_statistics
from tests.support.postprocess_files import INPUTS, OUTPUTS

COARSER = 2
"""Spacings between the points on which the surface is found."""
PERIOD_S, VISCOSITY_PA_S, DENSITY = 0.8, 3.5e-3, 1060.0
STATIC_ARRAYS = 14
"""Numbers of a node that hold for all times: means of velocity, pressure and stress, four statistics."""


def surface_of(nodes: Nodes) -> Mesh:
    """A closed surface around the nodes, flat parts near caps tagged as theirs."""
    shape = np.array(nodes.shape[::-1]) // COARSER + 5
    filled = np.zeros(shape, np.float32)
    np.add.at(filled, tuple((nodes.position // COARSER + 2).T), 1 / COARSER**3)
    points, triangles, _, _ = marching_cubes(gaussian_filter(filled, 0.7), 0.5)
    points = (points - 2 + 0.5 - 0.5 / COARSER) * COARSER * nodes.spacing_mm + np.asarray(nodes.origin_mm)
    mesh = Mesh(points.astype(np.float64), triangles.astype(np.int64), np.zeros(len(triangles), np.int8))
    mesh = mesh if mesh.volume_mm3() > 0 else Mesh(mesh.points_mm, mesh.triangles[:, ::-1], mesh.opening)
    middle = mesh.centroids_mm()
    opening = np.zeros(len(triangles), np.int8)
    for each in nodes.openings:
        offset = middle - each.centre_mm
        flat = np.abs(offset @ np.asarray(each.normal)) < COARSER * nodes.spacing_mm
        opening[flat & (np.linalg.norm(offset, axis=1) < 0.9 * each.radius_mm)] = each.id
    return Mesh(mesh.points_mm, mesh.triangles, opening)


def write_case(nodes: Nodes, snapshots: int, folder: Path) -> float:
    """Write what the stages before would have left; seconds that the flow took."""
    node_files.save(nodes, folder / "nodes.h5")
    surface_of(nodes).write(folder / "surface.vtp")
    write_openings(nodes.openings, folder / "openings.json")
    points = nodes.points_mm().astype(np.float32)
    scale = np.float32(2 * np.pi / (40 * nodes.spacing_mm))
    x, y, z = (scale * points).T
    velocity = 0.2 * np.stack([np.sin(z) + np.cos(y), np.sin(x) + np.cos(z), np.sin(y) + np.cos(x)], axis=1)
    pressure = 100 * np.sin(x + y + z)
    stress = 0.5 * np.stack([np.cos(x), np.cos(y), np.cos(z), np.sin(x), np.sin(y), np.sin(z)], axis=1)
    times = np.arange(1, snapshots + 1) * PERIOD_S / snapshots
    factors = (1 + 0.8 * np.cos(2 * np.pi * times / PERIOD_S)).astype(np.float32)
    start = time.perf_counter()
    with FlowWriter(folder / "flow.vtkhdf", nodes) as writer:
        for moment, factor in zip(times, factors, strict=True):
            writer.append(float(moment), factor * velocity, factor * pressure, factor * stress)
        statistics = steady_statistics(velocity, stress, VISCOSITY_PA_S, DENSITY)
        writer.average(velocity, pressure, stress, statistics=statistics)
    took = time.perf_counter() - start
    names = [f"flow_ml_s:{o.name}" for o in nodes.openings] + [f"pressure_pa:{o.name}" for o in nodes.openings]
    rows = [",".join([f"{t}", "0.1", "0.4", *["1"] * len(names)]) for t in times]
    (folder / "monitor.csv").write_text(
        "\n".join([",".join(["time_s", "mach", "max_speed_m_s", *names]), *rows]) + "\n"
    )
    numbers = {"density_kg_m3": DENSITY, "viscosity_m2_s": VISCOSITY_PA_S / DENSITY, "period_s": PERIOD_S}
    summary = {"converged": True, "mach": 0.1, "warnings": [], "numbers": numbers}
    (folder / "solve.json").write_text(json.dumps(summary | {"openings": {o.name: {} for o in nodes.openings}}))
    return took


FILES = INPUTS | OUTPUTS | {"provenance": "postprocess.json"}


def run(folder: Path, threads: int) -> dict[str, Any]:
    """Run the stage; seconds, peak memory and versions of its provenance."""
    command = [sys.executable, "-m", "pipeline.stages.postprocess"]
    for role, name in FILES.items():
        command += [f"--{role}", str(folder / name)]
    subprocess.run(command, check=True, env=os.environ | {"NUMBA_NUM_THREADS": str(threads)})
    record = json.loads((folder / FILES["provenance"]).read_text())
    reported = {"seconds": round(record["seconds"], 1), "peak_memory_mb": round(record["peak_memory_mb"])}
    return reported | {"versions": record["versions"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=float, default=2e7)
    parser.add_argument("--snapshots", type=int, default=40)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=Path, required=True, help="for some 40 bytes a node and snapshot")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    kept = arguments.folder / "nodes.h5"
    nodes = node_files.load(kept) if kept.is_file() else vessel_tree(int(arguments.nodes))
    took = write_case(nodes, arguments.snapshots, arguments.folder)
    size = (arguments.folder / "flow.vtkhdf").stat().st_size
    payload = 4 * nodes.count * (10 * arguments.snapshots + STATIC_ARRAYS)
    results = {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads": arguments.threads,
        "python": platform.python_version(),
        "nodes": nodes.count,
        "snapshots": arguments.snapshots,
        "flow_bytes": size,
        "flow_bytes_over_payload": round(size / payload, 4),
        "flow_written_seconds": round(took, 1),
        **run(arguments.folder, arguments.threads),
    }
    print(json.dumps(results, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
