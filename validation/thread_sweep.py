# SPDX-License-Identifier: Apache-2.0
"""Sweeps over what the speed of a run depends on beside its models: threads, and how often its fields are wanted.

    python -m validation.thread_sweep --nodes nodes.h5 --sweeps sweep.json --provenance made.json --settings '{...}'

On a CUDA device, where one answers, threads are those of a block; else they are all that are used on this machine.
Runs of several sizes show how the speed depends on these. Settings are those of the stage solve, and `timing` where
other times than usual are wanted. Populations are random at first; walls and openings are on, the inflow is raised.
"""

import json
import logging
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numba import get_num_threads, set_num_threads
from numpy.typing import NDArray

from solver.backends.cuda.device import own_device
from solver.backends.lattice_driver import LatticeDriver
from solver.domain.nodes import Nodes, load
from solver.run.background_writer import flow_writer
from solver.run.plan import Plan, make_plan
from solver.run.schedule import even
from solver.run.settings import SolveSettings, parse
from solver.run.setup import choose_backend, lay_out, make_driver
from solver.run.si_fields import in_si
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job
from validation.timing import hardware, repeated_steps, stirred, stopwatch, waited_s

BLOCKS = (16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""Threads of a block on a CUDA device, whose work is done by warps of 32."""
INTERVALS = (2, 10, 50, 200, 1000, 5000)
"""Steps between two snapshots; steps come in pairs."""
STEPS_PER_NODE = 80
"""Steps of a cycle for each node of the vessel's length, at which a standing wave in it takes (omega L/c_s)^2/2 of a
flow between a given one and a given pressure, 0.9 %: see :mod:`solver.run.sound`."""
CYCLE = 16_000
"""Steps of a cycle, at least: those of a vessel that is 200 nodes long, see `STEPS_PER_NODE`."""

LEAST = 3
"""Snapshots of which a time is the median, at least."""


@dataclass(frozen=True)
class Timing:
    """How it is timed.

    Attributes
    ----------
    seconds : of one timing, about.
    repeats : of each but the snapshots, which are taken `LEAST` times at least.
    longest_s : between two snapshots; longer intervals are left out, but for the first.
    """

    seconds: float = 0.1
    repeats: int = 5
    longest_s: float = 2.0


def timing_of(values: Any) -> Timing:
    """What is given of a timing, the rest as usual.

    Raises
    ------
    StageError
        If it is none, or has other keys or values that are not above 0.
    """
    known = {each.name: type(each.default) for each in fields(Timing)}
    if not isinstance(values, dict) or (unknown := sorted(values.keys() - known.keys())):
        named = ", ".join(unknown) if isinstance(values, dict) else repr(values)
        raise StageError(f"--settings timing: {named} is not known; known are {', '.join(known)}")
    for name, value in values.items():
        whole = known[name] is int
        if not isinstance(value, int if whole else int | float) or isinstance(value, bool) or not 0 < value < np.inf:
            raise StageError(f"--settings timing.{name} {value!r}: give a{' whole' if whole else ''} number above 0")
    return Timing(**values)


def threads_of(backend: str, driver: Any) -> tuple[Callable[[int], None], int, list[int]]:
    """What sets the threads of a driver, how many it takes by itself, and how many it can have.

    They are those of a block on a CUDA device, else all that are used: 1, 2, 4 and so on.
    """
    if backend == "cpu":
        most = get_num_threads()
        return set_num_threads, most, sorted({most, *(2**k for k in range(most.bit_length()))})
    chosen, found = driver.threads, []
    for threads in BLOCKS:
        try:
            driver.share_out(threads)
        except StageError:  # so many do not fit
            break
        found.append(threads)
    driver.share_out(chosen)
    return driver.share_out, chosen, found


def sweep_threads(backend: str, driver: LatticeDriver, row: NDArray[np.float64], timing: Timing) -> dict[str, Any]:
    """Seconds of a step by the number of threads, see :func:`threads_of`.

    They take turns, so that what else a machine does meanwhile hits all of them. Of a CPU it also tells which part of
    the time that threads had something to do they had a core to do it on: other programs may have the cores.

    Parameters
    ----------
    backend : ``cpu`` or ``cuda``.
    driver : what is run.
    row : conditions of a step.
    timing : how it is timed.
    """
    share_out, usual, counts = threads_of(backend, driver)
    taken: dict[int, list[tuple[float, float]]] = {threads: [] for threads in counts}
    for _ in range(timing.repeats):
        for threads in counts:
            share_out(threads)
            worked, waited = time.process_time(), waited_s()
            _, step = repeated_steps(driver, row, timing.seconds, 1)
            worked, waited = time.process_time() - worked, waited_s() - waited
            part = worked / (worked + waited) if waited else 1.0  # the processor's clock may tell no time as short
            taken[threads].append((float(step[0, 0]), part))
    share_out(usual)
    found = []
    for threads, each in taken.items():
        step_s, had = zip(*each, strict=True)
        found.append({"threads": threads, "step_s": step_s, "had": had if backend == "cpu" else ()})
    return {"usual": usual, "found": found}


def sweep_snapshots(
    driver: LatticeDriver, nodes: Nodes, plan: Plan, step_s: float, timing: Timing, folder: Path
) -> list[dict[str, Any]]:
    """Seconds of the steps between two snapshots, of waiting for the fields of all nodes to come to the host, and for
    them to be written, which on a device goes on during the next steps.

    Medians, by the number of steps; a file is begun again at each, as it is in each cycle of a run.

    Parameters
    ----------
    driver, nodes, plan : what is run.
    step_s : time of a step, about.
    timing : how it is timed.
    folder : where the file is written, and removed.
    """
    watch, found = stopwatch(driver), list[dict[str, Any]]()
    with (
        tempfile.TemporaryDirectory(dir=folder) as place,
        flow_writer(Path(place) / "flow.vtkhdf", nodes, plan.rheology is not None, driver) as writer,
    ):

        def alone(rows: NDArray[np.float64]) -> float:
            begin = time.perf_counter()
            watch(lambda: driver.advance(rows))  # which waits for a device
            return time.perf_counter() - begin

        def trip(rows: NDArray[np.float64]) -> tuple[float, float]:
            alone(rows)
            done = time.perf_counter()
            writer.wait()
            waited = time.perf_counter()
            fields = driver.transient_fields()
            fetched = time.perf_counter()
            writer.append_deferred(0.0, partial(in_si, fields, plan, driver.share))
            return fetched - waited, waited - done + time.perf_counter() - fetched

        for every in INTERVALS:
            if found and every * step_s > timing.longest_s:
                break
            rows = np.tile(plan.full_flow, (every, 1))
            writer.start_over()
            trip(rows)
            steps_s, trips, begin = list[float](), list[tuple[float, float]](), time.perf_counter()
            while len(trips) < LEAST or time.perf_counter() - begin < timing.seconds:
                trips.append(trip(rows))
            writer.wait()
            while len(steps_s) < len(trips):
                steps_s.append(alone(rows))
            fetch_s, write_s = np.median(trips, axis=0).tolist()
            found.append({"every": every, "steps_s": float(np.median(steps_s)), "fetch_s": fetch_s, "write_s": write_s})
    return found


def cycle_steps(nodes: Nodes, plan: Plan) -> int:
    """Steps of a cycle: of the run's own, or the fewest that a cycle on these nodes may have, `CYCLE` at least."""
    length = float(np.linalg.norm(np.ptp(nodes.position, axis=0) + 1))
    return plan.schedule.cycle or max(CYCLE, even(STEPS_PER_NODE * length))


def sweep(nodes: Nodes, settings: SolveSettings, timing: Timing, folder: Path, log: logging.Logger) -> dict[str, Any]:
    """What is found on the nodes of a case, as it is written to ``sweep.json``.

    Parameters
    ----------
    nodes, settings : of the case.
    timing : how it is timed.
    folder : where snapshots are written, and removed.
    log : where progress goes.

    Raises
    ------
    StageError
        If settings do not fit the geometry, or no device answers where one is asked for.
    """
    backend, plan = choose_backend(settings.backend), make_plan(nodes, settings)
    driver = make_driver(backend, lay_out(nodes, settings, plan, settings.walls))
    log.info("%d nodes on %s: %s", nodes.count, driver.device, driver.layout)
    threads = sweep_threads(backend, stirred(driver), plan.full_flow, timing)
    for each in threads["found"]:
        log.info("%d threads: %.3g MLUPS", each["threads"], nodes.count / np.median(each["step_s"]) / 1e6)
    step_s = next(float(np.median(each["step_s"])) for each in threads["found"] if each["threads"] == threads["usual"])
    snapshots = sweep_snapshots(driver, nodes, plan, step_s, timing, folder)
    for each in snapshots:
        taken = each["steps_s"] + each["fetch_s"] + each["write_s"]
        log.info("a snapshot every %d steps: %.3g MLUPS", each["every"], each["every"] * nodes.count / taken / 1e6)
    return {
        "hardware": hardware(),
        "device": driver.device,
        "backend": backend,
        "timing": asdict(timing),
        "fluid_nodes": nodes.count,
        "openings": len(nodes.openings),
        "precision": settings.precision,
        "threads": threads,
        "snapshots": snapshots,
        "cycle": {"steps": cycle_steps(nodes, plan), "snapshots": settings.snapshots, "least": settings.min_cycles},
    }


def _compute(job: Job) -> None:
    given = dict(job.settings)
    timing = timing_of(given.pop("timing", {}))
    target = job.outputs["sweeps"]
    with own_device(job.log):
        found = sweep(load(job.inputs["nodes"]), parse(given), timing, target.parent, job.log)
    target.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n")
    job.facts["device"] = found["device"]


if __name__ == "__main__":
    run_stage(
        "sweep",
        __doc__,
        inputs={"nodes": "node arrays (nodes.h5)"},
        outputs={"sweeps": "times by threads and by steps between snapshots (sweep.json)"},
        compute=_compute,
    )
