"""Sweeps over what a run's speed depends on beside its lattice: threads, and how often its fields are wanted.

Rates are updates of fluid nodes a second, means of repeats after a warm-up, walls and openings on.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numba import get_num_threads, set_num_threads
from numpy.typing import NDArray

from solver.cpu.driver import CpuDriver
from solver.driver import LatticeDriver
from solver.flow import FlowWriter
from solver.lattice import Lattice
from solver.nodes import Nodes
from solver.stage import StageError
from solver.timing import AnyDriver, mean_step, stirred

BLOCKS = (16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""Threads of a block on a CUDA device; its work is done by warps of 32."""
INTERVALS = (2, 4, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
"""Steps between two snapshots; steps come in pairs."""


def thread_drivers(backend: str, lattice: Lattice) -> Iterator[tuple[int, LatticeDriver]]:
    """Drivers of a lattice by their threads: of a block on a CUDA device, else all that are used, 1, 2, 4, ..."""
    if backend == "cuda":
        from solver.cuda.driver import CudaDriver

        for threads in BLOCKS:
            try:
                yield threads, CudaDriver(lattice, threads)
            except StageError:  # so many do not fit
                return
    else:
        most = get_num_threads()
        for threads in sorted({most, *(2**k for k in range(most.bit_length()))}):
            set_num_threads(threads)
            yield threads, CpuDriver(lattice)
        set_num_threads(most)


def sweep_threads(
    backend: str, lattice: Lattice, row: NDArray[np.float64], seconds: float, repeats: int
) -> list[dict[str, Any]]:
    """Rate by the number of threads, see :func:`thread_drivers`.

    Parameters
    ----------
    backend : ``cpu`` or ``cuda``.
    lattice : what is run.
    row : conditions of a step.
    seconds, repeats : of one timing, about, and how many.
    """
    found = []
    for threads, driver in thread_drivers(backend, lattice):
        _, step_s = mean_step(stirred(driver), row, seconds, repeats)
        found.append({"threads": threads, "updates_s": lattice.count / step_s})
    return found


def sweep_snapshots(
    driver: AnyDriver, nodes: Nodes, row: NDArray[np.float64], seconds: float, most_s: float
) -> list[dict[str, Any]]:
    """Rate by the steps between two snapshots: with the fields of all nodes brought to the host, and written, too.

    Parameters
    ----------
    driver, nodes : what is run.
    row : conditions of a step.
    seconds, most_s : of one timing, about, and at most: longer intervals are left out.
    """
    _, step_s = mean_step(stirred(driver), row, seconds, 1)
    found: list[dict[str, Any]] = [{"every": None, "fetched_updates_s": nodes.count / step_s}]
    for every in INTERVALS:
        if every * step_s > most_s:
            break
        fetched = _with_snapshots(driver, row, every, seconds)
        with tempfile.TemporaryDirectory() as folder, FlowWriter(Path(folder) / "flow.vtkhdf", nodes) as writer:
            written = _with_snapshots(driver, row, every, seconds, writer)
        found.append({"every": every, "fetched_updates_s": every * nodes.count / fetched,
                      "written_updates_s": every * nodes.count / written})  # fmt: skip
    return found


def _with_snapshots(
    driver: LatticeDriver, row: NDArray[np.float64], every: int, seconds: float, writer: FlowWriter | None = None
) -> float:
    """Seconds of so many steps and the snapshot after them: the mean over about `seconds`, after a warm-up."""
    rows = np.tile(row, (every, 1))

    def round_trip() -> None:
        driver.advance(rows)
        fields = driver.fields()
        if writer:
            writer.append(0.0, fields.velocity.T, fields.drho, fields.stress[[0, 1, 2, 3, 5, 4]].T)

    round_trip()
    begin, count = time.perf_counter(), 0
    while count == 0 or time.perf_counter() - begin < seconds:
        round_trip()
        count += 1
    return (time.perf_counter() - begin) / count
