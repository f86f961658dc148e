# SPDX-License-Identifier: Apache-2.0
"""Given surfaces with noise: how many come in, with and without the smoothing of places where they cross themselves.

    HEMO_CASES=... python benchmarks/noisy_surfaces.py --seeds 100 124 --json results.json

Each seed takes one of the three surfaces of HEMO_CASES, turns it at random, decimates every other one, and adds noise
of 0.02 to 0.15 median edges to its vertices. Printed and kept: how each ended, its openings and volume.
"""

import argparse
import json
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from vtkmodules.vtkFiltersCore import vtkQuadricDecimation

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from bench import default_file, provenance  # noqa: E402

from pipeline.files.mesh import Mesh  # noqa: E402
from pipeline.files.surface_file import SurfaceFile, read_surface_file  # noqa: E402
from pipeline.geometry.given_surface import GivenSurface  # noqa: E402
from pipeline.geometry.surface.intersections import self_intersections  # noqa: E402
from pipeline.geometry.surface.repair import repair  # noqa: E402
from pipeline.stages import import_surface  # noqa: E402
from solver.runtime.errors import StageError  # noqa: E402

SURFACES = {"palabos-aneurysm-metres.stl": "m", "simvascular-aorto-iliac-cm.vtp": "cm", "caput-alster-ay-mm.stl": "mm"}
NOISE, DECIMATED = (0.02, 0.15), (0.2, 0.6)
"""Standard deviation over the median edge; part of the triangles that decimation takes."""


def drawn(seed: int, folder: Path) -> tuple[str, SurfaceFile, dict[str, Any]]:
    """Unit, surface and what was drawn."""
    rng = np.random.default_rng(seed)
    name = list(SURFACES)[seed % len(SURFACES)]
    given = read_surface_file(folder / name)
    whole = repair(given.points, given.triangles)
    mesh = Mesh(whole.points, whole.triangles, np.zeros(len(whole.triangles), np.int8))
    part = rng.uniform(*DECIMATED) if seed % 2 else 0.0
    if part:
        fewer = vtkQuadricDecimation()
        fewer.SetInputData(mesh.to_vtk())
        fewer.SetTargetReduction(part)
        fewer.Update()
        mesh = Mesh.from_vtk(fewer.GetOutput())
    corners, noise = mesh.points_mm[mesh.triangles], rng.uniform(*NOISE)
    edge = float(np.median(np.linalg.norm(corners[:, 0] - corners[:, 1], axis=1)))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    turn[:, 0] *= np.sign(np.linalg.det(turn))
    points = (mesh.points_mm + rng.normal(0, noise * edge, mesh.points_mm.shape)) @ turn.T
    facts = {"seed": seed, "surface": name, "noise": round(noise, 3), "decimated": round(part, 3)}
    return SURFACES[name], SurfaceFile(points, mesh.triangles, None), facts


def brought_in(given: SurfaceFile, unit: str) -> dict[str, Any]:
    """How it ended."""
    try:
        surface = import_surface.import_surface(given, GivenSurface(unit=unit), logging.getLogger("noise"))
    except StageError as refusal:
        return {"refusal": str(refusal).partition(";")[0][:160]}
    keys = ("given_volume_mm3", "volume_mm3", "untangled")
    return {"openings": len(surface.openings)} | {key: surface.quality[key] for key in keys}


def as_given(mesh: Mesh) -> tuple[Mesh, NDArray[np.int64], dict[str, float]]:
    """In place of the smoothing: the surface as it is, with the pairs of its triangles that cross."""
    return mesh, self_intersections(mesh.points_mm, mesh.triangles), {}


def rows(seeds: range, folder: Path) -> Iterator[dict[str, Any]]:
    """Of each seed, without the smoothing and with it."""
    for seed in seeds:
        unit, given, facts = drawn(seed, folder)
        with patch.object(import_surface, "untangled", as_given):
            before = brought_in(given, unit)
        yield facts | {"before": before, "after": brought_in(given, unit)}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs=2, default=(100, 124), help="first, and one after the last")
    parser.add_argument("--json", type=Path, help="file for the results; default: in benchmarks/results by the date")
    parser.add_argument("--commit", help="of what is measured, where git cannot tell it")
    options = parser.parse_args()
    record = provenance(options) | {"rows": []}
    for row in rows(range(*options.seeds), Path(os.environ["HEMO_CASES"]) / "surfaces"):
        print(json.dumps(row), flush=True)
        record["rows"].append(row)
    path = options.json or default_file("noisy-surfaces", record["hardware"])
    path.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
