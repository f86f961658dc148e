# SPDX-License-Identifier: Apache-2.0
"""A network as the text of its file: a line for each segment and for each end, so that people can read and edit it."""

from textwrap import fill
from typing import Any

from pydantic import BaseModel

from pipeline.case.settings.yaml_file import one_line
from pipeline.network.network_file import Network, Segment
from pipeline.network.walls import WallKeys

DIGITS = 10
"""Significant digits of a figure in other units than those of its source."""

LONG = ("segments", "inlets", "terminals", "groups", "sources")
"""Sections of which each entry has a line of its own."""


def rounded(value: float) -> float:
    """A figure in other units, without the digits that its source does not have."""
    return float(f"{value:.{DIGITS}g}")


def network_text(network: Network, comment: str = "") -> str:
    """The text of a network's file, which reads as the same network.

    Parameters
    ----------
    network : whose keys that have not been given are left out.
    comment : lines that stand first, each after a ``#``.
    """
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    for key in Network.model_fields:
        value = getattr(network, key)
        if key not in network.model_fields_set or value in ((), {}):
            continue
        if key in LONG:
            lines += [f"{key}:", *(f"  {one_line(name)}: {_entry(entry)}" for name, entry in value.items())]
        elif key == "edits":
            lines += ["edits:", *(f"  - {_entry(edit)}" for edit in value)]
        else:
            lines.append(f"{key}: {_entry(value)}")
    return "\n".join(lines) + "\n"


def _entry(value: Any) -> str:
    if isinstance(value, Segment):
        place = {key: value.model_dump(mode="json", include={key}) for key in ("nodes", "length_mm", "radius_mm")}
        value = {**place["nodes"], **place["length_mm"], **place["radius_mm"], **_given(value)}
    elif isinstance(value, BaseModel):
        value = _given(value)
    return one_line(list(value) if isinstance(value, tuple) else value)


def _given(value: BaseModel) -> dict[str, Any]:
    """Keys that have been given."""
    return value.model_dump(mode="json", exclude_unset=True)


def commented(text: str) -> str:
    """A comment in lines of the project's width."""
    return "\n".join(fill(paragraph, 116) for paragraph in text.split("\n"))


def with_common_defaults(network: Network) -> Network:
    """The network with what the walls of all its segments have alike as defaults, and left out of the segments."""
    segments = list(network.segments.values())
    common = {
        key: getattr(segments[0], key)
        for key in WallKeys.model_fields
        if all(key in each.model_fields_set and getattr(each, key) == getattr(segments[0], key) for each in segments)
    }
    without = {
        name: type(each).model_validate(each.model_dump(exclude=set(common), exclude_unset=True))
        for name, each in network.segments.items()
    }
    values = {key: getattr(network, key) for key in network.model_fields_set}
    return Network.model_construct(
        _fields_set={*network.model_fields_set, "defaults"},
        **values | {"segments": without, "defaults": WallKeys.model_validate(common)},
    )
