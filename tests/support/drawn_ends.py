# SPDX-License-Identifier: Apache-2.0
"""Tubes drawn at random whose ends are known: blunt, round, bent, tapered, of fading contrast, or cut by the border,
where the tube may be narrow.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from pipeline.case.vessel import Branch, BranchShape, coverage
from pipeline.files.volume import Volume

KINDS = "blunt", "round", "bent", "tapered", "fading", "border"
TISSUE, LUMEN = 40.0, 340.0
NARROW = "narrow"
"""Cut by the border behind a narrow piece, one to two and a quarter voxels in radius: drawn where it is asked for."""
LOWER = (TISSUE + LUMEN) / 2


@dataclass(frozen=True)
class TrueEnd:
    """An end of a drawn tube.

    Attributes
    ----------
    kind : one of `KINDS`, or `NARROW`.
    place_mm, normal : (3,) LPS: where the tube ends, or is as bright and wide as before for the last time, and its axis
        there, out of the vessel.
    radius_mm : there.
    """

    kind: str
    place_mm: NDArray[np.float64]
    normal: NDArray[np.float64]
    radius_mm: float


@dataclass(frozen=True)
class DrawnTube:
    """An image of a tube, and the truth.

    Attributes
    ----------
    image : (Z, Y, X) float32, HU.
    seed_mm : (3,) in its middle.
    volume_mm3 : of the tube in the image.
    axis_mm, radii_mm : (N, 3) and (N,) its axis, LPS.
    ends : both.
    """

    image: Volume
    seed_mm: NDArray[np.float64]
    volume_mm3: float
    axis_mm: NDArray[np.float64]
    radii_mm: NDArray[np.float64]
    ends: tuple[TrueEnd, TrueEnd]

    def at(self, place_mm: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """True radius, and unit vector along the axis, (3,), next to a place."""
        row = int(np.linalg.norm(self.axis_mm - place_mm, axis=1).argmin())
        along = np.gradient(self.axis_mm, axis=0)[row]
        return float(self.radii_mm[row]), along / np.linalg.norm(along)


def draw(seed: int, kinds: tuple[str, str] | None = None) -> DrawnTube:
    """Draw a tube.

    Parameters
    ----------
    seed : of everything: 2 to 12 voxels in radius, 9 to 13 radii long, in any pose, slices of 1 to 2 times the pixels,
        blur of 0.4 to 0.9 voxels, noise of 2 to 8 % of the contrast.
    kinds : of its ends; none: drawn.
    """
    rng = np.random.default_rng(seed)
    kinds = kinds or (str(rng.choice(KINDS)), str(rng.choice(KINDS)))
    pixel_mm = rng.uniform(0.3, 0.8)
    spacing = pixel_mm * np.array([1.0, 1.0, rng.uniform(1.0, 2.0)])
    radius = pixel_mm * np.exp(rng.uniform(np.log(2.0), np.log(12.0)))
    if NARROW in kinds:
        narrow = pixel_mm * rng.uniform(1.0, 2.25)
        radius = narrow / rng.uniform(0.3, 0.75)
    way = np.arange(0.0, rng.uniform(9.0, 13.0), 0.05)
    points = _axis(rng, way, kinds) * radius
    far = [rng.uniform(3.0, 6.0) for _ in kinds]
    radii = radius * rng.uniform(0.9, 1.1) ** (way / way[-1])
    bright = np.ones(len(way))
    for kind, reach, along in zip(kinds, far, (way, way[-1] - way), strict=True):
        if kind == "tapered":
            radii = radii * np.clip(along / reach, 0.12, 1.0)
        if kind == NARROW:
            radii = radii * np.interp(along, [reach, reach + 1], [narrow / radius, 1.0])
        if kind == "fading":
            bright = np.minimum(bright, np.clip(along / reach, 0.0, 1.0))
    points = Rotation.random(rng=rng).apply(points - points.mean(axis=0))
    image, part, shift = _imaged(rng, points, radii, bright, spacing, kinds)
    axis = points + shift
    reaches = [reach if kind in ("tapered", "fading") else 0.0 for kind, reach in zip(kinds, far, strict=True)]
    ends = [_end(kinds[last], axis, radii, reaches[last] / 0.05, last) for last in (0, 1)]
    volume = float(part.sum(dtype=np.float64) * spacing.prod())
    return DrawnTube(image, axis[len(axis) // 2], volume, axis, radii, (ends[0], ends[1]))


def _end(kind: str, axis: NDArray[np.float64], radii: NDArray[np.float64], rows: float, last: int) -> TrueEnd:
    row = min(round(rows), len(axis) - 1)
    row, sign = (len(axis) - 1 - row, 1.0) if last else (row, -1.0)
    along = np.gradient(axis, axis=0)[row]
    return TrueEnd(kind, axis[row], sign * along / np.linalg.norm(along), float(radii[row]))


def _axis(rng: np.random.Generator, way: NDArray[np.float64], kinds: tuple[str, str]) -> NDArray[np.float64]:
    """A curve of little curvature, with a bend at ends that are bent, in radii of the tube, (N, 3)."""
    step = way[1] - way[0]
    turning = np.full((len(way), 2), rng.uniform(-0.04, 0.04, 2))
    for kind, along in zip(kinds, (way, way[-1] - way), strict=True):
        if kind == "bent":
            tightness, sideways = 1 / rng.uniform(2.5, 5.0), rng.uniform(0, 2 * np.pi)
            turning[along < rng.uniform(1.0, 3.0)] = tightness * np.array([np.cos(sideways), np.sin(sideways)])
    points, frame = [np.zeros(3)], np.eye(3)
    for x, y in turning[1:] * step:
        frame = frame @ Rotation.from_rotvec([y, x, 0.0]).as_matrix()
        points.append(points[-1] + step * frame[:, 2])
    return np.array(points)


def _imaged(
    rng: np.random.Generator,
    points: NDArray[np.float64],
    radii: NDArray[np.float64],
    bright: NDArray[np.float64],
    spacing: NDArray[np.float64],
    kinds: tuple[str, str],
) -> tuple[Volume, NDArray[np.float32], NDArray[np.float64]]:
    """The image; the part of each voxel that is lumen; and how the tube is shifted so that it lies in the image."""
    turn = Rotation.random(rng=rng).as_matrix()  # of the image in the patient
    half = np.abs(points @ turn).max(axis=0) + radii.max() + 6 * spacing
    size = (2 * np.ceil(half / spacing) + 1).astype(int)
    flat = [kind != "round" for kind in kinds]
    knots = np.unique(np.linspace(0, len(points) - 1, 60).round().astype(int))
    shape = BranchShape(
        name="tube",
        points_mm=(points @ turn)[knots].tolist(),
        radii_mm=radii[knots].tolist(),
        start="first" if flat[0] else None,
        end="last" if flat[1] else None,
    )
    part = coverage(Branch(shape).distance_mm, (int(size[0]), int(size[1]), int(size[2])), spacing)
    low = np.zeros(3, int)
    high = size.copy()
    for kind, row, ahead in zip(kinds, (0, -1), (1, -2), strict=True):
        if kind in ("border", NARROW):  # a radius before the end, across the axis of the image that is nearest to it
            out = (points[row] - points[ahead]) @ turn
            axis = int(np.abs(out).argmax())
            at = (points[row] @ turn)[axis] - np.sign(out[axis]) * radii[row]
            voxel = round(at / spacing[axis] + (size[axis] - 1) / 2)
            (high if out[axis] > 0 else low)[axis] = voxel
    voxels = np.stack(np.meshgrid(*((np.arange(n) - (n - 1) / 2) for n in size[::-1]), indexing="ij"), axis=-1)
    full = part > 0
    row = cKDTree(points @ turn).query(voxels[full][:, ::-1] * spacing)[1]
    hu = np.zeros(part.shape, np.float32)
    hu[full] = part[full] * bright[row]
    blur = rng.uniform(0.4, 0.9)
    hu = TISSUE + (LUMEN - TISSUE) * gaussian_filter(hu, blur)
    hu += rng.uniform(0.02, 0.08) * (LUMEN - TISSUE) * rng.standard_normal(hu.shape, np.float32)
    box = tuple(slice(a, b) for a, b in zip(low[::-1], high[::-1], strict=True))
    where = rng.uniform(-100, 100, 3)
    first = turn @ ((low - (size - 1) / 2) * spacing) + where
    x, y, z = spacing.tolist()
    image = Volume(hu[box], (x, y, z), (float(first[0]), float(first[1]), float(first[2])), turn)
    return image, part[box], where
