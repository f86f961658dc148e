# SPDX-License-Identifier: Apache-2.0
"""Lines, or points, with values on them: VTP files, as ParaView opens them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from vtkmodules.util.numpy_support import numpy_to_vtk, numpy_to_vtkIdTypeArray, vtk_to_numpy
from vtkmodules.vtkCommonCore import vtkPoints, vtkStringArray
from vtkmodules.vtkCommonDataModel import vtkCellArray, vtkPolyData
from vtkmodules.vtkIOXML import vtkXMLPolyDataReader, vtkXMLPolyDataWriter

from pipeline.files import vtk_file
from solver.runtime.errors import StageError


def write_lines(
    path: Path,
    points_mm: NDArray[np.floating],
    offsets: NDArray[np.integer],
    at_points: Mapping[str, NDArray[Any]],
    on_lines: Mapping[str, NDArray[Any]],
) -> None:
    """Write lines.

    Parameters
    ----------
    path : VTP file to write.
    points_mm : (P, 3), line after line, written in their precision.
    offsets : (L + 1,), the first point of each line, and the number of points.
    at_points, on_lines : arrays by name, (P, ...) and (L, ...), of numbers or of words.

    Raises
    ------
    StageError
        If the file cannot be written.
    """
    polydata = _with_points(points_mm, at_points)
    polydata.SetLines(_cells(offsets))
    for name, values in on_lines.items():
        polydata.GetCellData().AddArray(_array(name, values))
    _write(polydata, path)


def read_lines(
    path: Path,
) -> tuple[NDArray[np.floating], NDArray[np.int64], dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """What :func:`write_lines` wrote, of numbers alone: points, offsets, arrays at points and on lines.

    Raises
    ------
    StageError
        If it is no such file.
    """
    if not vtkXMLPolyDataReader().CanReadFile(str(path)):
        raise StageError(f"{path}: no VTP file that can be read; run trace again")
    polydata = vtk_file.read_polydata(path)
    arrays = vtk_file.arrays_of(polydata.GetPointData()), vtk_file.arrays_of(polydata.GetCellData())
    if not polydata.GetNumberOfLines():
        return np.empty((0, 3)), np.zeros(1, np.int64), *arrays
    points = vtk_to_numpy(polydata.GetPoints().GetData())
    return points, vtk_to_numpy(polydata.GetLines().GetOffsetsArray()).astype(np.int64), *arrays


def write_points(path: Path, points_mm: NDArray[np.floating], at_points: Mapping[str, NDArray[Any]]) -> None:
    """Write points, (P, 3), one vertex each, with arrays by name, (P, ...).

    Parameters
    ----------
    path : of the VTP file.
    points_mm : (P, 3), (x, y, z), LPS.
    at_points : arrays by name, (P,) or (P, C).
    """
    polydata = _with_points(points_mm, at_points)
    polydata.SetVerts(_cells(np.arange(len(points_mm) + 1)))
    _write(polydata, path)


def _with_points(points_mm: NDArray[np.floating], arrays: Mapping[str, NDArray[Any]]) -> vtkPolyData:
    polydata, points = vtkPolyData(), vtkPoints()
    points.SetData(numpy_to_vtk(np.ascontiguousarray(points_mm).reshape(-1, 3), deep=True))
    polydata.SetPoints(points)
    for name, values in arrays.items():
        polydata.GetPointData().AddArray(_array(name, values))
    return polydata


def _cells(offsets: NDArray[np.integer]) -> vtkCellArray:
    cells = vtkCellArray()
    cells.SetData(
        numpy_to_vtkIdTypeArray(np.ascontiguousarray(offsets, np.int64), deep=True),
        numpy_to_vtkIdTypeArray(np.arange(offsets[-1], dtype=np.int64), deep=True),
    )
    return cells


def _array(name: str, values: NDArray[Any]) -> Any:
    if values.dtype.kind == "U":
        array = vtkStringArray()
        for word in values.tolist():
            array.InsertNextValue(word)
    else:
        array = numpy_to_vtk(np.ascontiguousarray(values), deep=True)
    array.SetName(name)
    return array


def _write(polydata: vtkPolyData, path: Path) -> None:
    vtk_file.write(vtkXMLPolyDataWriter(), polydata, path)
