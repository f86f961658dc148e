# SPDX-License-Identifier: Apache-2.0
"""Ends of vessels within an image: what the stage surface cuts off there, and how true its openings are.

    python benchmarks/vessel_ends.py --seeds 1000 1100 --json benchmarks/results/DATE-vessel-ends.json
    python benchmarks/vessel_ends.py --seeds 15000 15060 --kinds narrow blunt
    python benchmarks/vessel_ends.py --results tried/project/results carotid willis

Seeds: tubes drawn at random (`tests/support/drawn_ends.py`) go from their image to the surface. For each kind of end:
openings whose section is within 10 % of the vessel's, and whose normal is within 10 degrees of its axis, where the
opening lies; what was cut off, in mL and in pi r3 of the vessel; how deep before the true end the opening lies. For
each tube how far its surface stands outside of it. With kinds each pair of them takes its turn.

Results: of inputs that `benchmarks/first_try.py` brought to their lumen. For each end that was cut: how far the plane
stands before the tip of the surface, in diameters, what it takes off and what of that is lost; the same of the plane
nearest to the tip, across the same axis, whose section is at least 95 % of that of the first.
"""

import argparse
import json
import logging
import sys
from collections import defaultdict
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from bench import provenance  # noqa: E402
from comparison import table  # noqa: E402

from hemolattice import vessel  # noqa: E402
from pipeline.case.settings.geometry import SurfaceSettings  # noqa: E402
from pipeline.files.mesh import Mesh  # noqa: E402
from pipeline.files.volume import Volume  # noqa: E402
from pipeline.geometry.branches import ends as branch_ends  # noqa: E402
from pipeline.geometry.branches.faded_ends import image_of  # noqa: E402
from pipeline.geometry.branches.openings import Cut  # noqa: E402
from pipeline.geometry.branches.tips import points_gone  # noqa: E402
from pipeline.geometry.closed_surface import Surface  # noqa: E402
from pipeline.geometry.surface.clip import ClipError, cut_end, section_mm2  # noqa: E402
from pipeline.geometry.surface.volumes import share_lost  # noqa: E402
from pipeline.stages.surface import extract_surface  # noqa: E402
from solver.runtime.errors import StageError  # noqa: E402
from tests.support.drawn_ends import KINDS, LOWER, NARROW, DrawnTube, draw  # noqa: E402

LOG = logging.getLogger("ends")
AREA, DEGREES = 0.10, 10.0
FULL, STEP_RADII, REACH_RADII = 0.95, 0.05, 12.0


def drawn(seed: int, kinds: list[str], folder: Path | None, blind: bool) -> dict[str, Any]:
    """One drawn tube, from its image to its surface."""
    pairs = [(first, last) for first in kinds for last in kinds]
    tube = draw(seed, pairs[seed % len(pairs)] if pairs else None)
    found: dict[str, Any] = {"seed": seed, "kinds": [end.kind for end in tube.ends], "true_mm3": tube.volume_mm3}
    try:
        occupancy, record = _lumen(tube, folder and folder / f"{seed}.nrrd")
        image = image_of(lambda: vessel.filter_image(tube.image), record)
        seen = None if blind else image
        surface = extract_surface(occupancy, SurfaceSettings(), LOG, 1000 * record["volume_ml"], seen)
    except StageError as error:
        return found | {"refusal": str(error)}
    found["radius_voxels"] = float(tube.radii_mm.max() / occupancy.spacing_mm[0])
    found |= {key: surface.quality[key] for key in ("mask_volume_mm3", "volume_mm3", "round_ends")}
    found["outside_voxels"] = _outside(tube, surface) / occupancy.spacing_mm[0]
    return found | {"share_lost": share_lost(surface.quality), "ends": [_end(tube, surface, k) for k in (0, 1)]}


def _outside(tube: DrawnTube, surface: Surface) -> float:
    """How far the surface stands outside of the true tube at most, beside its axis, mm."""
    aside, row = cKDTree(tube.axis_mm).query(surface.mesh.points_mm)
    between = (row > 0) & (row < len(tube.axis_mm) - 1)
    return float((aside - tube.radii_mm[row])[between].max())


def _lumen(tube: DrawnTube, kept: Path | None) -> tuple[Volume, dict[str, Any]]:
    """The lumen of a drawn tube and its record: as it was kept, or from the image."""
    beside = kept and kept.with_suffix(".json")
    if kept and beside and beside.exists():
        return Volume.read(kept), json.loads(beside.read_text(encoding="utf-8"))
    given = {"lower": LOWER} if any(end.kind == "fading" for end in tube.ends) else {}
    filtered = vessel.filter_image(tube.image)
    found = vessel.segment(filtered, tube.image, "CT", seeds_mm=[tube.seed_mm.tolist()], **given)
    if kept and beside:
        found.occupancy.write(kept)
        beside.write_text(json.dumps(found.record), encoding="utf-8")
    return found.occupancy, found.record


def _end(tube: DrawnTube, surface: Surface, number: int) -> dict[str, Any]:
    """An end against the truth; `open` is false where it stays closed."""
    end, other = tube.ends[number], tube.ends[1 - number]
    for opening in surface.openings:
        place = np.array(opening.centre_mm)
        if np.linalg.norm(place - end.place_mm) > np.linalg.norm(place - other.place_mm):
            continue
        radius, along = tube.at(place)
        cuts = surface.quality["cut_ends"]
        own = [cut for cut in cuts if np.linalg.norm(np.array(cut["place_mm"]) - place) < 2 * opening.radius_mm]
        lost_mm3 = sum(cut["volume_mm3"] for cut in own)
        return {
            "kind": end.kind,
            "open": True,
            "cut": bool(own),
            "area": opening.area_mm2 / (np.pi * radius**2),
            "degrees": float(np.degrees(np.arccos(min(1.0, abs(along @ np.array(opening.normal)))))),
            "depth_radii": float((end.place_mm - place) @ end.normal / end.radius_mm),
            "lost_mm3": lost_mm3,
            "lost_radii": lost_mm3 / (np.pi * radius**3),
            "tube_radii": sum(cut.get("tube_mm", 0.0) for cut in own) / radius,
        }
    return {"kind": end.kind, "open": False}


def tell_drawn(records: list[dict[str, Any]]) -> str:
    """A row for each kind of end; where the border is the opening, nothing is cut off."""
    kinds: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        for end in record.get("ends", ()):
            kinds[end["kind"]].append(end)
    rows = []
    for kind, ends in sorted(kinds.items()):
        cut = [end for end in ends if end["open"] and end["cut"]]
        uncut = sum(end["open"] and not end["cut"] for end in ends)
        if not cut:
            rows.append([kind, f"0 of {len(ends)}", str(uncut), *[""] * 6])
            continue
        mean = {key: float(np.mean([end[key] for end in cut])) for key in ("degrees", "lost_radii", "depth_radii")}
        rows.append(
            [
                kind,
                f"{len(cut)} of {len(ends)}",
                str(uncut),
                str(sum(abs(end["area"] - 1) <= AREA for end in cut)),
                str(sum(end["degrees"] < DEGREES for end in cut)),
                f"{mean['degrees']:.1f}, {max(end['degrees'] for end in cut):.1f}",
                f"{sum(end['lost_mm3'] for end in cut) / 1000:.3f}",
                f"{mean['lost_radii']:.3f}",
                f"{mean['depth_radii']:+.2f}",
            ]
        )
    heads = ["end", "cut", "open, uncut", "area within 10 %", "axis within 10 degrees", "degrees: mean, most"]
    return table([*heads, "lost, mL", "lost, pi r3", "before the true end, radii"], rows)


def of_input(folder: Path) -> dict[str, Any]:
    """The ends of an input whose lumen lies in a folder."""
    cuts: list[tuple[Mesh, Cut, Mesh]] = []
    cut_and_cap = branch_ends.cut_and_cap

    def noted(mesh: Mesh, cut: Cut, *given: Any, **keys: Any) -> Mesh:
        after = cut_and_cap(mesh, cut, *given, **keys)
        if not keys.get("at_border"):
            cuts.append((mesh, cut, after))
        return after

    record = json.loads((folder / "segmentation.json").read_text(encoding="utf-8"))
    branch_ends.cut_and_cap = noted
    try:
        lumen, image = (
            Volume.read(folder / "occupancy.nrrd"),
            image_of(cache(partial(Volume.read, folder / "filtered.nrrd")), record),
        )
        surface = extract_surface(lumen, SurfaceSettings(), LOG, 1000 * record["volume_ml"], image)
    finally:
        branch_ends.cut_and_cap = cut_and_cap
    quality = surface.quality
    ends = [_cut(*each, record) for each, record in zip(cuts, quality["cut_ends"], strict=True)]
    shares = {"share_lost": share_lost(quality)}
    return {key: quality[key] for key in ("mask_volume_mm3", "volume_mm3")} | shares | {"ends": ends}


def _cut(before: Mesh, cut: Cut, after: Mesh, record: dict[str, Any]) -> dict[str, Any]:
    """One cut, and the plane nearest to the tip."""
    radius = record["radius_mm"]
    gone = points_gone(before, after, cut.centre_mm, REACH_RADII * radius)
    tip_mm = float(((before.points_mm[gone] - cut.centre_mm) @ cut.normal).max())
    first, k = section_mm2(before, cut.centre_mm, cut.normal), 0

    def plane(steps: int) -> NDArray[np.float64]:
        return np.asarray(cut.centre_mm + steps * STEP_RADII * radius * cut.normal)

    while True:
        try:
            if section_mm2(before, plane(k + 1), cut.normal) < FULL * first:
                break
        except ClipError:
            break
        k += 1
    nearest = before.volume_mm3() - after.volume_mm3()
    for steps in range(k, -1, -1):  # a plane through a corner of the surface cuts no simple loop
        with suppress(ClipError):
            nearest, k = before.volume_mm3() - cut_end(before, plane(steps), cut.normal, 99).volume_mm3(), steps
            break
    return {
        "place_mm": record["place_mm"],
        "radius_mm": radius,
        "tip_diameters": tip_mm / (2 * radius),
        "taken_mm3": before.volume_mm3() - after.volume_mm3(),
        "lost_mm3": record["volume_mm3"],
        "thin_mm3": record.get("thin_mm3", 0.0),
        "tube_mm": record.get("tube_mm", 0.0),
        "nearest_diameters": (tip_mm - k * STEP_RADII * radius) / (2 * radius),
        "nearest_takes_mm3": nearest,
    }


def tell_inputs(records: dict[str, dict[str, Any]]) -> str:
    """A row for each end."""
    rows = [
        [
            name,
            ", ".join(f"{x:.0f}" for x in end["place_mm"]),
            *(f"{end[key]:.2f}" for key in ("radius_mm", "tip_diameters")),
            *(f"{end[key] / 1000:.4f}" for key in ("taken_mm3", "lost_mm3", "thin_mm3")),
            f"{end['nearest_diameters']:.2f}",
            f"{end['nearest_takes_mm3'] / 1000:.4f}",
        ]
        for name, record in records.items()
        for end in record["ends"]
    ]
    heads = ["input", "place, mm", "radius, mm", "to the tip, D", "taken off, mL", "lost, mL", "thin tail of that, mL"]
    return table([*heads, "nearest full plane, D", "takes off, mL"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of inputs")
    parser.add_argument("--results", type=Path, help="folder with theirs")
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 0), help="first, and the one after the last")
    parser.add_argument("--kinds", nargs="*", default=[], choices=(*KINDS, NARROW), help="of their ends; none: drawn")
    parser.add_argument("--lumens", type=Path, help="folder that keeps lumens of drawn tubes for another version")
    parser.add_argument("--blind", action="store_true", help="drawn tubes as given masks are made, without the image")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--commit", help="of what was run, where git cannot tell it")
    options = parser.parse_args()
    LOG.addHandler(logging.NullHandler())
    LOG.propagate = False
    tubes = [drawn(seed, options.kinds, options.lumens, options.blind) for seed in range(*options.seeds)]
    inputs = {name: of_input(options.results / name) for name in options.names}
    for made in (tell_drawn(tubes) if tubes else "", tell_inputs(inputs) if inputs else ""):
        print(made, end="\n\n")
    if options.json:
        results = {**provenance(options), "drawn": tubes, "inputs": inputs}
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
