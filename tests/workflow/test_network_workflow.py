# SPDX-License-Identifier: Apache-2.0
"""A case that is a network alone through the whole workflow, from another folder."""

import csv
import json

import pytest
import yaml

from pipeline.reporting.captions import caption
from pipeline.reporting.crate_check import faults
from solver.runtime.sources import ROOT
from tests.support.workflow_runs import run_workflow

CASE = {
    "description": "a tube",
    "input": {"network": "common-carotid"},
    "tree": {"spacing_mm": 12, "samples": 60, "frames": 5},
}


def workflow(folder, *options):
    return run_workflow(folder, "--cores", "2", "-s", str(ROOT / "Snakefile"), *options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("network")
    (folder / "config/cases").mkdir(parents=True)
    (folder / "config/config.yaml").write_text("cases: [tube]\nstudies: [plates]\n")
    (folder / "config/cases/tube.yaml").write_text(yaml.safe_dump(CASE))
    return folder


def test_a_network_goes_from_its_case_file_to_report_cohort_and_crate(folder):
    answer = workflow(folder)
    assert answer.returncode == 0, answer.stderr
    results = folder / "results/tube"
    made = {path.name for path in results.iterdir()}
    assert {"tree.h5", "tree.csv", "tree.json", "tree.vtkhdf", "waveforms.csv", "report.html", "case.yaml"} <= made
    assert not {"nodes.h5", "checkpoint"} & made
    for picture in (results / "figures").glob("*.png"):
        assert caption(picture.stem)
    assert faults(results) == []
    record = json.loads((results / "tree.provenance.json").read_text())
    assert [*record["waveforms_sha256"]] == ["common-carotid.csv"]
    with (folder / "results/cohort.csv").open(newline="") as stream:
        (row,) = csv.DictReader(stream)
    assert (row["case"], row["finished"], row["checks_passed"]) == ("tube", "yes", "yes")
    assert float(row["inflow_ml_s"]) == pytest.approx(6.5, rel=1e-3)
    assert float(row["pulse_pressure_mmhg"]) > 10
    again = workflow(folder, "--dry-run")
    assert "Nothing to be done" in again.stdout + again.stderr


def test_a_network_that_does_not_repeat_stands_first_on_the_page_of_all_cases(folder):
    file = folder / "config/cases/wild.yaml"
    file.write_text(yaml.safe_dump(CASE | {"tree": CASE["tree"] | {"most_cycles": 2}}))
    answer = workflow(folder, "--keep-going", "--config", "cases=tube,wild")
    assert answer.returncode == 1
    assert "Traceback" not in (folder / "results/wild/logs/tree.log").read_text()
    with (folder / "results/cohort.csv").open(newline="") as stream:
        first, second = csv.DictReader(stream)
    assert (first["case"], first["finished"], first["failed_stage"]) == ("wild", "no", "tree")
    assert "raise most_cycles" in first["message"]
    assert (second["case"], second["checks_passed"]) == ("tube", "yes")
    assert not (folder / "results/wild/tree.json").exists()


def test_a_changed_edit_runs_the_tree_again_and_a_wrong_one_ends_before_anything_runs(folder):
    file = folder / "config/cases/tube.yaml"

    def with_edits(*edits):
        file.write_text(yaml.safe_dump(CASE | {"tree": CASE["tree"] | {"edits": list(edits)}}))
        return workflow(folder, "--dry-run", "--quiet", "rules")

    answer = with_edits({"stiffen": "common_carotid_artery", "factor": 2})
    assert answer.returncode == 0
    assert {"tree", "tree_report"} <= {*(answer.stdout + answer.stderr).split()}
    refused = with_edits({"stiffen": "aorta", "factor": 2})
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[-1].startswith("tube: tree: edits.0.stiffen = 'aorta': no segment or group")
    assert "Traceback" not in refused.stderr
