# SPDX-License-Identifier: Apache-2.0
"""How outputs were made: checksums, settings, versions, host, times."""

import json
import logging
import os
import platform
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from solver.runtime.checksums import by_checksum, checksum
from solver.runtime.errors import StageError
from solver.runtime.memory import peak_memory_mb
from solver.runtime.sources import ROOMS, ROOT, SOURCES

PACKAGES = (
    "numpy",
    "numba",
    "llvmlite",
    "numba-cuda",
    "h5py",
    "scipy",
    "scikit-image",
    "SimpleITK",
    "pydicom",
    "highdicom",
    "python-gdcm",
    "pyjpegls",
    "pylibjpeg",
    "pylibjpeg-openjpeg",
    "pylibjpeg-rle",
    "vtk",
    "pydantic",
    "pyyaml",
    "jinja2",
    "matplotlib",
    "packaging",
    "pillow",
    "plotly",
    "snakemake",
)
"""All that the project asks for (pyproject.toml), and what makes Numba's machine code."""


@dataclass
class Job:
    """One run of a stage.

    Attributes
    ----------
    inputs, outputs : paths by role; an output's path is a temporary one that is renamed when the stage succeeds.
    lists : the same for inputs that are several paths.
    settings : the stage's section of the case.
    log : logger to the terminal and to the log file.
    more : values of the options of the stage's own.
    facts : what the stage wants kept in its provenance beside the common part (device, choices made).
    """

    stage: str
    inputs: dict[str, Path]
    outputs: dict[str, Path]
    settings: dict[str, Any]
    log: logging.Logger
    facts: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)
    lists: dict[str, list[Path]] = field(default_factory=dict)


RECORDS = "*.provenance.json"
"""Where stages of the workflow tell what they wrote, beside it."""


def provenance_record(job: Job, names: dict[str, str], started: datetime, seconds: float) -> dict[str, Any]:
    """How the outputs, of some names by role, were made. Inputs appear by role and checksum: their names may hold a
    patient's.

    Parameters
    ----------
    job : what was asked for.
    names : file names of the outputs by role.
    started : when the work began.
    seconds : that it took.
    """
    return {
        "stage": job.stage,
        "program": program_name(),
        "settings": by_checksum(job.settings),
        "inputs_sha256": {role: checksum(path) for role, path in job.inputs.items()}
        | {role: checksum(*paths) for role, paths in job.lists.items() if paths},
        "outputs_sha256": {names[role]: checksum(path) for role, path in job.outputs.items()},
        **job.facts,
        "versions": versions(),
        "host": {
            "machine": platform.machine(),
            "system": platform.platform(),
            "processor": processor(),
            "cores": os.cpu_count(),
        },
        "started": started.isoformat(timespec="seconds"),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
        **peak_memory_mb(),
    }


def require_as_written(path: Path) -> None:
    """Check that an input is what a stage wrote, where the provenance of one beside it tells of a file of its name.

    Raises
    ------
    StageError
        If it is not, or the provenance cannot be read.
    """
    wanted: dict[str, str] = {}
    for record in path.parent.glob(RECORDS):
        stage = record.name.removesuffix(RECORDS[1:])
        try:
            written = json.loads(record.read_bytes()).get("outputs_sha256", {})
            wanted |= {written[path.name]: stage} if path.name in written else {}
        except (ValueError, AttributeError, TypeError):
            raise StageError(f"{record}: is damaged; run {stage} again") from None
    if wanted and checksum(path) not in wanted:
        stages = " or ".join(sorted(wanted.values()))
        raise StageError(
            f"{path}: is not what {stages} wrote, by the SHA-256 in the provenance beside it: it is damaged, or was"
            f" changed by hand; run {stages} again"
        )


def processor() -> str:
    """Model of the processor; nothing where the system does not tell."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(errors="replace").splitlines() if cpuinfo.is_file() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages; the checksum of the project's source; its commit, where Git keeps it,
    with ``-dirty`` where the source differs from it.
    """
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*") if file.suffix in SOURCES]
    found["hemolattice_source"] = checksum(*ROOT.glob("Snakefile"), *files)
    if (ROOT / ".git").exists() and (commit := _git("rev-parse", "HEAD").stdout.strip()):
        changed = _git("diff", "--quiet", "HEAD", "--", "Snakefile", *ROOMS).returncode
        found["hemolattice_commit"] = commit + ("-dirty" if changed else "")
    return found


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    """What Git says of the project; nothing where there is no Git."""
    try:
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return subprocess.CompletedProcess(words, 127, "", "")


def program_name() -> str:
    """Module that ``python -m`` runs."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return (spec.name if spec else "pipeline").removesuffix(".__main__")
