# SPDX-License-Identifier: Apache-2.0
"""Decks of svOneDSolver (CGS units), as networks of this project.

Of a deck the cards NODE, JOINT, SEGMENT, DATATABLE, SOLVEROPTIONS and MATERIAL are read: walls OLUFSEN; ends RESISTANCE
and RCR, of tables that do not change in time; inlets FLOW and PRESSURE_WAVE; losses NONE and STENOSIS. Whatever else a
deck asks for is an error, as a network without it would be another one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import pi, sqrt
from pathlib import Path
from typing import Any, NoReturn

from pipeline.case.settings.base import parse
from pipeline.network.network_file import Network
from pipeline.network.writing import rounded, with_common_defaults
from solver.boundary.windkessel import PASCAL_PER_MMHG
from solver.runtime.errors import StageError

DYN_CM2 = 0.1
"""Pa."""
RESISTANCE = DYN_CM2 / PASCAL_PER_MMHG
"""mmHg s/mL of 1 dyn s/cm5."""
PASSED_OVER = {"MODEL", "NODE", "OUTPUT"}
"""Cards that say nothing that a network needs: nodes follow from segments and joints."""

Columns = dict[str, list[float]]
"""Samples of a waveform by the names of its columns."""


@dataclass(frozen=True)
class Card:
    """A line of a deck.

    Attributes
    ----------
    place : file and number of the line.
    words : what follows its first word.
    """

    place: str
    words: list[str]

    def word(self, at: int) -> str:
        """One of the words."""
        if at >= len(self.words):
            self.refuse(f"has {len(self.words)} words, of which number {at + 1} is wanted; complete the card")
        return self.words[at]

    def number(self, at: int) -> float:
        """One of the words as a number."""
        try:
            return float(self.word(at))
        except ValueError:
            self.refuse(f"{self.words[at]!r} is no number; correct it")

    def refuse(self, why: str) -> NoReturn:
        """Say what is wrong here."""
        raise StageError(f"{self.place}: {why}")


@dataclass
class Deck:
    """Cards by their first word, and tables by their names."""

    cards: dict[str, list[Card]] = field(default_factory=dict)
    tables: dict[str, list[float]] = field(default_factory=dict)

    def named(self, kind: str, name: str, user: Card) -> Card:
        """The card of a kind that has a name, which another card gives.

        Parameters
        ----------
        kind : of the card that is looked for.
        name : that it has.
        user : card that gives the name, for messages.
        """
        found = {card.word(0): card for card in self.cards.get(kind, ())}
        if name not in found:
            user.refuse(f"names {kind} {name}, which the deck does not have; add it")
        return found[name]

    def table(self, name: str, user: Card) -> tuple[list[float], list[float]]:
        """Times and values of a table that a card names."""
        if name not in self.tables:
            user.refuse(f"names DATATABLE {name}, which the deck does not have; add it")
        numbers = self.tables[name]
        if not numbers or len(numbers) % 2:
            user.refuse(f"DATATABLE {name} has {len(numbers)} numbers, pairs of time and value are wanted; correct it")
        return numbers[::2], numbers[1::2]


def read_svonedsolver(path: Path, inflow: str) -> tuple[Network, dict[str, Columns]]:
    """A network of a deck.

    Parameters
    ----------
    path : of the deck.
    inflow : name of the file that a waveform at the inlet is to be written to.

    Returns
    -------
    The network, and its waveforms by the names of their files; none of a steady inlet.

    Raises
    ------
    StageError
        With the line of the deck.
    """
    deck = _read(path)
    segments = {card.number(1): card for card in deck.cards.get("SEGMENT", ())}
    if not segments:
        raise StageError(f"{path}: has no card SEGMENT; give a deck of svOneDSolver")
    nodes = _nodes(deck, segments)
    terminals = {nodes[number][1]: _terminal(card, deck) for number, card in segments.items()}
    inlet, waveforms = _inlet(deck, path, inflow)
    roots = [pair[0] for pair in nodes.values() if pair[0] not in {end for _, end in nodes.values()}]
    if len(set(roots)) != 1:
        raise StageError(f"{path}: SEGMENT: {len(set(roots))} nodes begin segments and end none; a deck has one inlet")
    sections = {
        "description": f"{path.stem}, from the deck of svOneDSolver",
        "blood": _blood(deck, path),
        "segments": {card.word(0): _segment(card, nodes[n], segments, deck) for n, card in segments.items()},
        "inlets": {roots[0]: inlet},
        "terminals": {node: terminal for node, terminal in terminals.items() if terminal},
    }
    return with_common_defaults(parse(Network, sections, str(path))), waveforms


def _read(path: Path) -> Deck:
    """The deck, whose lines are cards but for comments and the numbers of tables."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StageError(f"{path}: cannot be read as text ({error}); give a deck of svOneDSolver") from None
    deck, table = Deck(), None
    for number, line in enumerate(lines, 1):
        words = line.split("#")[0].replace(",", " ").split()
        if not words:
            continue
        card = Card(f"{path}, line {number}", words[1:])
        kind = words[0].upper()
        if kind == "ENDDATATABLE":
            table = None
        elif table is not None:
            table += [Card(card.place, words).number(at) for at in range(len(words))]
        elif kind == "DATATABLE":
            table = deck.tables.setdefault(card.word(0), [])
        elif kind in ("SEGMENT", "JOINT", "JOINTINLET", "JOINTOUTLET", "SOLVEROPTIONS", "MATERIAL"):
            deck.cards.setdefault(kind, []).append(card)
        elif kind not in PASSED_OVER:
            card.refuse(f"the card {words[0]} is not understood; known are SEGMENT, JOINT, DATATABLE, MATERIAL, ...")
    return deck


def _nodes(deck: Deck, segments: Mapping[float, Card]) -> dict[float, tuple[str, str]]:
    """Proximal and distal node of each segment; segments of a joint have its node, whatever they say."""
    found = {number: [f"n{card.word(4)}", f"n{card.word(5)}"] for number, card in segments.items()}
    for joint in deck.cards.get("JOINT", ()):
        ending = _list_of(deck.named("JOINTINLET", joint.word(2), joint), segments)
        beginning = _list_of(deck.named("JOINTOUTLET", joint.word(3), joint), segments)
        node = found[ending[0]][1]
        for number in ending:
            found[number][1] = node
        for number in beginning:
            found[number][0] = node
    return {number: (start, end) for number, (start, end) in found.items()}


def _list_of(card: Card, segments: Mapping[float, Card]) -> list[float]:
    """Numbers of the segments that a joint's list holds."""
    numbers = [card.number(2 + at) for at in range(int(card.number(1)))]
    for number in numbers:
        if number not in segments:
            card.refuse(f"names segment {number:g}, which the deck does not have; correct it")
    return numbers


def _radius_mm(card: Card, at: int) -> float:
    return 10 * sqrt(card.number(at) / pi)


def _segment(card: Card, nodes: tuple[str, str], segments: Mapping[float, Card], deck: Deck) -> dict[str, Any]:
    radii = [rounded(_radius_mm(card, at)) for at in (6, 7)]
    section = {
        "nodes": list(nodes),
        "length_mm": rounded(card.number(2) * 10),
        "radius_mm": radii[0] if radii[0] == radii[1] else radii,
        **_wall(deck.named("MATERIAL", card.word(9), card)),
    }
    loss = card.word(10).upper()
    if loss == "STENOSIS":
        upstream = segments.get(card.number(12))
        if upstream is None:
            card.refuse(f"its upstream segment {card.word(12)} is none of the deck's; correct it")
        section["stenosis"] = {"normal_radius_mm": rounded(_radius_mm(upstream, 7))}
    elif loss != "NONE":
        card.refuse(f"the loss {card.word(10)} is not understood; known are NONE and STENOSIS")
    return section


def _wall(material: Card) -> dict[str, Any]:
    """Wall of a card ``name OLUFSEN density viscosity p_ref exponent k1 k2 k3``."""
    if material.word(1).upper() != "OLUFSEN":
        material.refuse(f"the material {material.word(1)} is not understood; known is OLUFSEN")
    return {
        "wall": "olufsen",
        "olufsen_k1_kpa": rounded(material.number(6) * DYN_CM2 * 1e-3),
        "olufsen_k2_1_mm": rounded(material.number(7) * 0.1),
        "olufsen_k3_kpa": rounded(material.number(8) * DYN_CM2 * 1e-3),
        "external_pressure_kpa": rounded(material.number(4) * DYN_CM2 * 1e-3),
        "profile_exponent": material.number(5),
    }


def _blood(deck: Deck, path: Path) -> dict[str, float]:
    """Density and viscosity, which all materials must have alike."""
    found = {(card.number(2), card.number(3)) for card in deck.cards.get("MATERIAL", ())}
    if len(found) != 1:
        raise StageError(
            f"{path}: MATERIAL: {len(found)} kinds of blood (density, viscosity); a network has one, give all the same"
        )
    density, viscosity = found.pop()
    return {"density_kg_m3": rounded(density * 1e3), "viscosity_pa_s": rounded(viscosity * 0.1)}


def _terminal(card: Card, deck: Deck) -> dict[str, Any] | None:
    """What lies behind a segment; none where it ends in a joint."""
    kind = card.word(14).upper()
    if kind == "NOBOUND":
        return None
    if kind not in ("RESISTANCE", "RCR"):
        card.refuse(f"the boundary condition {card.word(14)} is not understood; known are NOBOUND, RESISTANCE and RCR")
    _, values = deck.table(card.word(15), card)
    if len(values) != (1 if kind == "RESISTANCE" else 3):
        card.refuse(f"DATATABLE {card.word(15)} has {len(values)} values, which {kind} does not take; correct it")
    if kind == "RESISTANCE":
        return {"type": "resistance", "resistance_mmhg_s_ml": rounded(values[0] * RESISTANCE)}
    proximal, compliance, distal = values
    return {
        "type": "rcr",
        "proximal_mmhg_s_ml": rounded(proximal * RESISTANCE),
        "distal_mmhg_s_ml": rounded(distal * RESISTANCE),
        "compliance_ml_mmhg": rounded(compliance / RESISTANCE),
    }


def _inlet(deck: Deck, path: Path, inflow: str) -> tuple[dict[str, Any], dict[str, Columns]]:
    """What the inlet is given, steady or as a waveform."""
    if len(deck.cards.get("SOLVEROPTIONS", ())) != 1:
        raise StageError(f"{path}: SOLVEROPTIONS: wanted once, as it gives the inlet; correct the deck")
    card = deck.cards["SOLVEROPTIONS"][0]
    kinds = {"FLOW": ("flow", "flow_ml_s", 1.0), "PRESSURE_WAVE": ("pressure", "pressure_mmhg", RESISTANCE)}
    if card.word(5).upper() not in kinds:
        card.refuse(f"the inlet {card.word(5)} is not understood; known are {', '.join(kinds)}")
    what, column, unit = kinds[card.word(5).upper()]
    times, values = deck.table(card.word(4), card)
    values = [rounded(value * unit) for value in values]
    if len(set(values)) == 1:
        return {column: values[0]}, {}
    inlet = {f"{what}_waveform": inflow, "interpolation": "linear"}
    return inlet, {inflow: {"time_s": times, column: values}}
