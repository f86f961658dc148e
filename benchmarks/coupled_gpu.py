# SPDX-License-Identifier: Apache-2.0
"""A vessel in a network on a CUDA device, walls that meet a parabola, and layers at outlets: agreement and speed.

    python benchmarks/coupled_gpu.py --json results.json
    python benchmarks/coupled_gpu.py --only agreement waiting --repeats 5

Needs a device, NumPy, Numba, h5py and SciPy. Prints what it finds as it goes and keeps it as JSON.

- agreement: a coupled pipe whose flow reverses, fp64, on the CPU and on the device: largest differences of the
  populations, of the volumes that passed and of the network's state, each over its range.
- waiting: a pipe in a made-up arterial tree of 78 tubes, fp32. The same driver runs the same stretches of steps with
  given boundary values and coupled, in turns; by what the coupled ones take longer, steps wait for the host. Events
  before and after each stretch tell how long the device stood still in between.
- walls: a vessel with a sac, without and with walls that meet a parabola, in turns.
- layers: layers at an outlet whose friction is taken off its pressure, fp64, on the CPU and on the device.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from bench import default_file, provenance
from coupled_vessel import DENSITY, LAMBDA_TRT, VISCOSITY_PA_S, waiting
from numpy.typing import NDArray
from parabola_speed import walls

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.cuda.cuda_driver import CudaDriver
from solver.backends.driver import Driver
from solver.backends.lattice import build_lattice
from solver.backends.lattice_driver import LatticeDriver
from solver.boundary.layers import outlet_layers
from solver.boundary.waveform import Waveforms, steady
from solver.kernels.collision import relaxation_rates
from solver.kernels.rheology import make_rheology
from solver.run.boundary_schedule import make_boundary_schedule
from solver.run.models import CUMULANT_LAMBDA, CUMULANT_LAYERS, LAYERS
from solver.run.settings import InletSettings, OutletSettings
from solver.run.units import Units
from tests.solver.run.test_simulation import settings
from tests.support.coupled import reversing
from tests.support.geometries import observe, pipe

Reals = NDArray[np.float64]

RATIOS, CYCLES, PARTS_OF_CYCLE = (0.2, 1.0, 5.0), 3, 8
"""R of the tubes over the lattice's impedance, how many cycles of the flow that reverses, and times of each."""
PRECISE, LAYER_STEPS = "fp64", 2000


def off(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Largest difference of two arrays over the range of the first, or over its size where it has no range."""
    if not one.size:
        return 0.0
    largest, span = float(np.abs(one - other).max()), float(np.ptp(one)) or float(np.abs(one).max())
    return largest / span if span else largest


def populations(driver: Driver) -> NDArray[Any]:
    """Those of fluid nodes, (q, count)."""
    assert isinstance(driver, LatticeDriver)
    lattice = driver.lattice
    slots = driver.here(driver.populations)[: lattice.q * lattice.stride]
    return slots.reshape(lattice.q, -1)[:, : lattice.count]


def agreement(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The flow that reverses, by R over the lattice's impedance: differences after each cycle.

    Volumes are those that passed up to each of `PARTS_OF_CYCLE` times of a cycle.
    """
    for ratio in RATIOS:
        on_cpu, on_cuda = both = [reversing(ratio, make) for make in (CpuDriver, CudaDriver)]
        for cycle in range(CYCLES):
            volumes: list[list[Reals]] = [[], []]
            ends = np.linspace(cycle, cycle + 1, PARTS_OF_CYCLE + 1) * on_cpu.cycle
            for begin, end in pairwise(ends.astype(int).tolist()):
                for case, found in zip(both, volumes, strict=True):
                    case.run(end, begin)
                    case.coupling.take_in(case.driver)
                    found.append(case.driver.volume().copy())
            arrays = [case.network.pack() for case in both]
            yield {
                "ratio": ratio,
                "cycle": cycle + 1,
                "steps": on_cpu.cycle,
                "nodes": populations(on_cpu.driver).shape[1],
                "largest_speed": observe(on_cuda.driver, False).max_speed,
                "populations": off(populations(on_cpu.driver), populations(on_cuda.driver)),
                "volumes": off(*(np.array(each) for each in volumes)),
                **{f"network {name}": off(array, arrays[1][name]) for name, array in arrays[0].items()},
            }


def layers(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Layers at an outlet, whose friction is taken off its pressure: the CPU against the device."""
    across, spacing_mm, speed, tau, wanted_tau = 16, 0.3, 0.05, 0.51, 0.6
    nodes = pipe((1, 2, 3), across / 2, 40, spacing_mm)
    dx = 1e-3 * spacing_mm
    viscosity = VISCOSITY_PA_S / DENSITY
    units = Units(dx, (tau - 0.5) / 3 * dx**2 / viscosity, DENSITY, viscosity)
    flow_ml_s = speed * np.pi * (across / 2) ** 2 * units.flow_ml_s
    wanted = settings(inlets={"in": InletSettings(flow_ml_s, None, "parabolic")}, outlets={"*": OutletSettings(0.0)})
    plain = make_boundary_schedule(nodes, wanted, Waveforms({"in": steady(flow_ml_s)}, {}), units, 0.0, None)
    for name, (q, collision, count) in {
        "D3Q19, projected": (19, "projected", LAYERS),
        "D3Q27, cumulant, force, parabola": (27, "cumulant", CUMULANT_LAYERS),
    }.items():
        lambda_trt = CUMULANT_LAMBDA if q == 27 else LAMBDA_TRT
        blend, friction = outlet_layers(nodes, tau, wanted_tau, count)
        schedule = plain.with_friction(friction, np.zeros(len(nodes.openings)))
        lattice = build_lattice(
            nodes if q == 19 else nodes.with_corners(),
            collision,
            relaxation_rates(tau, lambda_trt),
            "bouzidi",
            PRECISE,
            schedule.profiles,
            columns=schedule.columns,
            outlet_feedback=schedule.outlet_feedback,
            rheology=make_rheology("newtonian", ((tau - 0.5) / 3,), tau, lambda_trt, 0.0, blend),
            isotropic=q == 27,
            parabolic=q == 27,
        )
        on_cpu, on_cuda = drivers = CpuDriver(lattice), CudaDriver(lattice)
        for driver in drivers:
            driver.advance(schedule.at(0, LAYER_STEPS))
            driver.ask_volume()
        a, b = (driver.fields() for driver in drivers)
        assert a.viscosity is not None
        assert b.viscosity is not None
        yield {
            "models": name,
            "nodes": nodes.count,
            "steps": LAYER_STEPS,
            "layers": count,
            "friction": [float(each.resistance) for each in friction],
            "populations": off(populations(on_cpu), populations(on_cuda)),
            "drho": off(a.drho, b.drho),
            "velocity": off(a.velocity, b.velocity),
            "stress": off(a.stress, b.stress),
            "viscosity": off(a.viscosity, b.viscosity),
            "pressures": off(on_cpu.pressures(), on_cuda.pressures()),
            "volumes": float(np.abs(on_cpu.volume() / on_cuda.volume() - 1).max()),
        }


PARTS: Mapping[str, Callable[[argparse.Namespace], Iterator[dict[str, Any]]]] = {
    "agreement": agreement,
    "waiting": waiting,
    "walls": walls,
    "layers": layers,
}


def printed(found: Mapping[str, Any]) -> str:
    """A row in words."""
    words = (f"{value:.4g}" if isinstance(value, float) else f"{value}" for value in found.values())
    return ", ".join(f"{key} {value}" for key, value in zip(found, words, strict=True))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--sizes", nargs="+", type=float, default=[1.0, 5.0], help="of the sac, million nodes")
    parser.add_argument("--repeats", type=int, default=9, help="turns of each")
    parser.add_argument("--seconds", type=float, default=0.3, help="of one timing of walls, about")
    parser.add_argument("--commit", help="of what is measured, where git cannot tell it")
    parser.add_argument("--json", type=Path, help="file for the results; default: in benchmarks/results by the date")
    return parser.parse_args()


def main() -> None:
    options = parse()
    results = provenance(options)
    file = options.json or default_file("coupled", results["hardware"])
    for part in options.only:
        results[part] = []
        begin = time.monotonic()
        for found in PARTS[part](options):
            print(f"{part}: {printed(found)}", flush=True)
            results[part].append(found)
            file.write_text(json.dumps(results, indent=1) + "\n")
        print(f"{part} took {time.monotonic() - begin:.0f} s", flush=True)
    print(file)


if __name__ == "__main__":
    main()
