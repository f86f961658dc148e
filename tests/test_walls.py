"""Walls: where they are, at which order, and what they conserve."""

import numpy as np
import pytest
from geometries import closed_box, periodic_box, periodic_pipe, pipe_radius, plates, random_cavern

from solver.collision import relaxation_rates
from solver.cpu.driver import CpuDriver
from solver.d3q19 import VELOCITIES, WEIGHTS
from solver.lattice import build_lattice
from solver.stage import StageError


def run(driver, steps):
    driver.advance(np.zeros((steps, driver.lattice.openings)))


@pytest.mark.parametrize("magic", [3 / 16, 1 / 4, 1 / 12])
@pytest.mark.parametrize("height", [5, 8])
def test_half_way_plates_slip_as_the_magic_parameter_says(magic, height):
    # u_slip / u_max = (16 Lambda - 3) / (3 H^2), exact for TRT; Ginzburg and d'Humieres 2003
    viscosity, force = 1 / 6, 1e-5
    lattice = build_lattice(
        plates(height), "trt", relaxation_rates(1.0, magic), "half-way", "fp64", None, (force, 0, 0)
    )
    driver = CpuDriver(lattice)
    run(driver, 4000)
    z = np.arange(height) - (height - 1) / 2
    u_max = force * height**2 / (8 * viscosity)
    wanted = u_max * (1 - (2 * z / height) ** 2 + (16 * magic - 3) / (3 * height**2))
    np.testing.assert_allclose(driver.fields().velocity[0], wanted, rtol=1e-12)


def pipe_error(direction, radius, walls):
    """Relative L2 error of the forced flow through an endless pipe, and the driver."""
    nodes = periodic_pipe(direction, radius)
    tau, peak = 0.8, 0.5 / radius  # diffusive scaling: the error of compressibility falls with the square, too
    viscosity = (tau - 0.5) / 3
    unit = np.array(direction) / np.linalg.norm(direction)
    force = 4 * viscosity * peak / radius**2 * unit
    lattice = build_lattice(nodes, "trt", relaxation_rates(tau, 3 / 16), walls, "fp64", None, tuple(force))
    driver = CpuDriver(lattice)
    run(driver, 2 * round(1.2 * radius**2 / viscosity))  # the slowest mode has decayed by exp(-5.78 * 2.4)
    velocity = unit @ driver.fields().velocity
    wanted = peak * (1 - (pipe_radius(nodes, direction) / radius) ** 2)
    return np.linalg.norm(velocity - wanted) / np.linalg.norm(wanted), driver


def test_poiseuille_in_a_tilted_pipe_converges_at_second_order():
    coarse, fine = (pipe_error((2, 3, 6), radius, "bouzidi")[0] for radius in (5.2, 10.4))
    assert fine < 3e-3
    assert np.log2(coarse / fine) > 1.8


@pytest.mark.slow
@pytest.mark.parametrize("direction", [(1, 0, 0), (1, 1, 0), (1, 2, 3), (2, 3, 6)])
def test_poiseuille_along_any_direction(direction):
    errors = [pipe_error(direction, radius, "bouzidi")[0] for radius in (5.2, 10.4, 15.6)]
    assert errors[1] < 3e-3
    assert np.log(errors[0] / errors[2]) / np.log(3) > 1.8
    assert pipe_error(direction, 10.4, "half-way")[0] > 3 * errors[1]


def test_walls_take_up_the_force_on_the_fluid():
    force = 1e-6 * np.ones(3)
    nodes = periodic_pipe((1, 1, 1), 4.6)  # sides are odd: even ones would keep a momentum that alternates in time
    lattice = build_lattice(nodes, "trt", relaxation_rates(0.9, 3 / 16), "half-way", "fp64", None, tuple(force))
    driver = CpuDriver(lattice)
    run(driver, 2000)
    g = driver.populations.reshape(19, -1)
    direction, node = nodes.wall_link_direction, nodes.wall_link_node
    returned = g[direction + np.where(direction % 2, 1, -1), node]
    # a population that is turned round gives twice its momentum to the wall
    taken = 2 * returned @ VELOCITIES[direction]
    np.testing.assert_allclose(taken, nodes.count * force, rtol=1e-9)


def stirred(nodes, walls, precision):
    driver = CpuDriver(build_lattice(nodes, "trt", relaxation_rates(0.6, 0.05), walls, precision))
    g = driver.populations.reshape(19, -1)[:, : nodes.count]
    z = nodes.position[:, 2]
    u = 0.05 * np.sin(2 * np.pi * z / z.max())
    g[:] = 3 * WEIGHTS[:, None] * VELOCITIES[:, :1] * u
    return driver, g


@pytest.mark.parametrize(("walls", "precision", "tolerance"), [
    ("half-way", "fp64", 1e-11), ("bouzidi", "fp64", 1e-11), ("half-way", "fp32", 1e-3), ("bouzidi", "fp32", 1e-3)
])  # fmt: skip
def test_closed_domain_keeps_its_mass(walls, precision, tolerance):
    nodes = random_cavern((10, 9, 8), 5, openings=False)
    driver, g = stirred(nodes, walls, precision)
    before = g.sum(dtype=np.float64)
    run(driver, 500)
    # shifted mass is zero in the mean: the tolerance is round-off of some 1e2 nodes of size 1e-2 over 500 steps
    assert g.sum(dtype=np.float64) == pytest.approx(before, abs=tolerance)


def test_fluid_at_rest_in_a_box_stays_at_rest():
    driver = CpuDriver(build_lattice(closed_box((5, 4, 3)), "trt", relaxation_rates(0.7, 3 / 16), "bouzidi", "fp32"))
    run(driver, 20)
    assert not driver.populations.any()


@pytest.mark.parametrize("plane", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
def test_taylor_green_vortex_decays_at_second_order(plane):
    errors = [taylor_green_error(plane, n) for n in (32, 64)]
    assert np.log2(errors[0] / errors[1]) > 1.95


def taylor_green_error(plane, n):
    """Relative L2 error after the vortex has decayed to exp(-1), at tau 0.8 in diffusive scaling."""
    a, b, c = plane
    size = [0, 0, 0]
    size[a] = size[b] = n
    size[c] = 1
    nodes, tau, u0 = periodic_box(tuple(size)), 0.8, 0.64 / n
    viscosity, k = (tau - 0.5) / 3, 2 * np.pi / n
    x, y = (nodes.position[:, axis] * k for axis in (a, b))
    u = np.zeros((3, nodes.count))
    u[a], u[b] = -u0 * np.cos(x) * np.sin(y), u0 * np.sin(x) * np.cos(y)
    drho = -3 * u0**2 / 4 * (np.cos(2 * x) + np.cos(2 * y))
    shear = u0 * k * np.sin(x) * np.sin(y)  # du_a/da = -du_b/db; the off-diagonal rates cancel
    driver = CpuDriver(build_lattice(nodes, "trt", relaxation_rates(tau, 3 / 16), "bouzidi", "fp64"))
    velocity, w = VELOCITIES.astype(float), WEIGHTS[:, None]
    cu = velocity @ u
    viscous = (velocity[:, a, None] ** 2 - velocity[:, b, None] ** 2) * shear
    g = w * (drho + 3 * cu + 4.5 * cu**2 - 1.5 * (u**2).sum(axis=0) - 3 * tau * viscous)
    driver.populations.reshape(19, -1)[:, : nodes.count] = g
    steps = 2 * round(1 / (2 * viscosity * k**2) / 2)
    run(driver, steps)
    wanted = u * np.exp(-2 * viscosity * k**2 * steps)
    return np.linalg.norm(driver.fields().velocity - wanted) / np.linalg.norm(wanted)


def test_unknown_scheme_is_told_the_known_ones():
    with pytest.raises(StageError, match="'guo': unknown; known are bouzidi, half-way, yu, cli"):
        build_lattice(closed_box((3, 3, 3)), "trt", (1.0, 1.0), "guo")
