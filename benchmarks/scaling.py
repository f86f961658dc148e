# SPDX-License-Identifier: Apache-2.0
"""How far one case scales over devices: the cost of a step's parts, with latency and bandwidth of a network.

    make mpi
    python benchmarks/scaling.py --ranks 2 3 4 --json results.json

A step of a rank is: nodes at the border collide; then the others, while messages travel; then walls and openings; then
the last nodes, while one sum over all ranks is made. Three things are done with this.

*Checked here*: ranks of one thread run a tree of vessels. The processor time of a step, without waiting, is foretold
from the cost of a node, a wall link, a cut link and a message, which all ranks measure at the same time on another tree
each; that tree is undivided. Time of processors, since ranks share cores: what waiting costs is not checked.

*Checked on devices*: the steps of 2 and 4 devices of one machine that were measured, from those of one.

*Foretold*: 2 to 1,024 devices of the speeds that one H200 was measured to have, for latencies and a bandwidth. Links
between parts are those of a tree of vessels that is divided into 2 to 1,024 parts here, or of cubes with neighbours on
all sides. Nothing of it was measured on several machines.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import ceil, log2
from pathlib import Path
from typing import Any

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
from solver.backends.splitting import LAST, split  # noqa: E402
from solver.domain.division import divide  # noqa: E402
from solver.domain.nodes import Nodes  # noqa: E402
from solver.domain.partition import BALANCE, partition  # noqa: E402
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
H200_COPY, H100_COPY, WALL_SHARE = 4.16e12, 2.9e12, 0.17
"""Bytes copied a second (same record; of the H100 as much of what its maker states as of the H200), and part of a step
that walls and openings take (docs/records/performance.md)."""
OF_RANKS_S = 2e-5
"""What a step of 2 and 4 H100 takes beside its nodes, at most: launches, packing, and the sum of the mass, which was
waited for when this was measured (`MEASURED`: 16 to 20 us at 1.3 to 10 million nodes a device)."""
MEASURED = ROOT / "benchmarks" / "results" / "2026-11-28-ranks-peers.json"
"""Steps of one, two and four H100 whose messages go from device to device."""
SECTOR_BYTES, WARP, PARTS = 32, 32, 64
"""That memory is read and written by; threads that ask together; parts in which such sectors are counted."""
LISTED_BYTES = 25
"""That a cut link takes besides: its places at both ends and the neighbour's number (13), the packed number, written
and read (8), and that of the halo (4)."""
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


def one_device_s(nodes: float, at: Sequence[float] = H200_NODES, steps_s: Sequence[float] = H200_STEP_S) -> float:
    """A step of one device, whose largest lattice has the speed of those that were measured."""
    if nodes > at[-1]:
        return nodes / at[-1] * steps_s[-1]
    return float(np.exp(np.interp(np.log(nodes), np.log(at), np.log(steps_s))))


def beside_s(alone_s: float, sum_s: float) -> float:
    """What ranks wait for the sum of the mass beyond the time that the last nodes take."""
    return max(0.0, sum_s - (1 - WALL_SHARE) * alone_s / LAST)


def device_s(nodes: float, devices: int, surface: float, network: Network, link_bytes: float) -> float:
    """A step of the slowest of several devices with so many nodes each.

    Parameters
    ----------
    nodes, devices : of each, and how many.
    surface : cut links over nodes^(2/3).
    network : between the devices.
    link_bytes : that a device moves for a cut link, see :func:`moved_bytes`.
    """
    links, alone = surface * nodes ** (2 / 3), (1 + BALANCE) * one_device_s(nodes)
    inner = (1 - WALL_SHARE) * alone * (1 - 1 / LAST - min(1 - 1 / LAST, links / LINKS_A_FACE / nodes))
    late = max(0.0, network.travel_s(links) - inner)
    waits = late + beside_s(alone, network.sum_s(devices))
    return alone + links * link_bytes / H200_COPY + waits + OF_RANKS_S


def sectors(slots: NDArray[np.integer]) -> int:
    """Sectors of memory that warps ask for which read such slots of populations, (K,), one a thread."""
    held = np.append(slots, np.repeat(slots[-1:], -len(slots) % WARP)).astype(np.int64)
    held = np.sort((held * POPULATION_BYTES // SECTOR_BYTES).reshape(-1, WARP), axis=1)
    return len(held) + int(np.count_nonzero(np.diff(held, axis=1)))


def moved_bytes(nodes: Nodes, count: int) -> dict[str, float]:
    """Bytes that a device moves a step for a cut link, between even steps, which gather what they send, and odd ones,
    which scatter what they get and whose nodes reach the halo besides their neighbours.
    """
    lattice = laid_out(nodes)
    parts = split(lattice, partition(nodes, count), last=True)
    links = sum(part.lattice.halo for part in parts)
    listed = sum(sectors(slots) for part in parts for slots in part.send_slots.values()) / links
    whole, divided = (
        sum(
            sectors(slots[: each.count])
            for each in lattices
            for slots in each.addresses.reshape(each.q - 1, each.stride)
        )
        for lattices in ([lattice], [part.lattice for part in parts])
    )
    reached = (divided - whole) / links
    even, odd = listed * SECTOR_BYTES, 2 * (listed + reached) * SECTOR_BYTES
    return {
        "sectors_of_lists": round(listed, 3),
        "more_sectors_of_odd_steps": round(reached, 3),
        "bytes": round(LISTED_BYTES + (even + odd) / 2, 1),
    }


def checked_on_devices(link_bytes: float) -> list[dict[str, Any]]:
    """Steps of several devices of one machine that were measured, and what the model gives from those of one: without
    the network, which nothing of a step waited for, and with `OF_RANKS_S`, which comes from them.
    """
    rows = [row for row in json.loads(MEASURED.read_text())["speed"] if row.get("way", "peers") == "peers"]
    step_s = {(row["nodes"], row["ranks"]): 1e-6 * float(np.median(row["step_us"])) for row in rows}
    ones = sorted(key for key in step_s if key[1] == 1)
    sizes, alone_s = [size for size, _ in ones], [step_s[key] for key in ones]
    found = []
    for row in rows:
        size, ranks, measured = row["nodes"], row["ranks"], step_s[row["nodes"], row["ranks"]]
        if ranks > 1 and size / ranks >= sizes[0]:
            links = row["exchange"]["bytes"] / POPULATION_BYTES
            wanted = one_device_s(size / ranks, sizes, alone_s) + links * link_bytes / H100_COPY + OF_RANKS_S
            found.append(
                {
                    "nodes": size,
                    "devices": ranks,
                    "step_us": {"foretold": round(1e6 * wanted, 1), "measured": round(1e6 * measured, 1)},
                    "deviation": round(wanted / measured - 1, 3),
                }
            )
    return found


def foretold(network: Network, surfaces: dict[int, float], link_bytes: float) -> dict[str, object]:
    """Efficiency by number of devices, and where a strong one falls below the floor.

    Parameters
    ----------
    network : between the devices.
    surfaces : of the part with the most cut links, by number of devices.
    link_bytes : that a device moves for a cut link.
    """

    def efficiency(nodes: float, devices: int) -> float:
        return (
            one_device_s(nodes * devices) / devices / device_s(nodes, devices, surfaces[devices], network, link_bytes)
        )

    weak = {
        n: one_device_s(WEAK_NODES) / device_s(WEAK_NODES, n, surface, network, link_bytes)
        for n, surface in surfaces.items()
    }
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
    parser.add_argument("--nodes", type=float, default=2e6, help="of the tree that ranks run")
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
    load, nodes = list(os.getloadavg()), vessel_tree(arguments.nodes)
    vessels, moved = surfaces_of_vessels(nodes), moved_bytes(nodes, PARTS)
    results = {
        **provenance(arguments),
        "load": load,
        "checked": [checked(arguments, ranks) for ranks in arguments.ranks],
        "moved_for_a_cut_link": moved,
        "checked_on_devices": checked_on_devices(moved["bytes"]),
        "surfaces_of_vessels": {n: round(surface, 2) for n, surface in vessels.items()},
        "foretold": [
            {"parts": parts, "network": asdict(network), **foretold(network, surfaces, moved["bytes"])}
            for parts, surfaces in (("vessels", vessels), ("cubes", dict.fromkeys(DEVICES, float(CUBE_LINKS))))
            for network in (Network(latency, arguments.bandwidth) for latency in arguments.latency)
        ],
    }
    print(json.dumps(results, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
