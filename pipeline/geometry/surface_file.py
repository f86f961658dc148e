"""Surface file: triangles from STL, VTP, OBJ or PLY, and the axes that the file itself names.

Files tell no unit. 3D Slicer writes the axes of the coordinates into the head of the file as ``SPACE=LPS`` or
``SPACE=RAS`` (VTP: a field of that name). Nothing here names the file, whose name may hold a patient's.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from vtkmodules.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkCommonCore import vtkLogger
from vtkmodules.vtkCommonDataModel import vtkPolyData
from vtkmodules.vtkFiltersCore import vtkTriangleFilter
from vtkmodules.vtkIOGeometry import vtkOBJReader, vtkSTLReader
from vtkmodules.vtkIOPLY import vtkPLYReader
from vtkmodules.vtkIOXML import vtkXMLPolyDataReader

from solver.stage import StageError

READERS: dict[str, Any] = {
    ".stl": vtkSTLReader,
    ".vtp": vtkXMLPolyDataReader,
    ".obj": vtkOBJReader,
    ".ply": vtkPLYReader,
}

FACET = (
    ("facet", 5), ("outer", 0), ("vertex", 4), ("vertex", 4), ("vertex", 4), ("endloop", 0), ("endfacet", 0)
)  # fmt: skip
"""First words of the lines of a facet in a text STL, and the number of words where numbers are among them."""

PLY_BYTES = dict.fromkeys(("char", "uchar", "int8", "uint8"), 1)
PLY_BYTES |= dict.fromkeys(("short", "ushort", "int16", "uint16"), 2)
PLY_BYTES |= dict.fromkeys(("int", "uint", "int32", "uint32", "float", "float32"), 4)
"""Sizes of the types of a PLY; the others have 8 bytes."""

HEAD_BYTES = 4096
"""The axes stand in the first lines."""


@dataclass(frozen=True)
class SurfaceFile:
    """What a file holds, in its own unit and axes.

    Attributes
    ----------
    points : (P, 3) float64.
    triangles : (T, 3) int64, rows of `points`; polygons and strips are split.
    frame : ``LPS``, ``RAS``, or None where the file does not say.
    """

    points: NDArray[np.float64]
    triangles: NDArray[np.int64]
    frame: str | None


def read_surface_file(path: Path) -> SurfaceFile:
    """Read a surface.

    Raises
    ------
    StageError
        If it is no such file, damaged, or without triangles.
    """
    kind = path.suffix.lower()
    if kind not in READERS:
        raise StageError(
            f"input.surface: no file of the kinds {', '.join(READERS)}; export the surface as one of these"
        )
    if kind == ".ply" and not _ply_is_whole(path):
        raise StageError("input.surface: the PLY file is damaged or breaks off; export it again")
    reader = READERS[kind]()
    errors: list[int] = []
    reader.AddObserver("ErrorEvent", lambda *_: errors.append(1))
    with _quiet():
        reader.SetFileName(str(path))
        reader.Update()
    polydata = reader.GetOutput()
    if errors or not _in_range(polydata):
        raise StageError(f"input.surface: the {kind[1:].upper()} file is damaged{_bad_line(path)}; export it again")
    triangulated = vtkTriangleFilter()
    triangulated.PassVertsOff()
    triangulated.PassLinesOff()
    triangulated.SetInputData(polydata)
    triangulated.Update()
    cells = triangulated.GetOutput().GetPolys()
    if not cells.GetNumberOfCells():
        raise StageError(
            f"input.surface: no triangle can be read from it as {kind[1:].upper()}; is it of another kind than its name"
            " says, or does it hold points or lines only?"
        )
    points = vtk_to_numpy(polydata.GetPoints().GetData()).astype(np.float64)
    triangles = vtk_to_numpy(cells.GetConnectivityArray()).reshape(-1, 3).astype(np.int64)
    return SurfaceFile(points, triangles, _frame(path, polydata))


def _ply_is_whole(path: Path) -> bool:
    """Whether as much follows the head of a PLY as it says, if all faces are triangles; VTK crashes over less."""
    head, mark, body = path.read_bytes().partition(b"end_header")
    binary, least, size = b"format binary" in head, 0, 0
    for words in (line.split() for line in head.decode("latin-1").splitlines()):
        if words[:1] == ["element"] and words[-1].isdigit():
            size = int(words[-1])
            least += 0 if binary else size
        elif words[:1] == ["property"] and binary and len(words) > 2:
            kinds = [PLY_BYTES.get(word, 8) for word in (words[2:4] if words[1] == "list" else words[1:2])]
            least += size * (kinds[0] + 3 * kinds[1] if len(kinds) == 2 else kinds[0])
    return bool(mark) and (len(body.splitlines()) - 1 if not binary else len(body) - 1) >= least


def _in_range(polydata: vtkPolyData) -> bool:
    """Whether the corners of all cells are points; VTK crashes over others."""
    for cells in (polydata.GetVerts(), polydata.GetLines(), polydata.GetPolys(), polydata.GetStrips()):
        corners = vtk_to_numpy(cells.GetConnectivityArray()) if cells.GetNumberOfCells() else np.zeros(1, np.int64)
        if corners.min(initial=0) < 0 or corners.max(initial=0) >= max(polydata.GetNumberOfPoints(), 1):
            return False
    return True


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep VTK from writing its errors, which name the file, to the terminal."""
    shown = vtkLogger.GetCurrentVerbosityCutoff()
    vtkLogger.SetStderrVerbosity(vtkLogger.VERBOSITY_OFF)
    try:
        yield
    finally:
        vtkLogger.SetStderrVerbosity(shown)


def _frame(path: Path, polydata: vtkPolyData) -> str | None:
    """Axes that the file names.

    Raises
    ------
    StageError
        If it names both.
    """
    if path.suffix.lower() == ".vtp":
        field = polydata.GetFieldData().GetAbstractArray("SPACE")
        text = f"SPACE={field.GetVariantValue(0).ToString()}" if field and field.GetNumberOfValues() else ""
    else:
        with path.open("rb") as file:
            text = file.read(HEAD_BYTES).decode("latin-1")
    named = set(re.findall(r"SPACE=(LPS|RAS)\b", text, re.IGNORECASE))
    if len(named) > 1:
        raise StageError("input.surface: its head names both LPS and RAS; export it again")
    return named.pop().upper() if named else None


def _bad_line(path: Path) -> str:
    """Where a text STL breaks off, in words; empty for others."""
    if path.suffix.lower() != ".stl":
        return ""
    with path.open(encoding="latin-1") as file:
        if not file.readline().lstrip().lower().startswith("solid"):
            return ""
        wanted = cycle(FACET)
        for number, line in enumerate(file, 2):
            words = line.lower().split()
            if not words or words[0] in ("solid", "endsolid"):
                continue
            keyword, values = next(wanted)
            if words[0] != keyword or (values and not _are_numbers(words[-3:], values == len(words))):
                return f" in line {number}"
    return " at its end"


def _are_numbers(words: list[str], complete: bool) -> bool:
    try:
        return complete and all(np.isfinite([float(word) for word in words]))
    except ValueError:
        return False
