# SPDX-License-Identifier: Apache-2.0
"""A pipe on the lattice between two tubes of a network, and what linear theory says of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import jv

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.driver import Driver
from solver.backends.lattice import Lattice, build_lattice
from solver.boundary.curves import Curve, constant, spline
from solver.boundary.layers import resistances_to_caps
from solver.boundary.waveform import Waveforms, steady
from solver.boundary.windkessel import PASCAL_S_M3_PER_MMHG_S_ML
from solver.coupling.coupling import Cap, Coupling
from solver.domain.nodes import Nodes
from solver.kernels.collision import relaxation_rates
from solver.network.arterial_walls import StiffWall
from solver.network.network import Blood, Network, Segment
from solver.network.network_ends import Coupled, FlowInlet, PressureOpening, Reflection, Terminal
from solver.network.run import NetworkRun, Numerics
from solver.run.boundary_schedule import make_boundary_schedule
from solver.run.settings import InletSettings, OutletSettings
from solver.run.units import Units
from tests.solver.run.test_simulation import settings
from tests.support.geometries import observe, pipe

RADIUS_M, DENSITY, PULSE_M_S = 3e-3, 1060.0, 6.0
AREA_M2 = np.pi * RADIUS_M**2
IMPEDANCE = DENSITY * PULSE_M_S / AREA_M2


@dataclass
class Coupled1d3d1d:
    """A tube, a pipe on the lattice, a tube."""

    coupling: Coupling
    driver: Driver
    network: NetworkRun
    units: Units
    cycle: int
    length_m: float

    def run(self, steps: int, begin: int = 0) -> None:
        self.coupling.advance(self.driver, begin, steps)


def between(
    run: NetworkRun, ends: dict[str, str], nodes: Nodes, units: Units, period_s: float, cycle: int
) -> tuple[Coupling, Lattice]:
    """A vessel coupled to a network, all of whose openings have the impedance of the tubes.

    Parameters
    ----------
    run : of the network.
    ends : its nodes by the names of the openings; blood comes in by "in".
    nodes, units : of the vessel.
    period_s, cycle : the period, and its steps.
    """
    coupled = dict.fromkeys(ends, IMPEDANCE / PASCAL_S_M3_PER_MMHG_S_ML)
    wanted = settings(inlets={"in": InletSettings(0.0, None, "parabolic")}, outlets={"*": OutletSettings(0.0)})
    given = Waveforms({"in": steady(0.0)}, {})
    plain = make_boundary_schedule(nodes, wanted, given, units, 0.0, period_s, coupled)
    schedule = plain.with_friction((), resistances_to_caps(nodes, units.tau))
    caps = tuple(Cap(opening, node, constant(0.0), constant(0.0)) for opening, node in ends.items())
    lattice = build_lattice(
        nodes,
        "trt",
        relaxation_rates(units.tau, 3 / 16),
        "bouzidi",
        "fp64",
        schedule.profiles,
        columns=schedule.columns,
        outlet_feedback=schedule.outlet_feedback,
        inlet_feedback=schedule.inlet_feedback,
        parabolic=True,
    )
    return Coupling(run, caps, schedule, cycle), lattice


def tube(name: str, ends: tuple[str, str], length_m: float) -> Segment:
    return Segment(name, *ends, length_m, RADIUS_M, StiffWall(2 * DENSITY * PULSE_M_S**2))


# many parameters because each test changes another
def assembled(
    inflow: Curve,
    period_s: float,
    tube_m: float,
    across: int = 8,
    length_m: float = 0.05,
    sound_m_s: float = 12.0,
    viscosity_pa_s: float = 0.02,
    behind: Terminal | None = None,
    blood_pa_s: float = 1e-9,
    direction: tuple[int, int, int] = (0, 0, 1),
    make: Callable[[Lattice], Driver] = CpuDriver,
) -> Coupled1d3d1d:
    """The flow `inflow` comes into the first tube; the second one ends as said, without a reflection if not."""
    dx = 2 * RADIUS_M / across
    cycle = round(period_s / (dx / 3**0.5 / sound_m_s) / 800) * 800
    units = Units(dx, period_s / cycle, DENSITY, viscosity_pa_s / DENSITY)
    nodes = pipe(direction, RADIUS_M / dx, round(length_m / dx), spacing_mm=1e3 * dx)
    network = Network(
        (tube("one", ("a", "b"), tube_m), tube("two", ("c", "d"), tube_m)),
        {"a": FlowInlet(inflow)},
        {"b": Coupled("flow"), "c": Coupled("flow"), "d": behind or Reflection(0.0)},
        period_s,
        Blood(DENSITY, blood_pa_s),
    )
    run = NetworkRun(network, Numerics(4e-3, samples=100))
    coupling, lattice = between(run, {"in": "b", "out": "c"}, nodes, units, period_s, cycle)
    return Coupled1d3d1d(coupling, make(lattice), run, units, cycle, round(length_m / dx) * dx)


def bell(period_s: float, middle_s: float, width_s: float, size: float = 1e-7) -> Curve:
    time = np.linspace(0, period_s, 801)
    flow = size * np.exp(-0.5 * ((time - middle_s) / width_s) ** 2)
    flow[-1] = flow[0]
    return spline(time, flow)


def passed(hertz: float, sound_m_s: float, viscosity_pa_s: float, length_m: float) -> tuple[complex, complex]:
    """Reflection and transmission of a rigid pipe of a compressible viscous fluid between two tubes, in linear theory.

    The pipe's series impedance is i omega rho/A/(1 - F), F = 2 J1(a)/(a J0(a)), a = i^(3/2) alpha (Womersley 1955,
    doi:10.1113/jphysiol.1955.sp005276), its admittance i omega A/(rho c_s^2). Without viscosity |R| is that of
    a layer of another impedance, |sin k (z - 1/z)|/|2 cos k + i (z + 1/z) sin k|.
    """
    omega = 2 * np.pi * hertz
    a = RADIUS_M * np.sqrt(omega * DENSITY / viscosity_pa_s) * 1j**1.5
    series = 1j * omega * DENSITY / AREA_M2 / (1 - 2 * jv(1, a) / (a * jv(0, a)))
    shunt = 1j * omega * AREA_M2 / (DENSITY * sound_m_s**2)
    k, own = np.sqrt(series * shunt) * length_m, np.sqrt(series / shunt)
    front = (IMPEDANCE * np.cosh(k) + own * np.sinh(k)) / (np.cosh(k) + IMPEDANCE / own * np.sinh(k))
    reflected = (front - IMPEDANCE) / (front + IMPEDANCE)
    return reflected, (1 + reflected) / (np.cosh(k) + own / IMPEDANCE * np.sinh(k))


def wave(run: NetworkRun, segment: int, until_s: float, backward: bool) -> tuple[np.ndarray, float]:
    """Spectrum of the waves that run forward, or backward, in the middle of a tube, and how far that is from its start,
    in lengths of the tube.
    """
    record, first, last = run.record, run.grid.first[segment], run.grid.last[segment]
    cell = (first + last) // 2
    pressure, flow = record.pressure[:, cell], record.area[:, cell] * record.velocity[:, cell]
    size = (pressure + (-1 if backward else 1) * IMPEDANCE * flow) / 2
    time = (np.arange(len(size)) + 1) * run.network.period_s / len(size)
    return np.fft.rfft(size * (time < until_s)), (cell - first + 0.5) / (last - first + 1)


class Passing(NamedTuple):
    """A harmonic of a pulse that came to the pipe: what was reflected and what passed, found and in theory."""

    hertz: float
    reflected: complex
    reflected_in_theory: complex
    through: complex
    through_in_theory: complex


def harmonics(case: Coupled1d3d1d, viscosity_pa_s: float, tube_m: float, numbers: tuple[int, ...]) -> list[Passing]:
    """Harmonics of the bell of :func:`pulse_through`, once a cycle is over.

    Windows end before what the flow at the inlet sends back comes by again.
    """
    forward, at = wave(case.network, 0, 0.31, False)
    back, _ = wave(case.network, 0, 0.46, True)
    through, beyond = wave(case.network, 1, 0.62, False)
    own_m_s = case.units.dx_m / case.units.dt_s / 3**0.5
    found = []
    for k in numbers:
        hertz = k / case.network.network.period_s
        delay = 2j * np.pi * hertz * tube_m / PULSE_M_S
        reflected, transmitted = passed(hertz, own_m_s, viscosity_pa_s, case.length_m)
        own = (
            back[k] / forward[k] * np.exp(2 * delay * (1 - at)),
            through[k] / forward[k] * np.exp(delay * (1 - at + beyond)),
        )
        found.append(Passing(hertz, own[0], reflected, own[1], transmitted))
    return found


def pulse_through(
    across: int, period_s: float, numbers: tuple[int, ...], viscosity_pa_s: float = 0.02, **more
) -> list[Passing]:
    """A bell of 20 ms passes a pipe of 50 mm between two tubes of 1.2 m."""
    tube_m = 1.2
    case = assembled(bell(period_s, 0.06, 0.01), period_s, tube_m, across, viscosity_pa_s=viscosity_pa_s, **more)
    case.run(case.cycle)
    case.coupling.take_in(case.driver)
    return harmonics(case, viscosity_pa_s, tube_m, numbers)


def steady_drop(across: int, length_m: float, direction: tuple[int, int, int]) -> tuple[float, float]:
    """Pressure drop between the caps of a pipe over that of Poiseuille, and the flow over what was given, once steady:
    a flow at the near end of the first tube, a pressure at the far end of the second.
    """
    viscosity, flow, period_s = 0.02, 1e-7, 0.2
    case = assembled(
        constant(flow),
        period_s,
        0.03,
        across,
        length_m,
        viscosity_pa_s=viscosity,
        behind=PressureOpening(constant(0.0)),
        blood_pa_s=viscosity,
        direction=direction,
    )
    case.run(12 * case.cycle)
    case.coupling.take_in(case.driver)
    (before, passing), (beyond, _) = (case.network.node_state(node) for node in ("b", "c"))
    lost = 8 * viscosity * case.length_m * flow / (np.pi * RADIUS_M**4)
    return (before - beyond) / lost, passing / flow


def reversing(ratio: float, make: Callable[[Lattice], Driver] = CpuDriver) -> Coupled1d3d1d:
    """A flow of both signs, and far ends that send half of a wave back; `ratio` is R of the tubes over Za of the
    lattice.
    """
    period_s = 0.2
    time = np.linspace(0, period_s, 401)
    inflow = spline(time, 3e-7 * np.sin(2 * np.pi * time / period_s))
    return assembled(
        inflow, period_s, 0.15, length_m=0.02, sound_m_s=PULSE_M_S / ratio, behind=Reflection(-0.5), make=make
    )


def fastest(ratio: float, cycles: int = 5) -> list[float]:
    """Largest speed in each cycle of :func:`reversing`, lattice units."""
    case = reversing(ratio)
    found = np.zeros((cycles, 8))
    for part in range(found.size):
        case.run((part + 1) * case.cycle // 8, part * case.cycle // 8)
        found.flat[part] = observe(case.driver, False).max_speed
    return found.max(axis=1).tolist()
