# SPDX-License-Identifier: Apache-2.0
"""Names and pages speak the field's terms (docs/glossary.md): words that were retired do not come back."""

import io
import keyword
import re
import tokenize
from functools import cache

import pytest

from solver.runtime.sources import ROOT

CODE = ("pipeline", "solver", "validation", "benchmarks", "tests")
TEXTS = ("README.md", "docs/theory.md", "docs/user-guide.md", "docs/architecture.md", "docs/glossary.md")

RETIRED = {
    r"tally|tallies": "accumulator",
    r"told": "message or summary",
    r"blow(s|n)?|blew|blowup": "divergence, diverges, diverged",
    r"lent": "send slots",
    r"anew": "restart, or again",
    r"demand": "require",
    r"mend(s|ed|ing)?": "repair",
    r"sealed|seals?|unsealed": "checksum trailer",
    r"sharers|debts?|paying": "mass correction",
    r"partners": "source slots",
    r"lanes": "simd, vectors",
    r"magic": "lambda_trt",
    r"midline": "centreline refinement",
    r"swings?": "oscillatory component",
    r"verdicts?": "regression check, or result of a goal",
    r"races?": "baseline benchmark",
    r"contained": "sandbox",
    r"twins?": "reference four-pass solver",
}
"""Patterns of whole words, inside names too, and what stands for them."""

ALLOWED = {
    "magic": {
        "pipeline/files/volume_header.py",
        "solver/kernels/numba_internals.py",
    },  # of files, and Numba's
    "twin": {  # of a half-edge
        "pipeline/geometry/surface/half_edges.py",
        "pipeline/geometry/surface/facets.py",
        "pipeline/geometry/surface/connections.py",
        "pipeline/geometry/surface/edge_steps.py",
        "pipeline/geometry/surface/relaxation.py",
        "tests/pipeline/geometry/test_remesh.py",
    },
    "twins": {"tests/solver/backends/test_cuda.py"},  # two drivers of the same lattice
}
"""Files in which a word is a term of the field."""

PHRASES = {
    r"slow twin": "reference four-pass solver",
    r"plain solver": "textbook reference",
    r"magic parameter": "parameter Lambda",
    r"\bblow(s|n|ing)? up\b|\bblew up\b|\bblow-ups?\b": "diverge",
    r"solve\.magic\b": "solve.lambda_trt",
    r"\banew\b": "again",
    r"\"as at first\"|\bView to turn\b|\bThose of one number\b": "a sentence that says what is meant",
}
"""Phrases of pages, docstrings and comments."""

SELF = "tests/test_words.py"


def words_of(name: str) -> list[str]:
    """``make_BlowUpError2`` -> make, blow, up, error2."""
    return [
        word for part in name.split("_") for word in re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", part).lower().split("_")
    ]


@cache
def is_retired(word: str) -> bool:
    """Whether a pattern retires it; asked once of each word of the project."""
    return any(re.fullmatch(pattern, word) for pattern in RETIRED)


def retired_in(name: str) -> list[str]:
    """Words of a name that a pattern retires."""
    return [word for word in words_of(name) if is_retired(word)]


def files() -> list[str]:
    found = [path.relative_to(ROOT).as_posix() for top in CODE for path in (ROOT / top).rglob("*.py")]
    return sorted(path for path in found if path != SELF)


TOKEN = re.compile(
    r"""
    (?P<prose> \# [^\n]*
      | [bBfFrRuU]{0,2} (?: \"{3} (?: [^\\] | \\. )*? \"{3} | \'{3} (?: [^\\] | \\. )*? \'{3}
                          | \" (?: [^"\\\n] | \\. )* \" | \' (?: [^'\\\n] | \\. )* \' ) )
    | \d [\w.]*
    | (?P<name> [^\W\d] \w* )
    """,
    re.DOTALL | re.VERBOSE,
)
"""Comments, strings and names; numbers, lest a part of one is taken for a name. Python's own `tokenize`, with which it
is compared below, takes ten times as long, most of the time of this file.
"""


@cache
def tokens_of(text: str) -> tuple[list[str], list[str]]:
    """Names, keywords among them, and comments and strings."""
    found = [(match["name"], match["prose"]) for match in TOKEN.finditer(text)]
    return [name for name, _ in found if name], [prose for _, prose in found if prose]


def names_of(text: str) -> set[str]:
    return {name for name in tokens_of(text)[0] if not name.startswith("vtk") and not keyword.iskeyword(name)}


def prose_of(text: str) -> str:
    return "\n".join(tokens_of(text)[1])


@pytest.mark.parametrize(
    "file", ["solver/kernels/cumulants.py", "pipeline/network/walls.py", "tests/test_architecture.py"]
)
def test_names_and_prose_are_those_that_python_finds(file):
    text = "\n".join(line for line in (ROOT / file).read_text(encoding="utf-8").split("\n") if 'f"' not in line)
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    assert tokens_of(text) == (
        [each.string for each in tokens if each.type == tokenize.NAME],
        [each.string for each in tokens if each.type in (tokenize.COMMENT, tokenize.STRING)],
    )


def test_names_and_prose_are_told_apart_in_odd_text():
    text = """rb'a\\'b' + "c # d" + x1e5(1e5, 0x1f) # e "f"\n\'\'\'g\n"h\'\'\' if i_j else 'k' \'\'"""
    names = ["x1e5", "if", "i_j", "else"]
    assert tokens_of(text) == (names, ["rb'a\\'b'", '"c # d"', '# e "f"', "'''g\n\"h'''", "'k'", "''"])


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("BlowUpError", "blow"),
        ("_demand_room", "demand"),
        ("told", "told"),
        ("make_lanes", "lanes"),
        ("CUMULANT_MAGIC", "magic"),
        ("lent_nodes", "lent"),
        ("SwingFigures", "swing"),
    ],
)
def test_retired_words_are_found_inside_names(name, word):
    assert word in retired_in(name)


@pytest.mark.parametrize("name", ["demanded", "traces", "recommend", "talent", "equivalent", "lane", "dependants"])
def test_other_words_are_not(name):
    assert retired_in(name) == []


def test_no_name_has_a_retired_word():
    found = {
        f"{file}: {name}"
        for file in files()
        for name in names_of((ROOT / file).read_text(encoding="utf-8"))
        if any(file not in ALLOWED.get(word, ()) for word in retired_in(name))
    }
    assert not found, f"say it as docs/glossary.md does: {sorted(found)}"


def test_no_file_has_a_retired_word_in_its_name():
    assert [file for file in files() if any(retired_in(part.removesuffix(".py")) for part in file.split("/"))] == []


def test_no_page_or_docstring_has_a_retired_phrase():
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in TEXTS}
    texts |= {name: prose_of((ROOT / name).read_text(encoding="utf-8")) for name in files()}
    found = [
        f"{name}: {match[0]!r}, say {instead}"
        for name, text in texts.items()
        for phrase, instead in PHRASES.items()
        for match in re.finditer(phrase, text)
        if (name, match[0])
        not in {
            ("pipeline/dicom/dataset.py", "blows up"),
            ("pipeline/dicom/dataset.py", "blow up"),  # what is deflated
            ("pipeline/geometry/branches/side_branches.py", "blown up"),  # balls
            ("validation/studies/velocity_sets.py", "plain solver"),  # name of a goal, by which records are compared
        }
    ]
    assert not found


def test_the_glossary_is_a_page_and_names_files_that_are_there():
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    assert len(text.split()) < 700
    named = re.findall(r"`((?:pipeline|solver|validation)/[\w/.]*)`", text)
    assert len(named) > 20
    assert [path for path in named if not (ROOT / path).exists()] == []
