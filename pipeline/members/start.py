# SPDX-License-Identifier: Apache-2.0
"""The flow of a case as the start of a run beside it, whose vessel, flow and lattice are a little different."""

from itertools import product

import numpy as np
from scipy.spatial import cKDTree

from solver.domain.nodes import Nodes
from solver.run.flow_file import Flow
from solver.run.given_start import GivenFlow

NEARLY_MM = 1e-4
"""Round-off of the places in a flow file, which are kept in single precision."""


def start_from(flow: Flow, spacing_mm: float, nodes: Nodes, factor: float) -> GivenFlow:
    """The last flow of a case at the nodes of another lattice, times a factor.

    Between eight nodes of the case the velocity is trilinear, and none beyond its wall. The pressure is the mean of
    those that there are, with the same weights; where none is, that of the nearest node. Its differences take the
    factor, too.

    Parameters
    ----------
    flow : of the case.
    spacing_mm : of its lattice.
    nodes : of the other run.
    factor : of its inflow, by that of the case.
    """
    points = flow.points_mm.astype(np.float64)
    first = points.min(axis=0)
    known = np.rint((points - first) / spacing_mm).astype(np.int64)
    shape = known.max(axis=0) + 3  # a layer around it, so that neighbours outside have numbers of their own
    keys = np.ravel_multi_index(tuple(known.T + 1), tuple(shape))
    order = np.argsort(keys)
    places = np.array(nodes.origin_mm) + nodes.spacing_mm * nodes.position
    inside = np.clip((places - first) / spacing_mm, -1 + NEARLY_MM, known.max(axis=0) + 1 - NEARLY_MM)
    low = np.floor(inside).astype(np.int64)
    part = inside - low
    velocity, pressure, weights = np.zeros((len(places), 3)), np.zeros(len(places)), np.zeros(len(places))
    of_flow = np.column_stack((flow.velocity_m_s(-1), flow.pressure_pa(-1))).astype(np.float64)
    for corner in product((0, 1), repeat=3):
        wanted = np.ravel_multi_index(tuple((low + corner).T + 1), tuple(shape))
        row = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
        weight = np.where(keys[row] == wanted, np.abs(1 - np.array(corner) - part).prod(axis=1), 0.0)
        velocity += weight[:, None] * of_flow[row, :3]
        pressure += weight * of_flow[row, 3]
        weights += weight
    alone = weights <= 0
    pressure[~alone] /= weights[~alone]
    if alone.any():
        pressure[alone] = of_flow[cKDTree(points).query(places[alone])[1], 3]
    least = float(of_flow[:, 3].min())
    return GivenFlow(factor * velocity, least + factor * (pressure - least))
