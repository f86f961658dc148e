# SPDX-License-Identifier: Apache-2.0
"""Checks of the shape: what the surface lacks of the vessel, and openings that may be none."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.geometry.surface.volumes import loss_in_words, share_lost
from pipeline.haemodynamics import trust
from pipeline.segmentation.point_text import text_mm
from solver.domain.nodes import Opening


def of_shape(quality: Mapping[str, Any], openings: tuple[Opening, ...]) -> list[dict[str, Any]]:
    """Checks of what the surface lacks of the vessel.

    Parameters
    ----------
    quality : of the surface, as in ``openings.json``.
    openings : of it.
    """
    found = _of_closed_ends(quality, openings)
    if "cut_ends" not in quality:  # of a shape by a few numbers
        return found
    share = share_lost(quality)
    found += [trust.check("volume cut off beyond the ends", "%", share, loss_in_words(quality, share) if share else "")]
    found.append(_of_round_ends(quality.get("round_ends", ())))
    if "border" not in quality:  # of a given surface
        return [*found, _of_given_ends(quality)]
    found.append(_of_thin_branches(quality["closed_ends"], openings))
    shaved_mm2 = sum(each["area_mm2"] for each in quality["border"] if not each["opening"])
    words = (
        f"the border of the image cuts {shaved_mm2:.0f} mm2 off the side of the vessel, where the wall is flat now;"
        " take images that hold all of it"
    )
    found.append(trust.check("wall that the image's border cuts", "%", shaved_mm2 / quality["wall_mm2"], words))
    return found


def _of_thin_branches(ends: Sequence[Mapping[str, Any]], openings: tuple[Opening, ...]) -> dict[str, Any]:
    """The check of branches that the image's border cuts, and that are too thin for an opening, by Murray's law."""
    thin = [end for end in ends if "border_radius_mm" in end]
    cubes_mm3 = sum(float(end["border_radius_mm"]) ** 3 for end in thin)
    share = cubes_mm3 / (cubes_mm3 + sum(each.radius_mm**3 for each in openings if each.role == "outlet"))
    shown = "; ".join(f"at {text_mm(end['place_mm'])} mm, radius {end['border_radius_mm']:.2g} mm" for end in thin)
    words = (
        f"the border of the image cuts branches that stay closed, for the image does not resolve them {shown}: by"
        f" Murray's law {share:.0%} of the flow would leave there, and passes through the other outlets now. Take a"
        " finer image, or one that reaches further along the branch; or end the image before the branch leaves"
    )
    return trust.check("flow of branches that the border cuts and that are closed", "%", share, words)


def _of_round_ends(ends: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The check of openings that may be sacs."""
    places = [[round(float(x), 1) for x in end["place_mm"]] for end in ends]
    shown = "; ".join(f"at {text_mm(end['place_mm'])} mm: {end['why']}" for end in ends)
    words = (
        f"the lumen ends round, and as wide as a sac does, where it was opened {shown}. Look at it: if that is a sac,"
        f" or a branch that ends there, keep it closed with surface.closed_mm: {places}, of which leave out what is the"
        " end of a vessel"
    )
    return trust.check("openings that may be sacs", "", float(len(ends)), words)


def _of_given_ends(quality: Mapping[str, Any]) -> dict[str, Any]:
    """The check of ends that a given surface with openings leaves closed."""
    left = [end for end in quality["closed_ends"] if "radius_mm" in end]
    ends = "; ".join(f"at {text_mm(end['place_mm'])} mm, radius {end['radius_mm']:.3g} mm" for end in left)
    places = [[round(float(x), 1) for x in end["place_mm"]] for end in left]
    words = (
        f"the given surface has openings, and is closed at ends of the vessel {ends}: no blood flows there."
        " Cut it off flat, or close it with a flat cap, in the program that made the surface; if it is meant to be"
        f" closed, set surface.closed_mm: {places}"
    )
    return trust.check("ends that the given surface closes", "", float(len(left)), words)


def _of_closed_ends(quality: Mapping[str, Any], openings: tuple[Opening, ...]) -> list[dict[str, Any]]:
    """The check of the widest end that was to be open and that no section can cut; none where there is no such end."""
    uncut = [end for end in quality.get("closed_ends", ()) if "vessel_radius_mm" in end]
    if not uncut:
        return []
    end = max(uncut, key=lambda end: float(end["vessel_radius_mm"]))
    widest_mm = max(opening.radius_mm for opening in openings)
    place = [[round(float(x), 1) for x in end["place_mm"]]]
    repair = (
        "cut it off flat in the program that made the surface"
        if "given_volume_mm3" in quality
        else "repair the mask there (segment.lower, segment.cut_planes), end the image before that place"
        " (filter.region_mm)"
    )
    words = (
        f"the end at {text_mm(end['place_mm'])} mm stays closed, for {end['why']}; the vessel before it has a radius of"
        f" {end['vessel_radius_mm']:.3g} mm, the widest opening {widest_mm:.3g} mm, so that blood may enter through a"
        f" side branch. {_opening_it(end)}{repair}, or, if it is meant to be closed, set surface.closed_mm: {place}"
    )
    name = "width of a closed end over that of the widest opening"
    return [trust.check(name, "", float(end["vessel_radius_mm"]) / widest_mm, words)]


def _opening_it(end: Mapping[str, Any]) -> str:
    """The roundness by which an end is cut, if one was found."""
    if "cut_roundness" not in end:
        return "No lower surface.cut_roundness opens it: "
    return f"Tried, opens it: surface.cut_roundness: {end['cut_roundness']:g}; or "
