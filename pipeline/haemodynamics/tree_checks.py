# SPDX-License-Identifier: Apache-2.0
"""Checks of a network that was computed: whether it repeats, keeps its mass, is fine enough, and is one of a person."""

from typing import Any

import numpy as np

from pipeline.haemodynamics.arterial_tree import Tree
from solver.network.last_cycle import TreeResult

MASS = 1e-8
"""Of the inflow of a cycle; the scheme keeps it to round-off."""
WORK = 0.01
"""Of the work that comes in: what friction, walls and ends do not account for."""
FEWEST_CELLS = 20
"""Over the wavelength of the tenth harmonic, of which a pulse holds next to nothing more."""
HARMONIC = 10
LEAST_CELLS = 2
FASTEST = 0.6
"""Of the wave speed: the scheme needs flow that is slower than its waves."""
PRESSURES = "Williams et al. 2018, doi:10.1093/eurheartj/ehy339: below 90/60 low, from 140/90 mmHg on hypertension"
USUAL = {
    "brachial systolic pressure": ("brachial_systolic_mmhg", "mmHg", (90.0, 140.0), PRESSURES),
    "brachial diastolic pressure": ("brachial_diastolic_mmhg", "mmHg", (60.0, 90.0), PRESSURES),
    "cardiac output": (
        "cardiac_output_l_min",
        "L/min",
        (3.5, 8.0),
        "adults at rest; Cattermole et al. 2017, doi:10.14814/phy2.13195",
    ),
}
"""Checks of indices: key, unit, usual range and its source."""
MEAN_PRESSURE = (
    "inlet_mean_mmhg",
    "mmHg",
    (60.0, 110.0),
    "systemic arteries; Guyton and Hall, Textbook of Medical Physiology",
)
"""In place of the arm's pressures where the network has no arm."""


def tree_checks(tree: Tree, result: TreeResult, indices: dict[str, Any], tolerance: float) -> list[dict[str, Any]]:
    """Checks in their order, as those of ``indices.json``: name, value, limit, and whether it was passed.

    Parameters
    ----------
    tree : with its waveforms.
    result : of the solver.
    indices : by :func:`pipeline.haemodynamics.arterial_tree.tree_indices`.
    tolerance : with which cycles repeat.
    """
    change = float(result.changes[-1].max()) if len(result.changes) else float("inf")
    cells = result.grid.last - result.grid.first + 1
    pulsates = float(np.ptp(tree.found.pressure_pa, axis=0).max()) > 1.0
    found = [
        {"name": "converged", "unit": "", "value": result.converged, "limit": True, "passed": result.converged},
        _at_most("difference of the last two cycles", "%", change, tolerance),
        _at_most("mass not accounted for", "%", abs(result.balance.mass), MASS),
        _at_most("work not accounted for", "%", abs(result.balance.work_left), WORK),
        _at_most("largest speed over that of waves", "", _fastest(tree), FASTEST),
        _at_least("cells of the shortest segment", float(cells.min()), LEAST_CELLS),
    ]
    if pulsates:
        found.append(_at_least("cells over the shortest wave", _cells_over_wave(tree, result), FEWEST_CELLS))
    judged = dict(USUAL)
    if indices["brachial_systolic_mmhg"] is None:
        judged["mean pressure at the inlet"] = MEAN_PRESSURE
    return found + [
        _usual(name, float(indices[key]), unit, usual, source)
        for name, (key, unit, usual, source) in judged.items()
        if indices[key] is not None
    ]


def _at_most(name: str, unit: str, value: float, limit: float) -> dict[str, Any]:
    return {"name": name, "unit": unit, "value": value, "limit": limit, "at_least": False, "passed": value <= limit}


def _at_least(name: str, value: float, limit: float) -> dict[str, Any]:
    return {"name": name, "unit": "", "value": value, "limit": limit, "at_least": True, "passed": value >= limit}


def _usual(name: str, value: float, unit: str, usual: tuple[float, float], source: str) -> dict[str, Any]:
    inside = usual[0] <= value <= usual[1]
    return {"name": name, "unit": unit, "value": value, "usual": list(usual), "source": source, "passed": inside}


def _fastest(tree: Tree) -> float:
    """Largest speed anywhere by the wave speed of its place."""
    fastest = np.abs(tree.found.velocity_m_s).max(axis=0)
    return max(float(fastest[k]) / tree.wave_speed_m_s(k) for k in range(len(fastest)))


def _cells_over_wave(tree: Tree, result: TreeResult) -> float:
    """Least number of cells over the length c T/10 of a wave, of all segments."""
    found = tree.found
    lengths = [tree.wave_speed_m_s(k) * found.period_s / HARMONIC for k in range(len(found.segment))]
    cells = result.grid.per_length[result.grid.first]
    of = {segment.name: float(per) for segment, per in zip(result.network.segments, cells, strict=True)}
    return min(length * of[name] for name, length in zip(found.segment, lengths, strict=True))
