# SPDX-License-Identifier: Apache-2.0
"""The lattice's statistics and the wall over time: values against formulas, and files that VTK reads back."""

import json

import numpy as np
import pytest
from vtkmodules.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkIOHDF import vtkHDFReader

from pipeline.files.mesh import write_openings
from pipeline.haemodynamics.vortices import Volume
from solver.domain import nodes as node_files
from solver.run.flow_file import FlowStatistics, FlowWriter, read_flow, steady_statistics
from tests.support.analytic_pipe import Pipe
from tests.support.command_lines import run_here
from tests.support.postprocess_files import INPUTS, OUTPUTS

FACTORS = (0.5, 1.5, 1.0, 0.2)
MEAN, SQUARES = np.mean(FACTORS), np.mean(np.square(FACTORS))


def still(pipe, nodes):
    points = nodes.points_mm()
    return pipe.velocity(points), pipe.pressure(points), pipe.stress(points)


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """Poiseuille's flow times a factor each time, by the command line of the stage."""
    folder, pipe = tmp_path_factory.mktemp("volume"), Pipe()
    nodes = pipe.nodes(0.25)
    node_files.save(nodes, folder / "nodes.h5")
    pipe.surface(0.25).write(folder / "surface.vtp")
    write_openings(nodes.openings, folder / "openings.json")
    velocity, pressure, stress = still(pipe, nodes)
    one = steady_statistics(velocity, stress, pipe.viscosity_pa_s, pipe.density_kg_m3)
    statistics = FlowStatistics(
        max(FACTORS) * one.speed_peak_m_s,
        SQUARES * one.kinetic_energy_mean_j_m3,
        MEAN * one.shear_rate_mean_1_s,
        SQUARES * one.dissipation_mean_w_m3,
    )
    with FlowWriter(folder / "flow.vtkhdf", nodes) as writer:
        for k, factor in enumerate(FACTORS):
            writer.append(0.1 * k, factor * velocity, factor * pressure, factor * stress)
        writer.average(MEAN * velocity, MEAN * pressure, MEAN * stress, statistics=statistics)
    rows = [f"{0.1 * k},0.1,{f * pipe.flow_ml_s},{f * pipe.flow_ml_s},0,0" for k, f in enumerate(FACTORS)]
    columns = "time_s,mach,flow_ml_s:inlet,flow_ml_s:outlet,pressure_pa:inlet,pressure_pa:outlet"
    (folder / "monitor.csv").write_text("\n".join([columns, *rows]) + "\n")
    numbers = {"density_kg_m3": pipe.density_kg_m3, "viscosity_m2_s": pipe.viscosity_pa_s / pipe.density_kg_m3}
    summary = {
        "converged": True,
        "mach": 0.1,
        "warnings": [],
        "numbers": numbers,
        "openings": {"inlet": {}, "outlet": {}},
    }
    (folder / "solve.json").write_text(json.dumps(summary))
    files = INPUTS | OUTPUTS | {"provenance": "postprocess.provenance.json"}
    options = [part for role, name in files.items() for part in (f"--{role}", folder / name)]
    answer = run_here("pipeline.stages.postprocess", *options)
    assert answer.returncode == 0, answer.stderr
    return folder, pipe, nodes


def read(path, time_s=None):
    reader = vtkHDFReader()
    reader.SetFileName(str(path))
    reader.UpdateInformation()
    if time_s is None:
        reader.Update()
    else:
        reader.UpdateTimeStep(time_s)
    data = reader.GetOutputDataObject(0)
    arrays = data.GetPointData()
    return data, {arrays.GetArrayName(k): vtk_to_numpy(arrays.GetArray(k)) for k in range(arrays.GetNumberOfArrays())}


def test_wall_over_time_is_the_wall_of_each_time(case):
    folder, pipe, _ = case
    for k, factor in enumerate(FACTORS):
        data, arrays = read(folder / "wall_over_time.vtkhdf", 0.1 * k)
        assert data.GetClassName() == "vtkPolyData"
        assert data.GetNumberOfPolys() > 1000
        shear = factor * pipe.shear_stress_pa
        np.testing.assert_allclose(arrays["WSS magnitude (Pa)"], shear, rtol=5e-4)  # rims: as of wall.vtp
        np.testing.assert_allclose(arrays["WSS (Pa)"] @ pipe.frame()[2], shear, rtol=5e-4)
        points = vtk_to_numpy(data.GetPoints().GetData()).astype(float)
        np.testing.assert_allclose(arrays["pressure (Pa)"], factor * pipe.pressure(points), atol=1e-4)


def test_statistics_of_the_lattice_are_those_of_the_formula(case):
    """Means go with the mean of the factors, what is quadratic with the mean of their squares, vortices with the
    largest. In this flow the velocity is across its vorticity, and simple shear is no vortex.
    """
    folder, pipe, nodes = case
    data, arrays = read(folder / "flow_statistics.vtkhdf")
    velocity, pressure, _ = still(pipe, nodes)
    assert data.GetNumberOfPoints() == nodes.count
    np.testing.assert_allclose(arrays["mean velocity (m s-1)"], MEAN * velocity, atol=1e-7)
    np.testing.assert_allclose(arrays["mean pressure (mmHg)"], MEAN * pressure / 133.322387415, atol=1e-6)
    np.testing.assert_allclose(arrays["peak speed (m s-1)"], 1.5 * np.linalg.norm(velocity, axis=1), rtol=1e-6)
    energy = SQUARES * pipe.density_kg_m3 / 2 * (velocity**2).sum(axis=1)
    np.testing.assert_allclose(arrays["mean kinetic energy (J m-3)"], energy, rtol=1e-5)
    axis = pipe.frame()[2]
    along = nodes.points_mm() @ axis
    radius = np.linalg.norm(nodes.points_mm() - along[:, None] * axis, axis=1)
    slope = 4 * pipe.mean_speed_m_s * radius * 1e-3 / (pipe.radius_mm * 1e-3) ** 2
    inner = np.abs(along) < pipe.length_mm / 2 - 1  # differences at caps are one-sided
    steepest = slope.max()
    np.testing.assert_allclose(arrays["mean shear rate (s-1)"], MEAN * slope, atol=1e-4 * steepest)
    turning = np.linalg.norm(arrays["vorticity at peak inflow (s-1)"], axis=1)
    np.testing.assert_allclose(turning[inner], 1.5 * slope[inner], atol=1e-4 * steepest)
    for name in ("Q at peak inflow (s-2)", "lambda2 at peak inflow (s-2)"):
        np.testing.assert_allclose(arrays[name][inner], 0, atol=1e-3 * steepest**2)
    assert np.abs(arrays["mean helicity (m s-2)"][inner]).max() < 1e-3 * steepest * pipe.mean_speed_m_s


def test_figures_of_the_volume_are_those_of_the_pipe(case):
    """Against integrals over the round pipe; the nodes' boxes at 16 nodes across stand for its volume within 1 %, and
    for the dissipation, which is largest at the wall, within 3 %.
    """
    folder, pipe, _ = case
    found = json.loads((folder / "indices.json").read_text())["volume"]
    radius, length, speed = pipe.radius_mm * 1e-3, pipe.length_mm * 1e-3, pipe.mean_speed_m_s
    volume = np.pi * radius**2 * length
    assert found["volume_ml"] == pytest.approx(1e6 * volume, rel=0.01)
    assert found["mean_speed_m_s"] == pytest.approx(MEAN * speed, rel=0.01)
    assert found["kinetic_energy_j"] == pytest.approx(SQUARES * 1060 * 2 / 3 * speed**2 * volume, rel=0.01)
    dissipation = 8 * np.pi * pipe.viscosity_pa_s * speed**2 * length
    assert found["dissipation_w"] == pytest.approx(SQUARES * dissipation, rel=0.03)
    assert found["mean_shear_rate_1_s"] == pytest.approx(MEAN * 8 / 3 * speed / radius, rel=0.02)
    assert abs(found["helicity_h1_m_s2"]) < 0.05 * speed**2 / radius
    assert found["mean_viscosity_pa_s"] is None


def test_a_screw_has_the_helicity_of_its_hand(tmp_path):
    """Rotation w about the axis with a constant speed V along it: u.curl u = 2 w V, all of one hand: h3 = 1 or -1."""
    pipe = Pipe()
    nodes = pipe.nodes(0.4)
    axis, points = pipe.frame()[2], nodes.points_mm()
    turn, speed = 30.0, 0.2
    inner = np.abs(points @ axis) < pipe.length_mm / 2 - 1.5
    inner &= np.linalg.norm(points - (points @ axis)[:, None] * axis, axis=1) < pipe.radius_mm - 1.0
    for hand in (1, -1):
        velocity = speed * axis + hand * turn * np.cross(axis, points * 1e-3)
        volume = Volume(nodes, 0)
        volume.add(velocity.astype(np.float32))
        with FlowWriter(tmp_path / f"{hand}.vtkhdf", nodes) as writer:
            fields = velocity, np.zeros(nodes.count), np.zeros((nodes.count, 6))
            writer.append(0.0, *fields)
            writer.average(*fields, statistics=steady_statistics(velocity, fields[2], 3.5e-3, 1060.0))
        arrays = volume.arrays(read_flow(tmp_path / f"{hand}.vtkhdf"))
        np.testing.assert_allclose(arrays["helicity (m s-2)"][inner], hand * 2 * turn * speed, rtol=1e-3)
        np.testing.assert_allclose(arrays["Q (s-2)"][inner], turn**2, rtol=1e-3)
        np.testing.assert_allclose(arrays["lambda2 (s-2)"][inner], -(turn**2), rtol=1e-3)
        assert (np.sign(arrays["local normalised helicity"][inner]) == hand).all()
