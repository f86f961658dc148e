"""The view to turn: wall, openings and streamlines as a plotly figure that carries its own JavaScript."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from vtkmodules.vtkFiltersCore import vtkQuadricDecimation

from pipeline.mesh import Mesh
from pipeline.reporting.figures import FAINT, INK, SHEAR_COLOURS, SPEED_COLOURS
from pipeline.reporting.scene import LETTERS, View
from solver.nodes import Opening

SCENE_SIZE = 1.8
"""Longest edge of the scene, in plotly's units: the vessel fills the view."""

MAX_TRIANGLES, MAX_LINE_POINTS = 30_000, 40_000
"""What a page should carry."""

CONFIG = {"displaylogo": False, "responsive": True, "modeBarButtonsToRemove": ["toImage", "tableRotation"]}


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


def interactive_figure(
    wall: Mesh,
    values: NDArray[np.floating],
    limits: tuple[float, float],
    label: str,
    lines: Sequence[NDArray[np.float64]],
    speed_limits: tuple[float, float],
    caps: Mapping[int, Mesh],
    openings: Iterable[Opening],
    colours: Mapping[int, str],
    view: View,
) -> go.Figure:
    """Wall coloured by a quantity, or as glass around the streamlines, to be turned and zoomed.

    Parameters
    ----------
    wall : the wall without caps.
    values, limits, label : (P,) quantity at the wall's points, range of its colours, name with unit.
    lines, speed_limits : streamlines, each (P, 4): x, y, z in mm and speed in m/s; range of their colours.
    caps, openings, colours : by the opening's id.
    view : where the reader starts.
    """
    small = decimated(wall, MAX_TRIANGLES)
    nearest = cKDTree(wall.points_mm).query(small.points_mm)[1]
    traces: list[Any] = [
        _surface(
            small, intensity=np.asarray(values[nearest], np.float32), cmin=limits[0], cmax=limits[1],
            colorscale=SHEAR_COLOURS, colorbar=_bar(label), hovertemplate="%{intensity:.2f} Pa<extra></extra>",
        ),
        _surface(small, color="#c9d1da", opacity=0.16, hoverinfo="skip", visible=False),
        _lines(lines, speed_limits),
    ]  # fmt: skip
    for opening in openings:
        if opening.id in caps:
            traces.append(_surface(caps[opening.id], color=colours[opening.id], hoverinfo="skip"))
        x, y, z = np.add(opening.centre_mm, np.multiply(opening.normal, 2.2 * opening.radius_mm))
        text = {"color": colours[opening.id], "size": 14}
        traces.append(
            go.Scatter3d(x=[x], y=[y], z=[z], mode="text", text=[opening.name], textfont=text, hoverinfo="skip")
        )
    middle, reach = _extent(wall)
    traces.append(_directions(middle, reach))
    return go.Figure(traces, _layout(len(traces), view, middle, reach))


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
        "colorscale": SPEED_COLOURS,
        "cmin": limits[0],
        "cmax": limits[1],
    }
    style |= {"colorbar": _bar("speed (m/s)")}
    return go.Scatter3d(x=x, y=y, z=z, mode="lines", line=style, hoverinfo="skip", visible=False)


def _bar(label: str) -> dict[str, Any]:
    title = {"text": label, "side": "right"}
    return {"title": title, "thickness": 12, "len": 0.7, "outlinewidth": 0, "tickfont": {"color": FAINT}}


def _extent(wall: Mesh) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Middle of the vessel's box, and how far from it along x, y, z the letters of the directions stand."""
    low, high = wall.points_mm.min(axis=0), wall.points_mm.max(axis=0)
    return (low + high) / 2, 0.58 * (high - low) + 0.06 * (high - low).max()


def _directions(middle: NDArray[np.float64], reach: NDArray[np.float64]) -> go.Scatter3d:
    """Letters of the patient's directions around the vessel."""
    places = [middle + sign * reach * np.eye(3)[axis] for axis in range(3) for sign in (1, -1)]
    x, y, z = np.array(places).T
    font = {"color": FAINT, "size": 13}
    return go.Scatter3d(x=x, y=y, z=z, mode="text", text=list("".join(LETTERS)), textfont=font, hoverinfo="skip")


def _layout(traces: int, view: View, middle: NDArray[np.float64], reach: NDArray[np.float64]) -> dict[str, Any]:
    def button(name: str, shear: bool) -> dict[str, Any]:
        visible = [shear, not shear, not shear] + [True] * (traces - 3)
        return {"label": name, "method": "restyle", "args": [{"visible": visible}]}

    edges = SCENE_SIZE * reach / reach.max()
    axes = {
        f"{axis}axis": {"visible": False, "range": [float(m - r), float(m + r)]}
        for axis, m, r in zip("xyz", middle, 1.1 * reach, strict=True)
    }
    up, eye = (dict(zip("xyz", map(float, vector), strict=True)) for vector in (view.up, 1.05 * view.toward))
    return {
        "scene": {
            **axes, "aspectmode": "manual", "aspectratio": dict(zip("xyz", map(float, edges), strict=True)),
            "camera": {"up": up, "eye": eye, "projection": {"type": "orthographic"}},
        },
        "updatemenus": [
            {
                "type": "buttons", "direction": "right", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom",
                "showactive": True, "buttons": [button("wall shear stress", True), button("streamlines", False)],
            }
        ],
        "margin": {"l": 0, "r": 0, "t": 44, "b": 0},
        "showlegend": False,
        "font": {"family": "Segoe UI, Roboto, Noto Sans, Liberation Sans, Arial, sans-serif", "color": INK, "size": 13},
        "paper_bgcolor": "white",
    }  # fmt: skip


def to_html(figure: go.Figure) -> str:
    """The figure with its library as one piece of HTML that needs no network."""
    return figure.to_html(
        full_html=False, include_plotlyjs=True, config=CONFIG, div_id="vessel", default_height="min(80vh, 620px)"
    )
