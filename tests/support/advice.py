# SPDX-License-Identifier: Apache-2.0
"""What a refusal advises, taken from its own words, and done.

A case is run as the workflow runs it, stage after stage, each on the files of those before it, and each again only
where its settings or its files have changed. A refusal's advice is a setting that is written out, ``section.key:
value`` or ``section: {key: value}``, or what a user does to files, by the verb (`DEEDS`). Nothing else of a message is
understood.
"""

import hashlib
import importlib
import json
import logging
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pipeline.case.case_file import Case
from pipeline.case.settings.base import parse
from pipeline.case.stages import WITH_SETTINGS
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job

LOG = logging.getLogger("advice")
Values = dict[str, Any]

IMAGES = ("load", "filter", "segment", "surface")
CHAINS = {
    "dicom": IMAGES,
    "volume": IMAGES,
    "mask": ("import_mask", "surface"),
    "surface": ("import_surface",),
}
AFTER = ("centreline", "plausibility", "voxelize", "decompose", "solve")
"""Stages by the entry of a case, and those that all have."""

_SHAPE = {"surface": "surface.vtp", "openings": "openings.json"}
_LUMEN = {
    "lumen": "lumen.nrrd",
    "occupancy": "occupancy.nrrd",
    "segmentation": "segmentation.json",
    "picture": "segmentation.png",
    "page": "segmentation.html",
}
_LINES = {"centreline": "centreline.vtp", "branches": "branches.csv", "summary": "centreline.json"}
FILES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "load": ({}, {"volume": "volume.nrrd", "series": "series.json"}),
    "filter": ({"volume": "volume.nrrd"}, {"filtered": "filtered.nrrd"}),
    "segment": ({"filtered": "filtered.nrrd", "volume": "volume.nrrd", "series": "series.json"}, _LUMEN),
    "import_mask": ({}, _LUMEN),
    "surface": (
        {"occupancy": "occupancy.nrrd", "segmentation": "segmentation.json", "filtered": "filtered.nrrd"},
        _SHAPE,
    ),
    "import_surface": ({}, _SHAPE),
    "centreline": (_SHAPE | {"segmentation": "segmentation.json"}, _LINES),
    "plausibility": (
        {"openings": "openings.json", "segmentation": "segmentation.json", "centreline": "centreline.json"},
        {"plausibility": "plausibility.json"},
    ),
    "voxelize": (_SHAPE | {"centreline": "centreline.json", "lines": "centreline.vtp"}, {"lattice": "lattice.vti"}),
    "decompose": (_SHAPE | {"lattice": "lattice.vti"}, {"nodes": "nodes.h5"}),
}
"""What each stage reads and writes, by role, as the rules of the workflow say."""
GIVEN = {"import_mask": "mask", "import_surface": "given"}


@dataclass(frozen=True)
class Refusal:
    """A stage and what it said."""

    stage: str
    said: str

    @property
    def cause(self) -> str:
        """What is wrong, without the numbers, names of files and places, which advice may change."""
        words = re.sub(r"[-+]?\d[\d.,e+-]*", "#", self.said.splitlines()[0])
        return re.sub(r"[(\[][^)\]]*[)\]]", "", words)[:70]


class Workflow:
    """The stages of a case in a folder, up to one of them."""

    def __init__(self, folder: Path, until: str):
        self.folder, self.until = folder, until
        self.done: dict[str, str] = {}
        self.ran: list[str] = []

    def run(self, values: Values) -> Refusal | None:
        """Run what is not done; the refusal, or none where the last stage has passed."""
        stage = "case"
        try:
            case = parse(Case, values, "case")
            for stage in self._stages(case):
                self._stage(stage, case)
        except StageError as error:
            return Refusal(stage, str(error))
        return None

    def _stages(self, case: Case) -> Iterator[str]:
        for stage in (*CHAINS[case.input.entry], *AFTER):
            yield stage
            if stage == self.until:
                return

    def _stage(self, stage: str, case: Case) -> None:
        settings = case.settings(stage)
        given = Path(getattr(case.input, case.input.entry))
        inputs = {role: self.folder / file for role, file in FILES[stage][0].items()}
        if case.input.entry == "surface" or (case.input.entry == "mask" and stage == "centreline"):
            inputs.pop("segmentation", None)
        if case.input.entry == "mask":
            inputs.pop("filtered", None)
        if stage in GIVEN:
            inputs[GIVEN[stage]] = given
        sources = [given] if stage == "load" else [*inputs.values()]
        state = digest(settings, *sources)
        if self.done.get(stage) == state:
            return
        outputs = {role: self.folder / file for role, file in FILES[stage][1].items()}
        job = Job(stage, inputs, outputs, json.loads(settings), LOG, lists={"source": [given]})
        importlib.import_module(f"pipeline.stages.{stage}")._compute(job)
        self.done[stage] = state
        self.ran.append(stage)


def digest(settings: str, *paths: Path) -> str:
    """Of settings and files, those of folders among them."""
    found = hashlib.sha256(settings.encode())
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                found.update(str(file).encode() + file.read_bytes())
    return found.hexdigest()


# ---- what is advised -------------------------------------------------------------------------------------------------

_KEY = re.compile(rf"(?<![\w.])((?:{'|'.join((*WITH_SETTINGS, 'input', 'accept'))})(?:\.[\w*]+)*)(?:: | to )")
DEEDS = {
    "take out": r"take (?:them|these slices|the wrong one|those that do not belong) out|take out those"
    r"|leave out the slices",
    "again": r"(?:copy|export|save)\b[^;]*?\bagain|take a complete series|give the whole series",
    "other images": r"choose a series with contrast agent",
    "mend": r"in the program that made|[Jj]oin the (?:parts|pieces)|delete what does not belong|smooth or repair"
    r"|[Ee]xport the lumen's surface alone",
    "move": r"rename or move",
    "row": r"add a row of",
    "cut plane": r"segment\.cut_planes(?!:)",
}
"""What a user does to files, by what tells of it."""


@dataclass(frozen=True)
class Advice:
    """One way out: settings to merge into the case, or a deed."""

    text: str
    settings: Values
    deed: str = ""


def advised(said: str, values: Values) -> list[Advice]:
    """All ways out that a refusal names, in its order; settings that "and" joins are one way."""
    found: list[tuple[int, int, Advice]] = []
    for match in _KEY.finditer(said):
        text = _value(said[match.end() :])
        if match[0].endswith(" to ") and not re.fullmatch(r"[\d.]+", text):  # "set it to the number of ..."
            continue
        setting = _nested(match[1], text) if text else None
        if setting is None or not _taken(setting, values):
            continue
        start, end, reported = match.start(), match.end() + len(text), said[match.start() : match.end() + len(text)]
        if found and said[found[-1][1] : start] == " and ":
            start, before = found[-1][0], found.pop()[2]
            setting, reported = merged(before.settings, setting), f"{before.text} and {reported}"
        found.append((start, end, Advice(reported, setting)))
    for deed, pattern in DEEDS.items():
        found += [(match.start(), match.end(), Advice(match[0], {}, deed)) for match in re.finditer(pattern, said)]
    return [each for *_, each in sorted(found, key=lambda one: one[:2])]


def _value(text: str) -> str:
    """The value that a text begins with: up to the end of its brackets, or of a word."""
    if text[:1] in ("[", "{"):
        depth = 0
        for place, sign in enumerate(text):
            depth += (sign in "[{") - (sign in "]}")
            if not depth:
                return text[: place + 1]
        return ""
    match = re.match(r"'[^']*'|[\w.+-]*\w", text)
    return match[0] if match else ""


def _nested(key: str, text: str) -> Values | None:
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return None
    for part in reversed(key.split(".")):
        value = {part: value}
    return value


def _taken(setting: Values, values: Values) -> bool:
    """Whether the case takes it there: words of a sentence that look like a setting are none."""
    ((section, inner),) = setting.items()
    if isinstance(inner, str):
        return False
    try:
        parse(Case, merged(values, setting), "case")
    except StageError as error:
        lines = str(error).splitlines()
        keys = [f"{section}.{key}" for key in inner] if isinstance(inner, dict) else [section]
        return not any(
            line.removeprefix("case: ").startswith(key) and "did you mean" not in line for line in lines for key in keys
        )
    return True


def merged(values: Values, over: Values) -> Values:
    """A case with settings over it; sections are merged, all else is replaced."""
    result = deepcopy(values)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else deepcopy(value)
    return result


# ---- following it ----------------------------------------------------------------------------------------------------

Deeds = dict[str, Callable[[str], Values | None]]
"""What a user does where files are to be changed, by its name; where a place is to be marked, settings that do it."""
MOST = 8


@dataclass(frozen=True)
class Step:
    """A refusal, and which of its ways out was taken; none at the end."""

    refusal: Refusal
    taken: Advice | None


def follow(
    run: Callable[[Values], Refusal | None], values: Values, deeds: Deeds | None = None, first: int = 0
) -> list[Step]:
    """Do what each refusal advises until nothing is refused any more, or nothing is left to do; the way there.

    Parameters
    ----------
    run : runs a case.
    values : of the case.
    deeds : what the user can do to the files; a deed that is missing here is none that he can do.
    first : which way out of the first refusal is taken; later on it is the first that can be.

    Raises
    ------
    AssertionError
        If a cause comes back, or a refusal names no way out.
    """
    steps: list[Step] = []
    for _ in range(MOST):
        if (refusal := run(values)) is None:
            return steps
        assert refusal.cause not in [step.refusal.cause for step in steps], (
            f"{refusal.said!r} again, after {steps[-1].taken}"
        )
        ways = advised(refusal.said, values)
        assert ways, f"no way out of {refusal.said!r}"
        able = [way for way in ways if not way.deed or way.deed in (deeds or {})]
        rank = first if not steps else 0
        way = able[rank] if rank < len(able) else None
        steps.append(Step(refusal, way))
        if way is None:
            return steps
        if way.deed:
            values = merged(values, (deeds or {})[way.deed](refusal.said) or {})
        values = merged(values, way.settings)
    raise AssertionError(f"no end after {MOST} refusals: {[step.refusal.said for step in steps]}")
