# SPDX-License-Identifier: Apache-2.0
"""Mask file: one segment of a label map (NRRD, NIfTI, MHA), or of a 3D Slicer segmentation (.seg.nrrd).

Labels of segments are free text, in which a name may stand: they are compared with the label that the user gives and
never written. Messages list segments by number and size.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import SimpleITK as sitk
from numpy.typing import NDArray

from pipeline.files.graded_mask import LEAST_PART, Graded, graded
from pipeline.files.label_parts import chain, continuations
from pipeline.files.regular_grid import ORTHONORMAL_TOLERANCE, SPACING_RANGE_MM, orthonormal_error
from pipeline.files.volume import Volume
from pipeline.files.volume_bytes import require_as_stored
from pipeline.files.volume_file import SUFFIXES, as_refusal, require_sound, silent
from solver.runtime.errors import StageError

Wanted = int | str | tuple[int | str, ...] | None
"""Number or label of a segment, or of several that are taken together; None: the only one."""

MAX_LABELS = 1000
"""A label map has fewer; an image has more different values."""

LISTED = 12
"""Segments that a message lists."""


@dataclass(frozen=True)
class Segment:
    """One of the regions that a file marks.

    Attributes
    ----------
    number : value of its voxels, or its number in a DICOM segmentation.
    label : the file's name for it, free text; only compared, never written.
    layer : which of overlapping label maps holds it.
    facts : what may be shown of it: its size or its coded kind.
    """

    number: int
    label: str | None = None
    layer: int = 0
    facts: str = ""


@dataclass(frozen=True)
class GivenMask:
    """What a file says of the lumen.

    Attributes
    ----------
    lumen : voxels (Z, Y, X) bool.
    part : (Z, Y, X) float32, the part of each voxel that the lumen fills, where the file gives it.
    ends_known : whether the first and last slice are those of the image; a DICOM segmentation may leave out slices
        in which nothing is marked.
    record : kind of file, segment, threshold, for ``segmentation.json``.
    """

    lumen: Volume
    part: NDArray[np.float32] | None = None
    ends_known: bool = True
    record: dict[str, Any] = field(default_factory=dict)


def choose(segments: Sequence[Segment], wanted: int | str | None, together: Sequence[int] = ()) -> Segment:
    """The segment with a number or a label; without either, the only one.

    Parameters
    ----------
    segments : of the file.
    wanted : number or label.
    together : numbers of segments that are parts of one vessel, for the message.

    Raises
    ------
    StageError
        If there is none such, or more than one.
    """
    if not segments:
        raise StageError("input.mask: it marks nothing, the mask is empty; choose another file")
    if wanted is None:
        if len(segments) > 1:
            raise StageError(
                f"input.mask: {len(segments)} segments and none chosen; {_as_one(together)}set input.mask_segment to"
                f" the number or the label of the lumen: {listed(segments)}; for instance input.mask_segment:"
                f" {segments[0].number}"
            )
        return segments[0]
    text = str(wanted).strip().casefold()
    found = [each for each in segments if not isinstance(wanted, int) and (each.label or "").strip().casefold() == text]
    found = found or [each for each in segments if str(each.number) == text]
    if len(found) == 1:
        return found[0]
    what = f"{len(found)} segments have" if found else "no segment has"
    raise StageError(
        f"input.mask_segment = {wanted!r}: {what} this number or label; segments, without their labels, which may name"
        f" a patient: {listed(segments)}; for instance input.mask_segment: {segments[0].number}"
    )


def _as_one(together: Sequence[int]) -> str:
    """What several segments are set by that go on one in another."""
    if len(together) < 2:
        return ""
    shown = ", ".join(map(str, together))
    return (
        f"{shown} go on one in another across their sections, as parts of one vessel: to take them together"
        f" input.mask_segment: [{shown}]; to take one alone "
    )


def listed(segments: Sequence[Segment]) -> str:
    """Segments by number, for a message."""
    shown = "; ".join(f"{each.number}{each.facts and f' ({each.facts})'}" for each in segments[:LISTED])
    return shown + (f"; and {len(segments) - LISTED} more" if len(segments) > LISTED else "")


def read_mask_file(path: Path, wanted: Wanted) -> GivenMask:
    """Read the wanted segment of a label map.

    Parameters
    ----------
    path : NRRD, NIfTI or MHA; a fourth axis holds the layers of overlapping segments.
    wanted : number (value of the voxels) or label, or several that are taken together; None: the only one.

    Raises
    ------
    StageError
        If it cannot be read, its geometry is doubtful, it holds no labels, or not the wanted one.
    """
    image, names = _read(path)
    layers = sitk.GetArrayFromImage(image)
    check_geometry(image.GetSpacing(), np.array(image.GetDirection()).reshape(3, 3))
    if image.GetNumberOfComponentsPerPixel() == 1 and (found := graded(layers, image.GetSpacing())):
        return _of_parts(image, found, wanted)
    layers = layers[None] if image.GetNumberOfComponentsPerPixel() == 1 else np.moveaxis(layers, -1, 0)
    voxel_ml = float(np.prod(image.GetSpacing())) / 1000
    segments = [
        Segment(value, names.get((layer, value)), layer, size(count, voxel_ml))
        for layer, voxels in enumerate(layers)
        for value, count in labels(voxels, "input.volume")
    ]
    chosen, further = choose_in(layers, segments, wanted, image.GetSpacing())
    lumen = Volume(
        marked(layers, chosen), image.GetSpacing(), image.GetOrigin(), np.array(image.GetDirection()).reshape(3, 3)
    )
    record = {"file": "label map", "segment": numbers_of(chosen, wanted), "segments": len(segments)}
    return GivenMask(lumen, record=record | {"goes_on_in": further})


def numbers_of(chosen: Sequence[Segment], wanted: Wanted) -> int | list[int]:
    """Numbers of chosen segments, as they were asked for: one, or several together."""
    return [each.number for each in chosen] if isinstance(wanted, tuple) else chosen[0].number


def marked(layers: Sequence[NDArray[Any]], chosen: Sequence[Segment]) -> NDArray[np.bool_]:
    """The voxels of some segments, (Z, Y, X)."""
    voxels = np.zeros(layers[0].shape, bool)
    for each in chosen:
        voxels |= layers[each.layer] == each.number
    return voxels


def choose_in(
    layers: Sequence[NDArray[Any]], segments: Sequence[Segment], wanted: Wanted, spacing_mm: Sequence[float]
) -> tuple[list[Segment], list[int]]:
    """The segments of a label map that :func:`choose` gives, and the numbers of those in which their vessel goes on.

    Parameters
    ----------
    layers : (Z, Y, X) each, 0 outside.
    segments : that they hold.
    wanted : number or label, or several; None: the only one.
    spacing_mm : of the voxels, x, y, z.

    Raises
    ------
    StageError
        If there is no such segment; if none is asked for and there are several, with those that are one vessel.
    """
    several = len(segments) > 1
    together = (
        _of_one_vessel(layers[0], segments, spacing_mm) if several and wanted is None and len(layers) == 1 else []
    )
    chosen = [choose(segments, each, together) for each in (wanted if isinstance(wanted, tuple) else (wanted,))]
    further: set[int] = set()
    for layer in sorted({each.layer for each in chosen}) if several else []:
        numbers = [each.number for each in chosen if each.layer == layer]
        further |= set(continuations(layers[layer], numbers, spacing_mm))
    return chosen, sorted(further)


def _of_one_vessel(labels: NDArray[Any], segments: Sequence[Segment], spacing_mm: Sequence[float]) -> list[int]:
    """Numbers of the segments that are parts of one vessel with the largest."""
    numbers = [each.number for each in segments]
    counts = [int(np.count_nonzero(labels == number)) for number in numbers]
    return chain(labels, [numbers[k] for k in np.argsort(counts)[::-1]], spacing_mm)


def _of_parts(image: sitk.Image, found: Graded, wanted: Wanted) -> GivenMask:
    """What is at least half full, with its parts, so that the surface lies where the parts pass one half."""
    lumen = Volume(
        found.part >= LEAST_PART, image.GetSpacing(), image.GetOrigin(), np.array(image.GetDirection()).reshape(3, 3)
    )
    facts = size(int(lumen.voxels.sum()), float(np.prod(image.GetSpacing())) / 1000)
    chosen, _ = choose_in([lumen.voxels], [Segment(1, facts=facts)], wanted, image.GetSpacing())
    record = {"file": found.kind, "segment": numbers_of(chosen, wanted), "least_fraction": LEAST_PART}
    return GivenMask(lumen, found.part, record=record)


def _read(path: Path) -> tuple[sitk.Image, dict[tuple[int, int], str]]:
    """The image, and the labels of its segments by layer and value; refusals do not name the file."""
    if not path.name.lower().endswith(SUFFIXES):
        raise StageError(
            f"input.mask: no file of the kinds {', '.join(SUFFIXES)} and no DICOM segmentation; pictures such as PNG"
            " have no place in the patient, so export the mask as one of these kinds"
        )
    try:
        with silent(), as_refusal(path, "input.mask"):
            stored, checksum = require_sound(path)
            image = sitk.ReadImage(str(path))
            require_as_stored(stored, checksum, sitk.GetArrayViewFromImage(image))
    except RuntimeError:
        raise StageError(
            "input.mask: the file cannot be read, it is damaged or of another kind; export it again"
        ) from None
    names = _names({key: image.GetMetaData(key) for key in image.GetMetaDataKeys() if key.startswith("Segment")})
    components = image.GetNumberOfComponentsPerPixel()
    if image.GetDimension() != 3 or (components > 1 and not names):
        raise StageError(
            f"input.mask: {image.GetDimension()} dimensions with {components} values a voxel; a three-dimensional mask"
            " with one value a voxel is wanted, so export the label map and not a picture or a colour image"
        )
    return image, names


def _names(header: dict[str, str]) -> dict[tuple[int, int], str]:
    """Labels by (layer, value) from the keys ``Segment<n>_Name``, ``_LabelValue`` and ``_Layer`` of 3D Slicer."""
    names = {}
    for key, label in header.items():
        prefix = key.removesuffix("_Name")
        value, layer = header.get(f"{prefix}_LabelValue", ""), header.get(f"{prefix}_Layer", "0")
        if prefix != key and value.isdigit() and layer.isdigit():
            names[int(layer), int(value)] = label
    return names


def size(count: int, voxel_ml: float) -> str:
    """Size of a segment, for messages."""
    return f"{count} voxels, {count * voxel_ml:.3g} ml"


def labels(voxels: NDArray[Any], entry_of_images: str) -> list[tuple[int, int]]:
    """Values that are not 0, in order, and how many voxels have them.

    Raises
    ------
    StageError
        If they are no labels but the intensities of an image, whose entry is named.
    """
    counts: Counter[float] = Counter()
    for plane in voxels:  # an image ends this early
        values, times = np.unique(plane, return_counts=True)
        odd = values[~((values >= 0) & (values == np.rint(values)))]
        counts.update(dict(zip(values.tolist(), times.tolist(), strict=True)))
        if len(odd) or len(counts) > MAX_LABELS:
            why = f"{odd[0]:g} is no label" if len(odd) else f"more than {MAX_LABELS} different values"
            raise StageError(
                f"input.mask: {why}; a mask holds few whole numbers, 0 outside. An image goes to {entry_of_images}; a"
                " map of fractions has values from 0 to 1, 100 or 255, full within and 0 outside, a signed distance"
                " one sign within and the other outside: scale it in the program that made it"
            )
    return sorted((int(value), count) for value, count in counts.items() if value)


def check_geometry(spacing_mm: Sequence[float], direction: NDArray[np.float64]) -> None:
    """Refuse voxels that have no certain place in the patient."""
    low, high = SPACING_RANGE_MM
    if not all(low <= spacing <= high for spacing in spacing_mm):
        shown = " x ".join(f"{spacing:g}" for spacing in spacing_mm)
        raise StageError(
            f"input.mask: voxels of {shown} mm; {low:g} to {high:g} mm are plausible, so correct the file's spacing"
        )
    if (error := orthonormal_error(direction)) > ORTHONORMAL_TOLERANCE:
        raise StageError(
            f"input.mask: its axes are not perpendicular, error {error:.3g} (limit {ORTHONORMAL_TOLERANCE:g}): a tilted"
            " or sheared grid; resample it to a regular one"
        )
