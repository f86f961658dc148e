# SPDX-License-Identifier: Apache-2.0
"""Networks in the YAML format of openBF, version 2 (SI units), as networks of this project.

What openBF does, and its file does not say: a wall without h0 has the thickness of the empirical law; R1 without R2 is
the resistance of both, with a proximal one that is matched; with inlet_impedance_matching it stays so while the area
changes, which is told; without any, the end is that of a tube that goes on; a profile that is not given is parabolic.

Its wall with visco-elastic has Gamma = b0 + b1/(2 R0), whose parameters are openBF's own, and a pressure
Gamma/(A sqrt(A0)) dA/dt, which differs from Gamma/(A0 sqrt(A)) dA/dt of here by sqrt(A/A0); R0 is the radius at Pext.
Compared with the source of openBF 2.
"""

import logging
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.case.settings.base import Section, parse
from pipeline.case.settings.yaml_file import read_yaml
from pipeline.network.for_solver import M3_PASCAL, PASCAL_S_M3
from pipeline.network.network_file import Network
from pipeline.network.writing import rounded, with_common_defaults
from solver.boundary.windkessel import PASCAL_PER_MMHG
from solver.network.arterial_walls import empirical_thickness_m, viscous_coefficient
from solver.runtime.errors import StageError

log = logging.getLogger(__name__)

Reals = NDArray[np.float64]
Columns = dict[str, list[float]]
"""Samples of a waveform by the names of its columns."""

GAMMA_B0, GAMMA_B1 = 0.6, 0.0015
"""Of openBF's viscous walls, Pa s m and Pa s m^2: 1.5 times 400 g/s and 100 g cm/s of Mynard and Smolich (2015),
doi:10.1007/s10439-015-1313-8, as Charlton et al. (2019), doi:10.1152/ajpheart.00218.2019, have them.
"""
OLDER = {
    "phi": "openBF 2 has no viscosity of a vessel's own; take it out, and give the converted network wall: kelvin-voigt"
    " with viscosity_kpa_s = phi / 1000",
    "inlet": "openBF 2 takes a flow into node 1; take it out, and give a pressure in the converted network's inlets",
    "inlet file": "openBF 2 has one for the network; write inlet_file above network",
}
"""Keys of vessels in files of openBF 1 that openBF 2 does not know, though a network without them would be another one,
and the remedy.
"""
NUMERICAL = {"M", "to_save", "initial_pressure", "initial_flow", "outlet"}
"""Keys of vessels that say nothing of the artery."""


class Vessel(Section):
    """Keys of a vessel that are understood."""

    label: str
    sn: int
    tn: int
    L: float
    E: float
    R0: float | None = None
    Rp: float | None = None
    Rd: float | None = None
    h0: float | None = None
    Pext: float = 0.0
    gamma_profile: float = 2.0
    R1: float = 0.0
    R2: float = 0.0
    Cc: float = 0.0
    Pout: float = 0.0
    visco_elastic: bool = False
    Rt: float | None = None
    inlet_impedance_matching: bool = False


WRITTEN = {"visco_elastic": "visco-elastic"}
"""Keys that a file has otherwise than :class:`Vessel`."""
KEYS = {WRITTEN.get(name, name): name for name in Vessel.model_fields}
"""Names in :class:`Vessel` by the keys that a file has."""


def read_openbf(path: Path, inflow: str, untapered: bool = False) -> tuple[Network, dict[str, Columns]]:
    """A network of openBF.

    Parameters
    ----------
    path : of its YAML file, beside which the file of its inflow lies.
    inflow : name of the file that the inflow is to be written to.
    untapered : give each vessel its proximal radius all along, which is how openBF 2.8.0 itself computes.

    Returns
    -------
    The network, and its waveforms by the names of their files.

    Raises
    ------
    StageError
        One line a mistake.
    """
    values = read_yaml(path)
    if "project name" in values:
        raise StageError(
            f"{path}: 'project name': a file of openBF 1, whose vessels have other defaults than those of openBF 2"
            " (gamma_profile 9, one thickness along a vessel); write project_name, and gamma_profile and h0 of each"
        )
    missing = [key for key in ("blood", "network") if not values.get(key)]
    if missing or not isinstance(values["network"], list):
        raise StageError(
            f"{path}: {', '.join(missing) or 'network'}: no network of openBF; it has blood and a list network"
        )
    vessels = _vessels(values["network"], path)
    parents = {vessel.tn for vessel in vessels}
    roots = sorted({vessel.sn for vessel in vessels} - parents)
    if len(roots) != 1:
        raise StageError(
            f"{path}: network: inflow at {len(roots)} nodes ({roots}); openBF has it at one; correct sn, tn"
        )
    leaves = parents - {vessel.sn for vessel in vessels}
    terminals = {f"n{each.tn}": _terminal(each) for each in vessels if each.tn in leaves}
    sections = {
        "description": f"{values.get('project_name', path.stem)}, from the file of openBF",
        "blood": {"density_kg_m3": values["blood"].get("rho"), "viscosity_pa_s": values["blood"].get("mu")},
        "segments": {each.label: _segment(each, untapered) for each in vessels},
        "inlets": {f"n{roots[0]}": {"flow_waveform": inflow, "interpolation": "linear"}},
        "terminals": terminals,
    }
    network = parse(Network, sections, str(path))
    source = path.parent / str(values.get("inlet_file", f"{values.get('project_name', path.stem)}_inlet.dat"))
    return with_common_defaults(network), {inflow: _inflow(source)}


def _vessels(given: list[Any], path: Path) -> list[Vessel]:
    """The vessels, after what is not understood has been told, once for each key."""
    unknown: Counter[str] = Counter()
    vessels = []
    for number, each in enumerate(given):
        if not isinstance(each, dict):
            raise StageError(f"{path}: network.{number}: no mapping of keys to values; see a file of openBF")
        if key := next((key for key in OLDER if key in each), None):
            raise StageError(f"{path}: network.{number}.{key}: a key of openBF 1; {OLDER[key]}")
        known = {KEYS[key]: value for key, value in each.items() if key in KEYS}
        unknown.update(set(each) - set(KEYS) - NUMERICAL)
        vessels.append(parse(Vessel, known, partial(_placed, f"{path}: network.{number}")))
    for key, count in sorted(unknown.items()):
        log.warning(
            "%s: the key %r of %d vessels is none of openBF's, which ignores it%s", path, key, count, _meant(key)
        )
    for label in [label for label, count in Counter(each.label for each in vessels).items() if count > 1]:
        raise StageError(f"{path}: network: {label} is the label of more than one vessel; give each its own")
    return vessels


def _placed(vessel: str, key: str) -> str:
    """Where a key of a vessel stands."""
    return f"{vessel}.{WRITTEN.get(key, key)}" if key else vessel


def _meant(key: str) -> str:
    meant = key.replace(" ", "_")
    if meant not in Vessel.model_fields:
        return ""
    taken = Vessel.model_fields[meant].default
    return f", and so does the conversion: {meant} is {taken:g}; write {meant} in the file if it is meant"


def _segment(vessel: Vessel, untapered: bool) -> dict[str, Any]:
    proximal = vessel.Rp or vessel.R0
    if not proximal:
        raise StageError(f"{vessel.label}: neither R0 nor Rp is given; give the radius")
    distal = proximal if untapered else vessel.Rd or proximal
    found = {
        "nodes": [f"n{vessel.sn}", f"n{vessel.tn}"],
        "length_mm": rounded(vessel.L * 1e3),
        "radius_mm": _one_or_both(proximal * 1e3, distal * 1e3),
        "thickness_mm": rounded(vessel.h0 * 1e3) if vessel.h0 else "empirical-law",
        "youngs_modulus_kpa": rounded(vessel.E * 1e-3),
        "external_pressure_kpa": rounded(vessel.Pext * 1e-3),
        "profile_exponent": vessel.gamma_profile,
    }
    if vessel.visco_elastic:
        viscosity = _viscosity_pa_s(np.array([proximal, distal]), vessel.h0)
        found |= {"wall": "kelvin-voigt", "viscosity_kpa_s": _one_or_both(*(viscosity * 1e-3).tolist())}
    return found


def _one_or_both(proximal: float, distal: float) -> float | list[float]:
    """A value of both ends, as a file has it."""
    values = [rounded(proximal), rounded(distal)]
    return values[0] if values[0] == values[1] else values


def _viscosity_pa_s(radius_m: Reals, thickness_m: float | None) -> Reals:
    """Viscosity phi of the wall's material, with which Gamma = 2/3 sqrt(pi) phi h is openBF's b0 + b1/(2 R0)."""
    thickness = empirical_thickness_m(radius_m) if not thickness_m else np.full(radius_m.shape, thickness_m)
    found: Reals = (GAMMA_B0 + GAMMA_B1 / (2 * radius_m)) / viscous_coefficient(1.0, 1.0) / thickness
    return found


def _terminal(vessel: Vessel) -> dict[str, Any]:
    """What lies behind a vessel without daughters."""
    if not vessel.R1:
        return {"type": "reflection", "part": vessel.Rt} if vessel.Rt else {"type": "matched"}
    back = {"distal_pressure_mmhg": rounded(vessel.Pout / PASCAL_PER_MMHG)} if vessel.Pout else {}
    proximal, distal = rounded(vessel.R1 / PASCAL_S_M3), rounded(vessel.R2 / PASCAL_S_M3)
    total = rounded((vessel.R1 + vessel.R2) / PASCAL_S_M3)
    if not vessel.Cc:
        return {"type": "resistance", "resistance_mmhg_s_ml": total, **back}
    compliance = rounded(vessel.Cc / M3_PASCAL)
    if vessel.R2 and not vessel.inlet_impedance_matching:
        both = {"proximal_mmhg_s_ml": proximal, "distal_mmhg_s_ml": distal}
        return {"type": "rcr", **both, "compliance_ml_mmhg": compliance, **back}
    return {"type": "rcr", "total_mmhg_s_ml": total, "compliance_ml_mmhg": compliance, **back}


def _inflow(path: Path) -> Columns:
    """Time and flow of openBF's file, whose cycle begins at its first and ends at its last line."""
    try:
        table = np.loadtxt(path, ndmin=2)
    except (OSError, ValueError) as error:
        raise StageError(f"{path}: no table of time (s) and flow (m3/s), the inflow of the network ({error})") from None
    if table.shape[1] != 2:
        raise StageError(f"{path}: {table.shape[1]} columns; time (s) and flow (m3/s) are wanted")
    return {"time_s": table[:, 0].tolist(), "flow_ml_s": [rounded(flow * 1e6) for flow in table[:, 1]]}
