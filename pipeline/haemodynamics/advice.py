# SPDX-License-Identifier: Apache-2.0
"""What a check advises: what was found, and the setting that helps. Its text is made when all checks are known."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Setting:
    """A setting of a case file with a value; less of it is stricter.

    Attributes
    ----------
    section, key : where it stands, as ``voxelize`` and ``spacing_mm``.
    value : in the unit of the key.
    instead_of : keys of the section that must be ``null`` beside it.
    """

    section: str
    key: str
    value: float
    instead_of: tuple[str, ...] = ()

    def __str__(self) -> str:
        others = "".join(f", {key}: null" for key in self.instead_of)
        return f"{self.section}: {{{self.key}: {self.value:.3g}{others}}}"


@dataclass(frozen=True)
class Advice:
    """What a check that is not good says.

    Attributes
    ----------
    found : the quantity and its value, in words.
    setting : by which the check is good.
    """

    found: str
    setting: Setting

    def in_words(self, strictest: Mapping[tuple[str, str], Setting]) -> str:
        """What was found, and the strictest value that any check asks of the setting."""
        return f"{self.found}; set {strictest[self.setting.section, self.setting.key]}"


def in_words(checks: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Checks with their advice as text. Of a setting all advise the strictest value: who follows one meets no other.

    Parameters
    ----------
    checks : as :func:`trust.check` makes them; ``advice`` is a text, an `Advice` or None.
    """
    checks = list(checks)
    strictest: dict[tuple[str, str], Setting] = {}
    for each in checks:
        if isinstance(each["advice"], Advice):
            setting = each["advice"].setting
            place = setting.section, setting.key
            strictest[place] = min(setting, strictest.get(place, setting), key=lambda one: one.value)
    return [
        {**each, "advice": each["advice"].in_words(strictest) if isinstance(each["advice"], Advice) else each["advice"]}
        for each in checks
    ]
