# SPDX-License-Identifier: Apache-2.0
"""The baseline benchmark: which programs it compares and that they agree. Never how fast anything is."""

import logging
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from pipeline.case.case_file import Case
from solver.domain.nodes import Nodes
from solver.run.settings import parse
from solver.runtime.errors import StageError
from tests.support.geometries import nodes_from
from validation import baseline_benchmark as benchmark_module
from validation.baseline_benchmark import run_benchmark
from validation.evidence import Evidence
from validation.studies import speed
from validation.studies.pictures import block

SETTINGS = {
    "density_kg_m3": 1000,
    "viscosity_pa_s": 1e-3,
    "patches": {"lid": {"velocity_m_s": [0.01, 0, 0]}},
    "collision": "trt",  # which other tests have compiled
    "lattice_speed": 0.05,
}


def cavity(side: int) -> Nodes:
    """A closed cube, its upper wall a lid."""
    nodes = nodes_from(np.ones((side,) * 3, bool), lambda p, c: (np.full(len(p), 0.5), np.zeros(len(p), int)))
    z = nodes.wall_position[nodes.wall_link_wall][:, 2]
    return replace(nodes, wall_link_patch=(z > side).astype(np.int8), patches=("lid",))


def settings(**more):
    case = Case.model_validate(
        {"input": {"geometry": {"shape": "cavity", "length_mm": 8, "width_mm": 8}}, "solve": SETTINGS | more}
    )
    return parse(case.solve.model_dump(mode="json"))


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(benchmark_module, "REPEATS", 1)
    monkeypatch.setattr(benchmark_module, "SECONDS", 1e-4)
    monkeypatch.setattr(benchmark_module, "AGREED_STEPS", 20)


@pytest.mark.slow
@pytest.mark.usefixtures("all_threads")
def test_baseline_benchmark_compares_all_programs_and_times_their_passes(short):
    found = run_benchmark(cavity(8), settings(), logging.getLogger())
    names = [entry["name"] for entry in found["entries"]]
    assert names[:2] == ["four passes, 1 thread", "HemoLattice, 1 thread"]
    assert (found["fluid_nodes"], found["wall_nodes"]) == (8**3, 10**3 - 8**3 - 8)  # without corners
    for entry in found["entries"]:
        assert entry["seconds"] == pytest.approx(3000 * entry["step_s"])
        assert ("passes_s" in entry) == (entry["program"] == "four passes")
    assert list(found["entries"][0]["passes_s"]) == ["collision", "walls", "streaming", "macroscopic"]
    agreement = found["agreement"]
    assert set(agreement["round_off"]) == set(names[1:])
    assert max(agreement["round_off"].values()) < speed.round_off(20)
    assert 0 < agreement["walls"] < 0.5  # another scheme, but the same flow
    assert agreement["largest_speed"] > 0.01


def test_baseline_benchmark_refuses_walls_along_which_fluid_slips(short):
    slips = {"lid": {"velocity_m_s": [0.01, 0, 0]}, "walls": {"slip": True}}
    nodes = replace(cavity(8), patches=("lid", "walls"))
    with pytest.raises(StageError, match="fluid slips there"):
        run_benchmark(nodes, settings(patches=slips), logging.getLogger())


def test_block_has_the_faces_of_a_cube_and_encloses_its_nodes():
    z, y, x = np.indices((2, 3, 4)).reshape(3, -1)
    position = np.column_stack((x, y, z)).astype(np.int32)
    mesh, owner = block(position)
    assert len(mesh.triangles) == 2 * 2 * (2 * 3 + 3 * 4 + 2 * 4)
    assert mesh.volume_mm3() == pytest.approx(2 * 3 * 4)  # outward: positive
    assert np.abs(mesh.points_mm - position[owner]).max() == 0.5


def raced(fluid: int, wall: int, off: float) -> SimpleNamespace:
    passes = dict.fromkeys(("collision", "walls", "streaming", "macroscopic"), 1.0)
    slow = {"name": "four passes, 1 thread", "program": "four passes", "threads": 1, "seconds": 8.0, "updates_s": 1e6}
    fast = {"name": "HemoLattice, 1 thread", "program": "HemoLattice", "threads": 1, "seconds": 2.0, "updates_s": 4e6}
    agreement = {"steps": 200, "round_off": {fast["name"]: off}, "walls": 0.01}
    found = {
        "fluid_nodes": fluid,
        "wall_nodes": wall,
        "entries": [slow | {"passes_s": passes}, fast],
        "agreement": agreement,
        "hardware": {},
    }
    return SimpleNamespace(speed=found)


@pytest.mark.parametrize(("wall", "off", "reached"), [(728, 0.0, [True] * 3), (727, 1e-3, [False, False, True])])
def test_measure_holds_numbers_of_nodes_and_agreement(monkeypatch, wall, off, reached):
    monkeypatch.setattr(speed, "draw_flow", lambda evidence, run: None)
    evidence = Evidence("x", "x", "x")
    runs = {"12": raced(1000, wall, off), "22": raced(8000, 2648, 0.0)}
    speed.measure(evidence, runs, speed.Options(reference="collares2012_cavity", walls=0.5))
    assert [goal.met for goal in evidence.goals] == reached
    assert evidence.tables[2]["rows"][0][-2:] == [1.0, 4.0]  # speed-up over the four passes
