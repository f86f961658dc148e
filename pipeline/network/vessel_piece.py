# SPDX-License-Identifier: Apache-2.0
"""The piece of a network that a vessel in three dimensions replaces: where its openings are, and what lies inside."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise

from pipeline.case.settings.coupling import CouplingSettings, Place
from pipeline.network.checks import near_names
from pipeline.network.cutting import piece
from pipeline.network.edits import with_pieces
from pipeline.network.network_file import Network, Segment
from solver.runtime.errors import StageError

Lengths = Mapping[frozenset[str], float]
"""Way between each pair of openings of the vessel, mm, by both names."""


@dataclass(frozen=True)
class Meeting:
    """Where an opening of the vessel meets the network.

    Attributes
    ----------
    opening : its name.
    segment : of the network, as it was before it was cut.
    way_mm : from the segment's start.
    length_mm : of the segment.
    """

    opening: str
    segment: str
    way_mm: float
    length_mm: float

    @property
    def at(self) -> float:
        """Place, as a part of the segment's length."""
        return self.way_mm / self.length_mm

    @property
    def node(self) -> str:
        """Name of the node that is made there."""
        return f"cap.{self.opening}"


@dataclass(frozen=True)
class Piece:
    """A network cut where a vessel meets it.

    Attributes
    ----------
    network : whole, with a node at each opening of the vessel.
    meetings : where these are, inlets first.
    inside : names of the segments that the vessel replaces.
    """

    network: Network
    meetings: tuple[Meeting, ...]
    inside: frozenset[str]

    @property
    def length_mm(self) -> float:
        """Of all segments inside."""
        return sum(self.network.segments[name].length_mm for name in self.inside)


def piece_of(network: Network, settings: CouplingSettings, lengths: Lengths) -> Piece:
    """Cut a network where the openings of a vessel are.

    Parameters
    ----------
    network : sound, with its edits applied.
    settings : section ``coupling`` of the case.
    lengths : of the vessel.

    Raises
    ------
    StageError
        If a segment is unknown, a place lies outside of it or too near to its ends, it does not follow from the vessel,
        or the openings do not cut one piece without inlets and terminals out of the network.
    """
    require_segments(network, settings, "coupling")
    if settings.replaces:
        meetings = _of_one(network, settings, settings.replaces, lengths)
    else:
        meetings = _of_several(network, settings, lengths)
    for meeting in meetings:
        _require_inside(meeting, settings.spacing_mm)
    cut = _cut(network, meetings)
    return Piece(cut, meetings, _inside(cut, meetings))


def require_segments(network: Network, settings: CouplingSettings, source: str) -> None:
    """Check that a network has the segments that a case names.

    Parameters
    ----------
    network : with its edits applied.
    settings : section ``coupling`` of the case.
    source : where these come from, for the message.

    Raises
    ------
    StageError
        If one is unknown.
    """
    for name in dict.fromkeys(filter(None, (settings.replaces, *(_segment(cap) for cap in settings.caps.values())))):
        if name not in network.segments:
            near = near_names(name, network.segments)
            raise StageError(f"{source}: the network has no segment {name!r} after its edits{near}; correct it")


def _segment(cap: object) -> str | None:
    return cap.segment if isinstance(cap, Place) else None


def _of_one(network: Network, settings: CouplingSettings, name: str, lengths: Lengths) -> tuple[Meeting, ...]:
    """Both openings of a vessel that replaces a piece of one segment as long as itself."""
    segment = network.segments[name]
    half_mm, whole_mm = 0.5 * lengths[frozenset(settings.caps)], segment.length_mm
    places = {"proximal": settings.at * whole_mm - half_mm, "distal": settings.at * whole_mm + half_mm}
    if places["proximal"] <= 0 or places["distal"] >= whole_mm:
        raise StageError(
            f"coupling.replaces = {name!r}: the vessel is {2 * half_mm:.4g} mm long between its"
            f" openings, which does not lie within the segment's {segment.length_mm:.4g} mm around at ="
            f" {settings.at:g}; move it with at, replace a longer segment, or give a segment for each opening"
        )
    return tuple(Meeting(opening, name, places[str(cap)], whole_mm) for opening, cap in settings.caps.items())


def _of_several(network: Network, settings: CouplingSettings, lengths: Lengths) -> tuple[Meeting, ...]:
    """Openings that have a segment each, at a place that is given or follows from the vessel's own branches."""
    places = {opening: cap for opening, cap in settings.caps.items() if isinstance(cap, Place)}
    free = {opening: cap for opening, cap in places.items() if cap.from_start_mm is None and cap.from_end_mm is None}
    arms = _arms(network, free, lengths) if free else {}
    found = []
    for opening, cap in places.items():
        segment = network.segments[cap.segment]
        if opening in arms:
            fork, arm_mm = arms[opening]
            way_mm = arm_mm if segment.nodes[0] == fork else segment.length_mm - arm_mm
        elif cap.from_start_mm is not None:
            way_mm = cap.from_start_mm
        else:
            way_mm = segment.length_mm - (cap.from_end_mm or 0.0)
        found.append(Meeting(opening, cap.segment, way_mm, segment.length_mm))
    return tuple(found)


def _arms(network: Network, places: Mapping[str, Place], lengths: Lengths) -> dict[str, tuple[str, float]]:
    """The node at which the segments of openings meet, and how far from the vessel's own fork each opening is.

    With the ways d between three openings, that of the first to the fork is (d_12 + d_13 - d_23)/2; of two it is half
    of the way between them.
    """
    remedy = "give from_start_mm or from_end_mm for each opening"
    if not 2 <= len(places) <= 3:
        raise StageError(
            f"coupling: {len(places)} openings have a segment without a place of it ({', '.join(places)}), which"
            f" follows from the vessel for two or three; {remedy}"
        )
    meeting = set.intersection(*({*network.segments[place.segment].nodes} for place in places.values()))
    if len(meeting) != 1 or len({place.segment for place in places.values()}) < len(places):
        raise StageError(
            f"coupling: {', '.join(f'{name} ({place.segment})' for name, place in places.items())} do not meet at one"
            f" node of the network as the vessel's branches do; {remedy}"
        )
    (fork,) = meeting
    total = sum(lengths[frozenset(pair)] for pair in combinations(places, 2))
    if len(places) == 2:
        return dict.fromkeys(places, (fork, total / 2))
    return {name: (fork, total / 2 - lengths[frozenset(other for other in places if other != name)]) for name in places}


def _require_inside(meeting: Meeting, least_mm: float) -> None:
    """Check that a place lies within its segment, a cell from its ends at least."""
    if not least_mm <= meeting.way_mm <= meeting.length_mm - least_mm:
        raise StageError(
            f"coupling: opening {meeting.opening} is {_place(meeting)} of {meeting.segment}, which"
            f" is {meeting.length_mm:.4g} mm long; it must be {least_mm:g} mm (spacing_mm) from both ends at least:"
            " give another from_start_mm or from_end_mm, or another segment"
        )


def _place(meeting: Meeting) -> str:
    """Where an opening lies on its segment, or how far beyond its ends."""
    if meeting.way_mm < 0:
        return f"{-meeting.way_mm:.4g} mm before the start"
    if meeting.way_mm > meeting.length_mm:
        return f"{meeting.way_mm - meeting.length_mm:.4g} mm behind the end"
    return f"{meeting.way_mm:.4g} mm from the start"


def _cut(network: Network, meetings: tuple[Meeting, ...]) -> Network:
    """The network with a node at each place, the pieces of a segment called by its name and their number."""
    pieces: dict[str, dict[str, Segment]] = {}
    for name in dict.fromkeys(meeting.segment for meeting in meetings):
        segment = network.walled(name)
        if segment.stenosis:
            raise StageError(
                f"coupling: {name} is a stenosis, whose loss cannot be cut in parts; let openings of the vessel meet"
                " the segments beside it"
            )
        mine = sorted((each for each in meetings if each.segment == name), key=lambda each: each.at)
        places = [0.0, *(each.at for each in mine), 1.0]
        nodes = [segment.nodes[0], *(each.node for each in mine), segment.nodes[1]]
        for one, other in pairwise(mine):
            if not one.at < other.at:
                raise StageError(f"coupling: openings {one.opening} and {other.opening} are at one place of {name}")
        pieces[name] = {
            f"{name}.{k + 1}": piece(segment, places[k], places[k + 1], (nodes[k], nodes[k + 1]))
            for k in range(len(places) - 1)
        }
    return with_pieces(network, pieces)


def _inside(network: Network, meetings: tuple[Meeting, ...]) -> frozenset[str]:
    """Names of the segments between all places."""
    caps = {meeting.node for meeting in meetings}
    parts = [part for part in _parts(network, caps) if all(_touches(network, part, node) for node in caps)]
    names = ", ".join(f"{each.opening} ({each.segment})" for each in meetings)
    if len(parts) != 1:
        raise StageError(
            f"coupling: the openings {names} cut no piece out of the network, of which each is an end; move them, or"
            " give other segments"
        )
    ends = {node for name in parts[0] for node in network.segments[name].nodes} - caps
    if leading := sorted(ends & ({*network.inlets} | {*network.behind()})):
        raise StageError(
            f"coupling: the piece between the openings {names} holds {leading[0]}, where the network has an inlet or a"
            " terminal; let an opening of the vessel meet each segment that leaves the piece"
        )
    return parts[0]


def _touches(network: Network, part: frozenset[str], node: str) -> bool:
    return any(node in network.segments[name].nodes for name in part)


def _parts(network: Network, caps: set[str]) -> list[frozenset[str]]:
    """Names of segments that hang together elsewhere than at these nodes."""
    ends, left, found = network.ends(), {*network.segments}, []
    while left:
        part, front = set[str](), {next(name for name in network.segments if name in left)}
        while front:
            part |= front
            nodes = {node for name in front for node in network.segments[name].nodes} - caps
            front = {name for node in nodes for name in ends[node]} - part
        left -= part
        found.append(frozenset(part))
    return found
