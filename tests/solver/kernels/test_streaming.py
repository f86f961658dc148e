# SPDX-License-Identifier: Apache-2.0
"""Addresses of links, and their runs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from solver.backends.lattice import build_lattice
from solver.backends.splitting import split
from solver.domain.addresses import GROUP, Runs, address_runs, link_addresses, row_stride, runs_by_group
from solver.kernels.storage import NATIVE, make_access
from solver.kernels.streaming import make_run_address
from tests.support.geometries import periodic_box, periodic_pipe, pipe, random_cavern


def addresses_of(runs: Runs, stride: int, q: int = 19) -> np.ndarray:
    """The table, (q - 1, stride), node by node."""
    run_address = make_run_address(make_access(NATIVE, np.float32).load_slot, q)
    table, (before, starts) = [], runs_by_group(runs)
    for n in range(stride):
        group, place = divmod(n, GROUP)
        begun = int(starts[group]) & ((2 << place) - 1)
        run = int(before[group]) + begun.bit_count()
        assert runs.first[run] <= n < runs.first[run + 1]
        table.append(run_address(runs.offset, run, n))
    return np.array(table).T


@pytest.mark.parametrize("q", [19, 27])
@pytest.mark.parametrize("seed", range(3))
def test_runs_are_the_table_of_a_cavern(seed, q):
    nodes = random_cavern((9, 8, 7), seed)
    nodes = nodes.with_corners() if q == 27 else nodes
    stride, addresses = row_stride(nodes.count), link_addresses(nodes)
    assert np.array_equal(addresses_of(address_runs(addresses, stride), stride, q).ravel(), addresses)
    assert np.array_equal(np.sort(addresses_with_rest(addresses, stride)), np.arange(q * stride))


def addresses_with_rest(addresses: np.ndarray, stride: int) -> np.ndarray:
    """Of all populations: each slot is one's, or two nodes would write to it in a step."""
    return np.concatenate((np.arange(stride), addresses.astype(np.int64)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: pipe((1, 2, 3), 5.3, 20),
        lambda: pipe((1, 2, 3), 5.3, 20).with_corners(),
        lambda: periodic_pipe((1, 1, 0), 4.2),
        lambda: periodic_box((5, 4, 3)),
    ],
)
def test_runs_are_the_table_in_parts_too(make):
    """Of which the addresses in other parts lie behind the slots."""
    nodes = make()
    lattice = build_lattice(nodes, "trt", (1.0, 1.0))
    for part in split(lattice, np.arange(nodes.count) * 3 // nodes.count):
        runs = address_runs(part.lattice.addresses, part.lattice.stride)
        assert np.array_equal(addresses_of(runs, part.lattice.stride, nodes.q).ravel(), part.lattice.addresses)


@settings(deadline=None)  # the first example compiles
@given(arrays(np.uint32, (18, 2 * GROUP), elements=st.integers(0, 2**32 - 1)))
def test_any_table_has_runs(table):
    """Also one of more than 2^31 slots, whose offsets need 64 bits."""
    runs = address_runs(table.ravel(), table.shape[1])
    assert np.array_equal(addresses_of(runs, table.shape[1]), table)


def test_a_long_vessel_along_the_first_axis_has_few_runs():
    """Nodes beside the wall and their neighbours end at different places; the others make one run a line of nodes."""
    nodes = pipe((1, 0, 0), 10.3, 200)
    runs = address_runs(link_addresses(nodes), row_stride(nodes.count))
    lines = len(np.unique(nodes.position[:, 1:], axis=0))
    assert len(runs.offset) // 18 < 12 * lines < nodes.count / 10
