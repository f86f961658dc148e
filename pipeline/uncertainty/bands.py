# SPDX-License-Identifier: Apache-2.0
"""From the members' figures to bands, and to which source each band is due.

Members run on a coarse lattice; what they change there is carried to the case's own: a positive figure by its ratio to
that of the coarse lattice without a change, another by the difference. To these changes y, logarithms or differences, a
line is fitted,

    y = sum_i b_i z_i + e,

z_i being the drawn variables; the case itself is its origin. e holds what varies along the wall from member to member,
and what is not linear. A band lies about the figure, or, where the image's blur is foretold to make that too large,
about what it is without blur.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from pipeline.uncertainty.banded_figures import Figure
from pipeline.uncertainty.coarse_spacing import spacing_deviation
from pipeline.uncertainty.sources import BETTER, WORDS, Group, Variable

Floats = NDArray[np.float64]

COVERED = 0.9
"""Part of the cases in which the true value is to lie in the band."""

QUANTILE = float(ndtri((1 + COVERED) / 2))
"""Half of the width of a band of a normal distribution, in standard deviations."""

LEAST_FREEDOM = 3
"""Members there must be beyond the variables, so that what the line leaves tells how far it can be off."""


@dataclass(frozen=True)
class Response:
    """How figures change with what is drawn, of F figures or places.

    Attributes
    ----------
    slopes : (variables, F), b.
    rest : (F,), standard deviation of e.
    freedom : members less variables.
    members : from which it is known.
    """

    slopes: Floats
    rest: Floats
    freedom: int
    members: int

    @staticmethod
    def of(drawn: Floats, changes: Floats) -> "Response":
        """By least squares.

        Parameters
        ----------
        drawn : (members, variables), z.
        changes : (members, F), y.
        """
        members, variables = drawn.shape
        slopes = np.zeros((variables, changes.shape[1]))
        if variables:
            slopes[:] = np.linalg.lstsq(drawn, changes, rcond=None)[0]
        left = changes - drawn @ slopes
        freedom = members - variables
        return Response(slopes, np.sqrt((left**2).sum(axis=0) / freedom), freedom, members)

    @property
    def deviation(self) -> Floats:
        """Standard deviation of each figure, (F,)."""
        return np.sqrt((self.slopes**2).sum(axis=0) + self.rest**2)

    def half_width(self, beside: Floats) -> Floats:
        """Half of the band's width, (F,), with the standard deviation of what members do not vary.

        What the slopes give has the quantile of a normal distribution; e, whose deviation is known from few members,
        that of Student's t, and slopes are as uncertain as e over the members makes them.
        """
        spread = (self.slopes**2).sum(axis=0) + beside**2
        unsure = self.rest**2 * (1 + len(self.slopes) / self.members)
        return np.sqrt(QUANTILE**2 * spread + stdtrit(self.freedom, (1 + COVERED) / 2) ** 2 * unsure)


@dataclass(frozen=True)
class Members:
    """What was computed on the coarse lattice.

    Attributes
    ----------
    variables : of the design.
    drawn : (members, variables), of those that ended.
    figures : of each of them, by key.
    unchanged : of the case without a change, by key.
    ratio : spacing of the lattice over that of the case.
    rough : whether the wall of each member has a roughness of its own.
    """

    variables: tuple[Variable, ...]
    drawn: Floats
    figures: Sequence[Mapping[str, float]]
    unchanged: Mapping[str, float]
    ratio: float
    rough: bool

    @property
    def least(self) -> int:
        """How many members are wanted."""
        return len(self.variables) + LEAST_FREEDOM

    @property
    def enough(self) -> bool:
        """Whether bands can be told."""
        return len(self.drawn) >= self.least


def bands(figures: Sequence[Figure], members: Members) -> list[dict[str, Any]]:
    """Bands of the figures that the members have, too, as they stand in ``uncertainty.json``. One that nothing changes,
    as the volume of a wall that stays, has none: a band without a width would say that it is sure.

    Parameters
    ----------
    figures : of the case.
    members : what was computed of them; enough.
    """
    keys = members.unchanged.keys() & set.intersection(*({*each} for each in members.figures))
    found = [_band(figure, members) for figure in figures if figure.key in keys]
    return [band for band in found if band["deviation"] > 0]


def _band(figure: Figure, members: Members) -> dict[str, Any]:
    drawn = np.array([each[figure.key] for each in members.figures])
    unchanged = members.unchanged[figure.key]
    by_ratio = not figure.part and min(figure.value, unchanged, *drawn) > 0
    changes, differs = drawn - unchanged, unchanged - figure.value
    if by_ratio:
        changes, differs = np.log(drawn / unchanged), float(np.log(unchanged / figure.value))
    response = Response.of(members.drawn, changes[:, None])
    spacing = spacing_deviation(differs, members.ratio, figure.order)
    half = float(response.half_width(np.array([spacing]))[0])
    middle = figure.value * np.exp(-figure.too_large)
    low, high = (middle * np.exp(-half), middle * np.exp(half)) if by_ratio else (middle - half, middle + half)
    if figure.part:
        low, high = max(low, 0.0), min(high, 1.0)
    return {
        "key": figure.key,
        "name": figure.name,
        "unit": figure.unit,
        "value": figure.value,
        "low": float(low),
        "high": float(high),
        "by": "ratio" if by_ratio else "difference",
        "deviation": float(np.hypot(response.deviation[0], spacing)),
        "deviations": {group: float(each) for group, each in _by_group(response, spacing, members).items()},
        "crosses": figure.limit if figure.limit is not None and low < figure.limit < high else None,
    }


def _by_group(response: Response, spacing: float, members: Members) -> dict[Group, float]:
    """Standard deviation that is due to each source. What the line leaves counts as the wall's where that is rough."""
    squares: dict[Group, float] = {}
    for variable, slope in zip(members.variables, response.slopes[:, 0], strict=True):
        squares[variable.group] = squares.get(variable.group, 0.0) + slope**2
    if members.rough:
        squares["wall"] = squares.get("wall", 0.0) + response.rest[0] ** 2
    if spacing:
        squares["spacing"] = spacing**2
    return {group: float(np.sqrt(squares[group])) for group in WORDS if group in squares}


def parts_of(band: Mapping[str, Any]) -> dict[Group, float]:
    """Part of the variance of a figure that is due to each source, by its band; 0 where nothing varies it."""
    squares = {group: each**2 for group, each in band["deviations"].items()}
    total = sum(squares.values())
    return {group: square / total if total else 0.0 for group, square in squares.items()}


def better(found: Sequence[Mapping[str, Any]]) -> str | None:
    """What to measure better: of the source that most of the bands' variance is due to, over all figures alike."""
    shares: dict[Group, float] = {}
    for band in found:
        for group, part in parts_of(band).items():
            shares[group] = shares.get(group, 0.0) + part
    return BETTER[max(shares, key=lambda group: shares[group])] if any(shares.values()) else None
