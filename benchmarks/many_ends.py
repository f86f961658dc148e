# SPDX-License-Identifier: Apache-2.0
"""Many ends: how long a centreline with hundreds of spurs takes to prune, as a leaked lumen has.

    python benchmarks/many_ends.py --twigs 100 200 400 800

Graphs are drawn (tests/pipeline/geometry/test_pruning.py); measured are processor seconds of pruning as it is done, and
by measuring all branches after each that is lost, in turns; both lose the same branches.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from bench import add_results, write_results  # noqa: E402

from pipeline.geometry.branches.pruning import Pruning  # noqa: E402
from tests.pipeline.geometry.test_pruning import drawn_graph, pruned_plainly  # noqa: E402

LEAST_RADII = 8.0
"""Of a branch; ``surface.min_branch_radii`` is less, so that fewer are lost."""


def measured(seed: int, twigs: int) -> dict[str, Any]:
    """Of one graph."""
    graph = drawn_graph(seed, twigs)
    times = [time.process_time()]
    lost = Pruning(graph, LEAST_RADII).prune()
    times.append(time.process_time())
    plainly = pruned_plainly(graph, LEAST_RADII, frozenset())[1]
    times.append(time.process_time())
    return {
        "twigs": twigs,
        "rows": len(graph.links),
        "ends": len(graph.free_ends()),
        "lost": len(lost),
        "same": [each.rows for each in lost] == [each.rows for each in plainly],
        "seconds": round(times[1] - times[0], 4),
        "seconds_all_again": round(times[2] - times[1], 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--twigs", type=int, nargs="+", default=(100, 200, 400, 800))
    parser.add_argument("--seeds", type=int, nargs=2, default=(6000, 6003), help="from, and up to but not with")
    add_results(parser)
    options = parser.parse_args()
    records = [measured(seed, twigs) for twigs in options.twigs for seed in range(*options.seeds)]
    for record in records:
        print(record, flush=True)
    print(write_results(options, "many-ends", records))


if __name__ == "__main__":
    main()
