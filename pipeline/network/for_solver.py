# SPDX-License-Identifier: Apache-2.0
"""What the solver takes of a network: plain data in SI, of which each number is one of the file's times its unit's."""

from pathlib import Path

import numpy as np

from pipeline.network import network_ends as keys
from pipeline.network.network_file import LossKeys, Network, Segment
from pipeline.network.walls import in_si, scaled, wave_speed_m_s
from solver.boundary import waveform
from solver.boundary.curves import Curve, constant
from solver.boundary.windkessel import PASCAL_PER_MMHG
from solver.network import network as si
from solver.network import network_ends
from solver.runtime.errors import StageError

ML = 1e-6
"""m3."""
PASCAL_S_M3 = PASCAL_PER_MMHG / ML
"""Of 1 mmHg s/mL."""
M3_PASCAL = ML / PASCAL_PER_MMHG
"""Of 1 mL/mmHg."""
ALIKE = 1e-6
"""Part of a period by which those of waveforms may differ, which are rounded in their files."""
STEADY_S = 1.0
"""Length of the cycles of a network in which nothing changes."""


def segment_in_si(name: str, walled: Segment, density_kg_m3: float) -> si.Segment:
    """A segment, with all keys of its wall, as the solver takes it.

    Parameters
    ----------
    name : of the segment.
    walled : with all keys of its wall.
    density_kg_m3 : of the blood.
    """
    radius = scaled(walled.radius_mm, 1e-3)
    narrow, alpha = None, walled.momentum_correction or 1.0
    if stenosis := walled.stenosis:
        narrow = si.Stenosis(stenosis.normal_radius_mm * 1e-3, min(walled.radii_mm) * 1e-3, None, stenosis.turbulent)
    return si.Segment(
        name=name,
        start=walled.nodes[0],
        end=walled.nodes[1],
        length_m=walled.length_mm * 1e-3,
        radius_m=radius,
        wall=in_si(walled, radius, density_kg_m3),
        profile_exponent=(exponent := walled.profile_exponent or si.POISEUILLE),
        momentum=(exponent + 2) / (exponent + 1) if alpha == "profile" else alpha,
        external_pa=(walled.external_pressure_kpa or 0.0) * 1e3,
        stenosis=narrow,
        loss=None if walled.loss is None else _loss(walled.loss),
    )


def _loss(stated: LossKeys) -> si.Loss:
    return si.Loss(stated.resistance_mmhg_s_ml * PASCAL_S_M3, stated.square_mmhg_s2_ml2 * PASCAL_S_M3 / ML)


def impedance_pa_s_m3(segment: si.Segment, node: str, density_kg_m3: float) -> float:
    """Characteristic impedance rho c / A0 of a segment's end.

    Parameters
    ----------
    segment : in SI.
    node : at the end that is meant.
    density_kg_m3 : of the blood.
    """
    part = 0.0 if node == segment.start else 1.0
    radius = np.atleast_1d(segment.radius_m)[0 if part == 0.0 else -1]
    speed = wave_speed_m_s(segment.wall, segment.radius_m, density_kg_m3, part)
    return float(density_kg_m3 * speed / (np.pi * radius**2))


def for_solver(network: Network, name: str = "network") -> si.Network:
    """A checked network as the solver takes it.

    Parameters
    ----------
    network : with its edits applied.
    name : of it, for messages.

    Raises
    ------
    StageError
        If a waveform's file does not hold one, or periods differ.
    """
    density = network.blood.density_kg_m3
    segments = {each: segment_in_si(each, network.walled(each), density) for each in network.segments}
    inlets = {node: _inlet(inlet, density) for node, inlet in network.inlets.items()}
    behind = _terminals(network, segments)
    pressure = network.initial_pressure_mmhg
    return si.Network(
        segments=tuple(segments.values()),
        inlets=inlets,
        terminals=behind,
        period_s=_period_s(network, name, {**inlets, **behind}),
        blood=si.Blood(density, network.blood.viscosity_pa_s),
        junctions=network.junctions,
        initial_pa=None if pressure is None else pressure * PASCAL_PER_MMHG,
        name=name,
        sources=network.sources,
    )


def _inlet(inlet: keys.Inlet, density_kg_m3: float) -> network_ends.Inlet:
    if inlet.heart:
        return _heart(inlet.heart, density_kg_m3)
    if inlet.pressure_waveform or inlet.pressure_mmhg is not None:
        return _pressure(inlet.pressure_mmhg or 0.0, inlet.pressure_waveform, inlet.interpolation)
    if not inlet.flow_waveform:
        return network_ends.FlowInlet(constant((inlet.flow_ml_s or 0.0) * ML))
    curve = _curve(inlet.flow_waveform, "flow_ml_s", inlet.interpolation)
    if inlet.flow_ml_s is not None:
        if not curve.mean:
            raise StageError(
                f"waveform {Path(inlet.flow_waveform).name}: has no mean flow, that flow_ml_s = {inlet.flow_ml_s:g}"
                " could be; leave flow_ml_s out"
            )
        curve = curve.scaled(inlet.flow_ml_s / curve.mean)
    return network_ends.FlowInlet(curve.scaled(ML))


def _pressure(mmhg: float, file: str | None, interpolation: str) -> network_ends.PressureOpening:
    if not file:
        return network_ends.PressureOpening(constant(mmhg * PASCAL_PER_MMHG))
    return network_ends.PressureOpening(_curve(file, "pressure_mmhg", interpolation, mmhg).scaled(PASCAL_PER_MMHG))


def _curve(file: str, column: str, interpolation: str, more: float = 0.0) -> Curve:
    """Curve through the samples of a file, `more` added to each."""
    time_s, value = waveform.read_samples(Path(file), column)
    return waveform.interpolated(time_s, value + more, interpolation)


def _heart(heart: keys.Ventricle, density_kg_m3: float) -> network_ends.Heart:
    least, largest = heart.least_mmhg_ml / M3_PASCAL, heart.largest_mmhg_ml / M3_PASCAL
    return network_ends.Heart(
        elastance_pa_m3=network_ends.double_hill(least, largest, heart.period_s),
        unstressed_m3=heart.unstressed_ml * ML,
        atrium_pa=heart.atrium_mmhg * PASCAL_PER_MMHG,
        mitral_pa_s_m3=heart.mitral_mmhg_s_ml * PASCAL_S_M3,
        valve_pa_s_m3=heart.valve_mmhg_s_ml * PASCAL_S_M3,
        valve_pa_s2_m6=density_kg_m3 / (2 * (heart.valve_area_mm2 * 1e-6) ** 2),
        start_m3=heart.start_ml * ML,
    )


def _terminals(network: Network, segments: dict[str, si.Segment]) -> dict[str, network_ends.Terminal]:
    """What lies behind each end that is no inlet; of those that share by area, as much as each gets."""
    found: dict[str, network_ends.Terminal] = {}
    sharing: dict[int, tuple[keys.ByArea, list[str]]] = {}
    behind, ends = network.behind(), network.ends()
    for node, given in behind.items():
        if isinstance(given, keys.ByArea):
            sharing.setdefault(id(given), (given, []))[1].append(node)
        else:
            found[node] = _terminal(given, segments[ends[node][0]], node, network.blood.density_kg_m3)
    for by_area, nodes in sharing.values():
        radii = {node: network.segments[ends[node][0]].end_radius_mm(node) * 1e-3 for node in nodes}
        found |= _shared(by_area, radii)
    return {node: found[node] for node in behind}


def _terminal(given: keys.Terminal, segment: si.Segment, node: str, density_kg_m3: float) -> network_ends.Terminal:
    if isinstance(given, keys.Pressure):
        return _pressure(given.pressure_mmhg, given.pressure_waveform, given.interpolation)
    if isinstance(given, keys.Matched | keys.Reflection):
        return network_ends.Reflection(given.part if isinstance(given, keys.Reflection) else 0.0)
    if isinstance(given, keys.Resistance):
        return network_ends.Resistance(
            given.resistance_mmhg_s_ml * PASCAL_S_M3, given.distal_pressure_mmhg * PASCAL_PER_MMHG
        )
    assert isinstance(given, keys.Rcr)
    compliance, back = given.compliance_ml_mmhg * M3_PASCAL, given.distal_pressure_mmhg * PASCAL_PER_MMHG
    if given.proximal_mmhg_s_ml == "matched" and given.total_mmhg_s_ml:
        return network_ends.MatchedWindkessel(given.total_mmhg_s_ml * PASCAL_S_M3, compliance, back)
    if given.proximal_mmhg_s_ml == "matched":
        proximal = impedance_pa_s_m3(segment, node, density_kg_m3)
    else:
        proximal = given.proximal_mmhg_s_ml * PASCAL_S_M3
    if given.total_mmhg_s_ml:
        return network_ends.Windkessel(proximal, given.total_mmhg_s_ml * PASCAL_S_M3 - proximal, compliance, back)
    return network_ends.Windkessel(proximal, (given.distal_mmhg_s_ml or 0.0) * PASCAL_S_M3, compliance, back)


def _shared(given: keys.ByArea, radii_m: dict[str, float]) -> dict[str, network_ends.Terminal]:
    """Terminals that share by area, by node."""
    back, compliance = given.distal_pressure_mmhg * PASCAL_PER_MMHG, given.compliance_ml_mmhg * M3_PASCAL
    each = network_ends.shared_by_area(
        radii_m, given.resistance_mmhg_s_ml * PASCAL_S_M3, compliance, back, exponent=given.power
    )
    if compliance:
        return {**each}
    return {node: network_ends.Resistance(found.total_pa_s_m3, back) for node, found in each.items()}


def _period_s(network: Network, name: str, given: dict[str, network_ends.Inlet | network_ends.Terminal]) -> float:
    """Length of a cycle, which all curves have, and the key period_s if it is given."""
    periods = {node: value.period_s for node, each in given.items() for value in _curves(each) if value.period_s}
    if network.period_s:
        periods["period_s"] = network.period_s
    first = next(iter(periods.values()), STEADY_S)
    if any(abs(period - first) > ALIKE * first for period in periods.values()):
        listed = ", ".join(f"{place} {period:g} s" for place, period in periods.items())
        raise StageError(f"{name}: periods differ ({listed}); a network has one: give waveforms and hearts the same")
    return first


def _curves(opening: network_ends.Inlet | network_ends.Terminal) -> list[Curve]:
    return [value for value in vars(opening).values() if hasattr(value, "period_s")]
