"""Figures of the report: pictures with names, scales and patient directions, and plots of the solver's record."""

import io
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from numpy.typing import NDArray

from pipeline.haemodynamics.indices import monitor_column
from pipeline.reporting.scene import Slice, View
from solver.nodes import Opening

SPEED_COLOURS, SHEAR_COLOURS, RADIUS_COLOURS = "viridis", "inferno", "plasma"
"""Perceptually uniform colour maps."""

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


def opening_colours(openings: Iterable[Opening]) -> dict[int, str]:
    """Colour of each opening by its id: blues for inlets, warm colours for outlets."""
    colours = {"inlet": cycle(INLET_COLOURS), "outlet": cycle(OUTLET_COLOURS)}
    return {opening.id: next(colours[opening.role]) for opening in openings}


def to_png(figure: Figure) -> bytes:
    """The figure as PNG, with nothing in it that changes from run to run."""
    stream = io.BytesIO()
    FigureCanvasAgg(figure)
    figure.savefig(stream, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None}, facecolor="white")
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
    """The centreline in the wall, with the openings named and the colour bar of the radius."""
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
            x, y, opening.name, color="white", weight="bold", ha=_side(away[0]), va="center", zorder=5,
            bbox={"boxstyle": "round,pad=0.3", "facecolor": colours[opening.id], "edgecolor": "white"},
        )  # fmt: skip


def _side(x: float) -> str:
    return "left" if x > 0.3 else "right" if x < -0.3 else "center"


def speed_figure(image: NDArray[np.uint8], view: View, limits: tuple[float, float]) -> Figure:
    """Streamlines in the wall, with the colour bar of the speed."""
    with mpl.rc_context(STYLE):
        figure, panels = _panels(1, 1, view, 6.0)
        _picture(panels[0], image, view)
        _colour_bar(figure, panels, limits, SPEED_COLOURS, "speed (m/s)", "max")
    return figure


def wall_figure(
    images: Sequence[NDArray[np.uint8]], views: Sequence[View], limits: tuple[float, float], label: str
) -> Figure:
    """The wall coloured by a quantity, from several sides with one colour bar."""
    with mpl.rc_context(STYLE):
        figure, panels = _panels(1, len(views), views[0], 9.0)
        for axes, image, view in zip(panels, images, views, strict=True):
            _picture(axes, image, view)
        _colour_bar(figure, panels, limits, SHEAR_COLOURS, label, "max")
    return figure


def slice_figure(section: Slice, view: View, limits: tuple[float, float]) -> Figure:
    """Speed in a lengthwise slice, with arrows along the velocity in the plane."""
    half = np.diff(section.right_mm[:2])[0] / 2
    extent = (
        section.right_mm[0] - half,
        section.right_mm[-1] + half,
        section.up_mm[0] - half,
        section.up_mm[-1] + half,
    )
    with mpl.rc_context(STYLE):
        figure, panels = _panels(1, 1, view, 6.0)
        axes = panels[0]
        image = axes.imshow(
            section.speed_m_s, extent=extent, origin="lower", interpolation="bilinear",
            cmap=SPEED_COLOURS, vmin=limits[0], vmax=limits[1],
        )  # fmt: skip
        if section.outline_mm:
            outline = PathPatch(Path.make_compound_path(*map(Path, section.outline_mm)), fill=False, edgecolor=INK)
            axes.add_patch(outline)
            image.set_clip_path(outline)
        step = max(1, len(section.right_mm) // 45)
        rows, columns = (index * step + step // 2 for index in np.indices([n // step for n in section.inside.shape]))
        shown = section.inside[rows, columns]
        rows, columns = rows[shown], columns[shown]
        arrows = section.in_plane_m_s[rows, columns].T / limits[1]
        axes.quiver(
            section.right_mm[columns], section.up_mm[rows], *arrows, color="white", alpha=0.9, width=0.0022,
            scale=1.0 / (2.2 * step * 2 * half), scale_units="xy", angles="xy", pivot="mid",
        )  # fmt: skip
        _frame(axes, view)
        _colour_bar(figure, panels, limits, SPEED_COLOURS, "speed (m/s)", "max")
    return figure


def _panels(rows: int, columns: int, view: View, width_in: float, bar_in: float = 0.9) -> tuple[Figure, list[Axes]]:
    """A figure whose panels have the shape of the view, with room for a colour bar."""
    height = (width_in - bar_in) / columns * rows * min(max(view.height_mm / view.width_mm, 0.4), 1.7)
    figure = Figure(figsize=(width_in, height), layout="constrained")
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
        ("left", 0.005, 0.5, "left", "center"), ("right", 0.995, 0.5, "right", "center"),
        ("top", 0.5, 0.995, "center", "top"), ("bottom", 0.5, 0.005, "center", "bottom"),
    ):  # fmt: skip
        axes.text(x, y, letters[edge], transform=axes.transAxes, ha=ha, va=va, color=FAINT, weight="bold")
    length = nice_length(view.width_mm / 5)
    x, y = -half_width * 0.96, -half_height * 0.97
    axes.plot((x, x + length), (y, y), color=INK, linewidth=2.2, solid_capstyle="butt", clip_on=False)
    centre = (x + length / 2, y)
    axes.annotate(f"{length:g} mm", centre, (0, 3), textcoords="offset points", ha="center", va="bottom", fontsize=8.5)


def nice_length(length: float) -> float:
    """The nearest of 1, 2, 5, 10, 20, ... not above a length."""
    power = 10.0 ** np.floor(np.log10(length))
    return float(max(step * power for step in (1, 2, 5) if step * power <= length * (1 + 1e-9)))


def _colour_bar(
    figure: Figure, panels: list[Axes], limits: tuple[float, float], colours: str, label: str, extend: str
) -> None:
    bar = figure.colorbar(
        ScalarMappable(Normalize(*limits), colours),
        ax=panels,
        label=label,
        extend=extend,
        shrink=0.7,
        aspect=28,
        pad=0.02,
    )
    bar.outline.set_visible(False)


def triangles_figure(histograms: Mapping[str, Sequence[int]]) -> Figure:
    """Smallest angles of the triangles.

    Parameters
    ----------
    histograms : by what they are of: counts in bins of equal width from 0 to 60 degrees.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.1, 3.1), layout="constrained")
        axes = figure.subplots()
        for (name, counts), colour in zip(histograms.items(), (FAINT, INLET_COLOURS[0]), strict=False):
            edges = np.linspace(0, 60, len(counts) + 1)
            axes.stairs(
                100 * np.asarray(counts) / max(sum(counts), 1), edges, fill=True, color=colour, alpha=0.55, label=name
            )
        axes.set_xlim(0, 60)
        axes.set_xlabel("smallest angle of a triangle (degrees); 60: equilateral")
        axes.set_ylabel("triangles (%)")
        axes.legend(loc="upper left")
    return figure


def convergence_figure(monitor: Mapping[str, NDArray[np.float64]]) -> Figure:
    """Change of the velocity, of a steady flow or from cycle to cycle, and largest speed against time."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.6, 2.9), layout="constrained")
        left, right = figure.subplots(1, 2)
        steady = bool((monitor["residual"] > 0).any())
        change = monitor["residual"] if steady or "change" not in monitor else monitor["change"]
        told = change > 0
        left.semilogy(monitor["time_s"][told], change[told], color=INK, marker="" if steady else "o")
        right.plot(monitor["time_s"], monitor["max_speed_m_s"], color=INK)
        right.set_ylim(0, None)
        _label_time(left, f"change of the velocity{'' if steady else ' from cycle to cycle'}, relative")
        _label_time(right, "largest speed (m/s)")
    return figure


def openings_figure(monitor: Mapping[str, NDArray[np.float64]], openings: Iterable[Opening]) -> Figure:
    """Flow and pressure at the openings against time."""
    openings = tuple(openings)
    colours = opening_colours(openings)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.6, 3.1), layout="constrained")
        left, right = figure.subplots(1, 2)
        for opening in openings:
            style = {"color": colours[opening.id], "linestyle": "-" if opening.role == "inlet" else "--"}
            left.plot(monitor["time_s"], monitor[monitor_column(opening, "flow_ml_s")], **style)
            right.plot(monitor["time_s"], monitor[monitor_column(opening, "pressure_pa")], label=opening.name, **style)
        _label_time(left, "flow (mL/s): inlets in, outlets out")
        _label_time(right, "pressure (Pa)")
        figure.legend(loc="outside lower center", ncols=min(len(openings), 5))
    return figure


def waveforms_figure(waveforms: Mapping[str, Mapping[str, Any]], unit: str, label: str) -> Figure:
    """Waveforms that were asked for over one period, and the amplitudes of their harmonics.

    Parameters
    ----------
    waveforms : by name of the opening, as :func:`solver.waveform.described` tells them.
    unit : key of their values.
    label : words for these.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.6, 3.1), layout="constrained")
        left, right = figure.subplots(1, 2)
        width = 0.8 / len(waveforms)
        for k, (name, told) in enumerate(waveforms.items()):
            colour = (*INLET_COLOURS, *OUTLET_COLOURS)[k % 8]
            left.plot(told["time_s"], told[unit], color=colour, label=name)
            left.axhline(told["mean"], color=colour, linewidth=0.8, linestyle=":")
            order = np.arange(1, len(told["harmonics"]) + 1)
            right.bar(order + (k + 0.5) * width - 0.4, told["harmonics"], width, color=colour)
        _label_time(left, f"{label}; dotted: mean")
        right.set_title(f"amplitude of the harmonics, {label}", loc="left", fontsize=9.5)
        right.set_xlabel("number of the harmonic")
        right.xaxis.get_major_locator().set_params(integer=True)
        figure.legend(loc="outside lower center", ncols=min(len(waveforms), 5))
    return figure


def _label_time(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=9.5)
    axes.set_xlabel("time (s)")
    axes.ticklabel_format(axis="x", scilimits=(-3, 4))
