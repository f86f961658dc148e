# SPDX-License-Identifier: Apache-2.0
"""Quality of a surface's triangles, in figures and as a histogram."""

from typing import Any

import numpy as np

from pipeline.files.mesh import Mesh

NEEDLE_DEG = 10.0
"""A triangle with a smaller angle is a needle."""
TINY = 0.01
"""A triangle is tiny below this part of the mean area of those around its corners: a graded surface has small triangles
where the vessel is thin, which is no fault."""
BIN_DEG = 5.0


def triangle_quality(mesh: Mesh) -> dict[str, Any]:
    """Count and shape of the triangles of a mesh.

    Returns
    -------
    ``triangles``, ``needles`` (smallest angle below :data:`NEEDLE_DEG`) and ``tiny`` (see :data:`TINY`): counts.
    ``smallest_angle_deg``, ``p5_angle_deg``, ``median_angle_deg``: smallest, 5th percentile and median of the
    triangles' smallest angles. ``smallest_mean_ratio``, ``p5_mean_ratio``, ``median_mean_ratio``: the same of
    4 sqrt(3) A / (a^2 + b^2 + c^2), 1 for an equilateral triangle and 0 for one without area (Liu and Joe 1994,
    doi:10.1007/BF01955874, for tetrahedra). ``angle_histogram``: counts of the smallest angles in 12 bins of 5 degrees.
    """
    corners = mesh.points_mm[mesh.triangles]
    sides = np.roll(corners, -1, axis=1) - corners
    square = np.einsum("tkj,tkj->tk", sides, sides)
    unit = sides / np.sqrt(np.maximum(square, 1e-300))[..., None]
    cosines = -np.einsum("tkj,tkj->tk", unit, np.roll(unit, 1, axis=1))
    angle = np.degrees(np.arccos(np.clip(cosines, -1, 1))).min(axis=1)
    area = np.linalg.norm(mesh.area_vectors_mm2(), axis=1)
    ratio = 4 * np.sqrt(3) * area / np.maximum(square.sum(axis=1), 1e-300)
    around = np.bincount(mesh.triangles.ravel(), np.repeat(area, 3)) / np.maximum(
        np.bincount(mesh.triangles.ravel()), 1
    )
    counts, _ = np.histogram(angle, np.arange(0, 60 + BIN_DEG, BIN_DEG))
    counts[-1] += np.count_nonzero(angle > 60)  # by rounding
    return {
        "triangles": len(angle),
        "needles": int((angle < NEEDLE_DEG).sum()),
        "tiny": int((area < TINY * around[mesh.triangles].mean(axis=1)).sum()),
        "smallest_angle_deg": float(angle.min()),
        "p5_angle_deg": float(np.percentile(angle, 5)),
        "median_angle_deg": float(np.median(angle)),
        "smallest_mean_ratio": float(ratio.min()),
        "p5_mean_ratio": float(np.percentile(ratio, 5)),
        "median_mean_ratio": float(np.median(ratio)),
        "angle_histogram": counts.tolist(),
    }
