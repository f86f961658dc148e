# SPDX-License-Identifier: Apache-2.0
"""Quality and time of the partition: links between parts, balance, messages, pieces, by the height that cuts.

    python benchmarks/partition_quality.py --json results.json
    python benchmarks/partition_quality.py --shapes --sizes 1 5 20 --tree-parts 2 4 8 16 32 64

Needs NumPy, Numba and h5py alone. Links are counted in one direction each, which is the number of populations that pass
between parts in a step. Shapes are of about `--nodes` nodes: a cube, a bent vessel with an aneurysm, the tree of
`vessel_tree.py`. Trees of `--sizes` million nodes are divided with all heights, and timed: the graph of links and the
partition, by the clock and the processor.
"""

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from bench import provenance  # noqa: E402
from vessel_tree import vessel_tree  # noqa: E402

from solver.domain.division import Division, divide  # noqa: E402
from solver.domain.link_graph import LinkGraph, pieces  # noqa: E402
from solver.domain.nodes import Nodes  # noqa: E402
from solver.domain.partition import HEIGHTS, partition_graph  # noqa: E402
from tests.support.geometries import half_way_walls, nodes_from  # noqa: E402

LINKS_A_FACE = 5
"""Links that cross a face between two nodes in a plane cut: one along the axis, four diagonal ones."""
Distance = Callable[[np.ndarray], np.ndarray]


def cube(points: np.ndarray) -> np.ndarray:
    """Distance outside the cube of side 1, negative within."""
    return np.abs(points).max(axis=-1) - 0.5


def capsule(points: np.ndarray, start: np.ndarray, end: np.ndarray, radius: float) -> np.ndarray:
    """Distance from a straight vessel with round ends."""
    axis = end - start
    s = np.clip((points - start) @ axis / (axis @ axis), 0, 1)
    return np.linalg.norm(points - start - s[..., None] * axis, axis=-1) - radius


def aneurysm(points: np.ndarray) -> np.ndarray:
    """A half ring with straight ends and a sphere on its bend."""
    x, y, z = points[..., 0], points[..., 1], points[..., 2]
    ring = np.where(y > 0, np.hypot(np.hypot(x, y) - 0.3, z), np.inf) - 0.06
    legs = [capsule(points, np.array((side, 0, 0)), np.array((side, -0.6, 0.1)), 0.06) for side in (-0.3, 0.3)]
    sphere = np.linalg.norm(points - (0, 0.46, 0.03), axis=-1) - 0.17
    return np.minimum.reduce([ring, *legs, sphere])


SHAPES: dict[str, Callable[[int], Nodes]] = {
    "cube": lambda wanted: nodes_of(cube, wanted),
    "aneurysm": lambda wanted: nodes_of(aneurysm, wanted),
    "tree": vessel_tree,
}


def nodes_of(shape: Distance, wanted: int) -> Nodes:
    """Node arrays of a shape at a spacing that gives about `wanted` nodes."""
    coarse = inside(shape, 1 / 64)
    return nodes_from(trimmed(inside(shape, 1 / 64 * (coarse.sum() / wanted) ** (1 / 3))), half_way_walls)


def inside(shape: Distance, spacing: float) -> np.ndarray:
    """Mask [z, y, x] of the nodes within, slice by slice, over a box that holds all shapes."""
    places = np.arange(-1.0, 1.0, spacing) + spacing / 2
    y, x = np.meshgrid(places, places, indexing="ij")
    return np.stack([shape(np.stack((x, y, np.full_like(x, z)), axis=-1)) < 0 for z in places])


def trimmed(mask: np.ndarray) -> np.ndarray:
    """The mask without empty planes around it."""
    for axis in range(3):
        filled = np.flatnonzero(mask.any(axis=tuple(k for k in range(3) if k != axis)))
        mask = np.take(mask, np.arange(filled[0], filled[-1] + 1), axis=axis)
    return mask


def measured(name: str, graph: LinkGraph, count: int, heights: list[str] | None) -> dict[str, object]:
    """One row of the table."""
    clock, processor = time.perf_counter(), time.process_time()
    part = partition_graph(graph, count, heights)
    row: dict[str, object] = {
        "shape": name,
        "nodes": graph.count,
        "height": heights[0] if heights else "all",
        "seconds": round(time.perf_counter() - clock, 2),
        "processor_seconds": round(time.process_time() - processor, 2),
        "load": round(os.getloadavg()[0], 2),
        **Division.of_graph(graph, part).record(),
        "parts_in_pieces": int((pieces(graph.links, part) > 1).sum()),
    }
    if name == "cube" and count == 8:  # each part's faces inside the cube: at least its three shadows (Loomis-Whitney)
        row["bound"] = round(LINKS_A_FACE * 3 * count * (graph.count / count) ** (2 / 3))
    print("  ".join(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()), flush=True)
    return row


def trees(arguments: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Rows of trees that are timed, and what their graphs took."""
    for size in arguments.sizes:
        nodes = vessel_tree(round(size * 1e6))
        clock, processor = time.perf_counter(), time.process_time()
        graph = LinkGraph.of_nodes(nodes)
        took = {
            "graph_seconds": round(time.perf_counter() - clock, 2),
            "graph_processor_seconds": round(time.process_time() - processor, 2),
        }
        for count in arguments.tree_parts:
            yield measured("tree", graph, count, None) | took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--nodes", type=int, default=300_000, help="about so many nodes a shape")
    parser.add_argument("--parts", type=int, nargs="+", default=[2, 3, 8])
    parser.add_argument("--sizes", type=float, nargs="*", default=[], help="million nodes of trees that are timed")
    parser.add_argument("--tree-parts", type=int, nargs="+", default=[8], help="into which these are divided")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--commit", help="of what is measured, where git cannot tell it")
    arguments = parser.parse_args()
    warm()
    rows: list[dict[str, object]] = []
    for name in arguments.shapes:
        graph = LinkGraph.of_nodes(SHAPES[name](arguments.nodes))
        for count in arguments.parts:
            for heights in [*([height] for height in HEIGHTS), None]:
                rows.append(measured(name, graph, count, heights))
    rows += trees(arguments)
    if arguments.json:
        peak_gb = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 2)
        arguments.json.write_text(
            json.dumps({**provenance(arguments), "peak_gb": peak_gb, "rows": rows}, indent=1) + "\n"
        )


def warm() -> None:
    """Compile the loops over nodes, and those over blocks of nodes."""
    nodes = nodes_of(cube, 1000)
    divide(nodes, 2)
    blocks, _ = LinkGraph.of_nodes(nodes).coarser()
    partition_graph(blocks.coarser()[0], 2)


if __name__ == "__main__":
    main()
