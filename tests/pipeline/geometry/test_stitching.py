# SPDX-License-Identifier: Apache-2.0
"""Seams whose sides have other corners are closed without a change of the surface; what has no width is refused."""

import itertools
import logging

import numpy as np
import pytest

from pipeline.files.mesh import Mesh
from pipeline.files.surface_file import SurfaceFile
from pipeline.geometry.given_surface import GivenSurface
from pipeline.geometry.surface.clip import ClipError, cap_of
from pipeline.stages.import_surface import import_surface
from tests.support.closed_vessels import FLAT, closed_vessel

LOG = logging.getLogger("test")


def with_slits(mesh: Mesh, edges: int, rng: np.random.Generator) -> Mesh:
    """Some edges of a surface have up to three more corners on one of their sides only."""
    points, triangles = mesh.points_mm.tolist(), mesh.triangles.tolist()
    for row in rng.choice(len(triangles), edges, replace=False):
        a, b, apex = np.roll(triangles[row], rng.integers(3)).tolist()
        parts = np.sort(rng.uniform(0.05, 0.95, rng.integers(1, 4)))
        chain = [a, *(len(points) + np.arange(len(parts))).tolist(), b]
        points += [((1 - part) * np.array(points[a]) + part * np.array(points[b])).tolist() for part in parts]
        triangles[row] = [chain[0], chain[1], apex]
        triangles += [[one, other, apex] for one, other in itertools.pairwise(chain)]
    return Mesh(np.array(points), np.array(triangles), np.zeros(len(triangles), np.int8))


@pytest.mark.parametrize(
    "seed", [7500, 7501, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(7510, 7550))]
)
def test_corners_on_edges_are_joined(seed):
    rng = np.random.default_rng(seed)
    mesh = closed_vessel(seed, FLAT).mesh
    slit = with_slits(mesh, int(rng.integers(1, len(mesh.triangles) // 15)), rng)
    found = import_surface(SurfaceFile(slit.points_mm, slit.triangles, None), GivenSurface(unit="mm"), LOG)
    assert len(found.openings) == 2
    assert found.mesh.volume_mm3() == pytest.approx(mesh.volume_mm3(), rel=1e-6)
    assert found.quality["triangles_added_at_seams"] >= 0


def test_a_rim_without_width_is_refused_in_words():
    rim = np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [1, 1e-17, 0]])
    with pytest.raises(ClipError, match="no cap fits"):
        cap_of(rim, np.array([0.0, 0, 1]))
