# SPDX-License-Identifier: Apache-2.0
"""The workflow as a user runs it: one small case from DICOM to report, in a copy of the project."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import h5py
import pytest
import yaml
from vtkmodules.vtkIOGeometry import vtkSTLWriter

from pipeline.case.case_file import read_cohort
from pipeline.case.stages import ON_EVERY_LATTICE, WITH_SETTINGS, stages_of
from pipeline.files.mesh import Mesh, read_openings
from pipeline.files.vtk_file import read_polydata
from pipeline.reporting.captions import caption
from pipeline.reporting.crate_check import differences, faults, read_runs
from solver.runtime.checksums import checksum
from solver.runtime.sources import ROOT
from tests.support.left import results
from tests.support.project_copy import copy_project

STAGES = [*stages_of(read_cohort({"cases": ["tiny"]})["tiny"], makes_images=True), "crate"]
"""Of the small case; that no more and no fewer ran is shown by the files that lie there."""


def documented(stages: list[str]) -> set[str]:
    """Files and folders that stages leave, as docs/files.md says; folders end with a stroke."""
    rows = dict(re.findall(r"^\| (\w+) \| ([^|]+) \|", (ROOT / "docs/files.md").read_text(), re.MULTILINE))
    return {name for stage in stages for name in re.findall(r"`([^`]+)`", rows[stage])}


@pytest.fixture(scope="module")
def planned(snakemake):
    """Stages that a run would execute now, in the order of the chain, as a function of the project."""

    def dry_run(project: Path) -> list[str]:
        answer = snakemake(project, "tiny", "--dry-run")
        assert answer.returncode == 0, answer.stderr
        rules = set(re.findall(r"^(?:local)?rule (\w+):", answer.stdout + answer.stderr, re.MULTILINE))
        return [stage for stage in STAGES if stage in rules]

    return dry_run


def change_case(project: Path, section: str, key: str, value: object) -> None:
    file = project / "config/cases/tiny.yaml"
    settings = yaml.safe_load(file.read_text())
    settings.setdefault(section, {})[key] = value
    file.write_text(yaml.safe_dump(settings))


THREADS = (
    "NUMBA_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "ITK_GLOBAL_DEFAULT_NUMBER_OF_THREADS",
    "VTK_SMP_MAX_THREADS",
)
"""How many threads each library that shares work out takes."""


@pytest.fixture(scope="module")
def with_threads(snakemake) -> Callable[..., None]:
    """A run of a case on so many cores, with as many threads in every library."""

    def run(project: Path, case: str, threads: int, *options: str) -> None:
        with pytest.MonkeyPatch.context() as patch:
            for name in THREADS:
                patch.setenv(name, str(threads))
            answer = snakemake(project, case, "--cores", str(threads), *options)
        assert answer.returncode == 0, answer.stderr

    return run


@pytest.fixture(scope="module")
def finished(study, with_threads) -> Path:
    """A copy of the project in which the tiny case has run, on one core, with one thread in every library. `HEMO_SMOKE`
    may name a checkout in which `make smoke` has run from the same source, as `.ci/run` does: its results are taken.
    """
    if smoked := os.environ.get("HEMO_SMOKE"):
        for name in (".snakemake", "results/tiny"):
            shutil.copytree(Path(smoked) / name, study / name, symlinks=True, dirs_exist_ok=True)
        for page in Path(smoked).glob("results/cohort.*"):
            shutil.copy2(page, study / "results")
    else:
        with_threads(study, "tiny", 1)
    return study


@pytest.fixture
def project(finished, tmp_path) -> Path:
    """A copy of the finished project (with its times of modification) that a test may change."""
    return shutil.copytree(finished, tmp_path / "project", symlinks=True)


def test_every_stage_leaves_its_outputs_log_and_provenance(finished):
    results = finished / "results/tiny"
    made = {path.name + ("/" if path.is_dir() else "") for path in results.iterdir()}
    assert made == documented(STAGES) | {f"{stage}.provenance.json" for stage in STAGES} | {"logs/"}
    for stage in STAGES:
        record = json.loads((results / f"{stage}.provenance.json").read_text())
        assert record["stage"] == stage
        assert (results / "logs" / f"{stage}.log").is_file()


def test_arrays_have_their_units_in_one_form(finished):
    """Behind the name in brackets, by powers: ``WSS gradient (Pa mm-1)``; a name in HDF5 must not have a slash."""
    unit = re.compile(r"[^()_]+ \((J|W|Pa|m|mm|mm2|mL|mmHg|s|s-[12])( (s|s-[12]|m-3|mm-1))?\)")
    results, names = finished / "results/tiny", set()
    for file in results.glob("*.vtp"):
        polydata = read_polydata(file)
        for data in (polydata.GetPointData(), polydata.GetCellData()):
            names |= {data.GetArrayName(k) for k in range(data.GetNumberOfArrays())}
    for file in results.glob("*.vtkhdf"):
        with h5py.File(file) as opened:
            names |= {*opened["VTKHDF/PointData"]}
    assert {"WSS (Pa)", "radius (mm)", "vorticity (s-1)", "viscous stress (Pa)", "branch"} <= names
    assert [name for name in names if "(" in name and not unit.fullmatch(name)] == []
    assert [name for name in names if re.search(r"_(mm2?|pa|mmhg|s|m_s|ml_s)$", name)] == []


def test_checksums_chain_the_stages(finished):
    results = finished / "results/tiny"
    record = json.loads((results / "decompose.provenance.json").read_text())
    assert record["outputs_sha256"]["nodes.h5"] == checksum(results / "nodes.h5")
    assert json.loads((results / "solve.provenance.json").read_text())["inputs_sha256"]["nodes"] == checksum(
        results / "nodes.h5"
    )


def test_flow_is_balanced_and_as_imposed(finished):
    indices = json.loads((finished / "results/tiny/indices.json").read_text())
    checks = {check["name"]: check["value"] for check in indices["checks"]}
    assert checks["converged"] is True
    assert abs(checks["flow balance"]) < 0.005  # what is asked of the demo, at half its resolution
    assert abs(checks["inflow against imposed"]) < 0.01
    # Sampled in outlets of 6 nodes across, where second order leaves a part of the order of (1/6)^2.
    assert abs(checks["flow balance of the velocity field"]) < 0.028


def test_the_page_of_all_cases_stands_beside_them(finished):
    text = (finished / "results/cohort.html").read_text()
    assert '<a href="tiny/report.html">tiny</a>' in text
    table = (finished / "results/cohort.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in table] == ["case", "tiny"]


def test_the_report_of_the_workflow_carries_the_figures_with_their_captions(finished, snakemake, tmp_path):
    answer = snakemake(finished, "tiny", "--report", str(tmp_path / "workflow.html"))
    assert answer.returncode == 0, answer.stderr
    text = (tmp_path / "workflow.html").read_text()
    figures = sorted((finished / "results/tiny/figures").glob("*.png"))
    assert len(figures) >= 5
    for figure in figures:
        assert f'"{figure.name}"' in text
        first = re.split(r"[.']|[^ -~]", caption(figure.stem))[0]  # up to a sign that the page writes otherwise
        assert len(first) > 20
        assert first in " ".join(text.replace("\\n", " ").split())
    assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?:', text)


def test_nothing_is_left_to_do_after_a_run(finished, planned):
    assert planned(finished) == []


NAME = "Doe_Jane"


@pytest.fixture(scope="module")
def surface_again(finished, with_threads, tmp_path_factory) -> Path:
    """Another copy of the project, below a folder that bears a name, in which the case has run from its crate up to its
    surface, with three threads a stage in every library, more than CI's machines have cores, where the first had one,
    or as many as those have cores.
    """
    project = copy_project(tmp_path_factory.mktemp(NAME) / "other")
    shutil.copy(finished / "results/tiny/case.yaml", project / "config/cases/again.yaml")
    with_threads(project, "again", 3, "--", "results/again/openings.json")
    return project


@pytest.fixture(scope="module")
def again(surface_again, with_threads) -> Path:
    """The same, up to its crate."""
    with_threads(surface_again, "again", 3)
    return surface_again


def test_a_crate_holds_what_it_says(finished):
    crate = finished / "results/tiny"
    assert faults(crate) == []
    assert [run.name for run in read_runs(crate)] == STAGES[:-1]


def test_a_case_runs_again_from_its_crate_to_the_same_surface_on_three_threads_as_on_one(finished, surface_again):
    """And has the settings of the stages behind. That these do not depend on threads is shown in test_decompose.py and
    test_checkpoint.py; a run of all stages is among the slow tests.
    """
    one, other = finished / "results/tiny", surface_again / "results/again"
    first, second = results(one), results(other)
    assert {"lumen.nrrd", "surface.vtp", "openings.json", "surface.provenance.json"} <= second.keys()
    assert {name: first[name] for name in second} == second
    made = [path for path in other.rglob("*") if path.is_file()]
    assert [path for path in made if NAME.encode() in path.read_bytes()] == []
    case, again = (
        read_cohort({"cases": [name]}, project / "config/cases")[name]
        for name, project in (("tiny", finished), ("again", surface_again))
    )
    for stage in WITH_SETTINGS:
        if stage not in ("import_mask", "import_surface", "canonical", "solve", "transport", "crate"):
            assert again.settings(stage) == case.settings(stage)
    solve = json.loads(case.settings("solve"))
    assert json.loads(again.settings("solve")) == solve | {"backend": "cpu"}  # which is the one that had been taken


@pytest.mark.slow
def test_a_case_runs_again_from_its_crate_to_the_same_bits_on_three_threads_as_on_one(finished, again):
    """`differences` compares the checksums of all that the stages left."""
    one, other = finished / "results/tiny", again / "results/again"
    for file in ("flow.vtkhdf", "indices.json"):
        assert (one / file).read_bytes() == (other / file).read_bytes()
    assert differences(read_runs(one), read_runs(other)) == []
    command = [sys.executable, "-m", "pipeline.stages.crate", "--check", str(one), str(other)]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=finished, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stdout.splitlines()[-1] == "the same bits in all results"


@pytest.mark.slow
def test_no_file_of_a_crate_tells_where_it_was_made(again):
    crate = again / "results/again"
    files = [path for path in crate.rglob("*") if path.is_file()]
    assert len(files) > len(documented(STAGES))
    assert [path for path in files if NAME.encode() in path.read_bytes()] == []


# A changed setting, and an edited module below, of which some are looked at in the quick tests: a plan takes 3 s.
@pytest.mark.parametrize(
    ("section", "key", "value", "first"),
    [
        pytest.param("segment", "leak_growth", 1.6, "segment", marks=pytest.mark.slow),
        ("voxelize", "nodes_across", 9, "voxelize"),
        pytest.param("solve", "viscosity_pa_s", 0.004, "plausibility", marks=pytest.mark.slow),
        ("solve", "lattice_speed", 0.07, "solve"),
        pytest.param("report", "title", "Other", "report", marks=pytest.mark.slow),
    ],
)
def test_a_changed_setting_reruns_its_stage_and_those_after_it(project, planned, section, key, value, first):
    change_case(project, section, key, value)
    judged_before = {"plausibility"} if first == "voxelize" else set()  # it looks at openings and branches alone
    assert planned(project) == [stage for stage in STAGES[STAGES.index(first) :] if stage not in judged_before]


@pytest.mark.parametrize(
    ("key", "value"), [("accept", ["wall_shear_stress"]), pytest.param("vessel", "carotid", marks=pytest.mark.slow)]
)
def test_other_limits_of_plausibility_judge_again_and_solve_nothing_again(project, planned, key, value):
    file = project / "config/cases/tiny.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {key: value}))
    assert planned(project) == ["plausibility", "postprocess", "paraview", "report", "crate"]  # particles go as before


@pytest.mark.parametrize(
    ("module", "first"),
    [
        pytest.param("pipeline/stages/filter.py", "filter", marks=pytest.mark.slow),
        ("pipeline/segmentation/page.js", "segment"),
        pytest.param("pipeline/stages/postprocess.py", "postprocess", marks=pytest.mark.slow),
        pytest.param("pipeline/stages/report.py", "report", marks=pytest.mark.slow),
    ],
)
def test_an_edited_module_reruns_its_stage(project, planned, module, first):
    with (project / module).open("a") as file:
        file.write("# edited\n")
    left = {"trace"} if first == "postprocess" else set()  # which runs beside it
    assert planned(project) == [stage for stage in STAGES[STAGES.index(first) :] if stage not in left]


def test_a_page_to_pick_seeds_on_needs_none(project, snakemake):
    file = project / "config/cases/tiny.yaml"
    settings = yaml.safe_load(file.read_text())
    del settings["segment"]
    file.write_text(yaml.safe_dump(settings))
    answer = snakemake(project, "tiny", "--dry-run", "results/tiny/pick.html")
    assert answer.returncode == 0, answer.stderr
    assert set(re.findall(r"^(?:local)?rule (\w+):", answer.stdout + answer.stderr, re.MULTILINE)) == {"pick"}


@pytest.mark.slow
def test_a_killed_solver_leaves_nothing_and_the_next_run_finishes_with_the_same_results(finished, project, snakemake):
    """Runs again up to the indices. At random moments of all stages the workflow is killed in test_kills.py. Quick:
    that a killed solver leaves nothing and goes on to the same bits is in test_checkpoint.py, what Snakemake makes of
    a kill in test_recovery.py and test_cohort_workflow.py.
    """
    file, folder = project / "config/cases/tiny.yaml", project / "results/tiny"
    before = file.read_text()
    change_case(project, "solve", "steady_tolerance", 1e-12)  # long enough to be caught at work
    log = folder / "logs/solve.log"
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--config", "cases=tiny"]
    run = subprocess.Popen(command, cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    started = time.time()
    while not (log.is_file() and log.stat().st_mtime > started and "MLUPS" in log.read_text()):
        assert run.poll() is None, "the run ended before it could be killed"
        assert time.time() < started + 120
        time.sleep(0.05)
    for process in solver_processes(project):
        os.kill(process, signal.SIGKILL)
    assert run.wait(timeout=60) != 0
    left = {path.name for path in folder.iterdir()}
    assert not left & {"flow.vtkhdf", "monitor.csv", "solve.json", "solve.provenance.json"}
    file.write_text(before)
    answer = snakemake(project, "tiny", "--", "results/tiny/indices.json")
    assert answer.returncode == 0, answer.stderr
    assert results(folder) == results(finished / "results/tiny")


def solver_processes(project: Path) -> list[int]:
    """Processes that run the solver in this copy of the project."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")
                if command[1:3] == [b"-m", b"solver"] and (entry / "cwd").resolve() == project.resolve():
                    found.append(int(entry.name))
            except OSError:  # ended meanwhile
                continue
    return found


def test_a_mistake_in_the_case_ends_with_one_line_before_anything_runs(project, snakemake):
    change_case(project, "solve", "viscosity", 0.004)
    answer = snakemake(project, "tiny")
    assert answer.returncode != 0
    mistake = "config/cases/tiny.yaml: solve.viscosity: unknown key (value 0.004); did you mean viscosity_pa_s?"
    assert answer.stderr.splitlines()[-1] == mistake
    assert "Traceback" not in answer.stderr
    assert "rule" not in answer.stdout


ENTRIES = """
description: {description}
input: {input}
voxelize: {{nodes_across: 9}}
solve:
  inlets: {{"*": {{flow_ml_s: 1.0}}}}
"""


def add_case(project: Path, name: str, **given: object) -> None:
    text = ENTRIES.format(description=name, input=json.dumps(given))
    (project / f"config/cases/{name}.yaml").write_text(text)


def rules_of(answer) -> dict[str, int]:
    """How often each rule would run, from a dry run."""
    assert answer.returncode == 0, answer.stderr
    table = (answer.stdout + answer.stderr).partition("Job stats:")[2].partition("total")[0]
    return {name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", table, re.MULTILINE)}


@pytest.fixture
def project_with_entries(project) -> Path:
    """The finished project with a case that enters with the phantom's true mask, and one with its surface, in cm."""
    given = project / "data/patients"
    given.mkdir(parents=True)
    shutil.copy(project / "results/tiny/truth.nrrd", given / "mask.nrrd")
    mesh = Mesh.read(project / "results/tiny/surface.vtp")
    writer = vtkSTLWriter()
    writer.SetInputData(Mesh(mesh.points_mm / 10, mesh.triangles, mesh.opening).to_vtk())
    writer.SetFileName(str(given / "surface.stl"))
    writer.SetFileTypeToBinary()
    writer.Write()
    add_case(project, "tiny.mask", mask="data/patients/mask.nrrd")
    add_case(project, "tiny.surface", surface="data/patients/surface.stl", surface_unit="cm")
    return project


def test_a_cohort_may_mix_entries_and_each_case_runs_what_it_needs(project_with_entries, snakemake):
    """The first case has run; of the others one enters with a mask and one with a surface."""
    planned = rules_of(snakemake(project_with_entries, "tiny,tiny.mask,tiny.surface", "--dry-run"))
    both = ("tiny.mask", "tiny.surface")
    with contextlib.chdir(project_with_entries):
        cases = read_cohort({"cases": both})
    chains = [stage for case in cases.values() for stage in (*stages_of(case, makes_images=True), "crate")]
    assert planned == Counter(chains) | {"cohort": 1, "all": 1}
    of_images = {"phantom": 0, "load": 0, "segment": 0}
    at_entry = {"import_mask": 1, "surface": 1, "import_surface": 1, "centreline": 2}
    assert {stage: planned.get(stage, 0) for stage in of_images | at_entry} == of_images | at_entry


@pytest.mark.slow
def test_a_given_mask_and_a_given_surface_lead_to_the_vessel_of_the_image(project_with_entries, snakemake):
    """Up to the openings: of the true mask, 3 voxels in radius, they are true to 6 %; of the given surface as given."""
    project = project_with_entries
    targets = [f"results/tiny.{entry}/openings.json" for entry in ("mask", "surface")]
    answer = snakemake(project, "tiny.mask,tiny.surface", "--", *targets)
    assert answer.returncode == 0, answer.stderr
    radii = {
        case: sorted(o.radius_mm for o in read_openings(project / f"results/{case}/openings.json"))
        for case in ("tiny", "tiny.mask", "tiny.surface")
    }
    assert radii["tiny.surface"] == pytest.approx(radii["tiny"], rel=1e-4)
    true = json.loads((project / "results/tiny/truth.json").read_text())["openings"]
    assert radii["tiny.mask"] == pytest.approx(sorted(opening["radius_mm"] for opening in true), rel=0.06)
    made = project / "results/tiny.mask"
    assert json.loads((made / "segmentation.json").read_text())["method"] == "given mask"
    assert {"lumen.nrrd", "occupancy.nrrd", "segmentation.png", "segmentation.html"} <= {p.name for p in made.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("entry", ["mask", "surface"])
def test_a_case_that_enters_later_runs_to_the_report(project_with_entries, snakemake, entry):
    answer = snakemake(project_with_entries, f"tiny.{entry}")
    assert answer.returncode == 0, answer.stderr
    results = project_with_entries / f"results/tiny.{entry}"
    assert f"enters with a given {entry}" in (results / "report.html").read_text()
    checks = {c["name"]: c["value"] for c in json.loads((results / "indices.json").read_text())["checks"]}
    assert checks["converged"] is True
    assert abs(checks["flow balance"]) < 0.005


def test_a_case_that_asks_runs_on_coarser_lattices_too_and_no_other_does(study, snakemake):
    """One case on its own lattice, one on two, one on three."""
    for spacings in (1, 2, 3):
        add_case(
            study, f"on{spacings}", geometry={"shape": "pipe", "diameter_mm": 2, "length_mm": 5, "ends": "openings"}
        )
        with (study / f"config/cases/on{spacings}.yaml").open("a") as file:
            file.write(f"convergence: {{spacings: {spacings}}}\n")
    answer = snakemake(study, "on1,on2,on3", "--dry-run")
    case = read_cohort({"cases": ["on1"]}, study / "config/cases")["on1"]
    every = {*ON_EVERY_LATTICE}
    each = {stage: 1 + 2 + 3 if stage in every else 3 for stage in (*stages_of(case, makes_images=True), "crate")}
    assert rules_of(answer) == each | {"convergence": 2, "cohort": 1, "all": 1}
    assert every >= {"voxelize", "decompose", "solve", "postprocess"}
    folders = ("", "coarser-1/", "coarser-2/")
    for spacings in (1, 2, 3):
        made = set(re.findall(rf"results/on{spacings}/(\S*)nodes\.h5", answer.stdout + answer.stderr))
        assert made == set(folders[:spacings])


def test_no_other_folder_is_taken_for_a_lattice(study, snakemake):
    add_case(study, "other", geometry={"shape": "pipe", "diameter_mm": 2, "length_mm": 5, "ends": "openings"})
    answer = snakemake(study, "other", "--dry-run", "--", "results/other/coarser-3/nodes.h5")
    assert answer.returncode != 0
    assert "MissingRuleException" in answer.stdout + answer.stderr


MISTAKES: dict[str, tuple[dict[str, object], str]] = {
    "kind": ({"mask": "data/patients/surface.stl"}, "input.mask: no file of the kinds"),
    "segment": ({"mask": "data/patients/mask.nrrd", "mask_segment": 5}, "input.mask_segment = 5: no segment has"),
    "unit": ({"surface": "data/patients/surface.stl", "surface_unit": "um"}, "input.surface_unit = um:"),
    "image": ({"surface": "data/patients/mask.nrrd", "surface_unit": "mm"}, "input.surface: no file of the kinds"),
}


@pytest.mark.parametrize("mistakes", [("segment",), pytest.param((*MISTAKES,), marks=pytest.mark.slow)])
def test_mistakes_in_what_is_given_end_with_one_line_and_no_output(project_with_entries, snakemake, mistakes):
    for name in mistakes:
        add_case(project_with_entries, name, **MISTAKES[name][0])
    answer = snakemake(project_with_entries, ",".join(mistakes), "--keep-going")
    assert answer.returncode != 0
    assert "Traceback" not in answer.stderr
    for name in mistakes:
        made = project_with_entries / "results" / name
        assert {path.name for path in made.iterdir()} == {"logs"}
        (log,) = (made / "logs").iterdir()
        (error,) = [line for line in log.read_text().splitlines() if "error:" in line]
        assert MISTAKES[name][1] in error
