# SPDX-License-Identifier: Apache-2.0
"""Points in messages."""

from collections.abc import Iterable

BY_HAND = "To be sure, correct lumen.nrrd there in a program for masks, and give it as input.mask"
"""What is left where neither threshold nor method finds the wall."""


def text_mm(point: Iterable[float]) -> str:
    """A point for a message."""
    return "(" + ", ".join(f"{x:.1f}" for x in point) + ")"
