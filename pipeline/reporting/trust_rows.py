# SPDX-License-Identifier: Apache-2.0
"""What the page says of the checks, and of how far each figure can be trusted."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.haemodynamics.trust import of_particles, state_of
from pipeline.reporting.case_evidence import Evidence
from pipeline.reporting.tables import number, percent

MEANING = {
    "converged": "the flow settled before the run ended",
    "mean of an unsteady flow": "the flow fluctuates: its mean was taken for long enough",
    "flow balance": "what flows in less what flows out, counted by the solver, as a part of the inflow",
    "flow balance of the velocity field": "the same, read off the velocity just inside the openings",
    "inflow against imposed": "flow through the inlet, read off the velocity, against the flow that was set",
    "radius against the network": "of the opening that differs most from the piece of the network that the vessel"
    " replaces",
    "flow against the network": "mean flow through an opening less what the network has there, by the largest of them",
    "pressure against the network": "mean pressure on a cap against the network's",
    "flow along the centreline": "largest difference of the flow from section to section of a branch",
    "nodes across the narrowest place": "points of the lattice across the narrowest place through which blood passes",
    "nodes across": "points of the lattice across the narrowest opening; more of them, finer wall shear stress",
    "Mach number": "largest speed over that of sound in the model; small, so that blood stays incompressible",
    "first harmonic lost to compressibility": "largest part of an outlet's pulse that the model's compressible fluid is"
    " expected to take up, or to add where it is less than 0",
    "wall without a fit": "part of the wall whose stress comes from a single node",
    "difference of the last two cycles": "largest difference in velocity, flow and pressure",
    "standard error of the mean": "how well the means of the fluctuating flow are known",
    "nodes with eddy viscosity": "part of the nodes at which the model adds viscosity, where the lattice is too coarse",
    "pressure drop too large": "at most, as measured in vessels at this grid Reynolds number and nodes across",
    "energy not accounted for": "power that enters and is found neither leaving, nor lost to friction, nor stored",
    "particles lost at the wall": "part of the particles that numerical error carried out of the fluid",
    "nodes across the neck": "points of the lattice across the neck of the sac",
    "wall shear stress too low": "as measured in vessels with a sac at this Reynolds number and nodes across",
    "wall shear stress too high by blur": "of itself, as measured in vessels with a sac in images with such an edge",
    "mass not accounted for": "what flows into a network less what leaves and what is stored, as a part of the inflow",
    "work not accounted for": "work that enters and is neither lost to friction or in walls, nor leaves, nor is stored",
    "largest speed over that of waves": "blood must be slower than its waves, or the equations lose their sense",
    "cells of the shortest segment": "a segment has two at least, however short it is",
    "cells over the shortest wave": "cells over the wavelength of the tenth harmonic, where waves are slowest",
    "inflow that stays in the sac": "part of the sac's inflow that does not come out again, which should be none",
}
"""What each check is about, by its name."""


def trust_judged(given: Evidence) -> list[Mapping[str, Any]]:
    """What groups of figures are worth: those of ``indices.json``, and the particles where there are some."""
    found: list[Mapping[str, Any]] = list(given.indices.get("trust", ()))
    if given.particles:
        found.append(of_particles([*given.indices["checks"], *given.particles["checks"]]))
    return found


STATE_WORDS: Mapping[str, str] = {"good": "good", "reservation": "with reservation", "unusable": "not usable"}


def trust_rows(judged: Mapping[str, Any]) -> dict[str, Any]:
    """What a group of figures is worth, in words: why, where it is not good, else what it rests on; and by how many
    checks.
    """
    state = judged["state"]
    shown = [each for each in judged["evidence"] if state == "good" or each["state"] != "good"]
    why = "; ".join(_evidence_words(each) for each in shown)
    count = f"{len(shown)} {'check' if len(shown) == 1 else 'checks'}"
    return {"state": state, "words": STATE_WORDS[state], "why": why, "count": count}


def _evidence_words(evidence: Mapping[str, Any]) -> str:
    if isinstance(evidence["value"], bool):
        return str(evidence["name"]) if evidence["value"] else f"not {evidence['name']}"
    value = percent(evidence["value"]) if evidence["unit"] == "%" else number(evidence["value"])
    if evidence["state"] == "good":
        return f"{evidence['name']} {value}"
    if "usual" in evidence:
        return f"{evidence['name']} {value} (unusual: {evidence['usual'][0]:g} to {evidence['usual'][1]:g} are usual)"
    limit = percent(evidence["limit"]) if evidence["unit"] == "%" else f"{evidence['limit']:g}"
    return f"{evidence['name']} {value} (good {'from' if evidence['at_least'] else 'up to'} {limit})"


def by_state(trust: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, list[str]]]:
    """Which figures are good, usable with reservation, and not usable: state, words, figures with the reasons. Figures
    with the same reasons stand together; a reason that all have stands once, before the others of its state.
    """
    doubts = [
        {_evidence_words(each): each["state"] for each in group["evidence"] if each["state"] != "good"}
        for group in trust
    ]
    shared = [words for words in doubts[0] if all(words in others for others in doubts)] if len(trust) > 1 else []
    found = []
    for state, words_of in STATE_WORDS.items():
        label = [f"all figures: {words}" for words in shared if doubts[0][words] == state]
        together: dict[str, list[str]] = {}
        for group, of_group in zip(trust, doubts, strict=True):
            if group["state"] == state:
                own = "; ".join(words for words in of_group if words not in shared)
                together.setdefault(own, []).append(group["figures"])
        label += [f"{'; '.join(named)}: {own}" if own else "; ".join(named) for own, named in together.items()]
        if label:
            found.append((state, words_of, label))
    return found


def across(checks: Sequence[Mapping[str, Any]]) -> str | None:
    """Nodes across the narrowest place or opening, in words; none where nothing was counted."""
    counted = [each["value"] for each in checks if each["name"] in ("nodes across", "nodes across the narrowest place")]
    return f"{number(min(counted))} nodes across its narrowest place" if counted else None


def search_words(indices: Mapping[str, Any]) -> dict[str, Any] | None:
    """How many sacs there are, how they were looked for, and the places that were taken for none, the widest first."""
    if (search := indices.get("sac_search")) is None:
        return None
    sacs = indices.get("sacs", ())
    marked = sum(sac["found_by"] == "neck plane" for sac in sacs)
    nothing = "None found" if search["searched"] else "None marked"
    counted = f"{len(sacs)} {'sac' if len(sacs) == 1 else 'sacs'}" if sacs else nothing
    by = f" ({marked} marked, {len(sacs) - marked} found)" if sacs else ""
    refused = [
        (", ".join(f"{x:.1f}" for x in each["place_mm"]), number(each["wideness_radii"]), each["reason"])
        for each in sorted(search["refused"], key=lambda each: -each["wideness_radii"])
    ]
    nearest = None
    if not refused and search["widest"] is not None:
        nearest = f"Elsewhere the wall reaches at most {number(search['widest'])} radii from the parent's line."
    return {"count": f"{counted}{by}.", "rule": search["rule"], "nearest": nearest, "refused": refused}


def _meaning(name: str) -> str:
    """What a check is about; that of a sac by the name of the check alone."""
    return MEANING.get(name) or MEANING.get(name.partition(" (")[0], "")


def check_shown(check: Mapping[str, Any]) -> dict[str, Any]:
    """A check as the page shows it: value and limit in words."""
    shown = {
        "name": check["name"],
        "passed": check["passed"],
        "meaning": _meaning(check["name"]),
        "state": STATE_WORDS[state_of(check)],
    }
    if isinstance(check["value"], bool):
        return shown | {"value": "yes" if check["value"] else "no", "limit": ""}
    if "usual" in check:
        low, high = check["usual"]
        value = f"{number(check['value'])} {check['unit']}".rstrip()
        return shown | {"value": value, "limit": f"usual: {low:g} to {high:g}", "meaning": check["source"]}
    in_percent = check["unit"] == "%"
    value = percent(check["value"]) if in_percent else number(check["value"])
    limit = f"{100 * check['limit']:g} %" if in_percent else f"{check['limit']:g}"
    return shown | {"value": value, "limit": f"{'at least' if check.get('at_least') else 'at most'} {limit}"}
