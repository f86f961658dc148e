# SPDX-License-Identifier: Apache-2.0
"""Cycles until they repeat, restarts with the same bits, and a network that another solver is coupled to."""

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from solver.network.cycles import Cycles, Until, identity, solve_network
from solver.network.network import Blood, Network
from solver.network.network_ends import Coupled, Heart, Windkessel, double_hill
from solver.network.run import MOST_COURANT, NetworkRun, Numerics
from solver.run.checkpoint import Checkpoints
from solver.runtime.errors import StageError
from tests.support.networks import one_cycle, pulse, single, tube

LOG = logging.getLogger("test")
NUMERICS = Numerics(0.01, samples=50)


def network(**more: Any) -> Network:
    """A fork with viscous walls, a heart and Windkessels, so that a state has all there is."""
    segments = (
        tube(0.2, (0.012, 0.01), 5.0, "in", ("a", "m"), 0.5),
        tube(0.2, (0.008, 0.005), 6.0, "one", ("m", "b")),
        tube(0.15, 0.006, 7.0, "two", ("m", "c"), 0.2),
    )
    heart = Heart(double_hill(6.7e6, 3.3e8, 0.8), 1e-5, 1100.0, 7e5, 1e6, 3e9, 1.2e-4)
    terminals = {"b": Windkessel(2e7, 2e8, 4e-9), "c": Windkessel(4e7, 3e8, 4e-9)}
    return Network(segments, {"a": heart}, terminals, 0.8, Blood(1060.0, 4e-3), initial_pa=1e4, **more)


class Signal:
    """A signal that comes after so many looks."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    @property
    def number(self) -> int:
        self.looks -= 1
        return 15 if self.looks < 0 else 0


def checkpoints(folder, tree: Network, until: Until, every_s: float = 1e9) -> Checkpoints:
    return Checkpoints(folder, identity(tree, NUMERICS, until), every_s, LOG)


def all_cycles(cycles: Cycles, signal: Any) -> None:
    while not cycles.ended:
        cycles.compute(signal)


@pytest.mark.parametrize("looks", [3, 30, 55])
def test_run_that_was_stopped_ends_with_the_same_bits(tmp_path, looks):
    """Stopped within the first cycle, the second and the third; what is looked at twice a chunk counts twice."""
    tree, until = network(), Until(least_cycles=4, most_cycles=4, unsettled="report")
    expected = solve_network(tree, NUMERICS, until, LOG)
    stopped = Cycles(NetworkRun(tree, NUMERICS), until, LOG, checkpoints(tmp_path / "kept", tree, until))
    signal: Any = Signal(2 * looks)
    with pytest.raises(StageError, match="the state is kept"):
        all_cycles(stopped, signal)
    assert any((tmp_path / "kept").iterdir())
    found = solve_network(tree, NUMERICS, until, LOG, checkpoints(tmp_path / "kept", tree, until))
    for name, array in expected.record._asdict().items():
        assert np.array_equal(array, getattr(found.record, name)), name
    assert np.array_equal(found.changes, expected.changes)
    assert found.balance == expected.balance
    assert not (tmp_path / "kept").exists()


def test_checkpoint_of_another_network_is_not_used():
    until = Until()
    other = replace(network(), terminals={"b": Windkessel(2e7, 2e8, 4e-9), "c": Windkessel(4e7, 3e8, 5e-9)})
    heart = Heart(double_hill(6.7e6, 3.4e8, 0.8), 1e-5, 1100.0, 7e5, 1e6, 3e9, 1.2e-4)
    third = replace(network(), inlets={"a": heart})
    found = {identity(each, NUMERICS, until) for each in (network(), network(), other, third)}
    assert len(found) == 3
    assert identity(network(), NUMERICS, until) == identity(network(), NUMERICS, replace(until, most_cycles=99))


def test_cycles_end_when_they_repeat():
    until = Until(tolerance=5e-3)
    result = solve_network(network(), NUMERICS, until, LOG)
    assert result.converged
    assert result.changes[-1].max() <= until.tolerance < result.changes[-2].max()
    assert len(result.changes) == result.cycles - 1
    assert abs(result.balance.mass) < 1e-10
    assert abs(result.balance.work_left) < 0.02


def test_cycles_that_do_not_repeat_are_refused_or_reported(caplog):
    until = Until(most_cycles=2)
    with pytest.raises(StageError, match="after 2 cycles pressure still changes by"):
        solve_network(network(), NUMERICS, until, LOG)
    with caplog.at_level(logging.WARNING):
        assert not solve_network(network(), NUMERICS, replace(until, unsettled="report"), LOG).converged
    assert "after 2 cycles" in caplog.text


def test_cycle_begins_again_where_the_pulse_outruns_the_step():
    """A pulse of 0.6 m/s, which the state to begin with does not tell of, in a tube whose step has no room."""
    tree = single(tube(0.3, celerity_m_s=1.2), pulse(0.8, 3e-4, 0.2, 0.05), Windkessel(1e6, 1e7, 1e-8), 0.8)
    cycles = Cycles(NetworkRun(tree, NUMERICS), Until(), LOG)
    before = cycles.run.steps
    signal: Any = Signal(10**6)
    cycles.compute(signal)
    assert cycles.run.steps > before
    assert cycles.run.cycle == 1
    assert cycles.changes == []


def test_record_is_read_at_any_place():
    result = solve_network(network(), NUMERICS, Until(tolerance=0.05), LOG)
    course = result.at("one", (0.0, 0.3, 1.0))
    assert course.pressure_pa.shape == (50, 3)
    np.testing.assert_array_equal(course.pressure_pa[:, [0, 2]], result.record.end_pressure[:, [2, 3]])
    np.testing.assert_allclose(course.flow_m3_s, course.area_m2 * course.velocity_m_s, rtol=2e-3, atol=1e-8)
    between = result.at("one", (0.29, 0.31))
    assert (np.sort(between.pressure_pa, axis=1)[:, 0] <= course.pressure_pa[:, 1] + 1e-9).all()
    np.testing.assert_array_equal(result.frames(10), np.arange(0, 50, 5))
    with pytest.raises(StageError, match="no segment is called three"):
        result.along("three")


def coupled_halves() -> tuple[NetworkRun, NetworkRun]:
    whole = single(tube(1.0), pulse(0.5, 1e-5), Windkessel(2e7, 1e8, 1e-9), 0.5)
    first = Network((tube(0.5),), whole.inlets, {"b": Coupled("pressure")}, 0.5, whole.blood)
    second = Network((tube(0.5),), {}, {"a": Coupled("flow"), **whole.terminals}, 0.5, whole.blood)
    return NetworkRun(first, Numerics(0.01)), NetworkRun(second, Numerics(0.01))


def test_two_networks_that_give_each_other_flow_and_pressure_are_one():
    """By what each offers at the node, a step at a time; to 1 % of the pressure of the tube in one piece."""
    whole = one_cycle(single(tube(1.0), pulse(0.5, 1e-5), Windkessel(2e7, 1e8, 1e-9), 0.5), Numerics(0.01))
    first, second = coupled_halves()
    second.set_steps(first.steps)
    before = 0.0, 0.0
    for _ in range(first.steps):
        one, other = first.offers()["b"], second.offers()["a"]
        flow = (one.pressure_pa - other.pressure_pa) / (one.resistance_pa_s_m3 + other.resistance_pa_s_m3)
        pressure = one.pressure_pa - one.resistance_pa_s_m3 * flow
        first.impose("b", pressure, 2 * pressure - before[0])
        second.impose("a", -flow, -2 * flow + before[1])
        before = pressure, flow
        first.advance()
        second.advance()
    expected = whole.record.pressure[:, whole.grid.first[0] + 75]
    found = second.record.pressure[:, second.grid.first[0] + 25]
    np.testing.assert_allclose(found, expected, atol=1e-2 * expected.max())
    assert first.node_state("b")[1] == pytest.approx(-second.node_state("a")[1], abs=1e-8)


def test_coupled_run_goes_on_into_the_next_cycle_and_refuses_steps_that_are_too_long():
    first, _ = coupled_halves()
    first.advance(first.steps + 3)
    assert (first.cycle, first.step) == (1, 3)
    assert first.time_s == pytest.approx(0.5 + 3 * first.step_s)
    with pytest.raises(StageError, match="coupled are: b"):
        first.impose("a", 0.0)
    slow = NetworkRun(first.network, replace(first.numerics, courant=4 * MOST_COURANT))
    with pytest.raises(StageError, match="lower courant"):
        slow.advance(200)
