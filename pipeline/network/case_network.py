# SPDX-License-Identifier: Apache-2.0
"""The network of a case: its file with the edits of the file and of the case, and places that the case names in it."""

from collections.abc import Iterable
from pathlib import Path

from pipeline.case.settings.tree import Site, TreeSettings
from pipeline.network.checks import members, near_names
from pipeline.network.network_file import Network
from pipeline.network.reading import edited_network
from pipeline.network.schematic import side_of
from solver.runtime.errors import StageError


def network_of_case(path: Path, settings: TreeSettings, source: str) -> tuple[Network, list[str]]:
    """The network that a case computes, and a line for each edit.

    Parameters
    ----------
    path : of the network's file.
    settings : section ``tree`` of the case.
    source : where these come from, for messages.

    Raises
    ------
    StageError
        One line a mistake, each with file, key, value and remedy.
    """
    network, lines = edited_network(path, settings.edits, source)
    for number, site in enumerate(settings.sites):
        if site.segment not in network.segments:
            near = near_names(site.segment, network.segments)
            raise StageError(
                f"{source}: sites.{number}.segment = {site.segment!r}: the network has no such segment after its"
                f" edits{near}; correct it"
            )
    return network, lines


def waveform_files(network: Network) -> list[str]:
    """Files of waveforms that a network names."""
    openings = [*network.inlets.values(), *network.terminals.values()]
    keys = ("flow_waveform", "pressure_waveform")
    found = [getattr(opening, key, None) for opening in openings for key in keys]
    return sorted({file for file in found if file})


def fitting(network: Network, patterns: Iterable[str]) -> list[str]:
    """Segments that any of several patterns, or names of groups, fits; those of an earlier one first."""
    wanted = [name for each in patterns for name in network.groups.get(each, (each,))]
    return list(dict.fromkeys(name for each in wanted for name in members([each], network)))


def by_side(names: Iterable[str]) -> dict[str, list[str]]:
    """Names of segments by ``R``, ``L``, or nothing where they tell no side."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(side_of(name), []).append(name)
    return found


def chosen_sites(network: Network, settings: TreeSettings) -> list[Site]:
    """The places whose waveforms are told: those that the case names, or else the inlet, and the middles of what fits
    the landmarks, of the right side where there are two; or else both ends and the middle of the first segment.
    """
    if settings.sites:
        return list(settings.sites)
    inlet = next(iter(network.inlets))
    first = next(name for name, segment in network.segments.items() if inlet in segment.nodes)
    at_heart = Site(segment=first, at=0.0 if network.segments[first].nodes[0] == inlet else 1.0)
    landmarks = settings.landmarks
    chosen = [at_heart]
    for patterns, at in (
        (landmarks.carotid, 0.5),
        (landmarks.brachial, 0.5),
        (landmarks.femoral, 0.5),
        (landmarks.ankle, 1.0),
    ):
        sides = by_side(fitting(network, patterns))
        if found := next((sides[side] for side in ("R", "L", "") if side in sides), None):
            chosen.append(Site(segment=found[0], at=at))
    if len(chosen) == 1:
        chosen += [Site(segment=first, at=0.5), Site(segment=first, at=1.0 - at_heart.at)]
    return chosen
