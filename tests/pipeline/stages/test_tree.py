# SPDX-License-Identifier: Apache-2.0
"""A network alone from its file to its page."""

import csv
import json
import re
from pathlib import Path

import h5py
import numpy as np
import pytest

from pipeline.haemodynamics.tree_waveforms import SEGMENTS, SITES, read_waveforms
from solver.runtime.sources import ROOT
from tests.support.command_lines import run_here

CAROTID = ROOT / "data/networks/common-carotid.yaml"
FILES = {
    "waveforms": "tree.h5",
    "table": "tree.csv",
    "sites": "waveforms.csv",
    "summary": "tree.json",
    "series": "tree.vtkhdf",
}
COARSE = {"spacing_mm": 12, "samples": 60, "frames": 7}
TUBE = "common_carotid_artery"


def run(module, folder, inputs, outputs, settings, *more):
    """A stage's command line."""
    files = {**inputs, **{role: folder / name for role, name in outputs.items()}}
    options = [each for role, path in files.items() for each in (f"--{role}", str(path))]
    record = ["--provenance", str(folder / f"{module}.provenance.json"), "--settings", json.dumps(settings)]
    return run_here(f"pipeline.stages.{module}", *options, *record, *more)


def tree(folder, settings, *more, network=CAROTID):
    folder.mkdir(exist_ok=True)
    return run("tree", folder, {"network": network}, FILES, COARSE | settings, *more)


def page(folder):
    inputs = {"summary": folder / "tree.json", "waveforms": folder / "tree.h5"}
    answer = run("tree_report", folder, inputs, {"report": "report.html", "figures": "figures"}, {"case": "a"})
    assert answer.returncode == 0, answer.stderr
    return (folder / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "carotid"
    answer = tree(folder, {"sites": [TUBE, {"segment": TUBE, "at": 1}]})
    assert answer.returncode == 0, answer.stderr
    return folder


def rows(path):
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_the_table_has_the_flow_that_the_case_gives_and_the_pressure_behind_the_resistance(made):
    """The mean inflow of the benchmark is 6.5 mL/s, with 15.9 mmHg s/mL behind the end."""
    (row,) = rows(made / "tree.csv")
    assert float(row["flow_ml_s"]) == pytest.approx(6.5, rel=1e-3)
    summary = json.loads((made / "tree.json").read_text())
    flow, behind = summary["indices"]["inflow_ml_s"], summary["network"]["terminal_resistance_mmhg_s_ml"]
    end = read_waveforms(made / "tree.h5")[SITES]
    assert end.pressure_pa[:, 1].mean() / 133.322387415 == pytest.approx(flow * behind, rel=1e-3)


def test_cycles_repeat_and_nothing_is_lost(made):
    summary = json.loads((made / "tree.json").read_text())
    assert summary["converged"]
    assert len(summary["changes"]) == summary["cycles"] - 1
    assert max(summary["changes"][-1].values()) <= summary["tolerance"]
    assert abs(summary["balance"]["mass"]) < 1e-12
    flows = [each["flow_ml_s"] * (1 if each["role"] == "inlet" else -1) for each in summary["openings"]]
    assert sum(flows) == pytest.approx(0.0, abs=6.5e-3)


def test_waveforms_of_sites_are_those_of_the_file_of_all_segments(made):
    found = read_waveforms(made / "tree.h5")
    assert found[SEGMENTS].part.tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    np.testing.assert_array_equal(found[SITES].pressure_pa, found[SEGMENTS].pressure_pa[:, [2, 4]])
    table = rows(made / "waveforms.csv")
    assert len(table) == COARSE["samples"]
    listed = [float(row[f"{TUBE}@1.pressure_mmhg"]) for row in table]
    np.testing.assert_allclose(listed, found[SITES].pressure_pa[:, 1] / 133.322387415, rtol=1e-5)


def test_the_series_has_a_step_for_each_frame_with_the_radius_of_each_point(made):
    with h5py.File(made / "tree.vtkhdf") as file:
        root = file["VTKHDF"]
        count = int(root["NumberOfPoints"][0])
        assert root["Steps"].attrs["NSteps"] == COARSE["frames"]
        radius = root["PointData/radius (mm)"][:].reshape(COARSE["frames"], count)
        assert root["Lines/Connectivity"][:].tolist() == list(range(count))
        points = root["Points"][:]
    ends = np.linalg.norm(points[-1] - points[0])
    assert ends == pytest.approx(126.0, rel=1e-5)
    assert np.ptp(radius, axis=0).min() > 0.02
    assert 2.6 < radius.min() < radius.max() < 3.5


def test_vtk_reads_the_series(made):
    from vtkmodules.vtkIOHDF import vtkHDFReader

    reader = vtkHDFReader()
    reader.SetFileName(str(made / "tree.vtkhdf"))
    reader.Update()
    found = reader.GetOutput()
    assert (found.GetNumberOfLines(), reader.GetNumberOfSteps()) == (1, COARSE["frames"])
    assert found.GetPointData().GetArray("pressure (mmHg)").GetRange()[0] > 50


def test_a_run_that_stopped_goes_on_to_the_same_bits(made, tmp_path):
    """The state of a run that may take too few cycles is kept; with more it goes on."""
    sites = {"sites": [TUBE, {"segment": TUBE, "at": 1}]}
    keep = ("--checkpoint", str(tmp_path / "checkpoint"), "--checkpoint-minutes", "0")
    stopped = tree(tmp_path / "a", sites | {"most_cycles": 3}, *keep)
    assert stopped.returncode == 1
    assert "raise most_cycles" in stopped.stderr
    assert list((tmp_path / "a").iterdir()) == []
    again = tree(tmp_path / "a", sites, *keep)
    assert again.returncode == 0, again.stderr
    assert "going on from cycle" in again.stderr
    assert (tmp_path / "a/tree.csv").read_bytes() == (made / "tree.csv").read_bytes()
    assert not (tmp_path / "checkpoint").exists() or not list((tmp_path / "checkpoint").iterdir())


def test_edits_change_what_is_computed_and_are_listed(made, tmp_path):
    stiffen = {"stiffen": TUBE, "factor": 4}
    answer = tree(tmp_path / "stiff", {"edits": [stiffen]})
    assert answer.returncode == 0, answer.stderr
    (before,), (after,) = rows(made / "tree.csv"), rows(tmp_path / "stiff/tree.csv")
    assert float(after["wave_speed_m_s"]) == pytest.approx(2 * float(before["wave_speed_m_s"]), rel=0.1)
    assert "stiffness of 1 segment times 4" in answer.stderr
    assert "stiffness of 1 segment times 4" in page(tmp_path / "stiff")


@pytest.mark.slow
def test_a_stenosis_of_an_iliac_artery_lowers_the_ankle_brachial_index_of_its_leg(tmp_path):
    """The other leg and the cardiac output stay nearly as they are (docs/networks.md, Figures of a network)."""
    found = []
    for name, edits in (
        ("healthy", []),
        ("narrow", [{"narrow": "external_iliac_R", "area_percent": 90, "length_mm": 20}]),
    ):
        answer = tree(tmp_path / name, {"edits": edits}, network=ROOT / "data/networks/adan56.yaml")
        assert answer.returncode == 0, answer.stderr
        found.append(json.loads((tmp_path / name / "tree.json").read_text())["indices"])
    healthy, narrow = found
    assert healthy["ankle_brachial_index_right"] == pytest.approx(healthy["ankle_brachial_index_left"], abs=2e-3)
    assert healthy["ankle_brachial_index"] == pytest.approx(1.27, abs=0.01)
    assert narrow["ankle_brachial_index"] == narrow["ankle_brachial_index_right"] < 0.6
    assert narrow["ankle_brachial_index_left"] == pytest.approx(healthy["ankle_brachial_index_left"], rel=0.05)
    assert healthy["cardiac_output_l_min"] == pytest.approx(6.77, rel=1e-3)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sites": ["common_carotid"]}, "sites.0.segment = 'common_carotid': the network has no such segment"),
        ({"edits": [{"remove": "leg"}]}, "edits.0.remove = 'leg': no segment or group has this name"),
        ({"spacing_mm": -1}, "spacing_mm = -1: input should be greater than 0"),
        ({"tolerance": 1e-9, "most_cycles": 2}, "raise most_cycles, or let unsettled be report"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_and_leaves_nothing(settings, said, tmp_path):
    answer = tree(tmp_path / "a", settings)
    assert answer.returncode == 1
    assert said in answer.stderr.splitlines()[-1]
    assert "Traceback" not in answer.stderr
    assert list((tmp_path / "a").iterdir()) == []


def test_a_page_is_green_only_where_the_cycles_repeat_and_all_checks_passed(made, tmp_path):
    text = page(made)
    assert "All checks passed" in text
    assert {*re.findall(r'href="#([\w-]+)"', text)} <= {*re.findall(r'id="([\w-]+)"', text)}
    assert not re.search(r">\s*(None|nan|not finite)\s*<", text)
    assert {path.name for path in (made / "figures").iterdir()} == {
        f"tree-{name}.png" for name in ("maps", "sites", "waves", "cycles")
    }
    answer = tree(tmp_path / "a", {"most_cycles": 2, "unsettled": "report"})
    assert answer.returncode == 0, answer.stderr
    text = page(tmp_path / "a")
    assert "NOT SETTLED" in text
    assert "All checks passed" not in text
    assert 'class="banner good"' not in text


STEADY = """
segments:
  trunk: {nodes: [heart, fork], length_mm: 100, radius_mm: 5, wave_speed_m_s: 6}
  left: {nodes: [fork, l], length_mm: 80, radius_mm: 4, wave_speed_m_s: 6}
  right: {nodes: [fork, r], length_mm: 80, radius_mm: 4, wave_speed_m_s: 6}
inlets: {heart: {flow_ml_s: 10}}
terminals: {"*": {type: resistance, resistance_mmhg_s_ml: 18}}
"""


def test_a_steady_flow_divides_evenly_and_has_a_page(tmp_path):
    file = tmp_path / "fork.yaml"
    file.write_text(STEADY)
    answer = tree(tmp_path / "a", {}, network=file)
    assert answer.returncode == 0, answer.stderr
    table = rows(tmp_path / "a/tree.csv")
    assert [float(row["flow_share"]) for row in table] == pytest.approx([1, 0.5, 0.5], abs=2e-3)
    assert "Forward and backward waves" in page(tmp_path / "a")
