# SPDX-License-Identifier: Apache-2.0
"""The surface of a canonical shape, and its openings."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.case.block_shapes import Shape
from pipeline.files.mesh import Mesh
from solver.domain.nodes import Opening

Point = NDArray[np.float64]


@dataclass(frozen=True)
class Tessellated:
    """A shape's surface.

    Attributes
    ----------
    mesh : closed, outward.
    openings : in the order of their ids.
    anchor_mm : corner of the grid between whose planes nodes lie half-way, (x, y, z).
    low_mm, high_mm : ends of the period along the axes on which the shape repeats, of the box on others.
    """

    mesh: Mesh
    openings: tuple[Opening, ...]
    anchor_mm: Point
    low_mm: Point
    high_mm: Point


def opening_of(shape: Shape, number: int, centre: Point, normal: Point, area_mm2: float) -> Opening:
    """An opening by its number, with the name and role that the shape gives it; normal outwards, mm and mm2.

    Parameters
    ----------
    shape : that names it.
    number : its id, from 1.
    centre, normal : (3,) of its cap, mm, and its outward unit normal.
    area_mm2 : of its cap.
    """
    name, role = list(shape.roles.items())[number - 1]
    x, y, z = centre.tolist()
    along_x, along_y, along_z = normal.tolist()
    radius = float(np.sqrt(area_mm2 / np.pi))
    return Opening(number, name, role, (x, y, z), (along_x, along_y, along_z), area_mm2, radius)  # type: ignore[arg-type]
