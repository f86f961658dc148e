# SPDX-License-Identifier: Apache-2.0
"""Programs that run on the simulator of CUDA, or without compilation."""

import time
from types import SimpleNamespace
from typing import Any

import numpy as np

from solver.runtime.sources import ROOT
from tests.support.fork_server import Kind, run_in_fork

BEGIN = """
from tests.support.simulator import make_fast
make_fast()
"""


INTERPRETED: Kind = ("program_server.py", (("NUMBA_DISABLE_JIT", "1"), ("PYTHONPATH", str(ROOT))))
SIMULATED: Kind = (INTERPRETED[0], (*INTERPRETED[1], ("NUMBA_ENABLE_CUDASIM", "1")))


def make_fast() -> None:
    """Before kernels are made: fewer threads that add up, and no time lost to those that wait.

    Each thread of a block is one of Python: of the 256 that add up on a device most would only wait for the others.
    """
    from solver.backends.cuda import device

    device.SUM_THREADS, device.THREADS = 64, 16
    wait_in_turn()
    last_blocks_first()


def last_blocks_first() -> None:
    """Let the simulator run the blocks of a launch in reverse: on a device they run in any order, and what relies on
    the first ones being done shows.
    """
    from numba.cuda.simulator import kernel

    reverse = SimpleNamespace(**vars(np))
    reverse.ndindex = lambda *size: reversed([*np.ndindex(*size)])
    kernel.np = reverse


def wait_in_turn() -> None:
    """Let the simulator wait for one thread of a block after the other, and give a block one thread where it can.

    Its own loop asks all of them again and again whether they have come to a barrier, and keeps the interpreter from
    them meanwhile: nine tenths of the time of a lattice of some dozen nodes. A kernel whose threads came to no barrier
    in its first block runs in one thread from then on, which takes the place of each in turn, since to begin threads
    takes much of the rest. Should it come to a barrier later, it ends with an error.
    """
    from numba.cuda.simulator.kernel import BlockManager, BlockThread, Dim3

    with_barriers: dict[Any, bool] = {}

    def run(self: Any, grid_point: tuple[int, ...], *arguments: Any) -> None:
        points = [*np.ndindex(*self._block_dim)]
        if with_barriers.get(self._f, True):
            with_barriers[self._f] = together(self, grid_point, points, arguments)
        else:
            in_turn(self, grid_point, points, arguments)

    def in_turn(self: Any, grid_point: tuple[int, ...], points: list[tuple[int, ...]], arguments: Any) -> None:
        def every() -> None:
            size = Dim3(*self._block_dim)
            for place in (Dim3(*point) for point in points):
                thread.threadIdx = place
                thread.thread_id = place.x + size.x * (place.y + size.y * place.z)
                self._f(*arguments)

        thread = BlockThread(every, self, grid_point, points[0], self._debug)
        thread.abort = True  # at a barrier
        thread.start()
        thread.join()
        raise_of(thread)

    def together(self: Any, grid_point: tuple[int, ...], points: list[tuple[int, ...]], arguments: Any) -> bool:
        """Whether they came to a barrier."""
        work = [BlockThread(lambda: self._f(*arguments), self, grid_point, point, self._debug) for point in points]
        for thread in work:
            thread.start()
        alive, met = work, False
        while alive:
            for thread in alive:
                while thread.is_alive() and not thread.syncthreads_blocked:
                    time.sleep(0)
                raise_of(thread)
            alive = [thread for thread in alive if thread.is_alive()]
            met |= bool(alive)
            for thread in alive:
                thread.syncthreads_blocked = False
                thread.syncthreads_event.set()
        return met

    def raise_of(thread: Any) -> None:
        if thread.exception:
            raise thread.exception[0].with_traceback(thread.exception[1])

    BlockManager.run = run


def simulated(program: str, *arguments: str) -> None:
    """Run a program on the simulator, in a process of its own, which must end well; the CPU's loops are interpreted,
    too.
    """
    _said(SIMULATED, BEGIN + program, arguments)


def interpreted(program: str, *arguments: str, **environment: str) -> str:
    """What a program says that runs without compiling any loop, in a process of its own, which must end well.

    To compile them takes longer than all else on some hundred nodes, a quarter of a minute a model. Compiled loops are
    compared with reference solvers elsewhere, as in test_simulation.py and test_drivers.py. The process is a fork of
    one that has imported the libraries, of which Numba reads the environment; that takes a second.
    """
    name, own = INTERPRETED
    return _said((name, (*own, *environment.items())), program, arguments)


def _said(kind: Kind, program: str, arguments: tuple[str, ...]) -> str:
    answer = run_in_fork(kind, 600, {}, program=program, arguments=arguments)
    assert answer.returncode == 0, answer.stdout[-200:] + answer.stderr[-4000:]
    return answer.stdout
