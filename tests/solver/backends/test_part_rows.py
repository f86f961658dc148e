# SPDX-License-Identifier: Apache-2.0
"""Where own rows stand is found in the ranges in which they ascend, as in a list of their order."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from solver.backends.buffers import HostBuffers
from solver.backends.part_rows import PartRows

ALL = 60


@given(
    own=st.sets(st.integers(0, ALL - 1), min_size=1),
    ends=st.lists(st.integers(0, ALL), max_size=2),
    seed=st.integers(0, 10**6),
)
def test_rows_in_ranges_are_found_as_by_their_order(own, ends, seed):
    """The own rows, dealt at random to as many ranges as a part has, of which some may be empty."""
    rng, limits = np.random.default_rng(seed), [0, *sorted(min(end, len(own)) for end in ends), len(own)]
    dealt = rng.permutation(sorted(own)).astype(np.int32)
    ranges = list(pairwise(limits))
    rows = np.concatenate([np.sort(dealt[first:last]) for first, last in ranges])
    found, order = PartRows(rows, ranges), np.argsort(rows)
    np.testing.assert_array_equal(found.ascending(), rows[order])
    values = rng.random((2, len(rows)))
    np.testing.assert_array_equal(found.in_order(values), values[:, order])
    np.testing.assert_array_equal(found.in_part(values[:, order]), values)
    first, last = sorted(rng.integers(0, ALL + 1, 2).tolist())
    assert set(rows[found.between(first, last)]) == {row for row in own if first <= row < last}
    where, between = found.ordered_between(first, last)
    np.testing.assert_array_equal(between, rows[order][where])
    assert between.tolist() == sorted(row for row in own if first <= row < last)
    wanted = rng.permutation(ALL)
    there, place = found.among(wanted)
    assert set(wanted[there]) == own
    np.testing.assert_array_equal(rows[order][place], wanted[there])
    mine = rng.permutation(rows).astype(np.int64)
    np.testing.assert_array_equal(rows[found.find(mine)], mine)


def test_rows_without_ranges_are_put_in_order():
    rows = np.random.default_rng(3).permutation(20)[:7]
    found, order = PartRows.sorted(rows)
    np.testing.assert_array_equal(found.rows, np.sort(rows))
    np.testing.assert_array_equal(rows[order], found.rows)
    assert len(PartRows(np.zeros(0, np.int32)).between(0, 9)) == 0


def test_messages_go_back_the_way_they_came():
    """From the halo to the places that it stands for, in the memory of those that came."""
    array = np.random.default_rng(1).random(12)
    places, halo, ours = np.array([1, 4, 7]), slice(9, 12), array[[1, 4, 7]]
    there = HostBuffers(array, {1: places}, {1: halo})
    back = there.back()
    there.pack()
    there.received[1][:] = there.sent[1] + 1  # as one sends who has the same numbers and 1 more
    there.unpack()
    np.testing.assert_array_equal(array[halo], ours + 1)
    array[halo] += 1
    back.pack()
    np.testing.assert_array_equal(back.sent[1], ours + 2)
    back.received[1][:] = back.sent[1]
    back.unpack()
    np.testing.assert_array_equal(array[places], ours + 2)
    assert back.sent[1] is there.received[1]
    assert (there.nbytes, back.nbytes) == (2 * 3 * 8, 0)
