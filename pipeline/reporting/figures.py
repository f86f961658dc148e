# SPDX-License-Identifier: Apache-2.0
"""Pictures of the report with names, scales, colour bars and patient directions."""

import io
from collections.abc import Iterable, Sequence
from itertools import cycle
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from numpy.typing import NDArray

from pipeline.reporting.colours import colour_map, mappable
from pipeline.reporting.cuts import Cut
from pipeline.reporting.quantities import PRESSURE_COLOURS, RADIUS_COLOURS, SPEED_COLOURS, Quantity
from pipeline.reporting.scene import View, direction_letters
from solver.domain.nodes import Opening

DIRECTIONS = {"L": "left", "R": "right", "A": "front", "P": "back", "H": "head", "F": "feet"}
"""The patient's directions in words."""

INLET_COLOURS = ("#0072B2", "#56B4E9")
OUTLET_COLOURS = ("#D55E00", "#E69F00", "#CC79A7", "#009E73", "#7F3C8D", "#8C6D31")
"""Told apart by colour-blind readers. Source: Okabe and Ito (2008), Color Universal Design."""

INK, FAINT = "#1b2733", "#6b7785"

STYLE: Any = {
    "font.size": 9.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e7ec",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
}

DOTS_PER_INCH = 150
PNG_EFFORT = 4
"""Out of 9: of figures of a report 6, the usual one, takes half as long again for files a twentieth smaller."""


def opening_colours(openings: Iterable[Opening]) -> dict[int, str]:
    """Colour of each opening by its id: blues for inlets, warm colours for outlets."""
    colours = {"inlet": cycle(INLET_COLOURS), "outlet": cycle(OUTLET_COLOURS)}
    return {opening.id: next(colours[opening.role]) for opening in openings}


def to_png(figure: Figure) -> bytes:
    """The figure as PNG, with nothing in it that changes from run to run."""
    stream = io.BytesIO()
    FigureCanvasAgg(figure)
    if layout := figure.get_layout_engine():  # with which Matplotlib would draw all of it once more to find places
        figure.dpi = DOTS_PER_INCH
        layout.execute(figure)
        figure.set_layout_engine(None)
    figure.savefig(
        stream,
        format="png",
        dpi=DOTS_PER_INCH,
        metadata={"Software": None},
        facecolor="white",
        pil_kwargs={"compress_level": PNG_EFFORT},
    )
    return stream.getvalue()


def geometry_figure(image: NDArray[np.uint8], view: View, openings: Iterable[Opening]) -> Figure:
    """The wall with its openings named.

    Parameters
    ----------
    image : (H, W, 3) picture of the wall and the caps.
    view : how it was seen.
    openings : named at their places.
    """
    with mpl.rc_context(STYLE):
        figure, (axes,) = _panels(1, 1, view, 5.1, bar_in=0.0)
        _picture(axes, image, view)
        _name_openings(axes, view, openings)
    return figure


def centreline_figure(
    image: NDArray[np.uint8], view: View, openings: Iterable[Opening], limits: tuple[float, float]
) -> Figure:
    """The centreline in the wall, with the openings named and the colour bar of the radius.

    Parameters
    ----------
    image : (H, W, 3), as it was drawn.
    view : that it was drawn from.
    openings : that are named.
    limits : of the colours, radii in mm.
    """
    with mpl.rc_context(STYLE):
        figure, panels = _panels(1, 1, view, 6.0)
        _picture(panels[0], image, view)
        _name_openings(panels[0], view, openings)
        _colour_bar(figure, panels, limits, RADIUS_COLOURS, "radius of the largest ball (mm)", "neither")
    return figure


def _name_openings(axes: Axes, view: View, openings: Iterable[Opening]) -> None:
    openings = tuple(openings)
    colours = opening_colours(openings)
    for opening in openings:
        place, away = view.project(np.array([opening.centre_mm, np.add(opening.centre_mm, opening.normal)]))
        away = away - place
        away = away / max(np.hypot(*away), 0.3) * (0.3 * opening.radius_mm + 0.025 * view.height_mm)
        x, y = place + away
        axes.text(
            x,
            y,
            opening.name,
            color="white",
            weight="bold",
            ha=_side(away[0]),
            va="center",
            zorder=5,
            bbox={"boxstyle": "round,pad=0.3", "facecolor": colours[opening.id], "edgecolor": "white"},
        )


def _side(x: float) -> str:
    return "left" if x > 0.3 else "right" if x < -0.3 else "center"


def speed_figure(image: NDArray[np.uint8], view: View, limits: tuple[float, float]) -> Figure:
    """Streamlines in the wall, with the colour bar of the speed.

    Parameters
    ----------
    image : (H, W, 3), as it was drawn.
    view : that it was drawn from.
    limits : of the colours, m/s.
    """
    with mpl.rc_context(STYLE):
        figure, panels = _panels(1, 1, view, 6.0)
        _picture(panels[0], image, view)
        _colour_bar(figure, panels, limits, SPEED_COLOURS, "speed (m/s)", "max")
    return figure


def wall_figure(images: Sequence[NDArray[np.uint8]], views: Sequence[View], shown: Quantity) -> Figure:
    """The wall coloured by a quantity, from several sides with one colour bar.

    Parameters
    ----------
    images : each (H, W, 3), as they were drawn.
    views : that they were drawn from, in the same order.
    shown : the quantity, with its colours and their limits.
    """
    columns = len(views) if views[0].height_mm > views[0].width_mm else 2
    with mpl.rc_context(STYLE):
        figure, panels = _panels(-(-len(views) // columns), columns, views[0], 9.0, gap_in=0.1)
        for axes, image, view in zip(panels, images, views, strict=True):
            _picture(axes, image, view)
            axes.set_title(f"from the {direction_words(view.toward)}", fontsize=9.5, color=FAINT)
        one_sided = shown.kind.from_zero and not shown.log
        extend = "neither" if shown.kind.limits else "max" if one_sided else "both"
        _colour_bar(figure, panels, shown.limits, shown.colours, shown.label, extend, shown.log)
    return figure


def direction_words(vector: NDArray[np.float64]) -> str:
    """A direction in LPS in words, such as ``front left``."""
    return " ".join(DIRECTIONS[letter] for letter in direction_letters(vector))


def slice_figure(section: Cut, speeds: tuple[float, float], pressures: tuple[float, float]) -> Figure:
    """A cut along the vessel: speed with arrows along the velocity in it, and pressure.

    Parameters
    ----------
    section : the cut.
    speeds, pressures : limits of the colours, m/s and Pa.
    """
    with mpl.rc_context(STYLE):
        figure, panels = _panels(1, 2, section.view, 10.0, bar_in=1.8)
        _speed(panels[0], section, speeds, speeds[1])
        _pressure(panels[1], section, pressures)
        _colour_bar(figure, panels[:1], speeds, SPEED_COLOURS, "speed (m/s)", "max")
        _colour_bar(figure, panels[1:], pressures, PRESSURE_COLOURS, "pressure (Pa)", "both")
    return figure


def cross_figure(cuts: Sequence[Cut]) -> Figure:
    """Cuts across the vessel, a row each: speed with arrows along the velocity in the cut, and pressure; each picture
    with colours of its own, since pressure hardly changes across a vessel.
    """
    with mpl.rc_context(STYLE):
        figure, panels = _panels(len(cuts), 2, cuts[0].view, 7.6, bar_in=1.8)
        for k, section in enumerate(cuts):
            left, right = panels[2 * k], panels[2 * k + 1]
            speeds = (0.0, float(section.section.speed_m_s.max()) or 1.0)
            pressures = _range(section.pressure_pa[section.section.inside])
            swirl = float(np.linalg.norm(section.section.in_plane_m_s[section.section.inside], axis=-1).max(initial=0))
            _speed(left, section, speeds, swirl or 1.0)
            _pressure(right, section, pressures)
            left.set_title(f"{section.title}; arrows: at most {swirl:.2g} m/s", loc="left", fontsize=9)
            _colour_bar(figure, [left], speeds, SPEED_COLOURS, "speed (m/s)", "neither")
            _colour_bar(figure, [right], pressures, PRESSURE_COLOURS, "pressure (Pa)", "neither")
    return figure


def _range(values: NDArray[np.float64]) -> tuple[float, float]:
    low, high = (float(np.nanmin(values)), float(np.nanmax(values))) if len(values) else (0.0, 0.0)
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _speed(axes: Axes, cut: Cut, limits: tuple[float, float], longest_m_s: float) -> None:
    """Speed and arrows; an arrow of `longest_m_s` spans the distance to the next but one."""
    section = cut.section
    _field(axes, cut, section.speed_m_s, limits, SPEED_COLOURS)
    step = max(1, len(section.right_mm) // (45 if len(section.right_mm) > 90 else 20))
    rows, columns = (index * step + step // 2 for index in np.indices([n // step for n in section.inside.shape]))
    shown = section.inside[rows, columns]
    rows, columns = rows[shown], columns[shown]
    arrows = section.in_plane_m_s[rows, columns].T / longest_m_s
    spacing = float(np.diff(section.right_mm[:2])[0]) * step
    axes.quiver(
        section.right_mm[columns],
        section.up_mm[rows],
        *arrows,
        color="white",
        alpha=0.9,
        width=0.0035,
        scale=1.0 / (2.2 * spacing),
        scale_units="xy",
        angles="xy",
        pivot="mid",
    )


def _pressure(axes: Axes, cut: Cut, limits: tuple[float, float]) -> None:
    _field(axes, cut, cut.pressure_pa, limits, PRESSURE_COLOURS)


def _field(axes: Axes, cut: Cut, values: NDArray[np.float64], limits: tuple[float, float], colours: str) -> None:
    """Values in a cut, within the outline of the wall where there is one, else where the lattice shows the lumen."""
    section = cut.section
    half = np.diff(section.right_mm[:2])[0] / 2
    extent = (
        section.right_mm[0] - half,
        section.right_mm[-1] + half,
        section.up_mm[0] - half,
        section.up_mm[-1] + half,
    )
    if not section.outline_mm:
        values = np.where(section.inside, values, np.nan)
    image = axes.imshow(
        values,
        extent=extent,
        origin="lower",
        interpolation="bilinear",
        cmap=colour_map(colours),
        vmin=limits[0],
        vmax=limits[1],
    )
    if section.outline_mm:
        outline = PathPatch(Path.make_compound_path(*map(Path, section.outline_mm)), fill=False, edgecolor=INK)
        axes.add_patch(outline)
        image.set_clip_path(outline)
    _frame(axes, cut.view)


def _panels(
    rows: int, columns: int, view: View, width_in: float, bar_in: float = 0.9, gap_in: float = 0.04
) -> tuple[Figure, list[Axes]]:
    """A figure whose panels have the shape of the view, with room for a colour bar."""
    height = (width_in - bar_in) / columns * rows * min(max(view.height_mm / view.width_mm, 0.4), 1.7)
    figure = Figure(figsize=(width_in, height), layout=ConstrainedLayoutEngine(w_pad=gap_in, h_pad=gap_in))
    panels = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axes in panels:
        axes.set_axis_off()
    return figure, panels


def _picture(axes: Axes, image: NDArray[np.uint8], view: View) -> None:
    half_width, half_height = view.width_mm / 2, view.height_mm / 2
    axes.imshow(image, extent=(-half_width, half_width, -half_height, half_height), interpolation="antialiased")
    _frame(axes, view)


def _frame(axes: Axes, view: View) -> None:
    """Patient directions at the edges and a scale bar."""
    half_width, half_height = view.width_mm / 2, view.height_mm / 2
    axes.set_xlim(-half_width, half_width)
    axes.set_ylim(-half_height, half_height)
    letters = view.letters()
    for edge, x, y, ha, va in (
        ("left", 0.005, 0.5, "left", "center"),
        ("right", 0.995, 0.5, "right", "center"),
        ("top", 0.5, 0.995, "center", "top"),
        ("bottom", 0.5, 0.005, "center", "bottom"),
    ):
        axes.text(x, y, letters[edge], transform=axes.transAxes, ha=ha, va=va, color=FAINT, weight="bold")
    length = nice_length(view.width_mm / 5)
    x, y = -half_width * 0.96, -half_height * 0.97
    axes.plot((x, x + length), (y, y), color=INK, linewidth=2.2, solid_capstyle="butt", clip_on=False)
    centre = (x + length / 2, y)
    axes.annotate(f"{length:g} mm", centre, (0, 3), textcoords="offset points", ha="center", va="bottom", fontsize=8.5)


def log_ticks(limits: tuple[float, float]) -> list[float]:
    """Round values within limits, one, two and five times each power of ten."""
    powers = 10.0 ** np.arange(np.floor(np.log10(limits[0])), np.ceil(np.log10(limits[1])) + 1)
    return [float(f"{k * power:.0e}") for power in powers for k in (1, 2, 5) if limits[0] <= k * power <= limits[1]]


def nice_length(length: float) -> float:
    """The nearest of 1, 2, 5, 10, 20, ... not above a length."""
    power = 10.0 ** np.floor(np.log10(length))
    return float(max(step * power for step in (1, 2, 5) if step * power <= length * (1 + 1e-9)))


def _colour_bar(
    figure: Figure,
    panels: list[Axes],
    limits: tuple[float, float],
    colours: str,
    label: str,
    extend: str,
    log: bool = False,
) -> None:
    bar = figure.colorbar(
        mappable(colours, limits, log), ax=panels, label=label, extend=extend, shrink=0.7, aspect=28, pad=0.02
    )
    bar.outline.set_visible(False)
    if log:
        ticks = log_ticks(limits)
        bar.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
        bar.minorticks_off()
