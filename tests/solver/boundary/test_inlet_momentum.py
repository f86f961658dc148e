# SPDX-License-Identifier: Apache-2.0
"""Behind an inlet the flow of a pipe is that of Hagen and Poiseuille from the first node on."""

import logging

import numpy as np
import pytest

from pipeline.case.settings.flow import SolveSettings
from pipeline.stages.postprocess import fields_of
from solver.boundary.inlet_momentum import momentum_shares
from solver.kernels.velocity_sets import velocity_set
from solver.run import solve as run
from solver.run.flow_file import read_flow
from solver.run.models import Models
from solver.run.settings import parse
from tests.support.geometries import pipe
from tests.support.stability_matrix import VISCOSITY_M2_S, of_shape

LOG = logging.getLogger("test")
DIAMETER_MM = 4.0


@pytest.mark.parametrize("direction", [(1, 0, 0), (1, 2, 3)])
@pytest.mark.parametrize("corners", [False, True])
def test_shares_are_those_of_a_parabola(direction, corners):
    """Of a round cap, from the differences of the parabola itself at both ends of the links; to 1e-3 of the largest,
    since profiles are kept in single precision.
    """
    nodes = pipe(direction, 7.3, 12)
    nodes = nodes.with_corners() if corners else nodes
    opening, rows = nodes.openings[0], np.flatnonzero(nodes.opening_link_opening == 1)
    stencil, normal = velocity_set(nodes.q), np.array(opening.normal)
    c = stencil.velocities[nodes.opening_link_direction[rows]].astype(float)
    w = stencil.weights[nodes.opening_link_direction[rows]]
    here = (nodes.points_mm()[nodes.opening_link_node[rows]] - opening.centre_mm) / nodes.spacing_mm

    def speed(place):
        square = (place**2).sum(axis=1) - (place @ normal) ** 2
        return np.maximum(0, 1 - square / (opening.radius_mm / nodes.spacing_mm) ** 2)

    profile = speed(here + c / 2)
    found = momentum_shares(nodes, opening, rows, profile)
    along = c @ normal
    quadratic = 4.5 * along**2 - 1.5
    if not corners:
        quadratic += 1.5 * (2 * (c**2).sum(axis=1) - 3) * (1 - (c**2) @ normal**2)
    share = 6 * w * np.abs(along) * profile
    expected = w * quadratic * (speed(here + c) ** 2 - speed(here) ** 2) / share.sum() ** 2
    expected -= share / share.sum() * expected.sum()
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())
    assert abs(found.sum()) < 1e-12 * np.abs(found).sum()
    np.testing.assert_allclose(momentum_shares(nodes, opening, rows, np.ones(len(rows))), 0, atol=1e-9)


def off_poiseuille(folder, direction):
    """Mean velocity over Hagen and Poiseuille's, less 1, from one to four spacings behind the inlet and from there to a
    diameter, each near the axis and near the wall; 12 nodes across, grid Reynolds number 5.
    """
    nodes = of_shape({"shape": "pipe", "diameter_mm": DIAMETER_MM, "length_mm": 12.0, "direction": direction})(
        DIAMETER_MM / 12
    )
    peak_m_s = 5 * VISCOSITY_M2_S / (nodes.spacing_mm * 1e-3)
    flow_ml_s = peak_m_s / 2 * np.pi * (DIAMETER_MM / 2) ** 2
    settings = SolveSettings(inlets={"*": {"flow_ml_s": flow_ml_s}}, backend="cpu", steady_tolerance=2e-4)
    run.solve(nodes, parse(settings.model_dump(mode="json")), folder / "flow.vtkhdf", folder / "monitor.csv", LOG)
    velocity = np.asarray(list(fields_of(read_flow(folder / "flow.vtkhdf"), nodes, LOG))[-1].velocity_m_s)
    inlet = next(opening for opening in nodes.openings if opening.role == "inlet")
    into = -np.array(inlet.normal)
    place = nodes.points_mm() - inlet.centre_mm
    depth = place @ into
    radius = np.linalg.norm(place - np.outer(depth, into), axis=1) / (DIAMETER_MM / 2)
    exact = peak_m_s * (1 - radius**2)
    found = []
    for least, most in ((1, 4), (4, 12)):
        layer = (depth > least * nodes.spacing_mm) & (depth < most * nodes.spacing_mm)
        for part in (layer & (radius < 0.3), layer & (radius > 0.75)):
            found.append((velocity @ into)[part].sum() / exact[part].sum() - 1)
    return np.abs(found)


@pytest.mark.parametrize(
    "direction", [(1, 2, 3), *(pytest.param(each, marks=pytest.mark.slow) for each in ((1, 0, 0), (0.3, -0.8, 0.5)))]
)
def test_flow_is_developed_from_the_inlet_on(direction, tmp_path, monkeypatch):
    """To 0.5 % at the axis and 1.2 % at the wall, 0.3 and 0.8 % from four spacings on; without the correction 1.2 and
    0.8 % at least at the axis, and near the inlet 2 % at the wall and twice as much as with it.
    """
    corrected = off_poiseuille(tmp_path, direction)
    monkeypatch.setattr(Models, "third_order", lambda models, tau: 0.0)
    without = off_poiseuille(tmp_path, direction)
    assert (corrected < (5e-3, 12e-3, 3e-3, 8e-3)).all()
    assert (without[[0, 2]] > (0.012, 0.008)).all()
    assert without[1] > 0.02
    assert (without[:2] > 2 * corrected[:2]).all()
