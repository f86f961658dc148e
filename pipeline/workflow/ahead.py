# SPDX-License-Identifier: Apache-2.0
"""Compilation ahead: processes beside the workflow compile what a first run needs (pipeline/members/loops_ahead.py).

They have the lowest priority and end with the workflow, whatever ends that: the pipe to them is closed then. They make
no file of a case. A stage takes what it finds in the store of compiled loops, and compiles what is not there yet.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pipeline.workflow.programs import code, search_path
from pipeline.workflow.recovery import RESULTS
from solver.runtime.memory import available_bytes
from solver.runtime.sources import ROOT

MODULE = "pipeline.members.loops_ahead"
MODELS = (
    "density_kg_m3",
    "viscosity_pa_s",
    "blood",
    "backend",
    "precision",
    "collision",
    "velocity_set",
    "lambda_trt",
    "equilibrium",
    "smagorinsky",
    "walls",
    "start",
)
"""Settings of ``solve`` by which its loops are chosen, as far as they do not depend on openings."""
LEAST_FREE_BYTES = 4e9
"""Each process takes up to a gigabyte, most of it for compilation, beside the stages."""


CORES_FOR_TWO = 3
"""Cores with which loops of the vessel's stages have a process of their own: with fewer, the stages are as fast."""


def models_of(section: str) -> str:
    """These settings of a section as JSON, and whether there is a pulse, which begins at rest."""
    stated = json.loads(section)
    models = {name: stated[name] for name in MODELS}
    pulse = any(inlet["waveform"] for inlet in stated["inlets"].values())
    return json.dumps(models | {"pulse": pulse} | ({"start": "rest"} if pulse else {}), sort_keys=True)


def mark_of(part: str, models: str, folder: Path) -> Path:
    """The file which says that all of a part is compiled, by this source and these releases.

    Parameters
    ----------
    part : vessel or flow.
    models : of :func:`models_of`; of a vessel none.
    folder : of these files.
    """
    made_of = (code(MODULE), version("numba"), sys.version, part, models)
    return folder / f"ahead-{sha256(repr(made_of).encode()).hexdigest()[:24]}"


def store() -> Path:
    """Where Numba keeps what is compiled of the folder of that module, or of all, as the environment says."""
    return Path(os.environ.get("NUMBA_CACHE_DIR") or ROOT / "pipeline/members/__pycache__")


def compile_ahead(jobs: Iterable[Any], cores: int, cases: Any) -> list[subprocess.Popen[bytes]]:
    """Start to compile for the first of the jobs that solves a flow of the user; studies may measure time.

    Parameters
    ----------
    jobs : of Snakemake, all that are to run.
    cores : of the workflow; one alone is left to the stages.
    cases : what :class:`pipeline.workflow.rules.Cases` says of them.

    Returns
    -------
    The processes: one for the flow, and one for the vessel from its image to its lattice where there are cores for it.
    None where nothing is left to compile, nowhere to keep it, too little memory, or ``HEMO_AHEAD=0`` declines it.
    """
    of_users = [(job.rule.name, job.wildcards.case) for job in jobs if job.rule.name in ("surface", "solve")]
    runs = [case for rule, case in of_users if rule == "solve" and case in cases.cohort]
    if cores < 2 or not runs or os.environ.get("HEMO_AHEAD") == "0" or available_bytes() < LEAST_FREE_BYTES:
        return []
    needed = {"flow": models_of(cases.section(runs[0], "solve"))}
    if cores >= CORES_FOR_TWO and ("surface", runs[0]) in of_users:
        needed["vessel"] = "{}"
    folder, logs = store(), RESULTS / runs[0] / "logs"
    with suppress(OSError):  # the run does without it
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            missing = [part for part, models in needed.items() if not mark_of(part, models, folder).exists()]
            return [_started(part, needed[part], folder, logs) for part in missing]
    return []


def _started(part: str, models: str, folder: Path, logs: Path) -> subprocess.Popen[bytes]:
    """A process that compiles a part, and leaves its mark in the folder."""
    mark = mark_of(part, models, folder).absolute()
    return subprocess.Popen(
        [sys.executable, "-P", "-m", MODULE, part, str(mark), models, str(logs)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": search_path(), "NUMBA_NUM_THREADS": "1"},
    )
