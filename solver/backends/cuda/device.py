# SPDX-License-Identifier: Apache-2.0
"""The CUDA device, or the simulator in its place, and how nodes and links are shared out to its threads."""

import logging
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from types import CellType, FunctionType
from typing import Any

import numpy as np
from numba import config

from solver.backends.cost import Device, update_bytes
from solver.backends.cuda.device_lock import locked_device
from solver.kernels.compilation import made_of
from solver.kernels.numba_internals import cuda_cache, keep
from solver.runtime.errors import StageError
from solver.runtime.memory import available_bytes, gigabytes

config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # passes over links are short by nature
try:
    from numba import cuda
except ImportError:
    cuda = None

THREADS = 128
"""Threads of a block whose size does not matter."""
SUM_THREADS = 256
"""Threads of a block that adds up; a power of 2."""
NODE_REGISTERS = {np.float32: (96, 80), np.float64: (128, 128)}
VARYING_REGISTERS = {np.float32: 96, np.float64: 128}
CORNER_REGISTERS = {np.float32: 128, np.float64: 168}
LINK_REGISTERS = {np.float32: 40, np.float64: 64}
"""Registers of a thread that collides, where the viscosity is the same everywhere, in even and in odd steps, where it
varies, and with 27 populations, and of one that treats links, at most, by the type that is computed with. In single
precision nothing spills (with 80 even steps would, 52 bytes), in double 40 bytes do with 27 populations (ptxas for
sm_90)."""
LEAST_CUDA = (12, 0)
"""Of the driver, for what requirements-cuda.lock holds."""
DRIVER_VERSION = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
"""Command that tells it, in a line for each device."""
OBSERVATION_BLOCKS = 384
"""Blocks that share out the nodes of an observation, and leave a partial result each."""
EFFICIENCY, STEP_S, COMPILE_S, SIMULATOR_UPDATES_S = 0.62, 8e-6, 8.0, 1e3
"""For the forecast, about: part of the memory's bandwidth that updates reach (19.6e9 a second of 152 bytes in fp32 and
11.2e9 of 304 in fp64 are 61 and 69 % of an H200's 4.9e12 bytes/s), time that a step takes however few the nodes,
compilation where none is kept; updates a second on the simulator."""


def on_device(function: Any) -> Any:
    """A function that takes arrays, for use in kernels: the simulator's arrays only fit Python ones.

    So there it is the Python function, as are those that it closes over. Where Numba compiles nothing, it is one.
    """
    python = getattr(function, "py_func", None)
    if python is None or not config.ENABLE_CUDASIM:
        return function
    cells = tuple(CellType(on_device(cell.cell_contents)) for cell in python.__closure__ or ())
    return FunctionType(python.__code__, python.__globals__, python.__name__, python.__defaults__, cells)


def kernel(registers: int | None = None) -> Any:
    """Decorator of kernels, compiled once and kept, of at most so many registers a thread.

    With fewer registers, more threads wait for memory at once.
    """
    if config.ENABLE_CUDASIM:
        return cuda.jit

    def decorator(function: Any) -> Any:
        options = {"max_registers": registers} if registers else {}
        compiled = cuda.jit(**options)(function)
        return keep(compiled, cuda_cache()(compiled.py_func, partial(made_of, compiled.py_func, options)))

    return decorator


def node_registers(real: Any, varying: bool, q: int = 19) -> tuple[int, int]:
    """Registers of a thread that collides a node of q populations in even and in odd steps, at most.

    Parameters
    ----------
    real : NumPy type that is computed with.
    varying : whether the viscosity varies; with 27 populations it makes no difference.
    q : 19 or 27.
    """
    if q == 19 and not varying:
        return NODE_REGISTERS[real]
    registers = (VARYING_REGISTERS if q == 19 else CORNER_REGISTERS)[real]
    return registers, registers


def fitting_threads(registers: int, asked: int | None = None) -> tuple[int, int]:
    """Threads of a block, of so many registers each, of which most run at once on a multiprocessor; and how many do.

    The more there are, the more wait for memory at the same time; of sizes that are alike in this, `THREADS` is taken.
    Where a size is `asked` for, it is that.

    Raises
    ------
    StageError
        If so many do not fit on a multiprocessor.
    """
    sizes = (asked,) if asked else (THREADS, 64, 256, 512)
    if config.ENABLE_CUDASIM:
        return sizes[0], sizes[0]
    device = cuda.get_current_device()
    warps = device.MAX_REGISTERS_PER_MULTIPROCESSOR // (registers * device.WARP_SIZE)
    most = min(warps * device.WARP_SIZE, device.MAX_THREADS_PER_MULTIPROCESSOR)
    chosen, resident = max(((size, most // size * size) for size in sizes), key=lambda sizes: sizes[1])
    if not resident:
        raise StageError(f"{asked} threads a block, {registers} registers each: at most {most} fit; choose fewer")
    return chosen, resident


def blocks_of(count: int, size: int) -> int:
    """Blocks that take so many nodes or links each."""
    return (count + size - 1) // size


class Queue:
    """The order in which the device works, and what was recorded to be done again.

    Attributes
    ----------
    stream : into which launches go.
    """

    def __init__(self) -> None:
        self.stream: Any = cuda.stream()
        self._aside = cuda.stream()
        self._orders: dict[int, Any] = {}
        self._graphs: dict[str, Any] = {}
        self._recording = False

    def replay(self, name: str, work: Callable[[], None]) -> None:
        """Launch again what was launched under this name, as a graph, which spares the host the single launches.

        The first time, `work` is done as it is, which compiles it, and then recorded. The simulator cannot record.
        What is launched again within work that is being recorded becomes a part of that.
        """
        if name in self._graphs and not self._recording:
            self._graphs[name].launch(self._order())
            return
        work()
        if not config.ENABLE_CUDASIM and not self._recording:
            self._graphs[name] = self._recorded(work)

    def beside(self, work: Callable[[], None]) -> Callable[[], None]:
        """Do work beside what is launched next; what waits for it, after which both are done before all that follows.

        Within it nothing may be launched beside. On the simulator it is done at once.
        """
        mine = self.stream
        if self._recording:
            mine, self.stream = mine.split(2)
            work()
            aside, self.stream = self.stream, mine

            def join() -> None:
                self.stream = type(mine).join(self.stream, aside)

            return join
        begun, done = cuda.event(), cuda.event()
        begun.record(mine)
        begun.wait(self._aside)
        self.stream = self._aside
        work()
        done.record(self.stream)
        self.stream = mine
        return lambda: done.wait(mine)

    def forget(self, beginning: str) -> None:
        """Record again what is launched under names that begin so: its arrays or its blocks have changed."""
        self._graphs = {name: graph for name, graph in self._graphs.items() if not name.startswith(beginning)}

    def _order(self) -> Any:
        """The stream, as graphs know it."""
        from cuda.core import Stream

        handle = int(self.stream)
        if handle not in self._orders:
            self._orders[handle] = Stream.from_handle(handle)
        return self._orders[handle]

    def _recorded(self, work: Callable[[], None]) -> Any:
        from cuda.core import Device as CoreDevice

        device = CoreDevice(cuda.get_current_device().id)
        device.set_current()
        mine, self._recording = self.stream, True
        self.stream = device.create_stream().create_graph_builder().begin_building()
        work()
        graph = self.stream.end_building().complete()
        self.stream, self._recording = mine, False
        return graph


@cache
def make_block_sum(rows: int) -> Any:
    """Device function ``(terms, t)``: thread t of a block adds each row of (rows, SUM_THREADS) up into its first."""

    @cuda.jit(device=True)
    def add_block(terms: Any, t: int) -> None:
        cuda.syncthreads()
        width = SUM_THREADS // 2
        while width > 0:
            if t < width:
                for row in range(rows):
                    terms[row, t] += terms[row, t + width]
            cuda.syncthreads()
            width //= 2

    return add_block


def device_answers() -> bool:
    """Whether there is a CUDA device that can be used; the simulator is none."""
    return not config.ENABLE_CUDASIM and fault() is None


def fault() -> str | None:
    """Why no CUDA device can be used, with the remedy; none if one can."""
    if cuda is None:
        return "numba.cuda is not installed; install requirements-cuda.lock"
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    if shown is not None and shown.strip() in ("", "-1"):
        return f"CUDA_VISIBLE_DEVICES is {shown.strip() or 'empty'}, which hides all devices; unset it, or name one"
    if error := cuda.cuda_error():
        first = " ".join(str(error).split()).partition(". ")[0]  # advice on Numba's own variables follows
        return f"no CUDA device answers ({first}); install the NVIDIA driver, or see nvidia-smi"
    if (version := cuda.driver.driver.get_version()) < LEAST_CUDA:
        return (
            f"the NVIDIA driver knows CUDA {version[0]}.{version[1]}, and {LEAST_CUDA[0]}.{LEAST_CUDA[1]} at least is"
            " needed; update the driver"
        )
    if not cuda.is_available():
        return "no CUDA device answers; see nvidia-smi"
    return None


@contextmanager
def own_device(log: logging.Logger) -> Iterator[None]:
    """Work on a CUDA device that no other run of this machine has meanwhile, see
    :mod:`solver.backends.cuda.device_lock`; where none answers, on none.

    Raises
    ------
    StageError
        If it has no memory left, or fails.
    """
    if not device_answers():
        yield
        return
    devices = list(cuda.gpus)
    with locked_device([str(device.uuid) for device in devices], log) as number, explain_failures():
        cuda.select_device(number)
        log.info("CUDA device %d of those numbered 0 to %d: %s", number, len(devices) - 1, _name())
        yield


@contextmanager
def explain_failures(wanted: str = "", with_checkpoints: bool = False) -> Iterator[None]:
    """Tell in words what a device, or this machine's memory, fails with.

    Parameters
    ----------
    wanted : how much memory the work takes; empty where that is not known.
    with_checkpoints : whether there are checkpoints.

    Raises
    ------
    StageError
        In place of errors of the CUDA driver, whatever library raises them, and of MemoryError.
    """
    try:
        yield
    except StageError:
        raise
    except MemoryError:
        free = f"{gigabytes(available_bytes())} are free"
        raise StageError(_memory_message("this machine", wanted, free, "free memory there")) from None
    except Exception as error:
        code = re.search(r"CUDA_ERROR_\w+", str(error))
        if code is None:
            raise
        if code[0] == "CUDA_ERROR_OUT_OF_MEMORY":
            other = "wait until other programs free it, or set solve.backend to cpu"
            raise StageError(_memory_message("the CUDA device", wanted, _free(), other)) from None
        going_on = (
            "; the last checkpoint is kept, and the workflow goes on from it when it is run again"
            if with_checkpoints
            else ""
        )
        raise StageError(
            f"the CUDA device failed ({code[0]}){going_on}. See nvidia-smi; if it fails again, take another device"
            " (CUDA_VISIBLE_DEVICES), or set solve.backend to cpu"
        ) from None


def _memory_message(where: str, wanted: str, free: str, other: str) -> str:
    needed = f"{wanted} were wanted, {free}" if wanted else free
    return (
        f"{where} has no memory left: {needed}; choose a coarser voxelize.spacing_mm or a smaller solve.precision, or"
        f" {other}"
    )


def _free() -> str:
    """What is free on the device now, if it still tells."""
    try:
        free, total = cuda.current_context().get_memory_info()
    except Exception:
        return "none could be had"
    return f"{gigabytes(free)} of {gigabytes(total)} are free"


def driver_version() -> str | None:
    """Version of the NVIDIA driver, and the newest CUDA that it knows; none where no device answers."""
    if not device_answers():
        return None
    known = ".".join(map(str, cuda.driver.driver.get_version()))
    try:
        driver_version = subprocess.run(DRIVER_VERSION, capture_output=True, text=True, check=True).stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return f"CUDA {known}"
    return f"{driver_version}, CUDA {known}"


def require_device() -> str:
    """Name of the CUDA device, or of the simulator where that is switched on.

    Raises
    ------
    StageError
        If none answers.
    """
    if cuda is not None and config.ENABLE_CUDASIM:
        return "CUDA simulator"
    if found := fault():
        raise StageError(f"solve.backend cuda: {found}, or set it to cpu or auto")
    return _name()


def _name() -> str:
    """Name of the device that is worked on."""
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
        return Device(name, available_bytes(), SIMULATOR_UPDATES_S, STEP_S, 0.0)
    device = cuda.get_current_device()
    bandwidth = 2e3 * device.MEMORY_CLOCK_RATE * device.GLOBAL_MEMORY_BUS_WIDTH / 8
    free, _ = cuda.current_context().get_memory_info()
    return device_of(name, float(free), bandwidth, precision)


def device_of(name: str, free_bytes: float, bytes_s: float, precision: str) -> Device:
    """What a device is expected to do whose memory moves so many bytes a second.

    Parameters
    ----------
    name : as the log calls it.
    free_bytes : memory that is free on it.
    bytes_s : that its memory moves a second.
    precision : of the settings.
    """
    return Device(name, free_bytes, EFFICIENCY * bytes_s / update_bytes(precision), STEP_S, COMPILE_S)
