# SPDX-License-Identifier: Apache-2.0
"""CUDA against the CPU for every model, parts of a domain against the whole, and sums against the number of threads.

    python benchmarks/backend_agreement.py --json results.json
    python benchmarks/backend_agreement.py --precisions fp32 --only models --json results.json

Needs a device, NumPy, Numba and h5py alone. Prints a table and ends with status 1 where anything disagrees: parts and
thread counts must give the same bits, backends the same numbers to within what rounding grows to. Nearly all of its
time is compilation: each model of a node is compiled for both backends in each precision.
"""

import argparse
import json
import platform
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from solver.backends.cpu.cpu_driver import CpuDriver  # noqa: E402
from solver.backends.cuda import cuda_driver, device, device_arrays  # noqa: E402
from solver.backends.cuda.cuda_driver import CudaDriver  # noqa: E402
from solver.backends.driver import Driver  # noqa: E402
from solver.backends.lattice import PRECISIONS, Lattice, build_lattice  # noqa: E402
from solver.backends.subdomains import SubdomainsDriver  # noqa: E402
from solver.boundary.openings import OutletFeedback  # noqa: E402
from solver.boundary.profiles import PROFILES, Profile  # noqa: E402
from solver.boundary.walls import WALLS  # noqa: E402
from solver.domain.nodes import Nodes  # noqa: E402
from solver.domain.partition import partition  # noqa: E402
from solver.kernels.collision import COLLISIONS, ON_D3Q19, relaxation_rates  # noqa: E402
from solver.kernels.d3q19 import VELOCITIES, WEIGHTS  # noqa: E402
from solver.kernels.node_physics import EQUILIBRIA  # noqa: E402
from solver.kernels.rheology import make_rheology  # noqa: E402
from tests.support.geometries import bifurcation, numbers, observe, periodic_pipe, pipe, random_cavern  # noqa: E402

TOLERANCE = {"fp16": 2e-2, "fp32": 2e-5, "fp64": 1e-12}
"""Of a field, over its largest size: backends round differently, by fused multiplication and addition, and in 16 bits a
population that is rounded the other way is off by 2^-11, and so moves a viscosity that follows from their stress."""
STEPS, MODEL_STEPS = 60, 200
TAU, LAMBDA_TRT = 0.7, 0.1
FORCE = (1e-5, 2e-5, -1e-5)


def geometries() -> dict[str, Nodes]:
    """A sparse cavern with openings, a tilted pipe with openings, an endless pipe."""
    return {
        "cavern": random_cavern((14, 13, 12), 3),
        "pipe": pipe((1, 2, 3), 10.4, 60),
        "endless pipe": periodic_pipe((1, 1, 1), 8.6),
    }


def state(driver: Driver, boundary_values: np.ndarray) -> dict[str, np.ndarray]:
    """Everything that is read of a run, after two stretches of it."""
    for rows in np.split(boundary_values, 2):
        driver.advance(rows)
        seen = observe(driver, True)
    fields = driver.fields()
    return {
        "drho": fields.drho,
        "velocity": fields.velocity,
        "stress": fields.stress,
        "inflow": seen.inflow,
        "opening drho": seen.opening_drho,
        "observation": numbers(seen),
    }


def same_bits(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(one[name], other[name]) for name in one)


def difference(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> float:
    """Largest difference of a field over its largest size."""
    names = ("drho", "velocity", "stress")
    return max(float(np.abs(one[name] - other[name]).max() / np.abs(one[name]).max()) for name in names)


def with_fewer_threads(run: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """A run in which sums are shared out among other numbers of threads."""
    kept = device.THREADS, cuda_driver.OBSERVATION_BLOCKS
    device.THREADS = device_arrays.THREADS = 64
    cuda_driver.OBSERVATION_BLOCKS = 48
    try:
        return run()
    finally:
        device.THREADS, cuda_driver.OBSERVATION_BLOCKS = kept
        device_arrays.THREADS = device.THREADS


def compare(lattice: Lattice, nodes: Nodes, precision: str) -> dict[str, object]:
    """One row of the table."""
    rng = np.random.default_rng(0)
    size = np.array([0.02 if opening.role == "inlet" else 1e-3 for opening in nodes.openings])
    boundary_values = rng.random((STEPS, len(size))) * size
    on_cuda = state(CudaDriver(lattice), boundary_values)
    parts: dict[str, np.ndarray] = {
        "3 parts": partition(nodes, 3),
        "8 parts": partition(nodes, 8),
        "5 random": rng.integers(0, 5, nodes.count),
    }
    row: dict[str, object] = {"cuda - cpu": difference(state(CpuDriver(lattice), boundary_values), on_cuda)}
    for name, part in parts.items():
        row[name] = same_bits(on_cuda, state(SubdomainsDriver(lattice, part, CudaDriver), boundary_values))
    row["threads"] = same_bits(on_cuda, with_fewer_threads(lambda: state(CudaDriver(lattice), boundary_values)))
    row["cpu 8 parts"] = same_bits(
        state(CpuDriver(lattice), boundary_values),
        state(SubdomainsDriver(lattice, parts["8 parts"], CpuDriver), boundary_values),
    )
    row["good"] = all(value for value in row.values() if isinstance(value, bool))
    row["good"] = bool(row["good"]) and float(str(row["cuda - cpu"])) < TOLERANCE[precision]
    return row


def mass_drift(precision: str, steps: int) -> float:
    """Change of the mass of a closed, stirred cavern on the device, over its number of nodes."""
    nodes = random_cavern((14, 13, 12), 5, openings=False)
    driver = CudaDriver(build_lattice(nodes, "trt", relaxation_rates(0.6, 0.05), "bouzidi", precision))
    start = 1e-3 * np.random.default_rng(0).standard_normal((19, nodes.count))
    rows = np.zeros((19, driver.lattice.stride), driver.lattice.real)
    rows[:, : nodes.count] = start - start.mean()
    driver.write(slice(0, rows.size), rows.ravel())
    before = rows.sum(dtype=np.float64)
    driver.advance(np.zeros((steps, 0)))
    after = driver.read(slice(0, rows.size)).sum(dtype=np.float64)
    return float(abs(after - before)) / nodes.count


BLOOD = {
    "carreau-yasuda": (0.3, 0.03, 200.0, 0.64, 0.3),
    "casson": (1e-4, 0.03, 1.0),
    "power-law": (0.01, 0.6),
    "bingham": (1e-4, 0.05),
    "herschel-bulkley": (1e-4, 0.01, 0.7, 2000.0),
}
"""Parameters of each model in lattice units: nu is some 0.05 at shear rates of some 0.01."""
OUTLETS = {
    "given": (),
    "windkessel": (0.5, 0.99, 2e-4, 5e-3, 0.2, 1e-4, 0.3),
    "demanded": (0.5, 1.0, 6e-4, 0.0, 0.0, 0.0, 0.0),
}
"""Rule by which an outlet's pressure follows from its flow, see :class:`solver.boundary.openings.OutletFeedback`."""


@dataclass(frozen=True)
class Models:
    """What a flow through a bifurcation is computed with."""

    collision: str = "trt"
    equilibrium: str = "incompressible"
    walls: str = "bouzidi"
    blood: str = "newtonian"
    eddies: float = 0.0
    blended: bool = False
    profile: str = "developed"
    outlets: str = "given"
    patches: bool = False
    velocities: str = "D3Q19"
    isotropic: bool = False
    parabolic: bool = False

    def reported(self) -> str:
        """What is not as in the base."""
        base = vars(Models())
        other = [value if isinstance(value, str) else name for name, value in vars(self).items() if value != base[name]]
        return " ".join(other) or "base"


def variants() -> Iterator[Models]:
    """Every collision with every equilibrium, and each other model by itself."""
    for collision in ON_D3Q19:
        for equilibrium in EQUILIBRIA:
            yield Models(collision, equilibrium)
    others = (
        *(Models(walls=walls) for walls in WALLS),
        *(Models(blood=blood) for blood in BLOOD),
        Models(eddies=0.15),
        Models(blended=True),
        *(Models(profile=profile) for profile in PROFILES),
        *(Models(outlets=outlets) for outlets in OUTLETS),
        Models(patches=True),
    )
    yield from (models for models in others if models != Models())
    yield from with_corners()


def with_corners() -> Iterator[Models]:
    """On D3Q27, which has no standard equilibria and no patches: each collision, and other models by themselves."""
    for collision in COLLISIONS:
        for equilibrium in EQUILIBRIA:
            if not equilibrium.endswith("-standard"):
                yield Models(collision, equilibrium, velocities="D3Q27")
    yield Models("trt", velocities="D3Q27", isotropic=True)
    yield Models("cumulant", eddies=0.15, blended=True, velocities="D3Q27", isotropic=True)
    yield Models("projected", eddies=0.15, velocities="D3Q27", isotropic=True)
    yield Models("projected", walls="half-way", velocities="D3Q27")
    yield Models("projected", blood="carreau-yasuda", velocities="D3Q27")
    yield Models("projected", eddies=0.15, velocities="D3Q27")
    yield Models("projected", blended=True, outlets="windkessel", profile="womersley", velocities="D3Q27")


def with_patches(nodes: Nodes) -> tuple[Nodes, dict[str, tuple[float, float, float]]]:
    """The nodes with a patch that slips and one that moves, at random, and the velocity of the latter."""
    patch = np.random.default_rng(0).choice(3, len(nodes.wall_link_q), p=(0.6, 0.2, 0.2)).astype(np.int8)
    q = np.where(patch == 1, 0.5, nodes.wall_link_q).astype(np.float32)
    through = (WEIGHTS * VELOCITIES.T)[:, nodes.wall_link_direction[patch == 2]].sum(axis=1)
    x, y, z = 0.02 * np.cross(through, (1.0, 2.0, 3.0)) / np.linalg.norm(np.cross(through, (1.0, 2.0, 3.0)))
    return replace(nodes, wall_link_q=q, wall_link_patch=patch, patches=("smooth", "lid")), {"lid": (x, y, z)}


def flow(nodes: Nodes, models: Models, precision: str) -> tuple[Lattice, np.ndarray]:
    """The lattice of a bifurcation and conditions of a pulsatile flow through it."""
    profile = Profile("womersley", 2, 4.0) if models.profile == "womersley" else Profile(models.profile)
    rule = OUTLETS[models.outlets]
    columns = np.cumsum([0, profile.rows, *[2 if rule else 1] * 2]).astype(np.int32)
    outlet_feedback = OutletFeedback(np.array([1, 2], np.int32), columns[1:3], np.array([rule] * 2), np.zeros((2, 2)))
    blend = np.random.default_rng(1).random(nodes.count) if models.blended else None
    rheology = make_rheology(
        models.blood, BLOOD.get(models.blood, ((TAU - 0.5) / 3,)), TAU, LAMBDA_TRT, models.eddies, blend
    )
    nodes, moving = with_patches(nodes) if models.patches else (nodes, {})
    nodes = nodes.with_corners() if models.velocities == "D3Q27" else nodes
    lattice = build_lattice(
        nodes,
        models.collision,
        relaxation_rates(TAU, LAMBDA_TRT),
        models.walls,
        precision,
        {"in": profile},
        FORCE,
        moving,
        ("smooth",) if models.patches else (),
        columns,
        outlet_feedback if rule else None,
        equilibrium=models.equilibrium,
        rheology=rheology,
        isotropic=models.isotropic,
        parabolic=models.parabolic,
    )
    phase = 2 * np.pi * np.arange(MODEL_STEPS)[:, None] / MODEL_STEPS
    boundary_values = 1e-3 * np.sin(phase + np.arange(lattice.columns))
    boundary_values[:, : profile.rows] = 2 * np.sin(phase + np.arange(profile.rows)) / (1 + np.arange(profile.rows))
    if rule:
        boundary_values[:, columns[1:3] + 1] = boundary_values[:, :1] * (0.6, 0.4)
    return lattice, boundary_values


def compare_models(precisions: list[str], wanted: str) -> Iterator[dict[str, object]]:
    """CPU and CUDA after a run of each model, one row of the table each."""
    nodes = bifurcation(
        8.3, ((6.6, 35.0), (5.7, -50.0)), 4.0, np.linalg.qr(np.array([(2, 1, 0), (-1, 2, 1), (0, -1, 2)]))[0]
    )
    for precision in precisions:
        for models in filter(lambda each: re.fullmatch(wanted, each.reported()), variants()):
            lattice, boundary_values = flow(nodes, models, precision)
            cpu, gpu = (state(make(lattice), boundary_values) for make in (CpuDriver, CudaDriver))
            off = difference(cpu, gpu)
            flows = float(np.abs(cpu["inflow"] - gpu["inflow"]).max() / np.abs(cpu["inflow"]).max())
            yield {
                "geometry": "bifurcation",
                "nodes": nodes.count,
                "steps": MODEL_STEPS,
                "precision": precision,
                "models": models.reported(),
                "cuda - cpu": off,
                "of flows": flows,
                "good": off < TOLERANCE[precision] and flows < TOLERANCE[precision],
            }


def compare_parts(precisions: list[str], wanted: str) -> Iterator[dict[str, object]]:
    """Parts and threads against the whole, and CUDA against the CPU: each collision with each wall and velocity set."""
    rows = product(geometries().items(), precisions, COLLISIONS, WALLS, ("D3Q19", "D3Q27", "D3Q27 isotropic"))
    for (name, nodes), precision, collision, walls, velocities in rows:
        if velocities == "D3Q19" and collision not in ON_D3Q19:
            continue
        if not re.fullmatch(wanted, f"{name} {collision} {walls} {velocities}"):
            continue
        on = nodes if velocities == "D3Q19" else nodes.with_corners()
        lattice = build_lattice(
            on,
            collision,
            relaxation_rates(TAU, LAMBDA_TRT),
            walls,
            precision,
            force=FORCE,
            isotropic=velocities.endswith("isotropic"),
        )
        row = {"geometry": name, "precision": precision, "collision": collision, "walls": walls}
        yield row | {"velocities": velocities} | compare(lattice, on, precision)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precisions", nargs="+", default=list(PRECISIONS), choices=list(PRECISIONS))
    parser.add_argument("--only", choices=("models", "parts"), help="one of the two tables; both if not given")
    parser.add_argument("--rows", default=".*", help="regular expression that a row's words fit as a whole")
    parser.add_argument("--mass-steps", type=int, default=100_000, help="steps of the closed cavern, even; 0: none")
    parser.add_argument("--json", type=Path, help="file for the results")
    arguments = parser.parse_args()
    name = device.require_device()
    tables: dict[str, list[dict[str, object]]] = {}
    for table, rows in (("models", compare_models), ("parts", compare_parts)):
        if arguments.only in (None, table):
            tables[table] = []
            for row in rows(arguments.precisions, arguments.rows):
                if not tables[table]:
                    print("  ".join(row), flush=True)
                tables[table].append(row)
                print("  ".join(f"{v:.1e}" if isinstance(v, float) else f"{v}" for v in row.values()), flush=True)
    good = all(row["good"] for rows in tables.values() for row in rows)
    drift = {}
    if arguments.mass_steps:
        drift = {precision: mass_drift(precision, arguments.mass_steps) for precision in ("fp32", "fp64")}
        print(f"mass of a closed cavern over {arguments.mass_steps} steps, a node: {drift}", flush=True)
        good = good and drift["fp64"] < 1e-10
    print(f"{name}: {'all agree' if good else 'DISAGREEMENT'}")
    if arguments.json:
        report = {"device": name, "python": platform.python_version(), **tables, "mass_drift": drift}
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    sys.exit(not good)


if __name__ == "__main__":
    main()
