# SPDX-License-Identifier: Apache-2.0
"""A vessel that opens into the lumen where blood mixes, and is too dim there to be as bright as the threshold.

From a seed in a wide vein, the artery that feeds it is missing behind such a place. It is no gap: blood shows all along
the way, brighter than what lies around it; and the artery may be far thinner than the vein, and open into its side. So
it is known by its own end alone, which faces the mask.
"""

from typing import Any

import numpy as np
from scipy import ndimage

from pipeline.segmentation.pieces_beyond import (
    BALL_RADII,
    BENDS,
    BRIGHTNESS,
    REACH_RADII,
    REACH_VOXELS,
    End,
    Gap,
    Place,
    Search,
)
from pipeline.segmentation.point_text import text_mm
from pipeline.segmentation.problem import Problem
from pipeline.segmentation.region_growing import Mask
from pipeline.segmentation.seed_advice import IF_VESSEL

SHOWN, NOISES = 0.2, 4.0
"""Least brightness of the darkest place on the way, in the contrast and in standard deviations of the noise."""

LONG = 2.5
"""Least length of the way, in voxels and in standard deviations of the blur, which makes a third as bright what lies
between two lumens 2 deviations apart."""

LEFT_OUT = 0.02
"""Part of the mask that a vessel behind a way has at least, with the way: half way between lumen and tissue leaves out
up to a third of both, of the 3 % to which a volume is accurate."""

THICK = 98
"""Percentile of the depth in a piece that stands for its radius: of a tube that is 0.86 of it."""

AROUND, STANDS_OUT = (3, 6), 0.5
"""What lies so many voxels beside the wall of the way, and the most of its brightness over the least on the way."""


def junctions(search: Search | None, known: list[Gap], blur_voxels: float, noise: float) -> list[Gap]:
    """Dim ways from a mask to vessels that begin near it, that with the most behind it first.

    Parameters
    ----------
    search : of ends and what lies beyond; None where nothing does.
    known : gaps that have a check already.
    blur_voxels : standard deviation of the Gaussian that blurs the wall.
    noise : over the contrast.
    """
    if search is None:
        return []
    named = {search.number_at(gap.beyond) for gap in known}
    found = []
    for own, theirs in search.nearest:
        number = int(search.pieces[theirs])
        if number in named:
            continue
        if (end := _end(search, number, theirs, own)) is None:
            continue
        way = search.gap(own, end.radius, end, number)
        long_enough = LONG * max(1.0, blur_voxels) <= way.length <= REACH_RADII * end.radius + REACH_VOXELS
        if long_enough and way.least >= max(SHOWN, NOISES * noise) and not search.is_cut(way):
            dim = way.length * np.pi * end.radius**2
            if way.size + dim >= LEFT_OUT * search.voxels and _stands_out(search, way, end):
                found.append(way)
    return sorted(found, key=lambda way: -way.size)


def _end(search: Search, number: int, place: Place, own: Place) -> End | None:
    """The end of a piece, which faces a place of the mask; None where it does not. Where brightness fades the tip is a
    cone, whose axis shows in a ball as large as the rest of the piece asks for alone.
    """
    part = search.pieces == number
    for least in (0.0, BALL_RADII * float(np.percentile(search.depth[part], THICK))):
        end = search.end_of(part, place, least)
        if end is not None and _faces(end, own):
            return end
    return None


def _faces(end: End, place: Place) -> bool:
    """Whether the end of a piece is as bright as the lumen and turned to a place of the mask."""
    way = np.array(place) - end.middle
    ahead = float(end.out @ way) > np.cos(np.radians(BENDS)) * float(np.linalg.norm(way))
    return ahead and BRIGHTNESS[0] < end.brightness < BRIGHTNESS[1]


def _stands_out(search: Search, way: Gap, end: End) -> bool:
    """Whether a way is brighter than what lies around it, as within an organ none is."""
    places = way.way - search.start
    dark = places[~search.mask[tuple(places.T)] & (search.pieces[tuple(places.T)] == 0)]
    if not len(dark):  # it leads through another piece
        return False
    reach = int(end.radius) + AROUND[1] + 1
    low = np.maximum(dark.min(axis=0) - reach, 0)
    box = tuple(slice(int(a), int(b) + reach + 1) for a, b in zip(low, dark.max(axis=0), strict=True))
    line = np.ones(search.mask[box].shape, bool)
    line[tuple((dark - low).T)] = False
    away = ndimage.distance_transform_edt(line) - end.radius
    lumen = ndimage.binary_dilation(search.mask[box] | (search.pieces[box] > 0), iterations=AROUND[0])
    shell = (away >= AROUND[0]) & (away <= AROUND[1]) & ~lumen
    return bool(shell.any()) and float(np.median(search.share[box][shell])) <= STANDS_OUT * way.least


def record_of_junctions(found: list[Gap], mask: Mask, problem: Problem) -> dict[str, Any] | None:
    """What ``segmentation.json`` holds of them, with the words of the check; None without any.

    Parameters
    ----------
    found : of :func:`junctions`.
    mask : (Z, Y, X) bool.
    problem : as posed.
    """
    if not found:
        return None
    volume, first = problem.filtered, found[0]
    size = sum(way.size for way in found)
    ml = size * float(np.prod(volume.spacing_mm)) / 1000
    words = (
        f"behind {'a dim place' if len(found) == 1 else f'{len(found)} dim places, most'} at"
        f" {text_mm(volume.to_mm(first.place))} mm, where blood has {first.least:.0%} of the lumen's brightness at"
        f" least, {ml:.3g} mL of vessel are left out, a share of {size / int(mask.sum()):.1%} of the mask, which are as"
        f" bright as the lumen. Look at segmentation.html there: {IF_VESSEL}correct lumen.nrrd and give it as"
        " input.mask"
    )
    mm = [round(float(x), 2) for x in volume.to_mm(first.beyond)]
    return {"share": round(size / int(mask.sum()), 4), "mm": mm, "words": words}
