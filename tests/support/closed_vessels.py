# SPDX-License-Identifier: Apache-2.0
"""Closed surfaces of vessels drawn at random, whose ends are closed as programs close them, and their true volumes."""

from dataclasses import dataclass

import numpy as np
from vtkmodules.vtkFiltersCore import vtkQuadricDecimation

from pipeline.files.mesh import Mesh
from tests.support.swept import arc, moved, swept
from tests.support.tubes import rotation

FLAT = ("fan", "ears", "skew")
"""Flat caps: triangles around a middle, between the points of the rim alone, and a fan in a plane
that stands up to 22 degrees aslant."""
BULGE = ("cone",)
"""Caps with a sharp rim that bulge by 3 to 25 % of the radius."""
ROUND = ("dome", "chamfer")
"""Ellipsoids 0.2 to 1.2 radii high, and caps whose edge is cut off over 8 to 30 % of the radius."""


@dataclass(frozen=True)
class ClosedVessel:
    """A bent and tapered tube that is closed.

    Attributes
    ----------
    mesh : closed, without openings, in mm.
    kinds : how its first and its last end are closed.
    tube_mm3 : volume between the rims of its ends, in which the wall has its width.
    beyond_mm3 : of each end, what its cap holds beyond its rim.
    radius_mm : at each end.
    """

    mesh: Mesh
    kinds: tuple[str, str]
    tube_mm3: float
    beyond_mm3: tuple[float, float]
    radius_mm: tuple[float, float]


def closed_vessel(seed: int, kinds: tuple[str, ...], segments: tuple[int, ...] = (6, 8, 10, 12, 16, 24, 40)):
    """Draw a tube: radius 0.5 to 8 mm, 8 to 20 radii long, bent by up to 110 degrees, narrowed by up to 30 %."""
    rng = np.random.default_rng(seed)
    radius, around = rng.uniform(0.5, 8), int(rng.choice(segments))
    length, bend = radius * rng.uniform(8, 20), rng.choice([0.0, rng.uniform(0.3, 1.9)])
    rings = max(4, int(length * around / (2 * np.pi * radius)))
    line = arc(length / bend, bend, rings) if bend else np.linspace(0, 1, rings)[:, None] * [0.0, 0.0, length]
    width = radius * np.linspace(1, rng.uniform(0.7, 1), rings)
    mesh, _ = swept(line, width, around)
    points, walls = mesh.points_mm[:-2], mesh.triangles[mesh.opening == 0]
    drawn = tuple(str(kind) for kind in rng.choice(kinds, 2))
    outwards = np.array([line[0] - line[1], line[-1] - line[-2]])
    outwards /= np.linalg.norm(outwards, axis=1, keepdims=True)
    rims = [np.arange(around)[::-1], (rings - 1) * around + np.arange(around)]
    for end, (kind, rim, out) in enumerate(zip(drawn, rims, outwards, strict=True)):
        if kind == "skew":  # rings slide along the vessel, those within 1.5 radii of the end less and less
            slope = rng.uniform(-0.4, 0.4)
            across = points[rim[0]] - points[rim].mean(axis=0)
            away = np.linalg.norm(line - line[-end], axis=1) / radius
            for ring in np.flatnonzero(away < 1.5):
                own = ring * around + np.arange(around)
                beside = (points[own] - line[ring]) @ across / np.linalg.norm(across)
                points[own] += beside[:, None] * slope * (1 - away[ring] / 1.5) * out
    tube = closed(points, walls, [fan(points, rim, points[rim].mean(axis=0)) for rim in rims])
    beyond, caps = [], []
    for kind, rim, out in zip(drawn, rims, outwards, strict=True):
        caps.append(cap(kind, points, rim, out, rng))
        flat = closed(points, walls, [fan(points, each, points[each].mean(axis=0)) for each in rims if each is not rim])
        beyond.append(closed(flat.points_mm, flat.triangles, [caps[-1]]).volume_mm3() - tube.volume_mm3())
    whole = moved(closed(points, walls, caps), rotation(int(rng.integers(1 << 30))), rng.uniform(-60, 60, 3))
    return ClosedVessel(whole, drawn, tube.volume_mm3(), tuple(beyond), (float(width[0]), float(width[-1])))


def closed(points, walls, caps) -> Mesh:
    """Walls and caps, each the points that it adds and triangles over a rim's rows and, below zero, its own points."""
    corners, triangles = [points], [walls]
    for added, rows in caps:
        start = sum(len(part) for part in corners)
        triangles.append(np.where(rows < 0, start - 1 - rows, rows))
        corners.append(added)
    whole = np.concatenate(triangles)
    return Mesh(np.concatenate(corners), whole, np.zeros(len(whole), np.int8))


def fan(points, rim, middle):
    """Triangles around a middle."""
    return middle[None], np.stack([rim, np.roll(rim, -1), np.full(len(rim), -1)], axis=1)


def cap(kind, points, rim, out, rng):
    """What closes an end: added points, and triangles over rows of the rim and, below zero, of the added points."""
    middle, across = points[rim].mean(axis=0), points[rim] - points[rim].mean(axis=0)
    radius, count = np.linalg.norm(across, axis=1).mean(), len(rim)
    if kind in ("fan", "skew"):
        return fan(points, rim, middle)
    if kind == "ears":
        return np.empty((0, 3)), np.stack([np.full(count - 2, rim[0]), rim[1:-1], rim[2:]], axis=1)
    if kind == "cone":
        return fan(points, rim, middle + rng.uniform(0.03, 0.25) * radius * out)
    if kind == "chamfer":
        part = rng.uniform(0.08, 0.3)
        levels = [(1 - part, part * radius)]
    else:
        height = rng.uniform(0.2, 1.2) * radius
        turn = np.linspace(0, np.pi / 2, max(2, count // 6) + 1)[1:-1]
        levels = [(np.cos(t), height * np.sin(t)) for t in turn]
    rings = [middle + wide * across + high * out for wide, high in levels]
    top = middle + (levels[-1][1] if kind == "chamfer" else height) * out
    added, triangles, low = np.concatenate([*rings, top[None]]), [], rim
    for k in range(len(rings)):
        high = -1 - (k * count + np.arange(count))
        triangles += [
            np.stack([low, np.roll(low, -1), np.roll(high, -1)], 1),
            np.stack([low, np.roll(high, -1), high], 1),
        ]
        low = high
    triangles.append(np.stack([low, np.roll(low, -1), np.full(count, -len(added))], axis=1))
    return added, np.concatenate(triangles)


def decimated(mesh: Mesh, part: float) -> Mesh:
    """The surface with so large a part of its triangles, as programs make it coarse."""
    decimate = vtkQuadricDecimation()
    decimate.SetInputData(mesh.to_vtk())
    decimate.SetTargetReduction(1 - part)
    decimate.Update()
    return Mesh.from_vtk(decimate.GetOutput())
