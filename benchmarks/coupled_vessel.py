# SPDX-License-Identifier: Apache-2.0
"""A pipe in a made-up arterial tree on a CUDA device: how long its steps wait for the host."""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.cuda.cuda_driver import CudaDriver
from solver.backends.cuda.device import cuda
from solver.backends.lattice import Lattice, build_lattice
from solver.boundary.curves import constant, spline
from solver.boundary.openings import InletFeedback, OutletFeedback
from solver.boundary.waveform import Waveforms, steady
from solver.boundary.windkessel import PASCAL_S_M3_PER_MMHG_S_ML
from solver.coupling.coupling import LEAST_EXCHANGES, Cap, Coupling
from solver.kernels.collision import relaxation_rates
from solver.network.arterial_walls import ElasticWall
from solver.network.network import Network, Segment
from solver.network.network_ends import Coupled, FlowInlet, MatchedWindkessel, Terminal
from solver.network.run import NetworkRun, Numerics
from solver.run.boundary_schedule import make_boundary_schedule
from solver.run.settings import InletSettings, OutletSettings
from solver.run.units import Units
from tests.solver.run.test_simulation import settings
from tests.support.geometries import observe, pipe
from validation.timing import Taken, repeated

Reals = NDArray[np.float64]

LAMBDA_TRT = 3 / 16
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
    schedule = make_boundary_schedule(nodes, wanted, given, units, 0.0, PERIOD_S, coupled)
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
