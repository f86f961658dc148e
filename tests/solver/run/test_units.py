# SPDX-License-Identifier: Apache-2.0
"""Units and the choice of the time step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.boundary.windkessel import PASCAL_PER_MMHG
from solver.run.units import EXPECTED_DRHO, Units, choose_units
from solver.runtime.errors import StageError

scale = st.floats(1e-6, 1e3)


@given(dx=scale, dt=scale, density=scale, viscosity=scale)
def test_scales_are_consistent_with_their_dimensions(dx, dt, density, viscosity):
    units = Units(dx, dt, density, viscosity)
    assert units.speed_m_s * units.dt_s == pytest.approx(units.dx_m)
    assert units.flow_m3_s == pytest.approx(units.speed_m_s * dx**2)
    # a column of one node's height under gravity: pressure = density * acceleration * height
    assert units.stress_pa == pytest.approx(density * dx / dt**2 * dx)
    assert units.pressure_pa == pytest.approx(units.stress_pa / 3)
    assert units.force_n_m3 == pytest.approx(density * dx / dt**2)
    assert units.dynamic_pa_s * units.shear_rate_1_s == pytest.approx(units.stress_pa)
    assert units.dynamic_pa_s / density == pytest.approx(dx**2 / dt)
    assert units.power_w * dt == pytest.approx(density * dx**3 * units.speed_m_s**2)


@given(dx=scale, dt=scale, density=scale, resistance=scale, compliance=scale, flow=scale)
def test_resistance_and_compliance_mean_the_same_on_the_lattice(dx, dt, density, resistance, compliance, flow):
    """p = R Q and dp/dt = Q/C, worked out in lattice units and carried back, are those in mmHg, mL and s."""
    units = Units(dx, dt, density, 1e-6)
    lattice_flow = flow / units.flow_ml_s
    drho = resistance / units.resistance_mmhg_s_ml * lattice_flow
    assert drho * units.pressure_pa / PASCAL_PER_MMHG == pytest.approx(resistance * flow)
    rise = lattice_flow / (compliance / units.compliance_ml_mmhg)  # of drho in a step
    assert rise * units.pressure_pa / PASCAL_PER_MMHG / dt == pytest.approx(flow / compliance)
    product = resistance / units.resistance_mmhg_s_ml * (compliance / units.compliance_ml_mmhg)  # a time, in steps
    assert product * dt == pytest.approx(resistance * compliance)


@given(tau=st.floats(0.501, 1.5), speed=st.floats(1e-3, 2), dx=st.floats(1e-5, 1e-3))
def test_viscosity_survives_the_round_trip_through_tau(tau, speed, dx):
    viscosity, lattice_speed = 3.3e-6, 0.08
    units, _, _ = choose_units(dx, speed, 1060, viscosity * 1060, lattice_speed)
    assert (units.tau - 0.5) / 3 * dx**2 / units.dt_s == pytest.approx(viscosity, rel=1e-9)
    assert speed / units.speed_m_s <= lattice_speed * (1 + 1e-12)
    assert units.tau <= 1.5 + 1e-12


def test_coronary_of_the_table_of_choices():
    # coronary 3 mm, 0.4 m/s, nu 3.3e-6 m2/s, u_lat 0.1, dx 0.1 mm: dt 2.5e-5 s, tau 0.525
    units, notes, warnings = choose_units(1e-4, 0.4, 1000, 3.3e-3, 0.1, 0.8)
    assert units.dt_s == pytest.approx(2.5e-5)
    assert units.tau == pytest.approx(0.52475)
    assert not notes
    assert not warnings


def test_tau_is_capped_by_a_shorter_time_step():
    units, notes, _ = choose_units(1e-5, 1e-3, 1000, 3.3e-3, 0.1)
    assert units.tau == pytest.approx(1.5)
    assert "tau is not above 1.5" in notes[0]


@given(wanted=st.floats(1e-5, 1e2), speed=st.floats(1e-2, 2), period=st.floats(0.3, 2))
def test_loss_is_kept_below_one_percent_for_no_more_than_four_times_the_steps(wanted, speed, period):
    """One that grows with dt^2, and that of a standing wave, 1/cos(k dt) - 1, which is less again beyond resonance."""
    free, _, _ = choose_units(2e-4, speed, 1060, 3.5e-3, 0.08)

    def wave(dt):
        return abs(1 / np.cos(min(wanted, 6) * dt / free.dt_s) - 1)

    for loss in (lambda dt: wanted * (dt / free.dt_s) ** 2, wave):
        units, notes, _ = choose_units(2e-4, speed, 1060, 3.5e-3, 0.08, period, 1, loss=loss)
        rounding = 2 * units.dt_s / period  # a cycle is a whole number of pairs of steps
        assert units.dt_s * (1 + 2 * rounding) >= free.dt_s / 4
        if loss(free.dt_s / 4) <= 0.01:
            assert loss(units.dt_s) <= 0.01
        if loss(free.dt_s) > 0.01:
            assert "compressibility" in notes[-1]
            longer = 1.02 * units.dt_s * (1 + 2 * rounding)  # it is looked for to less than 2 %
            assert loss(longer) > 0.01 or longer > free.dt_s
        else:
            assert units.dt_s == pytest.approx(free.dt_s, rel=2 * rounding)


@given(pressure=st.floats(1e-3, 1e5), speed=st.floats(1e-3, 2), dx=st.floats(1e-5, 1e-3))
def test_expected_pressure_does_not_compress_the_lattice(pressure, speed, dx):
    """A smaller lattice speed, and no other than is needed."""
    units, notes, _ = choose_units(dx, speed, 1060, 3.5e-3, 0.08, pressure_pa=pressure)
    free, other, _ = choose_units(dx, speed, 1060, 3.5e-3, 0.08)
    assert pressure / units.pressure_pa <= EXPECTED_DRHO * (1 + 1e-9)
    if pressure / free.pressure_pa > EXPECTED_DRHO * (1 + 1e-9):
        assert pressure / units.pressure_pa == pytest.approx(EXPECTED_DRHO)
        assert f"at most {EXPECTED_DRHO}" in notes[-1]
    else:
        assert (units, notes) == (free, other)


@given(period=st.floats(0.3, 2), rows=st.integers(1, 1000), speed=st.floats(1e-2, 2), pressure=st.floats(0, 1e3))
def test_rows_of_the_monitor_divide_a_cycle_into_pairs_of_steps(period, rows, speed, pressure):
    units, _, _ = choose_units(2e-4, speed, 1060, 3.5e-3, 0.08, period, rows, pressure)
    pairs = period / units.dt_s / (2 * rows)
    assert pairs == pytest.approx(round(pairs), abs=1e-6)
    assert speed / units.speed_m_s <= 0.08 * (1 + 1e-9)


def test_under_resolved_flow_is_named_with_the_spacing_that_would_do():
    _, _, warnings = choose_units(1e-3, 1.0, 1000, 3.3e-3, 0.1)
    assert "grid Reynolds number 303 is above 150" in warnings[0]
    assert "0.5 mm" in warnings[0]
    assert len(warnings) == 1


def test_compressible_lattice_speed_is_refused():
    with pytest.raises(StageError, match=r"lattice_speed 0\.2 is above 0\.17"):
        choose_units(1e-4, 0.4, 1000, 3.3e-3, 0.2)
