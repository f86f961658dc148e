# SPDX-License-Identifier: Apache-2.0
"""Sacs on vessels drawn at random, and on a real one, are found, and vessels without any have none."""

import logging

import numpy as np
import pytest

from pipeline.files.surface_file import read_surface_file
from pipeline.geometry.branches.tree_tracing import trace_tree
from pipeline.geometry.closed_surface import Surface
from pipeline.geometry.given_surface import GivenSurface
from pipeline.haemodynamics.neck import sever
from pipeline.haemodynamics.sac_finder import find_sacs
from pipeline.stages.import_surface import import_surface
from tests.support.random_sacs import NO_SAC, Drawn, with_sac_at_fork, with_side_wall_sac, without_sac
from tests.support.stability_matrix import surfaces
from tests.support.variants import some

LOG = logging.getLogger("test")


def volumes(vessel: Drawn | Surface) -> list[float]:
    """Volume of each sac that is found, mm3."""
    mesh, openings = vessel.mesh, vessel.openings
    branches = trace_tree(mesh, openings, 2.5, LOG).branches
    lines = [np.column_stack((branch.points_mm, branch.radius_mm)) for branch in branches]
    found = find_sacs(mesh, openings, lines, 1.3, np.zeros(len(mesh.points_mm), bool))
    names = {opening.id: opening.name for opening in openings}
    return [sever(mesh, neck, names).closed.volume_mm3() for neck in found.necks]


def check_side_wall(seed):
    """The plane of the neck leaves `MARGIN` of the sac to the parent, more where the neck is wide."""
    drawn = with_side_wall_sac(seed)
    [volume] = volumes(drawn)
    assert 0.75 < volume / drawn.outside_mm3 < 1.1, drawn.words


@pytest.mark.parametrize("seed", [100, 101])
def test_a_sac_on_the_side_of_a_vessel_is_found_with_its_volume(seed):
    check_side_wall(seed)


@pytest.mark.parametrize("seed", some(range(len(NO_SAC)), *range(0, len(NO_SAC) - 1, 2)))
def test_a_vessel_without_a_sac_has_none(seed):
    assert volumes(without_sac(1000 + seed)) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(102, 142))
def test_sacs_of_all_sizes_on_the_side_are_found(seed):
    check_side_wall(seed)


def check_fork(seed):
    """Beside what a side wall leaves to the parent, the plane cuts off what reaches down between the branches."""
    drawn = with_sac_at_fork(seed)
    [volume] = volumes(drawn)
    assert 0.7 < volume / drawn.outside_mm3 < 1.1, drawn.words


@pytest.mark.slow
def test_a_sac_on_a_fork_is_found_with_its_volume():
    """In this one forks that all but coincide are merged, more than one piece of line among them."""
    check_fork(223)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(101, 121))
def test_sacs_of_all_sizes_on_forks_are_found(seed):
    check_fork(seed)


def test_lines_end_at_the_wall_where_the_last_ball_is_a_little_too_large():
    """The tip of this sac's blind branch lies nearer to the wall than its radius says: no step may cross it."""
    drawn = with_side_wall_sac(14)
    tree = trace_tree(drawn.mesh, drawn.openings, 2.5, LOG)
    low, high = drawn.mesh.points_mm.min(axis=0), drawn.mesh.points_mm.max(axis=0)
    for branch in tree.branches:
        assert ((branch.points_mm > low) & (branch.points_mm < high)).all()


@pytest.mark.slow
def test_a_giant_sac_that_swallows_its_fork_is_found():
    """A ball of 17.2 mm at the end of a trunk of 6 mm: two thirds of it lie off the vessels at least, and what is
    blended between them is no more than the ball again.
    """
    path = surfaces() / "palabos-aneurysm-metres.stl"
    if not path.is_file():
        pytest.skip(f"no {path.name} (set HEMO_CASES)")
    surface = import_surface(read_surface_file(path), GivenSurface(unit="m"), LOG)
    [volume] = volumes(surface)
    ball = 4 / 3 * np.pi * 17.2**3
    assert 2 / 3 < volume / ball < 2
