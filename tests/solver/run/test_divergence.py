# SPDX-License-Identifier: Apache-2.0
"""A flow that diverges is stopped within 100 steps, with time, place, cause and remedy, and leaves nothing."""

import json
import logging
import os
import re
import subprocess
import sys
from dataclasses import asdict, replace
from itertools import product
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from solver.backends.lattice_driver import LatticeDriver
from solver.backends.subdomains import SubdomainsDriver
from solver.domain.nodes import Nodes, save
from solver.kernels.d3q19 import VELOCITIES, WEIGHTS
from solver.run import solve as run
from solver.run.divergence import DivergenceError, advice, advice_message
from solver.run.plan import make_plan
from solver.run.schedule import CHECK_STEPS
from solver.run.settings import SolveSettings
from solver.run.setup import drive
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.solver.run.test_checkpoint import in_parts, pulsatile, short_pipe
from tests.solver.run.test_simulation import pipe_case, settings
from tests.support.command_lines import run_here
from tests.support.variants import some

LOG = logging.getLogger("test_divergence")
MOST = 100
"""Steps from the onset to the stop."""
ROW = 11
FAULTS = {
    "not finite": (np.full(19, np.nan), "a population is no longer finite"),
    "Mach": (WEIGHTS * 3 * (VELOCITIES @ (0.5, 0, 0)), r"is 0\.5 in lattice units \(Mach 0\.87, at most 0\.52\)"),
    "density": (WEIGHTS * 0.35, r"the density is 35% off that at rest \(at most 30%\), on average \+\d+%"),
}
"""What the populations of a node become, and what is said of it."""


class Troubled:
    """Runs a lattice, one node of which holds other populations after every pair of steps from an onset on.

    Parameters
    ----------
    driver : what runs it.
    onset : an even step.
    populations : (19,) of the node.
    """

    def __init__(self, driver, onset: int, populations: np.ndarray) -> None:
        self._driver, self._onset, self._held, self.done = driver, onset, populations, 0

    def __getattr__(self, name):
        return getattr(self._driver, name)

    def advance(self, boundary_values):
        for pair in boundary_values.reshape(-1, 2, boundary_values.shape[1]):
            self._driver.advance(pair)
            self.done += 2
            if self.done >= self._onset:
                self._disturb()

    def _disturb(self):
        """In the part of the node, where the domain is in parts."""
        driver, row = self._driver, ROW
        if isinstance(driver, SubdomainsDriver):
            number = next(k for k, part in enumerate(driver.subdomains) if ROW in part.rows)
            driver, row = driver.drivers[number], int(np.flatnonzero(driver.subdomains[number].rows == ROW)[0])
        assert isinstance(driver, LatticeDriver)
        populations = driver.here(driver.populations)
        populations[: 19 * driver.lattice.stride].reshape(19, -1)[:, row] = self._held
        driver.store(driver.populations, populations)


def message_of_stop(nodes: Nodes, wanted: SolveSettings, fault: str, onset: int, folder) -> str:
    """What is said of a run, which must end in time."""
    driven, wanted = [], replace(wanted, collision="trt")  # a model that is named stays alone

    def make(*given):
        driven.append(Troubled(drive(*given), onset, FAULTS[fault][0]))
        return driven[0]

    with mock.patch.object(run, "drive", make), pytest.raises(StageError) as caught:
        run.solve(nodes, wanted, folder / "flow.vtkhdf", folder / "monitor.csv", LOG)
    assert 0 < driven[0].done - onset <= MOST
    return str(caught.value)


def stopped(nodes: Nodes, wanted: SolveSettings, fault: str, onset: int, folder) -> None:
    """Check that the run ends in time, and with all that must be said."""
    message = message_of_stop(nodes, wanted, fault, onset, folder)
    advice_message = re.match(
        r"the flow diverged at step (\d+), time (\S+) s, at \((.*)\) mm LPS, .* mm from opening ", message
    )
    assert advice_message, message
    assert onset <= int(advice_message[1]) <= onset + MOST // 2  # the first look that saw it
    assert float(advice_message[2]) > 0
    spread = CHECK_STEPS * nodes.spacing_mm if fault == "not finite" else 0.006  # else as far as digits are told
    np.testing.assert_allclose([float(x) for x in advice_message[3].split(",")], nodes.points_mm()[ROW], atol=spread)
    assert re.search(FAULTS[fault][1], message)
    assert "Set solve.collision to auto (now trt)" in message


@pytest.mark.parametrize(
    ("flow", "fault", "onset"),
    some(
        product(("steady", "pulsatile", "two parts"), FAULTS, (402, 450)),
        *product(("steady",), FAULTS, (402, 450)),
        ("pulsatile", "not finite", 450),
        ("pulsatile", "Mach", 402),
        ("two parts", "density", 402),
        ("two parts", "not finite", 450),
    ),
)
def test_the_run_stops_within_a_hundred_steps_of_the_onset(flow, fault, onset, tmp_path):
    """The earlier onset is as soon after a look as can be, the later one as long before the next one is taken in."""
    wanted = settings() if flow == "steady" else pulsatile(tmp_path / "wave")
    nodes = in_parts(short_pipe()) if flow == "two parts" else short_pipe()
    stopped(nodes, wanted, fault, onset, tmp_path)


SIMULATED = """
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from tests.support.geometries import pipe
from tests.solver.run.test_divergence import message_of_stop
from tests.solver.run.test_checkpoint import pulsatile
from tests.solver.run.test_simulation import settings

folder, nodes = Path(tempfile.mkdtemp()), pipe((0, 0, 1), 1.6, 3, spacing_mm=0.3)
wanted = settings() if sys.argv[1] == "steady" else pulsatile(folder / "wave")
said = [message_of_stop(nodes, replace(wanted, backend=backend), sys.argv[2], 2, folder) for backend in ("cpu", "cuda")]
assert said[0] == said[1], said
"""


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["Mach", "not finite"])
@pytest.mark.parametrize("flow", ["steady", "pulsatile"])
def test_simulated_cuda_stops_as_the_cpu_does(flow, fault):
    """In so small a pipe, which the simulator needs, walls change what is put into a node before it is looked at."""
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", SIMULATED, flow, fault]
    answer = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr


# ---- the advice ------------------------------------------------------------------------------------------------------


def too_fast() -> tuple[Nodes, SolveSettings]:
    nodes, wanted, mean_m_s = pipe_case((1, 2, 3), 600, 5.2, 30)
    return nodes, replace(wanted, collision="trt", velocity_set="D3Q19", peak_speed_m_s=mean_m_s / 4)


def too_coarse() -> tuple[Nodes, SolveSettings]:
    nodes, wanted, _ = pipe_case((1, 2, 3), 300, 5.2, 40)
    return nodes, replace(wanted, collision="trt")


REAL = {"peak_speed_m_s": too_fast, "collision": too_coarse}
"""Flows that diverge by themselves, by what is advised against it; both with one model, to compile one alone."""


def failed(nodes: Nodes, wanted: SolveSettings, folder) -> DivergenceError | None:
    """How the run diverged; none if it did not."""
    try:
        run.solve(nodes, wanted, folder / "flow.vtkhdf", folder / "monitor.csv", LOG)
    except DivergenceError as error:
        return error
    return None


@pytest.mark.parametrize("key", ["peak_speed_m_s", pytest.param("collision", marks=pytest.mark.slow)])
def test_a_flow_that_diverges_does_not_with_what_is_advised(key, tmp_path):
    nodes, wanted = REAL[key]()
    wanted = replace(wanted, max_steps=6000)
    diverged = failed(nodes, wanted, tmp_path)
    changes = advice(nodes, wanted, make_plan(nodes, wanted), diverged.reached_m_s, diverged.drho)
    assert key in changes
    assert advice_message(changes, wanted, nodes) in str(diverged)
    assert failed(nodes, replace(wanted, **changes), tmp_path) is None


@given(
    speed=st.floats(0.01, 0.17),
    ramp=st.none() | st.floats(0, 10),
    collision=st.sampled_from(("auto", "trt", "bgk")),
    walls=st.sampled_from(("bouzidi", "cli")),
    reached=st.floats(0, 10),
    drho=st.none() | st.floats(0.3, 2),
)
@hypothesis_settings(deadline=None, max_examples=50)
def test_advice_changes_something_names_it_and_is_empty_of_what_is_usual(speed, ramp, collision, walls, reached, drho):
    nodes = short_pipe()
    wanted = replace(settings(), lattice_speed=speed, ramp_s=ramp, collision=collision, walls=walls)
    plan = make_plan(nodes, wanted)
    changes = advice(nodes, wanted, plan, reached, drho)
    sentence = advice_message(changes, wanted, nodes)
    for key, value in changes.items():
        now = nodes.spacing_mm if key == "spacing_mm" else getattr(wanted, key)
        assert value != now
        assert key in sentence
    assert changes
    if drho is not None:
        assert changes["lattice_speed"] < plan.numbers["expected_peak_speed_lattice"]


def test_the_stage_leaves_nothing_of_a_flow_that_diverged(tmp_path):
    nodes, wanted = too_fast()
    save(nodes, tmp_path / "nodes.h5")
    roles = {
        "nodes": "nodes.h5",
        "flow": "flow.vtkhdf",
        "monitor": "monitor.csv",
        "summary": "solve.json",
        "provenance": "p.json",
        "log": "solve.log",
    }
    options = [part for role, name in roles.items() for part in (f"--{role}", str(tmp_path / name))]
    answer = run_here("solver", *options, "--settings", json.dumps(asdict(wanted)))
    assert answer.returncode == 1
    assert "Traceback" not in answer.stderr
    assert "error: the flow diverged at step" in answer.stderr.splitlines()[-1]
    assert {path.name for path in tmp_path.iterdir()} == {"nodes.h5", "solve.log"}
