# SPDX-License-Identifier: Apache-2.0
"""Networks of Boileau et al. (2015) against the cycles that openBF stored, and against themselves on finer cells."""

import logging

import numpy as np
import pytest

from solver.network.cycles import Until, solve_network
from solver.network.network import Network
from solver.network.results import TreeResult
from solver.network.run import Numerics
from tests.support.networks import openbf, reference

LOG = logging.getLogger("test")


def computed(network: Network, spacing_m: float, cycles: int) -> TreeResult:
    until = Until(least_cycles=cycles, most_cycles=cycles, unsettled="report")
    return solve_network(network, Numerics(spacing_m), until, LOG)


def at_times(result: TreeResult, values: np.ndarray, times_s: np.ndarray) -> np.ndarray:
    """Values of the cycle at times of any cycle."""
    return np.interp(times_s, result.time_s, values, period=result.network.period_s)


def rms(found: np.ndarray, expected: np.ndarray) -> float:
    """Root mean square of the difference, by the largest value."""
    return float(np.sqrt(np.mean((found - expected) ** 2)) / np.abs(expected).max())


def test_common_carotid_agrees_with_openbf():
    """Pressure, flow, systole and diastole to 0.5 %, in the cycle in which openBF stopped."""
    result = computed(openbf("cca", tapered=False), 2e-3, 8)
    kept = next(iter(reference("cca").values()))
    course = result.at("common_carotid_artery")
    for k, place in enumerate(("in", "q1", "mid", "q3", "out")):
        pressure = at_times(result, course.pressure_pa[:, k], kept["t_s"])
        flow = at_times(result, course.flow_m3_s[:, k], kept["t_s"])
        assert rms(pressure, kept[f"P_{place}"]) < 5e-3
        assert rms(flow, kept[f"Q_{place}"]) < 5e-3
        np.testing.assert_allclose(pressure.max(), kept[f"P_{place}"].max(), rtol=5e-3)
        np.testing.assert_allclose(pressure.min(), kept[f"P_{place}"].min(), rtol=5e-3)


@pytest.mark.parametrize(("junctions", "median", "worst"), [("total", 0.01, 0.02), ("static", 0.004, 0.008)])
def test_adan56_untapered_agrees_with_openbf(junctions, median, worst):
    """Pressure halfway of all 77 segments in the sixth cycle, in which openBF stopped; openBF's own junctions of three
    equate static pressure, with which the difference is a third.
    """
    result = computed(openbf("adan56", tapered=False, junctions=junctions), 4e-3, 6)
    kept = reference("adan56")
    assert len(kept) == 77
    found = [
        rms(at_times(result, result.at(name, (0.5,)).pressure_pa[:, 0], table["t_s"]), table["P_mid"])
        for name, table in kept.items()
    ]
    assert np.median(found) < median
    assert max(found) < worst
    assert abs(result.balance.mass) < 1e-10


def test_adan56_tapered_needs_no_finer_cells():
    """Pressure of all segments on 4 mm is that on 2 mm to 0.2 %, of the largest, in the third cycle."""
    network = openbf("adan56", tapered=True)
    coarse, fine = (computed(network, spacing, 3) for spacing in (4e-3, 2e-3))
    for segment in network.segments:
        found, expected = (result.at(segment.name).pressure_pa for result in (coarse, fine))
        assert rms(found, expected) < 2e-3, segment.name
