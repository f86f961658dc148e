# SPDX-License-Identifier: Apache-2.0
"""Numbers of nodes that ranks keep in a checkpoint are those of all, and each takes its own back."""

from types import SimpleNamespace

import numpy as np
import pytest

from solver.backends.part_rows import PartRows
from solver.backends.share import RankShare, Share
from solver.domain import whole
from tests.support.thread_ranks import ThreadRank, on_ranks


@pytest.mark.parametrize("components", [(), (3,)])
def test_ranks_keep_what_one_process_does_and_take_their_own(components, monkeypatch):
    monkeypatch.setattr(whole, "BLOCK_ROWS", 7)
    rng, count = np.random.default_rng(len(components)), 50
    values, part = rng.standard_normal((*components, count)), rng.integers(0, 3, count)
    assert Share().taken(Share().kept(values)) is values

    def work(ranks: ThreadRank) -> tuple[np.ndarray, np.ndarray]:
        share = RankShare(PartRows(rows := np.flatnonzero(part == ranks.rank)), count, ranks, rows)
        kept, found = share.kept(values[..., rows]), np.full(values.shape, np.nan)
        for where, block in kept.pieces():
            found[where] = block
        stored = SimpleNamespace(shape=values.shape, pick=lambda places, split: values[..., places])
        return found, share.taken(stored)

    for rank, (kept, own) in enumerate(on_ranks(3, work)):
        assert np.array_equal(own, values[..., part == rank])
        assert rank or np.array_equal(kept, values)
