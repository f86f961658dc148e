# SPDX-License-Identifier: Apache-2.0
"""Walls that meet a parabola: what they add, that pipes are as wide as they should be, and that all drivers agree."""

import logging
from dataclasses import replace

import numpy as np
import pytest

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.fields import Fields
from solver.backends.lattice import Lattice, build_lattice
from solver.backends.subdomains import SubdomainsDriver
from solver.boundary.parabolic_walls import FASTEST, at_planes, between_walls
from solver.boundary.walls import WALLS
from solver.domain.nodes import Nodes
from solver.kernels.collision import relaxation_rates
from solver.kernels.isotropy import PAIRS
from solver.kernels.rheology import make_rheology
from solver.kernels.velocity_sets import velocity_set
from solver.run.plan import make_plan
from solver.run.settings import InletSettings
from solver.run.setup import lay_out
from solver.run.solve import solve
from tests.support.geometries import nodes_from, periodic_pipe, pipe, pipe_radius, random_cavern
from tests.support.simulator import interpreted, simulated
from tests.support.solve_settings import DENSITY, VISCOSITY, settings
from tests.support.stability_matrix import of_shape
from tests.support.variants import some

TAU, LAMBDA, EVERY = 0.52, 1 / 12, 2 * PAIRS
CUMULANT, SLOW = ("cumulant", LAMBDA), ("trt", 3 / 16)
SCHEMES = ["bouzidi", "yu", "cli"]


def laid_out(
    nodes: Nodes,
    parabolic: bool = True,
    scheme: str = "bouzidi",
    tau: float = TAU,
    force: tuple[float, float, float] = (0.0, 0.0, 0.0),
    model: tuple[str, float] = CUMULANT,
    **more,
) -> Lattice:
    """Cumulants on D3Q27, or TRT on D3Q19, where the force along the axes does not act; in double precision, if it is
    not said otherwise.
    """
    collision, lambda_trt = model
    corners, rates = collision == "cumulant", relaxation_rates(tau, lambda_trt)
    options = {"precision": "fp64", "force": force, "isotropic": corners, "parabolic": parabolic} | more
    return build_lattice(nodes.with_corners() if corners else nodes, collision, rates, scheme, **options)


def compiled(nodes: Nodes, tau: float = TAU, model: tuple[str, float] = CUMULANT, **more) -> Lattice:
    """With loops that other tests have compiled: of cumulants those of the small case, in single precision, with layers
    and eddies, here ones of no viscosity.
    """
    if model == CUMULANT:
        own = make_rheology("newtonian", ((tau - 0.5) / 3,), tau, LAMBDA, 1e-12, np.zeros(nodes.count))
        more |= {"rheology": own, "precision": "fp32"}
    return laid_out(nodes, tau=tau, model=model, **more)


def begun(lattice: Lattice, make=CpuDriver):
    velocity = 0.05 * np.random.default_rng(0).standard_normal((3, lattice.count))
    driver = make(lattice)
    driver.begin_with(Fields(np.zeros(lattice.count), velocity, np.zeros((6, lattice.count))), np.zeros((0, 2)))
    return driver


@pytest.mark.slow
@pytest.mark.parametrize("model", [CUMULANT, SLOW], ids=["D3Q27", "D3Q19"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_walls_get_what_the_scheme_leaves_of_the_second_derivative(scheme, model):
    """By dictionaries and loops, of a random flow: (s (Lambda + (tau - 1/2) k) - q^2/2) u'' of each link, where k is
    abs(q - 1/2) of Bouzidi's scheme, 1/2 of Yu's and 0 of the central one, and s is 1/2. u'' is that of a polynomial
    through the three nodes and a fourth value: none at the wall where that is half a link away or more, else the
    velocity of one more node, if there is one. With one node behind, only such a wall gets anything. Between two walls
    the link is half-way, and such a wall gets u + u'/2 + s Lambda u'' of a parabola that is 0 at both, at most 0.9 u.
    """
    nodes = random_cavern((8, 7, 6), 3, openings=False)
    driver = begun(laid_out(nodes, scheme=scheme, model=model))
    driver.renew_corrections()
    velocity, on = driver.fields().velocity, nodes.with_corners() if model == CUMULANT else nodes
    stencil, row = velocity_set(on.q), {tuple(place): n for n, place in enumerate(nodes.position.tolist())}
    ends = zip(on.wall_link_node.tolist(), on.wall_link_direction.tolist(), strict=True)
    cut = dict(zip(ends, on.wall_link_q.tolist(), strict=True))
    wanted, kinds = dict[tuple[int, int], float](), set[tuple[bool, int]]()
    for n, i, q in zip(on.wall_link_node, on.wall_link_direction, on.wall_link_q.astype(float), strict=True):
        c, o = stencil.velocities[i], int(stencil.opposite[i])
        behind = [int(n)]
        while len(behind) < 4 and (behind[-1], o) not in cut:
            further = row.get(tuple((nodes.position[n] - len(behind) * c).tolist()))
            if further is None:
                break
            behind.append(further)
        kinds.add((q >= 0.5, len(behind)))
        if len(behind) < 3 and q < 0.5:
            continue
        k = {"bouzidi": abs(q - 0.5), "yu": 0.5, "cli": 0.0}[scheme]
        places, values = [0.0, -1.0, -2.0, -3.0][: len(behind)], [float(c @ velocity[:, m]) for m in behind]
        if q >= 0.5:
            places, values = [q, *places[:3]], [0.0, *values[:3]]
        if len(behind) == 1:
            square = np.poly1d(np.polyfit([*places, -cut[int(n), o]], [*values, 0.0], 2))
            slip = square(0) + square.deriv()(0) / 2 + 0.5 * model[1] * square.deriv(2)(0)
            slip = float(np.clip(slip / values[1], 0, 0.9) * values[1])
        else:
            second = 2 * np.polyfit(places, values, len(places) - 1)[-3]
            slip = (0.5 * (model[1] + (TAU - 0.5) * k) - q**2 / 2) * second
        part = 1.0 if len(behind) == 1 else float(WALLS[scheme](np.array(q))[3])
        if slip:
            wanted[o, int(n)] = -6 * stencil.weights[i] * part * slip
    back, node = np.divmod(driver.lattice.walls.slot.astype(int), driver.lattice.stride)
    found = dict(zip(zip(back.tolist(), node.tolist(), strict=True), driver.held()["slip"], strict=True))
    assert {key for key, value in found.items() if value} == set(wanted)
    assert len(wanted) > 50
    assert kinds == {(far, count) for far in (False, True) for count in (1, 2, 3, 4)}
    for key, value in wanted.items():
        assert found[key] == pytest.approx(value, rel=1e-9, abs=1e-15)  # the polynomial's own rounding


EVERY_SCHEME = """
from tests.solver.boundary import test_parabolic_walls as tests
for scheme in tests.SCHEMES:
    for model in (tests.CUMULANT, tests.SLOW):
        tests.test_walls_get_what_the_scheme_leaves_of_the_second_derivative(scheme, model)
"""


def test_interpreted_walls_get_what_the_scheme_leaves_of_the_second_derivative():
    """No step is taken, and to compile what finds it takes longer for each model than all of this."""
    interpreted(EVERY_SCHEME)


def mean_speed(direction: tuple[int, int, int], radius: float, parabolic: bool, slow: bool = False) -> float:
    """Of a flow that a force drives through an endless pipe, over Poiseuille's: with cumulants at a grid Reynolds
    number of 40, or a slow one with TRT, at 1.
    """
    speed, grid_reynolds, model = (0.03, 1, SLOW) if slow else (0.08, 40, CUMULANT)
    nodes, unit = periodic_pipe(direction, radius), np.array(direction) / np.linalg.norm(direction)
    exact, viscosity = speed * (1 - (pipe_radius(nodes, direction) / radius) ** 2), speed / grid_reynolds
    force = tuple(4 * viscosity * speed / radius**2 * unit)
    driver = CpuDriver(compiled(nodes, 0.5 + 3 * viscosity, model, parabolic=parabolic, force=force))
    start = Fields(np.zeros(nodes.count), np.outer(unit, exact), np.zeros((6, nodes.count)))
    driver.begin_with(start, np.zeros((0, 2)))
    driver.advance(np.zeros((EVERY * round(0.6 * radius**2 / viscosity / EVERY), 0)))
    return float((unit @ driver.fields().velocity).mean() / exact.mean())


@pytest.mark.parametrize(
    ("direction", "radius", "slow"),
    [
        ((0, 0, 1), 5.1, False),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in (
                ((1, 2, 3), 4.6, True),
                ((0, 0, 1), 5.1, True),
                ((1, 2, 3), 4.6, False),
                ((1, 1, 0), 6.6, False),
                ((1, 1, 0), 6.6, True),
            )
        ),
    ],
)
def test_a_pipe_lets_through_what_it_should(direction, radius, slow):
    """Ten nodes across lose 1 to 6 % with linear interpolation alone, at most half of it with the parabola."""
    with_it, without = (1 - mean_speed(direction, radius, parabolic, slow) for parabolic in (True, False))
    assert abs(with_it) < without / 2


@pytest.mark.parametrize("far", [0.5, 0.95])
def test_a_duct_lets_through_what_it_should(far):
    """Square, 10 nodes across, two walls half a spacing from the nodes beside them, two `far`, as all links of a wall
    are; links at the corners end at walls on both sides. Linear interpolation loses 2.8 and 6.8 % of the series.
    """
    viscosity, nodes, side = 0.08 / 40, square_duct(10, far), 9.5 + far
    y, z = (nodes.position[:, 1:] - 0.5).T / side - 0.5
    pull = 0.08 / of_duct(np.zeros(1), np.zeros(1))[0]
    exact, force = pull * of_duct(y, z), (pull * viscosity / side**2, 0.0, 0.0)
    passed = []
    for parabolic in (True, False):
        driver = CpuDriver(compiled(nodes, 0.5 + 3 * viscosity, parabolic=parabolic, force=force))
        start = Fields(np.zeros(nodes.count), np.outer((1, 0, 0), exact), np.zeros((6, nodes.count)))
        driver.begin_with(start, np.zeros((0, 2)))
        driver.advance(np.zeros((EVERY * round(0.2 * side**2 / viscosity / EVERY), 0)))
        passed.append(float(driver.fields().velocity[0].mean() / exact.mean()))
    assert abs(passed[0] - 1) < 0.01
    assert passed[1] < 0.975


@pytest.mark.parametrize("far", [0.7, 0.95])
def test_a_short_duct_is_as_wide_at_its_caps_as_between_them(far, tmp_path):
    """Square, 10 nodes across, three times as long, Re_g 20: the pressure drop of a developed flow, by the series.

    Half of the links at the caps lead back through these. As half-way walls they made the drop too large by 7 (0.7)
    and 11 % (0.95). What is left is 4 % at most: the flow between the caps loses 2 %, and its profile is pointed by 1 %
    within the layers at the outlet.
    """
    side = 9.5 + far
    spacing_mm, viscosity = 4 / side, VISCOSITY / DENSITY
    nodes = of_shape({"shape": "duct", "height_mm": 4.0, "width_mm": 4.0, "length_mm": 12.0})(spacing_mm)
    assert np.allclose(np.unique(np.round(nodes.wall_link_q, 3)), [0.5, far], atol=2e-3)
    flow_m3_s = 10 * viscosity / (spacing_mm * 1e-3) * 16e-6  # 2 U dx/nu = 20
    inflow = {"inlet": InletSettings(1e6 * flow_m3_s, None, "developed")}
    wanted = settings(inlets=inflow, steady_tolerance=1e-3)
    summary = solve(nodes, wanted, tmp_path / "flow.vtkhdf", tmp_path / "monitor.csv", logging.getLogger("test"))
    drop = summary["openings"]["inlet"]["pressure_pa"] - summary["openings"]["outlet"]["pressure_pa"]
    mean = of_duct(*(each.ravel() / 200 - 0.4975 for each in np.indices((200, 200)))).mean()
    assert drop == pytest.approx(DENSITY * viscosity * flow_m3_s / 16e-6 / (mean * 16e-6) * 12e-3, rel=0.04)


def test_walls_beside_openings_get_what_a_parabola_through_the_node_has():
    """u + u'/2 + h u'', u' = -u/q - (q/2) u'', within `FASTEST` of u; without a second derivative that of a line."""
    q = np.array([0.05, 0.2, 0.3, 0.5, 0.7, 1.0])
    own, *others = between_walls(q, np.full(6, np.inf), np.full(6, 0.04), np.zeros(6))
    np.testing.assert_allclose(own, [-FASTEST, -FASTEST, -2 / 3, 0, 2 / 7, 0.5], atol=1e-12)
    assert not np.any(others)
    own, *_ = between_walls(q, np.full(6, np.inf), np.full(6, 0.04), np.full(6, -0.5))
    np.testing.assert_allclose(own[3:], [0.0425, 2 / 7 + 0.0675, 0.605], atol=1e-12)


def test_plane_walls_across_an_axis_differ_from_others():
    """Of a duct those whose nodes stand beside one wall alone; of a pipe none."""
    for made in (square_duct(6, 0.95), square_duct(6, 0.95).with_corners()):
        beside = np.isin(made.position[:, 1:], (1, 6)).sum(axis=1)
        np.testing.assert_array_equal(at_planes(made), beside == 1)
    for direction in ((0, 0, 1), (1, 2, 3)):
        made = periodic_pipe(direction, 4.6)
        assert not at_planes(made).any()
        assert not at_planes(made.with_corners()).any()


@pytest.mark.parametrize("corners", [False, True], ids=["D3Q19", "D3Q27"])
def test_half_way_planes_of_the_exact_lambda_stay_where_they_are(corners):
    """(2/3) 3/16 is q^2/2: nothing is given to such walls but at the edges of a duct."""
    nodes = square_duct(6, 0.5).with_corners() if corners else square_duct(6, 0.5)
    lattice = laid_out(nodes, model=("trt", 3 / 16), isotropic=False)
    node = np.divmod(lattice.walls.slot.astype(int), lattice.stride)[1]
    middle = (np.isin(nodes.position[:, 1:], (1, 6)).sum(axis=1) == 1)[node]
    given = np.abs(lattice.parabolic.weights).max(axis=0)
    assert given[middle].max() < 1e-7  # of single precision, in which nodes hold q
    assert given[~middle].max() > 1e-3


def square_duct(across: int, far: float) -> Nodes:
    """Endless along x; walls half a spacing below the first node along y and z, and `far` above the last."""
    ends = np.array([across - 1 + far] * 2)

    def crossing(position: np.ndarray, velocity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        place, step = position[:, 1:], velocity[:, 1:].astype(float)
        with np.errstate(divide="ignore"):
            reach = np.where(step > 0, (ends - place) / step, np.where(step < 0, (-0.5 - place) / step, np.inf))
        return reach.min(axis=1), np.zeros(len(position), int)

    return nodes_from(np.ones((across, across, 4), bool), crossing, (), (True, False, False))


def of_duct(y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Speed in a square duct at places between -1/2 and 1/2, over G h^2/nu: the series of a rectangle."""
    odd = np.arange(1, 60, 2)[:, None] * np.pi
    terms = (1 - np.cosh(odd * y) / np.cosh(odd / 2)) * np.cos(odd * z) / odd**3
    return np.asarray(4 * (terms * np.array((1, -1) * 15)[:, None]).sum(axis=0))


@pytest.mark.parametrize("model", [CUMULANT, pytest.param(SLOW, marks=pytest.mark.slow)], ids=["D3Q27", "D3Q19"])
def test_it_is_found_once_in_so_many_steps_however_they_are_asked_for(model):
    """Of the whole, of parts, and of a run that goes on: the same bits, which without it are others."""
    nodes = random_cavern((9, 8, 7), 5, openings=False)
    lattice = compiled(nodes, model=model)
    every = 2 * lattice.corrected_pairs
    nothing = replace(lattice.parabolic, share=np.zeros_like(lattice.parabolic.share))
    whole, without = begun(lattice), begun(replace(lattice, parabolic=nothing))
    for driver in (whole, without):
        driver.advance(np.zeros((every, 0)))
    np.testing.assert_array_equal(whole.populations, without.populations)
    for driver in (whole, without):
        driver.advance(np.zeros((4 * every - every + 2, 0)))
    assert np.abs(whole.populations - without.populations).max() > 1e-7

    part = np.random.default_rng(1).integers(0, 4, nodes.count)
    for make in (CpuDriver, lambda lattice: SubdomainsDriver(lattice, part, CpuDriver)):
        one = begun(lattice, make)
        for steps in (6, 2, 20):
            one.advance(np.zeros((steps, 0)))
        other = make(lattice)
        other.restore(one.state())
        other.advance(np.zeros((2 + 4 * every - 28, 0)))
        for a, b in zip(other.fields().arrays(), whole.fields().arrays(), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("model", [CUMULANT, pytest.param(SLOW, marks=pytest.mark.slow)], ids=["D3Q27", "D3Q19"])
def test_a_driver_that_begins_with_a_flow_knows_nothing_of_the_one_before(model):
    """Of the whole and of parts: the bits of one that is new, as a coarse lattice needs that begins again and again."""
    nodes = random_cavern((9, 8, 7), 5, openings=False)
    lattice = compiled(nodes, model=model)
    every, part = 2 * lattice.corrected_pairs, np.random.default_rng(1).integers(0, 4, nodes.count)
    for make in (CpuDriver, lambda lattice: SubdomainsDriver(lattice, part, CpuDriver)):
        new, used = begun(lattice, make), begun(lattice, make)
        used.advance(np.zeros((every + 2, 0)))
        begun(lattice, lambda _, used=used: used)
        for driver in (new, used):
            driver.advance(np.zeros((every + 2, 0)))
        for a, b in zip(new.fields().arrays(), used.fields().arrays(), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("changes", "acts"),
    [
        ({}, True),
        ({"collision": "projected"}, False),
        ({"precision": "fp16"}, False),
        ({"velocity_set": "D3Q19", "collision": "trt"}, True),
        ({"velocity_set": "D3Q19", "collision": "projected"}, False),
    ],
)
def test_runs_whose_odd_moments_relax_by_a_lambda_have_them(changes, acts):
    nodes = pipe((0, 0, 1), 5.3, 24, 0.2)
    wanted = settings(velocity_set="D3Q27", collision="cumulant", inlets={"in": InletSettings(0.3, None, "parabolic")})
    wanted = replace(wanted, **changes)
    lattice = lay_out(nodes, wanted, make_plan(nodes, wanted), "bouzidi")
    assert lattice.walls.varies == acts


ON_DEVICE = """
import sys
import numpy as np
from tests.solver.boundary.test_parabolic_walls import CUMULANT, SLOW, begun, laid_out
from tests.support.geometries import nodes_from, random_cavern
from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.cuda.boundary_pass import outlets_first
from solver.backends.cuda.cuda_driver import CudaDriver
from solver.backends.subdomains import SubdomainsDriver

nodes = random_cavern((5, 4, 4), 3)
model = {"D3Q27": CUMULANT, "D3Q19": SLOW}[sys.argv[1]]
lattice = laid_out(nodes, model=model)
rows = np.tile(1e-3 * np.arange(1, lattice.columns + 1), (4, 1))
due = lattice.corrected_pairs - 1
cpu, cuda = (begun(lattice, make) for make in (CpuDriver, CudaDriver))
parts = SubdomainsDriver(lattice, np.arange(nodes.count) % 2, CudaDriver)
parts.restore(begun(lattice, lambda _: parts).state() | {"since": np.array(due)})
for driver in (cpu, cuda, parts):
    driver.since = due
    driver.advance(rows)
assert np.abs(cpu.held()["slip"]).max() > 1e-5
order, _ = outlets_first(lattice.walls, lattice.outlets, lattice.stride)
assert (np.diff(order) < 0).any(), "a device treats links in their own order here"
states = [driver.state() for driver in (cpu, cuda, parts)]
slips = [[state["slip"]] for state in states]
fields = [driver.fields().arrays() for driver in (cpu, cuda, parts)]
for a, b, c in (*zip(*slips, strict=True), *zip(*fields, strict=True)):
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.abs(a).max())
    np.testing.assert_array_equal(b, c)
gone_on = CudaDriver(lattice)
gone_on.restore(states[2])
for driver in (cuda, gone_on):
    driver.advance(rows[:2])
np.testing.assert_array_equal(cuda.state()["slip"], gone_on.state()["slip"])
for a, b in zip(cuda.fields().arrays(), gone_on.fields().arrays(), strict=True):
    np.testing.assert_array_equal(a, b)
"""


@pytest.mark.parametrize("velocities", some(["D3Q27", "D3Q19"], "D3Q27"))
def test_the_simulated_device_agrees(velocities):
    """To what rounding in another order grows to in four steps; parts give the bits of the whole, and a state has what
    walls add in the order of the links, of which a device treats those at outlets first.
    """
    simulated(ON_DEVICE, velocities)
