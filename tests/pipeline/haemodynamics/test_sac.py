# SPDX-License-Identifier: Apache-2.0
"""The sac of an aneurysm: exact cuts, flows that are known, sacs found and those that must not be found."""

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.case.settings.base import parse
from pipeline.case.settings.flow import PostprocessSettings
from pipeline.case.settings.yaml_file import read_yaml
from pipeline.case.vessel import Branch, vessel_distance
from pipeline.files.mesh import Mesh
from pipeline.geometry.branches.tree_tracing import trace_tree
from pipeline.geometry.branches.vessel_tree import Branch as Line
from pipeline.geometry.lattice.crossings import inside
from pipeline.geometry.lattice.frame import Frame
from pipeline.geometry.surface.clip import cut_end
from pipeline.haemodynamics.accumulator import Fields, WallAccumulator
from pipeline.haemodynamics.neck import NeckError, section_around, sever
from pipeline.haemodynamics.parent import parent_lines, ways_through
from pipeline.haemodynamics.sac import Sacs, _no_sacs
from pipeline.haemodynamics.sac_finder import MARGIN, find_sacs
from pipeline.haemodynamics.sac_shape import nodes_within
from pipeline.haemodynamics.trust import LIMITS, judged
from pipeline.haemodynamics.wall_shear_stress import Wall, fit_nodes_to_wall
from pipeline.stages.phantom import PhantomSettings
from pipeline.stages.postprocess import postprocess
from solver.domain.nodes import FLUID, Nodes, Opening
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.pipeline.geometry.test_centreline_tree import LOG
from tests.pipeline.stages.test_postprocess import summary
from tests.support.analytic_pipe import Pipe
from tests.support.shapes import capped_cylinder, opening_of, sphere, stenosis, torus, vessel
from tests.support.swept import forked, level_surface, moved
from tests.support.tubes import rotation
from tests.support.variants import some

DENSITY, VISCOSITY = 1060.0, 3.5e-3
RADIUS, SAC_RADIUS, AWAY = 2.0, 3.4, 4.65
"""Of a straight parent along x, of a round sac on it, and of their middles: those of the demo."""


def cap_volume(radius, height):
    return np.pi * height**2 * (3 * radius - height) / 3


def side_wall(sacs=((0.0, AWAY, SAC_RADIUS),), blind=()):
    """A straight parent along x with balls at (x, z) of some radius above or below it."""
    tubes = [("in", "inlet", np.array([-15.0, 0, 0]), RADIUS), ("out", "outlet", np.array([15.0, 0, 0]), RADIUS)]
    return forked([*tubes, *blind], 0.35, [(np.array([x, 0, z]), radius) for x, z, radius in sacs])


def traced(mesh, openings):
    return [np.column_stack([b.points_mm, b.radius_mm]) for b in trace_tree(mesh, openings, 2.5, LOG).branches]


def straight(start, stop, radius=RADIUS, count=60):
    """A line with its radius, as the centreline stage would hand it over."""
    points = np.linspace(start, stop, count)
    return np.column_stack([points, np.broadcast_to(radius, count)])


AXIS = straight([-15.0, 0, 0], [15.0, 0, 0])


def nodes_in(mesh: Mesh, openings: tuple[Opening, ...], spacing_mm: float) -> Nodes:
    """The nodes in a surface; what only the solver needs is left empty."""
    origin = mesh.points_mm.min(axis=0) - 3.3 * spacing_mm
    size = np.ceil(np.ptp(mesh.points_mm, axis=0) / spacing_mm).astype(int) + 7
    shape = tuple(size[::-1].tolist())
    position = np.argwhere(inside(mesh, Frame(spacing_mm, tuple(origin.tolist()), shape)))[:, ::-1].astype(np.int32)
    count, none = len(position), np.empty(0, np.int32)
    return Nodes(
        spacing_mm=spacing_mm,
        origin_mm=tuple(origin.tolist()),
        shape=shape,
        openings=openings,
        position=position,
        tag=np.full(count, FLUID, np.int8),
        opening=np.zeros(count, np.int8),
        distance_mm=np.full(count, np.inf, np.float32),
        part=np.zeros(count, np.int16),
        wall_position=np.empty((0, 3), np.int32),
        wall_distance_mm=none.astype(np.float32),
        wall_link_node=none,
        wall_link_direction=none.astype(np.uint8),
        wall_link_wall=none,
        wall_link_q=none.astype(np.float32),
        wall_link_patch=none.astype(np.int8),
        opening_link_node=none,
        opening_link_direction=none.astype(np.uint8),
        opening_link_opening=none.astype(np.int8),
        opening_link_q=none.astype(np.float32),
        opening_link_profile=none.astype(np.float32),
    )


def marked(*sacs, **more):
    """Settings of sacs that are marked; none are looked for unless told."""
    return parse(PostprocessSettings, {"sacs": list(sacs), "find_sacs": False} | more, "case")


def fields_of(nodes, velocity):
    return Fields(velocity, np.zeros(nodes.count), np.zeros((nodes.count, 6)))


def flat_cut(mesh, at_mm, normal):
    return sever(mesh, section_around(mesh, np.asarray(at_mm, float), np.asarray(normal, float)), {})


unit = st.tuples(*[st.floats(-1, 1)] * 3).filter(lambda v: np.linalg.norm(v) > 0.1).map(lambda v: v / np.linalg.norm(v))


@settings(max_examples=30, deadline=None)
@given(unit, st.floats(-0.9, 0.9), unit)
def test_a_plane_parts_the_volume_and_the_wall_without_loss(normal, height, axis):
    """Both parts are polyhedra of the same triangles: what one has the other has not, to round-off."""
    mesh = sphere(3.0, (5.0, -2.0, 1.0), 24, axis)
    at = np.array([5.0, -2.0, 1.0]) + 3 * np.cos(np.pi / 24) * height * normal
    one, other = flat_cut(mesh, at, normal), flat_cut(mesh, at, -normal)
    assert one.closed.volume_mm3() + other.closed.volume_mm3() == pytest.approx(mesh.volume_mm3(), rel=1e-12)
    areas = np.linalg.norm(mesh.area_vectors_mm2(), axis=1)
    assert one.shares_mm2.sum() + other.shares_mm2.sum() == pytest.approx(areas.sum(), rel=1e-12)
    np.testing.assert_allclose(one.closed.area_vectors_mm2().sum(axis=0), 0, atol=1e-12)  # closed
    assert not (one.vertices & other.vertices).any()  # a vertex on the plane is beyond neither


@settings(max_examples=20, deadline=None)
@given(unit, st.floats(-0.8, 0.8), unit)
def test_the_shares_integrate_linear_functions_over_the_wall_of_the_part(normal, height, slope):
    mesh = sphere(2.0, segments=20)
    part = flat_cut(mesh, 2 * np.cos(np.pi / 20) * height * normal, normal)
    wall = part.closed.opening == 0
    areas = np.linalg.norm(part.closed.area_vectors_mm2()[wall], axis=1)
    middles = part.closed.points_mm[part.closed.triangles[wall]].mean(axis=1)
    assert part.shares_mm2 @ (mesh.points_mm @ slope) == pytest.approx(areas @ (middles @ slope), abs=1e-10)


@pytest.mark.parametrize("height", [-0.7, 0.0, 0.45])
def test_a_cap_of_a_sphere_has_its_volume_area_neck_and_height(height):
    """V = pi h^2 (3 R - h) / 3, wall 2 pi R h, neck pi (R^2 - z^2), to second order in the size of the triangles."""
    radius, errors = 3.0, []
    normal, z = np.array([2.0, 3.0, 6.0]) / 7, height * 3.0
    wanted = [cap_volume(radius, radius - z), 2 * np.pi * radius * (radius - z), np.pi * (radius**2 - z**2)]
    for segments in (32, 64, 128):
        mesh = sphere(radius, segments=segments, axis=(0.3, -0.8, 0.5))
        neck = section_around(mesh, z * normal, normal)
        part = sever(mesh, neck, {})
        found = [part.closed.volume_mm3(), part.shares_mm2.sum(), neck.area_mm2]
        errors.append(np.abs(np.divide(found, wanted) - 1))
        np.testing.assert_allclose(neck.centre_mm, z * normal, atol=radius * (np.pi / segments) ** 2)
        rise = ((part.closed.points_mm - neck.at_mm) @ normal).max()
        # the highest vertex: a triangle's half width beside the pole at most
        assert radius - z - radius * (np.pi / segments) ** 2 < rise <= radius - z + 1e-12
    assert errors[2].max() < 2e-3
    assert (np.log2(errors[0] / errors[2]) / 2 > 1.7).all()


def test_the_loop_around_the_point_is_cut_and_no_other():
    """A plane across a ring cuts its tube twice; neither cut severs anything."""
    ring = torus(6.0, 1.5, segments=48)
    for x in (6.0, -6.0):
        section = section_around(ring, np.array([x, 0, 0.2]), np.array([0.0, 1.0, 0.0]))
        np.testing.assert_allclose(section.centre_mm, [x, 0, 0], atol=0.01)
        assert section.area_mm2 == pytest.approx(np.pi * 1.5**2, rel=6e-3)  # 1 - sin(2 pi/n) / (2 pi/n) of a polygon
        with pytest.raises(NeckError, match="connected elsewhere"):
            sever(ring, section, {})
    with pytest.raises(NeckError, match="not in the vessel"):
        section_around(ring, np.zeros(3), np.array([0.0, 1.0, 0.0]))
    # across the hole: the larger loop goes around the point, the inner one takes it out of the vessel again
    with pytest.raises(NeckError, match="not in the vessel"):
        section_around(ring, np.zeros(3), np.array([0.0, 0.0, 1.0]))


def test_the_nodes_of_a_sac_are_those_within_its_ball_beyond_the_plane():
    mesh, normal = sphere(3.0, segments=96), np.array([2.0, -3.0, 6.0]) / 7
    nodes = nodes_in(mesh, (), 0.3)
    rows = nodes_within(nodes, flat_cut(mesh, 0.7 * normal, normal).closed)
    np.testing.assert_array_equal(rows, np.flatnonzero(nodes.points_mm() @ normal > 0.7))


@pytest.fixture(scope="module")
def ball():
    """A ball cut through its middle: half of it is the sac, half its parent; nodes a twelfth of the radius apart."""
    mesh, normal = sphere(3.0, segments=64), np.array([2.0, -3.0, 6.0]) / 7
    return mesh, nodes_in(mesh, (), 0.25), normal, Wall.of(mesh)


def figures(mesh, nodes, wall, settings, velocities, shear=None, lines=(), osi=None):
    """Figures and warnings, of velocities a time and, in place of the fit's, given shear stresses at the vertices."""
    sacs = Sacs(nodes, mesh, settings, lines, DENSITY, VISCOSITY)
    accumulator = WallAccumulator(nodes, wall, fit_nodes_to_wall(nodes, wall, 3.0), DENSITY)
    for velocity in velocities:
        accumulator.add(fields_of(nodes, velocity))
        sacs.add(fields_of(nodes, velocity))
    if shear is not None:
        accumulator.shear_magnitude = shear * accumulator.times
        accumulator.shear = np.outer(shear * accumulator.times * (1 - 2 * (osi or 0)), [1.0, 0, 0])
    return sacs.figures(wall, accumulator), sacs


def test_half_in_and_half_out_is_the_inflow(ball):
    """Speed W into one half of the neck and out of the other: W pi R^2 / 2 flows in, over half the neck."""
    mesh, nodes, normal, wall = ball
    side = np.sign(nodes.points_mm() @ np.cross(normal, [1.0, 0, 0]))
    velocity = 0.2 * side[:, None] * normal
    [found], _ = figures(mesh, nodes, wall, marked({"neck_mm": [0, 0, 0], "normal": normal.tolist()}), [velocity])
    # counting nodes in a smooth window, and the ball, narrower by s^2 / 2 R^2 off the plane
    assert found["inflow_ml_s"] == pytest.approx(0.2 * np.pi * 9 / 2, rel=0.01)
    # the border of both halves falls between nodes, by half a spacing: 4 dx / pi R of the inflow
    assert found["net_inflow_fraction"] == pytest.approx(0, abs=4 * 0.25 / (3 * np.pi))
    assert found["turnover_time_s"] == pytest.approx(cap_volume(3, 3) * 1e-3 / found["inflow_ml_s"], rel=6e-3)
    assert found["mean_speed_m_s"] == pytest.approx(0.2, rel=0.01)  # nodes between both halves rest
    assert found["peak_speed_m_s"] == pytest.approx(0.2, rel=1e-12)
    assert found["kinetic_energy_j"] == pytest.approx(DENSITY / 2 * 0.04 * cap_volume(3, 3) * 1e-9, rel=0.01)


def test_a_ball_that_turns_about_an_axis_in_its_neck_turns_its_blood_over(ball):
    """u.n = w y: the integral of |u.n| / 2 over a disc of radius a is 2 w a^3 / 3."""
    mesh, nodes, normal, wall = ball
    axis = np.cross(normal, [0.0, 0, 1.0]) / np.linalg.norm(np.cross(normal, [0.0, 0, 1.0]))
    velocity = 0.1 * np.cross(axis, nodes.points_mm())
    [found], _ = figures(mesh, nodes, wall, marked({"neck_mm": [0, 0, 0], "normal": normal.tolist()}), [velocity])
    assert found["inflow_ml_s"] == pytest.approx(2 * 0.1 * 27 / 3, rel=0.015)
    assert found["net_inflow_fraction"] == pytest.approx(0, abs=0.02)
    turned = 0.5 * 0.1**2 * 0.4 * 9 * DENSITY * cap_volume(3, 3) * 1e-9  # of a half ball: 2/5 m R^2 w^2 / 2
    assert found["kinetic_energy_j"] == pytest.approx(turned, rel=0.02)


def test_what_a_sac_advises_stands_in_the_indices_as_text_with_the_strictest_spacing(aneurysm):
    """A fast flow through a parent 10 nodes wide: its spacing, and that for few nodes across an opening, are one."""
    mesh, _, _, nodes = aneurysm
    velocity = np.zeros((nodes.count, 3))
    y, z = nodes.points_mm()[:, 1:].T
    velocity[:, 0] = np.maximum(0.6 * (1 - (y**2 + z**2) / RADIUS**2), 0)
    flow = dict.fromkeys((opening.name for opening in nodes.openings), 0.3e3 * np.pi * RADIUS**2 * 1e-3)
    said = summary(openings={name: {} for name in flow})
    found = postprocess(nodes, mesh, [fields_of(nodes, velocity)], said, flow, marked(NECK)).indices
    json.dumps(found)
    check = next(each for each in found["checks"] if each["name"] == "wall shear stress too low (left)")
    few = next(each for each in found["checks"] if each["name"] == "nodes across")
    assert not check["passed"]
    assert check["advice"].startswith("sac left: its wall shear stress is expected to be")
    assert check["advice"].split("; set ")[1] == few["advice"].split("; set ")[1]
    assert {check["advice"], few["advice"]} <= {*found["warnings"]}


def test_a_flow_that_only_enters_is_reported_by_the_net_flow_and_is_warned_of(ball):
    mesh, nodes, normal, wall = ball
    velocity = np.broadcast_to(0.3 * normal, (nodes.count, 3))
    one = marked({"neck_mm": [0, 0, 0], "normal": (2 * normal).tolist()})
    [found], sacs = figures(mesh, nodes, wall, one, [velocity])
    assert found["net_inflow_fraction"] == pytest.approx(2, rel=1e-9)
    assert any("stays in it" in (each["advice"] or "") for each in sacs.checks)


def test_inflow_that_turns_round_does_not_cancel_over_time(ball):
    """|u.n| is taken at each time: to and fro is as much inflow as steady to."""
    mesh, nodes, normal, wall = ball
    side = np.sign(nodes.points_mm() @ np.cross(normal, [1.0, 0, 0]))
    velocity = 0.2 * side[:, None] * normal
    one = marked({"neck_mm": [0, 0, 0], "normal": normal.tolist()})
    [steady], _ = figures(mesh, nodes, wall, one, [velocity])
    [turning], _ = figures(mesh, nodes, wall, one, [velocity, -velocity])
    assert turning["inflow_ml_s"] == pytest.approx(steady["inflow_ml_s"], rel=1e-12)
    assert turning["net_inflow_fraction"] == pytest.approx(0, abs=1e-12)


@pytest.fixture(scope="module")
def aneurysm():
    mesh, openings = side_wall()
    return mesh, openings, traced(mesh, openings), nodes_in(mesh, openings, 0.4)


NECK = {"name": "left", "neck_mm": [0.0, 0.0, 2.3], "normal": [0.0, 0.0, 5.0]}


def test_a_marked_sac_is_the_ball_beyond_the_plane(aneurysm):
    """The wall lies within its ball by up to h^2 / 4 R, chords in two directions of cubes of h = 0.35 mm: 0.009 mm, or
    0.8 % of the volume and less of areas.
    """
    mesh, _, _, nodes = aneurysm
    resting = np.zeros((nodes.count, 3))
    [found], sacs = figures(mesh, nodes, Wall.of(mesh), marked(NECK), [resting])
    height = AWAY + SAC_RADIUS - 2.3
    neck = np.sqrt(SAC_RADIUS**2 - (AWAY - 2.3) ** 2)
    assert (found["name"], found["found_by"]) == ("left", "neck plane")
    assert found["volume_ml"] == pytest.approx(cap_volume(SAC_RADIUS, height) * 1e-3, rel=8e-3)
    assert found["surface_area_mm2"] == pytest.approx(2 * np.pi * SAC_RADIUS * height, rel=5e-3)
    assert found["neck_area_mm2"] == pytest.approx(np.pi * neck**2, rel=0.012)  # the wall meets it at 45 degrees
    assert found["height_mm"] == pytest.approx(height, rel=2e-3)
    assert found["aspect_ratio"] == pytest.approx(height / (2 * neck), rel=8e-3)
    assert found["dome_diameter_mm"] == pytest.approx(2 * SAC_RADIUS, rel=5e-3)
    # without a line: of a ball about a node, half a voxel's diagonal off the middle at most, or leaning into the neck
    assert -np.sqrt(3) * 0.4 < found["parent_diameter_mm"] - 2 * RADIUS < 0.1 * RADIUS
    np.testing.assert_allclose(found["neck_mm"], [0, 0, 2.3], atol=0.02)
    assert found["inflow_ml_s"] == 0
    assert found["turnover_time_s"] is found["inflow_share"] is found["shear_ratio"] is None
    of_sac = sacs.arrays()["sac"] > 0
    np.testing.assert_array_equal(of_sac, Wall.of(mesh).mesh.points_mm[:, 2] > 2.3)


@pytest.mark.parametrize("with_lines", [True, False])
def test_the_inflow_is_compared_with_the_parent_or_the_inlet(aneurysm, with_lines):
    """Poiseuille in the parent: its flow is that of its sections and of its inlet alike, with its own share."""
    mesh, _, lines, nodes = aneurysm
    x, y, z = nodes.points_mm().T
    velocity = np.zeros((nodes.count, 3))
    velocity[:, 0] = np.maximum(0.2 * (1 - (y**2 + z**2) / RADIUS**2), 0)
    velocity[:, 2] = np.where(z > 1.4, 0.01 * np.sign(x), 0)  # in the slab around the neck
    [found], _ = figures(mesh, nodes, Wall.of(mesh), marked(NECK), [velocity], lines=lines if with_lines else ())
    assert found["inflow_share_of"] == ("parent" if with_lines else "inlets")
    flow = 0.1 * np.pi * RADIUS**2
    assert found["inflow_share"] == pytest.approx(found["inflow_ml_s"] / flow, rel=0.01)
    if with_lines:
        assert found["parent_diameter_mm"] == pytest.approx(2 * RADIUS, rel=0.02)
    assert found["inflow_concentration_index"] == pytest.approx(2 * found["inflow_share"], rel=0.15)


@pytest.mark.parametrize(("speed", "state"), [(0.01, "good"), (0.12, "reservation"), (0.3, "unusable")])
def test_the_stress_of_a_sac_is_doubted_by_the_flow_of_its_parent(aneurysm, speed, state):
    """A parent 10 nodes wide: by Reynolds number and nodes across it, as measured; the advised spacing passes."""
    mesh, _, lines, nodes = aneurysm
    velocity = np.zeros((nodes.count, 3))
    y, z = nodes.points_mm()[:, 1:].T
    velocity[:, 0] = np.maximum(2 * speed * (1 - (y**2 + z**2) / RADIUS**2), 0)
    [found], sacs = figures(mesh, nodes, Wall.of(mesh), marked(NECK), [velocity], lines=lines)
    [doubt] = [each for each in sacs.checks if each["name"] == "wall shear stress too low (left)"]
    diameter, reynolds = found["parent_diameter_mm"], speed * 2e-3 * RADIUS * DENSITY / VISCOSITY
    assert doubt["value"] == pytest.approx(0.084 * (reynolds / 200) ** 1.25 * (16 * 0.4 / diameter) ** 3, rel=0.03)
    assert doubt["state"] == state
    if doubt["advice"]:
        finer = doubt["advice"].setting.value
        assert doubt["value"] * (finer / 0.4) ** 3 < LIMITS["wall shear stress too low"].good
    of_wall = next(each for each in judged({"checks": sacs.checks, "sacs": [found]}) if each["key"] == "sac left wall")
    assert "wall shear stress too low (left)" in [each["name"] for each in of_wall["evidence"]]


def test_one_shear_stress_everywhere_has_the_ratio_one(aneurysm):
    mesh, _, _, nodes = aneurysm
    wall = Wall.of(mesh)
    velocity = np.zeros((nodes.count, 3))
    shear = np.full(len(wall.normals), 1.7)
    [found], _ = figures(mesh, nodes, wall, marked(NECK), [velocity] * 2, shear, osi=0.25)
    for key in ("shear_mean_pa", "shear_max_pa", "parent_shear_mean_pa"):
        assert found[key] == pytest.approx(1.7, rel=1e-12)
    assert found["shear_ratio"] == pytest.approx(1, rel=1e-12)
    assert found["low_shear_area_fraction"] == 0
    assert found["osi_mean"] == pytest.approx(0.25, rel=1e-12)


def test_low_shear_is_counted_against_the_parents_mean_and_deviation(aneurysm):
    """A sac of 0.04 and 2 Pa in halves of its height, a parent of 1 Pa: below a tenth, and below 1 Pa less nothing."""
    mesh, _, _, nodes = aneurysm
    wall = Wall.of(mesh)
    height = wall.mesh.points_mm[:, 2]
    half = 2.3 + (AWAY + SAC_RADIUS - 2.3) / 2  # of a ball's wall in equal heights the areas are equal
    shear = np.where(height > half, 0.04, np.where(height > 2.3, 2.0, 1.0))
    [found], _ = figures(mesh, nodes, wall, marked(NECK), [np.zeros((nodes.count, 3))], shear)
    # the rim and the border between both halves lie within triangles, a tenth of the radius wide
    assert found["low_shear_area_fraction"] == pytest.approx(0.5, abs=0.03)
    assert found["parent_shear_mean_pa"] == pytest.approx(1.0, rel=1e-12)
    assert found["shear_mean_pa"] == pytest.approx(1.02, rel=0.05)
    assert found["low_shear_index_below_pa"] == pytest.approx(1.0, rel=1e-12)
    assert found["low_shear_index"] == pytest.approx(0.02 / 1.02 * 0.5, rel=0.1)
    assert found["shear_max_pa"] == pytest.approx(2.0, rel=1e-12)


def test_the_parents_wall_lies_around_the_neck_and_not_in_the_sac(aneurysm):
    """Shear that is 1 Pa within the stated distance and 9 Pa beyond: the parent's mean is 1 Pa."""
    mesh, _, _, nodes = aneurysm
    wall = Wall.of(mesh)
    [first], _ = figures(mesh, nodes, wall, marked(NECK), [np.zeros((nodes.count, 3))], np.ones(len(wall.normals)))
    away = np.linalg.norm(wall.mesh.points_mm - first["neck_mm"], axis=1)
    shear = np.where((away > first["parent_within_mm"]) | (wall.mesh.points_mm[:, 2] > 2.3), 9.0, 1.0)
    [found], _ = figures(mesh, nodes, wall, marked(NECK), [np.zeros((nodes.count, 3))], shear)
    assert found["parent_shear_mean_pa"] == pytest.approx(1.0, rel=1e-12)
    assert found["parent_within_mm"] == pytest.approx(
        found["neck_diameter_mm"] / 2 + found["parent_diameter_mm"], rel=1e-12
    )


def searched(mesh, openings, lines, factor=1.3):
    return find_sacs(mesh, openings, lines, factor, np.zeros(len(mesh.points_mm), bool))


def only_neck(mesh, openings, lines):
    """The neck of the only sac; none where there is none, and no doubt."""
    found = searched(mesh, openings, lines)
    assert found.refused == []
    assert len(found.necks) < 2
    return found.necks[0] if found.necks else None


def test_a_sac_is_found_where_its_plane_would_be_marked(aneurysm):
    """The section is narrowest where the ball meets the parent."""
    mesh, _, lines, nodes = aneurysm
    assert len(lines) == 3  # the sac has a blind branch of its own
    settings_found = parse(PostprocessSettings, {"find_sacs": 1.3}, "case")
    [found], sacs = figures(mesh, nodes, Wall.of(mesh), settings_found, [np.zeros((nodes.count, 3))], lines=lines)
    assert not sacs.warnings or all("nodes across" in warning for warning in sacs.warnings)
    assert (found["name"], found["found_by"]) == ("sac", "radius")
    assert found["neck_normal"] @ np.array([0, 0, 1.0]) > np.cos(np.radians(3))
    z = found["neck_mm"][2]
    assert z == pytest.approx(RADIUS, abs=0.1)  # two steps of the slide
    np.testing.assert_allclose(found["neck_mm"][:2], 0, atol=0.1)
    cap = cap_volume(SAC_RADIUS, AWAY + SAC_RADIUS - z)
    assert found["volume_ml"] == pytest.approx(cap * 1e-3, rel=0.01)  # 0.3 % the wall's, the rest of a tilted plane
    again = marked({"neck_mm": found["neck_mm"], "normal": found["neck_normal"]})
    [same], _ = figures(mesh, nodes, Wall.of(mesh), again, [np.zeros((nodes.count, 3))], lines=lines)
    for key in ("volume_ml", "neck_area_mm2", "height_mm", "dome_diameter_mm"):
        assert same[key] == pytest.approx(found[key], rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_a_turned_vessel_has_the_same_neck(aneurysm, seed):
    mesh, openings, lines, _ = aneurysm
    turn, shift = rotation(seed), np.array([30.0, -4.0, 600.0])
    neck = only_neck(mesh, openings, lines)
    turned_openings = tuple(
        Opening(
            o.id, o.name, o.role, tuple(turn @ o.centre_mm + shift), tuple(turn @ o.normal), o.area_mm2, o.radius_mm
        )
        for o in openings
    )
    turned_lines = [np.column_stack([line[:, :3] @ turn.T + shift, line[:, 3]]) for line in lines]
    turned = only_neck(moved(mesh, turn, shift), turned_openings, turned_lines)
    np.testing.assert_allclose(turned.centre_mm, turn @ neck.centre_mm + shift, atol=1e-6)
    np.testing.assert_allclose(turned.normal, turn @ neck.normal, atol=1e-6)


SACS = [(3.5, 3.4), (3.0, 2.0), (2.0, 2.0), (5.5, 4.5)]


@pytest.mark.parametrize(("away", "radius"), some(SACS, (2.0, 2.0), (5.5, 4.5)))
def test_sacs_from_blebs_to_giants_are_found_with_their_volume(away, radius):
    """Wide necks draw the centreline aside, small sacs leave it alone, both must give the cap beyond the neck. That is
    where ball and parent meet, or for want of a narrowest section `MARGIN` and a triangle off the parent.
    """
    mesh, openings = side_wall([(0.0, away, radius)])
    neck = only_neck(mesh, openings, traced(mesh, openings))
    assert neck.normal[2] > np.cos(np.radians(3))
    assert RADIUS - 0.1 < neck.centre_mm[2] < RADIUS * (1 + MARGIN) + 0.35
    volume = sever(mesh, neck, {o.id: o.name for o in openings}).closed.volume_mm3()
    assert volume == pytest.approx(cap_volume(radius, away + radius - neck.centre_mm[2]), rel=0.02)


def test_the_demos_sac_is_found_with_the_volume_of_its_true_shape():
    """Against the shape's own distance, counted on a grid, beyond the same plane; its neck is the narrowest there."""
    path = ROOT / "data/phantoms/aneurysm.yaml"
    whole = parse(PhantomSettings, read_yaml(path), str(path)).vessel
    shape = whole.model_copy(update={"branches": (whole.branches[0].model_copy(update={"end": "outlet"}),)})
    parent = Branch(shape.branches[0])
    distance = vessel_distance(shape, [parent])
    mesh, openings = level_surface(distance, (-15, -6, -18), (8, 5, 7), 0.35), []
    line = np.column_stack(parent.sampled(0.2))[4:-4]
    for number, end in enumerate(parent.ends, 1):
        mesh = cut_end(mesh, line[1 - number, :3], end.normal, number)
        openings.append(opening_of(mesh, number, end.name, end.name))
    lines = [line]
    neck = only_neck(mesh, tuple(openings), lines)
    sac = shape.sacs[0]
    grid = np.arange(-4.2, 4.2, 0.12)
    places = np.stack(np.meshgrid(grid, grid, grid, indexing="ij"), axis=-1).reshape(-1, 3) + sac.centre_mm
    beyond = places[((places - neck.centre_mm) @ neck.normal > 0)]
    beyond = beyond[np.linalg.norm(beyond - sac.centre_mm, axis=1) < 4.2]
    true = np.clip(0.5 - distance(beyond) / 0.12, 0, 1).sum() * 0.12**3
    found = sever(mesh, neck, {o.id: o.name for o in openings}).closed.volume_mm3()
    assert found == pytest.approx(true, rel=0.01)  # 3 h^2 / 4 R^2 the wall's, the rest the grid's
    for step in (-0.25, 0.25):
        assert section_around(mesh, neck.centre_mm + step * neck.normal, neck.normal).area_mm2 > neck.area_mm2
    outward = np.array(sac.centre_mm) - line[np.linalg.norm(line[:, :3] - sac.centre_mm, axis=1).argmin(), :3]
    assert neck.normal @ outward / np.linalg.norm(outward) > np.cos(np.radians(5))


def pipe_lines(mesh, openings, radius_mm):
    start, stop = (np.array(o.centre_mm) for o in openings)
    return [straight(start, stop, radius_mm, len(radius_mm))]


def test_vessels_without_a_sac_have_none():
    taper = np.linspace(3, 1.5, 60)
    throat = 2 - 1.7 * (1 + np.cos(np.pi * np.clip(np.linspace(-3, 3, 121), -1, 1))) / 2
    shapes = [
        (*capped_cylinder((1, 2, 3), 2.0, 30.0), np.full(60, 2.0)),
        (*vessel(taper, np.linspace(-15, 15, 60), (3, 1, -2), (1, 2, 3), 48), taper),
        (*stenosis((1, 2, 3), 2.0, 40.0, 0.3, segments=48), throat),
    ]
    for mesh, openings, radius in shapes:
        assert only_neck(mesh, openings, pipe_lines(mesh, openings, radius)) is None


FORK = [
    ("root", "inlet", np.array([0.0, 0, -20]), 2.0),
    ("large", "outlet", np.array([10.0, 0, 14]), 1.5),
    ("small", "outlet", np.array([-8.0, 1, 16]), 1.3),
]


def fork_lines():
    return [straight([0.0, 0, 0], end, np.r_[[1.9] * 5, [radius] * 55]) for _, _, end, radius in FORK]


def test_a_bifurcation_is_no_sac_and_a_sac_on_it_is_found():
    """A ball that swallows the fork, whose lines the fork_lines are: beyond the neck lies its part off the vessels."""
    mesh, openings = forked(FORK, 0.35)
    assert only_neck(mesh, openings, fork_lines()) is None
    mesh, openings = forked(FORK, 0.35, [(np.array([0.5, 0, 4.0]), 3.0)])
    neck = only_neck(mesh, openings, fork_lines())
    part = sever(mesh, neck, {o.id: o.name for o in openings}).closed
    assert np.linalg.norm(part.points_mm - [0.5, 0, 4.0], axis=1).max() < neck_reach(neck, [0.5, 0, 4.0])


def neck_reach(neck, centre):
    """Largest distance of the ball's wall, or of its neck where that is farther, from its middle, with a tenth more."""
    return 1.1 * max(3.0, np.linalg.norm(neck.places_mm - centre, axis=1).max())


def test_two_sacs_are_both_found():
    mesh, openings = side_wall([(-6.0, 4.0, 3.0), (6.0, -4.0, 3.0)])
    found = searched(mesh, openings, [AXIS])
    assert sorted(np.sign(neck.centre_mm[2]) * neck.centre_mm[0] for neck in found.necks) == pytest.approx(
        [-6, -6], abs=0.2
    )
    assert found.refused == []


def test_what_may_be_no_sac_is_refused_and_said():
    blind = ("", "", np.array([0.0, 0, 13.0]), 1.4)
    cases = [
        (side_wall([(0.0, 0.0, 3.5)]), "wider all round.*fusiform"),
        (side_wall([], [blind]), "as a branch that ends blind"),
        (side_wall([(0.0, 1.0, 1.8)]), "rises only"),
    ]
    for (mesh, openings), message in cases:
        found = searched(mesh, openings, [AXIS])
        assert found.necks == []
        [refused] = found.refused
        assert re.search(message, refused.reason)
        assert refused.wideness > 1.3
    mesh, openings = side_wall()
    with pytest.raises(NeckError, match="no centreline"):
        searched(mesh, openings, [])


def test_places_that_are_no_sacs_are_one_warning_that_names_the_widest():
    places = [(np.array([1.0, 2, 3]), 2.5, "no plane parts it"), (np.array([4.0, 5, 6]), 1.4, "it rises only 1 mm")]
    one, two = _no_sacs(places[:1]), _no_sacs(places)
    for warning in (one, two):
        assert "2.50 radii" in warning
        assert "no plane parts it" in warning
        assert "postprocess.sacs" in warning
    assert "2 places" in two
    assert "rises only" not in two


@pytest.mark.parametrize("seed", some(range(3), 0))
def test_a_blind_twig_that_bends_is_no_sac(seed):
    """A twig half as wide as the parent or less with a funnel at its mouth: up, then along the parent, so that it is as
    long across its axis as along it.
    """
    random = np.random.default_rng(seed)
    radius, up, along = random.uniform(0.7, 0.9), random.uniform(5, 7), random.uniform(9, 12)
    rise = [(0.0, z, radius * (1 + np.exp(2 - z))) for z in np.arange(2.0, up, 0.4)]
    mesh, openings = side_wall([*rise, *((x, up, radius) for x in np.arange(0.0, along, 0.4))])
    found = searched(mesh, openings, [AXIS])
    assert found.necks == []
    assert "as a branch that ends blind" in found.refused[0].reason


def test_a_doubt_becomes_a_warning_and_no_figures():
    mesh, openings = side_wall([(0.0, 0.0, 3.5)])
    nodes = nodes_in(mesh, openings, 0.5)
    sacs = Sacs(nodes, mesh, parse(PostprocessSettings, {"find_sacs": 1.3}, "case"), [AXIS], DENSITY, VISCOSITY)
    assert sacs.sacs == []
    assert sacs.arrays() == {}
    [warning] = sacs.warnings
    assert re.search(r"find_sacs: .*fusiform.*no figures.*postprocess\.sacs", warning)


def test_a_sac_that_was_marked_is_not_found_again(aneurysm):
    mesh, _, lines, nodes = aneurysm
    sacs = Sacs(nodes, mesh, marked(NECK, find_sacs=1.3), lines, DENSITY, VISCOSITY)
    assert [sac.name for sac in sacs.sacs] == ["left"]
    assert sacs.warnings == []


def test_lines_that_end_blind_are_left_out_and_the_rest_joined():
    openings = side_wall([])[1]
    pieces = [straight([0.0, 0, 0], [-15, 0, 0]), straight([0.0, 0, 0], [0, 0, 7]), straight([15.0, 0, 0], [0, 0, 0])]
    [way] = ways_through(pieces, openings)
    np.testing.assert_allclose(np.abs(way.line[[0, -1], 0]), 15)
    np.testing.assert_allclose(np.abs(np.diff(way.line[:, 0])), 15 / 59)
    np.testing.assert_allclose(way.left_at, [[0, 0, 0]], atol=1e-12)
    assert ways_through([pieces[1]], openings) == []
    assert ways_through([], openings) == []


def test_a_line_that_leans_into_a_sac_is_put_back_between_both_sides():
    """A bump of 1 mm over 4 mm, with a ball 1.5 times as wide, in a straight line: the parent stays straight."""
    way = ways_through([AXIS], side_wall([])[1])[0]
    bump = np.clip(1 - (way.line[:, 0] / 3) ** 2, 0, None)
    leaning = way._replace(line=way.line + np.outer(bump, [0, 0, 1.0, 1.0]))
    [line] = parent_lines([leaning])
    assert np.abs(line[:, 2]).max() < 0.15  # the foot of the bump, below `LEAN`
    np.testing.assert_allclose(line[:, 3], RADIUS, rtol=0.1)
    np.testing.assert_allclose(
        parent_lines([way])[0][:, 2:], np.broadcast_to([0, RADIUS], (len(parent_lines([way])[0]), 2)), atol=1e-12
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"neck_mm": [0, 9, 2.3]}, r"is not in the vessel"),
        ({"neck_mm": [0, 0, 40]}, r"misses the vessel"),
        ({"neck_mm": [5, 0, 0], "normal": [1, 0, 0]}, r"openings on both sides \(out beyond it, in before it\)"),
        ({"normal": [0, 0, -1]}, r"the normal must point into the sac"),
        ({"neck_mm": [0, 0, 1.5], "radius_mm": 3.0}, r"radius_mm is 3: the plane cuts more than the neck"),
    ],
)
def test_a_plane_that_is_no_neck_is_refused_with_its_setting_and_the_remedy(aneurysm, given, message):
    mesh, _, _, nodes = aneurysm
    with pytest.raises(StageError, match=message) as refusal:
        Sacs(nodes, mesh, marked(NECK | given), (), DENSITY, VISCOSITY)
    assert f"postprocess.sacs[0].neck_mm = {[float(x) for x in (NECK | given)['neck_mm']]}" in str(refusal.value)
    assert "move it into the neck" in str(refusal.value)


def test_a_sac_is_not_marked_twice(aneurysm):
    mesh, _, _, nodes = aneurysm
    with pytest.raises(StageError, match=r"postprocess\.sacs\[1\]\.neck_mm = .* shares wall with left"):
        Sacs(nodes, mesh, marked(NECK, NECK | {"name": "right", "neck_mm": [0, 0, 4]}), (), DENSITY, VISCOSITY)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sacs": [NECK | {"normal": [0, 0, 0]}]}, r"sacs\.0\.normal.*has no direction"),
        ({"sacs": [NECK, NECK]}, r"name left is given more than once"),
        ({"find_sacs": 1.0}, r"find_sacs"),
        ({"find_sacs": True}, r"find_sacs"),
        ({"sacs": [{"normal": [0, 0, 1]}]}, r"sacs\.0\.neck_mm: missing"),
    ],
)
def test_settings_that_say_nothing_are_refused(values, message):
    with pytest.raises(StageError, match=message):
        parse(PostprocessSettings, values, "case")


def test_a_pipe_has_no_sacs_in_its_indices():
    pipe = Pipe()
    nodes = pipe.nodes(0.4)
    points = nodes.points_mm()
    summary = {
        "numbers": {"density_kg_m3": DENSITY, "viscosity_m2_s": 3.3e-6},
        "openings": {"inlet": {"imposed_flow_ml_s": pipe.flow_ml_s}, "outlet": {}},
        "mach": 0.1,
        "converged": True,
        "warnings": [],
    }
    flows = {"inlet": pipe.flow_ml_s, "outlet": pipe.flow_ml_s}
    flow = Fields(pipe.velocity(points), pipe.pressure(points), pipe.stress(points))
    line = straight(*(np.array(o.centre_mm) for o in pipe.openings()))
    branch = Line(1, "inlet", "outlet", 0, line[:, :3], line[:, 3], np.ones(len(line), bool), True)
    for chosen, branches in (({}, ()), ({"find_sacs": False}, (branch,)), ({"find_sacs": 1.3}, (branch,))):
        wanted = parse(PostprocessSettings, chosen, "case")
        results = postprocess(nodes, pipe.surface(0.3), [flow], summary, flows, wanted, branches)
        assert results.indices["sacs"] == []
        assert "sac" not in results.arrays
        assert not any("sac" in warning for warning in results.indices["warnings"])
        search = results.indices["sac_search"]
        assert search["searched"] == (bool(branches) and chosen["find_sacs"] is not False)
        assert search["refused"] == []
        assert (search["widest"] or 1.0) == pytest.approx(1, abs=0.1)
        assert ("farther than 1.3 radii" in search["rule"]) == search["searched"]
