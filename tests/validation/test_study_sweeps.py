# SPDX-License-Identifier: Apache-2.0
"""Sweeps over threads and snapshots: what is timed, what is refused, and what the study makes of known times."""

import itertools
import json
import logging
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

from pipeline.case.case_file import Case
from solver.backends.cpu.cpu_driver import CpuDriver
from solver.domain.nodes import save
from solver.run.settings import parse
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.support.command_lines import run_here
from tests.support.geometries import pipe
from validation import thread_sweep
from validation.evidence import Evidence
from validation.studies import sweeps as measured
from validation.studies.sweeps import Options, Swept
from validation.thread_sweep import Timing, threads_of, timing_of

SHORT = Timing(seconds=1e-4, repeats=2, longest_s=100.0)
TIMING = {"seconds": 0.05, "repeats": 7, "longest_s": 2}


def settings(**more):
    solve = {"density_kg_m3": 1000, "viscosity_pa_s": 1e-3, "inlets": {"*": {"flow_ml_s": 0.01}}, "backend": "cpu"}
    shape = {"shape": "pipe", "diameter_mm": 4, "length_mm": 4}
    case = Case.model_validate({"input": {"geometry": shape}, "solve": solve | more})
    return case.solve.model_dump(mode="json")


# ---- stage -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("all_threads")
def test_sweep_times_all_numbers_of_threads_in_turn_and_snapshots_at_all_intervals(monkeypatch, tmp_path):
    monkeypatch.setattr(thread_sweep, "INTERVALS", (2, 6))
    nodes = pipe((0, 0, 1), 8.0, 8)
    found = thread_sweep.sweep(nodes, parse(settings()), SHORT, tmp_path, logging.getLogger())
    assert (found["fluid_nodes"], found["openings"], found["backend"]) == (nodes.count, 2, "cpu")
    counts = [each["threads"] for each in found["threads"]["found"]]
    assert counts == sorted({1, *counts})
    assert found["threads"]["usual"] == counts[-1]
    assert all(len(each["step_s"]) == len(each["had"]) == 2 for each in found["threads"]["found"])
    assert [each["every"] for each in found["snapshots"]] == [2, 6]
    assert min(value for each in found["snapshots"] for value in each.values()) > 0
    assert found["cycle"] == {"steps": thread_sweep.CYCLE, "snapshots": 40, "least": 3}
    assert list(tmp_path.iterdir()) == []


def test_threads_had_their_cores_where_the_processor_s_clock_stands_still(monkeypatch, tmp_path):
    """Some systems count in ticks, which are longer than a timing."""
    monkeypatch.setattr(thread_sweep, "INTERVALS", (2,))
    monkeypatch.setattr(thread_sweep, "waited_s", lambda: 0.0)
    monkeypatch.setattr(thread_sweep.time, "process_time", lambda: 7.0)
    found = thread_sweep.sweep(pipe((0, 0, 1), 8.0, 8), parse(settings()), SHORT, tmp_path, logging.getLogger())
    assert {part for each in found["threads"]["found"] for part in each["had"]} == {1.0}


def test_writing_takes_what_a_trip_waits_for_it(monkeypatch, tmp_path):
    """Whatever steps alone take: here each time longer than the trips."""
    monkeypatch.setattr(thread_sweep, "INTERVALS", (2,))
    advance, count = CpuDriver.advance, itertools.count()

    def slower(self, rows):
        time.sleep(1e-2 * next(count))
        return advance(self, rows)

    monkeypatch.setattr(CpuDriver, "advance", slower)
    found = thread_sweep.sweep(pipe((0, 0, 1), 8.0, 8), parse(settings()), SHORT, tmp_path, logging.getLogger())
    assert found["snapshots"][0]["write_s"] > 0


SHARED = """
import os
import time
from validation.timing import waited_s

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
before, other, end = waited_s(), os.fork(), time.monotonic() + 0.5
while time.monotonic() < end:
    pass
if other:
    os.waitpid(other, 0)
    print(waited_s() - before)
"""


def test_who_shares_a_core_waits_for_it():
    """Two processes tied to one core for half a second, of which each has half."""
    if not Path("/proc/self/schedstat").exists():
        pytest.skip("the system does not tell how long threads wait")
    answer = subprocess.run([sys.executable, "-c", SHARED], cwd=ROOT, capture_output=True, text=True, check=True)
    assert float(answer.stdout) > 0.15


def test_intervals_that_take_too_long_are_left_out_but_for_the_first(monkeypatch, tmp_path):
    monkeypatch.setattr(thread_sweep, "INTERVALS", (2, 6))
    hurried = Timing(seconds=1e-4, repeats=1, longest_s=1e-9)
    found = thread_sweep.sweep(pipe((0, 0, 1), 8.0, 8), parse(settings()), hurried, tmp_path, logging.getLogger())
    assert [each["every"] for each in found["snapshots"]] == [2]


def test_cycle_is_the_runs_own_or_as_long_as_pressure_waves_need():
    steady, pulsatile = (SimpleNamespace(schedule=SimpleNamespace(cycle=cycle)) for cycle in (None, 4800))
    long = SimpleNamespace(position=np.array([[0, 0, 0], [299, 399, 0]]))
    assert thread_sweep.cycle_steps(long, pulsatile) == 4800
    assert thread_sweep.cycle_steps(long, steady) == pytest.approx(80 * 500, abs=2)
    assert thread_sweep.cycle_steps(SimpleNamespace(position=np.zeros((1, 3), int)), steady) == thread_sweep.CYCLE


class Blocks:
    """A driver whose blocks have at most 512 threads."""

    threads = 128

    def share_out(self, threads):
        if threads > 512:
            raise StageError("so many do not fit")
        self.threads = threads


def test_blocks_of_a_device_are_those_that_fit_and_the_usual_one_is_set_again():
    driver = Blocks()
    share_out, usual, counts = threads_of("cuda", driver)
    assert (usual, driver.threads) == (128, 128)
    assert counts == [16, 32, 64, 96, 128, 192, 256, 384, 512]
    share_out(64)
    assert driver.threads == 64


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"second": 1}, "timing: second is not known; known are seconds, repeats, longest_s"),
        ([1], r"timing: \[1\] is not known"),
        ({"seconds": 0}, "timing.seconds 0: give a number above 0"),
        ({"seconds": "1"}, "timing.seconds '1': give a number above 0"),
        ({"longest_s": float("nan")}, "timing.longest_s nan: give a number above 0"),
        ({"repeats": 2.5}, "timing.repeats 2.5: give a whole number above 0"),
        ({"repeats": True}, "timing.repeats True: give a whole number above 0"),
    ],
)
def test_a_timing_that_cannot_be_is_refused(values, message):
    with pytest.raises(StageError, match=message):
        timing_of(values)


def test_timings_are_as_usual_where_nothing_is_given():
    assert timing_of({}) == Timing()
    assert timing_of({"repeats": 9}) == Timing(repeats=9)


def test_command_line_writes_what_was_found_and_refuses_what_it_does_not_know(tmp_path):
    save(pipe((0, 0, 1), 8.0, 8), tmp_path / "nodes.h5")
    target = tmp_path / "sweep.json"
    files = ["--nodes", tmp_path / "nodes.h5", "--sweeps", target, "--provenance", tmp_path / "made.json"]
    for given, message in (
        (settings() | {"precision": "fp8"}, "solve.precision 'fp8'"),
        (settings() | {"timing": {"seconds": -1}}, "timing.seconds -1: give a number above 0"),
    ):
        answer = run_here("validation.thread_sweep", *files, "--settings", json.dumps(given))
        assert (answer.returncode, target.exists()) == (1, False)
        assert message in answer.stderr
        assert "Traceback" not in answer.stderr
    given = settings() | {"timing": {"seconds": 1e-3, "repeats": 1, "longest_s": 1e-3}}
    command = [sys.executable, "-m", "validation.thread_sweep", *files, "--settings", json.dumps(given)]
    subprocess.run(command, cwd=ROOT, check=True)
    assert json.loads(target.read_text())["device"] == "CPU"
    assert json.loads((tmp_path / "made.json").read_text())["device"] == "CPU"


# ---- measure ---------------------------------------------------------------------------------------------------------


def found(nodes=64_000, rates=(1e6, 2e6), usual=2, backend="cpu", had=1.0, fetch=1e-3, write=3e-3, precision="fp32"):
    """``sweep.json`` of a machine with known rates, (updates a second, by threads 1, 2, 4, ...)."""
    step_s = [[nodes / rate] * 3 for rate in rates]
    of = [
        {"threads": 2**k, "step_s": each, "had": [had] * 3 if backend == "cpu" else []} for k, each in enumerate(step_s)
    ]
    alone = nodes / rates[int(np.log2(usual))]
    snapshots = [{"every": every, "steps_s": every * alone, "fetch_s": fetch, "write_s": write} for every in (2, 200)]
    return {
        "backend": backend,
        "device": "x",
        "fluid_nodes": nodes,
        "openings": 2,
        "precision": precision,
        "threads": {"usual": usual, "found": of},
        "snapshots": snapshots,
        "cycle": {"steps": 16_000, "snapshots": 40, "least": 3},
    }


def goals(*swept: dict) -> dict[str, tuple[float, bool]]:
    """What was reached of each goal, and whether that suffices."""
    evidence, runs = (
        Evidence("x", "x", "x"),
        {f"pipe-{k}": SimpleNamespace(sweeps=each) for k, each in enumerate(swept)},
    )
    measured.measure(evidence, runs, Options(timing=TIMING))
    for draw, _ in evidence.figures:
        draw(Figure())
    assert len(evidence.figures) == 3
    return {goal.what: (goal.reached, goal.met) for goal in evidence.goals}


CORES = "part of the best rate that all threads lack, 10000 nodes a thread and more"
BLOCK = "part of the best rate that the usual block lacks, 200000 nodes and more"
WRITTEN = "part of a cycle's time that its snapshots take, largest lattice with openings"


@pytest.mark.parametrize(("one", "met"), [(1e6, True), (2.1e6, True), (2.5e6, False)])
def test_what_all_threads_lack_is_their_distance_to_the_best(one, met):
    reached, is_met = goals(found(rates=(one, 2e6)))[CORES]
    assert reached == pytest.approx(max(0.0, 1 - 2e6 / one))
    assert is_met is met


def test_blocks_are_held_where_the_lattice_fills_the_device():
    small, large = (found(nodes, (8e9, 9e9, 1e10, 9.7e9), usual=8, backend="cuda") for nodes in (100_000, 300_000))
    small["threads"]["usual"] = 1  # lacks a fifth, which is not asked
    reached = goals(small, large)
    assert reached[BLOCK] == (pytest.approx(0.03), True)
    assert goals(small).keys() == {f"GPU: {WRITTEN}"}


def test_timings_count_where_threads_had_their_cores():
    busy = found(rates=(3e6, 2e6), had=0.4)
    assert goals(busy).keys() == {f"CPU: {WRITTEN}"}
    for each in busy["threads"]["found"]:
        each["had"][1], each["step_s"][1] = 0.95, 1.0  # the one turn that counts: as fast as each other
    assert goals(busy)[CORES] == (0.0, True)


def test_turns_are_compared_one_by_one():
    """A machine that gets slower by the turn tells nothing of the threads."""
    swept = found(rates=(1e6, 1e6))
    swept["threads"]["found"][0]["step_s"] = [1.0, 2.0, 4.0]
    swept["threads"]["found"][1]["step_s"] = [1.1, 2.2, 4.4]
    assert Swept("a-1", swept).lacks(0.8) == pytest.approx(1 - 1 / 1.1)


def test_snapshots_cost_their_time_over_that_of_the_cycle():
    """A step of 32 ms, 400 of them between two snapshots of 0.64 s: 20 steps."""
    swept = found(fetch=0.16, write=0.48)
    each = Swept("a-1", swept)
    assert (each.in_steps("fetch"), each.in_steps("write")) == (pytest.approx(5), pytest.approx(15))
    assert each.of_a_cycle == pytest.approx(20 / 420)
    assert each.of_a_run == pytest.approx(20 / 1220)
    assert goals(swept)[f"CPU: {WRITTEN}"] == (pytest.approx(20 / 420), True)
    assert goals(found(fetch=0.16, write=0.60))[f"CPU: {WRITTEN}"][1] is False


def test_the_largest_lattice_with_openings_is_held():
    closed = found(640_000, fetch=100.0) | {"openings": 0}
    assert goals(found(), closed)[f"CPU: {WRITTEN}"][1] is True


def test_a_device_is_held_by_what_its_snapshots_take_at_their_usual_distance():
    """400 steps of 30 us between two: what waits for a snapshot to be written falls from 2 to 200 and 800 steps."""
    slow = found(300_000, (1e10, 1e10), backend="cuda", fetch=6e-4, write=2e-2)
    last = {"every": 800, "steps_s": 800 * 3e-5, "fetch_s": 6e-4, "write_s": 0.0}
    slow["snapshots"][1]["write_s"] = 1e-2
    slow["snapshots"].append(last)
    reached, met = goals(slow)[f"GPU: {WRITTEN}"]
    taken = 6e-4 / 3e-5 + 5e-3 / 3e-5  # half way, by the logarithm of the steps, from 200 to 800
    assert (reached, met) == (pytest.approx(taken / (taken + 400)), False)
    slow["snapshots"][1]["write_s"] = 0.0
    assert goals(slow)[f"GPU: {WRITTEN}"] == (pytest.approx(20 / 420), True)
