# SPDX-License-Identifier: Apache-2.0
"""A layer of medium brightness on the wall, as the thrombus in an aneurysm is: half way lies beyond the lumen's face.

Along the normal brightness falls from the lumen to tissue in one step, blurred. A layer makes two of it, of which a
threshold half way takes the second where the layer is thin. Profiles are averaged over patches of the wall, each
aligned where it is half way, and fitted by one step and by two, with the blur of most of the wall in that direction:
slices blur more along their normal. What the two steps foretell is how far the lumen's face lies within.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, special
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from pipeline.segmentation.local_edge import LocalEdge, along
from pipeline.segmentation.point_text import text_mm
from pipeline.segmentation.problem import Problem
from pipeline.segmentation.region_growing import Mask, grow

Floats = NDArray[np.float64]

ALONG = np.arange(-3.0, 4.01, 0.5)
"""Places along the normal from where it is half way, voxels, outwards."""
SEEN = 2.5
"""How far from a voxel of the wall half way is looked for, voxels."""
HALF = 0.5
"""Share of the contrast at which profiles are aligned: where a flat step lies, whatever its blur."""
SMOOTHED = 1.5
"""Standard deviation, voxels, of the Gaussian of the mask whose gradient is the normal."""
RANGE = (-0.25, 1.25)
"""Brightness counts between these shares of the contrast: air and bone beside a wall are no layer."""
DEEP = 0.75
"""Least brightness where a profile begins, in the contrast: in a thinner vessel it passes the wall across."""
PATCH, LEAST_PATCH, LEAST_RAYS, ALIKE = 0.5, 2.0, 8, 0.6
"""Radius of a patch in those of the vessel, voxels at least, voxels of the wall in it at least, and the cosine of the
angle between their normals at least."""
BLURS = np.arange(0.5, 2.61, 0.1)
"""Standard deviations of the blur that are tried, voxels."""
SHIFTS = np.arange(-0.3, 0.31, 0.05)
"""Places of one step that are tried: profiles are aligned, but for noise."""
FACES, DEPTHS = np.arange(-2.0, 0.81, 0.1), (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0)
"""Places of the lumen's face and depths of the layer that are tried, voxels."""
FAINTEST, BRIGHTEST = 0.1, 0.55
"""Brightness of a layer, in the contrast. One of a half looks like more blur; brighter ones do not change half way."""
BETTER = 0.002
"""How much smaller the mean square of two steps is at least, summed over the places along the normal."""


CLEAR = 0.02
"""Median sum of squares of one step where there is no layer, at most. In drawn vessels of 2.7 to 15 voxels in radius it
is 0.001 to 0.006; in a head and a fistula, of two voxels, 0.06: what their walls are, profiles do not tell."""
RISES = 0.05
"""Beyond the wall brightness rises again by less: what does not is another structure beside the vessel, not on it."""
TOGETHER = 1.5
"""Patches of a layer lie together whose middles are so many radii of a patch apart at most."""
WORTH = 0.025
"""Least of the volume that what lies together changes it by. Of eight vessels with bright thrombus, drawn at random
(6000 to 6007), the six that it makes 3.7 to 10.5 % too large have 0.027 to 0.063; of 68 others of 26 kinds (6000 to
6007) a stent, coils and a stenosis reach it."""
SAME = 0.01
"""Change of the volume below which no other threshold is advised."""
HALVINGS = 12
"""Steps in which the threshold of a volume is found."""


@dataclass(frozen=True)
class Layer:
    """A layer of medium brightness on the wall.

    Attributes
    ----------
    share : of the wall on which it lies.
    level : its brightness, mean, over the contrast.
    change : of the volume, with the wall at the lumen's face in place of half way.
    place : (3,) voxel z, y, x of the box where the face lies deepest.
    """

    share: float
    level: float
    change: float
    place: NDArray[np.int64]


def wall_layer(edge: LocalEdge, radius: float) -> Layer | None:
    """A layer on the wall; None where none is seen that changes the volume.

    Parameters
    ----------
    edge : where the wall would be half way between lumen and tissue at every place.
    radius : mean of the vessel's, voxels.
    """
    places, normals, profiles = _profiles(np.clip(edge.share + edge.edge, *RANGE), edge.inside)
    deep = profiles[:, 0] > DEEP
    places, normals, profiles = places[deep], normals[deep], profiles[deep]
    size = max(PATCH * radius, LEAST_PATCH)
    middles, normals, profiles = _patches(places, normals, profiles, size)
    if not len(middles):
        return None
    single, double, level, face = _fitted(profiles, _blurs(normals, profiles))
    outside = profiles[:, ALONG >= 0]
    rises = (outside - np.minimum.accumulate(outside, axis=1)).max(axis=1)
    layer = (level > FAINTEST) & (level < BRIGHTEST) & (single - double > BETTER) & (rises < RISES)
    if not layer.any() or layer.all() or np.median(single[~layer]) > CLEAR:
        return None
    thinner = deep.mean() * np.where(layer, 1 - np.clip(1 + face / radius, 0, None) ** 2, 0.0) / len(layer)
    near = cKDTree(middles[layer]).sparse_distance_matrix(cKDTree(middles[layer]), TOGETHER * size)
    _, label = connected_components(near.tocsr(), directed=False)
    if np.bincount(label, thinner[layer]).max() < WORTH:
        return None
    return Layer(
        float(deep.mean() * layer.mean()),
        float(level[layer].mean()),
        -float(thinner.sum()),
        middles[np.where(layer, face, 0).argmin()],
    )


def with_layer(
    record: dict[str, Any] | None, edge: LocalEdge, layer: Layer, mask: Mask, problem: Problem
) -> dict[str, Any]:
    """The record of where the wall is half way between lumen and tissue, with what a layer on it changes.

    Parameters
    ----------
    record : of :func:`pipeline.segmentation.local_edge.record_of_edge`; None of a mask whose wall is there.
    edge : where that is.
    layer : on the wall there.
    mask : (Z, Y, X) bool.
    problem : as posed.
    """
    half_way = 0.0 if record is None else edge.of_wall
    change = (1 + half_way) * (1 + layer.change) - 1
    z, y, x = (int(n) + side.start for n, side in zip(layer.place, edge.box, strict=True))
    place = text_mm(problem.filtered.to_mm((x, y, z)))
    seen = (
        f"along {layer.share:.0%} of the wall, most about {place} mm, brightness falls in two steps, over a layer of"
        f" about {layer.level:.0%} of the contrast, as thrombus has: half way between lumen and tissue lies beyond the"
        " lumen's face there. "
    )
    words = f"{seen}By both steps the volume is {change:+.1%} off. "
    level = None if record is None or abs(change) < SAME else _threshold_of((1 + change) * float(mask.sum()), problem)
    if level is not None:
        words += (
            f"To have that volume, set segment.lower: {level:.4g}, which moves the whole wall inwards, a little too far"
            " where there is no layer. "
        )
    words += "To have the wall where it is, correct lumen.nrrd there (segmentation.html) and give it as input.mask"
    low, high = along(edge.contrast[edge.inside])
    without = {"contrast_along": [low, high], "fades": "", "beyond": None} if record is None else record
    layered = {
        "share": round(layer.share, 4),
        "level": round(layer.level, 3),
        "change": round(layer.change, 4),
        "words": words,
    }
    halves = {"half_way": round(half_way, 4), "change": round(change, 4)}
    return without | halves | {"words": words, "layer": layered}


def _threshold_of(voxels: float, problem: Problem) -> float | None:
    """The threshold at which so many voxels grow from the seeds; None where no higher one than the case's does."""
    low, high = problem.lower, min(float(problem.filtered.voxels[place[::-1]]) for place in problem.places)
    for _ in range(HALVINGS):
        level = (low + high) / 2
        grown = int(grow(problem.open_voxels, problem.places, level, problem.upper).sum())
        low, high = (level, high) if grown > voxels else (low, level)
    return low if low > problem.lower else None


def _profiles(share: NDArray[np.floating], inside: Mask) -> tuple[Floats, Floats, Floats]:
    """Voxels of the wall (n, 3), outward normals (n, 3), and brightness along these from half way (n, k)."""
    smooth = ndimage.gaussian_filter(inside.astype(np.float32), SMOOTHED, mode="nearest")
    places = np.argwhere(inside & ~ndimage.binary_erosion(inside, border_value=1)).astype(float)
    rows = tuple(places.astype(int).T)
    normals = -np.stack([each[rows] for each in np.gradient(smooth)], axis=1).astype(float)
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), np.finfo(float).tiny)

    def sampled(offsets: Floats) -> Floats:
        where = places[:, None] + offsets[..., None] * normals[:, None]
        values = ndimage.map_coordinates(share, np.moveaxis(where, -1, 0), order=1, cval=np.nan, output=np.float64)
        return np.asarray(values)

    steps = np.arange(-SEEN, SEEN + 0.1, 0.5)
    values = sampled(np.broadcast_to(steps, (len(places), len(steps))))
    falls = (values[:, :-1] >= HALF) & (values[:, 1:] < HALF)
    first = falls.argmax(axis=1)
    row = np.arange(len(places))
    before, after = values[row, first], values[row, first + 1]
    with np.errstate(invalid="ignore", divide="ignore"):
        start = steps[first] + 0.5 * (before - HALF) / (before - after)
    profiles = sampled(np.where(np.isfinite(start), start, 0.0)[:, None] + ALONG)
    whole = falls.any(axis=1) & np.isfinite(profiles).all(axis=1)
    return places[whole], normals[whole], profiles[whole]


def _patches(
    places: Floats, normals: Floats, profiles: Floats, size: float
) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Middles of patches, mean normals and mean profiles."""
    if not len(places):
        return places.astype(np.int64), normals, profiles
    tree = cKDTree(places)
    starts = np.unique((places / size).astype(int), axis=0, return_index=True)[1]
    found = []
    for start, near in zip(starts, tree.query_ball_point(places[starts], size), strict=True):
        own = np.array(near)[normals[near] @ normals[start] > ALIKE]
        if len(own) >= LEAST_RAYS:
            found.append((start, normals[own].mean(axis=0), profiles[own].mean(axis=0)))
    if not found:
        return np.zeros((0, 3), np.int64), np.zeros((0, 3)), np.zeros((0, len(ALONG)))
    rows, means, mean_profiles = (np.array(each) for each in zip(*found, strict=True))
    return places[rows].astype(np.int64), means, mean_profiles


def _step(along: Floats, blur: float) -> Floats:
    """A step from 1 to 0 at 0, blurred by a Gaussian."""
    return np.asarray(special.erfc(along / (blur * np.sqrt(2))) / 2)


def _blurs(normals: Floats, profiles: Floats) -> Floats:
    """The blur of most of the wall in the direction of each normal: its square is a quadratic form of that."""
    tried = np.array([[_step(ALONG - shift, blur) for shift in SHIFTS] for blur in BLURS])
    squares = ((profiles[:, None, None, :] - tried) ** 2).sum(axis=-1).reshape(len(profiles), -1)
    own = BLURS[squares.argmin(axis=1) // len(SHIFTS)] ** 2
    axes, kept = normals**2, np.ones(len(own), bool)
    for _ in range(6):
        form = np.linalg.lstsq(axes[kept], own[kept], rcond=None)[0]
        rest = own - axes @ form
        spread = float(np.median(np.abs(rest[kept] - np.median(rest[kept])))) + 0.03
        kept = rest < np.quantile(rest, 0.4) + spread
    return np.sqrt(np.clip(axes @ form, BLURS[0] ** 2, BLURS[-1] ** 2))


def _fitted(profiles: Floats, blurs: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Sums of squares of one step and of two, and brightness and place of the layer's face by the latter, each (n,)."""
    single, double, level, face = (np.full(len(profiles), np.inf) for _ in range(4))
    classes = np.rint((blurs - BLURS[0]) / 0.1).astype(int)
    for number in np.unique(classes):
        rows, blur = np.flatnonzero(classes == number), float(BLURS[number])
        own = profiles[rows]
        for shift in SHIFTS:
            single[rows] = np.minimum(single[rows], ((own - _step(ALONG - shift, blur)) ** 2).sum(axis=1))
        for place in FACES:
            lumen = _step(ALONG - place, blur)
            for depth in DEPTHS:
                layer = _step(ALONG - place - depth, blur) - lumen
                part = np.clip((own - lumen) @ layer / (layer @ layer), 0, 0.6)
                squares = ((own - lumen - part[:, None] * layer) ** 2).sum(axis=1)
                better = squares < double[rows]
                double[rows[better]] = squares[better]
                level[rows[better]], face[rows[better]] = part[better], place
    return single, double, level, face
