# SPDX-License-Identifier: Apache-2.0
"""Orders of convergence are compared with their bound, or with what is held for a reason."""

import pytest

from validation.evidence import Evidence
from validation.studies.held_order import HeldOrder, reach_order

SIZES = [(10, 0.04), (20, 0.02), (40, 0.01)]


def test_an_order_is_compared_with_its_bound_or_with_what_is_held():
    evidence = Evidence("x", "x", "x")
    reach_order(evidence, "bound", SIZES, 1.8, None)
    reach_order(evidence, "held", SIZES, 1.8, HeldOrder(order=0.9, why="coarse lattices are as good"))
    plain, held = evidence.goals
    assert plain.reached == pytest.approx(1.0)
    assert (plain.stands, held.stands) == (False, True)
    assert not held.met
    assert (held.held, held.why) == (0.9, "coarse lattices are as good")
    assert (plain.held, plain.why) == (1.8, "")
