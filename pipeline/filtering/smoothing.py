# SPDX-License-Identifier: Apache-2.0
"""Smoothing: Gaussian, median, curvature diffusion and non-local means, in mm whatever the shape of the voxels."""

import logging
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import SimpleITK as sitk
from numba import njit
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.files.volume import Volume
from solver.runtime.errors import StageError
from solver.runtime.progress import Progress

MAD_TO_SIGMA = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""

NOISE_LAG = 3
"""Distance in voxels of the samples that measure noise: beyond the correlation that a scanner's kernel makes."""

NOISE_PLANES = 64
"""As many planes, evenly spread, tell the noise to 1 % or better."""

SMOOTHING_MM, PATCH_VOXELS = 0.5, 2.0
"""Lengths where none is given: of the patches in the finest voxels, of all else in mm."""

SEARCH_RADII = 2
"""How far similar patches are looked for, in radii of a patch; with 3, three times as slow, the Dice coefficient of the
phantoms (benchmarks/segmentation_accuracy.py) is the same to 0.001."""

EQUAL_PATCHES = 3.0
"""Standard deviations of its distribution that the difference of two patches may lie above its mean before they count
as different."""

SLAB, TILE = 8, 16
"""Planes and rows that are averaged at a time: small enough for the processor's cache."""


def default_length_mm(kind: str, spacing_mm: tuple[float, ...]) -> float:
    """The length of a smoothing where the settings give none."""
    return PATCH_VOXELS * min(spacing_mm) if kind == "nonlocal" else SMOOTHING_MM


def smooth(image: sitk.Image, kind: str, length_mm: float, log: logging.Logger) -> sitk.Image:
    """Remove noise.

    Parameters
    ----------
    image : float32.
    kind : ``none``, ``gaussian``, ``median``, ``curvature`` or ``nonlocal``.
    length_mm : standard deviation of the Gaussian; radius of the median's box; for curvature, the standard deviation
        of the Gaussian that diffusion for as long a time makes where there is no edge; radius of the patches.
    log : where progress goes.

    Raises
    ------
    StageError
        If the radius of the median or of the patches is below half a voxel along every axis.
    """
    if kind == "none":
        return image
    methods = {"gaussian": _gaussian, "median": _median, "curvature": _curvature, "nonlocal": _nonlocal}
    return methods[kind](image, length_mm, log)


def execute(process: sitk.ImageFilter, image: sitk.Image, name: str, log: logging.Logger) -> sitk.Image:
    """Run an ITK filter with progress.

    Parameters
    ----------
    process : the filter.
    image : what it takes.
    name : of what is done, for the log.
    log : gets the name and the progress.
    """
    log.info("%s", name)
    progress = Progress(log, 100, "percent")
    process.AddCommand(sitk.sitkProgressEvent, lambda: progress.update(round(99 * process.GetProgress())))
    result = process.Execute(image)
    process.RemoveAllCommands()
    return result


def _gaussian(image: sitk.Image, length_mm: float, log: logging.Logger) -> sitk.Image:
    """The sampled kernel, since the recursive filter is inexact where the deviation is below a voxel (thick slices)."""
    gaussian = sitk.DiscreteGaussianImageFilter()
    gaussian.SetUseImageSpacing(True)
    gaussian.SetVariance(length_mm**2)
    gaussian.SetMaximumError(1e-3)
    gaussian.SetMaximumKernelWidth(1 + 2 * int(np.ceil(5 * length_mm / min(image.GetSpacing()) + 2)))
    return execute(gaussian, image, "gaussian smoothing", log)


def _median(image: sitk.Image, length_mm: float, log: logging.Logger) -> sitk.Image:
    radius = _radius("median", length_mm, image.GetSpacing())
    median = sitk.MedianImageFilter()
    median.SetRadius(radius)
    return execute(median, image, f"median over {' x '.join(str(2 * r + 1) for r in radius)} voxels", log)


def _radius(kind: str, length_mm: float, spacing_mm: tuple[float, ...]) -> list[int]:
    """A length in voxels x, y, z."""
    radius = [round(length_mm / spacing) for spacing in spacing_mm]
    if not any(radius):
        raise StageError(
            f"filter.smoothing_mm = {length_mm:g}: a {kind} of this radius changes nothing, the voxels are"
            f" {' x '.join(f'{spacing:.3g}' for spacing in spacing_mm)} mm; give at least the finest of them"
        )
    return radius


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
    return execute(diffusion, image, f"curvature diffusion, {iterations} iterations", log)


def noise_level(volume: Volume) -> float:
    """Standard deviation of the noise, from the image itself.

    Over each three voxels u, v, w in a row, `NOISE_LAG` apart, u - 2 v + w has no mean where the intensity is linear,
    and six times the variance of the noise. Of the half of the voxels where it is smallest in the smoothed plane (away
    from walls), the median of its absolute value tells the deviation. Differences of exactly 0 are padding.

    Parameters
    ----------
    volume : voxels (Z, Y, X) float32, at least 2 `NOISE_LAG` + 1 along x and y; 0 where it is smaller. Of many planes,
        `NOISE_PLANES` are looked at.
    """
    chosen = np.unique(np.linspace(0, len(volume.voxels) - 1, NOISE_PLANES).round().astype(int))
    fine = 1 if volume.spacing_mm[0] <= volume.spacing_mm[1] else 0
    samples = np.concatenate([_flat_differences(np.moveaxis(volume.voxels[z], fine, 0)) for z in chosen])
    return float(MAD_TO_SIGMA / np.sqrt(6) * np.median(samples)) if samples.size else 0.0


def _flat_differences(plane: NDArray[np.float32]) -> NDArray[np.float32]:
    """|u - 2 v + w| along the first axis of a plane, of its flat half."""

    def second(values: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.abs(values[: -2 * NOISE_LAG] - 2 * values[NOISE_LAG:-NOISE_LAG] + values[2 * NOISE_LAG :])

    differences, rough = second(plane), second(ndimage.gaussian_filter(plane, NOISE_LAG))
    measured = differences != 0
    differences, rough = differences[measured], rough[measured]
    return differences[rough <= np.median(rough)] if rough.size else differences


def _nonlocal(image: sitk.Image, length_mm: float, log: logging.Logger) -> sitk.Image:
    """Non-local means (Buades, Coll and Morel 2005, doi:10.1109/CVPR.2005.38; in three dimensions Coupe et al. 2008,
    doi:10.1109/TMI.2007.906087).

    Each voxel becomes the mean of those within `SEARCH_RADII` patch radii, weighted by how far their patches agree.
    The mean square difference D of two patches of n voxels that differ by noise s alone has the mean 2 s^2 and the
    deviation 2 s^2 sqrt(2/n). The weight is (1 - t^2)^2, t = (D - 2 s^2) / (`EQUAL_PATCHES` deviations) between 0 and
    1: full for patches that noise explains, exactly 0 for others (a bisquare in place of the exponential). As s is
    measured in the image (:func:`noise_level`), edges above the noise stay, whatever the unit of the intensity.
    """
    volume = Volume.from_sitk(image)
    patch = np.array(_radius("nonlocal patch", length_mm, image.GetSpacing()))[::-1]
    search = np.array(_radius("nonlocal patch", SEARCH_RADII * length_mm, image.GetSpacing()))[::-1]
    noise = noise_level(volume)
    log.info(
        "non-local means: noise %.4g, patches of %s voxels, searched within %s",
        noise,
        *(" x ".join(str(2 * r + 1) for r in radius[::-1]) for radius in (patch, search)),
    )
    if noise == 0:
        return image
    padded = np.pad(volume.voxels, [(r, r) for r in patch + search], mode="symmetric")
    smoothed = volume.voxels
    equal = 2 * noise**2
    width = EQUAL_PATCHES * equal * np.sqrt(2 / np.prod(2 * patch + 1))

    def average(z: int) -> int:
        slab = smoothed[z : z + SLAB]
        _average_patches(padded[z:], patch, search, np.float32(equal), np.float32(1 / width), slab)
        return z + len(slab)

    progress = Progress(log, len(smoothed), "planes")
    with ThreadPoolExecutor(sitk.ProcessObject.GetGlobalDefaultNumberOfThreads()) as pool:  # as many as ITK's filters
        for done in pool.map(average, range(0, len(smoothed), SLAB)):
            progress.update(done)
    return volume.with_voxels(smoothed).to_sitk()


# long because all its loops work on the same buffers, and are compiled as one
@njit(cache=True, nogil=True)
def _average_patches(
    padded: NDArray[np.float32],
    patch: NDArray[np.int64],
    search: NDArray[np.int64],
    equal: float,
    slope: float,
    out: NDArray[np.float32],
) -> None:
    """Fill a slab with weighted means.

    Parameters
    ----------
    padded : (Z, Y, X) with `patch` + `search` more voxels before and behind those of `out` along each axis; the slab
        starts at its first.
    patch, search : radii z, y, x, voxels.
    equal : mean square difference of two patches that noise explains.
    slope : 1 over the excess at which the weight is 0.
    out : (Z, Y, X).
    """
    depth, height, width = out.shape
    (pz, py, px), (sz, sy, sx) = patch, search
    count = np.float32((2 * pz + 1) * (2 * py + 1) * (2 * px + 1))
    for first in range(0, height, TILE):
        rows = min(TILE, height - first)
        weighted = np.zeros((depth, rows, width), np.float32)
        total = np.zeros((depth, rows, width), np.float32)
        planes = np.empty((depth + 2 * pz, rows, width), np.float32)
        lines = np.empty((rows + 2 * py, width), np.float32)
        distance = np.empty(width, np.float32)
        for shift in range((2 * sz + 1) * (2 * sy + 1) * (2 * sx + 1)):
            dz, rest = shift // ((2 * sy + 1) * (2 * sx + 1)) - sz, shift % ((2 * sy + 1) * (2 * sx + 1))
            dy, dx = rest // (2 * sx + 1) - sy, rest % (2 * sx + 1) - sx
            for z in range(depth + 2 * pz):
                for y in range(rows + 2 * py):
                    line = lines[y]
                    line[:] = 0
                    here = padded[z + sz, first + y + sy]
                    there = padded[z + sz + dz, first + y + sy + dy]
                    for k in range(2 * px + 1):
                        u, v = here[sx + k : sx + k + width], there[sx + dx + k : sx + dx + k + width]
                        for x in range(width):
                            line[x] += (u[x] - v[x]) * (u[x] - v[x])
                for y in range(rows):
                    sums = planes[z, y]
                    sums[:] = 0
                    for k in range(2 * py + 1):
                        line = lines[y + k]
                        for x in range(width):
                            sums[x] += line[x]
            for z in range(depth):
                for y in range(rows):
                    distance[:] = 0
                    for k in range(2 * pz + 1):
                        sums = planes[z + k, y]
                        for x in range(width):
                            distance[x] += sums[x]
                    start = px + sx + dx
                    value = padded[z + pz + sz + dz, first + y + py + sy + dy, start : start + width]
                    numerator, denominator = weighted[z, y], total[z, y]
                    for x in range(width):
                        excess = (distance[x] / count - equal) * slope
                        excess = max(excess, np.float32(0))
                        root = max(np.float32(1) - excess * excess, np.float32(0))
                        numerator[x] += root * root * value[x]
                        denominator[x] += root * root
        for z in range(depth):
            for y in range(rows):
                for x in range(width):
                    out[z, first + y, x] = weighted[z, y, x] / total[z, y, x]
