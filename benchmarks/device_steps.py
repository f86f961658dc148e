# SPDX-License-Identifier: Apache-2.0
"""Where a step goes on a CUDA device: kernels of nodes, walls, and what corrects them, with and without layers.

    python benchmarks/device_steps.py --nodes 5.3e6 --json results.json

A vessel with a sac, fp32: D3Q19 with TRT, and D3Q27 with cumulants and the force of isotropy. Each without layers at
openings, with layers whose omega is known before the first step, and with the same layers as steps find them where the
viscosity follows from the flow. They are timed one after the other, whole steps and kernels by themselves. Needs a
device.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from bench import TAU, boundary_values, default_file, provenance  # noqa: E402
from coupled_vessel import LAMBDA_TRT  # noqa: E402
from parabola_speed import sac, with_parabola  # noqa: E402

from solver.backends.cuda.cuda_driver import CudaDriver  # noqa: E402
from solver.backends.lattice import Lattice  # noqa: E402
from solver.kernels.rheology import make_rheology  # noqa: E402
from solver.run.models import CUMULANT_LAMBDA  # noqa: E402
from validation.timing import passes, repeated, stirred, stopwatch  # noqa: E402

SETS = {"D3Q19": (19, "trt", LAMBDA_TRT), "D3Q27": (27, "cumulant", CUMULANT_LAMBDA)}
PART, SHARE, STEPS, RECORDED = 50, 0.5, 50, 16
"""One node in so many is in a layer, with this share of the blend; steps that a run asks for at once;
and how often they run before, so that all that is launched again is recorded."""
CORRECTIONS = ("add_momentum", "write_velocity", "write_slip", "write_fluxes", "write_momentum")


def lattices(count: float) -> Iterator[tuple[str, Lattice, np.ndarray]]:
    """What is timed: its name, the lattice, and boundary values of a step."""
    nodes = sac(count)
    for name, (q, collision, lambda_trt) in SETS.items():
        lattice = with_parabola(nodes, q, collision, "fp32")
        blend = np.zeros(lattice.count)
        blend[: lattice.count // PART] = SHARE
        known = make_rheology("newtonian", ((TAU - 0.5) / 3,), TAU, lambda_trt, blend=blend)
        assert known is not None
        found = replace(known, model="newtonian")
        for layers, rheology in (("no layers", None), ("layers", known), ("layers found in each step", found)):
            yield f"{name}, {layers}", replace(lattice, rheology=rheology), boundary_values(nodes)


def measured(lattice: Lattice, row: np.ndarray, repeats: int) -> dict[str, Any]:
    """Microseconds of a step, of its kernels and of its corrections, each by itself."""
    driver = stirred(CudaDriver(lattice))
    watch, rows = stopwatch(driver), np.tile(row, (STEPS, 1))
    driver.advance(np.tile(row, (RECORDED * STEPS, 1)))
    step_s = float(np.median(repeated(watch, partial(driver.advance, rows), 10 * repeats)[:, 0])) / STEPS
    kernels = passes(driver, row, repeats)
    for name in CORRECTIONS if lattice.isotropic else ():
        kernels[name] = float(np.median(repeated(watch, getattr(driver, name), 10 * repeats)[:, 0]))
    return {
        "nodes": lattice.count,
        "wall_links": len(lattice.walls.slot),
        "layout": driver.layout,
        "step_us": 1e6 * step_s,
        "mlups": lattice.count / step_s / 1e6,
        "kernels_us": {name: 1e6 * seconds for name, seconds in kernels.items()},
    }


def main() -> None:
    """Measure, print a table and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=float, default=5.3e6)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="file for the results; default: in benchmarks/results by the date")
    parser.add_argument("--commit", help="of what is measured, where git cannot tell it")
    options = parser.parse_args()
    found = {}
    for name, lattice, row in lattices(options.nodes):
        found[name] = measured(lattice, row, options.repeats)
        kernels = ", ".join(f"{kernel} {each:.1f}" for kernel, each in found[name]["kernels_us"].items())
        print(f"{name:36} {found[name]['step_us']:8.1f} us {found[name]['mlups']:8.0f} MLUPS  {kernels}", flush=True)
    record = provenance(options) | {"lattices": found}
    path = options.json or default_file("device-steps", record["hardware"])
    path.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
