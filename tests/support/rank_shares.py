# SPDX-License-Identifier: Apache-2.0
"""What a rank holds at most while it reads its part, plans a run, lays it out, has a lattice of twice the spacing and
begins a flow file; the ranks print lines of JSON.

    mpirun -n K python -m tests.support.rank_shares FOLDER NAME ...

of node arrays FOLDER/NAME.h5, each divided for K. The first of them is for what is held once: it is not weighed.
"""

import json
import sys
import tracemalloc
from pathlib import Path

import numpy as np

from solver.backends import distributed, share
from solver.backends.communicator import world
from solver.boundary import walls
from solver.domain import whole
from solver.domain.halving import halved
from solver.domain.part_file import load_part
from solver.run import vtkhdf
from solver.run.flow_file import FlowWriter
from solver.run.plan import make_plan
from solver.run.prolongation import Prolongation
from solver.run.setup import drive
from solver.run.unwritten_flow import FlowOfRank
from tests.support.solve_settings import settings

BLOCK = 1000
"""Rows that are brought together or read at a time, few beside those of a part."""


def prepare(path: Path) -> tuple[int, int, float]:
    """All of a run up to its first step; nodes that are here, and all; and what is held of the lattice once it has a
    driver, over what that driver has use for.
    """
    ranks = world()
    nodes, wanted = load_part(path, ranks), settings(backend="cpu", ranks=ranks.size, velocity_set="D3Q19")
    plan = make_plan(nodes, wanted)
    before = tracemalloc.get_traced_memory()[0]
    driver = drive(nodes, wanted, plan)
    assert isinstance(driver, distributed.DistributedDriver)
    held = tracemalloc.get_traced_memory()[0] - before
    used = sum(each.memory_bytes() for each in driver.drivers)
    coarse, rows = halved(nodes)
    prolonged = Prolongation(nodes, rows)
    assert (
        prolonged(np.ones((1, len(rows)))).shape[1] == np.count_nonzero(nodes.is_own) > np.count_nonzero(coarse.is_own)
    )
    flow = path.with_suffix(".vtkhdf")
    with FlowWriter(flow, nodes, share=driver.share) if ranks.rank == 0 else FlowOfRank(nodes, driver.share):
        return nodes.count, nodes.total, held / used


def main(folder: Path, *names: str) -> None:
    whole.BLOCK_ROWS = share.WRITTEN_ROWS = BLOCK
    walls.NEAR = distributed.NEAR = BLOCK
    vtkhdf.CHUNK_ROWS = vtkhdf.CHUNK_IDS = BLOCK
    prepare(folder / f"{names[0]}.h5")
    for name in names[1:]:
        tracemalloc.start()
        here, total, held = prepare(folder / f"{name}.h5")
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        said = {"name": name, "rank": world().rank, "here": here, "all": total, "most": most, "held": held}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
