# SPDX-License-Identifier: Apache-2.0
"""Check: what a run needs of this machine, and a flow that the solver computes on it."""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from pipeline.case.settings.flow import SolveSettings
from pipeline.command.version import required, version
from pipeline.workflow.programs import search_path
from solver.run.machine import machine
from solver.runtime.errors import StageError
from solver.runtime.memory import gigabytes
from solver.runtime.provenance import processor
from solver.runtime.sources import ROOT

LEAST_PYTHON = (3, 11)
FORCE_N_M3, HEIGHT_MM, VISCOSITY_PA_S, NODES = 20.0, 2.0, 0.0035, 10
"""Of the flow of the self-test, between two plates, driven by a force along them."""
CHANNEL = ROOT / "data/self-test/channel.h5"
"""Its node arrays, as the stages make them of the shape ``channel``: to compile the loops of the geometry, which say
nothing of the solver, takes as long as to compile those of the flow.
"""
TOLERANCE = 1e-3
"""Largest relative error of its peak speed. Walls lie half-way between nodes, where the two-relaxation-time collision
with Lambda = 3/16 has the parabola exactly (Ginzburg and d'Humieres 2003, doi:10.1103/PhysRevE.68.066614); a thousandth
is what a steady flow may still change by when it is taken as settled (``solve.steady_tolerance``).
"""


NEXT = "yes; next: hemolattice demo, or hemolattice new CASE"


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
    print(f"pages        {ROOT / 'docs'}: user-guide.md, quantities.md and others")
    if with_self_test:
        print(
            "self-test    the solver computes a flow (the first time it is compiled, some ten seconds) ...", flush=True
        )
        print(f"self-test    {self_test()}")
    ready = python and not faults
    print(f"ready        {NEXT if ready else 'no; see the lines above'}")
    return 0 if ready else 1


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
    """Let the solver compute the flow, in a folder that is gone afterwards; what came out.

    Raises
    ------
    StageError
        If it fails, or the peak speed is wrong.
    """
    flow = {"backend": "cpu", "force_n_m3": [FORCE_N_M3, 0, 0], "viscosity_pa_s": VISCOSITY_PA_S}
    settings = SolveSettings.model_validate(flow).model_dump_json()
    with tempfile.TemporaryDirectory(prefix="hemolattice-") as place:
        names = {"flow": "flow.vtkhdf", "monitor": "monitor.csv", "summary": "solve.json", "provenance": "solve.p.json"}
        outputs = [word for role, name in names.items() for word in (f"--{role}", name)]
        command = [sys.executable, "-P", "-m", "solver", "--nodes", str(CHANNEL), "--settings", settings, *outputs]
        environment, began = os.environ | {"PYTHONPATH": search_path(), "NUMBA_NUM_THREADS": "1"}, time.monotonic()
        ran = subprocess.run(
            command,
            cwd=place,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if ran.returncode:
            raise StageError(
                "\n".join(["self-test: the solver failed; its last lines:", *ran.stdout.splitlines()[-30:]])
            )
        peak = 1e3 * json.loads((Path(place) / names["summary"]).read_text(encoding="utf-8"))["max_speed_m_s"]
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
