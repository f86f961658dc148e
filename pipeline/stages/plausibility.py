# SPDX-License-Identifier: Apache-2.0
"""Plausibility: whether blood, openings, flow and shape are what a patient can have, checked before the run.

What is outside the wide range of :mod:`pipeline.case.physiology` is refused unless the case accepts it; what is
outside the usual one becomes a check that failed, in the report. Postprocess adds what only the run tells: pressure
drops and wall shear stress. Canonical geometries hold any fluid and are not judged.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from math import pi, sqrt
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from pipeline.case.limits import Found, checks, of_blood, require
from pipeline.case.physiology import FLOW_SLIPS, LENGTH_SLIPS, LIMITS, TIME_SLIPS, Given, Quantity, Vessel
from pipeline.case.settings.base import Positive, Section, parse
from pipeline.case.settings.flow import InletSettings
from pipeline.files.mesh import read_openings, read_quality
from pipeline.geometry.surface.volumes import loss_in_words, share_lost
from pipeline.haemodynamics import trust
from pipeline.segmentation.seeds import text_mm
from solver.boundary.waveform import Inflow, by_opening, read_inflow
from solver.domain.nodes import Opening
from solver.runtime.command_line import run_stage
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


class PlausibilityInput(Section):
    """What the command line takes: how the case enters, what it accepts, its blood and its inflow."""

    entry: Literal["dicom", "volume", "mask", "surface", "phantom"]
    vessel: Vessel | None = None
    accept: tuple[Quantity, ...] = ()
    viscosity_pa_s: Positive = Field(description="the least in arteries")
    newtonian: bool = True
    density_kg_m3: Positive
    inlets: dict[str, InletSettings]


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
    key = f"solve.inlets.{name}"
    scaled_by = "waveform" if entry.flow_ml_s is None else "flow_ml_s"
    given = entry.flow_ml_s is not None
    flow = Given(f"{key}.{scaled_by}", inflow.mean_ml_s, "mL/s", FLOW_SLIPS, settable=given)
    size = Given(RADIUS_KEYS[settings.entry], opening.radius_mm, "mm", LENGTH_SLIPS)
    radius_m = 1e-3 * opening.radius_mm
    speed = Found("flow_per_area", inflow.mean_ml_s / opening.area_mm2, flow, where)
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
        beat = Given(f"{key}.waveform, column time_s", inflow.period_s, "s", TIME_SLIPS, power=-0.5)
        found.append(Found("womersley", radius_m * sqrt(2 * pi / (inflow.period_s * kinematic)), beat, where))
    return found


def _peak_ml_s(inflow: Inflow) -> float:
    return max(inflow.peak_ml_s, -inflow.minimum_ml_s)


def of_shape(quality: Mapping[str, Any], openings: tuple[Opening, ...]) -> list[dict[str, Any]]:
    """Checks of what the surface lacks of the vessel.

    Parameters
    ----------
    quality : of the surface, as in ``openings.json``.
    openings : of it.
    """
    found = _of_closed_ends(quality, openings)
    if "cut_ends" not in quality:  # of a given surface
        return found
    share = share_lost(quality)
    found += [trust.check("volume cut off beyond the ends", "%", share, loss_in_words(quality, share) if share else "")]
    shaved_mm2 = sum(each["area_mm2"] for each in quality["border"] if not each["opening"])
    words = (
        f"the border of the image cuts {shaved_mm2:.0f} mm2 off the side of the vessel, where the wall is flat now;"
        " take images that hold all of it"
    )
    found.append(trust.check("wall that the image's border cuts", "%", shaved_mm2 / quality["wall_mm2"], words))
    return found


def _of_closed_ends(quality: Mapping[str, Any], openings: tuple[Opening, ...]) -> list[dict[str, Any]]:
    """The check of the widest end that was to be open and that no section can cut; none where there is no such end."""
    uncut = [end for end in quality.get("closed_ends", ()) if "vessel_radius_mm" in end]
    if not uncut:
        return []
    end = max(uncut, key=lambda end: float(end["vessel_radius_mm"]))
    widest_mm = max(opening.radius_mm for opening in openings)
    words = (
        f"the end at {text_mm(end['place_mm'])} mm stays closed, for {end['why']}; the vessel before it has a radius of"
        f" {end['vessel_radius_mm']:.3g} mm, the widest opening {widest_mm:.3g} mm, so that blood may enter through a"
        " side branch. Lower surface.cut_roundness, repair the mask there (segment.lower, segment.cut_planes), or end"
        " the image before that place (filter.region_mm)"
    )
    name = "width of a closed end over that of the widest opening"
    return [trust.check(name, "", float(end["vessel_radius_mm"]) / widest_mm, words)]


def of_lumen(segmentation: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The check of a lumen that may have left the vessel; none where it did not come from an image.

    Parameters
    ----------
    segmentation : as in ``segmentation.json``.
    """
    if "doubts" not in segmentation:
        return []
    doubts = segmentation["doubts"]
    places = "; ".join(f"at {text_mm(doubt['mm'])} mm: {doubt['what']}" for doubt in doubts)
    words = (
        f"the mask may have left the vessel {places}. Look at segmentation.html there: if it has, part it"
        " (segment.cut_planes, segment.least_radius_mm) or narrow the region (filter); if all of it is vessel, give a"
        " seed behind that place"
    )
    return [trust.check("places where the mask may have left the vessel", "", float(len(doubts)), words)]


def plausibility(openings: tuple[Opening, ...], settings: PlausibilityInput) -> dict[str, Any]:
    """Judge blood, openings and flow.

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
    require(found, settings.vessel, settings.accept)
    return {"vessel": settings.vessel, "accept": list(settings.accept), "checks": checks(found, settings.vessel)}


def _compute(job: Job) -> None:
    settings = parse(PlausibilityInput, job.settings, "--settings")
    openings = read_openings(job.inputs["openings"])
    judged = plausibility(openings, settings)
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
    parser.add_argument("--settings", required=True, help="what is judged, as JSON")
    parser.add_argument("--log", type=Path, required=True, help="log of the stage that is not begun")
    given = parser.parse_args(words)
    try:
        settings = parse(PlausibilityInput, json.loads(given.settings), "--settings")
        plausibility(read_openings(given.openings), settings)
    except StageError as error:
        message = f"plausibility: error: {error}"
        given.log.write_text(message + "\n", encoding="utf-8")
        return message
    return None


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(check([word for word in sys.argv[1:] if word != "--check"]))
    run_stage(
        "plausibility",
        __doc__,
        inputs={
            "openings": "the openings, from surface (openings.json)",
            "segmentation": "how the lumen was found, from segment (segmentation.json)",
        },
        outputs={"plausibility": "checks of blood, openings and flow (JSON)"},
        compute=_compute,
        optional=("segmentation",),
    )
