# SPDX-License-Identifier: Apache-2.0
"""One tube: rest, a pulse, steady flow."""

import numpy as np
import pytest

from solver.boundary.curves import constant
from solver.network.network import Blood, Network, Segment, Stenosis
from solver.network.openings import FlowInlet, Reflection, Resistance, Windkessel
from solver.network.run import NetworkRun, Numerics
from solver.network.walls import ElasticWall, FibreWall, OlufsenWall
from tests.support.networks import one_cycle, pulse, single, tube

WALLS = {
    "elastic": ElasticWall((2e5, 4e5), (1.5e-3, 0.8e-3), viscous_pa_s_m=0.3),
    "olufsen": OlufsenWall(2e6, -2253.0, 8.65e4),
    "fibres": FibreWall(3e5, 2e6, 0.2, 0.04),
}


@pytest.mark.parametrize("wall", WALLS)
def test_rest_stays_rest_with_taper_and_stenosis(wall):
    """Under a pressure at which no lumen has its own radius; a flow of 1e-4 m^3/s is that of an aorta."""
    rest = 9000.0
    segments = (
        Segment("wide", "a", "b", 0.2, (0.012, 0.006), WALLS[wall], external_pa=500.0),
        Segment("narrow", "b", "c", 0.03, (0.006, 0.003, 0.006), WALLS[wall], stenosis=Stenosis(0.006, 0.003)),
        Segment("one", "c", "d", 0.1, (0.006, 0.004), WALLS[wall]),
        Segment("other", "c", "e", 0.1, (0.005, 0.003), WALLS[wall], reference_pa=3000.0),
    )
    terminals = {"d": Windkessel(1e8, 1e9, 1e-10, back_pa=rest), "e": Resistance(1e9, rest)}
    network = Network(segments, {"a": FlowInlet(constant(0.0))}, terminals, 1.0, initial_pa=rest)
    run = one_cycle(network, Numerics(5e-3))
    assert np.abs(run.record.area * run.record.velocity).max() < 1e-12 * 1e-4
    assert np.abs(run.record.end_flow).max() < 1e-12 * 1e-4


def test_pulse_keeps_speed_and_amplitude_over_5_m():
    """The pulse of Boileau et al. (2015) on 1.25 mm: speed to 0.2 %, amplitude to 0.97 of what it was."""
    celerity, length = 6.17, 6.0
    network = single(tube(length, celerity_m_s=celerity), pulse(1.0, 1e-8, 0.05, 0.00707), Reflection())
    run = one_cycle(network, Numerics(1.25e-3, samples=400))
    pressure = run.record.pressure[:, run.grid.first[0] : run.grid.last[0] + 1]
    place = (np.arange(pressure.shape[1]) + 0.5) * length / pressure.shape[1]
    early = int(400 * (0.05 + 0.5 / celerity))
    late = int(400 * (0.05 + 5.5 / celerity))
    centre = [np.average(place, weights=pressure[k] ** 2) for k in (early, late)]
    np.testing.assert_allclose((centre[1] - centre[0]) / ((late - early) / 400), celerity, rtol=2e-3)
    assert pressure[late].max() > 0.97 * pressure[early].max()
    assert pressure[late].max() < 1.001 * pressure[early].max()


MATERIAL = OlufsenWall(1e14, -2000.0, 1e8)
"""OLUFSEN 1.06 0.04 0 2.0 1.0e15 -20 1e9 of the decks, which are in cm, g and s: a nearly rigid wall."""
DECK_BLOOD = Blood(1060.0, 4e-3)
INFLOW = FlowInlet(constant(1e-4))


def deck_tube(name: str, nodes: tuple[str, str], area_m2: float, **more: Stenosis) -> Segment:
    return Segment(name, *nodes, 0.1, float(np.sqrt(area_m2 / np.pi)), MATERIAL, **more)


def steady(network: Network, spacing_m: float) -> NetworkRun:
    """After the first cycle, by the end of which the pulse of its beginning is gone."""
    return one_cycle(network, Numerics(spacing_m, samples=10))


@pytest.mark.parametrize("terminal", [Resistance(1e7), Windkessel(5e6, 5e6, 1e-8)], ids=["tube_r", "tube_rcr"])
def test_tubes_of_svonedsolver(terminal):
    """Decks `tube_r` and `tube_rcr`: 1100.530965 Pa at the inlet, 1000 Pa at the outlet, to 1e-5."""
    network = Network((deck_tube("seg0", ("0", "1"), 1e-4),), {"0": INFLOW}, {"1": terminal}, 3.0, DECK_BLOOD)
    run = steady(network, 0.025)
    np.testing.assert_allclose(run.record.end_pressure[-1], [1100.530965, 1000.0], rtol=1e-5)


def test_stenosis_of_svonedsolver():
    """Deck `tube_stenosis_r`: 1015.068211 Pa at the first segment's inlet, 1000 Pa at the last one's outlet."""
    radii = np.sqrt(np.array([1e-3, 5e-4]) / np.pi)
    segments = (
        deck_tube("seg0", ("0", "1"), 1e-3),
        deck_tube("seg1", ("1", "2"), 5e-4, stenosis=Stenosis(float(radii[0]), float(radii[1]))),
        deck_tube("seg2", ("2", "3"), 1e-3),
    )
    network = Network(segments, {"0": INFLOW}, {"3": Resistance(1e7)}, 3.0, DECK_BLOOD)
    run = steady(network, 0.025)
    np.testing.assert_allclose(run.record.end_pressure[-1, [0, 5]], [1015.068211, 1000.0], rtol=1e-5)


def test_friction_follows_the_profile():
    """Pressure falls by 2 (gamma + 2) pi mu Q/A^2 a metre, in a tube so stiff that its area stays."""
    network = single(
        tube(0.2, 0.005, 60.0, profile_exponent=9.0),
        FlowInlet(constant(1e-5)),
        Resistance(5e7),
        2.0,
        blood=Blood(1000.0, 4e-3),
    )
    run = one_cycle(network, Numerics(0.02, samples=10))
    drop = -np.diff(run.record.end_pressure[-1])[0]
    expected = 2 * 11 * np.pi * 4e-3 * 1e-5 * 0.2 / (np.pi * 0.005**2) ** 2
    np.testing.assert_allclose(drop, expected, rtol=2e-3)  # of which the stretch by 500 Pa is 1e-4


def test_stiff_friction_is_stable():
    """A stenosis of 95 % of the area, whose friction is far stiffer than the pulse's time step."""
    segment = Segment("s", "a", "b", 0.01, 0.005, ElasticWall(4e5, 1e-3), stenosis=Stenosis(0.005, 0.0005))
    ahead = Segment("w", "0", "a", 0.1, 0.005, ElasticWall(4e5, 1e-3))
    network = Network((ahead, segment), {"0": pulse(1.0, 1e-5)}, {"b": Resistance(1e8)}, 1.0)
    run = one_cycle(network, Numerics(2.5e-3))
    assert np.isfinite(run.state.velocity).all()
    assert run.record.pressure[:, 1:-1].min() > -1000.0
