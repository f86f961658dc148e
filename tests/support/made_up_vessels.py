# SPDX-License-Identifier: Apache-2.0
"""Runs of vessels whose flow is made up, for measures that look at velocity, pressure, stress and the wall."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.case.settings.flow import PostprocessSettings
from pipeline.files.mesh import Mesh
from solver.domain.nodes import Nodes
from tests.support.geometries import pipe
from tests.support.shapes import capped_cylinder
from validation.studies.run import Run

VISCOSITY, DENSITY = 3.5e-3, 1060.0
FLOW_ML_S = 1.0


def straight(direction: tuple[int, int, int], radius: float, length: float, spacing_mm: float) -> tuple[Nodes, Mesh]:
    """A pipe from the origin on; radius and length in spacings."""
    nodes = pipe(direction, radius, length, spacing_mm)
    nodes = moved(nodes, -np.array(nodes.openings[0].centre_mm))
    axis = np.array(nodes.openings[1].normal)
    middle = length * spacing_mm * axis / 2
    mesh, _ = capped_cylinder(axis, radius * spacing_mm, length * spacing_mm, middle, 64)
    return nodes, mesh


def moved(nodes: Nodes, by_mm: NDArray) -> Nodes:
    """The same nodes elsewhere."""
    openings = tuple(replace(each, centre_mm=tuple(np.array(each.centre_mm) + by_mm)) for each in nodes.openings)
    return replace(nodes, origin_mm=tuple(np.array(nodes.origin_mm) + by_mm), openings=openings)


def poiseuille(
    points_mm: NDArray, axis: NDArray, radius_mm: float, flow_ml_s: float
) -> tuple[NDArray, NDArray, NDArray]:
    """Velocity (N, 3), gradient of the pressure along the axis, and stress (N, 6) of a developed flow about a line
    through the origin.

    u = 2 U (1 - r^2/R^2) a, sigma = mu (grad u + grad u^T) = -(4 mu U/R^2) (r a^T + a r^T).
    """
    mean, radius_m = flow_ml_s / (np.pi * radius_mm**2), 1e-3 * radius_mm
    away = points_mm - np.outer(points_mm @ axis, axis)
    velocity = 2 * mean * (1 - (away**2).sum(axis=1) / radius_mm**2)[:, None] * axis
    slope = -4 * VISCOSITY * mean / radius_m**2 * 1e-3 * away
    tensor = np.einsum("na,b->nab", slope, axis) + np.einsum("a,nb->nab", axis, slope)
    stress = tensor[:, [0, 1, 2, 0, 1, 2], [0, 1, 2, 1, 2, 0]]
    return velocity, np.array(-8 * VISCOSITY * mean / radius_m**2), stress


def made_up(name: str, nodes: Nodes, surface: Mesh, geometry: Any, flows_ml_s: dict[str, float], **fields: Any) -> Run:
    """A run whose files are never read; of the solver's settings it has those that measures ask for.

    The first of the flows enters, the others leave.
    """
    solve = SimpleNamespace(
        viscosity_pa_s=VISCOSITY, density_kg_m3=DENSITY, murray_exponent=3.0, outlets=fields.pop("outlets", {})
    )
    case = SimpleNamespace(solve=solve, postprocess=PostprocessSettings(), input=SimpleNamespace(geometry=geometry))
    reported = {key: {"flow_ml_s": flow, "pressure_pa": 0.0, "imposed": {}} for key, flow in flows_ml_s.items()}
    inlet = next(iter(flows_ml_s))
    reported[inlet]["imposed_flow_ml_s"] = flows_ml_s[inlet]
    for key, more in fields.pop("openings", {}).items():
        reported[key] |= more
    run = Run(name, case, Path())
    summary = {"openings": reported, "numbers": {"tau": 0.52}}
    run.__dict__.update(nodes=nodes, surface=surface, summary=summary, **fields)
    return run
