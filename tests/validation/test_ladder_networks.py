# SPDX-License-Identifier: Apache-2.0
"""The ladder of validation for networks of arteries: tubes, forks and viscous walls against theory, and whole networks
against the results that other programs stored.
"""

import logging
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from solver.boundary.curves import constant
from solver.network.arterial_walls import ElasticWall, FibreWall, OlufsenWall
from solver.network.cycles import Until, solve_network
from solver.network.last_cycle import TreeResult
from solver.network.network import Blood, Network, Segment, Stenosis
from solver.network.network_ends import FlowInlet, Reflection, Resistance, Windkessel
from solver.network.run import Numerics
from tests.support.networks import DENSITY, four_tubes, one_cycle, openbf, pulse, reference, single, tube, wave_number
from validation.evidence import Evidence

LOG = logging.getLogger("test")

pytestmark = pytest.mark.ladder

WALLS = {
    "elastic": ElasticWall((2e5, 4e5), (1.5e-3, 0.8e-3), viscous_pa_s_m=0.3),
    "olufsen": OlufsenWall(2e6, -2253.0, 8.65e4),
    "elastin and collagen": FibreWall(3e5, 2e6, 0.2, 0.04),
}


def flow_at_rest(wall: str) -> float:
    """Largest flow in a fork that tapers and has a stenosis, under a pressure at which no lumen has its own radius, of
    1e-4 m^3/s, which is that of an aorta.
    """
    rest = 9000.0
    segments = (
        Segment("wide", "a", "b", 0.2, (0.012, 0.006), WALLS[wall], external_pa=500.0),
        Segment("narrow", "b", "c", 0.03, (0.006, 0.003, 0.006), WALLS[wall], stenosis=Stenosis(0.006, 0.003)),
        Segment("one", "c", "d", 0.1, (0.006, 0.004), WALLS[wall]),
        Segment("other", "c", "e", 0.1, (0.005, 0.003), WALLS[wall], reference_pa=3000.0),
    )
    terminals = {"d": Windkessel(1e8, 1e9, 1e-10, back_pa=rest), "e": Resistance(1e9, rest)}
    network = Network(segments, {"a": FlowInlet(constant(0.0))}, terminals, 1.0, initial_pa=rest)
    record = one_cycle(network, Numerics(5e-3)).record
    return max(np.abs(record.area * record.velocity).max(), np.abs(record.end_flow).max()) / 1e-4


def mass_lost(junctions: str) -> float:
    """Of the flow that came in over the second cycle of `four_tubes`."""
    run = one_cycle(four_tubes(junctions), Numerics(0.01))
    run.next_cycle()
    before = run.volume_m3
    assert run.march(run.steps)
    out = run.state.volume_out
    return float(abs(run.volume_m3 - before + out.sum()) / -out[0])


def pulse_over_5_m(spacing_m: float) -> tuple[float, float]:
    """Speed of the pulse of Boileau et al. (2015), of the one that its wall gives, and what is left of its height."""
    celerity, length = 6.17, 6.0
    network = single(tube(length, celerity_m_s=celerity), pulse(1.0, 1e-8, 0.05, 0.00707), Reflection())
    run = one_cycle(network, Numerics(spacing_m, samples=400))
    pressure = run.record.pressure[:, run.grid.first[0] : run.grid.last[0] + 1]
    place = (np.arange(pressure.shape[1]) + 0.5) * length / pressure.shape[1]
    early = int(400 * (0.05 + 0.5 / celerity))
    late = int(400 * (0.05 + 5.5 / celerity))
    centre = [np.average(place, weights=pressure[k] ** 2) for k in (early, late)]
    speed = (centre[1] - centre[0]) / ((late - early) / 400)
    return float(speed / celerity), float(pressure[late].max() / pressure[early].max())


MATERIAL = OlufsenWall(1e14, -2000.0, 1e8)
"""OLUFSEN 1.06 0.04 0 2.0 1.0e15 -20 1e9 of the decks, which are in cm, g and s: a nearly rigid wall."""


def deck(name: str) -> tuple[NDArray[np.float64], list[float]]:
    """Pressures of a deck of svOneDSolver at its ends once the pulse of the beginning is gone, and those expected."""

    def part(name: str, nodes: tuple[str, str], area_m2: float, **more: Stenosis) -> Segment:
        return Segment(name, *nodes, 0.1, float(np.sqrt(area_m2 / np.pi)), MATERIAL, **more)

    narrow = Stenosis(*(float(np.sqrt(area / np.pi)) for area in (1e-3, 5e-4)))
    single_tube = (part("seg0", ("0", "1"), 1e-4),)
    segments, terminal, expected = {
        "tube_r": (single_tube, Resistance(1e7), [1100.530965, 1000.0]),
        "tube_rcr": (single_tube, Windkessel(5e6, 5e6, 1e-8), [1100.530965, 1000.0]),
        "tube_stenosis_r": (
            (
                part("seg0", ("0", "1"), 1e-3),
                part("seg1", ("1", "2"), 5e-4, stenosis=narrow),
                part("seg2", ("2", "3"), 1e-3),
            ),
            Resistance(1e7),
            [1015.068211, 1000.0],
        ),
    }[name]
    inflow = FlowInlet(constant(1e-4))
    network = Network(segments, {"0": inflow}, {segments[-1].end: terminal}, 3.0, Blood(1060.0, 4e-3))
    return one_cycle(network, Numerics(0.025, samples=10)).record.end_pressure[-1, [0, -1]], expected


@pytest.mark.slow
def test_tubes_of_a_network():
    with Evidence("network-tubes", "Tubes of a network", "rest, conservation, decks of svOneDSolver") as case:
        for wall in WALLS:
            case.reach(f"rest, wall {wall}: largest flow, of 1e-4 m³/s", flow_at_rest(wall), at_most=1e-12)
        for junctions in ("total", "static"):
            lost = mass_lost(junctions)
            case.reach(f"{junctions} pressure at junctions: mass lost over a cycle", lost, at_most=1e-10)
        rows = [(1e3 * spacing, *pulse_over_5_m(spacing)) for spacing in (5e-3, 2.5e-3, 1.25e-3)]
        case.table(("spacing, mm", "speed over theory's", "amplitude left"), rows, "A pulse over 5 m.")
        _, speed, amplitude = rows[-1]
        case.reach("pulse on 1.25 mm: speed, off theory's", abs(speed - 1), at_most=2e-3)
        case.reach("pulse on 1.25 mm: amplitude after 5 m", amplitude, at_least=0.97)
        case.reach("pulse on 1.25 mm: largest amplitude, which may not grow", amplitude, at_most=1.001)
        decks = {name: deck(name) for name in ("tube_r", "tube_rcr", "tube_stenosis_r")}
        columns = ("deck", "inlet, Pa", "expected", "outlet, Pa", "expected ")
        rows = [(name, found[0], expected[0], found[1], expected[1]) for name, (found, expected) in decks.items()]
        case.table(columns, rows, "Steady flow of 100 mL/s.")
        for name, (found, expected) in decks.items():
            off = float(np.abs(found / expected - 1).max())
            case.reach(f"svOneDSolver's {name}: largest difference of the pressures", off, at_most=1e-5)


FORKS = {
    "two daughters": ((0.006, 6.0), (0.005, 7.0)),
    "three daughters": ((0.009, 5.0), (0.008, 5.5), (0.004, 8.0)),
}
"""Radius, m, and speed of the pulse, m/s, of the daughters of a tube of 10 mm and 5 m/s."""


def admittance(radius_m: float, celerity_m_s: float) -> float:
    return np.pi * radius_m**2 / (DENSITY * celerity_m_s)


def fork(daughters: tuple[tuple[float, float], ...], junctions: str) -> tuple[float, float, float]:
    """What a fork sends back of a pulse, what it should, R = (Y0 - sum Y)/(Y0 + sum Y), and by how much what passes
    differs from 1 + R in the worst of its daughters.
    """
    segments = [tube(2.0, 0.01, 5.0, "parent", ("a", "f"))]
    segments += [tube(2.0, r, c, f"d{k}", ("f", f"t{k}")) for k, (r, c) in enumerate(daughters)]
    ends = {f"t{k}": Reflection() for k in range(len(daughters))}
    network = Network(tuple(segments), {"a": pulse(0.9, 1e-8, 0.1, 0.02)}, ends, 0.9, Blood(DENSITY, 1e-12), junctions)
    run = one_cycle(network, Numerics(5e-3, samples=900))
    middle = run.record.pressure[:, run.grid.first[0] + 200]
    came, back = middle[:450].max(), middle[500:][np.abs(middle[500:]).argmax()]
    given = sum(admittance(r, c) for r, c in daughters)
    theory = (admittance(0.01, 5.0) - given) / (admittance(0.01, 5.0) + given)
    passed = [run.record.pressure[:, run.grid.first[s] + 100].max() / came for s in range(1, len(segments))]
    return float(back / came), theory, float(max(abs(p / (1 + theory) - 1) for p in passed))


def linear_wave(frequency_hz: float, gamma_pa_s_m: float, viscosity_pa_s: float = 1e-12) -> complex:
    """k = sqrt(w^2 - i w f)/(c sqrt(1 + i w Gamma/(sqrt(A0) rho c^2))), f = 8 pi nu/A0, in `wave_number`'s tube."""
    omega, area, celerity = 2 * np.pi * frequency_hz, np.pi * 0.01**2, 5.0
    square = celerity**2 + 1j * omega * gamma_pa_s_m / (np.sqrt(area) * DENSITY)
    friction = 8 * np.pi * viscosity_pa_s / DENSITY / area
    return complex(np.sqrt((omega**2 - 1j * omega * friction) / square))


WAVES = (
    (5.0, 1.0, 1e-12, 5e-3, 1e-3, 3e-3),
    (10.0, 1.0, 1e-12, 5e-3, 1e-3, 3e-3),
    (10.0, 4.0, 1e-12, 5e-3, 1e-3, 3e-3),
    (5.0, 0.0, 0.04, 1e-2, 1e-2, 1e-2),
)
"""Frequency, Hz, viscosity of the wall, Pa s m, and of the fluid, Pa s, spacing, m, and the bounds of dispersion and
damping.
"""


def test_waves_of_a_network():
    """At 10 Hz and 4 Pa s m a wave is 7 % faster than along an elastic wall, and falls by a factor e within 0.3 m."""
    with Evidence("network-waves", "Waves at forks and along viscous walls", "linear theory") as case:
        forks = {(name, j): fork(FORKS[name], j) for name in FORKS for j in ("total", "static")}
        rows = [(*which, *found) for which, found in forks.items()]
        case.table(("fork", "junctions", "reflected", "in theory", "passed, off theory"), rows)
        for (name, junctions), (found, theory, passed) in forks.items():
            case.reach(f"{name}, {junctions} pressure: reflection, off theory", abs(found / theory - 1), at_most=5e-3)
            case.reach(f"{name}, {junctions} pressure: transmission, off theory", passed, at_most=5e-3)
        assert linear_wave(10.0, 4.0).real < 0.95 * linear_wave(10.0, 0.0).real  # so that a tolerance of 1 % tells
        rows = []
        for hertz, gamma, viscosity, spacing, *bounds in WAVES:
            expected, found = linear_wave(hertz, gamma, viscosity), wave_number(hertz, gamma, spacing, viscosity)
            off = abs(found.real / expected.real - 1), abs(found.imag / expected.imag - 1)
            rows.append((hertz, gamma, viscosity, expected.real, off[0], -expected.imag, off[1]))
            for what, reached, bound in zip(("dispersion", "damping"), off, bounds, strict=True):
                name = f"{hertz:g} Hz, wall {gamma:g} Pa s m, blood {viscosity:g} Pa s: {what}, off theory"
                case.reach(name, reached, at_most=bound)
        columns = ("wave number, 1/m", "off", "damping, 1/m", "off ")
        case.table(("Hz", "wall, Pa s m", "blood, Pa s", *columns), rows, "Along a tube whose pulse has 5 m/s.")


def computed(network: Network, spacing_m: float, cycles: int) -> TreeResult:
    until = Until(least_cycles=cycles, most_cycles=cycles, unsettled="report")
    return solve_network(network, Numerics(spacing_m), until, LOG)


def at_times(result: TreeResult, values: NDArray[np.float64], times_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values of the cycle at times of any cycle."""
    return np.interp(times_s, result.time_s, values, period=result.network.period_s)


def rms(found: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    """Root mean square of the difference, of the largest value."""
    return float(np.sqrt(np.mean((found - expected) ** 2)) / np.abs(expected).max())


def carotid_against_openbf() -> list[tuple[str, float, float, float, float]]:
    """Differences of pressure, flow, systole and diastole at five places, in the cycle in which openBF stopped."""
    result = computed(openbf("cca", tapered=False), 2e-3, 8)
    kept = next(iter(reference("cca").values()))
    course = result.at("common_carotid_artery")
    rows = []
    for k, place in enumerate(("in", "q1", "mid", "q3", "out")):
        pressure = at_times(result, course.pressure_pa[:, k], kept["t_s"])
        flow = at_times(result, course.flow_m3_s[:, k], kept["t_s"])
        expected = kept[f"P_{place}"]
        extremes = (abs(pressure.max() / expected.max() - 1), abs(pressure.min() / expected.min() - 1))
        rows.append((place, rms(pressure, expected), rms(flow, kept[f"Q_{place}"]), *map(float, extremes)))
    return rows


def adan56_against_openbf(junctions: str) -> tuple[list[float], TreeResult]:
    """Differences of the pressure halfway of all 77 segments, in the sixth cycle, in which openBF stopped; and ours."""
    result = computed(openbf("adan56", tapered=False, junctions=junctions), 4e-3, 6)
    kept = reference("adan56")
    assert len(kept) == 77
    found = [
        rms(at_times(result, result.at(name, (0.5,)).pressure_pa[:, 0], table["t_s"]), table["P_mid"])
        for name, table in kept.items()
    ]
    return found, result


SHOWN = ("aortic_arch_I", "common_carotid_R", "radial_L", "anterior_tibial_R")


def draw_pressures(figure: Any, result: TreeResult) -> None:
    """Pressure halfway of some arteries of ADAN56, as computed (lines) and as openBF stored it (dots)."""
    axes, kept = figure.subplots(), reference("adan56")
    for name in SHOWN:
        times, phase = kept[name]["t_s"], result.time_s
        (line,) = axes.plot(phase, result.at(name, (0.5,)).pressure_pa[:, 0] / 133.322, label=name.replace("_", " "))
        few = slice(None, None, max(1, len(times) // 40))
        expected = kept[name]["P_mid"][few] / 133.322
        axes.plot(times[few] % result.network.period_s, expected, ".", ms=4, color=line.get_color())
    axes.set_xlabel("time in the cycle, s")
    axes.set_ylabel("pressure, mmHg")
    axes.legend(frameon=False, fontsize=7)


@pytest.mark.slow
def test_networks_of_openbf():
    """openBF's own junctions of three equate static pressure, with which the difference is a third."""
    title = "Networks of Boileau et al. (2015) against openBF"
    with Evidence("network-openbf", title, "results stored by openBF 2.8.0; the same network on finer cells") as case:
        carotid = carotid_against_openbf()
        quantities = ("pressure, rms", "flow, rms", "systole", "diastole")
        case.table(("place", *quantities), carotid, "Common carotid artery on 2 mm: differences, of the largest value.")
        for k, name in enumerate(quantities, start=1):
            worst = max(row[k] for row in carotid)
            case.reach(f"common carotid: {name}, worst of five places", worst, at_most=5e-3)
        rows = []
        for junctions, median, worst in (("total", 0.01, 0.02), ("static", 0.004, 0.008)):
            found, last = adan56_against_openbf(junctions)
            mass = abs(last.balance.mass)
            rows.append((junctions, float(np.median(found)), max(found), mass))
            case.reach(f"ADAN56, {junctions} pressure: rms of pressure, median segment", rows[-1][1], at_most=median)
            case.reach(f"ADAN56, {junctions} pressure: rms of pressure, worst of 77", rows[-1][2], at_most=worst)
            case.reach(f"ADAN56, {junctions} pressure: mass lost over a cycle", mass, at_most=1e-10)
        columns = ("junctions", "pressure, median segment", "worst segment", "mass lost")
        case.table(columns, rows, "ADAN56 on 4 mm, each segment with the radius of its start, as openBF has it.")
        case.draw(partial(draw_pressures, result=last), "ADAN56, static pressure at junctions: lines; openBF: dots")
        network = openbf("adan56", tapered=True)
        coarse, fine = (computed(network, spacing, 3) for spacing in (4e-3, 2e-3))
        pairs = [(coarse.at(each.name), fine.at(each.name)) for each in network.segments]
        pressure = max(rms(one.pressure_pa, other.pressure_pa) for one, other in pairs)
        flow = max(rms(one.flow_m3_s, other.flow_m3_s) for one, other in pairs)
        case.table(
            ("pressure, worst segment", "flow, worst segment"),
            [(pressure, flow)],
            "ADAN56 with its taper, third cycle, 4 mm against 2 mm: root mean square, of the largest value.",
        )
        case.reach("ADAN56 with taper, 4 mm against 2 mm: pressure, worst of 77", pressure, at_most=2e-3)
