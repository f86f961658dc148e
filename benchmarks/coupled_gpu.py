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
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from bench import TAU, boundary_values, default_file, provenance
from numpy.typing import NDArray

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.cuda.cuda_driver import CudaDriver
from solver.backends.cuda.device import cuda
from solver.backends.driver import Driver
from solver.backends.lattice import Lattice, build_lattice
from solver.backends.lattice_driver import LatticeDriver
from solver.boundary.curves import constant, spline
from solver.boundary.layers import outlet_layers
from solver.boundary.openings import InletFeedback, OutletFeedback
from solver.boundary.parabolic_walls import ParabolicWalls
from solver.boundary.waveform import Waveforms, steady
from solver.boundary.windkessel import PASCAL_S_M3_PER_MMHG_S_ML
from solver.coupling.coupling import LEAST_EXCHANGES, Cap, Coupling
from solver.domain.nodes import Nodes
from solver.kernels.collision import relaxation_rates
from solver.kernels.rheology import make_rheology
from solver.network.network import Network, Segment
from solver.network.openings import Coupled, FlowInlet, MatchedWindkessel, Terminal
from solver.network.run import NetworkRun, Numerics
from solver.network.walls import ElasticWall
from solver.run.boundary_schedule import make_boundary_schedule
from solver.run.models import CUMULANT_LAMBDA, CUMULANT_LAYERS, LAYERS
from solver.run.settings import InletSettings, OutletSettings
from solver.run.units import Units
from tests.solver.run.test_simulation import settings
from tests.support.coupled import reversing
from tests.support.geometries import hollow, observe, pipe, round_opening
from validation.timing import Taken, passes, repeated, stirred, stopwatch

Reals = NDArray[np.float64]

LAMBDA_TRT = 3 / 16
RATIOS, CYCLES, PARTS_OF_CYCLE = (0.2, 1.0, 5.0), 3, 8
"""R of the tubes over the lattice's impedance, how many cycles of the flow that reverses, and times of each."""
PERIOD_S, DENSITY, VISCOSITY_PA_S = 1.0, 1060.0, 4e-3
ROOT_RADIUS_M, TUBE_M, YOUNG_PA, FORKS = 12e-3, 0.115, 1.08e6, 38
"""Of the tree: radius of the first tube, length of each, Young's modulus, and number of forks."""
RESISTANCE_PA_S_M3, COMPLIANCE_M3_PA = 1.3e8, 1e-8
"""Of all its ends together."""
CELL_M, SAMPLES = 4e-3, 100
"""Length of a cell of the network, and samples of a cycle."""
RADIUS_M, SOUND_M_S = 3e-3, 12.0
"""Of the vessel on the lattice: its radius, and the speed of sound of its fluid."""
PIPES = {"100,000 nodes": (30, 141), "1 million nodes": (64, 311)}
"""Nodes across and along the vessel, by name."""
FINER = (1, 4)
"""By how much shorter than it must be the network's step is, with which intervals shrink."""
SETTLING = 0.3
"""Of a cycle, before times are taken."""
STRETCH_S, WARM = 0.4, 50
"""Time of a stretch that is timed, about, and exchanges before the first."""
PRECISE, LAYER_STEPS = "fp64", 2000
SETS = {"D3Q19, trt": (19, "trt"), "D3Q19, bgk": (19, "bgk"), "D3Q27, cumulant, force": (27, "cumulant")}
"""Velocity sets and collision models with which walls meet a parabola."""
IN_BOTH = ("D3Q19, trt",)
"""Of these, what is measured in double precision too."""


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


def arteries() -> tuple[Network, float]:
    """A tree that halves at each fork by Murray's law, in one of whose last tubes the vessel sits; and the radius of
    this tube. 77 tubes, one of which is two, 2,418 cells of 4 mm and 4,500 steps of a cycle, about as ADAN56 has.
    """
    tubes, ends, radii = [Segment("0", "heart", "1", TUBE_M, ROOT_RADIUS_M, ElasticWall(YOUNG_PA))], ["1"], [1.0]
    for _ in range(FORKS):
        start, radius = ends.pop(0), radii.pop(0) / 2 ** (1 / 3)
        for _ in range(2):
            name = str(len(tubes))
            end = str(len(tubes) + 1)
            tubes.append(Segment(name, start, end, TUBE_M, ROOT_RADIUS_M * radius, ElasticWall(YOUNG_PA)))
            ends.append(end)
            radii.append(radius)
    last = tubes.pop()
    tubes += [replace(last, end="in"), replace(last, name="behind", start="out")]
    share = len(ends)
    terminals: dict[str, Terminal] = {
        end: MatchedWindkessel(share * RESISTANCE_PA_S_M3, COMPLIANCE_M3_PA / share) for end in ends
    }
    terminals |= {"in": Coupled("flow"), "out": Coupled("flow")}
    at = np.linspace(0, PERIOD_S, 401)
    flow = 2e-4 * np.sin(np.pi * np.minimum(at / 0.3, 1)) ** 2
    heart = FlowInlet(spline(at, flow))
    return Network(tuple(tubes), {"heart": heart}, terminals, PERIOD_S), radii[-1] * ROOT_RADIUS_M


class Watched(CudaDriver):
    """A driver that keeps the boundary values of its stretches and how long the host waited for volumes.

    Attributes
    ----------
    stretches : boundary values of each.
    waited_s : time that the host waited.
    marks : events before and after each stretch, where they are asked for.
    """

    def __init__(self, lattice: Lattice) -> None:
        super().__init__(lattice)
        self.forget_stretches()

    def forget_stretches(self, mark: bool = False) -> None:
        """Begin again; `mark`: with events."""
        self.stretches: list[Reals] = []
        self.waited_s = 0.0
        self._mark, self.marks = mark, list[Any]()

    def mark(self) -> None:
        if self._mark:
            self.marks.append(cuda.event())
            self.marks[-1].record(self.queue.stream)

    def advance(self, boundary_values: Reals) -> None:
        """The same, kept."""
        self.mark()
        self.stretches.append(boundary_values)
        super().advance(boundary_values)
        self.mark()

    def volume(self) -> Reals:
        """The same, timed."""
        begin = time.perf_counter()
        found = super().volume()
        self.waited_s += time.perf_counter() - begin
        return found

    def finish(self) -> None:
        """Wait for the device."""
        self.queue.stream.synchronize()

    def timed(self, work: Callable[[], object]) -> float:
        """Seconds until the device has done some work."""
        self.finish()
        begin = time.perf_counter()
        work()
        self.finish()
        return time.perf_counter() - begin

    def timed_as_taken(self, work: Callable[[], object]) -> Taken:
        """The same, as other timings have it."""
        return Taken(self.timed(work), 0.0)


@dataclass(frozen=True)
class Vessel:
    """A pipe in the tree.

    Attributes
    ----------
    coupling, driver : what runs.
    lattice : the same with openings of given values.
    cycle : steps of a cycle.
    """

    coupling: Coupling
    driver: Watched
    lattice: Lattice
    cycle: int

    def run(self, first: int, exchanges: int) -> int:
        """Run so many intervals; the step that it ends with."""
        last = first + exchanges * self.coupling.interval
        self.coupling.advance(self.driver, first, last)
        return last


def alone(driver: CudaDriver, stretches: list[Reals]) -> None:
    """Run a lattice alone with given boundary values."""
    for rows in stretches:
        driver.advance(rows)


def vessel(across: int, along: int, finer: int) -> Vessel:
    """A pipe in the tree, `across` and `along` nodes wide and long, with a network's step of 1/`finer`."""
    network, radius_m = arteries()
    run = NetworkRun(network, Numerics(CELL_M, Numerics().courant / finer, SAMPLES))
    dx = 2 * radius_m / across
    exchanges = max(run.steps, LEAST_EXCHANGES)
    interval = 2 * max(1, round(PERIOD_S / exchanges / (dx / 3**0.5 / SOUND_M_S) / 2))
    cycle = exchanges * interval
    units = Units(dx, PERIOD_S / cycle, DENSITY, VISCOSITY_PA_S / DENSITY)
    nodes = pipe((0, 0, 1), across / 2, along, spacing_mm=1e3 * dx)
    offers = run.offers()
    coupled = {name: offers[name].resistance_pa_s_m3 / PASCAL_S_M3_PER_MMHG_S_ML for name in ("in", "out")}
    wanted = settings(inlets={"in": InletSettings(0.0, None, "parabolic")}, outlets={"*": OutletSettings(0.0)})
    given = Waveforms({"in": steady(0.0)}, {})
    schedule, _ = make_boundary_schedule(nodes, wanted, given, units, 0.0, PERIOD_S, coupled)
    lattice = build_lattice(
        nodes,
        "trt",
        relaxation_rates(units.tau, min(LAMBDA_TRT, 2 * (units.tau - 0.5))),
        "bouzidi",
        "fp32",
        schedule.profiles,
        columns=schedule.columns,
        outlet_feedback=schedule.outlet_feedback,
        inlet_feedback=schedule.inlet_feedback,
    )
    caps = tuple(Cap(end, end, constant(0.0), constant(0.0)) for end in ("in", "out"))
    given_values = replace(lattice, outlet_feedback=OutletFeedback.none(), inlet_feedback=InletFeedback.none())
    return Vessel(Coupling(run, caps, schedule, cycle), Watched(lattice), given_values, cycle)


def still_s(driver: Watched) -> float:
    """Time that the device stood still between stretches, which lie between pairs of marks."""
    driver.finish()
    between = zip(driver.marks[1::2], driver.marks[2::2], strict=False)
    return float(sum(cuda.event_elapsed_time(*pair) for pair in between)) / 1e3


def host_parts(case: Vessel, rows: Reals) -> dict[str, float]:
    """Microseconds on the host of an exchange's parts, medians; last of all, since the network goes on."""
    coupling, network, schedule = case.coupling, case.coupling.network, case.coupling.boundary_schedule
    lead_s = 2 * coupling.substeps * network.step_s
    works: dict[str, Callable[[], object]] = {
        "network's steps": lambda: network.advance(coupling.substeps),
        "what it offers": lambda: network.offers(lead_s),
        "boundary values": lambda: schedule.at(0, coupling.interval),
        "launches": lambda: case.driver.advance(rows),
        "asking for volumes": case.driver.ask_volume,
    }
    found = {}
    for name, work in works.items():
        times = []
        for _ in range(200):
            case.driver.finish()
            begin = time.perf_counter()
            work()
            times.append(time.perf_counter() - begin)
        found[name] = round(1e6 * float(np.median(times)), 1)
    return found


def waiting(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Speed of the lattice alone and coupled, in turns, by size and interval."""
    for name, (across, along) in PIPES.items():
        for finer in FINER:
            case = vessel(across, along, finer)
            yield {"vessel": name, **waits(case, round(SETTLING * case.cycle), options.repeats)}


def waits(case: Vessel, settling: int, repeats: int) -> dict[str, Any]:
    """Times of a vessel, after so many steps, about."""
    driver, coupling, interval = case.driver, case.coupling, case.coupling.interval
    step = case.run(0, WARM)
    taken = driver.timed(partial(case.run, step, WARM)) / WARM
    step = case.run(step + WARM * interval, settling // interval)
    exchanges = max(10, round(STRETCH_S / taken))
    coupled_s, alone_s, waited_s = [], [], []
    for _ in range(repeats):
        driver.forget_stretches()
        coupled_s.append(driver.timed(partial(case.run, step, exchanges)))
        step += exchanges * interval
        waited_s.append(driver.waited_s)
        stretches, state = driver.stretches, driver.state()
        driver.forget_stretches()
        alone_s.append(driver.timed(partial(alone, driver, stretches)))
        driver.restore(state)
    speed = observe(driver, False).max_speed
    if not 0 < speed < 0.2:
        raise SystemExit(f"the largest speed is {speed:g}, and its rate means nothing")
    without = Watched(case.lattice)
    given = [0 * rows for rows in stretches]  # a pressure that would follow from the flow is 0 as a given one
    without_s = repeated(without.timed_as_taken, partial(alone, without, given), repeats)[:, 0]
    driver.forget_stretches(mark=True)
    marked_s = driver.timed(partial(case.run, step, exchanges))
    still, rows = still_s(driver), driver.stretches[-1]
    driver.forget_stretches()
    updates = driver.lattice.count * exchanges * interval
    return {
        "nodes": driver.lattice.count,
        "tubes": len(coupling.network.network.segments),
        "cells": len(coupling.network.grid.area),
        "steps_of_a_cycle": case.cycle,
        "network_steps_of_a_cycle": coupling.network.steps,
        "interval": interval,
        "exchanges": exchanges,
        "largest_speed": speed,
        "alone_mlups": updates / float(np.median(alone_s)) / 1e6,
        "alone_without_feedback_mlups": updates / float(np.median(without_s)) / 1e6,
        "coupled_mlups": updates / float(np.median(coupled_s)) / 1e6,
        "longer": float(np.median(np.divide(coupled_s, alone_s))) - 1,
        "longer_each": (np.divide(coupled_s, alone_s) - 1).tolist(),
        "device_stood_still": still / marked_s,
        "exchange_us": 1e6 * float(np.median(alone_s)) / exchanges,
        "host_busy_us": 1e6 * float(np.median(np.subtract(coupled_s, waited_s))) / exchanges,
        "host_us": host_parts(case, rows),
    }


def sac(count: float) -> Nodes:
    """A pipe, askew to the axes, with a round sac on its side; about so many nodes."""
    radius = (count / 37) ** (1 / 3)
    unit, side = np.array((2.0, 3.0, 6.0)) / 7, np.array((6.0, 2.0, -3.0)) / 7
    start = np.array((0.3, 0.2, 0.4))
    length, middle, round_radius = 8 * radius, start + 4 * radius * unit + 1.5 * radius * side, 1.6 * radius

    def level(points: Reals) -> Reals:
        offset = points - start
        beside = np.linalg.norm(offset - np.outer(offset @ unit, unit), axis=1) - radius
        return np.minimum(beside, np.linalg.norm(points - middle, axis=1) - round_radius)

    ends = start, start + length * unit
    caps = (
        round_opening(1, "in", "inlet", ends[0], -unit, radius),
        round_opening(2, "out", "outlet", ends[1], unit, radius),
    )
    margin = radius + 2
    low = np.minimum(np.minimum(*ends) - margin, middle - round_radius - 2)
    high = np.maximum(np.maximum(*ends) + margin, middle + round_radius + 2)
    return hollow(level, caps, np.floor(low), np.ceil(high))


def with_parabola(nodes: Nodes, q: int, collision: str, precision: str) -> Lattice:
    """A lattice whose walls meet a parabola; with 27 velocities the force of isotropy acts, as it does in runs."""
    rates = relaxation_rates(TAU, CUMULANT_LAMBDA if collision == "cumulant" else LAMBDA_TRT)
    on = nodes if q == 19 else nodes.with_corners()
    return build_lattice(on, collision, rates, "bouzidi", precision, isotropic=q == 27, parabolic=True)


def without_parabola(lattice: Lattice) -> Lattice:
    """The same lattice with walls that meet a straight line."""
    return replace(lattice, walls=replace(lattice.walls, varies=False), parabolic=ParabolicWalls.none())


def walls(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Speed without and with walls that meet a parabola, in turns, by size, models and precision."""
    for millions in options.sizes:
        nodes = sac(millions * 1e6)
        for name, (q, collision) in SETS.items():
            for precision in ("fp32", "fp64") if name in IN_BOTH else ("fp32",):
                lattice = with_parabola(nodes, q, collision, precision)
                found = costs(lattice, boundary_values(nodes), options)
                yield {"millions": millions, "models": name, "precision": precision, **found}


def costs(lattice: Lattice, row: Reals, options: argparse.Namespace) -> dict[str, Any]:
    """Times of a lattice without and with walls that meet a parabola, `row` being the boundary values of a step."""
    pair = [stirred(CudaDriver(each)) for each in (without_parabola(lattice), lattice)]
    watches = [stopwatch(driver) for driver in pair]
    some = np.tile(row, (64, 1))
    step_s = np.median(repeated(watches[0], partial(pair[0].advance, some), 3)[:, 0]) / len(some)
    rows = np.tile(some, (max(1, round(options.seconds / step_s / len(some))), 1))
    taken = np.array(
        [
            [watch(partial(driver.advance, rows)).seconds for driver, watch in zip(pair, watches, strict=True)]
            for _ in range(options.repeats + 1)
        ]
    )[1:]
    if not all(np.isfinite(observe(driver, False).max_speed) for driver in pair):
        raise SystemExit("the flow diverged, and its rate means nothing")
    without_s, with_s = np.median(taken, axis=0) / len(rows)
    longer = taken[:, 1] / taken[:, 0] - 1
    renewing_s = np.median(repeated(watches[1], pair[1].renew_corrections, options.repeats)[:, 0])
    walls_s = [passes(driver, row, options.repeats)["walls"] for driver in pair]
    return {
        "nodes": lattice.count,
        "wall_links": len(lattice.walls.slot),
        "steps": len(rows),
        "without_mlups": lattice.count / without_s / 1e6,
        "with_mlups": lattice.count / with_s / 1e6,
        "longer": float(np.median(longer)),
        "longer_each": longer.tolist(),
        "step_us": 1e6 * float(without_s),
        "renewing_us": 1e6 * float(renewing_s),
        "renewed_every": 2 * lattice.corrected_pairs,
        "walls_us": [1e6 * each for each in walls_s],
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
    plain, _ = make_boundary_schedule(nodes, wanted, Waveforms({"in": steady(flow_ml_s)}, {}), units, 0.0, None)
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
