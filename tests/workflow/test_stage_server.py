# SPDX-License-Identifier: Apache-2.0
"""Stages and programs that servers of the tests fork are what Python from nothing would have made of them."""

import json
import os
import subprocess
import sys

import pytest

from solver.runtime.sources import ROOT
from tests.support.fork_server import run_in_fork
from tests.support.simulator import INTERPRETED
from tests.support.stage_server import READ_LATER

PROBE = """
import json, os, sys
found = {"numba": "numba" in sys.modules, "argv": sys.argv[1:], "folder": os.getcwd(), "main": __name__,
         "path": sys.path[0], "threads": os.environ.get("NUMBA_NUM_THREADS")}
print(json.dumps(found), flush=True)
print("to the other file", file=sys.stderr)
end = sys.argv[1]
if end == "killed":
    os.kill(os.getpid(), 9)
if end == "broken":
    raise TimeoutError("as in a program")
sys.exit(int(end))
"""
OWNER = """
import json, sys
import stage_server
print(stage_server.begin(), flush=True)
sys.stdin.read()
"""

LATE = """
import atexit, threading, time
threading.Thread(target=lambda: (time.sleep(0.05), print("a thread"))).start()
atexit.register(print, "at exit")
print("not flushed", end="")
"""


@pytest.fixture(scope="module")
def python():
    """What stands for Python, as long as a process that has the server lives."""
    folder, pipe = ROOT / "tests/support", subprocess.PIPE
    owner = subprocess.Popen([sys.executable, "-c", OWNER], cwd=folder, stdin=pipe, stdout=pipe, text=True)
    yield owner.stdout.readline().strip()
    owner.communicate()


@pytest.fixture
def run(python, tmp_path):
    """Run the probe as a module of a project by another Python, with variables as Snakemake sets them."""
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline/probe.py").write_text(PROBE)
    snakemakes = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "GOTO", "MKL", "VECLIB", "NUMEXPR")}

    def ask(program, *options, **environment):
        command = [program, "-m", "pipeline.probe", *options]
        environment = os.environ | snakemakes | environment
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    return ask


@pytest.mark.parametrize("end", ["0", "7", "killed"])
def test_a_fork_has_the_files_options_and_end_of_a_start_from_nothing(python, run, end):
    fork, start = (run(program, end, "a b", "$c", NUMBA_NUM_THREADS="1") for program in (python, sys.executable))
    assert (fork.returncode, fork.stderr) == (start.returncode, start.stderr)
    assert json.loads(fork.stdout) == json.loads(start.stdout) | {"numba": True}
    assert not json.loads(start.stdout)["numba"]


def test_an_error_ends_in_its_traceback(python, run):
    answer = run(python, "broken")
    assert answer.returncode == 1
    assert answer.stderr.endswith("TimeoutError: as in a program\n")


@pytest.mark.parametrize("name", ["NUMBA_DISABLE_JIT", "OPENBLAS_NUM_THREADS", "PYTHONHASHSEED"])
def test_what_libraries_read_on_import_is_not_that_of_another_environment(python, run, name):
    assert name not in READ_LATER
    answer = run(python, "0", **{name: "3" if os.environ.get(name) != "3" else "2"})
    assert not json.loads(answer.stdout)["numba"]


@pytest.mark.parametrize("program", [LATE, "exit(7)", "exit('why')", "raise TimeoutError('as')"])
def test_a_program_that_forks_run_says_all_and_ends_as_python_does(program):
    """Though it does not take its objects apart."""
    fork = run_in_fork(INTERPRETED, 60, {}, program=program, arguments=())
    start = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (fork.returncode, fork.stdout) == (start.returncode, start.stdout)
    assert fork.stderr.splitlines()[-1:] == start.stderr.splitlines()[-1:]
