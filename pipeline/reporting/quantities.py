# SPDX-License-Identifier: Apache-2.0
"""Quantities on the wall: what ``wall.vtp`` holds, how each is named, coloured and explained."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.files.mesh import read_mesh, read_point_arrays
from pipeline.haemodynamics.percentiles import weighted_percentiles
from pipeline.haemodynamics.wall_shear_stress import Wall
from pipeline.reporting.colours import PARTS
from solver.runtime.errors import StageError

DIVERGING = "coolwarm"
"""For quantities of both signs: even steps of lightness to both sides of zero.
Source: Moreland (2009), doi:10.1007/978-3-642-10520-3_9."""

SIGNED_SHARE = 0.05
"""A quantity has both signs where the colours' range reaches so far to the smaller side, as a part of the larger."""

SPREAD, DECADES = 30.0, 3.0
"""Colours follow the logarithm where their range would end at so many times its beginning: in even steps all that is
below a thirtieth would have one colour. So many powers of ten at most."""


@dataclass(frozen=True)
class Kind:
    """How a quantity is shown.

    Attributes
    ----------
    key : name of its picture.
    words : its name for reading.
    colours : perceptually uniform colour map.
    note : what it means, in a sentence or two.
    percentile : of the wall's area, where the colours end, so that single values do not use them up.
    limits : range of the colours where it is the same for all vessels.
    from_zero : whether the colours begin at zero.
    wide : whether it may range over powers of ten, and has logarithmic colours then.
    parts : of whole numbers that name parts: what stands before them, and the name of 0.
    """

    key: str
    words: str
    colours: str
    note: str
    percentile: float = 99.0
    limits: tuple[float, float] | None = None
    from_zero: bool = True
    wide: bool = False
    parts: tuple[str, str] | None = None


SHEAR_NOTE = (
    "The force per area with which blood drags the wall along. Usual in arteries: 1 to 7 Pa; below 0.4 Pa the wall is"
    " prone to plaque (Malek et al. 1999, doi:10.1001/jama.282.21.2035)."
)

DEVIATION_NOTE = "Standard deviation: how unsure the wall shear stress is, by what was varied for the bands."

KINDS: Mapping[str, Kind] = {
    "TAWSS (Pa)": Kind("wall", "time-averaged wall shear stress", "inferno", SHEAR_NOTE, wide=True),
    "WSS magnitude (Pa)": Kind("wall", "wall shear stress", "inferno", SHEAR_NOTE, wide=True),
    "peak WSS (Pa)": Kind(
        "wall-peak",
        "peak wall shear stress",
        "inferno",
        "The largest wall shear stress of the cycle, at each place by itself. There is no established limit.",
        wide=True,
    ),
    "TAWSS standard deviation (Pa)": Kind("wall-deviation", "deviation of the wall stress", "viridis", DEVIATION_NOTE),
    "WSS magnitude standard deviation (Pa)": Kind(
        "wall-deviation", "deviation of the wall stress", "viridis", DEVIATION_NOTE
    ),
    "OSI": Kind(
        "wall-osi",
        "oscillatory shear index",
        "viridis",
        "0: the stress always points the same way; 0.5: to and fro. There is no established limit (He and Ku 1996,"
        " doi:10.1115/1.2795948).",
        limits=(0.0, 0.5),
    ),
    "RRT (1/Pa)": Kind(
        "wall-rrt",
        "relative residence time",
        "magma",
        "High where blood stays near the wall. It compares places in one vessel; there is no established limit"
        " (Himburg et al. 2004, doi:10.1152/ajpheart.00897.2003).",
        percentile=95.0,
        wide=True,
    ),
    "ECAP (1/Pa)": Kind(
        "wall-ecap",
        "endothelial cell activation potential",
        "magma",
        "Oscillatory shear index over mean stress: high where the stress is weak and goes to and fro. There is no"
        " established limit (Di Achille et al. 2014, doi:10.1098/rspa.2014.0163).",
        percentile=95.0,
        wide=True,
    ),
    "transverse WSS (Pa)": Kind(
        "wall-transverse",
        "transverse wall shear stress",
        "inferno",
        "The part of the stress across its mean direction, averaged over the cycle. There is no established limit"
        " (Peiffer et al. 2013, doi:10.1016/j.jbiomech.2013.08.003).",
    ),
    "TAWSS gradient (Pa mm-1)": Kind(
        "wall-gradient",
        "gradient of the time-averaged wall shear stress",
        "plasma",
        "How fast the mean stress changes along the wall. There is no established limit.",
    ),
    "WSS gradient (Pa mm-1)": Kind(
        "wall-gradient",
        "gradient of the wall shear stress",
        "plasma",
        "How fast the stress changes along the wall. There is no established limit.",
    ),
    "pressure (Pa)": Kind(
        "wall-pressure",
        "pressure",
        "cividis",
        "Above the reference that is set at the outlets: differences count, it is not the patient's blood pressure.",
        from_zero=False,
    ),
    "sac": Kind("wall-sac", "sacs", "viridis", "Which wall belongs to which sac.", parts=("sac", "vessel")),
}
"""By the names of the arrays, in the order in which they are offered."""

SPEED_COLOURS, RADIUS_COLOURS, PRESSURE_COLOURS = "viridis", "plasma", KINDS["pressure (Pa)"].colours
"""Names of perceptually uniform maps; see :mod:`colours`."""

SPEED_PERCENTILE = 99.9
"""Colours of the speed end at this percentile of the nodes, so that single values do not use them up."""

SHEAR = ("TAWSS (Pa)", "WSS magnitude (Pa)")
"""Arrays that hold the wall shear stress, the first where the flow pulsates."""


@dataclass(frozen=True)
class Quantity:
    """Values on the wall and how they are shown.

    Attributes
    ----------
    values : (V,), at the wall's points.
    unit : empty where it has none.
    kind : names, colours and meaning.
    limits : range of the colours.
    log : whether these follow the logarithm.
    """

    values: NDArray[np.float64]
    unit: str
    kind: Kind
    limits: tuple[float, float]
    log: bool = False

    @property
    def label(self) -> str:
        """Name with unit."""
        return f"{self.kind.words} ({self.unit})" if self.unit else self.kind.words

    @property
    def colours(self) -> str:
        """Colour map: a diverging one where the range goes to both sides of zero."""
        low, high = self.limits
        return DIVERGING if low < 0 and low == -high else self.kind.colours

    @property
    def parts(self) -> list[tuple[int, str, str]]:
        """Number, name and colour of each part where the values are numbers of parts; else nothing."""
        if not self.kind.parts:
            return []
        word, none = self.kind.parts
        numbers = np.unique(np.rint(self.values)).astype(int).tolist()
        return [(k, f"{word} {k}" if k else none, PARTS[(k - 1) % (len(PARTS) - 1) + 1 if k else 0]) for k in numbers]


def quantity(name: str, values: NDArray[np.floating], areas_mm2: NDArray[np.float64]) -> Quantity:
    """A quantity from an array of the wall's file.

    Parameters
    ----------
    name : of the array, with the unit in brackets.
    values, areas_mm2 : (V,), values and areas of the wall's points.
    """
    words, _, unit = re.fullmatch(r"(.*?)( \((.*)\))?", name).groups()  # type: ignore[union-attr]
    slug = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")
    note = "Stands in the wall's file; this report has no more words for it."
    unknown = Kind(f"wall-{slug}", words, "viridis", note, from_zero=bool(values.min() >= 0))
    kind, exact = KINDS.get(name, unknown), values.astype(np.float64)
    limits, log = colour_range(kind, name in KINDS, exact, areas_mm2)
    shown = (unit or "").replace(" mm-1", "/mm")  # arrays have no slash in their names, which HDF5 does not take
    return Quantity(exact, shown, kind, limits, log)


def colour_range(
    kind: Kind, known: bool, values: NDArray[np.float64], areas_mm2: NDArray[np.float64]
) -> tuple[tuple[float, float], bool]:
    """Range of the colours, and whether they follow the logarithm.

    The range is what is set, or lies between percentiles of the area, the same to both sides of zero where a quantity
    that is not known to be of one sign has both.

    Parameters
    ----------
    kind : of the quantity.
    known : whether its sign is known.
    values, areas_mm2 : (V,), values and areas of the wall's points.
    """
    if kind.limits:
        return kind.limits, False
    low, high = weighted_percentiles(values, areas_mm2, (100 - kind.percentile, kind.percentile))
    most = max(abs(low), abs(high))
    if not known and low < -SIGNED_SHARE * most and high > SIGNED_SHARE * most:
        return (-most, most), False
    if kind.wide and low > 0 and high > SPREAD * low:
        return (max(low, high / 10**DECADES), high), True
    if kind.from_zero:
        return (0.0, high if high > 0 else 1.0), False
    return ((low, high) if high > low else (low - 0.5, low + 0.5)), False


def read_wall(path: Path, more: Path | None = None) -> tuple[Wall, list[Quantity]]:
    """Read the wall and every scalar at its points, wall shear stress first.

    Parameters
    ----------
    path : of the wall (VTP).
    more : of the same wall with more arrays; none: there are no more.

    Raises
    ------
    StageError
        If the file holds no wall shear stress.
    """
    mesh, arrays = read_mesh(path)
    arrays |= read_point_arrays(more) if more else {}
    found = {name: values for name, values in arrays.items() if values.ndim == 1}
    if not any(name in found for name in SHEAR):
        raise StageError(f"{path}: no wall shear stress on this wall; run postprocess again")
    wall = Wall.of(mesh)
    names = [*(name for name in KINDS if name in found), *(name for name in found if name not in KINDS)]
    return wall, [quantity(name, found[name], wall.areas_mm2) for name in names]
