# SPDX-License-Identifier: Apache-2.0
"""All cases side by side: one page to sort, to filter and to compare, and the same numbers as a table.

Every case is there, once for each scenario that it ran in; those that were not finished, whose checks failed or that
carry warnings come first and are marked.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from pipeline.case.settings.base import RunName, Section, parse
from pipeline.files.json_file import read_json
from pipeline.haemodynamics.trust import trust_of
from pipeline.reporting.cohort_page import BAND_ENDS, COLUMNS, Row, bands_of, cohort_page
from pipeline.reporting.dictionary import dictionary
from pipeline.reporting.report_page import embed
from pipeline.reporting.webp import to_webp
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job

THUMBNAILS = ("geometry", "streamlines", "segmentation", "slice", "tree-maps", "tree-sites")
"""Pictures of a case that may stand in the table, by preference; two are shown."""

THUMBNAIL_PIXELS = 150


class CohortInput(Section):
    """What the command line takes."""

    unfinished: dict[RunName, tuple[str, str]] = Field(
        default_factory=dict, description="runs that were not finished: the stage that failed, and what it said"
    )


def row(
    run: str, description: str, indices: dict[str, Any], pictures: list[bytes], bands: Sequence[Mapping[str, Any]] = ()
) -> Row:
    """A run as the page shows it.

    Parameters
    ----------
    run, description : name of its folder, and what the case is.
    indices : ``indices.json``.
    pictures : PNG files, which are scaled down.
    bands : of its figures, as in ``uncertainty.json``.
    """
    failed = [check["name"] for check in indices["checks"] if not check["passed"]]
    values = {column.key: column.of(indices) for column in COLUMNS}
    worth = {column.key: trust_of(indices.get("trust", ()), column.quantity, "") for column in COLUMNS}
    small = [embed(to_webp(png, THUMBNAIL_PIXELS), "webp") for png in pictures]
    state = {key: indices.get(key) or "" for key in ("unsettled", "unsteady")}
    network = _network(indices)
    ends = bands_of(values, bands)
    warnings = list(indices["warnings"])
    return Row(run, description, failed, warnings, values, worth, small, network=network, bands=ends, **state)


def _network(indices: dict[str, Any]) -> str:
    """The network in which the vessel of a run sits, or which is all of it, in words; empty where there is none."""
    name = (indices.get("network") or {}).get("name") or ""
    return f"in the network {name}" if name and "coupling" in indices else f"network {name} alone" if name else ""


def unfinished_row(run: str, stage: str, message: str) -> Row:
    """A run that was not finished, as the page shows it.

    Parameters
    ----------
    run : how it is called.
    stage : that ended it.
    message : of that stage.
    """
    keys = [column.key for column in COLUMNS]
    return Row(run, "", [], [], dict.fromkeys(keys), dict.fromkeys(keys, ""), [], stage, message)


def table(rows: list[Row]) -> str:
    """The rows as CSV: case and scenario, whether it was finished and its checks passed, how many warnings it has, its
    key figures, where there are any the ends of their bands, what each is worth where that is judged, then in words
    what failed and what was warned of, the stage that failed with its message, and, where any has one, the network
    of arteries. Numbers have all their digits; what a case does not have is empty.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    shown = [column for column in COLUMNS if any(row.values[column.key] is not None for row in rows)]
    banded = [column for column in shown if any(column.key in row.bands for row in rows)]
    judged = [column for column in shown if column.quantity]
    last = [*_LAST, *(["network"] if (around := any(row.network for row in rows)) else [])]
    ends = [f"{column.key}_{end}" for column in banded for end in BAND_ENDS]
    writer.writerow([*_FIRST, *(c.key for c in shown), *ends, *(f"{c.key}_trust" for c in judged), *last])
    for each in rows:
        values = ["" if each.values[c.key] is None else repr(each.values[c.key]) for c in shown]
        checked = ["no" if each.failed else "yes", len(each.warnings)] if each.finished else ["", ""]
        bounds = [end for c in banded for end in each.bands.get(c.key, (None, None))]
        values += ["" if end is None else repr(end) for end in bounds]
        worth = [each.worth[c.key] for c in judged]
        words = ["; ".join(each.failed), " | ".join(each.warnings), each.stage, each.message]
        words += [each.network] if around else []
        writer.writerow([each.case, each.scenario, "yes" if each.finished else "no", *checked, *values, *worth, *words])
    return stream.getvalue()


_FIRST = ("case", "scenario", "finished", "checks_passed", "warnings")
_LAST = ("failed_checks", "warning_texts", "failed_stage", "message")


def _compute(job: Job) -> None:
    unfinished = parse(CohortInput, job.settings, "--settings").unfinished
    rows = [unfinished_row(run, *why) for run, why in unfinished.items()]
    bands = {path.parent.name: read_json(path)["bands"] for path in job.lists.get("bands", ())}
    lists = (job.lists[role] for role in ("indices", "records", "figures"))
    for indices, record, figures in zip(*lists, strict=True):
        recorded = read_json(record)["settings"]
        if indices.parent != figures.parent or indices.parent != record.parent:
            raise StageError(f"{indices}, {record} and {figures} are of different cases; give them in one order")
        pictures = [path for name in THUMBNAILS if (path := figures / f"{name}.png").is_file()][:2]
        small = [path.read_bytes() for path in pictures]
        run, description = indices.parent.name, recorded.get("description", "")
        rows.append(row(run, description, read_json(indices), small, bands.get(run, ())))
    rows.sort(key=lambda each: (each.finished, not each.failed, not each.warnings, each.run))
    text = table(rows)
    job.outputs["table"].write_text(text, encoding="utf-8")
    job.outputs["dictionary"].write_text(dictionary(), encoding="utf-8")
    job.outputs["page"].write_text(cohort_page(rows, text), encoding="utf-8")
    job.log.info("%d of %d finished", len(rows) - len(unfinished), len(rows))
    for each in rows[: len(unfinished)]:
        job.log.info("not finished: %s: %s", each.run, f"{each.stage}: {each.message}" if each.stage else each.message)


if __name__ == "__main__":
    run_stage(
        "cohort",
        __doc__,
        inputs={
            "indices": "numbers, checks and warnings of each case, from postprocess (indices.json) or tree (tree.json)",
            "records": "what the report says of itself, of each case in the same order (*report.provenance.json)",
            "figures": "folder of the pictures of each case in the same order, from report",
            "bands": "bands of the figures of those cases that have any, from uncertainty (uncertainty.json)",
        },
        outputs={
            "page": "the page (.html), to stand beside the folders of the cases",
            "table": "the numbers (.csv)",
            "dictionary": "what the columns of all tables mean (.csv)",
        },
        compute=_compute,
        several=("indices", "records", "figures", "bands"),
        optional=("indices", "records", "figures", "bands"),
    )
