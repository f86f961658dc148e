# SPDX-License-Identifier: Apache-2.0
"""Figures of a network that was computed: a row for each segment, and indices of the whole."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.case.settings.tree import Landmarks
from pipeline.haemodynamics.pulse import Waves, augmentation, ejection_s, foot_s, later_s, separated
from pipeline.haemodynamics.tree_waveforms import Waveforms
from pipeline.network.case_network import by_side, fitting
from pipeline.network.for_solver import ML
from pipeline.network.network_file import Network
from pipeline.network.walls import wave_speed_m_s
from pipeline.network.ways import Ways, distance_mm, first_inlet, ways_from
from solver.boundary.windkessel import PASCAL_PER_MMHG
from solver.network import network as si
from solver.network.arterial_walls import along

Reals = NDArray[np.float64]

L_MIN = 60.0 / 1e-3
"""L/min of 1 m3/s."""
STILL_MMHG = 1e-6
"""Of the pulse pressure, below which nothing pulsates."""
SIDES = ("R", "L", "")
Place = tuple[str, float]
"""Segment, and part of its length."""


@dataclass(frozen=True)
class Tree:
    """A network with its waveforms.

    Attributes
    ----------
    network : with its edits, as the file's keys state it.
    stated : the same as the solver took it.
    found : waveforms at five places of each segment.
    """

    network: Network
    stated: si.Network
    found: Waveforms

    @property
    def inlet(self) -> Place:
        """Where blood comes in first: the segment there, and which of its ends it is."""
        node = first_inlet(self.network)
        name = next(name for name, segment in self.network.segments.items() if node in segment.nodes)
        return name, 0.0 if self.network.segments[name].nodes[0] == node else 1.0

    @property
    def inflow_m3_s(self) -> Reals:
        """Flow into the network over the cycle, through all inlets, (samples,)."""
        total = np.zeros(len(self.found.time_s))
        for node in self.network.inlets:
            for name, segment in self.network.segments.items():
                if node in segment.nodes:
                    start = segment.nodes[0] == node
                    total += (1 if start else -1) * self.found.flow_m3_s[
                        :, self.found.number(name, 0.0 if start else 1.0)
                    ]
        return total

    def wave_speed_m_s(self, k: int) -> float:
        """C at a place, at the mean area of the cycle."""
        segment = self.stated.segment(self.found.segment[k])
        part = float(self.found.part[k])
        radius = float(along(segment.radius_m, np.array([part]))[0])
        stretch = sqrt(float(self.found.area_m2[:, k].mean()) / pi) / radius
        return wave_speed_m_s(segment.wall, segment.radius_m, self.stated.blood.density_kg_m3, part, stretch)

    def impedance_pa_s_m3(self, k: int) -> float:
        """Z = rho c/A at a place, at the mean area of the cycle."""
        density = self.stated.blood.density_kg_m3
        return density * self.wave_speed_m_s(k) / float(self.found.area_m2[:, k].mean())

    def waves(self, k: int, away: int = 1) -> Waves:
        """Forward and backward waves at a place; `away` is -1 where the heart is at the segment's end."""
        found = self.found
        area = float(found.area_m2[:, k].mean())
        flow = away * found.flow_m3_s[:, k]
        return separated(found.pressure_pa[:, k], flow, self.impedance_pa_s_m3(k), area, found.period_s)


def segment_rows(tree: Tree) -> list[dict[str, Any]]:
    """A row for each segment, of its middle where nothing else is said; pressures in mmHg, flows from start to end.

    ``peak_velocity_m_s`` is the largest mean velocity of the section at any of five places; Reynolds number
    2 R |u| rho/mu of the cycle's mean speed, Womersley number R sqrt(2 pi rho/(T mu)), characteristic impedance
    rho c/A.
    """
    inflow = float(tree.inflow_m3_s.mean())
    return [_row(tree, name, inflow) for name in tree.network.segments]


def _row(tree: Tree, name: str, inflow_m3_s: float) -> dict[str, Any]:
    found, blood = tree.found, tree.stated.blood
    places = found.of_segment(name)
    k = places[len(places) // 2]
    pressure, flow = found.pressure_pa[:, k] / PASCAL_PER_MMHG, found.flow_m3_s[:, k] / ML
    radius = sqrt(float(found.area_m2[:, k].mean()) / pi)
    viscosity = blood.viscosity_pa_s / blood.density_kg_m3
    return {
        "segment": name,
        "length_mm": tree.network.segments[name].length_mm,
        "radius_mm": 1e3 * radius,
        "mean_mmhg": float(pressure.mean()),
        "systolic_mmhg": float(pressure.max()),
        "diastolic_mmhg": float(pressure.min()),
        "pulse_mmhg": float(np.ptp(pressure)),
        "flow_ml_s": float(flow.mean()),
        "flow_share": float(flow.mean()) * ML / inflow_m3_s if inflow_m3_s else None,
        "flow_min_ml_s": float(flow.min()),
        "flow_max_ml_s": float(flow.max()),
        "peak_velocity_m_s": float(np.abs(found.velocity_m_s[:, places]).max()),
        "wave_speed_m_s": tree.wave_speed_m_s(k),
        "impedance_mmhg_s_ml": tree.impedance_pa_s_m3(k) / PASCAL_PER_MMHG * ML,
        "reynolds": 2 * radius * float(np.abs(found.velocity_m_s[:, k]).mean()) / viscosity,
        "womersley": radius * sqrt(2 * pi / (found.period_s * viscosity)),
    }


def site_rows(at_sites: Tree, names: Sequence[str], ejection: float) -> list[dict[str, Any]]:
    """A row for each site, with what its waves are made of.

    Parameters
    ----------
    at_sites : a network with the waveforms of the sites alone.
    names : of the sites.
    ejection : for how long the heart ejects, s.
    """
    network, found = at_sites.network, at_sites.found
    ways = ways_from(network, first_inlet(network))
    rows = []
    for k, name in enumerate(names):
        segment, part = found.segment[k], float(found.part[k])
        pressure, flow = found.pressure_pa[:, k] / PASCAL_PER_MMHG, found.flow_m3_s[:, k] / ML
        away = 1 if _distal(network, ways, segment) == 1.0 else -1
        still = float(np.ptp(pressure)) < STILL_MMHG
        augmented = augmentation(found.pressure_pa[:, k], found.period_s, ejection)
        rows.append(
            {
                "name": name,
                "segment": segment,
                "at": part,
                "from_heart_mm": distance_mm(network, ways, segment, part),
                "mean_mmhg": float(pressure.mean()),
                "systolic_mmhg": float(pressure.max()),
                "diastolic_mmhg": float(pressure.min()),
                "pulse_mmhg": float(np.ptp(pressure)),
                "flow_ml_s": float(flow.mean()),
                "peak_velocity_m_s": float(np.abs(found.velocity_m_s[:, k]).max()),
                "wave_speed_m_s": at_sites.wave_speed_m_s(k),
                "foot_s": foot_s(found.pressure_pa[:, k], found.period_s),
                "augmentation_index": augmented.index if augmented else None,
                "reflection_magnitude": None if still else at_sites.waves(k, away).reflection_magnitude,
                "away": away,
                "impedance_pa_s_m3": at_sites.impedance_pa_s_m3(k),
                "area_m2": float(found.area_m2[:, k].mean()),
            }
        )
    return rows


@dataclass(frozen=True)
class Marks:
    """Places of the indices, each by side; those that a network has not are left out.

    Attributes
    ----------
    brachial, carotid, femoral : one place a side.
    ankle : several a side.
    aorta : the inlet, where it is of the aorta.
    """

    brachial: Mapping[str, Place]
    carotid: Mapping[str, Place]
    femoral: Mapping[str, Place]
    ankle: Mapping[str, list[Place]]
    aorta: Place | None


def marks_of(tree: Tree, landmarks: Landmarks, ways: Ways) -> Marks:
    """Where indices are taken in a network.

    Parameters
    ----------
    tree : whose segments are looked through.
    landmarks : patterns of names.
    ways : from the heart.
    """
    network = tree.network

    def by_sides(patterns: tuple[str, ...], choose: Callable[[list[str]], str]) -> dict[str, Place]:
        return {side: (choose(names), 0.5) for side, names in by_side(fitting(network, patterns)).items()}

    def longest(names: list[str]) -> str:
        return max(names, key=lambda name: network.segments[name].length_mm)

    def nearest(names: list[str]) -> str:
        return min(names, key=lambda name: distance_mm(network, ways, name, 0.5))

    inlet = tree.inlet
    return Marks(
        brachial=by_sides(landmarks.brachial, longest),
        carotid=by_sides(landmarks.carotid, longest),
        femoral=by_sides(landmarks.femoral, nearest),
        ankle={
            side: [(name, _distal(network, ways, name)) for name in names]
            for side, names in by_side(fitting(network, landmarks.ankle)).items()
        },
        aorta=inlet if inlet[0] in fitting(network, landmarks.aorta) else None,
    )


def _distal(network: Network, ways: Ways, name: str) -> float:
    first, second = network.segments[name].nodes
    return 1.0 if ways.distance_mm[second] >= ways.distance_mm[first] else 0.0


def tree_indices(tree: Tree, landmarks: Landmarks, compliance_ml_mmhg: float) -> dict[str, Any]:
    """Indices of a network, by name with the unit; none where the network has no place for it, or nothing pulsates.

    ============================  ======================================================================================
    inflow, heart                 mean flow in; from the aorta on cardiac output, stroke volume, rate
    resistance                    mean pressure at the inlet by the mean inflow (against a venous pressure of 0)
    compliance                    of all walls, at the pressure of their radii, and of all terminals together
    ankle-brachial index          larger systolic pressure at the ankle by the larger one of both arms, each side
    flow share                    mean flow at the carotid places of both sides by the mean inflow; the same, femoral
    pulse wave velocity           way from carotid to femoral place by the time between their feet
    augmentation index            see :func:`pipeline.haemodynamics.pulse.augmentation`
    reflection magnitude          see :class:`pipeline.haemodynamics.pulse.Waves`
    ============================  ======================================================================================

    Sources: docs/networks.md, Figures of a network.

    Parameters
    ----------
    tree : computed.
    landmarks : where places are looked for.
    compliance_ml_mmhg : of walls and terminals together.
    """
    ways = ways_from(tree.network, first_inlet(tree.network))
    marks = marks_of(tree, landmarks, ways)
    inflow, period = tree.inflow_m3_s, tree.found.period_s
    name, end = tree.inlet
    root = tree.found.number(name, end)
    pressure = tree.found.pressure_pa[:, root] / PASCAL_PER_MMHG
    mean = float(inflow.mean())
    ejection = ejection_s(inflow, period)
    still = float(np.ptp(pressure)) < STILL_MMHG
    return {
        "inflow_ml_s": mean / ML,
        "inlet_mean_mmhg": float(pressure.mean()),
        "inlet_systolic_mmhg": float(pressure.max()),
        "inlet_diastolic_mmhg": float(pressure.min()),
        "inlet_pulse_mmhg": float(np.ptp(pressure)),
        "resistance_mmhg_s_ml": float(pressure.mean()) / (mean / ML) if mean else None,
        "compliance_ml_mmhg": compliance_ml_mmhg,
        "reflection_magnitude": None if still else tree.waves(root, 1 if end == 0.0 else -1).reflection_magnitude,
        **_of_heart(marks, mean, period, still),
        **_flow_shares(tree, marks, mean),
        **_augmentations(tree, marks, ejection),
        **_pressures_of_arm(tree, marks),
        **_ankle_brachial(tree, marks),
        **_pulse_wave_velocity(tree, marks, ways),
    }


def _of_heart(marks: Marks, inflow_m3_s: float, period_s: float, still: bool) -> dict[str, Any]:
    if not marks.aorta:
        return {"cardiac_output_l_min": None, "stroke_volume_ml": None, "heart_rate_1_min": None}
    return {
        "cardiac_output_l_min": inflow_m3_s * L_MIN,
        "stroke_volume_ml": None if still else inflow_m3_s * period_s / ML,
        "heart_rate_1_min": None if still else 60.0 / period_s,
    }


def _flow_shares(tree: Tree, marks: Marks, inflow_m3_s: float) -> dict[str, Any]:
    """Shares of the inflow that go to the head by both carotid arteries, and to the legs by both femoral ones."""

    def share(places: Mapping[str, Place]) -> float | None:
        numbers = [tree.found.number(*place) for place in places.values()]
        flows = [abs(float(tree.found.flow_m3_s[:, k].mean())) for k in numbers]
        return sum(flows) / inflow_m3_s if flows and inflow_m3_s > 0 else None

    return {"flow_share_carotids": share(marks.carotid), "flow_share_femorals": share(marks.femoral)}


def _pulse(tree: Tree, place: Place) -> Reals:
    return tree.found.pressure_pa[:, tree.found.number(*place)]


def _systolic_mmhg(tree: Tree, place: Place) -> float:
    return float(_pulse(tree, place).max()) / PASCAL_PER_MMHG


def _first(places: Mapping[str, Any]) -> Any:
    """Of the right side, or else of the left one, or of none."""
    return next((places[side] for side in SIDES if side in places), None)


def _augmentations(tree: Tree, marks: Marks, ejection: float) -> dict[str, Any]:
    found = {"aortic": marks.aorta, "carotid": _first(marks.carotid)}
    values = {
        name: augmentation(_pulse(tree, place), tree.found.period_s, ejection) if place else None
        for name, place in found.items()
    }
    return {f"augmentation_index_{name}": value.index if value else None for name, value in values.items()}


def _pressures_of_arm(tree: Tree, marks: Marks) -> dict[str, Any]:
    place = _first(marks.brachial)
    pressure = _pulse(tree, place) / PASCAL_PER_MMHG if place else None
    keys = ("brachial_systolic_mmhg", "brachial_diastolic_mmhg")
    return (
        dict.fromkeys(keys)
        if pressure is None
        else dict(zip(keys, map(float, (pressure.max(), pressure.min())), strict=True))
    )


def _ankle_brachial(tree: Tree, marks: Marks) -> dict[str, Any]:
    arms = [_systolic_mmhg(tree, place) for place in marks.brachial.values()]
    legs = {
        side: max(_systolic_mmhg(tree, place) for place in places) / max(arms)
        for side, places in marks.ankle.items()
        if arms
    }
    return {
        "ankle_brachial_index": min(legs.values(), default=None),
        "ankle_brachial_index_right": legs.get("R"),
        "ankle_brachial_index_left": legs.get("L"),
    }


def _pulse_wave_velocity(tree: Tree, marks: Marks, ways: Ways) -> dict[str, Any]:
    side = next((side for side in SIDES if side in marks.carotid and side in marks.femoral), None)
    if side is None:
        return {"pulse_wave_velocity_m_s": None}
    places = marks.carotid[side], marks.femoral[side]
    feet = [foot_s(_pulse(tree, place), tree.found.period_s) for place in places]
    if feet[0] is None or feet[1] is None:
        return {"pulse_wave_velocity_m_s": None}
    near, far = (distance_mm(tree.network, ways, *place) for place in places)
    time = later_s(feet[0], feet[1], tree.found.period_s)
    return {"pulse_wave_velocity_m_s": 1e-3 * (far - near) / time if time * (far - near) > 0 else None}
