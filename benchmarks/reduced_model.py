# SPDX-License-Identifier: Apache-2.0
"""Reduced models against runs in three dimensions at half to twice the flow that they were fitted about.

    PYTHONPATH=.:benchmarks python benchmarks/reduced_model.py --seeds 11 16 [--kinds bend fork] [--across 16]
    PYTHONPATH=.:benchmarks python benchmarks/reduced_model.py --named demo fork stenosis
    PYTHONPATH=.:benchmarks python benchmarks/reduced_model.py --stenoses 50 75 --seeds 1 3 --across 10

Vessels are those of `--named`, and for each seed from FIRST up to but without END one of each of `--kinds` and one of
each of `--stenoses`; seeds alone draw all kinds. What would draw nothing is refused.

Bends, stenoses, forks, sacs and trees of two forks are drawn at random (tests/support/drawn_flows.py), at a Reynolds
number of 40 to 300.
The case runs with so many nodes across its narrowest place; the runs that the model is fitted to, at half, once and
twice its flow, on the coarse lattice that a case would have. The truth are runs at 0.5, 0.7, 1.4 and 2 times the flow
on the case's lattice, of which the model knows nothing. Errors are of the drop from the inlet to an outlet, over the
drop of total pressure. Canonical stenoses (`input.geometry`), so many percent of the diameter, have a direction, an
eccentricity and lengths that are drawn; as in the workflow no centreline of the case's own run is used. Beside them
stands what one run alone would give: Poiseuille's law along the sections for R, the rest for K. In forks runs with
another division of the flow tell what that costs.
"""

import argparse
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np  # noqa: E402
from bench import default_file, provenance  # noqa: E402
from comparison import table  # noqa: E402

import hemolattice as hl  # noqa: E402
from pipeline.case.case_file import Case  # noqa: E402
from pipeline.case.settings.base import parse  # noqa: E402
from pipeline.case.settings.flow import SolveSettings  # noqa: E402
from pipeline.case.settings.geometry import SurfaceSettings  # noqa: E402
from pipeline.case.settings.reduced import ReducedSettings  # noqa: E402
from pipeline.case.settings.yaml_file import read_yaml  # noqa: E402
from pipeline.case.shapes import Stenosis  # noqa: E402
from pipeline.geometry.branches.vessel_tree import Tree  # noqa: E402
from pipeline.geometry.closed_surface import Surface  # noqa: E402
from pipeline.geometry.lattice.node_arrays import decompose  # noqa: E402
from pipeline.members.in_memory import nodes_across  # noqa: E402
from pipeline.members.other_flow import OtherFlowInput, Vessel, computed  # noqa: E402
from pipeline.reduced.answer import What, answered  # noqa: E402
from pipeline.reduced.model import Held, ReducedModel  # noqa: E402
from pipeline.stages.canonical import CanonicalInput, canonical  # noqa: E402
from pipeline.stages.filter import filter_volume  # noqa: E402
from pipeline.stages.phantom import PhantomSettings, synthesize  # noqa: E402
from pipeline.stages.reduced import reduced  # noqa: E402
from pipeline.stages.segment import segment  # noqa: E402
from pipeline.stages.surface import extract_surface  # noqa: E402
from solver.boundary.windkessel import PASCAL_PER_MMHG  # noqa: E402
from solver.runtime.errors import StageError  # noqa: E402
from tests.support.drawn_flows import DENSITY, KINDS, VISCOSITY, drawn_flow  # noqa: E402

FACTORS = (0.5, 0.7, 1.4, 2.0)
"""Of the flow, at which the truth runs."""
NODES_ACROSS = ReducedSettings().nodes_across
LOG = logging.getLogger("reduced model")


@dataclass(frozen=True)
class Given:
    """A vessel and a flow.

    Attributes
    ----------
    name : of it.
    surface : closed.
    flow_ml_s : of its inlet, in the case.
    narrowest_mm : diameter that counts for the nodes across.
    spacing_mm : of the case's lattice; none: by the nodes across.
    patches : names of those of the wall.
    lines : whether the case has a centreline; a canonical shape has none.
    """

    name: str
    surface: Surface
    flow_ml_s: float
    narrowest_mm: float
    spacing_mm: float | None = None
    patches: tuple[str, ...] = ()
    lines: bool = True


def of_drawn(kind: str, seed: int) -> Given:
    """A vessel drawn at random."""
    drawn = drawn_flow(kind, seed)
    ends = [
        (name, point)
        for branch in drawn.vessel.branches
        for name, point in ((branch.start, branch.points_mm[0]), (branch.end, branch.points_mm[-1]))
        if name
    ]
    openings = [{"name": n, "role": "inlet" if n == "inlet" else "outlet", "near_mm": p} for n, p in ends]
    surface = extract_surface(drawn.occupancy(), SurfaceSettings.model_validate({"openings": openings}), LOG)
    return Given(drawn.name, surface, drawn.flow_ml_s, drawn.narrowest_mm)


def named(name: str, times: float) -> Given:
    """A vessel of the project: the demo, the small fork of ``config/cases/tiny.yaml``, or the canonical stenosis; at
    the flow of its case times a factor.
    """
    file = {"demo": "demo", "fork": "tiny", "stenosis": "stenosis"}[name]
    case = parse(Case, read_yaml(ROOT / f"config/cases/{file}.yaml"), file)
    inlet = next(iter(case.solve.inlets.values()))
    flow_ml_s = times * (inlet.flow_ml_s or 0.0)
    if shape := case.input.geometry:
        spacing_mm = shape.reference_mm / (case.voxelize.nodes_across or 20.0)
        made, _ = canonical(CanonicalInput(geometry=shape, spacing_mm=spacing_mm))
        surface = Surface(made.mesh, made.openings, {})
        return Given(name, surface, flow_ml_s, shape.reference_mm, spacing_mm, shape.patches, lines=False)
    settings = parse(PhantomSettings, read_yaml(ROOT / str(case.input.phantom)), file)
    image = synthesize(settings).image
    lumen = segment(filter_volume(image, case.filter), case.segment, image, "CT").occupancy
    surface = extract_surface(lumen, case.surface, LOG)
    narrowest = 2 * min(each.radius_mm for each in surface.openings)
    return Given(name, surface, flow_ml_s, narrowest)


def canonical_stenosis(percent: float, seed: int, across: float) -> Given:
    """A straight pipe of 4 mm, narrowed by so many percent of its diameter over 1.2 to 2.5 diameters, one and a half
    diameters long before and behind, at a Reynolds number of 100 to 200 in the throat.
    """
    rng = np.random.default_rng([seed, round(percent)])
    left, diameter = 1 - percent / 100, 4.0
    throat = diameter * float(rng.uniform(1.2, 2.5))
    x, y, z = rng.standard_normal(3).tolist()
    shape = Stenosis(
        shape="stenosis",
        diameter_mm=diameter,
        length_mm=throat + 3 * diameter,
        throat_mm=throat,
        area_reduction=1 - left**2,
        eccentricity=float(rng.uniform(0, 1)),
        direction=(x, y, z),
    )
    reynolds, spacing_mm = left * float(rng.uniform(100, 200)), left * diameter / across
    made, _ = canonical(CanonicalInput(geometry=shape, spacing_mm=spacing_mm))
    flow_ml_s = reynolds * np.pi * diameter / 4 * VISCOSITY / DENSITY * 1e3
    surface = Surface(made.mesh, made.openings, {})
    name = f"canonical stenosis {percent:g} %, {seed}"
    return Given(name, surface, flow_ml_s, left * diameter, spacing_mm, shape.patches, lines=False)


@dataclass(frozen=True)
class Solved:
    """A run on the case's lattice: figures, rows along the branches, and what the solver says."""

    indices: dict[str, Any]
    rows: list[dict[str, Any]]
    summary: dict[str, Any]

    def drops(self) -> dict[str, tuple[float, float]]:
        """Of each outlet, drop of total and of static pressure from the inlet, mmHg."""
        ends = {each["name"]: each for each in self.indices["openings"]}
        inlet = next(each for each in ends.values() if each["role"] == "inlet")
        keys = ("total_pressure_pa", "pressure_pa")
        return {
            name: tuple((inlet[key] - each[key]) / PASCAL_PER_MMHG for key in keys)
            for name, each in ends.items()
            if each["role"] == "outlet"
        }


def run(given: Given, nodes: Any, tree: Tree, factor: float, outlets: dict[str, Any] | None = None) -> Solved:
    """The flow times a factor, on the case's lattice."""
    flow = hl.solve(nodes, **stated(given, factor, outlets).model_dump(mode="json", exclude_unset=True))
    found = hl.postprocess(flow, given.surface, tree, find_sacs=False)
    return Solved(found.indices, found.profile, flow.summary)


def stated(given: Given, factor: float, outlets: dict[str, Any] | None = None) -> SolveSettings:
    """The section ``solve``."""
    inlets = {"*": {"flow_ml_s": factor * given.flow_ml_s}}
    values = {"inlets": inlets, "viscosity_pa_s": VISCOSITY, "density_kg_m3": DENSITY, "backend": "cpu"}
    return SolveSettings.model_validate(values | ({"outlets": outlets} if outlets else {}))


def fitted(given: Given, case: Solved, tree: Tree, coarse: float) -> ReducedModel:
    """The model, as the workflow would find it with so many nodes across on the coarse lattice."""
    numbers = case.summary["numbers"]
    leaving = {each["name"]: each["flow_ml_s"] for each in case.indices["openings"] if each["role"] == "outlet"}
    vessel = Vessel(
        given.surface.mesh,
        given.surface.openings,
        tree.branches,
        numbers["spacing_mm"],
        nodes_across(numbers),
        {name: flow / sum(leaving.values()) for name, flow in leaving.items()},
        given.patches,
    )
    settings = ReducedSettings(flows=(0.5, 2.0), nodes_across=coarse)
    others = [
        computed(
            vessel,
            OtherFlowInput(factor=factor, division=division, reduced=settings, solve=stated(given, 1.0)),
            LOG,
        )
        for factor, division in settings.runs
    ]
    return reduced(others, case.indices, case.rows if given.lines else [], case.summary)


def one_run(model: ReducedModel) -> ReducedModel:
    """The model that the case's run alone would give: friction by Poiseuille's law, the rest as a square loss."""
    branches = []
    for branch in model.branches:
        rest = branch.at(branch.flow_ml_s) - branch.poiseuille_mmhg_s_ml * branch.flow_ml_s
        losses = {
            "resistance_mmhg_s_ml": branch.poiseuille_mmhg_s_ml,
            "square_mmhg_s2_ml2": rest / (branch.flow_ml_s * abs(branch.flow_ml_s)),
        }
        branches.append(branch.model_copy(update=losses))
    return model.model_copy(update={"branches": tuple(branches)})


def errors(model: ReducedModel, truth: Solved, what: What) -> list[dict[str, Any]]:
    """What the model says beside a run: errors over the drop of total pressure, of each outlet."""
    says, alone = answered(model, what), answered(one_run(model), what)
    inlet, found = model.with_role("inlet")[0].name, []
    leaving = {each["name"]: each["monitored_flow_ml_s"] for each in truth.indices["openings"]}
    for outlet, (total, static) in truth.drops().items():
        found.append(
            {
                "factor": what.factor,
                "outlet": outlet,
                "total_drop_mmhg": total,
                "static_drop_mmhg": static,
                "total": (says.total_mmhg[inlet] - says.total_mmhg[outlet]) / total - 1,
                "static": (says.pressure_mmhg[inlet] - says.pressure_mmhg[outlet] - static) / total,
                "share": (says.opening_flow_ml_s[outlet] - leaving[outlet]) / leaving[inlet],
                "one_run": (alone.total_mmhg[inlet] - alone.total_mmhg[outlet]) / total - 1,
                "unsteady": bool(truth.indices["unsteady"]),
                "reservations": list(says.reservations),
            }
        )
    return found


def divided(given: Given, nodes: Any, tree: Tree, case: Solved, model: ReducedModel) -> list[dict[str, Any]]:
    """Errors where the pressure at one outlet is raised by a fifth, and two fifths, of the whole drop."""
    found = []
    outlets = [each.name for each in model.with_role("outlet")]
    if len(outlets) < 2:
        return []
    drop = max(total for total, _ in case.drops().values())
    for part in (0.2, 0.4):
        raised = {outlets[0]: {"pressure_mmhg": part * drop}, "*": {"pressure_mmhg": 0.0}}
        truth = run(given, nodes, tree, 1.0, raised)
        laws = {name: Held(pressure_mmhg=part * drop if name == outlets[0] else 0.0) for name in outlets}
        leaving = {each["name"]: each["monitored_flow_ml_s"] for each in truth.indices["openings"]}
        before = {each["name"]: each["monitored_flow_ml_s"] for each in case.indices["openings"]}
        moved = abs(leaving[outlets[0]] - before[outlets[0]]) / given.flow_ml_s
        found += [each | {"moved": moved} for each in errors(model, truth, What(1.0, laws))]
    return found


def measured(given: Given, across: float, coarse: float, factors: Sequence[float] = FACTORS) -> dict[str, Any]:
    """A vessel's model beside its runs at these parts of its flow.

    Parameters
    ----------
    given : the vessel.
    across, coarse : nodes across its narrowest place, of the case and wanted of the runs that the model is fitted to.
    factors : of the flow, of the truth.
    """
    tree = hl.centreline(given.surface)
    lattice = hl.voxelize(given.surface, spacing_mm=given.spacing_mm or given.narrowest_mm / across)
    nodes, _ = decompose(lattice, given.surface.mesh, given.surface.openings, patches=given.patches)
    case = run(given, nodes, tree, 1.0)
    began = time.perf_counter()
    model = fitted(given, case, tree, coarse)
    fitting, began = time.perf_counter() - began, time.perf_counter()
    answered(model, What(2.0))
    answering = time.perf_counter() - began
    linear = sum(branch.resistance_mmhg_s_ml * branch.flow_ml_s**2 for branch in model.branches)
    found = []
    for factor in factors:
        try:
            found += errors(model, run(given, nodes, tree, factor), What(factor))
        except StageError as error:
            found.append({"factor": factor, "refused": str(error)})
    return {
        "name": given.name,
        "reynolds": case.indices["openings"][0]["reynolds"],
        "nodes": nodes.count,
        "spacing_ratio": model.spacing_ratio,
        "coarse_error": model.coarse_error,
        "misfit": max(branch.misfit for branch in model.branches),
        "square_part": 1 - linear / sum(branch.at(branch.flow_ml_s) * branch.flow_ml_s for branch in model.branches),
        "reservations": list(model.reservations),
        "fitting_s": round(fitting, 1),
        "answering_s": round(answering, 4),
        "errors": found,
        "divided": divided(given, nodes, tree, case, model),
        "model": model.model_dump(mode="json"),
    }


def largest(rows: list[dict[str, Any]], key: str) -> float:
    """Of the rows of runs that ended."""
    return max((abs(row[key]) for row in rows if key in row), default=float("nan"))


def makers_of(options: argparse.Namespace) -> list[Callable[[], Given]]:
    """What makes each vessel that was asked for.

    Raises
    ------
    ValueError
        If that is none: drawn ones without seeds, or nothing at all.
    """
    seeds = range(*options.seeds)
    kinds = options.kinds or (() if options.stenoses else KINDS)
    if not seeds and (options.kinds or options.stenoses):
        raise ValueError("--kinds and --stenoses are drawn: give --seeds FIRST END, with FIRST below END")
    makers: list[Callable[[], Given]] = [partial(named, name, options.times) for name in options.named]
    makers += [partial(canonical_stenosis, each, seed, options.across) for seed in seeds for each in options.stenoses]
    makers += [partial(of_drawn, kind, seed) for seed in seeds for kind in kinds]
    if not makers:
        raise ValueError("no vessel: give --named, or --seeds FIRST END with FIRST below END")
    return makers


def parse_options(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line, with the makers of the vessels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 0), metavar=("FIRST", "END"))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=(), help="drawn; none, no --stenoses: all")
    parser.add_argument("--named", nargs="+", choices=("demo", "fork", "stenosis"), default=())
    parser.add_argument(
        "--stenoses", nargs="+", type=float, default=(), metavar="PERCENT", help="drawn, by what the diameter lost"
    )
    parser.add_argument("--times", type=float, default=1.0, help="the flow of named vessels, by that of their cases")
    parser.add_argument("--factors", nargs="+", type=float, default=FACTORS, help="of the flow, of the truth")
    parser.add_argument("--across", type=float, default=16.0, help="nodes of the case's lattice across the narrowest")
    parser.add_argument("--coarse", type=float, default=NODES_ACROSS, help="reduced.nodes_across")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--commit", help="of what was run, where git cannot tell it")
    options = parser.parse_args(words)
    try:
        options.makers = makers_of(options)
    except ValueError as error:
        parser.error(str(error))
    return options


def main() -> None:
    options = parse_options()
    makers = options.__dict__.pop("makers")
    results: dict[str, Any] = {**provenance(options), "records": []}
    file = options.json or default_file("reduced-model", results["hardware"])
    for make in makers:
        try:
            results["records"].append(measured(make(), options.across, options.coarse, options.factors))
        except StageError as error:
            results["records"].append({"refused": str(error)})
        print({key: value for key, value in results["records"][-1].items() if key != "model"}, flush=True)
        file.write_text(json.dumps(results, indent=1, default=str) + "\n")
    known = [each for each in results["records"] if "errors" in each]
    rows = [
        [
            each["name"],
            f"{each['reynolds']:.0f}",
            f"{each['square_part']:.0%}",
            *(f"{largest(each['errors'], key):.1%}" for key in ("total", "static", "share", "one_run")),
            f"{each['coarse_error']:+.1%}",
            f"{each['misfit']:.1%}",
            "yes" if each["reservations"] else "no",
        ]
        for each in known
    ]
    head = ["vessel", "Re", "square part", "total", "static", "share", "one run alone", "coarse lattice", "fit", "told"]
    print(table(head, rows))
    print(f"{sum(largest(each['errors'], 'total') < 0.05 for each in known)} of {len(known)} within 5 %; {file}")


if __name__ == "__main__":
    main()
