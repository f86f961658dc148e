# SPDX-License-Identifier: Apache-2.0
"""Colours of quantities: the same on surfaces, cuts, bars, in the view to turn and in ParaView.

Light makes a surface darker where it turns away. A map that begins in black leaves nothing to darken: a sac of low
stress is a black disc. So of matplotlib's perceptually uniform maps that part is taken whose lightness lies within
limits; a part of a uniform map is uniform. The upper limit keeps the last colour apart from white paper.
"""

from functools import cache

import matplotlib as mpl
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, LogNorm, Normalize, to_hex
from numpy.typing import NDArray

LIGHTNESS = 35.0, 92.0
"""CIELAB lightness L* of the darkest and the brightest colour: of black 0, of white 100."""

STEPS = 256
"""Colours of a map."""

PARTS = ("#b9c3ce", "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F3C8D")
"""Colours of quantities that are numbers of parts, of none first; they come again where there are more.
Source: Okabe and Ito (2008), Color Universal Design."""

AMBIENT, DIFFUSE = 0.8, 0.2
"""How surfaces are lit, from where the viewer stands and without gloss: their colours are those of the bar where they
face the viewer, and nowhere below four fifths of it. A value read off a ball by the nearest colour of the bar is then
within a tenth of the range on 95 % of what is seen; with 0.4 and 0.6 within four tenths."""


def lightness(rgb: NDArray[np.float64]) -> NDArray[np.float64]:
    """CIELAB lightness L*, 0 to 100, of colours (..., 3) in sRGB, 0 to 1.

    Source: IEC 61966-2-1 (sRGB); CIE 15 (L*).
    """
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    luminance = linear @ np.array([0.2126, 0.7152, 0.0722])
    return np.where(luminance > (6 / 29) ** 3, 116 * np.cbrt(luminance) - 16, (29 / 3) ** 3 * luminance)


@cache
def colour_map(name: str) -> ListedColormap:
    """The part of one of matplotlib's maps whose lightness lies within :data:`LIGHTNESS`; all of ``coolwarm`` does.

    Parameters
    ----------
    name : of the map.
    """
    table = mpl.colormaps[name](np.linspace(0, 1, STEPS))
    light = lightness(table[:, :3])
    kept = np.flatnonzero((light >= LIGHTNESS[0]) & (light <= LIGHTNESS[1]))
    places = np.linspace(kept[0], kept[-1], STEPS)
    return ListedColormap(np.column_stack([np.interp(places, np.arange(STEPS), each) for each in table.T]), name)


def colour_table(name: str, count: int) -> list[tuple[float, str]]:
    """Places from 0 to 1 and the colours there, for programs that know no name of a map.

    Parameters
    ----------
    name : of the map.
    count : of places.
    """
    places = np.linspace(0, 1, count)
    return [(float(place), to_hex(colour)) for place, colour in zip(places, colour_map(name)(places), strict=True)]


def mappable(name: str, limits: tuple[float, float], log: bool = False) -> ScalarMappable:
    """What matplotlib's colour bars are made of.

    Parameters
    ----------
    name : of the map.
    limits : values of the first and the last colour.
    log : whether colours follow the logarithm; both limits are above 0 then.
    """
    return ScalarMappable(LogNorm(*limits) if log else Normalize(*limits), colour_map(name))
