# SPDX-License-Identifier: Apache-2.0
"""Points in messages."""

from collections.abc import Iterable


def text_mm(point: Iterable[float]) -> str:
    """A point for a message."""
    return "(" + ", ".join(f"{x:.1f}" for x in point) + ")"
