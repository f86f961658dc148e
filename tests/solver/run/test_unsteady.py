# SPDX-License-Identifier: Apache-2.0
"""Steady conditions without a steady flow: vortices behind rods, seen, averaged and told as what they are."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from solver.domain.nodes import Nodes
from solver.run.convergence import Watch
from solver.run.flow_file import read_flow
from solver.run.settings import SolveSettings
from solver.runtime.errors import StageError
from tests.solver.run.test_checkpoint import KilledError, files, kept, killed_at, run
from tests.solver.run.test_simulation import DENSITY, VISCOSITY, settings
from tests.support.geometries import nodes_from, rod

ACROSS, SIDES, SPACING_MM = 5.0, (32, 22), 0.2
REYNOLDS = 100.0


def rods() -> Nodes:
    """A row of rods, one layer of nodes thick, in a box that repeats in all directions; off its middle line."""
    fluid, to_wall = rod(SIDES, (8.3, 10.6), ACROSS)
    return nodes_from(fluid, lambda p, c: (to_wall(p, c), np.zeros(len(p), int)), (), (True, True, True), SPACING_MM)


def shedding(**changes) -> SolveSettings:
    """The force that keeps up the drag of a rod, with a coefficient of about 1.4, at that Reynolds number.

    With the model of most tests: those that the grid Reynolds number would choose take 25 s to compile.
    """
    speed = REYNOLDS * VISCOSITY / DENSITY / (ACROSS * SPACING_MM * 1e-3)
    force = 0.7 * DENSITY * speed**2 * ACROSS / (SIDES[0] * SIDES[1] * SPACING_MM * 1e-3)
    model = {"collision": "trt", "velocity_set": "D3Q19"}
    driven = {"inlets": {}, "force_n_m3": (force, 0.0, 0.0), "peak_speed_m_s": 1.5 * speed}
    return settings(unsettled="refuse", **model, **driven, **changes)


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("rods")
    return run(rods(), shedding(), folder), folder


def test_vortices_that_come_and_go_end_as_an_unsteady_flow_long_before_the_last_step(found):
    summary, folder = found
    json.dumps(summary, allow_nan=False)
    assert summary["state"] == "unsteady"
    assert summary["converged"]
    assert summary["unsettled"] is None
    assert summary["unsteady"].startswith("unsteady: mean over ")
    reported = summary["fluctuation"]
    assert 10 <= reported["flow_throughs"] <= 50
    assert max(reported["standard_error"].values()) < 0.01
    assert summary["time_s"] < 4 * reported["mean_over_s"]
    assert summary["forecast"]["unsteady_steps"] <= summary["steps"] < summary["forecast"]["most_steps"]
    header, *lines = (folder / "monitor.csv").read_text().splitlines()
    rows = np.array([line.split(",") for line in lines], float).T
    columns = dict(zip(header.split(","), rows, strict=True))
    own = columns["time_s"] > summary["time_s"] - reported["mean_over_s"] * (1 - 1e-6)
    energy = columns["kinetic_energy_j"][own]
    assert summary["kinetic_energy_j"] == pytest.approx(energy.mean(), rel=1e-8)
    assert reported["rms"]["kinetic energy"] == pytest.approx(energy.std() / energy.mean(), rel=1e-6)


def steps_of(whole: dict[str, Any], throughs: float) -> float:
    """Steps of so many flow-through times, of those that the mean of a whole run took."""
    mean = whole["fluctuation"]
    return whole["steps"] * throughs / mean["flow_throughs"] * mean["mean_over_s"] / whole["time_s"]


def cut_short(whole: dict[str, Any], throughs: float) -> SolveSettings:
    """Settings whose steps end when the mean of a whole run has taken so many flow-through times."""
    left_out = steps_of(whole, whole["fluctuation"]["flow_throughs"] - throughs)
    return shedding(max_steps=int(whole["steps"] - left_out))


def test_steps_that_end_before_a_mean_is_reported_name_those_that_it_needs(found, tmp_path):
    """Not those in which its residual would fall to the tolerance: it never does."""
    whole = found[0]
    refused = r"(?:fluctuates|drifts), and its mean is reported: raise solve.max_steps to (\d+) \(now"
    with pytest.raises(StageError, match=refused) as error:
        run(rods(), cut_short(whole, 3), tmp_path / "flow", kept(tmp_path, 3600))
    (advised,) = re.findall(refused, str(error.value))
    assert int(advised) < 2 * whole["steps"]
    summary = run(rods(), shedding(max_steps=int(advised)), tmp_path / "flow", kept(tmp_path, 3600))
    assert summary["state"] == "unsteady"


def test_steps_that_end_while_the_mean_is_taken_leave_it_with_its_error(found, tmp_path):
    """The mean over five flow-through times is a result, as far from the other one as is told, and says it is short."""
    whole, folder = found
    wanted = replace(cut_short(whole, 5), unsteady_tolerance=1e-5)
    summary = run(rods(), wanted, tmp_path)
    assert summary["state"] == "unsteady"
    assert 4 <= summary["fluctuation"]["flow_throughs"] <= 6
    error = summary["fluctuation"]["standard_error"]
    apart = abs(summary["kinetic_energy_j"] / whole["kinetic_energy_j"] - 1)
    assert apart < 3 * np.hypot(error["kinetic energy"], whole["fluctuation"]["standard_error"]["kinetic energy"])
    assert "standard errors above solve.unsteady_tolerance" in summary["warnings"][-1]
    assert summary["warnings"][-1].endswith("; raise solve.max_steps")
    one, other = (read_flow(each / "flow.vtkhdf").velocity_mean_m_s().astype(float) for each in (tmp_path, folder))
    assert np.linalg.norm(one - other) < 0.05 * np.linalg.norm(other)


def test_a_flow_whose_mean_was_never_begun_ends_with_that_of_its_last_tenth(found, tmp_path, monkeypatch):
    """As where it was judged to drift all the time: over four flow-through times and more it is told with its error."""
    whole = found[0]
    monkeypatch.setattr(Watch, "update", lambda *_: False)
    summary = run(rods(), shedding(max_steps=int(steps_of(whole, 45))), tmp_path)
    assert summary["state"] == "unsteady"
    assert summary["fluctuation"]["flow_throughs"] == pytest.approx(4.5, rel=0.05)
    assert summary["kinetic_energy_j"] == pytest.approx(whole["kinetic_energy_j"], rel=0.02)
    flow = read_flow(tmp_path / "flow.vtkhdf")
    energy = flow.kinetic_energy_mean_j_m3().astype(float).sum() * (SPACING_MM * 1e-3) ** 3
    assert energy == pytest.approx(summary["kinetic_energy_j"], rel=1e-3)


def test_the_file_holds_the_mean_of_an_unsteady_flow_and_its_statistics(found):
    """Energy of the mean and of the fluctuation add up to the mean of the energy, which the monitor has seen, too."""
    summary, folder = found
    flow = read_flow(folder / "flow.vtkhdf")
    assert len(flow.times_s) == 1
    mean = flow.velocity_mean_m_s().astype(float)
    np.testing.assert_array_equal(flow.velocity_m_s(-1), mean)
    volume_m3 = (SPACING_MM * 1e-3) ** 3
    whole = flow.kinetic_energy_mean_j_m3().astype(float).sum() * volume_m3
    assert whole == pytest.approx(summary["kinetic_energy_j"], rel=1e-4)
    of_mean = DENSITY / 2 * (mean**2).sum() * volume_m3
    rms = np.sqrt(whole / of_mean - 1)
    assert rms == pytest.approx(summary["fluctuation"]["velocity_rms"], rel=1e-3)
    assert rms > 0.2
    assert (flow.speed_peak_m_s() > np.linalg.norm(mean, axis=1)).all()


def test_an_unsteady_run_that_was_stopped_leaves_the_bits_of_one_that_was_not(found, tmp_path):
    """Stopped before its flow was known to fluctuate, and while its mean was taken."""
    summary, folder = found
    for part in (0.4, 0.8):
        with pytest.raises(KilledError), killed_at(round(part * summary["steps"])):
            run(rods(), shedding(), tmp_path, kept(tmp_path, every_s=0.3))
    again = run(rods(), shedding(max_steps=90_000), tmp_path, kept(tmp_path, every_s=3600))
    assert again["steps"] == summary["steps"]
    assert again["fluctuation"] == summary["fluctuation"]
    assert files(tmp_path) == files(folder)
