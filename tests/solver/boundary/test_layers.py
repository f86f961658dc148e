# SPDX-License-Identifier: Apache-2.0
"""Layers of raised viscosity at outlets: their friction is not that of the vessel."""

import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as trials
from hypothesis import strategies as st

from solver.boundary.layers import friction_factor, outlet_layers
from solver.run.flow_file import read_flow
from solver.run.settings import InletSettings
from solver.run.solve import solve
from tests.solver.run.test_simulation import DENSITY, VISCOSITY, settings
from tests.support.geometries import pipe
from tests.support.stability_matrix import of_shape
from tests.support.variants import some
from tests.support.waveforms import write_waveform

LOG = logging.getLogger("test")


@trials(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), radius=st.floats(3.0, 7.0), layers=st.integers(2, 8))
def test_friction_is_that_of_developed_flow_in_the_layers(seed, radius, layers):
    """8 pi nu U on a unit of length of a round section, the mean speed U, nu as it is too large at each node. Links
    beside the rim end at the wall: what the others carry of a parabola lacks up to two fifths of a spacing squared over
    the radius squared.
    """
    direction = np.random.default_rng(seed).standard_normal(3)
    nodes, tau, wanted = pipe(tuple(direction), radius, 24), 0.506, 0.53
    blend, (found,) = outlet_layers(nodes, tau, wanted, layers)
    area = nodes.openings[1].area_mm2
    assert found.opening == 1
    too_large = blend * (1 - tau) / 3
    pressure = 8 * np.pi * float(too_large.sum()) / area * (1 / area) / area  # of a flow of 1, over the section
    assert found.resistance == pytest.approx(3 * pressure, rel=0.5 / radius**2)
    plug = 0.03 * np.asarray(nodes.openings[1].normal)
    assert found.flow(np.tile(plug[:, None], len(found.rows))) == pytest.approx(0.03 * area, rel=1e-6)
    depth = (np.array(nodes.openings[1].centre_mm) - nodes.points_mm(found.rows)) @ np.array(nodes.openings[1].normal)
    order = np.argsort(depth)
    assert (np.diff(found.upstream[order]) <= 1e-12).all()  # the deeper, the less friction lies upstream
    assert found.upstream.min() >= 0
    assert found.upstream.max() <= 1
    assert not outlet_layers(nodes, wanted, wanted, layers)[1]


@pytest.mark.parametrize(("width", "spacing"), some([(4.0, 0.5), (7.0, 0.61), (12.0, 0.43), (31.0, 0.5)], (7.0, 0.61)))
def test_friction_in_a_section_that_is_not_round(width, spacing):
    """dp/dx A^2/(mu Q) of rectangles by their series (Shah and London 1978). The sum over a cap's links is within 1 %
    of its integral 8 or 9 nodes across, the polynomial within 0.5 % of the profile where it is up to four times wider;
    that of a circle, 8 pi, lacks 12 to 68 %.
    """
    nodes = of_shape({"shape": "duct", "height_mm": 4, "width_mm": width, "length_mm": 8})(spacing)
    odd = np.arange(1, 200, 2)
    integral = (
        width * 4**3 / 12 * (1 - 192 * 4 / (np.pi**5 * width) * (np.tanh(odd * np.pi * width / 8) / odd**5).sum())
    )
    exact, (found, _) = (4 * width) ** 2 / integral, (friction_factor(nodes, each) for each in nodes.openings)
    assert found == pytest.approx(exact, rel=0.015)
    blend, (outlet,) = outlet_layers(nodes, 0.506, 0.53, 4)
    too_large = float(blend.sum()) * (1 - 0.506) / 3
    area = nodes.openings[1].area_mm2 / nodes.spacing_mm**2
    assert outlet.resistance == pytest.approx(3 * exact * too_large / area**3, rel=0.015)


def test_friction_between_plates():
    """12/A of the height A, on a lattice of one layer, by the parabola, which the polynomials hold. Links beside a
    plate end there: what the others carry lacks a part that falls with the height squared, 16 spacings here.
    """
    nodes = of_shape({"shape": "channel", "height_mm": 4, "length_mm": 8})(0.25)
    height = nodes.openings[1].area_mm2 / nodes.spacing_mm**2
    assert nodes.one_layer
    assert friction_factor(nodes, nodes.openings[1]) == pytest.approx(12 / height, rel=0.02)


def test_coupled_inlets_have_the_layers_of_outlets():
    """With a friction by the same law; the flow out of the vessel is that in, with the other sign."""
    nodes, tau, wanted = pipe((0.0, 0.0, 1.0), 4.2, 24), 0.506, 0.53
    blend, (inlet, outlet) = outlet_layers(nodes, tau, wanted, 4, coupled=("in",))
    alone, _ = outlet_layers(nodes, tau, wanted, 4)
    assert (inlet.opening, outlet.opening) == (0, 1)
    too_large = float((blend - alone).sum()) * (1 - tau) / 3
    assert inlet.resistance == pytest.approx(24 * np.pi * too_large / nodes.openings[0].area_mm2 ** 3, rel=0.02)
    plug = np.tile(0.03 * np.array([[0.0], [0.0], [1.0]]), nodes.count)
    area = nodes.openings[0].area_mm2
    assert (inlet.flow(plug[:, inlet.rows]), outlet.flow(plug[:, outlet.rows])) == pytest.approx(
        (-0.03 * area, 0.03 * area), rel=1e-6
    )


@pytest.mark.parametrize("direction", [(0.3, -0.8, 0.5)])
def test_pressure_in_front_of_layers_is_that_of_a_vessel_without_them(direction, tmp_path):
    """Developed flow in a pipe 13 nodes across at a grid Reynolds number of 40, 1 to 2 diameters before its outlet.

    The pressure at the outlet is that of the cap to 0.0052 of rho U^2/2.

    Beyond the friction as it is there, 0.05 of rho U^2/2 would be missing with layers alone; what is left, 0.015, is
    the outlet's, in whose last two layers of nodes the profile changes.
    """
    radius, spacing_mm, grid_reynolds = 6.5, 0.2, 40.0
    speed = grid_reynolds * VISCOSITY / DENSITY / (spacing_mm * 1e-3)
    flow_ml_s = speed / 2 * np.pi * (radius * spacing_mm * 1e-3) ** 2 * 1e6
    nodes = pipe(direction, radius, 8 * radius, spacing_mm)
    inlets = {"in": InletSettings(flow_ml_s, None, "developed")}
    summary = solve(nodes, settings(inlets=inlets), tmp_path / "flow.vtkhdf", tmp_path / "monitor.csv", LOG)
    assert summary["models"]["outlet_layers"] == 4
    found = read_flow(tmp_path / "flow.vtkhdf")
    depth = (np.array(nodes.openings[1].centre_mm) - found.points_mm) @ np.array(nodes.openings[1].normal) / spacing_mm
    near = (depth > 2 * radius) & (depth < 4 * radius)
    slope, at_cap = np.polyfit(depth[near], found.pressure_pa(0)[near].astype(float), 1)
    head = DENSITY * speed**2 / 2
    assert slope > 0
    assert abs(at_cap) < 0.02 * head
    assert summary["openings"]["out"]["friction_of_layers_pa"] > 0.02 * head
    assert abs(summary["openings"]["out"]["pressure_pa"]) < 0.006 * head


def test_pressure_drop_of_a_flow_that_turns_back_does_not_hold_the_friction_of_its_inlet(tmp_path):
    """Mean drop over a cycle in a pipe 12 nodes across, so slow that it is linear nearly, and Poiseuille's.

    The nodes at both ends lie half a spacing inside the caps, of 36: 3 %; rho U^2 of the pulse is 6 % of the drop. The
    friction of the inlet's layers is more than half of the drop of the whole pipe, and half of it lies in the nodes at
    the cap, whose walls nearer than a fourth of a spacing are met there: 3 % more.
    """
    radius, spacing_mm, period_s = 6.0, 0.25, 0.25
    nodes = pipe((0.0, 0.0, 1.0), radius, 36, spacing_mm)
    time = np.linspace(0, period_s, 41)
    flow = 0.02 + 0.03 * np.sin(2 * np.pi * time / period_s)
    wave = write_waveform(tmp_path / "wave.csv", time, flow)
    wanted = settings(inlets={"in": InletSettings(None, wave, "developed")}, cycles=3, snapshots=2)
    summary = solve(nodes, wanted, tmp_path / "flow.vtkhdf", tmp_path / "monitor.csv", LOG)
    assert any("turns back" in note for note in summary["notes"])
    inlet, outlet = (summary["openings"][name] for name in ("in", "out"))
    radius_m, length_m = radius * spacing_mm * 1e-3, 36 * spacing_mm * 1e-3
    lost_pa = 8 * VISCOSITY * length_m * 0.02e-6 / (np.pi * radius_m**4)
    assert inlet["friction_of_layers_pa"] > lost_pa / 2
    assert inlet["pressure_pa"] - outlet["pressure_pa"] == pytest.approx(lost_pa, rel=0.08)
