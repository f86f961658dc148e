# SPDX-License-Identifier: Apache-2.0
"""A waveform from the case file to the report: a small pipe under a carotid's flow, with a Windkessel behind it."""

import json

import numpy as np
import pytest
import yaml

from solver.run.flow_file import read_flow

CASE = {
    "input": {
        "geometry": {"shape": "pipe", "diameter_mm": 2, "length_mm": 5, "direction": [1, 2, 3], "ends": "openings"}
    },
    "voxelize": {"nodes_across": 8},
    "solve": {
        "inlets": {"*": {"flow_ml_s": 0.2, "waveform": "data/waveforms/common-carotid.csv"}},
        "outlets": {"*": {"pressure_mmhg": 2, "windkessel": {"time_constant_s": 0.5}}},
        "snapshots": 8,
        "backend": "cpu",
    },
    "trace": {"pathlines": 200, "particles": 1000, "frames": 8},
}


@pytest.mark.slow
def test_waveform_reaches_the_report(study, snakemake):
    (study / "config/cases/pulse.yaml").write_text(yaml.safe_dump(CASE))
    answer = snakemake(study, "pulse")
    assert answer.returncode == 0, answer.stderr
    results = study / "results/pulse"
    summary = json.loads((results / "solve.json").read_text())
    assert summary["converged"]
    assert summary["cycles"] >= 3
    assert max(summary["periodicity"].values()) < 0.01
    assert abs(summary["mass_balance"]) < 0.005  # over the last cycle
    assert summary["openings"]["outlet"]["pressure_pa"] == pytest.approx(2 * 133.322, rel=0.03)
    flow = read_flow(results / "flow.vtkhdf")
    period = summary["numbers"]["period_s"]
    np.testing.assert_allclose(np.diff(flow.times_s), period / 8, rtol=1e-2)
    assert flow.times_s[-1] == pytest.approx(summary["cycles"] * period)
    page = (results / "report.html").read_text()
    for reported in (
        "Flow (mL/s) and pressure (Pa) at the openings over the last cycle",
        "difference of the last two cycles in pressure",
        "Womersley number",
        "times that a pressure wave crosses the domain in a cycle",
        "expected density deviation",
    ):
        assert reported in page
    assert (results / "figures/cycle.png").is_file()
