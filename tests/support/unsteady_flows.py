# SPDX-License-Identifier: Apache-2.0
"""Flows under steady conditions that never come to rest, small enough to run to their end: channels with discs."""

import numpy as np
from numpy.typing import NDArray

from solver.domain.nodes import Nodes, Opening
from solver.run.settings import InletSettings, SolveSettings
from tests.solver.run.test_simulation import DENSITY, VISCOSITY, settings
from tests.support.geometries import flowing_between_plates, nodes_from

SPACING_MM = 0.2


def channel(height: int, length: int, discs: tuple[tuple[float, float, float], ...]) -> Nodes:
    """Channel of one periodic layer between plates, with round bars across it at (x, z, radius), all in spacings."""
    z, x = np.indices((height, length))
    fluid = np.all([np.hypot(x - a, z - c) > r for a, c, r in discs], axis=0)

    def crossing(position: NDArray, velocity: NDArray) -> tuple[NDArray, NDArray]:
        end = position + velocity
        q = np.full(len(position), 0.5)
        for a, c, r in discs:
            d, v = position[:, ::2] - (a, c), velocity[:, ::2]
            square, half, out = (v**2).sum(axis=1), (d * v).sum(axis=1), (d**2).sum(axis=1) - r**2
            root = half**2 - square * out
            with np.errstate(divide="ignore", invalid="ignore"):
                found = (-half - np.sqrt(np.maximum(root, 0))) / square
            inside = np.hypot(end[:, 0] - a, end[:, 2] - c) <= r
            q = np.where(inside, found, q)
        return q, np.where(end[:, 0] < 0, 1, np.where(end[:, 0] >= length, 2, 0)) * (
            (end[:, 2] >= 0) & (end[:, 2] < height)
        )

    middle = height / 2 - 0.5
    openings = tuple(
        Opening(
            number,
            name,
            role,
            (at * SPACING_MM, 0.0, middle * SPACING_MM),
            (sign, 0.0, 0.0),
            height * SPACING_MM**2,
            height / 2 * SPACING_MM,
        )
        for number, name, role, at, sign in ((1, "in", "inlet", -0.5, -1.0), (2, "out", "outlet", length - 0.5, 1.0))
    )
    nodes = nodes_from(fluid[:, None], crossing, openings, (False, True, False), SPACING_MM)

    return flowing_between_plates(nodes)


def drawn(seed: int) -> tuple[Nodes, SolveSettings]:
    """A channel 30 to 40 nodes high with one or two bars, which take a quarter to 45 % of that, at a Reynolds number of
    120 to 300 by their thickness and the mean speed beside them.
    """
    rng = np.random.default_rng(seed)
    height = int(rng.integers(30, 41))
    thick = rng.uniform(0.25, 0.45) * height
    free, middle, first = height - thick, height / 2 - 0.5, 1.2 * height
    discs = [(first, middle + rng.uniform(-0.5, 0.5) * (free / 2 - 9), thick / 2)]
    if rng.random() < 0.4:
        discs.append((first + rng.uniform(2, 3.5) * thick, middle + rng.uniform(-2, 2), thick / 2))
    nodes = channel(height, int(rng.uniform(4, 6) * height), tuple(discs))
    mean_m_s = rng.uniform(120, 300) * VISCOSITY / DENSITY / (thick * SPACING_MM * 1e-3) * free / height
    flow_ml_s = 1e6 * mean_m_s * height * (SPACING_MM * 1e-3) ** 2
    return nodes, settings(inlets={"in": InletSettings(flow_ml_s, None, "developed")}, max_steps=1_000_000)
