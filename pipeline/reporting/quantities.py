# SPDX-License-Identifier: Apache-2.0
"""Quantities on the wall: what ``wall.vtp`` holds, how each is named, coloured and explained."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.files.mesh import read_mesh
from pipeline.haemodynamics.indices import weighted_percentiles
from pipeline.haemodynamics.wall_shear_stress import Wall
from solver.runtime.errors import StageError

DIVERGING = "coolwarm"
"""For quantities of both signs: even steps of lightness to both sides of zero.
Source: Moreland (2009), doi:10.1007/978-3-642-10520-3_9."""

SIGNED_SHARE = 0.05
"""A quantity has both signs where the colours' range reaches so far to the smaller side, as a part of the larger."""


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
    """

    key: str
    words: str
    colours: str
    note: str
    percentile: float = 99.0
    limits: tuple[float, float] | None = None
    from_zero: bool = True


SHEAR_NOTE = (
    "The force per area with which blood drags the wall along. Usual in arteries: 1 to 7 Pa; below 0.4 Pa the wall is"
    " prone to plaque (Malek et al. 1999, doi:10.1001/jama.282.21.2035)."
)

KINDS: Mapping[str, Kind] = {
    "TAWSS (Pa)": Kind("wall", "time-averaged wall shear stress", "inferno", SHEAR_NOTE),
    "WSS magnitude (Pa)": Kind("wall", "wall shear stress", "inferno", SHEAR_NOTE),
    "peak WSS (Pa)": Kind(
        "wall-peak",
        "peak wall shear stress",
        "inferno",
        "The largest wall shear stress of the cycle, at each place by itself. There is no established limit.",
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
    ),
    "ECAP (1/Pa)": Kind(
        "wall-ecap",
        "endothelial cell activation potential",
        "magma",
        "Oscillatory shear index over mean stress: high where the stress is weak and goes to and fro. There is no"
        " established limit (Di Achille et al. 2014, doi:10.1098/rspa.2014.0163).",
        percentile=95.0,
    ),
    "transverse WSS (Pa)": Kind(
        "wall-transverse",
        "transverse wall shear stress",
        "inferno",
        "The part of the stress across its mean direction, averaged over the cycle. There is no established limit"
        " (Peiffer et al. 2013, doi:10.1016/j.jbiomech.2013.08.003).",
    ),
    "TAWSS gradient (Pa/mm)": Kind(
        "wall-gradient",
        "gradient of the time-averaged wall shear stress",
        "plasma",
        "How fast the mean stress changes along the wall. There is no established limit.",
    ),
    "pressure (Pa)": Kind(
        "wall-pressure",
        "pressure",
        "cividis",
        "Above the reference that is set at the outlets: differences count, it is not the patient's blood pressure.",
        from_zero=False,
    ),
}
"""By the names of the arrays, in the order in which they are offered."""

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
    """

    values: NDArray[np.float64]
    unit: str
    kind: Kind
    limits: tuple[float, float]

    @property
    def label(self) -> str:
        """Name with unit."""
        return f"{self.kind.words} ({self.unit})" if self.unit else self.kind.words

    @property
    def colours(self) -> str:
        """Colour map: a diverging one where the range goes to both sides of zero."""
        low, high = self.limits
        return DIVERGING if low < 0 and low == -high else self.kind.colours


def quantity(name: str, values: NDArray[np.floating], areas_mm2: NDArray[np.float64]) -> Quantity:
    """A quantity from an array of the wall's file.

    Parameters
    ----------
    name : of the array, with the unit in brackets.
    values, areas_mm2 : (V,), values and areas of the wall's points.
    """
    words, _, unit = re.fullmatch(r"(.*?)( \((.*)\))?", name).groups()  # type: ignore[union-attr]
    slug = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")
    kind = KINDS.get(name, Kind(f"wall-{slug}", words, "viridis", "", from_zero=bool(values.min() >= 0)))
    exact = values.astype(np.float64)
    return Quantity(exact, unit or "", kind, _limits(kind, name in KINDS, exact, areas_mm2))


def _limits(
    kind: Kind, known: bool, values: NDArray[np.float64], areas_mm2: NDArray[np.float64]
) -> tuple[float, float]:
    """Range of the colours: what is set, or between percentiles of the area, and the same to both sides of zero where
    a quantity that is not known to be of one sign has both.
    """
    if kind.limits:
        return kind.limits
    low, high = weighted_percentiles(values, areas_mm2, (100 - kind.percentile, kind.percentile))
    most = max(abs(low), abs(high))
    if not known and low < -SIGNED_SHARE * most and high > SIGNED_SHARE * most:
        return -most, most
    if kind.from_zero:
        return 0.0, high if high > 0 else 1.0
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def read_wall(path: Path) -> tuple[Wall, list[Quantity]]:
    """Read the wall and every scalar at its points, wall shear stress first.

    Raises
    ------
    StageError
        If the file holds no wall shear stress.
    """
    mesh, arrays = read_mesh(path)
    found = {name: values for name, values in arrays.items() if values.ndim == 1}
    if not any(name in found for name in SHEAR):
        raise StageError(f"{path}: no wall shear stress on this wall; run postprocess again")
    wall = Wall.of(mesh)
    names = [*(name for name in KINDS if name in found), *(name for name in found if name not in KINDS)]
    return wall, [quantity(name, found[name], wall.areas_mm2) for name in names]
