# SPDX-License-Identifier: Apache-2.0
"""Picture of a vessel for a refusal: what was found before it, in three views along the patient's axes.

matplotlib draws it, so that a refusal needs no graphics library; it is imported when one comes. The picture shows shape
and places alone, and no image.
"""

import io
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.files.mesh import Mesh
from pipeline.geometry.branches.centreline_graph import Centreline
from pipeline.geometry.branches.free_ends import Ends
from solver.runtime.errors import StageError

VIEWS = (("coronal", 0, 2, 1, 1), ("sagittal", 1, 2, 0, -1), ("axial", 0, 1, 2, -1))
"""Name, the patient axes to the right and up, the one along the view, and the sign on it away from the viewer."""
AXIS_LABELS = ("x, mm (to the left)", "y, mm (to the posterior)", "z, mm (to the superior)")
COLOURS = {"open": "#0072B2", "closed": "#D55E00", "fault": "#B3261E"}
MOST_TRIANGLES = 60_000
"""More are thinned out in the picture."""
MOST_LINES = 34
"""So many lines fit beside the views."""


@dataclass(frozen=True)
class Mark:
    """A numbered place: its kind (``open``, ``closed`` or ``fault``), where it is, and what is to be said of it."""

    kind: str
    place_mm: NDArray[np.float64]
    text: str


@dataclass
class Scene:
    """What is known of a vessel so far; the stage that finds it out adds to it.

    Attributes
    ----------
    mesh : its surface, or None before there is one.
    centreline : and its centreline.
    marks : ends and faults.
    """

    mesh: Mesh | None = None
    centreline: Centreline | None = None
    marks: list[Mark] = field(default_factory=list)

    def mark_ends(self, found: Ends) -> None:
        """Take the ends of the vessel, open and closed, for the marks."""
        points = found.centreline.points_mm
        self.centreline = found.centreline
        self.marks = [
            Mark("open", points[end.rows[0]], f"open, radius {end.end_radius_mm:.2f} mm") for end in found.open
        ] + [Mark("closed", points[row], f"closed: {why}") for row, why in found.closed.items()]

    def clear(self) -> None:
        """Forget what is known, before another try."""
        self.mesh = None
        self.marks.clear()

    @contextmanager
    def on_refusal(self) -> Iterator[None]:
        """Let a refusal draw what is known when it comes."""
        try:
            yield
        except StageError as error:
            if self.mesh is not None and error.picture is None:
                known = replace(self, marks=[*self.marks])
                error.picture = partial(draw, known, str(error))
            raise


def draw(scene: Scene, title: str) -> bytes:
    """Three views of a vessel with its ends, as PNG.

    Parameters
    ----------
    scene : with a mesh.
    title : the sentence below which the marks are listed.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 9.5), layout="constrained")
    panels = figure.subplots(2, 2).ravel()
    for panel, view in zip(panels, VIEWS, strict=False):
        _draw_view(panel, scene, *view)
    panels[3].axis("off")
    lines = [*textwrap.wrap(title, 78), ""]
    for number, mark in enumerate(scene.marks, 1):
        x, y, z = mark.place_mm
        lines += textwrap.wrap(f"{number}  ({x:.1f}, {y:.1f}, {z:.1f}) mm  {mark.text}", 78, subsequent_indent="    ")
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES - 1], "..."]
    panels[3].text(0, 1, "\n".join(lines), va="top", fontsize=8, transform=panels[3].transAxes)
    stream = io.BytesIO()
    FigureCanvasAgg(figure)
    figure.savefig(stream, format="png", dpi=100, metadata={"Software": None})
    return stream.getvalue()


def _draw_view(panel: Any, scene: Scene, name: str, right: int, up: int, along: int, back: int) -> None:
    from matplotlib.collections import PolyCollection

    if scene.mesh is not None:
        _draw_mesh(panel, scene.mesh, right, up, along, back)
    if scene.centreline is not None:
        rows = scene.centreline.rows()
        links = {(min(row, near), max(row, near)) for row in rows.tolist() for near in scene.centreline.links[row]}
        ends = scene.centreline.points_mm[np.array(sorted(links), np.int64).reshape(-1, 2)][:, :, [right, up]]
        panel.add_collection(PolyCollection(list(ends), edgecolors="#222222", linewidths=1.0, closed=False))
    for number, mark in enumerate(scene.marks, 1):
        place = mark.place_mm[right], mark.place_mm[up]
        panel.plot(*place, "o", color=COLOURS[mark.kind], markersize=5)
        panel.annotate(
            str(number), place, xytext=(4, 4), textcoords="offset points", color=COLOURS[mark.kind], weight="bold"
        )
    panel.set_xlabel(AXIS_LABELS[right])
    panel.set_ylabel(AXIS_LABELS[up])
    panel.set_title(name)
    panel.set_aspect("equal")
    if up == 1:
        panel.invert_yaxis()  # anterior is up, as radiologists look at it
    panel.autoscale_view()


def _draw_mesh(panel: Any, mesh: Mesh, right: int, up: int, along: int, back: int) -> None:
    """The side of a surface that faces the viewer, darker where it turns away; caps in colour."""
    from matplotlib.collections import PolyCollection

    vectors = mesh.area_vectors_mm2()
    facing = -back * vectors[:, along] / np.maximum(np.linalg.norm(vectors, axis=1), 1e-30)
    front = np.flatnonzero(facing > 0)
    front = front[:: 1 + len(front) // MOST_TRIANGLES]
    depth = -back * mesh.points_mm[mesh.triangles[front], along].mean(axis=1)
    front = front[np.argsort(depth)]
    grey = 0.72 + 0.24 * facing[front, None]
    colours = np.where(mesh.opening[front, None] > 0, [[0.34, 0.71, 0.91]], grey * [[1.0, 1.0, 1.0]])
    shapes = mesh.points_mm[mesh.triangles[front]][:, :, [right, up]]
    panel.add_collection(PolyCollection(list(shapes), facecolors=colours, edgecolors=colours, linewidths=0.3))
