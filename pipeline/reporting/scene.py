# SPDX-License-Identifier: Apache-2.0
"""What the pictures show, computed without a screen: caps, lengthwise slice, views."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from vtkmodules.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkCommonDataModel import vtkPlane
from vtkmodules.vtkFiltersCore import vtkCutter, vtkStripper

from pipeline.files.mesh import Mesh
from pipeline.haemodynamics.streamlines import Grid
from solver.domain.nodes import Opening

LETTERS = ("LR", "PA", "HF")
"""Names of the directions +x -x, +y -y, +z -z of LPS: left right, posterior anterior, head foot."""

CAP_HEIGHT = 0.1
"""A rim farther than this from the plane of its opening, in radii, is where the wall of a shape that repeats ends."""


@dataclass(frozen=True)
class View:
    """A view of the vessel in parallel projection.

    Attributes
    ----------
    right, up, toward : unit vectors in LPS: along the picture's width, its height, and from the vessel to the viewer.
    centre_mm : the point in the middle of the picture.
    width_mm, height_mm : what the picture shows.
    """

    right: NDArray[np.float64]
    up: NDArray[np.float64]
    toward: NDArray[np.float64]
    centre_mm: NDArray[np.float64]
    width_mm: float
    height_mm: float

    def project(self, points_mm: NDArray[np.float64]) -> NDArray[np.float64]:
        """Places in the picture, (..., 2), mm right of and above its middle."""
        return (points_mm - self.centre_mm) @ np.column_stack((self.right, self.up))

    def letters(self) -> dict[str, str]:
        """Patient directions at the four edges of the picture."""
        return {
            "right": direction_letters(self.right),
            "left": direction_letters(-self.right),
            "top": direction_letters(self.up),
            "bottom": direction_letters(-self.up),
        }


def direction_letters(vector: NDArray[np.float64]) -> str:
    """Letters of a direction in LPS, at most two, the stronger first; a part below 0.4 is left out."""
    order = np.argsort(-np.abs(vector), kind="stable")[:2]
    return "".join(LETTERS[k][int(vector[k] < 0)] for k in order if abs(vector[k]) >= 0.4)


def front_view(points_mm: NDArray[np.float64], margin: float = 0.12) -> View:
    """The view across the plane in which the vessel spreads most, with the patient's head (or front) up.

    Parameters
    ----------
    points_mm : (P, 3), points of the wall.
    margin : free border, as a fraction of the larger side.
    """
    middle = points_mm.mean(axis=0)
    toward = np.linalg.svd(points_mm - middle, full_matrices=False)[2][2]
    axial = abs(toward[2]) > 0.9
    head, front = np.array([0.0, 0.0, 1.0]), np.array([0.0, -1.0, 0.0])
    reference = -head if axial else front  # as a radiologist looks: from the feet, or from the front
    if toward @ reference < 0:
        toward = -toward
    up = front if axial else head
    return _fitted(points_mm, up, toward, margin)


def around(points_mm: NDArray[np.float64], view: View, degrees: Iterable[float], margin: float = 0.12) -> list[View]:
    """Views after walking around the vertical of the picture, to the viewer's right, all of one size.

    Parameters
    ----------
    points_mm : (P, 3) that all views must show, LPS.
    view : that the walk starts from.
    degrees : of the way around, one for each view.
    margin : around what is shown, as a part of its size.
    """
    angles = [np.deg2rad(each) for each in degrees]
    towards = [np.cos(angle) * view.toward + np.sin(angle) * view.right for angle in angles]
    views = [_fitted(points_mm, view.up, toward, margin) for toward in towards]
    width, height = max(view.width_mm for view in views), max(view.height_mm for view in views)
    return [replace(view, width_mm=width, height_mm=height) for view in views]


def _fitted(
    points_mm: NDArray[np.float64], up: NDArray[np.float64], toward: NDArray[np.float64], margin: float
) -> View:
    up = up - (up @ toward) * toward
    up = up / np.linalg.norm(up)
    right = np.cross(up, toward)
    frame = np.array([right, up, toward])
    projected = points_mm @ frame.T
    low, high = projected.min(axis=0), projected.max(axis=0)
    width, height = (high - low)[:2] + 2 * margin * (high - low)[:2].max()
    return View(right, up, toward, (low + high) / 2 @ frame, float(width), float(height))


def caps(wall: Mesh, openings: Iterable[Opening]) -> dict[int, Mesh]:
    """Flat caps over the rims of the wall in the planes of openings, by the opening's id: fans around its centre."""
    edges = wall.triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    key = np.sort(edges, axis=1) @ np.array([len(wall.points_mm), 1])
    _, first, count = np.unique(key, return_index=True, return_counts=True)
    rim = edges[first[count == 1]]
    openings = tuple(openings)
    if not len(rim) or not openings:
        return {}
    middle = wall.points_mm[rim].mean(axis=1)
    owner = cKDTree([opening.centre_mm for opening in openings]).query(middle)[1]
    found = {}
    for k, opening in enumerate(openings):
        height = (middle - opening.centre_mm) @ np.asarray(opening.normal)
        edges = rim[(owner == k) & (np.abs(height) < CAP_HEIGHT * opening.radius_mm)]
        used, renumbered = np.unique(edges, return_inverse=True)
        points = np.vstack((wall.points_mm[used], opening.centre_mm))
        fan = np.column_stack((renumbered.reshape(-1, 2)[:, ::-1], np.full(len(edges), len(used))))
        found[opening.id] = Mesh(points, fan.astype(np.int64), np.full(len(fan), opening.id, np.int8))
    return found


@dataclass(frozen=True)
class Slice:
    """A flat slice lengthwise through the lumen, seen in a view.

    Attributes
    ----------
    speed_m_s : (H, W), rows upwards; 0 outside the lumen.
    in_plane_m_s : (H, W, 2), velocity along the picture's right and up.
    inside : (H, W) bool, in the lumen as far as the lattice shows it.
    right_mm, up_mm : (W,), (H,), places of columns and rows in the picture.
    outline_mm : closed lines, each (P, 2), where the plane meets the surface, in the picture.
    """

    speed_m_s: NDArray[np.float64]
    in_plane_m_s: NDArray[np.float64]
    inside: NDArray[np.bool_]
    right_mm: NDArray[np.float64]
    up_mm: NDArray[np.float64]
    outline_mm: list[NDArray[np.float64]]


def lengthwise_slice(grid: Grid, surface: Mesh, view: View, through_mm: NDArray[np.float64]) -> Slice:
    """The slice parallel to the picture through a point; `surface` is the closed wall.

    Parameters
    ----------
    grid : the velocity.
    surface : the closed wall, mm, LPS.
    view : to whose picture the slice is parallel.
    through_mm : (3,) the point, LPS.
    """
    depth = (through_mm - view.centre_mm) @ view.toward
    step = max(grid.spacing_mm / 2, max(view.width_mm, view.height_mm) / 1200)
    right = np.arange(-view.width_mm / 2, view.width_mm / 2, step)
    up = np.arange(-view.height_mm / 2, view.height_mm / 2, step)
    places = view.centre_mm + depth * view.toward + right[None, :, None] * view.right + up[:, None, None] * view.up
    velocity, inside = grid.sample(places)
    in_plane = velocity @ np.column_stack((view.right, view.up))
    outline = [view.project(line) for line in _section(surface, through_mm, view.toward)]
    return Slice(np.linalg.norm(velocity, axis=-1), in_plane, inside, right, up, outline)


def _section(surface: Mesh, through_mm: NDArray[np.float64], normal: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Lines in which a plane meets a surface, each (P, 3)."""
    plane = vtkPlane()
    plane.SetOrigin(*through_mm)
    plane.SetNormal(*normal)
    cutter, stripper = vtkCutter(), vtkStripper()
    cutter.SetInputData(surface.to_vtk())
    cutter.SetCutFunction(plane)
    stripper.SetInputConnection(cutter.GetOutputPort())
    stripper.SetMaximumLength(1_000_000)
    stripper.JoinContiguousSegmentsOn()
    stripper.Update()
    lines = stripper.GetOutput()
    if not lines.GetNumberOfLines():
        return []
    points = vtk_to_numpy(lines.GetPoints().GetData()).astype(np.float64)
    offsets, order = (
        vtk_to_numpy(array) for array in (lines.GetLines().GetOffsetsArray(), lines.GetLines().GetConnectivityArray())
    )
    return [points[order[a:b]] for a, b in pairwise(offsets)]


def closed(wall: Mesh, caps_by_id: Mapping[int, Mesh]) -> Mesh:
    """Wall and caps as one surface with shared points."""
    parts = [wall, *caps_by_id.values()]
    starts = np.cumsum([0, *(len(part.points_mm) for part in parts)])
    points = np.concatenate([part.points_mm for part in parts])
    triangles = np.concatenate([part.triangles + start for part, start in zip(parts, starts, strict=False)])
    points, renumbered = np.unique(points, axis=0, return_inverse=True)
    return Mesh(points, renumbered.ravel()[triangles], np.concatenate([part.opening for part in parts]))
