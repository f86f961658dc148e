# SPDX-License-Identifier: Apache-2.0
"""Flat faces: where an image or a mask ends a vessel within itself, by a plane across it.

No vessel ends so, and no sac does: a round end of radius r looks within the angle a of its axis on 2 (1 - cos a) of its
section, 0.19 for 25 degrees; what a plane cuts does so on all of it but its rim, which blur and smoothing round off
over about a voxel.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from pipeline.files.mesh import Mesh
from pipeline.geometry.branches.openings import Cut
from pipeline.geometry.surface.clip import ClipError, neighbours, section_mm2

ALONG_DEG = 25.0
"""Triangles of a face look so far aside of its normal, at most."""
FLAT_SHARE = 0.31
"""A face is flat from this part of the section behind it on. Of 60 vessels of 3 to 6 voxels in radius that planes end,
drawn at random with a sac beside, the ends have 0.312 at least, and the sacs 0.296 at most."""
ROUND = 0.6
"""Ratio of a face's axes, at least: the side of a vessel is a strip."""
BEHIND_RADII = (0.6, 1.0, 1.4)
"""The section behind is the largest of those so many radii of the face behind it: that of a sac widens."""
AS_WIDE = 1.25
"""The section behind is as wide as the vessel, to this factor: one along it is longer."""
BALL_RADII = 2.0
"""A vessel is as wide as the largest ball of which a place is so many of its radii away at most."""
NEAR_RADII = 2.5
"""A face is looked for within so many radii around a free end of the centreline, which may be a corner of its rim."""
PART_RADII = 6.0
"""Sections are taken of what lies so near, in radii of the vessel."""
STARTS = 200
"""Triangles from which faces grow, at most."""
TURNS = 4
"""Times that a face is found again, around its mean normal."""


@dataclass(frozen=True)
class FlatFace:
    """A flat face at an end of a vessel.

    Attributes
    ----------
    middle_mm, normal : (3,), the normal points out of the vessel.
    radius_mm : of the section behind it, if that is round.
    share : of that section which the face fills.
    """

    middle_mm: NDArray[np.float64]
    normal: NDArray[np.float64]
    radius_mm: float
    share: float

    def cut(self, radii: float) -> Cut:
        """The plane so many radii behind the face."""
        return Cut(self.middle_mm - radii * self.radius_mm * self.normal, self.normal)


def flat_face(
    mesh: Mesh,
    end_mm: NDArray[np.float64],
    balls_mm: NDArray[np.float64],
    radii_mm: NDArray[np.float64],
    least_share: float = FLAT_SHARE,
) -> FlatFace | None:
    """The flat face that ends a vessel, the flattest of several; None where its end is round.

    Parameters
    ----------
    mesh : closed surface.
    end_mm : (3,) free end of the centreline.
    balls_mm, radii_mm : (N, 3) and (N,), places of the centreline and distances to the surface there.
    least_share : of the section behind it; less finds the top of a dome, too.
    """
    radius_mm = _ball_at(end_mm, balls_mm, radii_mm)
    away = np.linalg.norm(mesh.centroids_mm() - end_mm, axis=1)
    around = mesh.triangles[away < PART_RADII * radius_mm]
    part = Mesh(mesh.points_mm, around, np.zeros(len(around), np.int8))
    near = mesh.triangles[away < NEAR_RADII * radius_mm]
    found = None
    for rows, normal in _faces(mesh.points_mm, near):
        face = _measured(part, mesh.points_mm[near[rows]], normal)
        if face is None or face.share < (found.share if found else least_share):
            continue
        if 1 / AS_WIDE < face.radius_mm / max(_ball_at(face.middle_mm, balls_mm, radii_mm), 1e-9) < AS_WIDE:
            found = face
    return found


def _ball_at(place: NDArray[np.float64], balls: NDArray[np.float64], radii: NDArray[np.float64]) -> float:
    """Radius of the largest ball whose middle is near a place; 0 where none is."""
    near = np.linalg.norm(balls - place, axis=1) < BALL_RADII * radii
    return float(radii[near].max(initial=0.0))


def _faces(
    points: NDArray[np.float64], triangles: NDArray[np.int64]
) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Connected triangles that look one way: rows, and their mean normal."""
    vectors = _vectors(points[triangles])
    normals = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    found, taken = [], np.zeros(len(triangles), bool)
    for start in range(0, len(triangles), max(1, len(triangles) // STARTS)):
        if taken[start]:
            continue
        normal, rows = normals[start], np.array([start])
        for _ in range(TURNS):
            alike = np.flatnonzero(normals @ normal > np.cos(np.radians(ALONG_DEG)))
            _, label = connected_components(neighbours(triangles[alike]), directed=False)
            first = np.flatnonzero(alike == start)
            if not len(first):
                break
            rows = alike[label == label[first[0]]]
            normal = vectors[rows].sum(axis=0)
            normal /= np.linalg.norm(normal)
        taken[rows] = True
        found.append((rows, normal))
    return found


def _measured(part: Mesh, corners: NDArray[np.float64], normal: NDArray[np.float64]) -> FlatFace | None:
    """A face beside the section behind it; None where it is a strip, or has none."""
    places, areas = corners.mean(axis=1), np.linalg.norm(_vectors(corners), axis=1)
    middle = np.average(places, axis=0, weights=areas)
    spread = np.cov((places - middle).T, aweights=areas, bias=True) if len(places) > 2 else np.eye(3)
    _, small, large = np.linalg.eigvalsh(spread)
    if small < ROUND**2 * large:
        return None
    radius = np.sqrt(areas.sum() / np.pi)
    try:
        section = max(section_mm2(part, middle - radii * radius * normal, normal) for radii in BEHIND_RADII)
    except ClipError:
        return None
    return FlatFace(middle, normal, float(np.sqrt(section / np.pi)), float(areas.sum() / section))


def _vectors(corners: NDArray[np.float64]) -> NDArray[np.float64]:
    """Outward area vectors of triangles, (T, 3)."""
    return np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]) / 2
