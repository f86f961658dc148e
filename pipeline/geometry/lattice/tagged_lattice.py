# SPDX-License-Identifier: Apache-2.0
"""Lattice: the tagged nodes that stand for the vessel, and their file."""

from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from vtkmodules.util.numpy_support import numpy_to_vtk, vtk_to_numpy
from vtkmodules.vtkCommonDataModel import vtkImageData
from vtkmodules.vtkIOCore import vtkZLibDataCompressor
from vtkmodules.vtkIOXML import vtkXMLImageDataReader, vtkXMLImageDataWriter

from pipeline.files import vtk_file
from pipeline.geometry.lattice.frame import Frame
from pipeline.geometry.lattice.links import Links
from solver.domain.nodes import EXTERNAL, FLUID, INLET, OUTLET, WALL, Opening
from solver.kernels.d3q19 import VELOCITIES
from solver.runtime.errors import StageError


@dataclass(frozen=True)
class Lattice:
    """The tagged lattice.

    Attributes
    ----------
    tag : [z, y, x] int8, EXTERNAL, WALL, FLUID, INLET or OUTLET.
    opening : [z, y, x] int8, the opening whose cap is nearest along a link of an INLET or OUTLET node, else 0.
    spacing_mm : distance of neighbouring nodes along an axis, mm.
    origin_mm : place of index (0, 0, 0), (x, y, z), LPS, mm.
    periodic : whether the lattice repeats along (x, y, z).
    """

    tag: NDArray[np.int8]
    opening: NDArray[np.int8]
    spacing_mm: float
    origin_mm: tuple[float, float, float]
    periodic: tuple[bool, bool, bool] = (False, False, False)

    @property
    def frame(self) -> Frame:
        """Where the lattice lies."""
        depth, height, width = self.tag.shape
        return Frame(self.spacing_mm, self.origin_mm, (depth, height, width), self.periodic)

    def write(self, path: Path) -> None:
        """Write as VTK image data (VTI) with the point arrays ``tag`` and ``opening`` and the field ``periodic``.

        The fastest compression: both arrays are constant nearly everywhere, harder work makes the file hardly smaller.
        """
        image = vtkImageData()
        image.SetDimensions(*self.tag.shape[::-1])
        image.SetSpacing(*[self.spacing_mm] * 3)
        image.SetOrigin(*self.origin_mm)
        for name in ("tag", "opening"):
            array = numpy_to_vtk(np.ascontiguousarray(getattr(self, name)).reshape(-1))
            array.SetName(name)
            image.GetPointData().AddArray(array)
        repeats = numpy_to_vtk(np.array(self.periodic, np.int8), deep=True)
        repeats.SetName("periodic")
        image.GetFieldData().AddArray(repeats)
        writer = vtkXMLImageDataWriter()
        compressor = vtkZLibDataCompressor()
        compressor.SetCompressionLevel(1)
        writer.SetCompressor(compressor)
        writer.EncodeAppendedDataOff()
        vtk_file.write(writer, image, path)

    @staticmethod
    def read(path: Path) -> "Lattice":
        """Read a file written by :meth:`write`.

        Raises
        ------
        StageError
            If it is not such a file.
        """
        reader = vtkXMLImageDataReader()
        reader.SetFileName(str(path))
        reader.Update()
        image = reader.GetOutput()
        shape = image.GetDimensions()[::-1]
        arrays = [image.GetPointData().GetArray(name) for name in ("tag", "opening")]
        repeats = image.GetFieldData().GetArray("periodic")
        whole = all(array and array.GetNumberOfTuples() == np.prod(shape) for array in arrays)
        if not (whole and repeats and repeats.GetNumberOfValues() == 3):
            raise StageError(f"{path}: no lattice with tag and opening in this file; run voxelize again")
        tag, opening = (vtk_to_numpy(array).astype(np.int8).reshape(shape) for array in arrays)
        along_x, along_y, along_z = vtk_to_numpy(repeats).astype(bool).tolist()
        return Lattice(tag, opening, image.GetSpacing()[0], image.GetOrigin(), (along_x, along_y, along_z))


def _corners(frame: Frame, found: Links) -> NDArray[np.int64]:
    """Places of the nodes in the corners of the wall, which no link reaches: diagonally behind a fluid node whose six
    links to the other corners of the cube between the two all meet the wall.
    """
    wall = found.opening == 0
    node, row = np.unique(found.node[wall], return_inverse=True)
    blocked = np.bincount(row, 2.0 ** found.direction[wall]).astype(np.int64)
    size, corners = np.array(frame.shape[::-1]), []
    for diagonal in product((-1, 1), repeat=3):
        towards = ((VELOCITIES == 0) | (diagonal == VELOCITIES)).all(axis=1)
        links = int((1 << np.flatnonzero(towards)[1:]).sum())
        behind = frame.position(node[blocked & links == links]) + np.array(diagonal, np.int32)
        corners.append(frame.node(np.where(frame.periodic, behind % size, behind)))
    return np.concatenate(corners)


def tagged(frame: Frame, fluid: NDArray[np.bool_], found: Links, openings: tuple[Opening, ...]) -> Lattice:
    """The lattice that follows from the fluid nodes and their links.

    Parameters
    ----------
    frame : where the lattice lies.
    fluid : [z, y, x] bool, fluid nodes.
    found : their links to nodes that are none.
    openings : in the order of their ids.
    """
    tag = np.full(fluid.shape, EXTERNAL, np.int8)
    tag[fluid] = FLUID
    opening = np.zeros_like(tag)
    for ends in (found.end[found.opening == 0], _corners(frame, found)):
        tag.reshape(-1)[ends[tag.reshape(-1)[ends] == EXTERNAL]] = WALL
    through = np.flatnonzero(found.opening)
    length = found.q[through] * np.linalg.norm(VELOCITIES, axis=1)[found.direction[through]]
    far_to_near = through[np.lexsort((found.opening[through], length))[::-1]]
    opening.reshape(-1)[found.node[far_to_near]] = found.opening[far_to_near]
    tags = np.array([FLUID] + [INLET if o.role == "inlet" else OUTLET for o in openings], np.int8)
    at_openings = found.node[through]
    tag.reshape(-1)[at_openings] = tags[opening.reshape(-1)[at_openings]]
    return Lattice(tag, opening, frame.spacing_mm, frame.origin_mm, frame.periodic)
