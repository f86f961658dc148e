# SPDX-License-Identifier: Apache-2.0
"""Settings of the solver that tests begin with; without pytest, for ranks, each of which imports all that it needs."""

from dataclasses import replace

from solver.domain.nodes import Nodes
from solver.run.settings import InletSettings, OutletSettings, SolveSettings

VISCOSITY, DENSITY = 3.5e-3, 1060.0


def inflow_ml_s(nodes: Nodes, reynolds: float) -> float:
    """Inflow with a Reynolds number of the mean speed through the inlet and its diameter, in such blood."""
    inlet = next(opening for opening in nodes.openings if opening.role == "inlet")
    return reynolds * VISCOSITY / DENSITY / (2e-3 * inlet.radius_mm) * inlet.area_mm2


def settings(**changes) -> SolveSettings:
    defaults = SolveSettings(
        density_kg_m3=DENSITY,
        viscosity_pa_s=VISCOSITY,
        inlets={"in": InletSettings(0.1, None, "parabolic")},
        outlets={"*": OutletSettings(0.0)},
        backend="cpu",
        precision="fp32",
        collision="auto",
        walls="bouzidi",
        lattice_speed=0.08,
        peak_speed_m_s=None,
        ramp_s=None,
        steady_tolerance=1e-3,
        cycles=3,
        max_steps=100_000,
        snapshots=5,
        unsettled="report",
    )
    return replace(defaults, **changes)
