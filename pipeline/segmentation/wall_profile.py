# SPDX-License-Identifier: Apache-2.0
"""How brightness passes the wall: whether the wall of the image is that of a lumen.

The wall of an even lumen, blurred by whatever is the same in both directions, is as much too dark within as it is too
bright beyond. A stent, or calcium finer than the blur, adds brightness in the wall, so that the mask reaches beyond the
lumen and its outermost voxels are as bright as its middle; where blood is slow at the wall, brightness is lacking
within.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage.measure import block_reduce

from pipeline.segmentation.levels import Levels
from pipeline.segmentation.limits import DARK_WITHIN
from pipeline.segmentation.local_edge import LocalEdge
from pipeline.segmentation.point_text import BY_HAND, text_mm
from pipeline.segmentation.problem import Problem
from pipeline.segmentation.region_growing import Index

LAYER = 2.0
"""Distance of centres of voxels, in voxels, from the nearest one across the wall, below which they are of the layer at
the wall; between `SECOND` they are of the next."""

SECOND = (1.5, 2.5)

DEEP = 3.0
"""Distance from the wall, voxels, from which a place is of the middle of a vessel that is wide enough to be judged."""

WINDOW, LEAST_WINDOW = 1.0, 2.0
"""Standard deviation of the Gaussian over which layers are averaged, in radii of the vessel, and in voxels at least."""

BLOCKS = 4.0
"""Blocks of voxels, at least, in that standard deviation: in wide vessels averages of blocks take a fraction of the
time."""

SHARPEST = -0.125
"""Brightness of the outermost layer of voxels, in the contrast above the lumen, where nothing blurs but the voxels
themselves: they hold 1/2 to all of the lumen over the first half of a voxel, all of it beyond. Blur makes it darker."""

UNEVEN = 0.06
"""How much brighter the layers on both sides of a wall are together than those of a lumen, in the contrast, from which
there is something bright in the wall; not below the noise either."""

UNDERSHOOT, BEYOND = (1.5, 2.5), (3.0, 5.0)
"""Distances from the mask, in voxels, at which a sharp kernel makes an edge darker than tissue, and of that tissue."""

OVERSHOOTS = 2.0
"""How much both layers at a wall have too much together for each unit of that: what the kernel takes beyond the wall it
adds within, to both of the layers there, and what lies below tissue does not count."""

VARIES = 0.5
"""Part of what such a kernel adds that differs along the wall, with its direction; the rest is in the percentile."""

SHARPER, ELSEWHERE = 0.05, 20
"""How much brighter the layer within is than at the percentile of the same vessel, so that its wall is sharper there
than one blur makes it; half of `UNEVEN` tells the same then."""

DARKENS = 0.08
"""The same, darker, from which brightness falls towards the wall by more than blur; not below the noise either."""

MIDDLE = 0.15
"""Least height of `upper` above the lumen, in the contrast, that is advised."""

DEVIATIONS = 4.0
"""The same in standard deviations of the noise."""

WORTH = 0.002
"""Part of the mask that is brighter than `upper` at least, where that is advised."""

CUT = 0.1
"""Part of the layer beyond the wall that ``segment.upper`` has left out, from which the wall is none of the image's."""


@dataclass(frozen=True)
class WallProfile:
    """Brightness at the wall, averaged around places in the middle of the vessel.

    Attributes
    ----------
    places : (n, 3) voxels z, y, x.
    inner, second, outer : (n,) brightness of the layer at the wall within, of the next one, and of the layer beyond the
        wall, over the contrast: the former two above that of the middle, the last above tissue.
    cut : (n,) part of that layer which is above ``segment.upper``.
    contrast : (n,) of the place.
    undershoot : how much darker than tissue it is beyond most of the wall, as by a sharp kernel, in the contrast.
    lacks : what the two layers within the wall lack together with those beyond it, over the contrast, more than those
        of one even lumen with this wall and blur: the median over the vessel, in which noise and what is uneven at some
        places hardly count.
    """

    places: NDArray[np.int64]
    inner: NDArray[np.floating]
    second: NDArray[np.floating]
    outer: NDArray[np.floating]
    cut: NDArray[np.floating]
    contrast: NDArray[np.floating]
    undershoot: float = 0.0
    lacks: float = 0.0

    @property
    def uneven(self) -> NDArray[np.floating]:
        """What both layers at the wall have too much together, in the contrast; of a blurred step 0."""
        return self.inner + self.outer

    def rim(self, noise: float) -> NDArray[np.bool_]:
        """Where there is something bright in the wall."""
        limit, kernel = np.maximum(UNEVEN, noise / self.contrast), OVERSHOOTS * self.undershoot
        bright = (self.inner > SHARPEST) & (self.uneven > limit + kernel)
        inner, uneven = (each - np.percentile(each, ELSEWHERE) for each in (self.inner, self.uneven))
        limit = (limit + VARIES * kernel) / 2
        sharper = (inner > SHARPER) & (uneven > limit) & (self.uneven > -UNEVEN / 2)  # not merely less dark
        return bright | sharper | (self.cut > CUT)

    def darkens(self, noise: float) -> NDArray[np.bool_]:
        """Where brightness falls towards the wall by more than blur."""
        return self.uneven < -np.maximum(DARKENS, noise / self.contrast)


def wall_profile(edge: LocalEdge, radius: float, problem: Problem, blurred: float) -> WallProfile:
    """Brightness at the wall of a lumen.

    Parameters
    ----------
    edge : where the wall would be half way between lumen and tissue at every place.
    radius : mean of the vessel's, voxels.
    problem : as posed.
    blurred : standard deviation of the image's blur, voxels.
    """
    share = np.clip(edge.share + edge.edge, 0, 2)
    edged = np.pad(edge.inside, 1, mode="edge")  # behind the border the vessel goes on
    depth = ndimage.distance_transform_edt(edged)[1:-1, 1:-1, 1:-1]
    away = ndimage.distance_transform_edt(~edged)[1:-1, 1:-1, 1:-1]
    length = max(WINDOW * radius, LEAST_WINDOW)
    deep = edge.inside & (depth >= DEEP)
    block = max(1, int(length / BLOCKS))
    places = np.argwhere(deep)
    of_deep = tuple((places // block).T)

    def near(values: NDArray[Any]) -> NDArray[np.floating]:
        sums = block_reduce(values.astype(float), block, np.sum)
        return np.asarray(ndimage.gaussian_filter(sums, length / block, mode="nearest")[of_deep])

    def mean(values: NDArray[Any], weight: NDArray[Any]) -> NDArray[np.floating]:
        return np.asarray(near(values * weight) / np.maximum(near(weight), np.finfo(float).tiny))

    weight = np.where(edge.inside, np.maximum(depth - SECOND[0], 0) ** 3, 0.0)
    middle = mean(share, weight)
    within, beyond = edge.inside & (depth < LAYER), ~edge.inside & (away < LAYER)
    second = edge.inside & (depth >= SECOND[0]) & (depth < SECOND[1])
    cut = (problem.filtered.voxels[edge.box] > problem.upper).astype(float)
    dark, tissue = (
        mean(np.minimum(edge.share + edge.edge, 2), ~edge.inside & (away >= nearest) & (away < farthest))
        for nearest, farthest in (UNDERSHOOT, BEYOND)
    )
    farther = ~edge.inside & (away >= SECOND[0]) & (away < SECOND[1])

    def layers(values: NDArray[np.floating], core: NDArray[np.floating]) -> NDArray[np.floating]:
        inwards, outwards = ((within, second), (beyond, farther))
        lost = [core - mean(values, each) for each in inwards]
        return np.asarray(sum(lost) - sum(mean(values, each) for each in outwards))

    even = ndimage.gaussian_filter(edged.astype(np.float32), blurred, mode="nearest")[1:-1, 1:-1, 1:-1]
    of_even = mean(even, weight)
    lacks = layers(share, middle) - layers(even, of_even) / of_even
    return WallProfile(
        places=places + [side.start for side in edge.box],
        inner=mean(share, within) - middle,
        second=mean(share, second) - middle,
        outer=mean(share, beyond),
        cut=mean(cut, beyond),
        contrast=edge.contrast[deep],
        undershoot=max(float(np.median(tissue - dark)), 0.0) if len(places) else 0.0,
        lacks=float(np.median(lacks)) if len(places) else 0.0,
    )


def record_of_rim(profile: WallProfile, edge: LocalEdge, problem: Problem, found: Levels) -> dict[str, Any]:
    """What ``segmentation.json`` holds of something bright in the wall, with the words of the check.

    Parameters
    ----------
    profile : at the wall.
    edge : where the wall is by the levels near each place.
    problem : as posed.
    found : levels in and around the mask.
    """
    if not len(profile.places) or not (rim := profile.rim(found.noise)).any():
        return {"share": 0.0, "upper": None, "words": ""}
    own = np.flatnonzero(rim)
    z, y, x = (int(n) for n in profile.places[own[profile.uneven[own].argmax()]])
    place: Index = (x, y, z)
    share = float(rim.mean())
    words = (
        f"along {share:.0%} of the vessel, most about {text_mm(problem.filtered.to_mm(place))} mm, the wall is brighter"
        " than that of a lumen can be: a stent or fine calcium in it has blurred to the brightness of blood, and the"
        " mask reaches beyond the lumen there. "
    )
    upper = None
    if problem.settings.upper is None:
        upper = _upper(profile, own, edge, problem, found)
        parts = (
            "None of it is brighter than blood, so that no setting parts it"
            if upper is None
            else f"To leave out what of it is brighter than blood, set segment.upper: {upper:g}; none parts the rest"
        )
        words += f"{parts} from the lumen, and the volume stays too large. {BY_HAND}"
    else:
        words += f"segment.upper leaves a part of it out; no setting finds the wall behind the rest. {BY_HAND}"
    return {"share": round(share, 4), "upper": upper, "words": words}


def _upper(
    profile: WallProfile, own: NDArray[np.int64], edge: LocalEdge, problem: Problem, found: Levels
) -> float | None:
    """The upper threshold that leaves out what is bright in the wall; None where hardly a voxel is brighter.

    Parameters
    ----------
    profile : at the wall.
    own : places of it where there is something bright.
    edge : where the wall is by the levels near each place.
    problem : as posed.
    found : levels in and around the mask.
    """
    above = max(MIDDLE * found.contrast, DEVIATIONS * found.noise, float(profile.second[own].max()) * found.contrast)
    upper = float(f"{edge.above_all_blood(found) + above:.4g}")
    brighter = (problem.filtered.voxels[edge.box] > upper)[edge.inside]
    return upper if brighter.mean() > WORTH else None


def record_of_dark_rim(profile: WallProfile, found: Levels) -> dict[str, Any]:
    """What ``segmentation.json`` holds of brightness that falls towards the wall, with the words of the check.

    Parameters
    ----------
    profile : at the wall.
    found : levels in and around the mask.
    """
    if not len(profile.places):
        return {"share": 0.0, "words": ""}
    share = float(profile.darkens(found.noise).mean())
    words = (
        f"along {share:.0%} of the vessel brightness falls towards the wall by more than blur, as where blood is slow"
        " there: half way between lumen and tissue lies within the lumen, and the volume may be too small, by 6 to 14 %"
        f" in vessels that were drawn so. No setting is known that finds the wall there. {BY_HAND}"
    )
    return {"share": round(share, 4), "words": words}


def record_of_dark_within(profile: WallProfile) -> dict[str, Any] | None:
    """What ``segmentation.json`` holds of brightness that lacks all along the vessel, with the words of the check.

    A thin or noisy vessel shows it at few places by as much as one place has to; of all together it is clear.

    Parameters
    ----------
    profile : at the wall.
    """
    if (lacks := profile.lacks) <= DARK_WITHIN:
        return None
    words = (
        f"at its wall the vessel lacks {lacks:.0%} of its contrast, in two layers within and two beyond, as where"
        " blood is slow at the wall or saturated there (time of flight): half way between lumen and tissue lies within"
        " the lumen, and the volume may be too small, by 4 to 16 % in vessels that were drawn so. No setting is known"
        f" that finds the wall there. {BY_HAND}"
    )
    return {"share": round(lacks, 4), "words": words}
