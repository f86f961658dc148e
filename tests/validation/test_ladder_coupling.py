# SPDX-License-Identifier: Apache-2.0
"""The ladder of validation for a vessel that sits in a network of arteries."""

import json
import shutil

import numpy as np
import pytest

from solver.runtime.sources import ROOT
from tests.support.coupled import fastest, pulse_through, steady_drop
from tests.support.workflow_runs import run_workflow
from validation.evidence import Evidence

LONG = pytest.mark.timeout(6 * 3600)


@pytest.mark.slow
@pytest.mark.ladder
@LONG
def test_vessel_between_two_tubes():
    title = "A rigid pipe on the lattice between two tubes of a network"
    with Evidence("coupling", title, "Womersley's linear theory, Poiseuille") as case:
        rows, last = [], []
        for across, viscosity in ((8, 0.02), (12, 0.02), (12, 0.0035), (16, 0.02)):
            last = pulse_through(across, 1.0, (1, 5, 10), viscosity)
            for each in last:
                rows.append(
                    (
                        across,
                        viscosity,
                        each.hertz,
                        abs(each.reflected),
                        abs(each.reflected_in_theory),
                        float(np.angle(each.reflected / each.reflected_in_theory, deg=True)),
                        abs(each.through),
                        abs(each.through_in_theory),
                        float(np.angle(each.through / each.through_in_theory, deg=True)),
                    )
                )
        columns = ("reflected", "in theory", "phase off, degrees", "passed", "in theory ", "phase off, degrees ")
        note = "50 mm of radius 3 mm, pulse 6 m/s in the tubes, sound 12 m/s on the lattice."
        case.table(("nodes across", "viscosity, Pa s", "Hz", *columns), rows, note)
        drops = [(str(direction), *steady_drop(12, 0.06, direction)) for direction in ((0, 0, 1), (1, 2, 3))]
        case.table(
            ("direction", "pressure drop over Poiseuille's", "flow over the one given"),
            drops,
            "60 mm, 12 nodes across.",
        )
        speeds = [(ratio, *fastest(ratio)) for ratio in (0.2, 0.5, 1.0, 2.0, 5.0)]
        case.table(
            ("R/Za", *(f"cycle {k}" for k in range(1, 6))),
            speeds,
            "Largest speed in a cycle, lattice units: the flow turns back, and far ends send half of each wave back.",
        )
        for each in last:
            size, theory = abs(each.reflected), abs(each.reflected_in_theory)
            phase = abs(float(np.angle(each.reflected / each.reflected_in_theory, deg=True)))
            case.reach(f"16 nodes across, {each.hertz:g} Hz: reflected, off theory", abs(size - theory), at_most=0.01)
            case.reach(f"16 nodes across, {each.hertz:g} Hz: its phase, degrees", phase, at_most=3)
        for direction, drop, flow in drops:
            case.reach(f"{direction}: pressure drop, off Poiseuille's", abs(drop - 1), at_most=0.01)
            case.reach(f"{direction}: flow, off the one given", abs(flow - 1), at_most=1e-3)
        for ratio, *_, before, end in speeds:
            case.reach(f"R/Za {ratio:g}: largest speed of the last cycle over that before", end / before, at_most=1.02)


@pytest.mark.slow
@pytest.mark.ladder
@LONG
def test_aneurysm_in_the_carotid_of_adan56(tmp_path):
    """The shipped case, from DICOM to its report: what both sides of each opening have over the last cycle."""
    (tmp_path / "config/cases").mkdir(parents=True)
    (tmp_path / "config/config.yaml").write_text("cases: [coupled]\n")
    shutil.copy(ROOT / "config/cases/coupled.yaml", tmp_path / "config/cases")
    with Evidence("coupled-case", "An aneurysm in the carotid artery of ADAN56", "the network at its openings") as case:
        answer = run_workflow(tmp_path, "--cores", "2", "-s", str(ROOT / "Snakefile"), timeout=5 * 3600)
        assert answer.returncode == 0, answer.stderr
        results = tmp_path / "results/coupled"
        caps = json.loads((results / "indices.json").read_text())["coupling"]
        cycles = json.loads((results / "solve.json").read_text())["cycles"]
        columns = ("radius, mm", "in the network", "flow, mL/s", "off", "mean pressure, mmHg", "off ")
        keys = ("vessel_radius_mm", "network_radius_mm", "vessel_flow_ml_s", "flow_difference")
        keys += ("vessel_pressure_mmhg", "pressure_difference")
        rows = [(cap["name"], cap["segment"], *(cap[key] for key in keys)) for cap in caps]
        note = f"10 nodes across; periodic after {cycles:g} cycles, from the state of the network alone."
        case.table(("opening", "segment", *columns), rows, note)
        for cap in caps:
            what = cap["name"]
            case.reach(f"{what}: flow over a cycle, off the network's", abs(cap["flow_difference"]), at_most=1e-3)
            case.reach(f"{what}: mean pressure, off the network's", abs(cap["pressure_difference"]), at_most=5e-3)
        case.reach("cycles until the coupled run repeats", cycles, at_most=3)
