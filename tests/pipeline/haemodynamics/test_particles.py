# SPDX-License-Identifier: Apache-2.0
"""Particles go where the flow goes: exact paths, orders of convergence, and walls that let nothing through."""

from dataclasses import replace
from functools import cache

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.haemodynamics.interpolation import Interpolation
from pipeline.haemodynamics.particles import KEPT_OFF, MEMORY, MOVING, Particles, Tracer
from pipeline.haemodynamics.paths import Arrivals, arrivals, releases_s, spread_evenly
from pipeline.haemodynamics.snapshots import Field
from solver.domain.nodes import FLUID, Nodes, Opening
from tests.support.analytic_pipe import Pipe

PIPE = Pipe()


def measured(nodes: Nodes, pipe: Pipe = PIPE) -> Nodes:
    """The pipe's nodes with their exact distances to the wall, as decompose hands them over."""
    across = np.column_stack(pipe.frame()[:2])

    def distance(position):
        points = position * nodes.spacing_mm + np.asarray(nodes.origin_mm)
        return (pipe.radius_mm - np.linalg.norm(points @ across, axis=1)).astype(np.float32)

    return replace(nodes, distance_mm=distance(nodes.position), wall_distance_mm=distance(nodes.wall_position))


@cache
def pipe_lattice(spacing_mm: float) -> Interpolation:
    return Interpolation.of(measured(PIPE.nodes(spacing_mm)))


def box(count: int = 12, openings: tuple[Opening, ...] = ()) -> Interpolation:
    """A cube of fluid nodes, spacing 1 mm, that repeats along all axes, centred on the origin."""
    z, y, x = np.indices((count,) * 3, dtype=np.int32).reshape(3, -1)
    none = np.empty(0)
    nodes = Nodes(
        spacing_mm=1.0,
        origin_mm=(-(count - 1) / 2,) * 3,
        shape=(count,) * 3,
        openings=openings,
        position=np.column_stack((x, y, z)),
        tag=np.full(count**3, FLUID, np.int8),
        opening=np.zeros(count**3, np.int8),
        distance_mm=np.full(count**3, np.inf, np.float32),
        part=np.zeros(count**3, np.int16),
        wall_position=np.empty((0, 3), np.int32),
        wall_distance_mm=none.astype(np.float32),
        wall_link_node=none.astype(np.int32),
        wall_link_direction=none.astype(np.uint8),
        wall_link_wall=none.astype(np.int32),
        wall_link_q=none.astype(np.float32),
        wall_link_patch=none.astype(np.int8),
        opening_link_node=none.astype(np.int32),
        opening_link_direction=none.astype(np.uint8),
        opening_link_opening=none.astype(np.int8),
        opening_link_q=none.astype(np.float32),
        opening_link_profile=none.astype(np.float32),
        periodic=(True, True, True),
    )
    return Interpolation.of(nodes)


@cache
def plain_box() -> Interpolation:
    """Not before a test asks for it: to collect the tests compiles nothing."""
    return box()


def steady(velocity) -> Field:
    return Field(np.zeros(1), None, lambda step: velocity)


def carried(tracer: Tracer, lattice: Interpolation, points_mm, since_s: float, until_s: float):
    """Where points, (P, 3), go, and the particles."""
    count = len(points_mm)
    particles = Particles.at(lattice.place(points_mm), np.full(count, since_s), until_s - since_s)
    tracer.advance(particles, until_s)
    return lattice.points_mm(particles.place), particles


def rotation(points_mm):
    """About z by an angle of 1 a second; m/s of mm."""
    return 1e-3 * np.column_stack((-points_mm[:, 1], points_mm[:, 0], np.zeros(len(points_mm))))


def test_rotation_returns_to_its_start_with_the_fourth_order_of_the_step():
    """Linear in space, so that interpolation is exact; float32 velocities bound the error at 1e-6 of the radius."""
    start = np.array([[3.0, 0.0, 0.2], [0.0, 3.0, -0.4]])
    errors = []
    for step in (1.0, 0.5):
        tracer = Tracer(plain_box(), steady(rotation(plain_box().nodes.points_mm()).astype(np.float32)), (), step)
        end, _ = carried(tracer, plain_box(), start, 0.0, 2 * np.pi)
        errors.append(np.linalg.norm(end - start, axis=1).max())
    assert errors[0] > 1e-3  # far above rounding
    assert np.log2(errors[0] / errors[1]) == pytest.approx(4, abs=0.3)  # 19 steps a turn are not quite asymptotic


@given(
    st.lists(st.floats(-0.5, 0.5), min_size=3, max_size=3),
    st.lists(st.floats(-0.5, 0.5), min_size=3, max_size=3),
    st.floats(-3.0, 3.0),
    st.floats(-3.0, 3.0),
)
@settings(max_examples=40, deadline=None)
def test_uniform_flow_that_is_linear_in_time_gives_the_exact_path(first, second, since, until):
    """Between snapshots at 0 and 1 of a period of 2: the mean velocity is a trapezium's, whichever way time runs."""
    count = plain_box().nodes.count
    speeds = 1e-3 * np.array([first, second], np.float32)
    field = Field(np.array([0.0, 1.0]), 2.0, lambda step: np.tile(speeds[step], (count, 1)))
    end, _ = carried(Tracer(plain_box(), field, (), 0.5), plain_box(), np.zeros((1, 3)), since, until)

    def way(t):
        """Integral of u from 0 to t: over a whole period both have the weight 1."""
        whole, rest = np.divmod(t, 2.0)
        later = min(rest, 1.0) ** 2 / 2 + (max(rest - 1, 0) - max(rest - 1, 0) ** 2 / 2)
        return whole * (speeds[0] + speeds[1]) + later * speeds[1] + (rest - later) * speeds[0]

    np.testing.assert_allclose(end[0], 1e3 * (way(until) - way(since)), atol=1e-6)


def abc(points_mm, count: int):
    """Arnold, Beltrami and Childress's flow, without divergence, of the period of the box; m/s.

    Source: Dombre et al. (1986), doi:10.1017/S0022112086002859.
    """
    x, y, z = (2 * np.pi / count * points_mm).T
    return 1e-3 * np.column_stack((np.sin(z) + np.cos(y), np.sin(x) + np.cos(z), np.sin(y) + np.cos(x)))


@given(st.integers(0, 2**31))
@settings(max_examples=10, deadline=None)
def test_a_particle_that_goes_forward_and_back_returns(seed):
    """In a flow that varies in space and time, up to the error of steps of 0.05 spacings: kinks of the interpolation
    between cells make it second order there, 1e-3 spacings over a way of 10.
    """
    velocity = abc(plain_box().nodes.points_mm(), 12).astype(np.float32)
    field = Field(np.array([0.0, 1.0, 3.0]), 4.0, lambda step: velocity * (1.0, 0.3, 1.5)[step])
    tracer = Tracer(plain_box(), field, (), 0.05)
    start = np.random.default_rng(seed).uniform(-5, 5, (20, 3))
    there, _ = carried(tracer, plain_box(), start, 0.5, 6.2)
    back, _ = carried(tracer, plain_box(), there, 6.2, 0.5)
    assert np.linalg.norm(there - start, axis=1).max() > 2
    np.testing.assert_allclose(back, start, atol=2e-3)


@pytest.mark.parametrize(("room", "reads"), [(0, 26), (1, 18), (2, 10), (3, 3)])
def test_snapshots_that_stay_in_memory_are_read_once_and_change_nothing(monkeypatch, room, reads):
    """Four cycles of three snapshots, there and back: 13 intervals each way, the first of which has two snapshots and
    every other reads one, but where the way turns. One that stays is read once, in place of once a cycle each way.
    """
    lattice = plain_box()
    velocity = abc(lattice.nodes.points_mm(), 12).astype(np.float32)
    read = []

    def snapshot(step):
        read.append(step)
        return velocity * (1.0, 0.3, 1.5)[step]

    ends = []
    for stay in (0, room):
        read.clear()
        free_bytes = (stay + 0.5) * 3 * lattice.distance.nbytes / MEMORY
        monkeypatch.setattr("pipeline.haemodynamics.particles.available_bytes", lambda free=free_bytes: free)
        tracer = Tracer(lattice, Field(np.array([0.0, 1.0, 3.0]), 4.0, snapshot), (), 0.25)
        there, _ = carried(tracer, lattice, np.ones((5, 3)), 0.5, 16.5)
        ends.append(carried(tracer, lattice, there, 16.5, 0.5)[0])
    np.testing.assert_array_equal(*ends)
    assert len(read) == reads == tracer.reads


def test_particles_at_their_end_ask_for_no_snapshots():
    velocity = np.zeros((plain_box().nodes.count, 3), np.float32)
    tracer = Tracer(plain_box(), Field(np.array([0.0, 1.0, 3.0]), 4.0, lambda step: velocity), (), 0.25)
    particles = Particles.at(plain_box().place(np.zeros((2, 3))), np.zeros(2), 0.5)
    tracer.advance(particles, 0.5)
    reads = tracer.reads
    np.testing.assert_array_equal(particles.state, MOVING)
    np.testing.assert_array_equal(particles.clock_s, 0.5)
    tracer.advance(particles, 40.0)
    assert tracer.reads == reads


def test_samples_on_the_way_do_not_change_where_it_leads_in_a_steady_uniform_flow():
    tracer = Tracer(plain_box(), steady(np.full((plain_box().nodes.count, 3), 1e-3, np.float32)), (), 0.5)
    particles = Particles.at(plain_box().place(np.zeros((2, 3))), np.array([0.0, 1.0]), 2.0)
    seen = tracer.follow(particles, np.arange(2), np.array([0.0, 0.5, 1.0, 2.0, 3.0, 4.0]))
    np.testing.assert_allclose(seen[0, :4, 3], [0, 0.5, 1, 2])
    np.testing.assert_allclose(plain_box().points_mm(seen[0, :4, :3])[:, 0], [0, 0.5, 1, 2], atol=1e-6)
    assert np.isnan(seen[0, 4:]).all()  # at its end
    np.testing.assert_allclose(seen[1, 2:5, 3], [1, 2, 3])
    assert np.isnan(seen[1, :2]).all()  # not yet released
    np.testing.assert_allclose(seen[:, 3, 4:], 1e-3)


def test_velocity_that_is_linear_up_to_the_wall_is_interpolated_up_to_the_wall():
    """The error of trilinear interpolation of a parabola is h^2/8 times its second derivative, 4 U/R^2, along each of
    two axes at most; at the wall links add as much.
    """
    for spacing in (0.4, 0.2):
        lattice = pipe_lattice(spacing)
        values = lattice.extended(PIPE.velocity(lattice.nodes.points_mm()), zero_at_wall=True)
        rng = np.random.default_rng(3)
        points = places_in_pipe(rng, 4000, 1.0)
        error = np.linalg.norm(lattice.sample(values, points) - PIPE.velocity(points), axis=1).max()
        assert error < 2 * 2 * spacing**2 / 8 * 4 * PIPE.mean_speed_m_s / PIPE.radius_mm**2


def places_in_pipe(rng, count: int, part_of_radius: float):
    """Evenly over the volume, away from the caps by a spacing."""
    first, second, axis = PIPE.frame()
    r, angle = part_of_radius * PIPE.radius_mm * np.sqrt(rng.random(count)), 2 * np.pi * rng.random(count)
    along = (rng.random(count) - 0.5) * (PIPE.length_mm - 1)
    return np.outer(r * np.cos(angle), first) + np.outer(r * np.sin(angle), second) + np.outer(along, axis)


@cache
def through_pipe(spacing_mm: float):
    """Particles at every place of the pipe, their radius and way, and how they came in and leave within 20 V/Q."""
    lattice = pipe_lattice(spacing_mm)
    points = places_in_pipe(np.random.default_rng(5), 3000, 1.0)
    across, axis = np.column_stack(PIPE.frame()[:2]), PIPE.frame()[2]
    radius, along = np.linalg.norm(points @ across, axis=1), points @ axis
    tracer = Tracer(lattice, steady(PIPE.velocity(lattice.nodes.points_mm()).astype(np.float32)), PIPE.openings(), 0.5)
    limit = 20 * 1e-3 * PIPE.length_mm / PIPE.mean_speed_m_s
    place = lattice.place(points)
    particles = Particles.at(place, np.zeros(len(place)), limit)
    tracer.advance(particles, limit)
    left = Arrivals.of(particles, place, 0.0, limit)
    entered = arrivals(tracer, place, 0.0, -limit, lambda passed: None)
    return lattice, points, radius, along, entered, left, particles, limit


@pytest.mark.parametrize(("spacing_mm", "tolerance"), [pytest.param(0.4, 0.12, marks=pytest.mark.slow), (0.2, 0.03)])
def test_time_in_a_pipe_is_its_way_over_the_speed_there(spacing_mm, tolerance):
    """x / u(r) within 0.8 radii, where trilinear interpolation of the parabola lowers u by h^2/4R^2 / (1 - r^2/R^2) on
    average and twice that at most: 0.055 and 0.014; near the wall a drift across adds to it.
    """
    _, _, radius, along, entered, left, _, _ = through_pipe(spacing_mm)
    core = radius < 0.8 * PIPE.radius_mm
    speed = 2e3 * PIPE.mean_speed_m_s * (1 - (radius / PIPE.radius_mm) ** 2)
    for arrived, way, opening in ((left, PIPE.length_mm / 2 - along, 2), (entered, along + PIPE.length_mm / 2, 1)):
        np.testing.assert_allclose(arrived.time_s[core], (way / speed)[core], rtol=tolerance)
        assert (arrived.through[core] == opening).all()


@pytest.mark.parametrize(("spacing_mm", "tolerance"), [(0.4, 0.03), (0.2, 0.01)])
def test_mean_residence_weighted_by_flow_is_volume_over_flow(spacing_mm, tolerance):
    """The harmonic mean over the volume. With 3000 particles at random its standard deviation is 0.6 %, about that of
    u/U over the volume, 1/sqrt(3), over sqrt(3000) / 1; tolerances allow as much beside the error of the lattice.
    """
    _, _, _, _, entered, left, _, _ = through_pipe(spacing_mm)
    residence = entered.time_s + left.time_s
    mean = len(residence) / (1 / residence).sum()
    assert mean == pytest.approx(1e-3 * PIPE.length_mm / PIPE.mean_speed_m_s, rel=tolerance + 0.012)


@pytest.mark.parametrize("spacing_mm", [0.4, 0.2])
def test_nobody_leaves_through_the_wall_or_stays_at_it(spacing_mm):
    lattice, _, radius, along, entered, left, particles, limit = through_pipe(spacing_mm)
    assert not (entered.lost | left.lost).any()
    assert not (entered.stuck | left.stuck).any()
    assert set(np.unique(left.through)) <= {0, 2}
    assert set(np.unique(entered.through)) <= {0, 1}
    across = np.column_stack(PIPE.frame()[:2])
    final = np.linalg.norm(lattice.points_mm(particles.place) @ across, axis=1)
    assert final.max() < PIPE.radius_mm - 0.5 * KEPT_OFF * spacing_mm
    speed = 2e3 * PIPE.mean_speed_m_s * (1 - (radius / PIPE.radius_mm) ** 2)
    late = (PIPE.length_mm / 2 - along) / speed > 1.5 * limit  # too slow to leave by far
    quick = (PIPE.length_mm / 2 - along) / speed < 0.5 * limit
    assert (left.through[quick] == 2).mean() > 0.999
    assert (left.through == 0).sum() <= late.sum() + (~quick & ~late).sum()


def test_results_do_not_depend_on_the_number_of_threads():
    lattice = pipe_lattice(0.4)
    velocity = PIPE.velocity(lattice.nodes.points_mm()).astype(np.float32)
    field = Field(np.array([0.0, 0.02]), 0.05, lambda step: velocity * (1 + step))
    points = places_in_pipe(np.random.default_rng(7), 500, 0.99)
    ends = []
    before = numba.get_num_threads()
    try:
        for threads in (1, numba.config.NUMBA_NUM_THREADS):
            numba.set_num_threads(threads)
            ends.append(carried(Tracer(lattice, field, PIPE.openings(), 0.5), lattice, points, 0.01, 0.3)[1])
    finally:
        numba.set_num_threads(before)
    for name in ("place", "clock_s", "state", "velocity_m_s", "held"):
        np.testing.assert_array_equal(getattr(ends[0], name), getattr(ends[1], name))


def test_what_repeats_is_crossed_and_a_cap_is_where_its_plane_is():
    """A particle goes round the box that repeats and ends on the plane, to the time at which it gets there."""
    cap = Opening(1, "out", "outlet", (20.25, 0.0, 0.0), (1.0, 0.0, 0.0), np.pi, 1.0)
    velocity = np.tile(np.array([1e-3, 0, 0], np.float32), (plain_box().nodes.count, 1))
    tracer = Tracer(plain_box(), steady(velocity), (cap,), 0.5)
    end, particles = carried(tracer, plain_box(), np.array([[0.0, 0, 0], [0.0, 1.4, 0], [0.0, 1.6, 0]]), 0.0, 30.0)
    assert particles.state.tolist() == [1, 1, MOVING]  # within 1.5 radii of the centre, or not
    np.testing.assert_allclose(end[:, 0], [20.25, 20.25, 30.0], rtol=1e-6)
    np.testing.assert_allclose(particles.clock_s, [20.25, 20.25, 30.0], rtol=1e-6)


@given(st.integers(1, 5000), st.integers(1, 6000))
def test_rows_are_spread_evenly(count, wanted):
    rows = spread_evenly(count, wanted)
    assert len(rows) == min(count, wanted) == len(np.unique(rows))
    assert rows[0] >= 0
    assert rows[-1] < count
    if len(rows) > 1:
        assert np.ptp(np.diff(rows)) <= 1


@given(st.integers(100, 3000), st.integers(60, 400))
@settings(deadline=None)
def test_releases_are_spread_evenly_over_the_period(count, moments):
    """Discrepancy of a sequence with bounded quotients: within 3 log(n) / n + 1 / moments of uniform."""
    phase = np.sort(releases_s(count, np.arange(moments) / moments))
    assert np.abs(phase - np.arange(count) / count).max() < 3 * np.log(count) / count + 1 / moments
