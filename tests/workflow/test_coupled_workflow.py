# SPDX-License-Identifier: Apache-2.0
"""A vessel that sits in a network through the whole workflow, from another folder."""

import json

import numpy as np
import pytest
import yaml

from pipeline.reporting.captions import caption
from pipeline.reporting.crate_check import faults
from solver.runtime.sources import ROOT
from tests.support.workflow_runs import run_workflow

NETWORK = {
    "blood": {"density_kg_m3": 1060, "viscosity_pa_s": 0.02},
    "segments": {
        "arm": {"nodes": ["heart", "hand"], "length_mm": 120, "radius_mm": 2, "wave_speed_m_s": 5},
        "side": {"nodes": ["heart2", "hand"], "length_mm": 60, "radius_mm": 1.5, "wave_speed_m_s": 6},
        "palm": {"nodes": ["hand", "end"], "length_mm": 40, "radius_mm": 2, "wave_speed_m_s": 6},
    },
    "inlets": {"heart": {"flow_waveform": "wave.csv"}, "heart2": {"flow_ml_s": 0.1}},
    "terminals": {"end": {"type": "rcr", "total_mmhg_s_ml": 60, "compliance_ml_mmhg": 0.002, "proximal_mmhg_s_ml": 4}},
    "initial_pressure_mmhg": 60,
}
CASE = {
    "description": "a pipe in an arm",
    "input": {"geometry": {"shape": "pipe", "diameter_mm": 4, "length_mm": 8, "ends": "openings"}},
    "voxelize": {"nodes_across": 8},
    "coupling": {
        "network": "net.yaml",
        "replaces": "arm",
        "at": 0.4,
        "inlets": {"inlet": "proximal"},
        "outlets": {"outlet": "distal"},
    },
    "solve": {"viscosity_pa_s": 0.02, "snapshots": 4, "cycles": 8, "lattice_speed": 0.1},
    "trace": {"streamlines": 10, "pathlines": 50, "particles": 100, "frames": 8},
}


def workflow(folder, *options):
    return run_workflow(folder, "--cores", "1", "-s", str(ROOT / "Snakefile"), *options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("coupled")
    (folder / "config/cases").mkdir(parents=True)
    (folder / "config/config.yaml").write_text("cases: [arm]\nstudies: [plates]\n")
    (folder / "config/cases/arm.yaml").write_text(yaml.safe_dump(CASE))
    (folder / "net.yaml").write_text(yaml.safe_dump(NETWORK))
    time = np.linspace(0, 0.2, 21)
    rows = "\n".join(f"{t:.6g},{0.9 + 0.4 * np.sin(10 * np.pi * t):.9g}" for t in time)
    (folder / "wave.csv").write_text(f"time_s,flow_ml_s\n{rows}\n")
    return folder


def planned(folder) -> set[str]:
    """Words of what a dry run would do, the names of its rules among them."""
    answer = workflow(folder, "--dry-run", "--quiet", "rules")
    assert answer.returncode == 0, answer.stderr
    return {*(answer.stdout + answer.stderr).split()}


def require_that_another_segment_keeps_the_vessel(folder):
    file = folder / "config/cases/arm.yaml"
    file.write_text(yaml.safe_dump(CASE | {"coupling": CASE["coupling"] | {"replaces": "palm"}}))
    jobs = planned(folder)
    assert {"couple", "solve", "report"} <= jobs
    assert not {"canonical", "decompose"} & jobs
    file.write_text(yaml.safe_dump(CASE | {"coupling": CASE["coupling"] | {"replaces": "plam"}}))
    refused = workflow(folder, "--dry-run")
    assert refused.returncode == 1
    assert "arm: coupling: the network has no segment 'plam' after its edits" in refused.stdout + refused.stderr
    file.write_text(yaml.safe_dump(CASE))


def test_a_vessel_in_a_network_is_planned_from_its_lattice_to_its_crate(folder):
    """From its case file on; that it is made so, and what another segment makes again, are the slow test's."""
    assert {"canonical", "decompose", "couple", "solve", "postprocess", "trace", "report", "crate"} <= planned(folder)


@pytest.mark.slow
def test_a_vessel_in_a_network_goes_from_its_case_file_to_report_and_crate(folder):
    answer = workflow(folder)
    assert answer.returncode == 0, answer.stderr
    results = folder / "results/arm"
    made = {path.name for path in results.iterdir()}
    assert {"coupling.h5", "coupling.json", "caps", "solve.json", "report.html", "case.yaml"} <= made
    for picture in (results / "figures").glob("*.png"):
        assert caption(picture.stem)
    assert (results / "figures/coupling.png").exists()
    assert faults(results) == []
    indices = json.loads((results / "indices.json").read_text())
    checks = {check["name"]: check for check in indices["checks"]}
    assert checks["flow against the network"]["passed"]
    assert checks["pressure against the network"]["passed"]
    assert "inflow against imposed" not in checks
    (first, second) = indices["coupling"]
    assert (first["segment"], second["role"]) == ("arm", "outlet")
    assert first["vessel_flow_ml_s"] == pytest.approx(0.9, rel=5e-3)  # what comes into the arm
    page = (results / "report.html").read_text(encoding="utf-8")
    assert "In the network of arteries" in page
    assert "one-dimensional network net" in page
    assert "<small>in the network net</small>" in (folder / "results/cohort.html").read_text(encoding="utf-8")
    again = workflow(folder, "--dry-run")
    assert "Nothing to be done" in again.stdout + again.stderr
    require_that_another_segment_keeps_the_vessel(folder)
