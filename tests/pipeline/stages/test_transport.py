# SPDX-License-Identifier: Apache-2.0
"""Files of the stage transport, of Poiseuille flow in a pipe: they agree with each other and with volume over flow."""

import csv
import json
import logging

import h5py
import numpy as np
import pytest
from PIL import Image

from pipeline.haemodynamics.washout import dilution, washout
from pipeline.reporting import angiogram
from pipeline.reporting.angiogram import Projections, projected, xray
from pipeline.stages import transport
from solver.domain import nodes as node_files
from solver.run.flow_file import FlowWriter
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job
from tests.pipeline.haemodynamics.test_particles import measured
from tests.support.analytic_pipe import Pipe

PIPE = Pipe(length_mm=8.0)
NODES = measured(PIPE.nodes(0.4), PIPE)
SETTINGS = {
    "backend": "cpu",
    "precision": "fp64",
    "washed_out": 1e-3,
    "bolus": {"duration_s": 0.05, "concentration": 2.0},
}
OUTPUTS = {
    "fields": "transport.vtkhdf",
    "curves": "transport.csv",
    "numbers": "transport.json",
    "strip": "angiogram.png",
    "angiogram": "angiogram.webp",
}


def write_case(folder, speed=1.0):
    """What the stages before leave of the pipe."""
    points = NODES.points_mm()
    node_files.save(NODES, folder / "nodes.h5")
    PIPE.surface(0.3).write(folder / "surface.vtp")
    with FlowWriter(folder / "flow.vtkhdf", NODES) as writer:
        fields = [speed * values for values in (PIPE.velocity(points), PIPE.pressure(points), PIPE.stress(points))]
        writer.append(1.0, *fields)
        writer.average(*fields, statistics=PIPE.statistics(points))
    flow = speed * PIPE.flow_ml_s
    (folder / "monitor.csv").write_text(f"time_s,flow_ml_s:inlet,flow_ml_s:outlet\n1.0,{flow},{flow}\n")
    (folder / "solve.json").write_text(json.dumps({"numbers": {"period_s": None}}))
    (folder / "indices.json").write_text(json.dumps({"sacs": []}))


def run(folder, **changed):
    names = ("nodes.h5", "flow.vtkhdf", "surface.vtp", "monitor.csv", "solve.json", "indices.json")
    roles = ("nodes", "flow", "surface", "monitor", "summary", "indices")
    inputs = {role: folder / name for role, name in zip(roles, names, strict=True)}
    outputs = {role: folder / name for role, name in OUTPUTS.items()}
    more = {"checkpoint": None, "checkpoint-minutes": 10.0}
    transport._compute(Job("transport", inputs, outputs, SETTINGS | changed, logging.getLogger("test"), more=more))
    return json.loads((folder / "transport.json").read_text())


@pytest.fixture(scope="module")
def carried(tmp_path_factory):
    folder = tmp_path_factory.mktemp("carried")
    write_case(folder)
    return folder, run(folder)


def test_figures_and_curves_are_those_of_volume_over_flow(carried):
    folder, numbers = carried
    transit_s = NODES.count * NODES.spacing_mm**3 * 1e-3 / PIPE.flow_ml_s
    np.testing.assert_allclose(numbers["volume_over_flow_s"], transit_s, rtol=1e-9)
    np.testing.assert_allclose(numbers["age"]["outlets"][0]["mean_s"], transit_s, rtol=0.01)
    bolus = numbers["bolus"]
    np.testing.assert_allclose(bolus["outlets"][0]["mean_s"], transit_s + 0.025, rtol=0.01)
    assert bolus["held_at_end_share"] <= 1e-3
    assert bolus["missing_share"] < 1e-10
    assert not numbers["warnings"]
    rows = list(csv.DictReader((folder / "transport.csv").open()))
    out = np.array([float(row["concentration:outlet"]) for row in rows])
    every_s = float(rows[0]["time_s"])
    held = float(rows[-1]["vessel_share"]) / float(rows[-1]["injected_share"])
    np.testing.assert_allclose(out.sum() * every_s, (1 - held) * 0.05 / 2 * 2.0, rtol=0.01)


def test_age_rises_along_the_pipe_and_towards_its_wall(carried):
    with h5py.File(carried[0] / "transport.vtkhdf") as file:
        age = file["VTKHDF/PointData/age (s)"][()]
    axis = PIPE.frame()[2]
    away = NODES.points_mm() - NODES.points_mm().mean(axis=0)
    along, off = away @ axis, np.linalg.norm(away - np.outer(away @ axis, axis), axis=1)
    places = [np.abs(along - at) < 0.5 for at in (-3, 0, 3)]
    means = [age[place].mean() for place in places]
    assert 0 < means[0] < means[1] < means[2]
    middle, wall = off < 0.3 * PIPE.radius_mm, off > 0.8 * PIPE.radius_mm
    assert age[places[2] & middle].mean() < age[places[2] & wall].mean()


def test_the_angiogram_moves_and_its_strip_has_both_views(carried):
    folder, _ = carried
    with Image.open(folder / "angiogram.webp") as moving:
        assert moving.n_frames > 8
    with Image.open(folder / "angiogram.png") as strip:
        assert strip.height == 2 * angiogram.HEIGHT
        brightness = np.asarray(strip)
    assert abs(int(np.median(brightness)) - 255 * angiogram.BACKGROUND) < 2
    assert brightness.min() < 160


def test_without_a_bolus_there_are_no_curves_and_what_cannot_be_carried_is_refused(tmp_path):
    write_case(tmp_path)
    numbers = run(tmp_path, bolus=None, max_transits=3)
    assert "bolus" not in numbers
    assert (tmp_path / "transport.csv").read_text() == "time_s\n"
    assert not (tmp_path / "angiogram.png").read_bytes()
    write_case(tmp_path, speed=0.0)
    with pytest.raises(StageError, match="nothing flows"):
        run(tmp_path)


def test_flows_of_snapshots_are_those_of_the_record_and_without_several_its_mean():
    monitor = {
        "time_s": np.array([0.0, 1.0, 1.5, 2.0]),
        "flow_ml_s:inlet": np.array([9.0, 1.0, 2.0, 3.0]),
        "flow_ml_s:outlet": np.array([9.0, 1.0, 2.0, 3.0]),
    }
    found = transport.flows_ml_s(NODES, monitor, np.array([1.25, 2.0]), 1.0)
    np.testing.assert_allclose(found, [[-1.5, 1.5], [-3, 3]])
    np.testing.assert_allclose(transport.flows_ml_s(NODES, monitor, np.array([2.0]), 1.0), [[-2, 2]])
    np.testing.assert_allclose(transport.flows_ml_s(NODES, monitor, np.array([2.0]), None), [[-3, 3]])


def test_line_integrals_hold_all_of_the_contrast():
    values = np.random.default_rng(3).random(NODES.count)
    for view in range(len(angiogram.VIEWS)):
        total = projected(NODES, values, view).sum(dtype=np.float64) / NODES.spacing_mm
        np.testing.assert_allclose(total, values.sum(), rtol=1e-6)
    full = projected(NODES, np.ones(NODES.count), 0)
    darkest = xray(full, -np.log(0.1) / float(full.max())).min()  # the longest ray lets a tenth through
    assert darkest >= 255 * angiogram.BACKGROUND * 0.1 - 1


def test_pictures_are_thinned_out_evenly():
    projections = Projections(NODES)
    for time in range(4 * angiogram.MOST_FRAMES):
        projections.look(float(time), np.full(NODES.count, float(time == 100)))
    assert len(projections.times_s) <= angiogram.MOST_FRAMES
    np.testing.assert_array_equal(np.unique(np.diff(projections.times_s)).size, 1)


def test_of_curves_when_they_come_peak_and_pass():
    times = np.arange(1, 101) * 0.1
    curve = np.exp(-(((times - 0.05 - 4.0) / 0.5) ** 2) / 2)
    found = dilution(times, np.where(times < 1, np.nan, curve))
    np.testing.assert_allclose(found["peak_s"], 4.0, atol=0.06)
    np.testing.assert_allclose(found["mean_s"], 4.0, atol=0.01)
    np.testing.assert_allclose(found["appears_s"], 4.0 - 0.5 * np.sqrt(2 * np.log(10)), atol=0.1)
    assert dilution(times, np.full(100, np.nan))["mean_s"] is None
    held = np.where(times < 2, times / 2, np.exp(-(times - 2)))
    left = washout(times, held)
    np.testing.assert_allclose(left["to_50_percent_s"], np.log(2), atol=0.11)
    np.testing.assert_allclose(left["to_10_percent_s"], np.log(10), atol=0.11)
    assert washout(times[:25], held[:25])["to_10_percent_s"] is None
