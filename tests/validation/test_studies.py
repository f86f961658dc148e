# SPDX-License-Identifier: Apache-2.0
"""Published studies: their files say what is wrong with them, and what was measured comes to the pages as it is."""

import json
import logging
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from solver.domain.nodes import save
from solver.run.settings import parse as solver_settings
from solver.run.solve import solve
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job
from solver.runtime.sources import ROOT
from tests.support.geometries import closed_box, plates
from tests.support.project_copy import copy_project
from validation import regression_check, study, summary
from validation.evidence import PAGES, SUMMARY, Evidence, documents, read
from validation.goals import Goal
from validation.record_pages import places, written
from validation.studies.reference import read_reference
from validation.studies.run import Run
from validation.studies.study_file import FOLDER, read_studies, read_study

LOG = logging.getLogger("test")
FILES = sorted((ROOT / FOLDER).glob("*.yaml"))
CONFIG = {"cases": ["demo"]}


# ---- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_study_can_be_read_and_has_its_place_in_the_documentation(file):
    given = read_study(file.stem, file.parent)
    used = {run for runs in given.sets.values() for run in runs}
    assert used == {*given.runs}, "a run that no set has"
    assert file.stem in places(documents(ROOT / "docs" / SUMMARY, ROOT / "docs" / PAGES), "study")


MISTAKES = {
    "unknown key": ({"quesiton": "?"}, "quesiton: unknown key .*did you mean question"),
    "measure": ({"measure": "plate"}, "measure: no module plate in validation/studies"),
    "set": ({"sets": {"ci": ["17"]}}, "sets.ci: names 17, which is no run"),
    "empty set": ({"sets": {"ci": []}}, "sets.ci: names nothing, which is no run"),
    "name of a set": ({"sets": {"slow": ["16"]}}, "sets.slow"),
    "setting": ({"case": {"solve": {"walls": "rough"}}}, r"run \w+: solve.walls = 'rough'"),
    "run": ({"runs": {"a/b": {}}}, "runs.a/b"),
    "option": ({"options": {"ordre": 2}}, "options: ordre: unknown key .*did you mean order"),
}


@pytest.mark.parametrize(("change", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_a_study_file_is_one_line_that_names_the_file(tmp_path, change, message):
    values = yaml.safe_load((ROOT / FOLDER / "plates.yaml").read_text())
    geometry = {"input": values["case"]["input"]}
    change = {key: geometry | value if key == "case" else value for key, value in change.items()}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(values | change))
    with pytest.raises(StageError, match=message) as raised:
        read_studies(CONFIG, tmp_path)
    lines = [line for line in str(raised.value).splitlines() if re.search(message, line)]
    assert len(lines) == 1
    assert lines[0].startswith(f"{tmp_path / 'mine.yaml'}")


def test_a_study_that_is_not_there_or_not_in_the_set_is_reported(tmp_path):
    with pytest.raises(StageError, match=r"studies: 'plate': no file .*did you mean plates"):
        read_studies(CONFIG | {"studies": "plate"}, ROOT / FOLDER)
    values = yaml.safe_load((ROOT / FOLDER / "plates.yaml").read_text())
    (tmp_path / "fine.yaml").write_text(yaml.safe_dump(values | {"sets": {"full": ["256"]}}))
    assert [*read_studies(CONFIG, tmp_path)] == ["fine"]
    with pytest.raises(StageError, match="fine: has no runs in the set quick; give validation=full"):
        read_studies(CONFIG | {"studies": "fine"}, tmp_path)
    (tmp_path / "a.b.yaml").write_text("")
    with pytest.raises(StageError, match="no dot"):
        read_studies(CONFIG, tmp_path)


def test_runs_are_cases_with_their_own_settings_over_those_of_the_study():
    given = read_study("plates", ROOT / FOLDER)
    cases = given.cases("plates")
    assert cases["16"].voxelize.nodes_across == 14
    assert cases["32"].solve.lattice_speed == pytest.approx(1 / 30)
    assert cases["16"].solve.collision == "bgk"
    assert cases["32-exact"].solve.collision == "trt"


# ---- runs ------------------------------------------------------------------------------------------------------------


def solved(folder: Path) -> tuple[dict, dict[str, list[Path]]]:
    """The smallest two runs of the study of plates, and what decompose and solve leave of them."""
    chosen = read_study("plates", ROOT / FOLDER)
    settings = json.loads(chosen.input("plates", "ci")) | {"sets": {"ci": ["16", "32"]}}
    made = {"nodes": "nodes.h5", "flow": "flow.vtkhdf", "monitor": "monitor.csv", "summary": "solve.json"}
    for run, height in (("16", 14), ("32", 30)):
        (place := folder / f"plates.{run}").mkdir()
        nodes = replace(plates(height), spacing_mm=10 / height)
        save(nodes, place / made["nodes"])
        given = solver_settings(json.loads(chosen.cases("plates")[run].settings("solve")) | {"backend": "cpu"})
        solved = solve(nodes, given, place / made["flow"], place / made["monitor"], LOG)
        (place / made["summary"]).write_text(json.dumps(solved))
    files = {role: [folder / f"plates.{run}" / name for run in ("16", "32")] for role, name in made.items()}
    return settings, files


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Path:
    """Folder in which the stage has left record and pictures of the study of plates."""
    folder = tmp_path_factory.mktemp("measured")
    settings, files = solved(folder)
    outputs = {"record": folder / "plates.json", "figures": folder / "plates"}
    study._compute(Job("study", {}, outputs, settings, LOG, lists=files))
    return folder


@pytest.mark.slow
def test_plates_reach_what_the_work_published(measured):
    record = json.loads((measured / "plates.json").read_text())
    goals = {goal["what"]: goal["reached"] for goal in record["goals"]}
    assert all(Goal(**goal).met for goal in record["goals"])
    assert goals["order of convergence"] == pytest.approx(2, abs=0.01)  # the law of slip alone is of second order
    errors, _, steps = record["tables"]
    for *_, error, slip, _ in errors["rows"]:
        assert error == pytest.approx(
            slip, rel=1e-3
        )  # what is left of the start is 1e-7 of the flow, 2e-4 of the error
    assert [row[2] for row in steps["rows"]] == ["", 4160]
    assert steps["rows"][1][1] == pytest.approx(4160, abs=10)  # the work's numbers are multiples of ten
    assert {file.name for file in (measured / "plates").iterdir()} == {"plates.png", "plates-2.png"}
    assert record["warnings"] == []


def test_flows_in_another_order_than_their_runs_are_refused(tmp_path):
    settings = json.loads(read_study("plates", ROOT / FOLDER).input("plates", "ci"))
    flows = [tmp_path / f"plates.{run}" / "flow.vtkhdf" for run in ("32", "16", "32-exact")]
    job = Job("study", {}, {}, settings, LOG, lists={"flow": flows})
    with pytest.raises(StageError, match=r"--flow: folders plates\.32, plates\.16"):
        study._compute(job)


def test_a_layer_shows_each_node_at_its_place(tmp_path):
    """A box of 4 x 2 x 3 nodes: values are x + 10 z in one layer, something else in the other."""
    nodes = closed_box((4, 2, 3))
    (tmp_path / "box").mkdir()
    save(nodes, tmp_path / "box/nodes.h5")
    run = Run("box", None, tmp_path / "box")
    x, y, z = (nodes.position - nodes.position.min(axis=0)).T
    image = run.layer(np.where(y == 0, x + 10.0 * z, -1.0))
    np.testing.assert_array_equal(image, np.arange(4) + 10.0 * np.arange(3)[:, None])


def test_tables_have_numbers_where_the_work_has_none_a_gap():
    table = read_reference("gomes2016_plates")
    assert table["nodes"].tolist() == [16, 32, 64, 128, 256]
    assert np.isnan(table["steps"][0])
    np.testing.assert_allclose(table["force"], 4 / 3 / (table["nodes"] - 2) ** 3, rtol=1e-4)  # as its file says
    with pytest.raises(StageError, match=r"no table of this name .*gomes2016_plates"):
        read_reference("gomes")


# ---- pages -----------------------------------------------------------------------------------------------------------

SUMMARY_PAGE = "<!-- study missed -->\n<!-- /study -->\n\n<!-- study results -->\n<!-- /study -->\n"
DOCS = (
    "# A\n\n<!-- study -->\n<!-- /study -->\n\n<!-- study:a -->\n<!-- /study -->\n\n"
    "<!-- ladder:a -->\nx\n<!-- /ladder -->\n"
)
MADE = {"commit": "c", "changed": False, "date": "2000-01-01", "versions": "v", "seconds": 90.0, "clock": "solving"}


def keep(folder: Path, error: float, runs_of: str = "ci", name: str = "a") -> None:
    """A study's record with one goal."""
    evidence = Evidence(name, f"Study {name}", "work <1>")
    evidence.table(("nodes", "error"), [(8, 0.25), (16, error)], "Errors.")
    evidence.draw(lambda figure: figure.subplots().plot((8, 16), (0.25, error)), "Error against nodes")
    evidence.reach("error", error, at_most=0.1)
    (folder / name).mkdir(exist_ok=True)
    more = {"question": "Why?", "runs_of": runs_of, "warnings": ["16: slow"], "made": MADE}
    evidence.keep(folder / f"{name}.json", folder / name / name, "studies", **more)


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "studies").mkdir()
    (tmp_path / "validation").mkdir()
    (tmp_path / "validation.md").write_text(SUMMARY_PAGE)
    (tmp_path / "validation/page.md").write_text(DOCS)
    return tmp_path


def publish(folder: Path, *names: str) -> dict:
    """What validation makes of the records; what it says of the goals."""
    inputs = {"old-docs": folder / "validation.md", "old-pages": folder / "validation", "old-kept": folder / "studies"}
    outputs = {role: folder / f"new-{role}" for role in ("page", "goals", "docs", "pages", "kept")}
    lists = {"records": [folder / f"{name}.json" for name in names], "figures": [folder / name for name in names]}
    summary._compute(Job("validation", inputs, outputs, {}, LOG, lists=lists))
    outputs["docs"].replace(inputs["old-docs"])
    for role in ("pages", "kept"):
        shutil.rmtree(inputs[f"old-{role}"])
        outputs[role].replace(inputs[f"old-{role}"])
    return json.loads(outputs["goals"].read_text())


def test_what_was_measured_stands_on_both_pages(folder):
    keep(folder, 0.05)
    keep(folder, 0.5, name="own")
    assert publish(folder, "a", "own") == {"goals": 2, "reached": 1, "lost": []}
    text = (folder / "new-page").read_text()
    assert re.findall(r'(?:src|href)="(https?:[^"]*)', text) == []
    assert text.count('src="data:image/png;base64,') == 2
    for part in ("Why?", "work &lt;1&gt;", "Errors.", "≤ 0.1", "✓ reached", "not reached", "1 of 2 goals", "16: slow"):
        assert part in text
    docs = (folder / "validation/page.md").read_text()
    assert "| Study a | work <1> | error | ≤ 0.1 | 0.05 | reached |" in docs
    assert "![Error against nodes](../studies/a.png)" in docs
    assert "<!-- ladder:a -->\nx\n<!-- /ladder -->" in docs  # not of the studies
    assert "Study own" not in docs  # a user's own, which has no place there
    assert "| [A](validation/page.md#a) | 1 |  |" in (folder / "validation.md").read_text()
    assert {file.name for file in (folder / "studies").iterdir()} == {"a.json", "a.png"}
    assert publish(folder, "a", "own")["reached"] == 1
    assert (folder / "validation/page.md").read_text() == docs


def test_a_smaller_set_takes_no_larger_ones_place_and_is_held_to_what_it_reached(folder):
    keep(folder, 0.05, "full")
    publish(folder, "a")
    keep(folder, 0.07, "ci")
    assert publish(folder, "a")["lost"] == []
    assert "| 0.05 | reached |" in (folder / "validation/page.md").read_text()
    keep(folder, 0.2, "ci")
    assert publish(folder, "a")["lost"] == ["Study a: error: 0.2, where ≤ 0.1 is held"]
    assert "reached before and" in (folder / "new-page").read_text()
    assert "| 0.05 | reached |" in (folder / "validation/page.md").read_text()


def test_a_goal_that_was_lost_stays_lost_until_it_is_reached(folder):
    keep(folder, 0.05)
    publish(folder, "a")
    keep(folder, 0.2)
    for _ in range(2):
        reported = publish(folder, "a")
        assert reported["lost"]
        assert "| 0.2 | **failed**: it was reached before |" in (folder / "validation/page.md").read_text()
        with pytest.raises(StageError, match=r"reached before \(docs/studies\), and not now: Study a: error: 0\.2"):
            regression_check._compute(Job("regression_check", {"goals": folder / "new-goals"}, {}, {}, LOG))
    keep(folder, 0.05)
    assert publish(folder, "a")["lost"] == []
    regression_check._compute(Job("regression_check", {"goals": folder / "new-goals"}, {}, {}, LOG))


def test_a_goal_that_was_never_reached_is_shown_and_no_error(folder):
    keep(folder, 0.2)
    assert publish(folder, "a") == {"goals": 1, "reached": 0, "lost": []}
    assert "| 0.2 | **not reached** |" in (folder / "validation/page.md").read_text()
    regression_check._compute(Job("verdict", {"goals": folder / "new-goals"}, {}, {}, LOG))


def test_the_documentation_is_what_the_kept_records_say():
    """A number of a study edited by hand, or kept without writing the page, shows here."""
    pages, records = documents(ROOT / "docs" / SUMMARY, ROOT / "docs" / PAGES), read(ROOT / "docs/studies")
    assert written(pages, records, "study") == pages
    figures = {figure["file"] for record in records.values() for figure in record["figures"]}
    assert figures == {f"studies/{file.name}" for file in (ROOT / "docs/studies").glob("*.png")}


# ---- workflow --------------------------------------------------------------------------------------------------------

PLATES, PAGE = ("tiny", "studies=plates", "validation=ci"), ("--", "validation")


def test_the_workflow_makes_the_runs_of_the_set_and_no_patients_report(study_project, snakemake):
    answer = snakemake(study_project, *PLATES, "--dry-run", *PAGE)
    assert answer.returncode == 0, answer.stderr
    counts = re.findall(r"^(?:local)?rule (\w+):", answer.stdout + answer.stderr, re.MULTILINE)
    wanted = dict.fromkeys(("canonical", "voxelize", "decompose", "solve"), 3)
    wanted |= dict.fromkeys(("study", "validation_page", "validation"), 1)
    assert Counter(counts) == wanted
    made = {*re.findall(r"results/(plates\.[\w-]+)/flow\.vtkhdf", answer.stdout + answer.stderr)}
    assert made == {"plates.16", "plates.32", "plates.32-exact"}


def test_a_mistake_in_the_options_of_a_study_is_reported_before_anything_runs(snakemake, tmp_path):
    """Only where a study is to be made: the start of a case does not wait for what knows the options."""
    project = copy_project(tmp_path / "project")
    file = project / "config/studies/plates.yaml"
    file.write_text(file.read_text().replace("\noptions:\n", "\noptions:\n  ordre: 2\n"))
    answer = snakemake(project, "tiny", "validation=ci", "--", "validation")
    assert answer.returncode != 0
    assert "options: ordre: unknown key" in answer.stderr.splitlines()[-1]
    assert not list((project / "results").glob("plates*"))


@pytest.fixture(scope="module")
def plates_project(snakemake, tmp_path_factory) -> Path:
    """A copy of the project in which one command has run a study, without its record from before, in single precision
    and without the run of another collision: with the loops of the plates of `test_tutorials`, in place of two models
    more to compile. Those of the tutorial are exact with the other collision.
    """
    project = with_pages(copy_project(tmp_path_factory.mktemp("plates") / "project"))
    file = project / "config/studies/plates.yaml"
    text = file.read_text()
    assert 'ci: ["16", "32", "32-exact"]' in text
    file.write_text(
        text.replace('ci: ["16", "32", "32-exact"]', 'ci: ["16", "32"]').replace("precision: fp64", "precision: fp32")
    )
    (project / "docs/studies/plates.json").unlink()
    answer = snakemake(project, *PLATES, *PAGE)
    assert answer.returncode == 0, answer.stderr
    return project


def test_one_command_runs_a_study_reaches_its_goals_and_writes_its_page(plates_project):
    record = json.loads((plates_project / "docs/studies/plates.json").read_text())
    assert len(record["goals"]) >= 5
    assert all(Goal(**goal).met for goal in record["goals"])
    assert record["warnings"] == []
    for figure in record["figures"]:
        assert (plates_project / "docs" / figure["file"]).read_bytes().startswith(b"\x89PNG")
    pages = documents(plates_project / "docs" / SUMMARY, plates_project / "docs" / PAGES)
    assert written(pages, read(plates_project / "docs/studies"), "study") == pages
    assert pages != documents(ROOT / "docs" / SUMMARY, ROOT / "docs" / PAGES)  # whose record is that of finer lattices


@pytest.mark.slow
def test_one_command_fails_where_a_goal_of_a_study_is_lost(plates_project, snakemake, tmp_path):
    project = shutil.copytree(plates_project, tmp_path / "project", symlinks=True)
    record = project / "docs/studies/plates.json"
    file = project / "config/studies/plates.yaml"
    file.write_text(file.read_text().replace("l2: 4.0e-3", "l2: 1.0e-3"))
    assert json.loads(record.read_text())["goals"][0]["wanted"] == 4e-3
    answer = snakemake(project, *PLATES, *PAGE)
    assert answer.returncode != 0
    assert "not now: Parallel plates" in answer.stderr
    assert "reached before and" in (project / "results/validation.html").read_text()


@pytest.fixture
def study_project(study) -> Path:
    """A copy of the project with the pages that studies are written into."""
    return with_pages(study)


def with_pages(project: Path) -> Path:
    shutil.copytree(ROOT / "docs/studies", project / "docs/studies", dirs_exist_ok=True)
    shutil.copy(ROOT / "docs/validation.md", project / "docs")
    shutil.copytree(ROOT / "docs/validation", project / "docs/validation", dirs_exist_ok=True)
    return project
