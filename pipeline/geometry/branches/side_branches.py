# SPDX-License-Identifier: Apache-2.0
"""Side branches: which of a vessel's branches are short or thin, and how they are taken out or cut off flush.

Only branches that end free are ever chosen, one after another from the shortest, so that no part between two ends that
stay is lost, and only those that are the thinnest of the vessels that meet. A branch that is no longer than wide, or
wider outside than where it leaves, is the bulge of a wall or a sac, such as an aneurysm, and stays.

Near the mouth of a branch the vessel that it leaves is thought of as balls around its centreline, blown up or let off
by what the wall around the mouth is away from them. What is outside of that and nearer to the branch is the branch.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial import cKDTree

from pipeline.case.settings.geometry import OpeningSettings, SideBranches, SurfaceSettings
from pipeline.files.mesh import Mesh, words_mm
from pipeline.files.volume import Volume
from pipeline.geometry.branches.centreline_graph import Branch, Centreline
from pipeline.geometry.branches.pruning import without_spurs
from pipeline.geometry.surface.clip import ClipError, cut_end

SPUR_RADII = 1.8
"""A shorter branch, in radii of the vessel that it leaves, hardly leaves that vessel's wall. A way from the axis into
the rim of a flat end is sqrt(2) radii long, and up to a quarter more in steps of voxels."""
LEAST_SLENDERNESS = 2.0
"""A branch is at least so long, in its own radii, outside the vessel that it leaves."""
BULGE = 0.75
"""A sac is narrower by this factor between its widest place and the vessel."""
AS_WIDE, COURSE_RADII = 0.9, 4.0
"""A side branch meets two vessels that are at least so wide as it, over so many radii from the fork."""
FLARE = 1.5
"""The mouth of a branch widens to so many of its radii."""
RING_RADII, RING_POINTS = 2.0, 400
"""The wall around a mouth is looked at over so many radii of the branch, at so many points."""
USUAL_EXCESS = (0.05, 0.75)
"""Of the wall around a mouth so much counts as usual; what lies farther out is where the mouth widens."""
LIFT, MOST_LIFT = 0.1, 1.0
"""A flush cut is lifted off the vessel in steps of, and by at most, so many radii of the branch."""
WIDEST_MOUTH = 3.0
"""A flush cut that reaches farther than so many radii of the branch has met the wall of the vessel."""
ON_PLANE_MM = 1e-9
WALL = 0
CHUNK = 4096


@dataclass(frozen=True)
class SideBranch:
    """A branch that is to go, and why.

    Attributes
    ----------
    branch : from its free end to where it leaves a vessel, in the centreline before.
    place_mm : free end, (3,).
    radius_mm : mean radius.
    why : in words, with the setting.
    """

    branch: Branch
    place_mm: NDArray[np.float64]
    radius_mm: float
    why: str

    @property
    def words(self) -> str:
        """Which branch, for the log."""
        return (
            f"side branch to {words_mm(self.place_mm)}, {self.branch.own_length_mm:.1f} mm long"
            f" ({self.branch.relative_length:.1f} radii of the vessel that it leaves), radius {self.radius_mm:.2f} mm"
        )

    def record(self, action: str) -> dict[str, Any]:
        """What is kept of it with the surface."""
        return {
            "place_mm": self.place_mm.tolist(),
            "length_mm": self.branch.own_length_mm,
            "length_radii": self.branch.relative_length,
            "radius_mm": self.radius_mm,
            "action": action,
            "why": self.why,
        }


def own_rows(branch: Branch) -> NDArray[np.int64]:
    """Rows of a branch outside the vessel that it leaves."""
    return np.array(branch.rows)[branch.way_mm <= branch.own_length_mm]


def choose_side_branches(
    centreline: Centreline, settings: SurfaceSettings, open_ends: Callable[[Centreline], int], log: logging.Logger
) -> tuple[list[SideBranch], Centreline]:
    """Choose the side branches of a vessel that go, the relatively shortest first.

    Parameters
    ----------
    centreline : not pruned.
    settings : the case's section ``surface``: which branches are short or thin, and which ends have names and stay.
    open_ends : how many ends of a centreline are open: two must stay.
    log : for what was decided about each branch that is short or thin.

    Returns
    -------
    The branches, and the centreline without them.
    """
    rest = without_spurs(centreline, SPUR_RADII)
    chosen: list[SideBranch] = []
    staying: set[int] = set()
    done = {"close": "closed flush", "remove": "removed"}.get(settings.side_branches.action, "chosen")
    while candidate := _first_candidate(rest, settings.side_branches, staying):
        without = rest.without(candidate.branch)
        why = _why_stays(candidate, rest, settings.openings)
        if not why and open_ends(without) < 2:
            why = "fewer than two open ends would be left"
        if why:
            log.info("%s: stays, %s", candidate.words, why)
            staying.add(candidate.branch.rows[0])
        else:
            log.info("%s: %s, %s", candidate.words, done, candidate.why)
            chosen.append(candidate)
            rest = without_spurs(without, SPUR_RADII, frozenset(staying))
    if not chosen:
        log.warning("warning: no side branch is as short or thin as surface.side_branches says, all stay")
    return chosen, rest


def _first_candidate(centreline: Centreline, settings: SideBranches, staying: set[int]) -> SideBranch | None:
    """The relatively shortest branch that is short or thin and of which nothing has been decided."""
    branches = [each for each in centreline.terminal_branches() if each.forked and each.rows[0] not in staying]
    candidates = (_candidate(centreline, branch, settings) for branch in sorted(branches, key=_order))
    return next((side for side in candidates if side), None)


def _order(branch: Branch) -> tuple[float, tuple[int, ...]]:
    return branch.relative_length, branch.rows


def _candidate(centreline: Centreline, branch: Branch, settings: SideBranches) -> SideBranch | None:
    """The branch, if it is short or thin."""
    rows = own_rows(branch)
    if not len(rows):
        return None
    radius = float(centreline.radius_mm[rows].mean())
    short, thin = settings.shorter_than_radii, settings.thinner_than_mm
    if short is not None and branch.relative_length < short:
        why = f"shorter than surface.side_branches.shorter_than_radii = {short:g}"
    elif thin is not None and radius < thin:
        why = f"thinner than surface.side_branches.thinner_than_mm = {thin:g}"
    else:
        return None
    return SideBranch(branch, centreline.points_mm[branch.rows[0]], radius, why)


def _why_stays(side: SideBranch, centreline: Centreline, openings: tuple[OpeningSettings, ...]) -> str:
    """Why a branch is no side branch though it is short or thin; empty where it is one."""
    radius = side.branch.radius_mm[side.branch.way_mm <= side.branch.own_length_mm]
    widest = int(np.argmax(radius))
    if radius[widest:].min() < BULGE * radius[widest]:
        return "it widens outwards, like a sac"
    others = [_radius_along(centreline, side.branch, near) for near in centreline.links[side.branch.rows[-1]]]
    if sorted(others)[-2] < AS_WIDE * side.radius_mm:
        return "it is the vessel's course, only one that it meets is as wide"
    if side.branch.own_length_mm < LEAST_SLENDERNESS * side.radius_mm:
        return "it is no longer than wide, a bulge of the wall"
    tips = np.array(centreline.free_ends())
    for opening in openings:
        away = np.linalg.norm(centreline.points_mm[tips] - np.array(opening.near_mm), axis=1)
        if tips[int(np.argmin(away))] == side.branch.rows[0] and away.min() <= opening.within_mm:
            return f"surface.openings names it {opening.name}"
    return ""


def _radius_along(centreline: Centreline, branch: Branch, near: int) -> float:
    """Median radius of a vessel that meets a branch at its fork, outside the ball there; 0 for the branch itself."""
    fork = branch.rows[-1]
    if near == branch.rows[-2]:
        return 0.0
    ball = float(centreline.radius_mm[fork])
    rows = np.array(_walk(centreline, fork, near, COURSE_RADII * ball))
    outside = np.linalg.norm(centreline.points_mm[rows] - centreline.points_mm[fork], axis=1) >= ball
    return float(np.median(centreline.radius_mm[rows[outside] if outside.any() else rows]))


def without_side_branches(
    lumen: Volume,
    surface_mm: NDArray[np.float64],
    sides: list[SideBranch],
    rest: Centreline,
    flat: bool,
) -> Volume:
    """Take side branches out of a lumen.

    Parameters
    ----------
    lumen : (Z, Y, X), part of each voxel that the lumen fills, or a mask.
    surface_mm : (P, 3) points on the lumen's surface.
    sides : branches that go.
    rest : centreline of what stays.
    flat : cut them off in a plane, which leaves their mouths, instead of making the wall as it is around the mouths.
    """
    voxels, voxel_mm = lumen.voxels.astype(np.float32), max(lumen.spacing_mm)
    for side in sides:
        rows = own_rows(side.branch)
        widest = float(rest.radius_mm[rows].max())
        rest = _undisturbed(rest, side.branch.rows[-1], FLARE * widest)
        branch = rest.points_mm[rows], FLARE * rest.radius_mm[rows]
        reach = FLARE * widest + RING_RADII * widest + 3 * voxel_mm
        low, high = branch[0].min(axis=0) - reach, branch[0].max(axis=0) + reach
        vessel = _balls_near(rest, low, high)
        index = _indices_in_box(lumen, low, high)
        index = index[voxels[tuple(index[:, ::-1].T)] > 0]
        places = lumen.to_mm(index)
        wall = surface_mm[((surface_mm > low) & (surface_mm < high)).all(axis=1)]
        outside = from_balls(places, *vessel) - _excess(wall, branch, vessel, widest, places)
        gone = from_balls(places, *branch) < outside
        if flat:
            foot, normal = flush_plane(side, rest)
            outside = (places - foot) @ normal - LIFT * side.radius_mm
        where = tuple(index[gone, ::-1].T)
        voxels[where] = np.minimum(voxels[where], np.clip(0.5 - outside[gone] / voxel_mm, 0, 1))
    return lumen.with_voxels(_largest_piece(voxels))


def volumes_lost(before: Volume, after: Volume, sides: list[SideBranch], centreline: Centreline) -> list[float]:
    """Volume that a lumen lost with each of its side branches, mm3: of the voxels that are nearest to it.

    Parameters
    ----------
    before, after : (Z, Y, X), the lumen with them and without.
    sides, centreline : the branches, and the centreline that they are part of.
    """
    lost = np.argwhere((before.voxels >= 0.5) & (after.voxels < 0.5))[:, ::-1]
    ways = [centreline.points_mm[own_rows(side.branch)] for side in sides]
    owner = np.repeat(np.arange(len(ways)), [len(way) for way in ways])
    nearest = owner[cKDTree(np.concatenate(ways)).query(before.to_mm(lost))[1]]
    counts = np.bincount(nearest, minlength=len(ways))
    return [float(count * np.prod(before.spacing_mm)) for count in counts]


def _undisturbed(centreline: Centreline, node: int, mouth_mm: float) -> Centreline:
    """The centreline as it would be without the branch that left at a node: its balls there are larger and drawn to it.

    Over the mouth and a radius, points and radii are those of a parabola through as much again on both sides. Where the
    node is an end or another fork, the centreline stays as it is.
    """
    reach = mouth_mm + float(centreline.radius_mm[node])
    if len(centreline.links[node]) != 2:
        return centreline
    ways = [_walk(centreline, node, near, 2 * reach) for near in sorted(centreline.links[node])]
    rows = np.array([*ways[0][::-1], node, *ways[1]])
    steps = np.linalg.norm(np.diff(centreline.points_mm[rows], axis=0), axis=1)
    way = np.concatenate([[0.0], np.cumsum(steps)])
    way -= way[len(ways[0])]
    known = np.abs(way) > reach
    if min(np.count_nonzero(known[: len(ways[0])]), np.count_nonzero(known[len(ways[0]) :])) < 3:
        return centreline
    values = np.column_stack([centreline.points_mm[rows], centreline.radius_mm[rows]])
    fit = np.polynomial.polynomial.polyfit(way[known], values[known], 2)
    points, radius = centreline.points_mm.copy(), centreline.radius_mm.copy()
    fitted = np.polynomial.polynomial.polyval(way[~known], fit).T
    points[rows[~known]], radius[rows[~known]] = fitted[:, :3], fitted[:, 3]
    return Centreline(points, radius, centreline.links)


def _walk(centreline: Centreline, start: int, first: int, length_mm: float) -> list[int]:
    """Rows from a neighbour of a row on, up to a length or to the next fork or end."""
    rows, way = [start, first], 0.0
    while len(centreline.links[rows[-1]]) == 2 and way < length_mm:
        rows.append(next(row for row in centreline.links[rows[-1]] if row != rows[-2]))
        way += float(np.linalg.norm(centreline.points_mm[rows[-1]] - centreline.points_mm[rows[-2]]))
    return rows[1:]


def _balls_near(
    centreline: Centreline, low: NDArray[np.float64], high: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Centres and radii of the balls of a centreline that reach into a box."""
    rows = centreline.rows()
    points, radii = centreline.points_mm[rows], centreline.radius_mm[rows]
    near = ((points + radii[:, None] > low) & (points - radii[:, None] < high)).all(axis=1)
    return points[near], radii[near]


def _indices_in_box(volume: Volume, low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.int64]:
    """Indices (x, y, z) of the voxels around a box along the patient's axes, (n, 3)."""
    corners = np.stack(np.meshgrid(*zip(low, high, strict=True), indexing="ij"), axis=-1).reshape(-1, 3)
    index = volume.to_index(corners)
    size = np.array(volume.voxels.shape[::-1])
    first = np.clip(np.floor(index.min(axis=0)).astype(int), 0, size)
    last = np.clip(np.ceil(index.max(axis=0)).astype(int) + 1, 0, size)
    grid = np.meshgrid(*(np.arange(a, b) for a, b in zip(first, last, strict=True)), indexing="ij")
    return np.stack(grid, axis=-1).reshape(-1, 3)


def from_balls(
    places: NDArray[np.float64], centres: NDArray[np.float64], radii: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Distance of places, (n, 3), to the nearest of some balls, negative inside, (n,).

    Parameters
    ----------
    places : (n, 3) mm.
    centres : (m, 3) mm.
    radii : (m,) mm.

    Returns
    -------
    (n,) mm; infinite without balls.
    """
    parts = [
        (np.linalg.norm(places[k : k + CHUNK, None] - centres, axis=2) - radii).min(axis=1, initial=np.inf)
        for k in range(0, len(places), CHUNK)
    ]
    return np.concatenate([np.zeros(0), *parts])


def _excess(
    wall: NDArray[np.float64],
    branch: tuple[NDArray[np.float64], NDArray[np.float64]],
    vessel: tuple[NDArray[np.float64], NDArray[np.float64]],
    radius_mm: float,
    places: NDArray[np.float64],
) -> NDArray[np.float64]:
    """How far the wall of a vessel lies outside its balls around the mouth of a branch, carried on into the mouth."""
    from scipy.interpolate import RBFInterpolator  # only now: of the stages that import this few close a branch

    away = from_balls(wall, *branch)
    ring = wall[(away > 0) & (away < RING_RADII * radius_mm)]
    ring = ring[:: 1 + len(ring) // RING_POINTS]
    excess = from_balls(ring, *vessel)
    ring, excess = ring[excess < radius_mm], excess[excess < radius_mm]
    if len(ring) < 10:
        return np.zeros(len(places))
    carried = RBFInterpolator(ring, excess, kernel="linear", smoothing=1e-3)(places)
    return np.asarray(np.clip(carried, *np.quantile(excess, USUAL_EXCESS)))


def _largest_piece(voxels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Without the crumbs that thin branches leave."""
    label, parts = ndimage.label(voxels >= 0.5)
    if parts > 1:
        vessel = label == 1 + np.argmax(np.bincount(label.ravel())[1:])
        voxels[ndimage.binary_dilation((label > 0) & ~vessel, iterations=2) & ~vessel] = 0
    return voxels


def flush_plane(side: SideBranch, rest: Centreline) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Plane along the wall of the vessel that a branch leaves: a point in the mouth, and the normal out of the vessel.

    Parameters
    ----------
    side : the branch.
    rest : centreline of what stays.
    """
    points, kept = rest.points_mm[list(side.branch.rows[::-1])], rest.rows()
    away = np.linalg.norm(points[:, None] - rest.points_mm[kept], axis=2) - rest.radius_mm[kept]
    outside = np.flatnonzero(away.min(axis=1) > 0)
    mouth = int(outside[0]) if len(outside) else len(points) - 1
    nearest = int(np.argmin(away[mouth]))
    foot = rest.points_mm[kept[nearest]]
    along = rest.points_mm[list(rest.links[kept[nearest]])] - foot
    tangent = along[0] - along[-1] if len(along) > 1 else along[0]
    normal = points[mouth] - foot
    normal -= (normal @ tangent) / (tangent @ tangent) * tangent
    normal /= np.linalg.norm(normal)
    return foot + float(rest.radius_mm[kept[nearest]]) * normal, normal


def close_flush(mesh: Mesh, side: SideBranch, rest: Centreline) -> Mesh:
    """Cut a side branch off a surface along the wall of the vessel that it leaves, and close the cut as wall.

    Parameters
    ----------
    mesh : closed surface.
    side : the branch.
    rest : centreline of what stays.

    Raises
    ------
    ClipError
        If no such cut is one simple loop.
    """
    foot, normal = flush_plane(side, _undisturbed(rest, side.branch.rows[-1], FLARE * side.radius_mm))
    fault = ClipError("its mouth is not one simple loop")
    for lift in np.arange(LIFT, MOST_LIFT + LIFT / 2, LIFT):
        centre = foot + lift * side.radius_mm * normal
        try:
            cut = cut_end(mesh, centre, normal, WALL)
        except ClipError as error:
            fault = error
            continue
        rim = cut.points_mm[np.abs((cut.points_mm - centre) @ normal) < ON_PLANE_MM]
        if np.linalg.norm(rim - centre, axis=1).max() <= WIDEST_MOUTH * side.radius_mm:
            return cut
    raise fault
