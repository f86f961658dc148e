# SPDX-License-Identifier: Apache-2.0
"""Processor time of each test with all that it started, whatever else the machine does.

    python benchmarks/time_of_tests.py --json results.json -m "not slow" tests/solver

The other options are pytest's. One process runs the tests; on a fresh clone nothing is compiled beforehand. Time is
that of the process and of all that descends from it, which it takes for its own when who started it has ended, as
servers that fork. What is compiled, or made by a fixture, counts with the first test that needs it.
"""

import argparse
import ctypes
import json
import os
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

# As tests have it (tests/conftest.py), before NumPy is imported: a second thread of OpenBLAS waits, awake.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

import pytest  # noqa: E402
from bench import provenance  # noqa: E402
from numba.core import event  # noqa: E402

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
ADOPT = 36
"""Of Linux's prctl (PR_SET_CHILD_SUBREAPER): a process takes the descendants of children that end for its children."""


def of_started() -> float:
    """Seconds of all processes that descend from this one, those that have ended among them."""
    children, seconds = defaultdict(list), {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        process = int(path.parent.name)
        children[int(fields[1])].append(process)
        seconds[process] = TICK_S * sum(map(int, fields[11:15]))
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    found, left = ended.ru_utime + ended.ru_stime, children[os.getpid()]
    while left:
        process = left.pop()
        found += seconds[process]
        left += children[process]
    return found


class Compilation(event.Listener):
    """Seconds that Numba compiled in this process."""

    def __init__(self) -> None:
        self.seconds, self._begun = 0.0, list[float]()
        event.register("numba:compile", self)

    def on_start(self, event: object) -> None:
        self._begun.append(time.process_time())

    def on_end(self, event: object) -> None:
        begun = self._begun.pop()
        if not self._begun:
            self.seconds += time.process_time() - begun


class Costs:
    """Plugin of pytest that measures each test with its fixtures."""

    def __init__(self) -> None:
        self.tests, self._compilation = dict[str, dict[str, float]](), Compilation()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        started, compiled = of_started(), self._compilation.seconds
        own = time.process_time()  # without what it takes to look at all processes, 4 ms a test
        done = yield
        found = {"here": time.process_time() - own, "started": of_started() - started}
        found["compilation here"] = self._compilation.seconds - compiled
        self.tests[item.nodeid] = {name: round(value, 2) for name, value in found.items()}
        return done


def summary(tests: dict[str, dict[str, float]]) -> dict[str, object]:
    """Sums over all and over each file, and the longest tests."""
    seconds = {name: found["here"] + found["started"] for name, found in tests.items()}
    files: dict[str, float] = defaultdict(float)
    for name, value in seconds.items():
        files[name.partition("::")[0]] += value
    return {
        "count": len(tests),
        "processor_s": round(sum(seconds.values()), 1),
        "compilation here, s": round(sum(found["compilation here"] for found in tests.values()), 1),
        "files": {
            name: round(value, 2) for name, value in sorted(files.items(), key=lambda each: -each[1]) if value > 2
        },
        "tests": {name: tests[name] for name in sorted(seconds, key=lambda name: -seconds[name]) if seconds[name] > 1},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, help="record that is written")
    parser.add_argument("--commit", default="", help="of what is tested, if not that of this checkout")
    given, options = parser.parse_known_args()
    ctypes.CDLL(None).prctl(ADOPT, 1, 0, 0, 0)
    costs = Costs()
    status = pytest.main(options, plugins=[costs])
    given.json.write_text(json.dumps(provenance(given) | summary(costs.tests), indent=1) + "\n")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
