"""Evidence: what a case of validation measures, what it has to reach, and what docs/validation.md shows of it.

Tests of the ladder and studies compare what they measured with what they have to reach. In a test it is a block::

    with Evidence("pipe", "Endless pipes", "parabola of Hagen and Poiseuille") as evidence:
        evidence.table(("nodes across", "L2"), [(10, 2e-3), (21, 5e-4)])
        evidence.draw(lambda figure: figure.subplots().loglog((10, 21), (2e-3, 5e-4)), "L2 against nodes across")
        evidence.reach("order", order((10, 21), (2e-3, 5e-4)), at_least=1.8)

At its end the block fails unless everything was reached. Where the environment variable `HEMO_EVIDENCE` names a
folder (``make validation``: docs), it also leaves ``evidence/<name>.json`` there, whether it held or not, and its
pictures; one that is run again first removes what it left before. ``python -m validation.evidence`` writes what lies
there between the markers ``<!-- ladder:<name> -->`` and ``<!-- /ladder -->`` of docs/validation.md, and all that was to
be reached into the table at ``<!-- ladder -->``. A marker whose case has left nothing says so. Of the studies
(`validation.study`) the same holds at ``<!-- study:<name> -->``; their records are kept by `validation.summary`.
"""

import json
import math
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from solver.runtime.sources import ROOT

FOLDER = "HEMO_EVIDENCE"
MAX_FIGURE_BYTES = 200_000

SOLVING = "solving on "
"""What the clock of a study begins with, before its devices."""

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
        self, what: str, reached: float, *, at_most: float = math.nan, at_least: float = math.nan,
        held: float | None = None, why: str = "",
    ) -> None:  # fmt: skip
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
        folder : beside docs/validation.md, in which the pictures will lie.
        failure : what went wrong; empty if nothing did.
        more : further keys of the record, ``made`` among them.
        """
        kept = []
        for number, (draw, caption) in enumerate([] if failure else self.figures):
            file = pictures.with_name(f"{pictures.name}{f'-{number + 1}' if number else ''}.png")
            file.write_bytes(_picture(draw))
            kept.append({"file": f"{folder}/{file.name}", "caption": caption})
        record = {
            "name": self.name, "title": self.title, "reference": self.reference, "failure": failure,
            "goals": [asdict(goal) for goal in self.goals], "tables": self.tables, "figures": kept, **more,
        }  # fmt: skip
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
    lines = [columns, ["---"] * len(columns), *([number(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def section(record: dict[str, Any]) -> str:
    """What docs/validation.md shows of a case."""
    parts = [record["question"]] if "question" in record else []
    parts.append(f"Reference: {record['reference']}.")
    if record["failure"]:
        parts.append(f"**Failed**: {record['failure']}")
    for table in record["tables"]:
        parts += ([table["note"]] if table["note"] else []) + [_rows(table["columns"], table["rows"])]
    parts += [f"![{figure['caption']}]({figure['file']})" for figure in record["figures"]]
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
    """Everything that was to be reached, in the order of the page."""
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
    table = _rows(("case", "reference", "number", "to reach", "reached", "verdict"), rows)
    clocks = sorted({clock_of(records[name]["made"]) for name in names if name in records})
    if len(clocks) > 1:
        devices = sorted({device for clock in clocks for device in clock.removeprefix(SOLVING).split(", ")})
        clocks = [SOLVING + ", ".join(devices)]
    return f"{table}\n\nTogether {minutes:.0f} minutes of {''.join(clocks)}."


def markers(page: str, kind: str) -> list[str]:
    """Names at the markers ``<!-- kind:name -->`` of a page, in their order."""
    return re.findall(rf"<!-- {kind}:([\w-]+) -->", page)


def written(page: str, records: dict[str, dict[str, Any]], kind: str = "ladder") -> str:
    """The page with what the records hold at its markers of a kind, ``ladder`` or ``study``.

    Raises
    ------
    ValueError
        If a record has no place on the page.
    """
    names = markers(page, kind)
    if homeless := sorted(records.keys() - set(names)):
        raise ValueError(f"docs/validation.md has no marker <!-- {kind}:{homeless[0]} --> for what that case measured")

    def replacement(found: re.Match[str]) -> str:
        name = found["name"]
        text = (
            (section(records[name]) if name in records else "**Not measured.**") if name else overview(names, records)
        )
        return f"{found['start']}\n{text}\n\n{found['end']}"

    marker = rf"(?P<start><!-- {kind}(:(?P<name>[\w-]+))? -->\n).*?(?P<end><!-- /{kind} -->)"
    return re.sub(marker, replacement, page, flags=re.DOTALL)


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """The records of a folder, by name."""
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))}


def write(folder: Path) -> None:
    """Write what the cases of the ladder have left in ``evidence/`` of a folder into its validation.md."""
    page = folder / "validation.md"
    page.write_text(written(page.read_text(encoding="utf-8"), read(folder / "evidence")), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs")
