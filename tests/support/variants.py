# SPDX-License-Identifier: Apache-2.0
"""Variants of a test, of which the most telling are quick and the others slow."""

from collections.abc import Iterable
from typing import Any

import pytest


def some(variants: Iterable[Any], *quick: Any) -> list[Any]:
    """All variants for `parametrize`, marked as slow but for the quick ones, which must be among them. A tuple has the
    values of several parameters.
    """
    listed = list(variants)
    missing = [each for each in quick if each not in listed]
    if missing:
        raise ValueError(f"{missing} are no variants")
    return [each if each in quick else _slow(each) for each in listed]


def _slow(variant: Any) -> Any:
    values = variant if isinstance(variant, tuple) else (variant,)
    return pytest.param(*values, marks=pytest.mark.slow)
