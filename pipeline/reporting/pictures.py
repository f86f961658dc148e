"""All pictures of the report: what is drawn, from where, in which colours, and what the caption says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import to_rgb
from numpy.typing import NDArray
from vtkmodules.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkIOXML import vtkXMLPolyDataReader

from pipeline.haemodynamics.indices import weighted_percentiles
from pipeline.haemodynamics.streamlines import Grid, streamlines_from_inlets
from pipeline.haemodynamics.wall import Wall
from pipeline.mesh import Mesh
from pipeline.reporting import figures, render, scene, view3d
from pipeline.reporting.page import embed
from solver.nodes import Nodes, Opening

SHEAR_PERCENTILE, SPEED_PERCENTILE = 99.0, 99.9
"""Colours end at these percentiles of the wall's area and of the nodes, so that single values do not use them up."""


@dataclass(frozen=True)
class Shear:
    """The wall and what is shown on it.

    Attributes
    ----------
    wall : the wall without caps.
    values : (V,), Pa.
    label : what they are, with the unit.
    """

    wall: Wall
    values: NDArray[np.float64]
    label: str

    def limits(self) -> tuple[float, float]:
        """Range of the colours, Pa."""
        high = weighted_percentiles(self.values, self.wall.areas_mm2, (SHEAR_PERCENTILE,))[0]
        return 0.0, high or 1.0


@dataclass
class Pictures:
    """Figures of the page, in the order in which they were made.

    Attributes
    ----------
    shown : by key: title, caption, PNG.
    """

    shown: dict[str, tuple[str, str, bytes]] = field(default_factory=dict)

    def add(self, key: str, title: str, caption: str, png: bytes) -> None:
        """Keep a figure."""
        self.shown[key] = (title, caption, png)

    def write(self, folder: Path) -> None:
        """Write every figure as ``<key>.png``."""
        folder.mkdir(parents=True)
        for key, (_, _, png) in self.shown.items():
            (folder / f"{key}.png").write_bytes(png)

    def for_page(self) -> dict[str, dict[str, str]]:
        """As the page takes them."""
        return {
            key: {"title": title, "caption": caption, "source": embed(png)}
            for key, (title, caption, png) in self.shown.items()
        }


def read_shear(path: Path) -> Shear:
    """Read the wall and its (time-averaged) wall shear stress from the file that postprocess wrote."""
    reader = vtkXMLPolyDataReader()
    reader.SetFileName(str(path))
    reader.Update()
    arrays = reader.GetOutput().GetPointData()
    averaged = arrays.HasArray("TAWSS (Pa)")
    values = vtk_to_numpy(arrays.GetArray("TAWSS (Pa)" if averaged else "WSS magnitude (Pa)")).astype(np.float64)
    label = "time-averaged wall shear stress (Pa)" if averaged else "wall shear stress (Pa)"
    return Shear(Wall.of(Mesh.from_vtk(reader.GetOutput())), values, label)


def draw_flow(
    pictures: Pictures, nodes: Nodes, velocity_m_s: NDArray[np.floating], shear: Shear, lines_wanted: int
) -> str:
    """Make all pictures of the vessel and the view to turn, which is returned as HTML.

    Parameters
    ----------
    pictures : gets the still pictures; three-dimensional ones only where they can be drawn.
    nodes, velocity_m_s : the lattice and the velocity at its fluid nodes, (N, 3).
    shear : the wall and what is shown on it.
    lines_wanted : streamlines from the inlets.
    """
    openings, wall = nodes.openings, shear.wall.mesh
    grid = Grid.of(nodes, velocity_m_s)
    lines = [line[:, :4] for line in streamlines_from_inlets(grid, openings, lines_wanted)]
    caps, colours = scene.caps(wall, openings), figures.opening_colours(openings)
    view = scene.front_view(wall.points_mm)
    turned = scene.around(wall.points_mm, view, [25])[0]
    speed = np.linalg.norm(velocity_m_s.astype(np.float64), axis=1)
    speeds = (0.0, float(np.percentile(speed, SPEED_PERCENTILE)) or 1.0)
    if render.window_class():
        _draw_vessel(pictures, wall, caps, openings, turned)
        usual = float(np.median(np.ptp(wall.points_mm, axis=0))) / 12
        _draw_lines(pictures, wall, lines, min((o.radius_mm for o in openings), default=usual), speeds, view)
        _draw_shear(pictures, shear, view)
    middle = wall.points_mm.mean(axis=0)
    section = scene.lengthwise_slice(grid, scene.closed(wall, caps), view, middle)
    if any(nodes.periodic):
        section = replace(section, outline_mm=[])  # open where the shape repeats
    pictures.add(
        "slice", "speed in a slice", "Speed in a flat slice along the vessel, with arrows along the velocity in it.",
        figures.to_png(figures.slice_figure(section, view, speeds)),
    )  # fmt: skip
    return view3d.to_html(
        view3d.interactive_figure(
            wall, shear.values, shear.limits(), shear.label, lines, speeds, caps, openings, colours, turned
        )
    )


def draw_centreline(
    pictures: Pictures, wall: Mesh, openings: tuple[Opening, ...], lines: list[NDArray[np.float64]]
) -> None:
    """Make the picture of the centreline in the wall, where it can be drawn.

    Parameters
    ----------
    pictures : gets it.
    wall : the wall without caps.
    openings : named in the picture.
    lines : one array a branch, (n, 4): x, y, z and radius, mm.
    """
    if not render.window_class():
        return
    view = scene.around(wall.points_mm, scene.front_view(wall.points_mm), [25])[0]
    caps, colours = scene.caps(wall, openings), figures.opening_colours(openings)
    radius = np.concatenate(lines)[:, 3]
    limits = float(np.percentile(radius, 2)), float(radius.max())  # the least are those at the tips of blind ends
    thickness = 0.15 * min(opening.radius_mm for opening in openings)
    image = render.draw(
        [
            *render.see_through_actors(wall),
            *(render.surface_actor(caps[key], to_rgb(colours[key]), flat=True) for key in caps),
            render.tube_actor(lines, thickness, limits, figures.RADIUS_COLOURS),
        ],
        [view],
        1100,
    )[0]
    pictures.add(
        "centreline", "centreline", "The centreline, coloured by the radius of the largest ball around each point.",
        figures.to_png(figures.centreline_figure(image, view, openings, limits)),
    )  # fmt: skip


def plot_triangles(pictures: Pictures, histograms: Mapping[str, Sequence[int]]) -> None:
    """Make the histogram of the triangles' smallest angles, by what it is of; none where there are no counts."""
    if histograms:
        pictures.add(
            "triangles", "angles of the triangles", "Smallest angles of the triangles of the surface.",
            figures.to_png(figures.triangles_figure(histograms)),
        )  # fmt: skip


def _draw_vessel(
    pictures: Pictures, wall: Mesh, caps: Mapping[int, Mesh], openings: tuple[Opening, ...], view: scene.View
) -> None:
    colours = figures.opening_colours(openings)
    actors = [render.surface_actor(caps[key], to_rgb(colours[key]), flat=True) for key in caps]
    image = render.draw([render.surface_actor(wall, render.GLASS), *actors], [view], 1100)[0]
    pictures.add(
        "geometry", "geometry", "The vessel as it was computed, with its openings.",
        figures.to_png(figures.geometry_figure(image, view, openings)),
    )  # fmt: skip


def _draw_lines(
    pictures: Pictures,
    wall: Mesh,
    lines: list[NDArray[np.float64]],
    radius_mm: float,
    speeds: tuple[float, float],
    view: scene.View,
) -> None:
    if not lines:
        return
    tubes = render.tube_actor(lines, 0.05 * radius_mm, speeds, figures.SPEED_COLOURS)
    image = render.draw([*render.see_through_actors(wall), tubes], [view], 1100)[0]
    pictures.add(
        "streamlines", "streamlines", "Streamlines, coloured by speed.",
        figures.to_png(figures.speed_figure(image, view, speeds)),
    )  # fmt: skip


def _draw_shear(pictures: Pictures, shear: Shear, view: scene.View) -> None:
    mesh, limits = shear.wall.mesh, shear.limits()
    views = scene.around(mesh.points_mm, view, (0, 90, 180, 270), margin=0.1)
    images = render.draw(
        [render.coloured_actor(mesh, shear.values, limits, figures.SHEAR_COLOURS)], views, 800
    )  # fmt: skip
    pictures.add(
        "wall", shear.label, f"The {shear.label.removesuffix(' (Pa)')} from four sides, a quarter turn apart.",
        figures.to_png(figures.wall_figure(images, views, limits, shear.label)),
    )  # fmt: skip


def plot_record(
    pictures: Pictures,
    monitor: Mapping[str, NDArray[np.float64]],
    openings: tuple[Opening, ...],
    period_s: float | None = None,
) -> None:
    """Make the plots of the solver's record; of a periodic flow the last cycle, too."""
    if openings and period_s:
        last = monitor["time_s"] > monitor["time_s"][-1] - (1 - 1e-6) * period_s
        pictures.add(
            "cycle", "flow and pressure over the last cycle",
            "Flow and pressure at the openings over the last cycle, which pictures and indices are made of.",
            figures.to_png(figures.openings_figure({key: each[last] for key, each in monitor.items()}, openings)),
        )  # fmt: skip
    pictures.add(
        "convergence", "convergence", "Change of the velocity and largest speed while the solver ran.",
        figures.to_png(figures.convergence_figure(monitor)),
    )  # fmt: skip
    if openings:
        pictures.add(
            "records", "flow and pressure at the openings", "Flow and pressure at the openings while the solver ran.",
            figures.to_png(figures.openings_figure(monitor, openings)),
        )  # fmt: skip


def plot_waveforms(pictures: Pictures, waveforms: Mapping[str, Mapping[str, Any]]) -> None:
    """Make the plots of the waveforms that the solver was given, by name of the opening."""
    for unit, label, what in (
        ("flow_ml_s", "flow (mL/s)", "flow into the vessel"), ("pressure_mmhg", "pressure (mmHg)", "pressure"),
    ):  # fmt: skip
        chosen = {name: told for name, told in waveforms.items() if unit in told}
        if chosen:
            figures_of = "; ".join(
                f"{name}: mean {told['mean']:.3g}, from {told['least']:.3g} to {told['largest']:.3g} in"
                f" {told['period_s']:.3g} s"
                for name, told in chosen.items()
            )
            pictures.add(
                f"waveform-{unit.split('_')[0]}", f"waveform of the {what}",
                f"The {what} that was asked for, {label[label.index('(') + 1 : -1]}, and its harmonics. {figures_of}.",
                figures.to_png(figures.waveforms_figure(chosen, unit, label)),
            )  # fmt: skip
