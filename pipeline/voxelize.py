"""Stage 5: the closed surface becomes a lattice of tagged nodes.

A node is fluid if the surface encloses it. Ends of links that cut through the wall from one fluid node to another,
passages one node wide, and parts that no link joins to the largest one are taken out. Fluid nodes with a link through
an opening's cap are INLET or OUTLET; solid nodes behind a link through the wall are WALL.
"""

from typing import Any

import numpy as np

from pipeline.decompose import decompose
from pipeline.geometry.lattice.crossings import rasterise
from pipeline.geometry.lattice.grid import Grid, choose_frame, extent_of, memory_bytes, read_grid
from pipeline.geometry.lattice.links import Links, links
from pipeline.geometry.lattice.narrow import without_narrow
from pipeline.geometry.lattice.spacing import (
    MIN_NODES_ACROSS,
    Narrowest,
    Spacing,
    SpacingSettings,
    bearable_spacing,
    choose_spacing,
    expect,
    narrowest_mm,
    too_coarse,
)
from pipeline.lattice import Lattice, tagged
from pipeline.mesh import Mesh, read_openings
from pipeline.settings.base import parse
from pipeline.settings.geometry import VoxelizeSettings
from solver.d3q19 import VELOCITIES, WEIGHTS, Q
from solver.nodes import WALL, Opening
from solver.sections import Sections, find_sections
from solver.stage import Job, StageError, run_stage

SURVEY_ACROSS = 8.0
"""Nodes across the narrowest diameter that tell its area within a tenth, see tests/test_expected.py."""
MANY_REMOVED = 1e-3
"""Part of the fluid nodes above which what was taken out is worth a warning."""


def voxelize(
    mesh: Mesh,
    openings: tuple[Opening, ...],
    settings: VoxelizeSettings | None = None,
    chosen: Spacing | None = None,
    grid: Grid | None = None,
) -> tuple[Lattice, dict[str, Any]]:
    """Tag the nodes of a lattice that is aligned with LPS x, y, z.

    Parameters
    ----------
    mesh : closed surface, outward normals.
    openings : the openings whose caps the mesh has, by id.
    settings : spacing.
    chosen : the spacing where it has been chosen before.
    grid : where the nodes of a canonical geometry lie.

    Returns
    -------
    The lattice, and figures of it for the log: node counts, what was taken out, nodes across each opening.

    Raises
    ------
    StageError
        If the surface is not closed, the spacing too coarse for an opening, an opening cut off from the largest part,
        or the lattice too large for the memory.
    """
    demand_closed(mesh, openings)
    settings = settings or VoxelizeSettings()
    chosen = chosen or (grid.spacing(settings) if grid else choose_spacing(openings, settings))
    raster = rasterise(mesh, choose_frame(mesh, chosen.spacing_mm, grid))
    frame = raster.frame
    fluid, removed = without_narrow(raster)
    found = links(raster, fluid)
    demand_reached(found, openings, frame.spacing_mm)
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


def survey(mesh: Mesh, openings: tuple[Opening, ...], narrowest: Narrowest | None = None) -> Sections:
    """Sections across a vessel, found as the solver does, on a lattice of `SURVEY_ACROSS` nodes across its narrowest
    opening or branch.
    """
    diameter_mm, what = narrowest_mm(openings, narrowest)
    coarse = Spacing(diameter_mm / SURVEY_ACROSS, f"{SURVEY_ACROSS:g} nodes across {what}")
    lattice, _ = voxelize(mesh, openings, chosen=coarse)
    nodes, _ = decompose(lattice, mesh, openings, corners=False)
    return find_sections(nodes)


def demand_closed(mesh: Mesh, openings: tuple[Opening, ...]) -> None:
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


def demand_reached(found: Links, openings: tuple[Opening, ...], spacing_mm: float) -> None:
    """Check that the fluid has links through every opening."""
    for opening in openings:
        if opening.id not in found.opening:
            raise StageError(too_coarse(opening, spacing_mm, "is cut off from the largest part of the vessel"))


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
    demand_closed(mesh, openings)
    grid = read_grid(job.inputs["openings"])
    chosen = _choose(job, mesh, openings, settings, grid)
    lattice, figures = voxelize(mesh, openings, chosen=chosen, grid=grid)
    job.facts |= figures
    removed = figures["removed_nodes"]
    job.log.info(
        "%d fluid and %d wall nodes at %.4g mm; taken out: %s",
        figures["fluid_nodes"], figures["wall_nodes"], figures["spacing_mm"],
        ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in removed.items()),
    )  # fmt: skip
    if sum(removed.values()) > MANY_REMOVED * figures["fluid_nodes"]:
        job.log.warning(
            "%d nodes were taken out, %.2g %% of the fluid: where vessels nearly touch, are one node wide or are cut"
            " off; a smaller voxelize.spacing_mm resolves more of them",
            sum(removed.values()), 100 * sum(removed.values()) / figures["fluid_nodes"],
        )  # fmt: skip
    lattice.write(job.outputs["lattice"])


def _choose(
    job: Job, mesh: Mesh, openings: tuple[Opening, ...], settings: SpacingSettings, grid: Grid | None
) -> Spacing:
    """The spacing, with what decided it and what it will cost in the log and the provenance."""
    narrowest = Narrowest.read(job.inputs["centreline"]) if "centreline" in job.inputs else None
    bearable = None
    if settings.flow and not grid:
        bearable = bearable_spacing(openings, settings.flow, lambda: survey(mesh, openings, narrowest))
    chosen = (
        grid.spacing(settings, settings.coarser)
        if grid
        else choose_spacing(openings, settings, narrowest, bearable, settings.coarser)
    )
    job.log.info("spacing %.4g mm: %s", chosen.spacing_mm, chosen.reason)
    if not (narrowest or grid):
        job.log.info("no centreline is given: the spacing looks at the openings alone, not at what is between them")
    elif narrowest and (across := narrowest.across(chosen.spacing_mm)) < MIN_NODES_ACROSS:
        job.log.warning(
            "only %.1f nodes across %s; at least %g are wanted: set voxelize.spacing_mm to at most %.3g",
            across, narrowest.words, MIN_NODES_ACROSS, 2 * narrowest.radius_mm / MIN_NODES_ACROSS,
        )  # fmt: skip
    expected = expect(extent_of(mesh, grid), chosen.spacing_mm, settings.precision, settings.memory_gb)
    width, height, depth = choose_frame(mesh, chosen.spacing_mm, grid).shape[::-1]
    job.log.info(
        "forecast: about %d fluid nodes in a lattice of %d x %d x %d; memory %.3g GB here, for the solver %s",
        expected["expected_fluid_nodes"], width, height, depth,
        memory_bytes((depth, height, width), expected["expected_fluid_nodes"]) / 1e9,
        " or ".join(f"{gb:.3g} GB ({precision})" for precision, gb in expected["expected_solver_gb"].items()),
    )  # fmt: skip
    job.facts |= {"spacing_decided_by": chosen.reason} | expected
    if narrowest:
        job.facts["nodes_across_narrowest_branch"] = narrowest.across(chosen.spacing_mm)
    return chosen


if __name__ == "__main__":
    run_stage(
        "voxelize",
        __doc__,
        inputs={
            "surface": "closed surface (VTP)",
            "openings": "openings (JSON)",
            "centreline": "branches (JSON of the stage centreline)",
        },
        outputs={"lattice": "tagged lattice (VTI)"},
        compute=_compute,
        optional=("centreline",),
    )
