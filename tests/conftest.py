# SPDX-License-Identifier: Apache-2.0
"""Fixtures that several test files share."""

import gc
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

# Before NumPy is imported, which asks for it only then; processes that tests start have it, too. The matrices of tests
# are small: a second thread of OpenBLAS waits, awake, nearly all the time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Workflows compile what they need themselves: tests on all cores leave none for a process beside.
os.environ["HEMO_AHEAD"] = "0"

import hypothesis
import numba
import pytest

from tests.support import garbage
from tests.support.fork_server import share
from tests.support.project_copy import copy_project
from tests.support.real_cases import RealCases, place
from tests.support.simulator import INTERPRETED, SIMULATED
from tests.support.workflow_runs import WORKFLOWS, run_workflow

# A speed is never tested: on a machine that others use, an example may take longer than any deadline.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")

LONG = (
    "test_workflow.py",
    "test_ranks.py",
    "test_advice.py",
    "test_pages_in_browser.py",
    "test_pick_page.py",
    "test_tutorials.py",
    "test_coupling.py",
    "test_segment.py",
    "test_settled_sacs.py",
    "test_parted.py",
    "test_surface.py",
    "test_shares.py",
    "test_parabolic_walls.py",
    "test_ends.py",
    "test_segmentation_methods.py",
    "test_age_of_blood.py",
    "test_automatic_seeds.py",
    "test_ladder_openings.py",
    "test_cohort_workflow.py",
    "test_rules.py",
    "test_following.py",
    "test_short_cycles.py",
    "test_left_vessel.py",
    "test_wall_profile.py",
    "test_outlet_pressures.py",
    "test_forecast.py",
    "test_decompose.py",
    "test_dim_junction.py",
    "test_left_out.py",
    "test_leak_advice.py",
    "test_import_surface.py",
    "test_accuracy.py",
    "test_gap.py",
    "test_around.py",
    "test_studies.py",
    "test_bad_files.py",
)
"""Files that take 5 s of processor time and more, the longest first, so that no worker is left with one of them at the
end.
"""

Snakemake = Callable[..., subprocess.CompletedProcess]
ONE_STUDY = "studies=plates"


def pytest_configure(config: pytest.Config) -> None:
    """Start what the workers of this run share, if it has some; keep memory for arrays."""
    garbage.reuse_memory()
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        share(WORKFLOWS, INTERPRETED, SIMULATED)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Look for no garbage while tests are imported and collected, hardly any of which is.

    Each worker of several begins with other files, and keeps their asserts, rewritten, for the others: half of the time
    of a first collection.
    """
    gc.disable()
    worker = getattr(session.config, "workerinput", None)
    if worker and session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        files = sorted(str(path) for path in Path(__file__).parent.rglob("test_*.py"))
        first = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        session.config.args = files[first:] + files[:first]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of long files first; all others by the names of their files, so that no room comes as a whole: the
    workflow's would be last, and take longest.
    """

    def place(item: pytest.Item) -> tuple[int, str, Path]:
        name = item.path.name
        return (LONG.index(name) if name in LONG else len(LONG), name, item.path)

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Leave what was imported and collected, which stays till the end, out of the search for garbage: it took a
    fifteenth of the time of the small tests.
    """
    gc.collect()
    garbage.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """One thread for the loops of a test, but where it says otherwise: of a few hundred nodes, which are one thread's
    share, a second thread only waits, awake, and doubles the processor time.
    """
    numba.set_num_threads(1)


@pytest.fixture
def all_threads() -> None:
    """As many threads as Numba has, for tests of what is done with them; the next test begins with one again."""
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)


@pytest.fixture(scope="session")
def real_cases() -> RealCases:
    """Real image data; tests are skipped where what they need of it is absent."""
    return RealCases(place())


@pytest.fixture(scope="session")
def snakemake() -> Snakemake:
    """Run the workflow in a copy of the project: ``snakemake(project, case, *options)``.

    Of one study alone: to read the files of all takes a fourth of a start.
    """

    def run(project: Path, case: str, *options: str) -> subprocess.CompletedProcess:
        return run_workflow(project, "--cores", "2", "--config", f"cases={case}", ONE_STUDY, *options)

    return run


@pytest.fixture(scope="session")
def study(tmp_path_factory) -> Path:
    """A copy of the project in which cases may run; those that have run are shared by the tests."""
    return copy_project(tmp_path_factory.mktemp("study") / "project")
