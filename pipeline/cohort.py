"""All cases side by side: one page to sort, to filter and to compare, and the same numbers as a table.

Every case is there; those whose checks failed or that carry warnings come first and are marked.
"""

import csv
import io
from typing import Any

from pipeline.haemodynamics.indices import read_json
from pipeline.reporting.cohort_page import COLUMNS, Row, cohort_page
from pipeline.reporting.page import embed
from pipeline.reporting.pictures import to_webp
from solver.stage import Job, StageError, run_stage

THUMBNAILS = ("geometry", "streamlines", "segmentation", "slice")
"""Pictures of a case that may stand in the table, by preference; two are shown."""

THUMBNAIL_PIXELS = 150


def row(case: str, description: str, indices: dict[str, Any], pictures: list[bytes]) -> Row:
    """A case as the page shows it.

    Parameters
    ----------
    case, description : its name and what it is.
    indices : ``indices.json``.
    pictures : PNG files, which are scaled down.
    """
    failed = [check["name"] for check in indices["checks"] if not check["passed"]]
    values = {column.key: column.of(indices) for column in COLUMNS}
    small = [embed(to_webp(png, THUMBNAIL_PIXELS), "webp") for png in pictures]
    return Row(case, description, failed, list(indices["warnings"]), values, small)


def table(rows: list[Row]) -> str:
    """The rows as CSV: the case, whether its checks passed, how many warnings it has, its key figures, then what failed
    and what was warned of in words. Numbers have all their digits; what a case does not have is empty.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    shown = [column for column in COLUMNS if any(row.values[column.key] is not None for row in rows)]
    writer.writerow(["case", "checks_passed", "warnings", *(c.key for c in shown), "failed_checks", "warning_texts"])
    for each in rows:
        values = ["" if each.values[c.key] is None else repr(each.values[c.key]) for c in shown]
        passed = "no" if each.failed else "yes"
        writer.writerow(
            [each.case, passed, len(each.warnings), *values, "; ".join(each.failed), " | ".join(each.warnings)]
        )
    return stream.getvalue()


def _compute(job: Job) -> None:
    rows = []
    lists = (job.lists[role] for role in ("indices", "records", "figures"))
    for indices, record, figures in zip(*lists, strict=True):
        told = read_json(record)["settings"]
        if indices.parent != figures.parent or indices.parent != record.parent:
            raise StageError(f"{indices}, {record} and {figures} are of different cases; give them in one order")
        pictures = [path for name in THUMBNAILS if (path := figures / f"{name}.png").is_file()][:2]
        small = [path.read_bytes() for path in pictures]
        rows.append(row(indices.parent.name, told.get("description", ""), read_json(indices), small))
    rows.sort(key=lambda each: (not each.failed, not each.warnings, each.case))
    text = table(rows)
    job.outputs["table"].write_text(text, encoding="utf-8")
    job.outputs["page"].write_text(cohort_page(rows, text), encoding="utf-8")


if __name__ == "__main__":
    run_stage(
        "cohort",
        __doc__,
        inputs={
            "indices": "numbers, checks and warnings of each case, from postprocess (indices.json)",
            "records": "what the report says of itself, of each case in the same order (report.provenance.json)",
            "figures": "folder of the pictures of each case in the same order, from report",
        },
        outputs={"page": "the page (.html), to stand beside the folders of the cases", "table": "the numbers (.csv)"},
        compute=_compute,
        several=("indices", "records", "figures"),
    )
