# SPDX-License-Identifier: Apache-2.0
"""Limits: quantities judged by the ranges of :mod:`pipeline.case.physiology`, as refusals and as checks of the
report.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from pipeline.case.physiology import (
    DENSITY_SLIPS,
    LIMITS,
    VISCOSITY_SLIPS,
    Bounds,
    Given,
    Quantity,
    Vessel,
    slip_of,
)
from solver.runtime.errors import StageError


@dataclass(frozen=True)
class Found:
    """A value of a quantity.

    Attributes
    ----------
    quantity, value : in the unit of its limits.
    given : what the user gave that it follows from.
    where : which opening or place it is of, in words that follow the value; empty where there is one alone.
    remedy : what helps where no slip of units explains it; empty: to check what was given.
    first : a mistake elsewhere that explains the value, too, told before the remedy.
    """

    quantity: Quantity
    value: float
    given: Given
    where: str = ""
    remedy: str = ""
    first: str = ""

    @property
    def words(self) -> str:
        """The quantity with its value, unit and place."""
        limits = LIMITS[self.quantity]
        return f"{limits.words} of {self.value:.4g} {limits.unit}".rstrip() + self.where

    def outside(self, bounds: Bounds) -> bool:
        """Whether the value is beyond a range."""
        return not bounds[0] <= self.value <= bounds[1]


def of_blood(viscosity_pa_s: float, density_kg_m3: float, newtonian: bool) -> list[Found]:
    """Viscosity and density of the blood that a case is given.

    Parameters
    ----------
    viscosity_pa_s : the least in arteries.
    density_kg_m3 : of blood.
    newtonian : whether the viscosity is that of the key; else it follows from a model, and no slip is guessed.
    """
    key, slips = ("solve.viscosity_pa_s", VISCOSITY_SLIPS) if newtonian else ("solve.blood", ())
    density = Given("solve.density_kg_m3", density_kg_m3, "kg/m3", DENSITY_SLIPS, settable=True)
    return [
        Found("viscosity", viscosity_pa_s, Given(key, viscosity_pa_s, "Pa s", slips, settable=newtonian)),
        Found("density", density_kg_m3, density),
    ]


def refusals(found: Iterable[Found], vessel: Vessel | None, accept: Collection[Quantity]) -> list[str]:
    """What no patient has, a line each: key, quantity, value, range with its source, and the remedy.

    Parameters
    ----------
    found : values.
    vessel : whose ranges hold; none: those of any.
    accept : quantities that may have any value.
    """
    wrong = [each for each in found if each.quantity not in accept and _refused(each, vessel)]
    return [_refusal(each, vessel, accept) for each in wrong]


def require(found: Iterable[Found], vessel: Vessel | None, accept: Collection[Quantity]) -> None:
    """Check that values are within the wide ranges, but for what is accepted.

    Parameters
    ----------
    found : the values.
    vessel : by which the ranges of some quantities are narrower; none: those of all vessels.
    accept : quantities that may lie outside.

    Raises
    ------
    StageError
        One line a value that is not.
    """
    if lines := refusals(found, vessel, accept):
        raise StageError("\n".join(lines))


def checks(found: Sequence[Found], vessel: Vessel | None) -> list[dict[str, Any]]:
    """Checks of the usual ranges as they stand in ``indices.json``, one a quantity: of its value farthest out.

    The limit is the end of the range that the value is nearest to, or beyond.
    """
    judged: dict[Quantity, Found] = {}
    for each in found:
        usual = LIMITS[each.quantity].of(vessel).usual
        rival = judged.get(each.quantity)
        if rival is None or max(_beyond(each.value, usual)) > max(_beyond(rival.value, usual)):
            judged[each.quantity] = each
    return [_check(each, vessel) for each in judged.values()]


def _refused(found: Found, vessel: Vessel | None) -> bool:
    return found.outside(LIMITS[found.quantity].of(vessel).wide)


def _refusal(found: Found, vessel: Vessel | None, accept: Collection[Quantity]) -> str:
    accepted = ", ".join([*accept, found.quantity])  # what the case says already, too: the key is replaced as a whole
    limits = LIMITS[found.quantity]
    ranges = limits.of(vessel)
    return (
        f"{found.given.key}: {found.words} is outside {limits.in_words(ranges.wide)}{_of(vessel)} ({ranges.source});"
        f" {_remedy(found, ranges.usual)} If it is meant, let the case say accept: [{accepted}]"
    )


def _check(found: Found, vessel: Vessel | None) -> dict[str, Any]:
    limits = LIMITS[found.quantity]
    ranges = limits.of(vessel)
    passed = not found.outside(ranges.usual)
    below, above = _beyond(found.value, ranges.usual)
    accepted = " The case accepts it, though no patient is known to have it." if _refused(found, vessel) else ""
    advice = (
        f"{found.given.key}: {found.words} is unusual{_of(vessel)}, {limits.in_words(ranges.usual)} is expected"
        f" ({ranges.source}); {_remedy(found, ranges.usual)}{accepted}"
    )
    return {
        "name": limits.words,
        "unit": limits.unit,
        "value": found.value,
        "limit": ranges.usual[0] if below > above else ranges.usual[1],
        "passed": passed,
        "advice": None if passed else advice,
        "usual": list(ranges.usual),
        "source": ranges.source,
    }


def _remedy(found: Found, usual: Bounds) -> str:
    return found.first + (slip_of(found.value, usual, found.given) or found.remedy or f"check {found.given.key}.")


def _of(vessel: Vessel | None) -> str:
    return f" of the vessel {vessel}" if vessel else ""


def _beyond(value: float, bounds: Bounds) -> tuple[float, float]:
    """How many times a value is below the lower and above the upper end of a range; less than 1 where it is not."""
    low, high = bounds
    return (low / value if value > 0 else inf if low > 0 else 0.0), value / high


DRIVES = "solve.inlets with solve.viscosity_pa_s and the radii of the vessel"
"""What pressure drops and wall shear stress come from."""


def of_run(indices: Mapping[str, Any]) -> list[Found]:
    """Largest pressure drop and mean wall shear stress of a run, from what stands in ``indices.json``."""
    found = [Found("wall_shear_stress", indices["wall"]["shear_mean_pa"], Given(DRIVES, 1.0, "", ()))]
    for drop in indices["pressure_drops"]:
        where = f" ({drop['inlet']} to {drop['outlet']})"
        found.append(Found("pressure_drop", abs(drop["drop_mmhg"]), Given(DRIVES, 1.0, "", ()), where))
    return found


def with_limits(indices: Mapping[str, Any], judged_before: Mapping[str, Any]) -> dict[str, Any]:
    """What stands in ``indices.json`` with the checks of plausibility, and a warning for each that failed.

    Parameters
    ----------
    indices : of the run.
    judged_before : ``plausibility.json``.

    Raises
    ------
    StageError
        If pressure or wall shear stress are what no patient has, and the case does not accept it.
    """
    found = of_run(indices)
    require(found, judged_before["vessel"], judged_before["accept"])
    judged = [*judged_before["checks"], *checks(found, judged_before["vessel"])]
    warnings = [check["advice"] for check in judged if not check["passed"]]
    return {**indices, "warnings": [*indices["warnings"], *warnings], "checks": [*indices["checks"], *judged]}
