# SPDX-License-Identifier: Apache-2.0
"""Nodes of a network as flat arrays for compiled loops: who meets where, and what is behind openings."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solver.boundary.curves import Curve, constant
from solver.network.junctions import FLOW, HEART, LOAD, REFLECTION, Junctions, Openings
from solver.network.loop import SIGNAL, VENTRICLE, WINDKESSEL, Behind
from solver.network.network import Network
from solver.network.network_ends import (
    Coupled,
    FlowInlet,
    Heart,
    Inlet,
    MatchedWindkessel,
    PressureOpening,
    Reflection,
    Resistance,
    Terminal,
    Windkessel,
)
from solver.runtime.errors import StageError

Reals = NDArray[np.float64]

NOTHING = constant(0.0)
"""Signal of an opening that has none."""
SAME_PERIOD = 1e-6
"""Part by which the period of a waveform may differ from that of the network."""


@dataclass(frozen=True)
class Opening:
    """An opening in numbers; attributes are those of :class:`Openings` and :class:`Behind`."""

    kind: int
    source: int = SIGNAL
    signal: Curve = NOTHING
    sign: float = 1.0
    resistance: float = 0.0
    square: float = 0.0
    distal: float = 0.0
    back: float = 0.0
    time_constant: float = 0.0
    unstressed: float = 0.0
    atrium: float = 0.0
    mitral: float = 1.0
    start: float = 0.0


def ends_of(network: Network) -> dict[str, list[int]]:
    """Numbers of segments' ends at each node: 2 s for the start of segment s, 2 s + 1 for its end."""
    found: dict[str, list[int]] = {}
    for s, segment in enumerate(network.segments):
        found.setdefault(segment.start, []).append(2 * s)
        found.setdefault(segment.end, []).append(2 * s + 1)
    return found


def make_junctions(network: Network) -> Junctions:
    """Nodes where segments meet; the static pressure is the same only where three or more do, if it is at all."""
    meeting = [ends for ends in ends_of(network).values() if len(ends) > 1]
    first = np.cumsum([0, *map(len, meeting)])
    static = [network.junctions == "static" and len(ends) > 2 for ends in meeting]
    joined = [end for ends in meeting for end in ends]
    return Junctions(first.astype(np.int64), np.array(joined, np.int64), np.array(static, np.bool_))


def opening_nodes(network: Network) -> dict[str, Inlet | Terminal]:
    """What holds at each node where a segment ends alone, inlets first."""
    return {**network.inlets, **network.terminals}


def make_openings(
    network: Network, impedance: Reals, rest_pressure: Reals, rest_celerity: Reals
) -> tuple[Openings, list[Opening]]:
    """Openings for compiled loops, and in numbers.

    Parameters
    ----------
    network : as stated.
    impedance : rho c/A at ends of segments at the reference pressure, (2 S,), Pa s/m^3.
    rest_pressure, rest_celerity : at ends of segments to begin with, (2 S,), Pa and m/s.

    Raises
    ------
    StageError
        If a waveform has another period, or a resistance is less than the impedance that it is to match.
    """
    ends = ends_of(network)
    nodes = opening_nodes(network)
    end = np.array([ends[node][0] for node in nodes], np.int64)
    each = [
        _opening(network, node, what, float(impedance[e]), float(rest_pressure[e]))
        for (node, what), e in zip(nodes.items(), end, strict=True)
    ]
    return Openings(
        end,
        np.array([o.kind for o in each], np.int64),
        np.array([o.resistance for o in each], np.float64),
        np.array([o.square for o in each], np.float64),
        rest_pressure[end],
        rest_celerity[end],
    ), each


def _opening(network: Network, node: str, what: Inlet | Terminal, impedance: float, pressure: float) -> Opening:
    """An opening in numbers."""
    match what:
        case FlowInlet():
            return Opening(FLOW, signal=_checked(network, node, what.flow_m3_s), sign=-1.0)
        case PressureOpening():
            return Opening(LOAD, signal=_checked(network, node, what.pressure_pa))
        case Resistance():
            return Opening(LOAD, signal=constant(what.back_pa), resistance=what.resistance_pa_s_m3)
        case Reflection():
            return Opening(REFLECTION, resistance=(1.0 + what.part) / (1.0 - what.part))
        case Coupled():
            return Opening(FLOW if what.gives == "flow" else LOAD)
        case Windkessel():
            return _windkessel(what, pressure)
        case MatchedWindkessel():
            distal = what.total_pa_s_m3 - impedance
            if distal < 0.0:
                raise StageError(
                    f"network {network.name}: terminal at {node}: total_pa_s_m3 is {what.total_pa_s_m3:.3g}, below the"
                    f" impedance {impedance:.3g} of its segment, which it is to match; raise it, or give a Windkessel"
                )
            matched = Windkessel(impedance, distal, what.compliance_m3_pa, what.back_pa, what.start_pa)
            return _windkessel(matched, pressure)
        case Heart():
            return Opening(
                HEART,
                VENTRICLE,
                _checked(network, node, what.elastance_pa_m3),
                resistance=what.valve_pa_s_m3,
                square=what.valve_pa_s2_m6,
                unstressed=what.unstressed_m3,
                atrium=what.atrium_pa,
                mitral=what.mitral_pa_s_m3,
                start=what.start_m3,
            )


def _windkessel(what: Windkessel, pressure: float) -> Opening:
    """A Windkessel in numbers; without compliance it is a resistance."""
    if what.compliance_m3_pa == 0.0:
        total = what.proximal_pa_s_m3 + what.distal_pa_s_m3
        return Opening(LOAD, signal=constant(what.back_pa), resistance=total)
    return Opening(
        LOAD,
        WINDKESSEL,
        resistance=what.proximal_pa_s_m3,
        distal=what.distal_pa_s_m3,
        back=what.back_pa,
        time_constant=what.distal_pa_s_m3 * what.compliance_m3_pa,
        start=pressure if what.start_pa is None else what.start_pa,
    )


def _checked(network: Network, node: str, curve: Curve) -> Curve:
    """A waveform, if its period is that of the network."""
    period = curve.period_s
    if period is not None and abs(period - network.period_s) > SAME_PERIOD * network.period_s:
        raise StageError(
            f"network {network.name}: the waveform at node {node} has a period of {period:g} s, the network one of"
            f" {network.period_s:g} s; give both the same"
        )
    return curve


def make_behind(openings: list[Opening], steps: int, step_s: float) -> Behind:
    """What is behind openings, for so many steps a cycle.

    Parameters
    ----------
    openings : in numbers.
    steps : of a cycle.
    step_s : dt.
    """
    times = np.linspace(0.0, steps * step_s, steps + 1)
    signal = np.array([o.sign * o.signal.at(times) for o in openings]).reshape(len(openings), steps + 1)

    def numbers(name: str) -> Reals:
        return np.array([getattr(o, name) for o in openings], np.float64)

    constants = numbers("time_constant")
    ratio = np.divide(step_s, constants, out=np.ones(len(openings)), where=constants > 0.0)
    decay = np.exp(-ratio)
    after = 1.0 - (1.0 - decay) / ratio
    named = {name: numbers(name) for name in ("distal", "back", "unstressed", "atrium", "mitral")}
    return Behind(
        np.array([o.source for o in openings], np.int64),
        signal,
        np.zeros((2, len(openings))),
        named["distal"],
        named["back"],
        decay,
        1.0 - decay - after,
        after,
        named["unstressed"],
        named["atrium"],
        named["mitral"],
    )
