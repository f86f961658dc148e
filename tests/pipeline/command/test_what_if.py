# SPDX-License-Identifier: Apache-2.0
"""The command what-if: answers, reservations, refusals; a file of the answer."""

import json

import pytest

from pipeline.command.__main__ import main
from pipeline.reduced.answer import What, answered
from tests.support.reduced_forks import fork


@pytest.fixture
def case(tmp_path, monkeypatch):
    """A folder in which a case with a reduced model has run, and one without."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results" / "fork").mkdir(parents=True)
    fork().write(tmp_path / "results" / "fork" / "reduced.json")
    (tmp_path / "config" / "cases").mkdir(parents=True)
    for name in ("fork", "other"):
        (tmp_path / "config" / "cases" / f"{name}.yaml").write_text("input: {phantom: none.yaml}\n")
    return tmp_path


def test_an_answer_has_flows_pressures_and_ratios(case, capsys):
    assert main(["what-if", "fork", "--flow", "1.5", "--json", "answer.json"]) == 0
    said = capsys.readouterr().out
    expected = answered(fork(), What(1.5))
    drop = expected.pressure_mmhg["inlet"] - 80
    assert "inflow 4.5 mL/s, 1.5 times that of the case" in said
    assert f"drop inlet to left: {drop:.4g} mmHg, ratio {80 / (80 + drop):.3f}; in the case" in said
    found = json.loads((case / "answer.json").read_text())
    assert found["openings"]["left"]["flow_ml_s"] == pytest.approx(expected.opening_flow_ml_s["left"])
    assert found["drops"][0]["pressure_ratio"] == pytest.approx(80 / (80 + drop))
    assert main(["what-if", "fork", "--flow-ml-s", "4.5"]) == 0
    assert capsys.readouterr().out == said


def test_an_answer_that_may_not_hold_says_so_with_its_status(case, capsys):
    assert main(["what-if", "fork", "--outlet", "left=part:0.3", "--outlet", "right=resistance:40"]) == 3
    assert "does not hold: branch 2" in capsys.readouterr().out


def test_a_pulse_is_answered_over_its_period(case, capsys):
    (case / "wave.csv").write_text("time_s,flow_ml_s\n0,3\n0.25,4\n0.5,3\n0.75,2\n1,3\n")
    assert main(["what-if", "fork", "--waveform", "wave.csv", "--json", "pulse.json"]) == 0
    assert "inlet" in capsys.readouterr().out
    found = json.loads((case / "pulse.json").read_text())
    assert max(found["flow_ml_s"]["inlet"]) == pytest.approx(4, abs=0.01)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["other"], "other: has no reduced model; set reduced.flows: [0.5, 2]"),
        (["fork", "--flow", "3"], "was fitted from 0.5 to 2 times it"),
        (["fork", "--outlet", "left=80"], "--outlet left=80: write NAME=pressure:80"),
        (["fork", "--outlet", "left=pressure:high"], "'high' is no number"),
        (["fork", "--outlet", "left=part:2"], "--outlet left=part:2"),
        (["fork", "--json", "nowhere/answer.json"], "--json nowhere/answer.json: cannot be written"),
    ],
)
def test_mistakes_are_one_message(case, capsys, words, message):
    assert main(["what-if", *words]) == 1
    assert message in capsys.readouterr().err
