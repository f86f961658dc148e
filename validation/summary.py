# SPDX-License-Identifier: Apache-2.0
"""All studies: one page to read, the pages of docs/, and what was lost against the records kept in docs/studies/.

docs/studies/ keeps of each study that has a place in docs/validation.md or docs/validation/ the record and pictures of
the largest set of runs that was made: a smaller set is compared with it, and takes the place of none.
"""

import json
import shutil
from pathlib import Path
from typing import Any, get_args

from pipeline.case.case_file import RunSet
from pipeline.files.json_file import read_json
from solver.runtime.command_line import run_stage
from solver.runtime.provenance import Job
from validation.evidence import SUMMARY, documents, read
from validation.goals import Goal
from validation.record_pages import places, written
from validation.validation_page import validation_page

Record = dict[str, Any]

SETS: tuple[str, ...] = get_args(RunSet)
"""From the smallest to the largest."""


def with_past(record: Record, before: Record | None) -> Record:
    """A record whose goals know whether they stood before, by the record that was kept."""
    past = [Goal(**goal) for goal in before["goals"]] if before else []
    stood = {goal.what for goal in past if goal.stands or goal.stood}
    return record | {"goals": [goal | {"stood": goal["what"] in stood} for goal in record["goals"]]}


def kept(records: dict[str, Record], before: dict[str, Record]) -> dict[str, Record]:
    """Of those records that take the place of what was kept: of sets as large, or larger."""
    return {
        name: record
        for name, record in records.items()
        if name not in before or SETS.index(record["runs_of"]) >= SETS.index(before[name]["runs_of"])
    }


def _compute(job: Job) -> None:
    pages, past = documents(job.inputs["old-docs"], job.inputs["old-pages"]), read(job.inputs["old-kept"])
    records = {}
    for path in job.lists["records"]:
        record = read_json(path)
        records[record["name"]] = with_past(record, past.get(record["name"]))
    folders = {folder.name: folder for folder in job.lists["figures"]}
    goals = [(record["title"], Goal(**goal)) for record in records.values() for goal in record["goals"]]
    lost = [f"{title}: {goal.fault}" for title, goal in goals if goal.lost]
    counts = {"goals": len(goals), "reached": sum(goal.met for _, goal in goals), "lost": lost}
    job.outputs["goals"].write_text(json.dumps(counts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    job.outputs["page"].write_text(validation_page(list(records.values()), folders), encoding="utf-8")
    at = places(pages, "study")
    shown = kept({name: record for name, record in records.items() if name in at}, past)
    shutil.copytree(job.inputs["old-kept"], job.outputs["kept"])
    for name, record in shown.items():
        _replace(job.outputs["kept"], record, folders[name])
    job.outputs["pages"].mkdir()
    for page, text in written(pages, read(job.outputs["kept"]), "study").items():
        file = job.outputs["docs"] if page == SUMMARY else job.outputs["pages"] / Path(page).name
        file.write_text(text, encoding="utf-8")


def _replace(kept: Path, record: Record, figures: Path) -> None:
    """Put a record and its pictures in place of those of the same name."""
    name = record["name"]
    for pattern in (f"{name}.png", f"{name}-[0-9].png"):
        for picture in kept.glob(pattern):
            picture.unlink()
    text = json.dumps(record, indent=1, ensure_ascii=False)
    (kept / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    for picture in figures.glob("*.png"):
        shutil.copy(picture, kept)


if __name__ == "__main__":
    run_stage(
        "validation",
        __doc__,
        inputs={
            "records": "what was measured, of each study (JSON)",
            "figures": "folder of its pictures, in the same order",
            "old-docs": "docs/validation.md as it is",
            "old-pages": "docs/validation as it is",
            "old-kept": "docs/studies as it is",
        },
        outputs={
            "page": "the page (.html)",
            "goals": "how many goals were reached, and which were lost (JSON)",
            "docs": "docs/validation.md with what is kept of the studies",
            "pages": "docs/validation, the same",
            "kept": "docs/studies with the records and pictures",
        },
        compute=_compute,
        several=("records", "figures"),
    )
