# SPDX-License-Identifier: Apache-2.0
"""Whatever stands in a network's file, it is a network that the solver takes, or is refused with one line a mistake."""

import copy
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.case.settings.base import MAX_LINE
from pipeline.network.for_solver import for_solver
from pipeline.network.reading import sound_network
from pipeline.network.summary import summary
from solver.runtime.errors import StageError

BASE: dict[str, Any] = {
    "description": "a tree",
    "sources": {"all": "made up"},
    "blood": {"density_kg_m3": 1060, "viscosity_pa_s": 0.004},
    "period_s": 1.0,
    "junctions": "total",
    "initial_pressure_mmhg": 75,
    "accept": ["radius"],
    "defaults": {"youngs_modulus_kpa": 400, "thickness_mm": "empirical-law", "external_pressure_kpa": 10},
    "segments": {
        "trunk": {"nodes": ["heart", "fork"], "length_mm": 100, "radius_mm": [6, 5]},
        "left": {"nodes": ["fork", "l"], "length_mm": 80, "radius_mm": [4, 3, 3.5], "wall": "kelvin-voigt",
                 "viscosity_kpa_s": 2},
        "right": {"nodes": ["fork", "r"], "length_mm": 60, "radius_mm": 3, "wave_speed_m_s": [6, 7]},
    },
    "inlets": {"heart": {"heart": {"period_s": 1.0, "least_mmhg_ml": 0.06}}},
    "terminals": {
        "l": {"type": "rcr", "proximal_mmhg_s_ml": 2, "distal_mmhg_s_ml": 18, "compliance_ml_mmhg": 0.01},
        "*": {"type": "by-area", "resistance_mmhg_s_ml": 2, "compliance_ml_mmhg": 0.1, "power": 1.0},
    },
    "groups": {"branches": ["left", "r*"]},
    "edits": [
        {"stiffen": "branches", "factor": 1.2},
        {"narrow": "left", "area_percent": 50, "length_mm": 10, "at": 0.5},
        {"widen": "trunk", "radius_factor": 1.2, "length_mm": 20},
        {"terminal": "right", "resistance_factor": 2},
    ],
}  # fmt: skip

WORDS = ("left", "trunk", "fork", "heart", "l", "*", "r?", "x" * 70, "elastic", "rcr")
JUNK = st.one_of(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=8),
    st.sampled_from([0, -1, 1e300, 1e-300, 5]),
    st.sampled_from(WORDS),
    st.sampled_from([[], {}, [1, 2], ["fork", "l"], {"a": 1}]),
)


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of all values below one."""
    below = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path] * bool(path) + [each for key, value in below for each in places(value, (*path, key))]


PLACES = places(BASE)


def mutated(path: tuple[Any, ...], value: Any, how: str) -> dict[str, Any]:
    sections = copy.deepcopy(BASE)
    node = sections
    for key in path[:-1]:
        node = node[key]
    if how == "drop":
        del node[path[-1]]
    elif how == "add" and isinstance(node, dict):
        node["radius_m" if value is None else str(value)[:20] or "x"] = value
    else:
        node[path[-1]] = value
    return sections


def test_the_network_that_is_mutated_is_sound(tmp_path):
    (tmp_path / "net.yaml").write_text(yaml.safe_dump(BASE, sort_keys=False))
    network = sound_network(tmp_path / "net.yaml")
    assert summary(network).segments == 7


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(PLACES), JUNK, st.sampled_from(["set", "set", "drop", "add"]))
def test_a_mutated_network_is_one_or_is_refused_in_lines(tmp_path, path, value, how):
    file = tmp_path / "net.yaml"
    file.write_text(yaml.safe_dump(mutated(path, value, how), sort_keys=False, allow_unicode=True), encoding="utf-8")
    try:
        network = sound_network(file)
        stated = for_solver(network)
        summary(network)
    except StageError as error:
        lines = str(error).split("\n")
        assert all(line.startswith((str(file), "network: periods differ")) for line in lines), lines
        assert all(line.isprintable() and len(line) <= MAX_LINE for line in lines), lines
        return
    assert stated.segments


@pytest.mark.parametrize("text", ["", "[]", "segments: {}", "a: [", "segments: 5", "!!python/object:os.system {}"])
def test_what_is_no_mapping_of_sections_is_refused(tmp_path, text):
    (tmp_path / "net.yaml").write_text(text)
    with pytest.raises(StageError):
        sound_network(tmp_path / "net.yaml")
