# SPDX-License-Identifier: Apache-2.0
"""Checks of a flow: what the trust in its figures rests on, as it stands in ``indices.json``."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pipeline.haemodynamics.advice import Advice, Setting
from pipeline.haemodynamics.trust import LIMITS, check
from solver.domain.nodes import Nodes

if TYPE_CHECKING:
    from pipeline.haemodynamics.centreline_profile import CentrelineProfile, Row  # plausibility needs none of SciPy

CARRIES = 0.02
"""A branch with less than this part of the largest flow is not judged: it changes that of others by no more, which is
what the wall shear stress may be off with 20 nodes across."""

SHEAR_ERRORS = ((14, 5, 13), (10, 7, 18), (0, 13, 23))
"""Nodes across from which on the mean wall shear stress, and the largest, is off by so many percent: root mean square
over 24 drawn vessels with 16, 12 and 8 (docs/uncertainty.md)."""

MIN_SECTIONS = 3
"""Sections from which the flow along a branch is judged."""


def imbalance(openings: Iterable[Mapping[str, Any]], key: str) -> float:
    """(inflow - outflow) / inflow over all openings; `key` names the flow."""
    flows = [(opening["role"], opening[key]) for opening in openings]
    inflow = sum(flow for role, flow in flows if role == "inlet")
    outflow = sum(flow for role, flow in flows if role == "outlet")
    return (inflow - outflow) / inflow if inflow else float("inf")


def lattice_checks(
    nodes: Nodes, openings: list[dict[str, Any]], nearest: float, summary: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """What the trust in the result rests on: see :func:`trust.check`.

    Values with the unit ``%`` are stored as fractions.

    Parameters
    ----------
    nodes : the lattice and its openings.
    openings : their entries in ``indices.json``.
    nearest : part of the wall's vertices whose stress is that of the nearest node.
    summary : what the solver says of its run (``solve.json``).
    """
    mach = float(summary["mach"])
    return [
        *_settling_checks(summary),
        *(_opening_checks(nodes, openings) if openings else ()),
        check(
            "Mach number",
            "",
            mach,
            f"a Mach number of {mach:.2g} makes the fluid compressible; lower solve.lattice_speed",
        ),
        *_model_checks(summary),
        check(
            "wall without a fit",
            "%",
            nearest,
            f"{nearest:.1%} of the wall takes its shear stress from the nearest node alone; use a finer spacing",
        ),
    ]


def _settling_checks(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Whether the flow is what it was run for, and how well its cycles repeat or its mean is known."""
    converged, advice = bool(summary["converged"]), "raise solve.max_steps or solve.cycles"
    differ = max((summary.get("periodicity") or {}).values(), default=None)
    found = [
        {
            "name": "mean of an unsteady flow" if summary.get("unsteady") else "converged",
            "unit": "",
            "value": converged,
            "limit": True,
            "passed": converged,
            "state": "good" if converged else "unusable" if differ is None else "reservation",
            "advice": None if converged else f"the flow had not settled when the solver stopped; {advice}",
        }
    ]
    fluctuation = (summary.get("fluctuation") or {}) if summary.get("unsteady") else {}
    if differ is not None and not fluctuation:
        words = f"the last two cycles differ by {differ:.2%}; raise solve.cycles"
        found.append(check("difference of the last two cycles", "%", differ, words))
    if errors := fluctuation.get("standard_error"):
        error = max(errors.values())
        limit = "cycles" if fluctuation.get("cycles") else "unsteady_throughs, or solve.max_steps where it is set"
        words = f"the means of the unsteady flow have standard errors up to {error:.2%}; raise solve.{limit}"
        found.append(check("standard error of the mean", "%", error, words))
    return found


def _model_checks(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Whether models of the lattice change the flow little: compressibility, eddy viscosity, grid Reynolds number."""
    found = []
    if (loss := summary["numbers"].get("first_harmonic_loss")) is not None:
        words = (
            f"the lattice's compressibility is expected to take {loss:.1%} of the first harmonic of an outlet's flow;"
            " lower solve.lattice_speed, to which it is proportional squared"
        )
        found.append(check("first harmonic lost to compressibility", "%", loss, words))
    if (part := (summary.get("models", {}).get("eddies") or {}).get("part_of_nodes")) is not None:
        words = f"the eddy viscosity acts at {part:.1%} of the nodes: the lattice is too coarse for the flow there"
        found.append(check("nodes with eddy viscosity", "%", part, f"{words}; use a finer spacing"))
    if error := summary.get("pressure_drop_error"):
        words = f"pressure drops by friction may be up to {error:.0%} too large at this spacing; use a finer spacing"
        found.append(check("pressure drop too large", "%", error, words))
    return found


def energy_checks(energy: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Whether the power that enters is found again."""
    if (left := energy.get("unaccounted_fraction")) is None:
        return []
    words = f"{left:+.1%} of the power supplied is not accounted for: dissipation is off by about that; use a finer"
    return [check("energy not accounted for", "%", left, f"{words} spacing")]


def _imposed_check(error: float) -> dict[str, Any]:
    than = "more" if error > 0 else "less"
    words = f"the velocity field carries {abs(error):.2%} {than} than the flow that is imposed; use a finer spacing"
    return check("inflow against imposed", "%", error, words)


def _opening_checks(nodes: Nodes, openings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    narrowest = min(nodes.openings, key=lambda opening: opening.radius_mm)
    across = 2 * narrowest.radius_mm / nodes.spacing_mm
    counted, in_field = imbalance(openings, "monitored_flow_ml_s"), imbalance(openings, "flow_ml_s")
    errors = [o["flow_ml_s"] / o["imposed_flow_ml_s"] - 1 for o in openings if o["imposed_flow_ml_s"]]
    return [
        check(
            "flow balance",
            "%",
            counted,
            f"inflow and outflow differ by {counted:.2%} of the inflow; run longer or use a finer spacing",
        ),
        check(
            "flow balance of the velocity field",
            "%",
            in_field,
            f"the velocity field just inside the openings is out of balance by {in_field:.2%} of the inflow;"
            " use a finer spacing, or cut the openings where the vessel is straight",
        ),
        *(_imposed_check(max(errors, key=abs)) for _ in errors[:1]),
        check(
            "nodes across",
            "",
            across,
            Advice(
                f"only {across:.1f} nodes across opening {narrowest.name}: wall shear stress may be off by"
                f" {_shear_error(across)}",
                resolving(across, nodes.spacing_mm),
            ),
        ),
    ]


def resolving(across: float, spacing_mm: float) -> Setting:
    """The setting by which as many nodes lie across as are wanted, where now there are fewer."""
    finer_mm = 0.99 * spacing_mm * across / LIMITS["nodes across"].good
    return Setting("voxelize", "spacing_mm", finer_mm, instead_of=("nodes_across",))


def _shear_error(across: float) -> str:
    """How far wall shear stress may be off, as docs/uncertainty.md measures it."""
    mean, largest = next(errors for least, *errors in SHEAR_ERRORS if across >= least)
    return f"{mean} % on average and by {largest} % where it is largest, for its lattice alone"


def centreline_checks(nodes: Nodes, profile: "CentrelineProfile", branches: "list[Row]") -> list[dict[str, Any]]:
    """Checks of the branches that carry the flow: mass along them, and nodes across the narrowest of them.

    Parameters
    ----------
    nodes : the lattice.
    profile : whose branches are looked at.
    branches : their entries in ``indices.json``.
    """
    largest = max((abs(each["flow_ml_s"]) for each in branches), default=0.0)
    trickles = {each["branch"] for each in branches if abs(each["flow_ml_s"]) < CARRIES * largest}
    judged = [
        each
        for each in branches
        if each["flow_deviation"] is not None and each["sections"] >= MIN_SECTIONS and each["branch"] not in trickles
    ]
    worst = max(judged, key=lambda each: float(each["flow_deviation"]), default=None)
    checks = []
    if worst:
        deviation = worst["flow_deviation"]
        words = f"the flow along branch {worst['branch']} differs by {deviation:.2%} from section to section"
        checks.append(check("flow along the centreline", "%", deviation, f"{words}; run longer or use a finer spacing"))
    passed = [branch for branch in profile.branches if branch.leads and branch.id not in trickles]
    if passed:
        narrowest = min(passed, key=lambda branch: float(branch.radius_mm[branch.narrowest]))
        across = 2 * float(narrowest.radius_mm[narrowest.narrowest]) / nodes.spacing_mm
        checks.append(
            check(
                "nodes across the narrowest place",
                "",
                across,
                Advice(
                    f"only {across:.1f} nodes across the narrowest place, in branch {narrowest.id}: wall shear stress"
                    f" there may be off by {_shear_error(across)}",
                    resolving(across, nodes.spacing_mm),
                ),
            )
        )
    return checks
