"""The flow file."""

import numpy as np
import pytest
from geometries import closed_box, pipe

from solver.flow import FlowWriter, read_flow, voxels
from solver.stage import StageError


def fields(nodes, seed):
    rng = np.random.default_rng(seed)
    return tuple(rng.random((nodes.count, *row)).astype(np.float32) for row in ((3,), (), (6,)))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    nodes, path = pipe((1, 2, 3), 4.2, 12, spacing_mm=0.3), tmp_path_factory.mktemp("flow") / "flow.vtkhdf"
    steps, means = [(0.5 * k, *fields(nodes, k)) for k in range(3)], fields(nodes, 3)
    with FlowWriter(path, nodes) as writer:
        for step in steps[:2]:
            writer.append(*step)
            writer.average(*step[1:])
        writer.start_over()  # what was written before is gone
        for step in steps:
            writer.append(*step)
        writer.average(*means)
    return nodes, path, steps, means


def test_what_is_written_is_read_back(written):
    nodes, path, steps, means = written
    flow = read_flow(path)
    assert flow.times_s.tolist() == [0, 0.5, 1]
    np.testing.assert_allclose(flow.points_mm, nodes.points_mm(), rtol=1e-6)
    for k in (0, 1, 2, -1):
        for read, wanted in zip(
            (flow.velocity_m_s, flow.pressure_pa, flow.viscous_stress_pa), steps[k][1:], strict=True
        ):
            np.testing.assert_array_equal(read(k), wanted)
    for read, wanted in zip(
        (flow.velocity_mean_m_s, flow.pressure_mean_pa, flow.viscous_stress_mean_pa), means, strict=True
    ):
        np.testing.assert_array_equal(read(), wanted)


def test_vtk_reads_mesh_times_and_fields(written):
    pytest.importorskip("vtkmodules")
    from vtkmodules.util.numpy_support import vtk_to_numpy
    from vtkmodules.vtkCommonExecutionModel import vtkStreamingDemandDrivenPipeline as Pipeline
    from vtkmodules.vtkIOHDF import vtkHDFReader

    nodes, path, steps, means = written
    reader = vtkHDFReader()
    reader.SetFileName(str(path))
    reader.UpdateInformation()
    times = reader.GetOutputInformation(0).Get(Pipeline.TIME_STEPS())
    assert list(times) == [0, 0.5, 1]
    for time, *arrays in steps:
        reader.UpdateTimeStep(time)
        grid = reader.GetOutput()
        assert grid.GetNumberOfPoints() == nodes.count
        assert grid.GetNumberOfCells() == len(voxels(nodes)) > 0
        names = ["velocity_m_s", "pressure_pa", "viscous_stress_pa"]
        names += ["velocity_mean_m_s", "pressure_mean_pa", "viscous_stress_mean_pa"]
        for name, wanted in zip(names, (*arrays, *means), strict=True):
            np.testing.assert_array_equal(vtk_to_numpy(grid.GetPointData().GetArray(name)), wanted)
    bounds = np.array([grid.GetCell(k).GetBounds() for k in range(grid.GetNumberOfCells())])
    np.testing.assert_allclose(np.diff(bounds.reshape(-1, 3, 2)), 0.3, rtol=1e-4)  # corners in the right order


def test_a_box_of_nodes_is_a_box_of_voxels():
    cells = voxels(closed_box((4, 3, 2)))
    assert len(cells) == 3 * 2 * 1
    assert cells[0].tolist() == [0, 1, 4, 5, 12, 13, 16, 17]


def test_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / "flow.vtkhdf"
    path.write_text("nothing")
    with pytest.raises(StageError, match="cannot be read as a flow file"):
        read_flow(path)
    with FlowWriter(path, closed_box((3, 3, 3))):
        pass
    with pytest.raises(StageError, match="holds 0 time steps"):
        read_flow(path)
    nodes = closed_box((3, 3, 3))
    with FlowWriter(path, nodes) as writer:
        writer.append(0.0, *fields(nodes, 0))
    with pytest.raises(StageError, match="not complete"):  # the run broke off before its means
        read_flow(path)
