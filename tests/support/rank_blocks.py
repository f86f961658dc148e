# SPDX-License-Identifier: Apache-2.0
"""What ranks hold while they keep a state, go on from it and write a flow file; each prints a line of JSON.

    mpirun -n K python -m tests.support.rank_blocks FOLDER

All is of the same bytes as of one process, which the first rank is then: FOLDER/ranks.vtkhdf and FOLDER/one.vtkhdf.
"""

import json
import logging
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from solver.backends import share
from solver.backends.communicator import Communicator, world
from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.distributed import DistributedDriver, OwnPart
from solver.backends.fields import MEAN
from solver.backends.lattice import build_lattice
from solver.domain import whole as blocks
from solver.domain.excerpt import excerpt
from solver.ranks.rank import SharedCheckpoints
from solver.run import checkpoint, vtkhdf
from solver.run.flow_file import FlowStatistics, FlowWriter
from solver.run.unwritten_flow import FlowOfRank
from tests.support.geometries import closed_box, numbers, observe
from tests.support.in_memory import InMemory

SIZE, BLOCK = (13, 13, 13), 200
LOG = logging.getLogger("rank_blocks")


class Weighing(Communicator):
    """Keeps the most bytes that came at once."""

    def __init__(self, ranks: Communicator) -> None:
        vars(self).update(vars(ranks))
        self.most = 0

    def _weighed(self, *found: Any) -> None:
        self.most = max(self.most, *(each.nbytes for each in found if each is not None), 0)

    def collect(self, numbers: Any) -> Any:
        found = super().collect(numbers)
        self._weighed(found)
        return found

    def join(self, numbers: Any) -> Any:
        found = super().join(numbers)
        self._weighed(found)
        return found

    def broadcast(self, arrays: Any) -> Any:
        found = super().broadcast(arrays)
        self._weighed(*(found or {}).values())
        return found


def write(driver: Any, writer: FlowWriter) -> None:
    """A time step, and means with statistics."""
    fields, statistics = driver.fields(), driver.statistics()
    with writer:
        arrays = fields.velocity.T, fields.drho, fields.stress.T
        writer.append(0.5, *arrays)
        writer.average(*arrays, statistics=FlowStatistics(*statistics.arrays()))


def of_driver(state: dict[str, Any]) -> dict[str, Any]:
    """As a checkpoint names it."""
    return {f"driver/{name}": each for name, each in state.items()}


def held(work: Callable[[], Any]) -> tuple[Any, int]:
    """What work gives, and the most memory that it took."""
    tracemalloc.start()
    found = work()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found, most


def sum_of_what_is_let_go(ranks: Communicator) -> int:
    """A sum over all ranks of an array that nobody else holds, whose memory others would get."""
    time.sleep(0.2 * ranks.rank)  # the first one waits for the others
    wait = ranks.begin_sum(np.full(30, 7))
    others = [np.full(30, -1) for _ in range(100)]
    return int(wait().sum()) // 30 + 0 * len(others)


def main(folder: Path) -> None:
    blocks.BLOCK_ROWS = share.WRITTEN_ROWS = vtkhdf.CHUNK_ROWS = BLOCK
    ranks, nodes = Weighing(world()), closed_box(SIZE)
    first = ranks.rank == 0
    lattice = build_lattice(nodes, "trt", (1.2, 1.1), precision="fp64")
    part = np.arange(nodes.count) * ranks.size // nodes.count
    own = excerpt(InMemory(replace(nodes, part=part.astype(np.int16))), ranks)
    one = CpuDriver(lattice)
    one.populations[:] = 1e-3 * np.random.default_rng(0).standard_normal(lattice.slots)
    one.average(MEAN, True)
    divided = DistributedDriver(OwnPart.of_lattice(lattice, part, ranks), CpuDriver, ranks)
    divided.restore(one.state())
    kept = SharedCheckpoints(ranks, folder / "checkpoint", "run", 0.0, LOG)
    ranks.most = 0
    state, in_state = held(divided.state)
    _, in_write = held(lambda: kept.write(2, of_driver(state), {}))
    other = DistributedDriver(OwnPart.of_lattice(lattice, part, ranks), CpuDriver, ranks)
    found, in_newest = held(lambda: kept.newest(lambda: of_driver(other.state()), late="driver/"))
    _, in_restore = held(lambda: other.restore(checkpoint.under("driver/", found.arrays)))
    writer = FlowWriter(folder / "ranks.vtkhdf", own, share=other.share) if first else FlowOfRank(own, other.share)
    _, in_flow = held(lambda: write(other, writer))
    most = ranks.most
    observed = numbers(observe(other, False))
    if first:
        write(one, FlowWriter(folder / "one.vtkhdf", nodes))
    said = {
        "sum": sum_of_what_is_let_go(ranks),
        "nodes": nodes.count,
        "whole": sum(each.nbytes for each in one.state().values()),
        "most_at_once": most,
        "held": {"state": in_state, "write": in_write, "newest": in_newest, "restore": in_restore, "flow": in_flow},
        "alike": bool(np.array_equal(observed, numbers(observe(one, False)))),
    }
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
