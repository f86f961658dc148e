# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a network as a whole: nodes, ends, walls, and values that no artery has; one line a mistake."""

import difflib
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

import numpy as np

from pipeline.case.settings.base import MAX_MISTAKES
from pipeline.network.arterial_ranges import RANGES, Quantity
from pipeline.network.for_solver import PASCAL_S_M3, impedance_pa_s_m3, segment_in_si
from pipeline.network.network_ends import ByArea, Matched, Rcr, Reflection, Resistance
from pipeline.network.network_file import Network, Segment
from pipeline.network.walls import misfits, scaled, wave_speed_m_s
from solver.network.arterial_walls import along
from solver.runtime.errors import StageError


def require_sound(network: Network, source: str) -> None:
    """Check a network with its edits applied.

    Parameters
    ----------
    network : to be checked.
    source : file that it came from, for the messages.

    Raises
    ------
    StageError
        One line a mistake: file, segment or node, key, value and remedy.
    """
    lines = list(mistakes(network))
    left = len(lines) - MAX_MISTAKES
    more = [f"{left} more mistakes; repair these first"] if left > 0 else []
    if lines:
        raise StageError("\n".join(f"{source}: {line}" for line in [*lines[:MAX_MISTAKES], *more]))


def mistakes(network: Network) -> Iterator[str]:
    """What is wrong, with where it stands and the remedy."""
    walls = [f"segments.{name}: {text}" for name in network.segments for text in misfits(network.walled(name))]
    yield from walls
    yield from _of_nodes(network)
    yield from _of_groups(network)
    if not walls:
        yield from _of_values(network)
        yield from _of_matched(network)


def _of_nodes(network: Network) -> Iterator[str]:
    ends = network.ends()
    for name, segment in network.segments.items():
        if segment.nodes[0] == segment.nodes[1]:
            yield f"segments.{name}.nodes = {list(segment.nodes)}: begins and ends at one node; give it two"
    for key, given in (("inlets", network.inlets), ("terminals", network.terminals)):
        for node in given:
            if node != "*" and (why := _no_end(node, ends)):
                yield f"{key}.{node}: {why}"
    for node in network.inlets.keys() & network.terminals.keys():
        yield f"terminals.{node}: has an inlet, too; take one of them out"
    behind = network.behind()
    for node, names in ends.items():
        if len(names) == 1 and node not in network.inlets and node not in behind:
            near = near_names(node, [other for other in ends if other != node])
            other = f"; or name the node as its neighbour does{near}" if near else ""
            yield (
                f"segments.{names[0]}.nodes: ends alone at node {node}, which has neither inlet nor terminal; give"
                f" terminals.{node}, or terminals.'*' for all such ends{other}"
            )
    if len(parts := connected(network)) > 1:
        for part in parts[1:]:
            yield (
                f"segments: {_listed(sorted(part))} {'is' if len(part) == 1 else 'are'} connected with the rest of the"
                " network nowhere; let them have a node in common, or keep them in a file of their own"
            )
    if len(ends) > 1 and not _holds_pressure(network):
        yield (
            "terminals: none of the ends holds a pressure, that the mean could settle to; give one a resistance, an RCR"
            " or a pressure"
        )


def _no_end(node: str, ends: dict[str, list[str]]) -> str:
    """Why nothing can be at a node; empty where a segment ends alone."""
    if node not in ends:
        return f"no segment has a node of this name{near_names(node, ends)}; correct it"
    if len(ends[node]) > 1:
        return f"{len(ends[node])} segments meet here ({_listed(ends[node])}); give it a node where one ends"
    return ""


def _holds_pressure(network: Network) -> bool:
    """Whether there is an end from which a mean pressure follows, or a steady state is as it began."""
    if any(
        inlet.heart or inlet.pressure_mmhg is not None or inlet.pressure_waveform for inlet in network.inlets.values()
    ):
        return True
    behind = network.behind().values()
    return any(not isinstance(each, Matched | Reflection) for each in behind) or not behind


def connected(network: Network) -> list[set[str]]:
    """Names of the segments of each part that is connected, the largest first."""
    ends = network.ends()
    left, parts = set(network.segments), list[set[str]]()
    while left:
        part, front = set[str](), {next(name for name in network.segments if name in left)}
        while front:
            part |= front
            front = {near for name in front for node in network.segments[name].nodes for near in ends[node]} - part
        parts.append(part)
        left -= part
    return sorted(parts, key=len, reverse=True)


def loops(network: Network) -> int:
    """Number of ways round: segments that could be taken out with everything still connected."""
    return len(network.segments) - len(network.ends()) + len(connected(network))


def _of_groups(network: Network) -> Iterator[str]:
    for group, patterns in network.groups.items():
        if group in network.segments:
            yield f"groups.{group}: a segment has this name, too; call the group otherwise"
        for pattern in patterns:
            if not members([pattern], network):
                near = near_names(pattern, network.segments)
                yield f"groups.{group} = {pattern!r}: no segment has this name{near}; correct it"


def members(patterns: Iterable[str], network: Network) -> list[str]:
    """Names of the segments that any of several names or patterns fits, in the network's order."""
    wanted = list(patterns)
    return [name for name in network.segments if any(fits(name, pattern) for pattern in wanted)]


def fits(name: str, pattern: str) -> bool:
    """Whether a name is that of a pattern, in which ``*`` stands for any characters and ``?`` for one."""
    return fnmatchcase(name, pattern.replace("[", "[[]"))


def near_names(name: str, known: Iterable[str]) -> str:
    """Names that may be meant, in words; empty if there are none."""
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def _of_values(network: Network) -> Iterator[str]:
    for place, quantity, value in judged(network):
        refusal = RANGES[quantity].refusal(quantity, value)
        if refusal and quantity not in network.accept:
            yield f"{place}: {refusal}"


def _of_matched(network: Network) -> Iterator[str]:
    """Totals of Windkessels that leave nothing behind a proximal resistance that is matched."""
    density = network.blood.density_kg_m3
    ends = network.ends()
    for node, given in network.behind().items():
        if not isinstance(given, Rcr) or given.proximal_mmhg_s_ml != "matched":
            continue
        names = ends[node]
        segment = segment_in_si(names[0], network.walled(names[0]), density)
        matched = impedance_pa_s_m3(segment, node, density) / PASCAL_S_M3
        if given.total_mmhg_s_ml and given.total_mmhg_s_ml <= matched:
            yield (
                f"terminals.{node}: total_mmhg_s_ml = {given.total_mmhg_s_ml:g} is not above the matched proximal"
                f" resistance of {matched:.4g}, the impedance of {names[0]}; raise it, or use resistance alone"
            )


def beyond(network: Network) -> list[Quantity]:
    """Quantities of which a value is one that no artery has."""
    found = [quantity for _, quantity, value in judged(network) if RANGES[quantity].refusal(quantity, value)]
    return list(dict.fromkeys(found))


def judged(network: Network) -> Iterator[tuple[str, Quantity, float]]:
    """Values that are held against ranges, each with its place and its quantity."""
    blood = network.blood
    yield f"blood.density_kg_m3 = {blood.density_kg_m3:g}", "density", blood.density_kg_m3
    yield f"blood.viscosity_pa_s = {blood.viscosity_pa_s:g}", "viscosity", blood.viscosity_pa_s
    for name in network.segments:
        yield from _of_segment(name, network.walled(name), blood.density_kg_m3)
    for node, terminal in network.terminals.items():
        if isinstance(terminal, Resistance | Rcr | ByArea):
            yield f"terminals.{node}", "resistance", total_mmhg_s_ml(terminal)
        if isinstance(terminal, Rcr | ByArea):
            yield f"terminals.{node}.compliance_ml_mmhg", "compliance", terminal.compliance_ml_mmhg


def total_mmhg_s_ml(terminal: Resistance | Rcr | ByArea) -> float:
    """Resistance behind a terminal, without a matched proximal one that is not stated."""
    if not isinstance(terminal, Rcr):
        return terminal.resistance_mmhg_s_ml
    if terminal.total_mmhg_s_ml:
        return terminal.total_mmhg_s_ml
    proximal = terminal.proximal_mmhg_s_ml
    return (0.0 if isinstance(proximal, str) else proximal) + (terminal.distal_mmhg_s_ml or 0.0)


def _of_segment(name: str, segment: Segment, density_kg_m3: float) -> Iterator[tuple[str, Quantity, float]]:
    place = f"segments.{name}"
    yield f"{place}.length_mm", "length", segment.length_mm
    for radius in {min(segment.radii_mm), max(segment.radii_mm)}:
        yield f"{place}.radius_mm", "radius", radius
    stated = segment_in_si(name, segment, density_kg_m3)
    speeds = {wave_speed_m_s(stated.wall, stated.radius_m, density_kg_m3, part) for part in (0.0, 1.0)}
    if segment.thickness_mm is not None and segment.thickness_mm != "empirical-law":
        ends = np.array([0.0, 1.0])
        ratios = along(scaled(segment.thickness_mm, 1e-3), ends) / along(stated.radius_m, ends)
        for ratio in dict.fromkeys(ratios.tolist()):
            yield f"{place}.thickness_mm", "thickness", ratio
    for speed in sorted(speeds):
        yield f"{place}, of its wall", "wave_speed", speed


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
