# SPDX-License-Identifier: Apache-2.0
"""Whatever stands in a case file, it is a case that reaches every stage, or is refused with one line a mistake."""

import copy
import json
import os
import re
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.case.case_file import Case, read_cohort
from pipeline.case.settings.base import MAX_LINE, parse
from pipeline.case.settings.flow import ReportSettings
from pipeline.case.settings.geometry import SurfaceSettings
from pipeline.case.settings.transport import TransportInput
from pipeline.case.settings.yaml_file import read_yaml, value_of
from pipeline.case.stages import OF_NETWORK, WITH_SETTINGS
from pipeline.geometry.closed_surface import SurfaceStage
from pipeline.geometry.given_surface import GivenSurface
from pipeline.geometry.lattice.spacing import SpacingSettings
from pipeline.stages.canonical import CanonicalInput
from pipeline.stages.convergence import ConvergenceInput
from pipeline.stages.couple import CoupleInput
from pipeline.stages.import_mask import MaskSettings
from pipeline.stages.plausibility import PlausibilityInput
from solver.run.settings import parse as parse_solve
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT

BASES = [file for file in sorted((ROOT / "config/cases").glob("*.yaml")) if "HEMO_CASES" not in file.read_text()]
"""Those that need no data of patients."""

MODELS: dict[str, Any] = {
    "import_mask": MaskSettings,
    "surface": SurfaceStage,
    "import_surface": GivenSurface,
    "canonical": CanonicalInput,
    "centreline": SurfaceSettings,
    "couple": CoupleInput,
    "voxelize": SpacingSettings,
    "convergence": ConvergenceInput,
    "plausibility": PlausibilityInput,
    "transport": TransportInput,
    "crate": Case,
    "tree_report": ReportSettings,
}
"""What command lines take that is not a section of the case."""


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)


def strict(text: str) -> Any:
    """JSON without the numbers that are none."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in the settings of a stage"))


def require_that_every_stage_takes(case: Case) -> None:
    """What is handed over comes back the same from the command line's parser."""
    for stage in WITH_SETTINGS:
        if case.input.network and stage not in OF_NETWORK:
            continue
        entry = {"import_surface": "surface", "canonical": "geometry"}.get(stage)
        if (entry and case.input.entry != entry) or (stage == "plausibility" and case.input.geometry):
            continue
        if stage == "couple" and not case.coupling:
            continue
        for level in range(3):
            values = strict(case.settings(stage, level))
            if stage == "solve":
                parse_solve(values)
                continue
            model = MODELS.get(stage) or Case.model_fields[stage].annotation
            assert parse(model, values, stage).model_dump(mode="json", exclude_unset=True) == values


def require_one_line_a_mistake(message: str, source: str) -> list[str]:
    """Each line names the file, says what is wanted, and is short and plain."""
    lines = message.split("\n")
    for line in lines:
        assert line.startswith(source), line
        assert line.isprintable(), line
        assert len(line) <= MAX_LINE, line
        assert re.search(r"input should|[;:] \w+", line), line
    assert len(lines) == len(set(lines))
    return lines


def judge(path: Path) -> list[str]:
    """The lines of a refusal; none of a case that is valid."""
    start = time.monotonic()
    try:
        case = read_cohort({"cases": [path.stem]}, path.parent)[path.stem]
    except StageError as error:
        return require_one_line_a_mistake(str(error), str(path))
    finally:
        assert time.monotonic() - start < 20  # 0.1 s on an idle core; of the largest file that is read 5 s
    require_that_every_stage_takes(case)
    return []


# ---- mutations of the values -----------------------------------------------------------------------------------------

Path_ = tuple[Any, ...]
HUGE = "9" * 400
WORDS = [
    "",
    " ",
    "auto",
    "none",
    "*",
    "3.5 mPa s",
    "1,5",
    "0x10",
    "1_000",
    "yes",
    "nan",
    HUGE,
    "x" * 20_000,
    "ü漢字🩸",
    "../../etc/passwd",
    "/dev/zero",
    "/dev/null",
    "~nobody-of-this-name/a",
    "${HEMO_NOT_SET}",
    "$(touch canary)",
    "`touch canary`",
    "a; touch canary",
    "-rf",
    "data",
    "Snakefile",
    "a/" * 3000,
    "'\"",
    "{}",
    "{case}",
    "%s",
    "\\x00",
]
NUMBERS = [
    0,
    -1,
    1,
    2,
    7,
    0.5,
    -0.0,
    1e-3,
    1e-30,
    1e30,
    1e308,
    -1e308,
    5e-324,
    float("nan"),
    float("inf"),
    float("-inf"),
    2**31,
    2**63,
    2**64,
    10**400,
]
scalars = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(NUMBERS),
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
)
values = st.one_of(
    scalars,
    st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
        max_leaves=8,
    ),
    st.sampled_from([[], {}, [[]], [[[[[[1]]]]]], [None] * 3, [1, 2, 3], [True, 2, 3], {"name": "a"}, ["a"] * 500]),
)


def places(node: Any, at: Path_ = ()) -> list[Path_]:
    """Where values stand."""
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [at, *(place for key, value in inner for place in places(value, (*at, key)))]


def known_keys() -> list[tuple[str, str]]:
    """Keys of all sections of a case, with their section."""
    sections = {name: field.annotation for name, field in Case.model_fields.items()}
    return [(name, key) for name, model in sections.items() for key in getattr(model, "model_fields", ())]


KEYS = known_keys()


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """The text of a case file in which up to three values or keys are others."""
    tree = read_yaml(draw(st.sampled_from(BASES)))
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["value", "value", "set", "set", "rename", "remove", "move"]))
        place = draw(st.sampled_from(places(tree)[1:] or [()]))
        if not place:
            break
        node: Any = tree
        for part in place[:-1]:
            node = node[part]
        value = copy.deepcopy(draw(values))
        if kind == "value":
            node[place[-1]] = value
        elif kind == "set":
            section, key = draw(st.sampled_from(KEYS))
            if not isinstance(tree.setdefault(section, {}), dict):
                tree[section] = {}
            tree[section][key] = value
        elif kind == "rename" and isinstance(node, dict):
            name = draw(st.sampled_from([f"{place[-1]}x", place[-1].upper(), "a b", "-x", "ü", "k" * 300, ""]))
            node[name] = node.pop(place[-1])
        elif kind == "remove":
            node.pop(place[-1])
        elif kind == "move":
            tree[draw(st.sampled_from([name for name, _ in KEYS]))] = copy.deepcopy(node)
    return yaml.safe_dump(tree, allow_unicode=draw(st.booleans()), sort_keys=False)


@given(mutated())
@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_case_file_with_other_values_is_a_case_or_is_refused_in_words(tmp_path_factory, text):
    path = folder_of(tmp_path_factory) / "patient.yaml"
    path.write_text(text, encoding="utf-8")
    judge(path)
    assert not Path("canary").exists()


def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples."""
    folder = tmp_path_factory.getbasetemp() / "bad-cases"
    folder.mkdir(exist_ok=True)
    return folder


# ---- mutations of the text -------------------------------------------------------------------------------------------

Rng = np.random.Generator
INSERTED = [
    "\t",
    "\0",
    "\x1b[2J",
    "\r",
    ": ",
    "- ",
    "{",
    "]",
    "'",
    '"',
    "|",
    ">",
    "&a ",
    "*a",
    "<<: *a",
    "!!python/object:os.system",
    "!!python/object/apply:os.system ['touch canary']",
    "!!python/name:os.system",
    "!<tag:yaml.org,2002:python/tuple>",
    "%YAML 3.0",
    "---",
    "...",
    "# ",
    "\u2028",
    "\ufeff",
    "? ",
    "@",
    "`",
]


def flipped(data: bytes, rng: Rng) -> bytes:
    changed = bytearray(data)
    for place in rng.integers(0, len(data), rng.integers(1, 6)):
        changed[place] ^= 1 << rng.integers(8)
    return bytes(changed)


def cut(data: bytes, rng: Rng) -> bytes:
    return data[: rng.integers(len(data))]


def inserted(data: bytes, rng: Rng) -> bytes:
    place = int(rng.integers(len(data)))
    return data[:place] + INSERTED[rng.integers(len(INSERTED))].encode() + data[place:]


def line_twice(data: bytes, rng: Rng) -> bytes:
    lines = data.splitlines(keepends=True)
    lines.insert(int(rng.integers(len(lines))), lines[rng.integers(len(lines))])
    return b"".join(lines)


def lines_swapped(data: bytes, rng: Rng) -> bytes:
    lines = data.splitlines(keepends=True)
    one, other = rng.integers(0, len(lines), 2)
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def noise(data: bytes, rng: Rng) -> bytes:
    return rng.bytes(int(rng.integers(1, 3000)))


MUTATIONS = (flipped, cut, inserted, inserted, line_twice, lines_swapped, noise)


def test_a_case_file_with_a_damaged_text_is_a_case_or_is_refused_in_words(tmp_path):
    rng, refused = np.random.default_rng(7), 0
    for number in range(200):
        data = BASES[rng.integers(len(BASES))].read_bytes()
        (tmp_path / "patient.yaml").write_bytes(MUTATIONS[number % len(MUTATIONS)](data, rng))
        refused += bool(judge(tmp_path / "patient.yaml"))
    assert 100 < refused < 190  # neither is everything refused nor everything taken
    assert not Path("canary").exists()


def chained(each: str, links: int) -> str:
    """Anchors of which each holds the one before nine times."""
    names = [f"a{k}" for k in range(links + 1)]
    lines = [f"{name}: &{name} {each.format(', '.join(['*' + before] * 9))}" for before, name in pairwise(names)]
    return "\n".join(["a0: &a0 {x: 1}", *lines, ""])


def sparse(path: Path) -> None:
    """50 MB of zeros."""
    with path.open("wb") as file:
        file.truncate(50_000_000)


TINY = (ROOT / "config/cases/tiny.yaml").read_text()
TEXTS: dict[str, tuple[str | bytes | Callable[[Path], Any], str]] = {
    "runs a command": ("input: !!python/object/apply:os.system ['touch canary']", "the tag .*os.system' is not"),
    "billion laughs": (TINY + chained("[{}]", 20), "more than 50000 values, those of anchors at each use"),
    "merged without end": (TINY + chained("{{<<: [{}]}}", 20), "more than 50000 values"),
    "holds itself": ("input: &a [*a]", "the anchor 'a' holds itself"),
    "too deep": ("a: " + "[" * 10_000, "more than 30 lists and mappings in each other"),
    "too deep by indentation": ("".join(" " * k + "a:\n" for k in range(500)), "more than 30 lists"),
    "twice": (TINY + "\nsegment: {lower: 3}\n", "the key 'segment' stands twice"),
    "tab": (TINY.replace("  lower", "\tlower"), r"line 10, column 1: .*found character .*cannot start any token"),
    "50 MB": (sparse, "larger than 256 KiB"),
    "50 MB of text": (lambda path: path.write_text("a: [" + "1, " * 16_000_000), "larger than 256 KiB"),
    "a folder": (lambda path: path.mkdir(), "is no file but a folder or a device"),
    "a pipe": (os.mkfifo, "is no file but a folder or a device"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "is no file but a folder or a device"),
    "nothing": ("", "holds nothing, a mapping of keys to values is wanted"),
    "a list": ("- input", "holds a list"),
    "two documents": (TINY + "\n---\n" + TINY, "expected a single document"),
    "another encoding": (TINY.encode("utf-16"), "no text in UTF-8"),
    "half of a character": ('report: {title: "\\ud800"}', "half of a character"),
    "a number as key": ("1: 2", "the key '1' is not a word; put it in quotes"),
    "true for a number": (TINY.replace("185", "true"), "segment.lower = True: input should be no true or false"),
    "yes for a number": (TINY.replace("185", "yes"), "segment.lower = 'yes'.*valid number"),
    "no number": (TINY.replace("185", ".nan"), "segment.lower = nan"),
    "none of a size": (TINY.replace("185", "1e300"), r"segment.lower = 1e\+300: input should be 0 or"),
    "several kinds": (TINY.replace("nodes_across: 10", "spacing_mm: -1"), "spacing_mm = -1: .*greater than 0"),
    "a long value": (TINY.replace("185", "x" * 100_000), r"segment.lower = 'x+\.\.\.x+'"),
    "many points": (TINY.replace("[[4.82", "[" + "[1, 2, 3], " * 9000 + "[4.82"), "settings have .* bytes"),
    "an option for a path": (TINY.replace("data/phantoms/tiny.yaml", "-rf"), "input.phantom = '-rf': no such file"),
    "a long path": (TINY.replace("data/phantoms/tiny.yaml", "a" * 5000), "cannot be reached"),
    "a path of a device": (TINY.replace("data/phantoms/tiny.yaml", "/dev/zero"), "is a device or a pipe"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_wrong_with_a_text_is_said_in_one_line(name, tmp_path):
    content, said = TEXTS[name]
    path = tmp_path / "patient.yaml"
    if callable(content):
        content(path)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (line,) = judge(path)
    assert re.search(said, line), line
    assert not Path("canary").exists()


def test_words_and_numbers_are_distinguished_as_editors_do(tmp_path):
    """YAML 1.2: what 1.1 takes for octal, for base 60, for a date or for false are words or plain numbers."""
    text = "[1e-3, 010, 1:30, no, on, 2020-01-01, 0x1F, 1_000, true, ~, .inf, -.5, '1', +3]"
    (tmp_path / "a.yaml").write_text(f"a: {text}\nb: {{<<: {{x: 1}}, y: 2}}\nc: &c [1]\nd: *c\n")
    wanted = [1e-3, 10, "1:30", "no", "on", "2020-01-01", "0x1F", "1_000", True, None, float("inf"), -0.5, "1", 3]
    assert read_yaml(tmp_path / "a.yaml") == {"a": wanted, "b": {"x": 1, "y": 2}, "c": [1], "d": [1]}
    assert value_of(text) == wanted  # as a cell of a table
