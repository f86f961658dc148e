# SPDX-License-Identifier: Apache-2.0
"""The age of blood as a field beside walkers: particles that diffuse as much as the field, and such that do not.

    PYTHONPATH=.:benchmarks python benchmarks/age_of_blood.py results/demo [results/other] --peclet 10 30
    PYTHONPATH=.:benchmarks python benchmarks/age_of_blood.py --seeds 61 63 --across 10

Each results folder is a finished case with a steady flow; with seeds, vessels with a sac are drawn
(tests/support/drawn_flows.py) and solved here. The field is that of `transport`, with the diffusivity of each grid
Peclet number. Walkers (validation/random_walk.py) start at nodes drawn alike over the volume and go backwards until
they come out of an inlet, with the same diffusivity, and with none. Told are mean ages over the volume, over fifths of
it from the youngest blood to the oldest by the field, in sacs, and of what leaves, which is volume over flow by law.
"""

import argparse
import json
import logging
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np  # noqa: E402
from bench import default_file, provenance  # noqa: E402

import hemolattice as hl  # noqa: E402
from pipeline.case.settings.flow import SolveSettings  # noqa: E402
from pipeline.case.settings.geometry import SurfaceSettings  # noqa: E402
from pipeline.files.json_file import read_json  # noqa: E402
from pipeline.files.mesh import Mesh  # noqa: E402
from pipeline.haemodynamics.indices import read_monitor  # noqa: E402
from pipeline.members.in_process import solved_in  # noqa: E402
from pipeline.stages.surface import extract_surface  # noqa: E402
from pipeline.stages.transport import flows_ml_s, sac_parts  # noqa: E402
from solver.domain import nodes as node_files  # noqa: E402
from solver.domain.nodes import Nodes  # noqa: E402
from solver.run.flow_file import Flow, read_flow  # noqa: E402
from solver.transport.carry import carry  # noqa: E402
from solver.transport.scalar_settings import TransportSettings  # noqa: E402
from tests.support.drawn_flows import DENSITY, VISCOSITY, drawn_flow  # noqa: E402
from validation.random_walk import ages_by_walkers, by_age, compared  # noqa: E402

LOG = logging.getLogger("age of blood")
FIFTHS = 5
LIMIT = 40.0
"""Transit times after which a walker is followed no longer."""


@dataclass(frozen=True)
class StillFlow:
    """What the scalar takes of a steady flow file."""

    times_s: np.ndarray
    velocity: np.ndarray

    def velocity_mean_m_s(self) -> np.ndarray:
        """(N, 3)."""
        return self.velocity


@dataclass(frozen=True)
class Given:
    """A steady flow.

    Attributes
    ----------
    name : of it.
    nodes, flow : the lattice, and the velocity on it.
    out_ml_s : (1, openings) mean flow out through each.
    sacs : nodes of each, (N,), by name.
    """

    name: str
    nodes: Nodes
    flow: StillFlow
    out_ml_s: np.ndarray
    sacs: dict[str, np.ndarray]


def finished(folder: Path) -> Given:
    """A case that has run."""
    nodes, file = node_files.load(folder / "nodes.h5"), read_flow(folder / "flow.vtkhdf")
    flow = StillFlow(file.times_s, file.velocity_mean_m_s())
    out = flows_ml_s(nodes, read_monitor(folder / "monitor.csv"), flow.times_s, None)
    sacs = sac_parts(nodes, Mesh.read(folder / "surface.vtp"), read_json(folder / "indices.json"))
    return Given(folder.name, nodes, flow, out, sacs)


def drawn(seed: int, across: float) -> Given:
    """A vessel with a sac."""
    made = drawn_flow("sac", seed)
    limb = made.vessel.branches[0]
    ends = {"inlet": limb.points_mm[0], "outlet": limb.points_mm[-1]}
    openings = [{"name": name, "role": name, "near_mm": point} for name, point in ends.items()]
    surface = extract_surface(made.occupancy(), SurfaceSettings.model_validate({"openings": openings}), LOG)
    nodes = hl.decompose(hl.voxelize(surface, spacing_mm=made.narrowest_mm / across), surface)
    stated = {"inlets": {"*": {"flow_ml_s": made.flow_ml_s}}, "viscosity_pa_s": VISCOSITY, "density_kg_m3": DENSITY}
    with TemporaryDirectory() as folder:
        solved = solved_in(Path(folder), nodes, SolveSettings.model_validate(stated | {"backend": "cpu"}), LOG)
        flow = StillFlow(solved.flow.times_s, solved.flow.velocity_mean_m_s())
    sac = made.vessel.sacs[0]
    away = (nodes.points_mm() - np.array(sac.centre_mm)) / np.array(sac.radii_mm)
    out = flows_ml_s(nodes, solved.record, flow.times_s, None)
    return Given(made.name, nodes, flow, out, {"ball": np.linalg.norm(away, axis=1) < 1})


def measured(given: Given, peclet: float, walkers: int, seed: int) -> dict[str, Any]:
    """One vessel at a grid Peclet number."""
    settings = TransportSettings(backend="cpu", grid_peclet=peclet, bolus=None, settled=0.002)
    carried = carry(given.nodes, cast(Flow, given.flow), given.out_ml_s, None, settings, LOG, given.sacs)
    assert carried.age
    plan, field = carried.plan, carried.age.field.astype(np.float64)
    rng = np.random.default_rng(seed)
    rows = rng.choice(np.flatnonzero(np.isfinite(field)), walkers)
    groups = {"volume": np.ones(walkers, bool)}
    groups |= {f"fifth {k + 1}": part for k, part in enumerate(by_age(field[rows], FIFTHS))}
    groups |= {name: part[rows] for name, part in given.sacs.items()}
    leaving = outlet_rows(given, walkers // 4, rng)
    found: dict[str, Any] = {}
    for diffusivity in (plan.diffusivity_m2_s, 0.0):
        velocity = given.flow.velocity_mean_m_s()
        began = time.process_time()
        ages = ages_by_walkers(given.nodes, velocity, diffusivity, rows, LIMIT * plan.transit_s, seed)
        out = ages_by_walkers(given.nodes, velocity, diffusivity, leaving, LIMIT * plan.transit_s, seed)
        name = "walkers" if diffusivity else "walkers that do not mix"
        each = compared(field[rows], ages, list(groups.values()))
        found[name] = {
            "groups": [asdict(one) | {"name": key, "off": one.off} for key, one in zip(groups, each, strict=True)],
            "median_s": float(np.median(ages.time_s[~ages.lost])),
            "leaving_s": float(out.time_s[~out.lost].mean()),
            "leaving_error_s": float(out.time_s[~out.lost].std(ddof=1) / np.sqrt((~out.lost).sum())),
            "not_out_share": float(((ages.through == 0) & ~ages.lost).mean()),
            "lost_share": float(ages.lost.mean()),
            "processor_s": round(time.process_time() - began, 1),
        }
    return {
        "name": given.name,
        "nodes": given.nodes.count,
        "numbers": plan.numbers,
        "field": {
            "mean_s": carried.age.mean,
            "median_s": float(np.nanmedian(field)),
            "leaving_s": [float(age) for age in carried.age.at_openings],
            "missing": carried.age.missing,
        },
        **found,
    }


def outlet_rows(given: Given, count: int, rng: np.random.Generator) -> np.ndarray:
    """Nodes at outlets, drawn in proportion to what flows out there."""
    nodes = given.nodes
    normals = np.array([opening.normal for opening in nodes.openings])
    roles = np.array([opening.role == "outlet" for opening in nodes.openings])
    here = np.flatnonzero(nodes.opening > 0)
    number = nodes.opening[here].astype(int) - 1
    through = (given.flow.velocity_mean_m_s()[here] * normals[number]).sum(axis=1) * roles[number]
    weight = np.maximum(through, 0.0)
    for k in np.unique(number):  # of each outlet as much as leaves there
        part = number == k
        if weight[part].sum() > 0:
            weight[part] *= max(given.out_ml_s.mean(axis=0)[k], 0.0) / weight[part].sum()
    return rng.choice(here, count, p=weight / weight.sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="*", help="results of cases with a steady flow")
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 0), metavar=("FIRST", "END"), help="of drawn vessels")
    parser.add_argument("--across", type=float, default=10.0, help="nodes across the narrowest place of drawn vessels")
    parser.add_argument("--peclet", type=float, nargs="+", default=[10.0], help="grid Peclet numbers")
    parser.add_argument("--walkers", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1, help="of the walkers")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--commit", help="of what was run, where git cannot tell it")
    options = parser.parse_args()
    vessels = [finished(folder) for folder in options.folders]
    vessels += [drawn(seed, options.across) for seed in range(*options.seeds)]
    if not vessels:
        parser.error("no vessel: give folders of results, or --seeds FIRST END with FIRST below END")
    options.folders = [folder.name for folder in options.folders]
    results: dict[str, Any] = {**provenance(options), "records": []}
    file = options.json or default_file("age-of-blood", results["hardware"])
    for given in vessels:
        for peclet in options.peclet:
            results["records"].append(measured(given, peclet, options.walkers, options.seed))
            print_table(results["records"][-1])
            file.write_text(json.dumps(results, indent=1) + "\n")
    print(file)


def print_table(found: dict[str, Any]) -> None:
    """A table of one vessel at a grid Peclet number."""
    numbers = found["numbers"]
    print(f"{found['name']}, {found['nodes']} nodes, grid Peclet number {numbers['grid_peclet']:.3g}")
    print(f"field: {found['field']}; volume over flow {numbers['transit_s']:.4g} s")
    for kind in ("walkers", "walkers that do not mix"):
        one = found[kind]
        print(kind, {key: value for key, value in one.items() if key != "groups"})
        for group in one["groups"]:
            ages = f"field {group['field_s']:.4g} s, {group['walkers_s']:.4g} s +- {group['error_s']:.2g}"
            print(f"  {group['name']:10} {ages}: {group['off']:+.1%}", flush=True)


if __name__ == "__main__":
    main()
