# SPDX-License-Identifier: Apache-2.0
"""Fast marching from the seeds, then a geodesic active contour, kept below the voxel for the surface.

The contour is the zero of a signed distance f (positive inside, in voxels) that follows

    df/dt = (R + a g K) |grad f| + b grad g . grad f

(Caselles, Kimmel, Sapiro 1997, doi:10.1023/A:1007979827043), with K the curvature, g = 1/(1 + (|grad I|/k)^2) the edge
indicator, and, for the constant that blows the contour up in the original, the region force
R = 2 (I - t)/c, between -1 and 1 (local levels after Lankton and Tannenbaum 2008, doi:10.1109/TIP.2008.2004611). Here c
is the local contrast and t the intensity at which a tube of the local radius r, blurred by s, has its wall:
t = v + c (1/2 - s/(r sqrt(8 pi))), v the local level of the surroundings (:mod:`pipeline.segmentation.blur`). So the
wall follows a signal that fades along the vessel, and blur does not shift it. All constants are in voxels and parts of
the local contrast, so that they hold for any image.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import SimpleITK as sitk
from numba import njit
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.segmentation.blur import blur, wall_slope
from pipeline.segmentation.levels import Levels, levels
from pipeline.segmentation.problem import Lumen, Problem
from pipeline.segmentation.region_growing import Box, Mask, bounding_box, grow, shift
from solver.runtime.errors import StageError
from solver.runtime.progress import Progress

SPEED_WIDTH = 0.05
"""Part of the contrast over which the speed of the front rises from 1/4 to 3/4 around `lower`."""

CURVATURE, ATTRACTION = 0.3, 0.3
"""a and b: smoothing of the wall where there is no edge, in voxels, and the pull to the edge."""

EDGE = 0.1
"""k: the gradient, in contrasts a voxel, at which g is 1/2; a wall blurred by one voxel has 0.4."""

LOCAL_VOXELS = 4.0
"""Standard deviation of the Gaussian window in which levels and radius are local."""

PRIOR = 0.02
"""Weight of the levels of the whole vessel, for places where nothing is deep inside, or all around is bright."""

STEP = 0.4
"""Voxels that the contour moves at most in a step."""

BAND = 7.0
"""Distance, in voxels, to which f is kept."""

STEPS, ROUNDS, ROUNDS_SHIFTED = 5, 40, 6
"""Steps from one measurement of the levels to the next; most of these rounds; rounds to the contour of
another level."""

RESTART = 0.1
"""Part of the contrast from which another level has its contour start from the seeds."""

FADING = 0.35
"""Part of the contrast by which the lumen may be darker in places; what is darker yet is another tissue."""

SETTLED = 5e-4
"""Part of the lumen's voxels that may change in a round when the contour is at rest."""

Field = NDArray[np.float32]


@dataclass(frozen=True)
class Image:
    """The box in which the contour moves.

    Attributes
    ----------
    voxels, edge : (Z, Y, X) intensities and edge indicator g.
    closed : (Z, Y, X) bool, what the contour may not enter: cut planes, voxels above `upper`, background seeds.
    found : levels of the vessel as a whole.
    lower : intensity above which surroundings are taken for another bright structure.
    blur : s, voxels.
    """

    voxels: Field
    edge: Field
    closed: Mask
    found: Levels
    lower: float
    blur: float


def level_set(problem: Problem) -> Lumen:
    """The lumen within a geodesic active contour; see the module.

    The front of the fast marching, which runs where the intensity is above ``lower``, stops when it has reached all
    that surely is lumen: what grows from the seeds half way between ``lower`` and their intensity.
    """
    box, image, field = _contour(problem)
    mask = np.zeros(problem.filtered.voxels.shape, bool)
    mask[box] = _inside(field, problem, box)
    if not mask[problem.places[0][::-1]]:
        raise StageError(f"{problem.seeds[0].name}: the contour has left it: move the seed, or lower segment.lower")
    filled = np.zeros(mask.shape, np.float32)
    filled[box] = _occupancy(field, mask[box])

    def family(chosen: Sequence[float]) -> Iterator[tuple[Box, Mask]]:
        for level in chosen:
            change = level - problem.lower
            if change > RESTART * image.found.contrast:  # what has leaked need not come back: start again
                other, _, moved = _contour(replace(problem, lower=level), change)
                yield other, _inside(moved, problem, other)
            else:
                moved = _evolve(field, image, change, ROUNDS_SHIFTED, problem) if change else field
                yield box, _inside(moved, problem, box)

    return Lumen(
        mask,
        wall=image.found.surroundings + image.found.contrast / 2,
        control="segment.lower",
        level=problem.lower,
        family=family,
        record={
            "method": "fast marching, then geodesic active contour",
            "lower": problem.lower,
            "upper": problem.settings.upper,
            "blur_voxels": round(image.blur, 3),
        },
        edge_based=True,
        steps=(-1, 0, 1),
        occupancy=filled,
        warnings=_ends_early(mask, box),
    )


def _ends_early(mask: Mask, box: Box) -> tuple[str, ...]:
    """A warning of a contour that is stopped by the box in which it moves, not by the vessel's wall or the region."""
    for axis, (part, size) in enumerate(zip(box, mask.shape, strict=True)):
        layers = np.moveaxis(mask, axis, 0)
        low, high = part.start + 1, part.stop - 2
        if (part.start > 0 and layers[low].any()) or (part.stop < size and layers[high].any()):
            return ("the contour ends where the search ended: the vessel goes on; lower segment.lower, or add seeds",)
    return ()


def _contour(problem: Problem, change: float = 0.0) -> tuple[Box, Image, Field]:
    """The contour at rest, in a box of the volume; `change` is added to the intensity of the wall."""
    box, image = _prepare(problem)
    return box, image, _evolve(_distance(_front(problem, image, box)), image, change, ROUNDS, problem)


def _inside(field: Field, problem: Problem, box: Box) -> Mask:
    """What lies within the contour and is connected to the first seed."""
    return grow(field, [shift(problem.places[0], box)], np.nextafter(np.float32(0), np.float32(1)))


def _prepare(problem: Problem) -> tuple[Box, Image]:
    voxels, spacing_mm = problem.filtered.voxels, problem.filtered.spacing_mm[0]
    grown = grow(problem.open_voxels, problem.places[:1], problem.lower, problem.upper)
    found = levels(voxels, grown, problem.places, problem.lower, problem.dark)
    if found.contrast <= 0:
        raise StageError(
            f"no contrast-filled vessel at the seed: its surroundings are as bright, {found.surroundings:.4g}"
        )
    slope = wall_slope(voxels, spacing_mm, grown, found)
    box = bounding_box(grown, margin=int(BAND) + 1)
    near = voxels[box].astype(np.float32)
    gradient = ndimage.gaussian_gradient_magnitude(near, 1.0)
    closed = near > problem.upper
    if problem.barrier is not None:
        closed |= problem.barrier[box]
    for seed in problem.background:
        x, y, z = shift(seed.index, box)
        if all(0 <= k < n for k, n in zip((z, y, x), near.shape, strict=True)):
            closed[z, y, x] = True
    edge = (1 / (1 + (gradient / (EDGE * found.contrast)) ** 2)).astype(np.float32)
    return box, Image(near, edge, closed, found, problem.lower, blur(found, slope, spacing_mm) / spacing_mm)


def _front(problem: Problem, image: Image, box: Box) -> Mask:
    """What the front has reached when it has passed the last voxel that surely is lumen."""
    places = [shift(place, box) for place in problem.places]
    intensity = float(np.median([problem.filtered.voxels[place[::-1]] for place in problem.places]))
    open_voxels = np.where(image.closed, -np.inf, image.voxels)
    core = grow(open_voxels, places, (problem.lower + intensity) / 2)
    speed = 1 / (1 + np.exp(-np.clip((image.voxels - image.lower) / (SPEED_WIDTH * image.found.contrast), -30, 30)))
    speed[image.closed] = 0
    march = sitk.FastMarchingImageFilter()
    march.SetTrialPoints([tuple(int(n) for n in place) for place in places])
    march.SetStoppingValue(float(np.prod(image.voxels.shape)))
    arrival = sitk.GetArrayFromImage(march.Execute(sitk.GetImageFromArray(speed.astype(np.float32))))
    return (arrival <= arrival[core].max()) & ~image.closed


def _distance(mask: Mask) -> Field:
    """Signed distance to the boundary of a mask, in voxels, positive inside."""
    padded = np.pad(mask, 1)
    inside = ndimage.distance_transform_edt(padded)[1:-1, 1:-1, 1:-1]
    outside = ndimage.distance_transform_edt(~padded)[1:-1, 1:-1, 1:-1]
    return np.clip(np.where(mask, inside - 0.5, 0.5 - outside), -BAND, BAND).astype(np.float32)


def _evolve(field: Field, image: Image, change: float, rounds: int, problem: Problem) -> Field:
    """Move the contour until it rests, or for so many rounds; `change` is added to the intensity of the wall."""
    field = field.copy()
    progress = Progress(problem.log, rounds, "rounds of the contour")
    for n in range(rounds):
        before = field > 0
        wall, contrast = _local(field, image)
        force = np.clip(2 * (image.voxels - wall - np.float32(change)) / contrast, -1, 1)
        force[image.closed] = -1
        for _ in range(STEPS):
            field = _step(field, force, image.edge, STEP, CURVATURE, ATTRACTION)
            field[image.closed] = np.minimum(field[image.closed], -0.5)
        for _ in range(2 * STEPS):
            field = _redistance(field)
        changed = float((before ^ (field > 0)).sum()) / max(float(before.sum()), 1.0)
        progress.update(n + 1, f"{changed:.2%} of the voxels changed")
        if changed <= SETTLED:
            break
    return field


def _local(field: Field, image: Image) -> tuple[Field, Field]:
    """Intensity at the wall, and contrast, (Z, Y, X): from levels and radius in a window around each voxel."""
    depth = np.clip(field, 0, BAND)
    square = depth**2
    weight = _window(square)
    inner = (_window(square * image.voxels) + PRIOR * image.found.lumen) / (weight + PRIOR)
    inner = np.maximum(inner, image.found.lumen - FADING * image.found.contrast)
    around = ((field < -2.5) & (field > 1 - BAND) & (image.voxels < image.lower)).astype(np.float32)
    outer = (_window(around * image.voxels) + PRIOR * image.found.surroundings) / (_window(around) + PRIOR)
    contrast = np.maximum(inner - outer, np.float32(0.25 * image.found.contrast))
    # the depth has in a disc of radius r, weighted by its square, the mean 0.6 r
    radius = np.maximum(_window(square * depth) / np.maximum(weight, 1e-6) / 0.6, 1.5)
    darker = np.minimum(image.blur / radius / np.sqrt(8 * np.pi), 0.1)
    wall = outer + contrast * (0.5 - darker)
    return _fine(wall, field.shape), _fine(contrast, field.shape)


def _window(values: Field) -> Field:
    """Means in the window, on a grid of every other voxel, which is fine enough for them."""
    even = np.pad(values, [(0, n % 2) for n in values.shape], mode="edge")
    z, y, x = (n // 2 for n in even.shape)
    halves = even.reshape(z, 2, y, 2, x, 2).mean(axis=(1, 3, 5), dtype=np.float32)
    return ndimage.gaussian_filter(halves, LOCAL_VOXELS / 2, truncate=3, mode="nearest")


def _fine(values: Field, shape: tuple[int, ...]) -> Field:
    """Back on the grid of all voxels."""
    z, y, x = shape
    repeated = values.repeat(2, axis=0).repeat(2, axis=1).repeat(2, axis=2)[:z, :y, :x]
    return ndimage.uniform_filter(repeated, 3, mode="nearest")


def _occupancy(field: Field, inside: Mask) -> Field:
    """Part of each voxel that lies within the contour, as if it were flat there; rounds to the mask."""
    filled = np.clip(0.5 + field, 0, 1)
    below = np.nextafter(np.float32(0.5), np.float32(0))
    near = ndimage.binary_dilation(inside, np.ones((3, 3, 3), bool))
    return np.where(inside, np.maximum(filled, 0.5), np.where(near, np.minimum(filled, below), 0)).astype(np.float32)


@njit(cache=True)
def _step(field: Field, force: Field, edge: Field, step: float, curvature: float, attraction: float) -> Field:
    """One explicit step of the contour: upwind differences for the force, central ones for the other two."""
    out = field.copy()
    depth, height, width = field.shape
    for z in range(1, depth - 1):
        for y in range(1, height - 1):
            for x in range(1, width - 1):
                f = field[z, y, x]
                if abs(f) > 3:
                    continue
                xm, xp = f - field[z, y, x - 1], field[z, y, x + 1] - f
                ym, yp = f - field[z, y - 1, x], field[z, y + 1, x] - f
                zm, zp = f - field[z - 1, y, x], field[z + 1, y, x] - f
                dx, dy, dz = (xm + xp) / 2, (ym + yp) / 2, (zm + zp) / 2
                square = dx * dx + dy * dy + dz * dz
                r = force[z, y, x]
                if r > 0:
                    upwind = min(xm, 0.0) ** 2 + max(xp, 0.0) ** 2 + min(ym, 0.0) ** 2 + max(yp, 0.0) ** 2
                    upwind += min(zm, 0.0) ** 2 + max(zp, 0.0) ** 2
                else:
                    upwind = max(xm, 0.0) ** 2 + min(xp, 0.0) ** 2 + max(ym, 0.0) ** 2 + min(yp, 0.0) ** 2
                    upwind += max(zm, 0.0) ** 2 + min(zp, 0.0) ** 2
                change = r * np.sqrt(upwind)
                xx, yy, zz = xp - xm, yp - ym, zp - zm
                xy = field[z, y + 1, x + 1] + field[z, y - 1, x - 1] - field[z, y + 1, x - 1] - field[z, y - 1, x + 1]
                xz = field[z + 1, y, x + 1] + field[z - 1, y, x - 1] - field[z + 1, y, x - 1] - field[z - 1, y, x + 1]
                yz = field[z + 1, y + 1, x] + field[z - 1, y - 1, x] - field[z + 1, y - 1, x] - field[z - 1, y + 1, x]
                bend = xx * (dy * dy + dz * dz) + yy * (dx * dx + dz * dz) + zz * (dx * dx + dy * dy)
                bend -= (dx * dy * xy + dx * dz * xz + dy * dz * yz) / 2
                g = edge[z, y, x]
                change += curvature * g * bend / (square + 1e-6)
                gx = (edge[z, y, x + 1] - edge[z, y, x - 1]) / 2
                gy = (edge[z, y + 1, x] - edge[z, y - 1, x]) / 2
                gz = (edge[z + 1, y, x] - edge[z - 1, y, x]) / 2
                change += attraction * (gx * dx + gy * dy + gz * dz)
                out[z, y, x] = f + step * min(max(change, -1.0), 1.0)
    return out


@njit(cache=True)
def _redistance(field: Field) -> Field:
    """One step towards a signed distance that leaves the contour where it is (Russo and Smereka 2000).

    Source: doi:10.1006/jcph.2000.6553.
    """
    out = field.copy()
    depth, height, width = field.shape
    for z in range(1, depth - 1):
        for y in range(1, height - 1):
            for x in range(1, width - 1):
                f = field[z, y, x]
                if abs(f) >= BAND:
                    continue
                left, right = field[z, y, x - 1], field[z, y, x + 1]
                front, back = field[z, y - 1, x], field[z, y + 1, x]
                under, over = field[z - 1, y, x], field[z + 1, y, x]
                s = 1.0 if f > 0 else -1.0
                crossed = (
                    f * left < 0 or f * right < 0 or f * front < 0 or f * back < 0 or f * under < 0 or f * over < 0
                )
                if crossed:
                    slope = np.sqrt((right - left) ** 2 + (back - front) ** 2 + (over - under) ** 2) / 2
                    slope = max(slope, abs(right - f), abs(f - left), abs(back - f), abs(f - front), 1e-3)
                    slope = max(slope, abs(over - f), abs(f - under))
                    out[z, y, x] = f - 0.5 * (f - f / slope)
                    continue
                a = max(s * (f - left), 0.0, -s * (right - f))
                b = max(s * (f - front), 0.0, -s * (back - f))
                c = max(s * (f - under), 0.0, -s * (over - f))
                out[z, y, x] = min(max(f + 0.5 * s * (1 - np.sqrt(a * a + b * b + c * c)), -BAND), BAND)
    return out
