# SPDX-License-Identifier: Apache-2.0
"""Pulsatile flow in a pipe: its solution holds the equations, and of made-up flows is measured what was put in."""

from types import SimpleNamespace

import numpy as np
import pytest

from pipeline.case.shapes import Pipe
from pipeline.haemodynamics.wall_shear_stress import Wall
from solver.boundary.windkessel import PASCAL_PER_MMHG
from solver.runtime.errors import StageError
from tests.support.geometries import pipe
from tests.support.shapes import capped_cylinder
from validation.evidence import Evidence
from validation.studies import womersley
from validation.studies.womersley import Options
from validation.studies.womersley_cycle import Cycle, pulse_figures, shear_figures
from validation.studies.womersley_solution import (
    PulsatilePipe,
    Windkessel,
    first_harmonic,
    harmonic_shear,
    phase_deg,
    shear_indices,
)

NU, RHO, OSCILLATION = 3.3e-6, 1060.0, 0.8
BEHIND = Windkessel(0.04, 0.16, 1.5)


def pulsatile(alpha: float, radius_m: float = 2.9e-3) -> PulsatilePipe:
    return PulsatilePipe(radius_m, 2 * np.pi * (radius_m / alpha) ** 2 / NU, NU, RHO, 0.75)


# ---- solutions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.5, 4.0, 8.0])
def test_velocity_balances_the_pressure_and_carries_the_flow(alpha):
    """i w rho u = -dp/dx + mu (r u')'/r, no slip, and the flow that was given; differences over 1e-4 R."""
    case, flow, h = pulsatile(alpha), 0.5 - 0.3j, 1e-4
    r = np.linspace(0.1, 0.9, 9)
    inner, here, outer = (case.velocity(flow, r + k * h) for k in (-1, 0, 1))
    laplacian = ((outer - 2 * here + inner) / h**2 + (outer - inner) / (2 * h) / r) / case.radius_m**2
    friction = case.gradient(flow) + RHO * NU * laplacian
    np.testing.assert_allclose(friction, 1j * case.omega * RHO * here, atol=1e-5 * abs(case.gradient(flow)))
    assert abs(case.velocity(flow, np.array(1.0))) < 1e-12 * abs(here).max()
    points, weights = np.polynomial.legendre.leggauss(40)
    mean = (weights * (points + 1) / 2 * case.velocity(flow, (points + 1) / 2)).sum()
    assert mean == pytest.approx(1e-6 * flow / (np.pi * case.radius_m**2), rel=1e-10)


@pytest.mark.parametrize("alpha", [0.5, 4.0, 8.0])
def test_shear_on_the_wall_is_viscosity_times_the_slope_of_the_velocity(alpha):
    """By a one-sided difference of second order over 1e-4 R, a thousandth of Stokes' layer and less."""
    case, flow, h = pulsatile(alpha), 0.5 - 0.3j, 1e-4
    near, far = case.velocity(flow, 1 - h * np.array([1.0, 2.0]))
    slope = (4 * near - far) / (2 * h * case.radius_m)
    assert case.shear_pa(flow) == pytest.approx(RHO * NU * slope, rel=1e-5)


def test_a_slow_oscillation_is_steady_flow():
    """What is left is of the order of alpha^2."""
    case, r = pulsatile(1e-2), np.linspace(0, 1, 11)
    np.testing.assert_allclose(case.velocity(case.flow_ml_s, r), case.steady_velocity(r), atol=1e-4 * 2 * 0.0284)
    assert case.gradient(case.flow_ml_s) == pytest.approx(case.steady_gradient(), rel=1e-4)
    assert case.reynolds == pytest.approx(2 * 0.75e-6 / (np.pi * 2.9e-3 * NU), rel=1e-12)


def test_wall_shear_of_slow_harmonics_is_that_of_a_steady_flow_and_of_fast_ones_that_of_a_plate():
    """alpha -> 0: 1; alpha -> infinity: Stokes' layer, i w rho U R/(2 l/i) over 4 mu U/R, alpha exp(i pi/4)/4."""
    assert harmonic_shear(np.array(1e-2)) == pytest.approx(1, abs=1e-4)
    assert harmonic_shear(np.array(300.0)) == pytest.approx(300 * np.exp(0.25j * np.pi) / 4, rel=0.02)


def test_indices_of_a_stress_that_turns_back():
    """1 + 2 cos: |1 + 2 cos| has the mean 1/3 + 2 sqrt(3)/pi over a cycle; 1000 times tell it to 1e-5."""
    found = shear_indices(1 + 2 * np.cos(2 * np.pi * np.arange(1000) / 1000))
    size = 1 / 3 + 2 * 3**0.5 / np.pi
    assert found["TAWSS"] == pytest.approx(size, rel=1e-5)
    assert found["OSI"] == pytest.approx((1 - 1 / size) / 2, rel=1e-4)
    assert (found["RRT"], found["peak"]) == pytest.approx((1, 3))


def test_impedance_is_the_answer_of_the_circuit():
    """C dpc/dt = q - pc/Rd, p = pc + Rp q, stepped over 20 time constants by the trapezoidal rule of 2000 a period."""
    period, steps = 0.8, 2000
    omega, dt = 2 * np.pi / period, period / steps
    times = np.arange(12 * steps) * dt
    flow, stored = np.cos(omega * times), np.zeros(12 * steps)
    rate = dt / (2 * BEHIND.distal_mmhg_s_ml * BEHIND.compliance_ml_mmhg)
    for k in range(1, len(times)):
        into = dt / 2 * (flow[k] + flow[k - 1]) / BEHIND.compliance_ml_mmhg
        stored[k] = (stored[k - 1] * (1 - rate) + into) / (1 + rate)
    pressure = PASCAL_PER_MMHG * (stored + BEHIND.proximal_mmhg_s_ml * flow)
    found = first_harmonic(times[-steps:], pressure[-steps:], period)
    assert BEHIND.impedance_pa_s_ml(omega) == pytest.approx(found, rel=1e-5)
    assert BEHIND.impedance_pa_s_ml(0) == pytest.approx(PASCAL_PER_MMHG * 0.2)


def test_first_harmonic_is_measured_from_mean_and_second():
    times = np.arange(24) / 24 * 0.7
    turn = np.exp(2j * np.pi * times / 0.7)
    values = 3 + ((1 - 2j) * turn + 5j * turn**2).real
    assert first_harmonic(times, values, 0.7) == pytest.approx(1 - 2j, rel=1e-12)
    assert phase_deg(1 - 2j) == pytest.approx(-63.434948822922)


# ---- the measure, of runs that are made up ---------------------------------------------------------------------------

RADIUS, LENGTH = 6.0, 36.0  # in spacings


class MadeUp:
    """The exact flow in a pipe, but for factors on its swing.

    Attributes
    ----------
    velocity, gradient, shear, impedance : factors on the swing of each.
    """

    def __init__(self, alpha=4.0, radius=RADIUS, velocity=1.0, gradient=1.0, shear=1.0, impedance=1.0, stored=0.0):
        self.case_, self.radius = pulsatile(alpha), radius
        self.name = f"{alpha:g}-{2 * radius:g}"
        length = LENGTH / RADIUS * radius
        self.nodes = pipe((1, 2, 3), radius, length, 2.9 / radius)
        inlet, outlet = self.nodes.openings
        axis, flow = np.array(outlet.normal), self.case_.flow_ml_s
        times = self.case_.period_s * (3 + np.arange(1, 25) / 24)
        turn, oscillatory = self.case_.turning(times), OSCILLATION * flow
        offset = self.nodes.points_mm() - inlet.centre_mm
        along = offset @ axis
        across = offset - along[:, None] * axis
        distance = np.linalg.norm(across, axis=1)
        r = distance / 2.9
        speed = self.case_.velocity(oscillatory, r)
        # tau_rx = mu du/dr, by a central difference; factors are those of the swing
        slope = (
            (self.case_.velocity(oscillatory, r + 1e-5) - self.case_.velocity(oscillatory, r - 1e-5)) / 2e-5 / 2.9e-3
        )
        steady_slope = -4 * self.case_.speed(flow).real * r / 2.9e-3
        radial = across / np.maximum(distance, 1e-12)[:, None]
        tensor = np.einsum("na,b->nab", radial, axis)
        tensor = (tensor + tensor.transpose(0, 2, 1)).reshape(-1, 9)[:, [0, 4, 8, 1, 5, 2]]
        steepness = gradient * self.case_.gradient(oscillatory)
        self.flow = SimpleNamespace(
            times_s=times,
            velocity_m_s=lambda k: np.outer(self.case_.steady_velocity(r) + (velocity * speed * turn[k]).real, axis),
            pressure_pa=lambda k: -1e-3 * along * (self.case_.steady_gradient() + (steepness * turn[k]).real),
            viscous_stress_pa=lambda k: RHO * NU * (steady_slope + (shear * slope * turn[k]).real)[:, None] * tensor,
        )
        every = self.case_.period_s * np.arange(1, 801) / 200
        wave = self.case_.turning(every)
        pressure = impedance * BEHIND.impedance_pa_s_ml(self.case_.omega) * oscillatory * (1 - stored)
        self.monitor = {
            "time_s": every,
            "flow_ml_s:in": flow + (oscillatory * wave).real,
            "flow_ml_s:out": flow + (oscillatory * (1 - stored) * wave).real,
            "pressure_pa:out": 20 + (pressure * wave).real,
        }
        self.surface = capped_cylinder(
            axis, 2.9, length * 2.9 / radius, (np.array(inlet.centre_mm) + outlet.centre_mm) / 2, 48
        )[0]
        # so light a fluid stores nothing
        numbers = {"time_step_s": 1e-9, "period_s": self.case_.period_s, "viscosity_m2_s": NU, "density_kg_m3": RHO}
        imposed = {"in": {}, "out": vars(BEHIND) | {"pressure_mmhg": 0.15}}
        self.summary = {
            "numbers": numbers,
            "openings": {name: {"imposed": reported, "imposed_flow_ml_s": flow} for name, reported in imposed.items()},
        }
        shape = Pipe(shape="pipe", diameter_mm=5.8, length_mm=length * 2.9 / radius, direction=(1, 2, 3))
        self.case = SimpleNamespace(input=SimpleNamespace(geometry=shape))


def test_a_flow_that_is_the_solution_shows_no_error():
    """The swing of the exact flow is told to round-off; stress is carried to the wall by straight lines."""
    cycle = Cycle.of(MadeUp())
    figures = vars(pulse_figures(cycle))
    assert max(map(abs, figures.values())) < 1e-9
    wall = shear_figures(cycle, Wall.of(cycle.run.surface))
    assert abs(wall.shear) < 0.05
    assert wall.tawss < 0.05
    assert cycle.layer_nodes == pytest.approx(RADIUS * 2**0.5 / 4, rel=1e-12)


def test_errors_of_the_oscillatory_component_are_those_that_were_put_in():
    turned = 1.1 * np.exp(1j * np.radians(4))
    cycle = Cycle.of(MadeUp(gradient=turned, impedance=0.9 * np.exp(-1j * np.radians(2))))
    found = pulse_figures(cycle)
    assert (found.gradient, found.gradient_deg) == pytest.approx((0.1, 4), rel=1e-9)
    assert (found.impedance, found.impedance_deg) == pytest.approx((-0.1, -2), rel=1e-9)
    assert found.velocity < 1e-9
    # a swing that is too large by a tenth: a tenth of its part in the root of the mean square of the whole
    cycle = Cycle.of(MadeUp(velocity=1.1))
    oscillatory = cycle.pipe.velocity(OSCILLATION * cycle.pipe.flow_ml_s, cycle.r)
    part = (np.abs(oscillatory) ** 2).sum() / 2
    whole = part + (cycle.pipe.steady_velocity(cycle.r) ** 2).sum()
    assert pulse_figures(cycle).velocity == pytest.approx(0.1 * (part / whole) ** 0.5, rel=1e-9)


def test_flow_that_does_not_leave_is_lost_unless_the_fluid_stores_it():
    run = MadeUp(stored=0.02)
    found = pulse_figures(Cycle.of(run))
    assert (found.outflow, found.lost) == pytest.approx((-0.02, 0.02), rel=1e-6)
    # a step at which all nodes, at a pressure that swings by one pascal, take in 2 % of the swing of the flow
    case, spacing_m = Cycle.of(run).pipe, 1e-3 * run.nodes.spacing_mm
    run.flow.pressure_pa = lambda k: np.full(run.nodes.count, -1.0) * case.turning(run.flow.times_s[k]).imag * -1
    taken = 0.02 * OSCILLATION * case.flow_ml_s * 1e-6
    bulk_pa = case.omega * run.nodes.count * spacing_m**3 / taken
    run.summary["numbers"]["time_step_s"] = spacing_m / (3 * bulk_pa / RHO) ** 0.5
    assert pulse_figures(Cycle.of(run)).lost < 1e-9


def test_shear_that_oscillates_too_little_shows_as_such():
    """The same error but for that of the straight lines, which a swing of 0.9 has as well."""
    wall = Wall.of(MadeUp().surface)
    right, low = (shear_figures(Cycle.of(MadeUp(alpha=8.0, shear=factor)), wall) for factor in (1.0, 0.9))
    assert (1 + low.shear) / (1 + right.shear) == pytest.approx(0.9, rel=1e-6)
    assert low.shear_deg == pytest.approx(right.shear_deg, abs=1e-6)
    assert low.exact_osi == right.exact_osi > 0.1


OPTIONS = {
    "nodes": 20,
    "velocity": 0.02,
    "gradient": 0.03,
    "gradient_deg": 1.5,
    "impedance": 0.01,
    "impedance_deg": 1,
    "lost": 0.005,
    "layer": 3,
    "tawss": 0.05,
    "osi": 0.01,
    "order": 1.8,
}


def test_a_coarser_lattice_is_asked_for_what_the_orders_leave_of_the_goals():
    runs = [MadeUp(radius=radius, velocity=1 + 1 / radius**2) for radius in (7.0, 4.0, 5.0)]
    evidence = Evidence("made-up", "made up", "formulas")
    womersley.measure(evidence, {run.name: run for run in runs}, Options(**OPTIONS))
    goals = {goal.what: goal for goal in evidence.goals}
    name = "Womersley number 4, 14 nodes"
    assert goals[f"{name}: velocity, L2"].wanted == pytest.approx(0.02 * (20 / 14) ** 2)
    assert goals[f"{name}: flow that is neither stored nor leaves"].wanted == 0.005
    assert goals[f"{name}: OSI, mean size of the deviation"].wanted == pytest.approx(0.01 * 3 / (7 * 2**0.5 / 4))
    # nodes at other places weigh the solution differently, by some per cent
    assert goals["Womersley number 4: order of the velocity"].reached == pytest.approx(2, abs=0.1)
    assert [row[:2] for row in evidence.tables[0]["rows"]] == [["4", 8], ["4", 10], ["4", 14]]


def test_runs_without_a_pulse_or_a_windkessel_are_refused():
    run = MadeUp()
    run.summary["openings"]["out"]["imposed"] = {"pressure_mmhg": 0.0}
    with pytest.raises(StageError, match="run 4-12: its outlet has no windkessel"):
        Cycle.of(run)
    run.summary["numbers"].pop("period_s")
    with pytest.raises(StageError, match="run 4-12: no pulsatile flow through a pipe"):
        Cycle.of(run)
