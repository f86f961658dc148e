# SPDX-License-Identifier: Apache-2.0
"""Centreline: the tree of the vessel, with lengths, radii, tortuosity and bifurcations, as lines and as a table.

It is found from the closed surface alone, and so in the same way whether that was segmented or given. Lines run from
the centre of one cap to that of another, over bifurcations; radii are those of the largest balls in the vessel.
"""

import json
from typing import Any

from pipeline.case.settings.base import parse
from pipeline.case.settings.geometry import SurfaceSettings
from pipeline.files.mesh import Mesh, read_openings
from pipeline.files.table import write_table
from pipeline.geometry.branches.branch_files import row, write_lines
from pipeline.geometry.branches.tree_tracing import CutOffError, trace_tree
from pipeline.geometry.branches.vessel_tree import Branch, Tree
from pipeline.haemodynamics.blocks import Blocks
from pipeline.haemodynamics.sections import least_section
from pipeline.segmentation.lumen_advice import of_cut_off, record_of
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job


def summary(tree: Tree, surface: Mesh) -> dict[str, Any]:
    """Everything that is known of a tree but its lines: what ``centreline.json`` holds.

    Parameters
    ----------
    tree : the branches.
    surface : that they were found in; their least sections are those of it.
    """
    narrowest, blocks = tree.narrowest, Blocks.of(surface)
    k = narrowest.narrowest
    return {
        "narrowest_radius_mm": float(narrowest.radius_mm[k]),
        "narrowest_place_mm": narrowest.points_mm[k].tolist(),
        "narrowest_branch": narrowest.id,
        "total_length_mm": sum(branch.length_mm for branch in tree.branches),
        "loops": tree.loops,
        "spacing_mm": tree.spacing_mm,
        "warnings": list(tree.warnings),
        "branches": [row(branch) | least_area(branch, blocks) for branch in tree.branches],
        "bifurcations": [
            {
                "name": joint.name,
                "place_mm": joint.place_mm.tolist(),
                "radius_mm": joint.radius_mm,
                "branches": [branch.id for branch in tree.at(joint.name)],
                "angles": [
                    {"branches": [one, other], "angle_deg": angle} for one, other, angle in tree.angles_deg(joint.name)
                ],
            }
            for joint in tree.joints.values()
            if joint.kind == "bifurcation"
        ],
        "ends": [
            {"name": joint.name, "kind": joint.kind, "place_mm": joint.place_mm.tolist(), "radius_mm": joint.radius_mm}
            for joint in tree.joints.values()
            if joint.kind != "bifurcation"
        ],
    }


def least_area(branch: Branch, blocks: Blocks) -> dict[str, float | None]:
    """Area and place of the least section of a branch; none where no plane cuts the wall alone."""
    loop = least_section(blocks, branch)
    x, y, z = (None, None, None) if loop is None else loop.place_mm.tolist()
    area_mm2 = None if loop is None else loop.area_mm2
    return {"min_area_mm2": area_mm2, "min_area_x_mm": x, "min_area_y_mm": y, "min_area_z_mm": z}


def _compute(job: Job) -> None:
    settings = parse(SurfaceSettings, job.settings, "--settings")
    openings = read_openings(job.inputs["openings"])
    surface = Mesh.read(job.inputs["surface"])
    try:
        tree = trace_tree(surface, openings, settings.min_branch_radii, job.log)
    except CutOffError as error:
        if not (explained := of_cut_off(record_of(job.inputs.get("segmentation")))):
            raise
        raise StageError(f"{error.found}. {explained}. {error.advice}") from None
    found = summary(tree, surface)
    for each in found["branches"]:
        job.log.info(
            "branch %(branch)d: %(from)s to %(to)s, %(length_mm).1f mm, radius %(min_radius_mm).2f to"
            " %(max_radius_mm).2f mm",
            each,
        )
    for warning in tree.warnings:
        job.log.warning("warning: %s", warning)
    job.log.info("narrowest: radius %(narrowest_radius_mm).3f mm in branch %(narrowest_branch)d", found)
    write_lines(tree, job.outputs["centreline"])
    write_table(job.outputs["branches"], tuple(found["branches"][0]), found["branches"])
    job.outputs["summary"].write_text(json.dumps(found, indent=2) + "\n")
    job.facts |= {key: found[key] for key in ("narrowest_radius_mm", "total_length_mm", "loops", "spacing_mm")}
    job.facts["branches"] = len(tree.branches)


if __name__ == "__main__":
    run_stage(
        "centreline",
        __doc__,
        inputs={
            "surface": "closed surface (VTP)",
            "openings": "openings (JSON)",
            "segmentation": "what the segmentation of images found, for messages (JSON)",
        },
        outputs={
            "centreline": "lines of the branches, with radii (VTP)",
            "branches": "table of the branches (CSV)",
            "summary": "branches, bifurcations, the narrowest place (JSON)",
        },
        compute=_compute,
        optional=("segmentation",),
    )
