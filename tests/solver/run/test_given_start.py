# SPDX-License-Identifier: Apache-2.0
"""A steady run that begins with a flow much like its own ends where one from rest does, but sooner."""

import logging

import numpy as np
import pytest

from solver.domain.nodes import Nodes
from solver.run.flow_file import read_flow
from solver.run.given_start import GivenFlow
from solver.run.settings import InletSettings, OutletSettings
from solver.run.solve import solve
from tests.solver.run.test_simulation import settings
from tests.support.geometries import bifurcation, pipe

LOG = logging.getLogger("test_given_start")


def run(nodes: Nodes, folder, begin: GivenFlow | None = None, **changes):
    """Velocity and pressure that a run ends with, its steps, and what it began with."""
    summary = solve(nodes, settings(**changes), folder / "flow.vtkhdf", None, LOG, begin=begin)
    flow = read_flow(folder / "flow.vtkhdf")
    return flow.velocity_m_s(-1), flow.pressure_pa(-1), summary["steps"], summary["start"]["kind"]


@pytest.mark.parametrize("parts", [(None, None), (0.7, 0.3)], ids=["as it comes", "demanded"])
def test_a_fork_begun_with_nine_tenths_of_its_flow_ends_where_it_does_from_rest(parts, tmp_path):
    """Both end within the tolerance, 0.001 over a viscous time, of the same flow; what a demanded division adjusts
    comes to rest within it, too. So a hundredth is left to both. Steps are compared by the hundred, of some 1,700.
    """
    nodes = bifurcation(4.0, ((3.5, 40.0), (3.0, -35.0)), 5.0, np.eye(3), 0.2)
    outlets = {
        opening.name: OutletSettings(80.0, None, None, part)
        for opening, part in zip(nodes.openings[1:], parts, strict=True)
    }
    inlets = {nodes.openings[0].name: InletSettings(0.1, None, "parabolic")}
    velocity, pressure, steps, kind = run(nodes, tmp_path, inlets=inlets, outlets=outlets)
    least = pressure.min()
    begin = GivenFlow(0.9 * velocity, least + 0.9 * (pressure - least))
    again, found, fewer, given = run(nodes, tmp_path, begin, inlets=inlets, outlets=outlets)
    assert (kind, given) == ("rest", "given")
    assert fewer < 0.9 * steps
    assert np.abs(again - velocity).max() < 0.01 * np.abs(velocity).max()
    assert np.abs(found - pressure).max() < 0.01 * np.ptp(pressure)


def test_a_run_that_is_to_begin_at_rest_does(tmp_path):
    nodes = pipe((1, 0, 0), 4.0, 10.0, 0.2)
    begin = GivenFlow(np.zeros((nodes.count, 3)), np.zeros(nodes.count))
    assert run(nodes, tmp_path, begin, start="rest", max_steps=100)[3] == "rest"
