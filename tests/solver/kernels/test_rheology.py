# SPDX-License-Identifier: Apache-2.0
"""Blood whose viscosity depends on the shear rate: the formulas, the flow between plates, and what the user is told."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.lattice import build_lattice
from solver.kernels.collision import relaxation_rates
from solver.kernels.d3q19 import VELOCITIES, WEIGHTS
from solver.kernels.rheology import (
    GIVEN,
    LEAST_TAU,
    MOST_TAU,
    make_local_rate,
    make_rheology,
    one_number,
    thinned,
)
from solver.kernels.viscosity_models import VISCOSITIES
from solver.run.blood import MODELS
from tests.support.geometries import periodic_box, pipe, plates, random_cavern
from tests.support.naive import Naive, Thickening, equilibrium
from tests.support.simulator import interpreted
from validation.evidence import Evidence
from validation.goals import order
from validation.studies.viscoplastic_fluids import Casson, Fluid, velocity_by_quadrature

TAU = 0.8
POWER = one_number(np.float64).power


def places(height: int) -> np.ndarray:
    """Places of the nodes between plates, from the middle."""
    return np.arange(height) - (height - 1) / 2


@dataclass(frozen=True)
class Channel:
    """Flow between plates of a fluid whose `viscosity_at_wall` is 0.1, at a speed of about 0.05, in lattice units.

    `parameters` is a function of the shear rate and of the stress at the wall.
    """

    model: str
    parameters: object
    reached: float
    """L2 at 32 nodes that a careful version reaches."""
    held: float = 0.0
    """What is held in its place, where its parameters are not known."""

    def case(self, height: int) -> tuple[float, tuple[float, ...]]:
        """Force and parameters."""
        force = 2 * 0.1 * 0.05 / (height / 2) ** 2
        return force, self.parameters(force * height / 2 / 0.1, force * height / 2)

    def wanted(self, height: int) -> np.ndarray:
        force, parameters = self.case(height)
        model = MODELS[self.model]
        named = dict(zip(model.parameters, parameters, strict=True))
        yield_stress = named.get("yield_stress_pa", 0.0)
        return velocity_by_quadrature(
            places(height), height / 2, force, lambda g: model.viscosity(g, **named), yield_stress
        )

    def driver(self, height: int, collision: str = "trt") -> CpuDriver:
        force, parameters = self.case(height)
        rheology = make_rheology(self.model, parameters, TAU, 3 / 16)
        return CpuDriver(
            build_lattice(
                plates(height),
                collision,
                relaxation_rates(TAU, 3 / 16),
                "half-way",
                "fp64",
                None,
                (force, 0, 0),
                rheology=rheology,
            )
        )

    def error(self, height: int) -> float:
        """Relative L2 error of the velocity once it has become steady."""
        driver, before = self.driver(height), np.zeros(height)
        for _ in range(400):
            driver.advance(np.zeros((1000, 0)))
            velocity = driver.fields().velocity[0]
            if np.abs(velocity - before).max() < 1e-7 * velocity.max():
                break
            before = velocity
        wanted = self.wanted(height)
        return float(np.linalg.norm(velocity - wanted) / np.linalg.norm(wanted))


WHY = "the goal's parameters are not known; here the viscosity grows 12 times from the wall to the middle"
CHANNELS = {
    "power 0.5": Channel("power-law", lambda rate, stress: (stress / rate**0.5, 0.5), 1.4e-3),
    "power 1.5": Channel("power-law", lambda rate, stress: (stress / rate**1.5, 1.5), 7.8e-4),
    "casson": Channel("casson", lambda rate, stress: (0.1 * stress, 0.1 * (1 - 0.1**0.5) ** 2, 5.0), 9.5e-4),
    "bingham": Channel("bingham", lambda rate, stress: (0.3 * stress, 0.07), 1.1e-3),
    "carreau-yasuda": Channel(  # as cho-kensey-1991 at 100 1/s at the wall
        "carreau-yasuda", lambda rate, stress: (16.23 * 0.0733, 0.0733, 331.3 / rate, 2.0, 0.3568), 8.9e-5, 6e-4
    ),
    "herschel-bulkley": Channel(
        "herschel-bulkley", lambda rate, stress: (0.2 * stress, 0.8 * stress / rate**0.7, 0.7, 300 / rate), 1.4e-3
    ),
}


def analytic(name: str, height: int) -> np.ndarray:
    """Velocity at the nodes in closed form, for plates at +-h and a force G."""
    y, h = places(height), height / 2
    force, p = CHANNELS[name].case(height)
    if name.startswith("power"):
        return Fluid(0.0, *p).velocity(y, h, force)
    if name == "bingham":
        return Fluid(*p, 1.0).velocity(y, h, force)
    return Casson(*p[:2]).velocity(y, h, force)


@pytest.mark.parametrize(
    ("name", "tolerance"), [("power 0.5", 1e-9), ("power 1.5", 1e-9), ("bingham", 1e-6), ("casson", 1e-4)]
)
def test_quadrature_of_the_channel_is_its_closed_form(name, tolerance):
    # Casson's fluid has a limit of its viscosity, 50 times that at the wall, where the closed form has a plug
    wanted = analytic(name, 16)
    np.testing.assert_allclose(CHANNELS[name].wanted(16), wanted, rtol=0, atol=tolerance * wanted.max())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["power 0.5", "power 1.5", "bingham"])
def test_flow_between_plates_converges_at_second_order(name):
    coarse, fine = (CHANNELS[name].error(height) for height in (16, 32))
    assert fine < 1.2 * CHANNELS[name].reached
    assert np.log2(coarse / fine) > 1.8


@pytest.mark.parametrize("model", [model for model in MODELS if model != "bingham"])
def test_viscosity_of_a_node_is_the_models_formula(model):
    parameters = {
        "newtonian": (0.1,),
        "casson": (1e-5, 0.02, 1.0),
        "power-law": (0.01, 0.7),
        "carreau-yasuda": (1.0, 0.02, 300.0, 0.64, 0.2),
        "herschel-bulkley": (1e-5, 0.01, 0.8, 500.0),
    }[model]
    viscosity, known = VISCOSITIES[model](np.float64, POWER), MODELS[model]
    rates = np.logspace(-12, -1, 23)
    wanted = known.viscosity(rates, **dict(zip(known.parameters, parameters, strict=True)))
    # expm1 and powers of both libraries agree to a few units in the last place
    np.testing.assert_allclose([viscosity(rate, parameters) for rate in rates], wanted, rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["power-law", "bingham"])
@pytest.mark.parametrize("blended", [False, True])
def test_in_place_flow_of_varying_viscosity_is_that_of_two_lattices(model, blended):
    """Openings, curved walls, a force, eddies and a blend together; power law and Bingham are both ends of a model."""
    nodes, steps, force = random_cavern((7, 6, 5), 3), 20, (1e-5, 2e-5, -1e-5)
    parameters = {"power-law": (0.02, 0.6), "bingham": (2e-5, 0.1)}[model]
    rng = np.random.default_rng(0)
    blend = rng.random(nodes.count) if blended else None
    rheology = make_rheology(model, parameters, TAU, 3 / 16, 0.1, blend)
    rates = relaxation_rates(TAU, 3 / 16)
    lattice = build_lattice(nodes, "trt", rates, "bouzidi", "fp64", None, force, rheology=rheology)
    driver = CpuDriver(lattice)
    thick = Thickening(model, parameters, np.full(nodes.count, 1 / TAU), 3 / 16, 0.1, blend if blended else 0.0)
    naive = Naive(nodes, "trt", (0, 0), "bouzidi", lattice.inlets.weight, np.array(force), rheology=thick)
    naive.g[:] = 1e-3 * rng.standard_normal(naive.g.shape)
    g = driver.populations.reshape(19, -1)[:, : nodes.count]
    g[:] = naive.g
    boundary_values = 1e-3 * rng.random((steps, len(nodes.openings))) * (10, 1, -1)
    driver.advance(boundary_values)
    for row in boundary_values:
        naive.step(row)
    at_bounds = (thick.omega >= rheology.numbers[3]).sum(), (thick.omega <= rheology.numbers[2]).sum()
    assert tuple(driver.at_bounds()) == at_bounds
    # round-off of 20 steps, which a rate that follows the shear rate makes a little larger
    np.testing.assert_allclose(g, naive.g, rtol=0, atol=1e-12 * np.abs(naive.g).max())
    assert np.ptp(thick.omega) > 0.1


TWO_LATTICES = """
from tests.solver.kernels import test_rheology as tests
for model in ("power-law", "bingham"):
    tests.test_in_place_flow_of_varying_viscosity_is_that_of_two_lattices(model, True)
"""


def test_interpreted_flow_of_varying_viscosity_is_that_of_two_lattices():
    """With a blend; no other quick test has these models in double precision, which take a quarter of a minute each."""
    interpreted(TWO_LATTICES)


def populations_with(pi: np.ndarray) -> np.ndarray:
    """Populations at rest whose non-equilibrium momentum flux is the traceless `pi`, (3, 3)."""
    return 4.5 * WEIGHTS * np.einsum("ia,ib,ab->i", VELOCITIES, VELOCITIES, pi)


@pytest.mark.parametrize("share", [0.0, 0.25])
def test_eddies_and_a_blend_raise_the_relaxation_time(share):
    """tau = 1/2 + 3 nu + 3 (C dx)^2 g with g = sqrt(2 S:S) and S = -3/(2 tau) Pi, tau that of the step before."""
    pi = np.array([[2, 1, 0], [1, -3, 4], [0, 4, 1]]) * 1e-3
    constant, before, tau = 0.17, 1 / 0.55, 0.51
    numbers = make_rheology("newtonian", ((tau - 0.5) / 3,), tau, 0.1, constant).numbers
    local_rate = make_local_rate("newtonian", share > 0, "incompressible", np.float64, POWER)
    omega, found = local_rate(tuple(populations_with(pi)), (0.0, 0.0, 0.0), before, share, numbers)
    rate = np.sqrt(2 * ((1.5 * before * pi) ** 2).sum())
    eddies = tau + 3 * constant**2 * rate
    assert 1 / omega == pytest.approx(eddies + share * (1 - eddies), rel=1e-13)
    np.testing.assert_allclose(found, pi[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]], rtol=0, atol=1e-17)


def test_blood_of_thickened_nodes_is_measured_from_what_its_blend_makes_of_it():
    """tau + b (1 - tau) for any tau; where b is 1 nothing of it is left, and where b is 0 there is nothing to do."""
    tau, share = np.array([0.51, 0.6, 0.51, 0.6, 1.7, 0.51]), np.array([1 / 9, 1 / 9, 4 / 9, 4 / 9, 4 / 9, 1])
    blended = tau + share * (1 - tau)
    np.testing.assert_allclose(thinned((blended - 0.5) / 3, share, 0.01 / 3), (tau - 0.5) / (blended - 0.5), rtol=1e-12)
    np.testing.assert_array_equal(thinned(np.array([0.0, 0.3]), np.zeros(2), 0.1), 1)


def require_own_viscosity(tau: float) -> None:
    """Fail where fluid whose tau the units are chosen for is thicker, or is counted as one that meets a bound."""
    nodes = pipe((0, 0, 1), 3.2, 6)
    nu = (tau - 0.5) / 3
    blend = np.where(nodes.position[:, 2] < 2, 0.5, 0.0)
    rheology = make_rheology("newtonian", (nu,), tau, 0.1, blend=blend)
    driver = CpuDriver(build_lattice(nodes, "trt", relaxation_rates(tau, 0.1), precision="fp32", rheology=rheology))
    driver.advance(np.tile((1e-3, 0.0, 1.0), (4, 1)))
    viscosity = driver.fields().viscosity
    np.testing.assert_allclose(viscosity[blend == 0], nu, rtol=2e-3)  # rounding of omega near 2 in fp32
    assert tuple(driver.at_bounds()) == (0, 0)


OWN_VISCOSITY = """
from tests.solver.kernels.test_rheology import require_own_viscosity
for tau in (0.50005, 0.5002, 0.5004, 0.6):
    require_own_viscosity(tau)
"""


def test_no_bound_makes_blood_thicker_than_it_is():
    """A fluid as thin as the units are chosen for has its own tau, also where that is below the bound of others."""
    interpreted(OWN_VISCOSITY)


def require_same_bits_of_given_rates(precision: str) -> None:
    """Fail where a blend alone, whose omega is known before, gives other bits than with omega from the flow."""
    nodes, rng, tau = random_cavern((5, 4, 4), 3), np.random.default_rng(1), 0.52
    known = make_rheology("newtonian", ((tau - 0.5) / 3,), tau, 0.1, blend=rng.random(nodes.count))
    found = []
    for rheology in (known, replace(known, model="newtonian")):
        driver = CpuDriver(
            build_lattice(nodes, "trt", relaxation_rates(tau, 0.1), precision=precision, rheology=rheology)
        )
        driver.advance(1e-3 * np.random.default_rng(2).random((5, len(nodes.openings))))
        found.append((driver.populations, driver.held()["omega"][: nodes.count], *driver.fields().arrays()))
    assert known.model == GIVEN
    assert np.ptp(found[0][1]) > 0.5
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


SAME_BITS = """
from tests.solver.kernels.test_rheology import require_same_bits_of_given_rates
for precision in ("fp32", "fp64"):
    require_same_bits_of_given_rates(precision)
"""


def test_what_does_not_follow_from_the_flow_is_known_before_the_first_step():
    interpreted(SAME_BITS)


@pytest.mark.parametrize(("rate", "tau"), [(1e-18, MOST_TAU), (1e6, LEAST_TAU)])
def test_relaxation_time_stays_within_its_bounds(rate, tau):
    pi = np.diag((1.0, -1.0, 0.0)) * rate
    numbers = make_rheology("power-law", (0.01, 0.5), 0.8, 0.1).numbers
    local_rate = make_local_rate("power-law", False, "incompressible", np.float64, POWER)
    assert 1 / local_rate(tuple(populations_with(pi)), (0.0,) * 3, 1.0, 0.0, numbers)[0] == pytest.approx(tau)


def damped_wave(start: np.ndarray, nu: float, mixing: float, steps: int) -> np.ndarray:
    """Solution of du/dt = d/dz [(nu + mixing |du/dz|) du/dz] on a periodic line, by Fourier series and Runge-Kutta."""
    k = 2j * np.pi * np.fft.fftfreq(len(start))

    def rate(u: np.ndarray) -> np.ndarray:
        slope = np.fft.ifft(k * np.fft.fft(u)).real
        return np.fft.ifft(k * np.fft.fft((nu + mixing * np.abs(slope)) * slope)).real

    u, dt = start, 20.0
    for _ in range(round(steps / dt)):
        a = rate(u)
        b = rate(u + dt / 2 * a)
        c = rate(u + dt / 2 * b)
        u = u + dt / 6 * (a + 2 * b + 2 * c + rate(u + dt * c))
    return u


@pytest.mark.slow
def test_eddies_damp_a_shear_wave_as_their_viscosity_says():
    length, steps, nu, constant = 64, 20_000, 5e-4, 0.3
    nodes, tau = periodic_box((1, 1, length)), 0.5 + 3 * nu
    lambda_trt = (
        tau - 0.5
    ) / 2  # as chosen for fine grids: a larger one at this tau adds stress where there is no shear
    rheology = make_rheology("newtonian", (nu,), tau, lambda_trt, constant)
    rates = relaxation_rates(tau, lambda_trt)
    driver = CpuDriver(build_lattice(nodes, "trt", rates, "bouzidi", "fp64", rheology=rheology))
    start = 0.1 * np.sin(2 * np.pi / length * nodes.position[:, 2])
    g = driver.populations.reshape(19, -1)[:, :length]
    g[:] = equilibrium(np.zeros(length), np.outer((1.0, 0.0, 0.0), start))  # less would ring, and eddies feel sound
    driver.advance(np.zeros((steps, 0)))
    wanted, fields = damped_wave(start, nu, constant**2, steps), driver.fields()
    assert np.abs(damped_wave(start, nu, 0.0, steps)).max() > 1.08 * np.abs(wanted).max()  # eddies are felt
    # the lattice takes a slope with an error of (2 pi/64)^2/6 = 0.2 %
    np.testing.assert_allclose(fields.velocity[0], wanted, rtol=0, atol=5e-3 * np.abs(wanted).max())
    slope = np.abs(np.gradient(np.concatenate((wanted[-1:], wanted, wanted[:1])))[1:-1])
    np.testing.assert_allclose(fields.viscosity, nu + constant**2 * slope, rtol=0.02)


@pytest.mark.slow
@pytest.mark.ladder
def test_flow_between_plates_of_every_model():
    with Evidence(
        "rheology", "Flow between plates of fluids whose viscosity varies", "closed forms and quadrature, L2"
    ) as case:
        sizes, errors = (16, 32, 64), {}
        for name, channel in CHANNELS.items():
            errors[name] = [channel.error(height) for height in sizes]
            held = {"held": channel.held, "why": WHY} if channel.held else {}
            case.reach(f"{name}, 32 nodes", errors[name][1], at_most=1.2 * channel.reached, **held)
            case.reach(f"{name}, order from 16 to 32 nodes", order(sizes[:2], errors[name][:2]), at_least=1.8)
        rows = [(name, *found, order(sizes, found)) for name, found in errors.items()]
        case.table(("model", *(f"{height} nodes" for height in sizes), "order"), rows)

        def draw(figure):
            figure.set_size_inches(5.5, 3.2)
            axes = figure.subplots()
            for name, found in errors.items():
                axes.loglog(sizes, found, "o-", label=name)
            axes.set(xlabel="nodes between the plates", ylabel="relative L2 error", xticks=sizes, xticklabels=sizes)
            axes.minorticks_off()
            axes.legend(ncols=2)

        case.draw(draw, "Error of the velocity between plates against the number of nodes, by model of viscosity")
