# SPDX-License-Identifier: Apache-2.0
"""A vessel of five openings in a network, at one of which blood goes to and fro."""

import numpy as np
import pytest

from tests.support.coupled_star import FLOW, NAMES, star, without_vessel


@pytest.mark.parametrize(("across", "cycles"), [(6, 3), pytest.param(8, 6, marks=pytest.mark.slow)])
def test_five_openings_have_the_flow_and_the_pressure_of_the_network(across, cycles):
    """Over a cycle mean flows differ by 0.1 % of the inflow, mean pressures by 0.5 %, flows at any time by 2 % of the
    inflow: the network gets the filtered flow, ten steps of 4,000 later. The flow splits as it does in one dimension
    with a node in place of the vessel, within 0.5 % of the inflow: all branches have the same friction there.
    """
    found = star(across).last_cycle(cycles)
    assert found["up"]["network"].min() < -0.3 * FLOW  # it turns back, and brings more than others let out
    assert found["up"]["network"].mean() > 0.2 * FLOW
    for each in found.values():
        assert each["vessel"].mean() == pytest.approx(each["network"].mean(), abs=1e-3 * FLOW)
        assert each["vessel_pa"].mean() == pytest.approx(each["network_pa"].mean(), rel=5e-3)
        np.testing.assert_allclose(each["vessel"][:-1], each["network"][1:], rtol=0, atol=2e-2 * FLOW)
    assert sum(each["network"].mean() for each in found.values()) == pytest.approx(0, abs=1e-3 * FLOW)
    alone = without_vessel()
    for name in NAMES:
        flow = alone.along(name).flow_m3_s[:, 0].mean() * (-1 if name == "in" else 1)
        assert found[name]["network"].mean() == pytest.approx(flow, abs=5e-3 * FLOW)
