# SPDX-License-Identifier: Apache-2.0
"""The script for ParaView, run against a record of ParaView's names; VTK's own readers on the files that it names.

ParaView itself did not run it: see :mod:`paraview_record`.
"""

import json
import logging

import numpy as np
import pytest
from vtkmodules.util.numpy_support import numpy_to_vtk, vtk_to_numpy
from vtkmodules.vtkCommonCore import vtkPoints
from vtkmodules.vtkCommonDataModel import vtkCellArray, vtkPolyData
from vtkmodules.vtkCommonExecutionModel import vtkStreamingDemandDrivenPipeline as Streaming
from vtkmodules.vtkIOHDF import vtkHDFReader
from vtkmodules.vtkIOXML import vtkXMLPolyDataReader, vtkXMLPolyDataWriter

from pipeline.haemodynamics.wall_shear_stress import Wall
from pipeline.reporting.colours import AMBIENT, DIFFUSE, LIGHTNESS, colour_map, lightness
from pipeline.reporting.quantities import read_wall
from pipeline.stages.paraview import MOST_STATISTICS, _compute
from solver.run.flow_file import FlowStatistics, FlowWriter
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job
from tests.support import paraview_record
from tests.support.analytic_pipe import Pipe
from tests.support.geometries import half_way_walls, nodes_from

SPACING_MM = 0.4
PULSE = (0.5, 1.0)
"""Factors on the flow at the two times."""


def write_lines(path, name, values):
    """A polyline of so many points with a scalar array."""
    points, cells, polydata = vtkPoints(), vtkCellArray(), vtkPolyData()
    cells.InsertNextCell(len(values))
    for k in range(len(values)):
        cells.InsertCellPoint(points.InsertNextPoint(0.1 * k, 0.2 * k, 0.3 * k))
    polydata.SetPoints(points)
    polydata.SetLines(cells)
    array = numpy_to_vtk(np.asarray(values, np.float32), deep=True)
    array.SetName(name)
    polydata.GetPointData().AddArray(array)
    writer = vtkXMLPolyDataWriter()
    writer.SetFileName(str(path))
    writer.SetInputData(polydata)
    writer.Write()


def job(folder, **more):
    inputs = {"wall": folder / "wall.vtp", "flow": folder / "flow.vtkhdf"} | more
    outputs = {"script": folder / "open-in-paraview.py"}
    return Job("paraview", inputs, outputs, {"case": "pipe"}, logging.getLogger("test"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Flow through a pipe at two times, as solve and postprocess leave it, with a script beside it."""
    folder = tmp_path_factory.mktemp("results")
    pipe = Pipe(length_mm=8.0)
    nodes = pipe.nodes(SPACING_MM)
    points = nodes.points_mm()
    with FlowWriter(folder / "flow.vtkhdf", nodes) as writer:
        for k, factor in enumerate(PULSE):
            writer.append(
                0.1 * k, factor * pipe.velocity(points), factor * pipe.pressure(points), factor * pipe.stress(points)
            )
        fields = pipe.velocity(points), pipe.pressure(points), pipe.stress(points)
        writer.average(*fields, statistics=pipe.statistics(points))
    mesh = Wall.of(pipe.surface(0.4)).mesh
    count = len(mesh.points_mm)
    arrays = {
        "WSS (Pa)": np.ones((count, 3), np.float32),
        "TAWSS (Pa)": np.linspace(0, 2, count, dtype=np.float32),
        "OSI": np.linspace(0, 0.5, count, dtype=np.float32),
        "pressure (Pa)": np.linspace(1e4, 1.01e4, count, dtype=np.float32),
    }
    mesh.write(folder / "wall.vtp", arrays)
    write_lines(folder / "streamlines.vtp", "speed (m s-1)", np.linspace(0, 0.2, 50))
    write_lines(folder / "centreline_flow.vtp", "pressure (mmHg)", np.linspace(80, 79, 50))
    with FlowWriter(folder / "flow_statistics.vtkhdf", nodes) as writer:
        fields = pipe.velocity(points), pipe.pressure(points), pipe.stress(points)
        writer.append(0.1, *fields)
        writer.average(*fields, statistics=pipe.statistics(points))
    return folder


def panels_of(record):
    """Source, view, representation and colours of what has colours."""
    return [
        (source, view, display, record.colours[display.ColorArrayName[1]])
        for source, view, display in record.shown
        if source.kind != "Text" and display.ColorArrayName
    ]


def test_four_views_show_stress_oscillation_and_two_planes_of_the_flow(folder):
    _compute(job(folder))
    record = paraview_record.run(folder / "open-in-paraview.py")
    (layout,) = record.layouts
    assert [split for split, *_ in layout.calls[:3]] == ["SplitHorizontal", "SplitVertical", "SplitVertical"]
    assert [place for place, _ in layout.called("AssignView")] == [3, 5, 4, 6]
    assert len(record.views) == 4
    shown = panels_of(record)
    assert [display.ColorArrayName for _, _, display, _ in shown] == [
        ("POINTS", "TAWSS (Pa)"),
        ("POINTS", "OSI"),
        ("POINTS", "velocity (m s-1)", "Magnitude"),
        ("POINTS", "velocity (m s-1)", "Magnitude"),
    ]
    titles = [record.bars[id(colours), id(view)].Title for _, view, _, colours in shown]
    assert titles == ["time-averaged wall shear stress (Pa)", "oscillatory shear index"] + ["speed (m/s)"] * 2
    assert [source.kind for source, *_ in shown] == ["XMLPolyDataReader"] * 2 + ["Slice"] * 2
    normals = [source.SliceType.Normal for source, *_ in shown[2:]]
    np.testing.assert_allclose(np.dot(*normals), 0, atol=1e-5)
    assert record.animation.called("GoToLast") == [()]
    assert [record.views.index(other) for _, other in record.links] == [1, 2]  # the fourth looks from the side


def test_colours_ranges_and_light_are_those_of_the_report(folder):
    _compute(job(folder))
    record = paraview_record.run(folder / "open-in-paraview.py")
    points = {name: np.reshape(colours.RGBPoints, (-1, 4)) for name, colours in record.colours.items()}
    for name, colours in record.colours.items():
        assert (np.diff(points[name][:, 0]) > 0).all()
        assert colours.AutomaticRescaleRangeMode == "Never"
        light = lightness(points[name][:, 1:])
        assert LIGHTNESS[0] - 1 < light[0] < light[-1] < LIGHTNESS[1] + 1  # four digits of a colour
    for _, _, display, _ in panels_of(record):
        assert (display.Ambient, display.Diffuse, display.Specular) == (AMBIENT, DIFFUSE, 0.0)
    _, shown = read_wall(folder / "wall.vtp")
    in_report = {each.label: each for each in shown}
    for name, label in (("TAWSS (Pa)", "time-averaged wall shear stress (Pa)"), ("OSI", "oscillatory shear index")):
        quantity = in_report[label]
        np.testing.assert_allclose(points[name][[0, -1], 0], quantity.limits, rtol=1e-5)  # six digits
        assert record.colours[name].UseLogScale == quantity.log
        expected = colour_map(quantity.colours)(np.linspace(0, 1, len(points[name])))[:, :3]
        np.testing.assert_allclose(points[name][:, 1:], expected, atol=1e-5)
    # the stress grows along the pipe's rings from 0 to 2 Pa, evenly: from 1 % to 99 % of it are more than a factor of
    # thirty; to half of one of the 20 rings
    np.testing.assert_allclose(points["TAWSS (Pa)"][[0, -1], 0], [0.01 * 2, 0.99 * 2], atol=0.05)
    assert record.colours["TAWSS (Pa)"].UseLogScale == 1
    np.testing.assert_allclose(np.diff(np.log(points["TAWSS (Pa)"][:, 0]), 2), 0, atol=1e-4)
    low, *_, high = points["velocity (m s-1)"][:, 0]
    assert low == 0
    assert 0.95 < high / (2 * 0.1) <= 1  # twice the mean speed on the axis, which a node is near, at the faster time


def test_a_flow_of_one_layer_is_shown_whole_and_lines_that_are_not_there_are_not(folder, tmp_path):
    """A plane through squares that lie in it cuts nothing."""
    (tmp_path / "wall.vtp").write_bytes((folder / "wall.vtp").read_bytes())
    nodes = nodes_from(np.ones((4, 1, 5), bool), half_way_walls, (), (False, True, False))
    fields = np.ones((nodes.count, 3)), np.ones(nodes.count), np.ones((nodes.count, 6))
    with FlowWriter(tmp_path / "flow.vtkhdf", nodes) as writer:
        writer.append(0.0, *fields)
        writer.average(*fields, statistics=FlowStatistics(*np.ones((4, nodes.count))))
    write_lines(tmp_path / "streamlines.vtp", "speed (m s-1)", [])
    _compute(job(tmp_path, streamlines=tmp_path / "streamlines.vtp"))
    shown = panels_of(paraview_record.run(tmp_path / "open-in-paraview.py"))
    assert [source.kind for source, *_ in shown] == ["XMLPolyDataReader"] * 2 + ["VTKHDFReader"] * 2


def test_pressures_are_not_shown_from_zero(folder, tmp_path):
    for name in ("wall.vtp", "flow.vtkhdf"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    reader = vtkXMLPolyDataReader()
    reader.SetFileName(str(tmp_path / "wall.vtp"))
    reader.Update()
    polydata = reader.GetOutput()
    for name in ("OSI", "TAWSS (Pa)"):
        polydata.GetPointData().RemoveArray(name)
    steady = numpy_to_vtk(np.ones(polydata.GetNumberOfPoints(), np.float32), deep=True)
    steady.SetName("WSS magnitude (Pa)")
    polydata.GetPointData().AddArray(steady)
    writer = vtkXMLPolyDataWriter()
    writer.SetFileName(str(tmp_path / "wall.vtp"))
    writer.SetInputData(polydata)
    writer.Write()
    _compute(job(tmp_path))
    record = paraview_record.run(tmp_path / "open-in-paraview.py")
    low, high = record.colours["pressure (Pa)"].RGBPoints[0], record.colours["pressure (Pa)"].RGBPoints[-4]
    assert 1e4 <= low < high <= 1.01e4
    assert {"WSS magnitude (Pa)", "pressure (Pa)", "velocity (m s-1)"} == set(record.colours)


def test_the_head_is_up_and_the_axes_are_named_in_patient_directions(folder):
    _compute(job(folder))
    for newer in (True, False):
        record = paraview_record.run(folder / "open-in-paraview.py", newer)
        assert {source.Text for source in record.sources if source.kind == "Text"} == {
            "x: left (L), y: posterior (P), z: head (H); mm"
        }
        for view in record.views:
            toward = np.subtract(view.CameraPosition, view.CameraFocalPoint)
            assert view.CameraViewUp[2] > 0  # the pipe is not seen from head or feet
            np.testing.assert_allclose(np.dot(toward, view.CameraViewUp) / np.linalg.norm(toward), 0, atol=1e-5)
            assert view.OrientationAxesVisibility == 1
            if newer:
                assert [view.values[f"OrientationAxes{axis}LabelText"] for axis in "XYZ"] == ["L", "P", "H"]
    assert record.views[0].CameraFocalPoint == record.views[0].CenterOfRotation


def test_files_that_other_stages_add_get_views_of_their_own(folder):
    more = {
        "streamlines": folder / "streamlines.vtp",
        "along": folder / "centreline_flow.vtp",
        "statistics": folder / "flow_statistics.vtkhdf",
    }
    _compute(job(folder, **more))
    record = paraview_record.run(folder / "open-in-paraview.py")
    shown = [display.ColorArrayName[1] for _, _, display, _ in panels_of(record)]
    assert shown[:5] == ["TAWSS (Pa)", "OSI", "velocity (m s-1)", "speed (m s-1)", "pressure (mmHg)"]
    assert len(shown[5:]) == len(set(shown[5:])) == MOST_STATISTICS
    assert len(record.layouts) == 3
    tubes = [source for source in record.sources if source.kind == "Tube"]
    assert len(tubes) == 2
    assert all(0 < tube.Radius < 0.2 for tube in tubes)


def test_the_folder_may_lie_anywhere_and_a_missing_file_is_reported(folder, tmp_path, monkeypatch):
    _compute(job(folder))
    copy = tmp_path / "elsewhere"
    copy.mkdir()
    for name in ("wall.vtp", "flow.vtkhdf", "open-in-paraview.py"):
        (copy / name).write_bytes((folder / name).read_bytes())
    assert str(folder) not in (copy / "open-in-paraview.py").read_text()
    record = paraview_record.run(copy / "open-in-paraview.py")
    assert all(source.FileName[0].startswith(str(copy)) for source in record.sources if "FileName" in source.values)
    monkeypatch.chdir(copy)
    assert len(paraview_record.run(copy / "open-in-paraview.py", with_file=False).views) == 4
    (copy / "flow.vtkhdf").unlink()
    with pytest.raises(FileNotFoundError, match="start ParaView in the folder of the results"):
        paraview_record.run(copy / "open-in-paraview.py")


def test_the_record_refuses_names_that_paraview_has_not(tmp_path):
    script = tmp_path / "script.py"
    for line in (
        'pv.Plot("x")',
        'pv.CreateView("RenderView").CameraZoom = 1',
        'pv.Text(registrationName="a", Words="b")',
    ):
        script.write_text("import paraview.simple as pv\n" + line)
        with pytest.raises((AttributeError, TypeError)):
            paraview_record.run(script)


def test_a_wall_without_stress_is_refused(folder, tmp_path):
    mesh = Wall.of(Pipe(length_mm=8.0).surface(0.8)).mesh
    mesh.write(tmp_path / "wall.vtp", {"OSI": np.zeros(len(mesh.points_mm), np.float32)})
    (tmp_path / "flow.vtkhdf").write_bytes((folder / "flow.vtkhdf").read_bytes())
    with pytest.raises(StageError, match="no array of the wall shear stress"):
        _compute(job(tmp_path))


def test_vtk_reads_wall_and_flow_at_both_times(folder):
    wall = vtkXMLPolyDataReader()
    assert wall.CanReadFile(str(folder / "wall.vtp"))
    wall.SetFileName(str(folder / "wall.vtp"))
    wall.Update()
    assert wall.GetOutput().GetPointData().GetArray("WSS (Pa)").GetNumberOfComponents() == 3
    flow = vtkHDFReader()
    assert flow.CanReadFile(str(folder / "flow.vtkhdf"))
    flow.SetFileName(str(folder / "flow.vtkhdf"))
    flow.UpdateInformation()
    times = flow.GetOutputInformation(0).Get(Streaming.TIME_STEPS())
    largest = []
    for time in times:
        flow.UpdateTimeStep(time)
        largest.append(np.abs(vtk_to_numpy(flow.GetOutput().GetPointData().GetArray("velocity (m s-1)"))).max())
    np.testing.assert_allclose(np.divide(largest, largest[-1]), PULSE, rtol=1e-6)  # float32


def test_the_scene_is_plain_data(folder):
    """No array or object of NumPy, whose words another Python would not read."""
    _compute(job(folder))
    text = (folder / "open-in-paraview.py").read_text()
    scene = text[text.index("SCENE = ") + len("SCENE = ") : text.index("\nHERE")]
    assert json.dumps(eval(scene, {"__builtins__": {}}))
