# SPDX-License-Identifier: Apache-2.0
"""A vessel on the lattice between two tubes of a network: waves pass as theory says, nothing is lost or diverges."""

import numpy as np
import pytest

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.lattice import build_lattice
from solver.backends.subdomains import SubdomainsDriver
from solver.boundary.curves import fourier
from solver.boundary.openings import InletFeedback, OutletFeedback
from solver.boundary.profiles import Profile
from solver.boundary.waveform import Inflow, Waveforms
from solver.coupling.coupling import Coupling, intervals
from solver.kernels.collision import relaxation_rates
from solver.run.boundary_schedule import make_boundary_schedule
from solver.run.settings import InletSettings
from solver.runtime.errors import StageError
from tests.solver.run.test_simulation import settings
from tests.support.coupled import assembled, bell, fastest, pulse_through, steady_drop
from tests.support.geometries import pipe, random_cavern
from tests.support.simulator import simulated
from tests.support.variants import some


def test_pulse_is_reflected_and_passes_as_theory_says():
    """From 1.6 to 10 Hz, at 8 nodes across: within 0.015 and 3 degrees; the ladder has finer lattices."""
    for each in pulse_through(8, 0.64, (1, 3, 6)):
        for found, wanted in (
            (each.reflected, each.reflected_in_theory),
            (each.through, each.through_in_theory),
        ):
            assert abs(found) == pytest.approx(abs(wanted), abs=0.015)
            assert np.angle(found / wanted, deg=True) == pytest.approx(0, abs=3)


@pytest.mark.parametrize("ratio", some([0.2, 1.0, 5.0], 5.0))
def test_flow_that_reverses_stays_bounded_whatever_the_impedances(ratio):
    """R/Za from 0.2 to 5: the largest speed of a cycle comes to its end from below or above."""
    *_, before, last = fastest(ratio)
    assert last == pytest.approx(before, rel=0.05)


def test_network_is_given_what_passed_in_the_last_interval():
    case = assembled(bell(0.1, 0.02, 0.005), 0.1, 0.1, length_m=0.01)
    case.run(600 * case.coupling.interval)
    before = case.coupling._passed.copy()
    case.coupling.take_in(case.driver)
    last = (case.coupling._passed - before) * case.units.flow_m3_s / case.coupling.interval
    (_, into), (_, out) = (case.network.node_state(node) for node in ("b", "c"))
    np.testing.assert_allclose((into, -out), last, rtol=1e-9)
    assert np.abs(last).min() > 1e-10


@pytest.mark.slow
def test_steady_flow_loses_what_poiseuille_says():
    """At 8 nodes across and 20 mm, 27 spacings: half a spacing at an end would be 2 %; the ladder has longer pipes."""
    drop, flow = steady_drop(8, 0.02, (1, 2, 3))
    assert flow == pytest.approx(1, rel=1e-3)
    assert drop == pytest.approx(1, abs=0.01)


def test_run_that_was_stopped_goes_on_with_the_same_bits():
    """Stopped between two exchanges, with an interval that the network has not done yet."""

    def make():
        return assembled(bell(0.1, 0.02, 0.005), 0.1, 0.1, length_m=0.01)

    whole, first, second = make(), make(), make()
    interval, end = whole.coupling.interval, 40 * whole.coupling.interval
    stop = 21 * interval + interval // 4 * 2
    whole.run(end)
    first.run(stop)
    network, lattice = first.coupling.state(first.driver), first.driver.state()
    second.driver.restore(lattice)
    second.coupling.restore(network)
    second.run(end, stop)
    for case in (whole, second):
        case.coupling.take_in(case.driver)
    np.testing.assert_array_equal(whole.driver.populations, second.driver.populations)
    for name, array in whole.network.pack().items():
        np.testing.assert_array_equal(array, second.network.pack()[name])
    assert np.abs(whole.driver.populations).max() > 0


def test_impossible_couplings_are_refused():
    case = assembled(bell(0.1, 0.02, 0.005), 0.1, 0.1, length_m=0.01)
    with pytest.raises(StageError, match=r"the vessel's period is 0.05 s, that of the network network 0.1 s"):
        Coupling(case.network, case.coupling.caps, case.coupling.boundary_schedule, case.cycle // 2)
    with pytest.raises(StageError, match="a cycle of 1006 steps has no even part"):
        intervals(1006, case.network)
    schedule = case.coupling.boundary_schedule
    wanted = settings(inlets={"in": InletSettings(0.1, None, "womersley", "fourier", 3)})
    wave = Waveforms({"in": Inflow(fourier(np.linspace(0, 0.1, 9), np.array((1.0, 2, 3, 2, 1, 0, 1, 1, 1))), 0.0)}, {})
    nodes = pipe((0, 0, 1), 4.0, 10, spacing_mm=0.75)
    with pytest.raises(StageError, match=r"solve\.inlets\.in\.profile womersley: needs to know the flow beforehand"):
        make_boundary_schedule(nodes, wanted, wave, schedule.units, 0.0, 0.1, schedule.coupled_mmhg_s_ml)


def cavern(precision="fp64", size=(7, 6, 5)):
    """A random geometry, an inlet and an outlet of which follow what they find, and what they are offered."""
    nodes, rng = random_cavern(size, 3), np.random.default_rng(0)
    outlet = OutletFeedback(
        np.array((1,), np.int32),
        np.array((3,), np.int32),
        np.array(((0.05, 0.0, 0.0, 0.03, 0.0, 0.0, 0.0),)),
        np.zeros((1, 2)),
    )
    rule = np.array(((0.5, 0.1, 0.0, 2.0),))
    inlet = InletFeedback(np.array((0,), np.int32), np.array((0,), np.int32), rule, np.zeros(1))
    columns = np.array((0, 3, 5, 6), np.int32)
    profiles = {opening.name: Profile(corrected=True) for opening in nodes.openings if opening.role == "inlet"}
    rates = relaxation_rates(0.7, 0.1)
    feedback = {"outlet_feedback": outlet, "inlet_feedback": inlet}
    lattice = build_lattice(nodes, "trt", rates, "bouzidi", precision, profiles, columns=columns, **feedback)
    return nodes, lattice, 1e-3 * rng.random((30, 6)) * (0, 0, 5, 1, 0, -1)


def test_volumes_are_sums_of_filtered_flows_out_and_flows_in_and_parts_are_the_whole():
    nodes, lattice, boundary = cavern()
    whole, by_steps = CpuDriver(lattice), CpuDriver(lattice)
    parts = SubdomainsDriver(lattice, np.random.default_rng(1).integers(0, 3, nodes.count), CpuDriver)
    by_steps.begin(boundary)
    flow = []
    for k in range(len(boundary)):
        by_steps.step(k, k % 2 == 0)
        flow.append((by_steps.pressures()[0, 0], by_steps._inlet_flux.sum()))
    wanted = np.sum(flow, axis=0)
    for driver in (whole, parts):
        for rows in np.split(boundary, 3):
            driver.advance(rows)
        driver.ask_volume()
        np.testing.assert_allclose(driver.volume(), wanted, rtol=1e-12)
    assert np.abs(wanted).min() > 1e-4
    for a, b in zip(whole.fields().arrays(), parts.fields().arrays(), strict=True):
        np.testing.assert_array_equal(a, b)


ON_DEVICE = """
import numpy as np
from tests.solver.coupling.test_coupling import cavern
from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.cuda.cuda_driver import CudaDriver
from solver.backends.subdomains import SubdomainsDriver

nodes, lattice, boundary = cavern("fp64", (5, 4, 4))
part = np.arange(nodes.count) * 2 // nodes.count
drivers = CpuDriver(lattice), CudaDriver(lattice), SubdomainsDriver(lattice, part, CudaDriver)
for driver in drivers:
    driver.advance(boundary[:2])
    driver.ask_volume()
    driver.advance(boundary[2:4])
cpu, cuda, parts = drivers
for a, b, c in zip(*([driver.volume(), *driver.fields().arrays()] for driver in drivers), strict=True):
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.abs(a).max())
    np.testing.assert_array_equal(b, c)
"""


def test_the_simulated_device_agrees():
    """To round-off; parts give the bits of the whole. What was asked for is not what came later."""
    simulated(ON_DEVICE)
