# SPDX-License-Identifier: Apache-2.0
"""Segments taken out of a network: what goes with them, and what becomes of the ends that are left open."""

from collections.abc import Iterable

from pipeline.network.checks import members
from pipeline.network.for_solver import M3_PASCAL, PASCAL_S_M3, for_solver
from pipeline.network.network_ends import Rcr, Resistance, Terminal
from pipeline.network.network_file import Network
from solver.boundary.windkessel import PASCAL_PER_MMHG
from solver.network import network_ends

Behind = network_ends.Resistance | network_ends.Windkessel | network_ends.MatchedWindkessel


def remove(network: Network, what: str, names: list[str]) -> tuple[Network, str]:
    """Take segments out, with all that they alone connect with an inlet.

    Where this leaves an end open, the end gets the resistance and the compliance of the terminals that went with what
    hung there, in parallel, shared by area where several ends are left open. Where vessels still meet, those terminals
    are gone, and the resistance of the whole rises.

    Parameters
    ----------
    network : with figures of its own for each terminal.
    what : name of the edit's target, for the line and for messages.
    names : of the segments that are taken out.

    Raises
    ------
    ValueError
        If no segment is left at an inlet, or an end is left open with nothing to be put there.
    """
    gone = {*names} | _cut_off(network, {*names})
    kept = {name: segment for name, segment in network.segments.items() if name not in gone}
    if not kept or any(not any(node in each.nodes for each in kept.values()) for node in network.inlets):
        raise ValueError(f"remove = {what!r}: leaves an inlet with no segment; remove what lies behind it")
    rest = network.changed(segments=kept)
    nodes = rest.ends()
    groups = {group: tuple(p for p in patterns if members([p], rest)) for group, patterns in network.groups.items()}
    terminals = {node: each for node, each in network.terminals.items() if node in nodes}
    lost = {node: each for node, each in network.terminals.items() if node not in nodes}
    opened = _open_ends(network, rest, lost, what)
    changed = rest.changed(groups={k: v for k, v in groups.items() if v}, terminals=terminals | opened)
    more = f", with {', '.join(sorted(gone - {*names}))}, which nothing else reaches" if gone - {*names} else ""
    line = f"{what}: {len(gone)} segment{'s' * (len(gone) > 1)} removed{more}; {_what_became(lost, opened)}"
    return changed, line


def _what_became(lost: dict[str, Terminal], opened: dict[str, Terminal]) -> str:
    if opened:
        return f"what was behind {', '.join(lost)} is now behind {', '.join(opened)}, where vessels end"
    if lost:
        return f"terminal{'s' * (len(lost) > 1)} {', '.join(lost)} went, the resistance of the whole rises"
    return "no terminal went"


def _reached(network: Network, without: set[str]) -> set[str]:
    """Names of the segments that an inlet reaches."""
    left = {name: segment.nodes for name, segment in network.segments.items() if name not in without}
    found, front = set[str](), {*network.inlets}
    while front:
        near = {name for name, nodes in left.items() if name not in found and front & {*nodes}}
        front = {node for name in near for node in left[name]}
        found |= near
    return found


def _cut_off(network: Network, names: set[str]) -> set[str]:
    """Names of the segments that no inlet reaches without those that are taken out."""
    return {name for name in network.segments if name not in names} - _reached(network, names)


def _open_ends(network: Network, rest: Network, lost: dict[str, Terminal], what: str) -> dict[str, Terminal]:
    """Terminals of ends that were none before, by node."""
    before = network.ends()
    opened = [
        node
        for node, names in rest.ends().items()
        if len(names) == 1 and len(before[node]) > 1 and node not in network.inlets
    ]
    found: dict[str, Terminal] = {}
    for node in opened:
        mine = _hung(network, rest, node)
        sharing = [other for other in opened if mine & _hung(network, rest, other)]
        areas = {other: rest.segments[rest.ends()[other][0]].end_radius_mm(other) ** 2 for other in sharing}
        share = areas[node] / sum(areas.values())
        behind = [each for each in lost if {*before[each]} & mine]
        if not behind:
            raise ValueError(
                f"remove = {what!r}: leaves {rest.ends()[node][0]} open at {node}, and no terminal went that could be"
                " put there; remove that segment, too"
            )
        found[node] = _together(network, behind, share, what)
    return found


def _hung(network: Network, rest: Network, node: str) -> set[str]:
    """Names of the segments that are gone and hung together, of which some hung at a node."""
    ends, gone = network.ends(), {*network.segments} - {*rest.segments}
    found, front = set[str](), {node}
    while front:
        near = {name for each in front for name in ends[each]} & gone - found
        found |= near
        front = {other for name in near for other in network.segments[name].nodes}
    return found


def _together(network: Network, nodes: Iterable[str], share: float, what: str) -> Terminal:
    """A terminal that is a part of several ones in parallel; its pressure is theirs, weighted by conductance."""
    stated = for_solver(network).terminals
    conductance = compliance = driven = 0.0
    for node in nodes:
        behind = stated[node]
        if not isinstance(behind, Behind):
            raise ValueError(
                f"remove = {what!r}: an end is left open, and the terminal {node} has no resistance that could be put"
                " there; give that terminal another type first"
            )
        each = 1 / _resistance_pa_s_m3(behind)
        conductance += each
        driven += each * behind.back_pa
        compliance += getattr(behind, "compliance_m3_pa", 0.0)
    total = 1 / (conductance * share) / PASCAL_S_M3
    back = driven / conductance / PASCAL_PER_MMHG
    if not compliance:
        return Resistance(type="resistance", resistance_mmhg_s_ml=total, distal_pressure_mmhg=back)
    volume = compliance * share / M3_PASCAL
    return Rcr(type="rcr", total_mmhg_s_ml=total, compliance_ml_mmhg=volume, distal_pressure_mmhg=back)


def _resistance_pa_s_m3(behind: Behind) -> float:
    if isinstance(behind, network_ends.Resistance):
        return behind.resistance_pa_s_m3
    if isinstance(behind, network_ends.Windkessel):
        return behind.proximal_pa_s_m3 + behind.distal_pa_s_m3
    return behind.total_pa_s_m3


def stated_terminals(network: Network) -> Network:
    """The network with figures of its own for each end, in place of those that ``*`` and by-area stand for."""
    given = network.behind()
    if all(node in network.terminals and each.type != "by-area" for node, each in given.items()):
        return network.changed(terminals={node: each for node, each in network.terminals.items() if node != "*"})
    stated = for_solver(network).terminals
    for node, each in given.items():
        if each.type == "by-area":
            given[node] = _together(network, [node], 1.0, node) if node in stated else each
    return network.changed(terminals=given)
