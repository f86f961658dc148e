# SPDX-License-Identifier: Apache-2.0
"""Mask series: a mask or label map that was stored as an ordinary DICOM series of images."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.dicom.dataset import quiet
from pipeline.dicom.files import Scan, collect, scan
from pipeline.dicom.header import SliceHeader
from pipeline.dicom.left_out import left_out, message
from pipeline.dicom.pixels import decode, require_same
from pipeline.dicom.regrid import regrid
from pipeline.dicom.series import Series, grid, group, require_supported, take
from pipeline.dicom.transfer_syntax import is_lossy, require_decoder
from pipeline.files.mask_file import (
    GivenMask,
    Segment,
    Wanted,
    check_geometry,
    choose_in,
    labels,
    marked,
    numbers_of,
    size,
)
from pipeline.files.volume import Volume
from solver.runtime.errors import StageError

MODALITIES = ("CT", "MR", "XA", "OT", "SC", "SEG")
"""What programs say of a mask that they store as images."""

FEW_VALUES = 8
"""Up to so many different values are labels, as no image has so few ..."""
LEAST_EQUAL = 0.5
"""... and more are labels if at least this part of neighbours in a slice, of which one is not 0, are equal: within a
region all are, in an image noise and blur tell them apart."""


def read_mask_series(folder: Path, wanted: Wanted) -> GivenMask:
    """Read the wanted label of the one series of images below a folder.

    Parameters
    ----------
    folder : with the files of the series at any depth.
    wanted : value of the voxels, or several that are taken together; None: the only one that is not 0.

    Raises
    ------
    StageError
        If there are several series, slices may be lost or form no regular grid, the values are those of an image, or
        there is no such label.
    """
    try:
        with quiet(), collect([folder]) as found:
            series = _series(scan(found, MODALITIES))
            volume, stored = _volume(series)
    except StageError as refusal:
        raise StageError(f"input.mask: {refusal}") from None
    check_geometry(volume.spacing_mm, volume.direction)
    _require_labels(volume.voxels, lossy=any(is_lossy(header) for header in series.headers))
    voxel_ml = float(np.prod(volume.spacing_mm)) / 1000
    segments = [Segment(value, facts=size(count, voxel_ml)) for value, count in labels(volume.voxels, "input.dicom")]
    chosen, further = choose_in([volume.voxels], segments, wanted, volume.spacing_mm)
    empty = (volume.voxels == 0).all(axis=(1, 2))
    return GivenMask(
        volume.with_voxels(marked([volume.voxels], chosen)),
        ends_known=bool(empty.any()),  # else slices in which nothing is marked may have been left out
        record={
            "file": "DICOM series",
            "segment": numbers_of(chosen, wanted),
            "segments": len(segments),
            "goes_on_in": further,
            "values": "as stored" if stored else "rescaled",
        },
    )


def _series(found: Scan) -> Series:
    """The one series of images, of which no slice may be lost."""
    every = group(found.headers)
    if len(every) > 1:
        raise StageError(
            f"{len(every)} series of images below the folder, it is not certain which is the mask; give the folder of"
            " the mask's own files"
        )
    whole = every[0]
    if len(whole.candidates) > 1:
        raise StageError(
            f"{whole.name} holds {len(whole.candidates)} parts ({', '.join(part.name for part in whole.candidates)}),"
            " it is not certain which is the mask; give a folder with the files of one"
        )
    series = take(whole, whole.parts[0])
    if lost := left_out(whole, series, every, found):
        raise StageError(message(series, lost))
    return replace(series, headers=[_as_mask(header) for header in series.headers])


def _as_mask(header: SliceHeader) -> SliceHeader:
    """A slice of a mask, which needs no rescaling and has no padding."""
    if header.slope is None and header.intercept is None:
        header = replace(header, slope=1.0, intercept=0.0)
    return replace(header, padding=None)


def _volume(series: Series) -> tuple[Volume, bool]:
    """The values, and whether they are the stored ones: the rescaled ones may be no labels, as 0 and 1 with CT's usual
    intercept of -1024.
    """
    log = logging.getLogger(__name__)
    require_supported(series)
    require_decoder(series)
    require_same(series)
    place = grid(series, None)
    headers = [series.headers[k] for k in place.order]
    voxels = decode(Series(headers), log)
    one_rescaling = len({(header.slope, header.intercept) for header in headers}) == 1
    stored = one_rescaling and not ((voxels >= 0) & (voxels == np.rint(voxels))).all()
    if stored:
        voxels = decode(Series([replace(header, slope=1.0, intercept=0.0) for header in headers]), log)
    return regrid(voxels, place, log)[0], stored


def _require_labels(voxels: NDArray[Any], lossy: bool) -> None:
    """Refuse the intensities of an image."""
    count = len(np.unique(voxels))
    if count <= FEW_VALUES:
        return
    pairs = [(voxels[:, :, 1:], voxels[:, :, :-1]), (voxels[:, 1:], voxels[:, :-1])]
    marked = sum(int(((one != 0) | (other != 0)).sum()) for one, other in pairs)
    equal = sum(int(((one != 0) & (one == other)).sum()) for one, other in pairs)
    if lossy or equal < LEAST_EQUAL * marked:
        why = "and it was compressed with loss" if lossy else f"and {equal / marked:.0%} of neighbours are equal"
        raise StageError(
            f"input.mask: {count} different values, {why}: an image, not a mask, in which labels fill whole regions; an"
            " image goes to input.dicom, a mask must be stored without loss"
        )
