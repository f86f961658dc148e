# SPDX-License-Identifier: Apache-2.0
"""What to do where a stage after the segmentation cannot go on because of the lumen of images: a gap or a thread in it,
or what it holds beside the vessel.
"""

import json
import re
from pathlib import Path
from typing import Any

from pipeline.segmentation.point_text import text_mm

GIVEN_MASK = "given mask"
"""Method of a lumen that a user gives, in its record."""

BRIDGE = (
    "set segment.gaps: bridge, which joins both by a lumen one to two voxels across; how wide the vessel is there, the"
    " image does not tell"
)

DOUBTS = ("touching_lumens", "other_brightness", "bright_wall", "bright_rim", "local_edge", "dark_sheet")
"""What the segmentation records of a lumen that may hold more or less than the vessel, as the checks of the report
order it."""

_SETTING = re.compile(r"\bsegment\.\w+: [\w\[]")
"""One key with its value: methods between background seeds, named with several keys, leave a vessel up to 14 % too
small, and no check says so."""


def record_of(path: Path | None) -> dict[str, Any]:
    """What the segmentation of images found, of its file; empty without one."""
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path else {}


def of_too_few_ends(record: dict[str, Any]) -> str:
    """What explains that a vessel has too few ends, and what to set: gaps beyond its ends; empty where none does.

    Parameters
    ----------
    record : of :func:`record_of`.
    """
    found = (record.get("beyond_ends") or {}).get("gaps", ())
    places = "; ".join(
        f"{each['beyond_ml']:.3g} mL beyond a gap of {each['length_mm']:.2g} mm at {text_mm(each['mm'])} mm"
        for each in found
    )
    if not places:
        return ""
    return (
        f"In line with an end of the mask a vessel as bright goes on: {places} (segmentation.html). It may be a"
        f" stenosis thinner than the image resolves: {BRIDGE}. If the vessel is closed there, no blood flows through it"
    )


def of_doubts(record: dict[str, Any]) -> str:
    """What a lumen may hold beside the vessel, with the setting that leaves it out: what is first of those that have
    one, empty where none has.

    Parameters
    ----------
    record : of :func:`record_of`.
    """
    warned = " ".join(record.get("warnings", ()))
    found = ((record.get(key) or {}).get("words", "") for key in DOUBTS)
    return next((words for words in found if words and words in warned and _SETTING.search(words)), "")


def of_cut_off(record: dict[str, Any]) -> str:
    """What to set where an opening is cut off from the rest of a vessel by a lumen too narrow for its surface; empty
    where that was set, or the lumen is not of images.

    Parameters
    ----------
    record : of :func:`record_of`.
    """
    return "" if not record or "gaps_joined" in record else f"If blood flows through, {BRIDGE}"
