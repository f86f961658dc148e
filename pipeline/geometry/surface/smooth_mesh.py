# SPDX-License-Identifier: Apache-2.0
"""Smoothing of a triangle surface: windowed sinc (Taubin, Zhang and Golub 1996) and Taubin's lambda and mu (1995).

Both are low-pass filters of the vertices' places: roughness shorter than some wavelength is removed, the rest stays.
The frequency of a shape on a mesh is the eigenvalue k, 0 to 2, of the difference of a vertex and the mean of its
neighbours; that of waves of angular frequency w on triangles of edge e is about ``(e w)^2 / 4``. Half of a wave stays
where ``w s = 1.66``, s the length ``smoothing_mm``: as in the difference of two Gaussians of the iso-surface.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from vtkmodules.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkFiltersCore import vtkWindowedSincPolyDataFilter

from pipeline.files.mesh import Mesh
from pipeline.geometry.surface.clip import directed_edges
from pipeline.geometry.surface.connections import WALL
from pipeline.geometry.surface.facets import with_volume
from pipeline.geometry.surface.isosurface import DEFAULT_SMOOTHING_VOXELS, neighbour_mean
from pipeline.geometry.surface.remesh import vertex_kinds

MeshSmoother = Literal["windowed-sinc", "taubin", "none"]

HALF = 1.66
"""Angular frequency, times the smoothing length, of which half stays."""
MOST_FREQUENT = 1.0
"""A length below the triangles' edges removes nothing but their own zigzag."""
SHRINK = 0.5
"""Taubin's lambda."""
PASS = 0.1
"""Taubin's pass band, of the frequency of which half stays: lower ones are amplified by 0.2 % at most."""


def smooth_mesh(
    mesh: Mesh, smoother: MeshSmoother, smoothing_mm: float | None, volume_mm3: float | None = None
) -> Mesh:
    """Smooth the wall of a closed surface; caps and their rims stay, and so does the volume.

    Parameters
    ----------
    mesh : closed.
    smoother : ``windowed-sinc``, ``taubin``, or ``none``.
    smoothing_mm : length below which roughness is removed; None: 1.25 times the mean edge.
    volume_mm3 : enclosed in the end; None: as before.
    """
    wall, wanted_mm3 = vertex_kinds(mesh) == WALL, mesh.volume_mm3() if volume_mm3 is None else volume_mm3
    edges = directed_edges(mesh.triangles)
    edge_mm = float(np.linalg.norm(mesh.points_mm[edges[:, 0]] - mesh.points_mm[edges[:, 1]], axis=1).mean())
    length_mm = DEFAULT_SMOOTHING_VOXELS * edge_mm if smoothing_mm is None else smoothing_mm
    frequency = min((HALF * edge_mm / length_mm) ** 2 / 4, MOST_FREQUENT)
    if smoother != "none":
        mesh = {"windowed-sinc": _windowed_sinc, "taubin": _taubin}[smoother](mesh, frequency, wall)
    return with_volume(mesh, wanted_mm3, wall)


def _windowed_sinc(mesh: Mesh, frequency: float, wall: NDArray[np.bool_]) -> Mesh:
    """The wall is handed over without the caps: the filter keeps the rims of what is open."""
    smooth = vtkWindowedSincPolyDataFilter()
    part = mesh.opening == 0
    smooth.SetInputData(Mesh(mesh.points_mm, mesh.triangles[part], mesh.opening[part]).to_vtk())
    smooth.SetPassBand(frequency / 4)  # all of that stays; the window's lobe fits between it and the frequency
    smooth.SetNumberOfIterations(int(np.ceil(4 * np.pi / np.arccos(1 - frequency / 2))))
    smooth.NormalizeCoordinatesOn()
    smooth.BoundarySmoothingOff()
    smooth.FeatureEdgeSmoothingOff()
    smooth.NonManifoldSmoothingOff()
    smooth.Update()
    points = vtk_to_numpy(smooth.GetOutput().GetPoints().GetData()).astype(np.float64)
    return Mesh(np.where(wall[:, None], points, mesh.points_mm), mesh.triangles, mesh.opening)


def _taubin(mesh: Mesh, frequency: float, wall: NDArray[np.bool_]) -> Mesh:
    """Steps of lambda and mu by turns: ``x <- x + lambda (mean - x)`` with lambda > 0 > mu = 1 / (k_pass - 1 / lambda)
    (Taubin 1995, doi:10.1145/218380.218473), as often as takes half of the frequency.
    """
    grow = 1 / (PASS * frequency - 1 / SHRINK)
    kept = (1 - SHRINK * frequency) * (1 - grow * frequency)
    mean, points = neighbour_mean(mesh), mesh.points_mm
    for _ in range(int(np.ceil(np.log(0.5) / np.log(kept)))):
        for factor in (SHRINK, grow):
            points = points + factor * wall[:, None] * (mean @ points - points)
    return Mesh(points, mesh.triangles, mesh.opening)
