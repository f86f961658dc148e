# SPDX-License-Identifier: Apache-2.0
"""Flat cuts through the lumen: one along the vessel and some across it, with speed and pressure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt

from pipeline.files.mesh import Mesh
from pipeline.geometry.branches.centreline_refinement import arc_length
from pipeline.reporting.scene import Grid, Slice, View, lengthwise_slice
from solver.domain.nodes import Nodes, Opening

INSIDE_RADII = 2.0
"""A cut near an opening lies so many radii inside it, where the imposed condition no longer shows."""

REACH_RADII = 1.6
"""What a cut across shows on each side of the centre, in radii of the vessel there."""


@dataclass(frozen=True)
class Cut:
    """A flat cut.

    Attributes
    ----------
    title : where it lies.
    view : how it is seen, from the side towards which blood flows where it lies across.
    section : speed, velocity in the plane and outline.
    pressure_pa : (H, W), on the points of the section; outside the lumen that of the nearest point inside.
    """

    title: str
    view: View
    section: Slice
    pressure_pa: NDArray[np.float64]


def cut(
    title: str, nodes: Nodes, velocity: Grid, pressure: Grid, surface: Mesh, view: View, through_mm: NDArray[np.float64]
) -> Cut:
    """The cut through a point in the plane of a view.

    Parameters
    ----------
    title : where it lies.
    nodes : of the lattice; a vessel that repeats is open where it does, so that its outline is left out.
    velocity, pressure : as :func:`pressure_grid` makes the second.
    surface : wall and caps.
    view, through_mm : the plane.
    """
    section = lengthwise_slice(velocity, surface, view, through_mm)
    if any(nodes.periodic):
        section = replace(section, outline_mm=[])
    depth = (through_mm - view.centre_mm) @ view.toward
    places = (
        view.centre_mm
        + depth * view.toward
        + section.right_mm[None, :, None] * view.right
        + section.up_mm[:, None, None] * view.up
    )
    carried = pressure.sample(places)[0]
    weight = carried[..., 1]
    values = carried[..., 0] / np.where(weight > 0, weight, 1.0)
    nearest = distance_transform_edt(weight <= 0, return_distances=False, return_indices=True)
    return Cut(title, view, section, values[tuple(nearest)])


def pressure_grid(nodes: Nodes, pressure_pa: NDArray[np.floating]) -> Grid:
    """Pressure and 1 at fluid nodes, 0 elsewhere, as components 0 and 1 of a grid: interpolated values of the first
    over those of the second are means over fluid nodes alone, so that the wall does not pull the pressure to zero.
    """
    return Grid.of(nodes, np.column_stack((pressure_pa, np.ones_like(pressure_pa), np.zeros_like(pressure_pa))))


def places_across(
    openings: Sequence[Opening], tree: Mapping[str, Any] | None, lines: Sequence[NDArray[np.float64]]
) -> list[tuple[str, NDArray[np.float64], NDArray[np.float64], float]]:
    """Where the vessel is cut across: inside the widest inlet, and at the narrowest place of the centreline; without a
    centreline inside the widest outlet.

    Parameters
    ----------
    openings : of the vessel; without any it is not cut.
    tree, lines : the centreline's summary and its branches, each (n, 4): x, y, z and radius, mm; none of both where
        there is no centreline.

    Returns
    -------
    Title, centre (mm), direction along the vessel (unit vector) and radius (mm) of each cut.
    """
    found = []
    for role in ("inlet", "outlet"):
        chosen = max((o for o in openings if o.role == role), key=lambda o: o.radius_mm, default=None)
        if chosen is None or (role == "outlet" and tree):
            continue
        depth_mm = INSIDE_RADII * chosen.radius_mm
        along = np.asarray(chosen.normal) * (-1 if role == "inlet" else 1)
        place = np.asarray(chosen.centre_mm) - depth_mm * np.asarray(chosen.normal)
        if lines:
            place, along = _inside(lines, chosen, depth_mm)
        found.append((f"{depth_mm:.1f} mm inside {chosen.name}", place, along, chosen.radius_mm))
    if tree and lines and openings:
        place = np.asarray(tree["narrowest_place_mm"], float)
        line = min(lines, key=lambda each: np.linalg.norm(each[:, :3] - place, axis=1).min())
        away = np.array([np.linalg.norm(line[:, :3] - o.centre_mm, axis=1) / o.radius_mm for o in openings]).min(axis=0)
        free = np.flatnonzero(away >= 1)  # a cut nearer to a cap would be cut off by it
        if len(free):
            at = int(free[np.linalg.norm(line[free, :3] - place, axis=1).argmin()])
            found.append(("narrowest place", line[at, :3], _tangent(line, at), float(line[at, 3])))
    return found


def _inside(
    lines: Sequence[NDArray[np.float64]], opening: Opening, depth_mm: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Place on the centreline so far from an opening, and the direction of the line away from it: vessels bend."""
    ends = [line[::step] for line in lines for step in (1, -1)]
    line = min(ends, key=lambda each: float(np.linalg.norm(each[0, :3] - opening.centre_mm)))
    at = min(int(np.searchsorted(arc_length(line[:, :3]), depth_mm)), len(line) - 1)
    return line[at, :3], _tangent(line, at)


def _tangent(line: NDArray[np.float64], at: int) -> NDArray[np.float64]:
    """Unit vector along a line at one of its points."""
    ahead, behind = line[min(at + 2, len(line) - 1), :3], line[max(at - 2, 0), :3]
    return np.asarray((ahead - behind) / np.linalg.norm(ahead - behind))


def view_across(centre_mm: NDArray[np.float64], along: NDArray[np.float64], radius_mm: float) -> View:
    """The view of a cut across a vessel, against the flow, with the patient's head up, or the front where the vessel
    runs along the body.

    Parameters
    ----------
    centre_mm : (3,) of the cut, LPS.
    along : (3,) unit vector of the flow.
    radius_mm : of the vessel there.
    """
    reference = np.array([0.0, 0.0, 1.0]) if abs(along[2]) < 0.9 else np.array([0.0, -1.0, 0.0])
    up = reference - (reference @ along) * along
    up = up / np.linalg.norm(up)
    size = 2 * REACH_RADII * radius_mm
    return View(np.cross(up, along), up, along, centre_mm, size, size)
