"""Stage 2: cut out the region of interest, remove noise, resample to isotropic voxels.

The order is crop (cheap), smooth (on the voxels as acquired, where noise is independent), resample. All lengths are in
mm, whatever the shape of the voxels. A margin around the region is kept until the end, so that no filter sees a cut
edge where the volume goes on.
"""

import logging

import numpy as np
import SimpleITK as sitk
from numpy.typing import NDArray

from pipeline.filtering.region import Region, crop, find_region
from pipeline.filtering.smoothing import default_length_mm, execute, smooth
from pipeline.settings.base import parse
from pipeline.settings.images import FilterSettings
from pipeline.volume import Volume
from solver.stage import Job, StageError, run_stage

SPLINE_REACH = 8
"""Voxels over which the cubic B-spline forgets an edge: its impulse response falls by 0.27 a voxel, to 3e-5."""

MINIMUM_SIZE = 4
"""Voxels along an axis that a cubic spline needs."""


def filter_volume(volume: Volume, settings: FilterSettings, log: logging.Logger | None = None) -> Volume:
    """Cut out the region of interest, smooth and resample it: :func:`find_region`, then :func:`filter_region`."""
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
        float32, same directions as `volume`; its first voxel is the first voxel of the region, and it covers the
        region as far as the volume does.

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
    origin_mm = volume.to_mm(low)
    extent_mm = np.array(volume.spacing_mm) * (high - 1 - low)
    available_mm = np.array(volume.spacing_mm) * (size - 1 - low)
    covering = np.ceil(extent_mm / spacing_mm - 1e-6)
    grid = (np.minimum(covering, np.floor(available_mm / spacing_mm + 1e-6)) + 1).astype(int)
    return Volume.from_sitk(resample(image, origin_mm, grid, spacing_mm, settings.interpolation, log))


def resample(
    image: sitk.Image,
    origin_mm: NDArray[np.floating],
    size: NDArray[np.int64],
    spacing_mm: float,
    interpolation: str,
    log: logging.Logger,
) -> sitk.Image:
    """Sample a float32 image on an isotropic grid with its own directions.

    ``spline`` is cubic and limited to the range of the 27 voxels around: linear interpolation between thick slices
    makes a vessel thinner, and the spline alone rings beside bone.

    Parameters
    ----------
    image : float32.
    origin_mm : centre of the first voxel, LPS.
    size : voxels along x, y, z.
    spacing_mm : of the new voxels.
    interpolation : ``spline`` or ``linear``; on the grid of the image itself nothing is interpolated.
    log : where progress goes.
    """
    grid = sitk.ResampleImageFilter()
    grid.SetSize([int(n) for n in size])
    grid.SetOutputOrigin([float(x) for x in origin_mm])
    grid.SetOutputSpacing([spacing_mm] * 3)
    grid.SetOutputDirection(image.GetDirection())
    grid.SetInterpolator(sitk.sitkNearestNeighbor)
    if np.allclose(image.GetSpacing(), spacing_mm, rtol=1e-6):
        return grid.Execute(image)
    note = f"resampling to {' x '.join(str(n) for n in size)} voxels of {spacing_mm:.3g} mm, {interpolation}"
    if interpolation == "linear":
        grid.SetInterpolator(sitk.sitkLinear)
        return execute(grid, image, note, log)
    grid.SetInterpolator(sitk.sitkBSpline)
    sampled = execute(grid, image, note, log)
    grid.SetInterpolator(sitk.sitkNearestNeighbor)
    for extreme, limit in ((sitk.GrayscaleErode, sitk.Maximum), (sitk.GrayscaleDilate, sitk.Minimum)):
        sampled = limit(sampled, grid.Execute(extreme(image, [1, 1, 1], sitk.sitkBox)))
    return sampled


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
