# SPDX-License-Identifier: Apache-2.0
"""Page to check a mask, and page to write the case file on: three orthogonal views of a volume in one HTML file.

The page carries its voxels, its style and its script, and opens without a network. What it says of a voxel is exact:
places come from the volume's own geometry, intensities are rounded to a step that the page states. A volume that is
too large for a page is cut to the surroundings of the mask, then thinned to every n-th voxel; never averaged.
Without a mask the page shows what would grow from the seeds (``page.pick.js``), by the rule of the stage
(``page.grow.js``, in a worker), and puts together a case file.
"""

import base64
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup
from numpy.typing import NDArray

from pipeline.case.settings.images import SegmentSettings
from pipeline.files.volume import Volume
from pipeline.segmentation import beyond, contrast, left_vessel, levels
from pipeline.segmentation.automatic import BONE_HU
from pipeline.segmentation.case_shown import PLACEHOLDER
from pipeline.segmentation.levels import AIR_HU, TISSUE_PART, dark_limit
from pipeline.segmentation.mask_picture import PLANES, upright
from pipeline.segmentation.record_figures import figures, threshold_curve
from pipeline.segmentation.region_growing import Box, bounding_box

FOLDER = Path(__file__).parent
"""Where the template, the style and the scripts of the page lie."""

LIMIT_BYTES = 25_000_000
"""Largest page: what a browser opens in a second or two and a mail still carries."""

TEXT_BYTES = 200_000
"""Part of it that is kept for what is not voxels."""

MOST_VOXELS = 24_000_000
"""More would not fit once compressed (measured images keep about a byte a voxel), and would strain a small computer."""

MOST_LEVELS = 5000
"""Intensities that the page tells apart: the 4096 of a CT fit, one step a unit."""

MARGIN_MM = 15.0
"""Kept around the mask where the region is too large for a page."""

PRESETS_HU = (
    ("CT angiography", -100.0, 600.0),
    ("soft tissue", -160.0, 240.0),
    ("bone", -500.0, 1500.0),
    ("lung", -1350.0, 150.0),
)
"""Grey windows for CT: name, black, white."""

LEAST_WHITE_HU = 300.0
"""White of the opening window in CT lies at least so high: in a darker image blood has no contrast agent."""


@dataclass(frozen=True)
class Shown:
    """What of a volume a page holds.

    Attributes
    ----------
    volume : voxels (Z, Y, X) float, upright: x towards the patient's left, y to the back, z to the head, or along the
        nearest axes where the image is oblique.
    mask : voxels (Z, Y, X) bool on the same grid, or none.
    lowest, step : a voxel's level n stands for the intensity ``lowest + n step``.
    packed : levels of all voxels, see :func:`pack`.
    notes : what was left out, in words.
    """

    volume: Volume
    mask: NDArray[np.bool_] | None
    lowest: float
    step: float
    packed: bytes
    notes: tuple[str, ...]


def render(
    volume: Volume,
    grids: Mapping[str, Volume],
    lumen: Volume | None = None,
    record: Mapping[str, Any] | None = None,
    modality: str | None = None,
    case: Mapping[str, Any] | None = None,
    segment: SegmentSettings | None = None,
) -> str:
    """The page.

    Parameters
    ----------
    volume : the image to show.
    grids : images by name whose voxel indices are shown for every place (only their geometry is used); the first is
        the image as loaded, whose voxels the region of interest counts.
    lumen : mask 0/1 on the grid of `volume`; none for a page to write the case file on.
    record : what ``segmentation.json`` holds.
    modality : ``CT``: intensities are HU; None: unknown.
    case : without a mask: the sections of the case file so far; nothing that may lead to a patient.
    segment : without a mask: thresholds and guards of the stage.

    Returns
    -------
    str
        HTML of at most `LIMIT_BYTES`; the same for the same input.
    """
    shown, record = choose(volume, lumen), record or {}
    dark = dark_limit(shown.volume.voxels, modality)
    facts: dict[str, Any] = {
        "size": shown.volume.voxels.shape[::-1],
        "spacing_mm": shown.volume.spacing_mm,
        "origin_mm": shown.volume.origin_mm,
        "direction": shown.volume.direction.tolist(),
        "grids": [_inverse(name, grid) for name, grid in grids.items()],
        "lowest": shown.lowest,
        "step": shown.step,
        "windows": windows(shown.volume.voxels, record, ct=bool(np.isfinite(dark))),
        "lower": record.get("lower"),
        "points": _points(record),
        "planes": PLANES,
    }
    if lumen is None:
        facts |= {"case": case or {}, "path": PLACEHOLDER, "grow": _rules(segment or SegmentSettings(), modality, dark)}
    return _template().render(
        files={file.name: Markup(file.read_text(encoding="utf-8")) for file in sorted(FOLDER.glob("page.*s"))},
        facts=Markup(json.dumps(facts).replace("<", r"\u003c")),
        voxels=base64.b64encode(shown.packed).decode(),
        mask=None if shown.mask is None else _packed_mask(shown.mask),
        planes=[name for name, *_ in PLANES],
        step=f"{shown.step:g}",
        grids=list(grids),
        notes=[*shown.notes, *_obliqueness(volume)],
        windows=facts["windows"],
        warnings=record.get("warnings", []),
        points=facts["points"],
        origins=_origins(record),
        figures=figures({key: value for key, value in record.items() if key != "method"}),
        curve=threshold_curve(record),
    )


def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2")


def _packed_mask(mask: NDArray[np.bool_]) -> str:
    """A mask (Z, Y, X), eight voxels a byte, in zlib's stream, as text."""
    return base64.b64encode(zlib.compress(np.packbits(mask).tobytes())).decode()


def choose(volume: Volume, lumen: Volume | None, limit_bytes: int = LIMIT_BYTES) -> Shown:
    """What of a volume fits on a page: all of it, or the surroundings of the mask, or every n-th voxel.

    Parameters
    ----------
    volume : voxels (Z, Y, X).
    lumen : mask 0/1 on the same grid, or none.
    limit_bytes : largest page.
    """
    room = (limit_bytes - TEXT_BYTES) * 3 // 4  # base64 writes three bytes as four
    lowest, step = scale(volume.voxels)
    for box, stride in _cuts(volume, lumen):
        part = _part(volume, box, stride)
        if part.voxels.size <= MOST_VOXELS:
            part = upright(part)
            packed = pack(np.rint((part.voxels - lowest) / step).astype(np.uint16))
            if len(packed) + (0 if lumen is None else part.voxels.size // 8) <= room:
                break
    mask = None if lumen is None else upright(_part(lumen, box, stride)).voxels > 0
    notes = []
    if volume.voxels[box].size < volume.voxels.size:
        notes.append(f"The region is too large for a page: what lies within {MARGIN_MM:g} mm of the mask is shown.")
    if stride.max() > 1:
        size = " x ".join(f"{length:.3g}" for length in part.spacing_mm)
        notes.append(
            f"Too large for a page: one voxel in {np.prod(stride)} is shown ({size} mm), each with its own place and"
            " intensity."
        )
        if lumen is None:
            notes.append(
                "Draw the box, put the case file in place and make this page again: a small region is shown in full,"
                " and what grows is then as fine as the image."
            )
    return Shown(part, mask, lowest, step, packed, tuple(notes))


def _cuts(volume: Volume, lumen: Volume | None) -> Iterator[tuple[Box, NDArray[np.int64]]]:
    """Boxes (slices z, y, x) and strides (x, y, z), smaller and smaller: finer axes are thinned first."""
    stride = np.ones(3, int)
    box: Box = (slice(None), slice(None), slice(None))
    yield box, stride
    if lumen is not None and lumen.voxels.any():
        box = bounding_box(lumen.voxels > 0, margin=int(np.ceil(MARGIN_MM / min(volume.spacing_mm))))
        yield box, stride
    while True:
        stride[np.argmin(stride * volume.spacing_mm)] += 1
        yield box, stride


def _part(volume: Volume, box: Box, stride: NDArray[np.int64]) -> Volume:
    """Every n-th voxel (n along x, y, z) of a box of slices z, y, x."""
    start = [axis.start or 0 for axis in box[::-1]]
    x, y, z = (int(n) for n in stride)
    return Volume(
        volume.voxels[box][::z, ::y, ::x],
        tuple((stride * volume.spacing_mm).tolist()),
        tuple(volume.to_mm(start).tolist()),
        volume.direction,
    )


def scale(voxels: NDArray[Any]) -> tuple[float, float]:
    """The intensity of level 0 and the step between levels: the finest of 1, 2, 5 x 10^n with `MOST_LEVELS` at most."""
    low, high = float(voxels.min()), float(voxels.max())
    if low == high:
        return low, 1.0
    finest = (high - low) / MOST_LEVELS
    power = 10.0 ** np.floor(np.log10(finest))
    step = next(float(n * power) for n in (1, 2, 5, 10) if n * power >= finest * (1 - 1e-9))
    return float(np.floor(low / step) * step), step


def pack(levels: NDArray[np.uint16]) -> bytes:
    """Levels (Z, Y, X) as zlib's stream of all low bytes, then all high bytes, which repeat and so cost little."""
    low, high = (levels & 255).astype(np.uint8), (levels >> 8).astype(np.uint8)
    return zlib.compress(low.tobytes() + high.tobytes())


def _rules(settings: SegmentSettings, modality: str | None, dark: float) -> dict[str, Any]:
    """What the stage grows by, for the worker of the page."""
    kept = {"upper", "fill_holes", "leak_step", "leak_growth", "border_fraction", "beyond", "least_radius_mm"}
    limits = {
        "ct": modality == "CT",
        "dark": dark if np.isfinite(dark) else None,
        "least_ct": contrast.CONTRAST_HU,
        "contrast_to_noise": contrast.CONTRAST_TO_NOISE,
        "lumen_to_spread": contrast.LUMEN_TO_SPREAD,
        "clear_contrast": contrast.CLEAR_CONTRAST,
        "texture_to_spread": contrast.TEXTURE_TO_SPREAD,
        "tissue_part": TISSUE_PART,
        "no_signal": levels.NO_SIGNAL,
        "signal_part": levels.SIGNAL_PART,
        "floor": levels.FLOOR_PERCENTILE / 100,
        "shell": levels.SHELL_VOXELS,
        "noise_lag": levels.NOISE_LAG,
        "mad_to_sigma": levels.MAD_TO_SIGMA,
        "above_throat": left_vessel.ABOVE_THROAT,
        "chambers": beyond.CHAMBERS,
    }
    return settings.model_dump(mode="json", include=kept) | limits


def windows(voxels: NDArray[Any], record: Mapping[str, Any], ct: bool = False) -> list[tuple[str, float, float]]:
    """Grey windows to choose from: name, intensity of black, intensity of white; the first is shown at the start.

    In CT most voxels are air, so that percentiles of all show no vessel: the window of the image is that of what lies
    between air and bone, and windows of radiology follow it.

    Parameters
    ----------
    voxels : (Z, Y, X) of the image.
    record : what ``segmentation.json`` holds, of which contrast and level of the surroundings count; may be empty.
    ct : whether intensities are HU.
    """
    found = []
    if "contrast" in record:
        around, contrast = record["surroundings_level"], record["contrast"]
        found.append(("vessel", around - 0.5 * contrast, around + 1.3 * contrast))
    tissue = voxels[(voxels >= AIR_HU) & (voxels <= BONE_HU)] if ct else voxels
    if tissue.size < TISSUE_PART * voxels.size:
        tissue = voxels
    low, high = np.percentile(tissue, [2, 99.5] if ct else [1, 99.8])
    found.append(("image", float(low), float(max(high, LEAST_WHITE_HU) if ct else high)))
    found += [*(PRESETS_HU if ct else ()), ("full range", float(voxels.min()), float(voxels.max()))]
    return [(name, black, white if white > black else black + 1) for name, black, white in found]


def _inverse(name: str, grid: Volume) -> dict[str, Any]:
    """What takes a place in mm to a voxel index of a grid: index = matrix (place - origin); and its size."""
    matrix = grid.direction.T / np.array(grid.spacing_mm)[:, None]
    size = grid.voxels.shape[::-1]
    return {"name": name, "matrix": matrix.tolist(), "origin_mm": list(grid.origin_mm), "size": size}


def _points(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"name": point["setting"].removeprefix("segment."), "mm": point["mm"], "kind": kind}
        for kind, key in (("seed", "seeds"), ("background", "background"))
        for point in record.get(key, [])
    ]


def _obliqueness(volume: Volume) -> list[str]:
    """The angle between the image's axes and the patient's, where there is one."""
    nearest = np.abs(volume.direction).max(axis=0).clip(max=1)
    degrees = float(np.degrees(np.arccos(nearest)).max())
    if degrees < 0.1:
        return []
    return [
        f"The image is oblique: the views follow its own axes, up to {degrees:.1f}° from the patient's, and the letters"
        " name the nearest side."
    ]


def _origins(record: Mapping[str, Any]) -> list[str]:
    """Sentences: by which method, and how what was not given was found."""
    parts = (
        ("Method", "method"),
        ("Left out", "upper_chosen"),
        ("Taken", "method_chosen"),
        ("Seeds, automatic", "seeds_found_as"),
        ("Threshold, automatic", "lower_found_as"),
    )
    return [f"{name}: {record[key]}." for name, key in parts if key in record]
