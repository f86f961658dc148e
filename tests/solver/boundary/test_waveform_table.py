# SPDX-License-Identifier: Apache-2.0
"""Tables of a flow over time in the units and signs of other programs."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.boundary.waveform import read_samples
from solver.boundary.waveform_table import FLOW, PRESSURE, TIME
from solver.runtime.errors import StageError

SPELLED = {
    "s": ["time_s", "Time [s]", "t (sec)"],
    "ms": ["time_ms", "Trigger Time [ms]", "t / ms", "T (msec)"],
    "ml_s": ["flow_ml_s", "Flow (mL/s)", "Q [cc/s]", "flow rate, cm^3/s", "Q (cm³/s)", "ml per s"],
    "ml_min": ["flow_ml_min", "Q (ml/min)", "cc/min"],
    "l_min": ["flow_l_min", "Flow [L/min]", "CO, l/min"],
    "m3_s": ["flow_m3_s", "Q [m^3/s]", "volume flow (m³/s)"],
    "mmhg": ["pressure_mmhg", "P (mmHg)", "P [mm Hg]"],
    "kpa": ["pressure_kpa", "P [kPa]"],
    "pa": ["p (Pa)"],
}
"""Heads that people write, by the first spelling of their unit."""
UNITS = TIME | FLOW | PRESSURE


def written(path, heads, columns, sign=",", comma=False):
    rows = [sign.join(f"{x:.9g}" for x in row) for row in np.transpose(columns)]
    path.write_text("\n".join([sign.join(heads), *(row.replace(".", ",") if comma else row for row in rows)]) + "\n")
    return path


@given(st.data())
def test_a_flow_or_pressure_is_the_same_in_all_units_and_signs(tmp_path_factory, data):
    of = data.draw(st.sampled_from([FLOW, PRESSURE]))
    column = "flow_ml_s" if of is FLOW else "pressure_mmhg"
    units = [data.draw(st.sampled_from([unit for unit in SPELLED if unit in each])) for each in (TIME, of)]
    heads = [data.draw(st.sampled_from([head for head in SPELLED[unit] if "," not in head])) for unit in units]
    sign = data.draw(st.sampled_from([",", ";", "\t"]))
    time, value = np.linspace(0, 0.8, 9), np.array([1.0, 3, 9, 4, -2, 0, 1, 1, 1])
    order = data.draw(st.permutations([0, 1, 2]))
    columns = [time / UNITS[units[0]], value / UNITS[units[1]], np.arange(9.0)]
    heads = [*heads, "speed (cm/s)"]
    path = tmp_path_factory.mktemp("flow") / "flow.csv"
    comma = sign != "," and data.draw(st.booleans())
    written(path, [heads[k] for k in order], [columns[k] for k in order], sign, comma)
    got = read_samples(path, column)
    np.testing.assert_allclose(got, [time, value], rtol=1e-7, atol=1e-12)


def test_all_spellings_tell_their_units(tmp_path):
    time, value = np.linspace(0, 1, 5), np.array([1.0, 2, 3, 2, 1])
    for unit in (each for each in SPELLED if each in FLOW):
        for head in SPELLED[unit]:
            path = written(tmp_path / "flow.csv", ["time_s", head], [time, value], ";")
            np.testing.assert_allclose(read_samples(path, "flow_ml_s")[1], value * FLOW[unit])


@pytest.mark.parametrize(
    ("heads", "reason"),
    [
        (["time", "flow"], r"no column is time_s.*'time', 'flow'.*Write time_s over the column"),
        (["time_s", "flow"], r"no column is flow_ml_s.*ml_min.*l_min"),
        (["speed_m_s", "flow_ml_s"], r"no column is time_s"),
        (["flow_ml_s", "Q (m/s)"], r"no column is time_s"),
        (["time_s", "artery (ml/s)", "vein (ml/s)"], r"2 columns could be flow_ml_s"),
        (["time_s", "P (mmHg)"], r"no column is flow_ml_s"),
    ],
)
def test_no_unit_is_guessed(tmp_path, heads, reason):
    path = written(tmp_path / "flow.csv", heads, [np.linspace(0, 1, 5)] * len(heads), ";")
    with pytest.raises(StageError, match=reason):
        read_samples(path, "flow_ml_s")


def test_the_column_that_is_called_so_is_taken_among_others(tmp_path):
    time, one = np.linspace(0, 1, 5), np.array([1.0, 2, 3, 2, 1])
    path = written(tmp_path / "flow.csv", ["time_s", "sd (ml/s)", "flow_ml_s"], [time, 9 * one, one])
    np.testing.assert_allclose(read_samples(path, "flow_ml_s")[1], one)


@pytest.mark.parametrize("seed", range(8))
def test_the_row_that_a_refusal_names_closes_the_cycle(tmp_path, seed):
    random = np.random.default_rng([20261130, seed])
    count, period = int(random.integers(8, 40)), random.uniform(0.5, 1.2)
    time = np.arange(count) * period / count
    flow = 5 + random.uniform(1, 4) * np.cos(2 * np.pi * (time / period - random.uniform(0.2, 0.8)))
    if seed > 3:  # a systole alone: at the end of diastole the last step changes the flow by less than 1 %
        flow = 1 + 12 * np.exp(-(((time / period - random.uniform(0.2, 0.22)) / 0.09) ** 2))
    heads, units = [(["time_s", "flow_ml_s"], (1, 1)), (["t (ms)", "Q (L/min)"], (1e3, 0.06))][seed % 2]
    path = written(
        tmp_path / "flow.csv", heads, [np.round(time * units[0], 3 if seed % 2 == 0 else 0), flow * units[1]]
    )
    with pytest.raises(StageError) as refused:
        read_samples(path, "flow_ml_s")
    row = re.search(
        rf"add a row of (\S+) for {re.escape(heads[0])} and (\S+) for {re.escape(heads[1])};", str(refused.value)
    )
    path.write_text(path.read_text() + f"{row[1]},{row[2]}\n")
    got = read_samples(path, "flow_ml_s")[0]
    assert got[-1] == pytest.approx(period, rel=2e-3)  # times are rounded to a millisecond


def test_uneven_steps_tell_no_row(tmp_path):
    path = written(tmp_path / "flow.csv", ["time_s", "flow_ml_s"], [[0, 0.1, 0.4, 0.9], [1, 5, 3, 2]])
    with pytest.raises(StageError, match=r"one period later: in its last row put 1 for flow_ml_s$"):
        read_samples(path, "flow_ml_s")
