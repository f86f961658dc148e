# SPDX-License-Identifier: Apache-2.0
"""Mesh: the closed triangle surface of the vessel, and its file; the file of its openings."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from vtkmodules.util.numpy_support import numpy_to_vtk, numpy_to_vtkIdTypeArray, vtk_to_numpy
from vtkmodules.vtkCommonCore import vtkPoints
from vtkmodules.vtkCommonDataModel import vtkCellArray, vtkPolyData
from vtkmodules.vtkIOXML import vtkXMLPolyDataWriter

from pipeline.files import vtk_file
from solver.domain.nodes import Opening, parse_openings
from solver.runtime.errors import StageError


@dataclass(frozen=True)
class Mesh:
    """A triangle surface.

    Attributes
    ----------
    points_mm : (P, 3) float64, (x, y, z), LPS, mm.
    triangles : (T, 3) int64, rows of `points_mm`, counter-clockwise seen from outside.
    opening : (T,) int8, 0 for the wall, 1..n for the cap of that opening.
    patch : (T,) int8, 1, 2, ... for parts of the wall that can be distinguished from the rest, else 0; None: there are
        none.
    """

    points_mm: NDArray[np.float64]
    triangles: NDArray[np.int64]
    opening: NDArray[np.int8]
    patch: NDArray[np.int8] | None = None

    def area_vectors_mm2(self) -> NDArray[np.float64]:
        """Outward area vectors of the triangles, (T, 3): half the cross product of two edges."""
        a, b, c = self._corners_mm()
        return np.cross(b - a, c - a) / 2

    def centroids_mm(self) -> NDArray[np.float64]:
        """Centroids of the triangles, (T, 3)."""
        a, b, c = self._corners_mm()
        return (a + b + c) / 3  # a mean over an axis of three takes NumPy three times as long

    def _corners_mm(self) -> Iterator[NDArray[np.float64]]:
        """The first, second and third of each triangle, (T, 3) each."""
        return (self.points_mm[self.triangles[:, k]] for k in range(3))

    def volume_mm3(self) -> float:
        """Enclosed volume, by the divergence theorem: sum of centroid . area vector / 3."""
        centroids = self.centroids_mm() - self.points_mm.mean(axis=0)
        return float(np.einsum("ij,ij->", centroids, self.area_vectors_mm2()) / 3)

    def to_vtk(self) -> vtkPolyData:
        """As VTK polygons with the cell array ``opening``, and ``patch`` where there are patches."""
        polydata = vtkPolyData()
        points = vtkPoints()
        points.SetData(numpy_to_vtk(np.ascontiguousarray(self.points_mm), deep=True))
        polydata.SetPoints(points)
        cells = vtkCellArray()
        offsets = np.arange(0, 3 * len(self.triangles) + 1, 3, dtype=np.int64)
        connectivity = np.ascontiguousarray(self.triangles, dtype=np.int64).ravel()
        cells.SetData(numpy_to_vtkIdTypeArray(offsets, deep=True), numpy_to_vtkIdTypeArray(connectivity, deep=True))
        polydata.SetPolys(cells)
        for name, values in (("opening", self.opening), ("patch", self.patch)):
            if values is not None:
                array = numpy_to_vtk(np.ascontiguousarray(values), deep=True)
                array.SetName(name)
                polydata.GetCellData().AddArray(array)
        return polydata

    @staticmethod
    def from_vtk(polydata: vtkPolyData) -> "Mesh":
        """From VTK triangles; without a cell array ``opening`` all of them are wall."""
        triangles = vtk_to_numpy(polydata.GetPolys().GetConnectivityArray()).reshape(-1, 3).astype(np.int64)
        arrays = {name: polydata.GetCellData().GetArray(name) for name in ("opening", "patch")}
        given = {name: vtk_to_numpy(array).astype(np.int8) for name, array in arrays.items() if array is not None}
        opening = given.get("opening", np.zeros(len(triangles), np.int8))
        points = vtk_to_numpy(polydata.GetPoints().GetData()).astype(np.float64)
        return Mesh(points, triangles, opening, given.get("patch"))

    def write(self, path: Path, arrays: Mapping[str, NDArray[Any]] | None = None) -> None:
        """Write as VTP, with arrays of values at the points by name, each (P,) or (P, components)."""
        polydata = self.to_vtk()
        for name, values in (arrays or {}).items():
            array = numpy_to_vtk(np.ascontiguousarray(values), deep=True)
            array.SetName(name)
            polydata.GetPointData().AddArray(array)
        vtk_file.write(vtkXMLPolyDataWriter(), polydata, path)

    @staticmethod
    def read(path: Path) -> "Mesh":
        """Read a VTP file written by :meth:`write`."""
        return read_mesh(path)[0]


def read_mesh(path: Path) -> tuple[Mesh, dict[str, NDArray[Any]]]:
    """A surface of a file written by :meth:`Mesh.write`, and the values at its points by name.

    Raises
    ------
    StageError
        If there is no surface in it.
    """
    polydata = vtk_file.read_polydata(path)
    if not polydata.GetNumberOfPolys():
        raise StageError(f"{path}: no surface in this file; run the surface stage again")
    return Mesh.from_vtk(polydata), vtk_file.arrays_of(polydata.GetPointData())


def read_point_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Values at the points of a VTP file by name, each (P,) or (P, components)."""
    return vtk_file.arrays_of(vtk_file.read_polydata(path).GetPointData())


def words_mm(point: ArrayLike) -> str:
    """A place in words."""
    x, y, z = np.asarray(point, float)
    return f"({x:.1f}, {y:.1f}, {z:.1f}) mm"


def write_openings(openings: tuple[Opening, ...], path: Path, **more: Any) -> None:
    """Write the openings as JSON, with whatever else is worth keeping beside them.

    Parameters
    ----------
    openings : of the vessel.
    path : of the JSON file.
    **more : what stands beside them, by key.
    """
    path.write_text(json.dumps({"openings": [asdict(opening) for opening in openings], **more}, indent=2) + "\n")


def read_openings(path: Path) -> tuple[Opening, ...]:
    """Read a file written by :func:`write_openings`.

    Raises
    ------
    StageError
        If it is not such a file.
    """
    try:
        return parse_openings(json.loads(path.read_text(encoding="utf-8"))["openings"])
    except (KeyError, TypeError, ValueError) as error:
        raise StageError(f"{path}: cannot be read as openings ({error}); run surface again") from None


def read_quality(path: Path) -> dict[str, Any]:
    """What stands beside the openings of the quality of the surface; nothing where its stage tells none."""
    quality: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")).get("quality", {})
    return quality
