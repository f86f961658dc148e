# SPDX-License-Identifier: Apache-2.0
"""A tree of arteries that branches, and the lattice of its branching."""

import logging
from pathlib import Path

import numpy as np

from solver.boundary.curves import spline
from solver.coupling.around import Around, cut_out
from solver.domain.nodes import Nodes
from solver.network.cycles import Until, solve_network
from solver.network.network import Blood, Network
from solver.network.network_ends import FlowInlet, Windkessel
from solver.network.run import Numerics
from solver.run.settings import InletSettings, OutletSettings, SolveSettings
from tests.solver.run.test_simulation import settings
from tests.support.coupled import DENSITY, IMPEDANCE, RADIUS_M, tube
from tests.support.geometries import meeting

PERIOD_S, TUBE_M, MEAN_M3_S, VISCOSITY = 0.1, 0.05, 2e-6, 0.02
LENGTH = 2.0
"""Of the branches on the lattice, in radii."""
DX_M = RADIUS_M / 3
NUMERICS = Numerics(4e-3, samples=20)
BRANCHES = {"in": (-1.0, 0.0, 0.0), "left": (0.8, 0.6, 0.0), "right": (0.6, -0.8, 0.0)}


def vessel() -> Nodes:
    """The branching, three tubes that meet."""
    tubes = [
        (name, "inlet" if name == "in" else "outlet", np.array(away), RADIUS_M / DX_M)
        for name, away in BRANCHES.items()
    ]
    return meeting(tubes, LENGTH, 1e3 * DX_M)


def around_vessel() -> Around:
    """The arteries before and behind, after two cycles of the tree, with a Windkessel at each end."""
    length = LENGTH * RADIUS_M
    time = np.linspace(0, PERIOD_S, 41)
    inflow = spline(time, MEAN_M3_S * (1 + 0.5 * np.sin(2 * np.pi * time / PERIOD_S)))
    segments = (
        tube("before", ("heart", "cap_in"), TUBE_M),
        tube("in", ("cap_in", "middle"), length),
        *(tube(name, ("middle", f"cap_{name}"), length) for name in ("left", "right")),
        *(tube(f"behind_{name}", (f"cap_{name}", f"end_{name}"), TUBE_M) for name in ("left", "right")),
    )
    ends = {
        f"end_{name}": Windkessel(
            IMPEDANCE, factor * IMPEDANCE, 0.05 / (factor * IMPEDANCE), start_pa=MEAN_M3_S * 5 * IMPEDANCE
        )
        for name, factor in (("left", 9), ("right", 12))
    }
    tree = Network(
        segments,
        {"heart": FlowInlet(inflow)},
        ends,
        PERIOD_S,
        Blood(DENSITY, VISCOSITY),
        initial_pa=MEAN_M3_S * 5 * IMPEDANCE,
    )
    once = Until(1e-9, most_cycles=2, unsettled="report")
    result = solve_network(tree, NUMERICS, once, logging.getLogger("test"))
    caps = {name: f"cap_{name}" for name in BRANCHES}
    return cut_out(result, NUMERICS, frozenset(BRANCHES), caps, frozenset(("in",)))


def wanted(around: Around, folder: Path) -> SolveSettings:
    """Settings of the lattice, with waveforms of the tree in a folder."""
    time = np.linspace(0, PERIOD_S, NUMERICS.samples + 1)
    files = {}
    for cap in around.caps:
        files[cap.opening] = str(folder / f"{cap.opening}.csv")
        columns = np.column_stack((time, 1e6 * cap.flow_m3_s.at(time), cap.pressure_pa.at(time) / 133.322))
        header = "time_s,flow_ml_s,pressure_mmhg"
        np.savetxt(files[cap.opening], columns, delimiter=",", header=header, comments="")
    return settings(
        density_kg_m3=DENSITY,
        viscosity_pa_s=VISCOSITY,
        inlets={"in": InletSettings(None, files.pop("in"), "parabolic")},
        outlets={name: OutletSettings(0.0, file) for name, file in files.items()},
        collision="trt",
        cycles=1,
        snapshots=2,
    )
