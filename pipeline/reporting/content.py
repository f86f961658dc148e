"""What the page says: texts and tables made of what the stages before it wrote."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.haemodynamics.trust import FIGURES, check, judge, state_of
from pipeline.reporting.figures import opening_colours
from pipeline.reporting.tables import DASH, Rows, column, facts, number, percent
from pipeline.reporting.wording import BRANCHES, ENERGY, RESIDENCE, SAC, STENOSES, VOLUME, table_rows, tabled
from pipeline.segmentation.page import LABELS, PER_PERCENT, threshold_curve
from pipeline.segmentation.page import figures as mask_figures
from solver.domain.nodes import Opening
from solver.run.units import words

GIVEN = {
    "mask": "This case enters with a given mask: the image that it was made from is not known here, nor how far the"
    " lumen hangs on a threshold.",
    "geometry": "This case enters with a canonical geometry: no image, no patient.",
    "surface": "This case enters with a given surface: the image and the mask that it was made from are not known here,"
    " nor how far the lumen hangs on a threshold.",
}
"""What must be said where no image leads to the lumen."""

MEANING = {
    "converged": "the flow settled before the run ended",
    "mean of an unsteady flow": "the flow fluctuates under steady conditions: its mean was taken for long enough",
    "flow balance": "what flows in less what flows out, counted by the solver, as a part of the inflow",
    "flow balance of the velocity field": "the same, read off the velocity just inside the openings",
    "inflow against imposed": "flow through the inlet, read off the velocity, against the flow that was set",
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
    "pressure drop too large by": "at most, as measured at this grid Reynolds number with 12 to 14 nodes across",
    "energy not accounted for": "power that enters and is found neither leaving, nor lost to friction, nor stored",
    "particles lost at the wall": "part of the particles that numerical error carried out of the fluid",
    "nodes across the neck": "points of the lattice across the neck of the sac",
    "inflow that stays in the sac": "part of the sac's inflow that does not come out again, which should be none",
}
"""What each check is about, by its name."""

LIMIT_PRESSURE_RATIO = (
    "A measured fractional flow reserve is a ratio of mean pressures at the largest flow that drugs bring about; at"
    " 0.80 or less a coronary stenosis takes treatment (Tonino et al. 2009, doi:10.1056/NEJMoa0807611). The ratio"
    " here holds for the flow that was assumed, and is no such measurement."
)


@dataclass(frozen=True)
class Evidence:
    """What the stages wrote.

    Attributes
    ----------
    indices, summary : ``indices.json``, ``solve.json``.
    openings : of the vessel.
    geometry : how the surface was made, from ``openings.json``.
    image, segmentation : ``series.json``, ``segmentation.json``; none where the case enters with a mask or a surface.
    tree : ``centreline.json``; none where the vessel has no centreline.
    particles, grid : ``particles.json``, ``grid_convergence.json``; none where they were not made.
    records : provenance by stage.
    """

    indices: Mapping[str, Any]
    summary: Mapping[str, Any]
    openings: tuple[Opening, ...]
    geometry: Mapping[str, Any]
    image: Mapping[str, Any] | None
    segmentation: Mapping[str, Any] | None
    tree: Mapping[str, Any] | None
    particles: Mapping[str, Any] | None
    grid: Mapping[str, Any] | None
    records: Mapping[str, Mapping[str, Any]]


def context(given: Evidence) -> dict[str, Any]:
    """Texts and tables of the page, by the names in its template; what is not there is empty or none."""
    indices, mask = given.indices, given.segmentation or {}
    grid = given.grid or {}
    warned = (mask, indices, grid, given.particles or {})
    unsettled = indices.get("unsettled")
    trust = _trust(given)
    warnings = [warning for each in warned for warning in each.get("warnings", ()) if warning != unsettled]
    return {
        "unsettled": unsettled,
        "unsteady": indices.get("unsteady"),
        "warnings": warnings,
        "trusted": not warnings
        and all(check["passed"] for check in indices["checks"])
        and all(each["state"] == "good" for each in trust),
        "usable": _by_state(trust),
        "trust": {each["key"]: _trust_rows(each) for each in trust},
        "across": _across(indices["checks"]),
        "checks": [_check(check) for check in indices["checks"]],
        "figures_first": key_figures(given),
        **_flow(given),
        "wall": _wall_rows(indices["wall"]),
        "residence": table_rows(given.particles or {}, RESIDENCE),
        "particle_shares": _particle_shares(given.particles or {}),
        "grid": _grid_rows(grid),
        "grid_spacings": ", ".join(f"{each:.3g}" for each in grid.get("spacings_mm", [])),
        "notes": given.summary.get("notes", []),
        "expected": facts(given.summary["numbers"]),
        "outcome": _outcome(given.summary),
        "models": facts(_models(given.summary)),
        "given": None if given.image else GIVEN[_entry(given)],
        "image": facts(given.image or {}, leave_out=("origin_mm", "series", "dtype")),
        "segmented": given.segmentation is not None,
        "mask": mask_figures(mask),
        "curve": threshold_curve(mask),
        "segmentation": facts(mask, leave_out=LABELS.keys() | PER_PERCENT.keys()),
        "geometry": [] if given.segmentation else facts(given.geometry),
        "branches": _branch_rows(given.tree["branches"]) if given.tree else [],
        "forks": _fork_rows(given.tree["bifurcations"]) if given.tree else [],
        "narrowest": _narrowest(given.tree) if given.tree else None,
        "left_out": left_out_rows(given),
        "doubts": given.tree["warnings"] if given.tree else [],
        "triangles": _triangle_rows(given.geometry),
        **_provenance(given.records),
    }


def _models(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The models of a run as plain values, those of the eddy viscosity among them, and where it ran."""
    models = summary["models"]
    eddies = {f"eddy_viscosity_{key}": value for key, value in (models.get("eddies") or {}).items()}
    return models | eddies | {"device": summary["device"]}


def _flow(given: Evidence) -> dict[str, Any]:
    """What is known of the flow beyond pictures: openings, pressure, narrow places, sacs, volume and energy."""
    indices = given.indices
    sacs = indices.get("sacs", ())
    drops, branches = indices["pressure_drops"], indices.get("centreline", ())
    openings = indices if indices["times"] > 1 else _without_pulse(indices)
    return {
        "openings": _opening_rows(openings, given.openings, FLOW_COLUMNS),
        "opening_pressures": _opening_rows(openings, given.openings, PRESSURE_COLUMNS),
        "drops": _drop_table(drops),
        "ratio_note": indices.get("pressure_ratio_note") if drops else None,
        "ratio_limit": LIMIT_PRESSURE_RATIO if any(drop.get("pressure_ratio") for drop in drops) else None,
        "stenoses": tabled(indices.get("stenoses", ()), STENOSES),
        "sacs": [(str(sac["name"]), table_rows(sac, SAC)) for sac in sacs],
        "sac_search": _search(indices),
        "volume": table_rows(indices.get("volume", {}), VOLUME),
        "energy": table_rows(indices.get("energy", {}), ENERGY),
        "along_branches": tabled([each for each in branches if each["leads_to_opening"]], BRANCHES),
    }


def _without_pulse(indices: Mapping[str, Any]) -> dict[str, Any]:
    """The openings of a steady flow: ranges over time that are none are left out."""
    kept = [{key: value for key, value in row.items() if key not in OF_PULSE} for row in indices["openings"]]
    return {"openings": kept}


def _particle_shares(particles: Mapping[str, Any]) -> Rows:
    """Where particles from the inlets leave, beside where the flow does."""
    outlets = particles.get("outlets", ())
    return [(each["name"], percent(each["particle_share"]), percent(each["flow_share"])) for each in outlets]


def _entry(given: Evidence) -> str:
    """With what a case without an image enters."""
    if given.segmentation:
        return "mask"
    return "geometry" if given.geometry.get("source") == "canonical geometry" else "surface"


def _outcome(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the run came to, and how far the last two cycles differ where there were any."""
    differ = {f"difference of the last two cycles in {key}": v for key, v in (summary.get("periodicity") or {}).items()}
    return facts(summary, leave_out=("converged", "unsettled", "unsteady", "device")) + [
        (name, percent(v)) for name, v in differ.items()
    ]


def _trust(given: Evidence) -> list[Mapping[str, Any]]:
    """What groups of figures are worth: those of ``indices.json``, and the particles where there are any."""
    found: list[Mapping[str, Any]] = list(given.indices.get("trust", ()))
    if given.particles:
        group = next(each for each in FIGURES if each.key == "particles")
        lost = given.particles.get("in_volume", {}).get("lost_share")
        own = [] if lost is None else [check("particles lost at the wall", "%", lost, "")]
        found.append(judge(group, [*given.indices["checks"], *own]))
    return found


STATE_WORDS: Mapping[str, str] = {"good": "good", "reservation": "with reservation", "unusable": "not usable"}


def _trust_rows(judged: Mapping[str, Any]) -> dict[str, Any]:
    """What a group of figures is worth, in words: why, where it is not good, else what it rests on."""
    state = judged["state"]
    shown = [each for each in judged["evidence"] if state == "good" or each["state"] != "good"]
    why = "; ".join(_evidence_words(each) for each in shown)
    return {"state": state, "words": STATE_WORDS[state], "why": why}


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


def _by_state(trust: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, list[str]]]:
    """Which figures are good, usable with reservation, and not usable: state, words, figures with the reasons."""
    found = []
    for state, words_of in STATE_WORDS.items():
        groups = [each for each in trust if each["state"] == state]
        label = [
            each["figures"] if state == "good" else f"{each['figures']}: {_trust_rows(each)['why']}" for each in groups
        ]
        if groups:
            found.append((state, words_of, label))
    return found


def _across(checks: Sequence[Mapping[str, Any]]) -> str | None:
    """Nodes across the narrowest place or opening, in words; none where nothing was counted."""
    counted = [each["value"] for each in checks if each["name"] in ("nodes across", "nodes across the narrowest place")]
    return f"{number(min(counted))} nodes across its narrowest place" if counted else None


def _search(indices: Mapping[str, Any]) -> dict[str, Any] | None:
    """How many sacs there are, how they were looked for, and the nearest candidate that was none."""
    if (search := indices.get("sac_search")) is None:
        return None
    sacs = indices.get("sacs", ())
    marked = sum(sac["found_by"] == "neck plane" for sac in sacs)
    nothing = "None found" if search["searched"] else "None marked"
    counted = f"{len(sacs)} {'sac' if len(sacs) == 1 else 'sacs'}" if sacs else nothing
    by = f" ({marked} marked, {len(sacs) - marked} found)" if sacs else ""
    refused = max(search["refused"], key=lambda each: each["wideness_radii"], default=None)
    nearest = None
    if refused:
        place = ", ".join(f"{x:.1f}" for x in refused["place_mm"])
        nearest = f"The nearest candidate that was refused, at ({place}) mm: {refused['reason']}."
    elif search["widest"] is not None:
        nearest = f"Elsewhere the wall reaches at most {number(search['widest'])} radii from the parent's line."
    return {"count": f"{counted}{by}.", "rule": search["rule"], "nearest": nearest}


def _meaning(name: str) -> str:
    """What a check is about; that of a sac by the name of the check alone."""
    return MEANING.get(name) or MEANING.get(name.partition(" of ")[0], "")


def _check(check: Mapping[str, Any]) -> dict[str, Any]:
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


def key_figures(given: Evidence) -> list[dict[str, Any]]:
    """Key figures, each with the key of what it is worth, and with what is usual where a range is established."""
    indices = given.indices
    inlets = [opening for opening in indices["openings"] if opening["role"] == "inlet"]
    drop = max(indices["pressure_drops"], key=lambda each: abs(each["drop_pa"]), default=None)
    wall, averaged = indices["wall"], "time-averaged " if indices["times"] > 1 else ""
    found = [
        _figure(
            "peak speed", number(indices["peak_speed_m_s"]), "m/s", "speed", _mach(given), _index(given.grid, "speed")
        ),
        _figure(
            f"mean {averaged}wall shear stress",
            number(wall["shear_mean_pa"]),
            "Pa",
            "wall",
            "usual in arteries: 1 to 7 Pa",
            _index(given.grid, "shear", "mean"),
        ),
        _figure(
            f"99th percentile of the {averaged}wall shear stress",
            number(wall["shear_p99_pa"]),
            "Pa",
            "wall",
            "",
            _index(given.grid, "shear", "99"),
        ),
        _figure(
            "of the wall below 0.4 Pa",
            f"{100 * wall['low_shear_fraction']['0.4 Pa']:.1f}",
            "%",
            "wall",
            "below 0.4 Pa walls are prone to plaque",
            _index(given.grid, "low"),
        ),
    ]
    if inlets:
        flow = number(sum(opening["flow_ml_s"] for opening in inlets))
        imposed = [opening["imposed_flow_ml_s"] for opening in inlets if opening["imposed_flow_ml_s"]]
        set_to = f"imposed: {number(sum(imposed))} mL/s" if imposed else ""
        found.insert(0, _figure("inflow", flow, "mL/s", "flow", set_to, _index(given.grid, "inflow")))
    if drop:
        name = f"pressure drop, {drop['inlet']} to {drop['outlet']} ({number(drop['drop_pa'])} Pa)"
        value = number(drop["drop_mmhg"])
        found.insert(2, _figure(name, value, "mmHg", "pressure", "", _index(given.grid, "pressure")))
    if "osi_mean" in wall:
        usual = "0: one direction; 0.5: to and fro"
        found.append(
            _figure(
                "mean oscillatory shear index",
                number(wall["osi_mean"]),
                "",
                "oscillation",
                usual,
                _index(given.grid, "oscillatory"),
            )
        )
    return found


def _figure(name: str, value: str, unit: str, trust: str, usual: str, index: str | None) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "trust": trust, "usual": usual, "index": index}


def _mach(given: Evidence) -> str:
    """The Mach number that was reached and the one that was expected."""
    expected = given.summary["numbers"].get("expected_mach")
    foreseen = f", {number(expected)} expected" if expected else ""
    return f"Mach number {number(given.summary['mach'])}{foreseen}"


def _index(grid: Mapping[str, Any] | None, *words_in: str) -> str | None:
    """The grid convergence index of the first quantity whose name has all words; none where there is none."""
    for quantity in (grid or {}).get("quantities", ()):
        name = words(quantity["name"]).lower()
        if quantity["gci"] is not None and all(word in name for word in words_in):
            return f"grid convergence index {percent(quantity['gci'])}"
    return None


def _grid_rows(grid: Mapping[str, Any]) -> tuple[list[str], Rows]:
    """A row for each quantity of the study of the grid: its values from coarse to fine, order, limit and index."""
    if not grid.get("quantities"):
        return [], []
    head = ["quantity", *(f"at {each:.3g} mm" for each in grid["spacings_mm"])]
    rows = []
    for each in grid["quantities"]:
        values = column([*each["values"], each["extrapolated"]])
        label = words(each["name"])
        name = f"{label} ({each['unit']})" if each["unit"] and not label.endswith(")") else label
        order = DASH if each["order"] is None else f"{each['order']:.2f}"
        gci = DASH if each["gci"] is None else f"{100 * each['gci']:.2f}"
        rows.append((name, *values[:-1], values[-1], order, gci, str(each["behaviour"])))
    return [*head, "extrapolated", "order", "grid convergence index (%)", "behaviour"], rows


FLOW_COLUMNS = {
    "radius_mm": "radius (mm)",
    "flow_ml_s": "flow (mL/s)",
    "imposed_flow_ml_s": "imposed (mL/s)",
    "flow_share": "share of the flow (%)",
    "flow_min_ml_s": "least flow (mL/s)",
    "flow_max_ml_s": "largest flow (mL/s)",
    "mean_speed_m_s": "mean speed (m/s)",
    "peak_speed_m_s": "peak speed (m/s)",
    "reynolds": "Reynolds number",
    "reynolds_peak": "Reynolds number at peak flow",
    "womersley": "Womersley number",
}
PRESSURE_COLUMNS = {
    "pressure_pa": "pressure (Pa)",
    "pressure_mmhg": "pressure (mmHg)",
    "pressure_min_pa": "lowest (Pa)",
    "pressure_max_pa": "highest (Pa)",
    "total_pressure_pa": "total pressure (Pa)",
}
"""Columns of the tables of openings; those without a value are left out."""

OF_PULSE = ("flow_min_ml_s", "flow_max_ml_s", "reynolds_peak", "pressure_min_pa", "pressure_max_pa")
"""Columns that say nothing of a steady flow."""


def _opening_rows(
    indices: Mapping[str, Any], openings: tuple[Opening, ...], columns: Mapping[str, str]
) -> dict[str, Any] | None:
    rows = indices["openings"]
    keys = [key for key in columns if any(row.get(key) is not None for row in rows)]
    if not rows:
        return None
    shown = []
    for key in keys:
        values = [row.get(key) for row in rows]
        factor = 100 if key == "flow_share" else 1
        shown.append(column([None if value is None else factor * value for value in values]))
    colours = opening_colours(openings)
    return {
        "head": [columns[key] for key in keys],
        "rows": [
            {"name": row["name"], "role": row["role"], "colour": colours[row["id"]], "numbers": numbers}
            for row, numbers in zip(rows, zip(*shown, strict=True), strict=True)
        ],
    }


def _drop_table(drops: Sequence[Mapping[str, Any]]) -> tuple[list[str], Rows]:
    head = {"drop_pa": "drop (Pa)", "drop_mmhg": "drop (mmHg)", "pressure_ratio": "outlet over inlet pressure"}
    keys = [key for key in head if any(drop.get(key) is not None for drop in drops)]
    names = [(drop["inlet"], drop["outlet"]) for drop in drops]
    shown = zip(*(column([drop.get(key) for drop in drops]) for key in keys), strict=True)
    rows = [(*pair, *numbers) for pair, numbers in zip(names, shown, strict=True)]
    return ["from", "to", *(head[key] for key in keys)], rows


def _branch_rows(branches: Sequence[Mapping[str, Any]]) -> Rows:
    keys = ("length_mm", "tortuosity", "min_radius_mm", "mean_radius_mm", "max_radius_mm")
    shown = zip(*(column([branch[key] for branch in branches]) for key in keys), strict=True)
    places = [(str(branch["branch"]), branch["from"], branch["to"]) for branch in branches]
    return [(*place, *numbers) for place, numbers in zip(places, shown, strict=True)]


def _fork_rows(forks: Sequence[Mapping[str, Any]]) -> Rows:
    return [
        (
            fork["name"],
            ", ".join(f"{x:.1f}" for x in fork["place_mm"]),
            "; ".join(f"{a['branches'][0]} and {a['branches'][1]}: {a['angle_deg']:.0f}°" for a in fork["angles"]),
            number(fork["radius_mm"]),
        )
        for fork in forks
    ]


def _narrowest(tree: Mapping[str, Any]) -> str:
    branch = next(each for each in tree["branches"] if each["branch"] == tree["narrowest_branch"])
    radius, way = number(tree["narrowest_radius_mm"]), number(branch["min_at_mm"])
    return f"radius {radius} mm, in branch {branch['branch']}, {way} mm from {branch['from']}"


def left_out_rows(given: Evidence) -> Rows:
    """Branches that are too thin for the lattice, with the flow that they would carry, and what became of them."""
    closed = [side for side in given.geometry.get("side_branches", ()) if "flow_share" in side]
    thin = given.records.get("voxelize", {}).get("too_thin_branches", [])
    kinds = [(side, side["action"]) for side in closed]
    kinds += [(each, "closed in the lattice" if each["closed"] else "kept, not resolved") for each in thin]
    inflow = sum(abs(each["flow_ml_s"]) for each in given.indices["openings"] if each["role"] == "inlet")
    return [
        (
            f"{each['from']} to {each['to']}",
            ", ".join(f"{x:.1f}" for x in each["place_mm"]),
            became,
            number(each["radius_mm"]),
            f"{each['nodes_across']:.1f}",
            percent(each["flow_share"]),
            number(each["flow_share"] * inflow),
        )
        for each, became in kinds
    ]


SURFACES = {"before": "as first made", "after": "as used"}
"""Surfaces whose triangles are counted, by their keys in the quality of the surface."""


def _triangle_rows(geometry: Mapping[str, Any]) -> Rows:
    """Triangles, needles and tiny ones of the surface as first made and as used; none where they were not counted."""
    keys = ("triangles", "needles", "tiny", "smallest_angle_deg", "median_angle_deg")
    counted = {name: geometry[key] for key, name in SURFACES.items() if key in geometry}
    return [(name, *(number(quality[key]) for key in keys)) for name, quality in counted.items()]


def angle_histograms(geometry: Mapping[str, Any]) -> dict[str, list[int]]:
    """Counts of the triangles' smallest angles by what they are of; none where they were not counted."""
    found = {name: geometry.get(key, {}).get("angle_histogram") for key, name in SURFACES.items()}
    return {name: counts for name, counts in found.items() if counts}


WALL_FIGURES = {
    "area_mm2",
    "counted_area_mm2",
    "osi_mean",
    *(f"shear_{which}_pa" for which in ("mean", "min", "p01", "median", "p99", "max")),
}
"""Keys of the wall's statistics that have words of their own."""


def _wall_rows(wall: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = [
        ("mean", f"{number(wall['shear_mean_pa'])} Pa"),
        ("median", f"{number(wall['shear_median_pa'])} Pa"),
        ("1st to 99th percentile", f"{number(wall['shear_p01_pa'])} to {number(wall['shear_p99_pa'])} Pa"),
        ("lowest and highest", f"{number(wall['shear_min_pa'])} and {number(wall['shear_max_pa'])} Pa"),
    ]
    rows += [(f"area below {limit}", f"{100 * share:.1f} %") for limit, share in wall["low_shear_fraction"].items()]
    if "osi_mean" in wall:
        rows.append(("oscillatory shear index (0: one direction, 0.5: to and fro), mean", number(wall["osi_mean"])))
    more = facts(wall, leave_out=WALL_FIGURES)
    counted = wall["counted_area_mm2"] / wall["area_mm2"]
    return [
        *rows,
        *more,
        ("area of the wall", f"{number(wall['area_mm2'])} mm², of which {100 * counted:.0f} % counted"),
    ]


def _provenance(stages: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What each stage took, the versions and the settings."""
    return {
        "stages": [
            (stage, number(record["seconds"]), number(record["peak_memory_mb"]), record.get("finished", DASH))
            for stage, record in stages.items()
        ],
        "versions": list(stages["postprocess"]["versions"].items()) if "postprocess" in stages else [],
        "settings": [
            (stage, json.dumps(record["settings"], indent=2)) for stage, record in stages.items() if record["settings"]
        ],
    }
