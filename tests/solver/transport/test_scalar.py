# SPDX-License-Identifier: Apache-2.0
"""The passive scalar: against the textbook's algorithm, on the CPU and on CUDA, and against laws of its equation."""

from dataclasses import replace

import numpy as np
import pytest

from solver.backends.cpu.transport_driver import CpuTransport
from solver.backends.scalar_lattice import scalar_lattice
from solver.domain.nodes import Neighbours
from solver.kernels.transport import scalar_rates
from solver.runtime.errors import StageError
from solver.transport.carrier import Carrier
from tests.support.geometries import half_way_walls, nodes_from, periodic_box, pipe, random_cavern
from tests.support.simulator import simulated
from validation.textbook_scalar import TextbookScalar

COMPARE = """
import sys
import numpy as np
from solver.backends.cpu.transport_driver import CpuTransport
from solver.backends.cuda.transport_driver import CudaTransport
from solver.backends.scalar_lattice import scalar_lattice
from solver.domain.nodes import Neighbours
from tests.support.geometries import random_cavern
from validation.textbook_scalar import BACK, TextbookScalar

real, tolerance, wall = getattr(np, sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
nodes, rng = random_cavern((5, 4, 4), 3), np.random.default_rng(0)
lattice = scalar_lattice(nodes)
ports = lattice.ports
neighbour, faces = Neighbours(nodes).table(range(7)).T, np.zeros((7, nodes.count))
for i in (1, 3, 5):
    here = np.flatnonzero(neighbour[i] >= 0)
    faces[i, here] = rng.uniform(-0.1, 0.1, len(here))
    faces[i + 1, neighbour[i, here]] = -faces[i, here]
faces[lattice.direction, lattice.port_node] = rng.uniform(-0.1, 0.1, len(ports.slot))
start, inflow = rng.random(nodes.count), rng.random((10, 3))
amount = wall * rng.random(len(lattice.wall_slot)) * (lattice.wall_slot % 3 == 0)
drivers = [kind(lattice, real, 0.003, 0.2, amount) for kind in (CpuTransport, CudaTransport)]
for driver in drivers:
    driver.begin(start, faces[1:], inflow[0])
    driver.advance(np.repeat(inflow, 2, axis=0)[:2])
held = drivers[0].state()
drivers[1].restore(held)  # from one to the other, in the middle
for driver in drivers:
    driver.advance(np.repeat(inflow, 2, axis=0)[2:])

coming = np.zeros((7, nodes.count))
textbook = TextbookScalar(neighbour, faces, 0.003, source=0.2)
for number, row in enumerate(inflow):
    coming[lattice.direction, lattice.port_node] = row[ports.opening]
    if number == 0:
        textbook.inflow = coming
        textbook.begin(start)
    textbook.inflow = coming
    for _ in range(2):
        textbook.step()
        np.add.at(textbook.s.reshape(-1), lattice.wall_slot // lattice.stride * nodes.count
                  + lattice.wall_slot % lattice.stride, amount)
one, other, expected = drivers[0].concentration(), drivers[1].concentration(), textbook.concentration()
assert one.dtype == other.dtype == real
np.testing.assert_allclose(one, expected, rtol=0, atol=tolerance * np.abs(expected).max())
np.testing.assert_allclose(drivers[0].left()[0].sum(), textbook.left, rtol=0, atol=10 * tolerance)
assert np.array_equal(one, other)
for name, array in drivers[0].state().items():
    assert np.array_equal(array, drivers[1].state()[name]), name
"""


@pytest.mark.parametrize(("real", "tolerance"), [("float64", 1e-14), ("float32", 1e-5)])
@pytest.mark.parametrize("wall", [0.0, 1.0])
def test_drivers_move_the_scalar_as_the_textbook_does(real, tolerance, wall):
    """Twenty steps of some ten operations, over the last digit: 2e-16 and 6e-8. On CPU and CUDA the bits are the same,
    whether something comes through walls, after what passes openings, or that waits for the next step.
    """
    simulated(COMPARE, real, str(tolerance), str(wall))


def carried(nodes, velocity, diffusivity, flows=(), source=0.0, real=np.float64):
    """A driver of the scalar, and the flow of a velocity through the faces of nodes."""
    lattice = scalar_lattice(nodes)
    faces = Carrier.of(nodes, lattice).faces(np.asarray(velocity, float), np.array(flows, float))
    return CpuTransport(lattice, real, diffusivity, source), faces


def parabola_in(nodes, direction, radius, distance, mean):
    """Developed velocity of a pipe, (3, N)."""
    unit = np.array(direction) / np.linalg.norm(direction)
    return unit[:, None] * 2 * mean * np.clip(1 - (distance / radius) ** 2, 0, None)


def oblique_pipe(radius, length, mean):
    """A pipe across all axes with its developed velocity and the flow out through inlet and outlet."""
    direction = (1, 2, 3)
    nodes = pipe(direction, radius, length)
    unit, start = np.array(direction) / np.linalg.norm(direction), np.array(nodes.openings[0].centre_mm)
    away = nodes.points_mm() - start
    away -= np.outer(away @ unit, unit)
    velocity = parabola_in(nodes, direction, radius, np.linalg.norm(away, axis=1), mean)
    flow = mean * np.pi * radius**2
    return nodes, velocity, (-flow, flow)


def test_a_gaussian_moves_at_second_order():
    """In the diffusive scaling, so that all errors are of the order of the spacing squared."""
    errors = []
    for size in (16, 32, 64):
        nodes, scale = periodic_box((size, size, 1)), size / 16
        speed, diffusivity, width = np.array([0.08, 0.05]) / scale, 0.02, 2.5 * scale
        driver, faces = carried(nodes, np.repeat([[speed[0]], [speed[1]], [0]], nodes.count, axis=1), diffusivity)
        steps = round(40 * scale**2) * 2

        def gaussian(t, nodes=nodes, speed=speed, size=size, width=width, diffusivity=diffusivity):
            square, places = width**2 + 2 * diffusivity * t, np.arange(-3, 4) * size
            away = nodes.position[:, :2, None] - size / 2 - (speed * t)[:, None] + places
            return width**2 / square * np.exp(-(away**2) / (2 * square)).sum(axis=2).prod(axis=1)

        driver.begin(gaussian(0), faces, np.zeros(0))
        driver.advance(np.zeros((steps, 0)))
        errors.append(np.sqrt(np.mean((driver.concentration() - gaussian(steps)) ** 2)))
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert (orders > 1.9).all(), (errors, orders)


@pytest.mark.parametrize("speed", [0.1, 0.05])
def test_what_is_carried_spreads_by_the_diffusivity_less_four_times_the_square_of_the_speed(speed):
    """From the first mode of a Gaussian of 8 nodes on a ring, whose dispersion adds less than half a per cent."""
    size, diffusivity = 128, 0.01
    nodes = periodic_box((size, 1, 1))
    driver, faces = carried(nodes, np.repeat([[speed], [0], [0]], size, axis=1), diffusivity)
    start = np.exp(-(((nodes.position[:, 0] - size / 2) / 8) ** 2) / 2)

    def variance(values):
        mode = np.abs((values * np.exp(2j * np.pi * nodes.position[:, 0] / size)).sum()) / values.sum()
        return -2 * np.log(mode) / (2 * np.pi / size) ** 2

    steps = 2 * round(size / speed / 2)
    driver.begin(start, faces, np.zeros(0))
    driver.advance(np.zeros((steps, 0)))
    grown = (variance(driver.concentration()) - variance(start)) / (2 * steps)
    np.testing.assert_allclose(grown / diffusivity, 1 - 4 * speed**2, atol=0.005)


def quarter_of_a_pipe(radius, length):
    """A quarter of an endless pipe along x, between planes of symmetry, which let nothing through as walls do."""
    y, x = np.indices((int(radius) + 1,) * 2) + 0.5
    mask = np.repeat((np.hypot(x, y) < radius)[:, :, None], length, axis=2)
    nodes = nodes_from(mask, half_way_walls, (), (True, False, False))
    return nodes, np.hypot(*(nodes.position[:, 1:] - 0.5).T)


@pytest.mark.parametrize("peclet", [3.0, 10.0])
def test_a_pulse_in_a_pipe_spreads_as_taylor_and_aris_found(peclet):
    """D_eff = D (1 + Pe^2/48), Pe = U R/D (Aris 1956, doi:10.1098/rspa.1956.0065), from how its variance grows.

    After a fifth of R^2/D the slowest mode of the section, exp(-14.7 t D/R^2), is at a twentieth. R is that of a circle
    with as many nodes: of 10 to 30 nodes, stairs then leave 0.1 to 1.2 % in a numerical solution of Aris's equation.
    """
    mean, length = 0.05, 168
    nodes, distance = quarter_of_a_pipe(12.0, length)
    radius = np.sqrt(4 * nodes.count / length / np.pi)
    profile = np.clip(1 - (distance / radius) ** 2, 0, None)
    velocity = np.zeros((3, nodes.count))
    velocity[0] = mean * profile / profile.mean()
    diffusivity = mean * radius / peclet
    driver, faces = carried(nodes, velocity, diffusivity)
    along = nodes.position[:, 0]
    driver.begin(np.exp(-(((along - length / 3) / 9) ** 2) / 2), faces, np.zeros(0))

    def variance(steps):
        driver.advance(np.zeros((steps, 0)))
        section = np.bincount(along, driver.concentration())
        offset = (np.arange(length) - np.average(np.arange(length), weights=section)) ** 2
        return np.average(offset, weights=section)

    steps = 2 * round(0.1 * radius**2 / diffusivity)
    first = variance(steps)
    grown = (variance(steps) - first) / (2 * steps)
    np.testing.assert_allclose(grown, diffusivity * (1 + peclet**2 / 48), rtol=0.02)


def test_what_passes_openings_and_walls_and_what_is_gained_is_what_the_vessel_holds_more():
    """To round-off: 2e-16 of each of some thousand numbers in each of 400 steps."""
    nodes, velocity, flows = oblique_pipe(5.3, 12.0, 0.03)
    lattice = scalar_lattice(nodes)
    faces = Carrier.of(nodes, lattice).faces(velocity, np.array(flows))
    driver = CpuTransport(lattice, np.float64, 1e-3, 0.5, 0.01 * lattice.wall_area)
    driver.begin(start := np.random.default_rng(1).random(nodes.count), faces, np.zeros(2))
    steps = 400
    driver.advance(np.linspace(0, 3, steps)[:, None] * (1.0, 0.5))
    gained = steps * (0.5 * nodes.count + driver.wall_inflow) - driver.left()[0].sum()
    held = driver.concentration().sum()
    assert abs(held - start.sum() - gained) < 1e-10 * held
    np.testing.assert_allclose(driver.left()[1], steps * np.array(flows), rtol=1e-12)


@pytest.mark.parametrize("grid_peclet", [10.0, 1000.0])
def test_the_same_concentration_everywhere_stays_as_it_is(grid_peclet):
    """Along stairs, whatever the diffusivity: by what is left of the divergence, 1e-8 u, in 1000 steps."""
    nodes, velocity, flows = oblique_pipe(5.3, 12.0, 0.03)
    driver, faces = carried(nodes, velocity, 0.06 / grid_peclet, flows)
    driver.begin(np.ones(nodes.count), faces, np.ones(2))
    driver.advance(np.ones((1000, 2)))
    np.testing.assert_allclose(driver.concentration(), 1, atol=1e-5)


def test_nothing_flows_to_nodes_that_hang_on_diagonals_and_the_rest_has_no_divergence():
    """In caverns of random nodes; the sums over openings are the flows that are asked for."""
    rng, left_out = np.random.default_rng(4), 0
    for seed in range(6):
        nodes = random_cavern((7, 6, 6), seed)
        lattice = scalar_lattice(nodes)
        carrier = Carrier.of(nodes, lattice)
        flows = np.array([-1.0, 0.7, 0.3])
        faces = carrier.faces(rng.uniform(-0.1, 0.1, (3, nodes.count)), flows)
        through = lattice.through_openings(faces)
        np.testing.assert_allclose(np.bincount(lattice.ports.opening, through), flows, atol=1e-12)
        np.testing.assert_allclose(faces.sum(axis=0), 0, atol=1e-9)
        assert not faces[:, ~carrier.reached].any()
        left_out += np.count_nonzero(~carrier.reached)
    assert left_out > 0


def test_an_opening_without_a_way_along_axes_is_refused():
    nodes, velocity, flows = oblique_pipe(4.3, 8.0, 0.03)
    diagonal = nodes.opening_link_direction > 6
    kept = diagonal | (nodes.opening_link_opening == 1)
    links = {name: getattr(nodes, name)[kept] for name in vars(nodes) if name.startswith("opening_link")}
    fewer = replace(nodes, **links)
    with pytest.raises(StageError, match="opening 1: no way along axes"):
        Carrier.of(fewer, scalar_lattice(fewer)).faces(velocity, np.array(flows))


def test_mean_age_at_the_outlet_is_volume_over_flow():
    nodes, velocity, flows = oblique_pipe(5.3, 24.0, 0.03)
    driver, faces = carried(nodes, velocity, 0.06 / 20, flows, source=1.0)
    driver.begin(np.zeros(nodes.count), faces, np.zeros(2))
    mean = []
    for _ in range(12):
        before = driver.left()
        driver.advance(np.zeros((1000, 2)))
        mean.append((driver.left()[0][1] - before[0][1]) / (driver.left()[1][1] - before[1][1]))
    np.testing.assert_allclose(mean[-1], nodes.count / flows[1], rtol=0.01)
    np.testing.assert_allclose(mean[-1], mean[-2], rtol=1e-3)  # it has settled


@pytest.mark.parametrize("diffusivity", [1e-4, 0.05])
def test_two_steps_are_a_leap_frog_for_the_concentration_alone(diffusivity):
    """In a closed cavern of random nodes with a flow without divergence: central differences on faces."""
    nodes, rng = random_cavern((6, 5, 5), 2, openings=False), np.random.default_rng(0)
    lattice = scalar_lattice(nodes)
    faces = np.zeros((7, nodes.count))
    faces[1:] = Carrier.of(nodes, lattice).faces(rng.uniform(-0.1, 0.1, (3, nodes.count)), np.zeros(0))
    neighbour = Neighbours(nodes).table(range(7)).T
    textbook = TextbookScalar(neighbour, faces, diffusivity)
    textbook.begin(rng.random(nodes.count))
    course = []
    for _ in range(5):
        textbook.step()
        course.append(textbook.concentration())
    beside = np.where(neighbour < 0, np.arange(nodes.count), neighbour)
    for before, now, then in zip(course, course[1:], course[2:], strict=False):
        spread = np.average(now[beside], axis=0, weights=[2, 1, 1, 1, 1, 1, 1]) - (then + before) / 2
        carried_away = (faces * (now + now[beside]) / 2).sum(axis=0)
        np.testing.assert_allclose((then - before) / 2, 8 * diffusivity * spread - carried_away, atol=1e-12)


def test_lambda_is_a_quarter_at_any_diffusivity():
    for diffusivity in (1e-6, 1e-3, 0.1):
        even, odd = scalar_rates(diffusivity)
        np.testing.assert_allclose((1 / even - 0.5) * (1 / odd - 0.5), 0.25, rtol=1e-9)
        np.testing.assert_allclose((1 / odd - 0.5) / 4, diffusivity, rtol=1e-9)
