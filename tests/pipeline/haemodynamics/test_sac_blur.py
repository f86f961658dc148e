# SPDX-License-Identifier: Apache-2.0
"""Stresses in sacs that the image's blur makes too high: by the law that was measured on drawn vessels."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.case.settings.geometry import DecomposeSettings
from pipeline.files.mesh import write_openings
from pipeline.haemodynamics.sac_blur import SCATTER, edge_width_mm, with_blur_checks
from pipeline.haemodynamics.trust import judged
from pipeline.members.in_memory import nodes_of
from pipeline.stages.postprocess import _compute
from solver.domain import nodes as node_files
from solver.run.flow_file import FlowWriter, steady_statistics
from tests.pipeline.haemodynamics.test_sac import DENSITY, NECK, RADIUS, VISCOSITY, side_wall
from tests.pipeline.stages.test_postprocess import summary
from tests.support.postprocess_files import INPUTS, OUTPUTS
from tests.support.reported import job

NAME = "wall shear stress too high by blur"
RECORD = Path(__file__).parents[3] / "benchmarks/results/2026-11-29-band-coverage-fresh.json"


def indices(parents_mm):
    """Of a case with sacs by the radius of the vessel that carries each."""
    sacs = [{"name": name, "parent_diameter_mm": 2 * radius} for name, radius in parents_mm.items()]
    return {"checks": [], "warnings": ["one of before"], "sacs": sacs}


def image(edge_mm, contrast=300.0):
    return {"contrast": contrast, "wall_slope_per_mm": contrast / edge_mm}


@given(
    edge_mm=st.floats(0.05, 5),
    radius_mm=st.floats(0.3, 15),
    contrast=st.floats(1, 5000),
)
def test_the_wider_the_edge_against_the_parent_the_more_is_doubted(edge_mm, radius_mm, contrast):
    found = with_blur_checks(indices({"left": radius_mm}), image(edge_mm, contrast))
    [check] = found["checks"]
    assert check["name"] == f"{NAME} (left)"
    assert 1 - check["value"] == pytest.approx(np.exp(-0.6 * edge_mm / radius_mm))
    assert check["passed"] == (check["value"] <= 0.15)
    assert found["warnings"] == ["one of before", *([] if check["passed"] else [check["advice"]])]
    [wall] = [each for each in judged(found) if each["key"] == "sac left wall"]
    assert wall["state"] == check["state"]
    [flow] = [each for each in judged(found) if each["key"] == "sac left"]
    assert flow["state"] == "good"  # the law is of stresses


def test_half_a_radius_is_a_quarter_too_much_and_is_said_with_its_numbers():
    found = with_blur_checks(indices({"sac": 2.0, "sac_2": 6.0}), image(1.0))
    half, sixth = found["checks"]
    assert half["value"] == pytest.approx(0.26, abs=0.005)
    assert half["state"] == "reservation"
    assert half["advice"].startswith("sac: the image's edge is 1 mm wide, 50% of the parent's radius;")
    assert "26% less than the one found" in half["advice"]
    assert sixth["name"] == f"{NAME} (sac_2)"
    assert sixth["passed"]
    assert sixth["advice"] is None


def test_without_an_image_nothing_is_said_of_its_blur():
    before = indices({"sac": 2.0})
    assert with_blur_checks(before, {"source": "mask"}) == before
    assert edge_width_mm({"contrast": 300.0, "wall_slope_per_mm": 0.0}) == 0


def test_the_law_holds_in_vessels_that_were_drawn_after_it():
    """59 images of drawn vessels with their truth: beside the stress of the whole wall, which other flow and viscosity
    change alike, sacs are off by the law to its scatter, and by twice that without it.
    """
    tries = [each for each in json.loads(RECORD.read_text(encoding="utf-8"))["tries"] if each.get("figures")]
    widths = np.array([each["wall"]["edge_mm"] / each["parents_mm"]["sac"] for each in tries])
    true, found = (
        np.array([np.log(each[key]["shear sac"] / each[key]["shear_mean"]) for each in tries])
        for key in ("truth", "figures")
    )
    assert len(tries) == 59
    foretold = [with_blur_checks(indices({"sac": 1.0}), image(width))["checks"][0]["value"] for width in widths]
    left = true - found - np.log1p(-np.array(foretold))
    assert np.sqrt(np.mean(left**2)) < SCATTER < 0.6 * np.sqrt(np.mean((true - found) ** 2))


def test_the_stage_tells_it_of_a_case_with_an_image_and_of_no_other(tmp_path):
    """A round sac on a straight parent: the stresses of the sac are worth less by the check, and nothing else."""
    mesh, openings = side_wall()
    nodes = nodes_of(mesh, openings, 0.5, DecomposeSettings())
    mesh.write(tmp_path / "surface.vtp")
    write_openings(openings, tmp_path / "openings.json")
    node_files.save(nodes, tmp_path / "nodes.h5")
    y, z = nodes.points_mm()[:, 1:].T
    velocity = np.zeros((nodes.count, 3))
    velocity[:, 0] = np.maximum(0.02 * (1 - (y**2 + z**2) / RADIUS**2), 0)
    fields = velocity, np.zeros(nodes.count), np.zeros((nodes.count, 6))
    with FlowWriter(tmp_path / "flow.vtkhdf", nodes) as writer:
        writer.append(1.0, *fields)
        writer.average(*fields, statistics=steady_statistics(velocity, fields[2], VISCOSITY, DENSITY))
    ends = [opening.name for opening in openings]
    (tmp_path / "solve.json").write_text(json.dumps(summary(openings={name: {} for name in ends})))
    (tmp_path / "monitor.csv").write_text("time_s," + ",".join(f"flow_ml_s:{name}" for name in ends) + "\n1.0,1,1\n")
    (tmp_path / "segmentation.json").write_text(json.dumps(image(RADIUS)))
    found = []
    for more in ({}, {"segmentation": "segmentation.json"}):
        inputs = {role: tmp_path / name for role, name in (INPUTS | more).items()}
        outputs = {role: tmp_path / name for role, name in OUTPUTS.items()}
        _compute(job("postprocess", inputs, outputs, {"sacs": [NECK], "find_sacs": False}))
        found.append(json.loads(outputs["indices"].read_text()))
    without, known = found
    [check] = [each for each in known["checks"] if each not in without["checks"]]
    assert check["name"] == f"{NAME} (left)"
    [sac] = known["sacs"]
    assert check["value"] == pytest.approx(1 - np.exp(-0.6 * RADIUS / (sac["parent_diameter_mm"] / 2)))
    assert check["state"] == "unusable"
    assert set(known["warnings"]) - set(without["warnings"]) == {check["advice"]}
    worse = [each["key"] for each, before in zip(known["trust"], without["trust"], strict=True) if each != before]
    assert worse == ["sac left wall"]
