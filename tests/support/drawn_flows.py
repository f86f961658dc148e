# SPDX-License-Identifier: Apache-2.0
"""Vessels drawn at random whose pressure drops are of every kind: bends, stenoses, forks, sacs, trees; their flows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.case.vessel import Branch as Limb
from pipeline.case.vessel import BranchShape, Ellipsoid, VesselShape, coverage, vessel_distance
from pipeline.files.volume import Volume

KINDS = ("bend", "stenosis", "fork", "sac", "tree")
DENSITY, VISCOSITY = 1060.0, 3.5e-3
VOXELS = 5.0
"""Voxels on the thinnest radius."""


@dataclass(frozen=True)
class DrawnFlow:
    """A vessel and a flow through it.

    Attributes
    ----------
    name : kind and seed.
    vessel : its shape.
    flow_ml_s : into its inlet.
    narrowest_mm : its least diameter.
    """

    name: str
    vessel: VesselShape
    flow_ml_s: float
    narrowest_mm: float

    def occupancy(self) -> Volume:
        """Part of each voxel that it fills, without noise or blur."""
        limbs = [Limb(shape) for shape in self.vessel.branches]
        voxel = self.narrowest_mm / 2 / VOXELS
        balls = [(limb.points_mm, limb.radii_mm[:, None]) for limb in limbs]
        balls += [(np.array([sac.centre_mm]), np.full((1, 1), max(sac.radii_mm))) for sac in self.vessel.sacs]
        low = np.min([(points - radii).min(axis=0) for points, radii in balls], axis=0) - 4 * voxel
        high = np.max([(points + radii).max(axis=0) for points, radii in balls], axis=0) + 4 * voxel
        size = np.ceil((high - low) / voxel).astype(int)
        distance, middle = vessel_distance(self.vessel, limbs), (low + high) / 2
        filled = coverage(lambda points: distance(points + middle), tuple(size.tolist()), np.full(3, voxel))
        return Volume(filled.astype(np.float32), (voxel,) * 3, tuple(low.tolist()), np.eye(3))


def drawn_flow(kind: str, seed: int) -> DrawnFlow:
    """A vessel of radius 1.2 to 3 mm, at a Reynolds number of 40 to 300 of its inlet, so that twice as much is laminar.

    - bend: 4 to 8 radii of curvature, through 60 to 160 degrees.
    - stenosis: 30 to 75 % of the area, over 2 to 5 radii, in a bend of 6 to 15 radii of curvature.
    - fork: daughters of 0.6 to 0.9 radii, 20 to 65 degrees away, 6 to 9 of their radii long.
    - sac: of 0.8 to 1.4 radii, on the outer side of a bend.
    - tree: two forks, one behind the other: daughters of 0.75 to 0.9 radii of what divides.

    Parameters
    ----------
    kind : of :data:`KINDS`.
    seed : of what is drawn.
    """
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    radius, reynolds = float(rng.uniform(1.2, 3.0)), float(np.exp(rng.uniform(np.log(40), np.log(300))))
    flow_ml_s = reynolds * np.pi * radius / 2 * VISCOSITY / DENSITY * 1e3
    made = {"fork": _fork, "tree": _tree}.get(kind)
    vessel, least = made(rng, radius) if made else _bent(rng, radius, kind)
    return DrawnFlow(f"{kind}-{seed}", vessel, flow_ml_s, 2 * least)


def _bent(rng: np.random.Generator, radius: float, kind: str) -> tuple[VesselShape, float]:
    """One vessel along an arc, and its least radius."""
    curvature = radius * (rng.uniform(6, 15) if kind == "stenosis" else rng.uniform(4, 8))
    length = rng.uniform(10, 14) * radius if kind == "stenosis" else curvature * np.radians(rng.uniform(60, 160))
    along = np.linspace(-length / 2, length / 2, 41)
    points = curvature * np.column_stack((np.sin(along / curvature), np.cos(along / curvature) - 1, 0 * along))
    radii = radius * (1 - rng.uniform(-0.1, 0.1) * along / length)
    if kind == "stenosis":
        half, at = rng.uniform(1, 2.5) * radius, rng.uniform(-0.15, 0.05) * length
        wave = np.where(np.abs(along - at) < half, (1 + np.cos(np.pi * (along - at) / half)) / 2, 0.0)
        radii *= 1 - (1 - np.sqrt(1 - rng.uniform(0.3, 0.75))) * wave
    sacs = ()
    if kind == "sac":
        size = radius * rng.uniform(0.8, 1.4) * (1 + rng.uniform(-0.1, 0.1, 3))
        at, out = rng.uniform(-0.25, 0.25) * length / curvature, curvature + radius + 0.6 * size.mean()
        centre = (out * np.sin(at), out * np.cos(at) - curvature, 0.0)
        sacs = (Ellipsoid(centre_mm=centre, radii_mm=tuple(size.tolist())),)
    limb = _limb("parent", points, radii, "inlet", "outlet")
    return VesselShape(blend_mm=0.25 * radius, branches=(limb,), sacs=sacs), float(radii.min())


def _fork(rng: np.random.Generator, radius: float) -> tuple[VesselShape, float]:
    """A parent that divides in two, out of one plane, and its least radius."""
    parent = np.column_stack((0 * np.arange(3), rng.uniform(-0.3, 0.3) * radius * np.array([1, 1, 0]), [-6, -3, 0]))
    parent[:, 2] *= radius
    limbs, least = [_limb("parent", parent, np.full(3, radius), "inlet", None)], radius
    for name, side in (("left", 1.0), ("right", -1.0)):
        angle, own = np.radians(rng.uniform(20, 65)), radius * rng.uniform(0.6, 0.9)
        out = np.array([side * np.sin(angle), rng.uniform(-0.2, 0.2), np.cos(angle)])
        way = np.array([0.0, 0.25, 0.6, 1.0])[:, None] * (radius + rng.uniform(6, 9) * own)
        path = way * out / np.linalg.norm(out) + parent[-1]
        limbs.append(_limb(name, path, np.full(4, own), None, name))
        least = min(least, own)
    return VesselShape(blend_mm=0.3 * least, branches=tuple(limbs)), least


def _tree(rng: np.random.Generator, radius: float) -> tuple[VesselShape, float]:
    """A parent that divides in two, one of which divides again, out of the plane of the first; and its least radius."""
    z, y = np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0])
    limbs = [_limb("parent", np.outer(radius * np.array([-6.0, -3.0, 0.0]), z), np.full(3, radius), "inlet", None)]
    root, along, across, least = np.zeros(3), z, np.array([1.0, 0.0, 0.0]), radius
    for level, names in enumerate((("left", "stem"), ("upper", "lower"))):
        joint, before = root, radius
        for name, side in zip(names, (1.0, -1.0), strict=True):
            angle, own = np.radians(rng.uniform(25, 55)), before * rng.uniform(0.75, 0.9)
            out = np.cos(angle) * along + side * np.sin(angle) * across
            way = np.array([0.0, 0.25, 0.6, 1.0])[:, None] * (before + rng.uniform(6, 9) * own)
            end = None if name == "stem" else name
            limbs.append(_limb(name, joint + way * out, np.full(4, own), None, end))
            least = min(least, own)
            if name == "stem":
                root, radius, stem = joint + way[-1] * out, own, out
        if level == 0:
            turn = np.radians(rng.uniform(45, 90))
            beside = np.cross(y, stem)
            along, across = stem, np.cos(turn) * beside + np.sin(turn) * y
    return VesselShape(blend_mm=0.3 * least, branches=tuple(limbs)), least


def _limb(name: str, points: NDArray[np.float64], radii: NDArray[np.float64], start: str | None, end: str | None):
    return BranchShape(
        name=name,
        points_mm=tuple(tuple(point) for point in points.tolist()),
        radii_mm=tuple(radii.tolist()),
        start=start,
        end=end,
    )
