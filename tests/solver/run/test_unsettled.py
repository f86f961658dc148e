# SPDX-License-Identifier: Apache-2.0
"""A flow that has not settled when its time is up is refused, or says so in its first line; a raised limit goes on."""

import json
import logging
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.haemodynamics.trust import judged
from pipeline.reporting.cohort_page import cohort_page
from pipeline.stages import cohort
from solver.__main__ import identity
from solver.domain.nodes import save
from solver.run.convergence import MARGIN, Watch
from solver.run.schedule import Schedule
from solver.run.unsettled import shortfall, so_far
from solver.runtime.errors import StageError
from tests.pipeline.stages.test_cohort import indices
from tests.solver.run.test_checkpoint import command_line, files, kept, pulsatile, run, short_pipe
from tests.solver.run.test_settling import INTERVAL, THROUGH, TOLERANCE
from tests.solver.run.test_simulation import settings
from tests.solver.run.test_time_left import falling
from tests.support.command_lines import run_here
from tests.support.reported import leave, make

FLUCTUATES = "unsteady: mean over 1.2 s (25 flow-through times); the velocity fluctuates by 12.0%"
SAID = "not converged: after 2000 steps the residual is 0.02 (wanted 0.001); raise solve.max_steps"


def steady(folder, **changes):
    """Settles after a thousand steps and more."""
    return replace(settings(steady_tolerance=1e-6, unsettled="refuse"), **changes)


def repeating(folder, **changes):
    """Never as alike as it asks for."""
    wanted = {"min_cycles": 2, "periodic_tolerance": 1e-9, "unsettled": "refuse"} | changes
    return replace(pulsatile(folder / "wave"), **wanted)


LIMITS = {"steady": (steady, "max_steps", (500, 900), 100_000), "repeating": (repeating, "cycles", (2,), 3)}
"""Settings, the key that ends a run, limits that are too low, a higher one."""


@pytest.mark.parametrize(("cycles", "expected", "advised"), [(6, 10, 12), (6, 347, 12), (2, 3, 8)])
def test_a_pulse_whose_cycles_do_not_become_alike_is_refused_with_a_number(tmp_path, cycles, expected, advised):
    """Twice as many, and as many as an average needs, with why no better one is known. Those after which the longest
    wave has died away were told, too, which are three to ten times too many.
    """
    wanted = replace(pulsatile(tmp_path / "wave"), cycles=cycles)
    schedule = Schedule(interval=10, sample=10, last=1, cycle=100, cycles=cycles, expected_cycles=expected)
    found = [{"velocity": 0.2}, {"velocity": 0.3}, {"velocity": 0.25}]
    monitor = SimpleNamespace(
        later_differences=lambda: found,
        from_repeating=lambda: found[-1],
        periodicity=lambda back=0: found[-1 - back],
    )
    assert shortfall(wanted, schedule, monitor, None, 1, 0, None).endswith(
        "differences do not fall evenly, so that nobody can foretell how many it takes; with more it shows: raise"
        f" solve.cycles to {advised} (now {cycles})"
    )


def test_the_balance_of_a_pulse_is_shown_of_its_largest_inflow_once_it_has_been_raised():
    """Of the inflow of a moment it would have no end where that is 0."""
    sides = [SimpleNamespace(role=role) for role in ("inlet", "outlet", "outlet")]
    flows = [(9.0, 9.0, 0.0), (8.0, 5.0, 3.0), (-2.0, -1.0, -1.0), (0.0, 0.1, 0.1)]  # the first a period before
    rows = [SimpleNamespace(time_s=0.25 * (k + 1), flow_ml_s=np.array(each)) for k, each in enumerate(flows)]
    schedule = SimpleNamespace(cycles=3, varies=False)
    for ramp_s, shown in ((0.1, "cycle 1.33 of at most 3, balance -2.50%"), (1.5, "cycle 1.33 of at most 3")):
        plan = SimpleNamespace(schedule=schedule, period_s=0.75, boundary_schedule=SimpleNamespace(ramp_s=ramp_s))
        monitor = SimpleNamespace(rows=rows, nodes=SimpleNamespace(openings=sides), periodicity=lambda: None)
        assert so_far(None, plan, monitor) == shown


@pytest.mark.parametrize("name", ["steady", pytest.param("repeating", marks=pytest.mark.slow)])
def test_a_raised_limit_goes_on_to_the_bits_of_a_run_that_had_it_from_the_start(name, tmp_path, caplog):
    make_settings, key, low, higher = LIMITS[name]
    for limit in low:
        with pytest.raises(
            StageError, match=rf"^not .*; raise solve\.{key}.* \(now {limit}\).*, which goes on from here"
        ):
            run(short_pipe(), make_settings(tmp_path, **{key: limit}), tmp_path / "raised", kept(tmp_path, 3600))
    wanted = make_settings(tmp_path, **{key: higher, "unsettled": "report"})
    with caplog.at_level(logging.INFO):
        found = run(short_pipe(), wanted, tmp_path / "raised", kept(tmp_path, 3600))
    whole = run(short_pipe(), wanted, tmp_path / "whole")
    assert found["converged"] == (found["unsettled"] is None) == (name == "steady")
    reached = low[-1] if name == "steady" else low[-1] * whole["steps"] / whole["cycles"]
    assert f"going on from the checkpoint of step {reached:.0f}" in caplog.text
    assert found["steps"] == whole["steps"] > reached
    assert files(tmp_path / "raised") == files(tmp_path / "whole")


@pytest.mark.parametrize("name", [pytest.param("steady", marks=pytest.mark.slow), "repeating"])
def test_a_refused_run_is_reported_as_it_is_without_running_again(name, tmp_path, caplog):
    make_settings, key, (limit, *_), _ = LIMITS[name]
    refused, reported = (make_settings(tmp_path, **{key: limit, "unsettled": each}) for each in ("refuse", "report"))
    with pytest.raises(StageError, match=r"or set solve.unsettled to report, to have the results as they are"):
        run(short_pipe(), refused, tmp_path / "refused", kept(tmp_path, 3600))
    with caplog.at_level(logging.INFO):
        found = run(short_pipe(), reported, tmp_path / "refused", kept(tmp_path, 3600))
    whole = run(short_pipe(), reported, tmp_path / "whole")
    assert f"going on from the checkpoint of step {whole['steps']}" in caplog.text
    assert found["unsettled"] == whole["unsettled"] == found["warnings"][-1]
    assert files(tmp_path / "refused") == files(tmp_path / "whole")


def test_a_mean_over_another_part_of_the_run_is_not_gone_on_with(tmp_path, caplog):
    """A steady run that is reported as it is tells a mean over its last tenth, which had begun before the state."""
    with pytest.raises(StageError):
        run(
            short_pipe(),
            steady(tmp_path, max_steps=1900, steady_tolerance=1e-12),
            tmp_path / "raised",
            kept(tmp_path, 3600),
        )
    longer = steady(tmp_path, max_steps=2000, steady_tolerance=1e-12, unsettled="report")
    with caplog.at_level(logging.INFO):
        run(short_pipe(), longer, tmp_path / "raised", kept(tmp_path, 3600))
    assert "checkpoint of step 1900: of a run with another end; it is not used" in caplog.text
    run(short_pipe(), longer, tmp_path / "whole")
    assert files(tmp_path / "raised") == files(tmp_path / "whole")


def test_only_what_ends_a_run_is_left_out_of_what_it_is_known_by(tmp_path):
    save(short_pipe(), tmp_path / "nodes.h5")

    def known(**changes):
        return identity(tmp_path / "nodes.h5", replace(settings(cycles=4), **changes))

    same = {"max_steps": 7, "cycles": 3, "unsettled": "refuse"}
    assert len({known(), *(known(**{key: value}) for key, value in same.items())}) == 1
    others = {"cycles": 2, "steady_tolerance": 1e-4, "snapshots": 6}  # of 2 cycles the second is kept, else the third
    assert known() not in {known(**{key: value}) for key, value in others.items()}


def test_the_stage_ends_with_one_line_and_goes_on_when_its_limit_is_raised(tmp_path):
    save(short_pipe(), tmp_path / "nodes.h5")
    answer = run_here("solver", *command_line(tmp_path, steady(tmp_path, max_steps=900)))
    assert answer.returncode == 1
    assert "Traceback" not in answer.stderr
    last = answer.stderr.splitlines()[-1]
    assert "error: not converged: after 900 steps" in last
    advised = int(re.search(r"raise solve.max_steps to (\d+) \(now 900\)", last)[1])
    assert not {"flow.vtkhdf", "monitor.csv", "solve.json"} & {path.name for path in tmp_path.iterdir()}
    answer = run_here("solver", *command_line(tmp_path, steady(tmp_path, max_steps=advised)))
    assert answer.returncode == 0, answer.stderr
    assert "going on from the checkpoint of step 900" in answer.stderr
    assert json.loads((tmp_path / "solve.json").read_text())["converged"]


@given(constant=st.floats(300, 3000), at=st.floats(0.3, 0.8))
def test_of_a_flow_that_began_with_another_all_rows_tell_what_limit_would_do(constant, at):
    """Its ramp is never run: rows of the time that one from rest is raised for count, too."""
    end = constant * np.log(1 / TOLERANCE)
    steps = np.arange(1, int(at * end / INTERVAL) + 1) * INTERVAL
    monitor = SimpleNamespace(rows=falling(np.exp(-steps / constant)))
    watch = Watch(INTERVAL, THROUGH, 2 * end, TOLERANCE, 0.01, 40)
    wanted = replace(settings(max_steps=int(steps[-1])), steady_tolerance=TOLERANCE)

    def said(raised):
        schedule = Schedule(INTERVAL, INTERVAL, int(steps[-1]))
        return shortfall(wanted, schedule, monitor, watch, int(steps[-1]), raised, None)

    advised = int(re.search(r"raise solve.max_steps to (\d+)", said(0.0))[1])
    assert advised == pytest.approx(MARGIN * end, rel=0.1)
    assert "max_steps to" not in said(2 * end)


# ---- what is reported as it is ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> str:
    """The report of a flow that had not settled."""
    folder = leave(tmp_path_factory.mktemp("case"))
    reported = json.loads((folder / "indices.json").read_text())
    reported |= {"unsettled": SAID, "warnings": [SAID, *reported["warnings"]]}
    (folder / "indices.json").write_text(json.dumps(reported))
    return make(folder, tmp_path_factory.mktemp("report"), still=False, blank=True)[0]


def test_the_first_line_of_the_report_says_that_the_flow_had_not_settled(page):
    body = page.partition("<body>")[2]
    words = re.sub(r"<[^>]*>", "", body).split()
    assert " ".join(words).startswith(
        "The flow had not settled when its time was up: its numbers are not final. " + SAID
    )
    assert "<title>NOT SETTLED · " in page
    assert body.count(SAID) == 1


def test_report_and_row_of_an_unsteady_flow_say_so_first_and_pass(tmp_path):
    folder = leave(tmp_path)
    reported = json.loads((folder / "indices.json").read_text())
    reported |= {"unsteady": FLUCTUATES, "warnings": []}
    for check in reported["checks"]:
        check |= {"passed": True, "state": "good"}
    reported["trust"] = judged(reported)
    (folder / "indices.json").write_text(json.dumps(reported))
    page = make(folder, tmp_path / "report", without=("segmentation", "picture"), still=False, blank=True)[0]
    words = " ".join(re.sub(r"<[^>]*>", "", page.partition("<body>")[2]).split())
    assert words.startswith(
        "The flow never repeats, though what drives it does: fields and numbers are those of its"
        f" mean. {FLUCTUATES.capitalize()}."
    )
    assert "<title>UNSTEADY · " in page
    assert "All checks passed, by the mean of an unsteady flow" in words
    row = cohort.row("a", "", indices() | {"unsteady": FLUCTUATES}, [])
    assert row.state == "passed"
    assert re.search(rf"≈ unsteady</strong>\s*<small>{re.escape(FLUCTUATES)}</small>", cohort_page([row], ""))


def test_the_row_of_the_case_says_that_the_flow_had_not_settled():
    row = cohort.row("a", "", indices(passed=False, warnings=[SAID]) | {"unsettled": SAID}, [])
    settled = cohort.row("b", "", indices(), [])
    shown = re.search(r'<tr id="case-a".*?</tr>', cohort_page([row, settled], ""), re.DOTALL)[0]
    assert re.search(rf"<strong>✗ not settled</strong>\s*<small>{re.escape(SAID)}</small>", shown)
    assert "not settled" not in cohort_page([settled], "")
