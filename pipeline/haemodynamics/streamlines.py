# SPDX-License-Identifier: Apache-2.0
"""Streamlines of a velocity on the lattice, and where they are seeded."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates
from scipy.spatial import cKDTree
from vtkmodules.util.numpy_support import numpy_to_vtk, vtk_to_numpy
from vtkmodules.vtkCommonCore import vtkPoints
from vtkmodules.vtkCommonDataModel import vtkImageData, vtkPolyData
from vtkmodules.vtkFiltersFlowPaths import vtkStreamTracer

from solver.domain.nodes import Nodes, Opening

GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))

MAX_GRID_POINTS = 40_000_000
"""A larger lattice is thinned for streamlines and slices."""


@dataclass(frozen=True)
class Grid:
    """Velocity on the box around the fluid nodes, with one more layer: zero there, or as on the other side where the
    lattice repeats. It is zero outside the lumen.

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
        position, rows = _repeated(nodes)
        kept = ((position >= low) & (position < high) & ((position - low) % stride == 0)).all(axis=1)
        x, y, z = ((position[kept] - low) // stride).T
        shape = tuple((high - low - 1) // stride + 1)[::-1]
        velocity, fluid = np.zeros((*shape, 3), np.float32), np.zeros(shape, bool)
        velocity[z, y, x], fluid[z, y, x] = velocity_m_s[rows[kept]], True
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


def _repeated(nodes: Nodes) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Lattice indices of the fluid nodes and of their images next to the borders where it repeats, and their rows."""
    position, rows = nodes.position, np.arange(nodes.count)
    for axis in np.flatnonzero(nodes.periodic):
        period = nodes.shape[2 - axis] * np.eye(3, dtype=np.int32)[axis]
        first, last = position[:, axis] == 0, position[:, axis] == nodes.shape[2 - axis] - 1
        position = np.concatenate((position, position[first] + period, position[last] - period))
        rows = np.concatenate((rows, rows[first], rows[last]))
    return position, rows


def seeds_at(openings: Iterable[Opening], grid: Grid, count: int) -> NDArray[np.float64]:
    """About `count` points inside the inlets, shared by area, evenly over each section (a sunflower), (S, 3), mm.

    Parameters
    ----------
    openings : of which the inlets count.
    grid : the velocity, in which a seed must lie.
    count : how many are wanted.
    """
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

    The time of a point is the integral of ds/|u| from the seed on along the line, negative against the flow.

    Parameters
    ----------
    grid : the velocity.
    seeds_mm : (S, 3).
    both : against the flow as well.

    Returns
    -------
    One array a line, (P, 5): x, y, z in mm, speed in m/s, time since the seed in s.
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
    since_s = vtk_to_numpy(result.GetPointData().GetArray("IntegrationTime")) * 1e-3  # mm over m/s
    table = np.column_stack((place, speed, since_s))
    offsets = vtk_to_numpy(result.GetLines().GetOffsetsArray())
    order = vtk_to_numpy(result.GetLines().GetConnectivityArray())
    inside = grid.sample(place)[1]
    lines = (order[a:b] for a, b in pairwise(offsets))
    return [table[line[inside[line]]] for line in lines if inside[line].sum() > 1]


def streamlines_from_inlets(grid: Grid, openings: Iterable[Opening], count: int) -> list[NDArray[np.float64]]:
    """Streamlines from the inlets, and up to a quarter more through parts of the lumen that these do not reach; without
    openings all of them spread over the fluid.

    Parameters
    ----------
    grid : the velocity.
    openings : of the vessel; may be empty.
    count : streamlines that are wanted.

    Returns
    -------
    Each (P, 5): x, y, z in mm, speed in m/s, time since the seed in s.
    """
    openings = tuple(openings)
    lines = streamlines(grid, seeds_at(openings, grid, count)) if openings else []
    if openings and not lines:
        return []
    z, y, x = np.nonzero(grid.fluid[1:-1, 1:-1, 1:-1])  # not in the layer around the nodes
    nodes_mm = np.column_stack((x + 1, y + 1, z + 1)) * grid.spacing_mm + grid.origin_mm
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
