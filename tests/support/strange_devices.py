# SPDX-License-Identifier: Apache-2.0
"""More images as strangers bring them: thrombus in layers, metal, coils, mesh stents, fields of coils, mixed blood."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.spatial import cKDTree

from tests.support.crops import _away
from tests.support.strange_images import Floats, Places, Scene, Strange, _usual, scene

METAL = 3071.0
"""Highest number of 12 bits in CT."""


def _waves(rng: np.random.Generator, least: float, most: float) -> Callable[[Places], Floats]:
    """A smooth uneven field over places, about -1 to 1, with waves of such lengths."""
    turns = rng.normal(size=(6, 3))
    turns *= (2 * np.pi / rng.uniform(least, most, 6) / np.linalg.norm(turns, axis=1))[:, None]
    phases = rng.uniform(0, 2 * np.pi, 6)
    return lambda points: np.asarray(np.sin(points @ turns.T + phases).sum(axis=-1) / 3)


def _flat(made: Scene, of: Callable[[Places], Floats]) -> Floats:
    """Values at the middle of each voxel."""
    return of(made.places.reshape(-1, 3)).reshape(made.lumen.shape)


def layered_thrombus(rng: np.random.Generator, least: float = -0.1, most: float = 0.2) -> Strange:
    """Mural thrombus up to a radius thick along part of the vessel: -10 to 20 % of the contrast, layers 10 % about it.

    It lies on the lumen, whose face is uneven by up to a fifth of the radius; in CT or MR.
    """
    made = scene(rng, ct=bool(rng.random() < 0.7), forked=False, wide=4.5, radius=(4, 12))
    centre, along, radius = made.middle(0.5)
    rough, waves = rng.uniform(0, 0.2) * radius, _waves(rng, 1.2 * radius, 3 * radius)
    thick, reach = rng.uniform(0.3, 1.0) * radius, rng.uniform(1.5, 4) * radius
    aside, layer = made.across(along), rng.uniform(0.15, 0.4) * radius
    levels = rng.uniform(least, most) + rng.uniform(-0.1, 0.1, 12)

    def face(points: Places) -> Floats:
        s = np.abs((points - centre) @ along) / reach
        return _away(made.lines, points) + rough * np.clip(2 * (1 - s), 0, 1) * (1 + waves(points)) / 2

    made.lumen = made.part(face)
    made.fill(np.ones_like(made.lumen))

    def clot(points: Places) -> Floats:
        s, turn = np.abs((points - centre) @ along) / reach, (points - centre) @ aside / radius
        return _away(made.lines, points) - thick * np.clip(1 - s**2, 0, 1) * (0.6 + 0.4 * np.clip(turn, -1, 1))

    sleeve, depth = made.part(clot), _flat(made, face)
    level = levels[np.clip((depth / layer).astype(int), 0, 11)] * (made.blood - made.tissue)
    made.voxels = made.voxels + sleeve * (1 - made.lumen) * level
    return _usual(made, rough=rough / radius, thick=thick / radius, levels=levels[:4].tolist())


def bright_thrombus(rng: np.random.Generator) -> Strange:
    """The same of 15 to 35 % of the contrast, layers of 5 to 45 %."""
    return layered_thrombus(rng, 0.15, 0.35)


def _rays(made: Scene, centre: Floats, size: float, strength: float) -> None:
    """Bright and dark rays in the slices of a piece of metal, as strong as that at two radii of the vessel from it."""
    count = int(made.rng.integers(6, 16))
    turns, widths = made.rng.uniform(0, 2 * np.pi, count), np.radians(made.rng.uniform(3, 12, count))
    signs = made.rng.choice([-1, 1], count) * made.rng.uniform(0.4, 1, count)
    offset = made.places - centre
    angle, away = np.arctan2(offset[..., 1], offset[..., 0]), np.hypot(offset[..., 0], offset[..., 1])
    pattern = np.zeros_like(angle)
    for turn, width, sign in zip(turns, widths, signs, strict=True):
        pattern += sign * np.exp(-((np.angle(np.exp(1j * (angle - turn))) / width) ** 2))
    fall = np.minimum(2 * made.radius_mm / np.maximum(away, 1e-6), 3)
    slices = np.exp(-np.maximum(np.abs(offset[..., 2]) - size, 0) / made.spacing_mm[2])
    made.voxels = made.voxels + strength * (made.blood - made.tissue) * np.clip(pattern, -1, 1) * fall * slices


def metal_streaks(rng: np.random.Generator) -> Strange:
    """CT: a filling or a clip 2 to 3.5 radii from the vessel, whose bright and dark rays of 15 to 50 % cross it."""
    made = scene(rng)
    point, along, radius = made.middle()
    size, strength = rng.uniform(0.4, 1.0) * radius, rng.uniform(0.15, 0.5)
    side = made.across(along)
    centre = point + (rng.uniform(2, 3.5) * radius + size) * side
    _rays(made, centre, size, strength)
    made.put(made.part(lambda points: np.linalg.norm(points - centre, axis=1) - size), METAL)
    return _usual(made, strength=strength, size=size / radius)


def coil_mass(rng: np.random.Generator) -> Strange:
    """An aneurysm whose dome is packed with coils, down to a neck: metal with rays in CT, a void in MR.

    The vessel is what of it is open.
    """
    made = scene(rng, ct=bool(rng.random() < 0.6), forked=False, wide=4.5)
    point, along, radius = made.middle(0.5)
    size, packed, side = rng.uniform(1.0, 2.0) * radius, rng.uniform(0.5, 1.0), made.across(along)
    centre, rays = point + (radius + rng.uniform(0.3, 0.8) * size) * side, 0.0
    sphere = lambda points: np.linalg.norm(points - centre, axis=1) - size  # noqa: E731
    sac = made.part(sphere)
    neck = lambda points: (1 - 2 * packed) * size - (points - centre) @ side  # noqa: E731
    coils = made.part(lambda at: np.maximum(np.maximum(sphere(at), neck(at)), -_away(made.lines, at)))
    made.lumen = np.maximum(made.lumen, sac) * (1 - coils)
    made.fill(np.ones_like(made.lumen))
    if made.ct:
        rays = rng.choice([0.0, rng.uniform(0.1, 0.3)])
        _rays(made, centre, size, rays)
    made.voxels = made.voxels + coils * ((METAL if made.ct else 0.1 * made.tissue) - made.tissue)
    return _usual(made, size=size / radius, packed=packed, rays=rays, image="CT" if made.ct else "MR")


def smooth_field(rng: np.random.Generator) -> Strange:
    """MR: the uneven field of two surface coils, which falls to 30 to 70 % within the image."""
    made, field, rest = scene(rng, ct=False), 0.0, rng.uniform(0.3, 0.7)
    waves, size = _waves(rng, 10 * made.radius_mm, 25 * made.radius_mm), np.ptp(made.places, axis=(0, 1, 2))
    for _ in range(2):
        coil = rng.normal(size=3)
        coil *= 0.7 * np.linalg.norm(size) / np.linalg.norm(coil)
        away = np.linalg.norm(made.places - coil, axis=-1)
        field = field + np.exp(2 * np.log(rest) * (away - away.min()) / np.ptp(away))
    field = np.sqrt(field) * (1 + 0.1 * _flat(made, waves))
    made.voxels = made.voxels * field / field.mean()
    within = field[made.lumen > 0.5]
    return _usual(made, rest=rest, in_the_vessel=float(within.min() / within.max()))


def mesh_stent(rng: np.random.Generator) -> Strange:
    """CT: a mesh of wires in the wall over part of the vessel, whose blur blooms; blood within is up to 35 % darker."""
    made, dark = scene(rng, forked=False), rng.uniform(0.65, 1.0)
    points = made.lines[0][0]
    centre, along, radius = made.middle()
    wire, count = rng.uniform(0.015, 0.045) * radius, int(rng.integers(4, 9))
    pitch, reach = rng.uniform(2, 4) * radius, rng.uniform(1.5, 3) * radius
    steps = np.concatenate([[0.0], np.linalg.norm(np.diff(points, axis=0), axis=1)]).cumsum()
    places = np.linspace(0, steps[-1], 2000)
    fine = np.stack([np.interp(places, steps, axis) for axis in points.T], axis=1)
    tree, first = cKDTree(fine), made.across(along)
    second, middle = np.cross(along, first), places[cKDTree(fine).query(centre)[1]]

    def mesh(at: Places) -> Floats:
        nearest = tree.query(at)[1]
        offset, s = at - fine[nearest], places[nearest] - middle
        turn = np.arctan2(offset @ second, offset @ first)
        wires = [
            np.abs(np.angle(np.exp(1j * (count * turn + way * 2 * np.pi * count * s / pitch)))) for way in (-1.0, 1.0)
        ]
        aslant = radius / count / np.hypot(1, 2 * np.pi * radius / pitch)
        tube = np.hypot(_away(made.lines, at) - wire, np.minimum(*wires) * aslant) - wire
        return np.maximum(tube, np.abs(s) - reach)

    inside = np.abs((made.places - centre) @ along) < reach
    made.fill(np.where(inside, dark, 1.0))
    metal = made.part(mesh)
    made.put(metal, rng.uniform(4000, 10000))
    drawn = made.finished(
        made.spacing_mm[0] * rng.uniform(0.6, 1.1),
        (made.blood - made.tissue) / rng.uniform(10, 25),
        wire=wire / made.spacing_mm[0],
        dark=dark,
        mesh=count,
    )
    return replace(drawn, seed=made.seed_at(float(rng.uniform(0.1, 0.9))))


def dim_part(rng: np.random.Generator) -> Strange:
    """Blood of 50 to 75 % of the contrast in the first 30 to 50 % of the vessel, where the seed lies; in CT or MR."""
    made = scene(rng, ct=bool(rng.random() < 0.5), forked=False)
    rest, at = rng.uniform(0.5, 0.75), rng.uniform(0.3, 0.5)
    made.fill(np.where(made.along() < at, rest, 1.0))
    return replace(_usual(made, rest=rest, at=at), seed=made.seed_at(0.15))


KINDS: dict[str, Callable[[np.random.Generator], Strange]] = {
    "layered-thrombus": layered_thrombus,
    "metal-streaks": metal_streaks,
    "coil-mass": coil_mass,
    "smooth-field": smooth_field,
    "mesh-stent": mesh_stent,
    "dim-part": dim_part,
    "bright-thrombus": bright_thrombus,
}
