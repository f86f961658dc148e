"""Who may import whom (docs/architecture.md), and files that are generated from others."""

import ast
import sys
from pathlib import Path

import pytest

from pipeline.case import case_file
from solver.runtime.sources import ROOT, imports

PIPELINE_MAY_USE = {
    f"solver.{module}"
    for module in ("stage", "seal", "memory", "nodes", "d3q19", "units", "flow", "waveform", "forecast", "partition")
} | {
    f"solver.{module}"
    for module in ("blood", "vtkhdf", "velocity_sets", "plain", "windkessel", "sections", "expected")
}  # fmt: skip
SOLVER_MAY_USE = {"numpy", "numba", "h5py"}
STANDARD_LIBRARY = set(sys.stdlib_module_names)


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def uses(file: Path, name: str) -> bool:
    return any(used == name or used.startswith(name + ".") for used in imports(file))


@pytest.mark.parametrize("file", modules("solver"), ids=lambda file: file.name)
def test_solver_needs_only_numpy_numba_and_h5py(file):
    packages = {name.split(".")[0] for name in imports(file)}
    brought_by_numba_cuda = {"cuda"} if file == ROOT / "solver" / "cuda" / "device.py" else set()
    assert packages <= SOLVER_MAY_USE | STANDARD_LIBRARY | {"solver"} | brought_by_numba_cuda


@pytest.mark.parametrize("file", modules("pipeline"), ids=lambda file: file.name)
def test_pipeline_uses_only_the_plain_modules_of_the_solver(file):
    used = {".".join(name.split(".")[:2]) for name in imports(file) if name.startswith("solver.")}
    assert used <= PIPELINE_MAY_USE


def test_one_place_for_cuda_and_one_room_for_dicom_beside_the_phantom():
    files = modules("pipeline") + modules("solver")
    assert {file.name for file in files if uses(file, "numba.cuda")} == {"device.py"}
    readers = {file for file in files if uses(file, "pydicom") or uses(file, "highdicom")}
    assert {file.name for file in readers if file.parent.name != "dicom"} == {"phantom.py"}


def test_schema_file_equals_the_model():
    assert (ROOT / "config" / "case.schema.json").read_text() == case_file.schema(), "run `make schema`"


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
