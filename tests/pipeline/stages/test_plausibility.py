# SPDX-License-Identifier: Apache-2.0
"""What no patient has is refused with the slip behind it, and what is unusual fails a check; no shipped case does."""

import json
import logging
from math import pi
from typing import get_args

import numpy as np
import pytest
import yaml

from pipeline.case.case_file import Case, read_cohort
from pipeline.case.limits import Found, checks, of_blood, of_run, refusals, with_limits
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
from pipeline.case.settings.base import parse
from pipeline.reporting.trust_rows import check_shown
from pipeline.stages.plausibility import PlausibilityInput, _compute, check, plausibility
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
