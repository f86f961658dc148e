# SPDX-License-Identifier: Apache-2.0
"""A model as a network: its file is one, and the solver of networks finds the pressures that the model does."""

import logging

import numpy as np
import pytest

from pipeline.haemodynamics.tree_waveforms import waveforms
from pipeline.network.checks import require_sound
from pipeline.network.cutting import cut
from pipeline.network.for_solver import for_solver
from pipeline.network.network_file import LossKeys, Segment, read_network
from pipeline.reduced.answer import What, answered
from pipeline.reduced.as_network import STIFF_M_S, network_of
from pipeline.reduced.model import Behind, Share
from solver.network.arterial_walls import along
from solver.network.cycles import Until, solve_network
from solver.network.run import Numerics
from tests.support.reduced_forks import LOSSES, WAYS, fork

BEHIND = Behind(proximal_mmhg_s_ml=5.0, distal_mmhg_s_ml=25.0, compliance_ml_mmhg=0.1)


@pytest.fixture
def file(tmp_path):
    """The file of a fork, with a Windkessel and a part of the flow behind its outlets."""
    found = fork(left=BEHIND, right=Share(part=0.4), reservations=("the flow fluctuates",))
    path = tmp_path / "reduced.yaml"
    path.write_text(network_of(found))
    return path


def test_a_network_has_the_losses_the_inertia_and_the_ends_of_the_model(file):
    network = read_network(file)
    require_sound(network, str(file))
    assert "Does not hold: the flow fluctuates." in file.read_text()
    solved = for_solver(network)
    for segment, (linear, square) in zip(network.segments.values(), LOSSES.values(), strict=True):
        assert segment.loss == LossKeys(resistance_mmhg_s_ml=linear, square_mmhg_s2_ml2=square)
    for segment in solved.segments:
        places = (np.arange(2000) + 0.5) / 2000
        areas = np.pi * along(segment.radius_m, places) ** 2
        inertance = solved.blood.density_kg_m3 * segment.length_m * (1 / areas).mean() * 1e-6 / 133.322
        assert inertance == pytest.approx(0.01, rel=1e-5)
        assert segment.loss.linear_pa_s_m3 > 0
    assert network.defaults.wave_speed_m_s == STIFF_M_S
    assert network.terminals["left"].compliance_ml_mmhg == pytest.approx(0.1)
    right = network.terminals["right"]  # at the case's flow its pressure is that of the case
    assert right.distal_pressure_mmhg + right.resistance_mmhg_s_ml * 1.2 == pytest.approx(80)


def test_a_part_of_a_segment_has_its_part_of_the_loss():
    segment = Segment(
        nodes=("a", "b"), length_mm=40, radius_mm=2, loss=LossKeys(resistance_mmhg_s_ml=4, square_mmhg_s2_ml2=8)
    )
    pieces = cut(segment, "whole", (0.25, 0.5))
    assert [each.loss.resistance_mmhg_s_ml for each in pieces] == pytest.approx([1, 1, 2])
    assert sum(each.loss.square_mmhg_s2_ml2 for each in pieces) == pytest.approx(8)
    with pytest.raises(ValueError, match="stenosis and loss: both given"):
        Segment(nodes=("a", "b"), length_mm=40, radius_mm=2, loss=segment.loss, stenosis={"normal_radius_mm": 3})


def test_the_solver_of_networks_finds_the_pressures_of_the_model(tmp_path):
    """Both outlets held at 80 mmHg. With cells of 2 mm, seven or more a branch, both agree within 0.1 %."""
    found, path = fork(), tmp_path / "reduced.yaml"
    path.write_text(network_of(found))
    says = answered(found, What())
    log = logging.getLogger("network")
    result = solve_network(for_solver(read_network(path)), Numerics(2e-3, 0.8, 20), Until(1e-4, most_cycles=20), log)
    course = waveforms(result, [("branch1", 0.0), ("branch2", 1.0), ("branch3", 1.0)])
    drop = says.pressure_mmhg["inlet"] - 80
    assert course.pressure_pa[:, 0].mean() / 133.322 - 80 == pytest.approx(drop, rel=0.005)
    for row, way in ((1, WAYS[1]), (2, WAYS[2])):
        assert course.flow_m3_s[:, row].mean() * 1e6 == pytest.approx(says.flow_ml_s[way.name], rel=0.005)
