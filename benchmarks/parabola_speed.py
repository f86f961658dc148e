# SPDX-License-Identifier: Apache-2.0
"""A vessel with a sac on a CUDA device: its speed without and with walls that meet a parabola."""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from bench import TAU, boundary_values
from coupled_vessel import LAMBDA_TRT
from numpy.typing import NDArray

from solver.backends.cuda.cuda_driver import CudaDriver
from solver.backends.lattice import Lattice, build_lattice
from solver.boundary.parabolic_walls import ParabolicWalls
from solver.domain.nodes import Nodes
from solver.kernels.collision import relaxation_rates
from solver.run.models import CUMULANT_LAMBDA
from tests.support.geometries import hollow, observe, round_opening
from validation.timing import passes, repeated, stirred, stopwatch

Reals = NDArray[np.float64]

SETS = {"D3Q19, trt": (19, "trt"), "D3Q19, bgk": (19, "bgk"), "D3Q27, cumulant, force": (27, "cumulant")}
"""Velocity sets and collision models with which walls meet a parabola."""
IN_BOTH = ("D3Q19, trt",)
"""Of these, what is measured in double precision too."""


def sac(count: float) -> Nodes:
    """A pipe, askew to the axes, with a round sac on its side; about so many nodes."""
    radius = (count / 37) ** (1 / 3)
    unit, side = np.array((2.0, 3.0, 6.0)) / 7, np.array((6.0, 2.0, -3.0)) / 7
    start = np.array((0.3, 0.2, 0.4))
    length, middle, round_radius = 8 * radius, start + 4 * radius * unit + 1.5 * radius * side, 1.6 * radius

    def level(points: Reals) -> Reals:
        offset = points - start
        beside = np.linalg.norm(offset - np.outer(offset @ unit, unit), axis=1) - radius
        return np.minimum(beside, np.linalg.norm(points - middle, axis=1) - round_radius)

    ends = start, start + length * unit
    caps = (
        round_opening(1, "in", "inlet", ends[0], -unit, radius),
        round_opening(2, "out", "outlet", ends[1], unit, radius),
    )
    margin = radius + 2
    low = np.minimum(np.minimum(*ends) - margin, middle - round_radius - 2)
    high = np.maximum(np.maximum(*ends) + margin, middle + round_radius + 2)
    return hollow(level, caps, np.floor(low), np.ceil(high))


def with_parabola(nodes: Nodes, q: int, collision: str, precision: str) -> Lattice:
    """A lattice whose walls meet a parabola; with 27 velocities the force of isotropy acts, as it does in runs."""
    rates = relaxation_rates(TAU, CUMULANT_LAMBDA if collision == "cumulant" else LAMBDA_TRT)
    on = nodes if q == 19 else nodes.with_corners()
    return build_lattice(on, collision, rates, "bouzidi", precision, isotropic=q == 27, parabolic=True)


def without_parabola(lattice: Lattice) -> Lattice:
    """The same lattice with walls that meet a straight line."""
    return replace(lattice, walls=replace(lattice.walls, varies=False), parabolic=ParabolicWalls.none())


def walls(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Speed without and with walls that meet a parabola, in turns, by size, models and precision."""
    for millions in options.sizes:
        nodes = sac(millions * 1e6)
        for name, (q, collision) in SETS.items():
            for precision in ("fp32", "fp64") if name in IN_BOTH else ("fp32",):
                lattice = with_parabola(nodes, q, collision, precision)
                found = costs(lattice, boundary_values(nodes), options)
                yield {"millions": millions, "models": name, "precision": precision, **found}


def costs(lattice: Lattice, row: Reals, options: argparse.Namespace) -> dict[str, Any]:
    """Times of a lattice without and with walls that meet a parabola, `row` being the boundary values of a step."""
    pair = [stirred(CudaDriver(each)) for each in (without_parabola(lattice), lattice)]
    watches = [stopwatch(driver) for driver in pair]
    some = np.tile(row, (64, 1))
    step_s = np.median(repeated(watches[0], partial(pair[0].advance, some), 3)[:, 0]) / len(some)
    rows = np.tile(some, (max(1, round(options.seconds / step_s / len(some))), 1))
    taken = np.array(
        [
            [watch(partial(driver.advance, rows)).seconds for driver, watch in zip(pair, watches, strict=True)]
            for _ in range(options.repeats + 1)
        ]
    )[1:]
    if not all(np.isfinite(observe(driver, False).max_speed) for driver in pair):
        raise SystemExit("the flow diverged, and its rate means nothing")
    without_s, with_s = np.median(taken, axis=0) / len(rows)
    longer = taken[:, 1] / taken[:, 0] - 1
    renewing_s = np.median(repeated(watches[1], pair[1].renew_corrections, options.repeats)[:, 0])
    walls_s = [passes(driver, row, options.repeats)["walls"] for driver in pair]
    return {
        "nodes": lattice.count,
        "wall_links": len(lattice.walls.slot),
        "steps": len(rows),
        "without_mlups": lattice.count / without_s / 1e6,
        "with_mlups": lattice.count / with_s / 1e6,
        "longer": float(np.median(longer)),
        "longer_each": longer.tolist(),
        "step_us": 1e6 * float(without_s),
        "renewing_us": 1e6 * float(renewing_s),
        "renewed_every": 2 * lattice.corrected_pairs,
        "walls_us": [1e6 * each for each in walls_s],
    }
