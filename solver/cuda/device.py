"""The CUDA device, or the simulator in its place, and how nodes and links are shared out to its threads."""

import os
from functools import cache
from typing import Any

from numba import config

from solver.forecast import Device, available_bytes, update_bytes
from solver.stage import StageError
from solver.sums import WORDS

os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")  # passes over links are short by nature
try:
    from numba import cuda
except ImportError:
    cuda = None

THREADS = 128
"""Threads of a block."""
SUM_THREADS = 256
"""Threads of a block that adds up partial sums; a power of 2."""
MOST_PARTS = 32768
"""Threads that each add up every so many nodes or links."""
EFFICIENCY, STEP_S, COMPILE_S, SIMULATOR_UPDATES_S = 0.6, 3e-4, 4.0, 1e3
"""For the forecast, about: part of the memory's bandwidth that updates reach (15.2e9 a second of 188 bytes in fp32 and
9.6e9 of 340 in fp64 are 58 and 66 % of an H200's 4.9e12 bytes/s), time of a step's launches, compilation; updates a
second on the simulator."""


def on_device(function: Any) -> Any:
    """A function that takes arrays, for use in kernels: the simulator's arrays only fit the Python one.

    Where Numba compiles nothing, that is the function itself.
    """
    return getattr(function, "py_func", function) if config.ENABLE_CUDASIM else function


def blocks(count: int) -> int:
    """Blocks of one thread a node or link."""
    return max(1, -(-count // THREADS))


def partials(count: int) -> int:
    """Threads that add up so many terms."""
    return min(MOST_PARTS, blocks(count) * THREADS)


@cache
def make_block_sum() -> Any:
    """Device function ``(shared, t)``: thread t of a block adds the rows of (SUM_THREADS, WORDS) up into the first."""

    @cuda.jit(device=True)
    def add_block(shared: Any, t: int) -> None:
        cuda.syncthreads()
        width = SUM_THREADS // 2
        while width > 0:
            if t < width:
                for word in range(WORDS):
                    shared[t, word] += shared[t + width, word]
            cuda.syncthreads()
            width //= 2

    return add_block


def device_answers() -> bool:
    """Whether there is a CUDA device; the simulator is none."""
    return cuda is not None and not config.ENABLE_CUDASIM and bool(cuda.is_available())


def require_device() -> str:
    """Name of the CUDA device, or of the simulator where that is switched on.

    Raises
    ------
    StageError
        If none answers.
    """
    if cuda is not None and config.ENABLE_CUDASIM:
        return "CUDA simulator"
    if not device_answers():
        missing = "numba.cuda is not installed" if cuda is None else "no CUDA device answers (see nvidia-smi)"
        raise StageError(
            f"solve.backend cuda: {missing}; install the driver and requirements-cuda.lock, or set it to cpu or auto"
        )
    name = cuda.get_current_device().name
    return name.decode() if isinstance(name, bytes) else str(name)


def cuda_device(precision: str) -> Device:
    """The CUDA device: what is free on it, and the speed that its memory's clock and width let expect.

    Raises
    ------
    StageError
        If none answers.
    """
    name = require_device()
    if config.ENABLE_CUDASIM:
        return Device(name, available_bytes(), SIMULATOR_UPDATES_S, STEP_S, 0.0, MOST_PARTS)
    device = cuda.get_current_device()
    bandwidth = 2e3 * device.MEMORY_CLOCK_RATE * device.GLOBAL_MEMORY_BUS_WIDTH / 8
    free, _ = cuda.current_context().get_memory_info()
    return Device(name, float(free), EFFICIENCY * bandwidth / update_bytes(precision), STEP_S, COMPILE_S,
                  MOST_PARTS)  # fmt: skip
