# SPDX-License-Identifier: Apache-2.0
"""What one rank does: ``python -m solver.ranks.rank TASK``, started by :mod:`solver.ranks.launch` under mpirun or srun.

All ranks go through the same run, with the same rows of the monitor, and so decide alike. What they would not have
alike, the clock and signals, they agree on between stretches of steps. The first rank alone logs, writes, and reads
checkpoints, which it tells the others. What it says stands on its standard output, a JSON object a line.
"""

import json
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.communicator import Communicator, world
from solver.backends.share import Index, Shared
from solver.coupling.around import read_around
from solver.domain.part_file import load_part
from solver.ranks.heartbeat import beating
from solver.ranks.versions import versions
from solver.run.checkpoint import SNAPSHOTS, Arrays, Checkpoints, State, Stored
from solver.run.settings import parse
from solver.run.setup import choose_backend, no_device
from solver.run.solve import require_no_promise, solve
from solver.runtime.errors import StageError
from solver.runtime.interruption import STOP_SIGNALS, Stopped, heed_signals

ORDER = signal.SIGUSR1
"""By which the thread that hears an order to stop tells the one that runs."""
AFTER_FIRST_S, UNTIL_HEARD_S = 2.0, 0.5
"""How long another rank keeps what went wrong to itself, which all may have found, so that the first can say it; and
how long one that said it waits until all are ended."""


@dataclass(frozen=True)
class Task:
    """What the ranks are to do; paths as text.

    Attributes
    ----------
    versions : of the code and of what computes, which all ranks must have.
    settings : of the stage.
    nodes, coupling : inputs; there may be no coupling.
    flow, monitor, summary : outputs.
    checkpoint, identity, every_s : of :class:`solver.run.checkpoint.Checkpoints`; there may be no folder.
    signalled : whether signals to stop that reach the first rank itself are meant, as those of SLURM before the end of
        a job's time, which the launching process, outside of the step, does not get.
    """

    versions: list[str]
    settings: dict[str, Any]
    nodes: str
    coupling: str | None
    flow: str
    monitor: str
    summary: str
    checkpoint: str | None
    identity: str
    every_s: float
    signalled: bool = False

    def text(self) -> str:
        """As JSON, for a command line."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class BroadcastArray(Stored):
    """An array of a file that the first rank reads and tells the others, a piece after another.

    Attributes
    ----------
    ranks : all of them, which ask for the same pieces together.
    """

    ranks: Communicator

    def read(self, index: Index) -> NDArray[Any]:
        """A piece of it."""
        found = self.ranks.broadcast({"piece": super().read(index)} if self.ranks.rank == 0 else None)
        assert found is not None
        return found["piece"]


LATE = "late"
"""Name by which ranks tell each other what is read only when it is used."""


def _at_hand(state: State) -> Arrays:
    """What ranks are told of a state at once: arrays that are at hand, and which others there are."""
    late = [
        (str(each.path), each.name, each.shape, each.dtype.str)
        for each in state.arrays.values()
        if isinstance(each, Stored)
    ]
    small = {name: array for name, array in state.arrays.items() if not isinstance(array, Stored)}
    names = np.frombuffer(json.dumps(late).encode(), np.uint8)
    return {**small, "step": np.array(state.step), LATE: names}


class SharedCheckpoints(Checkpoints):
    """Checkpoints that the first rank reads and writes for all.

    Parameters
    ----------
    ranks : all of them.
    given : as of :class:`solver.run.checkpoint.Checkpoints`.
    """

    def __init__(self, ranks: Communicator, *given: Any) -> None:
        super().__init__(*given)
        self._ranks = ranks

    @property
    def due(self) -> bool:
        """Whether it is time for another, by the clock of the first rank."""
        return self._ranks.rank == 0 and super().due

    def write(self, step: int, arrays: Arrays, snapshots: Any) -> None:
        """Keep a state, of which each rank has a part; the parameters are those of :meth:`Checkpoints.write`."""
        if self._ranks.rank == 0:
            super().write(step, arrays, snapshots)
            return
        for array in arrays.values():
            if isinstance(array, Shared):
                deque(array.pieces(), maxlen=0)

    def newest(
        self,
        like: Callable[[], Arrays],
        fits: Callable[[int, Arrays], bool] = lambda step, arrays: True,
        late: tuple[str, ...] = (),
    ) -> State | None:
        """The newest state of this run, of whose arrays each rank takes what it has use for; snapshots, which the first
        rank alone writes, are empty on the others. The parameters are those of :meth:`Checkpoints.newest`.
        """
        found = super().newest(like, fits, late) if self._ranks.rank == 0 else None
        arrays = self._ranks.broadcast(_at_hand(found) if found else None)
        if arrays is None:
            return None
        others = json.loads(arrays[LATE].tobytes())
        stored = {
            name: BroadcastArray(Path(path), name, tuple(shape), np.dtype(kind), self._ranks)
            for path, name, shape, kind in others
        }
        return State(
            int(arrays["step"]),
            arrays | stored,
            found.snapshots if found else {int(each): {} for each in arrays[SNAPSHOTS]},
        )

    def peek(self, name: str) -> NDArray[np.generic] | None:
        """An array of the newest state of this run; none if there is none."""
        found = super().peek(name) if self._ranks.rank == 0 else None
        arrays = self._ranks.broadcast({name: found} if found is not None else None)
        return arrays[name] if arrays else None

    def remove(self) -> None:
        """Remove all."""
        if self._ranks.rank == 0:
            super().remove()


class _Lines(logging.Handler):
    """Says each line of the log."""

    def emit(self, record: logging.LogRecord) -> None:
        say({"level": record.levelno, "name": record.name, "message": record.getMessage()})


def say(what: dict[str, Any]) -> None:
    """Tell the launching process something."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _log(first: bool) -> logging.Logger:
    """Log of the stage, whose lines the first rank says."""
    log = logging.getLogger("solve")
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(_Lines() if first else logging.NullHandler())
    return log


def _heed_orders(signalled: bool) -> threading.Event:
    """Stop as by a signal when the launching process says so by its number, or is not heard any more; where `signalled`
    also by a signal itself, which is blocked. Only the first counts: where a rank has died, more may follow.

    Returns
    -------
    threading.Event
        Set once the launching process is not heard any more: it has ended, or mpirun ends all since a rank has died.
    """
    heed_signals()
    orders: list[int] = []
    unheard = threading.Event()

    def heed(_: int, frame: FrameType | None) -> None:
        handler = signal.getsignal(signal.SIGTERM)
        if callable(handler):
            handler(orders[-1], frame)

    def listen() -> int:
        order = os.read(sys.stdin.fileno(), 16)  # not by its buffer, whose lock the end of Python would wait for
        if not order and not orders:
            unheard.set()
        return int(order) if order else signal.SIGTERM

    def hear(order: Callable[[], int]) -> None:
        number = order()
        if not orders:
            orders.append(number)
            os.kill(os.getpid(), ORDER)

    signal.signal(ORDER, heed)
    for order in (listen, lambda: signal.sigwait(STOP_SIGNALS)) if signalled else (listen,):
        threading.Thread(target=hear, args=(order,), daemon=True).start()
    return unheard


def _require_alike(ranks: Communicator, wanted: int, launched: list[str]) -> None:
    """Check that as many ranks as are wanted were started together, with the code of the launching process.

    Raises
    ------
    StageError
        If not.
    """
    if ranks.size != wanted:
        raise StageError(
            f"solve.ranks {wanted}: {ranks.size} found each other; what started them is not of the MPI that mpi4py"
            " uses: run `make mpi`, or let the mpirun of that MPI come first in PATH; in a job of SLURM set"
            " cluster.srun to --mpi= and the name of PMIx in `srun --mpi=list`"
        )
    own = versions()
    if ranks.largest(np.array([own != launched], np.int64))[0]:
        raise StageError(
            f"solve.ranks {wanted}: ranks differ in their versions of HemoLattice, Python, NumPy or Numba (here"
            f" {', '.join(own[1:])}); let all machines have one installation"
        )


def agreed_backend(ranks: Communicator, wanted: str, log: logging.Logger) -> str:
    """What all ranks run on: where that is left open, on CUDA devices if each rank finds one.

    Parameters
    ----------
    ranks : all of them, each of which calls this.
    wanted : of the settings.
    log : gets a line where devices are missing.

    Raises
    ------
    StageError
        If a job was given a device that cannot be used.
    """
    if wanted != "auto":
        return wanted
    on_cpu, missing = choose_backend(wanted) == "cpu", no_device()
    if missing:
        require_no_promise(missing)
    without = int(ranks.begin_sum(np.array([on_cpu], np.int64))()[0])
    if without:
        why = f": {missing}" if missing else ""
        log.info("on the CPU: %d of %d ranks have no CUDA device%s", without, ranks.size, why)
    return "cpu" if without else "cuda"


def _device(ranks: Communicator, backend: str, log: logging.Logger) -> AbstractContextManager[None]:
    """The device that a rank works on; CUDA is imported only where it is asked for, since that takes half a second."""
    if backend == "cpu":
        return nullcontext()
    from solver.backends.cuda.rank_devices import rank_device

    return rank_device(ranks, log)


def _work(ranks: Communicator, given: dict[str, Any]) -> None:
    first, log = ranks.rank == 0, _log(ranks.rank == 0)
    _require_alike(ranks, int(given["settings"]["ranks"]), given["versions"])
    task = Task(**given)  # which another version may have in another form
    checkpoints = None
    if task.checkpoint:
        checkpoints = SharedCheckpoints(ranks, Path(task.checkpoint), task.identity, task.every_s, log)
    settings = parse(task.settings)
    settings = replace(settings, backend=agreed_backend(ranks, settings.backend, log))
    with _device(ranks, settings.backend, log):
        summary = solve(
            load_part(Path(task.nodes), ranks),
            settings,
            Path(task.flow) if first else None,
            Path(task.monitor) if first else None,
            log,
            checkpoints,
            read_around(Path(task.coupling)) if task.coupling else None,
        )
    if first:
        Path(task.summary).write_text(json.dumps(summary, indent=2, allow_nan=False) + "\n")


def run(given: dict[str, Any]) -> None:
    """Do a task with the other ranks, or end all of them with what went wrong here; `given` is that of
    :meth:`Task.text`.
    """
    # mpirun sends these where another rank has died, which is no order to stop; before MPI has threads of its own
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    ranks = world()
    # the others agree with the first
    unheard = _heed_orders(bool(given.get("signalled"))) if ranks.rank == 0 else threading.Event()
    try:
        with beating(ranks.rank, sys.stdout.fileno()):
            _work(ranks, given)
    except (StageError, Stopped) as error:
        # that a rank has died is what the user is to hear, not that this one was stopped therefore
        _end(ranks, {} if unheard.is_set() else {"error": str(error)})
    except OSError as error:
        _end(ranks, {"error": str(error), "errno": error.errno, "filename": str(error.filename or "")})
    except Exception:
        _end(ranks, {"error": f"rank {ranks.rank}:\n{traceback.format_exc()}", "fault": True})


def _end(ranks: Communicator, why: dict[str, Any]) -> None:
    """End all ranks with what went wrong here, if that is anything."""
    signal.signal(ORDER, signal.SIG_IGN)
    time.sleep(AFTER_FIRST_S if ranks.rank else 0.0)
    if why:
        say(why)
        time.sleep(UNTIL_HEARD_S)
    ranks.abort()


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
