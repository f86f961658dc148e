# SPDX-License-Identifier: Apache-2.0
"""Physiology: what blood and vessels can have, by published measurements; and slips of units behind what they cannot.

Each quantity has two ranges. Outside the wide one a value is refused, since no patient has it; outside the usual one it
is worth a second look. Limits are those of the literature named beside them, rounded outwards.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Quantity = Literal[
    "viscosity",
    "density",
    "inlet_radius",
    "flow_per_area",
    "narrowest_speed",
    "reynolds",
    "womersley",
    "pressure_drop",
    "wall_shear_stress",
]
"""What is judged, by the names that the key ``accept`` takes."""

Vessel = Literal["aorta", "carotid", "coronary"]
"""Vessels with limits of their own, by the names that the key ``vessel`` takes."""

Bounds = tuple[float, float]


@dataclass(frozen=True)
class Range:
    """What a quantity can be.

    Attributes
    ----------
    wide : what is outside is refused.
    usual : what is outside is a check that failed.
    source : of the limits: author, year, DOI.
    """

    wide: Bounds
    usual: Bounds
    source: str


@dataclass(frozen=True)
class Limits:
    """A quantity and its ranges.

    Attributes
    ----------
    words : what it is called in messages and checks.
    unit : of value and ranges; empty for a number.
    default : its range in any vessel.
    vessels : its ranges in vessels that have their own.
    """

    words: str
    unit: str
    default: Range
    vessels: Mapping[Vessel, Range] = field(default_factory=dict)

    def of(self, vessel: Vessel | None) -> Range:
        """The range in a vessel; none: in any."""
        return self.vessels.get(vessel, self.default) if vessel else self.default

    def in_words(self, bounds: Bounds) -> str:
        """A range in words, with its unit."""
        return f"{bounds[0]:g} to {bounds[1]:g} {self.unit}".rstrip()


MALEK = "Malek et al. 1999, doi:10.1001/jama.282.21.2035"
CARO = "Caro et al. 2012, The Mechanics of the Circulation, doi:10.1017/CBO9781139013406"

LIMITS: dict[Quantity, Limits] = {
    "viscosity": Limits(
        "viscosity",
        "Pa s",
        Range(
            (1e-3, 2e-2),
            (2e-3, 6e-3),
            "usual of whole blood at shear rates of arteries, at the widest from plasma to polycythaemia: Rosenson et"
            " al. 1996, doi:10.1093/clinchem/42.8.1189; Merrill 1969, doi:10.1152/physrev.1969.49.4.863",
        ),
    ),
    "density": Limits(
        "density",
        "kg/m3",
        Range(
            (1000, 1110),
            (1040, 1070),
            "usual of whole blood, at the widest from water to packed red cells: Trudnowski and Rico 1974,"
            " doi:10.1093/clinchem/20.5.615; Kenner 1989, doi:10.1007/BF01907921",
        ),
    ),
    "inlet_radius": Limits(
        "inlet radius",
        "mm",
        Range(
            (0.1, 50),
            (0.4, 21),
            "usual from distal coronary arteries to the ascending aorta: Dodge et al. 1992,"
            " doi:10.1161/01.CIR.86.1.232; Wolak et al. 2008, doi:10.1016/j.jcmg.2007.11.005",
        ),
        {
            "aorta": Range(
                (3, 50),
                (9, 21),
                "33 +/- 4 mm across the ascending, 24 +/- 3 mm across the descending aorta: Wolak et al."
                " 2008, doi:10.1016/j.jcmg.2007.11.005",
            ),
            "carotid": Range(
                (0.7, 8),
                (1.5, 4.5),
                "6.5 +/- 1.0 mm across the common, 4.7 +/- 0.8 mm across the internal carotid artery:"
                " Krejza et al. 2006, doi:10.1161/01.STR.0000206440.48756.f7",
            ),
            "coronary": Range(
                (0.3, 6),
                (0.5, 2.8),
                "4.5 +/- 0.5 mm across the left main, 1.9 +/- 0.4 mm across the distal left anterior"
                " descending artery: Dodge et al. 1992, doi:10.1161/01.CIR.86.1.232",
            ),
        },
    ),
    "flow_per_area": Limits(
        "mean inlet speed (flow per area)",
        "m/s",
        Range(
            (0.005, 1.5), (0.03, 0.8), f"means over the cycle in large vessels, about 0.1 to 0.4 m/s at rest: {CARO}"
        ),
        {
            "carotid": Range(
                (0.02, 1.5),
                (0.08, 0.6),
                "36 % of a cerebral flow of 717 +/- 123 mL/min, through 4.7 +/- 0.8 mm: Zarrinkoob et al."
                " 2015, doi:10.1038/jcbfm.2014.241; Krejza et al. 2006,"
                " doi:10.1161/01.STR.0000206440.48756.f7",
            ),
        },
    ),
    "narrowest_speed": Limits(
        "mean speed at the narrowest place",
        "m/s",
        Range(
            (0, 5),
            (0, 2),
            "means over the cycle above 2 m/s come with severe narrowing: Hutchison and Weir 1989,"
            " doi:10.1017/s0317167100029486; so do systolic peaks above 2.3 m/s: Grant et al. 2003,"
            " doi:10.1148/radiol.2292030516; 5 m/s take rho u^2/2 = 100 mmHg, the mean arterial pressure, and are the"
            " jet of the severest aortic valve stenosis: Baumgartner et al. 2017, doi:10.1016/j.echo.2017.02.009",
        ),
    ),
    "reynolds": Limits(
        "inlet Reynolds number at the largest flow",
        "",
        Range(
            (0.5, 15_000),
            (5, 10_000),
            "from 1 in arterioles to 10,000 at the peak in the ascending aorta: Ku 1997,"
            " doi:10.1146/annurev.fluid.29.1.399; Stein and Sabbah 1976, doi:10.1161/01.RES.39.1.58",
        ),
    ),
    "womersley": Limits(
        "inlet Womersley number",
        "",
        Range(
            (0.2, 100),
            (0.4, 50),
            "of the usual radii at 40 to 200 beats a minute, by the formula of Womersley 1955,"
            " doi:10.1113/jphysiol.1955.sp005276",
        ),
    ),
    "pressure_drop": Limits(
        "pressure drop from inlet to outlet",
        "mmHg",
        Range(
            (0, 100),
            (0, 20),
            "a coarctation of 20 mmHg asks for treatment, and no drop exceeds the mean arterial pressure: Warnes et"
            f" al. 2008, doi:10.1161/CIRCULATIONAHA.108.190690; {CARO}",
        ),
    ),
    "wall_shear_stress": Limits(
        "mean wall shear stress",
        "Pa",
        Range(
            (0.01, 38),
            (0.1, 7),
            f"0.1 to 0.6 Pa in veins, 1 to 7 Pa in arteries: {MALEK}; 38 Pa erode the endothelium: Fry 1968,"
            " doi:10.1161/01.RES.22.2.165",
        ),
    ),
}
"""Ranges by quantity. All hold for adults: patients that are not may need ``accept``."""


@dataclass(frozen=True)
class Slip:
    """A unit that a value may have been given in by mistake.

    Attributes
    ----------
    unit : in words.
    factor : the unit in that of the key.
    """

    unit: str
    factor: float


@dataclass(frozen=True)
class Given:
    """What a user gave that a quantity follows from.

    Attributes
    ----------
    key : of the case.
    value, unit : as the key has it.
    slips : units that it may have been given in, the likeliest first; none: no guess is made.
    power : of the given value that the quantity is proportional to.
    settable : whether the key takes this very value, so that a corrected one can be set there.
    """

    key: str
    value: float
    unit: str
    slips: tuple[Slip, ...]
    power: float = 1.0
    settable: bool = False

    def corrected(self, factor: float) -> str:
        """What to set where the value is to be multiplied; empty where the key takes no such value."""
        return f" Then set {self.key}: {self.value * factor:.4g}." if self.settable else ""


BLOOD_KG_M3 = 1060.0
"""Density by which a viscosity is given as a kinematic one."""

VISCOSITY_SLIPS = (
    Slip("mPa s", 1e-3),
    Slip("P", 0.1),
    Slip("uPa s", 1e-6),
    Slip("m2/s, of the kinematic viscosity,", BLOOD_KG_M3),
    Slip("mm2/s, of the kinematic viscosity,", 1e-6 * BLOOD_KG_M3),
)
DENSITY_SLIPS = (Slip("g/cm3", 1e3), Slip("g/mm3", 1e6), Slip("g/m3", 1e-3), Slip("kg/mm3", 1e9))
FLOW_SLIPS = (
    Slip("mL/min", 1 / 60),
    Slip("L/min", 1000 / 60),
    Slip("L/s", 1e3),
    Slip("m3/s", 1e6),
    Slip("mm3/s", 1e-3),
)
LENGTH_SLIPS = (Slip("cm", 10), Slip("m", 1e3), Slip("um", 1e-3), Slip("inch", 25.4))
TIME_SLIPS = (Slip("ms", 1e-3), Slip("min", 60))

DECIMALS = (10, 100, 1000, 1e6)
"""Factors by which a decimal point slips."""


def slip_of(value: float, usual: Bounds, given: Given | None) -> str | None:
    """The slip that explains a value, as a question with the corrected value; none where there is none.

    Parameters
    ----------
    value : of the quantity.
    usual : range that the corrected value has to be in.
    given : what the quantity follows from.
    """
    if not given or not given.slips:
        return None

    def explains(factor: float) -> bool:
        return usual[0] <= value * factor**given.power <= usual[1]

    for slip in given.slips:
        if explains(slip.factor):
            right = f"{given.value * slip.factor:.4g} {given.unit}"
            return f"did you mean {given.value:.4g} {slip.unit} = {right}?{given.corrected(slip.factor)}"
    for size in DECIMALS:
        for factor, words in ((1 / size, "large"), (size, "small")):
            if explains(factor):
                right = f"{given.value * factor:.4g} {given.unit}"
                return f"did you mean {right}? It is {size:g} times too {words}.{given.corrected(factor)}"
    return None
