# SPDX-License-Identifier: Apache-2.0
"""The CUDA driver against the CPU driver: on the simulator everywhere, on a device where one answers."""

from types import SimpleNamespace

import numpy as np
import pytest

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.cuda import device
from solver.backends.cuda.boundary_pass import outlets_first
from solver.backends.lattice import build_lattice
from solver.backends.splitting import split
from solver.kernels.collision import relaxation_rates
from solver.runtime.errors import StageError
from tests.support.geometries import pipe, random_cavern
from tests.support.simulator import simulated

COMPARE = """
import sys
import numpy as np
from tests.support.geometries import observe, random_cavern
from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.cuda.device import device_answers
from solver.backends.cuda.cuda_driver import CudaDriver
from solver.backends.lattice import build_lattice
from solver.kernels.rheology import make_rheology

assert not device_answers()
precision, tolerance = sys.argv[1], float(sys.argv[2])
nodes, rng = random_cavern((5, 4, 4), 3), np.random.default_rng(0)
equilibrium, model, walls, velocities = sys.argv[4:8]
nodes = nodes.with_corners() if velocities == "D3Q27" else nodes
parameters = {"power-law": (0.02, 0.6), "bingham": (2e-4, 0.07)}.get(model)
blend = rng.random(nodes.count) if model == "power-law" else None
rheology = make_rheology(model, parameters, 0.7, 0.1, 0.1, blend) if parameters else None
lattice = build_lattice(nodes, sys.argv[3], (1 / 0.7, 1.2), walls, precision, force=(1e-5, 2e-5, -1e-5),
                        equilibrium=equilibrium, rheology=rheology)
cpu, cuda = CpuDriver(lattice), CudaDriver(lattice)
boundary_values = 1e-3 * rng.random((4, 3)) * (10, 1, -1)
cpu.advance(boundary_values)
cuda.advance(boundary_values)
one, other = cpu.fields(), cuda.fields()
assert (cpu.at_bounds() == cuda.at_bounds()).all()
for name in ("drho", "velocity", "stress", *(("viscosity",) if rheology else ())):
    a, b = getattr(one, name), getattr(other, name)
    assert b.dtype == lattice.real
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * np.abs(a).max())
a, b = observe(cpu, True), observe(cuda, True)
np.testing.assert_allclose(a.inflow, b.inflow, rtol=0, atol=tolerance * 0.01)
np.testing.assert_allclose(a.backflow, b.backflow, rtol=0, atol=tolerance * 0.01)
np.testing.assert_allclose(a.opening_drho, b.opening_drho, rtol=0, atol=tolerance * 1e-3)
assert a.node == b.node
np.testing.assert_allclose((a.max_speed, a.mean_speed, a.change), (b.max_speed, b.mean_speed, b.change), rtol=tolerance)
cuda.advance(boundary_values[:2] * np.nan)
assert observe(cuda, False).max_speed == np.inf
"""

RESTART = """
import numpy as np
from tests.support.geometries import observe, random_cavern
from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.cuda.cuda_driver import CudaDriver
from solver.backends.fields import MEAN, Fields
from solver.backends.lattice import build_lattice
from solver.kernels.rheology import make_rheology

nodes, rng = random_cavern((5, 4, 4), 3), np.random.default_rng(0)
rheology = make_rheology("power-law", (0.02, 0.6), 0.7, 0.1, 0.1, rng.random(nodes.count))
lattice = build_lattice(nodes, "trt", (1 / 0.7, 1.2), "bouzidi", "fp32", rheology=rheology)
boundary_values = 1e-3 * rng.random((4, 3)) * (10, 1, -1)

def go_on(driver):
    driver.advance(boundary_values[2:])
    driver.average(MEAN, False)
    driver.average(3, False)
    return observe(driver, True), driver.state()

one, other = CudaDriver(lattice), CudaDriver(lattice)
one.advance(boundary_values[:2])
for number in (MEAN, 3):
    one.average(number, True)
observe(one, True)
other.restore(one.state())
(seen, state), (seen_again, state_again) = go_on(one), go_on(other)
assert state.keys() == state_again.keys() and state["mean-3/count"] == 2
for name in state:
    assert np.array_equal(state[name], state_again[name]), name
assert seen.change == seen_again.change and (seen.inflow == seen_again.inflow).all()

cpu, fields, outlets = CpuDriver(lattice), one.fields(), one.pressures()
for driver in (cpu, other):
    driver.begin_with(fields, outlets)
    changed = Fields(2 * fields.drho, 3 * fields.velocity, fields.stress, fields.viscosity)
    driver.shift(fields, changed, 4 * outlets)
    assert np.array_equal(driver.pressures(), 4 * outlets)
held, found = cpu.state(), other.state()
for name in ("populations", "omega", "pressure", "outlet_flux"):
    assert np.array_equal(found[name], held[name]), name
"""

FOUR_PASSES = """
from dataclasses import replace
import numpy as np
from tests.support.geometries import random_cavern
from validation.four_pass_cuda import CudaFourPass
from validation.four_pass import FourPass, wall_nodes
from solver.backends.lattice import build_lattice

nodes = random_cavern((7, 6, 5), 3)
patch = (np.random.default_rng(2).random(len(nodes.wall_link_q)) < 0.4).astype(np.int8)
nodes, lid = replace(nodes, wall_link_patch=patch, patches=("lid",)), {"lid": (0.02, 0.01, -0.01)}
boundary_values = 1e-3 * np.random.default_rng(0).random((3, 3)) * (10, 1, -1)
for scheme, walls in (("half-way", wall_nodes(nodes, lid)), ("bouzidi", None)):
    lattice = build_lattice(nodes, "bgk", (1.2, 1.2), scheme, "fp64", force=(1e-4, 2e-4, -1e-4), moving=lid)
    twins = FourPass(lattice, walls), CudaFourPass(lattice, walls)
    for twin in twins:
        twin.advance(boundary_values)
    one, other = (twin.read(slice(None, 19 * lattice.stride)) for twin in twins)
    np.testing.assert_allclose(other, one, rtol=0, atol=1e-13 * np.abs(one).max())
    np.testing.assert_allclose(twins[1].velocity, twins[0].velocity, rtol=0, atol=1e-13 * np.abs(one).max())
"""

ONE_LAYER = """
import numpy as np
from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.cuda.cuda_driver import CudaDriver
from tests.solver.backends.test_one_layer import cavern, cavern_lattice, random_populations, start

nodes = cavern(1)
lattice = cavern_lattice(nodes)
cpu, cuda = CpuDriver(lattice), CudaDriver(lattice)
for driver in (cpu, cuda):
    start(driver, nodes, random_populations(nodes))
    driver.advance(np.zeros((2, 0)))
cuda.share_out(32)
assert cuda.threads == 32 and cuda.layout.startswith("32 threads a block")
for driver in (cpu, cuda):
    driver.advance(np.zeros((2, 0)))
one, other = cpu.fields(), cuda.fields()
for name in ("drho", "velocity", "stress"):
    a, b = getattr(one, name), getattr(other, name)
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.abs(a).max())
"""


@pytest.mark.parametrize(
    ("precision", "tolerance", "models"),
    [
        pytest.param("fp32", 1e-6, ("trt", "incompressible", "constant", "bouzidi", "D3Q19"), marks=pytest.mark.slow),
        ("fp64", 1e-12, ("recursive", "compressible", "power-law", "yu", "D3Q19")),
        pytest.param(
            "fp64", 1e-12, ("projected", "incompressible", "power-law", "bouzidi", "D3Q27"), marks=pytest.mark.slow
        ),
        ("fp32", 1e-6, ("cumulant", "incompressible", "constant", "bouzidi", "D3Q27")),
        pytest.param("fp64", 1e-12, ("trt", "incompressible", "bingham", "cli", "D3Q19"), marks=pytest.mark.slow),
        pytest.param("fp32", 1e-6, ("trt", "compressible", "constant", "yu", "D3Q27"), marks=pytest.mark.slow),
        # where fp32's round-off tips halves, they are 2^-11 off, some of 19 populations in each of four steps
        pytest.param("fp16", 2e-3, ("trt", "incompressible", "constant", "bouzidi", "D3Q19"), marks=pytest.mark.slow),
    ],
)
def test_simulated_cuda_is_the_cpu(precision, tolerance, models):
    simulated(COMPARE, precision, str(tolerance), *models)


def test_simulated_cuda_of_one_periodic_layer_is_the_cpu():
    """Whose nodes are neighbours of themselves; also in blocks of another size."""
    simulated(ONE_LAYER)


def test_simulated_cuda_goes_on_from_its_state():
    """To the same bits in populations, relaxation, fluxes and means."""
    simulated(RESTART)


@pytest.mark.slow
def test_simulated_four_passes_are_those_of_the_cpu():
    """Wall nodes that carry populations and a moving wall; interpolated walls; openings."""
    simulated(FOUR_PASSES)


@pytest.mark.parametrize("seed", range(6))
def test_wall_links_of_nodes_at_outlets_are_found_in_any_part(seed):
    """A launch treats them with their outlet, whose flow is found before: one among the others would run beside that.

    Nodes of a part stand in the order that its border leaves, and so do those at its outlets.
    """
    nodes, rng = random_cavern((16, 14, 12), seed), np.random.default_rng(seed)
    lattice = build_lattice(nodes, "trt", relaxation_rates(0.7, 0.1), "bouzidi", "fp64")
    across = (nodes.position @ rng.normal(size=3)).argsort().argsort() * 3 // nodes.count
    mixed = 0
    for part in split(lattice, across):
        walls, outlets, stride = part.lattice.walls, part.lattice.outlets, part.lattice.stride
        order, begins = outlets_first(walls, outlets, stride)
        node = walls.inside.astype(np.int64)[order] % stride
        assert np.array_equal(np.sort(order), np.arange(len(node)))
        assert np.array_equal(node[: begins[-1]], np.repeat(outlets.node, np.diff(begins)))
        assert not np.isin(node[begins[-1] :], outlets.node).any()
        mixed += bool((np.diff(outlets.node) < 0).any())
    assert mixed


def test_cuda_without_a_device_is_refused_with_the_remedy():
    if device.device_answers():
        pytest.skip("a CUDA device answers")
    with pytest.raises(StageError, match="set it to cpu or auto"):
        device.require_device()


def test_blocks_have_the_size_of_which_most_threads_fit(monkeypatch):
    """As many as registers, then as many as the device allows; 64 where 128 would leave half a block's room."""
    holds = SimpleNamespace(MAX_REGISTERS_PER_MULTIPROCESSOR=65536, MAX_THREADS_PER_MULTIPROCESSOR=1024, WARP_SIZE=32)
    monkeypatch.setattr(device, "cuda", SimpleNamespace(get_current_device=lambda: holds))
    assert device.fitting_threads(80) == (128, 768)
    assert device.fitting_threads(104) == (64, 576)
    assert device.fitting_threads(40) == (128, 1024)


def test_device_is_the_cpu():
    if not device.device_answers():
        pytest.skip("no CUDA device")
    nodes = pipe((1, 2, 3), 10.4, 40)
    lattice = build_lattice(nodes, "trt", relaxation_rates(0.6, 0.05))
    from solver.backends.cuda.cuda_driver import CudaDriver

    drivers = CpuDriver(lattice), CudaDriver(lattice)
    boundary_values = np.tile((5.0, 0.0), (100, 1))
    for driver in drivers:
        driver.advance(boundary_values)
    one, other = (driver.fields().velocity for driver in drivers)
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
