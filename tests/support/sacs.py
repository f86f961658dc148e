# SPDX-License-Identifier: Apache-2.0
"""A straight vessel with a round sac beside it, on a lattice."""

import numpy as np
from numpy.typing import NDArray

from solver.domain.nodes import Nodes
from tests.support.geometries import hollow, round_opening

Reals = NDArray[np.float64]


def vessel_with_sac(
    radius: float, wide: float, neck: float, turn: float, spacing_mm: float
) -> tuple[Nodes, dict[str, NDArray[np.bool_]]]:
    """The nodes, and which of them lie anywhere, in the sac, and in the half of it that is farther from the vessel.

    Parameters
    ----------
    radius, wide : of the vessel, which runs along x, and of the sac, spacings.
    neck : radius of the neck, spacings.
    turn : angle around the vessel at which the sac lies, radians.
    spacing_mm : of the lattice.
    """
    start, along, length = np.array([0.3, 0.2, 0.4]), np.array([1.0, 0, 0]), 2 * (wide + 4 * radius)
    aside = np.array([0, np.cos(turn), np.sin(turn)])
    centre = start + length / 2 * along + (radius + (wide**2 - min(neck, 0.9 * wide) ** 2) ** 0.5) * aside
    end = start + length * along

    def level(points: Reals) -> Reals:
        beside = np.hypot(*(points - start)[:, 1:].T) - radius
        return np.minimum(beside, np.linalg.norm(points - centre, axis=1) - wide)

    caps = (
        round_opening(1, "in", "inlet", start, -along, radius),
        round_opening(2, "out", "outlet", end, along, radius),
    )
    reach = np.array([0, 1, 1]) * (radius + 2)
    low, high = np.minimum(start - reach, centre - wide - 2), np.maximum(end + reach, centre + wide + 2)
    low[0], high[0] = start[0], end[0]
    nodes = hollow(level, caps, np.floor(low), np.ceil(high), spacing_mm)
    offset = nodes.points_mm(np.arange(nodes.count)) / spacing_mm - centre
    within = np.linalg.norm(offset, axis=1) < wide
    return nodes, {"all": np.ones(nodes.count, np.bool_), "sac": within, "far half": within & (offset @ aside > 0)}
