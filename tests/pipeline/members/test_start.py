# SPDX-License-Identifier: Apache-2.0
"""The flow of a case at the nodes of another lattice."""

from dataclasses import dataclass

import numpy as np
import pytest

from pipeline.case.settings.geometry import DecomposeSettings
from pipeline.members.in_memory import nodes_of
from pipeline.members.start import start_from
from tests.support.swept import swept

LINE = np.linspace(0, 1, 9)[:, None] * [1.0, 2.0, 2.0]


@dataclass(frozen=True)
class Held:
    """A flow that is known at the nodes of a lattice."""

    points_mm: np.ndarray
    velocity: np.ndarray
    pressure: np.ndarray

    def velocity_m_s(self, step):
        return self.velocity

    def pressure_pa(self, step):
        return self.pressure


def lattice(spacing, radius=1.0):
    surface, openings = swept(LINE, radius, segments=24)
    nodes = nodes_of(surface, openings, spacing, DecomposeSettings())
    return nodes, np.array(nodes.origin_mm) + nodes.spacing_mm * nodes.position


def linear(places):
    return places @ np.array([[0.1, 0.2, 0.0], [0.0, -0.1, 0.3], [0.2, 0.0, 0.1]]) + 0.5, 40 + places @ [3.0, -2.0, 5.0]


@pytest.mark.parametrize("factor", [1.0, 0.7])
def test_a_linear_flow_is_met_exactly_within_the_case_and_ends_at_its_wall(factor):
    """Trilinear interpolation is exact for it; places are kept in single precision, 1e-7 of them. Beyond the last nodes
    of the case velocities fall to none, and pressures are those of its nearest nodes: half a spacing off at most along
    each axis.
    """
    (_, known), (nodes, places) = lattice(0.15), lattice(0.24, 1.1)
    velocity, pressure = linear(known)
    begin = start_from(Held(known.astype(np.float32), velocity, pressure), 0.15, nodes, factor)
    exact, expected = linear(places)
    index = {tuple(key) for key in np.rint((known - known[0]) / 0.15).astype(int).tolist()}
    low = np.floor((places - known[0]) / 0.15).astype(int)
    corners = np.stack(np.meshgrid([0, 1], [0, 1], [0, 1]), axis=-1).reshape(-1, 3)
    inside = np.array([all(tuple(each) in index for each in (at + corners).tolist()) for at in low])
    assert 0.3 < inside.mean() < 0.9
    assert begin.velocity_m_s[inside] == pytest.approx(factor * exact[inside], abs=1e-5)
    least = pressure.min()
    assert begin.pressure_pa[inside] == pytest.approx(least + factor * (expected[inside] - least), abs=1e-4)
    assert (np.linalg.norm(begin.velocity_m_s, axis=1) <= factor * np.linalg.norm(velocity, axis=1).max()).all()
    assert np.abs(begin.pressure_pa - least - factor * (expected - least)).max() < factor * 0.4 * (3 + 2 + 5)
