"""Sacs on vessels drawn at random are found, and vessels without any have none."""

import logging

import numpy as np
import pytest

from pipeline.geometry.branches.tree import trace_tree
from pipeline.haemodynamics.neck import sever
from pipeline.haemodynamics.sac_finder import find_sacs
from tests.random_sacs import NO_SAC, Drawn, with_sac_at_fork, with_side_wall_sac, without_sac

LOG = logging.getLogger("test")


def volumes(drawn: Drawn) -> list[float]:
    """Volume of each sac that is found, mm3."""
    branches = trace_tree(drawn.mesh, drawn.openings, 2.5, LOG).branches
    lines = [np.column_stack((branch.points_mm, branch.radius_mm)) for branch in branches]
    found = find_sacs(drawn.mesh, drawn.openings, lines, 1.3, np.zeros(len(drawn.mesh.points_mm), bool))
    names = {opening.id: opening.name for opening in drawn.openings}
    return [sever(drawn.mesh, neck, names).closed.volume_mm3() for neck in found.necks]


def check_side_wall(seed):
    """The plane of the neck leaves `MARGIN` of the sac to the parent, more where the neck is wide."""
    drawn = with_side_wall_sac(seed)
    [volume] = volumes(drawn)
    assert 0.75 < volume / drawn.outside_mm3 < 1.1, drawn.words


@pytest.mark.parametrize("seed", [100, 101])
def test_a_sac_on_the_side_of_a_vessel_is_found_with_its_volume(seed):
    check_side_wall(seed)


@pytest.mark.parametrize("seed", range(len(NO_SAC)))
def test_a_vessel_without_a_sac_has_none(seed):
    assert volumes(without_sac(1000 + seed)) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(102, 142))
def test_sacs_of_all_sizes_on_the_side_are_found(seed):
    check_side_wall(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_sac_on_a_fork_is_found(seed):
    assert len(volumes(with_sac_at_fork(seed))) == 1
