# SPDX-License-Identifier: Apache-2.0
"""Operated vessels, and images as scanners spoil them, drawn at random: bypass grafts, voids of a jet, wrap-around,
walls doubled by motion, round fields that cut a vessel, and veins and organs that take up contrast.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy import ndimage

from tests.support.crops import line
from tests.support.strange_images import Scene, Strange, _usual, scene

Random = np.random.Generator


def graft(rng: Random) -> Strange:
    """CT of a bypass sewn end to side on an artery of 1.5 to 4 mm: 0.6 to 1.5 of its radius, 25 to 65 degrees aslant.

    The artery is closed before the anastomosis in every second one. Clips of 2000 to 8000 HU lie on the graft in half
    of them, 3 to 6 mm long, clipped at 3071.
    """
    radius, wide = rng.uniform(1.5, 4), rng.uniform(0.6, 1.5)
    half, angle = radius * rng.uniform(5, 7), np.radians(rng.uniform(25, 65))
    step = radius / rng.uniform(4, 7)
    spacing = (step, step, step * rng.uniform(1, 1.5))
    closed = bool(rng.random() < 0.5)
    start = -1.2 * radius if closed else -2 * half
    native = line([[0, 0, start], [0, 0, half / 2], [0.1 * half, 0, 2 * half]], [radius, radius, 0.9 * radius], 1)
    way = np.array([np.sin(angle), 0.1 * rng.normal(), -np.cos(angle)])
    sewn = line(
        [[0, 0, 0], (half * way).tolist(), (3 * half * way + [0, 0, -half]).tolist()],
        [0.95 * wide * radius] + 2 * [wide * radius],
        1,
    )
    size = (int(2.2 * half / step), int(2 * 3.5 * radius / step), int(2 * half / spacing[2]))
    tissue = rng.uniform(20, 60)
    made = Scene(rng, spacing, size, [native, sewn], tissue, tissue + rng.uniform(250, 450), True)
    clips = int(rng.integers(2, 5)) if rng.random() < 0.5 else 0
    metal, words = np.zeros_like(made.lumen), []
    reach = np.array(made.size) / 2 * spacing
    course = sewn[0][np.all(np.abs(sewn[0]) < 0.8 * reach, axis=1)]
    course = course[np.linalg.norm(course, axis=1) > 1.5 * radius * (1 + wide)]
    for _ in range(clips if len(course) > 2 else 0):
        k = int(rng.integers(1, len(course) - 1))
        along = course[k + 1] - course[k - 1]
        side = made.across(along / np.linalg.norm(along))
        thick, long, level = rng.uniform(0.3, 0.6), rng.uniform(3, 6), rng.uniform(2000, 8000)
        centre = course[k] + (wide * radius + thick + rng.uniform(0, 0.7)) * side
        turn = rng.normal(size=3)
        turn -= (turn @ side) * side
        turn /= np.linalg.norm(turn)

        def clip(points, centre=centre, turn=turn, thick=thick, long=long):
            s = np.clip((points - centre) @ turn, -long / 2, long / 2)
            return np.linalg.norm(points - centre - np.outer(s, turn), axis=1) - thick

        part = made.part(clip) * (1 - made.lumen)
        made.put(part, level)
        metal = np.maximum(metal, part)
        words.append(level)
    drawn = _usual(made, wide=wide, angle=float(np.degrees(angle)), clips=words, closed=closed)
    clipped = np.minimum(drawn.image.voxels, 3071)
    z = float(rng.uniform(0.4, 0.7)) * half
    place = np.rint(np.array([0, 0, z]) / spacing + (np.array(made.size) - 1) / 2).astype(int)
    return replace(drawn, image=drawn.image.with_voxels(clipped), seed=(int(place[0]), int(place[1]), int(place[2])))


def jet_void(rng: Random, beyond: bool = False) -> Strange:
    """MR of a stenosis of 40 to 70 % of the diameter; in the middle of its jet 50 to 100 % of the signal is lost.

    The void begins in the throat, is 2 to 6 radii long and 0.3 to 0.7 of the radius wide: it may fill the throat.
    """
    made = scene(rng, ct=False, forked=False)
    point, along, radius = made.middle(0.4)
    tight, long = rng.uniform(0.4, 0.7), radius * rng.uniform(0.8, 2)
    made.narrow(point, tight, long)
    made.radius_mm = radius
    lost, reach, wide = rng.uniform(0.5, 1.0), radius * rng.uniform(2, 6), radius * rng.uniform(0.3, 0.7)
    s = (made.places - point) @ along - (1.5 * long if beyond else 0.0)
    across = np.linalg.norm(made.places - point - s[..., None] * along, axis=-1)
    jet = np.clip(1.5 - 1.5 * across / wide, 0, 1) * np.clip(1 - np.abs(2 * s / reach - 1), 0, 0.3) / 0.3
    made.fill(1 - lost * jet)
    return replace(_usual(made, tight=tight, lost=lost, wide=wide / radius), seed=made.seed_at(0.1))


def jet_core(rng: Random) -> Strange:
    """The same, but the void begins beyond the throat, where blood is bright all around it."""
    return jet_void(rng, beyond=True)


def wrapped(rng: Random) -> Strange:
    """MR whose field of view is too small: what lies beyond one side appears on the other, 30 to 120 % of the tissue.

    It covers 25 to 70 % of the image; its brightness has waves, and a bright rim as fat has.
    """
    made = scene(rng, ct=False)
    sign, cover = rng.choice([-1.0, 1.0]), rng.uniform(0.25, 0.7)
    wide = made.size[0] * made.spacing_mm[0]
    bend = rng.uniform(0, 0.2) * wide
    edge = wide / 2 - cover * wide + bend * (made.places[..., 2] / np.abs(made.places).max()) ** 2
    deep = sign * made.places[..., 0] - edge
    level, fat = rng.uniform(0.3, 1.2) * made.tissue, rng.uniform(0.5, 1.5) * made.tissue
    waves = 1 + 0.2 * np.sin(made.places @ rng.normal(size=3) / made.radius_mm)
    rim = np.exp(-(((deep - 0.5 * made.radius_mm) / (0.4 * made.radius_mm)) ** 2))
    made.voxels = made.voxels + (deep > 0) * (level * waves + fat * rim)
    return _usual(made, cover=cover, level=level / made.tissue, fat=fat / made.tissue)


def doubled(rng: Random) -> Strange:
    """CT in which a stretch of the vessel stands twice, as the aorta moves while it is taken: 0.1 to 0.6 radii apart.

    Each has 30 to 70 % of the weight.
    """
    made = scene(rng, radius=(4, 14))
    apart, weight = rng.uniform(0.1, 0.6) * made.radius_mm, rng.uniform(0.3, 0.7)
    turn = rng.uniform(0, 2 * np.pi)
    shift = apart * np.array([np.cos(turn), np.sin(turn)]) / made.spacing_mm[:2]
    other = ndimage.shift(made.voxels, (0, shift[1], shift[0]), order=1, mode="nearest")
    low, high = sorted(rng.uniform(-1, 1, 2) * np.abs(made.places[..., 2]).max())
    soft = made.spacing_mm[2]
    z = made.places[..., 2]
    moved = np.clip((z - low) / soft, 0, 1) * np.clip((high - z) / soft, 0, 1)
    made.voxels = made.voxels + moved * weight * (other - made.voxels)
    part = float((made.lumen * (moved > 0.5)).sum() / made.lumen.sum())
    return _usual(made, apart=apart / made.radius_mm, weight=weight, part=part)


def round_field(rng: Random) -> Strange:
    """CT whose round field of view cuts the vessel aslant; -3024 to -1024 beyond it."""
    made = scene(rng, forked=False, tilt=60, wide=4.5)
    drawn = _usual(made)
    half = min(made.size[0] * made.spacing_mm[0], made.size[1] * made.spacing_mm[1]) / 2
    along = made.middle(0.5)[1]
    turn = along[:2] / (np.linalg.norm(along[:2]) + 1e-9)
    shift, field = rng.uniform(0.2, 0.5) * half * turn, rng.uniform(0.75, 0.95) * half
    inside = np.hypot(made.places[..., 0] + shift[0], made.places[..., 1] + shift[1]) < field
    voxels = np.where(inside, drawn.image.voxels, float(rng.choice([-2000.0, -1024.0, -3024.0])))
    made.lumen = made.lumen * inside
    core = ndimage.label(made.lumen > 0.5)[0]
    x, y, z = drawn.seed
    kept = core == core[z, y, x] if core[z, y, x] else core == 1 + int(np.bincount(core.ravel())[1:].argmax())
    made.lumen = made.lumen * ndimage.binary_dilation(kept)
    depth = ndimage.distance_transform_edt(np.pad(kept, 1, mode="edge"), sampling=made.spacing_mm[::-1])[
        1:-1, 1:-1, 1:-1
    ]
    z, y, x = (int(n) for n in np.unravel_index(int((depth * kept).argmax()), depth.shape))
    outer = np.pad(inside, 1, constant_values=False)
    shell = inside & ~ndimage.binary_erosion(outer, iterations=1)[1:-1, 1:-1, 1:-1]
    labels, count = ndimage.label(kept & shell, np.ones((3, 3, 3)))
    openings = int((np.bincount(labels.ravel())[1:] >= 4).sum()) if count else 0
    volume = float(made.lumen.sum() * np.prod(made.spacing_mm) / 1000)
    words = drawn.words | {"field": field / half, "slope": float(np.degrees(np.arccos(abs(along[2]))))}
    return replace(
        drawn,
        image=drawn.image.with_voxels(voxels.astype(np.float32)),
        volume_ml=volume,
        openings=openings,
        seed=(x, y, z),
        words=words,
    )


def between_phases(rng: Random) -> Strange:
    """CT between the arterial and the venous phase: contrast falls to 60 to 100 % along the artery.

    A vein of 40 to 95 % of the contrast runs 0.5 to 2 voxels beside it, and an organ of 30 to 60 % 0 to 1 radii away.
    """
    made, rest = scene(rng, forked=False, wide=4.5), rng.uniform(0.6, 1.0)
    made.fill(1 - (1 - rest) * made.along())
    contrast = made.blood - made.tissue
    points, radii = made.lines[0]
    _, along, radius = made.middle(0.5)
    side, other, gap = made.across(along), radius * rng.uniform(0.7, 1.4), rng.uniform(0.5, 2) * made.spacing_mm[0]
    vein, organ = rng.uniform(0.4, 0.95), rng.uniform(0.3, 0.6)
    course = points + (radii + other + gap)[:, None] * side
    beside = Scene(rng, made.spacing_mm, made.size, [(course, np.full(len(course), other))], 0, 1, True).lumen
    made.beside(beside, made.tissue + vein * contrast)
    far = -side @ (points[len(points) // 2]) + rng.uniform(1.0, 2.0) * radius
    made.beside(made.part(lambda at: far - at @ -side) * (1 - beside), made.tissue + organ * contrast)
    return _usual(made, rest=rest, vein=vein, organ=organ, gap_voxels=gap / made.spacing_mm[0])


KINDS: dict[str, Callable[[Random], Strange]] = {
    "graft": graft,
    "jet-void": jet_void,
    "wrapped": wrapped,
    "doubled": doubled,
    "round-field": round_field,
    "between-phases": between_phases,
    "jet-core": jet_core,
}
