# SPDX-License-Identifier: Apache-2.0
"""Crate: the folder of a case's results as an RO-Crate, which says how each file was made and how to make it again.

The crate follows Provenance Run Crate 0.5: the workflow, its steps, and each run of a stage with its inputs, outputs,
settings, versions, times and memory, as the stage's own record has them (``*.provenance.json``). Beside it lie the case
with all its settings, as a file for ``config/cases/``, and the workflow. Inputs appear by role and checksum.

With ``--check`` it compares a crate with its files, and with this project or with another crate.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from pipeline.case.settings.base import RunName, Section, parse
from pipeline.case.settings.yaml_file import write_yaml
from pipeline.reporting.crate_check import differences, faults, made_by, read_record, read_runs
from pipeline.reporting.crate_graph import (
    CASE,
    RECORD,
    RULES,
    WORKFLOW,
    StageRun,
    crate_metadata,
    kinds_of,
)
from solver.runtime.checksums import BY_CHECKSUM, by_checksum
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job, versions

HEAD = """\
# The case as it ran, with all settings. To run it again, copy this file to config/cases/NAME.yaml and give
# `snakemake --cores all --config cases=NAME`. What begins with sha256: stands for the file with that checksum: those of
# data/phantoms, data/waveforms and data/networks are found, in place of others write where the file is.
"""


class CrateInput(Section):
    """What the command line takes: the case with all its settings, and how its run is called."""

    run: RunName
    case: dict[str, Any] = Field(description="all sections of the case file, after defaults")


def case_again(case: Mapping[str, Any], runs: Sequence[StageRun]) -> dict[str, Any]:
    """A case file that makes the same results, and that names neither a file nor a patient.

    Parameters
    ----------
    case : all sections of the case, after defaults.
    runs : of its stages.

    Returns
    -------
    The sections with checksums in place of paths, what chooses a series or a segment as the stage's record has it, and
    the backend that the flow was solved on.
    """
    records = {run.name: run.record for run in runs}
    again = by_checksum(case)
    if load := records.get("load"):
        again["load"] = load["settings"]
        given = [key for key in ("dicom", "volume") if case["input"][key]]
        again["input"] |= dict.fromkeys(given, BY_CHECKSUM + load["inputs_sha256"]["source"])
    if mask := records.get("import_mask"):
        again["input"]["mask_segment"] = mask["settings"]["segment"]
    if solve := records.get("solve"):
        again["solve"]["backend"] = "cpu" if solve["device"].startswith("CPU") else "cuda"
    return again


def check() -> int:
    """Command line that compares a crate with its files, and with this project or another crate; 1 if it is not so."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.stages.crate", description=check.__doc__)
    parser.add_argument("--check", nargs="+", type=Path, required=True, metavar="FOLDER", help="one crate, or two")
    folders = parser.parse_args().check[:2]
    try:
        wrong = [f"{folder}: {fault}" for folder in folders for fault in faults(folder)]
        both = [read_runs(folder) for folder in folders] if not wrong else []
    except StageError as error:
        print(f"crate: error: {error}", file=sys.stderr)
        return 1
    if wrong:
        print("\n".join(wrong))
        return 1
    print("\n".join(f"{folder}: all files are as it says" for folder in folders))
    made = made_by(both[0])
    beside, where = (made_by(both[1]), str(folders[1])) if len(both) == 2 else (versions(), "here")
    for name in made.keys() & beside.keys():
        if made[name] != beside[name]:
            print(f"{name}: {made[name]}; {where}: {beside[name]}")
    changed = differences(*both) if len(both) == 2 else []
    if len(both) == 2:
        print("\n".join(changed) or "the same bits in all results")
    return int(bool(changed))


def _compute(job: Job) -> None:
    given = parse(CrateInput, job.settings, "--settings")
    folder = job.outputs["metadata"].parent
    runs = [_run_of(path, folder) for path in job.lists["records"]]
    again = case_again(given.case, runs)
    job.outputs["case"].write_text(HEAD + write_yaml(again), encoding="utf-8")
    shutil.copyfile(job.inputs["snakefile"], job.outputs["workflow"])
    added = {CASE: job.outputs["case"], WORKFLOW: job.outputs["workflow"]}
    job.outputs["workflow-rules"].mkdir()
    for path in job.lists["rules"]:
        added[RULES + path.name] = Path(shutil.copy(path, job.outputs["workflow-rules"]))
    metadata = crate_metadata(folder, given.run, given.case.get("description", ""), runs, added)
    job.outputs["metadata"].write_text(json.dumps(metadata, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    job.settings = {"run": given.run, "case": again}
    files = [entity for entity in metadata["@graph"] if "File" in kinds_of(entity)]
    size = sum(int(entity["contentSize"]) for entity in files)
    job.log.info("%d files, %.3g MB, %d runs of stages", len(files), size / 1e6, len(runs))


def _run_of(path: Path, folder: Path) -> StageRun:
    if folder not in path.parents or not path.name.endswith(RECORD):
        raise StageError(f"--records {path}: no record of a stage in {folder}, which is to be the crate; leave it out")
    return StageRun(path.relative_to(folder).as_posix().removesuffix(RECORD), read_record(path))


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(check())
    run_stage(
        "crate",
        __doc__,
        inputs={
            "records": "how each stage of the case made its files (*.provenance.json), in the order of the stages",
            "snakefile": "the workflow",
            "rules": "files of rules that it includes",
        },
        outputs={
            "metadata": "ro-crate-metadata.json, in the folder of the results",
            "case": "case.yaml, beside it: the case with all its settings",
            "workflow": "workflow.smk, beside it: the workflow",
            "workflow-rules": "pipeline/rules, below it: a folder for the files that it includes",
        },
        compute=_compute,
        several=("records", "rules"),
    )
