# SPDX-License-Identifier: Apache-2.0
"""All kinds of images, masks and surfaces that are drawn at random, by name, and one of a kind."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.support import (
    strange_clinics,
    strange_devices,
    strange_drawings,
    strange_exports,
    strange_files,
    strange_given,
    strange_images,
    strange_models,
    strange_programs,
    strange_protocols,
    strange_scans,
    strange_series,
)
from tests.support.strange_given import Drawn
from tests.support.strange_images import Strange

Numbered = Mapping[str, tuple[int, Callable[..., Any]]]


def _numbered(*tables: tuple[int, Mapping[str, Callable[..., Any]]]) -> Numbered:
    """Kinds of several files, each with its number for the random numbers, and what draws it."""
    return {
        kind: (number, draw)
        for first, kinds in tables
        for number, (kind, draw) in enumerate(kinds.items(), start=first)
    }


IMAGES = _numbered(
    (0, strange_images.KINDS),
    (20, strange_devices.KINDS),
    (40, strange_clinics.KINDS),
    (80, strange_scans.KINDS),
    (100, strange_exports.KINDS),
    (120, strange_protocols.KINDS),
)
"""A new kind comes last in its file, so that the others keep their numbers; the first is full."""

GIVEN = _numbered(
    (0, strange_given.KINDS),
    (60, strange_files.KINDS),
    (100, strange_programs.KINDS),
    (140, strange_drawings.KINDS),
    (180, strange_series.KINDS),
    (220, strange_models.KINDS),
)
"""Masks and surfaces, images as files, and flows over time."""


def image(kind: str, seed: int) -> Strange:
    """An image of a kind."""
    number, draw = IMAGES[kind]
    found: Strange = draw(np.random.default_rng([seed, number]))
    return found


def given(kind: str, seed: int, folder: Path) -> Drawn:
    """A mask or surface of a kind, with its case and the truth."""
    number, draw = GIVEN[kind]
    found: Drawn = draw(np.random.default_rng([seed, number]), folder)
    return found
