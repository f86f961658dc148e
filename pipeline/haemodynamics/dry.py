# SPDX-License-Identifier: Apache-2.0
"""Branches that the lattice has closed, because they are too thin for it, and their wall, where no flow is known."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from pipeline.files.mesh import Mesh
from pipeline.geometry.branches.side_branches import FLARE
from solver.domain.nodes import Nodes
from solver.run.forecast import MIN_NODES_ACROSS

if TYPE_CHECKING:
    from pipeline.geometry.branches.vessel_tree import Branch

REACH = 2.0
"""A wall that is farther from all fluid nodes, in spacings, surrounds none: the next node is nearer than sqrt(3)."""
MOST = 0.5
"""Part of a closed branch that has no fluid, at least: its mouths have some."""


def wetted(surface: Mesh, branches: Sequence["Branch"], nodes: Nodes) -> tuple[Mesh, list["Branch"]]:
    """The surface without the wall of closed branches, and the others; as they are where none is closed.

    Parameters
    ----------
    surface : closed, mm, LPS.
    branches : of the vessel's tree.
    nodes : the lattice.
    """
    thin = [b for b in branches if b.leads and 2 * b.radius_mm[b.own].min() < MIN_NODES_ACROSS * nodes.spacing_mm]
    closed = [branch for branch in thin if _is_dry(branch, nodes)]
    if not closed:
        return surface, list(branches)
    reach = REACH * nodes.spacing_mm
    away = np.zeros(len(surface.points_mm))
    for branch in closed:
        margin = reach + FLARE * float(branch.radius_mm[branch.own].max())
        near, fluid = _around(branch, surface.points_mm, margin), _around(branch, nodes.points_mm(), margin + reach)
        away[near] = cKDTree(nodes.points_mm()[fluid]).query(surface.points_mm[near])[0]
    kept = (surface.opening > 0) | (away[surface.triangles].max(axis=1) < reach)
    patch = None if surface.patch is None else surface.patch[kept]
    ids = {branch.id for branch in closed}
    others = [branch for branch in branches if branch.id not in ids]
    return Mesh(surface.points_mm, surface.triangles[kept], surface.opening[kept], patch), others


def _is_dry(branch: "Branch", nodes: Nodes) -> bool:
    """Whether most of a branch has no fluid node within its radius, or a spacing."""
    points, radius = branch.points_mm[branch.own], np.maximum(branch.radius_mm[branch.own], nodes.spacing_mm)
    fluid = nodes.points_mm()[_around(branch, nodes.points_mm(), float(radius.max()))]
    return not len(fluid) or float(np.mean(cKDTree(fluid).query(points)[0] > radius)) > MOST


def _around(branch: "Branch", places_mm: NDArray[np.float64], margin_mm: float) -> NDArray[np.int64]:
    """Rows of the places in the box of a branch with a margin."""
    points = branch.points_mm[branch.own]
    low, high = points.min(axis=0) - margin_mm, points.max(axis=0) + margin_mm
    return np.flatnonzero(((places_mm > low) & (places_mm < high)).all(axis=1))
