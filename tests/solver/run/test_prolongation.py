# SPDX-License-Identifier: Apache-2.0
"""Fields between the nodes of a coarse lattice: exact where they are linear, to second order else, up to the walls."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.domain.excerpt import excerpt
from solver.domain.halving import halved
from solver.domain.nodes import Nodes
from solver.domain.whole import Ranks
from solver.run.prolongation import Prolongation
from tests.solver.domain.test_halving import CASES
from tests.solver.domain.test_parts import parted
from tests.support.geometries import pipe, plates
from tests.support.in_memory import InMemory
from tests.support.thread_ranks import on_ranks
from tests.support.variants import some


def test_couette_flow_between_moving_plates_is_found_exactly():
    """u from 0.1 at the lower plate to 0.4 at the upper one, linear between them."""
    nodes = plates(10, 4)
    _, rows = halved(nodes)
    height = (nodes.position[:, 2] - 0.5) / 10  # plates half a spacing outside of the first and the last layer
    upper = nodes.wall_position[nodes.wall_link_wall][:, 2] > 5
    at_walls = np.where(upper, 0.4, 0.1)[None]
    found = Prolongation(nodes, rows)((0.1 + 0.3 * height[rows])[None], at_walls)
    np.testing.assert_allclose(found[0], 0.1 + 0.3 * height, atol=1e-12)


def test_linear_pressures_are_found_but_for_nodes_beside_two_surfaces():
    nodes = pipe((1, 2, 3), 6.3, 25)
    _, rows = halved(nodes)
    slope = np.array(((0.3, -0.2, 0.5), (0.0, 1.0, -0.4)))
    wanted = slope @ nodes.position.T
    found = Prolongation(nodes, rows)(wanted[:, rows])
    off = np.abs(found - wanted).max(axis=0)
    assert (off < 1e-9).mean() > 0.95
    assert off.max() < 2 * np.abs(slope).sum()  # the nearest value there is: some two spacings away


@pytest.mark.parametrize("direction", [(1, 0, 0), (1, 2, 3)])
def test_developed_flow_is_found_to_second_order_up_to_the_wall(direction):
    """The parabola 1 - r^2/R^2: the error falls fourfold where the spacing halves."""
    errors = []
    for radius in (5.3, 10.6):
        nodes = pipe(direction, radius, 24)
        _, rows = halved(nodes)
        axis, offset = np.array(nodes.openings[1].normal), nodes.points_mm() - nodes.openings[0].centre_mm
        across = offset - np.outer(offset @ axis, axis)
        wanted = 1 - (across**2).sum(axis=1) / radius**2
        found = Prolongation(nodes, rows)(wanted[None, rows], np.zeros((1, len(nodes.wall_link_node))))
        errors.append(float(np.sqrt(np.square(found[0] - wanted).mean())))
    assert errors[0] < 2 / 5.3**2  # 1/R^2 for each axis along which a node is half-way, 1.5 of which on average
    assert errors[0] / errors[1] > 3


@pytest.mark.parametrize("name", some(CASES, "fork", "pocket", "repeats", "plates", "one layer"))
@settings(max_examples=4, deadline=None)
@given(count=st.integers(2, 4), seed=st.integers(0, 10**6))
def test_ranks_find_the_bits_of_one_process(name, count, seed):
    """Of random values, with and without those of walls, also where values spread from rank to rank at last."""
    nodes = parted(CASES[name](), count, seed)
    coarse, rows = halved(nodes)
    if len(np.unique(nodes.part[rows])) < count:
        return  # which is refused
    values = np.random.default_rng(seed).standard_normal((3, coarse.count))

    def at_walls(of: Nodes) -> np.ndarray:
        return np.sin(np.outer((1, 2, 3), of.wall_link_q + of.wall_link_direction))

    def both(prolonged: Prolongation, values: np.ndarray, of: Nodes) -> tuple[np.ndarray, np.ndarray]:
        return prolonged(values, at_walls(of)), prolonged(values)

    def work(ranks: Ranks) -> tuple[np.ndarray, np.ndarray]:
        own = excerpt(InMemory(nodes), ranks)
        return both(Prolongation(own, halved(own)[1]), values[:, coarse.part == ranks.rank], own)

    wanted = both(Prolongation(nodes, rows), values, nodes)
    for rank, found in enumerate(on_ranks(count, work)):
        for one, other in zip(found, wanted, strict=True):
            assert np.array_equal(one, other[:, nodes.part == rank])
