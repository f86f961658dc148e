# SPDX-License-Identifier: Apache-2.0
"""Dim junctions: arteries that open into wider veins, dimmer between, each segmented from a seed in the artery.

    python benchmarks/dim_junctions.py --seeds 100 120

What a failed check, or else a refusal, advises is followed to the letter, its last way out first, since that is the
seed in what is left out. Kept are the widths, the brightness between, each try, and how it ended: right, within 3 %;
wrong and marked; wrong and green; refused; or in a loop, where a try comes back.
"""

import argparse
import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from bench import add_results, write_results  # noqa: E402

from pipeline.case.settings.images import SegmentSettings  # noqa: E402
from pipeline.segmentation.chosen_method import reservations  # noqa: E402
from pipeline.stages.segment import segment  # noqa: E402
from solver.runtime.errors import StageError  # noqa: E402
from tests.pipeline.segmentation.test_parted import fistula  # noqa: E402
from tests.support.advice import Values, advised, merged  # noqa: E402

TRIES = 6


def way_out(said: list[str], case: Values) -> Values | None:
    """The last setting that the first of some texts names; None where none does."""
    for words in said:
        if ways := [each.settings for each in advised(words, case) if set(each.settings) == {"segment"}]:
            return ways[-1]
    return None


def tried(wider: float, mixed: float, method: str) -> dict[str, Any]:
    """A vessel, and what becomes of it by the advice."""
    image, whole_ml = fistula(wider, mixed)
    case: Values = {"input": {"volume": "image.nrrd"}, "solve": {"inlets": {"*": {"flow_ml_s": 1.0}}}}
    case["segment"] = {"seeds_voxel": [[10, 24, 20]], "method": method}
    tries, seen = [], []
    for _ in range(TRIES):
        seen.append(case)
        try:
            record = segment(image, SegmentSettings(**case["segment"]), image).record
            failed = sorted(reservations(record))
            error = record["volume_ml"] / whole_ml - 1
            tries.append({"error": round(error, 4), "failed": failed})
            ended = "right" if abs(error) <= 0.03 else "wrong, marked" if failed else "WRONG, GREEN"
            said = [words for words in record["warnings"] if "seeds_mm" in words or "segment.method: local" in words]
        except StageError as error:
            tries.append({"refused": str(error)})
            ended, said = "refused", [str(error)]
        setting = None if ended == "right" else way_out(said, case)
        if setting is None:
            return {"tries": tries, "ended": ended}
        case = merged(case, setting)
        if case in seen:
            return {"tries": tries, "ended": "LOOP"}
    return {"tries": tries, "ended": "LOOP"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs=2, default=(100, 120), help="from, and up to but not with")
    add_results(parser)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    records = {}
    for seed in range(*options.seeds):
        rng = np.random.default_rng([seed, 24])
        wider, mixed = float(rng.uniform(2, 4.5)), float(rng.uniform(0.3, 0.5))
        method = str(rng.choice(["auto", "local"]))
        drawn = {"wider": round(wider, 3), "mixed": round(mixed, 3), "method": method}
        records[f"junction-{seed}"] = drawn | tried(wider, mixed, method)
        print(seed, records[f"junction-{seed}"]["ended"], drawn, flush=True)
    print(write_results(options, "dim-junctions", records))


if __name__ == "__main__":
    main()
