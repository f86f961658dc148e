# SPDX-License-Identifier: Apache-2.0
"""3D Slicer: markups and a model of a case. Coordinates are LPS, mm, as everywhere here; each file says so, since what
Slicer shows is RAS.

Sources: Slicer's schema of markups 1.0.3; vtkMRMLModelStorageNode, which takes the coordinate system of a VTP file from
its field ``SPACE``.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from vtkmodules.vtkCommonCore import vtkStringArray
from vtkmodules.vtkIOXML import vtkXMLPolyDataWriter

from pipeline.files import vtk_file
from pipeline.geometry.branches.vessel_tree import Branch
from pipeline.geometry.surface.clip import axes_of_plane
from solver.domain.nodes import Opening

SCHEMA = (
    "https://raw.githubusercontent.com/slicer/slicer/master/Modules/Loadable/Markups/Resources/Schema/"
    "markups-schema-v1.0.3.json#"
)
SPACE = "LPS"


def write_centreline(branches: Sequence[Branch], path: Path) -> None:
    """A curve for each branch, with the radius at its points as a measurement.

    Parameters
    ----------
    branches : of the vessel.
    path : file to write, ``.mrk.json``.
    """
    curves = []
    for branch in branches:
        points = [_point(place, f"{branch.id}-{k}") for k, place in enumerate(branch.points_mm, start=1)]
        radius = {
            "name": "Radius",
            "enabled": True,
            "units": ["mm", "UCUM", "mm"],
            "controlPointValues": branch.radius_mm.tolist(),
        }
        name = f"branch {branch.id}: {branch.start} to {branch.stop}"
        curves.append(_markup("Curve", name, points) | {"measurements": [radius]})
    _write(curves, path)


def write_openings(openings: Sequence[Opening], path: Path) -> None:
    """A plane for each opening, as wide as that, with its normal out of the vessel.

    Parameters
    ----------
    openings : of the vessel.
    path : file to write, ``.mrk.json``.
    """
    planes = []
    for opening in openings:
        normal, reach = np.array(opening.normal, float), float(opening.radius_mm)
        matrix = np.eye(4)
        matrix[:3, :3] = np.column_stack([axes_of_plane(normal), normal])
        matrix[:3, 3] = opening.centre_mm
        plane = _markup("Plane", f"{opening.name} ({opening.role})", [_point(opening.centre_mm, opening.name)])
        plane |= {"planeType": "pointNormal", "sizeMode": "absolute", "baseToNode": matrix.ravel().tolist()}
        plane |= {"center": list(opening.centre_mm), "normal": normal.tolist()}
        planes.append(plane | {"planeBounds": [-reach, reach, -reach, reach]})
    _write(planes, path)


def write_seeds(seeds_mm: Sequence[ArrayLike], path: Path) -> None:
    """The seeds of the segmentation as points.

    Parameters
    ----------
    seeds_mm : (x, y, z) of each.
    path : file to write, ``.mrk.json``.
    """
    points = [_point(place, f"seed {k}") for k, place in enumerate(seeds_mm, start=1)]
    _write([_markup("Fiducial", "seeds", points)], path)


def write_model(wall: Path, path: Path) -> None:
    """The wall with all that stands on it.

    Parameters
    ----------
    wall : ``wall.vtp``.
    path : file to write, ``.vtp``.
    """
    model = vtk_file.read_polydata(wall)
    space = vtkStringArray()
    space.SetName("SPACE")
    space.InsertNextValue(SPACE)
    model.GetFieldData().AddArray(space)
    vtk_file.write(vtkXMLPolyDataWriter(), model, path)


def _markup(kind: str, name: str, points: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "type": kind,
        "name": name,
        "coordinateSystem": SPACE,
        "coordinateUnits": ["mm", "UCUM", "mm"],
        "locked": True,
        "controlPoints": points,
    }


def _point(place_mm: ArrayLike, label: str) -> dict[str, Any]:
    place: NDArray[np.float64] = np.asarray(place_mm, float)
    return {"label": label, "position": place.tolist(), "positionStatus": "defined"}


def _write(markups: list[dict[str, Any]], path: Path) -> None:
    path.write_text(json.dumps({"@schema": SCHEMA, "markups": markups}, indent=1) + "\n", encoding="utf-8")
