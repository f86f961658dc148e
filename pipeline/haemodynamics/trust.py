# SPDX-License-Identifier: Apache-2.0
"""How far figures can be trusted: the evidence that each rests on, and the tick that this evidence earns.

A check looks at one thing and has two limits: within the first it is good, within the second the figures that rest on
it can be used with reservation, beyond it they cannot. A figure is worth what the worst of its evidence is.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.case.physiology import LIMITS as PLAUSIBLE
from pipeline.geometry.surface.volumes import MOST_LOST
from pipeline.haemodynamics.advice import Advice
from pipeline.haemodynamics.limit import Limit
from pipeline.segmentation import limits
from solver.run.resolution import DROP_ERRORS, STATES, STREAM_ACROSS, WALL_ACROSS, State
from solver.run.units import MAX_LOSS

_FIT = "solver/run/resolution.py, WALL_ACROSS"
_BALANCE = "own choice: 1 % of the inflow, and 5 %"
LIMITS: Mapping[str, Limit] = {
    "volume cut off beyond the ends": Limit(MOST_LOST, 0.25, "own choice: the accuracy of a volume, a quarter of it"),
    "width of a closed end over that of the widest opening": Limit(
        1, 100, "own choice: the main vessel is open; a person has to look, however wide it is"
    ),
    "ends that the given surface closes": Limit(0, 100, "own choice: a person has to look, however many there are"),
    "segments of the mask in which the vessel goes on": Limit(
        0, 100, "docs/validation/first-try.md, strangers: a person has to look, however many there are"
    ),
    "parts of the given mask that were left out": Limit(
        limits.WRONG, 1, "docs/validation/first-try.md, strangers: the accuracy of a volume; a person has to look"
    ),
    "openings that may be sacs": Limit(
        0, 100, "docs/validation/first-try.md, strangers: a person has to look, however many there are"
    ),
    "flow of branches that the border cuts and that are closed": Limit(
        0.02, 0.2, "own choice: the volume that may be lost without being told, and a fifth"
    ),
    "wall that the image's border cuts": Limit(0.0, 0.05, "own choice: none of the wall, and 5 %"),
    "places where the mask may have left the vessel": Limit(
        0, 100, "docs/validation/segmentation.md, leaks inside the image: a person has to look, whatever their number"
    ),
    "part of the mask of another brightness": Limit(
        0, 1, "docs/validation/segmentation.md, two brightnesses in one mask: a person has to look, whatever its size"
    ),
    "middle of the vessel at the image's brightest value": Limit(
        limits.CUT_OFF, 1, "docs/validation/first-try.md, strangers: a window that cuts blood off: +5 to +20 %"
    ),
    "volume that one threshold misses": Limit(
        limits.WRONG, 1, "docs/validation/first-try.md, strangers: the accuracy of a volume; but an estimate"
    ),
    "volume that the levels near each place moved": Limit(
        limits.MOVED, 1, "docs/validation/first-try.md, strangers: a person has to look at so large a change"
    ),
    "volume that the threshold misses by one level": Limit(
        limits.OFF_THE_EDGE, 1, "docs/validation/first-try.md, strangers: the accuracy of a volume; but an estimate"
    ),
    "lumen of dark blood, read inverted": Limit(
        0, 100, "docs/validation/first-try.md, strangers: a wall brighter than tissue makes the volume too small"
    ),
    "volume that a curve of greys may change": Limit(
        limits.WRONG, 1, "docs/validation/first-try.md, strangers: the accuracy of a volume; but nobody knows the curve"
    ),
    "volume that a wall between markers loses": Limit(
        limits.WRONG, 1, "docs/validation/segmentation.md: two methods lose 4 to 16 % of the volume; but an estimate"
    ),
    "wall under a layer of medium brightness": Limit(
        0,
        1,
        "docs/validation/first-try.md, strangers: thrombus makes the volume 3 to 11 % too large; one threshold"
        " that gives the volume misplaces the wall",
    ),
    "vessel that goes on more dimly, of the mask": Limit(
        limits.WRONG, 10, "docs/validation/first-try.md, strangers: a person has to say where it is to end"
    ),
    "vessel that goes on beyond the region, of the mask": Limit(
        limits.WRONG, 10, "docs/validation/first-try.md, strangers: a person has to say where it is to end"
    ),
    "vessel that fades away, of the mask": Limit(
        0, 1, "docs/validation/first-try.md, strangers: a person has to look, whatever its size"
    ),
    "calcium or metal at the wall, of the mask": Limit(
        limits.TOUCHED, 0.1, "docs/validation/first-try.md, strangers: the volume is off by about twice as much"
    ),
    "vessel with something bright in its wall": Limit(
        limits.BRIGHT_RIM, 1, "docs/validation/first-try.md, strangers: a stent makes the volume 7 to 47 % too large"
    ),
    "volume that the blur leaves open": Limit(
        limits.LEFT_OPEN, 1, "docs/validation/first-try.md, strangers: vessels of two voxels in radius, to 12 %"
    ),
    "vessel that darkens towards its wall": Limit(
        limits.DARK_RIM, 1, "docs/validation/first-try.md, strangers: slow blood makes the volume 6 to 14 % too small"
    ),
    "brightness that the vessel lacks within its wall": Limit(
        limits.DARK_WITHIN,
        1,
        "docs/validation/first-try.md, strangers: saturated blood makes the volume 4 to 16 % too small",
    ),
    "volume as bright as the threshold, with no wall": Limit(
        limits.UNDECIDED, 1, "docs/validation/first-try.md, strangers: a false lumen near it, 13 to 64 % too large"
    ),
    "volume behind where two lumens touch": Limit(
        0, 0.1, "docs/validation/first-try.md, strangers: a person has to look, whatever it is; and 10 %"
    ),
    "volume behind a dark sheet in the lumen": Limit(
        0, 0.1, "docs/validation/first-try.md, strangers: a person has to look, whatever it is; and 10 %"
    ),
    "volume behind a sheet that is dark to one side": Limit(
        0, 1, "docs/validation/first-try.md, strangers: a person has to look; uneven blood looks so, too"
    ),
    "volume left out behind dark sheets": Limit(
        0, 1, "docs/validation/first-try.md, strangers: what is left was up to 11 % off"
    ),
    "volume beyond an end, in line with it": Limit(
        0, 0.1, "docs/validation/first-try.md, strangers: a person has to look, whatever it is; and 10 %"
    ),
    "volume as bright as the lumen, left out of it": Limit(
        0, 1, "docs/validation/first-try.md, strangers: a person has to look; a neighbour as bright looks so, too"
    ),
    "volume behind a dim junction, of the mask": Limit(0, 1, "docs/validation/first-try.md: a person has to look"),
    "gaps of the lumen that are joined": Limit(
        0, 100, "docs/validation/first-try.md, strangers: how wide the lumen is there, the image does not tell"
    ),
    "flow balance": Limit(0.01, 0.05, _BALANCE),
    "flow balance of the velocity field": Limit(0.01, 0.05, _BALANCE),
    "inflow against imposed": Limit(0.01, 0.05, _BALANCE),
    "radius against the network": Limit(
        0.2, 1.0, "own choice: a step of the radius by 20 % sends back about a fifth of a wave's pressure"
    ),
    "flow against the network": Limit(0.001, 0.01, "own choice: both sides are given the same volumes"),
    "pressure against the network": Limit(0.005, 0.02, "own choice: half a spacing lies between both"),
    "flow along the centreline": Limit(
        0.02, 0.05, "twice that of the openings: branches may be thinner, and their density falls along them"
    ),
    "nodes across": Limit(*WALL_ACROSS, _FIT, at_least=True),
    "nodes across the narrowest place": Limit(*WALL_ACROSS, _FIT, at_least=True),
    "Mach number": Limit(0.2, 0.3, "errors of compressibility go with its square: 4 %, and 9 %"),
    "first harmonic lost to compressibility": Limit(MAX_LOSS, 0.05, "solver/run/units.py, and own choice"),
    "wall without a fit": Limit(0.01, 0.05, "own choice: what percentiles from the 1st to the 99th leave out, and 5 %"),
    "nodes with eddy viscosity": Limit(0.01, 0.1, "own choice: 1 % of the nodes, and 10 %"),
    "pressure drop too large": Limit(*DROP_ERRORS, "solver/run/resolution.py, by the grid Reynolds number"),
    "standard error of the mean": Limit(0.01, 0.05, "solve.unsteady_tolerance unless set, and 5 %"),
    "difference of the last two cycles": Limit(0.01, 0.05, "solve.periodic_tolerance unless set, and 5 %"),
    "energy not accounted for": Limit(0.05, 0.2, "own choice"),
    "particles lost at the wall": Limit(0.01, 0.05, "own choice"),
    "nodes across the neck": Limit(10, 6, "own choice: flow through an opening has the same least", at_least=True),
    "wall shear stress too low": Limit(
        0.15, 0.3, "docs/uncertainty.md, the spacing; half of what segmentation makes of it, and all (Voss et al. 2019)"
    ),
    "wall shear stress too high by blur": Limit(
        0.15, 0.3, "docs/uncertainty.md, sacs and blur; limits as where it is too low"
    ),
    "inflow that stays in the sac": Limit(0.01, 0.1, "walls are rigid, so that it should be 0; own choice"),
}
"""By the names of the checks."""

COARSE_ENOUGH = Limit(*STREAM_ACROSS, "solver/run/resolution.py, STREAM_ACROSS", at_least=True)
"""Nodes across for figures that need no gradient at the wall."""

SHAPE = (
    "volume cut off beyond the ends",
    "width of a closed end over that of the widest opening",
    "ends that the given surface closes",
    "parts of the given mask that were left out",
    "openings that may be sacs",
    "segments of the mask in which the vessel goes on",
    "wall that the image's border cuts",
    "flow of branches that the border cuts and that are closed",
    "places where the mask may have left the vessel",
    "part of the mask of another brightness",
    "calcium or metal at the wall, of the mask",
    "vessel with something bright in its wall",
    "middle of the vessel at the image's brightest value",
    "volume that one threshold misses",
    "volume that the levels near each place moved",
    "volume that the threshold misses by one level",
    "lumen of dark blood, read inverted",
    "volume that a wall between markers loses",
    "wall under a layer of medium brightness",
    "vessel that goes on more dimly, of the mask",
    "vessel that goes on beyond the region, of the mask",
    "vessel that fades away, of the mask",
    "volume that a curve of greys may change",
    "volume that the blur leaves open",
    "vessel that darkens towards its wall",
    "brightness that the vessel lacks within its wall",
    "volume as bright as the threshold, with no wall",
    "volume behind where two lumens touch",
    "volume behind a dark sheet in the lumen",
    "volume behind a sheet that is dark to one side",
    "volume left out behind dark sheets",
    "volume beyond an end, in line with it",
    "volume as bright as the lumen, left out of it",
    "volume behind a dim junction, of the mask",
    "gaps of the lumen that are joined",
    PLAUSIBLE["narrowest_speed"].words,
)
"""What all figures rest on."""
SETTLED = ("converged", "mean of an unsteady flow", "difference of the last two cycles", "standard error of the mean")
_NODES = ("nodes across", "nodes across the narrowest place")
_FLUID = ("Mach number", "nodes with eddy viscosity")
_WALL = (*SETTLED, *_NODES, *_FLUID, "wall without a fit", PLAUSIBLE["wall_shear_stress"].words)
_PRESSURE = (*SETTLED, *_NODES, *_FLUID, "flow balance", "pressure drop too large", PLAUSIBLE["pressure_drop"].words)
_LEVEL = (*_PRESSURE, "pressure against the network")


@dataclass(frozen=True)
class Figures:
    """Figures that rest on the same evidence.

    Attributes
    ----------
    key, words : what they are called in ``indices.json``, and for reading.
    of : beginnings of the quantities in ``indices.csv`` that they are.
    evidence : names of the checks.
    needs_wall : whether nodes across count as for the gradient at the wall.
    """

    key: str
    words: str
    of: tuple[str, ...]
    evidence: tuple[str, ...]
    needs_wall: bool = False


FIGURES = (
    Figures(
        "flow",
        "flow through the openings",
        ("openings.flow", "openings.monitored", "openings.mean_speed"),
        (
            *SETTLED,
            "flow balance",
            "flow balance of the velocity field",
            "inflow against imposed",
            "radius against the network",
            "flow against the network",
            "first harmonic lost to compressibility",
        ),
    ),
    Figures(
        "speed",
        "speeds",
        (
            "peak_speed",
            "kinetic_energy_j",
            "mach_max",
            "openings.peak_speed",
            "openings.reynolds",
            "openings.womersley",
            "volume.mean_speed",
            "volume.kinetic",
        ),
        (*SETTLED, *_NODES, *_FLUID, "flow balance"),
    ),
    Figures(
        "pressure",
        "pressures and pressure drops",
        ("pressure_drops", "openings.pressure", "openings.total_pressure"),
        _LEVEL,
    ),
    Figures("wall", "wall shear stress", ("wall.shear", "wall.low_shear"), _WALL, needs_wall=True),
    Figures("oscillation", "oscillatory shear index and what follows from it", ("wall.osi",), _WALL, needs_wall=True),
    Figures(
        "along",
        "figures along the centreline and at narrow places",
        ("centreline", "stenoses"),
        (*_PRESSURE, "flow along the centreline", "wall without a fit"),
        needs_wall=True,
    ),
    Figures(
        "volume",
        "dissipation, vortices and other figures of the lumen",
        ("volume",),
        (*SETTLED, *_NODES, *_FLUID),
        needs_wall=True,
    ),
    Figures("energy", "balance of energy", ("energy",), (*SETTLED, *_NODES, *_FLUID, "energy not accounted for")),
    Figures(
        "particles",
        "ages and paths of particles",
        (),
        (*SETTLED, *_NODES, "flow balance", "particles lost at the wall"),
    ),
)
"""In the order of the report; particles are judged where they are known."""


def check(name: str, unit: str, value: float, advice: str | Advice, of: str = "") -> dict[str, Any]:
    """A check as it stands in ``indices.json``: name, value, limits, what it is worth, and advice where it is not good.

    Parameters
    ----------
    name : of the check, a key of `LIMITS`.
    unit : ``%`` for fractions.
    value : what was found.
    advice : given where it is not good; as text at last by :func:`advice.in_words`.
    of : what it is of, where there are several.
    """
    limit = LIMITS[name]
    state = limit.state(value)
    return {
        "name": f"{name} ({of})" if of else name,
        "unit": unit,
        "value": value,
        "limit": limit.good,
        "usable_limit": limit.usable,
        "at_least": limit.at_least,
        "state": state,
        "passed": state == "good",
        "advice": None if state == "good" else advice,
    }


def state_of(found: Mapping[str, Any]) -> State:
    """What a check is worth; one that only says whether it passed, with reservation where it did not."""
    state: State = found.get("state") or ("good" if found["passed"] else "reservation")
    return state


def judged(indices: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every group of figures of ``indices.json`` with its evidence and what it is worth; sacs one by one."""
    checks = indices["checks"]
    groups = [group for group in FIGURES if any(_has(indices, start) for start in group.of)]
    found = [judge(group, checks) for group in groups]
    shear = next(group for group in FIGURES if group.key == "wall").evidence
    for sac in indices.get("sacs", ()):
        name = sac["name"]
        own = tuple(f"{each} ({name})" for each in ("nodes across the neck", "inflow that stays in the sac"))
        words = sac_in_words(name)
        found.append(judge(Figures(f"sac {name}", f"flow in the {words}", (), (*SETTLED, *_FLUID, *own)), checks))
        stress = (f"wall shear stress too {each} ({name})" for each in ("low", "high by blur"))
        wall = Figures(f"sac {name} wall", f"wall shear stress of the {words}", (), (*shear, own[0], *stress), True)
        found.append(judge(wall, checks))
    return found


def judge(group: Figures, checks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """A group of figures with what it rests on and what it is worth."""
    by_name = {each["name"]: each for each in checks}
    evidence = []
    for name in (*SHAPE, *group.evidence):
        if (found := by_name.get(name)) is None:
            continue
        if name in _NODES and not group.needs_wall:
            state, good = COARSE_ENOUGH.state(found["value"]), COARSE_ENOUGH.good
        else:
            state, good = state_of(found), found["limit"]
        shown = {key: found[key] for key in ("name", "value", "unit", "usual") if key in found}
        evidence.append(shown | {"limit": good, "at_least": found.get("at_least", False), "state": state})
    state = worst(each["state"] for each in evidence)
    return {"key": group.key, "figures": group.words, "of": list(group.of), "state": state, "evidence": evidence}


def of_particles(checks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What ages and paths of particles are worth, by their checks and those of the flow."""
    return judge(next(each for each in FIGURES if each.key == "particles"), checks)


def worst(states: Iterable[State]) -> State:
    """The worst of some states; good where there are none."""
    return max(states, key=STATES.index, default="good")


def trust_of(trust: Sequence[Mapping[str, Any]], quantity: str, name: str) -> str:
    """What a row of ``indices.csv`` is worth; empty where nothing is said of it.

    Parameters
    ----------
    trust : what ``indices.json`` says of the groups of figures.
    quantity, name : of the row.

    Returns
    -------
    ``good``, ``reservation``, ``unusable``, or empty.
    """
    if quantity.startswith("sacs."):
        wall = " wall" if any(word in quantity for word in ("shear", "osi")) else ""
        return next((each["state"] for each in trust if each["key"] == f"sac {name}{wall}"), "")
    found = [(len(start), each["state"]) for each in trust for start in each["of"] if quantity.startswith(start)]
    return str(max(found)[1]) if found else ""


def sac_in_words(name: str) -> str:
    """A sac by its name: ``sac``, ``sac_2``, ``sac left``."""
    return name if name.startswith("sac") else f"sac {name}"


def _has(indices: Mapping[str, Any], start: str) -> bool:
    """Whether there is a number whose way begins so."""
    first, _, rest = start.partition(".")
    for key, value in indices.items():
        if not rest and key.startswith(first) and value not in (None, [], {}):
            return True
        if rest and key == first:
            entries = value if isinstance(value, list) else [value]
            return any(isinstance(each, Mapping) and any(k.startswith(rest) for k in each) for each in entries)
    return False
