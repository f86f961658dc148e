# SPDX-License-Identifier: Apache-2.0
"""The command line that all stages share: outputs appear whole or not at all."""

import ast
import json
import logging
import os
import platform
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from solver.runtime import progress as progress_module
from solver.runtime import provenance
from solver.runtime.checksums import checksum
from solver.runtime.progress import Parts, Progress
from solver.runtime.provenance import PACKAGES, versions
from solver.runtime.sources import ROOMS, ROOT, imports, sources

STAGE = """
import sys
import time
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError

def compute(job):
    job.log.info("working")
    text = job.inputs["text"]
    job.outputs["copy"].write_bytes((text / "Doe_Jane.dcm" if text.is_dir() else text).read_bytes())
    job.outputs["folder"].mkdir()
    (job.outputs["folder"] / "file").write_text("x")
    if job.settings.get("refuse"):
        raise StageError("text holds 3, 4 is wanted")
    try:
        time.sleep(job.settings.get("wait", 0))
    except Exception:  # tries something else
        time.sleep(60)
    job.facts["device"] = "none"

run_stage("trial", "A trial.", {"text": "in"}, {"copy": "out", "folder": "out"}, compute)
"""

LOST_SIGNAL = """
import signal
import time
import weakref
from solver.runtime.command_line import run_stage

class Thing:
    def __del__(self):
        if {deletion}:
            signal.raise_signal(signal.SIGTERM)

def compute(job):
    thing = Thing()
    reference = weakref.ref(thing, lambda _: None if {deletion} else signal.raise_signal(signal.SIGTERM))
    del thing
    print("went on", flush=True)
    time.sleep(30)

run_stage("trial", "A trial.", {{"text": "in"}}, {{"copy": "out"}}, compute)
"""
"""A stage that is stopped while Python calls the callback of a weak reference, or deletes an object."""


ENDED = """
import atexit
import sys
from pathlib import Path
from solver.runtime.command_line import end_process

class Object:
    def __del__(self):
        print("taken down")

kept = Object()
atexit.register(lambda: Path(sys.argv[1]).write_text("at exit"))
print("held back", end="")
end_process({refusal!r})
"""


def start(folder: Path, given: str = "in.txt", **settings) -> subprocess.Popen:
    (folder / "in.txt").write_text("text")
    roles = {"text": given, "copy": "out.txt", "folder": "out", "provenance": "trial.json", "log": "logs/trial.log"}
    options = [part for role, name in roles.items() for part in (f"--{role}", str(folder / name))]
    command = [sys.executable, "-c", STAGE, *options, "--settings", json.dumps(settings)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_stage_writes_outputs_log_and_provenance(tmp_path):
    process = start(tmp_path)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert files(tmp_path) == {"in.txt", "out.txt", "out/file", "trial.json", "logs/trial.log"}
    record = json.loads((tmp_path / "trial.json").read_text())
    assert record["inputs_sha256"]["text"] == checksum(tmp_path / "in.txt") == record["outputs_sha256"]["out.txt"]
    assert record["device"] == "none"
    assert record["peak_memory_mb"] > 1
    assert (tmp_path / "logs/trial.log").read_text() == errors  # terminal and log file alike
    assert str(tmp_path) not in (tmp_path / "trial.json").read_text()  # a path may hold a patient's name
    assert record["started"] <= record["finished"]
    assert {*record["host"]} == {"machine", "system", "processor", "cores"}
    assert platform.node() not in record["host"].values()


def test_a_refusal_is_one_message_without_traceback_or_output(tmp_path):
    process = start(tmp_path, refuse=True)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "error: text holds 3, 4 is wanted" in errors
    assert "Traceback" not in errors
    assert files(tmp_path) == {"in.txt", "logs/trial.log"}


def test_a_file_that_vanishes_from_a_folder_of_images_is_not_named(tmp_path):
    (tmp_path / "images").mkdir()
    _, errors = (process := start(tmp_path, given="images")).communicate(timeout=60)
    assert process.returncode == 1
    assert errors.splitlines()[-1].endswith(f"error: a file below {tmp_path / 'images'}: No such file or directory")
    assert "Doe" not in errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_stage_leaves_no_output_and_the_next_run_cleans_up(tmp_path, number):
    process = start(tmp_path, wait=60)
    deadline = time.monotonic() + 30
    while not list(tmp_path.glob(".out.partial*/file")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, number)
    process.communicate(timeout=30)
    assert process.returncode != 0
    assert not {"out.txt", "out/file", "trial.json"} & files(tmp_path)
    process = start(tmp_path)
    process.communicate(timeout=60)
    assert files(tmp_path) == {"in.txt", "out.txt", "out/file", "trial.json", "logs/trial.log"}


@pytest.mark.parametrize("deletion", [False, True])
def test_a_signal_that_is_lost_in_a_callback_of_python_stops_the_stage_all_the_same(tmp_path, deletion):
    """What a handler raises within such a callback is thrown away, and the stage would go on to its end."""
    (tmp_path / "in.txt").write_text("3")
    command = [sys.executable, "-c", LOST_SIGNAL.format(deletion=deletion), "--text", tmp_path / "in.txt"]
    command += ["--copy", tmp_path / "out.txt", "--provenance", tmp_path / "trial.json"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=25, check=False)
    assert answer.stdout == "went on\n"  # it was lost
    assert answer.returncode == 1
    assert "error: stopped by signal 15; nothing was written" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert files(tmp_path) == {"in.txt"}


@pytest.mark.parametrize(("refusal", "status"), [(None, 0), ("", 1), ("too much", 1)])
def test_a_process_ends_with_all_written_and_without_taking_python_down(tmp_path, refusal, status):
    command = [sys.executable, "-c", ENDED.format(refusal=refusal), tmp_path / "file"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (answer.returncode, answer.stdout, answer.stderr.strip()) == (status, "held back", refusal or "")
    assert (tmp_path / "file").read_text() == "at exit"


def test_a_missing_input_and_bad_settings_are_refused_in_words(tmp_path):
    options = ["--text", "absent", "--copy", "a", "--folder", "b", "--provenance", "c"]
    answer = subprocess.run(
        [sys.executable, "-c", STAGE, *options], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 1
    assert "--text absent: no such file" in answer.stderr
    answer = subprocess.run(
        [sys.executable, "-c", STAGE, *options, "--settings", "[1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 1
    assert "not JSON" in answer.stderr


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ('{"outputs_sha256": {"in.txt": "0"}}', "is not what write wrote.*; run write again"),
        ("{", "write.provenance.json: is damaged; run write again"),
        ("[1]", "write.provenance.json: is damaged; run write again"),
    ],
)
def test_an_input_that_is_not_what_its_stage_wrote_is_refused(tmp_path, record, message):
    (tmp_path / "write.provenance.json").write_text(record)
    _, errors = (process := start(tmp_path)).communicate(timeout=60)
    assert process.returncode == 1
    assert re.search(message, errors)
    assert len(errors.splitlines()) == 1
    assert files(tmp_path) == {"in.txt", "write.provenance.json", "logs/trial.log"}


def test_an_input_that_is_what_one_of_two_stages_wrote_is_taken(tmp_path):
    """A case may have entered elsewhere before: the records of both stages are there."""
    (tmp_path / "in.txt").write_text("text")
    for name, written in (("new", checksum(tmp_path / "in.txt")), ("old", "0")):
        (tmp_path / f"{name}.provenance.json").write_text(json.dumps({"outputs_sha256": {"in.txt": written}}))
    _, errors = (process := start(tmp_path)).communicate(timeout=60)
    assert process.returncode == 0, errors


def test_progress_tells_share_rate_and_time_left(caplog):
    log = logging.getLogger("trial-progress")
    with caplog.at_level(logging.INFO):
        progress = Progress(log, 200, "slices", every_s=0)
        time.sleep(0.1)
        progress.update(50, "no fault so far")
    line = caplog.messages[0]
    assert line.startswith("50 of 200 slices (25 %)")
    assert "slices/s" in line
    assert "left, no fault so far" in line


def test_progress_of_work_that_is_not_even_says_what_is_left_and_why_it_is_more(caplog):
    with caplog.at_level(logging.INFO):
        progress = Progress(logging.getLogger("trial-progress"), 200, "moments", every_s=0)
        for done, left_s in ((20, 40.0), (30, 41.0), (40, 50.0), (50, 30.0)):
            progress.update(done, "on the way", left_s)
    ends = ["40 s left", "41 s left", "50 s left, more than before, since they take longer", "30 s left"]
    for line, end in zip(caplog.messages, ends, strict=True):
        assert line.endswith(f"moments/s, {end}, on the way")
        assert "%" not in line


def test_parts_say_the_time_left_by_their_shares_once_the_first_is_done(caplog, monkeypatch):
    """Parts of 20, 30 and 50 %, on a machine on which 1 % takes a tenth of a second: what is told is what is left."""
    now = iter((0.0, 2.0, 5.0))
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: next(now))
    with caplog.at_level(logging.INFO):
        parts = Parts(logging.getLogger("trial-parts"), {"first": 2.0, "second": 3.0, "third": 5.0}, every_s=0)
        for name in ("first", "second", "first", "second", "third"):  # again, as where a border was no end
            parts.begin(name)
    assert caplog.messages == [
        "20 of 100 percent (20 %), 10 percent/s, 8 s left, second",
        "50 of 100 percent (50 %), 10 percent/s, 5 s left, third",
    ]


def test_sources_follow_imports_through_the_project():
    assert sources("pipeline.files.volume") == [
        "pipeline/files/volume.py",
        "solver/runtime/errors.py",
    ]
    assert "solver/kernels/d3q19.py" in sources("pipeline.stages.decompose")


def test_imports_are_those_of_the_whole_syntax_tree():
    for file in (file for room in ROOMS for file in (ROOT / room).rglob("*.py")):
        nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
        found = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        for node in (node for node in nodes if isinstance(node, ast.ImportFrom)):
            assert not node.level, f"{file}: a relative import, which is not followed"
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        assert set(imports(file)) == found, file


def test_sources_hold_the_template_style_and_script_of_a_page():
    parts = {"page.py", "page.html.j2", "page.css", "page.js"}
    assert {f"pipeline/segmentation/{part}" for part in parts} <= set(sources("pipeline.segmentation.page"))


def test_versions_are_those_of_all_packages_that_the_project_asks_for():
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {text.partition(">")[0].lower() for text in asked}
    assert names <= {name.lower() for name in PACKAGES}
    assert names <= {name.lower() for name in versions()}


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=n", "-c", "user.email=n@localhost")
    return subprocess.run(
        ["git", "-C", folder, *who, *words], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_the_commit_is_reported_and_whether_the_source_differs_from_it(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    for file in ("Snakefile", "solver/run/flow_file.py", "pipeline/page.css", "config/config.yaml"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("as it was")
    alone = versions()
    assert "hemolattice_commit" not in alone
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "all")
    (tmp_path / "config/config.yaml").write_text("which cases run is no source")
    clean = versions()
    assert clean == alone | {"hemolattice_commit": git(tmp_path, "rev-parse", "HEAD")}
    (tmp_path / "pipeline/page.css").write_text("other")
    changed = versions()
    assert changed["hemolattice_commit"] == clean["hemolattice_commit"] + "-dirty"
    assert changed["hemolattice_source"] != clean["hemolattice_source"]


def test_the_memory_of_a_helper_is_counted_beside_that_of_the_stage():
    """A helper that holds 200 MB (191 MiB)."""
    helper = "import sys; held = b'x' * 200_000_000; print(flush=True); sys.stdin.read()"
    code = f"""
import subprocess
import sys
from solver.runtime.memory import peak_memory_mb
assert set(peak_memory_mb()) == {{"peak_memory_mb"}}
with subprocess.Popen([sys.executable, "-c", {helper!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
    process.stdout.readline()
    print(*peak_memory_mb().values())
    process.stdin.close()
"""
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    own, of_helper = map(float, answer.stdout.split())
    assert 1 < own < 150  # an interpreter with the imports of solver.runtime.memory: some 30 MB
    assert 190 < of_helper < 300
