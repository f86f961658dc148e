# SPDX-License-Identifier: Apache-2.0
"""Images as strangers bring them, drawn at random: what is in them beside one even vessel, and how they were taken."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial.transform import Rotation

from pipeline.case.vessel import BLOCK, Distance, coverage
from pipeline.files.volume import Volume
from tests.support.crops import Line, _away, line

Floats = NDArray[np.float64]
Places = NDArray[np.float64]


@dataclass(frozen=True)
class Strange:
    """An image of a vessel.

    Attributes
    ----------
    image : intensities.
    volume_ml : of the lumen in the image.
    openings : ends of the vessel that the border cuts.
    seed : voxel x, y, z in the lumen.
    ct : whether intensities are HU.
    flow_ml_s : that the vessel may have.
    half_way : intensity between lumen and tissue.
    words : what was drawn.
    tilt_deg : of the gantry, about the rows: each slice lies so much further along the columns.
    """

    image: Volume
    volume_ml: float
    openings: int
    seed: tuple[int, int, int]
    ct: bool
    flow_ml_s: float
    half_way: float
    words: dict[str, Any]
    tilt_deg: float = 0.0


def _part(distance: Distance, size: tuple[int, int, int], spacing_mm: tuple[float, float, float]) -> Floats:
    return coverage(distance, size, spacing_mm, 4 if max(spacing_mm) < 2 else 8).astype(float)


@lru_cache(maxsize=8)
def _lumen(size: tuple[int, int, int], spacing_mm: tuple[float, float, float], *packed: tuple[bytes, bytes]) -> Floats:
    """What of each voxel lies in lines: tests that follow each other draw the same vessel again, a second each."""
    lines = [(np.frombuffer(points).reshape(-1, 3), np.frombuffer(radii)) for points, radii in packed]
    reach_mm = 1.01 * BLOCK * float(np.linalg.norm(spacing_mm))  # farther away nothing is measured
    return _part(lambda points: _away(lines, points, reach_mm), size, spacing_mm)


@dataclass
class Scene:
    """A grid around the origin, the vessel in it, and its intensities while they are made.

    Attributes
    ----------
    lumen, voxels : (Z, Y, X).
    places : of the voxels, (Z, Y, X, 3) x, y, z.
    """

    rng: np.random.Generator
    spacing_mm: tuple[float, float, float]
    size: tuple[int, int, int]
    lines: list[Line]
    tissue: float
    blood: float
    ct: bool

    def __post_init__(self) -> None:
        index = np.moveaxis(np.indices(self.size[::-1])[::-1], 0, -1)
        self.places = (index - (np.array(self.size) - 1) / 2) * self.spacing_mm
        packed = (
            (np.asarray(points, float).tobytes(), np.asarray(radii, float).tobytes()) for points, radii in self.lines
        )
        self.lumen = _lumen(tuple(self.size), tuple(self.spacing_mm), *packed).copy()
        self.radius_mm = float(self.lines[0][1].mean())
        self.voxels = self.tissue + (self.blood - self.tissue) * self.lumen

    def redraw(self, radii: Floats) -> None:
        """Give the vessel other radii along its line, and draw it again."""
        self.lines = [(self.lines[0][0], radii)]
        self.__post_init__()

    def narrow(self, point: Floats, tight: float, long_mm: float) -> None:
        """Narrow the vessel at a point by a part of its diameter."""
        points, radii = self.lines[0]
        away = np.linalg.norm(points - point, axis=1)
        self.redraw(radii * (1 - tight * np.exp(-((away / long_mm) ** 2))))

    def part(self, distance: Distance) -> Floats:
        """What of each voxel lies in a shape."""
        return _part(distance, self.size, self.spacing_mm)

    def put(self, part: Floats, level: float | Floats) -> None:
        """Fill a part of each voxel with another level."""
        self.voxels = self.voxels * (1 - part) + part * level

    def beside(self, part: Floats, level: float) -> None:
        """Give what of a part of each voxel is tissue another level."""
        self.voxels = self.voxels + part * (1 - self.lumen) * (level - self.tissue)

    def fill(self, share: Floats) -> None:
        """Give the lumen a share of its contrast."""
        self.voxels = self.tissue + (self.blood - self.tissue) * self.lumen * share

    def along(self) -> Floats:
        """How far along the first line each voxel's nearest point lies, 0 to 1 within the image."""
        points = self.lines[0][0]
        half = (np.array(self.size) - 1) / 2 * self.spacing_mm
        points = points[np.all(np.abs(points) <= half, axis=1)]
        axis = points[-1] - points[0]
        return np.clip((self.places - points[0]) @ axis / (axis @ axis), 0, 1)

    def middle(self, at: float | None = None) -> tuple[Floats, Floats, float]:
        """A point of the first line within the image, the direction there and the radius."""
        points, radii = self.lines[0]
        half = (np.array(self.size) - 1) / 2 * self.spacing_mm
        inside = np.flatnonzero(np.all(np.abs(points) < 0.85 * half, axis=1))
        k = int(inside[int((self.rng.uniform(0.2, 0.8) if at is None else at) * (len(inside) - 1))])
        along = points[min(k + 1, len(points) - 1)] - points[k - 1]
        return points[k], along / np.linalg.norm(along), float(radii[k])

    def seed_at(self, at: float) -> tuple[int, int, int]:
        """The voxel x, y, z of a point of the first line within the image, from 0 to 1 along it."""
        x, y, z = (int(n) for n in np.rint(self.middle(at)[0] / self.spacing_mm + (np.array(self.size) - 1) / 2))
        return x, y, z

    def seed_in(self, share: Floats, wanted: float) -> tuple[int, int, int]:
        """The voxel x, y, z deep in the lumen, a radius from the border, whose share of the contrast is nearest."""
        depth = ndimage.distance_transform_edt(np.pad(self.lumen > 0.9, 1), sampling=self.spacing_mm[::-1])
        inner = depth[1:-1, 1:-1, 1:-1] > 0.6 * min(float(radii.min()) for _, radii in self.lines)
        off = np.full(self.lumen.shape, np.inf)
        off[inner] = np.abs(share - wanted)[inner]
        z, y, x = (int(n) for n in np.unravel_index(int(off.argmin()), off.shape))
        return x, y, z

    def across(self, along: Floats) -> Floats:
        """A random direction across another."""
        other = np.cross(along, self.rng.normal(size=3))
        return other / np.linalg.norm(other)

    def finished(self, blur_mm: float, noise: float, **words: Any) -> Strange:
        """Blurred, with noise, in a random pose."""
        blurred = ndimage.gaussian_filter(self.voxels, np.divide(blur_mm, self.spacing_mm)[::-1], mode="nearest")
        noisy = self.rng.normal(blurred, noise)
        if not self.ct:
            noisy = np.hypot(noisy, self.rng.normal(0, noise, noisy.shape))
        tilt = Rotation.from_euler("xyz", self.rng.uniform(-30, 30, 3), degrees=True).as_matrix()
        image = Volume(noisy.astype(np.float32), self.spacing_mm, tuple(self.rng.uniform(-99, 99, 3)), tilt)
        point, _, _ = self.middle(0.5)
        place = point / self.spacing_mm + (np.array(self.size) - 1) / 2
        x, y, z = (int(n) for n in np.rint(place))
        if self.lumen[z, y, x] < 0.9:
            z, y, x = (int(n) for n in np.unravel_index(self.lumen.argmax(), self.lumen.shape))
        volume_ml = float(self.lumen.sum() * np.prod(self.spacing_mm) / 1000)
        flow = 0.15 * np.pi * self.radius_mm**2  # a mean speed of 0.15 m/s
        words |= {"radius_mm": self.radius_mm, "spacing_mm": self.spacing_mm, "blood": self.blood, "noise": noise}
        half_way = (self.blood + self.tissue) / 2
        return Strange(image, volume_ml, self.cuts(), (x, y, z), self.ct, flow, half_way, words)

    def cuts(self) -> int:
        """Separate places where the border cuts the lumen."""
        shell = np.ones(self.lumen.shape, bool)
        shell[1:-1, 1:-1, 1:-1] = False
        labels, count = ndimage.label((self.lumen >= 0.5) & shell, np.ones((3, 3, 3)))
        return int((np.bincount(labels.ravel())[1:] >= 4).sum()) if count else 0


def tube(rng: np.random.Generator, radius: float, half: float, taper: float = 0.2) -> list[Line]:
    """A bent vessel mostly along z that leaves the image at both ends."""
    bend, turn = rng.uniform(0, 0.25) * half, rng.uniform(0, 2 * np.pi)
    z = np.linspace(-2, 2, 60) * half
    aside = bend * np.sin(np.pi * z / half / 2 + turn)
    points = np.stack([aside * np.cos(turn), aside * np.sin(turn), z], axis=1)
    return [(points, radius * (1 - taper * np.linspace(0, 1, 60) * rng.uniform(0, 1)))]


def fork(rng: np.random.Generator, radius: float, half: float) -> list[Line]:
    """A trunk along z with two branches."""
    spread, turn = rng.uniform(0.35, 0.7), Rotation.from_euler("z", rng.uniform(0, 2 * np.pi))
    first, second = radius * rng.uniform(0.65, 0.85), radius * rng.uniform(0.5, 0.75)
    lines = [
        line([[0, 0, -2 * half], [0, 0, -half / 3], [0, 0, 0]], [radius, radius, 0.95 * radius], 1),
        line([[0, 0, 0], [spread * half * 0.6, 0, half], [spread * half, 1, 2 * half]], [first] * 3, 1),
        line([[0, 0, 0], [-spread * half * 0.5, 1, half], [-spread * half, 0, 2 * half]], [second] * 3, 1),
    ]
    return [(turn.apply(points), radii) for points, radii in lines]


def scene(rng: np.random.Generator, ct: bool = True, forked: bool | None = None, **given: Any) -> Scene:
    """A vessel 1.5 to 6 mm in radius, 4 to 7 voxels, 9 to 14 radii of it in the image."""
    radius = rng.uniform(*given.get("radius", (1.5, 6)))
    step = radius / rng.uniform(4, 7)
    spacing = given.get("spacing") or (step, step, step * rng.uniform(1, 1.5))
    half, wide = radius * rng.uniform(4.5, 7), radius * given.get("wide", rng.uniform(3, 4.5))
    forked = rng.random() < 0.5 if forked is None else forked
    lines = fork(rng, radius, half) if forked else tube(rng, radius, half)
    if forked:
        wide = max(wide, 0.9 * half)
    if "tilt" in given:
        turn = Rotation.from_euler("xyz", [*rng.uniform(-given["tilt"], given["tilt"], 2), 0], degrees=True)
        lines = [(turn.apply(points), radii) for points, radii in lines]
    size = (int(2 * wide / spacing[0]), int(2 * wide / spacing[1]), max(int(2 * half / spacing[2]), 8))
    scale = 1.0 if ct else rng.uniform(0.3, 4)
    tissue = rng.uniform(20, 70) if ct else scale * rng.uniform(60, 150)
    blood = tissue + (rng.uniform(180, 450) if ct else scale * rng.uniform(250, 500))
    return Scene(rng, spacing, size, lines, tissue, blood, ct)


def _usual(made: Scene, **words: Any) -> Strange:
    """Blur of 0.5 to 1 voxels and a contrast of 10 to 25 times the noise."""
    blur = made.spacing_mm[0] * made.rng.uniform(0.5, 1.0)
    return made.finished(blur, (made.blood - made.tissue) / made.rng.uniform(10, 25), **words)


# ---- CT --------------------------------------------------------------------------------------------------------------


def gradient(rng: np.random.Generator) -> Strange:
    """Contrast falls along the vessel to 35 to 75 %."""
    made, rest = scene(rng), rng.uniform(0.35, 0.75)
    made.fill(1 - (1 - rest) * made.along())
    return _usual(made, rest=rest)


def stent(rng: np.random.Generator) -> Strange:
    """Rings of metal in the wall over a third of the vessel."""
    made, level = scene(rng, forked=False), rng.uniform(1200, 2800)
    centre, along, radius = made.middle()
    reach, apart, thick = 2.5 * radius, radius * rng.uniform(0.5, 1.0), rng.uniform(0.08, 0.15) * radius

    def struts(points: Floats) -> Floats:
        s = (points - centre) @ along
        ring = np.abs((s + apart / 2) % apart - apart / 2)
        tube = np.hypot(_away(made.lines, points) - thick, ring) - thick
        return np.maximum(tube, np.abs(s) - reach)

    made.put(made.part(struts), level)
    return _usual(made, level=level, strut_mm=thick)


def calcium(rng: np.random.Generator) -> Strange:
    """Plaques in the wall that take 5 to 35 % of the radius from the lumen; the lumen is what is left."""
    made, count, words = scene(rng), int(rng.integers(1, 4)), []
    for _ in range(count):
        point, along, radius = made.middle()
        side, depth = made.across(along), rng.uniform(0.05, 0.35) * radius
        axes = np.array([rng.uniform(0.3, 0.6), rng.uniform(0.3, 0.6)]) * radius
        centre = point + (radius - depth + axes[0]) * side

        def plaque(points: Floats, centre=centre, axes=axes) -> Floats:
            return np.linalg.norm(points - centre, axis=1) - axes[0]

        taken, level = made.part(plaque), rng.uniform(600, 1400)
        made.put(taken, level)
        made.lumen = made.lumen * (1 - taken)
        words.append(level)
    return _usual(made, levels=words)


def vein(rng: np.random.Generator) -> Strange:
    """A vein of 85 to 100 % of the contrast that touches the artery, along it or across it."""
    made = scene(rng, forked=False)
    point, along, radius = made.middle()
    other, level = radius * rng.uniform(0.7, 1.5), rng.uniform(0.85, 1.0)
    side, angle = made.across(along), rng.choice([0.0, rng.uniform(15, 90)])
    overlap = rng.uniform(0.0, 0.15) * radius
    axis = Rotation.from_rotvec(np.radians(angle) * side).apply(along)
    centre = point + (radius + other - overlap) * side

    def away(points: Floats) -> Floats:
        offset = points - centre
        return np.linalg.norm(offset - np.outer(offset @ axis, axis), axis=1) - other

    made.beside(made.part(away), made.tissue + level * (made.blood - made.tissue))
    return _usual(made, level=level, angle=angle, other=other)


def thrombus(rng: np.random.Generator) -> Strange:
    """An aneurysm of 1.5 to 3 radii, most of it thrombus of 60 to 110 HU."""
    made = scene(rng, forked=False, wide=4.5)
    point, along, radius = made.middle(0.5)
    size, shift = radius * rng.uniform(1.5, 3), rng.uniform(0, 0.7) * radius
    centre, level = point + shift * made.across(along), rng.uniform(60, 110)
    sac = made.part(lambda points: np.linalg.norm(points - centre, axis=1) - size)
    made.beside(sac, level)
    return _usual(made, thrombus=level, size=size)


def flap(rng: np.random.Generator) -> Strange:
    """A dissected aorta: a flap of 1 to 2.5 mm; the false lumen has 40 to 100 % of the contrast.

    The vessel is the true lumen, in which the seed lies.
    """
    made = scene(rng, forked=False, radius=(9, 15))
    point, along, radius = made.middle(0.5)
    side, thick = made.across(along), rng.uniform(1.0, 2.5)
    level, shift = rng.uniform(0.4, 1.0), rng.uniform(0.1, 0.4) * radius
    gap = lambda points: (points - point) @ side - shift  # noqa: E731
    aorta = made.lumen.copy()
    wall = made.part(lambda points: np.abs(gap(points)) - thick / 2)
    behind = made.part(lambda points: -gap(points))
    made.fill((1 - wall) * (1 - behind) + level * (1 - wall) * behind)
    made.lumen = aorta * (1 - behind) * (1 - wall)
    return _usual(made, flap_mm=thick, level=level)


def near_occlusion(rng: np.random.Generator) -> Strange:
    """A stenosis of 60 to 88 % of the diameter, 1 to 3 radii long."""
    made = scene(rng, forked=False)
    point, _, radius = made.middle(0.5)
    tight, long = rng.uniform(0.6, 0.88), radius * rng.uniform(1, 3)
    made.narrow(point, tight, long)
    return _usual(made, tight=tight, throat_voxels=(1 - tight) * radius / made.spacing_mm[0])


def occlusion(rng: np.random.Generator) -> Strange:
    """A stenosis of less than 0.8 voxels in radius, or closed, 0.5 to 3 radii long; 60 to 100 % of the contrast beyond.

    The vessel is all of it.
    """
    made, rest = scene(rng, forked=False), rng.uniform(0.6, 1.0)
    points, radii = made.lines[0]
    point, along, radius = made.middle(0.5)
    throat, long = rng.uniform(-0.3, 0.8) * made.spacing_mm[0], radius * rng.uniform(0.5, 3)
    away = np.linalg.norm(points - point, axis=1)
    made.redraw(radii - (radius - throat) * np.exp(-((away / long) ** 2)))
    made.fill(np.where((made.places - point) @ along > 0, rest, 1.0))
    at = rng.uniform(0.1, 0.3)
    drawn = _usual(made, throat_voxels=throat / made.spacing_mm[0], long_radii=long / radius, rest=rest)
    return replace(drawn, seed=made.seed_at(at))


def dead_end(rng: np.random.Generator) -> Strange:
    """A vessel that ends in the image, and near its end a vein that crosses or passes, or a bone.

    They are as bright as the vessel, 0.3 to 2.5 radii from it.
    """
    made = scene(rng, forked=False)
    points, radii = made.lines[0]
    point, along, radius = made.middle(0.6)
    ahead = (points - point) @ along
    fall = np.clip(1 - ahead / (radius * rng.uniform(0.3, 3)), 0, 1)
    made.redraw(np.where(ahead > 0, radii * fall - (fall == 0) * radius, radii))
    made.radius_mm = radius
    gap, wide = radius * rng.uniform(0.3, 2.5) + 2 * made.spacing_mm[2], radius * rng.uniform(0.5, 1.5)
    tip, side = points[(radii * fall > 0.3 * made.spacing_mm[0]) | (ahead < 0)][-1], made.across(along)
    what = str(rng.choice(["across", "beside", "bone"]))
    if what == "bone":
        wide *= 2
        centre = tip + (gap + wide) * Rotation.from_rotvec(rng.uniform(0, 1.2) * side).apply(along)
        other = made.part(lambda at: np.linalg.norm(at - centre, axis=1) - wide)
    else:
        turn, about, centre = rng.uniform(0, 0.3), np.cross(side, along), point + (radius + gap + wide) * side
        if what == "across":
            turn, about, centre = rng.uniform(0.87, 1.57), side, tip + (gap + wide) * along
        axis = Rotation.from_rotvec(turn * about).apply(along)
        other = made.part(lambda at: np.linalg.norm(np.cross(at - centre, axis), axis=1) - wide)
    made.beside(other, made.tissue + rng.uniform(0.8, 1.2) * (made.blood - made.tissue))
    drawn = _usual(made, what=what, gap_radii=gap / radius, wide=wide / radius)
    return replace(drawn, seed=made.seed_at(0.2), openings=made.cuts() + 1)


def thick_slices(rng: np.random.Generator) -> Strange:
    """Slices of 5 mm, pixels of 0.7 mm, an aorta or an iliac artery up to 35 degrees aslant."""
    made = scene(rng, radius=(6, 13), spacing=(0.7, 0.7, 5.0), tilt=35)
    return _usual(made)


def needles(rng: np.random.Generator) -> Strange:
    """Voxels of 0.3 x 0.3 x 3 mm."""
    made = scene(rng, radius=(2, 4), spacing=(0.3, 0.3, 3.0), tilt=25)
    return _usual(made)


def corner(rng: np.random.Generator) -> Strange:
    """The border cuts the vessel aslant, at an edge of the image in most."""
    made = scene(rng, forked=False, tilt=55)
    return _usual(made)


def streaks(rng: np.random.Generator) -> Strange:
    """Dark and bright streaks, as metal or shoulders make, and coarse noise."""
    made = scene(rng)
    strength = rng.uniform(0.1, 0.3) * (made.blood - made.tissue)
    for _ in range(4):
        turn, where = rng.uniform(0, np.pi), rng.uniform(-0.5, 0.5) * made.size[0] * made.spacing_mm[0]
        across = made.places[..., 0] * np.cos(turn) + made.places[..., 1] * np.sin(turn) - where
        made.voxels += rng.choice([-1, 1]) * strength * np.exp(-((across / (0.6 * made.radius_mm)) ** 2))
    return made.finished(made.spacing_mm[0] * 0.7, (made.blood - made.tissue) / rng.uniform(6, 12), streak=strength)


def bone(rng: np.random.Generator) -> Strange:
    """Bone as bright as the lumen or brighter, 0 to 1.5 mm from its wall."""
    made, gap, level = scene(rng), rng.uniform(0, 1.5), rng.uniform(0.9, 2.5)
    point, along, radius = made.middle()
    centre, size = point + (3 * radius + gap) * made.across(along), 2 * radius
    solid = made.part(lambda points: np.linalg.norm(points - centre, axis=1) - size)
    made.beside(solid, made.tissue + level * (made.blood - made.tissue))
    return _usual(made, gap_mm=gap, level=level)


def kissing(rng: np.random.Generator) -> Strange:
    """A coil whose turns are 0 to 0.6 radii apart."""
    radius, gap = rng.uniform(1.5, 4), rng.uniform(0.0, 0.6)
    ring = radius * rng.uniform(2.2, 3)
    t = np.linspace(-1, 1, 160)
    turns, pitch = 1.0, (2 + gap) * radius
    angle = np.clip(t * 3, -1, 1) * np.pi * turns
    z = np.where(np.abs(t) < 1 / 3, t * 3 * pitch / 2, np.sign(t) * pitch / 2)
    points = np.stack([ring * np.cos(angle), ring * np.sin(angle), z], axis=1)
    off = np.abs(t) >= 1 / 3
    points[off, 1] += np.sign(t[off]) * 0  # tangents leave along y
    points[off, 1] = np.sign(t[off]) * 0 + (t[off] - np.sign(t[off]) / 3) * 12 * ring
    points[off, 0] = -ring
    step = radius / rng.uniform(4, 6)
    size = tuple(int(n / step) for n in (2 * ring + 4.5 * radius, 2 * ring + 3 * radius, pitch + 4.5 * radius))
    blood = rng.uniform(250, 450)
    made = Scene(rng, (step,) * 3, size, [(points, np.full(160, radius))], 45.0, blood, True)
    return _usual(made, gap=gap)


def gantry_tilt(rng: np.random.Generator) -> Strange:
    """A gantry tilted by 5 to 25 degrees; slices lie shifted along their columns, not across the table."""
    made, tilt_deg = scene(rng), float(rng.uniform(5, 25) * rng.choice([-1, 1]))
    slices, (_, high, step) = made.voxels.shape[0], made.spacing_mm
    shift = np.tan(np.radians(tilt_deg)) * (np.arange(slices) - (slices - 1) / 2) * step / high
    usual = _usual(made, tilt_deg=tilt_deg)
    voxels = np.stack(
        [
            ndimage.shift(plane, (-each, 0), order=3, mode="nearest")
            for plane, each in zip(usual.image.voxels, shift, strict=True)
        ]
    )
    inside = np.stack(
        [
            ndimage.shift(plane, (-each, 0), order=1, mode="nearest")
            for plane, each in zip(made.lumen, shift, strict=True)
        ]
    )
    volume_ml = float(inside.sum() * np.prod(made.spacing_mm) / 1000)
    return replace(usual, image=usual.image.with_voxels(voxels), tilt_deg=tilt_deg, volume_ml=volume_ml)


# ---- MR --------------------------------------------------------------------------------------------------------------


def bias(rng: np.random.Generator) -> Strange:
    """A coil's field from 50 to 150 % over the image."""
    made, field = scene(rng, ct=False), rng.normal(size=3)
    field /= np.linalg.norm(field)
    along = made.places @ field / np.abs(made.places @ field).max()
    strength = rng.uniform(0.2, 0.5)
    made.voxels = made.voxels * (1 + strength * along)
    return _usual(made, strength=strength)


def saturated(rng: np.random.Generator) -> Strange:
    """Time of flight: signal falls along the vessel to 40 to 70 %, and towards the wall, where blood is slow."""
    made, rest, slow = scene(rng, ct=False), rng.uniform(0.4, 0.7), rng.uniform(0.1, 0.5)
    depth = np.clip(-_away(made.lines, made.places.reshape(-1, 3)).reshape(made.lumen.shape) / made.radius_mm, 0, 1)
    signal = (1 - (1 - rest) * made.along()) * (1 - slow * (1 - depth) ** 2)
    made.fill(signal)
    return _usual(made, rest=rest, slow=slow)


def fading(rng: np.random.Generator) -> Strange:
    """Contrast that falls along the vessel to 35 to 75 %, towards either end, in CT, MR or time of flight.

    The seed lies in its bright, middle or dim part; the threshold is half way at the seed or where contrast is best. In
    MR a coil's field may lie over it, in time of flight blood is up to a tenth darker at the wall.
    """
    kind = str(rng.choice(["CT", "MR", "time of flight"]))
    made, rest, bend = scene(rng, ct=kind == "CT"), rng.uniform(0.35, 0.75), rng.uniform(0.6, 1.6)
    way = (made.places[..., 2] / np.abs(made.places[..., 2]).max() + 1) / 2
    if rng.random() < 0.5:
        way = 1 - way
    share = 1 - (1 - rest) * way**bend
    slow = rng.uniform(0, 0.1) if kind == "time of flight" else 0.0
    depth = np.clip(-_away(made.lines, made.places.reshape(-1, 3)).reshape(made.lumen.shape) / made.radius_mm, 0, 1)
    made.fill(share * (1 - slow * (1 - depth) ** 2))
    field = rng.uniform(0, 0.2) if kind == "MR" else 0.0
    turn = rng.normal(size=3)
    made.voxels = made.voxels * (1 + field * (made.places @ turn) / np.abs(made.places @ turn).max())
    where, at_seed = str(rng.choice(["bright", "middle", "dim"])), bool(rng.random() < 0.5)
    words = {"image": kind, "rest": rest, "bend": bend, "slow": slow, "field": field, "at": where, "at_seed": at_seed}
    drawn = _usual(made, **words)
    place = made.seed_in(share, {"bright": 1.0, "middle": (1 + rest) / 2, "dim": rest}[where])
    half_way = made.tissue + (made.blood - made.tissue) * (share[place[::-1]] if at_seed else 1) / 2
    return replace(drawn, seed=place, half_way=float(half_way))


def void(rng: np.random.Generator) -> Strange:
    """A void of turbulence in the lumen, 0.5 to 1 radii wide."""
    made = scene(rng, ct=False)
    point, along, radius = made.middle()
    centre, size = point + rng.uniform(0, 0.5) * radius * made.across(along), radius * rng.uniform(0.5, 1.0)
    hole = np.clip(1.2 - np.linalg.norm(made.places - centre, axis=-1) / size, 0, 1)
    made.voxels -= rng.uniform(0.6, 1) * (made.blood - made.tissue) * hole * made.lumen
    return _usual(made, void_mm=size)


KINDS: dict[str, Callable[[np.random.Generator], Strange]] = {
    "bias": bias,
    "bone": bone,
    "calcium": calcium,
    "corner": corner,
    "flap": flap,
    "gradient": gradient,
    "kissing": kissing,
    "near-occlusion": near_occlusion,
    "needles": needles,
    "saturated": saturated,
    "stent": stent,
    "streaks": streaks,
    "thick-slices": thick_slices,
    "thrombus": thrombus,
    "vein": vein,
    "void": void,
    "gantry-tilt": gantry_tilt,
    "occlusion": occlusion,
    "dead-end": dead_end,
    "fading": fading,
}
