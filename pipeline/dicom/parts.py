# SPDX-License-Identifier: Apache-2.0
"""Parts: the stacks of slices that share one series: phases, echoes, components, orientations, what is derived.

A series is split by patient, which one UID may stand for by mistake, by what makes a slice another kind of image
(ImageType, orientation, component of a complex image), beyond that only as far as several slices lie at one place, and
at last by the frame of reference. Names are made of numbers and of words of this project:
nothing of a header's text gets into them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.dicom.deviations import POSITION_FLOOR_MM
from pipeline.dicom.header import PATIENT_TAGS, SliceHeader
from pipeline.dicom.image_type import MARK_TAGS
from pipeline.files.regular_grid import MIN_SLICES

KINDS = {
    "original": "original",
    "derived": "derived",
    "map": "calculated map",
    "rendered": "projections or renderings",
    "localizer": "localizer",
}
"""What a slice is by its ImageType, the most wanted first, and the words for it in a part's name."""

VOLUMES = ("original", "derived")
"""Kinds whose slices can form a volume."""

SAME_ORIENTATION = 0.02
"""Largest difference of direction cosines within a part: 1 degree. What differs by less is one stack, and judged so."""

NUMBERS = {
    "temporal position": "temporal position {:g}",
    "cardiac phase": "phase {:g} %",
    "echo": "echo {:g}",
    "echo time": "echo time {:g} ms",
    "b value": "b value {:g} s/mm2",
    "trigger delay": "trigger delay {:g} ms",
    "time offset": "time offset {:g} s",
    "inversion time": "inversion time {:g} ms",
    "flip angle": "flip angle {:g} degrees",
    "tube voltage": "{:g} kV",
    "acquisition": "acquisition {:g}",
}
"""How a part is named by a mark that is a number; by any other it is named by its place among the parts."""

RANKED = ("trigger delay", "time offset", "time")
"""Marks that differ a little from place to place: the first at each place belong together, then the second ones."""
SURE = ("temporal position", "cardiac phase", "echo", "b value")
"""Marks by which slices belong to different images even where no two of them lie at one place."""

TYPE_WORDS = {
    "W": "water",
    "WATER": "water",
    "F": "fat",
    "FAT": "fat",
    "IP": "in phase",
    "IN_PHASE": "in phase",
    "OP": "opposed phase",
    "OPP_PHASE": "opposed phase",
    "OUT_PHASE": "opposed phase",
    "SUB": "subtracted",
    "SUBTRACT": "subtracted",
    "SUBTRACTION": "subtracted",
    "MPR": "reformatted",
    "REFORMATTED": "reformatted",
    "AXIAL": "axial",
    "AVERAGE": "average",
    "MEAN": "average",
    "VMI": "monoenergetic",
    "MONOENERGETIC": "monoenergetic",
    "NORM": "normalised",
    "DIS2D": "distortion corrected",
    "DIS3D": "distortion corrected",
    "MAG": "magnitude",
}
"""Words of ImageType that a name of a part may hold."""


@dataclass(frozen=True)
class Part:
    """Slices of a series that may form one volume.

    Attributes
    ----------
    headers : its slices.
    kind : see `KINDS`.
    name : tells it from the other parts of its series; empty where it is the only one.
    """

    headers: list[SliceHeader]
    kind: str
    name: str = ""


def split(headers: list[SliceHeader]) -> list[Part]:
    """Parts of a series without duplicates, the most wanted kind first, then in the order of what tells them apart."""
    parts: list[Part] = []
    for kind, of_kind in _by(headers, lambda header: list(KINDS).index(header.kind)):
        name = list(KINDS)[kind]
        pieces = [_Piece(of_kind, [] if name == "original" else [KINDS[name]])]
        for cut in (_by_patient, _by_component, _by_orientation, _by_marks, _by_frame) if name in VOLUMES else ():
            pieces = [smaller for piece in pieces for smaller in cut(piece)]
        parts += [Part(piece.headers, name, ", ".join(piece.words)) for piece in pieces]
    return _named(parts)


def goes_on(part: Part, other: Part) -> bool:
    """Whether another part has slices of the same kind of grid at places between or beside those of a part.

    What is derived from a stack lies at its places or looks another way; what lies where the stack has none may belong
    to it, whatever its ImageType says.
    """
    one, two = part.headers[0], other.headers[0]
    both = [*part.headers, *other.headers]
    if any(header.position_mm is None or header.orientation is None for header in both):
        return False
    size = [(header.rows, header.columns, header.pixel_spacing_mm) for header in (one, two)]
    turned = np.abs(np.array(one.orientation, float) - np.array(two.orientation, float)).max()
    if size[0] != size[1] or turned > SAME_ORIENTATION:
        return False
    places = _places(both)
    own = set(places[: len(part.headers)].tolist())
    return not own & set(places[len(part.headers) :].tolist())


@dataclass(frozen=True)
class _Piece:
    """Slices, and the words that tell them from the rest of the series."""

    headers: list[SliceHeader]
    words: list[str]

    def cut(self, pieces: list[tuple[str, list[SliceHeader]]]) -> list["_Piece"]:
        """Smaller pieces, by name."""
        if len(pieces) < 2:
            return [self]
        return [_Piece(headers, [*self.words, word]) for word, headers in pieces]


def _named(parts: list[Part]) -> list[Part]:
    """Make the names differ."""
    if len(parts) == 1:
        return [replace(parts[0], name="")]
    names = [part.name or KINDS[part.kind] for part in parts]
    numbered = [
        f"{name} ({names[:k].count(name) + 1})" if names.count(name) > 1 else name for k, name in enumerate(names)
    ]
    return [replace(part, name=name) for part, name in zip(parts, numbered, strict=True)]


def _by(headers: list[SliceHeader], key: Callable[[SliceHeader], Any]) -> list[tuple[Any, list[SliceHeader]]]:
    """Groups by a key, in its order; slices without one come last."""
    groups: dict[Any, list[SliceHeader]] = {}
    for header in headers:
        groups.setdefault(key(header), []).append(header)
    return sorted(groups.items(), key=lambda group: (group[0] is None, 0 if group[0] is None else group[0]))


def _by_patient(piece: _Piece) -> list[_Piece]:
    """Groups of one patient, by all identifying tags that differ; one that only some slices have differs from none."""
    differing = [
        tag for tag, _ in enumerate(PATIENT_TAGS) if len({header.patient[tag] for header in piece.headers} - {""}) > 1
    ]
    groups = [found for _, found in _by(piece.headers, lambda header: tuple(header.patient[tag] for tag in differing))]
    return piece.cut([(f"patient {number}", found) for number, found in enumerate(_in_order(groups), start=1)])


def _by_frame(piece: _Piece) -> list[_Piece]:
    """Groups of one frame of reference, in which alone positions can be compared.

    Where each slice has one of its own, an export has made them up and they say nothing.
    """
    groups = [found for _, found in _by(piece.headers, lambda header: header.frame_of_reference)]
    if all(len({header.path for header in group}) == 1 for group in groups):
        return [piece]
    return piece.cut([(f"frame of reference {k}", found) for k, found in enumerate(_in_order(groups), start=1)])


def _in_order(groups: list[list[SliceHeader]]) -> list[list[SliceHeader]]:
    """The largest first, then by their files: the order of checksums and UIDs tells nothing."""
    return sorted(groups, key=lambda group: (-len(group), min(str(header.path) for header in group)))


def _by_component(piece: _Piece) -> list[_Piece]:
    return piece.cut(
        [(word or "no component named", found) for word, found in _by(piece.headers, lambda h: h.component)]
    )


def _by_orientation(piece: _Piece) -> list[_Piece]:
    """Groups of one orientation, the largest first; slices without one go with the largest, to be refused there."""
    groups: list[tuple[NDArray[Any], list[SliceHeader]]] = []
    lost: list[SliceHeader] = []
    for header in piece.headers:
        if header.orientation is None:
            lost.append(header)
            continue
        cosines = np.array(header.orientation)
        near = next((found for first, found in groups if np.abs(first - cosines).max() <= SAME_ORIENTATION), None)
        if near is None:
            groups.append((cosines, [header]))
        else:
            near.append(header)
    groups.sort(key=lambda group: -len(group[1]))
    if not groups:
        return [piece]
    groups[0][1].extend(lost)
    return piece.cut([(f"orientation {k}", found) for k, (_, found) in enumerate(groups, start=1)])


def _by_marks(piece: _Piece) -> list[_Piece]:
    """Cut until no two slices lie at one place, or nothing tells apart those that do."""
    headers = piece.headers
    if len(headers) < 2 or any(header.position_mm is None or header.orientation is None for header in headers):
        return [piece]
    places = _places(headers)
    crowd = int(np.bincount(places).max())
    if places.max() + 1 < MIN_SLICES:
        return [piece]
    for mark in MARK_TAGS:
        groups = _apart(headers, places, mark, crowd)
        if groups:
            return [smaller for part in piece.cut(_worded(mark, groups)) for smaller in _by_marks(part)]
    if crowd > 1:  # uneven sets, such as a third acquisition elsewhere, beside two at one place
        for mark in MARK_TAGS:
            groups = _by_mark(headers, mark)
            if all(len(group) >= MIN_SLICES and _crowd(group) == 1 for group in groups):
                return piece.cut(_worded(mark, groups))
    return [piece]


def _by_mark(headers: list[SliceHeader], mark: str) -> list[list[SliceHeader]]:
    return [group for _, group in _by(headers, lambda header: header.marks[mark])]


def _places(headers: list[SliceHeader]) -> NDArray[Any]:
    """Number of each slice's place along the normal."""
    x, y = np.array(headers[0].orientation, float).reshape(2, 3)
    along = np.array([header.position_mm for header in headers]) @ np.cross(x, y)
    order = np.argsort(along, kind="stable")
    places = np.empty(len(headers), int)
    places[order] = np.concatenate([[0], np.cumsum(np.diff(along[order]) >= POSITION_FLOOR_MM)])
    return places


def _crowd(headers: list[SliceHeader]) -> int:
    """Most slices at one place."""
    return int(np.bincount(_places(headers)).max())


def _apart(headers: list[SliceHeader], places: NDArray[np.int64], mark: str, crowd: int) -> list[list[SliceHeader]]:
    """Groups by a mark, if it tells apart slices at one place and no others; else none."""
    if mark in RANKED:
        return _ranked(headers, places, mark, crowd) if crowd > 1 else []
    groups = _by_mark(headers, mark)
    distinguished = crowd > 1 and sum(_crowd(group) for group in groups) == crowd
    sure = mark in SURE and _interleaved(headers, places, mark)
    return groups if len(groups) > 1 and (distinguished or sure) else []


def _interleaved(headers: list[SliceHeader], places: NDArray[np.int64], mark: str) -> bool:
    """Whether the values of a mark alternate along the stack, unlike those of one table position after another."""
    values = [headers[k].marks[mark] for k in np.argsort(places, kind="stable")]
    return sum(a != b for a, b in pairwise(values)) > len(set(values)) - 1


def _ranked(headers: list[SliceHeader], places: NDArray[np.int64], mark: str, crowd: int) -> list[list[SliceHeader]]:
    """The first slices at each place by a mark, the second ones, ..., if their values do not overlap."""
    values = [header.marks[mark] for header in headers]
    if None in values or len(headers) != crowd * (places.max() + 1) or (np.bincount(places) != crowd).any():
        return []
    order = np.lexsort((values, places)).reshape(-1, crowd)
    table = np.array(values)[order]
    if not (table[:, :-1].max(axis=0) < table[:, 1:].min(axis=0)).all():
        return []
    return [[headers[k] for k in order[:, rank]] for rank in range(crowd)]


def _worded(mark: str, groups: list[list[SliceHeader]]) -> list[tuple[str, list[SliceHeader]]]:
    return [(_word(mark, k, groups), group) for k, group in enumerate(groups)]


def _word(mark: str, k: int, groups: list[list[SliceHeader]]) -> str:
    """What a group is called that a mark sets apart."""
    values = [header.marks[mark] for header in groups[k]]
    if mark == "image type":
        return _type_word(k, groups)
    if mark not in NUMBERS:
        return f"{mark} {k + 1}"
    if values[0] is None:
        return f"no {mark}"
    word = NUMBERS[mark].format(float(np.median(values)))
    times = {header.marks["echo time"] for header in groups[k]}
    return f"{word} ({times.pop():g} ms)" if mark == "echo" and len(times) == 1 and None not in times else word


def _type_word(k: int, groups: list[list[SliceHeader]]) -> str:
    """Known words of ImageType that no other group has, else a number."""
    words = [_type_words(group) for group in groups]
    own = words[k].difference(*(other for j, other in enumerate(words) if j != k))
    return " ".join(sorted(own)) or f"image type {k + 1}"


def _type_words(group: list[SliceHeader]) -> set[str]:
    given = {word.strip().upper() for header in group for word in header.marks["image type"] or ()}
    return {TYPE_WORDS[word] for word in given if word in TYPE_WORDS}
