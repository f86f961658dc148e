# SPDX-License-Identifier: Apache-2.0
"""Where segments meet: the pressure that is the same, a node in the midst of a vessel, a segment the other way."""

import numpy as np
import pytest

from solver.boundary.curves import constant
from solver.network.network import Network
from solver.network.network_ends import FlowInlet, Reflection, Resistance
from solver.network.run import Numerics
from tests.support.networks import cycles, four_tubes, one_cycle, pulse, single, tube


@pytest.mark.parametrize("junctions", ["total", "static"])
def test_the_chosen_pressure_is_the_same_in_all_segments(junctions):
    run = one_cycle(four_tubes(junctions), Numerics(0.01))
    meeting = [1, 3, 4, 6]  # end of `in`, end of `one`, starts of the others
    pressure = run.record.end_pressure[:, meeting]
    speed = run.record.end_flow[:, meeting] / run.record.end_area[:, meeting]
    kinetic = 0.5 * 1060.0 * speed**2
    total = pressure + kinetic
    assert kinetic.max() > 50.0  # so that the two differ
    spread = {"total": np.ptp(total, axis=1), "static": np.ptp(pressure, axis=1)}
    assert spread[junctions].max() < 1e-4  # three rounds of the area in the kinetic energy leave (u/c)^6 of it
    other = "static" if junctions == "total" else "total"
    assert spread[other].max() > 10.0


def test_node_in_the_midst_of_a_tube_changes_nothing():
    """The pressure halfway down the second half, by that of a tube without the node, to 1e-3 of its largest."""
    whole = single(tube(1.0), pulse(0.5), Reflection(), 0.5)
    parts = (tube(0.5, name="one", nodes=("a", "m")), tube(0.5, name="two", nodes=("m", "b")))
    halves = Network(parts, whole.inlets, whole.terminals, 0.5, whole.blood)
    first, second = (one_cycle(network, Numerics(5e-3)) for network in (whole, halves))
    expected = first.record.pressure[:, first.grid.first[0] + 150]
    found = second.record.pressure[:, second.grid.first[1] + 50]
    np.testing.assert_allclose(found, expected, atol=1e-3 * expected.max())


def test_flow_may_run_against_a_segment():
    """A tube stated from its outlet to its inlet has the same pressures, and flows of the other sign."""
    along = single(tube(0.3, 0.01, 5.0), FlowInlet(constant(5e-5)), Resistance(1e8), 0.5)
    against = Network((tube(0.3, nodes=("b", "a")),), along.inlets, along.terminals, 0.5, along.blood)
    first, second = (cycles(network, Numerics(0.01), 2) for network in (along, against))
    np.testing.assert_allclose(second.record.end_pressure[:, ::-1], first.record.end_pressure, rtol=1e-9)
    np.testing.assert_allclose(second.record.end_flow[:, ::-1], -first.record.end_flow, rtol=1e-9)
