# SPDX-License-Identifier: Apache-2.0
"""Compiled loops are kept between runs, and found again only by the same model from the same source."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba import prange

from solver.kernels.collision import make_collision
from solver.kernels.compilation import cached_njit, identity
from solver.runtime.sources import ROOT

COUNT = """
import numpy as np
from solver.backends.cpu.opening_pass import make_opening_pass
control = make_opening_pass("native", np.float64)[3]
boundary_values, rule = np.zeros(2), np.array([[1.0, 0.0, 0.0, 1.0, 0.0, 0.0]])
control(np.array([[1, 0, 0]]), np.array([0]), rule, np.zeros((1, 2)), np.zeros(1), boundary_values)
print(boundary_values[0], sum(control.stats.cache_hits.values()), sum(control.stats.cache_misses.values()))
"""


def found_and_compiled(solver: Path, store: Path) -> tuple[int, int]:
    """How often a new process found a loop on disk, and how often it compiled it."""
    answer = subprocess.run(
        [sys.executable, "-c", COUNT],
        cwd=solver.parent,
        env=os.environ | {"NUMBA_CACHE_DIR": str(store)},
        capture_output=True,
        text=True,
        check=True,
    )
    value, hits, misses = answer.stdout.split()
    assert float(value) == -(2.0**-30)
    return int(hits), int(misses)


def test_next_process_finds_what_was_compiled_until_the_source_changes(tmp_path):
    solver = tmp_path / "solver"
    shutil.copytree(ROOT / "solver", solver, ignore=shutil.ignore_patterns("__pycache__"))
    store = tmp_path / "store"
    assert found_and_compiled(solver, store) == (0, 1)
    assert found_and_compiled(solver, store) == (1, 0)
    with (solver / "sums.py").open("a") as file:  # which the loop calls, and does not close over
        file.write("# changed\n")
    assert found_and_compiled(solver, store) == (0, 1)


def adding(number, also=None):
    def added(x):
        return x + number if also is None else also(x)

    return added


def test_function_is_known_by_what_it_closes_over():
    assert identity(adding(1.0)) == identity(adding(1.0))
    others = [adding(2.0), adding(np.float32(1)), adding(1.0, adding(1.0)), adding(1.0, adding(2.0)), lambda x: x]
    assert len({identity(function) for function in (adding(1.0), *others)}) == 6


@pytest.mark.parametrize("other", [("bgk", np.float32), ("trt", np.float64), ("recursive", np.float32)])
def test_models_and_precisions_are_distinguished(other):
    assert identity(make_collision("trt", np.float32)) != identity(make_collision(*other))
    assert "0x" not in identity(make_collision(*other))  # no place in memory, which differs in each process


def test_loops_compiled_in_different_ways_are_kept_apart(tmp_path, monkeypatch):
    """Else a loop that is shared out to threads would be found where it should run in turn."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def make(**options):
        @cached_njit(**options)
        def doubled(x):
            for k in prange(len(x)):
                x[k] *= 2.0

        return doubled

    def found(loop):
        x = np.ones(3)
        loop(x)
        assert (x == 2).all()
        return sum(loop.stats.cache_hits.values())

    assert found(make()) == 0
    assert found(make()) == 1
    assert found(make(parallel=True)) == 0
    assert found(make(parallel=True)) == 1


SCALE = """
import math
import sys
import numpy as np
from numba import prange
from solver.kernels.compilation import cached_njit

def make(factor):
    @cached_njit()
    def chunk(x, first, last):  # so long that it stays a function of its own in machine code
        for k in range(first, last):
            a, b, c = math.sin(x[k]), math.cos(x[k]), math.tan(x[k])
            d, e, f = math.exp(a), math.exp(b), math.exp(c)
            g, h, i = math.sin(d), math.cos(e), math.tan(f)
            x[k] = x[k] * factor + 0.0 * (math.exp(g) + math.exp(h) + math.exp(i))

    @cached_njit(parallel=True)
    def scaled(x):
        for k in prange(2):
            chunk(x, 4 * k, 4 * k + 3)
            chunk(x, 4 * k + 3, 4 * k + 4)
    return scaled

for word in sys.argv[1:]:
    loop, x = make(float(word)), np.ones(8)
    loop(x)
    assert (x == float(word)).all(), f"{x} times {word}"
print(sum(loop.stats.cache_hits.values()))
"""


def test_loops_of_several_models_found_on_disk_are_each_its_own(tmp_path):
    """Each was compiled in a process of its own, where Numba numbered it alike."""
    script = tmp_path / "scale.py"
    script.write_text(SCALE)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "store"), "PYTHONPATH": str(ROOT)}
    for factors, found in ((["2"], 0), (["3"], 0), (["2", "3"], 1)):
        answer = subprocess.run(
            [sys.executable, str(script), *factors], env=environment, capture_output=True, text=True, check=False
        )
        assert answer.returncode == 0, answer.stderr
        assert int(answer.stdout) == found
