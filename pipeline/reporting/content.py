# SPDX-License-Identifier: Apache-2.0
"""What the page says: texts and tables made of what the stages before it wrote."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.geometry.surface.volumes import LEAST_NAMED
from pipeline.reporting.bands_section import bands_section
from pipeline.reporting.case_evidence import Evidence
from pipeline.reporting.figures import opening_colours
from pipeline.reporting.key_figures import key_figures
from pipeline.reporting.reduced_section import reduced_section
from pipeline.reporting.tables import DASH, Rows, column, facts, number, percent
from pipeline.reporting.transport_section import transport_section
from pipeline.reporting.trust_rows import across, by_state, check_shown, search_words, trust_judged, trust_rows
from pipeline.reporting.wording import BRANCHES, ENERGY, RESIDENCE, SAC, STENOSES, VOLUME, table_rows, tabled
from pipeline.segmentation.record_figures import LABELS, PER_PERCENT, threshold_curve
from pipeline.segmentation.record_figures import figures as mask_figures
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

LIMIT_PRESSURE_RATIO = (
    "A measured fractional flow reserve is a ratio of mean pressures at the largest flow that drugs bring about; at"
    " 0.80 or less a coronary stenosis takes treatment (Tonino et al. 2009, doi:10.1056/NEJMoa0807611). The ratio"
    " here holds for the flow that was assumed, and is no such measurement."
)


def context(given: Evidence) -> dict[str, Any]:
    """Texts and tables of the page, by the names in its template; what is not there is empty or none."""
    indices, mask = given.indices, given.segmentation or {}
    grid = given.grid or {}
    warned = (mask, indices, grid, given.particles or {}, given.carried or {})
    unsettled = indices.get("unsettled")
    trust = trust_judged(given)
    # Two stages may warn of the same, as segment and postprocess of a threshold.
    warnings = list(dict.fromkeys(each for of in warned for each in of.get("warnings", ()) if each != unsettled))
    return {
        "unsettled": unsettled,
        "unsteady": indices.get("unsteady"),
        "warnings": warnings,
        "trusted": not warnings
        and all(check["passed"] for check in indices["checks"])
        and all(each["state"] == "good" for each in trust),
        "usable": by_state(trust),
        "trust": {each["key"]: trust_rows(each) for each in trust},
        "across": across(indices["checks"]),
        "checks": [check_shown(check) for check in indices["checks"]],
        "figures_first": key_figures(given),
        **_flow(given),
        "wall": _wall_rows(indices["wall"]),
        "residence": table_rows(given.particles or {}, RESIDENCE),
        "particle_shares": _particle_shares(given.particles or {}),
        "carried": transport_section(given.carried),
        "grid": _grid_rows(grid),
        "bands": bands_section(given.bands),
        "reduced": reduced_section(given.reduced),
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
        "cut_off": cut_off_rows(given.geometry),
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
        "sac_search": search_words(indices),
        "volume": table_rows(indices.get("volume", {}), VOLUME),
        "energy": table_rows(indices.get("energy", {}), ENERGY),
        "coupling": _coupling_rows(indices.get("coupling", ())),
        "around": (given.summary.get("coupling") or {}).get("network"),
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
    return facts(summary, leave_out=("converged", "unsettled", "unsteady", "notes", "device")) + [
        (name, percent(v)) for name, v in differ.items()
    ]


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


IN_NETWORK = {
    "name": "opening",
    "segment": "segment",
    "network_radius_mm": "its radius (mm)",
    "vessel_radius_mm": "the vessel's (mm)",
    "alone_flow_ml_s": "flow without the vessel (mL/s)",
    "vessel_flow_ml_s": "with it (mL/s)",
    "alone_pressure": "pressure without the vessel (mmHg)",
    "vessel_pressure": "with it (mmHg)",
}
"""Columns of the table of a vessel in a network."""


def _coupling_rows(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], Rows]:
    """A row for each opening of a vessel in a network: systolic, mean and diastolic pressure in one."""

    def shown(row: Mapping[str, Any], key: str) -> str:
        if key.endswith("_pressure"):
            kind = key.removesuffix("_pressure")
            parts = (row[f"{kind}_{which}_mmhg"] for which in ("systolic", "diastolic", "pressure"))
            return "{:.1f}/{:.1f}, mean {:.1f}".format(*parts)
        return row[key] if isinstance(row[key], str) else number(row[key])

    return [*IN_NETWORK.values()], [tuple(shown(row, key) for key in IN_NETWORK) for row in rows]


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


def cut_off_rows(geometry: Mapping[str, Any]) -> Rows:
    """What cuts took off the ends of the vessel, in mL, with thin tails; none where that is next to nothing."""
    whole_mm3 = geometry.get("mask_volume_mm3", geometry.get("given_volume_mm3", 0.0))
    shown = [end for end in geometry.get("cut_ends", ()) if end["volume_mm3"] > LEAST_NAMED * whole_mm3]
    return [
        (
            ", ".join(f"{x:.1f}" for x in end["place_mm"]),
            number(end["radius_mm"]),
            number(end["volume_mm3"] / 1000),
            percent(end["volume_mm3"] / whole_mm3),
            number(end.get("thin_mm3", 0.0) / 1000),
            *(number(end[key]) if key in end else "" for key in ("thin_mm", "thin_radius_mm")),
            "yes" if end["asked_mm3"] >= end["volume_mm3"] else "no",
        )
        for end in shown
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
    "shear_noise",
    "shear_noise_left",
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
    if "shear_noise" in wall:
        before, left = (100 * wall[key] for key in ("shear_noise", "shear_noise_left"))
        rows.append(
            ("noise of the map, of the value at a place", f"{left:.1f} %; {before:.1f} % before it was lessened")
        )
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
