# SPDX-License-Identifier: Apache-2.0
"""Every second point of a lattice: distances to walls and caps, what is kept and what is refused."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.domain import whole
from solver.domain.excerpt import excerpt
from solver.domain.halving import NotHalved, halved
from solver.domain.nodes import Nodes, check
from solver.domain.whole import Ranks
from solver.kernels.d3q19 import VELOCITIES
from tests.solver.domain.test_excerpt import differing
from tests.solver.domain.test_parts import parted
from tests.support.geometries import bifurcation, hollow, periodic_box, pipe, plates, round_opening, stenosis
from tests.support.in_memory import InMemory
from tests.support.thread_ranks import on_ranks
from tests.support.variants import some
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


def with_pocket() -> Nodes:
    """A pipe beside a ball, joined by a neck so thin that no coarse link leads through it."""

    def level(points):
        x, y, z = (points - 0.4).T
        neck = np.maximum(np.hypot(y, z - 20.3) - 1.1, np.abs(x - 6) - 4)
        ball = np.linalg.norm(points - 0.4 - np.array((12.0, 0.0, 20.3)), axis=1) - 4.3
        return np.minimum(np.minimum(np.hypot(x, y) - 4.2, neck), ball)

    ends = np.full(3, 0.4), np.array((0.4, 0.4, 40.4))
    caps = (
        round_opening(1, "in", "inlet", ends[0], np.array((0, 0, -1.0)), 4.2),
        round_opening(2, "out", "outlet", ends[1], np.array((0, 0, 1.0)), 4.2),
    )
    return hollow(level, caps, np.array((-6.0, -6.0, -3.0)), np.array((19.0, 6.0, 44.0)), 1.0)


ASKEW = np.linalg.qr(np.array([(2, 1, 0), (-1, 2, 1), (0, -1, 2)]))[0]
CASES: dict[str, Callable[[], Nodes]] = {
    "pipe": lambda: pipe((1, 2, 3), 5.3, 60),
    "stenosis": lambda: stenosis((1, 0, 1), 8.4, 12.0, 24.0, 24.0, 0.2),
    "fork": lambda: bifurcation(6.3, ((5.1, 35.0), (4.2, -50.0)), 4.0, ASKEW),
    "pocket": with_pocket,
    "repeats": lambda: periodic_box((52, 6, 8)),
    "plates": lambda: plates(61, 4),
    "one layer": lambda: plates(61, 1),
}


@pytest.mark.parametrize("name", some(CASES, "fork", "pocket", "repeats", "plates", "one layer"))
@settings(max_examples=4, deadline=None)
@given(count=st.integers(2, 4), seed=st.integers(0, 10**6))
def test_ranks_halve_their_parts_to_those_of_the_whole(name, count, seed):
    """In blocks of few rows, so that there are several. A part may be so thin that no coarse node is in it."""
    nodes = parted(CASES[name](), count, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole, "BLOCK_ROWS", 500)
        coarse, rows = halved(nodes)
        if len(np.unique(nodes.part[rows])) < count:
            with pytest.raises(NotHalved, match="a rank would have no node"):
                on_ranks(count, lambda ranks: halved(excerpt(InMemory(nodes), ranks)))
            return

        def both(ranks: Ranks) -> tuple[Nodes, np.ndarray, Nodes, Nodes]:
            around = excerpt(InMemory(nodes), ranks)
            return *halved(around), around, excerpt(InMemory(coarse), ranks)

        for rank, (found, found_rows, around, wanted) in enumerate(on_ranks(count, both)):
            assert differing(replace(found, whole=None), replace(wanted, whole=None)) == []
            for each in ("rows", "count", "extent", "sizes", "links"):
                assert differing(getattr(found.whole, each), getattr(wanted.whole, each)) == []
            assert np.array_equal(around.rows[found_rows], rows[coarse.part == rank])


def test_nodes_from_which_no_way_leads_to_the_openings_are_left_out():
    nodes = with_pocket()
    _, rows = halved(nodes)
    assert np.count_nonzero(nodes.points_mm()[:, 0] > 9) > 200
    assert not (nodes.points_mm(rows)[:, 0] > 9).any()
