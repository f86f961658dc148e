# SPDX-License-Identifier: Apache-2.0
"""Vessel: the shape of a phantom, given by a few numbers, as a distance that is negative inside.

The frame is the phantom's own: mm, origin at the centre of the image, axes along its columns (x), rows (y) and slices
(z).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator
from scipy.interpolate import CubicSpline, PchipInterpolator
from scipy.spatial import cKDTree

from pipeline.case.settings.base import Name, NonNegative, Point, Positive, Section

STEP_MM = 0.1
"""Distance of the samples of a centreline. Between them it is taken as straight: an error of STEP^2 / (8 R) of place,
0.1 micrometre for a bend of radius R = 10 mm."""

BLOCK = 8
"""Edge, in voxels, of the blocks in which a shape is evaluated."""

Distance = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Of points (N, 3), mm, to a surface: (N,), negative inside; exact near the surface, of the right sign elsewhere."""


class BranchShape(Section):
    """A round vessel about a smooth centreline."""

    name: Name
    points_mm: tuple[Point, ...] = Field(min_length=2, description="the centreline passes through these")
    radii_mm: tuple[Positive, ...] = Field(description="one a point")
    start: Name | None = Field(
        None, description="name of the opening at the first point, a flat end; none: a round end"
    )
    end: Name | None = Field(None, description="the same at the last point")

    @model_validator(mode="after")
    def _as_many(self) -> Self:
        if len(self.points_mm) != len(self.radii_mm):
            raise ValueError(f"{len(self.points_mm)} points_mm but {len(self.radii_mm)} radii_mm; give one a point")
        if any(first == second for first, second in zip(self.points_mm, self.points_mm[1:], strict=False)):
            raise ValueError("two neighbours in points_mm are the same; leave one out")
        return self


class Ellipsoid(Section):
    """A saccular aneurysm, or a bone: solid, or a shell."""

    centre_mm: Point
    radii_mm: tuple[Positive, Positive, Positive]
    shell_mm: Positive | None = Field(None, description="thickness of the shell, inwards; none: solid")

    def distance_mm(self, points_mm: NDArray[np.float64]) -> NDArray[np.float64]:
        """Distance, to first order near the surface (exact for a sphere)."""
        offset, radii = points_mm - self.centre_mm, np.array(self.radii_mm)
        norm = np.linalg.norm(offset / radii, axis=-1)
        slope = np.maximum(np.linalg.norm(offset / radii**2, axis=-1), 1e-9)
        outside = norm * (norm - 1) / slope
        return outside if self.shell_mm is None else np.maximum(outside, -outside - self.shell_mm)


class VesselShape(Section):
    """Branches and aneurysms, joined smoothly."""

    branches: tuple[BranchShape, ...] = Field(min_length=1)
    sacs: tuple[Ellipsoid, ...] = ()
    blend_mm: NonNegative = Field(0.5, description="distance over which parts that meet are rounded")

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        openings = [name for branch in self.branches for name in (branch.start, branch.end) if name]
        for kind, names in (("branches", [branch.name for branch in self.branches]), ("openings", openings)):
            if twice := {name for name in names if names.count(name) > 1}:
                raise ValueError(f"{kind} {', '.join(sorted(twice))} named more than once; names must differ")
        return self


@dataclass(frozen=True)
class End:
    """A flat end of a branch.

    Attributes
    ----------
    name : of the opening.
    centre_mm, normal : (3,), the normal points out of the vessel.
    radius_mm : of the round cut.
    """

    name: str
    centre_mm: NDArray[np.float64]
    normal: NDArray[np.float64]
    radius_mm: float


class Branch:
    """A branch sampled along its centreline.

    The centreline is the natural cubic spline through the points over the length of the chords; the radius is
    interpolated monotonically (PCHIP), so that it never leaves the range of its neighbours.

    Attributes
    ----------
    shape : what it was made from.
    points_mm, tangents : (N, 3), equally spaced along the centreline.
    radii_mm : (N,).
    """

    def __init__(self, shape: BranchShape) -> None:
        self.shape = shape
        knots = np.array(shape.points_mm)
        chords = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(knots, axis=0), axis=1))])
        curve = CubicSpline(chords, knots, bc_type="natural")
        fine = np.linspace(0, chords[-1], 20 * round(chords[-1] / STEP_MM) + 2)
        lengths = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(curve(fine), axis=0), axis=1))])
        count = max(round(lengths[-1] / STEP_MM), 2) + 1
        self._step_mm = lengths[-1] / (count - 1)
        parameter = np.interp(np.linspace(0, lengths[-1], count), lengths, fine)
        derivative = curve(parameter, 1)
        self.points_mm = curve(parameter)
        self.tangents = derivative / np.linalg.norm(derivative, axis=1, keepdims=True)
        self.radii_mm = PchipInterpolator(chords, shape.radii_mm)(parameter)
        self._taper = np.gradient(self.radii_mm, self._step_mm)
        self._tree = cKDTree(self.points_mm)

    @property
    def ends(self) -> list[End]:
        """Its flat ends."""
        return [
            End(name, self.points_mm[k], sign * self.tangents[k], float(self.radii_mm[k]))
            for name, k, sign in ((self.shape.start, 0, -1), (self.shape.end, -1, 1))
            if name
        ]

    def sampled(self, step_mm: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Points (N, 3) and radii (N,) about every `step_mm`, both ends among them, mm."""
        count = max(round((len(self.points_mm) - 1) * self._step_mm / step_mm), 1) + 1
        index = np.linspace(0, len(self.points_mm) - 1, count).round().astype(int)
        return self.points_mm[index], self.radii_mm[index]

    def distance_mm(self, points_mm: NDArray[np.float64]) -> NDArray[np.float64]:
        """Distance of points (N, 3): to the tube about the nearest piece of the centreline, cut off at flat ends."""
        gap, nearest = self._tree.query(points_mm)
        along = np.einsum("ij,ij->i", points_mm - self.points_mm[nearest], self.tangents[nearest])
        first, last = nearest == 0, nearest == len(self.points_mm) - 1
        low = np.where(first, -np.inf if self.shape.start else 0.0, -self._step_mm)
        high = np.where(last, np.inf if self.shape.end else 0.0, self._step_mm)
        foot = np.clip(along, low, high)
        to_centreline = np.sqrt(np.maximum(gap**2 - 2 * along * foot + foot**2, 0.0))
        on_curve = np.clip(foot, np.where(first, 0.0, low), np.where(last, 0.0, high))
        distance = to_centreline - self.radii_mm[nearest] - self._taper[nearest] * on_curve
        arc = nearest * self._step_mm + foot
        if self.shape.start:
            distance = np.maximum(distance, -arc)
        if self.shape.end:
            distance = np.maximum(distance, arc - (len(self.points_mm) - 1) * self._step_mm)
        return distance


def smooth_union(first: NDArray[np.float64], second: NDArray[np.float64], blend_mm: float) -> NDArray[np.float64]:
    """Minimum of two distances, rounded where they differ by less than `blend_mm` (polynomial smooth minimum).

    Parameters
    ----------
    first, second : distances of the same places to two walls, mm, of one shape.
    blend_mm : 0: the minimum itself.
    """
    union = np.minimum(first, second)
    if blend_mm == 0:
        return union
    return union - np.maximum(blend_mm - np.abs(first - second), 0.0) ** 2 / (4 * blend_mm)


def vessel_distance(shape: VesselShape, branches: list[Branch]) -> Distance:
    """Distance to the wall of the whole vessel."""
    parts: list[Distance] = [*(branch.distance_mm for branch in branches), *(sac.distance_mm for sac in shape.sacs)]

    def distance(points_mm: NDArray[np.float64]) -> NDArray[np.float64]:
        return reduce(lambda a, b: smooth_union(a, b, shape.blend_mm), (part(points_mm) for part in parts))

    return distance


def coverage(
    distance: Distance, size: tuple[int, int, int], spacing_mm: ArrayLike, subdivisions: int = 4
) -> NDArray[np.float32]:
    """Fraction of each voxel that lies inside a shape.

    Blocks that the surface may cross are divided into voxels, and these into parts; each part counts with
    clip(1/2 - d/h, 0, 1), d its centre's distance and h its mean edge. For a round vessel of radius r this makes the
    cross-section larger by h^2 / (12 r^2), relative: 0.02 % at h = 0.1 mm, r = 2 mm.

    Parameters
    ----------
    distance : of points in the phantom's frame, mm.
    size : number of voxels along x, y, z; the grid's centre is the origin.
    spacing_mm : of the voxels, (3,).
    subdivisions : parts of a voxel along each axis.

    Returns
    -------
    (Z, Y, X) array from 0 to 1.
    """
    spacing = np.asarray(spacing_mm, float)
    middle = (np.array(size) - 1) / 2
    corners = _lattice([range(0, n, BLOCK) for n in size])
    d = distance((corners + (BLOCK - 1) / 2 - middle) * spacing)
    result = np.empty(size[::-1], np.float32)
    reach_mm = BLOCK * np.linalg.norm(spacing)  # twice the half diagonal, because distances are approximate far away
    for (x, y, z), near, inside in zip(corners, np.abs(d) < reach_mm, d < 0, strict=True):
        block = result[z : z + BLOCK, y : y + BLOCK, x : x + BLOCK]
        block[...] = inside
        if near:
            depth, height, width = block.shape
            voxels = _lattice([range(x, x + width), range(y, y + height), range(z, z + depth)])
            block[...] = _parts((voxels - middle) * spacing, distance, spacing, subdivisions).reshape(block.shape)
    return result


def _lattice(axes: list[range]) -> NDArray[np.int64]:
    """All points (x, y, z) of three axes, (N, 3), x fastest."""
    z, y, x = np.meshgrid(*axes[::-1], indexing="ij")
    return np.column_stack([x.ravel(), y.ravel(), z.ravel()])


def _parts(
    centres: NDArray[np.float64], distance: Distance, spacing: NDArray[np.float64], subdivisions: int
) -> NDArray[np.float64]:
    """Covered fractions of voxels with the given centres (N, 3)."""
    d = distance(centres)
    covered = (d < 0).astype(float)
    crossed = np.flatnonzero(np.abs(d) < 0.6 * np.linalg.norm(spacing))  # half a diagonal and a little
    if len(crossed):
        part = _lattice([range(subdivisions)] * 3)
        offsets = ((part + 0.5) / subdivisions - 0.5) * spacing
        edge_mm = np.cbrt(np.prod(spacing)) / subdivisions
        inside = 0.5 - distance((centres[crossed, None, :] + offsets).reshape(-1, 3)) / edge_mm
        covered[crossed] = np.clip(inside, 0.0, 1.0).reshape(len(crossed), -1).mean(axis=1)
    return covered
