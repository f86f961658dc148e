# SPDX-License-Identifier: Apache-2.0
"""Files of containers and of a conda environment: their syntax, and that what they need is there; none is built."""

import re
import tomllib
from fnmatch import fnmatch

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from solver.runtime.sources import ROOT

SECTIONS = {"help", "setup", "files", "labels", "environment", "post", "runscript", "startscript", "test", "arguments"}
INSTRUCTIONS = {"FROM", "RUN", "ARG", "COPY", "WORKDIR", "ENV", "USER", "ENTRYPOINT", "CMD"}
LOCK = "requirements.lock"


@pytest.fixture(scope="module")
def instructions() -> list:
    """Instructions of the Dockerfile, as Docker's own parser reads them."""
    dockerfile = pytest.importorskip("dockerfile", reason="its parser has wheels for x86-64 alone")
    return dockerfile.parse_file(str(ROOT / "Dockerfile"))


def of(instructions: list, name: str) -> list[tuple[str, ...]]:
    return [each.value for each in instructions if each.cmd.upper() == name]


def is_sent(path: str) -> bool:
    """Whether .dockerignore lets a path through to the build: the last pattern that it or a folder above it matches."""
    sent, parts = True, path.split("/")
    above = ["/".join(parts[:k]) for k in range(1, len(parts) + 1)]
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!")
        places = parts if pattern.startswith("**/") else above
        if any(fnmatch(each, pattern.removeprefix("**/")) for each in places):
            sent = line.startswith("!")
    return sent


def sections() -> dict[str, list[str]]:
    """Sections of the Apptainer definition; its head has the name of none."""
    name, found = "", {"": list[str]()}
    for line in (ROOT / "apptainer.def").read_text().splitlines():
        if line.startswith("%"):
            found[name := line.split()[0].removeprefix("%")] = []
        elif line.strip() and not line.lstrip().startswith("#"):
            found[name].append(line.strip())
    return found


def test_the_dockerfile_copies_what_there_is_and_what_is_sent(instructions):
    given = [path.rstrip("/") for *paths, _ in of(instructions, "COPY") for path in paths]
    assert {"Snakefile", "config", "data", "pipeline", "solver", "validation"} <= set(given)
    for path in [LOCK if path == "${LOCK}" else path for path in given]:
        assert (ROOT / path).exists(), path
        assert is_sent(path), path
    assert is_sent("data/phantoms/tiny.yaml")
    assert is_sent("pipeline/rules/images.smk")
    assert is_sent("requirements-cuda.lock")
    for path in (
        "data/patients/one.dcm",
        "pipeline/__pycache__/case.pyc",
        "results/tiny/report.html",
        ".venv/bin/python",
    ):
        assert not is_sent(path), path


def test_the_image_runs_the_workflow_and_not_as_root(instructions):
    assert {each.cmd.upper() for each in instructions} <= INSTRUCTIONS  # the parser takes any word
    assert of(instructions, "USER")[-1] != ("root",)
    assert of(instructions, "ENTRYPOINT") == [("snakemake",)]
    assert of(instructions, "ARG") == [(f"LOCK={LOCK}",)]


def test_both_kinds_start_from_one_image_of_a_tag_and_install_by_hashes(instructions):
    head = dict(line.split(": ", 1) for line in sections()[""])
    assert head["Bootstrap"] == "docker"
    assert of(instructions, "FROM") == [(head["From"],)]
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", head["From"])
    installs = [line for line in sections()["post"] if "pip install" in line or "apt-get install" in line]
    commands = [command for (text,) in of(instructions, "RUN") for command in re.split(r"\s*&&\s*", text)]
    assert installs == [command for command in commands if "install" in command]
    assert "--require-hashes" in installs[-1]


def test_the_definition_for_apptainer_has_known_sections_and_copies_what_there_is():
    found = sections()
    assert found.keys() - {""} <= SECTIONS
    arguments = dict(line.split("=", 1) for line in found["arguments"])
    for line in found["files"]:
        path, _ = re.sub(r"\{\{ (\w+) \}\}", lambda name: arguments[name[1]], line).split()
        assert (ROOT / path).exists()


def test_the_conda_environment_installs_the_project_on_a_python_that_it_takes():
    """By pip, which alone knows the versions that the project names; conda brings Python."""
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    python, pip, by_pip = environment["dependencies"]
    assert (environment["name"], pip, by_pip) == (project["name"], "pip", {"pip": ["."]})
    assert SpecifierSet(project["requires-python"]).contains(python.removeprefix("python="))
