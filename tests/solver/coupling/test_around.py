# SPDX-License-Identifier: Apache-2.0
"""A piece cut out of a computed network, its file, and whole runs of a vessel in its place."""

import logging
from dataclasses import replace

import numpy as np
import pytest

from solver.boundary.curves import spline
from solver.boundary.layers import inlet_layers
from solver.coupling.around import Around, cut_out, mean_radius_m, read_around
from solver.coupling.coupling import LEAST_EXCHANGES, intervals
from solver.network.cycles import Until, identity, solve_network
from solver.network.last_cycle import TreeResult
from solver.network.network import Blood, Network
from solver.network.network_ends import FlowInlet, Windkessel
from solver.network.run import NetworkRun, Numerics
from solver.run.plan import make_plan
from solver.run.settings import InletSettings, OutletSettings
from solver.run.solve import solve
from solver.runtime.errors import StageError
from tests.solver.run.test_checkpoint import KilledError, kept, killed_at
from tests.solver.run.test_simulation import settings
from tests.support.coupled import DENSITY, IMPEDANCE, RADIUS_M, tube
from tests.support.geometries import pipe

LOG = logging.getLogger("test")
PERIOD_S, MEAN_M3_S, LENGTH_M, VISCOSITY = 0.2, 2e-6, 0.0075, 0.02
NUMERICS = Numerics(4e-3, samples=50)
DX = 2 * RADIUS_M / 8


@pytest.fixture(scope="module")
def whole() -> TreeResult:
    """A tube of three segments whose flow pulsates about a mean that it never leaves by more than a half."""
    return computed(0.5, VISCOSITY)


def computed(amplitude: float, viscosity_pa_s: float) -> TreeResult:
    time = np.linspace(0, PERIOD_S, 41)
    inflow = spline(time, MEAN_M3_S * (1 + amplitude * np.sin(2 * np.pi * time / PERIOD_S)))
    segments = (tube("one", ("a", "b"), 0.1), tube("vessel", ("b", "c"), LENGTH_M), tube("two", ("c", "d"), 0.1))
    behind = Windkessel(IMPEDANCE, 9 * IMPEDANCE, 0.05 / (9 * IMPEDANCE), start_pa=MEAN_M3_S * 9 * IMPEDANCE)
    tree = Network(
        segments,
        {"a": FlowInlet(inflow)},
        {"d": behind},
        PERIOD_S,
        Blood(DENSITY, viscosity_pa_s),
        initial_pa=MEAN_M3_S * 10 * IMPEDANCE,
    )
    return solve_network(tree, NUMERICS, Until(1e-4), LOG)


@pytest.fixture(scope="module")
def around(whole) -> Around:
    return rest_of(whole)


def rest_of(whole: TreeResult) -> Around:
    return cut_out(whole, NUMERICS, frozenset(("vessel",)), {"in": "b", "out": "c"}, frozenset(("in",)))


def solved(folder, around, checkpoints=None, viscosity_pa_s=VISCOSITY, **changes):
    """The flow through a pipe of 8 nodes across in place of the segment."""
    folder.mkdir(exist_ok=True)
    time = np.linspace(0, PERIOD_S, 51)
    for cap in around.caps:
        columns = np.column_stack((time, 1e6 * cap.flow_m3_s.at(time), cap.pressure_pa.at(time) / 133.322))
        np.savetxt(
            folder / f"{cap.opening}.csv", columns, delimiter=",", header="time_s,flow_ml_s,pressure_mmhg", comments=""
        )
    wanted = settings(
        density_kg_m3=DENSITY,
        viscosity_pa_s=viscosity_pa_s,
        inlets={"in": InletSettings(None, str(folder / "in.csv"), "parabolic")},
        outlets={"out": OutletSettings(0.0, str(folder / "out.csv"))},
        cycles=5,
        snapshots=2,
    )
    wanted = replace(wanted, **changes)
    nodes = pipe((0, 0, 1), RADIUS_M / DX, round(LENGTH_M / DX), spacing_mm=1e3 * DX)
    return solve(nodes, wanted, folder / "flow.vtkhdf", folder / "monitor.csv", LOG, checkpoints, around)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("coupled")


@pytest.fixture(scope="module")
def summary(around, folder):
    return solved(folder, around)


def test_rest_of_the_network_goes_on_as_the_whole_did(whole, around):
    """With the flows of the whole network given at both ends, it repeats the cycle within what cycles differ by."""
    run = NetworkRun(around.network, around.numerics)
    run.unpack(around.state)
    run.set_steps(run.steps_for(run.rate))
    for step in range(run.steps):
        for cap, sign in zip(around.caps, (1, -1), strict=True):
            now, then = cap.flow_m3_s.at(np.array([step, step + 1]) * run.step_s)
            run.impose(cap.node, sign * now, sign * then)
        run.advance()
    kept_cells = [0, *range(int(whole.grid.first[2]), int(whole.grid.last[2]) + 1)]
    pressure = whole.record.pressure[:, kept_cells]
    found = run.record.pressure[:, [0, *range(int(run.grid.first[1]), int(run.grid.last[1]) + 1)]]
    assert np.abs(found - pressure).max() < 5e-3 * np.ptp(pressure)


def test_what_passes_at_caps_is_what_the_whole_network_has(whole, around):
    one, two = (cap.flow_m3_s.mean for cap in around.caps)
    assert one == pytest.approx(MEAN_M3_S, rel=1e-3)
    assert two == pytest.approx(MEAN_M3_S, rel=1e-3)
    before, behind = (cap.pressure_pa.mean for cap in around.caps)
    radius = mean_radius_m(whole, "vessel", 0.5)  # under pressure the elastic tube is wider
    lost = 8 * VISCOSITY * LENGTH_M * MEAN_M3_S / (np.pi * radius**4)
    assert before - behind == pytest.approx(lost, rel=0.02)
    for impedance in around.impedance_mmhg_s_ml.values():
        assert 1e6 * 133.322 * impedance == pytest.approx(IMPEDANCE, rel=0.2)


def test_file_holds_every_bit(around, tmp_path):
    around.write(tmp_path / "coupling.h5")
    found = read_around(tmp_path / "coupling.h5")
    assert identity(found.network, found.numerics, Until()) == identity(around.network, around.numerics, Until())
    assert found.impedance_mmhg_s_ml == around.impedance_mmhg_s_ml
    assert found.state.keys() == around.state.keys()
    for name, array in around.state.items():
        np.testing.assert_array_equal(found.state[name], array)
    time = np.linspace(0, PERIOD_S, NUMERICS.samples + 1)
    for one, other in zip(found.caps, around.caps, strict=True):
        assert (one.opening, one.node) == (other.opening, other.node)
        np.testing.assert_allclose(one.flow_m3_s.at(time), other.flow_m3_s.at(time), rtol=1e-12)
        np.testing.assert_allclose(one.pressure_pa.at(time), other.pressure_pa.at(time), rtol=1e-12)


@pytest.mark.parametrize("content", [b"", b"not one", b"\x89HDF\r\n\x1a\n"])
def test_other_files_are_refused(content, tmp_path):
    path = tmp_path / "coupling.h5"
    path.write_bytes(content)
    with pytest.raises(
        StageError, match=r"coupling\.h5: holds no network around a vessel .*run the stage couple again"
    ):
        read_around(path)


def planned(around, folder, **more):
    """A short pipe whose flow turns back."""
    nodes = pipe((0, 0, 1), RADIUS_M / DX, 12, spacing_mm=1e3 * DX)
    time = np.linspace(0, PERIOD_S, 51)
    rows = "\n".join(f"{t},{1 + 1.5 * np.sin(2 * np.pi * t / PERIOD_S)}" for t in time)
    (folder / "in.csv").write_text(f"time_s,flow_ml_s\n{rows}\n")
    wanted = settings(inlets={"in": InletSettings(None, str(folder / "in.csv"), "parabolic")}, **more)
    return make_plan(nodes, wanted, surroundings=around)


def test_cycle_of_the_lattice_is_one_that_both_can_divide(around, tmp_path):
    """Whatever the samples of the network: 7 rows of the monitor, 50 samples."""
    cycle = planned(around, tmp_path, monitor_s=PERIOD_S / 7, ramp_s=0.01).schedule.cycle
    assert cycle
    assert cycle % (2 * NUMERICS.samples) == 0
    assert cycle % (2 * 7) == 0


@pytest.mark.parametrize("speed", [0.03, 0.011, 0.0037])
def test_cycle_has_factors_for_intervals_as_long_as_a_step_of_the_network(around, tmp_path, speed):
    """However many steps it has: an interval is at most three times shorter than the network and exchanges ask for."""
    plan = planned(around, tmp_path, viscosity_pa_s=1e-4, lattice_speed=speed)
    run = NetworkRun(around.network, around.numerics)
    run.unpack(around.state)
    assert plan.schedule.cycle
    interval, _ = intervals(plan.schedule.cycle, run)
    longest = plan.schedule.cycle / max(run.steps_for(run.rate), LEAST_EXCHANGES)
    assert interval > longest / 3 - 2


def test_friction_of_layers_is_taken_from_what_a_coupled_inlet_finds_on_its_cap(around, tmp_path):
    """And no other layers are there, although the flow turns back."""
    plan = planned(around, tmp_path, viscosity_pa_s=1e-4)
    layers = {each.opening: each for each in plan.layers}
    assert layers.keys() == {0, 1}
    schedule = plan.boundary_schedule
    own = around.impedance_mmhg_s_ml["in"] / plan.units.resistance_mmhg_s_ml
    friction = layers[0].resistance * layers[0].upstream_of_cap
    assert schedule.inlet_feedback.rule[0, 1] == pytest.approx(own + plan.to_caps[0] - friction, rel=1e-12)
    assert 0 < plan.to_caps[0] < friction < own
    assert schedule.reversing == ()
    assert not any("turns back" in note for note in plan.notes)


def test_vessel_and_network_have_one_flow_and_one_pressure(summary):
    """Over the last cycle: mean flows within 0.1 %, mean pressures within 0.5 %, and both in every phase."""
    assert summary["state"] == "periodic"
    assert summary["periodicity"].keys() >= {"network_pressure", "network_flow"}
    assert max(summary["periodicity"].values()) < 0.01
    coupled = summary["coupling"]
    assert coupled["interval"] * LEAST_EXCHANGES <= summary["steps"]
    for waveforms in coupled["caps"].values():
        vessel, network = ({k: np.array(v) for k, v in waveforms[kind].items()} for kind in ("vessel", "network"))
        assert vessel["flow_ml_s"].mean() == pytest.approx(network["flow_ml_s"].mean(), rel=1e-3)
        assert vessel["pressure_mmhg"].mean() == pytest.approx(network["pressure_mmhg"].mean(), rel=5e-3)
        for key in ("flow_ml_s", "pressure_mmhg"):
            in_vessel = np.interp(network["time_s"], vessel["time_s"], vessel[key], period=PERIOD_S)
            # half of the lattice's waves and an interval lie between both
            assert np.abs(in_vessel - network[key]).max() < 0.03 * np.ptp(network[key])


def test_rigid_pipe_of_the_same_size_changes_little(summary):
    """7.5 mm of 200 mm are rigid then, and 8 nodes across make them a little longer: a hundredth of the flow."""
    for waveforms in summary["coupling"]["caps"].values():
        alone, network = (np.array(waveforms[kind]["flow_ml_s"]) for kind in ("alone", "network"))
        assert network.mean() == pytest.approx(alone.mean(), rel=0.01)
        assert np.abs(network - alone).max() < 0.05 * np.ptp(alone)


def test_coupled_openings_have_no_imposed_values(summary):
    openings = summary["openings"]
    assert not {"imposed_flow_ml_s", "imposed_pressure_pa"} & {*openings["in"], *openings["out"]}
    assert openings["in"]["imposed"]["expected_flow_ml_s"] == pytest.approx(1e6 * MEAN_M3_S, rel=1e-3)
    assert openings["out"]["imposed"]["coupled_mmhg_s_ml"] > 0


@pytest.mark.slow
def test_coupled_run_that_was_stopped_twice_leaves_the_bits_of_one_that_was_not(around, folder, summary, tmp_path):
    """Within the first cycle, between two exchanges, and when two cycles of the network have been compared."""
    for part in (0.21, 0.9):
        with pytest.raises(KilledError), killed_at(round(part * summary["steps"])):
            solved(tmp_path / "stopped", around, kept(tmp_path, every_s=1.0))
    found = solved(tmp_path / "stopped", around, kept(tmp_path, every_s=3600))
    for name in ("flow.vtkhdf", "monitor.csv"):
        assert (tmp_path / "stopped" / name).read_bytes() == (folder / name).read_bytes()
    assert found["coupling"] == summary["coupling"]
    assert found["periodicity"] == summary["periodicity"]


@pytest.fixture(scope="module")
def averaged(around, tmp_path_factory):
    """Cycles differ by the waves in the network, and are held for such that vary by a tolerance below that."""
    folder = tmp_path_factory.mktemp("averaged")
    return solved(folder, around, **ALL_VARY), folder


ALL_VARY = {"periodic_tolerance": 1e-12, "max_steps": None, "cycles": 5}


def test_cycles_of_a_vessel_in_a_network_that_only_vary_are_averaged_and_so_is_the_network(averaged, summary):
    """Of a flow that nearly repeats, the mean over cycles is nearly that of the last one; both sides still agree."""
    found, _ = averaged
    assert found["state"] == "unsteady"
    assert found["fluctuation"]["cycles"] == 5
    assert 1e-12 < found["periodicity"]["network_pressure"] < 1e-2
    for name, cap in found["coupling"]["caps"].items():
        single = summary["coupling"]["caps"][name]
        for side in ("network", "vessel"):
            assert len(cap[side]["time_s"]) == len(single[side]["time_s"])
            for key in ("flow_ml_s", "pressure_mmhg"):
                span = np.ptp(single[side][key])
                np.testing.assert_allclose(cap[side][key], single[side][key], atol=0.02 * span)
        for key in ("flow_ml_s", "pressure_mmhg"):
            means = [np.mean(cap[side][key]) for side in ("network", "vessel")]
            apart = [np.mean(single[side][key]) for side in ("network", "vessel")]
            assert means[0] - means[1] == pytest.approx(apart[0] - apart[1], abs=1e-3 * np.ptp(single["vessel"][key]))


@pytest.mark.slow
def test_coupled_run_that_was_stopped_while_it_averaged_leaves_the_bits_of_one_that_was_not(around, averaged, tmp_path):
    found, folder = averaged
    with pytest.raises(KilledError), killed_at(round(0.8 * found["steps"])):
        solved(tmp_path / "stopped", around, kept(tmp_path, every_s=1.0), **ALL_VARY)
    again = solved(tmp_path / "stopped", around, kept(tmp_path, every_s=3600), **ALL_VARY)
    for name in ("flow.vtkhdf", "monitor.csv"):
        assert (tmp_path / "stopped" / name).read_bytes() == (folder / name).read_bytes()
    assert again["coupling"] == found["coupling"]


@pytest.mark.slow
def test_flow_that_turns_back_at_the_inlet_meets_no_stenosis_there(tmp_path):
    """Grid Reynolds number above 100, so that openings have layers; a pulse of 1.5 times the mean.

    The mean drop is friction and what speeds change of it, some rho U^2 of the mean speed. Layers of tau = 1 at the
    inlet, as inlets of given flow have them, would take several times as much.
    """
    viscosity = 1.5e-3
    whole = computed(1.5, viscosity)
    around = rest_of(whole)
    found = solved(tmp_path, around, viscosity_pa_s=viscosity)
    assert found["models"]["outlet_layers"]
    assert found["numbers"]["grid_reynolds"] > 100
    caps = found["coupling"]["caps"]
    before, behind = (133.322 * np.mean(caps[name]["network"]["pressure_mmhg"]) for name in ("in", "out"))
    head = DENSITY * (MEAN_M3_S / (np.pi * RADIUS_M**2)) ** 2
    assert abs(before - behind) < 2 * head
    plan = planned(around, tmp_path, viscosity_pa_s=viscosity)
    _, (stenosis,) = inlet_layers(pipe((0, 0, 1), RADIUS_M / DX, 12), plan.units.tau, ("in",))
    assert stenosis.resistance * plan.units.pressure_pa / plan.units.flow_m3_s * MEAN_M3_S > 4 * head
    alone, network = (np.array(caps["in"][kind]["flow_ml_s"]) for kind in ("alone", "network"))
    assert network.min() < 0
    assert np.ptp(network) == pytest.approx(np.ptp(alone), rel=0.1)
