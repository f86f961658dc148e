# SPDX-License-Identifier: Apache-2.0
"""Dim junctions: arteries that open into wider veins, dimmer between, each segmented from a seed in one of them.

    python benchmarks/dim_junctions.py --seeds 100 120
    python benchmarks/dim_junctions.py --seeds 100 120 --drawn --seed-in vein

They lie on one line or, where drawn, in any pose, end to end or end to side (tests/support/fistulas.py). What a failed
check, or else a refusal, advises is followed to the letter, its last way out first, since that is the seed in what is
left out. Kept are how it was drawn, each try, and how it ended: right, within 3 %; wrong and marked; wrong and green;
refused; or in a loop, where a try comes back.
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
from pipeline.files.volume import Volume  # noqa: E402
from pipeline.segmentation.chosen_method import reservations  # noqa: E402
from pipeline.stages.segment import segment  # noqa: E402
from solver.runtime.errors import StageError  # noqa: E402
from tests.pipeline.segmentation.test_parted import fistula  # noqa: E402
from tests.support import fistulas  # noqa: E402
from tests.support.advice import Values, advised, merged  # noqa: E402

TRIES = 6


def way_out(said: list[str], case: Values) -> Values | None:
    """The last setting that the first of some texts names; None where none does."""
    for words in said:
        if ways := [each.settings for each in advised(words, case) if set(each.settings) == {"segment"}]:
            return ways[-1]
    return None


def on_a_line(seed: int, seed_in: str) -> tuple[Volume, float, dict[str, Any], dict[str, Any]]:
    """A vessel on one line: its image, its volume in mL, settings, and how it was drawn."""
    rng = np.random.default_rng([seed, 24])
    wider, mixed = float(rng.uniform(2, 4.5)), float(rng.uniform(0.3, 0.5))
    method = str(rng.choice(["auto", "local"]))
    image, whole_ml = fistula(wider, mixed)
    place = [10, 24, 20] if seed_in == "artery" else [84, 24, 20]
    drawn = {"wider": round(wider, 3), "mixed": round(mixed, 3), "method": method}
    return image, whole_ml, {"seeds_voxel": [place], "method": method}, drawn


def in_any_pose(seed: int, seed_in: str) -> tuple[Volume, float, dict[str, Any], dict[str, Any]]:
    """The same of a vessel in any pose."""
    drawn = fistulas.fistula(seed)
    return drawn.image, drawn.volume_ml, {"seeds_voxel": [list(getattr(drawn, seed_in))]}, {"words": drawn.words}


def tried(image: Volume, whole_ml: float, settings: dict[str, Any]) -> dict[str, Any]:
    """What becomes of a vessel by the advice."""
    case: Values = {"input": {"volume": "image.nrrd"}, "solve": {"inlets": {"*": {"flow_ml_s": 1.0}}}}
    case["segment"] = settings
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
    parser.add_argument("--drawn", action="store_true", help="in any pose instead of on one line")
    parser.add_argument("--seed-in", choices=("artery", "vein"), default="artery")
    add_results(parser)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    records = {}
    for seed in range(*options.seeds):
        image, whole_ml, settings, drawn = (in_any_pose if options.drawn else on_a_line)(seed, options.seed_in)
        records[f"junction-{seed}"] = drawn | tried(image, whole_ml, settings)
        print(seed, records[f"junction-{seed}"]["ended"], drawn, flush=True)
    print(write_results(options, "dim-junctions", records))


if __name__ == "__main__":
    main()
