"""Three-dimensional pictures, drawn off-screen by VTK; text, scales and colour bars are added by :mod:`figures`.

VTK draws through EGL or OSMesa and ends the whole process where neither library is installed. Which one works is found
out in another process; where none does, there are no still pictures and :data:`REMEDY` says what to install.
"""

import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import cache

import matplotlib as mpl
import numpy as np
import vtkmodules.vtkRenderingOpenGL2 as opengl
from numpy.typing import NDArray
from vtkmodules.util.numpy_support import numpy_to_vtk, numpy_to_vtkIdTypeArray, vtk_to_numpy
from vtkmodules.vtkCommonCore import vtkLookupTable, vtkPoints
from vtkmodules.vtkCommonDataModel import vtkCellArray, vtkPolyData
from vtkmodules.vtkFiltersCore import vtkGlyph3D, vtkPolyDataNormals, vtkTubeFilter
from vtkmodules.vtkFiltersSources import vtkArrowSource
from vtkmodules.vtkRenderingCore import (
    vtkActor,
    vtkPolyDataMapper,
    vtkRenderer,
    vtkRenderWindow,
    vtkWindowToImageFilter,
)

from pipeline.mesh import Mesh
from pipeline.reporting.scene import View

WINDOWS = ("vtkEGLRenderWindow", "vtkOSOpenGLRenderWindow")
"""Ways to draw without a screen, the preferred one first."""

REMEDY = "install libegl1 and libgl1-mesa-dri (or libosmesa6), as these packages are called in Debian and Ubuntu"

OVERSAMPLING = 2
"""Pictures are drawn larger and averaged down: smooth edges, and the same on every driver."""

GLASS = (0.90, 0.92, 0.95)
"""Colour of a wall that is there for orientation."""

PROBE = """
import sys
import vtkmodules.vtkRenderingOpenGL2 as opengl
from vtkmodules.vtkRenderingCore import vtkRenderer
window = getattr(opengl, sys.argv[1])()
window.SetOffScreenRendering(True)
window.SetSize(8, 8)
window.AddRenderer(vtkRenderer())
window.Render()
sys.exit(not window.SupportsOpenGL())
"""


@cache
def window_class() -> str | None:
    """Name of the VTK window that can draw on this machine, or none."""
    for name in WINDOWS:
        answer = subprocess.run([sys.executable, "-c", PROBE, name], capture_output=True, timeout=120, check=False)
        if hasattr(opengl, name) and answer.returncode == 0:
            return name
    return None


def draw(actors: Iterable[vtkActor], views: Sequence[View], longest: int) -> list[NDArray[np.uint8]]:
    """Pictures of actors on white in parallel projection.

    Parameters
    ----------
    actors : what is drawn.
    views : points of view, one a picture, all of one size.
    longest : longer side of a picture in pixels.

    Returns
    -------
    (H, W, 3) each, rows downwards.

    Raises
    ------
    RuntimeError
        If nothing can be drawn on this machine; ask :func:`window_class` before.
    """
    name = window_class()
    if name is None:
        raise RuntimeError(f"nothing can be drawn off-screen: {REMEDY}")
    renderer = vtkRenderer()
    renderer.SetBackground(1, 1, 1)
    for actor in actors:
        renderer.AddActor(actor)
    scale = longest / max(views[0].width_mm, views[0].height_mm)
    width, height = round(views[0].width_mm * scale), round(views[0].height_mm * scale)
    window: vtkRenderWindow = getattr(opengl, name)()
    window.SetOffScreenRendering(True)
    window.SetMultiSamples(0)
    window.SetSize(width * OVERSAMPLING, height * OVERSAMPLING)
    window.AddRenderer(renderer)
    pictures = []
    for view in views:
        _aim(renderer, view)
        window.Render()
        grab = vtkWindowToImageFilter()
        grab.SetInput(window)
        grab.ReadFrontBufferOff()
        grab.Update()
        pixels = vtk_to_numpy(grab.GetOutput().GetPointData().GetScalars())
        blocks = pixels.reshape(height, OVERSAMPLING, width, OVERSAMPLING, 3)[::-1]
        pictures.append(blocks.mean(axis=(1, 3)).round().astype(np.uint8))
    window.Finalize()
    return pictures


def _aim(renderer: vtkRenderer, view: View) -> None:
    distance = 10 * max(view.width_mm, view.height_mm)
    camera = renderer.GetActiveCamera()
    camera.ParallelProjectionOn()
    camera.SetFocalPoint(*view.centre_mm)
    camera.SetPosition(*(view.centre_mm + distance * view.toward))
    camera.SetViewUp(*view.up)
    camera.SetParallelScale(view.height_mm / 2)
    renderer.ResetCameraClippingRange()


def surface_actor(
    mesh: Mesh, colour: Sequence[float], opacity: float = 1.0, side: str = "both", flat: bool = False
) -> vtkActor:
    """A surface of one colour.

    Parameters
    ----------
    mesh : the surface.
    colour : red, green, blue, each from 0 to 1.
    opacity : from 0 to 1.
    side : ``both``; ``far`` for what is seen from inside alone, as if the vessel were opened; ``near`` for the rest.
    flat : without shading.
    """
    polydata = mesh.to_vtk()
    polydata.GetCellData().Initialize()
    actor = _actor(_smooth(polydata))
    actor.GetProperty().SetColor(*colour)
    actor.GetProperty().SetOpacity(opacity)
    actor.GetProperty().SetLighting(not flat)
    actor.GetProperty().SetFrontfaceCulling(side == "far")
    actor.GetProperty().SetBackfaceCulling(side == "near")
    return actor


def see_through_actors(wall: Mesh) -> list[vtkActor]:
    """A glass wall: its far side light and solid, its near side a thin veil."""
    return [surface_actor(wall, GLASS, side="far"), surface_actor(wall, GLASS, 0.18, "near")]


def coloured_actor(mesh: Mesh, values: NDArray[np.floating], limits: tuple[float, float], colours: str) -> vtkActor:
    """A surface coloured by values at its points, (P,), through a matplotlib colour map."""
    polydata = mesh.to_vtk()
    polydata.GetCellData().Initialize()
    polydata.GetPointData().SetScalars(numpy_to_vtk(np.ascontiguousarray(values, np.float32), deep=True))
    actor = _actor(_smooth(polydata))
    _colour(actor, limits, colours)
    return actor


def tube_actor(
    lines: Sequence[NDArray[np.float64]], radius_mm: float, limits: tuple[float, float], colours: str
) -> vtkActor:
    """Tubes along lines, each (P, 4): x, y, z in mm and the value that colours it."""
    table = np.concatenate(lines)
    offsets = np.concatenate(([0], np.cumsum([len(line) for line in lines]))).astype(np.int64)
    polydata, points, cells = vtkPolyData(), vtkPoints(), vtkCellArray()
    points.SetData(numpy_to_vtk(np.ascontiguousarray(table[:, :3]), deep=True))
    cells.SetData(
        numpy_to_vtkIdTypeArray(offsets, deep=True),
        numpy_to_vtkIdTypeArray(np.arange(len(table), dtype=np.int64), deep=True),
    )
    polydata.SetPoints(points)
    polydata.SetLines(cells)
    polydata.GetPointData().SetScalars(numpy_to_vtk(table[:, 3].astype(np.float32), deep=True))
    tubes = vtkTubeFilter()
    tubes.SetInputData(polydata)
    tubes.SetRadius(radius_mm)
    tubes.SetNumberOfSides(8)
    tubes.CappingOn()
    tubes.Update()
    actor = _actor(tubes.GetOutput())
    _colour(actor, limits, colours)
    return actor


def arrow_actor(
    points_mm: NDArray[np.float64],
    velocity: NDArray[np.floating],
    length_mm: float,
    limits: tuple[float, float],
    colours: str,
) -> vtkActor:
    """Arrows of one length at points, (P, 3), along a velocity, (P, 3), coloured by its size."""
    polydata, points = vtkPolyData(), vtkPoints()
    points.SetData(numpy_to_vtk(np.ascontiguousarray(points_mm), deep=True))
    polydata.SetPoints(points)
    polydata.GetPointData().SetVectors(numpy_to_vtk(np.ascontiguousarray(velocity, np.float32), deep=True))
    speed = np.linalg.norm(velocity, axis=1).astype(np.float32)
    polydata.GetPointData().SetScalars(numpy_to_vtk(speed, deep=True))
    glyphs, arrow = vtkGlyph3D(), vtkArrowSource()
    glyphs.SetSourceConnection(arrow.GetOutputPort())
    glyphs.SetInputData(polydata)
    glyphs.SetScaleModeToDataScalingOff()
    glyphs.SetScaleFactor(length_mm)
    glyphs.Update()
    actor = _actor(glyphs.GetOutput())
    _colour(actor, limits, colours)
    return actor


def _smooth(polydata: vtkPolyData) -> vtkPolyData:
    normals = vtkPolyDataNormals()
    normals.SetInputData(polydata)
    normals.SplittingOff()
    normals.ConsistencyOff()
    normals.Update()
    return normals.GetOutput()


def _actor(polydata: vtkPolyData) -> vtkActor:
    mapper = vtkPolyDataMapper()
    mapper.SetInputData(polydata)
    mapper.ScalarVisibilityOff()
    actor = vtkActor()
    actor.SetMapper(mapper)
    actor.GetProperty().SetAmbient(0.4)
    actor.GetProperty().SetDiffuse(0.6)
    actor.GetProperty().SetSpecular(0.08)
    actor.GetProperty().SetSpecularPower(20)
    return actor


def _colour(actor: vtkActor, limits: tuple[float, float], colours: str) -> None:
    """Colour by the scalars through one of matplotlib's perceptually uniform maps."""
    table = vtkLookupTable()
    rgba = (mpl.colormaps[colours](np.linspace(0, 1, 256)) * 255).round().astype(np.uint8)
    table.SetTable(numpy_to_vtk(rgba, deep=True))
    table.SetTableRange(*limits)
    mapper = actor.GetMapper()
    mapper.SetLookupTable(table)
    mapper.UseLookupTableScalarRangeOn()
    mapper.ScalarVisibilityOn()
    mapper.InterpolateScalarsBeforeMappingOn()
