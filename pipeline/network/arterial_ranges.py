# SPDX-License-Identifier: Apache-2.0
"""What arteries can have: ranges outside of which a value of a network is refused, as it is hardly what was meant.

They are far wider than what healthy adults have; the key ``accept`` of a network lets a quantity have any value.
"""

from dataclasses import dataclass
from typing import Literal

from pipeline.case import physiology

Quantity = Literal["density", "viscosity", "length", "radius", "thickness", "wave_speed", "resistance", "compliance"]
"""What is judged, by the names that ``accept`` takes."""


@dataclass(frozen=True)
class Range:
    """What a quantity can be.

    Attributes
    ----------
    words : what it is called in messages.
    unit : of the bounds.
    least, largest : bounds.
    source : what they are drawn around.
    """

    words: str
    unit: str
    least: float
    largest: float
    source: str

    def refusal(self, quantity: str, value: float) -> str | None:
        """Why a value is refused, with the remedy; none if it is not."""
        if self.least <= value <= self.largest:
            return None
        return (
            f"{self.words} of {f'{value:.4g} {self.unit}'.rstrip()} is outside of {self.least:g} to {self.largest:g}"
            f" ({self.source}); check the unit, or say accept: [{quantity}]"
        )


def _blood(quantity: physiology.Quantity) -> Range:
    found = physiology.LIMITS[quantity]
    return Range(found.words, found.unit, *found.default.wide, "plasma to packed cells")


RANGES: dict[Quantity, Range] = {
    "density": _blood("density"),
    "viscosity": _blood("viscosity"),
    "length": Range("length", "mm", 0.5, 1000, "arterial segments of ADAN56 have 3 to 390 mm"),
    "radius": Range("radius", "mm", 0.1, 40, "ADAN56 has 0.7 to 16 mm, and aneurysms of the aorta reach 40"),
    "thickness": Range("thickness over radius", "", 0.01, 0.6, "arteries have 0.05 to 0.3"),
    "wave_speed": Range("wave speed", "m/s", 1, 40, "arteries have 4 to 15 m/s, stiff ones 25"),
    "resistance": Range("resistance behind a terminal", "mmHg s/mL", 0.05, 1e4, "a body has 1, a small artery 1000"),
    "compliance": Range("compliance of a terminal", "mL/mmHg", 0, 10, "all arteries of a body have 1 to 2"),
}
"""Ranges by quantity."""
