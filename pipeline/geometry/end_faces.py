# SPDX-License-Identifier: Apache-2.0
"""End faces of a closed given surface: what a program closed a vessel with, found at each end exactly.

An end face is a disc of triangles that look along the vessel, as wide as the vessel just behind it: a flat cap, however
few its triangles are, or one that bulges a little. The wall around it keeps every triangle. A round end has none: what
looks along the vessel there is narrower than the vessel.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from pipeline.files.mesh import Mesh
from pipeline.geometry.branches.openings import FULL_AREA, Cut
from pipeline.geometry.surface.clip import ClipError, cap_of, check_closed, cut_end, neighbours, section_mm2
from pipeline.geometry.surface.repair import FLAT, rims
from solver.runtime.errors import StageError

ALONG_DEG = 40.0
"""Triangles of an end face look so far aside of its normal, at most: a bulge of a third of its radius does."""

BEHIND_RADII = 0.15
"""So far behind the rim of an end face the section is taken that it must fill."""

RIM_PLANE = 0.1
"""The rim may leave its plane by this part of its radius, as that of an open end may."""

NEAR_RADII = 4.0
"""What lies farther from the place where an end is looked for belongs to other ends."""

STEP_RADII, WHOLE_RADII, WHOLE_AREA = 0.05, 0.25, 0.98
"""Step in which a cut is moved outwards; its section is whole that has this part of the area of those so far behind:
the opening is at most 1 % narrower than the vessel."""


@dataclass(frozen=True)
class EndFace:
    """An end face.

    Attributes
    ----------
    cut : the middle of its rim, and its outward normal.
    rows : its triangles.
    rim : its points in the order in which a cap's triangles run along them.
    flat : whether its triangles lie in one plane, so that they are the opening as they are.
    """

    cut: Cut
    rows: NDArray[np.int64]
    rim: NDArray[np.int64]
    flat: bool


def end_face(mesh: Mesh, inside: Cut, radius_mm: float) -> EndFace | None:
    """The end face that closes a vessel in a direction; None where its end is round, or something else.

    Parameters
    ----------
    mesh : closed, in mm.
    inside : a place within the vessel, some radii from its end, and the direction to that.
    radius_mm : of the vessel there.
    """
    near = _near(mesh, inside, radius_mm)
    vector = mesh.area_vectors_mm2()[near]
    area = np.maximum(np.linalg.norm(vector, axis=1), 1e-30)
    hit, _ = _first_hit(mesh.points_mm[mesh.triangles[near]], inside)
    if hit < 0:
        return None
    normal = vector[hit] / area[hit]
    for _ in range(2):  # the normal of one triangle, and then that of all
        looks = np.flatnonzero(vector @ normal > np.cos(np.radians(ALONG_DEG)) * area)
        if hit not in looks:
            return None
        _, label = connected_components(neighbours(mesh.triangles[near[looks]]), directed=False)
        face = looks[label == label[np.searchsorted(looks, hit)]]
        whole = vector[face].sum(axis=0)
        normal = whole / np.linalg.norm(whole)
    try:
        loops = rims(mesh.points_mm, mesh.triangles[near[face]])
    except StageError:  # its rim meets itself
        return None
    if len(loops) != 1:
        return None
    rim = mesh.points_mm[loops[0][::-1]]
    middle = _middle(rim)
    if (np.abs((rim - middle) @ normal) > RIM_PLANE * np.sqrt(np.linalg.norm(whole) / np.pi)).any():
        return None
    behind = middle - BEHIND_RADII * np.sqrt(np.linalg.norm(whole) / np.pi) * normal
    try:
        full = np.linalg.norm(whole) >= FULL_AREA * section_mm2(mesh, behind, normal)
    except ClipError:
        return None
    flat = np.linalg.norm(whole) >= FLAT * area[face].sum()
    return EndFace(Cut(middle, normal), near[face], loops[0][::-1], bool(flat)) if full else None


def opened(mesh: Mesh, face: EndFace, number: int) -> Mesh:
    """The surface with an end face as an opening: its own triangles where they are flat, else a flat cap of its rim.

    Parameters
    ----------
    mesh : in which the face was found; its triangles keep their order.
    face : one of its end faces.
    number : of the opening.

    Raises
    ------
    ClipError
        If its rim is no simple loop.
    """
    tags = mesh.opening.copy()
    if face.flat:
        tags[face.rows] = number
        return Mesh(mesh.points_mm, mesh.triangles, tags)
    inside, cap = cap_of(mesh.points_mm[face.rim], face.cut.normal)
    rows = np.concatenate([face.rim, len(mesh.points_mm) + np.arange(len(inside))])
    triangles = np.concatenate([np.delete(mesh.triangles, face.rows, axis=0), rows[cap]])
    tags = np.concatenate([np.delete(tags, face.rows), np.full(len(cap), number, np.int8)])
    used, renumbered = np.unique(triangles, return_inverse=True)
    points = np.concatenate([mesh.points_mm, inside])[used]
    return Mesh(points, renumbered.reshape(-1, 3).astype(np.int64), tags)


def moved_outwards(mesh: Mesh, cut: Cut, least_radii: float = 0.0) -> Cut:
    """A cut moved along its normal to where the section begins to be narrower than the vessel behind it.

    Parameters
    ----------
    mesh : closed, in mm, triangles small against the vessel.
    cut : in the vessel, some way from its end.
    least_radii : the cut stays so many radii from the tip, unless it lies nearer as it is.
    """
    radius = float(np.sqrt(section_mm2(mesh, cut.centre_mm, cut.normal) / np.pi))
    rows = _near(mesh, cut, radius)
    piece = Mesh(mesh.points_mm, mesh.triangles[rows], np.zeros(len(rows), np.int8))
    hit, way_mm = _first_hit(mesh.points_mm[piece.triangles], cut)
    most = (way_mm / radius - least_radii if hit >= 0 else NEAR_RADII) / STEP_RADII
    areas: list[float] = []
    while len(areas) <= most:
        try:
            areas.append(section_mm2(piece, cut.centre_mm + len(areas) * STEP_RADII * radius * cut.normal, cut.normal))
        except ClipError:
            break
        if areas[-1] < WHOLE_AREA * max(areas[-1 - round(WHOLE_RADII / STEP_RADII) :]):
            areas.pop()
            break
    for steps in range(len(areas) - 1, 0, -1):
        moved = Cut(cut.centre_mm + steps * STEP_RADII * radius * cut.normal, cut.normal)
        try:
            check_closed(cut_end(mesh, moved.centre_mm, moved.normal, int(mesh.opening.max()) + 1))
        except (ClipError, StageError):  # its plane passes too near to corners, or meets a cap
            continue
        return moved
    return cut


def _near(mesh: Mesh, place: Cut, radius_mm: float) -> NDArray[np.int64]:
    """Rows of the triangles with a corner near a place."""
    close = np.linalg.norm(mesh.points_mm - place.centre_mm, axis=1) < NEAR_RADII * radius_mm
    return np.flatnonzero(close[mesh.triangles].any(axis=1))


def _first_hit(corners: NDArray[np.float64], ray: Cut) -> tuple[int, float]:
    """Row of the first triangle, (T, 3, 3), by which a ray leaves the vessel, or -1, and its way there."""
    a, b, c = (corners[:, k] - ray.centre_mm for k in range(3))
    sides = [np.einsum("ij,ij->i", np.cross(p, q), ray.normal[None]) for p, q in ((a, b), (b, c), (c, a))]
    outwards = np.flatnonzero((np.array(sides) >= 0).all(axis=0) & (np.array(sides).sum(axis=0) > 0))
    normal = np.cross(b - a, c - a)[outwards]
    way = np.einsum("ij,ij->i", a[outwards], normal) / (normal @ ray.normal)
    way[way <= 0] = np.inf
    first = int(np.argmin(way)) if np.isfinite(way).any() else -1
    return (int(outwards[first]), float(way[first])) if first >= 0 else (-1, np.inf)


def _middle(rim: NDArray[np.float64]) -> NDArray[np.float64]:
    """Centre of the line along a rim, (m, 3)."""
    following = np.roll(rim, -1, axis=0)
    length = np.linalg.norm(following - rim, axis=1)
    return np.asarray(np.average((rim + following) / 2, axis=0, weights=length))
