# SPDX-License-Identifier: Apache-2.0
"""Images as scanners and protocols make them, drawn at random: bright walls under a sharp kernel, rings of a cone beam,
slabs that do not meet, ghosts of pulsation, slabs of time of flight, curves of grey, axes that point another way, and
vessels of two voxels.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy import ndimage

from pipeline.files.volume import Volume
from tests.support.strange_images import Scene, Strange, _usual, calcium, fork, scene, stent, tube

Random = np.random.Generator


def _sharpened(rng: Random, drawn: Strange) -> Strange:
    """With edges that overshoot, and sharper noise."""
    gain, width = rng.uniform(0.5, 2.0), rng.uniform(1.0, 1.6)
    voxels = drawn.image.voxels
    sharp = voxels + gain * (voxels - ndimage.gaussian_filter(voxels, width, mode="nearest"))
    image = drawn.image.with_voxels(sharp.astype(np.float32))
    return replace(drawn, image=image, words=drawn.words | {"gain": gain})


def sharp_stent(rng: Random) -> Strange:
    """CT of a stent with a sharp kernel."""
    return _sharpened(rng, stent(rng))


def sharp_calcium(rng: Random) -> Strange:
    """CT of plaques in the wall with a sharp kernel."""
    return _sharpened(rng, calcium(rng))


def rings(rng: Random) -> Strange:
    """Cone beam CT: rings about the axis of rotation of 3 to 12 % of the contrast, and 5 to 20 % of it too dark in the
    middle.
    """
    made = scene(rng)
    contrast, centre = made.blood - made.tissue, rng.uniform(-2, 2, 2) * made.radius_mm
    away = np.hypot(made.places[..., 0] - centre[0], made.places[..., 1] - centre[1])
    step = made.spacing_mm[0]
    strengths = rng.normal(0, rng.uniform(0.03, 0.12), int(away.max() / step) + 2)
    cup = rng.uniform(0.05, 0.2) * ((away / away.max()) ** 2 - 1)
    drawn = _usual(made, cup=float(cup.min()))
    extra = contrast * (ndimage.gaussian_filter1d(strengths, 0.6)[(away / step).astype(int)] + cup)
    return replace(drawn, image=drawn.image.with_voxels((drawn.image.voxels + extra).astype(np.float32)))


def steps(rng: Random) -> Strange:
    """Gated CT whose slabs do not meet: the upper part is shifted by 0.1 to 0.5 radii, the true lumen as well."""
    made = scene(rng, forked=False)
    shift = rng.uniform(0.1, 0.5) * made.radius_mm
    turn, cut = rng.uniform(0, 2 * np.pi), int(rng.uniform(0.3, 0.7) * made.lumen.shape[0])
    move = (0, shift * np.sin(turn) / made.spacing_mm[1], shift * np.cos(turn) / made.spacing_mm[0])
    for name in ("lumen", "voxels"):
        part = getattr(made, name).copy()
        part[cut:] = ndimage.shift(part[cut:], move, order=1, mode="nearest")
        setattr(made, name, part)
    return replace(_usual(made, shift=shift / made.radius_mm), seed=made.seed_at(0.1))


def ghosts(rng: Random) -> Strange:
    """MR with ghosts of a vessel that pulses, along one axis: 10 to 35 % of its contrast, twice on each side."""
    made = scene(rng, ct=False, forked=False, wide=4.5)
    contrast, apart = made.blood - made.tissue, rng.uniform(1.2, 2.5) * made.radius_mm / made.spacing_mm[1]
    strength = rng.uniform(0.1, 0.35)
    for n in (-2, -1, 1, 2):
        ghost = ndimage.shift(made.lumen, (0, n * apart, 0), order=1)
        made.voxels = made.voxels + strength / abs(n) * contrast * ghost * (1 - made.lumen)
    return _usual(made, strength=strength, apart=apart * made.spacing_mm[1] / made.radius_mm)


def slabs(rng: Random) -> Strange:
    """Time of flight in slabs: in each blood loses 15 to 45 % of its signal, and gets it back at the next."""
    made, lost, count = scene(rng, ct=False), rng.uniform(0.15, 0.45), int(rng.integers(2, 5))
    z = made.places[..., 2] / (2 * np.abs(made.places[..., 2]).max()) + 0.5
    made.fill(1 - lost * (z * count % 1.0))
    return _usual(made, lost=lost, count=count)


def curved_greys(rng: Random) -> Strange:
    """An image exported as 8 bits by a curve: the power of 0.5 to 2 of what lies between air and above blood."""
    made, power = scene(rng), float(np.exp(rng.uniform(np.log(0.5), np.log(2.0))))
    drawn = _usual(made, power=power)
    low, high = made.tissue - 300, made.blood + 0.5 * (made.blood - made.tissue)

    def grey(values: np.ndarray) -> np.ndarray:
        return np.asarray(255 * np.clip((values - low) / (high - low), 0, 1) ** power)

    half_way = float(grey(np.array([made.blood, made.tissue])).mean())
    image = drawn.image.with_voxels(np.rint(grey(drawn.image.voxels)).astype(np.float32))
    return replace(drawn, image=image, ct=False, half_way=half_way)


def other_axes(rng: Random) -> Strange:
    """MR whose axes are permuted and turned round, slices first or columns first, as programs write NRRD and NIfTI."""
    made = scene(rng, ct=False)
    drawn = _usual(made)
    order = rng.permutation(3)
    volume = drawn.image
    voxels = np.transpose(volume.voxels, 2 - order[::-1])
    direction = volume.direction[:, order]
    spacing = tuple(float(volume.spacing_mm[n]) for n in order)
    seed, origin = [drawn.seed[n] for n in order], np.array(volume.origin_mm)
    turned = [n for n in range(3) if rng.random() < 0.5]
    if (np.linalg.det(direction) < 0) == (len(turned) % 2 == 0):
        turned = [n for n in range(3) if n not in turned]  # right-handed
    for n in turned:
        last = voxels.shape[2 - n] - 1
        origin = origin + direction[:, n] * last * spacing[n]
        direction = direction * np.where(np.arange(3) == n, -1, 1)
        voxels, seed[n] = np.flip(voxels, 2 - n), last - seed[n]
    image = Volume(
        np.ascontiguousarray(voxels),
        (spacing[0], spacing[1], spacing[2]),
        (float(origin[0]), float(origin[1]), float(origin[2])),
        direction,
    )
    return replace(drawn, image=image, seed=(int(seed[0]), int(seed[1]), int(seed[2])))


def phase_contrast(rng: Random) -> Strange:
    """Magnitude of 4D flow: voxels of a sixth to a third of the radius, contrast of 5 to 9 times the noise."""
    radius = rng.uniform(7, 14)
    step = radius / rng.uniform(3.5, 6)
    made = scene(rng, ct=False, radius=(radius, radius), spacing=(step, step, step * rng.uniform(1, 1.2)))
    made.blood = made.tissue * rng.uniform(1.8, 3)
    made.fill(np.ones_like(made.lumen))
    return made.finished(0.7 * step, (made.blood - made.tissue) / rng.uniform(5, 9))


def hair(rng: Random) -> Strange:
    """CT or MR of a vessel of 1.2 to 3 voxels in radius, 36 to 56 voxels of it; branches are half to 0.85 as thick."""
    radius = rng.uniform(0.6, 1.8)
    step = radius / rng.uniform(1.2, 3.0)
    half, forked, ct = rng.uniform(18, 28) * step, rng.random() < 0.5, bool(rng.random() < 0.5)
    lines = fork(rng, radius, half) if forked else tube(rng, radius, half)
    wide = (0.55 if forked else 0.4) * half + 5 * step
    spacing = (step, step, step * rng.uniform(1, 1.3))
    size = (int(2 * wide / step), int(2 * wide / step), int(2 * half / spacing[2]))
    tissue = rng.uniform(20, 70) if ct else rng.uniform(60, 150)
    made = Scene(rng, spacing, size, lines, tissue, tissue + rng.uniform(250, 450), ct)
    return _usual(made)


KINDS: dict[str, Callable[[Random], Strange]] = {
    "sharp-stent": sharp_stent,
    "sharp-calcium": sharp_calcium,
    "rings": rings,
    "steps": steps,
    "ghosts": ghosts,
    "slabs": slabs,
    "curved-greys": curved_greys,
    "other-axes": other_axes,
    "phase-contrast": phase_contrast,
    "hair": hair,
}
