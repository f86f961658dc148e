# SPDX-License-Identifier: Apache-2.0
"""The page of all cases: nothing is hidden, and its numbers are those of the cases."""

import base64
import csv
import io
import json
import logging
import os
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipeline.reporting.cohort_page import COLUMNS, cohort_page, spread
from pipeline.stages import cohort
from pipeline.stages.link import link
from pipeline.workflow.outcome import Outcome, outcome
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job
from tests.support.reported import leave


def indices(factor=1.0, passed=True, warnings=()):
    """As postprocess writes it, as far as the page reads it; all key figures go with the factor."""
    return {
        "warnings": list(warnings),
        "checks": [
            {"name": "converged", "unit": "", "value": True, "limit": True, "passed": True},
            {"name": "nodes across", "unit": "", "value": 12.0 * factor, "limit": 10, "passed": passed},
            {"name": "flow balance", "unit": "%", "value": -1e-4 * factor, "limit": 0.01, "passed": True},
            {"name": "Mach number", "unit": "", "value": 0.1, "limit": 0.2, "passed": True},
        ],
        "openings": [
            {"role": "inlet", "flow_ml_s": 2.0 * factor, "reynolds": 190.0 * factor},
            {"role": "outlet", "flow_ml_s": 2.0 * factor, "reynolds": 150.0 * factor},
        ],
        "pressure_drops": [{"drop_mmhg": -0.5 * factor}, {"drop_mmhg": 0.4 * factor}],
        "wall": {"shear_mean_pa": 1.3 * factor, "shear_p99_pa": 3.1, "low_shear_fraction": {"0.4 Pa": 0.18}},
        "peak_speed_m_s": 0.3 * factor,
    }


def case(name, **given):
    return cohort.row(name, f"vessel of {name}", indices(**given), [])


def test_a_case_with_failed_checks_comes_first_and_is_marked_not_hidden(tmp_path):
    text = made(tmp_path, {"a": indices(), "b": indices(warnings=["tau <low>"]), "c": indices(passed=False)})
    assert re.findall(r'<tr id="case-(\w)" class="(\w+)"', text) == [("c", "failed"), ("b", "warned"), ("a", "passed")]
    assert "1 with failed checks, 1 with warnings alone" in text
    assert "nodes across</small>" in text
    assert "tau &lt;low&gt;" in text


def made(folder, cases):
    """The page of cases in a folder, by name: what postprocess and the report left of each."""
    paths = {"indices": [], "records": [], "figures": []}
    for name, reported in cases.items():
        figures = folder / name / "figures"
        figures.mkdir(parents=True)
        (folder / name / "indices.json").write_text(json.dumps(reported))
        (folder / name / "report.provenance.json").write_text(json.dumps({"settings": {"description": f"of {name}"}}))
        Image.new("RGB", (600, 300), "red").save(figures / "geometry.png")
        for role, path in zip(paths, ("indices.json", "report.provenance.json", "figures"), strict=True):
            paths[role].append(folder / name / path)
    outputs = {"page": folder / "cohort.html", "table": folder / "cohort.csv", "dictionary": folder / "words.csv"}
    cohort._compute(Job("cohort", {}, outputs, {}, logging.getLogger("test"), lists=paths))
    return outputs["page"].read_text()


def test_one_case_makes_a_page_with_its_picture_link_and_table(tmp_path):
    text = made(tmp_path, {"only.one": indices()})
    assert '<a href="only.one/report.html">only.one</a>' in text
    (picture,) = re.findall(r'<img src="data:image/webp;base64,([^"]*)', text)
    with Image.open(io.BytesIO(base64.b64decode(picture))) as small:
        assert small.size == (cohort.THUMBNAIL_PIXELS, cohort.THUMBNAIL_PIXELS // 2)
    assert "Spread over the cases" not in text  # of one there is none
    assert re.findall(r'(?:src|href)="(https?:[^"]*)', text) == []


def test_the_table_holds_the_numbers_of_the_cases_to_the_last_digit(tmp_path):
    factors = {"a": 1 / 3, "b": np.pi, "c": 1.0}
    text = made(tmp_path, {name: indices(factor) for name, factor in factors.items()})
    rows = {row["case"]: row for row in csv.DictReader(io.StringIO((tmp_path / "cohort.csv").read_text()))}
    with (tmp_path / "words.csv").open(newline="") as file:
        explained = {row["name"] for row in csv.DictReader(file) if row["table"] == "cohort.csv"}
    assert rows["a"].keys() <= explained
    for name, factor in factors.items():
        assert float(rows[name]["inflow_ml_s"]) == 2.0 * factor
        assert float(rows[name]["pressure_drop_mmhg"]) == -0.5 * factor  # the largest by size
        assert float(rows[name]["reynolds_max"]) == 190.0 * factor
        assert float(rows[name]["flow_balance_fraction"]) == -1e-4 * factor
    assert "osi_mean" not in rows["a"]  # which no case has
    (link,) = re.findall(r'href="data:text/csv;charset=utf-8;base64,([^"]*)" download="cohort.csv"', text)
    assert base64.b64decode(link).decode() == (tmp_path / "cohort.csv").read_text()


def test_each_key_figure_is_marked_with_what_it_is_worth(tmp_path):
    """As the report of its case marks it; figures that nothing judges have no mark."""
    judged = indices() | {
        "trust": [
            {"key": "pressure", "of": ["pressure_drops"], "state": "unusable"},
            {"key": "wall", "of": ["wall.shear"], "state": "reservation"},
            {"key": "flow", "of": ["openings.flow"], "state": "good"},
        ]
    }
    text = made(tmp_path, {"a": judged, "b": indices()})
    (row,) = re.findall(r'<tr id="case-a".*?</tr>', text, re.DOTALL)
    assert len(re.findall(r'class="n unusable"[^>]*>[^<]*<sup>✗</sup>', row)) == 1
    assert len(re.findall(r'class="n reservation"[^>]*>[^<]*<sup>!</sup>', row)) == 2  # mean and percentile
    (row,) = re.findall(r'<tr id="case-b".*?</tr>', text, re.DOTALL)
    assert "<sup>" not in row
    rows = {row["case"]: row for row in csv.DictReader(io.StringIO((tmp_path / "cohort.csv").read_text()))}
    worth = {"pressure_drop_mmhg": "unusable", "shear_mean_pa": "reservation", "inflow_ml_s": "good"}
    assert {key: rows["a"][f"{key}_trust"] for key in worth} == worth
    assert {rows["b"][f"{key}_trust"] for key in worth} == {""}
    assert "mach_trust" not in rows["a"]  # itself a check


def test_bands_stand_beside_the_figures_they_are_of(tmp_path):
    """That of the drop that is shown, the largest; a volume that differs by little keeps its band's ratios."""
    found = [
        {"key": "drop in to out", "value": 0.4, "low": 0.3, "high": 0.5},
        {"key": "drop in to side", "value": -0.5, "low": -0.6, "high": -0.4},
        {"key": "shear_mean", "value": 1.3, "low": 1.0, "high": 1.7},
        {"key": "shear_p99", "value": 3.2, "low": 3.0, "high": 4.0},  # of another lattice: not that of the page
        {"key": "volume", "value": 0.8, "low": 0.78, "high": 0.82},
    ]
    given = indices() | {"volume": {"volume_ml": 0.804}}
    banded, plain = cohort.row("a", "", given, [], found), cohort.row("b", "", indices(1.1), [])
    assert set(banded.bands) == {"pressure_drop_mmhg", "shear_mean_pa", "volume_ml"}
    assert banded.bands["pressure_drop_mmhg"] == (-0.6, -0.4)
    assert banded.bands["volume_ml"] == pytest.approx((0.7839, 0.8241))
    rows = list(csv.DictReader(io.StringIO(cohort.table([banded, plain]))))
    assert [row["shear_mean_pa_low"] for row in rows] == ["1.0", ""]
    assert "peak_speed_m_s_low" not in rows[0]
    page = cohort_page([banded, plain], "")
    assert "<small>1 to 1.70</small>" in page
    assert page.count('class="band"') == 3
    assert "90 % band" not in cohort_page([plain], "")


def test_what_a_case_does_not_have_is_a_gap_not_a_zero():
    with_osi = indices()
    with_osi["wall"]["osi_mean"] = 0.05
    rows = [cohort.row("a", "", with_osi, []), case("b")]
    given = {row["case"]: row["osi_mean"] for row in csv.DictReader(io.StringIO(cohort.table(rows)))}
    assert given == {"a": "0.05", "b": ""}
    osi = next(column for column in COLUMNS if column.key == "osi_mean")
    assert spread(osi, rows).count("<circle") == 1


def test_boxes_are_quartiles_and_every_case_has_its_dot():
    rows = [case(f"c{k}", factor=float(k)) for k in range(1, 10)]
    speed = next(column for column in COLUMNS if column.key == "peak_speed_m_s")
    plot = spread(speed, rows)
    assert plot.count("<circle") == 9
    assert sorted(re.findall(r"#case-(c\d)", plot)) == [row.case for row in rows]
    low, high = 16.0, 304.0  # edges of the axis
    box = re.search(r'class="box" d="M([\d.]+) .*?H([\d.]+)M([\d.]+) .*?H([\d.]+)M', plot)
    lower, first, third, upper = (float(each) for each in box.groups())
    np.testing.assert_allclose(
        [lower, first, third, upper],
        [low, low + (high - low) / 4, low + 3 * (high - low) / 4, high],
        atol=0.05,  # one decimal
    )
    assert 'class="box"' not in spread(speed, rows[:4])


def test_three_hundred_cases_stay_a_page_that_a_mail_carries(tmp_path):
    rng = np.random.default_rng(3)
    rows = [case(f"case-{k:03d}", factor=float(rng.lognormal())) for k in range(300)]
    picture = "data:image/webp;base64," + "A" * 4000  # two pictures of 150 pixels are smaller
    rows = [
        cohort.Row(r.case, r.description, r.failed, r.warnings, r.values, r.worth, [picture, picture]) for r in rows
    ]
    text = cohort_page(rows, cohort.table(rows))
    assert text.count("<tr id=") == 300
    assert len(text) < 5e6


def test_files_of_different_cases_are_refused(tmp_path):
    made(tmp_path, {"a": indices(), "b": indices()})
    a, b = tmp_path / "a", tmp_path / "b"
    lists = {"indices": [a / "indices.json"], "records": [b / "report.provenance.json"], "figures": [a / "figures"]}
    with pytest.raises(StageError, match="different cases"):
        cohort._compute(Job("cohort", {}, {}, {}, logging.getLogger("test"), lists=lists))


def test_key_figures_are_found_where_postprocess_puts_them(tmp_path):
    """A key that is spelt otherwise there would leave its column out, of all cases."""
    reported = json.loads((leave(tmp_path) / "indices.json").read_text())
    values = cohort.row("pipe", "", reported, []).values
    missing = {key for key, value in values.items() if value is None}
    of_networks = {
        "pulse_pressure_mmhg",
        "cardiac_output_l_min",
        "pulse_wave_velocity_m_s",
        "ankle_brachial_index",
        "augmentation_index",
        "outlet_share_max",
        "network_flow_change",
        "flow_share_carotids",
        "flow_share_femorals",
        *(f"{what}_against_network" for what in ("radius", "flow", "pressure")),
    }
    steady_plain_pipe = {"pressure_ratio_min", "osi_mean", "narrowing_fraction", "sac_volume_ml"}
    assert missing == steady_plain_pipe | of_networks
    assert values["dissipated_w"] == reported["energy"]["dissipation_w"]
    narrow = reported | {"stenoses": [{"stenosis_by_diameter": 0.4}, {"stenosis_by_diameter": 0.525}]}
    assert cohort.row("pipe", "", narrow, []).values["narrowing_fraction"] == 0.525


def coupled_opening(role, alone, with_it, low=80.0, high=120.0):
    """A row of ``coupling`` in indices.json, as far as the page reads it."""
    pressure = {"vessel_diastolic_mmhg": low, "vessel_systolic_mmhg": high}
    return {"role": role, "alone_flow_ml_s": alone, "vessel_flow_ml_s": with_it, **pressure}


def test_a_vessel_in_a_network_and_a_network_alone_have_their_own_figures(tmp_path):
    """Beside a case that has neither, whose cells are gaps."""
    vessel = indices() | {
        "network": {"name": "adan56"},
        "coupling": [coupled_opening("inlet", 8.0, 6.0), coupled_opening("outlet", 8.0, 6.0, 70.0, 130.0)],
    }
    vessel["checks"].append({"name": "radius against the network", "value": -0.12, "limit": 0.2, "passed": True})
    vessel["openings"] = [{"role": "inlet", "flow_ml_s": 6.0, "reynolds": 190.0}]
    vessel["openings"] += [{"role": "outlet", "flow_ml_s": flow, "reynolds": 90.0} for flow in (4.5, 1.5)]
    of_tree = {"inlet_pulse_mmhg": 38.0, "ankle_brachial_index": 1.27, "augmentation_index_aortic": 0.025}
    of_tree |= {"flow_share_carotids": 0.15, "flow_share_femorals": 0.12}
    tree = indices() | {"network": {"name": "in-vitro-37"}, "indices": of_tree}
    text = made(tmp_path, {"aneurysm": vessel, "tree": tree, "pipe": indices()})
    assert re.findall(r"<small>((?:in the )?network [^<]*)</small>", text) == [
        "in the network adan56",
        "network in-vitro-37 alone",
    ]
    found = {row["case"]: row for row in csv.DictReader(io.StringIO((tmp_path / "cohort.csv").read_text()))}
    expected = {
        "network": ("in the network adan56", "", "network in-vitro-37 alone"),
        "pulse_pressure_mmhg": ("40.0", "", "38.0"),
        "network_flow_change": ("-0.25", "", ""),
        "radius_against_network": ("-0.12", "", ""),
        "outlet_share_max": ("0.75", "", ""),
        "ankle_brachial_index": ("", "", "1.27"),
        "augmentation_index": ("", "", "0.025"),
        "flow_share_carotids": ("", "", "0.15"),
        "flow_share_femorals": ("", "", "0.12"),
    }
    assert {key: tuple(found[name][key] for name in ("aneurysm", "pipe", "tree")) for key in expected} == expected
    made_without = made(tmp_path / "plain", {"pipe": indices()})
    assert "network" not in made_without.partition("<main>")[2]
    assert "network" not in (tmp_path / "plain" / "cohort.csv").read_text()


def test_an_outlet_by_which_blood_comes_in_has_no_share():
    given = indices()
    given["openings"] = [{"role": "outlet", "flow_ml_s": flow, "reynolds": 90.0} for flow in (4.5, -1.5)]
    assert cohort.row("a", "", given, []).values["outlet_share_max"] is None


def test_a_case_that_was_not_finished_stands_first_without_numbers_or_link():
    finished = [cohort.row(run, "", indices(), []) for run in ("a@low", "a@rest")]
    rows = [cohort.unfinished_row("b@rest", "solve", "Mach <number>"), *finished]
    page = cohort_page(rows, cohort.table(rows))
    assert re.findall(r'<tr id="case-(\S+)" class="(\w+)"', page) == [
        ("b@rest", "unfinished"),
        ("a@low", "passed"),
        ("a@rest", "passed"),
    ]
    assert "✗ solve failed" in page
    assert "Mach &lt;number&gt;" in page
    assert "b@rest/report.html" not in page
    assert page.count("<circle") == 2 * page.count('href="#case-a@rest"') > 0
    only = cohort_page(rows[:1], cohort.table(rows[:1]))
    assert "1 of 1 not finished" in only
    assert "checks" not in only.partition("<main>")[0]  # nothing is said of checks that were not made


def test_why_a_run_was_not_finished_is_the_first_message_of_this_workflow(tmp_path):
    logs = [(stage, tmp_path / f"{stage}.log") for stage in ("load", "segment", "surface", "solve")]
    logs[1][1].write_text("10:00:00 segment: error: of an earlier run\n")
    logs[2][1].write_text("10:00:00 surface: smooths\n10:00:01 surface: error: area = 0: no area; raise it\nand more\n")
    logs[3][1].write_text("10:00:02 solve: error: later\n")
    os.utime(logs[1][1], (1000, 1000))
    assert outcome(logs, 2000) == Outcome("surface", "area = 0: no area; raise it")
    logs[2][1].write_text("10:00:00 surface: smooths\n")
    killed = outcome(logs, 2000)
    assert killed.stage == "surface"
    assert "without a message" in killed.message
    assert outcome(logs[:2], 2000).stage == ""


@pytest.mark.parametrize("links", [True, False])
def test_links_are_whole_files_whose_times_are_their_own(tmp_path, monkeypatch, links):
    """Snakemake sets the times of what a job made, one after the other, when it has ended."""
    given = [tmp_path / "first" / name for name in ("a.nrrd", "b.json")]
    made = [tmp_path / "second" / path.name for path in given]
    given[0].parent.mkdir()
    for k, path in enumerate(given):
        path.write_text(path.name)
        os.utime(path, (1000 + k, 1000 + k))
    if not links:
        monkeypatch.setattr(Path, "symlink_to", refuse)
    for _ in range(2):
        link(given, made)
        for k, path in enumerate(made):
            os.utime(path, (2000 + k, 2000 + k), follow_symlinks=False)
    assert [path.read_text() for path in made] == ["a.nrrd", "b.json"]
    assert [path.stat().st_mtime for path in given] == [1000, 1001]
    assert [old.samefile(new) for old, new in zip(given, made, strict=True)] == [links, links]
    assert sorted(path.name for path in made[0].parent.iterdir()) == ["a.nrrd", "b.json"]
    link(made, given)  # as after a change of the scenarios' order that was made half
    assert [path.read_text() for path in given] == ["a.nrrd", "b.json"]
    moved = tmp_path.rename(tmp_path.with_name(f"{tmp_path.name}-moved"))
    assert (moved / "second/b.json").read_text() == "b.json"


def test_what_is_not_there_is_not_linked_to(tmp_path):
    with pytest.raises(FileNotFoundError):
        link([tmp_path / "no.nrrd"], [tmp_path / "second" / "no.nrrd"])
    assert list(tmp_path.iterdir()) == []


def refuse(*_: object) -> None:
    raise OSError
