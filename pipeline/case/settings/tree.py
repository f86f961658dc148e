# SPDX-License-Identifier: Apache-2.0
"""Settings of a case that is a one-dimensional network alone: how it is computed, and what is told of it."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from pipeline.case.settings.base import Name, Positive, Section
from pipeline.case.settings.network_edits import Edit

MOST_COURANT = 0.85
"""A little below what the scheme can bear (docs/network-theory.md)."""


class Site(Section):
    """A place in the network whose waveforms are told."""

    segment: Name = Field(description="its name, after the edits")
    at: Annotated[float, Field(ge=0, le=1)] = Field(0.5, description="0: its proximal end; 1: its distal end")


def _as_site(given: Any) -> Any:
    """The name of a segment alone is its middle."""
    return {"segment": given} if isinstance(given, str) else given


Patterns = tuple[str, ...]


class Landmarks(Section):
    """Where indices are taken, by names of segments or groups, or patterns with ``*`` and ``?``; none found: left out.

    Of several segments that fit, the longest is taken, of femoral arteries the first one from the heart, and all at the
    ankle. Names tell the side by ``_R`` and ``_L``.
    """

    aorta: Patterns = Field(("*aort*",), description="where the inlet's segment fits, the network begins at the heart")
    brachial: Patterns = Field(("brachial*",), description="the arm's cuff")
    ankle: Patterns = Field(
        ("posterior_tibial*", "anterior_tibial*"), description="arteries at the ankle, at their distal ends"
    )
    carotid: Patterns = Field(("common_carotid*", "carotid*"), description="where the pulse is felt at the neck")
    femoral: Patterns = Field(
        ("femoral*", "iliac_femoral*"), description="the first one from the heart is where it is felt at the groin"
    )


class NetworkNumerics(Section):
    """A network with its edits, and how it is computed."""

    edits: tuple[Edit, ...] = Field((), description="changes of the network, one a line, after those of its own file")
    spacing_mm: Positive = Field(4.0, description="length of a cell, nearly; a segment has two cells at least")
    courant: Annotated[float, Field(gt=0, le=MOST_COURANT)] = Field(
        0.8, description="largest (|u| + c) dt/dx that the time step aims at"
    )
    most_cycles: Annotated[int, Field(ge=2, le=1000)] = Field(30, description="that are computed")
    tolerance: Annotated[float, Field(gt=0, lt=1)] = Field(
        1e-3,
        description="largest change from cycle to cycle, of pressure by the segment's pulse pressure and of flow by its"
        " largest, with which the cycles repeat",
    )
    samples: Annotated[int, Field(ge=50, le=5000)] = Field(200, description="kept of a cycle")


class TreeSettings(NetworkNumerics):
    """A network alone: its numerics, its edits, and what is told of it. Only of a case with ``input.network``."""

    unsettled: Literal["refuse", "report"] = Field(
        "refuse", description="what becomes of a run whose cycles do not repeat: an error, or a page that says so"
    )
    frames: Annotated[int, Field(ge=1, le=500)] = Field(40, description="of the cycle, in the series for ParaView")
    sites: tuple[Annotated[Site, BeforeValidator(_as_site)], ...] = Field(
        (), max_length=40, description="places of waveforms; a name stands for the middle; none: some are chosen"
    )
    landmarks: Landmarks = Landmarks()
