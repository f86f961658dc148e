# SPDX-License-Identifier: Apache-2.0
"""One tube with friction."""

import numpy as np

from solver.boundary.curves import constant
from solver.network.arterial_walls import ElasticWall
from solver.network.network import Blood, Network, Segment, Stenosis
from solver.network.network_ends import FlowInlet, Resistance
from solver.network.run import Numerics
from tests.support.networks import one_cycle, pulse, single, tube


def test_friction_follows_the_profile():
    """Pressure falls by 2 (gamma + 2) pi mu Q/A^2 a metre, in a tube so stiff that its area stays."""
    network = single(
        tube(0.2, 0.005, 60.0, profile_exponent=9.0),
        FlowInlet(constant(1e-5)),
        Resistance(5e7),
        2.0,
        blood=Blood(1000.0, 4e-3),
    )
    run = one_cycle(network, Numerics(0.02, samples=10))
    drop = -np.diff(run.record.end_pressure[-1])[0]
    expected = 2 * 11 * np.pi * 4e-3 * 1e-5 * 0.2 / (np.pi * 0.005**2) ** 2
    np.testing.assert_allclose(drop, expected, rtol=2e-3)  # of which the stretch by 500 Pa is 1e-4


def test_stiff_friction_is_stable():
    """A stenosis of 95 % of the area, whose friction is far stiffer than the pulse's time step."""
    segment = Segment("s", "a", "b", 0.01, 0.005, ElasticWall(4e5, 1e-3), stenosis=Stenosis(0.005, 0.0005))
    ahead = Segment("w", "0", "a", 0.1, 0.005, ElasticWall(4e5, 1e-3))
    network = Network((ahead, segment), {"0": pulse(1.0, 1e-5)}, {"b": Resistance(1e8)}, 1.0)
    run = one_cycle(network, Numerics(2.5e-3))
    assert np.isfinite(run.state.velocity).all()
    assert run.record.pressure[:, 1:-1].min() > -1000.0
