# SPDX-License-Identifier: Apache-2.0
"""Entry with a mask: a given mask of the lumen, checked with the care that a segmentation gets.

It takes the place of load, filter and segment. The chosen segment must be one vessel: six-connected but for specks,
neither empty nor the background, on a grid with a certain place in the patient. Voxels that are no cubes are made so
by shape-based interpolation, which keeps the volume.
"""

import json
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import ndimage

from pipeline.case.settings.base import Section, parse
from pipeline.dicom.mask_series import read_mask_series
from pipeline.dicom.segmentation_object import find_segmentation, is_dicom, read_segmentation
from pipeline.files.cubes import CUBIC
from pipeline.files.mask_file import GivenMask, Wanted, read_mask_file
from pipeline.files.volume import Volume
from pipeline.segmentation.leak import border_contact
from pipeline.segmentation.levels import Levels
from pipeline.segmentation.lumen_advice import GIVEN_MASK
from pipeline.segmentation.mask_fill import between_slices, hollow
from pipeline.segmentation.mask_picture import draw
from pipeline.segmentation.page import render
from pipeline.segmentation.region_growing import Mask, bounding_box, centre_line, fill_holes
from pipeline.segmentation.shape_interpolation import interpolate, interpolate_parts
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job

MINIMUM_VOXELS = 100
"""A smaller mask resolves no vessel: one 4 voxels across and twice as long has as many."""

MAX_SPECKS = 0.01
"""Part of the mask that may lie apart from its largest component; the surface may lose as much to smoothing."""

MOST_APART = 0.1
"""So much may lie apart where the user asks for the largest component alone: more is hardly islands beside a vessel."""

THIN_VOXELS, THIN_FRACTION = 4, 0.1
"""A warning where more than this part of the centre line is less than so many voxels across: ends always look thin."""

MAX_UNDONE, NOTED_UNDONE = 0.25, 0.05
"""Refused, and noted: relative change of the volume that interpolation between slices had to undo. The slices are then
as thick as the vessel, and its shape between them is a guess."""

CONTRAST = Levels(lumen=1.0, mask=1.0, surroundings=0.0, bright_surroundings=0.0, noise=1.0, spread=1.0)
"""Grey values of the picture, which shows how much of each voxel the lumen fills."""


class MaskSettings(Section):
    """What the command line takes: how to read the mask."""

    segment: Wanted = Field(
        None, description="number or label of the segment, or several that are taken together; none: the only one"
    )
    fill_holes: bool = Field(True, description="fill cavities that the lumen encloses")
    fill: Literal["slices", "hollow", "outside", "largest"] | None = Field(
        None,
        description="slices: empty slices between drawn ones; hollow: what a wall encloses, in place of the wall;"
        " outside: what is not marked; largest: the largest part alone",
    )


@dataclass(frozen=True)
class ImportedMask:
    """The lumen as the surface stage takes it.

    Attributes
    ----------
    lumen : (Z, Y, X) uint8, 0 or 1, one six-connected component, cubes.
    occupancy : (Z, Y, X) float32, part of each voxel that the lumen fills; at least 1/2 where `lumen` is 1.
    record : what ``segmentation.json`` holds.
    """

    lumen: Volume
    occupancy: Volume
    record: dict[str, Any]


def read_mask(path: Path, wanted: Wanted) -> GivenMask:
    """Read a mask from a label map, a DICOM segmentation, a folder with one, or the folder of a mask as images.

    Parameters
    ----------
    path : of it.
    wanted : number or label of the segment, or of several that are taken together; None: the only one.
    """
    if path.is_dir():
        found = find_segmentation(path)
        if found is None:
            return read_mask_series(path, wanted)
        path = found
    return read_segmentation(path, wanted) if is_dicom(path) else read_mask_file(path, wanted)


def import_mask(given: GivenMask, settings: MaskSettings, log: logging.Logger) -> ImportedMask:
    """Check a mask, repair what can be repaired without doubt, and make its voxels cubes.

    Parameters
    ----------
    given : the chosen segment.
    settings : whether cavities are filled.
    log : for what was done.

    Raises
    ------
    StageError
        If it is empty or the background, in several parts, or its slices are too thick for the vessel.
    """
    volume_ml = float(np.prod(given.lumen.spacing_mm)) / 1000
    given, between = _filled(given, settings)
    vessel, sizes = _largest_component(given.lumen.voxels)
    _require_one(sizes, volume_ml, given, settings)
    vessel, part = _lumen(vessel, given, settings, volume_ml)
    given_count, parts, specks = int(sizes[0]), len(sizes), int(sizes[1:].sum())
    _require_enough(given_count)
    solid, holes = fill_holes(vessel) if settings.fill_holes else (vessel, 0)
    volume, part, cropped = _with_room(given, solid, part)
    contact = {} if cropped == "all sides" else border_contact(volume.voxels, volume.direction)
    coarse_mm = float(np.prod(volume.spacing_mm)) ** (1 / 3)
    lumen, occupancy, undone = _cubes(volume, part)
    thin = float(np.mean(2 * centre_line(lumen.voxels)[1] * lumen.spacing_mm[0] < THIN_VOXELS * coarse_mm))
    count = int(lumen.voxels.sum())
    record = {
        "method": GIVEN_MASK,
        **given.record,
        "voxels": count,
        "volume_ml": round(count * float(np.prod(lumen.spacing_mm)) / 1000, 5),
        "spacing_mm": lumen.spacing_mm[0],
        "given_voxels": given_count,
        "given_volume_ml": round(given_count * volume_ml, 5),
        "given_spacing_mm": [round(spacing, 6) for spacing in volume.spacing_mm],
        "parts": parts,
        "specks_removed_voxels": specks,
        "slices_filled": between,
        "filled_by": settings.fill,
        "holes_filled": holes,
        "voxels_filled": int(solid.sum() - vessel.sum()),
        "cropped_to_the_mask": cropped,
        "border_contact": {face: round(fraction, 5) for face, fraction in contact.items()},
        "volume_change_undone": round(undone, 5),
        "thin_fraction_of_centre_line": round(thin, 4),
        "warnings": _warnings(parts, specks, thin, coarse_mm, undone),
    }
    said = (count, record["volume_ml"], parts - 1, holes, lumen.spacing_mm[0])
    log.info("lumen: %d voxels, %.4g ml; %d specks left out, %d cavities filled; voxels of %.4g mm", *said)
    return ImportedMask(
        lumen.with_voxels(lumen.voxels.astype(np.uint8)),
        lumen.with_voxels(_consistent(occupancy, lumen.voxels)),
        record,
    )


def _require_foreground(voxels: Mask, turned: bool) -> None:
    """Refuse a mask of nothing, and one of all that is not the vessel."""
    if not voxels.any():
        raise StageError("input.mask: the chosen segment is empty; choose another with input.mask_segment")
    corners = voxels[np.ix_(*([0, -1] for _ in range(3)))]
    share = float(voxels.mean())
    if corners.all() and share > 0.5:
        raise StageError(
            f"input.mask: the chosen segment fills {share:.0%} of the volume and all its corners: it is the background"
            " or the whole field of view; choose the lumen with input.mask_segment, or, where the lumen is what is not"
            f" marked, set input.mask_fill: {'null' if turned else 'outside'}"
        )


def _require_enough(count: int) -> None:
    if count < MINIMUM_VOXELS:
        raise StageError(
            f"input.mask: the chosen segment has {count} voxels, a vessel has at least {MINIMUM_VOXELS}; choose another"
            " with input.mask_segment, or segment on finer voxels"
        )


def _largest_component(voxels: Mask) -> tuple[Mask, NDArray[np.int64]]:
    """The largest six-connected component, and the sizes of all in voxels, the largest first."""
    box = bounding_box(voxels)
    label, _ = ndimage.label(voxels[box])
    sizes = np.bincount(label.ravel())[1:]
    vessel = np.zeros_like(voxels)
    vessel[box] = label == 1 + int(np.argmax(sizes))
    return vessel, np.sort(sizes)[::-1]


def _filled(given: GivenMask, settings: MaskSettings) -> tuple[GivenMask, int]:
    """The mask, or what is not marked, or with empty slices between drawn ones filled, as asked for; their number."""
    if settings.fill == "outside":
        given = replace(given, lumen=given.lumen.with_voxels(~given.lumen.voxels), part=None)
    _require_foreground(given.lumen.voxels, settings.fill == "outside")
    if settings.fill != "slices":
        return given, 0
    filled, count = between_slices(given.lumen.voxels, given.lumen.spacing_mm)
    if not count:
        raise StageError(
            "input.mask_fill = slices: no slice between others is empty; leave it out, input.mask_fill: null"
        )
    return replace(given, lumen=given.lumen.with_voxels(filled), part=None), count


def _lumen(
    vessel: Mask, given: GivenMask, settings: MaskSettings, voxel_ml: float
) -> tuple[Mask, NDArray[np.float32] | None]:
    """The vessel with its parts; what it encloses in place of a wall where that is asked for, which a wall needs."""
    within = hollow(vessel)
    if within is None and settings.fill != "hollow":
        return vessel, given.part
    if within is None:
        raise StageError(
            "input.mask_fill = hollow: the mask is no wall around a hollow that is open at its ends alone; leave it"
            " out, input.mask_fill: null"
        )
    if settings.fill == "hollow":
        return within, None
    raise StageError(
        f"input.mask: the chosen segment, {np.count_nonzero(vessel) * voxel_ml:.3g} mL, is a wall around a hollow of"
        f" {np.count_nonzero(within) * voxel_ml:.3g} mL: where that is the lumen, set input.mask_fill: hollow; else"
        " choose the lumen with input.mask_segment, or fill the hollow in the program that made the mask"
    )


def _require_one(sizes: NDArray[np.int64], voxel_ml: float, given: GivenMask, settings: MaskSettings) -> None:
    """Specks are left out; a part that is larger may be a vessel that has come off, which only the user can tell.

    Parts with empty slices between are one where these are filled; then the setting is named.
    """
    apart = float(sizes[1:].sum() / sizes.sum())
    if apart > (MOST_APART if settings.fill == "largest" else MAX_SPECKS):
        if settings.fill is None:
            filled, count = between_slices(given.lumen.voxels, given.lumen.spacing_mm)
            _, sizes_then = _largest_component(filled)
            if count and sizes_then[1:].sum() <= MAX_SPECKS * sizes_then.sum():
                raise StageError(
                    f"input.mask: {count} slices between drawn ones are empty, so that the chosen segment has"
                    f" {len(sizes)} parts. Tried, makes them one: to fill these slices by the shape of those beside,"
                    " set input.mask_fill: slices; else draw them in the program that made the mask"
                )
        alone = f"To leave out the others, {apart:.1%} of all, set input.mask_fill: largest. "
        largest = alone if apart <= MOST_APART and settings.fill is None else ""
        shown = ", ".join(f"{size * voxel_ml:.3g}" for size in sizes[:5]) + (", ..." if len(sizes) > 5 else "")
        raise StageError(
            f"input.mask: the chosen segment has {len(sizes)} parts that share no face of a voxel, of {shown} ml; at"
            f" most {MAX_SPECKS:.0%} may lie apart from the largest. {largest}Join them where the vessel is"
            " interrupted, or delete what does not belong to it, in the program that made the mask"
        )


def _with_room(given: GivenMask, vessel: Mask, part: NDArray[np.float32] | None) -> tuple[Volume, Any, str]:
    """The vessel with an empty voxel around it where the file's border need not be the image's border.

    An end of the vessel at the image's border is open; so a file that was cropped to the mask, or that leaves out empty
    slices, would open whatever lies farthest out, for instance the sac of an aneurysm.
    """
    box = bounding_box(vessel)
    touches = [(side.start == 0, side.stop == size) for side, size in zip(box, vessel.shape, strict=True)]  # of z, y, x
    if all(low and high for low, high in touches):
        sides, room = "all sides", ((1, 1),) * 3
    elif not given.ends_known and any(touches[0]):
        sides, room = "first and last slice", ((1, 1), (0, 0), (0, 0))
    else:
        return given.lumen.with_voxels(vessel), part, "no"
    x, y, z = given.lumen.to_mm([-before for before, _ in room[::-1]]).tolist()
    volume = Volume(np.pad(vessel, room), given.lumen.spacing_mm, (x, y, z), given.lumen.direction)
    return volume, None if part is None else np.pad(part, room), sides


def _cubes(volume: Volume, part: NDArray[np.float32] | None) -> tuple[Volume, NDArray[np.float32], float]:
    """The mask on cubes, the part of each that it fills, and the change of volume that interpolation has undone."""
    if max(volume.spacing_mm) <= CUBIC * min(volume.spacing_mm):
        return volume, volume.voxels.astype(np.float32) if part is None else part, 0.0
    if part is not None:
        cubes, parts = interpolate_parts(volume.with_voxels(_consistent(part, volume.voxels)))
        return cubes.with_voxels(_largest_component(cubes.voxels)[0]), parts, 0.0
    found = interpolate(volume)
    lumen, sizes = _largest_component(found.lumen.voxels)
    if abs(found.volume_change) > MAX_UNDONE or sizes[1:].sum() > MAX_SPECKS * sizes.sum():
        shown = " x ".join(f"{spacing:.3g}" for spacing in volume.spacing_mm)
        raise StageError(
            f"input.mask: with voxels of {shown} mm the shape between the slices is a guess: interpolated, the volume"
            f" is {100 * found.volume_change:+.0f} % off (limit {100 * MAX_UNDONE:.0f} %) and in {len(sizes)} parts;"
            " segment on an image with thinner slices"
        )
    return found.lumen.with_voxels(lumen), found.part, found.volume_change


def _consistent(part: NDArray[np.float32], lumen: Mask) -> NDArray[np.float32]:
    """Parts that round to the mask: specks and cavities that were repaired are so here too."""
    half = np.float32(0.5)
    near = ndimage.binary_dilation(lumen, np.ones((3, 3, 3), bool))
    outside = np.where(near, np.minimum(part, np.nextafter(half, np.float32(0))), np.float32(0))
    filled = np.where(part < half, np.float32(1), part)
    return np.where(lumen, filled, outside).astype(np.float32)


def _warnings(parts: int, specks: int, thin: float, coarse_mm: float, undone: float) -> list[str]:
    warnings = []
    if specks:
        warnings.append(f"{specks} voxels in {parts - 1} specks apart from the vessel were left out")
    if thin > THIN_FRACTION:
        warnings.append(
            f"{thin:.0%} of the centre line is thinner than {THIN_VOXELS} voxels of the given mask"
            f" ({THIN_VOXELS * coarse_mm:.2g} mm): diameters and wall shear stress there are uncertain"
        )
    if abs(undone) > NOTED_UNDONE:
        warnings.append(
            f"the slices are thick for this vessel: its shape between them was interpolated, and a change of the volume"
            f" by {100 * undone:+.1f} % undone"
        )
    return warnings


def _deepest(lumen: Mask) -> tuple[int, int, int]:
    """Index x, y, z of the voxel farthest from the wall."""
    box = bounding_box(lumen)
    depth = ndimage.distance_transform_edt(np.pad(lumen[box], 1))
    z, y, x = np.array(np.unravel_index(int(np.argmax(depth)), depth.shape)) - 1 + [side.start for side in box]
    return int(x), int(y), int(z)


def _compute(job: Job) -> None:
    settings = parse(MaskSettings, job.settings, "--settings")
    given = read_mask(job.inputs["mask"], settings.segment)
    result = import_mask(given, settings, job.log)
    if settings.segment is not None:  # a label may hold a name
        job.settings |= {"segment": given.record["segment"]}
    for warning in result.record["warnings"]:
        job.log.warning("warning: %s", warning)
    result.lumen.write(job.outputs["lumen"])
    result.occupancy.write(job.outputs["occupancy"])
    job.outputs["segmentation"].write_text(json.dumps(result.record, indent=2) + "\n")
    picture, volume_ml = job.outputs["picture"], result.record["volume_ml"]
    draw(result.occupancy, result.lumen, volume_ml, _deepest(result.lumen.voxels > 0), CONTRAST, picture)
    page = render(result.occupancy, {"lumen.nrrd": result.lumen}, result.lumen, result.record)
    job.outputs["page"].write_text(page, encoding="utf-8")


if __name__ == "__main__":
    run_stage(
        "import_mask",
        __doc__,
        {"mask": "label map (NRRD, NIfTI, MHA, .seg.nrrd), DICOM segmentation, or a folder with one or a DICOM series"},
        {
            "lumen": "lumen.nrrd, uint8 0/1, cubes",
            "occupancy": "occupancy.nrrd, float32, part of each voxel that the lumen fills",
            "segmentation": "segmentation.json: what was given, checked and repaired",
            "picture": "segmentation.png",
            "page": "segmentation.html, to check the mask slice by slice",
        },
        _compute,
    )
