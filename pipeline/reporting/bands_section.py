# SPDX-License-Identifier: Apache-2.0
"""How sure the figures of a case are, on its page: bands, what they are due to, where the wall's stress is unsure."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from pipeline.reporting.colours import PARTS
from pipeline.reporting.figures import STYLE
from pipeline.reporting.tables import number
from pipeline.uncertainty.bands import COVERED, QUANTILE, parts_of
from pipeline.uncertainty.coarse_spacing import too_coarse
from pipeline.uncertainty.sources import WORDS, Group

SHOWN = 8
"""Figures in the plot at most."""

Row = list[str]


def band_words(bands: Mapping[str, Any] | None, key: str, scale: float = 1.0) -> str | None:
    """The band of a figure in words; none where it has none.

    Parameters
    ----------
    bands : ``uncertainty.json``; none where nothing was varied.
    key : of the figure.
    scale : factor on its values.
    """
    for band in (bands or {}).get("bands", ()):
        if band["key"] == key:
            low, high = number(scale * band["low"]), number(scale * band["high"])
            limit = f"{number(scale * band['crosses'])} {band['unit']}".rstrip() if band["crosses"] is not None else ""
            return f"{COVERED:.0%} band: {low} to {high}" + (f"; {limit} lies within" if limit else "")
    return None


def bands_section(bands: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What the page says of the bands; none where nothing was varied."""
    if not bands:
        return None
    return {
        "none": bands["no_bands"],
        "covered": f"{bands['covered']:.0%}",
        "members": bands["members"] - sum(each["number"] > 0 for each in bands["failed"]),
        "failed": [f"{each['number']}: {each['why']}" for each in bands["failed"]],
        "better": bands["better"],
        "varied": _varied(bands),
        "doubt": too_coarse(bands["nodes_across"]),
        "not_varied": bands["not_varied"],
        "without_spacing": "spacing" not in bands["sources"],
        "head": ("", "value", "from", "to", "unit", *(WORDS[group] for group in bands["sources"])),
        "rows": [_row(band, bands["sources"]) for band in bands["bands"]],
        "crossing": [
            f"{band['name']}: {number(band['crosses'])} {band['unit']} lies within its band"
            for band in bands["bands"]
            if band["crosses"] is not None
        ],
    }


def _varied(bands: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What varied and by how much, in words."""
    wall, words = bands["wall"], []
    for group in bands["sources"]:
        if group == "wall":
            rough = f", and {wall['rough_mm']:.2g} mm alike over {wall['length_mm']:.2g} mm" if wall["rough_mm"] else ""
            words.append((WORDS["wall"], f"{wall['whole_mm']:.2g} mm all together{rough}"))
        elif group == "spacing":
            words.append((WORDS["spacing"], f"by what {bands['ratio']:.3g} times the spacing changes"))
        else:
            words.append((WORDS[group], f"{bands[f'{group}_cv']:.0%}"))
    return words


def _row(band: Mapping[str, Any], sources: Sequence[Group]) -> Row:
    """A figure with its band, and the part of the variance that is due to each source."""
    parts = parts_of(band)
    shares = [f"{parts.get(group, 0.0):.0%}" for group in sources]
    return [band["name"], *(number(band[key]) for key in ("value", "low", "high")), band["unit"], *shares]


def tornado_figure(bands: Mapping[str, Any]) -> Figure:
    """What each source alone makes of the bands of positive figures but flows, in percent of the figure.

    Parameters
    ----------
    bands : ``uncertainty.json``.
    """
    positive = [band for band in bands["bands"] if band["by"] == "ratio"]
    rows = [band for band in positive if not band["key"].startswith("flow ")][:SHOWN]
    sources = bands["sources"]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.6, 0.9 + 0.55 * len(rows)), layout="constrained")
        axes, height = figure.subplots(), 0.8 / len(sources)
        for k, group in enumerate(sources):
            widths = [100 * QUANTILE * band["deviations"].get(group, 0.0) for band in rows]
            places = [row + (k + 0.5) * height - 0.4 for row in range(len(rows))]
            axes.barh(places, [2 * width for width in widths], height, [-width for width in widths], color=PARTS[k + 1])
            axes.plot([], [], color=PARTS[k + 1], linewidth=6, label=WORDS[group])
        axes.set_yticks(range(len(rows)), [band["name"] for band in rows])
        axes.invert_yaxis()
        axes.axvline(0, color="0.4", linewidth=0.8)
        axes.set_xlabel(f"half of the {bands['covered']:.0%} band that is due to each source alone (%)")
        figure.legend(loc="outside lower center", ncols=len(sources))
    return figure
