# SPDX-License-Identifier: Apache-2.0
"""What the study of forks measures, on made-up flows with known answers."""

from types import SimpleNamespace

import numpy as np
import pytest

from pipeline.case.shapes import Bifurcation, Pipe
from solver.boundary.windkessel import PASCAL_PER_MMHG
from solver.runtime.errors import StageError
from tests.support.geometries import bifurcation as fork_nodes
from tests.support.made_up_vessels import DENSITY, VISCOSITY, made_up, moved, poiseuille
from tests.support.swept import forked
from validation.evidence import Evidence
from validation.studies import bifurcation
from validation.studies.bifurcation import Fork

SPACING_MM, RADII, ANGLES, LONG = 0.3, (6.0, 5.1, 4.4), (40.0, 50.0), 8.0
"""Radii of parent and daughters in spacings, and the length of each branch in its radii."""
NAMES = ("in", "left", "right")
FLOWS = {"in": 0.1, "left": 0.06, "right": 0.04}


def shape() -> Bifurcation:
    diameters = [2 * radius * SPACING_MM for radius in RADII]
    daughters = [
        {"name": name, "diameter_mm": diameter, "length_mm": LONG / 2 * diameter, "angle_deg": angle}
        for name, diameter, angle in zip(NAMES[1:], diameters[1:], ANGLES, strict=True)
    ]
    return Bifurcation(
        shape="bifurcation",
        diameter_mm=diameters[0],
        length_mm=LONG / 2 * diameters[0],
        direction=(1, 2, 3),
        daughters=daughters,
    )


@pytest.fixture(scope="module")
def fork():
    """Nodes and surface, the axes meeting in the origin."""
    daughters = tuple(zip(RADII[1:], (ANGLES[0], -ANGLES[1]), strict=True))
    nodes = fork_nodes(RADII[0], daughters, LONG, shape().turn, SPACING_MM)
    nodes = moved(nodes, -SPACING_MM * np.array([0.3, 0.2, 0.4]))
    tubes = [(o.name, o.role, np.array(o.centre_mm), o.radius_mm) for o in nodes.openings]
    return nodes, forked(tubes, 0.8 * SPACING_MM)[0]


def run_of(fork, name: str = "symmetric-12", rubs: dict[str, float] | None = None, geometry=None, **more):
    """Developed flow in each branch, up to the planes half-way between their axes; `rubs`: by how much more it rubs."""
    nodes, surface = fork
    points = nodes.points_mm()
    towards = np.array([o.normal for o in nodes.openings])
    nearest = np.argmax(points @ towards.T, axis=1)
    velocity, stress = np.zeros((nodes.count, 3)), np.zeros((nodes.count, 6))
    for k, (opening, flow) in enumerate(zip(nodes.openings, FLOWS.values(), strict=True)):
        axis = towards[k] * (1 if opening.role == "outlet" else -1)
        own = nearest == k
        velocity[own], _, tensor = poiseuille(points[own], axis, opening.radius_mm, flow)
        stress[own] = (rubs or {}).get(opening.name, 1.0) * tensor
    return made_up(
        name,
        nodes,
        surface,
        geometry or shape(),
        FLOWS,
        velocity_m_s=velocity,
        pressure_pa=np.zeros(nodes.count),
        viscous_stress_pa=stress,
        **more,
    )


def test_stress_along_a_branch_is_reported_over_that_of_its_own_developed_flow(fork):
    """The fit carries the linear stress exactly; a grid's surface has normals to a few degrees."""
    found = Fork(run_of(fork, rubs={"left": 1.2}))
    for opening, wanted in zip(found.openings, (1.0, 1.2, 1.0), strict=True):
        assert found.shear_ratio(opening, *found.developed(opening)) == pytest.approx(wanted, rel=1e-2)
        assert np.isnan(found.shear_ratio(opening, 9.0, 10.0))
    left = found.openings[1]
    assert found.shear_wanted_pa(left) == pytest.approx(4 * VISCOSITY * 0.06e-6 / (np.pi * (5.1 * 0.3e-3) ** 3))


def test_daughters_are_developed_behind_their_entrance_and_the_parent_before_the_fork(fork):
    """At vanishing flow 0.619 diameters behind the one that the fork takes, at large flow 0.0567 Re."""
    found = Fork(run_of(fork))
    parent, left, _ = found.openings
    assert found.developed(parent) == pytest.approx((1.0, LONG / 2 - 0.5))
    for flow, wanted in ((1e-9, 0.619), (50.0, None)):
        found.run.summary["openings"]["left"]["flow_ml_s"] = flow
        reynolds = 4e-6 * flow * DENSITY / (np.pi * 2e-3 * left.radius_mm * VISCOSITY)
        wanted = wanted or 0.0567 * reynolds
        assert found.developed(left)[0] - 1 == pytest.approx(wanted, rel=1e-3)


def test_splits_that_are_set_are_given_or_follow_murray(fork):
    assert Fork(run_of(fork)).part_set is None
    for fraction, wanted in ((0.4, 0.4), ("murray", 5.1**3 / (5.1**3 + 4.4**3))):
        outlets = {"left": SimpleNamespace(flow_fraction=fraction), "right": SimpleNamespace(flow_fraction=None)}
        assert Fork(run_of(fork, outlets=outlets)).part_set == pytest.approx(wanted, rel=1e-9)


def windkessels(fork, name: str, part: float):
    """Resistances 50 and 80 mmHg s/mL; what stands at the second outlet is a tenth too much."""
    left = {"proximal_mmhg_s_ml": 5.0, "distal_mmhg_s_ml": 45.0, "distal_pressure_mmhg": 1.0}
    right = {"proximal_mmhg_s_ml": 0.0, "distal_mmhg_s_ml": 80.0, "distal_pressure_mmhg": 0.0}
    openings = {
        "left": {"imposed": left, "pressure_pa": 4.0 * PASCAL_PER_MMHG},
        "right": {"imposed": right, "pressure_pa": 1.1 * 3.2 * PASCAL_PER_MMHG},
    }
    outlets = {"left": SimpleNamespace(flow_fraction=part), "right": SimpleNamespace(flow_fraction=None)}
    return run_of(fork, name, outlets=outlets, openings=openings)


def test_measure_asks_for_what_was_put_in(fork, tmp_path):
    runs = [run_of(fork), windkessels(fork, "given-12", 0.55), run_of(fork, "free-12")]
    evidence = Evidence("made-up", "made up", "formulas")
    bifurcation.measure(evidence, {run.name: run for run in runs}, bifurcation.Options(nodes=12))
    found = {goal.what: goal for goal in evidence.goals}
    assert found["symmetric-12: asymmetry of the flow"].reached == pytest.approx(0.2)
    assert found["given-12: flow lost"].reached == pytest.approx(0, abs=1e-12)
    assert found["given-12: part of the flow that is off"].reached == pytest.approx(0.05)
    assert found["given-12: deviation of the outlets' pressures from their Windkessels'"].reached == pytest.approx(0.1)
    shear = found["symmetric-12: deviation of the wall shear stress, right"]
    assert shear.reached < 1e-2
    assert shear.wanted == pytest.approx(0.022 * 21 / 8.8)  # 8.8 nodes across that branch
    assert "symmetric-12: momentum missing, over the force on the wall" in found
    assert not [what for what in found if what.startswith("free-12") and "lost" not in what]
    _, splits, stresses = (table["rows"] for table in evidence.tables)
    assert splits[1][:2] == ["free-12", pytest.approx(0.6)]
    assert [row[2] for row in stresses[:3]] == pytest.approx([*FLOWS.values()])
    evidence.keep(tmp_path / "record.json", tmp_path / "fork", "studies", made={})
    assert {file.name for file in tmp_path.glob("*.png")} == {"fork.png", "fork-2.png"}


def test_lattices_that_are_too_coarse_are_asked_for_the_flow_alone(fork):
    evidence = Evidence("made-up", "made up", "formulas")
    bifurcation.measure(evidence, {"symmetric-12": run_of(fork)}, bifurcation.Options(nodes=20))
    assert [goal.what for goal in evidence.goals] == ["symmetric-12: flow lost"]


def test_run_that_is_no_fork_is_refused(fork):
    run = run_of(fork, geometry=Pipe(shape="pipe", diameter_mm=1, length_mm=1))
    with pytest.raises(StageError, match="run symmetric-12: its geometry is no bifurcation"):
        _ = Fork(run).shape
