# SPDX-License-Identifier: Apache-2.0
"""The spacing follows the branches that carry flow; what is too thin for it is closed and told, and advice works."""

import json
import logging
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from scipy.spatial.transform import Rotation
from skimage.measure import euler_number

from pipeline.case.case_file import Case
from pipeline.case.settings.base import parse
from pipeline.case.settings.geometry import OpeningSettings, SideBranches, SurfaceSettings
from pipeline.case.vessel import Branch, BranchShape, VesselShape, coverage, vessel_distance
from pipeline.files.mesh import write_openings
from pipeline.files.volume import Volume
from pipeline.geometry.branches.branch_files import read_branches, row, write_lines
from pipeline.geometry.branches.closing import LatticeNeeds
from pipeline.geometry.branches.shares import FlowTree
from pipeline.geometry.branches.thin_branches import choose_auto, too_thin
from pipeline.geometry.branches.tree_tracing import trace_tree
from pipeline.geometry.closed_surface import Surface, without_too_thin
from pipeline.geometry.lattice.budget import Budget
from pipeline.geometry.lattice.node_arrays import decompose
from pipeline.geometry.lattice.spacing import NODES_ACROSS
from pipeline.geometry.lattice.tagged_lattice import Lattice
from pipeline.haemodynamics.dry import wetted
from pipeline.reporting.content import left_out_rows
from pipeline.stages import voxelize as stage
from pipeline.stages.centreline import summary
from pipeline.stages.surface import extract_surface
from solver.domain.nodes import WALL, Opening, check
from solver.run.forecast import MIN_NODES_ACROSS
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job
from tests.support.random_trees import box_around

LOG = logging.getLogger("left out")
SHARE = 0.02
RADIUS = 2.0


def made_up(seed: int) -> tuple[FlowTree, dict[str, list[str]], dict[str, float]]:
    """A tree by numbers alone: daughters of 0.05 to 1 of their parent's radius; its flow, joints behind each joint, and
    radii of the ends.
    """
    rng = np.random.default_rng(seed)
    behind: dict[str, list[str]] = {"in": ["f0"]}
    rows, ends, growing = [table_row(1, "in", "f0", 1.0)], {}, [("f0", 1.0)]
    while growing:
        joint, radius = growing.pop()
        behind[joint] = []
        for _ in range(rng.integers(2, 4)):
            thin = radius * rng.uniform(0.05, 1.0)
            number = len(rows) + 1
            leaf = number > 12 or rng.random() < 0.4
            name = f"e{number}" if leaf else f"f{number}"
            behind[joint].append(name)
            rows.append(table_row(number, joint, name, thin * rng.uniform(0.7, 1.0)))
            if leaf:
                ends[name] = thin
            else:
                growing.append((name, thin))
    openings = [opening("in", "inlet", 1.0), *(opening(name, "outlet", radius) for name, radius in ends.items())]
    return FlowTree.of(rows, tuple(openings), 3.0), behind, ends


def table_row(number: int, start: str, stop: str, radius: float, length: float = 1.0) -> dict:
    return {
        "branch": number,
        "from": start,
        "to": stop,
        "leads_to_opening": True,
        "length_mm": length,
        "min_radius_mm": radius,
        "min_x_mm": 0.0,
        "min_y_mm": 0.0,
        "min_z_mm": 0.0,
    }


def opening(name: str, role: str, radius: float) -> Opening:
    return Opening(1, name, role, (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), np.pi * radius**2, radius)


@pytest.mark.parametrize("seed", range(20))
def test_each_branch_carries_what_leaves_behind_it_by_murrays_law(seed):
    tree, behind, ends = made_up(seed)
    whole = sum(radius**3 for radius in ends.values())

    def leaving(joint: str) -> float:
        return ends[joint] ** 3 / whole if joint in ends else sum(map(leaving, behind[joint]))

    for limb in tree.limbs:
        assert tree.flow[limb.id] == pytest.approx(leaving(limb.stop), abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("share", [0.0, 0.02, 0.2])
def test_what_is_left_out_is_the_most_of_the_thinnest_that_carries_no_more_than_the_share(seed, share):
    tree, behind, ends = made_up(seed)
    whole = sum(radius**3 for radius in ends.values())
    width = {limb.stop: limb.radius_mm for limb in tree.limbs}

    def lost(least: float) -> float:
        """By walking from the inlet: what does not arrive at an end."""
        reached, waiting = set(), ["in"]
        while waiting:
            joint = waiting.pop()
            reached.add(joint)
            waiting += [name for name in behind.get(joint, []) if width[name] >= least]
        return sum(radius**3 for name, radius in ends.items() if name not in reached) / whole

    narrowest = tree.carrying(share).radius_mm
    assert tree.without(narrowest).share == pytest.approx(lost(narrowest), abs=1e-9)
    assert lost(narrowest) <= share
    assert lost(np.nextafter(narrowest, 2)) > share


@pytest.mark.parametrize("parted", [False, True])
def test_ways_side_by_side_share_by_their_narrowest_places_and_lengths(parted):
    """However many joints, those of other branches, part a way."""
    wide = [("a", "b", 4.0)] if not parted else [("a", "c", 1.0), ("c", "b", 3.0)]
    rows = [table_row(1, "in", "a", 1.0), table_row(2, "a", "b", 0.28, 7.0), table_row(3, "b", "out", 0.7)]
    rows += [table_row(4 + k, start, stop, 1.1, length) for k, (start, stop, length) in enumerate(wide)]
    tree = FlowTree.of(rows, (opening("in", "inlet", 1.0), opening("out", "outlet", 0.7)), 3.0)
    thin = 0.28**3 / 7
    assert tree.flow[2] == pytest.approx(thin / (thin + 1.1**3 / 4), rel=1e-9)
    assert tree.carrying(SHARE).id == 3
    loss = tree.without(0.5)
    assert [limb.id for limb, _ in loss.bypasses] == [2]
    assert (loss.stems, loss.openings, loss.share) == ((), (), tree.flow[2])


def image(limbs: list[BranchShape], voxel: float, turn: np.ndarray) -> Volume:
    """Part of each voxel that the limbs fill, in an image turned about the middle of their box."""
    shape, branches = VesselShape(branches=tuple(limbs), blend_mm=0.1), [Branch(limb) for limb in limbs]
    middle, size = box_around(branches, (), voxel)
    distance = vessel_distance(shape, branches)
    filled = coverage(lambda points: distance(points + middle), tuple(size), np.full(3, voxel), subdivisions=1)
    return Volume(filled, (voxel,) * 3, tuple((-turn @ ((np.array(size) - 1) / 2 * voxel)).tolist()), turn)


def with_twig(rng: np.random.Generator, part: float) -> Volume:
    """A straight vessel with a twig of a part of its radius, of random place and direction, in a turned image."""
    radius, angle = part * RADIUS, np.radians(rng.uniform(60, 120))
    start = np.array([0, 0, rng.uniform(-1, 1)])
    end = start + (RADIUS + 9 * radius) * np.array([np.sin(angle), 0, np.cos(angle)])
    limbs = [
        BranchShape(name="vessel", points_mm=[(0, 0, -9), (0, 0, 9)], radii_mm=[RADIUS] * 2, start="in", end="out"),
        BranchShape(name="twig", points_mm=[tuple(start), tuple(end)], radii_mm=[radius] * 2, end="twig"),
    ]
    return image(limbs, min(radius / 2.3, 0.4), Rotation.random(random_state=rng).as_matrix())


def beside(part: float, seed: int) -> Surface:
    """A vessel with a way around of a part of its radius."""
    turn = Rotation.random(random_state=np.random.default_rng(seed)).as_matrix()
    way = [(0, 0, -3), (4.2, 0, -2.5), (4.2, 0, 2.5), (0, 0, 3)]
    limbs = [
        BranchShape(name="vessel", points_mm=[(0, 0, -10), (0, 0, 10)], radii_mm=[RADIUS] * 2, start="in", end="out"),
        BranchShape(name="way", points_mm=way, radii_mm=[part * RADIUS] * 4),
    ]
    return extract_surface(image(limbs, part * RADIUS / 2.2, turn), SurfaceSettings(), LOG)


def closed(surface: Surface, settings: SurfaceSettings | None = None, **needs) -> Surface:
    reported = LatticeNeeds(
        **{"left_out_share": SHARE, "murray_exponent": 3.0, "memory_gb": None, "most_nodes": 4e6} | needs
    )
    return without_too_thin(surface, settings or SurfaceSettings(), reported, SimpleNamespace(log=LOG))


def flow_tree(surface: Surface) -> FlowTree:
    tree = trace_tree(surface.mesh, surface.openings, 2.5, LOG)
    return FlowTree.of([row(branch) for branch in tree.branches], surface.openings, 3.0)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_twig_of_next_to_no_flow_is_closed_and_no_longer_sets_the_spacing(seed):
    """A twig of less than a quarter of the radius carries less than 2 % and has fewer than 6 of 20 nodes across."""
    rng = np.random.default_rng(seed)
    part = rng.uniform(0.19, 0.24)
    surface = extract_surface(with_twig(rng, part), SurfaceSettings(), LOG)
    assert len(surface.openings) == 3
    left = closed(surface)
    assert sorted(o.radius_mm for o in left.openings) == pytest.approx([RADIUS, RADIUS], rel=0.05)
    (record,) = left.quality["side_branches"]
    assert record["radius_mm"] == pytest.approx(part * RADIUS, rel=0.12)
    murray = part**3 / (1 + part**3)
    assert record["flow_share"] == pytest.approx(murray, rel=0.4)  # radii to the power of three, of two voxels
    assert record["nodes_across"] < MIN_NODES_ACROSS
    assert left.mesh.volume_mm3() < surface.mesh.volume_mm3()
    chosen = choose_auto(flow_tree(left), Budget.of(left.mesh), SHARE, 4e6)
    assert chosen.spacing_mm == pytest.approx(2 * RADIUS / NODES_ACROSS, rel=0.05)


def test_what_carries_more_or_has_a_name_or_shall_be_kept_stays():
    rng = np.random.default_rng(7)
    thick = extract_surface(with_twig(rng, 0.4), SurfaceSettings(), LOG)
    assert closed(thick) is thick
    thin = extract_surface(with_twig(rng, 0.22), SurfaceSettings(), LOG)
    twig = min(thin.openings, key=lambda each: each.radius_mm)
    named = SurfaceSettings(openings=(OpeningSettings(name=twig.name, role="outlet", near_mm=twig.centre_mm),))
    assert closed(thin, named) is thin
    # it stays open then, and the lattice has the least of nodes across it, not 20
    tree = flow_tree(thin)
    chosen = choose_auto(tree, Budget.of(thin.mesh), SHARE, 4e6)
    assert not too_thin(tree, chosen.spacing_mm).stems
    narrowest = min(limb.radius_mm for limb in tree.limbs)
    assert chosen.spacing_mm == pytest.approx(2 * narrowest / MIN_NODES_ACROSS, rel=1e-6)


def voxelized(folder: Path, surface: Surface, caplog, **settings) -> Job:
    """The stage voxelize on files; its job."""
    tree = trace_tree(surface.mesh, surface.openings, 2.5, LOG)
    surface.mesh.write(folder / "surface.vtp")
    write_openings(surface.openings, folder / "openings.json")
    (folder / "centreline.json").write_text(json.dumps(summary(tree, surface.mesh)))
    write_lines(tree, folder / "lines.vtp")
    files = {
        "surface": "surface.vtp",
        "openings": "openings.json",
        "centreline": "centreline.json",
        "lines": "lines.vtp",
    }
    inputs = {role: folder / file for role, file in files.items()}
    flow = {"viscosity_m2_s": 3.3e-6, "inlets": {"*": {"flow_ml_s": 1.0}}}
    fixed = settings.get("spacing_mm") or settings.get("nodes_across")
    reported = settings | ({} if fixed else {"flow": flow})
    job = Job("voxelize", inputs, {"lattice": folder / "lattice.vti"}, reported, LOG)
    with caplog.at_level(logging.INFO):
        stage._compute(job)
    return job


@pytest.mark.parametrize("settings", [{}, pytest.param({"nodes_across": 16}, marks=pytest.mark.slow)])
def test_a_thin_way_beside_the_vessel_is_closed_in_the_lattice_and_reported(tmp_path, caplog, settings):
    surface = beside(0.2, seed=3)
    job = voxelized(tmp_path, surface, caplog, **settings)
    (reported,) = job.facts["too_thin_branches"]
    assert reported["closed"]
    assert reported["nodes_across"] < MIN_NODES_ACROSS
    assert reported["flow_share"] < SHARE
    assert (reported["flow_ml_s"] or 0) == (0 if settings else pytest.approx(reported["flow_share"]))
    assert re.search(
        r"only \d\.\d nodes across branch \d .* % of the inflow.* by Murray's law; .* it is closed", caplog.text
    )
    lattice = Lattice.read(tmp_path / "lattice.vti")
    assert euler_number(lattice.tag > WALL, connectivity=3) == 1  # one piece without a loop
    assert job.facts["removed_nodes"]["closed_branches"] > 0
    lost = 1 - job.facts["fluid_nodes"] * job.facts["spacing_mm"] ** 3 / surface.mesh.volume_mm3()
    assert 0 < lost < 0.06  # the way's own volume is about 4 % of the vessel's; the wall around its mouths stays
    nodes, _ = decompose(lattice, surface.mesh, surface.openings)
    check(nodes)
    branches = read_branches(tmp_path / "lines.vtp")
    reached, others = wetted(surface.mesh, branches, nodes)
    assert {branch.id for branch in branches} - {branch.id for branch in others} == {reported["branch"]}
    area, left = (np.linalg.norm(mesh.area_vectors_mm2(), axis=1).sum() for mesh in (surface.mesh, reached))
    way = next(branch for branch in branches if branch.id == reported["branch"])
    assert 0.5 < (area - left) / (2 * np.pi * way.mean_radius_mm * way.length_mm) < 1  # its mouths are within reach
    assert wetted(surface.mesh, others, nodes)[0] is surface.mesh


def test_the_finest_that_fits_is_taken_where_it_loses_little_and_said_to_be(tmp_path, caplog):
    surface = beside(0.2, seed=4)
    budget = Budget.of(surface.mesh)
    need = budget.cost(2 * RADIUS / NODES_ACROSS).size.device_bytes("fp32") / 1e9
    job = voxelized(tmp_path, surface, caplog, memory_gb=0.4 * need)
    assert job.facts["expected_solver_gb"]["fp32"] <= 0.4 * need
    assert "the finest that fits" in job.facts["spacing_decided_by"]
    assert "voxelize.memory_gb" in job.facts["spacing_decided_by"]
    finer = Budget.of(surface.mesh, memory_gb=0.4 * need)
    assert finer.excess(0.99 * job.facts["spacing_mm"])


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_the_advice_of_a_refusal_ends_in_a_lattice(tmp_path, caplog, seed):
    """A side branch that carries a tenth: too much to be left out unasked, too thin for what the memory bears."""
    rng = np.random.default_rng(20 + seed)
    lumen = with_twig(rng, rng.uniform(0.35, 0.5))
    surface = extract_surface(lumen, SurfaceSettings(), LOG)
    gb = Budget.of(surface.mesh).cost(2 * RADIUS / 9).size.device_bytes("fp32") / 1e9
    assert closed(surface, memory_gb=gb) is surface
    with pytest.raises(StageError) as caught:
        voxelized(tmp_path, surface, caplog, memory_gb=gb)
    message = str(caught.value)
    assert re.search(
        r"where voxelize.memory_gb is .* The finest that fits is .* lost would be branch \d .* mL/s\)", message
    )
    advice = re.search(r"Set voxelize: (\{.*\}) and surface: (\{.*?\});", message)
    for_voxelize, for_surface = (yaml.safe_load(each) for each in advice.groups())
    again = extract_surface(lumen, parse(SurfaceSettings, for_surface, "advice"), LOG)
    assert len(again.openings) == 2
    job = voxelized(tmp_path, again, caplog, memory_gb=gb, **for_voxelize)
    assert job.facts["spacing_mm"] == for_voxelize["spacing_mm"]


def test_the_report_tells_what_is_left_out_and_the_flow_that_it_would_carry():
    reported = {"from": "fork", "to": "twig", "place_mm": [1.0, 2.0, 3.0], "radius_mm": 0.3, "nodes_across": 4.2}
    given = SimpleNamespace(
        geometry={"side_branches": [reported | {"flow_share": 0.01, "action": "closed flush"}, {"action": "remove"}]},
        records={"voxelize": {"too_thin_branches": [reported | {"flow_share": 0.05, "closed": False}]}},
        indices={"openings": [{"role": "inlet", "flow_ml_s": -4.0}, {"role": "outlet", "flow_ml_s": 4.0}]},
    )
    first, second = left_out_rows(given)
    assert first == ("fork to twig", "1.0, 2.0, 3.0", "closed flush", "0.300", "4.2", "1.00 %", "0.0400")
    assert second[2:] == ("kept, not resolved", "0.300", "4.2", "5.00 %", "0.200")


def test_a_narrow_place_that_all_flow_passes_is_no_loss_that_could_be_borne():
    rows = [table_row(1, "in", "f", 1.0), table_row(2, "f", "out", 0.1)]
    tree = FlowTree.of(rows, (opening("in", "inlet", 1.0), opening("out", "outlet", 1.0)), 3.0)
    assert tree.carrying(0.5).id == 2
    assert too_thin(tree, 0.1).share == 1.0


def test_the_surface_knows_what_the_spacing_follows_from_only_where_it_may_close_branches():
    def reported(**sections) -> dict | None:
        values = {"input": {"volume": "config/config.yaml"}, "solve": {"inlets": {"*": {"flow_ml_s": 2}}}} | sections
        return json.loads(parse(Case, values, "case").settings("surface")).get("lattice")

    chosen = {"left_out_share": SHARE, "memory_gb": None, "most_nodes": 4e6, "murray_exponent": 3.0}
    assert reported() == chosen
    assert reported(voxelize={"memory_gb": 8})["precision"] == "fp32"
    assert reported(voxelize={"spacing_mm": 0.2}) is reported(voxelize={"nodes_across": 20}) is None
    assert reported(surface={"side_branches": {"action": "keep"}}) is None
    assert SideBranches().action == "auto"
