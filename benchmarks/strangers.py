# SPDX-License-Identifier: Apache-2.0
"""Strangers: images, masks and surfaces drawn at random, each tried once with seeds, threshold and flow alone.

    python benchmarks/strangers.py --folder tried --seeds 100 103
    python benchmarks/strangers.py --folder tried --kinds 'vein|flap' --seeds 100 110 --json mine.json

Each runs through the stages of the workflow up to the lattice. Where a stage refuses, the advice is read out of its
message and followed to the letter (tests/support/advice.py). Kept are the way there, volumes beside the truth,
openings, failed checks, and a verdict: right; wrong and marked; wrong and green; refused.
"""

import argparse
import json
import logging
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
from pydicom.valuerep import format_number_as_ds

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from bench import add_results, write_results  # noqa: E402
from comparison import table  # noqa: E402

from pipeline.stages import import_mask, segment  # noqa: E402
from pipeline.stages.phantom import SeriesHeader, write_series  # noqa: E402
from tests.support import strangers  # noqa: E402
from tests.support.advice import MOST, Values, Workflow, advised, follow, merged  # noqa: E402

WIDE = 0.03
"""Error of the volume up to which it is right."""

FOLLOWED = (
    "set segment.method: local",
    "set segment.cut_planes: ",
    "set segment.dark_sheets: ",
    "set segment.gaps: ",
    "set segment.lower: ",
    "set segment.upper: ",
)
"""Advice of failed checks that is followed, too."""


def of_image(kind: str, seed: int, folder: Path) -> tuple[Values, dict[str, Any]]:
    """A case with a drawn image, and the truth; every second one has its threshold given."""
    drawn = strangers.image(kind, seed)
    place = [[round(float(x), 2) for x in drawn.image.to_mm(drawn.seed)]]
    segmented: Values = {"seeds_mm": place} | ({"lower": round(drawn.half_way, 1)} if seed % 2 else {})
    if drawn.ct:
        image = drawn.image.with_voxels(np.clip(np.rint(drawn.image.voxels), -1024, 3071).astype(np.int16))
        write_series(
            image, folder / "dicom", SeriesHeader(f"{kind}-{seed}", 2, kind, "AXIAL", drawn.image.spacing_mm[2])
        )
        if drawn.tilt_deg:
            tilt(folder / "dicom", drawn.tilt_deg)
        given = {"dicom": str(folder / "dicom")}
    else:
        drawn.image.write(folder / "image.nrrd")
        given = {"volume": str(folder / "image.nrrd")}
    flow = {"inlets": {"*": {"flow_ml_s": round(drawn.flow_ml_s, 3)}}}
    case: Values = {"input": given, "segment": segmented, "solve": flow}
    return case, {"true_ml": drawn.volume_ml, "true_openings": drawn.openings, "words": drawn.words}


def tilt(folder: Path, tilt_deg: float) -> None:
    """Write slices of a tilted gantry: each lies further along the columns than the one before."""
    slices = {path: pydicom.dcmread(path) for path in folder.rglob("*") if path.is_file()}
    axes = np.array(next(iter(slices.values())).ImageOrientationPatient, float).reshape(2, 3)
    normal = np.cross(*axes)
    middle = np.mean([np.array(each.ImagePositionPatient, float) @ normal for each in slices.values()])
    for path, each in slices.items():
        place = np.array(each.ImagePositionPatient, float)
        place = place + np.tan(np.radians(tilt_deg)) * (place @ normal - middle) * axes[1]
        each.ImagePositionPatient = [format_number_as_ds(float(x)) for x in place]
        each.GantryDetectorTilt = format_number_as_ds(tilt_deg)
        each.save_as(path)


def drawn(kind: str, seed: int, folder: Path) -> tuple[Values, dict[str, Any]]:
    """Make one: its case, and the truth."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    maker = of_image if kind in strangers.IMAGES else strangers.given
    return maker(kind, seed, folder)


def tried(case: Values, truth: dict[str, Any], folder: Path, until: str) -> dict[str, Any]:
    """Run a case in a folder, and follow what is advised.

    Parameters
    ----------
    case, truth : what is given; volume and openings, None where these are not known.
    folder : of its files.
    until : last stage.
    """
    workflow, began = Workflow(folder, until), time.process_time()
    found: dict[str, Any] = {"case": case, **truth}
    way, ended = [], ""
    try:
        steps = follow(workflow.run, case)
        way = [[step.refusal.stage, step.refusal.said, step.taken and step.taken.text] for step in steps]
        ended = "" if not steps or steps[-1].taken else "no way that settings can take"
    except AssertionError as error:
        ended = str(error)
    except Exception as error:  # a traceback is what is looked for, too
        ended = f"TRACEBACK {type(error).__name__}: {error}"
    found |= {"way": way, "ended": ended, "ran": workflow.ran, "seconds": round(time.process_time() - began, 1)}
    if ended:
        return found | {"verdict": "refused"}
    found |= judged(folder, truth)
    for step in steps:
        case = merged(case, step.taken.settings if step.taken else {})
    if (setting := advice_of(found["failed"], case)) is not None:
        found["advised"] = followed(workflow, merged(case, setting), truth)
    return found


def followed(workflow: Workflow, case: Values, truth: dict[str, Any], checks: int = MOST) -> dict[str, Any]:
    """What becomes of a case with what a failed check advises, with what refusals of that advise, and with what so many
    checks that fail then do.
    """
    try:
        steps = follow(workflow.run, case)
    except AssertionError as error:
        return {"verdict": "refused", "said": str(error)}
    if steps and not steps[-1].taken:
        return {"verdict": "refused", "said": steps[-1].refusal.said}
    way = [[step.refusal.stage, step.refusal.said, step.taken and step.taken.text] for step in steps]
    found = judged(workflow.folder, truth) | {"way": way}
    for step in steps:
        case = merged(case, step.taken.settings if step.taken else {})
    setting = advice_of(found["failed"], case)
    if setting is None or merged(case, setting) == case:
        return found
    if checks == 1:
        return found | {"advised": {"setting": setting, "verdict": f"no end after {MOST} checks"}}
    return found | {"advised": {"setting": setting, **followed(workflow, merged(case, setting), truth, checks - 1)}}


def advice_of(failed: list[str], case: Values) -> Values | None:
    """The setting of the first failed check whose advice is followed; none without one."""
    said = next((each for each in failed for words in FOLLOWED if words in each), None)
    return next((each.settings for each in advised(said, case) if each.settings), None) if said else None


def judged(folder: Path, truth: dict[str, Any]) -> dict[str, Any]:
    """Volumes, openings and checks of what came through, against the truth."""
    quality = json.loads((folder / "openings.json").read_text())
    found = {"surface_ml": quality["quality"]["volume_mm3"] / 1000, "openings": len(quality["openings"])}
    if (segmentation := folder / "segmentation.json").exists():
        record = json.loads(segmentation.read_text())
        found |= {"mask_ml": record["volume_ml"], "lower": record.get("lower"), "warnings": record["warnings"]}
    checks = json.loads((folder / "plausibility.json").read_text())["checks"]
    found["failed"] = [f"{check['name']}: {check.get('advice')}" for check in checks if not check["passed"]]
    found["cut_ml"] = sum(end["volume_mm3"] for end in quality["quality"].get("cut_ends", ())) / 1000
    whole = found["surface_ml"] + (found["cut_ml"] if "mask_ml" in found else 0)
    error, lost = found.get("mask_ml", whole) / truth["true_ml"] - 1, whole / truth["true_ml"] - 1
    found["error"], found["surface_error"] = error, lost
    right = max(abs(error), abs(lost)) <= WIDE and truth["true_openings"] in (found["openings"], None)
    found["verdict"] = "right" if right else "wrong, marked" if found["failed"] else "WRONG, GREEN"
    return found


def without_pages() -> None:
    """Leave out pages and pictures, which take longer than the stages."""
    for module in (segment, import_mask):
        setattr(module, "draw", lambda *_, **__: None)  # noqa: B010
        setattr(module, "render", lambda *_, **__: "")  # noqa: B010


def row(name: str, found: dict[str, Any]) -> list[str]:
    """Of the table."""
    volumes = [f"{100 * found[key]:+.1f}" if key in found else "" for key in ("error", "surface_error")]
    openings = f"{found.get('openings', '')} of {found['true_openings']}"
    way = "; ".join(f"{stage}: {said[:90]} -> {taken}" for stage, said, taken in found["way"])
    return [
        name,
        found["verdict"],
        *volumes,
        openings,
        " / ".join(found.get("failed", ()))[:120],
        way,
        found["ended"][:300],
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="for what is drawn and made")
    parser.add_argument("--kinds", default=".*", help="regular expression that names of kinds fit as a whole")
    parser.add_argument("--seeds", type=int, nargs=2, default=(100, 102), help="from, and up to but not with")
    parser.add_argument("--until", default="plausibility", help="last stage")
    add_results(parser)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    without_pages()
    records = {}
    for kind in (*strangers.IMAGES, *strangers.GIVEN):
        if not re.fullmatch(options.kinds, kind):
            continue
        for seed in range(*options.seeds):
            name = f"{kind}-{seed}"
            folder = options.folder / name
            records[name] = tried(*drawn(kind, seed, folder), folder, options.until)
            print(" | ".join(row(name, records[name])), flush=True)
    file = write_results(options, "strangers", records)
    columns = ["input", "verdict", "mask, %", "surface, %", "openings", "failed checks", "way", "ended"]
    print(table(columns, [row(name, each) for name, each in records.items()]), file, sep="\n\n")


if __name__ == "__main__":
    main()
