# SPDX-License-Identifier: Apache-2.0
"""What no patient has is refused with the slip behind it, and what is unusual fails a check; no shipped case does."""

import json
import logging
import re
from dataclasses import replace
from math import pi
from typing import get_args

import numpy as np
import pytest
import yaml

from pipeline.case.case_file import Case, read_cohort
from pipeline.case.physiology import (
    DENSITY_SLIPS,
    LENGTH_SLIPS,
    LIMITS,
    TIME_SLIPS,
    VISCOSITY_SLIPS,
    Given,
    Quantity,
    Vessel,
)
from pipeline.case.range_checks import Found, checks, of_blood, of_run, refusals, with_limits
from pipeline.case.settings.base import parse
from pipeline.reporting.trust_rows import check_shown
from pipeline.stages.plausibility import PlausibilityInput, _compute, check, of_branches, of_inlets, plausibility
from solver.domain.nodes import Opening
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job
from solver.runtime.sources import ROOT

TINY = {"input": {"phantom": str(ROOT / "data/phantoms/tiny.yaml")}, "solve": {"inlets": {"*": {"flow_ml_s": 2}}}}
QUANTITIES = get_args(Quantity)


def inlet(radius_mm: float) -> Opening:
    return Opening(1, "in", "inlet", (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), pi * radius_mm**2, radius_mm)


def judged(**more) -> PlausibilityInput:
    """A case of usual blood that enters with a surface."""
    usual = {"entry": "surface", "viscosity_pa_s": 3.5e-3, "density_kg_m3": 1060, "inlets": {"*": {"flow_ml_s": 2}}}
    return parse(PlausibilityInput, usual | more, "case")


def found(quantity: Quantity, value: float, slips=()) -> Found:
    return Found(quantity, value, Given("key", value, LIMITS[quantity].unit, slips))


@pytest.mark.parametrize("vessel", [None, *get_args(Vessel)])
@pytest.mark.parametrize("quantity", QUANTITIES)
def test_both_ranges_of_every_quantity_are_kept_at_both_ends(quantity, vessel):
    ranges = LIMITS[quantity].of(vessel)
    assert ranges.wide[0] <= ranges.usual[0] < ranges.usual[1] <= ranges.wide[1]
    assert "doi:" in ranges.source
    for k, outwards in enumerate((0.99, 1.01)):
        for bounds, refused in ((ranges.wide, True), (ranges.usual, False)):
            if not bounds[k]:
                continue
            beyond, within = found(quantity, bounds[k] * outwards), found(quantity, bounds[k])
            assert bool(refusals([beyond], vessel, ())) == (refused or ranges.wide == ranges.usual)
            assert not refusals([within], vessel, ())
            assert refusals([beyond], vessel, (quantity,)) == []
            (check,) = checks([beyond], vessel)
            assert not check["passed"]
            assert check["limit"] == ranges.usual[k]
            assert ranges.source in check["advice"]
            if refused:
                assert "The case accepts it" in check["advice"]
            else:
                assert checks([within], vessel)[0]["passed"]


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_nothing_and_less_are_judged_too(value):
    assert refusals([found("wall_shear_stress", value)], None, ())
    assert checks([found("wall_shear_stress", value)], None)[0]["limit"] == LIMITS["wall_shear_stress"].default.usual[0]
    assert bool(refusals([found("pressure_drop", value)], None, ())) == (value < 0)


SLIPS = [
    ("viscosity", 3.5, VISCOSITY_SLIPS, "did you mean 3.5 mPa s = 0.0035 Pa s?"),
    ("viscosity", 0.035, VISCOSITY_SLIPS, "did you mean 0.035 P = 0.0035 Pa s?"),
    ("viscosity", 0.35, VISCOSITY_SLIPS, "did you mean 0.0035 Pa s? It is 100 times too large."),
    ("viscosity", 3500, VISCOSITY_SLIPS, "did you mean 3500 uPa s = 0.0035 Pa s?"),
    ("viscosity", 3.3e-6, VISCOSITY_SLIPS, "3.3e-06 m2/s, of the kinematic viscosity, = 0.003498 Pa s?"),
    ("viscosity", 3.5e-4, VISCOSITY_SLIPS, "did you mean 0.0035 Pa s? It is 10 times too small."),
    ("density", 1.06, DENSITY_SLIPS, "did you mean 1.06 g/cm3 = 1060 kg/m3?"),
    ("density", 1.06e6, DENSITY_SLIPS, "did you mean 1.06e+06 g/m3 = 1060 kg/m3?"),
    ("density", 1.06e-3, DENSITY_SLIPS, "did you mean 0.00106 g/mm3 = 1060 kg/m3?"),
    ("density", 106, DENSITY_SLIPS, "did you mean 1060 kg/m3? It is 10 times too small."),
    ("density", 106000, DENSITY_SLIPS, "did you mean 1060 kg/m3? It is 100 times too large."),
    ("inlet_radius", 0.05, LENGTH_SLIPS, "did you mean 0.05 cm = 0.5 mm?"),
    ("inlet_radius", 2e-3, LENGTH_SLIPS, "did you mean 0.002 m = 2 mm?"),
    ("inlet_radius", 2000, LENGTH_SLIPS, "did you mean 2000 um = 2 mm?"),
    ("inlet_radius", 0.09, (), "check key."),
]


@pytest.mark.parametrize(("quantity", "value", "slips", "said"), SLIPS, ids=[f"{s[0]}={s[1]:g}" for s in SLIPS])
def test_a_slip_of_units_is_named_with_the_corrected_value(quantity, value, slips, said):
    (line,) = refusals([found(quantity, value, slips)], None, ())
    limits = LIMITS[quantity]
    for part in (said, f"{value:.4g} {limits.unit}", limits.in_words(limits.default.wide), f"accept: [{quantity}]"):
        assert part in line


@pytest.mark.parametrize(
    ("flow_ml_s", "said"),
    [
        (240, "240 mL/min = 4 mL/s"),
        (2000, "2000 mm3/s = 2 mL/s"),
        (2e-6, "2e-06 m3/s = 2 mL/s"),
        (0.002, "0.002 L/s = 2 mL/s"),
    ],
)
def test_a_slip_of_the_flow_is_named_by_its_key(flow_ml_s, said):
    with pytest.raises(StageError) as caught:
        plausibility((inlet(2.0),), judged(inlets={"in": {"flow_ml_s": flow_ml_s}}))
    lines = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in lines] == ["solve.inlets.in.flow_ml_s"] * len(lines)
    assert ["mean inlet speed" in line or "Reynolds" in line for line in lines] == [True] * len(lines)
    assert said in lines[0]


def test_a_vessel_of_a_tenth_of_its_size_is_asked_after_before_its_flow():
    """Whoever took the flow that explains the speed would run a vessel in cm as one in mm."""
    with pytest.raises(StageError) as error:
        plausibility((inlet(0.3),), judged(inlets={"*": {"flow_ml_s": 6}}))
    said = str(error.value)
    assert (
        "input.surface_unit: cm, 10 times as large (cm in place of mm), the radius of the opening would be 3 mm" in said
    )
    assert said.index("input.surface_unit") < said.index("did you mean")
    with pytest.raises(StageError) as error:
        plausibility((inlet(3.0),), judged(inlets={"*": {"flow_ml_s": 6000}}))
    assert "size" not in str(error.value)


def test_a_beat_in_milliseconds_is_named(tmp_path):
    wave = tmp_path / "wave.csv"
    wave.write_text("time_s,flow_ml_s\n0,1\n400,3\n900,1\n")
    with pytest.raises(StageError, match=r"column time_s: inlet Womersley .* did you mean 900 ms = 0\.9 s\?"):
        plausibility((inlet(2.0),), judged(inlets={"*": {"waveform": str(wave)}}))
    assert TIME_SLIPS[0].unit == "ms"


def test_the_numbers_of_an_inlet_are_those_of_its_flow(tmp_path):
    wave = tmp_path / "wave.csv"
    wave.write_text("time_s,flow_ml_s\n0,1\n0.5,3\n1,1\n")
    entry = {"waveform": str(wave), "interpolation": "linear"}
    reported = plausibility((inlet(2.0),), judged(inlets={"*": entry}, vessel="carotid"))
    values = {check["name"]: check["value"] for check in reported["checks"]}
    nu, area = 3.5e-3 / 1060, 4e-6 * pi
    expected = [3.5e-3, 1060, 2.0, 2e-6 / area, 4e-3 * 3e-6 / area / nu, 2e-3 * np.sqrt(2 * pi / nu)]
    np.testing.assert_allclose(list(values.values()), expected, rtol=1e-12)
    assert all(check["passed"] for check in reported["checks"])


def test_of_several_inlets_the_one_farthest_out_is_the_check():
    flows = {"in": {"flow_ml_s": 2}, "b": {"flow_ml_s": 0.3}}
    second = Opening(2, "b", "inlet", (0.0, 0.0, 9.0), (0.0, 0.0, 1.0), 4 * pi, 2.0)
    reported = {check["name"]: check for check in plausibility((inlet(2.0), second), judged(inlets=flows))["checks"]}
    assert "(opening b)" in reported[LIMITS["flow_per_area"].words]["advice"]


def outlet(number: int, name: str, radius_mm: float) -> Opening:
    return replace(inlet(radius_mm), id=number, name=name, role="outlet", centre_mm=(0.0, 0.0, 40.0))


def row(number: int, start: str, stop: str, area_mm2: float | None, radius_mm: float) -> dict[str, object]:
    """A branch as in centreline.json, with its least section at (1, 2, 3) mm and its least ball at (4, 5, 6)."""
    least = dict(zip(("x", "y", "z"), (1.0, 2.0, 3.0), strict=True))
    ball = dict(zip(("x", "y", "z"), (4.0, 5.0, 6.0), strict=True))
    row = {"branch": number, "from": start, "to": stop, "leads_to_opening": True, "length_mm": 20.0}
    row |= {"min_radius_mm": radius_mm, "min_area_mm2": area_mm2}
    row |= {f"min_area_{axis}_mm": least[axis] if area_mm2 else None for axis in "xyz"}
    return row | {f"min_{axis}_mm": ball[axis] for axis in "xyz"}


ONE_WAY = (inlet(2.0), outlet(2, "out", 2.0))


@pytest.mark.parametrize("seed", range(8))
def test_a_flow_too_fast_at_the_narrowest_place_is_refused_before_the_run(seed):
    """Blood is refused above 5 m/s and fails a check above 2 m/s, whatever flow and width; what is advised passes."""
    rng = np.random.default_rng(9000 + seed)
    flow_ml_s = rng.uniform(1, 9)
    for speed, refused, passed in ((rng.uniform(5.05, 30), 1, 0), (rng.uniform(2.02, 4.95), 0, 0), (1.95, 0, 1)):
        area = flow_ml_s / speed
        rows = [row(1, "in", "out", area, 0.2)]  # a lumen wider than its largest ball
        settings = judged(inlets={"*": {"flow_ml_s": flow_ml_s}}, accept=["flow_per_area", "reynolds"])
        (found,) = of_branches(rows, ONE_WAY, settings)
        assert found.value == pytest.approx(speed)
        lines = refusals([found], None, ())
        assert len(lines) == refused
        (check,) = checks([found], None)
        assert check["passed"] == passed
        for line in [*lines, *([] if passed else [check["advice"]])]:
            for part in ("at (1.0, 2.0, 3.0) mm", f"{2 * np.sqrt(area / pi):.3g} mm across", f"{flow_ml_s:.4g} mL/s"):
                assert part in line
            advised = float(re.search(r"at most solve\.inlets\.\*\.flow_ml_s: ([\d.]+)", line)[1])
            (slower,) = of_branches(rows, ONE_WAY, judged(inlets={"*": {"flow_ml_s": advised}}))
            assert checks([slower], None)[0]["passed"]
            assert slower.value > 1.97  # of 2: the flow is not lowered more than it must be, but for three digits
    if refused:
        with pytest.raises(StageError, match="narrowest place"):
            plausibility(ONE_WAY, settings, rows)


def test_each_branch_has_its_part_of_the_flow_and_trickles_do_not_count():
    """Of 6 mL/s, 5.33 leave through a branch of twice the radius by Murray's law, or what the case says."""
    openings = (inlet(2.5), outlet(2, "wide", 2.0), outlet(3, "thin", 1.0), outlet(4, "twig", 0.3))
    rows = [row(1, "in", "fork", 12.0, 2.0), row(2, "fork", "wide", 4.0, 1.0), row(3, "fork", "thin", 0.8, 0.5)]
    rows.append(row(4, "fork", "twig", 1e-3, 0.01))  # 0.3 % of the flow
    murray = 6.0 / (8 + 1 + 0.027)
    (found,) = of_branches(rows, openings, judged(inlets={"in": {"flow_ml_s": 6}}))
    assert found.value == pytest.approx(max(8 * murray / 4, murray / 0.8), rel=1e-6)
    assert "branch 2, fork to wide" in found.where
    given = {"thin": {"flow_fraction": 0.5}, "*": {}}
    (found,) = of_branches(rows, openings, judged(inlets={"in": {"flow_ml_s": 6}}, outlets=given))
    assert found.value == pytest.approx(3.0 / 0.8, rel=1e-6)
    assert found.given.key == "solve.inlets.in.flow_ml_s"
    without = [each | {"min_area_mm2": None} for each in rows]  # no section was found: the openings
    (found,) = of_branches(without, openings, judged(inlets={"in": {"flow_ml_s": 6}}, outlets=given))
    assert found.value == pytest.approx(3.0 / (pi * 1.0**2), rel=1e-6)
    assert "at (0.0, 0.0, 40.0) mm" in found.where


def test_blood_is_refused_before_anything_runs_unless_accepted():
    solve = TINY["solve"] | {"viscosity_pa_s": 3.5, "density_kg_m3": 1.06}
    with pytest.raises(StageError) as caught:
        parse(Case, TINY | {"solve": solve}, "patient.yaml")
    message = str(caught.value)
    assert "\n" not in message
    for part in ("patient.yaml", "solve.viscosity_pa_s", "3.5 mPa s = 0.0035 Pa s", "1.06 g/cm3 = 1060 kg/m3", "doi:"):
        assert part in message
    case = parse(Case, TINY | {"solve": solve, "accept": ["viscosity", "density"]}, "patient.yaml")
    reported = json.loads(case.settings("plausibility"))
    assert (reported["viscosity_pa_s"], reported["accept"]) == (3.5, ["viscosity", "density"])
    with pytest.raises(StageError, match=r"accept\.0 = 'hematocrit'"):
        parse(Case, TINY | {"accept": ["hematocrit"]}, "patient.yaml")


def test_a_model_of_blood_is_named_by_its_key_and_its_published_sets_pass():
    for model in ("carreau-yasuda", "casson", "power-law", "bingham", "herschel-bulkley"):
        parse(Case, TINY | {"solve": TINY["solve"] | {"blood": {"model": model}}}, "a")
    (line,) = refusals(of_blood(3.5, 1060, newtonian=False), None, ())
    assert line.startswith("solve.blood: viscosity of 3.5 Pa s")
    assert "did you mean" not in line


def test_canonical_geometries_hold_any_fluid():
    fluid = {"viscosity_pa_s": 3.5, "density_kg_m3": 1.06, "inlets": {"inlet": {"flow_ml_s": 1e6}}}
    shape = {"shape": "pipe", "diameter_mm": 4, "length_mm": 9}
    case = parse(Case, {"input": {"geometry": shape}, "solve": fluid}, "a")
    assert case.solve.viscosity_pa_s == 3.5


INDICES = {
    "warnings": [],
    "checks": [],
    "wall": {"shear_mean_pa": 860.0},
    "pressure_drops": [{"inlet": "in", "outlet": k, "drop_mmhg": drop} for k, drop in (("a", 3.0), ("b", -30.0))],
}


def test_what_only_the_run_tells_is_refused_after_it_or_a_check():
    reported = plausibility((inlet(2.0),), judged())
    with pytest.raises(StageError, match=r"shear stress of 860 Pa is outside .* accept: \[wall_shear_stress\]"):
        with_limits(INDICES, reported)
    assert with_limits(INDICES | {"wall": {"shear_mean_pa": 1.0}, "pressure_drops": []}, reported)["warnings"] == []
    accepted = with_limits(INDICES, reported | {"accept": ["wall_shear_stress"]})
    assert [check["value"] for check in accepted["checks"] if not check["passed"]] == [860.0, 30.0]
    assert "(in to b)" in accepted["warnings"][1]
    shown = check_shown(accepted["checks"][-1])
    assert (shown["value"], shown["limit"], shown["passed"]) == ("30 mmHg", "usual: 0 to 20", False)


def test_stage_and_gate_say_the_same(tmp_path, caplog):
    openings = tmp_path / "openings.json"
    openings.write_text(json.dumps({"openings": [inlet(2.0).__dict__]}))
    settings = judged(inlets={"*": {"flow_ml_s": 0.2}})
    output, log = tmp_path / "plausibility.json", tmp_path / "solve.log"
    roles = {"openings": openings}, {"plausibility": output}
    with caplog.at_level("WARNING"):
        _compute(Job("plausibility", *roles, settings.model_dump(mode="json"), logging.getLogger("test")))
    assert "is unusual" in caplog.text
    assert not all(check["passed"] for check in json.loads(output.read_text())["checks"])
    words = ["--openings", str(openings), "--log", str(log), "--settings"]
    assert check([*words, settings.model_dump_json()]) is None
    assert not log.exists()
    lines = tmp_path / "centreline.json"
    lines.write_text(json.dumps({"branches": [row(1, "in", "out", 0.03, 0.1)]}))
    openings.write_text(json.dumps({"openings": [each.__dict__ for each in ONE_WAY]}))
    message = check(["--centreline", str(lines), *words, settings.model_dump_json()])
    assert message
    assert "mean speed at the narrowest place of 6.667 m/s" in message
    message = check([*words, judged(inlets={"*": {"flow_ml_s": 240}}).model_dump_json()])
    assert message
    assert "plausibility: error: solve.inlets.*.flow_ml_s" in message
    assert log.read_text().strip() == message


MEASURED_MM = {"basilar": 1.66, "carotid-right": 2.30}
"""Radii of the inlets of the patients' cases, see docs/validation/chain.md and docs/validation/geometry.md."""


@pytest.mark.parametrize("name", ["basilar", "carotid-right", "demo", "pipe", "pulsatile", "tiny"])
def test_shipped_cases_are_usual(name, tmp_path, monkeypatch):
    """Blood and inlets; and wall shear stress by Poiseuille's law."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("HEMO_CASES", str(tmp_path))
    (tmp_path / "head-arteries-mr/dicom").mkdir(parents=True)
    case = read_cohort({"cases": [name]})[name]
    assert case.accept == ()
    radius = MEASURED_MM.get(name)
    if radius is None:
        branches = yaml.safe_load((ROOT / case.input.phantom).read_text())["vessel"]["branches"]
        radius = next(branch["radii_mm"][0] for branch in branches if branch.get("start") == "inlet")
    (named,) = case.solve.inlets
    settings = parse(PlausibilityInput, json.loads(case.settings("plausibility")), name)
    opening = Opening(**(inlet(radius).__dict__ | {"name": "in" if named == "*" else named}))
    reported = plausibility((opening,), settings)
    stress = 4 * settings.viscosity_pa_s * case.solve.inlets[named].flow_ml_s * 1e-6 / (pi * (1e-3 * radius) ** 3)
    run = {"wall": {"shear_mean_pa": stress}, "pressure_drops": []}
    assert [check for check in (*reported["checks"], *checks(of_run(run), None)) if not check["passed"]] == []


def test_flow_of_a_network_is_named_as_such_and_no_slip_of_units(tmp_path):
    """A vessel of 1 mm radius in a large artery: the case gave a segment, no flow."""
    (tmp_path / "in.csv").write_text("time_s,flow_ml_s\n0,100\n0.4,140\n1,100\n")
    entry = {"in": {"waveform": str(tmp_path / "in.csv")}}
    quantities = {each.quantity: each for each in of_inlets((inlet(1.0),), judged(inlets=entry, coupled=True))}
    for quantity in ("flow_per_area", "womersley"):
        assert quantities[quantity].given.key == "coupling.inlets.in"
        assert quantities[quantity].given.slips == ()
    (line,) = refusals([quantities["flow_per_area"]], None, ())
    assert "coupling.inlets.in" in line
    assert "did you mean" not in line
