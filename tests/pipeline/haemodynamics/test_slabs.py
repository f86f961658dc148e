# SPDX-License-Identifier: Apache-2.0
"""What is taken for the fluid at an opening, beside which another vessel may pass."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from pipeline.haemodynamics.accumulator import slab_inside
from pipeline.haemodynamics.energy import between_slabs
from solver.domain.nodes import Nodes
from tests.support.geometries import hollow, round_opening

RADIUS, LENGTH = 6.0, 30.0


def vessels(turn: Rotation, gap: float | None) -> Nodes:
    """A tube and, unless there is no gap, another across its axis that passes beside its inlet, a gap from its wall."""
    along, across, aside = turn.apply(np.eye(3))
    start = np.full(3, 0.3)
    tubes = [(start, along, RADIUS)]
    caps = [
        round_opening(1, "in", "inlet", start, -along, RADIUS),
        round_opening(2, "out", "outlet", start + LENGTH * along, along, RADIUS),
    ]
    if gap is not None:
        radius = 0.4 * RADIUS
        middle = start + 3.5 * along + (RADIUS + gap + radius) * aside
        tubes.append((middle, across, radius))
        for number, name, sign in ((3, "in-beside", -1), (4, "out-beside", 1)):
            role = name.split("-")[0] + "let"
            end = middle + sign * 2 * RADIUS * across
            caps.append(round_opening(number, name, role, end, sign * across, radius))

    def level(points):
        offsets = [(points - centre, axis, radius) for centre, axis, radius in tubes]
        return np.min([np.linalg.norm(o - np.outer(o @ a, a), axis=1) - r for o, a, r in offsets], axis=0)

    corners = np.array([cap.centre_mm for cap in caps])
    return hollow(level, tuple(caps), np.floor(corners.min(axis=0) - 9), np.ceil(corners.max(axis=0) + 9))


def middle_beside(nodes: Nodes):
    """Half-way between the ends of the vessel beside."""
    return np.mean([cap.centre_mm for cap in nodes.openings[2:]], axis=0)


@pytest.mark.parametrize("seed", range(4))
def test_a_vessel_that_passes_beside_an_opening_is_none_of_its_fluid(seed):
    """Two to three spacings from its wall, in any direction: the slab is that of the tube alone, node for node, and no
    energy of the vessel beside is left out.
    """
    random = np.random.default_rng(seed)
    turn, gap = Rotation.random(random_state=seed), random.uniform(1.8, 3.5)
    alone, both = vessels(turn, None), vessels(turn, gap)
    places = {}
    for name, nodes in (("alone", alone), ("both", both)):
        slab = slab_inside(nodes, nodes.openings[0])
        place = np.round(nodes.points_mm(slab.rows)).astype(int)
        order = np.lexsort(place.T)
        places[name] = place[order], slab.areas_mm2[order]
    assert np.array_equal(places["alone"][0], places["both"][0])
    assert places["alone"][1] == pytest.approx(places["both"][1], rel=1e-12)
    beside = np.linalg.norm(np.cross(both.points_mm() - both.openings[2].centre_mm, turn.apply([0, 1, 0])), axis=1)
    middle = np.abs((both.points_mm() - middle_beside(both)) @ turn.apply([0, 1, 0])) < 1
    assert (between_slabs(both)[(beside < 0.4 * RADIUS) & middle] == 1).all()
