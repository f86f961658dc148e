# SPDX-License-Identifier: Apache-2.0
"""YAML file: a mapping of keys to values, read with the care that a file from anywhere needs, and written.

Plain words and numbers are distinguished as in the core schema of YAML 1.2 (so ``1e-3`` is a number, and ``no`` a
word). No tag is followed, so that nothing but words, numbers, lists and mappings can come of a file; keys are words,
and stand once. Size, depth and what anchors multiply are limited.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from solver.runtime.errors import StageError

MAX_BYTES = 2**18
"""Twenty times the commented list of all settings; longer lists of points stand in a markups file."""
MAX_VALUES = 50_000
"""Values of a file, with those of an anchor counted as often as it is used."""
MAX_DEPTH = 30
"""Of lists and mappings in each other; settings need eight."""

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Characters that no text has, but for line breaks and tabs."""

STR, MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"


class _Loader(yaml.SafeLoader):
    """Composes and constructs as said above."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  # as the class that it is made from has it

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._values: dict[int, int] = {}  # number of values below each node that is whole, by its id
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()
        if getattr(event, "tag", None) is not None:
            raise _fault(event, f"the tag {event.tag!r} is not followed; write the value plainly")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _fault(event, f"more than {MAX_DEPTH} lists and mappings in each other; write it flatter")
        node = super().compose_node(parent, index)
        self._depth -= 1
        if id(node) not in self._values:
            if isinstance(event, yaml.AliasEvent):
                raise _fault(event, f"the anchor {event.anchor!r} holds itself; write the value out")
            self._values[id(node)] = 1 + sum(self._values[id(each)] for each in _children(node))
        if self._values[id(node)] > MAX_VALUES:
            raise _fault(event, f"more than {MAX_VALUES} values, those of anchors at each use; shorten the file")
        return node

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        event = self.peek_event()
        if CONTROL.search(event.value):
            raise _fault(event, "a control character, or half of a character, in a text; take it out")
        return super().compose_scalar_node(anchor)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if key.tag not in (STR, MERGE) or "\n" in key.value:
                shown = repr(key.value)[:60] if isinstance(key, yaml.ScalarNode) else f"a {key.id}"
                raise _fault(key, f"the key {shown} is not a word; put it in quotes, or correct it")
            if key.value in seen:
                raise _fault(key, f"the key {key.value[:60]!r} stands twice in the same mapping; keep one of them")
            seen.add(key.value)
        return node


def _children(node: yaml.Node | None) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


class _Fault(yaml.MarkedYAMLError):
    """What is good YAML, but not what settings are made of."""


def _fault(place: Any, problem: str) -> _Fault:
    return _Fault(problem=problem, problem_mark=place.start_mark)


PLAIN: dict[str, tuple[str, str, Callable[[str], Any]]] = {
    "null": (r"~|null|Null|NULL|", "~nN", lambda _: None),
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF", lambda text: text.lower() == "true"),
    "int": (r"[-+]?[0-9]{1,18}", "-+0123456789", int),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
        lambda text: float(text.lower().replace(".inf", "inf").replace(".nan", "nan")),
    ),
}
"""What is no word though it stands without quotes, by the last part of its tag: pattern, first characters, value."""


def _teach(name: str, pattern: str, first: str, value: Callable[[str], Any]) -> None:
    tag = f"tag:yaml.org,2002:{name}"
    _Loader.add_implicit_resolver(tag, re.compile(rf"(?:{pattern})\Z"), [*first, *([""] if name == "null" else [])])
    _Loader.add_constructor(tag, lambda loader, node: value(node.value))


for _name, _pattern in PLAIN.items():
    _teach(_name, *_pattern)
_Loader.add_implicit_resolver(MERGE, re.compile(r"<<\Z"), ["<"])


class _Dumper(yaml.SafeDumper):
    """Puts texts into quotes that would be read as something else."""

    yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers


def write_yaml(values: dict[str, Any]) -> str:
    """Values as the text of a file that :func:`read_yaml` reads as the same, innermost sections in a line."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120)


def one_line(values: Any) -> str:
    """Values as a line of such a file, however long, with lists and mappings in brackets."""
    text = yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=True, width=10**6)
    return text.removesuffix("\n").removesuffix("\n...")


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a mapping from a YAML file.

    Raises
    ------
    StageError
        If there is no such file, or it holds something else.
    """
    try:
        if path.exists() and not path.is_file():
            raise StageError(f"{path}: is no file but a folder or a device; give a YAML file")
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise StageError(
                f"{path}: larger than {MAX_BYTES // 1024} KiB, which no settings are; shorten it, long lists of points"
                " can stand in a markups file"
            )
        values = yaml.load(data.decode("utf-8"), _Loader)  # a safe one
    except FileNotFoundError:
        raise StageError(f"{path}: no such file; correct the name") from None
    except OSError as error:
        raise StageError(f"{path}: cannot be read ({error.strerror}); repair its permissions or its disk") from None
    except UnicodeDecodeError:
        raise StageError(f"{path}: is no text in UTF-8; save it as such") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise StageError(f"{path}{place}: {_message_of(error, 'correct it there')}") from None
    if not isinstance(values, dict):
        raise StageError(f"{path}: holds {_kind(values)}, a mapping of keys to values is wanted; see config/cases/")
    return values


def value_of(text: str) -> Any:
    """What a text stands for as a value of a key.

    Raises
    ------
    ValueError
        In words, if it is no value.
    """
    try:
        return yaml.load(text, _Loader)  # a safe one
    except yaml.YAMLError as error:
        raise ValueError(_message_of(error, "put a text with signs into single quotes")) from None


def _message_of(error: yaml.YAMLError, remedy: str) -> str:
    """How a text breaks the rules; the remedy is of what is no YAML."""
    if isinstance(error, _Fault):
        return str(error.problem)
    said = [getattr(error, "context", None), getattr(error, "problem", None) or getattr(error, "reason", "not text")]
    text = CONTROL.sub("?", " ".join(part for part in said if part)).replace("\n", " ")
    return f"not readable as YAML ({text[:200]}); {remedy}"


def _kind(value: Any) -> str:
    return {type(None): "nothing", list: "a list", str: "a text"}.get(type(value), "a single value")
