# SPDX-License-Identifier: Apache-2.0
"""The time left that stages showed, beside what they then took: from the logs of cases that have run.

    python benchmarks/time_left.py results/demo results/pulse --json results.json

A stage's log has what its live line showed. For each stage that took at least `--least` seconds: what was shown last
when a fifth of it was over (its start by Python and imports counts, as a user waits for it, too), what it still took
from when that was said, and the quotient; how often more was shown than before, and how often without a reason. A
stage that had shown nothing by then has none.
"""

import argparse
import json
import re
import sys
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from bench import provenance  # noqa: E402

from pipeline.command.live import LEFT, in_seconds  # noqa: E402
from solver.runtime.progress import is_more  # noqa: E402

LINE = re.compile(r"(\d\d):(\d\d):(\d\d) [\w.]+: (.*)")
START_S = 2.0
"""Of a stage by Python and imports, before its provenance begins to count."""


def lines_of(log: Path, began: datetime) -> list[tuple[float, str]]:
    """Seconds since the stage began, and what was said then."""
    found = []
    for match in filter(None, map(LINE.match, log.read_text(encoding="utf-8", errors="replace").splitlines())):
        hour, minute, second = map(int, match.groups()[:3])
        at = began.replace(hour=hour, minute=minute, second=second, microsecond=0)
        found.append((((at - began + timedelta(hours=12)) % timedelta(days=1) - timedelta(hours=12)), match[4]))
    return [(START_S + max(passed.total_seconds(), 0.0), said) for passed, said in found]


def of_stage(log: Path, record: dict[str, Any]) -> dict[str, Any]:
    """What a stage showed after a fifth of its time, and how what it showed went up.

    Parameters
    ----------
    log : of the stage.
    record : its provenance.
    """
    seconds = record["seconds"] + START_S
    lines = lines_of(log, datetime.fromisoformat(record["started"]))
    shown = [(at, in_seconds(match[1]), said) for at, said in lines if (match := LEFT.search(said))]
    by_then = [(at, left) for at, left, _ in shown if at <= seconds / 5 + 0.5]
    found: dict[str, Any] = {"stage": record["stage"], "seconds": round(seconds, 1), "shown_s": None}
    if by_then:
        at, left = by_then[-1]
        found |= {"shown_s": left, "needed_s": round(seconds - at, 1), "quotient": round(left / (seconds - at), 2)}
    rises = [said for (_, before, _), (_, left, said) in pairwise(shown) if is_more(before, left)]
    return found | {"more_than_before": len(rises), "without_reason": sum("more than before" not in r for r in rises)}


def of_case(folder: Path, least_s: float) -> list[dict[str, Any]]:
    """The stages of a case that took so long, in the order in which they ran."""
    records = [json.loads(path.read_text()) for path in folder.glob("*.provenance.json")]
    kept = [each for each in records if each["seconds"] + START_S >= least_s]
    logs = [(folder / "logs" / f"{each['stage']}.log", each) for each in sorted(kept, key=lambda each: each["started"])]
    return [of_stage(log, each) for log, each in logs if log.is_file()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="results of cases")
    parser.add_argument("--least", type=float, default=20.0, help="seconds of a stage that is told")
    parser.add_argument("--commit", help="of what is measured, where git cannot tell it")
    parser.add_argument("--json", type=Path, help="file for the results")
    arguments = parser.parse_args()
    found = {folder.name: of_case(folder, arguments.least) for folder in arguments.folders}
    for case, stages in found.items():
        for stage in stages:
            print(case, json.dumps(stage))
    if arguments.json:
        of_run = provenance(argparse.Namespace(least=arguments.least, commit=arguments.commit))
        arguments.json.write_text(json.dumps({**of_run, "cases": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
