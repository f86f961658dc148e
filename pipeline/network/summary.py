# SPDX-License-Identifier: Apache-2.0
"""What a network amounts to, in a few figures."""

from dataclasses import dataclass

import numpy as np

from pipeline.network.for_solver import M3_PASCAL, ML, PASCAL_S_M3, for_solver
from pipeline.network.network_file import Network
from pipeline.network.walls import wave_speed_m_s
from solver.network import network as si
from solver.network import network_ends
from solver.network.arterial_walls import along

PLACES = 65
"""Along a segment, over which its volume and compliance are summed."""


@dataclass(frozen=True)
class Summary:
    """Figures of a network.

    Attributes
    ----------
    segments, nodes, terminals : numbers of them.
    length_mm : of all segments together.
    volume_ml : of all segments at their external pressure.
    wall_compliance_ml_mmhg : of all their walls there, integral of A / (rho c^2).
    terminal_compliance_ml_mmhg : of all terminals.
    terminal_resistance_mmhg_s_ml : of all terminals in parallel; none if some has none.
    wave_speed_m_s : least and largest, at the ends of segments.
    period_s : of a cycle.
    """

    segments: int
    nodes: int
    terminals: int
    length_mm: float
    volume_ml: float
    wall_compliance_ml_mmhg: float
    terminal_compliance_ml_mmhg: float
    terminal_resistance_mmhg_s_ml: float | None
    wave_speed_m_s: tuple[float, float]
    period_s: float


def summary(network: Network) -> Summary:
    """Figures of a checked network with its edits applied."""
    stated = for_solver(network)
    density = stated.blood.density_kg_m3
    places = np.linspace(0, 1, PLACES)
    volume = compliance = 0.0
    speeds = []
    for segment in stated.segments:
        area = np.pi * along(segment.radius_m, places) ** 2
        speed = np.array([wave_speed_m_s(segment.wall, segment.radius_m, density, place) for place in places])
        volume += float(np.trapezoid(area, places)) * segment.length_m
        compliance += float(np.trapezoid(area / (density * speed**2), places)) * segment.length_m
        speeds += [speed[0], speed[-1]]
    resistances = [_resistance(stated, node) for node in stated.terminals]
    flows = [1 / each if each else None for each in resistances]
    behind = sum(getattr(each, "compliance_m3_pa", 0.0) for each in stated.terminals.values())
    total = None if None in flows or not flows else 1 / sum(filter(None, flows)) / PASCAL_S_M3
    return Summary(
        segments=len(stated.segments),
        nodes=len(stated.nodes),
        terminals=len(stated.terminals),
        length_mm=sum(segment.length_m for segment in stated.segments) * 1e3,
        volume_ml=volume / ML,
        wall_compliance_ml_mmhg=compliance / M3_PASCAL,
        terminal_compliance_ml_mmhg=behind / M3_PASCAL,
        terminal_resistance_mmhg_s_ml=total,
        wave_speed_m_s=(float(min(speeds)), float(max(speeds))),
        period_s=stated.period_s,
    )


def _resistance(network: si.Network, node: str) -> float | None:
    """Resistance behind a terminal, Pa s/m3; none where it has none."""
    terminal = network.terminals[node]
    if isinstance(terminal, network_ends.Resistance):
        return terminal.resistance_pa_s_m3
    if isinstance(terminal, network_ends.Windkessel):
        return terminal.proximal_pa_s_m3 + terminal.distal_pa_s_m3
    return terminal.total_pa_s_m3 if isinstance(terminal, network_ends.MatchedWindkessel) else None
