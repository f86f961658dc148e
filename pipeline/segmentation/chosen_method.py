# SPDX-License-Identifier: Apache-2.0
"""What ``segment.method: auto`` takes: one threshold, or the levels near each place where one misses the volume; and an
upper threshold where a CT image shows calcium or metal at the wall.

One threshold is the simplest wall, and right where brightness is even along the vessel. Where the levels near each
place foretell a volume that is more than 1.5 % off, half of what a volume may be, or a vessel that goes on more dimly,
the method `local` is tried. It is taken if its lumen gives no reservation that the first did not give, and none of a
wall that is misplaced. What is of medium brightness in the wall or beside the vessel misleads it, so that one threshold
stays then. Where one threshold is refused and contrast changes along the vessel, `local` is taken, unless that
threshold leaks and what leaked may lie in this lumen, too: then the refusal stays.

In CT what is far brighter than contrast-filled blood is calcium, metal or bone, whose blur makes the vessel wider. It
is left out where that changes the vessel by no more than a plaque or a stent does, and leaves no doubt but of the wall
behind it.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from pipeline.case.settings.images import SegmentSettings
from pipeline.segmentation.limits import MOVED, WRONG
from pipeline.segmentation.local_edge import EVEN, LOCAL
from solver.runtime.errors import StageError

AUTO, THRESHOLD = "auto", "threshold"

MISPLACED = frozenset({"local_edge", "local_edge.beyond"})
"""Reservations about where the wall stands, by :func:`reservations`: those that levels near each place may settle."""

UNASKED = "left_open"
"""What the blur leaves open of a volume, which is asked of levels near each place alone, though one threshold knows it
no better."""

OTHERS = frozenset({"dark_sheet", "undecided"})
"""Reservations that a part of the mask may be another vessel or organ: where one threshold leaks, what leaked."""

WITHIN = "dark_within"
"""What lacks within the wall, which is not asked where one threshold misses it."""

MISLED = "off_the_edge"
"""That of a threshold which was raised beside a vein or an organ, whose levels are taken for those of tissue."""

BRIGHT = ("other_brightness", "bright_wall")
"""Parts of the record that tell of what is brighter than blood."""

LEFT_OUT = 0.3
"""Part of the volume that may be left out: a stent makes it up to 47 % too large."""

AT_THE_WALL = frozenset({"bright_wall", "bright_rim"})
"""Reservations that stay, or come, where such a thing is left out: no image tells the wall behind it. Those of where
the wall stands may come, too, since levels near each place are tried then."""


ADVICE = re.compile(rf"([Tt])o [a-z ]+, set segment\.method: {LOCAL}")
"""How checks of one threshold advise levels near each place, at the beginning of a sentence or within one."""


class Found(Protocol):
    """A lumen with its record."""

    @property
    def record(self) -> dict[str, Any]:
        """As in ``segmentation.json``."""
        ...


Lumen = TypeVar("Lumen", bound=Found)


def chosen(
    found: Lumen,
    settings: SegmentSettings,
    tried: Callable[[SegmentSettings], Lumen],
    modality: str | None,
    leads_on: Callable[[SegmentSettings, StageError], bool],
) -> tuple[Lumen, dict[str, Any]]:
    """The lumen that is taken, and what its record holds of why.

    Parameters
    ----------
    found : at one threshold.
    settings : by which it was found.
    tried : the lumen by other settings; raises a `StageError` where it is refused.
    modality : ``CT``: what is brighter than blood is no vessel; other images do not tell.
    leads_on : whether the refusal of levels near each place gives another way, tried.
    """
    reasons: dict[str, Any] = {}
    upper = None if modality != "CT" else upper_of(found.record)
    if upper is not None and settings.upper is None:
        without = settings.model_copy(update={"upper": upper})
        with suppress(StageError):
            other = tried(without)
            if clears(other.record, found.record):
                reasons |= record_of_upper(upper, other.record, found.record)
                found, settings = other, without
    if misplaced(found.record):
        near = by_place(settings)
        try:
            other = tried(near)
        except StageError as error:
            return found, reasons | ({} if leads_on(near, error) else without_places(found.record))
        if settles(other.record, found.record):
            reasons |= record_of_choice(other.record, found.record)
            found = other
    return found, reasons


def without_places(record: Mapping[str, Any]) -> dict[str, Any]:
    """What changes in the record of a lumen at one threshold where levels near each place are refused: its checks no
    longer advise them.

    Parameters
    ----------
    record : as in ``segmentation.json``.
    """
    instead = (
        "he levels near each place were tried, and are refused; correct lumen.nrrd in a program for masks, and give it"
        " as input.mask"
    )

    def reworded(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: reworded(each) for key, each in value.items()}
        return ADVICE.sub(rf"\1{instead}", value) if isinstance(value, str) else value

    return {"local_edge": reworded(record["local_edge"]), "warnings": [reworded(each) for each in record["warnings"]]}


def upper_of(record: Mapping[str, Any]) -> float | None:
    """The upper threshold that leaves out what is brighter than blood: where it lies in the wall along the vessel, that
    of the wall, else the least; None where no check fails for what is brighter, or most of the mask is so bright.

    Parameters
    ----------
    record : as in ``segmentation.json``.
    """
    warned = record["warnings"]
    parts = [record[key] for key in BRIGHT if record.get(key)]
    if not any(part["words"] in warned for part in parts):
        return None
    rim = record.get("bright_rim")
    if rim and rim["words"] in warned and rim.get("upper") is not None:
        return float(rim["upper"])
    return min((part["upper"] for part in parts if part.get("upper") is not None), default=None)


def clears(without: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Whether a lumen without what is brighter than blood is to be taken.

    Parameters
    ----------
    without, found : records of it and of the lumen with that, as in ``segmentation.json``.
    """
    kept = without["volume_ml"] / found["volume_ml"]
    return 1 - LEFT_OUT <= kept <= 1 and reservations(without) <= reservations(found) | AT_THE_WALL | MISPLACED


def record_of_upper(upper: float, without: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """What ``segmentation.json`` holds of an upper threshold that was not given.

    Parameters
    ----------
    upper : the threshold.
    without, found : records of the lumen by it, and of the one by none.
    """
    less = found["volume_ml"] - without["volume_ml"]
    said = (
        f"segment.upper: {upper:.4g}, which leaves out calcium, metal or bone and its blur, {less:.3g} mL of"
        f" {found['volume_ml']:.4g}; segment.method: {THRESHOLD} keeps them"
    )
    return {"upper_chosen": said}


def at_one_level(settings: SegmentSettings) -> SegmentSettings:
    """The settings that are tried first.

    Parameters
    ----------
    settings : of the case.
    """
    return settings.model_copy(update={"method": THRESHOLD}) if settings.method == AUTO else settings


def by_place(settings: SegmentSettings, alone: bool = False) -> SegmentSettings:
    """The settings by which levels near each place decide.

    Parameters
    ----------
    settings : of the case.
    alone : without the threshold that the case gives, which is where growth starts otherwise.
    """
    return settings.model_copy(update={"method": LOCAL} | ({"lower": None} if alone else {}))


def reservations(record: Mapping[str, Any]) -> set[str]:
    """Names of what the record of a lumen warns of, apart from remarks that no check of the report rests on.

    Parameters
    ----------
    record : as in ``segmentation.json``.
    """
    warned = set(record["warnings"])
    parts = {key: each for key, each in record.items() if isinstance(each, Mapping)}
    edge = parts.get("local_edge", {})
    parts |= {f"local_edge.{key}": each for key, each in edge.items() if isinstance(each, Mapping)}
    found = {key for key, each in parts.items() if each.get("words") in warned}
    return found | ({"doubts"} if record["doubts"] else set())


def misplaced(record: Mapping[str, Any]) -> bool:
    """Whether the wall at one threshold is so far from that of the image that another is worth trying.

    Parameters
    ----------
    record : as in ``segmentation.json``.
    """
    edge, warned = record.get("local_edge") or {"change": 0.0}, reservations(record)
    if "layer" in edge or MISLED in warned:
        return False
    return abs(edge["change"]) > WRONG / 2 or bool(warned & MISPLACED)


def settles(by_places: Mapping[str, Any], at_one: Mapping[str, Any]) -> bool:
    """Whether the lumen by levels near each place is to be taken for that at one.

    Parameters
    ----------
    by_places, at_one : records, as in ``segmentation.json``.
    """
    after = reservations(by_places)
    after.discard(WITHIN)
    if UNASKED in after and by_places[UNASKED]["share"] < abs(at_one["local_edge"]["change"]):
        after.remove(UNASKED)
    return not after & MISPLACED and after <= reservations(at_one)


def changes_along(by_places: Mapping[str, Any]) -> str:
    """That contrast changes along a lumen which no one threshold finds, and what follows; empty where it does not.

    Parameters
    ----------
    by_places : record of a lumen by the levels near each place.
    """
    low, high = by_places["contrast_along"]
    if low > EVEN * high:
        return ""
    return (
        f"the contrast of the vessel changes from {high:.4g} to {low:.4g} along it, which no one threshold follows."
        f" Tried, passes: the level near each place, segment: {{lower: null, method: {LOCAL}}}. With one threshold"
    )


def holds_leak(by_places: Mapping[str, Any]) -> bool:
    """Whether the lumen by levels near each place, where one threshold leaks, may hold what leaked.

    What leaked is dimmer than the vessel, and so makes its contrast change along the mask.

    Parameters
    ----------
    by_places : its record, as in ``segmentation.json``.
    """
    return bool(reservations(by_places) & OTHERS)


def record_of_choice(by_places: Mapping[str, Any], at_one: Mapping[str, Any] | None) -> dict[str, Any]:
    """What ``segmentation.json`` holds of why levels near each place were taken, with the words of the check of how far
    they moved the volume.

    Parameters
    ----------
    by_places, at_one : records, as in ``segmentation.json``; the latter is None where one threshold was refused.
    """
    keep = f"segment.method: {THRESHOLD} keeps one threshold"
    if at_one is None:
        chosen = f"{LOCAL}, as one threshold was refused and contrast changes along the vessel; {keep}"
        return {"method_chosen": chosen}
    before, after = at_one["volume_ml"], by_places["volume_ml"]
    moved = after / before - 1
    chosen = f"{LOCAL}, as one threshold ({before:.4g} mL) misses {moved:+.1%} of the volume; {keep}"
    words = (
        f"by the levels near each place the volume is {moved:+.1%} off that of one threshold, {after:.4g} for"
        f" {before:.4g} mL, which is more than the place of a wall explains. Look at segmentation.html; if it shows the"
        f" vessel, set segment.method: {LOCAL}, else {THRESHOLD}"
    )
    share = {"share": round(abs(moved), 4), "words": words}
    record: dict[str, Any] = {"method_chosen": chosen, "moved_by_place": share}
    if abs(moved) > MOVED:
        record["warnings"] = [*by_places["warnings"], words]
    return record
