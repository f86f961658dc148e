# SPDX-License-Identifier: Apache-2.0
"""Sections across branches, and what flows through them: against pipes, narrowings and forks that are known."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.case.settings.geometry import VoxelizeSettings
from pipeline.geometry.branches.branch_files import read_branches, write_polylines
from pipeline.geometry.branches.vessel_tree import Branch
from pipeline.geometry.lattice.node_arrays import decompose
from pipeline.haemodynamics.accumulator import Fields
from pipeline.haemodynamics.blocks import Blocks
from pipeline.haemodynamics.centreline_profile import CentrelineProfile, reference_diameters
from pipeline.haemodynamics.sections import (
    MAX_AREA_DIFFERENCE,
    find_stations,
    least_section,
    loop_around,
    wall_of_stations,
)
from pipeline.haemodynamics.wall_shear_stress import Wall
from pipeline.stages.voxelize import voxelize
from solver.runtime.errors import StageError
from tests.support.analytic_pipe import Pipe
from tests.support.shapes import revolve
from tests.support.shapes import stenosis as throat_of
from tests.support.swept import forked, swept

DENSITY, VISCOSITY = 1060.0, 3.5e-3


def straight(pipe, number=1):
    """The axis of a pipe as a branch."""
    along = np.linspace(-0.5, 0.5, 41)[:, None] * pipe.length_mm
    return branch(number, along * pipe.frame()[2], pipe.radius_mm)


def branch(number, points, radius, own=None, leads=True, names=("inlet", "outlet")):
    count = len(points)
    own = np.ones(count, bool) if own is None else own
    return Branch(number, *names, 0, np.asarray(points), np.broadcast_to(radius, count).copy(), own, leads)


def lengthwise(branches, surface, nodes, times, shear_pa=None):
    """The sums along the branches, and their rows."""
    wall = Wall.of(surface)
    stations = find_stations(branches, surface, nodes)
    belongs = wall_of_stations(stations, branches, wall, np.ones(len(wall.normals), bool))
    along = CentrelineProfile(branches, stations, belongs, DENSITY, VISCOSITY)
    for fields in times:
        along.add(fields)
    shear = np.ones(len(wall.normals)) if shear_pa is None else shear_pa(wall.mesh.points_mm)
    return along, along.rows(shear, None)


def still(nodes, velocity=None, pressure=None):
    """Fields of which a part is given and the rest is 0."""
    count = nodes.count
    velocity = np.zeros((count, 3)) if velocity is None else velocity
    return Fields(velocity, np.zeros(count) if pressure is None else pressure, np.zeros((count, 6)))


def column(rows, key):
    return np.array([row[key] for row in rows])


@pytest.mark.parametrize("direction", [(1, 0, 0), (2, 3, 6), (0.3, -0.8, 0.5)])
def test_sections_of_a_pipe_carry_what_the_pipe_does(direction):
    """A polygon of 62 corners has 0.17 % less area than its circle. Nodes in a slab miss up to 0.4 % of the flow of a
    tube 10 nodes across (0.1 % at 20): the planes of nodes do not fill it evenly. The fastest node lies up to half the
    diagonal of a box, 0.87 spacings, off the axis: 3 % of the speed at most at 10 across.
    """
    pipe = Pipe(axis=direction)
    nodes, surface = pipe.nodes(0.4), pipe.surface(0.2)
    points = nodes.points_mm()
    fields = Fields(pipe.velocity(points), pipe.pressure(points), pipe.stress(points))
    _, rows = lengthwise([straight(pipe)], surface, nodes, [fields], lambda places: 1 + places @ pipe.frame()[2])
    way, area = column(rows, "way_mm"), np.pi * pipe.radius_mm**2
    assert len(rows) >= 8  # every radius' half over 9 of 12 mm; 3.5 spacings at both ends are the openings'
    assert way.min() >= 3.5 * 0.4 - 1e-9
    np.testing.assert_allclose(column(rows, "area_mm2"), area, rtol=2e-3)
    np.testing.assert_allclose(column(rows, "flow_ml_s"), pipe.flow_ml_s, rtol=4e-3)
    np.testing.assert_allclose(column(rows, "mean_speed_m_s"), pipe.mean_speed_m_s, rtol=6e-3)
    np.testing.assert_allclose(column(rows, "peak_speed_m_s"), 2 * pipe.mean_speed_m_s, rtol=0.031)
    expected = pipe.gradient_pa_mm * (pipe.length_mm - way)
    np.testing.assert_allclose(column(rows, "pressure_pa"), expected, rtol=1e-9)  # linear: exact
    np.testing.assert_allclose(column(rows, "pressure_mmhg"), expected / 133.322, rtol=1e-5)
    # of a parabola the mean of rho u^2/2 weighted with the flow is rho U^2; nodes weigh its peak by 2 % at 10 across
    dynamic = column(rows, "total_pressure_pa") - column(rows, "pressure_pa")
    np.testing.assert_allclose(dynamic, DENSITY * pipe.mean_speed_m_s**2, rtol=0.02)
    reynolds = 2e-3 * pipe.radius_mm * pipe.mean_speed_m_s * DENSITY / VISCOSITY
    np.testing.assert_allclose(column(rows, "reynolds"), reynolds, rtol=6e-3)
    # the ring of a station ends half-way between points of the line, 0.3 mm apart, and between vertices, 0.2 mm apart:
    # the mean of a field of slope 1 over it is the middle's to half of both
    np.testing.assert_allclose(column(rows, "shear_mean_pa"), 1 + way - pipe.length_mm / 2, atol=0.25)


@given(turn=st.integers(0, 50), tilt=st.floats(0, 0.3))
@settings(max_examples=25, deadline=None)
def test_a_tilted_plane_cuts_an_ellipse(turn, tilt):
    """The section of a tube by a plane tilted by t has the area pi R^2/cos t, and cosines of spread sin t/sqrt(2).

    A polygon of 64 corners, on flat sides, has 0.16 % less.
    """
    axis = np.array([np.cos(turn), np.sin(turn) * 0.6, 0.5])
    mesh = revolve([0, 2, 2, 0], [-6, -6, 6, 6], [1, 0, 2], axis, np.zeros(3), 64)
    axis = axis / np.linalg.norm(axis)
    across = np.cross(axis, [0, 0, 1.0])
    normal = np.cos(tilt) * axis + np.sin(tilt) * across / np.linalg.norm(across)
    loop = loop_around(Blocks.of(mesh), 0.7 * axis + 0.3 * across, normal)
    assert loop.area_mm2 == pytest.approx(4 * np.pi / np.cos(tilt), rel=2e-3)
    assert loop.tilt == pytest.approx(np.sin(tilt) / np.sqrt(2), abs=0.01)


def test_a_section_with_a_cap_in_it_is_none_and_so_is_one_around_nothing():
    mesh = revolve([0, 2, 2, 0], [-6, -6, 6, 6], [1, 0, 2], (0, 0, 1), np.zeros(3), 32)
    steep = np.array([0.95, 0, np.sqrt(1 - 0.95**2)])
    assert loop_around(Blocks.of(mesh), np.zeros(3), steep) is None  # the ellipse is longer than the tube
    assert loop_around(Blocks.of(mesh), np.array([5.0, 0, 0]), np.array([0, 0, 1.0])) is None
    assert loop_around(Blocks.of(mesh), np.array([0.0, 0, 9]), np.array([0, 0, 1.0])) is None


def test_section_of_a_bent_vessel_is_the_loop_about_the_point():
    """A plane through a torus cuts it twice: the section is one of both circles, of area pi r^2."""
    angle = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    mesh = revolve(10 + 2 * np.cos(angle), 2 * np.sin(angle), [0] * 64, (0, 0, 1), np.zeros(3), 200)
    loop = loop_around(Blocks.of(mesh), np.array([10.0, 0.3, 0.2]), np.array([0, 1.0, 0]))
    assert loop.area_mm2 == pytest.approx(4 * np.pi, rel=3e-3)  # 64 corners: 0.16 % less, 0.3 mm off the middle
    assert loop.reach_mm < 2.4
    assert loop.holds(np.array([[10.0, 0.3, 1.9], [-10.0, 0.3, 0], [10.0, 0.3, 2.1]])).tolist() == [True, False, False]


def narrowed(throat, length=40.0, middle=20.0, wide=2.0, taper=0.0, lasts=8.0):
    """Radius of a vessel of `wide` mm that is a cosine narrower about the middle, as a function of the way."""

    def radius(way):
        phase = np.clip((way - middle) / lasts, -0.5, 0.5)
        return (wide - taper * way / length) * (1 - (1 - throat) * (1 + np.cos(2 * np.pi * phase)) / 2)

    return radius


def vessel(radius_of, length=40.0, direction=(0.3, -0.8, 0.5), spacing_mm=0.25):
    """Surface, nodes and line of a straight vessel, and a flow of 2 mL/s with parabolas for profiles."""
    axis = np.array(direction) / np.linalg.norm(direction)
    way = np.linspace(0, length, 161)
    surface, openings = swept(way[:, None] * axis, radius_of(way), 64)
    lattice, _ = voxelize(surface, openings, VoxelizeSettings(spacing_mm=spacing_mm))
    nodes = decompose(lattice, surface, openings)[0]
    line = branch(1, way[:, None] * axis, radius_of(way))
    along = nodes.points_mm() @ axis
    away = np.linalg.norm(nodes.points_mm() - along[:, None] * axis, axis=1)
    radius = radius_of(along)
    speed = 4 / (np.pi * radius**2) * np.maximum(1 - away**2 / radius**2, 0)
    return surface, nodes, line, still(nodes, speed[:, None] * axis, 1000 - 10 * along)


@pytest.fixture(scope="module")
def stenosis():
    """Half the diameter is gone in the throat."""
    return vessel(narrowed(0.5))


def test_a_narrowing_is_found_with_its_percentage(stenosis):
    """Half by diameter is 3/4 by area. A station stands in the throat: its section is exact to the polygon's 0.16 %,
    which the reference has, too; the station may lie half a point of the line, 0.06 mm, beside the middle.
    """
    surface, nodes, line, fields = stenosis
    along, rows = lengthwise([line], surface, nodes, [fields])
    (found,) = along.narrowings(rows, physiological=True)
    assert found["stenosis_by_diameter"] == pytest.approx(0.5, abs=2e-3)
    assert found["stenosis_by_area"] == pytest.approx(0.75, abs=2e-3)
    assert found["reference_diameter_mm"] == pytest.approx(4.0, rel=3e-3)
    assert found["way_mm"] == pytest.approx(20.0, abs=0.13)
    np.testing.assert_allclose(found["at_mm"], line.points_mm[80], atol=0.13)
    # twice the mean speed in a quarter of the area; the lattice has 8 nodes across, the nearest up to 3 % slower,
    # within a spacing of the throat
    assert found["max_speed_m_s"] == pytest.approx(2 * 2 / np.pi, rel=0.08)
    # pressures of the linear field, 10 Pa/mm, at the sections on both sides, within two steps of the narrowing's ends
    assert found["pressure_drop_pa"] == pytest.approx(10 * 8 * 0.8, abs=10 * 2)
    assert found["pressure_ratio"] == pytest.approx(found["pressure_distal_pa"] / found["pressure_proximal_pa"])
    assert found["pressure_ratio"] == pytest.approx((1000 - 232) / (1000 - 168), abs=0.01)
    assert along.narrowings(rows, physiological=False)[0]["pressure_ratio"] is None
    (reported,) = along.of_branches(rows)
    assert reported["flow_deviation"] < 0.02  # 8 nodes across the throat
    assert reported["min_area_mm2"] == pytest.approx(np.pi, rel=5e-3)


def test_flow_that_runs_the_other_way_swaps_the_sides(stenosis):
    surface, nodes, line, fields = stenosis
    back = replace(fields, velocity_m_s=-fields.velocity_m_s, pressure_pa=2000 - fields.pressure_pa)
    along, rows = lengthwise([line], surface, nodes, [back])
    (found,) = along.narrowings(rows, physiological=True)
    assert found["pressure_drop_pa"] > 0
    assert found["pressure_ratio"] < 1


def test_slight_narrowings_and_blind_branches_are_not_listed(stenosis):
    surface, nodes, line, fields = vessel(narrowed(0.75), spacing_mm=0.4)  # a quarter of the diameter
    along, rows = lengthwise([line], surface, nodes, [fields])
    assert along.narrowings(rows, physiological=True) == []
    surface, nodes, line, fields = stenosis
    along, rows = lengthwise([replace(line, leads=False)], surface, nodes, [fields])
    assert along.narrowings(rows, physiological=True) == []
    assert along.of_branches(rows)[0]["flow_deviation"] is None


@given(
    taper=st.floats(0, 0.4),
    throat=st.floats(0.2, 0.65),
    middle=st.floats(8, 32),
    lasts=st.floats(2, 8),
    wide=st.floats(1, 9),
)
@settings(max_examples=100, deadline=None)
def test_the_reference_is_the_vessel_without_its_narrowing(taper, throat, middle, lasts, wide):
    """Of a straight taper with a narrowing on a fifth of its length at most, the taper: what is left of the narrowing's
    shoulders within the 10 % shifts it by 3 % at most."""
    way = np.linspace(1, 39, 60)
    shape = {"wide": wide, "taper": taper * wide}
    line = reference_diameters(way, 2 * narrowed(throat, middle=middle, lasts=lasts, **shape)(way))
    np.testing.assert_allclose(line, 2 * narrowed(1.0, **shape)(way), rtol=0.03)


def test_a_widening_is_no_reference():
    """An aneurysm on a third of a branch does not make the rest of it a stenosis."""
    way = np.linspace(0, 30, 40)
    diameter = np.where((way > 10) & (way < 20), 9.0, 4.0)
    np.testing.assert_allclose(reference_diameters(way, diameter), 4.0, rtol=1e-9)


@pytest.fixture(scope="module")
def fork():
    """A parent along x and two daughters 24 degrees apart, radius 1 mm each, which part 4.8 mm behind the fork, and the
    lines of the three, daughters own from 2 mm on."""
    ends = {"inlet": np.array([-10.0, 0, 0]), "left": None, "right": None}
    for name, sign in (("left", 1), ("right", -1)):
        angle = sign * np.radians(12)
        ends[name] = 16 * np.array([np.cos(angle), np.sin(angle), 0.0])
    roles = {"inlet": "inlet", "left": "outlet", "right": "outlet"}
    surface, openings = forked([(name, roles[name], end, 1.0) for name, end in ends.items()], 0.2)
    lattice, _ = voxelize(surface, openings, VoxelizeSettings(spacing_mm=0.12))
    nodes = decompose(lattice, surface, openings)[0]
    lines = []
    for number, (name, end) in enumerate(ends.items(), 1):
        points = np.linspace(0, 1, 81)[:, None] * end
        points = points[::-1] if name == "inlet" else points
        own = np.linalg.norm(points, axis=1) > 2
        names = (name, "fork") if name == "inlet" else ("fork", name)
        lines.append(branch(number, points, 1.0, own, names=names))
    return surface, nodes, lines, ends


def test_sections_of_one_branch_do_not_collect_the_other(fork):
    """Every node moves along its own branch: 1 m/s in the left, 3 m/s in the right; where both are in one section there
    is none. Areas of the slabs are the sections' to 2 % at 17 nodes across."""
    surface, nodes, lines, ends = fork
    points = nodes.points_mm()
    left = points[:, 1] > 0
    daughters = np.where(left[:, None], ends["left"] / 16, 3 * ends["right"] / 16)
    velocity = np.where(points[:, :1] < 0, [1.0, 0, 0], daughters)
    along, rows = lengthwise(lines, surface, nodes, [still(nodes, velocity)])
    flow, way, area = column(rows, "flow_ml_s"), column(rows, "way_mm"), column(rows, "area_mm2")
    number = column(rows, "branch")
    for each, speed in ((2, 1.0), (3, 3.0)):
        mine = number == each
        apart = mine & (way > 6)  # the tubes' walls part at 1/sin 12 deg = 4.8 mm; the section reaches 1 mm to the side
        assert apart.sum() >= 12
        np.testing.assert_allclose(flow[apart] / speed, np.pi, rtol=0.02)
        np.testing.assert_allclose(area[apart], np.pi, rtol=0.01)
        joined = mine & (way < 4)
        assert joined.any()
        assert np.isnan(flow[joined]).all()
        assert np.isnan(column(rows, "pressure_pa")[joined]).all()
    np.testing.assert_allclose(flow[(number == 1) & (way < 7)], np.pi, rtol=0.02)
    reported = along.of_branches(rows)
    assert [each["branch"] for each in reported] == [1, 2, 3]
    assert max(each["flow_deviation"] for each in reported) < 0.02


def test_wall_belongs_to_the_branch_that_it_encloses(fork):
    """With 1 Pa on the left daughter's wall and 2 Pa on the right's, each has its own, where the walls have parted."""
    surface, nodes, lines, _ = fork
    _, rows = lengthwise(lines, surface, nodes, [still(nodes)], lambda places: np.where(places[:, 1] > 0, 1.0, 2.0))
    for each, shear in ((2, 1.0), (3, 2.0)):
        mine = (column(rows, "branch") == each) & (column(rows, "way_mm") > 6)
        np.testing.assert_allclose(column(rows, "shear_mean_pa")[mine], shear, rtol=1e-12)


def test_wall_of_all_stations_is_the_wall_between_them():
    """Rings of the stations neither overlap nor leave gaps: their areas add up to 2 pi R times what they span."""
    pipe = Pipe(length_mm=20.0)
    nodes, surface = pipe.nodes(0.4), pipe.surface(0.1)
    stations = find_stations([straight(pipe)], surface, nodes)
    wall = Wall.of(surface)
    areas = wall_of_stations(stations, [straight(pipe)], wall, np.ones(len(wall.normals), bool)).sum(axis=1)
    step = np.diff(stations.way_mm)
    spans = np.ptp(stations.way_mm) + (step[0] + step[-1]) / 2
    assert areas.sum() == pytest.approx(2 * np.pi * pipe.radius_mm * spans, rel=0.03)  # a ring is 0.1 of 16 mm
    assert areas.min() > 0


def test_a_lattice_that_fills_no_section_has_none():
    """Nodes of a thinner pipe are not those of the surface: areas that differ by more than a tenth are not used."""
    pipe = Pipe()
    thin = replace(pipe, radius_mm=pipe.radius_mm * np.sqrt(1 - 1.5 * MAX_AREA_DIFFERENCE))
    stations = find_stations([straight(pipe)], pipe.surface(0.2), thin.nodes(0.2))
    assert stations.count
    assert not stations.whole.any()


def test_viscosity_that_varies_sets_the_reynolds_number():
    pipe = Pipe()
    nodes = pipe.nodes(0.4)
    points = nodes.points_mm()
    fields = Fields(pipe.velocity(points), pipe.pressure(points), pipe.stress(points))
    constant = lengthwise([straight(pipe)], pipe.surface(0.2), nodes, [fields])[1]
    thicker = replace(fields, viscosity_pa_s=np.full(nodes.count, 2 * VISCOSITY))
    double = lengthwise([straight(pipe)], pipe.surface(0.2), nodes, [thicker])[1]
    np.testing.assert_allclose(2 * column(double, "reynolds"), column(constant, "reynolds"), rtol=1e-9)


def test_flow_to_and_fro_has_a_deviation_against_what_moved():
    """A mean flow of 0 does not make the deviation infinite: it counts against the mean magnitude."""
    pipe = Pipe()
    nodes = pipe.nodes(0.4)
    points = nodes.points_mm()
    there = Fields(pipe.velocity(points), pipe.pressure(points), pipe.stress(points))
    back = replace(there, velocity_m_s=-there.velocity_m_s)
    along, rows = lengthwise([straight(pipe)], pipe.surface(0.2), nodes, [there, back])
    assert along.of_branches(rows)[0]["flow_deviation"] == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(column(rows, "flow_ml_s"), 0.0, atol=1e-12)
    np.testing.assert_allclose(along.moved_ml_s / 2, pipe.flow_ml_s, rtol=4e-3)


def test_branches_are_read_as_they_were_written(tmp_path):
    """And a file without lines is told from one with."""
    lines = [straight(Pipe()), branch(2, [[0, 0, 0], [1, 2, 3.0]], [1.0, 0.5], np.array([True, False]), leads=False)]
    rows = [
        {"branch": b.id, "parent": b.parent, "from": b.start, "to": b.stop, "leads_to_opening": b.leads} for b in lines
    ]
    arrays = {"radius (mm)": [b.radius_mm for b in lines], "own": [b.own.astype(np.int8) for b in lines]}
    write_polylines(tmp_path / "lines.vtp", [b.points_mm for b in lines], arrays, rows)
    for found, line in zip(read_branches(tmp_path / "lines.vtp"), lines, strict=True):
        assert (found.id, found.start, found.stop, found.leads) == (line.id, line.start, line.stop, line.leads)
        np.testing.assert_array_equal(found.points_mm, line.points_mm)
        np.testing.assert_array_equal(found.radius_mm, line.radius_mm)
        np.testing.assert_array_equal(found.own, line.own)
    write_polylines(tmp_path / "none.vtp", [], {}, [])
    with pytest.raises(StageError, match="no lines"):
        read_branches(tmp_path / "none.vtp")


@pytest.mark.parametrize("seed", range(6))
def test_the_least_section_of_a_flat_throat_is_wider_than_its_largest_ball(seed):
    """A stenosis pressed flat: pi a b, where the ball has pi b^2; the line winds a little off its middle."""
    rng = np.random.default_rng(9100 + seed)
    radius, flat = rng.uniform(1.5, 4), rng.uniform(0.3, 1.0)
    throat = radius * rng.uniform(0.3, 0.7)
    mesh, _ = throat_of((0, 0, 1), radius, 10 * radius, throat)
    pressed = replace(mesh, points_mm=mesh.points_mm * [1.0, flat, 1.0])
    way = np.linspace(-4.5, 4.5, 181) * radius
    inside = np.clip(6 * way / (10 * radius), -1, 1)
    balls = flat * (radius - (radius - throat) * (1 + np.cos(np.pi * inside)) / 2)
    line = np.column_stack([0.1 * throat * np.sin(way), np.zeros_like(way), way])
    loop = least_section(Blocks.of(pressed), branch(1, line, balls))
    assert loop.area_mm2 == pytest.approx(np.pi * throat * throat * flat, rel=0.03)  # of 64 segments, and 60 planes
    assert abs(loop.place_mm[2]) < 0.5 * radius
