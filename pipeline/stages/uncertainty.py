# SPDX-License-Identifier: Apache-2.0
"""Bands: the members of a case -> how sure each of its figures is, and what that is due to.

Each member is the case with what is uncertain of it drawn at random, on a coarse lattice. What that changes there is
carried to the figures of the case; the true value is to lie in the band in nine of ten cases. A band knows of the
sources that are named beside it and of no others: not of a wrong vessel, nor of walls that move.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.case.settings.base import parse
from pipeline.case.settings.uncertainty import UncertaintySettings
from pipeline.files.json_file import read_json
from pipeline.files.mesh import Mesh, read_mesh
from pipeline.files.table import write_table
from pipeline.uncertainty.banded_figures import figures_of, with_blur
from pipeline.uncertainty.bands import COVERED, Members, Response, bands, better, parts_of
from pipeline.uncertainty.coarse_spacing import too_coarse
from pipeline.uncertainty.member_file import Member
from pipeline.uncertainty.sources import WORDS, Variable
from pipeline.uncertainty.wall_field import rows_on_wall
from solver.runtime.command_line import run_stage
from solver.runtime.provenance import Job

COLUMNS = ("key", "name", "unit", "value", "low", "high", "deviation", "by", *WORDS)
"""Of the table; the last ones are the parts of the variance that are due to each source."""

LEAST_PART = 0.01
"""Stress below this part of its mean changes by differences in a map, not by ratios."""

Floats = NDArray[np.float64]


def uncertainty(
    settings: UncertaintySettings, members: Sequence[Member], indices: Mapping[str, Any], volume_mm3: float
) -> dict[str, Any]:
    """How sure the figures of a case are.

    Parameters
    ----------
    settings : how much varies.
    members : that without a change first.
    indices : figures of the case, as in ``indices.json``.
    volume_mm3 : of its lumen.

    Returns
    -------
    As it stands in ``uncertainty.json``.
    """
    unchanged, drawn = members[0], members[1:]
    together = _together(unchanged, [each for each in drawn if not each.failed])
    failed = [{"number": each.number, "why": each.failed} for each in members if each.failed]
    found: dict[str, Any] = {
        **settings.model_dump(mode="json"),
        "members": len(drawn),
        "covered": COVERED,
        "failed": failed,
        "wall": unchanged.design["wall"],
        "ratio": unchanged.design["ratio"],
        "nodes_across": unchanged.design["nodes_across"],
        "sources": _sources(unchanged.design),
        "not_varied": _not_varied(settings, unchanged.design, indices),
        "no_bands": _no_bands(unchanged, together, len(drawn)),
        "bands": [],
        "better": None,
    }
    if not found["no_bands"]:
        sacs = {sac["name"]: sac["shear_mean_pa"] for sac in indices["sacs"]}
        parents = {sac["name"]: sac["parent_diameter_mm"] / 2 for sac in indices["sacs"]}
        edge_mm = unchanged.design["wall"].get("edge_mm", 0.0)  # which members of before do not tell
        found["bands"] = bands(with_blur(figures_of(indices, volume_mm3, sacs), parents, edge_mm), together)
        found["better"] = better(found["bands"])
    return found


def _sources(design: Mapping[str, Any]) -> list[str]:
    """Sources that vary, in the order in which a reader is told of them."""
    varied = {each["group"] for each in design["variables"]}
    varied |= ({"wall"} if design["wall"]["rough_mm"] else set()) | ({"spacing"} if design["ratio"] > 1 else set())
    return [group for group in WORDS if group in varied]


def _not_varied(settings: UncertaintySettings, design: Mapping[str, Any], indices: Mapping[str, Any]) -> list[str]:
    """What a reader may miss among the sources: that of which nothing is known, and how to tell of it."""
    sources, found = _sources(design), []
    if "wall" not in sources and settings.wall_sd_mm is None:
        found.append(
            "the place of the wall did not vary: without an image nothing tells how well it is known, and it is often"
            " what figures depend on most; where it may be off, give uncertainty.wall_sd_mm, for instance 0.13"
        )
    outlets = [each["name"] for each in indices["openings"] if each["role"] == "outlet"]
    if len(outlets) > 1 and "outlets" not in sources and settings.outlets_cv:
        found.append(
            "how the flow divides did not vary by itself: an outlet holds a pressure alone; where the parts of the flow"
            " are known, give the outlets a flow_fraction or a windkessel"
        )
    return found


def _no_bands(unchanged: Member, together: Members, count: int) -> str | None:
    """Why there are no bands; none where there are."""
    if unchanged.failed:
        return f"the case could not be computed on the members' lattice: {unchanged.failed}"
    if not together.enough:
        return (
            f"{len(together.drawn)} of {count} members ended, and {together.least} are wanted for"
            f" {len(together.variables)} variables; raise uncertainty.members"
        )
    return None


def _together(unchanged: Member, ended: Sequence[Member]) -> Members:
    return Members(
        tuple(Variable(**each) for each in unchanged.design["variables"]),
        np.array([each.drawn for each in ended]).reshape(len(ended), len(unchanged.drawn)),
        [each.figures for each in ended],
        unchanged.figures,
        float(unchanged.design["ratio"]),
        bool(unchanged.design["wall"]["rough_mm"]),
    )


def maps(surface: Mesh, wall: Mesh, arrays: Mapping[str, NDArray[Any]], members: Sequence[Member]) -> dict[str, Floats]:
    """Standard deviations of what the members have on the wall, without what is due to the spacing.

    Parameters
    ----------
    surface : closed, of the case; the members' vertices are those of its wall.
    wall : of the case, with its arrays.
    arrays : values at its vertices, by name.
    members : that without a change first.

    Returns
    -------
    By name, each (V,) in the unit of the array.
    """
    unchanged, ended = members[0], [each for each in members[1:] if not each.failed]
    rows = rows_on_wall(surface, wall)
    drawn, found = np.stack([each.drawn for each in ended]), {}
    for name in unchanged.arrays:
        before = unchanged.arrays[name][rows].astype(np.float64)
        after = np.stack([each.arrays[name][rows] for each in ended]).astype(np.float64)
        scale = np.ones_like(before)
        if name != "OSI":
            least = LEAST_PART * before.mean()
            scale = arrays[name] / np.maximum(before, least)
        quantity, _, unit = name.partition(" (")
        title = f"{quantity} standard deviation" + (f" ({unit}" if unit else "")
        found[title] = scale * Response.of(drawn, after - before).deviation
    return found


def _rows(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of the table: bands with the part of the variance that is due to each source."""
    return [band | dict.fromkeys(WORDS, 0.0) | parts_of(band) for band in found["bands"]]


def _compute(job: Job) -> None:
    settings = parse(UncertaintySettings, job.settings, "--settings")
    members = sorted((Member.read(path) for path in job.lists["members"]), key=lambda each: each.number)
    surface, indices = Mesh.read(job.inputs["surface"]), read_json(job.inputs["indices"])
    found = uncertainty(settings, members, indices, surface.volume_mm3())
    for each in found["failed"]:
        job.log.warning("warning: member %d failed: %s", each["number"], each["why"])
    if found["no_bands"]:
        job.log.warning("warning: no bands: %s", found["no_bands"])
    elif doubt := too_coarse(found["nodes_across"]):
        job.log.warning("warning: %s", doubt)
    for each in found["not_varied"]:
        job.log.info("note: %s", each)
    for band in found["bands"]:
        job.log.info("%s: %.4g, %.4g to %.4g %s", *(band[key] for key in ("name", "value", "low", "high", "unit")))
    wall, arrays = read_mesh(job.inputs["wall"])
    wall.write(job.outputs["wall-map"], {} if found["no_bands"] else maps(surface, wall, arrays, members))
    job.outputs["bands"].write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    write_table(job.outputs["table"], COLUMNS, _rows(found))


if __name__ == "__main__":
    run_stage(
        "uncertainty",
        __doc__,
        inputs={
            "members": "files of the members (HDF5)",
            "surface": "closed surface of the case, from surface (surface.vtp)",
            "indices": "figures of the case, from postprocess (indices.json)",
            "wall": "its wall, from postprocess (wall.vtp)",
        },
        outputs={
            "bands": "bands of the figures and what they are due to (.json)",
            "table": "the bands, one a row (.csv)",
            "wall-map": "standard deviations on the wall (.vtp)",
        },
        compute=_compute,
        several=("members",),
    )
