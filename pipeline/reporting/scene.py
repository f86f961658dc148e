"""What the pictures show, computed without a screen: velocity grid, caps, streamlines, lengthwise slice, views."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates
from scipy.spatial import cKDTree
from vtkmodules.util.numpy_support import numpy_to_vtk, vtk_to_numpy
from vtkmodules.vtkCommonCore import vtkPoints
from vtkmodules.vtkCommonDataModel import vtkImageData, vtkPlane, vtkPolyData
from vtkmodules.vtkFiltersCore import vtkCutter, vtkStripper
from vtkmodules.vtkFiltersFlowPaths import vtkStreamTracer

from pipeline.mesh import Mesh
from solver.nodes import Nodes, Opening

LETTERS = ("LR", "PA", "HF")
"""Names of the directions +x -x, +y -y, +z -z of LPS: left right, posterior anterior, head foot."""

GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))

MAX_GRID_POINTS = 40_000_000
"""A larger lattice is thinned for streamlines and slices."""

CAP_HEIGHT = 0.1
"""A rim farther than this from the plane of its opening, in radii, is where the wall of a shape that repeats ends."""


@dataclass(frozen=True)
class Grid:
    """Velocity on the box around the fluid nodes, zero outside the lumen.

    Attributes
    ----------
    velocity_m_s : (Z, Y, X, 3) float32, components (x, y, z), LPS.
    fluid : (Z, Y, X) bool.
    spacing_mm : distance of neighbouring points.
    origin_mm : place of point (0, 0, 0), (x, y, z), LPS.
    """

    velocity_m_s: NDArray[np.float32]
    fluid: NDArray[np.bool_]
    spacing_mm: float
    origin_mm: NDArray[np.float64]

    @staticmethod
    def of(nodes: Nodes, velocity_m_s: NDArray[np.floating]) -> "Grid":
        """From the values at the fluid nodes, (N, 3)."""
        low, high = nodes.position.min(axis=0) - 1, nodes.position.max(axis=0) + 2
        stride = 1
        while np.prod((high - low) // stride + 1) > MAX_GRID_POINTS:
            stride += 1
        kept = np.flatnonzero(((nodes.position - low) % stride == 0).all(axis=1))
        x, y, z = ((nodes.position[kept] - low) // stride).T
        shape = tuple((high - low - 1) // stride + 1)[::-1]
        velocity, fluid = np.zeros((*shape, 3), np.float32), np.zeros(shape, bool)
        velocity[z, y, x], fluid[z, y, x] = velocity_m_s[kept], True
        origin = low * nodes.spacing_mm + np.asarray(nodes.origin_mm)
        return Grid(velocity, fluid, nodes.spacing_mm * stride, origin)

    def sample(self, points_mm: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Velocity, (..., 3), by trilinear interpolation, and whether most of the value comes from fluid, (...)."""
        index = np.moveaxis((points_mm - self.origin_mm) / self.spacing_mm, -1, 0)[::-1]
        velocity = [map_coordinates(self.velocity_m_s[..., k], index, order=1, output=np.float64) for k in range(3)]
        inside = map_coordinates(self.fluid.astype(np.float32), index, order=1) >= 0.5
        return np.stack(velocity, axis=-1), inside

    def to_vtk(self) -> vtkImageData:
        """As a VTK image with the point vectors ``velocity`` (m/s); coordinates in mm."""
        image = vtkImageData()
        image.SetDimensions(*self.fluid.shape[::-1])
        image.SetSpacing((self.spacing_mm,) * 3)
        image.SetOrigin(*self.origin_mm)
        array = numpy_to_vtk(self.velocity_m_s.reshape(-1, 3), deep=True)
        array.SetName("velocity")
        image.GetPointData().SetVectors(array)
        return image


@dataclass(frozen=True)
class View:
    """A look at the vessel in parallel projection.

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
    """Views after walking around the vertical of the picture, to the viewer's right, all of one size."""
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
    seen = points_mm @ frame.T
    low, high = seen.min(axis=0), seen.max(axis=0)
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


def seeds_at(openings: Iterable[Opening], grid: Grid, count: int) -> NDArray[np.float64]:
    """About `count` points inside the inlets, shared by area, evenly over each section (a sunflower), (S, 3), mm."""
    inlets = [opening for opening in openings if opening.role == "inlet"]
    area = sum(opening.area_mm2 for opening in inlets)
    points = []
    for opening in inlets:
        number = max(1, round(count * opening.area_mm2 / area))
        k = np.arange(number) + 0.5
        radius, angle = opening.radius_mm * np.sqrt(k / number), k * GOLDEN_ANGLE
        normal = np.asarray(opening.normal)
        first = np.cross(normal, np.eye(3)[np.argmin(np.abs(normal))])
        first /= np.linalg.norm(first)
        disc = radius[:, None] * (np.cos(angle)[:, None] * first + np.sin(angle)[:, None] * np.cross(normal, first))
        points.append(np.asarray(opening.centre_mm) - 2 * grid.spacing_mm * normal + disc)
    found = np.concatenate(points)
    return found[grid.sample(found)[1]]


def streamlines(grid: Grid, seeds_mm: NDArray[np.float64], both: bool = False) -> list[NDArray[np.float64]]:
    """Lines along the velocity from each seed, by Runge-Kutta 4-5.

    Parameters
    ----------
    grid : the velocity.
    seeds_mm : (S, 3).
    both : against the flow as well.

    Returns
    -------
    One array a line, (P, 4): x, y, z in mm, speed in m/s.
    """
    points = vtkPoints()
    points.SetData(numpy_to_vtk(np.ascontiguousarray(seeds_mm), deep=True))
    source = vtkPolyData()
    source.SetPoints(points)
    tracer = vtkStreamTracer()
    tracer.SetInputData(grid.to_vtk())
    tracer.SetSourceData(source)
    tracer.SetIntegratorTypeToRungeKutta45()
    tracer.SetIntegrationStepUnit(vtkStreamTracer.CELL_LENGTH_UNIT)
    tracer.SetInitialIntegrationStep(0.3)
    tracer.SetMaximumIntegrationStep(1.0)
    tracer.SetMaximumNumberOfSteps(6000)
    tracer.SetMaximumPropagation(6 * sum(grid.fluid.shape) * grid.spacing_mm)
    fastest = float(np.linalg.norm(grid.velocity_m_s, axis=-1).max())
    tracer.SetTerminalSpeed(1e-3 * fastest)
    (tracer.SetIntegrationDirectionToBoth if both else tracer.SetIntegrationDirectionToForward)()
    tracer.SetComputeVorticity(False)
    tracer.Update()
    result = tracer.GetOutput()
    if not result.GetNumberOfLines():
        return []
    place = vtk_to_numpy(result.GetPoints().GetData()).astype(np.float64)
    speed = np.linalg.norm(vtk_to_numpy(result.GetPointData().GetArray("velocity")), axis=1)
    table = np.column_stack((place, speed))
    offsets = vtk_to_numpy(result.GetLines().GetOffsetsArray())
    order = vtk_to_numpy(result.GetLines().GetConnectivityArray())
    inside = grid.sample(place)[1]
    lines = (order[a:b] for a, b in pairwise(offsets))
    return [table[line[inside[line]]] for line in lines if inside[line].sum() > 1]


def streamlines_from_inlets(grid: Grid, openings: Iterable[Opening], count: int) -> list[NDArray[np.float64]]:
    """Streamlines from the inlets, and up to a quarter more through parts of the lumen that these do not reach; without
    openings all of them spread over the fluid.
    """
    openings = tuple(openings)
    lines = streamlines(grid, seeds_at(openings, grid, count)) if openings else []
    if openings and not lines:
        return []
    z, y, x = np.nonzero(grid.fluid)
    nodes_mm = np.column_stack((x, y, z)) * grid.spacing_mm + grid.origin_mm
    nodes_mm = nodes_mm[:: max(1, len(nodes_mm) // 20_000)]
    distance = np.full(len(nodes_mm), np.inf)
    if lines:
        distance = cKDTree(np.concatenate(lines)[:, :3]).query(nodes_mm)[0]
    far = min((opening.radius_mm for opening in openings), default=0.0) / 2
    seeds: list[NDArray[np.float64]] = []
    while len(seeds) < (count // 4 if openings else count) and distance.max() > far:
        seeds.append(nodes_mm[distance.argmax()])
        distance = np.minimum(distance, np.linalg.norm(nodes_mm - seeds[-1], axis=1))
    return lines + (streamlines(grid, np.array(seeds), both=True) if seeds else [])


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
    """The slice parallel to the picture through a point; `surface` is the closed wall."""
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
