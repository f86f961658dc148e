"""Addresses of links, and their runs."""

import numpy as np
import pytest
from geometries import periodic_box, periodic_pipe, pipe, random_cavern
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from solver.lattice import build_lattice
from solver.parts import split
from solver.storage import PLAIN, make_access
from solver.streaming import GROUP, Runs, address_runs, link_addresses, make_run_address, row_stride, runs_by_group


def addresses_of(runs: Runs, stride: int) -> np.ndarray:
    """The table, (18, stride), node by node."""
    run_address = make_run_address(make_access(PLAIN, np.float32).take)
    table, (before, starts) = [], runs_by_group(runs)
    for n in range(stride):
        group, place = divmod(n, GROUP)
        begun = int(starts[group]) & ((2 << place) - 1)
        run = int(before[group]) + begun.bit_count()
        assert runs.first[run] <= n < runs.first[run + 1]
        table.append(run_address(runs.offset, run, n))
    return np.array(table).T


@pytest.mark.parametrize("seed", range(3))
def test_runs_are_the_table_of_a_cavern(seed):
    nodes = random_cavern((9, 8, 7), seed)
    stride, addresses = row_stride(nodes.count), link_addresses(nodes)
    assert np.array_equal(addresses_of(address_runs(addresses, stride), stride).ravel(), addresses)


@pytest.mark.parametrize("nodes", [pipe((1, 2, 3), 5.3, 20), periodic_pipe((1, 1, 0), 4.2), periodic_box((5, 4, 3))])
def test_runs_are_the_table_in_parts_too(nodes):
    """Of which the addresses in other parts lie behind the slots."""
    lattice = build_lattice(nodes, "trt", (1.0, 1.0))
    for part in split(lattice, np.arange(nodes.count) * 3 // nodes.count):
        runs = address_runs(part.lattice.addresses, part.lattice.stride)
        assert np.array_equal(addresses_of(runs, part.lattice.stride).ravel(), part.lattice.addresses)


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
