# SPDX-License-Identifier: Apache-2.0
"""The force that makes up for D3Q27's fourth moments along the axes: what it is, and that jets need it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.fields import Fields
from solver.backends.lattice import Lattice, build_lattice
from solver.backends.subdomains import SubdomainsDriver
from solver.domain.nodes import Nodes
from solver.kernels.collision import relaxation_rates
from solver.kernels.isotropy import PAIRS
from solver.kernels.rheology import make_rheology
from solver.run.plan import make_plan
from solver.run.settings import InletSettings, PatchSettings
from solver.run.setup import lay_out
from tests.solver.run.test_simulation import settings
from tests.support.geometries import periodic_box, periodic_pipe, pipe, pipe_radius, random_cavern
from tests.support.simulator import interpreted, simulated

TAU, EVERY = 0.52, 2 * PAIRS


def laid_out(nodes: Nodes, isotropic: bool, tau: float = TAU, precision: str = "fp64", **more) -> Lattice:
    rates = relaxation_rates(tau, min(3 / 16, (tau - 0.5) / 2))
    return build_lattice(nodes.with_corners(), "cumulant", rates, "bouzidi", precision, isotropic=isotropic, **more)


def of_small_case(nodes: Nodes, isotropic: bool, tau: float = TAU) -> Lattice:
    """With the loops of the small case, which the workflow's tests have compiled: single precision, layers and eddies,
    here ones of no viscosity.
    """
    none, of_trt = np.zeros(nodes.count), min(3 / 16, (tau - 0.5) / 2)
    own = make_rheology("newtonian", ((tau - 0.5) / 3,), tau, of_trt, 1e-12, none)
    return laid_out(nodes, isotropic, tau, rheology=own, precision="fp32")


def random_flow(count: int) -> Fields:
    velocity = 0.1 * np.random.default_rng(0).standard_normal((3, count))
    return Fields(np.zeros(count), velocity, np.zeros((6, count)))


def begun(lattice: Lattice, fields: Fields, make=CpuDriver):
    driver = make(lattice)
    driver.begin_with(fields, np.zeros((0, 2)))
    return driver


def forces(nodes: Nodes, velocity: NDArray, share: NDArray | float) -> NDArray:
    """By dictionaries and loops: the difference along a of `share` times D_a - (D_x + D_y + D_z)/2, (3, N), where D_a
    is the second difference of u_a^2; central, else as if that went on linearly.
    """
    share = np.broadcast_to(share, nodes.count)
    row = {tuple(place): n for n, place in enumerate(nodes.position.tolist())}

    def beside(n: int | None, a: int, sign: int) -> int | None:
        if n is None:
            return None
        place = nodes.position[n] + sign * np.eye(3, dtype=int)[a]
        wrapped = np.where(nodes.periodic, place % np.array(nodes.shape[::-1]), place)
        return row.get(tuple(wrapped.tolist()))

    def flux(n: int | None) -> NDArray | None:
        ends = [[beside(n, a, sign) for sign in (1, -1)] for a in range(3)]
        if n is None or any(None in pair for pair in ends):
            return None
        second = np.array([velocity[a][ends[a]].sum() - 2 * velocity[a, n] for a in range(3)])
        return share[n] * (second - second.sum() / 2)

    def slope(n: int, a: int) -> float:
        on = {k: flux(n) for k, n in ((k, reached(n, a, k)) for k in range(-2, 3))}
        for high, low in ((1, -1), *(((1, 0), (2, 1)) if on[-1] is None else ((0, -1), (-1, -2)))):
            if on[high] is not None and on[low] is not None:
                return float(on[high][a] - on[low][a]) / (high - low)
        return 0.0

    def reached(n: int, a: int, k: int) -> int | None:
        for _ in range(abs(k)):
            n = beside(n, a, 1 if k > 0 else -1)
        return n

    velocity = velocity**2
    return np.array([[slope(n, a) for n in range(nodes.count)] for a in range(3)])


BOXES = {"box": periodic_box((5, 6, 4)), "cavern": random_cavern((7, 6, 5), 3)}


@pytest.mark.slow
@pytest.mark.parametrize("varying", [False, True])
@pytest.mark.parametrize("nodes", BOXES.values(), ids=BOXES)
def test_momentum_is_that_of_the_force_in_two_steps(nodes, varying):
    """Of the velocity at which it is found, to round-off; the density stays as it is."""
    rheology = make_rheology("power-law", (0.02, 0.6), TAU, 0.01, 0.1) if varying else None
    lattice = laid_out(nodes, True, rheology=rheology)
    driver = begun(lattice, random_flow(nodes.count))
    driver.advance(np.zeros((2, lattice.columns)))
    before = driver.fields()
    tau = 1 / driver.held()["omega"][: nodes.count] if varying else TAU
    driver.renew_corrections()
    driver.add_momentum()
    after = driver.fields()
    momentum = 2 * forces(nodes, before.velocity, 1 / 3 - tau / 2)
    np.testing.assert_allclose(after.velocity - before.velocity, momentum, atol=1e-15)
    np.testing.assert_allclose(after.drho, before.drho, atol=1e-16)
    assert np.abs(momentum).max() > 1e-4
    if all(nodes.periodic):
        np.testing.assert_allclose((after.velocity - before.velocity).sum(axis=1), 0, atol=1e-13)


EVERY_BOX = """
from tests.solver.kernels.test_isotropy import BOXES, test_momentum_is_that_of_the_force_in_two_steps as require
for nodes in BOXES.values():
    for varying in (False, True):
        require(nodes, varying)
"""


def test_interpreted_momentum_is_that_of_the_force_in_two_steps():
    """No other quick test has these models in double precision, and to compile them takes half a minute."""
    interpreted(EVERY_BOX)


def test_it_is_found_once_in_so_many_steps_however_they_are_asked_for():
    """First after as many; of the whole, of parts, and of a run that goes on, the same bits."""
    nodes = random_cavern((9, 8, 7), 5, openings=False)
    lattice, fields = of_small_case(nodes, True), random_flow(nodes.count)
    whole, without = begun(lattice, fields), begun(of_small_case(nodes, False), fields)
    for driver in (whole, without):
        driver.advance(np.zeros((EVERY, 0)))
    np.testing.assert_array_equal(whole.populations, without.populations)
    for driver in (whole, without):
        driver.advance(np.zeros((2, 0)))
    assert np.abs(whole.populations - without.populations).max() > 1e-7
    whole.advance(np.zeros((3 * EVERY, 0)))

    part = np.random.default_rng(1).integers(0, 4, nodes.count)
    for make in (CpuDriver, lambda lattice: SubdomainsDriver(lattice, part, CpuDriver)):
        one = begun(lattice, fields, make)
        for steps in (6, 2, 20):
            one.advance(np.zeros((steps, 0)))
        other = make(lattice)
        other.restore(one.state())
        other.advance(np.zeros((2 + 4 * EVERY - 28, 0)))
        for a, b in zip(other.fields().arrays(), whole.fields().arrays(), strict=True):
            np.testing.assert_array_equal(a, b)


def jet(
    direction, isotropic: bool, grid_reynolds: float, lay: Callable[..., Lattice] = laid_out
) -> tuple[float, NDArray]:
    """Of a jet 10 nodes wide in fluid at rest, a tenth of a^2/nu later: rms of what depends on the angle, over the peak
    speed at first; and its speed.
    """
    width, speed, nodes = 5.0, 0.08, periodic_pipe(direction, 12.0)
    viscosity, unit = speed / grid_reynolds, np.array(direction) / np.linalg.norm(direction)
    r = pipe_radius(nodes, direction) / width
    fields = Fields(np.zeros(nodes.count), speed * np.outer(unit, np.exp(-(r**2))), np.zeros((6, nodes.count)))
    driver = begun(lay(nodes, isotropic, 0.5 + 3 * viscosity), fields)
    driver.advance(np.zeros((EVERY * round(0.1 * width**2 / viscosity / EVERY), 0)))
    along, near = unit @ driver.fields().velocity, r < 2
    shape = np.exp(-(r[near] ** 2))
    fit = np.polynomial.Polynomial.fit(shape, along[near], 6)
    return float(np.sqrt(np.mean((along[near] - fit(shape)) ** 2))) / speed, along


@pytest.mark.parametrize("direction", [(1, 1, 0), pytest.param((1, 2, 3), marks=pytest.mark.slow)])  # a longer period
def test_a_jet_askew_to_the_axes_stays_round(direction):
    """At a grid Reynolds number of 60: 4.3 and 2.4 % without, 0.5 and 0.3 % with the force."""
    with_it, without = (jet(direction, isotropic, 60.0, of_small_case)[0] for isotropic in (True, False))
    assert with_it < without / 5


@pytest.mark.slow
def test_flow_along_an_axis_knows_nothing_of_it():
    """Its squares do not change along the axis, and across it there is next to no flow."""
    (_, one), (_, other) = (jet((0, 0, 1), isotropic, 60.0) for isotropic in (True, False))
    np.testing.assert_allclose(one, other, atol=1e-9)


@pytest.mark.parametrize(
    ("changes", "acts"),
    [
        ({}, True),
        ({"precision": "fp16"}, False),
        ({"velocity_set": "D3Q19"}, False),
        ({"patches": {"wall": PatchSettings((0.0, 0.0, 0.1), False)}}, False),
    ],
)
def test_runs_on_d3q27_have_it_unless_walls_move_or_populations_are_fp16(changes, acts):
    nodes = replace(pipe((0, 0, 1), 5.3, 24, 0.2), patches=("wall",))
    wanted = settings(velocity_set="D3Q27", inlets={"in": InletSettings(0.3, None, "parabolic")})
    wanted = replace(wanted, **changes)
    assert lay_out(nodes, wanted, make_plan(nodes, wanted), "bouzidi").isotropic == acts


ON_DEVICE = """
import numpy as np
from tests.solver.kernels.test_isotropy import TAU, begun, laid_out, random_flow
from tests.support.geometries import random_cavern
from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.cuda.cuda_driver import CudaDriver
from solver.kernels.isotropy import PAIRS
from solver.backends.subdomains import SubdomainsDriver
from solver.kernels.rheology import make_rheology

nodes = random_cavern((5, 4, 4), 3, openings=False)
for rheology in (None, make_rheology("power-law", (0.02, 0.6), TAU, 0.01, 0.1)):
    lattice = laid_out(nodes, True, rheology=rheology)
    cpu, cuda = (begun(lattice, random_flow(nodes.count), make) for make in (CpuDriver, CudaDriver))
    for driver in (cpu, cuda):
        driver.since = PAIRS - 1
        driver.advance(np.zeros((4, 0)))
    for a, b in zip(cpu.fields().arrays(), cuda.fields().arrays(), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.abs(a).max())

whole, parts = begun(lattice, random_flow(nodes.count), CudaDriver), SubdomainsDriver(
    lattice, np.arange(nodes.count) % 2, CudaDriver)
parts.restore(parts.state() | {"since": np.array(PAIRS - 1)})
parts.begin_with(random_flow(nodes.count), np.zeros((0, 2)))
whole.since = PAIRS - 1
for driver in (whole, parts):
    driver.advance(np.zeros((4, 0)))
for a, b in zip(whole.fields().arrays(), parts.fields().arrays(), strict=True):
    np.testing.assert_array_equal(a, b)
"""


PAIRS_IN_A_ROW = """
import sys
import numpy as np
from tests.solver.kernels.test_isotropy import begun, laid_out, random_flow
from tests.support.geometries import random_cavern
from solver.backends.cuda.cuda_driver import CudaDriver

nodes = random_cavern((5, 5, 4), 3, openings=False)
lattice = laid_out(nodes, True, precision=sys.argv[1])
single, row = (begun(lattice, random_flow(nodes.count), CudaDriver) for _ in range(2))
for driver in (single, row):
    driver.begin(np.zeros((4, 0)))
    driver.renew_corrections()
assert np.abs(single.held()["momentum"].copy_to_host()).max() > 1e-5
for _ in range(2):
    single._pairs(1)
row._pairs(2)
for a, b in zip(single.state().values(), row.state().values(), strict=True):
    np.testing.assert_array_equal(a, b)
"""


@pytest.mark.parametrize("precision", ["fp16", pytest.param("fp32", marks=pytest.mark.slow)])
def test_collisions_of_a_device_that_add_momentum_first_leave_the_bits(precision):
    """Of pairs in a row all but the last leave it to the next collision."""
    simulated(PAIRS_IN_A_ROW, precision)


@pytest.mark.slow
def test_the_simulated_device_agrees():
    """As in test_cuda: to what rounding in another order grows to in four steps; parts give the bits of the whole."""
    simulated(ON_DEVICE)
