# SPDX-License-Identifier: Apache-2.0
"""Walls that move, walls along which fluid slips, and lattices that repeat."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.lattice import build_lattice
from solver.boundary.walls import WALLS, require_sliding
from solver.domain.nodes import Nodes
from solver.kernels.collision import relaxation_rates
from solver.kernels.d3q19 import VELOCITIES
from solver.run.boundary_schedule import raised
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.support.geometries import closed_box, nodes_from, plates
from tests.support.naive import Naive
from tests.support.simulator import simulated

RATES = relaxation_rates(0.8, 3 / 16)
EXACT = [name for name in WALLS if name != "half-way"]


def patched(nodes: Nodes, **where) -> Nodes:
    """The nodes with patches of the wall, each given by what holds of the places where links meet it."""
    velocity = VELOCITIES[nodes.wall_link_direction]
    place = nodes.position[nodes.wall_link_node] + nodes.wall_link_q[:, None] * velocity
    patch = np.zeros(len(place), np.int8)
    for number, holds in enumerate(where.values(), 1):
        patch[holds(place)] = number
    return replace(nodes, wall_link_patch=patch, patches=tuple(where))


def run(driver: CpuDriver, steps: int) -> None:
    driver.advance(np.zeros((steps, driver.lattice.openings)))


def sheared_plates(height: int, walls: str, gap: float = 0.5, precision: str = "fp64") -> tuple[Nodes, CpuDriver]:
    """Plates `gap` of a spacing beyond the outer nodes; the upper one moves along (1, 2, 0)."""

    def crossing(position, velocity):
        z, c = position[:, 2], velocity[:, 2]
        return np.where(c > 0, height - 1 + gap - z, gap + z) / np.abs(c), np.zeros(len(z), int)

    nodes = nodes_from(np.ones((height, 1, 1), bool), crossing, (), (True, True, False))
    nodes = patched(nodes, top=lambda place: place[:, 2] > height / 2)
    driver = CpuDriver(build_lattice(nodes, "trt", RATES, walls, precision, moving={"top": (0.01, 0.02, 0.0)}))
    return nodes, driver


@pytest.mark.parametrize(("walls", "gap"), [("half-way", 0.5), *((w, gap) for w in EXACT for gap in (0.2, 0.5, 0.9))])
def test_couette_flow_is_linear_to_round_off(walls, gap):
    """Linear interpolation and bounce-back are exact for a linear profile, wherever between nodes the plates are."""
    height = 8
    nodes, driver = sheared_plates(height, walls, gap)
    run(driver, 8000)  # the slowest mode falls by exp(-pi^2 nu t/H^2) = exp(-80)
    z = nodes.position[:, 2] - 1
    wanted = np.outer((0.01, 0.02, 0.0), (z + gap) / (height - 1 + 2 * gap))
    np.testing.assert_allclose(driver.fields().velocity, wanted, atol=1e-12)
    drag = driver.fields().stress[4]  # Pi_xz = -tau mu du/dz ...
    np.testing.assert_allclose(drag, drag[0], rtol=1e-9)
    assert drag[0] < 0


def test_a_wall_is_set_in_motion_as_smoothly_as_is_asked_for():
    """Start of a Couette flow under a velocity U(t): u = U z/H + sum a_n sin(n pi z/H), in which

    a_n' = -nu (n pi/H)^2 a_n + 2 (-1)^n U'/(n pi). Second order in space and time.
    """
    height, steps, ramp = 16, 300, 200
    nodes, driver = sheared_plates(height, "half-way")
    driver.advance(raised(np.arange(1.0, steps + 1), ramp)[:, None])
    time = np.arange(0, steps, 0.1)
    rate = np.gradient(raised(time, ramp), time)
    z = (nodes.position[:, 2] - 0.5) / height
    wanted = z.copy()
    for n in range(1, 40):
        decay = np.exp(-0.1 * (n * np.pi / height) ** 2 * (steps - time))  # nu is 0.1 at tau 0.8
        wanted += 0.1 * 2 * (-1) ** n / (n * np.pi) * float(decay @ rate) * np.sin(n * np.pi * z)
    assert np.abs(wanted - z).max() > 0.05  # on its way
    np.testing.assert_allclose(driver.fields().velocity[0] / 0.01, wanted, rtol=0, atol=2e-3)


@pytest.mark.parametrize("walls", EXACT)
def test_couette_flow_between_tilted_plates_is_linear_to_round_off(walls):
    """The same where plates stand across the lattice, off its nodes, and links meet them at many distances."""
    width, half, along = 27, 3.4, np.array((3, 0, -1)) / 10**0.5  # sides are odd: cli keeps a checkerboard
    normal, middle, apart = np.array((1, 0, 3)) / 10**0.5, 0.37, width / 10**0.5

    def depth(place):
        """Distance from the nearest image of the plane half-way between the plates."""
        return (place @ normal - middle + apart / 2) % apart - apart / 2

    z, y, x = np.indices((width // 3, 1, width))
    fluid = np.abs(depth(np.stack((x, y, z), axis=-1))) < half

    def crossing(position, velocity):
        rate = velocity @ normal
        return (np.sign(rate) * half - depth(position)) / rate, np.zeros(len(position), int)

    velocity = 2e-8 * along + (0, 1e-8, 0)  # so slow that terms with its square are below the tolerance
    nodes = patched(nodes_from(fluid, crossing, (), (True, True, True)), top=lambda place: depth(place) > 0)
    driver = CpuDriver(build_lattice(nodes, "trt", RATES, walls, "fp64", moving={"top": tuple(velocity)}))
    run(driver, 3000)  # exp(-64)
    wanted = np.outer(velocity, (depth(nodes.position) + half) / (2 * half))
    np.testing.assert_allclose(driver.fields().velocity, wanted, rtol=0, atol=1e-14)  # q in fp32


def annulus_error(outer: float) -> float:
    """Relative L2 error of the flow between a fixed outer cylinder and an inner one that moves along its axis."""
    inner, size = outer / 2, 2 * int(np.ceil(outer)) + 2
    centre = size / 2 - 0.5 + np.array([0.3, 0.2])
    y, x = np.meshgrid(np.arange(size), np.arange(size), indexing="ij")
    r = np.hypot(x - centre[0], y - centre[1])
    fluid = ((r < outer) & (r > inner))[None]

    def crossing(position, velocity):
        d, c = position[:, :2] - centre, velocity[:, :2]
        a, b = (c**2).sum(axis=1), (d * c).sum(axis=1)
        roots = []
        for radius, sign in ((outer, 1), (inner, -1)):
            with np.errstate(invalid="ignore", divide="ignore"):
                root = (-b + sign * np.sqrt(b * b - a * ((d**2).sum(axis=1) - radius**2))) / a
            roots.append(np.where(np.isfinite(root) & (root > 0), root, np.inf))
        return np.minimum(*roots), np.zeros(len(position), int)

    nodes = nodes_from(fluid, crossing, (), (False, False, True))
    middle = (inner + outer) / 2
    nodes = patched(nodes, rod=lambda place: np.hypot(*(place[:, :2] - 1 - centre).T) < middle)
    driver = CpuDriver(build_lattice(nodes, "trt", RATES, "bouzidi", "fp64", moving={"rod": (0.0, 0.0, 0.02)}))
    run(driver, 2 * round(2 * (outer - inner) ** 2 / 0.1))  # exp(-pi^2 nu t/gap^2) = exp(-39)
    radius = np.hypot(*(nodes.position[:, :2] - 1 - centre).T)
    wanted = 0.02 * np.log(outer / radius) / np.log(2)
    return float(np.linalg.norm(driver.fields().velocity[2] - wanted) / np.linalg.norm(wanted))


def test_flow_around_a_sliding_rod_converges_at_second_order():
    errors = [annulus_error(outer) for outer in (10.3, 20.6, 41.2)]
    assert errors[-1] < 2e-3
    assert np.log2(errors[0] / errors[2]) / 2 > 1.8


def test_a_plug_slides_between_slipping_walls():
    """In a duct whose walls slip nothing holds the fluid: each step adds the force, in every corner alike."""
    nodes = nodes_from(
        np.ones((5, 4, 3), bool), lambda p, c: (np.full(len(p), 0.5), np.zeros(len(p), int)), (), (True, False, False)
    )
    nodes = patched(nodes, sides=lambda place: np.full(len(place), True))
    lattice = build_lattice(nodes, "trt", RATES, "bouzidi", "fp64", force=(1e-5, 0.0, 0.0), slip=("sides",))
    driver = CpuDriver(lattice)
    run(driver, 100)
    wanted = np.zeros((3, nodes.count))
    wanted[0] = 1e-5 * 100.5
    np.testing.assert_allclose(driver.fields().velocity, wanted, rtol=1e-12, atol=1e-17)


# Each collision is compiled; test_drivers.py has all of them at slipping walls against the textbook, interpreted.
@pytest.mark.parametrize("walls", WALLS)
@pytest.mark.parametrize("collision", ["trt", pytest.param("recursive", marks=pytest.mark.slow)])
def test_a_slipping_wall_is_a_plane_of_symmetry(collision, walls):
    """The half of a channel above a slipping wall flows as that half of the whole channel, from any state."""
    force = (1e-5, 2e-6, 0.0)
    whole = plates(12, 2)
    half = patched(plates(6, 2), middle=lambda place: place[:, 2] < 1)
    one, other = (
        CpuDriver(build_lattice(nodes, collision, RATES, walls, "fp64", force=force, slip=slip))
        for nodes, slip in ((whole, ()), (half, ("middle",)))
    )
    rng = np.random.default_rng(0)
    upper = whole.position[:, 2] > 6
    start = 1e-3 * rng.standard_normal((19, half.count))
    mirror = [int(np.flatnonzero((c * (1, 1, -1) == VELOCITIES).all(axis=1))[0]) for c in VELOCITIES]
    below = np.lexsort((*(half.position * (1, 1, -1)).T[:2], -half.position[:, 2]))
    g = one.populations.reshape(19, -1)
    g[:, np.flatnonzero(upper)] = start
    g[:, np.flatnonzero(~upper)] = start[mirror][:, below]
    other.populations.reshape(19, -1)[:, : half.count] = start
    for driver in (one, other):
        run(driver, 200)
    np.testing.assert_allclose(other.fields().velocity, one.fields().velocity[:, upper], rtol=0, atol=1e-16)


def box_that_moves_and_slips() -> tuple[Nodes, dict[str, tuple[float, float, float]], tuple[str, ...]]:
    """With edges of two slipping walls, of one that slips and one that holds, of a lid: nodes, what moves and slips."""
    nodes = patched(
        closed_box((4, 5, 6)), low=lambda p: p[:, 2] < 1, side=lambda p: p[:, 1] < 1, lid=lambda p: p[:, 2] > 6
    )
    return nodes, {"lid": (0.02, 0.0, 0.0)}, ("low", "side")


@pytest.mark.parametrize("walls", WALLS)
def test_edges_of_walls_that_move_and_slip_are_those_of_two_lattices(walls):
    nodes, moving, slip = box_that_moves_and_slips()
    force, steps = (1e-5, 2e-5, -1e-5), 20
    lattice = build_lattice(nodes, "trt", RATES, walls, "fp64", force=force, moving=moving, slip=slip)
    driver = CpuDriver(lattice)
    naive = Naive(nodes, "trt", RATES, walls, lattice.inlets.weight, np.array(force), moving, slip)
    naive.g[:] = 1e-3 * np.random.default_rng(0).standard_normal(naive.g.shape)
    g = driver.populations.reshape(19, -1)[:, : nodes.count]
    g[:] = naive.g
    run(driver, steps)
    for _ in range(steps):
        naive.step(np.zeros(0))
    np.testing.assert_allclose(g, naive.g, rtol=0, atol=1e-13 * np.abs(naive.g).max())  # round-off of 20 steps


def test_a_wall_between_other_places_cannot_slip():
    nodes = patched(sheared_plates(6, "bouzidi", 0.3)[0], top=lambda place: place[:, 2] > 3)
    with pytest.raises(StageError, match=r"solve\.patches\.top: fluid can slip only along flat walls.*up to 0\.2 off"):
        build_lattice(nodes, "trt", RATES, slip=("top",))


def test_a_wall_cannot_move_through_itself():
    nodes = patched(plates(6), top=lambda place: place[:, 2] > 3)
    with pytest.raises(StageError, match=r"solve\.patches\.top: 100% of its velocity is through the wall"):
        require_sliding(nodes, {"top": (0.0, 0.0, 0.01)})


COMPARE = """
import numpy as np
from tests.support.geometries import observe
from tests.solver.boundary.test_moving_walls import closed_box, patched
from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.cuda.device import device_answers
from solver.backends.cuda.cuda_driver import CudaDriver
from solver.backends.lattice import build_lattice

from solver.backends.subdomains import SubdomainsDriver

nodes = patched(closed_box((4, 3, 4)), low=lambda p: p[:, 2] < 1, lid=lambda p: p[:, 2] > 4)
lattice = build_lattice(nodes, "trt", (1 / 0.7, 1.2), "bouzidi", "fp64", None, (1e-5, 0.0, 0.0),
                        {"lid": (0.02, 0.01, 0.0)}, ("low",))
assert not lattice.openings
part = (nodes.position[:, 0] > 2).astype(int)
drivers = CpuDriver(lattice), CudaDriver(lattice), SubdomainsDriver(lattice, part, CpuDriver)
rising = np.linspace(0.1, 1, 6)[:, None]  # what part of their velocity walls have
for driver in drivers:
    driver.advance(np.zeros((6, 0)))
    driver.advance(rising)
one, *others = (driver.fields().velocity for driver in drivers)
assert np.abs(one).max() > 1e-3
for other in others:
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-16)
drivers[2].advance(rising)
drivers[0].advance(np.ones((6, 1)))
assert np.abs(drivers[0].fields().velocity - drivers[2].fields().velocity).max() > 1e-4
seen = observe(drivers[1], False)
assert not len(seen.inflow) and not len(seen.opening_drho)
print("same")
"""


def test_simulated_cuda_is_the_cpu_without_openings():
    simulated(COMPARE)


def test_cuda_is_the_cpu_without_openings():
    from solver.backends.cuda.device import device_answers  # which ranks of tests need not import

    if not device_answers():
        pytest.skip("no CUDA device")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    answer = subprocess.run(
        [sys.executable, "-c", COMPARE], check=False, env=environment, capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stderr
