# SPDX-License-Identifier: Apache-2.0
"""How far the wall of a segmented vessel lies from its true place, and whether bands of volumes hold it; no flow runs.

    python benchmarks/wall_place.py --seeds 800 813 --workers 2
    python benchmarks/wall_place.py --seeds 820 840 --kinds tapering "double bend"

Vessels and images are those of benchmarks/band_coverage.py. Of each, over the width of the edge (contrast over slope):
the shift of the whole wall, which is the difference of the volumes over the wall's area; the mean distance of places of
the wall from the true one, and how it varies about that mean (`rough`, and over one to three voxels what
neighbours have in common). The members of `quick` move the wall as they would with a flow, and give the volume's band.
"""

import argparse
import json
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np  # noqa: E402
from band_coverage import segmented_surface, stated, true_surface, vessel_of  # noqa: E402
from bench import default_file, provenance  # noqa: E402
from comparison import table  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from scipy.spatial import cKDTree  # noqa: E402

from pipeline.case.settings.flow import SolveSettings  # noqa: E402
from pipeline.case.settings.uncertainty import UncertaintySettings  # noqa: E402
from pipeline.files.mesh import Mesh  # noqa: E402
from pipeline.haemodynamics.wall_shear_stress import Wall  # noqa: E402
from pipeline.members.member import Case, surface_of  # noqa: E402
from pipeline.uncertainty.banded_figures import Figure  # noqa: E402
from pipeline.uncertainty.bands import Members, bands  # noqa: E402
from pipeline.uncertainty.design import design  # noqa: E402
from pipeline.uncertainty.sources import variables_of  # noqa: E402
from pipeline.uncertainty.wall_precision import WallPrecision  # noqa: E402
from solver.domain.nodes import Opening  # noqa: E402
from solver.runtime.errors import StageError  # noqa: E402
from tests.support.drawn_others import OTHERS  # noqa: E402
from tests.support.drawn_sacs import NOISE  # noqa: E402
from validation.timing import hardware  # noqa: E402

FROM_CAPS = 1.0
"""Radii of an opening from its cap within which places of the wall do not count: there it is cut."""

LAGS = (1.0, 1.5, 2.0, 3.0)
"""Distances at which places are compared, in voxels of the segmented image."""


def distances(mesh: Mesh, true: Mesh, openings: tuple[Opening, ...]) -> tuple[NDArray[np.float64], ...]:
    """How far places of a wall lie outside of the true one, mm; the places, (P, 3); their areas."""
    wall, truth = Wall.of(mesh), Wall.of(true)
    points = wall.mesh.points_mm
    away = np.ones(len(points), bool)
    for each in openings:
        away &= np.linalg.norm(points - each.centre_mm, axis=1) > (1 + FROM_CAPS) * each.radius_mm
    near = cKDTree(truth.mesh.points_mm).query(points[away])[1]
    gap = points[away] - truth.mesh.points_mm[near]
    return np.einsum("ij,ij->i", gap, truth.normals[near]), points[away], wall.areas_mm2[away]


def correlations(points_mm: NDArray[np.float64], off_mm: NDArray[np.float64], voxel_mm: float) -> list[float]:
    """What places at the distances `LAGS`, within a fifth, have in common, of their variance."""
    some = np.random.default_rng(0).permutation(len(points_mm))[:1500]
    tree, seeds = cKDTree(points_mm), cKDTree(points_mm[some])
    pairs = seeds.sparse_distance_matrix(tree, 1.2 * LAGS[-1] * voxel_mm, output_type="coo_matrix")
    product = off_mm[some[pairs.row]] * off_mm[pairs.col] / np.mean(off_mm**2)
    at = [np.abs(pairs.data / voxel_mm - lag) < 0.2 * lag for lag in LAGS]
    return [round(float(product[of].mean()), 3) for of in at]


def volume_band(case: Case, settings: UncertaintySettings, solve: SolveSettings) -> dict[str, float]:
    """The band of the volume, by members whose wall moves as those of a case do."""
    variables = variables_of(settings, case.wall, case.openings, solve)
    every = design(settings.count, len(variables), settings.seed)
    volumes = [
        {"volume": surface_of(case, settings, variables, drawn, k + 1)[0].volume_mm3()} for k, drawn in enumerate(every)
    ]
    own = case.surface.volume_mm3()
    members = Members(variables, every, volumes, {"volume": own}, 1.0, bool(case.wall.rough_mm))
    (band,) = bands([Figure("volume", "volume", "mm3", own)], members)
    return {key: band[key] for key in ("low", "high")}


def tried(kind: str, seed: int, noise: str) -> dict[str, Any]:
    """The wall of one vessel beside the true one."""
    found: dict[str, Any] = {"kind": kind, "seed": seed, "noise": noise}
    rng = np.random.default_rng([seed, list(NOISE).index(noise), 7])
    settings = UncertaintySettings(level="quick", seed=int(rng.integers(2**31)))
    vessel = vessel_of(kind, seed, noise)
    solve = stated(vessel, rng)
    try:
        surface, record = segmented_surface(vessel)
    except StageError as error:
        return found | {"refused": str(error)}
    true, _ = true_surface(vessel, surface.openings)
    mesh, width = surface.mesh, float(record["contrast"]) / float(record["wall_slope_per_mm"])
    off, places, areas = distances(mesh, true, surface.openings)
    mean = float(np.average(off, weights=areas))
    rough = float(np.sqrt(np.average((off - mean) ** 2, weights=areas)))
    wall = WallPrecision.of(settings, record, surface.openings)
    case = Case(mesh, surface.openings, 0.1, 16.0, {}, wall)
    volume, truth = mesh.volume_mm3(), true.volume_mm3()
    return found | {
        "voxels_on_radius": vessel.radius_mm / float(np.prod(vessel.image.spacing_mm)) ** (1 / 3),
        "blur_voxels": float(vessel.image.blur_mm[0] / vessel.image.spacing_mm[0]),
        "width_mm": width,
        "width_voxels": width / float(record["spacing_mm"]),
        "whole": (volume - truth) / float(Wall.of(true).areas_mm2.sum()) / width,
        "mean": mean / width,
        "rough": rough / width,
        "missed": (record.get("local_edge") or {}).get("change"),
        "mean_radius_mm": record["mean_radius_mm"],
        "alike": correlations(places, off - mean, float(record["spacing_mm"])),
        "volume": volume,
        "truth": truth,
        **volume_band(case, settings, solve),
    }


def rms(values: list[float]) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(np.square(values))))


def shown(tries: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Of each kind and level of noise, and of all."""
    head = ["vessels", "tried", "whole: mean", "rms", "rough: rms", "alike at " + ", ".join(map(str, LAGS)) + " voxels"]
    head += ["volume: mean error", "rms", "half width", "in the band"]
    kinds = list(dict.fromkeys(each["kind"] for each in tries))
    groups = [(kind, noise) for kind in kinds for noise in NOISE] + [("all", "")]
    rows = []
    for kind, noise in groups:
        mine = [
            each for each in tries if "whole" in each and kind in (each["kind"], "all") and noise in (each["noise"], "")
        ]
        if not mine:
            continue
        errors = [each["volume"] / each["truth"] - 1 for each in mine]
        inside = sum(each["low"] <= each["truth"] <= each["high"] for each in mine)
        rows.append(
            [
                f"{kind} {noise}".strip(),
                str(len(mine)),
                f"{np.mean([each['whole'] for each in mine]):+.4f}",
                f"{rms([each['whole'] for each in mine]):.4f}",
                f"{rms([each['rough'] for each in mine]):.3f}",
                ", ".join(f"{each:.2f}" for each in np.mean([each["alike"] for each in mine], axis=0)),
                f"{np.mean(errors):+.2%}",
                f"{rms(errors):.2%}",
                f"{np.mean([(each['high'] - each['low']) / 2 / each['volume'] for each in mine]):.2%}",
                f"{inside} of {len(mine)} ({inside / len(mine):.0%})",
            ]
        )
    return head, rows


def main() -> None:
    """Try the vessels, print the table, keep the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs=2, type=int, default=(800, 813))
    parser.add_argument("--kinds", nargs="+", default=["bend with sac"], choices=["bend with sac", *OTHERS])
    parser.add_argument("--noise", nargs="+", default=list(NOISE), choices=list(NOISE))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", type=Path, help="default: a file in benchmarks/results")
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    jobs = [(kind, seed, noise) for kind in options.kinds for seed in range(*options.seeds) for noise in options.noise]
    tries = []
    with multiprocessing.get_context("spawn").Pool(options.workers, maxtasksperchild=20) as pool:
        for job in [pool.apply_async(tried, job) for job in jobs]:
            tries.append(job.get())
            print(json.dumps(tries[-1]), flush=True)
    path = options.json or default_file("wall-place", hardware())
    path.write_text(json.dumps(provenance(options) | {"tries": tries}, indent=1) + "\n", encoding="utf-8")
    print(table(*shown(tries)))


if __name__ == "__main__":
    main()
