# SPDX-License-Identifier: Apache-2.0
"""From surface to node arrays: volume, area and radius of pipes, spheres and tori as the lattice knows them."""

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.case.settings.geometry import VoxelizeSettings
from pipeline.geometry.lattice.node_arrays import decompose
from pipeline.stages.voxelize import voxelize
from solver.kernels.d3q19 import VELOCITIES, WEIGHTS
from tests.support.shapes import capped_cylinder, frame_of, sphere, torus

RING, LENGTH, SEGMENTS = 2.5, 6.0, 200
"""Of the torus's circle and of the pipe, in radii; points around a circle."""
SPACINGS, SAMPLES = (0.3, 0.1), 8
SAGITTA = (RING + 2) * (1 - np.cos(np.pi / SEGMENTS))
"""How far, in radii, the middle of a facet lies inside at most, where both its edges are chords: of a torus."""


def radial(solid: str, points: NDArray, axis: NDArray) -> tuple[NDArray, NDArray]:
    """Distance of points (N, 3) from the middle of a solid of radius 1, and the unit vector from there, (N, 3)."""
    along = np.outer(points @ axis, axis)
    if solid == "sphere":
        off = points
    elif solid == "pipe":
        off = points - along
    else:
        across = points - along
        off = points - RING * across / np.linalg.norm(across, axis=1, keepdims=True)
    distance = np.linalg.norm(off, axis=1)
    return distance, off / distance[:, None]


def weight(solid: str, points: NDArray, axis: NDArray) -> NDArray:
    """1; in a pipe cos^2 of the place along it, because its ends are no part of the wall."""
    return np.cos(np.pi * points @ axis / LENGTH) ** 2 if solid == "pipe" else np.ones(len(points))


EXACT = {
    "pipe": (np.pi * LENGTH / 2, np.pi * LENGTH),
    "sphere": (4 / 3 * np.pi, 4 * np.pi),
    "torus": (2 * np.pi**2 * RING, 4 * np.pi**2 * RING),
}
"""Weighted volume and area."""


def measured(solid: str, spacing_mm: float, axis: NDArray) -> dict[str, float]:
    """Relative errors of a solid of radius 1 mm: of the volume by nodes; of the area by wall links, of which a wall
    with normal n crosses |c . n| an area in direction c, so that each stands for 6 w |c . n|; of the radius, twice
    (thrice) volume over area. And the largest errors of the radius by single links, but those that end on nodes which
    were taken out at a rim, and by distances.
    """
    make = {
        "pipe": lambda: capped_cylinder(axis, 1.0, LENGTH, segments=SEGMENTS, rings=1),
        "sphere": lambda: (sphere(1.0, segments=SEGMENTS, axis=axis), ()),
        "torus": lambda: (torus(RING, 1.0, segments=SEGMENTS, axis=axis), ()),
    }
    mesh, openings = make[solid]()
    lattice, _ = voxelize(mesh, openings, VoxelizeSettings(spacing_mm=spacing_mm))
    nodes, _ = decompose(lattice, mesh, openings)
    axis = frame_of(axis)[2]
    points, direction = nodes.points_mm(), nodes.wall_link_direction
    place = points[nodes.wall_link_node] + nodes.wall_link_q[:, None] * VELOCITIES[direction] * spacing_mm
    radius, normal = radial(solid, place, axis)
    cosine = np.abs(np.einsum("ij,ij->i", VELOCITIES[direction], normal))
    volume = weight(solid, points, axis).sum() * spacing_mm**3 / EXACT[solid][0]
    area = (6 * WEIGHTS[direction] * cosine) @ weight(solid, place, axis) * spacing_mm**2 / EXACT[solid][1]
    # at a cap the nearest wall is its rim
    known = np.isfinite(nodes.distance_mm) & (np.abs(points @ axis) < (LENGTH / 2 if solid == "pipe" else np.inf))
    by_distance = radial(solid, points[known], axis)[0] + nodes.distance_mm[known]
    return {
        "volume": volume - 1,
        "area": area - 1,
        "radius": volume / area - 1,
        "links": float(np.abs(radius - 1)[nodes.wall_link_q < 1].max()),
        "distances": float(np.abs(by_distance - 1).max()),
    }


@pytest.mark.slow
@pytest.mark.parametrize("solid", ["sphere", "pipe", "torus"])
def test_volume_area_and_radius_converge_at_second_order(solid):
    """Sums over lattices scatter with the place of the body; their root mean square over random turns and spacings
    falls as the square where the body is smooth (Kendall 1948). 8 samples leave a standard error of 25 % of each, that
    is 0.3 of the order from 7 to 20 nodes across. Single links and distances are right at any spacing, but for facets.
    """
    rng = np.random.default_rng(11)
    rms = []
    for spacing in SPACINGS:
        found = [measured(solid, spacing * rng.uniform(0.93, 1.07), rng.normal(size=3)) for _ in range(SAMPLES)]
        rms.append([np.sqrt(np.mean([each[key] ** 2 for each in found])) for key in ("volume", "area", "radius")])
        # corners are rounded by 1.4e-5 of a spacing; q is clipped at 1e-4 of a link
        assert max(each["links"] for each in found) < SAGITTA + 1.5e-4 * spacing
        assert max(each["distances"] for each in found) < SAGITTA + 1e-6
    order = -np.polyfit(np.log(1 / np.array(SPACINGS)), np.log(rms), 1)[0]
    assert (order > 1.5).all()
    assert max(rms[-1]) < 2e-3
