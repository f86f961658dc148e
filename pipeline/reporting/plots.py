# SPDX-License-Identifier: Apache-2.0
"""Plots of the report: the solver's record, waveforms, values along the centreline, quality of the surface."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pipeline.haemodynamics.indices import monitor_column
from pipeline.reporting.centreline_figure import SHOWN, BranchLine
from pipeline.reporting.figures import FAINT, INK, INLET_COLOURS, OUTLET_COLOURS, STYLE, opening_colours
from solver.domain.nodes import Opening


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
        shown = change > 0
        left.semilogy(monitor["time_s"][shown], change[shown], color=INK, marker="" if steady else "o")
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
    waveforms : by name of the opening, as :func:`solver.boundary.waveform.described` tells them.
    unit : key of their values.
    label : words for these.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.6, 3.1), layout="constrained")
        left, right = figure.subplots(1, 2)
        width = 0.8 / len(waveforms)
        for k, (name, shown) in enumerate(waveforms.items()):
            colour = (*INLET_COLOURS, *OUTLET_COLOURS)[k % 8]
            left.plot(shown["time_s"], shown[unit], color=colour, label=name)
            left.axhline(shown["mean"], color=colour, linewidth=0.8, linestyle=":")
            order = np.arange(1, len(shown["harmonics"]) + 1)
            right.bar(order + (k + 0.5) * width - 0.4, shown["harmonics"], width, color=colour)
        _label_time(left, f"{label}; dotted: mean")
        right.set_title(f"amplitude of the harmonics, {label}", loc="left", fontsize=9.5)
        right.set_xlabel("number of the harmonic")
        right.xaxis.get_major_locator().set_params(integer=True)
        figure.legend(loc="outside lower center", ncols=min(len(waveforms), 5))
    return figure


def coupling_figure(caps: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Flow and pressure at the openings of a vessel in a network over a cycle.

    Parameters
    ----------
    caps : by name of the opening: waveforms of the network ``alone``, of the ``network`` and of the ``vessel``.
    """
    styles: dict[str, dict[str, Any]] = {
        "alone": {"linestyle": "--", "linewidth": 1.0},
        "network": {},
        "vessel": {"linestyle": "", "marker": ".", "markersize": 3.5, "markevery": 4},
    }
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.6, 3.6), layout="constrained")
        panels = figure.subplots(1, 2)
        for k, (name, waveforms) in enumerate(caps.items()):
            colour = (*INLET_COLOURS[:1], *OUTLET_COLOURS, *INLET_COLOURS[1:])[k % 8]
            for kind, style in styles.items():
                waveform, label = waveforms[kind], name if kind == "network" else None
                for axes, key in zip(panels, ("flow_ml_s", "pressure_mmhg"), strict=True):
                    axes.plot(waveform["time_s"], waveform[key], color=colour, label=label, **style)
        _label_time(panels[0], "flow (mL/s): inlets in, outlets out")
        _label_time(panels[1], "pressure (mmHg)")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=min(len(caps), 5))
    return figure


def _label_time(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=9.5)
    axes.set_xlabel("time (s)")
    axes.ticklabel_format(axis="x", scilimits=(-3, 4))


def centreline_profile_figure(branches: Sequence[BranchLine]) -> Figure:
    """Pressure, area and wall shear stress over the way from the inlet, one line a branch."""
    shown = [key for key in SHOWN if any(np.isfinite(each.values.get(key, np.nan)).any() for each in branches)]
    colours = (*INLET_COLOURS, *OUTLET_COLOURS)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.6, 0.9 + 1.9 * len(shown)), layout="constrained")
        panels = figure.subplots(
            len(shown), 1, sharex=True, squeeze=False, height_ratios=[1.5] + [1] * (len(shown) - 1)
        )
        for axes, key in zip(panels[:, 0], shown, strict=True):
            for k, each in enumerate(branches):
                if key in each.values:
                    name = f"{each.branch}: {each.start} to {each.stop}"
                    axes.plot(each.way_mm, each.values[key], color=colours[k % 8], marker=".", markersize=3, label=name)
            axes.set_title(SHOWN[key], loc="left", fontsize=9.5)
            if key != "pressure_pa":
                axes.set_ylim(0, None)
        panels[-1, 0].set_xlabel("way along the centreline from the inlet (mm)")
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
