# SPDX-License-Identifier: Apache-2.0
"""The printed report: what the page of a case says, on paper; figures, checks, pictures and tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.reporting.captions import caption
from pipeline.reporting.case_evidence import files_in, read_evidence
from pipeline.reporting.content import context
from pipeline.reporting.paper import Paper, by_words
from pipeline.reporting.tables import Rows

ASSUMED = (
    "Computed by a lattice-Boltzmann method in a rigid vessel, with a flow that was assumed. The marks say how well the"
    " flow was computed, not how true its assumptions are for this patient. For research; not a medical device."
)
TALL_PT = 300.0
"""Height of pictures of a whole vessel."""


def printed_report(folder: Path, title: str, description: str, version: str) -> bytes:
    """The report of a case as PDF.

    Parameters
    ----------
    folder : of its results.
    title, description : of the case.
    version : of the project that computed it.
    """
    found = context(read_evidence(files_in(folder)))
    figures = folder / "figures"
    paper = Paper(f"HemoLattice {version}")
    paper.heading(title, 18)
    paper.paragraph(description or "Blood flow from angiography.")
    paper.paragraph(ASSUMED)
    _worth(paper, found)
    _first_figures(paper, found)
    for name, keys, tables in _sections(found):
        pictures = [key for key in keys if (figures / f"{key}.png").is_file()]
        if not pictures and not any(rows for _, rows in tables):
            continue
        paper.heading(name)
        for head, rows in tables:
            _table(paper, head, rows)
        for key in pictures:
            paper.picture(figures / f"{key}.png", caption(key), TALL_PT if key in ("geometry", "streamlines") else 260)
    return paper.pdf(title)


def _worth(paper: Paper, found: Mapping[str, Any]) -> None:
    """What can be used, warnings, and checks that failed."""
    passed = sum(check["passed"] for check in found["checks"])
    paper.heading("All checks passed" if found["trusted"] else "Read this before the numbers")
    for words in (found["unsettled"], found["unsteady"]):
        if words:
            paper.paragraph(f"{words[0].upper()}{words[1:]}.")
    for _, words, groups in () if found["trusted"] else found["usable"]:
        paper.table([(words, ". ".join(groups))], (1, 5))
    for warning in found["warnings"]:
        paper.paragraph(f"· {warning}")
    paper.paragraph(f"{passed} of {len(found['checks'])} checks passed.")
    failed = [check for check in found["checks"] if not check["passed"]]
    _table(paper, ("failed check", "value", "limit"), [(each["name"], each["value"], each["limit"]) for each in failed])


def _first_figures(paper: Paper, found: Mapping[str, Any]) -> None:
    rows = []
    for tile in found["figures_first"]:
        worth = found["trust"].get(tile["trust"], {}).get("words", "")
        rows.append((tile["name"], f"{tile['value']} {tile['unit']}".rstrip(), worth, tile["usual"]))
    paper.heading("At a glance")
    paper.table(rows, (5, 2, 2, 4), ("", "value", "what it is worth", ""))


Tables = Sequence[tuple[Sequence[str], Rows]]


def _sections(found: Mapping[str, Any]) -> list[tuple[str, tuple[str, ...], Tables]]:
    """Headings, pictures and tables, in the order of the page."""
    plain: Sequence[str] = ()
    sacs: Tables = [((name, ""), rows) for name, rows in found["sacs"]]
    stages = [(stage, f"{seconds} s", finished) for stage, seconds, _, finished in found["stages"]]
    return [
        ("Vessel", ("geometry", "segmentation"), [(plain, found["mask"])]),
        ("Wall shear stress", ("wall", "wall-osi", "wall-rrt"), [(plain, found["wall"])]),
        ("Velocity", ("streamlines", "slice"), [(plain, found["volume"])]),
        ("Flow through the openings", ("waveform-flow", "cycle"), [_openings(found["openings"])]),
        ("Pressure", ("wall-pressure", "along"), [_openings(found["opening_pressures"]), found["drops"]]),
        ("Narrow places", (), [found["stenoses"]]),
        ("Sacs", (), sacs),
        ("How it was computed", (), [(plain, found["expected"]), (plain, found["models"]), (plain, found["outcome"])]),
        ("Stages", (), [(("stage", "time", "finished"), stages)]),
    ]


def _openings(table: Mapping[str, Any] | None) -> tuple[Sequence[str], Rows]:
    if table is None:
        return (), []
    rows = [(row["name"], row["role"], *row["numbers"]) for row in table["rows"]]
    return ("opening", "role", *table["head"]), rows


def _table(paper: Paper, head: Sequence[str], rows: Rows) -> None:
    if rows and len(rows[0]) == 2:
        paper.pairs([(name, value) for name, value in rows], head[0] if head else "")
    elif rows:
        paper.table(rows, by_words([head, *rows] if head else rows), head)
