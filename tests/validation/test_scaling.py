# SPDX-License-Identifier: Apache-2.0
"""The model of `benchmarks/scaling.py`: what it gives where the answer is known. Never how fast anything is."""

import sys
from itertools import pairwise

import numpy as np
import pytest

from solver.runtime.sources import ROOT

sys.path.append(str(ROOT / "benchmarks"))

import scaling
from scaling import H200_NODES, H200_STEP_S, LAUNCH_S, LAUNCHES, Network, device_s, foretold, one_device_s

FREE = Network(0.0, np.inf)


def test_one_device_takes_what_was_measured_and_larger_lattices_in_proportion():
    for nodes, step_s in zip(H200_NODES, H200_STEP_S, strict=True):
        assert one_device_s(nodes) == pytest.approx(step_s)
    assert one_device_s(10 * H200_NODES[-1]) == pytest.approx(10 * H200_STEP_S[-1])


def test_devices_that_say_nothing_to_each_other_lose_launches_alone():
    assert device_s(1e7, 64, 0.0, FREE) == pytest.approx(one_device_s(1e7) + LAUNCHES * LAUNCH_S)


def test_messages_cost_nothing_until_they_take_longer_than_what_is_done_meanwhile():
    """And then all that they take longer."""
    nodes, surface = 2e7, 30.0
    free = device_s(nodes, 64, surface, FREE)
    border = surface / scaling.LINKS_A_FACE * nodes ** (-1 / 3)
    meanwhile = (1 - scaling.WALL_SHARE) * one_device_s(nodes) * (1 - border)
    sent = surface * nodes ** (2 / 3) * scaling.POPULATION_BYTES
    assert device_s(nodes, 64, surface, Network(0.0, sent / meanwhile * 1.01)) == pytest.approx(free)
    assert device_s(nodes, 64, surface, Network(0.0, sent / meanwhile / 3)) == pytest.approx(free + 2 * meanwhile)


def test_a_sum_takes_a_message_for_each_doubling():
    assert Network(1e-6, np.inf).sum_s(1024) == pytest.approx(10e-6)
    assert Network(1e-6, np.inf).sum_s(3) == pytest.approx(2e-6)


def test_efficiency_falls_with_devices_and_with_latency():
    surfaces = dict.fromkeys(scaling.DEVICES, 30.0)
    near, far = (foretold(Network(latency, 50e9), surfaces) for latency in (1e-6, 1e-5))
    for found in (near, far):
        for of in (found["weak"], *found["strong"].values()):
            assert all(later <= earlier <= 1 for earlier, later in pairwise(of.values()))
    assert all(far["weak"][n] < near["weak"][n] for n in scaling.DEVICES)
    least = near["least_nodes_of_a_device_above_floor"]
    assert all(far["least_nodes_of_a_device_above_floor"][n] > least[n] for n in scaling.DEVICES)
