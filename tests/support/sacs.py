# SPDX-License-Identifier: Apache-2.0
"""Straight vessels on a lattice: with a round sac beside it, or that widen and narrow again."""

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


def drawn_sac(
    rng: np.random.Generator, radius: float, spacing_mm: float
) -> tuple[Nodes, dict[str, float], dict[str, NDArray[np.bool_]]]:
    """A vessel with a sac of random size, neck and direction, these sizes over its radius, and its nodes by where they
    lie.

    Parameters
    ----------
    rng : draws them.
    radius : of the vessel, spacings.
    spacing_mm : of the lattice.
    """
    wide, neck, turn = rng.uniform(1.5, 3.5) * radius, rng.uniform(0.6, 1.3) * radius, rng.uniform(0, 2 * np.pi)
    nodes, places = vessel_with_sac(radius, wide, neck, turn, spacing_mm)
    return nodes, {"wide": wide / radius, "neck": neck / radius}, places


def widened_vessel(
    radius: float, wide: float, length: float, turn: float, spacing_mm: float
) -> tuple[Nodes, dict[str, NDArray[np.bool_]]]:
    """The nodes, and which of them lie anywhere, where it is wider, and there farther from its axis than its radius.

    Parameters
    ----------
    radius, wide : of the vessel, and of it where it is widest, spacings.
    length : of the part that is wider, spacings; its radius changes as a cosine.
    turn : angle of the vessel to x, radians.
    spacing_mm : of the lattice.
    """
    along = np.array([np.cos(turn), np.sin(turn), 0.2]) / np.hypot(1, 0.2)
    start, before = np.array([0.3, 0.2, 0.4]), 4 * radius
    end = start + (2 * before + length) * along

    def place(points: Reals) -> tuple[Reals, Reals]:
        axial = (points - start) @ along
        return (axial - before) / length, np.linalg.norm(points - start - axial[:, None] * along, axis=1)

    def level(points: Reals) -> Reals:
        part, off_axis = place(points)
        return off_axis - radius - (wide - radius) / 2 * (1 - np.cos(2 * np.pi * np.clip(part, 0, 1)))

    caps = (
        round_opening(1, "in", "inlet", start, -along, radius),
        round_opening(2, "out", "outlet", end, along, radius),
    )
    low, high = np.minimum(start, end) - wide - 2, np.maximum(start, end) + wide + 2
    nodes = hollow(level, caps, np.floor(low), np.ceil(high), spacing_mm)
    part, off_axis = place(nodes.points_mm(np.arange(nodes.count)) / spacing_mm)
    wider = (part > 0) & (part < 1)
    return nodes, {"all": np.ones(nodes.count, np.bool_), "sac": wider, "far half": wider & (off_axis > radius)}
