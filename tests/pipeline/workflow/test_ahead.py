# SPDX-License-Identifier: Apache-2.0
"""Compilation ahead: when it is started, for which models, and how it ends."""

import json
import math
import os
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from numba import njit

from pipeline.case.settings.flow import SolveSettings
from pipeline.case.settings.geometry import DecomposeSettings
from pipeline.geometry.surface.tessellation import tessellate
from pipeline.members import loops_ahead as process
from pipeline.members.in_memory import nodes_of
from pipeline.workflow import ahead
from pipeline.workflow.ahead import MODULE, compile_ahead, mark_of, models_of
from solver.kernels.velocity_sets import D3Q27
from solver.run.models import choose_models, choose_velocity_set
from solver.run.plan import make_plan
from solver.run.settings import parse
from solver.runtime.sources import ROOT

STEADY = SolveSettings.model_validate({"inlets": {"*": {"flow_ml_s": 2.0}}})
PULSATING = STEADY.model_copy(update={"inlets": {"*": STEADY.inlets["*"].model_copy(update={"waveform": "pulse.csv"})}})
CASES = SimpleNamespace(cohort={"a"}, section=lambda run, stage: {"solve": STEADY.model_dump_json()}[stage])
JOBS = [
    SimpleNamespace(rule=SimpleNamespace(name=name), wildcards=SimpleNamespace(case="a"))
    for name in ("x", "surface", "solve")
]


def of_a_case(settings):
    """Models of its settings, as the pipe takes them."""
    return {name: value for name, value in json.loads(models_of(settings.model_dump_json())).items() if name != "pulse"}


@pytest.fixture
def started(monkeypatch, tmp_path):
    """Command lines of the processes that were started, with a store of loops of their own."""
    commands: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **options: commands.append(command))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.delenv("HEMO_AHEAD", raising=False)
    monkeypatch.setattr(ahead, "available_bytes", lambda: ahead.LEAST_FREE_BYTES)
    return commands


@pytest.mark.parametrize(
    ("cores", "jobs", "parts"),
    [(2, JOBS, ["flow"]), (3, JOBS, ["flow", "vessel"]), (3, [JOBS[0], JOBS[2]], ["flow"])],
)
def test_a_first_run_starts_it_for_the_models_of_its_case(started, tmp_path, cores, jobs, parts):
    """For the stages of the vessel, too, where they run and there are more cores."""
    processes = compile_ahead(jobs, cores, CASES)
    models, store = {"flow": models_of(STEADY.model_dump_json()), "vessel": "{}"}, tmp_path / "store"
    assert len(processes) == len(parts)
    assert [command[:4] for command in started] == len(parts) * [[sys.executable, "-P", "-m", MODULE]]
    assert [command[4:] for command in started] == [
        [part, str(mark_of(part, models[part], store)), models[part], "results/a/logs"] for part in parts
    ]


@pytest.mark.parametrize(
    "why", ["one core", "no flow to solve", "a study", "compiled before", "no place", "no memory", "declined"]
)
def test_it_is_not_started_where_it_would_not_help(started, tmp_path, monkeypatch, why):
    store, jobs, cores = tmp_path / "store", JOBS, 2
    if why == "one core":
        cores = 1
    elif why == "no flow to solve":
        jobs = JOBS[:2]
    elif why == "a study":
        monkeypatch.setattr(CASES, "cohort", {"b"})
    elif why == "compiled before":
        store.mkdir()
        mark_of("flow", models_of(STEADY.model_dump_json()), store).touch()
    elif why == "no place":
        store.touch()
    elif why == "no memory":
        monkeypatch.setattr(ahead, "available_bytes", lambda: 0.9 * ahead.LEAST_FREE_BYTES)
    else:
        monkeypatch.setenv("HEMO_AHEAD", "0")
    assert compile_ahead(jobs, cores, CASES) == []
    assert started == []


def test_a_case_of_other_models_is_compiled_for_again(tmp_path):
    other = STEADY.model_copy(update={"precision": "fp64"}).model_dump_json()
    same = STEADY.model_copy(update={"snapshots": 3}).model_dump_json()
    marks = [mark_of("flow", models_of(section), tmp_path) for section in (STEADY.model_dump_json(), same, other)]
    assert marks[0] == marks[1] != marks[2]


@pytest.mark.parametrize("viscosity_pa_s", [2e-3, 3.5e-3, 1e-2])
def test_the_flow_in_the_pipe_has_the_models_that_auto_takes_of_vessels(viscosity_pa_s):
    case = STEADY.model_copy(update={"viscosity_pa_s": viscosity_pa_s})
    pipe = process.of_pipe(of_a_case(case), "coarse", "cpu")
    diameter_m = 1e-3 * process.PIPE.diameter_mm
    peak_m_s = 2 * 1e-6 * pipe.inlets["*"].flow_ml_s / (math.pi / 4 * diameter_m**2)
    grid_reynolds = peak_m_s * (diameter_m / process.ACROSS) * pipe.density_kg_m3 / pipe.viscosity_pa_s
    q = choose_velocity_set(pipe.velocity_set, pipe.collision, grid_reynolds, pipe.equilibrium, ())
    assert q == len(D3Q27)
    assert choose_models(pipe.collision, grid_reynolds, 0.51, q=q)[0].collision == "cumulant"


def test_a_pulse_begins_at_rest():
    assert json.loads(models_of(PULSATING.model_dump_json()))["start"] == "rest"


def test_the_pulse_in_the_pipe_lasts_one_short_cycle(tmp_path):
    """And doubles a flow that it stops once a cycle."""
    pulse = process.of_pipe(of_a_case(PULSATING), "rest", "cpu", process._pulse(tmp_path))
    times_s, flow = np.loadtxt(pulse.inlets["*"].waveform, skiprows=1, delimiter=",").T
    assert (times_s[-1], flow.max(), flow.min()) == (process.PULSE_S, 2.0, 0.0)
    spacing_mm = process.PIPE.diameter_mm / process.ACROSS
    made = tessellate(process.PIPE, spacing_mm)
    nodes = nodes_of(made.mesh, made.openings, spacing_mm, DecomposeSettings(), process.PIPE.patches)
    schedule = make_plan(nodes, parse(pulse.model_dump(mode="json"))).schedule
    assert schedule.last == schedule.cycle < 1000


def test_it_ends_with_its_starter_and_leaves_no_files(tmp_path, monkeypatch):
    ends: list[int] = []
    monkeypatch.setattr(os, "_exit", ends.append)
    read, write = os.pipe()
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "flow.vtkhdf").touch()
    with os.fdopen(read) as standard_input:
        monkeypatch.setattr(sys, "stdin", standard_input)
        waiting = threading.Thread(target=process._end_with_starter, args=(folder,), daemon=True)
        waiting.start()
        waiting.join(0.1)
        assert (waiting.is_alive(), ends, folder.exists()) == (True, [], True)
        os.close(write)
        waiting.join(30)
    assert (ends, folder.exists()) == ([0], False)


def test_what_a_stage_has_begun_with_is_left_to_it(tmp_path):
    log, compiled = tmp_path / "solve.log", []

    @njit
    def inner(x):
        return x + 1

    @njit
    def loop(x):
        return inner(x)

    log.touch()
    os.utime(log, (0, 0))  # of an earlier run
    with process.before(log):
        compiled.append(loop(1))
        log.touch()
        compiled.append(loop(2))
        compiled.append(loop(2.5))
    assert compiled == [2, 3]


BEND = """
import json, logging, sys
from pathlib import Path
import numpy as np
from numba.core import event
from pipeline.case.settings.flow import SolveSettings
from pipeline.case.settings.geometry import DecomposeSettings, SurfaceSettings
from pipeline.case.shapes import Bend
from pipeline.files.volume import Volume
from pipeline.geometry.branches.tree_tracing import trace_tree
from pipeline.geometry.surface.tessellation import tessellate
from pipeline.members.in_memory import nodes_of
from pipeline.members.in_process import solved_in
from pipeline.stages.surface import extract_surface
log = logging.getLogger("test")
with event.install_recorder("numba:compile") as recorder:
    if sys.argv[2] != "vessel":
        bend = Bend(shape="bend", diameter_mm=3.0, bend_radius_mm=8.0, angle_deg=60.0)
        settings = {"inlets": {"*": {"flow_ml_s": 1.5}}, "backend": "cpu", "start": "coarse", "max_steps": 60}
        if sys.argv[2] == "pulse":
            file = Path(sys.argv[1]) / "wave.csv"
            file.write_text("time_s,flow_ml_s\\n0,1\\n0.005,2\\n0.01,1.5\\n0.015,0.5\\n0.02,1\\n")
            inlet = {"flow_ml_s": 1.5, "waveform": str(file)}
            settings = {"inlets": {"*": inlet}, "backend": "cpu", "cycles": 1, "min_cycles": 1, "snapshots": 3}
        made = tessellate(bend, 0.25)
        nodes = nodes_of(made.mesh, made.openings, 0.25, DecomposeSettings(), bend.patches)
        solve = SolveSettings.model_validate(settings | {"unsettled": "report"})
        solved_in(Path(sys.argv[1]), nodes, solve, log)
    else:
        z, y, x = np.indices((50, 40, 40), float)
        lumen = np.clip(6.5 - np.hypot(y - 14 - 0.2 * z, x - 20 - 3 * np.sin(z / 9)), 0, 1)
        volume = Volume(lumen, (0.3, 0.3, 0.3), (1.0, 2.0, 3.0), np.eye(3))
        made = extract_surface(volume, SurfaceSettings(), log)
        trace_tree(made.mesh, made.openings, 2.5, log)
        nodes_of(made.mesh, made.openings, 0.3, DecomposeSettings())
print(json.dumps([each.data["dispatcher"].py_func.__module__ for _, each in recorder.buffer if each.is_start]))
"""
"""Compiles what a bend needs, of stages up to its lattice or of its flow, and does not find; prints the modules."""


@pytest.mark.slow
@pytest.mark.parametrize("case", ["vessel", "flow", "pulse"])
def test_another_vessel_finds_its_loops(tmp_path, case):
    models = models_of((PULSATING if case == "pulse" else STEADY).model_dump_json())
    mark, part = tmp_path / "mark", "vessel" if case == "vessel" else "flow"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "store")}
    command = [sys.executable, "-m", MODULE, part, str(mark), models, str(tmp_path)]
    assert subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.PIPE).wait() == 0
    assert mark.exists()
    command = [sys.executable, "-c", BEND, str(tmp_path), case]
    answer = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    compiled = {module for module in json.loads(answer.stdout) if module.startswith(("solver.backends", "pipeline"))}
    assert compiled == set()
