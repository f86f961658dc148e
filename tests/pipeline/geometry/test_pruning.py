# SPDX-License-Identifier: Apache-2.0
"""Pruning measures again what a lost branch can have changed, and finds what measuring everything again finds."""

import numpy as np
import pytest

from pipeline.geometry.branches.centreline_graph import Centreline
from pipeline.geometry.branches.free_ends import _is_tube, _judge, _too_short, find_ends
from pipeline.geometry.branches.pruning import Pruning, without_spurs


def drawn_graph(seed, twigs=None):
    """Lines that leave others at random places, with spurs of all lengths; some close loops or hang in several."""
    rng = np.random.default_rng([seed, 24])
    step = float(rng.uniform(0.5, 1.5))
    points, radii, links = [np.zeros(3)], [float(rng.uniform(1, 8))], [set[int]()]

    def joined(a, b):
        links[a].add(b)
        links[b].add(a)

    for line in range(twigs or int(rng.integers(3, 40))):
        here, way = int(rng.integers(len(points))), rng.normal(size=3)
        radius = radii[here] * float(rng.uniform(0.2, 1.1))
        for _ in range(int(rng.integers(40, 120)) if line == 0 else int(rng.geometric(0.1))):
            way = way / np.linalg.norm(way) + rng.normal(scale=0.2, size=3)
            points.append(points[here] + step * way / np.linalg.norm(way))
            radius = max(radius * float(np.exp(rng.normal(scale=0.08))), 0.2)
            radii.append(radius)
            links.append(set())
            joined(here, len(points) - 1)
            here = len(points) - 1
        if rng.random() < 0.15:
            other = int(rng.integers(len(points)))
            if other != here:
                joined(here, other)
    return Centreline(np.array(points), np.array(radii), tuple(frozenset(near) for near in links))


def every_fifth(row):
    return row % 5 == 0


def order(branch):
    return branch.relative_length, branch.rows


def pruned_plainly(graph, least, kept):
    """By measuring all branches after each that is lost."""
    lost = []
    while spurs := [
        branch
        for branch in graph.terminal_branches()
        if branch.forked and branch.relative_length < least and branch.rows[0] not in kept
    ]:
        lost.append(min(spurs, key=order))
        graph = graph.without(lost[-1])
    return graph, lost


def ends_plainly(graph, least, thick_mm, border, kept):
    closed, thin, too_thin = {}, {}, set()
    while True:
        graph, lost = pruned_plainly(graph, least, kept)
        closed |= {spur.rows[0]: _too_short(spur, least) for spur in lost if _is_tube(spur, thick_mm)}
        judged = [
            (
                each,
                *_judge(each, thick_mm, bool(border[each.rows[0]]) or each.rows[0] in kept, lambda row: row % 5 == 0),
            )
            for each in sorted(graph.terminal_branches(), key=order)
        ]
        too_thin |= {branch.rows[0] for branch, end, _ in judged if end is None}
        dead = next(((branch, why) for branch, _, why in judged if why and branch.forked), None)
        if dead is None:
            closed |= {branch.rows[0]: why for branch, _, why in judged if why}
            ends = [end for _, end, why in judged if end and not why]
            return graph, sorted(ends, key=lambda end: end.rows), closed, thin, too_thin
        closed[dead[0].rows[0]] = dead[1]
        if border[dead[0].rows[0]]:
            thin[dead[0].rows[0]] = dead[0].end_radius_mm
        graph = graph.without(dead[0])


def values(branch):
    """Comparable, bit by bit."""
    arrays = branch.way_mm.tobytes(), branch.radius_mm.tobytes()
    return branch.rows, *arrays, branch.forked, branch.parent_radius_mm


def same(found, wanted):
    return [values(each) for each in found] == [values(each) for each in wanted]


@pytest.mark.parametrize(
    "seed", [*range(40), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(40, 1000))]
)
def test_pruning_finds_what_measuring_all_branches_again_finds(seed):
    graph, rng = drawn_graph(seed), np.random.default_rng([seed, 7])
    least = float(rng.uniform(0.5, 6))
    kept = frozenset(rng.choice(graph.free_ends() or [0], 2).tolist())
    border = rng.random(len(graph.links)) < 0.2
    pruning = Pruning(graph, least, kept)
    lost = pruning.prune()
    rest, plainly = pruned_plainly(graph, least, kept)
    assert same(lost, plainly)
    assert tuple(pruning.rest().links) == tuple(rest.links)
    assert same(sorted(pruning.branches.values(), key=order), sorted(rest.terminal_branches(), key=order))
    thick_mm = float(np.quantile(graph.radius_mm, rng.uniform(0, 0.5)))
    found = find_ends(graph, least, thick_mm, border, kept, flat=every_fifth)
    rest, ends, closed, thin, too_thin = ends_plainly(graph, least, thick_mm, border, kept)
    assert tuple(found.centreline.links) == tuple(rest.links)
    assert same(found.open, ends)
    assert list(found.closed.items()) == list(closed.items())
    assert (found.thin_mm, found.too_thin) == (thin, too_thin)


@pytest.mark.parametrize("seed", range(3))
def test_a_branch_is_measured_about_as_often_as_something_near_it_goes(seed, monkeypatch):
    measured = []
    graph, measure = drawn_graph(seed, twigs=400), Centreline.branch_from

    def counted(self, free_end):
        measured.append(free_end)
        return measure(self, free_end)

    monkeypatch.setattr(Centreline, "branch_from", counted)
    before, rest = len(graph.free_ends()), without_spurs(graph, 6.0)
    gone = before - len(rest.free_ends())
    assert gone > 50
    assert len(measured) < before + 3 * gone  # all of them again after each that goes would be 50 times that
