# SPDX-License-Identifier: Apache-2.0
"""Plots of the page of a network: the tree in colours, waveforms, forward and backward waves, convergence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from pipeline.haemodynamics.pulse import Waves
from pipeline.haemodynamics.tree_waveforms import Waveforms
from pipeline.reporting.figures import FAINT, INK, INLET_COLOURS, OUTLET_COLOURS, STYLE
from solver.boundary.windkessel import PASCAL_PER_MMHG

Reals = NDArray[np.float64]

SITE_COLOURS = (*INLET_COLOURS, *OUTLET_COLOURS)
WIDEST, THINNEST = 9.0, 1.4
"""Of lines, in points: that of the widest vessel, and none thinner."""
PARTS = np.linspace(0.0, 1.0, 5)
"""Places of a segment at which its colours are known."""
PIECES = 12
"""Of a drawn segment, each of one colour."""
WIDE = 3.0
"""Ratio of the largest to the least value from which on colours go by powers."""
NARROW = 0.1
"""Of its height: a drawing that is no wider is one line."""


@dataclass(frozen=True)
class Map:
    """Values along the segments of a drawn network.

    Attributes
    ----------
    title : with the unit.
    values : (5,) along each segment, by its name.
    colours : name of a matplotlib colour map.
    logarithmic : whether colours go by powers where values differ much; what is not above 0 then has the first one.
    """

    title: str
    values: Mapping[str, Sequence[float]]
    colours: str
    logarithmic: bool = False


def maps_figure(drawn: Mapping[str, Any], maps: Sequence[Map], sites: Sequence[Mapping[str, Any]]) -> Figure:
    """The schematic drawing once for each quantity.

    Parameters
    ----------
    drawn : ``tree.json``, of which places of nodes, nodes and radii of segments are taken.
    maps : what is shown, from left to right.
    sites : are numbered in the first one.
    """
    places = np.array(list(drawn["schematic"].values()))
    size = np.maximum(np.ptp(places, axis=0), 1.0)
    tall = 2.8 if size[0] < NARROW * size[1] else float(np.clip(3.4 * size[1] / size[0], 2.4, 6.2))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.4, tall + 0.9), layout="constrained")
        panels = figure.subplots(1, len(maps), squeeze=False)[0]
        for axes, shown in zip(panels, maps, strict=True):
            _draw_map(figure, axes, drawn, shown)
        _number_sites(panels[0], drawn, sites)
    return figure


def _draw_map(figure: Figure, axes: Axes, drawn: Mapping[str, Any], shown: Map) -> None:
    widest = max(max(radii) for radii in drawn["radii_mm"].values())
    pieces, values, widths = [], list[float](), list[float]()
    for name, nodes in drawn["nodes"].items():
        start, stop = (np.array(drawn["schematic"][node]) for node in nodes)
        radii = drawn["radii_mm"][name]
        for k in range(PIECES):
            middle = (k + 0.5) / PIECES
            pieces.append([start + end / PIECES * (stop - start) for end in (k, k + 1)])
            values.append(float(np.interp(middle, PARTS, shown.values[name])))
            widths.append(max(THINNEST, WIDEST * (radii[0] + middle * (radii[1] - radii[0])) / widest))
    order = np.argsort(widths)[::-1]  # thin vessels lie on top
    norm = _norm(np.array(values), shown.logarithmic)
    lines = LineCollection(
        [pieces[k] for k in order],
        linewidths=[widths[k] for k in order],
        cmap=shown.colours,
        norm=norm,
        capstyle="round",
    )
    lines.set_array(np.clip(np.array(values)[order], norm.vmin, norm.vmax))
    axes.add_collection(lines)
    axes.autoscale_view()
    axes.margins(0.06)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_axis_off()
    axes.set_title(shown.title, loc="center", fontsize=9.5)
    bar = figure.colorbar(lines, ax=axes, location="bottom", fraction=0.045, pad=0.02, aspect=28)
    bar.outline.set_visible(False)
    if not isinstance(norm, LogNorm):
        bar.locator = MaxNLocator(5)
        bar.update_ticks()


def _norm(values: Reals, logarithmic: bool) -> Normalize:
    low, high = float(values.min()), float(values.max())
    if logarithmic and (values > 0).any() and high > WIDE * (least := float(values[values > 0].min())):
        return LogNorm(least, high)
    margin = 0.0 if high > low * 1.001 + 1e-12 else max(abs(low), 1e-3) * 0.05
    return Normalize(low - margin, high + margin)


def _number_sites(axes: Axes, drawn: Mapping[str, Any], sites: Sequence[Mapping[str, Any]]) -> None:
    for number, site in enumerate(sites, start=1):
        start, stop = (np.array(drawn["schematic"][node]) for node in drawn["nodes"][site["segment"]])
        place = start + site["at"] * (stop - start)
        axes.plot(*place, "o", color="white", markeredgecolor=INK, markersize=9, markeredgewidth=0.8, zorder=4)
        axes.annotate(str(number), place, ha="center", va="center_baseline", fontsize=6.5, color=INK, zorder=5)


def sites_figure(found: Waveforms, names: Sequence[str]) -> Figure:
    """Pressure, flow and velocity of sites over the cycle, numbered as in the drawing."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.6, 5.6), layout="constrained")
        panels = figure.subplot_mosaic([["pressure", "pressure"], ["flow", "velocity"]], height_ratios=[1.25, 1])
        for k, name in enumerate(names):
            style: dict[str, Any] = {
                "color": SITE_COLOURS[k % len(SITE_COLOURS)],
                "linestyle": "-" if k < len(SITE_COLOURS) else "--",
            }
            time = np.append(found.time_s, found.period_s)
            for key, values in {
                "pressure": found.pressure_pa[:, k] / PASCAL_PER_MMHG,
                "flow": 100 * found.flow_m3_s[:, k] / max(float(np.abs(found.flow_m3_s[:, k]).max()), 1e-300),
                "velocity": found.velocity_m_s[:, k],
            }.items():
                label = f"{k + 1} {words(name)}" if key == "pressure" else None
                panels[key].plot(time, np.append(values, values[0]), label=label, **style)
        for key, title in {
            "pressure": "pressure (mmHg)",
            "flow": "flow, of the site's largest (%)",
            "velocity": "mean velocity of the section (m/s)",
        }.items():
            panels[key].set_title(title, loc="left", fontsize=9.5)
            panels[key].set_xlabel("time (s)")
            panels[key].set_xlim(0, found.period_s)
        figure.legend(loc="outside lower center", ncols=3)
    return figure


def words(name: str) -> str:
    """Name of a segment for reading."""
    return name.replace("_", " ")


def waves_figure(found: Waveforms, shown: Mapping[str, tuple[int, Waves]]) -> Figure:
    """Pressure as the sum of forward and backward waves, and wave intensity; a column for each place.

    Parameters
    ----------
    found : waveforms of the sites.
    shown : number of the site and its waves, by name.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.6, 5.2), layout="constrained")
        panels = figure.subplots(2, len(shown), squeeze=False, sharex="col", height_ratios=[1.4, 1])
        for (above, below), (name, (k, waves)) in zip(panels.T, shown.items(), strict=True):
            pressure = found.pressure_pa[:, k]
            for values, label, style in (
                (pressure - pressure.min(), "pressure", {"color": INK}),
                (waves.forward_pa, "forward", {"color": INLET_COLOURS[0]}),
                (waves.backward_pa, "backward", {"color": OUTLET_COLOURS[0]}),
            ):
                above.plot(found.time_s, values / PASCAL_PER_MMHG, label=label, **style)
            above.set_title(words(name), loc="left", fontsize=9.5)
            below.fill_between(found.time_s, 1e-5 * waves.intensity_forward, color=INLET_COLOURS[0], alpha=0.6)
            below.fill_between(found.time_s, 1e-5 * waves.intensity_backward, color=OUTLET_COLOURS[0], alpha=0.6)
            below.set_axisbelow(True)
            below.set_xlabel("time (s)")
            below.set_xlim(0, found.period_s)
        panels[0, 0].set_ylabel("pressure above diastole (mmHg)")
        panels[1, 0].set_ylabel("intensity (10⁵ W/(m² s²))")
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def cycles_figure(changes: Sequence[Mapping[str, float]], tolerance: float) -> Figure:
    """Change of pressure and flow from cycle to cycle."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.6, 2.9), layout="constrained")
        axes = figure.subplots()
        cycles = np.arange(2, len(changes) + 2)
        for key, colour in (("pressure", INK), ("flow", OUTLET_COLOURS[0])):
            values = np.array([max(change[key], 1e-16) for change in changes])
            axes.semilogy(cycles, 100 * values, color=colour, marker="o", label=key)
        axes.axhline(100 * tolerance, color=FAINT, linestyle=":", label="limit")
        axes.set_xlabel("cycle")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_title(
            "change from the cycle before (%), of pulse pressure and of largest flow", loc="left", fontsize=9.5
        )
        axes.legend(loc="upper right")
    return figure
