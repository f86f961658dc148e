# SPDX-License-Identifier: Apache-2.0
"""Pictures of the lattice and the flow in a run, drawn off-screen: of a box, or of a vessel with openings."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from matplotlib.colors import to_rgb
from numpy.typing import NDArray

from pipeline.case.shapes import DirectedShape
from pipeline.files.mesh import Mesh
from pipeline.haemodynamics.streamlines import Grid, streamlines_from_inlets
from pipeline.reporting import render, scene
from pipeline.reporting.colours import colour_map, mappable
from pipeline.reporting.figures import INLET_COLOURS, OUTLET_COLOURS
from pipeline.reporting.quantities import SPEED_COLOURS
from solver.domain.nodes import INLET, OUTLET
from validation.evidence import Evidence
from validation.studies.run import Run

LONGEST, LEVEL, LINES, ARROWS = 240, 15, 16, 250
"""Pixels of a picture's longer side, steps of its colours out of 255 (for small files), streamlines, arrows."""
ASKEW = np.array([0.45, -0.8, 0.4])
"""Where a box is seen from."""
FACES = [(axis, side) for axis in range(3) for side in (-1, 1)]

Panel = tuple[str, NDArray[np.uint8]]


def block(position: NDArray[np.int32]) -> tuple[Mesh, NDArray[np.intp]]:
    """Outer faces of the cubes around nodes, in spacings, and the row of the node that each point belongs to.

    Parameters
    ----------
    position : (N, 3) nodes.
    """
    low = position.min(axis=0) - 1
    there = np.zeros(np.ptp(position, axis=0) + 3, bool)
    there[tuple((position - low).T)] = True
    corners, owners = [], []
    for axis, side in FACES:
        beside = position.copy()
        beside[:, axis] += side
        bare = np.flatnonzero(~there[tuple((beside - low).T)])
        first, second = (axis + 1) % 3, (axis + 2) % 3
        around = np.zeros((4, 3))
        around[:, axis], around[:, first], around[:, second] = side, (-1, side, 1, -side), (-1, -side, 1, side)
        corners.append((position[bare, None] + around / 2).reshape(-1, 3))
        owners.append(np.repeat(bare, 4))
    points = np.concatenate(corners)
    quads = np.arange(len(points)).reshape(-1, 4)
    triangles = np.concatenate((quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]))
    return Mesh(points, triangles, np.zeros(len(triangles), np.int8)), np.concatenate(owners)


def draw_flow(evidence: Evidence, run: Run) -> None:
    """Pictures of a run where they can be drawn on this machine."""
    if not render.window_class():
        return
    speed = np.linalg.norm(run.velocity_m_s, axis=1)
    limits = (0.0, float(np.percentile(speed, 99)))
    panels = _vessel(run, limits) if run.nodes.openings else _box(run, speed, limits)
    for first in range(0, len(panels), 2):
        pair = panels[first : first + 2]
        draw = partial(_panels, panels=pair, limits=limits)
        evidence.draw(draw, f"{run.name}: " + ", ".join(title for title, _ in pair))


def lengthwise(run: Run, shape: DirectedShape) -> scene.Slice:
    """The flow in the plane in which a shape along x is mirrored by y = 0, seen with the flow to the right."""
    right, behind, up = shape.turn.T
    across = run.surface.points_mm @ np.column_stack((right, up))
    low, high = across.min(axis=0) - run.nodes.spacing_mm, across.max(axis=0) + run.nodes.spacing_mm
    middle = (low + high) / 2 @ np.stack((right, up))
    view = scene.View(right, up, -behind, middle, *(high - low).tolist())
    return scene.lengthwise_slice(Grid.of(run.nodes, run.velocity_m_s), run.surface, view, middle)


def draw_plane(axes: Any, run: Run, shape: DirectedShape, unit_mm: float = 1.0) -> scene.Slice:
    """Draw the speed in that plane, with the outline of the vessel, in units of length about its middle.

    Parameters
    ----------
    axes : of Matplotlib.
    run : whose flow is drawn.
    shape : its geometry, which gives the plane.
    unit_mm : unit of length of the axes.
    """
    plane = lengthwise(run, shape)
    ends = [place / unit_mm for places in (plane.right_mm, plane.up_mm) for place in (places[0], places[-1])]
    speed = np.where(plane.inside, plane.speed_m_s, np.nan)
    drawn = axes.imshow(speed, origin="lower", extent=ends, cmap=colour_map(SPEED_COLOURS), interpolation="nearest")
    for line in plane.outline_mm:
        axes.plot(*line.T / unit_mm, color="grey", linewidth=0.8)
    axes.set_axis_off()
    axes.figure.colorbar(drawn, ax=axes, orientation="horizontal", label="speed (m/s)", shrink=0.7, aspect=40)
    return plane


def _panels(figure: Any, panels: Sequence[Panel], limits: tuple[float, float]) -> None:
    """Pictures side by side, with the colours of the speed."""
    figure.set_size_inches(2 * len(panels) + 1, 2.6)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for place, (title, image) in zip(axes, panels, strict=True):
        place.imshow((image / LEVEL).round() * LEVEL / 255, interpolation="nearest")
        place.set_title(title, fontsize=9)
        place.set_axis_off()
    figure.colorbar(
        mappable(SPEED_COLOURS, limits), ax=list(axes), label="speed (m/s)", shrink=0.7, aspect=25, extend="max"
    )


def _rendered(actors: Sequence[Any], points: NDArray[np.float64], toward: NDArray[np.float64]) -> NDArray[np.uint8]:
    """A picture of actors around points from a direction, z up."""
    up, toward = np.array([0.0, 0.0, 1.0]), toward / np.linalg.norm(toward)
    view = scene.View(np.cross(up, toward), up, toward, points.mean(axis=0), 1.0, 1.0)
    return render.draw(actors, scene.around(points, view, [0], 0.02), LONGEST)[0]


def _cubes(run: Run, position: NDArray[np.int32]) -> tuple[Mesh, NDArray[np.intp]]:
    """:func:`block` in mm."""
    mesh, owner = block(position)
    return replace(mesh, points_mm=mesh.points_mm * run.nodes.spacing_mm + run.nodes.origin_mm), owner


def _tubes(run: Run, radius_mm: float, limits: tuple[float, float]) -> Any:
    """Streamlines, coloured by their speed."""
    lines = streamlines_from_inlets(Grid.of(run.nodes, run.velocity_m_s), run.nodes.openings, LINES)
    return render.tube_actor([line[:, :4] for line in lines], radius_mm, limits, SPEED_COLOURS)


def _box(run: Run, speed: NDArray[np.float64], limits: tuple[float, float]) -> list[Panel]:
    """The surface of the lattice, a clip through its middle, and streamlines."""
    position, points = run.nodes.position, run.nodes.points_mm()
    behind = np.flatnonzero(position[:, 1] >= np.median(position[:, 1]))
    panels = []
    for title, rows in (("surface", np.arange(len(speed))), ("clip", behind)):
        mesh, owner = _cubes(run, position[rows])
        actor = render.coloured_actor(mesh, speed[rows][owner], limits, SPEED_COLOURS)
        panels.append((title, _rendered([actor], points, ASKEW)))
    tubes = _tubes(run, 0.006 * float(np.ptp(points)), limits)
    return [*panels, ("streamlines", _rendered([tubes], points, ASKEW))]


def _vessel(run: Run, limits: tuple[float, float]) -> list[Panel]:
    """Kinds of nodes behind a transparent wall, the direction of the flow, and streamlines, thin and thick."""
    nodes, points = run.nodes, run.nodes.points_mm()
    toward = scene.front_view(points).toward
    wall = run.surface
    wall = replace(wall, triangles=wall.triangles[wall.opening == 0], opening=wall.opening[wall.opening == 0])
    glass = render.surface_actor(wall, render.GLASS, 0.3)
    kinds = [
        render.surface_actor(_cubes(run, nodes.position[nodes.tag == tag])[0], to_rgb(colour))
        for tag, colour in ((INLET, INLET_COLOURS[0]), (OUTLET, OUTLET_COLOURS[0]))
    ]
    radius = min(opening.radius_mm for opening in nodes.openings)
    some = np.random.default_rng(0).choice(nodes.count, min(ARROWS, nodes.count), replace=False)
    arrows = render.arrow_actor(points[some], run.velocity_m_s[some], radius, limits, SPEED_COLOURS)
    thin, thick = (_tubes(run, width * radius, limits) for width in (0.03, 0.1))
    return [
        ("inlet, outlet, wall", _rendered([*kinds, glass], points, toward)),
        ("direction", _rendered([arrows, glass], points, toward)),
        ("streamlines", _rendered([thin, glass], points, toward)),
        ("thick streamlines", _rendered([thick], points, toward)),
    ]
