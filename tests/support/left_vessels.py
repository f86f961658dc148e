# SPDX-License-Identifier: Apache-2.0
"""Masks of vessels, and of vessels that have been left for a heart or a vein, drawn at random."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial.transform import Rotation

from tests.support.crops import Line, _away, line
from tests.support.random_sacs import _across, _fork, _is_clear, _parent, _standing

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Left:
    """A mask.

    Attributes
    ----------
    words : what it is, for messages.
    mask : (Z, Y, X) bool, one six-connected part.
    seed : voxel x, y, z in the vessel.
    voxel_mm : size.
    vessel : (Z, Y, X) bool, what of the mask is the vessel.
    """

    words: str
    mask: NDArray[np.bool_]
    seed: tuple[int, int, int]
    voxel_mm: float
    vessel: NDArray[np.bool_]


@dataclass(frozen=True)
class Ball:
    """An ellipsoid: centre, half axes, and its axes as columns."""

    centre: Floats
    axes: Floats
    turn: Floats

    def away(self, points: Floats) -> Floats:
        """Distance to its surface, to first order, negative inside."""
        offset = (points - self.centre) @ self.turn / self.axes
        norm = np.linalg.norm(offset, axis=-1)
        return np.asarray(norm * (norm - 1) / np.maximum(np.linalg.norm(offset / self.axes, axis=-1), 1e-9))


def heart(seed: int) -> Left:
    """An aorta of 9 to 17 mm, straight or an arch, on a left ventricle of 1.1 to 2 times its radius, behind a valve of
    0.2 to 1 of it; in three of five with an atrium behind a second valve, most of these with veins, and in two of five
    with a right ventricle that touches.
    """
    random = np.random.default_rng([21, seed])
    radius = float(random.uniform(9, 17))
    valve, wide = radius * random.uniform(0.2, 1.0), radius * random.uniform(1.1, 2.0)
    long = wide * random.uniform(1.2, 2.0)
    points, arch = _aorta(random)
    widths = np.linspace(1, random.uniform(0.75, 1.05), len(points)) * radius
    aorta = line((points * radius).tolist(), widths.tolist(), 1.0)
    down = Rotation.from_euler("xy", random.uniform(-40, 40, 2), degrees=True).apply([0, 0, -1.0])
    turn = Rotation.align_vectors([down], [[0, 0, 1.0]])[0].as_matrix()
    centre = down * (radius * random.uniform(0.6, 1.6) + 0.93 * long)
    tubes = [_straight(np.zeros(3), centre, valve)]
    balls = [Ball(centre, np.array([wide, wide * random.uniform(0.9, 1.1), long]), turn)]
    words = f"aorta of {radius:.0f} mm, valve {valve / radius:.2f}, ventricle {wide / radius:.2f}"
    if random.random() < 0.6:
        atrium, joint = _atrium(random, radius, balls[0], turn @ np.array([1.0, 0, 0]))
        balls, tubes = [*balls, atrium], [*tubes, joint]
        words += f", atrium {atrium.axes.min() / radius:.2f}"
        if random.random() < 0.7:
            tubes += [_vein_of(random, atrium, turn[:, 0]) for _ in range(int(random.integers(2, 5)))]
            words += " with veins"
    if random.random() < 0.4:
        size = wide * random.uniform(1.0, 1.5)
        aside = turn @ np.array([-1, random.uniform(-0.5, 0.5), 0])
        right = centre + aside / np.linalg.norm(aside) * (wide + 1.15 * size)
        balls.append(Ball(right, size * np.array([1.0, 1.1, 1.4]), turn))
        tubes.append(_straight(centre, right, float(random.uniform(1.5, 4))))
        words += ", right ventricle"
    low, high = _around([aorta, *tubes], balls, radius + float(random.uniform(2, 8)))
    if arch and random.random() < 0.5:
        low[2] = max(low[2], min(aorta[0][-1, 2] + radius, centre[2] - long))
    elif not arch:
        high[2] = aorta[0][-1, 2] - 0.5 * radius
    place = aorta[0][int(random.uniform(0.15, 0.95 if arch else 0.8) * 59)]
    return _masked(random, words, [aorta], tubes, balls, low, high, radius / float(random.uniform(5, 9)), place)


def _aorta(random: np.random.Generator) -> tuple[Floats, bool]:
    """Points of an aorta from the valve at the origin on, in its radii, and whether it is an arch."""
    if random.random() < 0.5:
        legs = [[0, 0, 0], [-2, 0, 3], [0, 2, 6], [4, 4, 8], [8, 5, 6], [9, 6, 2], [9, 6, -3], [9, 6, -8]]
        return 0.9 * np.array(legs, float), True
    bend = random.uniform(0, 1.2)
    return np.array([[0, 0, 0], [bend / 2, 0, 2], [bend, bend / 2, 4], [bend, bend, 6 + random.uniform(0, 4)]]), False


def _atrium(random: np.random.Generator, radius: float, ventricle: Ball, side: Floats) -> tuple[Ball, Line]:
    """An atrium beside a ventricle, and the valve between."""
    size, (wide, _, long), down = radius * random.uniform(1.2, 1.9), ventricle.axes, ventricle.turn[:, 2]
    centre = ventricle.centre - 0.45 * long * down + side * (0.8 * wide + size * random.uniform(1.0, 1.15))
    turn = Rotation.random(random_state=int(random.integers(1 << 30))).as_matrix()
    joint = _straight(ventricle.centre - 0.5 * long * down + 0.5 * wide * side, centre, wide * random.uniform(0.3, 0.8))
    return Ball(centre, size * random.uniform(0.9, 1.3, 3), turn), joint


def _vein_of(random: np.random.Generator, atrium: Ball, side: Floats) -> Line:
    way = random.normal(size=3)
    way *= np.sign(way @ side) / np.linalg.norm(way)
    end = atrium.centre + way * atrium.axes.min() * random.uniform(2, 4)
    points, radii = _straight(atrium.centre, end, float(random.uniform(3, 7)))
    return points, radii * np.linspace(1, 0.7, len(radii))


def vein(seed: int) -> Left:
    """A vessel of 2 to 12 mm and another of 0.7 to 1.5 times its radius, which touches it and crosses it at 15 to 60
    degrees.
    """
    random = np.random.default_rng([22, seed])
    radius, size = float(random.uniform(2, 12)), float(random.uniform(0.7, 1.5))
    along, bend = np.linspace(-0.5, 0.5, 100) * random.uniform(10, 20), random.uniform(0, 1)
    points = np.stack([bend * np.cos(along / 4), bend * np.sin(along / 4), along], axis=1)
    angle, side = np.radians(random.uniform(15, 60)), random.uniform(0, 2 * np.pi)
    out = np.array([np.cos(side), np.sin(side), 0])
    way = np.array([-np.sin(side) * np.sin(angle), np.cos(side) * np.sin(angle), np.cos(angle)])
    deep = random.uniform(0.02, 0.25)
    other = points[50] + out * (1 + size - deep) + along[:, None] * way
    other += random.uniform(0, 0.03) * along[:, None] ** 2 * out
    low, high = np.minimum(points.min(axis=0), other.min(axis=0)), np.maximum(points.max(axis=0), other.max(axis=0))
    low, high = low - np.array([2, 2, -1]), high + np.array([2, 2, -1])
    lines = [(points * radius, np.full(100, radius)), (other * radius, np.full(100, size * radius))]
    place = points[int(random.integers(25, 75))] * radius
    words = f"vein of {size:.2f} radii, {deep:.2f} deep, at {np.degrees(angle):.0f} degrees"
    voxel_mm = radius / float(random.uniform(4, 7))
    return _masked(random, words, lines[:1], lines[1:], [], low * radius, high * radius, voxel_mm, place)


def sac(seed: int) -> Left:
    """A vessel of 1.5 to 12 mm, a fork of it in half of them, with a sac as in random_sacs.py; cut by the image 3 to 12
    radii behind it; a lobe on some.
    """
    random = np.random.default_rng([23, seed])
    size = float(random.uniform(0.6, 3.5))
    tubes, centre, foot, neck = _with_sac(random, size)
    radius = float(random.uniform(1.5, 12))
    lines = [(tube.points[::8] * radius, tube.radius[::8] * radius) for tube in tubes]
    reach = float(random.uniform(3, 12)) + size
    low, high = _around(lines, [], 1.5 * radius)
    low = np.minimum(np.maximum(low, (foot - reach) * radius), (centre - 1.2 * size) * radius)
    high = np.maximum(np.minimum(high, (foot + reach) * radius), (centre + 1.2 * size) * radius)
    turn = Rotation.random(random_state=seed).as_matrix()
    balls = [Ball(centre * radius, size * radius * random.uniform(0.85, 1.2, 3), turn)]
    if random.random() < 0.3:
        way = random.normal(size=3)
        way *= np.sign(way @ (centre - foot)) / np.linalg.norm(way)
        lobe = size * radius * float(random.uniform(0.3, 0.6))
        balls.append(Ball((centre + 0.9 * size * way) * radius, np.full(3, lobe), np.eye(3)))
    lines.append(_straight(foot * radius, centre * radius, neck * radius))
    voxel_mm = radius / float(random.uniform(4, 8))
    place = _inside(random, lines[:-1], low + voxel_mm, high - voxel_mm)
    words = f"sac of {size:.2f} radii of {radius:.1f} mm, neck {neck / size:.2f} of it, {len(tubes)} tubes"
    return _masked(random, words, lines, [], balls, low, high, voxel_mm, place, vessel_is_all=True)


def _with_sac(random: np.random.Generator, size: float) -> tuple[list, Floats, Floats, float]:
    """Tubes of radius 1, the sac's middle, the place that its neck stands on, and the neck's radius."""
    fork = random.random() < 0.5
    while True:
        away, neck = _standing(random, size)
        if fork:
            first, second = random.uniform(0.65, 0.95, 2)
            tubes = _fork(random, float(random.uniform(60, 100)), float(first), float(second))
            tilt = np.radians(random.uniform(0, 25))
            centre = away * np.array([np.sin(tilt) * np.cos(1.6), np.sin(tilt) * np.sin(1.6), np.cos(tilt)])
            if all(_is_clear(tube, centre, size, 1.1 * neck + 1.5) for tube in tubes[1:]):
                return tubes, centre, np.zeros(3), neck
            continue
        tube = _parent(random, str(random.choice(["straight", "curved", "tortuous"])))
        middle = len(tube.points) // 2 + int(random.uniform(-0.3, 0.3) * len(tube.points))
        along = tube.points[middle + 1] - tube.points[middle - 1]
        centre = tube.points[middle] + away * _across(random, along / np.linalg.norm(along))
        beside = np.abs(np.arange(len(tube.points)) - middle) * 0.05 > 1.1 * size + 1.5
        if (np.linalg.norm(tube.points - centre, axis=1)[beside] > size + 1.35).all():
            return [tube], centre, tube.points[middle], neck


def aneurysm(seed: int) -> Left:
    """A vessel of 4 to 14 mm that widens to 1.3 to 3.5 times its radius over its whole circumference, once or twice; in
    three of five it divides, and one or both branches may widen, too.
    """
    random = np.random.default_rng([24, seed])
    radius, length = float(random.uniform(4, 14)), float(random.uniform(12, 25))
    z, bend = np.linspace(-0.5, 0.5, 200) * length, random.uniform(0, 1.5)
    points = np.stack([bend * np.cos(z / 4), bend * np.sin(z / 4), z], axis=1)
    fork = random.random() < 0.6
    places = [z[0] + random.uniform(2, 6)] if fork else random.uniform(-0.25, 0.25, int(random.integers(1, 3))) * length
    lines = [(points, 1 + sum(_swell(random, z, place) for place in places))]
    for side in (1, -1) if fork else ():
        angle, along = np.radians(random.uniform(15, 45)), np.linspace(0, 12, 100)
        way = np.array([side * np.sin(angle), random.uniform(-0.2, 0.2), -np.cos(angle)])
        widths = np.full(100, random.uniform(0.45, 0.75))
        if random.random() < 0.3:
            widths = widths + 0.6 * _swell(random, along, random.uniform(2, 5))
        lines.append((points[0] + along[:, None] * way, widths))
    return _cut(random, f"aneurysm, {len(places)}, {len(lines)} tubes, {radius:.1f} mm", lines, radius)


def _swell(random: np.random.Generator, along: Floats, place: float) -> Floats:
    return float(random.uniform(0.3, 2.5)) * np.exp(-(((along - place) / random.uniform(0.8, 3)) ** 2))


def narrow(seed: int) -> Left:
    """A vessel of 2 to 14 mm, tapered by up to 0.4, with one or two stenoses of 0.3 to 0.8 and what widens behind them;
    in half of them with one to three branches that are narrow where they begin.
    """
    random = np.random.default_rng([25, seed])
    radius, length = float(random.uniform(2, 14)), float(random.uniform(14, 30))
    z, bend = np.linspace(-0.5, 0.5, 300) * length, random.uniform(0, 2)
    points = np.stack([bend * np.cos(z / 4), bend * np.sin(z / 5), z], axis=1)
    widths = np.linspace(1, random.uniform(0.6, 1.4), 300)
    for place in random.uniform(-0.33, 0.33, int(random.integers(1, 3))) * length:
        widths = widths * (1 - random.uniform(0.3, 0.8) * np.exp(-(((z - place) / random.uniform(0.4, 2)) ** 2)))
        behind = (z - place - random.uniform(1.5, 3)) / random.uniform(1, 2)
        widths = widths * (1 + random.uniform(0, 0.6) * np.exp(-(behind**2)))
    lines = [(points, np.maximum(widths, 0.22))]
    for _ in range(int(random.integers(1, 4)) if random.random() < 0.5 else 0):
        way, along = random.normal(size=3) * [1, 1, 0.4], np.linspace(0, 8, 60)
        ostium = 1 - random.uniform(0, 0.5) * np.exp(-(((along - 1.2) / 0.5) ** 2))
        start = points[int(random.integers(60, 240))]
        lines.append((start + along[:, None] * way / np.linalg.norm(way), random.uniform(0.25, 0.6) * ostium))
    return _cut(random, f"stenoses to {widths.min():.2f} of {radius:.1f} mm, {len(lines)} tubes", lines, radius)


LEFT: dict[str, Callable[[int], Left]] = {"heart": heart, "vein": vein}
VESSELS: dict[str, Callable[[int], Left]] = {"sac": sac, "aneurysm": aneurysm, "narrow": narrow}


def _cut(random: np.random.Generator, words: str, lines: list[Line], radius: float) -> Left:
    """Tubes along z in radii, whose ends the image cuts."""
    lines = [(points * radius, widths * radius) for points, widths in lines]
    low, high = _around(lines, [], 1.5 * radius)
    low[2], high[2] = low[2] + 3 * radius, high[2] - 3 * radius
    voxel_mm = radius / float(random.uniform(4, 7))
    place = _inside(random, lines, low + voxel_mm, high - voxel_mm)
    return _masked(random, words, lines, [], [], low, high, voxel_mm, place, vessel_is_all=True)


def _straight(start: Floats, end: Floats, radius: float) -> Line:
    return np.linspace(start, end, 60), np.full(60, radius)


def _around(lines: list[Line], balls: list[Ball], margin: float) -> tuple[Floats, Floats]:
    points = np.concatenate([points for points, _ in lines])
    low, high = points.min(axis=0), points.max(axis=0)
    for ball in balls:
        low, high = np.minimum(low, ball.centre - ball.axes.max()), np.maximum(high, ball.centre + ball.axes.max())
    return low - margin, high + margin


def _inside(random: np.random.Generator, lines: list[Line], low: Floats, high: Floats) -> Floats:
    """A point of one of the centre lines within a box."""
    points = np.concatenate([points for points, _ in lines])
    within = points[np.all((points > low) & (points < high), axis=1)]
    return np.asarray(within[random.integers(len(within))])


def _masked(
    random: np.random.Generator,
    words: str,
    vessel: list[Line],
    others: list[Line],
    balls: list[Ball],
    low: Floats,
    high: Floats,
    voxel_mm: float,
    place: Floats,
    vessel_is_all: bool = False,
) -> Left:
    """Tubes and ellipsoids as a mask, blended where they meet, with a rough wall; what is joined to a place."""
    shape = np.maximum(((high - low) / voxel_mm).astype(int), 6)
    places = low + (np.moveaxis(np.indices(shape[::-1])[::-1], 0, -1) + 0.5) * voxel_mm
    blend = 0.15 * float(vessel[0][1].max())
    reach = 2 * blend * (1 + len(balls)) + 3 * voxel_mm  # a ball draws the wall no farther than 1.25 of the blend
    own = _away(vessel, places.reshape(-1, 3), reach).reshape(shape[::-1])
    away = np.minimum(own, _away(others, places.reshape(-1, 3), reach).reshape(shape[::-1])) if others else own
    for ball in balls:
        other = ball.away(places)
        away = np.minimum(away, other) - np.maximum(blend - np.abs(away - other), 0) ** 2 / (4 * blend)
    rough = 0.5 * voxel_mm * ndimage.gaussian_filter(random.normal(0, 1, away.shape), 0.7)
    mask = away + rough < 0
    at = tuple(np.clip(((place - low) / voxel_mm).astype(int), 0, shape - 1)[::-1])
    nearest = ndimage.distance_transform_edt(~mask, return_distances=False, return_indices=True)
    z, y, x = (int(axis[at]) for axis in nearest)
    label, _ = ndimage.label(mask)
    mask = label == label[z, y, x]
    return Left(words, mask, (x, y, z), voxel_mm, mask if vessel_is_all else mask & (own < voxel_mm))
