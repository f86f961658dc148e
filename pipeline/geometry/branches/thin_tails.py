# SPDX-License-Identifier: Apache-2.0
"""Thin tails: how much of what a cut took off an end the image shows less than two voxels across.

Such a tail is no lumen for a flow: its section is made of one voxel or two. The vessel is open before it, so that what
flows through it leaves there.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from pipeline.files.mesh import Mesh
from pipeline.geometry.branches.centreline_graph import TAIL_RADII, Branch, Centreline
from pipeline.geometry.branches.faded_ends import LumenImage
from pipeline.geometry.branches.openings import Cut, widest_mm
from pipeline.geometry.branches.tips import points_gone

MIDDLE_RADII = 0.1
"""Lines that are so much farther from the middle of a cut pass through it, too: those of both ends of one tube do."""


def thin_tail(before: Mesh, after: Mesh, cut: Cut, centreline: Centreline, image: LumenImage) -> dict[str, Any]:
    """What is recorded of the thin tail of an end; nothing where there is none.

    The volume is shared between the points of the centreline by the wall that each is nearest to.

    Parameters
    ----------
    before, after : the closed surface with and without what lies beyond the cut.
    cut : where.
    centreline : of the vessel, with its tails.
    image : of the lumen.

    Returns
    -------
    ``thin_mm3``, ``thin_mm`` (its length) and ``thin_radius_mm`` (median).
    """
    branch = _branch_of(cut, centreline)
    points = centreline.points_mm[list(branch.rows)]
    count = _thin_rows(branch, points, image)
    reach_mm = float(np.linalg.norm(points - cut.centre_mm, axis=1).max()) + 2 * widest_mm(branch)
    gone = points_gone(before, after, cut.centre_mm, reach_mm)
    wall = before.triangles[gone[before.triangles].all(axis=1)]
    if not count or not len(wall):
        return {}
    corners = before.points_mm[wall]
    middles = corners.mean(axis=1)
    nearest = cKDTree(points).query(middles)[1]
    vectors = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    parts = np.einsum("ij,ij->i", middles - points[nearest], vectors)
    thin, volume_mm3 = nearest < count, before.volume_mm3() - after.volume_mm3()
    return {
        "thin_mm3": float(volume_mm3 * parts[thin].sum() / parts.sum()),
        "thin_mm": float(branch.way_mm[count - 1]),
        "thin_radius_mm": float(np.median(branch.radius_mm[:count])),
    }


def _branch_of(cut: Cut, centreline: Centreline) -> Branch:
    """The branch that passes through the middle of a cut, and of those that do the one that ends soonest beyond it."""
    passing = []
    for branch in centreline.terminal_branches():
        aside = np.linalg.norm(centreline.points_mm[list(branch.rows)] - cut.centre_mm, axis=1)
        nearest = int(aside.argmin())
        passing.append((float(aside[nearest]), float(branch.way_mm[nearest]), branch))
    least_mm = min(aside for aside, *_ in passing)
    through = [each for each in passing if each[0] <= least_mm + MIDDLE_RADII * widest_mm(each[2])]
    return min(through, key=lambda each: each[1])[2]


def _thin_rows(branch: Branch, points: NDArray[np.float64], image: LumenImage) -> int:
    """Rows of a branch, from its free end on, up to where the image shows it two pixels across over some radii."""
    way, radius = branch.way_mm, branch.radius_mm
    ahead = np.searchsorted(way, way + TAIL_RADII * radius).clip(1, len(way) - 1)
    behind = np.minimum(np.arange(len(way)), ahead - 1)
    along = points[ahead] - points[behind]
    thick = radius >= image.pixels_mm(along / np.linalg.norm(along, axis=1, keepdims=True))
    stays = (k for k in range(len(way)) if thick[k : ahead[k] + 1].all())
    return next(stays, len(way))
