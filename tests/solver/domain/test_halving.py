# SPDX-License-Identifier: Apache-2.0
"""Every second point of a lattice: distances to walls and caps, what is kept and what is refused."""

import numpy as np
import pytest

from solver.domain.halving import NotHalved, halved
from solver.domain.nodes import check
from solver.kernels.d3q19 import VELOCITIES
from tests.support.geometries import pipe, plates
from validation.textbook_links import distance_to_cylinder


@pytest.mark.parametrize("seed", range(4))
def test_coarse_links_end_where_the_surface_is(seed):
    """Random pipes: fluid nodes are all inside, and each link's distance is that to the cylinder or the cap."""
    rng = np.random.default_rng(seed)
    direction = rng.integers(-3, 4, 3)
    direction[rng.integers(3)] = 2
    radius, length = rng.uniform(6, 9), rng.uniform(20, 30)
    nodes = pipe(tuple(direction), radius, length, spacing_mm=0.7)
    coarse, rows = halved(nodes)
    check(coarse)
    np.testing.assert_allclose(coarse.points_mm(), nodes.points_mm(rows), atol=1e-9)
    start = np.array(nodes.openings[0].centre_mm)
    unit = np.array(nodes.openings[1].normal)
    across = 1.4

    def from_axis(points):
        offset = points - start
        return offset - np.outer(offset @ unit, unit)

    def along(points):
        return (points - start) @ unit

    velocity = VELOCITIES[coarse.wall_link_direction] * across
    foot = coarse.points_mm(coarse.wall_link_node)
    q = distance_to_cylinder(from_axis(foot), velocity, unit, radius * 0.7)
    left_out = coarse.wall_link_q == 1  # a node left out beside the wall
    np.testing.assert_allclose(coarse.wall_link_q[~left_out], q[~left_out], atol=2e-6)
    assert left_out.mean() < 1e-3
    foot, velocity = (
        coarse.points_mm(coarse.opening_link_node),
        VELOCITIES[coarse.opening_link_direction] * across @ unit,
    )
    cap = np.where(coarse.opening_link_opening == 1, 0.0, length * 0.7)
    np.testing.assert_allclose(coarse.opening_link_q, (cap - along(foot)) / velocity, atol=2e-6)
    middle = from_axis(foot + 0.7 * VELOCITIES[coarse.opening_link_direction])
    parabola = np.clip(1 - (middle**2).sum(axis=1) / (radius * 0.7) ** 2, 0, 1)
    error = coarse.opening_link_profile - parabola
    assert np.sqrt((error**2).mean()) < 0.05  # a parabola of slope 2/R, R 6 to 9, over less than half a spacing
    # each of the eight ways to take every second point has an eighth of the nodes, and the fullest of them is taken
    assert nodes.count / 8 * 0.98 < coarse.count < nodes.count / 8 * 1.1


def test_a_lattice_that_repeats_is_halved_along_an_even_number_of_nodes_only():
    with pytest.raises(NotHalved, match="repeats along x after 5 nodes, an odd number"):
        halved(plates(8, 5))
    coarse, rows = halved(plates(8, 6))
    assert coarse.shape[1:] == (3, 3)
    assert sorted(set(coarse.wall_link_q.tolist())) == [0.25, 0.75]
    assert len(rows) == coarse.count == 4 * 9
    layer, _ = halved(plates(8, 1))
    assert layer.shape[1:] == (1, 1)
    assert layer.count == 4
