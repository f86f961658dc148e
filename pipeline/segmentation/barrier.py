# SPDX-License-Identifier: Apache-2.0
"""Cut planes: thin layers of voxels over which no lumen grows."""

from collections.abc import Sequence

import numpy as np
from scipy import ndimage

from pipeline.case.settings.images import CutPlane
from pipeline.files.volume import Volume
from pipeline.segmentation.region_growing import Mask, bounding_box

BESIDE = 2
"""Steps from what a plane parts off that the plane keeps: the rim of a vessel that it cuts across, too."""


def barrier(planes: Sequence[CutPlane], volume: Volume) -> Mask | None:
    """The voxels of all cut planes; None without any.

    A plane with the unit normal n holds the voxels with -w/2 <= d < w/2, where d is their signed distance and w the
    longest step along n to one of the six neighbours: no six-connected path can step over it, and no thinner layer has
    this property (a naive digital plane: Reveillès 1991).

    Parameters
    ----------
    planes : discs, or whole planes, in LPS mm.
    volume : the grid, in any orientation.

    Returns
    -------
    (Z, Y, X) bool.
    """
    return np.any([layer(plane, volume) for plane in planes], axis=0) if planes else None


def layer(plane: CutPlane, volume: Volume) -> Mask:
    """The voxels of one plane, (Z, Y, X) bool."""
    normal = np.array(plane.normal) / np.linalg.norm(plane.normal) @ volume.direction
    centre = (np.array(plane.point_mm) - volume.origin_mm) @ volume.direction
    steps = volume.voxels.shape[::-1]
    away = [np.arange(n) * h - c for n, h, c in zip(steps, volume.spacing_mm, centre, strict=True)]
    x, y, z = (a.reshape(shape) for a, shape in zip(away, ((1, 1, -1), (1, -1, 1), (-1, 1, 1)), strict=True))
    distance = normal[0] * x + normal[1] * y + normal[2] * z
    half = float(np.max(np.abs(normal) * volume.spacing_mm)) / 2 * (1 + 1e-9)  # rounding must not open it
    inside = (distance >= -half) & (distance < half)
    if plane.radius_mm is not None:
        inside &= x**2 + y**2 + z**2 - distance**2 <= plane.radius_mm**2
    return inside


def with_its_layers(mask: Mask, reaches: Mask, cut: Mask) -> Mask:
    """A lumen with those voxels of cut planes that part it from nothing.

    A disc that parts two lumens where they touch reaches into both beyond that place, and along the wall. There no
    voxel of what it parts off lies beside it, within `BESIDE` steps, and not both of two parts of the lumen that hang
    together elsewhere alone, as where a vessel touches itself.

    Parameters
    ----------
    mask : (Z, Y, X) bool, the lumen without the voxels of the planes.
    reaches : (Z, Y, X) bool, what is bright enough for a lumen.
    cut : (Z, Y, X) bool, the voxels of the planes.

    Returns
    -------
    (Z, Y, X) bool.
    """
    box = bounding_box(mask, margin=BESIDE + 2)
    own, bright, layers = mask[box], reaches[box], cut[box]
    parting = ndimage.binary_dilation(bright & ~own & ~layers, iterations=BESIDE) | _between_parts(own, layers)
    whole = mask.copy()
    whole[box] = ndimage.binary_propagation(own, mask=own | (layers & bright & ~parting))
    return whole


def _between_parts(own: Mask, layers: Mask) -> Mask:
    """Voxels of layers that have two parts of a lumen beside them which do not hang together around their disc."""
    between = np.zeros_like(layers)
    label, _ = ndimage.label(layers, np.ones((3, 3, 3)))
    for box in ndimage.find_objects(label):
        near = tuple(slice(max(side.start - BESIDE - 2, 0), side.stop + BESIDE + 2) for side in box)
        parts, count = ndimage.label(own[near])
        if count > 1:
            beside = [ndimage.binary_dilation(parts == n, iterations=BESIDE) for n in range(1, count + 1)]
            between[near] |= layers[near] & (np.sum(beside, axis=0) > 1)
    return between


def faults(planes: Sequence[CutPlane], volume: Volume, mask: Mask, reaches: Mask) -> list[str]:
    """Warnings of cut planes that a mask does not touch, or that part nothing off it.

    Parameters
    ----------
    planes : as in the settings.
    volume : the grid.
    mask : (Z, Y, X) bool.
    reaches : (Z, Y, X) bool, what is bright enough for a lumen.
    """
    warnings = []
    for n, plane in enumerate(planes):
        disc = layer(plane, volume)
        beside = ndimage.binary_dilation(disc)
        if not (beside & mask).any():
            warnings.append(f"segment.cut_planes[{n}] does not touch the lumen")
        elif not (beside & reaches & ~disc & ~mask).any():
            warnings.append(f"segment.cut_planes[{n}] parts nothing: the lumen goes on around it; widen radius_mm")
    return warnings


def planes_text(planes: tuple[CutPlane, ...]) -> str:
    """Cut planes as a case file holds them."""

    def entry(plane: CutPlane) -> str:
        vectors = f"point_mm: {_listed(plane.point_mm)}, normal: {_listed(plane.normal)}"
        return "{" + vectors + ("" if plane.radius_mm is None else f", radius_mm: {plane.radius_mm:g}") + "}"

    return "[" + ", ".join(entry(plane) for plane in planes) + "]"


def _listed(vector: tuple[float, float, float]) -> str:
    return "[" + ", ".join(f"{each:.6g}" for each in vector) + "]"
