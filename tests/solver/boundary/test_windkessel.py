# SPDX-License-Identifier: Apache-2.0
"""Pressures that follow from the flow: Windkessels, splits of the flow, and what the settings make of them."""

from dataclasses import replace

import numpy as np
import pytest

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.lattice import build_lattice
from solver.backends.subdomains import SubdomainsDriver
from solver.boundary.openings import OutletFeedback, adjusted
from solver.boundary.profiles import Profile
from solver.boundary.waveform import read_waveforms
from solver.boundary.windkessel import PASCAL_PER_MMHG, PROXIMAL_PART, WAVE_SPEED_M_S, Outlet, Windkessel
from solver.domain.nodes import Nodes, Opening
from solver.kernels.collision import relaxation_rates
from solver.run.boundary_schedule import make_boundary_schedule
from solver.run.outlet_pressures import warnings_of
from solver.run.outlet_rules import DAMPING, FILTER, GAIN, feedback_rule
from solver.run.settings import InletSettings, OutletSettings, SolveSettings, WindkesselSettings
from solver.run.units import Units
from solver.runtime.errors import StageError
from tests.support import solve_settings
from tests.support.geometries import nodes_from, numbers, observe, random_cavern
from tests.support.naive import Naive
from tests.support.simulator import simulated

RATES = relaxation_rates(0.52, 0.01)
"""As small a tau as pulsatile flows have: where a pressure that answers too fast lets the flow oscillate."""


def fork(length: int, other: int, spacing_mm: float = 1.0, width: int = 5, trunk: int = 10) -> Nodes:
    """A duct along x that splits into two square ones of given lengths, "a" and "b", side by side along y."""
    size = np.array((trunk + max(length, other), 2 * width + 2, width))
    fluid = np.zeros(size[::-1], bool)
    fluid[:, :, :trunk] = True
    fluid[:, :width, : trunk + length] = fluid[:, width + 2 :, : trunk + other] = True

    def crossing(position, velocity):
        end, first = position + velocity, position[:, 1] < width + 1
        out = np.where(first, end[:, 0] >= trunk + length, end[:, 0] >= trunk + other)
        return np.full(len(end), 0.5), np.where(end[:, 0] < 0, 1, np.where(out, np.where(first, 2, 3), 0))

    middle, area = (size - 1) / 2, width * width
    caps = (
        ("in", "inlet", (-0.5, middle[1], middle[2]), area * size[1] / width),
        ("a", "outlet", (trunk + length - 0.5, middle[2], middle[2]), area),
        ("b", "outlet", (trunk + other - 0.5, width + 2 + middle[2], middle[2]), area),
    )
    openings = tuple(
        Opening(
            k,
            name,
            role,
            tuple(np.array(centre) * spacing_mm),
            (-1.0 if k == 1 else 1.0, 0.0, 0.0),
            cap * spacing_mm**2,
            float(np.sqrt(cap / np.pi)) * spacing_mm,
        )
        for k, (name, role, centre, cap) in enumerate(caps, 1)
    )
    return nodes_from(fluid, crossing, openings, spacing_mm=spacing_mm)


IMPEDANCE = 3**0.5 / 25
"""Of the ends of :func:`fork`: drho of a wave over its flow."""


def driver_of(nodes, rules, precision="fp64"):
    """Driver of a fork with a rule for each of its first outlets, which follows their own flow."""
    outlet_feedback = OutletFeedback(
        np.arange(1, 1 + len(rules), dtype=np.int32),
        np.arange(1, 1 + 2 * len(rules), 2, dtype=np.int32),
        np.pad(np.array(rules), ((0, 0), (0, 3))),
        np.zeros((len(rules), 2)),
    )
    columns = np.append(0, 1 + np.cumsum([0] + [2] * len(rules) + [1] * (2 - len(rules)))).astype(np.int32)
    profiles = {"in": Profile("plug")}
    lattice = build_lattice(
        nodes,
        "trt",
        RATES,
        "bouzidi",
        precision,
        profiles,
        columns=columns[: len(nodes.openings) + 1],
        outlet_feedback=outlet_feedback,
    )
    return CpuDriver(lattice)


def raised(steps, ramp=600):
    return (1 - np.cos(np.pi * np.minimum(np.arange(steps) / ramp, 1))) / 2


def filtered(resistance):
    """The filter that goes with a resistance, in impedances."""
    return FILTER / (1 + resistance)


# The rule


@pytest.mark.parametrize("proximal", [0.0, 1.2])
def test_rule_is_the_windkessel_of_its_differential_equation(proximal):
    """C dpc/dt = Q - (pc - pd)/Rd and p = pc + Rp Q, solved by an independent method for a flow that pulsates."""
    from scipy.integrate import solve_ivp  # which takes ranks of tests longer to import than all else

    behind = Windkessel(proximal, 15.0, 0.08, 10.0)

    def flow(t):
        return 5 + 4 * np.sin(2 * np.pi * t / 0.8) + np.cos(6 * np.pi * t / 0.8)

    def rate(t, pc):
        return (flow(t) - (pc - behind.distal_pressure_mmhg) / behind.distal_mmhg_s_ml) / behind.compliance_ml_mmhg

    start = behind.distal_pressure_mmhg + behind.distal_mmhg_s_ml * 5
    exact = solve_ivp(rate, (0, 2.4), [start], rtol=1e-10, atol=1e-10, dense_output=True).sol
    errors = []
    for steps in (600, 1200):
        dt, state, worst = 2.4 / steps, (0.0, 0.0), 0.0
        decay = behind.decay(dt)
        rule = (1.0, decay, (1 - decay) * behind.distal_mmhg_s_ml, proximal, 0.0, 0.0, 0.0)
        for k in range(1, steps + 1):
            # the mean flow of the step, since the rule holds the flow within one; wanted is the mean flow
            *state, more = adjusted.py_func(flow((k - 0.5) * dt), 5.0, 0.0, state, rule)
            pressure = start + proximal * 5 + more
            at = k * dt if proximal == 0 else (k - 0.5) * dt
            worst = max(worst, abs(pressure - proximal * flow(at) - exact(k * dt)[0]))
        errors.append(worst)
    # pc swings by 20 mmHg; the middle of a step for its mean is of second order
    assert errors[1] < 3e-4
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.05)


def test_no_outlet_feeds_a_wave():
    """Windkessels within five decades about the lattice's impedance and about a step: what answers a flow that swings
    has a positive resistance at all frequencies, and answers a jump by a fifth of the impedance at most.
    """
    rng = np.random.default_rng(0)
    for _ in range(100):
        proximal, distal, steps = 10 ** rng.uniform((-4, -2, -2), (3, 3, 3)) * (rng.random() < 0.8, 1, 1)
        behind = Windkessel(proximal, distal, steps / distal, 0.0)
        rule = (*feedback_rule(Outlet(0.0, None, behind), 1.0, 1.0), 0.0, 0.0, 0.0)
        states = [adjusted.py_func(1.0, 0.0, 0.0, (0.0, 0.0), rule)]
        while abs(states[-1][2] - states[-2][2] if len(states) > 1 else 1.0) > 1e-12 and len(states) < 100_000:
            states.append(adjusted.py_func(0.0, 0.0, 0.0, states[-1][:2], rule))
        answer = np.array([more for *_, more in states])
        assert answer[0] <= 0.2
        assert np.fft.rfft(answer, 2**18).real.min() > -1e-6 * answer.sum()


def test_pressure_stored_over_a_cycle_is_the_one_that_repeats():
    behind = Windkessel(0.0, 15.0, 0.08, 0.0)
    flow = 5 + 4 * np.sin(2 * np.pi * np.arange(100) / 100)
    cycle = behind.periodic_mmhg(flow, 0.008)
    np.testing.assert_allclose(behind.stored_mmhg(flow, 0.008, cycle[-1]), cycle, rtol=1e-12)
    assert cycle.mean() == pytest.approx(15 * 5, rel=1e-12)


# On the lattice


@pytest.mark.parametrize("ratio", [0.5, 3.0, 10.0])
def test_windkessel_is_stable_and_its_steady_pressure_as_given(ratio):
    """Proximal resistance 0.5 to 10 impedances: no oscillation, and p = p0 + (Rp + Rd)(Q - Q0) within 0.1 %."""
    proximal, distal, steps, flow = ratio * IMPEDANCE, 4 * IMPEDANCE, 8000, 0.1
    decay = np.exp(-1 / 300)
    driver = driver_of(fork(12, 12), [(filtered(ratio), decay, (1 - decay) * distal, proximal)] * 2)
    boundary = np.stack([flow * raised(steps), *np.tile(((0.0, 0.0)), (steps, 2)).T], axis=1)
    for rows in np.split(boundary, 16):
        driver.advance(rows)
        assert observe(driver, False).max_speed < 0.01  # a duct's peak is about 0.004
    wanted = (proximal + distal) * flow / 2
    imposed = driver._boundary_values[-1, [1, 3]]  # the pressure on the caps, which no reader tells
    np.testing.assert_allclose(imposed, wanted, rtol=1e-3)
    # at nodes half a spacing before the cap
    np.testing.assert_allclose(observe(driver, False).opening_drho[1:], wanted, rtol=1e-2)
    np.testing.assert_allclose(-observe(driver, False).inflow[1:], flow / 2, rtol=1e-3)


def test_windkessel_that_answers_at_once_oscillates():
    """Why the flow is filtered more than by 1/(1 + Rp/Za): the test above with this filter."""
    proximal = 3 * IMPEDANCE
    driver = driver_of(fork(12, 12), [(1 / (1 + 3), 0.0, 0.0, proximal)] * 2)
    boundary = np.stack([0.3 * raised(1000), *np.zeros((4, 1000))], axis=1)
    driver.advance(boundary)
    assert not observe(driver, False).max_speed < 0.3


def test_resistances_split_the_flow_as_set():
    """Outlets of one size behind branches of unequal length: 70 % and 30 % by resistances well above the branches'."""
    steps, share, flow = 5000, np.array((0.7, 0.3)), 0.1
    total = 400 * IMPEDANCE * flow  # drop behind the outlets
    distal = total / (share * flow)
    behind = [Outlet(0.0, None, Windkessel(0.5 * IMPEDANCE, each, 400 / each, 0.0)) for each in distal]
    rules = [feedback_rule(each, IMPEDANCE, 1.0) for each in behind]
    ramp = raised(steps)
    boundary = np.stack([flow * ramp, 0 * ramp, share[0] * flow * ramp, 0 * ramp, share[1] * flow * ramp], axis=1)
    driver = driver_of(fork(8, 16), rules)
    driver.advance(boundary)
    np.testing.assert_allclose(-observe(driver, False).inflow[1:] / flow, share, rtol=1e-2)


def test_equal_outlets_share_the_flow_equally():
    driver = driver_of(fork(12, 12), [(filtered(1), 0.995, 0.02 * IMPEDANCE, IMPEDANCE)] * 2)
    boundary = np.stack([0.3 * raised(1500), *np.zeros((4, 1500))], axis=1)
    driver.advance(boundary)
    first, second = -observe(driver, False).inflow[1:]
    assert first == pytest.approx(second, rel=1e-9)  # the fork is its own mirror image


def test_flow_that_is_demanded_comes():
    """70 % through the longer branch, by its pressure alone; the other outlet keeps its own."""
    steps, flow = 4000, 0.3
    rule = (FILTER / (1 + DAMPING), 1.0, GAIN * IMPEDANCE, DAMPING * IMPEDANCE)
    driver = driver_of(fork(16, 8), [rule])
    ramp = raised(steps)
    missed = []
    for rows in np.split(np.stack([flow * ramp, 0 * ramp, 0.7 * flow * ramp, 0 * ramp], axis=1), 40):
        driver.advance(rows)
        missed.append(abs(observe(driver, False).inflow[1] + rows[-1, 2]) / flow)
    assert max(missed) < 0.1  # while the inflow is raised
    assert max(missed[15:]) < 0.01
    assert missed[-1] < 1e-4


def cavern(precision="fp64", size=(7, 6, 5)):
    """A random geometry, its lattice with both outlets controlled, and conditions."""
    nodes, rng = random_cavern(size, 3), np.random.default_rng(0)
    outlet_feedback = OutletFeedback(
        np.array((1, 2), np.int32),
        np.array((2, 4), np.int32),
        np.array(((0.05, 0.99, 0.02, 0.03, 0.0, 0.01, 0.6), (0.1, 1.0, 0.001, 0.05, 0.8, 0.02, 0.0))),
        np.array(((0.0, 1e-3), (0.0, -2e-3))),
    )
    columns = np.array((0, 2, 4, 6), np.int32)
    lattice = build_lattice(
        nodes, "trt", relaxation_rates(0.7, 0.1), "bouzidi", precision, columns=columns, outlet_feedback=outlet_feedback
    )
    # an inlet of two rows, the second of which sums to 0, as those of a harmonic
    second = rng.standard_normal(lattice.inlets.weight.shape[1])
    weight = np.stack((lattice.inlets.weight[0], second - second.mean())).astype(lattice.real)
    rows = np.full_like(lattice.inlets.rows, 2)
    lattice = replace(lattice, inlets=replace(lattice.inlets, weight=weight, rows=rows))
    return nodes, lattice, 1e-3 * rng.random((30, 6)) * (10, 1, 1, 5, -1, -3)


def test_driver_is_two_lattice_streaming_with_control():
    nodes, lattice, boundary = cavern()
    naive = Naive(
        nodes,
        "trt",
        lattice.rates,
        "bouzidi",
        lattice.inlets.weight,
        columns=np.array((0, 2, 4, 6)),
        outlet_feedback=lattice.outlet_feedback,
    )
    driver = CpuDriver(lattice)
    for rows in np.split(boundary, 3):
        driver.advance(rows)
    for row in boundary:
        naive.step(row)
    g = driver.populations.reshape(19, -1)[:, : nodes.count]
    np.testing.assert_allclose(g, naive.g, rtol=0, atol=1e-13 * np.abs(naive.g).max())
    np.testing.assert_allclose(observe(driver, False).inflow, naive.entered, rtol=0, atol=1e-14)


def test_subdomains_are_the_whole_with_outlet_feedback():
    """Also where they go back to a state, and begin with a flow: what they added up before is of another one."""
    nodes, lattice, boundary = cavern()
    whole = CpuDriver(lattice)
    parts = SubdomainsDriver(lattice, np.random.default_rng(1).integers(0, 3, nodes.count), CpuDriver)
    first, second, third = np.split(boundary, 3)
    for driver in (whole, parts):
        driver.advance(first)
        kept = driver.state()
        driver.advance(second)
        driver.restore(kept)
        driver.advance(second[:4])
        driver.begin_with(driver.fields(), driver.pressures())
        driver.advance(third)
    one, other = whole.fields(), parts.fields()
    for name in ("drho", "velocity", "stress"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    assert np.array_equal(*(numbers(observe(driver, False)) for driver in (whole, parts)))


COMPARE = """
import sys
import numpy as np
from tests.support.geometries import observe
from tests.solver.boundary.test_windkessel import cavern
from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.cuda.cuda_driver import CudaDriver
from solver.backends.subdomains import SubdomainsDriver

nodes, lattice, boundary = cavern("fp32", (5, 4, 4))
part = np.arange(nodes.count) * 2 // nodes.count
cpu = CpuDriver(lattice)
cuda = SubdomainsDriver(lattice, part, CudaDriver) if sys.argv[1] == "parts" else CudaDriver(lattice)
for driver in (cpu, cuda):
    for rows in np.split(boundary[:4], 2):
        driver.advance(rows)
for name in ("drho", "velocity", "stress"):
    a, b = (getattr(driver.fields(), name) for driver in (cpu, cuda))
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-6 * np.abs(a).max())
np.testing.assert_allclose(observe(cpu, False).backflow, observe(cuda, False).backflow, rtol=0, atol=1e-9)
"""


@pytest.mark.slow
@pytest.mark.parametrize("whole", ["whole", "parts"])
def test_simulated_cuda_is_the_cpu_with_control(whole):
    simulated(COMPARE, whole)


def test_backflow_is_what_enters_at_nodes_of_outlets():
    """Against the populations themselves: the flux of every link, summed by node."""
    _, lattice, boundary = cavern()
    driver = CpuDriver(lattice)
    driver.advance(boundary * (1, 1, 20, 1, 20, 1))
    flux = driver._outlet_flux
    node = np.repeat(lattice.outlets.node, np.diff(lattice.outlets.first))
    net = {}
    for n, opening, entered in zip(node, lattice.outlets.opening, flux, strict=True):
        net[n, opening] = net.get((n, opening), 0.0) + entered
    expected = [sum(value for (_, k), value in net.items() if k == opening and value > 0) for opening in range(3)]
    assert any(value > 0 for value in expected[1:])
    np.testing.assert_allclose(observe(driver, False).backflow, expected, rtol=1e-12)


# Settings

UNITS = Units(dx_m=2e-4, dt_s=1e-5, density_kg_m3=1060.0, viscosity_m2_s=3.3e-6)


def settings(outlets, flow_ml_s=3.0, waveform=None, **changes) -> SolveSettings:
    inlets = {"in": InletSettings(flow_ml_s, waveform, "developed")}
    own = {"inlets": inlets, "outlets": outlets, "cycles": 6, "unsettled": "refuse"}
    return solve_settings.settings(**own | changes)


def planned(outlets, ramp_s=0.0, nodes=None, **changes):
    nodes = nodes or fork(12, 12, spacing_mm=0.2)
    wanted = settings(outlets, **changes)
    waves = read_waveforms(nodes.openings, wanted)
    period_s = waves.inflow["in"].period_s or next((wave.period_s for wave in waves.pressure_mmhg.values()), None)
    schedule = make_boundary_schedule(nodes, wanted, waves, UNITS, ramp_s, period_s)
    return schedule, warnings_of(schedule, wanted.cycles)


def test_resistances_follow_from_pressure_and_split():
    (boundary, _), flow = planned({"*": OutletSettings(90.0, windkessel=WindkesselSettings())}), 1.5
    for name in "ab":
        outlet = boundary.outlets[name]
        each = outlet.windkessel
        assert outlet.fraction == pytest.approx(0.5)
        assert each.resistance_mmhg_s_ml == pytest.approx(90 / flow)
        wave = 1060 * WAVE_SPEED_M_S / 1e-6 / PASCAL_PER_MMHG * 1e-6  # rho c/A of the outlet's 1 mm2, mmHg s/mL
        assert each.proximal_mmhg_s_ml == pytest.approx(min(wave, PROXIMAL_PART * 90 / flow))
        assert each.time_constant_s == pytest.approx(1.5)
    assert boundary.reference_pa == pytest.approx(90 * PASCAL_PER_MMHG)


def test_murray_shares_what_fractions_leave():
    nodes = fork(12, 12, spacing_mm=0.2)
    large = replace(nodes.openings[1], radius_mm=2 * nodes.openings[1].radius_mm)
    nodes = replace(nodes, openings=(nodes.openings[0], large, nodes.openings[2]))
    behind = WindkesselSettings()
    for exponent in (3.0, 2.0):
        outlets = {"*": OutletSettings(90.0, windkessel=behind)}
        boundary, _ = planned(outlets, nodes=nodes, murray_exponent=exponent)
        assert boundary.outlets["a"].fraction == pytest.approx(2**exponent / (2**exponent + 1))
    outlets = {"a": OutletSettings(90.0, windkessel=behind, flow_fraction=0.4), "b": OutletSettings(90.0, None, behind)}
    assert planned(outlets)[0].outlets["b"].fraction == pytest.approx(0.6)


def test_given_resistances_make_their_own_steady_state():
    one, two = (WindkesselSettings(proximal_mmhg_s_ml=2, distal_mmhg_s_ml=distal) for distal in (18, 38))
    boundary, _ = planned({"a": OutletSettings(0, windkessel=one), "b": OutletSettings(0, windkessel=two)})
    a, b = boundary.outlets["a"], boundary.outlets["b"]
    assert (a.fraction, b.fraction) == pytest.approx((2 / 3, 1 / 3))  # conductances 1/20 and 1/40
    assert a.pressure_mmhg == b.pressure_mmhg == pytest.approx(3.0 / (1 / 20 + 1 / 40))
    fixed = {"a": OutletSettings(30.0), "b": OutletSettings(0, windkessel=two)}
    assert planned(fixed)[0].outlets["b"].fraction == pytest.approx(30 / 40 / 3.0)


def test_largest_outlet_keeps_its_pressure_where_all_flows_are_demanded():
    nodes = fork(12, 12, spacing_mm=0.2)
    large = replace(nodes.openings[2], area_mm2=2 * nodes.openings[2].area_mm2)
    nodes = replace(nodes, openings=(*nodes.openings[:2], large))
    outlets = {"a": OutletSettings(0.0, flow_fraction=0.7), "b": OutletSettings(0.0, flow_fraction="murray")}
    boundary, _ = planned(outlets, nodes=nodes)
    assert [boundary.outlets[name].demanded for name in "ab"] == [True, False]
    np.testing.assert_array_equal(boundary.columns, (0, 2, 4, 6))  # that of b follows from the flow of both
    np.testing.assert_allclose(boundary.at(0, 2)[:, 3] / boundary.at(0, 2)[:, 0], 0.7)


def test_state_is_held_while_the_inflow_is_raised(tmp_path):
    """The rule alone, with the flow that is imposed: a Windkessel's pressure stays, then repeats."""
    wave = tmp_path / "wave.csv"
    wave.write_text("time_s,flow_ml_s\n0,1\n0.02,6\n0.05,2\n0.1,1\n")
    behind = WindkesselSettings(time_constant_s=0.2)
    outlets = {"*": OutletSettings(90.0, windkessel=behind)}
    flat, _ = planned(outlets, ramp_s=0.02)
    pulsed, _ = planned(outlets, ramp_s=0.025, waveform=str(wave))
    for boundary, tolerance in ((flat, 0.01), (pulsed, 2e-3)):
        steps = 40_000
        rows = boundary.at(0, steps)
        flow, rule = rows[:, 0] * 0.5, boundary.outlet_feedback.rule[0]
        state, pressure = boundary.outlet_feedback.start[0], np.empty(steps)
        for k in range(steps):
            *state, more = adjusted.py_func(flow[k], rows[k, 3], 2 * (flow[k] - rows[k, 3]), state, rule)
            pressure[k] = rows[k, 2] + more
        mmhg = pressure * UNITS.pressure_pa / PASCAL_PER_MMHG
        last, before = mmhg[-10_000:], mmhg[-20_000:-10_000]
        # the filter's lag of some tens of steps is all that the expected state leaves out
        assert np.abs(last - before).max() < tolerance * max(np.ptp(last), 1.0)
        assert abs(last.mean()) < 0.05
        assert np.abs(mmhg[:2500]).max() < max(1.5 * np.abs(last).max(), 0.1)  # of 90


def test_pressure_waveform_is_on_the_cap(tmp_path):
    wave = tmp_path / "wave.csv"
    wave.write_text("time_s,pressure_mmhg\n0,80\n0.02,90\n0.05,85\n0.1,80\n")
    boundary, _ = planned({"a": OutletSettings(2.0, str(wave)), "b": OutletSettings(80.0)})
    rows = boundary.at(0, 10_000)
    mmhg = (rows[:, 2] * UNITS.pressure_pa + boundary.reference_pa) / PASCAL_PER_MMHG
    np.testing.assert_allclose(mmhg[[1999, 4999, 9999]], (92, 87, 82), rtol=1e-9)
    np.testing.assert_allclose(rows[:, 4] * UNITS.pressure_pa + boundary.reference_pa, 80 * PASCAL_PER_MMHG)


BEHIND = WindkesselSettings()


@pytest.mark.parametrize(
    ("outlets", "message"),
    [
        (
            {"*": OutletSettings(0.0, windkessel=BEHIND)},
            r"pressure_mmhg 0, distal_pressure_mmhg 0 and a flow of 1.5 mL/s",
        ),
        (
            {"a": OutletSettings(90.0, flow_fraction=1.2), "b": OutletSettings(90.0)},
            r"add up to 1.2, which leaves nothing",
        ),
        ({"a": OutletSettings(0.0, flow_fraction=0.3), "b": OutletSettings(0.0, flow_fraction=0.6)}, r"0.9, not 1"),
        (
            {"*": OutletSettings(90.0, windkessel=WindkesselSettings(2, 1.0))},
            r"elements 2 has no proximal_mmhg_s_ml \(1",
        ),
    ],
)
def test_outlets_that_contradict_themselves_are_refused(outlets, message):
    with pytest.raises(StageError, match=message):
        planned(outlets)


def test_windkessels_that_the_lattice_does_not_bear_are_reported(tmp_path):
    wave = tmp_path / "wave.csv"
    wave.write_text("time_s,flow_ml_s\n0,1\n0.2,6\n0.5,2\n1,1\n")
    given = {"proximal_mmhg_s_ml": 2000.0, "distal_mmhg_s_ml": 60.0, "compliance_ml_mmhg": 1e-6}
    steady = {"*": OutletSettings(90.0, windkessel=WindkesselSettings(**given))}
    assert any("times the impedance of the lattice's fluid" in text for text in planned(steady)[1])
    slow = {"*": OutletSettings(90.0, windkessel=WindkesselSettings(time_constant_s=5.0))}
    _, said = planned(slow, waveform=str(wave), flow_ml_s=0.03)
    assert any("raise solve.cycles to 15" in text for text in said)
