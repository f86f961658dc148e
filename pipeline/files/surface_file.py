# SPDX-License-Identifier: Apache-2.0
"""Surface file: triangles from STL, VTP, OBJ or PLY, and the axes that the file itself names.

Files tell no unit. 3D Slicer writes the axes of the coordinates into the head of the file as ``SPACE=LPS`` or
``SPACE=RAS`` (VTP: a field of that name). Nothing here names the file, whose name may hold a patient's.

VTK crashes over some damaged files: it reads in a process of its own, which this module is when it is run as a program.
"""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from vtkmodules.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkCommonDataModel import vtkPolyData
from vtkmodules.vtkFiltersCore import vtkTriangleFilter
from vtkmodules.vtkIOGeometry import vtkOBJReader, vtkSTLReader
from vtkmodules.vtkIOPLY import vtkPLYReader
from vtkmodules.vtkIOXML import vtkXMLPolyDataReader

from pipeline.files.sandbox import Sandbox, SandboxError, serve
from solver.runtime.errors import StageError

READERS: dict[str, Any] = {
    ".stl": vtkSTLReader,
    ".vtp": vtkXMLPolyDataReader,
    ".obj": vtkOBJReader,
    ".ply": vtkPLYReader,
}

FACET = (("facet", 5), ("outer", 0), ("vertex", 4), ("vertex", 4), ("vertex", 4), ("endloop", 0), ("endfacet", 0))
"""First words of the lines of a facet in a text STL, and the number of words where numbers are among them."""

PLY_BYTES = dict.fromkeys(("char", "uchar", "int8", "uint8"), 1)
PLY_BYTES |= dict.fromkeys(("short", "ushort", "int16", "uint16"), 2)
PLY_BYTES |= dict.fromkeys(("int", "uint", "int32", "uint32", "float", "float32"), 4)
"""Sizes of the types of a PLY; the others have 8 bytes."""

MOST_UNUSED = 0.01
"""Part of the points of a whole OBJ that may belong to no face."""

HEAD_BYTES = 4096
"""The axes stand in the first lines."""

MEMORY_BYTES = 2**33
"""Address space of the process; thirty million triangles take as much."""
SECONDS, SECONDS_A_MEGABYTE = 60.0, 2.0
"""Longest that a file may take, by its size: a hundred times what a sound one does."""
PROCESS = Sandbox("pipeline.files.surface_file")


@dataclass(frozen=True)
class SurfaceFile:
    """What a file holds, in its own unit and axes.

    Attributes
    ----------
    points : (P, 3) float64.
    triangles : (T, 3) int64, rows of `points`; polygons and strips are split.
    frame : ``LPS``, ``RAS``, or None where the file does not say.
    faces : (T,) int64, number of the face that each triangle belongs to, by name of the array; integer arrays only.
    """

    points: NDArray[np.float64]
    triangles: NDArray[np.int64]
    frame: str | None
    faces: dict[str, NDArray[np.int64]] = field(default_factory=dict)


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
    seconds = SECONDS + SECONDS_A_MEGABYTE * path.stat().st_size / 1e6
    try:
        answer = PROCESS.ask({"path": str(path.absolute())}, b"", seconds)
    except SandboxError:
        raise StageError(f"input.surface: the {kind[1:].upper()} file is damaged; export it again") from None
    with np.load(io.BytesIO(answer)) as found:
        faces = dict(zip(found["names"].tolist(), found["faces"], strict=True))
        return SurfaceFile(found["points"], found["triangles"], str(found["frame"]) or None, faces)


def _packed(surface: SurfaceFile) -> bytes:
    """A surface as bytes of plain arrays."""
    faces = np.array([*surface.faces.values()], np.int64).reshape(-1, len(surface.triangles))
    packed = io.BytesIO()
    np.savez(
        packed,
        points=surface.points,
        triangles=surface.triangles,
        frame=surface.frame or "",
        names=np.array([*surface.faces], str),
        faces=faces,
    )
    return packed.getvalue()


def _read(path: Path) -> SurfaceFile:
    """What VTK reads, checked."""
    kind = path.suffix.lower()
    if kind == ".ply" and not _ply_is_whole(path):
        raise StageError("input.surface: the PLY file is damaged or breaks off; export it again")
    reader = READERS[kind]()
    errors: list[int] = []
    reader.AddObserver("ErrorEvent", lambda *_: errors.append(1))
    reader.SetFileName(str(path))
    reader.Update()
    polydata = reader.GetOutput()
    if errors or not _in_range(polydata) or _has_thin_faces(polydata):
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
    if kind == ".obj":
        _require_used_points(path, polydata)
    points = vtk_to_numpy(polydata.GetPoints().GetData()).astype(np.float64)
    triangles = vtk_to_numpy(cells.GetConnectivityArray()).reshape(-1, 3).astype(np.int64)
    return SurfaceFile(points, triangles, _frame(path, polydata), _faces(triangulated.GetOutput()))


def _faces(polydata: vtkPolyData) -> dict[str, NDArray[np.int64]]:
    """Cell arrays of whole numbers, one a triangle."""
    data, found = polydata.GetCellData(), {}
    for k in range(data.GetNumberOfArrays()):
        array = data.GetArray(k)
        values = vtk_to_numpy(array) if array is not None and array.GetNumberOfComponents() == 1 else None
        if values is None or len(values) != polydata.GetNumberOfPolys() or not np.isfinite(values).all():
            continue
        if (values == np.rint(values)).all():
            found[data.GetArrayName(k) or ""] = values.astype(np.int64)
    return found


def _ply_is_whole(path: Path) -> bool:
    """Whether as much follows the head of a PLY as it and the lengths of its lists say; VTK crashes over less."""
    head, mark, body = path.read_bytes().partition(b"end_header")
    text = head.decode("latin-1").split("\n")
    elements = list(_ply_elements(text))
    if not mark or not elements or not body[:1].isspace():
        return False
    if b"format ascii" in head:
        return _ply_lines_are_whole(body.split(b"\n")[1:], elements)
    order: Literal["little", "big"] = "big" if b"binary_big_endian" in head else "little"
    place: int | None = body.index(b"\n") + 1 if b"\n" in body[:2] else 1
    for count, kinds in elements:
        place = _ply_end(body, place, count, kinds, order) if place is not None else None
    return place is not None


def _ply_elements(head: list[str]) -> Iterator[tuple[int, list[tuple[int, ...]]]]:
    """Number of each kind of element, and the sizes of its properties: one, or of a list's count and of its items."""
    count = 0
    kinds: list[tuple[int, ...]] = []
    for words in (line.split() for line in head):
        if words[:1] == ["element"]:
            if kinds:
                yield count, kinds
            count, kinds = int(words[-1]) if words[-1].isdigit() else 1 << 62, []
        elif words[:1] == ["property"] and len(words) > 2:
            kinds.append(tuple(PLY_BYTES.get(word, 8) for word in (words[2:4] if words[1] == "list" else words[1:2])))
    if kinds:
        yield count, kinds


def _ply_end(
    body: bytes, place: int, count: int, kinds: list[tuple[int, ...]], order: Literal["little", "big"]
) -> int | None:
    """Where the elements of a kind end, None where the file ends before."""
    if all(len(kind) == 1 for kind in kinds):
        end = place + count * sum(kind[0] for kind in kinds)
        return end if end <= len(body) else None
    for _ in range(count):
        for kind in kinds:
            items = int.from_bytes(body[place : place + kind[0]], order) if len(kind) == 2 else 0
            place += kind[0] + (items * kind[1] if len(kind) == 2 else 0)
        if place > len(body):
            return None
    return place


def _ply_lines_are_whole(lines: list[bytes], elements: list[tuple[int, list[tuple[int, ...]]]]) -> bool:
    """The same for text, with one element a line."""
    place = 0
    for count, kinds in elements:
        if place + count > len(lines):
            return False
        for words in (line.split() for line in lines[place : place + count]):
            needed = 0
            for kind in kinds:
                items = words[needed] if len(kind) == 2 and needed < len(words) else b"0"
                needed += 1 + (int(items) if items.isdigit() else len(words))
            if needed > len(words):
                return False
        place += count
    return True


def _in_range(polydata: vtkPolyData) -> bool:
    """Whether the corners of all cells are points; VTK crashes over others."""
    count = polydata.GetNumberOfPoints()
    return all(corners.min(initial=0) >= 0 and corners.max(initial=-1) < count for corners in _corners(polydata))


def _corners(polydata: vtkPolyData) -> Iterator[NDArray[np.int64]]:
    """Points that the cells of each kind join."""
    for cells in (polydata.GetVerts(), polydata.GetLines(), polydata.GetPolys(), polydata.GetStrips()):
        if cells.GetNumberOfCells():
            yield vtk_to_numpy(cells.GetConnectivityArray())


def _has_thin_faces(polydata: vtkPolyData) -> bool:
    """Whether a face has fewer than three corners: it would be left out of the surface."""
    polys = polydata.GetPolys()
    return bool(polys.GetNumberOfCells()) and bool((np.diff(vtk_to_numpy(polys.GetOffsetsArray())) < 3).any())


def _require_used_points(path: Path, polydata: vtkPolyData) -> None:
    """Refuse an OBJ that breaks off: its faces stand last, and nothing says how many there are."""
    used = np.zeros(polydata.GetNumberOfPoints(), np.bool_)
    for corners in _corners(polydata):
        used[corners] = True
    left = int(np.count_nonzero(~used))
    if left > MOST_UNUSED * len(used) or (left and not path.read_bytes().endswith(b"\n")):
        raise StageError(
            f"input.surface: {left} of {len(used)} points of the OBJ file belong to no face, as where one breaks off;"
            " export it again, or where it is whole remove these points (MeshLab: Remove Unreferenced Vertices)"
        )


def _frame(path: Path, polydata: vtkPolyData) -> str | None:
    """Axes that the file names.

    Raises
    ------
    StageError
        If it names both.
    """
    if path.suffix.lower() == ".vtp":
        said = polydata.GetFieldData().GetAbstractArray("SPACE")
        text = f"SPACE={said.GetVariantValue(0).ToString()}" if said and said.GetNumberOfValues() else ""
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


if __name__ == "__main__":
    serve(lambda request, _: _packed(_read(Path(request["path"]))), MEMORY_BYTES)
