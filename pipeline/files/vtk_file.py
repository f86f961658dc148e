# SPDX-License-Identifier: Apache-2.0
"""Files of VTK's own formats: written whole, or an error; and read."""

import os
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from vtkmodules.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkCommonCore import vtkObject
from vtkmodules.vtkCommonDataModel import vtkDataObject, vtkDataSetAttributes, vtkPolyData
from vtkmodules.vtkIOXML import vtkXMLPolyDataReader, vtkXMLWriter


def write(writer: vtkXMLWriter, data: vtkDataObject, path: Path) -> None:
    """Write data by a writer, which tells of a failure in a number alone, beside lines on the terminal.

    Parameters
    ----------
    writer : of the format.
    data : what it takes.
    path : of the file.

    Raises
    ------
    OSError
        If the file could not be written.
    """
    writer.SetFileName(str(path))
    writer.SetInputData(data)
    shown = vtkObject.GetGlobalWarningDisplay()
    vtkObject.GlobalWarningDisplayOff()
    try:
        written = writer.Write()
    finally:
        vtkObject.SetGlobalWarningDisplay(shown)
    if not written:
        code = writer.GetErrorCode()  # of the system, but for VTK's own
        raise OSError(code, os.strerror(code), str(path))


def read_polydata(path: Path) -> vtkPolyData:
    """What a VTP file holds; nothing where it is none."""
    reader = vtkXMLPolyDataReader()
    reader.SetFileName(str(path))
    reader.Update()
    return reader.GetOutput()


def arrays_of(data: vtkDataSetAttributes) -> dict[str, NDArray[Any]]:
    """Arrays of numbers at points or of cells by name, each (N,) or (N, components)."""
    return {data.GetArrayName(k): vtk_to_numpy(data.GetArray(k)) for k in range(data.GetNumberOfArrays())}
