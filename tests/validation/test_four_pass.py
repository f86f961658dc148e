# SPDX-License-Identifier: Apache-2.0
"""The reference four-pass solver: its walls of wall nodes against their formulas and against flows that are known."""

from dataclasses import replace

import numpy as np
import pytest

from solver.backends.lattice import build_lattice
from solver.domain.nodes import Neighbours, Nodes
from solver.kernels.collision import relaxation_rates
from solver.kernels.d3q19 import OPPOSITE, VELOCITIES, WEIGHTS
from tests.support.geometries import nodes_from, observe, periodic_pipe, pipe, pipe_radius, random_cavern
from tests.support.naive import COLLISIONS, equilibrium, moments
from tests.support.simulator import interpreted
from validation.four_pass import FourPass, wall_nodes
from validation.studies.cavity import published

RATES = relaxation_rates(0.8, 3 / 16)


def four_pass(nodes: Nodes, rates=RATES, force=(0.0, 0.0, 0.0), moving=None) -> FourPass:
    """As in the work: one relaxation time, and wall nodes that carry populations."""
    lattice = build_lattice(nodes, "bgk", rates, "half-way", "fp64", force=force, moving=moving)
    return FourPass(lattice, wall_nodes(nodes, moving))


def stepped(nodes: Nodes, g: np.ndarray, force: np.ndarray, moving: dict) -> np.ndarray:
    """A step on two lattices, with the wall condition as Guo, Zheng and Shi (2002) write it, equations 7 to 12."""
    neighbour = [Neighbours(nodes).along(i) for i in range(19)]
    drho, u = moments(g, force)
    out = COLLISIONS["bgk"](g, *RATES, force)
    rest, new = out - equilibrium(drho, u), np.empty_like(g)
    new[0] = out[0]
    for i in range(1, 19):
        end = neighbour[i]
        new[i, end[end >= 0]] = out[i, end >= 0]
    for n, i, q, patch in zip(
        nodes.wall_link_node, nodes.wall_link_direction, nodes.wall_link_q, nodes.wall_link_patch, strict=True
    ):
        o, q = OPPOSITE[i], float(q)
        behind = neighbour[o][n]
        u_b = np.array(moving[nodes.patches[patch - 1]] if patch else (0.0, 0.0, 0.0))
        if q >= 0.75:
            u_w, rest_w = (u_b + (q - 1) * u[:, n]) / q, rest[o, n]
        elif behind >= 0:
            near, far = (u_b + (q - 1) * u[:, n]) / q, (2 * u_b + (q - 1) * u[:, behind]) / (1 + q)
            u_w, rest_w = q * near + (1 - q) * far, q * rest[o, n] + (1 - q) * rest[o, behind]
        else:
            new[o, n] = out[i, n] - 6 * WEIGHTS[i] * VELOCITIES[i] @ u_b
            continue
        new[o, n] = equilibrium(drho[n : n + 1], u_w[:, None])[o, 0] + rest_w
    return new


def test_wall_nodes_send_back_what_is_extrapolated_to_them():
    nodes = random_cavern((7, 6, 5), 3, openings=False)
    patch = (np.random.default_rng(2).random(len(nodes.wall_link_q)) < 0.4).astype(np.int8)
    nodes, moving = replace(nodes, wall_link_patch=patch, patches=("lid",)), {"lid": (0.02, 0.01, -0.01)}
    links = wall_nodes(nodes, moving)
    turned, far = links.upstream < 0, (links.upstream >= 0) & (links.kept < 1)
    assert min(turned.sum(), far.sum(), (links.kept == 1).sum()) > 50  # every branch is taken
    force = (1e-4, 2e-4, -1e-4)
    reference = four_pass(nodes, force=force, moving=moving)
    wanted = 1e-2 * np.random.default_rng(0).standard_normal((19, nodes.count))
    g = reference.populations[: 19 * reference.lattice.stride].reshape(19, -1)[:, : nodes.count]
    g[:] = wanted
    reference.advance(np.zeros((5, 0)))
    for _ in range(5):
        wanted = stepped(nodes, wanted, np.array(force), moving)
    np.testing.assert_allclose(g, wanted, rtol=0, atol=1e-14 * np.abs(wanted).max() * 19)  # round-off of five steps
    np.testing.assert_allclose(reference.velocity, moments(wanted, np.array(force))[1], rtol=0, atol=1e-13)


@pytest.mark.parametrize("gap", [0.2, 0.5, 0.9, 1.0])
def test_couette_flow_is_linear_to_round_off(gap):
    """A linear profile is extrapolated exactly, and its stress is the same everywhere."""
    height, gap = 8, float(np.float32(gap))  # as exactly as node arrays hold q

    def crossing(position, velocity):
        z, c = position[:, 2], velocity[:, 2]
        return np.where(c > 0, height - 1 + gap - z, gap + z) / np.abs(c), np.zeros(len(z), int)

    nodes = nodes_from(np.ones((height, 1, 1), bool), crossing, (), (True, True, False))
    upper = (nodes.position[nodes.wall_link_node, 2] > height / 2).astype(np.int8)
    nodes, moving = replace(nodes, wall_link_patch=upper, patches=("top",)), {"top": (0.01, 0.02, 0.0)}
    reference = four_pass(nodes, moving=moving)
    reference.advance(np.zeros((8000, 0)))  # the slowest mode falls by exp(-pi^2 nu t/H^2), at least exp(-80)
    z = nodes.position[:, 2] - 1
    wanted = np.outer(moving["top"], (z + gap) / (height - 1 + 2 * gap))
    np.testing.assert_allclose(reference.velocity, wanted, rtol=0, atol=1e-12)


def pipe_error(direction: tuple[int, int, int], radius: float) -> float:
    """Relative L2 error of the forced flow through an endless pipe, at tau 0.8 in diffusive scaling."""
    nodes, peak, viscosity = periodic_pipe(direction, radius), 0.5 / radius, 0.1
    unit = np.array(direction) / np.linalg.norm(direction)
    reference = four_pass(nodes, force=tuple(4 * viscosity * peak / radius**2 * unit))
    reference.advance(
        np.zeros((2 * round(1.2 * radius**2 / viscosity), 0))
    )  # the slowest mode falls by exp(-5.78 * 2.4)
    wanted = peak * (1 - (pipe_radius(nodes, direction) / radius) ** 2)
    return float(np.linalg.norm(unit @ reference.velocity - wanted) / np.linalg.norm(wanted))


def test_poiseuille_in_a_tilted_pipe_converges_at_second_order():
    coarse, fine = (pipe_error((2, 3, 6), radius) for radius in (3.6, 6.4))
    assert fine < 4e-3
    assert np.log(coarse / fine) / np.log(6.4 / 3.6) > 1.8


@pytest.mark.slow
@pytest.mark.parametrize("direction", [(1, 0, 0), (1, 1, 0), (1, 2, 3), (2, 3, 6)])
def test_poiseuille_along_any_direction(direction):
    errors = [pipe_error(direction, radius) for radius in (4.2, 7.6, 10.4)]
    assert errors[2] < 2e-3
    assert np.log(errors[0] / errors[2]) / np.log(10.4 / 4.2) > 1.8


def cavity_differences(n: int, reynolds: int, speed: float) -> tuple[float, float]:
    """Largest differences of u and v to Ghia et al. (1982), in lid speeds: n nodes a side, walls on the wall nodes."""
    nodes = nodes_from(
        np.ones((n, 1, n), bool), lambda p, c: (np.ones(len(p)), np.zeros(len(p), int)), (), (False, True, False)
    )
    end = nodes.wall_position[nodes.wall_link_wall]
    lid = ((end[:, 2] > n) & (end[:, 0] > 0) & (end[:, 0] <= n)).astype(np.int8)
    nodes, moving = replace(nodes, wall_link_patch=lid, patches=("lid",)), {"lid": (speed, 0.0, 0.0)}
    viscosity = speed * (n + 1) / reynolds
    reference = four_pass(nodes, relaxation_rates(0.5 + 3 * viscosity, 3 / 16), moving=moving)
    reference.advance(np.zeros((2 * round(20 * (n + 1) / speed), 0)))
    place, velocity = nodes.position[:, ::2] / (n + 1), reference.velocity / speed
    differences = []
    for axis, component, lid_speed, (at, wanted) in zip(
        (1, 0), (0, 2), (1.0, 0.0), published("ghia1982", reynolds), strict=True
    ):
        middle = np.flatnonzero(place[:, 1 - axis] == 0.5)  # n is odd
        middle = middle[np.argsort(place[middle, axis])]
        line = np.concatenate(([0.0], velocity[component, middle], [lid_speed]))
        found = np.interp(at, np.concatenate(([0.0], place[middle, axis], [1.0])), line)
        differences.append(float(np.abs(found - wanted).max()))
    return differences[0], differences[1]


@pytest.mark.slow
def test_cavity_of_the_work_is_near_the_reference():
    u, v = cavity_differences(31, 100, 0.1)
    # straight lines between 31 nodes alone make some hundredths; 0.019 and 0.032 at 21 nodes, 0.009 and 0.009 at 41
    assert u < 0.015
    assert v < 0.02


def test_flow_between_openings_leaks_little():
    """Extrapolation does not conserve mass: an open pipe of 20 nodes' length and 12 across gains 1.2 % of its flow."""
    reference = four_pass(pipe((1, 2, 3), 6.2, 20))
    reference.advance(np.tile((0.5, 0.0), (800, 1)))
    into, out = observe(reference, False).inflow
    assert into == pytest.approx(0.5, rel=1e-13)
    assert -out == pytest.approx(0.5, rel=0.02)


SAME_WALLS = """
import numpy as np
from solver.backends.cpu.cpu_driver import CpuDriver
from tests.solver.boundary.test_parabolic_walls import SLOW, begun, laid_out
from tests.support.geometries import random_cavern
from validation.four_pass import FourPass
lattice = laid_out(random_cavern((5, 4, 4), 3, openings=False), model=SLOW)
solver, passes = begun(lattice), begun(lattice, FourPass)
before = solver.fields().velocity
for driver in (solver, passes):
    driver.advance(np.zeros((4 * lattice.corrected_pairs, 0)))
assert np.abs(solver._slip).max() > 1e-5
wanted, found = solver.fields().velocity, passes.fields().velocity
assert np.abs(wanted).max() > 1e-4 * np.abs(before).max()
np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-13 * np.abs(before).max())
"""


def test_four_passes_are_the_solver_where_its_walls_meet_a_parabola():
    """To round-off; the velocity of the walls follows from the flow every few pairs of steps, here twice."""
    interpreted(SAME_WALLS)
