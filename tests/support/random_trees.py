# SPDX-License-Identifier: Apache-2.0
"""Random vessel trees: bends, tapers, bifurcations, side branches, loops, stubs and sacs, in any orientation.

A tree is valid where an image could tell it from any other: its mask is one piece with as many loops as were made,
also when it is a voxel thicker (so that branches that pass each other keep two voxels apart), and nothing lies before
its flat ends.
"""

from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial.transform import Rotation
from skimage.measure import euler_number

from pipeline.case.vessel import Branch, BranchShape, Distance, Ellipsoid, End, VesselShape, coverage, vessel_distance
from pipeline.files.volume import Volume

MOST_BRANCHES = 7
MARGIN_VOXELS = 4
MOST_VOXELS = 700_000


@dataclass(frozen=True)
class Tree:
    """A valid vessel, and its image without noise.

    Attributes
    ----------
    shape : as of a phantom, about the origin.
    loops : ways around that it has.
    ends : its flat ends, in the image's frame, LPS, mm.
    sacs : balls around its sacs, centre and radius, in that frame.
    distance : to its wall, of points (N, 3) in that frame.
    occupancy : (Z, Y, X), part of each voxel that it fills.
    """

    shape: VesselShape
    loops: int
    ends: list[End]
    sacs: list[tuple[NDArray[np.float64], float]]
    distance: Distance
    occupancy: Volume


def random_tree(seed: int) -> Tree:
    """The first valid tree of a generator of that seed."""
    rng = np.random.default_rng(seed)
    most = int(rng.choice(MOST_BRANCHES, p=(0.06, 0.1, 0.2, 0.16, 0.2, 0.14, 0.14))) + 1
    while True:
        shape, loops = _grown(rng, most)
        if tree := _imaged(shape, loops, rng):
            return tree


def _grown(rng: np.random.Generator, most: int) -> tuple[VesselShape, int]:
    """A tree that may yet run into itself, and the loops it was given."""
    limbs: list[BranchShape] = []
    names = (f"end{n}" for n in count(1))
    root = rng.uniform(1.5, 3.0)
    growing = [(np.zeros(3), _unit(rng), root, 0.0, "root")]
    while growing:
        at, along, radius, hidden, start = growing.pop(0)
        path = _path(rng, at, along, hidden + rng.uniform(4.5, 7.5) * radius, radius)
        taper = rng.uniform(0.7, 1.0)
        radii = np.linspace(radius, taper * radius, len(path))
        splits = len(limbs) + len(growing) + 3 <= most and (start or rng.random() < 0.8)
        end = None if splits else next(names)
        limbs.append(_limb(len(limbs), path, radii, start, end))
        if splits:
            tip = path[-1] - path[-2]
            tip /= np.linalg.norm(tip)
            across = _across(rng, tip)
            for side in (1, -1):
                angle = np.radians(rng.uniform(20, 65))
                way = np.cos(angle) * tip + side * np.sin(angle) * across
                growing.append((path[-1], way, radii[-1] * rng.uniform(0.65, 0.95), radii[-1], None))
    trunks, loops, sacs = list(limbs), 0, []
    for trunk in trunks:
        if len(limbs) < most and rng.random() < 0.5:
            limbs.append(_side_branch(rng, trunk, len(limbs), next(names)))
        if rng.random() < 0.12:
            limbs.append(_stub(rng, trunk, len(limbs)))
        if loops == 0 and rng.random() < 0.1:
            limbs.append(_handle(rng, trunk, len(limbs)))
            loops += 1
        if rng.random() < 0.15:
            sacs.append(_sac(rng, trunk))
    thinnest = min(min(limb.radii_mm) for limb in limbs)
    return VesselShape(branches=tuple(limbs), sacs=tuple(sacs), blend_mm=rng.uniform(0, 0.4) * thinnest), loops


def _limb(number: int, path: NDArray, radii: NDArray, start: str | None = None, end: str | None = None) -> BranchShape:
    return BranchShape(
        name=f"limb{number}", points_mm=[tuple(p) for p in path.tolist()], radii_mm=radii.tolist(), start=start, end=end
    )


def _unit(rng: np.random.Generator) -> NDArray[np.float64]:
    vector = rng.normal(size=3)
    return vector / np.linalg.norm(vector)


def _across(rng: np.random.Generator, along: NDArray[np.float64]) -> NDArray[np.float64]:
    """A random unit vector across another."""
    vector = np.cross(along, _unit(rng))
    return vector / np.linalg.norm(vector)


def _path(
    rng: np.random.Generator, at: NDArray, along: NDArray, length: float, radius: float, most_deg: float = 35.0
) -> NDArray[np.float64]:
    """Corners of a path that bends by up to so much at each, at least 2.5 radii from corner to corner."""
    steps = int(np.clip(length / (2.5 * radius), 1, 4))
    path = [at]
    for _ in range(steps):
        path.append(path[-1] + length / steps * along)
        angle = np.radians(rng.uniform(0, most_deg))
        along = np.cos(angle) * along + np.sin(angle) * _across(rng, along)
    return np.array(path)


def _inside(rng: np.random.Generator, trunk: BranchShape) -> tuple[NDArray, NDArray, float]:
    """A place on a limb away from its ends, the direction there, and the radius."""
    branch = Branch(trunk)
    k = int(rng.uniform(0.35, 0.65) * len(branch.points_mm))
    return branch.points_mm[k], branch.tangents[k], float(branch.radii_mm[k])


def _side_branch(rng: np.random.Generator, trunk: BranchShape, number: int, name: str) -> BranchShape:
    at, along, parent = _inside(rng, trunk)
    angle = np.radians(rng.uniform(45, 135))
    way = np.cos(angle) * along + np.sin(angle) * _across(rng, along)
    radius = parent * rng.uniform(0.45, 0.85)
    path = _path(rng, at, way, parent + rng.uniform(3.0, 7.0) * radius, radius)
    return _limb(number, path, np.linspace(radius, radius * rng.uniform(0.8, 1), len(path)), None, name)


def _stub(rng: np.random.Generator, trunk: BranchShape, number: int) -> BranchShape:
    """A blind rest of a branch that stands out by about a radius of the vessel, with a round end."""
    at, along, parent = _inside(rng, trunk)
    tip = at + (parent * rng.uniform(1.0, 1.6)) * _across(rng, along)
    return _limb(number, np.array([at, tip]), parent * rng.uniform(0.4, 0.7) * np.ones(2))


def _handle(rng: np.random.Generator, trunk: BranchShape, number: int) -> BranchShape:
    """A limb that leaves another and comes back to it."""
    branch = Branch(trunk)
    low, high = (int(part * (len(branch.points_mm) - 1)) for part in (0.15, 0.85))
    first, last = branch.points_mm[low], branch.points_mm[high]
    parent = float(branch.radii_mm.max())
    out = _across(rng, (last - first) / np.linalg.norm(last - first)) * parent * rng.uniform(4, 6)
    path = np.array([first, (2 * first + last) / 3 + out, (first + 2 * last) / 3 + out, last])
    return _limb(number, path, parent * rng.uniform(0.45, 0.7) * np.ones(4))


def _sac(rng: np.random.Generator, trunk: BranchShape) -> Ellipsoid:
    at, along, parent = _inside(rng, trunk)
    radii = parent * rng.uniform(0.9, 1.7, 3)
    return Ellipsoid(centre_mm=tuple(at + (parent + 0.5 * radii.min()) * _across(rng, along)), radii_mm=tuple(radii))


def _imaged(shape: VesselShape, loops: int, rng: np.random.Generator) -> Tree | None:
    """The tree in an image of random orientation and place, its voxels a third to a fifth of its thinnest end;
    or None where it is not valid.
    """
    branches = [Branch(limb) for limb in shape.branches]
    ends = [end for branch in branches for end in branch.ends]
    voxel = min(end.radius_mm for end in ends) / rng.uniform(3.0, 4.5)
    middle, size = box_around(branches, shape.sacs, voxel)
    if np.prod(size) > MOST_VOXELS:
        return None
    moved = vessel_distance(shape, branches)

    def centred(points: NDArray[np.float64]) -> NDArray[np.float64]:
        return moved(points + middle)

    if not all(_clear(end, moved) for end in ends):
        return None
    # one sample a voxel: to first order its filled part, about as good as an image's
    filled = coverage(centred, tuple(size), np.full(3, voxel), subdivisions=1)
    if not _as_made(filled >= 0.5, loops):
        return None
    turn = Rotation.random(random_state=rng).as_matrix()
    place = rng.uniform(-200, 200, 3)
    image = Volume(filled, (voxel,) * 3, (0.0, 0.0, 0.0), turn)
    corner = place - image.to_mm((np.array(size) - 1) / 2)
    image = Volume(filled, (voxel,) * 3, tuple(corner.tolist()), turn)
    there = [End(e.name, turn @ (e.centre_mm - middle) + place, turn @ e.normal, e.radius_mm) for e in ends]
    balls = [(turn @ (sac.centre_mm - middle) + place, max(sac.radii_mm)) for sac in shape.sacs]
    return Tree(shape, loops, there, balls, lambda points: moved((points - place) @ turn + middle), image)


def box_around(branches: list[Branch], sacs: tuple[Ellipsoid, ...], voxel: float) -> tuple[NDArray, NDArray]:
    """Middle and size in voxels of a box with a margin around all."""
    balls = [(branch.points_mm, branch.radii_mm[:, None]) for branch in branches]
    balls += [(np.array([sac.centre_mm]), np.full((1, 1), max(sac.radii_mm))) for sac in sacs]
    low = np.min([(points - radii).min(axis=0) for points, radii in balls], axis=0)
    high = np.max([(points + radii).max(axis=0) for points, radii in balls], axis=0)
    return (low + high) / 2, np.ceil((high - low) / voxel).astype(int) + 2 * MARGIN_VOXELS


def _as_made(mask: NDArray[np.bool_], loops: int) -> bool:
    """Whether a mask, and the same thicker by a voxel, is one piece with so many loops."""
    if not mask.any():
        return False
    thicker = ndimage.binary_dilation(mask)
    pieces = ndimage.label(mask)[1]
    return pieces == 1 and all(euler_number(each, connectivity=3) == 1 - loops for each in (mask, thicker))


def _clear(end: End, distance: Distance) -> bool:
    """Whether nothing lies within two radii before a flat end, beside its rim and close behind."""
    first = np.cross(end.normal, np.eye(3)[np.abs(end.normal).argmin()])
    first /= np.linalg.norm(first)
    second = np.cross(end.normal, first)
    angle = np.arange(12) / 12 * 2 * np.pi
    circle = np.cos(angle)[:, None] * first + np.sin(angle)[:, None] * second
    before = [end.centre_mm + end.radius_mm * (k * end.normal + r * circle) for k in (0.5, 1, 2) for r in (0, 0.7, 1.3)]
    beside = [end.centre_mm + end.radius_mm * (-k * end.normal + 1.4 * circle) for k in (0.5, 1.5)]
    return bool((distance(np.concatenate(before + beside)) > 0.1 * end.radius_mm).all())
