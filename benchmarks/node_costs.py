# SPDX-License-Identifier: Apache-2.0
"""What a wall link and a link through an opening cost beside a node: the weights by which a domain is divided.

    python benchmarks/node_costs.py --json results.json

Lattices with much and with little wall and opening, pipes, discs and trees of vessels, are run with several kinds of
models. The time of a step is fitted by least squares, all lattices counting alike, as a sum of so much for a node, a
wall link and a link through an opening. Links are those of 19 directions, by which
`solver/domain/node_costs.py` weighs. On a CPU time is that of the processor on one thread, which other programs change
less than that of the clock; on a CUDA device that of the device. Lattices are run in turns of a few steps.

Then other trees are divided into parts of as many nodes, and into parts that cost the same by the weights in use, and
the time of a step of each part is measured: how much longer the longest is than the mean is what waiting costs.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from bench import TAU, boundary_values, provenance  # noqa: E402
from vessel_tree import vessel_tree  # noqa: E402

from solver.backends.lattice import Lattice, build_lattice  # noqa: E402
from solver.backends.lattice_driver import LatticeDriver  # noqa: E402
from solver.backends.splitting import split  # noqa: E402
from solver.domain.division import Division  # noqa: E402
from solver.domain.link_graph import LinkGraph  # noqa: E402
from solver.domain.node_costs import NODE, OPENING_LINK, WALL_LINK  # noqa: E402
from solver.domain.nodes import Nodes  # noqa: E402
from solver.domain.partition import partition_graph  # noqa: E402
from solver.kernels.collision import relaxation_rates  # noqa: E402
from solver.run.setup import make_driver  # noqa: E402
from tests.support.geometries import pipe  # noqa: E402
from validation.timing import stirred, stopwatch  # noqa: E402

LAMBDA_TRT = 3 / 16
ALONG = (1, 2, 20)
"""Direction of the pipes."""
LATTICES: dict[str, Callable[[], Nodes]] = {
    "pipe, radius 6": lambda: pipe(ALONG, 6.2, 2000),
    "pipe, radius 9": lambda: pipe(ALONG, 9.2, 940),
    "pipe, radius 12": lambda: pipe(ALONG, 12.2, 540),
    "pipe, radius 20": lambda: pipe(ALONG, 20.2, 195),
    "pipe, radius 30": lambda: pipe(ALONG, 30.2, 88),
    "disc, radius 60": lambda: pipe(ALONG, 60.2, 22),
    "disc, radius 90": lambda: pipe(ALONG, 90.2, 9),
    "disc, radius 120": lambda: pipe(ALONG, 120.2, 5),
    "tree of 0.1 M": lambda: vessel_tree(1e5),
    "tree of 0.25 M": lambda: vessel_tree(2.5e5),
    "tree of 0.5 M": lambda: vessel_tree(5e5),
}
"""Of about 0.25 million nodes if nothing else is said, so many that what a step costs by itself is not seen."""


@dataclass(frozen=True)
class Kind:
    """Models whose step is measured.

    Attributes
    ----------
    collision, walls, precision : their names.
    parabolic : whether walls meet a parabola.
    corners : whether a node has 27 populations, with the correcting force.
    """

    collision: str
    walls: str = "bouzidi"
    precision: str = "fp32"
    parabolic: bool = True
    corners: bool = False

    def lattice(self, nodes: Nodes) -> Lattice:
        """A geometry with these models."""
        return build_lattice(
            nodes.with_corners() if self.corners else nodes,
            self.collision,
            relaxation_rates(TAU, LAMBDA_TRT),
            self.walls,
            self.precision,
            isotropic=self.corners,
            parabolic=self.parabolic,
        )


KINDS = {
    "trt": Kind("trt"),
    "trt, walls that meet no parabola": Kind("trt", parabolic=False),
    "trt, half-way": Kind("trt", "half-way", parabolic=False),
    "trt, yu": Kind("trt", "yu"),
    "trt, fp64": Kind("trt", precision="fp64"),
    "trt, fp16": Kind("trt", precision="fp16", parabolic=False),
    "bgk": Kind("bgk"),
    "projected": Kind("projected", parabolic=False),
    "cumulant": Kind("cumulant", corners=True),
}


def counts(nodes: Nodes) -> NDArray[np.float64]:
    """What a step's time is fitted to: nodes, wall links, links through openings."""
    return np.array([nodes.count, len(nodes.wall_link_node), len(nodes.opening_link_node)], np.float64)


def fitted(of_lattices: NDArray[np.float64], seconds: NDArray[np.float64]) -> dict[str, float]:
    """Costs by least squares of the relative deviations.

    Parameters
    ----------
    of_lattices : (K, 3) counts of each lattice.
    seconds : (K,) of a step of each.
    """
    costs, *_ = np.linalg.lstsq(of_lattices / seconds[:, None], np.ones(len(seconds)))
    off = of_lattices @ costs / seconds - 1
    weighed = of_lattices @ np.array((NODE, WALL_LINK, OPENING_LINK), np.float64)
    return {
        "node_ns": round(float(1e9 * costs[0]), 2),
        "wall_link_over_node": round(float(costs[1] / costs[0]), 3),
        "opening_link_over_node": round(float(costs[2] / costs[0]), 3),
        "worst_deviation": round(float(np.abs(off).max()), 3),
        "spread_by_nodes": spread(seconds / of_lattices[:, 0]),
        "spread_by_weights": spread(seconds / weighed),
    }


def spread(rates: NDArray[np.float64]) -> float:
    """Standard deviation over the mean: how much the time of parts differs that are alike by this measure."""
    return round(float(np.std(rates) / np.mean(rates)), 3)


def in_turns(drivers: list[LatticeDriver], rows: list[NDArray[np.float64]], options: argparse.Namespace) -> list[float]:
    """Time of a step of each driver, s: a few steps of all in turn, again and again, and of each the median.

    So what other programs do at a time meets all alike.
    """
    values = [np.tile(row, (options.steps, 1)) for row in rows]
    works = [partial(driver.advance, each) for driver, each in zip(drivers, values, strict=True)]
    watches = [stopwatch(driver) for driver in drivers]
    turns = []
    for _ in range(options.repeats + 1):  # the first compiles
        taken = [watch(work) for watch, work in zip(watches, works, strict=True)]
        turns.append([each.processor if options.backend == "cpu" else each.seconds for each in taken])
    seconds: list[float] = (np.median(turns[1:], axis=0) / options.steps).tolist()
    return seconds


def seconds_of(kind: Kind, geometries: dict[str, Nodes], options: argparse.Namespace) -> dict[str, float]:
    """Time of a step of each lattice, by name."""
    drivers = [stirred(make_driver(options.backend, kind.lattice(nodes))) for nodes in geometries.values()]
    rows = [boundary_values(nodes) for nodes in geometries.values()]
    return dict(zip(geometries, in_turns(drivers, rows, options), strict=True))


def times_of_parts(seed: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Imbalance of the time of the parts of a tree that is divided by nodes and by cost."""
    nodes = vessel_tree(options.tree, seed)
    graph, lattice, row = LinkGraph.of_nodes(nodes), KINDS["trt"].lattice(nodes), boundary_values(nodes)
    for by, cost in (("nodes", np.ones_like(graph.cost)), ("cost", graph.cost)):
        part = partition_graph(replace(graph, cost=cost), options.parts)
        lattices = [each.lattice for each in split(lattice, part)]
        drivers = [stirred(make_driver(options.backend, each)) for each in lattices]
        seconds = np.array(in_turns(drivers, [row] * len(drivers), options))
        found = {
            "seed": seed,
            "nodes": nodes.count,
            "divided_by": by,
            "time_imbalance": round(float(seconds.max() / seconds.mean() - 1), 3),
            "step_us": np.round(1e6 * seconds, 1).tolist(),
            "counts": [[k.count, len(k.walls.slot), len(k.inlets.slot) + len(k.outlets.slot)] for k in lattices],
            **Division.of_graph(graph, part).record(),
        }
        print(found, flush=True)
        yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--repeats", type=int, default=60, help="turns")
    parser.add_argument("--steps", type=int, default=2, help="of a lattice in a turn, even")
    parser.add_argument("--seeds", type=int, nargs="*", default=[11, 12, 13, 14], help="of the trees that are divided")
    parser.add_argument("--tree", type=float, default=4e5, help="nodes of each")
    parser.add_argument("--parts", type=int, default=8, help="into which they are divided")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--commit", help="of what is measured, where git cannot tell it")
    options = parser.parse_args()
    numba.set_num_threads(1)
    results: dict[str, Any] = {
        **provenance(options),
        "weights": {"node": NODE, "wall_link": WALL_LINK, "opening_link": OPENING_LINK},
        "kinds": {},
        "divided": [],
    }

    def keep() -> None:
        if options.json:
            options.json.write_text(json.dumps(results, indent=1) + "\n")

    geometries = {name: make() for name, make in LATTICES.items()} if options.kinds else {}
    results["counts"] = {name: counts(nodes).astype(int).tolist() for name, nodes in geometries.items()}
    for name in options.kinds:
        usable = {k: nodes for k, nodes in geometries.items() if not KINDS[name].corners or len(nodes.corner_link_node)}
        seconds = seconds_of(KINDS[name], usable, options)
        found = fitted(np.array([counts(nodes) for nodes in usable.values()]), np.array(list(seconds.values())))
        print(f"{name:34}", found, flush=True)
        results["kinds"][name] = found | {"load": round(os.getloadavg()[0], 2), "step_s": seconds}
        keep()
    for seed in options.seeds:
        for found in times_of_parts(seed, options):
            results["divided"].append(found)
            keep()


if __name__ == "__main__":
    main()
