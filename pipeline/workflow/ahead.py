# SPDX-License-Identifier: Apache-2.0
"""Compilation ahead: a process beside the workflow compiles what a first run needs (pipeline/members/loops_ahead.py).

It has the lowest priority and ends with the workflow, whatever ends that: the pipe to it is closed then. It makes no
file of a case. A stage takes what it finds in the store of compiled loops, and compiles what is not there yet.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
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
"""The process takes up to a gigabyte, most of it for compilation, beside the stages."""


def models_of(section: str) -> str:
    """These settings of a section as JSON; a pulse begins at rest."""
    stated = json.loads(section)
    models = {name: stated[name] for name in MODELS}
    pulse = any(inlet["waveform"] for inlet in stated["inlets"].values())
    return json.dumps(models | ({"start": "rest"} if pulse else {}), sort_keys=True)


def mark_of(models: str, folder: Path) -> Path:
    """The file which says that all is compiled for these models, by this source and these releases."""
    made_of = (code(MODULE), version("numba"), sys.version, models)
    return folder / f"ahead-{sha256(repr(made_of).encode()).hexdigest()[:24]}"


def store() -> Path:
    """Where Numba keeps what is compiled of the folder of that module, or of all, as the environment says."""
    return Path(os.environ.get("NUMBA_CACHE_DIR") or ROOT / "pipeline/members/__pycache__")


def compile_ahead(jobs: Iterable[Any], cores: int, cases: Any) -> subprocess.Popen[bytes] | None:
    """Start to compile for the first of the jobs that solves a flow of the user; studies may measure time.

    Parameters
    ----------
    jobs : of Snakemake, all that are to run.
    cores : of the workflow; one alone is left to the stages.
    cases : what :class:`pipeline.workflow.rules.Cases` says of them.

    Returns
    -------
    The process; none where nothing is left to compile, nowhere to keep it, too little memory, or ``HEMO_AHEAD=0``
    declines it.
    """
    runs = [job.wildcards.case for job in jobs if job.rule.name == "solve" and job.wildcards.case in cases.cohort]
    if cores < 2 or not runs or os.environ.get("HEMO_AHEAD") == "0" or available_bytes() < LEAST_FREE_BYTES:
        return None
    folder, models, logs = store(), models_of(cases.section(runs[0], "solve")), RESULTS / runs[0] / "logs"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if (mark := mark_of(models, folder)).exists() or not os.access(folder, os.W_OK):
            return None
        return subprocess.Popen(
            [sys.executable, "-P", "-m", MODULE, str(mark.absolute()), models, str(logs)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": search_path(), "NUMBA_NUM_THREADS": "1"},
        )
    except OSError:  # the run does without it
        return None
