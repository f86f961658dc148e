# SPDX-License-Identifier: Apache-2.0
"""Dimensionless numbers and scales of a run, for the log and the summary."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from solver.boundary.waveform import Inflow
from solver.domain.nodes import Nodes
from solver.run.expected_flow import ExpectedFlow, wall_radius_mm
from solver.run.scales import Scales
from solver.run.units import Units, words


def numbers_of(nodes: Nodes, flow: ExpectedFlow, scales: Scales) -> dict[str, float]:
    """Numbers of a run by name, whose endings are the units.

    Parameters
    ----------
    nodes : the geometry.
    flow : what is expected.
    scales : its units, and what follows from them.
    """
    units, crossing_s = scales.units, flow.crossing_s(scales.units.dt_s)
    numbers = _resolution(nodes, flow, units)
    if flow.sections and np.isfinite(flow.sections.narrowest_m2):
        numbers["nodes_across_narrowest_section"] = _nodes_across(nodes, flow.sections.narrowest_m2 / units.dx_m**2)
    if flow.sections:
        numbers |= {
            "expected_pressure_difference_pa": scales.pressure_pa,
            "expected_drho": scales.pressure_pa / units.pressure_pa,
        }
    numbers |= {"acoustic_transit_s": crossing_s, "ramp_s": scales.ramp_s}
    if flow.period_s and flow.waveforms.inflow:
        omega = 2 * np.pi / flow.period_s
        numbers["period_s"] = flow.period_s
        numbers["steps_per_cycle"] = flow.period_s / units.dt_s
        numbers["acoustic_transits_per_cycle"] = flow.period_s / crossing_s
        largest = max((o for o in nodes.openings if o.role == "inlet"), key=lambda opening: opening.radius_mm)
        numbers["womersley"] = 1e-3 * largest.radius_mm * float(np.sqrt(omega / units.viscosity_m2_s))
    return {name: float(value) for name, value in numbers.items()}


def _resolution(nodes: Nodes, flow: ExpectedFlow, units: Units) -> dict[str, float]:
    """What every run has: its size, its fluid, and how fine it is."""
    inflow, speed = flow.waveforms.inflow, flow.peak_speed_m_s
    return {
        "fluid_nodes": nodes.total,
        "spacing_mm": nodes.spacing_mm,
        "time_step_s": units.dt_s,
        "tau": units.tau,
        "density_kg_m3": units.density_kg_m3,
        "viscosity_m2_s": units.viscosity_m2_s,
        "expected_peak_speed_m_s": speed,
        "expected_peak_speed_lattice": speed / units.speed_m_s,
        "expected_mach": speed / units.speed_m_s * 3**0.5,
        "grid_reynolds": speed * units.dx_m / units.viscosity_m2_s,
        **(_opening_numbers(nodes, units, inflow) if inflow else {"wall_radius_mm": 1e3 * flow.radius_m}),
    }


def _nodes_across(nodes: Nodes, area: float) -> float:
    """Diameter of a round section of so many nodes; in one layer of nodes they are its height."""
    return float(area if nodes.one_layer else 2 * np.sqrt(area / np.pi))


def least_across(nodes: Nodes, slip: tuple[str, ...], numbers: Mapping[str, float]) -> float:
    """Nodes across the narrowest section or opening, or between the walls of what has no openings.

    Parameters
    ----------
    nodes, slip : the geometry, and the patches along which fluid slips.
    numbers : of :func:`numbers_of`.
    """
    if not nodes.openings:
        return 2 * wall_radius_mm(nodes, slip) / nodes.spacing_mm
    smallest = numbers["nodes_across_smallest_opening"]
    return min(smallest, numbers.get("nodes_across_narrowest_section", smallest))


def _opening_numbers(nodes: Nodes, units: Units, inflow: dict[str, Inflow]) -> dict[str, float]:
    largest = max((o for o in nodes.openings if o.role == "inlet"), key=lambda opening: opening.radius_mm)
    smallest = min(opening.radius_mm for opening in nodes.openings)
    mean_speed, diameter_m = inflow[largest.name].peak_ml_s / largest.area_mm2, 2e-3 * largest.radius_mm
    return {
        "reynolds": mean_speed * diameter_m / units.viscosity_m2_s,
        "nodes_across_inlet": diameter_m / units.dx_m,
        "nodes_across_smallest_opening": 2e-3 * smallest / units.dx_m,
    }


def table(numbers: dict[str, Any]) -> str:
    """The numbers as lines for the log, in words with their units."""
    width = max(len(words(name)) for name in numbers)
    return "\n".join(f"  {words(name).ljust(width)}  {value:.5g}" for name, value in numbers.items())
