# SPDX-License-Identifier: Apache-2.0
"""A steady flow that takes longer than expected is extrapolated to where it would have settled; no other one is."""

import logging
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.domain.nodes import Nodes
from solver.run.extrapolation import LASTING, STATES, Extrapolation, combined, slowest
from solver.run.flow_file import read_flow
from solver.run.settings import InletSettings, OutletSettings, SolveSettings, WindkesselSettings
from solver.run.solve import solve
from tests.solver.run.test_checkpoint import KilledError, files, kept, killed_at
from tests.support.geometries import step
from tests.support.solve_settings import DENSITY, VISCOSITY, settings

LOG = logging.getLogger("test_extrapolation")
SPACING_MM, RISE = 0.5, 6
SEEDS = st.integers(0, 10**6)


def states(rng: np.random.Generator, factors: list[complex], noise: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """States of a flow whose modes are multiplied by the factors from one to the next, (STATES, n), and its end."""
    count = 60
    end = rng.normal(size=count)
    modes = [rng.normal(size=count) + 1j * rng.normal(size=count) for _ in factors]
    way = [sum((f**k * m).real for f, m in zip(factors, modes, strict=True)) for k in range(STATES)]
    return end + np.array(way) + noise * rng.normal(size=(STATES, count)), end


def products_of(found: np.ndarray) -> np.ndarray:
    changes = np.diff(found, axis=0)
    return changes @ changes.T


def swinging(rng: np.random.Generator) -> list[complex]:
    """An eddy that swings and dies away, and a mode that just dies away."""
    return [rng.uniform(0.6, 0.9) * np.exp(1j * rng.uniform(0.3, 1.5)), rng.uniform(0.2, 0.85)]


@given(SEEDS)
def test_few_modes_lead_to_the_end_itself(seed):
    """Three numbers, two of the mode that swings, by five changes: nothing is left but round-off."""
    found, end = states(rng := np.random.default_rng(seed), factors := swinging(rng))
    weights = combined(products_of(found))
    assert weights is not None
    assert weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(weights @ found[1:], end, atol=1e-3 * np.abs(found[-1] - end).max())
    assert slowest(products_of(found)) == pytest.approx(max(map(abs, factors)), rel=1e-3)


@given(SEEDS)
def test_noise_leaves_more_than_is_worth_it_or_an_end_that_is_nearer(seed):
    rng = np.random.default_rng(seed)
    found, end = states(rng, swinging(rng), noise=10 ** rng.uniform(-5, 0))
    weights = combined(products_of(found))
    if weights is not None:
        assert np.linalg.norm(weights @ found[1:] - end) < np.linalg.norm(found[-1] - end)


@given(SEEDS)
def test_a_mode_that_lasts_or_grows_is_seen_as_such(seed):
    rng = np.random.default_rng(seed)
    lasting = rng.uniform(1, 1.2) * np.exp(1j * rng.uniform(0.2, 1.5))
    found, _ = states(rng, [lasting, rng.uniform(0.1, 0.9)], noise=1e-3)
    assert slowest(products_of(found)) >= LASTING


def inflow(reynolds: float) -> dict[str, InletSettings]:
    """Of a layer one spacing thick."""
    return {"*": InletSettings(reynolds * VISCOSITY / DENSITY * SPACING_MM * 1e3, None, "developed")}


def slow_flow() -> tuple[Nodes, SolveSettings]:
    """Over a step at a Reynolds number of 150 of the inlet's height, through an outlet with a Windkessel."""
    outlet = OutletSettings(90.0, windkessel=WindkesselSettings(time_constant_s=0.1))
    model = {"collision": "trt", "velocity_set": "D3Q19"}  # which other tests compile, too
    wanted = settings(inlets=inflow(150), outlets={"*": outlet}, start="rest", max_steps=100_000, **model)
    return step(RISE, 2 * RISE, 2 * RISE, 12 * RISE, SPACING_MM), wanted


def run(folder, checkpoints=None):
    folder.mkdir(exist_ok=True)
    nodes, wanted = slow_flow()
    summary = solve(nodes, wanted, folder / "flow.vtkhdf", folder / "monitor.csv", LOG, checkpoints)
    return summary, read_flow(folder / "flow.vtkhdf").velocity_mean_m_s().astype(float)


def without():
    return mock.patch.object(Extrapolation, "update", return_value=0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return *run(folder), folder


def test_a_flow_that_takes_longer_than_expected_ends_sooner_and_where_it_would_have(whole, tmp_path):
    """Both end by the same residual: they differ by what that leaves, 1e-3 over a viscous time in which it dies away
    some ten times.
    """
    summary, velocity, _ = whole
    with without():
        other, wanted = run(tmp_path)
    assert (summary["state"], other["state"]) == ("steady", "steady")
    assert summary["extrapolations"] > other["extrapolations"] == 0
    assert summary["forecast"]["steps"] < summary["steps"] < 0.95 * other["steps"]
    apart = np.sqrt(np.square(velocity - wanted).sum(axis=1).mean()) / np.linalg.norm(wanted, axis=1).mean()
    assert apart < 5e-4


def test_a_run_that_was_stopped_is_extrapolated_from_the_same_states(whole, tmp_path):
    summary, _, folder = whole
    for part in (0.7, 0.98):  # of the forecast: while states are gathered, and before they are used
        with pytest.raises(KilledError), killed_at(round(part * summary["forecast"]["steps"])):
            run(tmp_path / "stopped", kept(tmp_path))
    found, _ = run(tmp_path / "stopped", kept(tmp_path, every_s=3600))
    assert (found["steps"], found["extrapolations"]) == (summary["steps"], summary["extrapolations"])
    assert files(tmp_path / "stopped") == files(folder)


def test_a_flow_as_long_as_expected_is_left_alone(tmp_path):
    """At a Reynolds number a tenth of that the same bits come without any state that is gathered."""
    nodes, wanted = step(RISE, 2 * RISE, 2 * RISE, 6 * RISE, SPACING_MM), slow_flow()[1]
    wanted, found = replace(wanted, inlets=inflow(15)), []
    for name in ("as it is", "without"):
        (tmp_path / name).mkdir()
        flow, monitor = tmp_path / name / "flow.vtkhdf", tmp_path / name / "monitor.csv"
        with without() if name == "without" else mock.patch.object(LOG, "disabled", True):
            found.append(solve(nodes, wanted, flow, monitor, LOG))
    assert found[0]["steps"] <= found[0]["forecast"]["steps"]
    assert files(tmp_path / "as it is") == files(tmp_path / "without")
