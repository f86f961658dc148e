# SPDX-License-Identifier: Apache-2.0
"""Memory and time of the filter stage on a large CT angiography, through its command line.

    python benchmarks/filter_memory.py --json benchmarks/results/filter-memory.json

A synthetic scan of 512 x 512 x 500 voxels of 0.4 x 0.4 x 0.6 mm, int16, is filtered with each smoothing and resampled
to isotropic voxels of 0.4 mm (749 slices). Peak memory: the largest resident set of the process.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from pipeline.files.volume import Volume  # noqa: E402

SPACING_MM = (0.4, 0.4, 0.6)
SMOOTHINGS = ("none", "gaussian", "median", "curvature", "nonlocal")
LIMIT_GB = 12


def scan(size: tuple[int, int, int]) -> Volume:
    """A neck: air, tissue, a ring of bone, and twelve vessels that wind along z; HU with noise of 25."""
    nx, ny, nz = size
    y, x = np.mgrid[:ny, :nx].astype(np.float32)
    x, y = 2 * x / nx - 1, 2 * y / ny - 1
    body = np.hypot(x / 0.9, y / 0.8)
    bone = (np.abs(np.hypot(x, y - 0.2) - 0.25) < 0.05) * 860
    noise = np.random.default_rng(1)
    voxels = np.empty((nz, ny, nx), np.int16)
    for z in range(nz):
        plane = np.where(body < 1, 40.0, -1000.0) + bone
        for n in range(12):
            turn = 2 * np.pi * (n / 12 + 2 * z / nz)
            away = np.hypot(x - 0.55 * np.cos(turn), y - 0.45 * np.sin(turn)) * nx * SPACING_MM[0] / 2
            plane += 310 * np.clip((1 + 0.25 * n - away) / SPACING_MM[0], 0, 1)
        voxels[z] = np.rint(plane + noise.normal(0, 25, plane.shape))
    return Volume(voxels, SPACING_MM, (0.0, 0.0, 0.0), np.eye(3))


def measure(volume: Path, folder: Path, smoothing: str) -> dict[str, object]:
    """Run the stage once."""
    command = [
        sys.executable,
        "-m",
        "pipeline.stages.filter",
        "--volume",
        str(volume),
        "--filtered",
        str(folder / "filtered.nrrd"),
        "--provenance",
        str(folder / "provenance.json"),
        "--settings",
        json.dumps({"smoothing": smoothing}),
    ]
    start = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{smoothing}: exit status {process.returncode}\n{said}")
    kept = json.loads((folder / "provenance.json").read_text())
    return {
        "smoothing": smoothing,
        "peak_gb": round(usage.ru_maxrss * 1024 / 1e9, 2),
        "seconds": round(time.monotonic() - start, 1),
        "processor_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "voxels": kept["voxels"],
        "lines_of_progress": said.count(" left"),
    }


def machine() -> dict[str, object]:
    """What the figures were measured on, and with."""
    info = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), platform.machine())
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in ("numpy", "scipy", "SimpleITK", "numba")},
        "commit": commit.stdout.strip(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, nargs=3, default=(512, 512, 500), help="voxels along x, y, z")
    parser.add_argument("--smoothing", nargs="+", default=SMOOTHINGS, choices=SMOOTHINGS)
    parser.add_argument("--json", type=Path, help="file for the results; those of other smoothings in it are kept")
    arguments = parser.parse_args()
    kept = json.loads(arguments.json.read_text()) if arguments.json and arguments.json.exists() else {"runs": []}
    runs = {run["smoothing"]: run for run in kept["runs"]}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scan(tuple(arguments.size)).write(folder / "volume.nrrd")
        for smoothing in arguments.smoothing:
            runs[smoothing] = run = measure(folder / "volume.nrrd", folder, smoothing)
            print("  ".join(f"{key} {value}" for key, value in run.items()), flush=True)
            if arguments.json:
                results = {
                    **machine(),
                    "size": arguments.size,
                    "spacing_mm": SPACING_MM,
                    "limit_gb": LIMIT_GB,
                    "runs": [runs[kind] for kind in SMOOTHINGS if kind in runs],
                }
                arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    if worst := [run for run in runs.values() if run["peak_gb"] > LIMIT_GB]:
        raise SystemExit(f"more than {LIMIT_GB} GB: {worst}")


if __name__ == "__main__":
    main()
