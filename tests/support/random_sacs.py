# SPDX-License-Identifier: Apache-2.0
"""Random vessels with one sac and without any: what is looked for, and what must not be found."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from pipeline.files.mesh import Mesh
from pipeline.geometry.surface.clip import cut_end
from solver.domain.nodes import Opening
from tests.support.shapes import opening_of
from tests.support.swept import level_surface

Floats = NDArray[np.float64]

NO_SAC = ("straight", "tapered", "curved", "tortuous", "stenosis", "two stenoses", "fork", "fork of equals")
"""Kinds of vessels without a sac."""


@dataclass(frozen=True)
class Drawn:
    """A vessel as it was drawn.

    Attributes
    ----------
    words : what it is, for messages.
    mesh, openings : its surface.
    radius_mm : of the parent.
    sac : centre (3,) and radius of the ball, mm; none of a vessel without.
    outside_mm3 : volume of the ball outside the parent; 0 without a sac.
    """

    words: str
    mesh: Mesh
    openings: tuple[Opening, ...]
    radius_mm: float
    sac: tuple[Floats, float] | None
    outside_mm3: float


@dataclass(frozen=True)
class _Tube:
    """Points along a tube, radii 1 apart by a twentieth, and its radius at each; ends that are openings."""

    points: Floats
    radius: Floats
    open_ends: tuple[int, ...]


def with_side_wall_sac(seed: int) -> Drawn:
    """A straight, curved or tortuous parent of 1.5 to 10 mm with a sac of 0.6 to 3.5 times its radius on its side.

    The neck is 0.5 to 1.5 sac's radii wide, and up to 0.6 of one long; the wall is blended over up to 0.3 parent's
    radii there, and the ball may be stretched by a fifth.
    """
    rng = np.random.default_rng([1, seed])
    kind = str(rng.choice(["straight", "curved", "tortuous"]))
    tube = _parent(rng, kind)
    size = float(rng.uniform(0.6, 3.5))
    while True:
        middle = len(tube.points) // 2 + int(rng.uniform(-0.15, 0.15) * len(tube.points))
        along = tube.points[middle + 1] - tube.points[middle - 1]
        out = _across(rng, along / np.linalg.norm(along))
        away, neck = _standing(rng, size)
        centre = tube.points[middle] + away * out
        others = np.linalg.norm(tube.points - centre, axis=1)
        beside = np.abs(np.arange(len(tube.points)) - middle) * 0.05
        if (others[beside > 1.1 * size + 1.5] > size + 1.35).all():  # the ball meets the parent at its neck alone
            return _drawn(rng, f"{kind} parent", [tube], (centre, size), tube.points[middle], neck)


def with_sac_at_fork(seed: int) -> Drawn:
    """A fork, a sac of 0.6 to 3.5 times the trunk's radius on its apex, along the trunk or up to 25 degrees off it.

    The branches part at 50 to 110 degrees from the trunk's way, so far that the sac meets them at its neck alone.
    """
    rng = np.random.default_rng([2, seed])
    size = float(rng.uniform(0.6, 3.5))
    while True:
        first, second = rng.uniform(0.65, 0.95, 2)
        tubes = _fork(rng, float(rng.uniform(60, 100)), float(first), float(second))
        tilt = np.radians(rng.uniform(0, 25))
        out = np.array([np.sin(tilt) * np.cos(1.6), np.sin(tilt) * np.sin(1.6), np.cos(tilt)])
        away, neck = _standing(rng, size)
        if all(_is_clear(tube, away * out, size, 1.1 * neck + 1.5) for tube in tubes[1:]):
            return _drawn(rng, "fork", tubes, (away * out, size), np.zeros(3), neck)


def _is_clear(tube: _Tube, centre: Floats, size: float, beyond: float) -> bool:
    """Whether a tube from the origin keeps off a ball beyond some distance from the origin."""
    far = np.linalg.norm(tube.points, axis=1) > beyond
    return bool((np.linalg.norm(tube.points[far] - centre, axis=1) > size + tube.radius[far] + 0.3).all())


def without_sac(seed: int) -> Drawn:
    """A vessel without a sac, of a kind of `NO_SAC`."""
    rng = np.random.default_rng([3, seed])
    kind = NO_SAC[seed % len(NO_SAC)]
    if kind.startswith("fork"):
        equal = kind.endswith("equals")
        sizes = (0.79, 0.79) if equal else rng.uniform(0.5, 0.95, 2)
        tubes = _fork(rng, float(rng.uniform(20, 80)), float(sizes[0]), float(sizes[1]))
    else:
        tubes = [_parent(rng, kind)]
    return _drawn(rng, kind, tubes, None, np.zeros(3), 0.0)


def _standing(rng: np.random.Generator, size: float) -> tuple[float, float]:
    """Distance of a ball's middle from the parent's line, and radius of its neck, in parent's radii."""
    neck = size * float(rng.uniform(0.25, 0.75))
    touching = 1 + np.sqrt(size**2 - neck**2)
    return float(touching + rng.choice([0, 1]) * rng.uniform(0, 0.6) * size), neck


def _parent(rng: np.random.Generator, kind: str) -> _Tube:
    """A tube of radius 1 about the origin, along x on the whole, 20 to 40 long."""
    length = rng.uniform(20, 40)
    t = np.arange(-length / 2, length / 2 + 1e-9, 0.05)
    points, radius = np.column_stack([t, 0 * t, 0 * t]), np.ones(len(t))
    if kind == "curved":
        bend = rng.uniform(6, 20)
        bend = max(bend, length / 4.5)  # less than three quarters of a turn
        points = np.column_stack([bend * np.sin(t / bend), bend * (1 - np.cos(t / bend)), 0 * t])
    elif kind == "tortuous":
        wave, height = rng.uniform(12, 25), rng.uniform(0.5, 2.0)
        points[:, 1] = height * np.sin(2 * np.pi * t / wave)
        points[:, 2] = height / 2 * np.cos(2 * np.pi * t / wave * 0.7 + 1)
    elif kind == "tapered":
        radius = np.linspace(1.3, rng.uniform(0.5, 0.9), len(t))
    elif "stenos" in kind:
        places = [0.0] if kind == "stenosis" else [-length * rng.uniform(0.15, 0.3), length * rng.uniform(0.15, 0.3)]
        for place in places:
            reach, depth = rng.uniform(1.5, 5), rng.uniform(0.2, 0.7)
            radius *= 1 - depth * (1 + np.cos(np.pi * np.clip((t - place) / reach, -1, 1))) / 2
    return _Tube(points, radius, (0, -1))


def _fork(rng: np.random.Generator, angle_deg: float, first: float, second: float) -> list[_Tube]:
    """A trunk of radius 1 along z up to the origin, and two branches at angles to z, in a plane but for 10 degrees."""
    lengths = rng.uniform(12, 20, 3)
    tubes = [_Tube(np.outer(np.arange(-lengths[0], 0.01, 0.05), [0, 0, 1.0]), np.empty(0), (0,))]
    for side, length in zip((1, -1), lengths[1:], strict=True):
        angle, turn = np.radians(angle_deg * rng.uniform(0.8, 1.1)), np.radians(rng.uniform(-10, 10))
        way = np.array([side * np.sin(angle) * np.cos(turn), np.sin(angle) * np.sin(turn), np.cos(angle)])
        tubes.append(_Tube(np.outer(np.arange(0, length, 0.05), way), np.empty(0), (-1,)))
    sizes = (1.0, first, second)
    return [_Tube(t.points, np.full(len(t.points), r), t.open_ends) for t, r in zip(tubes, sizes, strict=True)]


def _across(rng: np.random.Generator, along: Floats) -> Floats:
    vector = np.cross(along, rng.normal(size=3))
    return np.asarray(vector / np.linalg.norm(vector))


def _drawn(
    rng: np.random.Generator,
    words: str,
    tubes: list[_Tube],
    sac: tuple[Floats, float] | None,
    foot: Floats,
    neck: float,
) -> Drawn:
    """The surface of tubes and a sac, whose neck stands on a foot; scaled, turned and shifted at random."""
    blend = float(rng.uniform(0.02, 0.3)) if sac else 0.05
    axis, stretch = rng.normal(size=3), 1 + float(rng.uniform(-0.2, 0.2)) * (sac is not None)
    axis /= np.linalg.norm(axis)
    trees = [cKDTree(tube.points) for tube in tubes]

    def to_tubes(points: Floats) -> Floats:
        found = []
        for tube, tree in zip(tubes, trees, strict=True):
            away, row = tree.query(points)
            found.append(away - tube.radius[row])
        return np.asarray(np.min(found, axis=0))

    def to_sac(points: Floats) -> Floats:
        assert sac is not None
        centre, radius = sac
        offset = points - centre
        along = offset @ axis
        flat = np.sqrt(np.maximum((offset**2).sum(axis=1) - along**2, 0) * stretch + (along / stretch) ** 2)
        way = centre - foot
        place = np.clip((points - foot) @ way / (way @ way), 0, 1)
        stalk = np.linalg.norm(points - foot - place[:, None] * way, axis=1) - neck
        return np.minimum(flat - radius, np.where((points - foot) @ way > 0, stalk, np.inf))

    def distance(points: Floats) -> Floats:
        parent = to_tubes(points)
        if sac is None:
            return parent
        other = to_sac(points)
        mixed = np.maximum(blend - np.abs(parent - other), 0) / blend
        return np.asarray(np.minimum(parent, other) - mixed**2 * blend / 4)

    spans = [(tube.points, tube.radius.max()) for tube in tubes] + ([(sac[0][None], 1.25 * sac[1])] if sac else [])
    low = np.min([points.min(axis=0) - reach for points, reach in spans], axis=0)
    high = np.max([points.max(axis=0) + reach for points, reach in spans], axis=0)
    mesh = level_surface(distance, low, high, 0.22)
    mesh, ends = _capped(mesh, tubes)
    scale, turn = float(rng.uniform(1.5, 10)), Rotation.random(random_state=int(rng.integers(2**31))).as_matrix()
    shift = rng.uniform(-200, 200, 3)
    mesh = Mesh(scale * mesh.points_mm @ turn.T + shift, mesh.triangles, mesh.opening)
    openings = tuple(
        opening_of(mesh, k, "inlet" if k == 1 else f"outlet_{k - 1}", "inlet" if k == 1 else "outlet")
        for k in range(1, ends + 1)
    )
    if sac is None:
        return Drawn(words, mesh, openings, scale, None, 0.0)
    grid = np.arange(-1.25, 1.26, 0.05) * sac[1]
    places = np.stack(np.meshgrid(grid, grid, grid, indexing="ij"), axis=-1).reshape(-1, 3) + sac[0]
    outside = (to_sac(places) < 0) & (to_tubes(places) > 0)
    volume = float(outside.sum()) * (0.05 * sac[1] * scale) ** 3
    reported = (
        f"{words}, sac {sac[1]:.2f} radii, neck {neck / sac[1]:.2f} of it, {np.linalg.norm(sac[0] - foot):.2f} away"
    )
    return Drawn(reported, mesh, openings, scale, (scale * turn @ sac[0] + shift, scale * sac[1]), volume)


def _capped(mesh: Mesh, tubes: list[_Tube]) -> tuple[Mesh, int]:
    """The open ends cut flat, numbered from 1."""
    number = 0
    for tube in tubes:
        for end in tube.open_ends:
            number += 1
            inner = tube.points[20 if end == 0 else -21]
            outward = tube.points[end] - inner
            at = tube.points[8 if end == 0 else -9]
            mesh = cut_end(mesh, at, outward / np.linalg.norm(outward), number)
    return mesh, number
