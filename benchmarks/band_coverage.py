# SPDX-License-Identifier: Apache-2.0
"""Coverage of the bands: do they hold the true value as often as they say?

    python benchmarks/band_coverage.py --seeds 100 120 --workers 16
    python benchmarks/band_coverage.py --seeds 100 120 --workers 16 --truth-alone --across 32
    python benchmarks/band_coverage.py --seeds 600 602 --kinds tapering "fork with sac" --noise middle --workers 1
    python benchmarks/band_coverage.py --seeds 1100 1102 --pulse --workers 6
    python benchmarks/band_coverage.py --table benchmarks/results/FILE.json [FINER_TRUTH.json]

Vessels with a sac are drawn at random, of which the shape is known (tests/support/drawn_sacs.py), and imaged with
three levels of noise; `--kinds` draws others (tests/support/drawn_others.py). Each image goes through filter, segment
and surface, and through a run with an inflow and a viscosity that a user would state; members of the level quick give
the bands. The truth is a run on the true shape, cut where the surface is, on a finer lattice, with an inflow and a
viscosity that are drawn about the stated ones as the settings say; with `--pulse` the inflow pulsates, and its waveform
is drawn, too. A record keeps what the members gave; a table has
the bands that follow from it by the rules of the day.
"""

import argparse
import json
import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

from bench import default_file, provenance  # noqa: E402
from comparison import table  # noqa: E402

import hemolattice as hl  # noqa: E402
from pipeline.case.settings.flow import SolveSettings  # noqa: E402
from pipeline.case.settings.uncertainty import UncertaintySettings  # noqa: E402
from pipeline.files.mesh import Mesh  # noqa: E402
from pipeline.geometry.surface.clip import cut_end  # noqa: E402
from pipeline.geometry.surface.isosurface import occupancy_surface  # noqa: E402
from pipeline.haemodynamics.wall_shear_stress import Wall  # noqa: E402
from pipeline.members.in_memory import nodes_across  # noqa: E402
from pipeline.members.member import Case, MemberInput, computed  # noqa: E402
from pipeline.stages.uncertainty import uncertainty  # noqa: E402
from pipeline.uncertainty.banded_figures import Figure, figures_of, with_blur  # noqa: E402
from pipeline.uncertainty.bands import Members, bands  # noqa: E402
from pipeline.uncertainty.coarse_spacing import ORDER, ORDER_OF_PEAKS  # noqa: E402
from pipeline.uncertainty.sources import Variable, variables_of, with_variation  # noqa: E402
from pipeline.uncertainty.wall_field import opening_of, rows_on_wall  # noqa: E402
from pipeline.uncertainty.wall_precision import ROUGH, WallPrecision  # noqa: E402
from solver.domain.nodes import Opening  # noqa: E402
from solver.runtime.errors import StageError  # noqa: E402
from tests.support.drawn_others import OTHERS, drawn_other  # noqa: E402
from tests.support.drawn_sacs import CONTRAST_HU, NOISE, Drawn, drawn  # noqa: E402
from validation.timing import hardware  # noqa: E402

FINE = 16.0
"""Nodes across the inlet of the case."""
DENSITY, VISCOSITY = 1060.0, 3.5e-3
PULSE = ROOT / "data" / "waveforms" / "common-carotid-of-2-mm.csv"
"""Of an inflow that pulsates, up to twice its mean."""
PARTS = ("low_shear", "osi_mean")
KEYS = ("volume", "drop inlet to outlet", "shear_mean", "shear sac", "shear_p99", "peak_speed", *PARTS)
"""Figures that are judged; the first four are those that the bands are proved by."""
OF_FORKS = ("drop inlet to left", "drop inlet to right", "flow left", "flow right")
"""The same of vessels with two outlets."""
LOG = logging.getLogger("coverage")


def vessel_of(kind: str, seed: int, noise: str) -> Drawn:
    """A vessel of one of `OTHERS`, or else a bend with a sac."""
    return drawn_other(kind, seed, noise) if kind in OTHERS else drawn(seed, noise)


def true_surface(vessel: Drawn, openings: tuple[Opening, ...]) -> tuple[Mesh, tuple[Opening, ...]]:
    """The true shape, cut where the surface of the image is.

    Facets between vertices on the wall enclose 0.2 to 0.3 % less than the shape: the wall is moved by what that is of
    its area.
    """
    exact = vessel.exact().image
    part = (exact.voxels.astype(np.float32) - 40) / CONTRAST_HU
    mesh = occupancy_surface(exact.with_voxels(part))
    wall, volume_mm3 = Wall.of(mesh), float(part.sum(dtype=np.float64) * np.prod(exact.spacing_mm))
    less_mm = (volume_mm3 - mesh.volume_mm3()) / wall.areas_mm2.sum()
    mesh = replace(mesh, points_mm=mesh.points_mm + less_mm * wall.normals)
    for opening in openings:
        mesh = cut_end(mesh, np.array(opening.centre_mm), np.array(opening.normal), opening.id)
    return mesh, tuple(opening_of(mesh, opening) for opening in openings)


def stated(vessel: Drawn, rng: np.random.Generator, pulse: bool = False) -> SolveSettings:
    """What a user states of the flow: a Reynolds number of 50 to 300 at the inlet, half as much in the mean of a pulse.

    Pulses take long, and run on a GPU where one answers.
    """
    reynolds = rng.uniform(50, 300) / (2 if pulse else 1)
    flow_ml_s = reynolds * np.pi * 2 * vessel.radius_mm / 4 * VISCOSITY / DENSITY * 1e3
    inlet = {"flow_ml_s": float(flow_ml_s)} | ({"waveform": str(PULSE)} if pulse else {})
    given = {"inlets": {"inlet": inlet}, "viscosity_pa_s": VISCOSITY, "backend": "auto" if pulse else "cpu"}
    return SolveSettings.model_validate(given)


def solved(surface: Any, solve: SolveSettings, across: float, **settings: Any) -> tuple[Any, Any]:
    """Results and flow on a lattice of so many nodes across the inlet."""
    tree = hl.centreline(surface)
    lattice = hl.voxelize(surface, tree, nodes_across=across, across="inlet")
    backend = {"backend": "auto" if across > FINE else solve.backend}
    given = solve.model_dump(mode="json", exclude_unset=True) | backend
    flow = hl.solve(hl.decompose(lattice, surface), **given)
    return hl.postprocess(flow, surface, tree, **settings), flow


@dataclass(frozen=True)
class Wanted:
    """What is computed of each vessel.

    Attributes
    ----------
    across : nodes across the inlet of the truth.
    truth_alone : the truth and no bands.
    finer : the surface of the image on the lattice of the truth, too, which tells the error of the spacing alone.
    pulse : with an inflow that pulsates.
    """

    across: float = 24.0
    truth_alone: bool = False
    finer: bool = False
    pulse: bool = False


def tried(kind: str, seed: int, noise: str, wanted: Wanted) -> dict[str, Any]:
    """One vessel: bands of its image's figures beside the truth.

    Parameters
    ----------
    kind, seed, noise : of the vessel and its image.
    wanted : what is computed of it.
    """
    began = time.process_time()
    found: dict[str, Any] = {"seed": seed, "noise": noise} | ({"kind": kind} if kind in OTHERS else {})
    try:
        vessel = vessel_of(kind, seed, noise)
        return found | covered(vessel, seed, noise, wanted) | {"seconds": round(time.process_time() - began, 1)}
    except StageError as error:
        return found | {"refused": str(error)}
    except Exception as error:  # one vessel more or less: the record says so
        return found | {"refused": f"{type(error).__name__}: {error}"}


@dataclass(frozen=True)
class Taken:
    """The way of an image from its surface to the figures on the case's lattice, and what members start from.

    Attributes
    ----------
    surface, results : of the image.
    case : what members start from.
    settled : settings of postprocess on other lattices, by which the sacs are the same ones.
    """

    surface: Any
    results: Any
    case: Case
    settled: dict[str, Any]


def segmented_surface(vessel: Drawn) -> tuple[Any, dict[str, Any]]:
    """The surface of a vessel's image, and what its segmentation is known by."""
    phantom = vessel.imaged()
    segmented = hl.segment(hl.filter_image(phantom.image), phantom.image, "CT", seeds_mm=phantom.truth["seeds_mm"][:1])
    named = [
        {"name": each["name"], "role": "inlet" if each["name"] == "inlet" else "outlet", "near_mm": each["centre_mm"]}
        for each in phantom.truth["openings"]
    ]
    return hl.surface(segmented, openings=named), segmented.record


def taken(vessel: Drawn, solve: SolveSettings, settings: UncertaintySettings) -> Taken:
    """Take the image of a vessel through all stages."""
    surface, record = segmented_surface(vessel)
    results, flow = solved(surface, solve, FINE)
    rows = rows_on_wall(surface.mesh, results.wall.mesh)
    labels = results.arrays.get("sac", np.zeros(len(rows), np.int8))
    sacs = {sac["name"]: rows[labels == k + 1] for k, sac in enumerate(results.indices["sacs"])}
    wall = WallPrecision.of(settings, record, surface.openings)
    across = nodes_across(flow.summary["numbers"])
    case = Case(surface.mesh, surface.openings, flow.nodes.spacing_mm, across, sacs, wall)
    necks = [
        {"name": sac["name"], "neck_mm": sac["neck_mm"], "normal": sac["neck_normal"]}
        for sac in results.indices["sacs"]
    ]
    return Taken(surface, results, case, {"sacs": necks, "find_sacs": False})


def covered(vessel: Drawn, seed: int, noise: str, wanted: Wanted) -> dict[str, Any]:
    """Bands beside the truth."""
    rng = np.random.default_rng([seed, list(NOISE).index(noise), 7])
    settings = UncertaintySettings(level="quick", seed=int(rng.integers(2**31)))
    solve = stated(vessel, rng, wanted.pulse)
    image = taken(vessel, solve, settings)
    surface, results, case = image.surface, image.results, image.case
    variables = variables_of(settings, case.wall, surface.openings, solve)
    given = MemberInput(member=0, uncertainty=settings, solve=solve)
    mesh, openings = true_surface(vessel, surface.openings)
    true = with_variation(solve, settings, openings, variables, rng.standard_normal(len(variables)))
    exact, _ = solved(replace(surface, mesh=mesh, openings=openings), true, wanted.across, **image.settled)
    truth = true_figures(exact, mesh)
    if wanted.truth_alone:
        return {"across": wanted.across, "truth": truth}
    members = [computed(case, given.model_copy(update={"member": k}), LOG) for k in range(settings.count + 1)]
    found = uncertainty(settings, members, results.indices, surface.mesh.volume_mm3())
    finer = {}
    if wanted.finer:
        nearer, _ = solved(surface, solve, wanted.across, **image.settled)
        finer = true_figures(nearer, surface.mesh)
    return {
        "across": wanted.across,
        "voxels_on_radius": vessel.radius_mm / float(np.prod(vessel.image.spacing_mm)) ** (1 / 3),
        "wall": vars(case.wall),
        "parents_mm": {sac["name"]: sac["parent_diameter_mm"] / 2 for sac in results.indices["sacs"]},
        "ratio": found["ratio"],
        "failed": found["failed"],
        "no_bands": found["no_bands"],
        "finer": kept(finer),
        "truth": kept(truth),
        "figures": kept(true_figures(results, surface.mesh)),
        "variables": [vars(variable) for variable in variables],
        "members": [{"drawn": list(map(float, m.drawn)), "figures": kept(m.figures)} for m in members if not m.failed],
    }


def kept(figures: Mapping[str, float]) -> dict[str, float]:
    """Those figures that are judged, with the digits that a record needs."""
    return {key: float(f"{figures[key]:.6g}") for key in (*KEYS, *OF_FORKS) if key in figures}


def order_of(key: str) -> float:
    """Order with which a figure comes near to its limit, as the product has it."""
    return ORDER_OF_PEAKS if key == "shear_p99" else ORDER


def banded(of: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Bands of a vessel's figures by key, each with the truth; of none that was refused."""
    if not of.get("members") or of["no_bands"]:
        return {}
    unchanged, *drawn = of["members"]
    together = Members(
        tuple(Variable(**each) for each in of["variables"]),
        np.array([each["drawn"] for each in drawn]),
        [each["figures"] for each in drawn],
        unchanged["figures"],
        of["ratio"],
        bool(of["wall"]["rough_mm"]),
    )
    figures = [
        Figure(key, key, "", value, part=key in PARTS, order=order_of(key)) for key, value in of["figures"].items()
    ]
    parents = of.get("parents_mm") or {"sac": vessel_of(of.get("kind", ""), of["seed"], of["noise"]).radius_mm}
    blurred = with_blur(figures, parents, of["wall"].get("edge_mm", of["wall"]["rough_mm"] / ROUGH))
    return {
        band["key"]: band | {"truth": of["truth"][band["key"]]}
        for band in bands(blurred, together)
        if band["key"] in of["truth"]
    }


def true_figures(exact: Any, mesh: Mesh) -> dict[str, float]:
    """Figures of the truth by key."""
    sacs = {sac["name"]: sac["shear_mean_pa"] for sac in exact.indices["sacs"]}
    return {each.key: each.value for each in figures_of(exact.indices, mesh.volume_mm3(), sacs)}


def merged(tries: list[dict[str, Any]], *finer: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tries with the truth of other records, where these have one."""
    truths = {_vessel(each): each["truth"] for of in finer for each in of if "truth" in each}
    return [each | {"truth": truths.get(_vessel(each), each["truth"])} if "truth" in each else each for each in tries]


def _vessel(of: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells a vessel of a record from others."""
    return of.get("kind"), of["seed"], of["noise"]


def shown(tries: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Of each figure and level of noise: truths in the band, of how many; the band's half width; the error's rms."""
    head = ["figure", *(f"{noise}: in the band, half width, error" for noise in NOISE), "all"]
    found = [(each["noise"], banded(each)) for each in tries]
    rows = []
    for key in (*KEYS, *OF_FORKS):
        row, together = [key], []
        for noise in NOISE:
            mine = [of[key] for level, of in found if level == noise and key in of]
            if not mine:
                row.append("none")
                continue
            inside = [each["low"] <= each["truth"] <= each["high"] for each in mine]
            together += inside
            half = np.mean([(each["high"] - each["low"]) / 2 / each["value"] for each in mine])
            errors = [each["truth"] / each["value"] - 1 for each in mine]
            row.append(f"{sum(inside)} of {len(inside)}, {half:.1%}, {np.sqrt(np.mean(np.square(errors))):.1%}")
        if together:
            rows.append([*row, f"{sum(together)} of {len(together)} ({np.mean(together):.0%})"])
    return head, rows


def main() -> None:
    """Try the vessels, print the table, keep the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs=2, type=int, default=(100, 120))
    parser.add_argument("--kinds", nargs="+", default=["bend with sac"], choices=["bend with sac", *OTHERS])
    parser.add_argument("--noise", nargs="+", default=list(NOISE), choices=list(NOISE))
    parser.add_argument("--finer", action="store_true", help="each surface once more on the lattice of the truth")
    parser.add_argument("--pulse", action="store_true", help="an inflow that pulsates")
    parser.add_argument("--across", type=float, default=24.0, help="nodes across the inlet of the truth")
    parser.add_argument("--truth-alone", action="store_true", help="no bands")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, help="default: a file in benchmarks/results")
    parser.add_argument(
        "--table", type=Path, nargs="+", help="print the table of a record, by the truth of the second, and run nothing"
    )
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    if options.table:
        print(table(*shown(merged(*(json.loads(path.read_text(encoding="utf-8"))["tries"] for path in options.table)))))
        return
    wanted = Wanted(options.across, options.truth_alone, options.finer, options.pulse)
    jobs = [
        (kind, seed, noise, wanted)
        for kind in options.kinds
        for seed in range(*options.seeds)
        for noise in options.noise
    ]
    tries: list[dict[str, Any]] = []
    path, record = options.json or default_file("band-coverage", hardware()), provenance(options)
    with multiprocessing.get_context("spawn").Pool(options.workers, maxtasksperchild=4) as pool:
        for job in [pool.apply_async(tried, job) for job in jobs]:
            tries.append(job.get())
            print(json.dumps(tries[-1]), flush=True)
            path.write_text(json.dumps(record | {"tries": tries}, indent=1) + "\n", encoding="utf-8")
    if not options.truth_alone:
        print(table(*shown(tries)))
    print(path)


if __name__ == "__main__":
    main()
