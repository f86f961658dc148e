# SPDX-License-Identifier: Apache-2.0
"""Rules by which the pressures of outlets follow from their flow (:func:`solver.boundary.openings.adjusted`).

Of a flow that pulsates those of a Windkessel, or of a flow that is demanded, as they stand.

Of a steady flow vessels of the resistance R let waves leave, as a given pressure does: by a part r = min(R, Za) of it;
and they store no more than they must. But what all outlets together let out too much or too little would change the
pressure by R, for as long as the lattice's fluid takes to empty through that. Where it is known how much leaves through
them, it is left out:

    p = p0 + r (Q - Q0) + (R - r) [Q - Q0 - part (sum of Q - Q_in)],    part in proportion to 1/(R - r),

filtered and stored as ever. No outlet feeds a wave to another then: the matrix of these resistances is symmetric, has
no negative eigenvalue, and all forget what is stored at the same rate.
"""

from collections.abc import Mapping

from solver.boundary.windkessel import Outlet, Windkessel

FILTER = 0.1
"""Part of a change of the flow that a pressure without resistance would follow in a step: 1, with the impedance of
waves alone, lets the flow oscillate from step to step at small tau, 0.2 does not down to tau = 0.505."""
STORED = 0.1
"""Impedances by which the pressure that an outlet stores rises in a step at most, for the same reason: the compliance
is that of 10/sqrt(3) layers of the lattice's fluid at least."""
GAIN, DAMPING = 0.05, 1.0
"""Of a demanded flow: pressure added up in a step, and added at once, over the impedance times the missing flow."""

Rule = tuple[float, float, float, float]


def forgotten_in_step(behind: Windkessel, impedance_mmhg_s_ml: float, dt_s: float) -> float:
    """Part of what an outlet of a flow that pulsates has stored that it loses in a step.

    Parameters
    ----------
    behind : its vessels.
    impedance_mmhg_s_ml : Za of the lattice's fluid.
    dt_s : time step.
    """
    return min(behind.forgotten(dt_s), STORED * impedance_mmhg_s_ml / behind.distal_mmhg_s_ml)


def feedback_rule(outlet: Outlet, impedance_mmhg_s_ml: float, dt_s: float) -> Rule:
    """Alpha, decay, gain and resistance of an outlet with a Windkessel, or of one of which a flow is demanded.

    Parameters
    ----------
    outlet : what holds there.
    impedance_mmhg_s_ml : Za of the lattice's fluid.
    dt_s : time step.
    """
    decay, gain, resistance = 1.0, GAIN * impedance_mmhg_s_ml, DAMPING * impedance_mmhg_s_ml
    if each := outlet.windkessel:
        resistance = each.proximal_mmhg_s_ml
        lost = forgotten_in_step(each, impedance_mmhg_s_ml, dt_s)
        decay, gain = 1 - lost, lost * each.distal_mmhg_s_ml
    return FILTER / (1 + resistance / impedance_mmhg_s_ml), decay, gain, resistance


def steady_rules(
    outlets: Mapping[str, Outlet], impedance_mmhg_s_ml: Mapping[str, float]
) -> dict[str, tuple[float, float, float, float, float]]:
    """Alpha, decay, gain, resistance and part of the outlets with vessels behind them in a steady flow, by name.

    Parameters
    ----------
    outlets : what holds at all of them, by name.
    impedance_mmhg_s_ml : Za of the lattice's fluid there, by name.
    """
    behind = {name: each.windkessel for name, each in outlets.items() if each.windkessel}
    near = {name: min(each.resistance_mmhg_s_ml, impedance_mmhg_s_ml[name]) for name, each in behind.items()}
    far = {name: each.resistance_mmhg_s_ml - near[name] for name, each in behind.items()}
    if len(behind) == sum(not each.demanded for each in outlets.values()) == 1:  # its flow is what is left for it
        far = dict.fromkeys(far, 0.0)
    beside = len(behind) < len(outlets)  # a given pressure, which anchors the others
    whole = 0.0 if beside or not all(far.values()) else 1 / sum(1 / each for each in far.values())
    loss = min((1.0, *(STORED * impedance_mmhg_s_ml[name] / each for name, each in far.items() if each)))
    rules = {}
    for name, each in far.items():
        alpha = FILTER / (1 + near[name] / impedance_mmhg_s_ml[name])
        rules[name] = (alpha, 1 - loss, loss * each, near[name], whole / each if each else 0.0)
    return rules
