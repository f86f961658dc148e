# SPDX-License-Identifier: Apache-2.0
"""Start ranks under mpirun, or under srun in a job of SLURM, hand their log on, stop them together, and say in one
message what went wrong.
"""

import importlib.util
import json
import logging
import os
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from numba import get_num_threads

from solver.backends.communicator import usable_cores
from solver.domain.nodes import stored_count
from solver.ranks import rank
from solver.ranks.heartbeat import SILENT_S, Heartbeats
from solver.ranks.rank import Task
from solver.run.setup import choose_backend
from solver.runtime.errors import StageError
from solver.runtime.interruption import Interruption
from solver.runtime.sources import ROOT

END_S = 2.0
"""How long mpirun or srun is given to end its processes."""
LISTEN_S, CHUNK_BYTES = 0.5, 2**16
"""How long it is listened to ranks before they are looked after, and how much is taken in at a time."""
LEAST_NODES = {"cpu": 10_000, "cuda": 3_000_000}
"""Of a rank: as many as a core, or an H100, computes in some tenths of a millisecond, in which a message and a sum go
round. Two of the latter with 2.5 million each were 1.15 times as fast as one with all, four with 1.25 million slower
than one (docs/records/performance.md, Several devices).
"""
LEAST_BESIDE = 250_000
"""Likewise of devices of one machine, which may write into the memory of each other: four with so many were 1.9 times
as fast as one with all."""
GIVEN_BACK = {"MALLOC_MMAP_THRESHOLD_": str(2**18)}
"""Of the C library of GNU: arrays from this many bytes on are given back to the system once they are freed. Left to
itself it keeps what is freed up to 32 MB, as all arrays of a rank with few nodes are."""
SHOWN = 5
"""Ranks that a message names."""

AS_ROOT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
"""Of Open MPI, which else refuses it, as in a container, where nobody else is."""
ALL_CORES = {
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
}
"""Of Open MPI 5 and 4: a rank has threads, which one core would be too few for; and more ranks than cores may be."""


def in_job(srun: str | None) -> bool:
    """Whether srun starts ranks: it was asked to, and this is a job, since elsewhere it would wait for one."""
    return srun is not None and "SLURM_JOB_ID" in os.environ


def command_line(ranks: int, srun: str | None) -> list[str]:
    """What starts a command as so many ranks.

    In a job it is srun: it finds the machines by the job's number alone. mpirun needs the list of them in its
    environment, which the executor plugin of Snakemake takes away.

    Parameters
    ----------
    ranks : how many.
    srun : options of srun, by which it knows the site's MPI; none: mpirun starts them on this machine.
    """
    if srun is None or not in_job(srun):
        return [require_mpi(ranks), "-n", str(ranks)]
    own = [f"--ntasks={ranks}", f"--cpus-per-task={get_num_threads()}"]
    # orders go to the first rank alone; one that dies ends all, whatever the site's slurm.conf says
    return [require_mpi(ranks, "srun"), *shlex.split(srun), *own, "--input=0", "--kill-on-bad-exit=1"]


def require_mpi(ranks: int, starter: str = "mpirun") -> str:
    """Path of mpirun, or of srun.

    Raises
    ------
    StageError
        If it or mpi4py is not there.
    """
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    found = shutil.which(starter, path=path)
    missing = [name for name, there in ((starter, found), ("mpi4py", importlib.util.find_spec("mpi4py"))) if not there]
    if missing or found is None:
        remedy = "run `make mpi`, which installs Open MPI and mpi4py"
        if starter in missing and starter == "srun":
            remedy = "let solve run where SLURM's commands are, outside of a container"
        raise StageError(f"solve.ranks {ranks}: {' and '.join(missing)} not found; {remedy}, or set solve.ranks to 1")
    return found


def solve_on_ranks(task: Task, log: logging.Logger, srun: str | None = None) -> None:
    """Let ranks do a task.

    Parameters
    ----------
    task : what they do.
    log : where their log goes.
    srun : as of :func:`command_line`.

    Raises
    ------
    StageError, OSError
        That there are fewer nodes than ranks, or that one hangs or ended without a word; what a rank ended with, the
        first of them where several did.
    RuntimeError
        With the traceback of a rank that has a fault.
    """
    ranks = int(task.settings["ranks"])
    here = 1 if in_job(srun) else ranks
    backend = choose_backend(task.settings["backend"])
    least = LEAST_BESIDE if backend == "cuda" and here == ranks else LEAST_NODES[backend]
    _require_nodes(ranks, stored_count(Path(task.nodes)), log, here, least)
    task = replace(task, signalled=in_job(srun))
    command = [*command_line(ranks, srun), sys.executable, "-m", rank.__name__, task.text()]
    with tempfile.TemporaryFile() as complaints, _started(command, here, complaints) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin = process.stdin

        def tell(number: int) -> None:
            with suppress(OSError):  # they have ended
                stdin.write(f"{number}\n".encode())
                stdin.flush()

        with Interruption(tell):
            errors = _hand_on(process.stdout, ranks, log, bool(task.checkpoint))
            status = 0 if errors else process.wait()
        if errors:
            raise errors[0]
        if status:
            complaints.seek(0)
            raise StageError(_died(ranks, complaints.read().decode(errors="replace"), bool(task.checkpoint)))


def _require_nodes(ranks: int, nodes: int, log: logging.Logger, here: int, least: int) -> None:
    """Check that there is a node for each rank, before any is started; warn of more than are of use, where so many of
    them are to share the cores of this machine; `least` are of use.
    """
    if ranks > nodes:
        raise StageError(f"solve.ranks {ranks}: there are {nodes} fluid nodes, each rank needs one; choose fewer")
    cores = len(usable_cores())
    if here > cores:
        log.warning("warning: solve.ranks %d: they share the cores of this machine, which are %d", ranks, cores)
    if nodes < least * ranks:
        log.warning(
            "warning: solve.ranks %d: of %d nodes each has so few that messages take longer than nodes; %d or fewer",
            ranks,
            nodes,
            max(1, nodes // least),
        )


def environment(ranks: int) -> dict[str, str]:
    """Environment of ranks: this one's, the cores shared out among so many, and the project in reach."""
    shared = {"NUMBA_NUM_THREADS": str(max(1, get_num_threads() // ranks))}
    shared["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return dict.fromkeys(AS_ROOT, "1") | ALL_CORES | GIVEN_BACK | os.environ | shared


@contextmanager
def _started(command: list[str], here: int, complaints: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Ranks that run, in a session of their own: a signal from the terminal reaches this process alone, which tells
    them. All are ended at last.
    """
    given, pipe = environment(here), subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=complaints, env=given, start_new_session=True)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            if stream:
                with suppress(OSError):
                    stream.close()


def _hand_on(stream: IO[bytes], ranks: int, log: logging.Logger, kept: bool) -> list[Exception]:
    """Hand on what ranks say until all have ended, or one is not heard any more; what they ended with."""
    errors: list[Exception] = []
    heartbeats, rest = Heartbeats(ranks), b""
    while True:
        if select.select([stream], [], [], LISTEN_S)[0]:
            said = os.read(stream.fileno(), CHUNK_BYTES)
            if not said:
                return errors
            *lines, rest = heartbeats.take_out(rest + said, time.monotonic()).split(b"\n")
            errors += [error for line in lines if (error := _take_in(line, log))]
        if silent := heartbeats.silent(time.monotonic()):
            return [*errors, StageError(_hangs(ranks, silent, kept))]


def _take_in(line: bytes, log: logging.Logger) -> Exception | None:
    """Log a line that a rank said, or what it ended with."""
    try:
        said: dict[str, Any] = json.loads(line)
    except ValueError:
        return None  # of mpirun or srun itself
    if said.get("errno"):
        return OSError(said["errno"], os.strerror(said["errno"]), said["filename"] or None)
    if "error" in said:
        return RuntimeError(said["error"]) if "fault" in said else StageError(said["error"])
    logging.getLogger(log.name + said["name"].removeprefix("solve")).log(said["level"], "%s", said["message"])
    return None


def _again(kept: bool) -> str:
    """What to do about ranks that ended too soon."""
    return f"run the workflow again{', which goes on from the last checkpoint' if kept else ''}"


def _hangs(ranks: int, silent: list[int], kept: bool) -> str:
    """That ranks are not heard any more."""
    who = f"rank{'s' if len(silent) > 1 else ''} {', '.join(map(str, silent[:SHOWN]))}"
    more = f" and {len(silent) - SHOWN} more" if len(silent) > SHOWN else ""
    return (
        f"solve.ranks {ranks}: nothing was heard of {who}{more} for {SILENT_S:g} s, where a process is stopped or a"
        f" machine hangs; all were ended; {_again(kept)}"
    )


def _died(ranks: int, complaints: str, kept: bool) -> str:
    """That a rank ended without a word, with the line of mpirun or srun that says why."""
    lines = [line.strip() for line in complaints.splitlines()]
    saying = [line for line in lines if "signal" in line or "status" in line or "rror" in line] or lines[-1:]
    why = " ".join(saying[:2]) or "nothing more was said"
    return f"solve.ranks {ranks}: a rank ended before the run did ({why}); {_again(kept)}"
