# SPDX-License-Identifier: Apache-2.0
"""How far one case scales over devices: the cost of a step's parts, with latency and bandwidth of a network.

    make mpi
    python benchmarks/scaling.py --ranks 2 3 4 --json results.json

A step of a rank is: nodes at the border collide; then the others, while messages travel; then walls and openings, and
one sum over all ranks that it waits for. Two things are done with this.

*Checked here*: ranks of one thread run a tree of vessels. The processor time of a step, without waiting, is foretold
from the cost of a node, a wall link, a cut link and a message, which all ranks measure at the same time on another tree
each; that tree is undivided. Time of processors, since ranks share cores: what waiting costs is not checked.

*Foretold*: 2 to 1,024 devices of the speeds that one H200 was measured to have, for latencies and a bandwidth. Links
between parts are those of a tree of vessels that is divided into 2 to 1,024 parts here, or of cubes with neighbours on
all sides. Nothing of it was measured on several devices.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import ceil, log2
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from bench import provenance  # noqa: E402
from vessel_tree import vessel_tree  # noqa: E402

from solver.backends.communicator import Communicator, world  # noqa: E402
from solver.backends.cpu.cpu_driver import CpuDriver  # noqa: E402
from solver.backends.distributed import DistributedDriver, OwnPart  # noqa: E402
from solver.backends.lattice import Lattice, build_lattice  # noqa: E402
from solver.domain.division import divide  # noqa: E402
from solver.domain.nodes import Nodes  # noqa: E402
from solver.domain.partition import partition  # noqa: E402
from solver.kernels.collision import relaxation_rates  # noqa: E402
from solver.kernels.sums import LIMBS  # noqa: E402
from solver.ranks.launch import environment, require_mpi  # noqa: E402

TAU, INFLOW = 0.55, 20.0
LINKS_A_FACE, CUBE_LINKS = 5, 30
"""Links of a node through a face of a cube, and through all six."""
POPULATION_BYTES = 4
H200_NODES = (1e5, 2e5, 1e6, 5e6, 2.01e7)
H200_STEP_S = (12.4e-6, 17.4e-6, 1e6 / 13.7e9, 5e6 / 17.5e9, 2.01e7 / 19.6e9)
"""Fluid nodes of the tree in fp32, and time of a step: benchmarks/results/2026-11-22-bench-h200.json."""
H200_COPY, WALL_SHARE, LAUNCH_S, LAUNCHES = 4.16e12, 0.17, 4e-6, 5
"""Bytes copied a second (same record), part of a step that walls and openings take (docs/records/performance.md); and
what was not measured: a launch, and more of them in a step than one device needs."""
LINK_BYTES = 144
"""That a device moves for a cut link: two sectors of 32 bytes and two packed numbers at each end."""
TOTALS = (2e7, 1e8, 5e8, 1e9, 1e10)
DEVICES = tuple(2**k for k in range(1, 11))
SIZES = np.geomspace(1e3, 1e9, 6001)
WEAK_NODES, WEAK_GOAL, STRONG_FLOOR = 2e7, 0.9, 0.7


@dataclass(frozen=True)
class Network:
    """Between devices.

    Attributes
    ----------
    latency_s : of a message.
    bytes_s : that a device sends, and gets, a second.
    """

    latency_s: float
    bytes_s: float

    def travel_s(self, links: float) -> float:
        """Of a population for each link, to all neighbours at once."""
        return self.latency_s + links * POPULATION_BYTES / self.bytes_s

    def sum_s(self, devices: int) -> float:
        """Of a sum over all, by halves."""
        return self.latency_s * ceil(log2(devices))


def one_device_s(nodes: float) -> float:
    """A step of one device; its smallest and its largest lattice have the speed of those that were measured."""
    if nodes > H200_NODES[-1]:
        return nodes / H200_NODES[-1] * H200_STEP_S[-1]
    return float(np.exp(np.interp(np.log(nodes), np.log(H200_NODES), np.log(H200_STEP_S))))


def device_s(nodes: float, devices: int, surface: float, network: Network) -> float:
    """A step of one of several devices with so many nodes each; `surface` is its cut links over nodes^(2/3)."""
    links, alone = surface * nodes ** (2 / 3), one_device_s(nodes)
    inner = (1 - WALL_SHARE) * alone * (1 - min(1.0, links / LINKS_A_FACE / nodes))
    late = max(0.0, network.travel_s(links) - inner)
    return alone + links * LINK_BYTES / H200_COPY + late + network.sum_s(devices) + LAUNCHES * LAUNCH_S


def foretold(network: Network, surfaces: dict[int, float]) -> dict[str, object]:
    """Efficiency by number of devices, and where a strong one falls below the floor.

    Parameters
    ----------
    network : between the devices.
    surfaces : of the part with the most cut links, by number of devices.
    """

    def efficiency(nodes: float, devices: int) -> float:
        return one_device_s(nodes * devices) / devices / device_s(nodes, devices, surfaces[devices], network)

    weak = {n: one_device_s(WEAK_NODES) / device_s(WEAK_NODES, n, surface, network) for n, surface in surfaces.items()}
    strong = {f"{total:g}": {n: efficiency(total / n, n) for n in surfaces} for total in TOTALS}
    least = {n: next(size for size in SIZES if efficiency(size, n) >= STRONG_FLOOR) for n in surfaces}
    return {
        "weak": {n: round(value, 3) for n, value in weak.items()},
        "weak_goal_reached": weak[DEVICES[-1]] >= WEAK_GOAL,
        "strong": {total: {n: round(value, 3) for n, value in of.items()} for total, of in strong.items()},
        "least_nodes_of_a_device_above_floor": {n: float(f"{size:.3g}") for n, size in least.items()},
    }


def surfaces_of_vessels(nodes: Nodes) -> dict[int, float]:
    """Most cut links of a part over its nodes^(2/3), of a tree divided into as many parts as there may be devices."""
    return {n: float(divide(nodes, n)[1].cut_links.max()) / (nodes.count / n) ** (2 / 3) for n in DEVICES}


class Working(Communicator):
    """Counts the processor time that waiting takes.

    Attributes
    ----------
    waited_s : up to now.
    """

    def __init__(self, ranks: Communicator) -> None:
        vars(self).update(vars(ranks))
        self.waited_s = 0.0

    def _wait(self, *requests: object, kept: tuple[NDArray, ...] = ()) -> None:
        begin = time.process_time()
        super()._wait(*requests, kept=kept)
        self.waited_s += time.process_time() - begin

    def work_s(self, work: Callable[[], object]) -> float:
        """Processor time of some work of this rank, without waiting."""
        begin, waited = time.process_time(), self.waited_s
        work()
        return time.process_time() - begin - self.waited_s + waited


@dataclass(frozen=True)
class Costs:
    """Processor time of the parts of a step: for a node, a link through an opening, a wall link, a cut link, a message,
    and a sum.
    """

    node_s: float
    opening_s: float
    wall_s: float
    cut_s: float
    message_s: float
    sum_s: float


def counts(lattice: Lattice, cut: int, neighbours: int) -> NDArray[np.float64]:
    """How many of each a step of a lattice has."""
    openings = len(lattice.inlets.slot) + len(lattice.outlets.slot)
    return np.array([lattice.count, openings, len(lattice.walls.slot), cut, neighbours, 1.0])


def laid_out(nodes: Nodes) -> Lattice:
    return build_lattice(nodes, "trt", relaxation_rates(TAU, (TAU - 0.5) / 2), "bouzidi", "fp32")


def boundary_values(nodes: Nodes, steps: int) -> np.ndarray:
    """Of so many steps with the same inflow."""
    inlets = [opening.role == "inlet" for opening in nodes.openings]
    return np.tile(INFLOW * np.array(inlets, np.float64), (steps, 1))


def parts_of_step(own: CpuDriver, divided: DistributedDriver, ranks: Working, steps: int) -> NDArray[np.float64]:
    """Processor time of the parts of a step, as :class:`Costs` has them, while all ranks measure: those of an undivided
    lattice, and packing, messages and sums of this rank in the divided one, in the order of a step.
    """
    buffers = divided._buffers[True][0]
    small = ({peer: np.zeros(1) for peer in buffers.sent}, {peer: np.zeros(1) for peer in buffers.received})
    limbs = np.zeros(LIMBS, np.int64)

    def pack() -> None:
        buffers.pack()
        buffers.unpack()

    def treat_walls(step: int, even: bool) -> None:
        own.treat_walls(step, even)
        own.correct_mass(even)

    took = np.zeros(len(Costs.__annotations__))
    for step in range(steps):
        even = step % 2 == 0
        parts = (
            lambda even=even: own.collide(even, 0, own.lattice.count),
            lambda step=step, even=even: own.treat_openings(step, even),
            lambda step=step, even=even: treat_walls(step, even),
            pack,
            lambda: ranks.swap(*small)(),
            lambda: ranks.begin_sum(limbs)(),
        )
        took += [ranks.work_s(part) for part in parts]
    return took / steps / counts(own.lattice, divided._part.lattice.halo, len(buffers.received))


def measure(arguments: argparse.Namespace) -> None:
    """What each rank does."""
    ranks = Working(world())
    nodes, own_nodes = vessel_tree(arguments.nodes), vessel_tree(arguments.nodes / ranks.size)
    shared = ranks.broadcast({"part": partition(nodes, ranks.size)} if ranks.rank == 0 else None)
    assert shared is not None
    divided, own = (
        DistributedDriver(OwnPart.of_lattice(laid_out(nodes), shared["part"], ranks), CpuDriver, ranks),
        CpuDriver(laid_out(own_nodes)),
    )
    rows, own_rows = boundary_values(nodes, arguments.steps), boundary_values(own_nodes, arguments.steps)
    part, took, costs = divided._part, [], []
    for repeat in range(arguments.repeats + 1):  # the first compiles
        own.begin(own_rows)
        found = parts_of_step(own, divided, ranks, arguments.steps)
        seconds = ranks.work_s(lambda: divided.advance(rows)) / arguments.steps
        if repeat:
            costs.append(found)
            took.append(seconds)
    middle, mine = np.median(costs, axis=0), counts(part.lattice, part.lattice.halo, len(part.halo))
    row = np.concatenate([mine, middle, [mine @ middle, np.median(took)]])
    together = ranks.join(row).reshape(ranks.size, -1)
    if ranks.rank == 0:
        of_rank, each, (wanted_s, step_s) = together[:, :6], together[:, 6:12], together[:, 12:].sum(axis=0)
        names = [*Costs.__annotations__]
        result = {
            "ranks": ranks.size,
            "nodes": nodes.count,
            "counts_of_rank": {
                name.removesuffix("_s"): of_rank[:, k].astype(int).tolist() for k, name in enumerate(names)
            },
            "costs_ns": dict(zip(names, np.round(1e9 * each.mean(axis=0), 2).tolist(), strict=True)),
            "step_us_of_all_ranks": {"foretold": round(1e6 * wanted_s, 1), "measured": round(1e6 * step_s, 1)},
            "deviation": round(float(wanted_s / step_s - 1), 3),
        }
        print(json.dumps(result), flush=True)


def checked(arguments: argparse.Namespace, ranks: int) -> dict[str, object]:
    """What so many ranks found."""
    command = [require_mpi(ranks), "-n", str(ranks), sys.executable, *sys.argv, "--rank"]
    given = environment(ranks) | {"NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(command, env=given, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=float, default=4e5, help="of the tree that ranks run")
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 3, 4], help="with which it is checked")
    parser.add_argument("--steps", type=int, default=20, help="of each turn, even")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--latency", type=float, nargs="+", default=[2e-6, 5e-6], help="of a message, s")
    parser.add_argument("--bandwidth", type=float, default=50e9, help="of a device, bytes/s each way")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--commit", help="of what is measured, where git cannot tell it")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank:
        measure(arguments)
        return
    load, vessels = list(os.getloadavg()), surfaces_of_vessels(vessel_tree(arguments.nodes))
    results = {
        **provenance(arguments),
        "load": load,
        "checked": [checked(arguments, ranks) for ranks in arguments.ranks],
        "surfaces_of_vessels": {n: round(surface, 2) for n, surface in vessels.items()},
        "foretold": [
            {"parts": parts, "network": asdict(network), **foretold(network, surfaces)}
            for parts, surfaces in (("vessels", vessels), ("cubes", dict.fromkeys(DEVICES, float(CUBE_LINKS))))
            for network in (Network(latency, arguments.bandwidth) for latency in arguments.latency)
        ],
    }
    print(json.dumps(results, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
