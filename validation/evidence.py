# SPDX-License-Identifier: Apache-2.0
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
from validation.goals import Cell, Goal
from validation.record_pages import written

FOLDER = "HEMO_EVIDENCE"
MAX_FIGURE_BYTES = 200_000

SUMMARY, PAGES = "validation.md", "validation"
"""Of docs/: the page on all of validation, and the folder of its pages."""


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

        Parameters
        ----------
        what : the number, in words.
        reached : the number.
        at_most, at_least : its bound, one of both.
        held : bound that must hold in place of one that is out of reach.
        why : the reason for that.

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

        Parameters
        ----------
        columns : heads.
        rows : cells.
        note : the sentence.

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
