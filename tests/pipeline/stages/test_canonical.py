# SPDX-License-Identifier: Apache-2.0
"""Canonical geometries: surfaces against formulas, lattices against surfaces, and flows that have solutions."""

import json
import logging
import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import yaml

from pipeline.case.case_file import Case
from pipeline.case.settings.base import parse
from pipeline.case.settings.geometry import VoxelizeSettings
from pipeline.files.mesh import Mesh
from pipeline.geometry.lattice.budget import Budget
from pipeline.geometry.lattice.grid import Grid
from pipeline.geometry.lattice.links import SMALLEST_Q
from pipeline.geometry.lattice.node_arrays import decompose
from pipeline.geometry.surface.fork import _near_zero
from pipeline.geometry.surface.round_walls import TOLERANCE
from pipeline.haemodynamics.wall_shear_stress import Wall, fit_nodes_to_wall, within_period
from pipeline.stages.canonical import CanonicalInput, canonical
from pipeline.stages.voxelize import voxelize
from solver.domain.nodes import Nodes
from solver.kernels.d3q19 import VELOCITIES
from solver.run.flow_file import read_flow
from solver.run.settings import parse as parse_solve
from solver.run.solve import solve
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.support.variants import some
from validation.studies.cavity import differences, reynolds, section
from validation.studies.run import Run

LOG = logging.getLogger("test")

CAVITY = {"shape": "cavity", "length_mm": 10, "width_mm": 10}
PLATES = {"shape": "channel", "height_mm": 2, "ends": "periodic"}
CHANNEL = {"shape": "channel", "height_mm": 1, "length_mm": 2}
DUCT = {"shape": "duct", "height_mm": 1, "width_mm": 2, "length_mm": 1.5}
PIPE = {"shape": "pipe", "diameter_mm": 2, "length_mm": 4}
TILTED = PIPE | {"direction": [1, 2, 3]}
ENDLESS = {"shape": "pipe", "diameter_mm": 2, "length_mm": 2, "direction": [0, 0, -1], "ends": "periodic"}
STEP = {"shape": "step", "step_mm": 1, "expansion_ratio": 2, "inlet_mm": 1, "outlet_mm": 3}
STENOSIS = {"shape": "stenosis", "diameter_mm": 2, "length_mm": 5, "throat_mm": 3, "eccentricity": 0.5}
BEND = {"shape": "bend", "diameter_mm": 2, "bend_radius_mm": 3, "inlet_mm": 1, "outlet_mm": 0.5}
NOZZLE = {
    "shape": "nozzle",
    "diameter_mm": 2,
    "inlet_diameter_mm": 5,
    "outlet_diameter_mm": 6,
    "inlet_mm": 1,
    "cone_mm": 4,
    "throat_mm": 3,
    "outlet_mm": 6,
    "direction": [1, 2, 3],
}
FORK = {
    "shape": "bifurcation",
    "diameter_mm": 2,
    "length_mm": 4,
    "daughters": [
        {"name": "left", "length_mm": 4, "angle_deg": 40},
        {"name": "right", "length_mm": 4, "angle_deg": 40},
    ],
}
SPHERE = {"shape": "sphere", "diameter_mm": 2, "box_mm": [4, 3, 3]}
TUNNEL = SPHERE | {"ends": "openings", "sides": "walls"}


def surface(geometry: dict, across: float = 10):
    return canonical(CanonicalInput(geometry=geometry, nodes_across=across))


def grid_of(more: dict) -> Grid:
    """Of what the stage writes beside the openings."""
    return Grid(**{key: value if key == "reference_mm" else tuple(value) for key, value in more["frame"].items()})


def nodes_of(geometry: dict, across: float) -> Nodes:
    """Through voxelize and decompose, which check what they must hold."""
    made, more = surface(geometry, across)
    lattice, _ = voxelize(made.mesh, made.openings, VoxelizeSettings(nodes_across=across), grid=grid_of(more))
    return decompose(lattice, made.mesh, made.openings, patches=tuple(more["patches"]))[0]


@pytest.mark.parametrize(
    ("inside", "wall", "fluid"),
    [(10, 728, 1000), (20, 2648, 8000), (30, 5768, 27000), (40, 10088, 64000), (50, 15608, 125000)],
)
def test_cavity_has_the_nodes_of_the_dissertation(inside, wall, fluid):
    """Collares 2012: cavities of 12^3 to 52^3 nodes, walls included."""
    nodes = nodes_of(CAVITY, inside)
    assert (len(nodes.wall_position), nodes.count) == (wall, fluid)
    assert (nodes.wall_link_q == 0.5).all()


def test_links_into_the_edges_of_the_lid_belong_to_walls_at_rest():
    """Else the lid would push fluid into one edge and draw it out of the other."""
    for sides, upward, into_edges in (("walls", 100, 10), ("periodic", 30, 3)):
        nodes = nodes_of(CAVITY | {"sides": sides, "width_mm": 10 if sides == "walls" else 3}, 10)
        lid = nodes.wall_link_patch == nodes.patches.index("lid") + 1
        directions = VELOCITIES[nodes.wall_link_direction[lid]]
        assert (directions[:, 2] == 1).all()
        for axis, across in ((0, into_edges), (1, into_edges if sides == "walls" else 0)):
            for sign in (1, -1):
                assert (directions[:, axis] == sign).sum() == upward - across
        assert not directions[:, :2].sum(axis=0).any()


@pytest.mark.parametrize("geometry", [CHANNEL, pytest.param(DUCT | {"width_mm": 20}, marks=pytest.mark.slow)])
def test_links_through_openings_between_plates_carry_the_parabola(geometry):
    """Where the channel repeats; in the middle of a wide duct, where exp(-5 pi) is left of its sides."""
    nodes = nodes_of(geometry, 10)
    half = 0.5 * VELOCITIES[nodes.opening_link_direction] * nodes.spacing_mm
    _, y, z = (nodes.points_mm()[nodes.opening_link_node] + half).T
    middle = np.abs(y - 10) < 5 if "width_mm" in geometry else np.full(len(y), True)
    assert middle.sum() > 90
    # phi is kept in single precision; between plates quadratic elements are exact
    np.testing.assert_allclose(nodes.opening_link_profile[middle], np.maximum(4 * z * (1 - z), 0)[middle], atol=2e-5)


VOLUMES = {
    "cavity": (CAVITY, 1000),
    "duct": (DUCT, 3),
    "pipe": (PIPE, 4 * np.pi),
    "tilted pipe": (TILTED, 4 * np.pi),
    "bend": (BEND, np.pi * (3 * np.pi / 2 + 1.5)),
    "sphere": (TUNNEL, 36 - 4 / 3 * np.pi),
    # of r = 1 - (1 + cos)/4 over the throat: mean square 1 - 1/2 + 3/32
    "stenosis": (STENOSIS, np.pi * (2 + 3 * (1 - 1 / 2 + 3 / 32))),
    "nozzle": (NOZZLE, np.pi * (6.25 + 4 * (6.25 + 2.5 + 1) / 3 + 3 + 54)),
    "sudden expansion": ({"shape": "nozzle", "diameter_mm": 2, "outlet_diameter_mm": 4}, np.pi * (2 + 8 + 40 * 4)),
    "tilted stenosis": (STENOSIS | {"direction": [1, 2, 3]}, np.pi * (2 + 3 * (1 - 1 / 2 + 3 / 32))),
}


@pytest.mark.parametrize("name", VOLUMES)
def test_volume_of_the_surface_is_that_of_the_formula(name):
    geometry, volume = VOLUMES[name]
    # sections and spheres have their true area or volume; what is left are chords along the axis
    assert surface(geometry)[0].mesh.volume_mm3() == pytest.approx(volume, rel=4 * TOLERANCE)


AREAS = {
    "cavity": (CAVITY, 600),
    "duct": (DUCT, 9),
    "pipe": (PIPE, 8 * np.pi),
    "sphere": (TUNNEL, 48 + 4 * np.pi),
    "bend": (BEND, 2 * np.pi * (3 * np.pi / 2 + 1.5)),
    # tubes, the cone's slope, and the ring of the step
    "nozzle": (NOZZLE, np.pi * (5 + 3.5 * np.hypot(4, 1.5) + 6 + 8 + 36)),
}


@pytest.mark.parametrize("name", AREAS)
def test_area_of_the_wall_is_that_of_the_formula(name):
    geometry, area = AREAS[name]
    mesh = surface(geometry)[0].mesh
    wall = np.linalg.norm(mesh.area_vectors_mm2()[mesh.opening == 0], axis=1).sum()
    # a polygon of the circle's area is longer by pi^2/(6 n^2)
    assert wall == pytest.approx(area, rel=5 * TOLERANCE)


@pytest.mark.parametrize("direction", [(1, 0, 0), (-2, 0, 0), (0, 0, 1), (1, 2, 3), (-1, 0.1, -0.1)])
def test_shapes_turn_by_the_least_angle_from_x_to_their_direction(direction):
    shape = CanonicalInput(geometry=STENOSIS | {"direction": direction}).geometry
    np.testing.assert_allclose(shape.turn @ shape.turn.T, np.eye(3), atol=1e-14)
    np.testing.assert_allclose(shape.turn[:, 0], np.array(direction) / np.linalg.norm(direction), atol=1e-14)
    # of the rotations that do this, that of the least angle has the largest trace, 1 + 2 cos
    assert np.trace(shape.turn) == pytest.approx(1 + 2 * shape.unit[0], abs=1e-14)
    assert np.linalg.det(shape.turn) == pytest.approx(1)


@pytest.mark.parametrize(
    "geometry",
    [STENOSIS, pytest.param(FORK, marks=pytest.mark.slow), BEND, NOZZLE],
    ids=lambda geometry: geometry["shape"],
)
def test_turned_shapes_are_the_same_shapes(geometry):
    straight, turned = (surface(geometry | {"direction": d})[0] for d in ((1, 0, 0), (1, 2, 3)))
    turn = CanonicalInput(geometry=geometry | {"direction": (1, 2, 3)}).geometry.turn
    for plain, other in zip(straight.openings, turned.openings, strict=True):
        np.testing.assert_allclose(turn @ plain.centre_mm, other.centre_mm, atol=1e-12)
        np.testing.assert_allclose(turn @ plain.normal, other.normal, atol=1e-12)
    # second moments of the surface, which do not depend on how its triangles are numbered
    first, second = (second_moments(made.mesh) for made in (straight, turned))
    np.testing.assert_allclose(turn @ first @ turn.T, second, atol=1e-4 * np.abs(first).max())


def second_moments(mesh: Mesh) -> np.ndarray:
    """Sum of x x^T over the triangles, by area, (3, 3)."""
    centres, areas = mesh.centroids_mm(), np.linalg.norm(mesh.area_vectors_mm2(), axis=1)
    return np.einsum("t,ti,tj->ij", areas, centres, centres)


def test_a_function_is_reported_where_its_zero_may_pass():
    """Of a sphere's distance: exactly within a cell of the surface, elsewhere with the right sign."""
    axes, step = [np.arange(n) * 0.1 - 1.5 for n in (31, 30, 33)], 0.1
    found = _near_zero(lambda places: np.linalg.norm(places, axis=1) - 1, axes, step)
    x, y, z = np.meshgrid(*axes, indexing="ij")
    wanted = (np.sqrt(x**2 + y**2 + z**2) - 1).transpose(2, 1, 0)
    near = np.abs(wanted) < 3**0.5 * step
    np.testing.assert_allclose(found[near], wanted[near], rtol=0, atol=1e-7)  # single precision
    assert ((found > 0) == (wanted > 0))[np.abs(wanted) > 1e-6].all()


def off_the_profile(points: np.ndarray, shape) -> np.ndarray:
    """Distance of points from the wall of a nozzle, whose section through the axis is a line with corners."""
    along = points @ shape.unit
    place = np.stack((along, np.linalg.norm(points - np.outer(along, shape.unit), axis=1)), axis=1)
    parts = []
    for a, b in pairwise(shape.profile):
        length = max((b - a) @ (b - a), 1e-30)
        parts.append(
            np.linalg.norm(place - a - np.clip((place - a) @ (b - a) / length, 0, 1)[:, None] * (b - a), axis=1)
        )
    return np.min(parts, axis=0)


def in_the_nozzle(points: np.ndarray, shape) -> np.ndarray:
    """Whether points lie within the wall, between the caps."""
    along = points @ shape.unit
    place, radius = shape.profile.T
    throat = np.interp(along, place[:4], radius[:4])
    inside = np.linalg.norm(points - np.outer(along, shape.unit), axis=1) < np.where(along < 0, throat, radius[-1])
    return inside & (along > place[0]) & (along < place[-1])


@pytest.mark.parametrize("seed", some(range(4), 0))
def test_links_of_nozzles_end_where_they_first_meet_the_wall(seed):
    """Of any sizes and directions, one without a cone among them."""
    rng = np.random.default_rng(seed)
    wide, wider, inlet, cone, throat, outlet = rng.uniform((1, 1.2, 0.3, 0.2, 0.3, 0.5), (2.5, 3, 1, 2, 2, 2)).tolist()
    geometry = {
        "shape": "nozzle",
        "diameter_mm": 1,
        "inlet_diameter_mm": wide,
        "outlet_diameter_mm": wider,
        "inlet_mm": inlet,
        "cone_mm": cone * (seed > 0),
        "throat_mm": throat,
        "outlet_mm": outlet,
        "direction": rng.standard_normal(3).tolist(),
    }
    nodes, shape = nodes_of(geometry, 7), CanonicalInput(geometry=geometry).geometry
    link = VELOCITIES[nodes.wall_link_direction] * nodes.spacing_mm
    start, q = nodes.points_mm()[nodes.wall_link_node], nodes.wall_link_q[:, None].astype(float)
    # a circle is a polygon that leaves it by TOLERANCE diameters of the throat, more by the root of how much wider
    allowed = 2 * TOLERANCE * np.sqrt(max(wide, wider)) + SMALLEST_Q * nodes.spacing_mm
    cut = nodes.wall_link_patch == 0  # they end at nodes in a slit one node wide, which were taken out
    assert off_the_profile(start + q * link, shape)[~cut].max() < allowed
    assert (in_the_nozzle(start + link, shape) | (off_the_profile(start + link, shape) < allowed))[cut].all()
    assert cut.mean() < 0.01
    before = np.concatenate([start + part * q * link for part in (0, 0.25, 0.5, 0.75, 0.99)])
    assert (in_the_nozzle(before, shape) | (off_the_profile(before, shape) < allowed)).all()
    through = nodes.points_mm()[nodes.opening_link_node] @ shape.unit
    to_cap = np.minimum(*(np.abs(through - place) for place in shape.profile[[0, -1], 0]))
    assert to_cap.max() < 2**0.5 * nodes.spacing_mm
    assert measured_volume(nodes) == pytest.approx(surface(geometry)[0].mesh.volume_mm3(), rel=0.02)


SLIT = CHANNEL | {"ends": "periodic", "sides": "walls", "width_mm": 2}
REPEATED = {
    "plates": (PLATES, None),
    "slit": (SLIT, (4, 12, 0)),
    "pipe": (ENDLESS, (2 * np.pi, 4 * np.pi, 0)),
    "sphere": (SPHERE, (36 - 4 / 3 * np.pi, 4 * np.pi, 0)),
    "row of spheres": (SPHERE | {"ends": "openings"}, (36 - 4 / 3 * np.pi, 4 * np.pi, 18)),
}


@pytest.mark.parametrize("name", some(REPEATED, "sphere", "slit", "pipe", "plates"))
def test_forecast_counts_one_period_of_what_repeats(name):
    geometry, known = REPEATED[name]
    made, more = surface(geometry)
    grid = grid_of(more)
    extent = grid.extent(made.mesh)
    if known:
        found = extent.volume_mm3, extent.wall_mm2, extent.caps_mm2
        np.testing.assert_allclose(found, known, rtol=5 * TOLERANCE, atol=1e-9)
    _, figures = voxelize(made.mesh, made.openings, VoxelizeSettings(nodes_across=10), grid=grid)
    expected = Budget.of(made.mesh, grid).cost(figures["spacing_mm"])
    # ten nodes across a circle count its area to about a per cent
    assert expected.size.fluid_nodes == pytest.approx(figures["fluid_nodes"], rel=0.02)


def off_the_wall(name: str, points: np.ndarray) -> np.ndarray:
    x, y, z = points.T
    if name == "pipe":
        return np.hypot(y, z) - 1
    if name == "sphere":
        return np.linalg.norm(points, axis=1) - 1
    straight = np.where(x < 0, np.hypot(y, z), np.hypot(y, x - 3))  # before and behind the bend
    return np.where((x < 0) | (z > 3), straight, np.hypot(np.hypot(x, z - 3) - 3, y)) - 1


@pytest.mark.parametrize(("name", "geometry", "curved"), [("pipe", PIPE, 1), ("sphere", TUNNEL, 2), ("bend", BEND, 2)])
def test_triangles_keep_to_the_wall(name, geometry, curved):
    """To a thousandth of a spacing, at 100 nodes on the reference length, for each direction of curvature."""
    mesh = surface(geometry)[0].mesh
    wall = mesh.triangles[(mesh.opening == 0) & ((mesh.patch == 1) | (name != "sphere"))]
    corners = mesh.points_mm[wall]
    places = np.concatenate((corners.reshape(-1, 3), corners.mean(axis=1), (corners[:, 0] + corners[:, 1]) / 2))
    assert np.abs(off_the_wall(name, places)).max() < 2 * TOLERANCE * curved


def measured_volume(nodes: Nodes) -> float:
    """mm3, of the fluid and wall nodes, each cut by its distance to the wall; caps are half-way."""
    part = [np.clip(0.5 + d / nodes.spacing_mm, 0, 1).sum() for d in (nodes.distance_mm, nodes.wall_distance_mm)]
    return float(sum(part)) * nodes.spacing_mm**3


@pytest.mark.slow
def test_lattice_of_a_stenosis_holds_its_volume_at_second_order():
    errors = [abs(measured_volume(nodes_of(STENOSIS, across)) / VOLUMES["stenosis"][1] - 1) for across in (8, 16, 32)]
    assert errors[2] < 2e-3
    assert np.log2(errors[0] / errors[2]) / 2 > 1.7


@pytest.mark.parametrize("across", [8, pytest.param(13, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "geometry",
    [
        PLATES,
        CHANNEL,
        DUCT,
        TILTED,
        ENDLESS,
        STEP,
        pytest.param(STENOSIS | {"length_mm": 4, "ends": "periodic"}, marks=pytest.mark.slow),
        BEND,
        pytest.param(STENOSIS | {"direction": [-1, 2, 0]}, marks=pytest.mark.slow),
        pytest.param(BEND | {"direction": [1, 1, 0]}, marks=pytest.mark.slow),
        NOZZLE,
        pytest.param(NOZZLE | {"direction": [0, 0, 1]}, marks=pytest.mark.slow),
    ],
    ids=lambda geometry: geometry["shape"],
)
def test_every_shape_becomes_a_lattice(geometry, across):
    if geometry["shape"] == "bend" or "periodic" in geometry.values():
        across = 2 * (across // 2)  # periods and ends are whole numbers of spacings
    nodes = nodes_of(geometry, across)
    shape = CanonicalInput(geometry=geometry).geometry
    assert {o.name: o.role for o in nodes.openings} == shape.roles
    assert nodes.patches == shape.patches
    assert nodes.periodic == shape.periodic
    numbers = np.bincount(nodes.wall_link_patch, minlength=len(shape.patches) + 1)
    assert numbers[0] == 0
    assert (numbers[1:] > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("geometry", [SPHERE, TUNNEL, FORK], ids=["periodic sphere", "sphere", "bifurcation"])
def test_shapes_that_take_longer_become_lattices(geometry):
    for across in (8, 12):
        nodes, made = nodes_of(geometry, across), surface(geometry, across)[0]
        if geometry is not SPHERE:  # whose surface reaches beyond the period
            assert measured_volume(nodes) == pytest.approx(made.mesh.volume_mm3(), rel=0.02)
    if geometry is FORK:
        areas = [opening.area_mm2 for opening in made.openings]
        assert areas == pytest.approx([np.pi, np.pi / 2 ** (2 / 3), np.pi / 2 ** (2 / 3)], rel=2e-3)
        mirrored = made.mesh.points_mm * (1, 1, -1)
        assert mirrored.max(axis=0) == pytest.approx(made.mesh.points_mm.max(axis=0), abs=1e-3)


def solve_settings(geometry: dict, **solve):
    case = parse(Case, {"input": {"geometry": geometry}, "solve": {"backend": "cpu"} | solve}, "test")
    return parse_solve(json.loads(case.settings("solve")))


def run(geometry: dict, across: float, tmp_path, **changes):
    nodes = nodes_of(geometry, across)
    summary = solve(nodes, solve_settings(geometry, **changes), tmp_path / "flow", tmp_path / "monitor.csv", LOG)
    return nodes, summary, read_flow(tmp_path / "flow")


def test_plates_with_a_force_carry_a_parabola_and_its_stress(tmp_path):
    """And with slip along the lower one half of the parabola of plates twice as far apart."""
    force, mu = 20.0, 3.5e-3
    nodes, summary, flow = run(
        PLATES, 12, tmp_path, force_n_m3=[force, 0, 0], patches={"bottom": {"slip": True}}, steady_tolerance=1e-6
    )
    assert summary["converged"]
    assert summary["openings"] == {}
    assert summary["mass_balance"] is None
    z = (nodes.points_mm()[:, 2]) * 1e-3
    wanted = force / (2 * mu) * (4e-6 - z**2)
    # half-way walls with Lambda 3/16 are exact; the rest is fp32 and what the steady stop leaves
    np.testing.assert_allclose(flow.velocity_m_s(0)[:, 0], wanted, atol=1e-4 * wanted.max())
    wall = Wall.of(within_period(surface(PLATES, 12)[0].mesh, nodes))
    assert wall.areas_mm2.sum() == pytest.approx(2 * nodes.spacing_mm**2)
    fit = fit_nodes_to_wall(nodes, wall, 3.0)
    shear = fit.weights @ flow.viscous_stress_pa(0)[:, 5]
    top = wall.mesh.points_mm[:, 2] > 1
    np.testing.assert_allclose(shear[top], -force * 2e-3, rtol=1e-3)  # the fit is exact for stress linear in z


def test_what_nothing_drives_or_what_is_not_there_is_refused():
    nodes = nodes_of(PLATES, 8)
    settings = solve_settings(PLATES, force_n_m3=[1, 0, 0])
    for changes, message in (
        ({"force_n_m3": (0.0, 0.0, 0.0)}, "nothing drives the flow, which has no openings; give force_n_m3"),
        ({"inlets": solve_settings(PIPE, inlets={"inlet": {"flow_ml_s": 1}}).inlets}, "no openings; leave inlets out"),
        (
            {"patches": solve_settings(CAVITY, patches={"lid": {"slip": True}}).patches},
            "no patch of the wall is called lid; there are bottom, top",
        ),
    ):
        with pytest.raises(StageError, match=message):
            solve(nodes, replace(settings, **changes), None, None, LOG)


MISTAKES = [
    ({"shape": "pip"}, {}, "input.geometry = {'shape': 'pip'}: its key shape is 'pip'; give one of 'cavity'"),
    ({"shape": "pipe", "diameter_m": 1}, {}, "input.geometry.diameter_m: unknown key (value 1); did you mean"),
    (CAVITY, {"inlets": {"in": {"flow_ml_s": 1}}}, "solve.inlets.in: no inlet of this name in the geometry (none)"),
    (PIPE, {}, "solve.inlets: missing"),
    (CAVITY, {"patches": {"lit": {"slip": True}}}, "solve.patches.lit: no patch of this name in the wall (lid, walls"),
    (CAVITY, {"patches": {"lid": {}}}, "solve.patches.lid: velocity_m_s and slip: neither given"),
    (
        {"shape": "nozzle", "diameter_mm": 2, "inlet_diameter_mm": 3, "outlet_diameter_mm": 4, "inlet_mm": 0},
        {},
        "inlet_diameter_mm 3 is that of no part; give inlet_mm or cone_mm",
    ),
    (TILTED | {"ends": "periodic"}, {}, "only pipes along x, y or z can repeat"),
]


@pytest.mark.parametrize(("geometry", "solve", "message"), MISTAKES)
def test_a_mistake_in_the_case_names_key_and_remedy(geometry, solve, message):
    with pytest.raises(StageError) as caught:
        parse(Case, {"input": {"geometry": geometry}, "solve": solve}, "case.yaml")
    assert message in str(caught.value)


def stage(module: str, folder, settings: str, **files) -> None:
    """Run a stage's command line in a folder."""
    options = [part for role, name in files.items() for part in (f"--{role}", str(folder / name))]
    command = [sys.executable, "-m", module, *options, "--settings", settings]
    command += ["--provenance", str(folder / f"{module}.json")]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=os.environ)
    assert answer.returncode == 0, answer.stderr


@pytest.mark.slow
def test_cavity_at_reynolds_100_is_that_of_ghia(tmp_path):
    """Through the command lines, with the settings of the example case."""
    case = parse(Case, yaml.safe_load((ROOT / "config/cases/cavity.yaml").read_text()), "cavity.yaml")
    made = {"surface": "surface.vtp", "openings": "openings.json"}
    stage("pipeline.stages.canonical", tmp_path, case.settings("canonical"), **made)
    stage("pipeline.stages.voxelize", tmp_path, case.settings("voxelize"), **made, lattice="lattice.vti")
    stage(
        "pipeline.stages.decompose",
        tmp_path,
        case.settings("decompose"),
        **made,
        lattice="lattice.vti",
        nodes="nodes.h5",
    )
    stage(
        "solver",
        tmp_path,
        case.settings("solve"),
        nodes="nodes.h5",
        flow="flow.vtkhdf",
        monitor="monitor.csv",
        summary="solve.json",
    )
    run = Run("cavity", case, tmp_path)
    assert run.summary["converged"]
    assert reynolds(run) == 100
    assert not section(run)[1].any()
    # Ghia's own grid of 129 differs from spectral solutions by 0.005
    assert max(differences(section(run), "ghia1982", 100, "largest")) < 0.008
