# SPDX-License-Identifier: Apache-2.0
"""A vessel whose flow never repeats, in a network of arteries: vortices behind a rod, averaged over cycles."""

import logging
from dataclasses import replace

import numpy as np
import pytest

from solver.boundary.curves import spline
from solver.coupling.around import Around, cut_out
from solver.network.arterial_walls import StiffWall
from solver.network.cycles import Until, solve_network
from solver.network.network import Blood, Network, Segment
from solver.network.network_ends import FlowInlet, Windkessel
from solver.network.run import Numerics
from solver.run.settings import InletSettings, OutletSettings
from solver.run.solve import solve
from tests.solver.run.test_cycle_variation import ACROSS, REYNOLDS, SIDES, SPACING_MM, rod_in_a_stream
from tests.solver.run.test_simulation import DENSITY, VISCOSITY, settings

LOG = logging.getLogger("test")
SPEED_M_S = REYNOLDS * VISCOSITY / DENSITY / (ACROSS * SPACING_MM * 1e-3)
PERIOD_S = 3.1 * ACROSS * SPACING_MM * 1e-3 / (0.2 * SPEED_M_S)
AREA_M2 = SIDES[1] * (SPACING_MM * 1e-3) ** 2
RADIUS_M = float(np.sqrt(AREA_M2 / np.pi))
PULSE_M_S = 6.0
IMPEDANCE = DENSITY * PULSE_M_S / AREA_M2
NUMERICS = Numerics(4e-3, samples=50)


def around_the_rod() -> Around:
    """An artery before and one behind with a Windkessel of three times the impedance at its end."""

    def tube(name: str, ends: tuple[str, str], length_m: float) -> Segment:
        return Segment(name, *ends, length_m, RADIUS_M, StiffWall(2 * DENSITY * PULSE_M_S**2))

    time = np.linspace(0, PERIOD_S, 41)
    mean = SPEED_M_S * AREA_M2
    inflow = spline(time, mean * (1 + 0.3 * np.sin(2 * np.pi * time / PERIOD_S)))
    segments = (
        tube("before", ("heart", "b"), 0.03),
        tube("vessel", ("b", "c"), SIDES[0] * SPACING_MM * 1e-3),
        tube("behind", ("c", "end"), 0.03),
    )
    ends = {"end": Windkessel(IMPEDANCE, 2 * IMPEDANCE, PERIOD_S / (4 * IMPEDANCE), start_pa=3 * mean * IMPEDANCE)}
    tree = Network(
        segments,
        {"heart": FlowInlet(inflow)},
        ends,
        PERIOD_S,
        Blood(DENSITY, 1e-9),
        initial_pa=3 * mean * IMPEDANCE,
    )
    result = solve_network(tree, NUMERICS, Until(1e-3, most_cycles=40), LOG)
    return cut_out(result, NUMERICS, frozenset(("vessel",)), {"in": "b", "out": "c"}, frozenset(("in",)))


@pytest.mark.slow  # its model takes 25 s to compile, which the quick tests have no other use for
def test_vortices_in_a_vessel_of_a_network_are_averaged_over_cycles(tmp_path):
    """The network passes what the vortices do to pressure on, and still both have one flow and one pressure: those of
    means over as many cycles, within a hundredth of their size.
    """
    around = around_the_rod()
    time = np.linspace(0, PERIOD_S, 51)
    for cap in around.caps:
        columns = np.column_stack((time, 1e6 * cap.flow_m3_s.at(time), cap.pressure_pa.at(time) / 133.322))
        header = "time_s,flow_ml_s,pressure_mmhg"
        np.savetxt(tmp_path / f"{cap.opening}.csv", columns, delimiter=",", header=header, comments="")
    wanted = settings(
        inlets={"in": InletSettings(None, str(tmp_path / "in.csv"), "plug")},
        outlets={"out": OutletSettings(0.0, str(tmp_path / "out.csv"))},
        peak_speed_m_s=1.8 * SPEED_M_S,
        cycles=8,
        max_steps=None,
        snapshots=2,
    )
    wanted = replace(wanted, unsettled="refuse")
    summary = solve(rod_in_a_stream(), wanted, tmp_path / "flow.vtkhdf", None, LOG, None, around)
    assert summary["state"] == "unsteady"
    assert summary["fluctuation"]["cycles"] == 8
    assert 0.02 < summary["fluctuation"]["velocity_rms"] < 0.6
    for cap in summary["coupling"]["caps"].values():
        flow, pressure = (
            [np.mean(cap[side][key]) for side in ("network", "vessel")] for key in ("flow_ml_s", "pressure_mmhg")
        )
        assert flow[0] == pytest.approx(flow[1], rel=0.01)
        assert pressure[0] == pytest.approx(pressure[1], rel=0.01)
