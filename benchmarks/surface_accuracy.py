# SPDX-License-Identifier: Apache-2.0
"""Surfaces of shapes with known volume, area and radius: convergence, smoothers, remeshing; tables and JSON.

    python benchmarks/surface_accuracy.py convergence smoothers remeshing --json benchmarks/results/DATE-surface.json
    python benchmarks/surface_accuracy.py --table benchmarks/results/DATE-surface.json

Pipe (10 radii long, cut and capped by the surface stage), sphere, and torus (ring of 3 radii), turned and shifted at
random against the voxels, as the part of each voxel that they fill or as a mask of those half filled. Errors are root
mean squares over the positions, in per cent of the analytic volume, area and radius; ``normal_deg`` is that of the
wall's normals. The pipe is measured between its caps.

convergence: voxels on the radius from 4 to 12, edges of the triangles as long as a voxel.
smoothers: each with its defaults.
remeshing: time and quality against the number of triangles, distance from the surface given in local radii.
"""

import argparse
import json
import logging
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from pipeline.case.settings.geometry import SurfaceSettings  # noqa: E402
from pipeline.files.mesh import Mesh  # noqa: E402
from pipeline.files.volume import Volume  # noqa: E402
from pipeline.geometry.surface.distance import ClosestPoint  # noqa: E402
from pipeline.geometry.surface.facets import Facets  # noqa: E402
from pipeline.geometry.surface.isosurface import fit, smooth_field, zero_surface  # noqa: E402
from pipeline.geometry.surface.quality import triangle_quality  # noqa: E402
from pipeline.geometry.surface.remesh import edge_lengths, local_radius, remesh, remesh_vessel  # noqa: E402
from pipeline.geometry.surface.smooth_wall import smooth_wall  # noqa: E402
from pipeline.geometry.surface.triangle_measures import vertex_normals  # noqa: E402
from pipeline.stages.surface import extract_surface  # noqa: E402
from tests.support.imaged import SOLIDS, imaged  # noqa: E402

LOG = logging.getLogger("surface")
SMOOTHERS = "field", "windowed-sinc", "taubin", "none"


def closed_surface(lumen: Volume, settings: SurfaceSettings) -> Mesh:
    """What the surface stage makes of a lumen without open ends."""
    volume_mm3 = float(np.count_nonzero(lumen.voxels >= 0.5) * np.prod(lumen.spacing_mm))
    field = smooth_field(lumen, settings.smoothing_mm)
    mesh, field = fit(zero_surface(field), field, volume_mm3)
    mesh, shape_of = smooth_wall(mesh, field, lumen, settings, volume_mm3)
    return remesh_vessel(mesh, shape_of(mesh), settings.edges_per_radius, max(lumen.spacing_mm))


@cache
def image(name: str, voxels: float, seed: int, mask: bool) -> Volume:
    """Of a solid; see :func:`imaged`."""
    return imaged(SOLIDS[name], voxels, seed, mask)


def errors(name: str, voxels: float, seed: int, mask: bool, settings: SurfaceSettings) -> dict[str, float]:
    """Relative errors of a solid's surface, and the angle of its normals to the right ones, root mean square."""
    solid = SOLIDS[name]
    lumen = image(name, voxels, seed, mask)
    if solid.volume is None or solid.area is None:  # the pipe
        surface = extract_surface(lumen, settings, LOG)
        mesh, length = surface.mesh, float(np.ptp([opening.centre_mm[2] for opening in surface.openings]))
        volume, area = np.pi * length, 2 * np.pi * length
        caps = float(np.mean([o.area_mm2 * abs(o.normal[2]) / np.pi for o in surface.openings])) - 1
    else:
        mesh = closed_surface(lumen, settings)
        volume, area, caps = solid.volume, solid.area, 0.0
    wall = mesh.opening == 0
    rows = np.setdiff1d(mesh.triangles[wall], mesh.triangles[~wall])
    points = mesh.points_mm[rows]
    step = 1e-4
    slope = np.stack([solid.distance(points + step * e) - solid.distance(points - step * e) for e in np.eye(3)], axis=1)
    cosine = np.einsum("ij,ij->i", slope / (2 * step), vertex_normals(mesh.points_mm, mesh.triangles.ravel())[rows])
    return {
        "volume": mesh.volume_mm3() / volume - 1,
        "area": float(np.linalg.norm(mesh.area_vectors_mm2()[wall], axis=1).sum()) / area - 1,
        "radius": solid.radius(points) - 1,
        "caps": caps,
        "normal_deg": float(np.degrees(np.sqrt(np.mean(np.arccos(np.clip(cosine, -1, 1)) ** 2)))),
    }


def rms(name: str, voxels: float, mask: bool, settings: SurfaceSettings, positions: int) -> dict[str, float]:
    """Root mean squares of :func:`errors` over positions; but for the angle in per cent."""
    found = [errors(name, voxels, seed, mask, settings) for seed in range(positions)]
    return {
        key: float(np.sqrt(np.mean([e[key] ** 2 for e in found]))) * (1 if key == "normal_deg" else 100)
        for key in found[0]
    }


def order(voxels: list[float], error: list[float]) -> float:
    """Order of convergence: slope of the straight line through the logarithms."""
    return float(-np.polyfit(np.log(voxels), np.log(error), 1)[0])


def convergence(positions: int = 4) -> list[dict[str, Any]]:
    """Errors against the number of voxels on the radius, and their orders."""
    entries = []
    voxels = [4.0, 6.0, 8.0, 12.0]
    for mask in (False, True):
        for name in SOLIDS:
            found = [rms(name, n, mask, SurfaceSettings(edges_per_radius=n, cut_radii=2.0), positions) for n in voxels]
            orders = {k: order(voxels, [f[k] for f in found]) for k in ("volume", "area", "radius")}
            entries.append({"solid": name, "mask": mask, "voxels": voxels, "errors": found, "orders": orders})
            print(entries[-1], flush=True)
    return entries


def smoothers(positions: int = 2) -> list[dict[str, Any]]:
    """Errors of each smoother, for tubes from thin to thick, a sphere and a torus."""
    entries = []
    for mask in (True, False):
        for smoother in SMOOTHERS:
            for name, voxels in [*(("pipe", n) for n in (2.5, 4, 6, 10)), ("sphere", 6), ("torus", 6)]:
                settings = SurfaceSettings(smoother=smoother, cut_radii=2.0)
                entry: dict[str, Any] = {"smoother": smoother, "mask": mask, "solid": name, "voxels": voxels}
                entries.append(entry | rms(name, voxels, mask, settings, positions))
                print(entries[-1], flush=True)
    return entries


def remeshing() -> list[dict[str, Any]]:
    """Time, quality and distance from the given surface, for a torus of more and more voxels and edges."""
    entries = []
    for voxels, edges in ((8.0, 5.0), (16.0, 5.0), (16.0, 20.0), (24.0, 40.0), (24.0, 60.0)):
        field = smooth_field(imaged(SOLIDS["torus"], voxels, 1), None)
        given = zero_surface(field)
        given, field = fit(given, field, given.volume_mm3())
        for _ in range(2):  # the first one compiles
            start = time.process_time()
            radius = local_radius(given)
            lengths = edge_lengths(given, radius, edges)
            found = time.process_time()
            mesh = remesh(given, lengths, Facets(given, given))
            end = time.process_time()
        closest, _ = ClosestPoint(given.points_mm, given.triangles)(mesh.centroids_mm())
        away = np.linalg.norm(mesh.centroids_mm() - closest, axis=1)
        entry = {"edges_per_radius": edges, "given_triangles": len(given.triangles), **triangle_quality(mesh)}
        entry |= {"radius_s": found - start, "remesh_s": end - found, "largest_distance_radii": float(away.max())}
        entry["volume_change"] = mesh.volume_mm3() / given.volume_mm3() - 1
        entries.append(entry)
        print(entry, flush=True)
    return entries


PARTS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "convergence": convergence,
    "smoothers": smoothers,
    "remeshing": remeshing,
}


def table(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = []
    if "convergence" in results:
        lines += [
            "| solid | image | voxels on the radius | volume % | area % | radius % |",
            "|---|---|---|---|---|---|",
        ]
        for entry in results["convergence"]:
            image = "mask" if entry["mask"] else "occupancy"
            for voxels, found in zip(entry["voxels"], entry["errors"], strict=True):
                figures = " | ".join(f"{found[key]:.3f}" for key in ("volume", "area", "radius"))
                lines.append(f"| {entry['solid']} | {image} | {voxels:g} | {figures} |")
            orders = " | ".join(f"{entry['orders'][key]:.2f}" for key in ("volume", "area", "radius"))
            lines.append(f"| {entry['solid']} | {image} | order | {orders} |")
        lines.append("")
    if "smoothers" in results:
        lines += [
            "| smoother | image | solid | voxels on the radius | volume % | area % | radius % | normals, degrees |"
        ]
        lines += ["|---|---|---|---|---|---|---|---|"]
        for entry in results["smoothers"]:
            image = "mask" if entry["mask"] else "occupancy"
            figures = " | ".join(f"{entry[key]:.2f}" for key in ("volume", "area", "radius", "normal_deg"))
            lines.append(f"| {entry['smoother']} | {image} | {entry['solid']} | {entry['voxels']:g} | {figures} |")
        lines.append("")
    if "remeshing" in results:
        lines += ["| triangles | of | needles | tiny | smallest angle | 5th percentile | distance, radii | time, s |"]
        lines += ["|---|---|---|---|---|---|---|---|"]
        for e in results["remeshing"]:
            angles = f"{e['smallest_angle_deg']:.1f} | {e['p5_angle_deg']:.1f}"
            seconds = e["radius_s"] + e["remesh_s"]
            lines.append(
                f"| {e['triangles']:,} | {e['given_triangles']:,} | {e['needles']} | {e['tiny']} | {angles} |"
                f" {e['largest_distance_radii']:.4f} | {seconds:.1f} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parser.add_argument("--json", type=Path, help="file to which the results are written, parts that it holds are kept")
    parser.add_argument("--table", type=Path, help="print the tables of such a file")
    given = parser.parse_args()
    if given.table:
        print(table(json.loads(given.table.read_text())))
        return
    results = json.loads(given.json.read_text()) if given.json and given.json.exists() else {}
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    results |= {
        "date": date.today().isoformat(),
        "commit": commit.stdout.strip(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {name: metadata.version(name) for name in ("numpy", "numba", "scipy", "vtk")},
    }
    for part in given.parts:
        results[part] = PARTS[part]()
        if given.json:
            given.json.write_text(json.dumps(results, indent=1) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()
