# SPDX-License-Identifier: Apache-2.0
"""Check: what a run needs of this machine, and a flow that the solver computes on it."""

import json
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from pipeline.case.settings.yaml_file import write_yaml
from pipeline.command.launch import launch, snakemake
from pipeline.command.version import required, version
from solver.run.machine import machine
from solver.runtime.errors import StageError
from solver.runtime.memory import gigabytes
from solver.runtime.provenance import processor

LEAST_PYTHON = (3, 11)
FORCE_N_M3, HEIGHT_MM, VISCOSITY_PA_S, NODES = 20.0, 2.0, 0.0035, 10
"""Of the flow of the self-test, between two plates, driven by a force along them."""
TOLERANCE = 1e-3
"""Largest relative error of its peak speed. Walls lie half-way between nodes, where the two-relaxation-time collision
with Lambda = 3/16 has the parabola exactly (Ginzburg and d'Humieres 2003, doi:10.1103/PhysRevE.68.066614); a thousandth
is what a steady flow may still change by when it is taken as settled (``solve.steady_tolerance``).
"""


def check(with_self_test: bool) -> int:
    """Print what there is, a line each; the exit status, 1 if anything is missing or wrong.

    Raises
    ------
    StageError
        If the self-test fails.
    """
    python = sys.version_info >= LEAST_PYTHON
    print(f"hemolattice  {version()}")
    print(f"python       {platform.python_version()}{'' if python else '; 3.11 is needed: install a newer one'}")
    faults = list(missing_packages())
    print(f"packages     {len(required()) - len(faults)} of {len(required())} are there{''.join(faults)}")
    found = machine()
    print(f"processor    {processor() or platform.processor() or 'not known'}, {found.cores} cores")
    print(f"memory       {gigabytes(found.memory_bytes)} free")
    print(f"disk         {gigabytes(shutil.disk_usage(Path.cwd()).free)} free in this folder")
    gpu = f"{found.device}, {gigabytes(found.device_bytes)} free, driver {found.driver}"
    print(f"gpu          {gpu if found.device else f'none, runs take the processor: {found.no_device}'}", flush=True)
    if with_self_test:
        print(
            "self-test    the solver computes a flow (the first time it is compiled, a minute or two) ...", flush=True
        )
        print(f"self-test    {self_test()}")
    return 0 if python and not faults else 1


def missing_packages() -> Iterator[str]:
    """What is said of each package that a run needs and that is not there, or is another version."""
    for wanted in map(Requirement, required()):
        try:
            there = metadata.version(wanted.name)
        except metadata.PackageNotFoundError:
            yield f"; {wanted} is missing: pip install '{wanted}'"
            continue
        if not wanted.specifier.contains(there, prereleases=True):
            yield f"; {wanted} is needed and {there} is there: pip install '{wanted}'"


def expected_mm_s() -> float:
    """Peak speed at the nodes: u(y) = F (h^2/4 - y^2) / (2 mu), of which the innermost nodes lie half a spacing from
    the middle, mm/s.
    """
    half_m, innermost_m = 5e-4 * HEIGHT_MM, 5e-4 * HEIGHT_MM / NODES
    return 1e3 * FORCE_N_M3 * (half_m**2 - innermost_m**2) / (2 * VISCOSITY_PA_S)


def self_test() -> str:
    """Compute the flow by the stages of a case, in a folder that is gone afterwards; what came out.

    Raises
    ------
    StageError
        If a stage fails, or the peak speed is wrong.
    """
    case = {
        "input": {"geometry": {"shape": "channel", "height_mm": HEIGHT_MM, "ends": "periodic"}},
        "voxelize": {"nodes_across": NODES},
        "solve": {"backend": "cpu", "force_n_m3": [FORCE_N_M3, 0, 0], "viscosity_pa_s": VISCOSITY_PA_S},
    }
    with tempfile.TemporaryDirectory(prefix="hemolattice-") as place:
        folder, summary, began = Path(place), Path("results/self-test/solve.json"), time.monotonic()
        (folder / "config/cases").mkdir(parents=True)
        (folder / "config/cases/self-test.yaml").write_text(write_yaml(case), encoding="utf-8")
        with (folder / "log").open("w") as log:
            command = snakemake(["--cores", "1"], {"cases": "self-test"}, [str(summary)])
            failed = launch(command, cwd=folder, stdout=log, stderr=log)
        if failed:
            last = (folder / "log").read_text(encoding="utf-8", errors="replace").splitlines()[-30:]
            raise StageError("\n".join(["self-test: the workflow failed; its last lines:", *last]))
        peak = 1e3 * json.loads((folder / summary).read_text(encoding="utf-8"))["max_speed_m_s"]
        return said_of(peak, time.monotonic() - began)


def said_of(peak_mm_s: float, seconds: float) -> str:
    """What is said of a peak speed that was computed.

    Raises
    ------
    StageError
        If it is wrong.
    """
    expected = expected_mm_s()
    error = abs(peak_mm_s / expected - 1)
    said = f"peak speed between two plates {peak_mm_s:.5g} mm/s, expected {expected:.5g} mm/s"
    if not error <= TOLERANCE:
        raise StageError(
            f"self-test: {said}: an error of {100 * error:.2g} %, {100 * TOLERANCE:g} % at most is right; remove the"
            " __pycache__ folders of HemoLattice, which hold what was compiled, and install its packages again"
        )
    return f"{said} (error {100 * error:.1g} %, at most {100 * TOLERANCE:g} %), in {seconds:.0f} s"
