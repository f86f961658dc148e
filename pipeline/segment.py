"""Stage 3: the lumen, grown from seeds between two thresholds, and the evidence that it has not leaked.

Region growing is six-connected, so that neither noise nor a thin wall is crossed over a diagonal. Cavities that the
lumen encloses are filled. A result that cannot be trusted is refused: no contrast at the seed, a volume that jumps
between neighbouring thresholds, a mask that fills a face of the region.
"""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import ndimage, special

from pipeline.case import SegmentSettings, parse
from pipeline.segmentation.leak import (
    Levels,
    border_contact,
    check_border,
    check_contrast,
    check_growth,
    growth,
    levels,
    upper_limit,
)
from pipeline.segmentation.picture import draw
from pipeline.segmentation.region_growing import (
    Index,
    Mask,
    bounding_box,
    centre_line_radii,
    fill_holes,
    grow,
    occupancy,
)
from pipeline.volume import Volume
from solver.stage import Job, StageError, run_stage

MINIMUM_VOXELS = 100
"""A smaller mask is noise: a vessel 4 voxels across and twice as long has as many."""

THIN_VOXELS = 4
"""Diameter, in voxels, below which a vessel's size is uncertain."""

THIN_FRACTION = 0.1
"""Part of the centre line that may be thinner before it is worth a warning: ends always look thin."""

NEAREST_MM = 10.0
"""How far from a seed a better one is looked for."""


@dataclass(frozen=True)
class Seed:
    """A point in the lumen.

    Attributes
    ----------
    name : the setting it came from, for messages.
    point_mm : LPS, mm.
    index : nearest voxel x, y, z of the filtered volume.
    """

    name: str
    point_mm: tuple[float, float, float]
    index: Index


@dataclass(frozen=True)
class Segmentation:
    """The lumen and how it was found.

    Attributes
    ----------
    lumen : voxels (Z, Y, X) uint8, 0 or 1, on the grid of the filtered volume; one six-connected component.
    occupancy : voxels (Z, Y, X) float32, the part of each voxel that the lumen fills; rounds to `lumen`.
    seeds : as used.
    levels : intensity inside and around.
    record : what ``segmentation.json`` holds.
    """

    lumen: Volume
    occupancy: Volume
    seeds: tuple[Seed, ...]
    levels: Levels
    record: dict[str, Any]


def segment(filtered: Volume, settings: SegmentSettings, loaded: Volume) -> Segmentation:
    """Grow the lumen from the seeds.

    Parameters
    ----------
    filtered : isotropic volume, voxels (Z, Y, X) float32.
    settings : seeds (LPS mm, or voxels of `loaded`), thresholds, limits of the leak guard.
    loaded : the volume before the filter; only its geometry is used.

    Raises
    ------
    StageError
        If a seed lies outside or is not between the thresholds, two seeds are not connected, or the result fails the
        leak guard (:mod:`pipeline.segmentation.leak`).
    """
    if settings.lower is None or not settings.seeded:
        raise StageError("segment: seeds and lower are needed; give both")
    seeds = place_seeds(filtered, settings, loaded)
    for seed in seeds:
        _check_intensity(seed, filtered, settings, loaded)
    places = [seed.index for seed in seeds]
    grown = grow(filtered.voxels, places[:1], settings.lower, upper_limit(settings))
    _check_connected(seeds, grown, settings)
    if (count := int(grown.sum())) < MINIMUM_VOXELS:
        raise StageError(
            f"segment.lower = {settings.lower:g}: only {count} voxels at the seed are in range, a vessel has at least"
            f" {MINIMUM_VOXELS}: lower the threshold, or move the seed from a speckle of noise into the vessel"
        )
    contact = border_contact(grown, filtered.direction)
    check_border(contact, settings)
    found = levels(filtered.voxels, grown, places, settings.lower)
    check_contrast(found, settings)
    table = growth(filtered.voxels, places, settings, found)
    check_growth(table, found, settings)
    lumen, holes = fill_holes(grown) if settings.fill_holes else (grown, 0)
    voxel_ml = float(np.prod(filtered.spacing_mm)) / 1000
    radii = centre_line_radii(lumen)
    thin = float(np.mean(2 * radii < THIN_VOXELS))
    slope, sensitivity = wall_slope(filtered, lumen, found), _sensitivity(table, found)
    unbiased = unbiased_lower(found, slope, 100 * sensitivity / found.contrast, filtered.spacing_mm[0])
    record = {
        "method": "seeded region growing between thresholds, six-connected",
        "lower": settings.lower,
        "upper": settings.upper,
        "seeds": [_seed_record(seed, filtered, loaded) for seed in seeds],
        "voxels": int(lumen.sum()),
        "volume_ml": round(int(lumen.sum()) * voxel_ml, 5),
        "spacing_mm": filtered.spacing_mm[0],
        "holes_filled": holes,
        "voxels_filled": int(lumen.sum()) - count,
        "lumen_level": round(found.lumen, 4),
        "mask_median": round(found.mask, 4),
        "surroundings_level": round(found.surroundings, 4),
        "contrast": round(found.contrast, 4),
        "noise": round(found.noise, 4),
        "spread": round(found.spread, 4),
        "contrast_to_noise": round(found.contrast_to_noise, 2),
        "volume_by_threshold": [
            {"lower": round(threshold, 4), "voxels": n, "volume_ml": round(n * voxel_ml, 5)} for threshold, n in table
        ],
        "volume_change_per_percent_of_contrast": round(sensitivity, 5),
        "border_contact": {face: round(fraction, 5) for face, fraction in contact.items()},
        "wall_slope_per_mm": round(slope, 4),
        "lower_without_blur_bias": round(unbiased, 4),
        "thin_fraction_of_centre_line": round(thin, 4),
        "warnings": _warnings(thin, filtered),
    }
    filled = filtered.with_voxels(occupancy(filtered.voxels, lumen, settings.lower, found.contrast))
    return Segmentation(filtered.with_voxels(lumen.astype(np.uint8)), filled, seeds, found, record)


def wall_slope(filtered: Volume, lumen: Mask, found: Levels) -> float:
    """Median gradient, intensity per mm, of the voxels at the mask's surface that are nearest to half the contrast."""
    box = bounding_box(lumen, margin=2)
    near, mask = filtered.voxels[box], lumen[box]
    half_way = found.surroundings + found.contrast / 2
    wall = ndimage.binary_dilation(mask) & ~ndimage.binary_erosion(mask)
    wall &= np.abs(near - half_way) < 0.2 * found.contrast
    squares = [np.square(part[wall]) for part in np.gradient(near, filtered.spacing_mm[0])]
    return float(np.median(np.sqrt(np.sum(squares, axis=0)))) if wall.any() else 0.0


def unbiased_lower(found: Levels, slope: float, relative_growth: float, spacing_mm: float) -> float:
    """The threshold at which a blurred tube has its true volume.

    Blur darkens a wall that is curved: at the wall of a tube of radius r, blurred by a Gaussian s, the intensity is not
    1/2 of the contrast but 1/2 - s/(r sqrt(8 pi)) (to first order in s/r), so that half way the tube is s^2/(2 r) too
    thin. Both follow from the image: over two voxels h a sharp wall has the slope contrast erf(h/(s sqrt 2))/(2 h), and
    a tube grows with a falling threshold t by -dV/dt = (2/r) V/slope.

    Parameters
    ----------
    found : intensities.
    slope : of the wall, intensity per mm.
    relative_growth : -(dV/V)/dt, 1/intensity.
    spacing_mm : h.
    """
    if not slope:  # no voxel lies on a slope: the wall is sharp
        return found.surroundings + found.contrast / 2
    rise = min(2 * spacing_mm * slope / found.contrast, 1 - 1e-9)
    blur_mm = spacing_mm / (np.sqrt(2) * special.erfinv(rise))
    curvature = relative_growth * slope / 2
    return float(found.surroundings + found.contrast * (0.5 - min(blur_mm * curvature / np.sqrt(8 * np.pi), 0.1)))


def _sensitivity(table: list[tuple[float, int]], found: Levels) -> float:
    """Relative change of the volume when the threshold falls by 1 % of the contrast: -(dV/V) / (dt/contrast) / 100."""
    (below, more), (_, at), (above, fewer) = table[:3]
    return (more - fewer) / at * found.contrast / (above - below) / 100


def _warnings(thin: float, filtered: Volume) -> list[str]:
    if thin <= THIN_FRACTION:
        return []
    return [
        f"{thin:.0%} of the centre line is thinner than {THIN_VOXELS} voxels"
        f" ({THIN_VOXELS * filtered.spacing_mm[0]:.2g} mm): diameters and wall shear stress there are uncertain;"
        " a finer filter.spacing_mm smooths the surface but"
        " adds no detail"
    ]


def _seed_record(seed: Seed, filtered: Volume, loaded: Volume) -> dict[str, Any]:
    return {
        "setting": seed.name,
        "mm": [round(x, 3) for x in seed.point_mm],
        "loaded_voxel": np.rint(loaded.to_index(seed.point_mm)).astype(int).tolist(),
        "filtered_voxel": list(seed.index),
        "intensity": round(float(filtered.voxels[seed.index[::-1]]), 3),
    }


def place_seeds(filtered: Volume, settings: SegmentSettings, loaded: Volume) -> tuple[Seed, ...]:
    """The seeds on the grid of the filtered volume.

    Raises
    ------
    StageError
        If one lies outside the loaded volume or the region of interest.
    """
    points = [(f"segment.seeds_mm[{n}]", list(seed), seed) for n, seed in enumerate(settings.seeds_mm)]
    for n, voxel in enumerate(settings.seeds_voxel):
        point = tuple(loaded.to_mm(voxel).tolist())
        points.append((f"segment.seeds_voxel[{n}]", list(voxel), point))
    return tuple(_place(name, given, point, filtered, loaded) for name, given, point in points)


def _place(name: str, given: list[float], point_mm: Any, filtered: Volume, loaded: Volume) -> Seed:
    for volume, what, remedy in (
        (loaded, "the loaded volume", "correct the seed"),
        (filtered, "the region of interest", "move the seed, or widen filter.region_mm or filter.region_voxels"),
    ):
        last = np.array(volume.voxels.shape[::-1]) - 1
        index = np.rint(volume.to_index(point_mm)).astype(int)
        if np.any(index < 0) or np.any(index > last):
            box = volume.to_mm(np.stack(np.meshgrid(*zip([0, 0, 0], last, strict=True)), axis=-1).reshape(-1, 3))
            raise StageError(
                f"{name} = {given}: at {_mm(point_mm)} mm (LPS) it lies outside {what}, which reaches from"
                f" {_mm(box.min(axis=0))} to {_mm(box.max(axis=0))} mm"
                + (f" ({last[0] + 1} x {last[1] + 1} x {last[2] + 1} voxels)" if volume is loaded else "")
                + f": {remedy}"
            )
    x, y, z = index.tolist()
    return Seed(name, tuple(point_mm), (x, y, z))


def _mm(point: Any) -> str:
    return "(" + ", ".join(f"{x:.1f}" for x in point) + ")"


def _check_intensity(seed: Seed, filtered: Volume, settings: SegmentSettings, loaded: Volume) -> None:
    """Refuse a seed that is not between the thresholds, and say where the nearest voxel that is lies."""
    intensity = filtered.voxels[seed.index[::-1]]
    if settings.lower <= intensity <= upper_limit(settings):
        return
    nearest = _nearest_in_range(seed.index, filtered, settings)
    if nearest is None:
        remedy = f"no voxel within {NEAREST_MM:g} mm is in range: change the thresholds or move the seed"
    else:
        point = filtered.to_mm(nearest)
        remedy = (
            f"change the thresholds, or move the seed to the nearest voxel in range, at seeds_mm {_mm(point)}"
            f" (seeds_voxel {np.rint(loaded.to_index(point)).astype(int).tolist()})"
        )
    limits = f"at least segment.lower = {settings.lower:g}"
    if settings.upper is not None:
        limits += f" and at most segment.upper = {settings.upper:g}"
    raise StageError(
        f"{seed.name}: at {_mm(seed.point_mm)} mm the filtered intensity is {intensity:.1f}, it must be {limits};"
        f" {remedy}"
    )


def _check_connected(seeds: tuple[Seed, ...], grown: Mask, settings: SegmentSettings) -> None:
    for seed in seeds[1:]:
        if not grown[seed.index[::-1]]:
            raise StageError(
                f"{seed.name}: at segment.lower = {settings.lower:g} no path of voxels in range leads to it from"
                f" {seeds[0].name}, and the lumen must be one component: lower the threshold, smooth more (filter), or"
                " leave one of the seeds out"
            )


def _nearest_in_range(index: Index, volume: Volume, settings: SegmentSettings) -> Index | None:
    """Index x, y, z of the nearest voxel between the thresholds, within `NEAREST_MM`."""
    reach = np.ceil(NEAREST_MM / np.array(volume.spacing_mm)).astype(int)
    start, stop = np.maximum(np.array(index) - reach, 0), np.array(index) + reach + 1
    part = volume.voxels[start[2] : stop[2], start[1] : stop[1], start[0] : stop[0]]
    candidates = np.argwhere((part >= settings.lower) & (part <= upper_limit(settings)))[:, ::-1] + start
    distance_mm = np.linalg.norm((candidates - index) * volume.spacing_mm, axis=1)
    if not distance_mm.size or distance_mm.min() > NEAREST_MM:
        return None
    x, y, z = candidates[np.argmin(distance_mm)].tolist()
    return x, y, z


def _compute(job: Job) -> None:
    settings = parse(SegmentSettings, job.settings, "--settings")
    filtered, loaded = Volume.read(job.inputs["filtered"]), Volume.read(job.inputs["volume"])
    result = segment(filtered, settings, loaded)
    record = result.record
    job.log.info(
        "lumen: %d voxels, %.4g ml; %d cavities filled; contrast %.4g, %.1f times the noise; volume %+.2g %% for"
        " 1 %% of contrast less; a tube as wide and as blurred has its true volume at lower = %.4g",
        record["voxels"], record["volume_ml"], record["holes_filled"], record["contrast"], record["contrast_to_noise"],
        100 * record["volume_change_per_percent_of_contrast"], record["lower_without_blur_bias"],
    )  # fmt: skip
    for warning in record["warnings"]:
        job.log.warning("warning: %s", warning)
    result.lumen.write(job.outputs["lumen"])
    result.occupancy.write(job.outputs["occupancy"])
    job.outputs["segmentation"].write_text(json.dumps(record, indent=2) + "\n")
    draw(filtered, result.lumen, result.seeds[0].index, result.levels, job.outputs["picture"])


if __name__ == "__main__":
    run_stage(
        "segment",
        __doc__,
        {
            "filtered": "filtered.nrrd of the filter stage",
            "volume": "volume.nrrd of the load stage: seeds_voxel count its voxels",
        },
        {
            "lumen": "lumen.nrrd, uint8 0/1, on the grid of --filtered",
            "occupancy": "occupancy.nrrd, float32, part of each voxel that the lumen fills: a mask without steps",
            "segmentation": "segmentation.json: thresholds, seeds, volume, evidence against a leak",
            "picture": "segmentation.png",
        },
        _compute,
    )
