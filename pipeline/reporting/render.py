# SPDX-License-Identifier: Apache-2.0
"""Three-dimensional pictures, drawn off-screen by VTK; text, scales and colour bars are added by :mod:`figures`.

VTK draws through EGL or OSMesa and ends the whole process where neither library is installed. Which one works is found
out in another process; where none does, there are no still pictures and :data:`REMEDY` says what to install.
"""

import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from itertools import product

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

from pipeline.files.mesh import Mesh
from pipeline.reporting.colours import AMBIENT, DIFFUSE, STEPS, colour_map
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


class Canvas:
    """Draws picture after picture of one size, on white and in parallel projection, in one window off-screen.

    A window for each picture would load the graphics driver and compile its shaders again.

    Parameters
    ----------
    view : whose width and height all pictures have.
    longest : longer side of a picture in pixels.

    Raises
    ------
    RuntimeError
        If nothing can be drawn on this machine; ask :func:`window_class` before.
    """

    def __init__(self, view: View, longest: int) -> None:
        name = window_class()
        if name is None:
            raise RuntimeError(f"nothing can be drawn off-screen: {REMEDY}")
        scale = longest / max(view.width_mm, view.height_mm)
        width, height = round(view.width_mm * scale), round(view.height_mm * scale)
        self._shape = (height * OVERSAMPLING, width * OVERSAMPLING, 3)
        self._shown: list[vtkActor] = []
        self._renderer = vtkRenderer()
        self._renderer.SetBackground(1, 1, 1)
        self._renderer.SetUseOIT(False)  # one veil looks the same without, and takes half as long
        self._window: vtkRenderWindow = getattr(opengl, name)()
        self._window.SetOffScreenRendering(True)
        self._window.SetMultiSamples(0)
        self._window.SetSize(width * OVERSAMPLING, height * OVERSAMPLING)
        self._window.AddRenderer(self._renderer)

    def __enter__(self) -> "Canvas":
        return self

    def __exit__(self, *_: object) -> None:
        self._window.Finalize()

    def picture(self, actors: Sequence[vtkActor], view: View) -> NDArray[np.uint8]:
        """The actors, and no others, as (H, W, 3) with rows downwards; those of the picture before stay loaded."""
        for actor in self._shown:
            if actor not in actors:
                self._renderer.RemoveActor(actor)
        for actor in actors:
            if actor not in self._shown:
                self._renderer.AddActor(actor)
        self._shown = list(actors)
        _aim(self._renderer, view)
        self._window.Render()
        grab = vtkWindowToImageFilter()
        grab.SetInput(self._window)
        grab.ReadFrontBufferOff()
        grab.ShouldRerenderOff()  # it is drawn already
        grab.Update()
        pixels = vtk_to_numpy(grab.GetOutput().GetPointData().GetScalars())
        return _averaged(pixels.reshape(self._shape)[::-1])


def draw(actors: Sequence[vtkActor], views: Sequence[View], longest: int) -> list[NDArray[np.uint8]]:
    """Pictures of the same actors from several points of view, all of one size; see :class:`Canvas`.

    Parameters
    ----------
    actors : what is drawn.
    views : from where; all of one size.
    longest : pixels along the longer side.

    Returns
    -------
    Each (H, W, 3) uint8.
    """
    with Canvas(views[0], longest) as canvas:
        return [canvas.picture(actors, view) for view in views]


def _averaged(drawn: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Means of blocks of pixels, added up in whole numbers: a sixth of the time of a mean over two axes."""
    offsets = product(range(OVERSAMPLING), repeat=2)
    parts = [drawn[row::OVERSAMPLING, column::OVERSAMPLING] for row, column in offsets]
    total = np.add.reduce(parts, dtype=np.uint16)
    return ((total + OVERSAMPLING**2 // 2) // OVERSAMPLING**2).astype(np.uint8)


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


def coloured_actor(
    mesh: Mesh, values: NDArray[np.floating], limits: tuple[float, float], colours: str, log: bool = False
) -> vtkActor:
    """A surface coloured by values at its points, (P,), through a colour map.

    Parameters
    ----------
    mesh : the surface, mm.
    values : (P,) at its points.
    limits : values of the first and the last colour.
    colours : name of a map; see :func:`colours.colour_map`.
    log : whether colours follow the logarithm; both limits are above 0 then.
    """
    if log:
        values, limits = np.log(np.maximum(values, limits[0])), (np.log(limits[0]), np.log(limits[1]))
    polydata = mesh.to_vtk()
    polydata.GetCellData().Initialize()
    polydata.GetPointData().SetScalars(numpy_to_vtk(np.ascontiguousarray(values, np.float32), deep=True))
    actor = _actor(_smooth(polydata))
    _colour(actor, limits, colours)
    return actor


def tube_actor(
    lines: Sequence[NDArray[np.float64]], radius_mm: float, limits: tuple[float, float], colours: str
) -> vtkActor:
    """Tubes along lines, each (P, 4): x, y, z in mm and the value that colours it.

    Parameters
    ----------
    lines : each (P, 4).
    radius_mm : of the tubes.
    limits : values of the first and the last colour.
    colours : name of a map; see :func:`colours.colour_map`.
    """
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
    """Arrows of one length at points, (P, 3), along a velocity, (P, 3), coloured by its size.

    Parameters
    ----------
    points_mm, velocity : (P, 3), (x, y, z), LPS.
    length_mm : of the arrows.
    limits : values of the first and the last colour, in the unit of the velocity.
    colours : name of a map; see :func:`colours.colour_map`.
    """
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
    """Colour by the scalars, lit so that they stay those of the bar."""
    table = vtkLookupTable()
    rgba = (colour_map(colours)(np.linspace(0, 1, STEPS)) * 255).round().astype(np.uint8)
    table.SetTable(numpy_to_vtk(rgba, deep=True))
    table.SetTableRange(*limits)
    mapper = actor.GetMapper()
    mapper.SetLookupTable(table)
    mapper.UseLookupTableScalarRangeOn()
    mapper.ScalarVisibilityOn()
    mapper.InterpolateScalarsBeforeMappingOn()
    actor.GetProperty().SetAmbient(AMBIENT)
    actor.GetProperty().SetDiffuse(DIFFUSE)
    actor.GetProperty().SetSpecular(0.0)
