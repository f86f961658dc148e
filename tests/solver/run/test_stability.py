# SPDX-License-Identifier: Apache-2.0
"""No flow of the matrix diverges, with nothing set but the flow: each settles, or is honestly told not to have.

Before this was so, with the defaults of that time, diverged: the oblique pipe at a grid Reynolds number of 80 and the
bend at 160 within six spacings of the outlet, the same pipe at 300 with a flow that turns back, the lid-driven cube at
20 beside the rim of its lid.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.stability_matrix import VESSELS, Entry, flows, nodes_of, peak_speed_m_s, run

FASTER, LID = 2.0, 3.0
"""Times the peak of a developed flow through the narrowest section, what any node may reach: jets, curved and forked
vessels stay within 1.5 of it, noise does not. Times the speed of a lid, the same: where it meets walls at rest the
velocity jumps, and a few nodes along the rim reach 2.7 on a lattice as coarse as the matrix's."""
GROWTH = 1.5
"""Of the largest kinetic energy from one third of a run to the next, a cycle of a reversing flow: that of a steady one
keeps within a few percent once the inflow is raised, of a periodic one from cycle to cycle."""
QUICK: dict[Entry, dict[str, Any]] = {
    Entry("pipe", "steady", 80.0): {"max_steps": 4000},
}
"""Entries that `make test` has, and how long they run: past the step at which they diverged. The bend and the flow that
turns back, which take twice and three times as long, and the cube, whose model no other test has, are in the whole
matrix."""


@pytest.fixture(scope="module", autouse=True)
def shared_lattices(tmp_path_factory):
    """Lattices are built once for all processes of a session."""
    folder = tmp_path_factory.getbasetemp().parent / "stability-lattices"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HEMO_MATRIX", str(folder))
        yield


def require_stable(entry: Entry, found: dict[str, Any]) -> None:
    assert found["outcome"] in ("settled", "unsteady", "unsettled"), found["message"]
    assert found["finite"]
    bound = FASTER if VESSELS[entry.vessel].section_mm2 else LID
    assert found["max_speed_m_s"] < bound * peak_speed_m_s(entry)
    assert found["energy_growth"] < GROWTH


@pytest.mark.parametrize("entry", QUICK, ids=lambda entry: entry.name)
def test_flows_that_diverged_do_not(entry):
    require_stable(entry, run(entry, **QUICK[entry]))


@pytest.mark.slow
@pytest.mark.parametrize("entry", flows(), ids=lambda entry: entry.name)
def test_no_flow_of_the_matrix_diverges(entry):
    if why := VESSELS[entry.vessel].absent:
        pytest.skip(why)
    require_stable(entry, run(entry))


# ---- the advice ------------------------------------------------------------------------------------------------------

Given = Callable[[float], dict[str, Any]]
TROUBLED: dict[str, tuple[float, Given]] = {
    "bgk": (300.0, lambda speed: {"collision": "bgk"}),
    "trt": (160.0, lambda speed: {"collision": "trt"}),
    "faster than expected": (20.0, lambda speed: {"collision": "trt", "peak_speed_m_s": speed / 10}),
    "raised at once": (300.0, lambda speed: {"collision": "trt", "ramp_s": 0.0, "lattice_speed": 0.17}),
}
"""Grid Reynolds numbers, and settings that diverge, from the entry's speed, m/s: they name a collision model, so that
there is nothing to fall back to."""
ADVISED = ("pipe", "bend", "fork", "stenosis", "step", "nozzle", "slab", "cavity-24")
ADVISED_STEPS = 10_000
"""At the usual spacing; at a finer one as many more as it takes to the same time."""
LEAST_ADVICES = 3
"""Of a vessel: more than 20 in all."""


def follow(entry: Entry, troubled: dict[str, Any], advice: dict[str, Any]) -> dict[str, Any]:
    """Record of a run with what was advised after it diverged."""
    usual = nodes_of(entry.vessel).spacing_mm
    steps = round(ADVISED_STEPS * usual / advice.get("spacing_mm", usual))
    return run(entry, **troubled | {"max_steps": steps} | advice)


@pytest.mark.slow
@pytest.mark.parametrize("vessel", ADVISED)
def test_flows_that_diverged_do_not_with_what_is_advised(vessel):
    """With no more than the advice itself."""
    tried = 0
    for number, given in TROUBLED.values():
        entry = Entry(vessel, "steady", number)
        troubled = given(peak_speed_m_s(entry))
        found = run(entry, **troubled, max_steps=ADVISED_STEPS)
        if found["outcome"] == "diverged":
            require_stable(entry, follow(entry, troubled, found["advice"]))
            tried += 1
    assert tried >= LEAST_ADVICES
