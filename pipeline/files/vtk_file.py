# SPDX-License-Identifier: Apache-2.0
"""Files of VTK's own formats: written whole, or an error."""

import os
from pathlib import Path

from vtkmodules.vtkCommonCore import vtkObject
from vtkmodules.vtkCommonDataModel import vtkDataObject
from vtkmodules.vtkIOXML import vtkXMLWriter


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
