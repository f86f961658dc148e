# SPDX-License-Identifier: Apache-2.0
"""A network that cannot be is refused, with what is wrong, where, and what helps."""

from dataclasses import replace

import pytest

from solver.boundary.curves import constant
from solver.network.arterial_walls import ElasticWall, FibreWall
from solver.network.network import Blood, Network, Segment, Stenosis
from solver.network.network_ends import Coupled, FlowInlet, Heart, Reflection, Resistance, Windkessel
from solver.network.run import Numerics
from solver.runtime.errors import StageError
from tests.support.networks import one_cycle, pulse, single, tube

SEGMENT = Segment("aorta", "a", "b", 0.1, (0.01, 0.009), ElasticWall(4e5, 1e-3))
INLETS, TERMINALS = {"a": FlowInlet(constant(1e-5))}, {"b": Resistance(1e8)}
HEART = Heart(constant(1e8), 1e-4, 1e3, 1e6, 1e6, 0.0, 1e-5)


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"segments": ()}, "has no segments"),
        ({"period_s": 0.0}, "period_s is 0"),
        ({"blood": Blood(1060.0, float("nan"))}, "viscosity_pa_s is nan"),
        ({"junctions": "mean"}, "known are total, static"),
        ({"segments": (SEGMENT, SEGMENT)}, "2 segments are called aorta"),
        ({"segments": (replace(SEGMENT, length_m=-1.0),)}, "aorta: length_m is -1"),
        ({"segments": (replace(SEGMENT, radius_m=(0.01, 0.0)),)}, "all radii must be above 0"),
        ({"segments": (replace(SEGMENT, end="a"),)}, "starts and ends at node a"),
        ({"segments": (replace(SEGMENT, profile_exponent=0.0),)}, "a parabola has 2"),
        ({"segments": (replace(SEGMENT, wall=ElasticWall(0.0, 1e-3)),)}, "young_pa of the wall is 0"),
        ({"segments": (replace(SEGMENT, wall=ElasticWall(4e5, 0.0)),)}, "thickness_m of the wall is 0"),
        ({"segments": (replace(SEGMENT, stenosis=Stenosis(0.01, 0.02)),)}, "narrows the radius from 0.01 to 0.02"),
        ({"terminals": {}}, "node b, where aorta ends alone, has neither"),
        ({"terminals": {**TERMINALS, "z": Resistance(1e8)}}, "node z, where no segment ends; there are a, b"),
        ({"inlets": {**INLETS, "b": INLETS["a"]}}, "node b is given an inlet and a terminal"),
        ({"inlets": {"a": HEART}}, "start_m3 is 1e-05"),
        ({"terminals": {"b": Resistance(-1e8)}}, "Resistance at b: resistance_pa_s_m3 is -1e[+]08"),
        ({"terminals": {"b": Windkessel(1e7, 1e8, -1e-9)}}, "compliance_m3_pa is -1e-09"),
        ({"terminals": {"b": Reflection(1.0)}}, "part is 1; it must be above -1 and below 1"),
        ({"inlets": {"a": replace(HEART, start_m3=1e-3, mitral_pa_s_m3=0.0)}}, "mitral_pa_s_m3 is 0"),
        ({"segments": (replace(SEGMENT, wall=FibreWall(3e5, 2e6, 0.2, 0.0)),)}, "recruited_over of the wall"),
        ({"inlets": {}, "terminals": {"a": Coupled(), "b": Coupled()}}, "leaves its pressure open"),
    ],
)
def test_network_that_cannot_be_is_refused(changed, complaint):
    good = {"segments": (SEGMENT,), "inlets": INLETS, "terminals": TERMINALS, "period_s": 1.0}
    Network(**good)
    with pytest.raises(StageError, match=complaint):
        Network(**(good | changed))


def test_terminal_where_segments_meet_is_refused():
    other = replace(SEGMENT, name="more", start="b", end="c")
    with pytest.raises(StageError, match="where 2 segments meet"):
        Network((SEGMENT, other), INLETS, {**TERMINALS, "c": Resistance(1e8)}, 1.0)


def test_vessel_that_collapses_is_named():
    network = single(tube(0.3, celerity_m_s=2.0), pulse(0.8, -2e-3, 0.2, 0.05), Resistance(1e8), 0.8)
    with pytest.raises(StageError, match="tube has collapsed or diverged at"):
        one_cycle(network, Numerics(0.01))
