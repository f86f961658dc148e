# SPDX-License-Identifier: Apache-2.0
"""All pictures of the report: what is drawn, from where and in which colours; :mod:`captions` says what they show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import to_rgb
from numpy.typing import NDArray

from pipeline.files.mesh import Mesh
from pipeline.haemodynamics.streamlines import Grid
from pipeline.reporting import cuts, figures, plots, render, scene
from pipeline.reporting.bands_section import tornado_figure
from pipeline.reporting.captions import caption
from pipeline.reporting.centreline_figure import BranchLine
from pipeline.reporting.quantities import RADIUS_COLOURS, SPEED_COLOURS, SPEED_PERCENTILE, Quantity
from pipeline.reporting.report_page import embed
from pipeline.reporting.transport_section import curves_figure
from pipeline.reporting.webp import to_webp
from solver.domain.nodes import Nodes, Opening

PRESSURE_PERCENTILES = (0.5, 99.5)
"""Colours of the pressure lie between these percentiles of the nodes."""

MAPPED = ("wall", "wall-osi", "wall-rrt", "wall-pressure", "wall-deviation")
"""Quantities of which there are still pictures, by their keys; the view to turn offers all."""


@dataclass
class Pictures:
    """Figures of the page, in the order in which they were made.

    Attributes
    ----------
    shown : by key: title, caption, picture.
    """

    shown: dict[str, tuple[str, str, bytes]] = field(default_factory=dict)

    def add(self, key: str, title: str, png: bytes, more: str = "") -> None:
        """Keep a figure under its caption, to which `more` is added.

        Parameters
        ----------
        key : of the figure and of its caption.
        title : above it.
        png : the figure.
        more : sentences behind the caption.
        """
        self.shown[key] = (title, f"{caption(key)} {more}".strip(), png)

    def write(self, folder: Path) -> None:
        """Write every figure as ``<key>.png``."""
        folder.mkdir(parents=True)
        for key, (_, _, png) in self.shown.items():
            (folder / f"{key}.png").write_bytes(png)

    def for_page(self) -> dict[str, dict[str, str]]:
        """As the page takes them: in WebP, at a fifth of the size."""
        return {
            key: {"title": title, "caption": caption, "source": embed(to_webp(png), "webp")}
            for key, (title, caption, png) in self.shown.items()
        }


@dataclass(frozen=True)
class Shown:
    """The flow at the time that pictures show.

    Attributes
    ----------
    nodes : the lattice and its openings.
    velocity_m_s, pressure_pa : (N, 3), (N,), at the fluid nodes.
    wall : the wall without caps.
    quantities : on the wall, wall shear stress first.
    tree, lines : summary and branches of the centreline; none where there is none.
    """

    nodes: Nodes
    velocity_m_s: NDArray[np.floating]
    pressure_pa: NDArray[np.floating]
    wall: Mesh
    quantities: list[Quantity]
    tree: Mapping[str, Any] | None
    lines: list[NDArray[np.float64]]

    def speeds(self) -> tuple[float, float]:
        """Range of the colours of the speed, m/s."""
        speed = np.linalg.norm(self.velocity_m_s.astype(np.float64), axis=1)
        return 0.0, float(np.percentile(speed, SPEED_PERCENTILE)) or 1.0

    def pressures(self) -> tuple[float, float]:
        """Range of the colours of the pressure, Pa."""
        low, high = (float(each) for each in np.percentile(self.pressure_pa, PRESSURE_PERCENTILES))
        return (low, high) if high > low else (low - 0.5, low + 0.5)


def turned(wall: Mesh) -> scene.View:
    """The view of the vessel that shows its depth, too."""
    return scene.around(wall.points_mm, scene.front_view(wall.points_mm), [25])[0]


def draw_still(pictures: Pictures, shown: Shown, lines: Sequence[NDArray[np.float64]]) -> None:
    """Make the three-dimensional pictures, where they can be drawn: vessel, centreline, streamlines and wall.

    Parameters
    ----------
    pictures : gets them.
    shown : the flow.
    lines : streamlines, each (P, 4): x, y, z in mm and speed in m/s.
    """
    if not render.window_class():
        return
    openings, wall = shown.nodes.openings, shown.wall
    caps, view = scene.caps(wall, openings), scene.front_view(wall.points_mm)
    _draw_vessel(pictures, wall, caps, openings, turned(wall))
    if shown.lines:
        _draw_centreline(pictures, wall, caps, openings, shown.lines)
    if lines:
        usual = float(np.median(np.ptp(wall.points_mm, axis=0))) / 12
        radius = min((opening.radius_mm for opening in openings), default=usual)
        _draw_lines(pictures, wall, lines, radius, shown.speeds(), view)
    for each in shown.quantities:
        if each.kind.key in MAPPED:
            _draw_quantity(pictures, wall, each, view)


def draw_cuts(pictures: Pictures, shown: Shown, grid: Grid) -> None:
    """Make the pictures of the cuts along and across the vessel; these need nothing to draw with.

    Parameters
    ----------
    pictures : gets the figures.
    shown : the flow that is shown, on the lattice.
    grid : its velocity.
    """
    wall = shown.wall
    surface = scene.closed(wall, scene.caps(wall, shown.nodes.openings))
    pressure = cuts.pressure_grid(shown.nodes, shown.pressure_pa)

    def made(title: str, view: scene.View, through_mm: NDArray[np.float64]) -> cuts.Cut:
        return cuts.cut(title, shown.nodes, grid, pressure, surface, view, through_mm)

    along = made("along the vessel", scene.front_view(wall.points_mm), wall.points_mm.mean(axis=0))
    picture = figures.slice_figure(along, shown.speeds(), shown.pressures())
    pictures.add("slice", "speed and pressure in a cut along the vessel", figures.to_png(picture))
    places = cuts.places_across(shown.nodes.openings, shown.tree, shown.lines)
    across = [made(title, cuts.view_across(centre, along, radius), centre) for title, centre, along, radius in places]
    if across:
        title = "speed and pressure in cuts across the vessel"
        pictures.add("cross", title, figures.to_png(figures.cross_figure(across)))


def _cap_actors(caps: Mapping[int, Mesh], openings: tuple[Opening, ...]) -> list[Any]:
    colours = figures.opening_colours(openings)
    return [render.surface_actor(caps[key], to_rgb(colours[key]), flat=True) for key in caps]


def _draw_vessel(
    pictures: Pictures, wall: Mesh, caps: Mapping[int, Mesh], openings: tuple[Opening, ...], view: scene.View
) -> None:
    actors = [render.surface_actor(wall, render.GLASS), *_cap_actors(caps, openings)]
    image = render.draw(actors, [view], 1100)[0]
    pictures.add("geometry", "geometry", figures.to_png(figures.geometry_figure(image, view, openings)))


def _draw_centreline(
    pictures: Pictures,
    wall: Mesh,
    caps: Mapping[int, Mesh],
    openings: tuple[Opening, ...],
    lines: list[NDArray[np.float64]],
) -> None:
    view = turned(wall)
    radius = np.concatenate(lines)[:, 3]
    limits = float(np.percentile(radius, 2)), float(radius.max())  # the least are those at the tips of blind ends
    thickness = 0.15 * min(opening.radius_mm for opening in openings)
    tubes = render.tube_actor(lines, thickness, limits, RADIUS_COLOURS)
    image = render.draw([*render.see_through_actors(wall), *_cap_actors(caps, openings), tubes], [view], 1100)[0]
    pictures.add("centreline", "centreline", figures.to_png(figures.centreline_figure(image, view, openings, limits)))


def _draw_lines(
    pictures: Pictures,
    wall: Mesh,
    lines: Sequence[NDArray[np.float64]],
    radius_mm: float,
    speeds: tuple[float, float],
    view: scene.View,
) -> None:
    tubes = render.tube_actor(lines, 0.05 * radius_mm, speeds, SPEED_COLOURS)
    image = render.draw([*render.see_through_actors(wall), tubes], [view], 1100)[0]
    pictures.add("streamlines", "streamlines", figures.to_png(figures.speed_figure(image, view, speeds)))


def _draw_quantity(pictures: Pictures, wall: Mesh, shown: Quantity, view: scene.View) -> None:
    views = scene.around(wall.points_mm, view, (0, 90, 180, 270), margin=0.1)
    actor = render.coloured_actor(wall, shown.values, shown.limits, shown.colours, shown.log)
    images = render.draw([actor], views, 800)
    pictures.add(shown.kind.key, shown.label, figures.to_png(figures.wall_figure(images, views, shown)))


def plot_triangles(pictures: Pictures, histograms: Mapping[str, Sequence[int]]) -> None:
    """Make the histogram of the triangles' smallest angles, by what it is of; none where there are no counts."""
    if histograms:
        pictures.add("triangles", "angles of the triangles", figures.to_png(plots.triangles_figure(histograms)))


def plot_centreline_profile(pictures: Pictures, branches: Sequence[BranchLine]) -> None:
    """Make the plot of what postprocess found along the centreline; none where there is no branch with a value."""
    if any(np.isfinite(values).any() for each in branches for values in each.values.values()):
        pictures.add(
            "along", "pressure along the centreline", figures.to_png(plots.centreline_profile_figure(branches))
        )


def plot_bands(pictures: Pictures, bands: Mapping[str, Any] | None) -> None:
    """Make the plot of what makes figures unsure, from ``uncertainty.json``; none where there are no bands."""
    if bands and bands["bands"]:
        pictures.add("bands", "what makes the figures unsure", figures.to_png(tornado_figure(bands)))


def plot_transport(pictures: Pictures, curves: Path, strip: bytes, openings: tuple[Opening, ...]) -> None:
    """Make the plot of the curves of a bolus, and keep the strip of its angiogram; none where there was no bolus.

    Parameters
    ----------
    pictures : where they go.
    curves : ``transport.csv``.
    strip : ``angiogram.png``.
    openings : of the vessel.
    """
    if picture := curves_figure(curves, openings):
        pictures.add("angiogram", "virtual angiogram", strip)
        pictures.add("dilution", "course of a bolus of contrast", figures.to_png(picture))


def plot_record(
    pictures: Pictures,
    monitor: Mapping[str, NDArray[np.float64]],
    openings: tuple[Opening, ...],
    period_s: float | None = None,
) -> None:
    """Make the plots of the solver's record; of a periodic flow the last cycle, too.

    Parameters
    ----------
    pictures : gets the figures.
    monitor : columns of the solver's record by name.
    openings : of the vessel; may be empty.
    period_s : of the flow; none of a steady one.
    """
    if openings and period_s:
        last = monitor["time_s"] > monitor["time_s"][-1] - (1 - 1e-6) * period_s
        cycle = plots.openings_figure({key: each[last] for key, each in monitor.items()}, openings)
        pictures.add("cycle", "flow and pressure over the last cycle", figures.to_png(cycle))
    pictures.add("convergence", "convergence", figures.to_png(plots.convergence_figure(monitor)))
    if openings:
        title = "flow and pressure at the openings"
        pictures.add("records", title, figures.to_png(plots.openings_figure(monitor, openings)))


def plot_coupling(pictures: Pictures, coupled: Mapping[str, Any] | None) -> None:
    """Make the plot of a vessel and the network that it sits in, from ``solve.json``; none of another vessel."""
    if coupled:
        picture = plots.coupling_figure(coupled["caps"])
        pictures.add("coupling", "the vessel in the network", figures.to_png(picture))


def plot_waveforms(pictures: Pictures, waveforms: Mapping[str, Mapping[str, Any]]) -> None:
    """Make the plots of the waveforms that the solver was given, by name of the opening."""
    for unit, label, what in (
        ("flow_ml_s", "flow (mL/s)", "flow into the vessel"),
        ("pressure_mmhg", "pressure (mmHg)", "pressure"),
    ):
        chosen = {name: waveform for name, waveform in waveforms.items() if unit in waveform}
        if chosen:
            figures_of = "; ".join(
                f"{name}: mean {waveform['mean']:.3g}, from {waveform['least']:.3g} to {waveform['largest']:.3g} in"
                f" {waveform['period_s']:.3g} s"
                for name, waveform in chosen.items()
            )
            key, picture = f"waveform-{unit.split('_')[0]}", plots.waveforms_figure(chosen, unit, label)
            pictures.add(key, f"waveform of the {what}", figures.to_png(picture), f"{figures_of}.")
