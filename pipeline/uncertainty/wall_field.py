# SPDX-License-Identifier: Apache-2.0
"""The surface of a member: its wall moved along its normals by a smooth random field."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from pipeline.files.mesh import Mesh
from pipeline.haemodynamics.wall_shear_stress import Wall
from solver.domain.nodes import Opening

Floats = NDArray[np.float64]

WAVES = 256
"""Waves that a field is the sum of: its correlation then errs by about 1/sqrt(WAVES)."""

MANY = 2**16
"""Points, about, at which a field is computed at once."""

NEAREST = 8
"""Points of the rim that a point within a cap moves with."""


def random_field(points_mm: Floats, length_mm: float, rng: np.random.Generator) -> Floats:
    """A field of mean 0 and variance 1 at points, (P,), smooth over a length.

    With K waves k_i drawn from a normal distribution of standard deviation 1/length and phases p_i, the sum
    sqrt(2/K) sum_i cos(k_i . x + p_i) has the correlation exp(-r^2 / (2 length^2)) over a distance r (Rahimi and Recht
    2007, Advances in Neural Information Processing Systems 20). Places opposite each other in a vessel thinner than the
    length move outwards together.

    Parameters
    ----------
    points_mm : (P, 3).
    length_mm : of correlation.
    rng : what draws.
    """
    waves = rng.normal(scale=1 / length_mm, size=(WAVES, 3))
    phases = rng.uniform(0, 2 * np.pi, WAVES)
    parts = np.array_split(points_mm, len(points_mm) // MANY + 1)  # for memory
    return np.sqrt(2 / WAVES) * np.concatenate([np.cos(part @ waves.T + phases).sum(axis=1) for part in parts])


def moved(surface: Mesh, openings: tuple[Opening, ...], shift_mm: Floats) -> tuple[Mesh, tuple[Opening, ...]]:
    """The surface with its wall moved outwards, caps in their planes, and the openings that it then has.

    Parameters
    ----------
    surface : closed, with caps.
    openings : in the order of their ids.
    shift_mm : (P,), outwards along the wall's normals; within caps it does not count.
    """
    points, move = surface.points_mm, np.zeros_like(surface.points_mm)
    wall = Wall.of(surface)
    of_wall = np.unique(surface.triangles[surface.opening == 0])
    move[of_wall] = shift_mm[of_wall, None] * wall.normals
    for opening in openings:
        normal = np.asarray(opening.normal)
        of_cap = np.unique(surface.triangles[surface.opening == opening.id])
        rim = np.intersect1d(of_cap, of_wall)
        move[rim] -= np.outer(move[rim] @ normal, normal)
        inner = np.setdiff1d(of_cap, rim)
        move[inner] = _between(points[inner], points[rim], move[rim])
    mesh = replace(surface, points_mm=points + move)
    return mesh, tuple(opening_of(mesh, opening) for opening in openings)


def rows_on_wall(surface: Mesh, wall: Mesh) -> NDArray[np.int64]:
    """Which vertex of a surface's wall, as :meth:`Wall.of` numbers them, each vertex of a part of that wall is.

    Parameters
    ----------
    surface : closed, with caps.
    wall : its wall, or a part of it, (V,) vertices.
    """
    of_wall = np.unique(surface.triangles[surface.opening == 0])
    return cKDTree(surface.points_mm[of_wall]).query(wall.points_mm)[1].astype(np.int64)


def _between(points_mm: Floats, rim_mm: Floats, moves: Floats) -> Floats:
    """How far points within a cap go: means of the nearest of its rim, by the inverse square of the distance."""
    if not len(points_mm):
        return np.zeros((0, 3))
    square = ((points_mm[:, None] - rim_mm) ** 2).sum(axis=2)
    near = np.argsort(square, axis=1, kind="stable")[:, :NEAREST]
    weight = 1 / np.take_along_axis(square, near, axis=1)
    return np.einsum("ij,ijk->ik", weight / weight.sum(axis=1, keepdims=True), moves[near])


def opening_of(mesh: Mesh, opening: Opening) -> Opening:
    """An opening with the centroid and the area that its cap has on another surface, in the same plane.

    Parameters
    ----------
    mesh : the surface.
    opening : whose cap has its id there.
    """
    cap = mesh.opening == opening.id
    areas = np.linalg.norm(mesh.area_vectors_mm2()[cap], axis=1)
    x, y, z = (areas @ mesh.centroids_mm()[cap] / areas.sum()).tolist()
    area = float(areas.sum())
    return replace(opening, centre_mm=(x, y, z), area_mm2=area, radius_mm=float(np.sqrt(area / np.pi)))
