# SPDX-License-Identifier: Apache-2.0
"""A steady run that starts from twice the spacing and is corrected by it ends where one from rest does, but sooner."""

import json
import logging
from dataclasses import asdict, replace

import numpy as np
import pytest

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.domain.nodes import Nodes
from solver.run.flow_file import read_flow
from solver.run.plan import make_plan
from solver.run.settings import InletSettings, SolveSettings
from solver.run.solve import solve
from solver.run.start import Start
from solver.runtime.errors import StageError
from tests.solver.run.test_checkpoint import KilledError, kept, killed_at
from tests.solver.run.test_simulation import DENSITY, VISCOSITY, settings
from tests.support.geometries import hollow, pipe, round_opening, stenosis, step
from tests.support.unsteady_flows import drawn as unsteady
from tests.support.variants import some

LOG = logging.getLogger("test_coarse")
SPACING_MM = 0.2


def bend(radius: float, turn: float, before: float, behind: float) -> Nodes:
    """A pipe in the plane y = 0.4 that turns by 90 degrees, all in spacings."""
    offset = np.array((0.3, 0.4, 0.2))

    def level(points):
        x, y, z = (points - offset).T
        angle = np.clip(np.arctan2(x, turn - z), 0, np.pi / 2)
        along = np.stack((turn * np.sin(angle), turn * (1 - np.cos(angle))), axis=1)
        first, last = np.minimum(x, 0) * (z < turn), np.maximum(z - turn, 0) * (x > 0)
        foot = along + np.stack((np.where(angle == 0, first, 0), np.where(angle == np.pi / 2, last, 0)), axis=1)
        return np.hypot(np.hypot(x - foot[:, 0], z - foot[:, 1]), y) - radius

    ends = offset + np.array((-before, 0, 0)), offset + np.array((turn, 0, turn + behind))
    caps = (
        round_opening(1, "in", "inlet", ends[0], np.array((-1.0, 0, 0)), radius),
        round_opening(2, "out", "outlet", ends[1], np.array((0, 0, 1.0)), radius),
    )
    low, high = np.minimum(*ends) - radius - 2, np.maximum(*ends) + radius + 2
    return hollow(level, caps, np.floor(low), np.ceil(high), SPACING_MM)


def drawn(seed: int) -> tuple[Nodes, SolveSettings]:
    """A pipe, a bend or a stenosis, 12 to 16 nodes across, with a Reynolds number of 20 to 100."""
    rng = np.random.default_rng(seed)
    radius, reynolds = rng.uniform(6, 8), rng.uniform(20, 100)
    direction = tuple(rng.integers(0, 4, 3) + np.array((1, 0, 0)))
    nodes = (
        lambda: pipe(direction, radius, rng.uniform(6, 9) * radius, SPACING_MM),
        lambda: bend(radius, rng.uniform(2, 4) * radius, radius, 3 * radius),
        lambda: stenosis(direction, 1.4 * radius, 2 * radius, 4 * radius, 4 * radius, SPACING_MM),
    )[seed % 3]()
    flow_ml_s = reynolds * VISCOSITY / DENSITY / 2 * np.pi * nodes.openings[0].radius_mm * 1e3
    return nodes, settings(inlets={"in": InletSettings(flow_ml_s, None, "developed")}, unsettled="refuse")


def run(nodes, wanted, folder, checkpoints=None):
    folder.mkdir(parents=True, exist_ok=True)
    summary = solve(nodes, wanted, folder / "flow.vtkhdf", folder / "monitor.csv", LOG, checkpoints)
    json.dumps(summary, allow_nan=False)
    return summary, read_flow(folder / "flow.vtkhdf")


def updates(nodes, summary):
    return summary["steps"] * nodes.count + summary["start"]["node_updates"]


def both_ways(nodes, wanted, folder):
    """Node updates from rest and from twice the spacing, and how far the velocity differs, over its mean."""
    rest, one = run(nodes, replace(wanted, start="rest"), folder / "rest")
    coarse, other = run(nodes, replace(wanted, start="coarse"), folder / "coarse")
    assert (rest["start"]["kind"], coarse["start"]["kind"]) == ("rest", "coarse")
    u, v = one.velocity_m_s(-1).astype(float), other.velocity_m_s(-1).astype(float)
    apart = np.sqrt(np.square(u - v).sum(axis=1).mean()) / np.linalg.norm(u, axis=1).mean()
    return updates(nodes, rest), updates(nodes, coarse), apart


@pytest.mark.slow
def test_a_stenosis_settles_with_less_than_three_fifths_of_the_updates(tmp_path):
    rest, coarse, apart = both_ways(*drawn(2), tmp_path)
    assert apart < 2e-4  # both have settled to a residual of 1e-3, and what settles last does so at about 10 nu/R^2
    assert coarse < 0.6 * rest


@pytest.mark.slow
def test_updates_are_saved_over_pipes_bends_and_stenoses_drawn_at_random(tmp_path):
    """Of each some, and of all together about half: small lattices settle in few rows of the monitor."""
    found = [both_ways(*drawn(seed), tmp_path / str(seed)) for seed in range(6)]
    rest, coarse, apart = np.array(found).T
    assert apart.max() < 2e-4
    assert (coarse < 0.95 * rest).all()
    assert coarse.sum() < 0.55 * rest.sum()


@pytest.mark.slow
def test_one_layer_of_nodes_stays_one(tmp_path):
    """A channel with a step, of which the coarse lattice is twice as thick and carries twice the flow."""
    nodes = step(10, 20, 30, 120, SPACING_MM)
    height_m = 10 * SPACING_MM * 1e-3
    mean_m_s = 60 * VISCOSITY / DENSITY / (2 * height_m)
    flow_ml_s = 1e6 * mean_m_s * height_m * SPACING_MM * 1e-3
    wanted = settings(inlets={"in": InletSettings(flow_ml_s, None, "developed")})
    rest, coarse, apart = both_ways(nodes, wanted, tmp_path)
    assert apart < 1e-3
    assert coarse < rest


def test_a_run_that_was_stopped_leaves_the_bits_of_one_that_was_not(tmp_path):
    """Stopped while the coarse flow settles it begins again; stopped later it goes on, with its corrections."""
    nodes, wanted = drawn(3)
    wanted = replace(wanted, start="coarse")
    whole, _ = run(nodes, wanted, tmp_path / "whole")
    assert whole["start"]["corrections"] >= 3
    for last, spacing_mm in ((100, 2 * SPACING_MM), (550, SPACING_MM)):
        with pytest.raises(KilledError), killed_at(last, spacing_mm):
            run(nodes, wanted, tmp_path / "stopped", kept(tmp_path))
    found, _ = run(nodes, wanted, tmp_path / "stopped", kept(tmp_path, 3600.0))
    assert {key: value for key, value in found["start"].items() if key != "seconds"} == {
        key: value for key, value in whole["start"].items() if key != "seconds"
    }
    for name in ("flow.vtkhdf", "monitor.csv"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_what_no_coarse_lattice_stands_for_starts_at_rest_and_says_why(tmp_path, caplog):
    nodes = pipe((0, 0, 1), 3.6, 12, SPACING_MM)
    wanted = settings(inlets={"in": InletSettings(0.1, None, "developed")}, max_steps=100, start="coarse")
    with caplog.at_level(logging.INFO):
        summary, _ = run(nodes, wanted, tmp_path)
    assert "no start from twice the spacing: it would have 3.5 nodes across the narrowest section" in caplog.text
    assert summary["start"] == asdict(Start())
    (tmp_path / "wave.csv").write_text("time_s,flow_ml_s\n0,0.05\n0.2,0.2\n0.5,0.1\n1,0.05\n")
    wave = {"in": InletSettings(None, str(tmp_path / "wave.csv"), "plug", "linear")}
    with pytest.raises(StageError, match=r"solve\.start coarse: flows with a waveform start at rest"):
        make_plan(nodes, replace(wanted, inlets=wave))
    with pytest.raises(StageError, match=r"solve\.start 'fine': unknown; known are auto, rest, coarse"):
        make_plan(nodes, replace(wanted, start="fine"))


def test_a_run_on_a_device_takes_the_start_alone(tmp_path, monkeypatch):
    """And expects more steps than with its corrections, fewer than from rest."""
    monkeypatch.setattr(CpuDriver, "on_host", False)
    nodes, wanted = drawn(0)
    plan = make_plan(nodes, wanted)
    summary, _ = run(nodes, replace(wanted, start="coarse"), tmp_path)
    assert (summary["start"]["kind"], summary["start"]["corrections"]) == ("coarse", 0)
    assert summary["start"]["steps"] > 0
    assert summary["forecast"]["steps"] == plan.from_coarse_steps < plan.expected_steps


@pytest.mark.parametrize("seed", some([1, 3], 3))
def test_a_coarse_flow_that_fluctuates_is_taken_as_soon_as_that_is_seen(seed, tmp_path, caplog):
    """Within eight flow-through times from rest, of steps twice as long; it gives no corrections, and the forecast
    becomes that of a mean.
    """
    nodes, wanted = unsteady(seed)
    plan = make_plan(nodes, wanted)
    wanted = replace(wanted, start="coarse", max_steps=6 * plan.schedule.interval)
    with caplog.at_level(logging.INFO):
        summary, _ = run(nodes, wanted, tmp_path)
    begun = summary["start"]
    assert (begun["kind"], begun["corrections"], begun["unsteady"]) == ("coarse", 0, True)
    assert begun["steps"] < (plan.ramp_s / plan.units.dt_s + 8 * plan.through_steps) / 2
    of_mean = plan.ramp_s / plan.units.dt_s + 14 * plan.through_steps
    assert summary["forecast"]["steps"] == pytest.approx(of_mean, rel=0.05)
    assert "where the flow fluctuates; about" in caplog.text
