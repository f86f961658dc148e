# SPDX-License-Identifier: Apache-2.0
"""Developed flow through a cap as a polynomial, and what its openings make of it."""

import logging
from dataclasses import replace

import numpy as np
import pytest

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.lattice import build_lattice
from solver.backends.subdomains import SubdomainsDriver
from solver.boundary.cap_profile import CapProfile, cap_profiles
from solver.boundary.opening_walls import flow_parts
from solver.domain.excerpt import excerpt
from solver.domain.partition import partition
from solver.kernels.collision import relaxation_rates
from solver.run.flow_file import read_flow
from solver.run.settings import InletSettings
from solver.run.solve import solve
from tests.solver.run.test_simulation import DENSITY, VISCOSITY, settings
from tests.support.geometries import pipe
from tests.support.in_memory import InMemory
from tests.support.stability_matrix import of_shape
from tests.support.thread_ranks import on_ranks

LOG = logging.getLogger("test")
DIRECTIONS = [(0, 0, 1), (1, 2, 3), (-3, 1, 1)]


def parts_of(nodes):
    return flow_parts(nodes, cap_profiles(nodes))


def at_ranks(nodes, count, ask):
    """What ranks find that each have a part, and the whole."""
    divided = replace(nodes, part=partition(nodes, count))
    return on_ranks(count, lambda rank: ask(excerpt(InMemory(divided), rank))), ask(nodes)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_profile_of_a_round_cap_is_a_paraboloid(direction):
    """1 - r^2/R^2 at all nodes of a pipe, far from the cap, too, to 1 % of its largest value: the profile of the links
    is found on a staircase. Its derivatives along a link c are -2 x.c/R^2 and -2 |c|^2/R^2 of the parts across.
    """
    nodes = pipe(direction, 6.3, 20)
    opening, unit = nodes.openings[0], np.array(direction) / np.linalg.norm(direction)
    profile, place = CapProfile.of(nodes, opening), nodes.points_mm()
    from_axis = place - opening.centre_mm
    from_axis = from_axis - np.outer(from_axis @ unit, unit)
    link = np.tile((1.0, 0.0, 1.0), (nodes.count, 1))
    across = link - np.outer(link @ unit, unit)
    here, slope, second = profile.along(place, link)
    largest = profile.at(np.array([opening.centre_mm]))[0]
    np.testing.assert_allclose(here / largest, 1 - (from_axis**2).sum(axis=1) / 6.3**2, atol=0.01)
    np.testing.assert_allclose(slope / largest, -2 * (from_axis * across).sum(axis=1) / 6.3**2, atol=0.01)
    np.testing.assert_allclose(second / largest, -2 * (across**2).sum(axis=1) / 6.3**2, atol=0.01)
    assert profile.curvature / largest == pytest.approx(4 / 6.3**2, rel=0.02)


def test_ranks_find_what_one_process_does():
    """Profiles to the bit, and the part of the flow that walls carry."""
    nodes = pipe((1, 2, 3), 4.2, 40).with_corners()
    found, alone = at_ranks(nodes, 3, lambda some: (cap_profiles(some)[1].flow, parts_of(some)))
    for flow, parts in found:
        assert flow == alone[0]
        np.testing.assert_array_equal(parts, alone[1])


def test_a_part_at_an_inlet_that_touches_no_wall_tells_what_walls_take():
    """Nodes in the middle of an inlet as a part of their own: the fields of the whole, to the bit."""
    nodes = pipe((1, 2, 3), 4.2, 16)
    lattice = build_lattice(nodes, "trt", relaxation_rates(0.6, 0.1), parabolic=True)
    at_inlet = np.isin(np.arange(nodes.count), nodes.opening_link_node[nodes.opening_link_opening == 1])
    part = (at_inlet & ~np.isin(np.arange(nodes.count), nodes.wall_link_node)).astype(int)
    assert part.any()
    assert (lattice.inlets.part != 1).all()
    drivers = CpuDriver(lattice), SubdomainsDriver(lattice, part, CpuDriver)
    for driver in drivers:
        driver.advance(np.tile((0.5, 0.0), (40, 1)))
    one, other = (driver.fields() for driver in drivers)
    np.testing.assert_array_equal(one.velocity, other.velocity)
    np.testing.assert_array_equal(one.drho, other.drho)


def duct(last):
    """Square, 10.42 spacings across, two walls 0.92 from the nodes, two half a spacing, the last nodes `last` from the
    outlet.
    """
    shape = {"shape": "duct", "height_mm": 10.42, "width_mm": 10.42, "length_mm": 24.5 + last}
    return of_shape(shape)(1.0)


def test_walls_carry_their_part_out_where_links_do_not_lead_through_the_cap():
    """Where the wall is nearer than the cap along all links, walls add nothing at the outlet, and what they carry
    leaves along them: half of the link beyond half of it, with the shear beside two of four walls, some 1 % of the
    flow. Else links carry all, as they do at the inlet.
    """
    (inlet, short), (_, long) = (parts_of(duct(last)) for last in (0.5, 0.99))
    assert abs(inlet - 1) < 1e-3
    assert abs(short - 1) < 1e-3
    assert 1.007 < long < 1.011


def test_flow_along_a_duct_does_not_change(tmp_path):
    """From two layers behind the inlet to two before the outlet the velocity of all nodes of a layer grows by 0.26 %;
    with what walls carry out given back all along, it grew by 0.81 %.
    """
    nodes = duct(0.99)
    inlets = {"inlet": InletSettings(15 * VISCOSITY / DENSITY / 1e-3 * 10.42**2, None, "developed")}
    wanted = settings(inlets=inlets, steady_tolerance=1e-3)
    summary = solve(nodes, wanted, tmp_path / "flow.vtkhdf", tmp_path / "monitor.csv", LOG)
    into = -np.array(next(each.normal for each in nodes.openings if each.role == "inlet"))
    depth = nodes.points_mm() @ into
    layer = np.round(depth - depth.min()).astype(int)
    through = np.bincount(layer, np.asarray(read_flow(tmp_path / "flow.vtkhdf").velocity_m_s(0), float) @ into)
    assert abs(through[-3] / through[2] - 1) < 0.004
    assert summary["mass_balance"] == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("seed", [1, 2])
def test_pressure_drop_of_a_short_pipe_is_that_between_its_caps(seed, tmp_path):
    """Drawn direction and size, 8 to 11 nodes across, two to three diameters long, Re_g 3, within 1 % of Poiseuille's;
    at nodes half a spacing inside the caps, and with a pressure that acts before the outlet, 3 to 6 % were missing.
    """
    rng = np.random.default_rng(seed)
    across, length = rng.uniform(8, 11), 4 * rng.uniform(2, 3)
    shape = {"shape": "pipe", "diameter_mm": 4.0, "length_mm": length, "direction": rng.standard_normal(3).tolist()}
    nodes = of_shape(shape)(4 / across)
    mean_m_s = 1.5 * VISCOSITY / DENSITY / (4e-3 / across)
    inlets = {"inlet": InletSettings(1e6 * mean_m_s * np.pi * 4e-6, None, "developed")}
    summary = solve(nodes, settings(inlets=inlets), tmp_path / "flow.vtkhdf", tmp_path / "monitor.csv", LOG)
    inlet, outlet = (summary["openings"][name]["pressure_pa"] for name in ("inlet", "outlet"))
    assert inlet - outlet == pytest.approx(32 * VISCOSITY * mean_m_s * length * 1e-3 / 16e-6, rel=0.01)
