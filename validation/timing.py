# SPDX-License-Identifier: Apache-2.0
"""How long work takes where a driver runs, and how fast the memory is there.

On a CUDA device time is that between two events on the driver's stream, else that of the clock; processor time is the
program's own, which other programs on a shared machine change little.
"""

import os
import platform
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import get_num_threads, prange
from numpy.typing import NDArray

from solver.backends.cpu.blocks import threaded
from solver.backends.cuda.device import cuda, device_answers, require_device
from solver.backends.lattice_driver import LatticeDriver
from solver.kernels.storage import SCALE

Work = Callable[[], object]
AnyDriver = TypeVar("AnyDriver", bound=LatticeDriver)
NOISE = 1e-3
"""Size of the populations at the start, which are random: memory full of zeros may be faster than a flow."""
LAUNCHES = 10
"""How often a device does a pass between two events, in one graph, so that the host's launches do not count."""


class Taken(NamedTuple):
    """Time of some work in seconds, and the processor's."""

    seconds: float
    processor: float


Stopwatch = Callable[[Work], Taken]


def hardware() -> dict[str, Any]:
    """What this machine is."""
    model = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "machine": platform.machine(),
        "cpu": model[0].split(": ")[1] if model else platform.processor(),
        "cores": os.cpu_count(),
        "threads": get_num_threads(),
        "load_before": os.getloadavg()[0],
        **({"gpu": require_device()} if device_answers() else {}),
    }


def stirred(driver: AnyDriver) -> AnyDriver:
    """A driver with random populations."""
    lattice, kind = driver.lattice, driver.populations.dtype
    noise = NOISE * np.random.default_rng(0).random(lattice.stride, np.float32)
    stored = (SCALE * noise).astype(np.float16).view(kind) if lattice.fp16 else noise.astype(kind)
    for i in range(lattice.q):
        driver.write(slice(i * lattice.stride, (i + 1) * lattice.stride), stored)
    return driver


def by_clock(work: Work) -> Taken:
    """Time that passes on the host."""
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return Taken(time.perf_counter() - clock, time.process_time() - processor)


def waited_s() -> float:
    """Time that threads of this program have waited for a core up to now, s; 0 where the system does not tell."""
    return sum(int(file.read_text().split()[1]) for file in Path("/proc/self/task").glob("*/schedstat")) / 1e9


def by_events(stream: Any) -> Stopwatch:
    """What times work on a stream of a CUDA device."""
    begin, end = cuda.event(), cuda.event()

    def watch(work: Work) -> Taken:
        processor = time.process_time()
        begin.record(stream)
        work()
        end.record(stream)
        processor = time.process_time() - processor
        end.synchronize()
        return Taken(begin.elapsed_time(end) / 1e3, processor)

    return watch


def queue_of(driver: LatticeDriver) -> Any:
    """The order in which a device works for a driver; none on a CPU."""
    return getattr(driver, "queue", None)


def stopwatch(driver: LatticeDriver) -> Stopwatch:
    """What times the work of a driver."""
    queue = queue_of(driver)
    return by_events(queue.stream) if queue else by_clock


def repeated(watch: Stopwatch, work: Work, repeats: int) -> NDArray[np.float64]:
    """Times of some work after a warm-up, (repeats, 2) as :class:`Taken`.

    Parameters
    ----------
    watch : of :func:`stopwatch`.
    work : is done once before, and then timed.
    repeats : times that it is timed.
    """
    work()
    return np.array([watch(work) for _ in range(repeats)])


def median(watch: Stopwatch, work: Work, repeats: int) -> Taken:
    """Medians of the times of some work after a warm-up.

    The parameters are those of :func:`repeated`.
    """
    return Taken(*np.median(repeated(watch, work, repeats), axis=0).tolist())


def repeated_steps(
    driver: LatticeDriver, boundary_values: NDArray[np.float64], seconds: float, repeats: int
) -> tuple[int, NDArray[np.float64]]:
    """How many steps, about so many seconds of them, were timed at once, and times of one of them, (repeats, 2).

    Parameters
    ----------
    driver : that is timed.
    boundary_values : (columns,) of a step.
    seconds : that the steps that are timed at once should take.
    repeats : times that they are timed.
    """
    watch, two = stopwatch(driver), np.tile(boundary_values, (2, 1))
    driver.advance(two)  # compiles
    pair = watch(lambda: driver.advance(two)).seconds
    count = 2 * max(1, round(seconds / max(pair, 1e-5)))
    rows = np.tile(boundary_values, (count, 1))
    return count, repeated(watch, lambda: driver.advance(rows), repeats) / count


def steps(
    driver: LatticeDriver, boundary_values: NDArray[np.float64], seconds: float, repeats: int
) -> tuple[int, Taken]:
    """How many steps were timed at once, and the median time of one of them.

    The parameters are those of :func:`repeated_steps`.
    """
    count, taken = repeated_steps(driver, boundary_values, seconds, repeats)
    return count, Taken(*np.median(taken, axis=0).tolist())


def passes(driver: LatticeDriver, boundary_values: NDArray[np.float64], repeats: int) -> dict[str, float]:
    """Seconds of a step's passes, of an observation of the flow and of adding it to a mean, each done again and again.

    Even and odd steps alternate: each kind of a pass counts half. `boundary_values` are those of one step.

    Parameters
    ----------
    driver : that is timed.
    boundary_values : (columns,) of a step.
    repeats : times that each pass is timed.
    """
    lattice, watch, queue = driver.lattice, stopwatch(driver), queue_of(driver)
    times = LAUNCHES if queue else 1
    driver.begin(np.tile(boundary_values, (2 * times * (repeats + 1), 1)))  # a device counts steps by their collisions
    driver.average(0, True)
    works: dict[str, Callable[[bool], object]] = {
        "streaming and collision, {}": lambda even: driver.collide(even, 0, lattice.count)
    }
    if lattice.openings:
        works["openings"] = lambda even: driver.treat_openings(0, even)
    if len(lattice.walls.slot):
        works["walls"] = lambda even: driver.treat_walls(0, even)
        works["sharing of mass"] = driver.correct_mass

    def taken(work: Work) -> float:
        return median(watch, work, repeats).seconds / times

    found: dict[str, float] = defaultdict(float)
    for name, work in works.items():
        for kind, even in (("even", True), ("odd", False)):
            launches = partial(often, times, partial(work, even))
            again = partial(queue.replay, f"{name}, {kind}", launches) if queue else launches
            found[name.format(kind)] += taken(again) / 2
    found["look"] = taken(partial(often, times, partial(driver.observe, True)))
    found["mean"] = taken(partial(often, times, partial(driver.average, 0, False)))
    return dict(found)


def each(driver: LatticeDriver, works: Mapping[str, Work], repeats: int) -> dict[str, float]:
    """Seconds of each work of a driver by itself, medians; on a device as a graph of `LAUNCHES`.

    Parameters
    ----------
    driver : that is timed.
    works : by name.
    repeats : times that each is timed.
    """
    watch, queue = stopwatch(driver), queue_of(driver)
    found = {}
    for name, work in works.items():
        launches = partial(often, LAUNCHES, work)
        again = partial(queue.replay, f"{name} by itself", launches) if queue else launches
        found[name] = median(watch, again, repeats).seconds / LAUNCHES
    return found


def often(times: int, work: Work) -> None:
    """Do some work so many times."""
    for _ in range(times):
        work()


def cpu_bandwidth(size: int, repeats: int) -> dict[str, float]:
    """Bytes read and written a second by all threads, in an update in place and in a copy of so many bytes."""
    one = np.float32(1)

    @threaded
    def update(a: Any) -> None:
        for k in prange(len(a)):
            a[k] = one - a[k]

    @threaded
    def copy(a: Any, b: Any) -> None:
        for k in prange(len(a)):
            b[k] = a[k]

    a, b = np.empty(size // 4, np.float32), np.empty(size // 4, np.float32)
    copy(b, a)  # the threads that will use a page are the first to touch it
    works = {"in place": lambda: update(a), "copy": lambda: copy(a, b)}
    return {name: 2 * size / median(by_clock, work, repeats).seconds for name, work in works.items()}


def cuda_bandwidth(size: int, repeats: int) -> dict[str, float]:
    """Bytes read and written a second by a copy of so many bytes on the device."""
    stream = cuda.stream()
    one, other = cuda.device_array(size, np.uint8), cuda.device_array(size, np.uint8)
    taken = median(by_events(stream), lambda: other.copy_to_device(one, stream=stream), repeats)
    return {"copy": 2 * size / taken.seconds}
