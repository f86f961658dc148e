# SPDX-License-Identifier: Apache-2.0
"""Drawn images whose failed checks and refusals are followed to the letter, to the mask in memory.

    python benchmarks/followed_advice.py --seeds 100 102
    python benchmarks/followed_advice.py --kinds 'calcium|vein' --seeds 100 110 --steps 3 --json mine.json

Every second one has its threshold half way between the true levels. Of all settings that failed checks or a refusal
name, in their order, the first that the case does not have yet is merged into it, and the lumen is found again. Kept of
each step are error, verdict, failed checks and what was taken. To the lattice, with openings: strangers.py.
"""

import argparse
import json
import logging
import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from bench import default_file, provenance  # noqa: E402

from pipeline.case.settings.base import parse  # noqa: E402
from pipeline.case.settings.images import FilterSettings, SegmentSettings  # noqa: E402
from pipeline.stages.filter import filter_volume  # noqa: E402
from pipeline.stages.plausibility import of_lumen  # noqa: E402
from pipeline.stages.segment import segment  # noqa: E402
from solver.runtime.errors import StageError  # noqa: E402
from tests.support import strangers  # noqa: E402
from tests.support.advice import Refusal, Values, advised, merged  # noqa: E402
from tests.support.strange_images import Strange  # noqa: E402

RIGHT = 0.03
"""Error of the volume up to which it is right."""

LEFT_OUT = ("siphon", "reformatted", "phase-contrast", "thick-slices", "gantry-tilt", "turned-grid", "dark-blood")
"""Kinds that take minutes, or that only a stage before the filter reads."""


def posed(kind: str, seed: int) -> tuple[Strange, Values]:
    """An image, and its case."""
    drawn = strangers.image(kind, seed)
    if drawn.ct:
        voxels = np.clip(np.rint(drawn.image.voxels), -1024, 3071).astype(np.int16)
        drawn = replace(drawn, image=drawn.image.with_voxels(voxels))
    place = [round(float(x), 2) for x in drawn.image.to_mm(drawn.seed)]
    given: Values = {"lower": round(drawn.half_way, 1)} if seed % 2 else {}
    return drawn, {
        "input": {"volume": str(ROOT / "README.md")},  # a file that is there, for the case to be a case
        "segment": {"seeds_mm": [place]} | given,
        "solve": {"inlets": {"*": {"flow_ml_s": round(drawn.flow_ml_s, 3)}}},
    }


def step_of(drawn: Strange, case: Values) -> dict[str, Any]:
    """What comes of a case: error, verdict and what is said."""
    try:
        filtered = filter_volume(drawn.image, parse(FilterSettings, case.get("filter", {}), "filter"))
        settings = parse(SegmentSettings, case["segment"], "segment")
        record = segment(filtered, settings, drawn.image, "CT" if drawn.ct else None).record
    except StageError as error:
        return {"verdict": "refused", "said": [str(error)]}
    except Exception as error:  # a traceback is what is looked for, too
        return {"verdict": "TRACEBACK", "said": [f"{type(error).__name__}: {error}"]}
    off = record["volume_ml"] / drawn.volume_ml - 1
    checks = [check for check in of_lumen(record) if not check["passed"]]
    outcome = ("right" if abs(off) <= RIGHT else "wrong") + (", marked" if checks else ", green")
    chosen = {key: record[key] for key in ("upper_chosen", "method_chosen") if key in record}
    said = [f"{check['name']}: {check['advice']}" for check in checks]
    return {"verdict": outcome, "error": round(off, 4), "said": said} | chosen


def followed(kind: str, seed: int, most: int) -> list[dict[str, Any]]:
    """The first outcome of an image, and those of what each advises, up to a number of steps."""
    drawn, case = posed(kind, seed)
    steps, causes = list[dict[str, Any]](), set[str]()
    while True:
        step = step_of(drawn, case)
        steps.append(step)
        if step["verdict"] == "refused":
            cause = Refusal("segment", step["said"][0]).cause
            if cause in causes:
                step["again"] = True
                return steps
            causes.add(cause)
        ways = [way for said in step["said"] for way in advised(said, case) if way.settings and not way.deed]
        way = next((way for way in ways if merged(case, way.settings) != case), None)
        if way is None or len(steps) > most:
            return steps
        step["taken"] = way.text
        case = merged(case, way.settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default=".*", help="regular expression that names of kinds fit as a whole")
    parser.add_argument("--seeds", type=int, nargs=2, default=(100, 102), help="from, and up to but not with")
    parser.add_argument("--steps", type=int, default=3, help="most pieces of advice that are followed")
    parser.add_argument("--json", type=Path, help="file for the results; default: in benchmarks/results by date")
    parser.add_argument("--commit", help="of what was run, where git cannot tell it")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    results = {**provenance(options), "records": {}}
    file = options.json or default_file("followed-advice", results["hardware"])
    kinds = [kind for kind in strangers.IMAGES if kind not in LEFT_OUT and re.fullmatch(options.kinds, kind)]
    for seed in range(*options.seeds):
        for kind in kinds:
            steps = results["records"][f"{kind}-{seed}"] = followed(kind, seed, options.steps)
            way = [
                f"{each['verdict']} {100 * each['error']:+.1f} %" if "error" in each else "refused" for each in steps
            ]
            print(f"{kind}-{seed}: {' -> '.join(way)}", flush=True)
            file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for name, place in (("first", 0), ("last", -1)):
        print(name, dict(Counter(steps[place]["verdict"] for steps in results["records"].values())))


if __name__ == "__main__":
    main()
