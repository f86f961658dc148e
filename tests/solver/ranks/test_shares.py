# SPDX-License-Identifier: Apache-2.0
"""What a rank holds follows from its own nodes, not from how many all have; and nothing of a flow from the division."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from solver.__main__ import identity
from solver.domain.nodes import save
from solver.domain.partition import partition
from solver.ranks.launch import environment
from solver.runtime.sources import ROOT
from tests.solver.run.test_checkpoint import short_pipe
from tests.solver.run.test_simulation import settings
from tests.support.geometries import pipe
from tests.support.variants import some

OF_ALL = 3.0
"""Bytes a node of all that a rank may hold more, less than an array of four bytes takes: 0.3 to 1.5 are tables of the
sections, some numbers for each two slices of 121 nodes, and what Python happens to hold."""
ALIKE = 1.12
"""Bytes a node that is here, most over least: parts at openings have more links and more nodes of their own, those
between two others less of both; 1.09 was measured."""

USED = 1.2
"""Bytes that are held of a lattice once it has a driver, over those of the driver: 1.02 to 1.07 were measured, of rows,
slots that are sent, and messages. The table of addresses, which the driver has no use for any more, would be 0.3."""


@pytest.mark.parametrize("more", some([3, 4], 3))
def test_what_a_rank_holds_until_its_first_step_follows_from_its_own_nodes(more, mpirun, tmp_path):
    """A tube on two ranks, and one that is longer on more, by as much: the first has the same nodes here, and fewer of
    all.
    """
    found = {}
    for ranks in (2, more):
        for name, length in (("before", 20), ("tube", 60 * ranks)):
            nodes = pipe((0, 0, 1), 6.2, length)
            part = (nodes.position[:, 2] - nodes.position[:, 2].min()) * ranks // length
            save(replace(nodes, part=part.astype(np.int16)), tmp_path / f"{name}-{ranks}.h5")
        names = [f"{name}-{ranks}" for name in ("before", "tube")]
        command = [mpirun, "-n", str(ranks), sys.executable, "-m", "tests.support.rank_shares", str(tmp_path), *names]
        given = environment(ranks) | {"NUMBA_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, timeout=800, check=False)
        assert done.returncode == 0, done.stderr
        found |= {(ranks, said["rank"]): said for said in map(json.loads, done.stdout.splitlines())}
    few, many = found[2, 0], found[more, 0]
    assert many["here"] == few["here"]
    assert 2 * many["all"] == more * few["all"]
    assert many["most"] - few["most"] < OF_ALL * (many["all"] - few["all"])
    a_node = [said["most"] / said["here"] for said in found.values()]
    assert len(a_node) == 2 + more
    assert max(a_node) < ALIKE * min(a_node)
    assert max(said["held"] for said in found.values()) < USED


def test_the_state_of_a_run_is_that_of_any_number_of_ranks(tmp_path):
    """However the geometry is divided in its file."""
    nodes = short_pipe()
    save(nodes, tmp_path / "nodes.h5")
    save(replace(nodes, part=partition(nodes, 3)), tmp_path / "parts.h5")
    moved = replace(nodes, wall_link_q=nodes.wall_link_q / np.float32(2))
    save(moved, tmp_path / "moved.h5")
    of = {name: identity(tmp_path / f"{name}.h5", settings()) for name in ("nodes", "parts", "moved")}
    assert of["nodes"] == of["parts"] == identity(tmp_path / "nodes.h5", settings(ranks=3)) != of["moved"]
