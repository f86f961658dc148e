# SPDX-License-Identifier: Apache-2.0
"""The package that pip installs: all of the project in one folder, which other programs do not find."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

from solver.runtime.provenance import versions
from solver.runtime.sources import ROOMS, ROOT
from tests.support.notebook import code_cells

STATED = tomllib.loads((ROOT / "pyproject.toml").read_text())
WHEEL = STATED["tool"]["hatch"]["build"]["targets"]["wheel"]
INSIDE = "hemolattice/project"


def places() -> dict[str, str]:
    """Where the wheel holds files and folders of the project."""
    return {folder: WHEEL["sources"][folder] for folder in WHEEL["only-include"]} | WHEEL["force-include"]


def test_the_wheel_holds_what_a_run_needs_in_one_package():
    needed = {"Snakefile", "config", "data", "docs", *ROOMS}
    assert {path: f"{INSIDE}/{path}" for path in needed} | {"hemolattice": "hemolattice"} == places()
    assert [path for path in places() if not (ROOT / path).exists()] == []
    assert {path.split("/")[1] for path in WHEEL["exclude"]} == {"data", "docs"}
    pages = {path for path in files_of_the_project() if path.startswith("docs/")}
    assert {"docs/quantities.md", "docs/settings.md", "docs/networks.md"} <= pages
    assert {Path(path).suffix for path in pages} == {".md", ".ipynb"}
    assert STATED["project"]["scripts"] == {"hemolattice": "hemolattice:main"}


def files_of_the_project() -> dict[str, str]:
    """What Git keeps, or would if it were added, of the wheel's folders, and where it lies in the wheel."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "Snakefile", *WHEEL["only-include"]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    left_out = tuple(path.removeprefix("/") for path in WHEEL["exclude"])
    paths = [path for path in listed.stdout.splitlines() if (ROOT / path).exists() and not path.startswith(left_out)]
    return {path: path if path.startswith("hemolattice/") else f"{INSIDE}/{path}" for path in paths}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built as by ``pip install .``."""
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--wheel-dir", folder, ROOT)
    return next(folder.glob("hemolattice-*.whl"))


def pip(*words: str | Path, **more: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", *map(str, words)], check=True, timeout=300, env=os.environ | more)


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """Folder of the programs of an environment in which nothing lies but the wheel; its packages are those here."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    pip("--python", folder / "bin/python", "install", "--no-deps", "--no-index", wheel)
    own = sysconfig.get_path("purelib", vars={"base": str(folder)})
    Path(own, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def call(program: Path, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {key: os.environ[key] for key in ("PATH", "HOME")} | {"BROWSER": "true"}
    return subprocess.run(
        [program, *words], cwd=folder, capture_output=True, text=True, timeout=1500, check=False, env=environment
    )


@pytest.mark.slow
def test_the_wheel_holds_all_files_and_nothing_beside_its_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        digests = {name: archive.read(name) for name in names}
    assert {name.split("/")[0] for name in names} == {"hemolattice"}
    assert names == set(files_of_the_project().values())
    assert all(digests[within] == (ROOT / path).read_bytes() for path, within in files_of_the_project().items())


@pytest.mark.slow
def test_the_installed_package_gives_its_functions_in_an_empty_folder(installed, tmp_path):
    cells = code_cells(json.loads((ROOT / "docs/tutorials/mask-to-wss.ipynb").read_text()))
    ran = call(
        installed / "python", "-c", "".join("".join(cell["source"]) + "\n" for cell in cells[:4]), folder=tmp_path
    )
    assert ran.returncode == 0, ran.stderr
    mean, exact = map(float, re.findall(r"([\d.]+) Pa", ran.stdout))
    assert mean == pytest.approx(exact, rel=0.02)  # as in tests/interface/test_python.py
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_an_installed_command_runs_a_case_in_an_empty_folder_and_shows_no_other_module(installed, tmp_path):
    for module in ROOMS:
        hidden = call(installed / "python", "-c", f"import {module}", folder=tmp_path)
        assert f"No module named '{module}'" in hidden.stderr
    command = installed / "hemolattice"
    assert call(command, "version", folder=tmp_path).stdout == f"hemolattice {STATED['project']['version']}\n"
    checked = call(command, "check", folder=tmp_path)
    assert checked.returncode == 0, checked.stderr
    assert "expected 2.8286 mm/s" in checked.stdout
    ran = call(command, "run", "tiny", folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.splitlines()) <= 25
    assert re.search(
        r"^tiny: report results/tiny/report\.html\n  fields .*\n  checks \d+ of \d+ passed", ran.stdout, re.M
    )
    assert ran.stderr == ""
    assert {path.name for path in tmp_path.iterdir()} == {"results", ".snakemake"}
    record = json.loads((tmp_path / "results/tiny/solve.provenance.json").read_text())
    assert record["versions"]["hemolattice_source"] == versions()["hemolattice_source"]
    opened = call(command, "open", "tiny", folder=tmp_path)
    assert opened.stdout == f"{tmp_path}/results/tiny/report.html\n"
    answer = call(installed / "python", "-m", "hemolattice", "status", "tiny", folder=tmp_path)
    assert answer.stdout.startswith("tiny: 15 of 15 stages done")
