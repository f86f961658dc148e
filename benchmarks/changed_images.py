# SPDX-License-Identifier: Apache-2.0
"""Changed images: real images turned, resampled, cropped, noisy, in other numbers and formats, each segmented once.

    HEMO_CASES=... python benchmarks/changed_images.py --folder changed --seeds 100 110
    HEMO_CASES=... python benchmarks/changed_images.py --folder changed --seeds 100 110 --only fistula

The lumen of an image as it is, by the levels near each place, is the reference; within the box of a crop, the part of
it that is joined to the seed. Every second image has the threshold of its README given, in its numbers. Advice that
names a method or seeds is followed. Kept are the change, and for each try the volume over the reference and the checks
that fail; verdict: right, within 3 %; wrong, marked; wrong, green; refused.
"""

import argparse
import logging
import os
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import SimpleITK as sitk
from scipy import ndimage

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from bench import add_results, write_results  # noqa: E402

from hemolattice import vessel  # noqa: E402
from pipeline.files.volume import Volume  # noqa: E402
from pipeline.segmentation.chosen_method import reservations  # noqa: E402
from solver.runtime.errors import StageError  # noqa: E402
from tests.support.advice import advised  # noqa: E402

WIDE = 0.03
"""Error of the volume up to which it is right."""

TRIES = 4
"""An image and what is advised for it, at most."""

FORMATS = (".nii.gz", ".nrrd", ".mha")
TYPES = (sitk.sitkInt16, sitk.sitkUInt16, sitk.sitkFloat32)


@dataclass(frozen=True)
class Real:
    """A real image: its file, seeds (voxels x, y, z), further ones of the reference, threshold, whether it is CT, and
    how its reference is found.
    """

    file: str
    seeds: list[list[int]]
    further: list[list[int]]
    lower: float
    ct: bool = False
    by: tuple[tuple[str, Any], ...] = (("method", "local"),)


IMAGES = {
    "fistula": Real("av-fistula-mra/avf_float_32.nii.gz", [[18, 46, 11]], [[25, 13, 1]], 800),
    "aorta-iliac": Real("aorta-iliac-mra/aorta.mha", [[58, 225, 16]], [], 900),
}


def changed(image: sitk.Image, rng: np.random.Generator, seed_mm: list[float], real: Real) -> tuple[sitk.Image, float]:
    """An image after a random change, and the factor and offset of its numbers."""
    image = sitk.Flip(sitk.PermuteAxes(image, rng.permutation(3).tolist()), (rng.random(3) < 0.5).tolist(), False)
    if rng.random() < 0.6:
        spacing = np.array(image.GetSpacing()) * rng.uniform(0.75, 1.25, 3)
        size = [int(n * a / b) for n, a, b in zip(image.GetSize(), image.GetSpacing(), spacing, strict=True)]
        grid = image.GetOrigin(), spacing.tolist(), image.GetDirection()
        image = sitk.Resample(image, size, sitk.Transform(), sitk.sitkBSpline, *grid, 0.0)
    if rng.random() < 0.5:
        whole, place = np.array(image.GetSize()), np.array(image.TransformPhysicalPointToContinuousIndex(seed_mm))
        low = np.floor(rng.uniform(0, 0.5, 3) * np.maximum(place - 8, 0)).astype(int)
        high = np.ceil(whole - rng.uniform(0, 0.5, 3) * np.maximum(whole - place - 8, 0)).astype(int)
        image = sitk.RegionOfInterest(image, (high - low).tolist(), low.tolist())
    voxels = sitk.GetArrayFromImage(image)
    voxels = voxels + rng.normal(0, rng.uniform(0, 0.03) * voxels.std(), voxels.shape)
    factor = 1.0 if real.ct else float(rng.uniform(0.3, 3))
    kind = TYPES[int(rng.integers(len(TYPES)))]
    voxels = np.clip(voxels * factor, 0 if kind == sitk.sitkUInt16 else -32000, 32000)
    made = sitk.GetImageFromArray(voxels if kind == sitk.sitkFloat32 else np.rint(voxels))
    made.CopyInformation(image)
    return sitk.Cast(made, kind), factor


def reference(name: str, folder: Path) -> tuple[Volume, list[list[float]]]:
    """The lumen of an image as it is, and its seeds, mm."""
    real = IMAGES[name]
    image, facts = vessel.load(folder / real.file)
    seeds = [image.to_mm(place).tolist() for place in (*real.seeds, *real.further)]
    found = vessel.segment(vessel.filter_image(image), image, facts.modality, seeds_mm=seeds, **dict(real.by))
    return found.occupancy, seeds[: len(real.seeds)]


def volume_within(lumen: Volume, image: sitk.Image, seed_mm: list[float]) -> float:
    """Volume, mL, of what of a lumen lies in an image and is joined to a seed there."""
    index = np.moveaxis(np.indices(lumen.voxels.shape), 0, -1).reshape(-1, 3)[:, ::-1]
    turn = np.array(image.GetDirection()).reshape(3, 3)
    at = (lumen.to_mm(index) - image.GetOrigin()) @ turn / image.GetSpacing()
    inside = ((at >= -0.5) & (at <= np.array(image.GetSize()) - 0.5)).all(axis=1).reshape(lumen.voxels.shape)
    x, y, z = np.rint(lumen.to_index(seed_mm)).astype(int).tolist()
    label, _ = ndimage.label(inside & (lumen.voxels >= 0.5))
    return float((label == label[z, y, x]).sum() * np.prod(lumen.spacing_mm) / 1000)


def tried(file: Path, settings: dict[str, Any], true_ml: float, modality: str | None) -> list[dict[str, Any]]:
    """An image segmented, and again with what failed checks advise."""
    image, _ = vessel.load(file)
    filtered = vessel.filter_image(image)
    tries: list[dict[str, Any]] = []
    for _ in range(TRIES):
        try:
            record = vessel.segment(filtered, image, modality, **settings).record
        except StageError as error:
            tries.append({"verdict": "refused", "said": str(error)})
            if not (advice := advised_last(str(error))):
                break
            settings = settings | advice
            continue
        failed, off = sorted(reservations(record)), record["volume_ml"] / true_ml - 1
        outcome = "right" if abs(off) <= WIDE else "wrong, marked" if failed else "WRONG, GREEN"
        method = record.get("method_chosen", settings.get("method", "auto"))
        tries.append({"verdict": outcome, "error": round(off, 4), "failed": failed, "method": method})
        advice = advised_first(record["warnings"])
        if not advice or settings | advice == settings:
            break
        settings = settings | advice
    return tries


def ways(said: str) -> list[dict[str, Any]]:
    """Settings of the lumen that words advise."""
    case = {"input": {"volume": "image.nrrd"}, "solve": {"inlets": {"*": {"flow_ml_s": 1.0}}}}
    return [each.settings["segment"] for each in advised(said, case) if set(each.settings) == {"segment"}]


def advised_first(warnings: list[str]) -> dict[str, Any]:
    """The first method or seeds that a warning names."""
    for words in warnings:
        if "seeds_mm" in words or "set segment.method: local" in words:
            return next(iter(ways(words)), {})
    return {}


def advised_last(said: str) -> dict[str, Any]:
    """The last way out that a refusal names: a seed, where a region would end the vessel."""
    return [{}, *ways(said)][-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="for what is made")
    parser.add_argument("--seeds", type=int, nargs=2, default=(100, 102), help="from, and up to but not with")
    parser.add_argument("--only", default=".*", help="regular expression that names of images fit as a whole")
    add_results(parser)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    options.folder.mkdir(parents=True, exist_ok=True)
    real_images, records = Path(os.environ["HEMO_CASES"]), {}
    for name in (name for name in IMAGES if re.fullmatch(options.only, name)):
        real, (lumen, seeds) = IMAGES[name], reference(name, real_images)
        whole = sitk.Cast(sitk.ReadImage(str(real_images / real.file)), sitk.sitkFloat32)
        for seed in range(*options.seeds):
            rng, began = np.random.default_rng([seed, list(IMAGES).index(name)]), time.process_time()
            image, factor = changed(whole, rng, seeds[0], real)
            file = options.folder / f"{name}-{seed}{FORMATS[int(rng.integers(len(FORMATS)))]}"
            sitk.WriteImage(image, str(file))
            true_ml = volume_within(lumen, image, seeds[0])
            given = {"seeds_mm": seeds} | ({"lower": real.lower * factor} if seed % 2 else {})
            tries = tried(file, given, true_ml, "CT" if real.ct else None)
            records[f"{name}-{seed}"] = {
                "spacing_mm": [round(x, 4) for x in image.GetSpacing()],
                "size": image.GetSize(),
                "type": image.GetPixelIDTypeAsString(),
                "lower": given.get("lower"),
                "reference_ml": round(true_ml, 4),
                "tries": tries,
                "seconds": round(time.process_time() - began, 1),
            }
            print(file.name, records[f"{name}-{seed}"], flush=True)
    write_results(options, "changed-images", records)


if __name__ == "__main__":
    main()
