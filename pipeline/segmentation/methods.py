# SPDX-License-Identifier: Apache-2.0
"""Methods of segmentation: one dict of named functions of the same shape."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage import segmentation

from pipeline.segmentation.dark_sheet import without_dark_sheets
from pipeline.segmentation.level_set import level_set
from pipeline.segmentation.levels import levels
from pipeline.segmentation.local_edge import LOCAL, at_the_local_edge
from pipeline.segmentation.narrow_places import without_narrow_places
from pipeline.segmentation.problem import Lumen, Problem
from pipeline.segmentation.region_growing import Box, Mask, bounding_box, grow, grow_family
from pipeline.segmentation.vesselness import vesselness
from solver.runtime.errors import StageError

CONFIDENCE_RADIUS = 2
"""Voxels around each seed that the first statistics are taken from."""

MARGIN_MM = 4.0
"""How far around the vessel's marker a method between markers looks for the wall."""

EDGE_VOXELS = 0.7
"""Standard deviation of the Gaussian derivative that finds edges."""

WALKER_BETA = 90.0
"""Weight exp(-beta d^2) of a step of the random walker over a difference of d times the contrast (Grady 2006). Half the
contrast, in one step over a sharp wall, is passed with the weight 2e-10, noise of a tenth with 0.4."""

TUBE = 0.1
"""Vesselness of a tube's core."""


def threshold(problem: Problem) -> Lumen:
    """What is six-connected to the first seed between ``lower`` and ``upper``."""
    voxels = problem.open_voxels
    if problem.start is not None:
        voxels = np.full_like(voxels, -np.inf)
        voxels[problem.start] = problem.open_voxels[problem.start]
    return _between(
        problem,
        voxels,
        problem.lower,
        problem.upper,
        "segment.lower",
        {"method": "seeded region growing between thresholds, six-connected"},
    )


def local(problem: Problem) -> Lumen:
    """The same, with the wall half way between lumen and tissue at every place, followed beyond its ends: where
    brightness changes along the vessel.
    """
    grown = threshold(problem)
    return at_the_local_edge(grown, problem) if grown.mask.any() else grown


def _between(
    problem: Problem,
    voxels: NDArray[np.floating],
    lower: float,
    upper: float,
    control: str,
    record: dict[str, Any],
) -> Lumen:
    """What is six-connected to the first seed between two thresholds, the lower of which controls it."""
    return Lumen(
        mask=grow(voxels, problem.places[:1], lower, upper),
        wall=lower,
        control=control,
        level=lower,
        family=lambda levels: grow_family(voxels, problem.places, levels, upper),
        record=record | {"lower": lower, "upper": None if np.isinf(upper) else upper},
    )


def confidence(problem: Problem) -> Lumen:
    """What is six-connected to the seed within some standard deviations of the mean of what has grown so far.

    The first mean and deviation are those of the voxels around the seeds; each repeat takes those of the last mask
    without its outermost voxels, whose blur would widen the limits ever more. The limits lie at least as far from the
    mean as ``lower``: where the lumen is even, the wall is at its edge all the same, and where it is not, its dark
    parts are in. ``upper``, where it is given, is kept.

    After the filter known as confidence connected (Ibanez et al. 2005, ITK Software Guide).
    """
    voxels, settings = problem.open_voxels, problem.settings
    mask = np.zeros(voxels.shape, bool)
    for x, y, z in problem.places:
        mask[tuple(slice(max(n - CONFIDENCE_RADIUS, 0), n + CONFIDENCE_RADIUS + 1) for n in (z, y, x))] = True
    mask &= np.isfinite(voxels)
    for _ in range(settings.confidence_repeats + 1):
        box = bounding_box(mask)
        inner = ndimage.binary_erosion(mask[box])
        inside = voxels[box][inner if inner.any() else mask[box]].astype(float)
        mean, deviation = float(inside.mean()), float(inside.std())
        reach = max(settings.confidence_multiplier * deviation, mean - problem.lower)
        lower, upper = mean - reach, min(mean + reach, problem.upper)
        grown = grow(voxels, problem.places[:1], lower, upper)
        if np.array_equal(grown, mask) or not grown[problem.places[0][::-1]]:
            break
        mask = grown
    record = {
        "method": "confidence connected, six-connected",
        "confidence_multiplier": settings.confidence_multiplier,
        "confidence_repeats": settings.confidence_repeats,
    }
    return _between(problem, voxels, lower, upper, "lower limit of segment.confidence_multiplier", record)


def guided(problem: Problem) -> Lumen:
    """The threshold method within tubes: balls around the cores of vessels, as large as the range leaves room for.

    The core is what is in range, has a vesselness of `TUBE` and is connected to the seeds. A ball around each of its
    voxels reaches to the nearest voxel out of range, and a voxel further. Bone, veins or walls that touch the vessel
    are cut off where the balls end, as far as they are no tubes themselves; a sac wider than the largest radius is
    lost.
    """
    voxels, settings = problem.open_voxels, problem.settings
    spacing_mm = problem.filtered.spacing_mm[0]
    level = float(np.median([problem.filtered.voxels[seed[::-1]] for seed in problem.places]))
    ceiling = min(problem.upper, level + (level - problem.lower))
    tubes = vesselness(
        np.minimum(problem.filtered.voxels, np.float32(ceiling)), spacing_mm, scales(settings.radii_mm), problem.log
    )
    in_range = (voxels >= problem.lower) & (voxels <= problem.upper)
    core = in_range & (tubes >= TUBE)
    for x, y, z in problem.places:
        core[z, y, x] = True  # a seed near the wall reaches the core through its neighbours
        core[tuple(slice(max(n - 1, 0), n + 2) for n in (z, y, x))] |= in_range[
            tuple(slice(max(n - 1, 0), n + 2) for n in (z, y, x))
        ]
    core = grow(core.astype(np.float32), problem.places, 1)
    near = np.where(within_balls(core, in_range), voxels, -np.inf)
    return _between(
        problem,
        near,
        problem.lower,
        problem.upper,
        "segment.lower",
        {"method": "threshold within tubes, six-connected", "radii_mm": list(settings.radii_mm)},
    )


def scales(radii_mm: tuple[float, float]) -> list[float]:
    """Radii from the smallest to the largest in steps of at most 1.5."""
    low, high = radii_mm
    return np.geomspace(low, high, 1 + int(np.ceil(np.log(high / low) / np.log(1.5)))).tolist()


def within_balls(core: Mask, in_range: Mask) -> Mask:
    """Union of balls around the voxels of a core, each a voxel larger than the room that the range leaves around it.

    Parameters
    ----------
    core, in_range : (Z, Y, X) bool.
    """
    box = bounding_box(core)
    room = np.ceil(ndimage.distance_transform_edt(np.pad(in_range, 1))[1:-1, 1:-1, 1:-1]).astype(int)
    radius = int(room[core].max()) + 1
    box = bounding_box(core, margin=radius)
    union = np.zeros(core.shape, bool)
    for size in np.unique(room[core]).tolist():
        union[box] |= ndimage.distance_transform_edt(~(core[box] & (room[box] == size))) <= size + 1
    return union


def random_walker(problem: Problem) -> Lumen:
    """Every voxel goes to the marker that a random walk, which shuns edges, reaches first (Grady 2006).

    Markers: what grows from the seeds half way between ``lower`` and their intensity; what is darker than half way
    between ``lower`` and the surroundings, and the background seeds.

    Source: L. Grady, IEEE Trans. Pattern Anal. 28:1768-1783, 2006, doi:10.1109/TPAMI.2006.233.
    """

    def walk(markers: NDArray[np.int32], voxels: NDArray[np.floating], contrast: float) -> Mask:
        # scikit-image divides by the deviation of the data and by 10
        scaled = voxels / contrast
        labels = np.where(markers == CUT, -1, markers)
        beta = WALKER_BETA * 10 * float(scaled.std())
        return segmentation.random_walker(scaled, labels, beta=beta, mode="cg_j", tol=1e-3, prob_tol=0.1) == VESSEL

    return _between_markers(problem, walk, "random walker between markers of vessel and background")


def watershed(problem: Problem) -> Lumen:
    """Markers flood the gradient's magnitude; the wall is its ridge. Markers as of :func:`random_walker`.

    Source: L. Vincent, P. Soille, IEEE Trans. Pattern Anal. 13:583-598, 1991, doi:10.1109/34.87344.
    """

    def flood(markers: NDArray[np.int32], voxels: NDArray[np.floating], contrast: float) -> Mask:
        slope = ndimage.gaussian_gradient_magnitude(voxels, EDGE_VOXELS)
        labels = np.where(markers == CUT, 0, markers)
        return segmentation.watershed(slope, labels, mask=markers != CUT) == VESSEL

    return _between_markers(problem, flood, "watershed of the gradient between markers of vessel and background")


VESSEL, BACKGROUND, CUT = 1, 2, 3
"""Labels of markers; cut planes belong to nobody."""

Divide = Callable[[NDArray[np.int32], NDArray[np.floating], float], Mask]


def _between_markers(problem: Problem, divide: Divide, name: str) -> Lumen:
    """A method that divides the voxels between markers, which ``lower`` and the seeds make."""

    def part(lower: float) -> tuple[Box, Mask]:
        return _divide(replace(problem, lower=lower), divide)

    def family(levels: Sequence[float]) -> Iterator[tuple[Box, Mask]]:
        yield from (part(level) for level in levels)

    box, inside = part(problem.lower)
    mask = np.zeros(problem.filtered.voxels.shape, bool)
    mask[box] = inside
    if not mask[problem.places[0][::-1]]:
        raise StageError(f"{problem.seeds[0].name}: lies in the background: move the seed or lower segment.lower")
    record = {"method": name, "lower": problem.lower, "upper": problem.settings.upper}
    return Lumen(
        mask,
        wall=edge_level(problem.filtered.voxels, mask),
        control="segment.lower",
        level=problem.lower,
        family=family,
        record=record,
        edge_based=True,
        steps=(-1, 0, 1),
    )


def _divide(problem: Problem, divide: Divide) -> tuple[Box, Mask]:
    """The vessel's part of a box around its marker, six-connected to the seeds."""
    core = grow(problem.open_voxels, problem.places, half_way(problem), problem.upper)
    voxels = problem.filtered.voxels
    grown = grow(problem.open_voxels, problem.places[:1], problem.lower, problem.upper)
    found = levels(voxels, grown, problem.places, problem.lower, problem.dark)
    markers = np.zeros(voxels.shape, np.int32)
    markers[voxels < (problem.lower + found.surroundings) / 2] = BACKGROUND
    markers[voxels > problem.upper] = BACKGROUND
    for seed in problem.background:
        markers[tuple(slice(max(n - 1, 0), n + 2) for n in seed.index[::-1])] = BACKGROUND
    markers[core & (markers != BACKGROUND)] = VESSEL
    if problem.barrier is not None:
        markers[problem.barrier] = CUT
    box = bounding_box(core, margin=round(MARGIN_MM / problem.filtered.spacing_mm[0]))
    if not (markers[box] == BACKGROUND).any():
        raise StageError(
            f"segment.lower = {problem.lower:g}: nothing around the vessel is dark enough to be its background: give"
            " background seeds, or raise the threshold"
        )
    vessel = divide(markers[box], voxels[box], found.contrast)
    whole = np.zeros(voxels.shape, np.float32)
    whole[box] = vessel
    return box, grow(whole, problem.places[:1], 1)[box] & vessel


def half_way(problem: Problem) -> float:
    """Half way between ``lower`` and the seeds' intensity: what is brighter is surely lumen."""
    intensity = float(np.median([problem.filtered.voxels[seed[::-1]] for seed in problem.places]))
    return (problem.lower + intensity) / 2


def edge_level(voxels: NDArray[np.floating], mask: Mask) -> float:
    """Intensity at a mask's wall: half way between the medians of the layers of voxels on its two sides."""
    box = bounding_box(mask, margin=1)
    inside, near = mask[box], voxels[box]
    inner, outer = inside & ~ndimage.binary_erosion(inside, border_value=1), ndimage.binary_dilation(inside) & ~inside
    return float(np.median(near[inner]) + np.median(near[outer])) / 2


Method = Callable[[Problem], Lumen]

METHODS: dict[str, Method] = {
    "threshold": threshold,
    LOCAL: local,
    "confidence": confidence,
    "level-set": level_set,
    "random-walker": random_walker,
    "watershed": watershed,
    "vesselness": guided,
}
"""By the names of ``segment.method``."""


def find_lumen(problem: Problem, method: str = "threshold") -> Lumen:
    """What a method finds, up to the dark sheets and the narrow places that the user does not want it to pass."""
    return without_narrow_places(without_dark_sheets(METHODS[method](problem), problem), problem)
