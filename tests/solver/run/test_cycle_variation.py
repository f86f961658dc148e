# SPDX-License-Identifier: Apache-2.0
"""Pulsing flows that differ from cycle to cycle: recognised, averaged over cycles, and told as what they are."""

import json
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest

from solver.backends.cost import Device
from solver.domain.nodes import Nodes, Opening
from solver.run.boundary_schedule import BoundarySchedule
from solver.run.convergence import MARGIN
from solver.run.cycle_variation import (
    LEAST_CYCLES,
    cycles_if_it_varies,
    cycles_to_repeat,
    error_of_means,
    how_likely,
    only_varies,
)
from solver.run.flow_file import read_flow
from solver.run.monitor import COMPARED, TO_COME, WIDE, still_to_change
from solver.run.plan import make_plan
from solver.run.schedule import Schedule
from solver.run.settings import InletSettings, SolveSettings
from solver.run.setup import forecast_summary, foresee
from solver.runtime.errors import StageError
from tests.solver.run.test_checkpoint import files, kept, run
from tests.solver.run.test_simulation import DENSITY, VISCOSITY, settings
from tests.support.geometries import nodes_from, pipe, rod
from tests.support.waveforms import write_waveform

CYCLE, TOLERANCE, PERIOD_S = 100, 0.01, 0.4
ACROSS, SIDES, SPACING_MM = 5.0, (90, 22), 0.2
REYNOLDS = 150.0


@dataclass
class PlanOfCycles:
    """What the recognition asks of a plan."""

    schedule: Schedule
    period_s: float = 1.0


def recognised(
    velocity: Sequence[float],
    pressure: Sequence[float],
    raised_s: float = 0.25,
    network: Sequence[float] | None = None,
    to_come: float | None = None,
    wide: Sequence[float] | None = None,
    speed: Sequence[float] = (1.0,) * 4,
    expected: int = 0,
    **changes: Any,
) -> bool:
    """Whether cycles that differ by so much, the second from the first and so on, only vary after the last of them; of
    a vessel in a network, if that differs, too; where Windkessels are so far from their pressures; of velocities in
    wide places that differ by so much; of these mean speeds of the last cycles; and where it is expected to repeat
    after so many.
    """
    wanted = settings(cycles=6, **changes)
    schedule = Schedule(interval=10, sample=10, last=6 * CYCLE, cycle=CYCLE, cycles=6, expected_cycles=expected)

    def periodicity(back: int) -> dict[str, float] | None:
        last = len(velocity) - 1 - back
        if last < 0:
            return None
        around = {"network_pressure": network[last], "network_flow": network[last]} if network is not None else {}
        coming = {} if to_come is None else {TO_COME: to_come}
        coming |= {} if wide is None else {WIDE: wide[last]}
        return {"velocity": velocity[last], "flow": 1e-4, "pressure": pressure[last]} | around | coming

    found = [each for back in reversed(range(COMPARED)) if (each := periodicity(back))]
    rows = [
        SimpleNamespace(kinetic_energy_j=1e-6, mean_speed_m_s=mean * part)
        for mean in speed
        for part in np.linspace(0.5, 1.5, 10)
    ]
    monitor: Any = SimpleNamespace(
        plan=PlanOfCycles(schedule), differences=lambda: found, rows=rows, per_cycle=len(rows) // len(speed)
    )
    return only_varies(monitor, wanted, (len(velocity) + 1) * CYCLE, raised_s)


def test_cycles_whose_pressures_creep_are_not_averaged():
    """A fork that varies by 10 % was averaged while its Windkessels of 36 cycles had come a fourth of their way: their
    mean pressures were 180 % off, with a standard error of 7 %.
    """
    varying = [0.1, 0.11, 0.1, 0.105]
    assert recognised(varying, [3e-3] * 4)
    assert recognised(varying, [3e-3] * 4, to_come=0.02)
    assert not recognised(varying, [3e-3] * 4, to_come=0.5)


def test_waves_that_die_away_over_many_cycles_are_not_averaged():
    """A vessel that was expected to repeat after 86 cycles, in which waves beat, and a jet that varies for ever, which
    was expected to repeat after 15: differences of runs of benchmarks/slow_cycles.py.
    """
    waves, jet = [1.23, 1.01, 0.297, 0.619, 0.541], [0.36, 0.59, 0.65, 0.64]
    assert not recognised(waves, [0.2] * 5, expected=86)
    assert recognised(waves, [0.2] * 5, expected=25)
    assert recognised(jet, [0.05] * 4, expected=15)


def test_a_sac_that_varies_is_averaged_and_one_that_settles_is_not():
    """While the stream repeats: the slow flow of a sac of 18 mm falls by the same part in each cycle."""
    repeats, pressures = [1e-3] * 4, [1e-3] * 4
    assert not recognised(repeats, pressures)
    assert recognised(repeats, pressures, wide=[0.05, 0.06, 0.05, 0.055])
    assert not recognised(repeats, pressures, wide=[0.1, 0.09, 0.08, 0.07])


def test_a_number_of_cycles_is_advised_where_differences_beat():
    """Those of a tube fell by a sixth in each of fifteen cycles, and to and fro: by the last of them 116 to 2180 cycles
    were told of flows that took 9 to 16. Where they rise as often as they fall nobody can foretell it.
    """
    beating = [0.0521, 0.037, 0.0348, 0.029, 0.0212, 0.0208, 0.0139, 0.0168]
    assert 5 < cycles_to_repeat([{"velocity": each, "flow": 1e-4} for each in beating], TOLERANCE) < 20
    assert cycles_to_repeat([{"velocity": each} for each in (0.16, 0.1, 0.11)], TOLERANCE) == np.inf
    assert cycles_to_repeat([{"velocity": each} for each in (0.16, 0.1)], TOLERANCE) == np.inf
    small = [{"velocity": 0.1 * 0.5**k, "pressure": 1e-3 * (1 + k % 2)} for k in range(4)]
    assert 0 < cycles_to_repeat(small, TOLERANCE) < 2


@pytest.mark.parametrize("seed", range(5))
def test_cycles_whose_speed_goes_on_in_one_direction_are_not_averaged(seed):
    """In an aneurysm that filled with vortices over 20 cycles differences of 0.42, 0.40 and 0.36 were averaged."""
    aneurysm = [0.719, 0.804, 0.891, 0.939]
    differences, pressures = [0.62, 0.42, 0.40, 0.36], [3e-3] * 4
    assert recognised(differences, pressures)
    assert not recognised(differences, pressures, speed=aneurysm)
    assert recognised(differences, pressures, speed=[0.988, 0.991, 0.996, 1.0])  # by less than the tolerance
    rng = np.random.default_rng(seed)
    averaged = 0
    for _ in range(200):
        scattered = 1 + rng.choice([0.003, 0.01, 0.03]) * rng.standard_normal(4)
        averaged += recognised(differences, pressures, speed=scattered)
        settling = 1 + rng.choice([-1, 1]) * rng.uniform(0.1, 0.5) * rng.uniform(0.6, 0.95) ** np.arange(5)
        if abs(settling[3] / settling[2] - 1) > 0.011:
            assert not recognised(differences, pressures, speed=settling[:4])
    assert averaged > 0.92 * 200  # 1 - 2/4! by chance where all changes were large enough


@pytest.mark.parametrize("seed", range(5))
def test_cycles_that_become_alike_are_not_taken_for_such_that_vary(seed):
    """What falls by a factor of up to 0.72 in each cycle, as pressures do by Windkessels of three cycles, is small
    enough in the six that an average would take: the largest last difference, 0.15 times 0.72^3, falls to 0.008.
    """
    rng = np.random.default_rng(seed)
    for _ in range(100):
        factor, first = rng.uniform(0.2, 0.72, 2), rng.uniform(0.02, 0.15, 2)
        velocity, pressure = first[:, None] * factor[:, None] ** np.arange(4)
        assert not recognised(velocity, pressure)
        level = rng.uniform(0.1, 0.4) * rng.lognormal(0, 0.1, 4)
        assert not recognised(level, pressure) or pressure[-1] < TOLERANCE or pressure[-1] * factor[1] ** 6 > TOLERANCE


@pytest.mark.parametrize("seed", range(5))
def test_the_cycles_that_are_advised_are_enough_for_what_settles_ever_more_slowly(seed):
    """Of two motions of which one falls faster; by how the differences fell on average a pulse that took 20 cycles was
    told 11. With the advised margin what is still to change is small enough in 95 of 100 (91 to 93 by the average).
    """
    rng, enough = np.random.default_rng(seed), 0
    for _ in range(200):
        slow = rng.uniform(0.5, 0.9)
        first, parts = rng.uniform(0.1, 1.0, 2), np.array([slow, slow * rng.uniform(0.1, 0.8)])
        differences = (first[:, None] * parts[:, None] ** np.arange(400)).sum(axis=0)
        found = [{"velocity": each} for each in differences[3:6]]
        last = 5 + int(np.ceil(MARGIN * cycles_to_repeat(found, TOLERANCE)))
        enough += still_to_change(list(differences[last - 2 : last + 1])) <= TOLERANCE
    assert enough >= 0.94 * 200


@pytest.mark.parametrize("seed", range(5))
def test_cycles_that_only_vary_are_recognised_once_three_differences_are_of_the_full_flow(seed):
    """Differences that scatter by a tenth about a level, pressures with a scatter of their own, mostly small."""
    rng = np.random.default_rng(seed)
    for _ in range(100):
        velocity = rng.uniform(0.05, 0.5) * rng.lognormal(0, 0.1, 4)
        pressure = rng.uniform(0.001, 0.008) * rng.lognormal(0, 0.1, 4)
        assert recognised(velocity, pressure)
        assert not recognised(velocity, pressure, raised_s=1.25)  # the first of the cycles was not of the full flow
        assert not recognised(velocity[:3], pressure[:3], raised_s=0.25)
        assert not recognised(velocity, pressure, max_steps=(5 + LEAST_CYCLES - 1) * CYCLE)


@pytest.mark.parametrize("seed", range(5))
def test_pressures_that_vary_by_little_hinder_the_recognition_seldom(seed):
    """As in aortas and carotid arteries, whose pressures differ by 1 to 5 % and scatter by a third. Of three in order,
    1 of 6 by chance, most seem to fall to 1 % in six cycles; by first and last alone 0.76 were recognised, now 0.88.
    """
    rng = np.random.default_rng(seed)
    found = [recognised([0.3] * 4, rng.uniform(0.01, 0.05) * rng.lognormal(0, 0.33, 4)) for _ in range(400)]
    assert np.mean(found) > 0.83


@pytest.mark.parametrize("seed", range(5))
def test_a_network_may_vary_with_its_vessel_and_one_that_settles_is_waited_for(seed):
    """Of what scatters by 3 % about a level of at least 0.03 no four fall to 0.01 in six cycles: by a factor of 0.8 in
    two at most.
    """
    rng = np.random.default_rng(seed)
    for _ in range(100):
        velocity = rng.uniform(0.05, 0.5) * rng.lognormal(0, 0.1, 4)
        level = rng.uniform(0.03, 0.2) * rng.uniform(0.97, 1.03, 4)
        assert recognised(velocity, [0.005] * 4, network=level)
        falling = rng.uniform(0.05, 0.15) * rng.uniform(0.2, 0.72) ** np.arange(4)
        assert recognised(velocity, [0.005] * 4, network=falling) == (falling[-1] <= TOLERANCE)


@pytest.mark.parametrize("seed", range(5))
def test_an_error_holds_the_scatter_of_cycles_and_half_of_their_drift(seed):
    """Of 400 draws each. Means of eight cycles miss the true one by at most twice their standard error in 92 of 100, by
    Student's t with 7 degrees of freedom; one that drifts misses what it drifts to by about half of the drift.
    """
    rng = np.random.default_rng(seed)
    scatter = 1 + 0.01 * rng.standard_normal((400, 8))
    errors = np.array([error_of_means(means) for means in scatter])
    assert 0.88 < np.mean(abs(scatter.mean(axis=1) - 1) < 2 * errors) < 0.96
    drift = scatter[:, :1] + np.linspace(0, 1, 8) * rng.uniform(0.1, 0.5, (400, 1)) + 0.1 * (scatter - 1)
    errors = np.array([error_of_means(means) for means in drift])
    np.testing.assert_allclose(errors, (drift[:, -1] - drift[:, 0]) / 2 * 8 / 7, rtol=0.1)


def test_a_flow_that_repeats_is_not_one_that_varies():
    assert not recognised([0.5, 0.1, 0.009, 0.009], [0.1, 0.05, 0.02, 0.02])


def pulsing(folder: Path, **changes: Any) -> SolveSettings:
    """A pulse through a short pipe, whose cycles may hardly differ: by less than its last ones do."""
    folder.mkdir(exist_ok=True)
    times = np.linspace(0, PERIOD_S, 21)
    flow = 0.125 - 0.075 * np.cos(2 * np.pi * times / PERIOD_S)
    inlets = {"*": InletSettings(None, write_waveform(folder / "wave.csv", times, flow), "plug", "linear")}
    wanted = settings(inlets=inlets, collision="trt", velocity_set="D3Q19", cycles=5, unsettled="refuse", snapshots=3)
    return replace(wanted, periodic_tolerance=1e-9, unsteady_tolerance=1e-4, **changes)


MOMENTS, UNEVEN = "solver.backends.lattice.WALL_PAIRS", 32
"""Pairs of steps after which walls move, and how many make that at other moments in each cycle of 1200 steps."""


@pytest.fixture(scope="module")
def averaged(tmp_path_factory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("averaged")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(MOMENTS, UNEVEN)
        return run(pipe((1, 2, 3), 3.2, 9, spacing_mm=0.5), pulsing(folder), folder), folder


def test_the_mean_over_cycles_of_a_flow_that_repeats_is_that_flow(averaged, tmp_path):
    """Where what walls add is found every 64 steps, of 1200 a cycle, cycles of a laminar pulse differ by up to 0.7 % in
    velocity and, by the sound of these jumps, 12 % in pressure. With a tolerance below that they vary; means
    over them are the cycle that a run which allows it ends with, within 1 %.
    """
    summary, folder = averaged
    json.dumps(summary, allow_nan=False)
    assert summary["state"] == "unsteady"
    assert summary["unsteady"].startswith("unsteady: no cycle is like the one before; phases are means over 5 cycles")
    assert summary["fluctuation"]["cycles"] == 5
    assert (
        summary["forecast"]["most_steps"]
        == summary["forecast"]["likely_steps"][1]
        == 5 * summary["steps"] / summary["cycles"]
    )
    assert summary["forecast"]["varying_steps"][0] <= summary["steps"] <= summary["forecast"]["varying_steps"][1]
    assert summary["fluctuation"]["mean_over_s"] == pytest.approx(5 * PERIOD_S)
    assert summary["fluctuation"]["velocity_rms"] < 0.01
    usual = run(pipe((1, 2, 3), 3.2, 9, spacing_mm=0.5), replace(pulsing(tmp_path), periodic_tolerance=0.2), tmp_path)
    assert usual["state"] == "periodic"
    mean, single = (read_flow(each / "flow.vtkhdf") for each in (folder, tmp_path))
    assert len(mean.times_s) == len(single.times_s) == 3
    for k in range(3):
        np.testing.assert_allclose(mean.velocity_m_s(k), single.velocity_m_s(k), atol=0.01 * usual["max_speed_m_s"])
    assert summary["openings"]["in"]["flow_ml_s"] == pytest.approx(0.125, rel=1e-3)


@pytest.mark.parametrize(("cycles", "ends"), [(6, (11, 12)), (8, (13, 16)), (4, None)])
def test_a_forecast_says_what_a_flow_takes_that_repeats_and_one_that_varies(tmp_path, cycles, ends):
    """Recognised by three differences of cycles of the full flow, from the fifth cycle on, and averaged over as many as
    it was given. A run whose flow varies ends between both, see the one that averages.
    """
    nodes, wanted = pipe((1, 2, 3), 3.2, 9, spacing_mm=0.5), replace(pulsing(tmp_path), cycles=cycles, max_steps=None)
    plan = make_plan(nodes, wanted)
    assert cycles_if_it_varies(plan, wanted) == ends
    device = Device("CPU", 1e12, 1e4, 0.0, 0.0)
    reported = forecast_summary(foresee(nodes, wanted, plan, device), plan, device, wanted)
    assert f"of at most {cycles} cycles if the flow repeats" in reported
    if ends is None:
        assert "solve.cycles 4 are too few to tell" in reported
    else:
        assert f"; {ends[0]} to {ends[1]} cycles, " in reported
        assert "if it varies from cycle to cycle, which only the run tells" in reported


def test_cycles_of_the_mean_are_those_that_are_left_of_the_steps(tmp_path):
    nodes, wanted = pipe((1, 2, 3), 3.2, 9, spacing_mm=0.5), replace(pulsing(tmp_path), cycles=6, max_steps=None)
    cycle = make_plan(nodes, wanted).schedule.cycle
    assert cycle
    few = replace(wanted, max_steps=10 * cycle)
    assert cycles_if_it_varies(make_plan(nodes, few), few) == (10, 10)
    fewer = replace(wanted, max_steps=8 * cycle)
    assert cycles_if_it_varies(make_plan(nodes, fewer), fewer) is None


@pytest.mark.parametrize(("reynolds", "likely"), [(6400.0, True), (700.0, False)])
def test_a_fast_flow_in_a_wide_vessel_is_said_to_vary(reynolds, likely):
    assert ("which is likely" in how_likely({"reynolds": reynolds, "womersley": 17.0})) == likely


def stopped_at(step: int) -> Any:
    """A signal to stop comes when the first steps beyond this one are to be done."""
    at, sent = BoundarySchedule.at, []

    def until(boundary_schedule: BoundarySchedule, first: int, last: int) -> np.ndarray:
        if last > step and not sent:
            sent.append(step)
            signal.raise_signal(signal.SIGTERM)
        return at(boundary_schedule, first, last)

    return mock.patch.object(BoundarySchedule, "at", until)


def test_a_run_that_was_stopped_while_it_averaged_cycles_leaves_the_bits_of_one_that_was_not(
    averaged, tmp_path, monkeypatch
):
    """In the cycle after which it was recognised, and within the third one of the average."""
    monkeypatch.setattr(MOMENTS, UNEVEN)
    summary, folder = averaged
    nodes, wanted = pipe((1, 2, 3), 3.2, 9, spacing_mm=0.5), pulsing(tmp_path)
    cycle = round(summary["steps"] / summary["cycles"])
    for stop in (summary["steps"] - 5 * cycle - cycle // 3, summary["steps"] - 2 * cycle - cycle // 3):
        with stopped_at(stop), pytest.raises(StageError, match="run the workflow again to go on"):
            run(nodes, wanted, tmp_path, kept(tmp_path, 3600))
    run(nodes, wanted, tmp_path, kept(tmp_path, 3600))
    assert files(tmp_path) == files(folder)


def rod_in_a_stream() -> Nodes:
    """A rod, one layer of nodes thick, off the middle of a channel without walls, with an inlet before it."""
    fluid, to_wall = rod(SIDES, (14.3, 10.6), ACROSS)

    def crossing(position, velocity):
        end = position[:, 0] + velocity[:, 0]
        opening = np.where(end < 0, 1, np.where(end >= SIDES[0], 2, 0))
        return np.where(opening, 0.5, to_wall(position, velocity)), opening

    area, middle = SIDES[1] * SPACING_MM**2, (SIDES[1] / 2 - 0.5) * SPACING_MM
    caps = tuple(
        Opening(k, name, role, (along * SPACING_MM, middle, 0.0), (side, 0.0, 0.0), area, float(np.sqrt(area / np.pi)))
        for k, name, role, along, side in ((1, "in", "inlet", -0.5, -1.0), (2, "out", "outlet", SIDES[0] - 0.5, 1.0))
    )
    return nodes_from(fluid, crossing, caps, (False, True, True), SPACING_MM)


def street(folder: Path, **changes: Any) -> SolveSettings:
    """Inflow that pulses by 0.3 in 3.6 times the time of a pair of vortices, D/(0.2 u), so that no cycle finds them as
    the one before did.
    """
    speed = REYNOLDS * VISCOSITY / DENSITY / (ACROSS * SPACING_MM * 1e-3)
    period_s = 3.6 * ACROSS * SPACING_MM * 1e-3 / (0.2 * speed)
    times = np.linspace(0, period_s, 21)
    flow = speed * SIDES[1] * SPACING_MM**2 * (1 + 0.3 * np.sin(2 * np.pi * times / period_s))
    inlets = {"in": InletSettings(None, write_waveform(folder / "wave.csv", times, flow), "plug", "linear")}
    wanted = settings(inlets=inlets, peak_speed_m_s=1.8 * speed, cycles=8, max_steps=None, snapshots=4)
    return replace(wanted, unsettled="refuse", **changes)


@pytest.mark.slow  # its model takes 25 s to compile, which the quick tests have no other use for
def test_vortices_behind_a_rod_in_a_pulse_are_averaged_over_cycles(tmp_path):
    """The mean over cycles is smoother than any of them, and its energy is within what the monitor saw: that of the
    mean is lower by that of the fluctuation.
    """
    summary = run(rod_in_a_stream(), street(tmp_path), tmp_path)
    assert summary["state"] == "unsteady"
    reported = summary["fluctuation"]
    assert reported["cycles"] == 8
    assert 0.05 < reported["velocity_rms"] < 0.6  # 0.1 with cumulants; vortices have the speed of the stream
    assert max(reported["standard_error"].values()) < 0.05  # above, the mean would not be usable
    flow = read_flow(tmp_path / "flow.vtkhdf")
    assert len(flow.times_s) == 4
    volume_m3 = (SPACING_MM * 1e-3) ** 3
    phases = [DENSITY / 2 * (flow.velocity_m_s(k).astype(float) ** 2).sum() * volume_m3 for k in range(4)]
    assert 0.7 * summary["kinetic_energy_j"] < np.mean(phases) < summary["kinetic_energy_j"]


@pytest.mark.slow  # as above
def test_a_pulse_with_too_few_cycles_to_tell_is_refused_with_what_helps(tmp_path):
    with pytest.raises(StageError, match=r"not periodic: .* raise solve.cycles to \d+ \(now 4\)"):
        run(rod_in_a_stream(), replace(street(tmp_path), cycles=4), tmp_path, kept(tmp_path, 3600))
    assert run(rod_in_a_stream(), street(tmp_path), tmp_path, kept(tmp_path, 3600))["state"] == "unsteady"
