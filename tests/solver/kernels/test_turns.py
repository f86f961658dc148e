# SPDX-License-Identifier: Apache-2.0
"""Of processes that need the same thing at once, one makes it; nobody waits for one that has ended, or for ever."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from solver.kernels import turns
from solver.kernels.turns import Turn
from solver.runtime.sources import ROOT

HOLD = """
import os, sys
os.nice = lambda by: 0
from solver.kernels.turns import Turn
turn = Turn(sys.argv[1])
turn.begin()
print("begun", flush=True)
sys.stdin.readline()
turn.end()
print("ended", flush=True)
sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def _usual_priority(monkeypatch):
    """Whatever the tests have been started with."""
    monkeypatch.setattr(turns.os, "nice", lambda by: 0)


@pytest.fixture
def pauses(monkeypatch) -> list[Callable[[], object]]:
    """What is done in the pauses of those that wait, first to last; a pause more is an error."""
    wanted = list[Callable[[], object]]()
    monkeypatch.setattr(turns, "sleep", lambda seconds: wanted.pop(0)())
    return wanted


@contextmanager
def held(thing: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the turn until it hears a line, and lives until it hears another."""
    command, pipe = [sys.executable, "-c", HOLD, thing], subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout.readline() == "begun\n"
        yield process
        process.kill()


def test_a_turn_is_waited_for_until_the_other_process_has_ended_it(tmp_path, pauses):
    with held(str(tmp_path)) as process:

        def end() -> None:
            print(file=process.stdin, flush=True)
            assert process.stdout.readline() == "ended\n"

        Turn(f"{tmp_path}, another").begin()
        pauses[:] = [lambda: None, end]
        (turn := Turn(str(tmp_path))).begin()
        assert not pauses
        turn.end()


def test_a_turn_ends_with_its_process(tmp_path, pauses):
    with held(str(tmp_path)) as process:
        pauses[:] = [lambda: process.kill() or process.wait()]
        (turn := Turn(str(tmp_path))).begin()
        assert not pauses
        turn.end()


def test_others_have_it_once_it_is_ended(tmp_path):
    (turn := Turn(str(tmp_path))).begin()
    turn.end()
    with held(str(tmp_path)):
        pass


def test_a_wait_ends_after_a_while_without_the_turn(tmp_path, pauses, monkeypatch):
    now = iter(np.arange(9.0) * 0.4 * turns.LIMIT_S)
    monkeypatch.setattr(turns, "monotonic", lambda: next(now))
    with held(str(tmp_path)):
        for _ in range(2):  # its end takes nothing from the other
            pauses[:] = [lambda: None, lambda: None]
            (turn := Turn(str(tmp_path))).begin()
            assert not pauses
            turn.end()


@pytest.mark.usefixtures("pauses")
@pytest.mark.parametrize("why", ["a low priority", "no locks"])
def test_nobody_waits_who_has(why, tmp_path, monkeypatch):
    if why == "no locks":
        monkeypatch.setattr(turns, "_locks", turns._locks.__wrapped__)
        monkeypatch.setattr(turns.tempfile, "tempdir", str(tmp_path / "absent"))
    else:
        monkeypatch.setattr(turns.os, "nice", lambda by: 10)
    with held(str(tmp_path)):
        (turn := Turn(str(tmp_path))).begin()
        turn.end()


def test_the_file_of_locks_is_its_users_alone():
    (turn := Turn("mine")).begin()
    turn.end()
    path = Path(turns.tempfile.gettempdir()) / f"hemolattice-turns-{turns.os.getuid()}"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_size == 0
