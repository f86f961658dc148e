# SPDX-License-Identifier: Apache-2.0
"""What holds where a network ends: inlets, the heart, terminals, and places to which another solver is coupled.

Plain data in SI. Flows of inlets count into the network, those of terminals and of coupled nodes out of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from solver.boundary.curves import Curve, spline


@dataclass(frozen=True)
class FlowInlet:
    """A flow into the network over time.

    Attributes
    ----------
    flow_m3_s : over time; its period is that of the network, or it is constant.
    """

    flow_m3_s: Curve


@dataclass(frozen=True)
class PressureOpening:
    """A pressure over time, at an inlet or at a terminal.

    Attributes
    ----------
    pressure_pa : over time; its period is that of the network, or it is constant.
    """

    pressure_pa: Curve


@dataclass(frozen=True)
class Heart:
    """A ventricle of time-varying elastance between two valves, in front of the network.

    The pressure of the ventricle is p_v = E(t) (V - V0) (Suga and Sagawa 1974). Blood leaves while p_v is above the
    pressure p of the first artery, p_v - p = R Q + B Q^2, and comes in while p_v is below that of the atrium,
    p_a - p_v = R_m Q_m; both valves are shut otherwise.

    Attributes
    ----------
    elastance_pa_m3 : E over time, above 0; see :func:`double_hill`.
    unstressed_m3 : V0.
    atrium_pa : p_a.
    mitral_pa_s_m3 : R_m.
    valve_pa_s_m3 : R.
    valve_pa_s2_m6 : B; of an orifice of the area A_v it is rho/(2 A_v^2).
    start_m3 : V to begin with.
    """

    elastance_pa_m3: Curve
    unstressed_m3: float
    atrium_pa: float
    mitral_pa_s_m3: float
    valve_pa_s_m3: float
    valve_pa_s2_m6: float
    start_m3: float


@dataclass(frozen=True)
class Resistance:
    """Vessels behind a terminal without compliance: p - p_b = R Q.

    Attributes
    ----------
    resistance_pa_s_m3 : R.
    back_pa : p_b.
    """

    resistance_pa_s_m3: float
    back_pa: float = 0.0


@dataclass(frozen=True)
class Windkessel:
    """Vessels behind a terminal: p = p_c + R1 Q, C dp_c/dt = Q - (p_c - p_b)/R2.

    Attributes
    ----------
    proximal_pa_s_m3 : R1.
    distal_pa_s_m3 : R2.
    compliance_m3_pa : C.
    back_pa : p_b.
    start_pa : p_c to begin with; none: the pressure of the segment's end.
    """

    proximal_pa_s_m3: float
    distal_pa_s_m3: float
    compliance_m3_pa: float
    back_pa: float = 0.0
    start_pa: float | None = None


@dataclass(frozen=True)
class MatchedWindkessel:
    """A :class:`Windkessel` whose proximal resistance is the impedance rho c/A of its segment's end at the reference
    pressure, and whose distal one is the rest.

    Attributes
    ----------
    total_pa_s_m3 : R1 + R2.
    compliance_m3_pa : C.
    back_pa : p_b.
    start_pa : p_c to begin with; none: the pressure of the segment's end.
    """

    total_pa_s_m3: float
    compliance_m3_pa: float
    back_pa: float = 0.0
    start_pa: float | None = None


@dataclass(frozen=True)
class Reflection:
    """An end that sends back a part of each wave that comes to it, of what deviates from the state to begin with.

    Attributes
    ----------
    part : reflected pressure by incoming pressure, above -1 and below 1; 0: a matched end.
    """

    part: float = 0.0


@dataclass(frozen=True)
class Coupled:
    """A node at which another solver gives what holds, a step at a time.

    Attributes
    ----------
    gives : what it gives: the flow out of the network, or the pressure.
    """

    gives: Literal["flow", "pressure"] = "flow"


Inlet = FlowInlet | PressureOpening | Heart
Terminal = Resistance | Windkessel | MatchedWindkessel | Reflection | PressureOpening | Coupled


def double_hill(
    least_pa_m3: float,
    largest_pa_m3: float,
    period_s: float,
    rise: tuple[float, float] = (0.303, 1.32),
    fall: tuple[float, float] = (0.508, 21.9),
    samples: int = 400,
) -> Curve:
    """Elastance of a ventricle over time, E = E_min + (E_max - E_min) k g1/(1 + g1)/(1 + g2), g_i = (t/(T a_i))^n_i.

    Source: Stergiopulos, Meister and Westerhof (1996), doi:10.1152/ajpheart.1996.270.6.H2050, whose form and parameters
    these are as parts of the period: a_1 = 0.708 t_p/T and a_2 = 1.677 a_1, where the largest value comes at
    t_p = 0.43 T (compared with three public programs); k makes that value E_max, there 1.672 by rounded figures.

    Parameters
    ----------
    least_pa_m3, largest_pa_m3 : E_min and E_max.
    period_s : T.
    rise, fall : a and n of the rise and of the fall.
    samples : through which a spline goes.
    """
    part = np.linspace(0.0, 1.0, samples + 1)
    up, down = (part / rise[0]) ** rise[1], (part / fall[0]) ** fall[1]
    shape = up / (1.0 + up) / (1.0 + down)
    shape[-1] = shape[0]
    return spline(part * period_s, least_pa_m3 + (largest_pa_m3 - least_pa_m3) * shape / shape.max())


def shared_by_area(
    radii_m: Mapping[str, float],
    resistance_pa_s_m3: float,
    compliance_m3_pa: float,
    back_pa: float = 0.0,
    exponent: float = 1.0,
) -> dict[str, MatchedWindkessel]:
    """Windkessels that share a resistance and a compliance by the area of their segments.

    Conductances share by A^n and compliances by A; all of them together have the resistance and the compliance given.

    Parameters
    ----------
    radii_m : of the ends of segments, by name of the node.
    resistance_pa_s_m3, compliance_m3_pa : of all of them together.
    back_pa : behind them.
    exponent : n; 3/2 shares as Murray's law does.
    """
    flow = {name: radius ** (2.0 * exponent) for name, radius in radii_m.items()}
    area = {name: radius**2 for name, radius in radii_m.items()}
    flows, areas = sum(flow.values()), sum(area.values())
    return {
        name: MatchedWindkessel(resistance_pa_s_m3 * flows / flow[name], compliance_m3_pa * area[name] / areas, back_pa)
        for name in radii_m
    }
