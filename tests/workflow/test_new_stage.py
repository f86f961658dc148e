# SPDX-License-Identifier: Apache-2.0
"""A stage that is written into the files that docs/architecture.md names, and into no others, is one as all others."""

import json
import re
from pathlib import Path

import pytest
import yaml

from solver.runtime.sources import ROOT
from tests.support.project_copy import copy_project

MODULE = """
import json

import numpy as np

from pipeline.case.settings.base import parse
from pipeline.case.settings.extent import ExtentSettings
from pipeline.files.mesh import Mesh
from solver.runtime.command_line import run_stage
from solver.runtime.provenance import Job


def _compute(job: Job) -> None:
    settings = parse(ExtentSettings, job.settings, "--settings")
    extent_mm = np.ptp(Mesh.read(job.inputs["surface"]).points_mm, axis=0).max() * settings.times
    job.outputs["extent"].write_text(json.dumps({"extent_mm": float(extent_mm)}))


if __name__ == "__main__":
    run_stage("extent", __doc__, {"surface": "the surface"}, {"extent": "its extent"}, _compute)
"""

SECTION = """
from pipeline.case.settings.base import Positive, Section


class ExtentSettings(Section):
    times: Positive = 1.0
"""

RULE = """rule extent:
    input:
        surface=rules.surface.output.surface,
    output:
        extent="results/{case}/extent.json",
        provenance="results/{case}/extent.provenance.json",
    log:
        "results/{case}/logs/extent.log",
    wildcard_constraints:
        case=cases.computing("extent"),
    params:
        call=call("pipeline.stages.extent"),
        settings=cases.settings("extent"),
        code=code("pipeline.stages.extent"),
    shell:
        "{params.call} --settings {params.settings:q} --log {log:q}"


rule voxelize:"""

DECLARED = (
    ("class Keys(Section):", "from pipeline.case.settings.extent import ExtentSettings\n\n\nclass Keys(Section):"),
    ("    voxelize: ", "    extent: ExtentSettings = ExtentSettings()\n    voxelize: "),
    ('    "voxelize": ', '    "extent": Stage(VESSELS),\n    "voxelize": '),
)
"""What is put into the declaration of stages: the key, the place, and which cases run it."""

SOURCES = {
    "pipeline/stages/extent.py": (("", MODULE),),
    "pipeline/case/settings/extent.py": (("", SECTION),),
    "pipeline/rules/geometry.smk": (("rule voxelize:", RULE),),
    "pipeline/case/stages.py": DECLARED,
}
"""What stands in the place of what, by the file; new files are empty before."""


def write(project: Path) -> None:
    """Put a stage that measures how long a vessel is into a copy of the project, before the stage voxelize."""
    for name, changes in SOURCES.items():
        file = project / name
        text = file.read_text() if file.exists() else ""
        for old, new in changes:
            assert not old or text.count(old) == 1
            text = text.replace(old, new, 1)
        file.write_text(text)


def case(times: float) -> str:
    pipe = {"shape": "pipe", "diameter_mm": 2, "length_mm": 5, "ends": "openings"}
    settings = {"input": {"geometry": pipe}, "solve": {"inlets": {"*": {"flow_ml_s": 1}}}, "extent": {"times": times}}
    return yaml.safe_dump(settings)


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    project = copy_project(tmp_path_factory.mktemp("with") / "project")
    write(project)
    return project


def test_a_stage_in_the_files_that_the_page_names_runs_takes_its_section_and_leaves_its_record(project, snakemake):
    """It is looked at in Snakemake's plan that the case runs it unasked, for the crate, with those before it."""
    file, made = project / "config/cases/pipe.yaml", project / "results/pipe"
    file.write_text(case(3))
    answer = snakemake(project, "pipe", "--", "results/pipe/extent.json")
    assert answer.returncode == 0, answer.stderr
    assert json.loads((made / "extent.json").read_text())["extent_mm"] == pytest.approx(3 * 5, rel=1e-6)
    record = json.loads((made / "extent.provenance.json").read_text())
    assert (record["stage"], record["settings"]) == ("extent", {"times": 3.0})
    file.write_text(case(4))
    plan = snakemake(project, "pipe", "--dry-run", "--", "results/pipe/ro-crate-metadata.json")
    assert plan.returncode == 0, plan.stderr
    rules = re.findall(r"^(?:local)?rule (\w+):", plan.stdout + plan.stderr, re.MULTILINE)
    assert "extent" in rules
    assert "canonical" not in rules
    crate = re.search(r"^rule crate:\n    input: (.*)$", plan.stdout + plan.stderr, re.MULTILINE)[1]
    assert "results/pipe/extent.provenance.json" in crate


def test_these_files_its_test_and_its_row_are_six():
    page = (ROOT / "docs/architecture.md").read_text()
    row = re.search(r"^\| a stage \| (.+) \|$", page, re.MULTILINE)[1]
    named = re.findall(r"`((?:pipeline|docs|tests)/[^`]*)`", row)
    assert len(named) == 6
    wanted = {name.replace("<stage>", "extent").replace("<room>", "geometry") for name in named}
    assert {*SOURCES} == {name for name in wanted if name.startswith("pipeline/")}
