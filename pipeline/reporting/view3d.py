# SPDX-License-Identifier: Apache-2.0
"""The view to turn: wall, openings and streamlines for plotly's JavaScript, which ``report_page.js`` draws."""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from vtkmodules.vtkFiltersCore import vtkQuadricDecimation

from pipeline.files.mesh import Mesh
from pipeline.haemodynamics.wall_shear_stress import Wall
from pipeline.reporting.colours import AMBIENT, DIFFUSE, colour_table
from pipeline.reporting.figures import FAINT, INK, nice_length
from pipeline.reporting.particle_layer import Moving
from pipeline.reporting.quantities import SPEED_COLOURS, SPREAD, Quantity
from pipeline.reporting.scene import LETTERS, View
from solver.domain.nodes import Opening

SCENE_SIZE = 1.95
"""Longest edge of the scene, in plotly's units; the page then fits it to its frame."""

COLOUR_POINTS = 33
"""Colours by which plotly knows a map; it takes those between in straight lines."""

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
    moving : particles; none where there are none.
    """

    wall: Mesh
    quantities: Sequence[Quantity]
    lines: Sequence[NDArray[np.float64]]
    speeds: tuple[float, float]
    caps: Mapping[int, Mesh]
    openings: Iterable[Opening]
    colours: Mapping[int, str]
    view: View
    moving: Moving | None = None


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
    """The view as JSON: plotly's figure, whose first four traces are the wall, the glass wall, the streamlines and the
    particles; the quantities whose values take turns on the first, and the areas by which their percentiles count; what
    is written into the view; and ``bar``, the length of the scale's legs.

    Values are base64 of little-endian float32, so that the mesh stands on the page once and each quantity costs 16/3
    bytes a point. No ``<`` is left that could end the script around it.
    """
    small = decimated(shown.wall, MAX_TRIANGLES)
    nearest = cKDTree(shown.wall.points_mm).query(small.points_mm)[1]
    bar = nice_length(float(np.ptp(shown.wall.points_mm, axis=0).max()) / 5)
    figure = go.Figure(_traces(shown, small, bar), _layout(shown)).to_dict()
    figure["layout"].pop("template", None)
    scene_data = {
        "figure": figure,
        "quantities": [_quantity_as_data(each, nearest) for each in shown.quantities],
        "areas": _packed(Wall.of(small).areas_mm2),
        "speed": {
            "label": "speed (m/s)",
            "limits": shown.speeds,
            "colours": colour_table(SPEED_COLOURS, COLOUR_POINTS),
        },
        "spread": SPREAD,
        "moving": _moving_as_data(shown.moving),
        "labels": _labels(shown, bar),
        "bar": f"{bar:g} mm",
    }
    return json.dumps(scene_data, separators=(",", ":")).replace("<", r"\u003c")


def _packed(values: NDArray[Any]) -> str:
    return base64.b64encode(values.astype("<f4").tobytes()).decode()


def _quantity_as_data(each: Quantity, nearest: NDArray[np.intp]) -> dict[str, Any]:
    """A quantity as the page takes it: values at the points of the small mesh, and what its colours begin with."""
    low, high = each.limits
    return {
        "label": each.label,
        "unit": each.unit,
        "note": each.kind.note,
        "limits": each.limits,
        "log": each.log,
        "percentile": each.kind.percentile,
        "fixed": each.kind.limits is not None,
        "from": "both" if low < 0 and low == -high else "zero" if each.kind.from_zero else "low",
        "parts": each.parts,
        "colours": colour_table(each.colours, COLOUR_POINTS),
        "values": _packed(each.values[nearest]),
    }


def _moving_as_data(moving: Moving | None) -> dict[str, Any] | None:
    if moving is None:
        return None
    counts = [len(frame) for frame in moving.frames]
    return {"counts": counts, "round_s": moving.round_s, "values": _packed(np.concatenate(moving.frames))}


def _labels(shown: Scene, bar_mm: float) -> list[dict[str, Any]]:
    """What is written beside places, the most important first: where two would overprint, the page leaves out the
    second.
    """
    found: list[tuple[str, NDArray[np.float64], str, str]] = []
    for opening in shown.openings:
        place = np.add(opening.centre_mm, np.multiply(opening.normal, 1.2 * opening.radius_mm))
        found.append((opening.name, place, shown.colours[opening.id], "strong"))
    corner = shown.wall.points_mm.min(axis=0)
    found.append((f"{bar_mm:g} mm", corner - 0.25 * bar_mm, INK, "scale"))
    middle, reach = _extent(shown.wall)
    for axis in range(3):
        for sign, letter in zip((1, -1), LETTERS[axis], strict=True):
            found.append((letter, middle + sign * reach * np.eye(3)[axis], FAINT, "axis"))
    return [
        {"text": text, "place": np.round(place, 3).tolist(), "colour": colour, kind: True}
        for text, place, colour, kind in found
    ]


def _traces(shown: Scene, small: Mesh, bar_mm: float) -> list[Any]:
    first = shown.quantities[0]
    traces: list[Any] = [
        _surface(small, colorscale=colour_table(first.colours, COLOUR_POINTS), showscale=False),
        _surface(small, color="#c9d1da", opacity=0.16, hoverinfo="skip", visible=False),
        _lines(shown.lines, shown.speeds),
        _particles(shown.speeds),
    ]
    for opening in shown.openings:
        if opening.id in shown.caps:
            cap = shown.caps[opening.id]
            traces.append(_surface(cap, color=shown.colours[opening.id], hoverinfo="skip"))
    return [*traces, _legs(shown.wall, bar_mm)]


def _surface(mesh: Mesh, **options: Any) -> go.Mesh3d:
    """A surface, lit from where the viewer stands, so that its colours stay those of the bar."""
    points, corners = mesh.points_mm.astype(np.float32).T, mesh.triangles.astype(np.int32).T
    light = {"ambient": AMBIENT, "diffuse": DIFFUSE, "specular": 0.0, "fresnel": 0.0}
    at = {"x": 0, "y": 0, "z": -100_000}
    named = dict(zip("xyzijk", (*points, *corners), strict=True))
    return go.Mesh3d(**named, lighting=light, lightposition=at, **options)


def _lines(lines: Sequence[NDArray[np.float64]], limits: tuple[float, float]) -> go.Scatter3d:
    """All streamlines as one trace, with gaps between them."""
    thinning = max(1, -(-sum(map(len, lines)) // MAX_LINE_POINTS))
    gap = np.full((1, 4), np.nan)
    parts = [part for line in lines for part in (line[::thinning], line[-1:], gap)]
    x, y, z, speed = np.concatenate([*parts, gap]).astype(np.float32).T
    style = {"width": 4, "color": np.nan_to_num(speed), **_speed_colours(limits)}
    return go.Scatter3d(x=x, y=y, z=z, mode="lines", line=style, hoverinfo="skip", visible=False)


def _particles(limits: tuple[float, float]) -> go.Scatter3d:
    """The trace that the page fills with particles."""
    style = {"size": 4, "color": [], "line": {"width": 0}, **_speed_colours(limits)}
    return go.Scatter3d(x=[], y=[], z=[], mode="markers", marker=style, hoverinfo="skip", visible=False)


def _speed_colours(limits: tuple[float, float]) -> dict[str, Any]:
    scale = colour_table(SPEED_COLOURS, COLOUR_POINTS)
    return {"colorscale": scale, "cmin": limits[0], "cmax": limits[1], "showscale": False}


def _legs(wall: Mesh, bar_mm: float) -> go.Scatter3d:
    """The scale: three legs of one length along the patient's axes from a corner of the box, since a single one would
    look shorter from most sides.
    """
    corner = wall.points_mm.min(axis=0)
    ends = corner + bar_mm * np.eye(3)
    x, y, z = np.array([point for end in ends for point in (corner, end, np.full(3, np.nan))]).T
    return go.Scatter3d(x=x, y=y, z=z, mode="lines", line={"color": INK, "width": 5}, hoverinfo="skip")


def _extent(wall: Mesh) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Middle of the vessel's box, and how far from it along x, y, z the letters of the directions stand."""
    low, high = wall.points_mm.min(axis=0), wall.points_mm.max(axis=0)
    return (low + high) / 2, 0.58 * (high - low) + 0.06 * (high - low).max()


def _layout(shown: Scene) -> dict[str, Any]:
    middle, reach = _extent(shown.wall)
    edges = 1.3 * SCENE_SIZE * reach / reach.max()
    axes = {
        f"{axis}axis": {"visible": False, "range": [float(m - r), float(m + r)]}
        for axis, m, r in zip("xyz", middle, 1.3 * reach, strict=True)
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
        "margin": {"l": 0, "r": 0, "t": 0, "b": 0},
        "showlegend": False,
        "font": {"family": "Segoe UI, Roboto, Noto Sans, Liberation Sans, Arial, sans-serif", "color": INK, "size": 13},
        "paper_bgcolor": "white",
    }
