# SPDX-License-Identifier: Apache-2.0
"""Which vessels the benchmark of reduced models takes, by its command line. It runs in a process of its own, since it
sets the threads of all that is compiled.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TELLS = """
from sys import argv
from reduced_model import parse_options
for line in argv[1:]:
    try:
        print(*(f"{each.func.__name__}{each.args}" for each in parse_options(line.split()).makers), sep=";")
    except SystemExit as refused:
        print("refused", refused.code)
"""


@pytest.fixture(scope="module")
def answers():
    """What the benchmark makes of command lines, and what it says of those that it refuses."""
    lines = (
        "--seeds 11 13 --kinds bend fork",
        "--stenoses 50 75 --seeds 3 4",
        "--stenoses 50 --kinds sac --seeds 3 5 --named demo --across 12",
        "--seeds 7 8",
        "--stenoses 50 75",
        "--kinds fork --named demo",
        "--stenoses 50 --seeds 3 3",
        "",
    )
    path = os.pathsep.join((str(ROOT), str(ROOT / "benchmarks")))
    done = subprocess.run(
        [sys.executable, "-c", TELLS, *lines],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(lines, done.stdout.splitlines(), strict=True)), done.stderr


@pytest.mark.parametrize(
    ("line", "vessels"),
    [
        ("--seeds 11 13 --kinds bend fork", [f"of_drawn('{k}', {s})" for s in (11, 12) for k in ("bend", "fork")]),
        ("--stenoses 50 75 --seeds 3 4", [f"canonical_stenosis({p}.0, 3, 16.0)" for p in (50, 75)]),
        (
            "--stenoses 50 --kinds sac --seeds 3 5 --named demo --across 12",
            ["named('demo', 1.0)"]
            + [f"canonical_stenosis(50.0, {s}, 12.0)" for s in (3, 4)]
            + [f"of_drawn('sac', {s})" for s in (3, 4)],
        ),
        ("--seeds 7 8", [f"of_drawn('{kind}', 7)" for kind in ("bend", "stenosis", "fork", "sac", "tree")]),
    ],
)
def test_each_option_draws_what_it_says(answers, line, vessels):
    assert answers[0][line].split(";") == vessels


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--stenoses 50 75", "--kinds and --stenoses are drawn: give --seeds FIRST END"),
        ("--kinds fork --named demo", "--kinds and --stenoses are drawn: give --seeds FIRST END"),
        ("--stenoses 50 --seeds 3 3", "with FIRST below END"),
        ("", "no vessel: give --named"),
    ],
)
def test_what_would_draw_nothing_is_refused(answers, line, says):
    assert answers[0][line] == "refused 2"
    assert says in answers[1]
