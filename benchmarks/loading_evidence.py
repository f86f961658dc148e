# SPDX-License-Identifier: Apache-2.0
"""Worst error of loading for each fault of a series, and what becomes of damaged files, as tables, and as JSON.

    python benchmarks/loading_evidence.py [--mutations 4000 --first 50000] [--json benchmarks/results/DATE-loading.json]

The series hold a linear function of the place in the patient; the error is the largest deviation of a measured voxel
from it, in per cent of the range of intensities. The same series are tests
(tests/validation/test_geometry_evidence.py).

Damaged files (--mutations) are drawn by seeds from --first on, of each format its share; those of the tests have other
seeds. Each is held against the sound file: what is wrong without a word, beyond the values of the damaged place
itself, is counted as silently wrong and listed.
"""

import argparse
import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

import numpy as np  # noqa: E402

from pipeline.case.settings.images import LoadSettings  # noqa: E402
from pipeline.stages.load import load  # noqa: E402
from solver.runtime.errors import StageError  # noqa: E402
from solver.runtime.provenance import versions  # noqa: E402
from tests.pipeline.files import test_damaged_volumes as volumes  # noqa: E402
from tests.support import given_mutations as given  # noqa: E402
from tests.support import mutations as sources  # noqa: E402
from tests.support import series_mutations  # noqa: E402
from tests.support.linear_field import worst_error  # noqa: E402
from tests.support.loading_faults import FAULTS, Fault  # noqa: E402
from validation.timing import hardware  # noqa: E402

LOG = logging.getLogger("evidence")


def outcome(fault: Fault, settings: LoadSettings | None) -> dict[str, Any] | None:
    """Error in per cent and what was resampled, or the reason of the refusal; None without settings."""
    if settings is None:
        return None
    with TemporaryDirectory() as folder:
        stack = fault.build(Path(folder))
        try:
            volume, facts = load(Path(folder), settings, LOG)
        except StageError as error:
            return {"refused": str(error).partition("): ")[2]}
    return {
        "worst_error_percent": 100 * worst_error(volume, stack, fault.offset),
        "matrix": facts.matrix,
        "outside_voxels": facts.outside_voxels,
        "policies": {key: found for key, found in facts.policies.items() if found["needed"]},
    }


def shown(result: dict[str, Any] | None) -> str:
    if result is None:
        return ""
    if "refused" in result:
        return "refused"
    return f"{result['worst_error_percent']:.3f} %"


@dataclass(frozen=True)
class Case:
    """A damaged file: its format, the kind of damage, what became of it, and whether it may be so."""

    format: str
    damage: str
    outcome: str
    allowed: bool


Judged = Iterator[Case]


def of_sources(count: int, first: int) -> Judged:
    """Series of files, of one file, in a ZIP file or with a DICOMDIR."""
    names = list(sources.KINDS)
    with TemporaryDirectory() as folder:
        for number in range(first, first + count):
            name = names[number % len(names)]
            outcome = sources.judge(name, number, Path(folder) / "PLANTED")["outcome"]
            yield Case("DICOM series", name, outcome, outcome in sources.KINDS[name].may_be(number))


def of_mixed_series(count: int, first: int) -> Judged:
    """Series that lost files, or hold those of others; the advice of a refusal is followed."""
    for number in range(first, first + count):
        case = series_mutations.judge(number)
        outcome = case["first"] + (f", then {case['then']}" if case["then"] else "")
        yield Case("mixed-up DICOM series", " and ".join(case["kinds"]), outcome, case["sound"])


def of_volumes(count: int, first: int) -> Judged:
    allowed = {"refused", "the same", "damaged values", "another header"}
    with TemporaryDirectory() as folder:
        files = {}
        for kind in volumes.KINDS:
            (Path(folder) / "sound" / kind).mkdir(parents=True)
            (Path(folder) / kind).mkdir()
            files[kind] = volumes.written(kind, Path(folder) / "sound" / kind)
        for number in range(first, first + count):
            kind = volumes.KINDS[number % len(volumes.KINDS)]
            damage = volumes.DAMAGES[number // len(volumes.KINDS) % len(volumes.DAMAGES)]
            rng = np.random.default_rng(number)
            outcome = volumes.judge(kind, files[kind], Path(folder) / kind, damage, rng)
            yield Case(f"volume {kind}", damage.__name__, outcome, outcome in allowed)


def of_given(name: str) -> Callable[[int, int], Judged]:
    def judged(count: int, first: int) -> Judged:
        with TemporaryDirectory() as folder:
            for number in range(first, first + count):
                *words, outcome = given.outcome(name, number, Path(folder))
                kind = f"{name} {words[0]}" if len(words) > 1 else name
                yield Case(kind, words[-1], outcome, outcome in given.FORMATS[name].may_be)

    return judged


SHARES = {
    of_sources: 0.325,
    of_mixed_series: 0.1,
    of_volumes: 0.275,
    **{
        of_given(name): share
        for name, share in {"DICOM segmentation": 0.1, "mask as a DICOM series": 0.1, "surface": 0.1}.items()
    },
}
"""Part of all damaged files that each way makes."""


def mutations(total: int, first: int) -> dict[str, Any]:
    """Counts by format and outcome of so many damaged files, and what was silently wrong."""
    clock, processor = time.monotonic(), time.process_time()
    sources.codecs.SECONDS = 2.0  # a sound frame of this size takes a thousandth of it
    cases = [case for make, share in SHARES.items() for case in make(round(share * total), first)]
    counts: dict[str, Counter[str]] = {}
    for case in cases:
        counts.setdefault(case.format, Counter())[case.outcome] += 1
    return {
        "count": len(cases),
        "seeds": [first, first + max(round(share * total) for share in SHARES.values()) - 1],
        "silently_wrong": [vars(case) for case in cases if not case.allowed],
        "outcomes": {name: dict(sorted(found.items())) for name, found in sorted(counts.items())},
        "damages": dict(sorted(Counter(f"{case.format}: {case.damage}" for case in cases).items())),
        "seconds": round(time.monotonic() - clock),
        "processor_s": round(time.process_time() - processor),
    }


def table(found: dict[str, Any]) -> str:
    """Formats down, outcomes across."""
    outcomes = sorted({outcome for row in found["outcomes"].values() for outcome in row})
    rows = [["format", *outcomes], ["---"] * (len(outcomes) + 1)]
    rows += [[name, *(str(row.get(each, "")) for each in outcomes)] for name, row in found["outcomes"].items()]
    wrong = len(found["silently_wrong"])
    return (
        "\n".join("| " + " | ".join(row) + " |" for row in rows) + f"\n{found['count']} files, {wrong} silently wrong"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--mutations", type=int, default=0, help="damaged files, of all formats together")
    parser.add_argument("--first", type=int, default=50_000, help="the first seed")
    options = parser.parse_args()
    path = options.json
    reported: dict[str, Any] = {
        "what": __doc__.splitlines()[0],
        "date": str(date.today()),
        "hardware": hardware(),
        "versions": versions(),
    }
    rows: dict[str, dict[str, Any]] = {
        name: {
            "default": outcome(fault, LoadSettings()),
            "treated": outcome(fault, fault.settings),
            "with": [*(f"{key}: resample" for key in fault.policies), *([f"phase: {fault.phase}"] * bool(fault.phase))],
        }
        for name, fault in FAULTS.items()
    }
    print("| fault | by default | treated | with |\n|---|---|---|---|")
    for name, row in rows.items():
        print(f"| {name} | {shown(row['default'])} | {shown(row['treated'])} | {', '.join(row['with'])} |")
    reported["faults"] = rows
    if options.mutations:
        reported["mutations"] = mutations(options.mutations, options.first)
        print(table(reported["mutations"]))
    if path:
        path.write_text(json.dumps(reported, indent=1) + "\n")


if __name__ == "__main__":
    main()
