# SPDX-License-Identifier: Apache-2.0
"""A segment cut in three, and a segment that swells."""

from typing import Any

import numpy as np

from pipeline.network.for_solver import segment_in_si
from pipeline.network.network_file import Segment
from pipeline.network.walls import Ends, thickness_m
from solver.network.arterial_walls import along

PLACES = 33
"""Radii of a piece that is no straight cone, evenly spaced."""


MAX_NAME = 64 - len(".proximal")
"""Characters of the name of a segment that can be cut, as names have 64."""


def require_room(segment: Segment, name: str, at: float, length_mm: float, key: str) -> tuple[float, float]:
    """Where a part of a segment begins and ends, as parts of its length.

    Parameters
    ----------
    segment, name : that the part lies in.
    at : middle of the part.
    length_mm : of the part.
    key : of the edit, for the message.

    Raises
    ------
    ValueError
        If the part does not lie within the segment, or the segment's name is too long.
    """
    if len(name) > MAX_NAME:
        raise ValueError(
            f"{key} = {name!r}: has {len(name)} characters, with which its pieces cannot be named; shorten the name to"
            f" {MAX_NAME}"
        )
    half = 0.5 * length_mm / segment.length_mm
    if half >= at or at + half >= 1:
        raise ValueError(
            f"{key} = {name!r}: length_mm = {length_mm:g} around {at:g} of the length does not lie within its"
            f" {segment.length_mm:.4g} mm; shorten it, or move it with at"
        )
    return at - half, at + half


def cut(segment: Segment, name: str, parts: tuple[float, float]) -> tuple[Segment, Segment, Segment]:
    """Three segments in place of one, with all keys of their walls, and the nodes between them.

    Parameters
    ----------
    segment, name : complete with the defaults.
    parts : where the middle one begins and ends, as parts of the length.
    """
    nodes = (segment.nodes[0], f"{name}.in", f"{name}.out", segment.nodes[1])
    ends = (0.0, *parts, 1.0)
    pieces = [piece(segment, ends[n], ends[n + 1], (nodes[n], nodes[n + 1])) for n in range(3)]
    return pieces[0], pieces[1], pieces[2]


def piece(segment: Segment, start: float, end: float, nodes: tuple[str, str]) -> Segment:
    """A part of a segment, complete with the defaults, between two parts of its length, with its nodes.

    Parameters
    ----------
    segment : of which it is a part.
    start, end : where it begins and ends, as parts of the length, 0 to 1.
    nodes : names of those at both ends.
    """
    radii = segment.radii_mm
    places = np.linspace(start, end, PLACES if len(radii) > 2 else 2)
    cone = tuple(along(radii, places).tolist())
    update: dict[str, Any] = {
        "nodes": nodes,
        "length_mm": segment.length_mm * (end - start),
        "radius_mm": radii[0] if len(radii) == 1 else cone,
    }
    if segment.loss:
        update["loss"] = segment.loss.part(end - start)
    for key in ("thickness_mm", "wave_speed_m_s", "viscosity_kpa_s"):
        if isinstance(value := getattr(segment, key), tuple):
            update[key] = _between(value, start, end)
    return segment.model_copy(update=update)


def _between(value: Ends, start: float, end: float) -> Ends:
    return value[0] + (value[1] - value[0]) * start, value[0] + (value[1] - value[0]) * end


def swollen(segment: Segment, factor: float, smooth: bool) -> Segment:
    """A segment with its radius times a factor; its wall keeps the thickness, also one by the empirical law.

    Parameters
    ----------
    segment : complete with the defaults.
    factor : of the radius.
    smooth : from 1 at the ends to the factor in the middle as (1 - cos) / 2, in place of the factor all along.
    """
    before = segment_in_si("", segment, 1.0).radius_m
    update: dict[str, Any] = {}
    if segment.thickness_mm == "empirical-law":
        thickness = thickness_m(segment, before)
        ends = along(thickness if thickness is not None else 0.0, np.array([0.0, 1.0])) * 1e3
        update["thickness_mm"] = float(ends[0]) if isinstance(thickness, float) else tuple(ends.tolist())
    places = np.linspace(0, 1, PLACES)
    if smooth:
        bulge = 1 + (factor - 1) * (1 - np.cos(2 * np.pi * places)) / 2
        update["radius_mm"] = tuple((along(segment.radii_mm, places) * bulge).tolist())
    else:
        wider = tuple(radius * factor for radius in segment.radii_mm)
        update["radius_mm"] = wider if len(wider) > 1 else wider[0]
    return segment.model_copy(update=update)
