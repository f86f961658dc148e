# SPDX-License-Identifier: Apache-2.0
"""Waveforms: curves through samples, their figures, and the files that hold them."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import CubicSpline

from solver.boundary.curves import INTERPOLATIONS, fourier, linear, spline
from solver.boundary.waveform import (
    WOMERSLEY_HARMONICS,
    Inflow,
    common_period_s,
    described,
    overshoots,
    read_inflow,
    read_pressure,
    read_samples,
    steady,
)
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.support.waveforms import write_waveform


def write(path, rows, columns="time_s,flow_ml_s"):
    path.write_text("# one beat\n" + columns + "\n" + rows)
    return path


def entry(path=None, flow_ml_s=None, interpolation="spline", harmonics=None, profile="developed", pulsatility=1.0):
    return SimpleNamespace(
        flow_ml_s=flow_ml_s,
        waveform=path and str(path),
        interpolation=interpolation,
        harmonics=harmonics,
        profile=profile,
        pulsatility=pulsatility,
    )


def samples(seed, count, even=False):
    """Times from 0 to a period, and values of which the last is the first."""
    rng = np.random.default_rng(seed)
    steps = np.ones(count) if even else rng.uniform(0.2, 1, count)
    values = rng.normal(1, 1, count + 1)
    values[-1] = values[0]
    return np.concatenate(((0.0,), np.cumsum(steps) * rng.uniform(0.3, 2) / steps.sum())), values


CURVES = [(linear, False), (spline, False), (fourier, True)]
drawn = given(seed=st.integers(0, 2**32 - 1), count=st.integers(2, 40))
few = settings(max_examples=40, deadline=None)


@pytest.mark.parametrize(("make", "even"), CURVES)
@drawn
@few
def test_curve_runs_through_its_samples_and_repeats(make, even, seed, count):
    time, value = samples(seed, count, even)
    curve = make(time, value)
    np.testing.assert_allclose(curve.at(time), value, atol=1e-11)
    later = np.linspace(0, time[-1], 50)
    # far away phases lose digits to the subtraction of whole periods, and splines through uneven samples are steep
    np.testing.assert_allclose(curve.at(later + 7 * curve.period_s), curve.at(later), atol=1e-9)


@pytest.mark.parametrize(("make", "even"), CURVES)
@drawn
@few
def test_mean_and_extremes_are_those_of_the_curve(make, even, seed, count):
    time, value = samples(seed, count, even)
    curve = make(time, value)
    even_times = np.linspace(0, time[-1], 20001)
    dense = curve.at(np.concatenate((even_times, time)))
    low, high = curve.extremes
    oscillatory = np.ptp(dense)
    # a sample misses an extreme by bend * step^2 / 8, with at most 40 pieces or harmonics below 1e-4 of the swing here
    assert dense.min() - 1e-4 * oscillatory <= low <= dense.min() + 1e-12
    assert dense.max() - 1e-12 <= high <= dense.max() + 1e-4 * oscillatory
    assert curve.mean == pytest.approx(np.trapezoid(curve.at(even_times), dx=1 / 20000), abs=1e-5 * oscillatory)
    twice = curve.scaled(2.0)
    assert (twice.mean, *twice.extremes) == pytest.approx((2 * curve.mean, 2 * low, 2 * high), rel=1e-9, abs=1e-9)
    more = curve.pulsating(1.4)
    assert more.mean == pytest.approx(curve.mean, rel=1e-9, abs=1e-9)
    wanted = curve.mean + 1.4 * (curve.at(even_times[:50]) - curve.mean)
    np.testing.assert_allclose(more.at(even_times[:50]), wanted, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(curve.pulsating(1.0).coefficients, curve.coefficients)


def test_of_two_tops_that_are_nearly_as_high_the_higher_one_counts():
    """The highest sample belongs to the lower one: with its top alone the extreme was 0.08 % too low."""
    curve = fourier(*samples(2310, 16, even=True))
    dense = curve.at(np.linspace(0, curve.period_s, 200_001))
    assert curve.extremes == pytest.approx((dense.min(), dense.max()), rel=1e-6)


@drawn
@few
def test_spline_is_the_periodic_cubic_spline(seed, count):
    time, value = samples(seed, count)
    places = np.linspace(0, time[-1], 300)
    np.testing.assert_allclose(
        spline(time, value).at(places), CubicSpline(time, value, bc_type="periodic")(places), atol=1e-10
    )


@pytest.mark.parametrize("make", [linear, spline])
@drawn
@few
def test_harmonics_of_pieces_are_their_fourier_integrals(make, seed, count):
    time, value = samples(seed, count)
    curve = make(time, value)
    count = 1 << 16
    numeric = 2 * np.fft.rfft(curve.at(np.arange(count) / count * time[-1])) / count
    # the sum over even samples aliases: corners of lines add to harmonic n about (n/65536)^2 of theirs
    np.testing.assert_allclose(curve.series(8).coefficients[1:], numeric[1:9], atol=1e-6)


@given(seed=st.integers(0, 2**32 - 1), harmonics=st.integers(0, 8), spare=st.integers(1, 6))
@few
def test_fourier_series_of_a_band_limited_signal_is_exact(seed, harmonics, spare):
    rng = np.random.default_rng(seed)
    coefficients = rng.normal(size=harmonics + 1) + 1j * rng.normal(size=harmonics + 1)
    coefficients[0] = coefficients[0].real
    time = np.linspace(0, 0.8, 2 * harmonics + spare + 1)
    angle = 2 * np.pi * time / 0.8
    curve = fourier(time, (np.exp(1j * np.outer(angle, np.arange(harmonics + 1))) @ coefficients).real)
    places = rng.uniform(0, 3, 100)
    wanted = (np.exp(2j * np.pi / 0.8 * np.outer(places, np.arange(harmonics + 1))) @ coefficients).real
    np.testing.assert_allclose(curve.at(places), wanted, atol=1e-11)
    np.testing.assert_allclose(
        curve.series(harmonics).coefficients[: harmonics + 1], coefficients[: len(curve.coefficients)], atol=1e-12
    )


def smooth(time):
    return np.exp(np.sin(2 * np.pi * time) + 0.3 * np.cos(6 * np.pi * time))


@pytest.mark.parametrize(("make", "order"), [(linear, 2), (spline, 4)])
def test_error_falls_with_the_order_of_the_interpolation(make, order):
    places = np.linspace(0, 1, 5001)
    errors = []
    for count in (64, 128, 256):
        time = np.linspace(0, 1, count + 1)
        errors.append(np.abs(make(time, smooth(time)).at(places) - smooth(places)).max())
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), order, atol=0.15)


@drawn
@few
def test_amplitudes_add_up_to_the_flow(seed, count):
    flow = Inflow(fourier(*samples(seed, count, even=True)), 0.0)
    times = np.linspace(-1, 3, 77)
    parts = flow.amplitudes(times, flow.harmonics)
    assert parts.shape == (77, 1 + 2 * flow.harmonics)
    np.testing.assert_allclose(parts[:, 0] + parts[:, 1::2].sum(axis=1), flow.at(times), atol=1e-11)
    np.testing.assert_allclose(
        parts[:, 1::2] ** 2 + parts[:, 2::2] ** 2,
        np.tile(np.abs(flow.curve.coefficients[1:]) ** 2, (77, 1)),
        atol=1e-11,
    )
    np.testing.assert_array_equal(flow.amplitudes(times)[:, 0], flow.at(times))


def test_file_gives_the_curve_that_the_settings_name(tmp_path):
    path = write(tmp_path / "wave.csv", "0.1,1\n0.3,5\n0.9,1\n")
    inflow = read_inflow(entry(path, interpolation="linear"))
    assert inflow.period_s == pytest.approx(0.8)
    np.testing.assert_allclose(inflow.at(np.array((0.0, 0.1, 0.2, 0.5, 0.8, 1.0))), (1, 3, 5, 3, 1, 5))
    assert (inflow.mean_ml_s, inflow.peak_ml_s, inflow.minimum_ml_s) == pytest.approx((3, 5, 1))
    for name in INTERPOLATIONS:
        scaled = read_inflow(entry(path, 6.0, interpolation=name))
        assert scaled.mean_ml_s == pytest.approx(6)
        assert scaled.lowest_sample_ml_s == pytest.approx(6 / read_inflow(entry(path, interpolation=name)).mean_ml_s)
        more = read_inflow(entry(path, 6.0, interpolation=name, pulsatility=1.5))
        assert more.mean_ml_s == pytest.approx(6)
        assert more.peak_ml_s - more.minimum_ml_s == pytest.approx(1.5 * (scaled.peak_ml_s - scaled.minimum_ml_s))
        assert more.lowest_sample_ml_s == pytest.approx(6 + 1.5 * (scaled.lowest_sample_ml_s - 6))
    assert steady(2.0).at(np.array((0.0, 9.0))).tolist() == [2, 2]
    assert (steady(2.0).period_s, steady(2.0).mean_ml_s, steady(2.0).peak_ml_s) == (None, 2, 2)


def test_harmonics_are_cut_where_that_is_asked_for_or_the_profile_needs_it(tmp_path):
    time = np.linspace(0, 1, 65)
    path = write(tmp_path / "wave.csv", "".join(f"{t},{v}\n" for t, v in zip(time, smooth(time), strict=True)))
    assert read_inflow(entry(path)).harmonics == 0  # the spline itself
    assert read_inflow(entry(path, interpolation="fourier")).harmonics == 32
    assert read_inflow(entry(path, harmonics=4)).harmonics == 4
    cut = read_inflow(entry(path, profile="womersley"))
    assert cut.harmonics == WOMERSLEY_HARMONICS
    # exp of sines: its eleventh harmonic is about 1e-4 of it
    np.testing.assert_allclose(cut.at(time), smooth(time), rtol=2e-3)


def test_pressure_comes_in_a_column_of_its_own(tmp_path):
    path = write(tmp_path / "wave.csv", "0,80\n0.3,120\n0.8,80\n", "time_s,pressure_mmhg")
    assert read_pressure(path).at(np.array((0.3, 1.1))) == pytest.approx(120)
    with pytest.raises(StageError, match="columns time_s and flow_ml_s"):
        read_inflow(entry(path))


def test_overshoot_below_zero_is_reported(tmp_path):
    path = write(tmp_path / "wave.csv", "0,0\n0.1,10\n0.2,0\n0.4,0\n0.6,0\n0.8,0\n")
    curved, straight = read_inflow(entry(path)), read_inflow(entry(path, interpolation="linear"))
    assert curved.minimum_ml_s < 0 == straight.minimum_ml_s
    (warning,) = overshoots({"in": curved, "neck": straight})
    assert "solve.inlets.in: the curve through the waveform's samples falls to -" in warning
    reversing = write(tmp_path / "back.csv", "0,0\n0.1,10\n0.2,-1\n0.4,0\n0.6,0\n0.8,0\n")
    assert overshoots({"in": read_inflow(entry(reversing))}) == []


def test_summary_tells_a_waveform_by_its_figures_samples_and_harmonics():
    curve = fourier(np.linspace(0, 0.8, 5), np.array((1.0, 3.0, 1.0, -1.0, 1.0)))  # 1 + 2 sin
    reported = described({"in": curve, "neck": steady(2.0).curve}, "flow_ml_s")
    assert list(reported) == ["in"]
    figures = [reported["in"][key] for key in ("period_s", "mean", "least", "largest")]
    assert figures == pytest.approx([0.8, 1, -1, 3])
    assert reported["in"]["harmonics"] == pytest.approx([2, 0], abs=1e-12)
    np.testing.assert_allclose(reported["in"]["flow_ml_s"], curve.at(np.array(reported["in"]["time_s"])))
    assert reported["in"]["time_s"][-1] == 0.8


def test_waveforms_of_different_periods_are_refused():
    one, other = (Inflow(linear(np.array((0.0, 1.0, 2.0)) * scale, np.array((1.0, 2.0, 1.0))), 1.0) for scale in (1, 2))
    assert common_period_s({"a": one, "b": steady(1.0)}) == 2
    with pytest.raises(StageError, match=r"different periods \(a 2 s, b 4 s\)"):
        common_period_s({"a": one, "b": other})


@pytest.mark.parametrize("path", sorted((ROOT / "data/waveforms").glob("*.csv")), ids=lambda path: path.stem)
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_waveforms_of_the_project_say_where_they_come_from(path, interpolation):
    header = " ".join(line[2:] for line in path.read_text().splitlines() if line.startswith("#"))
    assert ("doi:10." in header) != ("synthetic: no measurement" in header)
    if "interpolation linear" in header and interpolation != "linear":
        pytest.skip("its samples are the corners of straight lines")
    inflow = read_inflow(entry(path, interpolation=interpolation))
    if reported := re.search(r"mean ([0-9.]+) mL/s", header):
        assert inflow.mean_ml_s == pytest.approx(float(reported[1]), rel=1e-3)
    time, flow = read_samples(path, "flow_ml_s")
    # Fourier series run through even times, which are rounded to 1e-5 s in the files; the aorta's flow is steep
    np.testing.assert_allclose(inflow.at(time), flow, atol=1e-4 * flow.max())


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("0,1\n0.5,2\n1,3", r"flow_ml_s ends at 3 but begins at 1"),
        ("0,1\n0.5,2\n0.4,1", r"3 rows with rising time_s wanted"),
        ("0,1\n0.5,x\n1,1", r"not a CSV table with the columns"),
        ("0,1\n0.5,nan\n1,1", r"not a finite number"),
        ("0,-1\n0.5,-2\n1,-1", r"mean flow is -1.5 mL/s; an inlet takes fluid in on average"),
        ("0,0\n0.25,2\n0.5,0\n0.75,-2\n1,0", r"mean flow is 0; .* add a little to all of its flows, 0.004 mL/s"),
    ],
)
def test_bad_waveforms_are_refused_with_the_reason(tmp_path, rows, message):
    with pytest.raises(StageError, match=message):
        read_inflow(entry(write(tmp_path / "wave.csv", rows)))


def test_a_mean_that_is_no_more_than_rounding_is_not_scaled(tmp_path):
    """It made 4e6 mL/s of 2 mL/s. The waveform alone, as the message says, is taken."""
    times = np.linspace(0, 1, 41)
    flow = 1e-6 + 2 * np.sin(2 * np.pi * times)
    flow[-1] = flow[0]
    path = write_waveform(tmp_path / "wave.csv", times, flow)
    with pytest.raises(StageError, match="cannot be scaled to flow_ml_s 3; leave flow_ml_s out"):
        read_inflow(entry(path, flow_ml_s=3.0))
    assert read_inflow(entry(path)).peak_ml_s == pytest.approx(2, rel=0.01)


def test_unknown_interpolation_is_refused(tmp_path):
    with pytest.raises(StageError, match="interpolation 'cubic': unknown; known are spline, fourier, linear"):
        read_inflow(entry(write(tmp_path / "wave.csv", "0,1\n0.5,2\n1,1"), interpolation="cubic"))
