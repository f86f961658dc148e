# SPDX-License-Identifier: Apache-2.0
"""The page of the studies: what had to be reached, then each study with its question, tables and pictures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.reporting import cohort_page
from pipeline.reporting.report_page import embed, fill
from validation.goals import Goal, bound, number
from validation.record_pages import made_by, result_of


def validation_page(records: Sequence[Mapping[str, Any]], folders: Mapping[str, Path]) -> str:
    """The page.

    Parameters
    ----------
    records : of the studies, in the order in which they are shown.
    folders : with the pictures of each study, by its name.
    """
    studies = [dict(record) | _shown(record, folders[record["name"]]) for record in records]
    goals = [goal for study in studies for goal in study["rows"]]
    context = {
        "studies": studies,
        "count": len(goals),
        "reached": sum(state == "passed" for state, *_ in goals),
        "lost": sum(state == "failed" for state, *_ in goals),
        "number": number,
    }
    return fill(Path(__file__), context, style_of=Path(cohort_page.__file__))


def _shown(record: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Goals, pictures and the sentence on how it was made, as the page takes them."""
    pictures = [(embed((folder / Path(f["file"]).name).read_bytes()), f["caption"]) for f in record["figures"]]
    goals = [Goal(**goal) for goal in record["goals"]]
    rows = [
        (_state(goal), goal.what, bound(goal.sign, goal.wanted), number(goal.reached), result_of(goal).replace("*", ""))
        for goal in goals
    ]
    return {"rows": rows, "pictures": pictures, "made_by": made_by(record["made"]).replace("`", "")}


def _state(goal: Goal) -> str:
    return "failed" if goal.lost else "passed" if goal.met else "warned"
