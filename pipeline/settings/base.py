"""What the settings of all stages are made of, how they are read, and what is said of mistakes in them."""

import difflib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from solver.stage import StageError

T = TypeVar("T", bound="Section")

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Point = tuple[Finite, Finite, Finite]

_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
Name = Annotated[str, Field(pattern=f"^{_NAME}$")]
"""Names of cases and openings: they become names of files, columns and options."""

RunName = Annotated[str, Field(pattern=f"^{_NAME}(@{_NAME})?$")]
"""Name of a case, with that of the scenario that it runs in where there are scenarios."""


class Section(BaseModel):
    """Base of all settings: unknown keys are errors, values cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def existing(path: str) -> str:
    """A path with its variables and ``~`` filled in, for a validator: ValueError if there is no such file or folder."""
    expanded = os.path.expandvars(path)
    if unset := re.search(r"\$\{?(\w+)", expanded):
        raise ValueError(f"the environment variable {unset[1]} is not set; set it, or write the path out")
    expanded = str(Path(expanded).expanduser())
    if not Path(expanded).exists():
        raise ValueError("no such file or folder; correct the path")
    return expanded


def parse(model: type[T], values: dict[str, Any], source: str | Callable[[str], str]) -> T:
    """Validate settings.

    Parameters
    ----------
    model : the settings' class.
    values : as read from YAML or JSON.
    source : file or option that they came from, for the message; where they came from several, what tells the place of
        a dotted key, together with the key.

    Raises
    ------
    StageError
        One line a mistake: source, key, value, and what would be right.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise StageError("\n".join(_line(model, detail, source) for detail in error.errors())) from None


def _line(model: type[Section], detail: Any, source: str | Callable[[str], str]) -> str:
    path = ".".join(str(part) for part in detail["loc"])
    place = source(path) if callable(source) else f"{source}: {path or 'case'}"
    if detail["type"] == "extra_forbidden":
        known = _keys_at(model, detail["loc"][:-1])
        near = difflib.get_close_matches(str(detail["loc"][-1]), known, n=1, cutoff=0.5)
        advice = f"did you mean {near[0]}?" if near else f"known keys: {', '.join(known)}"
        return f"{place}: unknown key (value {_short(detail['input'])}); {advice}"
    if detail["type"] == "missing":
        return f"{place}: missing; it has no default"
    reason = detail["msg"].removeprefix("Value error, ")
    value = (
        "" if detail["type"] == "value_error" and isinstance(detail["input"], dict) else f" = {_short(detail['input'])}"
    )
    unit = _unit(path)
    hint = f" (a plain number in {unit})" if unit and isinstance(detail["input"], str) else ""
    return f"{place}{value}: {reason[:1].lower()}{reason[1:]}{hint}"


UNITS = {
    "_n_m3": "N/m3", "_ml_s": "mL/s", "_mmhg": "mmHg", "_kg_m3": "kg/m3", "_pa_s": "Pa s", "_m_s": "m/s", "_mm": "mm",
    "_s": "s",
}  # fmt: skip


def _unit(path: str) -> str | None:
    return next((unit for suffix, unit in UNITS.items() if path.rstrip(".0123456789").endswith(suffix)), None)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _keys_at(model: type[Section], location: tuple[Any, ...]) -> list[str]:
    """Keys that are allowed at a place of the settings."""
    schema = model.model_json_schema()
    definitions = schema.get("$defs", {})

    def resolve(node: dict[str, Any]) -> dict[str, Any]:
        for option in (node, *node.get("anyOf", ())):
            if "$ref" in option:
                return definitions[option["$ref"].rsplit("/", 1)[1]]
            if "discriminator" in option:
                return {"properties": {key: {"$ref": to} for key, to in option["discriminator"]["mapping"].items()}}
        return node

    node = schema
    for part in location:
        child = node.get("items") if isinstance(part, int) else node.get("properties", {}).get(part)
        node = resolve(child or node.get("additionalProperties") or {})
    return sorted(node.get("properties", {}))


def dotted_keys(model: type[Section]) -> list[str]:
    """Keys of settings that hold a value, each with the sections that it lies in: ``solve.inlets.*.flow_ml_s``.

    ``*`` stands where a name is free, ``[]`` behind a list of sections.
    """
    schema = model.model_json_schema()

    def options(node: dict[str, Any]) -> list[dict[str, Any]]:
        """What a place may hold."""
        if "$ref" in node:
            return options(schema["$defs"][node["$ref"].rsplit("/", 1)[1]])
        either = [*node.get("anyOf", ()), *node.get("oneOf", ())]
        return [option for each in either for option in options(each)] or [node]

    def walk(node: dict[str, Any], path: str) -> Iterator[str]:
        for option in options(node):
            free = option.get("additionalProperties")
            children = option.get("properties", {}) | ({"*": free} if isinstance(free, dict) else {})
            for key, child in children.items():
                yield from walk(child, f"{path}.{key}" if path else key)
            sections = any("properties" in item for item in options(option.get("items", {})))
            if not children and option.get("type") not in ("null", "object"):
                yield f"{path}[]" if sections else path

    return list(dict.fromkeys(walk(schema, "")))


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a mapping from a YAML file.

    Raises
    ------
    StageError
        If there is no such file, or it holds something else.
    """
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StageError(f"{path}: no such file") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise StageError(
            f"{path}{place}: not readable as YAML ({getattr(error, 'problem', None) or 'not text'})"
        ) from None
    if not isinstance(values, dict):
        raise StageError(f"{path}: holds {type(values).__name__}, a mapping of keys to values is wanted")
    return values
