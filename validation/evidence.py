"""Evidence: what a case of validation measures, what it has to reach, and what the pages of docs/ show of it.

Tests of the ladder and studies compare what they measured with what they have to reach. In a test it is a block::

    with Evidence("pipe", "Endless pipes", "parabola of Hagen and Poiseuille") as evidence:
        evidence.table(("nodes across", "L2"), [(10, 2e-3), (21, 5e-4)])
        evidence.draw(lambda figure: figure.subplots().loglog((10, 21), (2e-3, 5e-4)), "L2 against nodes across")
        evidence.reach("order", order((10, 21), (2e-3, 5e-4)), at_least=1.8)

At its end the block fails unless everything was reached. Where the environment variable `HEMO_EVIDENCE` names a
folder (``make validation``: docs), it also leaves ``evidence/<name>.json`` there, whether it held or not, and its
pictures; one that is run again first removes what it left before. ``python -m validation.evidence`` writes what lies
there into docs/validation.md and the pages of docs/validation/:

- between ``<!-- ladder:<name> -->`` and ``<!-- /ladder -->`` what a case measured, or that it has left nothing;
- at ``<!-- ladder -->`` all goals of the cases on that page;
- at ``<!-- ladder missed -->`` the goals of all pages that were missed, and at ``<!-- ladder results -->`` how many
  goals each case of all pages reached.

The same holds for studies (`validation.study`) with ``study`` in place of ``ladder``; their records are kept by
`validation.summary`.
"""

import json
import math
import os
import platform
import posixpath
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from pipeline.case.settings.reference import anchor
from solver.runtime.sources import ROOT

FOLDER = "HEMO_EVIDENCE"
MAX_FIGURE_BYTES = 200_000

SOLVING = "solving on "
"""What the clock of a study begins with, before its devices."""

SUMMARY, PAGES = "validation.md", "validation"
"""Of docs/: the page on all of validation, and the folder of its pages."""

Cell = str | int | float


def order(nodes_across: Iterable[float], errors: Iterable[float]) -> float:
    """Order of convergence: the slope of log(error) against log(spacing), by linear regression."""
    size, error = np.array([*nodes_across], float), np.array([*errors], float)
    return float(-np.polyfit(np.log(size), np.log(error), 1)[0])


@dataclass(frozen=True)
class Goal:
    """A number that was to be reached: `sign` +1 where it is an upper bound, -1 where a lower one.

    `held` is the bound that the test holds where `wanted` is out of reach, for which `why` gives the reason; `stood`
    tells whether what was held was reached before, too.
    """

    what: str
    reached: float
    wanted: float
    sign: int
    held: float
    why: str = ""
    stood: bool = False

    @property
    def met(self) -> bool:
        """Whether the number was reached."""
        return self.sign * self.reached <= self.sign * self.wanted

    @property
    def stands(self) -> bool:
        """Whether what is held was reached; not by NaN."""
        return self.sign * self.reached <= self.sign * self.held

    @property
    def lost(self) -> bool:
        """Whether what is held was reached before, but not now."""
        return self.stood and not self.stands

    @property
    def fault(self) -> str:
        """What is wrong; empty if nothing is."""
        if not self.stands:
            return f"{self.what}: {self.reached:.4g}, where {bound(self.sign, self.held)} is held"
        if self.why and self.met:
            return f"{self.what}: {self.reached:.4g} reaches {bound(self.sign, self.wanted)}; ask no less of it"
        return ""


@dataclass
class Evidence:
    """Of one case: `name` of its files, `title` and `reference` for readers."""

    name: str
    title: str
    reference: str
    goals: list[Goal] = field(default_factory=list)
    tables: list[dict[str, Any]] = field(default_factory=list)
    figures: list[tuple[Callable[[Any], Any], str]] = field(default_factory=list)

    def reach(
        self,
        what: str,
        reached: float,
        *,
        at_most: float = math.nan,
        at_least: float = math.nan,
        held: float | None = None,
        why: str = "",
    ) -> None:
        """Compare a number with one bound, or, where that is out of reach for a reason, with the one that is `held`.

        Raises
        ------
        ValueError
            If there are two bounds or none, or one that is held without a reason.
        """
        if math.isnan(at_most) == math.isnan(at_least):
            raise ValueError(f"{what}: one bound, please")
        if (held is None) != (not why):
            raise ValueError(f"{what}: what is held in place of the goal needs its reason")
        wanted, sign = (at_most, 1) if math.isnan(at_least) else (at_least, -1)
        self.goals.append(Goal(what, float(reached), wanted, sign, wanted if held is None else held, why))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Cell]], note: str = "") -> None:
        """A table of numbers and words, with a sentence before it.

        Raises
        ------
        ValueError
            If a row has more or fewer cells than there are columns.
        """
        kept = [[cell.item() if isinstance(cell, np.generic) else cell for cell in row] for row in rows]
        if not all(len(row) == len(columns) for row in kept):
            raise ValueError(f"{self.name}: {len(columns)} columns, and other rows")
        self.tables.append({"columns": list(columns), "rows": kept, "note": note})

    def draw(self, draw: Callable[[Any], Any], caption: str) -> None:
        """A picture, drawn by ``draw(figure)`` on an empty Matplotlib figure where it is kept."""
        self.figures.append((draw, caption))

    def keep(self, path: Path, pictures: Path, folder: str, failure: str = "", **more: Any) -> None:
        """Write the record and, unless there is a failure, the pictures.

        Parameters
        ----------
        path : of the record, JSON.
        pictures : stem of their files: ``<pictures>.png``, ``<pictures>-2.png`` and so on.
        folder : of docs/, in which the pictures will lie.
        failure : what went wrong; empty if nothing did.
        more : further keys of the record, ``made`` among them.
        """
        kept = []
        for number, (draw, caption) in enumerate([] if failure else self.figures):
            file = pictures.with_name(f"{pictures.name}{f'-{number + 1}' if number else ''}.png")
            file.write_bytes(_picture(draw))
            kept.append({"file": f"{folder}/{file.name}", "caption": caption})
        record = {
            "name": self.name,
            "title": self.title,
            "reference": self.reference,
            "failure": failure,
            "goals": [asdict(goal) for goal in self.goals],
            "tables": self.tables,
            "figures": kept,
            **more,
        }
        path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def __enter__(self) -> "Evidence":
        self._since = time.process_time()
        for file in self._files():
            file.unlink(missing_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        faults = [goal.fault for goal in self.goals if goal.fault]
        if kind is None and not self.goals:
            faults = ["nothing was to be reached"]
        failure = f"{kind.__name__}: {error}" if kind else "; ".join(faults)
        if FOLDER in os.environ:
            folder = Path(os.environ[FOLDER])
            for name in ("evidence", "figures"):
                (folder / name).mkdir(parents=True, exist_ok=True)
            seconds = {"seconds": round(time.process_time() - self._since, 1)}
            pictures = folder / "figures" / f"ladder-{self.name}"
            self.keep(folder / "evidence" / f"{self.name}.json", pictures, "figures", failure, made=made() | seconds)
        if kind is None and failure:
            raise AssertionError(f"{self.title}: {failure}")

    def _files(self) -> list[Path]:
        if FOLDER not in os.environ:
            return []
        folder = Path(os.environ[FOLDER])
        pictures = [f"ladder-{self.name}.png", f"ladder-{self.name}-[0-9].png"]
        return [
            folder / "evidence" / f"{self.name}.json",
            *(file for name in pictures for file in (folder / "figures").glob(name)),
        ]


def _picture(draw: Callable[[Any], Any]) -> bytes:
    """The picture as PNG, in the style of the reports, colours of lines from dark to light."""
    import matplotlib as mpl
    from cycler import cycler
    from matplotlib.figure import Figure

    from pipeline.reporting.figures import STYLE, to_png

    colours = cycler(color=mpl.colormaps["viridis"](np.linspace(0, 0.85, 5)))
    with mpl.rc_context(STYLE | {"axes.prop_cycle": colours}):
        figure = Figure(figsize=(7, 3.2), layout="constrained")
        draw(figure)
        picture = to_png(figure)
    if len(picture) > MAX_FIGURE_BYTES:
        raise ValueError(f"a picture of {len(picture)} bytes: draw less (at most {MAX_FIGURE_BYTES})")
    return picture


def made() -> dict[str, Any]:
    """By which code, when, and on what."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False).stdout

    return {
        "commit": git("rev-parse", "--short=10", "HEAD").strip(),
        "changed": bool(git("status", "--porcelain", "--", "solver", "pipeline", "tests").strip()),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "versions": f"Python {platform.python_version()}, NumPy {np.__version__}, Numba {metadata.version('numba')}",
    }


def number(value: Cell) -> str:
    """A number as tables show it: four digits, powers of ten where it is very small or large."""
    if isinstance(value, str | int):
        return str(value)
    if value != 0 and not 1e-3 <= abs(value) < 1e4:
        return f"{value:.2e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{value:.4g}"


def bound(sign: int, value: float) -> str:
    """A bound as tables show it."""
    return f"{'≤' if sign > 0 else '≥'} {number(value)}"


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


def documents(summary: Path, pages: Path) -> dict[str, str]:
    """Texts of docs/validation.md and of the pages of docs/validation/, by their paths in docs/: the summary first."""
    paths = {SUMMARY: summary} | {f"{PAGES}/{page.name}": page for page in sorted(pages.glob("*.md"))}
    return {path: file.read_text(encoding="utf-8") for path, file in paths.items()}


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """The records of a folder, by name."""
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))}


def write(folder: Path) -> None:
    """Write what the cases of the ladder have left in ``evidence/`` of a folder into its pages of validation."""
    for page, text in written(documents(folder / SUMMARY, folder / PAGES), read(folder / "evidence")).items():
        (folder / page).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs")
