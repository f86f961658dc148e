# SPDX-License-Identifier: Apache-2.0
"""The flow file."""

import numpy as np
import pytest

from solver.run.flow_file import FlowStatistics, FlowWriter, read_flow, steady_statistics
from solver.runtime.errors import StageError
from tests.support.geometries import closed_box, pipe, voxels


def fields(nodes, seed, rows=((3,), (), (6,))):
    rng = np.random.default_rng(seed)
    return tuple(rng.random((nodes.count, *row)).astype(np.float32) for row in rows)


def statistics(nodes, seed):
    return FlowStatistics(*fields(nodes, seed, [()] * 4))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    nodes, path = pipe((1, 2, 3), 4.2, 12, spacing_mm=0.3), tmp_path_factory.mktemp("flow") / "flow.vtkhdf"
    steps, means = [(0.5 * k, *fields(nodes, k)) for k in range(3)], (*fields(nodes, 3), *statistics(nodes, 4))
    with FlowWriter(path, nodes) as writer:
        for step in steps[:2]:
            writer.append(*step)
            writer.average(*step[1:], statistics=statistics(nodes, 5))
        writer.start_over()  # what was written before is gone
        for step in steps:
            writer.append(*step)
        writer.average(*means[:3], statistics=FlowStatistics(*means[3:]))
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
    of_means = flow.velocity_mean_m_s, flow.pressure_mean_pa, flow.viscous_stress_mean_pa
    of_statistics = flow.speed_peak_m_s, flow.kinetic_energy_mean_j_m3, flow.shear_rate_mean_1_s
    for read, wanted in zip((*of_means, *of_statistics, flow.dissipation_mean_w_m3), means, strict=True):
        np.testing.assert_array_equal(read(), wanted)
    assert flow.viscosity_pa_s(0) is None
    assert flow.viscosity_mean_pa_s() is None


def test_viscosity_that_varies_is_read_back_with_its_mean(tmp_path):
    nodes, path = closed_box((4, 3, 3)), tmp_path / "flow.vtkhdf"
    (now,), (mean,) = fields(nodes, 1, [()]), fields(nodes, 2, [()])
    with FlowWriter(path, nodes, varying=True) as writer:
        writer.append(0.0, *fields(nodes, 0), now)
        writer.average(*fields(nodes, 0), mean, statistics=statistics(nodes, 0))
    np.testing.assert_array_equal(read_flow(path).viscosity_pa_s(0), now)
    np.testing.assert_array_equal(read_flow(path).viscosity_mean_pa_s(), mean)


@pytest.mark.parametrize("viscosity", [3.5e-3, np.array([3.5e-3, 7e-3])])
def test_statistics_of_a_steady_flow_are_those_of_plain_shear(viscosity):
    """u = g y along x, and a stretch by s along x that shrinks y and z by half of it: 2 S:S is g^2, and 3 s^2."""
    shear, stretch, density = 200.0, 30.0, 1060.0
    velocity = np.array([(0.1, 0.2, -0.2), (0.0, 0.0, 0.4)])
    rates = np.array([(0, 0, 0, shear / 2, 0, 0), (stretch, -stretch / 2, -stretch / 2, 0, 0, 0)])
    found = steady_statistics(velocity, 2 * np.broadcast_to(viscosity, 2)[:, None] * rates, viscosity, density)
    np.testing.assert_allclose(found.speed_peak_m_s, (0.3, 0.4))
    np.testing.assert_allclose(found.kinetic_energy_mean_j_m3, density / 2 * np.array((0.09, 0.16)))
    np.testing.assert_allclose(found.shear_rate_mean_1_s, (shear, 3**0.5 * stretch))
    np.testing.assert_allclose(found.dissipation_mean_w_m3, viscosity * np.array((shear**2, 3 * stretch**2)))


@pytest.mark.parametrize("count", [1, 4])
def test_file_is_little_more_than_its_numbers(count, tmp_path):
    """Mesh, chunks and HDF5's own numbers are below 0.3 of the payload, for a mesh of two chunks a time step as well
    as for one that was begun over.
    """
    nodes, path = pipe((1, 2, 3), 20.2, 60), tmp_path / "flow.vtkhdf"
    assert 65536 < nodes.count < 2 * 65536
    values = fields(nodes, 0)
    with FlowWriter(path, nodes) as writer:
        for start in range(2):
            if start:
                writer.start_over()
            for k in range(count):
                writer.append(float(k), *values)
        writer.average(*values, statistics=statistics(nodes, 0))
    assert path.stat().st_size < 1.3 * nodes.count * (40 * count + 56)


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
        names = ["velocity (m s-1)", "pressure (Pa)", "viscous stress (Pa)"]
        names += ["mean velocity (m s-1)", "mean pressure (Pa)", "mean viscous stress (Pa)", "peak speed (m s-1)"]
        names += ["mean kinetic energy (J m-3)", "mean shear rate (s-1)", "mean viscous dissipation (W m-3)"]
        for name, wanted in zip(names, (*arrays, *means), strict=True):
            np.testing.assert_array_equal(vtk_to_numpy(grid.GetPointData().GetArray(name)), wanted)
    np.testing.assert_array_equal(vtk_to_numpy(grid.GetCells().GetConnectivityArray()), voxels(nodes).ravel())
    np.testing.assert_array_equal(vtk_to_numpy(grid.GetPoints().GetData()), nodes.points_mm().astype(np.float32))
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
