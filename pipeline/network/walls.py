# SPDX-License-Identifier: Apache-2.0
"""Wall of a segment: its keys in a network's file, the law that they choose, and the wall as the solver takes it."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from pipeline.case.settings.base import Finite, NonNegative, Positive, Section
from solver.network import arterial_walls
from solver.network.arterial_walls import Along
from solver.network.network import MOST_MOMENTUM

Law = Literal["elastic", "kelvin-voigt", "olufsen", "elastin-collagen"]
Ends = tuple[Positive, Positive]
"""A value at the proximal and at the distal end, straight lines between them."""


class WallKeys(Section):
    """Wall of a segment, and how the blood moves in it; keys that are left out are those of the section defaults."""

    wall: Law | None = Field(
        None, description="law of the wall, which says what other keys it takes; none: elastic, or that of the defaults"
    )
    thickness_mm: Positive | Ends | Literal["empirical-law"] | None = Field(
        None, description="of the wall: one, or [proximal, distal]; empirical-law: by the radius, as in large arteries"
    )
    youngs_modulus_kpa: Positive | None = Field(None, description="of the wall; elastin-collagen: of elastin")
    wave_speed_m_s: Positive | Ends | None = Field(
        None, description="in place of youngs_modulus_kpa, of waves at the given radius: one, or [proximal, distal]"
    )
    viscosity_kpa_s: NonNegative | tuple[NonNegative, NonNegative] | None = Field(
        None, description="of the wall's material; kelvin-voigt needs it: one, or [proximal, distal]"
    )
    olufsen_k1_kpa: NonNegative | None = Field(None, description="olufsen: E h / R = k1 exp(k2 R) + k3")
    olufsen_k2_1_mm: Annotated[float, Field(le=0, allow_inf_nan=False)] | None = Field(
        None, description="olufsen: not above 0, as thin vessels are stiffer"
    )
    olufsen_k3_kpa: NonNegative | None = Field(None, description="olufsen: E h / R of wide vessels")
    collagen_modulus_kpa: Positive | None = Field(None, description="elastin-collagen: of collagen that bears")
    collagen_strain: Positive | None = Field(
        None, description="elastin-collagen: strain of the circumference at which half of the collagen bears"
    )
    collagen_strain_range: Positive | None = Field(
        None, description="elastin-collagen: range of strains over which collagen comes to bear"
    )
    external_pressure_kpa: Finite | None = Field(None, description="pressure at which the radius is as given; none: 0")
    profile_exponent: Annotated[float, Field(ge=1, le=50)] | None = Field(
        None, description="gamma of u(r) = U (gamma + 2) / gamma (1 - (r / R)^gamma); none: 2, a parabola"
    )
    momentum_correction: Annotated[float, Field(ge=1, le=MOST_MOMENTUM)] | Literal["profile"] | None = Field(
        None,
        description="alpha of the flow of momentum alpha rho A u^2: a number, or profile: (gamma + 2) / (gamma + 1)"
        " of profile_exponent; none: 1",
    )


_FIBRES = ("youngs_modulus_kpa", "thickness_mm", "collagen_modulus_kpa", "collagen_strain", "collagen_strain_range")
LAWS: Mapping[Law, tuple[tuple[str, ...], ...]] = {
    "elastic": (("youngs_modulus_kpa", "thickness_mm"), ("wave_speed_m_s",)),
    "kelvin-voigt": (
        ("youngs_modulus_kpa", "thickness_mm", "viscosity_kpa_s"),
        ("wave_speed_m_s", "thickness_mm", "viscosity_kpa_s"),
    ),
    "olufsen": (("olufsen_k1_kpa", "olufsen_k2_1_mm", "olufsen_k3_kpa"),),
    "elastin-collagen": (_FIBRES,),
}
"""Keys that each law needs: all of one of these sets."""
MORE: Mapping[Law, tuple[str, ...]] = {
    "elastic": ("thickness_mm",),
    "kelvin-voigt": (),
    "olufsen": ("thickness_mm", "viscosity_kpa_s"),
    "elastin-collagen": ("viscosity_kpa_s",),
}
"""Keys that a law may have besides."""
OF_LAWS = {key for sets in LAWS.values() for keys in sets for key in keys}
"""Keys that not every law takes."""
EITHER = {"wave_speed_m_s": "youngs_modulus_kpa", "youngs_modulus_kpa": "wave_speed_m_s"}
"""Keys of which one takes the other's place."""


def keys_of(law: Law) -> set[str]:
    """Keys that a law takes, of those that not every law does."""
    return {key for keys in LAWS[law] for key in keys} | set(MORE[law])


def with_defaults(own: WallKeys, defaults: WallKeys) -> dict[str, Any]:
    """Keys of a wall: its own over the defaults, of which those are left out that its own make void, as they are of
    another law, or the other of modulus and wave speed.
    """
    given = {key: getattr(own, key) for key in WallKeys.model_fields if getattr(own, key) is not None}
    law: Law = own.wall or defaults.wall or "elastic"
    void = (OF_LAWS - keys_of(law)) | {EITHER[key] for key in given if key in EITHER}
    under = {key: getattr(defaults, key) for key in WallKeys.model_fields if key not in void}
    under = {key: value for key, value in under.items() if value is not None}
    return {"wall": law, "external_pressure_kpa": 0.0, "profile_exponent": 2.0} | under | given


def misfits(wall: WallKeys) -> list[str]:
    """What a wall, complete with its defaults, lacks or has too much for its law; each with the remedy."""
    law: Law = wall.wall or "elastic"
    given = {key for key in OF_LAWS if getattr(wall, key) is not None}
    lines = [
        f"{key} = {getattr(wall, key)!r}: the law {law} takes no such key; take it out, or choose another wall"
        for key in sorted(given - keys_of(law))
    ]
    if given >= EITHER.keys():
        lines.append("wave_speed_m_s and youngs_modulus_kpa: both given; give one of them")
    elif not any(given >= set(keys) for keys in LAWS[law]):
        begun = next((keys for keys in LAWS[law] if given & set(keys)), LAWS[law][0])
        lacks = [key for key in begun if key not in given]
        needs = ", or ".join(" with ".join(keys) for keys in LAWS[law])
        lines.append(f"{', '.join(lacks)}: missing; the law {law} needs {needs}")
    if wall.viscosity_kpa_s and wall.thickness_mm is None and "thickness_mm" not in " ".join(lines):
        lines.append("thickness_mm: missing; with viscosity_kpa_s the wall needs it")
    return lines


def scaled(value: float | tuple[float, ...], factor: float) -> Along:
    """A value of a file in other units."""
    return tuple(each * factor for each in value) if isinstance(value, tuple) else value * factor


def thickness_m(wall: WallKeys, radius_m: Along) -> Along | None:
    """Thickness of a wall at as many places as it takes to follow it; none if the wall has none."""
    if wall.thickness_mm is None:
        return None
    if wall.thickness_mm == "empirical-law":
        places = np.linspace(0, 1, PLACES) if isinstance(radius_m, tuple) else np.zeros(1)
        found = arterial_walls.empirical_thickness_m(arterial_walls.along(radius_m, places)).tolist()
        return tuple(found) if len(found) > 1 else float(found[0])
    return scaled(wall.thickness_mm, 1e-3)


PLACES = 33
"""Along a segment, at which a thickness that curves is taken where it stands for a viscous coefficient."""


def in_si(wall: WallKeys, radius_m: Along, density_kg_m3: float) -> arterial_walls.Wall:
    """The wall as the solver takes it.

    Parameters
    ----------
    wall : complete with its defaults; fits its law.
    radius_m : of the segment.
    density_kg_m3 : of the blood, by which a wave speed gives a stiffness: beta = 2 rho c^2.
    """
    thickness = thickness_m(wall, radius_m)
    given = None if wall.thickness_mm == "empirical-law" else thickness
    viscous: Along = 0.0
    if wall.viscosity_kpa_s and thickness is not None:
        viscous = _viscous_pa_s_m(scaled(wall.viscosity_kpa_s, 1e3), thickness)
    if wall.wave_speed_m_s is not None:
        return arterial_walls.StiffWall(_stiffness(wall.wave_speed_m_s, density_kg_m3), viscous)
    young = (wall.youngs_modulus_kpa or 0.0) * 1e3
    if wall.wall == "olufsen":
        k1, k2, k3 = (wall.olufsen_k1_kpa or 0.0, wall.olufsen_k2_1_mm or 0.0, wall.olufsen_k3_kpa or 0.0)
        return arterial_walls.OlufsenWall(k1 * 1e3, k2 * 1e3, k3 * 1e3, viscous)
    if wall.wall == "elastin-collagen":
        collagen = (wall.collagen_modulus_kpa or 0.0) * 1e3
        strain, over = wall.collagen_strain or 0.0, wall.collagen_strain_range or 1.0
        return arterial_walls.FibreWall(young, collagen, strain, over, given, viscous)
    return arterial_walls.ElasticWall(young, given, viscous_pa_s_m=viscous)


def _viscous_pa_s_m(viscosity_pa_s: Along, thickness_m: Along) -> Along:
    """Gamma of a viscosity and a thickness, of which both may change along the segment."""
    if not isinstance(viscosity_pa_s, tuple):
        return scaled(thickness_m, arterial_walls.viscous_coefficient(viscosity_pa_s, 1.0))
    places = np.linspace(0, 1, PLACES)
    both = arterial_walls.along(viscosity_pa_s, places) * arterial_walls.along(thickness_m, places)
    return tuple((arterial_walls.viscous_coefficient(1.0, 1.0) * both).tolist())


def _stiffness(speed_m_s: float | Ends, density_kg_m3: float) -> Along:
    """Stiffness beta of wave speeds, between whose ends the speed, not beta, is linear."""
    if isinstance(speed_m_s, tuple):
        speeds = np.linspace(*speed_m_s, PLACES)
        return tuple((2 * density_kg_m3 * speeds**2).tolist())
    return 2 * density_kg_m3 * speed_m_s**2


def wave_speed_m_s(
    wall: arterial_walls.Wall, radius_m: Along, density_kg_m3: float, part: float, stretch: float = 1.0
) -> float:
    """Speed of waves in vessels at rest, c^2 = A/rho dp/dA = lambda/(2 rho) dp/dlambda.

    Parameters
    ----------
    wall : its law.
    radius_m : of the lumen.
    density_kg_m3 : of blood.
    part : place, as a part of the length.
    stretch : lambda = sqrt(A/A0) at which it is wanted; 1: that of vessels that have their radius.
    """
    place = np.array([part])
    rows = wall.coefficients(place, arterial_walls.along(radius_m, place))[:, 0]
    b0, b1, b2, b3, e0, er = (float(each) for each in rows)
    strain = stretch - 1
    taut = (strain - e0) / er
    bears = 1 / (1 + np.exp(-taut))
    pulls = b2 * strain + b3 * er * np.logaddexp(0.0, taut)
    slope = b0 + (b1 + b2 + b3 * bears - 2 * pulls / stretch) / stretch**2  # dp / dlambda
    return float(np.sqrt(stretch * slope / (2 * density_kg_m3)))
