# SPDX-License-Identifier: Apache-2.0
"""The surface of a bifurcation: three tubes that are joined with a rounding."""

from collections.abc import Callable
from dataclasses import replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from pipeline.case.shapes import Bifurcation
from pipeline.case.vessel import smooth_union
from pipeline.files.mesh import Mesh
from pipeline.files.volume import Volume
from pipeline.geometry.lattice.frame import OFFSET
from pipeline.geometry.surface.clip import ClipError, cut_end
from pipeline.geometry.surface.isosurface import zero_surface
from pipeline.geometry.surface.tessellated import Point, Tessellated, opening_of
from solver.runtime.errors import StageError

FORK_CELLS, FORK_TOLERANCE = 40, 2.5e-4
"""Cells across the thinnest branch of the grid on which a fork is found, and how far its triangles leave the wall, in
diameters of the parent."""

BLOCK = 8
"""Points on a side of the blocks of that grid which are looked at closely or not."""

CAP_TOLERANCE = 0.01
"""Largest relative deviation of a daughter's end from its circle: more, and it lies in the rounding of the fork."""


def fork_distance(shape: Bifurcation) -> Callable[[Point], NDArray[np.float64]]:
    """Distance to the wall of the endless branches, rounded where they meet, of points (N, 3): negative inside."""
    blend = shape.diameter_mm / 4 if shape.blend_mm is None else shape.blend_mm

    def distance(places: Point) -> NDArray[np.float64]:
        parts = []
        for direction, radius in zip(_directions(shape), _radii(shape), strict=True):
            along = np.maximum(places @ direction, 0.0)
            parts.append(np.linalg.norm(places - along[:, None] * direction, axis=1) - radius)
        return reduce(lambda a, b: smooth_union(a, b, blend), parts)

    return distance


def _directions(shape: Bifurcation) -> Point:
    """Of the parent and the daughters, away from the fork, (3, 3)."""
    first, second = (np.radians(daughter.angle_deg) for daughter in shape.daughters)
    return np.array(((-1, 0, 0), (np.cos(first), 0, np.sin(first)), (np.cos(second), 0, -np.sin(second))))


def _radii(shape: Bifurcation) -> Point:
    return np.array((shape.diameter_mm, *shape.daughter_diameters_mm)) / 2


def bifurcation_surface(shape: Bifurcation, spacing_mm: float) -> Tessellated:
    """A parent and two daughters, found as the surface on which the distance to the wall is 0."""
    radii, directions, distance = _radii(shape), _directions(shape), fork_distance(shape)
    lengths = np.array((shape.length_mm, *(daughter.length_mm for daughter in shape.daughters)))
    step = 2 * radii.min() / FORK_CELLS
    reach = directions * (lengths + 2 * radii)[:, None]
    low, high = (np.concatenate((reach, np.zeros((1, 3)))) for _ in range(2))
    low, high = low.min(axis=0) - 2 * radii.max(), high.max(axis=0) + 2 * radii.max()
    axes = [np.arange(a, b, step) for a, b in zip(low, high, strict=True)]

    def inside(places: Point) -> NDArray[np.float64]:
        ends = lengths + radii - places @ directions.T  # cut off below
        return np.minimum(-distance(places), ends.min(axis=1))

    volume = Volume(_near_zero(inside, axes, step), (step,) * 3, tuple(low.tolist()), np.eye(3))
    found = zero_surface(volume)
    mesh = Mesh(_on_wall(found.points_mm, distance, lengths + radii / 2, directions), found.triangles, found.opening)
    openings = []
    for number, (direction, length, radius) in enumerate(zip(directions, lengths, radii, strict=True), 1):
        try:
            mesh = cut_end(mesh, direction * length, direction, number)
        except ClipError as error:
            raise StageError(f"input.geometry: {_too_short(shape, number)}: {error}") from None
        area = float(np.linalg.norm(mesh.area_vectors_mm2()[mesh.opening == number], axis=1).sum())
        if abs(area / (np.pi * radius**2) - 1) > CAP_TOLERANCE:
            raise StageError(f"input.geometry: {_too_short(shape, number)}: its end lies in the rounding of the fork")
        turned = shape.turn @ direction
        openings.append(opening_of(shape, number, turned * length, turned, area))
    patch = np.where(mesh.opening > 0, 0, 1).astype(np.int8)
    mesh = replace(mesh, points_mm=mesh.points_mm @ shape.turn.T, patch=patch)
    anchor = OFFSET * spacing_mm * (1 if shape.oblique else np.abs(shape.unit))  # keeps the symmetry there is
    return Tessellated(mesh, tuple(openings), anchor, mesh.points_mm.min(axis=0), mesh.points_mm.max(axis=0))


def _near_zero(function: Callable[[Point], NDArray[np.float64]], axes: list[Point], step: float) -> NDArray[np.float32]:
    """A function on a grid along x, y, z, [z, y, x], exact where its zero may pass, and elsewhere by its sign.

    The function must change by no more than the distance, as distances do: only blocks of the grid are looked at
    closely in whose middle it is smaller than half their diagonal, and a cell more.

    Parameters
    ----------
    function : of places (N, 3).
    axes : places along x, y, z, `step` apart.
    """
    middles = [axis[::BLOCK] + (BLOCK - 1) / 2 * step for axis in axes]
    coarse = function(_places(middles)).reshape([len(axis) for axis in middles[::-1]])
    z, y, x = (np.arange(len(axis)) // BLOCK for axis in axes[::-1])
    values = coarse[np.ix_(z, y, x)].astype(np.float32)
    rows = np.nonzero(np.abs(values) < 3**0.5 * ((BLOCK - 1) / 2 + 1) * step)
    values[rows] = function(np.stack([axis[row] for axis, row in zip(axes, rows[::-1], strict=True)], axis=1))
    return values


def _places(axes: list[Point]) -> Point:
    """Points of a grid along x, y, z, (N, 3), x fastest."""
    z, y, x = np.meshgrid(*axes[::-1], indexing="ij")
    return np.stack((x, y, z), axis=-1).reshape(-1, 3)


def _too_short(shape: Bifurcation, number: int) -> str:
    name, length = list(zip(shape.roles, (shape.length_mm, *(d.length_mm for d in shape.daughters)), strict=True))[
        number - 1
    ]
    return f"the branch at {name} of length_mm {length:g} is too short; make it longer, or blend_mm smaller"


def _on_wall(
    points: Point, distance: Callable[[Point], NDArray[np.float64]], limits: Point, directions: Point
) -> Point:
    """The points moved onto the zero of the distance along its gradient, but for those at the rough ends."""
    moved = points.copy()
    rows = np.flatnonzero((points @ directions.T < limits).all(axis=1))
    step = 1e-5 * float(np.ptp(points[:, 0]))
    for _ in range(3):
        here = moved[rows]
        slope = np.stack(
            [(distance(here + step * axis) - distance(here - step * axis)) / (2 * step) for axis in np.eye(3)], 1
        )
        square = np.maximum((slope**2).sum(axis=1, keepdims=True), 0.1)
        moved[rows] -= distance(here)[:, None] * slope / square
    return moved
