# SPDX-License-Identifier: Apache-2.0
"""A vessel of five openings between tubes of a network, and the same network with a node in place of the vessel."""

import logging
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.driver import Driver
from solver.boundary.curves import spline
from solver.coupling.coupling import Coupling
from solver.network.cycles import Until, solve_network
from solver.network.last_cycle import TreeResult
from solver.network.network import Blood, Network, Segment
from solver.network.network_ends import Coupled, FlowInlet, PressureOpening, Resistance, Terminal
from solver.network.run import NetworkRun, Numerics
from solver.run.units import Units
from tests.support.coupled import DENSITY, IMPEDANCE, RADIUS_M, between, tube
from tests.support.geometries import meeting, observe

PERIOD_S, TUBE_M, VISCOSITY = 0.2, 0.12, 0.02
FLOW = 4e-7
"""Mean inflow, m3/s; it comes and goes by three quarters of that."""
LENGTH = 3.0
"""Of the vessel's branches, in radii."""
NAMES = ("in", "ahead", "left", "right", "up")
DIRECTIONS = {"in": (-1, 0, 0), "ahead": (1, 0, 0), "left": (0, 1, 0), "right": (0, -1, 0), "up": (0, 0, 1)}


def inflow_and_ends() -> tuple[FlowInlet, dict[str, Terminal]]:
    """A pulsating inflow, and behind each outlet a resistance, but at one a pressure that draws blood to and fro."""
    time = np.linspace(0, PERIOD_S, 401)
    phase = 2 * np.pi * time / PERIOD_S
    inflow = FlowInlet(spline(time, FLOW * (1 + 0.75 * np.sin(phase))))
    ends: dict[str, Terminal] = {
        name: Resistance(factor * IMPEDANCE) for name, factor in (("ahead", 1.0), ("left", 1.5), ("right", 2.0))
    }
    return inflow, ends | {"up": PressureOpening(spline(time, FLOW * IMPEDANCE * (0.3 + 0.8 * np.sin(phase - 1))))}


def without_vessel() -> TreeResult:
    """The five tubes, each longer by the vessel's branch, that meet at a node."""
    inflow, ends = inflow_and_ends()
    lengths = TUBE_M + LENGTH * RADIUS_M
    segments = tuple(
        Segment(
            name,
            *(("x", "middle") if name == "in" else ("middle", name)),
            lengths,
            RADIUS_M,
            tube("", ("", ""), 1).wall,
        )
        for name in NAMES
    )
    network = Network(segments, {"x": inflow}, ends, PERIOD_S, Blood(DENSITY, VISCOSITY))
    return solve_network(network, Numerics(4e-3, samples=100), Until(1e-3, most_cycles=60), logging.getLogger(), None)


@dataclass
class Star:
    """A coupled vessel."""

    coupling: Coupling
    driver: Driver
    network: NetworkRun
    units: Units
    cycle: int

    def last_cycle(self, cycles: int) -> dict[str, dict[str, NDArray]]:
        """Run cycles; of each cap in the last one what both sides had: flow that leaves the vessel, m3/s, and pressure,
        Pa, at 100 times of it: of the vessel at the end of each hundredth, of the network at its beginning.
        """
        parts = 100
        self.coupling.advance(self.driver, 0, (cycles - 1) * self.cycle)
        flow, pressure = np.zeros((2, parts, len(NAMES)))
        for k in range(parts):
            begin = (cycles - 1) * self.cycle + k * self.cycle // parts
            self.coupling.advance(self.driver, begin, begin + self.cycle // parts)
            seen = observe(self.driver, False)
            flow[k] = -seen.inflow * self.units.flow_m3_s
            pressure[k] = seen.opening_drho * self.units.pressure_pa
        self.coupling.take_in(self.driver)
        found = {}
        for k, name in enumerate(NAMES):
            given, out = self.network.recorded(f"cap_{name}")
            found[name] = {"vessel": flow[:, k], "network": -out, "vessel_pa": pressure[:, k], "network_pa": given}
        return found


def star(across: int = 8, sound_m_s: float = 12.0) -> Star:
    """The vessel, at rest, in the network."""
    dx = 2 * RADIUS_M / across
    cycle = round(PERIOD_S / (dx / 3**0.5 / sound_m_s) / 800) * 800
    units = Units(dx, PERIOD_S / cycle, DENSITY, VISCOSITY / DENSITY)
    tubes = [
        (name, "inlet" if name == "in" else "outlet", np.array(DIRECTIONS[name], float), RADIUS_M / dx)
        for name in NAMES
    ]
    nodes = meeting(tubes, LENGTH, 1e3 * dx)
    inflow, ends = inflow_and_ends()
    segments = (
        tube("in", ("x", "cap_in"), TUBE_M),
        *(tube(name, (f"cap_{name}", name), TUBE_M) for name in NAMES[1:]),
    )
    coupled = {f"cap_{name}": Coupled("flow") for name in NAMES}
    network = Network(segments, {"x": inflow}, {**ends, **coupled}, PERIOD_S, Blood(DENSITY, VISCOSITY))
    run = NetworkRun(network, Numerics(4e-3, samples=100))
    coupling, lattice = between(run, {name: f"cap_{name}" for name in NAMES}, nodes, units, PERIOD_S, cycle)
    return Star(coupling, CpuDriver(lattice), run, units, cycle)
