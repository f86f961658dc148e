# SPDX-License-Identifier: Apache-2.0
"""What the settings of all stages are made of, how they are read, and what is said of mistakes in them."""

import difflib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from reprlib import Repr
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from solver.runtime.checksums import BY_CHECKSUM, checksum
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT

T = TypeVar("T", bound="Section")

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Point = tuple[Finite, Finite, Finite]
Voxel = tuple[int, int, int]


def several(given: Any) -> Any:
    """A list of points, of which one may be given without the brackets of the list."""
    flat = isinstance(given, list | tuple) and len(given) == 3 and not any(isinstance(x, list | tuple) for x in given)
    return [given] if flat and not any(isinstance(each, dict) for each in given) else given


Points = Annotated[tuple[Point, ...], BeforeValidator(several)]
Voxels = Annotated[tuple[Voxel, ...], BeforeValidator(several)]

_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
Name = Annotated[str, Field(pattern=f"^{_NAME}$")]
"""Names of cases and openings: they become names of files, columns and options."""

RunName = Annotated[str, Field(pattern=f"^{_NAME}(@{_NAME})?$")]
"""Name of a case, with that of the scenario that it runs in where there are scenarios."""

KEPT = (Path("data/phantoms"), Path("data/waveforms"), Path("data/networks"))
"""Folders of the project whose files cases may name from elsewhere, too, and in which a file is found by its
checksum."""

SIZE = (1e-20, 1e20)
"""Between these lies every number of a case that is not 0, whatever its unit."""


class Section(BaseModel):
    """Base of all settings: unknown keys are errors, values cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def shipped(path: Path) -> Path:
    """A file or folder of the working directory or, where it has none of this relative path, the project's own."""
    return path if path.is_absolute() or path.exists() or not (ROOT / path).exists() else ROOT / path


def existing(path: str) -> str:
    """A path with its variables and ``~`` filled in, for a validator. A file of :data:`KEPT` is found from other
    folders, too (:func:`shipped`); a checksum, ``sha256:...``, stands for the one that has it.

    Raises
    ------
    ValueError
        If there is no such file or folder, or no stage could take it.
    """
    if not path or not path.isprintable():
        raise ValueError(
            f"{'holds a character that does not show' if path else 'is empty'}; give the path of a file or a folder"
        )
    if path.startswith(BY_CHECKSUM):
        return _of_checksum(path.removeprefix(BY_CHECKSUM))
    expanded = os.path.expandvars(path)
    if unset := re.search(r"\$\{?(\w+)", expanded):
        raise ValueError(f"the environment variable {unset[1]} is not set; set it, or write the path out")
    try:
        found = Path(expanded).expanduser()
        if found.parent in KEPT:
            found = shipped(found)
        if not found.exists():
            raise ValueError("no such file or folder; correct the path")
        if not (found.is_file() or found.is_dir()):
            raise ValueError("is a device or a pipe; give a file or a folder")
    except OSError as error:
        raise ValueError(f"cannot be reached ({error.strerror}); correct the path") from None
    except RuntimeError:
        raise ValueError("there is no such user; write the path out") from None
    expanded = str(found.absolute() if str(found).startswith("-") else found)  # else it would be taken for an option
    if marks := sorted({*expanded} & {*"{}<"}):
        raise ValueError(f"holds {' '.join(marks)}, which Snakemake would fill in; rename the file or the folder")
    return expanded


def _of_checksum(wanted: str) -> str:
    folders = [place / folder for place in (Path(), ROOT) for folder in KEPT]
    files = [file for folder in folders for file in sorted(folder.glob("*")) if file.is_file()]
    found = next((str(file) for file in files if checksum(file) == wanted), None)
    if not found:
        names = ", ".join(map(str, KEPT))
        raise ValueError(f"stands for a file with this checksum, and none in {names} has it; write the file's path")
    return found


def existing_file(path: str | None) -> str | None:
    """As :func:`existing`, but no folder; none if there is none."""
    if path is None:
        return None
    found = existing(path)
    if not Path(found).is_file():
        raise ValueError("no such file, but a folder; correct the path")
    return found


MAX_MISTAKES = 100
"""Lines about one file; more follow from one cause."""
MAX_LINE, HEAD, TAIL = 1000, 600, 390
"""Characters of a line, and of its ends where it is shortened: the remedy stands at the end."""


CONFIG = "config/config.yaml"
"""The configuration's own file."""

Source = str | Callable[[str], str]
"""A file or option that settings came from, or what tells the place of a dotted key, together with the key."""


def parse(model: type[T], values: dict[str, Any], source: Source) -> T:
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
        found = model.model_validate(values)
        lines = [
            f"{placed(source, '.'.join(place))} = {given!r}: {reason}"
            for place, given, reason in _doubts(values, found)
        ]
    except ValidationError as error:
        lines = [_line(model, place, details, source) for place, details in _mistakes(error, values)]
    else:
        if not lines:
            return found
    left = len(lines) - MAX_MISTAKES
    more = [f"{placed(source, '')}: {left} more mistakes; repair these first"] if left > 0 else []
    raise StageError("\n".join([*map(_one_line, lines[:MAX_MISTAKES]), *more]))


def _doubts(given: Any, taken: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, str]]:
    """Values that pass for what they hardly are, each with its place: ``true`` for 1, and numbers of no quantity."""
    if isinstance(given, dict):
        for key, value in given.items():
            within = taken[key] if isinstance(taken, dict) else getattr(taken, key)
            yield from _doubts(value, within, (*place, _brief(key)))
    elif isinstance(given, list | tuple):
        listed = given if len(given) == len(taken) else several(given)
        for number, pair in enumerate(zip(listed, taken, strict=True)):
            yield from _doubts(*pair, (*place, str(number)))
    elif isinstance(given, bool) and not isinstance(taken, bool):
        yield place, given, "input should be no true or false; write what is meant"
    elif isinstance(taken, int | float) and taken and not SIZE[0] <= abs(taken) <= SIZE[1]:
        yield place, given, f"input should be 0 or, without its sign, from {SIZE[0]:g} to {SIZE[1]:g}"


Location = tuple[Any, ...]


def _mistakes(error: ValidationError, values: Any) -> Iterator[tuple[Location, list[Any]]]:
    """Mistakes by their place in the values, each with all that was said of it: a value that may be of several kinds is
    a message that it is none of them; of a list or a mapping perhaps just its parts.
    """
    found: dict[tuple[Location, str], list[Any]] = {}
    for detail in error.errors(include_url=False):
        found.setdefault((_place(detail, values), _short(detail["input"])), []).append(detail)
    for (path, given), details in found.items():
        left_out = details[0]["type"] == "too_short"  # a list, of its wrong parts
        within = [place for place, value in found if place[: len(path)] == path and (place, value) != (path, given)]
        if not any(left_out or place != path for place in within):
            yield path, details


def _place(detail: Any, values: Any) -> Location:
    """Where a mistake stands in the values: its location without the names of the kinds that were tried."""
    place: list[Any] = []
    for part in detail["loc"]:
        inside = part in values if isinstance(values, Mapping) else isinstance(part, int) and _has(values, part)
        if inside:
            values = values[part]
            place.append(part)
    missing = detail["type"] == "missing"
    return (*place, detail["loc"][-1]) if missing else tuple(place)


def _has(values: Any, index: int) -> bool:
    return isinstance(values, list | tuple) and index < len(values)


def placed(source: Source, path: str) -> str:
    """Where a key's value comes from, with the key."""
    return source(path) if callable(source) else f"{source}: {path}" if path else source


def _line(model: type[Section], location: Location, details: list[Any], source: Source) -> str:
    path, detail = ".".join(_brief(str(part)) for part in location), details[0]
    place = placed(source, path)
    if detail["type"] == "extra_forbidden":
        known = _keys_at(model, detail["loc"][:-1])
        near = difflib.get_close_matches(str(location[-1])[:60], known, n=1, cutoff=0.5)
        elsewhere = [each for each in dotted_keys(model) if each.endswith(f".{location[-1]}")]
        advice = f"did you mean {near[0]}?" if near else f"known keys: {', '.join(known)}"
        if elsewhere and not near:
            advice = f"it stands in {' or '.join(elsewhere[:3])}"
        return f"{place}: unknown key (value {_short(detail['input'])}); {advice}"
    if detail["type"] == "missing":
        if isinstance(location[-1], int):
            whole = placed(source, path.rpartition(".")[0])
            return f"{whole}: its number {location[-1] + 1} is missing; give it, too"
        return f"{place}: missing; give it, it has no default"
    about_several = detail["type"] == "value_error" and isinstance(detail["input"], dict)
    value = "" if about_several else f" = {_short(detail['input'])}"
    unit = _unit(path)
    hint = (
        f" (a plain number in {unit})"
        if unit and isinstance(detail["input"], str) and detail["type"] != "tuple_type"
        else ""
    )
    if detail["type"] in OF_MAPPINGS and (known := _keys_at(model, detail["loc"])):
        hint = f" ({', '.join(known)})"
        if location[-1] in known:
            hint = f"; a name stands above {location[-1]}, or '*' for all: {{'*': {{{location[-1]}: {value[3:]}}}}}"
    return f"{place}{value}: {_reason(details)}{hint}"


ASKS = "input should be "
OF_MAPPINGS = ("model_type", "dict_type", "model_attributes_type")
"""What pydantic calls a value where a mapping should be."""


def _reason(details: list[Any]) -> str:
    """What was said, each thing once, in one sentence."""
    said = list(dict.fromkeys(_said(detail) for detail in details))
    asks = [text.removeprefix(ASKS) for text in said if text.startswith(ASKS)]
    return "; ".join([*([ASKS + " or ".join(asks)] if asks else []), *(t for t in said if not t.startswith(ASKS))])


def _said(detail: Any) -> str:
    """What pydantic says, where its words are not those of a case file in such words."""
    if detail["type"] in OF_MAPPINGS:
        return f"{ASKS}a mapping of keys to values"
    if detail["type"] == "tuple_type":
        return f"{ASKS}a list in brackets; a point is [x, y, z]"
    if detail["input"] == "None":
        return f"{ASKS}null where nothing is meant"
    if detail["type"] == "union_tag_invalid":
        key, tag = detail["ctx"]["discriminator"].strip("'"), _brief(detail["ctx"]["tag"])
        return f"its key {key} is {tag!r}; give one of {detail['ctx']['expected_tags']}"
    if detail["type"] == "union_tag_not_found":
        key = detail["ctx"]["discriminator"].strip("'")
        return f"its key {key} is missing; give it"
    if detail["type"] == "string_pattern_mismatch":  # of a Name: no other text has a pattern
        return f"{ASKS}a name of at most 64 letters, digits and _ . -, and begin with a letter or a digit"
    text = detail["msg"].removeprefix("Value error, ")
    return text[:1].lower() + text[1:]


def _one_line(text: str) -> str:
    """With what breaks a line, or what a terminal obeys, written out; and not too long."""
    text = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
    return text if len(text) <= MAX_LINE else f"{text[:HEAD]} ... {text[-TAIL:]}"


UNITS = {
    "_n_m3": "N/m3",
    "_ml_s": "mL/s",
    "_mmhg": "mmHg",
    "_kg_m3": "kg/m3",
    "_pa_s": "Pa s",
    "_m_s": "m/s",
    "_mm": "mm",
    "_s": "s",
}


def _unit(path: str) -> str | None:
    return next((unit for suffix, unit in UNITS.items() if path.rstrip(".0123456789").endswith(suffix)), None)


_REPR = Repr()
_REPR.maxlevel, _REPR.maxlist, _REPR.maxtuple, _REPR.maxdict, _REPR.maxstring, _REPR.maxother = 3, 4, 4, 4, 60, 60


def _short(value: Any) -> str:
    try:
        return _brief(_REPR.repr(value))
    except ValueError:  # an integer of thousands of digits
        return "a number of very many digits"


def _brief(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


@cache
def _schema(model: type[Section]) -> dict[str, Any]:
    """JSON schema of settings, of which that of a case takes half a second."""
    return model.model_json_schema()


def _keys_at(model: type[Section], location: tuple[Any, ...]) -> list[str]:
    """Keys that are allowed at a place of the settings."""
    schema = _schema(model)
    definitions = schema.get("$defs", {})

    def resolve(node: dict[str, Any]) -> dict[str, Any]:
        for option in (node, *node.get("anyOf", ())):
            if "$ref" in option:
                return definitions[option["$ref"].rsplit("/", 1)[1]]
            if "discriminator" in option:
                return {"properties": {key: {"$ref": to} for key, to in option["discriminator"]["mapping"].items()}}
            if "oneOf" in option:  # of models that are told apart by a function, each by the tag that is its name
                return {"properties": {each["$ref"].rsplit("/", 1)[1]: each for each in option["oneOf"]}}
        return node

    node = schema
    for part in location:
        child = node.get("items") if isinstance(part, int) else node.get("properties", {}).get(part)
        named = next(iter(node.get("patternProperties", {}).values()), None)  # by names of a pattern
        node = resolve(child or node.get("additionalProperties") or named or {})
    return sorted(node.get("properties", {}))


def dotted_keys(model: type[Section]) -> list[str]:
    """Keys of settings that hold a value, each with the sections that it lies in: ``solve.inlets.*.flow_ml_s``.

    ``*`` stands where a name is free, ``[]`` behind a list of sections.
    """
    schema = _schema(model)

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
