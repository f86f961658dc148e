# SPDX-License-Identifier: Apache-2.0
"""``import hemolattice``: its names, that they are documented, what an import costs, and the notebook."""

import inspect
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import hemolattice
from hemolattice import HOMES
from pipeline.files.volume import Volume
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.support import notebook

NOTEBOOK = ROOT / "docs/tutorials/mask-to-wss.ipynb"
NAMES = [(home, name) for home, names in HOMES.items() for name in names]


def python(code: str, folder: Path, path: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run some lines in another process and another folder."""
    environment = os.environ | {"PYTHONPATH": str(path)}
    words = [sys.executable, "-c", code]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_the_notebook_finds_the_wall_shear_stress_of_poiseuille():
    """With 12 nodes across. Means over five tubes drawn at random, radii 1.5 to 3 mm and 4.5 to 6.5 voxels, were off by
    -1.5 to +0.1 %; at a vertex the mask's corners are off by a fifth at most.
    """
    kept = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    ran = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    names = notebook.run(ran)
    radius_m = 1e-3 * 0.4 * np.sqrt(names["disc"].sum() / np.pi)
    exact_pa = 4 * 3.5e-3 * 0.5e-6 / (np.pi * radius_m**3)
    wall = names["results"].indices["wall"]
    assert wall["shear_mean_pa"] == pytest.approx(exact_pa, rel=0.02)
    assert 0.8 * exact_pa < wall["shear_min_pa"] < wall["shear_max_pa"] < 1.2 * exact_pa
    kinds = [
        [[each["output_type"] for each in cell["outputs"]] for cell in notebook.code_cells(of)] for of in (kept, ran)
    ]
    assert kinds[0] == kinds[1]
    lines = [line for cell in notebook.code_cells(kept)[:4] for line in cell["source"] if line.strip()]
    assert len(lines) <= 22  # before the picture and the mistake
    assert notebook.code_cells(kept)[-1]["outputs"] == notebook.code_cells(ran)[-1]["outputs"]


def test_from_an_image_to_the_lattice(tmp_path):
    """A tube of radius 3 mm between two faces of an image. Half way between tissue and blood its radius is kept to the
    1 % that surfaces of masks are allowed.
    """
    _, y, x = np.indices((30, 24, 24)) * 0.5
    depth = 3.0 - np.hypot(y - 5.8, x - 5.7)
    grey = np.random.default_rng(3).normal(40 + 300 * np.clip(depth / 0.5 + 0.5, 0, 1), 5)
    Volume(grey.astype(np.float32), (0.5, 0.5, 0.5), (10.0, -4.0, 7.0), np.eye(3)).write(tmp_path / "tube.nrrd")
    image, facts = hemolattice.load(tmp_path / "tube.nrrd")
    assert facts.matrix == (24, 24, 30)
    filtered = hemolattice.filter_image(image, smoothing="gaussian", smoothing_mm=0.3)
    lumen = hemolattice.segment(filtered, image, facts.modality, seeds_mm=[[15.7, 1.8, 14.0]], lower=190)
    surface = hemolattice.surface(lumen)
    radii_mm = sorted(opening.radius_mm for opening in surface.openings)
    assert radii_mm == pytest.approx([3.0, 3.0], rel=0.01)
    tree = hemolattice.centreline(surface)
    assert [branch.length_mm for branch in tree.branches] == pytest.approx([15.0], rel=0.05)
    lattice = hemolattice.voxelize(surface, tree, nodes_across=12, across="narrowest-branch")
    assert lattice.spacing_mm == pytest.approx(6.0 / 12, rel=0.03)
    lumen.lumen.write(tmp_path / "mask.nrrd")
    np.testing.assert_array_equal(hemolattice.read_mask(tmp_path / "mask.nrrd").lumen.voxels, lumen.lumen.voxels)
    surface.mesh.write(tmp_path / "vessel.vtp")
    again = hemolattice.read_surface(tmp_path / "vessel.vtp", unit="mm")
    assert sorted(each.radius_mm for each in again.openings) == pytest.approx(radii_mm, rel=1e-3)


def test_the_notebook_is_one_that_jupyter_opens():
    nbformat = pytest.importorskip("nbformat")
    nbformat.validate(nbformat.read(NOTEBOOK, as_version=4))


@pytest.mark.parametrize(("home", "name"), NAMES, ids=[name for _, name in NAMES])
def test_a_name_is_there_and_on_the_page_of_its_module(home, name):
    """What `make api` makes pages of: all modules of the package and of both rooms."""
    value = getattr(hemolattice, name)
    assert value.__name__ == name
    assert value.__module__ == home
    assert name in dir(hemolattice)
    doc = import_module("pdoc.doc").Module(import_module(home)).members[name]
    assert doc.docstring
    if inspect.isfunction(value):
        assert set(inspect.signature(value).parameters) == set(inspect.get_annotations(value)) - {"return"}
        assert all(f"\n{section}\n" in doc.docstring for section in ("Parameters", "Raises"))


def test_an_import_loads_no_library(tmp_path):
    libraries = {"numpy", "vtkmodules", "numba", "pipeline", "solver"}
    assert python(f"import sys, hemolattice; print({libraries} & {{*sys.modules}})", tmp_path).stdout == "set()\n"


def test_no_other_name_is_there():
    with pytest.raises(AttributeError, match="has no attribute 'solver_of_all'"):
        hemolattice.solver_of_all  # noqa: B018


@pytest.fixture
def installed(tmp_path) -> Path:
    """What the wheel's files look like in an environment."""
    package = tmp_path / "site-packages/hemolattice"
    package.mkdir(parents=True)
    for file in (ROOT / "hemolattice").glob("*.py"):
        (package / file.name).symlink_to(file)
    (package / "__init__.py").unlink()
    (package / "__init__.py").write_text((ROOT / "hemolattice/__init__.py").read_text())
    (package / "project").symlink_to(ROOT)
    return package.parent


def test_as_installed_rooms_are_found_by_its_names_alone(installed, tmp_path):
    lines = (
        "import hemolattice, importlib.util, sys",
        "print([importlib.util.find_spec(room) for room in ('pipeline', 'solver', 'validation', 'config')])",
        "print(hemolattice.StageError.__name__, sys.path == before)",
    )
    ran = python("import sys; before = list(sys.path)\n" + "\n".join(lines), tmp_path, installed)
    assert ran.stdout == "[None, None, None, None]\nStageError True\n", ran.stderr


@pytest.mark.parametrize("first", ["", "import pipeline; "])
def test_a_module_of_others_by_a_room_s_name_is_refused_and_not_hidden(installed, tmp_path, first):
    (tmp_path / "pipeline.py").write_text("OWN = True\n")
    code = (
        f"{first}import hemolattice\ntry:\n    hemolattice.StageError\nexcept ImportError as error:\n    print(error)\n"
    )
    ran = python(code + "import pipeline; print(pipeline.OWN)", tmp_path, installed)
    message, own = ran.stdout.splitlines()
    assert message.startswith("another module is called 'pipeline', as the project's own in")
    assert own == "True"


ENDS = {"inlets": {"*": {"flow_ml_s": 1}}, "outlets": {"*": {}}}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hemolattice.as_mask(np.zeros((9, 9)), (1, 1, 1)), "voxels: 2 dimensions, and a mask has 3"),
        (lambda: hemolattice.as_mask(np.zeros((9, 9, 9)), (1, 1, 1)), "input.mask: the chosen segment is empty"),
        (lambda: hemolattice.read_surface("vessel.doc", "mm"), "input.surface: no file of the kinds"),
        (lambda: hemolattice.solve(None, ranks=2, **ENDS), "solve.ranks = 2: here one process solves"),
        (lambda: hemolattice.load("nowhere", seriess=4), r"load: seriess: unknown key .* did you mean series\?"),
    ],
    ids=["two dimensions", "empty", "no surface", "ranks", "unknown key"],
)
def test_a_mistake_is_one_message(call, message):
    with pytest.raises(StageError, match=message):
        call()
