# SPDX-License-Identifier: Apache-2.0
"""Images as clinics make them, drawn at random: padding and clipping, a siphon beside the base of the skull, and
time of flight that saturates behind bends.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy import ndimage

from tests.support.crops import line
from tests.support.strange_images import Scene, Strange, _usual, scene

Random = np.random.Generator


def padded(rng: Random) -> Strange:
    """CT whose field of view is round, -2000 to -1024 beyond it, with bone and metal clipped at 3071; the field cuts no
    vessel in most.
    """
    made = scene(rng)
    point, _, radius = made.middle(0.5)
    for level in (rng.uniform(600, 1200), 4000.0):
        side = made.across(np.array([0, 0, 1.0]))
        centre, size = point + rng.uniform(3.0, 3.5) * radius * side, rng.uniform(0.4, 1.0) * radius
        made.beside(made.part(lambda points, c=centre, s=size: np.linalg.norm(points - c, axis=1) - s), level)
    drawn = _usual(made)
    wide = min(made.size[0] * made.spacing_mm[0], made.size[1] * made.spacing_mm[1]) / 2
    field = rng.uniform(0.97, 1.1) * wide
    padding = float(rng.choice([-2000.0, -1024.0, -3024.0]))
    inside = np.hypot(made.places[..., 0], made.places[..., 1]) < field
    voxels = np.where(inside, drawn.image.voxels, padding)
    volume = float((made.lumen * inside).sum() * np.prod(made.spacing_mm) / 1000)
    words = drawn.words | {"padding": padding, "field": field / wide}
    clipped = np.minimum(voxels, 3071).astype(np.float32)
    return replace(drawn, image=drawn.image.with_voxels(clipped), volume_ml=volume, words=words)


def _siphon(rng: Random, radius: float) -> list:
    """A vessel that goes up, bends back twice within some radii, and up again, in the middle of the image."""
    tight = radius * rng.uniform(2.2, 3.2)
    knots = [[0, 0, -12], [0, 0, -5], [0.2, 0.3, -2.4], [1.8, 0.4, -1.2], [2.6, 0.2, 0.2], [1.4, -0.2, 1.4]]
    knots += [[0.1, 0.2, 2.2], [0.4, 0.4, 3.8], [1.6, 0.3, 5.4], [2.2, 0.1, 12]]
    turns = np.array(knots, float)
    turns[1:-1] += rng.uniform(-0.25, 0.25, (len(turns) - 2, 3))
    taper = np.linspace(1, rng.uniform(0.75, 1), len(turns))
    siphon = line((tight * turns).tolist(), (radius * taper).tolist(), 1)
    points = siphon[0]
    points -= [*(points[:, :2].max(axis=0) + points[:, :2].min(axis=0)) / 2, np.median(points[:, 2])]
    return [siphon]


def siphon(rng: Random) -> Strange:
    """A carotid siphon of 1.6 to 2.6 mm in CT with pixels of 0.4 mm and slices of 0.8 to 1 mm; bone of 350 to 900 HU
    passes within 0.3 to 2 mm of it.
    """
    radius, thick = rng.uniform(1.6, 2.6), rng.uniform(0.8, 1.0)
    lines = _siphon(rng, radius)
    size = (int(17 * radius / 0.4), int(13 * radius / 0.4), int(19 * radius / thick))
    tissue = rng.uniform(30, 60)
    made = Scene(rng, (0.4, 0.4, thick), size, lines, tissue, tissue + rng.uniform(250, 420), True)
    gap, level = rng.uniform(0.3, 2.0), rng.uniform(350, 900)
    point, along, wide = made.middle(float(rng.uniform(0.3, 0.6)))
    side = made.across(along)

    def bone(places):
        off = (places - point) @ side
        return np.maximum(wide + gap - off, off - wide - gap - 2.5 * radius)

    made.beside(made.part(bone) * (ndimage.gaussian_filter(made.lumen, 2) < 0.9), level)
    return replace(_usual(made, gap=gap, level=level), seed=made.seed_at(0.2))


def bends_in_flow(rng: Random) -> Strange:
    """Time of flight of 0.5 x 0.5 x 0.6 mm: the signal falls behind each bend to 45 to 80 % on its inner side."""
    radius = rng.uniform(1.5, 2.6)
    lines = _siphon(rng, radius)
    size = (int(17 * radius / 0.5), int(13 * radius / 0.5), int(19 * radius / 0.6))
    scale = rng.uniform(0.3, 4)
    tissue = scale * rng.uniform(60, 150)
    made = Scene(rng, (0.5, 0.5, 0.6), size, lines, tissue, tissue + scale * rng.uniform(250, 500), False)
    rest, words = np.ones_like(made.lumen), []
    for at in (0.42, 0.6):
        point, along, wide = made.middle(at + float(rng.uniform(-0.06, 0.06)))
        side, low = made.across(along), rng.uniform(0.45, 0.8)
        centre = point + 0.6 * wide * side + 0.8 * wide * along
        away = np.linalg.norm(made.places - centre, axis=-1) / (1.1 * wide)
        rest = rest * (1 - (1 - low) * np.exp(-(away**2)))
        words.append(float(low))
    made.fill(rest)
    return replace(_usual(made, rest=words), seed=made.seed_at(0.2))


KINDS: dict[str, Callable[[Random], Strange]] = {"padded": padded, "siphon": siphon, "bends-in-flow": bends_in_flow}
