# SPDX-License-Identifier: Apache-2.0
"""A vessel in a network: rows of its openings, and checks that both sides are one."""

import numpy as np
import pytest

from pipeline.haemodynamics.coupling_checks import coupling_checks, coupling_rows, with_network

TIME = np.linspace(0, 1, 100, endpoint=False)
PULSE = 100 + 20 * np.sin(2 * np.pi * TIME)


def waveform(flow: float, pressure: np.ndarray) -> dict:
    return {"time_s": TIME.tolist(), "flow_ml_s": [flow] * 100, "pressure_mmhg": pressure.tolist()}


def place(role: str, segment: str, difference: float) -> dict:
    return {
        "role": role,
        "segment": segment,
        "network_radius_mm": 2.0,
        "vessel_radius_mm": 2.0 * (1 + difference),
        "radius_difference": difference,
    }


def rows(in_vessel: float = 5.0, pressure: float = 0.0, narrower: float = 0.1):
    places = {"caps": {"in": place("inlet", "trunk", -narrower), "out": place("outlet", "leg", 0.05)}}
    caps = {
        "in": {
            "alone": waveform(6, PULSE),
            "network": waveform(5, PULSE),
            "vessel": waveform(in_vessel, PULSE + pressure),
        },
        "out": {"alone": waveform(6, PULSE - 4), "network": waveform(5, PULSE - 4), "vessel": waveform(5, PULSE - 4)},
    }
    return coupling_rows(places, {"caps": caps})


def test_rows_hold_means_and_extremes_of_each_side():
    first, second = rows()
    assert (first["name"], first["role"], first["segment"]) == ("in", "inlet", "trunk")
    assert first["alone_flow_ml_s"] == pytest.approx(6)
    assert first["network_flow_ml_s"] == pytest.approx(5)
    assert first["vessel_systolic_mmhg"] == pytest.approx(120)
    assert second["vessel_diastolic_mmhg"] == pytest.approx(76)
    assert second["vessel_pressure_mmhg"] == pytest.approx(96)
    assert first["flow_difference"] == second["pressure_difference"] == 0


def test_checks_pass_where_both_sides_are_one():
    assert all(check["passed"] for check in coupling_checks(rows()))


@pytest.mark.parametrize(
    ("more", "name", "words"),
    [
        ({"in_vessel": 5.02}, "flow against the network", "opening in has 5.02 mL/s on average, the network 5 mL/s"),
        ({"pressure": 1.0}, "pressure against the network", "opening in has a mean pressure that is +133 Pa off"),
        (
            {"narrower": 0.3},
            "radius against the network",
            "has a radius of 1.4 mm, the network 2 mm there (trunk): choose another segment, or fit the network to the"
            " patient with coupling.edits, such as {widen: trunk, radius_factor: 0.70}",
        ),
    ],
)
def test_each_check_fails_for_its_own_difference_alone(more, name, words):
    failed = [check for check in coupling_checks(rows(**more)) if not check["passed"]]
    assert [check["name"] for check in failed] == [name]
    assert words in failed[0]["advice"]


def test_indices_get_rows_checks_and_warnings():
    found = with_network({"warnings": ["before"], "checks": [], "peak_speed_m_s": 1.0}, rows(in_vessel=5.02), "adan56")
    assert found["network"] == {"name": "adan56"}
    assert found["peak_speed_m_s"] == 1.0
    assert len(found["coupling"]) == 2
    assert len(found["checks"]) == 3
    assert len(found["warnings"]) == 2
