# SPDX-License-Identifier: Apache-2.0
"""Who may import whom (docs/architecture.md), and files that are generated from others."""

import ast
import json
import sys
from pathlib import Path

import pytest

from pipeline.case import case_file
from pipeline.case.settings.reference import settings_page
from pipeline.network import network_file
from pipeline.network.key_page import keys_page
from solver.runtime.sources import ROOMS, ROOT, imports
from validation.architecture import arrows, floor, modules, modules_used

PIPELINE_MAY_USE = {
    "runtime": None,
    "domain": {"division", "nodes", "sections"},
    "kernels": {"compilation", "d3q19"},
    "backends": {"cost", "cuda"},
    "boundary": {"curves", "opening_settings", "waveform", "windkessel"},
    "coupling": {"around", "coupling"},
    "network": {"arterial_walls", "cycles", "last_cycle", "network", "network_ends", "run"},
    "transport": {"carry", "scalar_run", "scalar_settings"},
    "run": {
        "blood",
        "checkpoint",
        "expected",
        "flow_file",
        "forecast",
        "given_start",
        "machine",
        "resolution",
        "settings",
        "solve",
        "units",
        "vtkhdf",
        "walltime",
    },
}
"""Modules of the solver, by room, that the pipeline may use; None: all of the room."""
SOLVER_MAY_USE = {"numpy", "numba", "h5py"}
STANDARD_LIBRARY = set(sys.stdlib_module_names)


def uses(file: Path, name: str) -> bool:
    return any(used == name or used.startswith(name + ".") for used in imports(file))


def named(file: Path) -> str:
    return str(file.relative_to(ROOT))


def test_no_room_uses_one_above_it_or_beside_it():
    assert not [f"{user} uses {used}" for user, used in arrows() if floor(used) >= floor(user)]


def test_every_module_lives_in_a_room():
    beside = {top: {file.name for file in (ROOT / top).glob("*.py")} for top in ("solver", "pipeline")}
    assert beside == {"solver": {"__init__.py", "__main__.py"}, "pipeline": {"__init__.py"}}


def test_modules_of_a_package_have_names_of_their_own():
    """But for a stage and the settings of its section, and for what both backends have."""
    pairs = [{"pipeline/stages", "pipeline/case/settings"}, {"solver/backends/cpu", "solver/backends/cuda"}]
    for top in ("pipeline", "solver"):
        folders: dict[str, set[str]] = {}
        for file in modules(top):
            if file.name != "__init__.py":
                folders.setdefault(file.name, set()).add(named(file.parent))
        assert not {name: found for name, found in folders.items() if len(found) > 1 and found not in pairs}


def test_no_import_goes_in_a_circle():
    """By taking away, again and again, modules that use none of those left."""
    left = {file: modules_used(file) for top in ROOMS for file in modules(top)}
    while free := [file for file, used in left.items() if not used]:
        gone = {file.relative_to(ROOT).with_suffix("").parts for file in free}
        left = {file: used - gone for file, used in left.items() if file not in free}
    assert not [named(file) for file in left]


def test_a_stage_uses_no_other_stage():
    for file in modules("pipeline/stages"):
        assert not {used for used in modules_used(file) if used[:2] == ("pipeline", "stages")}, named(file)


def test_the_product_uses_nothing_of_its_validation():
    for file in modules("pipeline") + modules("solver") + modules("hemolattice"):
        assert not uses(file, "validation"), named(file)


def test_rooms_use_nothing_of_the_package_that_others_import():
    for file in modules("pipeline") + modules("solver") + modules("validation"):
        assert not uses(file, "hemolattice"), named(file)


@pytest.mark.parametrize("file", modules("solver"), ids=named)
def test_solver_needs_only_numpy_numba_and_h5py(file):
    packages = {name.split(".")[0] for name in imports(file)}
    brought_by_numba_cuda = {"cuda"} if named(file) == "solver/backends/cuda/device.py" else set()
    of_mpi = {"mpi4py"} if named(file) == "solver/backends/communicator.py" else set()
    kernel = "kernels" in file.parts
    assert packages <= (SOLVER_MAY_USE - ({"h5py"} if kernel else set())) | STANDARD_LIBRARY | {"solver"} | (
        brought_by_numba_cuda | of_mpi
    )


def test_pipeline_uses_only_the_plain_modules_of_the_solver():
    for file in modules("pipeline"):
        for _, room, module, *_ in (used for used in modules_used(file) if used[0] == "solver"):
            allowed = PIPELINE_MAY_USE[room]
            assert allowed is None or module in allowed, f"{named(file)} uses solver.{room}.{module}"


def test_one_place_for_cuda_and_one_room_for_dicom_beside_the_phantom():
    files = modules("pipeline") + modules("solver")
    assert {file.name for file in files if uses(file, "numba.cuda")} == {
        "device.py",
        "instructions.py",
        "numba_internals.py",
    }
    readers = {file for file in files if uses(file, "pydicom") or uses(file, "highdicom")}
    assert {file.name for file in readers if file.parent.name != "dicom"} == {"phantom.py"}


def test_schema_file_equals_the_model():
    assert (ROOT / "config" / "case.schema.json").read_text() == case_file.schema(), "run `make schema`"


def test_page_of_settings_equals_the_model():
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert page == settings_page(json.loads(case_file.schema())), "run `make schema`"


def test_schema_and_page_of_networks_equal_their_model():
    schema = (ROOT / "config" / "network.schema.json").read_text()
    assert schema == network_file.schema(), "run `make schema`"
    assert (ROOT / "docs" / "network-keys.md").read_text(encoding="utf-8") == keys_page(json.loads(schema))


def test_nothing_that_is_read_is_run():
    """No pickles, no evaluation of text, no shell; YAML by safe loaders, which follow no tags."""
    for file in modules("pipeline") + modules("solver"):
        tops = {name.split(".")[0] for name in imports(file)}
        assert not tops & {"pickle", "marshal", "shelve", "dill", "joblib"}, file
        for call in (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)):
            called = ast.unparse(call.func)
            options = {word.arg: ast.unparse(word.value) for word in call.keywords}
            assert called not in ("eval", "exec", "os.system", "os.popen", "yaml.unsafe_load", "yaml.full_load"), file
            assert called != "yaml.load" or file.name == "yaml_file.py", file
            assert options.get("shell", "False") == options.get("allow_pickle", "False") == "False", file


LICENCE = "# SPDX-License-Identifier: Apache-2.0"


def test_every_file_of_source_names_the_licence_in_its_first_line():
    folders = (*ROOMS, "hemolattice", "benchmarks", "tests")
    files = [file for top in folders for kind in ("*.py", "*.smk") for file in (ROOT / top).rglob(kind)]
    files += [ROOT / name for name in ("Snakefile", "Makefile", "Dockerfile", "apptainer.def")]
    assert len(files) > 500
    without = [named(file) for file in files if not file.read_text(encoding="utf-8").startswith(LICENCE + "\n")]
    assert not without, f"write it there: {LICENCE}"
