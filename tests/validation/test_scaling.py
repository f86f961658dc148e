# SPDX-License-Identifier: Apache-2.0
"""The model of `benchmarks/scaling.py`: what it gives where the answer is known. Never how fast anything is."""

import sys
from itertools import pairwise

import numpy as np
import pytest

from solver.runtime.sources import ROOT

sys.path.append(str(ROOT / "benchmarks"))

import scaling
from scaling import H200_NODES, H200_STEP_S, LAST, OF_RANKS_S, Network, device_s, foretold, one_device_s, sectors

FREE = Network(0.0, np.inf)


def test_one_device_takes_what_was_measured_and_larger_lattices_in_proportion():
    for nodes, step_s in zip(H200_NODES, H200_STEP_S, strict=True):
        assert one_device_s(nodes) == pytest.approx(step_s)
    assert one_device_s(10 * H200_NODES[-1]) == pytest.approx(10 * H200_STEP_S[-1])


def alone_s(nodes: float) -> float:
    """Of the part that costs the most."""
    return (1 + scaling.BALANCE) * one_device_s(nodes)


def test_devices_that_say_nothing_to_each_other_lose_balance_and_launches_alone():
    assert device_s(1e7, 64, 0.0, FREE, 60.0) == pytest.approx(alone_s(1e7) + OF_RANKS_S)


def test_messages_cost_nothing_until_they_take_longer_than_what_is_done_meanwhile():
    """And then all that they take longer."""
    nodes, surface = 2e7, 30.0
    free = device_s(nodes, 64, surface, FREE, 60.0)
    border = surface / scaling.LINKS_A_FACE * nodes ** (-1 / 3)
    meanwhile = (1 - scaling.WALL_SHARE) * alone_s(nodes) * (1 - 1 / LAST - border)
    sent = surface * nodes ** (2 / 3) * scaling.POPULATION_BYTES
    assert device_s(nodes, 64, surface, Network(0.0, sent / meanwhile * 1.01), 60.0) == pytest.approx(free)
    assert device_s(nodes, 64, surface, Network(0.0, sent / meanwhile / 3), 60.0) == pytest.approx(free + 2 * meanwhile)


def test_a_sum_costs_what_it_takes_longer_than_the_last_nodes():
    last = (1 - scaling.WALL_SHARE) * alone_s(2e7) / LAST
    free = device_s(2e7, 1024, 0.0, FREE, 60.0)
    assert device_s(2e7, 1024, 0.0, Network(last / 10, np.inf), 60.0) == pytest.approx(free)
    assert device_s(2e7, 1024, 0.0, Network(last / 5, np.inf), 60.0) == pytest.approx(free + last)


def test_a_warp_asks_for_each_sector_once():
    """Of 32 numbers one after another 4 sectors, of 32 in different ones 32, of one number one; the rest is a warp."""
    assert sectors(np.arange(64)) == 8
    assert sectors(8 * np.arange(32)[::-1]) == 32
    assert sectors(np.array([5])) == 1
    assert sectors(np.concatenate((np.arange(32), [32, 39, 40]))) == 4 + 2


def test_steps_of_two_and_four_devices_are_foretold():
    found = scaling.checked_on_devices(60.0)
    assert {(row["devices"]) for row in found} == {2, 4}
    assert all(abs(row["deviation"]) < 0.1 for row in found)


def test_a_sum_takes_a_message_for_each_doubling():
    assert Network(1e-6, np.inf).sum_s(1024) == pytest.approx(10e-6)
    assert Network(1e-6, np.inf).sum_s(3) == pytest.approx(2e-6)


def test_efficiency_falls_with_devices_and_with_latency():
    surfaces = dict.fromkeys(scaling.DEVICES, 30.0)
    near, far = (foretold(Network(latency, 50e9), surfaces, 60.0) for latency in (1e-6, 1e-5))
    for found in (near, far):
        for of in (found["weak"], *found["strong"].values()):
            assert all(later <= earlier <= 1 for earlier, later in pairwise(of.values()))
    assert all(far["weak"][n] <= near["weak"][n] for n in scaling.DEVICES)
    assert far["weak"][1024] < near["weak"][1024]  # of fewer devices a sum is made before the last nodes are done
    least = near["least_nodes_of_a_device_above_floor"]
    assert all(far["least_nodes_of_a_device_above_floor"][n] > least[n] for n in scaling.DEVICES)
