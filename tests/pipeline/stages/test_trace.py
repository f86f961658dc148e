# SPDX-License-Identifier: Apache-2.0
"""Files of the stage trace: what they hold, that it belongs together, and a picture that moves and repeats."""

import io
import itertools
import json
import logging

import numpy as np
import pytest
from PIL import Image, ImageSequence
from vtkmodules.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkIOXML import vtkXMLPolyDataReader

from pipeline.case.settings.base import parse
from pipeline.case.settings.flow import TraceSettings
from pipeline.files.mesh import Mesh
from pipeline.haemodynamics import residence
from pipeline.haemodynamics.residence import particle_checks
from pipeline.haemodynamics.streamlines import Grid, streamlines_from_inlets
from pipeline.haemodynamics.trust import check, of_particles
from pipeline.reporting import animation, render
from pipeline.reporting.scene import front_view
from pipeline.stages import trace
from solver.domain import nodes as node_files
from solver.run.flow_file import FlowWriter, read_flow, steady_statistics
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job
from tests.pipeline.haemodynamics.test_particles import abc, measured, plain_box
from tests.support.analytic_pipe import Pipe

PIPE = Pipe(length_mm=8.0)
NODES = measured(PIPE.nodes(0.4), PIPE)
PERIOD_S = 0.2
SETTINGS = {"streamlines": 30, "pathlines": 60, "particles": 400, "frames": 8, "limit_transits": 10, "limit_cycles": 3}
FILES = {
    "streamlines": "streamlines.vtp",
    "pathlines": "pathlines.vtp",
    "residence": "residence.vtp",
    "numbers": "particles.json",
    "animation": "particles.gif",
}


def write_case(folder, factors, period_s):
    """Poiseuille flow in the pipe, times a factor at each of evenly spaced times after one second."""
    points = NODES.points_mm()
    times = 1.0 + np.arange(1, len(factors) + 1) * (period_s or 0.1) / len(factors)
    node_files.save(NODES, folder / "nodes.h5")
    PIPE.surface(0.3).write(folder / "surface.vtp")
    with FlowWriter(folder / "flow.vtkhdf", NODES) as writer:
        for time, factor in zip(times, factors, strict=True):
            fields = [factor * values for values in (PIPE.velocity(points), PIPE.pressure(points), PIPE.stress(points))]
            writer.append(time, *fields)
        writer.average(*fields, statistics=PIPE.statistics(points))
    rows = [f"{t},{0.2 * f},{f * PIPE.flow_ml_s},{f * PIPE.flow_ml_s}" for t, f in zip(times, factors, strict=True)]
    head = "time_s,max_speed_m_s,flow_ml_s:inlet,flow_ml_s:outlet"
    (folder / "monitor.csv").write_text("\n".join([head, *rows]) + "\n")
    (folder / "solve.json").write_text(json.dumps({"numbers": {"period_s": period_s}}))
    return run(folder)


def run(folder, **changed):
    names = ("nodes.h5", "flow.vtkhdf", "surface.vtp", "monitor.csv", "solve.json")
    roles = ("nodes", "flow", "surface", "monitor", "summary")
    inputs = {role: folder / name for role, name in zip(roles, names, strict=True)}
    outputs = {role: folder / name for role, name in FILES.items()}
    trace._compute(Job("trace", inputs, outputs, SETTINGS | changed, logging.getLogger("test")))
    return folder


@pytest.fixture(scope="module")
def steady(tmp_path_factory):
    return write_case(tmp_path_factory.mktemp("steady"), [1.0], None)


@pytest.fixture(scope="module")
def pulse(tmp_path_factory):
    factors = 1 + 0.5 * np.sin(2 * np.pi * np.arange(1, 13) / 12)
    return write_case(tmp_path_factory.mktemp("pulse"), factors, PERIOD_S)


def read(path):
    """Points, lines as rows of points, point arrays and cell arrays of a file."""
    reader = vtkXMLPolyDataReader()
    reader.SetFileName(str(path))
    reader.Update()
    data = reader.GetOutput()
    arrays = [
        {each.GetArrayName(k): vtk_to_numpy(each.GetArray(k)) for k in range(each.GetNumberOfArrays())}
        for each in (data.GetPointData(), data.GetCellData())
    ]
    cells = data.GetLines() if data.GetNumberOfLines() else data.GetVerts()
    offsets = vtk_to_numpy(cells.GetOffsetsArray())
    return vtk_to_numpy(data.GetPoints().GetData()), offsets, *arrays


def numbers(folder):
    return json.loads((folder / "particles.json").read_text())


@pytest.fixture
def no_picture(monkeypatch):
    """To draw it takes most of the time of a small case."""
    monkeypatch.setattr(trace, "animate", lambda *_: animation.Animation(b"", "nothing"))


def test_the_figures_of_the_particles_are_worth_what_the_flow_and_their_own_checks_say(steady):
    own = numbers(steady)["checks"]

    def trust(across, loss, checks):
        flow = [check("nodes across", "", across, "finer"), check("flow balance", "%", loss, "longer")]
        return of_particles([*flow, *checks])

    good = trust(24.0, 0.0, own)
    assert (good["key"], good["state"]) == ("particles", "good")
    evidence = {each["name"]: each["state"] for each in good["evidence"]}
    assert evidence == dict.fromkeys(("nodes across", "flow balance", "particles lost at the wall"), "good")
    lost = particle_checks({"in_volume": {"lost_share": 0.03}})
    cases = ((9.0, 0.0, own, "reservation"), (24.0, 0.2, own, "unusable"), (24.0, 0.0, lost, "reservation"))
    assert all(trust(*given)["state"] == state for *given, state in cases)


def test_streamlines_carry_speed_velocity_pressure_and_time_that_agree(steady):
    points, offsets, arrays, _ = read(steady / "streamlines.vtp")
    assert set(arrays) == {"speed (m s-1)", "velocity (m s-1)", "pressure (Pa)", "time since seed (s)"}
    np.testing.assert_allclose(np.linalg.norm(arrays["velocity (m s-1)"], axis=1), arrays["speed (m s-1)"], rtol=1e-5)
    axis = PIPE.frame()[2]
    middle = np.abs(points @ axis) < PIPE.length_mm / 2 - 0.8  # pressure is carried on through caps
    radius = np.linalg.norm(points @ np.column_stack(PIPE.frame()[:2]), axis=1)
    core = middle & (radius < PIPE.radius_mm - 0.8)
    pressure = PIPE.pressure(points.astype(float))
    np.testing.assert_allclose(arrays["pressure (Pa)"][core], pressure[core], atol=1e-4 * pressure.max())
    for a, b in itertools.pairwise(offsets):
        time, speed = arrays["time since seed (s)"][a:b], arrays["speed (m s-1)"][a:b]
        steps = np.diff(time)
        assert (steps >= 0).all() or (steps <= 0).all()  # lines against the flow start at their seed, too
        if radius[a:b].max() < 0.6 * PIPE.radius_mm:
            length = np.linalg.norm(np.diff(points[a:b], axis=0), axis=1).sum()
            assert abs(time[-1] - time[0]) == pytest.approx(1e-3 * length / speed.mean(), rel=0.03)


def test_streamlines_of_the_stage_are_those_of_the_report():
    grid = Grid.of(NODES, PIPE.velocity(NODES.points_mm()))
    lines = streamlines_from_inlets(grid, PIPE.openings(), 20)
    assert all(line.shape[1] == 5 for line in lines)
    assert all((np.abs(line[:, :3] @ PIPE.frame()[2]) < PIPE.length_mm / 2 + 0.4).all() for line in lines)


@pytest.mark.parametrize("flow", ["steady", "pulse"])
def test_paths_start_at_the_inlet_go_on_in_time_and_leave_at_the_outlet(flow, request):
    folder = request.getfixturevalue(flow)
    points, offsets, arrays, cells = read(folder / "pathlines.vtp")
    assert set(arrays) == {"time (s)", "speed (m s-1)", "age (s)"}
    assert set(cells) == {"released (s)", "left through"}
    axis = PIPE.frame()[2]
    along = points @ axis
    for k, (a, b) in enumerate(itertools.pairwise(offsets)):
        time, age = arrays["time (s)"][a:b], arrays["age (s)"][a:b]
        assert (np.diff(time) > 0).all()
        np.testing.assert_allclose(time - age, cells["released (s)"][k], atol=1e-5)
        assert age[0] == 0
        assert along[a] == pytest.approx(-PIPE.length_mm / 2 + 0.8, abs=1e-4)  # two spacings inside
        if cells["left through"][k] == 2:
            assert along[b - 1] == pytest.approx(PIPE.length_mm / 2, abs=1e-4)
    assert (cells["left through"] == 2).mean() > 0.9


def test_steady_particles_start_at_once_and_periodic_ones_all_over_the_period(steady, pulse):
    assert np.ptp(read(steady / "pathlines.vtp")[3]["released (s)"]) == 0
    released = np.sort(read(pulse / "pathlines.vtp")[3]["released (s)"])
    first = 1.0 + PERIOD_S / 12
    assert released[0] >= first - 1e-6
    assert released[-1] < first + PERIOD_S
    assert np.diff(released).max() < 0.1 * PERIOD_S


def test_a_path_through_a_pulse_is_as_long_as_its_speeds_say(pulse):
    """The integral of the speed between points a quarter of a radius apart, by trapezium, within a percent."""
    points, offsets, arrays, cells = read(pulse / "pathlines.vtp")
    checked = 0
    for k, (a, b) in enumerate(itertools.pairwise(offsets)):
        if b - a > 10 and cells["left through"][k] == 2:
            length = np.linalg.norm(np.diff(points[a:b], axis=0), axis=1).sum()
            time, speed = arrays["time (s)"][a:b].astype(float), arrays["speed (m s-1)"][a:b]
            assert 1e3 * np.trapezoid(speed, time) == pytest.approx(length, rel=0.02)
            checked += 1
    assert checked > 30


@pytest.mark.parametrize("flow", ["steady", "pulse"])
def test_residence_is_the_time_since_entry_and_the_time_to_leave(flow, request):
    folder = request.getfixturevalue(flow)
    _, offsets, arrays, _ = read(folder / "residence.vtp")
    assert len(offsets) - 1 == SETTINGS["particles"]
    since, leave = arrays["time since entry (s)"], arrays["time to leave (s)"]
    np.testing.assert_allclose(arrays["residence time (s)"], since + leave, rtol=1e-6)
    limit = numbers(folder)["limit_s"]
    for time, opening, mark, ids in (
        (since, "entered through", "not entered", {0, 1}),
        (leave, "left through", "not left", {0, 2}),
    ):
        assert arrays[mark].dtype == np.int8
        assert set(np.unique(arrays[opening])) <= ids
        np.testing.assert_array_equal(arrays[mark] == 1, arrays[opening] == 0)
        np.testing.assert_allclose(time[arrays[mark] == 1], limit, rtol=1e-6)
        assert (time > 0).all()
        assert (time <= limit * (1 + 1e-6)).all()


def test_numbers_of_a_pipe_are_those_of_its_flow(steady):
    """V/Q is L/U; nodes count the volume within 2 % at 10 across. Half the volume of Poiseuille flow is within
    r^2/R^2 = 1/2, but time since entry is z/u(r), whose median is that of s/(2(1 - t)) of two uniform numbers: 0.5 L/U.
    """
    reported = numbers(steady)
    transit = 1e-3 * PIPE.length_mm / PIPE.mean_speed_m_s
    assert reported["volume_over_inflow_s"] == pytest.approx(transit, rel=0.02)
    assert reported["flow_weighted_residence_s"] == pytest.approx(transit, rel=0.05)  # 400 particles
    assert reported["limit_s"] == pytest.approx(10 * reported["volume_over_inflow_s"], rel=1e-9)
    volume = reported["in_volume"]
    assert volume["time_since_entry_s"]["median"] == pytest.approx(0.5 * transit, rel=0.15)
    # of s/(2(1 - t)), P(more than a) = 1/(4a) for a >= 1/2
    assert volume["time_since_entry_s"]["p90"] == pytest.approx(2.5 * transit, rel=0.3)
    assert volume["lost_share"] == volume["stuck_share"] == 0
    assert volume["left_share"] + volume["not_washed_out_share"] == pytest.approx(1)
    assert reported["outlets"] == [{"id": 2, "name": "outlet", "particle_share": 1.0, "flow_share": 1.0}]
    assert reported["warnings"] == []
    assert reported["period_s"] is None


def test_times_of_particles_that_were_not_followed_to_the_end_are_not_reported():
    limit = 2.0
    times = np.concatenate([np.linspace(0.1, 1.0, 85), np.full(15, limit)])
    reported = residence._statistics(times, limit)
    assert reported["median"] == pytest.approx(np.median(times))
    assert reported["p90"] is None
    assert residence._statistics(times[:90], limit)["p90"] == pytest.approx(np.percentile(times[:90], 90))


def test_particles_in_the_volume_start_when_the_inflow_is_largest(pulse):
    reported = numbers(pulse)
    assert reported["moment_s"] == pytest.approx(1.0 + PERIOD_S / 4)
    assert reported["limit_s"] == pytest.approx(3 * PERIOD_S)
    assert reported["warnings"] == []


@pytest.mark.usefixtures("no_picture")
def test_few_snapshots_of_a_period_are_a_warning(tmp_path):
    reported = numbers(write_case(tmp_path, [1.0, 1.2, 0.8], PERIOD_S))
    assert any("33%" in warning and "solve.snapshots" in warning for warning in reported["warnings"])


@pytest.mark.usefixtures("no_picture")
def test_one_snapshot_of_a_period_is_taken_as_steady_with_a_warning(tmp_path):
    reported = numbers(write_case(tmp_path, [1.0], PERIOD_S))
    assert reported["period_s"] is None
    assert any("one snapshot" in warning for warning in reported["warnings"])


def test_a_flow_at_rest_is_refused(tmp_path):
    with pytest.raises(StageError, match=r"nothing moves.*0 m/s"):
        write_case(tmp_path, [0.0], None)


def test_a_flow_without_openings_has_lines_and_paths_but_no_age(tmp_path):
    """In the box that repeats nothing comes in or leaves: all that can be told is the limit."""
    nodes = plain_box().nodes
    velocity = abc(nodes.points_mm(), 12)
    with FlowWriter(tmp_path / "flow.vtkhdf", nodes) as writer:
        fields = velocity, np.zeros(nodes.count), np.zeros((nodes.count, 6))
        writer.append(1.0, *fields)
        writer.average(*fields, statistics=steady_statistics(velocity, fields[2], 3.5e-3, 1060.0))
    monitor = {"time_s": np.ones(1), "max_speed_m_s": np.full(1, 3e-3)}
    settings = parse(TraceSettings, SETTINGS, "test")
    flow = read_flow(tmp_path / "flow.vtkhdf")
    traced = trace.trace(nodes, flow, monitor, None, settings, logging.getLogger("test"))
    assert len(traced.lines) > 5
    assert len(traced.paths.left) == SETTINGS["pathlines"]
    assert (traced.paths.left == 0).all()
    limit = traced.numbers["limit_s"]
    assert (traced.entry.time_s == limit).all()
    assert (traced.exit.time_s == limit).all()
    assert traced.numbers["volume_over_inflow_s"] is None
    assert traced.numbers["outlets"] == []
    assert traced.numbers["warnings"] == []
    np.testing.assert_allclose(traced.paths.lasted_s(), limit)


def pictures_of(path):
    image = Image.open(path)
    return image, [np.asarray(frame.convert("RGB")).astype(int) for frame in ImageSequence.Iterator(image)]


@pytest.mark.parametrize("flow", ["steady", "pulse"])
def test_the_picture_moves_repeats_and_is_small(flow, request):
    path = request.getfixturevalue(flow) / "particles.gif"
    image, frames = pictures_of(path)
    assert len(frames) == SETTINGS["frames"]
    assert image.info["loop"] == 0  # for ever
    assert path.stat().st_size <= animation.MAX_BYTES
    changes = [np.abs(a - b).max(axis=2) > 40 for a, b in zip(frames, [*frames[1:], frames[0]], strict=True)]
    shares = np.array([change.mean() for change in changes])
    assert (shares > 1e-3).all()
    assert shares[-1] < 2 * np.median(shares)  # from the last to the first no more than between others


def test_without_a_library_to_draw_with_there_are_flat_pictures(steady, tmp_path, monkeypatch):
    monkeypatch.setattr(render, "window_class", lambda: None)
    for name in ("nodes.h5", "flow.vtkhdf", "surface.vtp", "monitor.csv", "solve.json"):
        (tmp_path / name).symlink_to(steady / name)
    _, frames = pictures_of(run(tmp_path) / "particles.gif")
    assert len(frames) == SETTINGS["frames"]
    assert all((a != b).any() for a, b in itertools.pairwise(frames))


def test_the_flat_picture_shows_the_vessel_where_it_is():
    """Wall from -4 to 4 mm by -2 to 2 mm, in a view of 20 by 10 mm: its rectangle is tinted, the rest is white."""
    first, second, axis = PIPE.frame()
    wall = PIPE.surface(0.3)
    view = front_view(wall.points_mm)
    view = type(view)(axis, first, -second, np.zeros(3), 20.0, 10.0)
    line = np.column_stack((np.linspace(-3, 3, 10)[:, None] * axis, np.full(10, 1.0)))
    image = animation.draw_flat(Mesh(wall.points_mm, wall.triangles, wall.opening), [line], 2.0, (0.0, 1.0), view, 400)
    assert image.shape == (200, 400, 3)
    assert (image[10, 10] == 255).all()
    tinted = (image < 250).any(axis=2).mean()
    assert tinted == pytest.approx(PIPE.length_mm * 2 * PIPE.radius_mm / 200, rel=0.08)  # and its edge
    assert image[100, 200, 0] > 200  # the end of the map, yellow: much red,
    assert image[100, 200, 2] < 100  # little blue


def test_a_large_picture_is_made_smaller_until_its_file_is(monkeypatch):
    monkeypatch.setattr(animation, "MAX_BYTES", 60_000)
    noise = np.random.default_rng(0).integers(0, 255, (4, 200, 200, 3)).astype(np.uint8)
    gif = animation._to_gif([Image.fromarray(each) for each in noise])
    assert len(gif) <= 60_000
    with Image.open(io.BytesIO(gif)) as image:
        assert image.n_frames == 4
        assert image.width < 200


def test_the_caption_leaves_the_picture_as_it_is_and_tells_the_time():
    view = front_view(PIPE.surface(0.3).points_mm)
    caption = animation._Caption(view, (0.0, 1.0), 1.0)
    scale = caption.longest / max(view.width_mm, view.height_mm)
    size = round(view.height_mm * scale), round(view.width_mm * scale)
    image = np.random.default_rng(1).integers(0, 255, (*size, 3)).astype(np.uint8)
    first, second = (np.asarray(caption.around(image, words)) for words in ("0.1 s", "0.2 s"))
    left, top = caption._place
    shown = first[top : top + size[0], left : left + size[1]]
    assert (shown == image).all(axis=2).mean() > 0.95  # but for the letters, the scale bar and the time
    rows, columns = np.nonzero((first != second).any(axis=2))
    assert 0 < len(rows) < 500  # pixels of one digit, in the corner
    assert rows.max() < top + 30
    assert columns.max() < left + 60


def test_the_size_of_pictures_is_foreseen_by_two_pairs_of_them(monkeypatch):
    """A file of 12 pictures that change alike is as large as was expected, within the tenth that noise differs by."""
    monkeypatch.setattr(animation, "MAX_BYTES", 150_000)
    noise = np.random.default_rng(2).integers(0, 255, (12, 150, 150, 3)).astype(np.uint8)
    pictures = [Image.fromarray(each) for each in noise]
    factor = animation._fitting([*pictures[:2], *pictures[6:8]], len(pictures))
    assert factor < 1
    encoded = animation._encoded(animation._scaled(pictures, factor), animation._palette(pictures[:2]))
    assert len(encoded) <= 1.1 * animation.MAX_BYTES
    one_larger = factor / animation.SMALLER
    larger = animation._encoded(animation._scaled(pictures, one_larger), animation._palette(pictures[:2]))
    assert len(larger) > 0.9 * animation.MAX_BYTES
