"""Stage 2: cut out the region of interest, remove noise, resample to isotropic voxels.

The order is crop (cheap), smooth (on the voxels as acquired, where noise is independent), resample. All lengths are in
mm, whatever the shape of the voxels. A margin around the region is kept until the end, so that no filter sees a cut
edge where the volume goes on.
"""

import logging

import numpy as np
import SimpleITK as sitk
from numpy.typing import NDArray

from pipeline.case import FilterSettings, parse
from pipeline.volume import Volume
from solver.stage import Job, Progress, StageError, run_stage

SPLINE_REACH = 8
"""Voxels over which the cubic B-spline forgets an edge: its impulse response falls by 0.27 a voxel, to 3e-5."""

MINIMUM_SIZE = 4
"""Voxels along an axis that a cubic spline needs."""


def filter_volume(volume: Volume, settings: FilterSettings, log: logging.Logger | None = None) -> Volume:
    """Crop, smooth and resample a volume.

    Parameters
    ----------
    volume : voxels (Z, Y, X) of any scalar type; may be oblique and anisotropic.
    settings : region (LPS mm or voxels), smoothing (kind, length in mm), isotropic spacing (mm).
    log : where progress goes.

    Returns
    -------
    Volume
        float32, same directions as `volume`; its first voxel is the first voxel of the region, and it covers the
        region as far as the volume does.

    Raises
    ------
    StageError
        If the region lies outside the volume, the volume is too thin, or the smoothing is finer than the voxels.
    """
    log = log or logging.getLogger("filter")
    low, high = region_box(volume, settings)
    margin = np.ceil(4 * settings.smoothing_mm / np.array(volume.spacing_mm)).astype(int) + SPLINE_REACH
    size = np.array(volume.voxels.shape[::-1])
    outer_low, outer_high = np.maximum(low - margin, 0), np.minimum(high + margin, size)
    if thin := [f"{n} along {axis}" for n, axis in zip(outer_high - outer_low, "xyz", strict=True) if n < MINIMUM_SIZE]:
        raise StageError(
            f"the volume has {', '.join(thin)} voxels; at least {MINIMUM_SIZE} are needed along each axis:"
            " load a series with more slices"
        )
    log.info("region: voxels %s to %s of %s", low.tolist(), (high - 1).tolist(), size.tolist())
    image = crop(volume, outer_low, outer_high).to_sitk()
    image = smooth(image, settings.smoothing, settings.smoothing_mm, log)
    spacing_mm = settings.spacing_mm or min(volume.spacing_mm)
    origin_mm = volume.to_mm(low)
    extent_mm = np.array(volume.spacing_mm) * (high - 1 - low)
    available_mm = np.array(volume.spacing_mm) * (size - 1 - low)
    covering = np.ceil(extent_mm / spacing_mm - 1e-6)
    grid = (np.minimum(covering, np.floor(available_mm / spacing_mm + 1e-6)) + 1).astype(int)
    return Volume.from_sitk(resample(image, origin_mm, grid, spacing_mm, log))


def region_box(volume: Volume, settings: FilterSettings) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The smallest box of voxels that covers the region of interest, as far as the volume reaches.

    Returns
    -------
    low, high : (3,) first voxel index x, y, z, and the one after the last.

    Raises
    ------
    StageError
        If the region and the volume do not overlap.
    """
    size = np.array(volume.voxels.shape[::-1])
    if settings.region_voxels:
        low, high = np.array(settings.region_voxels.low), np.array(settings.region_voxels.high)
        lies = f"region_voxels {low.tolist()} to {high.tolist()} lies outside the volume of {size.tolist()} voxels"
    elif settings.region_mm:
        box = np.array([settings.region_mm.low_mm, settings.region_mm.high_mm])
        index = volume.to_index(_corners(box))
        low = np.floor(index.min(axis=0) + 1e-6).astype(int)
        high = np.ceil(index.max(axis=0) - 1e-6).astype(int) + 1
        volume_box = volume.to_mm(_corners(np.array([[0, 0, 0], size - 1])))
        lies = (
            f"region_mm {box[0].tolist()} to {box[1].tolist()} lies outside the volume, which reaches from"
            f" {volume_box.min(axis=0).round(1).tolist()} to {volume_box.max(axis=0).round(1).tolist()} mm (LPS)"
        )
    else:
        return np.zeros(3, int), size
    low, high = np.maximum(low, 0), np.minimum(high, size)
    if np.any(low >= high):
        raise StageError(f"filter.{lies}; choose a region inside it")
    return low, high


def _corners(box: NDArray[np.floating]) -> NDArray[np.floating]:
    """The (8, 3) corners of a box [low, high] (2, 3)."""
    return np.stack(np.meshgrid(*box.T, indexing="ij"), axis=-1).reshape(-1, 3)


def crop(volume: Volume, low: NDArray[np.int64], high: NDArray[np.int64]) -> Volume:
    """The voxels from index `low` (x, y, z) up to, without, `high`, as float32, where they were in the patient."""
    (x, y, z), (x_end, y_end, z_end) = low, high
    voxels = volume.voxels[z:z_end, y:y_end, x:x_end].astype(np.float32)
    return Volume(voxels, volume.spacing_mm, tuple(volume.to_mm(low).tolist()), volume.direction)


def smooth(image: sitk.Image, kind: str, length_mm: float, log: logging.Logger) -> sitk.Image:
    """Remove noise.

    Parameters
    ----------
    image : float32.
    kind : ``none``, ``gaussian``, ``median`` or ``curvature``.
    length_mm : standard deviation of the Gaussian; radius of the median's box; for curvature, the standard deviation
        of the Gaussian that diffusion for as long a time makes where there is no edge.
    log : where progress goes.

    Raises
    ------
    StageError
        If the median's radius is below half a voxel along every axis.
    """
    if kind == "none":
        return image
    return {"gaussian": _gaussian, "median": _median, "curvature": _curvature}[kind](image, length_mm, log)


def _gaussian(image: sitk.Image, length_mm: float, log: logging.Logger) -> sitk.Image:
    """The sampled kernel, since the recursive filter is inexact where the deviation is below a voxel (thick slices)."""
    gaussian = sitk.DiscreteGaussianImageFilter()
    gaussian.SetUseImageSpacing(True)
    gaussian.SetVariance(length_mm**2)
    gaussian.SetMaximumError(1e-3)
    gaussian.SetMaximumKernelWidth(1 + 2 * int(np.ceil(5 * length_mm / min(image.GetSpacing()) + 2)))
    return _execute(gaussian, image, "gaussian smoothing", log)


def _median(image: sitk.Image, length_mm: float, log: logging.Logger) -> sitk.Image:
    radius = [round(length_mm / spacing) for spacing in image.GetSpacing()]
    if not any(radius):
        raise StageError(
            f"filter.smoothing_mm = {length_mm:g}: a median of this radius changes nothing, the voxels are"
            f" {' x '.join(f'{spacing:.3g}' for spacing in image.GetSpacing())} mm; give at least the finest of them"
        )
    median = sitk.MedianImageFilter()
    median.SetRadius(radius)
    return _execute(median, image, f"median over {' x '.join(str(2 * r + 1) for r in radius)} voxels", log)


def _curvature(image: sitk.Image, length_mm: float, log: logging.Logger) -> sitk.Image:
    """Modified curvature diffusion for the time t = length^2/2 (Whitaker and Xue 2001, doi:10.1109/ICIP.2001.958606).

    I_t = |grad I| div(c grad I/|grad I|), c = exp(-|grad I|^2/(2 G^2)). Where c = 1 a tube's wall moves inwards by
    t/radius; so G must lie above the gradients of noise and far below those of the wall. ITK's own scale, the
    root mean square gradient, is set by bone and skin; the median gradient is the noise's (in the manner of Black et
    al. 1998, doi:10.1109/83.661192).
    """
    gradient = sitk.GetArrayFromImage(sitk.GradientMagnitude(image))
    mean_square = np.mean(np.square(gradient), dtype=np.float64)
    gradient = gradient[gradient > 0]
    if not gradient.size:
        return image
    edge = np.median(gradient, overwrite_input=True)
    del gradient  # as large as the image
    spacing = np.array(image.GetSpacing())
    largest_step = min(spacing.min() / 16, 0.45 / np.sum(spacing**-2))  # ITK's rule, and the explicit scheme's limit
    iterations = int(np.ceil(length_mm**2 / 2 / largest_step))
    diffusion = sitk.CurvatureAnisotropicDiffusionImageFilter()
    diffusion.SetTimeStep(length_mm**2 / 2 / iterations)
    diffusion.SetNumberOfIterations(iterations)
    diffusion.SetConductanceParameter(float(edge / np.sqrt(mean_square)))
    diffusion.SetConductanceScalingUpdateInterval(iterations + 1)  # G is kept, else less noise would mean fewer edges
    return _execute(diffusion, image, f"curvature diffusion, {iterations} iterations", log)


def resample(
    image: sitk.Image, origin_mm: NDArray[np.floating], size: NDArray[np.int64], spacing_mm: float, log: logging.Logger
) -> sitk.Image:
    """Sample a float32 image on an isotropic grid with its own directions.

    Cubic B-spline, limited to the range of the 27 voxels around: linear interpolation between thick slices makes a
    vessel thinner, and the spline alone rings beside bone.

    Parameters
    ----------
    image : float32.
    origin_mm : centre of the first voxel, LPS.
    size : voxels along x, y, z.
    spacing_mm : of the new voxels.
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
    note = f"resampling to {' x '.join(str(n) for n in size)} voxels of {spacing_mm:.3g} mm"
    grid.SetInterpolator(sitk.sitkBSpline)
    sampled = _execute(grid, image, note, log)
    grid.SetInterpolator(sitk.sitkNearestNeighbor)
    for extreme, limit in ((sitk.GrayscaleErode, sitk.Maximum), (sitk.GrayscaleDilate, sitk.Minimum)):
        sampled = limit(sampled, grid.Execute(extreme(image, [1, 1, 1], sitk.sitkBox)))
    return sampled


def _execute(process: sitk.ImageFilter, image: sitk.Image, name: str, log: logging.Logger) -> sitk.Image:
    """Run an ITK filter with progress."""
    log.info("%s", name)
    progress = Progress(log, 100, "percent")
    process.AddCommand(sitk.sitkProgressEvent, lambda: progress.update(round(99 * process.GetProgress())))
    result = process.Execute(image)
    process.RemoveAllCommands()
    return result


def _compute(job: Job) -> None:
    settings = parse(FilterSettings, job.settings, "--settings")
    filtered = filter_volume(Volume.read(job.inputs["volume"]), settings, job.log)
    size = filtered.voxels.shape[::-1]
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
