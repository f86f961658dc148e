# SPDX-License-Identifier: Apache-2.0
"""Lengths, radii and forks of vessels that are known, whatever way they lie and however their surface is written."""

import csv
import json
import logging

import numpy as np
import pytest
from scipy.spatial import cKDTree
from vtkmodules.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkIOXML import vtkXMLPolyDataReader

from pipeline.files.mesh import Mesh, write_openings
from pipeline.files.surface_file import read_surface_file
from pipeline.geometry.branches import tree_tracing as tree_module
from pipeline.geometry.branches.branch_files import read_lines
from pipeline.geometry.branches.tree_sketch import _ahead
from pipeline.geometry.branches.tree_tracing import trace_tree
from pipeline.geometry.branches.vessel_tree import Branch, Joint, Tree
from pipeline.geometry.given_surface import GivenSurface
from pipeline.geometry.surface.clip import cut_end
from pipeline.geometry.surface.distance import Surface
from pipeline.stages import centreline
from pipeline.stages.import_surface import import_surface
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job
from tests.support.shapes import capped_cylinder, joined, opening_of, sphere, stenosis, torus
from tests.support.swept import arc, forked, level_surface, moved, swept
from tests.support.tubes import rotation
from tests.support.variants import some

LOG = logging.getLogger("test")
SEGMENTS = 48
POLYGON = 1 - np.cos(np.pi / SEGMENTS)
"""A circle in a polygon is smaller by this part."""
SEARCH = 1 / 128
"""Part of the radius to which the middle of a section is found."""


def trace(mesh, openings=(), min_branch_radii=2.5):
    return trace_tree(mesh, tuple(openings), min_branch_radii, LOG)


Y = [
    ("root", "inlet", np.array([0.0, 0, -20]), 2.0),
    ("large", "outlet", np.array([10.0, 0, 14]), 1.5),
    ("small", "outlet", np.array([-8.0, 1, 16]), 1.3),
]


@pytest.fixture(scope="module")
def fork():
    return forked(Y, 0.3)


@pytest.fixture(scope="module")
def fork_tree(fork):
    return trace(*fork)


@pytest.mark.parametrize(("bend_mm", "angle"), [(20.0, 2.0), (10.0, np.pi), (5.0, 1.5 * np.pi)])
def test_a_bent_tube_has_its_length_tortuosity_and_radius(bend_mm, angle):
    tree = trace(*swept(arc(bend_mm, angle), 2.0, SEGMENTS))
    (branch,) = tree.branches
    assert (branch.start, branch.stop, branch.parent, branch.leads) == ("inlet", "outlet", 0, True)
    assert branch.length_mm == pytest.approx(bend_mm * angle, rel=0.002)  # issue: 1 %
    assert branch.tortuosity == pytest.approx(angle / 2 / np.sin(angle / 2), rel=0.002)
    assert branch.radius_mm.max() <= 2.0
    assert branch.radius_mm.min() >= 2.0 * (1 - POLYGON - SEARCH)
    off_plane, off_circle = branch.points_mm[:, 2], np.linalg.norm(branch.points_mm[:, :2], axis=1) - bend_mm
    assert max(np.abs(off_plane).max(), np.abs(off_circle).max()) < 2.0 / 64  # twice the last step of the search


def test_the_error_of_the_length_falls_with_the_square_of_radius_over_bend():
    """Local fits cut bends short, and a line has corners; both are of second order or better in radius over bend."""
    errors = [
        trace(*swept(arc(bend, np.pi), 2.0, SEGMENTS)).branches[0].length_mm / (bend * np.pi) - 1
        for bend in (5.0, 10.0)
    ]
    assert abs(errors[0]) < 0.002
    assert np.log2(errors[0] / errors[1]) > 2


@pytest.mark.parametrize("throat_mm", [0.25, 0.6, 1.5])
def test_the_throat_of_a_stenosis_is_found_with_its_radius(throat_mm):
    mesh, openings = stenosis((1, 2, 3), 2.0, 40.0, throat_mm, segments=SEGMENTS)
    tree = trace(mesh, openings)
    (branch,) = tree.branches
    k = branch.narrowest
    # Points stand a voxel, 0.44 mm, apart: next to the throat the radius is larger by 1.7 (pi 0.22 / 6.7)^2 / 4 mm.
    assert branch.radius_mm[k] == pytest.approx(throat_mm, rel=POLYGON + SEARCH, abs=0.003)
    assert np.linalg.norm(branch.points_mm[k]) < 0.3
    assert branch.length_mm == pytest.approx(40.0, rel=1e-3)
    assert tree.narrowest is branch


def test_a_fork_lies_where_its_axes_meet_and_leaves_in_their_directions(fork_tree):
    tree = fork_tree
    assert [(b.id, b.parent, b.start, b.stop) for b in tree.branches] == [
        (1, 0, "root", "bifurcation_1"),
        (2, 1, "bifurcation_1", "large"),
        (3, 1, "bifurcation_1", "small"),
    ]
    joint = tree.joints["bifurcation_1"]
    assert np.linalg.norm(joint.place_mm) < 0.5 * joint.radius_mm
    towards = {name: end / np.linalg.norm(end) for name, _, end, _ in Y}
    names = {1: "root", 2: "large", 3: "small"}
    angles = tree.angles_deg("bifurcation_1")
    assert [pair[:2] for pair in angles] == [(1, 2), (1, 3), (2, 3)]
    for one, other, angle in angles:
        assert angle == pytest.approx(np.degrees(np.arccos(towards[names[one]] @ towards[names[other]])), abs=2)


def test_lengths_over_a_fork_and_radii_beside_it_are_those_of_the_axes(fork_tree):
    by_name = {"root": fork_tree.branches[0], "large": fork_tree.branches[1], "small": fork_tree.branches[2]}
    for name, _, end, radius in Y:
        branch = by_name[name]
        assert branch.mean_radius_mm == pytest.approx(radius, rel=0.02)  # of which 0.3^2 / 8 r^2 is the surface's
        assert branch.radius_mm[branch.narrowest] == pytest.approx(radius, rel=0.02)
        assert branch.max_radius_mm == pytest.approx(radius, rel=0.02)
        # The fork may lie anywhere in half its ball.
        assert branch.length_mm == pytest.approx(
            np.linalg.norm(end), abs=0.5 * fork_tree.joints["bifurcation_1"].radius_mm
        )
    for one, other in (("root", "large"), ("root", "small")):
        whole = sum(np.linalg.norm(end) for name, _, end, _ in Y if name in (one, other))
        assert by_name[one].length_mm + by_name[other].length_mm == pytest.approx(whole, rel=0.01)


@pytest.mark.parametrize("seed", some(range(4), 1, 2))
def test_a_turned_vessel_has_the_same_table(fork, fork_tree, seed):
    mesh = moved(fork[0], rotation(seed), [100.0, -50, 20])
    tree = trace(mesh, [opening_of(mesh, o.id, o.name, o.role) for o in fork[1]])
    assert [(b.parent, b.start, b.stop) for b in tree.branches] == [
        (b.parent, b.start, b.stop) for b in fork_tree.branches
    ]
    for branch, other in zip(tree.branches, fork_tree.branches, strict=True):
        assert branch.mean_radius_mm == pytest.approx(other.mean_radius_mm, rel=0.005)
        assert branch.radius_mm[branch.narrowest] == pytest.approx(other.radius_mm[other.narrowest], rel=0.01)
        assert branch.length_mm == pytest.approx(other.length_mm, abs=0.4)  # the fork, within a voxel of 0.29 mm or so
    for k in (1, 2):  # from cap to cap
        whole = [each.branches[0].length_mm + each.branches[k].length_mm for each in (tree, fork_tree)]
        assert whole[0] == pytest.approx(whole[1], rel=0.01)


def test_the_order_of_triangles_and_points_does_not_matter(fork, fork_tree):
    mesh, openings = fork
    random = np.random.default_rng(1)
    place = random.permutation(len(mesh.points_mm))
    order = random.permutation(len(mesh.triangles))
    points = np.empty_like(mesh.points_mm)
    points[place] = mesh.points_mm
    tree = trace(Mesh(points, place[mesh.triangles][order], mesh.opening[order]), openings)
    for branch, other in zip(tree.branches, fork_tree.branches, strict=True):
        np.testing.assert_allclose(branch.points_mm, other.points_mm, atol=1e-6)
        np.testing.assert_allclose(branch.radius_mm, other.radius_mm, atol=1e-6)


def test_a_blind_branch_is_an_end_of_its_own_and_no_flow_passes():
    tubes = [("in", "inlet", np.array([0.0, 0, -15]), 2.0), ("out", "outlet", np.array([0.0, 0, 15]), 2.0)]
    tree = trace(*forked([*tubes, (None, "", np.array([12.0, 1, 0]), 1.2)], 0.3))
    blind = next(branch for branch in tree.branches if branch.stop == "end_1")
    assert [branch.leads for branch in tree.branches] == [branch is not blind for branch in tree.branches]
    assert np.linalg.norm(tree.joints["end_1"].place_mm - 13.2 / np.hypot(12, 1) * np.array([12, 1, 0])) < 0.2
    assert blind.radius_mm[blind.narrowest] == pytest.approx(1.2, rel=0.025)  # without the end of half a ball
    assert tree.narrowest is not blind  # though it is the thinnest
    through = sum(branch.length_mm for branch in tree.branches if branch.leads)
    assert through == pytest.approx(30, rel=0.01)
    assert len(trace(*forked([*tubes, (None, "", np.array([3.0, 1, 0]), 1.2)], 0.3)).branches) == 1  # a spur


def test_a_sac_is_an_end_with_the_ball_in_it():
    tubes = [("in", "inlet", np.array([0.0, 0, -15]), 2.0), ("out", "outlet", np.array([0.0, 0, 15]), 2.0)]
    tree = trace(*forked(tubes, 0.3, [(np.array([4.5, 0, 0]), 3.5)]))
    assert tree.joints["end_1"].radius_mm == pytest.approx(3.5, rel=0.05)  # less where the vessel's wall is missing
    assert np.linalg.norm(tree.joints["end_1"].place_mm - [8, 0, 0]) < 0.7
    assert sum(branch.length_mm for branch in tree.branches if branch.leads) == pytest.approx(30, rel=0.01)


def test_one_opening_or_none_still_make_a_tree():
    (branch,) = trace(
        *forked([("in", "inlet", np.array([1.0, 2, -15]), 2.0), (None, "", np.array([-1, 0, 15.0]), 2.0)], 0.3)
    ).branches
    assert (branch.start, branch.stop, branch.leads) == ("in", "end_1", False)
    assert branch.length_mm == pytest.approx(np.sqrt(230) + np.sqrt(226) + 2, rel=0.01)
    tree = trace(sphere(5.0, segments=32))
    assert [joint.kind for joint in tree.joints.values()] == ["end", "end"]
    assert tree.branches[0].mean_radius_mm == pytest.approx(5.0, rel=0.02)
    assert tree.branches[0].length_mm == pytest.approx(10.0, rel=0.03)


def test_a_ring_is_one_loop():
    tree = trace(torus(8.0, 2.0, segments=SEGMENTS))
    (branch,) = tree.branches
    assert tree.loops == 1
    assert branch.start == branch.stop == "loop_1"
    assert branch.tortuosity is None
    assert branch.length_mm == pytest.approx(2 * np.pi * 8, rel=0.003)
    assert branch.mean_radius_mm == pytest.approx(2.0, rel=POLYGON + SEARCH)


def test_a_loop_between_openings_stays_a_loop():
    """Two tubes meet a ring from outside, opposite each other."""

    def distance(points):
        ring = np.hypot(np.hypot(points[:, 0], points[:, 1]) - 8, points[:, 2]) - 1.5
        tubes = np.maximum(np.hypot(points[:, 1], points[:, 2]) - 1.8, 8 - np.abs(points[:, 0]))
        return np.minimum(ring, np.maximum(tubes, np.abs(points[:, 0]) - 20))

    mesh = level_surface(distance, [-21, -10, -3], [21, 10, 3], 0.3)
    for number, x in ((1, -19.0), (2, 19.0)):
        mesh = cut_end(mesh, np.array([x, 0, 0]), np.array([np.sign(x), 0, 0]), number)
    tree = trace(mesh, [opening_of(mesh, 1, "in", "inlet"), opening_of(mesh, 2, "out", "outlet")])
    assert tree.loops == 1
    assert [joint.kind for joint in tree.joints.values()] == ["opening", "bifurcation", "bifurcation", "opening"]
    assert len(tree.branches) == 4
    assert all(branch.leads for branch in tree.branches)
    assert sum(branch.length_mm for branch in tree.branches) == pytest.approx(2 * np.pi * 8 + 2 * 11, rel=0.03)


def test_the_line_of_a_hairpin_does_not_cut_across_between_legs_that_all_but_touch():
    """They are 0.1 mm apart; the voxel for the radius is 2 mm / 4.5."""
    hairpin = np.concatenate([[[2.05, -12, 0]], arc(2.05, np.pi, 60), [[-2.05, -12, 0]]])
    way = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(hairpin, axis=0), axis=1))])
    line = np.stack([np.interp(np.linspace(0, way[-1], 300), way, hairpin[:, k]) for k in range(3)], axis=1)
    (branch,) = trace(*swept(line, 2.0, SEGMENTS)).branches
    assert branch.length_mm == pytest.approx(24 + 2.05 * np.pi, rel=0.015)  # a bend as tight as can be


def test_ends_that_nearly_touch_are_distinguished_on_a_finer_lattice_or_a_warning_says_so(monkeypatch):
    """A ring with a gap of 0.2 mm, half a voxel for its radius."""
    mesh, openings = swept(arc(7.0, 2 * np.pi - 0.2 / 7), 2.0, SEGMENTS)
    tree = trace(mesh, openings)
    assert (tree.warnings, tree.loops, len(tree.branches)) == ((), 0, 1)
    assert tree.spacing_mm < 0.25
    assert tree.branches[0].length_mm == pytest.approx(2 * np.pi * 7, rel=0.01)
    monkeypatch.setattr(tree_module, "MAX_FINE_VOXELS", 1)
    assert "has 0 loops, but 1 at" in trace(mesh, openings).warnings[0]


def test_a_place_narrower_than_the_voxel_for_the_openings_is_passed():
    """A stenosis of 0.1 mm in radius between openings of 2 mm, whose voxel has 0.44 mm."""
    line = arc(30.0, 1.0, 120)
    along = np.linspace(-15, 15, 120)
    tree = trace(*swept(line, 2 - 1.9 * np.exp(-((along / 3) ** 2)), SEGMENTS))
    (branch,) = tree.branches
    assert branch.length_mm == pytest.approx(30, rel=0.02)
    assert branch.radius_mm.min() == pytest.approx(0.1, abs=0.02)


def test_an_opening_that_is_cut_off_is_refused(monkeypatch):
    monkeypatch.setattr(tree_module, "MAX_FINE_VOXELS", 1)
    mesh, openings = capped_cylinder((0, 0, 1), 2.0, 20.0)
    apart, _ = capped_cylinder((0, 0, 1), 1.0, 5.0, centre_mm=(20.0, 0, 0))
    both = joined(mesh, Mesh(apart.points_mm, apart.triangles, np.where(apart.opening == 1, 3, 0).astype(np.int8)))
    lost = opening_of(both, 3, "lost", "outlet")
    with pytest.raises(StageError, match="opening lost is cut off"):
        trace(both, (*openings, lost))


@pytest.fixture(scope="module")
def reference(real_cases):
    """Centrelines of a real aorta with the radii of maximal inscribed balls, by VMTK: (n, 4) each, LPS mm."""
    reader = vtkXMLPolyDataReader()
    reader.SetFileName(str(real_cases / "aorta-iliac-mra/aorta-centerline.vtp"))
    reader.Update()
    lines = reader.GetOutput()
    points = vtk_to_numpy(lines.GetPoints().GetData()) * [-1.0, -1, 1]
    table = np.column_stack([points, vtk_to_numpy(lines.GetPointData().GetArray("MaximumInscribedSphereRadius"))])
    offsets = vtk_to_numpy(lines.GetLines().GetOffsetsArray())
    return np.split(table[vtk_to_numpy(lines.GetLines().GetConnectivityArray())], offsets[1:-1])


@pytest.mark.slow
def test_a_real_aorta_has_the_radii_that_vmtk_finds(reference, real_cases):
    """On the same surface; where the two lines of VMTK part early, each leans to its branch, and so is off by more."""
    given = read_surface_file(real_cases / "aorta-iliac-mra/aorta-surface.stl")
    surface = import_surface(given, GivenSurface(unit="mm", frame="RAS"), LOG)
    tree = trace(surface.mesh, surface.openings)
    assert len(tree.branches) == 3
    assert tree.loops == 0
    points = np.concatenate([branch.points_mm for branch in tree.branches])
    radius = np.concatenate([branch.radius_mm for branch in tree.branches])
    for line in reference:
        distance, row = cKDTree(points).query(line[:, :3])
        inner = slice(20, -20)  # they end elsewhere
        assert np.median(distance[inner]) < 0.5  # the radii are 4 to 7.5 mm, the image's voxels 0.9 to 1.5 mm
        difference = radius[row][inner] - line[inner, 3]
        assert abs(np.median(difference)) < 0.05
        assert np.percentile(np.abs(difference), 90) < 0.2


def test_the_files_say_what_the_tree_says(tmp_path, fork, fork_tree):
    mesh, openings = fork
    mesh.write(tmp_path / "surface.vtp")
    write_openings(openings, tmp_path / "openings.json")
    inputs = {"surface": tmp_path / "surface.vtp", "openings": tmp_path / "openings.json"}
    outputs = {
        role: tmp_path / name for role, name in (("centreline", "c.vtp"), ("branches", "b.csv"), ("summary", "c.json"))
    }
    centreline._compute(Job("centreline", inputs, outputs, {}, LOG))
    rows = list(csv.DictReader(outputs["branches"].open()))
    found = json.loads(outputs["summary"].read_text())
    lines = read_lines(outputs["centreline"])
    assert len(rows) == len(lines) == len(found["branches"]) == 3
    for line, row, said, branch in zip(lines, rows, found["branches"], fork_tree.branches, strict=True):
        np.testing.assert_allclose(line[:, :3], branch.points_mm, atol=1e-9)
        np.testing.assert_allclose(line[:, 3], branch.radius_mm, atol=1e-9)
        assert float(row["length_mm"]) == pytest.approx(said["length_mm"], rel=1e-5)
        assert said["length_mm"] == pytest.approx(branch.length_mm)
        assert (row["from"], row["to"], row["parent"]) == (branch.start, branch.stop, str(branch.parent or ""))
    assert found["narrowest_radius_mm"] == min(row["min_radius_mm"] for row in found["branches"])
    assert found["narrowest_branch"] == 3
    near = lines[2][:, :3] - found["narrowest_place_mm"]
    assert np.linalg.norm(near, axis=1).min() < 1e-9
    assert [joint["name"] for joint in found["bifurcations"]] == ["bifurcation_1"]
    assert found["loops"] == 0


def test_a_loop_that_is_short_for_its_fork_has_angles():
    turn = np.linspace(0, 2 * np.pi, 17)
    ring = np.column_stack([1 - np.cos(turn), np.sin(turn), 0 * turn])
    ring[-1] = ring[0]
    straight = np.column_stack([-np.arange(9.0), np.zeros(9), np.zeros(9)])
    branches = tuple(
        Branch(number, "fork", stop, 0, line, np.ones(len(line)), np.ones(len(line), bool), True)
        for number, stop, line in ((1, "end", straight), (2, "fork", ring))
    )
    fork = Joint("fork", "bifurcation", np.zeros(3), 5.0)
    angles = [angle for _, _, angle in Tree(branches, {"fork": fork}, 1.0, ()).angles_deg("fork")]
    assert angles == pytest.approx([180.0, 180.0, 0.0], abs=1e-3)


@pytest.mark.parametrize("slant", [0.0, 0.2, 3.0])
def test_a_blind_end_lies_on_the_wall_though_its_line_leads_out_through_an_opening(slant):
    """Ahead of a line along the axis, or nearly, is an opening and no wall: its nearest place is the end."""
    wall = Surface(capped_cylinder((0.0, 0.0, 1.0), 3.0, 20.0)[0])
    way = np.array([slant, 0.0, 1.0]) / np.hypot(slant, 1)
    points = np.array([0.0, 0.0, 4.0]) + np.linspace(-4, 0, 9)[:, None] * way
    ahead = _ahead(points, 3.0, points[-1] + way, wall, 0.5)
    assert wall.distance_mm(ahead[-1:])[0] < 0.05
    assert np.hypot(*ahead[-1, :2]) == pytest.approx(3.0, rel=0.03)
