# SPDX-License-Identifier: Apache-2.0
"""Volumes: how much of the mask, or of a given surface, is left, and what was lost that nobody asked for.

The settings ask for side branches that are taken out, for smoothing and extensions, and, with ``surface.cut_radii``,
for the piece of each end between the tip of the vessel and the cut, with ``surface.cut_off_mm`` for all of it. A thin
tail, which the image shows less than two voxels across, is no lumen. What goes beyond that is a loss: a vessel that
tapers to its end or is nowhere round enough to be cut, or the round end of a given surface.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.files.mesh import words_mm

MOST_LOST = 0.02
"""Part of the volume that may be lost unasked for."""

MOST_NAMED = 6
"""So many ends are named in a message, those that lost most first."""


LEAST_NAMED = 0.001
"""Part of the volume from which on what was cut off an end is named."""


def share_lost(quality: Mapping[str, Any]) -> float:
    """Part of the volume that was lost unasked for.

    Parameters
    ----------
    quality : of a surface: ``mask_volume_mm3`` or ``given_volume_mm3``; for each end that was cut ``volume_mm3``,
        ``asked_mm3`` and, where it has a thin tail, ``thin_mm3``.
    """
    lost = sum(_unasked(end) for end in quality["cut_ends"])
    return float(lost / _whole_mm3(quality)[1])


def asked_for(
    ends: Sequence[Mapping[str, Any]], places_mm: Sequence[tuple[float, float, float]]
) -> list[dict[str, Any]]:
    """Records of ends that were cut, of which those nearest to some places are asked for as a whole.

    Parameters
    ----------
    ends : with ``place_mm``, ``volume_mm3`` and ``asked_mm3``.
    places_mm : of ``surface.cut_off_mm``.
    """
    found = [dict(end) for end in ends]
    for place in places_mm if found else ():
        end = min(found, key=lambda each: math.dist(each["place_mm"], place))
        end["asked_mm3"] = max(end["asked_mm3"], end["volume_mm3"])
    return found


def loss_in_words(quality: Mapping[str, Any], share: float) -> str:
    """What was lost, where most of it, and what helps."""
    what, whole_mm3 = _whole_mm3(quality)
    ends = sorted(quality["cut_ends"], key=_unasked, reverse=True)
    named = [end for end in ends if _unasked(end) > LEAST_NAMED * whole_mm3]
    whole = f"{100 * share:.1f} % of the {what}'s {whole_mm3 / 1000:.3g} mL"
    shown = "; ".join(map(_loss_at, named[:MOST_NAMED]))
    shown += "; ..." if len(named) > MOST_NAMED else ""
    if "given_volume_mm3" in quality:
        radii = max(math.ceil(10 * end["volume_mm3"] / (math.pi * end["radius_mm"] ** 3) + 0.1) / 10 for end in ends)
        return (
            f"surface: the surface is closed by round ends, and cuts that open them took off {whole} (at most"
            f" {100 * MOST_LOST:g} %): {shown}. Cut these ends off flat, or"
            " close them with flat caps, in the program that made the surface: flat ends lose nothing. If the round"
            f" ends are no part of the vessel, say so: surface.cut_radii: {radii:g}"
        )
    border = "take an image that holds all of the vessel, " if any(end.get("at_border") for end in named) else ""
    return (
        f"surface: cuts took off {whole} at the ends of the vessel (at most {100 * MOST_LOST:g} %): {shown}."
        " What is thinner than surface.min_radius_mm is cut off, too. Repair the mask there (segment.lower,"
        f" segment.cut_planes), {border}lower surface.cut_roundness, or close the end with surface.closed_mm. If"
        f" what lies beyond is not wanted, say so: surface.cut_off_mm: {_places(ends, whole_mm3)}"
    )


def _loss_at(end: Mapping[str, Any]) -> str:
    """What an end lost unasked for, where, and, of an end in an image, what that piece is."""
    lost = f"{_unasked(end) / 1000:.3g} mL at {words_mm(end['place_mm'])}"
    if "at_border" not in end:
        return lost
    over = f"{end['reach_mm']:.3g} mm"
    if end["at_border"]:
        return f"{lost} (over {over}, where the border of the image cuts it)"
    if end["reach_mm"] <= end["radius_mm"]:
        return f"{lost} (an uneven tip of {over})"
    return f"{lost} (over {over}, where it narrows or is not round)"


def _places(ends: Sequence[Mapping[str, Any]], whole_mm3: float) -> list[list[float]]:
    """Places of the ends, those that lost most first, without which less than half of what may be is lost; and of those
    that are asked for already.
    """
    left, places = sum(map(_unasked, ends)), []
    for end in ends:
        asked = 0 < end["volume_mm3"] <= end["asked_mm3"]
        if asked or left > MOST_LOST / 2 * whole_mm3:
            places.append([round(float(x), 1) for x in end["place_mm"]])
        left -= _unasked(end)
    return places


def tell_volumes(quality: Mapping[str, Any], log: logging.Logger) -> None:
    """Log the way from the volume of the mask or of the given surface to the surface's; warn of what nobody asked for.

    Parameters
    ----------
    quality : as for :func:`share_lost`, with ``side_branches``, ``extensions_mm3`` and ``volume_mm3``.
    log : gets a line, and a warning where there is a loss.
    """
    what, whole_mm3 = _whole_mm3(quality)
    sides = sum(side["volume_mm3"] for side in quality["side_branches"])
    ends = sum(end["volume_mm3"] for end in quality["cut_ends"])
    smoothing = f", smoothing {quality['smoothing_mm3'] / 1000:+.3f} mL" if quality.get("smoothing_mm3") else ""
    log.info(
        "volume: %s %.3f mL%s, side branches -%.3f mL, ends cut off -%.3f mL, extensions +%.3f mL: surface %.3f mL",
        what,
        whole_mm3 / 1000,
        smoothing,
        *(mm3 / 1000 for mm3 in (sides, ends, quality["extensions_mm3"], quality["volume_mm3"])),
    )
    for end in quality["cut_ends"]:
        if _unasked(end) > LEAST_NAMED * whole_mm3:
            log.info("cut off: %s", _loss_at(end))
        if "thin_mm3" in end:
            log.info(
                "end at %s: of what is cut off %.3g mL is a thin tail of %.3g mm, radius %.3g mm: less than two voxels"
                " across in the image",
                words_mm(end["place_mm"]),
                end["thin_mm3"] / 1000,
                end["thin_mm"],
                end["thin_radius_mm"],
            )
    for part in quality.get("lost_to_smoothing", ()):
        log.warning(
            "warning: the thin part of the vessel around %s, %.4f mL, is lost: too thin for the smoothing",
            words_mm(part["place_mm"]),
            part["volume_mm3"] / 1000,
        )
    if (share := share_lost(quality)) > MOST_LOST:
        log.warning("warning: %s", loss_in_words(quality, share))


def _unasked(end: Mapping[str, Any]) -> float:
    return max(0.0, end["volume_mm3"] - end["asked_mm3"] - end.get("thin_mm3", 0.0))


def _whole_mm3(quality: Mapping[str, Any]) -> tuple[str, float]:
    """What there was at first, and its volume."""
    if "given_volume_mm3" in quality:
        return "given surface", quality["given_volume_mm3"]
    return "mask", quality["mask_volume_mm3"]
