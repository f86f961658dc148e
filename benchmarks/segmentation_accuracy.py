# SPDX-License-Identifier: Apache-2.0
"""Accuracy of the segmentation on phantoms whose vessel is known, for noise and slice thickness as of real scans.

    python benchmarks/segmentation_accuracy.py --json benchmarks/results/segmentation.json
    python benchmarks/segmentation_accuracy.py --table benchmarks/results/segmentation.json

The demo's vessel (aneurysm of 3.4 mm on an artery of 2 mm, branches of 1.6 and 1.3 mm) is imaged with voxels of
0.4 x 0.4 mm, written as a DICOM series, loaded, filtered and segmented. Every entry has the same settings, a rule that
a user can follow: non-local means, whose patches follow the voxels and whose strength follows the noise measured in the
image; one seed in the vessel; the threshold left out, so that it is found from the seed.

Contrast-to-noise: lumen less tissue (310 HU) over the standard deviation of the noise of an acquired voxel; noise of
different voxels is independent. Slice thickness = distance of the slices: each voxel holds the mean over its extent,
blurred by the scanner's point spread. The truth is the analytic vessel on the filtered grid, not the thick slices.
"""

import argparse
import json
import logging
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from pipeline.case.settings.base import parse  # noqa: E402
from pipeline.case.settings.images import FilterSettings, LoadSettings, SegmentSettings  # noqa: E402
from pipeline.case.settings.yaml_file import read_yaml  # noqa: E402
from pipeline.case.vessel import Branch, Distance, vessel_distance  # noqa: E402
from pipeline.files.volume import Volume  # noqa: E402
from pipeline.segmentation.methods import METHODS  # noqa: E402
from pipeline.segmentation.region_growing import wall_points  # noqa: E402
from pipeline.stages.filter import filter_volume  # noqa: E402
from pipeline.stages.load import load  # noqa: E402
from pipeline.stages.phantom import PhantomSettings, SeriesHeader, synthesize, write_series  # noqa: E402
from pipeline.stages.segment import Segmentation, segment  # noqa: E402
from solver.runtime.errors import StageError  # noqa: E402

IN_PLANE_MM, EXTENT_MM = 0.4, (51.2, 51.2, 50.0)
CONTRAST_TO_NOISE, SLICES_MM = (3, 5, 10), (0.5, 1.0, 2.0)
FILTER = FilterSettings(smoothing="nonlocal")
BONE_MM = (11.8, -2.0, -13.0)
"""The demo's bone beside the vessel, moved to 4 mm from it: thicker slices would join the two in the image itself."""


@dataclass(frozen=True)
class Scan:
    """A phantom as filtered, and the truth on its grid.

    Attributes
    ----------
    loaded, filtered : volumes.
    modality : as loaded.
    seed_mm : a point in the lumen, LPS.
    distance_mm : (Z, Y, X) on the filtered grid, to the true wall, negative inside.
    distance_to_wall : of points LPS (N, 3), mm.
    voxel_mm : diagonal of an acquired voxel.
    """

    loaded: Volume
    filtered: Volume
    modality: str | None
    seed_mm: tuple[float, float, float]
    distance_mm: NDArray[np.float64]
    distance_to_wall: Distance
    voxel_mm: float


def phantom(contrast_to_noise: float, slice_mm: float) -> PhantomSettings:
    """The demo's phantom with other noise and slices."""
    path = ROOT / "data" / "phantoms" / "aneurysm.yaml"
    values = read_yaml(path)
    image = values["image"]
    spacing = (IN_PLANE_MM, IN_PLANE_MM, slice_mm)
    image |= {
        "size": [round(length / step) for length, step in zip(EXTENT_MM, spacing, strict=True)],
        "spacing_mm": spacing,
        "slice_thickness_mm": slice_mm,
        "noise_hu": (image["lumen_hu"] - image["tissue_hu"]) / contrast_to_noise,
    }
    values["bones"][0]["centre_mm"] = BONE_MM
    return parse(PhantomSettings, values, str(path))


def scan(settings: PhantomSettings, filtering: FilterSettings = FILTER) -> Scan:
    """Image, write, load and filter a phantom."""
    log = logging.getLogger("segmentation_accuracy")
    made = synthesize(settings)
    with tempfile.TemporaryDirectory() as folder:
        header = SeriesHeader(settings.name, 2, "synthetic", "AXIAL", settings.image.slice_thickness_mm)
        write_series(made.image, Path(folder), header)
        loaded, facts = load(Path(folder), LoadSettings(), log)
    filtered = filter_volume(loaded, filtering, log)
    to_wall = vessel_distance(settings.vessel, [Branch(branch) for branch in settings.vessel.branches])

    def distance_to_wall(points_mm: NDArray[np.float64]) -> NDArray[np.float64]:
        return to_wall((points_mm - settings.image.centre_mm) @ filtered.direction)

    planes = [distance_to_wall(filtered.to_mm(places)) for places in _places(filtered)]
    distance_mm = np.stack(planes).reshape(filtered.voxels.shape)
    (seed,) = made.truth["seeds_mm"]
    diagonal_mm = float(np.linalg.norm(settings.image.spacing_mm))
    return Scan(loaded, filtered, facts.modality, tuple(seed), distance_mm, distance_to_wall, diagonal_mm)


def _places(volume: Volume) -> Iterable[NDArray[np.int64]]:
    """Indices x, y, z of the voxels of each plane, (N, 3)."""
    y, x = (index.ravel() for index in np.indices(volume.voxels.shape[1:]))
    for z in range(len(volume.voxels)):
        yield np.column_stack([x, y, np.full_like(x, z)])


def find(case: Scan, method: str) -> Segmentation:
    """Segment with the rule of this study."""
    settings = SegmentSettings(method=method, seeds_mm=(case.seed_mm,))
    return segment(case.filtered, settings, case.loaded, case.modality)


def score(case: Scan, found: Segmentation) -> dict[str, float]:
    """Compare a lumen with the truth.

    Returns
    -------
    dict
        ``dice`` of the masks; ``hausdorff95_mm``, the larger of the 95th percentiles of the distances from either
        wall to the other (the walls where occupancy and truth pass 1/2 between voxels), also in diagonals of the
        acquired voxel, ``hausdorff95_voxels``; ``volume_error``, relative; ``radius_error_mm``, the mean distance of
        the found wall outside the true one.
    """
    mask, truth = found.lumen.voxels > 0, case.distance_mm < 0
    spacing_mm = case.filtered.spacing_mm[0]
    wall = wall_points(found.occupancy.voxels)
    true_wall = wall_points(0.5 - case.distance_mm / spacing_mm)
    there, back = cKDTree(true_wall).query(wall)[0], cKDTree(wall).query(true_wall)[0]
    hausdorff_mm = spacing_mm * max(float(np.percentile(gaps, 95)) for gaps in (there, back))
    outside_mm = case.distance_to_wall(case.filtered.to_mm(wall[:, ::-1]))
    return {
        "dice": round(float(2 * np.sum(mask & truth) / (mask.sum() + truth.sum())), 4),
        "hausdorff95_mm": round(hausdorff_mm, 3),
        "hausdorff95_voxels": round(hausdorff_mm / case.voxel_mm, 3),
        "volume_error": round(float(mask.sum() / truth.sum() - 1), 4),
        "radius_error_mm": round(float(outside_mm.mean()), 4),
    }


def measure(
    ratios: Iterable[float],
    slices_mm: Iterable[float],
    methods: Iterable[str],
    say: Callable[[str], None],
    filtering: FilterSettings = FILTER,
) -> list[dict[str, object]]:
    """Entries of the table; a refusal of the segmentation is an entry with its reason."""
    entries: list[dict[str, object]] = []
    for slice_mm in slices_mm:
        for ratio in ratios:
            case = scan(phantom(ratio, slice_mm), filtering)
            for method in methods:
                start = time.process_time()
                entry: dict[str, object] = {"contrast_to_noise": ratio, "slice_mm": slice_mm, "method": method}
                try:
                    found = find(case, method)
                    entry |= {"lower": found.record["lower"]} | score(case, found)
                except StageError as error:
                    entry["refused"] = str(error)
                entries.append(entry | {"processor_seconds": round(time.process_time() - start, 1)})
                say(json.dumps(entries[-1]))
    return entries


def merged(kept: list[dict[str, object]], measured: list[dict[str, object]]) -> list[dict[str, object]]:
    """All entries, of those of the same phantom and method the measured one, in the order of the methods."""
    keys = ("slice_mm", "contrast_to_noise", "method")
    every = {tuple(entry[key] for key in keys): entry for entry in kept + measured}
    order = list(METHODS)
    return [every[key] for key in sorted(every, key=lambda key: (*key[:2], order.index(str(key[2]))))]


def tables(entries: list[dict[str, object]]) -> str:
    """Two tables in Markdown, a row a phantom, a column a method: Dice and Hausdorff distance; volume and radius."""
    return _table(entries, _overlap) + "\n\n" + _table(entries, _size)


def _table(entries: list[dict[str, object]], cell: Callable[[dict], str]) -> str:
    methods = list(dict.fromkeys(str(entry["method"]) for entry in entries))
    rows: dict[tuple, dict[str, str]] = {}
    for entry in entries:
        text = "refused" if "refused" in entry else cell(entry)
        rows.setdefault((entry["slice_mm"], entry["contrast_to_noise"]), {})[str(entry["method"])] = text
    lines = ["| slices | contrast-to-noise | " + " | ".join(methods) + " |", "|---" * (len(methods) + 2) + "|"]
    for (slice_mm, ratio), cells in sorted(rows.items()):
        lines.append(f"| {slice_mm:g} mm | {ratio:g} | " + " | ".join(cells.get(m, "") for m in methods) + " |")
    return "\n".join(lines)


def _overlap(entry: dict) -> str:
    return f"{entry['dice']:.3f}, {entry['hausdorff95_mm']:.2f} ({entry['hausdorff95_voxels']:.2f})"


def _size(entry: dict) -> str:
    return f"{100 * entry['volume_error']:+.1f} %, {entry['radius_error_mm']:+.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cnr", type=float, nargs="+", default=CONTRAST_TO_NOISE, help="contrast-to-noise ratios")
    parser.add_argument("--slices", type=float, nargs="+", default=SLICES_MM, help="slice thicknesses, mm")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--smoothing", default=FILTER.smoothing, help="as of the filter, to compare")
    parser.add_argument("--json", type=Path, help="file for the results; entries of it that are not measured are kept")
    parser.add_argument("--table", type=Path, help="print the tables of a file of results and stop")
    arguments = parser.parse_args()
    if arguments.table:
        print(tables(json.loads(arguments.table.read_text())["entries"]))
        return
    filtering = FilterSettings(smoothing=arguments.smoothing)
    entries = measure(
        arguments.cnr, arguments.slices, arguments.methods, lambda line: print(line, flush=True), filtering
    )
    if arguments.json:
        if arguments.json.exists():
            entries = merged(json.loads(arguments.json.read_text())["entries"], entries)
        commit = subprocess.run(
            ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
        )
        results = {
            "what": "segmentation of phantoms: Dice, Hausdorff distance (95 %), error of volume and radius",
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in ("numpy", "scipy", "scikit-image", "SimpleITK", "numba")},
            "commit": commit.stdout.strip(),
            "in_plane_mm": IN_PLANE_MM,
            "filter": filtering.model_dump(mode="json"),
            "entries": entries,
        }
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    print(tables(entries))


if __name__ == "__main__":
    main()
