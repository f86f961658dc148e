# SPDX-License-Identifier: Apache-2.0
"""The ladder of validation for a vessel that sits in a network of arteries."""

import numpy as np
import pytest

from tests.support.coupled import fastest, pulse_through, steady_drop
from validation.evidence import Evidence

LONG = pytest.mark.timeout(6 * 3600)


@pytest.mark.slow
@pytest.mark.ladder
@LONG
def test_vessel_between_two_tubes():
    title = "A rigid pipe on the lattice between two tubes of a network"
    with Evidence("coupling", title, "Womersley's linear theory, Poiseuille") as case:
        rows, last = [], []
        for across, viscosity in ((8, 0.02), (12, 0.02), (12, 0.0035), (16, 0.02)):
            last = pulse_through(across, 1.0, (1, 5, 10), viscosity)
            for each in last:
                rows.append(
                    (
                        across,
                        viscosity,
                        each.hertz,
                        abs(each.reflected),
                        abs(each.reflected_in_theory),
                        float(np.angle(each.reflected / each.reflected_in_theory, deg=True)),
                        abs(each.through),
                        abs(each.through_in_theory),
                        float(np.angle(each.through / each.through_in_theory, deg=True)),
                    )
                )
        columns = ("reflected", "in theory", "phase off, degrees", "passed", "in theory ", "phase off, degrees ")
        note = "50 mm of radius 3 mm, pulse 6 m/s in the tubes, sound 12 m/s on the lattice."
        case.table(("nodes across", "viscosity, Pa s", "Hz", *columns), rows, note)
        drops = [(str(direction), *steady_drop(12, 0.06, direction)) for direction in ((0, 0, 1), (1, 2, 3))]
        case.table(
            ("direction", "pressure drop over Poiseuille's", "flow over the one given"),
            drops,
            "60 mm, 12 nodes across.",
        )
        speeds = [(ratio, *fastest(ratio)) for ratio in (0.2, 0.5, 1.0, 2.0, 5.0)]
        case.table(
            ("R/Za", *(f"cycle {k}" for k in range(1, 6))),
            speeds,
            "Largest speed in a cycle, lattice units: the flow turns back, and far ends send half of each wave back.",
        )
        for each in last:
            size, theory = abs(each.reflected), abs(each.reflected_in_theory)
            phase = abs(float(np.angle(each.reflected / each.reflected_in_theory, deg=True)))
            case.reach(f"16 nodes across, {each.hertz:g} Hz: reflected, off theory", abs(size - theory), at_most=0.01)
            case.reach(f"16 nodes across, {each.hertz:g} Hz: its phase, degrees", phase, at_most=3)
        for direction, drop, flow in drops:
            case.reach(f"{direction}: pressure drop, off Poiseuille's", abs(drop - 1), at_most=0.01)
            case.reach(f"{direction}: flow, off the one given", abs(flow - 1), at_most=1e-3)
        for ratio, *_, before, end in speeds:
            case.reach(f"R/Za {ratio:g}: largest speed of the last cycle over that before", end / before, at_most=1.02)
