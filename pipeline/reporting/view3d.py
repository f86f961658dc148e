# SPDX-License-Identifier: Apache-2.0
"""The view to turn: wall, openings and streamlines for plotly's JavaScript, which ``page.js`` draws."""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import plotly.graph_objects as go
from matplotlib.colors import to_hex
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from vtkmodules.vtkFiltersCore import vtkQuadricDecimation

from pipeline.files.mesh import Mesh
from pipeline.reporting.figures import FAINT, INK, SPEED_COLOURS, nice_length
from pipeline.reporting.quantities import Quantity
from pipeline.reporting.scene import LETTERS, View
from solver.domain.nodes import Opening

SCENE_SIZE = 1.95
"""Longest edge of the scene, in plotly's units: the vessel fills the view."""

MAX_TRIANGLES, MAX_LINE_POINTS = 30_000, 40_000
"""What a page should carry."""

EYE = 1.05
"""Distance of the viewer from the middle, in plotly's units; the projection is parallel."""


@dataclass(frozen=True)
class Scene:
    """What the view shows.

    Attributes
    ----------
    wall : the wall without caps.
    quantities : on the wall, at least one.
    lines, speeds : streamlines, each (P, 4): x, y, z in mm and speed in m/s; range of their colours.
    caps, colours : by the opening's id.
    openings : named in the view.
    view : where the reader starts.
    """

    wall: Mesh
    quantities: Sequence[Quantity]
    lines: Sequence[NDArray[np.float64]]
    speeds: tuple[float, float]
    caps: Mapping[int, Mesh]
    openings: Iterable[Opening]
    colours: Mapping[int, str]
    view: View


def decimated(mesh: Mesh, triangles: int) -> Mesh:
    """The surface with at most about so many triangles, by quadric error.

    Source: Garland and Heckbert (1997), doi:10.1145/258734.258849.
    """
    if len(mesh.triangles) <= triangles:
        return mesh
    decimation = vtkQuadricDecimation()
    decimation.SetInputData(mesh.to_vtk())
    decimation.SetTargetReduction(1 - triangles / len(mesh.triangles))
    decimation.VolumePreservationOn()
    decimation.Update()
    return Mesh.from_vtk(decimation.GetOutput())


def for_page(shown: Scene) -> str:
    """The view as JSON: plotly's figure, whose first three traces are the wall, the glass wall and the streamlines; the
    quantities whose values take turns on the first; and ``bar``, the length of the scale's legs.

    Values are base64 of little-endian float32, so that the mesh stands on the page once and each quantity costs 16/3
    bytes a point. No ``<`` is left that could end the script around it.
    """
    small = decimated(shown.wall, MAX_TRIANGLES)
    nearest = cKDTree(shown.wall.points_mm).query(small.points_mm)[1]
    bar = nice_length(float(np.ptp(shown.wall.points_mm, axis=0).max()) / 5)
    quantities = [
        {
            "label": each.label,
            "unit": each.unit,
            "note": each.kind.note,
            "limits": each.limits,
            "colours": scale(each.colours),
            "values": base64.b64encode(each.values[nearest].astype("<f4").tobytes()).decode(),
        }
        for each in shown.quantities
    ]
    figure = go.Figure(_traces(shown, small, bar), _layout(shown)).to_dict()
    figure["layout"].pop("template", None)
    scene_data = {"figure": figure, "quantities": quantities, "bar": f"{bar:g} mm"}
    return json.dumps(scene_data, separators=(",", ":")).replace("<", r"\u003c")


def scale(colours: str) -> list[tuple[float, str]]:
    """A matplotlib colour map as plotly takes it."""
    places = np.linspace(0, 1, 33)
    return [
        (float(place), to_hex(colour)) for place, colour in zip(places, mpl.colormaps[colours](places), strict=True)
    ]


def _traces(shown: Scene, small: Mesh, bar_mm: float) -> list[Any]:
    first = shown.quantities[0]
    traces: list[Any] = [
        _surface(
            small,
            cmin=first.limits[0],
            cmax=first.limits[1],
            colorscale=scale(first.colours),
            colorbar=_bar(first.label),
        ),
        _surface(small, color="#c9d1da", opacity=0.16, hoverinfo="skip", visible=False),
        _lines(shown.lines, shown.speeds),
    ]
    for opening in shown.openings:
        if opening.id in shown.caps:
            cap = shown.caps[opening.id]
            traces.append(_surface(cap, color=shown.colours[opening.id], hoverinfo="skip"))
        place = np.add(opening.centre_mm, np.multiply(opening.normal, 2.2 * opening.radius_mm))
        traces.append(_text([place], [opening.name], shown.colours[opening.id], 14))
    middle, reach = _extent(shown.wall)
    letters = [middle + sign * reach * np.eye(3)[axis] for axis in range(3) for sign in (1, -1)]
    traces.append(_text(letters, list("".join(LETTERS)), FAINT, 13))
    return [*traces, *_legs(shown.wall, bar_mm)]


def _surface(mesh: Mesh, **options: Any) -> go.Mesh3d:
    points, corners = mesh.points_mm.astype(np.float32).T, mesh.triangles.astype(np.int32).T
    light = {"ambient": 0.6, "diffuse": 0.5, "specular": 0.1, "roughness": 0.7}
    return go.Mesh3d(**dict(zip("xyzijk", (*points, *corners), strict=True)), lighting=light, **options)


def _lines(lines: Sequence[NDArray[np.float64]], limits: tuple[float, float]) -> go.Scatter3d:
    """All streamlines as one trace, with gaps between them."""
    thinning = max(1, -(-sum(map(len, lines)) // MAX_LINE_POINTS))
    gap = np.full((1, 4), np.nan)
    parts = [part for line in lines for part in (line[::thinning], line[-1:], gap)]
    x, y, z, speed = np.concatenate([*parts, gap]).astype(np.float32).T
    style = {
        "width": 4,
        "color": np.nan_to_num(speed),
        "colorscale": scale(SPEED_COLOURS),
        "cmin": limits[0],
        "cmax": limits[1],
        "colorbar": _bar("speed (m/s)"),
    }
    return go.Scatter3d(x=x, y=y, z=z, mode="lines", line=style, hoverinfo="skip", visible=False)


def _text(places: Sequence[NDArray[np.float64]], texts: list[str], colour: str, size: int) -> go.Scatter3d:
    x, y, z = np.array(places, float).T
    font = {"color": colour, "size": size}
    return go.Scatter3d(x=x, y=y, z=z, mode="text", text=texts, textfont=font, hoverinfo="skip")


def _legs(wall: Mesh, bar_mm: float) -> list[go.Scatter3d]:
    """The scale: three legs of one length along the patient's axes from a corner of the box, since a single one would
    look shorter from most sides, and the length beside them.
    """
    corner = wall.points_mm.min(axis=0)
    ends = corner + bar_mm * np.eye(3)
    x, y, z = np.array([point for end in ends for point in (corner, end, np.full(3, np.nan))]).T
    legs = go.Scatter3d(x=x, y=y, z=z, mode="lines", line={"color": INK, "width": 5}, hoverinfo="skip")
    return [legs, _text([corner - 0.25 * bar_mm], [f"{bar_mm:g} mm"], INK, 12)]


def _bar(label: str) -> dict[str, Any]:
    return {
        "title": {"text": label, "side": "top"},
        "orientation": "h",
        "thickness": 10,
        "len": 0.8,
        "outlinewidth": 0,
        "x": 0.5,
        "y": 0,
        "yanchor": "top",
        "tickfont": {"color": FAINT},
    }


def _extent(wall: Mesh) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Middle of the vessel's box, and how far from it along x, y, z the letters of the directions stand."""
    low, high = wall.points_mm.min(axis=0), wall.points_mm.max(axis=0)
    return (low + high) / 2, 0.58 * (high - low) + 0.06 * (high - low).max()


def _layout(shown: Scene) -> dict[str, Any]:
    middle, reach = _extent(shown.wall)
    edges = SCENE_SIZE * reach / reach.max()
    axes = {
        f"{axis}axis": {"visible": False, "range": [float(m - r), float(m + r)]}
        for axis, m, r in zip("xyz", middle, 1.1 * reach, strict=True)
    }
    up, eye = (dict(zip("xyz", map(float, vector), strict=True)) for vector in (shown.view.up, EYE * shown.view.toward))
    return {
        "scene": {
            **axes,
            "aspectmode": "manual",
            "aspectratio": dict(zip("xyz", map(float, edges), strict=True)),
            "camera": {"up": up, "eye": eye, "projection": {"type": "orthographic"}},
            "dragmode": "orbit",
        },
        "margin": {"l": 0, "r": 0, "t": 0, "b": 70},
        "showlegend": False,
        "font": {"family": "Segoe UI, Roboto, Noto Sans, Liberation Sans, Arial, sans-serif", "color": INK, "size": 13},
        "paper_bgcolor": "white",
    }
