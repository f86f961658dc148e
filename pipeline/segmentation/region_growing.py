# SPDX-License-Identifier: Apache-2.0
"""Masks grown from seeds: connected components, cavities, thickness. Arrays are [z, y, x], indices (x, y, z)."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial import cKDTree
from skimage.morphology import skeletonize

from pipeline.files.enclosed import both_sides

Mask = NDArray[np.bool_]
Index = tuple[int, int, int]
Box = tuple[slice, slice, slice]
"""Slices z, y, x."""

SPUR_REACH, SPUR_FALL = 3, 0.75
"""A point of a centre line belongs to a spur if within so many voxels the radius falls to this part."""

FAR = 64
"""Points of a leaf of a search tree: half the time where what is sought is far, as a wall from the middle."""


def grow(voxels: NDArray[np.floating], seeds: Sequence[Index], lower: float, upper: float = np.inf) -> Mask:
    """All voxels between the thresholds (both included) that are six-connected to a seed.

    Parameters
    ----------
    voxels : (Z, Y, X).
    seeds : indices x, y, z. Seeds that are not between the thresholds themselves are passed over; where none is left,
        the largest component counts.
    lower, upper : thresholds.

    Returns
    -------
    (Z, Y, X) bool.
    """
    labels, count = ndimage.label((voxels >= lower) & (voxels <= upper))
    if not count:
        return labels > 0
    chosen = sorted({int(labels[seed[::-1]]) for seed in seeds} - {0})
    if not chosen:
        chosen = [1 + int(np.argmax(np.bincount(labels.ravel())[1:]))]
    return np.isin(labels, chosen) if len(chosen) > 1 else labels == chosen[0]


def grow_family(
    voxels: NDArray[np.floating], seeds: Sequence[Index], lower: Sequence[float], upper: float = np.inf
) -> Iterator[tuple[Box, Mask]]:
    """What :func:`grow` gives for ascending lower thresholds, each mask with the box of the volume that it fills.

    A higher threshold only shrinks the mask, so that each is looked for in the one before.

    Parameters
    ----------
    voxels : [z, y, x].
    seeds : indices x, y, z.
    lower : ascending thresholds.
    upper : the same for all.

    Returns
    -------
    One mask a threshold; the family ends with the first one that is empty.
    """
    box: Box = (slice(0, voxels.shape[0]), slice(0, voxels.shape[1]), slice(0, voxels.shape[2]))
    inside = list(seeds)
    for threshold in lower:
        mask = grow(voxels, inside, threshold, upper)
        yield box, mask
        if not mask.any():
            return
        near = bounding_box(mask, margin=2)  # the layers that the wall's place follows from
        voxels, inside = np.where(mask, voxels, -np.inf)[near], [shift(s, near) for s in inside if mask[s[::-1]]]
        z, y, x = (slice(b.start + n.start, b.start + n.stop) for b, n in zip(box, near, strict=True))
        box = (z, y, x)


def shift(index: Index, box: Box) -> Index:
    """An index x, y, z within a box."""
    z, y, x = box
    return index[0] - x.start, index[1] - y.start, index[2] - z.start


def holds(mask: Mask, place: Index) -> bool:
    """Whether a mask has a voxel z, y, x, which may lie outside its grid."""
    inside = all(0 <= n < size for n, size in zip(place, mask.shape, strict=True))
    return inside and bool(mask[place])


def seeds_within(mask: Mask, places: Sequence[Index]) -> Sequence[Index]:
    """Those of the voxels x, y, z that a mask holds; all where it holds none."""
    return [place for place in places if mask[place[::-1]]] or places


def bounding_box(mask: Mask, margin: int = 0) -> Box:
    """Slices z, y, x of the box of a mask, widened by `margin` voxels as far as the array goes."""
    slices = []
    for axis, size in enumerate(mask.shape):
        filled = np.flatnonzero(mask.any(axis=tuple({0, 1, 2} - {axis})))
        slices.append(slice(max(int(filled[0]) - margin, 0), min(int(filled[-1]) + 1 + margin, size)))
    return slices[0], slices[1], slices[2]


def fill_holes(mask: Mask) -> tuple[Mask, int]:
    """Fill what the mask encloses in three dimensions, and count the cavities.

    A cavity counts as enclosed when no six-connected path leads out of it, so that no pinhole over a diagonal remains.
    """
    box = bounding_box(mask)
    filled = mask.copy()
    filled[box] = ndimage.binary_fill_holes(mask[box])
    return filled, int(ndimage.label(filled[box] & ~mask[box])[1])


def deepest(depth: NDArray[np.floating], place: Index) -> Index:
    """The deepest voxel z, y, x of the ball about a place that a mask holds, or two voxels away.

    Parameters
    ----------
    depth : (Z, Y, X) distance to the mask's wall, voxels.
    place : voxel z, y, x.
    """
    reach = max(float(depth[place]), 0.0) + 2
    low = np.maximum(np.array(place) - int(reach), 0)
    near = depth[tuple(slice(int(a), n + int(reach) + 1) for a, n in zip(low, place, strict=True))]
    away = np.moveaxis(np.indices(near.shape), 0, -1) + low - place
    ball = np.where((away**2).sum(axis=-1) <= reach**2, near, -1)
    z, y, x = (int(n) for n in low + np.unravel_index(int(ball.argmax()), ball.shape))
    return z, y, x


def occupancy(voxels: NDArray[np.floating], mask: Mask, lower: float, contrast: float) -> NDArray[np.float32]:
    """Part of each voxel that the lumen fills, from the intensity at its wall: a mask without steps.

    In the layers of voxels on both sides of the mask's boundary 1/2 + (intensity - lower) / contrast, between 0 and 1,
    so that the wall stands at 1/2, where the intensity passes the threshold; 1 further inside, 0 further outside. A
    voxel of the mask keeps at least 1/2, one outside stays below: rounding gives the mask back.

    Parameters
    ----------
    voxels : (Z, Y, X) intensities.
    mask : (Z, Y, X) bool.
    lower : threshold.
    contrast : intensity of the lumen less that of its surroundings.

    Returns
    -------
    (Z, Y, X) float32.
    """
    filled = mask.astype(np.float32)
    box = bounding_box(mask, margin=2)
    inside = mask[box]
    edge = both_sides(inside)
    part = 0.5 + (voxels[box] - lower) / contrast
    part = np.where(inside, np.clip(part, 0.5, 1), np.clip(part, 0, np.nextafter(np.float32(0.5), np.float32(0))))
    filled[box][edge] = part[edge]
    return filled


def centre_line(mask: Mask) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
    """Voxels of the centre line, (N, 3) indices z, y, x, and the radius at each, in voxels.

    The radius is the distance to the nearest voxel outside, less a half.
    """
    box = bounding_box(mask)
    part = np.pad(mask[box], 1)
    distance, line = ndimage.distance_transform_edt(part), skeletonize(part) > 0
    if not line.any():  # thinning leaves nothing of a box with even sides
        line = distance == distance.max()
    return np.argwhere(line) - 1 + [axis.start for axis in box], distance[line] - 0.5


def centres(line: NDArray[np.int64], radii: NDArray[np.floating], filled: NDArray[np.floating]) -> NDArray[np.floating]:
    """A centre line of voxels, moved to the middle of the vessel and without the spurs that run to a rough wall.

    Along a vessel the radius hardly changes over some voxels; along a spur it falls by a voxel a voxel. The middle is
    where the wall is farthest, looked for within a voxel in steps of a half.

    Parameters
    ----------
    line : (N, 3) indices z, y, x.
    radii : (N,) voxels.
    filled : (Z, Y, X) occupancy.

    Returns
    -------
    (M, 3) continuous indices z, y, x.
    """
    near = cKDTree(line).query_ball_point(line, SPUR_REACH)
    kept = [radius >= SPUR_FALL * radii[others].max() for radius, others in zip(radii, near, strict=True)]
    around = np.stack(np.meshgrid(*[np.linspace(-1, 1, 5)] * 3), axis=-1).reshape(-1, 3)
    places = line[kept][:, None] + around
    # neighbours on the line have most of their places in common
    twice = np.rint(2 * places).astype(int).reshape(-1, 3)
    numbers = np.ravel_multi_index(tuple((twice - twice.min(axis=0)).T), np.ptp(twice, axis=0) + 1)
    _, first, where = np.unique(numbers, return_index=True, return_inverse=True)
    away = cKDTree(wall_points(filled), leafsize=FAR).query(places.reshape(-1, 3)[first])[0]
    farthest = away[where].reshape(places.shape[:2]).argmax(axis=1)
    return places[np.arange(len(places)), farthest]


def mean_radius(centre: NDArray[np.floating], filled: NDArray[np.floating]) -> float:
    """Mean distance, in voxels, from the points of a centre line to the wall; points outside the lumen count as 0.

    Parameters
    ----------
    centre : (N, 3) continuous indices z, y, x.
    filled : (Z, Y, X) occupancy.
    """
    nearest = np.rint(centre).astype(int)
    within = np.all((nearest >= 0) & (nearest < filled.shape), axis=1)
    inside = centre[within][filled[tuple(nearest[within].T)] >= 0.5]
    walls = wall_points(filled)
    return float(cKDTree(walls, leafsize=FAR).query(inside)[0].sum() / len(centre)) if len(walls) else 0.0


def wall_points(filled: NDArray[np.floating]) -> NDArray[np.floating]:
    """Where an occupancy passes 1/2 between neighbouring voxels, by linear interpolation: (N, 3) indices z, y, x."""
    return np.concatenate([crossings(filled, axis) for axis in range(3)])


def crossings(filled: NDArray[np.floating], axis: int) -> NDArray[np.floating]:
    """Where, along the lines of voxels of an axis, an occupancy passes 1/2: (N, 3) continuous indices z, y, x."""
    along = np.moveaxis(filled, axis, 0)
    first, second = along[:-1], along[1:]
    crossed = (first >= 0.5) != (second >= 0.5)
    places = np.argwhere(crossed).astype(float)
    low, high = first[crossed], second[crossed]
    places[:, 0] += (0.5 - low) / (high - low)
    return np.insert(places[:, 1:], axis, places[:, 0], axis=1)
