# SPDX-License-Identifier: Apache-2.0
"""Ranks leave the bits of one process, stop together, go on in any number, and end with one message."""

import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from solver.__main__ import identity
from solver.backends.cuda import peer_memory
from solver.domain.nodes import save
from solver.domain.partition import partition
from solver.kernels.collision import ON_D3Q19
from solver.ranks import heartbeat, launch, rank
from solver.ranks.launch import environment, require_mpi
from solver.ranks.rank import Task
from solver.ranks.versions import versions
from solver.run.settings import SolveSettings, parse
from solver.run.solve import solve
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.solver.run.test_checkpoint import (
    KilledError,
    command_line,
    files,
    kept,
    killed_at,
    pulsatile,
    run,
    short_pipe,
    start,
)
from tests.solver.run.test_coarse import drawn
from tests.solver.run.test_cycle_variation import MOMENTS, UNEVEN, pulsing
from tests.solver.run.test_extrapolation import slow_flow
from tests.solver.run.test_fallback import underrated
from tests.solver.run.test_simulation import settings
from tests.support import peer_checks, rank_blocks
from tests.support.command_lines import run_here
from tests.support.coupled_tree import around_vessel, vessel
from tests.support.coupled_tree import wanted as tree_settings
from tests.support.fake_slurm import make_cluster
from tests.support.geometries import pipe, plates
from tests.support.rank_checks import CASES
from tests.support.variants import some

LOG = logging.getLogger("test_ranks")
EVERY = tuple(CASES)
SLOW = {"corrected", *(f"collision {name}" for name in ON_D3Q19 if name != "projected")}
QUICK = tuple(name for name in CASES if name not in SLOW)
"""The lattices of `rank_checks`; those without one that takes as long as all others, and is there with few nodes, and
with one collision, which is each node's own.
"""
WITHIN_S = 10
"""In which all ranks end when one does; on an idle machine it takes 1 s."""


@pytest.mark.parametrize(("ranks", "cases"), some(((3, QUICK), (3, EVERY), (2, EVERY)), (3, QUICK)))
def test_ranks_are_the_whole(ranks, cases, mpirun):
    """The same bits of all that is read, and a state with which one process goes on; one message to each neighbour and
    at most one sum a step, but for inlets that follow their pressure, of whose two one is under way while nodes collide
    (`test_collectives`), or what is found again after many steps.

    Interpreted: a few steps of each model cost less than to compile it.
    """
    found = checked(mpirun, ranks, "cpu", *cases)
    assert found.keys() == set(cases)
    for name, said in found.items():
        most = {"outlets with feedback": 1.1, "inlets with feedback": 2}.get(name, 1)  # one before all steps
        assert said["said"].get("sums", 0) <= most, name
        assert said["said"]["messages"] == (1 if not name.startswith("corrected") else 1 + 2 / 16), name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "backend", "cases"),
    [
        (2, "cuda", ("corrected, of few nodes",)),
        (
            2,
            "peers",
            ("corrected, of few nodes", "outlets with feedback", "inlets with feedback", "nodes that come last"),
        ),
        (3, "peers", ("walls bouzidi", "fp16", "moving walls", "a cut through an outlet")),
    ],
)
def test_ranks_on_a_simulated_device_are_the_whole(ranks, backend, cases, mpirun):
    """Each with a simulator of its own, which hand messages on through the host or write into each other's memory; real
    devices are compared by benchmarks/ranks_on_gpu.py.
    """
    assert checked(mpirun, ranks, backend, *cases, NUMBA_ENABLE_CUDASIM="1").keys() == set(cases)


@pytest.mark.parametrize("ranks", some([2, 3], 3))
def test_devices_write_into_the_memory_of_others(ranks, mpirun):
    """Simulators that share memory: each message and each sum comes as it was sent, in each of several rounds, though
    ranks lag behind each other and one sends nothing to one that sends to it.
    """
    command = [mpirun, "-n", str(ranks), sys.executable, "-m", "tests.support.peer_checks"]
    given = environment(ranks) | {"NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["right"] == [peer_checks.ROUNDS] * ranks
    assert found["bytes"] > 0


@pytest.mark.parametrize(
    ("neighbours", "sharing", "reached", "why"),
    [
        (4, 1, True, ""),
        (2, 1, True, "several machines"),
        (4, 2, True, "share a device"),
        (4, 1, False, "does not reach"),
    ],
)
def test_messages_go_through_the_host_where_devices_are_not_connected(neighbours, sharing, reached, why, monkeypatch):
    def opened(ranks: Any, size: int) -> list[None]:
        if not reached:
            raise RuntimeError("CUDA_ERROR_INVALID_VALUE")
        return [None] * ranks.size

    device = SimpleNamespace(uuid="GPU-1")
    monkeypatch.setattr(peer_memory, "config", SimpleNamespace(ENABLE_CUDASIM=0))
    monkeypatch.setattr(peer_memory, "cuda", SimpleNamespace(get_current_device=lambda: device))
    monkeypatch.setattr(peer_memory, "shared_memory", opened)
    ranks = Mock(size=4, neighbours=neighbours, largest=np.asarray, beside=lambda key: SimpleNamespace(size=sharing))
    found = peer_memory.why_not_connected(ranks)
    assert why in found
    assert bool(why) == bool(found)


def checked(mpirun: str, ranks: int, *arguments: str, **more: str) -> dict[str, dict[str, Any]]:
    """What `rank_checks` says of each case, all of which moved and left the bits of the whole."""
    command = [mpirun, "-n", str(ranks), sys.executable, "-m", "tests.support.rank_checks", *arguments]
    given = environment(ranks) | {"NUMBA_NUM_THREADS": "1", "NUMBA_DISABLE_JIT": "1"} | more
    done = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stderr
    found = {said["case"]: said for said in map(json.loads, done.stdout.splitlines())}
    for name, said in found.items():
        assert said["differ"] == [], name
        assert said["moved"], name
    return found


def test_no_rank_holds_the_whole_while_a_state_is_kept_and_the_flow_written(mpirun, tmp_path):
    """What comes to a rank at once is a block of eight numbers a row at most, and what it holds beside its own quarter,
    twice for its state (as its driver has it and in the order of the whole), is less than the whole. The first one also
    holds a piece of a file while that gets its checksum, whatever its size.
    """
    command = [mpirun, "-n", "4", sys.executable, "-m", "tests.support.rank_blocks", str(tmp_path)]
    given = environment(4) | {"NUMBA_NUM_THREADS": "1", "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == 4
    for said in found:
        assert said["alike"]
        assert said["sum"] == 4 * 7
        assert said["most_at_once"] <= 8 * 8 * rank_blocks.BLOCK
        assert all(said["held"][name] < 0.7 * said["whole"] for name in ("state", "restore", "flow"))
    for said in sorted(found, key=lambda said: said["held"]["newest"])[:-1]:
        assert said["held"]["write"] + said["held"]["newest"] < 0.05 * said["whole"]
    assert (tmp_path / "ranks.vtkhdf").read_bytes() == (tmp_path / "one.vtkhdf").read_bytes()


def ranks_below(folder: Path) -> list[int]:
    """Processes of ranks that work in a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # it has ended
        if "solver.ranks.rank" in words and "python" in words[0] and str(folder) in words[-2]:
            found.append(int(path.parent.name))
    return sorted(found)


def begun(folder: Path, wanted: SolveSettings, *more: str) -> subprocess.Popen[str]:
    """A run that has kept a state since it was started."""
    before = {path.name for path in folder.glob("checkpoint/step-*.h5")}
    process, deadline = start(folder, wanted, more=more), time.monotonic() + 400
    while {path.name for path in folder.glob("checkpoint/step-*.h5")} <= before:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


@pytest.mark.parametrize("last", some([1, 2], 1))
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are looked for in /proc")
def test_a_run_of_ranks_that_stops_goes_on_with_others_to_the_bits_of_one_process(last, mpirun, tmp_path):
    """Two ranks are asked to end, of three that go on one is killed, one process comes to the last steps, and the
    `last` ranks to the end. With a flow that turns back, a Windkessel, a viscosity that varies, snapshots and
    statistics.
    """
    save(short_pipe(), tmp_path / "nodes.h5")
    wanted = replace(pulsatile(tmp_path / "wave"), cycles=1)
    whole = run(short_pipe(), wanted, tmp_path / "whole")
    process = begun(tmp_path, replace(wanted, ranks=2))
    process.send_signal(signal.SIGTERM)
    errors = said_by(process)
    assert f"stopped by signal {signal.SIGTERM:d} after step" in errors
    way = r"messages through the host, at most \S+ MB a rank and step in \S+ us: latency \S+ us, \S+ GB/s"
    assert re.search(way, errors)
    assert not ranks_below(tmp_path)
    process, killed = begun(tmp_path, replace(wanted, ranks=3)), time.monotonic()
    os.kill(ranks_below(tmp_path)[1], signal.SIGKILL)
    errors = said_by(process)
    assert time.monotonic() - killed < WITHIN_S
    assert "going on from the checkpoint of step" in errors
    said = "solve.ranks 3: a rank ended before the run did ("
    assert errors.splitlines()[-1].split(": error: ")[1].startswith(said)
    assert not ranks_below(tmp_path)
    own = identity(tmp_path / "nodes.h5", parse(json.loads(json.dumps(asdict(wanted)))))
    before, late = kept(tmp_path, identity=own).newest(dict).step, round(0.95 * whole["steps"])
    with pytest.raises(KilledError), killed_at(late):
        run(short_pipe(), wanted, tmp_path / "one", kept(tmp_path, 0.1, own))
    assert 0 < before < kept(tmp_path, identity=own).newest(dict).step <= late
    assert not (tmp_path / "flow.vtkhdf").exists()
    process = start(tmp_path, replace(wanted, ranks=last), minutes=60)
    errors = said_by(process, 0)
    assert "going on from the checkpoint of step" in errors
    assert files(tmp_path) == files(tmp_path / "whole")


def said_by(process: subprocess.Popen[str], status: int = 1) -> str:
    """What a run says that ends with a status."""
    errors = process.communicate(timeout=400)[1]
    assert process.returncode == status, errors
    return errors


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are looked for in /proc")
def test_a_rank_that_hangs_ends_all_and_leaves_a_good_checkpoint(mpirun, tmp_path):
    """The process is stopped where it is, as one is whose machine hangs: it neither ends nor answers."""
    save(short_pipe(), tmp_path / "nodes.h5")
    wanted = settings(steady_tolerance=1e-12, ranks=2)
    process = begun(tmp_path, wanted)
    os.kill(ranks_below(tmp_path)[1], signal.SIGSTOP)
    stopped = time.monotonic()
    errors = process.communicate(timeout=60)[1]
    assert time.monotonic() - stopped < WITHIN_S
    assert process.returncode == 1
    *_, last = errors.splitlines()
    found = last.split(": error: ")[1]
    assert found.startswith(f"solve.ranks 2: nothing was heard of rank 1 for {heartbeat.SILENT_S:g} s")
    assert found.endswith("run the workflow again, which goes on from the last checkpoint")
    assert not ranks_below(tmp_path)
    own = identity(tmp_path / "nodes.h5", parse(json.loads(json.dumps(asdict(wanted)))))
    assert kept(tmp_path, identity=own).newest(dict)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_go_on_with_a_coupled_tree_to_the_bits_of_one_process(ranks, mpirun, tmp_path):
    """A branching between three arteries of a tree: one process is ended half-way, and ranks run the other half."""
    around, nodes = around_vessel(), vessel()
    around.write(tmp_path / "coupling.h5")
    save(nodes, tmp_path / "nodes.h5")
    wanted = tree_settings(around, tmp_path)
    own = identity(tmp_path / "nodes.h5", parse(json.loads(json.dumps(asdict(wanted)))), tmp_path / "coupling.h5")
    paths = [tmp_path / "whole" / name for name in ("flow.vtkhdf", "monitor.csv")]
    (tmp_path / "whole").mkdir()
    whole = solve(nodes, wanted, *paths, LOG, None, around)
    with pytest.raises(KilledError), killed_at(whole["steps"] // 2):
        solve(nodes, wanted, tmp_path / "ended.vtkhdf", None, LOG, kept(tmp_path, 0.1, own), around)
    process = start(tmp_path, replace(wanted, ranks=ranks), minutes=60)
    errors = process.communicate(timeout=400)[1]
    assert process.returncode == 0, errors
    assert "going on from the checkpoint of step" in errors
    assert files(tmp_path) == files(tmp_path / "whole")
    found = json.loads((tmp_path / "solve.json").read_text())
    for name in ("steps", "coupling", "openings", "mass_balance"):
        assert found[name] == json.loads(json.dumps(whole[name]))


@pytest.mark.slow
def test_ranks_whose_flow_is_extrapolated_leave_the_bits_of_one_process(mpirun, tmp_path):
    """It takes longer than expected: what its states lead to is summed over all ranks."""
    nodes, wanted = slow_flow()
    save(nodes, tmp_path / "nodes.h5")
    whole = run(nodes, wanted, tmp_path / "whole")
    assert whole["extrapolations"]
    process = start(tmp_path, replace(wanted, ranks=3), minutes=60)
    errors = process.communicate(timeout=800)[1]
    assert process.returncode == 0, errors
    assert files(tmp_path) == files(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["coarse start", "fall-back"])
def test_ranks_that_hand_a_flow_over_leave_the_bits_of_one_process(name, mpirun, tmp_path):
    """Between a lattice and that of twice the spacing, which corrects it, and from models to safer ones."""
    nodes, wanted = drawn(3) if name == "coarse start" else underrated()
    wanted = replace(wanted, start="coarse") if name == "coarse start" else wanted
    save(nodes, tmp_path / "nodes.h5")
    whole = run(nodes, wanted, tmp_path / "whole")
    assert whole["start"]["corrections"] >= 3 if name == "coarse start" else whole["models"]["fallbacks"]
    process = start(tmp_path, replace(wanted, ranks=3), minutes=60)
    errors = process.communicate(timeout=800)[1]
    assert process.returncode == 0, errors
    assert files(tmp_path) == files(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_average_cycles_to_the_bits_of_one_process(ranks, mpirun, tmp_path, monkeypatch):
    """Cycles that differ, as walls move at other moments in each: here, and in the processes of ranks."""
    monkeypatch.setattr(MOMENTS, UNEVEN)
    module = "solver.boundary.parabolic_walls"  # of which that number is read
    (tmp_path / "sitecustomize.py").write_text(f"import {module} as walls\n\nwalls.WALL_PAIRS = {UNEVEN}\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    nodes, wanted = pipe((1, 2, 3), 3.2, 9, spacing_mm=0.5), pulsing(tmp_path)
    save(nodes, tmp_path / "nodes.h5")
    whole = run(nodes, wanted, tmp_path / "whole")
    assert whole["fluctuation"]["cycles"] == wanted.cycles
    process = start(tmp_path, replace(wanted, ranks=ranks), minutes=60)
    errors = process.communicate(timeout=400)[1]
    assert process.returncode == 0, errors
    assert files(tmp_path) == files(tmp_path / "whole")
    found = json.loads((tmp_path / "solve.json").read_text())
    assert found["fluctuation"] == json.loads(json.dumps(whole["fluctuation"]))


def task(folder: Path, wanted: SolveSettings, launched: list[str]) -> Task:
    paths = [str(folder / name) for name in ("flow.vtkhdf", "monitor.csv", "solve.json")]
    return Task(launched, asdict(wanted), str(folder / "nodes.h5"), None, *paths, None, "", 60.0)


@pytest.fixture
def begun_before(tmp_path: Path) -> Iterator[SolveSettings]:
    """Settings of a run that one process began; its state is to be as good after the test."""
    wanted = settings(steady_tolerance=1e-12)
    save(short_pipe(), tmp_path / "nodes.h5")
    own = identity(tmp_path / "nodes.h5", parse(json.loads(json.dumps(asdict(wanted)))))
    with pytest.raises(KilledError), killed_at(300):
        run(short_pipe(), wanted, tmp_path, kept(tmp_path, identity=own))
    before = kept(tmp_path, identity=own).newest(dict)
    assert before.step > 0
    yield wanted
    after = kept(tmp_path, identity=own).newest(dict)
    assert after.step == before.step
    for name, array in before.arrays.items():
        np.testing.assert_array_equal(array, after.arrays[name])


OF_ANOTHER = """
import sys, time
from pathlib import Path

if "solver.ranks.rank" in sys.orig_argv:
    from solver.ranks import versions as module

    def versions(own=module.versions):
        from solver.backends.communicator import world

        rank = world().rank
        Path(FOLDER, f"asked-{rank}").write_text(str(time.monotonic()))
        return own()[:-1] + ["Numba of long ago"] if rank == 1 else own()

    module.versions = versions
"""
"""Of `sitecustomize`: the second of the ranks has another version; each tells when it looked."""


def refusal(folder: Path, wanted: SolveSettings) -> str:
    """The one line that a stage says which is refused."""
    done = run_here("solver", *command_line(folder, wanted))
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if "warning: solve.ranks" not in line]
    return line


def test_ranks_of_another_version_are_refused_by_one_line_in_time(mpirun, begun_before, tmp_path, monkeypatch):
    """Also where their task has another form. Time counts from when the last one looked, until all have ended."""
    (tmp_path / "sitecustomize.py").write_text(f"FOLDER = {str(tmp_path)!r}\n{OF_ANOTHER}")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    text = Task.text
    monkeypatch.setattr(Task, "text", lambda self: json.dumps(json.loads(text(self)) | {"of_another": 1}))
    line, ended = refusal(tmp_path, replace(begun_before, ranks=2)), time.monotonic()
    assert "error: solve.ranks 2: ranks differ in their versions of HemoLattice, Python, NumPy or Numba" in line
    asked = [float((tmp_path / f"asked-{rank}").read_text()) for rank in range(2)]
    assert 0 < ended - max(asked) < WITHIN_S


def test_more_ranks_than_nodes_are_refused_by_one_line_in_time(mpirun, begun_before, tmp_path, monkeypatch):
    """Before any is started."""
    monkeypatch.setattr(launch.subprocess, "Popen", None)
    began = time.monotonic()
    line = refusal(tmp_path, replace(begun_before, ranks=999))
    assert f"error: solve.ranks 999: there are {short_pipe().count} fluid nodes, each rank needs one" in line
    assert time.monotonic() - began < WITHIN_S


def test_a_rank_that_nobody_speaks_to_any_more_ends_without_a_word(mpirun, tmp_path):
    """mpirun lets go of the first rank when another has died, which would be heard as an order to stop."""
    save(short_pipe(), tmp_path / "nodes.h5")
    given = task(tmp_path, settings(steady_tolerance=1e-12), versions()).text()
    command, pipe = (sys.executable, "-m", rank.__name__, given), subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=environment(1), stdin=pipe, stdout=pipe, text=True) as process:
        assert any("message" in line for line in iter(process.stdout.readline, ""))  # of its log
        process.stdin.close()
        assert '"error"' not in process.stdout.read()
    assert process.returncode


@pytest.mark.parametrize("missing", ["mpirun", "mpi4py"])
def test_what_is_missing_is_named(missing, monkeypatch):
    monkeypatch.setattr(launch.shutil, "which", lambda name, path: None if missing == "mpirun" else name)
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: None if missing == "mpi4py" else name)
    with pytest.raises(StageError, match=rf"solve\.ranks 2: {missing} not found; run `make mpi`"):
        require_mpi(2)


def test_more_ranks_than_are_of_use_are_warned_of(caplog):
    cores, least = len(os.sched_getaffinity(0)), launch.LEAST_NODES["cpu"]
    launch._require_nodes(2 * cores, 4 * cores * least, LOG, 2 * cores, least)
    assert [each.getMessage() for each in caplog.records] == [
        f"warning: solve.ranks {2 * cores}: they share the cores of this machine, which are {cores}"
    ]
    caplog.clear()
    launch._require_nodes(2 * cores, 2 * cores * least, LOG, 1, least)  # on several machines
    launch._require_nodes(cores, cores * least, LOG, cores, least)
    assert not caplog.records
    launch._require_nodes(1, least - 1, LOG, 1, least)
    assert [each.getMessage() for each in caplog.records] == [
        "warning: solve.ranks 1: of 9999 nodes each has so few that messages take longer than nodes; 1 or fewer"
    ]


@pytest.mark.parametrize(("missing_here", "on_cpu"), [(True, 3), (True, 1), (False, 2), (False, 0)])
def test_ranks_run_on_one_kind_of_device(missing_here, on_cpu, monkeypatch, caplog):
    """On CUDA where each finds a device; a rank whose job was given one that cannot be used ends with a message."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(rank, "choose_backend", lambda name: "cpu" if missing_here else "cuda")
    monkeypatch.setattr(rank, "no_device", lambda: "no driver" if missing_here else None)
    others = on_cpu - missing_here
    ranks: Any = SimpleNamespace(size=3, begin_sum=lambda own: lambda: own + others)
    assert rank.agreed_backend(ranks, "auto", LOG) == ("cpu" if on_cpu else "cuda")
    why = ": no driver" if missing_here else ""
    assert caplog.messages == [f"on the CPU: {on_cpu} of 3 ranks have no CUDA device{why}"] * (on_cpu > 0)
    assert rank.agreed_backend(ranks, "cuda", LOG) == "cuda"
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "4")
    if missing_here:
        with pytest.raises(StageError, match=r"SLURM_GPUS_ON_NODE is 4\), and none can be used: no driver"):
            rank.agreed_backend(ranks, "auto", LOG)


def test_srun_starts_ranks_in_a_job_alone(tmp_path, monkeypatch):
    """With the threads of this process for each, where mpirun shares them out; elsewhere srun would wait for a job."""
    monkeypatch.setattr(launch.shutil, "which", lambda name, path: f"/bin/{name}")
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(launch, "get_num_threads", lambda: 8)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert launch.command_line(4, "--mpi=pmix") == ["/bin/mpirun", "-n", "4"]
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert launch.command_line(4, None) == ["/bin/mpirun", "-n", "4"]
    own = ["--ntasks=4", "--cpus-per-task=8", "--input=0", "--kill-on-bad-exit=1"]
    assert launch.command_line(4, "--mpi=pmix_v4 --label") == ["/bin/srun", "--mpi=pmix_v4", "--label", *own]
    monkeypatch.setattr(launch.shutil, "which", lambda name, path: None)
    with pytest.raises(StageError, match=r"solve\.ranks 4: srun not found; let solve run where SLURM's commands are"):
        launch.command_line(4, "")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are looked for in /proc")
def test_ranks_in_a_job_of_slurm_stop_by_its_signal_and_go_on_to_the_bits_of_one_process(mpirun, tmp_path, monkeypatch):
    """SLURM sends SIGTERM before the end of a job's time to the ranks themselves, not to what started them; that of the
    launching process, as by Ctrl-C, stops them, too. A rank that is killed ends all by one message.
    """
    cluster = make_cluster(tmp_path / "cluster")
    (job := tmp_path / "cluster/jobs/7").mkdir()
    for name, value in (cluster.environment | {"SLURM_JOB_ID": "7"}).items():
        monkeypatch.setenv(name, value)
    save(short_pipe(), tmp_path / "nodes.h5")
    wanted = replace(pulsatile(tmp_path / "wave"), ranks=2)
    process = begun(tmp_path, wanted, "--srun=--mpi=pmix")
    own = ["--ntasks=2", "--cpus-per-task=1", "--input=0", "--kill-on-bad-exit=1"]
    assert json.loads((job / "srun").read_text()) == ["--mpi=pmix", *own]
    for number in ranks_below(tmp_path):
        os.kill(number, signal.SIGTERM)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert f"stopped by signal {signal.SIGTERM:d} after step" in errors
    process = begun(tmp_path, wanted, "--srun=--mpi=pmix")
    process.send_signal(signal.SIGTERM)
    errors = process.communicate(timeout=60)[1]
    assert f"stopped by signal {signal.SIGTERM:d} after step" in errors
    process = begun(tmp_path, wanted, "--srun=--mpi=pmix")
    os.kill(ranks_below(tmp_path)[1], signal.SIGKILL)
    errors = process.communicate(timeout=60)[1]
    assert errors.splitlines()[-1].split(": error: ")[1].startswith("solve.ranks 2: a rank ended before the run did (")
    assert not ranks_below(tmp_path)
    process = start(tmp_path, wanted, minutes=60, more=("--srun=--mpi=pmix",))
    errors = process.communicate(timeout=400)[1]
    assert process.returncode == 0, errors
    assert "going on from the checkpoint of step" in errors
    run(short_pipe(), replace(wanted, ranks=1), tmp_path / "whole")
    assert files(tmp_path) == files(tmp_path / "whole")


@pytest.mark.parametrize("ranks", [2, 7, 31])
def test_as_many_ranks_as_nodes_have_one_each(ranks):
    nodes = plates(ranks)
    assert sorted(partition(nodes, nodes.count)) == list(range(nodes.count))
