# SPDX-License-Identifier: Apache-2.0
"""One lattice on several ranks with a CUDA device each, and on one device that all share: same bits, and speed.

    python benchmarks/ranks_on_gpu.py --json results.json
    python benchmarks/ranks_on_gpu.py --ranks 2 --only checks --placements shared

Needs a device, NumPy, Numba, numba-cuda, h5py, mpi4py and its MPI: `python -m mpi4py --mpi-lib-version` says which, and
the mpirun in PATH must be of that one. Starts mpirun itself, once for each placement of the ranks.

- checks: a bifurcation with each collision, wall and precision, and other models by themselves, cut by `partition` and,
  with 2, 3, ... ranks, at random. All that is read of it, and its state, must have the bits of one process on one
  device, which also goes on from a state of the ranks. Ends with status 1 where they have not.
- speed: a tree of vessels, on 1, 2, ... ranks with the same device each; updates a second, the exchange's bandwidth
  and latency, and what the host does in a step. A speed of ranks that share a device says nothing about several.

Each with messages from device to device, where devices reach each other's memory, and with messages through the host.
"""

import argparse
import json
import logging
import subprocess
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from backend_agreement import Models, flow  # noqa: E402
from bench import default_file, provenance  # noqa: E402
from vessel_tree import vessel_tree  # noqa: E402

from solver.backends.communicator import Communicator, world  # noqa: E402
from solver.backends.cuda.cuda_driver import CudaDriver  # noqa: E402
from solver.backends.cuda.device import cuda  # noqa: E402
from solver.backends.cuda.peer_driver import PeerDriver  # noqa: E402
from solver.backends.cuda.peer_memory import why_not_connected  # noqa: E402
from solver.backends.cuda.rank_devices import rank_device  # noqa: E402
from solver.backends.distributed import DistributedDriver, OwnPart  # noqa: E402
from solver.backends.driver import Driver  # noqa: E402
from solver.backends.lattice import PRECISIONS, Lattice, build_lattice  # noqa: E402
from solver.boundary.walls import WALLS  # noqa: E402
from solver.domain.nodes import Nodes  # noqa: E402
from solver.domain.partition import partition  # noqa: E402
from solver.kernels.collision import ON_D3Q19, relaxation_rates  # noqa: E402
from solver.ranks.launch import environment, require_mpi  # noqa: E402
from tests.support.geometries import bifurcation  # noqa: E402
from tests.support.rank_agreement import Counting, check, random_parts  # noqa: E402

TAU, INFLOW = 0.55, 20.0
CHECK_STEPS, AGREE_STEPS = 40, 2000
"""Steps after which all that can be read is compared, from a random state; and fields of a flow that begins at rest,
which reaches the outlets of a tree by then."""
WAYS: dict[str, Callable[..., DistributedDriver]] = {"peers": PeerDriver, "host": DistributedDriver}
"""Who drives a part, by the way that messages go."""
PLACEMENTS = {"each": None, "shared": "0"}
"""Devices that ranks see: all, of which each takes its own, or the first."""
OTHERS = (
    Models(equilibrium="compressible"),
    Models(blood="carreau-yasuda"),
    Models(eddies=0.15, blended=True),
    Models(outlets="windkessel", profile="womersley"),
    Models(patches=True),
    Models(parabolic=True),
    Models("cumulant", velocities="D3Q27"),
    Models("cumulant", velocities="D3Q27", isotropic=True, parabolic=True),
    Models("projected", eddies=0.15, velocities="D3Q27", isotropic=True),
)
Row = dict[str, Any]


def first_of(ranks: Communicator, count: int) -> Communicator | None:
    """The first so many ranks, on these; all must ask."""
    some = Communicator(ranks._mpi, ranks._world.Split(int(ranks.rank < count)))
    return some if ranks.rank < count else None


def models_checked(quick: bool) -> Iterator[tuple[Models, str]]:
    """What is checked, in which precision."""
    if quick:
        yield from ((Models(), "fp32"), (Models("recursive", walls="yu"), "fp64"), (Models(walls="cli"), "fp16"))
    else:
        for precision, collision, walls in product(PRECISIONS, ON_D3Q19, WALLS):
            yield Models(collision, walls=walls), precision
    yield from product(OTHERS[-2:] if quick else OTHERS, ("fp64",) if quick else ("fp32", "fp64"))


def checks(ranks: Communicator, options: argparse.Namespace) -> Iterator[Row]:
    """Ranks against one process, on all ranks, and the first models on fewer too."""
    nodes = bifurcation(
        8.3, ((6.6, 35.0), (5.7, -50.0)), 4.0, np.linalg.qr(np.array([(2, 1, 0), (-1, 2, 1), (0, -1, 2)]))[0]
    )
    parts = {count: partition(nodes, count) for count in range(2, ranks.size + 1)}
    for number, (models, precision) in enumerate(models_checked(options.quick)):
        lattice, boundary_values = flow(nodes, models, precision)
        steps = 4 * lattice.corrected_pairs if lattice.corrected else CHECK_STEPS
        rows = np.resize(boundary_values, (steps, boundary_values.shape[1]))
        for count, at_random in product(range(2, ranks.size + 1) if number % 8 == 0 else (ranks.size,), (False, True)):
            if at_random and number % 8:
                continue
            some = first_of(ranks, count)
            for way in options.ways:
                found = None
                if some:
                    part = random_parts(lattice, some) if at_random else parts[count]
                    found = check(lattice, rows, part, Counting(some), CudaDriver, WAYS[way])
                ranks.largest(np.zeros(1, np.int64))
                if ranks.rank == 0 and found:
                    named = {"models": models.reported(), "precision": precision, "ranks": count, "random": at_random}
                    yield {**named, "way": way, "nodes": nodes.count, "steps": steps, **found}


class Watched(Communicator):
    """Tells how long it waits."""

    def __init__(self, ranks: Communicator) -> None:
        vars(self).update(vars(ranks))
        self.waited_s = 0.0

    def _wait(self, *requests: Any, kept: tuple[NDArray[Any], ...] = ()) -> None:
        begin = time.perf_counter()
        super()._wait(*requests, kept=kept)
        self.waited_s += time.perf_counter() - begin


def laid_out(nodes: Nodes, precision: str) -> Lattice:
    return build_lattice(nodes, "trt", relaxation_rates(TAU, (TAU - 0.5) / 2), "bouzidi", precision)


def boundary_values(nodes: Nodes, steps: int) -> NDArray[np.float64]:
    """Of so many steps with the same inflow."""
    return np.tile(INFLOW * np.array([opening.role == "inlet" for opening in nodes.openings], np.float64), (steps, 1))


def step_s(driver: Driver, nodes: Nodes, ranks: Communicator, options: argparse.Namespace) -> list[float]:
    """Time of a step until all ranks and their devices have done it, of several stretches."""

    def took(steps: int) -> float:
        rows = boundary_values(nodes, steps)
        ranks.largest(np.zeros(1, np.int64))
        begin = time.perf_counter_ns()
        driver.advance(rows)
        cuda.synchronize()
        return 1e-9 * float(ranks.largest(np.array([time.perf_counter_ns() - begin]))[0]) / steps

    took(options.most_steps)  # no longer script follows, for which launches would be recorded again
    took(64)
    steps = int(np.clip(options.seconds / took(64) // 2 * 2, 16, options.most_steps))
    return [took(steps) for _ in range(options.repeats)]


HOST = {
    "collide": ("collide",),
    "openings and walls": ("treat_openings", "treat_walls"),
    "mass, waiting for the device": ("mass_added",),
    "mass": ("correct_mass",),
}
"""Phases of a step by the methods of a driver that the host is in meanwhile."""
OF_BUFFERS = {"pack": "pack", "pack, waiting for the device": "wait", "unpack": "unpack"}
"""Likewise of its buffers."""


def host_times(driver: DistributedDriver, nodes: Nodes, ranks: Watched) -> dict[str, float]:
    """What the host of the first rank does in a step, in seconds; what it launches, the device does meanwhile."""
    found: dict[str, float] = defaultdict(float)

    def timed(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def timing(*given: Any) -> Any:
            begin = time.perf_counter()
            result = work(*given)
            found[name] += time.perf_counter() - begin
            return result

        return timing

    pairs = [buffers for (buffers,) in driver._buffers.values()]
    watched: list[tuple[Any, str, str]] = [
        (driver._driver, name, method) for name, methods in HOST.items() for method in methods
    ]
    watched += [(buffers, name, method) for buffers in pairs for name, method in OF_BUFFERS.items()]
    for of, name, method in watched:
        setattr(of, method, timed(name, getattr(of, method)))
    steps, begun = 200, ranks.waited_s
    begin = time.perf_counter()
    driver.advance(boundary_values(nodes, steps))
    found["step"] = time.perf_counter() - begin
    found["waiting for other ranks"] = ranks.waited_s - begun
    for of, _, method in watched:
        delattr(of, method)  # which the class has
    return {name: value / steps for name, value in found.items()}


def parts_of(nodes: Nodes, counts: list[int], ranks: Communicator) -> dict[int, NDArray[np.integer]]:
    """A division into each number of parts, each found by another rank."""
    mine = {n: partition(nodes, n) for k, n in enumerate(counts) if k % ranks.size == ranks.rank}
    return {n: ranks.join(mine.get(n, np.empty(0, np.int16))) for n in counts}


def speeds(ranks: Communicator, options: argparse.Namespace) -> Iterator[Row]:
    """The same tree on 1, 2, 4, ... ranks."""
    counts = [n for n in options.counts if 1 < n <= ranks.size]
    for million in options.sizes:
        nodes = vessel_tree(1e6 * million)
        parts = parts_of(nodes, counts, ranks)
        lattice = laid_out(nodes, options.precision)
        alone, velocity = 0.0, np.empty(0)
        first_rows = boundary_values(nodes, AGREE_STEPS)
        for count, way in ((1, ""), *product(counts, options.ways)):
            some, row = first_of(ranks, count), None
            if some:
                watched = Watched(some)
                driver: Any = (
                    CudaDriver(lattice)
                    if count == 1
                    else WAYS[way](OwnPart.of_lattice(lattice, parts[count], watched, last=True), CudaDriver, watched)
                )
                driver.advance(first_rows)
                found = driver.share.whole(driver.fields()).velocity
                velocity = found if count == 1 else velocity
                taken = step_s(driver, nodes, some, options)
                speed = nodes.count / float(np.median(taken))
                alone = alone or speed
                row = {"nodes": nodes.count, "ranks": count, "glups": 1e-9 * speed, "efficiency": speed / count / alone}
                row |= {"step_us": [1e6 * each for each in taken], "layout": driver.layout, "device": driver.device}
                row |= {"differ": [] if np.array_equal(found, velocity) else ["velocity"], "moved": bool(found.any())}
                if count > 1:
                    row |= {"way": way, "exchange": asdict(driver.speed) | {"bytes_s": driver.speed.bytes_s}}
                if way == "host":
                    row["host_us"] = {name: 1e6 * s for name, s in host_times(driver, nodes, watched).items()}
                del driver, found
            ranks.largest(np.zeros(1, np.int64))
            if ranks.rank == 0 and row:
                yield row
        del lattice, velocity


PARTS: dict[str, Callable[[Communicator, argparse.Namespace], Iterator[Row]]] = {"checks": checks, "speed": speeds}


def shown(part: str, row: Row) -> str:
    """A row in words."""
    if part == "checks":
        state = (
            "same bits" if row["moved"] and not row["differ"] else f"DIFFERS in {row['differ']}, moved {row['moved']}"
        )
        cut = "random parts" if row["random"] else "parts"
        return (
            f"{row['models']} {row['precision']}, {row['ranks']} {cut}, {row['way']}: {state}; in a step {row['said']}"
        )
    words = f"{row['nodes'] / 1e6:.3g} M nodes, {row['ranks']} ranks: {row['glups']:.3g} GLUPS, {row['efficiency']:.1%}"
    words += "; DIFFERS" * bool(row["differ"])
    if "host_us" in row:
        each = ", ".join(f"{name} {value:.0f}" for name, value in row["host_us"].items())
        words += f"; us of a step of the host: {each}"
    return f"{words}; {row['layout']}"


def good(results: dict[str, Any]) -> bool:
    """Whether all that was checked had the same bits, and moved."""
    return all(not row["differ"] and row["moved"] for rows in results.values() for row in rows)


def measure(options: argparse.Namespace) -> None:
    """What each rank does; one with a fault ends all."""
    ranks = world()
    try:
        results = measured(ranks, options)
    except Exception:
        traceback.print_exc()
        ranks.abort()
    if ranks.rank == 0 and not good(results):
        sys.exit(1)


def measured(ranks: Communicator, options: argparse.Namespace) -> dict[str, Any]:
    """Rows of each part, on the first rank."""
    log = logging.getLogger("ranks_on_gpu")
    log.setLevel(logging.INFO if ranks.rank == 0 else logging.ERROR)
    log.addHandler(logging.StreamHandler())  # its own: numba-cuda logs each array that it frees
    results: dict[str, Any] = {}
    with rank_device(ranks, log):
        if (why := why_not_connected(ranks)) and "peers" in options.ways:
            log.info("no messages from device to device: %s", why)
            options.ways.remove("peers")
        for part in options.only:
            begin, found = time.monotonic(), results.setdefault(part, [])
            for row in PARTS[part](ranks, options):
                print(f"{part}: {shown(part, row)}", flush=True)
                found.append(row)
                options.json.write_text(json.dumps(results) + "\n")
            if ranks.rank == 0:
                print(f"{part} took {time.monotonic() - begin:.0f} s", flush=True)
    return results


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--only", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--placements", nargs="+", default=list(PLACEMENTS), choices=list(PLACEMENTS))
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--quick", action="store_true", help="check few models")
    parser.add_argument("--sizes", nargs="+", type=float, default=[1.0, 5.0, 20.0], help="of the tree, million nodes")
    parser.add_argument("--counts", nargs="+", type=int, default=[1, 2, 4], help="ranks that are timed")
    parser.add_argument("--precision", default="fp32", choices=list(PRECISIONS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3, help="of one timing, about")
    parser.add_argument("--most-steps", type=int, default=400, help="of one timing")
    parser.add_argument("--commit", help="of what is measured, where git cannot tell it")
    parser.add_argument("--json", type=Path, help="file for the results; default: in benchmarks/results by the date")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def version_of_mpi(ranks: int) -> str:
    """First line of what mpirun says of itself."""
    said = subprocess.run([require_mpi(ranks), "--version"], capture_output=True, text=True, check=True).stdout
    return said.splitlines()[0]


def main() -> None:
    options = parse()
    if options.rank:
        measure(options)
        return
    results = provenance(options)
    results["versions"]["mpi"] = version_of_mpi(options.ranks)
    file, statuses = options.json or default_file("ranks", results["hardware"]), []
    for placement in options.placements:
        own = file.with_name(f"{file.stem}-{placement}{file.suffix}")  # what there is of a run that is ended
        given = [*sys.argv, "--rank", "--json", str(own)]
        if placement == "shared":
            given += ["--sizes", str(min(options.sizes))]
        command = [require_mpi(options.ranks), "-n", str(options.ranks), sys.executable, *given]
        devices = PLACEMENTS[placement]
        seen = {} if devices is None else {"CUDA_VISIBLE_DEVICES": devices}
        print(f"{options.ranks} ranks, devices: {placement}", flush=True)
        statuses.append(subprocess.run(command, env=environment(options.ranks) | seen, check=False).returncode)
        results[placement] = json.loads(own.read_text()) if own.exists() else None
        file.write_text(json.dumps(results, indent=1) + "\n")
        own.unlink(missing_ok=True)
    print(file)
    sys.exit(max(statuses))


if __name__ == "__main__":
    main()
