# SPDX-License-Identifier: Apache-2.0
"""Figures of a case that get a band."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.haemodynamics.sac_blur import foretold
from pipeline.uncertainty.coarse_spacing import ORDER, ORDER_OF_PEAKS

Floats = NDArray[np.float64]

LOW_SHEAR_PA, LOW_RATIO = 0.4, 0.8
"""Values at which a figure is read differently: walls are prone to disease below the first (Malek, Alper and Izumo
1999, doi:10.1001/jama.282.21.2035), a stenosis limits the flow below the second (Pijls et al. 1996,
doi:10.1056/NEJM199606273342604)."""


@dataclass(frozen=True)
class Figure:
    """A figure of a case.

    Attributes
    ----------
    key : in ``uncertainty.json`` and in tables.
    name : for a reader.
    unit : of its value.
    value : what was found.
    limit : a value at which it is read differently; none where there is none.
    part : whether it is a part of something, between 0 and 1.
    order : with which it comes near to that of a vanishing spacing.
    too_large : logarithm of what the image's blur is foretold to make too much of it.
    """

    key: str
    name: str
    unit: str
    value: float
    limit: float | None = None
    part: bool = False
    order: float = ORDER
    too_large: float = 0.0


def figures_of(indices: Mapping[str, Any], volume_mm3: float, sacs: Mapping[str, float]) -> tuple[Figure, ...]:
    """The figures of a case or of a member.

    Parameters
    ----------
    indices : as in ``indices.json``.
    volume_mm3 : of the lumen.
    sacs : mean shear stress, Pa, on the wall of each sac by its name.
    """
    wall, averaged = indices["wall"], "time-averaged " if indices["times"] > 1 else ""
    found = [
        Figure("volume", "volume of the lumen", "mL", volume_mm3 / 1000),
        *(
            Figure(f"flow {each['name']}", f"flow through {each['name']}", "mL/s", each["flow_ml_s"])
            for each in indices["openings"]
        ),
        Figure("peak_speed", "peak speed", "m/s", indices["peak_speed_m_s"]),
    ]
    for drop in indices["pressure_drops"]:
        pair = f"{drop['inlet']} to {drop['outlet']}"
        found.append(Figure(f"drop {pair}", f"pressure drop, {pair}", "mmHg", drop["drop_mmhg"]))
        if drop["pressure_ratio"] is not None:
            name = f"ratio of pressures, {pair}"
            found.append(Figure(f"ratio {pair}", name, "", drop["pressure_ratio"], LOW_RATIO, part=True))
    shear = f"{averaged}wall shear stress"
    found += [
        Figure("shear_mean", f"mean {shear}", "Pa", wall["shear_mean_pa"], LOW_SHEAR_PA),
        Figure("shear_p99", f"99th percentile of the {shear}", "Pa", wall["shear_p99_pa"], order=ORDER_OF_PEAKS),
        *(Figure(f"shear {name}", f"mean {shear}, {name}", "Pa", mean, LOW_SHEAR_PA) for name, mean in sacs.items()),
        Figure("low_shear", "of the wall below 0.4 Pa", "", wall["low_shear_fraction"]["0.4 Pa"], part=True),
    ]
    if "osi_mean" in wall:
        found.append(Figure("osi_mean", "mean oscillatory shear index", "", wall["osi_mean"], part=True))
    return tuple(found)


def with_blur(figures: Sequence[Figure], parents_mm: Mapping[str, float], edge_mm: float) -> tuple[Figure, ...]:
    """The figures, those of sacs with what the image's blur is foretold to make too much of them.

    Parameters
    ----------
    figures : of a case.
    parents_mm : radius of the vessel that carries each sac, by its name.
    edge_mm : width of the edge in the image; 0 without one.
    """
    too_large = {f"shear {name}": foretold(edge_mm, radius) for name, radius in parents_mm.items()}
    return tuple(replace(figure, too_large=too_large.get(figure.key, 0.0)) for figure in figures)
