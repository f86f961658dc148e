# SPDX-License-Identifier: Apache-2.0
"""Arteries of another age: how much faster pulses run in them, and how much wider they are.

Elastic arteries stiffen with age far more than muscular ones do, and widen; by how much is taken from measurements.
"""

from typing import Any

import numpy as np

from pipeline.network.for_solver import segment_in_si
from pipeline.network.network_file import Segment
from pipeline.network.walls import wave_speed_m_s
from solver.network.arterial_walls import along

AORTA_M_S, ARM_M_S, LEG_M_S = (6.15, 0.092), (9.98, 0.048), (7.91, 0.056)
"""Pulse wave velocity at birth, m/s, and its rise a year: y = 9.2 x + 615, 4.8 x + 998 and 5.6 x + 791 cm/s at x years,
of people of Beijing (Avolio et al. 1985, doi:10.1161/01.CIR.71.2.202, compared with its abstract).
"""
MUSCULAR_M_S = ((ARM_M_S[0] + LEG_M_S[0]) / 2, (ARM_M_S[1] + LEG_M_S[1]) / 2)
"""Of muscular arteries, those of arm and leg alike (own choice: from 25 to 65 years they differ from it by 3 %)."""
WIDER_A_YEAR, AT_YEARS = 0.00365, 25.0
"""Rise of an elastic artery's radius a year, of that at 25 years: mean of straight lines through the diameters of the
ascending, the thoracic and the abdominal aorta (Hickson et al. 2010, JACC Cardiovasc. Imaging 3, 1247) and of the
common carotid artery (Hansen et al. 1995, doi:10.1016/0301-5629(94)00090-5), 0.0032, 0.0036, 0.0036 and 0.0042, as
Charlton et al. (2019), doi:10.1152/ajpheart.00218.2019, read them and take their mean; compared with their program.
"""


def faster(elastic: bool, from_years: float, to_years: float) -> float:
    """Pulse wave velocity at an age over that at another, c(to)/c(from), by straight lines over age.

    Source: Avolio et al. (1985), doi:10.1161/01.CIR.71.2.202.

    Parameters
    ----------
    elastic : of an elastic artery, that of the aorta; of a muscular one, the mean of arm's and leg's.
    from_years, to_years : the ages.
    """
    start, rise = AORTA_M_S if elastic else MUSCULAR_M_S
    return (start + rise * to_years) / (start + rise * from_years)


def wider(from_years: float, to_years: float) -> float:
    """Radius of an elastic artery at an age over that at another, by a straight line over age (`WIDER_A_YEAR`)."""
    return (1 + WIDER_A_YEAR * (to_years - AT_YEARS)) / (1 + WIDER_A_YEAR * (from_years - AT_YEARS))


def is_elastic(segment: Segment, from_mm: float) -> bool:
    """Whether the mean of an artery's radii, mm, is so large that its wall is an elastic one; of a stenosis that of the
    vessel beside it counts.
    """
    beside = segment.stenosis.normal_radius_mm if segment.stenosis else 0.0
    return (beside or sum(segment.radii_mm) / len(segment.radii_mm)) >= from_mm


def widened(segment: Segment, factors: tuple[float, float]) -> Segment:
    """A segment with its radius times a factor that goes from one at its start to one at its end, with a stenosis's
    normal radius as well.
    """
    if factors == (1.0, 1.0):
        return segment
    radii = segment.radii_mm
    places = np.linspace(0, 1, len(radii) if len(radii) > 1 or factors[0] == factors[1] else 2)
    found = tuple((along(radii, places) * along(factors, places)).tolist())
    update: dict[str, Any] = {"radius_mm": found if len(found) > 1 else found[0]}
    if segment.stenosis:
        normal = segment.stenosis.normal_radius_mm * sum(factors) / 2
        update["stenosis"] = segment.stenosis.model_copy(update={"normal_radius_mm": normal})
    return segment.model_copy(update=update)


def stiffness_factor(before: Segment, after: Segment, density_kg_m3: float, ratio: float) -> float:
    """By how much E h is to be multiplied, so that waves in the middle of a segment are faster by a ratio.

    Parameters
    ----------
    before : segment, complete with the defaults.
    after : with other radii, and its wall as it was.
    density_kg_m3 : of the blood.
    ratio : of the speeds; they go with the root of E h/R.
    """
    stated = [segment_in_si("", each, density_kg_m3) for each in (before, after)]
    was, found = (wave_speed_m_s(each.wall, each.radius_m, density_kg_m3, 0.5) for each in stated)
    return (ratio * was / found) ** 2
