# SPDX-License-Identifier: Apache-2.0
"""Branches that end in openings, carry next to nothing, and are too thin for the spacing that voxelize will choose.

They are cut off along the wall of the vessel that they leave, before the lattice is made. Which ones these are follows
from the finished surface by the rules that voxelize chooses the spacing by, so that both stages agree.
"""

import logging
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from pipeline.case.settings.base import NonNegative, Positive, Section
from pipeline.case.settings.flow import MurrayExponent, Precision
from pipeline.case.settings.geometry import SurfaceSettings
from pipeline.files.mesh import Mesh
from pipeline.geometry.branches.branch_files import row
from pipeline.geometry.branches.centreline_graph import Branch, Centreline
from pipeline.geometry.branches.shares import FlowTree, Limb, flow_words
from pipeline.geometry.branches.side_branches import WALL, SideBranch, close_flush
from pipeline.geometry.branches.thin_branches import choose_auto, too_thin
from pipeline.geometry.branches.tree_tracing import trace_tree
from pipeline.geometry.branches.vessel_tree import Tree
from pipeline.geometry.lattice.budget import Budget
from pipeline.geometry.surface.clip import ClipError
from solver.domain.nodes import Opening
from solver.run.forecast import MIN_NODES_ACROSS

LEAST_OPENINGS = 3
"""With fewer, each carries all of the flow."""


class LatticeNeeds(Section):
    """What the automatic choice of the spacing depends on, of the sections voxelize and solve."""

    left_out_share: NonNegative
    murray_exponent: MurrayExponent
    memory_gb: Positive | None
    most_nodes: Positive
    precision: Precision = "fp32"


@dataclass(frozen=True)
class _Graph:
    """A tree as a centreline, with the rows of its joints and branches.

    Attributes
    ----------
    centreline : all of it.
    joint : row of each joint, by name.
    rows : of each branch, by id, from start to stop.
    """

    centreline: Centreline
    joint: dict[str, int]
    rows: dict[int, list[int]]

    @classmethod
    def of(cls, tree: Tree) -> "_Graph":
        """Joints first, then what is between them, branch by branch."""
        joint = {name: k for k, name in enumerate(tree.joints)}
        points = [each.place_mm[None] for each in tree.joints.values()]
        radii = [np.array([each.radius_mm]) for each in tree.joints.values()]
        links: list[set[int]] = [set() for _ in joint]
        rows = {}
        for branch in tree.branches:
            inner = range(len(links), len(links) + len(branch.points_mm) - 2)
            points.append(branch.points_mm[1:-1])
            radii.append(branch.radius_mm[1:-1])
            links += [set() for _ in inner]
            rows[branch.id] = [joint[branch.start], *inner, joint[branch.stop]]
            for a, b in zip(rows[branch.id], rows[branch.id][1:], strict=False):
                links[a].add(b)
                links[b].add(a)
        centreline = Centreline(np.concatenate(points), np.concatenate(radii), tuple(map(frozenset, links)))
        return cls(centreline, joint, rows)

    def cut(self, limb: Limb, root: str) -> tuple[list[int], Centreline]:
        """Rows of a limb from its far end to where it leaves what is joined to the root, and that alone."""
        rows, links = self.rows[limb.id], self.centreline.links
        gone = {frozenset(pair) for pair in pairwise(rows)}
        reached, waiting = {self.joint[root]}, [self.joint[root]]
        while waiting:
            here = waiting.pop()
            ahead = {near for near in links[here] if frozenset((here, near)) not in gone} - reached
            reached |= ahead
            waiting += ahead
        kept = tuple(near & reached if k in reached else frozenset() for k, near in enumerate(links))
        rest = Centreline(self.centreline.points_mm, self.centreline.radius_mm, kept)
        return (rows if rows[-1] in reached else rows[::-1]), rest

    def side(self, limb: Limb, rows: list[int], tree: Tree, why: str) -> SideBranch:
        """A limb as a side branch."""
        points, radius = self.centreline.points_mm[rows], self.centreline.radius_mm[rows]
        steps = np.linalg.norm(np.diff(points, axis=0), axis=1)
        branch = Branch(
            tuple(rows), np.concatenate([[0.0], np.cumsum(steps)]), radius, True, float(radius[-1]), rows[-1]
        )
        mean = next(each.mean_radius_mm for each in tree.branches if each.id == limb.id)
        return SideBranch(branch, points[0], mean, why)


def close_too_thin(
    mesh: Mesh, openings: tuple[Opening, ...], settings: SurfaceSettings, needs: LatticeNeeds, log: logging.Logger
) -> tuple[Mesh, list[dict[str, Any]]]:
    """Cut off what carries next to nothing and is too thin for the spacing that voxelize will choose.

    Where a branch cannot be cut off flush its end becomes wall. Branches to openings that the settings name stay.

    Parameters
    ----------
    mesh, openings : the finished surface.
    settings : the case's section ``surface``.
    needs : what the spacing depends on.
    log : for what was closed.

    Returns
    -------
    The surface, with caps numbered without gaps, and what is kept of each branch that was closed.
    """
    if len(openings) < LEAST_OPENINGS:
        return mesh, []
    tree = trace_tree(mesh, openings, settings.min_branch_radii, log)
    flow = FlowTree.of([row(branch) for branch in tree.branches], openings, needs.murray_exponent)
    budget = Budget.of(mesh, None, needs.precision, needs.memory_gb)
    spacing = choose_auto(flow, budget, needs.left_out_share, needs.most_nodes, closable=True)
    loss = too_thin(flow, spacing.spacing_mm)
    if not loss.stems or loss.share > needs.left_out_share:
        return mesh, []
    graph, records = _Graph.of(tree), list[dict[str, Any]]()
    named = {opening.name for opening in settings.openings}
    for (limb, part), record in zip(loss.stems, loss.records(None, spacing.spacing_mm), strict=False):
        rows, rest = graph.cut(limb, flow.root)
        lost = [opening for opening in loss.openings if not rest.links[graph.joint[opening.name]]]
        if any(opening.name in named for opening in lost):
            log.info("%s stays: surface.openings names what is behind it", limb.words)
            continue
        why = (
            f"{record['nodes_across']:.1f} nodes across at the spacing of {spacing.spacing_mm:.3g} mm that follows from"
            f" {spacing.reason}; {MIN_NODES_ACROSS:g} are wanted"
        )
        side = graph.side(limb, rows, tree, why)
        before_mm3 = mesh.volume_mm3()
        mesh, action = _closed(mesh, side, rest, [opening.id for opening in lost])
        log.warning("warning: %s, %s: %s; %s", limb.words, flow_words(part, None), action, why)
        records.append(side.record(action) | record | {"volume_mm3": before_mm3 - mesh.volume_mm3()})
    _, renumbered = np.unique(np.append(mesh.opening, 0), return_inverse=True)
    return Mesh(mesh.points_mm, mesh.triangles, renumbered[:-1].astype(np.int8)), records


def _closed(mesh: Mesh, side: SideBranch, rest: Centreline, ids: list[int]) -> tuple[Mesh, str]:
    """The surface without a branch that leads to openings, or with these as wall; and what was done."""
    try:
        return close_flush(mesh, side, rest), "closed flush"
    except ClipError:
        tags = np.where(np.isin(mesh.opening, ids), WALL, mesh.opening).astype(np.int8)
        return Mesh(mesh.points_mm, mesh.triangles, tags), "its end is closed"
