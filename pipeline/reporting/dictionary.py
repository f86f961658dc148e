# SPDX-License-Identifier: Apache-2.0
"""Dictionary of data: what each column of the tables of a case and of all cases means, as a table.

Tables of many quantities, as ``indices.csv``, have a row for each. Units follow from names, as in those tables.
"""

import csv
import io
from collections.abc import Iterator, Mapping

from pipeline.haemodynamics.centreline_profile import COLUMNS as ALONG
from pipeline.haemodynamics.index_table import LONG_COLUMNS, OPENING_COLUMNS, OPENING_TRUST, unit_of
from pipeline.reporting.cohort_page import BAND_ENDS
from pipeline.reporting.cohort_page import COLUMNS as OF_ALL
from pipeline.uncertainty.sources import WORDS

HEAD = ("table", "name", "meaning", "unit", "source")

OF_SECTION = {
    "flow_ml_s": "flow, mean over time",
    "mean_speed_m_s": "mean speed through it",
    "peak_speed_m_s": "largest speed there, over place and time",
    "pressure_pa": "static pressure above the reference at the outlets, mean over time",
    "pressure_mmhg": "the same",
    "reynolds": "Reynolds number of the mean flow: diameter times mean speed over kinematic viscosity",
    "shear_mean_pa": "mean wall shear stress around it",
    "osi_mean": "mean oscillatory shear index around it; 0: one direction, 0.5: to and fro",
}
"""What is known of a section of the vessel, an opening among them."""

OF_OPENING = OF_SECTION | {
    "id": "number of the opening",
    "name": "name of the opening, as in the case file",
    "role": "inlet or outlet",
    "radius_mm": "radius of the circle of the opening's area",
    "imposed_flow_ml_s": "flow that the case file sets; empty where it sets a pressure",
    "monitored_flow_ml_s": "flow counted link by link while the solver ran, mean over the last period",
    "flow_min_ml_s": "least flow over the period",
    "flow_max_ml_s": "largest flow over the period",
    "flow_share": "flow as a part of that through all openings of its role",
    "pressure_min_pa": "least pressure over the period",
    "pressure_max_pa": "largest pressure over the period",
    "total_pressure_pa": "static and dynamic pressure, mean weighted by the flow",
    "reynolds_peak": "Reynolds number of the largest flow",
    "womersley": "Womersley number: radius times the root of angular frequency over kinematic viscosity",
    "flow_trust": "what flows are worth: good, reservation or unusable",
    "speed_trust": "the same of speeds",
    "pressure_trust": "the same of pressures",
}

OF_BRANCH = {
    "branch": "number of the branch",
    "parent": "branch over which it is reached from the root",
    "from": "joint at which it starts: an opening, a bifurcation or a blind end",
    "to": "joint at which it stops",
    "leads_to_opening": "whether flow can pass through it",
    "length_mm": "length along the centreline",
    "chord_mm": "distance of its joints",
    "tortuosity": "length over chord",
    "min_radius_mm": "least radius of the ball that fits into the vessel",
    "mean_radius_mm": "mean of that radius",
    "max_radius_mm": "largest of that radius",
    "min_at_mm": "way from the start to the least radius",
    "min_x_mm": "place of the least radius, x, LPS",
    "min_y_mm": "the same, y",
    "min_z_mm": "the same, z",
    "min_area_mm2": "least area of a section",
    "min_area_x_mm": "place of that section, x, LPS",
    "min_area_y_mm": "the same, y",
    "min_area_z_mm": "the same, z",
}

OF_STATION = OF_SECTION | {
    "branch": "number of the branch",
    "from": OF_BRANCH["from"],
    "to": OF_BRANCH["to"],
    "way_mm": "way along the branch from its start",
    "x_mm": "place on the centreline, x, LPS",
    "y_mm": "the same, y",
    "z_mm": "the same, z",
    "radius_mm": "radius of the largest ball that fits into the vessel there",
    "area_mm2": "area of the section",
    "total_pressure_pa": OF_OPENING["total_pressure_pa"],
    "trust": "what figures of the row are worth: good, reservation or unusable",
}

OF_LONG = {
    "quantity": "way to the number in indices.json, keys with dots between; each has a row below",
    "name": "what it is of, where there are several: an opening, a branch, a sac, a check",
    "value": "the number; 1 or 0 for yes or no",
    "unit": "of the value; empty for a number, and for a part of 1",
    "trust": "what it is worth: good, reservation or unusable; empty where that is not judged",
}

OF_MONITOR = {
    "step": "step of the solver",
    "time_s": "time in the flow",
    "max_speed_m_s": "largest speed of all nodes",
    "mach": "largest Mach number of all nodes",
    "max_drho": "largest deviation of the density of all nodes, in lattice units",
    "mean_speed_m_s": "mean speed of all nodes",
    "kinetic_energy_j": "kinetic energy of all fluid",
    "density_drift": "mean deviation of the density, in lattice units",
    "change": "root mean square change of the velocity since the row, or the cycle, before, over the mean speed",
    "residual": "of a steady flow, change over a viscous time",
    "balance": "inflow less outflow, as a part of the inflow",
    "wide_change": "of a pulse, change in sacs and other places wider than openings, over the own speed of each node",
    "flow_ml_s:*": "flow through the opening whose name stands behind the colon, counted link by link",
    "pressure_pa:*": "mean pressure at that opening",
    "backflow_ml_s:*": "flow into the vessel through that opening where it is an outlet",
}

OF_SEGMENT = {
    "segment": "name of the segment of the network",
    "length_mm": "its length",
    "radius_mm": "mean radius of its middle, as of all that follows",
    "mean_mmhg": "mean pressure",
    "systolic_mmhg": "largest pressure over the cycle",
    "diastolic_mmhg": "least pressure over the cycle",
    "pulse_mmhg": "their difference",
    "flow_ml_s": "mean flow, from start to end",
    "flow_share": "flow as a part of the inflow of the network",
    "flow_min_ml_s": "least flow over the cycle",
    "flow_max_ml_s": "largest flow over the cycle",
    "peak_velocity_m_s": "largest mean velocity of a section, at any of five places",
    "wave_speed_m_s": "speed of pulse waves",
    "impedance_mmhg_s_ml": "characteristic impedance",
    "reynolds": "Reynolds number of the mean speed over the cycle",
    "womersley": "Womersley number",
}

QUANTITIES: Mapping[str, str] = {
    "times": "number of times that means are taken over; 1 for a steady flow",
    "peak_speed_m_s": "largest speed, over place and time",
    "kinetic_energy_j": "kinetic energy of the blood in the vessel, mean over time",
    "mach_max": "largest Mach number of the model; small, so that blood stays incompressible",
    **{f"openings.{key}": OF_OPENING[key] for key in OPENING_COLUMNS if key not in ("name", "role")},
    "pressure_drops.drop_pa": "static pressure at the inlet less that at the outlet",
    "pressure_drops.drop_mmhg": "the same",
    "pressure_drops.pressure_ratio": "pressure at the outlet over that at the inlet, for the flow that was assumed",
    "centreline.branch": OF_BRANCH["branch"],
    "centreline.leads_to_opening": OF_BRANCH["leads_to_opening"],
    "centreline.sections": "number of sections of the branch with figures",
    "centreline.flow_ml_s": "flow through the branch",
    "centreline.flow_deviation": "largest difference of the flow from section to section, as a part of it",
    "centreline.pressure_start_pa": "pressure at its first section",
    "centreline.pressure_end_pa": "pressure at its last section",
    "centreline.pressure_drop_pa": "their difference",
    "centreline.pressure_drop_mmhg": "the same",
    "centreline.mean_area_mm2": "mean area of its sections",
    "centreline.min_area_mm2": "least area of its sections",
    "centreline.shear_mean_pa": "mean wall shear stress of the branch",
    "centreline.osi_mean": "mean oscillatory shear index of the branch",
    "stenoses.branch": "number of the branch with the narrow place",
    "stenoses.way_mm": "way from the start of the branch",
    "stenoses.diameter_mm": "least diameter",
    "stenoses.reference_diameter_mm": "diameter that the vessel would have there, from its diameters beside (DICOM"
    " PS3.17, T.4.2)",
    "stenoses.stenosis_by_diameter": "narrowing as a part of the diameter",
    "stenoses.stenosis_by_area": "narrowing as a part of the area",
    "stenoses.max_speed_m_s": "largest speed in it",
    "stenoses.pressure_proximal_pa": "pressure in front of it",
    "stenoses.pressure_distal_pa": "pressure behind it",
    "stenoses.pressure_drop_pa": "their difference",
    "stenoses.pressure_drop_mmhg": "the same",
    "stenoses.pressure_ratio": "pressure behind over that in front",
    "wall.area_mm2": "area of the wall",
    "wall.counted_area_mm2": "area of the wall without the rims at openings; statistics are of this",
    "wall.shear_mean_pa": "mean wall shear stress; in a pulsating flow of its mean over time",
    "wall.shear_min_pa": "least wall shear stress",
    "wall.shear_p01_pa": "1st percentile of the area",
    "wall.shear_median_pa": "median of the area",
    "wall.shear_p99_pa": "99th percentile of the area",
    "wall.shear_max_pa": "largest wall shear stress",
    "wall.low_shear_fraction.0.4 Pa": "part of the area below 0.4 Pa (Malek et al. 1999, doi:10.1001/jama.282.21.2035)",
    "wall.low_shear_fraction.1 Pa": "part of the area below 1 Pa",
    "wall.low_shear_fraction.1.5 Pa": "part of the area below 1.5 Pa",
    "wall.shear_noise": "noise of the wall shear stress before it was lessened, as a part of the value at a place",
    "wall.shear_noise_left": "noise that is left",
    "wall.osi_mean": "mean oscillatory shear index (He and Ku 1996, doi:10.1115/1.2795948)",
    "energy.power_in_w": "power that enters through openings",
    "energy.power_out_w": "power that leaves through openings",
    "energy.pressure_level_pa": "mean pressure of the outlets, against which powers are counted",
    "energy.dissipation_w": "power lost to friction",
    "energy.dissipation_beyond_nodes_w": "the part of it between the outermost nodes and the wall",
    "energy.kinetic_energy_change_w": "power stored as kinetic energy over the period",
    "energy.unaccounted_w": "power that is not accounted for: numerical error",
    "energy.unaccounted_fraction": "the same, as a part of the power that enters",
    "volume.volume_ml": "volume of the fluid nodes",
    "volume.mean_speed_m_s": "mean speed in the vessel",
    "volume.kinetic_energy_j": "kinetic energy of the blood in the vessel",
    "volume.dissipation_w": "power lost to friction at the fluid nodes",
    "volume.mean_shear_rate_1_s": "mean shear rate",
    "volume.mean_viscosity_pa_s": "mean viscosity",
    "volume.enstrophy_1_s2": "mean of half the squared vorticity",
    "volume.helicity_h1_m_s2": "mean helicity",
    "volume.helicity_h2_m_s2": "mean size of the helicity",
    "volume.helicity_h3": "h1 over h2; 1 or -1: all turns one way, 0: two ways in balance",
    "sac_search.searched": "whether sacs were looked for",
    "sac_search.found": "number of sacs that were found",
    "sac_search.widest": "farthest that the wall reaches elsewhere, in radii from the parent's line",
    "sac_search.refused.wideness_radii": "how far a place reaches that was taken for no sac, in radii",
    "sacs.volume_ml": "volume beyond the plane of the neck",
    "sacs.surface_area_mm2": "area of its wall",
    "sacs.neck_area_mm2": "area of the neck",
    "sacs.neck_diameter_mm": "diameter of the circle of that area",
    "sacs.height_mm": "largest distance from the plane of the neck",
    "sacs.aspect_ratio": "height over diameter of the neck (Ujiie et al. 2001, doi:10.1097/00006123-200103000-00007)",
    "sacs.dome_diameter_mm": "largest width along the neck",
    "sacs.parent_diameter_mm": "diameter of the vessel that carries it",
    "sacs.inflow_ml_s": "inflow through the neck",
    "sacs.net_inflow_fraction": "inflow that does not return: numerical error",
    "sacs.inflow_share": "inflow as a part of the flow beside it",
    "sacs.inflow_concentration_index": "that part over the part of the neck with inflow (Cebral et al. 2011,"
    " doi:10.3174/ajnr.A2419)",
    "sacs.turnover_time_s": "volume over inflow",
    "sacs.shear_mean_pa": "mean wall shear stress of the sac",
    "sacs.shear_max_pa": "largest wall shear stress of the sac",
    "sacs.parent_within_mm": "distance from the neck within which wall counts as the parent's",
    "sacs.parent_shear_mean_pa": "mean wall shear stress of the parent",
    "sacs.shear_ratio": "mean of the sac over mean of the parent",
    "sacs.low_shear_area_fraction": "part of the sac below a tenth of the parent's mean (Xiang et al. 2011,"
    " doi:10.1161/STROKEAHA.110.592923)",
    "sacs.low_shear_index": "part of the force times part of the area of low stress (Cebral et al. 2011,"
    " doi:10.3174/ajnr.A2419)",
    "sacs.low_shear_index_below_pa": "stress below which that index calls it low",
    "sacs.osi_mean": "mean oscillatory shear index of the sac",
    "sacs.kinetic_energy_j": "kinetic energy of the blood in the sac",
    "sacs.mean_speed_m_s": "mean speed in the sac",
    "sacs.peak_speed_m_s": "largest speed in the sac",
    "coupling.network_radius_mm": "radius of the network's segment at the opening",
    "coupling.vessel_radius_mm": "radius of the opening",
    "coupling.radius_difference": "their difference, as a part",
    **{
        f"coupling.{kind}_{key}": f"{words} {of}"
        for kind, of in (
            ("alone", "in the network without the vessel"),
            ("network", "in the network with the vessel"),
            ("vessel", "in the vessel"),
        )
        for key, words in (
            ("flow_ml_s", "mean flow"),
            ("pressure_mmhg", "mean pressure"),
            ("diastolic_mmhg", "least pressure over the cycle"),
            ("systolic_mmhg", "largest pressure over the cycle"),
        )
    },
    "coupling.flow_difference": "mean flow of the vessel less that of the network, as a part of the largest",
    "coupling.pressure_difference": "mean pressure of the vessel over that of the network, less 1",
    "checks.value": "what the check found",
    "checks.limit": "up to which, or from which, figures are good",
    "checks.usable_limit": "up to which, or from which, figures can be used with reservation",
    "checks.passed": "whether the check passed",
    "checks.at_least": "whether the limit is the least",
}
"""Of ``indices.csv``, by quantity; numbers that only tell entries apart have none."""

SOURCES = {
    "openings": "velocity field just inside each opening",
    "pressure_drops": "pressures at the openings",
    "centreline": "sections of the surface along the centreline",
    "stenoses": "sections of the surface along the centreline",
    "wall": "stress in the fluid, at the points of the surface",
    "sacs": "surface and velocity field beyond the neck",
    "coupling": "waveforms of the last cycle",
    "checks": "all stages",
}
"""Where quantities of ``indices.csv`` come from, by their first part; others come from the fields of the solver."""

OF_SITE = {
    "time_s": "time within the cycle",
    "<site>.pressure_mmhg": "pressure at the site",
    "<site>.flow_ml_s": "flow through it",
    "<site>.area_mm2": "area of the lumen",
    "<site>.velocity_m_s": "mean velocity over it",
}
"""Of ``waveforms.csv``, by column; each site has four of its own."""

OF_STUDY = {
    "name": "quantity",
    "unit": "of its values",
    "value_at_<spacing>_mm": "value on the lattice of that spacing",
    "order": "apparent order of convergence; empty where three spacings do not tell one",
    "order_used": "order that the error is estimated with; empty where changes themselves are its measure",
    "safety": "factor of safety on the error",
    "extrapolated": "estimate at a vanishing spacing",
    "uncertainty": "bound of the error on the finest lattice, in the unit of the values",
    "gci": "grid-convergence index: that bound as a part of the value",
    "behaviour": "how the values follow the spacing",
}
"""Of ``grid_convergence.csv``, by column."""

OF_BANDS: dict[str, str] = {
    "key": "name of the figure in uncertainty.json",
    "name": "figure",
    "unit": "of value, low and high",
    "value": "what was found",
    "low": "lower end of its 90 % band",
    "high": "upper end of its 90 % band",
    "deviation": "standard deviation: of the logarithm where `by` says ratio, else in the unit of the value",
    "by": "whether the members' changes count as ratios or as differences",
}
"""Of ``uncertainty.csv``, by column; then come the sources."""

OF_COHORT = {
    "case": "name of the case",
    "scenario": "name of the scenario; empty where there are none",
    "finished": "yes, or no where a stage failed",
    "checks_passed": "whether all checks passed",
    "warnings": "number of warnings",
    "failed_checks": "names of the checks that failed",
    "warning_texts": "the warnings",
    "failed_stage": "stage that failed",
    "message": "what it said",
    "network": "network of arteries in which the vessel sits, or which is all of the case",
}


def rows() -> Iterator[tuple[str, str, str, str, str]]:
    """Rows of the dictionary, in the order of `HEAD`."""
    for name in (*OF_COHORT, *(column.key for column in OF_ALL)):
        column = next((each for each in OF_ALL if each.key == name), None)
        source = column.quantity if column and column.quantity else "indices.json" if column else "the run"
        yield "cohort.csv", name, column.words if column else OF_COHORT[name], unit_of(name) if column else "", source
        if column and column.band:
            for end in BAND_ENDS:
                words = f"{end} end of its 90 % band: {column.words}"
                yield "cohort.csv", f"{name}_{end}", words, unit_of(name), "uncertainty.json"
        if column and column.quantity:
            yield "cohort.csv", f"{name}_trust", f"what it is worth: {column.words}", "", "checks"
    for name in (*OPENING_COLUMNS, *OPENING_TRUST):
        yield "openings.csv", name, OF_OPENING[name], unit_of(name), SOURCES["openings"]
    for name, meaning in OF_BRANCH.items():
        yield "branches.csv", name, meaning, unit_of(name), "centreline and surface"
    for name in (*ALONG, "trust"):
        yield "centreline_flow.csv", name, OF_STATION[name], unit_of(name), SOURCES["centreline"]
    for name, meaning in OF_MONITOR.items():
        yield "monitor.csv", name, meaning, unit_of(name.partition(":")[0]), "solver, while it runs"
    for name, meaning in OF_SEGMENT.items():
        yield "tree.csv", name, meaning, unit_of(name), "network of arteries"
    for name, meaning in OF_SITE.items():
        yield "waveforms.csv", name, meaning, unit_of(name.rpartition(".")[2]), "network of arteries"
    for name, meaning in OF_STUDY.items():
        yield "grid_convergence.csv", name, meaning, "", "the case on several lattices"
    sources = {group: f"part of the variance that is due to: {words}" for group, words in WORDS.items()}
    for name, meaning in (OF_BANDS | sources).items():
        yield "uncertainty.csv", name, meaning, "", "members of the case"
    for name in LONG_COLUMNS:
        yield "indices.csv", name, OF_LONG[name], "", "indices.json"
    for name, meaning in QUANTITIES.items():
        source = SOURCES.get(name.partition(".")[0], "fields of the solver")
        yield "indices.csv", name, meaning, unit_of(name), source


def dictionary() -> str:
    """The dictionary as CSV."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(HEAD)
    writer.writerows(rows())
    return stream.getvalue()
