# SPDX-License-Identifier: Apache-2.0
"""Runs of a scalar: age, contrast and drug in a pipe, against what flow and volume alone determine."""

import logging

import numpy as np
import pytest

from solver.backends.scalar_lattice import scalar_lattice
from solver.run.checkpoint import Checkpoints
from solver.runtime.errors import StageError
from solver.transport import scalar_run as runs
from solver.transport.carried_flow import CarriedFlow
from solver.transport.carrier import Carrier
from solver.transport.scalar_plan import make_plan, notes_of
from solver.transport.scalar_run import TransportRun
from solver.transport.scalar_settings import Bolus, TransportSettings
from tests.solver.transport.test_scalar import oblique_pipe

LOG = logging.getLogger("transport")
SPACING_M, MEAN_M_S = 2e-4, 0.1
SETTINGS = TransportSettings(backend="cpu", precision="fp64")


def pipe_flow(pulse=()):
    """A short pipe; with a pulse, snapshots of a period of 1 s at so many parts of its mean flow."""
    nodes, velocity, flows = oblique_pipe(4.3, 12.0, MEAN_M_S)
    parts = np.array(pulse or (1.0,))
    carrier = Carrier.of(nodes, scalar_lattice(nodes))
    times = np.arange(len(parts)) / len(parts)
    period = 1.0 if pulse else None
    return CarriedFlow(carrier, lambda k: (parts[k] * velocity).T, times, parts[:, None] * np.array(flows), period)


def run_of(flow, settings=SETTINGS, **more):
    plan = make_plan(flow, settings, SPACING_M, 4.3 * SPACING_M)
    return TransportRun(flow, plan, settings, LOG, **more), plan


@pytest.mark.parametrize("pulse", [(), (0.4, 1.8, 1.2, 0.6)], ids=["steady", "periodic"])
def test_blood_leaves_at_the_age_of_volume_over_flow(pulse):
    run, plan = run_of(pipe_flow(pulse))
    age = run.age()
    assert age.settled
    np.testing.assert_allclose(age.at_openings[1], plan.transit_s, rtol=0.01)
    assert np.nanmin(age.field) >= 0
    assert abs(age.at_openings[0]) < 1e-9 * plan.transit_s


def test_a_bolus_leaves_as_much_as_came_and_after_volume_over_flow_in_the_mean():
    """The central volume principle (Meier and Zierler 1954, doi:10.1152/jappl.1954.6.12.731)."""
    run, plan = run_of(pipe_flow(), TransportSettings(backend="cpu", precision="fp64", washed_out=1e-4))
    bolus, shown = Bolus(start_s=0.1 * plan.transit_s, concentration=3.0), []
    washed = run.bolus(bolus, lambda time_s, c: shown.append(time_s))
    assert washed.washed_out
    assert washed.missing < 1e-10
    assert shown == washed.times_s.tolist()
    np.testing.assert_allclose(washed.injected[-1], run.duration_s(bolus) / 2 / plan.transit_s, rtol=1e-3)
    out, middle_s = washed.passing[:, 1], washed.times_s - plan.stretch_s / 2
    mean_s = (out * middle_s).sum() / out.sum()
    np.testing.assert_allclose(mean_s - bolus.start_s - run.duration_s(bolus) / 2, plan.transit_s, rtol=0.01)


def test_a_bolus_is_followed_until_each_part_that_is_watched_has_emptied():
    flow = pipe_flow()
    settings = TransportSettings(backend="cpu", precision="fp64", washed_out=0.9)
    end = run_of(flow)[0].age().field > 0.8 * run_of(flow)[1].transit_s
    alone, followed = (run_of(flow, settings, parts=parts)[0].bolus(Bolus()) for parts in ({}, {"end": end}))
    assert len(alone.times_s) < len(followed.times_s)
    held = followed.parts[:, 0]
    assert held[-1] <= 0.1 * held.max() < held[-2]


def test_drug_from_the_wall_leaves_at_its_inflow_over_the_flow():
    flow = pipe_flow()
    settings = TransportSettings(backend="cpu", precision="fp64", wall_flux_m_s=1e-6)
    run, _ = run_of(flow, settings)
    drug = run.drug()
    wall_m2 = flow.carrier.lattice.wall_area.sum() * SPACING_M**2
    np.testing.assert_allclose(wall_m2, 2 * np.pi * 4.3 * 12 * SPACING_M**2, rtol=0.05)  # of a wall that is stairs
    np.testing.assert_allclose(drug.at_openings[1], 1e-6 * wall_m2 / (flow.inflow() * SPACING_M**2), rtol=0.01)


def test_a_diffusivity_that_the_lattice_does_not_resolve_is_raised_and_said():
    _, plan = run_of(pipe_flow())
    numbers = plan.numbers
    np.testing.assert_allclose(numbers["grid_peclet"], SETTINGS.grid_peclet)
    assert numbers["diffusivity_m2_s"] > 1e-9
    assert "is raised to" in notes_of(plan)[0]
    assert "the blood of sacs is younger" in notes_of(plan)[0]
    _, fine = run_of(pipe_flow(), TransportSettings(backend="cpu", diffusivity_m2_s=1e-3))
    assert fine.diffusivity_m2_s == 1e-3
    assert not notes_of(fine)
    assert fine.lattice_diffusivity <= 0.1


def test_a_run_that_was_stopped_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    flow = pipe_flow((0.5, 1.5))
    whole, _ = run_of(flow)
    expected = whole.age()

    class Stopped(runs.Interruption):
        looks = 0

        @property
        def number(self):
            Stopped.looks += 1
            return 15 if Stopped.looks >= 50 else 0

        @number.setter
        def number(self, value):
            pass

    def kept(name):
        return Checkpoints(tmp_path / name, "one", 1e9, LOG)

    run, _ = run_of(flow, checkpoints=kept)
    with monkeypatch.context() as patch:
        patch.setattr(runs, "Interruption", Stopped)
        with pytest.raises(StageError, match="stopped by signal"):
            run.age()
    assert list((tmp_path / "age").glob("step-*"))
    found = run_of(flow, checkpoints=kept)[0].age()
    np.testing.assert_array_equal(found.field, expected.field)
    np.testing.assert_array_equal(found.at_openings, expected.at_openings)
