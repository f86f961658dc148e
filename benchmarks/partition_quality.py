# SPDX-License-Identifier: Apache-2.0
"""Quality and time of the partition: links between parts, balance, pieces, by the height that cuts.

    python benchmarks/partition_quality.py --json results.json
    python benchmarks/partition_quality.py --sizes 1 5 20 --shapes

Needs NumPy, Numba and h5py alone. Links are counted in one direction each, which is the number of populations that pass
between parts in a step. Shapes are masks of about `--nodes` nodes: a cube, a bent vessel with an aneurysm, a tree of
four generations of vessels.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from solver.domain.nodes import Nodes  # noqa: E402
from solver.domain.partition import HEIGHTS, cut_links, link_table, partition, pieces  # noqa: E402
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


def tree(points: np.ndarray) -> np.ndarray:
    """Vessels that fork three times, radii after Murray, planes of forks turned by 70 degrees."""
    distance = np.full(points.shape[:-1], np.inf)
    branches = [(np.array((0.0, 0.0, -0.5)), np.array((0.0, 0.0, 1.0)), np.array((1.0, 0.0, 0.0)), 0.4, 0.07)]
    for _ in range(4):
        grown = []
        for start, axis, across, length, radius in branches:
            end = start + length * axis
            distance = np.minimum(distance, capsule(points, start, end, radius))
            third = np.cross(axis, across)
            turned = np.cos(np.radians(70)) * across + np.sin(np.radians(70)) * third
            for side in (-1, 1):
                direction = np.cos(np.radians(38)) * axis + side * np.sin(np.radians(38)) * across
                grown.append(
                    (end, direction, turned - (turned @ direction) * direction, 0.8 * length, radius / 2 ** (1 / 3))
                )
        branches = [(s, a, c / np.linalg.norm(c), n, r) for s, a, c, n, r in grown]
    return distance


SHAPES: dict[str, Distance] = {"cube": cube, "aneurysm": aneurysm, "tree": tree}


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


def measured(name: str, nodes: Nodes, links: np.ndarray, count: int, heights: list[str] | None) -> dict[str, object]:
    """One row of the table."""
    start = time.perf_counter()
    part = partition(nodes, count, heights)
    seconds = time.perf_counter() - start
    sizes, cut = np.bincount(part), cut_links(links, part)
    row: dict[str, object] = {
        "shape": name,
        "nodes": nodes.count,
        "parts": count,
        "height": heights[0] if heights else "all",
        "cut_links": int(cut.sum()),
        "largest_halo": int(cut.max()),
        "cut_per_node": float(cut.sum() / nodes.count),
        "imbalance": float(np.abs(sizes / sizes.mean() - 1).max()),
        "parts_in_pieces": int((pieces(links, part) > 1).sum()),
        "seconds": round(seconds, 2),
    }
    if name == "cube" and count == 8:  # each part's faces inside the cube: at least its three shadows (Loomis-Whitney)
        row["bound"] = round(LINKS_A_FACE * 3 * count * (nodes.count / count) ** (2 / 3))
    print("  ".join(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()), flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--nodes", type=int, default=300_000, help="about so many nodes a shape")
    parser.add_argument("--parts", type=int, nargs="+", default=[2, 3, 8])
    parser.add_argument("--sizes", type=float, nargs="*", default=[], help="million nodes of trees that are timed")
    parser.add_argument("--json", type=Path, help="file for the results")
    arguments = parser.parse_args()
    partition(nodes_of(cube, 1000), 2)  # compiles
    rows = []
    for name in arguments.shapes:
        nodes = nodes_of(SHAPES[name], arguments.nodes)
        links = link_table(nodes)
        for count in arguments.parts:
            for heights in [*([height] for height in HEIGHTS), None]:
                rows.append(measured(name, nodes, links, count, heights))
    for size in arguments.sizes:
        nodes = nodes_of(tree, round(size * 1e6))
        rows.append(measured("tree", nodes, link_table(nodes), 8, None))
    if arguments.json:
        machine = {"machine": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
        arguments.json.write_text(json.dumps(machine | {"rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
