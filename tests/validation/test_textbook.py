# SPDX-License-Identifier: Apache-2.0
"""Velocity sets as data, and the textbook solver that runs them: what D3Q19 and D3Q27 carry, and where they differ."""

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.lattice import build_lattice
from solver.boundary.parabolic_walls import SHARE
from solver.kernels.collision import ON_D3Q19, relaxation_rates
from solver.kernels.d3q19 import VELOCITIES
from solver.kernels.node_physics import EQUILIBRIA
from solver.kernels.velocity_sets import D3Q19, D3Q27, VELOCITY_SETS, VelocitySet
from tests.support.geometries import periodic_pipe
from validation.goals import order
from validation.textbook import (
    COLLISIONS,
    SECOND_DEGREE,
    TextbookSolver,
    density,
    equilibrium,
    moments,
    relaxation,
    stress,
)
from validation.textbook_links import EndlessPipe
from validation.textbook_matrices import TOGETHER, Quadratic

SETS = pytest.mark.parametrize("stencil", VELOCITY_SETS.values(), ids=VELOCITY_SETS)
GAUSSIAN = {0: 1, 2: 1, 4: 3, 6: 15}
"""Moments of one component of isotropic noise of unit variance."""


def moment(stencil: VelocitySet, *powers: int) -> float:
    """sum w c_x^a c_y^b c_z^c."""
    return float(stencil.weights @ (stencil.velocities ** np.array(powers)).prod(axis=1))


@SETS
def test_moments_of_the_weights_are_isotropic_up_to_the_fifth_order(stencil):
    np.testing.assert_array_equal(stencil.velocities[stencil.opposite], -stencil.velocities)  # no odd moments
    for powers in ((0, 0, 0), (2, 0, 0), (2, 2, 0), (4, 0, 0)):
        wanted = prod(GAUSSIAN[power] for power in powers) / 3 ** (sum(powers) / 2)
        for turned in {tuple(np.roll(powers, shift)) for shift in range(3)}:
            assert moment(stencil, *turned) == pytest.approx(wanted, rel=1e-14)


def test_moments_of_the_sixth_order_tell_the_sets_apart():
    """Those of several axes are isotropic in D3Q27; no set of speeds -1, 0, 1 has that of one axis."""
    for stencil in (D3Q19, D3Q27):
        assert moment(stencil, 4, 2, 0) == pytest.approx(3 / 27, rel=1e-14)
        assert moment(stencil, 6, 0, 0) == pytest.approx(9 / 27, rel=1e-14)  # isotropic were 15/27
    assert moment(D3Q27, 2, 2, 2) == pytest.approx(1 / 27, rel=1e-14)
    assert moment(D3Q19, 2, 2, 2) == 0


def test_directions_of_d3q19_come_first():
    np.testing.assert_array_equal(D3Q27.velocities[:19], VELOCITIES)
    np.testing.assert_array_equal(D3Q19.velocities, VELOCITIES)


@SETS
def test_third_order_polynomials_give_the_moments_that_they_are_asked_for(stencil):
    """Of two or three axes; D3Q19 has no c_x c_y c_z."""
    c, rng = stencil.velocities, np.random.default_rng(0)
    wanted = rng.standard_normal((3, 3, 3))
    wanted = sum(wanted.transpose(axes) for axes in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)))
    wanted[range(3), range(3), range(3)] = 0
    g = stencil.weights * np.einsum("iabc,abc->i", stencil.third_order, wanted)
    found = np.einsum("i,ia,ib,ic->abc", g, c, c, c)
    kept = np.array([len({a, b, d}) < 3 or stencil is D3Q27 for a, b, d in np.ndindex(3, 3, 3)]).reshape(3, 3, 3)
    np.testing.assert_allclose(found, np.where(kept, wanted, 0), rtol=0, atol=1e-13)
    for lower in (g.sum(), g @ c, np.einsum("i,iab->ab", g, stencil.products)):
        np.testing.assert_allclose(lower, 0, atol=1e-14)


@SETS
@pytest.mark.parametrize("form", ["incompressible", "incompressible-standard"])
@pytest.mark.parametrize("collision", SECOND_DEGREE)
def test_matrices_say_what_the_formula_says(stencil, collision, form):
    """At any populations, the force in them; more nodes than collide at once."""
    rng, rates = np.random.default_rng(5), relaxation(0.6, 0.1)
    force = 1e-2 * rng.standard_normal(3)
    g = 0.1 * rng.standard_normal((len(stencil), 2 * TOGETHER + 7))

    def formula(g):
        return COLLISIONS[collision](stencil, g, *rates, force, form)

    np.testing.assert_allclose(Quadratic(stencil, formula)(g), formula(g), rtol=0, atol=1e-13)


@SETS
@pytest.mark.parametrize("collision", ON_D3Q19)
def test_collision_conserves_mass_adds_the_force_and_relaxes_the_stress(stencil, collision):
    rng, force, rates = np.random.default_rng(1), np.array((1e-3, -2e-3, 3e-3)), relaxation_rates(0.7, 0.1)
    g = equilibrium(stencil, 1e-2 * rng.standard_normal(5), 1e-2 * rng.standard_normal((3, 5)))
    g += 1e-3 * rng.standard_normal(g.shape)
    out = COLLISIONS[collision](stencil, g, *rates, force)
    np.testing.assert_allclose(out.sum(axis=0), g.sum(axis=0), rtol=0, atol=1e-15)
    added = stencil.velocities.T @ (out - g)
    np.testing.assert_allclose(added, np.broadcast_to(force[:, None], (3, 5)), rtol=0, atol=1e-15)
    # Pi* = (1 - omega) Pi + what the force adds in a step, with the velocity that has half of it
    _, u = moments(stencil, g, force)
    uf = np.einsum("an,b->abn", u, force)
    flux = np.einsum("iab,in->abn", stencil.products, out - g)
    wanted = -rates[0] * stress(stencil, g, force) + uf + uf.transpose(1, 0, 2)
    np.testing.assert_allclose(flux, wanted, rtol=0, atol=1e-15)


def forced(
    pipe: EndlessPipe,
    stencil: VelocitySet,
    tau: float,
    peak: float,
    collision: str = "trt",
    form: str = "incompressible",
) -> TextbookSolver:
    """A pipe with the force that keeps a parabola up, started from it."""
    links, rates = pipe.links(stencil), relaxation_rates(tau, 3 / 16)
    force = 4 * (tau - 0.5) / 3 * peak / pipe.radius**2 * pipe.unit
    solver = TextbookSolver(stencil, links, collision, rates, force=force, form=form)
    solver.start(np.outer(pipe.unit, parabola(pipe, peak)))
    return solver


def parabola(pipe: EndlessPipe, peak: float) -> np.ndarray:
    return peak * (1 - (np.linalg.norm(pipe.offset(pipe.nodes()), axis=1) / pipe.radius) ** 2)


@pytest.mark.parametrize(
    ("walls", "parabola", "steps"),
    [
        ("half-way", 0, 60),
        ("bouzidi", 0, 60),
        ("yu", 0, 60),
        ("bouzidi", SHARE, 150),
        ("yu", SHARE, 150),
    ],
)
def test_a_pipe_of_one_period_is_the_drivers_in_a_box_of_many(walls, parabola, steps):
    """On D3Q19 to round-off: nodes of the box are folded onto those that stand for them."""
    pipe, force = EndlessPipe((1, 1, 1), 3.4), (1e-4, 2e-4, 3e-4)
    nodes = periodic_pipe(pipe.direction, pipe.radius)
    links = pipe.links(D3Q19)
    links = replace(links, q=links.q.astype(np.float32).astype(float))  # as node arrays hold it
    rates = relaxation_rates(0.8, 3 / 16)
    plain = TextbookSolver(D3Q19, links, "trt", rates, walls, np.array(force), parabola=parabola)
    driver = CpuDriver(build_lattice(nodes, "trt", rates, walls, "fp64", force=force, parabolic=parabola > 0))
    driver.advance(np.zeros((steps, 0)))
    for _ in range(steps):
        plain.step()
    rows = {tuple(place): row for row, place in enumerate(pipe.nodes().tolist())}
    of_node = []
    for place in nodes.position:  # a node of the box is one of the pipe's after a shift by a period of the box
        shifts = nodes.shape[0] * np.array(list(np.ndindex(3, 3, 3))) - nodes.shape[0]
        of_node.append(next(rows[end] for end in map(tuple, pipe.fold(place + shifts).tolist()) if end in rows))
    found = driver.fields().velocity
    np.testing.assert_allclose(found, plain.velocity()[:, of_node], rtol=0, atol=1e-13 * np.abs(found).max())
    assert np.abs(found).max() > 5e-4


@SETS
def test_poiseuille_in_a_tilted_pipe_converges_at_second_order(stencil):
    """In diffusive scaling."""
    radii, errors = (3.6, 7.2), []
    for radius in radii:
        pipe, peak = EndlessPipe((1, 2, 3), radius), 0.5 / radius
        solver = forced(pipe, stencil, 0.8, peak)
        for _ in range(round(radius**2 / 0.1)):  # the slowest mode falls by exp(-5.78)
            solver.step()
        wanted = parabola(pipe, peak)
        errors.append(np.linalg.norm(pipe.unit @ solver.velocity() - wanted) / np.linalg.norm(wanted))
    assert errors[-1] < 6e-3
    assert order(radii, errors) > 1.8


def test_flow_along_an_axis_leaves_it_with_the_standard_equilibrium_of_d3q19_alone():
    """Summed over c_x, D3Q27 is D2Q9, in which u_x does not occur, and so is D3Q19 with isotropic fourth moments.

    In the standard equilibrium of D3Q19 w_i (4.5 c_x^2 - 1.5) u_x^2 stays.
    """
    pipe, peak = EndlessPipe((1, 0, 0), 5.2), 0.1
    across = {}
    for stencil, form in ((D3Q19, "incompressible"), (D3Q19, "incompressible-standard"), (D3Q27, "incompressible")):
        solver = forced(pipe, stencil, 0.52, peak, form=form)
        for _ in range(600):
            solver.step()
        across[stencil.name, form] = np.abs(solver.velocity()[1:]).max()
    assert across["D3Q27", "incompressible"] < 1e-14 * peak * 600
    assert across["D3Q19", "incompressible"] < 1e-14 * peak * 600
    assert across["D3Q19", "incompressible-standard"] > 1e-3 * peak


@pytest.mark.parametrize("form", EQUILIBRIA)
@SETS
def test_moments_of_the_equilibrium(stencil, form):
    """All up to the third are those of the fluid; the fourth are isotropic but in D3Q19's standard form.

    sum c_a c_b c_c c_d g^eq = drho (dd + dd + dd)/9 + rho (dd uu, six times)/3, of which the two-axes part is compared:
    c_x^2 c_y^2 has drho/9 + rho (u_x^2 + u_y^2)/3, and the standard form of D3Q19 - rho u_z^2/6 beside it.
    """
    rng = np.random.default_rng(4)
    drho, u, c = 0.02 * rng.standard_normal(20), 0.1 * rng.standard_normal((3, 20)), stencil.velocities
    g, rho = equilibrium(stencil, drho, u, form), density(drho, form)
    wanted = np.einsum("n,an,bn->abn", rho, u, u) + np.einsum("ab,n->abn", np.eye(3) / 3, drho)
    np.testing.assert_allclose(g.sum(axis=0), drho, rtol=0, atol=1e-16)
    np.testing.assert_allclose(c.T @ g, rho * u, rtol=0, atol=1e-16)
    np.testing.assert_allclose(np.einsum("i...,ia,ib->ab...", g, c, c), wanted, rtol=0, atol=1e-16)
    third = np.einsum("i...,ia,ib,ic->abc...", g, c, c, c)
    of_flow = sum(np.einsum(axes, np.eye(3) / 3, rho * u) for axes in ("ab,cn->abcn", "ac,bn->abcn", "bc,an->abcn"))
    seen = [abc for abc in np.ndindex(3, 3, 3) if len({*abc}) == 2]  # c_x^3 is c_x
    for abc in seen:
        np.testing.assert_allclose(third[abc], of_flow[abc], rtol=0, atol=1e-16)
    for a, b, outside in ((0, 1, 2), (0, 2, 1), (1, 2, 0)):
        fourth = (c[:, a] ** 2 * c[:, b] ** 2) @ g
        bent = rho * u[outside] ** 2 / 6 if stencil is D3Q19 and form.endswith("-standard") else 0.0
        np.testing.assert_allclose(fourth, drho / 9 + rho * (u[a] ** 2 + u[b] ** 2) / 3 - bent, rtol=0, atol=1e-16)
