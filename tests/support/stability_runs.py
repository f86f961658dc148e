# SPDX-License-Identifier: Apache-2.0
"""Runs of flows in which the solver must stay stable, and the record of how each ended; nothing but the solver."""

import csv
import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.domain.nodes import Nodes
from solver.run.divergence import DivergenceError
from solver.run.flow_file import Flow, read_flow
from solver.run.settings import SolveSettings
from solver.run.solve import solve
from solver.runtime.errors import StageError

LOG = logging.getLogger("stability")
KEPT_MODELS = ("velocity_set", "collision", "lambda_trt", "eddies", "outlet_layers")


def record_of(nodes: Nodes, settings: SolveSettings, folder: Path) -> dict[str, Any]:
    """Run a flow, and tell how it ended.

    Parameters
    ----------
    nodes, settings : of the flow.
    folder : where its files go.

    Returns
    -------
    ``outcome`` (settled, unsteady, unsettled, diverged, refused), steps, seconds, numbers of the plan, models, the
    largest speed and density deviation in lattice units, how much the kinetic energy grew, means of the flow; where it
    diverged the step, place, distance from the nearest opening, and the advice; what was said.
    """
    record, begin = {"nodes": nodes.count, "spacing_mm": nodes.spacing_mm}, time.perf_counter()
    try:
        summary = solve(nodes, settings, folder / "flow.vtkhdf", folder / "monitor.csv", LOG)
    except DivergenceError as error:
        return record | diverged(error, nodes) | {"seconds": time.perf_counter() - begin}
    except StageError as error:
        return record | {"outcome": "refused", "message": str(error)}
    return record | ended(summary, folder, nodes)


def diverged(error: DivergenceError, nodes: Nodes) -> dict[str, Any]:
    """Record of a run that diverged."""
    place = nodes.points_mm(np.array([error.node]))[0]
    away = [float(np.linalg.norm(place - opening.centre_mm)) for opening in nodes.openings]
    return {
        "outcome": "diverged",
        "steps": error.step,
        "place_mm": place.tolist(),
        "from_opening_mm": min(away, default=None),
        "advice": error.changes,
        "message": str(error),
    }


def ended(summary: dict[str, Any], folder: Path, nodes: Nodes) -> dict[str, Any]:
    """Record of a run that came to its end."""
    with (folder / "monitor.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    series = {key: np.array([float(row[key]) for row in rows]) for key in ("kinetic_energy_j", "mach", "max_drho")}
    energy, mach, drho = series.values()
    numbers = summary["numbers"]
    return {
        "outcome": {"steady": "settled", "periodic": "settled"}.get(summary["state"], summary["state"]),
        "steps": summary["steps"],
        "seconds": summary["seconds"],
        "forecast_steps": summary["forecast"]["steps"],
        "likely_steps": summary["forecast"]["likely_steps"],
        "forecast_seconds": summary["forecast"]["seconds"],
        "max_speed": float(mach.max() / 3**0.5),
        "max_speed_m_s": float(mach.max()) * numbers["expected_peak_speed_m_s"] / numbers["expected_mach"],
        "max_drho": float(drho.max()),
        "finite": bool(np.isfinite(energy).all()),
        "energy_growth": growth(energy),
        "residual": summary["residual"],
        "periodicity": summary["periodicity"],
        "planned_grid_reynolds": numbers["grid_reynolds"],
        "peak_over_expected": float(mach.max()) / numbers["expected_mach"],
        "tau": numbers["tau"],
        "models": {
            key: summary["models"][key]
            for key in ("velocity_set", "collision", "lambda_trt", "eddies", "outlet_layers")
        },
        "fallbacks": summary["models"]["fallbacks"],
        "device": summary["device"],
        "pressure_drop_error": summary["pressure_drop_error"],
        "mean": means(summary, read_flow(folder / "flow.vtkhdf"), nodes),
        "message": "; ".join(dict.fromkeys([*summary["warnings"], *filter(None, [summary["unsettled"]])])),
    }


def growth(energy: NDArray[np.float64]) -> float:
    """Largest kinetic energy of the last third, a cycle of a reversing flow, over that of the third before."""
    third = max(1, len(energy) // 3)
    return float(energy[-third:].max() / energy[-2 * third : -third].max(initial=1e-300))


def means(summary: dict[str, Any], flow: Flow, nodes: Nodes) -> dict[str, float]:
    """What runs at two spacings are compared by, of the mean over the part of the run that counts."""
    volume_m3 = (nodes.spacing_mm * 1e-3) ** 3
    drop = {name: entry["pressure_pa"] for name, entry in summary["openings"].items() if entry["role"] == "inlet"}
    return {
        **({"pressure_drop_pa": max(drop.values())} if drop else {}),
        "dissipation_w": float(flow.dissipation_mean_w_m3().sum(dtype=np.float64) * volume_m3),
        "peak_speed_m_s": float(np.linalg.norm(flow.velocity_mean_m_s(), axis=1).max()),
        "kinetic_energy_j": summary["kinetic_energy_j"],
    }
