# SPDX-License-Identifier: Apache-2.0
"""Imaged vessels of other kinds than those by which the constants of the bands were chosen, drawn at random."""

import numpy as np
from numpy.typing import NDArray

from pipeline.case.vessel import BranchShape, Ellipsoid, VesselShape
from tests.support.drawn_sacs import NOISE, Drawn, image_of

OTHERS = ("tapering", "double bend", "fork with sac")


def drawn_other(kind: str, seed: int, noise: str) -> Drawn:
    """A vessel of radius 1.2 to 3 mm, with its image.

    - tapering: a bend of 5 to 9 radii through 60 to 110 degrees that loses 15 to 35 % of its radius, and 30 to 60 % of
      its section more in a stenosis over 3 to 5 radii in its middle.
    - double bend: two of 4 to 7 radii through 50 to 90 degrees, one to either side.
    - fork with sac: daughters of 0.7 to 0.9 radii, 35 to 60 degrees away and 7 to 9 of their radii long, and a sac of
      0.9 to 1.3 radii between them.

    Parameters
    ----------
    kind : of :data:`OTHERS`.
    seed, noise : of what is drawn, and of :data:`NOISE`.
    """
    rng = np.random.default_rng([seed, list(NOISE).index(noise), OTHERS.index(kind), 31])
    radius = float(rng.uniform(1.2, 3.0))
    make = {"tapering": _tapering, "double bend": _double_bend, "fork with sac": _fork_with_sac}[kind]
    branches, sacs = make(rng, radius)
    points = np.concatenate([np.array(branch.points_mm) for branch in branches])
    low, high = points.min(axis=0), points.max(axis=0)
    middle = (low + high) / 2
    branches = tuple(_moved(branch, middle) for branch in branches)
    sacs = tuple(
        sac.model_copy(update={"centre_mm": tuple((np.array(sac.centre_mm) - middle).tolist())}) for sac in sacs
    )
    vessel = VesselShape(blend_mm=0.25 * radius, branches=branches, sacs=sacs)
    return Drawn(vessel, image_of(rng, radius, low - middle, high - middle, noise), radius)


def _tapering(rng: np.random.Generator, radius: float) -> tuple[tuple[BranchShape, ...], tuple[Ellipsoid, ...]]:
    bend, angle = radius * rng.uniform(5, 9), np.radians(rng.uniform(60, 110))
    angles = np.linspace(-angle / 2, angle / 2, 41)
    points = bend * np.column_stack((np.sin(angles), np.cos(angles), 0 * angles))
    along = bend * angles
    half, at = radius * rng.uniform(1.5, 2.5), 0.1 * bend * angle * rng.uniform(-1, 1)
    wave = np.where(np.abs(along - at) < half, (1 + np.cos(np.pi * (along - at) / half)) / 2, 0.0)
    lost = 1 - np.sqrt(1 - rng.uniform(0.3, 0.6))
    radii = radius * (1 - rng.uniform(0.15, 0.35) * np.linspace(0, 1, 41)) * (1 - lost * wave)
    return (_branch("parent", points, radii, "inlet", "outlet"),), ()


def _double_bend(rng: np.random.Generator, radius: float) -> tuple[tuple[BranchShape, ...], tuple[Ellipsoid, ...]]:
    place, heading, points = np.zeros(3), 0.0, [np.zeros(3)]
    for side in (1, -1):
        bend, angle = radius * rng.uniform(4, 7), np.radians(rng.uniform(50, 90))
        for _ in range(10):
            heading += side * angle / 10
            place = place + bend * angle / 10 * np.array([np.cos(heading), np.sin(heading), 0.0])
            points.append(place)
    radii = radius * (1 + rng.uniform(-0.08, 0.08) * np.linspace(-1, 1, len(points)))
    return (_branch("parent", np.array(points), radii, "inlet", "outlet"),), ()


def _fork_with_sac(rng: np.random.Generator, radius: float) -> tuple[tuple[BranchShape, ...], tuple[Ellipsoid, ...]]:
    parent = np.column_stack((np.zeros(4), np.zeros(4), radius * np.linspace(-8, 0, 4)))
    branches = [_branch("parent", parent, np.full(4, radius), "inlet", None)]
    for name, side in (("left", 1.0), ("right", -1.0)):
        angle, own = np.radians(rng.uniform(35, 60)), radius * rng.uniform(0.7, 0.9)
        out = np.array([side * np.sin(angle), 0.15 * rng.uniform(-1, 1), np.cos(angle)])
        way = np.linspace(0, 1, 4)[:, None] * (radius + rng.uniform(7, 9) * own)
        branches.append(_branch(name, way * out / np.linalg.norm(out), np.full(4, own), None, name))
    size = radius * rng.uniform(0.9, 1.3)
    centre = np.array([0.0, 0.0, radius + 0.6 * size])
    axes = size * (1 + rng.uniform(-0.1, 0.1, 3))
    return tuple(branches), (Ellipsoid(centre_mm=tuple(centre.tolist()), radii_mm=tuple(axes.tolist())),)


def _moved(branch: BranchShape, middle: NDArray[np.float64]) -> BranchShape:
    points = np.array(branch.points_mm) - middle
    return branch.model_copy(update={"points_mm": tuple(tuple(point) for point in points.tolist())})


def _branch(
    name: str, points: NDArray[np.float64], radii: NDArray[np.float64], start: str | None, end: str | None
) -> BranchShape:
    return BranchShape(
        name=name,
        start=start,
        end=end,
        points_mm=tuple(tuple(point) for point in points.tolist()),
        radii_mm=tuple(radii.tolist()),
    )
