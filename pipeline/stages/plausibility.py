# SPDX-License-Identifier: Apache-2.0
"""Plausibility: whether blood, openings, flow and shape are what a patient can have, checked before the run.

What is outside the wide range of :mod:`pipeline.case.physiology` is refused unless the case accepts it; what is
outside the usual one becomes a check that failed, in the report. Postprocess adds what only the run tells: pressure
drops and wall shear stress. Canonical geometries hold any fluid and are not judged.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import pi, sqrt
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from pipeline.case.physiology import FLOW_SLIPS, LENGTH_SLIPS, LIMITS, TIME_SLIPS, Given, Quantity, Vessel
from pipeline.case.range_checks import Found, checks, of_blood, require
from pipeline.case.settings.base import Positive, Section, parse
from pipeline.case.settings.flow import InletSettings, OutletSettings
from pipeline.files.mesh import read_openings, read_quality
from pipeline.geometry.branches.branch_files import read_rows
from pipeline.geometry.branches.shares import FlowTree, Limb
from pipeline.haemodynamics import trust
from pipeline.haemodynamics.flow_checks import CARRIES
from pipeline.haemodynamics.shape_checks import of_shape
from pipeline.segmentation.point_text import text_mm
from solver.boundary.waveform import Inflow, by_opening, read_inflow
from solver.boundary.windkessel import flow_fractions
from solver.domain.nodes import Opening
from solver.run.forecast import rounded_down
from solver.runtime.command_line import end_process, run_stage
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job

RADIUS_KEYS = {
    "dicom": "input.dicom (distances of pixels and slices)",
    "volume": "input.volume (spacing in its header)",
    "mask": "input.mask (spacing in its header)",
    "surface": "input.surface_unit",
    "phantom": "input.phantom",
}
"""What the size of a vessel comes from, by the key that its case enters with."""

SEGMENTED = ("dicom", "volume", "phantom")
"""Entries whose mask the case file makes."""


class PlausibilityInput(Section):
    """What the command line takes: how the case enters, what it accepts, its blood and its inflow."""

    entry: Literal["dicom", "volume", "mask", "surface", "phantom"]
    vessel: Vessel | None = None
    accept: tuple[Quantity, ...] = ()
    viscosity_pa_s: Positive = Field(description="the least in arteries")
    newtonian: bool = True
    density_kg_m3: Positive
    inlets: dict[str, InletSettings]
    coupled: bool = Field(False, description="whether a network says what flows through them")
    outlets: dict[str, OutletSettings] = Field(default_factory=lambda: {"*": OutletSettings()})
    murray_exponent: float = 3.0


def of_inlets(openings: tuple[Opening, ...], settings: PlausibilityInput) -> list[Found]:
    """Radius, flow per area, Reynolds and Womersley number of each inlet.

    The flow per area is Q/A of the mean flow Q, the Reynolds number 2 R max|Q|/(A nu), the Womersley number
    R sqrt(2 pi/(T nu)) by the period T of the waveform; nu is the least kinematic viscosity.

    Raises
    ------
    StageError
        If the settings do not fit the openings, or a waveform cannot be read.
    """
    entries = by_opening(openings, "inlet", settings.inlets)
    found = []
    for opening in openings:
        if opening.role == "inlet":
            name = opening.name if opening.name in settings.inlets else "*"
            found += _of_inlet(opening, name, entries[opening.name], settings)
    return found


def _of_inlet(opening: Opening, name: str, entry: InletSettings, settings: PlausibilityInput) -> list[Found]:
    inflow, where = read_inflow(entry), f" (opening {opening.name})"
    kinematic = settings.viscosity_pa_s / settings.density_kg_m3
    given = entry.flow_ml_s is not None
    key = _key_of_flow(name, "flow_ml_s" if given else "waveform", settings)
    flow = Given(key, inflow.mean_ml_s, "mL/s", () if settings.coupled else FLOW_SLIPS, settable=given)
    size = Given(RADIUS_KEYS[settings.entry], opening.radius_mm, "mm", LENGTH_SLIPS)
    radius_m = 1e-3 * opening.radius_mm
    mean_m_s = inflow.mean_ml_s / opening.area_mm2
    speed = Found("flow_per_area", mean_m_s, flow, where, first=_size_first(mean_m_s, opening.radius_mm, settings))
    # a flow whose speed is usual is no slip, whatever the Reynolds number: that is of the blood then
    usual = not speed.outside(LIMITS["flow_per_area"].of(settings.vessel).usual)
    found = [
        Found("inlet_radius", opening.radius_mm, size, where),
        speed,
        Found(
            "reynolds",
            2 * radius_m * _peak_ml_s(inflow) / opening.area_mm2 / kinematic,
            replace(flow, slips=()) if usual else flow,
            where,
        ),
    ]
    if inflow.period_s:
        key = _key_of_flow(name, "waveform, column time_s", settings)
        beat = Given(key, inflow.period_s, "s", () if settings.coupled else TIME_SLIPS, power=-0.5)
        found.append(Found("womersley", radius_m * sqrt(2 * pi / (inflow.period_s * kinematic)), beat, where))
    return found


def _key_of_flow(name: str, key: str, settings: PlausibilityInput) -> str:
    """What the flow through an inlet comes from."""
    return f"coupling.inlets.{name}" if settings.coupled else f"solve.inlets.{name}.{key}"


def _size_first(mean_m_s: float, radius_mm: float, settings: PlausibilityInput) -> str:
    """A question after the size of the vessel, where a slip by a factor of 10 explains the speed, too."""
    speeds, radii = (LIMITS[quantity].of(settings.vessel) for quantity in ("flow_per_area", "inlet_radius"))
    if speeds.usual[0] <= mean_m_s <= speeds.usual[1]:
        return ""
    of_surface = settings.entry == "surface"
    for factor, words, unit in ((10.0, "large (cm in place of mm)", "cm"), (0.1, "small (mm in place of cm)", "mm")):
        speed, radius = mean_m_s / factor**2, factor * radius_mm
        if speeds.usual[0] <= speed <= speeds.usual[1] and radii.usual[0] <= radius <= radii.usual[1]:
            return (
                f"is the vessel's size right? {RADIUS_KEYS[settings.entry]}: {f'{unit}, ' if of_surface else ''}10"
                f" times as {words}, the radius of the"
                f" opening would be {radius:.3g} mm, not {radius_mm:.3g} mm, and the speed {speed:.3g} m/s; correct"
                " that first. If the size is right: "
            )
    return ""


def of_branches(
    rows: Sequence[Mapping[str, Any]], openings: tuple[Opening, ...], settings: PlausibilityInput
) -> list[Found]:
    """The largest mean speed Q/A at the narrowest place of a branch, A its least section, Q its part of the mean flow.

    Outlets have the parts of the flow that are set, the others share the rest by Murray's law. Branches with less than
    `CARRIES` of the inflow are not looked at.

    Parameters
    ----------
    rows : of the branches, as in ``centreline.json``.
    openings : of the vessel.
    settings : inflow, outlets and Murray's exponent.

    Raises
    ------
    StageError
        If the settings do not fit the openings, or a waveform cannot be read.
    """
    entries = by_opening(openings, "inlet", settings.inlets)
    inflow_ml_s = sum(read_inflow(entry).mean_ml_s for entry in entries.values())
    outlets = by_opening(openings, "outlet", settings.outlets)
    fractions = flow_fractions(openings, outlets, settings.murray_exponent) if outlets else None
    tree = FlowTree.of(rows, openings, settings.murray_exponent, fractions)
    by_id = {int(row["branch"]): row for row in rows}
    carrying = [limb for limb in tree.limbs if tree.flow[limb.id] >= CARRIES]
    narrow = {limb: least for limb in carrying if (least := _least_area(limb, by_id[limb.id], openings))}
    if not narrow:
        return []
    limb = max(narrow, key=lambda limb: tree.flow[limb.id] / narrow[limb][0])
    (area_mm2, place_mm), share = narrow[limb], tree.flow[limb.id]
    speed = share * inflow_ml_s / area_mm2
    name = next(iter(settings.inlets)) if len(settings.inlets) == 1 else "NAME"
    key = _key_of_flow(name, "flow_ml_s", settings)
    where = (
        f" (branch {limb.id}, {limb.start} to {limb.stop}, {2 * sqrt(area_mm2 / pi):.3g} mm across at"
        f" {text_mm(place_mm)} mm, through which {share * inflow_ml_s:.3g} of {inflow_ml_s:.4g} mL/s pass by"
        " Murray's law)"
    )
    return [Found("narrowest_speed", speed, Given(key, inflow_ml_s, "mL/s", ()), where, _thinner(speed, key, settings))]


Place = tuple[float, float, float]


def _least_area(limb: Limb, row: Mapping[str, Any], openings: tuple[Opening, ...]) -> tuple[float, Place] | None:
    """Area, mm2, and place of the least section of a branch, the openings at its ends among them."""
    found = [(each.area_mm2, each.centre_mm) for each in openings if each.name in (limb.start, limb.stop)]
    if row.get("min_area_mm2"):
        x, y, z = (float(row[f"min_area_{axis}_mm"]) for axis in "xyz")
        found.append((float(row["min_area_mm2"]), (x, y, z)))
    return min(found, default=None)


def _thinner(speed: float, key: str, settings: PlausibilityInput) -> str:
    """What helps where blood would go too fast: a wider vessel where its mask is too thin, or less flow."""
    repair = "lower segment.lower, or give a finer image" if settings.entry in SEGMENTED else "repair it there"
    usual = LIMITS["narrowest_speed"].of(settings.vessel).usual[1]
    least = "less of it through all inlets"
    if settings.coupled:
        least = "less of it, as of another segment or of a network that is fitted to the patient by coupling.edits,"
    elif len(settings.inlets) == 1:
        (entry,) = settings.inlets.values()
        least = f"at most {key}: {rounded_down(read_inflow(entry).mean_ml_s * usual / speed):.3g}"
    given = "surface" if settings.entry == "surface" else "mask"
    return (
        f"look at the place: if the {given} is thinner there than the vessel, {repair}; if it is not, the flow is too"
        f" large for it, and {least} is usual."
    )


def _peak_ml_s(inflow: Inflow) -> float:
    return max(inflow.peak_ml_s, -inflow.minimum_ml_s)


def of_lumen(segmentation: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Checks of a lumen that may hold more or less than the vessel; none where it did not come from an image.

    Parameters
    ----------
    segmentation : as in ``segmentation.json``.
    """
    if "doubts" not in segmentation:
        return [*_of_labels(segmentation), *_of_islands(segmentation)]
    doubts, edge = segmentation["doubts"], segmentation.get("local_edge") or {"change": 0.0, "words": ""}
    places = "; ".join(f"at {text_mm(doubt['mm'])} mm: {doubt['what']}" for doubt in doubts)
    words = (
        f"the mask may have left the vessel {places}. Look at segmentation.html there: if it has, part it"
        " (segment.cut_planes, segment.least_radius_mm) or narrow the region (filter); if all of it is vessel, give a"
        f" seed behind that place{edge.get('fades', '')}"  # what ends dimly looks like another vessel
    )
    return [
        trust.check("volume behind where two lumens touch", "%", *_share(segmentation, "touching_lumens")),
        trust.check("part of the mask of another brightness", "%", *_share(segmentation, "other_brightness")),
        trust.check("calcium or metal at the wall, of the mask", "%", *_share(segmentation, "bright_wall")),
        trust.check("vessel with something bright in its wall", "%", *_share(segmentation, "bright_rim")),
        trust.check("middle of the vessel at the image's brightest value", "%", *_share(segmentation, "cut_off")),
        trust.check("volume that one threshold misses", "%", abs(edge["change"]), edge["words"]),
        trust.check("volume that the levels near each place moved", "%", *_share(segmentation, "moved_by_place")),
        trust.check("volume that the threshold misses by one level", "%", *_share(segmentation, "off_the_edge")),
        trust.check("volume that a curve of greys may change", "%", *_share(segmentation, "greys")),
        trust.check("lumen of dark blood, read inverted", "", *_share(segmentation, "dark_blood")),
        trust.check("volume that a wall between markers loses", "%", *_share(segmentation, "between_markers")),
        trust.check("volume that the blur leaves open", "%", *_share(segmentation, "left_open")),
        trust.check("wall under a layer of medium brightness", "%", *_share(edge, "layer")),
        trust.check("vessel that goes on more dimly, of the mask", "%", *_share(edge, "beyond")),
        trust.check("vessel that goes on beyond the region, of the mask", "%", *_share(segmentation, "beyond_region")),
        trust.check("vessel that fades away, of the mask", "%", *_share(segmentation, "faint_ends")),
        trust.check("places where the mask may have left the vessel", "", float(len(doubts)), words),
        trust.check("volume behind a dark sheet in the lumen", "%", *_share(segmentation, "dark_sheet")),
        trust.check("volume behind a sheet that is dark to one side", "%", *_share(segmentation, "one_sided_sheet")),
        trust.check("volume beyond an end, in line with it", "%", *_share(segmentation, "beyond_ends")),
        trust.check("volume behind a dim junction, of the mask", "%", *_share(segmentation, "dim_junction")),
        trust.check("volume as bright as the lumen, left out of it", "%", *_share(segmentation, "parted")),
        *_of_joined(segmentation.get("gaps_joined", ())),
        *_of_parted(segmentation),
        trust.check("vessel that darkens towards its wall", "%", *_share(segmentation, "dark_rim")),
        trust.check("brightness that the vessel lacks within its wall", "%", *_share(segmentation, "dark_within")),
        trust.check("volume as bright as the threshold, with no wall", "%", *_share(segmentation, "undecided")),
    ]


def _of_labels(segmentation: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The check of labels in which a given mask goes on; none where it has one label alone."""
    if "goes_on_in" not in segmentation:
        return []
    further = segmentation["goes_on_in"]
    chosen = segmentation["segment"] if isinstance(segmentation["segment"], list) else [segmentation["segment"]]
    words = (
        f"the vessel of input.mask goes on in its segment {', '.join(map(str, further))}, across its section, and is"
        f" cut off there. To take them together, input.mask_segment: {sorted(set(chosen) | set(further))}; if it is"
        " meant to end there, look at the openings"
    )
    return [trust.check("segments of the mask in which the vessel goes on", "", float(len(further)), words)]


def _of_islands(segmentation: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The check of parts of a given mask that were left out; none of a mask that is not given."""
    if "specks_removed_voxels" not in segmentation:
        return []
    share = segmentation["specks_removed_voxels"] / (
        segmentation["specks_removed_voxels"] + segmentation["given_voxels"]
    )
    words = (
        f"{share:.1%} of the given mask lie apart from its largest part and were left out (input.mask_fill). Where they"
        " are vessel, join them to it in the program that made the mask"
    )
    return [trust.check("parts of the given mask that were left out", "%", share, words)]


def _share(segmentation: Mapping[str, Any], key: str) -> tuple[float, str]:
    """Share of the mask that a record of the segmentation tells of, and its words; none without one."""
    found = segmentation.get(key) or {"share": 0.0, "words": ""}
    return found["share"], found["words"]


def _of_joined(joined: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The check of gaps that the user had joined; none where there are none."""
    if not joined:
        return []
    places = "; ".join(f"{each['length_mm']:.2g} mm long at {text_mm(each['mm'])} mm" for each in joined)
    words = (
        f"two parts of the vessel were joined by a lumen one to two voxels across (segment.gaps: bridge), {places}. How"
        " wide the vessel is there, the image does not tell: what flows through, and the pressure drop, are those of"
        " that width. Give a finer image, or correct lumen.nrrd there and give it as input.mask"
    )
    return [trust.check("gaps of the lumen that are joined", "", float(len(joined)), words)]


def _of_parted(segmentation: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The check of what was left out behind dark sheets; none where nothing was."""
    if not (behind := segmentation.get("voxels_behind_sheets", 0)):
        return []
    words = "the lumen ends at a flap that the image shows in part (segment.dark_sheets: part) and may be a tenth"
    words += " off. Look at segmentation.html along it; to be sure, give lumen.nrrd, corrected there, as input.mask"
    return [trust.check("volume left out behind dark sheets", "%", behind / (behind + segmentation["voxels"]), words)]


def plausibility(
    openings: tuple[Opening, ...], settings: PlausibilityInput, rows: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Judge blood, openings and flow.

    Parameters
    ----------
    openings : of the vessel.
    settings : of the case.
    rows : of the branches; none where they are not known.

    Returns
    -------
    Vessel, what the case accepts, and checks: what stands in ``plausibility.json``.

    Raises
    ------
    StageError
        One line for each value that no patient has.
    """
    found = of_blood(settings.viscosity_pa_s, settings.density_kg_m3, settings.newtonian)
    found += of_inlets(openings, settings)
    found += of_branches(rows, openings, settings) if rows else []
    require(found, settings.vessel, settings.accept)
    return {"vessel": settings.vessel, "accept": list(settings.accept), "checks": checks(found, settings.vessel)}


def _compute(job: Job) -> None:
    settings = parse(PlausibilityInput, job.settings, "--settings")
    openings = read_openings(job.inputs["openings"])
    rows = read_rows(job.inputs["centreline"]) if "centreline" in job.inputs else ()
    judged = plausibility(openings, settings, rows)
    judged["checks"] += of_shape(read_quality(job.inputs["openings"]), openings)
    if "segmentation" in job.inputs:
        judged["checks"] += of_lumen(json.loads(job.inputs["segmentation"].read_text(encoding="utf-8")))
    for check in judged["checks"]:
        if not check["passed"]:
            job.log.warning("warning: %s", check["advice"])
    job.outputs["plausibility"].write_text(json.dumps(judged, indent=2) + "\n", encoding="utf-8")


def check(words: list[str]) -> str | None:
    """What no patient has, as a message that is also left in a log; none where nothing is refused.

    It stands before the solver, whose results it does not change, and makes no output.
    """
    parser = argparse.ArgumentParser(prog="python -m pipeline.stages.plausibility --check", description=check.__doc__)
    parser.add_argument("--openings", type=Path, required=True, help="the openings, from surface (openings.json)")
    parser.add_argument("--centreline", type=Path, help="the branches, from centreline (centreline.json)")
    parser.add_argument("--settings", required=True, help="what is judged, as JSON")
    parser.add_argument("--log", type=Path, required=True, help="log of the stage that is not begun")
    given = parser.parse_args(words)
    try:
        settings = parse(PlausibilityInput, json.loads(given.settings), "--settings")
        rows = read_rows(given.centreline) if given.centreline else ()
        plausibility(read_openings(given.openings), settings, rows)
    except StageError as error:
        message = f"plausibility: error: {error}"
        given.log.write_text(message + "\n", encoding="utf-8")
        return message
    return None


if __name__ == "__main__":
    if "--check" in sys.argv:
        end_process(check([word for word in sys.argv[1:] if word != "--check"]))
    run_stage(
        "plausibility",
        __doc__,
        inputs={
            "openings": "the openings, from surface (openings.json)",
            "segmentation": "how the lumen was found, from segment (segmentation.json)",
            "centreline": "branches of the vessel, from centreline (centreline.json)",
        },
        outputs={"plausibility": "checks of blood, openings and flow (JSON)"},
        compute=_compute,
        optional=("segmentation", "centreline"),
    )
