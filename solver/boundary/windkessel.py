# SPDX-License-Identifier: Apache-2.0
"""What holds at the outlets, in mL, mmHg and s: the split of the flow, and the vessels behind an outlet.

A Windkessel is a proximal resistance Rp in front of a distal resistance Rd with a compliance C beside it, behind which
the pressure is pd (Westerhof, Lankhaar and Westerhof 2009, doi:10.1007/s11517-008-0359-2):

    p = pc + Rp Q,    C dpc/dt = Q - (pc - pd)/Rd.

What is not given follows from the flow Q and the pressure p that an outlet is to have on average: Rp + Rd = (p - pd)/Q,
Rp = min(rho c/A, (Rp + Rd)/10) with the speed c of the pulse wave, which lets waves leave as a vessel of the outlet's
area A would; and compliances in proportion to A, together what makes all outlets discharge in the time constant.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import exp, expm1
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from solver.boundary.opening_settings import OutletSettings, WindkesselSettings
from solver.boundary.waveform import Waveforms, WaveformSettings, by_opening
from solver.boundary.waveform_table import PASCAL_PER_MMHG
from solver.domain.nodes import Opening
from solver.runtime.errors import StageError

WAVE_SPEED_M_S = 6.0
"""Speed of the pulse wave behind an outlet, that of healthy carotid arteries."""
PROXIMAL_PART = 0.1
"""Largest part of the resistance behind an outlet that is proximal, unless it is given."""
SUM_TOLERANCE = 1e-3
"""Error to which the parts of the flow must add up to 1 where all of them are given."""


class OpeningSettings(WaveformSettings, Protocol):
    """What the settings say of the openings, and of how the flow is shared."""

    @property
    def murray_exponent(self) -> float:
        """Of the radius in Murray's law."""

    @property
    def density_kg_m3(self) -> float:
        """Of blood."""


@dataclass(frozen=True)
class Windkessel:
    """Vessels behind an outlet.

    Attributes
    ----------
    proximal_mmhg_s_ml, distal_mmhg_s_ml : Rp and Rd.
    compliance_ml_mmhg : C.
    distal_pressure_mmhg : pd.
    """

    proximal_mmhg_s_ml: float
    distal_mmhg_s_ml: float
    compliance_ml_mmhg: float
    distal_pressure_mmhg: float

    @property
    def resistance_mmhg_s_ml(self) -> float:
        """Rp + Rd."""
        return self.proximal_mmhg_s_ml + self.distal_mmhg_s_ml

    @property
    def time_constant_s(self) -> float:
        """Rd C."""
        return self.distal_mmhg_s_ml * self.compliance_ml_mmhg

    def decay(self, time_s: float) -> float:
        """Part of a deviation of pc from what belongs to the flow that is left after a time."""
        return exp(-time_s / self.time_constant_s) if self.time_constant_s else 0.0

    def forgotten(self, time_s: float) -> float:
        """The rest of it, which of a long time constant is less than the rounding of 1."""
        return -expm1(-time_s / self.time_constant_s) if self.time_constant_s else 1.0

    def impedance_mmhg_s_ml(self, omega_1_s: NDArray[np.float64]) -> NDArray[np.complex128]:
        """Z = Rp + Rd/(1 + i omega Rd C), pressure over flow at radian rates."""
        lag = 1j * omega_1_s * self.time_constant_s
        return np.asarray(self.proximal_mmhg_s_ml + self.distal_mmhg_s_ml / (1 + lag), np.complex128)

    def stored_mmhg(self, flow_ml_s: NDArray[np.float64], step_s: float, start_mmhg: float) -> NDArray[np.float64]:
        """Pressure pc - pd after each step of a flow that does not change within one.

        Parameters
        ----------
        flow_ml_s : (steps,) flow through the outlet in each step.
        step_s : time of a step.
        start_mmhg : pc - pd before the first step.
        """
        decay, filled, stored = self.decay(step_s), self.forgotten(step_s) * self.distal_mmhg_s_ml, start_mmhg
        values = np.empty(len(flow_ml_s))
        for k, flow in enumerate(flow_ml_s):
            stored = values[k] = decay * stored + filled * flow
        return values

    def periodic_mmhg(self, flow_ml_s: NDArray[np.float64], step_s: float) -> NDArray[np.float64]:
        """Pressure pc - pd after each step of a flow that repeats, once that pressure repeats, too."""
        once = self.stored_mmhg(flow_ml_s, step_s, 0.0)
        return self.stored_mmhg(flow_ml_s, step_s, once[-1] / self.forgotten(step_s * len(flow_ml_s)))


@dataclass(frozen=True)
class Outlet:
    """What holds at an outlet.

    Attributes
    ----------
    pressure_mmhg : on the cap, the mean; where the flow is demanded, the pressure to begin with.
    fraction : part of the inflow that leaves here on average; none where that follows from the pressures.
    windkessel : vessels behind it, none where the pressure or the flow is given.
    demanded : whether the pressure is adjusted until the flow is this part of the inflow.
    """

    pressure_mmhg: float
    fraction: float | None = None
    windkessel: Windkessel | None = None
    demanded: bool = False


def flow_fractions(
    openings: tuple[Opening, ...], entries: Mapping[str, OutletSettings], exponent: float
) -> dict[str, float]:
    """Part of the flow that leaves through each outlet: as given, the rest shared by radius^exponent (Murray 1926).

    Parameters
    ----------
    openings : of the vessel.
    entries : settings of each outlet, by name.
    exponent : of the radius in Murray's law.

    Raises
    ------
    StageError
        If the parts do not add up to 1, or those given leave nothing for the others.
    """
    given = {name: entry.flow_fraction for name, entry in entries.items() if isinstance(entry.flow_fraction, float)}
    radii = {o.name: o.radius_mm**exponent for o in openings if o.role == "outlet" and o.name not in given}
    total = sum(given.values())
    listed = ", ".join(f"{name} {fraction:g}" for name, fraction in given.items())
    if radii and total >= 1:
        raise StageError(
            f"solve.outlets: the parts flow_fraction of the flow ({listed}) add up to {total:g}, which leaves nothing "
            f"for {', '.join(radii)}; lower them"
        )
    if not radii and abs(total - 1) > SUM_TOLERANCE:
        raise StageError(
            f"solve.outlets: the parts flow_fraction of the flow ({listed}) add up to {total:g}, not 1; correct"
            " them, or"
            " leave one of them out"
        )
    scale = (1 - total) / sum(radii.values()) if radii else 1 / total
    return {name: radii[name] * scale if name in radii else given[name] * (1 if radii else scale) for name in entries}


def choose_outlets(
    openings: tuple[Opening, ...],
    entries: Mapping[str, OutletSettings],
    waveforms_mmhg: Mapping[str, float],
    inflow_ml_s: float,
    exponent: float,
    density_kg_m3: float,
) -> dict[str, Outlet]:
    """What holds at each outlet.

    Parameters
    ----------
    openings : of the vessel.
    entries : settings of each outlet, by name.
    waveforms_mmhg : mean of the pressure's waveform, by name of the outlets that have one.
    inflow_ml_s : mean flow into the vessel.
    exponent : of the radius in Murray's law.
    density_kg_m3 : of blood.

    Raises
    ------
    StageError
        If the parts of the flow do not add up, or a resistance does not follow from what is given.
    """
    areas = {o.name: o.area_mm2 for o in openings}
    if not any(entry.windkessel or entry.flow_fraction for entry in entries.values()):
        return {name: Outlet(entry.pressure_mmhg + waveforms_mmhg.get(name, 0.0)) for name, entry in entries.items()}
    fractions = flow_fractions(openings, entries, exponent)
    demanded = [name for name, entry in entries.items() if entry.flow_fraction and not entry.windkessel]
    if len(demanded) == len(entries):  # the pressure must be held somewhere
        demanded.remove(max(demanded, key=lambda name: areas[name]))
    resistances = {
        name: _resistances(
            name,
            entry.windkessel,
            entry.pressure_mmhg,
            fractions[name] * inflow_ml_s,
            density_kg_m3 * WAVE_SPEED_M_S / areas[name] / PASCAL_PER_MMHG,
        )
        for name, entry in entries.items()
        if entry.windkessel
    }
    behind = _with_compliances(entries, resistances, areas)
    outlets = {}
    for name, entry in entries.items():
        split = fractions[name] if entry.windkessel or entry.flow_fraction else None
        pressure_mmhg = entry.pressure_mmhg + waveforms_mmhg.get(name, 0.0)
        outlets[name] = Outlet(pressure_mmhg, split, behind.get(name), name in demanded)
    known = any(entry.windkessel and entry.windkessel.distal_mmhg_s_ml is not None for entry in entries.values())
    if known or (behind and len(outlets) > len(behind) + len(demanded)):  # a pressure that is held decides for all
        return _steady(outlets, inflow_ml_s)
    return outlets


def outlets_of(openings: tuple[Opening, ...], settings: OpeningSettings, waveforms: Waveforms) -> dict[str, Outlet]:
    """What settings and waves make hold at each outlet, by name, which fails as :func:`choose_outlets` does.

    Parameters
    ----------
    openings : of the vessel.
    settings : of the outlets and of blood.
    waveforms : flow through the inlets, and pressure of the outlets that have a waveform.
    """
    entries = by_opening(openings, "outlet", settings.outlets)
    means = {name: curve.mean for name, curve in waveforms.pressure_mmhg.items()}
    return choose_outlets(
        openings, entries, means, waveforms.mean_ml_s, settings.murray_exponent, settings.density_kg_m3
    )


def _resistances(
    name: str, given: WindkesselSettings, pressure_mmhg: float, flow_ml_s: float, impedance_mmhg_s_ml: float
) -> tuple[float, float]:
    """Rp and Rd; `impedance_mmhg_s_ml` is rho c/A."""
    proximal, distal = given.proximal_mmhg_s_ml, given.distal_mmhg_s_ml
    if given.elements == 2:
        if proximal:
            raise StageError(
                f"solve.outlets.{name}.windkessel: elements 2 has no proximal_mmhg_s_ml ({proximal:g} is given); leave"
                " it out, or choose 3 elements"
            )
        proximal = 0.0
    if distal is not None:
        part = PROXIMAL_PART / (1 - PROXIMAL_PART) * distal
        return min(impedance_mmhg_s_ml, part) if proximal is None else proximal, distal
    total = (pressure_mmhg - given.distal_pressure_mmhg) / flow_ml_s
    if proximal is None:
        proximal = min(impedance_mmhg_s_ml, PROXIMAL_PART * total)
    if not total > max(proximal, 0.0):
        raise StageError(
            f"solve.outlets.{name}: pressure_mmhg {pressure_mmhg:g}, distal_pressure_mmhg "
            f"{given.distal_pressure_mmhg:g} and a flow of {flow_ml_s:.3g} mL/s make {total:.3g} mmHg s/mL, which must"
            f" be above the proximal resistance ({proximal:.3g}); raise pressure_mmhg (arteries have about 90), or give"
            " distal_mmhg_s_ml"
        )
    return proximal, total - proximal


def _with_compliances(
    entries: Mapping[str, OutletSettings], resistances: Mapping[str, tuple[float, float]], areas: Mapping[str, float]
) -> dict[str, Windkessel]:
    """Windkessels whose compliances are given, or share by area what gives all of them their time constants."""
    settings = {name: entry.windkessel for name, entry in entries.items() if entry.windkessel}
    free = {name: each for name, each in settings.items() if each.compliance_ml_mmhg is None}
    total = sum(each.time_constant_s / resistances[name][1] for name, each in free.items())
    area = sum(areas[name] for name in free)
    return {
        name: Windkessel(
            *resistances[name],
            total * areas[name] / area if each.compliance_ml_mmhg is None else each.compliance_ml_mmhg,
            each.distal_pressure_mmhg,
        )
        for name, each in settings.items()
    }


def _steady(outlets: dict[str, Outlet], inflow_ml_s: float) -> dict[str, Outlet]:
    """The outlets with what resistances that are given make of flow and pressure, the same pressure at all of them.

    Where an outlet's pressure is given it is this; else the flows of all Windkessels add up to what is left for them.
    """
    held = [o.pressure_mmhg for o in outlets.values() if not (o.windkessel or o.demanded)]
    behind = {name: o.windkessel for name, o in outlets.items() if o.windkessel}
    conductance = sum(1 / each.resistance_mmhg_s_ml for each in behind.values())
    offset = sum(each.distal_pressure_mmhg / each.resistance_mmhg_s_ml for each in behind.values())
    left = inflow_ml_s * (1 - sum(o.fraction or 0.0 for o in outlets.values() if o.demanded))
    pressure = float(np.mean(held)) if held else (left + offset) / conductance
    answer = {}
    for name, outlet in outlets.items():
        if each := behind.get(name):
            flow = (pressure - each.distal_pressure_mmhg) / each.resistance_mmhg_s_ml
            outlet = Outlet(pressure, flow / inflow_ml_s, each)
        elif outlet.demanded:
            outlet = replace(outlet, pressure_mmhg=pressure)
        answer[name] = outlet
    return answer


PASCAL_S_M3_PER_MMHG_S_ML = 1e6 * PASCAL_PER_MMHG
