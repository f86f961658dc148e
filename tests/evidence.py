"""The ladder of validation: what its cases measure is asserted, kept, and written into docs/validation.md.

A case compares what it measured with what it has to reach, inside a test marked ``ladder``::

    with Case("pipe", "Endless pipes", "parabola of Hagen and Poiseuille") as case:
        case.table(("nodes across", "L2"), [(10, 2e-3), (21, 5e-4)])
        case.draw(lambda figure: figure.subplots().loglog((10, 21), (2e-3, 5e-4)), "L2 against nodes across")
        case.reach("order", order((10, 21), (2e-3, 5e-4)), at_least=1.8)

At the end of the block it fails unless everything was reached. Where the environment variable `HEMO_EVIDENCE` names a
folder (``make validation``: docs), the case also leaves ``evidence/<name>.json`` there, whether it held or not, and its
pictures; a case that is run again first removes what it left before. ``python tests/evidence.py`` writes what lies
there between the markers ``<!-- ladder:<name> -->`` and ``<!-- /ladder -->`` of docs/validation.md, and all that was to
be reached into the table at ``<!-- ladder -->``. A marker whose case has left nothing says so.
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
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
FOLDER = "HEMO_EVIDENCE"
MAX_FIGURE_BYTES = 120_000

Cell = str | int | float


def order(nodes_across: Iterable[float], errors: Iterable[float]) -> float:
    """Order of convergence: the slope of log(error) against log(spacing), by linear regression."""
    size, error = np.array([*nodes_across], float), np.array([*errors], float)
    return float(-np.polyfit(np.log(size), np.log(error), 1)[0])


@dataclass(frozen=True)
class Goal:
    """A number that was to be reached: `sign` +1 where it is an upper bound, -1 where a lower one.

    `held` is the bound that the test holds where `wanted` is out of reach, for which `why` gives the reason.
    """

    what: str
    reached: float
    wanted: float
    sign: int
    held: float
    why: str = ""

    @property
    def met(self) -> bool:
        return self.sign * self.reached <= self.sign * self.wanted

    @property
    def fault(self) -> str:
        """What is wrong; empty if nothing is."""
        if not self.sign * self.reached <= self.sign * self.held:  # so that NaN is no success
            return f"{self.what}: {self.reached:.4g}, where {bound(self.sign, self.held)} is held"
        if self.why and self.met:
            return f"{self.what}: {self.reached:.4g} reaches {bound(self.sign, self.wanted)}; ask no less of it"
        return ""


@dataclass
class Case:
    """One case of the ladder: `name` of its files, `title` and `reference` for readers."""

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
        """Compare a number with one bound, or, where that is out of reach for a reason, with the one that is `held`."""
        assert math.isnan(at_most) != math.isnan(at_least), f"{what}: one bound, please"
        assert (held is None) == (not why), f"{what}: what is held in place of the goal needs its reason"
        wanted, sign = (at_most, 1) if math.isnan(at_least) else (at_least, -1)
        self.goals.append(Goal(what, float(reached), wanted, sign, wanted if held is None else held, why))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Cell]], note: str = "") -> None:
        """A table of numbers and words, with a sentence before it."""
        kept = [[cell.item() if isinstance(cell, np.generic) else cell for cell in row] for row in rows]
        assert all(len(row) == len(columns) for row in kept), f"{self.name}: {len(columns)} columns, and other rows"
        self.tables.append({"columns": list(columns), "rows": kept, "note": note})

    def draw(self, draw: Callable[[Any], Any], caption: str) -> None:
        """A picture, drawn by ``draw(figure)`` on an empty Matplotlib figure where it is kept."""
        self.figures.append((draw, caption))

    def __enter__(self) -> "Case":
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
            self._keep(failure)
        if kind is None:
            assert not failure, f"{self.title}: {failure}"

    def _files(self) -> list[Path]:
        if FOLDER not in os.environ:
            return []
        folder = Path(os.environ[FOLDER])
        pictures = [f"ladder-{self.name}.png", f"ladder-{self.name}-[0-9].png"]
        return [
            folder / "evidence" / f"{self.name}.json",
            *(file for name in pictures for file in (folder / "figures").glob(name)),
        ]

    def _keep(self, failure: str) -> None:
        folder = Path(os.environ[FOLDER])
        (folder / "evidence").mkdir(parents=True, exist_ok=True)
        (folder / "figures").mkdir(exist_ok=True)
        kept = []
        for number, (draw, caption) in enumerate([] if failure else self.figures):
            file = folder / "figures" / f"ladder-{self.name}{f'-{number + 1}' if number else ''}.png"
            file.write_bytes(_picture(draw))
            kept.append({"file": f"figures/{file.name}", "caption": caption})
        record = {
            "name": self.name, "title": self.title, "reference": self.reference, "failure": failure,
            "goals": [asdict(goal) for goal in self.goals], "tables": self.tables, "figures": kept,
            "made": _made(time.process_time() - self._since),
        }  # fmt: skip
        text = json.dumps(record, indent=1, ensure_ascii=False)
        (folder / "evidence" / f"{self.name}.json").write_text(text + "\n", encoding="utf-8")


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
    assert len(picture) <= MAX_FIGURE_BYTES, (
        f"a picture of {len(picture)} bytes: draw less (at most {MAX_FIGURE_BYTES})"
    )
    return picture


def _made(seconds: float) -> dict[str, Any]:
    """By which code, when, on what, and the processor time that it took."""
    import numba

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False).stdout

    return {
        "commit": git("rev-parse", "--short=10", "HEAD").strip(),
        "changed": bool(git("status", "--porcelain", "--", "solver", "pipeline", "tests").strip()),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "versions": f"Python {platform.python_version()}, NumPy {np.__version__}, Numba {numba.__version__}",
        "seconds": round(seconds, 1),
    }


def number(value: Cell) -> str:
    """A number as tables show it: four digits, powers of ten where it is very small or large."""
    if isinstance(value, str | int):
        return str(value)
    if value != 0 and not 1e-3 <= abs(value) < 1e4:
        return f"{value:.2e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{value:.4g}"


def bound(sign: int, value: float) -> str:
    return f"{'≤' if sign > 0 else '≥'} {number(value)}"


def _rows(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    lines = [columns, ["---"] * len(columns), *([number(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def section(record: dict[str, Any]) -> str:
    """What docs/validation.md shows of a case."""
    made = record["made"]
    parts = [f"Reference: {record['reference']}."]
    if record["failure"]:
        parts.append(f"**Failed**: {record['failure']}")
    for table in record["tables"]:
        parts += ([table["note"]] if table["note"] else []) + [_rows(table["columns"], table["rows"])]
    parts += [f"![{figure['caption']}]({figure['file']})" for figure in record["figures"]]
    changed = " and changes on top" if made["changed"] else ""
    parts.append(
        f"Measured {made['date']}, commit `{made['commit']}`{changed}, {made['versions']}, "
        f"{made['seconds']:.0f} s of processor time."
    )
    return "\n\n".join(parts)


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
            verdict = "reached" if goal.met else f"**not reached**: {goal.why}" if not goal.fault else "**failed**"
            wanted = bound(goal.sign, goal.wanted)
            rows.append((title, record["reference"], goal.what, wanted, number(goal.reached), verdict))
        if record["failure"] and not any(Goal(**entry).fault for entry in record["goals"]):
            rows.append((title, record["reference"], "", "", "", f"**failed**: {record['failure']}"))
    minutes = sum(records[name]["made"]["seconds"] for name in names if name in records) / 60
    table = _rows(("case", "reference", "number", "to reach", "reached", "verdict"), rows)
    return f"{table}\n\nTogether {minutes:.0f} minutes of processor time."


MARKER = re.compile(r"(<!-- ladder:(?P<name>[\w-]+) -->\n).*?(<!-- /ladder -->)", re.DOTALL)
OVERVIEW = re.compile(r"(<!-- ladder -->\n).*?(<!-- /ladder -->)", re.DOTALL)


def written(page: str, records: dict[str, dict[str, Any]]) -> str:
    """The page with what the records hold at its markers.

    Raises
    ------
    ValueError
        If a record has no place on the page.
    """
    names = [found["name"] for found in MARKER.finditer(page)]
    if homeless := sorted(records.keys() - set(names)):
        raise ValueError(f"docs/validation.md has no marker <!-- ladder:{homeless[0]} --> for what that case measured")

    def replacement(found: re.Match[str]) -> str:
        text = section(records[found["name"]]) if found["name"] in records else "**Not measured.**"
        return f"{found[1]}\n{text}\n\n{found[3]}"

    page = MARKER.sub(replacement, page)
    return OVERVIEW.sub(lambda found: f"{found[1]}\n{overview(names, records)}\n\n{found[2]}", page)


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """What the cases have left in ``evidence/`` of a folder, by name."""
    files = sorted((folder / "evidence").glob("*.json"))
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}


def write(folder: Path) -> None:
    """Write what the cases have left in a folder into its validation.md."""
    page = folder / "validation.md"
    page.write_text(written(page.read_text(encoding="utf-8"), read(folder)), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs")
