# SPDX-License-Identifier: Apache-2.0
"""The wall shear stress of a straight tube in a noisy image, beside its error, as found and with noise lessened.

    PYTHONPATH=.:benchmarks python benchmarks/wall_error_map.py 5 --seed 1 [--picture FILE] [--json FILE]

Radius, direction and length of the tube are drawn from the seed. Its flow is Poiseuille's, so that the exact stress is
the same everywhere: 4 mu Q/(pi R^3) with the true R. The chain from the image on is that of a case. Tells the standard
deviation of both errors over the wall, but for two radii at each end, in % of the exact value; the picture is of the
first tube.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from bench import default_file, provenance
from matplotlib.figure import Figure
from numpy.typing import NDArray

import hemolattice as hl
from pipeline.case.settings.base import parse
from pipeline.stages.phantom import Phantom, PhantomSettings, synthesize

Floats = NDArray[np.float64]

VISCOSITY, REYNOLDS, DENSITY = 3.5e-3, 12.0, 1060.0
LIMIT = 8.0
"""Of the colours, %."""


def tube(seed: int, noise_hu: float) -> tuple[Phantom, float]:
    """An image of a tube, and its radius, mm."""
    rng = np.random.default_rng(seed)
    radius, way = float(rng.uniform(1.5, 2.6)), rng.standard_normal(3)
    half = 7 * radius * way / np.linalg.norm(way)
    ends = [(-half).tolist(), (0 * half).tolist(), half.tolist()]
    size = [int(n) for n in np.ceil((2 * np.abs(half) + 4 * radius) / 0.4)]
    branch = {"name": "tube", "start": "inlet", "end": "outlet", "points_mm": ends, "radii_mm": [radius] * 3}
    image = {"size": size, "spacing_mm": [0.4] * 3, "slice_thickness_mm": 0.4, "centre_mm": [0.0, 0.0, 0.0]}
    image |= {"rotation_deg": [0.0] * 3, "lumen_hu": 350, "tissue_hu": 40, "blur_mm": [0.3] * 3}
    image |= {"noise_hu": noise_hu, "noise_seed": seed}
    given = {"name": "tube", "vessel": {"branches": [branch]}, "image": image}
    return synthesize(parse(PhantomSettings, given, "tube")), radius


def errors(phantom: Phantom, radius_mm: float, across: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Place along the axis (radii), angle around it, and the errors of the stress as found and with noise lessened (%),
    of the wall's vertices that are two radii off the ends.
    """
    flow_ml_s = REYNOLDS * np.pi * radius_mm / 2 * VISCOSITY / DENSITY * 1e3
    seeds = phantom.truth["seeds_mm"][:1]
    segmented = hl.segment(hl.filter_image(phantom.image), phantom.image, "CT", seeds_mm=seeds)
    surface = hl.surface(segmented)
    tree = hl.centreline(surface)
    nodes = hl.decompose(hl.voxelize(surface, tree, nodes_across=across, across="inlet"), surface)
    flow = hl.solve(nodes, inlets={"*": {"flow_ml_s": flow_ml_s}}, viscosity_pa_s=VISCOSITY, backend="cpu")
    found = [hl.postprocess(flow, surface, tree, lessen_noise=less) for less in (False, True)]
    exact = 4 * VISCOSITY * flow_ml_s * 1e-6 / (np.pi * (1e-3 * radius_mm) ** 3)
    first, last = (np.array(opening.centre_mm) for opening in surface.openings)
    axis, points = last - first, found[0].wall.mesh.points_mm - first
    axis /= np.linalg.norm(axis)
    beside = np.linalg.svd(axis[None])[2][1:]
    along, angle = points @ axis / radius_mm, np.arctan2(points @ beside[1], points @ beside[0])
    inner = (along > 2) & (along < np.ptp(along) - 2)
    off = [100 * (each.arrays["WSS magnitude (Pa)"][inner] / exact - 1) for each in found]
    return along[inner], angle[inner], off[0], off[1]


def picture(along: Floats, angle: Floats, before: Floats, after: Floats, path: Path) -> None:
    """The stress over the exact one and both errors on the unrolled wall.

    Parameters
    ----------
    along, angle, before, after : of :func:`errors`.
    path : of the picture.
    """
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    turned = [np.concatenate([angle + turn for turn in (-2 * np.pi, 0, 2 * np.pi)]), np.tile(along, 3)]
    shown = (
        ("as found, over the exact stress (%)", 100 + before, "viridis", (100 - LIMIT, 100 + LIMIT)),
        (f"its error (%), {before.std():.2f} % deviation", before, "RdBu_r", (-LIMIT, LIMIT)),
        (f"with noise lessened, {after.std():.2f} %", after, "RdBu_r", (-LIMIT, LIMIT)),
    )
    for panel, (title, values, colours, (low, high)) in zip(panels, shown, strict=True):
        drawn = panel.tripcolor(
            *turned, np.tile(values, 3), shading="gouraud", cmap=colours, vmin=low, vmax=high, rasterized=True
        )
        panel.set(title=title, xlim=(-np.pi, np.pi), xlabel="angle around the tube")
        panel.title.set_fontsize(9)
        figure.colorbar(drawn, ax=panel)
    panels[0].set_ylabel("way along it (radii)")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, help="tubes")
    parser.add_argument("--seed", type=int, required=True, help="of the first")
    parser.add_argument("--across", type=float, default=12.0, help="nodes across the tube")
    parser.add_argument("--noise", type=float, default=31.0, help="of the image, HU, at a contrast of 310")
    parser.add_argument("--picture", type=Path, help="file of the picture")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--commit", help="of what was run, where git cannot tell it")
    options = parser.parse_args()
    found = []
    for seed in range(options.seed, options.seed + options.count):
        phantom, radius = tube(seed, options.noise)
        along, angle, before, after = errors(phantom, radius, options.across)
        if options.picture and seed == options.seed:
            picture(along, angle, before, after, options.picture)
        deviations = {"as found": before.std(), "lessened": after.std(), "mean": after.mean()}
        drawn = {"seed": seed, "radius_mm": round(radius, 3)}
        found.append(drawn | {name: round(float(value), 3) for name, value in deviations.items()})
        print(json.dumps(found[-1]), flush=True)
    record = {**provenance(options), "errors_percent": found}
    file = options.json or default_file("wall-error-map", record["hardware"])
    file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
