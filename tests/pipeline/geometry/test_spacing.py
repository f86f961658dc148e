# SPDX-License-Identifier: Apache-2.0
"""Which limit decides the spacing, what is said of it, and what the choice depends on."""

import json
import logging
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.case.case_file import Case
from pipeline.case.settings.base import parse
from pipeline.case.settings.geometry import VoxelizeSettings
from pipeline.files.mesh import write_openings
from pipeline.geometry.lattice.budget import Budget
from pipeline.geometry.lattice.node_arrays import decompose
from pipeline.geometry.lattice.spacing import (
    FlowScale,
    Narrowest,
    PeakSpeed,
    SpacingSettings,
    choose_spacing,
    resolving_spacing,
)
from pipeline.geometry.lattice.tagged_lattice import Lattice
from pipeline.stages import voxelize as module
from solver.backends.cost import Size
from solver.domain.sections import find_sections
from solver.run.units import pressure_drop_error
from solver.run.walltime import node_updates
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job
from solver.runtime.sources import ROOT
from tests.support.shapes import capped_cylinder, vessel
from tests.support.variants import some

MESH, OPENINGS = vessel([2.0, 2.0, 3.0], [0.0, 10.0, 20.0], (0, 0, 1), (0, 0, 0), 400)
NARROW = Narrowest(1.0, (0.0, 1.0, 2.0))


@cache
def sections():
    """Not before a test asks for it: it compiles for seconds, in every worker that collects the tests."""
    return find_sections(module.survey(MESH, OPENINGS))


def flow(flow_ml_s=1.0, **changes) -> PeakSpeed:
    return peak_of(FlowScale(viscosity_m2_s=3.3e-6, inlets={"*": {"flow_ml_s": flow_ml_s}}, **changes))


def peak_of(scale: FlowScale, openings=OPENINGS) -> PeakSpeed:
    return PeakSpeed.of(openings, scale, sections)


@pytest.mark.parametrize(
    ("wanted", "diameter", "words"),
    [
        ({"nodes_across": 12}, 2 * OPENINGS[0].radius_mm, "12 nodes across the inlet, inlet, radius 2 mm"),
        (
            {"nodes_across": 12, "across": "smallest-opening"},
            2 * OPENINGS[0].radius_mm,
            "the smallest opening, inlet, radius",
        ),
        (
            {"nodes_across": 12, "across": "narrowest-branch"},
            2.0,
            "12 nodes across the narrowest branch, radius 1 mm at (0.00, 1.00, 2.00)",
        ),
    ],
)
def test_nodes_are_counted_across_what_the_settings_name(wanted, diameter, words):
    chosen = choose_spacing(OPENINGS, VoxelizeSettings(**wanted), NARROW)
    assert chosen.spacing_mm == pytest.approx(diameter / 12, rel=1e-12)
    assert words in chosen.reason


def test_inlet_and_smallest_opening_differ():
    turned = (replace(OPENINGS[0], role="outlet"), replace(OPENINGS[1], role="inlet"))
    for across, radius in (("inlet", turned[1].radius_mm), ("smallest-opening", turned[0].radius_mm)):
        wanted = VoxelizeSettings(nodes_across=12, across=across)
        assert choose_spacing(turned, wanted).spacing_mm == pytest.approx(2 * radius / 12, rel=1e-12)


def test_given_spacing_is_kept():
    chosen = choose_spacing(OPENINGS, VoxelizeSettings(spacing_mm=0.3), NARROW, flow(100.0))
    assert (chosen.spacing_mm, chosen.reason) == (0.3, "as voxelize.spacing_mm says")


@pytest.mark.parametrize("wanted", [{"spacing_mm": 0.2}, {"nodes_across": 20}, {}])
def test_a_coarser_lattice_multiplies_whatever_is_chosen(wanted):
    plain = choose_spacing(OPENINGS, VoxelizeSettings(**wanted), NARROW, flow())
    coarser = choose_spacing(OPENINGS, VoxelizeSettings(**wanted), NARROW, flow(), coarser=1.5)
    assert coarser.spacing_mm == pytest.approx(1.5 * plain.spacing_mm, rel=1e-12)
    assert coarser.reason.startswith("1.5 times the ")
    assert plain.reason in coarser.reason


def test_a_coarser_lattice_that_an_opening_cannot_have_is_refused_with_the_section_that_asked(tmp_path):
    """6 nodes are wanted across; 12 / 2.25 are fewer."""
    MESH.write(tmp_path / "surface.vtp")
    write_openings(OPENINGS, tmp_path / "openings.json")
    inputs = {role: tmp_path / file for role, file in (("surface", "surface.vtp"), ("openings", "openings.json"))}
    outputs = {"lattice": tmp_path / "lattice.vti"}
    for coarser, reported in (
        (2.25, "has 5.3 nodes across.*2.25 times as coarse.*convergence.ratio"),
        (1.0, "set vox"),
    ):
        settings = {"spacing_mm": 4 / 12 if coarser > 1 else 4 / 5.3, "coarser": coarser}
        with pytest.raises(StageError, match=reported) as caught:
            module._compute(Job("voxelize", inputs, outputs, settings, logging.getLogger("test")))
        assert ("convergence" in str(caught.value)) == (coarser > 1)


def test_the_case_tells_the_factor_of_each_level_to_voxelize_alone():
    values = {
        "input": {"geometry": {"shape": "pipe", "diameter_mm": 4, "length_mm": 20, "ends": "openings"}},
        "convergence": {"spacings": 3, "ratio": 1.6},
        "solve": {"inlets": {"*": {"flow_ml_s": 2}}},
    }
    case = parse(Case, values, "a")
    reported = [json.loads(case.settings("voxelize", level)) for level in range(3)]
    assert [each.get("coarser", 1.0) for each in reported] == pytest.approx([1.0, 1.6, 2.56])
    assert "coarser" not in reported[0]
    for stage in ("decompose", "solve", "postprocess"):
        assert case.settings(stage, 2) == case.settings(stage)
    assert json.loads(case.settings("convergence")) == {"safety": None, "fit_nodes": 2.0}


def test_automatic_spacing_is_the_finer_of_diameter_and_grid_reynolds_number():
    """dx = min(D/20, 50 nu/U): by hand, at 3.3e-6 m2/s."""
    slow = choose_spacing(OPENINGS, VoxelizeSettings(), NARROW, flow())
    assert slow.spacing_mm == pytest.approx(2.0 / 20)
    assert slow.reason == "20 nodes across the narrowest branch, radius 1 mm at (0.00, 1.00, 2.00)"
    alone = choose_spacing(OPENINGS, VoxelizeSettings(), None, flow())
    assert alone.spacing_mm == pytest.approx(2 * OPENINGS[0].radius_mm / 20, rel=1e-12)
    assert "20 nodes across the smallest opening, inlet, radius 2 mm" in alone.reason
    wide = choose_spacing(OPENINGS, VoxelizeSettings(), Narrowest(2.5), flow())
    assert wide.spacing_mm == alone.spacing_mm
    speed = 2 * 50.0 / OPENINGS[0].area_mm2
    fast = choose_spacing(OPENINGS, VoxelizeSettings(), NARROW, flow(50.0))
    assert fast.spacing_mm == pytest.approx(50 * 3.3e-6 / speed * 1e3, rel=1e-12)
    assert fast.reason == f"grid Reynolds number 50 at the expected peak speed {speed:.3g} m/s"
    reported = choose_spacing(OPENINGS, VoxelizeSettings(), NARROW, flow(peak_speed_m_s=10.0))
    assert reported.spacing_mm == pytest.approx(50 * 3.3e-6 / 10 * 1e3, rel=1e-12)
    assert "solve.peak_speed_m_s 10 m/s" in reported.reason


def test_a_lattice_of_too_many_nodes_is_coarser_down_to_ten_across():
    """By hand: a vessel of 5000 mm3 and diameter 2 mm takes 5e6 nodes at D/20 = 0.1 mm, and 6.25e5 at D/10."""
    within = resolving_spacing(2.0, "the branch", None, 5000.0, 5e6)
    assert (within.spacing_mm, within.reason) == (0.1, "20 nodes across the branch")
    coarser = resolving_spacing(2.0, "the branch", None, 5000.0, 2e6)
    assert coarser.spacing_mm == pytest.approx(0.0025 ** (1 / 3))
    assert coarser.reason.startswith("0.1 mm (20 nodes across the branch) would take about 5e+06 fluid nodes, voxelize")
    least = resolving_spacing(2.0, "the branch", None, 5000.0, 1e5)
    assert least.spacing_mm == 0.2
    assert least.reason.startswith("10 nodes across the branch, the coarsest that is taken; 0.1 mm (20 nodes")
    fast = resolving_spacing(2.0, "the branch", PeakSpeed(5.0, "given", 3.3e-6), 5000.0, 1e5)
    assert fast.spacing_mm == pytest.approx(150 * 3.3e-6 / 5.0 * 1e3)
    assert fast.reason.startswith("grid Reynolds number 150 at given 5 m/s, the coarsest that is taken; 0.033 mm (grid")


def largest_grid_reynolds(diameter_mm: float, speed: float) -> float:
    """150, or what makes a pressure drop 10 % too large by 0.2 % Re_g (13/n)^2 with n nodes across, 300 at most."""
    across = diameter_mm / (1e3 * 150 * 3.3e-6 / speed)
    return float(np.clip(150 * (0.1 / (0.002 * 150 * (13 / across) ** 2)) ** (1 / 3), 150, 300))


@pytest.mark.parametrize(("across", "reynolds"), [(20, 150), (22, 150), (30, 181.62), (60, 288.31), (90, 300)])
def test_wide_vessels_take_a_larger_grid_reynolds_number_as_far_as_pressure_drops_allow(across, reynolds):
    """Nodes across at Re_g = 150; by hand, of 30: the error of 5.63 % grows to 10 % at 1.211 times the spacing."""
    peak = PeakSpeed(4.0, "the expected peak speed", 3.3e-6)
    diameter_mm = across * 1e3 * 150 * 3.3e-6 / 4.0
    assert largest_grid_reynolds(diameter_mm, 4.0) == pytest.approx(reynolds, abs=0.01)
    chosen = resolving_spacing(diameter_mm, "the branch", peak, 1e9, 4e6)
    assert chosen.spacing_mm == pytest.approx(1e3 * reynolds * 3.3e-6 / 4.0, rel=1e-4)
    grid_reynolds = 4.0 * 1e-3 * chosen.spacing_mm / 3.3e-6
    error = pressure_drop_error(grid_reynolds, diameter_mm / chosen.spacing_mm)
    assert reynolds in (150, 300) or error == pytest.approx(0.1, rel=1e-3)


@given(
    diameter_mm=st.floats(0.2, 40), speed=st.floats(1e-3, 20), volume_mm3=st.floats(1, 1e6), most=st.floats(1e4, 1e9)
)
def test_of_all_vessels_the_lattice_is_as_fine_as_wanted_or_has_as_many_nodes_as_wanted(
    diameter_mm, speed, volume_mm3, most
):
    """It lies between the wanted and the coarsest; strictly between them only with just the nodes that are wanted."""
    wanted, coarsest = (
        min(diameter_mm / across, 1e3 * reynolds * 3.3e-6 / speed)
        for across, reynolds in ((20, 50), (10, largest_grid_reynolds(diameter_mm, speed)))
    )
    peak = PeakSpeed(speed, "given", 3.3e-6)
    spacing_mm = resolving_spacing(diameter_mm, "the branch", peak, volume_mm3, most).spacing_mm
    assert wanted * (1 - 1e-12) <= spacing_mm <= coarsest * (1 + 1e-12)
    count = volume_mm3 / spacing_mm**3
    if spacing_mm > wanted * (1 + 1e-9):
        assert count == pytest.approx(most) or spacing_mm == pytest.approx(coarsest)
        assert volume_mm3 / wanted**3 > most
    if count > most * (1 + 1e-9):
        assert spacing_mm == pytest.approx(coarsest)


def test_peak_of_a_waveform_counts(tmp_path):
    wave = tmp_path / "wave.csv"
    wave.write_text("time_s,flow_ml_s\n0,1\n0.2,100\n1,1\n")
    pulsed = FlowScale(viscosity_m2_s=3.3e-6, inlets={"inlet": {"waveform": str(wave), "interpolation": "linear"}})
    peak = choose_spacing(OPENINGS, VoxelizeSettings(), None, peak_of(pulsed))
    assert peak == choose_spacing(OPENINGS, VoxelizeSettings(), None, flow(100.0))
    curved = FlowScale(viscosity_m2_s=3.3e-6, inlets={"inlet": {"waveform": str(wave)}})
    # the spline through these three rises above the highest
    assert choose_spacing(OPENINGS, VoxelizeSettings(), None, peak_of(curved)).spacing_mm < peak.spacing_mm


@pytest.mark.parametrize(
    ("openings", "wanted", "narrowest", "scale", "message"),
    [
        (OPENINGS, {"nodes_across": 12, "across": "narrowest-branch"}, None, None, "no centreline is there to tell it"),
        (OPENINGS[1:], {"nodes_across": 12}, None, None, "no opening is an inlet.*give voxelize.spacing_mm"),
        (
            OPENINGS,
            {"spacing_mm": 0.8},
            None,
            None,
            r"opening inlet \(radius 2 mm\) has 5.0 nodes across at a spacing of 0.8 mm; .* \{spacing_mm: 0.666,",
        ),
    ],
)
def test_choice_that_cannot_be_made_is_refused_with_the_remedy(openings, wanted, narrowest, scale, message):
    with pytest.raises(StageError, match=message):
        choose_spacing(openings, VoxelizeSettings(**wanted), narrowest, scale)
    with pytest.raises(StageError, match="the vessel has no inlet"):
        peak_of(FlowScale(viscosity_m2_s=3.3e-6, inlets={"*": {"flow_ml_s": 1.0}}), OPENINGS[1:])


def test_expected_lattice_is_the_real_one():
    """Fluid nodes to the scatter of counting. Wall links are counted for all directions of a wall alike; those of one
    direction are up to 12 % off: a wall along an axis is crossed by 1 + 4 = 5 links of 5.74 per dx^2.
    """
    mesh, openings = capped_cylinder((1, 2, 3), 2.0, 10.0, segments=200, rings=1)
    lattice, figures = module.voxelize(mesh, openings, VoxelizeSettings(spacing_mm=0.2))
    nodes, _ = decompose(lattice, mesh, openings)
    expected = Budget.of(mesh).cost(0.2).record
    assert expected["expected_fluid_nodes"] == pytest.approx(figures["fluid_nodes"], rel=0.01)
    real = Size.of_nodes(nodes).device_bytes("fp64")
    assert expected["expected_solver_gb"]["fp64"] * 1e9 == pytest.approx(real, rel=0.03)


def test_lattice_that_the_device_cannot_hold_is_refused_with_a_spacing_that_fits():
    need = Budget.of(MESH).cost(0.1).size.device_bytes("fp64") / 1e9
    assert not Budget.of(MESH, memory_gb=1.001 * need, precision="fp64").excess(0.1)
    budget = Budget.of(MESH, memory_gb=0.5 * need, precision="fp64")
    with pytest.raises(StageError, match=r"for the solver in fp64, where voxelize.memory_gb is .*set 0\.12") as caught:
        budget.require(0.1, lambda fitting: f"set {fitting}")
    fitting = float(str(caught.value).split("set ")[1])
    assert 0.12 < fitting < 0.13  # about 0.1 * 2^(1/3)
    assert not budget.excess(fitting)
    assert budget.excess(0.99 * fitting)


def case(**sections) -> Case:
    values = {"input": {"phantom": str(ROOT / "data/phantoms/tiny.yaml")}, "solve": {"inlets": {"*": {"flow_ml_s": 2}}}}
    for name, section in sections.items():
        values[name] = values.get(name, {}) | section
    return parse(Case, values, "case.yaml")


def test_settings_of_the_flow_reach_the_stage_only_where_it_depends_on_them(tmp_path):
    wave = tmp_path / "wave.csv"
    wave.write_text("time_s,flow_ml_s\n0,1\n0.2,2\n1,1\n")
    pulsed = {"inlets": {"*": {"waveform": str(wave)}}}
    thick = {"viscosity_pa_s": 4e-3}
    for fixed in ({"spacing_mm": 0.2}, {"nodes_across": 20}):
        one = case(voxelize=fixed)
        assert one.settings("voxelize") == case(voxelize=fixed, solve=thick | pulsed).settings("voxelize")
        assert case(voxelize=fixed, solve=pulsed).waveform_files("voxelize") == []
    chosen = case()
    assert chosen.settings("voxelize") != case(solve=thick).settings("voxelize")
    assert chosen.settings("voxelize") == case(solve={"precision": "fp64", "cycles": 5}).settings("voxelize")
    assert case(solve=pulsed).waveform_files("voxelize") == [str(wave)] == case(solve=pulsed).waveform_files("solve")
    pressure = tmp_path / "pressure.csv"
    pressure.write_text("time_s,pressure_mmhg\n0,80\n0.2,120\n1,80\n")
    behind = case(solve={"outlets": {"*": {"waveform": str(pressure)}}})
    assert behind.waveform_files("solve") == behind.waveform_files("voxelize") == [str(pressure)]  # shares the flow
    # how the curve runs between samples moves its peak, and so the spacing; of a steady flow it does not matter
    assert case(solve=pulsed).settings("voxelize") != case(
        solve={"inlets": {"*": {"waveform": str(wave), "interpolation": "linear"}}}
    ).settings("voxelize")
    assert chosen.settings("voxelize") == case(solve={"inlets": {"*": {"flow_ml_s": 2, "profile": "plug"}}}).settings(
        "voxelize"
    )
    reported = {"peak_speed_m_s": 1.0}
    assert case(solve=reported).settings("voxelize") == case(solve=reported | pulsed).settings("voxelize")
    assert case(solve=reported | pulsed).waveform_files("voxelize") == []
    limited = {"spacing_mm": 0.2, "memory_gb": 8}
    assert case(voxelize=limited).settings("voxelize") != case(voxelize=limited, solve={"precision": "fp64"}).settings(
        "voxelize"
    )
    for each in (chosen, case(solve=reported), case(voxelize=limited), case(solve=pulsed)):
        parse(SpacingSettings, json.loads(each.settings("voxelize")), "--settings")


def run(folder: Path, caplog, settings, centreline=None) -> dict:
    """The stage on files; its facts."""
    MESH.write(folder / "surface.vtp")
    (folder / "openings.json").write_text(json.dumps({"openings": [vars(o) for o in OPENINGS]}))
    inputs = {"surface": folder / "surface.vtp", "openings": folder / "openings.json"}
    if centreline is not None:
        (folder / "centreline.json").write_text(centreline)
        inputs["centreline"] = folder / "centreline.json"
    job = Job("voxelize", inputs, {"lattice": folder / "lattice.vti"}, settings, logging.getLogger("test_spacing"))
    with caplog.at_level(logging.INFO, "test_spacing"):
        module._compute(job)
    return job.facts


def test_stage_tells_the_choice_and_the_forecast(tmp_path, caplog):
    facts = run(tmp_path, caplog, {"spacing_mm": 0.4})
    assert "spacing 0.4 mm: as voxelize.spacing_mm says" in caplog.text
    assert "no centreline is given" in caplog.text
    assert f"forecast: about {facts['expected_fluid_nodes']} fluid nodes" in caplog.text
    assert facts["fluid_nodes"] == pytest.approx(facts["expected_fluid_nodes"], rel=0.02)
    assert "nodes_across_narrowest_branch" not in facts
    caplog.clear()
    reported = json.dumps(
        {
            "narrowest_radius_mm": 1.0,
            "narrowest_place_mm": [0.0, 1.0, 2.0],
            "branches": [
                {
                    "branch": 1,
                    "from": "inlet",
                    "to": "outlet",
                    "leads_to_opening": True,
                    "length_mm": 20.0,
                    "min_radius_mm": 1.0,
                    "min_x_mm": 0.0,
                    "min_y_mm": 1.0,
                    "min_z_mm": 2.0,
                }
            ],
        }
    )
    facts = run(tmp_path, caplog, {"spacing_mm": 0.4}, reported)
    assert "only 5.0 nodes across branch 1 (inlet to outlet, radius 1 mm at (0.00, 1.00, 2.00))" in caplog.text
    assert "at most 0.333" in caplog.text
    assert facts["nodes_across_narrowest_branch"] == pytest.approx(5.0)
    caplog.clear()
    facts = run(tmp_path, caplog, {"nodes_across": 10, "across": "narrowest-branch"}, reported)
    assert facts["spacing_mm"] == pytest.approx(0.2)
    assert facts["spacing_decided_by"].startswith("10 nodes across the narrowest branch")
    assert "at least 6" not in caplog.text


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"narrowest_radius_mm": null}'])
def test_centreline_without_a_radius_is_refused(tmp_path, caplog, text):
    with pytest.raises(StageError, match="run centreline again"):
        run(tmp_path, caplog, {"nodes_across": 10}, text)


def test_narrowest_radius_reads_what_the_stage_writes(tmp_path):
    np.testing.assert_allclose(NARROW.across(0.1), 20)
    (tmp_path / "c.json").write_text('{"narrowest_radius_mm": 1.0, "narrowest_place_mm": [0, 1, 2], "loops": 0}')
    assert Narrowest.read(tmp_path / "c.json") == NARROW


def test_settings_of_the_run_reach_the_stage_only_where_updates_are_counted(tmp_path):
    wave = tmp_path / "wave.csv"
    wave.write_text("time_s,flow_ml_s\n0,1\n0.2,2\n1,1\n")
    counted = {"most_updates": 1e9}
    longer = {"cycles": 9}
    assert case(voxelize=counted).settings("voxelize") != case(voxelize=counted, solve=longer).settings("voxelize")
    fixed = counted | {"spacing_mm": 0.2}
    assert case(voxelize=fixed).settings("voxelize") == case(voxelize=fixed, solve=longer).settings("voxelize")
    given = {"peak_speed_m_s": 1.0, "inlets": {"*": {"waveform": str(wave)}}}
    assert case(voxelize=counted, solve=given).waveform_files("voxelize") == [str(wave)]
    parse(SpacingSettings, json.loads(case(voxelize=counted, solve=given).settings("voxelize")), "--settings")


@pytest.mark.parametrize("flow_ml_s", some([0.5, 6.0], 0.5))
def test_updates_choose_the_spacing_and_are_those_of_its_plan(tmp_path, caplog, flow_ml_s):
    """Within a factor 1.5: a cycle more or less of settling, and sections of a lattice of 8 nodes across."""
    wave = tmp_path / "wave.csv"
    wave.write_text("time_s,flow_ml_s\n0,1\n0.2,2\n0.5,1\n0.8,1\n")
    solve = {"inlets": {"*": {"waveform": str(wave), "flow_ml_s": flow_ml_s}}}

    def chosen(**voxelize) -> float:
        caplog.clear()
        settings = json.loads(case(voxelize=voxelize, solve=solve).settings("voxelize"))
        return run(tmp_path, caplog, settings)["spacing_mm"]

    def planned() -> float:
        lattice = Lattice.read(tmp_path / "lattice.vti")
        nodes, _ = decompose(lattice, MESH, OPENINGS, corners=False)
        return node_updates(nodes, json.loads(case(solve=solve).settings("solve")))

    free_mm, free = chosen(), planned()
    assert chosen(most_updates=2 * free) == free_mm
    most = free / 5
    coarser_mm = chosen(most_updates=most)
    assert "would take about" in caplog.text
    assert coarser_mm == chosen(most_updates=most)
    assert planned() == pytest.approx(most, rel=0.5)
    assert coarser_mm == pytest.approx(5**0.25 * free_mm, rel=0.1)
    with pytest.raises(StageError, match="the coarsest that is fit for use") as refused:
        chosen(most_updates=free / 100)
    advised = float(re.search(r"Set voxelize.most_updates: (\S+),", str(refused.value))[1])
    assert coarser_mm < chosen(most_updates=advised) <= 4.0 / 10 * 1.001
    spacing = float(re.search(r"set voxelize.spacing_mm: (\S+),", str(refused.value))[1])
    assert spacing > chosen(most_updates=advised)
