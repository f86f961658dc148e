# SPDX-License-Identifier: Apache-2.0
"""How far a number hangs on the spacing of the lattice: order of convergence, Richardson's extrapolation, GCI.

Sources: Roache (1994), doi:10.1115/1.2910291; Celik et al. (2008), doi:10.1115/1.2960953; Eça and Hoekstra (2008),
doi:10.1007/s00773-008-0018-1, and (2014), doi:10.1016/j.jcp.2014.01.006.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import brentq

Behaviour = Literal["monotonic", "oscillatory", "diverging", "two spacings"]

LEAST_ORDER, LARGEST_ORDER, TRUSTED_ORDER = 0.5, 2.0, 2.1
"""Orders that an estimate is made with: one that is seen outside is taken as the nearer of the first two. The scheme is
of second order, so that more is a coincidence of few lattices, and below one half they are too coarse for a power to
describe the error: below the first and above the third the wide factor of safety holds. Source: Eça and Hoekstra
(2014)."""

ASSUMED_ORDER = 1.0
"""Order where two spacings do not tell one. The scheme within the fluid and its interpolated walls are of second order,
but the stress that is carried to a curved wall, and whatever is read off beside an opening, reach the first in
places. With a ratio of 1.5 the estimate is 2.5 times that of second order."""

SAFETY, WIDE_SAFETY = 1.25, 3.0
"""Factors of safety: where three spacings show the order; and where it is assumed or out of range, or there is none."""

LARGEST_SOLVED, LEAST_SOLVED = 60.0, 1e-6
"""Ends of the search for an order."""

ROUND_OFF = 1e-12
"""Changes below this part of the largest value are none."""


@dataclass(frozen=True)
class Estimate:
    """What two or three spacings say of a number on the finest of them.

    Attributes
    ----------
    behaviour : how the number follows the spacing.
    order : apparent order of convergence; none where it is not monotonic, of two spacings, or where the finer two
        spacings agree.
    order_used : the order that the estimate is made with; none where the changes themselves are its measure.
    safety : factor of safety on the estimated error.
    extrapolated : estimate of the number at a vanishing spacing; none unless it is monotonic.
    uncertainty : estimated bound of the error, in the unit of the number.
    """

    behaviour: Behaviour
    order: float | None
    order_used: float | None
    safety: float
    extrapolated: float | None
    uncertainty: float


def estimate(values: Sequence[float], spacings_mm: Sequence[float], safety: float | None = None) -> Estimate:
    """Error of a number by its values on two or three lattices.

    With phi_1, phi_2, phi_3 from fine to coarse, r_21 = h_2/h_1, r_32 = h_3/h_2 and e_21 = phi_2 - phi_1,
    e_32 = phi_3 - phi_2, an error C h^p has

        e_32 / e_21 = r_21^p (r_32^p - 1) / (r_21^p - 1),

    of which p is the root (the equation of Celik et al., for ratios that need not be equal; its right side grows with
    p, so that the root is found between two ends instead of by their repeated substitution). Then

        phi_0 = phi_1 + (phi_1 - phi_2) / (r_21^p - 1),    U = F |phi_1 - phi_2| / (r_21^p - 1)

    with the factor of safety F; U over |phi_1| is the grid-convergence index. A root below `LEAST_ORDER` or above
    `LARGEST_ORDER` is taken as that, with F of `WIDE_SAFETY` at least. Numbers that go to and fro, or change more
    between the finer spacings than a positive order allows, have no order: U = 3 (max phi - min phi), as Eça and
    Hoekstra (2008) do. Of two spacings p is `ASSUMED_ORDER`.

    Parameters
    ----------
    values : of the number, (2,) or (3,), from the finest spacing to the coarsest.
    spacings_mm : of the lattices, growing.
    safety : F; none: `SAFETY` where an order is seen, else `WIDE_SAFETY`.
    """
    finer = float(np.log(spacings_mm[1] / spacings_mm[0]))
    change = _change(values[0], values[1], values)
    if len(values) == 2:
        factor = safety or WIDE_SAFETY
        error = abs(change) / _gain(ASSUMED_ORDER, finer)
        return Estimate("two spacings", None, ASSUMED_ORDER, factor, None, factor * error)
    coarser = float(np.log(spacings_mm[2] / spacings_mm[1]))
    before = _change(values[1], values[2], values)
    if change == 0:
        return Estimate("monotonic", None, LARGEST_ORDER, safety or SAFETY, values[0], 0.0)
    if before / change <= coarser / finer:
        behaviour: Behaviour = "oscillatory" if change * before < 0 and abs(change) < abs(before) else "diverging"
        spread = max(values) - min(values)
        return Estimate(behaviour, None, None, WIDE_SAFETY, None, WIDE_SAFETY * spread)
    order = _order(float(np.log(before / change)), finer, coarser)
    used = float(np.clip(order or LARGEST_ORDER, LEAST_ORDER, LARGEST_ORDER))
    factor = safety or SAFETY
    if not (order and LEAST_ORDER <= order <= TRUSTED_ORDER):
        factor = max(factor, WIDE_SAFETY)
    error = change / _gain(used, finer)
    return Estimate("monotonic", order, used, factor, values[0] - error, factor * abs(error))


def _change(fine: float, coarse: float, values: Sequence[float]) -> float:
    """The change from a spacing to the next coarser one, 0 where it is round-off."""
    return coarse - fine if abs(coarse - fine) > ROUND_OFF * max(abs(value) for value in values) else 0.0


def _gain(order: float, log_ratio: float) -> float:
    """r^p - 1."""
    return float(np.expm1(order * log_ratio))


def _order(log_quotient: float, finer: float, coarser: float) -> float | None:
    """The root p of ln((r_32^p - 1) / (1 - r_21^-p)) = ln(e_32 / e_21); none beyond `LARGEST_SOLVED`."""

    def excess(order: float) -> float:
        return float(np.log(np.expm1(order * coarser) / -np.expm1(-order * finer))) - log_quotient

    if excess(LARGEST_SOLVED) < 0:
        return None
    return float(brentq(excess, LEAST_SOLVED, LARGEST_SOLVED)) if excess(LEAST_SOLVED) < 0 else LEAST_SOLVED
