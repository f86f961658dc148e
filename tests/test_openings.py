"""Inlets, outlets, waveforms."""

import numpy as np
import pytest
from geometries import pipe

from solver.collision import relaxation_rates
from solver.cpu.driver import CpuDriver
from solver.lattice import build_lattice
from solver.openings import PROFILES
from solver.stage import StageError
from solver.waveform import read_waveform, steady

RATES = relaxation_rates(0.8, 3 / 16)


def write(path, text):
    path.write_text(text)
    return path


@pytest.mark.parametrize("profile", PROFILES)
def test_inlet_lets_in_exactly_the_flow_that_is_asked_for(profile):
    nodes = pipe((1, 2, 3), 4.2, 12)
    driver = CpuDriver(build_lattice(nodes, "trt", RATES, "half-way", "fp64", {"in": profile}))
    g = driver.populations.reshape(19, -1)[:, : nodes.count]
    for flow in (0.1, 0.3, 0.05):
        before = g.sum()
        driver.advance(np.array([[flow, 0.0], [flow, 0.0]]))
        assert driver.inflow()[0] == pytest.approx(flow, rel=1e-13)
        # six steps of at most 1.34 nodes along the pipe do not reach the outlet, so that mass grows by the inflow alone
        assert g.sum() - before == pytest.approx(2 * flow, rel=1e-12)


def test_steady_flow_leaves_as_much_as_it_enters_to_round_off():
    nodes = pipe((1, 2, 3), 4.2, 12)
    driver = CpuDriver(build_lattice(nodes, "trt", RATES, "bouzidi", "fp64"))
    driver.advance(np.tile((0.5, 0.01), (6000, 1)))
    into, out = driver.inflow()
    assert into == pytest.approx(0.5, rel=1e-13)
    # without the correction interpolated walls lose some tenths of a percent of the flow
    assert out == pytest.approx(-0.5, rel=1e-10)


def test_pressure_outlet_holds_its_pressure():
    nodes = pipe((0, 0, 1), 4.2, 12)
    driver = CpuDriver(build_lattice(nodes, "trt", RATES, "bouzidi", "fp64"))
    driver.advance(np.tile((0.0, 0.01), (6000, 1)))
    # nothing flows in, so that the whole pipe takes the outlet's pressure
    np.testing.assert_allclose(driver.fields().drho, 0.01, rtol=1e-6)


def test_outlet_survives_flow_that_comes_back():
    nodes = pipe((1, 2, 3), 5.2, 20)
    driver = CpuDriver(build_lattice(nodes, "trt", RATES, "bouzidi", "fp64"))
    times = np.arange(6000)
    conditions = np.stack((np.full(6000, 0.5), 0.02 * np.sin(2 * np.pi * times / 1500)), axis=1)
    driver.advance(conditions)
    assert driver.observe(keep=False).max_speed < 0.2


def test_waveform_is_linear_between_samples_and_repeats(tmp_path):
    path = write(tmp_path / "wave.csv", "# one beat\ntime_s,flow_ml_s\n0.1,1\n0.3,5\n0.9,1\n")
    inflow = read_waveform(path, None)
    assert inflow.period_s == pytest.approx(0.8)
    np.testing.assert_allclose(inflow.at(np.array((0.0, 0.1, 0.2, 0.5, 0.8, 1.0))), (1, 3, 5, 3, 1, 5))
    assert inflow.mean_ml_s == pytest.approx(3)
    scaled = read_waveform(path, 6.0)
    assert (scaled.mean_ml_s, scaled.peak_ml_s) == pytest.approx((6, 10))
    assert steady(2.0).at(np.array((0.0, 9.0))).tolist() == [2, 2]


@pytest.mark.parametrize(("rows", "message"), [
    ("0,1\n0.5,-0.2\n1,1", r"flow -0.2 mL/s at 0.5 s; an inlet that takes fluid out"),
    ("0,1\n0.5,2\n1,3", r"ends at 3 mL/s but begins at 1"),
    ("0,1\n0.5,2\n0.4,1", r"3 rows with rising time_s wanted"),
    ("0,1\n0.5,x\n1,1", r"not a CSV table with the columns"),
    ("0,1\n0.5,nan\n1,1", r"not a finite number"),
])  # fmt: skip
def test_bad_waveforms_are_refused_with_the_reason(tmp_path, rows, message):
    with pytest.raises(StageError, match=message):
        read_waveform(write(tmp_path / "wave.csv", "time_s,flow_ml_s\n" + rows), None)
