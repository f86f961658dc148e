# SPDX-License-Identifier: Apache-2.0
"""Baseline benchmark: this solver against the four passes of Collares (2012) on the nodes of a case, and whether they
agree.

    python -m validation.baseline_benchmark --nodes nodes.h5 --speed speed.json --provenance baseline_benchmark.json
    --settings '{...}'

Both run on one thread and on all of them, and on a CUDA device where one answers. The work ran its passes on one
thread, over which speed-ups are, and on a device; its walls are wall nodes that carry populations.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numba import get_num_threads, set_num_threads
from numpy.typing import NDArray

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.cuda.device import device_answers, own_device
from solver.backends.lattice import Lattice
from solver.backends.lattice_driver import LatticeDriver
from solver.boundary.walls import Vector
from solver.domain.nodes import Nodes, load
from solver.run.boundary_schedule import raised
from solver.run.plan import make_plan
from solver.run.settings import SolveSettings, parse
from solver.run.setup import lay_out
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job
from validation.four_pass import FourPass, FourPasses, wall_nodes
from validation.timing import LAUNCHES, each, hardware, repeated_steps, stirred

STEPS, REPEATS, SECONDS = 3000, 5, 0.2
"""Steps whose time is reported, as in the work; repeats, of which it is the mean, and about how long each takes."""
AGREED_STEPS = 200
"""Steps from rest after which velocities are compared."""
FOUR_PASSES, OURS = "four passes", "HemoLattice"


@dataclass(frozen=True)
class Entry:
    """One that takes part.

    Attributes
    ----------
    program : `FOUR_PASSES` or `OURS`.
    threads : on which it runs; 0: on a CUDA device.
    make : makes its driver.
    """

    program: str
    threads: int
    make: Callable[[], LatticeDriver]

    @property
    def name(self) -> str:
        """Program and where it runs."""
        return f"{self.program}, {f'{self.threads} threads' if self.threads else 'GPU'}".replace(
            " 1 threads", " 1 thread"
        )


def entries(nodes: Nodes, plain: Lattice, lattice: Lattice, moving: dict[str, Vector]) -> list[Entry]:
    """All that take part, the slowest, which is the work's own on one thread, first.

    Parameters
    ----------
    nodes : the geometry.
    plain : its lattice for the four passes, whose walls are taken by wall nodes.
    lattice : its lattice for this solver.
    moving : velocity of the patches of the wall that move, lattice units, by name.
    """
    walls, many = wall_nodes(nodes, moving), get_num_threads()
    found = [Entry(FOUR_PASSES, 1, lambda: FourPass(plain, walls)), Entry(OURS, 1, lambda: CpuDriver(lattice))]
    if many > 1:
        found += [
            Entry(FOUR_PASSES, many, lambda: FourPass(plain, walls, parallel=True)),
            Entry(OURS, many, lambda: CpuDriver(lattice)),
        ]
    if device_answers():
        from solver.backends.cuda.cuda_driver import CudaDriver
        from validation.four_pass_cuda import CudaFourPass

        found += [
            Entry(FOUR_PASSES, 0, lambda: CudaFourPass(plain, walls)),
            Entry(OURS, 0, lambda: CudaDriver(lattice)),
        ]
    return found


def timed(entry: Entry, row: NDArray[np.float64]) -> dict[str, Any]:
    """Times of one that takes part: of all steps, and of each of its four passes where it has them.

    Parameters
    ----------
    entry : who.
    row : conditions of a step.
    """
    many = get_num_threads()
    set_num_threads(entry.threads or many)
    driver = stirred(entry.make())
    count, taken = repeated_steps(driver, row, SECONDS, REPEATS)
    step_s = float(taken[:, 0].mean())
    found = {
        "name": entry.name,
        "program": entry.program,
        "threads": entry.threads,
        "device": driver.device,
        "timed_steps": count,
        "step_s": step_s,
        "spread": float(np.ptp(taken[:, 0])) / step_s,
        "seconds": STEPS * step_s,
        "updates_s": driver.lattice.count / step_s,
    }
    if isinstance(driver, FourPasses):
        driver.begin(np.tile(row, (LAUNCHES * (REPEATS + 2), 1)))  # a device counts steps by their collisions
        found["passes_s"] = each(driver, driver.passes(0), REPEATS)
    set_num_threads(many)
    return found


def velocity(driver: LatticeDriver, row: NDArray[np.float64]) -> NDArray[np.float64]:
    """Velocity (3, N) after `AGREED_STEPS` from rest, over which openings are raised to the conditions of `row`; walls
    move from the first step on, as those of the four passes can only do.
    """
    openings = row[: driver.lattice.columns]
    driver.advance(np.outer(raised(np.arange(1.0, AGREED_STEPS + 1), AGREED_STEPS), openings))
    return driver.fields().velocity.astype(np.float64)


def agreement(chosen: list[Entry], lattice: Lattice, row: NDArray[np.float64]) -> dict[str, Any]:
    """Differences of the velocity, over that of the four passes with the walls of this solver.

    The programs differ in their walls alone: with the same walls they give the same to round-off, of which the largest
    difference over the largest speed is reported. Of the two wall schemes it is the root of the mean square.

    Parameters
    ----------
    chosen : those that take part, the program of the work first.
    lattice : with the walls of this solver.
    row : (columns,) boundary values of a step.
    """
    work, same = velocity(chosen[0].make(), row), velocity(FourPass(lattice), row)
    largest = float(np.linalg.norm(same, axis=0).max())
    round_off = {}
    for entry in chosen[1:]:
        off = velocity(entry.make(), row) - (work if entry.program == FOUR_PASSES else same)
        round_off[entry.name] = float(np.linalg.norm(off, axis=0).max()) / largest
    walls = float(np.linalg.norm(work - same) / np.linalg.norm(same))
    return {"steps": AGREED_STEPS, "largest_speed": largest, "round_off": round_off, "walls": walls}


def run_benchmark(nodes: Nodes, settings: SolveSettings, log: logging.Logger) -> dict[str, Any]:
    """What is found of all that take part, as it is written to ``speed.json``.

    Parameters
    ----------
    nodes : the geometry.
    settings : of the stage solve; the velocity set is D3Q19 whatever they say.
    log : where progress goes.

    Raises
    ------
    StageError
        If settings do not fit the geometry, or fluid slips along a wall, which wall nodes cannot let it do.
    """
    settings = replace(settings, velocity_set="D3Q19")  # the work's
    plan = make_plan(nodes, settings)
    if plan.slip:
        raise StageError(
            f"solve.patches.{plan.slip[0]}: fluid slips there, which the four passes cannot do; let it rest"
        )
    lattice = lay_out(nodes, settings, plan, settings.walls)
    chosen = entries(nodes, lay_out(nodes, settings, plan, "half-way"), lattice, plan.moving)
    row, found = plan.full_flow, []
    for entry in chosen:
        found.append(timed(entry, row))
        log.info(
            "%s: %.3g s for %d steps, %.3g MLUPS", entry.name, found[-1]["seconds"], STEPS, found[-1]["updates_s"] / 1e6
        )
    return {
        "hardware": hardware(),
        "steps": STEPS,
        "repeats": REPEATS,
        "fluid_nodes": nodes.count,
        "wall_nodes": len(nodes.wall_position),
        "tau": plan.units.tau,
        "precision": settings.precision,
        "entries": found,
        "agreement": agreement(chosen, lattice, row),
    }


def _compute(job: Job) -> None:
    with own_device(job.log):
        found = run_benchmark(load(job.inputs["nodes"]), parse(job.settings), job.log)
    job.outputs["speed"].write_text(json.dumps(found, indent=1, allow_nan=False) + "\n")
    job.facts["device"] = sorted({entry["device"] for entry in found["entries"]})


if __name__ == "__main__":
    run_stage(
        "baseline_benchmark",
        __doc__,
        inputs={"nodes": "node arrays (nodes.h5)"},
        outputs={"speed": "times of all that take part, and their differences (speed.json)"},
        compute=_compute,
    )
