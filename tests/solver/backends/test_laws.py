# SPDX-License-Identifier: Apache-2.0
"""What holds whatever the geometry: conservation of mass and momentum, and the symmetries of lattice and fluid."""

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.fields import Fields
from solver.backends.lattice import build_lattice
from solver.boundary.walls import WALLS
from solver.domain.nodes import STEPS, Nodes, check
from solver.kernels.collision import ON_D3Q19, relaxation_rates
from solver.kernels.d3q19 import OPPOSITE, VELOCITIES, WEIGHTS
from tests.support.geometries import observe, periodic_box, pipe, random_cavern
from tests.support.naive import equilibrium
from validation.four_pass import FourPass

RATES = relaxation_rates(0.7, 0.1)
FORCE = np.array((1e-4, 2e-4, -1e-4))

few = settings(max_examples=8, deadline=None)
caverns = st.builds(
    random_cavern,
    size=st.tuples(*[st.integers(2, 7)] * 3),
    seed=st.integers(0, 1000),
    openings=st.booleans(),
)


def populations(driver: CpuDriver) -> np.ndarray:
    """A view of the populations that arrive at each node, (19, N)."""
    lattice = driver.lattice
    rows: np.ndarray = driver.populations[: 19 * lattice.stride].reshape(19, -1)[:, : lattice.count]
    return rows


def stirred(nodes: Nodes, seed: int = 0) -> np.ndarray:
    """A random state near equilibrium, (19, N)."""
    rng = np.random.default_rng(seed)
    drho, u = 1e-2 * rng.standard_normal(nodes.count), 2e-2 * rng.standard_normal((3, nodes.count))
    return equilibrium(drho, u) + 1e-3 * rng.standard_normal((19, nodes.count))


def boundary_values(nodes: Nodes, steps: int) -> np.ndarray:
    """Flow and pressures that change from step to step."""
    sizes = np.array([0.1 if opening.role == "inlet" else 0.01 for opening in nodes.openings])
    return np.random.default_rng(1).random((steps, len(sizes))) * sizes


@pytest.mark.parametrize("walls", WALLS)
@settings(few, max_examples=4)
@given(nodes=caverns.filter(lambda nodes: not nodes.openings), moves=st.booleans())
def test_closed_domain_keeps_its_mass(walls, nodes, moves):
    """Whether or not walls move: what they add in one place is taken in another."""
    lid = (nodes.wall_link_wall % 2).astype(np.int8)
    through = (WEIGHTS * VELOCITIES.T)[:, nodes.wall_link_direction[lid == 1]].sum(axis=1)
    along = np.cross(through, (1.0, 2.0, 3.0)) if np.linalg.norm(through) > 1e-9 else np.array((1.0, 0.0, 0.0))
    moving = {"lid": tuple(0.02 * along / np.linalg.norm(along))} if moves else {}
    nodes = replace(nodes, wall_link_patch=lid, patches=("lid",))
    lattice = build_lattice(nodes, "trt", RATES, walls, "fp64", moving=moving)
    driver = CpuDriver(lattice)
    populations(driver)[:] = start = stirred(nodes)
    driver.advance(np.zeros((100, 0)))
    # round-off of 100 steps in the sums of some 19 N numbers of size 1e-2
    assert populations(driver).sum() == pytest.approx(start.sum(), abs=1e-13 * nodes.count)


class Weighed(FourPass):
    """Tells the momentum that fluid gave, in the last step, to what each link meets, (3, links)."""

    def weigh(self, nodes: Nodes, kind: str) -> None:
        """Of the links of a kind, wall or opening."""
        direction = getattr(nodes, f"{kind}_link_direction").astype(np.int64)
        self.velocity_of = VELOCITIES[direction].T.astype(np.float64)
        self.slot = OPPOSITE[direction].astype(np.int64) * self.lattice.stride + getattr(nodes, f"{kind}_link_node")

    def treat_openings(self, step: int, even: bool) -> None:
        self.left = self.populations[self.slot]
        super().treat_openings(step, even)

    def streaming(self) -> None:
        self.given = self.velocity_of * (self.left + self.populations[self.slot])
        super().streaming()


def both_kinds(nodes: Nodes) -> Nodes:
    """Node arrays whose wall links are all links through the surface, openings among them; for weighing alone."""
    return replace(
        nodes,
        wall_link_node=np.concatenate((nodes.wall_link_node, nodes.opening_link_node)),
        wall_link_direction=np.concatenate((nodes.wall_link_direction, nodes.opening_link_direction)),
    )


@few
@given(nodes=caverns, walls=st.sampled_from([*WALLS]))
def test_momentum_changes_by_what_force_walls_and_openings_give(nodes, walls):
    driver = Weighed(build_lattice(nodes, "trt", RATES, walls, "fp64", force=tuple(FORCE)))
    driver.weigh(both_kinds(nodes), "wall")
    populations(driver)[:] = stirred(nodes)
    for row in boundary_values(nodes, 4):
        before = VELOCITIES.T @ populations(driver).sum(axis=1)
        driver.advance(row[None])
        change = VELOCITIES.T @ populations(driver).sum(axis=1) - before
        wanted = nodes.count * FORCE - driver.given.sum(axis=1)
        # round-off in sums of some 19 N numbers of size 1e-2
        np.testing.assert_allclose(change, wanted, rtol=0, atol=1e-15 * nodes.count)


def test_wall_of_a_pipe_takes_up_pressure_drop_and_body_force():
    """Along the pipe the force on its wall, by momentum exchange, is (pressure drop + body force x length) x area.

    Links near the ends meet the caps first, so that a window leaves the ends out, smoothly: the wall links of single
    layers of a tilted lattice are too uneven to cut between them.
    """
    radius, length, end, force = 6.2, 24.0, 4.0, 8e-5
    nodes = pipe((1, 2, 3), radius, length)
    axis, start = -np.array(nodes.openings[0].normal), np.array(nodes.openings[0].centre_mm)
    lattice = build_lattice(nodes, "trt", relaxation_rates(0.8, 3 / 16), "bouzidi", "fp64", force=tuple(force * axis))
    driver = Weighed(lattice)
    driver.weigh(nodes, "wall")
    driver.advance(np.tile((1.0, 0.0), (3000, 1)))
    along = (nodes.points_mm() - start) @ axis
    reached = along[nodes.wall_link_node] + nodes.wall_link_q * (VELOCITIES[nodes.wall_link_direction] @ axis)
    kept = abs(reached - length / 2) < length / 2 - end
    window = (1 - np.cos(2 * np.pi * (reached[kept] - end) / (length - 2 * end))) / 2
    inner = abs(along - length / 2) < length / 2 - end
    gradient = -np.polyfit(along[inner], driver.drho[inner] / 3, 1)[0]
    assert force < gradient < 2 * force  # both count
    wanted = (gradient + force) * np.pi * radius**2 * (length / 2 - end)  # the window's mean is 1/2
    assert axis @ driver.given[:, kept] @ window == pytest.approx(wanted, rel=5e-3)


ROTATIONS = [
    np.array([[sign * (axis == k) for k in range(3)] for sign, axis in zip(signs, axes, strict=True)])
    for axes in permutations(range(3))
    for signs in product((1, -1), repeat=3)
]
"""The 48 rotations and mirrorings of the cube, as matrices on (x, y, z)."""


def moved(nodes: Nodes, turn: np.ndarray, shift: tuple[int, int, int], axes: tuple[int, int, int]) -> tuple:
    """The same geometry turned, shifted and with its nodes in the order of other axes.

    Returns the node arrays and, for each new node, the row of the old one.
    """
    size = np.array(nodes.shape[::-1])
    offset = np.where(turn.sum(axis=1) < 0, np.abs(turn) @ (size - 1), 0) + shift

    def placed(position: np.ndarray, tag: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        position = (position @ turn.T + offset).astype(np.int32)
        rows = np.lexsort((*(position[:, axis] for axis in axes), tag))
        return position, rows

    def turned(vector: tuple[float, float, float]) -> tuple[float, ...]:
        return tuple((turn @ vector).tolist())

    position, rows = placed(nodes.position, nodes.tag)
    wall_position, wall_rows = placed(nodes.wall_position, np.zeros(len(nodes.wall_position)))
    row_of, wall_row_of = np.argsort(rows), np.argsort(wall_rows)
    direction = turned_directions(turn)
    fluid = {name: getattr(nodes, name)[rows] for name in ("tag", "opening", "distance_mm", "part")}
    new = replace(
        nodes,
        **fluid,
        shape=tuple((np.abs(turn) @ size + np.array(shift))[::-1].tolist()),
        openings=tuple(
            replace(
                o, centre_mm=tuple((turn @ o.centre_mm + nodes.spacing_mm * offset).tolist()), normal=turned(o.normal)
            )
            for o in nodes.openings
        ),
        origin_mm=turned(nodes.origin_mm),
        position=position[rows],
        wall_position=wall_position[wall_rows],
        wall_distance_mm=nodes.wall_distance_mm[wall_rows],
        wall_link_node=row_of[nodes.wall_link_node].astype(np.int32),
        wall_link_direction=direction[nodes.wall_link_direction],
        wall_link_wall=wall_row_of[nodes.wall_link_wall].astype(np.int32),
        opening_link_node=row_of[nodes.opening_link_node].astype(np.int32),
        opening_link_direction=direction[nodes.opening_link_direction],
        corner_link_node=row_of[nodes.corner_link_node].astype(np.int32),
        corner_link_direction=direction[nodes.corner_link_direction],
        periodic=tuple((np.abs(turn) @ nodes.periodic > 0).tolist()),
        axes=axes,
    )
    check(new)
    return new, rows


def turned_directions(turn: np.ndarray) -> np.ndarray:
    """Direction that each one becomes, (27,)."""
    ends = STEPS @ turn.T
    return (ends[:, None] == STEPS).all(axis=2).argmax(axis=1).astype(np.uint8)


def run(nodes: Nodes, start: np.ndarray, collision: str, walls: str, force: np.ndarray) -> tuple[Fields, np.ndarray]:
    lattice = build_lattice(nodes, collision, RATES, walls, "fp64", force=tuple(force))
    driver = CpuDriver(lattice)
    populations(driver)[:] = start
    driver.advance(boundary_values(nodes, 10))
    return driver.fields(), observe(driver, False).inflow


def compare_moved(nodes, turn, shift, axes, collision, walls, same: Callable) -> None:
    start = stirred(nodes)
    here, inflow = run(nodes, start, collision, walls, FORCE)
    there, rows = moved(nodes, turn, shift, axes)
    turned = np.empty_like(start)
    turned[turned_directions(turn)[: len(start)]] = start[:, rows]
    fields, flow = run(there, turned, collision, walls, turn @ FORCE)
    same(fields.drho, here.drho[rows])
    same(fields.velocity, turn @ here.velocity[:, rows])
    same(flow, inflow)


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-14)  # round-off of ten steps of numbers of size 1e-1


@few
@given(nodes=caverns, turn=st.sampled_from(ROTATIONS), walls=st.sampled_from([*WALLS]))
@example(random_cavern((5, 4, 3), 1), np.array([(0, -1, 0), (1, 0, 0), (0, 0, 1)]), "bouzidi")
def test_turned_and_mirrored_geometry_flows_as_before(nodes, turn, walls):
    compare_moved(nodes, turn, (0, 0, 0), (0, 1, 2), "trt", walls, close)


@pytest.mark.slow
@pytest.mark.parametrize("collision", ON_D3Q19)
def test_every_collision_flows_alike_along_all_axes(collision):
    nodes = random_cavern((6, 5, 4), 3)
    for turn in ROTATIONS:
        compare_moved(nodes, turn, (0, 0, 0), (0, 1, 2), collision, "bouzidi", close)


@few
@given(
    nodes=caverns,
    shift=st.tuples(*[st.integers(0, 3)] * 3),
    axes=st.sampled_from([*permutations(range(3))]),
    walls=st.sampled_from([*WALLS]),
)
def test_order_of_nodes_and_place_of_the_lattice_do_not_change_a_bit(nodes, shift, axes, walls):
    compare_moved(nodes, np.eye(3, dtype=int), shift, axes, "trt", walls, np.testing.assert_array_equal)


def wave_error(mean: float, collision: str) -> float:
    """Relative error of the viscosity that a shear wave decays with while it is carried across itself."""
    n, tau, steps = 32, 0.8, 400
    nodes = periodic_box((n, 1, 1))
    k, x = 2 * np.pi / n, nodes.position[:, 0]
    u = np.zeros((3, n))
    u[0], u[1] = mean, 1e-3 * np.sin(k * x)
    driver = CpuDriver(build_lattice(nodes, collision, relaxation_rates(tau, 3 / 16), "bouzidi", "fp64"))
    populations(driver)[:] = equilibrium(np.zeros(n), u)
    wave = []
    for _ in range(2):
        driver.advance(np.zeros((steps, 0)))
        wave.append(abs(driver.fields().velocity[1] @ np.exp(1j * k * x)))
    viscosity = np.log(wave[0] / wave[1]) / (k**2 * steps)
    return float(viscosity / ((tau - 0.5) / 3) - 1)


def test_a_wave_that_is_carried_along_decays_as_at_rest_but_for_the_square_of_the_mach_number():
    """D3Q19 misses a moment of third order: the viscosity is off by about 3 U^2, which is Ma^2."""
    at_rest, *carried = (wave_error(mean, "trt") for mean in (0.0, 0.02, 0.04, 0.08))
    assert abs(at_rest) < 2e-3
    defects = np.abs(np.array(carried) - at_rest)
    assert defects[-1] < 2 * 3 * 0.08**2
    np.testing.assert_allclose(np.log2(defects[1:] / defects[:-1]), 2, atol=0.1)
