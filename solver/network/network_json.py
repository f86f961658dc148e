# SPDX-License-Identifier: Apache-2.0
"""A network as JSON and back, to the same bits: an object a class, with its name under ``is``, and numbers in full."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from solver.boundary.curves import Pieces, Series
from solver.network import arterial_walls, network, network_ends
from solver.runtime.errors import StageError

KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        network.Network,
        network.Segment,
        network.Stenosis,
        network.Blood,
        arterial_walls.ElasticWall,
        arterial_walls.StiffWall,
        arterial_walls.OlufsenWall,
        arterial_walls.FibreWall,
        network_ends.FlowInlet,
        network_ends.PressureOpening,
        network_ends.Heart,
        network_ends.Resistance,
        network_ends.Windkessel,
        network_ends.MatchedWindkessel,
        network_ends.Reflection,
        network_ends.Coupled,
        Series,
        Pieces,
    )
}
"""What a network is made of, by name."""
IS, ARRAY, COMPLEX = "is", "array", "complex"
"""Keys of an object: its class, or what an array holds."""


def to_json(stated: network.Network) -> str:
    """A network as text."""
    return json.dumps(_plain(stated), allow_nan=False)


def from_json(text: str) -> network.Network:
    """The network of a text of :func:`to_json`.

    Raises
    ------
    StageError
        If it is none.
    """
    try:
        found = _made(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StageError(f"not a network as JSON ({error}); run the stage that wrote it again") from None
    if not isinstance(found, network.Network):
        raise StageError(f"not a network as JSON, but {type(found).__name__}; run the stage that wrote it again")
    return found


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {IS: type(value).__name__} | {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, np.ndarray):
        if np.iscomplexobj(value):
            return {COMPLEX: [value.real.tolist(), value.imag.tolist()]}
        return {ARRAY: value.tolist()}
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return float(value) if isinstance(value, np.floating) else value


def _made(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_made, value))
    if not isinstance(value, dict):
        return value
    if value.keys() == {ARRAY}:
        return np.array(value[ARRAY], np.float64)
    if value.keys() == {COMPLEX}:
        real, imaginary = value[COMPLEX]
        return np.array(real, np.float64) + 1j * np.array(imaginary, np.float64)
    parts = {key: _made(each) for key, each in value.items() if key != IS}
    return KINDS[value[IS]](**parts) if IS in value else parts
