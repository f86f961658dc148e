# SPDX-License-Identifier: Apache-2.0
"""Stage 5: the closed surface becomes a lattice of tagged nodes.

A node is fluid if the surface encloses it. Ends of links that cut through the wall from one fluid node to another,
passages one node wide, and parts that no link joins to the largest one are taken out. Fluid nodes with a link through
an opening's cap are INLET or OUTLET; solid nodes behind a link through the wall are WALL.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from pipeline.case.settings.base import parse
from pipeline.case.settings.geometry import VoxelizeSettings
from pipeline.files.mesh import Mesh, read_openings
from pipeline.geometry.branches.branch_files import read_branches, read_rows
from pipeline.geometry.branches.shares import FlowTree, flow_words
from pipeline.geometry.branches.thin_branches import Closed, advice, choose_auto, closed_here, too_thin
from pipeline.geometry.lattice.budget import Budget
from pipeline.geometry.lattice.crossings import rasterise
from pipeline.geometry.lattice.grid import Grid, choose_frame, read_grid
from pipeline.geometry.lattice.links import Links, links
from pipeline.geometry.lattice.node_arrays import decompose
from pipeline.geometry.lattice.spacing import (
    Narrowest,
    PeakSpeed,
    Spacing,
    SpacingSettings,
    choose_spacing,
    coarsest_spacing,
    narrowest_mm,
    resolving_spacing,
    too_coarse,
)
from pipeline.geometry.lattice.tagged_lattice import Lattice, tagged
from pipeline.geometry.lattice.thin_passages import without_thin_passages
from pipeline.geometry.lattice.updates import Updates
from solver.boundary.waveform import by_opening, read_waveforms
from solver.boundary.windkessel import flow_fractions
from solver.domain.nodes import WALL, Nodes, Opening
from solver.domain.sections import find_sections
from solver.kernels.d3q19 import VELOCITIES, WEIGHTS, Q
from solver.run.forecast import MIN_NODES_ACROSS
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job

SURVEY_ACROSS = 8.0
"""Nodes across the narrowest diameter that tell its area within a tenth, see tests/solver/run/test_expected.py."""
MANY_REMOVED = 1e-3
"""Part of the fluid nodes above which what was taken out is worth a warning."""


def voxelize(
    mesh: Mesh,
    openings: tuple[Opening, ...],
    settings: VoxelizeSettings | None = None,
    chosen: Spacing | None = None,
    grid: Grid | None = None,
    closed: Closed | None = None,
    narrowest: Narrowest | None = None,
) -> tuple[Lattice, dict[str, Any]]:
    """Tag the nodes of a lattice that is aligned with LPS x, y, z.

    Parameters
    ----------
    mesh : closed surface, outward normals.
    openings : the openings whose caps the mesh has, by id.
    settings : spacing.
    chosen : the spacing where it has been chosen before.
    grid : where the nodes of a canonical geometry lie.
    closed : branches that are too thin.
    narrowest : of the branches, where the centreline is known; for messages.

    Returns
    -------
    The lattice, and figures of it for the log: node counts, what was taken out, nodes across each opening.

    Raises
    ------
    StageError
        If the surface is not closed, the spacing too coarse for an opening, an opening cut off from the largest part,
        or the lattice too large for the memory.
    """
    require_closed(mesh, openings)
    settings = settings or VoxelizeSettings()
    chosen = chosen or (grid.spacing(settings) if grid else choose_spacing(openings, settings))
    Budget.of(mesh, grid).require(chosen.spacing_mm, lambda fitting: f"Set voxelize.spacing_mm: {fitting:.6g}")
    raster = rasterise(mesh, choose_frame(mesh, chosen.spacing_mm, grid))
    frame = raster.frame
    fluid, removed = without_thin_passages(raster, closed.nodes(frame, raster.enclosed) if closed else None)
    found = links(raster, fluid)
    require_reached(found, openings, frame.spacing_mm, narrowest)
    lattice = tagged(frame, fluid, found, openings)
    count = int(fluid.sum())
    return lattice, {
        "spacing_mm": frame.spacing_mm,
        "lattice_nodes": list(frame.shape[::-1]),
        "fluid_nodes": count,
        "wall_nodes": int((lattice.tag == WALL).sum()),
        "removed_nodes": removed,
        "fluid_volume_over_surface_volume": count * frame.spacing_mm**3 / mesh.volume_mm3(),
        "links_removed_end": int(found.removed.sum()),
        "links_on_surface": found.on_surface,
        "openings": {
            opening.name: {
                "nodes_across": 2 * opening.radius_mm / frame.spacing_mm,
                "links": int((found.opening == opening.id).sum()),
                "link_area_over_area": link_area(found, opening) * frame.spacing_mm**2 / opening.area_mm2,
            }
            for opening in openings
        },
    }


def survey(mesh: Mesh, openings: tuple[Opening, ...], narrowest: Narrowest | None = None) -> Nodes:
    """A vessel on a lattice of `SURVEY_ACROSS` nodes across its narrowest opening or branch, as the solver takes it.

    Parameters
    ----------
    mesh : closed surface, mm, LPS.
    openings : in the order of their ids.
    narrowest : place of the branches; none where they are not known.
    """
    diameter_mm, what = narrowest_mm(openings, narrowest)
    coarse = Spacing(diameter_mm / SURVEY_ACROSS, f"{SURVEY_ACROSS:g} nodes across {what}")
    lattice, _ = voxelize(mesh, openings, chosen=coarse)
    nodes, _ = decompose(lattice, mesh, openings, corners=False)
    return nodes


def require_closed(mesh: Mesh, openings: tuple[Opening, ...]) -> None:
    """Check that the surface is closed, oriented outward, and has the caps of the openings."""
    edges = np.concatenate([mesh.triangles[:, [k, (k + 1) % 3]] for k in range(3)])
    low, high = edges.min(axis=1), edges.max(axis=1)
    edge, rising = low * len(mesh.points_mm) + high, edges[:, 0] == low
    up, down = np.sort(edge[rising]), np.sort(edge[~rising])
    unmatched = 0
    if not np.array_equal(up, down):
        _, number = np.unique(edge, return_inverse=True)
        unmatched = int((np.bincount(number, np.where(rising, 1, -1)) != 0).sum())
    if unmatched:
        raise StageError(
            f"surface: {unmatched} edges do not lie between two triangles; it is not closed, run surface again"
        )
    if (volume := mesh.volume_mm3()) <= 0:
        raise StageError(f"surface: volume {volume:.4g} mm3, its normals point inward; run surface again")
    caps = sorted({int(number) for number in np.unique(mesh.opening)} - {0})
    if caps != [opening.id for opening in openings]:
        raise StageError(
            f"surface has the caps {caps}, but the openings are {[o.id for o in openings]}; run surface again"
        )


def require_reached(
    found: Links, openings: tuple[Opening, ...], spacing_mm: float, narrowest: Narrowest | None = None
) -> None:
    """Check that the fluid has links through every opening.

    Parameters
    ----------
    found : links of the fluid.
    openings : in the order of their ids.
    spacing_mm : for the message.
    narrowest : place of the branches, by which the message names a spacing; none where they are not known.

    Raises
    ------
    StageError
        If one has no link: a vessel on the way to it is too narrow for the spacing.
    """
    least_mm = 2 * narrowest.radius_mm if narrowest else None
    for opening in openings:
        if opening.id not in found.opening:
            what = "is cut off from the largest part of the vessel"
            raise StageError(too_coarse(opening, spacing_mm, what, least_mm))


def link_area(found: Links, opening: Opening) -> float:
    """Area of an opening as its links see it, sum of 6 w_i |c_i . n|, in squared spacings.

    A plane with unit normal n cuts |c_i . n| links of direction i per unit of area, and the sum of 6 w_i (c_i . n)^2
    over the directions to one side of it is 1.
    """
    directions = np.bincount(found.direction[found.opening == opening.id], minlength=Q)
    return float(directions @ (6 * WEIGHTS * np.abs(VELOCITIES @ np.array(opening.normal))))


def _compute(job: Job) -> None:
    settings = parse(SpacingSettings, job.settings, "--settings")
    try:
        _voxelize(job, settings)
    except StageError as error:
        if settings.coarser == 1:
            raise
        raise StageError(
            f"{error}. This lattice is {settings.coarser:.4g} times as coarse as the case's own, as the section"
            " convergence asks: give a smaller convergence.ratio, fewer convergence.spacings, or a finer spacing of the"
            " case"
        ) from None


def _voxelize(job: Job, settings: SpacingSettings) -> None:
    mesh, openings = Mesh.read(job.inputs["surface"]), read_openings(job.inputs["openings"])
    require_closed(mesh, openings)
    grid = read_grid(job.inputs["openings"])
    vessel = _Vessel(mesh, openings, settings, *_read_tree(job, openings, settings))
    chosen = _choose(job, vessel, grid)
    closed = _close(job, vessel, chosen.spacing_mm / settings.coarser)
    lattice, figures = voxelize(mesh, openings, chosen=chosen, grid=grid, closed=closed, narrowest=vessel.narrowest)
    job.facts |= figures
    removed = figures["removed_nodes"]
    job.log.info(
        "%d fluid and %d wall nodes at %.4g mm; taken out: %s",
        figures["fluid_nodes"],
        figures["wall_nodes"],
        figures["spacing_mm"],
        ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in removed.items()),
    )
    unresolved = sum(removed.values()) - removed.get("closed_branches", 0)
    if unresolved > MANY_REMOVED * figures["fluid_nodes"]:
        job.log.warning(
            "%d nodes were taken out, %.2g %% of the fluid: where vessels nearly touch, are one node wide or are cut"
            " off; a smaller voxelize.spacing_mm resolves more of them",
            unresolved,
            100 * unresolved / figures["fluid_nodes"],
        )
    lattice.write(job.outputs["lattice"])


@dataclass(frozen=True)
class _Vessel:
    """What the spacing is chosen for.

    Attributes
    ----------
    mesh, openings, settings : the stage's inputs.
    narrowest, tree : the narrowest place, and the branches with their parts of the flow, where the centreline is known.
    inflow_ml_s : mean flow into the vessel, where it is known.
    """

    mesh: Mesh
    openings: tuple[Opening, ...]
    settings: SpacingSettings
    narrowest: Narrowest | None
    tree: FlowTree | None
    inflow_ml_s: float | None


def _read_tree(
    job: Job, openings: tuple[Opening, ...], settings: SpacingSettings
) -> tuple[Narrowest | None, FlowTree | None, float | None]:
    """What the centreline and the settings of the flow tell of the branches."""
    if "centreline" not in job.inputs:
        return None, None, None
    narrowest = Narrowest.read(job.inputs["centreline"])
    fractions, inflow_ml_s = None, None
    if settings.flow and settings.flow.inlets:
        inflow_ml_s = read_waveforms(openings, settings.flow).mean_ml_s
        outlets = by_opening(openings, "outlet", settings.flow.outlets)
        fractions = flow_fractions(openings, outlets, settings.murray_exponent)
    tree = FlowTree.of(read_rows(job.inputs["centreline"]), openings, settings.murray_exponent, fractions)
    return narrowest, tree if tree.limbs else None, inflow_ml_s


def _choose(job: Job, vessel: _Vessel, grid: Grid | None) -> Spacing:
    """The spacing, with what decided it and what it will cost in the log and the provenance."""
    settings, tree = vessel.settings, vessel.tree
    budget = Budget.of(vessel.mesh, grid, settings.precision, settings.memory_gb)
    chosen = grid.spacing(settings, settings.coarser) if grid else _chosen(vessel, budget)
    job.log.info("spacing %.4g mm: %s", chosen.spacing_mm, chosen.reason)
    if not (tree or grid):
        job.log.info("no centreline is given: the spacing looks at the openings alone, not at what is between them")
    budget.require(chosen.spacing_mm, lambda fitting: _advice(vessel, grid, fitting))
    cost = budget.cost(chosen.spacing_mm)
    job.log.info("forecast: %s", cost.words)
    job.facts |= {"spacing_decided_by": chosen.reason} | cost.record
    if vessel.narrowest:
        job.facts["nodes_across_narrowest_branch"] = vessel.narrowest.across(chosen.spacing_mm)
    return chosen


def _chosen(vessel: _Vessel, budget: Budget) -> Spacing:
    settings, tree, volume_mm3, auto = vessel.settings, vessel.tree, budget.extent.volume_mm3, None
    carrying = tree.carrying(settings.left_out_share) if tree else None
    narrowest = Narrowest(carrying.radius_mm, carrying.place_mm) if carrying else vessel.narrowest
    coarse = cache(lambda: survey(vessel.mesh, vessel.openings, narrowest))
    flow, peak = settings.flow, None
    if flow:
        peak = PeakSpeed.of(vessel.openings, flow, lambda: find_sections(coarse()))
    if tree:
        auto = choose_auto(tree, budget, settings.left_out_share, settings.most_nodes, peak)
    if flow and settings.most_updates and settings.solve:
        from solver.run.walltime import node_updates  # only now: it takes a second

        diameter = (2 * carrying.radius_mm, narrowest.words) if carrying and narrowest else None
        diameter = diameter or narrowest_mm(vessel.openings, narrowest)
        auto = auto or resolving_spacing(*diameter, peak, volume_mm3, settings.most_nodes)
        updates = Updates(coarse().spacing_mm, node_updates(coarse(), settings.solve))
        auto = updates.within(settings.most_updates, auto, coarsest_spacing(*diameter, peak))
    return choose_spacing(vessel.openings, settings, vessel.narrowest, peak, volume_mm3, settings.coarser, auto)


def _advice(vessel: _Vessel, grid: Grid | None, fitting_mm: float) -> str:
    counted = vessel.settings.nodes_across is not None
    if vessel.tree and not grid:
        return advice(vessel.tree, fitting_mm, vessel.inflow_ml_s, counted)
    spacing = f"{fitting_mm:.17g}" if grid else f"{fitting_mm:.6g}"
    return f"Set voxelize: {{spacing_mm: {spacing}{', nodes_across: null' if counted else ''}}}"


def _close(job: Job, vessel: _Vessel, spacing_mm: float) -> Closed | None:
    """Close what is too thin for the case's own spacing and carries next to nothing; tell of all that is too thin."""
    if not vessel.tree:
        return None
    loss = too_thin(vessel.tree, spacing_mm)
    limbs = closed_here(loss, vessel.settings.left_out_share) if "lines" in job.inputs else ()
    for limb, part in loss.stems + loss.bypasses:
        finer = f"set voxelize.spacing_mm to at most {2 * limb.radius_mm / MIN_NODES_ACROSS:.3g}"
        job.log.warning(
            "only %.1f nodes across %s, %s; at least %g are wanted: %s",
            2 * limb.radius_mm / spacing_mm,
            limb.words,
            flow_words(part, vessel.inflow_ml_s),
            MIN_NODES_ACROSS,
            "it is closed" if limb in limbs else finer,
        )
    job.facts["too_thin_branches"] = [
        record | {"closed": record["branch"] in {limb.id for limb in limbs}}
        for record in loss.records(vessel.inflow_ml_s, spacing_mm)
    ]
    return Closed.of(read_branches(job.inputs["lines"]), {limb.id for limb in limbs}) if limbs else None


if __name__ == "__main__":
    run_stage(
        "voxelize",
        __doc__,
        inputs={
            "surface": "closed surface (VTP)",
            "openings": "openings (JSON)",
            "centreline": "branches (JSON of the stage centreline)",
            "lines": "lines of the branches (VTP of the stage centreline)",
        },
        outputs={"lattice": "tagged lattice (VTI)"},
        compute=_compute,
        optional=("centreline", "lines"),
    )
