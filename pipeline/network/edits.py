# SPDX-License-Identifier: Apache-2.0
"""Edits of a network, one after another: each gives a new network, and a line that says what it does."""

from collections.abc import Callable, Iterable, Sequence
from math import sqrt
from typing import Any

from pipeline.case.settings import network_edits as kinds
from pipeline.network.ageing import faster, is_elastic, stiffness_factor, widened, wider
from pipeline.network.checks import fits, members, misfits, near_names
from pipeline.network.cutting import cut, require_room, swollen
from pipeline.network.for_solver import segment_in_si
from pipeline.network.network_ends import Matched, Pressure, Rcr, Reflection, Resistance, Terminal
from pipeline.network.network_file import Network, Segment, StenosisKeys
from pipeline.network.removal import remove, stated_terminals
from pipeline.network.walls import wave_speed_m_s
from solver.runtime.errors import StageError


def apply(network: Network, edits: Sequence[kinds.Edit], source: str) -> tuple[Network, list[str]]:
    """A network with edits, in their order, of which each sees what those before it have made.

    Terminals that ``*`` stands for get figures of their own first, so that an edit of one leaves the others alone.

    Parameters
    ----------
    network : sound.
    edits : to be applied; none leaves the network as it is.
    source : file that they come from, for messages.

    Returns
    -------
    The network without edits left, and a line for each edit, which says what it did.

    Raises
    ------
    StageError
        If an edit names what there is not, or does not fit what it names: which of the edits, and the remedy.
    """
    network, lines = network.changed(edits=()), list[str]()
    if edits:
        network = stated_terminals(network)
    for number, edit in enumerate(edits):
        try:
            network, line = MAKERS[type(edit)](network, edit)
        except ValueError as error:
            raise StageError(f"{source}: edits.{number}.{error}") from None
        lines.append(line)
    return network, lines


def targets(network: Network, name: str, key: str) -> list[str]:
    """Names of the segments that an edit is of.

    Parameters
    ----------
    network : that is edited.
    name : of a segment or a group, or a pattern.
    key : of the edit, for the message.

    Raises
    ------
    ValueError
        If there is none, with names that are near.
    """
    found = members(network.groups.get(name, (name,)), network)
    if not found:
        near = near_names(name, [*network.groups, *network.segments])
        raise ValueError(f"{key} = {name!r}: no segment or group has this name{near}; correct it")
    return found


def with_pieces(network: Network, pieces: dict[str, dict[str, Segment]]) -> Network:
    """The network with segments in place of others, which groups then name in their place."""
    segments: dict[str, Segment] = {}
    for name, segment in network.segments.items():
        segments |= pieces.get(name, {name: segment})
    groups = {group: _renamed(patterns, pieces) for group, patterns in network.groups.items()}
    return network.changed(segments=segments, groups=groups)


def _renamed(patterns: Iterable[str], pieces: dict[str, dict[str, Segment]]) -> tuple[str, ...]:
    """Patterns of a group, and names of the pieces of what they fit."""
    kept, more = [], list[str]()
    for pattern in patterns:
        cut_up = [name for name in pieces if fits(name, pattern)]
        more += [piece for name in cut_up for piece in pieces[name] if not fits(piece, pattern)]
        if pattern not in cut_up or pattern in pieces[pattern]:
            kept.append(pattern)
    return tuple(dict.fromkeys([*kept, *more]))


def _speeds(network: Network, names: Iterable[str]) -> str:
    """Wave speeds of segments, in words."""
    density = network.blood.density_kg_m3
    stated = [segment_in_si(name, network.walled(name), density) for name in names]
    found = [wave_speed_m_s(each.wall, each.radius_m, density, part) for each in stated for part in (0.0, 1.0)]
    return f"{min(found):.3g}" if max(found) - min(found) < 0.005 else f"{min(found):.3g} to {max(found):.3g}"


def _stiffen(network: Network, edit: kinds.Stiffen) -> tuple[Network, str]:
    names = targets(network, edit.stiffen, "stiffen")
    changed = with_pieces(network, {name: {name: _stiffer(network, name, edit.factor)} for name in names})
    line = (
        f"{edit.stiffen}: stiffness of {_count(names)} times {edit.factor:g}, waves run with"
        f" {_speeds(changed, names)} m/s, before with {_speeds(network, names)}"
    )
    return changed, line


def _stiffer(network: Network, name: str, factor: float) -> Segment:
    return _with_stiffness(network.segments[name], network.walled(name), factor)


def _with_stiffness(segment: Segment, walled: Segment, factor: float) -> Segment:
    """A segment with E h times a factor of what it has with the defaults."""
    update: dict[str, Any] = {}
    for key in ("youngs_modulus_kpa", "collagen_modulus_kpa", "olufsen_k1_kpa", "olufsen_k3_kpa"):
        if (value := getattr(walled, key)) is not None:
            update[key] = value * factor
    if (speed := walled.wave_speed_m_s) is not None:
        root = sqrt(factor)
        update["wave_speed_m_s"] = tuple(each * root for each in speed) if isinstance(speed, tuple) else speed * root
    return segment.model_copy(update=update)


def _age(network: Network, edit: kinds.Age) -> tuple[Network, str]:
    names = targets(network, edit.age, "age")
    walled = {name: network.walled(name) for name in names}
    elastic = {name for name in names if is_elastic(walled[name], edit.elastic_from_mm)}
    growth, density = wider(edit.from_years, edit.to_years), network.blood.density_kg_m3
    begins = {walled[name].nodes[1] for name in elastic}  # where arteries go on from elastic ones, as wide as these
    pieces = {}
    for name in names:
        at_start = growth if name in elastic or walled[name].nodes[0] in begins else 1.0
        changed = widened(walled[name], (at_start, growth if name in elastic else 1.0))
        ratio = faster(name in elastic, edit.from_years, edit.to_years)
        factor = stiffness_factor(walled[name], changed, density, ratio)
        own = network.segments[name].model_copy(update={"radius_mm": changed.radius_mm, "stenosis": changed.stenosis})
        pieces[name] = {name: _with_stiffness(own, walled[name], factor)}
    changed_network = with_pieces(network, pieces)
    said = [
        f"{_count(group, word)} (pulses {faster(kind, edit.from_years, edit.to_years):.3g} times as fast{and_wide})"
        for kind, word, and_wide in ((True, "elastic ", f", radius times {growth:.3g}"), (False, "muscular ", ""))
        if (group := [name for name in names if (name in elastic) == kind])
    ]
    line = (
        f"{edit.age}: from {edit.from_years:g} to {edit.to_years:g} years, {', '.join(said)}; waves run with"
        f" {_speeds(changed_network, names)} m/s, before with {_speeds(network, names)}"
    )
    return changed_network, line


def _narrow(network: Network, edit: kinds.Narrow) -> tuple[Network, str]:
    names = targets(network, edit.narrow, "narrow")
    pieces = {}
    for name in names:
        walled = network.walled(name)
        if walled.stenosis:
            raise ValueError(f"narrow = {edit.narrow!r}: {name} is a stenosis already; narrow another segment")
        before, part, after = cut(walled, name, require_room(walled, name, edit.at, edit.length_mm, "narrow"))
        normal = sum(part.radii_mm) / len(part.radii_mm)
        factor = sqrt(1 - edit.area_percent / 100)
        radii = tuple(radius * factor for radius in part.radii_mm)
        loss = StenosisKeys(normal_radius_mm=normal, turbulent=edit.turbulent)
        narrower = {"radius_mm": radii if len(radii) > 1 else radii[0], "stenosis": loss, "loss": None}
        part = part.model_copy(update=narrower)
        pieces[name] = {f"{name}.proximal": before, f"{name}.stenosis": part, f"{name}.distal": after}
    last = pieces[names[-1]][f"{names[-1]}.stenosis"]
    line = (
        f"{edit.narrow}: {_count(names)} narrowed by {edit.area_percent:g} % of the area over {edit.length_mm:g} mm, to"
        f" a radius of {min(last.radii_mm):.3g} mm, with the loss of a stenosis; now {', '.join(pieces[names[-1]])}"
    )
    return with_pieces(network, pieces), line


def _widen(network: Network, edit: kinds.Widen) -> tuple[Network, str]:
    names = targets(network, edit.widen, "widen")
    pieces = {}
    for name in names:
        walled = network.walled(name)
        if edit.length_mm is None:
            pieces[name] = {name: swollen(walled, edit.radius_factor, smooth=False)}
            continue
        before, part, after = cut(walled, name, require_room(walled, name, edit.at, edit.length_mm, "widen"))
        middle = swollen(part, edit.radius_factor, smooth=True)
        pieces[name] = {f"{name}.proximal": before, f"{name}.aneurysm": middle, f"{name}.distal": after}
    widest = max(max(each.radii_mm) for found in pieces.values() for each in found.values())
    where = "all along" if edit.length_mm is None else f"over {edit.length_mm:g} mm"
    line = (
        f"{edit.widen}: radius of {_count(names)} times {edit.radius_factor:g} {where}, at most {widest:.3g} mm; the"
        " thickness of the wall stays"
    )
    return with_pieces(network, pieces), line


def _remove(network: Network, edit: kinds.Remove) -> tuple[Network, str]:
    return remove(network, edit.remove, targets(network, edit.remove, "remove"))


def _graft(network: Network, edit: kinds.Graft) -> tuple[Network, str]:
    if edit.graft in network.segments or edit.graft in network.groups:
        raise ValueError(f"graft = {edit.graft!r}: a segment or group has this name; give another")
    ends = network.ends()
    for node in edit.nodes:
        if node not in ends:
            near = near_names(node, ends)
            raise ValueError(f"graft = {edit.graft!r}: nodes: there is no node {node}{near}; correct it")
        if len(ends[node]) == 1:
            raise ValueError(
                f"graft = {edit.graft!r}: nodes: {node} is an end of the network, of {ends[node][0]}; give a node where"
                " vessels meet"
            )
    if edit.nodes[0] == edit.nodes[1]:
        raise ValueError(f"graft = {edit.graft!r}: nodes: both are {edit.nodes[0]}; give two")
    given = edit.model_dump(exclude={"graft"}, exclude_none=True)
    if edit.youngs_modulus_kpa:
        given["wall"] = "elastic"
    segment = Segment.model_validate(given)
    changed = network.changed(segments={**network.segments, edit.graft: segment})
    if wrong := misfits(changed.walled(edit.graft)):
        raise ValueError(f"graft = {edit.graft!r}: {wrong[0]}")
    line = (
        f"{edit.graft}: a graft of {edit.length_mm:g} mm from {edit.nodes[0]} to {edit.nodes[1]}, in which waves run"
        f" with {_speeds(changed, [edit.graft])} m/s"
    )
    return changed, line


def _terminal(network: Network, edit: kinds.Terminal) -> tuple[Network, str]:
    nodes = _nodes_of(network, edit.terminal)
    changed = {node: _changed(network.terminals[node], node, edit) for node in nodes}
    factors = (("resistance", edit.resistance_factor), ("compliance", edit.compliance_factor))
    said = [f"{what} times {factor:g}" for what, factor in factors if factor != 1]
    if edit.distal_pressure_mmhg is not None:
        said.append(f"distal pressure {edit.distal_pressure_mmhg:g} mmHg")
    line = f"{edit.terminal}: {', '.join(said) or 'nothing changed'} of {len(nodes)} terminal{'s' * (len(nodes) > 1)}"
    return network.changed(terminals={**network.terminals, **changed}), line


def _nodes_of(network: Network, name: str) -> list[str]:
    """Nodes of the terminals that a name is of: that of a node, or of segments that end there."""
    if name in network.terminals:
        return [name]
    if name in network.ends():
        raise ValueError(f"terminal = {name!r}: this node has none; name one that has, or the segment that ends there")
    segments = {*targets(network, name, "terminal")}
    ends = network.ends()
    nodes = [node for node in network.terminals if segments & {*ends.get(node, ())}]
    if not nodes:
        raise ValueError(
            f"terminal = {name!r}: none of {_count(list(segments))} ends in a terminal; name one that does"
        )
    return nodes


def _changed(terminal: Terminal, node: str, edit: kinds.Terminal) -> Terminal:
    """A terminal with other figures."""
    if isinstance(terminal, Matched | Reflection | Pressure):
        raise ValueError(
            f"terminal = {edit.terminal!r}: that of {node} is of the type {terminal.type}, which has no resistance;"
            " give it another in the file"
        )
    update: dict[str, Any] = {}
    keys = ("resistance_mmhg_s_ml", "proximal_mmhg_s_ml", "distal_mmhg_s_ml", "total_mmhg_s_ml")
    for key in keys:
        if isinstance(value := getattr(terminal, key, None), float):
            update[key] = value * edit.resistance_factor
    if isinstance(terminal, Rcr):
        update["compliance_ml_mmhg"] = terminal.compliance_ml_mmhg * edit.compliance_factor
    elif isinstance(terminal, Resistance) and edit.compliance_factor != 1:
        raise ValueError(f"terminal = {edit.terminal!r}: that of {node} has no compliance; leave compliance_factor out")
    if edit.distal_pressure_mmhg is not None:
        update["distal_pressure_mmhg"] = edit.distal_pressure_mmhg
    return terminal.model_copy(update=update)


def _count(names: Sequence[str], kind: str = "") -> str:
    return f"{len(names)} {kind}segment{'' if len(names) == 1 else 's'}"


MAKERS: dict[type, Callable[[Network, Any], tuple[Network, str]]] = {
    kinds.Stiffen: _stiffen,
    kinds.Age: _age,
    kinds.Narrow: _narrow,
    kinds.Widen: _widen,
    kinds.Remove: _remove,
    kinds.Graft: _graft,
    kinds.Terminal: _terminal,
}
"""What makes each edit."""
