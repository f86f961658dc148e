# SPDX-License-Identifier: Apache-2.0
"""Images as programs export them and protocols take them, drawn at random: windows of 8 bits, resampling, overshoot,
sharp kernels, subtraction, turned grids, numbers without their rescaling, streaks between the shoulders, dark blood.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy import ndimage
from scipy.spatial.transform import Rotation

from tests.support.strange_images import Scene, Strange, _usual, scene

Random = np.random.Generator


def windowed(rng: Random) -> Strange:
    """CT exported through a window to 8 bits: what is above 45 to 130 % of the contrast is 255."""
    made = scene(rng)
    drawn = _usual(made)
    top, low = made.tissue + rng.uniform(0.45, 1.3) * (made.blood - made.tissue), made.tissue - rng.uniform(100, 300)
    eight = np.clip(np.rint(255 * (drawn.image.voxels - low) / (top - low)), 0, 255)
    half_way = 255 * (min(made.blood, top) + made.tissue - 2 * low) / 2 / (top - low)
    words = drawn.words | {"top": (top - made.tissue) / (made.blood - made.tissue)}
    image = drawn.image.with_voxels(eight.astype(np.float32))
    return replace(drawn, image=image, ct=False, half_way=half_way, words=words)


def _zero_filled(voxels: np.ndarray, part: float) -> np.ndarray:
    """What is left of an image where the frequencies above a part of the highest are not measured."""
    spectrum = np.fft.fftn(voxels)
    for axis, n in enumerate(voxels.shape):
        keep = np.abs(np.fft.fftfreq(n)) <= part / 2
        spectrum = np.moveaxis(np.moveaxis(spectrum, axis, 0) * keep[:, None, None], 0, axis)
    return np.asarray(np.fft.ifftn(spectrum).real)


def zero_filled(rng: Random) -> Strange:
    """MR of which 50 to 80 % of the frequencies are measured, the rest zero: edges ring by 9 % of the contrast."""
    made, part = scene(rng, ct=False), rng.uniform(0.5, 0.8)
    padded = np.pad(made.voxels, 12, mode="reflect")
    made.voxels = _zero_filled(padded, part)[12:-12, 12:-12, 12:-12]
    noise = (made.blood - made.tissue) / rng.uniform(10, 25)
    return made.finished(0.1 * made.spacing_mm[0], noise, part=part)


def sharp_kernel(rng: Random) -> Strange:
    """CT of a photon-counting scanner with a sharp kernel: edges overshoot, the noise is sharpened."""
    made, gain = scene(rng), rng.uniform(0.5, 2.0)
    drawn = _usual(made, gain=gain)
    width = rng.uniform(1.0, 1.6)
    soft = ndimage.gaussian_filter(drawn.image.voxels, width, mode="nearest")
    sharp = drawn.image.voxels + gain * (drawn.image.voxels - soft)
    return replace(drawn, image=drawn.image.with_voxels(sharp.astype(np.float32)))


def subtracted(rng: Random) -> Strange:
    """Rotational angiography with its mask taken off: tissue is 0 or below, a bone that moved is bright and dark."""
    made = scene(rng, ct=False)
    made.tissue, made.blood = rng.uniform(-80, 20), rng.uniform(400, 3000)
    made.fill(np.ones_like(made.lumen))
    point, along, radius = made.middle()
    side, size = made.across(along), radius * rng.uniform(0.6, 1.2)
    place = point + (radius + size + radius * rng.uniform(0.3, 1.0)) * side
    bone = made.part(lambda at: np.linalg.norm(at - place, axis=1) - size)
    moved = ndimage.shift(bone, rng.uniform(-0.7, 0.7, 3), order=1)
    level = rng.uniform(0.3, 1.0) * made.blood
    made.voxels = made.voxels + level * (moved - bone) * (1 - made.lumen)
    drawn = made.finished(made.spacing_mm[0] * rng.uniform(0.5, 1.0), 0.0)
    noise = (made.blood - made.tissue) / rng.uniform(8, 20)
    voxels = rng.normal(ndimage.gaussian_filter(made.voxels, made.rng.uniform(0.5, 1.0)), noise)
    return replace(drawn, image=drawn.image.with_voxels(voxels.astype(np.float32)))


def turned_grid(rng: Random) -> Strange:
    """MR resampled on the turned grid of another series; what lies beyond its own is 0."""
    made = scene(rng, ct=False, forked=False, wide=4.5)
    drawn = _usual(made)
    turn = Rotation.from_euler("xyz", rng.uniform(-20, 20, 3), degrees=True).as_matrix()
    scale = np.diag(np.array(made.spacing_mm)[::-1])
    matrix = np.linalg.inv(scale) @ turn @ scale
    centre = (np.array(made.lumen.shape) - 1) / 2
    offset = centre - matrix @ centre

    def resampled(voxels: np.ndarray, order: int) -> np.ndarray:
        return np.asarray(ndimage.affine_transform(voxels, matrix, offset, order=order, cval=0.0))

    lumen = resampled(made.lumen, 1)
    image = drawn.image.with_voxels(resampled(drawn.image.voxels, int(rng.choice([1, 3]))).astype(np.float32))
    core, _ = ndimage.label(lumen > 0.5)
    kept = core == 1 + int(np.bincount(core.ravel())[1:].argmax())
    depth = ndimage.distance_transform_edt(np.pad(kept, 1, mode="edge"))[1:-1, 1:-1, 1:-1]
    z, y, x = (int(n) for n in np.unravel_index(int(depth.argmax()), depth.shape))
    volume = float(lumen.sum() * np.prod(made.spacing_mm) / 1000)
    return replace(drawn, image=image, volume_ml=volume, openings=2, seed=(x, y, z))


def not_rescaled(rng: Random) -> Strange:
    """CT written as numbers without their rescaling: 1024 too high, or in steps of 2 or 0.25 HU, air is 0."""
    made = scene(rng)
    drawn = _usual(made)
    offset, slope = float(rng.choice([0.0, 1000.0, 1024.0])), float(rng.choice([0.25, 1.0, 2.0, 10.0]))
    image = drawn.image.with_voxels(((drawn.image.voxels + offset) * slope).astype(np.float32))
    half_way = (drawn.half_way + offset) * slope
    words = drawn.words | {"offset": offset, "slope": slope}
    return replace(drawn, image=image, ct=False, half_way=half_way, words=words)


def shoulders(rng: Random) -> Strange:
    """CT at a low dose: in a third of the slices noise of 0.2 to 0.6 of the contrast in streaks."""
    made = scene(rng)
    drawn = _usual(made)
    contrast, part = made.blood - made.tissue, made.places[..., 2] / np.abs(made.places[..., 2]).max()
    where = np.clip(1.5 - 3 * np.abs(part - rng.uniform(-0.5, 0.5)), 0, 1)
    streaks = ndimage.gaussian_filter(rng.normal(size=made.lumen.shape), (0.3, 0.6, 8.0))
    strength = rng.uniform(0.2, 0.6)
    voxels = drawn.image.voxels + strength * contrast * where * streaks / streaks.std()
    words = drawn.words | {"strength": strength}
    return replace(drawn, image=drawn.image.with_voxels(voxels.astype(np.float32)), words=words)


def reformatted(rng: Random) -> Strange:
    """CT in slices of 3 to 5 mm that a program has interpolated to slices as thin as pixels are wide."""
    step, thick = rng.uniform(0.6, 0.9), rng.uniform(3, 5)
    made = scene(rng, radius=(4, 9), spacing=(step, step, step), tilt=30)
    drawn = _usual(made)
    every = max(round(thick / step), 2)
    slabs = ndimage.uniform_filter1d(drawn.image.voxels, every, axis=0)[every // 2 :: every]
    at = (np.arange(made.lumen.shape[0]) - every // 2) / every
    index = np.meshgrid(at, *(np.arange(n) for n in made.lumen.shape[1:]), indexing="ij")
    fine = ndimage.map_coordinates(slabs, index, order=int(rng.choice([1, 3])), mode="nearest")
    return replace(drawn, image=drawn.image.with_voxels(fine.astype(np.float32)))


def dark_blood(rng: Random) -> Strange:
    """MR with the signal of flowing blood nulled: the lumen is 5 to 20 % of the tissue, the wall brighter."""
    made = scene(rng, ct=False)
    made.blood = made.tissue * rng.uniform(0.05, 0.2)
    made.fill(np.ones_like(made.lumen))
    wall = made.part(lambda at: _outer(made, at)) * (1 - made.lumen)
    made.put(wall, made.tissue * rng.uniform(1.1, 1.5))
    return made.finished(0.7 * made.spacing_mm[0], made.tissue / rng.uniform(10, 25))


def _outer(made: Scene, at: np.ndarray) -> np.ndarray:
    points, radii = made.lines[0]
    away = np.linalg.norm(at[:, None] - points[None, ::3], axis=2) - radii[None, ::3]
    return np.asarray(away.min(axis=1)) - 1.5 * made.spacing_mm[0]


KINDS: dict[str, Callable[[Random], Strange]] = {
    "windowed": windowed,
    "zero-filled": zero_filled,
    "sharp-kernel": sharp_kernel,
    "subtracted": subtracted,
    "turned-grid": turned_grid,
    "not-rescaled": not_rescaled,
    "shoulders": shoulders,
    "reformatted": reformatted,
    "dark-blood": dark_blood,
}
