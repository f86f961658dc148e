# SPDX-License-Identifier: Apache-2.0
"""Stage 2: cut out the region of interest, remove noise, resample to isotropic voxels.

The order is crop (cheap), smooth (on the voxels as acquired, where noise is independent), resample. All lengths are in
mm, whatever the shape of the voxels. A margin around the region is kept until the end, so that no filter sees a cut
edge where the volume goes on. A voxel is a box: the new voxels reach as far as the old ones, from edge to edge.
"""

import itertools
import logging

import numpy as np
import SimpleITK as sitk
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.case.settings.base import parse
from pipeline.case.settings.images import FilterSettings
from pipeline.files.cubes import that_fit
from pipeline.files.volume import Volume
from pipeline.filtering.region import Region, crop, find_region
from pipeline.filtering.smoothing import default_length_mm, execute, smooth
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job

SPLINE_REACH = 8
"""Voxels over which the cubic B-spline forgets an edge: its impulse response falls by 0.27 a voxel, to 3e-5."""

MINIMUM_SIZE = 4
"""Voxels along an axis that a cubic spline needs."""

OFF_TIES = 1e-4
"""Part of a voxel that the nearest one is looked for aside, so that rounding does not choose where two are as near."""

Stretch = tuple[slice, float, int]
"""Samples of an axis, the place of the first in voxels of the source, and how many are taken: all, or one for all."""


def filter_volume(volume: Volume, settings: FilterSettings, log: logging.Logger | None = None) -> Volume:
    """Cut out the region of interest, smooth and resample it: :func:`find_region`, then :func:`filter_region`.

    Parameters
    ----------
    volume : as loaded, voxels (Z, Y, X).
    settings : the section ``filter``.
    log : where progress goes.

    Returns
    -------
    Isotropic, voxels (Z, Y, X) float32; see :func:`filter_region`.
    """
    log = log or logging.getLogger("filter")
    return filter_region(volume, find_region(volume, settings, log), settings, log)


def filter_region(volume: Volume, region: Region, settings: FilterSettings, log: logging.Logger) -> Volume:
    """Crop, smooth and resample a volume.

    Parameters
    ----------
    volume : voxels (Z, Y, X) of any scalar type; may be oblique and anisotropic.
    region : box of voxels to cover.
    settings : smoothing (kind, length in mm), isotropic spacing (mm), interpolation.
    log : where progress goes.

    Returns
    -------
    Volume
        float32, same directions as `volume`; it reaches as far as the region (:func:`isotropic_grid`).

    Raises
    ------
    StageError
        If the volume is too thin, or the smoothing is finer than the voxels.
    """
    low, high = region.low, region.high
    length_mm = settings.smoothing_mm or default_length_mm(settings.smoothing, volume.spacing_mm)
    margin = np.ceil(4 * length_mm / np.array(volume.spacing_mm)).astype(int) + SPLINE_REACH
    size = np.array(volume.voxels.shape[::-1])
    outer_low, outer_high = np.maximum(low - margin, 0), np.minimum(high + margin, size)
    if thin := [f"{n} along {axis}" for n, axis in zip(outer_high - outer_low, "xyz", strict=True) if n < MINIMUM_SIZE]:
        raise StageError(
            f"the volume has {', '.join(thin)} voxels; at least {MINIMUM_SIZE} are needed along each axis:"
            " load a series with more slices"
        )
    log.info("region: voxels %s to %s of %s", low.tolist(), (high - 1).tolist(), size.tolist())
    image = crop(volume, outer_low, outer_high).to_sitk()
    image = smooth(image, settings.smoothing, length_mm, log)
    spacing_mm = settings.spacing_mm or min(volume.spacing_mm)
    grid = isotropic_grid(volume, region, spacing_mm)
    return Volume.from_sitk(resample(image, *grid, settings.interpolation, log))


def isotropic_grid(
    volume: Volume, region: Region, spacing_mm: float
) -> tuple[NDArray[np.floating], NDArray[np.int64], NDArray[np.floating]]:
    """The isotropic grid that reaches as far as a region, edge to edge, with the same middle.

    Along each axis it has the whole number of voxels that comes nearest (:func:`pipeline.files.cubes.that_fit`). The
    middle of every new voxel lies within the region. Along an axis whose spacing stays, voxels do.

    Parameters
    ----------
    volume : which the region is a box of.
    region : voxels to cover.
    spacing_mm : of the new voxels.

    Returns
    -------
    origin_mm, size, spacing_mm : centre of the first voxel, LPS, voxels along x, y, z, and their length there.
    """
    old = np.array(volume.spacing_mm)
    extent = region.high - region.low
    size, step = that_fit(extent, spacing_mm / old)
    return volume.to_mm(region.low - 0.5 + (extent - size * step) / 2 + step / 2), size, step * old


def resample(
    image: sitk.Image,
    origin_mm: NDArray[np.floating],
    size: NDArray[np.int64],
    spacing_mm: NDArray[np.floating],
    interpolation: str,
    log: logging.Logger,
) -> sitk.Image:
    """Sample a float32 image on an isotropic grid with its own directions.

    ``spline`` is cubic and limited to the range of the 27 voxels around: linear interpolation between thick slices
    makes a vessel thinner, and the spline alone rings beside bone. Beyond the middle of an outer voxel of the image its
    value holds.

    Parameters
    ----------
    image : float32.
    origin_mm : centre of the first voxel, LPS.
    size : voxels along x, y, z.
    spacing_mm : of the new voxels along x, y, z.
    interpolation : ``spline`` or ``linear``; on the grid of the image itself nothing is interpolated.
    log : where progress goes.
    """
    grid = sitk.ResampleImageFilter()
    grid.SetSize([int(n) for n in size])
    grid.SetOutputOrigin([float(x) for x in origin_mm])
    grid.SetOutputSpacing([float(x) for x in spacing_mm])
    grid.SetOutputDirection(image.GetDirection())
    grid.SetInterpolator(sitk.sitkNearestNeighbor)
    if np.allclose(image.GetSpacing(), spacing_mm, rtol=1e-6):
        return grid.Execute(image)
    note = f"resampling to {' x '.join(str(n) for n in size)} voxels of {min(spacing_mm):.3g} mm, {interpolation}"
    if interpolation == "linear":
        grid.SetInterpolator(sitk.sitkLinear)
        return execute(grid, image, note, log)
    sampled = _spline(grid, image, note, log)
    aside_mm = np.array(image.GetDirection()).reshape(3, 3) @ image.GetSpacing() * OFF_TIES
    grid.SetOutputOrigin((np.asarray(origin_mm) + aside_mm).tolist())
    voxels = sitk.GetArrayViewFromImage(image)
    # ITK's GrayscaleErode and GrayscaleDilate give the same, but take six times as long
    for extreme, limit in ((ndimage.minimum_filter, sitk.Maximum), (ndimage.maximum_filter, sitk.Minimum)):
        around = sitk.GetImageFromArray(extreme(voxels, size=3, mode="nearest"))
        around.CopyInformation(image)
        nearest = grid.Execute(around)
        nearest.CopyInformation(sampled)
        sampled = limit(sampled, nearest)
    return sampled


def _spline(grid: sitk.ResampleImageFilter, image: sitk.Image, note: str, log: logging.Logger) -> sitk.Image:
    """Samples of the cubic B-spline, which ITK mirrors at the middle of the outer voxels; here their value holds."""
    part = sitk.ResampleImageFilter()
    part.SetInterpolator(sitk.sitkBSpline)
    part.SetOutputSpacing(grid.GetOutputSpacing())
    part.SetOutputDirection(grid.GetOutputDirection())
    first = image.TransformPhysicalPointToContinuousIndex(grid.GetOutputOrigin())
    steps = np.array(grid.GetOutputSpacing()) / image.GetSpacing()
    axes = [_stretches(*axis) for axis in zip(first, steps, grid.GetSize(), image.GetSize(), strict=True)]
    sampled = np.empty(grid.GetSize()[::-1], np.float32)
    for stretches in itertools.product(*axes):
        samples, places, counts = zip(*stretches, strict=True)
        part.SetSize(counts)
        part.SetOutputOrigin(image.TransformContinuousIndexToPhysicalPoint(places))
        if counts == tuple(s.stop - s.start for s in samples):
            values = execute(part, image, note, log)
        else:
            values = part.Execute(image[tuple(_reach(*each) for each in stretches)])
        sampled[samples[::-1]] = sitk.GetArrayViewFromImage(values)
    result = sitk.GetImageFromArray(sampled)
    result.SetOrigin(grid.GetOutputOrigin())
    result.SetSpacing(grid.GetOutputSpacing())
    result.SetDirection(grid.GetOutputDirection())
    return result


def _stretches(first: float, step: float, size: int, voxels: int) -> list[Stretch]:
    """Stretches of an axis before the middle of the image's first voxel, up to that of its last, and behind it."""
    places = first + step * np.arange(size)
    before, behind = int(np.sum(places < -1e-6)), int(np.sum(places <= voxels - 1 + 1e-6))
    inner = (slice(before, behind), first + step * before, behind - before)
    found = [(slice(0, before), 0.0, 1), inner, (slice(behind, size), voxels - 1.0, 1)]
    return [each for each in found if each[0].stop > each[0].start]


def _reach(samples: slice, place: float, count: int) -> slice:
    """Voxels of the image that the spline at one place of an axis follows from; all where there are more places."""
    if count == samples.stop - samples.start and count > 1:
        return slice(None)
    return slice(max(round(place) - SPLINE_REACH, 0), round(place) + SPLINE_REACH + 1)


def _compute(job: Job) -> None:
    settings = parse(FilterSettings, job.settings, "--settings")
    volume = Volume.read(job.inputs["volume"])
    region = find_region(volume, settings, job.log)
    filtered = filter_region(volume, region, settings, job.log)
    size = filtered.voxels.shape[::-1]
    job.facts["region"] = {"low": region.low.tolist(), "high": region.high.tolist(), **region.record}
    job.facts["voxels"], job.facts["spacing_mm"] = size, filtered.spacing_mm[0]
    job.log.info("%d x %d x %d voxels of %.4g mm", *size, filtered.spacing_mm[0])
    filtered.write(job.outputs["filtered"])


if __name__ == "__main__":
    run_stage(
        "filter",
        __doc__,
        {"volume": "volume.nrrd of the load stage"},
        {"filtered": "filtered.nrrd, float32, isotropic"},
        _compute,
    )
