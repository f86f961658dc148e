# SPDX-License-Identifier: Apache-2.0
"""Pages of docs/ that show what cases of validation measured, from their records; see :mod:`validation.evidence`."""

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.case.settings.reference import anchor
from validation.goals import Cell, Goal, bound, number

SOLVING = "solving on "
"""What the clock of a study begins with, before its devices."""


def _rows(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    lines = ["| " + " | ".join(line) + " |" for line in (columns, *([number(cell) for cell in row] for row in rows))]
    return "\n".join([lines[0], "|" + "---|" * len(columns), *lines[1:]])


def section(record: dict[str, Any], to_docs: str = "") -> str:
    """What a page shows of a case; `to_docs` leads from the page's folder to docs/, as in ``../``."""
    parts = [record["question"]] if "question" in record else []
    parts.append(f"Reference: {record['reference']}.")
    if record["failure"]:
        parts.append(f"**Failed**: {record['failure']}")
    for table in record["tables"]:
        parts += ([table["note"]] if table["note"] else []) + [_rows(table["columns"], table["rows"])]
    parts += [f"![{figure['caption']}]({to_docs}{figure['file']})" for figure in record["figures"]]
    parts += [f"Warning of the solver: {warning}" for warning in record.get("warnings", ())]
    parts.append(made_by(record["made"]))
    return "\n\n".join(parts)


def made_by(made: dict[str, Any]) -> str:
    """A sentence on what :func:`made` recorded and how long it took, of ``seconds`` by ``clock``."""
    changed = " and changes on top" if made["changed"] else ""
    return (
        f"Measured {made['date']}, commit `{made['commit']}`{changed}, {made['versions']}, "
        f"{made['seconds']:.0f} s of {clock_of(made)}."
    )


def clock_of(made: dict[str, Any]) -> str:
    """What the seconds of a record are of."""
    return str(made.get("clock", "processor time"))


def result_of(goal: Goal, failed: bool = False) -> str:
    """Result of a goal in a word, with the reason where there is one; `failed`: of a case that fails by such a
    fault.
    """
    if goal.lost:
        return "**failed**: it was reached before"
    if goal.fault and failed:
        return "**failed**"
    return "reached" if goal.met else f"**not reached**: {goal.why}" if goal.why else "**not reached**"


def overview(names: Sequence[str], records: dict[str, dict[str, Any]]) -> str:
    """All goals of the cases of a page, in their order there."""
    rows: list[Sequence[Cell]] = []
    for name in names:
        if name not in records:
            rows.append((name, "", "", "", "", "**not measured**"))
            continue
        record = records[name]
        title = record["title"]
        for goal in (Goal(**entry) for entry in record["goals"]):
            wanted = bound(goal.sign, goal.wanted)
            rows.append(
                (
                    title,
                    record["reference"],
                    goal.what,
                    wanted,
                    number(goal.reached),
                    result_of(goal, bool(record["failure"])),
                )
            )
        if record["failure"] and not any(Goal(**entry).fault for entry in record["goals"]):
            rows.append((title, record["reference"], "", "", "", f"**failed**: {record['failure']}"))
    minutes = sum(records[name]["made"]["seconds"] for name in names if name in records) / 60
    table = _rows(("case", "reference", "number", "to reach", "reached", "outcome"), rows)
    clocks = sorted({clock_of(records[name]["made"]) for name in names if name in records})
    if len(clocks) > 1:
        devices = sorted({device for clock in clocks for device in clock.removeprefix(SOLVING).split(", ")})
        clocks = [SOLVING + ", ".join(devices)]
    return f"{table}\n\nTogether {minutes:.0f} minutes of {''.join(clocks)}."


def markers(page: str, kind: str) -> list[str]:
    """Names at the markers ``<!-- kind:name -->`` of a page, in their order."""
    return re.findall(rf"<!-- {kind}:([\w-]+) -->", page)


@dataclass(frozen=True)
class Place:
    """Where a case stands: the page, by its path in docs/, and the heading above its marker."""

    page: str
    heading: str

    def link(self, page: str) -> str:
        """A link to the place from another page."""
        path = posixpath.relpath(self.page, posixpath.dirname(page) or ".")
        return f"[{self.heading}]({path}#{anchor(self.heading)})"


def places(pages: Mapping[str, str], kind: str) -> dict[str, Place]:
    """The place of each case by its name, in the order of the pages and of the markers on them."""
    found = {}
    for page, text in pages.items():
        heading = ""
        for line in re.finditer(rf"^#+ (?P<heading>.+)$|^<!-- {kind}:(?P<name>[\w-]+) -->$", text, re.MULTILINE):
            heading = line["heading"] or heading
            if line["name"]:
                found[line["name"]] = Place(page, heading)
    return found


def missed(page: str, at: Mapping[str, Place], records: Mapping[str, dict[str, Any]]) -> str:
    """The goals that were missed: of each case and quantity the one that was missed by most.

    Parameters
    ----------
    page : on which the table stands, by its path in docs/.
    at : of all cases, by name.
    records : of those that were measured, by name.
    """
    rows: list[Sequence[Cell]] = []
    for name in (name for name in at if name in records):
        quantities: dict[str, list[Goal]] = {}
        for goal in (Goal(**entry) for entry in records[name]["goals"]):
            quantities.setdefault(goal.what.rsplit(": ", 1)[-1], []).append(goal)
        for goals in quantities.values():
            lacking = [goal for goal in goals if not goal.met]
            if lacking:
                worst = max(lacking, key=lambda goal: abs(goal.reached - goal.wanted) / (abs(goal.wanted) or 1))
                wanted, count = bound(worst.sign, worst.wanted), f"{len(lacking)} of {len(goals)}"
                rows.append((at[name].link(page), worst.what, number(worst.reached), wanted, count))
    return _rows(("case", "goal missed by most", "reached", "to reach", "missed"), rows) if rows else "None."


def results(page: str, at: Mapping[str, Place], records: Mapping[str, dict[str, Any]]) -> str:
    """How many goals each case reached and missed; parameters as for :func:`missed`."""
    rows: list[Sequence[Cell]] = []
    for name, place in at.items():
        if name not in records:
            rows.append((place.link(page), "not measured", ""))
            continue
        reached = [Goal(**entry).met for entry in records[name]["goals"]]
        lacking = str(reached.count(False) or "")
        rows.append((place.link(page), reached.count(True), "**failed**" if records[name]["failure"] else lacking))
    return _rows(("case", "goals reached", "missed"), rows)


def written(pages: Mapping[str, str], records: Mapping[str, dict[str, Any]], kind: str = "ladder") -> dict[str, str]:
    """The pages with what the records hold at their markers of a kind.

    Parameters
    ----------
    pages : texts by their paths in docs/.
    records : by name.
    kind : ``ladder`` or ``study``.

    Raises
    ------
    ValueError
        If a record has no place on any page.
    """
    at = places(pages, kind)
    if homeless := sorted(records.keys() - at.keys()):
        raise ValueError(f"no page of docs/ has a marker <!-- {kind}:{homeless[0]} --> for what that case measured")
    marker = re.compile(
        rf"(?P<start><!-- {kind}(?::(?P<name>[\w-]+)| (?P<view>missed|results))? -->\n).*?(?P<end><!-- /{kind} -->)",
        re.DOTALL,
    )

    def fill(page: str, text: str) -> str:
        def replacement(found: re.Match[str]) -> str:
            name, view = found["name"], found["view"]
            if name:
                to_docs = "../" * page.count("/")
                block = section(records[name], to_docs) if name in records else "**Not measured.**"
            elif view:
                block = (missed if view == "missed" else results)(page, at, records)
            else:
                block = overview(markers(text, kind), dict(records))
            return f"{found['start']}\n{block}\n\n{found['end']}"

        return marker.sub(replacement, text)

    return {page: fill(page, text) for page, text in pages.items()}
