# SPDX-License-Identifier: Apache-2.0
"""Grid convergence: the same case on two or three lattices -> how far its numbers hang on the spacing.

The coarser lattices go through the same stages as the case's own, with the same surface, openings, conditions and
models. The lattice speed is the same, too (acoustic scaling: the time step follows the spacing), and so is the Mach
number: the error of compressibility, of second order in it, is alike on all lattices and not seen here, while errors of
the time step fall together with those of the spacing and count as such. That is fair to what is asked: how the numbers
of the case change where its spacing alone does. What follows the grid Reynolds number by itself changes with the
lattice (collision auto, lambda_trt null); where it does, the file says so.
"""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.spatial import cKDTree

from pipeline.case.settings.base import Positive, Section, parse
from pipeline.files.json_file import read_json
from pipeline.files.mesh import Mesh, read_mesh, read_openings
from pipeline.haemodynamics.extrapolation import SAFETY, WIDE_SAFETY, Estimate, estimate
from pipeline.haemodynamics.indices import LOW_SHEAR_PA
from pipeline.haemodynamics.percentiles import weighted_percentiles
from pipeline.haemodynamics.wall_shear_stress import Wall, near_openings, rim_mm
from solver.domain.nodes import Opening
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job

MAX_GCI = 0.05
"""Larger parts of a number give a warning: about what differs between codes and laboratories."""

NEGLIGIBLE = 1e-3
"""A number that changes by less than this part of it, to and fro or not, has no order to be warned of: by so much does
a flow that counts as steady still move (solve.steady_tolerance)."""

LEAST_PART = 0.01
"""Errors of an area below this part of the wall are no warning, however small the area is."""

LEAST_RATIO = 1.2
"""Neighbouring spacings nearer than this tell little of an order."""

MACH_SPREAD = 0.1
"""Largest relative difference of Mach numbers that count as the same."""

SHEAR = {"TAWSS (Pa)": "time-averaged wall shear stress", "WSS magnitude (Pa)": "wall shear stress"}
"""Array of the wall, of which there is one, and what it is."""


class ConvergenceInput(Section):
    """What the command line takes: of the section ``convergence`` and of ``postprocess``."""

    safety: Positive | None = Field(None, description="factor of safety; none: by the number of spacings")
    fit_nodes: Positive = Field(2.0, description="radius of the fit, in spacings: wall near to a cap is left out")


@dataclass(frozen=True)
class Level:
    """What one lattice gave.

    Attributes
    ----------
    spacing_mm : of the lattice.
    indices : ``indices.json``.
    summary : ``solve.json``.
    wall : the wall without caps.
    arrays : point arrays of the wall by name, each (V,) or (V, 3).
    """

    spacing_mm: float
    indices: Mapping[str, Any]
    summary: Mapping[str, Any]
    wall: Mesh
    arrays: Mapping[str, NDArray[Any]]

    @staticmethod
    def read(indices: Path, summary: Path, wall: Path) -> "Level":
        """From the files of the stages solve and postprocess.

        Parameters
        ----------
        indices, summary : ``indices.json`` and ``solve.json``.
        wall : the wall with its stresses (VTP).
        """
        solved = read_json(summary)
        return Level(float(solved["numbers"]["spacing_mm"]), read_json(indices), solved, *read_mesh(wall))


def grid_convergence(
    levels: Sequence[Level], openings: tuple[Opening, ...], settings: ConvergenceInput
) -> dict[str, Any]:
    """Numbers of a case on two or three lattices, with order, extrapolation and grid-convergence index.

    Numbers of the wall are taken over the part of it that counts on the coarsest lattice, so that they differ slightly
    from those of ``indices.json``: the rims that are left out there grow with the spacing.

    Parameters
    ----------
    levels : in any order.
    openings : of the vessel.
    settings : factor of safety; width of the rims that are left out.

    Returns
    -------
    As it stands in ``grid_convergence.json``: values from the finest spacing to the coarsest; orders that are seen
    (``order``) and that the estimate is made with (``order_used``); ``gci`` and changes of the wall as fractions.

    Raises
    ------
    StageError
        If there are not two or three spacings, or the levels do not belong together.
    """
    levels = sorted(levels, key=lambda level: level.spacing_mm)
    _require_comparable(levels)
    spacings = [level.spacing_mm for level in levels]

    def quantity(name: str, unit: str, values: Sequence[float]) -> dict[str, Any]:
        return _quantity(name, unit, values, estimate(values, spacings, settings.safety))

    wall = Wall.of(levels[0].wall)
    rim = rim_mm(settings.fit_nodes, spacings[-1])
    counted = ~near_openings(wall, openings, rim)
    if not counted.any():
        raise StageError(
            f"no wall is further than {rim:.3g} mm from the openings, at a spacing of {spacings[-1]:.3g} mm; give"
            " a smaller convergence.ratio or fewer convergence.spacings"
        )
    rows = [_rows_on(wall.mesh, level) for level in levels]
    areas = wall.areas_mm2[counted]
    array = next(name for name in SHEAR if name in levels[0].arrays)
    shear = [_scalars(level, array)[row][counted] for level, row in zip(levels, rows, strict=True)]
    quantities = [quantity(*each) for each in _of_indices([level.indices for level in levels])]
    quantities += [quantity(*each) for each in _of_shear(SHEAR[array], shear, areas)]
    if all("OSI" in level.arrays for level in levels):
        index = [_scalars(level, "OSI")[row][counted] for level, row in zip(levels, rows, strict=True)]
        quantities.append(quantity("oscillatory shear index, mean", "1", [_mean(values, areas) for values in index]))
    over_wall = _over_wall(SHEAR[array], shear, areas, spacings, settings.safety)
    same = all(np.array_equal(row, np.arange(len(wall.normals))) for row in rows)
    return {
        "spacings_mm": spacings,
        "ratios": [coarse / fine for fine, coarse in pairwise(spacings)],
        "safety": settings.safety or (SAFETY if len(levels) == 3 else WIDE_SAFETY),
        "mach": [float(level.summary["mach"]) for level in levels],
        "quantities": quantities,
        "wall": over_wall | {"matched": "same vertices" if same else "nearest vertices"},
        "warnings": _warnings(levels, quantities),
        "notes": _notes(levels),
    }


def _require_comparable(levels: Sequence[Level]) -> None:
    """Check that there are two or three different spacings, and the same openings and arrays on all of them."""
    spacings = ", ".join(f"{level.spacing_mm:.4g}" for level in levels)
    if not 2 <= len({level.spacing_mm for level in levels}) == len(levels) <= 3:
        raise StageError(f"spacings of {spacings} mm: two or three different ones are wanted; see convergence.spacings")
    for what, of in (("openings", _names), ("arrays of the wall", lambda level: sorted(level.arrays))):
        if any(of(level) != of(levels[0]) for level in levels):
            raise StageError(f"the {what} differ between the spacings of {spacings} mm; run the workflow again")
    if not any(name in levels[0].arrays for name in SHEAR):
        raise StageError("the wall has no array of the wall shear stress; run postprocess again")


def _names(level: Level) -> list[str]:
    return [opening["name"] for opening in level.indices["openings"]]


def _rows_on(finest: Mesh, level: Level) -> NDArray[np.int64]:
    """Vertex of a level's wall at each vertex of the finest level's: the same, else the nearest, (V,)."""
    if level.wall.points_mm.shape == finest.points_mm.shape and np.allclose(level.wall.points_mm, finest.points_mm):
        return np.arange(len(finest.points_mm))
    distance, row = cKDTree(level.wall.points_mm).query(finest.points_mm)
    if distance.max() > level.spacing_mm:
        raise StageError(
            f"the wall of the spacing {level.spacing_mm:.3g} mm lies up to {distance.max():.3g} mm beside that of the"
            " finest: they are not of the same surface; run the workflow again"
        )
    return row.astype(np.int64)


def _scalars(level: Level, array: str) -> NDArray[np.float64]:
    return level.arrays[array].astype(np.float64)


def _mean(values: NDArray[np.float64], areas: NDArray[np.float64]) -> float:
    return float(areas @ values / areas.sum())


def _of_indices(indices: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, list[float]]]:
    """Name, unit and values of the numbers that every ``indices.json`` tells."""
    found = []
    for k, drop in enumerate(indices[0]["pressure_drops"]):
        values = [float(each["pressure_drops"][k]["drop_pa"]) for each in indices]
        found.append((f"pressure drop from {drop['inlet']} to {drop['outlet']}", "Pa", values))
    for k, opening in enumerate(indices[0]["openings"]):
        if opening["role"] == "outlet":
            values = [float(each["openings"][k]["flow_ml_s"]) for each in indices]
            found.append((f"flow through {opening['name']}", "mL/s", values))
    for name, unit, key in (("peak speed", "m/s", "peak_speed_m_s"), ("kinetic energy", "J", "kinetic_energy_j")):
        found.append((name, unit, [float(each[key]) for each in indices]))
    return found


def _of_shear(
    name: str, shear: Sequence[NDArray[np.float64]], areas: NDArray[np.float64]
) -> list[tuple[str, str, list[float]]]:
    """Name, unit and values of what sums up the stress on the wall, by area."""
    median, high = zip(*(weighted_percentiles(values, areas, (50, 99)) for values in shear), strict=True)
    found = [
        (f"{name}, mean", "Pa", [_mean(values, areas) for values in shear]),
        (f"{name}, median", "Pa", list(median)),
        (f"{name}, 99th percentile", "Pa", list(high)),
    ]
    found += [
        (f"part of the wall below {limit:g} Pa", "1", [float(areas @ (tau < limit) / areas.sum()) for tau in shear])
        for limit in LOW_SHEAR_PA
    ]
    return found


def _quantity(name: str, unit: str, values: Sequence[float], found: Estimate) -> dict[str, Any]:
    scale = abs(values[0])
    return {
        "name": name,
        "unit": unit,
        "values": list(values),
        "order": found.order,
        "order_used": found.order_used,
        "safety": found.safety,
        "extrapolated": found.extrapolated,
        "uncertainty": found.uncertainty,
        "gci": found.uncertainty / scale if scale else None,
        "behaviour": found.behaviour,
    }


def _over_wall(
    name: str,
    shear: Sequence[NDArray[np.float64]],
    areas: NDArray[np.float64],
    spacings_mm: Sequence[float],
    safety: float | None,
) -> dict[str, Any]:
    """How the stress changes point by point, in parts of its mean on the finest lattice.

    Changes are not in parts of the stress at the point itself, which vanishes where flow separates. The order is that
    at which their root mean square by area falls with the spacing.
    """
    mean = _mean(shear[0], areas)
    changes = [np.abs(coarse - fine) / (mean or 1.0) for fine, coarse in pairwise(shear)]
    squares = [float(np.sqrt(_mean(change**2, areas))) for change in changes]
    found = estimate(np.cumsum([0.0, *squares]).tolist(), spacings_mm, safety)
    return {
        "name": name,
        "mean_pa": mean,
        "vertices": len(areas),
        "changes": [
            {"fine_mm": fine, "coarse_mm": coarse, "rms": square, "p95": weighted_percentiles(change, areas, (95,))[0]}
            for (fine, coarse), square, change in zip(pairwise(spacings_mm), squares, changes, strict=True)
        ],
        "order": found.order,
        "order_used": found.order_used,
        "gci": found.uncertainty,
        "behaviour": found.behaviour,
    }


def _warnings(levels: Sequence[Level], quantities: Sequence[Mapping[str, Any]]) -> list[str]:
    """What keeps the numbers from being trusted, and what to do."""
    found = []
    spacings = ", ".join(f"{level.spacing_mm:.3g}" for level in levels)
    finer = "choose a finer voxelize.spacing_mm (or a larger voxelize.nodes_across)"
    shown = [each for each in quantities if not (each["unit"] == "1" and each["uncertainty"] < LEAST_PART)]
    for behaviour, words in (("oscillatory", "go to and fro"), ("diverging", "change more from spacing to spacing")):
        names = [
            each["name"]
            for each in shown
            if each["behaviour"] == behaviour and np.ptp(each["values"]) > NEGLIGIBLE * abs(each["values"][0])
        ]
        if names:
            found.append(
                f"over the spacings of {spacings} mm these numbers {words}, so that no order of convergence is seen:"
                f" {'; '.join(names)}; {finer}"
            )
    large = [f"{each['name']} ({each['gci']:.0%})" for each in shown if each["gci"] and each["gci"] > MAX_GCI]
    if large:
        found.append(
            f"with a spacing of {levels[0].spacing_mm:.3g} mm the grid-convergence index is above {MAX_GCI:.0%} of"
            f" {'; '.join(large)}; {finer}"
        )
    found += [
        f"on the lattice of {level.spacing_mm:.3g} mm the flow had not settled when the solver stopped; raise"
        " solve.max_steps or solve.cycles"
        for level in levels
        if not level.summary["converged"]
    ]
    found += [
        f"on the lattice of {level.spacing_mm:.3g} mm the flow is {unsteady}: numbers are those of its mean, and"
        " differ by chance, too"
        for level in levels
        if (unsteady := level.summary.get("unsteady"))
    ]
    models = [
        f"{level.summary['models']['collision']} on {level.summary['models']['velocity_set']}" for level in levels
    ]
    if len(set(models)) > 1:
        found.append(
            f"the lattices of {spacings} mm ran with the models {', '.join(models)}, so that their difference"
            " is not of the spacing alone; name solve.collision and solve.velocity_set"
        )
    mach = [float(level.summary["mach"]) for level in levels]
    if np.ptp(mach) > MACH_SPREAD * max(mach):
        found.append(
            f"the Mach numbers on the lattices of {spacings} mm are {', '.join(f'{each:.2g}' for each in mach)}, so"
            " that the fluid is not equally compressible; lower solve.lattice_speed"
        )
    nearest = min(coarse.spacing_mm / fine.spacing_mm for fine, coarse in pairwise(levels))
    if nearest < LEAST_RATIO:
        found.append(
            f"spacings of {spacings} mm are as near as a factor of {nearest:.3g}: at least {LEAST_RATIO:g} is wanted"
            " for an order; raise convergence.ratio"
        )
    return found


def _notes(levels: Sequence[Level]) -> list[str]:
    """What else differs between the lattices than their spacing."""
    lambda_trt = [level.summary["models"].get("lambda_trt") for level in levels]
    if None in lambda_trt or len(set(lambda_trt)) == 1:
        return []
    listed = ", ".join(f"{each:.3g}" for each in lambda_trt)
    return [f"the collision's parameter Lambda follows the relaxation time: {listed}; solve.lambda_trt holds it"]


def write_table(found: Mapping[str, Any], path: Path) -> None:
    """The quantities as CSV, one a row."""
    columns = [f"value_at_{spacing:.6g}_mm" for spacing in found["spacings_mm"]]
    keys = ("order", "order_used", "safety", "extrapolated", "uncertainty", "gci", "behaviour")
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["name", "unit", *columns, *keys])
        for each in found["quantities"]:
            writer.writerow([each["name"], each["unit"], *each["values"], *(each[key] for key in keys)])


def _compute(job: Job) -> None:
    settings = parse(ConvergenceInput, job.settings, "--settings")
    files = [job.lists[role] for role in ("indices", "summary", "wall")]
    if len({len(paths) for paths in files}) > 1:
        raise StageError("--indices, --summary and --wall: as many files of each are wanted, in the same order")
    levels = [Level.read(*paths) for paths in zip(*files, strict=True)]
    found = grid_convergence(levels, read_openings(job.inputs["openings"]), settings)
    for warning in found["warnings"]:
        job.log.warning("warning: %s", warning)
    job.outputs["grid"].write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    write_table(found, job.outputs["table"])


if __name__ == "__main__":
    run_stage(
        "convergence",
        __doc__,
        inputs={
            "indices": "key figures of each lattice, from postprocess (indices.json)",
            "summary": "choices and outcome on each lattice, from solve (solve.json)",
            "wall": "the wall of each lattice, from postprocess (wall.vtp)",
            "openings": "the openings, from surface (openings.json)",
        },
        outputs={
            "grid": "orders of convergence, extrapolated numbers, grid-convergence indices (.json)",
            "table": "the same as a table (.csv)",
        },
        compute=_compute,
        several=("indices", "summary", "wall"),
    )
